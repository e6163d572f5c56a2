"""The sources of a job's numbers, the missing ones, and the reasons: no data is no proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_percent

if TYPE_CHECKING:
    from iostats.load.time_lines import JobHistory, Line
    from iostats.report.why.time_in_lustre import TimeInLustre
    from iostats.totals.record import Record


class KnownFrom(NamedTuple):
    there: list[str]                # [text], each a source with data of the job
    missing: list[tuple[str, str]]  # [(source, why it tells nothing)]


NODES, WATCH, HARVEST, EXPORTS, EVENTS = (
    "its nodes", "watch", "job_stats over time", "exports", "events")
_OF_HISTORY = {"harvest": HARVEST, "exports": EXPORTS, "events": EVENTS, "watch": WATCH}
_NOT_SAID = "no data on the site's server"
_NO_LINES = "the site's server keeps no time lines of this job"
MOSTLY = 0.8                        # of the job's time: as much as is to be known of it


def list_sources(record: Record, history: JobHistory | None, why_no_history: str = "") -> KnownFrom:
    """List the sources that a job is known from; `why_no_history`: as of find_causes."""
    there, missing = [], []
    if record.coverage.reported:
        there.append(NODES)
    else:
        missing.append((NODES, "no node has reported"))
    if any(fs.series for fs in record.file_systems) or "watch" in (history.has if history else ()):
        there.append(WATCH)
    else:
        missing.append((WATCH, "no data"))
    if history is None:
        missing.append((HARVEST, why_no_history or _NO_LINES))
    else:
        for name in ("harvest", "exports"):
            (there.append(_OF_HISTORY[name]) if name in history.has else missing.append(
                (_OF_HISTORY[name], history.why_not.get(name) or _NOT_SAID)))
    if record.events is not None or "events" in (history.has if history else ()):
        there.append(EVENTS)
    else:
        missing.append((EVENTS, "not collected"))
    return KnownFrom(there, missing)


def explain_unknown_time(record: Record, history: JobHistory | None, time: TimeInLustre,
                         known_targets: int, elapsed_s: float | None,
                         why_no_history: str) -> list[str]:
    """Return [reason] why the use of the job's time is unknown; [] where it is known."""
    reasons = []
    if time.why_not:
        reasons.append(f"its time in Lustre is unknown: {time.why_not}")
    if history is None or "harvest" not in history.has:
        why = (history.why_not.get("harvest") if history else why_no_history) or _NO_LINES
        reasons.append(f"whether a target was busy is unknown: {why}")
    elif not known_targets:
        reasons.append("whether a target was busy is unknown: " + _explain_no_target(history))
    else:
        known_share = _compute_known_part(history, elapsed_s)
        if known_share < MOSTLY:
            reasons.append(
                f"whether a target was busy is known for {format_percent(known_share)} of its "
                           f"time only")
        reasons += _explain_missing_lines(record, history, time)
    if record.events is None:
        reasons.append("whether something broke is unknown: events were not collected")
    return reasons


def _explain_no_target(history: JobHistory) -> str:
    lines = [target.job for target in history.targets if target.job is not None]
    if not any(any(amounts) for line in lines for amounts in line.amounts.values()):
        return "no sweep of the storage servers saw its requests while it ran"
    if not any(any(line.amounts.get("timed", ())) for line in lines):
        return "the storage servers' counters do not time requests (Lustre servers do since 2.14)"
    return "too few sweeps saw its requests"


def _explain_missing_lines(record: Record, history: JobHistory, time: TimeInLustre) -> list[str]:
    """[reason] for much of its time on file systems, and of its bytes on OSTs, without lines."""
    reasons = []
    names = {item.name for item in history.file_systems}
    targets = {(item.file_system, item.target) for item in history.targets}
    whole_s = sum(seconds for _, seconds in time.by_operation.values())
    for fs in record.file_systems:
        moved = {target: of.get("read_bytes", 0) + of.get("write_bytes", 0)
                 for target, of in fs.targets.items() if target.startswith("OST")}
        known_bytes = sum(moved[target] for target in moved if (fs.name, target) in targets)
        spent_s = sum(seconds for (name, _), (_, seconds) in time.by_operation.items()
                      if name == fs.name)
        if fs.name not in names:
            if spent_s > (1 - MOSTLY) * whole_s:
                reasons.append(f"whether a target of {fs.label} was busy is unknown: no storage "
                               f"server reports it; {format_percent(spent_s / whole_s)} of its "
                               f"time in Lustre was there")
        elif known_bytes < MOSTLY * sum(moved.values()):
            reasons.append(f"whether an OST of {fs.label} was busy is known for " + (
                f"those with {format_percent(known_bytes / sum(moved.values()))} of its bytes only"
                if known_bytes else "none that it used"))
    return reasons


def _compute_known_part(history: JobHistory, elapsed_s: float | None) -> float:
    """The part of the job's run time that these sources cover."""
    lines = [line for line in (*(fs.job for fs in history.file_systems),
                               *(target.job for target in history.targets)) if line is not None]
    known_s = max((line.every_s * _count_known_intervals(line) for line in lines), default=0.0)
    return min(1.0, known_s / elapsed_s) if elapsed_s else 1.0


def _count_known_intervals(line: Line) -> float:
    amounts: list[float | None] = line.amounts.get("requests") or next(
        iter(line.amounts.values()), [])
    shares: list[float] = line.known or [1.0] * len(amounts)
    return sum(share for amount, share in zip(amounts, shares) if amount is not None)
