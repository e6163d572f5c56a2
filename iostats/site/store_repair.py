"""
How many rows of a store can be read, and a new one in its place with all of these.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from collections import namedtuple

from iostats.base.errors import StateError
from iostats.site.store import Store
from iostats.site.store_file import ENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Table -> what its rows are called, the most valuable first.
TABLES = {"jobs": "jobs (records, and those without one yet)", "reports": "reports",
          "summaries": "rows of `iostats jobs`", "harvests": "settled totals of storage servers",
          "lives": "jobs at the storage servers", "agents": "agents", "targets": "targets",
          "blocks": "parts of sweeps", "client_nids": "names of clients",
          "client_gains": "what clients did, by sweep or hour",
          "client_losses": "times when something may be missing of clients",
          "client_sources": "clients of storage servers",
          "client_blocks": "parts of messages of clients",
          "damaged_reports": "damaged reports, put aside",
          "damaged": "damaged rows, put aside", "clock": "clock",
          "events": "events", "events_nids": "clients of events",
          "events_tellers": "what storage servers said of themselves",
          "job_lines": "time lines of jobs", "target_lines": "time lines of targets",
          "line_parts": "parts of time lines", "line_folds": "places in the time lines",
          "by_node": "what jobs' nodes did", "job_runs": "runs of jobs",
          "job_lists": "times that lists of jobs cover"}
# These are right together only; agents send again what they know.
_TOGETHER = (("targets", "blocks", "agents"), ("client_sources", "client_blocks", "agents"),
             ("client_nids", "client_gains"),
             ("line_parts", "line_folds"))
_ERRORS = (sqlite3.Error, UnicodeDecodeError)

TableContent = namedtuple("TableContent", "count why")
TableContent.__doc__ = """How many rows of a table could be read, and why not all; "" for all."""


def check(path: str) -> dict[str, TableContent]:
    """
    {table: TableContent} of the store at `path`; StateError where there is none, or a server has it
    open.
    """
    found = {}
    with _opened(path) as file:
        for table in _tables(file):
            count, why = 0, ""
            try:
                for _ in file.execute(f"SELECT * FROM {table}"):
                    count += 1
            except _ERRORS as error:
                why = str(error)
            found[table] = TableContent(count, why)
    return found


def rebuild(path: str) -> tuple[str, dict[str, TableContent]]:
    """
    Set the store at `path` aside, and put a new one in its place with all rows that can be read:
    (path of the old one, {table: TableContent}); StateError.
    """
    beside, new = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}", f"{path}.rebuilt"
    with _opened(path):
        owner = os.stat(path)
    for end in ENDS:                                   # of a try that was interrupted
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new + end)
    Store(new).close()
    with contextlib.suppress(PermissionError):         # the server's user has to be able to open it
        os.chown(new, owner.st_uid, owner.st_gid)
    with _opened(path) as old, contextlib.closing(sqlite3.connect(
            new, isolation_level=None)) as file:
        file.execute("BEGIN")
        known = set(_tables(file))
        found = {}
        for table in _tables(old):
            if table not in known and table == "damaged":
                [(made,)] = old.execute("SELECT sql FROM sqlite_master WHERE name = 'damaged'")
                file.execute(made)
            found[table] = _copied(old, file, table)
        for tables in _TOGETHER:
            if any(found[table].why for table in tables if table in found):
                for table in tables:
                    file.execute(f"DELETE FROM {table}")
                    why = found[table].why if table in found else ""
                    found[table] = TableContent(0, why or "not whole")
        file.execute("COMMIT")
    for end in reversed(ENDS):                         # the file itself last
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + end, beside + end)
    os.rename(new, path)
    return beside, found


def _copied(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> TableContent:
    """Copy the rows of a table that can be read, from its one end and from the other."""
    why = ""
    try:
        columns = [row[1] for row in old.execute(f"PRAGMA table_info({table})")]
        keys = [row[1] for row in old.execute(f"PRAGMA table_info({table})") if row[5]]
    except _ERRORS as error:
        return TableContent(0, str(error))
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
    [(count,)] = new.execute(f"SELECT count(*) FROM {table}")
    return TableContent(count, why)


def _tables(file: sqlite3.Connection) -> list[str]:
    try:
        there = {name for name, in file.execute("SELECT name FROM sqlite_master "
                                                "WHERE type = 'table'")}
    except _ERRORS:
        return []
    return [table for table in TABLES if table in there]


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
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
        what = "a server has it open; stop the server first" if "locked" in str(error) else (
            f"cannot be opened: {error}")
        raise StateError(f"{path}: {what}") from None
    except _ERRORS:
        pass                                           # no database at all: it has no tables
    try:
        yield file
    finally:
        file.close()
