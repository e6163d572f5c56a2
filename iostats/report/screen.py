"""
The output of a report: the width of its lines, and the characters that may be printed.

A report asks no terminal; what prints it finds these out (cli/terminal_form.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.base.text import cut, draw_share_bar, measure_width, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEADING, BAR, MARK, ALERT = "heading", "bar", "mark", "alert"
_MARKS = (">= ", "<= ", "~ ")

GRID, PLAIN, MARKDOWN, BLOCKS = "grid", "plain", "markdown", "blocks"


class Screen(NamedTuple):
    width: int          # columns of a line, also in a log; Markdown has no limit
    is_ascii: bool      # bars of ASCII
    # (HEADING, BAR, MARK or ALERT, text) -> the text with the terminal's commands for it; None for
    # no colours
    paint: Callable[[str, str], str] | None
    form: str = GRID    # of tables: GRID, PLAIN, MARKDOWN, or BLOCKS (blocks.py)


LOG = Screen(80, False, None)        # a file, or a pipe


class Drawn(str):
    """Lines that may contain terminal commands and are printed unchanged."""

    __slots__ = ()


def paint_text(screen: Screen, style: str, text: str) -> str:
    """Return `text` made safe, in a style; "" for none; the blanks around it stay as they are."""
    text = sanitize(text)
    inner = text.strip(" ")
    if screen.paint is None or not style or not inner:
        return text
    before = text[:len(text) - len(text.lstrip(" "))]
    return f"{before}{screen.paint(style, inner)}{text[len(before) + len(inner):]}"


def paint_mark(screen: Screen, text: str) -> str:
    """Paint the mark before a number, as in >= 23, and make the text safe."""
    for mark in _MARKS if screen.paint is not None else ():
        place = text.find(mark)
        if place >= 0 and not text[:place].strip():
            end = place + len(mark)
            return paint_text(screen, MARK, text[:end]) + paint_text(screen, "", text[end:])
    return paint_text(screen, "", text)


def draw_bar(screen: Screen, share: float, width: int) -> str:
    """A bar of `width` columns with blanks behind it."""
    text = draw_share_bar(share, width, screen.is_ascii)
    return paint_text(screen, BAR, text) + " " * (width - measure_width(text))


def draw_rule(screen: Screen, text: str) -> Drawn:
    """A line across the screen with a heading in it."""
    line = "-" if screen.is_ascii else "─"
    text = cut(sanitize(text), max(1, screen.width - 8))
    left = line * max(0, screen.width - 4 - measure_width(text))
    return Drawn(f"{line * 2} {paint_text(screen, HEADING, text)} {left}")


def finish_lines(parts: Sequence[str], screen: Screen) -> list[str]:
    """Lines of the `parts` of a report, made safe, and wrapped."""
    lines: list[str] = []
    for part in parts:
        for line in part.split("\n"):
            if isinstance(part, Drawn):
                lines.append(line)
                continue
            line = sanitize(line)
            is_short = screen.form == MARKDOWN or measure_width(line) <= screen.width
            style = _find_style(line)
            lines += [paint_text(screen, style, text)
                      for text in ([line] if is_short else wrap(line, screen.width))]
    return lines


def _find_style(line: str) -> str:
    """Return the style of a line: ALERT for lost data, HEADING for a heading, ""."""
    if line.startswith(("DATA LOST", "DATA MAY BE LOST")):
        return ALERT
    return HEADING if line.endswith(":") and line[:1].isupper() else ""
