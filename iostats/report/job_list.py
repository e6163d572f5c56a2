"""
One line for each job, as `iostats jobs` shows it.

    Summary (job_summary)  ->  a row of `jobs`, the site server's method: {name of a field: value}
    row                    ->  cells, in the habits of sacct(1): -o NAME%WIDTH, -p, -P, --units,
                               --noconvert

Unknown is "-", a lower bound begins with ">=".
"""

from __future__ import annotations

from iostats.base.errors import one_line
from iostats.base.units import ISO_TIME, between_text, moment_text
from iostats.report import listing
from iostats.report.job_fields import TABLE
from iostats.report.job_summary import BY_NODE, EXPORTS, NODES, OF_PROGRAMS, SERVERS
from iostats.report.listing import AS_FITS, Field, FieldColumn, NumberForm, number_text
from iostats.totals.bounds import mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

columns_of, checked_delimiter = TABLE.columns_of, listing.checked_delimiter


def cell(row: dict[str, Any], field: Field, how: NumberForm = AS_FITS) -> str:
    """The text of a field of a row."""
    if field.kind == "note":
        return note_of(row)
    value = row.get(field.name)
    if field.name in BY_NODE and row["source"] == EXPORTS:
        return _range(row, field, how)
    if value is None or value == "" or value == []:
        return "-"
    if field.kind == "text":
        return one_line(value)
    if field.kind == "names":
        return one_line(",".join(value))
    if field.kind == "yes":
        return "yes" if value else "no"
    if field.kind == "time":
        return _time_text(value)
    if field.kind == "duration":
        return ("~" if _is_seen(row) else "") + _duration_text(value)
    return _mark(row, field) + number_text(value, field.kind, how)


def _range(row: dict[str, Any], field: Field, how: NumberForm) -> str:
    """What the job's nodes did: "1.2-1.4 TiB"."""
    low, high = row[f"by_node_{field.name}"], row[f"by_node_{field.name}_max"]
    first = number_text(low, field.kind, how)
    return f">= {first}" if high is None else between_text(
        first, number_text(high, field.kind, how))


def note_of(row: dict[str, Any]) -> str:
    """
    Why a row's numbers are not all of the job's, or not the job's alone; "" where they are.

        3 of 4 nodes; 2 shared; storage servers only; not final; >= gaps in the harvest; by node
    """
    found = []
    if row["source"] == NODES and row["nodes"] is not None and row["reported"] < row["nodes"]:
        found.append(f"{row['reported']} of {row['nodes']} nodes")
    elif row["source"] == NODES and row["nodes"] is None:
        found.append(f"{row['reported']} of ? nodes")
    if row["shared"]:
        found.append(f"{row['shared']} shared")
    if row["source"] == SERVERS:
        found.append("storage servers only")
    elif row["source"] == EXPORTS:
        found.append("by node")
    elif not row["source"]:
        found.append("no report")
        if row.get("by_node_why"):
            found.append(one_line(row["by_node_why"]))
    if not row["final"]:
        found.append("not final")
    elif row["source"] == SERVERS and row["lower_bound"]:
        found.append(">= gaps in the harvest")
    if row["lower_bound"] and "operations" not in _too_low(row):
        found.append("not all bytes counted")
    if row.get("data_lost"):
        found.append(f"data {row['data_lost']}")
    elif row.get("too_high"):
        found.append("evicted")
    return "; ".join(found)


def _mark(row: dict[str, Any], field: Field) -> str:
    """Which way the number of a field may be wrong."""
    if not field.bound:
        return ""
    low = row.get(field.bound)
    if field.bound.endswith("_max"):
        return ">= " if low is None or low > row[field.name] else ""
    if field.bound == "lower_bound":
        low = low and field.name in _too_low(row)
    return mark_of(low, field.name in (row.get("too_high") or ()))


def _too_low(row: dict[str, Any]) -> Sequence[str]:
    """Which of the five may be too low, where one is; an older server does not tell."""
    found: Sequence[str] | None = row.get("too_low")
    return OF_PROGRAMS if found is None else found


def _is_seen(row: dict[str, Any]) -> bool:
    """Whether its time is from the first to the last sweep that saw it at work."""
    return bool(row["source"] == SERVERS and None in (row["started"], row["ended"]))


def _time_text(seconds: float) -> str:
    return moment_text(seconds, ISO_TIME, f"{seconds:.0f}")


def _duration_text(seconds: float) -> str:
    """[days-]hours:minutes:seconds, as sacct has it."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hours:02d}:{minutes:02d}:{seconds:02d}"


# -- tables --------------------------------------------------------------------------------------

def table(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn], how: NumberForm = AS_FITS,
          header: bool = True) -> Iterator[str]:
    """Lines, each ending with a newline."""
    return listing.table(rows, columns, lambda row, field: cell(row, field, how), header)


# What a narrow terminal can do without, the first one first; and the user, where all are one's.
_LEFT_OFF = ("nodes", "opens", "elapsed_s", "events", "name")


def fitting(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn], how: NumberForm,
            room: int) -> tuple[list[FieldColumn], list[str]]:
    """(columns of a table that is up to `room` wide, names of those that were left out for it)."""
    rows = list(rows)
    of_one = len({row["user"] for row in rows}) < 2
    return listing.fitting(rows, columns, lambda row, field: cell(row, field, how), room,
                           ("user", *_LEFT_OFF) if of_one else _LEFT_OFF)


def parsable(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn],
             how: NumberForm = AS_FITS, header: bool = True, delimiter: str = "|",
             ends: bool = False) -> Iterator[str]:
    """Lines with a delimiter between the cells."""
    return listing.parsable(rows, columns, lambda row, field: cell(row, field, how), header,
                            delimiter, ends)
