"""
The harvest, on the site's server: sweeps of all storage servers -> what each job did there.

    message  ->  its place in the agent's chain (agent_chains.py)
             ->  its blocks in the store  ->  the targets, corrected  ->  the agent is answered
             ->  of the kind that tells of clients: clients/
    the sweep of one moment has come from all agents that were in the last one, or the next is due
             ->  a SiteSweep: rates for screens and sinks, and the lives of jobs (job_lives.py)
    a job is settled  ->  its totals in the store; the targets forget it; its record is made

A target's state is kept now and then (harvest_checkpoints.py), and what came since then is replayed
after a restart: each message is taken once, or not at all.
"""

import asyncio
import logging
from collections import namedtuple
from collections.abc import Callable, Container, Iterable
from typing import Any, Optional, Union

import msgspec

from iostats.base.options import LONGEST_PAUSE_S
from iostats.base.errors import StateError, WireError
from iostats.site.agent_chains import UP_S, AgentState, agent_of, following, targets_of, those_up
from iostats.site.clients.intake import ClientHarvest
from iostats.site.harvest_checkpoints import Checkpoints
from iostats.site.harvest_store import BlockRow, LoggedRow, SweepStore, decoded_row, encoded_row
from iostats.site.job_lives import JobLives
from iostats.site.lines.intake import LineIntake
from iostats.site.resets.job_ids import JobIds
from iostats.site.resets.target import CorrectedTarget
from iostats.site.store import damage_reported
from iostats.wire import protocol
from iostats.wire.messages import clients, sweep, sweep_decoder, sweep_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.server.rpc_server import Caller
    from iostats.site.job_lives import OnSettled
    from iostats.site.relay.outgoing import Relays
    from iostats.site.store import Store

log = logging.getLogger("iostats")

_LOOK_EVERY_S = 0.25
_WAITS = 0.9                    # of a pause: for an agent that was in the last sweep
LATE_S = 5.0                    # two pauses and so long after a reading, the next one is overdue
_GONE_S = 86400.0               # an agent that is silent for longer keeps no job from settling

SiteSweep = namedtuple("SiteSweep", "slot every_s complete targets")
SiteSweep.__doc__ = """
What all storage servers have seen at one moment.

Attributes:
    slot: that moment, seconds since 1970.
    every_s: seconds from one sweep to the next: the shortest pause of an agent that is up.
    complete: every agent that is up has sent its part.
    targets: [CorrectedTarget] read for it, or for the last one in which a slower agent takes part.
"""

_Key = tuple[str, str]                          # file system, target
Received = Union[sweep.ReceivedSweep, clients.ReceivedClients]


