"""
The records of an array's tasks, of a heterogeneous job's components, or of a job's steps that
`iostats run` has measured, as one.

Parts that were on a node at the same time have each the whole node's numbers, so the sum of parts
that shared a node with anybody is an upper bound.

Below it are outliers: tasks that differ from the others in how they ended, lost data, time, bytes
or operations.  Only exact numbers are compared, each with the median over the tasks.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from iostats.base.errors import sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.base.text import cut
from iostats.base.units import format_amount, format_count, format_duration, format_range
from iostats.lustre.metrics import count_all_operations
from iostats.report import event_tables, header
from iostats.report.blocks import FILE_SYSTEM
from iostats.report.findings.finding import list_findings
from iostats.report.job_numbers import list_bounds
from iostats.report.screen import BLOCKS, MARKDOWN, finish_lines
from iostats.report.text_table import add_legend, format_table, select_file_systems
from iostats.report.why.causes import judge_record
from iostats.totals import bounds
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Optional

    from iostats.base.config import Config
    from iostats.report.findings.finding import Finding
    from iostats.report.screen import Screen
    from iostats.totals.record import FileSystemRecord

    Numbers = dict[str, Optional[float]]

_NUMBERS = ("read_bytes", "write_bytes", "operations")
_FEWEST, _MOST_SHOWN = 5, 10        # tasks
_LONGEST_PART = 40
_FACTOR = 2.0                       # times the median: from there on a number stands out
_WORDS = {"elapsed_s": "time", "bytes": "bytes", "operations": "operations"}


def are_parts_of(forms: Sequence[Mapping[str, object]], job: str) -> bool:
    """Whether these records are of several parts of the job `job`."""
    records = list(map(Record.of, forms))
    return len(records) > 1 and all(
        job in (record.batch.array_job, record.batch.het_job) if record.batch
        else False for record in records)


def find_steps(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return {job: the records of commands of it} of those jobs that have more than one."""
    steps: dict[str, list[Record]] = {}
    for record in records:
        if record.job.command:
            steps.setdefault(record.job.id, []).append(record)
    return {job: parts for job, parts in steps.items() if len(parts) > 1}


def format_total(job: str, parts: Sequence[Mapping[str, object]], config: Config, screen: Screen,
                 note_on_others: str) -> str:
    """
    The total of the records of `parts`, their common findings, and the parts that stand out.

    `note_on_others`: a text about the parts without a record; "" if there are none.
    """
    records = list(map(Record.of, parts))
    units = config.report.units
    are_steps = all(record.job.command for record in records)
    states = Counter(map(_find_state, records))
    shared = _count_at_once(records) if are_steps else sum(map(_is_shared, records))
    lacking = sum(not record.coverage.reported for record in records)
    is_array = bool(records[0].batch and records[0].batch.array_job)
    kind = "step" if are_steps else "task" if is_array else "component"
    lines = [header.format_job(f"{'Array' if is_array else 'Job'} {job}", records[0])
             + f": {format_count(len(records), kind)} "
             + ("measured by iostats run" if are_steps else "(" + ", ".join(
                 f"{count:,} {word}" for word, count in sorted(states.items())) + ")")
             + (f"; {note_on_others}" if note_on_others else "")]
    listed = config.report.file_systems
    names = {fs.name: fs.label for record in records for fs in record.file_systems}
    rows = []
    for name in [name for name in listed if name in names] or sorted(names):
        sums = [_add_up(records, name, number, bool(shared), bool(lacking or note_on_others))
                for number in _NUMBERS]
        rows.append((names[name], *_format_sums(sums, units)))
    if rows:
        lines.append(format_table((FILE_SYSTEM, "File Read", "File Write", "Operations"), rows,
                                  screen,
                                  ("left", "left", "left", "right")))
    elif lacking == len(records):
        lines += _format_bounds(records, bool(note_on_others), config, screen)
    if len(records) <= _MOST_SHOWN:
        lines += _format_parts(records, config, screen, kind)
    lines += _format_findings(records, config, screen, kind)
    lines += format_outliers(records, states.most_common(1)[0][0], screen, units, kind)
    lines += event_tables.format_totals(records, f"{kind}s")
    if are_steps:
        lines.append("note: the job's I/O outside these steps is not in the sum")
        if shared:
            lines.append(f"note: {format_count(shared, kind)} ran on a node at the same time as "
                         f"another one, and each has the whole node's numbers: the true sum may be "
                         f"lower")
    elif shared:
        lines.append(
            f"note: other jobs were on nodes of {format_count(shared, kind)}, each of which "
            f"has the whole node's numbers: the true total may be lower")
    if lacking:
        lines.append(f"note: no node of {format_count(lacking, kind)} has reported: the true total "
                     f"may be higher")
    lines.append("Each step: the same command with --tasks" if are_steps else
                 f"Each {kind}: iostats report --tasks {job}; one: "
                 f"iostats report {records[0].job.id}")
    # As in a report of one job: Markdown's tables have no blank lines inside.
    return ("\n\n" if screen.form == MARKDOWN else "\n").join(
        "\n".join(finish_lines([part], screen)) for part in add_legend(lines)) + "\n"


