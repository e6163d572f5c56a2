"""
From readings to the history: what sources gained, sweep by sweep, and the sweeps of an hour in one.
"""

from __future__ import annotations

import numpy

from iostats.load.amounts import CLIENT_METRICS
from iostats.site.clients.history import HistoryPart, merged
from iostats.site.clients.rates import columns_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from typing import Any

    from iostats.site.clients.client_store import ClientStore
    from iostats.site.clients.readings import ClientReading, MarkedLoss
    from iostats.site.clients.source import ClientSource

_HOUR_S = 3600.0
_EARLY_S = 600.0                # a sweep that began so long before the hour is merged with it
_AT_ONCE = 20                   # parts in one step


def parts_of(source: ClientSource,
              reading: ClientReading) -> list[tuple[tuple[Any, ...], HistoryPart]]:
    """
    [(key, HistoryPart)] of a reading, one without clients where nothing was gained; those with one
    key may be merged: all agents sweep in the same moments.
    """
    if reading.since is None:
        return []
    columns = columns_of(source.kind)
    parts = [(entry.since, entry.until, entry.numbers, entry.gains) for entry in reading.entries]
    found = []
    for since, until, numbers, amounts in parts or [(
            reading.since, reading.until, numpy.zeros(0, numpy.int32),
            numpy.zeros((0, len(columns)), numpy.int64))]:
        gains = numpy.zeros((len(numbers), len(CLIENT_METRICS)), numpy.int64)
        gains[:, columns] = amounts
        # A sweep may begin a little early, by the site's clock, or late by a part of the pause.
        key = (source.file_system, reading.every,
               *(int(moment / reading.every + 0.25) for moment in (since, until)))
        found.append((key, HistoryPart(since, until, numbers, gains)))
    return found


def to_keep(sources: Iterable[ClientSource]) -> tuple[list[tuple[str, HistoryPart]],
                                                      list[tuple[str, str, MarkedLoss]]]:
    """
    ([(file system, HistoryPart)], [(file system, storage server, MarkedLoss)]) of all readings that
    are not in the history yet; those of one sweep are one part.
    """
    entries: dict[tuple[Any, ...], list[HistoryPart]] = {}
    losses = []
    for source in sources:
        for reading in source.unkept:
            losses += [(source.file_system, source.node, loss) for loss in reading.losses]
            for key, part in parts_of(source, reading):
                entries.setdefault(key, []).append(part)
    return [(name, merged(parts)) for (name, *_), parts in entries.items()], losses


def merge_hours(store: ClientStore, detail_hours: int) -> Generator[bool, None, None]:
    """Make one row of the sweeps of each hour that is longer ago, in steps; StateError."""
    while True:
        found = store.to_merge(store.now() - _HOUR_S * detail_hours)
        if found is None:
            return
        name, rows = found
        yield True
        groups: dict[Any, list[Any]] = {}
        for row in rows:
            _, since, until, _ = row
            hour = until // _HOUR_S
            groups.setdefault((hour, since // _HOUR_S if since < hour * _HOUR_S - _EARLY_S
                               else hour), []).append(row)
        for group in groups.values():
            parts = []
            for row, *_ in group:
                part = store.part(row, name)
                if part is not None:
                    parts.append(part)
                if len(parts) % _AT_ONCE == _AT_ONCE - 1:
                    yield True
            if parts:
                store.replace_parts([row for row, *_ in group], name,
                                    max(made for *_, made in group), merged(parts))
            yield True


def nothing() -> Generator[bool, None, None]:
    """Nothing to do."""
    return
    yield True
