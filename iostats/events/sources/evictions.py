"""
eviction_count: clients that a target has evicted, also those that the kernel's log leaves out.

The log's messages are rate limited, and the count is not: it has every export that was evicted
since the target was started.  An event covers the whole increase between two scans;
evictions that are also in the log are subtracted where events are joined.

Besides clients it counts the connections of other storage servers: when an MDS comes back from
another address, its old one is evicted (the log: `Received MDS connection from ..., removing former
export`).

    state = {"at": time of the scan, "since": time of the first scan at which every target had a
                 count; null before that,
             "targets": {target: [instance, count, or null, starts without an instance]},
             "gone": {target that is not here: starts}}

Source: class_fail_export(), class_disconnect_stale_exports(), lustre/obdclass/genops.c;
target_handle_connect(), lustre/ldlm/ldlm_lib.c; 2.16.1, 2.17.0.
"""

from __future__ import annotations

from iostats.events.event import make_event
from iostats.events.server_reading import MOST_TARGETS, get_server_reading
from iostats.events.sources import SourceResult
from iostats.lustre.kernel_log import EVICTED
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, TypedDict

    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place

    Counts = tuple[str, Optional[int], int]

    class State(TypedDict, total=False):
        at: float
        since: Optional[float]
        targets: dict[str, Counts]
        gone: dict[str, int]

NAME, ROLES = "evictions", ("server",)
CAUSE = "unknown"


def scan(place: Place, before: State | None, now: float) -> SourceResult:
    """Events of kind evicted; no status."""
    return detect(get_server_reading(place, now), place, before, now)


def counted_since(state: State | None) -> dict[str, float]:
    """{EVICTED: the time since when every target has a count}; {} if some target has none."""
    since = state.get("since") if isinstance(state, dict) else None
    return {} if since is None else {EVICTED: float(since)}


def detect(reading: ServerReading, place: Place, before: State | None,
           now: float) -> SourceResult:
    """Evictions in a ServerReading."""
    if reading.targets is None:
        return SourceResult([], before, {})
    targets_before = before["targets"] if before else {}
    since = before["at"] if before else now
    removed: dict[str, int] = {**(before.get("gone", {}) if before else {}), **{
        name: counts[2] if len(counts) > 2 else 0 for name, counts in targets_before.items()}}
    events: list[Event] = []
    counts: dict[str, Counts] = {}
    for name, target in reading.targets.items():
        stored, starts = targets_before.get(name), removed.get(name, 0)
        instance, count = (stored[0], stored[1]) if stored else (target.instance, None)
        if target.evictions is None:
            counts[name] = instance, count, starts
            continue
        # It counts from 0 since its start, where that was after the last look.
        is_started = ((before is not None and name not in targets_before)
                      or bool(instance and target.instance and instance != target.instance)
                      or (count or 0) > target.evictions)
        starts += is_started
        counts[name] = target.instance or instance, target.evictions, starts
        # What counts from 0 again, as of an MGS, has no instance.
        origin = counts[name][0] or f"{place.series}{starts or ''}"
        start = 0 if is_started else target.evictions if count is None else count
        gained = target.evictions - start
        if gained > 0:
            events.append(make_event(
                place.boot_id, place.node, (NAME, name, origin, str(start)), EVICTED,
                min(since, now), last=now, cause=CAUSE, file_system=parse_file_system(name),
                target=name, count=gained,
                message=f"{name}: eviction_count has risen by {gained}, from {start} to "
                        f"{target.evictions}"))
    removed = {name: starts for name, starts in removed.items() if name not in counts}
    is_complete = bool(counts) and all(count is not None for _, count, _ in counts.values())
    counted_since = (before.get("since") if before else None) or now
    return SourceResult(events, {"at": now, "since": counted_since if is_complete else None,
                                 "targets": counts,
                                 "gone": dict(list(removed.items())[:MOST_TARGETS])}, {})
