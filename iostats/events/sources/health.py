"""
health_check: a storage server, or a target of it, that is not healthy; and when it is again.

    healthy -> NOT HEALTHY      not_healthy, with the devices, as far as they are named
    -> LBUG                     lbug: it stays until the machine is restarted
    NOT HEALTHY -> healthy      the same event with its end, and `healthy`

Where it cannot be read, the health is unknown, and an event that is open stays open.

    state = {"times": how often it was not healthy, "open": null or [health, devices, since]}
"""

from __future__ import annotations

from iostats.events.event import make_event
from iostats.events.kinds import HEALTHY
from iostats.events.server_reading import get_server_reading
from iostats.events.sources import SourceResult
from iostats.lustre.health_check import HEALTHY as WELL
from iostats.lustre.health_check import LBUG
from iostats.lustre.kernel_log import LBUG as LBUG_KIND
from iostats.lustre.kernel_log import NOT_HEALTHY
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, TypedDict

    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place
    from iostats.events.status import ServerStatus

    _Open = tuple[str, list[str], float]        # health, devices, since

    class _State(TypedDict):
        times: int
        open: Optional[_Open]

NAME, ROLES = "health", ("server",)
_SHOWN = 5


def scan(place: Place, before: _State | None, now: float) -> SourceResult:
    """Events of kinds not_healthy, lbug, healthy; status: {"health": the state in health_check}."""
    return detect(get_server_reading(place, now), place, before, now)


def detect(reading: ServerReading, place: Place, before: _State | None,
           now: float) -> SourceResult:
    """Health events in a ServerReading."""
    times, is_open = (before["times"], before["open"]) if before else (0, None)
    number = f"{place.series}{times}"
    status: ServerStatus = {"health": reading.health}
    events: list[Event] = []

    def event(open_: _Open, over: float | None = None) -> Event:
        return _make_event(place, times, open_, over)
    if not reading.health:
        return SourceResult([], before, status)
    if reading.health == WELL:
        if is_open is not None:
            events = [event(is_open, now), make_event(
                place.boot_id, place.node, (NAME, HEALTHY, number), HEALTHY, now,
                message=f"health_check: healthy again, after {max(0, round(now - is_open[2]))} s")]
        return SourceResult(events, {"times": times, "open": None}, status)
    if is_open is None or (reading.health == LBUG and is_open[0] != LBUG):
        if is_open is not None:
            events = [event(is_open, now)]
        times += 1
        is_open = (reading.health, list(reading.devices), now)
        return SourceResult([*events, event(is_open)], {"times": times, "open": is_open}, status)
    # What has an LBUG stays so, whatever else it says.
    devices = list(dict.fromkeys((*is_open[1], *reading.devices)))
    has_more = len(devices) > len(is_open[1])
    is_open = (is_open[0], devices, is_open[2])
    return SourceResult([event(is_open)] if has_more else [], {"times": times, "open": is_open},
                        status)


def _make_event(place: Place, times: int, open_: _Open, over: float | None) -> Event:
    health, devices, since = open_
    targets = [name for name in devices if "-" in name]
    target = targets[0] if len(targets) == len(devices) == 1 else ""
    shown = ", ".join(devices[:_SHOWN]) + (
        f" and {len(devices) - _SHOWN} more" if len(devices) > _SHOWN else "")
    return make_event(place.boot_id, place.node, (NAME, health, f"{place.series}{times}"),
                      LBUG_KIND if health == LBUG else NOT_HEALTHY, since, over=over, target=target,
                      file_system=parse_file_system(target), count=max(1, len(devices)),
                      message=f"health_check: {health}" + (f": {shown}" if shown else ""))
