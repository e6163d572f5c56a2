"""
What the storage servers counted for one job: of the targets, of what is kept, and in its record.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

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

HarvestedJob = namedtuple("HarvestedJob", "final ids began ended file_systems unseen is_damaged",
                          defaults=(False,))
HarvestedJob.__doc__ = """
What the storage servers counted for one job.

Attributes:
    final: the job is settled: nothing more will come.
    ids: what it is called in job_stats.
    began, ended: seconds since 1970, of the first and the last sweep that has seen it.
    file_systems: {name: FileSystem}, with Deltas of the source "job_stats" alone.
    unseen: {(file system, why): {target}}: what may be missing on file systems where nothing was
        seen of it: this alone makes no number of the others a lower bound.
    is_damaged: what was known of it is lost.
"""

SettledCounters = namedtuple("SettledCounters", "counters lower_bound")
SettledCounters.__doc__ = """
What was counted at one target of a job before it was settled.

Attributes:
    counters: {counter: (samples, sum of bytes or 0)}.
    lower_bound: it may be too low.
"""

_DAMAGED = "what was counted before is damaged in the server's store, and was put aside"


class _Stored(msgspec.Struct):
    """The bytes of `stored`, as JSON."""

    ids: list[Any]
    began: float
    ended: float
    file_systems: dict[str, Any]
    unseen: list[tuple[str, str, list[str]]] = []
    is_damaged: bool = False


_stored_of = msgspec.json.Decoder(_Stored).decode


def counted(targets: Iterable[CorrectedTarget], ids: Mapping[str, Sequence[str]],
            times: Mapping[str, JobTimes], final: bool) -> dict[str, HarvestedJob]:
    """
    {job: HarvestedJob} of what these targets have now.

    `ids`: {job: what it is called in job_stats}; `times`: when each of the same jobs ran; `final`:
    they are settled.
    """
    found: dict[str, dict[str, FileSystem]] = {job: {} for job in ids}
    unseen: dict[str, dict[tuple[str, str], set[str]]] = {job: {} for job in ids}
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
                    unseen[job].setdefault((name, why), set()).add(tag)
    return {job: _marked(HarvestedJob(final, sorted(names), times[job].first, times[job].last,
                                      found[job], unseen[job]))
            for job, names in ids.items()}


def _marked(job: HarvestedJob) -> HarvestedJob:
    """The same, with marks in place of what is `unseen` on file systems where it was seen."""
    unseen = {}
    for (name, why), tags in job.unseen.items():
        if name not in job.file_systems:
            unseen[name, why] = tags
            continue
        for tag in tags:
            job.file_systems[name].add(
                Delta("job_stats", name, tag, "", {}, True, why, True), tag, {}, {})
    return job._replace(unseen=unseen)


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
    unseen = {key: a.unseen.get(key, set()) | b.unseen.get(key, set())
              for key in {**a.unseen, **b.unseen}}
    return _marked(HarvestedJob(
        a.final and b.final, sorted({*a.ids, *b.ids}), min(a.began, b.began),
        max(a.ended, b.ended), a.file_systems, unseen, a.is_damaged or b.is_damaged))


def stored(job: HarvestedJob) -> bytes:
    """The same as bytes."""
    return msgspec.json.encode(_Stored(
        job.ids, job.began, job.ended,
        {name: fs.state() for name, fs in job.file_systems.items()},
        [(*key, sorted(tags)) for key, tags in job.unseen.items()], job.is_damaged))


def from_stored(body: bytes) -> HarvestedJob:
    """The final HarvestedJob that stored() made bytes of; any error that bytes can cause."""
    saved = _stored_of(body)
    file_systems = {name: FileSystem.from_state(state, str)
                    for name, state in saved.file_systems.items()}
    return HarvestedJob(
        True, saved.ids, saved.began, saved.ended, file_systems,
        {(name, why): set(tags) for name, why, tags in saved.unseen}, saved.is_damaged)


def damaged(now: float) -> HarvestedJob:
    """In place of one whose bytes are damaged."""
    return HarvestedJob(True, [], now, now, {}, {}, True)


def counters_by_target(job: HarvestedJob) -> dict[tuple[str, str], SettledCounters]:
    """{(file system, target): its SettledCounters}."""
    return {(fs.name, target): SettledCounters({
        name: (metrics.get(f"{name[:-len('bytes')]}rpcs", 0), count)
        if name in ("read_bytes", "write_bytes") else (count, 0)
        for name, count in metrics.items() if not name.endswith(("_rpcs", "_us", "_sum"))},
        fs.lower_bound)
        for fs in as_record(job, ",".join).file_systems for target, metrics in fs.targets.items()}


def as_record(job: HarvestedJob, fold: Callable[[list[str]], str]) -> ServersRecord:
    """A HarvestedJob as the member `harvest` of a record; `fold`: [target] -> text."""
    # What was damaged may have been of any of them.
    is_low = not job.final or job.is_damaged
    notes = [f"{name}: {', '.join(sorted(tags))}: {why}; nothing was seen of the job on {name}"
             for (name, why), tags in sorted(job.unseen.items())]
    file_systems = [fs.at_servers(name, fold, is_low)
                    for name, fs in sorted(job.file_systems.items())]
    return ServersRecord(
        final=job.final, ids=job.ids, began=job.began, ended=job.ended, file_systems=file_systems,
        notes=notes + [_DAMAGED] * job.is_damaged,
        lower_bound=is_low or bool(notes and not file_systems) or any(
            fs.lower_bound for fs in file_systems))
