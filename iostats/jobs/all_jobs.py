"""
All jobs of the batch system, read once a minute on the site's server, also those without a report
and without an entry in job_stats.

    every [clients] jobs_interval    one command for all jobs: the running ones, and those that have
                                     just ended
    every five minutes               how long the batch system lists an ended job, and its clock;
    its
                                     accounting, for runs that no list has shown
    a time without a list            the accounting, up to two days back, some hours at a time
    a run has ended, and so have     if it had its nodes alone, their I/O goes to its record; if
    not,
    the sweeps of the next minute    the reason
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from iostats import schedulers
from iostats.base.errors import IostatsError, StateError
from iostats.base.ids import Nid, NodeName
from iostats.base.job_facts import Facts
from iostats.base.job_list import ListSettings
from iostats.harvest.job_lifecycle import WRITES_BACK_S
from iostats.jobs import by_node
from iostats.jobs.job_runs import LISTED, JobRuns
from iostats.report.node_sets import fold_nodes
from iostats.store.run_store import JobRun, ListState, RunStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.harvest.clients.intake import ClientsTotals
    from iostats.harvest.intake import Harvest
    from iostats.jobs.open_jobs import OpenJobs
    from iostats.store.record_store import Key, Store
    from iostats.totals.record import NodesRecord

log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_Question = tuple[float, float, list[Nid]]      # since, until, clients

POLL_EVERY_S = 1.0
CHECK_EVERY_S = 300.0           # the batch system's settings, and its accounting
LATE_S = 30.0                   # until the accounting has a run's start or end
DECIDED_WITHIN_S = 3600.0       # after its end a run is decided with what is known
_LIST_SLACK_S = 5.0
_ACCOUNTING_BACK_S = 48 * 3600.0  # earlier runs are not queried
_ACCOUNTING_SPAN_S = 6 * 3600.0  # of one query
_STEP_S = 0.005                 # of adding up sweeps, before other work has its turn
_MAX_COVERED_SPANS = 100        # times that are covered, with gaps in between
_MAX_DECIDED_AT_ONCE = 100      # runs in one step


class _NodeQuestions(NamedTuple):
    """The three queries of between_each() for a run's NodesRecord, and the other values for it."""

    how: str
    window: by_node.RunWindow
    questions: list[_Question]
    free_nids: set[Nid]     # of nodes without another job afterwards
    unknown: str            # nodes without a NID
    used_before: str        # nodes that had another job before


