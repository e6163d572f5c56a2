"""
What went wrong while a job ran, for people: that data was lost, first of all; and a table.

Only what is known is said: an eviction throws away what a node had written and not yet sent, and
whether there was something is known where the node tells of it.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.units import count_text, duration_text, moment_text
from iostats.events.kinds import INFO
from iostats.lustre.kernel_log import CONNECTION_LOST
from iostats.lustre.system_log import OUT_OF_MEMORY
from iostats.report.text_table import table
from iostats.totals.job_events import EVICTED, LOST, MAY_BE, importance

TYPE_CHECKING = False
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

EventRow = namedtuple("EventRow", "time nodes where what how_long severity data message")
EventRow.__doc__ = """
What happened to the same nodes, or targets, together.

Attributes:
    time: "2026-11-22 12:03:11", local; "-" where it cannot be told.
    nodes, where, what, how_long: as in the table of events.
    severity: 0 info to 3 fatal, of the worst.
    data: "", or what became of data: job_events.LOST, MAY_BE.
    message: of the kernel, or "".
"""


def about_data(record: Record) -> list[str]:
    """A line where the job lost data, or may have; [] for all others."""
    for fate, head in ((LOST, "DATA LOST"), (MAY_BE, "DATA MAY BE LOST")):
        found = [one for one in record.events or () if one.data == fate]
        if found:
            first, more = found[0], len(found) - 1
            return [f"{head}: {_sentence(first)}"
                    + (f"; and {count_text(more, 'more such event')}, see below"
                       if more else "")]
    return []


def _sentence(one: JobEvent) -> str:
    at = f"at {_local(one.time)}"
    if one.kind == EVICTED:
        were = "was" if one.node_count == 1 else "were"
        return (f"{one.nodes} {were} evicted by {one.target or one.file_system} {at}; any data "
                f"written there but not yet sent was discarded")
    where = f" of {one.file_system}" if one.file_system else ""
    return (f"{one.nodes} discarded unsent data{where} {at}"
            + ("" if one.data == LOST else "; it may be another job's")
            + (f" ({one.message})" if one.message else ""))


def lines(record: Record, labels: dict[str, str], screen: Screen,
          long: bool) -> list[str]:
    """The table of events, with what is not in it; [] for a job without any."""
    if not record.events and not record.events_more:
        return []
    groups = _grouped(record.events or ())
    shown = groups if long else [
        one for one in groups if one[0].severity > INFO
        and not any(_is_part_of(one, other) for other in groups)][:MOST_SHOWN]
    shown = sorted(shown, key=lambda group: group[0].time)
    parts = ["Events during this job:"]
    if shown:
        days = {_local(group[0].time)[:10] for group in shown} | {_local(record.job.started)[:10]}
        parts.append(table(("Time", "Node", "Target", "What", "For"),
                           [(_local(group[0].time)[5 if len(days) > 1 else 11:] or "-",
                             *_row(group, labels)) for group in shown], screen,
                           ("left", "left", "left", "left", "right")))
    hidden = sum(map(len, groups)) - sum(map(len, shown))
    if hidden:
        parts.append(f"{'and ' if shown else ''}{hidden} {'more' if shown else 'for information'} "
                     f"(--long shows {'all' if hidden > 1 else 'it'})")
    if record.events_more:
        parts.append(f"and {record.events_more:,} more, which are only counted")
    for event in [one for group in shown for one in group if one.kind == OUT_OF_MEMORY]:
        killed = event.message.partition(", out of memory")[0] or "killed a process"
        parts.append(f"the kernel {killed} on {event.nodes}, out of memory, "
                     f"{_local(event.time)[11:]}")
    if any(group[0].kind == EVICTED and group[0].nodes for group in shown):
        parts.append("note: an eviction fails all operations in progress at that target")
    if any(not group[0].is_certain for group in shown):
        parts.append(f"note: {_UNKNOWN}: it is not known whether this job's nodes were hit")
    return parts


def rows(record: Record, labels: dict[str, str]) -> list[EventRow]:
    """All events of a record, those of the same nodes or targets together; worst first."""
    found = []
    for group in _grouped(record.events or ()):
        nodes, where, what, how_long = _row(group, labels)
        found.append(EventRow(
            _local(group[0].time) or "-", nodes, where, what, how_long,
            max(one.severity for one in group), group[0].data,
            next((one.message for one in group if one.message), "")))
    return found


def _grouped(events: Iterable[JobEvent]) -> list[list[JobEvent]]:
    """[[JobEvent]] with what happened to the same nodes at several targets together."""
    open_ones: dict[tuple[Any, ...], list[JobEvent]] = {}
    found: list[list[JobEvent]] = []
    for one in sorted(events, key=lambda one: (one.time, importance(one))):
        key = one.kind, one.cause, one.nodes, one.file_system, one.data, one.is_certain
        group = open_ones.get(key)
        if group is None or one.time > group[0].time + _TOGETHER_S:
            group = open_ones[key] = []
            found.append(group)
        group.append(one)
    return sorted(found, key=lambda group: importance(group[0]))


def _is_part_of(group: Sequence[JobEvent], other: Sequence[JobEvent]) -> bool:
    """Whether a connection was lost by an eviction, or before it and until then."""
    lost, evicted = group[0], other[0]
    over = lost.time if lost.over is None else lost.over
    return (lost.kind == CONNECTION_LOST and evicted.kind == EVICTED
            and lost.nodes == evicted.nodes
            and {one.target for one in group} <= {one.target for one in other}
            and lost.time - _CLOCKS_S <= evicted.time <= over + _CLOCKS_S)


def _row(group: Sequence[JobEvent], labels: dict[str, str]) -> tuple[str, ...]:
    first = group[0]
    label = labels.get(first.file_system, first.file_system)
    targets = {one.target for one in group}
    kinds = {target.rpartition("-")[2][:3] for target in targets}
    kind = f"{min(kinds)}s" if kinds in ({"OST"}, {"MDT"}) else "targets"
    where = f"{label}, {len(targets)} {kind}" if len(targets) > 1 else first.target or label or "-"
    nodes = first.nodes if first.nodes else "all" if first.is_certain else _UNKNOWN
    return nodes, where, _what(group), _how_long(group)


def _what(group: Sequence[JobEvent]) -> str:
    first = group[0]
    text = _WORDS.get(first.kind, first.kind.replace("_", " "))
    if first.kind == EVICTED:
        if not first.nodes and first.clients:
            return f"{max(one.clients or 0 for one in group):,} evicted"
        text += _BY_CAUSE.get(first.cause, "")
    # Of one node at one target, or of one target: else it is the number of these.
    often = max(one.count // max(1, one.node_count) for one in group)
    return text + (f", {often:,} times" if often > 1 and (first.nodes or not first.clients)
                   else "")


def _how_long(group: Sequence[JobEvent]) -> str:
    known = [one.longest_s for one in group if one.longest_s is not None]
    if not known:
        return "-"
    all_known = all(one.over is not None for one in group)
    several = len(group) > 1 or group[0].node_count > 1 or group[0].count > 1
    longest = max(known)
    text = f"{longest:.0f} s" if longest < 120 else duration_text(longest)
    if longest < 1:                     # a client's history has whole seconds
        return "-" if not all_known else "< 1 s"
    return ("" if all_known and not several else "<= " if all_known else ">= ") + text


def _local(seconds: float | None) -> str:
    """2026-11-22 12:03:11; "" for a moment that is not known, or cannot be."""
    return moment_text(seconds, unknown="")


def count_of(record: Record) -> int | None:
    """How many events hit a job, warnings and worse; None where nothing has looked for any."""
    return None if record.events is None else record.events_more + sum(
        one.severity > INFO and one.is_certain for one in record.events)


def data_of(record: Record) -> str:
    """What became of data that a job had written: LOST, MAY_BE, or ""."""
    fates = {one.data for one in record.events or ()}
    return LOST if LOST in fates else MAY_BE if MAY_BE in fates else ""


def total(records: Sequence[Record], kind: str) -> list[str]:
    """What the events of an array's tasks, or a job's components (`kind`), come to."""
    hit = [record for record in records if count_of(record)]
    if not hit:
        return []
    lost = [sum(data_of(record) == fate for record in records) for fate in (LOST, MAY_BE)]
    also = [f"{count} {words}" for count, words in zip(lost, ("lost data", "may have lost data"))
            if count]
    return [f"Events: during {len(hit)} of these {kind}" + (f"; {', '.join(also)}" if also else "")]
