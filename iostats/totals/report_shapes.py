"""
Reports of one shape, added up as one list each.

Most nodes of a job report the same targets, with the same metrics in the same order.  The first
report of such a shape is added Delta by Delta (file_system.py), with its marks and names.  Of the
others only the numbers are new; they are stored here as one list, to which those of the next report
are added in one go.  `settle` adds them to the file systems, which then are the same as if each
report had been added on its own.
"""

from __future__ import annotations

from itertools import chain
from operator import add, attrgetter

from iostats.base.named_tuple import NamedTuple
from iostats.totals import other_values
from iostats.totals.file_system import IMPOSSIBLE, find_requests
from iostats.totals.llite_values import compute_once, is_single_value, select_short_names
from iostats.totals.sums import add_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iostats.totals.file_system import FileSystem
    from iostats.totals.received_report import ReportedDelta

    # Of each Delta (source, file system, target, lower_bound, proved, why), its number of values
    # or -1 without any, and the names of all.
    Shape = tuple[tuple[tuple[Any, ...], ...], tuple[int, ...], tuple[str, ...]]

_MOST_SHAPES, _MOST_NUMBERS = 64, 100_000       # more are added one by one
head = attrgetter("source", "file_system", "target", "lower_bound", "proved", "why")


class _Plan:
    """The common parts of all reports of one shape."""

    def __init__(self, shape: Shape) -> None:
        self.sources: dict[str, set[str]] = {}     # file system -> sources
        self.notes: list[tuple[str, str]] = []  # (file system, text)
        # (source, file system, target, names, places of their numbers), of each Delta with numbers
        self.parts: list[tuple[str, str, str, tuple[str, ...], list[int]]] = []
        # The same of what a node's short record has, and of what it asked of MDTs.
        self.short: list[tuple[str, tuple[str, ...], list[int]]] = []
        self.metadata: list[tuple[tuple[str, str], tuple[str, ...], list[int]]] = []
        heads, lengths, names = shape
        at = 0
        for (source, name, target, _, _, why), length in zip(heads, lengths):
            self.sources.setdefault(name, set()).add(source)
            if why:
                self.notes.append((name, f"{source}: {why}"))
            if length < 0:
                continue
            # From 1 on: what is largest of several names is the one that is there.
            places = {metric: at + number
                      for number, metric in enumerate(names[at:at + length], 1)}
            at += length
            if source == "llite":
                places = compute_once(places)
                chosen = select_short_names(tuple(places))
                self.short.append((name, chosen, [places[metric] - 1 for metric in chosen]))
            elif source in other_values.SOURCES:
                in_short = other_values.select_short(source, places)
                self.short.append((name, *_group_places(in_short)))
            requests = find_requests(source, name, target, places)
            if requests:
                self.metadata.append((requests[0], *_group_places(requests[1])))
            self.parts.append((source, name, target, *_group_places(places)))


def _group_places(places: dict[str, int]) -> tuple[tuple[str, ...], list[int]]:
    """Names of metrics, and the places of their numbers, from 0 on."""
    return tuple(places), [place - 1 for place in places.values()]


class ShapeSums:
    """
    The sums of reports of one shape; without a plan there was one report of it.

    Attributes:
        shape: heads, lengths, names.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.plan: _Plan | None = None
        self.sums: list[int] = []


class KnownShape(NamedTuple):
    """The numbers of a report whose other parts are known, instead of its deltas."""

    shape_sums: ShapeSums   # the ShapeSums with its shape
    numbers: list[int]      # [integer], none of them IMPOSSIBLE


class ReportShapes:
    """
    The numbers of reports of known shapes.

    Attributes:
        likely: the ShapeSums of the shape that the last two reports had, and the next one probably
            has; None where they differed.
    """

    def __init__(self) -> None:
        self.likely: ShapeSums | None = None
        self._last: ShapeSums | None = None
        self._by_shape: dict[Shape, ShapeSums] = {}
        self._numbers = 0

    def add(self, deltas: Sequence[ReportedDelta], note: Callable[[str, str], None],
            short: dict[str, dict[str, int]],
            metadata: dict[tuple[str, str], dict[str, int]]) -> dict[str, set[str]] | None:
        """
        Add the numbers of one report; return {file system: its sources}, or None if each Delta must
        be added on its own.

        `note`: called with (file system, text) of each note; `short`, `metadata`: as for
        FileSystem.add.
        """
        reported = [delta.values for delta in deltas]
        values_of = [values or {} for values in reported]
        lengths = tuple(map(len, values_of))
        if None in reported:
            lengths = tuple([-1 if values is None else len(values) for values in reported])
        shape = tuple(map(head, deltas)), lengths, tuple(chain.from_iterable(values_of))
        shape_sums = self._by_shape.get(shape)
        self.likely, self._last = shape_sums if shape_sums is self._last else None, shape_sums
        if shape_sums is None:
            more = self._numbers + len(shape[2]) + len(lengths)
            if len(self._by_shape) < _MOST_SHAPES and more <= _MOST_NUMBERS and _is_plain(shape):
                self._by_shape[shape], self._numbers = ShapeSums(shape), more
            return None
        numbers = list(chain.from_iterable([values.values() for values in values_of]))
        if not are_possible(numbers):
            return None
        return self.add_known(KnownShape(shape_sums, numbers), note, short, metadata)

    def add_known(self, shape: KnownShape, note: Callable[[str, str], None],
                  short: dict[str, dict[str, int]],
                  metadata: dict[tuple[str, str], dict[str, int]]) -> dict[str, set[str]]:
        """Add a report of a known shape, like `add`."""
        shape_sums, numbers = shape
        shape_sums.sums = list(map(add, shape_sums.sums, numbers)) if shape_sums.sums else numbers
        plan = shape_sums.plan = shape_sums.plan or _Plan(shape_sums.shape)
        for file_system, text in plan.notes:
            note(file_system, text)
        for file_system, names, places in plan.short:
            add_values(short.setdefault(file_system, {}),
                       dict(zip(names, [numbers[place] for place in places])))
        for key, names, places in plan.metadata:
            add_values(metadata.setdefault(key, {}),
                       dict(zip(names, [numbers[place] for place in places])))
        return plan.sources

    def settle(self, file_systems: dict[str, FileSystem]) -> None:
        """Add all sums to `file_systems`."""
        for shape_sums in self._by_shape.values():
            if not shape_sums.plan:
                continue
            sums, shape_sums.sums = shape_sums.sums, [0] * len(shape_sums.sums)
            for source, file_system, target, names, places in shape_sums.plan.parts:
                file_systems[file_system].add_sums(
                    source, target, dict(zip(names, [sums[place] for place in places])))


def are_possible(numbers: Sequence[int]) -> bool:
    """Whether a node can have these gains; the sum decides for most, which is faster."""
    return sum(numbers) < IMPOSSIBLE or max(numbers) < IMPOSSIBLE


def _is_plain(shape: Shape) -> bool:
    """Whether the results from its numbers do not depend on their values."""
    heads, lengths, names = shape
    at = 0
    for head, length in zip(heads, lengths):
        if length > 0:
            if head[0] == "llite" and not is_single_value(names[at:at + length]):
                return False
            at += length
    return True
