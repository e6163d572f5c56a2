"""
What the storage servers counted for one job: of the targets, of what is kept, and in its record.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Optional

import msgspec

from iostats.lustre.metrics import metrics_of
from iostats.totals.delta import Delta
from iostats.totals.file_system import FileSystem
from iostats.totals.record import ServersRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iostats.site.job_times import JobTimes
    from iostats.site.resets.target import CorrectedTarget

HarvestedJob = namedtuple("HarvestedJob", "final ids began ended file_systems notes lower_bound")
HarvestedJob.__doc__ = """
What the storage servers counted for one job.

Attributes:
    final: the job is settled: nothing more will come.
    ids: what it is called in job_stats.
    began, ended: seconds since 1970, of the first and the last sweep that has seen it.
    file_systems: {name: FileSystem}, with Deltas of the source "job_stats" alone.
    notes: what may be missing on file systems where nothing was seen of it: this alone makes no
        number of the others a lower bound.
    lower_bound: it was seen nowhere, or what was known is lost.
"""

_DAMAGED = "what was counted before is damaged in the server's store, and was put aside"


class _Stored(msgspec.Struct):
    """The bytes of `stored`, as JSON."""

    ids: list[Any]
    began: float
    ended: float
    file_systems: dict[str, Any]
    notes: list[Any] = []
    lower_bound: Optional[bool] = None      # None: of a release that marked whatever had notes


_stored_of = msgspec.json.Decoder(_Stored).decode


def counted(targets: Iterable[CorrectedTarget], ids: Mapping[str, Sequence[str]],
            times: Mapping[str, JobTimes], final: bool) -> dict[str, HarvestedJob]:
    """
    {job: HarvestedJob} of what these targets have now.

    `ids`: {job: what it is called in job_stats}; `times`: when each of the same jobs ran; `final`:
    they are settled.
    """
    found: dict[str, dict[str, FileSystem]] = {job: {} for job in ids}
    # job -> (file system, why) -> {target}
    notes: dict[str, dict[tuple[str, str], set[str]]] = {job: {} for job in ids}
    wanted = {one: job for job, names in ids.items() for one in names}
    for target in targets:
        name, tag = target.file_system, target.target
        totals = target.totals(list(wanted))
        for number, one in enumerate(totals.ids):
            job = wanted[one]
            values = _values(totals.counters, number)
            whys = times[job].too_low_because(target, one, final)
            if values:
                found[job].setdefault(name, FileSystem()).add(
                    Delta("job_stats", name, tag, "", values, bool(whys), "; ".join(whys), True),
                    tag, {}, {})
            else:
                for why in whys:
                    notes[job].setdefault((name, why), set()).add(tag)
    return {job: _with_notes(found[job], notes[job], sorted(names), times[job], final)
            for job, names in ids.items()}


def _with_notes(found: dict[str, FileSystem], notes: dict[tuple[str, str], set[str]],
                ids: list[str], times: JobTimes, final: bool) -> HarvestedJob:
    """The HarvestedJob of one job; `notes`: of targets where nothing was seen of it."""
    elsewhere = []
    for (name, why), tags in sorted(notes.items()):
        if name in found:
            for tag in tags:
                found[name].add(Delta("job_stats", name, tag, "", {}, True, why, True), tag, {}, {})
        else:
            elsewhere.append(f"{name}: {', '.join(sorted(tags))}: {why}; nothing was seen of the "
                             f"job on {name}")
    return HarvestedJob(final, ids, times.first, times.last, found, elsewhere,
                        bool(elsewhere) and not found)


def _values(counters: Mapping[str, Any], number: int) -> dict[str, int]:
    """metric -> integer of one entry."""
    values = {}
    for name, column in counters.items():
        samples = int(column.samples[number])
        if samples:
            total = None if column.sums is None else int(column.sums[number])
            values.update(metrics_of(name, column.unit, samples, total, "_rpcs"))
    return values


def joined(a: HarvestedJob, b: HarvestedJob) -> HarvestedJob:
    """Two parts of one job as one; `a` is changed."""
    for name, fs in b.file_systems.items():
        if name in a.file_systems:
            a.file_systems[name].join(fs)
        else:
            a.file_systems[name] = fs
    return HarvestedJob(a.final and b.final, sorted({*a.ids, *b.ids}), min(a.began, b.began),
                        max(a.ended, b.ended), a.file_systems, sorted({*a.notes, *b.notes}),
                        a.lower_bound or b.lower_bound)


def stored(job: HarvestedJob) -> bytes:
    """The same as bytes."""
    return msgspec.json.encode(_Stored(
        job.ids, job.began, job.ended,
        {name: fs.state() for name, fs in job.file_systems.items()}, job.notes, job.lower_bound))


def from_stored(body: bytes) -> HarvestedJob:
    """The final HarvestedJob that stored() made bytes of; any error that bytes can cause."""
    saved = _stored_of(body)
    file_systems = {name: FileSystem.from_state(state, str)
                    for name, state in saved.file_systems.items()}
    return HarvestedJob(
        True, saved.ids, saved.began, saved.ended, file_systems, saved.notes,
        bool(saved.notes) if saved.lower_bound is None else saved.lower_bound)


def damaged(now: float) -> HarvestedJob:
    """In place of one whose bytes are damaged."""
    return HarvestedJob(True, [], now, now, {}, [_DAMAGED], True)


def as_record(job: HarvestedJob, fold: Callable[[list[str]], str]) -> ServersRecord:
    """A HarvestedJob as the member `harvest` of a record; `fold`: [target] -> text."""
    # What was damaged may have been of any of them.
    is_low = not job.final or _DAMAGED in job.notes
    file_systems = [fs.at_servers(name, fold, is_low)
                    for name, fs in sorted(job.file_systems.items())]
    return ServersRecord(
        final=job.final, ids=job.ids, began=job.began, ended=job.ended, file_systems=file_systems,
        notes=job.notes, lower_bound=job.lower_bound or is_low or any(
            fs.lower_bound for fs in file_systems))
