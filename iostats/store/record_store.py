"""
Tables of reports, until they are added up, and of records.

A report is on the disk before its node is sent the acknowledgement; so a server that is killed at
any moment has lost nothing, and restarts with the data in the file.  Reports stay for some days
after the record is made of them: one that comes late makes a better record.

    tables.py          the tables; schema.py: makes them, and upgrades those of an older release
    database.py        transactions, on either engine: sqlite.py, postgresql.py
    write_errors.py    log messages while it cannot be written
    clock.py           the store's own time
    repair.py          the readable rows of a damaged file
"""

from __future__ import annotations

import contextlib
import logging
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from iostats.base.errors import StateError
from iostats.base.ids import RawJobId
from iostats.report.job_fields import JobMark, ListedJob
from iostats.report.job_summary import FileSystemSummary, Summary, TargetSummary
from iostats.store import job_index
from iostats.store.clock import HERE, Clocks, StoreClock
from iostats.store.database import StoreDatabase, update_columns, upsert
from iostats.store.job_index import JobsParams
from iostats.store.write_errors import REPAIR_HINT

log = logging.getLogger(__name__)

_DAY_S = 86400.0
_MOST_LOGGED = 1000             # damaged rows that are named in the log


class Key(NamedTuple):
    """One run of a job: its batch system's cluster, its id there, its restarts so far."""

    cluster: str
    job: RawJobId
    attempt: int


class DueJob(NamedTuple):
    """A job that waits for its record."""

    key: Key
    about: bytes        # bytes, as given to the last `add`
    due: float          # when the record is made at the latest, by the store's time
    nodes: list[str]    # names of the nodes that have reported


class StoredReport(NamedTuple):
    """A report: its node, what tells it from others of the node, its bytes."""

    node: str
    seq: str
    body: bytes


class StoredJob(NamedTuple):
    """The stored facts of a job."""

    about: bytes    # as of DueJob
    closed: bool    # its reports are no longer kept, so that none can be added


_AT_ONCE = 20                   # reports that are read in one go
_THIS = "cluster = ? AND job = ? AND attempt = ?"
_ADD = "INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_EXPECT = ("INSERT INTO jobs (cluster, job, attempt, about, \"user\", first, due) "
           "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (cluster, job, attempt) DO UPDATE SET "
           "about = excluded.about, due = coalesce(jobs.due, excluded.due)")
_KEEP_TIME = upsert("clock", "one", "passed, wall, boot_id, up")


@contextlib.contextmanager
def report_damage(path: str) -> Iterator[None]:
    """StateError, in place of the errors of reading content that is damaged."""
    try:
        yield
    except (zlib.error, msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError,
            ArithmeticError, RecursionError) as error:
        raise StateError(f"{path}: is damaged: {error!r:.200}; {REPAIR_HINT}") from None


