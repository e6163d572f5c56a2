"""
A job's causes: which of the things that take time took its, with the evidence.

A cause is named only where it explains a part of the job's time that matters; where the data do
not suffice, the cause is "unknown".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_percent
from iostats.report.findings.evaluate import explain_too_short, find_problems
from iostats.report.why import time_on_disks, words
from iostats.report.why.cause import (
    BUSY_TARGET,
    FAULT,
    HIGH,
    KINDS,
    LOW,
    MEDIUM,
    NOT_IN_LUSTRE,
    OWN_PATTERN,
    SLOW_NODE,
    SLOW_TARGET,
    SLOWER,
    SMALL_SHARE,
    SMALLEST,
    UNKNOWN,
    Cause,
)
from iostats.report.why.faults import find_faults, get_job_period
from iostats.report.why.known_from import explain_unknown_time
from iostats.report.why.like_runs import compare_runs, describe_factor
from iostats.report.why.time_in_lustre import compute_time_in_lustre
from iostats.totals.job_events import NETWORK
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.base.config import Config
    from iostats.load.time_lines import JobHistory
    from iostats.report.findings.finding import Finding
    from iostats.report.why.faults import CostlyFault
    from iostats.report.why.like_runs import LikeRuns
    from iostats.report.why.time_in_lustre import TimeInLustre

_MOST_OWN = 3                       # findings
# Findings that are no pattern of the job's own, or that causes tell better.
_NOT_OWN = frozenset(("data_lost", "faults", "slow_servers", "time_in_lustre", "cache_served",
                      "resent_requests"))
# Findings about calls that took long, which slow targets and faults explain better.
_SLOW_CALLS = frozenset(("slow_metadata", "other_calls", "one_ost", "few_osts"))
# Findings that matter even if calls took little time: other jobs use the same MDTs, or the job
# waits for a file between its calls.
_BESIDE_TIME = frozenset(("metadata_storm", "one_mdt", "polling"))
# What the network may have a part in.
_NETWORK_MAY_EXPLAIN = frozenset((BUSY_TARGET, SLOW_TARGET, SLOW_NODE, FAULT, UNKNOWN))


class Judgement(NamedTuple):
    """The causes and findings of a job, the same for all its reports and pages."""

    # [Cause], the one that explains most of the job's time first; [] if all needed data is there
    # and shows no cause
    causes: list[Cause]
    # [Finding], the most important first; without I/O patterns if the job's time was not spent in
    # Lustre
    findings: list[Finding]


def judge_record(record: Record, config: Config, history: JobHistory | None = None,
                 like: Sequence[Record] = (), why_no_history: str = "") -> Judgement:
    """
    The Judgement of a record.

    `history`: of the job and its targets; None where there is none.  `like`: records of other runs
    of the same name and user.  `why_no_history`: why there is none, where that is known.
    """
    record = Record.of(record)
    findings = find_problems(record, config)
    causes = _find_causes(record, config, history, like, why_no_history, findings)
    if any(item.kind == NOT_IN_LUSTRE for item in causes):
        findings = [item for item in findings
                    if item.is_elsewhere or item.id in _NOT_OWN | _BESIDE_TIME]
    return Judgement(causes, findings)


def find_causes(record: Record, history: JobHistory | None, like: Sequence[Record],
                config: Config, why_no_history: str = "") -> list[Cause]:
    """The causes of a record's Judgement."""
    causes: list[Cause] = judge_record(record, config, history, like, why_no_history).causes
    return causes


def _find_causes(record: Record, config: Config, history: JobHistory | None, like: Sequence[Record],
                 why_no_history: str, findings: Sequence[Finding]) -> list[Cause]:
    time, like_this = compute_time_in_lustre(record), compare_runs(record, like)
    faults = [item for item in find_faults(record, history, time) if item.part >= SMALLEST]
    count_judged, causes = 0, [_describe_fault(item, record, history, config) for item in faults]
    if history is not None:             # imported here, as a report without it starts faster
        from iostats.report.why.busy_targets import find_slow_targets
        from iostats.report.why.slow_causes import find_slow_causes
        slow, count_judged = find_slow_targets(history.targets,
                                               [(item.began, item.ended) for item in faults])
        causes += find_slow_causes(slow, time, _compute_elapsed(record, history),
                                   record.coverage.node_seconds, like_this, config)
    too_short = explain_too_short(record, config)
    if not (too_short or any(map(_waits_outside_calls, findings))):
        causes += _make_not_in_lustre(time, record)
    causes += _list_job_patterns([item for item in findings if item.id not in _NOT_OWN], time,
                                 causes,
                                 like_this, config)
    # Causes with a measured cost come first.
    causes.sort(key=lambda item: (item.cost is None, -item.weight, KINDS.index(item.kind)))
    if not causes and too_short:
        return [Cause(UNKNOWN, 0.0, HIGH, None, f"Cannot tell: {too_short}", [],
                      {"too_short": True})]
    if not causes:
        causes = _make_unknown_cause(explain_unknown_time(
            record, history, time, count_judged, _compute_elapsed(record, history),
            why_no_history), like_this)
    network = [f"during the job, {event.nodes + ': ' if event.nodes else ''}{event.message}"
               for event in record.events or () if event.kind in NETWORK and event.message]
    return [cause._replace(evidence=[*cause.evidence, *network[:3]])
            if cause.kind in _NETWORK_MAY_EXPLAIN else cause for cause in causes]


def _compute_elapsed(record: Record, history: JobHistory | None) -> float | None:
    if record.job.elapsed_s:
        return record.job.elapsed_s
    if history is not None and history.began is not None and history.ended is not None:
        return max(0.0, history.ended - history.began) or None
    return None


