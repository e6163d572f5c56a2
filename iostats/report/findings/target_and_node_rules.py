"""
Rules about where I/O goes: over targets, over nodes, and how much of it came from memory.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from iostats.base.units import format_bytes, format_percent, format_seconds
from iostats.report.findings.interval import (
    ZERO,
    Interval,
    add_up,
    compute_share,
    divide,
    is_surely_at_least,
    make_exact,
)
from iostats.report.findings.rule import (
    Held,
    bound_cost,
    bound_saving,
    compute_weight,
    count_text,
    format_rate,
    format_share,
    format_time_share,
    mark_high,
    mark_low,
    may_be_one_thread,
)
from iostats.report.findings.time_share import (
    MDT_CALLS,
    TASKS,
    compute_time_share,
    find_single_thread_time,
)
from iostats.report.job_fields import NODES
from iostats.totals.record import SlowNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Optional

    from iostats.report.findings.known_io import BusiestNode, KnownIO
    from iostats.report.findings.rule import Limits

_MOVES, _CALLS = ("read", "write"), ("read_calls", "write_calls")
_ONE_THREAD_BYTES = 1 << 30             # a second, of one thread or one OST, about
_MOST_OF_BYTES = 0.8                    # on one OST
_MOST_OF_REQUESTS = 0.9                 # to one MDT
_OF_STORM = 5                           # part of metadata_storm_per_second is enough
# times metadata_storm_per_second, of all nodes: 10,000, which is all that a small MDT answers; and
# of one node
_OF_NO_TIME, _OF_NO_TIME_ONE_NODE = 2, 10
_NODES, _NODES_BYTES = 4, 0.6           # of so many nodes and more, so much by one of them
_OF_ONE_NODE = _OF_SLOW_NODES = 0.15    # of the run time, as Drishti's share of a straggler
_AS_MUCH = 1.25                         # times the median node's calls and bytes
_FEW_OF_OSTS = 4                        # OSTs with room for the job, for each that it uses
_FEW = 3                                # OSTs that are few for any job
_LOCKS_PER_CALL, _LEAST_STRIPE_BYTES = 0.1, 1 << 18
_REQUESTS_OF_A_LOCK = 4                 # take as long: another node sends its data first
SMALL_REQUEST = 2                      # times small_bytes
_WASTE = 1.3                            # times what programs read
_MOST_OF_WASTE = 0.6                    # of the time of reads, at least, for sorting
_SMALLEST_PAGE_BYTES = 1 << 12
_MANY_MORE = 2                          # requests for one page than read() has pages
_LEAST_REQUEST_S = 20e-6                # of a request to an OST: there, the data, and an answer
_NOT_CACHED = 0.1                       # of what programs read
_SLOW_REQUEST_S = 0.1
_LARGEST_PAGE_BYTES = 1 << 16           # of all kernels that Lustre runs on


def _find_busiest(numbers: Mapping[str, Interval]) -> tuple[str, Interval, Interval]:
    """Return (the target with the largest number, that number, its share of the sum)."""
    name = max(sorted(numbers), key=lambda target: numbers[target].low)
    rest = add_up(number for target, number in numbers.items() if target != name)
    return name, numbers[name], compute_share(numbers[name], rest)


def _takes_enough_time(io: KnownIO, limits: Limits, *directions: str, moved: float,
                       share: float | None = None) -> bool:
    """
    Whether reads or writes take enough time; where nothing times them: whether a node or an OST
    would need this `share` of the run time (from_percent) to move so many bytes at 1 GiB/s.
    """
    if io.is_timed(*directions):
        return limits.is_significant(io, *directions)
    return is_surely_at_least(divide(make_exact(moved), io.elapsed_s),
                              (limits.findings.from_percent / 100 if share is None else share)
                              * _ONE_THREAD_BYTES)


def one_ost(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find one OST with most of many bytes: of all, of those read, or of those written."""
    return _choose_held(io, limits, _use_one_ost)


