"""
What a job's environment tells, and the files that it names: for the schedulers' `about`.

A user writes the environment and a prolog of root's reads it: nothing in it makes these raise, or
wait.
"""

from __future__ import annotations

import os

from iostats.base import job_id, node_list
from iostats.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

_LONGEST_FILE = 1 << 24             # a host file with a line for each of 500,000 tasks


def word(environ: Mapping[str, str], *variables: str) -> str:
    """The first of `variables` that is set to one printable line; "" for none."""
    for variable in variables:
        text = (environ.get(variable) or "").strip()
        if text and text.isprintable() and len(text) <= 4096:
            return text
    return ""


def job_in(environ: Mapping[str, str], variable: str) -> str:
    """The job id in `variable`; "" where it is not set, or can't be one."""
    try:
        return job_id.checked_job_id(environ.get(variable) or "", variable)
    except UsageError:
        return ""


def known_only(**about: Any) -> dict[str, Any]:
    """The dict without what is not known."""
    return {name: value for name, value in about.items() if value not in ("", None)}


def host_file(path: str | None) -> list[str]:
    """
    [first word] of each line of a file that names hosts; [] where there is none to be had.

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
    Hosts as a node list, each once, in their order; "" if one of them can't be a node's name:
    a list that is not complete would be taken for the whole.
    """
    hosts = list(dict.fromkeys(hosts))
    return ",".join(hosts) if all(job_id.is_node_name(host) and not host.startswith("-")
                                  for host in hosts) else ""


def node_names(nodes: str | Iterable[str] | None) -> list[str]:
    """[name] of `nodes`, a node list or names; UsageError.  What comes back can't be an option."""
    try:
        found = node_list.expanded(nodes) if isinstance(nodes, str) else list(nodes or ())
    except ValueError as error:
        raise UsageError(f"expected a node list such as nid[00001-00128],login1, got "
                         f"{str(error)[:40]!r}") from None
    for name in found:
        if not job_id.is_node_name(name) or name.startswith("-"):
            raise UsageError(f"expected a node's name (letters, digits and . - _ :), got "
                             f"{str(name)[:40]!r}")
    return list(dict.fromkeys(found))


def listed(nodes: str) -> str:
    """A node list of which all are names; "" for another, such as "None assigned"."""
    try:
        node_names(nodes)
    except UsageError:
        return ""
    return nodes
