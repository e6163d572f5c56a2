"""
What other sites' servers relay to this one: who may speak for which file systems and clients.

What a relay may not say is left out, and logged; the rest of its message counts.
"""

from __future__ import annotations

import logging
import time

import msgspec

from iostats.base.errors import StateError, WireError
from iostats.base.job_id import is_node_name
from iostats.wire import protocol, relays
from iostats.wire.messages.clients import ClientBlock, ReceivedClients
from iostats.wire.messages.clients_decoder import decoded_clients
from iostats.wire.relay_auth import RelaySecrets, claimed_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

    from iostats.base.config import Config
    from iostats.server.rpc_server import Caller
    from iostats.site.harvest_intake import Harvest
    from iostats.wire.messages.clients import ClientBlockHead
    from iostats.wire.messages.sweep_decoder import PackedSweep
    from iostats.wire.relay_auth import RelaySecret
    from iostats.wire.relays import Source

log = logging.getLogger("iostats")

_LOCAL_FOR_S = 86400.0          # a file system is ours so long after our storage servers told of it
_MOST_SERVERS = 2000            # storage servers of one relay
_MOST_NIDS = 100_000            # of a message, which the loop waits for; in 1 MiB are up to 70,000
_SAY_AGAIN_S = 3600.0
_NAMED = 3                      # clients, file systems in a line of the log

# What is left out
_NOT_LISTED = "file systems that it may not speak for (site.cfg: [relay_from])"
_OURS = "file systems of which our own storage servers tell"
_NOT_ITS_CLIENTS = "clients that it may not speak of (site.cfg: [relay_from])"


class RelaysFrom:
    """The relays of [relay_from]; ConfigError."""

    def __init__(self, config: Config, now: Callable[[], float]) -> None:
        self._config, self._now = config, now
        self._sources = relays.sources(config)
        self._secrets = RelaySecrets(
            self._sources, config["site.secret"] if "secret" in config["server.auth"] else "",
            config["server.clock_tolerance"], now, log.warning)
        self._said: dict[tuple[str, str], float] = {}

    def secret_of(self, header: str) -> RelaySecret:
        """The secret of the relay that an Authorization header names; AuthenticationError."""
        return self._secrets.of(header)

    def answer(self, harvest: Harvest, message: PackedSweep, caller: Caller) -> dict[str, Any]:
        """The answer to a message of a relay; WireError."""
        source = self._sources[caller.node]
        try:
            taken = decoded_clients(message, self._config["server.max_message_bytes"])
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise WireError(protocol.INVALID_PARAMS, str(error)) from None
        node = taken.head.node
        server, at, relay = node.rpartition("@")
        if not at or relay != source.name or not is_node_name(server):
            self.say(source.name, "a message is refused: it is of no storage server of its own")
            raise WireError(protocol.REFUSED,
                            f"expected a storage server's name before @{source.name}")
        if node not in harvest.agents and sum(
                one.endswith(f"@{relay}") for one in harvest.agents) >= _MOST_SERVERS:
            self.say(source.name, f"has more than {_MOST_SERVERS} storage servers; the others are "
                                  f"refused")
            raise WireError(protocol.REFUSED, f"expected at most {_MOST_SERVERS} storage servers")
        nids = sum(len(block.head.nids) for block, _ in taken.blocks)
        if nids > _MOST_NIDS:
            self.say(source.name, f"a message is refused: it has more than {_MOST_NIDS} clients")
            raise WireError(protocol.REFUSED, f"expected at most {_MOST_NIDS} clients in a "
                                              f"message, got {nids}")
        taken, left_out = permitted(taken, source, self._ours(harvest))
        if _needs_all(taken, harvest):
            return {"taken": False, "want": "full", "why": "[relay_from] has changed here"}
        for why, some in left_out.items():
            self.say(source.name, f"left out: {why}, such as {some}", why)
        try:
            answer = harvest.take(taken, node)
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
        return {**answer, "left_out": "; ".join(
            f"{why}, such as {some}" for why, some in left_out.items())} if left_out else answer

    def has_refused(self, claimed: str, why: str) -> bool:
        """
        Log that an unauthenticated message was refused; False where it is of none of the relays.

        `claimed`: as of AuthenticationError; `why`: in words.
        """
        source = next((one for name, one in self._sources.items() if claimed_by(name) == claimed),
                      None)
        if source is None:
            return False
        self.say(source.name, f"its messages are refused: {why}: is the secret in {source.secret} "
                              f"the one that it has, and its clock right?")
        return True

    def refuse_method(self, name: str) -> None:
        """A relay has called another method than it may; WireError."""
        self.say(name, "a message is refused: it is of no clients")
        raise WireError(protocol.REFUSED, "a relay may call packed_clients, and nothing else")

    def _ours(self, harvest: Harvest) -> set[str]:
        """The file systems that our own storage servers serve."""
        now = self._now()
        return {file_system for node, agent in harvest.agents.items()
                if not relays.is_relayed(node) and now - agent.heard < _LOCAL_FOR_S
                for file_system, _ in agent.targets}

    def say(self, relay: str, text: str, key: str = "") -> None:
        """Log it, once in an hour; `key`: what it is about, where the text has examples."""
        now, key = time.monotonic(), key or text
        if now - self._said.get((relay, key), -_SAY_AGAIN_S) < _SAY_AGAIN_S:
            return
        self._said[relay, key] = now
        log.warning("relay %s: %s", relay, text)


