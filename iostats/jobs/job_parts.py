"""
The times and nodes of a job, for queries of its events.

    its records               times and nodes of each run
    the list of all jobs      runs without a record, also those that run now
    the harvest               a job that is in neither of them
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional

import msgspec

from iostats.base.errors import StateError
from iostats.base.node_list import expand_node_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from iostats.harvest.intake import Harvest
    from iostats.jobs.all_jobs import AllJobs
    from iostats.store.record_store import Store

_MAX_RUNS = 1_000
_ENDS_LATE_S = 60.0             # its nodes' unsent data may be discarded after its end


class RunOfJob(NamedTuple):
    """A run of a job: its owner, its nodes, its file systems and its times."""

    user: str                               # its owner; "" if unknown
    nodes: Collection[str]                  # names of its nodes
    file_systems: Collection[str] | None    # names of those that it used; None if not known yet
    # since, until: s since 1970; until is None while it runs
    since: float
    until: float | None


class _TimesOfJob(msgspec.Struct):
    user: Optional[str]
    started: Optional[float]
    ended: Optional[float]


class _BatchNodes(msgspec.Struct):
    nodes: Optional[str] = None


class _FileSystemName(msgspec.Struct):
    name: str


class _RunParts(msgspec.Struct):
    """The parts of a record that a RunOfJob is made of."""

    job: _TimesOfJob
    nodes: dict[str, msgspec.Raw]
    file_systems: list[_FileSystemName]
    batch: Optional[_BatchNodes] = None


_decode_parts = msgspec.json.Decoder(_RunParts).decode


def list_runs(job: str, store: Store, all_jobs: AllJobs, harvest: Harvest) -> list[RunOfJob]:
    """Return [RunOfJob] of a job, by its id for users or in the batch system; StateError."""
    runs = list(_read_runs(job, store))
    starts = {round(run.since) for run in runs}
    for run in list(all_jobs.runs.runs.values()):
        if job in (run.job, run.shown_as) and round(run.started) not in starts:
            starts.add(round(run.started))
            runs.append(RunOfJob(str(run.facts.get("user") or ""), _expand_names(run.nodes), None,
                                 run.started, None if run.over == float("inf") else run.over))
    facts = None if runs else harvest.facts(job)
    if facts is not None and facts.started is not None:
        runs.append(RunOfJob(facts.user, _expand_names(facts.nodes), None, facts.started,
                             facts.ended))
    return runs[:_MAX_RUNS]


def _read_runs(job: str, store: Store) -> Iterator[RunOfJob]:
    for body in store.records(job):
        try:
            record = _decode_parts(body)
        except (msgspec.MsgspecError, ValueError) as error:
            raise StateError(f"the record of job {job} cannot be decoded: {error!r:.100}"
                             ) from None
        since, until = record.job.started, record.job.ended
        if since is not None:
            nodes = _expand_names((record.batch.nodes or "") if record.batch else "")
            yield RunOfJob(record.job.user or "", nodes or sorted(record.nodes),
                           {file_system.name for file_system in record.file_systems}, since,
                           None if until is None else until + _ENDS_LATE_S)


def _expand_names(text: str) -> list[str]:
    try:
        return expand_node_list(text)
    except ValueError:
        return []
