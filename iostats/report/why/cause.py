"""
What explains a job's time, or why nothing can.
"""

from __future__ import annotations

from collections import namedtuple

# In the order in which they are told where they weigh the same.
NOT_IN_LUSTRE = "not_in_lustre"     # most of its time was not in Lustre
FAULT = "fault"                     # something broke: an event
BUSY_TARGET = "busy_target"         # an OST or MDT was slow while other jobs loaded it
SLOW_TARGET = "slow_target"         # one was slow, and no load that is known explains it
OWN_PATTERN = "own_pattern"         # how it does its I/O: a finding
UNKNOWN = "unknown"                 # cannot be told, because
KINDS = (NOT_IN_LUSTRE, FAULT, BUSY_TARGET, SLOW_TARGET, OWN_PATTERN, UNKNOWN)

# How sure it is.
SURE, LIKELY, POSSIBLE = "sure", "likely", "possible"

Cause = namedtuple("Cause", "kind weight text evidence about")
Cause.__doc__ = """
One cause.

Attributes:
    kind: one of KINDS.
    weight: how much of the job's time it explains, from 0 to 1; the highest first.
    text: a sentence: "OST0007 of scratch took 9.3 times its usual time while job 4733 wrote
        2.1 GiB/s to it".
    evidence: [text], a line for each number or event behind it.
    about: {name: value} for programs: target, job, finding, event, factor, ...
"""
