"""Rules, and their results."""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_percent
from iostats.report.findings.interval import Interval, add_up, divide
from iostats.report.findings.known_io import find_counter
from iostats.report.findings.time_share import (
    BY_ALL_TASKS,
    compute_node_time,
    compute_time_share,
    estimate_least_threads,
    estimate_waiting,
    find_largest_share,
    may_be_start,
)
from iostats.report.job_fields import NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.report.findings.known_io import KnownIO
    from iostats.report.findings.time_share import TimeShare

_MOSTLY_CACHED = ("read", "write", "getattr")
_LITTLE = 0.05              # of the time of all tasks; more is a finding without any doubt
_OF_ONE_THREAD = 0.2        # of the run time, if it is one thread's
_TIMES_OF_ONE_THREAD = 2    # untimed_per_second: these take a fifth of the run time of one thread
_UNTIMED_OF_ONE_NODE = 4    # times untimed_per_second
_MOST_REQUESTS = 3          # of an operation, to MDTs
_OF_ONE_THREAD_RATE = 5_000     # reads and writes a second, of 40 us: a fifth of its time
_FROM_MEMORY = 4            # of these take as long as one request to a server, at least


class Rule(NamedTuple):
    """A rule: the name of its finding, its condition, its texts, and the metrics it needs."""

    id: str                         # as in [findings] and docs/reference/findings.md: small_writes
    # the subject of the rule, for the line of checks where no rule holds; "" for none
    looks_at: str
    # (KnownIO, Limits) -> Held or None; of rules about the whole job (Record, Limits) -> [Held],
    # and of those about requests (KnownRequests, Limits) -> Held or None
    when: Callable[..., Any]
    # meaning, advice: a sentence each; a Held's own win
    meaning: str
    advice: str
    options: tuple[str, ...] = ()   # keys of [findings] that only this rule has
    # whether `when` and the texts hold for each kind of file systems of which calls are known
    of_any_kind: bool = False
    # the same rule for file systems of which requests alone are known: as `when` of these
    of_requests: Callable[..., Any] | None = None


class Held(NamedTuple):
    """The match of a rule that applies."""

    # weight, number, evidence, cost, is_certain: as of a Finding
    weight: float
    number: str
    evidence: dict[str, Any]
    covers: Sequence[str] = ()  # ids of rules whose findings say less of the same
    # meaning, advice: instead of the rule's, where it depends on the numbers; "" for the rule's
    meaning: str = ""
    advice: str = ""
    file_system: str = ""       # of a rule about the whole job: which one it is about, if any
    cost: float | None = None
    is_certain: bool = True


class Limits:
    """
    The thresholds of [findings], and functions that rules share.

    Attributes:
        findings: the thresholds.
        units: of bytes in texts.
    """

    def __init__(self, config: Config) -> None:
        self.findings, self.units = config.findings, config.report.units

    def is_significant(self, io: KnownIO, *calls: str, along: tuple[str, ...] = ()) -> bool:
        """
        Whether these calls take enough time, on average or on one node, or would if one thread of
        each node made them all; where nothing times them: whether each task or CPU makes enough of
        them a second, of which a read, a write and a stat() count as a quarter, as most are served
        by the node's memory.

        `along`: other calls that come with them, whose time may be added.  It need not: with them
        it may be more than one thread can have spent, so that less would be known to matter.
        """
        if along and self.is_significant(io, *calls, *along):
            return True
        if io.is_timed(*calls):
            return (100 * find_largest_share(io, *calls) >= self.findings.from_percent
                    or may_be_one_thread(io, *calls))
        cached = _MOSTLY_CACHED if io.side == NODES else ()

        def as_requests(call: str, number: float) -> float:
            if call not in cached:
                return number
            if call != "getattr" or not io.mdt_requests:
                return number / _FROM_MEMORY
            # stat() calls that ask no MDT are served by the node's memory, all others are not.
            requests = add_up(io.mdt_requests.values()).low
            uncached = requests - _MOST_REQUESTS * (io.operations.high - io.of(call).low)
            return max(min(requests, number / _FROM_MEMORY),
                       number * min(1.0, uncached / (io.of(call).high or 1)))
        number = sum(as_requests(call, io.count_calls(call).low) for call in calls)
        per_second = divide(Interval(number), io.elapsed_s).low
        if self.is_often(io, per_second / estimate_least_threads(io, *calls)):
            return True
        if {"read", "write"}.issuperset(calls) and io.side == NODES and (
                sum(io.rate(call).low for call in calls) >= (io.nodes or 1) * _OF_ONE_THREAD_RATE):
            return True
        alone = [(call, io.busiest[find_counter(call)]) for call in calls
                 if find_counter(call) in io.busiest]
        more = sum(as_requests(call, max(0, busiest.amount.low - busiest.second.high))
                   for call, busiest in alone if busiest.amount.low >= 2 * busiest.second.high)
        least = self.findings.untimed_per_second * io.elapsed_s.high
        if io.nodes == 1:       # no other node shows that it is one thread: so a fifth of its time
            return bool(more >= least * _UNTIMED_OF_ONE_NODE and not may_be_start(io, *calls)
                        and not {"read", "write"}.issuperset(calls))
        return bool(more >= least)

    def is_often(self, io: KnownIO, per_second: float) -> bool:
        """Whether this rate of calls matters if nothing times them."""
        least = self.findings.untimed_per_second * (io.nodes or 1) * io.per_node
        return bool(per_second >= least)

    def are_often(self, io: KnownIO, per_second: float) -> bool:
        """
        Return True if so many requests to OSTs a second matter: they may be of one thread of each
        node, and one takes a millisecond and more.
        """
        return self.is_often(io, per_second) or per_second >= (
            _TIMES_OF_ONE_THREAD * self.findings.untimed_per_second * (io.nodes or 1))


