"""
PostgreSQL as the engine of a store: one session, which holds the lock of its database.

Several site's servers may name one database: the one with the lock is active, the others stand by
until they get it.  The session is the lease and the fence: PostgreSQL itself ends a session from
which nothing came for LEASE_S, and with it the lock and the open transaction.  So a server that was
stopped or cut off can change nothing when it continues: its session has ended.

The URL is libpq's; what it leaves out is taken from libpq's variables (PGUSER, PGSSLMODE, ...) and
from ~/.pgpass.  A transaction pooler (pgbouncer) cannot be between: the lock, and the table of
event numbers, belong to the session.

Where the connection is lost, nobody knows whether the last commit is there, so the server has to
read everything back: it ends, and systemd starts it again; nodes and agents send again what was not
acknowledged.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
import threading
import time
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from iostats.base.errors import StateError
from iostats.store import database, schema
from iostats.store.write_errors import ConnectionLost

try:
    import psycopg
    from psycopg.pq import TransactionStatus
    from psycopg.types.numeric import Int8BinaryDumper
    from psycopg.types.string import StrDumperUnknown
except ImportError as missing:
    raise StateError("site.cfg: [site] store: PostgreSQL needs psycopg 3: make install-site, or "
                     f"{sys.executable} -m pip install 'psycopg[binary]' ({missing})") from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

_TRY_EVERY_S = 0.5                      # a server that stands by, to get the lock
_FIRST_VERSION = 140000                 # idle_session_timeout
_LOCK = 0x696F7374                      # "iost": of pg_advisory_lock
_LOCK_WITHIN_S = 2                      # a session that has just been closed may have it so long
# A server that does not answer is noticed after this time: libpq's own limit is 15 minutes.
_LIMITS = {"connect_timeout": 10, "tcp_user_timeout": 20_000, "keepalives_idle": 10,
           "keepalives_interval": 5, "keepalives_count": 2}
# In one INSERT of some rows: psycopg stores the analysis of statements with up to 50 values.
_VALUES_AT_ONCE = 50
_INSERT = re.compile(r"(INSERT .* VALUES )(\((?:\?, )*\?\))(.*)")
_NUL = "\N{SYMBOL FOR NULL}"
_INSTR = re.compile(r"instr\((\w+), \?\)")


class _Text(StrDumperUnknown):
    """Text of PostgreSQL has no NUL: it gets the symbol for it."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", _NUL) if "\0" in obj else obj)


def open_store(url: str, stand_by: Callable[[], object] | None = None) -> PostgresqlConnection:
    """
    The store at `url`, whose tables are made if it has none, and upgraded; StateError.

    `stand_by`: called where another server has it open, before the wait for that one's end; None:
    StateError then.
    """
    name = database.hide_password(url)
    try:
        options = psycopg.conninfo.conninfo_to_dict(url)
        limits: dict[str, Any] = {option: value for option, value in _LIMITS.items()
                                  if option not in options}
        driver = psycopg.connect(url, autocommit=True, **limits)
    except psycopg.Error as error:
        raise StateError(f"{name}: cannot be opened: {_join_lines(error)}") from None
    connection = PostgresqlConnection(driver)
    try:
        connection.prepare(name, stand_by)
    except psycopg.Error as error:
        connection.close()
        raise StateError(f"{name}: cannot be opened: {_join_lines(error)}") from None
    except StateError:
        connection.close()
        raise
    return connection


