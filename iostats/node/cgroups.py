"""
Which jobs have processes on this node, as far as the batch systems' cgroups tell.

A scheduler says where its jobs are (CGROUPS in schedulers/), as paths below /sys/fs/cgroup without
the controller of v1, with a "*" for any text and {job} for the job's id:

    system.slice/*slurmstepd.scope/job_{job}      v2: system.slice/slurmstepd.scope/job_4711
    slurm/*/job_{job}                             v1: memory/slurm/uid_1000/job_4711

A snapshot keeps the directories that may be such, by their names alone, and `jobs_in` reads job ids
into them at the end: a `start` imports no scheduler.
"""

from __future__ import annotations

import os

_CONTROLLERS = ("", "memory", "cpuset", "freezer", "devices")      # "": v2
_SYSTEM = "system.slice"
_DEPTH = 2                          # below a directory with a batch system's name


def read(root: str) -> str:
    """
    The directories that may be cgroups of jobs, a line each, as in this module's first lines; ""
    where there are none.
    """
    top = os.path.join(root, "sys/fs/cgroup")
    names: list[str] = []
    found: dict[str, None] = {}
    for controller in _CONTROLLERS:
        base = os.path.join(top, controller) if controller else top
        if not os.path.isdir(base):                         # v1's, on a node with v2
            continue
        names = names or _scheduler_files()
        for above in ("", _SYSTEM):
            for entry in _directories_in(os.path.join(base, above) if above else base):
                if any(name in entry for name in names):
                    path = f"{above}/{entry}" if above else entry
                    _add_below(base, path, _DEPTH, found)
    return "\n".join(found)


def jobs_in(text: str) -> list[str]:
    """Ids of the jobs of which `read` has seen the cgroups."""
    from iostats import schedulers
    patterns = [pattern.split("/") for name in _scheduler_files() if name in text
                for pattern in schedulers.cgroups_of(name)]
    return sorted({job for path in text.split("\n") for pattern in patterns
                   for job in [_job_of(path.split("/"), pattern)] if job})


def _job_of(path: list[str], pattern: list[str]) -> str:
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


def _add_below(base: str, path: str, depth: int, found: dict[str, None]) -> None:
    for name in _directories_in(os.path.join(base, path)) if depth else ():
        found[f"{path}/{name}"] = None
        _add_below(base, f"{path}/{name}", depth - 1, found)


def _scheduler_files() -> list[str]:
    directory = os.path.join(os.path.dirname(os.path.dirname(__file__)), "schedulers")
    return [name[:-3] for name in os.listdir(directory) if name.endswith(".py")]


def _directories_in(directory: str) -> list[str]:
    """Names of its directories, sorted: each cgroup has files of the kernel's beside them."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []
