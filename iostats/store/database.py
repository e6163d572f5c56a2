"""
The transactions of a store, on SQLite or PostgreSQL; it is consistent after each commit.

The first change begins a transaction and `commit` ends it.  Where a change fails, all changes since
the last commit are dropped and `commit` raises the error: what is acknowledged after `commit` is on
the disk.

Statements are text that both engines understand, with `?` for values; SQLAlchemy's own statements
take 40 to 250 us longer each, where SQLite takes 20.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, overload

from iostats.base.errors import StateError
from iostats.store.write_errors import StoreLost, StoreTrouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar, Union

    from iostats.store.postgresql import PostgresqlConnection
    from iostats.store.sqlite import SqliteConnection

    Connection = Union[SqliteConnection, PostgresqlConnection]
    Row = TypeVar("Row", bound=tuple[object, ...])

LEASE_S = 6.0                   # of the active server: without a sign of life for so long it ends
MOST_DAMAGED = 1000             # rows that are put aside in one go


def upsert(table: str, keys: str, values: str) -> str:
    """Return the statement that inserts a row, or replaces the one with the same keys.

    >>> upsert("agents", "node", "body")[:64]
    'INSERT INTO agents (node, body) VALUES (?, ?) ON CONFLICT (node)'
    """
    columns = f"{keys}, {values}".split(", ")
    return (f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({make_placeholders(columns)}) "
            f"ON CONFLICT ({keys}) DO UPDATE SET {update_columns(values)}")


def update_columns(values: str) -> str:
    """Format columns for ON CONFLICT DO UPDATE SET: each gets the new row's value."""
    return ", ".join(f"{column} = excluded.{column}" for column in values.split(", "))


def make_placeholders(values: Sequence[object]) -> str:
    """Return a placeholder for each value, separated by commas."""
    return ", ".join("?" * len(values))


