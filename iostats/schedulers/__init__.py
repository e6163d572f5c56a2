"""
The batch systems, one file each; the directory is the list.

A scheduler is a module with

    NAME                       its own name, as in site.cfg: "pbs"
    JOB_ID_VARIABLE            the environment variable that has a job's id; "" for none
    is_here(environ)           more than that variable tells whether a job runs under it; may
                               be absent
    about(environ)             {} of what the environment of a job or a prolog tells: job, attempt
                               (int), nodes (list, as text), user, uid (int), account, partition,
                               cluster, output, work_dir.  What is not told, or is no such thing,
                               has no key; nothing in an environment makes it raise.
    launchers(environ, nodes)  [[argv prefix], ...]: commands that run, all at the same time, the
                               command after the prefix once on each node; [[]] is just here.
                               `nodes` is a list of names, or a node list as text
    STAYS                      no launch is possible any more once a job is being ended
    QUOTES                     the launcher hands its command to a shell
    PASSES_ENVIRONMENT         the launcher takes the environment along; may be absent: it does not
    TELLS_LATE                 `facts` has nothing of a job from its end until some seconds later;
                               may be absent: it has
    facts(jobs, run)           {raw job: jobfacts.Facts} of those that it knows of `jobs`, by its
                               commands; `run` takes an argv and returns what subprocess.run()
                               does.  NotReadable where it does not tell
    parse_*(text)              what those commands print, as {raw job: Facts}; NotReadable

Adding a batch system is adding a file; tests/schedulers/test_schedulers.py says what one lacks.
`about` and `launchers` run on compute nodes, so what only `facts` needs is imported there.
"""

from __future__ import annotations

import os
import sys

from iostats.base import errors, job_id, node_list
from iostats.base.errors import NotReadable, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from subprocess import CompletedProcess
    from types import ModuleType
    from typing import Any

    from iostats.base.config import Config

    Run = Callable[[Sequence[str]], CompletedProcess[str]]

WITHIN_S = 10                       # a scheduler's command that takes longer is not waited for
_LONGEST_FILE = 1 << 24             # a host file with a line for each of 500,000 tasks
_FIRST, _LAST = "slurm", "none"
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def names() -> list[str]:
    """The batch systems that there are, in the order in which `here` looks for them."""
    found = []
    for filename in os.listdir(os.path.dirname(__file__)):
        name, dot_py = os.path.splitext(filename)
        if dot_py == ".py" and not name.startswith("_"):
            found.append(name)
    return sorted(found, key=lambda name: (name != _FIRST, name == _LAST, name))


def named(name: str) -> ModuleType:
    """The module of batch system `name`; UsageError."""
    if name not in names():
        raise UsageError(f"no batch system {name[:40]!r}; there are: {', '.join(sorted(names()))}")
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def here(environ: Mapping[str, str]) -> ModuleType:
    """The module of the batch system whose job has this environment; `none` for no job's."""
    for name in names():
        module = named(name)
        is_here = getattr(module, "is_here", None)
        if is_here(environ) if is_here else environ.get(module.JOB_ID_VARIABLE):
            return module
    return module


def chosen(config: Config, environ: Mapping[str, str]) -> ModuleType:
    """The module that site.cfg names ([batch] system), or else that of `here`."""
    return named(config["batch.system"]) if config["batch.system"] else here(environ)


def that_answers(config: Config, environ: Mapping[str, str]) -> ModuleType | None:
    """The module of the batch system that can be asked here, in a job or on a login node; None."""
    import shutil
    if config["batch.system"] or here(environ).NAME != _LAST:
        module = chosen(config, environ)
        return None if module.NAME == _LAST else module
    path = environ.get("PATH", os.defpath)
    # Grid Engine before PBS: both have a qstat.
    for name, command in (("slurm", "squeue"), ("sge", "qacct"), ("lsf", "bjobs"),
                          ("flux", "flux"), ("pbs", "qstat")):
        if shutil.which(command, path=path):
            return named(name)
    return None


def who_reads_comments(config: Config, run: Run | None = None) -> tuple[bool, str]:
    """
    (is it each job's user alone, a sentence) on [site] show = comment; (True, "") where that is not
    switched on.
    """
    if "comment" not in config["site.show"]:
        return True, ""
    try:
        hidden = named(_FIRST).hides_jobs(run)           # the only one that has comments
    except NotReadable:
        hidden = None
    where = "PrivateData=jobs in slurm.conf and in slurmdbd.conf"
    if hidden:
        return True, f"[site] show = comment: users see those of their own jobs alone ({where})"
    return False, ("[site] show = comment: every user can read by sacct what every job did" + (
        f", unless there is {where}" if hidden is None else f": there is no {where}"))


def listed(nodes: str) -> str:
    """A node list of which all are names; "" for another, such as "None assigned"."""
    try:
        node_names(nodes)
    except UsageError:
        return ""
    return nodes


# -- what an environment tells -----------------------------------------------------------------

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


def told(**about: Any) -> dict[str, Any]:
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


