"""
What each client does now: the rates of the last sweep.
"""

from __future__ import annotations

from collections import namedtuple

import numpy

from iostats.load.amounts import CLIENT_METRICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    import numpy.typing

    from iostats.site.clients.nids import KnownNids
    from iostats.site.clients.readings import ClientReading, MarkedLoss
    from iostats.site.clients.source import ClientSource

    _Array = numpy.typing.NDArray[Any]

ClientSweep = namedtuple("ClientSweep", "slot every_s complete file_systems")
ClientSweep.__doc__ = """
What all clients did in one sweep.

Attributes:
    slot, every_s, complete: as of SiteSweep.
    file_systems: {name: ClientRates}.
"""

ClientRates = namedtuple("ClientRates", "nids rates is_lower_bound missing totals estimated",
                         defaults=({},))
ClientRates.__doc__ = """
What each client of a file system did in one sweep.

Attributes:
    nids: of all clients that the storage servers know; "0@lo" is these themselves.
    rates: float64 [nid, of CLIENT_METRICS], per second.
    is_lower_bound: bool [nid]: something may be missing.
    missing: {storage server: why what it has seen is missing, or a part of it}.
    totals: int64 [nid, of CLIENT_METRICS]: what was gained since the server's start; never smaller
        than before.
    estimated: {storage server: why rates there are estimates}.
"""

NOT_MEASURED = "the time since the reading before is not measured by a clock that cannot be set"
UNREPORTED = "the target left, and no storage server reports its clients"
SILENT = "it tells nothing of its clients ([harvest] exports there)"
GONE_S = 86400.0               # a storage server that is silent for longer is not waited for


def columns_of(kind: str) -> list[int]:
    """
    Where the amounts of an "OST" or "MDT" belong in CLIENT_METRICS.

    >>> columns_of("OST"), columns_of("MDT")
    ([0, 1, 2, 3, 4], [0, 1, 2, 3, 5])
    """
    return [0, 1, 2, 3, 4 if kind == "OST" else 5]


def readers_of(sources: Iterable[ClientSource]) -> dict[str, ClientSource]:
    """{target: the source that has read it last}; one without targets, ever, for itself."""
    found: dict[str, ClientSource] = {}
    for one in sources:
        for target in one.whole if one.began_of else (f"{one.node} {one.kind}",):
            if target not in found or one.slot > found[target].slot:
                found[target] = one
    return found


def current_of(sources: Iterable[ClientSource], now: float) -> list[ClientSource]:
    """Those that have told something in the last day."""
    return [one for one in sources if one.last is not None and now - one.slot < GONE_S]


def silent_of(servers: Iterable[str], sources: Iterable[ClientSource], now: float) -> list[str]:
    """Those of `servers`, which have targets of a file system, that tell nothing of its clients."""
    return sorted({*servers} - {one.node for one in current_of(sources, now)})


def told_until(sources: Iterable[ClientSource], slot: float, now: float,
               pause_of: Callable[[str], float]) -> float:
    """The last moment of which all have told that have told of their last one, up to `slot`."""
    return min([slot, *(one.slot for one in current_of(sources, now)
                        if one.slot >= slot // (pause := pause_of(one.node)) * pause)])


def rates_of(nids: KnownNids, sources: list[ClientSource], slot: float, now: float,
             pause_of: Callable[[str], float], totals: _Array,
             silent: Iterable[str] = ()) -> ClientRates | None:
    """
    The ClientRates of a file system's sources in the sweep of `slot`; None where all are gone.

    `pause_of`: seconds between two sweeps of a storage server; `totals`: ClientRates.totals of all
    `nids`; `silent`: storage servers that have targets, and tell nothing of clients.
    """
    of_targets = readers_of(sources)
    readers = set(of_targets.values())
    current = current_of(sources, now)
    if not current:
        return None
    rates = numpy.zeros((len(nids), len(CLIENT_METRICS)))
    is_known, is_low = numpy.zeros(len(nids), bool), numpy.zeros(len(nids), bool)
    missing: dict[str, str] = dict.fromkeys(silent, SILENT)
    estimated: dict[str, str] = {}
    missing.update((one.node, f"{target}: {UNREPORTED}") for target, one in of_targets.items()
                   if target in one.whole and not one.is_read(target))
    for one in current:
        pause, last = pause_of(one.node), one.last
        assert last is not None
        is_known[:len(one.is_known)] |= one.is_known
        if last.slot < slot // pause * pause:
            if one in readers:
                missing[one.node] = "its last sweep has not come"
            continue
        why = _why_incomplete(last)
        if why:
            missing[one.node] = why
        if last.since is not None and not last.is_measured:
            estimated[one.node] = NOT_MEASURED
        _add(rates, is_low, one, last, nids)
    if nids.left_out:
        missing["(clients)"] = f"more than {len(nids)}: {nids.left_out} or more are left out"
    if missing:
        is_low[:] = True
    kept = numpy.flatnonzero(is_known)
    return ClientRates([nids.names[number] for number in kept.tolist()], rates[kept], is_low[kept],
                       missing, totals[kept], estimated)


def _why_incomplete(last: ClientReading) -> str:
    """Why all clients of a reading may have done more; ""."""
    if last.since is None:
        return "its first reading: there is none before it to compare with"
    if last.unreadable:
        target, why = next(iter(last.unreadable.items()))
        return f"{target} cannot be read: {why}"
    for loss in _current(last):
        if not loss.nid:
            return f"{loss.target}: {loss.why}" if loss.target else str(loss.why)
    return ""


def _add(rates: _Array, is_low: _Array, source: ClientSource, last: ClientReading,
         nids: KnownNids) -> None:
    columns = columns_of(source.kind)
    for entry in last.entries:
        if last.span_s > 0:                         # a file has the same place in each reading
            rates[entry.numbers[:, None], columns] += entry.gains / last.span_s
        else:
            is_low[entry.numbers] = True
    for loss in _current(last):
        if loss.nid and (number := nids.find(loss.nid)) >= 0:
            is_low[number] = True


def _current(last: ClientReading) -> list[MarkedLoss]:
    """What may be missing in this very reading: what is told once more is of another one."""
    return [loss for loss in last.losses if last.since is None or loss.until > last.since]
