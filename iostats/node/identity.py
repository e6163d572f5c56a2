"""
This node: its name, its jobs, its boot, its clocks, and a snapshot of its counters.

Jobs with processes on this node are found by the batch systems' cgroups.  A scheduler lists the
paths of its jobs (CGROUPS in schedulers/) below /sys/fs/cgroup, without the controller of v1, with
a "*" for any text and {job} for the job's id:

    system.slice/*slurmstepd.scope/job_{job}      v2: system.slice/slurmstepd.scope/job_4711
    slurm/*/job_{job}                             v1: memory/slurm/uid_1000/job_4711

A snapshot has all directories whose names may be of jobs, and `parse_job_list` parses their ids
at the end: a `start` imports no scheduler.
"""

from __future__ import annotations

import errno
import os
import time

from iostats.base import job_id
from iostats.base.config import DEFAULT
from iostats.base.errors import UsageError
from iostats.base.private_files import read_text
from iostats.lustre.paths import File
from iostats.totals.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.totals.snapshot import CounterSource

_CONTROLLERS = ("", "memory", "cpuset", "freezer", "devices")      # "": v2
_SYSTEM = "system.slice"
_DEPTH = 2                          # below a directory with a batch system's name


def read(root: str) -> str:
    """The directories that may be cgroups of jobs, one in a line (see the module); "" for none."""
    top = os.path.join(root, "sys/fs/cgroup")
    names: list[str] = []
    paths: dict[str, None] = {}
    for controller in _CONTROLLERS:
        base = os.path.join(top, controller) if controller else top
        if not os.path.isdir(base):                         # v1's, on a node with v2
            continue
        names = names or _list_scheduler_files()
        for above in ("", _SYSTEM):
            for entry in _list_directories(os.path.join(base, above) if above else base):
                if any(name in entry for name in names):
                    path = f"{above}/{entry}" if above else entry
                    _add_below(base, path, _DEPTH, paths)
    return "\n".join(paths)


def parse_job_list(text: str) -> list[str]:
    """Job ids in the cgroups that `read` returned."""
    from iostats import schedulers
    patterns = [pattern.split("/") for name in _list_scheduler_files() if name in text
                for pattern in schedulers.list_cgroup_patterns(name)]
    return sorted({job for path in text.split("\n") for pattern in patterns
                   for job in [_match_job(path.split("/"), pattern)] if job})


def _match_job(path: list[str], pattern: list[str]) -> str:
    """The job id that stands in `path` where `pattern` has {job}; "" where they differ."""
    if len(path) != len(pattern):
        return ""
    *above, last = pattern
    for word, expected in zip(path, above):
        begin, star, end = expected.partition("*")
        if not (word.startswith(begin) and word.endswith(end) if star else word == expected):
            return ""
    begin, _, end = last.partition("{job}")
    word = path[-1]
    if not word.startswith(begin):
        return ""
    job, dot, _ = word[len(begin):].partition(end[0]) if end else (word[len(begin):], "", "")
    return job if dot or not end else ""


def _add_below(base: str, path: str, depth: int, paths: dict[str, None]) -> None:
    for name in _list_directories(os.path.join(base, path)) if depth else ():
        paths[f"{path}/{name}"] = None
        _add_below(base, f"{path}/{name}", depth - 1, paths)


def _list_scheduler_files() -> list[str]:
    directory = os.path.join(os.path.dirname(os.path.dirname(__file__)), "schedulers")
    return [name[:-3] for name in os.listdir(directory) if name.endswith(".py")]


def _list_directories(directory: str) -> list[str]:
    """Names of the subdirectories, sorted: a cgroup has the kernel's files beside them."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []


REFUSED = (errno.EACCES, errno.EPERM)


def find_node_name(option: str | None = None) -> str:
    """Return `option`, or Slurm's name of this node, or its host name without the domain."""
    if option is not None:
        return job_id.check_node_name(option)
    slurm = os.environ.get("SLURMD_NODENAME", "")
    return slurm if job_id.is_node_name(slurm) else os.uname().nodename.partition(".")[0]


