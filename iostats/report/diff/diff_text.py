"""
A comparison for people, and for programs.
"""

from __future__ import annotations

import json
from math import inf, isfinite
from typing import TYPE_CHECKING

from iostats.base.text import cut
from iostats.base.units import (
    format_bounds,
    format_bytes,
    format_count,
    format_duration,
    format_seconds,
    format_share,
)
from iostats.report.blocks import NAME, NUMBER, TEXT, Block, draw_blocks, measure_rows
from iostats.report.diff.changes import is_small
from iostats.report.diff.numbers import (
    AMOUNTS,
    BYTES,
    COUNT,
    ELAPSED,
    MEAN_BYTES,
    SHARE,
)
from iostats.report.findings.finding import as_form
from iostats.report.screen import finish_lines
from iostats.report.text_table import add_legend

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iostats.report.diff.changes import JobComparison, NumberChange
    from iostats.report.diff.numbers import Bounds, JobNumbers
    from iostats.report.screen import Screen

_MOST_SHOWN, _MOST_OPEN = 20, 8         # without --all
_WIDEST_NAME = 16                       # of a job, above a column
_WIDEST_IN_SENTENCE = 40
_LAYERS = {"application": "what programs read and wrote is",
           "network": "what went over the network is", "operations": "operations are"}


def format_comparison(comparison: JobComparison, units: str, screen: Screen,
                      show_all: bool = False) -> str:
    """The comparison, ending with a newline; `units` as in [report]."""
    a, b = comparison.a, comparison.b
    parts = [*(_describe_job(item) for item in (a, b))]
    shown = comparison.changes if show_all else [
        change for change in comparison.changes if not is_small(change)][:_MOST_SHOWN]
    left = len(comparison.changes) - len(shown)
    if shown:
        title = f"From {_format_short_name(a)} to {_format_short_name(b)}"
        parts += draw_blocks(_make_tables(title, shown, comparison, units, screen), screen)
    if left:
        parts.append(f"{'and ' if shown else ''}"
                     + format_count(left, "smaller change" if shown else "small change")
                     + f" (--all shows {'them' if left > 1 else 'it'})")
    if not comparison.changes:
        parts.append("No difference"
                     + (" that is certain" if comparison.uncertain or comparison.unknown
                                        else "") + ".")
    parts += _explain_node_hours(comparison, shown)
    parts += _list_uncertain(comparison, units, screen, show_all)
    parts += [
        f"{cut(_find_label(comparison, name), _WIDEST_IN_SENTENCE)}: {_LAYERS[layer]} known of "
        f"{_format_short_name(b if side == 'a' else a)} alone" for name, layer,
        side in comparison.unknown]
    parts += [_describe_only_in(item, name, units) for side, item in (("a", a), ("b", b))
              for name in comparison.only_in[side]]
    parts += [_describe_only_in(item, name, units, opposite) for side, item,
              opposite in (("a", a, b), ("b", b, a))
              for name in comparison.perhaps_only_in[side]]
    if comparison.same:
        parts.append(f"The same in both: {format_count(comparison.same, 'number')}.")
    parts += _format_findings(comparison)
    parts += [f"note: {_format_short_name(item)}: other jobs were on {item.facts['shared_nodes']} "
              f"of its nodes: "
              f"the numbers are the nodes', not this job's alone"
              for item in (a, b) if item.facts["shared_nodes"]]
    parts += [f"note: {_format_short_name(item)}: {note}" for item in (a, b)
              for note in item.facts["notes"]]
    parts += [f"note: {_format_short_name(item)}: its record is the short form from the "
              f"accounting, which has "
              f"fewer numbers" for item in (a, b) if item.facts["short"]]
    parts += [f"note: {_format_short_name(item)}: not compared, as this release of iostats does "
              f"not know it: "
              f"{', '.join(item.not_compared[:8])}"
              + (f" and {len(item.not_compared) - 8} more" if len(item.not_compared) > 8 else "")
              for item in (a, b) if item.not_compared]
    return "\n".join(finish_lines(add_legend(parts), screen)) + "\n"


def _describe_job(numbers: JobNumbers) -> str:
    facts = numbers.facts
    words = [facts["user"]] if facts["user"] else []
    if facts["nodes"] is not None:
        reported = facts["reported"]
        words.append((f"{reported} of " if reported not in (None, facts["nodes"]) else "")
                     + format_count(facts["nodes"], "node"))
    if facts["elapsed_s"] is not None:
        words.append(_format_time(facts["elapsed_s"]))
    job = f"job {facts['job']}" if facts["job"] and facts["job"] not in numbers.name else ""
    return f"{_format_short_name(numbers)}: {', '.join(filter(None, [job, *words]))}"


