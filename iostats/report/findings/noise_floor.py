"""
The part of a job's numbers that may be its nodes' own I/O: daemons, health checkers.

`idle` of a file system's record is what its nodes do there by themselves in the job's time, by what
they did while no job ran (totals/file_system.py).  It is an estimate, and only where it is not
negligible beside the job's own number anything is made of it: the report says so (`notes`), and
rules see intervals whose low end is without it (`NoiseFloor`), so that none blames the job for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import format_bytes
from iostats.lustre.metrics import is_operation
from iostats.report.accounting_comment import OTHERS
from iostats.totals.bounds import mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.totals.record import FileSystemRecord, RecordSeries

_WORDS = {"read_bytes": "read", "write_bytes": "written", "read_calls": "reads",
          "write_calls": "writes"}
_LEAST, _LEAST_BYTES = 100, 1 << 20     # less is not worth a note
_LEAST_PART = 0.05                      # of the job's number: less is negligible
_MOST = 4                               # numbers in a note


class NoiseFloor:
    """The nodes' own I/O on one file system, unless it is negligible."""

    def __init__(self, fs: FileSystemRecord, reported: int) -> None:
        """
        `reported`: nodes with numbers; those without a measurement of their idle I/O are assumed to
        have as much as the others.
        """
        self._numbers = list_numbers(fs)
        self._of = {metric: value for metric, value in compute_expected(fs, reported).items()
                    if value >= _LEAST_PART * self._numbers.get(metric, 0)}
        # MDTs count no requests apart for it: it is the same part of them as of operations.
        operations = [metric for metric in self._numbers if is_operation(metric)]
        own = sum(min(self._of.get(metric, 0), self._numbers[metric]) for metric in operations)
        self.of_operations = own / (sum(map(self._numbers.__getitem__, operations)) or 1)

    def __bool__(self) -> bool:
        return bool(self._of)

    def amount(self, *metrics: str) -> int:
        """Return the nodes' own amount of a metric."""
        return sum(self._of.get(metric, 0) for metric in metrics)

    def share(self, metric: str) -> float:
        """Return the nodes' own share of a metric, from 0 to 1."""
        return min(1.0, self.amount(metric) / (self._numbers.get(metric, 0) or 1))

    def without(self, series: RecordSeries) -> RecordSeries:
        """Return the series of `watch` without the nodes' own I/O."""
        rest = 1 - self.of_operations
        return series.replaced(operations=[int(number * rest) for number in series.operations])


def list_numbers(fs: FileSystemRecord) -> dict[str, int]:
    """Return {metric: number} of programs, by the names that `idle` has."""
    numbers = {metric: fs.application[metric] for metric in _WORDS} if fs.application else {}
    numbers.update((name, row.count) for name, row in (fs.operations or {}).items()
                   if name != OTHERS)
    return {metric: value for metric, value in numbers.items() if value is not None}


def compute_expected(fs: FileSystemRecord, reported: int) -> dict[str, int]:
    """{metric: amount} that `reported` nodes are expected to do by themselves; {} if not known."""
    if fs.idle is None:
        return {}
    times = max(1.0, reported / fs.idle.nodes)
    return {metric: round(value * times) for metric, value in fs.idle.expected.items()}


def describe_noise(fs: FileSystemRecord, reported: int, units: str) -> list[str]:
    """
    A sentence on the numbers of which a part, that is not negligible, may be the nodes' own: "about
    1,204 of 1,311 getattr may be the nodes' own ..."; none where there is no such number.
    """
    if fs.idle is None:
        return []
    numbers = list_numbers(fs)
    parts = sorted(_list_noise_shares(compute_expected(fs, reported), numbers))
    if not parts:
        return []
    texts = [_describe_part(fs, metric, -part, numbers[metric], units) for part,
             metric in parts[:_MOST]]
    rest = len(parts) - len(texts)
    more = f", and parts of {rest} other numbers" if rest > 1 else (
        ", and a part of another number" if rest else "")
    assumption = "; the other nodes are assumed to do the same" if fs.idle.nodes < reported else ""
    return [f"{', '.join(texts)}{more} may be the nodes' own (daemons, health checks: measured "
            f"while no job ran, on {fs.idle.nodes} of {reported} nodes{assumption})"]


def _list_noise_shares(own: dict[str, int], numbers: dict[str, int]) -> Iterable[tuple[float, str]]:
    """Return (the remaining share of the number, metric) of each metric that needs a note."""
    for metric, value in own.items():
        number = numbers.get(metric, 0)
        least = _LEAST_BYTES if metric.endswith("_bytes") else _LEAST
        if number and min(value, number) >= least and value >= _LEAST_PART * number:
            yield -min(1.0, value / number), metric


def _describe_part(fs: FileSystemRecord, metric: str, part: float, number: int, units: str) -> str:
    name = "operations" if metric not in _WORDS else metric
    is_bytes = metric.endswith("_bytes")

    def amount(value: int) -> str:
        return format_bytes(value, units) if is_bytes else f"{value:,}"
    whole = f"{mark(fs, name)}{amount(number)} {_WORDS.get(metric, metric)}"
    return f"all of {whole}" if part >= 1 else f"about {amount(round(part * number))} of {whole}"
