"""
The live table of `iostats top` on a terminal: it is drawn again every few seconds, and reacts to
keys.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import signal
import sys
import termios
import threading
import time
import tty
from typing import TYPE_CHECKING

from iostats.base.errors import DONE, IostatsError, sanitize
from iostats.base.text import cut
from iostats.load import levels, table
from iostats.load.amounts import LATENCY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from rich.live import Live

    from iostats.cli.top import LoadSource, View
    from iostats.load.answer import Answer
    from iostats.load.ranking import LoadQuery

    Asked = tuple[LoadQuery, Answer]      # and its answer
    Line = tuple[str, str]                        # and rich's style

_SORT_OF = {"w": "write", "r": "read", "i": "requests", "m": "metadata"}
_SHOW_OF = {"o": "open", "c": "close", "g": "getattr", "a": "setattr", "x": "getxattr",
            "d": "unlink", "y": "sync", "l": LATENCY}
_BY_OF = {level.key: level.name for level in levels.OF_TOP if level.key}
_KEYS = (f"{' '.join(_SORT_OF)} sort  {''.join(_SHOW_OF)} show  % share  {' '.join(_BY_OF)} by  "
         f"/ find  f fs  q quit")
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_ESCAPE_SEQUENCES = re.compile("\x1b(?:\\[[0-9;?]*.?|O.)")
_MAX_TEXT = 100


class Fetcher(threading.Thread):
    """
    Fetches answers in the background, so that keys and signals never wait for a disk or a network.
    """

    def __init__(self, source: LoadSource, query: LoadQuery, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._source, self._wake = source, wake
        self._changed = threading.Condition()
        self._query, self._is_due = query, True
        self.fetched: Asked | None = None
        self.failure: BaseException | None = None

    def request(self, query: LoadQuery, is_urgent: bool = False) -> None:
        """Fetch another query; `is_urgent`: with a new reading."""
        with self._changed:
            self._query, self._is_due = query, self._is_due or is_urgent
            self._changed.notify()

    def run(self) -> None:
        read_at, answered_query = float("-inf"), None
        while True:
            with self._changed:
                while not self._is_due and self._query == answered_query:
                    left = read_at + self._source.every_s - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                due = self._is_due or time.monotonic() - read_at >= self._source.every_s
                query, self._is_due = self._query, False
            try:
                if due:
                    read_at = time.monotonic()
                    waits = self._source.scan()
                if not waits:
                    self.fetched = query, self._source.answer(query)
                self.failure = None
            except BaseException as error:          # shown, or raised, by the drawing thread
                self.failure = error
            answered_query = query
            self._wake()


class LiveTable:
    """The table on a terminal, until q or a signal; the terminal is restored in any case."""

    def __init__(self, source: LoadSource, query: LoadQuery, view: View) -> None:
        self._source, self._query, self._view = source, query, view
        self._names: list[str] = []                 # of the file systems
        self._typed: str | None = None              # a text that is being typed after /
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._signals: list[int] = []

    def run(self) -> int:
        """Run until q or a signal; the exit status."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.set_blocking(reading, False)

        def wake() -> None:
            with contextlib.suppress(BlockingIOError):
                os.write(writing, b".")

        def note(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)
        before = {number: signal.signal(number, note)
                  for number in (*_END_SIGNALS, signal.SIGWINCH, signal.SIGTSTP)}
        woken_by = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._fetcher = Fetcher(self._source, self._query, wake)
        try:
            self._fetcher.start()
            while True:
                with self._open_terminal() as live:
                    number = self._watch(live, reading)
                if number != signal.SIGTSTP:
                    return DONE if number in (None, signal.SIGINT) else 128 + number
                os.kill(os.getpid(), signal.SIGSTOP)         # until `fg`
        finally:
            signal.set_wakeup_fd(woken_by)
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def _open_terminal(self) -> Iterator[Live]:
        from rich.console import Console
        from rich.live import Live
        saved = termios.tcgetattr(self._keys) if self._keys is not None else []
        live = Live(console=Console(file=sys.stdout, highlight=False), screen=True,
                    auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        try:
            if self._keys is not None:
                tty.setcbreak(self._keys)
            live.start()
            yield live
        finally:
            try:
                live.stop()
            finally:
                if self._keys is not None:
                    termios.tcsetattr(self._keys, termios.TCSADRAIN, saved)

    def _watch(self, live: Live, reading: int) -> int | None:
        """Draw, and handle keys, until a signal (its number) or q (None)."""
        while True:
            self._draw(live)
            files = [reading] if self._keys is None else [reading, self._keys]
            ready, _, _ = select.select(files, [], [])
            if reading in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(reading, 4096)
            while self._signals:
                number = self._signals.pop(0)
                if number != signal.SIGWINCH:
                    return number
            if self._keys in ready and not self._handle_keys(os.read(self._keys, 1024)):
                return None

    # -- keys

    def _handle_keys(self, data: bytes) -> bool:
        """Handle keys; False for the end."""
        if not data:
            return False                            # the terminal is closed
        # Keys without a character send Esc and more; Esc itself is a single character.
        text = _ESCAPE_SEQUENCES.sub("", self._decode(data))
        before = self._query
        for key in text:
            if key == "\x1b":
                self._typed = None
            elif self._typed is not None:
                self._edit_text(key, self._typed)
            elif key in ("q", "Q", "\x04"):
                return False
            elif key in _SORT_OF:
                self._query = self._query._replace(sort=_SORT_OF[key])
            elif key in _SHOW_OF:
                self._toggle_column(_SHOW_OF[key])
            elif key == "%":
                self._view.shares = not self._view.shares
            elif key in _BY_OF:
                self._choose_level(_BY_OF[key])
            elif key == "f":
                names = ["", *self._names]
                now = self._query.file_system
                at = names.index(now) if now in names else 0
                self._query = self._query._replace(file_system=names[(at + 1) % len(names)])
            elif key == "/":
                self._typed = self._query.text
            elif key == " ":
                self._fetcher.request(self._query, is_urgent=True)
        if self._query != before:
            self._fetcher.request(self._query)
        return True

    def _toggle_column(self, column: str) -> None:
        """Show a column and sort by it; or hide it."""
        show, sort = self._query.show, column
        if column in show:
            show = tuple(shown for shown in show if shown != column)
            sort = "write" if self._query.sort == column else self._query.sort
        else:
            show = (*show, column)
        self._query = self._query._replace(show=show, sort=sort)

    def _choose_level(self, level: str) -> None:
        if level not in self._source.lacks:
            self._query = self._query._replace(by=level)

    def _edit_text(self, key: str, typed: str) -> None:
        if key in "\r\n":
            self._query, self._typed = self._query._replace(text=typed.strip()), None
        elif key in "\x7f\b":
            self._typed = typed[:-1]
        elif key == "\x15":                         # Ctrl-U
            self._typed = ""
        elif key.isprintable() and len(typed) < _MAX_TEXT:
            self._typed = typed + key

    # -- the screen

    def _draw(self, live: Live) -> None:
        from rich.text import Text
        try:
            width, height = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            width, height = 80, 24
        width, height = width or 80, height or 24
        lines = self._format_lines(width, height)
        live.console.size = width, height
        text = Text(no_wrap=True, overflow="crop", end="")
        for place, (line, style) in enumerate(lines[:height]):
            text.append("\n" * (place > 0))
            text.append(line, style)
        live.update(text, refresh=True)

    def _format_lines(self, width: int, height: int) -> list[Line]:
        """Return [(line, rich's style)], as many as the terminal has."""
        fetched, failure = self._fetcher.fetched, self._fetcher.failure
        if failure is not None and not isinstance(failure, IostatsError):
            raise failure                            # an internal error
        if fetched is None and isinstance(failure, IostatsError):
            raise failure
        below = self._draw_footer(width, failure)
        if fetched is None:
            lines = [(cut("reading ...", width), "")]
        else:
            answer = fetched[1]
            if not answer["file_system"]:
                self._names = [fs["file_system"] for fs in answer["file_systems"]]
            lines = self._format_table(answer, width, height - len(below))
        lines += [("", "")] * (height - len(below) - len(lines))
        return lines[:max(0, height - len(below))] + below

    def _format_table(self, answer: Answer, width: int, height: int) -> list[Line]:
        def parts(max_rows: int) -> tuple[str, str, list[str], list[str], list[str]]:
            return table.parts(answer, width, self._view.units, self._view.labels, max_rows,
                               self._source.origin, self._view.shares)
        max_rows = self._query.count if self._view.is_counted else height
        while True:
            title, heading, sums, rows, notes = parts(max_rows)
            room = max(0, height - 2 - len(sums) - min(len(notes) or 1, 4))
            if len(rows) <= room:
                break
            max_rows = room                             # a note has the number of the others
        return [(title, "bold"), (heading, "reverse"), *((line, "bold") for line in sums),
                *((line, "") for line in rows), *((line, "dim") for line in notes[:4])]

    def _draw_footer(self, width: int, failed: BaseException | None) -> list[Line]:
        lines = []
        if failed is not None:
            lines.append((cut(sanitize(f"{failed}; trying again"), width), "bold"))
        if self._typed is not None:
            lines.append((cut(f"rows with: {self._typed}_", width), "reverse"))
        else:
            lines.append((cut(_KEYS, width), "reverse"))
        return lines
