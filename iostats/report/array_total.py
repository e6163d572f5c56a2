"""
The records of an array's tasks, or of a heterogeneous job's components, as one.

Tasks that were on a node at the same time have each the whole node's numbers, so the sum of tasks
that shared a node with anybody is an upper bound.
"""

from __future__ import annotations

from collections import Counter

from iostats.base.errors import one_line
from iostats.base.units import amount_text, count_text, range_text
from iostats.lustre.metrics import operations_in
from iostats.report import coverage, event_tables, outliers
from iostats.report.advice import block
from iostats.report.why.causes import judgement_of
from iostats.report.blocks import FILE_SYSTEM
from iostats.report.job_numbers import bounds_of
from iostats.report.screen import MARKDOWN, finished
from iostats.report.text_table import table, with_legend
from iostats.totals import bounds
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iostats.report.advice.finding import Finding
    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord

_NUMBERS = ("read_bytes", "write_bytes", "operations")


def whole_of(forms: Sequence[Mapping[str, Any]], job: str) -> bool:
    """Whether these records are of parts, more than one, of what is `job` as a whole."""
    records = list(map(Record.of, forms))
    return len(records) > 1 and all(
        job in (record.batch.array_job, record.batch.het_job) if record.batch
        else False for record in records)


def as_text(job: str, parts: Sequence[Mapping[str, Any]], config: Any, screen: Screen,
            others: str) -> str:
    """
    The total of the records of `parts`, what the reports of several have, and those that stand out;
    `others`: what is known of those without a record.
    """
    records = list(map(Record.of, parts))
    units = config["report.units"]
    states = Counter(map(_state, records))
    shared = sum(map(_is_shared, records))
    lacking = sum(not record.coverage.reported for record in records)
    is_array = bool(records[0].batch and records[0].batch.array_job)
    kind = "task" if is_array else "component"
    lines = [coverage.named(f"{'Array' if is_array else 'Job'} {job}", records[0])
             + f": {count_text(len(records), kind)} ("
             + ", ".join(f"{count:,} {word}" for word, count in sorted(states.items())) + ")"
             + (f"; {others}" if others else "")]
    wanted = config["report.file_systems"]
    names = {fs.name: fs.label for record in records for fs in record.file_systems}
    rows = []
    for name in [one for one in wanted if one in names] or sorted(names):
        sums = [_sum(records, name, number, bool(shared), bool(lacking or others))
                for number in _NUMBERS]
        rows.append((names[name], *("-" if value is None else
                                    mark + amount_text(number, value, units)
                                    for number, (value, mark) in zip(_NUMBERS, sums))))
    if rows:
        lines.append(table((FILE_SYSTEM, "File Read", "File Write", "Operations"), rows, screen,
                           ("left", "left", "left", "right")))
    elif lacking == len(records):
        lines += _by_node(records, bool(others), config, screen)
    lines += _findings(records, config, screen, kind)
    lines += outliers.lines(records, states.most_common(1)[0][0], screen, units, kind)
    lines += event_tables.total(records, f"{kind}s")
    if shared:
        lines.append(f"note: other jobs were on nodes of {count_text(shared, kind)}, each of which "
                     f"has the whole node's numbers: the true total may be lower")
    if lacking:
        lines.append(f"note: no node of {count_text(lacking, kind)} has reported: the true total "
                     f"may be higher")
    lines.append(f"Each {kind}: iostats report --tasks {job}; one: "
                 f"iostats report {records[0].job.id}")
    return ("\n\n" if screen.form == MARKDOWN else "\n").join(
        finished(with_legend(lines), screen)) + "\n"


def _state(record: Record) -> str:
    return (record.batch and record.batch.outcome) or "of unknown end"


def _findings(records: Sequence[Record], config: Any, screen: Screen, kind: str) -> list[str]:
    """What is found in most of the records: how often, and where it weighs most."""
    found: dict[tuple[str, str], list[tuple[Finding, str]]] = {}
    for record in records:
        for one in judgement_of(record, config).findings:
            found.setdefault((one.id, one.file_system), []).append((one, record.job.id))
    several = []
    for those in sorted(found.values(), key=len, reverse=True)[:config["advice.most"]]:
        worst, job = max(those, key=lambda one: one[0].weight)
        several.append(worst._replace(
            number=f"{len(those):,} of {count_text(len(records), kind)}; most in {job}: "
                   f"{worst.number}"))
    return block.lines(several, "", config.labels, one_line, screen.form == MARKDOWN, screen.width)


def _by_node(records: list[Record], is_low: bool, config: Any, screen: Screen) -> list[str]:
    """Of parts of which no node has reported: what their nodes did, between two bounds."""
    known = [record.by_node for record in records
             if record.by_node and not record.by_node.why_none]
    is_low = is_low or len(known) < len(records)
    sums: dict[str, list[list[Any]]] = {}
    labels = {}
    for found in known:
        for fs in found.file_systems:
            labels[fs.name] = config.labels.get(fs.name, fs.name)
            total = sums.setdefault(fs.name, [["", 0, 0] for _ in bounds_of(fs)])
            for place, (metric, low, high) in enumerate(bounds_of(fs)):
                before = total[place]
                total[place] = [metric, before[1] + low, None if is_low or high is None
                                or before[2] is None else before[2] + high]
    wanted = config["report.file_systems"] or sorted(sums)
    rows = [(labels[name], *(range_text(low, high, metric, config["report.units"])
                             for metric, low, high in sums[name]))
            for name in wanted if name in sums]
    return ["By their nodes, at the storage servers:",
            table((FILE_SYSTEM, "Read", "Written", "Reads", "Writes", "Operations"), rows, screen,
                  ("left",) + ("right",) * 5)] if rows else []


def _is_shared(record: Record) -> bool:
    """The short form of a report, from a comment, says so in its notes."""
    return bool(record.coverage.shared) or (
        record.short and any(note.startswith("other jobs were on") for note in record.notes))


def _sum(records: list[Record], name: str, number: str, high: bool,
         low: bool) -> tuple[int | None, str]:
    """(sum of what is known of a number on a file system, or None; its mark)."""
    values: list[int | None] = []
    for record in records:
        for fs in record.file_systems:
            if fs.name == name:
                values.append(_value(fs, number))
                low = low or number in bounds.numbers_too_low(fs)
                high = high or number in fs.too_high
    known = [value for value in values if value is not None]
    if not known:
        return None, ""
    return sum(known), bounds.mark_of(low or len(known) < len(values), high)


def _value(fs: FileSystemRecord, number: str) -> int | None:
    if number == "operations":
        return None if fs.operations is None else operations_in(fs.operations)
    return None if fs.application is None else fs.application[number]
