"""
The harvest, on the site's server: sweeps of all storage servers -> each job's counts on the storage
servers.

    message  ->  its place in the agent's chain (agent_chains.py)
             ->  its blocks in the store  ->  the targets, corrected  ->  the agent gets its answer
             ->  of the kind that reports clients: clients/
    the sweep of one moment has arrived from all agents of the last one, or the next is due
             ->  a SiteSweep: rates for screens and sinks, and the lives of jobs (job_lives.py)
    a job is settled  ->  its totals in the store; the targets drop it; its record is made

A target's state is stored now and then (checkpoints.py), and later messages are replayed after a
restart: each message is counted once, or not at all.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

import msgspec

from iostats.base.errors import StateError, WireError
from iostats.base.options import LONGEST_PAUSE_S
from iostats.harvest.agent_chains import (
    UP_S,
    AgentState,
    decode_agent,
    follow_chain,
    list_targets,
    split_agents_by_state,
)
from iostats.harvest.checkpoints import Checkpoints
from iostats.harvest.clients.intake import ClientHarvest
from iostats.harvest.job_lives import JobLives
from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.readings import make_boot_key
from iostats.harvest.resets.target import CorrectedTarget
from iostats.harvest.time_lines.intake import LineIntake
from iostats.store.harvest_store import BlockRow, LoggedRow, SweepStore, decode_row, encode_row
from iostats.store.record_store import report_damage
from iostats.wire import protocol
from iostats.wire.messages import clients, sweep, sweep_decoder

if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.harvest.job_lives import OnSettled
    from iostats.harvest.relay.outgoing import Relays
    from iostats.harvest.sink import Sink
    from iostats.server.rpc_server import Caller
    from iostats.store.record_store import Store

log = logging.getLogger(__name__)

_POLL_EVERY_S = 0.25
_WAITED_PAUSES = 0.9            # pauses that a sweep waits for an agent of the last one
LATE_S = 5.0                    # two pauses and so long after a reading, the next one is overdue
_SILENT_FOR_S = 86400.0         # an agent that is silent for longer does not delay settling


class SiteSweep(NamedTuple):
    """One sweep of all storage servers."""

    slot: float     # that moment, seconds since 1970
    every_s: float  # seconds from one sweep to the next: the shortest pause of an agent that is up
    complete: bool  # every agent that is up has sent its part
    # [CorrectedTarget] read for it, or for the last one in which a slower agent takes part
    targets: list[CorrectedTarget]


_Key = tuple[str, str]                          # file system, target
Received = Union[sweep.ReceivedSweep, clients.ReceivedClients]


class Harvest:
    """
    Receives sweeps, and holds their counts.

    Attributes:
        targets: {(file system, target): CorrectedTarget}.
        sweep: the last SiteSweep, or None.
        agents: {node: AgentState}.
        lives: the JobLives; `find_job`, `facts`, `settled`: its methods.
        lines: the LineIntake: time lines of jobs and targets.
        clients: the ClientHarvest: counts by client, if agents report them.
        relays: sends other sites' servers the counts of their clients, or None.
        sinks: receive every SiteSweep, by `sweep(sweep, harvest)`; and `drop_ids(ids)`.
    """

    def __init__(self, store: "Store", config: "Config", now: Callable[[], float],
                 sinks: "Iterable[Sink]" = ()) -> None:
        self.config, self._now, self.sinks = config, now, list(sinks)
        self._store = SweepStore(store)
        self.lives = JobLives(self._store, config, now)
        self.lines = LineIntake(store, config, now, lambda: self.targets)
        self.clients = ClientHarvest(store, config, now)
        self.find_job, self.facts, self.settled = (
            self.lives.find_job, self.lives.facts, self.lives.settled)
        self.relays: Optional[Relays] = None
        self.reload()

    def reload(self) -> None:
        """Begin with the stored state; after a StateError it has to be called again first."""
        self._is_whole = False          # a state that is read in part is not used
        with report_damage(self._store.path):
            self._reload()
        self._is_whole = True

    def _reload(self) -> None:
        self._job_ids, self._ended_slot = JobIds(), 0.0
        self.sweep: Optional[SiteSweep] = None
        # {node: targets of a sweep that is not complete}
        self._fresh: dict[str, set[_Key]] = {}
        self._slots: dict[_Key, float] = {}     # of the last whole reading
        self._waits_since: Optional[float] = None
        now = self._now()
        self.agents: dict[str, AgentState] = {
            node: msgspec.structs.replace(agent, received_at=now) for node, agent in (
                self._store.decode_rows("agents", self._store.agents(), decode_agent).items())}
        for agent in sorted(self.agents.values(), key=lambda agent: agent.slot):
            agent.every_s = min(agent.every_s, LONGEST_PAUSE_S)     # earlier releases accepted any
            self._slots.update(dict.fromkeys(agent.targets, agent.slot))
        saved = self._store.targets()
        self.targets: dict[_Key, CorrectedTarget] = self._store.decode_rows(
            "targets", saved, lambda state: CorrectedTarget.from_state(self._job_ids, state))
        self.checkpoints = Checkpoints(self._store, self.targets,
                                       {key: len(saved[key]) for key in self.targets},
                                       self.lines.write)
        self.lines.reload()
        changed = self._replay(saved.keys() - self.targets.keys())
        if self.clients.reload():
            self._request_full_sweeps(())
        self.lives.reload(self.targets, changed)

    def _replay(self, damaged: set[Any]) -> dict[str, float]:
        """
        Add the messages since the checkpoints: {id: slot of its change} of the ids that remain.

        Later messages of `damaged` targets are useless until the next full sweep, which is
        requested.
        """
        changed: dict[str, float] = {}
        useless_rows, is_damaged = [], bool(damaged)
        for stored in self._store.blocks():
            key, is_changed = (stored.file_system, stored.target), False
            try:
                if not all(isinstance(name, str) for name in key):
                    raise ValueError("the name of its target is not text")
                row = decode_row(stored.body)
                block = sweep_decoder.decode_block(row.packed) if row.packed else None
                if row.lined:
                    self.lines.note_stored_readings(key)
                    continue
                if block is None and not row.forget:
                    raise ValueError("it is empty")
                if row.full and not row.late:
                    damaged.discard(key)
                elif key in damaged:
                    useless_rows.append(stored.id)
                    continue
                target, is_changed = self._get_target(key), True
                if block is None:
                    target.drop_ids(row.forget)
                    for name in row.forget:
                        changed.pop(name, None)
                elif self._add_block(target, block, row):
                    changed.update(dict.fromkeys(target.changed(), row.slot))
                self.checkpoints.add(key, len(stored.body))
            except Exception as error:
                self._store.put_aside("blocks", (stored.id,), error)
                if is_changed:                      # in part
                    self.targets.pop(key, None)
                damaged.add(key)
                is_damaged = True
        if is_damaged:
            self._request_full_sweeps(useless_rows)
        return changed

    def _request_full_sweeps(self, useless: Iterable[int]) -> None:
        """The store is damaged: request a full sweep of all agents, and drop these rows."""
        for agent in self.agents.values():
            agent.run = ""
        self._store.drop(useless, {node: msgspec.json.encode(agent)
                                   for node, agent in self.agents.items()})

    def _add_block(self, target: CorrectedTarget, block: sweep.BlockRows, row: BlockRow) -> bool:
        """
        Add one of a target's blocks, which is stored as `row`; True if it was a reading's last.
        """
        head = block.head
        if row.late:
            target.note_late(head.read_at - row.ahead_s)
            return False
        is_new = target.add_block(block, row.node, row.boot_id, row.full, row.ahead_s,
                                  row.kernel_ahead_s)
        if head.ended and not head.unreadable:
            if is_new:
                self.lines.add_target(target, self.find_job, row.slot, self._get_pause(row.node))
            self._slots[target.file_system, target.target] = row.slot
        return bool(head.ended)

    def _get_target(self, key: _Key) -> CorrectedTarget:
        target = self.targets.get(key)
        if target is None:
            target = self.targets[key] = CorrectedTarget(self._job_ids, *key)
        return target

    # -- sweeps ----------------------------------------------------------------------------------

    def receive(self, received: "Received", node: str) -> dict[str, object]:
        """Receive a message of the storage server `node`, and return the answer."""
        if not self._is_whole:
            self.reload()
        now, message = self._now(), received.head
        agent, answer = follow_chain(self.agents.get(node) or AgentState(), received, node, now)
        if agent is None:
            return answer
        # Targets of one sweep: those of the last one count until this one is whole.
        read_targets = self._fresh.setdefault(node, set())
        if message.seq == 1:
            read_targets.clear()
        read = list_targets(received)
        read_elsewhere = {key: owner for key in read
                          if (owner := self._find_other_reader(key, node, now))}
        read_targets.update(key for key in read if key not in read_elsewhere)
        # An agent that does not know our clock yet may have planned in the future.
        slot = min(float(message.slot), now)
        if message.last:
            agent.slot, agent.targets = slot, sorted(read_targets)
            read_targets.clear()
        if read_elsewhere:              # the next message must have all blocks again
            agent.run = ""
        # An agent that did not know our clock at the reading reports the difference later.
        ahead_s = received.clock_ahead_s if message.read_ahead_s is None else message.read_ahead_s
        if isinstance(received, clients.ReceivedClients):
            self._add_clients(received, agent, slot, ahead_s, bool(read_elsewhere))
        else:
            self._add_sweep(received, agent, slot, ahead_s, read_elsewhere)
        if read_elsewhere:
            names = ", ".join(f"{'-'.join(key)} ({owner})"
                              for key, owner in sorted(read_elsewhere.items()))
            return {"taken": False, "want": "full",
                    "why": f"another agent reads the same targets: {names}; stop one of them, "
                           f"unless they have just moved"}
        if self.relays is not None:
            self.relays.add_message(received, ahead_s, self.clients)
        return {"taken": True, "why": ""}

    def _add_sweep(self, received: sweep.ReceivedSweep, agent: AgentState, slot: float,
                   ahead_s: float,
                   read_elsewhere: Container[_Key]) -> None:
        """Add a message's job_stats, except those of the targets in `read_elsewhere`."""
        node = received.head.node
        blocks = [(key, block, BlockRow(
            node, received.head.boot_id, received.head.full or block.head.full, slot, ahead_s,
            received.clock_ahead_s, packed))
                  for block, packed in received.blocks
                  if (key := (block.head.file_system, block.head.target)) not in read_elsewhere]
        for key, block, row in blocks:
            row.late = self._is_late(key, row, block.head.read_at - ahead_s)
        logged = [LoggedRow(*key, encode_row(row)) for key, _, row in blocks]
        self._store.add(node, msgspec.json.encode(agent), logged)
        self.agents[node] = agent
        for (key, block, row), (*_, body) in zip(blocks, logged):
            self.checkpoints.add(key, len(body))
            target = self._get_target(key)
            if self._add_block(target, block, row):
                self.lives.note(target.changed(), slot)

    def _add_clients(self, received: clients.ReceivedClients, agent: AgentState, slot: float,
                     ahead_s: float, is_shared: bool) -> None:
        """Add a message's clients, unless their sums include targets that others read."""
        node = received.head.node
        self._store.add(node, msgspec.json.encode(agent), ())
        self.agents[node] = agent
        if not is_shared:
            self.clients.receive(received, node, slot, ahead_s, agent.first)

    def _is_late(self, key: _Key, row: BlockRow, read_at: float) -> bool:
        """
        Whether another storage server has read this target since `read_at`, by the site's clock: an
        agent that was disconnected delivers old readings.
        """
        target = self.targets.get(key)
        if target is None or target.node in (None, row.node) or (
                make_boot_key(row.node, row.boot_id) == make_boot_key(target.node, target.boot_id)):
            return False                                # it was only renamed
        # A slot is never after the arrival of its message, though a clock may have been wrong.
        return read_at < self._slots.get(key, 0.0)

    def _find_other_reader(self, key: _Key, node: str, now: float) -> str:
        """The other storage server whose agent reads this target now; "" for none."""
        target = self.targets.get(key)
        owner = target.node if target is not None else self.clients.find_reader(*key)
        agent = self.agents.get(owner) if owner and owner != node else None
        if agent is None or now - agent.received_at >= 2 * agent.every_s + UP_S:
            return ""                               # it is down
        return owner or "" if key in agent.targets else ""

    # -- queries -----------------------------------------------------------------------------------

    def compute_age_s(self, target: CorrectedTarget) -> Optional[float]:
        """Seconds since a target was last read to its end, by our clock; None: never."""
        at = self._slots.get((target.file_system, target.target))
        if at is None:                                      # before the server was started
            at = target.swept_until
        return None if at is None else max(0.0, self._now() - at)

    def is_overdue(self, target: CorrectedTarget) -> bool:
        """Whether a target's last reading is older than two sweeps: its numbers may be too low."""
        age_s = self.compute_age_s(target)
        return age_s is None or age_s > 2 * self._get_pause(target.node) + LATE_S

    def _get_pause(self, node: Optional[str]) -> float:
        """Seconds between two sweeps of a storage server."""
        return self.agents.get(node or "", AgentState()).every_s

    # -- background work ---------------------------------------------------------------------------

    async def work(self, on_settled: "OnSettled") -> None:
        """
        Do the periodic work, until cancelled; `on_settled(jobs)`: {job: Facts or None} with
        final totals.
        """
        while True:
            try:
                if not self._is_whole:
                    self.reload()
                self.end_sweep()
                self.lives.query_when_due()
                self.clients.names.refresh()
                await self.lives.settle_when_due(self.swept_until(), on_settled, self.drop_jobs)
                while self.checkpoints.step() or self.clients.step() or self.lines.step():
                    await asyncio.sleep(0)
            except StateError as error:
                self._store.trouble.emit(error)
                await asyncio.sleep(5)
            except Exception:
                log.exception("internal error; please report: in the harvest")
                await asyncio.sleep(5)
            await asyncio.sleep(_POLL_EVERY_S)

    def end_sweep(self) -> None:
        """Give the sinks the sweep when it is complete, or when waiting longer is useless."""
        if self.relays is not None:
            self.relays.catch_up(self.agents, self.clients)
        now = self._now()
        self._ended_slot = min(self._ended_slot, now)           # the clock may have been set back
        up, pacing = split_agents_by_state(self.agents, now)
        if not up:
            return
        every_s = min(agent.every_s for agent in pacing)
        slot = min(max(agent.slot for agent in pacing), now) // every_s * every_s
        if slot <= self._ended_slot:
            return
        missing = [agent for agent in up if not agent.has_sent(slot)]
        # Wait less than a pause, and only for agents of the last sweep.
        self._waits_since = min(self._waits_since or now, now)
        if now - self._waits_since < _WAITED_PAUSES * every_s and any(
                agent.has_sent(self._ended_slot or slot - every_s) for agent in missing):
            return
        if now < slot + every_s / 2 and not self.lives.are_all_queried():
            return              # later: databases would have new jobs under two names
        self._ended_slot, self.lives.has_news, self._waits_since = slot, True, None
        self.lives.store_changed()
        self.sweep = SiteSweep(slot, every_s, not missing, [
            target for key, target in self.targets.items() if self._slots.get(key, 0.0)
            >= slot // (pause_s := self._get_pause(target.node)) * pause_s])
        servers: dict[str, set[str]] = {}
        for target in self.sweep.targets:
            servers.setdefault(target.file_system, set()).update(filter(None, (target.node,)))
        self.clients.end_sweep(slot, every_s, not missing, self._get_pause, servers)
        for sink in self.sinks:
            try:
                sink.sweep(self.sweep, self)
            except Exception:
                log.exception("internal error; please report: a sweep was not written")

    def swept_until(self) -> float:
        """
        The time up to which sweeps of all storage servers have arrived; now if all agents have been
        silent for a day, at least since this server's start.
        """
        now = self._now()
        # By the slot: an agent's clock may have been wrong when it read.
        reads = (min(target.swept_until, self._slots.get(key, now))
                 for key, target in self.targets.items() if target.swept_until is not None)
        recent = [at for at in reads if now - at < _SILENT_FOR_S]
        received_at = max((agent.received_at for agent in self.agents.values()), default=now)
        return min(recent, default=now if now - received_at >= _SILENT_FOR_S else 0.0)

    def drop_jobs(self, ids: list[str], bodies: dict[str, bytes]) -> None:
        """
        Drop these ids from the targets and the sinks; `bodies`: {job: bytes to store} of settled
        jobs; StateError.
        """
        dropped = set(ids)
        ids_of_targets = {key: sorted(dropped.intersection(target.ids()))
                          for key, target in self.targets.items()}
        self._store.settle(bodies, [LoggedRow(*key, encode_row(BlockRow(forget=target_ids)))
                                    for key, target_ids in ids_of_targets.items() if target_ids])
        for key, target_ids in ids_of_targets.items():
            if target_ids:
                self.targets[key].drop_ids(target_ids)
        for sink in self.sinks:
            sink.drop_ids(ids)

    def close(self) -> None:
        """Write checkpoints before an orderly end."""
        if self._is_whole:
            self.checkpoints.close()
            self.clients.close()

    def drop_before(self, moment: float) -> None:
        """Remove the counts of jobs that were settled before this moment."""
        self._store.delete_before(moment)


def answer_to(harvest: Harvest, message: sweep_decoder.PackedSweep,
              caller: "Caller",
              decoded: "Callable[[sweep_decoder.PackedSweep, int], Received]" = (
                  sweep_decoder.decode_sweep)) -> dict[str, object]:
    """
    The answer to a message of `caller`, of the methods `packed_sweep` and, with its decoder,
    `packed_clients`; WireError.
    """
    try:
        received = decoded(message, harvest.config.server.max_message_bytes)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise WireError(protocol.INVALID_PARAMS, str(error)) from None
    if received.head.node != caller.node:
        raise WireError(protocol.REFUSED,
                        "the sweep is from another storage server than its header")
    try:
        return harvest.receive(received, received.head.node)
    except StateError as error:
        raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
