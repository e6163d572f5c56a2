"""
Columns that fit a terminal: names are cut first, then whole columns go, the least important first.

A number is shown whole or not at all; "+" stands for what was cut, as in sacct.
"""

from __future__ import annotations

import re

from iostats.base.text import cut, measure_width, pad
from iostats.load.amounts import METRICS, SORT

_GAPS = ("  ", " ")           # between columns: where there is room, and where there is not


class TextColumn:
    """A column's heading and cells; `least`: its smallest width, None if it must not be cut."""

    def __init__(self, title: str, cells: list[str], least: int | None = None, right: bool = True,
                 metric: str | None = None) -> None:
        self.title, self.cells, self.least, self.right = title, cells, least, right
        self.metric = metric
        self.width = self.natural = max(map(measure_width, (title, *cells)))

    def pad(self, place: int, last: bool = False) -> str:
        text = self.title if place < 0 else self.cells[place]
        text = cut(text, self.width)
        return text if last and not self.right else pad(text, self.width, self.right)


def fit_columns(columns: list[TextColumn], width: int | None, sort: str) -> str:
    """
    Narrow columns, and remove some, until a line has `width` characters; the text between columns.
    """
    if width is None:
        return _GAPS[0]
    while True:
        for gap in _GAPS:
            if _compute_line_width(columns, gap) <= width:
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


def draw_column(columns: list[TextColumn], gap: str) -> list[str]:
    """The heading, and a line for each cell of a column."""
    return [gap.join(column.pad(place, column is columns[-1]) for column in columns).rstrip()
            for place in range(-1, len(columns[0].cells))]


def _compute_line_width(columns: list[TextColumn], gap: str) -> int:
    return sum(column.width for column in columns) + len(gap) * (len(columns) - 1)


def wrap_text(text: str, width: int | None) -> list[str]:
    """Lines of at most `width` places; words that are longer are cut."""
    if width is None:
        return [text]
    lines, line = [], ""
    for word in re.split(r" ", text):
        if line and measure_width(line) + 1 + measure_width(word) > width:
            lines.append(line)
            line = "  " + word if width > 20 else word
        else:
            line = f"{line} {word}" if line else word
    return [cut(text, width) for text in (*lines, line)]
