"""
A cause of a job's run time, or the reason for none; headline, colour and confidence are the same in
a report, on a page, in `iostats why` and in JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_percent
from iostats.report.why.known_from import MOSTLY
from iostats.report.why.words import join_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# In the order of the output where they weigh the same.
NOT_IN_LUSTRE = "not_in_lustre"     # most of its time was not in Lustre
FAULT = "fault"                     # something broke: an event
BUSY_TARGET = "busy_target"         # an OST or MDT was slow while other jobs loaded it
SLOW_TARGET = "slow_target"         # one was slow, and no load that is known explains it
SLOW_NODE = "slow_node"             # a node took longer than the others: a finding
OWN_PATTERN = "own_pattern"         # how it does its I/O: a finding
UNKNOWN = "unknown"                 # unknown, for a reason
KINDS = (NOT_IN_LUSTRE, FAULT, BUSY_TARGET, SLOW_TARGET, SLOW_NODE, OWN_PATTERN,
         UNKNOWN)

SMALLEST = 0.05                     # of the job's time: a cause of less is not reported
SMALL_SHARE = 0.1                   # of the nodes' time: less explains no slow job
SLOWER = 1.5                        # times as long as in other runs: calls that stand out

# How sure it is.
HIGH, MEDIUM, LOW = "high", "medium", "low"
_SUBJECTS = {BUSY_TARGET: "A busy target", SLOW_TARGET: "A slow target", FAULT: "A fault",
             SLOW_NODE: "A slow node"}
# The subjects of I/O patterns; all others are named after their rule, such as small_writes.
_PATTERNS = {"one_ost": "The use of a single OST", "one_mdt": "The use of a single MDT",
             "few_osts": "The use of few OSTs", "fsync": "Calls of fsync()",
             "one_node": "I/O on a single node", "flock": "File locks",
             "other_calls": "Metadata calls", "work_on_nfs": "Work on NFS instead of Lustre",
             "metadata_requests": "Requests for metadata"}
_VERBS = {HIGH: "slowed", MEDIUM: "probably slowed", LOW: "may have slowed"}
_ALL_OF_IT = 0.995                  # of the run time: such an upper bound would be no information


class Cause(NamedTuple):
    """A cause that took a job's time: its text, its confidence, and an upper bound of its cost."""

    kind: str               # one of KINDS
    # an estimate of how much of the job's time it explains, from 0 to 1, for the order
    weight: float
    confidence: str         # HIGH, MEDIUM or LOW
    # a measured upper bound, as a part of the run time (0 to 1); an estimate for a fault during
    # which the job's rate dropped.  None if it was not measured.
    cost: float | None
    # a sentence: "OST0007 of scratch took 9.3 times its usual time while job 4733 wrote 2.1 GiB/s
    # to it"
    text: str
    evidence: list[str]     # [text], a line for each number or event behind it
    about: dict[str, Any]   # {name: value} for programs: target, job, finding, event, factor, ...


def main_cause(causes: Sequence[Cause] | None) -> Cause | None:
    """The cause that explains most of the job's time; None if none is known."""
    return causes[0] if causes and causes[0].kind != UNKNOWN else None


def format_headline(cause: Cause) -> str:
    """Format the headline of a cause: "Small writes probably slowed this job"."""
    if cause.kind == NOT_IN_LUSTRE:
        if len(cause.about.get("seen", ())) > 1:
            return "No file system that iostats can see " + (
                "was the bottleneck" if cause.confidence == HIGH else "slowed this job much")
        return ("Lustre was not the bottleneck" if cause.confidence == HIGH else
                "Lustre hardly slowed this job")
    finding: str = cause.about.get("finding", "")
    subject = _SUBJECTS.get(cause.kind) or _PATTERNS.get(finding) or (
        finding.replace("_", " ").capitalize())
    return f"{subject} {_VERBS[cause.confidence]} this job"


def choose_colour(cause: Cause) -> str:
    """
    "good", "warn" or "bad"; "bad" only for what the job or the site has to change, if it is likely
    to be the cause.
    """
    if cause.kind == NOT_IN_LUSTRE:
        return "good"
    return "bad" if cause.kind in (OWN_PATTERN, FAULT) and cause.confidence != LOW else "warn"


def format_headline_sentence(cause: Cause) -> str:
    """The headline with its confidence, as a sentence."""
    share = ""
    if cause.kind == NOT_IN_LUSTRE:
        node_share: float = cause.about["share"]
        seen: list[str] = cause.about.get("seen", [])
        share = f": {join_words(seen)}" if len(seen) > 1 else (
            f": at most {format_percent(node_share)} of node time")
    return f"{format_headline(cause)}{share} (confidence: {cause.confidence})."


def describe_confidence_and_cost(cause: Cause) -> str:
    """Confidence: medium.  It cost at most 10 % of the run time."""
    text = f"Confidence: {cause.confidence}."
    if cause.kind == NOT_IN_LUSTRE:
        return text
    if cause.cost is None:
        return f"{text}  Its cost was not measured."
    if cause.cost >= _ALL_OF_IT:
        return text
    bound = "about" if cause.kind == FAULT and cause.confidence != LOW else "at most"
    known_share: float = cause.about.get("known", 1.0)
    part = ("" if known_share >= MOSTLY else
            f", in the {format_percent(known_share)} of it that is known")
    return f"{text}  It cost {bound} {format_percent(cause.cost)} of the run time{part}."


def make_headline_form(cause: Cause | None) -> dict[str, str | float | None] | None:
    """The main cause as JSON: a RecordedCause."""
    return cause and {"kind": cause.kind, "headline": format_headline(cause),
                      "confidence": cause.confidence, "cost": cause.cost}
