"""
When a job ran, as far as is known, and what a target may have lost of it.

    sweeps                     have seen it from the first change to the last one
    batch system, or its       tell when it began and ended; its nodes write back for some time
    nodes                      after its end
    neither tells              it may have run for a day before it was first seen, and until it is
                               settled (three intervals of silence)

What a target may have lost in that time makes the job's total a lower bound.
The day is a choice: with less, a job that read its input while a storage server was booted, and
computed for some hours, would have a total that is too low and not marked; with more, one fault
would mark for weeks whatever began after it.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.site.job_lifecycle import SETTLES_ALONE, WRITES_BACK_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAY_HAVE_RUN_S = 86_400.0          # before it was first seen

NOT_TO_ITS_END = "not read after the job's end"
NOT_WHILE_SILENT = "not read for as long as the job may have run; when it ended is not known"


class JobTimes(namedtuple("JobTimes", "first last began ended cleanup_s last_before",
                          defaults=(None,))):
    """
    Seconds since 1970, by the site's clock.

    Attributes:
        first, last: the first and the last sweep that have seen a change.
        began, ended: as the batch system or the job's nodes report; None where neither does.
        cleanup_s: the longest job_cleanup_interval of the targets.
        last_before: the last sweep that saw a change before the job was settled; None: it was not.
    """

    __slots__ = ()

    def too_low_because(self, target: Any, one: str, final: bool) -> list[str]:
        """
        [why]: each reason for which the total of the id `one` on a CorrectedTarget may be too low;
        `final`: the job is settled.
        """
        # A job that was requeued ran before it began.
        began = self.first if self.began is None else min(self.began, self.first)
        ended = self.last if self.ended is None else max(self.ended, self.last) + WRITES_BACK_S
        alone_s = SETTLES_ALONE * self.cleanup_s
        earliest = None if self.began is not None else min(
            began - max(_MAY_HAVE_RUN_S, alone_s), self.last_before or began)
        whys: list[str] = target.marks(
            one, began, ended, earliest,
            None if self.ended is not None else float("inf"))
        if final and (target.swept_until or 0.0) < (
                ended if self.ended is not None else self.last + alone_s):
            whys.append(NOT_TO_ITS_END if self.ended is not None else NOT_WHILE_SILENT)
        return whys
