"""
health_check: a storage server, or a target of it, that is not healthy; and when it is again.

    healthy -> NOT HEALTHY      not_healthy, with the devices, as far as they are named
    -> LBUG                     lbug: it stays until the machine is restarted
    NOT HEALTHY -> healthy      the same event with its end, and `healthy`

Where it cannot be read, nothing is known of it, and an event that is open stays open.

    state = {"times": how often it was not healthy, "open": null or [health, devices, since]}
"""

from __future__ import annotations

from iostats.events.event import made
from iostats.events.kinds import HEALTHY
from iostats.events.server_reading import file_system_of, reading
from iostats.events.sources import Found
from iostats.lustre.health_check import HEALTHY as WELL
from iostats.lustre.health_check import LBUG
from iostats.lustre.kernel_log import LBUG as LBUG_KIND
from iostats.lustre.kernel_log import NOT_HEALTHY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place

NAME, ROLES = "health", ("server",)
_SHOWN = 5


def look(place: Place, before: Any, now: float) -> Found:
    """Found: not_healthy, lbug, healthy; status: {"health": what health_check says}."""
    return found_in(reading(place.root, now), place, before, now)


def found_in(seen: ServerReading, place: Place, before: Any, now: float) -> Found:
    """The same, of a ServerReading."""
    before = before or {"times": 0, "open": None}
    times, is_open = before["times"], before["open"]
    number = f"{place.series}{times}"
    status = {"health": seen.health}
    events: list[Event] = []

    def event(open_: list[Any], over: float | None = None) -> Event:
        return _event(place, times, open_, over)
    if not seen.health:
        return Found([], before, status)
    if seen.health == WELL:
        if is_open is not None:
            events = [event(is_open, now), made(
                place.boot_id, place.node, (NAME, HEALTHY, number), HEALTHY, now,
                message=f"health_check: healthy again, after {max(0, round(now - is_open[2]))} s")]
        return Found(events, {"times": times, "open": None}, status)
    if is_open is None or (seen.health == LBUG and is_open[0] != LBUG):
        if is_open is not None:
            events = [event(is_open, now)]
        times += 1
        is_open = [seen.health, list(seen.devices), now]
        return Found([*events, event(is_open)], {"times": times, "open": is_open}, status)
    # What has an LBUG stays so, whatever else it says.
    known = list(dict.fromkeys((*is_open[1], *seen.devices)))
    has_more = len(known) > len(is_open[1])
    is_open = [is_open[0], known, is_open[2]]
    return Found([event(is_open)] if has_more else [], {"times": times, "open": is_open}, status)


def _event(place: Place, times: int, open_: list[Any], over: float | None) -> Event:
    health, devices, since = open_
    targets = [name for name in devices if "-" in name]
    target = targets[0] if len(targets) == len(devices) == 1 else ""
    shown = ", ".join(devices[:_SHOWN]) + (
        f" and {len(devices) - _SHOWN} more" if len(devices) > _SHOWN else "")
    return made(place.boot_id, place.node, (NAME, health, f"{place.series}{times}"),
                LBUG_KIND if health == LBUG else NOT_HEALTHY, since, over=over, target=target,
                file_system=file_system_of(target), count=max(1, len(devices)),
                message=f"health_check: {health}" + (f": {shown}" if shown else ""))
