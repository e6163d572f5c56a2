"""History rows made of readings: the gains of the sources, sweep by sweep; one row for an hour."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import numpy

from iostats.harvest.clients.history import merge_parts
from iostats.harvest.clients.rates import list_columns
from iostats.harvest.clients.readings import ClientReading
from iostats.harvest.clients.source import ClientSource
from iostats.load.amounts import CLIENT_METRICS
from iostats.store.client_store import ClientStore, HistoryPart, HistoryRow, MarkedLoss

_HOUR_S = 3600.0
_EARLY_S = 600.0                # a sweep that began shortly before the hour is merged with it
_AT_ONCE = 20                   # parts in one step

_SweepKey = tuple[str, float, int, int]     # file system, s between sweeps, which ones


def split_reading(source: ClientSource,
                  reading: ClientReading) -> list[tuple[_SweepKey, HistoryPart]]:
    """
    Return [(key, HistoryPart)] of a reading, one without clients if nothing was gained; parts with
    one key may be merged: all agents sweep at the same moments.
    """
    if reading.since is None:
        return []
    columns = list_columns(source.kind)
    entries = [(entry.since, entry.until, entry.numbers, entry.gains) for entry in reading.entries]
    parts = []
    for since, until, numbers, amounts in entries or [(
            reading.since, reading.until, numpy.zeros(0, numpy.int32),
            numpy.zeros((0, len(columns)), numpy.int64))]:
        gains = numpy.zeros((len(numbers), len(CLIENT_METRICS)), numpy.int64)
        gains[:, columns] = amounts
        # A sweep may begin a little early, by the site's clock, or late by a part of the pause.
        key = (source.file_system, reading.every_s, int(since / reading.every_s + 0.25),
               int(until / reading.every_s + 0.25))
        parts.append((key, HistoryPart(since, until, numbers, gains)))
    return parts


def collect_unstored(sources: Iterable[ClientSource]) -> tuple[list[tuple[str, HistoryPart]],
                                                               list[tuple[str, str, MarkedLoss]]]:
    """
    Return ([(file system, HistoryPart)], [(file system, storage server, MarkedLoss)]) of all
    readings that are not in the history yet; those of one sweep are one part.
    """
    entries: dict[_SweepKey, list[HistoryPart]] = {}
    losses = []
    for source in sources:
        for reading in source.unstored:
            losses += [(source.file_system, source.node, loss) for loss in reading.losses]
            for key, part in split_reading(source, reading):
                entries.setdefault(key, []).append(part)
    return [(name, merge_parts(parts)) for (name, *_), parts in entries.items()], losses


def merge_hours(store: ClientStore, detail_hours: int) -> Generator[bool, None, None]:
    """
    Merge the sweeps of each hour past the detailed history into one row, in steps; StateError.
    """
    while True:
        due = store.list_rows_to_merge(store.now() - _HOUR_S * detail_hours)
        if due is None:
            return
        name, rows = due
        yield True
        groups: dict[tuple[float, float], list[HistoryRow]] = {}
        for row in rows:
            hour = row.until // _HOUR_S
            groups.setdefault((hour, row.since // _HOUR_S if row.since < hour * _HOUR_S - _EARLY_S
                               else hour), []).append(row)
        for group in groups.values():
            parts = []
            for row in group:
                part = store.part(row.id, name)
                if part is not None:
                    parts.append(part)
                if len(parts) % _AT_ONCE == _AT_ONCE - 1:
                    yield True
            if parts:
                store.replace_parts([row.id for row in group], name,
                                    max(row.made for row in group), merge_parts(parts))
            yield True


def do_nothing() -> Generator[bool, None, None]:
    """Do nothing: a generator without steps."""
    return
    yield True
