"""
What the site's server keeps, in one SQLite file: reports, until they are added up, and records.

A report is kept, and on the disk, before its node is told that it has arrived; so a server that is
killed at any moment has lost nothing, and begins again with what the file says.  Reports stay for
some days after the record is made of them: one that comes late makes a better record.

    jobs      one row for each run of a job: (cluster, job, attempt)
    reports   one row for each report: (cluster, job, attempt, node, seq)
    damaged_reports     those that could not be read any more: each costs itself alone
    clock     one row: the store's own time, store_clock.py; `first` and `due` are of it

The table of summaries is that of job_index.py, those of the harvest are those of harvest_store.py.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sqlite3
import zlib
from collections import namedtuple

import msgspec

from iostats.base.errors import StateError
from iostats.report.job_list import summary_of
from iostats.site import job_index, store_file
from iostats.site.store_clock import HERE, StoreClock
from iostats.site.store_file import HOW_ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from iostats.site.job_index import Question
    from iostats.site.store_clock import Clocks

log = logging.getLogger("iostats")

# What is wrong in a damaged file is said in its own bytes, which need not be UTF-8.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_VERSION = 2                    # 1: without summaries, and without the harvest
_MAKE = """
CREATE TABLE jobs (
    cluster TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    shown_as TEXT NOT NULL DEFAULT '', whole TEXT NOT NULL DEFAULT '',
    user TEXT NOT NULL DEFAULT '', about BLOB NOT NULL,
    first REAL NOT NULL, due REAL, made REAL, closed INTEGER NOT NULL DEFAULT 0,
    shown INTEGER NOT NULL DEFAULT 0, record BLOB,
    PRIMARY KEY (cluster, job, attempt)) WITHOUT ROWID;
CREATE INDEX jobs_job ON jobs (job);
CREATE INDEX jobs_shown ON jobs (shown_as);
CREATE INDEX jobs_whole ON jobs (whole);
CREATE INDEX jobs_made ON jobs (made);
CREATE INDEX jobs_user ON jobs (user, made);
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL;
CREATE INDEX jobs_first ON jobs (first);
CREATE TABLE reports (
    cluster TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    node TEXT NOT NULL, seq TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (cluster, job, attempt, node, seq)) WITHOUT ROWID;
