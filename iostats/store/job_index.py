"""
The index of `iostats jobs`: the statements of the table `summaries`, one short row for each record.

`began` and `over` say when the job ran: by its nodes or the storage servers, or else from its first
report to its record.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Optional, Union, cast

import msgspec

from iostats.report.job_fields import (
    BY_NODE,
    EXPORTS,
    FIELDS,
    MOST_JOBS,
    MOST_NAMES,
    MOST_ROWS,
    NAMES,
    TYPES,
    JobMark,
    ListedJob,
)
from iostats.report.job_summary import (
    SOME_LOW,
    FileSystemSummary,
    Summary,
    TargetSummary,
    split_bits,
)
from iostats.store.database import make_placeholders, update_columns

LONG_S = 7 * 86_400                 # jobs that took longer are in an index (LONGEST)

KEY = ("cluster", "job", "attempt")
_RUN = (*KEY, "shown_as", '"user"')
_OF_SUMMARY = {**dict.fromkeys(Summary._fields, "?"), "over": "coalesce(?, made)",
               "began": "coalesce(?, CASE WHEN first < made THEN first ELSE made END)"}
_COLUMNS = ", ".join((*_RUN, *_OF_SUMMARY))
# From the row of this run in `jobs`, which must be there.
PUT = (f"INSERT INTO summaries ({_COLUMNS}) SELECT {', '.join((*_RUN, *_OF_SUMMARY.values()))} "
       f"FROM jobs WHERE cluster = ? AND job = ? AND attempt = ? "
       f"ON CONFLICT (cluster, job, attempt) DO UPDATE SET "
       f"{update_columns(', '.join((*_RUN[3:], *_OF_SUMMARY)))}")
# Tables with rows of a run that stand for parts of its record -> their columns.
PARTS = {"job_file_systems": (*KEY, *FileSystemSummary._fields),
         "job_targets": (*KEY, *TargetSummary._fields)}
PUT_PARTS = [f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({make_placeholders(columns)})"
             for table, columns in PARTS.items()]
DROP_PARTS = [f"DELETE FROM {table} WHERE cluster = ? AND job = ? AND attempt = ?"
              for table in PARTS]
FORGET = [f"DELETE FROM {table} WHERE (cluster, job, attempt) IN "
          "(SELECT cluster, job, attempt FROM jobs WHERE first < ? AND closed = 1)"
          for table in ("summaries", *PARTS)]
# How long the longest job took, NULL if not longer than LONG_S.
LONGEST = f"SELECT max(over - began) FROM summaries WHERE over - began > {LONG_S}"

_Name = Annotated[str, msgspec.Meta(max_length=128)]
_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=MOST_NAMES)]
_Integer = Annotated[int, msgspec.Meta(ge=-2**63, le=2**63 - 1)]
_Attempt = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class JobsParams(msgspec.Struct):
    """The params of the site server's `jobs`: filters and order."""

    # users, accounts, partitions, clusters, jobs, states, names: any of these; [] for all
    users: _Names = []
    accounts: _Names = []
    partitions: _Names = []
    clusters: _Names = []
    jobs: Annotated[list[_Name], msgspec.Meta(max_length=MOST_JOBS)] = []
    states: _Names = []
    names: _Names = []
    # since, until: seconds since 1970; jobs that ran at any time between; None for no limit
    since: Optional[float] = None
    until: Optional[float] = None
    used: _Names = []           # kinds of file systems of USED; jobs that used any of these
    hit: bool = False           # only jobs with events
    lost: bool = False          # only those that lost data, or may have
    all_runs: bool = False      # all runs of a requeued job, not only the last one
    sort: _Name = "started"     # a name of job_fields.NAMES
    descending: bool = False
    # up to this many rows in the answer
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] = 1000
    # `next` of the previous answer, to continue there
    after: Optional[tuple[Union[_Integer, float, _Text, None], _Text, _Text, _Attempt]] = None


# Member of a row of `jobs` -> column, where they differ.
_SQL = {"job_id": "shown_as", "raw_job_id": "job", "user": '"user"', "too_low": "lower_bound",
        "too_high": "lower_bound",
        "lower_bound": f"CASE WHEN (lower_bound & {SOME_LOW}) != 0 THEN 1 ELSE 0 END"}
# What it is sorted by, where that is not the column: its nodes' lower bound stands for a number.
# `began` and `over` are in indexes, and equal to `started` and `ended` where these are known.
_SORT = {"started": "began", "ended": "over",
         **{name: f"CASE source WHEN '{EXPORTS}' THEN by_node_{name} ELSE {name} END"
            for name in BY_NODE}}
_TEXTS = {"file_systems", *(field.name for field in FIELDS if field.kind == "text")}
_FLAGS = ("lower_bound", "net_lower_bound", "server_lower_bound", "final")
# Kind of file systems -> whether a job used any.
USED = {TYPES[0]: " OR ".join(f"{source}{name} > 0" for name in BY_NODE
                              for source in ("", "by_node_")),
        **{kind: f"{kind}_read_bytes > 0 OR {kind}_write_bytes > 0" for kind in TYPES[1:]}}
