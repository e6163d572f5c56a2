"""
The harvest, on the site's server: sweeps of all storage servers -> what each job did there.

    message  ->  its blocks in the store  ->  CorrectedTarget, corrected  ->  the agent is answered
    the sweep of one moment has come from all agents that were in the last one, or the next is due
             ->  a Sweep: rates for screens and sinks, the lives of jobs (job_lifecycle.py)
    a job is settled  ->  its totals in the store; the targets forget it; its record is made

A target's state is kept now and then (a checkpoint), and what came since then is replayed after a
restart: each message is taken once, or not at all.  What is replayed is bounded by what the states
themselves take, and an orderly end leaves little of it.
"""

import asyncio
import logging
import os
import shutil
import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional, Union

import msgspec

from iostats import schedulers
from iostats.base.config import LONGEST_PAUSE_S
from iostats.base.errors import ConfigError, IostatsError, StateError, WireError, one_line
from iostats.base.job_facts import ENDED, Facts
from iostats.lustre.job_tags import Form
from iostats.lustre.metrics import metrics_of
from iostats.site.harvest_store import Logged, SweepStore
from iostats.site.job_lifecycle import ACTIVE, QUIET, RUNNING, SETTLED, after, event
from iostats.site.job_times import JobTimes
from iostats.site.resets.job_ids import JobIds
from iostats.site.resets.target import CorrectedTarget
from iostats.site.store import damage_reported
from iostats.totals.delta import Delta
from iostats.totals.file_system import FileSystem
from iostats.wire import protocol
from iostats.wire.messages import sweep, sweep_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.server.rpc_server import Caller
    from iostats.site.store import Store

log = logging.getLogger("iostats")

_LOOK_EVERY_S = 0.25
_WAITS = 0.9                    # of a pause: for an agent that was in the last sweep
_LATE_S = 5.0                   # two pauses and so long after a reading, the next one is overdue
_UP_S = 5.0                   # some pauses and so long after its last message, an agent is not up
_LIVES_EVERY_S = 15.0           # all lives are looked through without news; with news at once
_ASK_EVERY_S, _ASK_BUSY_EVERY_S = 60.0, 600.0   # what does I/O is evidently running
_MOST_JOBS_ASKED = 200                          # in one command
_WARN_EVERY_S = 3600.0
_MOST_SETTLED = 200                             # between two looks at the network
_GONE_S = 86400.0               # an agent that is silent for longer keeps no job from settling
_CLEANUP_S = 600.0              # of a target that does not tell; Lustre's default
_CHECKPOINT_BYTES = 1 << 20     # of one target's blocks at the most
_REPLAY_BYTES = 64 << 20        # and of all, where their states are smaller,
_LEAST_BYTES = 4096             # but a state is not worth it for less
_CLOSES_WITHIN_S = 20.0         # systemd kills after 90
_STEP_TARGETS, _STEP_BYTES = 64, 1 << 20        # checkpoints between two looks at the network
_MOST_PAST = 16                 # runs of an agent that are known not to come again
_KEEP_EVERY_S = 60.0            # a life that just goes on
_DAMAGED = "what was counted before is damaged in the server's store, and was put aside"

Sweep = namedtuple("Sweep", "slot every_s complete targets")
Sweep.__doc__ = """
What all storage servers have seen at one moment.

Attributes:
    slot: that moment, seconds since 1970.
    every_s: seconds from one sweep to the next: the shortest pause of an agent that is up.
    complete: every agent that is up has sent its part.
    targets: [CorrectedTarget] that have been read for it; for an agent with a longer pause, for the
        last one that it takes part in.
"""

Part = namedtuple("Part", "final ids began ended file_systems notes lower_bound")
Part.__doc__ = """
What the storage servers counted for one job.

Attributes:
    final: the job is settled: nothing more will come.
    ids: what it is called in job_stats.
    began, ended: seconds since 1970, of the first and the last sweep that has seen it.
    file_systems: {name: filesystem.FileSystem}, with Deltas of the source "job_stats" alone.
    notes: what may be missing on file systems where nothing was seen of it: this alone makes no
        number of the others a lower bound.
    lower_bound: it was seen nowhere, or what was known is lost.
"""


_Key = tuple[str, str]                          # file system, target
_Times = Mapping[str, tuple[Optional[float], Optional[float]]]
_OnSettled = Callable[[dict[str, Optional[Facts]]], None]


