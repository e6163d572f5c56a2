"""
Which tasks of an array stand out from the others: how they ended, lost data, time, bytes, calls.

Only numbers that are no bounds are compared, each with the median of the tasks.
"""

from __future__ import annotations

from collections import namedtuple
from statistics import median

from iostats.base.units import amount_text, duration_text
from iostats.lustre.metrics import operations_in
from iostats.report import event_tables
from iostats.report.screen import BLOCKS
from iostats.report.text_table import table
from iostats.totals import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional

    from iostats.report.screen import Screen
    from iostats.totals.record import Record

    Numbers = dict[str, Optional[float]]

_FEWEST, _MOST_SHOWN = 5, 10        # tasks
_FACTOR = 2.0                       # by which a number stands out
_WORDS = {"elapsed_s": "time", "bytes": "bytes", "operations": "operations"}

_Outlier = namedtuple("_Outlier", "record numbers lost reasons factor")


def lines(records: Sequence[Record], usual_state: str, screen: Screen, units: str,
          kind: str) -> list[str]:
    """
    The table of those that stand out, the worst first; `usual_state`: how most of them ended.
    """
    numbers = [_numbers(record) for record in records]
    medians = {}
    for name in _WORDS:
        known = [value for value in (task[name] for task in numbers) if value is not None]
        if len(known) >= _FEWEST:
            medians[name] = median(known)
    tasks = [_outlier(record, task, medians, usual_state)
             for record, task in zip(records, numbers)]
    outliers = sorted((task for task in tasks if task.reasons),
                      key=lambda task: (not task.lost, -task.factor))
    if not outliers:
        return []
    rows = [(task.record.job.id, *_cells(task.numbers, units), ", ".join(task.reasons))
            for task in outliers[:_MOST_SHOWN]]
    if len(outliers) > len(rows):
        rows.append((f"and {len(outliers) - len(rows):,} more", "", "", "", ""))
    return [f"{kind.capitalize()}s that stand out (state, lost data, {_FACTOR:g} times the "
            f"median):",
            table((kind.capitalize(), "Elapsed", "Bytes", "Operations", "Why"), rows,
                  screen._replace(form=BLOCKS), ("left", "right", "right", "right", "left"))]


def _outlier(record: Record, numbers: Numbers, medians: dict[str, float],
             usual_state: str) -> _Outlier:
    reasons, factors = [], [0.0]
    state = record.batch.outcome if record.batch else ""
    if state and state != usual_state:
        reasons.append(state)
    lost = event_tables.data_of(record)
    if lost:
        reasons.append(f"data {lost}")
    for name, usual in medians.items():
        value = numbers[name]
        if value is not None and usual > 0 and value >= _FACTOR * usual:
            factors.append(value / usual)
            reasons.append(f"{_WORDS[name]} {value / usual:,.1f}x")
    return _Outlier(record, numbers, lost, reasons, max(factors))


def _numbers(record: Record) -> Numbers:
    """What is known of a task for certain."""
    is_exact = record.coverage.complete and not record.coverage.shared
    moved: float | None = 0
    calls: float | None = 0
    for fs in record.file_systems:
        unsure = {*bounds.numbers_too_low(fs), *fs.too_high}
        if moved is not None:
            moved = None if fs.application is None or unsure & {"read_bytes", "write_bytes"} else (
                moved + fs.application.read_bytes + fs.application.write_bytes)
        if calls is not None:
            calls = None if fs.operations is None or "operations" in unsure else (
                calls + operations_in(fs.operations))
    return {"elapsed_s": record.job.elapsed_s, "bytes": moved if is_exact else None,
            "operations": calls if is_exact else None}


def _cells(numbers: Numbers, units: str) -> tuple[str, str, str]:
    """Elapsed, bytes and operations of a task, those that may be wrong as unknown."""
    elapsed, moved, calls = (numbers[name] for name in _WORDS)
    return ("-" if elapsed is None else duration_text(elapsed),
            "-" if moved is None else amount_text("moved_bytes", int(moved), units),
            "-" if calls is None else amount_text("operations", int(calls), units))
