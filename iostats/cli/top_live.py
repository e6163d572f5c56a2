"""
The live table of `iostats top` on a terminal: it is drawn anew every few seconds, and takes keys.
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

from iostats.base.errors import DONE, IostatsError, one_line
from iostats.base.text import cut
from iostats.load import levels, table
from iostats.load.amounts import LATENCY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

    from rich.live import Live

    from iostats.cli.top import LoadSource, View
    from iostats.load.ranking import LoadQuery

    Asked = tuple[LoadQuery, dict[str, Any]]      # and its answer
    Line = tuple[str, str]                        # and rich's style

_SORT_OF = {"w": "write", "r": "read", "i": "requests", "m": "metadata"}
_SHOW_OF = {"o": "open", "c": "close", "g": "getattr", "a": "setattr", "x": "getxattr",
            "d": "unlink", "y": "sync", "l": LATENCY}
_BY_OF = {level.key: level.name for level in levels.OF_TOP if level.key}
_KEYS = (f"{' '.join(_SORT_OF)} sort  {''.join(_SHOW_OF)} show  % share  {' '.join(_BY_OF)} by  "
         f"/ find  f fs  q quit")
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NO_LETTER = re.compile("\x1b(?:\\[[0-9;?]*.?|O.)")
_LONGEST_TEXT = 100


class Fetcher(threading.Thread):
    """Asks in the background, so that keys and signals never wait for a disk or a network."""

    def __init__(self, source: LoadSource, ask: LoadQuery, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._source, self._wake = source, wake
        self._changed = threading.Condition()
        self._ask, self._is_due = ask, True
        self.found: Asked | None = None
        self.failed: BaseException | None = None

    def want(self, ask: LoadQuery, now: bool = False) -> None:
        """Another question; `now`: and look again for it."""
        with self._changed:
            self._ask, self._is_due = ask, self._is_due or now
            self._changed.notify()

    def run(self) -> None:
        looked_at, asked = float("-inf"), None
        while True:
            with self._changed:
                while not self._is_due and self._ask == asked:
                    left = looked_at + self._source.every_s - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                due = self._is_due or time.monotonic() - looked_at >= self._source.every_s
                ask, self._is_due = self._ask, False
            try:
                if due:
                    looked_at = time.monotonic()
                    waits = self._source.look()
                if not waits:
                    self.found = ask, self._source.answer(ask)
                self.failed = None
            except BaseException as error:          # shown, or raised, by the one who draws
                self.failed = error
            asked = ask
            self._wake()


class LiveTable:
    """The table on a terminal, until q or a signal; the terminal is given back in any case."""

    def __init__(self, source: LoadSource, ask: LoadQuery, view: View) -> None:
        self._source, self._ask, self._view = source, ask, view
        self._names: list[str] = []                 # of the file systems
        self._typed: str | None = None              # a text that is just typed after /
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._signals: list[int] = []

    def run(self) -> int:
        """Go on until it is over; the exit status."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        os.set_blocking(reading, False)

        def wake() -> None:
            with contextlib.suppress(BlockingIOError):
                os.write(writing, b".")

        def note(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)
        before = {number: signal.signal(number, note)
                  for number in (*_ENDING, signal.SIGWINCH, signal.SIGTSTP)}
        woken_by = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._fetcher = Fetcher(self._source, self._ask, wake)
        try:
            self._fetcher.start()
            while True:
                with self._terminal() as live:
                    number = self._watch(live, reading)
                if number != signal.SIGTSTP:
                    return DONE if number in (None, signal.SIGINT) else 128 + number
                os.kill(os.getpid(), signal.SIGSTOP)         # until `fg`
        finally:
            signal.set_wakeup_fd(woken_by)
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def _terminal(self) -> Iterator[Live]:
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
        """Draw, and take keys, until a signal (its number) or q (None)."""
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
            if self._keys in ready and not self._take(os.read(self._keys, 1024)):
                return None

    # -- keys

    def _take(self, data: bytes) -> bool:
        """Do what the keys say; False for the end."""
        if not data:
            return False                            # the terminal is gone
        # Keys that have no letter come as Esc and more; Esc itself comes alone.
        text = _NO_LETTER.sub("", self._decode(data))
        before = self._ask
        for key in text:
            if key == "\x1b":
                self._typed = None
            elif self._typed is not None:
                self._type(key, self._typed)
            elif key in ("q", "Q", "\x04"):
                return False
            elif key in _SORT_OF:
                self._ask = self._ask._replace(sort=_SORT_OF[key])
            elif key in _SHOW_OF:
                self._show(_SHOW_OF[key])
            elif key == "%":
                self._view.shares = not self._view.shares
            elif key in _BY_OF:
                self._choose(_BY_OF[key])
            elif key == "f":
                names = ["", *self._names]
                now = self._ask.file_system
                at = names.index(now) if now in names else 0
                self._ask = self._ask._replace(file_system=names[(at + 1) % len(names)])
            elif key == "/":
                self._typed = self._ask.text
            elif key == " ":
                self._fetcher.want(self._ask, now=True)
        if self._ask != before:
            self._fetcher.want(self._ask)
        return True

    def _show(self, what: str) -> None:
        """One more column, by which is sorted; or one less."""
        show, sort = self._ask.show, what
        if what in show:
            show = tuple(one for one in show if one != what)
            sort = "write" if self._ask.sort == what else self._ask.sort
        else:
            show = (*show, what)
        self._ask = self._ask._replace(show=show, sort=sort)

    def _choose(self, by: str) -> None:
        if by not in self._source.lacks:
            self._ask = self._ask._replace(by=by)

    def _type(self, key: str, typed: str) -> None:
        if key in "\r\n":
            self._ask, self._typed = self._ask._replace(text=typed.strip()), None
        elif key in "\x7f\b":
            self._typed = typed[:-1]
        elif key == "\x15":                         # Ctrl-U
            self._typed = ""
        elif key.isprintable() and len(typed) < _LONGEST_TEXT:
            self._typed = typed + key

    # -- the screen

    def _draw(self, live: Live) -> None:
        from rich.text import Text
        try:
            width, height = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            width, height = 80, 24
        width, height = width or 80, height or 24
        lines = self._lines(width, height)
        live.console.size = width, height
        text = Text(no_wrap=True, overflow="crop", end="")
        for place, (line, style) in enumerate(lines[:height]):
            text.append("\n" * (place > 0))
            text.append(line, style)
        live.update(text, refresh=True)

    def _lines(self, width: int, height: int) -> list[Line]:
        """[(line, rich's style)], as many as the terminal has."""
        found, failed = self._fetcher.found, self._fetcher.failed
        if failed is not None and not isinstance(failed, IostatsError):
            raise failed                            # an internal error
        if found is None and isinstance(failed, IostatsError):
            raise failed
        below = self._footer(width, failed, found)
        if found is None:
            lines = [(cut("reading ...", width), "")]
        else:
            answer = found[1]
            if not answer["file_system"]:
                self._names = [fs["file_system"] for fs in answer["file_systems"]]
            lines = self._table(answer, width, height - len(below))
        lines += [("", "")] * (height - len(below) - len(lines))
        return lines[:max(0, height - len(below))] + below

    def _table(self, answer: dict[str, Any], width: int, height: int) -> list[Line]:
        def parts(most: int) -> Any:
            return table.parts(answer, width, self._view.units, self._view.labels, most,
                               self._source.origin, self._view.shares)
        most = self._ask.count if self._view.is_counted else height
        while True:
            title, heading, sums, rows, notes = parts(most)
            room = max(0, height - 2 - len(sums) - min(len(notes) or 1, 4))
            if len(rows) <= room:
                break
            most = room                             # a note will say how many more there are
        return [(title, "bold"), (heading, "reverse"), *((line, "bold") for line in sums),
                *((line, "") for line in rows), *((line, "dim") for line in notes[:4])]

    def _footer(self, width: int, failed: BaseException | None, found: Asked | None) -> list[Line]:
        lines = []
        if failed is not None:
            lines.append((cut(one_line(f"{failed}; trying again"), width), "bold"))
        if self._typed is not None:
            lines.append((cut(f"rows with: {self._typed}_", width), "reverse"))
        else:
            lines.append((cut(_KEYS, width), "reverse"))
        return lines
