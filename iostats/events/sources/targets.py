"""
Events of targets that left a storage server, returned, or were restarted.

    scratch-OST0003 was there, and is not       target_down
    it was not there, and is                    target_up
    its instance is another one                 target_up: it was restarted between the two scans

Targets that are there at the first scan are not reported.  Where their directories cannot be read,
the state of targets is unknown.

    state = {target: [instance, starts that were seen, since when it is down, or null]}
"""

from __future__ import annotations

from iostats.events.event import make_event
from iostats.events.server_reading import MOST_TARGETS, get_server_reading
from iostats.events.sources import SourceResult
from iostats.lustre.kernel_log import TARGET_DOWN, TARGET_UP
from iostats.lustre.recovery_status import RECOVERING, UNDER_WAY
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place
    from iostats.events.status import TargetStatus
    from iostats.lustre.recovery_status import RecoveryStatus

    State = dict[str, tuple[str, int, Optional[float]]]

NAME, ROLES = "targets", ("server",)
FORGET_S = 7 * 86_400                   # a target that is down for so long was removed for good


def scan(place: Place, before: State | None, now: float) -> SourceResult:
    """
    Events: target_down, target_up; status: {"targets": {target: {"state", "clients"}}} of those
    that are here, and of those that were; while one is RECOVERING with "recovery": {"clients",
    "of", "left_s"}.
    """
    return detect(get_server_reading(place, now), place, before, now)


def detect(reading: ServerReading, place: Place, before: State | None,
           now: float) -> SourceResult:
    """Changes of targets in a ServerReading."""
    if reading.targets is None:
        return SourceResult([], before, {})
    is_first = before is None
    before = before or {}
    state: State = {}
    events: list[Event] = []

    def add_event(kind: str, target: str, origin: str, text: str) -> None:
        events.append(make_event(place.boot_id, place.node, (NAME, kind, target, origin), kind, now,
                                 file_system=parse_file_system(target), target=target,
                                 message=f"{target}: {text}"))
    for name, (instance, starts, down) in before.items():
        if name not in reading.targets:
            if down is None:
                add_event(TARGET_DOWN, name, instance or f"start {place.series}{starts}",
                          "no longer on this storage server")
                down = now
            if len(state) < MOST_TARGETS:       # also forgotten ones: their starts are counted on
                state[name] = instance, starts, down
    for name, target in reading.targets.items():
        instance, starts, down = before.get(name) or ("", 0, None)
        is_new = name not in before or down is not None
        is_other = bool(instance and target.instance and instance != target.instance)
        starts += is_new or is_other
        origin = target.instance or f"start {place.series}{starts}"
        if is_new and not is_first:
            add_event(TARGET_UP, name, origin, "is here" if down is None else
                      f"is here again, after {max(0, round(now - down))} s")
        elif is_other:
            add_event(TARGET_UP, name, origin, "was stopped and started again")
        state[name] = target.instance or instance, starts, None
    return SourceResult(events, state, {"targets": {
        **{name: {"state": "down", "clients": None} for name, stored in state.items()
           if stored[2] is not None and now - stored[2] < FORGET_S},
        **{name: {"state": "recovering" if target.recovery is not None
                  and target.recovery.status in UNDER_WAY else "up", "clients": target.clients,
                  **_make_progress_status(target.recovery)}
           for name, target in reading.targets.items()}}})


def _make_progress_status(recovery: RecoveryStatus | None) -> TargetStatus:
    """The clients that are back, of all, and the seconds until the others are evicted."""
    if recovery is None or recovery.status != RECOVERING or recovery.clients is None or (
            recovery.of is None or recovery.left_s is None):
        return {}
    return {"recovery": {"clients": recovery.clients, "of": recovery.of,
                         "left_s": recovery.left_s}}