class StoreDatabase:
    """
    The database of a store.

    Attributes:
        path: the file, or the URL without a password.
        connection: a SqliteConnection or PostgresqlConnection; what is changed by it directly is
            not checked.
        trouble: what the log says of changes that fail.
    """

    connection: Connection

    def __init__(self, address: str, stand_by: Callable[[], object] | None = None) -> None:
        """
        Open the store at this path or URL; StateError.

        `stand_by`: for the site's server: it waits for the end of another one that has the store in
        PostgreSQL, and this is called before; None: StateError where another program has it.
        """
        self._has_changes = False                      # that `commit` has to put on the disk
        self._lost: StoreLost | None = None            # why nothing can be put there any more
        # Why changes were dropped, until `commit` has said so.
        self._dropped: StateError | None = None
        if is_url(address):
            from iostats.store import postgresql
            self.path = hide_password(address)
            self.connection = postgresql.open_store(address, stand_by)
        else:
            from iostats.store import sqlite
            self.path, self.connection = address, sqlite.open_store(address)
        self.trouble, self._errors = StoreTrouble(self.path), self.connection.errors
        self._is_open = True

    def before_close(self) -> None:
        """Hook for subclasses: write the last changes; their errors are ignored."""

    def close(self) -> None:
        """Close the store, and drop uncommitted changes."""
        if not self._is_open:
            return
        if self._lost is None:
            with contextlib.suppress(*self._errors, StateError):
                if self.connection.in_transaction:
                    self.connection.rollback()
                self.before_close()
        self.connection.close()
        self._is_open = False

    # -- changes -------------------------------------------------------------------------------

    def do(self, sql: str, values: Sequence[object] = ()) -> int:
        """
        Execute a change without a commit, and return the number of changed rows.  Raises
        StateError.
        """
        try:
            self._begin()
            self._has_changes = True
            return self.connection.execute(sql, values).rowcount
        except self._errors as error:
            raise self._roll_back(error) from None

    def do_all(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute `sql` for each of these rows of values, which have different keys."""
        try:
            self._begin()
            self._has_changes = True
            self.connection.executemany(sql, rows)
        except self._errors as error:
            raise self._roll_back(error) from None

    def change(self, *statements: str | Sequence[object],
               rows_of: Mapping[str, Sequence[Sequence[object]]] | None = None) -> int:
        """
        Do [(sql, values), ...], or one of them, then {sql: rows of values with different keys}, and
        commit; how many rows the last of `statements` changed.  StateError.
        """
        rows = 0
        all_of_them: Any = statements
        if statements and isinstance(statements[0], str):
            all_of_them = (statements,)
        try:
            self._begin()
            for statement in all_of_them:
                rows = self.connection.execute(*statement).rowcount
            for sql, values in (rows_of or {}).items():
                self.connection.executemany(sql, values)
            self.connection.put_on_disk()
            self._has_changes = False
        except (*self._errors, StateError) as error:
            raise self._roll_back(error) from None
        self.trouble.written()
        return rows

    def _begin(self) -> None:
        if self._lost is not None:
            raise self._lost
        if not self.connection.in_transaction:
            self.connection.begin()

    @property
    def has_changes(self) -> bool:
        """Whether there are uncommitted changes."""
        return self._has_changes

    @property
    def lost(self) -> StoreLost | None:
        """The reason why no commit is possible until the server restarts; None without one."""
        return self._lost

    def commit(self) -> None:
        """Commit all changes.

        StateError when that can't be; then all changes since the last `commit` are
        dropped, whatever it was that failed in between.
        """
        try:
            if self.connection.in_transaction:
                if self._dropped:
                    self.connection.rollback()
                else:
                    self.connection.put_on_disk()
                    self.trouble.written()
        except (*self._errors, StateError) as error:
            self._roll_back(error)
        dropped, self._dropped, self._has_changes = self._dropped, None, False
        if dropped:
            raise dropped

    def _roll_back(self, error: Exception) -> StateError:
        """Roll back, and return the StateError, which `commit` raises as well."""
        failed = (error if isinstance(error, StateError) else
                  self.connection.failure(f"{self.path}: cannot be written: {error}"))
        self.trouble.failed()
        if isinstance(failed, StoreLost):
            self._lost = failed
        with contextlib.suppress(*self._errors):
            if self.connection.in_transaction:      # for some errors SQLite has done it already
                self.connection.rollback()
        if self._has_changes:
            self._dropped = failed
        return failed

    # -- questions -----------------------------------------------------------------------------

    def mistyped(self, table: str, key: str, columns: Mapping[str, str],
                 limit: int) -> list[object]:
        """Up to `limit` keys of rows with values of another type in these columns; StateError."""
        try:
            return self.connection.mistyped(table, key, columns, limit)
        except self._errors as error:
            raise self._make_read_error(error) from None

    @overload
    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]: ...
    @overload
    def rows(self, sql: str, values: Sequence[object], row: type[Row]) -> list[Row]: ...

    def rows(self, sql: str, values: Sequence[object] = (), row: object = None) -> object:
        """
        Return [row] that a SELECT finds; StateError.

        `row`: a NamedTuple, or tuple[...], by the columns of tables.py; not checked: a damaged file
        may have other values.
        """
        make = getattr(row, "_make", None)
        try:
            rows = self.connection.execute(sql, values).fetchall()
            return [*map(make, rows)] if make else rows
        except self._errors as error:
            raise self._make_read_error(error) from None

    def _make_read_error(self, error: Exception) -> StateError:
        failed = self.connection.failure(f"{self.path}: cannot be read: {error}")
        if isinstance(failed, StoreLost):
            self._lost = failed
        return failed


def is_url(address: str) -> bool:
    """Whether a store is a PostgreSQL database; else it is an SQLite file."""
    return address.startswith("postgresql://")


def hide_password(url: str) -> str:
    """Return the URL without its password, for messages."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1@", url)
