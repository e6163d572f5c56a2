"""
The time of a job's requests to NFS servers, beside its time in Lustre.

The kernel times requests from their start until they are done, and adds them up: they overlap, and
programs do not wait for all of them, so the sum is an upper bound of the time in which a node
waited for those that were answered.  A request that was still open at the end is in no sum, so a
server that stopped answering is not excluded.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_percent
from iostats.report.why import words
from iostats.totals import other_values
from iostats.totals.record import FileSystemRecord, Record


class TimeInNfs(NamedTuple):
    """Time of requests to NFS."""

    names: list[str]    # labels of the file systems, the one with most time first
    # of all their requests that were answered, at most; None where some are missing
    seconds: float | None
    # the same of the nodes' time, over 1 where requests overlap; None where not known
    share: float | None


def compute_time_in_nfs(record: Record) -> TimeInNfs | None:
    """The TimeInNfs of a record; None for a job without NFS."""
    mounts = [(_sum_seconds(fs), fs.label) for fs in record.file_systems
              if fs.kind == other_values.NFS]
    if not mounts:
        return None
    names = [label for _, label in sorted(mounts, key=lambda item: (-(item[0] or 0.0), item[1]))]
    times = [seconds for seconds, _ in mounts]
    if None in times or record.coverage.missing_count:
        return TimeInNfs(names, None, None)
    seconds, node_s = sum(item or 0.0 for item in times), record.coverage.node_seconds
    return TimeInNfs(names, seconds, seconds / node_s if node_s else None)


def _sum_seconds(fs: FileSystemRecord) -> float | None:
    """Seconds of all requests of a file system; None if some may be missing."""
    counted = fs.sources.get(other_values.NFS)
    if counted is None or counted.lower_bound or fs.network is None or fs.network.lower_bound:
        return None
    us = sum(counted.totals.get(f"{kind}_us", 0) for kind in ("read", "write", "metadata"))
    return us / 1e6


def describe_time_in_nfs(time: TimeInNfs | None) -> str:
    """Format the time in NFS for the answer of `why`; "" for a job without NFS."""
    if time is None:
        return ""
    more = len(time.names) - 1
    name = time.names[0] + (f" and {more} more" if more else "")
    if time.seconds is None or time.share is None:
        return f"requests to NFS ({name}): their time is unknown, as some may be missing"
    return (f"requests to NFS ({name}) took {words.format_elapsed(time.seconds)}, at most "
            f"{format_percent(time.share)} of node time, without those that were not answered")
