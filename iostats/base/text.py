"""
Text on a terminal: how many columns it takes, text that is cut to fit, and bars.

Source: Unicode Standard Annex 11 (East Asian Width), as unicodedata has it; wcwidth(3) for what
takes no column.  Characters that move a cursor are made visible first: errors.one_line.
"""

from __future__ import annotations

import unicodedata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_COLUMN = ("Mn", "Me", "Cf")         # accents on the letter before, joiners
_BARS = "▁▂▃▄▅▆▇█"


def width_of(text: str) -> int:
    """
    How many columns a text takes: two for a wide letter, none for an accent on one.

    >>> [width_of(text) for text in ("scratch", "e\\u0301te\\u0301", "日本")]
    [7, 3, 4]
    """
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(c: str) -> int:
    if unicodedata.category(c) in _NO_COLUMN:
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def cut(text: str, width: int | None) -> str:
    """
    `text` in up to `width` columns, with a + for what was cut off, as in sacct; None: all of it.

    >>> [cut("scratch", 7), cut("scratch", 4), cut("日本", 3), cut("scratch", 0)]
    ['scratch', 'scr+', '日+', '']
    """
    if width is None or width_of(text) <= width:
        return text
    while text and width_of(text) > width - 1:
        text = text[:-1]
    return text + "+" if width > 0 else ""


def padded(text: str, width: int, right: bool = False) -> str:
    """
    `text` with blanks up to `width` columns, behind it or, for the `right` margin, in front.

    >>> [padded("日本", 5), padded("23", 5, right=True)]
    ['日本 ', '   23']
    """
    blanks = " " * (width - width_of(text))
    return blanks + text if right else text + blanks


def bars(values: Sequence[int], width: int = 60) -> str:
    """
    `values` as a line of blocks, up to `width` long; the highest is full, 0 is a blank.

    >>> bars([0, 1, 4, 8])
    ' ▁▄█'
    """
    step = max(1, -(-len(values) // width))
    columns = [sum(values[place:place + step]) for place in range(0, len(values), step)]
    top = max(columns, default=0)
    return "".join(" " if not value else _BARS[max(0, -(-value * 8 // top) - 1)]
                   for value in columns)
