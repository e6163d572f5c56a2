"""
Points that wait for the database, in a directory of bounded size.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import threading
import time
import zlib

from iostats.base.errors import ConfigError
from iostats.base.private_files import make_directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    Kept = Union[str, tuple[int, bytes]]                   # a file, or (points, data) in memory

_IN_MEMORY = 16 << 20               # where the directory can't be written
_FILE = ".points"
_is_ours = re.compile(r"\d{15}\.\d+\.points").fullmatch


class PointQueue:
    """
    Points that wait, in a directory: files NUMBER.COUNT.points, compressed, the oldest first.

    `most_bytes`: so much at most; when it is full the oldest points go.  Where the directory can't
    be written some are kept in memory.  Two threads may use it: one that puts, one that takes.

    Attributes:
        dropped: points that went since there was no room; `refused`: points put aside.
        trouble: why the directory can't be written, in words; "" when it can.
    """

    def __init__(self, directory: str, most_bytes: int) -> None:
        self.directory, self._most = directory, most_bytes
        self._aside = os.path.join(directory, "refused")
        self.dropped = self.refused = 0
        self.trouble = ""
        self._lock = threading.Condition()
        self._memory: collections.deque[tuple[int, bytes]] = collections.deque()   # (points, data)
        self._taken = None
        try:
            make_directories(self._aside)
            for name in os.listdir(directory):
                if name.endswith(".new"):
                    os.unlink(os.path.join(directory, name))
            self._files = collections.deque(
                (name, os.path.getsize(os.path.join(directory, name)))
                for name in sorted(os.listdir(directory)) if _is_ours(name))
        except OSError as error:
            raise ConfigError(f"{error.filename or directory}: cannot be used: {error.strerror}; "
                              "name "
                              f"another directory ([influxdb] spool_dir in site.cfg)") from None
        self._bytes = sum(size for _, size in self._files)
        self._number = int(self._files[-1][0].split(".")[0]) if self._files else 0

    def put(self, lines: list[str]) -> None:
        """Keep points, on the disk when this returns, if that can be."""
        data = zlib.compress("\n".join(lines).encode("utf-8", "backslashreplace"), 1)
        self._number += 1
        name = f"{self._number:015d}.{len(lines)}{_FILE}"
        try:
            _write(os.path.join(self.directory, name), data)
        except OSError as error:
            with self._lock:
                self.trouble = error.strerror or str(error)
                self._memory.append((len(lines), data))
                while sum(len(kept) for _, kept in self._memory) > _IN_MEMORY:
                    self.dropped += self._memory.popleft()[0]
                self._lock.notify_all()
            return
        with self._lock:
            self.trouble = ""
            self._files.append((name, len(data)))
            self._bytes += len(data)
            self._make_room()
            self._lock.notify_all()

    def _make_room(self) -> None:
        while self._bytes > self._most and len(self._files) > 1:
            # The one that is being sent may be counted as dropped, and arrive all the same.
            name, size = self._files.popleft()
            self._bytes -= size
            self.dropped += _points_of(name)
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.directory, name))

    def oldest(self, within_s: float) -> tuple[Kept, list[bytes]] | None:
        """(what it is, its lines) of the oldest points, or None when none come in that time."""
        with self._lock:
            if not self._files and not self._memory:
                self._lock.wait(within_s)
            if self._files:
                name = self._files[0][0]
            elif self._memory:
                kept = self._memory[0]
                return kept, zlib.decompress(kept[1]).split(b"\n")
            else:
                return None
        try:
            with open(os.path.join(self.directory, name), "rb") as file:
                return name, zlib.decompress(file.read()).split(b"\n")
        except (OSError, zlib.error):
            # Somebody has removed or damaged it; what was in it can't be had any more.
            with self._lock:
                if self._files and self._files[0][0] == name:
                    self.dropped += _points_of(name)
            self.done(name)
            return None

    def done(self, what: Kept) -> None:
        """These points are not to be kept any longer."""
        with self._lock:
            if isinstance(what, tuple):
                if self._memory and self._memory[0] is what:
                    self._memory.popleft()
                return
            if self._files and self._files[0][0] == what:
                self._bytes -= self._files.popleft()[1]
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.directory, what))

    def put_aside(self, lines: list[bytes]) -> None:
        """Keep points that no database takes, for a person to look at; the newest of them."""
        self.refused += len(lines)
        name = f"{time.time_ns():020d}.txt"
        try:
            _write(os.path.join(self._aside, name), b"\n".join(lines) + b"\n")
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
        with self._lock:
            return (sum(_points_of(name) for name, _ in self._files)
                    + sum(points for points, _ in self._memory),
                    self._bytes + sum(len(data) for _, data in self._memory))


def _points_of(name: str) -> int:
    return int(name.split(".")[1])


def _write(path: str, data: bytes) -> None:
    beside = path + ".new"
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
