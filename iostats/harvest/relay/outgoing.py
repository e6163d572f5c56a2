"""
Collects the sweeps of our own storage servers, and gives each whole one to the destinations.

It runs on the server's loop; each destination has a thread.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy

from iostats.base.ids import ALL_CLIENTS, Target
from iostats.harvest.relay.destination import RelayDestination
from iostats.store.client_store import MarkedLoss
from iostats.wire import relays
from iostats.wire.messages.arrays import list_integers
from iostats.wire.messages.clients import ClientBlock, ReceivedClients
from iostats.wire.messages.clients_encoder import LEFT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Union

    from iostats.base.config import Config
    from iostats.harvest.agent_chains import AgentState
    from iostats.harvest.clients.intake import ClientHarvest
    from iostats.harvest.clients.source import ClientSource
    from iostats.wire.messages.sweep import ReceivedSweep

log = logging.getLogger(__name__)

_ReceivedBlock = tuple[ClientBlock, float, list[MarkedLoss]]   # with `ahead`, and losses
_LOSSES_S = 2 * 86400.0         # losses are sent so far back, if the destination may lack them
_MAX_BLOCKS = 400               # of an unfinished sweep: 2,000,000 clients


class RelayedSweep(NamedTuple):
    """The counts by client of a storage server in one sweep."""

    # server, boot_id, slot, every_s: as of SweepHead
    server: str
    boot_id: str
    slot: float
    every_s: float
    is_full: bool   # it has all counts, also those that were sent before
    readings: Sequence[RelayedReading]


class RelayedReading(NamedTuple):
    """
    One reading of a file system's OSTs, or MDTs; the attributes are those of ClientBlockHead, with
    times by our clock.
    """

    file_system: str
    kind: str
    epoch: str
    read_from: float
    read_until: float
    targets: Any
    unreadable: dict[Target, str]
    losses: list[MarkedLoss]
    nids: list[str]     # clients with new counts
    amounts: Any        # int64 [nid, of exports.ClientAmounts]
    since_boot: tuple[str, float] | None
    instances: dict[Target, int]
    started: dict[Target, float]
    unread: Any


class Relays:
    """
    All destinations of [relay]; ConfigError, or StateError if a spool cannot be used.

    `emit`: logs a line for the administrator.

    Attributes:
        destinations: [RelayDestination].
    """

    def __init__(self, config: Config, emit: Callable[[str], object],
                 now: Callable[[], float]) -> None:
        name = relays.get_own_relay_name(config)
        self._now = now
        self._parts: dict[str, list[_ReceivedBlock]] = {}
        self.destinations: list[RelayDestination] = []
        try:
            for destination in relays.list_destinations(config):
                self.destinations.append(RelayDestination(config, destination, name, emit, now))
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Begin to send."""
        for destination in self.destinations:
            destination.start()

    def add_message(self, received: Union[ReceivedSweep, ReceivedClients], ahead_s: float,
                    clients: ClientHarvest) -> None:
        """
        Add a message of one of our storage servers; `ahead_s`: its clock less ours at the reading.
        """
        if not self.destinations or relays.is_relayed(received.head.node):
            return
        try:
            self._add_message(received, ahead_s, clients)
        except Exception:                           # the message itself was stored
            log.exception("internal error; please report: a sweep was not relayed")
            self._need_all(received.head.node)

    def _add_message(self, received: Union[ReceivedSweep, ReceivedClients], ahead_s: float,
                     clients: ClientHarvest) -> None:
        head = received.head
        node, parts = head.node, self._parts.setdefault(head.node, [])
        if head.seq == 1:
            parts.clear()
        if isinstance(received, ReceivedClients):
            for block, _ in received.blocks:
                source = clients.sources.get((node, block.head.file_system, block.head.kind))
                parts.append((block, ahead_s, [] if source is None or source.last is None else
                              [*source.last.losses,
                               *_list_losses_of_removed(source, source.last.since)]))
        if len(parts) > _MAX_BLOCKS:
            self._need_all(node)
        if not head.last:
            return
        if not self._parts.pop(node, None):
            return                              # it reports no clients
        sweep = RelayedSweep(node, head.boot_id, head.slot, head.every_s, False,
                             _merge_blocks(parts))
        everything = None
        for destination in self.destinations:
            if destination.needs_full_sweep(node):
                everything = everything or self._make_full_sweep(sweep, clients)
                destination.put(everything)
            else:
                destination.put(sweep)

    def _need_all(self, node: str) -> None:
        """Send all counts of a storage server next time, to all destinations."""
        self._parts.pop(node, None)
        for destination in self.destinations:
            destination.need_all(node)

    def catch_up(self, agents: Mapping[str, AgentState], clients: ClientHarvest) -> None:
        """
        Send all counts of a silent storage server, if a destination needs them; one at a time, as
        it takes a moment.

        Left out if others read its targets now, and the destination has all its counts.
        """
        if not self.destinations:
            return
        for node in {key[0] for key in clients.sources}:
            agent = agents.get(node)
            if relays.is_relayed(node) or agent is None or not agent.slot or self._parts.get(node):
                continue
            wanting = [destination for destination in self.destinations
                       if destination.needs_full_sweep(node) and destination.has_room]
            if wanting and (until := _find_end(node, clients)) is not None:
                wanting = [destination for destination in wanting
                           if destination.get_acknowledged_until(node, -math.inf) < until]
            if wanting:
                sweep = self._make_full_sweep(
                    RelayedSweep(node, "", int(agent.slot), int(agent.every_s), True, ()), clients)
                for destination in wanting:
                    destination.put(sweep)
                return

    def _make_full_sweep(self, sweep: RelayedSweep, clients: ClientHarvest) -> RelayedSweep:
        """The RelayedSweep with all counts of a sweep's storage server."""
        long_ago = self._now() - _LOSSES_S
        # A loss may end a little before the beginning of the reading that reports it.
        since = min(destination.get_acknowledged_until(sweep.server, long_ago)
                    for destination in self.destinations) - sweep.every_s
        readings: list[RelayedReading] = []
        for (node, file_system, kind), source in sorted(clients.sources.items()):
            if node != sweep.server or source.last is None:
                continue
            numbers, unread = source.known(), dict[str, list[str]]()
            targets = [target for target, began in source.whole.items()
                       if began == source.read_from]
            for target, nid in source.unread:
                if target in targets:
                    unread.setdefault(target, []).append(nid)
            # The losses of both kinds, once.
            losses = [] if any(destination.file_system == file_system
                               for destination in readings) else (
                clients.list_losses(node, file_system, since))
            losses += _list_losses_of_removed(source, None)
            readings.append(RelayedReading(
                file_system, kind, source.epoch, source.read_from or 0.0,
                source.read_until or 0.0, targets,
                source.last.unreadable, losses,
                [source.nids.names[number] for number in list_integers(numbers)],
                source.amounts[numbers], source.since_boot,
                {target: source.instances[target] for target in targets
                 if target in source.instances}, source.started, unread))
        return sweep._replace(is_full=True, readings=readings)

    def close(self) -> None:
        """Stop; the rest is sent after the next start."""
        for destination in self.destinations:
            destination.close()