class Harvest:
    """
    Receives sweeps and answers for them.

    Attributes:
        targets: {(file system, target): CorrectedTarget}.
        sweep: the last SiteSweep, or None.
        agents: {node: AgentState}.
        lives: the JobLives; `job_of`, `facts`, `settled`: its methods.
        lines: the LineIntake: what jobs and targets did over time.
        clients: the ClientHarvest: what each client has done, where agents tell of them.
        relays: what tells other sites' servers of their clients, or None.
        sinks: what gets every SiteSweep, by `sweep(sweep, harvest)`; and `forget(ids)`.
    """

    def __init__(self, store: "Store", config: "Config", now: Callable[[], float],
                 sinks: Iterable[Any] = ()) -> None:
        self.config, self._now, self.sinks = config, now, list(sinks)
        self._store = SweepStore(store)
        self.lives = JobLives(self._store, config, now)
        self.lines = LineIntake(store, config, now, lambda: self.targets)
        self.clients = ClientHarvest(store, config, now)
        self.job_of, self.facts, self.settled = (
            self.lives.job_of, self.lives.facts, self.lives.settled)
        self.relays: Optional[Relays] = None
        self.reload()

    def reload(self) -> None:
        """Begin with what the store says; StateError, and then it is to be tried again first."""
        self._is_whole = False          # no half of it is added to, or written as the whole
        with damage_reported(self._store.path):
            self._reload()
        self._is_whole = True

    def _reload(self) -> None:
        self._job_ids, self._done = JobIds(), 0.0
        self.sweep: Optional[SiteSweep] = None
        # {node: targets of a sweep of which more messages are to come}
        self._fresh: dict[str, set[_Key]] = {}
        self._slots: dict[_Key, float] = {}     # of the last whole reading
        self._waits_since: Optional[float] = None
        now = self._now()
        self.agents: dict[str, AgentState] = {
            node: msgspec.structs.replace(agent, heard=now) for node, agent in (
                self._store.understood("agents", self._store.agents(), agent_of).items())}
        for agent in self.agents.values():
            agent.every = min(agent.every, LONGEST_PAUSE_S)     # a release before took any
            self._slots.update(dict.fromkeys(agent.targets, agent.slot))
        saved = self._store.targets()
        self.targets: dict[_Key, CorrectedTarget] = self._store.understood(
            "targets", saved, lambda state: CorrectedTarget.from_state(self._job_ids, state))
        self.checkpoints = Checkpoints(self._store, self.targets,
                                       {key: len(saved[key]) for key in self.targets},
                                       self.lines.write)
        self.lines.reload()
        changed = self._replay(saved.keys() - self.targets.keys())
        if self.clients.reload():
            self._ask_for_full(())
        self.lives.reload(self.targets, changed)

    def _replay(self, damaged: set[Any]) -> dict[str, float]:
        """
        Take what came since the checkpoints: {id: slot of its change}, of what was not forgotten.

        What came of `damaged` targets says nothing without what it follows: up to the next full
        sweep, which is asked for.
        """
        changed: dict[str, float] = {}
        useless, is_damaged = [], bool(damaged)
        for stored in self._store.blocks():
            key, is_changed = (stored.file_system, stored.target), False
            try:
                if not all(isinstance(name, str) for name in key):
                    raise ValueError("the name of its target is no text")
                row = decoded_row(stored.body)
                block = sweep_decoder.decoded_block(row.packed) if row.packed else row.block
                if row.lined:
                    self.lines.were_written(key)
                    continue
                if block is None and not row.forget:
                    raise ValueError("it says nothing")
                if row.full:
                    damaged.discard(key)
                elif key in damaged:
                    useless.append(stored.id)
                    continue
                target, is_changed = self._target(key), True
                if block is None:
                    target.forget(row.forget)
                    for name in row.forget:
                        changed.pop(name, None)
                elif self._take_block(target, block, row):
                    changed.update(dict.fromkeys(target.changed(), row.slot))
                self.checkpoints.add(key, len(stored.body))
            except Exception as error:
                self._store.put_aside("blocks", (stored.id,), error)
                if is_changed:                      # by a half of it
                    self.targets.pop(key, None)
                damaged.add(key)
                is_damaged = True
        if is_damaged:
            self._ask_for_full(useless)
        return changed

    def _ask_for_full(self, useless: Iterable[int]) -> None:
        """What is in the store is damaged: all agents are to begin anew, without these rows."""
        for agent in self.agents.values():
            agent.run = ""
        self._store.drop(useless, {node: msgspec.json.encode(agent)
                                   for node, agent in self.agents.items()})

    def _take_block(self, target: CorrectedTarget, block: Any, row: BlockRow) -> bool:
        """Let a target have one of its blocks, which is kept as `row`; was it a reading's last?"""
        taken = target.take(block, row.node, row.boot_id, row.full, row.ahead, row.kernel_ahead)
        head = block.rows().head
        if head.ended and not head.unreadable:
            if taken:
                self.lines.take(target, self.job_of, row.slot, self._pause_of(row.node))
            self._slots[target.file_system, target.target] = row.slot
        return bool(head.ended)

    def _target(self, key: _Key) -> CorrectedTarget:
        target = self.targets.get(key)
        if target is None:
            target = self.targets[key] = CorrectedTarget(self._job_ids, *key)
        return target

    # -- sweeps ----------------------------------------------------------------------------------

    def take(self, taken: "Received", node: str) -> dict[str, Any]:
        """Take a message of the storage server `node`; the answer."""
        if not self._is_whole:
            self.reload()
        now, message = self._now(), taken.head
        agent, answer = following(self.agents.get(node) or AgentState(), taken, node, now)
        if agent is None:
            return answer
        # Those of one sweep go together: what the last one had counts until this one is whole.
        mine = self._fresh.setdefault(node, set())
        if message.seq == 1:
            mine.clear()
        read = targets_of(taken)
        others = {key: owner for key in read if (owner := self._owner(key, node, now))}
        mine.update(key for key in read if key not in others)
        # An agent that has not yet heard of our clock may have planned in the future.
        slot = min(float(message.slot), now)
        if message.last:
            agent.slot, agent.targets = slot, sorted(mine)
            mine.clear()
        if others:              # not its blocks alone: the next message must bring everything again
            agent.run = ""
        # An agent that had not heard of our clock tells of it as soon as it has.
        ahead = taken.clock_ahead_s if message.read_ahead_s is None else message.read_ahead_s
        if isinstance(taken, clients.ReceivedClients):
            self._take_clients(taken, agent, slot, ahead, bool(others))
        else:
            self._take_sweep(taken, agent, slot, ahead, others)
        if others:
            what = ", ".join(f"{'-'.join(key)} ({owner})" for key, owner in sorted(others.items()))
            return {"taken": False, "want": "full",
                    "why": f"another agent reads the same targets: {what}; stop one of them, "
                           f"unless they have just moved"}
        if self.relays is not None:
            self.relays.heard(taken, ahead, self.clients)
        return {"taken": True, "why": ""}

    def _take_sweep(self, taken: sweep.ReceivedSweep, agent: AgentState, slot: float, ahead: float,
                    others: Container[_Key]) -> None:
        """Take what a message says of job_stats, but of the targets of `others`."""
        node = taken.head.node
        blocks = [(key, block, BlockRow.of(node, taken, slot, ahead, block.head, kept))
                  for block, kept in taken.blocks
                  if (key := (block.head.file_system, block.head.target)) not in others]
        logged = [LoggedRow(*key, encoded_row(row)) for key, _, row in blocks]
        self._store.add(node, msgspec.json.encode(agent), logged)
        self.agents[node] = agent
        for (key, block, row), (*_, body) in zip(blocks, logged):
            self.checkpoints.add(key, len(body))
            target = self._target(key)
            if self._take_block(target, block, row):
                self.lives.note(target.changed(), slot)

    def _take_clients(self, taken: clients.ReceivedClients, agent: AgentState, slot: float,
                      ahead: float, are_others: bool) -> None:
        """Take what a message says of clients, unless targets of others are in its sums."""
        node = taken.head.node
        self._store.add(node, msgspec.json.encode(agent), ())
        self.agents[node] = agent
        if not are_others:
            self.clients.take(taken, node, slot, ahead, agent.first)

    def _owner(self, key: _Key, node: str, now: float) -> str:
        """The other storage server whose agent reads this target now; ""."""
        target = self.targets.get(key)
        owner = target.node if target is not None else self.clients.reader_of(*key)
        agent = self.agents.get(owner) if owner and owner != node else None
        if agent is None or now - agent.heard >= 2 * agent.every + UP_S:
            return ""                               # it is not up
        return owner or "" if key in agent.targets else ""

    # -- questions ---------------------------------------------------------------------------------

    def age_s(self, target: CorrectedTarget) -> Optional[float]:
        """Seconds since a target was last read to its end, by our clock; None: it never was."""
        at = self._slots.get((target.file_system, target.target))
        if at is None:                                      # before the server was started
            at = target.swept_until
        return None if at is None else max(0.0, self._now() - at)

    def is_overdue(self, target: CorrectedTarget) -> bool:
        """Whether a target's last reading is older than two sweeps: its numbers may be too low."""
        age_s = self.age_s(target)
        return age_s is None or age_s > 2 * self._pause_of(target.node) + LATE_S

    def _pause_of(self, node: Optional[str]) -> float:
        """Seconds between two sweeps of a storage server."""
        return self.agents.get(node or "", AgentState()).every

    # -- what there is to do -----------------------------------------------------------------------

    async def work(self, on_settled: "OnSettled") -> None:
        """Go on for ever; `on_settled(jobs)`: {job: Facts or None} whose totals are final now."""
        while True:
            try:
                if not self._is_whole:
                    self.reload()
                self.end_sweep()
                self.lives.ask_in_turn()
                self.clients.names.look()
                await self.lives.look(self.swept_until(), on_settled, self.forget)
                while self.checkpoints.step() or self.clients.step() or self.lines.step():
                    await asyncio.sleep(0)
            except StateError as error:
                self._store.trouble.say(error)
                await asyncio.sleep(5)
            except Exception:
                log.exception("internal error; please report: in the harvest")
                await asyncio.sleep(5)
            await asyncio.sleep(_LOOK_EVERY_S)

    def end_sweep(self) -> None:
        """Give the sinks the sweep that is complete, or as complete as it will be."""
        if self.relays is not None:
            self.relays.catch_up(self.agents, self.clients)
        now = self._now()
        self._done = min(self._done, now)           # the clock may have been set back
        up, pacing = those_up(self.agents, now)
        if not up:
            return
        every = min(agent.every for agent in pacing)
        slot = min(max(agent.slot for agent in pacing), now) // every * every
        if slot <= self._done:
            return
        missing = [agent for agent in up if not agent.has_sent(slot)]
        # Not for longer than a pause, nor again for an agent that was not in the last sweep.
        self._waits_since = min(self._waits_since or now, now)
        if now - self._waits_since < _WAITS * every and any(
                agent.has_sent(self._done or slot - every) for agent in missing):
            return
        if now < slot + every / 2 and not self.lives.all_asked():
            return              # in a moment: databases would have new jobs under two names
        self._done, self.lives.has_news, self._waits_since = slot, True, None
        self.lives.keep()
        self.sweep = SiteSweep(slot, every, not missing, [
            target for key, target in self.targets.items() if self._slots.get(key, 0.0)
            >= slot // (pause := self._pause_of(target.node)) * pause])
        servers: dict[str, set[str]] = {}
        for target in self.sweep.targets:
            servers.setdefault(target.file_system, set()).update(filter(None, (target.node,)))
        self.clients.end_sweep(slot, every, not missing, self._pause_of, servers)
        for sink in self.sinks:
            try:
                sink.sweep(self.sweep, self)
            except Exception:
                log.exception("internal error; please report: a sweep was not written")

    def swept_until(self) -> float:
        """The moment up to which sweeps of all storage servers have come."""
        now = self._now()
        # By the slot: an agent's clock may have been wrong when it read.
        reads = (min(target.swept_until, self._slots.get(key, now))
                 for key, target in self.targets.items() if target.swept_until is not None)
        return min((at for at in reads if now - at < _GONE_S), default=0.0)

    def forget(self, ids: list[str], bodies: dict[str, bytes]) -> None:
        """
        Let the targets and the sinks forget these ids; `bodies`: {job: what is kept of it}, of jobs
        that are settled; StateError.
        """
        wanted = set(ids)
        known = {key: sorted(wanted.intersection(target.ids()))
                 for key, target in self.targets.items()}
        self._store.settle(bodies, [LoggedRow(*key, encoded_row(BlockRow(forget=some)))
                                    for key, some in known.items() if some])
        for key, some in known.items():
            if some:
                self.targets[key].forget(some)
        for sink in self.sinks:
            sink.forget(ids)

    def close(self) -> None:
        """Before an orderly end."""
        if self._is_whole:
            self.checkpoints.close()
            self.clients.close()

    def forget_before(self, moment: float) -> None:
        """Remove what was counted for jobs that were settled before this moment."""
        self._store.forget(moment)


def answer_to(harvest: Harvest, message: Union[sweep_json.JsonSweep, sweep_decoder.PackedSweep],
              caller: "Caller",
              decoded: "Callable[[Any, int], Received]" = sweep_decoder.decoded_sweep
              ) -> dict[str, Any]:
    """
    The answer to a message of `caller`, of the methods `sweep`, `packed_sweep` and, with its
    decoder, `packed_clients`; WireError.
    """
    if isinstance(message, sweep_json.JsonSweep):
        protocol.check_protocol(message.protocol, "all servers")
        taken: Received = message.received()
    else:
        try:
            taken = decoded(message, harvest.config["server.max_message_bytes"])
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise WireError(protocol.INVALID_PARAMS, str(error)) from None
    if taken.head.node != caller.node:
        raise WireError(protocol.REFUSED,
                        "the sweep is from another storage server than its header")
    try:
        return harvest.take(taken, taken.head.node)
    except StateError as error:
        raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
