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
_ASCII_BARS = "_.:-=+*#"
_EIGHTHS = "▏▎▍▌▋▊▉█"


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
    if width <= 0:
        return ""
    found = width_of(text[:width])          # no character takes more than two columns
    end = min(width, len(text))
    while end and found > width - 1:
        end -= 1
        found -= _columns_of(text[end])
    while end < len(text) and found + _columns_of(text[end]) <= width - 1:
        found += _columns_of(text[end])     # accents, which take none
        end += 1
    return text[:end] + "+"


def padded(text: str, width: int, right: bool = False) -> str:
    """
    `text` with blanks up to `width` columns, behind it or, for the `right` margin, in front.

    >>> [padded("日本", 5), padded("23", 5, right=True)]
    ['日本 ', '   23']
    """
    blanks = " " * (width - width_of(text))
    return blanks + text if right else text + blanks


def wrapped(text: str, width: int, indent: str = "  ") -> list[str]:
    """
    `text` as lines of up to `width` columns, broken at blanks, the further ones indented; a word
    that is longer is broken too.

    >>> wrapped("23 of 37 nodes reported", 10)
    ['23 of 37', '  nodes', '  reported']
    >>> wrapped("日本日本", 5)
    ['日本', '  日', '  本']
    """
    lines, line, is_begun = [], "", False
    blanks = text[:len(text) - len(text.lstrip(" "))][:width // 2]
    indent = (blanks + indent)[:width // 2]
    line = blanks
    for word in text.split():
        if is_begun and width_of(line) + 1 + width_of(word) <= width:
            line += " " + word
            continue
        if is_begun:
            lines.append(line)
            line = indent
        while width_of(line) + width_of(word) > width:
            part = cut(word, width - width_of(line) + 1)[:-1] or word[0]
            lines.append(line + part)
            word, line = word[len(part):], indent
        line += word
        is_begun = True
    return [*lines, line]


def share_bar(share: float, width: int, is_ascii: bool = False) -> str:
    """
    A share of 1 as a bar in eighths of a column; one that is not 0 is never empty.

    >>> share_bar(0.5, 5), share_bar(0.001, 5), share_bar(0.5, 5, is_ascii=True)
    ('██▌', '▏', '###')
    """
    share = min(1.0, max(0.0, share))
    if is_ascii:
        return "#" * max(int(share * width + 0.5), int(share > 0))
    eighths = max(round(share * width * 8), int(share > 0))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")


def bars(values: Sequence[int], width: int = 60, is_ascii: bool = False) -> str:
    """
    `values` as a line of blocks, up to `width` long; the highest is full, 0 is a blank.

    >>> bars([0, 1, 4, 8]), bars([0, 1, 4, 8], is_ascii=True)
    (' ▁▄█', ' _-#')
    """
    step = bins_of_a_bar(len(values), width)
    columns = [sum(values[place:place + step]) for place in range(0, len(values), step)]
    top, blocks = max(columns, default=0), _ASCII_BARS if is_ascii else _BARS
    return "".join(" " if not value else blocks[max(0, -(-value * 8 // top) - 1)]
                   for value in columns)


def bins_of_a_bar(count: int, width: int = 60) -> int:
    """How many of `count` values stand in each column of `bars`."""
    return max(1, -(-count // width))
