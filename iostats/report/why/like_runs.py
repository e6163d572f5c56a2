"""
A job beside other runs of the same name and user: what took longer than it usually does.

A run does as much as it does, so what is compared is the time of one call, of each operation, and
the time of all calls by that of the nodes.

    make_query(record, 10)   ->  the params of the site server's `jobs`
    select_comparable_runs(record, rows)  ->  the rows of runs to compare with
    find_run(row, records)      ->  of the records of such a row's job, that of its run
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.report.why.time_in_lustre import compute_time_in_lustre
from iostats.report.why.words import format_factor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from iostats.report.job_fields import ListedJob
    from iostats.totals.record import Record

AS_USUAL = 1.2                      # times the time of other runs: less is no difference
FEWEST = 3                          # runs, whose median is taken for the usual
_SMALLEST_PART = 0.05               # of the time of all calls, in this run or in the others
_FEWEST_CALLS = 10
# Runs that ended so did not do what they should, or not for as long.
_CUT_SHORT = ("CANCELLED", "FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "REQUEUED")
_LONGEST_NAME = 128                 # that can be asked for


class ComparedCall(NamedTuple):
    """An operation of the job, compared with the same operation in earlier runs."""

    operation: str      # open, write ...; "server write" for the time at the storage servers
    file_system: str    # as Lustre calls it
    runs: int           # of how many others it is known
    # each_s, usual_s: time of a call in this run, and the median of the others'
    each_s: float
    usual_s: float
    factor: float       # each_s by usual_s
    part: float         # of the time of all calls of this run


class LikeRuns(NamedTuple):
    runs: int                       # how many there are
    operations: list[ComparedCall]  # [ComparedCall], most of the job's time first
    # by how much the calls took longer than they usually do, all together; None: not known
    factor: float | None
    # median of the time that the others took; None where fewer than FEWEST are known
    elapsed_s: float | None


def make_query(record: Record, limit: int) -> dict[str, object] | None:
    """
    Make the question to the site's server for up to `limit` runs before this one, of the same name
    and user, and for some more, as not all of them will do; None without name or user.
    """
    batch, job = record.batch, record.job
    if not limit or not batch or not batch.name or not job.user:
        return None
    return {"users": [job.user], "names": [batch.name[:_LONGEST_NAME]], "until": job.started,
            "sort": "started", "descending": True, "limit": min(1000, 3 * limit + 10)}


def select_comparable_runs(record: Record, rows: Iterable[ListedJob]) -> list[ListedJob]:
    """
    Select the `rows` of the answer that ended by themselves, and are neither this job nor of the
    same array: one cause may hit all its tasks.  LookupError, ... for an unexpected format.
    """
    batch: Any = record.batch           # without which there was no question
    return [row for row in rows if row["name"] == batch.name
            and row["raw_job_id"] != batch.raw_job
            and not (batch.array_job and row["job_id"].startswith(f"{batch.array_job}_"))
            and (row["outcome"] or "").upper() not in _CUT_SHORT]


def find_run(row: ListedJob, records: Iterable[Record]) -> Record | None:
    """The record of the run of a row; None where it is not among them."""
    return next((record for record in records if (row["cluster"], row["attempt"]) == (
        (record.batch.cluster or "") if record.batch else "", record.job.attempt or 0)), None)


def compare_runs(record: Record, like: Sequence[Record]) -> LikeRuns:
    """Compare the times of a record's operations with those of `like`: records of other runs."""
    if not like:
        return LikeRuns(0, [], None, None)
    here, at_servers = _sum_times_by_operation(record)
    if not here:
        here, at_servers = at_servers, {}
        runs = [_sum_times_by_operation(record)[1] for record in like]
    else:
        runs = [_sum_times_by_operation(record)[0] for record in like]
    whole = sum(calls * each for calls, each in here.values())
    compared, spent, usually = [], 0.0, 0.0
    for (fs, operation), (calls, each) in here.items():
        times = [run[fs, operation][1] for run in runs
                 if (fs, operation) in run and run[fs, operation][0] >= _FEWEST_CALLS]
        if len(times) < FEWEST or calls < _FEWEST_CALLS or not whole:
            continue
        usual = compute_median(times)
        spent, usually = spent + calls * each, usually + calls * usual
        if usual > 0 and max(each, usual) * calls >= _SMALLEST_PART * whole:
            compared.append(ComparedCall(operation, fs, len(times), each, usual, each / usual,
                                         calls * each / whole))
    compared.sort(key=lambda call: (-call.part, call.file_system, call.operation))
    elapsed = [record.job.elapsed_s for record in like if record.job.elapsed_s]
    return LikeRuns(len(like), compared, spent / usually if usually else None,
                    compute_median(elapsed) if len(elapsed) >= FEWEST else None)


def _sum_times_by_operation(record: Record) -> tuple[dict[tuple[str, str], tuple[int, float]],
                                                     dict[tuple[str, str], tuple[int, float]]]:
    """{(file system, operation): (calls, seconds of one)}: of the nodes, and at the servers."""
    nodes = {name: (calls, seconds / calls)
             for name, (calls, seconds) in compute_time_in_lustre(record).by_operation.items()}
    servers: dict[tuple[str, str], tuple[int, float]] = {}
    for fs in record.harvest.file_systems if record.harvest else ():
        rows = [(f"server {name}", row.count, row.seconds) for name, row in fs.operations.items()]
        rows += [(f"server {direction}", fs[f"{direction}_rpcs"], fs.get(f"{direction}_seconds"))
                 for direction in ("read", "write")]
        servers.update({(fs.name, name): (calls, seconds / calls)
                        for name, calls, seconds in rows if calls and seconds})
    return nodes, servers


def describe_factor(factor: float) -> str:
    """
    Describe by how much calls took longer.

    >>> describe_factor(1.1)
    'calls took about as long as in its other runs'
    >>> describe_factor(0.5)
    'calls took 0.5 times as long as in its other runs'
    """
    if 1 / AS_USUAL < factor < AS_USUAL:
        return "calls took about as long as in its other runs"
    return f"calls took {format_factor(factor)} as long as in its other runs"


def compute_median(values: Iterable[float]) -> float:
    """Return the median; of two values in the middle, their mean."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