class AllJobs:
    """
    Queries all jobs, and decides for each ended run whether its nodes' I/O was its own.

    Attributes:
        runs: the JobRuns.
        is_on: the batch system can list its jobs, and site.cfg allows it.
    """

    def __init__(self, store: Store, config: Config, jobs: OpenJobs, harvest: Harvest,
                 now: Callable[[], float]) -> None:
        self._store, self._run_store, self._jobs = store, RunStore(store), jobs
        self._harvest, self._now = harvest, now
        self._interval_s = config.clients.jobs_interval
        name = harvest.lives.scheduler
        self._system = schedulers.find_scheduler(name or schedulers.NO_SYSTEM)
        self.is_on = bool(self._interval_s) and hasattr(self._system, "job_list")
        self._settings = ListSettings()
        self._has_accounting = hasattr(self._system, "runs_between")
        self._list_due_at = self._check_due_at = 0.0
        self.runs = JobRuns(getattr(self._system, "TIME_STEP_S", 1.0))
        self._state = ListState()
        if self.is_on:
            self._reload()

    def _reload(self) -> None:
        try:
            self._state = self._run_store.state()
            for run in self._run_store.runs():
                self.runs.add_run(run)
            for since, until in self._state.covered:
                self.runs.mark_covered(since, until)
        except StateError as error:
            log.error("%s; the runs are queried again", error)
            self._run_store.delete_all()
            self.runs, self._state = JobRuns(self.runs.step_s), ListState()

    async def work(self) -> None:
        """Query and decide at intervals, until cancelled."""
        while self.is_on:
            await asyncio.sleep(POLL_EVERY_S)
            if self._harvest.clients.sweep is None:
                continue                                # no storage server reports its clients
            try:
                if await self.query_when_due():
                    while await self.decide():
                        await asyncio.sleep(0)
            except StateError as error:
                self._store.trouble.emit(error)
                await asyncio.sleep(5)
            except Exception:
                log.exception("internal error; please report: in the list of all jobs")
                await asyncio.sleep(60)

    # -- the batch system --------------------------------------------------------------------------

    async def _query(self, function: Callable[[], _Answer]) -> _Answer | None:
        """Call `function` in a thread; None if the batch system does not answer."""
        try:
            return await asyncio.to_thread(function)
        except IostatsError as error:
            self._harvest.lives.warn_hourly(error)
        return None

    async def query_when_due(self) -> bool:
        """Send the queries that are due; True after a new list of jobs.  StateError."""
        now = self._now()
        if now >= self._check_due_at or self._check_due_at > now + CHECK_EVERY_S:
            self._check_due_at = now + CHECK_EVERY_S
            if hasattr(self._system, "list_settings"):
                self._settings = await self._query(self._system.list_settings) or self._settings
            await self._read_accounting()
        if now >= self._list_due_at or self._list_due_at > now + self._interval_s:
            self._list_due_at = now + self._interval_s
            await self._read_list()
            await self._read_gap()
            self._store_runs()
            return True
        return False

    async def _read_list(self) -> None:
        began = self._now()
        job_list = await self._query(self._system.job_list)
        if job_list is None:
            return
        # The time before the query: a run that began since may be missing in the list.
        listed_at = began + self._settings.ahead_s
        self.runs.add_list(job_list.jobs, job_list.exclusive, listed_at)
        kept_s = self._settings.kept_s
        if kept_s is not None and self._settings.sees_all:
            took_s = max(0.0, self._now() - began)
            self.runs.mark_covered(listed_at - min(max(0.0, kept_s - took_s - _LIST_SLACK_S),
                                                   self.runs.dropped_after_s), listed_at)

    async def _read_accounting(self) -> None:
        """
        Read from the accounting the runs that no list has shown: the batch system's list drops a
        run that was requeued.
        """
        until = self._now() + self._settings.ahead_s - LATE_S
        since = max(self._state.checked - LATE_S, until - _ACCOUNTING_SPAN_S)
        if (self._state.checked
            and await self._read_runs_between(since, until)) or not self._state.checked:
            self._state.checked = until

    async def _read_gap(self) -> None:
        """Query the accounting for a part of the time that no list has covered."""
        until = self._now() + self._settings.ahead_s - LATE_S
        since = max(min((run.started for run in self.runs.runs.values() if not run.decided),
                        default=until), until - _ACCOUNTING_BACK_S)
        for begin, end in self.runs.gaps(since, until)[:1]:
            end = min(end, begin + _ACCOUNTING_SPAN_S)
            if await self._read_runs_between(begin, end) and self._settings.sees_all:
                self.runs.mark_covered(begin, end)

    async def _read_runs_between(self, since: float, until: float) -> bool:
        """Read all runs of a time from the accounting; False if it does not answer."""
        if not self._has_accounting or since >= until:
            return False
        try:
            ended_runs = await asyncio.to_thread(
                self._system.runs_between, since, until)
        except IostatsError as error:
            self._harvest.lives.warn_hourly(error)
            return False
        if ended_runs is None:
            self._has_accounting = False
            return False
        for facts in ended_runs:
            self.runs.add_facts(facts, until)
        return True

    def _store_runs(self) -> None:
        self._state.covered = self.runs.covered = self.runs.covered[-_MAX_COVERED_SPANS:]
        old = self.runs.drop_old(self._now() + self._settings.ahead_s)
        self._run_store.store(self._state, [self.runs.runs[key] for key in self.runs.changed], old)
        self.runs.changed.clear()

    # -- runs that are over ------------------------------------------------------------------------

    async def decide(self) -> bool:
        """Complete the facts of some ended runs; True if there are more; StateError."""
        due = [run for run in self.runs.runs.values() if self._is_due(run)][:_MAX_DECIDED_AT_ONCE]
        if not due:
            return False
        facts_by_job, now = await self._query_facts(due), self._now() + self._settings.ahead_s
        decided: dict[Key, tuple[JobRun, NodesRecord]] = {}
        facts_by_key: dict[Key, Facts] = {}
        facts_of_runs = [self._complete_facts(run, facts_by_job) for run in due]
        for run, facts in zip(due, facts_of_runs):
            if run.ended is None and facts.ended is not None:       # no list shows its end
                self.runs.add_facts(facts, now)
        for run, facts, member in zip(due, facts_of_runs, await self._make_nodes_records(due)):
            key = self._jobs.find_key(facts)
            decided[key], facts_by_key[key] = (run, member), facts
        # In this order: a kill in between makes a record twice, and none is missing.
        self._jobs.expect_runs(facts_by_key, self._harvest.lives.scheduler)
        for run in due:
            run.decided = True
        try:
            self._run_store.decide(decided)
        except StateError:
            for run in due:
                run.decided = False                     # decided again later
            raise
        return len(due) == _MAX_DECIDED_AT_ONCE

    def _is_due(self, run: JobRun) -> bool:
        over = run.over
        now = self._now() + self._settings.ahead_s
        if run.decided or now < over + WRITES_BACK_S + self.runs.step_s + LATE_S:
            return False                    # or it still runs
        if now >= over + DECIDED_WITHIN_S:
            return True
        alone = self.runs.check_alone(run)
        if self._has_accounting and (alone.is_open or (
                alone.how == LISTED and self._state.checked < over)):
            return False
        if not alone.how:
            return True
        until = self._harvest.clients.swept_until()
        return until is not None and until >= self._run_window(run, over).later

    def _run_window(self, run: JobRun, over: float) -> by_node.RunWindow:
        return by_node.make_window(run.started, over, self.runs.step_s, self._settings.ahead_s,
                                   self._settings.within_s)

    async def _query_facts(self, due: list[JobRun]) -> dict[str, Facts]:
        """
        Return {raw job: Facts} of the last run of each job: with its name and its number of
        restarts.
        """
        return await self._query(partial(self._system.facts,
                                         sorted({run.job for run in due}))) or {}

    def _complete_facts(self, run: JobRun, facts_by_job: dict[str, Facts]) -> Facts:
        """The Facts of a run, completed from those of its job's last run."""
        run_facts = Facts(**run.facts)._replace(cluster=run.facts.get("cluster", "")
                                                or self._settings.cluster)
        last = facts_by_job.get(run.job)
        if last is None or last.user != run_facts.user:
            return run_facts
        if last.started == run.started:
            return last._replace(cluster=last.cluster or run_facts.cluster)
        later = [other_run for other_run in self.runs.list_runs(run.job)
                 if other_run.started > run.started]
        return run_facts._replace(restarts=max(0, last.restarts - max(1, len(later))),
                                  name=last.name)

    async def _make_nodes_records(self, due: list[JobRun]) -> list[NodesRecord]:
        """The `by_node` members for the records of these ended runs."""
        prepared = [self._prepare_questions(run) for run in due]
        questions = [question for member in prepared if isinstance(member, _NodeQuestions)
                     for question in member.questions]
        answers = iter(await self._query_amounts(questions))
        unreported = {name for name, _ in self._harvest.targets} - self._harvest.clients.nids.keys()
        return [member
                if not isinstance(member, _NodeQuestions) else by_node.make_part_with_numbers(
                    member.how, member.window, next(answers), next(answers), next(answers),
                    member.free_nids, member.unknown, member.used_before, unreported)
                for member in prepared]

    def _prepare_questions(self, run: JobRun) -> _NodeQuestions | NodesRecord:
        """The _NodeQuestions of a run; or its NodesRecord, if that needs no counts of its nodes."""
        alone = self.runs.check_alone(run)
        window = None if run.ended is None else self._run_window(run, run.ended)
        if alone.why_not or window is None:
            return by_node.make_part_without_numbers(alone.why_not, window)
        names, nids, unknown = self._harvest.clients.names, {}, []
        for node in self.runs.get_nodes(run):
            nids[node] = [*(names.list_nids(NodeName(node))
                              or names.list_nids(NodeName(node.partition(".")[0])))]
            if not nids[node]:
                unknown.append(node)
        every = [nid for node_nids in nids.values() for nid in node_nids]
        if not every:
            return by_node.make_part_without_numbers(
                f"no client of any file system is known as {fold_nodes(unknown)}", window)
        return _NodeQuestions(
            alone.how, window, [(window.since, window.until, every),
                                (window.first, window.last, every),
                                (window.last, window.later, every)],
            {nid for node in self.runs.list_nodes_free_after(run) for nid in nids[node]},
            fold_nodes(unknown) if unknown else "",
            fold_nodes(self.runs.list_nodes_used_before(run)))

    async def _query_amounts(self, questions: list[_Question]
                             ) -> list[ClientsTotals]:
        """The results of `between_each`; the server does other work between its steps."""
        steps = self._harvest.clients.between_each(questions)
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                amounts: list[ClientsTotals] = end.value
                return amounts
            if clock() - began >= _STEP_S:
                await asyncio.sleep(0)
                began = clock()
