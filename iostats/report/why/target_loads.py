"""
One target over time, as a job met it: how slow it was, what the job asked of it, and what others
did.

How slow it was is a factor over what is usual there: for each kind of request that is timed by
itself, the usual time is that of the job's faster intervals, or of all jobs while this one was not
there.  So a job that changes from opens to writes does not make its target slow, nor one that
writes more with each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.report.why.axis import compute_upper_median, make_axis, spread_over_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.load.time_lines import Line, TargetHistory
    from iostats.report.why.axis import Amounts, CommonAxis


class TargetLoads(NamedTuple):
    history: TargetHistory
    axis: CommonAxis        # of all that follow, which are [number or None] by interval
    # own, others: load of the job, and of all others: a request counts 1, a MiB that it moves 1
    own: list[float | None]
    others: list[float | None]
    # by how much the job's requests took longer than usual; None where too few were timed
    slowness: list[float | None]
    latency_us: list[float | None]  # what a request of the job took on average
    # one number: what one took in intervals that were not slow; None where not known
    usual_us: float | None
    # busy_us, timed: time of the job's requests that were timed, and how many
    busy_us: list[float | None]
    timed: list[float | None]
    outside: list[float]    # [load of all jobs] of the intervals in which this one was not there


FEWEST_TIMED = 5                    # requests, whose mean is taken for a latency
_FAST, _FEWEST_FAST = 0.04, 3       # of intervals were not disturbed; and how many at least
_PLENTY = 30                        # requests, whose mean shows the usual time
_FEWEST = 4                         # intervals
_MIB = 1 << 20
_BULK = 4096                        # bytes: requests that move less on average are no transfers
_ROOM, _FEWEST_PEERS = 1.5, 2       # times what other kinds, or other targets, take
_WAYS = {"reads_us": ("reads", "read_bytes"), "writes_us": ("writes", "write_bytes")}
ALL_KINDS = ("busy_us", "timed", "")


def read_loads(history: TargetHistory, peers: Sequence[TargetHistory] = ()) -> TargetLoads | None:
    """
    The TargetLoads of a target; None where the job's line, or that of all, is not known.

    `peers`: the other targets of the same kind and file system.
    """
    axis = make_axis(history.job, history.all)
    if axis is None or history.job is None or history.all is None:
        return None
    own, whole = load(history.job, axis), load(history.all, axis)
    busy, timed = (spread_over_axis(history.job, metric, axis) for metric in ("busy_us", "timed"))
    of_others = [None if all_of is None else max(0.0, all_of - (own_amount or 0.0))
                 for own_amount, all_of in zip(own, whole)]
    latency = [None if us is None or not is_enough(count) else us / (count or 1)
               for us, count in zip(busy, timed)]
    slowness = _compute_slowness(history, axis, peers)
    usual = [value for value, slow in zip(latency, slowness)
             if value is not None and slow is not None and slow < 2]
    first, last = _find_bounds(history.job, axis)
    return TargetLoads(history, axis, own, of_others, slowness, latency,
                       compute_upper_median(usual) if usual else None, busy, timed,
                       [value for place, value in enumerate(whole)
                        if value is not None and not first <= place < last])


def is_enough(timed: float | None) -> bool:
    """Whether this number of requests is enough for a mean."""
    return timed is not None and timed >= FEWEST_TIMED


def load(line: Line | None, axis: CommonAxis) -> Amounts:
    """Return the requests, and the MiB that they moved, in each interval of the axis."""
    requests = spread_over_axis(line, "requests", axis)
    if line is not None and "requests" not in line.amounts:
        requests = [None if reads is None else reads + (writes or 0) + (rest or 0)
                    for reads, writes, rest in zip(spread_over_axis(line, "reads", axis),
                                                   spread_over_axis(line, "writes", axis),
                                                   spread_over_axis(line, "operations", axis))]
    read_bytes, write_bytes = (spread_over_axis(line, name, axis)
                               for name in ("read_bytes", "write_bytes"))
    return [None if count is None else count + ((read or 0) + (written or 0)) / _MIB
            for count, read, written in zip(requests, read_bytes, write_bytes)]


def _find_bounds(line: Line, axis: CommonAxis) -> tuple[int, int]:
    """Return the places of the first and behind the last interval that the job's series covers."""
    count = max(map(len, line.amounts.values()), default=0)
    first = (line.began - axis.began) / axis.every_s
    return int(first), int(-(-(first + count * line.every_s / axis.every_s) // 1))


def _compute_slowness(history: TargetHistory, axis: CommonAxis,
                      peers: Sequence[TargetHistory]) -> Amounts:
    """The ratio of the requests' time to the time they usually take."""
    busy: list[float] = [0.0] * axis.count
    expected: list[float] = [0.0] * axis.count
    for kind in _list_kinds(history.job):
        spent, timed, moved = _sum_kind(history.job, axis, kind)
        usual, size = _estimate_usual(history, axis, kind, peers)
        if usual is None:
            continue
        for place, (us, count, moved_bytes) in enumerate(zip(spent, timed, moved)):
            if us is not None and count:
                larger = max(1.0, (moved_bytes or 0) / count / size) if size else 1.0
                busy[place] += us
                expected[place] += count * usual * larger
    timed_of_all = spread_over_axis(history.job, "timed", axis)
    return [us / usual_us if usual_us and is_enough(count) else None
            for us, usual_us, count in zip(busy, expected, timed_of_all)]


def _list_kinds(line: Line | None) -> list[tuple[str, str, str]]:
    """Return the names of (time, count, bytes) of each kind of request in a line, or of all."""
    amounts = line.amounts if line else {}
    kinds = []
    for name in amounts:
        count, moved = _WAYS.get(name, (name[:-len("_us")], ""))
        if name.endswith("_us") and name != "busy_us" and count in amounts:
            kinds.append((name, count, moved))
    timed = sum(value or 0 for value in amounts.get("timed", ()))
    named = sum(value or 0 for _, count, _ in kinds for value in amounts[count])
    return kinds if kinds and named >= 0.8 * timed else [ALL_KINDS]


def _sum_kind(line: Line | None, axis: CommonAxis, kind: tuple[str, str, str]) -> list[Amounts]:
    """Time, count and bytes of the requests of a kind in each interval."""
    spent, timed, moved = kind
    if kind != ALL_KINDS:
        return [spread_over_axis(line, metric, axis) for metric in (spent, timed, moved)]
    ways = [spread_over_axis(line, f"{direction}_bytes", axis) for direction in ("read", "write")]
    return [spread_over_axis(line, spent, axis), spread_over_axis(line, timed, axis),
            [None if read is None else read + (written or 0) for read, written in zip(*ways)]]


def _estimate_usual(history: TargetHistory, axis: CommonAxis, kind: tuple[str, str, str],
                    peers: Sequence[TargetHistory]) -> tuple[float | None, float]:
    """Return (usual time of a request of this kind in us, usual bytes of it or 0)."""
    by_job = _compute_latencies(history.job, axis, kind, fewest=_PLENTY)
    if len(by_job) < 2 * _FEWEST:
        by_job = _compute_latencies(history.job, axis, kind)
    if len(by_job) < _FEWEST or history.job is None:
        return None, 0.0
    size = compute_upper_median([moved for _, moved in by_job])

    def similar(pairs: list[tuple[float, float]]) -> list[float]:
        return [us for us, moved in pairs if size / 2 <= moved <= size * 2]
    usual = [_find_undisturbed(similar(by_job) or [us for us, _ in by_job])]
    first, last = _find_bounds(history.job, axis)
    if kind != ALL_KINDS or size >= _BULK:
        # While the job was not there; requests of other kinds and sizes with some room.
        outside = similar(_compute_latencies(history.all, axis, kind, (first, last)))
        if len(outside) < _FEWEST and size >= _BULK:
            outside = [_ROOM * us * max(1.0, size / max(moved, 1.0)) for us,
                       moved in _compute_latencies(
                history.all, axis, ALL_KINDS, (first, last))]
        if len(outside) >= _FEWEST:
            usual.append(compute_upper_median(outside))
    usual_of_peers = []
    for peer in peers:
        pairs = similar(_compute_latencies(peer.job, make_axis(peer.job) or axis, kind))
        if len(pairs) >= _FEWEST:
            usual_of_peers.append(_find_undisturbed(pairs))
    if len(usual_of_peers) >= _FEWEST_PEERS:
        usual.append(_ROOM * compute_upper_median(usual_of_peers))
    return (min(usual) or None), size


def _find_undisturbed(latencies: Sequence[float]) -> float:
    """
    Return the median of those values that are less than twice the smallest; a few small ones are
    ignored.
    """
    ordered = sorted(latencies)
    low = ordered[min(len(ordered) - 1, max(_FEWEST_FAST - 1, int(_FAST * len(ordered))))]
    return compute_upper_median(us for us in ordered if us <= 2 * low)


def _compute_latencies(line: Line | None, axis: CommonAxis, kind: tuple[str, str, str],
                       without: tuple[int, int] = (0, 0), fewest: int = FEWEST_TIMED
                       ) -> list[tuple[float, float]]:
    """[(us, bytes) of a request] of each interval with enough of them; not of those `without`."""
    return [(us / count, (of_bytes or 0) / count)
            for place, (us, count, of_bytes) in enumerate(zip(*_sum_kind(line, axis, kind)))
            if us is not None and count is not None and count >= fewest
            and not without[0] <= place < without[1]]
