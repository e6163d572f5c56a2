"""
A job's time in Lustre, as far as its record has it.

The kernel times calls of programs, and threads overlap: sixteen threads that wait at once have
waited sixteen seconds in one.  So the sum is an upper bound of the time in which a node waited at
all, which is what proves that it did not wait; it is no lower bound of anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_percent
from iostats.report.findings.interval import make_exact
from iostats.report.findings.known_io import BusiestNode
from iostats.report.findings.time_share import count_workers, find_single_thread_time, name_time
from iostats.totals.bounds import get_mark, mark_ratio

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iostats.totals.record import Record


class MeasuredTime(NamedTuple):
    """Time of all calls to Lustre, where it is known."""

    seconds: float          # of all threads of all nodes
    share: float            # of the nodes' time, from 0 up, over 1 where threads overlap
    # the same of the node that spent most, at most: the largest time of a node in each operation,
    # added up
    busiest_share: float
    # the most of the job's time that it can have cost: as if no two calls had been at the same time
    serial_share: float
    # the larger of its share of the time of all tasks, or CPUs, and of the busiest node, as in
    # findings (findings/time_share.py)
    task_share: float


class TimeInLustre(NamedTuple):
    """Time of all calls to Lustre."""

    known: MeasuredTime | None
    # {(file system, operation): (calls, seconds)}, without what took no time
    by_operation: dict[tuple[str, str], tuple[int, float]]
    is_whole: bool  # nothing is missing in `seconds`: the job's own are these at most
    why_not: str    # why it is not known, or not exactly: a text; "" where it is
    mark: str       # ">= ", "<= ", "~ " or "": which way `seconds` may be wrong as those of the job
    share_mark: str  # the same of `share`, of which a missing node's time is a part as well
    # "1.0 % of the time of 512 tasks"; "" where there is one a node, or that is unknown
    of_tasks: str = ""


_WAYS = ("read", "write")


def compute_time_in_lustre(record: Record) -> TimeInLustre:
    """The TimeInLustre of a record."""
    untimed = low = missing = uncalled = False
    by_operation: dict[tuple[str, str], tuple[int, float]] = {}
    busiest: dict[str, float] = {}          # node -> seconds in what it spent most time in
    middle_s = second_s = 0.0
    for fs in record.lustre:
        if fs.operations is None or fs.calls is None:
            missing = True
            continue
        low = low or fs.incomplete or bool({"read_calls", "write_calls", "operations"}
                                           & set(fs.too_low))
        # Bytes that belong to no counted call took time that is in no call's time (libaio and
        # io_uring with O_DIRECT).
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
                spread = fs.per_node.get(f"{name}_us")
                node, longest, middle, second = (
                    spread.busiest, spread.max, spread.median, spread.second or 0) if spread else (
                    "", row.seconds * 1e6, 0, 0)
                busiest[node] = busiest.get(node, 0.0) + longest / 1e6
                middle_s, second_s = middle_s + middle / 1e6, second_s + second / 1e6
    coverage, elapsed_s = record.coverage, record.job.elapsed_s
    why_not = _explain_missing_time(record, missing, untimed, low, uncalled)
    if (not coverage.reported or missing or untimed or not elapsed_s
            or not coverage.node_seconds):
        return TimeInLustre(None, by_operation, False, why_not, "", "")
    seconds = sum(spent for _, spent in by_operation.values())
    mark = get_mark(coverage.missing_count or low or uncalled, coverage.shared)
    most_s, longest_s = sum(busiest.values()), max(busiest.values(), default=0.0)
    workers, per_node = count_workers(record, longest_s / elapsed_s)
    share = seconds / coverage.node_seconds
    of_one = find_single_thread_time(BusiestNode("",
                                                 *map(make_exact, (longest_s, middle_s, second_s))),
                                     elapsed_s, coverage.reported)
    alone = longest_s / elapsed_s / per_node if of_one is None else min(
        1.0, of_one.low / elapsed_s)
    share_mark = mark_ratio(mark, ">= " if coverage.missing_count else "")
    of_tasks = "" if per_node == 1 else (
        f"{share_mark}{format_percent(share / per_node)} of "
        f"{name_time(per_node, workers, coverage.reported)}")
    known = MeasuredTime(seconds, share, most_s / elapsed_s, seconds / elapsed_s,
                         max(share / per_node, alone))
    return TimeInLustre(known, by_operation, mark in ("", "<= ") and not record.short, why_not,
                        mark, share_mark, of_tasks)


def _explain_missing_time(record: Record, missing: bool, untimed: bool, low: bool,
                          uncalled: bool) -> str:
    coverage = record.coverage
    if not coverage.reported:
        return "no node has reported, so the time of its calls is unknown"
    if record.short:
        return "the accounting's short form has no times of calls"
    if not record.lustre:
        return ""
    if missing:
        return "the nodes' counters of calls could not be read"
    if untimed:
        return "the nodes' counters do not time calls (Lustre clients do since 2.14)"
    if coverage.missing_count:
        return f"{coverage.missing_count:,} of its nodes did not report"
    if uncalled:
        return "bytes that no counted call asked for went over the network"
    if low:
        return "the nodes' counters are lower bounds"
    if coverage.shared:
        return "other jobs were on its nodes, and their calls are in the numbers"
    return ""


def sum_server_time(record: Record) -> float | None:
    """
    The time that the storage servers worked on the job's requests, added up, without the time in
    queues and on the network.  None if some requests were not timed, or may be missing.
    """
    harvest = record.harvest
    if harvest is None or not harvest.final or harvest.lower_bound:
        return None
    there = {fs.name: fs for fs in harvest.file_systems}
    seconds = 0.0
    for fs in record.lustre:
        moved: Mapping[str, Any] = fs.network or fs.application or {}
        if fs.name in there:
            if any((moved.get(metric) or 0) > there[fs.name][metric]
                   for metric in ("read_bytes", "write_bytes")):
                return None             # some requests carried no job id
        elif any(value for metric, value in moved.items() if metric != "lower_bound") or any(
                row.count for row in (fs.operations or {}).values()):
            return None
    for at_servers in there.values():
        rows = [(row.count, row.seconds) for row in at_servers.operations.values()]
        rows += [(at_servers[f"{direction}_rpcs"], at_servers.get(f"{direction}_seconds"))
                 for direction in _WAYS]
        if at_servers.lower_bound or any(count and spent is None for count, spent in rows):
            return None
        seconds += sum(spent or 0.0 for _, spent in rows)
    return seconds
