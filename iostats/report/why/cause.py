"""
What explains a job's time, or why nothing can.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# In the order in which they are told where they weigh the same.
NOT_IN_LUSTRE = "not_in_lustre"     # most of its time was not in Lustre
FAULT = "fault"                     # something broke: an event
BUSY_TARGET = "busy_target"         # an OST or MDT was slow while other jobs loaded it
SLOW_TARGET = "slow_target"         # one was slow, and no load that is known explains it
OWN_PATTERN = "own_pattern"         # how it does its I/O: a finding
UNKNOWN = "unknown"                 # cannot be told, because
KINDS = (NOT_IN_LUSTRE, FAULT, BUSY_TARGET, SLOW_TARGET, OWN_PATTERN, UNKNOWN)

SMALLEST = 0.05                     # of the job's time: less is no cause
SLOWER = 1.5                        # times the time of other runs: what stands out

# How sure it is.
HIGH, MEDIUM, LOW = "high", "medium", "low"

Cause = namedtuple("Cause", "kind weight confidence cost text evidence about")
Cause.__doc__ = """
One cause.

Attributes:
    kind: one of KINDS.
    weight: an estimate of how much of the job's time it explains, from 0 to 1, for the order.
    confidence: HIGH, MEDIUM or LOW.
    cost: at most this part of the run time, from 0 to 1, as measured; of a fault whose stop the
        job's rate shows, about as much.  None where that was not measured.
    text: a sentence: "OST0007 of scratch took 9.3 times its usual time while job 4733 wrote
        2.1 GiB/s to it".
    evidence: [text], a line for each number or event behind it.
    about: {name: value} for programs: target, job, finding, event, factor, ...
"""


def main_cause(causes: Sequence[Cause] | None) -> Cause | None:
    """The cause that explains most; None where none is known."""
    return causes[0] if causes and causes[0].kind != UNKNOWN else None
