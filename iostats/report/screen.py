"""
Where a report will be read: how wide lines may be, and what may be printed there.

A report asks no terminal; what prints it finds these out (cli/terminal_form.py).
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.errors import one_line
from iostats.base.text import cut, share_bar, width_of, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HEADING, BAR, MARK, ALERT = "heading", "bar", "mark", "alert"
_MARKS = (">= ", "<= ", "~ ")

GRID, PLAIN, MARKDOWN, BLOCKS = "grid", "plain", "markdown", "blocks"

Screen = namedtuple("Screen", "width is_ascii paint form", defaults=(GRID,))
Screen.__doc__ = """
Attributes:
    width: columns of a line, also in a log; Markdown has no limit.
    is_ascii: bars of ASCII.
    form: of tables: GRID, PLAIN, MARKDOWN, or BLOCKS (blocks.py).
    paint: (HEADING, BAR, MARK or ALERT, text) -> the text with the terminal's commands for it; None
        for no colours.
"""

LOG = Screen(80, False, None)        # a file, or a pipe


class Drawn(str):
    """Lines that are fit for the terminal as they are, with its commands."""

    __slots__ = ()


def painted(screen: Screen, style: str, text: str) -> str:
    """`text` made safe, in a style; "" for none; the blanks around it stay as they are."""
    text = one_line(text)
    inner = text.strip(" ")
    if screen.paint is None or not style or not inner:
        return text
    before = text[:len(text) - len(text.lstrip(" "))]
    return f"{before}{screen.paint(style, inner)}{text[len(before) + len(inner):]}"


def with_mark(screen: Screen, text: str) -> str:
    """A number made safe, what is before it painted: >= 23."""
    for mark in _MARKS if screen.paint is not None else ():
        place = text.find(mark)
        if place >= 0 and not text[:place].strip():
            end = place + len(mark)
            return painted(screen, MARK, text[:end]) + painted(screen, "", text[end:])
    return painted(screen, "", text)


def bar_of(screen: Screen, share: float, width: int) -> str:
    """A bar of `width` columns with blanks behind it."""
    text = share_bar(share, width, screen.is_ascii)
    return painted(screen, BAR, text) + " " * (width - width_of(text))


def rule(screen: Screen, text: str) -> Drawn:
    """A line across the screen with a heading in it."""
    line = "-" if screen.is_ascii else "─"
    text = cut(one_line(text), max(1, screen.width - 8))
    left = line * max(0, screen.width - 4 - width_of(text))
    return Drawn(f"{line * 2} {painted(screen, HEADING, text)} {left}")


def finished(parts: Sequence[str], screen: Screen) -> list[str]:
    """Lines of the `parts` of a report, made safe, and wrapped."""
    lines: list[str] = []
    for part in parts:
        for line in part.split("\n"):
            if isinstance(part, Drawn):
                lines.append(line)
                continue
            line = one_line(line)
            is_short = screen.form == MARKDOWN or width_of(line) <= screen.width
            style = _style_of(line)
            lines += [painted(screen, style, one)
                      for one in ([line] if is_short else wrapped(line, screen.width))]
    return lines


def _style_of(line: str) -> str:
    """Of a line that stands by itself: that data was lost, or a heading."""
    if line.startswith(("DATA LOST", "DATA MAY BE LOST")):
        return ALERT
    return HEADING if line.endswith(":") and line[:1].isupper() else ""