def _find_state(record: Record) -> str:
    return (record.batch and record.batch.outcome) or "of unknown end"


def _format_findings(records: Sequence[Record], config: Config, screen: Screen,
                     kind: str) -> list[str]:
    """The most frequent findings: each with how many parts have it, and the part with the worst."""
    by_rule: dict[tuple[str, str], list[tuple[Finding, str]]] = {}
    for record in records:
        for finding in judge_record(record, config).findings:
            by_rule.setdefault((finding.id, finding.file_system), []).append(
                (finding, record.job.id))
    common = []
    for group in sorted(by_rule.values(), key=len, reverse=True)[:config.findings.most]:
        worst, job = max(group, key=lambda entry: entry[0].weight)
        common.append(worst._replace(
            number=f"{len(group):,} of {format_count(len(records), kind)}; most in {job}: "
                   f"{worst.number}"))
    return list_findings(common, "", config.labels, sanitize, screen.form == MARKDOWN, screen.width)


def _format_bounds(records: list[Record], is_low: bool, config: Config,
                   screen: Screen) -> list[str]:
    """
    Format the I/O bounds of parts without a report from any node: what their nodes did, at least
    and at most.
    """
    parts = [record.by_node for record in records
             if record.by_node and not record.by_node.why_none]
    is_low = is_low or len(parts) < len(records)
    sums: dict[str, list[list[Any]]] = {}
    labels = {}
    for nodes in parts:
        for fs in nodes.file_systems:
            labels[fs.name] = config.labels.get(fs.name, fs.name)
            total = sums.setdefault(fs.name, [["", 0, 0] for _ in list_bounds(fs)])
            for place, (metric, low, high) in enumerate(list_bounds(fs)):
                before = total[place]
                total[place] = [metric, before[1] + low, None if is_low or high is None
                                or before[2] is None else before[2] + high]
    listed = config.report.file_systems or sorted(sums)
    rows = [(labels[name], *(format_range(low, high, metric, config.report.units)
                             for metric, low, high in sums[name]))
            for name in listed if name in sums]
    return ["By their nodes, at the storage servers:",
            format_table((FILE_SYSTEM, "Read", "Written", "Reads", "Writes", "Operations"), rows,
                         screen,
                         ("left",) + ("right",) * 5)] if rows else []


def _format_parts(records: list[Record], config: Config, screen: Screen,
                  kind: str) -> list[str]:
    """Make the table with a row for each part and file system."""
    is_markdown, rows = screen.form == MARKDOWN, []
    for record in sorted(records, key=lambda record: record.job.started or 0.0):
        name = sanitize(cut(record.job.command or record.job.id, _LONGEST_PART))
        took = record.job.elapsed_s
        for fs in select_file_systems(record, config):
            sums = [_add_up([record], fs.name, number, _is_shared(record),
                            not record.coverage.complete) for number in _NUMBERS]
            if any(value != 0 or mark for value, mark in sums):
                rows.append((name, "-" if took is None else format_duration(took), fs.label,
                             *_format_sums(sums, config.report.units)))
    return [f"{kind.capitalize()}s with I/O:",
            format_table((kind.capitalize(), "Elapsed", FILE_SYSTEM, "Read", "Written",
                          "Operations"), rows, screen if is_markdown else
                         screen._replace(form=BLOCKS),
                         ("left", "right", "left", "right", "right", "right"))] if rows else []


def _format_sums(sums: Sequence[tuple[int | None, str]], units: str) -> Iterator[str]:
    """The texts of _NUMBERS with their marks."""
    for number, (value, mark) in zip(_NUMBERS, sums):
        yield "-" if value is None else mark + format_amount(number, value, units)


def _count_at_once(records: Sequence[Record]) -> int:
    """Count the steps that shared a node with another step at the same time, as far as known."""
    def have_met(first: Record, second: Record) -> bool:
        return (_get_period(first)[0] < _get_period(second)[1]
                and _get_period(second)[0] < _get_period(first)[1]
                and (not first.nodes or not second.nodes
                     or not first.nodes.keys().isdisjoint(second.nodes)))
    return sum(any(have_met(record, step) for step in records if step is not record)
               for record in records)


