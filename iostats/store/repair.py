"""Check and repair of a store: the rows that can be read, and a new store with all of these."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from iostats.base.errors import StateError
from iostats.store import tables
from iostats.store.record_store import Store
from iostats.store.sqlite import ENDS, SqliteConnection

# Not copied: a new store has its own version, and numbers its events from the start.
_TABLES = {table.name: table.comment or "" for table in tables.metadata.tables.values()
           if table not in (tables.alembic_version, tables.events_numbering,
                            tables.events_followers)}
# These are right together only; agents send again what they know.
_TOGETHER = (("targets", "blocks", "agents"), ("client_sources", "client_blocks", "agents"),
             ("client_nids", "client_gains"),
             ("line_parts", "line_folds"))
_ERRORS = SqliteConnection.errors


class TableContent(NamedTuple):
    """
    The readable rows of one table.

    Attributes:
        comment: what the rows of a table are called.
        count: how many of them could be read; why: why not all, "" for all.
    """

    comment: str
    count: int  # type: ignore[assignment]    # nobody needs tuple.count()
    why: str


def check(path: str) -> dict[str, TableContent]:
    """
    Return {table: TableContent} of the store at `path`; StateError where there is none, or a server
    has it open.
    """
    contents = {}
    with _open(path) as file:
        for table in _list_tables(file):
            count, why = 0, ""
            try:
                for _ in file.execute(f"SELECT * FROM {table}"):
                    count += 1
            except _ERRORS as error:
                why = str(error)
            contents[table] = TableContent(_TABLES[table], count, why)
    return contents


def rebuild(path: str) -> tuple[str, dict[str, TableContent]]:
    """
    Set the store at `path` aside, and put a new one in its place with all rows that can be read:
    (path of the old one, {table: TableContent}); StateError.
    """
    beside, new = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}", f"{path}.rebuilt"
    with _open(path):
        owner = os.stat(path)
    for end in ENDS:                                   # of a try that was interrupted
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new + end)
    Store(new).close()
    with contextlib.suppress(PermissionError):         # the server's user has to be able to open it
        os.chown(new, owner.st_uid, owner.st_gid)
    with _open(path) as old, contextlib.closing(sqlite3.connect(
            new, isolation_level=None)) as file:
        file.execute("BEGIN")
        contents = {}
        for table in _list_tables(old):
            contents[table] = _copy(old, file, table)
        for group in _TOGETHER:
            if any(contents[table].why for table in group if table in contents):
                for table in group:
                    file.execute(f"DELETE FROM {table}")
                    why = contents[table].why if table in contents else ""
                    contents[table] = TableContent(_TABLES[table], 0, why or "not whole")
        file.execute("COMMIT")
    for end in reversed(ENDS):                         # the file itself last
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + end, beside + end)
    os.rename(new, path)
    return beside, contents


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> TableContent:
    """Copy the readable rows of a table, from both ends."""
    why = ""
    try:
        described: list[tuple[int, str, str, int, object, int]] = old.execute(
            f"PRAGMA table_info({table})").fetchall()
        columns = [column for _, column, *_ in described]
        keys = [column for _, column, *_, is_key in described if is_key]
    except _ERRORS as error:
        return TableContent(_TABLES[table], 0, str(error))
    put = (f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) "
           f"VALUES ({', '.join('?' * len(columns))})")
    for order in ("ASC", "DESC"):
        by = ", ".join(f"{key} {order}" for key in keys)
        try:
            for row in old.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {by}"):
                with contextlib.suppress(sqlite3.Error):       # invalid: it is lost
                    new.execute(put, row)
            break
        except _ERRORS as error:
            why = str(error)
    counted: list[tuple[int]] = new.execute(f"SELECT count(*) FROM {table}").fetchall()
    return TableContent(_TABLES[table], counted[0][0], why)


def _list_tables(file: sqlite3.Connection) -> list[str]:
    try:
        there: list[tuple[str]] = file.execute("SELECT name FROM sqlite_master "
                                               "WHERE type = 'table'").fetchall()
    except _ERRORS:
        return []
    return [table for table in _TABLES if (table,) in there]


@contextlib.contextmanager
def _open(path: str) -> Iterator[sqlite3.Connection]:
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        is_file = False
    if not is_file:
        raise StateError(f"{path}: there is no store; the site's server makes one when it starts "
                         f"(site.cfg: [site] store)")
    file = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        file.execute("PRAGMA locking_mode = EXCLUSIVE")
        file.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        file.close()
        why = "a server has it open; stop the server first" if "locked" in str(error) else (
            f"cannot be opened: {error}")
        raise StateError(f"{path}: {why}") from None
    except _ERRORS:
        pass                                           # no database at all: it has no tables
    try:
        yield file
    finally:
        file.close()
