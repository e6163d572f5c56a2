"""
A list with a line for each of many things, in the habits of sacct(1): which fields there are, and
the tables that are made of them.

    FieldTable                 what can be asked for by -o, with %WIDTH, and by --sort
    rows, [FieldColumn], cell  ->  lines, of a table or with delimiters (-p, -P)

`cell` makes the text of a field of a row; job_list.py has that of jobs, node_list.py that of nodes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iostats.base.errors import UsageError, sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.base.text import cut, measure_width, pad
from iostats.base.units import (
    ISO_TIME,
    format_bytes,
    format_bytes_in,
    format_count,
    format_moment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    RowT = TypeVar("RowT", bound=Mapping[str, object])
    Row = Mapping[str, object]
    CellOf = Callable[[RowT, "Field"], str]
    Cell = CellOf[Row]


class Field(NamedTuple):
    """A column that a list can show."""

    column: str     # its name in tables, and with -o
    name: str       # its name in rows, and in JSON
    kind: str       # text, names, count, bytes, time, duration, seconds, share, forecast, yes, note
    # the name that says whether it may be too low, or that has the most that it can be; "" for what
    # never is
    bound: str
    help: str       # for --helpformat and the documents


class FieldColumn(NamedTuple):
    """A column of the table."""

    field: Field
    width: int | None   # in characters; None for as wide as it needs
    left: bool | None   # at the left; None as its kind is


class NumberForm(NamedTuple):
    """The form of numbers in a list."""

    units: str = "binary"       # as [report] units in site.cfg
    unit: str | None = None     # all bytes in this one: K, M, G, T or P; None for what fits
    raw: bool = False           # bytes as they are, without a word
    has_commas: bool = True     # 1,234 rather than 1234, which programs read


AS_FITS = NumberForm()
ALL = "ALL"
# At the right, and never cut.
NUMBERS = ("count", "bytes", "time", "duration", "seconds", "share", "forecast", "amount", "number",
           "mean", "milliseconds")
_WIDEST = 1000


class FieldTable:
    """
    The fields that a list can show and sort by.

    Attributes:
        fields: [Field].
        names: what a row of the site's server has; notes are made of it.
    """

    def __init__(self, fields: Sequence[Field], command: str) -> None:
        """`command`: "iostats jobs", whose -e lists them."""
        self.fields, self._command = fields, command
        self._by_name: dict[str, Field] = {}
        for field in fields:
            for name in (field.column, field.name):
                self._by_name.setdefault(name.lower().replace("_", ""), field)
        self.names = tuple(dict.fromkeys(field.name for field in fields if field.kind != "note"))

    def find_field(self, name: str, option: str) -> Field:
        """
        The Field of a name, or the first one that begins so, as with sacct; UsageError names `what`
        it stood in.
        """
        key = name.strip().lower().replace("_", "")
        match = self._by_name.get(key) or next(
            (field for field in self.fields if key and field.column.lower().startswith(key)), None)
        if not match:
            raise UsageError(f"{option}: expected a field, got {name[:40]!r}; `{self._command} -e` "
                             f"lists them")
        return match

    def parse_sort(self, text: str, option: str = "--sort") -> tuple[str, bool]:
        """(name of a row's field, is descending) of "write_bytes" or "-write_bytes"; UsageError."""
        field = self.find_field(text[1:] if text[:1] in ("-", "+") else text, option)
        if field.kind == "note":
            raise UsageError(f"{option}: expected a field other than {field.column}, which is no "
                             f"order")
        return str(field.name), text[:1] == "-"

    def parse_columns(self, text: str, option: str = "--format") -> list[FieldColumn]:
        """Return [FieldColumn] of "JobID,User%-8,ReadBytes%12"; UsageError names `what`."""
        columns = []
        for part in text.split(","):
            if not part.strip():
                continue
            if part.strip().upper() == ALL:
                columns += [FieldColumn(field, None, None) for field in self.fields]
                continue
            name, percent, width = part.partition("%")
            column = FieldColumn(self.find_field(name, option), None, None)
            if percent:
                sized = re.fullmatch(r"(-?)(\d{1,4})", width.strip(), re.ASCII)
                if not sized or not 1 <= int(sized[2]) <= _WIDEST:
                    raise UsageError(f"{option}: expected a width from 1 to {_WIDEST} as in "
                                     f"{name.strip()[:40]}%12 or %-12, got {part[:40]!r}")
                column = column._replace(width=int(sized[2]), left=bool(sized[1]))
            columns.append(column)
        if not columns:
            raise UsageError(f"{option}: expected names of fields with commas between, got "
                             f"{text[:40]!r}")
        return columns

    def help(self) -> str:
        """Return the text of --helpformat."""
        widest = max(len(field.column) for field in self.fields)
        return "".join(f"{field.column:<{widest}}  {field.help}\n" for field in self.fields)


def format_words(value: object, kind: str) -> str | None:
    """Format a value that is unknown, or that has a kind without digits; None for a number."""
    if value is None or value == "" or value == []:
        return "-"
    if kind == "text":
        return sanitize(str(value))
    if isinstance(value, list):
        return sanitize(",".join(map(str, value)))
    if kind == "yes":
        return "yes" if value else "no"
    if kind == "time":
        return format_moment(as_number(value), ISO_TIME)
    return None


def as_number(value: object) -> float:
    """A value of a row that is a number; TypeError for what is none."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"expected a number, got {value!r:.40}")
    return value


def format_number(value: float, kind: str, how: NumberForm) -> str:
    """Format a number of bytes (`kind`) or a count, without its mark."""
    if kind == "bytes" and not how.raw:
        text = (format_bytes_in(int(value), how.unit, how.units) if how.unit else
                format_bytes(value, how.units))
    else:
        text = format_count(int(value)) if kind == "count" else str(int(value))
    return text if how.has_commas and not how.raw else text.replace(",", "")


def format_whole_percent(value: float) -> str:
    """
    Format a percentage without decimals; only 0 is shown as 0, and only all of it as 100.

    >>> [format_whole_percent(value) for value in (0, 0.04, 1.7, 99.96, 100)]
    ['0 %', '<1 %', '1 %', '99 %', '100 %']
    """
    return "<1 %" if 0 < value < 1 else f"{int(value)} %"


def format_table(rows: Iterable[RowT], columns: Sequence[FieldColumn], cell: CellOf[RowT],
                 header: bool = True) -> Iterator[str]:
    """
    Yield the lines of a table, each with its newline; a column has the width of -o, or of its
    contents.

    A text that is too long ends with "+", as with sacct; a number is never cut.  Not by tabulate,
    which knows no fixed widths, and makes each column two wider than its heading.
    """
    lines = [[cell(row, column.field) for column in columns] for row in rows]
    names = [column.field.column for column in columns]
    widths = [column.width
              or max([len(name) * header, 1, *(measure_width(line[at]) for line in lines)])
              for at, (column, name) in enumerate(zip(columns, names))]
    if header:
        yield _format_line(names, columns, widths, True)
        yield " ".join("-" * width for width in widths) + "\n"
    for line in lines:
        yield _format_line(line, columns, widths)


def fit_columns(rows: Iterable[RowT], columns: Sequence[FieldColumn], cell: CellOf[RowT],
                room: int,
                dispensable: Sequence[str]) -> tuple[list[FieldColumn], list[str]]:
    """
    Return (columns of a table that is up to `room` wide, names of those that were left out for it).

    `dispensable`: names of fields that a narrow terminal can do without, the first one first.
    """
    rows, fitting, without = list(rows), list(columns), []
    for name in dispensable:
        if max(map(measure_width, "".join(format_table(rows, fitting, cell)).split("\n"))) <= room:
            break
        without += [column.field.column for column in fitting if column.field.name == name]
        fitting = [column for column in fitting if column.field.name != name]
    return fitting, without


def _format_line(cells: Sequence[str], columns: Sequence[FieldColumn], widths: Sequence[int],
                 is_header: bool = False) -> str:
    parts = []
    for text, column, width in zip(cells, columns, widths):
        is_number = column.field.kind in NUMBERS
        left = not is_number if column.left is None else column.left
        if is_header or not is_number:
            text = cut(text, width)
        parts.append(pad(text, width, right=not left))
    return " ".join(parts).rstrip() + "\n"


def format_parsable(rows: Iterable[RowT], columns: Sequence[FieldColumn], cell: CellOf[RowT],
                    header: bool = True, delimiter: str = "|", ends: bool = False) -> Iterator[str]:
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
        yield delimiter.join(cell(row, column.field).replace(first, escaped)
                             for column in columns) + end


def check_delimiter(text: str, option: str = "--delimiter") -> str:
    """Return `text`, when it can stand between cells; UsageError."""
    if not 1 <= len(text) <= 8 or any(c.isalnum() or c in "\\_" or not (c.isprintable() or
                                                                        c == "\t") for c in text):
        raise UsageError(
            f"{option}: expected up to 8 characters that are no letters, no digits and "
            f"no backslash, got {text[:40]!r}")
    return text
