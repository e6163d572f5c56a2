"""
What changed on one node between two snapshots, file by file.

    gain = field after - field before          the counters of one file, same generation
    gain = field after                         the file began again at 0 in between

A file began again when its start_time changed, or, where it shows none, when any counter went
back.  Clearing empties the whole file (lprocfs_stats_clear), so one counter that went back means
that all of them restarted, those too that have overtaken their old value.  What was done before
the clear is lost and is never guessed: `lower_bound` says so.
"""

from collections import namedtuple

from iostats.counters import metrics_of
from iostats.snapshot import readings

_SATURATED = 2**63 - 1           # since 2fdb3f6c96 (LU-18834) sums stay here instead of wrapping
_WRAP = 2**64

Delta = namedtuple("Delta", "source file_system target instance values lower_bound why")
Delta.__doc__ = """
What one counter file gained.

Attributes:
    source: "llite", "osc", "mdc", "md_stats", "rpc_stats".
    file_system, instance: of which mount.
    target: "OST0000", "MDT0000"; "" for llite.
    values: metric -> gain, an int >= 0, see counters.py; absent means 0; None (instead of the
        dict) means that nothing is known.
    lower_bound: the true gain may be higher.
    why: one sentence for the report; "" where there is nothing to say.
"""


def gains(before, after, calls_suffix):
    """
    (metric -> gain, restarted, saturated) between two Readings of one file.

    A gain is never negative, and never counts work from before a clear twice.
    """
    restarted = has_restarted(before, after)
    base = {} if restarted else before.counters
    values, saturated = {}, False
    for name, end in after.counters.items():
        begin = base.get(name)
        samples = end.samples - (begin.samples if begin else 0)
        total = end.sum
        if total is not None:
            saturated = saturated or total == _SATURATED
            total -= begin.sum if begin and begin.sum is not None else 0
            if end.sum < 0 or total < 0:
                total %= _WRAP                 # printed as %lld: a sum past 2**63 is negative
            if total > _SATURATED:
                total, saturated = _SATURATED, True
        found = metrics_of(name, end.unit, samples, total, calls_suffix)
        values.update((metric, gain) for metric, gain in found.items() if gain)
    return values, restarted, saturated


def has_restarted(before, after):
    """True when the file was cleared, or is another mount's, so that all began again at 0."""
    if before.start_ns is not None and after.start_ns is not None:
        return before.start_ns != after.start_ns
    return any(_went_back(counter, after.counters.get(name))
               for name, counter in before.counters.items())


def _went_back(before, after):
    if after is None or after.samples < before.samples:
        return True
    if before.sum is not None and after.sum is not None and before.sum > after.sum >= 0:
        return True
    # A minimum only falls and a maximum only rises, until a clear.
    return (None not in (before.min, after.min, before.max, after.max)
            and (after.min > before.min or after.max < before.max))


def between(start, end, sources):
    """
    [Delta] of all counter files of one node; `start` None: since the counters began.

    `sources`: name -> module of sources/, with parse(), split() and CALLS_SUFFIX.
    """
    now, refused_now = readings(end, sources)
    then, refused_then = readings(start, sources) if start else ({}, {})
    rebooted = bool(start and start.boot_id != end.boot_id and start.boot_id and end.boot_id)
    remounted = _changed_uuids(start, end) if start else ()
    found = []
    for key in sorted({*now, *then, *refused_now}):
        source, name = key
        module = sources[source]
        place = module.split(name)
        if place is None:
            continue                             # a server's own connection, not a mount's
        add = _adder(found, source, *place, getattr(module, "is_sent", None))
        if key in refused_now:
            add(None, True, refused_now[key])
        elif key not in now:
            add({}, True, "unmounted before the end: what it did is not known")
        elif key in refused_then:
            add(None, True, f"not readable at the start: {refused_then[key]}")
        elif key not in then:
            values, _, saturated = gains(_NOTHING, now[key], module.CALLS_SUFFIX)
            add(values, saturated, "mounted after the start" if start else "")
        elif rebooted or place[2] in remounted:
            values, _, _ = gains(_NOTHING, now[key], module.CALLS_SUFFIX)
            add(values, True, "the node was booted again after the start" if rebooted
                else "mounted again after the start")
        else:
            values, restarted, saturated = gains(then[key], now[key], module.CALLS_SUFFIX)
            why = ("the counters were cleared after the start" if restarted else
                   "a sum has reached the kernel's limit" if saturated else "")
            add(values, restarted or saturated, why)
    return found


def _adder(found, source, file_system, target, instance, is_sent):
    def add(values, lower_bound, why):
        if values and is_sent:
            values = {metric: gain for metric, gain in values.items() if is_sent(metric)}
        found.append(Delta(source, file_system, target, instance, values, lower_bound, why))
    return add


def _changed_uuids(start, end):
    """Instances whose llite uuid, random for each mount, is another one than at the start."""
    before = {f.name: f.text for f in start.files if f.source == "uuid" and not f.errno}
    after = {f.name: f.text for f in end.files if f.source == "uuid" and not f.errno}
    return {name.rpartition("-")[2] for name, uuid in before.items()
            if name in after and after[name] != uuid}


class _Nothing:
    """The Reading before a mount: no counters, so that everything is gain."""
    counters, start_ns = {}, None


_NOTHING = _Nothing()
