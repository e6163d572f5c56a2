"""
SQLite as the engine of a store: one file that only this process has open.

The file is made in one step, and each commit checks that it is still the one that was opened:
SQLite reports no error when its open file is removed or truncated by another program, and later
writes are lost.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Mapping

from iostats.base.errors import StateError
from iostats.base.free_space import explain_full, find_existing_part, find_mount_point
from iostats.base.private_files import make_directories
from iostats.store import schema
from iostats.store.write_errors import REPAIR_HINT, StoreLost

ENDS = ("", "-wal", "-shm", "-journal")

def open_store(path: str) -> SqliteConnection:
    """The store at `path`, which is made if it is not there, and upgraded; StateError."""
    connection = None
    try:
        _make(path)
        if not os.path.getsize(path):
            raise StateError(f"{path}: is empty: it was truncated, or another program made it; "
                             f"{REPAIR_HINT}")
        connection = sqlite3.connect(path, timeout=0, isolation_level=None,
                                     factory=SqliteConnection)
        connection.prepare(path)
        return connection
    except (sqlite3.Error, UnicodeDecodeError, StateError, OSError) as error:
        if connection is not None:
            connection.close()
        raise _explain_open_error(path, error) from None


def _explain_open_error(path: str, error: Exception) -> StateError:
    if isinstance(error, StateError):
        return error
    if isinstance(error, OSError):
        return StateError(f"{path}: cannot be opened: {error.strerror}; name another in site.cfg, "
                          f"[site] store")
    if isinstance(error, sqlite3.OperationalError):
        return StateError(f"{path}: another server has it open" if "locked" in str(error) else
                          f"{path}: cannot be opened: {error}")
    return StateError(f"{path}: expected our SQLite file, got: {error}; {REPAIR_HINT}, or name "
                      f"another in site.cfg, [site] store")


class SqliteConnection(sqlite3.Connection):
    """The connection of an open store; StoreDatabase describes the methods."""

    # UnicodeDecodeError: messages of SQLite quote a damaged file, whose bytes need not be UTF-8.
    dialect = "sqlite"
    errors = (sqlite3.Error, UnicodeDecodeError)
    known_ids = "CREATE TEMP TABLE IF NOT EXISTS known_ids (id INTEGER PRIMARY KEY, place INTEGER)"
    _files: _OpenFiles

    def prepare(self, path: str) -> None:
        """Lock the file, and check and upgrade its tables."""
        self.execute("PRAGMA locking_mode = EXCLUSIVE")
        self.execute("PRAGMA temp_store = MEMORY")
        self.begin()
        schema.upgrade(self, path)
        self.commit()
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = FULL")
        self._files = _OpenFiles(path)

    def begin(self) -> None:
        """Begin a transaction."""
        self.execute("BEGIN IMMEDIATE")

    def put_on_disk(self) -> None:
        """Commit; StoreLost if the file has been removed or replaced."""
        try:
            self._files.check()
        except _Removed as error:
            self.rollback()
            raise StoreLost(f"{error}; {_rescue(self, self._files.path)}") from None
        self.execute("COMMIT")

    @property
    def driver(self) -> sqlite3.Connection:
        """The connection of the driver, for SQLAlchemy."""
        return self

    def failure(self, message: str) -> StateError:
        """The StateError of a statement that failed."""
        there = find_existing_part(self._files.path)
        lacking = explain_full(there) if message.endswith("disk is full") else ""
        return StateError(f"{message} ({lacking} on {find_mount_point(there)})" if lacking else
                          message)

    def tables(self) -> set[str]:
        """Names of tables."""
        return {name for name, in self.execute("SELECT name FROM sqlite_master "
                                               "WHERE type = 'table'")}

    def stored(self, row: tuple[object, ...]) -> tuple[object, ...]:
        """Return a row as the database returns it."""
        return row

    def continue_numbers(self, last: Mapping[str, int]) -> None:
        """
        Continue the numbering of tables after {table: the last number}; used when rows were copied.
        """
        for table, in self.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND "
                                   "sql LIKE '%AUTOINCREMENT%'").fetchall():
            self.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            self.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, last[table]))

    def mistyped(self, table: str, key: str, columns: Mapping[str, str],
                 limit: int) -> list[object]:
        """
        Up to `limit` keys of rows of which one of these columns has a value of another type than
        this: SQLite stores any value in any column.
        """
        wrong = " OR ".join(f"typeof({column}) != '{kind}'" for column, kind in columns.items())
        return [row[0] for row in self.execute(
            f"SELECT {key} FROM {table} WHERE {wrong} LIMIT ?", (limit,))]


def _make(path: str) -> None:
    """Create a store at `path`, unless there is one.

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
            new.execute("BEGIN IMMEDIATE")
            schema.make(new, "sqlite")
            new.execute("COMMIT")
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


class _OpenFiles:
    """The files of an open store: the database and its write-ahead log."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._files: dict[str, tuple[int, int]] = {}           # its end -> device, inode
        self._size_bytes = 0
        self.check()

    def check(self) -> None:
        """Raise _Removed or StoreLost if a file was removed, replaced or truncated."""
        for end in ("", "-wal"):
            try:
                status = os.stat(self.path + end)
            except FileNotFoundError:
                if end in self._files:
                    raise _Removed(f"{self.path}{end}: was removed while the server has it "
                                   f"open") from None
                continue
            if self._files.setdefault(end, (status.st_dev, status.st_ino)) != (
                    status.st_dev, status.st_ino):
                raise _Removed(f"{self.path}{end}: another file was put in its place while "
                               f"the server has it open")
            if not end:
                if status.st_size < self._size_bytes:
                    raise StoreLost(f"{self.path}: was truncated from {self._size_bytes} to "
                                    f"{status.st_size} bytes while the server has it open; nothing "
                                    f"more is acknowledged; stop the server; {REPAIR_HINT}")
                self._size_bytes = status.st_size


class _Removed(StateError):
    """The file was removed or replaced; its data can still be read from the open file."""


def _rescue(file: sqlite3.Connection, path: str) -> str:
    """
    Copy a removed store to a file beside it; return a message with the place, or the reason of a
    failure.
    """
    beside = f"{path}.rescued-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        os.close(os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        copy = sqlite3.connect(beside)
        try:
            file.backup(copy)
        finally:
            copy.close()
    except (OSError, sqlite3.Error) as error:
        return (f"nothing more is acknowledged, and its content could not be copied ({error}); "
                f"stop the server, and restore the file from a backup")
    return (f"nothing more is acknowledged; all of it was copied to {beside}: stop the server, "
            f"move that to {path}, and start it")
