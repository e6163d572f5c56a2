"""
The record of a job, made when the job is over: its reports added up, with what the batch system and
the storage servers say of it.

    due, and the batch system has seen the end  ->  reports  ->  totals  ->  record  ->  store
                                                                               -> publish.py

Where the batch system has not seen the end of a job yet, it is asked again for up to
_FACTS_WITHIN_S.  Records that are due together share a commit, which waits for the disk.  A record
that cannot be made or stored is tried again later, and does not hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, namedtuple
from itertools import islice

import msgspec

from iostats import schedulers
from iostats.base.errors import IostatsError, StateError, UsageError
from iostats.base.job_facts import ENDED, Facts
from iostats.base.job_id import is_node_name
from iostats.base.node_list import expanded
from iostats.load import grouping
from iostats.report import client_vs_server, coverage, node_sets
from iostats.report.job_summary import summary_of
from iostats.schedulers import commands as scheduler_commands
from iostats.server.job_server import totals_options
from iostats.site import harvested_job, open_jobs
from iostats.site.batch_facts import are_of, same_or_unknown, with_facts
from iostats.site.open_jobs import AboutJob, OpenJob, OtherJob, SiteReport
from iostats.site.run_store import RunStore
from iostats.site.store import Key, damage_reported
from iostats.totals import node_report
from iostats.totals.job_totals import Totals
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from iostats.base.config import Config
    from iostats.site.events.of_record import RecordEvents
    from iostats.site.harvest_intake import Harvest
    from iostats.site.open_jobs import OpenJobs
    from iostats.site.publish import Publisher
    from iostats.site.store import Store

log = logging.getLogger("iostats")

AGAIN_S = 60.0                  # from a record that could not be made to the next try
LOOK_EVERY_S = 0.25
TOGETHER_WITHIN_S = 0.25        # records that are made within this time share a commit,
_RECORDS_TOGETHER, _BYTES_TOGETHER = 20, 1 << 20        # up to this many, and this size
_FACTS_WITHIN_S = 30.0          # the batch system may still call the job running for a while
_CLOCKS_DIFFER_S = 60.0         # of a node and the batch system
_FORGET_EVERY_S = 3600.0
_AT_ONCE = 20                   # reports that are added up between two turns of the event loop
_MOST_JOBS_ASKED = 200          # in one command
_MOST_OTHERS = 1000             # other jobs that are asked for with those that are due
_MOST_OVER = 10_000             # nodes in Records._over
_DAMAGED = "its report was damaged on the site's server"


MadeRecord = namedtuple("MadeRecord", "key job reports facts record encoded summary")
MadeRecord.__doc__ = """
A record that is made, and not stored yet.

Attributes:
    job: the OpenJob; `reports`: how many of its reports are in it.
    facts: job_facts.Facts, or None.
    record: a Record; `encoded`: its bytes; `summary`: its job_summary.Summary.
