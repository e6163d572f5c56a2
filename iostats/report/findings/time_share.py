"""
The share of a job's time that calls took, on average and on the node that spent most in them.

The kernel adds up the time of all threads of a node, so 128 ranks that each write for 1 % of the
time look like 1.28 times the node's time, and one rank that writes all the time like 100 %.  What
a share is of is therefore chosen by what ran there (KnownIO.per_node):

    all nodes similar           time of all nodes / (nodes' time x tasks of a node):
                                "of the time of 512 tasks"
    one node above the others   time of that node / run time, as if one thread after the other had
                                waited there: "of the run time on nid00001"

What counts as a task is at count_workers(), and when a node is above the others at
find_single_thread_time().  If all nodes did the same, one thread of each that waits all the time
and all of its tasks that wait a little look the same: then the share of one thread is an upper
bound (compute_node_time).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.report.findings.interval import (
    Interval,
    add_up,
    divide,
    is_surely_at_least,
    make_exact,
    multiply,
)
from iostats.report.job_fields import NODES

if TYPE_CHECKING:
    from iostats.report.findings.known_io import BusiestNode, KnownIO
    from iostats.totals.record import Record


class TimeShare(NamedTuple):
    """A share of time."""

    share: Interval     # Interval; above 1 where threads waited side by side
    whole: str          # what it is a share of, in words: "the nodes' time"
    node: str = ""      # the node, if it is the share of a single one; else ""
    # it is less if several threads of the node called at the same time
    is_upper_bound: bool = False


TASKS, CPUS = "tasks", "CPUs"
_CLEARLY_MORE = 1.5                 # times the average: from there on the busiest node is reported
# See find_single_thread_time().
_TIMES_MEDIAN = 3.0                 # the median node's time
_MOST_RUN_TIMES = 4.0               # together of a few threads
_LEAST_NODES = 8                    # to know how far nodes usually differ
_LEAST_ABOVE_MEDIAN = 0.25          # of the median node's time
_TIMES_SECOND = 2.0                 # as far above the second node as that is above the median one
# An MDT answers within a millisecond, and some 50,000 requests a second: a request that takes
# longer waited behind others (Little's law).
MDT_CALLS = frozenset(("open", "close", "getattr", "unlink", "rmdir", "mkdir", "rename", "link",
                        "symlink", "readdir", "setattr"))
# What all tasks of any job do when they start: a little of each is much of a node's time.
BY_ALL_TASKS = frozenset(("open", "close", "getattr"))
_AT_START, _START_WITHIN_S = {"open": 1_000, "close": 1_000, "getattr": 8_000}, 100
_LEAST_TASKS = 4.0                  # threads of a node with one task, or an unknown number
_ONE_REQUEST = frozenset(("open", "close", "getattr", "mkdir", "readdir"))
_MDT_ANSWERS_WITHIN_S, _MDT_RATE, _MDT_RATE_AT_LEAST = 1e-3, 50_000, 10_000
_MDT_IS_SLOW_S = 0.025              # of a request: an MDT that is not busy answers in a tenth of it


def compute_time_share(io: KnownIO, *calls: str) -> TimeShare:
    """The share of time that these calls took: of the busiest node where that is clearly more."""
    average, busiest = _compute_shares(io, *calls)
    return busiest if busiest.share.low > _CLEARLY_MORE * average.share.low else average


def find_largest_share(io: KnownIO, *calls: str) -> float:
    """Return the larger of the two shares, a lower bound; for thresholds."""
    average, busiest = (time.share for time in _compute_shares(io, *calls))
    at_once = max(1.0, estimate_waiting(io, *calls) / io.per_node)
    of_one = busiest.low if busiest.low > _CLEARLY_MORE * average.high else busiest.low / at_once
    return float(max(average.low / at_once, of_one))


def compute_node_time(io: KnownIO, *calls: str) -> Interval:
    """
    The time of these calls on the busiest node, by the run time: the share of a single thread that
    did them all, or above 1 the least number of threads.
    """
    spent = io.find_busiest_node(*calls).amount
    if not spent.low:
        spent = divide(io.sum_seconds(*calls), make_exact(io.nodes or 1))
    return divide(spent, io.elapsed_s)


def estimate_waiting(io: KnownIO, *calls: str) -> float:
    """
    Estimate how many threads of a node waited for an MDT at the same time, at most, by the time of
    a request; 1 if calls wait mostly for something else, where the MDT was not busy, or slow by
    itself, and for a few nodes of which neither tasks nor CPUs are known: other jobs may load it.
    """
    asks = MDT_CALLS.intersection(calls)
    if is_mdt_slow(io, *asks) or (
            2 * io.sum_seconds(*asks).high < io.sum_seconds(*calls).low):
        return 1.0
    least = estimate_least_threads(io, *calls)
    if not io.workers and (io.nodes or 1) < _LEAST_NODES:
        return least
    threads = (_compute_call_time(io, *asks).high - _MDT_ANSWERS_WITHIN_S) * _MDT_RATE / (
        io.nodes or 1)
    return float(min(max(least, threads), io.most_threads))


def estimate_least_threads(io: KnownIO, *calls: str) -> float:
    """
    Return how many threads of a node are taken to have made these calls, at least: some for calls
    that all tasks of any job make, where a node has one task, which may have threads, or it is
    unknown how many; all, where it is no more than each may call when it starts; else 1.
    """
    if (io.workers == TASKS and io.per_node > 1) or not _are_by_all(io, *calls):
        return 1.0                                  # of the time of all tasks
    if may_be_start(io, *calls):
        return io.most_threads
    return _LEAST_TASKS if io.per_node == 1 and io.most_threads >= _LEAST_TASKS else 1.0


def may_be_start(io: KnownIO, *calls: str) -> bool:
    """
    Whether these calls may be those of all tasks when they start: any job opens some files then, as
    the modules of Python.  It is no start if each task would take longer, or where it is unknown
    how many there are, if each thread would make more calls.
    """
    are_tasks = io.workers == TASKS and io.per_node > 1
    threads = io.per_node if are_tasks else io.most_threads
    each_s = compute_node_time(io, *BY_ALL_TASKS.intersection(calls)).low * io.elapsed_s.low
    if is_mdt_slow(io, *MDT_CALLS.intersection(calls)) or each_s > threads * _START_WITHIN_S:
        return False
    return are_tasks or (_are_by_all(io, *calls) and all(
        (io.busiest[call].amount if call in io.busiest else io.count_calls(call)).low
        <= io.most_threads * count for call, count in _AT_START.items() if call in calls))


def _are_by_all(io: KnownIO, *calls: str) -> bool:
    """Whether these are calls that all tasks of any job make, with the reads of files so opened."""
    reads = frozenset(("read",) if "open" in calls else ())
    return io.side == NODES and BY_ALL_TASKS.issuperset(
        call for call in calls if call not in reads and io.count_calls(call).high)


def is_mdt_slow(io: KnownIO, *calls: str) -> bool:
    """
    Whether requests to MDTs of one kind took long, and longer than they would if all threads of the
    job sent one at the same time, to an MDT that answers 10,000 a second.
    """
    # The only task of a node may have threads.
    threads = io.per_node if io.per_node > 1 else io.most_threads
    longest = max(_MDT_IS_SLOW_S, threads * (io.nodes or 1) / _MDT_RATE_AT_LEAST)
    return any(is_surely_at_least(_compute_call_time(io, call), longest)
               for call in _ONE_REQUEST.intersection(calls))


def _compute_call_time(io: KnownIO, *calls: str) -> Interval:
    return divide(io.sum_seconds(*calls), add_up(
        io.count_calls(call) for call in calls if io.is_timed(call)))


def _compute_shares(io: KnownIO, *calls: str) -> tuple[TimeShare, TimeShare]:
    """Return (of all nodes on average, of the busiest node)."""
    nodes = io.nodes or 1
    average = TimeShare(io.compute_time_share(*calls), name_time(io.per_node, io.workers, nodes))
    busiest = io.find_busiest_node(*calls)
    node, share = busiest.node, divide(busiest.amount, io.elapsed_s)
    if not node or io.side != NODES:
        return average, average
    if io.per_node == 1:
        return average, TimeShare(share, f"the run time on {node}", node)
    serial_s = find_single_thread_time(busiest, io.elapsed_s.low, nodes)
    if serial_s is None:
        whole = f"{name_time(io.per_node, io.workers, 1)} on {node}"
        return average, TimeShare(multiply(share, 1 / io.per_node), whole, node)
    whole = (f"the run time on {node}" if busiest.amount.low <= serial_s.high else
             f"the run time more on {node} than on others")
    share = Interval(*(min(1.0, bound) for bound in divide(serial_s, io.elapsed_s)))
    return average, TimeShare(share, whole, node, True)


def name_time(per_node: float, workers: str, nodes: int) -> str:
    """Name the time that a share refers to: the nodes' time, or that of the tasks."""
    return "the nodes' time" if per_node == 1 else (
        f"the time of {round(per_node * nodes):,} {workers}")


