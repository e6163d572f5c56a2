"""
`iostats ldms status` for people: what is valid, who works, each group, what happened last.

What is unknown is "-".  All texts have been made fit for a terminal where they were read, but
those of instances and agents, which are here.
"""

from __future__ import annotations

from datetime import datetime

from iostats.base.errors import one_line
from iostats.base.options import RUN_TIME_OPTIONS
from iostats.base.text import cut, padded, width_of
from iostats.base.units import duration_in_words
from iostats.events.event import in_words
from iostats.ldms.status.document import AGGREGATOR, UNKNOWN, UP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iostats.ldms.status.document import DaemonRow, GroupStatus
    from iostats.ldms.status.seen import ClusterSeen

STALE_S = 90.0                  # after which a status is old: it is written each 60 s
AHEAD_S = 30.0                  # that clocks may differ without a word
MOST_SAMPLERS, MOST_AGENTS = 20, 100
LAST_EVENTS = 10
_LONGEST_NAME = 40


def lines(seen: ClusterSeen, now: float, width: int | None, every: bool = False) -> Iterator[str]:
    """
    The lines, without their ends; `now`: s since 1970; `width`: columns, or None; `every`: all
    samplers, agents and events that are known.
    """
    if seen.trouble:
        yield f"{seen.prefix}: the description cannot be read: {seen.trouble}"
    for line in _lines(seen, now, every):
        yield cut(line.rstrip(), width)
    for line in seen.unread:
        yield f"not understood: {line}"


def _lines(seen: ClusterSeen, now: float, every: bool) -> Iterator[str]:
    one = seen.revision
    if one is None and not seen.trouble:
        yield f"{seen.prefix}: no description was loaded yet: iostats ldms load FILE"
    elif one is not None:
        note = f": {one_line(one.note)}" if one.note else ""
        yield (f"{seen.prefix}: description {one.number}, loaded {moment(one.at, now)} by "
               f"{one_line(one.by)}{note}")
    if not seen.instances:
        yield "no instance of `iostats ldms run` is there: nothing is watched"
    else:
        yield ""
        yield from _instances(seen, now)
    for group in seen.groups:
        yield ""
        yield from _group(seen, group, now, every)
    events = sorted((event for group in seen.groups for event in group.events),
                    key=lambda event: max(event.time, event.over or 0.0))
    if events:
        yield ""
        yield "what happened last"
        for event in events if every else events[-LAST_EVENTS:]:
            yield f"  {in_words(event, with_node=False)}"
    if seen.agents:
        yield ""
        yield from _agents(seen, now, every)


def _instances(seen: ClusterSeen, now: float) -> Iterator[str]:
    rows = []
    for name, one in seen.instances.items():
        groups = [group for group, owner in seen.owners.items() if owner == name]
        state = "" if one.get("ready") is True else "has no description yet"
        rows.append([name, _text(one.get("version")), _ago(one.get("since"), now),
                     f"{len(groups)}", state])
    yield from _table(("instance", "version", "runs for", "groups", ""), rows, right=(3,))


