"""
A comparison for people, and for programs.
"""

from __future__ import annotations

import json
from math import inf, isfinite

from iostats.base.units import (
    between_text,
    bytes_text,
    count_text,
    brief_seconds,
    duration_text,
    share_text,
)
from iostats.base.text import cut
from iostats.report.advice.finding import as_form
from iostats.report.blocks import NAME, NUMBER, TEXT, Block, drawn, width_of_rows
from iostats.report.diff.changes import is_small
from iostats.report.diff.numbers import (
    AMOUNTS,
    BYTES,
    COUNT,
    ELAPSED,
    MEAN_BYTES,
    SHARE,
)
from iostats.report.screen import finished
from iostats.report.text_table import with_legend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.report.diff.changes import NumberChange, JobComparison
    from iostats.report.diff.numbers import Bounds, JobNumbers
    from iostats.report.screen import Screen

_MOST_SHOWN, _MOST_OPEN = 20, 8         # without --all
_WIDEST_NAME = 16                       # of a job, above a column
_WIDEST_IN_SENTENCE = 40
_LAYERS = {"application": "what programs read and wrote is",
           "network": "what went over the network is", "operations": "operations are"}


def as_text(found: JobComparison, units: str, screen: Screen, show_all: bool = False) -> str:
    """The comparison, ending with a newline; `units` as in [report]."""
    a, b = found.a, found.b
    parts = [*(_about(one) for one in (a, b))]
    shown = found.changes if show_all else [
        one for one in found.changes if not is_small(one)][:_MOST_SHOWN]
    left = len(found.changes) - len(shown)
    if shown:
        parts += drawn(_tables(f"From {_short(a)} to {_short(b)}", shown, found, units, screen),
                       screen)
    if left:
        parts.append(f"{'and ' if shown else ''}"
                     + count_text(left, "smaller change" if shown else "small change")
                     + f" (--all shows {'them' if left > 1 else 'it'})")
    if not found.changes:
        parts.append("No difference" + (" that is certain" if found.open_ones or found.unknown
                                        else "") + ".")
    parts += _by_node_hours(found, shown)
    parts += _not_told(found, units, screen, show_all)
    parts += [f"{cut(_label(found, name), _WIDEST_IN_SENTENCE)}: {_LAYERS[layer]} known of "
              f"{_short(b if side == 'a' else a)} alone" for name, layer, side in found.unknown]
    parts += [_only(one, name, units) for side, one in (("a", a), ("b", b))
              for name in found.only_in[side]]
    parts += [_only(one, name, units, other) for side, one, other in (("a", a, b), ("b", b, a))
              for name in found.perhaps_only_in[side]]
    if found.same:
        parts.append(f"The same in both: {count_text(found.same, 'number')}.")
    parts += _findings(found)
    parts += [f"note: {_short(one)}: other jobs were on {one.facts['shared_nodes']} of its nodes: "
              f"the numbers are the nodes', not this job's alone"
              for one in (a, b) if one.facts["shared_nodes"]]
    parts += [f"note: {_short(one)}: {note}" for one in (a, b) for note in one.facts["notes"]]
    parts += [f"note: {_short(one)}: its record is the short form from the accounting, which has "
              f"fewer numbers" for one in (a, b) if one.facts["short"]]
    parts += [f"note: {_short(one)}: not compared, as this release of iostats does not know it: "
              f"{', '.join(one.not_compared[:8])}"
              + (f" and {len(one.not_compared) - 8} more" if len(one.not_compared) > 8 else "")
              for one in (a, b) if one.not_compared]
    return "\n".join(finished(with_legend(parts), screen)) + "\n"


def _about(one: JobNumbers) -> str:
    facts = one.facts
    words = [facts["user"]] if facts["user"] else []
    if facts["nodes"] is not None:
        reported = facts["reported"]
        words.append((f"{reported} of " if reported not in (None, facts["nodes"]) else "")
                     + count_text(facts["nodes"], "node"))
    if facts["elapsed_s"] is not None:
        words.append(_time(facts["elapsed_s"]))
    job = f"job {facts['job']}" if facts["job"] and facts["job"] not in one.name else ""
    return f"{_short(one)}: {', '.join(filter(None, [job, *words]))}"


