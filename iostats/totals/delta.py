"""
What changed on one node between two snapshots, file by file.

    gain = field after - field before          the counters of one file, same generation
    gain = field after                         the file began again at 0 in between

The same start_time in both proves one generation, another one proves a clear.  A file that shows
none began again when any counter went back.  Clearing empties the whole file
(lprocfs_stats_clear), so one counter that went back means that all of them restarted, those too
that have overtaken their old value.  What was done before the clear is lost and is never guessed:
`lower_bound` says so.

A file that could not be seen at the start began to count at an unknown time, so its gain is not
known.  It began at 0 after the start only if its start_time says so, or if its mount is proved to
be new: neither its instance nor its uuid was there.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.lustre.metrics import COUNT_UNITS, metrics_of
from iostats.totals import bounds
from iostats.totals.snapshot import readings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from iostats.lustre.stats import Counter, Reading
    from iostats.totals.snapshot import Readings, Snapshot

_SATURATED = 2**63 - 1           # since 2fdb3f6c96 (LU-18834) sums stay here instead of wrapping
_WRAP = 2**64
_NOT_COUNTED = "not counted: "        # of a line, or a gain, that cannot be right
_MOUNTED_WITHIN_NS = 5_000_000_000    # all files of a mount: 0.3 s at most in real ones

Delta = namedtuple("Delta", "source file_system target instance values lower_bound why proved",
                   defaults=(False,))
Delta.__doc__ = """
What one counter file gained.

Attributes:
    source: "llite", "osc", "mdc", "md_stats", "rpc_stats".
    file_system, instance: of which mount.
    target: "OST0000", "MDT0000"; "" for llite.
    values: metric -> gain, an int >= 0, see metrics.py; absent means 0; None (instead of the
        dict) means that nothing is known.
    lower_bound: the true gain may be higher.
    why: one sentence for the report; "" where there is nothing to say.
    proved: the file's own start_time proves that nothing was cleared; without one, a clear that
        was followed by more work than before it can't be seen.
