"""
The amounts of the jobs of one target in one reading, and several of these as one row of the store.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy

from iostats.harvest.resets.counters import GAIN_NAMES
from iostats.harvest.time_lines.binned import MAX_AMOUNT, narrow, pack_row, widen
from iostats.wire.messages.arrays import list_integers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iostats.wire.messages.arrays import Array, Integers


# Names in series that differ from those of a target's gains.
_NAMES = {"us": "busy_us"}
METRICS = tuple(_NAMES.get(name, name) for name in GAIN_NAMES)
_NO_JOBS: list[str] = []        # of all idle readings, never changed
_NO_COLUMNS: dict[str, Array] = {}
_NO_SUMS: dict[str, int] = {}
# For columns whose largest number is above the first limit, and up to the second.
_DTYPES: tuple[tuple[Any, int, int], ...] = (
    (numpy.uint16, 0, 2**16 - 1), (numpy.uint32, 2**16 - 1, 2**32 - 1),
    (numpy.int64, 2**32 - 1, MAX_AMOUNT))
_MAX_PAUSES = 1.5               # pauses between two readings; above, a sweep is missing in between


class LineReading(NamedTuple):
    """The amounts of jobs at a target between two readings."""

    # since, until: s since 1970
    since: float
    until: float
    every_s: float              # the pause between two sweeps of its storage server
    placed: bool  # the readings follow each other; else the I/O was at some time before `until`
    jobs: list[str]             # names of jobs as in job_stats, each once; "": (no job)
    columns: dict[str, Array]   # {metric: integers in the order of `jobs`}
    sums: dict[str, int]        # {metric: their sum}


def make_reading(ids: Sequence[str], gains: Integers, find_job: Callable[[str], str],
               since: float | None, until: float, every_s: float, span_s: float) -> LineReading:
    """
    Make the LineReading of the ids and gains that a target's pop_arrived() returned.

    `since`: the sweep before, or None after a restart: then it is computed from the seconds between
    the readings, `span_s`.
    """
    jobs = [find_job(job_id) for job_id in ids]
    numbers: dict[str, int] = {}
    for job in jobs:
        numbers.setdefault(job, len(numbers))
    gains = numpy.clip(gains, 0, MAX_AMOUNT)       # larger ones are not real
    if len(numbers) < len(jobs):
        where = numpy.fromiter(map(numbers.__getitem__, jobs), numpy.intp, len(jobs))
        each, gains = gains, numpy.zeros((len(numbers), gains.shape[1]), numpy.int64)
        numpy.add.at(gains, where, each)
    follows = span_s > 0
    if since is None and follows:
        since = until - max(1, round(span_s / every_s)) * every_s
    if since is None or since > until:
        since, follows = until, False
    elif since == until:                            # again in the same sweep
        since = until - every_s
    elif until - since > _MAX_PAUSES * every_s:
        follows = False
    if not len(gains):
        return LineReading(float(since), float(until), float(every_s), follows, _NO_JOBS,
                           _NO_COLUMNS, _NO_SUMS)
    sums, largest = gains.sum(axis=0), gains.max(axis=0)
    columns: dict[str, Array] = {}
    for dtype, low, high in _DTYPES:
        places = numpy.flatnonzero((largest > low) & (largest <= high))
        if len(places):             # all at once: a target has a reading in each sweep
            block = gains.T[places].astype(dtype)
            columns.update(zip([METRICS[place] for place in list_integers(places)], block))
    return LineReading(
        float(since), float(until), float(every_s), follows, [*numbers], columns,
        {METRICS[place]: amount for place, amount in enumerate(list_integers(sums)) if amount})


def is_after_idle(before: LineReading, reading: LineReading) -> bool:
    """Whether two readings are one long interval without I/O."""
    return bool(before.placed and reading.placed and not before.jobs and not reading.jobs
                and before.until == reading.since and before.every_s == reading.every_s)


class _Part(msgspec.Struct, array_like=True):
    """Readings of one target."""

    # [(since, until, every_s, placed, how many jobs)]
    readings: list[tuple[float, float, float, bool, int]]
    names: list[str]            # of all jobs; `jobs`: the number of each job of each reading
    jobs: bytes
    columns: dict[str, bytes]   # {metric: integers of each job of each reading}


_part_of = msgspec.msgpack.Decoder(_Part).decode


def encode_part(readings: Sequence[LineReading]) -> bytes:
    """Encode readings of a target as bytes, with a checksum."""
    numbers: dict[str, int] = {}
    for reading in readings:
        for job in reading.jobs:
            numbers.setdefault(job, len(numbers))
    jobs = numpy.array([numbers[job] for reading in readings for job in reading.jobs], numpy.int64)
    return pack_row(_Part(
        [(*reading[:4], len(reading.jobs)) for reading in readings], [*numbers], narrow(jobs),
        {metric: narrow(numpy.concatenate([
            reading.columns[metric].astype(numpy.int64) if metric in reading.columns else
            numpy.zeros(len(reading.jobs), numpy.int64) for reading in readings]))
         for metric in _list_metrics(readings)}))


def _list_metrics(readings: Iterable[LineReading]) -> list[str]:
    return sorted({metric for reading in readings for metric in reading.columns})


def decode_part(body: bytes) -> list[LineReading]:
    """The LineReadings of encode_part()'s bytes; damaged bytes can raise any error."""
    part = _part_of(zlib.decompress(body))
    count, at, readings = sum(reading[-1] for reading in part.readings), 0, []
    jobs = [part.names[number] for number in list_integers(widen(part.jobs, count))]
    columns = {metric: widen(data, count) for metric, data in part.columns.items()}
    for since, until, every_s, placed, size in part.readings:
        columns_of_reading = {metric: column[at:at + size] for metric, column in columns.items()
                              if column[at:at + size].any()}
        readings.append(LineReading(
            since, until, every_s, placed, jobs[at:at + size],
            {metric: column.astype(numpy.min_scalar_type(int(column.max())))
             for metric, column in columns_of_reading.items()},
            {metric: int(column.sum()) for metric, column in columns_of_reading.items()}))
        at += size
    return readings
