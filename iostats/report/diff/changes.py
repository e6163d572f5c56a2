"""
What changed from one job to another: where the bounds of a number do not overlap it has changed, at
least by what lies between them; where they overlap, and are no exact and equal numbers, it cannot
be told.

The comparison of B with A is the mirror of that of A with B: the same rows in the same order.
"""

from __future__ import annotations

from collections import namedtuple
from math import inf, log2, sqrt

from iostats.report.diff.numbers import AMOUNTS, REQUESTS_TO, Bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.report.advice.finding import Finding
    from iostats.report.diff.numbers import JobNumbers

ROSE, FELL, OPEN = "rose", "fell", "cannot be told"

NumberChange = namedtuple("NumberChange", "file_system metric kind a b direction ratio "
                          "per_node_hour score")
NumberChange.__doc__ = """
A number that is not the same in both, or of which that cannot be told.

Attributes:
    file_system: as Lustre calls it; "" where it is about the whole job.
    kind: numbers.BYTES, ...
    a, b: Bounds.
    direction: ROSE or FELL from a to b, or OPEN.
    ratio: (least, most) of b / a; most may be inf, as of what was 0.  For FELL it is below 1.
    per_node_hour: the same of both by the hours of their nodes; None where that says no more, or
        is not known.
    score: how much it matters; the highest first.
"""

JobComparison = namedtuple("JobComparison", "a b changes open_ones same unknown only_in "
                        "perhaps_only_in findings is_by_node_hour")
JobComparison.__doc__ = """
Attributes:
    a, b: JobNumbers.
    changes: [NumberChange] that rose or fell, those that matter most first.
    open_ones: [NumberChange] that cannot be told.
    same: how many numbers that are not 0 are the same in both.
    unknown: [(file system, layer, "a" or "b")]: what is known of the other one alone.
    only_in: {"a": [...], "b": [...]}: file systems that one of them alone has used.
    perhaps_only_in: the same, where nodes of the other one are missing, which may have used them.
    findings: {"gone": [Finding], "new": [Finding], "perhaps_gone": ..., "perhaps_new": ...}, where
        the other one's numbers may be too low, or too high, to tell; None where they are not known
        of both.
    is_by_node_hour: nodes or times differ, so that amounts also stand by node-hours.
"""

_ALIKE = 1.1                    # a change by less than this factor is a small one
_LITTLE = 0.02                  # so is one with a score below this
_MOST_LOG = 10.0


def compared(a: JobNumbers, b: JobNumbers, of_a: Sequence[Finding] | None = None,
             of_b: Sequence[Finding] | None = None) -> JobComparison:
    """What changed from `a` to `b`; `of_a`, `of_b`: their findings, where these are known."""
    in_a, in_b = _used(a), _used(b)
    only = {side: [] if there.facts["short"] else sorted(used - set(there.file_systems))
            for side, used, there in (("a", in_a, b), ("b", in_b, a))}
    one_mdt = {name for name in a.file_systems
               if len(_mdts(a, name)) == 1 and _mdts(a, name) == _mdts(b, name)}
    by_hour = _differ(a, b)
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
        one, other = _of(a, key), _of(b, key)
        if one is None or other is None:
            continue
        if one[:2] == other[:2] and (one.low == one.high or is_same_job):
            same += one.low != 0
            continue
        change = _change(key, one, other, hours)
        (open_ones if change.direction == OPEN else changes).append(change)
    unknown = sorted((name, layer, side) for side, here, there in (("a", a, b), ("b", b, a))
                     for name, layer in here.unknown - there.unknown
                     if name in there.file_systems)
    sure = {side: only[side] if _is_whole(there) else [] for side, there in (("a", b), ("b", a))}
    return JobComparison(
        a, b, sorted(changes, key=_order), sorted(open_ones, key=_order), same, unknown, sure,
        {side: [one for one in only[side] if one not in sure[side]] for side in only},
        _findings(a, b, of_a, of_b) if of_a is not None and of_b is not None else None, by_hour)


def is_small(change: NumberChange) -> bool:
    """Whether it is shown with --all alone."""
    least, most = change.ratio
    return bool(change.score < _LITTLE or (
        1 / _ALIKE < least < _ALIKE and 1 / _ALIKE < most < _ALIKE))


def _order(change: NumberChange) -> tuple[float, str, str]:
    return -float(change.score), change.file_system, change.metric


def _used(one: JobNumbers) -> set[str]:
    """File systems on which something was done, as far as is known."""
    return {name for (name, _), bounds in one.numbers.items() if name and bounds.low > 0}


def _mdts(one: JobNumbers, file_system: str) -> set[str]:
    return {metric for name, metric in one.numbers
            if name == file_system and metric.startswith(REQUESTS_TO)}


def _differ(a: JobNumbers, b: JobNumbers) -> bool:
    """Whether nodes differ, or times by more than a tenth."""
    if a.facts["nodes"] != b.facts["nodes"]:
        return True
    times = a.facts["elapsed_s"], b.facts["elapsed_s"]
    if None in times or 0 in times:
        return bool(times[0] != times[1])
    return bool(max(times) / min(times) > _ALIKE)


def _of(one: JobNumbers, key: tuple[str, str]) -> Bounds | None:
    """A number; 0 of an operation that has not happened, where all operations are known."""
    found: Bounds | None = one.numbers.get(key)
    if found is None:
        found = one.absent.get((key[0], key[1].partition(" ")[0]))
    return found


def _change(key: tuple[str, str], a: Bounds, b: Bounds, hours: float | None) -> NumberChange:
    rose, fell = b.low > a.high, b.high < a.low
    ratio = _by(b.low, a.high), _by(b.high, a.low)
    # The same division for the mirror, which has to have the same order.
    times = _by(b.low, a.high) if rose else _by(a.low, b.high) if fell else 2.0
    size = min(_MOST_LOG, log2(times)) if times < inf else _MOST_LOG
    by_hour = None
    if hours is not None and a.kind in AMOUNTS and key[0]:
        by_hour = ratio[0] * hours, ratio[1] * hours
    return NumberChange(*key, a.kind, a, b, ROSE if rose else FELL if fell else OPEN, ratio,
                        by_hour, size * sqrt(max(a.weight, b.weight)))


def _by(number: float, other: float) -> float:
    """number / other, which may be 0, or inf."""
    if other == inf or number == 0:
        return 0.0
    return number / other if other else inf


def _findings(a: JobNumbers, b: JobNumbers, of_a: Sequence[Finding],
              of_b: Sequence[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {"gone": [], "new": [], "perhaps_gone": [], "perhaps_new": []}
    for what, here, there, other in (("gone", of_a, of_b, b), ("new", of_b, of_a, a)):
        known = {(one.id, one.file_system) for one in there}
        for one in here:
            if (one.id, one.file_system) not in known:
                sure = _is_exact(other, one.file_system)
                found[what if sure else f"perhaps_{what}"].append(one)
    return found


def _is_whole(one: JobNumbers) -> bool:
    """Whether all its nodes have reported, as far as is known."""
    return bool(one.facts["reported"] in (None, one.facts["nodes"]))


def _is_exact(one: JobNumbers, file_system: str) -> bool:
    """Whether a rule that does not hold of a file system is known not to: no number is a bound."""
    return _is_whole(one) and not one.facts["shared_nodes"] and all(
        bounds.low == bounds.high for (name, _), bounds in one.numbers.items()
        if name in ("", file_system))