def _needs_all(taken: ReceivedClients, harvest: Harvest) -> bool:
    """Whether a message tells of other clients than those before, and not of all of them."""
    sources = harvest.clients.sources
    return not taken.head.full and any(
        known.epoch and relays.is_of_others(known.epoch, block.head.epoch)
        for block, _ in taken.blocks
        if (known := sources.get((taken.head.node, block.head.file_system, block.head.kind))))


def permitted(taken: ReceivedClients, source: Source, ours: Container[str]
              ) -> tuple[ReceivedClients, dict[str, str]]:
    """
    (the message without what the relay may not say, {what was left out, in words: examples}).

    `ours`: file systems of which our own storage servers tell.
    """
    blocks: list[tuple[ClientBlock, bytes]] = []
    left_out: dict[str, dict[str, None]] = {}
    words = [*sorted(source.lnets), *sorted(source.nids)]
    for block, kept in taken.blocks:
        head = block.head
        if head.file_system not in source.file_systems or head.file_system in ours:
            why = _OURS if head.file_system in ours else _NOT_LISTED
            left_out.setdefault(why, {})[head.file_system] = None
            continue
        places = [place for place, nid in enumerate(head.nids) if source.may_speak_of(nid)]
        if len(places) < len(head.nids):
            nid = next(nid for nid in head.nids if not source.may_speak_of(nid))
            left_out.setdefault(_NOT_ITS_CLIENTS, {})[nid] = None
        blocks.append(_restricted(block, kept, places, source, relays.filtered_epoch(
            head.epoch, [*words, head.epoch[8:]])))
    return taken._replace(blocks=blocks), {
        why: ", ".join(list(some)[:_NAMED]) for why, some in left_out.items()}


def _restricted(block: ClientBlock, kept: bytes, places: list[int], source: Source,
                epoch: str) -> tuple[ClientBlock, bytes]:
    """(the block, its bytes), with the clients at these places alone, and this epoch."""
    head: ClientBlockHead = msgspec.structs.replace(
        block.head, epoch=epoch, nids=[block.head.nids[place] for place in places],
        losses=[one for one in block.head.losses if not one.nid or source.may_speak_of(one.nid)])
    if len(places) == len(block.head.nids):
        return (block._replace(head=head),
                msgspec.json.encode(head) + kept[kept.index(b"\n"):])
    amounts = block.amounts[places]
    widest = sorted(range(len(head.widths)), key=lambda column: -head.widths[column])
    return block._replace(head=head, amounts=amounts), b"".join([
        msgspec.json.encode(head), b"\n",
        *(amounts[:, column].astype(f"<u{head.widths[column]}").tobytes() for column in widest)])
