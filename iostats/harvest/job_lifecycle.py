"""
The lifecycle of a job, from the storage servers' counts and the batch system.

    ACTIVE   one of its entries in job_stats has changed in a sweep
    SILENT   no entry has changed for job_cleanup_interval: they may expire
    OVER     the batch system reports its end
    CALM     no entry has changed for so long that none will: its totals are final

A job is ENDED, and not yet SETTLED, for some time after its end: nodes still write back their page
cache under the job's id.  A job that no batch system knows is settled by silence alone.  Later
changes count as another life of the job, and are added to the record of the first.

Source: lprocfs_job_cleanup(), lustre/obdclass/lprocfs_jobstats.c, for when entries expire.
"""

from __future__ import annotations

RUNNING, QUIET, ENDED, SETTLED = "running", "quiet", "ended", "settled"
ACTIVE, SILENT, OVER, CALM = "active", "silent", "over", "calm"

NEXT = {
    RUNNING: {ACTIVE: RUNNING, SILENT: QUIET, OVER: ENDED},
    QUIET:   {ACTIVE: RUNNING, SILENT: QUIET, OVER: ENDED, CALM: SETTLED},
    ENDED:   {ACTIVE: ENDED, SILENT: ENDED, OVER: ENDED, CALM: SETTLED},
    SETTLED: {},
}

SETTLES_AFTER, SETTLES_ALONE = 1.5, 3.0  # cleanup intervals; an entry lives at most 1.5
WRITES_BACK_S = 60.0            # by nodes after a job's end: dirty pages are up to some 30 s old


def get_next_state(state: str, event: str) -> str:
    """The state that follows; ValueError if `event` is impossible in `state`."""
    try:
        return NEXT[state][event]
    except KeyError:
        raise ValueError(f"a job that is {state} can't be {event}") from None


def find_due_event(state: str, now: float, last: float, over_at: float | None, is_known: bool,
                   cleanup_s: float) -> str | None:
    """
    The event that is due for a job at `now`, or None; ACTIVE comes from sweeps, not from here.

    `last`: when a sweep last showed a change; `over_at`: when the batch system first reported the
    end, or None; `is_known`: a batch system knows it; `cleanup_s`: the longest job_cleanup_interval
    of the targets.  All in seconds.
    """
    if state != SETTLED:
        if over_at is not None and state != ENDED:
            return OVER
        waits_for = SETTLES_AFTER if over_at is not None else SETTLES_ALONE
        since = max(last, over_at) if over_at is not None else last
        if (state == ENDED or (state == QUIET and not is_known)) and (
                now - since >= max(waits_for * cleanup_s, WRITES_BACK_S)):
            return CALM
        if state == RUNNING and now - last >= cleanup_s:
            return SILENT
    return None
