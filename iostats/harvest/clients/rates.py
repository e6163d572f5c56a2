"""
Each client's present activity: the rates of the last sweep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy

from iostats.base.ids import Target
from iostats.load.amounts import CLIENT_METRICS
from iostats.wire.messages.arrays import list_integers
from iostats.wire.messages.clients_encoder import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iostats.base.ids import Nid
    from iostats.harvest.clients.nids import KnownNids
    from iostats.harvest.clients.readings import ClientReading
    from iostats.harvest.clients.source import ClientSource
    from iostats.store.client_store import MarkedLoss
    from iostats.wire.messages.arrays import Bools, Floats, Integers


class ClientSweep(NamedTuple):
    """The I/O of all clients in one sweep."""

    # slot, every_s, complete: as of SiteSweep
    slot: float
    every_s: float
    complete: bool
    file_systems: dict[str, ClientRates]    # {name: ClientRates}


class ClientRates(NamedTuple):
    """The I/O of each client of a file system in one sweep."""

    nids: list[Nid]  # of all clients that the storage servers know; "0@lo" is these themselves
    rates: Floats               # [nid, of CLIENT_METRICS], per second
    is_lower_bound: Bools       # [nid]: some I/O may be missing
    missing: dict[str, str]     # {storage server: why its counts, or a part of them, are missing}
    totals: Integers  # [nid, of CLIENT_METRICS]: gains since the server's start; never decreasing
    estimated: dict[str, str] = {}  # {storage server: why rates there are estimates}


NOT_MEASURED = "the time since the previous reading is not measured by a monotonic clock"
UNREPORTED = "the target moved away, and no storage server reports its clients"
SILENT = "it does not report its clients ([harvest] exports there)"
SILENT_FOR_S = 86400.0          # a storage server that is silent for longer is ignored


def list_columns(kind: str) -> list[int]:
    """
    The columns of CLIENT_METRICS for the amounts of an "OST" or "MDT".

    >>> list_columns("OST"), list_columns("MDT")
    ([0, 1, 2, 3, 4], [0, 1, 2, 3, 5])
    """
    return [0, 1, 2, 3, 4 if kind == "OST" else 5]


def find_readers(sources: Iterable[ClientSource]) -> dict[Target, ClientSource]:
    """{target: the source that read it last}; {its name: source} for one that never had targets."""
    readers: dict[Target, ClientSource] = {}
    for source in sources:
        for target in source.whole if source.began_of else (
                Target(f"{source.node} {source.kind}"),):
            if target not in readers or source.slot > readers[target].slot:
                readers[target] = source
    return readers


def select_active(sources: Iterable[ClientSource], now: float) -> list[ClientSource]:
    """The sources with a message in the last day."""
    return [source for source in sources if source.last is not None
            and now - source.slot < SILENT_FOR_S]


def list_silent_servers(servers: Iterable[str], sources: Iterable[ClientSource],
                        now: float) -> list[str]:
    """List the `servers` with targets of a file system that do not report its clients."""
    return sorted({*servers} - {source.node for source in select_active(sources, now)})


def complete_until(sources: Iterable[ClientSource], slot: float, now: float,
                   pause_of: Callable[[str], float]) -> float:
    """
    The last sweep, up to `slot`, that has arrived from all sources that sent their latest one.
    """
    return min([slot, *(source.slot for source in select_active(sources, now)
                        if source.slot >= slot // (pause_s := pause_of(source.node)) * pause_s)])


def compute_rates(nids: KnownNids, sources: list[ClientSource], slot: float, now: float,
             pause_of: Callable[[str], float], totals: Integers,
             silent: Iterable[str] = ()) -> ClientRates | None:
    """
    The ClientRates of a file system's sources in the sweep of `slot`; None if none is active.

    `pause_of`: seconds between two sweeps of a storage server; `totals`: ClientRates.totals of all
    `nids`; `silent`: storage servers that have targets and do not report clients.
    """
    of_targets = find_readers(sources)
    readers = set(of_targets.values())
    current = select_active(sources, now)
    if not current:
        return None
    rates = numpy.zeros((len(nids), len(CLIENT_METRICS)))
    is_known, is_low = numpy.zeros(len(nids), bool), numpy.zeros(len(nids), bool)
    missing: dict[str, str] = dict.fromkeys(silent, SILENT)
    estimated: dict[str, str] = {}
    missing.update((source.node, f"{target}: {UNREPORTED}") for target, source in of_targets.items()
                   if target in source.whole and not source.is_read(target))
    for source in current:
        pause_s, last = pause_of(source.node), source.last
        assert last is not None
        is_known[:len(source.is_known)] |= source.is_known
        if last.slot < slot // pause_s * pause_s:
            if source in readers:
                missing[source.node] = "its last sweep has not arrived"
            continue
        why = _explain_incomplete(source, last)
        if why:
            missing[source.node] = why
        if last.since is not None and not last.is_measured:
            estimated[source.node] = NOT_MEASURED
        _add(rates, is_low, source, last, nids)
    if nids.left_out:
        missing["(clients)"] = f"more than {len(nids)}: {nids.left_out} or more are left out"
    if missing:
        is_low[:] = True
    numbers = numpy.flatnonzero(is_known)
    return ClientRates([nids.names[number] for number in list_integers(numbers)], rates[numbers],
                       is_low[numbers],
                       missing, totals[numbers], estimated)


def _explain_incomplete(source: ClientSource, last: ClientReading) -> str:
    """Why all clients of a reading may have done more I/O; "" for no reason."""
    if last.since is None:
        return "its first reading: there is no earlier one to compare with"
    if last.unreadable:
        target, why = next(iter(last.unreadable.items()))
        return f"{target} cannot be read: {why}"
    for target, nid in source.unread:
        if not nid:
            return f"{target}: {UNREADABLE}"
    for loss in _list_new_losses(last):
        if not loss.nid:
            return f"{loss.target}: {loss.why}" if loss.target else str(loss.why)
    return ""


def _add(rates: Floats, is_low: Bools, source: ClientSource, last: ClientReading,
         nids: KnownNids) -> None:
    columns = list_columns(source.kind)
    for entry in last.entries:
        # The position of a file never changes.
        if last.span_s > 0 and last.since is not None and entry.since >= last.since:
            rates[entry.numbers[:, None], columns] += entry.gains / last.span_s
        else:
            is_low[entry.numbers] = True
    for nid in [*(loss.nid for loss in _list_new_losses(last)), *(nid for _, nid in source.unread)]:
        if nid and (number := nids.find(nid)) >= 0:
            is_low[number] = True


def _list_new_losses(last: ClientReading) -> list[MarkedLoss]:
    """Losses in this very reading; repeated ones are from earlier readings."""
    return [loss for loss in last.losses if last.since is None or loss.until > last.since]