def may_be_one_thread(io: KnownIO, *calls: str) -> bool:
    """
    Whether these calls take a little of the time of all tasks, and much of the run time if one
    thread of each node makes them all, or a few do.

    open(), close() and stat() are what all tasks of any job do when they start: of these it holds
    only where the number of tasks is unknown, or the MDT is slow.
    """
    if not io.is_timed(*calls) or io.per_node == 1 or (
            not BY_ALL_TASKS.isdisjoint(calls) and may_be_start(io, *calls)):
        return False
    least = _OF_ONE_THREAD * estimate_waiting(io, *calls)
    return bool(compute_time_share(io, *calls).share.low < _LITTLE
                and compute_node_time(io, *calls).low >= least)


def compute_weight(io: KnownIO, *calls: str, concerned: float = 1.0) -> float:
    """
    The importance of these calls, for sorting: their share of time (compute_time_share), times
    `concerned`; half of what it would be for one thread where that is not certain.  If they are not
    timed: half of `concerned`, which is no measurement.
    """
    if not io.is_timed(*calls):
        return 0.5 * concerned
    share = float(compute_time_share(io, *calls).share.low)
    if may_be_one_thread(io, *calls):
        share = max(share, 0.5 * min(1.0, compute_node_time(io, *calls).low))
    return min(1.0, share) * concerned


def bound_cost(io: KnownIO, *calls: str) -> float | None:
    """
    An upper bound of the part of the run time that these calls cost: their total time, as if no two
    calls had overlapped; where one node is above the others, the time of that node.  None if some
    of them are not timed, or may be missing.
    """
    untimed = [call for call in calls if call not in io.times_s]
    if io.side != NODES or any(io.count_calls(call).high for call in untimed) or any(
            find_counter(call) in io.uncalled for call in calls):
        return None
    spent = io.sum_seconds(*calls)
    if compute_time_share(io, *(set(calls) - set(untimed))).node:
        spent = io.find_busiest_node(*calls).amount
    highest = float(divide(spent, io.elapsed_s).high)
    return None if highest == inf else min(1.0, highest)


def bound_saving(io: KnownIO, *calls: str) -> float | None:
    """
    An upper bound of the part of the run time that would be saved if all nodes shared these calls
    evenly: the busiest node's time in them, less the mean of the nodes.  None as of bound_cost.
    """
    if bound_cost(io, *calls) is None:
        return None
    spent = io.find_busiest_node(*calls).amount
    mean = io.sum_seconds(*calls).low / (io.nodes or 1)
    return float(min(1.0, max(0.0, spent.high - mean) / io.elapsed_s.low))


def format_time_share(io: KnownIO, *calls: str) -> str:
    """
    ", 41 % of the nodes' time": the time of these calls, with what it is for one thread of each
    node where that is not certain; "" if they are not timed, or that is unknown.
    """
    time = compute_time_share(io, *calls)
    if not time.share.low:
        return ""
    if may_be_one_thread(io, *calls):
        threads = compute_node_time(io, *calls)
        part, each = (format_percent(threads.low), "one thread of each node") if (
            threads.low <= 1) else ("all", f"{ceil(threads.low)} threads of each node")
        return (f", {describe_time_share(time)}, or {mark_low(threads)}{part} of the run time if "
                f"{each} made them all")
    return f", {describe_time_share(time)}{'' if time.share.low <= 1 else ' (threads overlap)'}"


def describe_time_share(time: TimeShare) -> str:
    """A share of time in words; above 1 where threads waited side by side."""
    share = time.share
    mark = mark_low(share)
    if time.is_upper_bound:
        mark = "~ " if mark else "up to "
    return mark + (f"{format_percent(share.low)} of {time.whole}" if share.low <= 1 else
                   f"{share.low:,.1f} times {time.whole}")


def mark_low(number: Interval) -> str:
    """Return ">= " for a number that may be more, else ""."""
    return "" if number.low == number.high else ">= "


def mark_high(number: Interval) -> str:
    """Return "up to " for a number that may be less, else ""."""
    return "" if number.low == number.high else "up to "


def format_share(share: Interval) -> str:
    """A share of something, from 0 to 1, marked where it may be more."""
    return mark_low(share) + format_percent(min(1.0, share.low))


def count_text(number: Interval) -> str:
    """A count with commas, marked where it may be more."""
    return f"{mark_low(number)}{number.low:,.0f}"


def format_rate(number: float) -> str:
    """
    Format a rate with three digits or more.

    >>> format_rate(12345.6), format_rate(23.46), format_rate(0.5)
    ('12,346', '23.5', '0.5')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"
