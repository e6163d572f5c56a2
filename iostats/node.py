"""
This node: its name, its job, its boot, its clocks, and a snapshot of its counters.
"""

import os
import time

from iostats import jobid
from iostats.errors import UsageError
from iostats.files import read_text
from iostats.snapshot import Snapshot


def name(given=None):
    """`given`, or Slurm's name of this node, or its host name without the domain."""
    if given is not None:
        return jobid.checked_node_name(given)
    slurm = os.environ.get("SLURMD_NODENAME", "")
    return slurm if jobid.is_node_name(slurm) else os.uname().nodename.partition(".")[0]


def job(given, config):
    """`given`, or the id in the first variable of site.cfg that is set; UsageError for none."""
    if given is not None:
        return jobid.checked_job_id(given)
    variables = config["node.job_id_variables"]
    for variable in variables:
        if os.environ.get(variable):
            return jobid.checked_job_id(os.environ[variable], variable)
    raise UsageError(f"no job id: give --job ID, or set one of {' '.join(variables)} "
                     f"(site.cfg: [node] job_id_variables)")


def boot_id():
    """The kernel's name for this boot; "" where it does not tell."""
    try:
        return read_text("/proc/sys/kernel/random/boot_id").strip()
    except OSError:
        return ""


def snapshot(root, config, sources, job, node, seq):
    """The Snapshot of all counter files below `root`, now."""
    files = []
    for source in sources.values():
        files += source.read(root, config)
    boot = getattr(time, "CLOCK_BOOTTIME", None)        # Linux; sleeping time counts too
    return Snapshot(job, node, seq, boot_id(), time.time_ns(),
                    time.clock_gettime_ns(boot) if boot is not None else 0, tuple(files))
