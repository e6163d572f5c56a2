"""
Which nodes are not connected, as `iostats nodes --down` shows it.

    the answer of `events_status`  ->  a row for each node and file system  ->  cells; and notes

A row of the answer is of one target; a node that lost all targets of a file system for one reason
is one row here.  Unknown is "-".
"""

from __future__ import annotations

from iostats.base.errors import one_line
from iostats.base.units import ISO_TIME, duration_text, moment_text
from iostats.load.columns import wrapped
from iostats.report.listing import Field, FieldTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

FIELDS = (
    Field("Node", "node", "text", "", "the node; a NID where no name is known"),
    Field("FileSystem", "file_system", "text", "", "of these targets"),
    Field("Targets", "targets", "names", "", "to which it is not connected, or may not be"),
    Field("Since", "since", "time", "", "of the first of them, when it was lost"),
    Field("Down", "down_s", "duration", "", "for how long that is"),
    Field("State", "state", "text", "", "lost: the node says so; evicted: a storage server evicted "
          "it, and nothing was heard of its return; unclear: it may be back"),
    Field("Why", "why", "text", "", "what is known of it"),
    Field("NIDs", "nids", "names", "", "the network addresses by which it was told of"),
    Field("ToldBy", "told_by", "text", "", "the node or storage server that says so"),
)
DEFAULT = "Node,Targets,Since,Down,State,Why"
TABLE = FieldTable(FIELDS, "iostats nodes --down")
SORTED_BY = ("node", "file_system", "since", "state")
# What a narrow terminal can do without, the first one first.
DISPENSABLE = ("since", "state")
_MOST_NAMED = 5


def rows_of(answer: dict[str, Any], apart: bool = False) -> list[dict[str, Any]]:
    """
    The rows of an answer, in its order: nodes that were lost last come first.

    `apart`: one for each target.
    """
    now = answer["time"]
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in answer["down"]:
        key = (one["node"], one["file_system"], one["state"], one["why"],
               one["target"] if apart else "")
        row = found.get(key)
        if row is None:
            row = found[key] = {
                "node": one["node"], "file_system": one["file_system"], "targets": [],
                "since": one["since"], "down_s": 0.0, "state": one["state"], "why": one["why"],
                "nids": [], "told_by": one["told_by"]}
        row["targets"] += [one["target"]] if one["target"] else []
        row["nids"] += [nid for nid in one["nids"] if nid not in row["nids"]]
        row["since"] = min(row["since"], one["since"])
        row["down_s"] = max(0.0, now - row["since"])
    return list(found.values())


def cell(row: dict[str, Any], field: Field) -> str:
    """The text of a field of a row, for people."""
    value = row[field.name]
    if field.name == "targets" and len(value) > 1:
        return one_line(f"{len(value)} of {row['file_system']}")
    return exact_cell(row, field)


def exact_cell(row: dict[str, Any], field: Field) -> str:
    """The same, with all names."""
    value = row[field.name]
    if value in (None, "", []):
        return "-"
    if field.kind == "names":
        return one_line(",".join(value))
    if field.kind == "time":
        return moment_text(value, ISO_TIME)
    if field.kind == "duration":
        return duration_text(value)
    return one_line(value)


def notes(answer: dict[str, Any], width: int | None) -> Iterator[str]:
    """Lines on what is not in the table: clients without names, targets, agents not heard."""
    for one in answer["unnamed"][:_MOST_NAMED]:
        at = moment_text(one["time"], ISO_TIME)
        yield from _note(f"{one['told_by']} evicted {one['count']:,} more clients from "
                         f"{one['target'] or one['file_system'] or 'its targets'} at {at} without "
                         f"naming them", width)
    more = len(answer["unnamed"]) - _MOST_NAMED
    more = max(0, more) + answer["unnamed_more"]
    if more:
        yield from _note(f"{more:,} more evictions without names: iostats events --kind evicted",
                         width)
    if answer["down_more"]:
        yield from _note(f"{answer['down_more']:,} more connections are not there, or may not be",
                         width)
    for server in answer["servers"]:
        if server["late"]:
            at = moment_text(server["heard"], ISO_TIME)
            yield from _note(f"the agent of {server['node']} was not heard since {at}: what it "
                             f"would tell is missing", width)
        if server["health"] not in ("", "healthy"):
            yield from _note(f"{server['node']}: health_check says {server['health']}", width)
        down = [f"{name} is {about['state']}" for name, about in sorted(server["targets"].items())
                if about["state"] != "up"]
        if down:
            yield from _note(f"{server['node']}: {', '.join(down[:_MOST_NAMED])}"
                             + (f" and {len(down) - _MOST_NAMED} more"
                                if len(down) > _MOST_NAMED else ""), width)
        log = server["log"]
        if log.get("source") == "none":
            yield from _note(f"{server['node']}: its kernel's log is not read "
                             f"({log.get('why') or 'unknown'}): evictions there may be missing",
                             width)


def _note(text: str, width: int | None) -> Sequence[str]:
    return wrapped(one_line(f"note: {text}"), width)
