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
from collections import namedtuple

from iostats.base.text import cut, padded, width_of
from iostats.report.screen import BAR as STYLE_OF_BARS
from iostats.report.screen import HEADING, Drawn, bar_of, painted, with_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.report.screen import Screen

NAME, NUMBER, BAR, TEXT, ITEMS, SERIES = "name", "number", "bar", "text", "items", "series"

FILE_SYSTEM = "File System"             # the heading of that column, of all tables

_GAP, _BETWEEN = 2, 4                   # columns between columns, and between blocks
_LEAST = {NAME: 8, BAR: 3, TEXT: 8, ITEMS: 6}
_USUAL = {NAME: 26, BAR: 10, TEXT: 12, ITEMS: 24}       # before another block is put beside it
_MOST_BAR = 24

is_number = re.compile(r"(>= |<= |~ )?(<?\d[\d.,]*( [kKMGTPE]i?B| bytes?| %)?|-)").fullmatch

Block = namedtuple("Block", "headings kinds rows droppable", defaults=((),))
Block.__doc__ = """
Attributes:
    headings: of the columns; the first one is the block's.
    kinds: of each column NAME, NUMBER, BAR, SERIES (bars over time), TEXT, which is cut where it
        is too long, or ITEMS, which is cut between them: "close 90, create 30".
    rows: of cells: texts; in a BAR column shares of 1, or None.
    droppable: headings of columns that a narrow screen does without, the first one first.
"""


def drawn(blocks: Sequence[Block], screen: Screen) -> list[str]:
    """The blocks as lines that fit the screen, each block as far up as it can be."""
    lines: list[str] = []
    left = list(blocks)
    while left:
        columns, widths = _shelf(left, screen.width)
        several = [[line for block in column
                    for line in _lines(block, width, screen, is_last=column is columns[-1])]
                   for column, width in zip(columns, widths)]
        for number in range(max(map(len, several))):
            line = (" " * _BETWEEN).join(
                one[number] if number < len(one) else "" if one is several[-1] else " " * width
                for one, width in zip(several, widths))
            lines.append(Drawn(line.rstrip(" ")))
    return lines


def _shelf(left: list[Block], most: int) -> tuple[list[list[Block]], list[int]]:
    """
    (columns of blocks that stand beside each other, their widths): the first one that is left, and
    others that fit beside it, or below one that is not as high; they are taken out of `left`.
    """
    columns, room = [[left.pop(0)]], most
    room -= _usual_width(columns[0][0])
    for block in list(left):
        if _usual_width(block) + _BETWEEN <= room:
            columns.append([block])
            room -= _usual_width(block) + _BETWEEN
            left[:] = [one for one in left if one is not block]
    widths = []
    for [block] in columns:
        more = min(max(0, room), _wanted(block))
        room -= more
        widths.append(min(most, _usual_width(block) + more))
    highest = max(_height(column) for column in columns)
    for block in list(left):
        for column, width in zip(columns, widths):
            if (_usual_width(block) <= width and len(columns) > 1
                    and _height(column) + _height([block]) <= highest):
                column.append(block)
                left[:] = [one for one in left if one is not block]
                break
    return columns, widths


def _height(column: Sequence[Block]) -> int:
    return sum(len(block.rows) + 1 for block in column)


def light_table(headings: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen,
                align: Sequence[str] | None) -> Drawn:
    """
    A table of texts in the form of a block; what is aligned right, or looks so, is a number.  Of
    one file system its name is the heading, and no column.
    """
    align = list(align or ["left"] * len(headings))
    of = {row[at] for row in rows for at, name in enumerate(headings) if name == FILE_SYSTEM}
    if headings[0] == FILE_SYSTEM and len(of) == 1 and len(headings) > 1:
        headings = [cut(of.pop(), _USUAL[NAME]), *headings[2:]]
        rows, align = [row[1:] for row in rows], align[1:]
    kinds = [NUMBER if align[at] == "right" or (at and all(is_number(row[at]) for row in rows))
             else TEXT for at in range(len(headings))]
    block = Block(headings, [NAME, *kinds[1:]], [(f"  {row[0]}", *row[1:]) for row in rows])
    return Drawn("\n".join(_lines(block, screen.width, screen, is_last=True)))


def width_of_rows(block: Block) -> int:
    """How wide the rows of a block are, with nothing cut; its title may be."""
    widths = [max([*map(width_of, (row[at] for row in block.rows)),
                   width_of(block.headings[at]) * bool(at)]) for at in range(len(block.kinds))]
    return sum(widths) + _GAP * (len(widths) - 1)


