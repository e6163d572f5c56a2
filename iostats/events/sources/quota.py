"""
Quotas that are used up, and those nearest to their limits, each EVERY_S on the MDS with MDT0000.

    the quota master grants no more to a user, a group or a project     quota_full, until 1 percent
                                                                        of the limit is free

An event names its user, group or project as a client, "user:4711", and its `last` is the last
reading at which the quota was used up: jobs that begin later have it, too.

    state: of events/conditions.py; the keys are such as "scratch user 4711 space", and the pool
"""

from __future__ import annotations

from iostats.events.conditions import Conditions
from iostats.events.event import make_event
from iostats.events.kinds import QUOTA_FULL
from iostats.events.metrics_reading import read_quotas
from iostats.events.sources import SourceResult
from iostats.lustre.capacity import BYTES
from iostats.lustre.quota import compute_granted_percent, compute_nearness, is_exhausted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.events.conditions import ConditionsState
    from iostats.events.event import Event
    from iostats.events.sources import Place
    from iostats.events.status import QuotasStatus, ServerStatus
    from iostats.lustre.quota import Quota

NAME, ROLES = "quota", ("server",)
EVERY_S = 600.0
MOST_SENT = 1000                        # of a file system, those nearest to their limits
_MOST_OPEN = 1000
_FREE_SHARE = 0.99                      # of the limit


def scan(place: Place, before: ConditionsState | None, now: float) -> SourceResult:
    """
    Found: quota_full; status: {"quotas": {file system: {"read_at": time, "count": of all with a
    limit, "nearest": [Quota as a dict]}}} where there is a quota master.
    """
    cached: tuple[float, ServerStatus | None] = place.cache.get(NAME, (0.0, None))
    at, status = cached
    if status is not None and 0 <= now - at < EVERY_S:
        return SourceResult([], before, status)
    result = detect(read_quotas(place.root, []), place, before, now)
    place.cache[NAME] = now, result.status
    return result


def detect(quotas: dict[str, list[Quota] | None], place: Place, before: ConditionsState | None,
           now: float) -> SourceResult:
    """Quotas that are used up; `quotas`: as of read_quotas()."""
    conditions = Conditions(before, now)
    events: list[Event] = []

    def report(key: str, opened: tuple[float, int], text: str, over: float | None = None) -> None:
        (file_system, kind, id, resource, pool), (since, number) = key.split(" "), opened
        events.append(make_event(
            place.boot_id, place.node, (NAME, key, f"{place.series}{number}"), QUOTA_FULL, since,
            last=now, over=over, file_system=file_system, clients=(f"{kind}:{id}",),
            message=f"{file_system}: {kind} {id}, {resource}"
                    f"{' in pool ' + pool if pool else ''}: {text}"))
    status: dict[str, QuotasStatus] = {}
    is_open = 0
    for file_system, of_file_system in quotas.items():
        if of_file_system is None:
            continue                                    # unknown for now
        nearest = sorted(of_file_system, key=compute_nearness, reverse=True)
        shown: list[Any] = [quota._asdict() for quota in nearest[:MOST_SENT]]
        status[file_system] = {"read_at": now, "count": len(nearest), "nearest": shown}
        known = {_make_key(quota): quota for quota in nearest}
        for key, quota in known.items():
            if is_exhausted(quota, now):
                is_open += 1
                if is_open <= _MOST_OPEN or key in conditions:
                    report(key, conditions.opened(key), _describe(quota))
            elif key in conditions and compute_granted_percent(quota) < 100 * _FREE_SHARE:
                report(key, conditions.end(key), f"now {_describe(quota)}", now)
        for key in conditions:
            if key.partition(" ")[0] == file_system and key not in known:
                report(key, conditions.end(key), "it has no limit any more", now)
    for key in conditions:
        if key.partition(" ")[0] not in quotas:
            report(key, conditions.end(key), "MDT0000 is no longer on this storage server", now)
    return SourceResult(events, conditions.state(), {"quotas": status} if quotas else {})


def _make_key(quota: Quota) -> str:
    return f"{quota.file_system} {quota.kind} {quota.id} {quota.resource} {quota.pool}"


def _describe(quota: Quota) -> str:
    is_soft = 0 < quota.soft < quota.granted and not 0 < quota.hard <= quota.granted
    limit = quota.soft if is_soft or not quota.hard else quota.hard
    granted, limit_text = (f"{amount >> 20:,} MiB" if quota.resource == BYTES else f"{amount:,}"
                           for amount in (quota.granted, limit))
    kind = "hard" if limit == quota.hard else "soft"
    return f"{granted} granted of a {kind} limit of {limit_text}"
