"""
One job's counts on the storage servers: from the targets, in the store, and in its record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from iostats.lustre.metrics import read_metrics
from iostats.totals.delta import Delta
from iostats.totals.file_system import FileSystem
from iostats.totals.record import ServersRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iostats.harvest.job_times import JobTimes
    from iostats.harvest.resets.target import CorrectedTarget


class HarvestedJob(NamedTuple):
    """The storage servers' counts for one job."""

    final: bool                 # the job is settled, so its counts do not change any more
    ids: list[str]              # its ids in job_stats
    # began, ended: seconds since 1970, of the first and the last sweep with a change of it
    began: float
    ended: float
    # {name: FileSystem}, with Deltas of the source "job_stats" by target, and by program and by
    # step where the ids have these
    file_systems: dict[str, FileSystem]
    # {(file system, why): {target}}: counts that may be missing on file systems without any count
    # of it; they make no number of other file systems a lower bound
    unseen: dict[tuple[str, str], set[str]]
    is_damaged: bool = False    # its stored counts are lost


class SettledCounters(NamedTuple):
    """A job's counts on one target before it was settled."""

    counters: dict[str, tuple[int, int]]    # {counter: (samples, sum of bytes or 0)}
    lower_bound: bool                       # it may be too low


_DAMAGED = "earlier counts are damaged in the server's store, and were set aside"


class _Stored(msgspec.Struct):
    """A HarvestedJob as JSON in the store."""

    ids: list[Any]
    began: float
    ended: float
    file_systems: dict[str, Any]
    unseen: list[tuple[str, str, list[str]]] = []
    is_damaged: bool = False


_decode_stored = msgspec.json.Decoder(_Stored).decode


def count_jobs(targets: Iterable[CorrectedTarget], ids: Mapping[str, Sequence[str]],
               times: Mapping[str, JobTimes], final: bool,
               parse_parts: Callable[[str], Mapping[str, str]]) -> dict[str, HarvestedJob]:
    """
    Return {job: HarvestedJob} of the targets' present counts.

    `ids`: {job: its ids in job_stats}; `times`: {job: JobTimes} of the same jobs; `final`: they are
    settled; `parse_parts`: as of TagForm.
    """
    file_systems: dict[str, dict[str, FileSystem]] = {job: {} for job in ids}
    unseen: dict[str, dict[tuple[str, str], set[str]]] = {job: {} for job in ids}
    job_of_id = {job_id: job for job, names in ids.items() for job_id in names}
    for target in targets:
        name, tag = target.file_system, target.target
        totals = target.totals(list(job_of_id))
        for number, job_id in enumerate(totals.ids):
            job = job_of_id[job_id]
            values = _convert_entry(totals.counters, number)
            reasons = times[job].list_reasons_too_low(target, job_id, final)
            if values:
                fs = file_systems[job].setdefault(name, FileSystem())
                fs.add(Delta("job_stats", name, tag, "", values, bool(reasons), "; ".join(reasons),
                             True),
                       tag, {}, {})
                for kind, part in parse_parts(job_id).items():
                    fs.add(Delta(kind, name, part, "", values, False, "", True), tag, {}, {})
            else:
                for why in reasons:
                    unseen[job].setdefault((name, why), set()).add(tag)
    return {job: _mark_unseen(HarvestedJob(final, sorted(names), times[job].first, times[job].last,
                                           file_systems[job], unseen[job]))
            for job, names in ids.items()}


def _mark_unseen(job: HarvestedJob) -> HarvestedJob:
    """Mark numbers as lower bounds instead of `unseen`, on file systems with counts of the job."""
    unseen = {}
    for (name, why), tags in job.unseen.items():
        if name not in job.file_systems:
            unseen[name, why] = tags
            continue
        for tag in tags:
            job.file_systems[name].add(
                Delta("job_stats", name, tag, "", {}, True, why, True), tag, {}, {})
    return job._replace(unseen=unseen)


def _convert_entry(counters: Mapping[str, Any], number: int) -> dict[str, int]:
    """Return {metric: integer} of one entry."""
    values = {}
    for name, column in counters.items():
        samples = column.samples.item(number)
        if samples:
            total = None if column.sums is None else column.sums.item(number)
            values.update(read_metrics(name, column.unit, samples, total, "_rpcs"))
    return values


def join_parts(earlier: HarvestedJob, later: HarvestedJob) -> HarvestedJob:
    """Join two parts of one job; changes `earlier`."""
    for name, fs in later.file_systems.items():
        if name in earlier.file_systems:
            earlier.file_systems[name].join(fs)
        else:
            earlier.file_systems[name] = fs
    unseen = {key: earlier.unseen.get(key, set()) | later.unseen.get(key, set())
              for key in {**earlier.unseen, **later.unseen}}
    return _mark_unseen(HarvestedJob(
        earlier.final and later.final, sorted({*earlier.ids, *later.ids}),
        min(earlier.began, later.began),
        max(earlier.ended, later.ended), earlier.file_systems, unseen, earlier.is_damaged
        or later.is_damaged))


def encode_job(job: HarvestedJob) -> bytes:
    """A HarvestedJob as bytes for the store."""
    return msgspec.json.encode(_Stored(
        job.ids, job.began, job.ended,
        {name: fs.state() for name, fs in job.file_systems.items()},
        [(*key, sorted(tags)) for key, tags in job.unseen.items()], job.is_damaged))


def decode_job(body: bytes) -> HarvestedJob:
    """The final HarvestedJob of encode_job()'s bytes; damaged bytes can raise any error."""
    saved = _decode_stored(body)
    file_systems = {name: FileSystem.from_state(state, str)
                    for name, state in saved.file_systems.items()}
    return HarvestedJob(
        True, saved.ids, saved.began, saved.ended, file_systems,
        {(name, why): set(tags) for name, why, tags in saved.unseen}, saved.is_damaged)


def make_damaged_job(now: float) -> HarvestedJob:
    """The HarvestedJob that stands for one with damaged bytes."""
    return HarvestedJob(True, [], now, now, {}, {}, True)


def group_counters_by_target(job: HarvestedJob) -> dict[tuple[str, str], SettledCounters]:
    """Return {(file system, target): its SettledCounters}."""
    return {(fs.name, target): SettledCounters({
        name: (metrics.get(f"{name[:-len('bytes')]}rpcs", 0), count)
        if name in ("read_bytes", "write_bytes") else (count, 0)
        for name, count in metrics.items() if not name.endswith(("_rpcs", "_us", "_sum"))},
        fs.lower_bound)
        for fs in as_record(job, ",".join).file_systems for target, metrics in fs.targets.items()}


def as_record(job: HarvestedJob, format_nodes: Callable[[list[str]], str]) -> ServersRecord:
    """A HarvestedJob as the member `harvest` of a record; `format_nodes`: [target] -> text."""
    # The damaged counts may have been of any of them.
    is_low = not job.final or job.is_damaged
    notes = [f"{name}: {', '.join(sorted(tags))}: {why}; no counts of the job on {name}"
             for (name, why), tags in sorted(job.unseen.items())]
    file_systems = [fs.at_servers(name, format_nodes, is_low)
                    for name, fs in sorted(job.file_systems.items())]
    return ServersRecord(
        final=job.final, ids=job.ids, began=job.began, ended=job.ended, file_systems=file_systems,
        notes=notes + [_DAMAGED] * job.is_damaged,
        lower_bound=is_low or bool(notes and not file_systems) or any(
            fs.lower_bound for fs in file_systems))
