"""
A job's causes: which of the things that take time took its, with the evidence.

A cause is named only where it explains a part of the job's time that matters; where too little is
known, that is said instead.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.units import percent_text
from iostats.report.advice.findings import findings_of, why_too_short
from iostats.report.why import words
from iostats.report.why.cause import (
    FAULT,
    HIGH,
    KINDS,
    LOW,
    MEDIUM,
    NOT_IN_LUSTRE,
    OWN_PATTERN,
    SLOWER,
    SMALLEST,
    UNKNOWN,
    Cause,
)
from iostats.report.why.faults import faults_of, period
from iostats.report.why.known_from import why_unknown
from iostats.report.why.like_runs import beside, like_runs
from iostats.report.why.time_in_lustre import time_in_lustre
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.load.time_lines import JobHistory
    from iostats.report.advice.finding import Finding
    from iostats.report.why.faults import CostlyFault
    from iostats.report.why.like_runs import LikeRuns
    from iostats.report.why.time_in_lustre import TimeInLustre

HARDLY = 0.1                        # of the nodes' time: less is mostly not in Lustre
_MOST_OWN = 3                       # findings
# Findings that are no pattern of the job's own, or that causes tell better.
_NOT_OWN = frozenset(("data_lost", "faults", "slow_servers", "time_in_lustre", "cache_served"))
# What matters also where calls took little time: it loads MDTs that others use, or the job waits
# for a file between its calls.
_BESIDE_TIME = frozenset(("metadata_storm", "one_mdt", "polling"))


Judgement = namedtuple("Judgement", "causes findings")
Judgement.__doc__ = """
What all reports of a job are made from, so that none contradicts another.

Attributes:
    causes: [Cause] of where its time went, the one that explains most first; [] where all that is
        needed to tell is known, and nothing stands out.
    findings: [Finding], the most important first; without its I/O patterns where its time was not
        in Lustre.
"""


def judgement_of(record: Record, config: Any, history: JobHistory | None = None,
                 like: Sequence[Record] = (), why_no_history: str = "") -> Judgement:
    """
    The Judgement of a record.

    `history`: of the job and its targets; None where there is none.  `like`: records of other runs
    of the same name and user.  `why_no_history`: why there is none, where that is known.
    """
    record = Record.of(record)
    findings = findings_of(record, config)
    causes = _causes(record, config, history, like, why_no_history, findings)
    if any(one.kind == NOT_IN_LUSTRE for one in causes):
        findings = [one for one in findings if one.id in _NOT_OWN | _BESIDE_TIME]
    return Judgement(causes, findings)


def causes_of(record: Record, history: JobHistory | None, like: Sequence[Record],
              config: Any, why_no_history: str = "") -> list[Cause]:
    """The causes of a record's Judgement."""
    causes: list[Cause] = judgement_of(record, config, history, like, why_no_history).causes
    return causes


def _causes(record: Record, config: Any, history: JobHistory | None, like: Sequence[Record],
            why_no_history: str, findings: Sequence[Finding]) -> list[Cause]:
    time, others = time_in_lustre(record), like_runs(record, like)
    faults = [one for one in faults_of(record, history, time) if one.part >= SMALLEST]
    known, found = 0, [_of_fault(one, record, history, config) for one in faults]
    if history is not None:             # a report alone has none, and starts sooner so
        from iostats.report.why.busy_targets import slow_targets
        from iostats.report.why.slow_causes import causes_of_slow
        slow, known = slow_targets(history.targets, [(one.began, one.ended) for one in faults])
        found += causes_of_slow(slow, time, _elapsed(record, history),
                                record.coverage.node_seconds, others, config)
    too_short = why_too_short(record, config)
    found += [] if too_short else _not_in_lustre(time, record)
    found += _own_patterns([one for one in findings if one.id not in _NOT_OWN], time, found, others,
                           config)
    # What was measured comes before what was not.
    found.sort(key=lambda one: (one.cost is None, -one.weight, KINDS.index(one.kind)))
    if not found and too_short:
        return [Cause(UNKNOWN, 0.0, HIGH, None, f"Cannot tell: {too_short}", [],
                      {"too_short": True})]
    if not found:
        found = _unknown(why_unknown(record, history, time, known, _elapsed(record, history),
                                     why_no_history), others)
    return found


def _elapsed(record: Record, history: JobHistory | None) -> float | None:
    if record.job.elapsed_s:
        return record.job.elapsed_s
    if history is not None and history.began is not None and history.ended is not None:
        return max(0.0, history.ended - history.began) or None
    return None


