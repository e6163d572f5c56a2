"""
A list with a line for each of many things, in the habits of sacct(1): which fields there are, and
the tables that are made of them.

    FieldTable                 what can be asked for by -o, with %WIDTH, and by --sort
    rows, [FieldColumn], cell  ->  lines, of a table or with delimiters (-p, -P)

`cell` makes the text of a field of a row; job_list.py has that of jobs, node_list.py that of nodes.
"""

from __future__ import annotations

import re
from collections import namedtuple

from iostats.base.errors import UsageError
from iostats.base.text import cut, padded, width_of
from iostats.base.units import bytes_in, bytes_text, count_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    Cell = Callable[[dict[str, Any], "Field"], str]

Field = namedtuple("Field", "column name kind bound help")
Field.__doc__ = """
What can be asked for.

Attributes:
    column: its name in tables, and with -o.
    name: its name in rows, and in JSON.
    kind: text, names, count, bytes, time, duration, seconds, yes, note.
    bound: the name that says whether it may be too low, or that has the most that it can be; ""
        for what never is.
    help: for --helpformat and the documents.
"""
FieldColumn = namedtuple("FieldColumn", "field width left")
FieldColumn.__doc__ = """
A column of the table.

Attributes:
    width: in characters; None for as wide as it needs.
    left: at the left; None as its kind is.
"""
NumberForm = namedtuple("NumberForm", "units unit raw has_commas",
                        defaults=("binary", None, False, True))
NumberForm.__doc__ = """
How numbers are shown.

Attributes:
    units: as [report] units in site.cfg.
    unit: all bytes in this one: K, M, G, T or P; None for what fits.
    raw: bytes as they are, without a word.
    has_commas: 1,234 rather than 1234, which programs read.
"""
AS_FITS = NumberForm()
ALL = "ALL"
NUMBERS = ("count", "bytes", "time", "duration", "seconds")     # at the right, and never cut
_WIDEST = 1000


class FieldTable:
    """
    What can be asked for in one list.

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
        self.names = tuple(dict.fromkeys(one.name for one in fields if one.kind != "note"))

    def field_of(self, name: str, what: str) -> Field:
        """
        The Field of a name, or the first one that begins so, as with sacct; UsageError names `what`
        it stood in.
        """
        key = name.strip().lower().replace("_", "")
        found = self._by_name.get(key) or next(
            (one for one in self.fields if key and one.column.lower().startswith(key)), None)
        if not found:
            raise UsageError(f"{what}: expected a field, got {name[:40]!r}; `{self._command} -e` "
                             f"lists them")
        return found

    def sort_of(self, text: str, what: str = "--sort") -> tuple[str, bool]:
        """(name of a row's field, is descending) of "write_bytes" or "-write_bytes"; UsageError."""
        field = self.field_of(text[1:] if text[:1] in ("-", "+") else text, what)
        if field.kind == "note":
            raise UsageError(f"{what}: expected a field other than {field.column}, which is no "
                             f"order")
        return str(field.name), text[:1] == "-"

    def columns_of(self, text: str, what: str = "--format") -> list[FieldColumn]:
        """[FieldColumn] of "JobID,User%-8,ReadBytes%12"; UsageError names `what`."""
        found = []
        for part in text.split(","):
            if not part.strip():
                continue
            if part.strip().upper() == ALL:
                found += [FieldColumn(field, None, None) for field in self.fields]
                continue
            name, percent, width = part.partition("%")
            column = FieldColumn(self.field_of(name, what), None, None)
            if percent:
                sized = re.fullmatch(r"(-?)(\d{1,4})", width.strip(), re.ASCII)
                if not sized or not 1 <= int(sized[2]) <= _WIDEST:
                    raise UsageError(f"{what}: expected a width from 1 to {_WIDEST} as in "
                                     f"{name.strip()[:40]}%12 or %-12, got {part[:40]!r}")
                column = column._replace(width=int(sized[2]), left=bool(sized[1]))
            found.append(column)
        if not found:
            raise UsageError(f"{what}: expected names of fields with commas between, got "
                             f"{text[:40]!r}")
        return found

    def help(self) -> str:
        """What --helpformat prints."""
        widest = max(len(one.column) for one in self.fields)
        return "".join(f"{one.column:<{widest}}  {one.help}\n" for one in self.fields)


def number_text(value: int, kind: str, how: NumberForm) -> str:
    """A number of bytes (`kind`), or a count, without what says that it is a bound."""
    if kind == "bytes" and not how.raw:
        text = bytes_in(value, how.unit, how.units) if how.unit else bytes_text(value, how.units)
    else:
        text = count_text(int(value)) if kind == "count" else str(int(value))
    return text if how.has_commas and not how.raw else text.replace(",", "")


def table(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn], cell: Cell,
          header: bool = True) -> Iterator[str]:
    """
    Lines, each ending with a newline: a column is as wide as -o says, or as what is in it.

    A text that is too long ends with "+", as with sacct; a number is never cut.  Not by tabulate,
    which knows no fixed widths, and makes each column two wider than its heading.
    """
    lines = [[cell(row, column.field) for column in columns] for row in rows]
    names = [column.field.column for column in columns]
    widths = [column.width or max([len(name) * header, 1, *(width_of(line[at]) for line in lines)])
              for at, (column, name) in enumerate(zip(columns, names))]
    if header:
        yield _line(names, columns, widths, True)
        yield " ".join("-" * width for width in widths) + "\n"
    for line in lines:
        yield _line(line, columns, widths)


def fitting(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn], cell: Cell, room: int,
            dispensable: Sequence[str]) -> tuple[list[FieldColumn], list[str]]:
    """
    (columns of a table that is up to `room` wide, names of those that were left out for it).

    `dispensable`: names of fields that a narrow terminal can do without, the first one first.
    """
    rows, found, without = list(rows), list(columns), []
    for name in dispensable:
        if max(map(width_of, "".join(table(rows, found, cell)).split("\n"))) <= room:
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


def parsable(rows: Iterable[dict[str, Any]], columns: Sequence[FieldColumn], cell: Cell,
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


def checked_delimiter(text: str, what: str = "--delimiter") -> str:
    """`text`, when it can stand between cells; UsageError."""
    if not 1 <= len(text) <= 8 or any(c.isalnum() or c in "\\_" or not (c.isprintable() or
                                                                        c == "\t") for c in text):
        raise UsageError(f"{what}: expected up to 8 characters that are no letters, no digits and "
                         f"no backslash, got {text[:40]!r}")
    return text
