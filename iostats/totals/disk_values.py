"""
The counts of the sources of local disks (node/sources/), in a job's record.

`cgroup_io` is of the job's own cgroup; `diskstats` is of the whole node, and so an upper bound of
what the job did.  Their metrics begin with the disk: nvme0n1_read_bytes, nvme0n1_busy_us.  `tmpdir`
is of the device below $TMPDIR alone, for all processes.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.totals.record import FileSystemRecord, SourceTotals

LOCAL_DISKS = "local disks"             # the name of all of them, as of a file system
OF_JOB, OF_NODES, TMPDIR = "cgroup_io", "diskstats", "tmpdir"
is_whole_disk = re.compile(r"(sd|hd|vd|xvd|dasd)[a-z]+|nvme\d+n\d+|(mmcblk|pmem)\d+").fullmatch


def sum_over_disks(counted: SourceTotals | None, metric: str) -> int | None:
    """A metric of all disks together; None where the source has counted nothing."""
    return None if counted is None else _add_up(counted, metric)[0]


def _add_up(counted: SourceTotals, metric: str) -> tuple[int, bool]:
    """
    Return (a metric of all disks together, whether it may be too low).

    What is built of disks (LUKS, RAID) counts the same I/O as these, so it is not added.  But LUKS
    and RAID 5 write to disks as the kernel, and not as the job: of those, some may be missing at
    the disks.  Logical volumes, of which disks have all, are left out by the node.

    >>> from iostats.totals.record import SourceTotals
    >>> counted = SourceTotals(lower_bound=False, totals={
    ...     "sda_reads": 23, "sdb_reads": 37, "sdb_writes": 37, "dm-0_writes": 41})
    >>> _add_up(counted, "reads"), _add_up(counted, "writes")
    ((60, False), (41, True))
    """
    of_disks, built = 0, []
    for name, value in counted.totals.items():
        if name.endswith(f"_{metric}"):
            if is_whole_disk(name[:-len(metric) - 1]):
                of_disks += value
            elif value:
                built.append(value)
    return max(of_disks, *built, 0), bool(built)


def find_disks(fs: FileSystemRecord) -> tuple[SourceTotals | None, bool]:
    """Return (the job's known I/O to local disks, whether it may be too high)."""
    of_job = fs.sources.get(OF_JOB)
    return (fs.sources.get(OF_NODES), True) if of_job is None else (of_job, False)


def measure_disks(fs: FileSystemRecord, metric: str) -> tuple[int, bool, bool] | None:
    """
    Return (a metric of the job's local disks, whether it may be too low, too high), if known.

    A disk that was removed is missing at the end in `diskstats` alone, if the job first used it
    after its start; so what marks the one source marks both.
    """
    counted, is_high = find_disks(fs)
    if counted is None:
        return None
    amount, is_low = _add_up(counted, metric)
    return amount, is_low or fs.lower_bound, is_high


def has_tmpdir_io(fs: FileSystemRecord, least_bytes: int) -> bool:
    """
    Whether the device below $TMPDIR moved so much, where the job's own I/O is unknown: less of it
    is what any node does.
    """
    counted = fs.sources.get(TMPDIR)
    return OF_JOB not in fs.sources and counted is not None and sum(
        counted.totals.get(metric, 0) for metric in ("read_bytes", "write_bytes")) >= least_bytes
