"""
One line for each job, as `iostats jobs` shows it.

    Summary (job_summary)  ->  a row of `jobs`, the site server's method: {name of a field: value}
    row                    ->  cells, in the habits of sacct(1): -o NAME%WIDTH, -p, -P, --units,
                               --noconvert

Unknown is "-", a lower bound begins with ">=".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Optional, TypedDict

from iostats.base.errors import sanitize
from iostats.base.units import ISO_TIME, format_bounds, format_moment
from iostats.report import listing
from iostats.report.job_fields import (
    BY_NODE,
    EXPORTS,
    NODES,
    OF_PROGRAMS,
    SERVERS,
    TABLE,
    ListedJob,
)
from iostats.report.listing import (
    AS_FITS,
    Field,
    FieldColumn,
    NumberForm,
    as_number,
    format_number,
    format_words,
)
from iostats.totals.bounds import get_mark

parse_columns = TABLE.parse_columns


class WaitingJob(TypedDict):
    """A row of the answer to `waiting`: a job with reports of some nodes."""

    job: str
    attempt: int
    user: str
    reported: int
    nodes: Optional[int]
    missing: list[str]
    missing_count: int
    until: float


def format_cell(row: ListedJob, field: Field, how: NumberForm = AS_FITS) -> str:
    """The text of a field of a row."""
    if field.kind == "note":
        return format_note(row)
    value = row.get(field.name)
    if field.name in BY_NODE and row["source"] == EXPORTS:
        return _format_range(row, field, how)
    if field.kind == "time" and value is not None:
        return _format_time(as_number(value))
    words = format_words(value, field.kind)
    if words is not None:
        return words
    number = as_number(value)
    if field.kind == "duration":
        return ("~" if _is_time_of_sweeps(row) else "") + _format_duration(number)
    return _find_mark(row, field) + format_number(number, field.kind, how)


def _format_range(row: ListedJob, field: Field, how: NumberForm) -> str:
    """Format the two bounds of a number by the job's nodes: "1.2-1.4 TiB"."""
    low, high = (row.get(f"by_node_{field.name}{end}") for end in ("", "_max"))
    first = format_number(as_number(low), field.kind, how)
    return f">= {first}" if high is None else format_bounds(
        first, format_number(as_number(high), field.kind, how))


def format_note(row: ListedJob) -> str:
    """
    Why a row's numbers are not all of the job's, or not the job's alone; "" where they are.

        3 of 4 nodes; 2 shared; storage servers only; not final; >= gaps in the harvest; by node
    """
    remarks = []
    if row["source"] == NODES and row["nodes"] is not None and row["reported"] < row["nodes"]:
        remarks.append(f"{row['reported']} of {row['nodes']} nodes")
    elif row["source"] == NODES and row["nodes"] is None:
        remarks.append(f"{row['reported']} of ? nodes")
    if row["shared"]:
        remarks.append(f"{row['shared']} shared")
    if row["source"] == SERVERS:
        remarks.append("storage servers only")
    elif row["source"] == EXPORTS:
        remarks.append("by node")
    elif not row["source"]:
        remarks.append("no report")
        if row.get("by_node_why"):
            remarks.append(sanitize(row["by_node_why"]))
    if not row["final"]:
        remarks.append("not final")
    elif row["source"] == SERVERS and row["lower_bound"]:
        remarks.append(">= gaps in the harvest")
    if row["lower_bound"] and "operations" not in _find_lower_bounds(row):
        remarks.append("not all bytes counted")
    if row.get("data_lost"):
        remarks.append(f"data {row['data_lost']}")
    elif not set(OF_PROGRAMS).isdisjoint(row.get("too_high") or ()):
        remarks.append("evicted")
    return "; ".join(remarks)


def _find_mark(row: ListedJob, field: Field) -> str:
    """Return the mark of a field: "", ">= ", "<= " or "~ "."""
    if not field.bound:
        return ""
    low = row.get(field.bound)
    if field.bound.endswith("_max"):
        is_low = low is None or as_number(low) > as_number(row.get(field.name))
        return ">= " if is_low else ""
    if field.bound == "too_low":
        low = field.name in (row.get("too_low") or ())
    elif field.bound == "lower_bound":
        low = low and field.name in _find_lower_bounds(row)
    return get_mark(low, field.name in (row.get("too_high") or ()))


def _find_lower_bounds(row: ListedJob) -> Sequence[str]:
    """
    Return the names of the numbers that may be too low; all five if an older server does not send
    them.
    """
    too_low = row.get("too_low")
    return OF_PROGRAMS if too_low is None else too_low


def _is_time_of_sweeps(row: ListedJob) -> bool:
    """Whether its time is from the first to the last sweep that saw it at work."""
    return bool(row["source"] == SERVERS and None in (row["started"], row["ended"]))


def _format_time(seconds: float) -> str:
    return format_moment(seconds, ISO_TIME, f"{seconds:.0f}")


def _format_duration(seconds: float) -> str:
    """Return [days-]hours:minutes:seconds, as sacct has it."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hours:02d}:{minutes:02d}:{seconds:02d}"


# -- tables --------------------------------------------------------------------------------------

def format_table(rows: Iterable[ListedJob], columns: Sequence[FieldColumn],
                 how: NumberForm = AS_FITS,
                 header: bool = True) -> Iterator[str]:
    """Lines, each ending with a newline."""
    return listing.format_table(rows, columns, lambda row, field: format_cell(row, field, how),
                                header)


# What a narrow terminal can do without, the first one first; and the user, where all are one's.
_LEFT_OFF = ("nodes", "opens", "elapsed_s", "events", "name")


def fit_columns(rows: Iterable[ListedJob], columns: Sequence[FieldColumn], how: NumberForm,
                room: int) -> tuple[list[FieldColumn], list[str]]:
    """(columns of a table that is up to `room` wide, names of those that were left out for it)."""
    rows = list(rows)
    of_one = len({row["user"] for row in rows}) < 2
    return listing.fit_columns(rows, columns, lambda row, field: format_cell(row, field, how), room,
                               ("user", *_LEFT_OFF) if of_one else _LEFT_OFF)


def format_parsable(rows: Iterable[ListedJob], columns: Sequence[FieldColumn],
                    how: NumberForm = AS_FITS, header: bool = True, delimiter: str = "|",
                    ends: bool = False) -> Iterator[str]:
    """Lines with a delimiter between the cells."""
    return listing.format_parsable(rows, columns, lambda row, field: format_cell(row, field, how),
                                   header,
                                   delimiter, ends)
