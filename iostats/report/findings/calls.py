"""
Rules about how programs call: the sizes of reads and writes, and the time in all other calls.

A rule about time holds if its calls take [findings] from_percent of it and there are
from_operations of them, or if they take a tenth of it, however few they are.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_bytes, format_percent, format_seconds
from iostats.report.findings.interval import (
    Interval,
    add_up,
    compute_share,
    divide,
    is_surely_at_least,
    is_surely_at_most,
    make_exact,
)
from iostats.report.findings.known_io import find_counter
from iostats.report.findings.rule import (
    Held,
    bound_cost,
    compute_weight,
    count_text,
    describe_time_share,
    format_rate,
    format_share,
    format_time_share,
    mark_high,
    mark_low,
    may_be_one_thread,
)
from iostats.report.findings.target_and_node_rules import SMALL_REQUEST, exceed_reads, random_reads
from iostats.report.findings.time_share import compute_time_share, find_largest_share, is_mdt_slow
from iostats.report.job_fields import NODES

MUCH = 0.1                  # of the time: worth a finding, however few the calls are
_MUCH_IN_ALL = 0.25         # of the time, in all calls: with large reads and writes
_MOST = 0.5
_REQUESTS_PER_FILE = 2      # for each open, at most: it is the files that are small
_RARE = 20                  # and at least one for so many of them
_MEDIUM = 8                 # times small_bytes: still small if the calls take much time,
_MEDIUM_WITHIN_S = 1e-3     # each so little that it is the number of calls that takes it
_OF_NO_CALL_BYTES = 0.25     # of a way's bytes: without a call that asked for them
_SMALL_FILE_BYTES = 1 << 20     # read and written for each open
# A removal is two requests that change the MDT, beside those to OSTs.
_REMOVALS_OF_STORM = 5
_SYNCED_BYTES = 16 << 20    # written for each fsync(): what is less hardly fills the requests
_OFTEN = 0.1                # of the job's time between a close and the next open, on average
_REQUESTS_PER_SECOND = 100  # of a node: fewer are not worth a finding where no call is timed
_POLLING_SHARE, _POLLING_PER_SECOND = 0.5, 10

# Calls that go with the opens of small files, and with removals: how many for each, at most.
_WITH_FILES = {"getattr": 1, "read": 3, "write": 3, "setattr": 3, "truncate": 1, "unlink": 1}
_WITH_REMOVALS = {"getattr": 3, "readdir": 3, "open": 1, "close": 1}
_METADATA = ("open", "close", "unlink", "rmdir", "mkdir", "rename", "link", "symlink", "readdir")

# Calls that the kernel's counters have under other names than programs.
_NAMES = {"setattr": "chmod(), chown() and utime()", "truncate": "truncate() and O_TRUNC",
          "getattr": "stat()", "seek": "lseek()", "splice": "splice() and sendfile()",
          "inode_permission": "the kernel's permission checks"}
_WITH_RULES = ("open", "close", "getattr", "unlink", "rmdir")
# A read or write, or a part of another call: `open` has the time of creating the file in it.
_NOT_OTHER_CALLS = frozenset(("read", "write", "create", "mknod", "fsync", "page_fault",
                              "page_mkwrite", "flock"))
_SEEKS = ("lseek() to the end of a file, to data or to a hole asks its OSTs.",
          "Remember positions and sizes, or append with O_APPEND.")

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Optional

    from iostats.report.findings.known_io import KnownIO
    from iostats.report.findings.rule import Limits
    from iostats.report.findings.time_share import TimeShare


def takes_much_time(io: KnownIO, *calls: str) -> bool:
    """Whether calls take so much time that they are a finding, however few they are."""
    return io.is_timed(*calls) and find_largest_share(io, *calls) >= MUCH


def _is_costly(io: KnownIO, limits: Limits, *calls: str) -> bool:
    """Whether calls take their time, and are many or take much of it."""
    count = add_up(map(io.of, calls))
    return limits.is_significant(io, *calls) and (
        is_surely_at_least(count, limits.findings.from_operations) or takes_much_time(io, *calls))


def _make_held(io: KnownIO, calls: tuple[str, ...], number: str, evidence: dict[str, Any],
               covers: tuple[str, ...] = (), along: tuple[str, ...] = (),
               concerned: float = 1.0) -> Held:
    """The Held of calls, and of those `along` with them: the time of all is its weight and cost."""
    every = (*calls, *along)
    time = format_time_share(io, *every)
    return Held(compute_weight(io, *every, concerned=concerned),
                f"{number}{time}{_name_along(along) if time else ''}", evidence, covers,
                cost=bound_cost(io, *every), is_certain=not may_be_one_thread(io, *every))


def _format_size(mean: Interval, limits: Limits) -> str:
    """A mean size, marked where it may be less."""
    return f"{mark_high(mean)}{format_bytes(round(mean.high), limits.units)}"


class OneNode(NamedTuple):
    """A single node that makes calls of a kind, while the others do something else."""

    node: str
    calls: Interval                     # how many it made
    bytes_in_calls: dict[str, float]    # read, write -> an upper bound
    bytes_moved: dict[str, float]       # the same with what is in no call: it may all be its own

    @property
    def by(self) -> str:
        """Return the node's name for a text."""
        return f" by {self.node}"


