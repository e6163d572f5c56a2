"""
One line for each job, as `iostats jobs` shows it.

    Summary (job_summary)  ->  a row of `jobs`, the site server's method: {name of a field: value}
    row                    ->  cells, in the habits of sacct(1): -o NAME%WIDTH, -p, -P, --units,
                               --noconvert

Unknown is "-", a lower bound begins with ">=".
"""

from __future__ import annotations

import re
from collections import namedtuple
from datetime import datetime

from iostats.base.errors import UsageError, one_line
from iostats.base.text import cut, padded, width_of
from iostats.base.units import bytes_in, bytes_text
from iostats.report.job_fields import ALL, FIELDS, NUMBERS, Field, field_of
from iostats.report.job_summary import NODES, OF_PROGRAMS, SERVERS
from iostats.totals.bounds import mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

FieldColumn = namedtuple("FieldColumn", "field width left")
FieldColumn.__doc__ = """
A column of the table.

Attributes:
    width: in characters; None for as wide as it needs.
    left: at the left; None as its kind is.
"""

_WIDEST = 1000


def columns_of(text: str, what: str = "--format") -> list[FieldColumn]:
    """[FieldColumn] of "JobID,User%-8,ReadBytes%12"; UsageError names `what`."""
    found = []
    for part in text.split(","):
        if not part.strip():
            continue
        if part.strip().upper() == ALL:
            found += [FieldColumn(field, None, None) for field in FIELDS]
            continue
        name, percent, width = part.partition("%")
        column = FieldColumn(field_of(name, what), None, None)
        if percent:
            sized = re.fullmatch(r"(-?)(\d{1,4})", width.strip(), re.ASCII)
            if not sized or not 1 <= int(sized[2]) <= _WIDEST:
                raise UsageError(f"{what}: expected a width from 1 to {_WIDEST} as in "
                                 f"{name.strip()[:40]}%12 or %-12, got {part[:40]!r}")
            column = column._replace(width=int(sized[2]), left=bool(sized[1]))
        found.append(column)
    if not found:
        raise UsageError(f"{what}: expected names of fields with commas between, got {text[:40]!r}")
    return found


# -- cells -----------------------------------------------------------------------------------------

NumberForm = namedtuple("NumberForm", "units unit raw", defaults=("binary", None, False))
NumberForm.__doc__ = """
How numbers are shown.

Attributes:
    units: as [report] units in site.cfg.
    unit: all bytes in this one: K, M, G, T or P; None for what fits.
    raw: bytes as they are, without a word.
"""
AS_FITS = NumberForm()


def cell(row: dict[str, Any], field: Field, how: NumberForm = AS_FITS) -> str:
    """The text of a field of a row."""
    if field.kind == "note":
        return note_of(row)
    value = row[field.name]
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
    bound = _mark(row, field)
    if field.kind == "bytes" and not how.raw:
        return bound + (bytes_in(value, how.unit, how.units) if how.unit else
                        bytes_text(value, how.units))
    return f"{bound}{int(value)}"


def note_of(row: dict[str, Any]) -> str:
    """
    Why a row's numbers are not all of the job's, or not the job's alone; "" where they are.

        3 of 4 nodes; 2 shared; storage servers only; not final; >= gaps in the harvest
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
    elif not row["source"]:
        found.append("no report")
    if not row["final"]:
        found.append("not final")
    elif row["source"] == SERVERS and row["lower_bound"]:
        found.append(">= gaps in the harvest")
    if row["lower_bound"] and "operations" not in _too_low(row):
        found.append("not all bytes counted")
    if row.get("too_high"):
        found.append("evicted")
    return "; ".join(found)


def _mark(row: dict[str, Any], field: Field) -> str:
    """Which way the number of a field may be wrong."""
    if not field.bound:
        return ""
    low = row[field.bound]
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
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):           # some node's clock said so
        return f"{seconds:.0f}"


def _duration_text(seconds: float) -> str:
    """[days-]hours:minutes:seconds, as sacct has it."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hours:02d}:{minutes:02d}:{seconds:02d}"


# -- tables --------------------------------------------------------------------------------------

def table(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn], how: NumberForm = AS_FITS,
          header: bool = True) -> Iterator[str]:
    """
    Lines, each ending with a newline: a column is as wide as -o says, or as what is in it.

    A text that is too long ends with "+", as with sacct; a number is never cut.  Not by tabulate,
    which knows no fixed widths, and makes each column two wider than its heading.
    """
    lines = [[cell(row, column.field, how) for column in columns] for row in rows]
    names = [column.field.column for column in columns]
    widths = [column.width or max([len(name) * header, 1, *(width_of(line[at]) for line in lines)])
              for at, (column, name) in enumerate(zip(columns, names))]
    if header:
        yield _line(names, columns, widths, True)
        yield " ".join("-" * width for width in widths) + "\n"
    for line in lines:
        yield _line(line, columns, widths)


# What a narrow terminal can do without, the first one first; and the user, where all are one's.
_LEFT_OFF = ("nodes", "opens", "elapsed_s", "name")


def fitting(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn], how: NumberForm,
            room: int) -> tuple[list[FieldColumn], list[str]]:
    """(columns of a table that is up to `room` wide, names of those that were left out for it)."""
    rows, found, without = list(rows), list(columns), []
    of_one = len({row["user"] for row in rows}) < 2
    for name in (("user", *_LEFT_OFF) if of_one else _LEFT_OFF):
        if max(map(width_of, "".join(table(rows, found, how)).split("\n"))) <= room:
            break
        without += [column.field.column for column in found if column.field.name == name]
        found = [column for column in found if column.field.name != name]
    return found, without


def _line(cells: Sequence[str], columns: Sequence[FieldColumn], widths: Sequence[int],
          is_header: bool = False) -> str:
    found = []
    for text, column, width in zip(cells, columns, widths):
        is_number = column.field.kind in NUMBERS
        left = not is_number if column.left is None else column.left
        if is_header or not is_number:
            text = cut(text, width)
        found.append(padded(text, width, right=not left))
    return " ".join(found).rstrip() + "\n"


def parsable(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn],
             how: NumberForm = AS_FITS, header: bool = True, delimiter: str = "|",
             ends: bool = False) -> Iterator[str]:
    """
    Lines with a delimiter between the cells, and after the last one where it `ends` lines, too.

    A delimiter's first character is written as \\x7c within a cell, so that there is no column too
    many.
    """
    first = delimiter[0]
    escaped = "".join(f"\\x{byte:02x}" for byte in first.encode())
    end = delimiter * ends + "\n"
    if header:
        yield delimiter.join(column.field.column for column in columns) + end
    for row in rows:
        yield delimiter.join(cell(row, column.field, how).replace(first, escaped)
                             for column in columns) + end


def checked_delimiter(text: str, what: str = "--delimiter") -> str:
    """`text`, when it can stand between cells; UsageError."""
    if not 1 <= len(text) <= 8 or any(c.isalnum() or c in "\\_" or not (c.isprintable() or
                                                                        c == "\t") for c in text):
        raise UsageError(f"{what}: expected up to 8 characters that are no letters, no digits and "
                         f"no backslash, got {text[:40]!r}")
    return text