class Store(StoreDatabase):
    """The reports and records of all jobs."""

    def __init__(self, address: str, clocks: Clocks = HERE,
                 stand_by: Callable[[], object] | None = None) -> None:
        """
        Open the store at a path or URL, and make it if it is not there; StateError.

        `stand_by`: as of StoreDatabase.
        """
        self._logged: set[str] = set()
        super().__init__(address, stand_by)
        try:
            self._clock = self._open_clock(clocks)
        except StateError as error:
            self.connection.close()
            raise StateError(f"{error}; {REPAIR_HINT}") from None

    def _open_clock(self, clocks: Clocks) -> StoreClock:
        rows = self.rows("SELECT passed, wall, boot_id, up FROM clock", (),
                         tuple[float, float, str, float])
        # Where that row is lost, no time in the store is later than the store's time.
        [(latest,)] = self.rows("SELECT max(first) FROM jobs", (), tuple[float])
        return StoreClock(clocks, next((row for row in rows if _is_clock_row(row)), None),
                          latest if isinstance(latest, float) else None)

    def now(self) -> float:
        """The store's own time, by which reports are due and forgotten; see clock.py."""
        return self._clock.now()

    def before_close(self) -> None:
        self._store_time()

    def _store_time(self) -> None:
        """Store how much time has passed, and log what is wrong with the clock."""
        message = self._clock.advance()
        if message:
            log.warning("%s: %s", self.path, message)
        self.change(_KEEP_TIME, (1, *self._clock.row()))

    # -- reports -------------------------------------------------------------------------------

    def add(self, key: Key, node: str, seq: str, body: bytes, about: bytes | None, user: str,
            now: float, due: float) -> bool:
        """
        Store a report; False if it is stored already; StateError.

        `about`: None for a job that is due already with the same facts.  Not safe on the disk
        before `commit`.
        """
        try:
            self._begin()
            done = self.connection.execute(_ADD, (*key, node, seq, zlib.compress(body, 1)))
            if not done.rowcount:
                return False
            self._has_changes = True
            if about is not None:
                self.connection.execute(_EXPECT, (*key, about, user, now, due))
            return True
        except self._errors as error:
            raise self._roll_back(error) from None

    def expect(self, jobs: Iterable[tuple[Key, bytes, str, float, float]]) -> None:
        """
        Make records due without a report: [(key, about, user, now, due)].  Committed; StateError.
        """
        statements = [(_EXPECT, (*key, *values)) for key, *values in jobs]
        if statements:
            self.change(*statements)

    def list_runs(self, job: str) -> list[Key]:
        """Return [Key] of a job by the batch system's own id, the latest run last."""
        return self.rows("SELECT cluster, job, attempt FROM jobs WHERE job = ? "
                         "ORDER BY first, attempt", (job,), Key)

    def has_record(self, key: Key) -> bool:
        """Whether a record of this run was made."""
        return bool(self.rows(f"SELECT 1 FROM jobs WHERE {_THIS} AND made IS NOT NULL", key))

    def list_jobs_with_same_id(self, key: Key, since: float, until: float) -> list[Key]:
        """Return [Key] of other clusters' jobs of the same id that ran at some time between."""
        if not key.cluster:
            return []
        return self.rows(
            "SELECT cluster, job, attempt FROM jobs JOIN summaries USING (cluster, job, attempt) "
            "WHERE job = ? AND cluster NOT IN ('', ?) AND summaries.over >= ? "
            "AND summaries.began <= ?", (key.job, key.cluster, since, until), Key)

    def reports(self, key: Key) -> Iterator[StoredReport]:
        """
        A job's reports, one after the other.

        A few are read at a time, so that others can be added between them.  Damaged ones are set
        aside: see `list_damaged`.
        """
        last = ("", "")
        while True:
            rows = self.rows(f"SELECT body, node, seq FROM reports WHERE {_THIS} "
                              f"AND (node, seq) > (?, ?) ORDER BY node, seq LIMIT {_AT_ONCE}",
                             (*key, *last), tuple[bytes, str, str])
            for body, node, seq in rows:
                last = node, seq
                try:
                    yield StoredReport(node, seq, unpack(body, self.path))
                except StateError as error:
                    self.put_aside(key, node, seq, str(error))
            if not rows:
                return

    def put_aside(self, key: Key, node: str, seq: str, why: str) -> None:
        """Log a report that cannot be read, and move it to damaged_reports; StateError."""
        run = f" (run {key.attempt})" if key.attempt else ""
        log.error("%s: the report of node %s of job %s%s is damaged, and put aside (table "
                  "damaged_reports): %s", self.path, node, key.job, run, why,
                  extra={"job": key.job, "node": node})
        condition = f"{_THIS} AND node = ? AND seq = ?"
        self.change((f"INSERT INTO damaged_reports SELECT cluster, job, attempt, node, seq, body, "
                     f"CAST(? AS text) FROM reports WHERE {condition} "
                     f"ON CONFLICT (cluster, job, attempt, node, seq) DO UPDATE SET "
                     f"{update_columns('body, why')}",
                     (why[:500], *key, node, seq)),
                    (f"DELETE FROM reports WHERE {condition}", (*key, node, seq)))

    def list_damaged(self, key: Key) -> list[str]:
        """Return [node] of damaged reports that have not been sent again."""
        return [str(node) for node, in self.rows(
            f"SELECT DISTINCT node FROM damaged_reports AS bad WHERE {_THIS} AND NOT EXISTS "
            "(SELECT 1 FROM reports AS one WHERE one.cluster = bad.cluster AND one.job = bad.job "
            "AND one.attempt = bad.attempt AND one.node = bad.node AND one.seq = bad.seq)", key,
            tuple[str])]

    def open_jobs(self) -> list[DueJob]:
        """Return [DueJob] of all jobs that wait for their record."""
        return [DueJob(Key(cluster, RawJobId(job), attempt), about, due, [
                    node for node, in self.rows(
                        f"SELECT DISTINCT node FROM reports WHERE {_THIS}",
                        (cluster, job, attempt), tuple[str])])
                for cluster, job, attempt, about, due in self.rows(
                    "SELECT cluster, job, attempt, about, due FROM jobs WHERE due IS NOT NULL "
                    "ORDER BY due, first", (), tuple[str, str, int, bytes, float])]

    # -- records -------------------------------------------------------------------------------

    def job(self, key: Key) -> StoredJob | None:
        """The StoredJob of a job, or None."""
        rows = self.rows(f"SELECT about, closed FROM jobs WHERE {_THIS}", key,
                         tuple[bytes, int])
        return StoredJob(rows[0][0], bool(rows[0][1])) if rows else None

    def query_outcome_time(self, key: Key) -> float | None:
        """Return when a record was made that has the batch system's outcome of the run; or None."""
        rows = self.rows("SELECT made FROM jobs JOIN summaries USING (cluster, job, attempt) WHERE "
                         f"{_THIS} AND outcome != ''", key, tuple[float])
        return rows[0][0] if rows and isinstance(rows[0][0], float) else None

    def store_records(self, records: Iterable[tuple[
            Key, bytes, str, str, str, float, Summary, Sequence[FileSystemSummary],
            Sequence[TargetSummary]]]) -> None:
        """
        Store [(key, record, shown_as, whole, user, now, summary, file_systems, targets)], which are
        due no longer; all of them in one commit, or none.  StateError.

        `shown_as`: the job as its users write it; `whole`: the array, or the heterogeneous job,
        that it is a part of; "" for none.  `summary`: job_summary.make_summary(record);
        `file_systems`: summarize_file_systems(record); `targets`: summarize_targets(record).
        """
        statements: list[tuple[str, tuple[object, ...]]] = []
        rows_of: dict[str, list[tuple[object, ...]]] = {sql: [] for sql in job_index.PUT_PARTS}
        for key, record, shown_as, whole, user, now, summary, *parts in records:
            statements += [
                (f'UPDATE jobs SET record = ?, shown_as = ?, whole = ?, "user" = ?, made = ?, '
                 f"due = NULL WHERE {_THIS}", (zlib.compress(record), shown_as, whole, user, now,
                                               *key)),
                (job_index.PUT, job_index.values_to_put(key, summary)),
                *((drop, key) for drop in job_index.DROP_PARTS)]
            for rows, part in zip(rows_of.values(), parts):
                rows += [(*key, *row) for row in part]
        self.change(*statements, rows_of=rows_of)

    def add_imported(self, jobs: Iterable[tuple[Key, bytes, bytes, str, str, str, float,
                                                Summary]]) -> None:
        """
        Store [(key, about, record, shown_as, whole, user, now, summary)] of jobs that are not in
        the store, in one commit; StateError.
        """
        records = []
        for key, about, record, shown_as, whole, user, now, summary in jobs:
            self.do(_EXPECT, (*key, about, user, self.now(), now))
            records.append((key, record, shown_as, whole, user, now, summary, (), ()))
        self.store_records(records)

    def show_once(self, key: Key) -> bool:
        """True at the first call for a job: it is to be shown now.  Committed; StateError."""
        return self.change(f"UPDATE jobs SET shown = 1 WHERE {_THIS} AND shown = 0", key) > 0

    def records(self, job: str, user: str | None = None) -> Iterator[bytes]:
        """
        The records (bytes) of `job`, as its users or its nodes call it, one after the other: an
        array has one for each task, a requeued job one for each run; of `user` alone, if given.
        """
        keys = [] if not job else self.rows(
            "SELECT cluster, job, attempt FROM jobs WHERE made IS NOT NULL "
            f"AND (shown_as = ? OR whole = ? OR job = ?) {_filter_user(user)}"
            "ORDER BY cluster, length(shown_as), shown_as, job, attempt",
            (job, job, job, *_list_user_values(user)), Key)
        yield from self.read_records(keys)

    def latest(self, count: int, user: str | None = None) -> Iterator[bytes]:
        """The latest `count` records (bytes), the newest first; of `user` alone, if given."""
        keys = self.rows(f"SELECT cluster, job, attempt FROM jobs WHERE made IS NOT NULL "
                         f"{_filter_user(user)}ORDER BY made DESC LIMIT ?",
                         (*_list_user_values(user), count), Key)
        for key in keys:
            try:
                yield from self.read_records([key])
            except StateError as error:                # it costs itself alone
                self._log_once(f"the record of job {key[1]} is left out: {error}")

    def listed(self, question: JobsParams) -> tuple[list[ListedJob], JobMark | None]:
        """
        Return ([row] of a JobsParams, where the next question goes on, or None where there are no
        more); ValueError, StateError.
        """
        [(longest_s,)] = self.rows(job_index.LONGEST)
        matches, rows = self.rows(*job_index.select(
            question, longest_s if isinstance(longest_s, float) else None)), []
        last: tuple[object, ...] = ()
        for values in matches[:question.limit]:
            try:
                with report_damage(self.path):
                    rows.append(job_index.make_row(values))
                last = values
            except StateError as error:
                self._log_once(f"a row of `iostats jobs` is damaged, and left out: {error}")
        if len(matches) <= question.limit or not rows:
            return rows, None
        return rows, job_index.make_cursor(last)

    def _log_once(self, text: str) -> None:
        if text not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(text)
            log.error("%s", text)

    def read_records(self, keys: Iterable[tuple[str, str, int]]) -> Iterator[bytes]:
        """The records (bytes) of [Key], one after the other."""
        for key in keys:
            for record, in self.rows(f"SELECT record FROM jobs WHERE {_THIS} "
                                     "AND record IS NOT NULL", key, tuple[bytes]):
                try:
                    body = unpack(record, self.path)
                except StateError as error:
                    raise StateError(f"the record of job {key[1]}: {error}") from None
                yield body

    def delete_expired(self, reports_before: float, records_before: float) -> None:
        """
        Remove reports and records of jobs whose first report came before these moments, by the
        store's time; up to a day's worth at once, so that there is time to notice a mistake.
        """
        with contextlib.suppress(StateError):          # on a full disk what follows makes room
            self._store_time()
        unclosed = self._find_oldest("due IS NULL AND closed = 0")
        reports_before = min(reports_before, _DAY_S + unclosed)
        records_before = min(records_before,
                             _DAY_S + min(unclosed, self._find_oldest("closed = 1")))
        self.change(
            ("DELETE FROM reports WHERE (cluster, job, attempt) IN (SELECT cluster, job, attempt "
             "FROM jobs WHERE first < ? AND due IS NULL AND closed = 0)", (reports_before,)),
            ("UPDATE jobs SET closed = 1 WHERE first < ? AND due IS NULL", (reports_before,)),
            *((statement, (records_before,)) for statement in job_index.FORGET),
            ("DELETE FROM damaged_reports WHERE (cluster, job, attempt) IN (SELECT cluster, job, "
             "attempt FROM jobs WHERE first < ? AND closed = 1)", (records_before,)),
            ("DELETE FROM jobs WHERE first < ? AND closed = 1", (records_before,)))

    def _find_oldest(self, condition: str) -> float:
        rows = self.rows(f"SELECT first FROM jobs WHERE {condition} ORDER BY first LIMIT 1", (),
                         tuple[float])
        return rows[0][0] if rows and isinstance(rows[0][0], float) else math.inf


def _filter_user(user: str | None) -> str:
    return "" if user is None else 'AND "user" = ? '


def _list_user_values(user: str | None) -> list[str]:
    return [] if user is None else [user]


def _is_clock_row(row: tuple[float, float, str, float]) -> bool:
    return isinstance(row[2], str) and all(
        isinstance(number, (int, float)) and 0 <= number < 1e11
        for number in (row[0], row[1], row[3]))


def unpack(data: bytes, path: str) -> bytes:
    """A report or a record that was stored; StateError."""
    with report_damage(path):
        return zlib.decompress(data)
