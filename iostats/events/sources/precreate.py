"""
Objects that OSTs make in advance, each EVERY_S on an MDS (lustre/precreate.py).

    twice in a row an MDT had no objects of an OST, or got no new ones      no_objects, with its end

A pool that is empty for a moment, as when many files are made at once, is no event.

    state: of events/conditions.py; the keys are "scratch-OST0003-osc-MDT0000"
"""

from __future__ import annotations

from iostats.events.conditions import Conditions
from iostats.events.event import make_event
from iostats.events.kinds import NO_OBJECTS
from iostats.events.metrics_reading import read_pools
from iostats.events.sources import SourceResult
from iostats.lustre.precreate import explain_lack, split_name
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.events.conditions import ConditionsState
    from iostats.events.event import Event
    from iostats.events.sources import Place
    from iostats.lustre.precreate import Pool

NAME, ROLES = "precreate", ("server",)
EVERY_S = 60.0


def scan(place: Place, before: ConditionsState | None, now: float) -> SourceResult:
    """Found: no_objects."""
    at, lacking = place.cache.get(NAME, (0.0, None))
    if lacking is not None and 0 <= now - at < EVERY_S:
        return SourceResult([], before, {})
    pools = read_pools(place.root, [])
    result = detect(pools, lacking or {}, place, before, now)
    place.cache[NAME] = now, {name: why for name, pool in pools.items()
                              for why in [explain_lack(pool) if pool else ""] if why}
    return result


def detect(pools: Mapping[str, Pool | None], lacking: Mapping[str, str], place: Place,
           before: ConditionsState | None, now: float) -> SourceResult:
    """Pools without objects; `lacking`: those of the reading before."""
    conditions = Conditions(before, now)
    events: list[Event] = []

    def report(name: str, opened: tuple[float, int], text: str, over: float | None = None) -> None:
        (since, number), match = opened, split_name(name)
        target, mdt = match.groups() if match else (name, "")
        events.append(make_event(
            place.boot_id, place.node, (NAME, name, f"{place.series}{number}"), NO_OBJECTS, since,
            last=now, over=over, file_system=parse_file_system(target), target=target,
            message=f"{mdt} gets no objects of {target}: {text}"))
    for name, pool in pools.items():
        if pool is None:
            continue                                    # unknown for now
        why = explain_lack(pool)
        if why and (name in conditions or name in lacking):
            report(name, conditions.opened(name), why)
        elif not why and name in conditions:
            report(name, conditions.end(name), "over", now)
    for name in conditions:
        if name not in pools:
            report(name, conditions.end(name), "its MDT is no longer on this storage server", now)
    return SourceResult(events, conditions.state(), {})