def _tables(title: str, shown: Sequence[NumberChange], found: JobComparison, units: str,
            screen: Screen) -> list[Block]:
    """The changes; those by node-hour in a table of their own, where there is no room beside."""
    several = len({one.file_system for one in shown if one.file_system}) > 1
    by_hour = any(one.per_node_hour for one in shown)
    a, b = (cut(one.name, _WIDEST_NAME) for one in (found.a, found.b))
    headings = [title, *["on"] * several, a, b, "change",
                *["per node-hour"] * by_hour]
    kinds = [NAME, *[TEXT] * several, NUMBER, NUMBER, NUMBER, *[NUMBER] * by_hour]
    rows = [(f"  {one.metric}", *[_label(found, one.file_system)] * several,
             bounds_text(one.a, one.metric, units), bounds_text(one.b, one.metric, units),
             ratio_text(*one.ratio),
             *[ratio_text(*one.per_node_hour) if one.per_node_hour else ""] * by_hour)
            for one in shown]
    block = Block(headings, kinds, rows)
    if not by_hour or width_of_rows(block) <= screen.width:
        return [block]
    return [Block(headings[:-1], kinds[:-1], [row[:-1] for row in rows]),
            Block(["Per node-hour", *headings[1:1 + several], "change"],
                  [*kinds[:1 + several], NUMBER],
                  [(*row[:1 + several], row[-1]) for row in rows if row[-1]])]


def _short(one: JobNumbers) -> str:
    """Its name in a sentence."""
    return cut(one.name, _WIDEST_IN_SENTENCE)


def _label(found: JobComparison, name: str) -> str:
    label: str = found.b.file_systems.get(name) or found.a.file_systems.get(name, name)
    return label


def _by_node_hours(found: JobComparison, shown: Sequence[NumberChange]) -> list[str]:
    if not found.is_by_node_hour or not any(one.kind in AMOUNTS and one.file_system
                                            for one in shown):
        return []
    unknown = [_short(one) for one in (found.a, found.b) if not one.node_hours]
    if unknown:
        return [f"Nodes or times differ; amounts by node-hour are not known of "
                f"{' and '.join(unknown)}."]
    hours = [f"{brief_seconds(one.node_hours * 3600)} of {_short(one)}"
             for one in (found.a, found.b)]
    return [f"Nodes or times differ: per node-hour are amounts by the time of all nodes "
            f"({', '.join(hours)})."]


def _not_told(found: JobComparison, units: str, screen: Screen, show_all: bool) -> list[str]:
    rows = found.open_ones if show_all else found.open_ones[:_MOST_OPEN]
    if not rows:
        return []
    a, b = (cut(one.name, _WIDEST_NAME) for one in (found.a, found.b))
    several = len({one.file_system for one in rows if one.file_system}) > 1
    block = Block(["Cannot be told, as >= may be more", *["on"] * several, a, b],
                  [NAME, *[TEXT] * several, NUMBER, NUMBER],
                  [(f"  {one.metric}", *[_label(found, one.file_system)] * several,
                    bounds_text(one.a, one.metric, units), bounds_text(one.b, one.metric, units))
                   for one in rows])
    left = len(found.open_ones) - len(rows)
    return [*drawn([block], screen), *([f"and {left} more (--all shows them)"] if left else [])]


def _only(one: JobNumbers, name: str, units: str, other: JobNumbers | None = None) -> str:
    """
    What a job did on a file system that the other one has not seen; `other`: some of whose nodes
    are missing.
    """
    words = [f"{bounds_text(one.numbers[name, metric], metric, units)} {metric.split()[1]}"
             for metric in ("bytes read", "bytes written")
             if (name, metric) in one.numbers and one.numbers[name, metric].high > 0]
    calls = [bounds for (of, metric), bounds in one.numbers.items()
             if of == name and metric.startswith("calls of ")]
    if calls:
        low = sum(bounds.low for bounds in calls)
        words.append(f"{'>= ' if any(bounds.high == inf for bounds in calls) else ''}"
                     f"{count_text(low, 'operation')}")
    alone = "alone" if other is None else (
        f"and not by those nodes of {_short(other)} that are known")
    return (f"{cut(one.file_systems[name], _WIDEST_IN_SENTENCE)}: used by {_short(one)} {alone}: "
            f"{', '.join(words) or '-'}")


