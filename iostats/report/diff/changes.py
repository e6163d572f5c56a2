"""
Changes from one job to another: where the bounds of a number do not overlap, it changed at least by
the space between them; where they overlap, and are no exact and equal numbers, the change is
unknown.

The comparison of B with A is the mirror of that of A with B: the same rows in the same order.
"""

from __future__ import annotations

from math import inf, log2, sqrt
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.report.diff.numbers import AMOUNTS, OSTS_USED, REQUESTS_TO, Bounds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.report.diff.numbers import JobNumbers
    from iostats.report.findings.finding import Finding

ROSE, FELL, UNCERTAIN = "rose", "fell", "uncertain"


class NumberChange(NamedTuple):
    """A number that differs between the two, or may differ."""

    file_system: str    # as Lustre calls it; "" where it is about the whole job
    metric: str
    kind: str           # numbers.BYTES, ...
    # a, b: Bounds
    a: Bounds
    b: Bounds
    direction: str      # ROSE or FELL from a to b, or OPEN
    # (least, most) of b / a; most may be inf, as of what was 0.  For FELL it is below 1.
    ratio: tuple[float, float]
    # the same of both by the hours of their nodes; None where that says no more, or is not known
    per_node_hour: tuple[float, float] | None
    score: float        # how much it matters; the highest first


class JobComparison(NamedTuple):
    """
    The comparison of two jobs, A and B.

    Attributes:
        a, b: JobNumbers.
        changes: [NumberChange] that rose or fell, those that matter most first.
        uncertain: [NumberChange] that may have changed.
        same: how many numbers that are not 0 are the same in both.
        unknown: [(file system, layer, "a" or "b")]: what is known of the other one alone.
        only_in: {"a": [...], "b": [...]}: file systems that one of them alone has used.
        perhaps_only_in: the same, where nodes of the other one are missing, which may have used
            them.
        findings: those of one of them alone: "resolved" (of A) and "new" (of B); "perhaps_resolved"
            and "perhaps_new" where the other one's numbers are bounds; None where they are not
            known of both.
        is_by_node_hour: nodes or times differ, so that amounts also stand by node-hours.
    """

    a: JobNumbers
    b: JobNumbers
    changes: list[NumberChange]
    uncertain: list[NumberChange]
    same: int
    unknown: list[tuple[str, str, str]]
    only_in: dict[str, list[str]]
    perhaps_only_in: dict[str, list[str]]
    findings: dict[str, list[Any]] | None
    is_by_node_hour: bool


_SAME_HOURS_FACTOR = 1.1        # a change by less than this factor is a small one
_SMALL_SHARE = 0.02             # so is one with a score below this
_MOST_LOG = 10.0


def compare_jobs(a: JobNumbers, b: JobNumbers, of_a: Sequence[Finding] | None = None,
                 of_b: Sequence[Finding] | None = None) -> JobComparison:
    """Compare the numbers of `a` and `b`; `of_a`, `of_b`: their findings, or None if unknown."""
    in_a, in_b = _find_used(a), _find_used(b)
    only = {side: [] if there.facts["short"] else sorted(used - set(there.file_systems))
            for side, used, there in (("a", in_a, b), ("b", in_b, a))}
    one_mdt = {name for name in a.file_systems
               if len(_find_mdts(a, name)) == 1 and _find_mdts(a, name) == _find_mdts(b, name)}
    by_hour = _have_other_hours(a, b)
    hours = (a.node_hours / b.node_hours if by_hour and a.node_hours and b.node_hours else None)
    changes: list[NumberChange] = []
    open_ones: list[NumberChange] = []
    same = 0
    is_same_job = a.facts == b.facts and a.numbers == b.numbers
    for key in sorted({*a.numbers, *b.numbers}):
        name = key[0]
        if name and not (name in a.file_systems and name in b.file_systems):
            continue
        if name in one_mdt and key[1].startswith(REQUESTS_TO):
            continue                        # it is REQUESTS
        before, after = _find_number(a, key), _find_number(b, key)
        if before is None or after is None:
            continue
        if before[:2] == after[:2] and (before.low == before.high or is_same_job):
            same += before.low != 0
            continue
        change = _make_change(key, before, after, hours)
        (open_ones if change.direction == UNCERTAIN else changes).append(change)
    unknown = sorted((name, layer, side) for side, here, there in (("a", a, b), ("b", b, a))
                     for name, layer in here.unknown - there.unknown
                     if name in there.file_systems)
    sure = {side: only[side] if _is_complete(there) else [] for side, there in (("a", b), ("b", a))}
    return JobComparison(
        a, b, sorted(changes, key=_rank_change), sorted(open_ones, key=_rank_change), same, unknown,
        sure,
        {side: [name for name in only[side] if name not in sure[side]] for side in only},
        _compare_findings(a, b, of_a, of_b) if of_a is not None and of_b is not None else None,
        by_hour)


