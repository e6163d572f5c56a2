"""
The run of a job that a query selects: by its record, or as job_stats show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional

import msgspec

from iostats.base.errors import StateError, WireError
from iostats.wire import protocol

if TYPE_CHECKING:
    from iostats.harvest.intake import Harvest
    from iostats.store.line_store import LineStore

_Name = Annotated[str, msgspec.Meta(max_length=256)]


class JobHistoryParams(msgspec.Struct):
    """The params of `job_history`."""

    job: _Name  # its id for users, or that of the batch system
    # cluster, attempt: of the run, if there are several; default: the latest
    cluster: _Name = ""
    attempt: Optional[Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]] = None


class RunTime(NamedTuple):
    """One run of a job, for queries of time series."""

    job: str        # its id in job_stats
    user: str
    shown_as: str   # its id for users
    # began, ended: s since 1970; None if unknown, or the job runs
    began: float | None
    ended: float | None
    runs: bool      # it runs
    is_only: bool   # there is no other run, so that all counts of the job are of this run
    events: bool    # its record has events
    series: bool    # it has time series of `watch`


class _FileSystem(msgspec.Struct):
    series: Any = None


class _Record(msgspec.Struct):
    """The members of a record that are needed to select a run."""

    file_systems: list[_FileSystem] = []


_record_of = msgspec.json.Decoder(_Record).decode


def select_run(params: JobHistoryParams, user: Optional[str], harvest: Harvest) -> RunTime:
    """The selected RunTime; WireError if there is none, or it is not `user`'s; None: a reader."""
    store = harvest.lines.store
    run = _run_in_store(store, params, user)
    is_latest = not params.cluster and params.attempt is None
    unsettled = harvest.lives.find_life(params.job) if is_latest else None
    if unsettled is not None:
        name, life = unsettled
        began, ended = life.facts.get("started"), life.facts.get("ended") or life.over_at
        is_same = run is None or run.began is None      # without a record yet
        owner = life.facts.get("user") or (run.user if run is not None and is_same else "")
        if user in (None, owner) and (is_same or (
                run is not None and run.ended is not None and (began or life.first) > run.ended)):
            run = RunTime(name, owner, life.facts.get("job") or name, began, ended, ended is None,
                          run is None or (is_same and run.is_only), False, False)
    elif run is None and user is None and store.job_rows(params.job):
        run = RunTime(params.job, "", params.job, None, None, False, True, False, False)
    if run is None or (user is not None and run.user != user):
        raise WireError(protocol.REFUSED, (
            f"no job {params.job[:80]} is known here" if user is None else
            f"no job {params.job[:80]} of {user} is known here; users see only their own "
            f"jobs"))
    return run


def _run_in_store(store: LineStore, params: JobHistoryParams,
                  user: Optional[str]) -> Optional[RunTime]:
    """The RunTime from nodes' reports and records, or None."""
    row = store.run(params.job, params.cluster, params.attempt, user)
    if row is None:
        return None
    has_series = False
    try:
        record = store.record(row.cluster, row.job, row.attempt)
        has_series = any(file_system.series is not None
                         for file_system in _record_of(record or b"{}").file_systems)
    except (StateError, msgspec.MsgspecError):
        pass  # the record is damaged: only its time series are missing
    return RunTime(row.job, row.user, row.shown_as,
                   row.began if row.started is None else row.started,
                   row.over if row.ended is None else row.ended, not row.has_record,
                   row.runs == 1, row.events is not None, has_series)
