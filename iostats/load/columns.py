"""
Columns that fit a terminal: names are cut first, then whole columns go, the least important first.

A number is shown whole or not at all; "+" stands for what was cut, as in sacct.
"""

from __future__ import annotations

import re
import unicodedata

from iostats.load.amounts import METRICS, SORT

_GAPS = ("  ", " ")           # between columns: where there is room, and where there is not


class TextColumn:
    """Cells from the heading to the last row; `least` is None for what must not be cut."""

    def __init__(self, title: str, cells: list[str], least: int | None = None, right: bool = True,
                 metric: str | None = None) -> None:
        self.title, self.cells, self.least, self.right = title, cells, least, right
        self.metric = metric
        self.width = self.natural = max(map(_cells, (title, *cells)))

    def padded(self, place: int, last: bool = False) -> str:
        text = self.title if place < 0 else self.cells[place]
        text = cut(text, self.width)
        blanks = " " * (self.width - _cells(text))
        return blanks + text if self.right else text if last else text + blanks


def fitted(columns: list[TextColumn], width: int | None, sort: str) -> str:
    """
    What stands between columns, after they were narrowed, and taken away, until a line has `width`
    characters.
    """
    if width is None:
        return _GAPS[0]
    while True:
        for gap in _GAPS:
            if _line(columns, gap) <= width:
                return gap
        can_be_cut = [(column.width - column.least, -place) for place, column in enumerate(columns)
                      if column.least is not None and column.width > column.least]
        if can_be_cut:
            columns[-max(can_be_cut)[1]].width -= 1          # the first of the widest
            continue
        # Names of what a job is first, then the numbers that it is not sorted by.
        sorted_by = METRICS[SORT[sort]] if sort in SORT else sort
        spare = [column for column in columns[1:] if column.metric != sorted_by]
        spare.sort(key=lambda column: (column.metric is not None, column.least is None))
        if spare:
            kind = [column for column in spare if (column.metric is None, column.least is None) == (
                spare[0].metric is None, spare[0].least is None)]
            columns.remove(kind[-1])
            for column in columns:
                column.width = column.natural           # there may be room again
        elif columns[0].width > 1:
            columns[0].least = 1
        else:
            return gap


def drawn(columns: list[TextColumn], gap: str) -> list[str]:
    """The heading, and a line for each cell of a column."""
    return [gap.join(column.padded(place, column is columns[-1]) for column in columns).rstrip()
            for place in range(-1, len(columns[0].cells))]


def _line(columns: list[TextColumn], gap: str) -> int:
    return sum(column.width for column in columns) + len(gap) * (len(columns) - 1)


def _cells(text: str) -> int:
    """How many places a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
               for c in text)


def cut(text: str, width: int | None) -> str:
    """`text` in at most `width` places, with a + for what was cut off."""
    if width is None or _cells(text) <= width:
        return text
    while text and _cells(text) > width - 1:
        text = text[:-1]
    return text + "+" if width > 0 else ""


def wrapped(text: str, width: int | None) -> list[str]:
    """Lines of at most `width` places; words that are longer are cut."""
    if width is None:
        return [text]
    found, line = [], ""
    for word in re.split(r" ", text):
        if line and _cells(line) + 1 + _cells(word) > width:
            found.append(line)
            line = "  " + word if width > 20 else word
        else:
            line = f"{line} {word}" if line else word
    return [cut(one, width) for one in (*found, line)]