# List in JobsParams -> column.
_ONE_OF = {"users": '"user"', "accounts": "account", "partitions": "partition",
           "clusters": "cluster", "states": "upper(outcome)", "names": "name"}


def values_to_put(key: tuple[str, str, int], summary: Summary) -> tuple[object, ...]:
    """The values of PUT; `key`: a store.Key."""
    return (*summary, *key)


def select(question: JobsParams, longest_s: Optional[float]) -> tuple[str, list[object]]:
    """
    Return (SQL, values) for the rows that are asked for, and one more than the `limit`.

    `longest_s`: LONGEST.  Behind the values of a row is the one that it is sorted by.  Unknown
    values are last in either order; a job whose start or end is unknown is sorted by when it was
    seen.  ValueError for an unknown `sort` or kind.
    """
    if not USED.keys() >= set(question.used):
        raise ValueError(f"used: expected {', '.join(USED)}, got {', '.join(question.used)!r}")
    if question.sort not in NAMES:
        raise ValueError(f"sort: expected one of {', '.join(NAMES)}, got {question.sort!r}")
    where, values = _make_conditions(question, longest_s)
    key = _SORT.get(question.sort) or _SQL.get(question.sort, question.sort)
    is_indexed = key in ("began", "over")               # never NULL
    if question.after is not None:
        last, *run = question.after
        behind = "(cluster, job, attempt) > (?, ?, ?)"
        if last is None:
            where.append(f"{key} IS NULL AND {behind}")
            values += run
        elif isinstance(last, str) != (question.sort in _TEXTS):
            # No answer of ours; a text is behind all numbers, as SQLite has it.
            where.append("1 = 1" if isinstance(last, str) == question.descending else
                         f"{key} IS NULL")
        else:
            sign = "<" if question.descending else ">"
            where.append(f"({key} {sign} ? OR {key} IS NULL OR ({key} = ? AND {behind}))")
            values += [last, last, *run]
            if is_indexed:                              # an index finds the place by this alone
                where.append(f"{key} {sign}= ?")
                values.append(last)
    columns = ", ".join(_SQL.get(name, name) for name in NAMES)
    return (f"SELECT {columns}, {key} FROM summaries AS one"
            f"{' WHERE ' if where else ''}{' AND '.join(where)} "
            f"ORDER BY {'' if is_indexed else f'{key} IS NULL, '}{key} "
            f"{'DESC' if question.descending else 'ASC'}, "
            f"cluster, job, attempt LIMIT ?", [*values, question.limit + 1])


def _make_conditions(question: JobsParams, longest_s: Optional[float]
                     ) -> tuple[list[str], list[object]]:
    where: list[str] = []
    values: list[object] = []
    for name, column in _ONE_OF.items():
        values_of_field: list[str] = getattr(question, name)
        if values_of_field:
            where.append(f"{column} IN ({make_placeholders(values_of_field)})")
            values += values_of_field
    if question.jobs:
        of_jobs = make_placeholders(question.jobs)
        where.append(
            "(cluster, job, attempt) IN (SELECT cluster, job, attempt FROM jobs WHERE shown_as IN "
            f"({of_jobs}) OR whole IN ({of_jobs}) OR job IN ({of_jobs}))")
        values += [*question.jobs] * 3
    # The second condition follows from the first: it limits what is read of an index.
    longest_s = (longest_s or LONG_S) + 1               # rounded, as a difference
    if question.since is not None:
        where.append("over >= ? AND began >= ?")
        values += [question.since, question.since - longest_s]
    if question.until is not None:
        where.append("began <= ? AND over <= ?")
        values += [question.until, question.until + longest_s]
    if question.used:
        where.append(f"({' OR '.join(USED[kind] for kind in question.used)})")
    if question.hit:
        where.append("events > 0")
    if question.lost:
        where.append("data_lost != ''")
    if not question.all_runs:
        where.append("NOT EXISTS (SELECT 1 FROM summaries AS later WHERE later.cluster = "
                     "one.cluster AND later.job = one.job AND later.attempt > one.attempt)")
    return where, values


def make_row(values: Iterable[object]) -> ListedJob:
    """The ListedJob of a row that `select` has found."""
    row: dict[str, Any] = dict(zip(NAMES, values))
    too_low, too_high = split_bits(row["too_low"])
    names: str = row["file_systems"]
    row.update({name: bool(row[name]) for name in _FLAGS}, too_low=too_low, too_high=too_high,
               file_systems=names.split(",") if names else [])
    return cast("ListedJob", row)


def make_cursor(values: Sequence[object]) -> JobMark:
    """Make the `after` with which the next query continues behind this row, as of make_row."""
    row = make_row(values)
    last = values[-1] if isinstance(values[-1], (int, float, str)) else None
    return last, row["cluster"], row["raw_job_id"], row["attempt"]
