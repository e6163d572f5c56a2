"""
A cause in a few words, with its colour and how sure it is: the same in a report, on a page, in
`iostats why` and in JSON.
"""

from __future__ import annotations

from iostats.base.units import percent_text
from iostats.report.why.cause import (
    BUSY_TARGET,
    FAULT,
    HIGH,
    LOW,
    MEDIUM,
    NOT_IN_LUSTRE,
    OWN_PATTERN,
    SLOW_TARGET,
)
from iostats.report.why.known_from import MOSTLY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.report.why.cause import Cause

_SUBJECTS = {BUSY_TARGET: "A busy target", SLOW_TARGET: "A slow target", FAULT: "A fault"}
# Of findings; others are named as their rules: small_writes.
_PATTERNS = {"one_ost": "The use of a single OST", "one_mdt": "The use of a single MDT",
             "one_node": "I/O on a single node", "flock": "File locks",
             "other_calls": "Metadata calls"}
_VERBS = {HIGH: "slowed", MEDIUM: "probably slowed", LOW: "may have slowed"}
_ALL_OF_IT = 0.995                  # of the run time: to cost no more than that means nothing


def headline(cause: Cause) -> str:
    """Small writes probably slowed this job"""
    if cause.kind == NOT_IN_LUSTRE:
        return ("Lustre was not the bottleneck" if cause.confidence == HIGH else
                "Lustre hardly slowed this job")
    finding = cause.about.get("finding", "")
    subject = _SUBJECTS.get(cause.kind) or _PATTERNS.get(finding) or (
        finding.replace("_", " ").capitalize())
    return f"{subject} {_VERBS[cause.confidence]} this job"


def colour(cause: Cause) -> str:
    """
    "good", "warn" or "bad": the last of what the job, or the site, has to change, and only where it
    is likely.
    """
    if cause.kind == NOT_IN_LUSTRE:
        return "good"
    return "bad" if cause.kind in (OWN_PATTERN, FAULT) and cause.confidence != LOW else "warn"


def line(cause: Cause) -> str:
    """The headline by itself, for a text."""
    most = (f": at most {percent_text(cause.about['share'])} of node time"
            if cause.kind == NOT_IN_LUSTRE else "")
    return f"{headline(cause)}{most} (confidence: {cause.confidence})."


def confidence_and_cost(cause: Cause) -> str:
    """Confidence: medium.  It cost at most 10 % of the run time."""
    text = f"Confidence: {cause.confidence}."
    if cause.kind == NOT_IN_LUSTRE:
        return text
    if cause.cost is None:
        return f"{text}  Its cost was not measured."
    if cause.cost >= _ALL_OF_IT:
        return text
    most = "about" if cause.kind == FAULT and cause.confidence != LOW else "at most"
    known = cause.about.get("known", 1.0)
    part = f", in the {percent_text(known)} of it that is known" if known < MOSTLY else ""
    return f"{text}  It cost {most} {percent_text(cause.cost)} of the run time{part}."


def as_form(cause: Cause | None) -> dict[str, Any] | None:
    """The main cause as JSON: a RecordedCause."""
    return cause and {"kind": cause.kind, "headline": headline(cause),
                      "confidence": cause.confidence, "cost": cause.cost}
