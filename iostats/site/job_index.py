"""
The index of `iostats jobs`: a table with one short row for each record, and the SQL that reads it.

It is a table of its own because a record has some KiB, and SQLite would have to read all of it to
get to the columns after it.  100,000 rows here are 20 MiB.

`began` and `over` say when the job ran: by its nodes or the storage servers, or else from its first
report to its record.
"""

from collections.abc import Iterable, Sized
from typing import Annotated, Any, Optional, Union

import msgspec

from iostats.report.job_fields import NAMES
from iostats.report.job_summary import BY_NODE, EXPORTS, SOME_LOW, Summary, bits_of, wrong_of

MOST_ROWS = 5_000                   # in one answer
MOST_JOBS, MOST_NAMES = 300, 100    # in one question: SQLite before 3.32 accepts 999 values

# Columns that version 2 has got later: an older release leaves them as they are.
ADDED = {**{f"by_node_{name}{end}": "INTEGER" for name in BY_NODE for end in ("", "_max")},
         "by_node_why": "TEXT NOT NULL DEFAULT ''",
         "events": "INTEGER", "data_lost": "TEXT NOT NULL DEFAULT ''"}
# Part of version 2 of the store: to change the other columns is to change the version.
MAKE = """
CREATE TABLE summaries (
    cluster TEXT NOT NULL, job TEXT NOT NULL, attempt INTEGER NOT NULL,
    shown_as TEXT NOT NULL, user TEXT NOT NULL,
    account TEXT NOT NULL, partition TEXT NOT NULL, name TEXT NOT NULL, outcome TEXT NOT NULL,
    exit_code TEXT NOT NULL, started REAL, ended REAL, elapsed_s REAL, nodes INTEGER,
    reported INTEGER NOT NULL, shared INTEGER NOT NULL, file_systems TEXT NOT NULL,
    source TEXT NOT NULL, read_bytes INTEGER, write_bytes INTEGER, opens INTEGER, creates INTEGER,
    operations INTEGER, lower_bound INTEGER NOT NULL, net_read_bytes INTEGER,
    net_write_bytes INTEGER, net_lower_bound INTEGER NOT NULL, server_read_bytes INTEGER,
    server_write_bytes INTEGER, server_operations INTEGER, server_lower_bound INTEGER NOT NULL,
    final INTEGER NOT NULL, began REAL NOT NULL, over REAL NOT NULL,
    %s,
    PRIMARY KEY (cluster, job, attempt)) WITHOUT ROWID;
CREATE INDEX summaries_over ON summaries (over);
CREATE INDEX summaries_user ON summaries (user, over);
""" % ", ".join(map(" ".join, ADDED.items()))

_RUN = ("cluster", "job", "attempt", "shown_as", "user")
_OF_SUMMARY = {**dict.fromkeys(Summary._fields, "?"), "began": "coalesce(?, min(first, made))",
               "over": "coalesce(?, made)"}
# From the row of this run in `jobs`, which must be there.
PUT = (f"INSERT OR REPLACE INTO summaries ({', '.join((*_RUN, *_OF_SUMMARY))}) "
       f"SELECT {', '.join((*_RUN, *_OF_SUMMARY.values()))} FROM jobs "
       f"WHERE cluster = ? AND job = ? AND attempt = ?")
FORGET = ("DELETE FROM summaries WHERE (cluster, job, attempt) IN "
          "(SELECT cluster, job, attempt FROM jobs WHERE first < ? AND closed)")

_Name = Annotated[str, msgspec.Meta(max_length=128)]
_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=MOST_NAMES)]
_Integer = Annotated[int, msgspec.Meta(ge=-2**63, le=2**63 - 1)]
_Attempt = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class JobsParams(msgspec.Struct):
    """
    Which jobs, in which order: the params of the site server's `jobs`.

    Attributes:
        users, accounts, partitions, clusters, jobs, states, names: any of these; [] for all.
        since, until: seconds since 1970; jobs that ran at any time between; None for no limit.
        hit: only jobs with events; lost: only those that lost data, or may have.
        all_runs: all runs of a requeued job, not only the last one.
        sort: a name of job_fields.NAMES.
        limit: up to this many rows in the answer.
        after: `next` of the previous answer, to continue there.
    """

    users: _Names = []
    accounts: _Names = []
    partitions: _Names = []
    clusters: _Names = []
    jobs: Annotated[list[_Name], msgspec.Meta(max_length=MOST_JOBS)] = []
    states: _Names = []
    names: _Names = []
    since: Optional[float] = None
    until: Optional[float] = None
    hit: bool = False
    lost: bool = False
    all_runs: bool = False
    sort: _Name = "started"
    descending: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] = 1000
    after: Optional[tuple[Union[_Integer, float, _Text, None], _Text, _Text, _Attempt]] = None


