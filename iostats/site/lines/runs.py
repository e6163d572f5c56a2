"""
Of which run of a job a question is: by its record, or as job_stats have seen it.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Annotated, Any, Optional

import msgspec

from iostats.base.errors import StateError, WireError
from iostats.wire import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.site.harvest_intake import Harvest
    from iostats.site.lines.line_store import LineStore

_Name = Annotated[str, msgspec.Meta(max_length=256)]


class JobHistoryParams(msgspec.Struct):
    """
    The params of `job_history`.

    Attributes:
        job: as its users write it, or as the batch system has it.
        cluster, attempt: of the run, where there are several; default: the latest.
    """

    job: _Name
    cluster: _Name = ""
    attempt: Optional[Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]] = None


RunTime = namedtuple("RunTime", "job user shown_as began ended runs is_only events series")
RunTime.__doc__ = """
One run of a job, as far as lines need it.

Attributes:
    job: as job_stats have it; `shown_as`: as users write it.
    began, ended: s since 1970; None where that is not known, or the job runs; runs: it does.
    is_only: there is no other run, so that all that was seen of the job is this one's.
    events: its record has events; series: it has those of `watch`.
"""


class _FileSystem(msgspec.Struct):
    series: Any = None


class _Record(msgspec.Struct):
    """A record, as far as it says what else there is."""

    file_systems: list[_FileSystem] = []


_record_of = msgspec.json.Decoder(_Record).decode


def run_of(ask: JobHistoryParams, user: Optional[str], harvest: Harvest) -> RunTime:
    """
    The RunTime that is asked for; WireError where there is none, or it is another's than
    `user`'s: None for a reader.
    """
    store = harvest.lines.store
    run = _of_jobs(store, ask, user)
    found = None if ask.cluster or ask.attempt is not None else harvest.lives.life_of(ask.job)
    if found is not None:
        name, life = found
        began, ended = life.facts.get("started"), life.facts.get("ended") or life.over_at
        is_same = run is None or run.began is None      # of which there is no record yet
        owner = life.facts.get("user") or (run.user if run is not None and is_same else "")
        if user in (None, owner) and (is_same or (
                run is not None and run.ended is not None and (began or life.first) > run.ended)):
            run = RunTime(name, owner, life.facts.get("job") or name, began, ended, ended is None,
                          run is None or (is_same and run.is_only), False, False)
    elif run is None and user is None and store.job_rows(ask.job):
        run = RunTime(ask.job, "", ask.job, None, None, False, True, False, False)
    if run is None or (user is not None and run.user != user):
        raise WireError(protocol.REFUSED, (
            f"no job {ask.job[:80]} is known here" if user is None else
            f"no job {ask.job[:80]} of {user} is known here, and a user may ask for own jobs "
            f"alone"))
    return run


def _of_jobs(store: LineStore, ask: JobHistoryParams, user: Optional[str]) -> Optional[RunTime]:
    """Of nodes that have reported, and of records."""
    row = store.run(ask.job, ask.cluster, ask.attempt, user)
    if row is None:
        return None
    (cluster, job, attempt, owner, shown_as, has_record, started, ended, began, over, events,
     runs) = row
    has_series = False
    try:
        record = store.record(cluster, job, attempt)
        has_series = any(one.series is not None
                         for one in _record_of(record or b"{}").file_systems)
    except (StateError, msgspec.MsgspecError):
        pass                                    # the record is damaged: it costs itself alone
    return RunTime(job, owner, shown_as, began if started is None else started,
                   over if ended is None else ended, not has_record, bool(runs == 1),
                   events is not None, has_series)
