"""
Rules about where I/O goes: over targets, over nodes, and how much of it came from memory.
"""

from __future__ import annotations

from math import inf

from iostats.base.units import brief_seconds, bytes_text
from iostats.report.advice.interval import (
    ZERO,
    Interval,
    added_up,
    exactly,
    ratio,
    share_of,
    surely_at_least,
)
from iostats.report.advice.rule import (
    Held,
    at_least,
    cost_of,
    count_text,
    of_time,
    rate_text,
    share_of_it,
    weight_of,
)
from iostats.report.job_summary import NODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Optional

    from iostats.report.advice.known import KnownIO
    from iostats.report.advice.rule import Limits

_MOVES = ("read", "write")
_LARGEST_PAGE_BYTES = 1 << 16           # of all kernels that Lustre runs on


def _busiest(numbers: Mapping[str, Interval]) -> tuple[str, Interval, Interval]:
    """(target with the most, its number, its share of all)."""
    name = max(sorted(numbers), key=lambda target: numbers[target].low)
    rest = added_up(number for target, number in numbers.items() if target != name)
    return name, numbers[name], share_of(numbers[name], rest)


def one_ost(known: KnownIO, limits: Limits) -> Optional[Held]:
    """One of several OSTs has most of many bytes."""
    if len(known.ost_bytes) < 2:
        return None
    target, moved, share = _busiest(known.ost_bytes)
    if not (surely_at_least(moved, limits["large_bytes"])
            and surely_at_least(share, limits["one_ost_percent"] / 100)
            and _is_worth_it(known, limits, *_MOVES)):
        return None
    whole = added_up(known.ost_bytes.values())
    return Held(0.9 * weight_of(known, *_MOVES, concerned=share.low),
                f"{'all' if share.low == 1 else f'{share_of_it(share)} of'} {at_least(whole)}"
                f"{bytes_text(round(whole.low), limits.units)} went through {target}, 1 of "
                f"{len(known.ost_bytes):,} OSTs",
                {"bytes": moved.low, "share": round(share.low, 4), "osts": len(known.ost_bytes)},
                advice=f"Before creating it, run: lfs setstripe -c "
                       f"{min(8, len(known.ost_bytes))} DIRECTORY.",
                cost=cost_of(known, *_MOVES, "fsync"))


def one_mdt(known: KnownIO, limits: Limits) -> Optional[Held]:
    """One of several MDTs has most of many requests."""
    if len(known.mdt_requests) < 2:
        return None
    target, asked, share = _busiest(known.mdt_requests)
    rate = ratio(asked, known.elapsed_s)
    if not (surely_at_least(rate, limits["one_mdt_per_second"])
            and surely_at_least(asked, limits["from_operations"])
            and surely_at_least(share, limits["one_mdt_percent"] / 100)):
        return None
    return Held(0.2 * share.low,
                f"{target} answered {share_of_it(share)} of the requests for metadata, "
                f"{at_least(rate)}{rate_text(rate.low)} a second; there are "
                f"{len(known.mdt_requests):,} MDTs",
                {"requests": asked.low, "share": round(share.low, 4),
                 "mdts": len(known.mdt_requests)})