class _Agent(msgspec.Struct):
    """What is known of one storage server's agent."""

    run: str = ""
    seq: int = 0
    past: list[str] = []            # runs before this one: a copy of theirs may be on its way
    slot: float = 0.0               # of its last whole sweep
    every: float = 60.0
    clock_ahead_s: float = 0.0
    heard: float = 0.0
    targets: list[tuple[str, str]] = []         # of its last whole sweep

    def has_sent(self, slot: float) -> bool:
        """Whether its part of the sweep of `slot` has come; a longer pause has fewer sweeps."""
        return self.slot >= slot // self.every * self.every


class _Life(msgspec.Struct):
    """One job that is not settled; times in seconds since 1970."""

    first: float
    last: float
    state: str = RUNNING
    over_at: Optional[float] = None
    ids: list[Any] = []
    facts: dict[str, Any] = {}
    asked_at: float = 0.0
    kept: float = 0.0               # `last`, as it is on the disk


class _Row(msgspec.Struct, omit_defaults=True):
    """One row of `blocks`: a block as it came, or ids that are to be forgotten."""

    node: str = ""
    boot_id: str = ""
    full: bool = False
    slot: float = 0.0
    ahead: float = 0.0              # of the storage server's clock, when it was read
    kernel_ahead: Optional[float] = None    # the same of its kernel's, which may have been set back
    block: Optional[sweep.Block] = None        # of the method `sweep`
    packed: bytes = b""                         # of `packed_sweep`
    forget: list[Any] = []


class _Saved(msgspec.Struct):
    """One row of `harvests`."""

    ids: list[Any]
    began: float
    ended: float
    file_systems: dict[str, Any]
    notes: list[Any] = []
    lower_bound: Optional[bool] = None      # None: of a release that marked whatever had notes


_row = msgspec.msgpack.Encoder().encode
_agent_of = msgspec.json.Decoder(_Agent).decode
_life_of = msgspec.json.Decoder(_Life).decode
_saved_of = msgspec.json.Decoder(_Saved).decode
# Rows of the store, in words.
_CALLED = {"agents": "what is known of the agent", "targets": "the saved entries",
           "blocks": "a part of a sweep, row", "lives": "what is known of job",
           "harvests": "what was counted for job"}
_row_of = msgspec.msgpack.Decoder(_Row).decode


