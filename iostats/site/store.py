"""
What the site's server keeps: reports, until they are added up, and records.

A report is on the disk before its node is told that it has arrived; so a server that is killed at
any moment has lost nothing, and begins again with what the file says.  Reports stay for some days
after the record is made of them: one that comes late makes a better record.

    store_schema.py      the tables
    store_database.py    transactions
    store_file.py        the file itself
    store_trouble.py     what the log says when it cannot be written
    store_clock.py       the store's own time
    store_repair.py      what can be read of a damaged one
"""

from __future__ import annotations

import contextlib
import logging
import math
import zlib
from collections import namedtuple

import msgspec

from iostats.base.errors import StateError
from iostats.site import job_index, store_schema
from iostats.site.store_clock import HERE, StoreClock
from iostats.site.store_database import ERRORS, StoreDatabase
from iostats.site.store_file import REPAIR_HINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from iostats.report.job_summary import Summary
    from iostats.site.job_index import JobsParams
    from iostats.site.store_clock import Clocks

log = logging.getLogger("iostats")

_DAY_S = 86400.0
_MOST_LOGGED = 1000             # damaged rows that are named in the log

Key = namedtuple("Key", "cluster job attempt")
Key.__doc__ = """One run of a job: its batch system's cluster, its id there, its restarts so far."""

DueJob = namedtuple("DueJob", "key about due nodes")
DueJob.__doc__ = """
A job that waits for its record.

Attributes:
    about: bytes, as given to the last `add`.
    due: when the record is made at the latest, by the store's time.
    nodes: names of the nodes that have reported.
"""

StoredReport = namedtuple("StoredReport", "node seq body")
StoredReport.__doc__ = """A report: its node, what tells it from others of the node, its bytes."""

StoredJob = namedtuple("StoredJob", "about closed")
StoredJob.__doc__ = """
What is known of a job.

Attributes:
    about: as of DueJob.
    closed: its reports are no longer kept, so that none can be added.
"""

_AT_ONCE = 20                   # reports that are read in one go
_THIS = "cluster = ? AND job = ? AND attempt = ?"
_EXPECT = ("INSERT INTO jobs (cluster, job, attempt, about, user, first, due) "
           "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (cluster, job, attempt) DO UPDATE SET "
           "about = excluded.about, due = coalesce(due, excluded.due)")


@contextlib.contextmanager
def damage_reported(path: str) -> Iterator[None]:
    """StateError, in place of the errors of reading content that is damaged."""
    try:
        yield
    except (zlib.error, msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError,
            ArithmeticError, RecursionError) as error:
        raise StateError(f"{path}: is damaged: {error!r:.200}; {REPAIR_HINT}") from None


