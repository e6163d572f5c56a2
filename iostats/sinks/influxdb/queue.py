"""
Points that wait for the database: in a directory of bounded size, and where that cannot be written
some of them in memory.

    DIRECTORY/NUMBER.COUNT.points    COUNT lines of the line protocol, compressed (base.disk_queue)
    DIRECTORY/refused/TIME.txt       lines that the database does not take
"""

from __future__ import annotations

import collections
import os
import threading
import time
import zlib

from iostats.base.disk_queue import Spool, Spooled
from iostats.base.errors import ConfigError, StateError
from iostats.base.private_files import make_or_explain, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    Batch = Union[Spooled, tuple[int, bytes]]       # a file, or (points, data) in memory

_IN_MEMORY = 16 << 20               # bytes, where the directory can't be written


class PointQueue:
    """
    Points that wait; the oldest go when there are more than `most_bytes`, and then ConfigError
    tells where the directory can't be used.  Two threads may use it: one that puts, one that takes.

    Attributes:
        directory: where they wait.
        dropped: points that went for lack of room; `refused`: points put aside.
        trouble: why the directory can't be written, in words; "" when it can.
    """

    def __init__(self, directory: str, most_bytes: int) -> None:
        self.directory, self._most = directory, most_bytes
        self._aside = os.path.join(directory, "refused")
        self.dropped = self.refused = 0
        self.trouble = ""
        self._changed = threading.Condition()
        self._memory: collections.deque[tuple[int, bytes]] = collections.deque()
        try:
            make_or_explain(self._aside, "in site.cfg: [influxdb] spool_dir")
            self._spool = Spool(directory, most_bytes, "[influxdb]", ".points", is_private=False)
        except StateError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"{error.filename or directory}: cannot be used: {error.strerror}; "
                              f"name another directory in site.cfg: [influxdb] spool_dir") from None

    def put(self, lines: list[str]) -> None:
        """Keep points, on the disk when this returns, if that can be."""
        data = zlib.compress("\n".join(lines).encode("utf-8", "backslashreplace"), 1)
        with self._changed:
            # One that is being sent may be counted as dropped, and arrive all the same.
            self.dropped += sum(one.mark for one in self._spool.make_room(data))
        try:
            one = self._spool.write("", len(lines), data)
        except (OSError, StateError) as error:
            with self._changed:
                self.trouble = getattr(error, "strerror", None) or str(error)
                self._memory.append((len(lines), data))
                while sum(len(kept) for _, kept in self._memory) > _IN_MEMORY:
                    self.dropped += self._memory.popleft()[0]
                self._changed.notify_all()
            return
        with self._changed:
            self.trouble = ""
            self._spool.add(one)
            self._changed.notify_all()

    def oldest(self, within_s: float) -> tuple[Batch, list[bytes]] | None:
        """(what it is, its lines) of the oldest points, or None when none come in that time."""
        with self._changed:
            if not len(self._spool) and not self._memory:
                self._changed.wait(within_s)
            one = self._spool.first()
            if one is None:
                if not self._memory:
                    return None
                kept = self._memory[0]
                return kept, zlib.decompress(kept[1]).split(b"\n")
        try:
            return one, zlib.decompress(self._spool.load(one)).split(b"\n")
        except (StateError, zlib.error):
            # Somebody has removed or damaged it; what was in it can't be had any more.
            with self._changed:
                if self._spool.first() is one:
                    self.dropped += one.mark
            self.done(one)
            return None

    def done(self, batch: Batch) -> None:
        """These points are not to be kept any longer."""
        with self._changed:
            if not isinstance(batch, Spooled):
                if self._memory and self._memory[0] is batch:
                    self._memory.popleft()
            elif self._spool.first() is batch:
                self._spool.remove(batch)

    def put_aside(self, lines: list[bytes]) -> None:
        """Keep points that no database takes, for a person to look at; the newest of them."""
        self.refused += len(lines)
        name = f"{time.time_ns():020d}.txt"
        try:
            write_whole(os.path.join(self._aside, name), b"\n".join(lines) + b"\n")
            names = sorted(os.listdir(self._aside), reverse=True)
            size = 0
            for one in names:
                path = os.path.join(self._aside, one)
                size += os.path.getsize(path)
                if size > self._most // 10 and one != name:
                    os.unlink(path)
        except OSError:
            pass                                    # it is counted, and said

    def waiting(self) -> tuple[int, int]:
        """(points, bytes) that wait."""
        with self._changed:
            return (sum(one.mark for one in self._spool) + sum(count for count, _ in self._memory),
                    self._spool.size + sum(len(data) for _, data in self._memory))
