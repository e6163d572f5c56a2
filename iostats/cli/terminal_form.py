"""
What a report can be on this terminal, or in this file: its width, its characters, its colours.
"""

from __future__ import annotations

import contextlib
import os

from iostats.cli.parser import has_colours
from iostats.report.screen import ALERT, BAR, HEADING, LOG, MARK, Screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TextIO

_WIDTH = 80
_STYLES = {HEADING: "bold", BAR: "cyan", MARK: "yellow", ALERT: "bold red"}
# The console of Linux has a font of 256 or 512 characters, of which few are blocks.
_WITHOUT_BLOCKS = ("linux", "vt100", "vt220", "dumb")


def screen_of(stream: TextIO | None) -> Screen:
    """
    The screen that a stream is: a terminal, or else a log, which is plain, as a file is (None).
    """
    if stream is None or not stream.isatty():
        return LOG._replace(is_ascii=not _has_blocks(os.environ, stream),
                            width=_columns(None) if stream else _WIDTH)
    lacks_blocks = os.environ.get("TERM", "dumb") in _WITHOUT_BLOCKS
    return Screen(_columns(stream), lacks_blocks or not _has_blocks(os.environ, stream),
                  _painter() if has_colours(stream) else None)


def _columns(stream: TextIO | None) -> int:
    """COLUMNS, or else the columns of a terminal."""
    text = os.environ.get("COLUMNS", "")
    if text.isascii() and text.isdigit() and 0 < int(text[:5]) < 10_000:
        return int(text)
    found = 0
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            found = os.get_terminal_size(stream.fileno()).columns
    return found or _WIDTH


def _has_blocks(environment: Mapping[str, str], stream: TextIO | None) -> bool:
    """Whether locale and encoding are UTF-8: Python takes UTF-8 for the locale C."""
    locale = next(filter(None, map(environment.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    encoding = "utf-8" if stream is None else stream.encoding or ""
    return all(name.lower().replace("-", "").endswith("utf8")
               for name in (locale.partition("@")[0], encoding))


def _painter() -> Callable[[str, str], str]:
    """What paints texts by rich, which is imported for terminals alone."""
    from rich.color import ColorSystem
    from rich.style import Style
    styles = {name: Style.parse(text) for name, text in _STYLES.items()}
    return lambda name, text: styles[name].render(text, color_system=ColorSystem.STANDARD)