def _list_losses_of_removed(source: ClientSource, since: float | None) -> list[MarkedLoss]:
    """[MarkedLoss] of the targets that have left this storage server, after `since` if given."""
    return [MarkedLoss(source.whole[target], until, target, ALL_CLIENTS, LEFT)
            for target, until in source.left.items() if since is None or until >= since]


def _find_end(node: str, clients: ClientHarvest) -> float | None:
    """The end of the last reading of a storage server whose targets others read now; else None."""
    sources = [source for source in clients.sources.values() if source.node == node]
    if any(source.whole or not source.began_of for source in sources):
        return None
    return max((source.read_until for source in sources if source.read_until is not None),
               default=None)


def _merge_blocks(parts: list[_ReceivedBlock]) -> list[RelayedReading]:
    """[RelayedReading] from the (ClientBlock, ahead, losses) of one sweep, in their order."""
    readings: list[RelayedReading] = []
    unfinished: dict[tuple[str, str], list[ClientBlock]] = {}
    for block, ahead_s, losses in parts:
        head = block.head
        blocks = unfinished.setdefault((head.file_system, head.kind), [])
        blocks.append(block)
        if not head.ended:
            continue
        del unfinished[head.file_system, head.kind]
        readings.append(RelayedReading(
            head.file_system, head.kind, head.epoch, head.read_from - ahead_s,
            head.read_until - ahead_s, head.targets, head.unreadable, losses,
            [nid for part in blocks for nid in part.head.nids],
            numpy.concatenate([part.amounts for part in blocks]), head.since_boot, head.instances,
            {target: at - ahead_s for target, at in head.started.items()}, head.unread))
    return readings