"""

Gain = namedtuple("Gain", "values lower_bound why proved", defaults=(False,))
Gain.__doc__ = """
What one file gained between two readings: the last four attributes of its Delta.
"""


def gains(before: Reading | None, after: Reading, calls_suffix: str) -> Gain:
    """
    The Gain of one file between two Readings; `before` None: since its counters began.

    A gain is never negative, and never counts work from before a clear twice.  Of a counter whose
    line is bad, or whose gain is more than its samples and maximum make up, nothing is known.

    `calls_suffix`: what the samples of a [bytes] counter are, "_calls" or "_rpcs".
    """
    base: dict[str, Counter] = {}
    bad_then, bad, whys, same = {}, dict(after.bad), [], None
    if before is not None:
        same = _generation(before, after)
        went_back = any(_went_back(counter, after.counters.get(name))
                        for name, counter in before.counters.items()
                        if name in after.counters or not {name, ""} & bad.keys())
        if same is False or (same is None and went_back):
            whys.append(f"the counters were cleared after the start{_moment(after.start_ns)}")
        else:
            base, bad_then = before.counters, before.bad
            bad.update(bad_then)
            if went_back:
                whys.append("a counter went back in a file that was not cleared (a torn read)")
    values: dict[str, int] = {}
    saturated = False
    for name, end in after.counters.items():
        begin = base.get(name)
        if begin is None and {name, ""} & bad_then.keys():
            continue                             # it may have been there, and its line was bad
        samples = max(0, end.samples - (begin.samples if begin else 0))
        total, at_limit = _sum_gain(begin, end, same)
        saturated = saturated or at_limit
        if total is not None and not _can_be(total, samples, end):
            bad[name] = (f"{name}: expected at most {samples} x {end.max} more in {samples} "
                         f"samples, got {total}")
            total = None
        squares = _squares_gain(begin, end)
        found = metrics_of(name, end.unit, samples, total, calls_suffix, squares)
        # Absent means 0, except for squares, where it means "not known".
        values.update((metric, gain) for metric, gain in found.items()
                      if gain or metric.endswith("_us2"))
    if saturated:
        whys.append("a sum has reached the kernel's limit")
    if bad:
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        whys.append(f"{_NOT_COUNTED}{next(iter(bad.values()))}{more}")
    return Gain(values, bool(whys), "; ".join(whys), bool(same))


def _generation(before: Reading, after: Reading) -> bool | None:
    """True: the same counters, nothing cleared; False: others; None: the files do not tell."""
    if before.start_ns is None or after.start_ns is None:
        return None
    if before.start_ns != after.start_ns:
        return False                     # 0 is "never cleared" (rpc_stats of 2.15)
    return True if after.start_ns else None


def _went_back(before: Counter, after: Counter | None) -> bool:
    if after is None or after.samples < before.samples:
        return True
    if before.sum is not None and after.sum is not None and before.sum > after.sum >= 0:
        return True
    # A minimum only falls and a maximum only rises, until a clear.
    return (None not in (before.min, after.min, before.max, after.max)
            and (after.min > before.min or after.max < before.max))


def _sum_gain(begin: Counter | None, end: Counter, same: bool | None) -> tuple[int | None, bool]:
    """(gain of the sum or None, it may be more) of one counter; `same`: surely not cleared."""
    if end.sum is None or end.unit in COUNT_UNITS:
        return None, False
    if not same and begin and begin.sum is not None and begin.sum < 0 <= end.sum:
        return end.sum, True             # cleared, or past 2**64: at least this in both cases
    total = end.sum - (begin.sum if begin and begin.sum is not None else 0)
    if end.sum < 0:
        total %= _WRAP                   # printed as %lld: a sum past 2**63 is negative
    return max(0, total), end.sum == _SATURATED


def _can_be(total: int, samples: int, end: Counter) -> bool:
    """True when `samples`, and one that was counted a moment before its amount, can make it up."""
    most: int = (samples + 1) * end.max
    return total <= min(most, _SATURATED)


def _squares_gain(begin: Counter | None, end: Counter) -> int | None:
    """
    Gain of the sum of squares, or None where it can't be trusted.

    It wraps modulo 2**64 up to 2.16, and stays at 2**63-1 since.  As no square sum is larger than
    max * sum, that product below 2**63 proves that neither has happened.
    """
    for counter in (begin, end):
        if counter is not None and (
                counter.sumsq is None or counter.sum < 0 or counter.min < 0
                or not counter.max * counter.sum < _SATURATED):
            return None
    gain = end.sumsq - (begin.sumsq if begin else 0)
    return gain if 0 <= gain <= _SATURATED else None         # else the file is damaged


def _moment(start_ns: int | None) -> str:
    """", at 2026-11-21 08:13:04 UTC" for a known moment, or nothing."""
    if not start_ns:
        return ""
    from datetime import datetime, timezone
    moment = datetime.fromtimestamp(start_ns // 1_000_000_000, timezone.utc)
    return f", at {moment:%Y-%m-%d %H:%M:%S} UTC"


def between(start: Snapshot | None, end: Snapshot, sources: Mapping[str, Any]) -> list[Delta]:
    """
    [Delta] of all counter files of one node; `start` None: since the counters began.

    `sources`: name -> module of sources/, with parse(), split() and CALLS_SUFFIX.
    """
    return _between(start, end, readings(start, sources) if start else ({}, {}),
                    readings(end, sources), sources)


def _between(start: Snapshot | None, end: Snapshot, read_then: Readings, read_now: Readings,
             sources: Mapping[str, Any]) -> list[Delta]:
    (then, refused_then), (now, refused_now) = read_then, read_now
    rebooted = bool(start and start.boot_id != end.boot_id and start.boot_id and end.boot_id)
    remounted = _changed_uuids(start, end) if start else ()
    filtered = _filtered(start, end)
    there = _instances(end)
    found: list[Delta] = []
    for key in sorted({*now, *then, *refused_now, *refused_then}):
        source, name = key
        module = sources[source]
        place = module.split(name)
        if place is None:
            continue                             # a server's own connection, not a mount's
        instance = place[2]
        add = _adder(found, module, (source, *place),
                     filtered.get(name, "") if source == "llite" else "")
        if key in refused_now:
            add(None, True, refused_now[key])
        elif key not in now:
            add({} if key in then else None, True, "not seen at the end" if instance in there else
                "unmounted before the end: what it did is not known")
        elif key in refused_then:
            add(None, True, f"not readable at the start: {refused_then[key]}")
        elif start and key in then and not rebooted and instance not in remounted:
            add(*gains(then[key], now[key], module.CALLS_SUFFIX))
        elif start and key not in then and not rebooted:
            add(*_gain_of_new(start, end, key, place, now, module.CALLS_SUFFIX))
        else:
            gain = gains(None, now[key], module.CALLS_SUFFIX)
            began = _moment(now[key].start_ns)
            why = "" if not start else (f"the node was booted again after the start{began}"
                                        if rebooted else f"mounted again after the start{began}")
            add(gain.values, bool(why) or gain.lower_bound, _joined(why, gain.why))
    if "llite" not in sources:
        return found
    return bounds.compared(found, start, end, sources["llite"].PAGE_BYTES)


def _gain_of_new(start: Snapshot, end: Snapshot, key: tuple[str, str],
                 place: tuple[str, str, str], now: Mapping[tuple[str, str], Reading],
                 calls_suffix: str) -> tuple[Any, ...]:
    """(values, lower_bound, why) of a file that was not seen at the start of the same boot."""
    file_system, _, instance = place
    reading, uuid = now[key], _uuids(end).get(instance)
    was_there = instance in _instances(start)
    is_new_mount = uuid is not None and uuid not in _uuids(start).values() and (
        not was_there or instance in _changed_uuids(start, end))
    if not (is_new_mount or (reading.start_ns or 0) > start.wall_ns):
        return None, True, ("not seen at the start, and nothing proves that it is newer: what it "
                            "gained is not known")
    gain = gains(None, reading, calls_suffix)
    if _is_one_gone_unseen(start, end, key[0], file_system):
        return gain.values, True, _joined("a mount of before is gone, and this file of it was not "
                                          "seen at the start: what it did is not known", gain.why)
    if not is_new_mount and any(file.name == key[1] for file in start.files):
        return gain.values, True, _joined(
            f"not seen at the start, and cleared after it{_moment(reading.start_ns)}", gain.why)
    # What was cleared since is lost; of a mount's files the ones beside it tell when it came.
    beside = [other.start_ns for (_, name), other in now.items() if other.start_ns
              and (name == key[1] or (not was_there and name.rpartition("-")[2] == instance))]
    came = min(beside, default=0)
    if reading.start_ns and reading.start_ns - came > _MOUNTED_WITHIN_NS:
        return gain.values, True, _joined(
            f"mounted after the start{_moment(came)}, and its counters began"
            f"{_moment(reading.start_ns)} (cleared, or a target that was added)", gain.why)
    return (gain.values, gain.lower_bound,
            _joined(f"mounted after the start{_moment(reading.start_ns)}", gain.why))


def _is_one_gone_unseen(start: Snapshot, end: Snapshot, source: str, file_system: str) -> bool:
    """True where a mount was there at the start, but no file of `source`, and is not any more."""
    before, seen = set(), set()
    for file in start.files:
        if file.name.startswith(f"{file_system}-"):
            mount = file.name.rpartition("-")[2]
            before.add(mount)
            if file.source == source:
                seen.add(mount)
    there = _instances(end) - _changed_uuids(start, end)
    return bool(before - seen - there)


def _joined(*whys: str) -> str:
    return "; ".join(filter(None, whys))


def _adder(found: list[Delta], module: Any, place: tuple[str, str, str, str],
           filtered: str) -> Callable[..., None]:
    is_sent, corrected = getattr(module, "is_sent", None), getattr(module, "corrected", None)

    def add(values: dict[str, int] | None, lower_bound: bool, why: str,
            proved: bool = False) -> None:
        if values and is_sent:
            values = {metric: gain for metric, gain in values.items() if is_sent(metric)}
        if values and corrected and _NOT_COUNTED not in why:       # or it compares with nothing
            values = corrected(values)
        found.append(Delta(*place, values, lower_bound or bool(filtered),
                           _joined(why, filtered), proved))
    return add


def _filtered(*snapshots: Snapshot | None) -> dict[str, str]:
    """{llite directory: why} of mounts that count one process or group only (stats_track_*)."""
    found: dict[str, dict[str, None]] = {}
    for file in (file for snapshot in snapshots if snapshot for file in snapshot.files):
        if (file.source.startswith("stats_track_") and not file.errno
                and file.text.strip() not in ("", "0 (all)")):
            found.setdefault(file.name, {})[f"{file.source} is {file.text.strip()}"] = None
    # Of the three the one with a number filters; the others then say `untracked`.
    return {name: f"{' and '.join([one for one in whys if not one.endswith('untracked')] or whys)}"
                  f": only what that one does is counted" for name, whys in found.items()}


def over(snapshots: Sequence[Snapshot], sources: Mapping[str, Any]) -> list[Delta]:
    """
    [Delta] of what lies between the first and the last of `snapshots`, by way of those between.

    Better than the difference of the two: a clear loses the gain of one part only.  Of a file those
    snapshots are used that have it, and that have what proves a clear or a remount (start_time,
    uuid) if one before and one after has it; for a file that came meanwhile, if one after has it.
    """
    read, last = [readings(one, sources) for one in snapshots], len(snapshots) - 1
    uuids = [_uuids(one) for one in snapshots]
    # (place, place of the next one) -> the files that go from one to the other
    steps: dict[tuple[int, int], set[tuple[str, ...]]] = {}
    for source, name in {key for one in read for known in one for key in known}:
        found = [one[0].get((source, name)) for one in read]
        tells = ([place for place, one in enumerate(found) if one and one.start_ns is not None],
                 [place for place, one in enumerate(uuids) if name.rpartition("-")[2] in one])
        came = not found[0] and (source, name) not in read[0][1]
        way = [place for place, one in enumerate(found)
               if place in (0, last) or not any(found) or (one and all(
                   place in those or not those or place > those[-1]
                   or not (came or place > those[0])
                   for those in tells))]
        for step in zip(way, way[1:]):
            steps.setdefault(step, set()).add((source, *(sources[source].split(name) or ())))
    return merged([one for one in _between(snapshots[a], snapshots[b], read[a], read[b], sources)
                   if one[:4] in wanted] for (a, b), wanted in sorted(steps.items()))


def merged(parts: Iterable[Iterable[Delta]]) -> list[Delta]:
    """[Delta] of a whole from the [Delta] of each of its parts, one after the other."""
    whole: dict[tuple[str, ...], Delta] = {}
    for delta in (delta for part in parts for delta in part):
        key = delta[:4]
        whole[key] = _together(whole[key], delta) if key in whole else delta
    return [whole[key] for key in sorted(whole)]


def _together(a: Delta, b: Delta) -> Delta:
    values = a.values if b.values is None else b.values
    if a.values is not None and b.values is not None:
        values = {metric: a.values.get(metric, 0) + b.values.get(metric, 0)
                  for metric in {**a.values, **b.values}
                  if not metric.endswith("_us2") or _both_squares(metric, a.values, b.values)}
    why = a.why if b.why in a.why else _joined(a.why, b.why)
    return a._replace(values=values, why=why, proved=a.proved and b.proved, lower_bound=(
        a.lower_bound or b.lower_bound or a.values is None or b.values is None))


def _both_squares(metric: str, a: dict[str, int], b: dict[str, int]) -> bool:
    """True when no part has the time without its squares."""
    return all(metric in values or metric[:-1] not in values for values in (a, b))


def _changed_uuids(start: Snapshot, end: Snapshot) -> set[str]:
    """Instances whose llite uuid, random for each mount, is another one than at the start."""
    before, after = _uuids(start), _uuids(end)
    return {instance for instance in before
            if after.get(instance, before[instance]) != before[instance]}


def _instances(snapshot: Snapshot) -> set[str]:
    """The mounts of which anything at all was seen."""
    return {file.name.rpartition("-")[2] for file in snapshot.files}


def _uuids(snapshot: Snapshot) -> dict[str, str]:
    """{instance: uuid}; a torn one is none, or the mount would be taken for another one."""
    return {file.name.rpartition("-")[2]: file.text for file in snapshot.files
            if file.source == "uuid" and file.text.endswith("\n")}
