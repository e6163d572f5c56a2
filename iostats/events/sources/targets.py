"""
Targets that are gone from a storage server, or are back, or were started again.

    scratch-OST0003 was there, and is not       target_down
    it was not there, and is                    target_up
    its instance is another one                 target_up: it was stopped and started meanwhile

What is there at the first look is no news.  Where their directories cannot be read, nothing is
known of targets.

    state = {target: [instance, starts that were seen, since when it is down, or null]}
"""

from __future__ import annotations

from iostats.events.event import made
from iostats.events.server_reading import MOST_TARGETS, file_system_of, reading
from iostats.events.sources import Found
from iostats.lustre.kernel_log import TARGET_DOWN, TARGET_UP
from iostats.lustre.recovery_status import UNDER_WAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place

NAME, ROLES = "targets", ("server",)
FORGET_S = 7 * 86_400                   # a target that is down for so long has gone for good


def look(place: Place, before: Any, now: float) -> Found:
    """
    Found: target_down, target_up; status: {"targets": {target: {"state", "clients"}}} of those
    that are here, and of those that were.
    """
    return found_in(reading(place.root, now), place, before, now)


def found_in(seen: ServerReading, place: Place, before: Any, now: float) -> Found:
    """The same, of a ServerReading."""
    if seen.targets is None:
        return Found([], before, {})
    is_first, before = before is None, before or {}
    state: dict[str, list[Any]] = {}
    events: list[Event] = []

    def tell(kind: str, target: str, origin: str, text: str) -> None:
        events.append(made(place.boot_id, place.node, (NAME, kind, target, origin), kind, now,
                           file_system=file_system_of(target), target=target,
                           message=f"{target}: {text}"))
    for name, (instance, starts, down) in before.items():
        if name not in seen.targets:
            if down is None:
                tell(TARGET_DOWN, name, instance or f"start {place.series}{starts}",
                     "gone from this storage server")
                down = now
            if len(state) < MOST_TARGETS:       # also forgotten ones: their starts are counted on
                state[name] = [instance, starts, down]
    for name, target in seen.targets.items():
        instance, starts, down = before.get(name) or ("", 0, None)
        is_new = name not in before or down is not None
        is_other = bool(instance and target.instance and instance != target.instance)
        starts += is_new or is_other
        origin = target.instance or f"start {place.series}{starts}"
        if is_new and not is_first:
            tell(TARGET_UP, name, origin, "is here" if down is None else
                 f"is here again, after {max(0, round(now - down))} s")
        elif is_other:
            tell(TARGET_UP, name, origin, "was stopped and started again")
        state[name] = [target.instance or instance, starts, None]
    return Found(events, state, {"targets": {
        **{name: {"state": "down", "clients": None} for name, one in state.items()
           if one[2] is not None and now - one[2] < FORGET_S},
        **{name: {"state": "recovering" if one.recovery is not None
                  and one.recovery.status in UNDER_WAY else "up", "clients": one.clients}
           for name, one in seen.targets.items()}}})
