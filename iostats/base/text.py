"""
Text on a terminal: measure its columns, cut it, wrap it, draw bars.

Source: Unicode Standard Annex 11 (East Asian Width), as unicodedata has it; wcwidth(3) for what
takes no column.  Characters that move a cursor are made visible first: errors.sanitize.
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


def measure_width(text: str) -> int:
    """
    Return the number of columns of a text: two for a wide letter, none for a combining accent.

    >>> [measure_width(text) for text in ("scratch", "e\\u0301te\\u0301", "日本")]
    [7, 3, 4]
    """
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def _measure_character(c: str) -> int:
    """Return the columns of one character: 0, 1 or 2."""
    if unicodedata.category(c) in _NO_COLUMN:
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def cut(text: str, width: int | None) -> str:
    """
    Shorten `text` to `width` columns, with a + at the end if something was cut off, as in sacct;
    None: no limit.

    >>> [cut("scratch", 7), cut("scratch", 4), cut("日本", 3), cut("scratch", 0)]
    ['scratch', 'scr+', '日+', '']
    """
    if width is None or measure_width(text) <= width:
        return text
    if width <= 0:
        return ""
    width_so_far = measure_width(text[:width])  # no character takes more than two columns
    end = min(width, len(text))
    while end and width_so_far > width - 1:
        end -= 1
        width_so_far -= _measure_character(text[end])
    while end < len(text) and width_so_far + _measure_character(text[end]) <= width - 1:
        width_so_far += _measure_character(text[end])  # accents, which take none
        end += 1
    return text[:end] + "+"


def pad(text: str, width: int, right: bool = False) -> str:
    """
    Fill `text` with blanks up to `width` columns, at its end or, if `right`, in front.

    >>> [pad("日本", 5), pad("23", 5, right=True)]
    ['日本 ', '   23']
    """
    blanks = " " * (width - measure_width(text))
    return blanks + text if right else text + blanks


def wrap(text: str, width: int, indent: str = "  ") -> list[str]:
    """
    Break `text` at blanks into lines of up to `width` columns; all but the first are indented, and
    longer words are broken, too.

    >>> wrap("23 of 37 nodes reported", 10)
    ['23 of 37', '  nodes', '  reported']
    >>> wrap("日本日本", 5)
    ['日本', '  日', '  本']
    """
    lines, line, is_begun = [], "", False
    blanks = text[:len(text) - len(text.lstrip(" "))][:width // 2]
    indent = (blanks + indent)[:width // 2]
    line = blanks
    for word in text.split():
        if is_begun and measure_width(line) + 1 + measure_width(word) <= width:
            line += " " + word
            continue
        if is_begun:
            lines.append(line)
            line = indent
        while measure_width(line) + measure_width(word) > width:
            part = cut(word, width - measure_width(line) + 1)[:-1] or word[0]
            lines.append(line + part)
            word, line = word[len(part):], indent
        line += word
        is_begun = True
    return [*lines, line]


def draw_share_bar(share: float, width: int, is_ascii: bool = False) -> str:
    """
    Draw a share of 1 as a bar in eighths of a column; a share above 0 is never empty.

    >>> draw_share_bar(0.5, 5), draw_share_bar(0.001, 5), draw_share_bar(0.5, 5, is_ascii=True)
    ('██▌', '▏', '###')
    """
    share = min(1.0, max(0.0, share))
    if is_ascii:
        return "#" * max(int(share * width + 0.5), int(share > 0))
    eighths = max(round(share * width * 8), int(share > 0))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")


def draw_bars(values: Sequence[int], width: int = 60, is_ascii: bool = False) -> str:
    """
    Draw `values` as a line of blocks, up to `width` long; the highest is full, 0 is a blank.

    >>> draw_bars([0, 1, 4, 8]), draw_bars([0, 1, 4, 8], is_ascii=True)
    (' ▁▄█', ' _-#')
    """
    step = count_bins_per_bar(len(values), width)
    columns = [sum(values[place:place + step]) for place in range(0, len(values), step)]
    top, blocks = max(columns, default=0), _ASCII_BARS if is_ascii else _BARS
    return "".join(" " if not value else blocks[max(0, -(-value * 8 // top) - 1)]
                   for value in columns)


def count_bins_per_bar(count: int, width: int = 60) -> int:
    """Return how many of `count` values are added up in each column of `draw_bars`."""
    return max(1, -(-count // width))
