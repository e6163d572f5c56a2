"""
This node: its name, its job, its boot, its clocks, and a snapshot of its counters.
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
from iostats.node import cgroups
from iostats.totals.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from iostats.base.config import Config

REFUSED = (errno.EACCES, errno.EPERM)


def name(given: str | None = None) -> str:
    """`given`, or Slurm's name of this node, or its host name without the domain."""
    if given is not None:
        return job_id.checked_node_name(given)
    slurm = os.environ.get("SLURMD_NODENAME", "")
    return slurm if job_id.is_node_name(slurm) else os.uname().nodename.partition(".")[0]


def job(given: str | None, config: Config) -> str:
    """
    `given`, or the id in the first variable of site.cfg that is set, or, where site.cfg has not
    chosen any, what a batch system finds in the environment; UsageError for none.
    """
    if given is not None:
        return job_id.checked_job_id(given)
    variables = config["node.job_id_variables"]
    for variable in variables:
        if os.environ.get(variable):
            return job_id.checked_job_id(os.environ[variable], variable)
    if config.origin["node.job_id_variables"] == DEFAULT:
        from iostats import schedulers
        found: str = schedulers.here(os.environ).about(os.environ).get("job", "")
        if found:
            return found
    raise UsageError(f"no job id: give --job ID, or set one of {' '.join(variables)} "
                     f"(site.cfg: [node] job_id_variables)")


def boot_id(root: str = "/") -> str:
    """
    The kernel's name for this boot; "" where it does not tell.

    `root`: of a simulated machine, which has a boot of its own where it has the file.
    """
    for top in dict.fromkeys((root, "/")):
        try:
            return read_text(os.path.join(top, "proc/sys/kernel/random/boot_id")).strip()
        except OSError:
            pass
    return ""


def seconds_since_boot() -> float:
    """With time asleep, where the kernel has it (CLOCK_BOOTTIME); this clock is never set."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def other_jobs(job: str, *snapshots: Snapshot) -> int | None:
    """
    How many other jobs were on the node at any of `snapshots`; None where no cgroup tells.

    `job` is not another, by its id or by the cgroup that we are in.
    """
    jobs: set[str] = set()
    for file in (file for one in snapshots for file in one.files):
        if file.source == "jobs":                       # of a start by a release that kept ids
            jobs.update(filter(None, file.text.split("\n")))
    for text in {file.text for snapshot in snapshots for file in snapshot.files
                 if file.source == "cgroups" and file.text}:
        jobs.update(cgroups.jobs_in(text))
    try:
        own = read_text("/proc/self/cgroup").replace("job_", "").replace("\n", "/").split("/")
    except OSError:
        own = []
    return len(jobs.difference(own, (job,))) if jobs else None


def snapshot(root: str, config: Config, sources: dict[str, ModuleType], job: str, node: str,
             seq: str, mark: str = "", say: Callable[[str], None] = lambda text: None,
             by_reader: set[str] | None = None) -> Snapshot:
    """
    The Snapshot of all counter files below `root`, now.

    What is refused comes by the reader where there is one (site.cfg: [node] reader); `say`
    gets a line where that failed, and the names of the sources that the reader gave are added to
    the set `by_reader`.
    """
    files: list[File] = []
    for source in sources.values():
        files += source.read(root, config)
    if config["node.reader"] and any(file.errno in REFUSED for file in files):
        path = os.path.join(root, config["node.reader"].lstrip("/"))
        if os.path.exists(path):
            from iostats.node import reader_client  # json and socket: only where needed
            files, gave = reader_client.filled(files, REFUSED, path, say)
            if by_reader is not None:
                by_reader |= gave
    files.append(File("cgroups", "-", "sys/fs/cgroup", 0, cgroups.read(root)))
    boot = getattr(time, "CLOCK_BOOTTIME", None)        # Linux; sleeping time counts too
    return Snapshot(job, node, seq, boot_id(), time.time_ns(),
                    time.clock_gettime_ns(boot) if boot is not None else 0, tuple(files), mark)