def _not_in_lustre(time: TimeInLustre, record: Record) -> list[Cause]:
    if not time.is_whole or time.busiest_share is None or time.busiest_share >= HARDLY:
        return []
    evidence = [f"all calls of its programs to Lustre took {words.lasted(time.seconds)} of "
                f"{words.lasted(record.coverage.node_seconds or 0)} of its nodes' time; threads "
                f"that wait at the same time count each, so it is no more than that"]
    is_certain = time.serial_share < HARDLY
    if not is_certain:
        evidence.append(
            f"if one node after the other waited, and the rest for it, it would be up to "
            f"{percent_text(min(1.0, time.serial_share))} of the job's time")
    return [Cause(NOT_IN_LUSTRE, 1 - min(1.0, time.busiest_share), HIGH if is_certain else MEDIUM,
                  min(1.0, time.serial_share),
                  f"Its calls to Lustre took at most {percent_text(time.share)} of node time",
                  evidence, {"share": time.share, "seconds": time.seconds})]


def _own_patterns(findings: Sequence[Finding], time: TimeInLustre, found: Sequence[Cause],
                  like: LikeRuns, config: Any) -> list[Cause]:
    """Of its time in Lustre, what nothing else explains: how it does its I/O."""
    if any(one.kind == NOT_IN_LUSTRE for one in found):
        return []
    in_lustre = min(1.0, time.busiest_share) if time.is_whole else 1.0
    left = in_lustre - sum(one.weight for one in found)
    causes = []
    for one in findings[:_MOST_OWN]:
        weight = min(left, one.weight)
        if weight < SMALLEST:
            continue
        evidence = [one.meaning, one.advice, one.link]
        if like.factor is not None:
            evidence.append(beside(like.factor))
        label = config.labels.get(one.file_system, one.file_system)
        on = f" on {label}" if label else ""
        bounds = [most for most in (one.cost, time.serial_share if time.is_whole else None)
                  if most is not None]
        causes.append(Cause(OWN_PATTERN, weight, LOW if one.cost is None else MEDIUM,
                            min(1.0, *bounds) if bounds else None,
                            f"Inefficient I/O pattern{on}: {one.number}",
                            [line for line in evidence if line],
                            {"finding": one.id, "file_system": one.file_system,
                             "link": one.link}))
    return causes


def _of_fault(fault: CostlyFault, record: Record, history: JobHistory | None,
              config: Any) -> Cause:
    first = fault.events[0]
    label = config.labels.get(first.file_system, first.file_system)
    form = words.form_of(*period(record, history))
    target = first.target.rpartition("-")[2]
    what = first.kind.replace("_", " ")
    where = f"{target} of {label}" if target else label
    nodes = f" ({first.nodes})" if first.nodes else ""
    text = (f"{where}: {what}{nodes} {words.span(fault.began, fault.ended, form)}; the job "
            f"{'stood still' if fault.is_seen else 'may have stood still'} for up to "
            f"{words.lasted(fault.still_s)}")
    evidence = [f"{words.moment(one.time, form)} {one.target or one.file_system}: "
                f"{one.kind.replace('_', ' ')}" + (f" ({one.nodes})" if one.nodes else "")
                + (f", for {one.longest_s:.0f} s" if one.longest_s else "")
                for one in fault.events[:3]]
    if len(fault.events) > 3:
        evidence.append(f"and {len(fault.events) - 3} more events of the same time")
    evidence.append(fault.evidence)
    about = {"event": first.id,
             "events": [one.id for one in fault.events], "file_system": first.file_system,
             "target": target, "began": fault.began, "ended": fault.ended,
             "still_s": fault.still_s}
    return Cause(FAULT, fault.part, MEDIUM if fault.is_seen else LOW, fault.cost, text, evidence,
                 about)


def _unknown(reasons: list[str], like: LikeRuns) -> list[Cause]:
    slower = like.factor is not None and like.factor >= SLOWER
    if not reasons and not slower:
        return []
    if slower:
        text = (f"Its calls took {words.times(like.factor)} as long as in its other runs; the "
                f"cause is not known")
        reasons = reasons or ["no target was slow for a reason that is known, and no fault "
                              "stopped it"]
    else:
        text = f"Cannot tell: {reasons[0]}"
        reasons = reasons[1:]
    return [Cause(UNKNOWN, 0.0, HIGH, None, text, reasons,
                  {"factor": like.factor} if slower else {})]
