"""
Messages for a person, on standard error: one line each, which a log and grep find whole; on a
terminal it is broken at blanks, at the terminal's width.
"""

from __future__ import annotations

import os
import sys

from iostats.base.errors import sanitize

_INDENT = "  "                          # of the second line and all others


def format_message(text: object, file: int = 2) -> str:
    """The line of a message, with its end; several lines where `file`, a descriptor, is a terminal.
    """
    line = f"iostats: {sanitize(text)}"
    try:
        width = os.get_terminal_size(file).columns if os.isatty(file) else 0
    except OSError:
        width = 0
    if 0 < width < len(line):
        from iostats.base.text import wrap  # which most calls on nodes do not need
        return "".join(part + "\n" for part in wrap(line, max(20, width), _INDENT))
    return line + "\n"


def print_message(text: object) -> None:
    """Print a message on standard error, from any thread."""
    if sys.stderr is None:                              # it was closed when Python began
        return
    # Line and line end in one piece: another thread's line does not get in between.
    print(format_message(text), end="", file=sys.stderr, flush=True)
