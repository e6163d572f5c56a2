"""
One line for each node, as `iostats nodes` shows it.

    a row of `nodes`, the site server's method  ->  cells; and notes on what may be missing

Unknown is "-", a lower bound begins with ">=".  What is known within two bounds has both: a sweep
that begins before the time that is asked for, and ends in it, is in the upper one alone.
"""

from __future__ import annotations

from iostats.base.errors import one_line
from iostats.base.units import between_text
from iostats.load.columns import wrapped
from iostats.report import listing
from iostats.report.listing import AS_FITS, Field, FieldColumn, NumberForm, number_text
from iostats.totals.bounds import mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

_MOST_NAMED = 5                     # nodes that a note names
# What a narrow terminal can do without, the first one first.
_DISPENSABLE = ("ost_operations", "file_systems", "reads", "writes")


def cell(row: dict[str, Any], field: Field, how: NumberForm = AS_FITS) -> str:
    """
    The text of a field of a row.

    >>> from iostats.report.node_fields import TABLE
    >>> row = {"reads": 1234, "at_most": {"reads": 1300}, "lower_bound": False}
    >>> cell(row, TABLE.field_of("Reads", ""))
    '1,234-1,300'
    """
    value = row[field.name]
    if value is None or value == "" or value == []:
        return "-"
    if field.kind == "text":
        return one_line(value)
    if field.kind == "names":
        return one_line(("; " if field.name == "notes" else ",").join(value))
    if field.kind == "yes":
        return "yes" if value else "no"
    text = number_text(value, field.kind, how)
    if not field.bound:
        return text
    most = (row["at_most"] or {}).get(field.name)
    if most is None:
        return mark_of(row["lower_bound"], False) + text
    return between_text(text, number_text(most, field.kind, how))


def cell_of(how: NumberForm) -> Callable[[dict[str, Any], Field], str]:
    """`cell` with numbers in this form."""
    return lambda row, field: cell(row, field, how)


def fitting(rows: Sequence[dict[str, Any]], columns: Sequence[FieldColumn], how: NumberForm,
            room: int) -> tuple[list[FieldColumn], list[str]]:
    """(columns of a table that is up to `room` wide, names of those that were left out for it)."""
    return listing.fitting(rows, columns, cell_of(how), room, _DISPENSABLE)


def notes(rows: Sequence[dict[str, Any]], width: int | None) -> Iterator[str]:
    """Lines on why numbers may be too low, or are not known; each reason once."""
    of: dict[tuple[str, bool], dict[str, None]] = {}
    for row in rows:
        for why in row["notes"]:
            of.setdefault((why, row["lower_bound"]), {})[row["node"]] = None
    for (why, is_low), nodes in of.items():
        named = " ".join(list(nodes)[:_MOST_NAMED])
        more = len(nodes) - _MOST_NAMED
        yield from wrapped(one_line(f"note: {named}{f' and {more} more' if more > 0 else ''}: "
                                    f"{why}{': lower bounds (>=)' if is_low else ''}"), width)
