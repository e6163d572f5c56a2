"""
Lines with age: hours of targets become days, all lines get coarser, and the oldest are removed.

Each row says how often it was thinned, so that what was interrupted goes on where it was.
"""

from __future__ import annotations

from iostats.site.lines.folding import (
    MOST_BINS,
    MOST_TARGETS,
    MOST_TOPS,
    JobLines,
    TargetLines,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Union

    from iostats.site.lines.line_store import LineStore

    _Lines = Union[JobLines, TargetLines]

_DAY_S = 86400.0
HOURS_FOR_S = 2 * _DAY_S        # after that the rows of a target's day become one
_COARSER = 4                    # times, at each age
_AT_ONCE = 20                   # rows in one transaction


def thin(store: LineStore, days: Sequence[int]) -> Iterator[None]:
    """Do what is due by the store's time, in steps; StateError.  `days`: [site] series_days."""
    now = store.now()
    yield from _merge_days(store, now - HOURS_FOR_S - _DAY_S)       # then the day's last is as old
    for level, age in enumerate(days[:-1], 1):
        before, bins = now - age * _DAY_S, _part(MOST_BINS, _COARSER, level)
        yield from _thin(store, "job_lines", level, before, JobLines.decoded, bins,
                         _part(MOST_TARGETS, 2, level))
        # Those of a day have been thinned once.
        yield from _thin(store, "target_lines", level + 1, before, TargetLines.decoded, bins,
                         _part(MOST_TOPS, 2, level))
    store.forget_lines(now - days[-1] * _DAY_S)


def _merge_days(store: LineStore, before: float) -> Iterator[None]:
    """Make one row of those of a target, or of a whole file system, that began on one day."""
    while True:
        found = store.to_merge(before)
        if not found:
            return
        day: TargetLines | None = None
        rows = []
        for row, since, until, body in found:
            lines = store.decoded("target_lines", (row,), body, TargetLines.decoded)
            if lines is not None:
                day = day or TargetLines(lines.line.every_s, lines.targets)
                day.add(lines)
                rows.append((row, since, until))
        if day is not None:
            day.thin(MOST_BINS, MOST_TOPS)
            store.replace_lines([row for row, *_ in rows], min(since for _, since, _ in rows),
                                max(until for *_, until in rows), day.encoded())
        yield


def _thin(store: LineStore, table: str, level: int, before: float,
          decode: Callable[[bytes], _Lines | None], bins: int, most: int) -> Iterator[None]:
    """
    Rows of a table that were thinned less often get `bins`, and `most` targets or jobs; those of up
    to a day at once.
    """
    before = min(before, store.oldest(table, level - 1) + _DAY_S)
    while True:
        due = store.to_thin(table, level - 1, before, _AT_ONCE)
        if not due:
            return
        rows = []
        for *key, body in due:
            lines = store.decoded(table, key, body, decode)
            if lines is not None:
                lines.thin(bins, most)
                rows.append((*key, lines.encoded()))
        store.keep_thinned(table, level, rows)
        yield


def _part(most: int, divided_by: int, times: int) -> int:
    """
    >>> [_part(240, 4, times) for times in (1, 2, 3)], [_part(8, 2, times) for times in (1, 2, 3)]
    ([60, 15, 4], [4, 2, 1])
    """
    return int(max(1, round(most / divided_by ** times)))
