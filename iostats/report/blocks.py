"""
Blocks of a screen: aligned columns without lines between them, with bars, beside each other where
there is room.

    Time in operations      share      calls       time       mean
      read  ████████████▏  99.9 %         23     46.0 s     2.00 s
      open  ▏              <0.1 %          3    3.00 ms    1.00 ms

A block's first column is its rows' names, and its heading the block's.  Not by tabulate: it can
neither fill a width nor cut a name to it, and takes wide letters for narrow ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Union

from iostats.base.text import cut, measure_width, pad
from iostats.report.screen import BAR as STYLE_OF_BARS
from iostats.report.screen import HEADING, Drawn, draw_bar, paint_mark, paint_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.report.screen import Screen

    Cell = Union[str, float, None]      # a text; in a BAR column a share of 1, or None
    Row = Sequence[Cell]

NAME, NUMBER, BAR, TEXT, ITEMS, SERIES = "name", "number", "bar", "text", "items", "series"

FILE_SYSTEM = "File System"             # the heading of that column, of all tables

_GAP, _BETWEEN = 2, 4                   # columns between columns, and between blocks
_LEAST_WIDTH = {NAME: 8, BAR: 3, TEXT: 8, ITEMS: 6}
_USUAL_WIDTH = {NAME: 26, BAR: 10, TEXT: 12, ITEMS: 24}  # before another block is put beside it
_WIDEST_BAR = 24

is_number = re.compile(r"(>= |<= |~ )?(<?\d[\d.,]*( [kKMGTPE]i?B| bytes?| %)?|-)").fullmatch



class Block(NamedTuple):
    """A block of a report for terminals."""

    headings: Sequence[str]     # of the columns; the first one is the block's
    # of each column NAME, NUMBER, BAR, SERIES (bars over time), TEXT, which is cut where it is too
    # long, or ITEMS, which is cut between them: "close 90, create 30"
    kinds: Sequence[str]
    rows: Sequence[Row]
    droppable: Sequence[str] = ()   # headings that a narrow screen does without, the first first


def draw_blocks(blocks: Sequence[Block], screen: Screen) -> list[str]:
    """The blocks as lines that fit the screen, each block as far up as it can be."""
    lines: list[str] = []
    left = list(blocks)
    while left:
        columns, widths = _take_row(left, screen.width)
        several = [[line for block in column
                    for line in _draw_lines(block, width, screen, is_last=column is columns[-1])]
                   for column, width in zip(columns, widths)]
        for number in range(max(map(len, several))):
            line = (" " * _BETWEEN).join(
                block_lines[number] if number < len(block_lines) else ""
                if block_lines is several[-1] else " " * width
                for block_lines, width in zip(several, widths))
            lines.append(Drawn(line.rstrip(" ")))
    return lines


def _take_row(remaining: list[Block], screen_width: int) -> tuple[list[list[Block]], list[int]]:
    """
    Take from `remaining` the first block and others that fit beside it, or below a shorter one.
    Returns (columns of blocks, their widths).
    """
    columns, room = [[remaining.pop(0)]], screen_width
    room -= _find_usual_width(columns[0][0])
    for block in list(remaining):
        if _find_usual_width(block) + _BETWEEN <= room:
            columns.append([block])
            room -= _find_usual_width(block) + _BETWEEN
            remaining[:] = [item for item in remaining if item is not block]
    widths = []
    for [block] in columns:
        more = min(max(0, room), _find_spare_width(block))
        room -= more
        widths.append(min(screen_width, _find_usual_width(block) + more))
    highest = max(_count_lines(column) for column in columns)
    for block in list(remaining):
        for column, width in zip(columns, widths):
            if (_find_usual_width(block) <= width and len(columns) > 1
                    and _count_lines(column) + _count_lines([block]) <= highest):
                column.append(block)
                remaining[:] = [item for item in remaining if item is not block]
                break
    return columns, widths


def _count_lines(column: Sequence[Block]) -> int:
    return sum(len(block.rows) + 1 for block in column)


def draw_table(headings: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen,
               align: Sequence[str] | None) -> Drawn:
    """
    Draw a table of texts as a block.  A column that is aligned right, or has only numbers, is a
    column of numbers.  If all rows are of one file system, its name becomes the heading instead of
    a column.
    """
    align = list(align or ["left"] * len(headings))
    of = {row[at] for row in rows for at, name in enumerate(headings) if name == FILE_SYSTEM}
    if headings[0] == FILE_SYSTEM and len(of) == 1 and len(headings) > 1:
        headings = [cut(of.pop(), _USUAL_WIDTH[NAME]), *headings[2:]]
        rows, align = [row[1:] for row in rows], align[1:]
    kinds = [NUMBER if align[at] == "right" or (at and all(is_number(row[at]) for row in rows))
             else TEXT for at in range(len(headings))]
    block = Block(headings, [NAME, *kinds[1:]], [(f"  {row[0]}", *row[1:]) for row in rows])
    return Drawn("\n".join(_draw_lines(block, screen.width, screen, is_last=True)))


def measure_rows(block: Block) -> int:
    """Return the width of the rows of a block with nothing cut; its title may be wider."""
    widths = [max([*_measure_cells(block, at), measure_width(block.headings[at]) * bool(at)])
              for at in range(len(block.kinds))]
    return sum(widths) + _GAP * (len(widths) - 1)


def _find_usual_width(block: Block) -> int:
    widths = [_find_natural_width(block, at) if kind in (NAME, NUMBER, SERIES) else
              _USUAL_WIDTH[BAR] if kind == BAR
              else min(_find_natural_width(block, at), _USUAL_WIDTH[kind])
              for at, kind in enumerate(block.kinds)]
    return sum(widths) + _GAP * (len(widths) - 1)


def _find_natural_width(block: Block, at: int) -> int:
    return max([measure_width(block.headings[at]), *_measure_cells(block, at)])


def _measure_cells(block: Block, at: int) -> list[int]:
    return [measure_width(cell) for cell in (row[at] for row in block.rows)
            if isinstance(cell, str)]


def _find_spare_width(block: Block) -> int:
    """Return the columns that texts and bars of a block could fill beyond their usual width."""
    return sum(_WIDEST_BAR - _USUAL_WIDTH[BAR] if kind == BAR else
               max(0, _find_natural_width(block, at) - _USUAL_WIDTH[kind]) if kind in (TEXT, ITEMS)
               else 0
               for at, kind in enumerate(block.kinds))


def _draw_lines(block: Block, width: int, screen: Screen, is_last: bool) -> list[str]:
    """The lines of a block, each of them `width` wide unless it is the last of its shelf."""
    block, widths = _fit(block, width)
    if sum(widths) + _GAP * (len(widths) - 1) > width:      # too narrow for its numbers
        block = block._replace(kinds=[TEXT] * len(block.kinds), rows=[
            [cell if isinstance(cell, str) else "" for cell in row] for row in block.rows])
        each = max(1, (width - _GAP * (len(widths) - 1)) // len(widths))
        widths = [min(each, space) for space in widths]
    lines = []
    heading = [paint_text(screen, HEADING if at == 0 else "", _format_cell(text, kind, space))
               for at, (text, kind, space) in enumerate(zip(block.headings, block.kinds, widths))]
    lines.append((" " * _GAP).join(heading))
    for row in block.rows:
        cells = []
        for cell, kind, space in zip(row, block.kinds, widths):
            if not isinstance(cell, str):
                cells.append(" " * space if cell is None else draw_bar(screen, cell, space))
            elif kind == SERIES:
                cells.append(paint_text(screen, STYLE_OF_BARS, _format_cell(cell, kind, space)))
            else:
                cells.append(paint_mark(screen, _format_cell(cell, kind, space)))
        lines.append((" " * _GAP).join(cells))
    if is_last:
        return [line.rstrip(" ") for line in lines]
    blanks = " " * (width - sum(widths) - _GAP * (len(widths) - 1))
    return [line + blanks for line in lines]


def _format_cell(text: str, kind: str, width: int) -> str:
    if kind == ITEMS and measure_width(text) > width:
        items = text.split(", ")
        while items and measure_width(", ".join(items)) > width - 3:
            items.pop()
        text = ", ".join([*items, "+"])
    return pad(cut(text, width), width, right=kind == NUMBER)


def _fit(block: Block, width: int) -> tuple[Block, list[int]]:
    """Return (the block without the columns that there is no room for, the width of each other)."""
    droppable = list(block.droppable)
    while True:
        natural = [_find_natural_width(block, at) for at in range(len(block.kinds))]
        least = [natural[at] if kind in (NUMBER, SERIES) else
                 max(_LEAST_WIDTH[BAR], natural[at]) if kind == BAR
                 else min(natural[at], _LEAST_WIDTH[kind])
                 for at, kind in enumerate(block.kinds)]
        # Names are cut last of all.
        preferred = [natural[at] if kind == NAME else value
                     for at, (kind, value) in enumerate(zip(block.kinds, least))]
        room = width - _GAP * (len(least) - 1)
        if sum(preferred) <= room or not droppable:
            break
        dropped = list(block.headings).index(droppable.pop(0))
        block = block._replace(
            headings=[*block.headings[:dropped], *block.headings[dropped + 1:]],
            kinds=[*block.kinds[:dropped], *block.kinds[dropped + 1:]],
            rows=[[*row[:dropped], *row[dropped + 1:]] for row in block.rows])
    widths, room = least, room - sum(least)
    for kind, limits in ((NAME, [min(value, _USUAL_WIDTH[NAME]) for value in natural]),
                         (ITEMS, [min(value, _USUAL_WIDTH[ITEMS]) for value in natural]),
                         (BAR, [_USUAL_WIDTH[BAR]] * len(natural)),
                         (TEXT, [min(value, _USUAL_WIDTH[NAME]) for value in natural]),
                         (NAME, natural),
                         (TEXT, natural), (ITEMS, natural),
                         (BAR, [_WIDEST_BAR] * len(natural))):
        places = [at for at, of in enumerate(block.kinds) if of == kind]
        for at in places:               # all bars of a block are of one length
            share = room // len(places) if kind == BAR else (
                width - _GAP * (len(widths) - 1) - sum(widths))
            widths[at] += max(0, min(share, limits[at] - widths[at]))
        room = width - _GAP * (len(widths) - 1) - sum(widths)
    return block, widths
