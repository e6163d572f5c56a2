"""
The properties of a terminal, or a file, for a report: width, characters, colours.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from iostats.cli.parser import can_show_colours
from iostats.report.screen import ALERT, BAR, HEADING, LOG, MARK, Screen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TextIO

_WIDTH = 80
_STYLES = {HEADING: "bold", BAR: "cyan", MARK: "yellow", ALERT: "bold red"}
# The console of Linux has a font of 256 or 512 characters, of which few are blocks.
_WITHOUT_BLOCKS = ("linux", "vt100", "vt220", "dumb")


def detect_screen(stream: TextIO | None) -> Screen:
    """The Screen of a stream: a terminal, or else a log, which is plain, such as a file (None)."""
    if stream is None or not stream.isatty():
        return LOG._replace(is_ascii=not _has_block_characters(os.environ, stream),
                            width=_query_columns(None) if stream else _WIDTH)
    lacks_blocks = os.environ.get("TERM", "dumb") in _WITHOUT_BLOCKS
    return Screen(_query_columns(stream),
                  lacks_blocks or not _has_block_characters(os.environ, stream),
                  _make_painter() if can_show_colours(stream) else None)


def _query_columns(stream: TextIO | None) -> int:
    """Return COLUMNS, or else the number of columns of a terminal."""
    text = os.environ.get("COLUMNS", "")
    if text.isascii() and text.isdigit() and 0 < int(text[:5]) < 10_000:
        return int(text)
    columns = 0
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            columns = os.get_terminal_size(stream.fileno()).columns
    return columns or _WIDTH


def _has_block_characters(environment: Mapping[str, str], stream: TextIO | None) -> bool:
    """Whether locale and encoding are UTF-8: Python takes UTF-8 for the locale C."""
    locale = next(filter(None, map(environment.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    encoding = "utf-8" if stream is None else stream.encoding or ""
    return all(name.lower().replace("-", "").endswith("utf8")
               for name in (locale.partition("@")[0], encoding))


def _make_painter() -> Callable[[str, str], str]:
    """A function that colours texts by rich, which is imported for terminals only."""
    from rich.color import ColorSystem
    from rich.style import Style
    styles = {name: Style.parse(text) for name, text in _STYLES.items()}
    return lambda name, text: styles[name].render(text, color_system=ColorSystem.STANDARD)
