"""
Which jobs have processes on this node, as far as the batch systems' cgroups tell.
"""

from __future__ import annotations

import os


def jobs_here(root: str) -> list[str]:
    """
    Ids of the jobs that have processes on this node, by their cgroups; [] where none are kept.

    Slurm with proctrack/cgroup, PBS with its cgroups hook, LSF with LSF_PROCESS_TRACKING.
    """
    found: set[str] = set()
    top = os.path.join(root, "sys/fs/cgroup")
    for controller in ("", "memory", "cpuset", "freezer", "devices"):
        base = os.path.join(top, controller) if controller else top
        if not os.path.isdir(base):                         # v1's, on a node with v2
            continue
        # v2: system.slice/slurmstepd.scope/job_4711; v1: memory/slurm/uid_1000/job_4711
        for scope in _entries(os.path.join(base, "system.slice")):
            if scope.endswith("slurmstepd.scope"):
                found.update(_slurm_jobs(os.path.join(base, "system.slice", scope)))
        if controller:
            for slurm in _entries(base):
                if slurm == "slurm" or slurm.startswith("slurm_"):
                    for user in _entries(os.path.join(base, slurm)):
                        found.update(_slurm_jobs(os.path.join(base, slurm, user)))
        # v1: memory/pbs_jobs.service/jobid/4711.pbs01; v2: pbs_jobs.service/jobs/4711.pbs01
        for service in ("pbs_jobs.service", "pbspro.service"):
            for jobs in ("jobid", "jobs"):
                found.update(_directories_in(os.path.join(base, service, jobs)))
        for cluster in _entries(os.path.join(base, "lsf")):
            found.update(name.split(".")[1] for name in _entries(os.path.join(base, "lsf", cluster))
                         if name.startswith("job.") and name.count(".") >= 2)
    return sorted(found)


def _slurm_jobs(directory: str) -> list[str]:
    return [name[len("job_"):] for name in _entries(directory) if name.startswith("job_")]


def _directories_in(directory: str) -> list[str]:
    """Names of its directories: each cgroup has files of the kernel's beside them."""
    return [name for name in _entries(directory) if os.path.isdir(os.path.join(directory, name))]


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
