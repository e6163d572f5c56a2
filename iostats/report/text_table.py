"""
A table as text, and the cells that several tables have.

Not by tabulate, which draws the same (tests/report/test_text_table.py compares): it imports
importlib.metadata, and so email and zipfile, which took 40 of the 95 ms of a report.
"""

from __future__ import annotations

from iostats.base.text import cut, padded, width_of
from iostats.base.units import bytes_text
from iostats.report.blocks import light_table
from iostats.totals.bounds import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord, NodeSpread, PhaseFileSystem



def table(headers: Sequence[str], rows: Iterable[Sequence[str]], form: str | Screen,
          align: Sequence[str] | None = None) -> str:
    """
    Rows of texts as a table in a form of options.FORMATS, or as wide as a screen, in columns
    without lines between them; `align`: "left", "right" of each.
    """
    if not isinstance(form, str):
        return light_table(headers, list(rows), form, align)
    cells = [[cell.strip() for cell in row] for row in rows]
    if form == "markdown":
        cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    is_right = [bool(cells and align and align[at] == "right") for at in range(len(headers))]
    widths = [max([2 + width_of(name), *(width_of(row[at]) for row in cells)])
              for at, name in enumerate(headers)]
    begin, between, end = ("", "  ", "") if form == "plain" else ("| ", " | ", " |")
    heading, *lines = [(begin + between.join(map(padded, row, widths, is_right)) + end).rstrip()
                       for row in (headers, *cells)]
    if form == "plain":
        return "\n".join([heading, *lines])
    if form == "markdown":
        dashes = ["-" * (width + 1) for width in widths]
        below = "|".join(f"{of}:" if right else f":{of}" if cells else f"{of}-"
                         for of, right in zip(dashes, is_right))
        return "\n".join([heading, f"|{below}|", *lines])
    line, double = ("+".join(["", *(of * (width + 2) for width in widths), ""]) for of in "-=")
    body = [f"\n{line}\n".join(lines)] if lines else []
    return "\n".join([line, heading, double, *body, line])


def in_width(headers: Sequence[str], rows: Sequence[Sequence[str]], form: str, width: int,
             align: Sequence[str] | None = None) -> str:
    """
    A table that is up to `width` wide: as several ones, below each other, with the first column
    before each part of the others.
    """
    most = max(8, width // 2)
    rows = [(cut(row[0], most), *row[1:]) for row in rows]
    # What is between columns is 2 wide at least.
    widths = [2 + max(map(width_of, (name, *(row[at] for row in rows))))
              for at, name in enumerate(headers)]
    count, places, found = len(headers), list(range(1, len(headers))), []
    while places:
        first, room = 0, width - widths[0]
        while first < len(places) and room >= 0:
            room -= widths[places[first]]
            first += 1
        for end in range(first, 0, -1):
            columns = [0, *places[:end]]
            part = table([headers[at] for at in columns],
                         [[row[at] for at in columns] for row in rows], form,
                         align and [align[at] for at in columns])
            if end == 1 or max(map(width_of, part.split("\n"))) <= width:
                break
        found.append(part)
        places = places[end:]
    return "\n".join(found) if count > 1 else table(headers, rows, form, align)


def bytes_of_programs(fs: FileSystemRecord | PhaseFileSystem, metric: str, units: str) -> str:
    """The bytes that programs read or wrote."""
    if fs.application is None:
        return "-"
    return mark(fs, metric) + bytes_text(fs.application[metric], units)


def busiest_of(spread: NodeSpread, marks: Sequence[str]) -> str:
    """The node that had most; "all" where the least had as much, and no number may be another."""
    if spread.min == spread.max and not any(marks):
        return "all"
    return spread.busiest or "-"


def file_systems_of(whole: Any, config: Any) -> list[Any]:
    """The file systems of a record (or of its phases, or harvest) that site.cfg names; or all."""
    by_name = {fs.name: fs for fs in whole.file_systems}
    wanted = config["report.file_systems"] or list(by_name)
    return [by_name[name] for name in wanted if name in by_name]