def _group(seen: ClusterSeen, status: GroupStatus, now: float, every: bool) -> Iterator[str]:
    what = f"level {status.level} aggregators" if status.role == AGGREGATOR else "samplers"
    owner = seen.owners.get(status.group)
    if not status.time and not status.rows:
        yield (f"{what} {cut(status.group, _LONGEST_NAME)}: {status.daemons:,} daemon"
               f"{'s' * (status.daemons != 1)}, "
               + (f"by {owner}, which has told nothing of them yet" if owner else
                  "no instance runs them yet"))
        return
    told = [f"{status.count(UP):,} of {status.daemons:,} up"]
    if owner is None:
        told.append(f"nothing watches them: as of {moment(status.time, now)}")
    elif now - status.time > STALE_S:
        told.append(f"{owner} has said nothing for {duration_in_words(now - status.time)}, or its "
                    f"clock is behind")
    elif status.time - now > AHEAD_S:
        told.append(f"by {owner}, whose clock is {duration_in_words(status.time - now)} ahead of "
                    f"this host's")
    else:
        told.append(f"by {owner}, {duration_in_words(max(0.0, now - status.time))} ago")
    wrong = sum(row.state == UP and not row.as_wanted for row in status.rows)
    if wrong:
        told.append(f"{wrong:,} not as described")
    leaving = sum(row.state == UP and row.as_wanted and bool(row.wrong) for row in status.rows)
    if leaving:
        told.append(f"{leaving:,} partly stopped")
    revision = None if seen.revision is None else seen.revision.number
    if status.revision is not None and revision is not None and status.revision != revision:
        told.append(f"still description {status.revision}")
    yield f"{what} {cut(status.group, _LONGEST_NAME)}: {', '.join(told)}"
    if status.role == AGGREGATOR:
        yield from _table(
            ("aggregator", "state", "since", "restarts", "producers", "connected", "sets", "load",
             ""), [[row.name, *_state(row, now), _number(row.producers), _number(row.connected),
                    _number(row.sets), "-" if row.load is None else f"{row.load:.2f}", _why(row)]
                   for row in status.rows], right=(3, 4, 5, 6, 7))
    elif status.rows:
        shown = status.rows if every else status.rows[:MOST_SAMPLERS]
        yield from _table(("sampler", "state", "since", "restarts", ""),
                          [[row.name, *_state(row, now), _why(row)] for row in shown], right=(3,))
        left = len(status.rows) - len(shown) + status.unlisted
        if left:
            yield f"  and {left:,} more"


def _state(row: DaemonRow, now: float) -> list[str]:
    since = "-" if row.state == UNKNOWN else moment(row.since, now)
    return [row.state, since, _number(row.restarts)]


def _why(row: DaemonRow) -> str:
    if row.state != UP:
        return row.why
    return "; ".join(row.wrong) if row.wrong else "" if row.as_wanted else "not as described"


def _agents(seen: ClusterSeen, now: float, every: bool) -> Iterator[str]:
    yield "storage servers' agents"
    revision = None if seen.revision is None else seen.revision.number
    rows = []
    for host, one in seen.agents.items():
        rows.append([host, _text(one.get("revision")), _text(one.get("group") or "site.cfg"),
                     _text(one.get("version")), _ago(one.get("time"), now),
                     _text(one.get("problem"), "") or _settings(one)])
    # Those that are behind, or have a problem, first.
    order = sorted(range(len(rows)), key=lambda place: (
        not list(seen.agents.values())[place].get("problem"),
        rows[place][1] == str(revision), rows[place][0]))
    shown = order if every else order[:MOST_AGENTS]
    yield from _table(("storage server", "description", "group", "version", "for", ""),
                      [rows[place] for place in shown], right=(1,))
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown):,} more"


def _settings(agent: Mapping[str, Any]) -> str:
    """How often an agent sweeps, and which of its settings are not the defaults of this release."""
    every, settings = agent.get("sweep_every_s"), agent.get("settings")
    found = [f"a sweep each {every} s"] if type(every) is int else []
    for key, value in settings.items() if isinstance(settings, dict) else ():
        option = RUN_TIME_OPTIONS.get(key)
        if option is None or value != option.check(option.default):
            found.append(f"{_text(key)} = {_text(_words(value))}")
    return ", ".join(found)


def _words(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]],
           right: Sequence[int] = ()) -> Iterator[str]:
    every = [headers, *rows]
    widths = [max(min(width_of(row[place]), _LONGEST_NAME) for row in every)
              for place in range(len(headers) - 1)]
    for row in every:
        cells = [padded(cut(cell, width), width, place in right)
                 for place, (cell, width) in enumerate(zip(row, widths))]
        yield "  " + "  ".join([*cells, row[-1]])


def moment(time: float, now: float) -> str:
    """A moment, with its date where it is not of the last 20 hours."""
    try:
        at = datetime.fromtimestamp(time)
    except (ValueError, OverflowError, OSError):
        return "-"
    return f"{at:%T}" if -1 < now - time < 72_000 else f"{at:%F %T}"


def _ago(time: Any, now: float) -> str:
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        return "-"
    return duration_in_words(max(0.0, now - time))


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _text(value: Any, unknown: str = "-") -> str:
    return unknown if value is None or value == "" else one_line(str(value))[:200]
