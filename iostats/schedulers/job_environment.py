"""
The facts in a job's environment, and in the files that it names, for the schedulers' `about`.

A user writes the environment and a prolog of root's reads it: nothing in it makes these raise, or
wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, TypedDict

    class JobAbout(TypedDict, total=False):
        """The facts of a job in its environment, without the unknown ones."""

        job: str
        scheduler: str
        shown_as: str       # the id by which users know it, if that is another
        attempt: int
        nodes: str          # a node list
        user: str
        uid: int
        account: str
        partition: str
        cluster: str
        output: str
        work_dir: str

from iostats.base import job_id, node_list
from iostats.base.errors import UsageError

_LONGEST_FILE = 1 << 24             # a host file with a line for each of 500,000 tasks


def get_variable(environ: Mapping[str, str], *variables: str) -> str:
    """The first of `variables` that is set to one printable line; "" for none."""
    for variable in variables:
        text = (environ.get(variable) or "").strip()
        if text and text.isprintable() and len(text) <= 4096:
            return text
    return ""


def find_job(environ: Mapping[str, str], variable: str) -> str:
    """The job id in `variable`; "" if it is unset or invalid."""
    try:
        return job_id.check_job_id(environ.get(variable) or "", variable)
    except UsageError:
        return ""


def drop_unknown(**about: object) -> JobAbout:
    """The members without unknown values."""
    known: Any = {name: value for name, value in about.items() if value not in ("", None)}
    members: JobAbout = known
    return members


def read_host_file(path: str | None) -> list[str]:
    """
    Return [first word] of each line of a file with hosts; [] if it is unreadable.

    A prolog opens it as root, and the path may be the user's: it never waits for a FIFO, and
    nothing but names of nodes comes out.
    """
    if not path:
        return []
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            if os.fstat(file).st_mode & 0o170000 != 0o100000:             # no regular file
                return []
            with os.fdopen(os.dup(file), "rb") as stream:
                data = stream.read(_LONGEST_FILE + 1)
        finally:
            os.close(file)
    except (OSError, ValueError):                                         # ValueError: a NUL
        return []
    lines = data.decode("ascii", "replace").splitlines() if len(data) <= _LONGEST_FILE else []
    return [line.split()[0] for line in lines if line.strip()]


def as_list(hosts: Iterable[str]) -> str:
    """
    Hosts as a node list, each once, in their order; "" if a name is invalid: an incomplete list
    would be taken for the whole.
    """
    hosts = list(dict.fromkeys(hosts))
    return ",".join(hosts) if all(job_id.is_node_name(host) and not host.startswith("-")
                                  for host in hosts) else ""


def parse_node_names(nodes: str | Iterable[str] | None) -> list[str]:
    """Return [name] of `nodes`, a node list or names; UsageError.  No name can be an option."""
    try:
        names = node_list.expand_node_list(nodes) if isinstance(nodes, str) else list(nodes or ())
    except ValueError as error:
        raise UsageError(f"expected a node list such as nid[00001-00128],login1, got "
                         f"{str(error)[:40]!r}") from None
    for name in names:
        if not job_id.is_node_name(name) or name.startswith("-"):
            raise UsageError(f"expected a node's name (letters, digits and . - _ :), got "
                             f"{str(name)[:40]!r}")
    return list(dict.fromkeys(names))


def check_node_list(nodes: str) -> str:
    """A node list of valid names; "" for other texts, such as "None assigned"."""
    try:
        parse_node_names(nodes)
    except UsageError:
        return ""
    return nodes
