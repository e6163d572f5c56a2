"""
A table as text, and the cells that several tables have.

tabulate draws it; what is done here is to fit it to a width.
"""

from __future__ import annotations

import re

from iostats.base.text import width_of, wrapped
from iostats.base.units import bytes_text
from iostats.report.blocks import is_number, light_table
from iostats.report.screen import BLOCKS, GRID, MARKDOWN, PLAIN, Drawn
from iostats.totals.bounds import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord, NodeSpread, PhaseFileSystem

_MARKS = ((">=", "may be too low"), ("<=", "may be too high"), ("~", "may be either"),
          ("-", "unknown"))
_FILLER = "\ue000"              # which no text has that is fit for a terminal: errors.one_line
_TABLEFMT = {GRID: "grid", PLAIN: "plain", MARKDOWN: "pipe"}
_LEAST_TEXT = 16                # columns of a text that is broken into lines


class TableText(str):
    """The lines of a table."""

    __slots__ = ()


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], screen: Screen,
          align: Sequence[str] | None = None) -> str:
    """
    Rows of texts as a table in the screen's form, no wider than the screen: texts are broken into
    lines, and what still has no room stands in further tables below the first one, each with the
    first column.  Markdown has no limit.

    `align`: "left", "right" of each.
    """
    form = screen.form
    if form == BLOCKS:
        return light_table(headers, list(rows), screen, align)
    cells = [[cell.strip() for cell in row] for row in rows]
    if form == MARKDOWN:
        cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    is_right = [bool(cells and align and align[at] == "right") for at in range(len(headers))]
    excess = 0 if form == MARKDOWN else _width(_widths(headers, cells), form) - screen.width
    if excess > 0:
        cells = _broken(headers, cells, excess)
    widths = _widths(headers, cells)
    found: list[str] = []
    left = list(range(1, len(headers)))
    while left or not found:
        end = len(left)
        while (end > 1 and form != MARKDOWN
               and _width([widths[at] for at in (0, *left[:end])], form) > screen.width):
            end -= 1
        part = [0, *left[:end]]
        found.append(_drawn([headers[at] for at in part],
                            [[row[at] for at in part] for row in cells], form,
                            ["right" if is_right[at] else "left" for at in part]))
        left = left[end:]
    return TableText("\n".join(found))


def _widths(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column is; headings have room."""
    return [max([2 + width_of(name), *(width_of(line) for row in cells
                                       for line in row[at].split("\n"))])
            for at, name in enumerate(headers)]


def _width(widths: Sequence[int], form: str) -> int:
    """How wide a table of columns is."""
    return sum(widths) + (2 * len(widths) - 2 if form == PLAIN else 3 * len(widths) + 1)


def _broken(headers: Sequence[str], cells: Sequence[Sequence[str]],
            excess: int) -> list[list[str]]:
    """The cells with their texts broken into lines, the widest ones first, to save `excess`."""
    natural = _widths(headers, cells)
    texts = {at: natural[at] for at in range(len(headers))
             if not all(is_number(row[at]) for row in cells)}
    least = {at: max(_LEAST_TEXT, width_of(headers[at]) + 2) for at in texts}
    while excess > 0:
        at = max(texts, key=lambda at: texts[at] - least[at], default=None)
        if at is None or texts[at] <= least[at]:
            break
        texts[at] -= 1
        excess -= 1
    return [["\n".join(wrapped(cell, texts[at], "")) if at in texts else cell
             for at, cell in enumerate(row)] for row in cells]


def _drawn(headers: Sequence[str], cells: Sequence[Sequence[str]], form: str,
           align: Sequence[str]) -> str:
    import tabulate                    # 40 ms, of which a page has no use
    tabulate.WIDE_CHARS_MODE = False   # where wcwidth is there: a wide letter's filler is counted
    # Everything is text by now: tabulate must not read numbers into it (it would print
    # 16777216 as 1.67772e+07 in a column with a "-").
    return str(tabulate.tabulate(
        [list(map(_with_fillers, row)) for row in cells], [*map(_with_fillers, headers)],
        tablefmt=_TABLEFMT[form], disable_numparse=True,
        colalign=align if cells else None)).replace(_FILLER, "")


def _with_fillers(text: str) -> str:
    """A text with as many characters as it takes columns, for tabulate: wide letters take two."""
    return text if text.isascii() else "".join(
        c + _FILLER * (width_of(c) - 1) for c in text)


def with_legend(parts: Sequence[str]) -> list[str]:
    """The parts of a report, with what the marks in its tables mean below the last table."""
    tables = [at for at, part in enumerate(parts) if isinstance(part, (TableText, Drawn))]
    # Neither bars over time nor the terminal's commands for colours.
    text = "\n".join(re.sub(r"\|.*\||\x1b\[[\d;]*m", " ", parts[at])
                     if isinstance(parts[at], Drawn) else parts[at] for at in tables)
    words = set(text.replace("|", " ").split())
    meant = [f"{sign} {meaning}" for sign, meaning in _MARKS if sign in words]
    if not meant:
        return list(parts)
    end = tables[-1] + 1
    return [*parts[:end], f"Marks: {', '.join(meant)}", *parts[end:]]


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