def metadata_storm(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Many requests a second to an MDT, by all nodes or by one."""
    if not known.mdt_requests:
        return None
    target, asked, _ = _busiest(known.mdt_requests)
    rate = ratio(asked, known.elapsed_s)
    peak_target = max(sorted(known.peaks), key=lambda name: known.peaks[name][1].low, default="")
    node, peak = known.peaks.get(peak_target, ("", ZERO))
    enough = surely_at_least(asked, limits["from_operations"])
    each = (f", on average {at_least(rate)}{rate_text(rate.low / known.nodes)} by each node"
            if known.nodes and known.nodes > 1 else "")
    if enough and surely_at_least(rate, limits["metadata_storm_per_second"]):
        text = (f"{target} was asked {count_text(asked)} times, {at_least(rate)}"
                f"{rate_text(rate.low)} a second{each}")
    elif surely_at_least(peak, limits["metadata_storm_node_per_second"]) and (
            known.mdt_requests[peak_target].low >= limits["from_operations"]):
        target, text = peak_target, (f"{node} asked {peak_target} {at_least(peak)}"
                                     f"{rate_text(peak.low)} times a second on average")
    else:
        return None
    return Held(max(0.3, weight_of(known, "open", "close", "getattr", "unlink")),
                text, {"requests": asked.low, "per_second": round(rate.low, 3),
                       "node_per_second": round(peak.low, 3)}, ("one_mdt",))


def one_node(known: KnownIO, limits: Limits) -> Optional[Held]:
    """One of several nodes reads or writes nearly all."""
    found = []
    for way in _MOVES:
        node, its = known.busiest.get(f"{way}_bytes", ("", Interval(0, inf)))
        most = known.at_most_moved(way)
        share = ratio(its, exactly(most))
        if most > known.of(f"{way}_bytes").low:             # of what is in calls it may be more
            share = share._replace(high=1.0)
        if ((known.nodes or 0) >= limits["one_node_nodes"]
                and surely_at_least(its, limits["large_bytes"])
                and surely_at_least(share, limits["one_node_percent"] / 100)
                and _is_worth_it(known, limits, way)):
            found.append((its.low, way, node, its, share))
    if not found:
        return None
    moved, way, node, its, share = max(found)
    return Held(0.9 * weight_of(known, way, concerned=min(1.0, share.low)),
                f"{node} {'read' if way == 'read' else 'wrote'} {share_of_it(share)} of all that "
                f"{known.nodes} nodes did, {at_least(its)}"
                f"{bytes_text(round(moved), limits.units)}",
                {"bytes": moved, "share": round(min(1.0, share.low), 4)},
                cost=cost_of(known, way, *("fsync",) * (way == "write")))


def _is_worth_it(known: KnownIO, limits: Limits, *ways: str) -> bool:
    """Whether reads or writes take enough time; where nothing times them, many bytes do."""
    return not known.is_timed(*ways) or limits.matters(known, *ways)


def random_reads(known: KnownIO, limits: Limits) -> Optional[Held]:
    """
    More comes from the OSTs than programs read.

    A page is read for a write() of a part of it, at both of its ends at most; and a mapped file's
    pages are in no call.
    """
    asked, came = known.of("read_bytes"), added_up(known.ost_read_bytes.values())
    for_writes = 2 * _LARGEST_PAGE_BYTES * known.of("write_calls").high
    sure = came.low - for_writes
    if not (known.side == NODES and known.of("page_fault").high == 0
            and surely_at_least(known.of("read_calls"), limits["from_operations"])
            and known.of("mmap").high == 0 and known.of("splice").high == 0 and asked.high < inf
            and sure >= limits["large_bytes"]
            and sure >= limits["random_reads_times"] * asked.high
            and _is_worth_it(known, limits, "read")):
        return None
    return Held(weight_of(known, "read", concerned=1 - asked.high / sure),
                f"{at_least(came)}{bytes_text(round(came.low), limits.units)} came from the OSTs "
                f"for {'' if asked.low == asked.high else 'up to '}"
                f"{bytes_text(round(asked.high), limits.units)} that were read"
                f"{of_time(known, 'read')}",
                {"network_bytes": came.low, "read_bytes": asked.high}, ("small_reads",),
                cost=cost_of(known, "read"))


def cache_served(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Most of what was read came from the nodes' memory."""
    asked, came = known.of("read_bytes"), known.over_network("read_bytes")
    missing = ratio(came, asked)
    if not (known.side == NODES and surely_at_least(asked, limits["large_bytes"])
            and 100 * missing.high <= 100 - limits["cache_served_percent"]):
        return None
    cached = Interval(1 - missing.high, 1 - missing.low)
    return Held(0.01, f"{share_of_it(cached)} of {at_least(asked)}"
                f"{bytes_text(round(asked.low), limits.units)} that were read did not come over "
                f"the network", {"read_bytes": asked.low, "network_bytes": came.high})


def slow_servers(known: KnownIO, limits: Limits) -> Optional[Held]:
    """Bulk requests that take long at the storage servers."""
    found = []
    for way in _MOVES:
        rpcs = known.over_network(f"{way}_rpcs")
        each = ratio(known.times_s.get(f"{way}_rpcs", Interval(0, inf)), rpcs)
        if surely_at_least(rpcs, limits["from_operations"]) and surely_at_least(
                each, limits["slow_servers_ms"] / 1000):
            found.append((each.low * rpcs.low, way, rpcs, each))
    if not found:
        return None
    seconds, way, rpcs, each = max(found)
    return Held(0.3, f"{count_text(rpcs)} {way} requests took {at_least(each)}"
                f"{brief_seconds(each.low)} each at the storage servers",
                {"requests": rpcs.low, "seconds": seconds})