class Harvest:
    """
    Receives sweeps and answers for them.

    Attributes:
        targets: {(file system, target): CorrectedTarget}.
        sweep: the last Sweep, or None.
        agents: {node: what is known of its agent}: slot, every, heard, clock_ahead_s.
        scheduler: name of the batch system that is asked of the jobs; "" for none.
        sinks: what gets every Sweep, by `sweep(sweep, harvest)`; and `forget(ids)`.
    """

    def __init__(self, store: "Store", config: "Config", now: Callable[[], float],
                 sinks: Iterable[Any] = ()) -> None:
        self.config, self._now, self.sinks = config, now, list(sinks)
        self._store = SweepStore(store)
        self._warned: dict[str, float] = {}         # what was logged, and when
        self.scheduler = _scheduler_of(config)
        try:
            self._form = Form(config["harvest.job_id"], self.scheduler)
        except ValueError as error:
            raise ConfigError(f"{config.origin['harvest.job_id']}: [harvest] job_id: "
                              f"{error}") from None
        self.reload()

    def reload(self) -> None:
        """Begin with what the store says; StateError, and then it is to be tried again first."""
        self._is_whole = False          # no half of it is added to, or written as the whole
        with damage_reported(self._store.path):
            self._reload()
        self._is_whole = True

    def _reload(self) -> None:
        self.job_ids, self._done = JobIds(), 0.0
        self.targets: dict[_Key, CorrectedTarget] = {}
        self.sweep: Optional[Sweep] = None
        self._job_of: dict[str, str] = {}
        self._strangers: dict[str, float] = {}
        self._fresh: dict[str, set[_Key]] = {}
        # A slot, and what is noted of it already.
        self._noted: tuple[float, set[str]] = (0.0, set())
        self._slots: dict[_Key, float] = {}     # of the last whole reading
        self._waits_since: Optional[float] = None
        self._logged: dict[_Key, int] = {}
        self._sizes: dict[_Key, int] = {}
        self._grown: set[_Key] = set()          # of whose blocks more may have come than should
        self._stirred, self._look_at = True, 0.0
        self._to_ask: list[str] = []
        self._ask_at = 0.0
        self._touched: set[str] = set()
        self._facts: dict[str, Facts] = {}
        self._asking: Optional[asyncio.Future[None]] = None
        now = self._now()
        self.agents = {node: msgspec.structs.replace(agent, heard=now) for node, agent in (
            self._understood("agents", self._store.agents(), _agent_of).items())}
        for agent in self.agents.values():
            agent.every = min(agent.every, LONGEST_PAUSE_S)     # a release before took any
            self._slots.update(dict.fromkeys(agent.targets, agent.slot))
        saved = self._store.targets()
        self.targets = self._understood(
            "targets", saved, lambda state: CorrectedTarget.from_state(self.job_ids, state))
        self._sizes = {key: len(saved[key]) for key in self.targets}
        damaged: set[Any] = saved.keys() - self.targets.keys()
        changed = self._replay(damaged)
        self._lives = self._understood("lives", self._store.lives(), _life_of)
        known = {one for life in self._lives.values() for one in life.ids}
        for target in self.targets.values():
            for one in target.ids():
                if one not in known:
                    self._note_id(one, changed.get(one, now))
        for one, slot in changed.items():
            self._note_id(one, slot)

    def _understood(self, table: str, rows: Mapping[Any, Any],
                    understand: Callable[[Any], Any]) -> dict[Any, Any]:
        """{key: what a row says}; rows that cannot be understood are put aside, and named."""
        found = {}
        for key, body in rows.items():
            names = key if isinstance(key, tuple) else (key,)
            try:
                if not all(isinstance(name, str) for name in names):
                    raise ValueError("its name is no text")
                found[key] = understand(body)
            except Exception as error:              # whatever these bytes do to who reads them
                self._put_aside(table, names, error)
        return found

    def _put_aside(self, table: str, names: tuple[Any, ...], error: Exception,
                   instead: Optional[bytes] = None) -> None:
        log.error("%s: %s of %s: %s; put aside (table damaged)", self._store.path,
                  _CALLED[table], one_line("-".join(map(str, names))), one_line(str(error))[:300])
        self._store.put_aside(table, names, one_line(str(error))[:300], instead)

    def _replay(self, damaged: set[Any]) -> dict[str, float]:
        """
        Take what came since the checkpoints: {id: slot of its change}, of what was not forgotten.

        What came of `damaged` targets says nothing without what it follows: up to the next full
        sweep, which is asked for.
        """
        changed: dict[str, float] = {}
        useless, is_damaged = [], bool(damaged)
        for kept in self._store.blocks():
            key, is_changed = (kept.file_system, kept.target), False
            try:
                if not all(isinstance(name, str) for name in key):
                    raise ValueError("the name of its target is no text")
                row = _row_of(kept.body)
                block = sweep_reader.rows_of(row.packed) if row.packed else row.block
                if block is None and not row.forget:
                    raise ValueError("it says nothing")
                if row.full:
                    damaged.discard(key)
                elif key in damaged:
                    useless.append(kept.id)
                    continue
                target, is_changed = self._target(key), True
                if block is None:
                    target.forget(row.forget)
                    for name in row.forget:
                        changed.pop(name, None)
                else:
                    target.take(block, row.node, row.boot_id, row.full, row.ahead,
                                row.kernel_ahead)
                    head = block.rows().head
                    if head.ended and not head.unreadable:
                        self._slots[key] = row.slot
                    if head.ended:
                        changed.update(dict.fromkeys(target.changed(), row.slot))
                self._log(key, kept.body)
            except Exception as error:
                self._put_aside("blocks", (kept.id,), error)
                if is_changed:                      # by a half of it
                    self.targets.pop(key, None)
                damaged.add(key)
                is_damaged = True
        if is_damaged:
            for agent in self.agents.values():
                agent.run = ""
            self._store.drop(useless, {node: msgspec.json.encode(agent)
                                       for node, agent in self.agents.items()})
        return changed

    def _target(self, key: _Key) -> CorrectedTarget:
        target = self.targets.get(key)
        if target is None:
            target = self.targets[key] = CorrectedTarget(self.job_ids, *key)
        return target

    def _log(self, key: _Key, body: bytes) -> None:
        self._logged[key] = self._logged.get(key, 0) + len(body)
        self._grown.add(key)

    # -- sweeps ----------------------------------------------------------------------------------

    def take(self, taken: sweep.Taken, node: str) -> dict[str, Any]:
        """Take a message of the storage server `node`; the answer."""
        if not self._is_whole:
            self.reload()
        now, message = self._now(), taken.head
        agent = self.agents.get(node) or _Agent()
        if message.run == agent.run and message.seq <= agent.seq:
            return {"taken": True, "why": "this message was taken before"}
        follows = message.run == agent.run and message.seq == agent.seq + 1
        # The first message of a past run is a copy that was late: it would turn the chain back.
        begins = message.full and message.seq == 1 and message.run not in agent.past
        if not follows and not begins:
            return {"taken": False, "want": "full",
                    "why": f"another agent sends as {node!r}: stop one of them, or name it by "
                           f"--node" if message.run in agent.past else
                           f"expected message {agent.seq + 1} of run {agent.run or '-'}, got "
                           f"{message.seq} of run {message.run}"}
        agent = msgspec.structs.replace(
            agent, run=message.run, seq=message.seq, every=message.every, heard=now,
            clock_ahead_s=taken.clock_ahead_s,
            past=agent.past if follows else [*agent.past, agent.run][-_MOST_PAST:],
            targets=agent.targets if follows else [])
        # Those of one sweep go together: what the last one had counts until this one is whole.
        mine = self._fresh.setdefault(node, set())
        if not follows:
            mine.clear()
        blocks, others = [], {}
        for block, kept in taken.blocks:
            key = (block.head.file_system, block.head.target)
            owner = self._owner(key, node, now)
            if owner:
                others[key] = owner
            else:
                blocks.append((key, block, kept))
                mine.add(key)
        # An agent that has not yet heard of our clock may have planned in the future.
        slot = min(float(message.slot), now)
        if message.last:
            agent.slot, agent.targets = slot, sorted(mine)
            mine.clear()
        # An agent that had not heard of our clock tells of it as soon as it has.
        ahead = taken.clock_ahead_s if message.read_ahead_s is None else message.read_ahead_s
        rows = [Logged(*key, _row(_row_of_block(node, taken, slot, ahead, kept)))
                for key, _, kept in blocks]
        if others:
            # Not its blocks alone: the next message must bring everything again.
            agent.run = ""
        self._store.add(node, msgspec.json.encode(agent), rows)
        self.agents[node] = agent
        for (key, block, _), row in zip(blocks, rows):
            self._log(key, row.body)
            target = self._target(key)
            target.take(block, node, message.boot_id, message.full, ahead, taken.clock_ahead_s)
            if block.head.ended and not block.head.unreadable:
                self._slots[key] = slot
            if block.head.ended:
                self._note(target.changed(), slot)
        if others:
            what = ", ".join(f"{fs}-{target} ({owner})"
                             for (fs, target), owner in sorted(others.items()))
            return {"taken": False, "want": "full",
                    "why": f"another agent reads the same targets: {what}; stop one of them, "
                           f"unless they have just moved"}
        return {"taken": True, "why": ""}

    def _owner(self, key: _Key, node: str, now: float) -> str:
        """Who else reads this target just now; ""."""
        target = self.targets.get(key)
        owner = target.node if target is not None else None
        if not owner or owner == node:
            return ""
        agent = self.agents.get(owner)
        if agent is None or now - agent.heard >= 2 * agent.every + _UP_S:
            return ""                               # it is not up
        return owner if key in agent.targets else ""

    def _note(self, ids: Iterable[str], slot: float) -> None:
        """These ids have changed in the sweep of `slot`."""
        if slot != self._noted[0]:
            self._noted = (slot, set())
        new = set(ids) - self._noted[1]
        self._noted[1].update(new)
        for one in new:
            self._note_id(one, slot)

    def _note_id(self, job_id: str, slot: float) -> None:
        """An id has changed in the sweep of `slot`."""
        job = self.job_of(job_id)
        if not job:
            self._strangers[job_id] = slot
            return
        life = self._lives.get(job)
        if life is None:
            life = self._lives[job] = _Life(slot, slot)
            self._ask_at = 0.0                      # at the next look
        if job_id not in life.ids:
            life.ids.append(job_id)
            self._touched.add(job)
        life.last = max(life.last, slot)
        if life.state in (RUNNING, QUIET):
            life.state = after(life.state, ACTIVE)
        if life.last - life.kept >= _KEEP_EVERY_S:
            self._touched.add(job)                  # its life is to be kept

    # -- questions ---------------------------------------------------------------------------------

    def job_of(self, job_id: str) -> str:
        """The job that an id in job_stats is of; "" for none."""
        job = self._job_of.get(job_id)
        if job is None:
            job = self._job_of[job_id] = self._form.job_of(job_id)
        return job

    def is_job(self, job_id: str) -> bool:
        """False for cp.0, kworker and the like."""
        return bool(self.job_of(job_id))

    def facts(self, job_id: str) -> Optional[Facts]:
        """jobfacts.Facts of the job that an id is of; None where nobody has told."""
        job = self.job_of(job_id)
        facts = self._facts.get(job)
        if facts is None:
            life = self._lives.get(job)
            if life is not None and life.facts:
                facts = self._facts[job] = Facts(**life.facts)
        return facts

    def state(self, job_id: str) -> Optional[str]:
        """The state of the job that an id is of, jobstate.RUNNING and so on; None for no job."""
        life = self._lives.get(self.job_of(job_id))
        return life.state if life is not None else None

    def age_s(self, target: CorrectedTarget) -> Optional[float]:
        """Seconds since a target was last read to its end, by our clock; None: it never was."""
        at = self._slots.get((target.file_system, target.target))
        if at is None:                                      # before the server was started
            at = target.swept_until
        return None if at is None else max(0.0, self._now() - at)

    def is_overdue(self, target: CorrectedTarget) -> bool:
        """Whether a target's last reading is older than two sweeps: its numbers may be too low."""
        age_s = self.age_s(target)
        return age_s is None or age_s > 2 * self._pause(target) + _LATE_S

    def _pause(self, target: CorrectedTarget) -> float:
        """Seconds between two readings of a target."""
        agent = self.agents.get(target.node or "")
        return agent.every if agent is not None else _Agent().every

    def part(self, job: str, began: Optional[float] = None,
             ended: Optional[float] = None) -> Optional[Part]:
        """
        The Part of `job` (as job_stats have it), or None when nothing is known of it.

        `began`, `ended`: when it ran, where that is known, in seconds since 1970.
        """
        saved = self._saved(job)
        live = self._parts({job: (began, ended)}).get(job)
        if saved is None or live is None:
            return saved or live
        return _joined(saved, live)

    def _saved(self, job: str) -> Optional[Part]:
        body = self._store.harvest_of(job)
        if body is None:
            return None
        try:
            saved = _saved_of(body)
            file_systems = {name: FileSystem.from_state(state, str)
                            for name, state in saved.file_systems.items()}
        except Exception as error:                  # whatever these bytes do to who reads them
            now = self._now()
            saved, file_systems = _Saved([], now, now, {}, [_DAMAGED], True), {}
            self._put_aside("harvests", (job,), error, msgspec.json.encode(saved))
        return Part(True, saved.ids, saved.began, saved.ended, file_systems, saved.notes,
                    bool(saved.notes) if saved.lower_bound is None else saved.lower_bound)

    def _parts(self, times: _Times, final: bool = False) -> dict[str, Part]:
        """{job: Part} of {job: (began, ended)} that are not settled, or just being (`final`)."""
        lives = {job: self._lives[job] for job in times if job in self._lives}
        found: dict[str, dict[str, FileSystem]] = {job: {} for job in lives}
        # job -> (file system, why) -> {target}
        notes: dict[str, dict[tuple[str, str], set[str]]] = {job: {} for job in lives}
        wanted = {one: job for job, life in lives.items() for one in life.ids}
        ran = {job: self._times(job, *times[job]) for job in lives}
        for (name, tag), target in self.targets.items():
            totals = target.totals(list(wanted))
            for number, one in enumerate(totals.ids):
                job = wanted[one]
                values = _values(totals.counters, number)
                whys = ran[job].lost(target, one, final)
                if values:
                    found[job].setdefault(name, FileSystem()).add(
                        Delta("job_stats", name, tag, "", values, bool(whys), "; ".join(whys),
                              True), tag, {}, {})
                else:
                    for why in whys:
                        notes[job].setdefault((name, why), set()).add(tag)
        parts = {}
        for job, life in lives.items():
            for (name, why), tags in notes[job].items():
                if name in found[job]:              # else nothing was seen of it there
                    for tag in tags:
                        found[job][name].add(Delta("job_stats", name, tag, "", {}, True, why, True),
                                             tag, {}, {})
            elsewhere = [f"{name}: {', '.join(sorted(tags))}: {why}; nothing was seen of the job "
                         f"on {name}"
                         for (name, why), tags in sorted(notes[job].items())
                         if name not in found[job]]
            parts[job] = Part(final, sorted(life.ids), life.first, life.last, found[job],
                              elsewhere, bool(elsewhere) and not found[job])
        return parts

    def _times(self, job: str, began: Optional[float],
               ended: Optional[float]) -> JobTimes:
        """When a job ran, as far as anybody knows."""
        life, cleanup_s = self._lives[job], self._cleanup_s()
        return JobTimes(life.first, life.last, began or life.facts.get("started") or None,
                        ended or life.facts.get("ended") or life.over_at, cleanup_s)

    # -- the life of jobs --------------------------------------------------------------------------

    async def work(self, on_settled: "_OnSettled") -> None:
        """
        Go on for ever; `on_settled(jobs)`: {job: Facts or None} whose totals are final now.
        """
        while True:
            try:
                if not self._is_whole:
                    self.reload()
                self._end_sweep()
                self._ask_in_turn()
                if self._stirred or self._now() >= self._look_at:
                    await self._settle(on_settled)
                    self._stirred, self._look_at = False, self._now() + _LIVES_EVERY_S
                while self._checkpoint():
                    await asyncio.sleep(0)
            except StateError as error:
                log.error("%s", error)
                await asyncio.sleep(5)
            except Exception:
                log.exception("internal error; please report: in the harvest")
                await asyncio.sleep(5)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _end_sweep(self) -> None:
        """Give out the sweep that is whole, or as whole as it will be: news for the lives."""
        now = self._now()
        self._done = min(self._done, now)           # the clock may have been set back
        up = [agent for agent in self.agents.values()
              if now - agent.heard < 3 * agent.every + _UP_S and agent.slot]
        if not up:
            return
        every = min(agent.every for agent in up)
        slot = min(max(agent.slot for agent in up), now) // every * every
        if slot <= self._done:
            return
        missing = [agent for agent in up if not agent.has_sent(slot)]
        # Nobody waits longer than a pause, nor again for one that was not in the last sweep.
        self._waits_since = min(self._waits_since or now, now)
        if now - self._waits_since < _WAITS * every and any(
                agent.has_sent(self._done or slot - every) for agent in missing):
            return
        if self.scheduler and now < slot + every / 2 and not all(
                life.asked_at or life.facts for life in self._lives.values()):
            return              # in a moment: databases would have new jobs under two names
        self._done, self._stirred, self._waits_since = slot, True, None
        if self._touched:
            lives = {job: self._lives[job] for job in self._touched if job in self._lives}
            for life in lives.values():
                life.kept = life.last
            if lives:
                self._store.keep_lives({job: msgspec.json.encode(life)
                                        for job, life in lives.items()})
            self._touched.clear()
        self.sweep = Sweep(slot, every, not missing,
                           [target for key, target in self.targets.items()
                            if self._slots.get(key, 0.0) >= slot // (pause := self._pause(target))
                            * pause])
        for sink in self.sinks:
            try:
                sink.sweep(self.sweep, self)
            except Exception:
                log.exception("internal error; please report: a sweep was not written")

    def _ask_in_turn(self) -> None:
        """Ask the batch system for some jobs, while nobody waits for that."""
        if not self.scheduler or (self._asking is not None and not self._asking.done()):
            return
        now = self._now()
        if not self._to_ask and now >= self._ask_at:
            self._ask_at = now + _LIVES_EVERY_S
            for job, life in self._lives.items():
                busy = life.facts and life.state == RUNNING and now - life.last < _ASK_EVERY_S
                if life.over_at is None and now - life.asked_at >= (
                        _ASK_BUSY_EVERY_S if busy else _ASK_EVERY_S):
                    self._to_ask.append(job)
        if self._to_ask:
            self._asking = asyncio.ensure_future(self._ask(self._to_ask[:_MOST_JOBS_ASKED]))
            del self._to_ask[:_MOST_JOBS_ASKED]

    async def _ask(self, jobs: list[str]) -> None:
        asked_at = self._now()
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                None, schedulers.named(self.scheduler).facts, schedulers.askable(jobs))
        except IostatsError as error:
            self.warn_hourly(error)
            found = None
        except Exception:
            log.exception("internal error; please report: no facts from %s", self.scheduler)
            found = None
        for job in jobs:
            life = self._lives.get(job)
            if life is None:
                continue
            life.asked_at = asked_at
            facts = (found or {}).get(job)
            if facts is not None:
                self.learn(job, facts)
            elif found is not None and life.facts:
                life.over_at = asked_at             # it knew of the job before
                self._stirred = True
            self._touched.add(job)

    def warn_hourly(self, error: IostatsError) -> None:
        """Log why the batch system does not answer: it is asked every few seconds."""
        now, key = time.monotonic(), "".join(c for c in str(error) if not c.isdigit())
        if key not in self._warned or now - self._warned[key] >= _WARN_EVERY_S:
            self._warned = {one: at for one, at in self._warned.items()
                            if now - at < _WARN_EVERY_S}
            self._warned[key] = now
            log.warning("%s (said once an hour)", error)

    def learn(self, job: str, facts: Facts) -> None:
        """What the batch system says of a job."""
        life = self._lives.get(job)
        if life is not None:
            life.facts = {**facts._asdict(), "comments": {}, "steps": []}
            if facts.state == ENDED and life.over_at is None:
                life.over_at = facts.ended or self._now()
                self._stirred = True
            self._facts.pop(job, None)
            self._touched.add(job)

    def _swept_until(self) -> float:
        """The moment up to which all storage servers have told what they saw."""
        now = self._now()
        # By the slot: an agent's clock may have been wrong when it read.
        reads = [min(target.swept_until, self._slots.get(key, now))
                 for key, target in self.targets.items() if target.swept_until is not None]
        return min((at for at in reads if now - at < _GONE_S), default=0.0)

    def _cleanup_s(self) -> float:
        return max((target.cleanup_s or _CLEANUP_S for target in self.targets.values()),
                   default=_CLEANUP_S)

    async def _settle(self, on_settled: "_OnSettled") -> None:
        """Move the lives on, and let go of those that are over."""
        until, cleanup_s, calm = self._swept_until(), self._cleanup_s(), []
        for job, life in self._lives.items():
            if until - life.last < cleanup_s and life.over_at is None:
                continue
            while (what := event(life.state, until, life.last, life.over_at, bool(life.facts),
                                 cleanup_s)) is not None:
                life.state = after(life.state, what)
                self._touched.add(job)
                if life.state == SETTLED:
                    calm.append(job)
                    break
        for at in range(0, len(calm), _MOST_SETTLED):
            self._let_go(calm[at:at + _MOST_SETTLED], on_settled)
            await asyncio.sleep(0)
        idle = [one for one, last in self._strangers.items() if until - last >= 3 * cleanup_s]
        if idle:
            self._forget(idle, {})
            for one in idle:
                del self._strangers[one]

    def _let_go(self, jobs: list[str], on_settled: "_OnSettled") -> None:
        """Keep the totals of some jobs on the disk, and forget them here."""
        times = {job: (None, None) if self._lives[job].facts else self._store.times_of(job)
                 for job in jobs}
        parts, bodies = self._parts(times, True), {}
        for job, part in parts.items():
            saved = self._saved(job)
            whole = part if saved is None else _joined(saved, part)
            bodies[job] = msgspec.json.encode(_Saved(
                whole.ids, whole.began, whole.ended,
                {name: fs.state() for name, fs in whole.file_systems.items()}, whole.notes,
                whole.lower_bound))
        # In this order: a kill in between leaves a record too many, and none too few.
        try:
            on_settled({job: self.facts(self._lives[job].ids[0]) for job in jobs})
            self._forget([one for job in jobs for one in self._lives[job].ids], bodies)
        except StateError:
            for job in jobs:
                self._lives[job].state = QUIET       # once more, later
            raise
        for job in jobs:
            del self._lives[job]
            self._facts.pop(job, None)

    def _forget(self, ids: Iterable[str], bodies: dict[str, bytes]) -> None:
        wanted = set(ids)
        known = {key: sorted(wanted.intersection(target.ids()))
                 for key, target in self.targets.items()}
        self._store.settle(bodies, [Logged(*key, _row(_Row(forget=some)))
                                    for key, some in known.items() if some])
        for key, some in known.items():
            if some:
                self.targets[key].forget(some)
        for one in ids:
            self._job_of.pop(one, None)
        for sink in self.sinks:
            sink.forget(ids)

    def _checkpoint(self) -> bool:
        """
        Let states of targets stand for their blocks, before there are too many of these: one step.

        False when there is no more to do.
        """
        most = max(_LEAST_BYTES, min(_CHECKPOINT_BYTES,
                                     _REPLAY_BYTES // max(1, len(self.targets))))
        due: list[_Key] = []
        size = 0
        while self._grown and len(due) < _STEP_TARGETS and size < _STEP_BYTES:
            key = self._grown.pop()
            if self._logged[key] > max(most, self._sizes.get(key, 0)):
                due.append(key)
                size += self._logged[key]
        try:
            self._keep_states(due)
        except StateError:
            self._grown.update(due)
            raise
        return bool(self._grown)

    def _keep_states(self, keys: list[_Key]) -> None:
        if keys:
            states = {key: self.targets[key].state() for key in keys}
            self._store.checkpoint(states)
            for key, state in states.items():
                self._sizes[key], self._logged[key] = len(state), 0

    def close(self) -> None:
        """
        Before an orderly end: leave the next start little to replay, as far as there is time.

        Where little has come since the last checkpoint, to write the state would take longer.
        """
        if not self._is_whole:
            return
        ends_at = time.monotonic() + _CLOSES_WITHIN_S
        due = sorted((key for key, size in self._logged.items()
                      if size > self._sizes.get(key, 0) // 4), key=self._logged.__getitem__)
        try:
            while due and time.monotonic() < ends_at:
                self._keep_states(due[-_STEP_TARGETS:])
                del due[-_STEP_TARGETS:]
        except StateError as error:
            log.error("%s", error)

    def forget_before(self, moment: float) -> None:
        """Remove what is older than the site wants to keep."""
        self._store.forget(moment)


def message_of(harvest: Harvest, message: Union[sweep.Sweep, sweep_reader.Packed],
               caller: "Caller") -> dict[str, Any]:
    """The methods `sweep` and `packed_sweep`: a checked message of `caller`; WireError."""
    if isinstance(message, sweep.Sweep):
        protocol.check_protocol(message.protocol, "all servers")
        taken = message.taken()
    else:
        try:
            taken = sweep_reader.message_of(message, harvest.config["server.max_message_bytes"])
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise WireError(protocol.INVALID_PARAMS, str(error)) from None
    if taken.head.node != caller.node:
        raise WireError(protocol.REFUSED, "the sweep is of another server than its header")
    try:
        return harvest.take(taken, taken.head.node)
    except StateError as error:
        raise WireError(protocol.INTERNAL_ERROR, str(error)) from None


def _row_of_block(node: str, taken: sweep.Taken, slot: float, ahead: float,
                  kept: Union[sweep.Block, bytes]) -> _Row:
    row = _Row(node, taken.head.boot_id, taken.head.full, slot, ahead, taken.clock_ahead_s)
    if isinstance(kept, bytes):
        row.packed = kept
    else:
        row.block = kept
    return row


def as_record(part: Part, fold: Callable[[list[str]], str]) -> dict[str, Any]:
    """A Part as the member `harvest` of a record; `fold`: [target] -> text."""
    file_systems = [fs.at_servers(name, fold, not part.final)
                    for name, fs in sorted(part.file_systems.items())]
    return {"final": part.final, "ids": part.ids, "began": part.began, "ended": part.ended,
            "file_systems": file_systems, "notes": part.notes,
            "lower_bound": part.lower_bound or not part.final or any(
                fs["lower_bound"] for fs in file_systems)}


def _joined(a: Part, b: Part) -> Part:
    """Two Parts of one job as one."""
    for name, fs in b.file_systems.items():
        if name in a.file_systems:
            a.file_systems[name].join(fs)
        else:
            a.file_systems[name] = fs
    return Part(a.final and b.final, sorted({*a.ids, *b.ids}), min(a.began, b.began),
                max(a.ended, b.ended), a.file_systems, sorted({*a.notes, *b.notes}),
                a.lower_bound or b.lower_bound)


def _values(counters: dict[str, Any], number: int) -> dict[str, int]:
    """metric -> integer of one entry."""
    values = {}
    for name, column in counters.items():
        samples = int(column.samples[number])
        if samples:
            total = None if column.sums is None else int(column.sums[number])
            values.update(metrics_of(name, column.unit, samples, total, "_rpcs"))
    return values


def _scheduler_of(config: "Config") -> str:
    """The name of the batch system that can be asked here; "" for none."""
    name = config["batch.system"]
    if name:
        return name if name != "none" else ""
    return "slurm" if shutil.which("squeue", path=os.environ.get("PATH", os.defpath)) else ""
