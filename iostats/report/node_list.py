"""
One line for each node, as `iostats nodes` shows it.

    a row of `nodes`, the site server's method  ->  cells; and notes on what may be missing

Unknown is "-", a lower bound begins with ">=".  What is known within two bounds has both: a sweep
that begins before the time that is asked for, and ends in it, is in the upper one alone.

FIELDS has the columns, with their names and meanings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.units import format_bounds
from iostats.load.amounts import CLIENT_METRICS
from iostats.load.columns import wrap_text
from iostats.report.listing import (
    AS_FITS,
    Field,
    FieldTable,
    NumberForm,
    as_number,
    format_number,
    format_words,
)
from iostats.totals.bounds import get_mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Optional, TypedDict

    from iostats.report.listing import Cell, Row

    class NodesQuery(TypedDict, total=False):
        """The params of `nodes`, the site server's method."""

        since: float
        until: Optional[float]
        nodes: list[str]
        file_system: str
        apart: bool
        sort: str
        descending: bool
        count: int
        after: int

    class ListedNode(TypedDict, total=False):
        """A row of its answer: members that code reads by name."""

        node: str
        file_systems: list[str]
        lower_bound: bool
        notes: list[str]

    class ListedNodes(TypedDict):
        """The answer of `nodes`; `count`: of all rows, `next`: `after` of the next part."""

        since: float
        until: float
        swept: float
        nodes: list[ListedNode]
        count: int
        next: Optional[int]

REQUESTS = "requests"
METRICS = (*CLIENT_METRICS, REQUESTS)
SORTED_BY = ("node", "file_systems", *METRICS)
MOST_ROWS = 5_000                   # in one answer
MOST_NODES = 10_000                 # in one question


def _make_counter_field(column: str, name: str, kind: str, help: str) -> Field:
    return Field(column, name, kind, "lower_bound", help)


FIELDS = (
    Field("Node", "node", "text", "", "the node; a NID where no name is known"),
    Field("FileSystems", "file_systems", "names", "", "on which it did this"),
    _make_counter_field("ReadBytes", "read_bytes", "bytes", "that it got from storage servers"),
    _make_counter_field("WriteBytes", "write_bytes", "bytes", "that it sent to storage servers"),
    _make_counter_field("Reads", "reads", "count", "requests that read"),
    _make_counter_field("Writes", "writes", "count", "requests that wrote"),
    _make_counter_field("OSTOps", "ost_operations", "count",
                        "other requests to OSTs: sync, punch ..."),
    _make_counter_field("MDTOps", "mdt_operations", "count",
                        "other requests to MDTs: open, getattr ..."),
    _make_counter_field("Requests", REQUESTS, "count", "the four before together"),
    Field("NIDs", "nids", "names", "", "the network addresses that it is known by, up to 20"),
    Field("NNIDs", "nid_count", "count", "", "how many these are"),
    Field("Waiting", "lnet_waiting", "count", "",
          "LNet messages that wait on storage servers, as it has too few credits, now"),
    Field("MinCredits", "lnet_lowest", "count", "",
          "its fewest LNet credits on one of them so far, if it had too few"),
    Field("LowerBound", "lower_bound", "yes", "", "some of it may not have been counted"),
    Field("Note", "notes", "names", "", "why not"),
)
DEFAULT = "Node,ReadBytes,WriteBytes,Reads,Writes,OSTOps,MDTOps"
DEFAULT_APART = "Node,FileSystems,ReadBytes,WriteBytes,Reads,Writes,OSTOps,MDTOps"
TABLE = FieldTable(FIELDS, "iostats nodes")
NAMES = TABLE.names                 # what a row of the site's server has


_MOST_NAMED = 5                     # nodes that a note names
# What a narrow terminal can do without, the first one first.
DISPENSABLE = ("ost_operations", "file_systems", "reads", "writes")


def format_cell(row: Row, field: Field, how: NumberForm = AS_FITS) -> str:
    """
    The text of a field of a row.

    >>> row = {"reads": 1234, "at_most": {"reads": 1300}, "lower_bound": False}
    >>> format_cell(row, TABLE.find_field("Reads", ""))
    '1,234-1,300'
    """
    value = row[field.name]
    if field.name == "notes" and isinstance(value, list) and value:
        return sanitize("; ".join(map(str, value)))
    words = format_words(value, field.kind)
    if words is not None:
        return words
    text = format_number(as_number(value), field.kind, how)
    if not field.bound:
        return text
    at_most = row["at_most"]
    highest: int | None = at_most.get(field.name) if isinstance(at_most, dict) else None
    if highest is None:
        return get_mark(bool(row["lower_bound"]), False) + text
    return format_bounds(text, format_number(highest, field.kind, how))


def make_formatter(how: NumberForm) -> Cell:
    """Return `format_cell` with numbers in this form."""
    return lambda row, field: format_cell(row, field, how)


def list_notes(rows: Sequence[ListedNode], width: int | None) -> Iterator[str]:
    """Lines on why numbers may be too low, or are not known; each reason once."""
    of: dict[tuple[str, bool], dict[str, None]] = {}
    for row in rows:
        for why in row["notes"]:
            of.setdefault((why, row["lower_bound"]), {})[row["node"]] = None
    for (why, is_low), nodes in of.items():
        named = ", ".join(list(nodes)[:_MOST_NAMED])
        more = len(nodes) - _MOST_NAMED
        of_all = len(nodes) == len({row["node"] for row in rows}) > 1
        affected = "all nodes" if of_all else f"{named}{f' and {more} more' if more > 0 else ''}"
        yield from wrap_text(sanitize(
            f"note: {why}: lower bounds (>=) of {affected}" if is_low else
            f"note: {affected}: {why}"), width)