def _get_period(record: Record) -> tuple[float, float]:
    """Return the begin and end of a part; 0 and infinity if unknown."""
    return record.job.started or 0.0, record.job.ended or inf


def _is_shared(record: Record) -> bool:
    """
    True if another job ran on a node of the job; a short record from a comment shows this only in
    its notes.
    """
    return bool(record.coverage.shared) or (
        record.short and any(note.startswith("other jobs were on") for note in record.notes))


def _add_up(records: list[Record], name: str, number: str, high: bool,
            low: bool) -> tuple[int | None, str]:
    """Return (the sum of a number on a file system, None if unknown; its mark)."""
    values: list[int | None] = []
    for record in records:
        for fs in record.file_systems:
            if fs.name == name:
                values.append(_find_value(fs, number))
                low = low or number in bounds.list_too_low_numbers(fs)
                high = high or number in fs.too_high
    numbers = [value for value in values if value is not None]
    if not numbers:
        return None, ""
    return sum(numbers), bounds.get_mark(low or len(numbers) < len(values), high)


def _find_value(fs: FileSystemRecord, number: str) -> int | None:
    if number == "operations":
        return None if fs.operations is None else count_all_operations(fs.operations)
    return None if fs.application is None else fs.application[number]


class _Outlier(NamedTuple):
    record: Record
    numbers: Any
    lost: Any
    reasons: list[str]
    factor: float


def format_outliers(records: Sequence[Record], usual_state: str, screen: Screen, units: str,
                    kind: str) -> list[str]:
    """Format a table of unusual tasks, the worst first; `usual_state`: how most tasks ended."""
    from statistics import median  # 3 ms, of which few reports have a use
    numbers = [_read_numbers(record) for record in records]
    medians = {}
    for name in _WORDS:
        numbers_known = [value for value in (task[name] for task in numbers) if value is not None]
        if len(numbers_known) >= _FEWEST:
            medians[name] = median(numbers_known)
    tasks = [_make_outlier(record, task, medians, usual_state)
             for record, task in zip(records, numbers)]
    outliers = sorted((task for task in tasks if task.reasons),
                      key=lambda task: (not task.lost, -task.factor))
    if not outliers:
        return []
    rows = [(task.record.job.id, *_format_cells(task.numbers, units), ", ".join(task.reasons))
            for task in outliers[:_MOST_SHOWN]]
    if len(outliers) > len(rows):
        rows.append((f"and {len(outliers) - len(rows):,} more", "", "", "", ""))
    return [f"{kind.capitalize()}s that stand out (state, lost data, {_FACTOR:g} times the "
            f"median):",
            format_table((kind.capitalize(), "Elapsed", "Bytes", "Operations", "Why"), rows,
                         screen._replace(form=BLOCKS), ("left", "right", "right", "right", "left"))]


def _make_outlier(record: Record, numbers: Numbers, medians: dict[str, float],
                  usual_state: str) -> _Outlier:
    reasons, factors = [], [0.0]
    state = record.batch.outcome if record.batch else ""
    if state and state != usual_state:
        reasons.append(state)
    lost = event_tables.find_data_loss(record)
    if lost:
        reasons.append(f"data {lost}")
    for name, usual in medians.items():
        value = numbers[name]
        if value is not None and usual > 0 and value >= _FACTOR * usual:
            factors.append(value / usual)
            reasons.append(f"{_WORDS[name]} {value / usual:,.1f}x")
    return _Outlier(record, numbers, lost, reasons, max(factors))


def _read_numbers(record: Record) -> Numbers:
    """A task's exact numbers; None for those that may be wrong."""
    is_exact = record.coverage.complete and not record.coverage.shared
    moved: float | None = 0
    calls: float | None = 0
    for fs in record.file_systems:
        unsure = {*bounds.list_too_low_numbers(fs), *fs.too_high}
        if moved is not None:
            moved = None if fs.application is None or unsure & {"read_bytes", "write_bytes"} else (
                moved + fs.application.read_bytes + fs.application.write_bytes)
        if calls is not None:
            calls = None if fs.operations is None or "operations" in unsure else (
                calls + count_all_operations(fs.operations))
    return {"elapsed_s": record.job.elapsed_s, "bytes": moved if is_exact else None,
            "operations": calls if is_exact else None}


def _format_cells(numbers: Numbers, units: str) -> tuple[str, str, str]:
    """Elapsed, bytes and operations of a task; "-" for those that may be wrong."""
    elapsed_s, moved, calls = (numbers[name] for name in _WORDS)
    return ("-" if elapsed_s is None else format_duration(elapsed_s),
            "-" if moved is None else format_amount("moved_bytes", int(moved), units),
            "-" if calls is None else format_amount("operations", int(calls), units))
