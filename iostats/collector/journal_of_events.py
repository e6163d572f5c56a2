"""
What a collector keeps over its restarts: a file of lines, appended to, written anew when it has
become long.

    {"places": "1795370000.7f3a"}                       the numbering of places; the first line
    {"place": 23, "tick": 1795370041, "told": 0, "event": {...}}
    {"stamps": 1795370120}                              time stamps up to this may have been given
    {"next": 4711, "of": "..."}                         of the site's server: where to go on

It is for the death of the process: nothing is synced.  A line that was not written to its end, or
that cannot be understood, is left out.
"""

from __future__ import annotations

import fcntl
import json
import os
from itertools import chain

from iostats.base import strict_json
from iostats.base.errors import IostatsError, StateError
from iostats.base.private_files import open_regular, write_whole
from iostats.collector.kept import CollectedEvent, KeptEvents
from iostats.events import event as events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

FILE = "events.journal"
_AHEAD_S = 60                       # time stamps that are written down before they are given
_LONGEST_LINE, _LEAST_BYTES = 1 << 16, 1 << 20


class EventsJournal:
    """
    KeptEvents that outlast the process.

    Attributes:
        kept: the KeptEvents.
        places: names the numbering of places.
        next, of: of the site's server: behind which place to go on, and its own `places`.
    """

    def __init__(self, directory: str, keep: int, clock: Callable[[], float],
                 say: Callable[[str], None]) -> None:
        """
        Go on with what is in `directory`; "": in memory alone.  `say`: takes a line for the
        administrator where the directory cannot be used.  StateError where the file is another's.
        """
        self._path = os.path.join(directory, FILE) if directory else ""
        self._clock, self._say, self._file, self._size = clock, say, -1, 0
        self._most = 0                                 # bytes, after which it is written anew
        self.kept = KeptEvents(keep, clock())
        self.places = f"{int(clock())}.{os.urandom(4).hex()}"
        self.next, self.of, self._stamps = 0, "", 0
        self._lock = -1
        if self._path:
            self._lock = _locked(directory)
            self._read()
            self._write_anew()

    def take(self, found: Iterable[events.Event], next: int | None = None,
             of: str = "") -> list[CollectedEvent]:
        """Keep events, and where to go on, as one; those that are new or have grown."""
        now, stamps = self.kept.take(found, self._clock()), []
        if next is not None and (next, of) != (self.next, self.of):
            self.next, self.of = next, of
            stamps.append({"next": next, "of": of})
        self._append([*map(_line_of, now), *stamps])
        return now

    def stamp(self) -> int:
        """A time stamp for an answer with all that is kept, written down before it is given."""
        stamp = self.kept.stamp(self._clock())
        if stamp > self._stamps:
            self._stamps = stamp + _AHEAD_S
            self._append([{"stamps": self._stamps}])
        return stamp

    def close(self) -> None:
        """Keep nothing more, and let another collector have the directory."""
        self._close_file()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, lines: list[dict[str, Any]]) -> None:
        if self._file < 0 or not lines:
            return
        data = b"".join(map(_encoded, lines))
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError(28, "No space left on device")
        except OSError as error:
            self._give_up(error)
            return
        self._size += len(data)
        if self._size > self._most:
            self._write_anew()

    def _write_anew(self) -> None:
        lines = chain(({"places": self.places},), map(_line_of, self.kept),
                      ({"stamps": self._stamps}, {"next": self.next, "of": self.of}))
        try:
            write_whole(self._path, map(_encoded, lines))
            self._close_file()
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self._size = os.fstat(self._file).st_size
            self._most = _LEAST_BYTES + 2 * self._size
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Go on in memory alone; what is not in the file is told anew after a restart."""
        self._close_file()
        self._say(f"{self._path}: cannot be written: {error.strerror}; events are kept in memory "
                  f"alone, and a restart forgets what was told (see [collector] state_dir)")

    def _read(self) -> None:
        try:
            with open(open_regular(self._path), "rb") as file:
                while True:
                    line = file.readline(_LONGEST_LINE)
                    if not line:
                        break
                    self._take_text(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StateError(f"{self._path}: cannot be read: {error.strerror}; expected a file of "
                             f"an earlier collector, or none") from None
        if self._stamps:
            self.kept.go_on_behind(self._stamps)

    def _take_text(self, line: bytes) -> None:
        try:
            self._take_line(strict_json.loads(line))
        except (ValueError, LookupError, TypeError, RecursionError, IostatsError):
            pass

    def _take_line(self, line: dict[str, Any]) -> None:
        if "event" in line:
            self.kept.restore(CollectedEvent(_count(line["place"]), _count(line["tick"]),
                                   events.from_json(line["event"]), _count(line["told"])))
        elif "stamps" in line:
            self._stamps = max(self._stamps, _count(line["stamps"]))
        elif "places" in line:
            self.places = str(line["places"])[:80]
        elif "next" in line:
            self.next, self.of = _count(line["next"]), str(line["of"])[:80]


def _locked(directory: str) -> int:
    """A handle of `directory`, which keeps others out of it; StateError."""
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StateError(f"{directory}: cannot be used: {error.strerror}; make it, owned by the "
                         f"collector's user, or name another: [collector] state_dir") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StateError(f"{directory}: another collector uses it; give each its own: [collector] "
                         f"state_dir") from None
    return handle


def _line_of(one: CollectedEvent) -> dict[str, Any]:
    return {"place": one.place, "tick": one.tick, "told": one.told,
            "event": events.as_json(one.event)}


def _encoded(line: dict[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, allow_nan=False,
                      separators=(",", ":")).encode() + b"\n"


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError
    return value
