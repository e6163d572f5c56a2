"""
The run time of a job, as far as known, and the times in which a target may have lost its counts.

    sweeps                     show it from the first change to the last one
    batch system, or its       report when it began and ended; its nodes write back for some time
    nodes                      after its end
    neither reports it         it may have run for a day before its first change, and until it is
                               settled (three intervals of silence)

If a target may have lost counts in that time, the job's total is a lower bound.  The day is a
choice: with less, a job that read its input while a storage server was booted, and computed for
some hours, would have a total that is too low and not marked; with more, one fault would mark for
weeks whatever began after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iostats.harvest.job_lifecycle import SETTLES_ALONE, WRITES_BACK_S

if TYPE_CHECKING:
    from iostats.harvest.resets.target import CorrectedTarget

_MAY_HAVE_RUN_S = 86_400.0      # before its first change

NOT_TO_ITS_END = "not read after the job's end"
NOT_WHILE_SILENT = "not read for as long as the job may have run; the time of its end is unknown"


class JobTimes(NamedTuple):
    """The begin and end of a job, in seconds since 1970 by the clock of the site's server."""

    # first, last: the first and the last sweep with a change
    first: float
    last: float
    # began, ended: as the batch system or the job's nodes report; None where neither does
    began: float | None
    ended: float | None
    cleanup_s: float    # the longest job_cleanup_interval of the targets
    # the last sweep with a change before the job was settled; None: not settled
    last_before: float | None = None

    def list_reasons_too_low(self, target: CorrectedTarget, job_id: str, final: bool) -> list[str]:
        """
        Return [reason] why the total of an id on a CorrectedTarget may be too low; `final`: the job
        is settled.
        """
        # A job that was requeued ran before it began.
        began = self.first if self.began is None else min(self.began, self.first)
        ended = self.last if self.ended is None else max(self.ended, self.last) + WRITES_BACK_S
        alone_s = SETTLES_ALONE * self.cleanup_s
        earliest = None if self.began is not None else min(
            began - max(_MAY_HAVE_RUN_S, alone_s), self.last_before or began)
        reasons = target.marks(
            job_id, began, ended, earliest,
            None if self.ended is not None else float("inf"))
        if final and (target.swept_until or 0.0) < (
                ended if self.ended is not None else self.last + alone_s):
            reasons.append(NOT_TO_ITS_END if self.ended is not None else NOT_WHILE_SILENT)
        return reasons