def _findings(found: JobComparison) -> list[str]:
    if found.findings is None:
        return []
    lines = []
    for what, of in (("gone", found.a), ("new", found.b), ("perhaps_gone", found.a),
                     ("perhaps_new", found.b)):
        words = what.replace("_", " ")
        lines += [f"Finding {words}: {one.file_system + ': ' if one.file_system else ''}"
                  f"{one.number} ({one.id}, {_short(of)})" for one in found.findings[what]]
    return lines


# -- numbers ---------------------------------------------------------------------------------------

def bounds_text(bounds: Bounds, metric: str, units: str) -> str:
    """
    A number, a lower bound, or a range.

    >>> from iostats.report.diff.numbers import Bounds
    >>> [bounds_text(Bounds(low, high, "bytes"), "", "binary")
    ...  for low, high in ((23, 23), (2048, inf), (0, 2048), (2048, 4096))]
    ['23 B', '>= 2.00 KiB', '<= 2.00 KiB', '2.00-4.00 KiB']
    """
    low, high = (_amount(number, bounds.kind, metric, units) if number < inf else ""
                 for number in bounds[:2])
    if bounds.low == bounds.high:
        return low
    if not bounds.low and bounds.high == inf:
        return "-" if bounds.kind not in (BYTES, COUNT) else f">= {low}"
    if not bounds.low:
        return f"<= {high}"
    return f">= {low}" if bounds.high == inf else between_text(low, high)


def _amount(number: float, kind: str, metric: str, units: str) -> str:
    if kind in (BYTES, MEAN_BYTES):
        return bytes_text(number, units)
    if kind == COUNT:
        return count_text(round(number))
    return _time(number) if metric == ELAPSED else (
        share_text(number) if kind == SHARE else brief_seconds(number))


def _time(seconds: float) -> str:
    return duration_text(seconds) if seconds >= 60 and seconds < 1e9 else brief_seconds(seconds)


def ratio_text(least: float, most: float) -> str:
    """
    By how much a number changed, between two bounds.

    >>> ratio_text(3.14, 3.14), ratio_text(3.14, inf), ratio_text(0.2, 0.25), ratio_text(0, 0.2)
    ('3.14x', '>= 3.14x', '1/5 to 1/4', '<= 1/5')
    >>> ratio_text(1.123, 1.123), ratio_text(0.92, 0.92), ratio_text(inf, inf), ratio_text(0, 0)
    ('1.12x', '1/1.09', 'from 0', 'to 0')
    """
    first, last = _factor(least), _factor(most)
    if first == last:
        return first
    if most == inf:
        return f">= {first}"
    return f"<= {last}" if least == 0 else f"{first} to {last}"


def _factor(ratio: float) -> str:
    if ratio == 0 or ratio == inf:
        return "from 0" if ratio else "to 0"
    return f"{_digits(ratio)}x" if ratio >= 1 else f"1/{_digits(1 / ratio)}"


def _digits(number: float) -> str:
    if number >= 99.5:
        return count_text(round(number)) if isfinite(number) else "inf"
    return f"{number:.3g}"


# -- for programs ----------------------------------------------------------------------------------

def as_json(found: JobComparison) -> str:
    """The comparison as indented JSON, ending with a newline; bounds that are not known null."""
    def change(one: NumberChange) -> dict[str, Any]:
        return {"file_system": one.file_system, "metric": one.metric, "unit": one.kind,
                "a": _pair(one.a), "b": _pair(one.b), "change": one.direction,
                "ratio": _pair(one.ratio),
                "per_node_hour": one.per_node_hour and _pair(one.per_node_hour),
                "small": is_small(one)}
    form = {
        **{side: {"name": one.name, **one.facts, "node_hours": one.node_hours,
                  "not_compared": one.not_compared}
           for side, one in (("a", found.a), ("b", found.b))},
        "changes": list(map(change, found.changes)),
        "cannot_be_told": [{**change(one), "ratio": None, "per_node_hour": None}
                           for one in found.open_ones],
        "known_of_one": [{"file_system": name, "layer": layer, "known_of": "b" if side == "a"
                          else "a"} for name, layer, side in found.unknown],
        "only_in": found.only_in, "perhaps_only_in": found.perhaps_only_in, "same": found.same,
        "findings": found.findings and {what: list(map(as_form, several))
                                        for what, several in found.findings.items()}}
    return json.dumps(form, indent=2) + "\n"


def _pair(bounds: Sequence[float]) -> dict[str, float | None]:
    return {name: number if isfinite(number) else None
            for name, number in zip(("low", "high"), bounds)}
