"""
Copies a store to another one, of the same engine or the other, and compares all rows afterwards.

Both are locked during the copy, so the site's server has to be stopped: nodes and agents store
their messages until it is back.  The new store has all rows or none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Optional

from sqlalchemy import Table

from iostats.base.errors import StateError
from iostats.store import tables
from iostats.store.database import StoreDatabase, is_url, make_placeholders

_AT_ONCE = 200                          # rows; one may have some MiB


def copy(old: str, new: str) -> dict[str, int]:
    """
    Copy all rows of the store at `old`, a path or URL, to an empty or new one at `new`; return
    {name of the rows of a table: number of copied rows}; StateError.
    """
    if not is_url(old):
        _check_file(old)
    with _open(old) as source, _open(new) as copied:
        for table in _list_tables():
            if table is not tables.clock and copied.rows(f"SELECT 1 FROM {table.name} LIMIT 1"):
                raise StateError(f"{copied.path}: expected an empty store, or none, got one with "
                                 f"{table.comment}")
        copied.do("DELETE FROM clock")
        counts = {}
        for table in _list_tables():
            counts[table.comment or ""] = sum(
                _add(copied, table, rows) for rows in _read_rows(source, table))
            _compare(source, copied, table)
        copied.connection.continue_numbers(
            {table.name: _query_last_assigned_id(copied, table) for table in _list_tables()
             if "id" in table.primary_key.columns})
        copied.commit()
    return counts


@contextlib.contextmanager
def _open(address: str) -> Iterator[StoreDatabase]:
    store = StoreDatabase(address)
    try:
        yield store
    finally:
        store.close()


def _check_file(path: str) -> None:
    """Raise StateError if the file does not exist, so that none is created."""
    try:
        with open(path, "rb"):
            return
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}; expected a store to copy") from None


def _list_tables() -> list[Table]:
    return [table for table in tables.metadata.tables.values()
            if table is not tables.alembic_version]


def _join_column_names(columns: Any) -> str:
    """Columns in a statement: `user` is a word of PostgreSQL."""
    return ", ".join(f'"{column.name}"' for column in columns)


def _read_rows(store: StoreDatabase, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    """Yield all rows by key, in batches."""
    key = table.primary_key.columns
    places = [list(table.columns).index(column) for column in key]
    where = ""
    last: list[Any] = []
    while True:
        rows = store.rows(f"SELECT {_join_column_names(table.columns)} FROM {table.name} {where} "
                          f"ORDER BY {_join_column_names(key)} LIMIT {_AT_ONCE}", last)
        if not rows:
            return
        yield rows
        where = f"WHERE ({_join_column_names(key)}) > ({make_placeholders(places)})"
        last = [rows[-1][place] for place in places]


def _add(store: StoreDatabase, table: Table, rows: list[tuple[Any, ...]]) -> int:
    store.do_all(f"INSERT INTO {table.name} ({_join_column_names(table.columns)}) "
                 f"VALUES ({make_placeholders(rows[0])})", rows)
    return len(rows)


def _compare(source: StoreDatabase, copied: StoreDatabase, table: Table) -> None:
    """Raise StateError if a row of the copy differs."""
    copied_rows = _read_rows(copied, table)
    for rows in _read_rows(source, table):
        there = next(copied_rows, [])
        for row, copied_row in zip(rows, there):
            if copied.connection.stored(row) != copied_row:
                raise StateError(f"{copied.path}: table {table.name}: expected the row "
                                 f"{_format_row(row)}, got {_format_row(copied_row)}; "
                                 f"nothing was copied")
        if len(rows) != len(there):
            raise StateError(f"{copied.path}: table {table.name}: expected {len(rows)} rows, got "
                             f"{len(there)}; nothing was copied")
    if next(copied_rows, None) is not None:
        raise StateError(f"{copied.path}: table {table.name}: it has more rows than {source.path}; "
                         f"nothing was copied")


def _format_row(row: tuple[Any, ...]) -> str:
    return f"{row!r:.200}"


def _query_last_assigned_id(store: StoreDatabase, table: Table) -> int:
    """Return the last number assigned in a table: another row may refer to a removed one."""
    numbers = store.rows(f"SELECT max(id) FROM {table.name}", (), tuple[Optional[int]])
    if table is tables.line_parts:
        numbers += store.rows("SELECT max(last) FROM line_folds", (), tuple[Optional[int]])
    return max(number or 0 for number, in numbers)
