"""
The store's files on the disk: made in one step, and checked to be still those that were opened.

SQLite reports no error when its file was removed or truncated while it was open: what is written
then is lost.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time

from iostats.base.errors import StateError
from iostats.base.private_files import make_directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

REPAIR_HINT = "`iostats store` says what is lost, and what to do"
ENDS = ("", "-wal", "-shm", "-journal")


def make(path: str, prepare: Callable[[sqlite3.Connection], object]) -> None:
    """
    Make a new store at `path`, with what `prepare` puts into it; nothing where there is one.

    It appears complete or not at all: an empty file is never one of ours.
    """
    make_directories(os.path.dirname(path))
    if os.path.lexists(path):
        return
    beside = f"{path}.{os.urandom(8).hex()}.new"
    try:
        os.close(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        new = sqlite3.connect(beside, isolation_level=None)
        try:
            prepare(new)
        finally:
            new.close()
        with contextlib.suppress(FileExistsError):             # another server was faster
            os.link(beside, path)
        directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        for end in ENDS:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside + end)


class OpenFiles:
    """The files of an open store: the database and its write-ahead log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files: dict[str, tuple[int, int]] = {}           # its end -> device, inode
        self._size = 0
        self.check()

    def check(self) -> None:
        """StateError where one of them was removed, replaced or truncated."""
        for end in ("", "-wal"):
            try:
                found = os.stat(self._path + end)
            except FileNotFoundError:
                if end in self._files:
                    raise StoreRemoved(f"{self._path}{end}: was removed while the server has it "
                                       f"open") from None
                continue
            if self._files.setdefault(end, (found.st_dev, found.st_ino)) != (
                    found.st_dev, found.st_ino):
                raise StoreRemoved(f"{self._path}{end}: another file was put in its place while "
                                   f"the server has it open")
            if not end:
                if found.st_size < self._size:
                    raise StateError(f"{self._path}: was truncated from {self._size} to "
                                     f"{found.st_size} bytes while the server has it open; nothing "
                                     f"more is acknowledged; stop the server; {REPAIR_HINT}")
                self._size = found.st_size


class StoreRemoved(StateError):
    """The file was removed or replaced; what is in it can still be read through the open one."""


def rescue(file: sqlite3.Connection, path: str) -> str:
    """Copy a removed store to a file beside it; a message that says where, or why not."""
    beside = f"{path}.rescued-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        os.close(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        copy = sqlite3.connect(beside)
        try:
            file.backup(copy)
        finally:
            copy.close()
    except (OSError, sqlite3.Error) as error:
        return (f"nothing more is acknowledged, and what it had could not be copied ({error}); "
                f"stop the server, and restore the file from a backup")
    return (f"nothing more is acknowledged; all of it was copied to {beside}: stop the server, "
            f"move that to {path}, and start it")
