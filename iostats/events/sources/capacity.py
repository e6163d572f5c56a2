"""
The space and inodes of each target: which are nearly full, which are full, and the numbers for the
site's server, which has their history and a forecast.

    [events] full_percent or more is used       nearly_full, with its end
    so little that an OST gets no new files     target_full, with its end

An event is over when 2 percent less is used, or twice the minimum is available, so that a target at
the limit is one event.  `full_percent = 0`: no nearly_full.

    state: of events/conditions.py; the keys are such as "nearly_full scratch-OST0003 space"
"""

from __future__ import annotations

from iostats.events.conditions import Conditions
from iostats.events.event import make_event
from iostats.events.kinds import NEARLY_FULL, TARGET_FULL
from iostats.events.server_reading import get_server_reading
from iostats.events.sources import SourceResult
from iostats.lustre.capacity import BYTES, RESOURCES, compute_used_percent, get_available, is_full
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.events.conditions import ConditionsState
    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place
    from iostats.lustre.capacity import Capacity

NAME, ROLES = "capacity", ("server",)
_MARGIN = 2.0                           # percent


def scan(place: Place, before: ConditionsState | None, now: float) -> SourceResult:
    """
    Events: nearly_full, target_full; status: {"targets": {target: {"capacity": Capacity as a
    dict}}} of those whose capacity is known.
    """
    return detect(get_server_reading(place, now), place, before, now,
                  place.config.events.full_percent)


def detect(reading: ServerReading, place: Place, before: ConditionsState | None, now: float,
           limit: float) -> SourceResult:
    """Full targets in a ServerReading; `limit`: percent."""
    if reading.targets is None:
        return SourceResult([], before, {})
    conditions = Conditions(before, now)
    events: list[Event] = []

    def report(key: str, opened: tuple[float, int], text: str, over: float | None = None) -> None:
        (kind, target, resource), (since, number) = key.split(" "), opened
        events.append(make_event(
            place.boot_id, place.node, (NAME, kind, target, resource, f"{place.series}{number}"),
            kind, since, last=over, over=over, file_system=parse_file_system(target), target=target,
            message=f"{target}: {text}"))
    for name, target in reading.targets.items():
        capacity = target.capacity
        for resource in RESOURCES:
            for kind in (NEARLY_FULL, TARGET_FULL):
                key = f"{kind} {name} {resource}"
                if capacity is None:
                    continue                            # unknown for now
                if _is_exceeded(kind, capacity, resource, limit, key in conditions):
                    opened = conditions.begin(key)
                    if opened is not None:
                        report(key, opened, _describe(capacity, resource))
                elif key in conditions:
                    report(key, conditions.end(key), f"now {_describe(capacity, resource)}", now)
    for key in conditions:
        if key.split(" ")[1] not in reading.targets:
            report(key, conditions.end(key), "no longer on this storage server", now)
    return SourceResult(events, conditions.state(), {"targets": {
        name: {"capacity": target.capacity._asdict()} for name, target in reading.targets.items()
        if target.capacity is not None}})


def _is_exceeded(kind: str, capacity: Capacity, resource: str, limit: float, is_open: bool) -> bool:
    if kind == NEARLY_FULL:
        return 0 < limit <= compute_used_percent(capacity, resource) + (_MARGIN if is_open else 0)
    return is_full(capacity, resource) or (is_open and is_full(capacity._replace(
        bytes_available=capacity.bytes_available // 2, inodes_free=capacity.inodes_free // 2),
        resource))


def _describe(capacity: Capacity, resource: str) -> str:
    left = get_available(capacity, resource)
    amount = f"{left >> 20:,} MiB" if resource == BYTES else f"{left:,}"
    share = int(compute_used_percent(capacity,
                                     resource) * 10) / 10         # never 100.0 before it is
    return f"{share} % of its {resource} is used, {amount} available"
