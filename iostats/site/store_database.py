"""
One SQLite file that only this process has open, and that is consistent after each commit.

The first change begins a transaction and `commit` ends it.  Where a change fails, all changes since
the last commit are dropped and `commit` raises the error: what is acknowledged after `commit` is on
the disk.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from iostats.base.errors import StateError
from iostats.site import store_file
from iostats.site.store_file import REPAIR_HINT
from iostats.site.store_trouble import StoreTrouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

# UnicodeDecodeError: messages of SQLite quote a damaged file, whose bytes need not be UTF-8.
ERRORS = (sqlite3.Error, UnicodeDecodeError)


class StoreDatabase:
    """
    Attributes:
        path: of the file.
        connection: sqlite3's; what is changed by it directly is not checked.
        trouble: what the log says of changes that fail.
    """

    connection: sqlite3.Connection

    def __init__(self, path: str, make: Callable[[sqlite3.Connection], None],
                 upgrade: Callable[[sqlite3.Connection, str], None]) -> None:
        """
        Open `path`; StateError.

        `make(connection)` makes the tables of a new file; `upgrade(connection, path)` checks those
        that are there, in a transaction, with a StateError where they are not ours.
        """
        self.path, self.trouble = path, StoreTrouble(path)
        self._is_open = False
        self._has_changes = False                      # that `commit` has to put on the disk
        self._broken: StateError | None = None         # why nothing can be put there any more
        # Why changes were dropped, until `commit` has said so.
        self._dropped: StateError | None = None
        try:
            store_file.make(path, make)
            if not os.path.getsize(path):
                raise StateError(f"{path}: is empty: it was truncated, or another program made it; "
                                 f"{REPAIR_HINT}")
            self.connection = sqlite3.connect(path, timeout=0, isolation_level=None)
            self._is_open = True
            self._prepare(upgrade)
            self.opened()
            self._files = store_file.OpenFiles(path)
        except sqlite3.OperationalError as error:
            self.close()
            if "locked" in str(error):
                raise StateError(f"{path}: another server has it open") from None
            raise StateError(f"{path}: cannot be opened: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self.close()
            raise StateError(f"{path}: expected our SQLite file, got: {error}; {REPAIR_HINT}, or "
                             f"name another in site.cfg, [site] store") from None
        except StateError:
            self.close()
            raise
        except OSError as error:
            raise StateError(f"{path}: cannot be opened: {error.strerror}; name another in "
                             f"site.cfg, [site] store") from None

    def _prepare(self, upgrade: Callable[[sqlite3.Connection, str], None]) -> None:
        """Lock the file, and check and upgrade its tables."""
        self.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self.connection.execute("BEGIN IMMEDIATE")
        upgrade(self.connection, self.path)
        self.connection.execute("COMMIT")
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")

    def opened(self) -> None:
        """For a subclass: read what it has to know, when the file is open."""

    def before_close(self) -> None:
        """For a subclass: the last changes; their errors are ignored."""

    def close(self) -> None:
        """Close the file; what is not committed is dropped."""
        if not self._is_open:
            return
        if self._broken is None:
            with contextlib.suppress(*ERRORS, StateError):
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                self.before_close()
        self.connection.close()
        self._is_open = False

    # -- changes -------------------------------------------------------------------------------

    def do(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Change something, without a commit; how many rows were changed.  StateError."""
        try:
            self._begin()
            self._has_changes = True
            return self.connection.execute(sql, values).rowcount
        except ERRORS as error:
            raise self._failed(error) from None

    def do_all(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """The same for each of these rows of values."""
        try:
            self._begin()
            self._has_changes = True
            self.connection.executemany(sql, rows)
        except ERRORS as error:
            raise self._failed(error) from None

    def change(self, *statements: Any) -> int:
        """
        Do [(sql, values), ...], or one of them, and commit; how many rows the last one changed.
        StateError.
        """
        rows = 0
        if statements and isinstance(statements[0], str):
            statements = (statements,)
        try:
            self._begin()
            for statement in statements:
                rows = self.connection.execute(*statement).rowcount
            self._check_files()
            self.connection.execute("COMMIT")
            self._has_changes = False
        except (*ERRORS, StateError) as error:
            raise self._failed(error) from None
        self.trouble.written()
        return rows

    def _begin(self) -> None:
        if self._broken is not None:
            raise self._broken
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")

    @property
    def has_changes(self) -> bool:
        """Whether `commit` has something to put on the disk."""
        return self._has_changes

    def commit(self) -> None:
        """
        Put all changes on the disk.

        StateError when that can't be; then nothing of what was changed since the last `commit` is
        kept, whatever it was that failed in between.
        """
        try:
            if self.connection.in_transaction:
                self._check_files()
                self.connection.execute("ROLLBACK" if self._dropped else "COMMIT")
                if not self._dropped:
                    self.trouble.written()
        except (*ERRORS, StateError) as error:
            self._failed(error)
        dropped, self._dropped, self._has_changes = self._dropped, None, False
        if dropped:
            raise dropped

    def _failed(self, error: Exception) -> StateError:
        """Drop all that is not on the disk; the StateError, which `commit` will raise as well."""
        failed = (error if isinstance(error, StateError) else
                  StateError(f"{self.path}: cannot be written: {error}"))
        self.trouble.failed()
        if self.connection.in_transaction:            # for some errors SQLite has done it already
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
        if self._has_changes:
            self._dropped = failed
        return failed

    def _check_files(self) -> None:
        """StateError where what is committed would be lost; from then on always."""
        if self._broken is None:
            try:
                self._files.check()
                return
            except store_file.StoreRemoved as error:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
                self._broken = StateError(
                    f"{error}; {store_file.rescue(self.connection, self.path)}")
            except StateError as error:
                self._broken = error
        raise self._broken

    # -- questions -----------------------------------------------------------------------------

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """[row] that a SELECT finds; StateError."""
        try:
            return self.connection.execute(sql, values).fetchall()
        except ERRORS as error:
            raise StateError(f"{self.path}: cannot be read: {error}") from None
