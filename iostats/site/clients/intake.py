"""
The clients of all file systems, on the site's server: `harvest.clients`.
"""

from __future__ import annotations

import numpy


from iostats.site.clients.history import OUTSIDE, ClientSums, HistoryPart, merged, place_of
from iostats.site.clients.nids import KnownNids
from iostats.site.clients.node_names import NodeNames
from iostats.site.clients.rates import GONE_S, ClientSweep, columns_of, rates_of, readers_of
from iostats.site.clients.source import ClientSource, MarkedLoss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any, Optional

    from iostats.base.config import Config
    from iostats.site.clients.history import ClientTotals
    from iostats.wire.messages.clients import ReceivedClients

    _Key = tuple[str, str, str]                     # storage server, file system, kind


class ClientHarvest:
    """
    What the storage servers' agents tell of their clients.

    Attributes:
        sources: {(storage server, file system, kind): ClientSource}.
        sweep: the last ClientSweep, or None where no agent tells of clients.
        names: the NodeNames.
    """

    def __init__(self, config: Config, now: Callable[[], float]) -> None:
        self._now = now
        self.names = NodeNames(config, now)
        self.reload()

    def reload(self) -> None:
        """Begin with what the store says."""
        self.sources: dict[_Key, ClientSource] = {}
        self.nids: dict[str, KnownNids] = {}
        self.sweep: Optional[ClientSweep] = None
        self._parts: dict[str, list[HistoryPart]] = {}
        self._losses: dict[str, list[tuple[str, MarkedLoss]]] = {}
        self._moments: list[float] = []

    def _source(self, key: _Key) -> ClientSource:
        source = self.sources.get(key)
        if source is None:
            nids = self.nids.setdefault(key[1], KnownNids())
            source = self.sources[key] = ClientSource(*key, nids)
        return source

    def take(self, taken: ReceivedClients, node: str, slot: float, ahead: float) -> None:
        """Take a message; its place in the chain is right."""
        head = taken.head
        for block, _ in taken.blocks:
            source = self._source((node, block.head.file_system, block.head.kind))
            known = len(source.nids)
            source.take(block, slot, head.every, head.full, ahead)
            self.names.see(source.nids.names[known:])

    def reader_of(self, file_system: str, target: str) -> str:
        """The storage server that has read this target's exports last; ""."""
        found = readers_of(one for (_, name, _), one in self.sources.items()
                           if name == file_system).get(target)
        return "" if found is None else found.node

    # -- sweeps ----------------------------------------------------------------------------------

    def end_sweep(self, slot: float, every: float, complete: bool,
                  pause_of: Callable[[str], float]) -> None:
        """Make the ClientSweep of `slot`."""
        found = {}
        for name, nids in self.nids.items():
            rates = rates_of(nids, [one for key, one in self.sources.items() if key[1] == name],
                             slot, self._now(), pause_of)
            if rates is not None:
                found[name] = rates
        self.sweep = ClientSweep(slot, every, complete, found) if found else None
        self._keep()
        if found:
            self._moments.append(slot)

    def _keep(self) -> None:
        """What was gained goes to the history."""
        entries: dict[Any, list[HistoryPart]] = {}
        for source in self.sources.values():
            for reading in source.unkept:
                self._losses.setdefault(source.file_system, []).extend(
                    (source.node, loss) for loss in reading.losses)
                for entry in reading.entries:
                    gains = numpy.zeros((len(entry.numbers), 6), numpy.int64)
                    gains[:, columns_of(source.kind)] = entry.gains
                    key = (source.file_system, reading.every,
                           *(moment // reading.every for moment in (entry.since, entry.until)))
                    entries.setdefault(key, []).append(HistoryPart(
                        entry.since, entry.until, entry.numbers, gains))
            source.unkept = []
        for (name, *_), parts in entries.items():
            self._parts.setdefault(name, []).append(merged(parts))

    # -- questions -------------------------------------------------------------------------------

    def latest_before(self, moment: float) -> Optional[float]:
        """The last sweep that was due at this moment, or before; None: there is none."""
        return max((one for one in self._moments if one <= moment), default=None)

    def swept_until(self) -> Optional[float]:
        """The moment up to which all clients were read, of all that are read; None for none."""
        now = self._now()
        found = [one.read_from for name in self.nids for one in readers_of(
                     one for one in self.sources.values() if one.file_system == name).values()
                 if one.read_from is not None and now - one.slot < GONE_S]
        return min(found, default=None)

    def between(self, since: float, until: float, file_system: str = "",
                nids: Iterable[str] | None = None
                ) -> Generator[None, None, dict[tuple[str, str], ClientTotals]]:
        """
        {(file system, NID): ClientTotals} of what clients did between two moments; in steps.

        `nids`: these, as far as the file system knows them; None: all with something in it.
        """
        found: dict[tuple[str, str], ClientTotals] = {}
        wanted = None if nids is None else list(nids)
        for name, known in self.nids.items():
            if file_system and name != file_system:
                continue
            sums = ClientSums(since, until, len(known))
            for part in self._parts.get(name, ()):
                sums.add(part)
                yield
            for node, loss in self._losses.get(name, ()):
                if place_of(loss.since, loss.until, since, until) is not OUTSIDE:
                    where = f"{node}: {name}-{loss.target}" if loss.target else node
                    sums.mark(known.find(loss.nid) if loss.nid else -1, f"{where}: {loss.why}")
            self._mark_unread(sums, name, since, until)
            yield
            numbers = sums.having() if wanted is None else [
                number for nid in wanted if (number := known.find(nid)) >= 0]
            for number in numbers:
                found[name, known.names[number]] = sums.totals(number)
        return found

    def _mark_unread(self, sums: ClientSums, name: str, since: float, until: float) -> None:
        """Mark what was not read from the beginning to the end."""
        for one in readers_of(one for one in self.sources.values()
                              if one.file_system == name).values():
            if one.first is None or one.first > since:
                sums.mark(-1, f"{one.node}: its clients were not read before")
            if one.read_from is None or one.read_from < until:
                sums.mark(-1, f"{one.node}: its clients were not read up to then")
