"""
How much of a job's numbers may be its nodes' own I/O: daemons, health checkers.

`idle` of a file system's record is what its nodes do there by themselves in the job's time, by what
they did while no job ran (totals/idle_io.py).  It is an estimate, and only where it is not
negligible beside the job's own number anything is made of it: the report says so (`notes`), and
rules see intervals whose low end is without it (`NoiseFloor`), so that none blames the job for it.
"""

from __future__ import annotations

from iostats.base.units import bytes_text
from iostats.lustre.metrics import is_operation
from iostats.report.accounting_comment import OTHERS
from iostats.totals.bounds import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.totals.record import FileSystemRecord, RecordSeries

_WORDS = {"read_bytes": "read", "write_bytes": "written", "read_calls": "reads",
          "write_calls": "writes"}
_LEAST, _LEAST_BYTES = 100, 1 << 20     # less is not worth a note
_MOST = 4                               # numbers in a note


class NoiseFloor:
    """What the nodes did by themselves on one file system, as far as that is not negligible."""

    def __init__(self, fs: FileSystemRecord, reported: int, from_percent: float) -> None:
        """
        `reported`: nodes with numbers; those that do not know are taken to be like the others.
        """
        self._numbers = numbers_of(fs)
        self._of = {metric: value for metric, value in expected(fs, reported).items()
                    if 100 * value >= from_percent * self._numbers.get(metric, 0)}
        # What MDTs were asked for it is not told apart: as much of the requests as of operations.
        asked = [metric for metric in self._numbers if is_operation(metric)]
        own = sum(min(self._of.get(metric, 0), self._numbers[metric]) for metric in asked)
        self.of_operations = own / (sum(map(self._numbers.__getitem__, asked)) or 1)

    def __bool__(self) -> bool:
        return bool(self._of)

    def amount(self, *metrics: str) -> int:
        """How much of these is the nodes' own."""
        return sum(self._of.get(metric, 0) for metric in metrics)

    def share(self, metric: str) -> float:
        """The same as a part of the number, from 0 to 1."""
        return min(1.0, self.amount(metric) / (self._numbers.get(metric, 0) or 1))

    def without(self, series: RecordSeries) -> RecordSeries:
        """What `watch` saw, without it."""
        rest = 1 - self.of_operations
        return series.replaced(operations=[int(number * rest) for number in series.operations])


def numbers_of(fs: FileSystemRecord) -> dict[str, int]:
    """{metric: number} of programs, by the names that `idle` has."""
    found = {metric: fs.application[metric] for metric in _WORDS} if fs.application else {}
    found.update((name, row.count) for name, row in (fs.operations or {}).items()
                 if name != OTHERS)
    return {metric: value for metric, value in found.items() if value is not None}


def expected(fs: FileSystemRecord, reported: int) -> dict[str, int]:
    """{metric: amount} that `reported` nodes are expected to do by themselves; {} if not known."""
    if fs.idle is None:
        return {}
    times = max(1.0, reported / fs.idle.nodes)
    return {metric: round(value * times) for metric, value in fs.idle.expected.items()}


def notes(fs: FileSystemRecord, reported: int, from_percent: float, units: str) -> list[str]:
    """
    A sentence on the numbers of which a part, that is not negligible, may be the nodes' own: "about
    1,204 of 1,311 getattr may be the nodes' own ..."; none where there is no such number.
    """
    if fs.idle is None:
        return []
    numbers = numbers_of(fs)
    found = sorted(_parts(expected(fs, reported), numbers, from_percent))
    if not found:
        return []
    texts = [_text(fs, metric, -part, numbers[metric], units) for part, metric in found[:_MOST]]
    rest = len(found) - len(texts)
    more = f", and parts of {rest} other numbers" if rest > 1 else (
        ", and a part of another number" if rest else "")
    alike = ", which the others are taken to be like" if fs.idle.nodes < reported else ""
    return [f"{', '.join(texts)}{more} may be the nodes' own (daemons, health checks: measured "
            f"while no job ran, on {fs.idle.nodes} of {reported} nodes{alike})"]


def _parts(own: dict[str, int], numbers: dict[str, int],
           from_percent: float) -> Iterable[tuple[float, str]]:
    """(less its part of the number, metric) of each that is worth a note."""
    for metric, value in own.items():
        number = numbers.get(metric, 0)
        least = _LEAST_BYTES if metric.endswith("_bytes") else _LEAST
        if number and min(value, number) >= least and 100 * value >= from_percent * number:
            yield -min(1.0, value / number), metric


def _text(fs: FileSystemRecord, metric: str, part: float, number: int, units: str) -> str:
    name = "operations" if metric not in _WORDS else metric
    is_bytes = metric.endswith("_bytes")

    def amount(value: int) -> str:
        return bytes_text(value, units) if is_bytes else f"{value:,}"
    whole = f"{mark(fs, name)}{amount(number)} {_WORDS.get(metric, metric)}"
    return f"all of {whole}" if part >= 1 else f"about {amount(round(part * number))} of {whole}"