def _usual_width(block: Block) -> int:
    widths = [_natural(block, at) if kind in (NAME, NUMBER, SERIES) else
              _USUAL[BAR] if kind == BAR else min(_natural(block, at), _USUAL[kind])
              for at, kind in enumerate(block.kinds)]
    return sum(widths) + _GAP * (len(widths) - 1)


def _natural(block: Block, at: int) -> int:
    return max([width_of(block.headings[at]), *(
        width_of(row[at]) for row in block.rows if isinstance(row[at], str))])


def _wanted(block: Block) -> int:
    """What a block could have more for its texts and bars."""
    return sum(_MOST_BAR - _USUAL[BAR] if kind == BAR else
               max(0, _natural(block, at) - _USUAL[kind]) if kind in (TEXT, ITEMS) else 0
               for at, kind in enumerate(block.kinds))


def _lines(block: Block, width: int, screen: Screen, is_last: bool) -> list[str]:
    """The lines of a block, each of them `width` wide unless it is the last of its shelf."""
    block, widths = _fitted(block, width)
    if sum(widths) + _GAP * (len(widths) - 1) > width:      # too narrow for its numbers
        block = block._replace(kinds=[TEXT] * len(block.kinds), rows=[
            [cell if isinstance(cell, str) else "" for cell in row] for row in block.rows])
        each = max(1, (width - _GAP * (len(widths) - 1)) // len(widths))
        widths = [min(each, one) for one in widths]
    lines = []
    heading = [painted(screen, HEADING if at == 0 else "", _cell(text, kind, one))
               for at, (text, kind, one) in enumerate(zip(block.headings, block.kinds, widths))]
    lines.append((" " * _GAP).join(heading))
    for row in block.rows:
        cells = []
        for cell, kind, one in zip(row, block.kinds, widths):
            if kind == BAR:
                cells.append(" " * one if cell is None else bar_of(screen, cell, one))
            elif kind == SERIES:
                cells.append(painted(screen, STYLE_OF_BARS, _cell(cell, kind, one)))
            else:
                cells.append(with_mark(screen, _cell(cell, kind, one)))
        lines.append((" " * _GAP).join(cells))
    if is_last:
        return [line.rstrip(" ") for line in lines]
    blanks = " " * (width - sum(widths) - _GAP * (len(widths) - 1))
    return [line + blanks for line in lines]


def _cell(text: Any, kind: str, width: int) -> str:
    if kind == ITEMS and width_of(text) > width:
        items = text.split(", ")
        while items and width_of(", ".join(items)) > width - 3:
            items.pop()
        text = ", ".join([*items, "+"])
    return padded(cut(text, width), width, right=kind == NUMBER)


def _fitted(block: Block, width: int) -> tuple[Block, list[int]]:
    """(the block without the columns that there is no room for, the width of each other)."""
    droppable = list(block.droppable)
    while True:
        natural = [_natural(block, at) for at in range(len(block.kinds))]
        least = [natural[at] if kind in (NUMBER, SERIES) else
                 max(_LEAST[BAR], natural[at]) if kind == BAR else min(natural[at], _LEAST[kind])
                 for at, kind in enumerate(block.kinds)]
        # Names are cut last of all.
        wanted = [natural[at] if kind == NAME else one
                  for at, (kind, one) in enumerate(zip(block.kinds, least))]
        room = width - _GAP * (len(least) - 1)
        if sum(wanted) <= room or not droppable:
            break
        gone = list(block.headings).index(droppable.pop(0))
        block = block._replace(
            headings=[*block.headings[:gone], *block.headings[gone + 1:]],
            kinds=[*block.kinds[:gone], *block.kinds[gone + 1:]],
            rows=[[*row[:gone], *row[gone + 1:]] for row in block.rows])
    widths, room = least, room - sum(least)
    for kind, most in ((NAME, [min(one, _USUAL[NAME]) for one in natural]),
                       (ITEMS, [min(one, _USUAL[ITEMS]) for one in natural]),
                       (BAR, [_USUAL[BAR]] * len(natural)),
                       (TEXT, [min(one, _USUAL[NAME]) for one in natural]), (NAME, natural),
                       (TEXT, natural), (ITEMS, natural),
                       (BAR, [_MOST_BAR] * len(natural))):
        places = [at for at, one in enumerate(block.kinds) if one == kind]
        for at in places:               # all bars of a block are of one length
            share = room // len(places) if kind == BAR else (
                width - _GAP * (len(widths) - 1) - sum(widths))
            widths[at] += max(0, min(share, most[at] - widths[at]))
        room = width - _GAP * (len(widths) - 1) - sum(widths)
    return block, widths