class Store(StoreDatabase):
    """The reports and records of all jobs."""

    def __init__(self, path: str, clocks: Clocks = HERE) -> None:
        """Open `path`, and make it if it is not there; StateError."""
        self._clocks = clocks
        self._clock: StoreClock | None = None           # until the file is open
        self._logged: set[str] = set()
        super().__init__(path, store_schema.make, store_schema.upgrade)

    def opened(self) -> None:
        rows = self.connection.execute("SELECT passed, wall, boot_id, up FROM clock").fetchall()
        # A store of an older release has times of the clock.
        [(latest,)] = self.connection.execute("SELECT max(first) FROM jobs")
        kept = next((row for row in rows if _is_clock_row(row)), None)
        self._clock = StoreClock(self._clocks, kept, latest if isinstance(latest, float) else None)

    def now(self) -> float:
        """The store's own time, by which reports are due and forgotten; see store_clock.py."""
        assert self._clock is not None
        return self._clock.now()

    def before_close(self) -> None:
        if self._clock is not None:
            self._keep_time()

    def _keep_time(self) -> None:
        """Keep how much time has passed, and log what is wrong with the clock."""
        assert self._clock is not None
        message = self._clock.advance()
        if message:
            log.warning("%s: %s", self.path, message)
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
            done = self.connection.execute(
                "INSERT OR IGNORE INTO reports VALUES (?, ?, ?, ?, ?, ?)",
                (*key, node, seq, zlib.compress(body, 1)))
            if not done.rowcount:
                return False
            self._has_changes = True
            self.connection.execute(_EXPECT, (*key, about, user, now, due))
            return True
        except ERRORS as error:
            raise self._failed(error) from None

    def expect(self, jobs: Iterable[tuple[Key, bytes, str, float, float]]) -> None:
        """
        Make records due without a report: [(key, about, user, now, due)].  Committed; StateError.
        """
        statements = [(_EXPECT, (*key, *others)) for key, *others in jobs]
        if statements:
            self.change(*statements)

    def runs_of(self, job: str) -> list[Key]:
        """[Key] of a job by the batch system's own id, the latest run last."""
        return [Key(*row) for row in self.rows("SELECT cluster, job, attempt FROM jobs "
                                               "WHERE job = ? ORDER BY first, attempt", (job,))]

    def has_record(self, key: Key) -> bool:
        """Whether a record of this run was made."""
        return bool(self.rows(f"SELECT 1 FROM jobs WHERE {_THIS} AND made IS NOT NULL", key))

    def namesakes(self, key: Key, since: float, until: float) -> list[Key]:
        """[Key] of other clusters' jobs of the same id that ran at some time between."""
        if not key.cluster:
            return []
        return [Key(*row) for row in self.rows(
            "SELECT cluster, job, attempt FROM jobs JOIN summaries USING (cluster, job, attempt) "
            "WHERE job = ? AND cluster NOT IN ('', ?) AND summaries.over >= ? "
            "AND summaries.began <= ?", (key.job, key.cluster, since, until))]

    def reports(self, key: Key) -> Iterator[StoredReport]:
        """
        A job's reports, one after the other.

        A few are read at a time, so others can be added meanwhile.  What cannot be unpacked is
        set aside: see `damaged`.
        """
        last = ("", "")
        while True:
            rows = self.rows(f"SELECT body, node, seq FROM reports WHERE {_THIS} "
                              f"AND (node, seq) > (?, ?) ORDER BY node, seq LIMIT {_AT_ONCE}",
                              (*key, *last))
            for body, node, seq in rows:
                last = node, seq
                try:
                    yield StoredReport(node, seq, _unpacked(body, self.path))
                except StateError as error:
                    self.put_aside(key, node, seq, str(error))
            if not rows:
                return

    def put_aside(self, key: Key, node: str, seq: str, why: str) -> None:
        """Log a report that cannot be read, and move it to damaged_reports; StateError."""
        run = f" (run {key.attempt})" if key.attempt else ""
        log.error("%s: the report of node %s of job %s%s is damaged, and put aside (table "
                  "damaged_reports): %s", self.path, node, key.job, run, why)
        one = f"{_THIS} AND node = ? AND seq = ?"
        self.change((f"INSERT OR REPLACE INTO damaged_reports SELECT cluster, job, attempt, node, "
                     f"seq, body, ? FROM reports WHERE {one}", (why[:500], *key, node, seq)),
                    (f"DELETE FROM reports WHERE {one}", (*key, node, seq)))

    def damaged(self, key: Key) -> list[str]:
        """[node] of damaged reports that have not been sent again."""
        return [str(node) for node, in self.rows(
            f"SELECT DISTINCT node FROM damaged_reports AS bad WHERE {_THIS} AND NOT EXISTS "
            "(SELECT 1 FROM reports AS one WHERE one.cluster = bad.cluster AND one.job = bad.job "
            "AND one.attempt = bad.attempt AND one.node = bad.node AND one.seq = bad.seq)", key)]

    def open_jobs(self) -> list[DueJob]:
        """[DueJob] of all jobs that wait for their record."""
        return [DueJob(Key(*row[:3]), row[3], row[4], [node for node, in self.rows(
                    f"SELECT DISTINCT node FROM reports WHERE {_THIS}", row[:3])])
                for row in self.rows("SELECT cluster, job, attempt, about, due FROM jobs "
                                      "WHERE due IS NOT NULL ORDER BY due, first")]

    # -- records -------------------------------------------------------------------------------

    def job(self, key: Key) -> StoredJob | None:
        """The StoredJob of a job, or None."""
        rows = self.rows(f"SELECT about, closed FROM jobs WHERE {_THIS}", key)
        return StoredJob(rows[0][0], bool(rows[0][1])) if rows else None

    def outcome_known_at(self, key: Key) -> float | None:
        """When a record was made that has how the run ended, by the batch system; or None."""
        rows = self.rows("SELECT made FROM jobs JOIN summaries USING (cluster, job, attempt) WHERE "
                         f"{_THIS} AND outcome != ''", key)
        return rows[0][0] if rows and isinstance(rows[0][0], float) else None

    def keep_records(self, records: Iterable[tuple[Key, bytes, str, str, str, float, Summary]]
                     ) -> None:
        """
        Keep [(key, record, shown_as, whole, user, now, summary)], which are due no longer; all of
        them in one commit, or none.  StateError.

        `shown_as`: the job as its users write it; `whole`: the array, or the heterogeneous job,
        that it is a part of; "" for none.  `summary`: job_summary.summary_of(record).
        """
        self.change(*(
            statement for key, record, shown_as, whole, user, now, summary in records
            for statement in (
                (f"UPDATE jobs SET record = ?, shown_as = ?, whole = ?, user = ?, made = ?, "
                 f"due = NULL WHERE {_THIS}", (zlib.compress(record), shown_as, whole, user, now,
                                               *key)),
                (job_index.PUT, job_index.values_to_put(key, summary)))))

    def show_once(self, key: Key) -> bool:
        """True at the first call for a job: it is to be shown now.  Committed; StateError."""
        return self.change(f"UPDATE jobs SET shown = 1 WHERE {_THIS} AND shown = 0", key) > 0

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
                self._log_once(f"the record of job {key[1]} is left out: {error}")

    def listed(self, question: JobsParams) -> tuple[list[dict[str, Any]], tuple[Any, ...] | None]:
        """
        ([row] of a JobsParams, where the next question goes on, or None where there are no
        more); ValueError, StateError.
        """
        found, rows = self.rows(*job_index.select(question)), []
        for values in found[:question.limit]:
            try:
                with damage_reported(self.path):
                    rows.append(job_index.row_of(values))
            except StateError as error:
                self._log_once(f"a row of `iostats jobs` is damaged, and left out: {error}")
        if len(found) <= question.limit or not rows:
            return rows, None
        return rows, job_index.mark_of(rows[-1], question)

    def _log_once(self, text: str) -> None:
        if text not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(text)
            log.error("%s", text)

    def records_of(self, keys: Iterable[Sequence[Any]]) -> Iterator[bytes]:
        """The records (bytes) of [Key], one after the other."""
        for key in keys:
            for record, in self.rows(f"SELECT record FROM jobs WHERE {_THIS} "
                                     "AND record IS NOT NULL", key):
                try:
                    found = _unpacked(record, self.path)
                except StateError as error:
                    raise StateError(f"the record of job {key[1]}: {error}") from None
                yield found

    def forget(self, reports_before: float, records_before: float) -> None:
        """
        Remove reports and records of jobs whose first report came before these moments, by the
        store's time; up to a day's worth at once, so that there is time to notice a mistake.
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


def _is_clock_row(row: tuple[Any, ...]) -> bool:
    return isinstance(row[2], str) and all(
        isinstance(row[at], (int, float)) and 0 <= row[at] < 1e11 for at in (0, 1, 3))


def _unpacked(data: bytes, path: str) -> bytes:
    with damage_reported(path):
        return zlib.decompress(data)
