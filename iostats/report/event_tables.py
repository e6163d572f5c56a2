"""
Events during a job, for people: lost data first of all; and a table.

Only proven losses are reported: an eviction discards data that a node had written and not yet sent,
and whether there was any is known only if the node reports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_count, format_duration, format_moment
from iostats.events.kinds import INFO
from iostats.lustre.kernel_log import CONNECTION_LOST
from iostats.lustre.system_log import OUT_OF_MEMORY
from iostats.report.text_table import format_table
from iostats.totals.job_events import EVICTED, LOST, MAY_BE, rank_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iostats.report.screen import Screen
    from iostats.totals.record import JobEvent, Record

MOST_SHOWN = 5                      # without --long
_CLOCKS_S = 5.0                     # by which those of two machines may differ
_TOGETHER_S = 60.0                  # the same at several targets, from the first one on
_UNKNOWN = "?"
_WORDS = {
    "connection_restored": "connected again", "client_reconnecting": "connected again",
    "recovery": "in recovery", "lock_timeout": "lock not granted in time",
    "timeouts": "requests timed out", "data_lost": "unsent data discarded", "lbug": "LBUG",
    "other": "other error", "out_of_memory": "process killed, out of memory",
    "link_down": "network link down", "hung_task": "Lustre thread hung",
    "backend_error": "target's file system damaged", "read_only": "target is read-only",
    "log_lost": "kernel log not complete",
    "events_dropped": "events only counted"}
_BY_CAUSE = {"silent": ": no ping", "lock": ": lock timeout", "administrator": " by an admin",
             "recovery": " in recovery"}


class EventRow(NamedTuple):
    """One row: events that hit the same nodes, or targets, together."""

    time: str       # "2026-11-22 12:03:11", local; "-" if unknown
    # nodes, where, what, how_long: as in the table of events
    nodes: str
    where: str
    what: str
    how_long: str
    severity: int   # 0 info to 3 fatal, of the worst
    data: str       # "", or what became of data: job_events.LOST, MAY_BE
    message: str    # of the kernel, or ""


def list_data_losses(record: Record) -> list[str]:
    """A line where the job lost data, or may have; [] for all others."""
    for fate, head in ((LOST, "DATA LOST"), (MAY_BE, "DATA MAY BE LOST")):
        events = [event for event in record.events or () if event.data == fate]
        if events:
            first, more = events[0], len(events) - 1
            return [f"{head}: {_describe_loss(first)}"
                    + (f"; and {format_count(more, 'more such event')}, see below"
                       if more else "")]
    return []


def _describe_loss(event: JobEvent) -> str:
    at = f"at {_format_local_time(event.time)}"
    if event.kind == EVICTED:
        were = "was" if event.node_count == 1 else "were"
        return (
            f"{event.nodes} {were} evicted by {event.target or event.file_system} {at}; any data "
            f"written there but not yet sent was discarded")
    where = f" of {event.file_system}" if event.file_system else ""
    return (f"{event.nodes} discarded unsent data{where} {at}"
            + ("" if event.data == LOST else "; it may be another job's")
            + (f" ({event.message})" if event.message else ""))


def format_lines(record: Record, labels: dict[str, str], screen: Screen,
                 long: bool) -> list[str]:
    """The table of events, with a note on omitted ones; [] for a job without events."""
    if not record.events and not record.events_more:
        return []
    groups = _group_events(record.events or ())
    shown = groups if long else [
        group for group in groups if group[0].severity > INFO
        and not any(_is_part_of(group, eviction) for eviction in groups)][:MOST_SHOWN]
    shown = sorted(shown, key=lambda group: group[0].time)
    parts = ["Events during this job:"]
    if shown:
        days = {_format_local_time(group[0].time)[:10]
                for group in shown} | {_format_local_time(record.job.started)[:10]}
        parts.append(format_table(("Time", "Node", "Target", "What", "For"),
                                  [(_format_local_time(group[0].time)[5 if len(days) > 1 else 11:]
                                    or "-",
                                    *_make_row(group, labels)) for group in shown], screen,
                                  ("left", "left", "left", "left", "right")))
    hidden = sum(map(len, groups)) - sum(map(len, shown))
    if hidden:
        parts.append(f"{'and ' if shown else ''}{hidden} {'more' if shown else 'for information'} "
                     f"(--long shows {'all' if hidden > 1 else 'it'})")
    if record.events_more:
        parts.append(f"and {record.events_more:,} more, which are only counted")
    for event in [event for group in shown for event in group if event.kind == OUT_OF_MEMORY]:
        killed = event.message.partition(", out of memory")[0] or "killed a process"
        parts.append(f"the kernel {killed} on {event.nodes}, out of memory, "
                     f"{_format_local_time(event.time)[11:]}")
    if any(group[0].kind == EVICTED and group[0].nodes for group in shown):
        parts.append("note: an eviction fails all operations in progress at that target")
    if any(not group[0].is_certain for group in shown):
        parts.append(f"note: {_UNKNOWN}: whether they hit this job's nodes is unknown")
    return parts


def make_rows(record: Record, labels: dict[str, str]) -> list[EventRow]:
    """All events of a record, those of the same nodes or targets together; worst first."""
    rows = []
    for group in _group_events(record.events or ()):
        nodes, where, text, how_long = _make_row(group, labels)
        rows.append(EventRow(
            _format_local_time(group[0].time) or "-", nodes, where, text, how_long,
            max(event.severity for event in group), group[0].data,
            next((event.message for event in group if event.message), "")))
    return rows


def _group_events(events: Iterable[JobEvent]) -> list[list[JobEvent]]:
    """Group events of the same kind that hit the same nodes at several targets."""
    open_ones: dict[tuple[Any, ...], list[JobEvent]] = {}
    groups: list[list[JobEvent]] = []
    for event in sorted(events, key=lambda event: (event.time, rank_event(event))):
        key = event.kind, event.cause, event.nodes, event.file_system, event.data, event.is_certain
        group = open_ones.get(key)
        if group is None or event.time > group[0].time + _TOGETHER_S:
            group = open_ones[key] = []
            groups.append(group)
        group.append(event)
    return sorted(groups, key=lambda group: rank_event(group[0]))


def _is_part_of(group: Sequence[JobEvent], eviction_group: Sequence[JobEvent]) -> bool:
    """Whether a lost connection belongs to an eviction."""
    lost, evicted = group[0], eviction_group[0]
    over = lost.time if lost.over is None else lost.over
    return (lost.kind == CONNECTION_LOST and evicted.kind == EVICTED
            and lost.nodes == evicted.nodes
            and {event.target for event in group} <= {event.target for event in eviction_group}
            and lost.time - _CLOCKS_S <= evicted.time <= over + _CLOCKS_S)


def _make_row(group: Sequence[JobEvent], labels: dict[str, str]) -> tuple[str, ...]:
    first = group[0]
    label = labels.get(first.file_system, first.file_system)
    targets = {event.target for event in group}
    kinds = {target.rpartition("-")[2][:3] for target in targets}
    kind = f"{min(kinds)}s" if kinds in ({"OST"}, {"MDT"}) else "targets"
    where = f"{label}, {len(targets)} {kind}" if len(targets) > 1 else first.target or label or "-"
    nodes = first.nodes if first.nodes else "all" if first.is_certain else _UNKNOWN
    return nodes, where, _describe_kind(group), _format_duration(group)


def _describe_kind(group: Sequence[JobEvent]) -> str:
    first = group[0]
    text = _WORDS.get(first.kind, first.kind.replace("_", " "))
    if first.kind == EVICTED:
        if not first.nodes and first.clients:
            return f"{max(event.clients or 0 for event in group):,} evicted"
        text += _BY_CAUSE.get(first.cause, "")
    # Of one node at one target, or of one target: else it is the number of these.
    often = max(event.count // max(1, event.node_count) for event in group)
    return text + (f", {often:,} times" if often > 1 and (first.nodes or not first.clients)
                   else "")


def _format_duration(group: Sequence[JobEvent]) -> str:
    durations = [event.longest_s for event in group if event.longest_s is not None]
    if not durations:
        return "-"
    all_known = all(event.over is not None for event in group)
    several = len(group) > 1 or group[0].node_count > 1 or group[0].count > 1
    longest = max(durations)
    text = f"{longest:.0f} s" if longest < 120 else format_duration(longest)
    if longest < 1:                     # a client's history has whole seconds
        return "-" if not all_known else "< 1 s"
    return ("" if all_known and not several else "<= " if all_known else ">= ") + text


def _format_local_time(seconds: float | None) -> str:
    """2026-11-22 12:03:11; "" for a moment that is not known, or cannot be."""
    return format_moment(seconds, unknown="")


def count_events(record: Record) -> int | None:
    """Count the events of a job, warnings and worse; None if no source was read."""
    return None if record.events is None else record.events_more + sum(
        event.severity > INFO and event.is_certain for event in record.events)


def find_data_loss(record: Record) -> str:
    """Return whether data that the job wrote was LOST, MAY_BE lost, or ""."""
    fates = {event.data for event in record.events or ()}
    return LOST if LOST in fates else MAY_BE if MAY_BE in fates else ""


def format_totals(records: Sequence[Record], kind: str) -> list[str]:
    """Sum up the events of an array's tasks, or of a job's components (`kind`)."""
    hit = [record for record in records if count_events(record)]
    if not hit:
        return []
    lost = [sum(find_data_loss(record) == fate for record in records) for fate in (LOST, MAY_BE)]
    also = [f"{count} {words}" for count, words in zip(lost, ("lost data", "may have lost data"))
            if count]
    return [f"Events: during {len(hit):,} of these {kind}"
            + (f"; {', '.join(also)}" if also else "")]
