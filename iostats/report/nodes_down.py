"""
Nodes that are not connected, for `iostats nodes --down`.

    the answer of `events_status`  ->  a row for each node and file system  ->  cells; and notes

A row of the answer is of one target; a node that lost all targets of a file system for one reason
is one row here.  Unknown is "-".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

from iostats.base.errors import sanitize
from iostats.base.units import ISO_TIME, describe_duration, format_duration, format_moment
from iostats.load.columns import wrap_text
from iostats.report.listing import Field, FieldTable, as_number, format_words

if TYPE_CHECKING:
    from iostats.events.status import Recovery, ServerStatus
    from iostats.report.listing import Row


class DownConnection(TypedDict):
    """A node without a connection to a target, or a file system."""

    node: str
    file_system: str
    target: str
    state: str
    why: str
    since: float
    nids: list[str]
    told_by: str


class UnnamedEvictions(TypedDict):
    """Evictions of clients whose names are not known."""

    time: float
    file_system: str
    target: str
    count: int
    told_by: str


class DownAnswer(TypedDict):
    """The answer to `events_status`."""

    time: float
    since: float
    down: list[DownConnection]
    down_more: int
    unnamed: list[UnnamedEvictions]
    unnamed_more: int
    servers: list[ServerStatus]


class DownRow(TypedDict):
    """A row of `iostats nodes --down`."""

    node: str
    file_system: str
    targets: list[str]
    since: float
    down_s: float
    state: str
    why: str
    nids: list[str]
    told_by: str

FIELDS = (
    Field("Node", "node", "text", "", "the node; a NID where no name is known"),
    Field("FileSystem", "file_system", "text", "", "of these targets"),
    Field("Targets", "targets", "names", "", "to which it is not connected, or may not be"),
    Field("Since", "since", "time", "", "of the first of them, when it was lost"),
    Field("Down", "down_s", "duration", "", "for how long that is"),
    Field("State", "state", "text", "", "lost: the node reported it; evicted: a storage server "
          "evicted it, and did not report its return; unclear: it may be back"),
    Field("Why", "why", "text", "", "what is known of it"),
    Field("NIDs", "nids", "names", "", "the network addresses in its events"),
    Field("ToldBy", "told_by", "text", "", "the node or storage server that reports it"),
)
DEFAULT = "Node,Targets,Since,Down,State,Why"
TABLE = FieldTable(FIELDS, "iostats nodes --down")
SORTED_BY = ("node", "file_system", "since", "state")
# What a narrow terminal can do without, the first one first.
DISPENSABLE = ("since", "state")
_MOST_NAMED = 5


def make_rows(answer: DownAnswer, apart: bool = False) -> list[DownRow]:
    """Make the rows of an answer in its order: nodes that lost their connection last are first.

    `apart`: one for each target.
    """
    now = answer["time"]
    rows: dict[tuple[str, ...], DownRow] = {}
    for lost in answer["down"]:
        key = (lost["node"], lost["file_system"], lost["state"], lost["why"],
               lost["target"] if apart else "")
        row = rows.get(key)
        if row is None:
            row = rows[key] = {
                "node": lost["node"], "file_system": lost["file_system"], "targets": [],
                "since": lost["since"], "down_s": 0.0, "state": lost["state"], "why": lost["why"],
                "nids": [], "told_by": lost["told_by"]}
        row["targets"] += [lost["target"]] if lost["target"] else []
        row["nids"] += [nid for nid in lost["nids"] if nid not in row["nids"]]
        row["since"] = min(row["since"], lost["since"])
        row["down_s"] = max(0.0, now - row["since"])
    return list(rows.values())


def format_cell(row: Row, field: Field) -> str:
    """The text of a field of a row, for people."""
    value = row[field.name]
    if field.name == "targets" and isinstance(value, list) and len(value) > 1:
        return sanitize(f"{len(value)} of {row['file_system']}")
    return format_exact_cell(row, field)


def format_exact_cell(row: Row, field: Field) -> str:
    """Format a field of a row with all names, for programs."""
    value = row[field.name]
    words = format_words(value, field.kind)
    return format_duration(as_number(value)) if words is None else words


def list_notes(answer: DownAnswer, width: int | None) -> Iterator[str]:
    """
    Yield lines on rows outside the table: nameless clients, targets, agents without reports.
    """
    for lost in answer["unnamed"][:_MOST_NAMED]:
        at = format_moment(lost["time"], ISO_TIME)
        yield from _wrap_note(f"{lost['told_by']} evicted {lost['count']:,} more clients from "
                              f"{lost['target'] or lost['file_system'] or 'its targets'} at {at} "
                              f"without "
                              f"naming them", width)
    more = len(answer["unnamed"]) - _MOST_NAMED
    more = max(0, more) + answer["unnamed_more"]
    if more:
        yield from _wrap_note(
            f"{more:,} more evictions without names: iostats events --kind evicted",
            width)
    if answer["down_more"]:
        yield from _wrap_note(
            f"{answer['down_more']:,} more connections are not there, or may not be",
            width)
    for server in answer["servers"]:
        if server["late"]:
            at = format_moment(server["heard"], ISO_TIME)
            yield from _wrap_note(
                f"the agent of {server['node']} has not reported since {at}: its "
                f"reports are missing", width)
        if server["health"] not in ("", "healthy"):
            yield from _wrap_note(
                f"{server['node']}: health_check reports {server['health']}", width)
        age_s = answer["time"] - server.get("made", answer["time"])
        down = [f"{name} is {about['state']}{_describe_progress(about.get('recovery'), age_s)}"
                for name, about in sorted(server["targets"].items()) if about["state"] != "up"]
        if down:
            yield from _wrap_note(f"{server['node']}: {', '.join(down[:_MOST_NAMED])}"
                                  + (f" and {len(down) - _MOST_NAMED} more"
                                     if len(down) > _MOST_NAMED else ""), width)
        log = server["log"]
        if log.get("source") == "none":
            yield from _wrap_note(f"{server['node']}: its kernel's log is not read "
                                  f"({log.get('why') or 'unknown'}): evictions there may be "
                                  f"missing",
                                  width)


def _describe_progress(recovery: Recovery | None, age_s: float) -> str:
    """Describe a recovery: its clients `age_s` ago, and the time that is left now."""
    if recovery is None:
        return ""
    left_s = max(0.0, recovery["left_s"] - age_s)
    return (f" ({recovery['clients']:,} of {recovery['of']:,} clients are back, up to "
            f"{describe_duration(left_s)} left)")


def _wrap_note(text: str, width: int | None) -> Sequence[str]:
    return wrap_text(sanitize(f"note: {text}"), width)
