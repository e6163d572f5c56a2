"""
All jobs of the batch system, on the site's server: asked for once a minute, also those that have no
report and no entry in job_stats.

    every [clients] jobs_interval    one command for all jobs: what runs, and what has just ended
    every five minutes               how long the batch system keeps a job in it, and its clock; its
                                     accounting, for what that list does not show
    a time without a list         the accounting, up to two days back, some hours at a time
    a run is over, and so are the    did it have its nodes alone?  What they did goes to its record,
    sweeps of the minute after it    or why that is not known
"""

from __future__ import annotations

import asyncio
import logging
from collections import namedtuple
from typing import Any

from iostats import schedulers
from iostats.base.errors import IostatsError, StateError
from iostats.base.job_facts import Facts
from iostats.base.job_list import JobList, ListSettings
from iostats.report.node_sets import folded
from iostats.site import by_node
from iostats.site.job_lifecycle import WRITES_BACK_S
from iostats.site.job_runs import LISTED, JobRun, JobRuns
from iostats.site.run_store import ListState, RunStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.site.harvest_intake import Harvest
    from iostats.site.open_jobs import OpenJobs
    from iostats.site.store import Key, Store
    from iostats.totals.record import NodesRecord

log = logging.getLogger("iostats")

LOOK_EVERY_S = 1.0
CHECK_EVERY_S = 300.0           # the batch system's settings, and its accounting
LATE_S = 30.0                   # a run is in the accounting so long after its start or end
WAITS_S = 3600.0                # for what is not known of a run, after its end
_LIST_SLACK_S = 5.0
_BACK_S = 48 * 3600.0           # runs of longer ago are not asked for
_AT_ONCE_S = 6 * 3600.0         # of the accounting
_STEP_S = 0.005                 # of a sum over many sweeps, between two looks at the network
_MOST_TIMES = 100               # that are covered, with gaps between them
_MOST_AT_ONCE = 100             # runs that are decided between two looks


_Asked = namedtuple("_Asked", "how window questions free_nids unknown used_before")