"""
_MAKE_HARVEST = """
CREATE TABLE agents (node TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE targets (
    file_system TEXT NOT NULL, target TEXT NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY (file_system, target));
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY, file_system TEXT NOT NULL, target TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX blocks_target ON blocks (file_system, target);
CREATE TABLE lives (job TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE harvests (job TEXT PRIMARY KEY, made REAL NOT NULL, body BLOB NOT NULL);
CREATE INDEX harvests_made ON harvests (made);
"""

# What a store of version 2 has since it was found to be needed.
_MAKE_MORE = """
CREATE TABLE IF NOT EXISTS damaged_reports (
    cluster TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    node TEXT NOT NULL, seq TEXT NOT NULL, body BLOB, why TEXT NOT NULL,
    PRIMARY KEY (cluster, job, attempt, node, seq));
CREATE TABLE IF NOT EXISTS clock (
    one INTEGER PRIMARY KEY CHECK (one = 1), passed REAL NOT NULL, wall REAL NOT NULL,
    boot_id TEXT NOT NULL, up REAL NOT NULL);
CREATE INDEX IF NOT EXISTS jobs_unclosed ON jobs (first) WHERE due IS NULL AND NOT closed;
CREATE INDEX IF NOT EXISTS jobs_closed ON jobs (first) WHERE closed
"""
_DAY_S = 86400.0
_MOST_SAID = 1000               # damaged rows that are named in the log

Key = namedtuple("Key", "cluster job attempt")
Key.__doc__ = """One run of a job: its batch system's cluster, its id there, its restarts so far."""

Open = namedtuple("Open", "key about due nodes")
Open.__doc__ = """
A job that waits for its record.

Attributes:
    about: bytes, as given to the last `add`.
    due: when the record is made at the latest, by the store's time.
    nodes: names of the nodes that have reported.
"""

Kept = namedtuple("Kept", "node seq body")
Kept.__doc__ = """A report: whose, and its bytes."""

Known = namedtuple("Known", "about closed")
Known.__doc__ = """
A job of which something is here.

Attributes:
    about: as of Open.
    closed: its reports are no longer kept, so that none can be added.
"""

_AT_ONCE = 20                   # reports that are read in one go
_THIS = "cluster = ? AND job = ? AND attempt = ?"
_EXPECT = ("INSERT INTO jobs (cluster, job, attempt, about, user, first, due) "
           "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (cluster, job, attempt) DO UPDATE SET "
           "about = excluded.about, due = coalesce(due, excluded.due)")


@contextlib.contextmanager
def as_kept(path: str) -> Iterator[None]:
    """StateError where what the file gives is not what was kept: damaged, or of another kind."""
    try:
        yield
    except (zlib.error, msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError,
            ArithmeticError, RecursionError) as error:
        raise StateError(f"{path}: is damaged: {error!r:.200}; {HOW_ON}") from None


class Store:
    """The file; every change is one transaction, begun by the first change and ended by commit."""

    def __init__(self, path: str, clocks: Clocks = HERE) -> None:
        """Open `path`, and make it if it is not there; StateError."""
        self.path = path
        self._file: sqlite3.Connection = None  # type: ignore[assignment]     # just until it is open
        self._added = False         # something that `commit` has to put on the disk
        self._clock: StoreClock = None  # type: ignore[assignment]       # likewise
        self._said: set[str] = set()
        self._gone: StateError | None = None           # why nothing can be put there any more
        # Why that was dropped, until `commit` has said so.
        self._dropped: StateError | None = None
        try:
            store_file.make(path, self._make)
            if not os.path.getsize(path):
                raise StateError(f"{path}: has 0 bytes: it was cut, or made by somebody else; "
                                 f"{HOW_ON}")
            self._file = sqlite3.connect(path, timeout=0, isolation_level=None)
            self._prepare()
            self._clock = self._begun(clocks)
            self._opened = store_file.Opened(path)
        except sqlite3.OperationalError as error:
            self.close()
            if "locked" in str(error):
                raise StateError(f"{path}: another server has it open") from None
            raise StateError(f"{path}: cannot be opened: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self.close()
            raise StateError(f"{path}: expected our SQLite file, got: {error}; {HOW_ON}, or name "
                             f"another in site.cfg, [site] store") from None
        except StateError:
            self.close()
            raise
        except OSError as error:
            raise StateError(f"{path}: cannot be opened: {error.strerror}; name another in "
                             f"site.cfg, [site] store") from None

    def _make(self, file: sqlite3.Connection) -> None:
        file.execute("BEGIN IMMEDIATE")
        for statement in (_MAKE + job_index.MAKE + _MAKE_HARVEST + _MAKE_MORE).split(";"):
            file.execute(statement)
        file.execute(f"PRAGMA user_version = {_VERSION}")
        file.execute("COMMIT")

    def _prepare(self) -> None:
        """Have the file for us alone, and of our form."""
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
        version, = self._file.execute("PRAGMA user_version").fetchone()
        self._file.execute("BEGIN IMMEDIATE")
        if version not in (1, _VERSION):
            what = f"version {version}, of another release" if version else "somebody else's tables"
            raise StateError(f"{self.path}: expected a store of version {_VERSION}, got {what}; "
                             f"name another in site.cfg, [site] store")
        if version != _VERSION:
            for statement in (job_index.MAKE + _MAKE_HARVEST).split(";"):
                self._file.execute(statement)
            self._summarize()
            self._file.execute(f"PRAGMA user_version = {_VERSION}")
        for statement in _MAKE_MORE.split(";"):
            self._file.execute(statement)
        self._file.execute("COMMIT")
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")

    def _summarize(self) -> None:
        """Make the summaries of all records, as version 1 has none; in the caller's transaction."""
        made = damaged = 0
        for *key, record in self._file.execute(
                "SELECT cluster, job, attempt, record FROM jobs WHERE made IS NOT NULL"):
            try:
                summary = summary_of(msgspec.json.decode(zlib.decompress(record)))
            except (zlib.error, msgspec.DecodeError, LookupError, TypeError, AttributeError):
                damaged += 1
                continue
            self._file.execute(job_index.PUT, job_index.values_to_put(key, summary))
            made += 1
        if made or damaged:
            log.info("%s: now of version %s: %s records", self.path, _VERSION, made)
        if damaged:
            log.warning("%s: %s records are damaged: `iostats jobs` does not have them", self.path,
                        damaged)

    def _begun(self, clocks: Clocks) -> StoreClock:
        rows = self._file.execute("SELECT passed, wall, boot_id, up FROM clock").fetchall()
        # A store of before has the clock's times; its latest one that is not ahead of now.
        [(latest,)] = self._file.execute("SELECT max(first) FROM jobs")
        kept = next((row for row in rows if _is_clock(row)), None)
        return StoreClock(clocks, kept, latest if isinstance(latest, float) else None)

    def now(self) -> float:
        """The store's own time, by which reports are due and forgotten; see store_clock.py."""
        return self._clock.now()

    def close(self) -> None:
        """Close the file; what is not committed is dropped."""
        if self._file is None:
            return
        if self._clock is not None and self._gone is None:
            with contextlib.suppress(*_ERRORS, StateError):
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                self._keep_time()
        self._file.close()

    def _keep_time(self) -> None:
        """Keep how much time has passed, and say what is wrong with the clock."""
        news = self._clock.look()
        if news:
            log.warning("%s: %s", self.path, news)
        self.change("INSERT OR REPLACE INTO clock VALUES (1, ?, ?, ?, ?)", self._clock.row())

    # -- reports -------------------------------------------------------------------------------

    def add(self, key: Key, node: str, seq: str, body: bytes, about: bytes, user: str, now: float,
            due: float) -> bool:
        """
        Keep a report; True, or False when it is there already; StateError.

        `body`, `about`: bytes.  Not safe on the disk before `commit`.
        """
        try:
            self._begin()
            done = self._file.execute("INSERT OR IGNORE INTO reports VALUES (?, ?, ?, ?, ?, ?)",
                                      (*key, node, seq, zlib.compress(body, 1)))
            if not done.rowcount:
                return False
            self._added = True
            self._file.execute(_EXPECT, (*key, about, user, now, due))
            return True
        except _ERRORS as error:
            raise self._failed(error) from None

    def expect(self, jobs: Iterable[tuple[Key, bytes, str, float, float]]) -> None:
        """Records of jobs are due, without a report: [(key, about, user, now, due)].  Committed."""
        statements = [(_EXPECT, (*key, *others)) for key, *others in jobs]
        if statements:
            self.change(*statements)

    def runs_of(self, job: str) -> list[Key]:
        """[Key] of a job by the batch system's own id, the latest run last."""
        return [Key(*row) for row in self.rows("SELECT cluster, job, attempt FROM jobs "
                                               "WHERE job = ? ORDER BY first, attempt", (job,))]

    def do(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Change something, without a commit; StateError.  How many rows were changed."""
        try:
            self._begin()
            self._added = True
            return self._file.execute(sql, values).rowcount
        except _ERRORS as error:
            raise self._failed(error) from None

    def do_all(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """The same for each of these rows of values."""
        try:
            self._begin()
            self._added = True
            self._file.executemany(sql, rows)
        except _ERRORS as error:
            raise self._failed(error) from None

    def _begin(self) -> None:
        if self._gone is not None:
            raise self._gone
        if not self._file.in_transaction:
            self._file.execute("BEGIN IMMEDIATE")

    @property
    def has_news(self) -> bool:
        """Whether `commit` has something to put on the disk."""
        return self._added

    def commit(self) -> None:
        """
        Put all that was added on the disk.

        StateError when that can't be; then nothing of what was added since the last `commit` is
        kept, whatever it was that failed in between.
        """
        try:
            if self._file.in_transaction:
                self._check_file()
                self._file.execute("ROLLBACK" if self._dropped else "COMMIT")
        except (*_ERRORS, StateError) as error:
            self._failed(error)
        dropped, self._dropped, self._added = self._dropped, None, False
        if dropped:
            raise dropped

    def _failed(self, error: Exception) -> StateError:
        """Drop all that is not on the disk; the StateError, which `commit` will raise as well."""
        failed = (error if isinstance(error, StateError) else
                  StateError(f"{self.path}: cannot be written: {error}"))
        if self._file.in_transaction:                 # for some errors SQLite has done it already
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
        if self._added:
            self._dropped = failed
        return failed

    def _check_file(self) -> None:
        """StateError where what is committed would be nowhere; and for ever then."""
        if self._gone is None:
            try:
                self._opened.check()
                return
            except store_file.Removed as error:
                with contextlib.suppress(sqlite3.Error):
                    self._file.execute("ROLLBACK")
                self._gone = StateError(f"{error}; {store_file.rescued(self._file, self.path)}")
            except StateError as error:
                self._gone = error
        raise self._gone

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """[row] that a SELECT finds; StateError."""
        try:
            return self._file.execute(sql, values).fetchall()
        except _ERRORS as error:
            raise StateError(f"{self.path}: cannot be read: {error}") from None

    def reports(self, key: Key) -> Iterator[Kept]:
        """
        A job's reports, one after the other.

        A few are read at a time, so others can be added meanwhile.  What can't be unpacked is put
        aside: see `damaged`.
        """
        last = ("", "")
        while True:
            rows = self.rows(f"SELECT body, node, seq FROM reports WHERE {_THIS} "
                              f"AND (node, seq) > (?, ?) ORDER BY node, seq LIMIT {_AT_ONCE}",
                              (*key, *last))
            for body, node, seq in rows:
                last = node, seq
                try:
                    yield Kept(node, seq, _unpacked(body, self.path))
                except StateError as error:
                    self.put_aside(key, node, seq, str(error))
            if not rows:
                return

    def put_aside(self, key: Key, node: str, seq: str, why: str) -> None:
        """A report that can't be read is named, and keeps no other one back; StateError."""
        run = f" (run {key.attempt})" if key.attempt else ""
        log.error("%s: the report of node %s of job %s%s is damaged, and put aside (table "
                  "damaged_reports): %s", self.path, node, key.job, run, why)
        one = f"{_THIS} AND node = ? AND seq = ?"
        self.change((f"INSERT OR REPLACE INTO damaged_reports SELECT cluster, job, attempt, node, "
                     f"seq, body, ? FROM reports WHERE {one}", (why[:500], *key, node, seq)),
                    (f"DELETE FROM reports WHERE {one}", (*key, node, seq)))

    def damaged(self, key: Key) -> list[str]:
        """Nodes of whose reports one is damaged, and has not come again."""
        return [str(node) for node, in self.rows(
            f"SELECT DISTINCT node FROM damaged_reports AS bad WHERE {_THIS} AND NOT EXISTS "
            "(SELECT 1 FROM reports AS one WHERE one.cluster = bad.cluster AND one.job = bad.job "
            "AND one.attempt = bad.attempt AND one.node = bad.node AND one.seq = bad.seq)", key)]

    def open_jobs(self) -> list[Open]:
        """[Open] of all jobs that wait for their record."""
        return [Open(Key(*row[:3]), row[3], row[4], [node for node, in self.rows(
                    f"SELECT DISTINCT node FROM reports WHERE {_THIS}", row[:3])])
                for row in self.rows("SELECT cluster, job, attempt, about, due FROM jobs "
                                      "WHERE due IS NOT NULL ORDER BY due, first")]

    # -- records -------------------------------------------------------------------------------

    def job(self, key: Key) -> Known | None:
        """The Known of a job of which something is here, or None."""
        rows = self.rows(f"SELECT about, closed FROM jobs WHERE {_THIS}", key)
        return Known(rows[0][0], bool(rows[0][1])) if rows else None

    def outcome_known_at(self, key: Key) -> float | None:
        """When a record was made that has how the run ended, by the batch system; or None."""
        rows = self.rows("SELECT made FROM jobs JOIN summaries USING (cluster, job, attempt) WHERE "
                         f"{_THIS} AND outcome != ''", key)
        return rows[0][0] if rows and isinstance(rows[0][0], float) else None

    def keep_record(self, key: Key, record: bytes, shown_as: str, whole: str, user: str, now: float,
                    summary: dict[str, Any]) -> None:
        """
        Keep a job's record (bytes); it is due no longer.  Committed.

        `shown_as`: the job as its users write it; `whole`: the array, or the heterogeneous job,
        that it is a part of; "" for none.  `summary`: joblist.summary_of(record).
        """
        self.keep_records([(key, record, shown_as, whole, user, now, summary)])

    def keep_records(self, records: Iterable[tuple[Any, ...]]) -> None:
        """[the arguments of keep_record], all of them in one commit, or none."""
        self.change(*(
            statement for key, record, shown_as, whole, user, now, summary in records
            for statement in (
                (f"UPDATE jobs SET record = ?, shown_as = ?, whole = ?, user = ?, made = ?, "
                 f"due = NULL WHERE {_THIS}", (zlib.compress(record), shown_as, whole, user, now,
                                               *key)),
                (job_index.PUT, job_index.values_to_put(key, summary)))))

    def show_once(self, key: Key) -> bool:
        """True for the first call of a job: its report goes to its user now.  Committed."""
        return self.change(f"UPDATE jobs SET shown = 1 WHERE {_THIS} AND shown = 0", key) > 0

    def change(self, *statements: Any) -> int:
        """
        Do [(sql, values), ...], or one of them, and commit; how many rows the last one changed.
        """
        rows = 0
        if statements and isinstance(statements[0], str):
            statements = (statements,)
        try:
            self._begin()
            for statement in statements:
                rows = self._file.execute(*statement).rowcount
            self._check_file()
            self._file.execute("COMMIT")
            self._added = False
        except (*_ERRORS, StateError) as error:
            raise self._failed(error) from None
        return rows

    def records(self, job: str, user: str | None = None) -> Iterator[bytes]:
        """
        The records (bytes) of `job`, as its users or its nodes call it, one after the other: an
        array has one for each task, a requeued job one for each run; of `user` alone, if given.
        """
        keys = job and self.rows(
            "SELECT cluster, job, attempt FROM jobs WHERE made IS NOT NULL "
            "AND (shown_as = ?1 OR whole = ?1 OR job = ?1) AND (?2 IS NULL OR user = ?2) "
            "ORDER BY cluster, length(shown_as), shown_as, job, attempt", (job, user))
        yield from self.records_of(keys)

    def latest(self, count: int, user: str | None = None) -> Iterator[bytes]:
        """The latest `count` records (bytes), the newest first; of `user` alone, if given."""
        mine = "" if user is None else "AND user = ?"
        keys = self.rows(f"SELECT cluster, job, attempt FROM jobs WHERE made IS NOT NULL {mine} "
                          f"ORDER BY made DESC LIMIT ?", (*([] if user is None else [user]), count))
        for key in keys:
            try:
                yield from self.records_of([key])
            except StateError as error:                # it costs itself alone
                self._say_once(f"the record of job {key[1]} is left out: {error}")

    def listed(self, question: Question) -> tuple[list[dict[str, Any]], tuple[Any, ...] | None]:
        """
        ([row] of a summaries.Question, where the next question goes on, or None where there are no
        more); ValueError, StateError.
        """
        found, rows = self.rows(*job_index.select(question)), []
        for values in found[:question.limit]:
            try:
                with as_kept(self.path):
                    rows.append(job_index.row_of(values))
            except StateError as error:
                self._say_once(f"a row of `iostats jobs` is damaged, and left out: {error}")
        if len(found) <= question.limit or not rows:
            return rows, None
        return rows, job_index.mark_of(rows[-1], question)

    def _say_once(self, text: str) -> None:
        if text not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(text)
            log.error("%s", text)

    def records_of(self, keys: Iterable[Sequence[Any]]) -> Iterator[bytes]:
        """The records (bytes) of [Key], one after the other."""
        for key in keys:
            for record, in self.rows(f"SELECT record FROM jobs WHERE {_THIS}", key):
                try:
                    found = _unpacked(record, self.path)
                except StateError as error:
                    raise StateError(f"the record of job {key[1]}: {error}") from None
                yield found

    def forget(self, reports_before: float, records_before: float) -> None:
        """
        Remove reports and records of jobs that were first heard of before these moments, by the
        store's time; a day's worth at the most, so that there is time to see a mistake.
        """
        with contextlib.suppress(StateError):          # on a full disk what follows makes room
            self._keep_time()
        unclosed = self._oldest("due IS NULL AND NOT closed")
        reports_before = min(reports_before, _DAY_S + unclosed)
        records_before = min(records_before, _DAY_S + min(unclosed, self._oldest("closed")))
        self.change(
            ("DELETE FROM reports WHERE (cluster, job, attempt) IN (SELECT cluster, job, attempt "
             "FROM jobs WHERE first < ? AND due IS NULL AND NOT closed)", (reports_before,)),
            ("UPDATE jobs SET closed = 1 WHERE first < ? AND due IS NULL", (reports_before,)),
            (job_index.FORGET, (records_before,)),
            ("DELETE FROM damaged_reports WHERE (cluster, job, attempt) IN (SELECT cluster, job, "
             "attempt FROM jobs WHERE first < ? AND closed)", (records_before,)),
            ("DELETE FROM jobs WHERE first < ? AND closed", (records_before,)))

    def _oldest(self, which: str) -> float:
        rows = self.rows(f"SELECT first FROM jobs WHERE {which} ORDER BY first LIMIT 1")
        return rows[0][0] if rows and isinstance(rows[0][0], float) else math.inf


def _is_clock(row: tuple[Any, ...]) -> bool:
    return isinstance(row[2], str) and all(
        isinstance(row[at], (int, float)) and 0 <= row[at] < 1e11 for at in (0, 1, 3))


def _unpacked(data: bytes, path: str) -> bytes:
    with as_kept(path):
        return zlib.decompress(data)
