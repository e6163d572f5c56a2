"""
Messages that other sites' servers relay to this one, checked for the file systems and clients that
each may report.

Parts that a relay may not report are left out, and logged; the rest of its message counts.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import msgspec

from iostats.base.errors import StateError, WireError
from iostats.base.job_id import is_node_name
from iostats.wire import protocol, relays
from iostats.wire.messages.clients import ClientBlock, ReceivedClients, decode_clients
from iostats.wire.relays import RelaySecrets, name_claimed_sender

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from iostats.base.config import Config
    from iostats.harvest.intake import Harvest
    from iostats.server.rpc_server import Caller
    from iostats.wire.messages.clients import ClientBlockHead
    from iostats.wire.messages.sweep_decoder import PackedSweep
    from iostats.wire.relays import RelaySecret, Source

log = logging.getLogger(__name__)

_LOCAL_FOR_S = 86400.0  # a file system is ours so long after our storage servers last reported it
_MAX_SERVERS = 2000             # storage servers of one relay
_MAX_NIDS = 100_000             # of a message, which the loop waits for; in 1 MiB are up to 70,000
_LOG_AGAIN_S = 3600.0
_EXAMPLES = 3                   # clients or file systems in a line of the log

# What is left out
_NOT_LISTED = "file systems that it may not report (site.cfg: [relay_from])"
_OURS = "file systems that our own storage servers report"
_FOREIGN_CLIENTS = "clients that it may not report (site.cfg: [relay_from])"


class RelaysFrom:
    """The relays of [relay_from]; ConfigError."""

    def __init__(self, config: Config, now: Callable[[], float]) -> None:
        self._config, self._now = config, now
        self._sources = relays.list_sources(config)
        self._secrets = RelaySecrets(
            self._sources, config.site.secret if "secret" in config.server.auth else "",
            config.server.clock_tolerance, now, log.warning)
        self._logged_at: dict[tuple[str, str], float] = {}

    def find_secret(self, header: str) -> RelaySecret:
        """The secret of the relay that an Authorization header names; AuthenticationError."""
        return self._secrets.of(header)

    def answer(self, harvest: Harvest, message: PackedSweep, caller: Caller) -> dict[str, object]:
        """The answer to a message of a relay; WireError."""
        source = self._sources[caller.node]
        try:
            received = decode_clients(message, self._config.server.max_message_bytes)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise WireError(protocol.INVALID_PARAMS, str(error)) from None
        node = received.head.node
        server, at, relay = node.rpartition("@")
        if not at or relay != source.name or not is_node_name(server):
            self.log_hourly(source.name,
                            "a message is refused: it is not from one of its storage servers")
            raise WireError(protocol.REFUSED,
                            f"expected a storage server's name before @{source.name}")
        if node not in harvest.agents and sum(
                agent.endswith(f"@{relay}") for agent in harvest.agents) >= _MAX_SERVERS:
            self.log_hourly(source.name,
                            f"has more than {_MAX_SERVERS} storage servers; the others are "
                            f"refused")
            raise WireError(protocol.REFUSED, f"expected at most {_MAX_SERVERS} storage servers")
        nids = sum(len(block.head.nids) for block, _ in received.blocks)
        if nids > _MAX_NIDS:
            self.log_hourly(source.name,
                            f"a message is refused: it has more than {_MAX_NIDS} clients")
            raise WireError(protocol.REFUSED, f"expected at most {_MAX_NIDS} clients in a "
                                              f"message, got {nids}")
        received, left_out = select_permitted(received, source,
                                              self._list_own_file_systems(harvest))
        if _needs_full_sweep(received, harvest):
            return {"taken": False, "want": "full", "why": "[relay_from] has changed here"}
        for why, examples in left_out.items():
            self.log_hourly(source.name, f"left out: {why}, such as {examples}", why)
        try:
            answer = harvest.receive(received, node)
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
        return {**answer, "left_out": "; ".join(
            f"{why}, such as {examples}" for why,
            examples in left_out.items())} if left_out else answer

    def has_refused(self, claimed: str, why: str) -> bool:
        """
        Log that an unauthenticated message was refused; False if it claims no known relay.

        `claimed`: as of AuthenticationError; `why`: the reason.
        """
        source = next((known for name, known in self._sources.items()
                       if name_claimed_sender(name) == claimed),
                      None)
        if source is None:
            return False
        self.log_hourly(source.name,
                        f"its messages are refused: {why}: is the secret in {source.secret} "
                        f"the same as there, and its clock right?")
        return True

    def refuse_method(self, name: str) -> None:
        """Refuse any method but packed_clients; WireError."""
        self.log_hourly(name, "a message is refused: it does not report clients")
        raise WireError(protocol.REFUSED, "a relay may call packed_clients only")

    def _list_own_file_systems(self, harvest: Harvest) -> set[str]:
        """The file systems that our own storage servers serve."""
        now = self._now()
        return {file_system for node, agent in harvest.agents.items()
                if not relays.is_relayed(node) and now - agent.received_at < _LOCAL_FOR_S
                for file_system, _ in agent.targets}

    def log_hourly(self, relay: str, text: str, key: str = "") -> None:
        """Log it, once an hour; `key`: its subject, if the text has examples."""
        now, key = time.monotonic(), key or text
        if now - self._logged_at.get((relay, key), -_LOG_AGAIN_S) < _LOG_AGAIN_S:
            return
        self._logged_at[relay, key] = now
        log.warning("relay %s: %s", relay, text, extra={"node": relay})


def _needs_full_sweep(received: ReceivedClients, harvest: Harvest) -> bool:
    """Whether a message reports other clients than the ones before, and not all of them."""
    sources = harvest.clients.sources
    return not received.head.full and any(
        known.epoch and relays.is_of_others(known.epoch, block.head.epoch)
        for block, _ in received.blocks
        if (known := sources.get((received.head.node, block.head.file_system, block.head.kind))))


def select_permitted(received: ReceivedClients, source: Source, own_file_systems: Container[str]
                     ) -> tuple[ReceivedClients, dict[str, str]]:
    """
    Return (the message without the parts that the relay may not report, {the reason: examples}).

    `own_file_systems`: file systems that our own storage servers report.
    """
    blocks: list[tuple[ClientBlock, bytes]] = []
    left_out: dict[str, dict[str, None]] = {}
    words = [*sorted(source.lnets), *sorted(source.nids)]
    for block, packed in received.blocks:
        head = block.head
        if head.file_system not in source.file_systems or head.file_system in own_file_systems:
            why = _OURS if head.file_system in own_file_systems else _NOT_LISTED
            left_out.setdefault(why, {})[head.file_system] = None
            continue
        places = [place for place, nid in enumerate(head.nids) if source.may_report(nid)]
        if len(places) < len(head.nids):
            nid = next(nid for nid in head.nids if not source.may_report(nid))
            left_out.setdefault(_FOREIGN_CLIENTS, {})[nid] = None
        blocks.append(_select_clients(block, packed, places, source, relays.make_filtered_epoch(
            head.epoch, [*words, head.epoch[8:]])))
    return received._replace(blocks=blocks), {
        why: ", ".join(list(examples)[:_EXAMPLES]) for why, examples in left_out.items()}


def _select_clients(block: ClientBlock, packed: bytes, places: list[int], source: Source,
                    epoch: str) -> tuple[ClientBlock, bytes]:
    """Return (the block, its bytes), with only the clients at these places, and this epoch."""
    head: ClientBlockHead = msgspec.structs.replace(
        block.head, epoch=epoch, nids=[block.head.nids[place] for place in places],
        losses=[loss for loss in block.head.losses if not loss.nid or source.may_report(loss.nid)],
        unread={target: [nid for nid in nids if not nid or source.may_report(nid)]
                for target, nids in block.head.unread.items()})
    if len(places) == len(block.head.nids):
        return (block._replace(head=head),
                msgspec.json.encode(head) + packed[packed.index(b"\n"):])
    amounts = block.amounts[places]
    widest = sorted(range(len(head.widths)), key=lambda column: -head.widths[column])
    return block._replace(head=head, amounts=amounts), b"".join([
        msgspec.json.encode(head), b"\n",
        *(amounts[:, column].astype(f"<u{head.widths[column]}").tobytes() for column in widest)])
