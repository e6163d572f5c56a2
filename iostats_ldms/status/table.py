"""
`iostats ldms status` as text: description, instances, groups, last events, agents.

An unknown value is "-". Texts of instances and agents are made safe for a terminal here; all others
are already.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.options import RUN_TIME_OPTIONS
from iostats.base.text import cut, measure_width, pad
from iostats.base.units import describe_duration
from iostats.events.event import describe_event
from iostats_ldms.status.document import AGGREGATOR, UNKNOWN, UP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iostats_ldms.cli.status import ClusterStatus
    from iostats_ldms.status.document import DaemonRow, GroupStatus

STALE_S = 90.0                  # after which a status is old: it is written each 60 s
AHEAD_S = 30.0                  # that clocks may differ without a word
MOST_SAMPLERS, MOST_AGENTS = 20, 100
LAST_EVENTS = 10
_LONGEST_NAME = 40


def format_lines(cluster: ClusterStatus, now: float, width: int | None,
                 every: bool = False) -> Iterator[str]:
    """
    Format the status; `now`: seconds since 1970; `width`: columns or None; `every`: no limits.
    """
    if cluster.trouble:
        yield f"{cluster.prefix}: the description cannot be read: {cluster.trouble}"
    for line in _format_cluster(cluster, now, every):
        yield cut(line.rstrip(), width)
    for line in cluster.unread:
        yield f"cannot be parsed: {line}"


def _format_cluster(cluster: ClusterStatus, now: float, every: bool) -> Iterator[str]:
    item = cluster.revision
    if item is None and not cluster.trouble:
        yield f"{cluster.prefix}: no description was loaded yet: iostats ldms load FILE"
    elif item is not None:
        note = f": {sanitize(item.note)}" if item.note else ""
        yield (f"{cluster.prefix}: description {item.number}, loaded "
               f"{format_time(item.at, now)} by {sanitize(item.by)}{note}")
    if not cluster.instances:
        yield "no instance of `iostats ldms run` is running: nothing is monitored"
    else:
        yield ""
        yield from _format_instances(cluster, now)
    for group in cluster.groups:
        yield ""
        yield from _format_group(cluster, group, now, every)
    events = sorted((event for group in cluster.groups for event in group.events),
                    key=lambda event: max(event.time, event.over or 0.0))
    if events:
        yield ""
        yield "last events"
        for event in events if every else events[-LAST_EVENTS:]:
            yield f"  {describe_event(event, with_node=False)}"
    if cluster.agents:
        yield ""
        yield from _format_agents(cluster, now, every)


def _format_instances(cluster: ClusterStatus, now: float) -> Iterator[str]:
    rows = []
    for name, item in cluster.instances.items():
        groups = [group for group, owner in cluster.owners.items() if owner == name]
        state = "" if item.get("ready") is True else "has no description yet"
        rows.append([name, _format_text(item.get("version")), _format_age(item.get("since"), now),
                     f"{len(groups)}", state])
    yield from _format_table(("instance", "version", "runs for", "groups", ""), rows, right=(3,))


def _format_group(cluster: ClusterStatus, status: GroupStatus, now: float,
                  every: bool) -> Iterator[str]:
    kind = f"level {status.level} aggregators" if status.role == AGGREGATOR else "samplers"
    owner = cluster.owners.get(status.group)
    if not status.time and not status.rows:
        yield (f"{kind} {cut(status.group, _LONGEST_NAME)}: {status.daemons:,} daemon"
               f"{'s' * (status.daemons != 1)}, "
               + (f"by {owner}, which has not reported on them yet" if owner else
                  "no instance owns them yet"))
        return
    parts = [f"{status.count(UP):,} of {status.daemons:,} up"]
    if owner is None:
        parts.append(f"no owner, as of {format_time(status.time, now)}")
    elif now - status.time > STALE_S:
        parts.append(f"no report from {owner} for {describe_duration(now - status.time)}, or its "
                     f"clock is behind")
    elif status.time - now > AHEAD_S:
        parts.append(f"by {owner}, whose clock is {describe_duration(status.time - now)} ahead of "
                     f"this host's")
    else:
        parts.append(f"by {owner}, {describe_duration(compute_age(status, now))} ago")
    wrong = sum(row.state == UP and not row.as_described for row in status.rows)
    if wrong:
        parts.append(f"{wrong:,} not as described")
    leaving = sum(row.state == UP and row.as_described and bool(row.wrong) for row in status.rows)
    if leaving:
        parts.append(f"{leaving:,} partly stopped")
    revision = None if cluster.revision is None else cluster.revision.number
    if status.revision is not None and revision is not None and status.revision != revision:
        parts.append(f"still description {status.revision}")
    yield f"{kind} {cut(status.group, _LONGEST_NAME)}: {', '.join(parts)}"
    if status.role == AGGREGATOR:
        yield from _format_table(
            ("aggregator", "state", "since", "restarts", "producers", "connected", "sets", "load",
             ""), [[row.name, *_format_state(row, now), _format_number(row.producers),
                    _format_number(row.connected),
                    _format_number(row.sets), "-" if row.load is None else f"{row.load:.2f}",
                    _explain_row(row)]
                   for row in status.rows], right=(3, 4, 5, 6, 7))
    elif status.rows:
        shown = status.rows if every else status.rows[:MOST_SAMPLERS]
        yield from _format_table(("sampler", "state", "since", "restarts", ""),
                                 [[row.name, *_format_state(row, now), _explain_row(row)] for row
                                  in shown], right=(3,))
        left = len(status.rows) - len(shown) + status.unlisted
        if left:
            yield f"  and {left:,} more"


def compute_age(status: GroupStatus, now: float) -> float:
    """Compute the age of the oldest number of a status, in seconds."""
    return max(0.0, now - min(status.time, status.read_at or status.time))


def _format_state(row: DaemonRow, now: float) -> list[str]:
    since = "-" if row.state == UNKNOWN else format_time(row.since, now)
    return [row.state, since, _format_number(row.restarts)]


def _explain_row(row: DaemonRow) -> str:
    if row.state != UP:
        return row.why
    return "; ".join(row.wrong) if row.wrong else "" if row.as_described else "not as described"


def _format_agents(cluster: ClusterStatus, now: float, every: bool) -> Iterator[str]:
    yield "storage servers' agents"
    revision = None if cluster.revision is None else cluster.revision.number
    rows = []
    for host, item in cluster.agents.items():
        rows.append([host, _format_text(item.get("revision")),
                     _format_text(item.get("group") or "site.cfg"),
                     _format_text(item.get("version")), _format_age(item.get("time"), now),
                     _format_text(item.get("problem"), "") or _format_settings(item)])
    # Those that are behind, or have a problem, first.
    order = sorted(range(len(rows)), key=lambda place: (
        not list(cluster.agents.values())[place].get("problem"),
        rows[place][1] == str(revision), rows[place][0]))
    shown = order if every else order[:MOST_AGENTS]
    yield from _format_table(("storage server", "description", "group", "version", "for", ""),
                             [rows[place] for place in shown], right=(1,))
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown):,} more"


def _format_settings(agent: Mapping[str, Any]) -> str:
    """Format an agent's sweep interval and its settings that differ from the defaults."""
    every, settings = agent.get("sweep_every_s"), agent.get("settings")
    result = [f"sweeps every {every} s"] if type(every) is int else []
    for key, value in settings.items() if isinstance(settings, dict) else ():
        option = RUN_TIME_OPTIONS.get(key)
        if option is None or value != option.check(option.default):
            result.append(f"{_format_text(key)} = {_format_text(_join_words(value))}")
    return ", ".join(result)


def _join_words(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _format_table(headers: Sequence[str], rows: Iterable[Sequence[str]],
                  right: Sequence[int] = ()) -> Iterator[str]:
    every = [headers, *rows]
    widths = [max(min(measure_width(row[place]), _LONGEST_NAME) for row in every)
              for place in range(len(headers) - 1)]
    for row in every:
        cells = [pad(cut(cell, width), width, place in right)
                 for place, (cell, width) in enumerate(zip(row, widths))]
        yield "  " + "  ".join([*cells, row[-1]])


def format_time(time: float, now: float) -> str:
    """Format a time, with its date if it is more than 20 hours ago."""
    try:
        at = datetime.fromtimestamp(time)
    except (ValueError, OverflowError, OSError):
        return "-"
    return f"{at:%T}" if -1 < now - time < 72_000 else f"{at:%F %T}"


def _format_age(time: Any, now: float) -> str:
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        return "-"
    return describe_duration(max(0.0, now - time))


def _format_number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _format_text(value: Any, unknown: str = "-") -> str:
    return unknown if value is None or value == "" else sanitize(str(value))[:200]