def count_workers(record: Record, longest: float = 0.0) -> tuple[str, float]:
    """
    Return (TASKS or CPUS, how many a node has on average); ("", 1.0) where that is unknown.

    `longest`: the time of the node that spent most in a call, by the run time.  It is no more than
    its tasks have, so CPUs count where it is: a batch system knows what was asked for, and mpirun
    may start more.  Where it knows no CPUs either, it is those of the node with most of them.
    """
    batch = record.batch
    counts = [(TASKS, batch.tasks / _count_nodes(record))] if batch and batch.tasks else []
    cpus = count_cpus(record)
    if cpus:
        counts.append((CPUS, cpus))
    workers = "", 1.0
    for kind, count in counts:
        workers = kind, max(1.0, count)
        if longest <= count:
            break
    return workers


def count_cpus(record: Record) -> float | None:
    """CPUs of a node, on average: those of the job, or else all; None if that is unknown."""
    batch = record.batch
    if batch and batch.cpus:
        return batch.cpus / _count_nodes(record)
    cpus = record.coverage.cpus_of_node
    return float(cpus) if cpus else None


def _count_nodes(record: Record) -> int:
    return max(1, record.coverage.reported, record.coverage.expected or 0)


def find_single_thread_time(busiest: BusiestNode, elapsed_s: float, nodes: int) -> Interval | None:
    """
    Find the seconds of the busiest node that one thread, or a few, spent while all others waited;
    None if they may be those of all its tasks.

    All of its time, if it is three times that of the median node, and no longer than four times the
    run time.  Else its time above the median node's, if that is a quarter of the median node's time
    or more, and no other node is near.
    """
    spent, median, second = busiest.amount, busiest.median.high, busiest.second.high
    if spent.low >= _TIMES_MEDIAN * median and spent.high <= _MOST_RUN_TIMES * elapsed_s:
        return Interval(*spent)
    more = spent.low - median
    if (nodes >= _LEAST_NODES and _LEAST_ABOVE_MEDIAN * median <= more <= elapsed_s
            and spent.low - second >= _TIMES_SECOND * (second - median)):
        return Interval(more, max(more, spent.high - busiest.median.low))
    return None