def is_small(change: NumberChange) -> bool:
    """Whether a change is shown only with --all."""
    least, highest = change.ratio
    return bool(change.score < _SMALL_SHARE or (
        1 / _SAME_HOURS_FACTOR < least < _SAME_HOURS_FACTOR
        and 1 / _SAME_HOURS_FACTOR < highest < _SAME_HOURS_FACTOR))


def _rank_change(change: NumberChange) -> tuple[float, str, str]:
    return -float(change.score), change.file_system, change.metric


def _find_used(numbers: JobNumbers) -> set[str]:
    """List the file systems with I/O, as far as known."""
    return {name for (name, _), bounds in numbers.numbers.items() if name and bounds.low > 0}


def _find_mdts(numbers: JobNumbers, file_system: str) -> set[str]:
    return {metric for name, metric in numbers.numbers
            if name == file_system and metric.startswith(REQUESTS_TO)}


def _have_other_hours(a: JobNumbers, b: JobNumbers) -> bool:
    """True if the numbers of nodes differ, or the times by more than a tenth."""
    if a.facts["nodes"] != b.facts["nodes"]:
        return True
    times = a.facts["elapsed_s"], b.facts["elapsed_s"]
    if None in times or 0 in times:
        return bool(times[0] != times[1])
    return bool(max(times) / min(times) > _SAME_HOURS_FACTOR)


def _find_number(numbers: JobNumbers, key: tuple[str, str]) -> Bounds | None:
    """Return a number; 0 for an operation that did not happen, if all operations are known."""
    bounds: Bounds | None = numbers.numbers.get(key)
    if bounds is None:
        bounds = numbers.absent.get((key[0], key[1].partition(" ")[0]))
    return bounds


def _make_change(key: tuple[str, str], a: Bounds, b: Bounds, hours: float | None) -> NumberChange:
    rose, fell = b.low > a.high, b.high < a.low
    ratio = _divide(b.low, a.high), _divide(b.high, a.low)
    # The same division for the mirror, which has to have the same order.
    times = _divide(b.low, a.high) if rose else _divide(a.low, b.high) if fell else 2.0
    size = min(_MOST_LOG, log2(times)) if times < inf else _MOST_LOG
    by_hour = None
    if hours is not None and a.kind in AMOUNTS and key[0] and key[1] != OSTS_USED:
        by_hour = ratio[0] * hours, ratio[1] * hours
    return NumberChange(*key, a.kind, a, b, ROSE if rose else FELL if fell else UNCERTAIN, ratio,
                        by_hour, size * sqrt(max(a.weight, b.weight)))


def _divide(number: float, divisor: float) -> float:
    """Divide; the divisor may be 0, the result infinite."""
    if divisor == inf or number == 0:
        return 0.0
    return number / divisor if divisor else inf


def _compare_findings(a: JobNumbers, b: JobNumbers, of_a: Sequence[Finding],
                      of_b: Sequence[Finding]) -> dict[str, list[Finding]]:
    compared: dict[str, list[Finding]] = {
        "resolved": [], "new": [], "perhaps_resolved": [], "perhaps_new": []}
    for change, here, there, missing_in in (("resolved", of_a, of_b, b), ("new", of_b, of_a, a)):
        findings_there = {(finding.id, finding.file_system) for finding in there}
        for finding in here:
            if (finding.id, finding.file_system) not in findings_there:
                sure = _is_exact(missing_in, finding.file_system)
                compared[change if sure else f"perhaps_{change}"].append(finding)
    return compared


def _is_complete(numbers: JobNumbers) -> bool:
    """Whether all its nodes have reported, as far as is known."""
    return bool(numbers.facts["reported"] in (None, numbers.facts["nodes"]))


def _is_exact(numbers: JobNumbers, file_system: str) -> bool:
    """
    Whether a file system certainly breaks no rule that the other one breaks: no number is a bound.
    """
    return _is_complete(numbers) and not numbers.facts["shared_nodes"] and all(
        bounds.low == bounds.high for (name, _), bounds in numbers.numbers.items()
        if name in ("", file_system))