def find_job(option: str | None, config: Config) -> str:
    """
    Return `option`, or the id in the first variable of site.cfg that is set, or, without such
    variables, the id in the batch system's environment; UsageError if there is none.
    """
    if option is not None:
        return job_id.check_job_id(option)
    variables = config.node.job_id_variables
    for variable in variables:
        if os.environ.get(variable):
            return job_id.check_job_id(os.environ[variable], variable)
    if config.origin["node.job_id_variables"] == DEFAULT:
        from iostats import schedulers
        id_of_job: str = schedulers.detect_scheduler(os.environ).about(os.environ).get("job", "")
        if id_of_job:
            return id_of_job
    raise UsageError(f"no job id: give --job ID, or set one of {' '.join(variables)} "
                     f"(site.cfg: [node] job_id_variables)")


def read_boot_id(root: str = "/") -> str:
    """
    The kernel's id of this boot; "" if unknown.

    `root`: of a simulated machine, which has a boot of its own where it has the file.
    """
    for top in dict.fromkeys((root, "/")):
        try:
            return read_text(os.path.join(top, "proc/sys/kernel/random/boot_id")).strip()
        except OSError:
            pass
    return ""


def read_seconds_since_boot() -> float:
    """The time since boot, with suspends if the kernel has CLOCK_BOOTTIME; it is never set."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def count_online_cpus(root: str = "/") -> int:
    """The number of online CPUs (hardware threads); 0 if unknown."""
    try:
        text = read_text(os.path.join(root, "sys/devices/system/cpu/online"))
        return sum(int(last or first) - int(first) + 1 for first, _, last in (
            part.partition("-") for part in text.strip().split(",")))
    except (OSError, ValueError):
        return 0


def count_other_jobs(job: str, *snapshots: Snapshot) -> int | None:
    """
    The number of other jobs on the node at any of `snapshots`; None if no cgroup shows jobs.

    `job` is not another, by its id or by the cgroup that we are in.
    """
    jobs: set[str] = set()
    for file in (file for snapshot in snapshots for file in snapshot.files):
        if file.source == "jobs":                       # of a start by a release that kept ids
            jobs.update(filter(None, file.text.split("\n")))
    for text in {file.text for snapshot in snapshots for file in snapshot.files
                 if file.source == "cgroups" and file.text}:
        jobs.update(parse_job_list(text))
    try:
        own = read_text("/proc/self/cgroup").replace("job_", "").replace("\n", "/").split("/")
    except OSError:
        own = []
    return len(jobs.difference(own, (job,))) if jobs else None


def take_snapshot(root: str, config: Config, sources: dict[str, CounterSource], job: str, node: str,
                  seq: str, mark: str = "", emit: Callable[[str], None] = lambda text: None,
                  by_reader: set[str] | None = None, whole: bool = False) -> Snapshot:
    """
    The Snapshot of all counter files below `root`, now; `whole`: for sources.separate().

    What is refused comes by the reader where there is one (site.cfg: [node] reader); `emit`
    gets a line where that failed, and the names of the sources that the reader gave are added to
    the set `by_reader`.
    """
    files: list[File] = []
    for source in sources.values():
        files += ((whole and getattr(source, "read_whole", None)) or source.read)(root, config)
    if config.node.reader and any(file.errno in REFUSED for file in files):
        path = os.path.join(root, config.node.reader.lstrip("/"))
        if os.path.exists(path):
            from iostats.node import reader_client  # json and socket: only where needed
            files, gave = reader_client.fill_files(files, REFUSED, path, emit)
            if by_reader is not None:
                by_reader |= gave
    files.append(File("cgroups", "-", "sys/fs/cgroup", 0, read(root)))
    boot = getattr(time, "CLOCK_BOOTTIME", None)        # Linux; sleeping time counts too
    return Snapshot(job, node, seq, read_boot_id(), time.time_ns(),
                    time.clock_gettime_ns(boot) if boot is not None else 0, tuple(files), mark)