def _make_tables(title: str, shown: Sequence[NumberChange], comparison: JobComparison, units: str,
                 screen: Screen) -> list[Block]:
    """Make the tables of changes; changes per node-hour have their own table on narrow screens."""
    several = len({change.file_system for change in shown if change.file_system}) > 1
    by_hour = any(change.per_node_hour for change in shown)
    a, b = (cut(job.name, _WIDEST_NAME) for job in (comparison.a, comparison.b))
    headings = [title, *["on"] * several, a, b, "change",
                *["per node-hour"] * by_hour]
    kinds = [NAME, *[TEXT] * several, NUMBER, NUMBER, NUMBER, *[NUMBER] * by_hour]
    rows = [(f"  {change.metric}", *[_find_label(comparison, change.file_system)] * several,
             describe_bounds(change.a, change.metric, units),
             describe_bounds(change.b, change.metric, units),
             format_ratio(*change.ratio),
             *[format_ratio(*change.per_node_hour) if change.per_node_hour else ""] * by_hour)
            for change in shown]
    block = Block(headings, kinds, rows)
    if not by_hour or measure_rows(block) <= screen.width:
        return [block]
    return [Block(headings[:-1], kinds[:-1], [row[:-1] for row in rows]),
            Block(["Per node-hour", *headings[1:1 + several], "change"],
                  [*kinds[:1 + several], NUMBER],
                  [(*row[:1 + several], row[-1]) for row in rows if row[-1]])]


def _format_short_name(numbers: JobNumbers) -> str:
    """Shorten a job's name for a sentence."""
    return cut(numbers.name, _WIDEST_IN_SENTENCE)


def _find_label(comparison: JobComparison, name: str) -> str:
    label: str = comparison.b.file_systems.get(name) or comparison.a.file_systems.get(name, name)
    return label


def _explain_node_hours(comparison: JobComparison, shown: Sequence[NumberChange]) -> list[str]:
    if not comparison.is_by_node_hour or not any(item.kind in AMOUNTS and item.file_system
                                                 for item in shown):
        return []
    unknown = [_format_short_name(item) for item in (comparison.a, comparison.b)
               if not item.node_hours]
    if unknown:
        return [f"Nodes or times differ; amounts by node-hour are unknown for "
                f"{' and '.join(unknown)}."]
    hours = [f"{format_seconds((item.node_hours or 0.0) * 3600)} of {_format_short_name(item)}"
             for item in (comparison.a, comparison.b)]
    return [f"Nodes or times differ: per node-hour are amounts by the time of all nodes "
            f"({', '.join(hours)})."]


def _list_uncertain(comparison: JobComparison, units: str, screen: Screen,
                    show_all: bool) -> list[str]:
    rows = comparison.uncertain if show_all else comparison.uncertain[:_MOST_OPEN]
    if not rows:
        return []
    a, b = (cut(job.name, _WIDEST_NAME) for job in (comparison.a, comparison.b))
    several = len({change.file_system for change in rows if change.file_system}) > 1
    block = Block(["Uncertain, since a number with >= may be larger", *["on"] * several, a, b],
                  [NAME, *[TEXT] * several, NUMBER, NUMBER],
                  [(f"  {change.metric}", *[_find_label(comparison, change.file_system)] * several,
                    describe_bounds(change.a, change.metric, units),
                    describe_bounds(change.b, change.metric, units))
                   for change in rows])
    left = len(comparison.uncertain) - len(rows)
    return [*draw_blocks([block], screen),
            *([f"and {left} more (--all shows them)"] if left else [])]


def _describe_only_in(numbers: JobNumbers, name: str, units: str,
                      incomplete_job: JobNumbers | None = None) -> str:
    """
    Describe a job's I/O on a file system that only this job used; `incomplete_job`: the other job,
    if nodes of it are missing.
    """
    words = [f"{describe_bounds(numbers.numbers[name, metric], metric, units)} {metric.split()[1]}"
             for metric in ("bytes read", "bytes written")
             if (name, metric) in numbers.numbers and numbers.numbers[name, metric].high > 0]
    calls = [bounds for (of, metric), bounds in numbers.numbers.items()
             if of == name and metric.startswith("calls of ")]
    if calls:
        low = sum(bounds.low for bounds in calls)
        words.append(f"{'>= ' if any(bounds.high == inf for bounds in calls) else ''}"
                     f"{format_count(int(low), 'operation')}")
    alone = "alone" if incomplete_job is None else (
        f"and not by those nodes of {_format_short_name(incomplete_job)} that are known")
    return (f"{cut(numbers.file_systems[name], _WIDEST_IN_SENTENCE)}: used by "
            f"{_format_short_name(numbers)} {alone}: "
            f"{', '.join(words) or '-'}")


