"""
Changes on one node between two snapshots, file by file.

    gain = field after - field before          the counters of one file, same generation
    gain = field after                         the file restarted at 0 in between

The same start_time in both proves one generation, another one proves a clear.  A file that shows
none was reset when any counter decreased.  Clearing empties the whole file
(lprocfs_stats_clear), so one counter that went back means that all of them restarted, those too
that have overtaken their old value.  What was done before the clear is lost and is never guessed:
`lower_bound` says so.

A file that could not be seen at the start began to count at an unknown time, so its gain is not
known.  It began at 0 after the start only if its start_time says so, or if its mount is proved to
be new: neither its instance nor its uuid was there.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.metrics import COUNT_UNITS, read_metrics
from iostats.lustre.stats import ANSWERED, FIRST_WALL_CLOCK_NS, MAY_RESTART
from iostats.totals import bounds
from iostats.totals.snapshot import compute_elapsed_s, parse_readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from iostats.lustre.stats import Counter, Reading
    from iostats.totals.snapshot import CounterSource, Readings, Snapshot

_SATURATED = 2**63 - 1           # since 2fdb3f6c96 (LU-18834) sums stay here instead of wrapping
_WRAP = 2**64
_NOT_COUNTED = "not counted: "        # of a line, or a gain, that cannot be right
_MOUNTED_AGAIN = "mounted again after the start"
_RESTARTED = "the counters restarted after the start"
_AGE_ROUNDED_S = 2               # an age is in whole seconds, and snapshots take a moment
_MOUNTED_WITHIN_NS = 5_000_000_000    # all files of a mount: 0.3 s at most in real ones


class Delta(NamedTuple):
    """The gains of one counter file."""

    source: str         # "llite", "osc", "mdc", "md_stats", "rpc_stats"
    # file_system, instance: of which mount
    file_system: str
    target: str         # "OST0000", "MDT0000"; "" for llite
    instance: str
    # metric -> gain, an int >= 0, see metrics.py; absent means 0; None (instead of the dict) means
    # that nothing is known
    values: dict[str, int] | None
    lower_bound: bool   # the true gain may be higher
    why: str            # one sentence for the report; "" where there is nothing to say
    # the file's own start_time proves that nothing was cleared; without one, a clear that was
    # followed by more work than before it can't be seen
    proved: bool = False


class Gain(NamedTuple):
    """The gain of one file between two readings: the last four attributes of its Delta."""

    values: dict[str, int] | None
    lower_bound: bool
    why: str
    proved: bool = False


def compute_gains(before: Reading | None, after: Reading, calls_suffix: str) -> Gain:
    """
    The Gain of one file between two Readings; `before` None: since its counters began.

    A gain is never negative, and never counts work from before a clear twice.  Of a counter whose
    line is bad, or whose gain is more than its samples and maximum make up, nothing is known.

    `calls_suffix`: what the samples of a [bytes] counter are, "_calls" or "_rpcs".
    """
    base: dict[str, Counter] = {}
    bad_then, bad, whys, same = {}, dict(after.bad), [], None
    if before is not None:
        same = _is_same_generation(before, after)
        has_decreased = any(_has_decreased(counter, after.counters.get(name))
                            for name, counter in before.counters.items()
                            if name in after.counters or not {name, ""} & bad.keys())
        has_decreased = has_decreased or after.gauges.get("age_s", 0) < before.gauges.get("age_s",
                                                                                          0)
        if same is False or (same is None and has_decreased):
            whys.append(_MOUNTED_AGAIN if "age_s" in after.gauges else
                        _RESTARTED if 0 < (after.start_ns or 0) < FIRST_WALL_CLOCK_NS else
                        f"the counters were cleared after the "
                        f"start{_format_start_time(after.start_ns)}")
        else:
            base, bad_then = before.counters, before.bad
            bad.update(bad_then)
            if has_decreased:
                whys.append("a counter decreased or is missing in a file that was not cleared")
    values: dict[str, int] = {}
    saturated = False
    for name, end in after.counters.items():
        begin = base.get(name)
        if begin is None and {name, ""} & bad_then.keys():
            continue                             # it may have been there, and its line was bad
        samples = max(0, end.samples - (begin.samples if begin else 0))
        total, at_limit = _compute_sum_gain(begin, end, same)
        saturated = saturated or at_limit
        if total is not None and not _is_possible_total(total, samples, end):
            bad[name] = (f"{name}: expected at most {samples} x {end.max} more in {samples} "
                         f"samples, got {total}")
            total = None
        squares = _compute_squares_gain(begin, end)
        metrics = read_metrics(name, end.unit, samples, total, calls_suffix, squares)
        # Absent means 0, except for squares, where it means "not known".
        values.update((metric, gain) for metric, gain in metrics.items()
                      if gain or metric.endswith("_us2"))
    if saturated:
        whys.append("a sum has reached the kernel's limit")
    if bad:
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        whys.append(f"{_NOT_COUNTED}{next(iter(bad.values()))}{more}")
    return Gain(values, bool(whys), "; ".join(whys), bool(same))


def _is_same_generation(before: Reading, after: Reading) -> bool | None:
    """True if the counters are the same and were not cleared; False if not; None if unknown."""
    if before.start_ns is None or after.start_ns is None:
        return None
    if before.start_ns != after.start_ns:
        return False                     # 0 is "never cleared" (rpc_stats of 2.15)
    return True if after.start_ns else None


def _has_decreased(before: Counter, after: Counter | None) -> bool:
    if after is None or after.samples < before.samples:
        return True
    if before.sum is not None and after.sum is not None and before.sum > after.sum >= 0:
        return True
    # A minimum only falls and a maximum only rises, until a clear.
    if before.min is None or after.min is None or before.max is None or after.max is None:
        return False
    return after.min > before.min or after.max < before.max


def _compute_sum_gain(begin: Counter | None, end: Counter, same: bool | None) -> tuple[int | None,
                                                                                       bool]:
    """(gain of the sum or None, it may be more) of one counter; `same`: surely not cleared."""
    if end.sum is None or end.unit in COUNT_UNITS:
        return None, False
    if not same and begin and begin.sum is not None and begin.sum < 0 <= end.sum:
        return end.sum, True             # cleared, or past 2**64: at least this in both cases
    total = end.sum - (begin.sum if begin and begin.sum is not None else 0)
    if end.sum < 0:
        total %= _WRAP                   # printed as %lld: a sum past 2**63 is negative
    return max(0, total), end.sum == _SATURATED


def _is_possible_total(total: int, samples: int, end: Counter) -> bool:
    """True if `samples` calls, one of them perhaps not added to the sum yet, can have this sum."""
    limit = (samples + 1) * (end.max or 0)
    return total <= min(limit, _SATURATED)


def _compute_squares_gain(begin: Counter | None, end: Counter) -> int | None:
    """
    Gain of the sum of squares, or None where it can't be trusted.

    It wraps modulo 2**64 up to 2.16, and stays at 2**63-1 since.  As no square sum is larger than
    max * sum, that product below 2**63 proves that neither has happened.
    """
    for counter in (begin, end):
        if counter is not None and (
                counter.sumsq is None or counter.min is None or counter.max is None
                or counter.sum is None or counter.sum < 0 or counter.min < 0
                or not counter.max * counter.sum < _SATURATED):
            return None
    gain = (end.sumsq or 0) - (begin.sumsq or 0 if begin else 0)
    return gain if 0 <= gain <= _SATURATED else None         # else the file is damaged


def _format_start_time(start_ns: int | None) -> str:
    """Format ", at 2026-11-21 08:13:04 UTC" for a known moment, or nothing."""
    if not start_ns or start_ns < FIRST_WALL_CLOCK_NS:      # a number of what counts is no time
        return ""
    from datetime import datetime, timezone
    moment = datetime.fromtimestamp(start_ns // 1_000_000_000, timezone.utc)
    return f", at {moment:%Y-%m-%d %H:%M:%S} UTC"


def compute_deltas(start: Snapshot | None, end: Snapshot,
                   sources: Mapping[str, CounterSource]) -> list[Delta]:
    """
    Return [Delta] of all counter files of one node; `start` None: since the counters began.

    `sources`: name -> module of sources/, with parse(), split() and CALLS_SUFFIX.
    """
    return _compute_deltas(start, end, parse_readings(start, sources) if start else ({}, {}),
                           parse_readings(end, sources), sources)


def _compute_deltas(start: Snapshot | None, end: Snapshot, read_then: Readings, read_now: Readings,
                    sources: Mapping[str, CounterSource]) -> list[Delta]:
    (then, refused_then), (now, refused_now) = read_then, read_now
    then = _rename_as_in(now, then)
    rebooted = bool(start and start.boot_id != end.boot_id and start.boot_id and end.boot_id)
    remounted = _find_changed_uuids(start, end) if start else ()
    filtered = _find_filtered_metrics(start, end)
    there = _find_instances(end)
    deltas: list[Delta] = []
    for key in sorted({*now, *then, *refused_now, *refused_then}):
        source, name = key
        module = sources[source]
        place = module.split(name)
        if place is None:
            continue                             # a server's own connection, not a mount's
        instance = place[2]
        add = _make_adder(deltas, module, (source, *place), now.get(key),
                          filtered.get(name, "") if source == "llite" else "")
        if key in refused_now:
            add(None, True, refused_now[key])
        elif key not in now:
            add({} if key in then else None, True, "not seen at the end" if instance in there else
                "unmounted before the end: its I/O is unknown")
        elif key in refused_then:
            add(None, True, f"not readable at the start: {refused_then[key]}")
        elif start and key in then and not rebooted and instance not in remounted:
            add(*_compute_gain_of_same(start, end, then[key], now[key], module.CALLS_SUFFIX))
        elif start and key not in then and not rebooted:
            add(*_compute_gain_of_new(start, end, key, place, now, module.CALLS_SUFFIX))
        else:
            gain = compute_gains(None, now[key], module.CALLS_SUFFIX)
            began = _format_start_time(now[key].start_ns)
            why = "" if not start else (f"the node was booted again after the start{began}"
                                        if rebooted else f"mounted again after the start{began}")
            add(gain.values, bool(why) or gain.lower_bound, _join_reasons(why, gain.why))
    if "llite" not in sources:
        return deltas
    return bounds.compare_with_network(deltas, start, end, sources["llite"].PAGE_BYTES)


def _rename_as_in(now: Mapping[tuple[str, str], Reading], then: Mapping[tuple[str, str], Reading]
                  ) -> dict[tuple[str, str], Reading]:
    """
    Return `then` with the names of `now` for files with an `age_s`: mounts with common counters are
    added and removed, and the files are named after a mount that exists.
    """
    names = {(source, name.rpartition("-")[2]): name for (source, name), reading in now.items()
             if "age_s" in reading.gauges and (source, name) not in then}
    return {(source, name if (source, name) in now else
             names.get((source, name.rpartition("-")[2]), name)): reading
            for (source, name), reading in then.items()}


def _compute_gain_of_same(start: Snapshot, end: Snapshot, before: Reading, after: Reading,
                          calls_suffix: str) -> Gain:
    """
    The Gain of a file that was there at the start.  Its `age_s`, where it shows one, proves that it
    is of the same mount, or of a later one that has counted more.
    """
    gain = compute_gains(before, after, calls_suffix)
    if before.gauges.get(ANSWERED) == after.gauges.get(ANSWERED, -1):
        return gain._replace(lower_bound=True, why="the answer at the end is that of the start")
    gain = _add_restarting(gain, before, after)
    if any(name.startswith(MAY_RESTART) and after.gauges.get(name, 0) < count
           for name, count in before.gauges.items()) and not gain.lower_bound:
        return gain._replace(lower_bound=True, why="counts of calls are lower than at the start: "
                             "full (32 bits), or all counters were cleared")
    if gain.lower_bound or not {"age_s"} <= before.gauges.keys() & after.gauges.keys():
        return gain
    if _is_younger(after, before.gauges["age_s"] + compute_elapsed_s(start, end)):
        return gain._replace(lower_bound=True, why=_MOUNTED_AGAIN)
    return gain._replace(proved=True)


def _add_restarting(gain: Gain, before: Reading, after: Reading) -> Gain:
    """
    Add the gains of counts that restart at 0 when they are full, or were cleared: what is sure in
    both cases.
    """
    was_cleared = any(_has_decreased(counter, after.counters.get(name))
                      for name, counter in before.counters.items())
    values = dict(gain.values or {})
    for name, count in after.gauges.items():
        if name.startswith(MAY_RESTART) and name in before.gauges:
            base = 0 if was_cleared or count < before.gauges[name] else before.gauges[name]
            if count > base:
                values[name[len(MAY_RESTART):]] = count - base
    return gain._replace(values=values)


def _is_younger(reading: Reading, age_s: float) -> bool:
    """True where the file shows an `age_s`, and it is surely less than this one."""
    return bool(reading.gauges.get("age_s", age_s) + _AGE_ROUNDED_S < age_s)


def _compute_gain_of_new(start: Snapshot, end: Snapshot, key: tuple[str, str],
                         place: tuple[str, str, str], now: Mapping[tuple[str, str], Reading],
                         calls_suffix: str) -> tuple[Any, ...]:
    """(values, lower_bound, why) of a file that was not seen at the start of the same boot."""
    file_system, _, instance = place
    reading, uuid = now[key], _read_uuids(end).get(instance)
    if _is_younger(reading, compute_elapsed_s(start, end)):       # autofs mounts what is used
        return compute_gains(None, reading, calls_suffix)._replace(proved=True)
    was_there = instance in _find_instances(start)
    is_new_mount = uuid is not None and uuid not in _read_uuids(start).values() and (
        not was_there or instance in _find_changed_uuids(start, end))
    if not (is_new_mount or (reading.start_ns or 0) > start.wall_ns):
        return None, True, ("not seen at the start, and nothing proves that it is newer: its "
                            "gain is unknown")
    gain = compute_gains(None, reading, calls_suffix)
    if _may_have_lost_mount(start, end, key[0], file_system):
        return gain.values, True, _join_reasons(
            "a mount was removed, and this file of it was not read "
            "at the start: its I/O is unknown", gain.why)
    if not is_new_mount and any(file.name == key[1] for file in start.files):
        return gain.values, True, _join_reasons(
            f"not seen at the start, and cleared after it{_format_start_time(reading.start_ns)}",
            gain.why)
    # What was cleared since is lost; of a mount's files the ones beside it tell when it came.
    beside = [sibling.start_ns for (_, name), sibling in now.items() if sibling.start_ns
              and (name == key[1] or (not was_there and name.rpartition("-")[2] == instance))]
    mounted_at = min(beside, default=0)
    if reading.start_ns and reading.start_ns - mounted_at > _MOUNTED_WITHIN_NS:
        return gain.values, True, _join_reasons(
            f"mounted after the start{_format_start_time(mounted_at)}, and its counters began"
            f"{_format_start_time(reading.start_ns)} (cleared, or a target that was added)",
            gain.why)
    return (gain.values, gain.lower_bound,
            _join_reasons(f"mounted after the start{_format_start_time(reading.start_ns)}",
                          gain.why))


def _may_have_lost_mount(start: Snapshot, end: Snapshot, source: str, file_system: str) -> bool:
    """True where a mount was there at the start, but no file of `source`, and is not any more."""
    before, mounts = set(), set()
    for file in start.files:
        if file.name.startswith(f"{file_system}-"):
            mount = file.name.rpartition("-")[2]
            before.add(mount)
            if file.source == source:
                mounts.add(mount)
    there = _find_instances(end) - _find_changed_uuids(start, end)
    return bool(before - mounts - there)


def _join_reasons(*whys: str) -> str:
    return "; ".join(filter(None, whys))


def _make_adder(deltas: list[Delta], module: CounterSource, place: tuple[str, str, str, str],
                reading: Reading | None, filtered: str) -> Callable[..., None]:
    has_is_sent, has_corrected = hasattr(module, "is_sent"), hasattr(module, "corrected")

    def add(values: dict[str, int] | None, lower_bound: bool, why: str,
            proved: bool = False) -> None:
        if values and has_is_sent:
            values = {metric: gain for metric, gain in values.items() if module.is_sent(metric)}
        if values and reading and has_corrected and _NOT_COUNTED not in why:
            # Else it would compare with nothing.
            values = module.corrected(values, reading)
        deltas.append(Delta(*place, values, lower_bound or bool(filtered),
                            _join_reasons(why, filtered), proved))
    return add


def _find_filtered_metrics(*snapshots: Snapshot | None) -> dict[str, str]:
    """{llite directory: why} of mounts that count one process or group only (stats_track_*)."""
    filters: dict[str, dict[str, None]] = {}
    for file in (file for snapshot in snapshots if snapshot for file in snapshot.files):
        if (file.source.startswith("stats_track_") and not file.errno
                and file.text.strip() not in ("", "0 (all)")):
            filters.setdefault(file.name, {})[f"{file.source} is {file.text.strip()}"] = None
    # Of the three the one with a number filters; the others then say `untracked`.
    return {name: f"{' and '.join([why for why in whys if not why.endswith('untracked')] or whys)}"
                  f": only what that one does is counted" for name, whys in filters.items()}


def compute_deltas_over(snapshots: Sequence[Snapshot],
                        sources: Mapping[str, CounterSource]) -> list[Delta]:
    """
    Return [Delta] of what lies between the first and the last of `snapshots`, by way of those
    between.

    Better than the difference of the two: a clear loses the gain of one part only.  Of a file those
    snapshots are used that have it, and that have what proves a clear or a remount (start_time,
    uuid) if one before and one after has it; for a file added between them, if one after has it.
    """
    read, last = [parse_readings(snapshot, sources) for snapshot in snapshots], len(snapshots) - 1
    uuids = [_read_uuids(snapshot) for snapshot in snapshots]
    # (place, place of the next one) -> the files that go from one to the other
    steps: dict[tuple[int, int], set[tuple[str, ...]]] = {}
    for source, name in {key for item in read for uuids_here in item for key in uuids_here}:
        of_file = [item[0].get((source, name)) for item in read]
        tells = ([place for place, reading in enumerate(of_file)
                  if reading and reading.start_ns is not None],
                 [place for place,
                  uuids_here in enumerate(uuids) if name.rpartition("-")[2] in uuids_here])
        is_added = not of_file[0] and (source, name) not in read[0][1]
        path = [place for place, reading in enumerate(of_file)
                if place in (0, last) or not any(of_file) or (reading and all(
                   place in places or not places or place > places[-1]
                   or not (is_added or place > places[0])
                   for places in tells))]
        for step in zip(path, path[1:]):
            steps.setdefault(step, set()).add((source, *(sources[source].split(name) or ())))
    return merge_deltas([delta for delta in _compute_deltas(snapshots[a], snapshots[b], read[a],
                                                            read[b], sources)
                         if delta[:4] in keys] for (a, b), keys in sorted(steps.items()))


def merge_deltas(parts: Iterable[Iterable[Delta]]) -> list[Delta]:
    """Return [Delta] of a whole from the [Delta] of each of its parts, one after the other."""
    whole: dict[tuple[str, ...], Delta] = {}
    for delta in (delta for part in parts for delta in part):
        key = delta[:4]
        whole[key] = _add_deltas(whole[key], delta) if key in whole else delta
    return [whole[key] for key in sorted(whole)]


def _add_deltas(a: Delta, b: Delta) -> Delta:
    values = a.values if b.values is None else b.values
    if a.values is not None and b.values is not None:
        values = {metric: a.values.get(metric, 0) + b.values.get(metric, 0)
                  for metric in {**a.values, **b.values}
                  if not metric.endswith("_us2") or _have_same_squares(metric, a.values, b.values)}
    why = a.why if b.why in a.why else _join_reasons(a.why, b.why)
    return a._replace(values=values, why=why, proved=a.proved and b.proved, lower_bound=(
        a.lower_bound or b.lower_bound or a.values is None or b.values is None))


def _have_same_squares(metric: str, a: dict[str, int], b: dict[str, int]) -> bool:
    """True if all parts with a time have its squares, too."""
    return all(metric in values or metric[:-1] not in values for values in (a, b))


def _find_changed_uuids(start: Snapshot, end: Snapshot) -> set[str]:
    """Instances whose llite uuid, random for each mount, is another one than at the start."""
    before, after = _read_uuids(start), _read_uuids(end)
    return {instance for instance in before
            if after.get(instance, before[instance]) != before[instance]}


def _find_instances(snapshot: Snapshot) -> set[str]:
    """The mounts of which anything at all was seen."""
    return {file.name.rpartition("-")[2] for file in snapshot.files}


def _read_uuids(snapshot: Snapshot) -> dict[str, str]:
    """Return {instance: uuid}; a torn one is none, or the mount would be taken for another one."""
    return {file.name.rpartition("-")[2]: file.text for file in snapshot.files
            if file.source == "uuid" and file.text.endswith("\n")}
