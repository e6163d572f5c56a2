"""
changelog_users: programs that read an MDT's changelog, and are far behind.

    [events] changelog_records or more that a user has not cleared      changelog_lag, until there
                                                                        are fewer than half of them

`changelog_records = 0`: no such event.

    state: of events/conditions.py; the keys are such as "scratch-MDT0000 cl1"
"""

from __future__ import annotations

from iostats.base.units import describe_duration
from iostats.events.conditions import Conditions
from iostats.events.event import make_event
from iostats.events.kinds import CHANGELOG_LAG
from iostats.events.server_reading import get_server_reading
from iostats.events.sources import SourceResult
from iostats.lustre.stats import parse_file_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.events.conditions import ConditionsState
    from iostats.events.event import Event
    from iostats.events.server_reading import ServerReading
    from iostats.events.sources import Place
    from iostats.lustre.changelog_users import ChangelogUser

NAME, ROLES = "changelog", ("server",)


def scan(place: Place, before: ConditionsState | None, now: float) -> SourceResult:
    """Events of kind changelog_lag; no status."""
    return detect(get_server_reading(place, now), place, before, now,
                  place.config.events.changelog_records)


def detect(reading: ServerReading, place: Place, before: ConditionsState | None, now: float,
           limit: int) -> SourceResult:
    """Users of changelogs in a ServerReading that are `limit` records behind."""
    if reading.targets is None:
        return SourceResult([], before, {})
    conditions = Conditions(before, now)
    events: list[Event] = []

    def report(key: str, opened: tuple[float, int], text: str, over: float | None = None) -> None:
        (target, user), (since, number) = key.split(" "), opened
        events.append(make_event(
            place.boot_id, place.node, (NAME, target, user, f"{place.series}{number}"),
            CHANGELOG_LAG, since, last=over, over=over, file_system=parse_file_system(target),
            target=target, message=f"{target}: changelog user {user} {text}"))
    users = {f"{name} {user_name}": user for name, target in reading.targets.items()
             for user_name, user in (target.changelog_users or {}).items()}
    lags = {key for key, user in users.items()
            if 0 < limit <= user.unread * (2 if key in conditions else 1)}
    for key, user in users.items():
        opened = conditions.begin(key) if key in lags else None
        if opened is not None:
            report(key, opened, _describe(user))
    for key in conditions:
        target = reading.targets.get(key.partition(" ")[0])
        is_unknown = target is not None and target.changelog_users is None
        if key not in lags and not is_unknown:
            report(key, conditions.end(key),
                   _describe(users[key]) if key in users else "is no longer here", now)
    return SourceResult(events, conditions.state(), {})


def _describe(user: ChangelogUser) -> str:
    idle = "" if user.idle_s is None else (
        f"; it last cleared some {describe_duration(user.idle_s)} ago")
    return f"has {user.unread:,} records to clear{idle}"