def _waits_outside_calls(finding: Finding) -> bool:
    """Whether a job waits between its calls, or for requests that no call made."""
    return finding.id == "polling" or (
        finding.id == "small_requests" and finding.cost is None and not finding.is_elsewhere)


def _make_not_in_lustre(time: TimeInLustre, record: Record) -> list[Cause]:
    known = time.known
    if not time.is_whole or known is None or known.busiest_share >= SMALL_SHARE:
        return []
    evidence = [f"all calls of its programs to Lustre took {words.format_elapsed(known.seconds)} "
                f"of {words.format_elapsed(record.coverage.node_seconds or 0)} of its nodes' time; "
                f"threads that wait at the same time count each, so it is no more than that"]
    is_certain = known.serial_share < SMALL_SHARE
    if not is_certain:
        evidence.append(
            f"if one node after the other waited, and the rest for it, it would be up to "
            f"{format_percent(min(1.0, known.serial_share))} of the job's time")
    evidence += time_on_disks.describe_times_beside_lustre(record)
    return [Cause(NOT_IN_LUSTRE, 1 - min(1.0, known.busiest_share), HIGH if is_certain else MEDIUM,
                  min(1.0, known.serial_share),
                  time_on_disks.describe_no_time(record, known.share),
                  evidence, {"share": known.share, "seconds": known.seconds,
                             "seen": time_on_disks.list_small_shares(record, known.share)})]


def _list_job_patterns(findings: Sequence[Finding], time: TimeInLustre,
                       known_causes: Sequence[Cause],
                       like: LikeRuns, config: Config) -> list[Cause]:
    """List the findings that explain the rest of the job's time in Lustre, and time elsewhere."""
    if any(cause.kind == NOT_IN_LUSTRE for cause in known_causes):
        findings = [finding for finding in findings if finding.is_elsewhere]
    whole = time.known if time.is_whole else None
    in_lustre = min(1.0, whole.busiest_share) if whole else 1.0
    left = in_lustre - sum(cause.weight for cause in known_causes)
    causes = []
    explained = _SLOW_CALLS if known_causes else frozenset()
    for finding in [finding for finding in findings if finding.id not in explained][:_MOST_OWN]:
        is_elsewhere = finding.is_elsewhere
        is_outside = is_elsewhere or _waits_outside_calls(finding)
        weight = finding.weight if is_outside else min(left, finding.weight)
        if (weight if is_outside else left) < SMALLEST:
            continue
        evidence = [finding.meaning, finding.advice, finding.link]
        if like.factor is not None:
            evidence.append(describe_factor(like.factor))
        label = config.labels.get(finding.file_system, finding.file_system)
        on = f" on {label}" if label else ""
        bounds = [bound for bound in (finding.cost, None if is_elsewhere or whole is None else
                                      whole.serial_share)
                  if bound is not None and (is_elsewhere or not is_outside)]
        kind, heading = (SLOW_NODE, "Slow node") if finding.id == "slow_nodes" else (
            OWN_PATTERN, "Inefficient I/O pattern")
        is_sure = finding.cost is not None and finding.is_certain
        causes.append(Cause(kind, weight, MEDIUM if is_sure else LOW,
                            min(1.0, *bounds) if bounds else None,
                            f"{heading}{on}: {finding.number}",
                            [line for line in evidence if line],
                            {"finding": finding.id, "file_system": finding.file_system,
                             "link": finding.link}))
    return causes


def _describe_fault(fault: CostlyFault, record: Record, history: JobHistory | None,
                    config: Config) -> Cause:
    first = fault.events[0]
    label = config.labels.get(first.file_system, first.file_system)
    form = words.choose_format(*get_job_period(record, history))
    target = first.target.rpartition("-")[2]
    kind = first.kind.replace("_", " ")
    where = f"{target} of {label}" if target else label
    nodes = f" ({first.nodes})" if first.nodes else ""
    text = (
        f"{where}: {kind}{nodes} {words.format_period(fault.began, fault.ended, form)}; the job "
            f"{'stood still' if fault.is_seen else 'may have stood still'} for up to "
            f"{words.format_elapsed(fault.still_s)}")
    evidence = [f"{words.format_moment(event.time, form)} {event.target or event.file_system}: "
                f"{event.kind.replace('_', ' ')}" + (f" ({event.nodes})" if event.nodes else "")
                + (f", for {event.longest_s:.0f} s" if event.longest_s else "")
                for event in fault.events[:3]]
    if len(fault.events) > 3:
        evidence.append(f"and {len(fault.events) - 3} more events of the same time")
    evidence.append(fault.evidence)
    about = {"event": first.id,
             "events": [event.id for event in fault.events], "file_system": first.file_system,
             "target": target, "began": fault.began, "ended": fault.ended,
             "still_s": fault.still_s}
    return Cause(FAULT, fault.part, MEDIUM if fault.is_seen else LOW, fault.cost, text, evidence,
                 about)


def _make_unknown_cause(reasons: list[str], like: LikeRuns) -> list[Cause]:
    slower = like.factor is not None and like.factor >= SLOWER
    if not reasons and not slower:
        return []
    if slower:
        text = (f"Its calls took {words.format_factor(like.factor or 0.0)} as long as in its other "
                f"runs; "
                f"the cause is unknown")
        reasons = reasons or ["no target was slow for a reason that is known, and no fault "
                              "stopped it"]
    else:
        text = f"Cannot tell: {reasons[0]}"
        reasons = reasons[1:]
    return [Cause(UNKNOWN, 0.0, HIGH, None, text, reasons,
                  {"factor": like.factor} if slower else {})]
