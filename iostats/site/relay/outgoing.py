"""
What is to be relayed: sweeps of our own storage servers, when they are whole.

It is called on the server's loop, and gives what it has to a thread for each destination.
"""

from __future__ import annotations

import logging
import math
from collections import namedtuple

import numpy

from iostats.site.relay.destination import RelayDestination
from iostats.wire import relays
from iostats.wire.messages.clients import ReceivedClients

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Union

    from iostats.base.config import Config
    from iostats.site.agent_chains import AgentState
    from iostats.site.clients.intake import ClientHarvest
    from iostats.wire.messages.sweep import ReceivedSweep

log = logging.getLogger("iostats")

_LOSSES_S = 2 * 86400.0         # what may be missing is told so far back, where it may be news
_MOST_BLOCKS = 400              # of a sweep that has not ended: 2,000,000 clients

RelayedSweep = namedtuple("RelayedSweep", "server boot_id slot every is_full readings")
RelayedSweep.__doc__ = """
What a storage server has told of its clients in one sweep.

Attributes:
    server, boot_id, slot, every: as of SweepHead.
    is_full: all that is known of it, whatever was told before.
    readings: [RelayedReading].
"""

RelayedReading = namedtuple(
    "RelayedReading",
    "file_system kind epoch read_from read_until targets unreadable losses nids amounts since_boot")
RelayedReading.__doc__ = """
One reading of a file system's OSTs, or MDTs; the attributes are those of ClientBlockHead, with
times by our clock.

Attributes:
    losses: [MarkedLoss].
    nids: clients with news; `amounts`: int64 [nid, of exports.ClientAmounts].
"""


class Relays:
    """
    All destinations of [relay]; ConfigError, or StateError where a spool can't be used.

    `say`: gets a line for the administrator.

    Attributes:
        destinations: [RelayDestination].
    """

    def __init__(self, config: Config, say: Callable[[str], object],
                 now: Callable[[], float]) -> None:
        name = relays.own_name(config)
        self._now = now
        self._parts: dict[str, list[Any]] = {}
        self.destinations: list[RelayDestination] = []
        try:
            for one in relays.destinations(config):
                self.destinations.append(RelayDestination(config, one, name, say, now))
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Begin to send."""
        for destination in self.destinations:
            destination.start()

    def heard(self, taken: Union[ReceivedSweep, ReceivedClients], ahead: float,
              clients: ClientHarvest) -> None:
        """
        A message of one of our storage servers was taken; `ahead`: its clock less ours when it was
        read, seconds.
        """
        if not self.destinations or relays.is_relayed(taken.head.node):
            return
        try:
            self._heard(taken, ahead, clients)
        except Exception:                           # the message was taken all the same
            log.exception("internal error; please report: a sweep was not relayed")
            self._need_all(taken.head.node)

    def _heard(self, taken: Union[ReceivedSweep, ReceivedClients], ahead: float,
               clients: ClientHarvest) -> None:
        head = taken.head
        node, parts = head.node, self._parts.setdefault(head.node, [])
        if head.seq == 1:
            parts.clear()
        if isinstance(taken, ReceivedClients):
            for block, _ in taken.blocks:
                source = clients.sources.get((node, block.head.file_system, block.head.kind))
                parts.append((block, ahead, [] if source is None or source.last is None else
                              source.last.losses))
        if len(parts) > _MOST_BLOCKS:
            self._need_all(node)
        if not head.last:
            return
        if not self._parts.pop(node, None):
            return                              # it tells nothing of clients
        sweep = RelayedSweep(node, head.boot_id, head.slot, head.every, False, _readings(parts))
        everything = None
        for destination in self.destinations:
            if destination.needs_all(node):
                everything = everything or self._everything(sweep, clients)
                destination.put(everything)
            else:
                destination.put(sweep)

    def _need_all(self, node: str) -> None:
        """The next thing that all destinations are told of a storage server is all of it."""
        self._parts.pop(node, None)
        for destination in self.destinations:
            destination.need_all(node)

    def catch_up(self, agents: Mapping[str, AgentState], clients: ClientHarvest) -> None:
        """
        Tell all of a storage server that is silent, where a destination needs that; one at a time,
        as it takes a moment.

        One whose targets others read now, and of which a destination has all, is left out.
        """
        if not self.destinations:
            return
        for node in {key[0] for key in clients.sources}:
            agent = agents.get(node)
            if relays.is_relayed(node) or agent is None or not agent.slot or self._parts.get(node):
                continue
            wanting = [one for one in self.destinations if one.needs_all(node) and one.has_room]
            if wanting and (until := _gone_since(node, clients)) is not None:
                wanting = [one for one in wanting if one.told_until(node, -math.inf) < until]
            if wanting:
                sweep = self._everything(
                    RelayedSweep(node, "", int(agent.slot), int(agent.every), True, ()), clients)
                for destination in wanting:
                    destination.put(sweep)
                return

    def _everything(self, sweep: RelayedSweep, clients: ClientHarvest) -> RelayedSweep:
        """All that is known of the storage server of a sweep."""
        long_ago = self._now() - _LOSSES_S
        # A loss may end a little before the reading that tells of it begins.
        since = min(one.told_until(sweep.server, long_ago)
                    for one in self.destinations) - sweep.every
        readings: list[RelayedReading] = []
        for (node, file_system, kind), source in sorted(clients.sources.items()):
            if node != sweep.server or source.last is None:
                continue
            numbers = source.known()
            # Those of both kinds, once.
            losses = [] if any(one.file_system == file_system for one in readings) else (
                clients.losses_of(node, file_system, since))
            readings.append(RelayedReading(
                file_system, kind, source.epoch, source.read_from, source.read_until,
                [target for target, began in source.whole.items() if began == source.read_from],
                source.last.unreadable, losses,
                [source.nids.names[number] for number in numbers.tolist()],
                source.amounts[numbers], source.since_boot))
        return sweep._replace(is_full=True, readings=readings)

    def close(self) -> None:
        """What is not sent is sent after the next start."""
        for destination in self.destinations:
            destination.close()


def _gone_since(node: str, clients: ClientHarvest) -> float | None:
    """When the last reading of a storage server ended whose targets others read now; None."""
    sources = [one for one in clients.sources.values() if one.node == node]
    if any(one.whole or not one.began_of for one in sources):
        return None
    return max((one.read_until for one in sources if one.read_until is not None), default=None)


def _readings(parts: list[Any]) -> list[RelayedReading]:
    """[RelayedReading] of the (ClientBlock, ahead, losses) of one sweep, in their order."""
    found: list[RelayedReading] = []
    begun: dict[tuple[str, str], list[Any]] = {}
    for block, ahead, losses in parts:
        head = block.head
        one = begun.setdefault((head.file_system, head.kind), [])
        one.append(block)
        if not head.ended:
            continue
        del begun[head.file_system, head.kind]
        found.append(RelayedReading(
            head.file_system, head.kind, head.epoch, head.read_from - ahead,
            head.read_until - ahead, head.targets, head.unreadable, losses,
            [nid for part in one for nid in part.head.nids],
            numpy.concatenate([part.amounts for part in one]), head.since_boot))
    return found