class AllJobs:
    """
    Asks for all jobs, and decides what is known of each when it is over.

    Attributes:
        runs: the JobRuns.
        is_on: there is a batch system that can be asked, and site.cfg lets us.
    """

    def __init__(self, store: Store, config: Config, jobs: OpenJobs, harvest: Harvest,
                 now: Callable[[], float]) -> None:
        self._store, self._kept, self._jobs = store, RunStore(store), jobs
        self._harvest, self._now = harvest, now
        self._interval = config["clients.jobs_interval"]
        name = harvest.lives.scheduler
        self._system: Any = schedulers.named(name) if name else None
        self.is_on = bool(self._interval) and hasattr(self._system, "job_list")
        self._settings = ListSettings()
        self._has_accounting = hasattr(self._system, "runs_between")
        self._list_at = self._check_at = 0.0
        self.runs = JobRuns(getattr(self._system, "TIME_STEP_S", 1.0))
        self._state = ListState()
        if self.is_on:
            self._reload()

    def _reload(self) -> None:
        try:
            self._state = self._kept.state()
            for run in self._kept.runs():
                self.runs.put(run)
            for since, until in self._state.covered:
                self.runs.cover(since, until)
        except StateError as error:
            log.error("%s; what ran is asked for again", error)
            self._kept.forget_all()
            self.runs, self._state = JobRuns(self.runs.step_s), ListState()

    async def work(self) -> None:
        """Go on for ever."""
        while self.is_on:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._harvest.clients.sweep is None:
                continue                                # no storage server tells of its clients
            try:
                if await self.ask_in_turn():
                    while await self.decide():
                        await asyncio.sleep(0)
            except StateError as error:
                self._store.trouble.say(error)
                await asyncio.sleep(5)
            except Exception:
                log.exception("internal error; please report: in the list of all jobs")
                await asyncio.sleep(60)

    # -- the batch system --------------------------------------------------------------------------

    async def _asked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the batch system answers, in a thread; None where it does not."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)
        except IostatsError as error:
            self._harvest.lives.warn_hourly(error)
        return None

    async def ask_in_turn(self) -> bool:
        """Ask for what is due; was the list?  StateError."""
        now = self._now()
        if now >= self._check_at or self._check_at > now + CHECK_EVERY_S:
            self._check_at = now + CHECK_EVERY_S
            if hasattr(self._system, "list_settings"):
                self._settings = await self._asked(self._system.list_settings) or self._settings
            await self._check()
        if now >= self._list_at or self._list_at > now + self._interval:
            self._list_at = now + self._interval
            await self._list()
            await self._fill()
            self._keep()
            return True
        return False

    async def _list(self) -> None:
        began = self._now()
        found: JobList | None = await self._asked(self._system.job_list)
        if found is None:
            return
        # Before it was asked: what has begun since then may be in the list or not.
        at = began + self._settings.ahead_s
        self.runs.see(found.jobs, found.exclusive, at)
        kept_s = self._settings.kept_s
        if kept_s is not None and self._settings.sees_all:
            took_s = max(0.0, self._now() - began)
            self.runs.cover(at - min(max(0.0, kept_s - took_s - _LIST_SLACK_S),
                                     self.runs.keep_s), at)

    async def _check(self) -> None:
        """
        Look for runs that no list has shown: of one that is requeued, the batch system's list has
        nothing any more.
        """
        until = self._now() + self._settings.ahead_s - LATE_S
        since = max(self._state.checked - LATE_S, until - _AT_ONCE_S)
        if (self._state.checked and await self._learn_of(since, until)) or not self._state.checked:
            self._state.checked = until

    async def _fill(self) -> None:
        """Ask the accounting for a part of the time that no list has covered."""
        until = self._now() + self._settings.ahead_s - LATE_S
        since = max(min((run.started for run in self.runs.runs.values() if not run.decided),
                        default=until), until - _BACK_S)
        for begin, end in self.runs.gaps(since, until)[:1]:
            end = min(end, begin + _AT_ONCE_S)
            if await self._learn_of(begin, end) and self._settings.sees_all:
                self.runs.cover(begin, end)

    async def _learn_of(self, since: float, until: float) -> bool:
        """Ask the accounting for all runs of a time; has it answered?"""
        if not self._has_accounting or since >= until:
            return False
        try:
            found: list[Facts] | None = await asyncio.get_running_loop().run_in_executor(
                None, self._system.runs_between, since, until)
        except IostatsError as error:
            self._harvest.lives.warn_hourly(error)
            return False
        if found is None:
            self._has_accounting = False
            return False
        for facts in found:
            self.runs.learn(facts, until)
        return True

    def _keep(self) -> None:
        self._state.covered = self.runs.covered = self.runs.covered[-_MOST_TIMES:]
        old = self.runs.forget_old(self._now() + self._settings.ahead_s)
        self._kept.keep(self._state, [self.runs.runs[key] for key in self.runs.changed], old)
        self.runs.changed.clear()

    # -- runs that are over ------------------------------------------------------------------------

    async def decide(self) -> bool:
        """Decide what is known of some runs that are over; are there more?  StateError."""
        due = [run for run in self.runs.runs.values() if self._is_due(run)][:_MOST_AT_ONCE]
        if not due:
            return False
        known, now = await self._facts_of(due), self._now() + self._settings.ahead_s
        found: dict[Key, tuple[JobRun, NodesRecord]] = {}
        told: dict[Key, Facts] = {}
        of_run = [self._of_run(run, known) for run in due]
        for run, facts in zip(due, of_run):
            if run.ended is None and facts.ended is not None:       # no list shows what has ended
                self.runs.learn(facts, now)
        for run, facts, member in zip(due, of_run, await self._members(due)):
            key = self._jobs.key_of(facts)
            found[key], told[key] = (run, member), facts
        # In this order: a kill in between leaves a record too many, and none too few.
        self._jobs.expect_runs(told, self._harvest.lives.scheduler)
        for run in due:
            run.decided = True
        try:
            self._kept.decide(found)
        except StateError:
            for run in due:
                run.decided = False                     # once more, later
            raise
        return len(due) == _MOST_AT_ONCE

    def _is_due(self, run: JobRun) -> bool:
        over = run.over
        now = self._now() + self._settings.ahead_s
        if run.decided or now < over + WRITES_BACK_S + self.runs.step_s + LATE_S:
            return False                    # also one that runs
        if now >= over + WAITS_S:
            return True
        alone = self.runs.alone(run)
        if self._has_accounting and (alone.is_open or (
                alone.how == LISTED and self._state.checked < over)):
            return False
        if not alone.how:
            return True
        until = self._harvest.clients.swept_until()
        return until is not None and until >= self._window(run, over).later

    def _window(self, run: JobRun, over: float) -> by_node.RunWindow:
        return by_node.window_of(run.started, over, self.runs.step_s, self._settings.ahead_s,
                                 self._settings.within_s)

    async def _facts_of(self, due: list[JobRun]) -> dict[str, Facts]:
        """{raw job: Facts} of the last run of each: with its name, and how often it was started."""
        return await self._asked(self._system.facts, sorted({run.job for run in due})) or {}

    def _of_run(self, run: JobRun, known: dict[str, Facts]) -> Facts:
        """The Facts of a run, as far as the last run of its job has them."""
        own = Facts(**run.facts)._replace(cluster=run.facts.get("cluster", "")
                                          or self._settings.cluster)
        last = known.get(run.job)
        if last is None or last.user != own.user:
            return own
        if last.started == run.started:
            return last._replace(cluster=last.cluster or own.cluster)
        later = [one for one in self.runs.of(run.job) if one.started > run.started]
        return own._replace(restarts=max(0, last.restarts - max(1, len(later))), name=last.name)

    async def _members(self, due: list[JobRun]) -> list[NodesRecord]:
        """The members of the records of these runs, which are over."""
        asked = [self._asked_of(run) for run in due]
        several = [question for one in asked if isinstance(one, _Asked)
                   for question in one.questions]
        answers = iter(await self._did(several))
        untold = {name for name, _ in self._harvest.targets} - self._harvest.clients.nids.keys()
        return [one if not isinstance(one, _Asked) else by_node.with_numbers(
                    one.how, one.window, next(answers), next(answers), next(answers),
                    one.free_nids, one.unknown, one.used_before, untold)
                for one in asked]

    def _asked_of(self, run: JobRun) -> _Asked | NodesRecord:
        """What is to be asked of a run's nodes; or its member, where that needs nothing of them."""
        alone = self.runs.alone(run)
        window = None if run.ended is None else self._window(run, run.ended)
        if alone.why_not or window is None:
            return by_node.without_numbers(alone.why_not, window)
        names, nids, unknown = self._harvest.clients.names, {}, []
        for node in self.runs.nodes_of(run):
            nids[node] = names.nids_of(node) or names.nids_of(node.partition(".")[0])
            if not nids[node]:
                unknown.append(node)
        every = [nid for some in nids.values() for nid in some]
        if not every:
            return by_node.without_numbers(
                f"no client of any file system is known as {folded(unknown)}", window)
        return _Asked(
            alone.how, window, [(window.since, window.until, every),
                                (window.first, window.last, every),
                                (window.last, window.later, every)],
            {nid for node in self.runs.free_after(run) for nid in nids[node]},
            folded(unknown) if unknown else "",
            folded(self.runs.used_just_before(run)))

    async def _did(self, questions: list[tuple[float, float, list[str]]]) -> list[dict[Any, Any]]:
        """The answers of `each_between`; what else the server has to do comes in between."""
        steps = self._harvest.clients.each_between(questions)
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: list[dict[Any, Any]] = end.value
                return found
            if clock() - began >= _STEP_S:
                await asyncio.sleep(0)
                began = clock()