"""


class Records:
    """Makes the records that are due, stores them, and has `publisher` show them."""

    def __init__(self, store: Store, config: Config, jobs: OpenJobs, harvest: Harvest,
                 publisher: Publisher, now: Callable[[], float], events: RecordEvents) -> None:
        self._store, self._config, self._now, self._store_now = store, config, now, store.now
        self._open_jobs, self._jobs = jobs, jobs.jobs
        self._harvest, self._publisher = harvest, publisher
        self._runs, self._events = RunStore(store), events
        # Node -> starts that it still has of jobs that are over, to be told with its next report.
        self._over: OrderedDict[str, list[OtherJob]] = OrderedDict()

    def pop_over(self, node: str) -> list[OtherJob]:
        """[OtherJob] that a node has starts of though they are over; each is returned once."""
        return self._over.pop(node, [])

    async def work(self) -> None:
        """Make the records that are due, until cancelled."""
        forget_at = 0.0
        while True:
            now = self._store_now()
            due = [key for key, job in self._jobs.items() if job.due <= now][:_MOST_JOBS_ASKED]
            if due:
                await self.make(due)
            elif now >= forget_at:
                forget_at = now + _FORGET_EVERY_S
                self.forget()
            await asyncio.sleep(0 if due else LOOK_EVERY_S)

    def forget(self) -> None:
        """Remove what is older than the site wants to keep, by the store's time."""
        now = self._store_now()
        try:
            self._store.forget(now - 86400 * self._config["site.keep_reports_days"],
                               now - 86400 * self._config["site.keep_days"])
            self._harvest.forget_before(now - 86400 * self._config["site.keep_days"])
            self._runs.forget(now - 86400 * self._config["site.keep_reports_days"])
        except StateError as error:
            self._store.trouble.say(error)

    async def make(self, keys: list[Key]) -> None:
        """Make and store the records of [Key], except those that wait for the batch system."""
        # A commit waits for the disk: with many jobs at once some records share one.
        (facts, others), size, began = await self._facts(keys), 0, 0.0
        made: list[MadeRecord] = []
        clock = asyncio.get_running_loop().time
        for key in keys:
            job = self._jobs.get(key)
            if job is None:
                continue
            found = facts.get(key) or job.facts
            if self._has_to_wait(key, job, found):
                continue
            try:
                one = await self.made(key, job, found, others)
            except StateError as error:
                log.error("no record of job %s: %s", key.job, error)
                job.due = self._store_now() + AGAIN_S
                continue
            except Exception:                            # one job's error is not the others'
                log.exception("internal error; please report: no record of job %s", key.job)
                job.due = self._store_now() + _FORGET_EVERY_S
                continue
            began = began if made else clock()
            made.append(one)
            size += len(one.encoded)
            if (len(made) >= _RECORDS_TOGETHER or size >= _BYTES_TOGETHER
                    or clock() - began >= TOGETHER_WITHIN_S):
                await self._keep_or_delay(made)
                made, size = [], 0
        await self._keep_or_delay(made)

    def _has_to_wait(self, key: Key, job: OpenJob, facts: Facts | None) -> bool:
        """Whether the batch system may soon know more of the job's end; then it is due later."""
        if facts is None or (facts.state == ENDED and facts.started is None):
            may_change = _tells_late(job.about.scheduler)
        else:
            may_change = facts.state != ENDED and facts.restarts == key.attempt
        if not may_change:
            return False
        now = self._store_now()
        job.ask_until = job.ask_until or now + _FACTS_WITHIN_S
        if now >= job.ask_until:
            return False
        job.due = now + open_jobs.SETTLES_S
        return True

    async def _keep_or_delay(self, made: list[MadeRecord]) -> None:
        """Store [MadeRecord]; those that cannot be stored are due again later."""
        try:
            await self.keep(made)
        except StateError as error:
            self._store.trouble.say(error)
            for one in made:
                one.job.due = self._store_now() + AGAIN_S
        except Exception:
            if len(made) > 1:                            # one by one: whose error is it?
                for one in made:
                    await self._keep_or_delay([one])
                return
            [one] = made
            log.exception("internal error; please report: no record of job %s", one.key.job)
            one.job.due = self._store_now() + _FORGET_EVERY_S

    async def keep(self, made: list[MadeRecord]) -> None:
        """Store [MadeRecord] in one commit, and begin to show them; StateError."""
        # Without those that have got another report meanwhile: they are made again in a moment.
        made = [one for one in made if one.key in self._jobs
                and self._jobs[one.key] is one.job and one.job.reports == one.reports]
        if made:
            now = self._now()
            self._store.keep_records([(
                one.key, one.encoded, one.record.job.id,
                one.record.batch.array_job or one.record.batch.het_job,
                one.record.job.user or "", now, one.summary) for one in made])
        for one in made:
            del self._jobs[one.key]
            log.info("%s", coverage.line(one.record))
            if one.facts is not None:
                self._harvest.lives.learn(one.key.job, one.facts)
        for one in made:
            if not coverage.has_nothing(one.record):
                await self._publisher.show(one.key, one.job.about, one.facts, one.record)

    async def made(self, key: Key, job: OpenJob, facts: Facts | None,
                   others: dict[Key, Facts]) -> MadeRecord:
        """
        The MadeRecord of a job, from the reports in the store; StateError.

        `others`: {(scheduler, job, 0): Facts} of the jobs that its reports name.
        """
        totals = Totals(key.job, job.expected, **totals_options(self._config))
        reports = job.reports
        without: list[Any] = []
        for number, (node, seq, body) in enumerate(self._store.reports(key)):
            try:
                with damage_reported(self._store.path):
                    one = msgspec.json.decode(body, type=SiteReport)
            except StateError as error:
                self._store.put_aside(key, node, seq, str(error))
                continue
            if job.about == AboutJob():                 # its row was damaged, see OpenJobs
                job.learn(one.about)
            if one.reason:
                without.append(one)
            else:
                totals.add(self._without_ended(one, key, others))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        without += (node_report.Report(node if is_node_name(node) else "(unknown)",
                                      f"damaged {number}", "", "", _DAMAGED, 0.0, 0.0, 0.0, {}, [])
                    for number, node in enumerate(self._store.damaged(key)))
        # Last, in whatever order they came: a part without numbers is noted in any case.
        for one in without:
            totals.add(one)
        if totals.expected is None and not totals.reported and facts is not None and (
                facts.restarts == key.attempt):
            totals.expected = grouping.node_count(facts)
        known = self._store.job(key)
        is_closed = known is not None and known.closed          # its reports are removed
        is_needed = is_closed or job.only_events or facts is None
        before = self._before(key, is_closed) if is_needed else None
        if before is not None and (is_closed or job.only_events):
            record = before
        else:
            record = with_facts(totals.record(), key, job.about, facts)
            if before is not None and before.batch and before.batch.outcome:
                # The batch system has told it, and has forgotten it since.
                record = record.replaced(batch=before.batch, job=record.job.replaced(
                    id=before.job.id, user=before.job.user))
        record = self._with_harvest(record, key)
        record = record.replaced(by_node=client_vs_server.nodes_compared(record))
        if not is_closed:
            record = await in_steps(self._events.with_events(record, *totals.events.all(),
                                                             totals.events.are_known))
        return MadeRecord(key, job, reports, facts, record, msgspec.json.encode(record),
                          summary_of(record))

    def _before(self, key: Key, is_closed: bool) -> Record | None:
        """The record that a job has; None where there is none, or it is damaged and not closed."""
        try:
            with damage_reported(self._store.path):
                return next((Record.of(msgspec.json.decode(body))
                             for body in self._store.records_of([key])), None)
        except StateError as error:
            if is_closed:
                raise                                    # there is nothing to make it of
            log.error("the record of job %s is made anew: %s", key.job, error)
            return None

    def _with_harvest(self, record: Record, key: Key) -> Record:
        """`record`, with what the storage servers counted of the job, and of its nodes."""
        record = record.replaced(by_node=self._runs.by_node(key) or record.by_node)
        began = None if key.attempt else record.job.started     # a run before began earlier
        counted = self._harvest.lives.harvested(key.job, began, record.job.ended)
        if counted is None:
            return record.replaced(harvest=None)
        namesakes = self._store.namesakes(key, counted.began, counted.ended)
        if namesakes:
            if not self._store.has_record(key):         # theirs have what this job did
                self._open_jobs.expect_events(namesakes)
            clusters = ", ".join(sorted({one.cluster for one in namesakes}))
            note = (f"what the storage servers counted is left out: there was a job {key.job} of "
                    f"cluster {clusters} at the same time, and Lustre counts both under one id")
            return record.replaced(harvest=None, notes=list(dict.fromkeys([*record.notes, note])))
        found = harvested_job.as_record(counted, node_sets.folded)
        return record.replaced(
            harvest=client_vs_server.compared(record, found, self._harvest.targets))

    # -- what the batch system says ------------------------------------------------------------

    async def _facts(self, keys: list[Key]) -> tuple[dict[Key, Facts], dict[Key, Facts]]:
        """
        {Key: Facts} of the jobs that the batch system knows, {} where it does not answer; and
        {(scheduler, job, 0): Facts} of these and of the other jobs that their reports name.
        """
        by_system: dict[str, list[Key]] = {}
        found: dict[Key, Facts] = {}
        others: dict[Key, Facts] = {}
        abouts = {key: self._jobs[key].about for key in keys
                  if is_askable(key.job) and not self._jobs[key].is_told}
        for key, about in abouts.items():
            by_system.setdefault(about.scheduler, []).append(key)
        for name, some in by_system.items():
            try:
                system = schedulers.named(name)
                named = {job for key in some for job in self._named(key) if is_askable(job)}
                asked = {key.job for key in some}
                asked.update(islice(sorted(named - asked), _MOST_OTHERS))
                facts = await asyncio.get_running_loop().run_in_executor(
                    None, system.facts, sorted(asked))
            except IostatsError as error:
                self._harvest.lives.warn_hourly(error)
                continue
            except Exception:
                log.exception("internal error; please report: no facts from %s", name)
                continue
            found.update((key, facts[key.job]) for key in some if key.job in facts
                         and are_of(facts[key.job], key, abouts[key]))
            others.update((Key(name, job, 0), one) for job, one in facts.items())
        return found, others

    def _named(self, key: Key) -> set[str]:
        """Ids of the jobs that the reports of a job name."""
        job = self._jobs[key]
        if job.other_jobs is None:
            job.other_jobs = set()
            for _, _, body in self._store.reports(key):
                try:
                    job.add_others(msgspec.json.decode(body, type=SiteReport).others)
                except msgspec.MsgspecError:                # `made` says so
                    continue
        return job.other_jobs

    # -- other jobs that have a start on a node though they are over ----------------------------

    def _without_ended(self, one: SiteReport, key: Key, known: dict[Key, Facts]) -> SiteReport:
        """The report `one` without other jobs that had ended before its job began on its node."""
        began = one.ended - one.elapsed_s
        over = [other for other in one.others if self._had_ended(
            other, one, began, key, known.get(Key(one.about.scheduler, other.job, 0)))]
        if not over or not one.other_jobs:
            return one
        left = one.other_jobs - len(over)
        if left >= one.in_cgroups:                           # else one of them may be running
            self._over[one.node] = over
            while len(self._over) > _MOST_OVER:
                self._over.popitem(last=False)
        return msgspec.structs.replace(one, other_jobs=max(one.in_cgroups, left))

    def _had_ended(self, other: OtherJob, one: SiteReport, began: float, key: Key,
                   facts: Facts | None) -> bool:
        """
        Whether the batch system says that a job without an epilog was over by `began`.

        A record alone is no proof: a node that leaves a job early has an epilog while the job goes
        on.
        """
        known_at = self._store.outcome_known_at(Key(key.cluster, other.job, other.attempt))
        if known_at is not None and known_at <= began:
            return True
        if facts is None or not same_or_unknown(key.cluster, facts.cluster):
            return False
        since = other.since - one.clock_ahead_s - _CLOCKS_DIFFER_S
        if facts.state == ENDED:                             # its times are whole seconds
            return (not facts.completing and facts.ended is not None
                    and facts.restarts >= other.attempt and since <= facts.ended <= began - 1)
        if facts.restarts > other.attempt and facts.started is not None:
            # It was started again elsewhere.
            try:
                nodes = expanded(facts.nodes)
            except ValueError:
                return False
            return bool(nodes) and one.node not in nodes and since <= facts.started <= began - 1
        return False


async def in_steps(work: Generator[None, None, Record]) -> Record:
    """The result of `work`; what else the server has to do comes in between."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value                             # type: ignore[no-any-return]
        await asyncio.sleep(0)


def is_askable(job: str) -> bool:
    """Whether a job id can be an argument of a batch system's command."""
    try:
        return bool(scheduler_commands.askable([job]))
    except UsageError:
        return False


def _tells_late(scheduler: str) -> bool:
    """Whether a batch system forgets a job some seconds before its accounting has it."""
    try:
        return getattr(schedulers.named(scheduler), "FACTS_COME_LATE", False)
    except UsageError:
        return False
