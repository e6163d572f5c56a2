"""
The jobs in the storage servers' counts, from the first sweep with a job until it is settled.

    an id in job_stats has changed        its job is RUNNING (job_lifecycle.py)
    the batch system is queried in turn   the job's owner, and whether it has ended
    no change for long enough             it is settled: its totals are stored, and it is dropped

An id that names no job (cp.0, kworker) has no life, and is dropped after some silence.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from iostats import schedulers
from iostats.base.errors import ConfigError, IostatsError, StateError
from iostats.base.job_facts import ENDED, Facts
from iostats.harvest import harvested_job
from iostats.harvest.job_lifecycle import (
    ACTIVE,
    QUIET,
    RUNNING,
    SETTLED,
    SETTLES_ALONE,
    WRITES_BACK_S,
    find_due_event,
    get_next_state,
)
from iostats.harvest.job_times import JobTimes
from iostats.lustre.job_tags import TagForm
from iostats.schedulers import commands as scheduler_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iostats.base.config import Config
    from iostats.harvest.harvested_job import HarvestedJob, SettledCounters
    from iostats.harvest.resets.target import CorrectedTarget
    from iostats.store.harvest_store import SweepStore

    OnSettled = Callable[[dict[str, Optional[Facts]]], None]
    _Targets = Mapping[tuple[str, str], CorrectedTarget]
    _DropIds = Callable[[list[str], dict[str, bytes]], None]

log = logging.getLogger(__name__)

CHECK_EVERY_S = 15.0            # all lives are checked, if there is no news; with news at once
QUERY_EVERY_S, QUERY_BUSY_EVERY_S = 60.0, 600.0  # a job that does I/O is evidently running
_MAX_JOBS_QUERIED = 200         # by one command
_WARN_EVERY_S = 3600.0
_MAX_SETTLED_AT_ONCE = 200      # in one step
_CLEANUP_S = 600.0              # of a target that does not report it; Lustre's default
_STORE_EVERY_S = 60.0           # a life without a change of state


class JobLife(msgspec.Struct):
    """One job that is not settled, as it is stored; times in seconds since 1970."""

    # first, last: the first and the last sweep with a change of it
    first: float
    last: float
    state: str = RUNNING                # of job_lifecycle
    over_at: Optional[float] = None     # when the batch system first reported its end
    ids: list[Any] = []                 # its ids in job_stats
    facts: dict[str, Any] = {}          # the batch system's facts, as the dict of a Facts
    queried_at: float = 0.0             # when the batch system was last queried about it
    stored: float = 0.0                 # `last`, as it is on the disk
    # when its first run began, as the batch system reports; None: unknown
    began: Optional[float] = None


_decode_life = msgspec.json.Decoder(JobLife).decode


class JobLives:
    """
    The lives of all jobs that are not settled.

    Attributes:
        scheduler: name of the batch system that is queried; "" for none.
        has_news: there is a change that may end a life.
    """

    def __init__(self, store: SweepStore, config: Config, now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._warned: dict[str, float] = {}         # message -> when it was logged
        self._jobs_by_id: dict[str, str] = {}
        self.scheduler = schedulers.find_queried(config.batch.system, os.environ)
        try:
            self._form = TagForm(config.harvest.job_id,
                                            schedulers.describe_job_id_form(self.scheduler))
        except ValueError as error:
            raise ConfigError(f"{config.locate('harvest.job_id')}: {error}") from None

    def reload(self, targets: _Targets, changed: Mapping[str, float]) -> None:
        """
        Begin with the stored lives.

        `targets`: as they are in the store; `changed`: {id: slot of its last change} of the
        replayed blocks.
        """
        self._targets = targets
        self._jobs_by_id = {}
        self._no_jobs: dict[str, float] = {}        # id -> slot of its last change
        self._noted: tuple[float, set[str]] = (0.0, set())  # a slot, and the ids noted in it
        self.has_news, self._check_at = True, 0.0
        self._to_query: list[str] = []
        self._query_at = 0.0
        self._changed: set[str] = set()             # jobs whose lives have to be stored
        self._facts: dict[str, Facts] = {}
        self._querying: Optional[asyncio.Future[None]] = None
        self._lives: dict[str, JobLife] = self._store.decode_rows(
            "lives", self._store.lives(), _decode_life)
        job_ids, now = {job_id for life in self._lives.values() for job_id in life.ids}, self._now()
        for target in targets.values():
            for job_id in target.ids():
                if job_id not in job_ids:
                    self._note_id(job_id, changed.get(job_id, now))
        for job_id, slot in changed.items():
            self._note_id(job_id, slot)

    # -- sweeps -----------------------------------------------------------------------------------

    def note(self, ids: Iterable[str], slot: float) -> None:
        """Note that these ids have changed in the sweep of `slot`."""
        if slot != self._noted[0]:
            self._noted = (slot, set())
        new = set(ids) - self._noted[1]
        self._noted[1].update(new)
        for job_id in new:
            self._note_id(job_id, slot)

    def _note_id(self, job_id: str, slot: float) -> None:
        """Note that an id has changed in the sweep of `slot`."""
        job = self.find_job(job_id)
        if not job:
            self._no_jobs[job_id] = slot
            return
        life = self._lives.get(job)
        if life is None:
            life = self._lives[job] = JobLife(slot, slot)
            self._query_at = 0.0                      # at the next check
        if job_id not in life.ids:
            life.ids.append(job_id)
            self._changed.add(job)
        life.last = max(life.last, slot)
        if life.state in (RUNNING, QUIET):
            life.state = get_next_state(life.state, ACTIVE)
        if life.last - life.stored >= _STORE_EVERY_S:
            self._changed.add(job)

    def store_changed(self) -> None:
        """Write the lives that have changed; StateError."""
        if self._changed:
            lives = {job: self._lives[job] for job in self._changed if job in self._lives}
            for life in lives.values():
                life.stored = life.last
            if lives:
                self._store.store_lives({job: msgspec.json.encode(life)
                                         for job, life in lives.items()})
            self._changed.clear()

    # -- queries -----------------------------------------------------------------------------------

    def states(self) -> dict[str, str]:
        """Return {job: job_lifecycle.RUNNING and so on} of all jobs that are not settled."""
        return {job: life.state for job, life in self._lives.items()}

    def find_job(self, job_id: str) -> str:
        """The job of an id in job_stats; "" for none."""
        job = self._jobs_by_id.get(job_id)
        if job is None:
            job = self._jobs_by_id[job_id] = self._form.find_job(job_id)
        return job

    def facts(self, job_id: str) -> Optional[Facts]:
        """Facts of the job of an id; None if unknown."""
        job = self.find_job(job_id)
        facts = self._facts.get(job)
        if facts is None:
            life = self._lives.get(job)
            if life is not None and life.facts:
                facts = self._facts[job] = Facts(**life.facts)
        return facts

    def find_life(self, job: str) -> Optional[tuple[str, JobLife]]:
        """
        Return (its id in job_stats, its JobLife) of an unsettled job, by that id or the users' one;
        None.
        """
        if job in self._lives:
            return job, self._lives[job]
        return next(((name, life) for name, life in self._lives.items()
                     if life.facts.get("job") == job), None)

    def find_harvested(self, job: str, began: Optional[float] = None,
                       ended: Optional[float] = None) -> Optional[HarvestedJob]:
        """
        The HarvestedJob of `job` (its id in job_stats), which ran from `began` to `ended` (s since
        1970) if known; None if there are no counts of it.
        """
        return self._count_jobs({job: (began, ended)}).get(job) or self._load_settled(job)

    def settled(self, job: str) -> dict[tuple[str, str], SettledCounters]:
        """Return {(file system, target): a job's counts before it was settled}."""
        saved = self._load_settled(job)
        return {} if saved is None else harvested_job.group_counters_by_target(saved)

    def _load_settled(self, job: str) -> Optional[HarvestedJob]:
        """The stored counts of a job that was settled before."""
        body = self._store.read_harvest(job)
        if body is None:
            return None
        try:
            return harvested_job.decode_job(body)
        except Exception as error:                  # damaged bytes can raise any error
            saved = harvested_job.make_damaged_job(self._now())
            self._store.put_aside("harvests", (job,), error, harvested_job.encode_job(saved))
            return saved

    def _count_jobs(self, times: Mapping[str, tuple[Optional[float], Optional[float]]],
                    final: bool = False) -> dict[str, HarvestedJob]:
        """
        Return {job: HarvestedJob} of {job: (began, ended)} that are not settled, or are being
        settled (`final`), with the counts from before they were settled last.
        """
        lives = {job: self._lives[job] for job in times if job in self._lives}
        saved = {job: saved_job for job in lives
                 if (saved_job := self._load_settled(job)) is not None}
        cleanup_s = self._cleanup_s()
        live = harvested_job.count_jobs(
            self._targets.values(), {job: life.ids for job, life in lives.items()},
            {job: JobTimes(life.first, life.last, times[job][0] or life.began,
                           times[job][1] or life.facts.get("ended") or life.over_at, cleanup_s,
                           saved[job].ended if job in saved else None)
             for job, life in lives.items()}, final, self._form.parse_parts)
        return {job: harvested_job.join_parts(saved[job], saved_job) if job in saved else saved_job
                for job, saved_job in live.items()}

    def _cleanup_s(self) -> float:
        return max((target.cleanup_s or _CLEANUP_S for target in self._targets.values()),
                   default=_CLEANUP_S)

    # -- the batch system --------------------------------------------------------------------------

    def are_all_queried(self) -> bool:
        """Whether the batch system was queried about every job."""
        return not self.scheduler or all(life.queried_at or life.facts
                                         for life in self._lives.values())

    def query_when_due(self) -> None:
        """Begin to query the batch system about the jobs that are due; it never waits."""
        if not self.scheduler or (self._querying is not None and not self._querying.done()):
            return
        now = self._now()
        if not self._to_query and now >= self._query_at:
            self._query_at = now + CHECK_EVERY_S
            for job, life in self._lives.items():
                busy = life.facts and life.state == RUNNING and now - life.last < QUERY_EVERY_S
                # A job that changes after its end may have been requeued.
                is_over = life.over_at is not None and life.last < life.over_at + WRITES_BACK_S
                if not is_over and now - life.queried_at >= (
                        QUERY_BUSY_EVERY_S if busy else QUERY_EVERY_S):
                    self._to_query.append(job)
        if self._to_query:
            self._querying = asyncio.ensure_future(self.query(self._to_query[:_MAX_JOBS_QUERIED]))
            del self._to_query[:_MAX_JOBS_QUERIED]

    async def query(self, jobs: list[str]) -> None:
        """Query the batch system about these jobs."""
        queried_at = self._now()
        try:
            facts_by_job = await asyncio.to_thread(
                schedulers.find_scheduler(self.scheduler).facts, scheduler_commands.check_ids(jobs))
        except IostatsError as error:
            self.warn_hourly(error)
            facts_by_job = None
        except Exception:
            log.exception("internal error; please report: no facts from %s", self.scheduler)
            facts_by_job = None
        for job in jobs:
            life = self._lives.get(job)
            if life is None:
                continue
            life.queried_at = queried_at
            facts = (facts_by_job or {}).get(job)
            if facts is not None:
                self.learn(job, facts)
            elif facts_by_job is not None and life.facts:
                life.over_at = queried_at             # it knew the job before
                self.has_news = True
            self._changed.add(job)

    def warn_hourly(self, error: IostatsError) -> None:
        """
        Log why the batch system does not answer, once an hour: it is queried every few seconds.
        """
        now, key = time.monotonic(), "".join(c for c in str(error) if not c.isdigit())
        if key not in self._warned or now - self._warned[key] >= _WARN_EVERY_S:
            self._warned = {message: at for message, at in self._warned.items()
                            if now - at < _WARN_EVERY_S}
            self._warned[key] = now
            log.warning("%s (logged once an hour)", error)

    def learn(self, job: str, facts: Facts) -> None:
        """Add the batch system's facts of a job."""
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
            self._changed.add(job)

    # -- the end of a life -------------------------------------------------------------------------

    async def settle_when_due(self, until: float, on_settled: OnSettled, forget: _DropIds) -> None:
        """Call settle() if ids have changed, or if the last call was long ago."""
        if self.has_news or self._now() >= self._check_at:
            await self.settle(until, on_settled, forget)
            self.has_news, self._check_at = False, self._now() + CHECK_EVERY_S

    async def settle(self, until: float, on_settled: OnSettled, forget: _DropIds) -> None:
        """
        Advance the lives, and settle those that are over; StateError.

        Args:
            until: the time up to which sweeps of all storage servers have arrived.
            on_settled: is called with {job: Facts or None} whose totals are final now.
            forget: is called with ids that the targets may drop, and {job: bytes to store}.
        """
        cleanup_s, settled = self._cleanup_s(), []
        for job, life in self._lives.items():
            if until - life.last < cleanup_s and life.over_at is None:
                continue
            while (event := find_due_event(life.state, until, life.last, life.over_at,
                                           bool(life.facts), cleanup_s)) is not None:
                life.state = get_next_state(life.state, event)
                self._changed.add(job)
                if life.state == SETTLED:
                    settled.append(job)
                    break
        for at in range(0, len(settled), _MAX_SETTLED_AT_ONCE):
            self.settle_jobs(settled[at:at + _MAX_SETTLED_AT_ONCE], on_settled, forget)
            await asyncio.sleep(0)
        idle = [job_id for job_id, last in self._no_jobs.items()
                if until - last >= SETTLES_ALONE * cleanup_s]
        if idle:
            self._drop_ids(idle, {}, forget)
            for job_id in idle:
                del self._no_jobs[job_id]

    def settle_jobs(self, jobs: list[str], on_settled: OnSettled, forget: _DropIds) -> None:
        """Store the totals of some jobs, and drop them here."""
        times = {job: (None, None) if self._lives[job].facts else self._store.read_times(job)
                 for job in jobs}
        bodies = {job: harvested_job.encode_job(harvested)
                  for job, harvested in self._count_jobs(times, True).items()}
        # In this order: a kill in between makes a record twice, and none is missing.
        try:
            on_settled({job: self.facts(self._lives[job].ids[0]) for job in jobs})
            self._drop_ids([job_id for job in jobs for job_id in self._lives[job].ids], bodies,
                           forget)
        except StateError:
            for job in jobs:
                self._lives[job].state = QUIET       # settled again later
            raise
        for job in jobs:
            del self._lives[job]
            self._facts.pop(job, None)

    def _drop_ids(self, ids: list[str], bodies: dict[str, bytes], forget: _DropIds) -> None:
        forget(ids, bodies)
        for job_id in ids:
            self._jobs_by_id.pop(job_id, None)