def _choose_held(io: KnownIO, limits: Limits, rule: Callable[..., Optional[Held]]
                 ) -> Optional[Held]:
    """Apply a rule about OSTs to reads and writes together, or else to each of them."""
    if len(io.ost_bytes) < 2 or _take_locks(io).high:       # they may wait for each other's locks
        return None

    def judge(ost_bytes: Mapping[str, Interval], done: str, *calls: str) -> Optional[Held]:
        # Of small requests an OST's disks limit the number, not the bytes.
        rpcs, moved = (add_up(io.get_data_amount(f"{call}_{unit}") for call in calls
                              if call in _MOVES) for unit in ("rpcs", "bytes"))
        if rpcs.high and divide(moved, rpcs).low <= SMALL_REQUEST * limits.findings.small_bytes:
            return None
        return rule(io, limits, ost_bytes, done, *calls)
    both = judge(io.ost_bytes, "", *_MOVES, "fsync")
    if both or len(io.ost_bytes) <= _FEW_OF_OSTS:       # reads from one of two, writes to the other
        return both
    return max(filter(None, (
        judge(io.ost_moved["read"], " read", "read"),
        judge(io.ost_moved["write"], " written", "write", "fsync"))),
        key=lambda held: held.weight, default=None)


def _use_one_ost(io: KnownIO, limits: Limits, ost_bytes: Mapping[str, Interval], done: str,
                 *calls: str) -> Optional[Held]:
    directions = [call for call in calls if call in _MOVES]
    target, moved, share = _find_busiest(ost_bytes)
    if not (is_surely_at_least(moved, limits.findings.large_bytes)
            and is_surely_at_least(share, _MOST_OF_BYTES)
            and _takes_enough_time(io, limits, *directions, moved=moved.low)):
        return None
    whole = add_up(ost_bytes.values())
    return Held(0.9 * compute_weight(io, *directions, concerned=share.low),
                f"{'all' if share.low == 1 else f'{format_share(share)} of'} {mark_low(whole)}"
                f"{format_bytes(round(whole.low), limits.units)}{done} went through {target}, 1 of "
                f"{len(ost_bytes):,} OSTs",
                {"bytes": moved.low, "share": round(share.low, 4), "osts": len(ost_bytes)},
                ("few_osts",), cost=bound_cost(io, *calls),
                is_certain=not may_be_one_thread(io, *directions))


def few_osts(io: KnownIO, limits: Limits) -> Optional[Held]:
    """
    Many bytes on a few of many OSTs: on less than a quarter of those that are there, and that the
    bytes are enough for (large_bytes on each).

    With one for every two of those that write at the same time, they are enough: as with a file for
    each process.
    """
    return _choose_held(io, limits, _use_few_osts)


def _use_few_osts(io: KnownIO, limits: Limits, ost_bytes: Mapping[str, Interval], done: str,
                  *calls: str) -> Optional[Held]:
    directions = [call for call in calls if call in _MOVES]
    whole, used = add_up(ost_bytes.values()), _count_effective(ost_bytes).high
    room = min(len(ost_bytes), whole.low / limits.findings.large_bytes)
    waiting = divide(io.sum_seconds(*directions), io.elapsed_s).low          # threads, on average
    writers = max((io.nodes or 1) * (io.per_node if io.workers == TASKS else 1), waiting)
    if not (used * _FEW_OF_OSTS < room and used < max(_FEW, writers / 2)
            and _takes_enough_time(io, limits, *directions, moved=whole.low / used)):
        return None
    about = "about" if whole.low == whole.high else "up to"
    return Held(0.8 * compute_weight(io, *directions),
                f"{mark_low(whole)}{format_bytes(round(whole.low), limits.units)}{done} went "
                f"through {about} {used:.0f} of {len(ost_bytes):,} OSTs",
                {"bytes": whole.low, "osts_used": round(used, 2), "osts": len(ost_bytes)},
                cost=bound_cost(io, *calls), is_certain=not may_be_one_thread(io, *directions))


def _count_effective(numbers: Mapping[str, Interval]) -> Interval:
    """
    Count the targets that a number is on in effect: the inverse of the sum of squared shares: 2.0
    for two halves, and for 40 %, 40 % and 20 % 2.8.
    """
    whole = add_up(numbers.values())
    squares = Interval(*(sum(number[bound] ** 2 for number in numbers.values())
                         for bound in (0, 1)))
    return Interval(whole.low ** 2 / squares.high if 0 < squares.high < inf else 0,
                    whole.high ** 2 / squares.low if squares.low and whole.high < inf else inf)


