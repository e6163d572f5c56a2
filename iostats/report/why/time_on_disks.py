"""
The time of requests to the nodes' local disks, beside the time in Lustre.

/proc/diskstats counts it for all processes of a node, from the begin of each request to its end:
requests overlap, and of many the page cache is the only one that waits, so the sum is an upper
bound of the time in which the job waited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import format_percent
from iostats.report.why import words
from iostats.report.why.cause import SMALL_SHARE
from iostats.report.why.time_in_nfs import compute_time_in_nfs, describe_time_in_nfs
from iostats.totals import bounds, disk_values, other_values

if TYPE_CHECKING:
    from iostats.totals.record import Record

_SHOWN = 0.01
# Kinds of file systems of which it is known how much time requests took.
_TIMED = (bounds.LUSTRE, other_values.NFS, disk_values.OF_JOB, disk_values.OF_NODES)


def compute_time_on_disks(record: Record) -> tuple[float, float] | None:
    """Return (seconds, share of the nodes' time, above 1 where requests overlap), if known."""
    node_s = record.coverage.node_seconds
    counted = [fs.sources[disk_values.OF_NODES] for fs in record.file_systems
               if disk_values.OF_NODES in fs.sources]
    if not node_s or not counted or any(source.lower_bound for source in counted):
        return None
    seconds = sum(disk_values.sum_over_disks(source, "us") or 0 for source in counted) / 1e6
    return seconds, seconds / node_s


def describe_time_on_disks(time: tuple[float, float] | None) -> str:
    """Format the time for the answer of `why`; "" if unknown, or next to nothing."""
    if time is None or time[1] < _SHOWN:
        return ""
    return (f"requests to local disks, of all processes of the nodes, took "
            f"{words.format_elapsed(time[0])}, at most {format_percent(time[1])} of node time")


def describe_times_beside_lustre(record: Record) -> list[str]:
    """The sentences about the job's time in NFS and at local disks, without those unknown."""
    return [text for text in (describe_time_in_nfs(compute_time_in_nfs(record)),
                              describe_time_on_disks(compute_time_on_disks(record))) if text]


def list_small_shares(record: Record, share: float) -> list[str]:
    """
    List the shares of node time by file system, of a job with a small `share` of it in Lustre:
    ["at most 1.7 % of node time in Lustre", "1.0 % in NFS"]; [] where some may be large.
    """
    nfs, disks = compute_time_in_nfs(record), compute_time_on_disks(record)
    if any(fs.kind not in _TIMED for fs in record.file_systems) or (
            nfs and (nfs.share is None or nfs.share >= SMALL_SHARE)) or (
                disks and disks[1] >= SMALL_SHARE):
        return []
    parts = [f"at most {format_percent(share)} of node time in Lustre"]
    parts += [f"{format_percent(nfs.share)} in NFS"] if nfs and nfs.share is not None else []
    parts += [f"{format_percent(disks[1])} on local disks"] if disks else []
    return parts


def describe_no_time(record: Record, share: float) -> str:
    """
    Describe a job with this share of node time in Lustre, which is small; what else iostats can see
    is named if that is known, and small as well.
    """
    parts = list_small_shares(record, share)
    if not parts:
        return f"Its calls to Lustre took at most {format_percent(share)} of node time"
    return f"Its time was not in any file system that iostats can see: {words.join_words(parts)}"