def _format_findings(comparison: JobComparison) -> list[str]:
    if comparison.findings is None:
        return []
    lines = []
    for kind, of in (("resolved", comparison.a), ("new", comparison.b),
                     ("perhaps_resolved", comparison.a),
                     ("perhaps_new", comparison.b)):
        words = kind.replace("_", " ")
        lines += [f"Finding {words}: {finding.file_system + ': ' if finding.file_system else ''}"
                  f"{finding.number} ({finding.id}, {_format_short_name(of)})"
                  for finding in comparison.findings[kind]]
    return lines


# -- numbers ---------------------------------------------------------------------------------------

def describe_bounds(bounds: Bounds, metric: str, units: str) -> str:
    """
    A number, a lower bound, or a range.

    >>> from iostats.report.diff.numbers import Bounds
    >>> [describe_bounds(Bounds(low, high, "bytes"), "", "binary")
    ...  for low, high in ((23, 23), (2048, inf), (0, 2048), (2048, 4096))]
    ['23 bytes', '>= 2.0 KiB', '<= 2.0 KiB', '2.0-4.0 KiB']
    """
    low, high = (_format_amount(number, bounds.kind, metric, units) if number < inf else ""
                 for number in bounds[:2])
    if bounds.low == bounds.high:
        return low
    if not bounds.low and bounds.high == inf:
        return "-" if bounds.kind not in (BYTES, COUNT) else f">= {low}"
    if not bounds.low:
        return f"<= {high}"
    return f">= {low}" if bounds.high == inf else format_bounds(low, high)


def _format_amount(number: float, kind: str, metric: str, units: str) -> str:
    if kind in (BYTES, MEAN_BYTES):
        return format_bytes(number, units)
    if kind == COUNT:
        return format_count(round(number))
    return _format_time(number) if metric == ELAPSED else (
        format_share(number) if kind == SHARE else format_seconds(number))


def _format_time(seconds: float) -> str:
    return format_duration(seconds) if seconds >= 60 and seconds < 1e9 else format_seconds(seconds)


def format_ratio(least: float, highest: float) -> str:
    """Format the factor by which a number changed, with its bounds.

    >>> [format_ratio(least, most)
    ...  for least, most in ((3.14, 3.14), (3.14, inf), (0.2, 0.25), (0, 0.2))]
    ['3.14x', '>= 3.14x', '1/5 to 1/4', '<= 1/5']
    >>> [format_ratio(ratio, ratio) for ratio in (1.123, 0.92, inf, 0)]
    ['1.12x', '1/1.09', 'from 0', 'to 0']
    """
    first, last = _format_factor(least), _format_factor(highest)
    if first == last:
        return first
    if highest == inf:
        return f">= {first}"
    return f"<= {last}" if least == 0 else f"{first} to {last}"


def _format_factor(ratio: float) -> str:
    if ratio == 0 or ratio == inf:
        return "from 0" if ratio else "to 0"
    return f"{_format_digits(ratio)}x" if ratio >= 1 else f"1/{_format_digits(1 / ratio)}"


def _format_digits(number: float) -> str:
    if number >= 99.5:
        return format_count(round(number)) if isfinite(number) else "inf"
    return f"{number:.3g}"


# -- for programs ----------------------------------------------------------------------------------

def format_json(comparison: JobComparison) -> str:
    """Format the comparison as indented JSON, ending with a newline; unknown bounds are null."""
    def change(row: NumberChange) -> dict[str, Any]:
        return {"file_system": row.file_system, "metric": row.metric, "unit": row.kind,
                "a": _make_pair(row.a[:2]), "b": _make_pair(row.b[:2]), "change": row.direction,
                "ratio": _make_pair(row.ratio),
                "per_node_hour": row.per_node_hour and _make_pair(row.per_node_hour),
                "small": is_small(row)}
    form = {
        **{side: {"name": item.name, **item.facts, "node_hours": item.node_hours,
                  "not_compared": item.not_compared}
           for side, item in (("a", comparison.a), ("b", comparison.b))},
        "changes": list(map(change, comparison.changes)),
        "cannot_be_told": [{**change(item), "ratio": None, "per_node_hour": None}
                           for item in comparison.uncertain],
        "known_of_one": [{"file_system": name, "layer": layer, "known_of": "b" if side == "a"
                          else "a"} for name, layer, side in comparison.unknown],
        "only_in": comparison.only_in, "perhaps_only_in": comparison.perhaps_only_in,
        "same": comparison.same,
        "findings": comparison.findings and {kind: list(map(as_form, several))
                                             for kind, several in comparison.findings.items()}}
    return json.dumps(form, indent=2) + "\n"


def _make_pair(bounds: Sequence[float]) -> dict[str, float | None]:
    return {name: number if isfinite(number) else None
            for name, number in zip(("low", "high"), bounds)}
