"""
Tables of time series in the site's store.

    line_parts     readings of a target that are in no line yet
    line_folds     one row: the last time that such readings were added to lines, and up to which
                   of them; -1: it was finished
    job_lines      a job on a file system; `fold`: what was added to it last
    target_lines   a target for some time, or all of a file system (target "")

What leaves the replay of `blocks` is in `line_parts` in the same transaction; a row there is
removed when all lines have it, and a line that has it already is left alone when that is tried once
more.  So a server that is killed at any byte has each reading in a line once.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from iostats.store.database import upsert
from iostats.store.harvest_store import ADD_BLOCK, BlockRow, SweepStore, encode_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    _T = TypeVar("_T")
    _Key = tuple[str, str]                  # file system, target

_DAY_S = 86400.0
NO_FOLD = -1
_LEVELS = range(5)                      # how often a row was thinned: [site] series_days, and days
# Table -> its key.
_KEYS = {"job_lines": ("job", "file_system"), "target_lines": ("id",)}
_LINED = encode_row(BlockRow(lined=True))
_PUT_FOLD = upsert("line_folds", "one", "number, last")
_PUT_JOB = upsert("job_lines", "job, file_system", "fold, made, thinned, body")


class RunRow(NamedTuple):
    """A run of a job, by its reports, and the summary of its record where there is one."""

    cluster: str
    job: str
    attempt: int
    user: str
    shown_as: str                   # as users write it
    has_record: bool
    started: Optional[float]
    ended: Optional[float]
    began: Optional[float]
    over: Optional[float]
    events: Optional[int]
    runs: int                       # how many runs the job has


class LineStore(SweepStore):
    """The tables of time lines in a store.Store; every method may raise StateError."""

    def now(self) -> float:
        """The store's own time."""
        return self._store.now()

    @property
    def is_quiet(self) -> bool:
        """True if no change waits for a commit, which a failed change would drop."""
        return not self._store.has_changes

    # -- readings

    def store_parts(self, parts: Iterable[tuple[str, str, bytes]]) -> None:
        """Store [(file system, target, encode_part)], which need no replay any more."""
        self._store.change(*(statement for file_system, target, body in parts for statement in (
            ("INSERT INTO line_parts (file_system, target, body) VALUES (?, ?, ?)",
             (file_system, target, body)),
            (ADD_BLOCK, (file_system, target, _LINED)))))

    def parts(self) -> Iterator[tuple[int, str, str, bytes]]:
        """Yield (id, file system, target, body) of each stored part, in the order of arrival."""
        last = 0
        while True:
            rows = self._store.rows("SELECT id, file_system, target, body FROM line_parts "
                                    "WHERE id > ? ORDER BY id LIMIT 100", (last,),
                                    tuple[int, str, str, bytes])
            yield from rows
            if not rows:
                return
            last = rows[-1][0]

    # -- adding them to lines

    def fold(self) -> tuple[int, int]:
        """Return (number of the last fold, the last part of it, or NO_FOLD)."""
        rows = self._store.rows("SELECT number, last FROM line_folds", (), tuple[int, int])
        number, last = next(((number, last) for number, last in rows if isinstance(number, int)
                             and isinstance(last, int)), (0, NO_FOLD))
        for level in _LEVELS:                           # the newest of each has its largest one
            for highest, in self._store.rows("SELECT fold FROM job_lines WHERE thinned = ? "
                                             "ORDER BY made DESC LIMIT 1", (level,), tuple[int]):
                if isinstance(highest, int) and highest > number:     # the row was lost
                    number, last = highest, NO_FOLD
        return number, last

    def begin_fold(self, number: int) -> None:
        """Mark all present parts as to be added to time series."""
        [(last,)] = self._store.rows("SELECT coalesce(max(id), 0) FROM line_parts", (), tuple[int])
        self._store.change(_PUT_FOLD, (1, number, last))

    def end_fold(self, number: int,
                 rows: Iterable[tuple[str, str, float, float, bytes]]) -> None:
        """
        Replace the folded parts by rows: [(file system, target, since, until, encoded
        TargetLines)].
        """
        made = self.now()
        self._store.change(
            *(("INSERT INTO target_lines (file_system, target, since, until, made, thinned, body) "
               "VALUES (?, ?, ?, ?, ?, 0, ?)", (*key, made, body)) for *key, body in rows),
            ("DELETE FROM line_parts WHERE id <= (SELECT last FROM line_folds)", ()),
            (_PUT_FOLD, (1, number, NO_FOLD)))

    def job_rows(self, job: str) -> list[tuple[str, int, bytes]]:
        """Return [(file system, fold, body)]."""
        return self._store.rows("SELECT file_system, fold, body FROM job_lines WHERE job = ?",
                                (job,), tuple[str, int, bytes])

    def job_row(self, job: str, file_system: str) -> tuple[int, bytes] | None:
        """Return (number of the last merge, body) of the row, or None."""
        rows = self._store.rows("SELECT fold, body FROM job_lines WHERE job = ? AND "
                                "file_system = ?", (job, file_system), tuple[int, bytes])
        return rows[0] if rows else None

    def store_jobs(self, number: int, rows: Iterable[tuple[str, str, bytes]]) -> None:
        """Store [(job, file system, encoded JobLines)], which include this fold."""
        made = self.now()
        self._store.change(*(
            (_PUT_JOB, (job, file_system, number, made, 0, body))
            for job, file_system, body in rows))

    # -- lines of targets

    def last_row(self) -> int:
        """The newest row of `target_lines`; 0 for none."""
        [(last,)] = self._store.rows("SELECT max(id) FROM target_lines", (),
                                     tuple[Optional[int]])
        return last or 0

    def target_rows(self, file_system: str, target: str, since: float, until: float,
                    last: int) -> list[tuple[int, bytes]]:
        """Return [(id, body)] up to `last` of a target that reach into this time; "": of all."""
        return self._store.rows(
            "SELECT id, body FROM target_lines WHERE file_system = ? AND target = ? AND "
            "until > ? AND since < ? AND id <= ? ORDER BY since",
            (file_system, target, since, until, last), tuple[int, bytes])

    def list_targets(self, file_system: str, since: float, until: float) -> list[str]:
        """List the targets of a file system with a time series at this time."""
        return [str(target) for target, in self._store.rows(
            "SELECT DISTINCT target FROM target_lines WHERE file_system = ? AND until > ? AND "
            "since < ? AND target != '' ORDER BY target", (file_system, since, until), tuple[str])]

    # -- age

    def list_rows_to_merge(self, before: float) -> list[tuple[int, float, float, bytes]]:
        """
        Return [(id, since, until, body)] of a target on one day, hour by hour, of which the first
        was kept before this moment, by the store's time; [] where there are none.
        """
        for row, name, target, since, until in self._store.rows(
                "SELECT id, file_system, target, since, until FROM target_lines WHERE thinned = 0 "
                "AND made < ? ORDER BY made LIMIT 1", (before,),
                tuple[int, str, str, float, float]):
            if not (isinstance(since, float) and isinstance(until, float)):
                self.put_aside("target_lines", (row,), ValueError("its time is none"))
                return self.list_rows_to_merge(before)
            day = since // _DAY_S * _DAY_S
            return self._store.rows(
                "SELECT id, since, until, body FROM target_lines WHERE thinned = 0 AND "
                "file_system = ? AND target = ? AND since >= ? AND since < ? "
                "AND until < ?",                # no text, which is more than any number
                (name, target, day, day + _DAY_S, inf), tuple[int, float, float, bytes])
        return []

    def replace_lines(self, rows: Sequence[int], since: float, until: float, body: bytes) -> None:
        """Replace rows by one, under the id of the first of them, which a query may hold."""
        self._store.change(
            ("UPDATE target_lines SET since = ?, until = ?, thinned = 1, body = ? WHERE id = ?",
             (since, until, body, rows[0])),
            *(("DELETE FROM target_lines WHERE id = ?", (row,)) for row in rows[1:]))

    def list_rows_to_thin(self, table: str, level: int, before: float,
                          limit: int) -> list[tuple[list[object], bytes]]:
        """Return [(key, body)] of rows with this number of reductions, stored before this moment.
        """
        rows = self._store.rows(
            f"SELECT {', '.join(_KEYS[table])}, body FROM {table} WHERE thinned = ? AND made < ? "
            f"LIMIT ?", (level, before, limit), tuple[Any, ...])
        return [(key, body) for *key, body in rows]

    def oldest(self, table: str, level: int) -> float:
        """Return when the oldest of the rows of this level was stored; inf for none."""
        [(made,)] = self._store.rows(f"SELECT min(made) FROM {table} WHERE thinned = ?", (level,),
                                     tuple[float])
        return made if isinstance(made, float) else inf

    def store_thinned(self, table: str, level: int, rows: Iterable[tuple[object, ...]]) -> None:
        """Store [(*key, body)], rows with this number of reductions."""
        where = " AND ".join(f"{column} = ?" for column in _KEYS[table])
        self._store.change(*(
            (f"UPDATE {table} SET thinned = ?, body = ? WHERE {where}", (level, body, *key))
            for *key, body in rows))

    def delete_lines(self, before: float) -> None:
        """Delete lines stored before this moment, by the store's time; up to a day's worth."""
        # By level, as the index has it: a table is some GB, and is not to be read through.
        self._store.change(*((
            f"DELETE FROM {table} WHERE thinned = ? AND made < ? AND made < ? + "
            f"(SELECT min(made) FROM {table} WHERE thinned = ?)",
            (level, before, _DAY_S, level)) for table in _KEYS for level in _LEVELS))

    # -- damage

    def decode(self, table: str, key: Sequence[object], body: bytes,
               decode: Callable[[bytes], _T]) -> _T | None:
        """Decode a row; None for a damaged one, which is set aside."""
        try:
            return decode(body)
        except Exception as error:              # whatever these bytes do to who reads them
            self.put_aside(table, key, error)
            return None

    # -- whose job it is

    def query_owners(self, job: str) -> list[tuple[str, str]]:
        """Return [(user, the job's id for users)] of the latest run of a job."""
        return [(str(user), str(shown)) for user, shown in self._store.rows(
            "SELECT jobs.user, shown_as FROM jobs WHERE job = ? AND jobs.user != '' "
            "ORDER BY first DESC LIMIT 1", (job,), tuple[str, str])]

    def run(self, job: str, cluster: str, attempt: int | None,
            user: str | None) -> RunRow | None:
        """The latest run of a job, of `user` alone if given; or None."""
        more = ""
        values: list[object] = [job, job]
        for condition, value in (("j.cluster IN (?, '')", cluster or None),
                                 ("j.attempt = ?", attempt),
                                 ("coalesce(s.user, j.user) = ?", user)):
            if value is not None:
                more += f"AND {condition} "
                values.append(value)
        rows = self._store.rows(
            "SELECT j.cluster, j.job, j.attempt, coalesce(s.user, j.user), "
            "CASE j.shown_as WHEN '' THEN j.job ELSE j.shown_as END, s.job IS NOT NULL, s.started, "
            "s.ended, s.began, s.over, s.events, "
            "(SELECT count(*) FROM jobs AS other WHERE other.job = j.job) "
            "FROM jobs AS j LEFT JOIN summaries AS s USING (cluster, job, attempt) "
            f"WHERE (j.shown_as = ? OR j.job = ?) {more}"
            "ORDER BY j.first DESC, j.attempt DESC LIMIT 1", values, RunRow)
        return rows[0] if rows else None

    def record(self, cluster: str, job: str, attempt: int) -> bytes | None:
        """The record of a run, or None."""
        return next(self._store.read_records([(cluster, job, attempt)]), None)
