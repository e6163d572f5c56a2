"""
A job beside other runs of the same name and user: what took longer than it usually does.

A run does as much as it does, so what is compared is the time of one call, of each operation, and
the time of all calls by that of the nodes.

    question_of(record, 10)   ->  the params of the site server's `jobs`
    rows_like(record, rows)   ->  those of its rows that are runs to compare with
    run_of(row, records)      ->  of the records of such a row's job, that of its run
"""

from __future__ import annotations

from collections import namedtuple

from iostats.report.why.time_in_lustre import time_in_lustre
from iostats.report.why.words import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iostats.totals.record import Record

AS_USUAL = 1.2                      # times the time of other runs: less is no difference
FEWEST = 3                          # runs, whose median is taken for the usual
_SMALLEST_PART = 0.05               # of the time of all calls, in this run or in the others
_FEWEST_CALLS = 10
# Runs that ended so did not do what they should, or not for as long.
_CUT_SHORT = ("CANCELLED", "FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "REQUEUED")
_LONGEST_NAME = 128                 # that can be asked for

ComparedCall = namedtuple("ComparedCall", "operation file_system runs each_s usual_s factor part")
ComparedCall.__doc__ = """
One operation beside other runs.

Attributes:
    operation: open, write ...; "server write" for the time at the storage servers.
    file_system: as Lustre calls it.
    runs: of how many others it is known.
    each_s, usual_s: time of a call in this run, and the median of the others'.
    factor: each_s by usual_s.
    part: of the time of all calls of this run.
"""

LikeRuns = namedtuple("LikeRuns", "runs operations factor elapsed_s")
LikeRuns.__doc__ = """
Attributes:
    runs: how many there are.
    operations: [ComparedCall], most of the job's time first.
    factor: by how much the calls took longer than they usually do, all together; None: not known.
    elapsed_s: median of the time that the others took; None where fewer than FEWEST are known.
"""


def question_of(record: Record, most: int) -> dict[str, Any] | None:
    """
    What asks the site's server for up to `most` runs before this one, of the same name and user,
    and for some more, as not all of them will do; None where there is nothing to ask for.
    """
    batch, job = record.batch, record.job
    if not most or not batch or not batch.name or not job.user:
        return None
    return {"users": [job.user], "names": [batch.name[:_LONGEST_NAME]], "until": job.started,
            "sort": "started", "descending": True, "limit": min(1000, 3 * most + 10)}


def rows_like(record: Record, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """
    Those of the `rows` of the answer that ended by themselves, and are neither this job nor of the
    same array: one cause may hit all tasks of it.  LookupError, ... where they are of another form.
    """
    batch: Any = record.batch           # without which there was no question
    return [row for row in rows if row["name"] == batch.name
            and row["raw_job_id"] != batch.raw_job
            and not (batch.array_job and row["job_id"].startswith(f"{batch.array_job}_"))
            and (row["outcome"] or "").upper() not in _CUT_SHORT]


def run_of(row: Mapping[str, Any], records: Iterable[Record]) -> Record | None:
    """The record of the run of a row; None where it is not among them."""
    return next((one for one in records if (row["cluster"], row["attempt"]) == (
        (one.batch.cluster or "") if one.batch else "", one.job.attempt or 0)), None)


def like_runs(record: Record, like: Sequence[Record]) -> LikeRuns:
    """What a record's operations took, beside those of `like`: records of other runs."""
    if not like:
        return LikeRuns(0, [], None, None)
    here, at_servers = _each(record)
    if not here:
        here, at_servers = at_servers, {}
        others = [_each(one)[1] for one in like]
    else:
        others = [_each(one)[0] for one in like]
    whole = sum(calls * each for calls, each in here.values())
    found, spent, usually = [], 0.0, 0.0
    for (fs, operation), (calls, each) in here.items():
        known = [other[fs, operation][1] for other in others
                 if (fs, operation) in other and other[fs, operation][0] >= _FEWEST_CALLS]
        if len(known) < FEWEST or calls < _FEWEST_CALLS or not whole:
            continue
        usual = median(known)
        spent, usually = spent + calls * each, usually + calls * usual
        if usual > 0 and max(each, usual) * calls >= _SMALLEST_PART * whole:
            found.append(ComparedCall(operation, fs, len(known), each, usual, each / usual,
                                      calls * each / whole))
    found.sort(key=lambda one: (-one.part, one.file_system, one.operation))
    elapsed = [one.job.elapsed_s for one in like if one.job.elapsed_s]
    return LikeRuns(len(like), found, spent / usually if usually else None,
                    median(elapsed) if len(elapsed) >= FEWEST else None)


def _each(record: Record) -> tuple[dict[tuple[str, str], tuple[int, float]],
                                   dict[tuple[str, str], tuple[int, float]]]:
    """{(file system, operation): (calls, seconds of one)}: of the nodes, and at the servers."""
    nodes = {name: (calls, seconds / calls)
             for name, (calls, seconds) in time_in_lustre(record).by_operation.items()}
    servers: dict[tuple[str, str], tuple[int, float]] = {}
    for fs in record.harvest.file_systems if record.harvest else ():
        rows = [(f"server {name}", row.count, row.seconds) for name, row in fs.operations.items()]
        rows += [(f"server {way}", fs[f"{way}_rpcs"], fs.get(f"{way}_seconds"))
                 for way in ("read", "write")]
        servers.update({(fs.name, name): (calls, seconds / calls)
                        for name, calls, seconds in rows if calls and seconds})
    return nodes, servers


def beside(factor: float) -> str:
    """
    By how much calls took longer, as a text.

    >>> beside(1.1)
    'calls took about as long as in its other runs'
    >>> beside(0.5)
    'calls took 0.5 times as long as in its other runs'
    """
    if 1 / AS_USUAL < factor < AS_USUAL:
        return "calls took about as long as in its other runs"
    return f"calls took {times(factor)} as long as in its other runs"


def median(values: Iterable[float]) -> float:
    """Of two in the middle, their mean."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