def _join_lines(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


@lru_cache(maxsize=1000)
def _translate(sql: str) -> bytes:
    """A statement in the words of psycopg and PostgreSQL."""
    return _INSTR.sub(r"position(? IN \1)", sql).replace("%", "%%").replace("?", "%s").encode()


@lru_cache(maxsize=100)
def _repeat_values(sql: str, count: int) -> str:
    """Return an INSERT of `count` rows for one of a single row."""
    return _INSERT.sub(lambda parts: parts[1] + ", ".join([parts[2]] * count) + parts[3], sql)


class PostgresqlConnection:
    """The connection of an open store; the same methods as SqliteConnection."""

    dialect = "postgresql+psycopg"
    errors = (psycopg.Error, UnicodeError)
    known_ids = "CREATE TEMP TABLE IF NOT EXISTS known_ids (id bigint PRIMARY KEY, place bigint)"

    def __init__(self, driver: psycopg.Connection) -> None:
        self.driver = driver
        self._closed = threading.Event()
        driver.adapters.register_dumper(str, _Text)
        # Of one size, whatever the number, so that statements are prepared once.
        driver.adapters.register_dumper(int, Int8BinaryDumper)

    def prepare(self, name: str, stand_by: Callable[[], object] | None) -> None:
        """Lock the database, and make or upgrade its tables."""
        if self.driver.info.server_version < _FIRST_VERSION:
            raise StateError(f"{name}: expected PostgreSQL 14 or newer, got "
                             f"{self.driver.info.server_version // 10000}")
        encoding = self.driver.info.parameter_status("server_encoding")
        if encoding != "UTF8":                          # of SQL_ASCII psycopg makes bytes, no text
            raise StateError(f"{name}: expected a database with the encoding UTF8, got {encoding}: "
                             f"CREATE DATABASE iostats ENCODING 'UTF8' TEMPLATE template0")
        until = time.monotonic() + _LOCK_WITHIN_S
        while self.execute("SELECT pg_try_advisory_lock(?)", (_LOCK,)).fetchall() != [(True,)]:
            if time.monotonic() >= until:
                if stand_by is None:
                    raise StateError(f"{name}: another server has it open")
                stand_by()
                until = math.inf
            time.sleep(_TRY_EVERY_S)
        self.begin()
        if "alembic_version" in self.tables():
            schema.upgrade(self, name)
        else:
            schema.make(self, self.dialect)
        self.driver.commit()
        if stand_by is not None:
            self._hold_lease()

    def _hold_lease(self) -> None:
        """
        Make PostgreSQL end this session after LEASE_S without a sign of life, and send these signs.
        """
        # The last one: a result that the client does not take.
        for setting in ("idle_session_timeout", "idle_in_transaction_session_timeout",
                        "tcp_user_timeout"):
            self.execute(f"SET {setting} = {database.LEASE_S * 1000:.0f}")
        threading.Thread(target=self._give_signs_of_life, name="lease", daemon=True).start()

    def _give_signs_of_life(self) -> None:
        while not self._closed.wait(database.LEASE_S / 4):
            with contextlib.suppress(psycopg.Error):      # lost, or its transaction has failed
                self.driver.execute("SELECT 1")

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""
        with self.driver.lock:                            # not during a sign of life
            return self.driver.info.transaction_status not in (
                TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def execute(self, sql: str, values: Sequence[object] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        """The cursor of a statement."""
        return self.driver.execute(_translate(sql), values)

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement with each of these values."""
        rows, cursor = list(rows), self.driver.cursor()
        together = _VALUES_AT_ONCE // len(rows[0]) if rows and _INSERT.fullmatch(sql) else 1
        if together > 1:
            whole = len(rows) - len(rows) % together
            cursor.executemany(_translate(_repeat_values(sql, together)), [
                list(chain.from_iterable(rows[at:at + together]))
                for at in range(0, whole, together)])
            del rows[:whole]
        cursor.executemany(_translate(sql), rows)

    def begin(self) -> None:
        """Begin a transaction."""
        self.driver.execute("BEGIN")

    def put_on_disk(self) -> None:
        """Commit; psycopg.Error where a statement of the transaction has failed."""
        done = self.driver.execute("COMMIT").statusmessage
        if done != "COMMIT":                # without an error, it has rolled back
            raise psycopg.errors.InFailedSqlTransaction("a statement before has failed")

    def rollback(self) -> None:
        """Drop the changes of the transaction."""
        self.driver.execute("ROLLBACK")

    def close(self) -> None:
        """End the session."""
        self._closed.set()
        with contextlib.suppress(psycopg.Error):
            self.driver.close()

    def failure(self, message: str) -> StateError:
        """The StateError of a statement that failed, ConnectionLost where that is why."""
        text = " ".join(message.split())
        return ConnectionLost(f"{text}; the server ends, to be started again") if (
            self.driver.closed) else StateError(text)

    def tables(self) -> set[str]:
        """Names of tables."""
        return {name for name, in self.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")}

    def stored(self, row: tuple[object, ...]) -> tuple[object, ...]:
        """A row as it is read after it was written."""
        return tuple(value.replace("\0", _NUL) if isinstance(value, str) else value
                     for value in row)

    def continue_numbers(self, last: Mapping[str, int]) -> None:
        """After rows were copied, count up from {table: the last number}."""
        for table, number in last.items():
            self.execute("SELECT setval(pg_get_serial_sequence(?, 'id'), ?, true)",
                         (table, max(1, number)))

    def mistyped(self, table: str, key: str, columns: Mapping[str, str],
                 limit: int) -> list[object]:
        """Return no keys: a column of PostgreSQL has values of its own type only."""
        return []