def lock_contention(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find nodes that compete for the locks of a file's ranges.

    The osc's `stats` count these as ldlm_extent_enqueue since 2.10.56 (ldlm_cli_enqueue(),
    lustre/ldlm/ldlm_request.c); of size requests (stat) they are ldlm_glimpse_enqueue.
    """
    locks, calls = (add_up(numbers) for numbers in (io.range_locks.values(), map(io.of, _CALLS)))
    if not (_take_locks(io).low and is_surely_at_least(locks, limits.findings.from_operations)
            and (limits.is_significant(io, *_MOVES) if io.is_timed(*_MOVES) else
                 limits.are_often(io, _REQUESTS_OF_A_LOCK * divide(locks, io.elapsed_s).low))):
        return None
    return Held(compute_weight(io, *_MOVES),
                f"{count_text(locks)} locks of parts of files for {count_text(calls)} reads and "
                f"writes{format_time_share(io, *_MOVES)}",
                {"locks": locks.low, "calls": calls.low},
                ("small_writes", "small_reads", "small_requests", "fsync", "few_osts"),
                cost=bound_cost(io, *_MOVES, "fsync"),
                is_certain=not may_be_one_thread(io, *_MOVES))


def _take_locks(io: KnownIO) -> Interval:
    """
    Return 1 where nodes write, and have more locks than their files explain, or else 0.

    The client sends a request for a lock only if it has none, and a lock without contention grows
    to the whole of an object (ldlm_extent.c); so a node needs one to read and one to write for each
    object of its files.  A file has an object on each OST where the locks are, in effect, and one
    more for each of its stripes at most, which are not smaller than a quarter of lfs's default.
    Reads do not take locks from each other.
    """
    if io.side != NODES or (io.nodes or 0) < 2:
        return ZERO
    locks, calls = (add_up(numbers) for numbers in (io.range_locks.values(), map(io.of, _CALLS)))
    osts, least = _count_effective(io.range_locks), (io.nodes or 1) * io.per_node

    def explained(bound: int) -> float:
        files = max(io.of("open")[bound], least)
        stripes = (io.of(f"{direction}_bytes")[bound] / _LEAST_STRIPE_BYTES
                   for direction in _MOVES if io.of(f"{direction}_calls")[bound])
        return sum(min(osts[bound] * files, files + number) for number in stripes)
    writes = io.of("write_calls")
    return Interval(
        locks.low > max(explained(1), _LOCKS_PER_CALL * calls.high)
        and writes.low >= _LOCKS_PER_CALL * locks.high,
        locks.high > max(explained(0), _LOCKS_PER_CALL * calls.low)
        and writes.high >= _LOCKS_PER_CALL * locks.low)


def one_mdt(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find one of several MDTs with most of a large number of requests."""
    if len(io.mdt_requests) < 2:
        return None
    target, requests, share = _find_busiest(io.mdt_requests)
    rate = divide(requests, io.elapsed_s)
    calls = ("open", "close", "getattr", "unlink")
    if not (is_surely_at_least(rate, limits.findings.metadata_storm_per_second / (
                _OF_STORM if io.is_timed(*calls) else 1))
            and (not io.is_timed(*calls) or limits.is_significant(io, *calls))
            and is_surely_at_least(requests, limits.findings.from_operations)
            and is_surely_at_least(share, _MOST_OF_REQUESTS)):
        return None
    return Held(min(0.2, 0.9 * compute_weight(io, *calls)) * share.low,
                f"{target} answered {format_share(share)} of the requests for metadata, "
                f"{mark_low(rate)}{format_rate(rate.low)} a second; there are "
                f"{len(io.mdt_requests):,} MDTs",
                {"requests": requests.low, "share": round(share.low, 4),
                 "mdts": len(io.mdt_requests)})


def metadata_storm(io: KnownIO, limits: Limits) -> Optional[Held]:
    """
    Many requests a second to an MDT, by all nodes or by one; where calls are timed and took hardly
    any of the job's time, enough to be all that an MDT can serve.
    """
    if not io.mdt_requests:
        return None
    least = limits.findings.metadata_storm_per_second
    least_peak = least / _OF_STORM
    if io.is_timed(*MDT_CALLS) and not limits.is_significant(io, *MDT_CALLS):
        least, least_peak = _OF_NO_TIME * least, _OF_NO_TIME_ONE_NODE * least_peak
    target, requests, _ = _find_busiest(io.mdt_requests)
    rate = divide(requests, io.elapsed_s)
    peak_target = max(sorted(io.peaks), key=lambda name: io.peaks[name][1].low, default="")
    node, peak = io.peaks.get(peak_target, ("", ZERO))
    enough = is_surely_at_least(requests, limits.findings.from_operations)
    each = (f", on average {mark_low(rate)}{format_rate(rate.low / io.nodes)} by each node"
            if io.nodes and io.nodes > 1 else "")
    if enough and is_surely_at_least(rate, least):
        text = (f"{target} was asked {count_text(requests)} times, {mark_low(rate)}"
                f"{format_rate(rate.low)} a second{each}")
    elif is_surely_at_least(peak, least_peak) and (
            io.mdt_requests[peak_target].low >= limits.findings.from_operations):
        target, text = peak_target, (f"{node} asked {peak_target} {mark_low(peak)}"
                                     f"{format_rate(peak.low)} times a second on average")
    else:
        return None
    return Held(max(0.3, compute_weight(io, "open", "close", "getattr", "unlink")),
                text, {"requests": requests.low, "per_second": round(rate.low, 3),
                       "node_per_second": round(peak.low, 3)}, ("one_mdt",))


