"""
What the jobs of one target gained in one reading, and several of these as one row of the store.
"""

from __future__ import annotations

import zlib
from collections import namedtuple
from typing import Any

import msgspec
import numpy

from iostats.site.lines.binned import MOST_AMOUNT, narrow, packed, widened
from iostats.site.resets.counters import GAIN_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing

    _Array = numpy.typing.NDArray[Any]

# Names in lines, where those of a target's gains are others.
_NAMES = {"us": "busy_us"}
METRICS = tuple(_NAMES.get(name, name) for name in GAIN_NAMES)
_NO_JOBS: list[str] = []        # of all idle readings, never changed
_NOTHING: dict[str, Any] = {}
# Of columns whose largest number is above the one, and up to the other.
_DTYPES: tuple[tuple[Any, int, int], ...] = (
    (numpy.uint16, 0, 2**16 - 1), (numpy.uint32, 2**16 - 1, 2**32 - 1),
    (numpy.int64, 2**32 - 1, MOST_AMOUNT))
_LONGER = 1.5                   # pauses: what is further apart had a sweep in between

LineReading = namedtuple("LineReading", "since until every_s placed jobs columns sums")
LineReading.__doc__ = """
What jobs did at a target between two readings.

Attributes:
    since, until: s since 1970.
    every_s: the pause between two sweeps of its storage server.
    placed: they follow each other; else it happened at some time before `until`.
    jobs: names of jobs as in job_stats, each once; "": all that is no job's.
    columns: {metric: integers in the order of `jobs`}.
    sums: {metric: their sum}.
"""


def reading_of(ids: Sequence[str], gains: _Array, job_of: Callable[[str], str],
               since: float | None, until: float, every_s: float, span_s: float) -> LineReading:
    """
    The LineReading of what a target's pop_arrived() has returned.

    `since`: the sweep before, or None after a restart: then it is the one that the seconds between
    the readings, `span_s`, lead to.
    """
    jobs = [job_of(one) for one in ids]
    numbers: dict[str, int] = {}
    for job in jobs:
        numbers.setdefault(job, len(numbers))
    gains = numpy.clip(gains, 0, MOST_AMOUNT)       # kernels have no more
    if len(numbers) < len(jobs):
        where = numpy.fromiter(map(numbers.__getitem__, jobs), numpy.intp, len(jobs))
        each, gains = gains, numpy.zeros((len(numbers), gains.shape[1]), numpy.int64)
        numpy.add.at(gains, where, each)
    follows = span_s > 0
    if since is None and follows:
        since = until - max(1, round(span_s / every_s)) * every_s
    if since is None or since > until:
        since, follows = until, False
    elif since == until:                            # once more in the same sweep
        since = until - every_s
    elif until - since > _LONGER * every_s:
        follows = False
    if not len(gains):
        return LineReading(float(since), float(until), float(every_s), follows, _NO_JOBS, _NOTHING,
                           _NOTHING)
    sums, most = gains.sum(axis=0), gains.max(axis=0)
    columns: dict[str, _Array] = {}
    for dtype, low, high in _DTYPES:
        places = numpy.flatnonzero((most > low) & (most <= high))
        if len(places):             # all at once: a target has a reading in each sweep
            block = gains.T[places].astype(dtype)
            columns.update(zip([METRICS[place] for place in places.tolist()], block))
    return LineReading(
        float(since), float(until), float(every_s), follows, [*numbers], columns,
        {METRICS[place]: amount for place, amount in enumerate(sums.tolist()) if amount})


def follows_idle(before: LineReading, reading: LineReading) -> bool:
    """Whether both are one long reading in which nothing happened."""
    return bool(before.placed and reading.placed and not before.jobs and not reading.jobs
                and before.until == reading.since and before.every_s == reading.every_s)


class _Part(msgspec.Struct, array_like=True):
    """
    Readings of one target.

    Attributes:
        readings: [(since, until, every_s, placed, how many jobs)].
        names: of all jobs; `jobs`: the number of each job of each reading.
        columns: {metric: integers of each job of each reading}.
    """

    readings: list[tuple[float, float, float, bool, int]]
    names: list[str]
    jobs: bytes
    columns: dict[str, bytes]


_part_of = msgspec.msgpack.Decoder(_Part).decode


def encoded_part(readings: Sequence[LineReading]) -> bytes:
    """These readings of one target as bytes, with a checksum."""
    numbers: dict[str, int] = {}
    for reading in readings:
        for job in reading.jobs:
            numbers.setdefault(job, len(numbers))
    jobs = numpy.array([numbers[job] for reading in readings for job in reading.jobs], numpy.int64)
    return packed(_Part(
        [(*reading[:4], len(reading.jobs)) for reading in readings], [*numbers], narrow(jobs),
        {metric: narrow(numpy.concatenate([
            reading.columns[metric].astype(numpy.int64) if metric in reading.columns else
            numpy.zeros(len(reading.jobs), numpy.int64) for reading in readings]))
         for metric in _metrics_of(readings)}))


def _metrics_of(readings: Iterable[LineReading]) -> list[str]:
    return sorted({metric for reading in readings for metric in reading.columns})


def decoded_part(body: bytes) -> list[LineReading]:
    """What encoded_part() made; any error that bytes can cause."""
    part = _part_of(zlib.decompress(body))
    count, at, found = sum(one[-1] for one in part.readings), 0, []
    jobs = [part.names[number] for number in widened(part.jobs, count).tolist()]
    columns = {metric: widened(data, count) for metric, data in part.columns.items()}
    for since, until, every_s, placed, size in part.readings:
        mine = {metric: column[at:at + size] for metric, column in columns.items()
                if column[at:at + size].any()}
        found.append(LineReading(
            since, until, every_s, placed, jobs[at:at + size],
            {metric: column.astype(numpy.min_scalar_type(int(column.max())))
             for metric, column in mine.items()},
            {metric: int(column.sum()) for metric, column in mine.items()}))
        at += size
    return found