# -- what its commands tell --------------------------------------------------------------------

def run_command(argv: Sequence[str]) -> CompletedProcess[str]:
    """What subprocess.run() returns: no input, no more than 10 s, in English."""
    import subprocess
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S,
                          encoding="utf-8", errors="replace", env={**os.environ, "LC_ALL": "C"})


def ask(argv: Sequence[str], run: Run | None = None) -> tuple[int, str, str]:
    """(exit status, what it printed, its first line of error) of a command; NotReadable."""
    import subprocess
    try:
        done = (run or run_command)(argv)
    except subprocess.TimeoutExpired as error:
        raise NotReadable(f"{_shown(argv)}: expected an answer within {error.timeout:g} s, got "
                          f"none; is the batch system up?") from None
    except OSError as error:
        raise NotReadable(f"{_shown(argv)}: expected the batch system's command, got "
                          f"{error.strerror or error}; is it in PATH here?") from None
    wrong = (done.stderr or "").strip()
    return done.returncode, done.stdout or "", wrong


def refused(argv: Sequence[str], status: int, wrong: str) -> NotReadable:
    """The NotReadable of a command that failed."""
    return NotReadable(f"{_shown(argv)}: expected exit status 0, got {status}: "
                       f"{wrong.partition(chr(10))[0][:200] or 'and not a word why'}")


def not_of_the_form(origin: str, expected: str, text: object) -> NotReadable:
    """The NotReadable of an output that is not understood."""
    text = text if isinstance(text, str) else repr(text)
    return NotReadable(f"{origin}: expected {expected}, got {text.strip()[:60]!r}")


def _shown(argv: Sequence[str]) -> str:
    text = " ".join(argv)
    return text if len(text) <= 120 else text[:117] + "..."


def askable(jobs: Iterable[str]) -> list[str]:
    """[job id] that can stand on a command line; UsageError."""
    found = [job_id.checked_job_id(job, "job id") for job in jobs]
    for job in found:
        if job.startswith("-") or any(c.isspace() or c in ",'\"" for c in job):
            raise UsageError(f"expected a job id, got {job[:40]!r}")
    return list(dict.fromkeys(found))


def json_object(text: str, origin: str, expected: str) -> dict[str, Any]:
    """
    The JSON object `text`; NotReadable.  Of a name that comes twice the first counts: what a
    user wrote (environment, job name) comes late, and must not stand for what the batch system
    says.
    """
    import json
    try:
        found = json.loads(text, strict=False, object_pairs_hook=lambda pairs: dict(pairs[::-1]))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise not_of_the_form(origin, expected, text)
    return found


def field(record: Mapping[str, Any], *keys: str) -> str:
    """The first of `keys` that `record` has, as one line of text; ""."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = str(value).strip()
            if text and text.isprintable():
                return text
    return ""


def label(record: Mapping[str, Any], *keys: str) -> str:
    """As `field`, of what users call their things: what does not print is made visible."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = errors.one_line(str(value).strip())
            if text:
                return text
    return ""


def seconds(text: object, now: float | None = None) -> float | None:
    """
    Seconds since 1970 of a time as batch systems write it, in local time; None for none.

        Fri Nov 20 10:00:07 2026    Nov 20 10:00:07 2026    Nov 20 10:00 (before `now`)
        2026-11-20 10:00:07.041     2026-11-20T10:00:07     11/20/2026 10:00:07.041
        1795168807.041
    """
    text = str(text).strip()
    try:
        if text[:1].isdigit() and text.replace(".", "", 1).isdigit() and text.isascii():
            return float(text) if 0 < float(text) < 1e11 else None
        words = text.replace("T", " ").split() if text[:1].isdigit() else text.split()
        if text[:1].isdigit():
            date: Sequence[Any] = words[0].split("-")
            if len(date) != 3:
                month, day, year = words[0].split("/")
                date = (year, month, day)
            clock = words[1]
        else:
            if words[0] not in _MONTHS:
                words = words[1:]
            date = (words[3] if len(words) > 3 else None, _MONTHS.index(words[0]) + 1, words[1])
            clock = words[2]
        found = _local(date, clock, now)
        return found if found is not None and abs(found) < 1e11 else None      # of year 5138
    except (ValueError, IndexError, OverflowError):
        return None


def _local(date: Sequence[Any], clock: str, now: float | None) -> float | None:
    import time
    year, month, day = date
    clock, _, fraction = clock.partition(".")
    hour, minute, second = [int(part) for part in (clock + ":0").split(":")[:3]]

    def at(year: int) -> float:
        return time.mktime((year, int(month), int(day), hour, minute, second, 0, 0, -1))
    if year is not None:
        return at(int(year)) + (float("0." + fraction) if fraction.isdigit() else 0.0)
    if now is None:
        return None
    this_year = time.localtime(now).tm_year
    # A day is left for clocks that differ; what is later than that was last year.
    return at(this_year) if at(this_year) < now + 86400 else at(this_year - 1)