def one_node(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find one of several nodes that reads or writes most, or much longer than the other ones."""
    candidates = []
    for call in _MOVES:
        busiest = io.busiest.get(f"{call}_bytes")
        if busiest is None:
            continue
        moved, highest = busiest.amount, io.bound_moved_bytes(call)
        share = divide(moved, make_exact(highest))
        if highest > io.of(f"{call}_bytes").low:             # of what is in calls it may be more
            share = share._replace(high=1.0)
        if ((io.nodes or 0) >= _NODES
                and is_surely_at_least(moved, limits.findings.large_bytes)
                and (_takes_enough_time(io, limits, call, moved=moved.low,
                                        share=_OF_ONE_NODE)
                     if is_surely_at_least(share, _NODES_BYTES) else
                     _is_alone(io, limits, call, busiest))):
            candidates.append((moved, call, busiest.node, share))
    if not candidates:
        return None
    moved, call, node, share = max(candidates, key=lambda entry: (entry[0].low, entry[1]))
    return Held(0.9 * compute_weight(io, call),
                f"{node} {'read' if call == 'read' else 'wrote'} {format_share(share)} of all that "
                f"{io.nodes} nodes did, {mark_low(moved)}"
                f"{format_bytes(round(moved.low), limits.units)}{format_time_share(io, call)}",
                {"bytes": moved.low, "share": round(min(1.0, share.low), 4)},
                cost=bound_saving(io, call, *("fsync",) * (call == "write")))


def _is_alone(io: KnownIO, limits: Limits, call: str, busiest: BusiestNode) -> bool:
    """Whether one node reads or writes for long, and twice as much as any other."""
    if busiest.amount.low < 2 * busiest.second.high:
        return False
    if not io.is_timed(call):
        return _takes_enough_time(io, limits, call, moved=busiest.amount.low - busiest.second.high,
                                  share=_OF_ONE_NODE)
    spent = compute_time_share(io, call)
    return bool(spent.node == busiest.node
                and spent.share.low >= _OF_ONE_NODE)


def slow_nodes(io: KnownIO, limits: Limits) -> Optional[Held]:
    """
    Nodes that took much longer than the others to read or write as much; only if all nodes are
    known in full, as a node that is missing or counted in part may be as slow.
    """
    if not io.is_whole:
        return None
    candidates = []
    for slow in [*io.slow_nodes, *_find_outliers(io)]:
        lost = divide(make_exact(slow.seconds - slow.usual_seconds), io.elapsed_s)
        if lost.low >= _OF_SLOW_NODES:
            candidates.append((lost.low, slow))
    if not candidates:
        return None
    part, slow = max(candidates, key=lambda pair: pair[0])
    also = f" (the slowest of {slow.node_count:,}: {slow.nodes})" if slow.node_count > 1 else ""
    return Held(min(1.0, part),
                f"{slow.slowest}{also} took {slow.seconds / slow.usual_seconds:.1f} times as long "
                f"as the other nodes to {slow.call} as much, {format_percent(min(1.0, part))} of "
                f"the run time more",
                {"seconds": slow.seconds, "usual_seconds": slow.usual_seconds,
                 "nodes": slow.node_count},
                ("one_node",), advice=f"Run without it (Slurm: --exclude={slow.nodes}); if it is "
                f"slow in other jobs, too, report it to the site.",
                cost=min(1.0, part))


def exceed_reads(io: KnownIO) -> bool:
    """
    Whether there are many more requests for one page than pages that read() calls and page faults
    ask for, or than these can have waited for: read-ahead asks for more than a page.
    """
    of_one_page, _ = io.pages.get("read", (ZERO, ZERO))
    faults, reads, writes, moved = (io.of(name).high - io.uncalled.get(name, 0) for name in (
        "page_fault", *_CALLS, "read_bytes"))
    waited_s = io.sum_seconds("read", "page_fault").high
    if io.is_timed("read") and is_surely_at_least(
            of_one_page, waited_s / _LEAST_REQUEST_S + 2 * writes):
        return True
    return is_surely_at_least(of_one_page, _MANY_MORE * (
        2 * (faults + reads + writes) + moved / _SMALLEST_PAGE_BYTES))


def _find_outliers(io: KnownIO) -> list[SlowNodes]:
    """
    Find a node that took longer than all others to read or write as much: the time of other calls
    on each node may hide that some took many times as long.
    """
    outliers = []
    for call in _MOVES:
        spent = io.busiest_s.get(call)
        amounts = [io.busiest[metric] for metric in (f"{call}_bytes", f"{call}_calls")
                   if metric in io.busiest]
        if spent and amounts and all(amount.amount.high <= _AS_MUCH * amount.median.low
                                     for amount in amounts) and (
                find_single_thread_time(spent, io.elapsed_s.low, io.nodes or 1)):
            outliers.append(SlowNodes(
                slowest=spent.node, nodes=spent.node, node_count=1, call=call,
                seconds=spent.amount.low, usual_seconds=spent.median.high))
    return outliers


def random_reads(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find read-ahead without use: more data comes from the OSTs than programs read.

    A page is read for a write() of a part of it, at both of its ends at most; the last page of a
    file is read as a whole; and a mapped file's pages are in no call.
    """
    calls, net = io.of("read_bytes"), add_up(io.ost_moved["read"].values())
    # What is in no call (libaio) is O_DIRECT, and reads no page.
    sure = (net.low - 2 * _LARGEST_PAGE_BYTES * io.of("write_calls").low
            - _SMALLEST_PAGE_BYTES * io.of("open").high)
    if not (io.side == NODES and io.of("page_fault").high == 0
            and "read_bytes" not in io.uncalled and not exceed_reads(io)
            and is_surely_at_least(io.of("read_calls"), limits.findings.from_operations)
            and io.of("mmap").high == 0 and io.of("splice").high == 0 and calls.high < inf
            and sure >= limits.findings.large_bytes
            and sure >= _WASTE * calls.high
            and (not io.is_timed("read") or limits.is_significant(io, "read"))):
        return None
    # How much less time the same reads would take in order is not known: most of it.
    return Held(compute_weight(io, "read", concerned=max(_MOST_OF_WASTE, 1 - calls.high / sure)),
                f"{mark_low(net)}{format_bytes(round(net.low), limits.units)} came from the "
                f"OSTs for {mark_high(calls)}"
                f"{format_bytes(round(calls.high), limits.units)} that were read"
                f"{format_time_share(io, 'read')}",
                {"network_bytes": net.low, "read_bytes": calls.high}, ("small_reads",),
                cost=bound_cost(io, "read"), is_certain=not may_be_one_thread(io, "read"))


def cache_served(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find reads served from the nodes' memory."""
    calls, net = io.of("read_bytes"), io.get_network_amount("read_bytes")
    missing = divide(net, calls)
    if not (io.side == NODES and is_surely_at_least(calls, limits.findings.large_bytes)
            and missing.high <= _NOT_CACHED):
        return None
    cached = Interval(1 - missing.high, 1 - missing.low)
    return Held(0.01, f"{format_share(cached)} of {mark_low(calls)}"
                f"{format_bytes(round(calls.low), limits.units)} that were read did not come over "
                f"the network", {"read_bytes": calls.low, "network_bytes": net.high})


def slow_servers(io: KnownIO, limits: Limits) -> Optional[Held]:
    """Find bulk requests that take long at the storage servers."""
    candidates = []
    for call in _MOVES:
        rpcs = io.get_network_amount(f"{call}_rpcs")
        each = divide(io.times_s.get(f"{call}_rpcs", Interval(0, inf)), rpcs)
        if is_surely_at_least(rpcs, limits.findings.from_operations) and is_surely_at_least(
                each, _SLOW_REQUEST_S):
            candidates.append((each.low * rpcs.low, call, rpcs, each))
    if not candidates:
        return None
    seconds, call, rpcs, each = max(candidates)
    return Held(0.3, f"{count_text(rpcs)} {call} requests took {mark_low(each)}"
                f"{format_seconds(each.low)} each at the storage servers",
                {"requests": rpcs.low, "seconds": seconds})