def _find_one_node(io: KnownIO, *calls: str) -> Optional[OneNode]:
    """
    Find the node that spends more time in these calls than the others, or, where they are not
    timed, makes most of the first kind; None without one.
    """
    busiest = io.busiest.get(find_counter(calls[0]))
    if busiest is None or not (
            compute_time_share(io, *calls).node == busiest.node if io.is_timed(*calls) else
            busiest.amount.low >= _MOST * io.count_calls(calls[0]).high and (io.nodes or 1) > 1):
        return None
    metrics = "read_bytes", "write_bytes"
    in_calls = [io.busiest[metric].amount.high if metric in io.busiest else 0.0
                for metric in metrics]
    moved = [counted + max(0, io.get_network_amount(metric).high - io.of(metric).low)
             for metric, counted in zip(metrics, in_calls)]
    return OneNode(busiest.node, busiest.amount, *(
        dict(zip(("read", "write"), numbers)) for numbers in (in_calls, moved)))


# -- sizes of calls and requests -------------------------------------------------------------------

def small_reads(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Reads whose mean is small, that take their time."""
    return _find_small_calls(io, limits, "read")


def small_writes(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find small writes, by the rule of small_reads."""
    return _find_small_calls(io, limits, "write")


def _find_small_calls(io: KnownIO, limits: Limits, call: str) -> Optional[Held]:
    calls, moved, by = io.of(f"{call}_calls"), io.of(f"{call}_bytes"), ""
    mean = divide(moved, calls)
    if mean.high > limits.findings.small_bytes and (alone := _find_one_node(io, call)):
        by, calls, moved = alone.by, alone.calls, make_exact(alone.bytes_in_calls[call])
        mean = divide(moved, calls)
    # A mean of several sizes is medium if many calls are small and a few are large.
    is_medium = mean.high > limits.findings.small_bytes
    if not (io.side == NODES and is_surely_at_least(calls, limits.findings.from_operations)
            and mean.high < limits.findings.small_bytes * _MEDIUM      # 256 KiB are a block
            and (_are_many_small(io, call) if is_medium else limits.is_significant(io, call))):
        return None
    return _make_held(io, (call,),
                      f"{count_text(calls)} {call}s{by} of {_format_size(mean, limits)} on average",
                      {"calls": calls.low, "mean_bytes": round(mean.high, 1),
                       "seconds": io.times_s[call].low if io.is_timed(call) else None},
                      concerned=0.8 if is_medium else 1.0)


def _are_many_small(io: KnownIO, call: str) -> bool:
    """
    Whether reads or writes of medium size may be many small ones beside some large ones: they take
    much time, each of them little, and no page cache serves them.
    """
    received, requested = io.get_network_amount("read_bytes"), io.of("read_bytes")
    return (takes_much_time(io, call)
            and is_surely_at_most(divide(io.sum_seconds(call), io.count_calls(call)),
                                  _MEDIUM_WITHIN_S)
            and not (call == "read" and is_surely_at_most(divide(received, requested), _MOST)))


_OF_SMALL_READS = ("The node could not merge them (O_DIRECT, or reads all over a file).",
                   "Read 1 MiB or more at a time, in the file's order.")
_OF_NO_CALL = "No counted read() or write() asked for them: libaio or io_uring with O_DIRECT did."


def small_requests(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Bulk requests that are small, and nearly as many as the calls, or in no call."""
    held_of = [held
               for held in (_find_small_requests(io, limits, call) for call in ("write", "read"))
               if held]
    return max(held_of, key=lambda held: held.weight, default=None)


def _find_small_requests(io: KnownIO, limits: Limits, call: str) -> Optional[Held]:
    rpcs, moved = (io.get_data_amount(f"{call}_{unit}") for unit in ("rpcs", "bytes"))
    text = _describe_small_requests(io, limits, call)
    if not text or not is_surely_at_least(rpcs, limits.findings.from_operations):
        return None
    if is_surely_at_most(rpcs, _REQUESTS_PER_FILE * io.of("open").low):
        return None
    evidence = {"requests": rpcs.low, "mean_bytes": round(divide(moved, rpcs).high, 1)}
    rate = divide(rpcs, io.elapsed_s)
    often = f"{mark_low(rate)}{format_rate(rate.low)} a second"
    if io.side != NODES:
        if rate.low < _REQUESTS_PER_SECOND:
            return None
        return Held(0.3, f"{text} on average came to the storage servers, {often}", evidence)
    calls, waits_in = io.of(f"{call}_calls"), call
    evidence["calls"] = calls.low
    if io.of(f"unexplained_{call}_bytes").low >= _OF_NO_CALL_BYTES * moved.high or (
         call == "read" and exceed_reads(io)):
        if rate.low < _REQUESTS_PER_SECOND * (io.nodes or 1):
            return None
        return Held(0.5, f"{text}, {often}", evidence, meaning=_OF_NO_CALL)
    # Whole pages of which little was asked for: reads here and there.
    if call == "read" and (is_surely_at_least(divide(moved, io.of("read_bytes")), 2)
                           or random_reads(io, limits)):
        return None
    # write() returns at once where fsync() does the waiting, and has it in it with O_SYNC.
    if call == "write" and io.compute_time_share("write").low < io.compute_time_share("fsync").low:
        waits_in = "fsync"
    if not (rpcs.low >= 0.5 * calls.high and (
            limits.is_significant(io, waits_in) if io.is_timed(waits_in)
            else limits.are_often(io, rate.low))):
        return None
    time = format_time_share(io, waits_in) + (" in fsync()" if waits_in == "fsync" else "")
    meaning, advice = _OF_SMALL_READS if call == "read" else ("", "")
    return Held(compute_weight(io, waits_in),
                f"{count_text(calls)} {call}s became {text}{time}",
                evidence, (f"small_{call}s", *(("fsync",) if call == "write" else ())), meaning,
                advice, cost=bound_cost(io, call, *("fsync",) * (call == "write")),
                is_certain=not may_be_one_thread(io, waits_in))


def _describe_small_requests(io: KnownIO, limits: Limits, call: str) -> str:
    """
    Format the small ones: the mean of the requests, or those that move one page; "" for neither.
    """
    rpcs, moved = (io.get_data_amount(f"{call}_{unit}") for unit in ("rpcs", "bytes"))
    mean = divide(moved, rpcs)
    if is_surely_at_most(mean, limits.findings.small_bytes * SMALL_REQUEST):
        return f"{count_text(rpcs)} {call} requests of {_format_size(mean, limits)}"
    of_one_page, longer = io.pages.get(call, (Interval(0, 0), Interval(0, inf)))
    if is_surely_at_least(compute_share(of_one_page, longer), _MOST):
        return (f"{count_text(add_up((of_one_page, longer)))} {call} requests, "
                f"{format_share(compute_share(of_one_page, longer))} of them for one page")
    return ""


# -- time of other calls ---------------------------------------------------------------------------

def _select_along(io: KnownIO, count: Interval, calls: dict[str, int]) -> tuple[str, ...]:
    """Select the timed calls that usually accompany `count` other calls."""
    return tuple(call for call, limit in calls.items() if io.is_timed(call)
                 and io.count_calls(call).high <= limit * count.low
                 and io.count_calls(call).low >= count.high / _RARE)


def _name_along(along: tuple[str, ...]) -> str:
    """Name the calls that go with others, for a text."""
    names = [_NAMES.get(call, f"{call}()") for call in along]
    return f" with {' and '.join([', '.join(names[:-1])] * bool(names[:-1]) + names[-1:])}" if (
        names) else ""


def repeated_opens(io: KnownIO, limits: Limits) -> Optional[Held]:
    """
    Opens of files that were open on the same node before: since 2.15 each is a sample of
    openclosetime, the time since the file was closed there (ll_track_file_opens(),
    lustre/llite/file.c).  Of one that an earlier job has closed that is a long time, mostly.
    """
    opens, again = io.of("open"), io.of("openclosetime")
    share = divide(again, opens)
    apart_s = divide(io.of("openclosetime_us"), again).high / 1e6
    if not ("openclosetime" in io.numbers
            and is_surely_at_least(opens, limits.findings.from_operations)
            and is_surely_at_least(share, _MOST)
            and apart_s <= _OFTEN * io.elapsed_s.low
            and limits.is_significant(io, "open", "close")):
        return None
    return _make_held(io, ("open", "close"),
                      f"{format_share(share)} of {count_text(opens)} opens were of files that the "
                      f"same node had closed before",
                      {"opens": opens.low, "again": again.low, "apart_s": round(apart_s, 3)},
                      ("many_opens", *_list_covered(io, limits, "open", "close")))


def many_opens(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find open() calls followed by little I/O, with the other calls on small files."""
    opens, by = io.of("open"), ""
    moved = io.bound_moved_bytes("read") + io.bound_moved_bytes("write")
    each = divide(make_exact(moved), opens)
    along = _select_along(io, opens, _WITH_FILES)
    if each.high > limits.findings.small_bytes and (alone := _find_one_node(io, "open", "close")):
        by, opens, moved = alone.by, alone.calls, sum(alone.bytes_moved.values())
        each = divide(make_exact(moved), opens)
        along = tuple(call for call in _select_along(io, opens, _WITH_FILES)
                      if io.find_busiest_node(call).node == alone.node)
    along = tuple(call for call in along if call not in ("read", "write")
                  or is_surely_at_most(each, limits.findings.small_bytes * _MEDIUM))
    if not (is_surely_at_least(opens, limits.findings.from_operations)
            and is_surely_at_most(each, _SMALL_FILE_BYTES)
            and limits.is_significant(io, "open", "close", along=along)):
        return None
    up_to = "" if each.low == each.high and moved == io.sum_moved_bytes().low else "up to "
    size = format_bytes(round(each.high), limits.units)
    return _make_held(io, ("open", "close"),
                      f"{count_text(opens)} opens{by} for {up_to}{size} read and written each",
                      {"opens": opens.low, "bytes_each": round(each.high, 1)},
                      _list_covered(io, limits, "open", "close", *along), along)


def _list_covered(io: KnownIO, limits: Limits, *calls: str) -> tuple[str, ...]:
    """
    Rules whose findings are explained by opens: about calls of which there are hardly more than
    opens, as the files are small; about requests to MDTs; and about the other calls, if these are
    `calls`.
    """
    opens = io.of("open").low
    return (*(rule for rule, call in (
        ("small_reads", "read"), ("small_writes", "write"), ("stat_storm", "getattr"),
        ("unlink_storm", "unlink")) if io.count_calls(call).high <= _WITH_FILES[call] * opens),
            *_are_the_storm(io, 2 * opens), *_list_other_call_rule(io, limits, *calls))


def _are_the_storm(io: KnownIO, requests: float) -> tuple[str, ...]:
    """Whether these calls are most of the requests to MDTs, so that reducing them would help."""
    count = sum(number.low for number in io.mdt_requests.values())
    return ("metadata_storm",) if count and requests >= _MOST * count else ()


def stat_storm(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Many stat() calls that take their time."""
    return _find_storm(io, limits, ("getattr",),
                       f"{'calls of' if io.side == NODES else 'requests for'} stat()")


def unlink_storm(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Files and directories that are removed one by one, with what `rm -r` does beside it."""
    removals = add_up(map(io.of, ("unlink", "rmdir")))
    covers = tuple(rule for rule, surplus in (
        ("stat_storm", _WITH_REMOVALS["getattr"] * removals.low - io.of("getattr").high),
        ("many_opens", removals.low / 2 - io.of("open").high)) if surplus >= 0)
    return _find_storm(io, limits, ("unlink", "rmdir"), "files and directories removed",
                       _select_along(io, removals, _WITH_REMOVALS), covers, requests_each=2,
                       often=limits.findings.metadata_storm_per_second / _REMOVALS_OF_STORM)


def _find_storm(io: KnownIO, limits: Limits, calls: tuple[str, ...], noun: str,
                along: tuple[str, ...] = (), covers: tuple[str, ...] = (),
                requests_each: int = 1, often: float = inf) -> Optional[Held]:
    """Find many of these calls; `often`: a rate that is a finding, whatever time they took."""
    count = add_up(map(io.of, calls))
    rate = divide(count, io.elapsed_s)
    if not (is_surely_at_least(count, limits.findings.from_operations)
            and (limits.is_significant(io, *calls, along=along)
                 or is_surely_at_least(rate, often))):
        return None
    if not limits.is_significant(io, *calls,
                                 *along):      # with these it may be more than one thread's
        along = ()
    held = _make_held(io, calls,
                      f"{count_text(count)} {noun}, "
                      f"{mark_low(rate)}{format_rate(rate.low)} a second",
                      {"count": count.low, "per_second": rate.low},
                      (*covers, *_are_the_storm(io, requests_each * count.low),
                       *_list_other_call_rule(io, limits, *calls, *along)), along)
    return held._replace(weight=max(held.weight, MUCH)) if rate.low >= often else held


def _describe_slow_calls(io: KnownIO, calls: tuple[str, ...], noun: str, *covers: str) -> Held:
    """Describe calls with the time that each took."""
    count = add_up(map(io.of, calls))
    spent = io.sum_seconds(*calls)
    each = divide(spent, count)
    took = f" took {mark_low(each)}{format_seconds(each.low)} each" if each.low else ""
    return _make_held(io, calls, f"{count_text(count)} {noun}{took}",
                      {"count": count.low, "seconds": spent.low}, covers)


def flock(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find long waits for file locks."""
    if not (io.is_timed("flock") and _is_costly(io, limits, "flock")):
        return None
    return _describe_slow_calls(io, ("flock",), "locks and unlocks of files (flock, fcntl)",
                            *_are_the_storm(io, io.of("flock").low))


def fsync(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find fsync() calls after little data each."""
    moved, by = Interval(io.of("write_bytes").low, io.bound_moved_bytes("write")), ""
    each = divide(moved, io.of("fsync"))
    if each.high > _SYNCED_BYTES and (alone := _find_one_node(io, "fsync")):
        by, each = alone.by, divide(Interval(0, alone.bytes_moved["write"]), alone.calls)
    if not (io.is_timed("fsync") and is_surely_at_most(each, _SYNCED_BYTES)
            and _is_costly(io, limits, "fsync")):
        return None
    return _describe_slow_calls(io, ("fsync",),
                            f"calls of fsync(){by} after {_format_size(each, limits)} each")


def mapped_files(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Page faults of mapped files that take their time."""
    calls = tuple(filter(io.is_timed, ("page_fault", "page_mkwrite")))
    if not (calls and _is_costly(io, limits, *calls)):
        return None
    return _describe_slow_calls(io, calls, "page faults of mapped files (mmap)", "small_requests")


def slow_metadata(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Requests to MDTs that take long, though the job has few of them."""
    calls = tuple(filter(io.is_timed, _METADATA))
    count = add_up(map(io.of, calls))
    rate = divide(count, io.elapsed_s)
    if not (is_mdt_slow(io, *calls)
            and (takes_much_time(io, *calls) or may_be_one_thread(io, *calls))
            and rate.high < limits.findings.metadata_storm_per_second / 5):
        return None
    longest = max(calls, key=lambda call: io.times_s[call].low)
    return _describe_slow_calls(io, calls, f"requests for metadata, {longest}() most of all,",
                            "many_opens", "repeated_opens", "unlink_storm", "other_calls")


def other_calls(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find the call that takes most time, if no other rule covers it."""
    call = _choose_other_call(io, limits)
    if not call:
        return None
    name = f"calls of {_NAMES.get(call, f'{call}()')}"
    held = _find_storm(io, limits, (call,), name) or _describe_slow_calls(io, (call,), name)
    meaning, advice = _SEEKS if call == "seek" else ("", "")
    return held._replace(meaning=meaning, advice=advice, covers=tuple(
        rule for rule in held.covers if rule != "other_calls"))


def _choose_other_call(io: KnownIO, limits: Limits) -> str:
    """The call that other_calls() is about; "" for none."""
    def longest(calls: Iterable[str]) -> str:
        return max(sorted(calls), key=lambda call: io.times_s[call].low, default="")
    own = {call for call in io.times_s if call in _WITH_RULES}
    call = longest(io.times_s.keys() - own - _NOT_OTHER_CALLS)
    if call and _is_costly(io, limits, call):
        return call
    call = longest(own)
    return call if call and takes_much_time(io, call) else ""


def _list_other_call_rule(io: KnownIO, limits: Limits, *calls: str) -> tuple[str, ...]:
    """The rule other_calls, if the call that it reports is one of these."""
    return ("other_calls",) if _choose_other_call(io, limits) in calls else ()


def polling(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find many operations (open, stat) during a long time without data transfer, by `watch`."""
    series = io.series
    lookups = add_up(map(io.of, ("getattr", "open", "close")))
    if not (series and io.elapsed_s.high and is_surely_at_least(
            compute_share(lookups, _subtract(io.operations, lookups)), 0.5)):
        return None
    least = _POLLING_PER_SECOND * series.every_s
    empty = [number for read, written, number in zip(
        series.read_bytes, series.write_bytes, series.operations)
        if number >= least and not read and not written]
    share = len(empty) * series.every_s / io.elapsed_s.high
    if share < _POLLING_SHARE:
        return None
    rate = sum(empty) / (len(empty) * series.every_s)
    return Held(min(1.0, share) * 0.5,
                f"in {format_percent(min(1.0, share))} of the time no byte was read or written, "
                f"and "
                f"there were {format_rate(rate)} operations a second, opens and stat() mostly",
                {"share": round(share, 3), "per_second": round(rate, 3)},
                ("stat_storm", "metadata_storm"))


def _subtract(whole: Interval, part: Interval) -> Interval:
    return Interval(max(0, whole.low - part.low), whole.high - part.low)


# -- time ------------------------------------------------------------------------------------------

def time_in_lustre(io: KnownIO, limits: Limits) -> Optional[Held]:
    """
    Find a large share of time in Lustre, on average or on one node; large reads and writes may
    cause it.
    """
    spent = dict(io.list_longest_waits())
    time = compute_time_share(io, *spent)
    share = time.share
    other_calls = tuple(name for name in spent if name not in ("read", "write"))
    if not (io.side == NODES and (takes_much_time(io, *other_calls) or find_largest_share(
            io, *spent) >= _MUCH_IN_ALL)) or _may_be_little_of_many_threads(io, time):
        return None
    if time.node:
        spent = {name: io.busiest_s[name].amount.low for name in spent
                 if name in io.busiest_s and io.busiest_s[name].node == time.node}
    whole = sum(spent.values())
    first, *more = sorted(((name, seconds / whole) for name, seconds in spent.items()),
                          key=lambda pair: (-pair[1], pair[0]))[:2]
    either = "" if share.low == share.high else "~ "
    longest = " and ".join(f"{either}{format_percent(part)} of it in {name}" for name, part in (
        first, *(pair for pair in more if pair[1] >= MUCH)))
    return Held(min(1.0, share.low) * 0.5,
                f"{describe_time_share(time)} was spent in Lustre, {longest}",
                {"share": round(share.low, 3), "seconds": round(whole, 3)},
                cost=bound_cost(io, *spent))


def _may_be_little_of_many_threads(io: KnownIO, time: TimeShare) -> bool:
    """
    Whether a time may be short for each of many threads: a task may have as many as CPUs; without
    the number of tasks and CPUs, many are assumed.
    """
    return io.most_threads > io.per_node and not (time.node and io.workers) and bool(
        time.share.low * io.per_node < _MUCH_IN_ALL * io.most_threads)
