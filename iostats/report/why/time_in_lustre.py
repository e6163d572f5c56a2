"""
How much of a job's time was spent in Lustre, as far as its record tells.

The kernel times calls of programs, and threads overlap: sixteen threads that wait at once have
waited sixteen seconds in one.  So the sum is an upper bound of the time in which a node waited at
all, which is what proves that it did not wait; it is no lower bound of anything.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.totals.bounds import mark_of, mark_of_ratio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.totals.record import FileSystemRecord, OperationRow, Record

TimeInLustre = namedtuple("TimeInLustre", "seconds share busiest_share serial_share by_operation "
                                          "is_whole why_not mark share_mark")
TimeInLustre.__doc__ = """
Time of all calls to Lustre.

Attributes:
    seconds: of all threads of all nodes; None where it is not known.
    share: of the nodes' time, from 0 up, over 1 where threads overlap; None where not known.
    busiest_share: the same of the node that spent most, at most, estimated by its part of the
        bytes and calls; None where not known.
    serial_share: the most of the job's time that it can have cost: as if no two calls had been at
        the same time; None where not known.
    by_operation: {(file system, operation): (calls, seconds)}, without what took no time.
    is_whole: nothing is missing in `seconds`: the job's own are these at most.
    why_not: why it is not known, or not exactly: a text; "" where it is.
    mark: ">= ", "<= ", "~ " or "": which way `seconds` may be wrong as those of the job.
    share_mark: the same of `share`, of which a missing node's time is a part as well.
"""

_WAYS = ("read", "write")


def time_in_lustre(record: Record) -> TimeInLustre:
    """The TimeInLustre of a record."""
    untimed = low = missing = uncalled = False
    by_operation: dict[tuple[str, str], tuple[int, float]] = {}
    busiest = 0.0
    for fs in record.file_systems:
        if fs.operations is None or fs.calls is None:
            missing = True
            continue
        low = low or fs.incomplete or bool({"read_calls", "write_calls", "operations"}
                                           & set(fs.too_low))
        # Bytes of no call took a time of no call (libaio and io_uring with O_DIRECT).
        uncalled = uncalled or ("operations" not in fs.too_low and (
            "read_bytes" in fs.too_low
            or ("write_bytes" in fs.too_low and fs.write_bytes_max is None)))
        moved = fs.application and (fs.application.read_calls or fs.application.write_calls)
        untimed = untimed or bool(moved and not fs.calls)
        for name, row in (*fs.operations.items(), *fs.calls.items()):
            if row.count and row.seconds is None:
                untimed = True
            elif row.count and row.seconds:
                by_operation[fs.name, name] = row.count, row.seconds
                busiest += row.seconds * _part_of_busiest(fs, name, row)
    coverage, elapsed = record.coverage, record.job.elapsed_s
    why_not = _why_not(record, missing, untimed, low, uncalled)
    if (not coverage.reported or missing or untimed or not elapsed
            or not coverage.node_seconds):
        return TimeInLustre(None, None, None, None, by_operation, False, why_not, "", "")
    seconds = sum(spent for _, spent in by_operation.values())
    mark = mark_of(coverage.missing_count or low or uncalled, coverage.shared)
    return TimeInLustre(seconds, seconds / coverage.node_seconds, busiest / elapsed,
                        seconds / elapsed, by_operation,
                        mark in ("", "<= ") and not record.short, why_not,
                        mark, mark_of_ratio(mark, ">= " if coverage.missing_count else ""))


def _part_of_busiest(fs: FileSystemRecord, name: str, row: OperationRow) -> float:
    """The part of one operation's calls that the node with the most of them made."""
    spread = fs.per_node.get(f"{name}_bytes" if name in _WAYS else name)
    total = (fs.application[f"{name}_bytes"] if fs.application else 0) if name in _WAYS else (
        row.count)
    return min(1.0, spread.max / total) if spread and total else 1.0


def _why_not(record: Record, missing: bool, untimed: bool, low: bool, uncalled: bool) -> str:
    coverage = record.coverage
    if not coverage.reported:
        return "no node has reported, so the time of its calls is not known"
    if record.short:
        return "the accounting's short form has no times of calls"
    if not record.file_systems:
        return ""
    if missing:
        return "the nodes' counters of calls could not be read"
    if untimed:
        return "the nodes' counters do not time calls (Lustre clients do since 2.14)"
    if coverage.missing_count:
        return f"{coverage.missing_count} of its nodes did not report"
    if uncalled:
        return "bytes that no counted call asked for went over the network"
    if low:
        return "the nodes' counters are lower bounds"
    if coverage.shared:
        return "other jobs were on its nodes, and their calls are in the numbers"
    return ""


def seconds_at_servers(record: Record) -> float | None:
    """
    How long the storage servers worked on all requests of the job, one after the other; without
    waits for a thread and the network.  None where some were not timed, or may be missing.
    """
    harvest = record.harvest
    if harvest is None or not harvest.final or harvest.lower_bound:
        return None
    there = {fs.name: fs for fs in harvest.file_systems}
    seconds = 0.0
    for fs in record.file_systems:
        moved: Mapping[str, Any] = fs.network or fs.application or {}
        if fs.name in there:
            if any((moved.get(metric) or 0) > there[fs.name][metric]
                   for metric in ("read_bytes", "write_bytes")):
                return None             # some had no job's id
        elif any(value for metric, value in moved.items() if metric != "lower_bound") or any(
                row.count for row in (fs.operations or {}).values()):
            return None
    for at_servers in there.values():
        rows = [(row.count, row.seconds) for row in at_servers.operations.values()]
        rows += [(at_servers[f"{way}_rpcs"], at_servers.get(f"{way}_seconds")) for way in _WAYS]
        if at_servers.lower_bound or any(count and spent is None for count, spent in rows):
            return None
        seconds += sum(spent or 0.0 for _, spent in rows)
    return seconds