# Member of a row of `jobs` -> column, where they differ.
_SQL = {"job_id": "shown_as", "raw_job_id": "job", "too_low": "lower_bound",
        "too_high": "lower_bound", "lower_bound": f"(lower_bound & {SOME_LOW} != 0)"}
# What it is sorted by, where that is not the column: its nodes' lower bound stands for a number.
_SORT = {name: f"CASE source WHEN '{EXPORTS}' THEN by_node_{name} ELSE {name} END"
         for name in BY_NODE}
_FLAGS = ("lower_bound", "net_lower_bound", "server_lower_bound", "final")
# List in JobsParams -> column.
_ONE_OF = {"users": "user", "accounts": "account", "partitions": "partition",
           "clusters": "cluster", "states": "upper(outcome)", "names": "name"}


def values_to_put(key: tuple[Any, ...], summary: Summary) -> tuple[Any, ...]:
    """The values of PUT; `key`: a store.Key."""
    return (*summary, *key)


def select(question: JobsParams) -> tuple[str, list[Any]]:
    """
    (SQL, values) for the rows that are asked for, and one more than the `limit`.

    Unknown values are last in either order.  ValueError for an unknown `sort`.
    """
    if question.sort not in NAMES:
        raise ValueError(f"sort: expected one of {', '.join(NAMES)}, got {question.sort!r}")
    where, values = _conditions(question)
    key = _SORT.get(question.sort) or _SQL.get(question.sort, question.sort)
    if question.after is not None:
        last, *run = question.after
        behind = "(cluster, job, attempt) > (?, ?, ?)"
        if last is None:
            where.append(f"{key} IS NULL AND {behind}")
            values += run
        else:
            where.append(f"({key} {'<' if question.descending else '>'} ? OR {key} IS NULL "
                         f"OR ({key} = ? AND {behind}))")
            values += [last, last, *run]
    columns = ", ".join(_SQL.get(name, name) for name in NAMES)
    return (f"SELECT {columns} FROM summaries AS one"
            f"{' WHERE ' if where else ''}{' AND '.join(where)} "
            f"ORDER BY {key} IS NULL, {key} {'DESC' if question.descending else 'ASC'}, "
            f"cluster, job, attempt LIMIT ?", [*values, question.limit + 1])


def _conditions(question: JobsParams) -> tuple[list[str], list[Any]]:
    where, values = [], []
    for name, column in _ONE_OF.items():
        wanted = getattr(question, name)
        if wanted:
            where.append(f"{column} IN ({_marks(wanted)})")
            values += wanted
    if question.jobs:
        marks = _marks(question.jobs)
        where.append(
            "(cluster, job, attempt) IN (SELECT cluster, job, attempt FROM jobs WHERE shown_as IN "
            f"({marks}) OR whole IN ({marks}) OR job IN ({marks}))")
        values += [*question.jobs] * 3
    if question.since is not None:
        where.append("over >= ?")
        values.append(question.since)
    if question.until is not None:
        where.append("began <= ?")
        values.append(question.until)
    if question.hit:
        where.append("events > 0")
    if question.lost:
        where.append("data_lost != ''")
    if not question.all_runs:
        where.append("NOT EXISTS (SELECT 1 FROM summaries AS later WHERE later.cluster = "
                     "one.cluster AND later.job = one.job AND later.attempt > one.attempt)")
    return where, values


def _marks(values: Sized) -> str:
    return ", ".join("?" * len(values))


def row_of(values: Iterable[Any]) -> dict[str, Any]:
    """{member: value} of a row that `select` has found."""
    row = dict(zip(NAMES, values))
    for name in _FLAGS:
        row[name] = bool(row[name])
    row["too_low"], row["too_high"] = wrong_of(row["too_low"])
    row["file_systems"] = row["file_systems"].split(",") if row["file_systems"] else []
    return row


def mark_of(row: dict[str, Any], question: JobsParams) -> tuple[Any, str, str, int]:
    """The `after` with which the next question continues behind this row."""
    last = row[question.sort]
    if question.sort in _SORT and row["source"] == EXPORTS:
        last = row[f"by_node_{question.sort}"]
    if question.sort in ("too_low", "too_high"):
        last = bits_of(row["too_low"], row["too_high"])
    last = (",".join(last) if isinstance(last, list) else int(last) if isinstance(last, bool)
            else last)
    return last, row["cluster"], row["raw_job_id"], row["attempt"]
