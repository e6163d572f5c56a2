"""
eviction_count: clients that a target has evicted, also those that the kernel's log leaves out.

The log's messages are rate limited, and the count is not: it has every export that was evicted
since the target was started.  An event tells of all by which it has risen between two looks;
those that the log tells of, too, are taken off where events are joined.

Besides clients it counts the connections of other storage servers: when an MDS comes back from
another address, its old one is evicted (the log: `Received MDS connection from ..., removing former
export`).

    state = {"at": time of the look, "since": time of the first look at which every target had a
                 count; null before that,
             "targets": {target: [instance, count, or null, starts without an instance]},
             "gone": {target that is not here: starts}}

Source: class_fail_export(), class_disconnect_stale_exports(), lustre/obdclass/genops.c;
target_handle_connect(), lustre/ldlm/ldlm_lib.c; 2.16.1, 2.17.0.
"""

from __future__ import annotations

from iostats.events.event import made
from iostats.events.server_reading import MOST_TARGETS, file_system_of, reading
from iostats.events.sources import Found
from iostats.lustre.kernel_log import EVICTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place

NAME, ROLES = "evictions", ("server",)
CAUSE = "unknown"


def look(place: Place, before: Any, now: float) -> Found:
    """Found: evicted; its status is empty."""
    return found_in(reading(place.root, now), place, before, now)


def counted_since(state: Any) -> dict[str, float]:
    """{EVICTED: the time since when every target has a count}; {} if some target has none."""
    since = state.get("since") if isinstance(state, dict) else None
    return {} if since is None else {EVICTED: float(since)}


def found_in(seen: ServerReading, place: Place, before: Any, now: float) -> Found:
    """The same, of a ServerReading."""
    if seen.targets is None:
        return Found([], before, {})
    known = before["targets"] if before else {}
    since = before["at"] if before else now
    gone: dict[str, int] = {**(before or {}).get("gone", {}), **{
        name: one[2] if len(one) > 2 else 0 for name, one in known.items()}}
    events: list[Event] = []
    counts: dict[str, list[Any]] = {}
    for name, target in seen.targets.items():
        # Two values: of a release that counted no starts.
        instance, count, starts = [*(known.get(name) or (target.instance, None)),
                                   gone.get(name, 0)][:3]
        if target.evictions is None:
            counts[name] = [instance, count, starts]
            continue
        # It counts from 0 since its start, where that was after the last look.
        is_started = ((before is not None and name not in known)
                      or bool(instance and target.instance and instance != target.instance)
                      or (count or 0) > target.evictions)
        starts += is_started
        counts[name] = [target.instance or instance, target.evictions, starts]
        # What counts from 0 again, as of an MGS, has no instance.
        origin = counts[name][0] or f"{place.series}{starts or ''}"
        start = 0 if is_started else target.evictions if count is None else count
        gained = target.evictions - start
        if gained > 0:
            events.append(made(
                place.boot_id, place.node, (NAME, name, origin, str(start)), EVICTED,
                min(since, now), last=now, cause=CAUSE, file_system=file_system_of(name),
                target=name, count=gained,
                message=f"{name}: eviction_count has risen by {gained}, from {start} to "
                        f"{target.evictions}"))
    gone = {name: starts for name, starts in gone.items() if name not in counts}
    is_complete = bool(counts) and all(count is not None for _, count, _ in counts.values())
    counted_since = (before or {}).get("since") or now
    return Found(events, {"at": now, "since": counted_since if is_complete else None,
                          "targets": counts,
                          "gone": dict(list(gone.items())[:MOST_TARGETS])}, {})
