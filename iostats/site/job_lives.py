"""
The jobs that the storage servers see, from the first sweep that shows one until it is settled.

    an id in job_stats has changed      its job lives: it is RUNNING (job_lifecycle.py)
    the batch system is asked in turn   whose it is, and whether it has ended
    nothing comes any more              it is settled: its totals are kept, and it is forgotten

An id that is no job's (cp.0, kworker) has no life, and is forgotten after some silence.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import Any, Optional

import msgspec

from iostats import schedulers
from iostats.base.errors import ConfigError, IostatsError, StateError
from iostats.base.job_facts import ENDED, Facts
from iostats.lustre.job_tags import TagForm
from iostats.schedulers import commands as scheduler_commands
from iostats.site import harvested_job
from iostats.site.job_lifecycle import (
    ACTIVE,
    QUIET,
    RUNNING,
    SETTLED,
    SETTLES_ALONE,
    WRITES_BACK_S,
    due_event,
    next_state,
)
from iostats.site.job_times import JobTimes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iostats.base.config import Config
    from iostats.site.harvest_store import SweepStore
    from iostats.site.harvested_job import HarvestedJob, SettledCounters
    from iostats.site.resets.target import CorrectedTarget

    OnSettled = Callable[[dict[str, Optional[Facts]]], None]
    _Targets = Mapping[tuple[str, str], CorrectedTarget]
    _Forget = Callable[[list[str], dict[str, bytes]], None]

log = logging.getLogger("iostats")

LOOK_EVERY_S = 15.0             # all lives are looked through without news; with news at once
ASK_EVERY_S, ASK_BUSY_EVERY_S = 60.0, 600.0     # what does I/O is evidently running
_MOST_JOBS_ASKED = 200                          # in one command
_WARN_EVERY_S = 3600.0
_MOST_SETTLED = 200                             # between two looks at the network
_CLEANUP_S = 600.0              # of a target that does not tell; Lustre's default
_KEEP_EVERY_S = 60.0            # a life that just goes on


class JobLife(msgspec.Struct):
    """
    One job that is not settled, as it is kept; times in seconds since 1970.

    Attributes:
        first, last: the first and the last sweep that have seen a change of it.
        state: of job_lifecycle.
        began: when its first run began, as the batch system reports; None: unknown.
        over_at: when the batch system was seen to say that it is over.
        ids: what it is called in job_stats.
        facts: what the batch system says, as the dict of a Facts.
        asked_at: when the batch system was asked for it last.
        kept: `last`, as it is on the disk.
    """

    first: float
    last: float
    state: str = RUNNING
    over_at: Optional[float] = None
    ids: list[Any] = []
    facts: dict[str, Any] = {}
    asked_at: float = 0.0
    kept: float = 0.0
    began: Optional[float] = None


_life_of = msgspec.json.Decoder(JobLife).decode


class JobLives:
    """
    The lives of all jobs that are not settled.

    Attributes:
        scheduler: name of the batch system that is asked of the jobs; "" for none.
        has_news: something has come that may move a life on.
    """

    def __init__(self, store: SweepStore, config: Config, now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._warned: dict[str, float] = {}         # what was logged, and when
        self._job_of: dict[str, str] = {}
        self.scheduler = _scheduler_of(config)
        try:
            self._form = TagForm(config["harvest.job_id"],
                              schedulers.job_id_form(self.scheduler))
        except ValueError as error:
            raise ConfigError(f"{config.origin['harvest.job_id']}: [harvest] job_id: "
                              f"{error}") from None

    def reload(self, targets: _Targets, changed: Mapping[str, float]) -> None:
        """
        Begin with what the store says.

        `targets`: as they are in the store; `changed`: {id: slot of its last change} of what was
        replayed.
        """
        self._targets = targets
        self._job_of = {}
        self._no_jobs: dict[str, float] = {}        # id -> slot of its last change
        self._noted: tuple[float, set[str]] = (0.0, set())  # a slot, and what is noted of it
        self.has_news, self._look_at = True, 0.0
        self._to_ask: list[str] = []
        self._ask_at = 0.0
        self._touched: set[str] = set()             # jobs whose lives are to be kept
        self._facts: dict[str, Facts] = {}
        self._asking: Optional[asyncio.Future[None]] = None
        self._lives: dict[str, JobLife] = self._store.understood(
            "lives", self._store.lives(), _life_of)
        known, now = {one for life in self._lives.values() for one in life.ids}, self._now()
        for target in targets.values():
            for one in target.ids():
                if one not in known:
                    self._note_id(one, changed.get(one, now))
        for one, slot in changed.items():
            self._note_id(one, slot)

    # -- what sweeps show --------------------------------------------------------------------------

    def note(self, ids: Iterable[str], slot: float) -> None:
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
            self._no_jobs[job_id] = slot
            return
        life = self._lives.get(job)
        if life is None:
            life = self._lives[job] = JobLife(slot, slot)
            self._ask_at = 0.0                      # at the next look
        if job_id not in life.ids:
            life.ids.append(job_id)
            self._touched.add(job)
        life.last = max(life.last, slot)
        if life.state in (RUNNING, QUIET):
            life.state = next_state(life.state, ACTIVE)
        if life.last - life.kept >= _KEEP_EVERY_S:
            self._touched.add(job)                  # its life is to be kept

    def keep(self) -> None:
        """Write the lives that have changed; StateError."""
        if self._touched:
            lives = {job: self._lives[job] for job in self._touched if job in self._lives}
            for life in lives.values():
                life.kept = life.last
            if lives:
                self._store.keep_lives({job: msgspec.json.encode(life)
                                        for job, life in lives.items()})
            self._touched.clear()

    # -- questions ---------------------------------------------------------------------------------

    def states(self) -> dict[str, str]:
        """{job: job_lifecycle.RUNNING and so on} of all jobs that are not settled."""
        return {job: life.state for job, life in self._lives.items()}

    def job_of(self, job_id: str) -> str:
        """The job that an id in job_stats is of; "" for none."""
        job = self._job_of.get(job_id)
        if job is None:
            job = self._job_of[job_id] = self._form.job_of(job_id)
        return job

    def facts(self, job_id: str) -> Optional[Facts]:
        """Facts of the job that an id is of; None where none are known."""
        job = self.job_of(job_id)
        facts = self._facts.get(job)
        if facts is None:
            life = self._lives.get(job)
            if life is not None and life.facts:
                facts = self._facts[job] = Facts(**life.facts)
        return facts

    def life_of(self, job: str) -> Optional[tuple[str, JobLife]]:
        """(as job_stats have it, its JobLife) of an unsettled job, by that name or users'; None."""
        if job in self._lives:
            return job, self._lives[job]
        return next(((name, life) for name, life in self._lives.items()
                     if life.facts.get("job") == job), None)

    def harvested(self, job: str, began: Optional[float] = None,
                  ended: Optional[float] = None) -> Optional[HarvestedJob]:
        """
        The HarvestedJob of `job` (as job_stats have it), which ran from `began` to `ended` where
        that is known, s since 1970; None when nothing is known of it.
        """
        return self._counted({job: (began, ended)}).get(job) or self._saved(job)

    def settled(self, job: str) -> dict[tuple[str, str], SettledCounters]:
        """{(file system, target): what was counted of a job before it was settled}."""
        saved = self._saved(job)
        return {} if saved is None else harvested_job.counters_by_target(saved)

    def _saved(self, job: str) -> Optional[HarvestedJob]:
        """What was counted for a job that was settled before."""
        body = self._store.harvest_of(job)
        if body is None:
            return None
        try:
            return harvested_job.from_stored(body)
        except Exception as error:                  # whatever these bytes do to who reads them
            saved = harvested_job.damaged(self._now())
            self._store.put_aside("harvests", (job,), error, harvested_job.stored(saved))
            return saved

    def _counted(self, times: Mapping[str, tuple[Optional[float], Optional[float]]],
                 final: bool = False) -> dict[str, HarvestedJob]:
        """
        {job: HarvestedJob} of {job: (began, ended)} that are not settled, or just being (`final`),
        with what was counted before they were settled last.
        """
        lives = {job: self._lives[job] for job in times if job in self._lives}
        saved = {job: found for job in lives if (found := self._saved(job)) is not None}
        cleanup_s = self._cleanup_s()
        live = harvested_job.counted(
            self._targets.values(), {job: life.ids for job, life in lives.items()},
            {job: JobTimes(life.first, life.last, times[job][0] or life.began,
                           times[job][1] or life.facts.get("ended") or life.over_at, cleanup_s,
                           saved[job].ended if job in saved else None)
             for job, life in lives.items()}, final)
        return {job: harvested_job.joined(saved[job], found) if job in saved else found
                for job, found in live.items()}

    def _cleanup_s(self) -> float:
        return max((target.cleanup_s or _CLEANUP_S for target in self._targets.values()),
                   default=_CLEANUP_S)

    # -- the batch system --------------------------------------------------------------------------

    def all_asked(self) -> bool:
        """Whether the batch system was asked for every job."""
        return not self.scheduler or all(life.asked_at or life.facts
                                         for life in self._lives.values())

    def ask_in_turn(self) -> None:
        """Begin to ask the batch system for the jobs that are due; it never waits."""
        if not self.scheduler or (self._asking is not None and not self._asking.done()):
            return
        now = self._now()
        if not self._to_ask and now >= self._ask_at:
            self._ask_at = now + LOOK_EVERY_S
            for job, life in self._lives.items():
                busy = life.facts and life.state == RUNNING and now - life.last < ASK_EVERY_S
                # A job that changes after its end may have been requeued.
                is_over = life.over_at is not None and life.last < life.over_at + WRITES_BACK_S
                if not is_over and now - life.asked_at >= (
                        ASK_BUSY_EVERY_S if busy else ASK_EVERY_S):
                    self._to_ask.append(job)
        if self._to_ask:
            self._asking = asyncio.ensure_future(self.ask(self._to_ask[:_MOST_JOBS_ASKED]))
            del self._to_ask[:_MOST_JOBS_ASKED]

    async def ask(self, jobs: list[str]) -> None:
        """Ask the batch system for these jobs."""
        asked_at = self._now()
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                None, schedulers.named(self.scheduler).facts, scheduler_commands.askable(jobs))
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
                self.has_news = True
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
            if facts.started and not facts.restarts:
                life.began = min(life.began or facts.started, facts.started)
            if life.over_at is not None and (facts.started or 0.0) > life.over_at:
                life.over_at, life.state = None, RUNNING            # it was requeued
            if facts.state == ENDED and life.over_at is None:
                life.over_at = facts.ended or self._now()
                self.has_news = True
            self._facts.pop(job, None)
            self._touched.add(job)

    # -- the end of a life -------------------------------------------------------------------------

    async def look(self, until: float, on_settled: OnSettled, forget: _Forget) -> None:
        """settle(), if there is news, or has been none for long."""
        if self.has_news or self._now() >= self._look_at:
            await self.settle(until, on_settled, forget)
            self.has_news, self._look_at = False, self._now() + LOOK_EVERY_S

    async def settle(self, until: float, on_settled: OnSettled, forget: _Forget) -> None:
        """
        Move the lives on, and let go of those that are over; StateError.

        Args:
            until: the moment up to which sweeps of all storage servers have come.
            on_settled: is given {job: Facts or None} whose totals are final now.
            forget: is given ids that the targets may forget, and {job: what to keep of it}.
        """
        cleanup_s, calm = self._cleanup_s(), []
        for job, life in self._lives.items():
            if until - life.last < cleanup_s and life.over_at is None:
                continue
            while (what := due_event(life.state, until, life.last, life.over_at,
                                     bool(life.facts), cleanup_s)) is not None:
                life.state = next_state(life.state, what)
                self._touched.add(job)
                if life.state == SETTLED:
                    calm.append(job)
                    break
        for at in range(0, len(calm), _MOST_SETTLED):
            self.let_go(calm[at:at + _MOST_SETTLED], on_settled, forget)
            await asyncio.sleep(0)
        idle = [one for one, last in self._no_jobs.items()
                if until - last >= SETTLES_ALONE * cleanup_s]
        if idle:
            self._forget_ids(idle, {}, forget)
            for one in idle:
                del self._no_jobs[one]

    def let_go(self, jobs: list[str], on_settled: OnSettled, forget: _Forget) -> None:
        """Keep the totals of some jobs on the disk, and forget them here."""
        times = {job: (None, None) if self._lives[job].facts else self._store.times_of(job)
                 for job in jobs}
        bodies = {job: harvested_job.stored(found)
                  for job, found in self._counted(times, True).items()}
        # In this order: a kill in between leaves a record too many, and none too few.
        try:
            on_settled({job: self.facts(self._lives[job].ids[0]) for job in jobs})
            self._forget_ids([one for job in jobs for one in self._lives[job].ids], bodies, forget)
        except StateError:
            for job in jobs:
                self._lives[job].state = QUIET       # once more, later
            raise
        for job in jobs:
            del self._lives[job]
            self._facts.pop(job, None)

    def _forget_ids(self, ids: list[str], bodies: dict[str, bytes], forget: _Forget) -> None:
        forget(ids, bodies)
        for one in ids:
            self._job_of.pop(one, None)


def _scheduler_of(config: Config) -> str:
    """The name of the batch system that can be asked here; "" for none."""
    name = config["batch.system"]
    if name:
        return name if name != schedulers.NO_SYSTEM else ""
    system = schedulers.asked_unnamed(os.environ)
    return system.NAME if system else ""
