"""
What the site's server keeps of time lines, in the file of store.py.

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

from iostats.site.harvest_store import BlockRow, SweepStore, encoded_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    _T = TypeVar("_T")
    _Key = tuple[str, str]                  # file system, target

_DAY_S = 86400.0
NO_FOLD = -1
_LEVELS = range(5)                      # how often a row was thinned: [site] series_days, and days
# Table -> its key.
_KEYS = {"job_lines": ("job", "file_system"), "target_lines": ("id",)}
_LINED = encoded_row(BlockRow(lined=True))


class LineStore(SweepStore):
    """The tables of time lines in a store.Store; every method may raise StateError."""

    def now(self) -> float:
        """The store's own time."""
        return self._store.now()

    @property
    def is_quiet(self) -> bool:
        """Nothing waits for a commit, which a change that fails would drop."""
        return not self._store.has_changes

    # -- readings

    def keep_parts(self, parts: Iterable[tuple[str, str, bytes]]) -> None:
        """Keep [(file system, target, encoded_part)], which are not to be replayed any more."""
        self._store.change(*(statement for file_system, target, body in parts for statement in (
            ("INSERT INTO line_parts (file_system, target, body) VALUES (?, ?, ?)",
             (file_system, target, body)),
            ("INSERT INTO blocks (file_system, target, body) VALUES (?, ?, ?)",
             (file_system, target, _LINED)))))

    def parts(self) -> Iterator[tuple[int, Any, Any, Any]]:
        """(id, file system, target, body), one after the other in the order in which they came."""
        last = 0
        while True:
            found = self._store.rows("SELECT id, file_system, target, body FROM line_parts "
                                     "WHERE id > ? ORDER BY id LIMIT 100", (last,))
            yield from found
            if not found:
                return
            last = found[-1][0]

    # -- adding them to lines

    def fold(self) -> tuple[int, int]:
        """(number of the last fold, the last part of it, or NO_FOLD)."""
        rows = self._store.rows("SELECT number, last FROM line_folds")
        number, last = next(((number, last) for number, last in rows if isinstance(number, int)
                             and isinstance(last, int)), (0, NO_FOLD))
        for level in _LEVELS:                           # the newest of each has its largest one
            for most, in self._store.rows("SELECT fold FROM job_lines WHERE thinned = ? "
                                          "ORDER BY made DESC LIMIT 1", (level,)):
                if isinstance(most, int) and most > number:     # the row was lost
                    number, last = most, NO_FOLD
        return number, last

    def begin_fold(self, number: int) -> None:
        """All parts that are there now are to be added to lines."""
        self._store.change("INSERT OR REPLACE INTO line_folds SELECT 1, ?, coalesce(max(id), 0) "
                           "FROM line_parts", (number,))

    def end_fold(self, number: int,
                 rows: Iterable[tuple[str, str, float, float, bytes]]) -> None:
        """
        They have been; [(file system, target, since, until, encoded TargetLines)] are new.
        """
        made = self.now()
        self._store.change(
            *(("INSERT INTO target_lines (file_system, target, since, until, made, thinned, body) "
               "VALUES (?, ?, ?, ?, ?, 0, ?)", (*key, made, body)) for *key, body in rows),
            ("DELETE FROM line_parts WHERE id <= (SELECT last FROM line_folds)", ()),
            ("INSERT OR REPLACE INTO line_folds VALUES (1, ?, ?)", (number, NO_FOLD)))

    def job_rows(self, job: str) -> list[tuple[Any, Any, Any]]:
        """[(file system, fold, body)]."""
        return self._store.rows("SELECT file_system, fold, body FROM job_lines WHERE job = ?",
                                (job,))

    def job_row(self, job: str, file_system: str) -> tuple[Any, Any] | None:
        """(fold, body), or None."""
        rows = self._store.rows("SELECT fold, body FROM job_lines WHERE job = ? AND "
                                "file_system = ?", (job, file_system))
        return rows[0] if rows else None

    def keep_jobs(self, number: int, rows: Iterable[tuple[str, str, bytes]]) -> None:
        """Keep [(job, file system, encoded JobLines)], to which this fold was added."""
        made = self.now()
        self._store.change(*(
            ("INSERT OR REPLACE INTO job_lines VALUES (?, ?, ?, ?, 0, ?)",
             (job, file_system, number, made, body)) for job, file_system, body in rows))

    # -- lines of targets

    def last_row(self) -> int:
        """The newest row of `target_lines`; 0 for none."""
        [(last,)] = self._store.rows("SELECT max(id) FROM target_lines")
        return last or 0

    def target_rows(self, file_system: str, target: str, since: float, until: float,
                    last: int) -> list[tuple[int, Any]]:
        """[(id, body)] up to `last` of a target that reach into this time; "": of all."""
        return self._store.rows(
            "SELECT id, body FROM target_lines WHERE file_system = ? AND target = ? AND "
            "until > ? AND since < ? AND id <= ? ORDER BY since",
            (file_system, target, since, until, last))

    def targets_of(self, file_system: str, since: float, until: float) -> list[str]:
        """The targets of a file system of which there is a line of this time."""
        return [str(target) for target, in self._store.rows(
            "SELECT DISTINCT target FROM target_lines WHERE file_system = ? AND until > ? AND "
            "since < ? AND target != '' ORDER BY target", (file_system, since, until))]

    # -- age

    def to_merge(self, before: float) -> list[tuple[Any, ...]]:
        """
        [(id, since, until, body)] of a target on one day, hour by hour, of which the first was kept
        before this moment, by the store's time; [] where there are none.
        """
        for row, name, target, since, until in self._store.rows(
                "SELECT id, file_system, target, since, until FROM target_lines WHERE thinned = 0 "
                "AND made < ? ORDER BY made LIMIT 1", (before,)):
            if not (isinstance(since, float) and isinstance(until, float)):
                self.put_aside("target_lines", (row,), ValueError("its time is none"))
                return self.to_merge(before)
            day = since // _DAY_S * _DAY_S
            return self._store.rows(
                "SELECT id, since, until, body FROM target_lines WHERE thinned = 0 AND "
                "file_system = ? AND target = ? AND since >= ? AND since < ? AND "
                "typeof(until) = 'real'",
                (name, target, day, day + _DAY_S))
        return []

    def replace_lines(self, rows: Sequence[int], since: float, until: float, body: bytes) -> None:
        """One row for what these say together: the first of them, which a question may look for."""
        self._store.change(
            ("UPDATE target_lines SET since = ?, until = ?, thinned = 1, body = ? WHERE id = ?",
             (since, until, body, rows[0])),
            *(("DELETE FROM target_lines WHERE id = ?", (row,)) for row in rows[1:]))

    def to_thin(self, table: str, level: int, before: float,
                most: int) -> list[tuple[Any, ...]]:
        """[(*key, body)] of rows that were thinned so often, and kept before this moment."""
        return self._store.rows(
            f"SELECT {', '.join(_KEYS[table])}, body FROM {table} WHERE thinned = ? AND made < ? "
            f"LIMIT ?", (level, before, most))

    def oldest(self, table: str, level: int) -> float:
        """When the first of the rows that were thinned so often was kept; inf for none."""
        [(made,)] = self._store.rows(f"SELECT min(made) FROM {table} WHERE thinned = ?", (level,))
        return made if isinstance(made, float) else inf

    def keep_thinned(self, table: str, level: int, rows: Iterable[tuple[Any, ...]]) -> None:
        """[(*key, body)] have been thinned so often now."""
        where = " AND ".join(f"{column} = ?" for column in _KEYS[table])
        self._store.change(*(
            (f"UPDATE {table} SET thinned = ?, body = ? WHERE {where}", (level, body, *key))
            for *key, body in rows))

    def forget_lines(self, before: float) -> None:
        """Remove what was kept before this moment, by the store's time; up to a day's worth."""
        # By level, as the index has it: a table is some GB, and is not to be read through.
        self._store.change(*((
            f"DELETE FROM {table} WHERE thinned = ?1 AND made < "
            f"min(?2, ?3 + (SELECT min(made) FROM {table} WHERE thinned = ?1))",
            (level, before, _DAY_S)) for table in _KEYS for level in _LEVELS))

    # -- damage

    def decoded(self, table: str, key: Sequence[Any], body: Any,
                decode: Callable[[bytes], _T]) -> _T | None:
        """What a row says; None for one that is damaged, which is put aside."""
        try:
            return decode(body)
        except Exception as error:              # whatever these bytes do to who reads them
            self.put_aside(table, key, error)
            return None

    # -- whose job it is

    def owners(self, job: str) -> list[tuple[str, str]]:
        """[(user, as users write it)] of the latest run of a job as the batch system has it."""
        return [(str(user), str(shown)) for user, shown in self._store.rows(
            "SELECT user, shown_as FROM jobs WHERE job = ? AND user != '' ORDER BY first DESC "
            "LIMIT 1", (job,))]

    def run(self, job: str, cluster: str, attempt: int | None,
            user: str | None) -> tuple[Any, ...] | None:
        """
        (cluster, job, attempt, user, as users write it, whether there is a record, started, ended,
        began, over, events, how many runs) of the latest run, of `user` alone if given; or None.
        """
        rows = self._store.rows(
            "SELECT j.cluster, j.job, j.attempt, coalesce(s.user, j.user), "
            "CASE j.shown_as WHEN '' THEN j.job ELSE j.shown_as END, s.job IS NOT NULL, s.started, "
            "s.ended, s.began, s.over, s.events, "
            "(SELECT count(*) FROM jobs AS other WHERE other.job = j.job) "
            "FROM jobs AS j LEFT JOIN summaries AS s USING (cluster, job, attempt) "
            "WHERE (j.shown_as = ?1 OR j.job = ?1) AND (?2 = '' OR j.cluster IN (?2, '')) AND "
            "(?3 IS NULL OR j.attempt = ?3) AND (?4 IS NULL OR coalesce(s.user, j.user) = ?4) "
            "ORDER BY j.first DESC, j.attempt DESC LIMIT 1", (job, cluster, attempt, user))
        return rows[0] if rows else None

    def record(self, cluster: str, job: str, attempt: int) -> bytes | None:
        """The record of a run, or None."""
        return next(self._store.records_of([(cluster, job, attempt)]), None)
