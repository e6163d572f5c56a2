"""
The record of a job, made after its end: its reports added up, with the batch system's facts and the
storage servers' counts.

    due, and the batch system reports its end  ->  reports  ->  totals  ->  record  ->  store
                                                                              -> publish.py

If the batch system does not report a job's end yet, it is queried again for up to _FACTS_WITHIN_S.
Records that are due together share a commit, which waits for the disk.  A record that cannot be
made or stored is tried again later, and does not hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from iostats import schedulers
from iostats.base.errors import IostatsError, StateError, UsageError
from iostats.base.ids import RawJobId
from iostats.base.job_facts import ENDED, Facts
from iostats.base.job_id import is_node_name
from iostats.base.node_list import expand_node_list
from iostats.harvest import harvested_job
from iostats.jobs import open_jobs
from iostats.jobs.batch_facts import add_facts_to_record, belong_to, is_same_or_unknown
from iostats.jobs.open_jobs import AboutJob, OpenJob, OtherJob, SiteReport
from iostats.jobs.quotas_of_record import make_quotas
from iostats.load import grouping
from iostats.report import client_vs_server, header, node_sets
from iostats.report.job_summary import make_summary, summarize_file_systems, summarize_targets
from iostats.schedulers import commands as scheduler_commands
from iostats.server.job_server import make_totals
from iostats.store.record_store import Key, report_damage
from iostats.store.run_store import RunStore
from iostats.totals import node_report
from iostats.totals.job_totals import Totals
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from iostats.base.config import Config
    from iostats.harvest.intake import Harvest
    from iostats.jobs.events_of_record import RecordEvents
    from iostats.jobs.open_jobs import OpenJobs
    from iostats.jobs.publish import Publisher
    from iostats.report.job_summary import FileSystemSummary, Summary, TargetSummary
    from iostats.store.record_store import Store

log = logging.getLogger(__name__)

RETRY_AFTER_S = 60.0            # after a failure
POLL_EVERY_S = 0.25
TOGETHER_WITHIN_S = 0.25        # records that are made within this time share a commit,
_RECORDS_TOGETHER, _BYTES_TOGETHER = 20, 1 << 20  # up to this many, and this size
_FACTS_WITHIN_S = 30.0          # the batch system may still call the job running for a while
_CLOCKS_DIFFER_S = 60.0         # of a node and the batch system
_DROP_EVERY_S = 3600.0
_REPORTS_AT_ONCE = 20           # added up in one turn of the event loop
_MAX_JOBS_QUERIED = 200         # by one command
_MAX_OTHER_JOBS = 1000          # other jobs that are queried together with the due ones
_MAX_NODES = 10_000             # in Records._ended_jobs
_DAMAGED = "its report was damaged on the site's server"


class MadeRecord(NamedTuple):
    """A record that is made and not stored yet."""

    key: Any
    job: OpenJob
    reports: int            # how many of its reports are in it
    facts: Facts | None     # job_facts.Facts, or None
    record: Record
    encoded: bytes
    summary: Summary        # its job_summary.Summary
    file_systems: list[FileSystemSummary]
    targets: list[TargetSummary]


class Records:
    """Makes the records that are due, stores them, and has `publisher` show them."""

    def __init__(self, store: Store, config: Config, jobs: OpenJobs, harvest: Harvest,
                 publisher: Publisher, now: Callable[[], float], events: RecordEvents) -> None:
        self._store, self._config, self._now, self._store_now = store, config, now, store.now
        self._open_jobs, self._jobs = jobs, jobs.jobs
        self._harvest, self._publisher = harvest, publisher
        self._runs, self._events = RunStore(store), events
        # Node -> ended jobs whose starts it still has, sent with the answer to its next report.
        self._ended_jobs: OrderedDict[str, list[OtherJob]] = OrderedDict()

    def pop_ended_jobs(self, node: str) -> list[OtherJob]:
        """Return [OtherJob] of ended jobs whose starts a node still has; each is returned once."""
        return self._ended_jobs.pop(node, [])

    async def work(self) -> None:
        """Make the records that are due, until cancelled."""
        drop_at = 0.0
        while True:
            now = self._store_now()
            due = [key for key, job in self._jobs.items() if job.due <= now][:_MAX_JOBS_QUERIED]
            if due:
                await self.make(due)
            elif now >= drop_at:
                drop_at = now + _DROP_EVERY_S
                self.drop_old()
            await asyncio.sleep(0 if due else POLL_EVERY_S)

    def drop_old(self) -> None:
        """Remove reports and records past the site's retention, by the store's time."""
        now = self._store_now()
        try:
            self._store.delete_expired(now - 86400 * self._config.site.keep_reports_days,
                                       now - 86400 * self._config.site.keep_days)
            self._harvest.drop_before(now - 86400 * self._config.site.keep_days)
            self._runs.delete_before(now - 86400 * self._config.site.keep_reports_days)
        except StateError as error:
            self._store.trouble.emit(error)

    async def make(self, keys: list[Key]) -> None:
        """Make and store the records of [Key], except those that wait for the batch system."""
        # A commit waits for the disk: with many jobs at once some records share one.
        (facts, other_facts), size, began = await self._query_facts(keys), 0, 0.0
        made: list[MadeRecord] = []
        clock = asyncio.get_running_loop().time
        for key in keys:
            job = self._jobs.get(key)
            if job is None:
                continue
            job_facts = facts.get(key) or job.facts
            if self._must_wait(key, job, job_facts):
                continue
            try:
                record = await self.make_record(key, job, job_facts, other_facts)
            except StateError as error:
                log.error("no record of job %s: %s", key.job, error, extra={"job": key.job})
                job.due = self._store_now() + RETRY_AFTER_S
                continue
            except Exception:                            # other jobs' records are made
                log.exception("internal error; please report: no record of job %s", key.job,
                              extra={"job": key.job})
                job.due = self._store_now() + _DROP_EVERY_S
                continue
            began = began if made else clock()
            made.append(record)
            size += len(record.encoded)
            if (len(made) >= _RECORDS_TOGETHER or size >= _BYTES_TOGETHER
                    or clock() - began >= TOGETHER_WITHIN_S):
                await self._store_or_delay(made)
                made, size = [], 0
        await self._store_or_delay(made)

    def _must_wait(self, key: Key, job: OpenJob, facts: Facts | None) -> bool:
        """
        Whether the batch system may soon report more of the job's end; then the record is due
        later.
        """
        if facts is None or (facts.state == ENDED and facts.started is None):
            may_change = _is_accounting_late(job.about.scheduler)
        else:
            may_change = facts.state != ENDED and facts.restarts == key.attempt
        if not may_change:
            return False
        now = self._store_now()
        job.query_until = job.query_until or now + _FACTS_WITHIN_S
        if now >= job.query_until:
            return False
        job.due = now + open_jobs.SETTLES_S
        return True

    async def _store_or_delay(self, made: list[MadeRecord]) -> None:
        """Store [MadeRecord]; those that cannot be stored are due again later."""
        try:
            await self.store_records(made)
        except StateError as error:
            self._store.trouble.emit(error)
            for record in made:
                record.job.due = self._store_now() + RETRY_AFTER_S
        except Exception:
            if len(made) > 1:  # one by one, to find the record with the error
                for record in made:
                    await self._store_or_delay([record])
                return
            [record] = made
            log.exception("internal error; please report: no record of job %s", record.key.job,
                          extra={"job": record.key.job})
            record.job.due = self._store_now() + _DROP_EVERY_S

    async def store_records(self, made: list[MadeRecord]) -> None:
        """Store [MadeRecord] in one commit, and begin to show them; StateError."""
        # Without those that got another report since: they are made again in a moment.
        made = [new for new in made if new.key in self._jobs
                and self._jobs[new.key] is new.job and new.job.reports == new.reports]
        if made:
            now = self._now()
            self._store.store_records([(
                new.key, new.encoded, new.record.job.id,
                batch.array_job or batch.het_job,
                new.record.job.user or "", now, new.summary, new.file_systems, new.targets)
                for new in made if (batch := new.record.batch) is not None])
        for new in made:
            del self._jobs[new.key]
            log.info("%s", header.format_line(new.record), extra={"job": new.key.job})
            if new.facts is not None:
                self._harvest.lives.learn(new.key.job, new.facts)
        self._forward(made)
        for new in made:
            if not header.has_nothing(new.record):
                await self._publisher.show(new.key, new.job.about, new.facts, new.record)

    def _forward(self, made: list[MadeRecord]) -> None:
        """Pass records to the sinks that take them."""
        for sink in self._harvest.sinks if made else ():
            try:
                if hasattr(sink, "records"):
                    sink.records([new.record for new in made])
            except Exception:                           # they are shown in any case
                log.exception("internal error; please report: records were not forwarded")

    async def make_record(self, key: Key, job: OpenJob, facts: Facts | None,
                          other_facts: dict[Key, Facts]) -> MadeRecord:
        """
        The MadeRecord of a job, from the reports in the store; StateError.

        `other_facts`: {(scheduler, job, 0): Facts} of the jobs that its reports name.
        """
        totals = make_totals(self._config, key.job, job.expected, Totals)
        reports = job.reports
        without: list[Any] = []
        for number, (node, seq, body) in enumerate(self._store.reports(key)):
            try:
                with report_damage(self._store.path):
                    report = msgspec.json.decode(body, type=SiteReport)
            except StateError as error:
                self._store.put_aside(key, node, seq, str(error))
                continue
            if job.about == AboutJob():                 # its row was damaged, see OpenJobs
                job.learn(report.about)
            if report.reason:
                without.append(report)
            else:
                totals.add(self._drop_ended_jobs(report, key, other_facts))
            if number % _REPORTS_AT_ONCE == 0:
                await asyncio.sleep(0)
        without += (node_report.Report(node if is_node_name(node) else "(unknown)",
                                       f"damaged {number}", "", "", _DAMAGED, 0.0, 0.0, 0.0, {}, [])
                    for number, node in enumerate(self._store.list_damaged(key)))
        # Last, so that a part without numbers is noted whatever the order of arrival.
        for report in without:
            totals.add(report)
        if totals.expected is None and not totals.reported and facts is not None and (
                facts.restarts == key.attempt):
            totals.expected = grouping.count_nodes(facts)
        stored_job = self._store.job(key)
        is_closed = stored_job is not None and stored_job.closed          # its reports are removed
        is_needed = is_closed or job.only_adds_events or facts is None
        before = self._load_previous_record(key, is_closed) if is_needed else None
        if before is not None and (is_closed or job.only_adds_events):
            record = before
        else:
            record = add_facts_to_record(totals.record(), key, job.about, facts)
            if before is not None and before.batch and before.batch.outcome:
                # The batch system reported it before, and has dropped it since.
                timed = record.job if record.job.started is not None else before.job
                record = record.replaced(batch=before.batch, job=timed.replaced(
                    id=before.job.id, user=before.job.user))
        record = self._add_harvest(record, key)
        record = record.replaced(by_node=client_vs_server.compare_nodes(record))
        if not is_closed:
            record = await run_in_steps(self._events.add_events(record, *totals.events.all(),
                                                                totals.events.are_known))
            record = record.replaced(quotas=make_quotas(record, self._events.reporting_servers,
                                                        self._config.report.quota_percent))
        summary = make_summary(record)
        return MadeRecord(key, job, reports, facts, record, msgspec.json.encode(record), summary,
                          summarize_file_systems(record, summary.source), summarize_targets(record))

    def _load_previous_record(self, key: Key, is_closed: bool) -> Record | None:
        """The stored record of a job; None if there is none, or it is damaged and not closed."""
        try:
            with report_damage(self._store.path):
                return next((Record.of(msgspec.json.decode(body))
                             for body in self._store.read_records([key])), None)
        except StateError as error:
            if is_closed:
                raise                                    # its reports are removed
            log.error("the record of job %s is made again: %s", key.job, error,
                      extra={"job": key.job})
            return None

    def _add_harvest(self, record: Record, key: Key) -> Record:
        """Return `record` with the storage servers' counts for the job and for its nodes."""
        record = record.replaced(by_node=self._runs.by_node(key) or record.by_node)
        began = None if key.attempt else record.job.started     # a run before began earlier
        counted = self._harvest.lives.find_harvested(key.job, began, record.job.ended)
        if counted is None:
            return record.replaced(harvest=None)
        namesakes = self._store.list_jobs_with_same_id(key, counted.began, counted.ended)
        if namesakes:
            if not self._store.has_record(key):         # their records include this job's counts
                self._open_jobs.expect_events(namesakes)
            clusters = ", ".join(sorted({namesake.cluster for namesake in namesakes}))
            note = (f"the storage servers' counts are left out: there was a job {key.job} of "
                    f"cluster {clusters} at the same time, and Lustre counts both under one id")
            return record.replaced(harvest=None, notes=list(dict.fromkeys([*record.notes, note])))
        servers_record = harvested_job.as_record(counted, node_sets.fold_nodes)
        return record.replaced(
            harvest=client_vs_server.compare_sides(record, servers_record, self._harvest.targets))

    # -- batch facts ---------------------------------------------------------------------------

    async def _query_facts(self, keys: list[Key]) -> tuple[dict[Key, Facts], dict[Key, Facts]]:
        """
        Return {Key: Facts} of the jobs that the batch system knows, {} if it does not answer; and
        {(scheduler, job, 0): Facts} of these and of the other jobs that their reports name.
        """
        by_system: dict[str, list[Key]] = {}
        facts_by_key: dict[Key, Facts] = {}
        other_facts: dict[Key, Facts] = {}
        abouts = {key: self._jobs[key].about for key in keys
                  if is_askable(key.job) and not self._jobs[key].is_fresh}
        for key, about in abouts.items():
            by_system.setdefault(about.scheduler, []).append(key)
        for name, system_keys in by_system.items():
            try:
                system = schedulers.find_scheduler(name)
                named = {job for key in system_keys for job in self._list_named_jobs(key)
                         if is_askable(job)}
                queried: set[str] = {key.job for key in system_keys}
                queried.update(islice(sorted(named - queried), _MAX_OTHER_JOBS))
                facts = await asyncio.to_thread(system.facts, sorted(queried))
            except IostatsError as error:
                self._harvest.lives.warn_hourly(error)
                continue
            except Exception:
                log.exception("internal error; please report: no facts from %s", name)
                continue
            facts_by_key.update((key, facts[key.job]) for key in system_keys if key.job in facts
                                and belong_to(facts[key.job], key, abouts[key]))
            other_facts.update((Key(name, RawJobId(job), 0), facts_of_job)
                               for job, facts_of_job in facts.items())
        return facts_by_key, other_facts

    def _list_named_jobs(self, key: Key) -> set[str]:
        """The ids of the jobs that the reports of a job name."""
        job = self._jobs[key]
        if job.other_jobs is None:
            job.other_jobs = set()
            for _, _, body in self._store.reports(key):
                try:
                    job.add_other_jobs(msgspec.json.decode(body, type=SiteReport).others)
                except msgspec.MsgspecError:                # make_record logs it
                    continue
        return job.other_jobs

    # -- ended jobs whose starts a node still has ----------------------------------------------

    def _drop_ended_jobs(self, report: SiteReport, key: Key,
                         facts_by_key: dict[Key, Facts]) -> SiteReport:
        """Return `report` without other jobs that had ended before its job began on its node."""
        began = report.ended - report.elapsed_s
        ended_jobs = [other_job for other_job in report.others if self._has_ended_before(
            other_job, report, began, key,
            facts_by_key.get(Key(report.about.scheduler, RawJobId(other_job.job), 0)))]
        if not ended_jobs or not report.other_jobs:
            return report
        left = report.other_jobs - len(ended_jobs)
        if left >= report.in_cgroups:  # else an ended job may still be running there
            self._ended_jobs[report.node] = ended_jobs
            while len(self._ended_jobs) > _MAX_NODES:
                self._ended_jobs.popitem(last=False)
        return msgspec.structs.replace(report, other_jobs=max(report.in_cgroups, left))

    def _has_ended_before(self, other_job: OtherJob, report: SiteReport, began: float, key: Key,
                          facts: Facts | None) -> bool:
        """Whether, by the batch system, a job without an epilog had ended by `began`.

        A record alone is no proof: a node that leaves a job early has an epilog while the job
        continues.
        """
        known_at = self._store.query_outcome_time(Key(
            key.cluster, RawJobId(other_job.job), other_job.attempt))
        if known_at is not None and known_at <= began:
            return True
        if facts is None or not is_same_or_unknown(key.cluster, facts.cluster):
            return False
        since = other_job.since - report.clock_ahead_s - _CLOCKS_DIFFER_S
        if facts.state == ENDED:                             # its times are in whole seconds
            return (not facts.completing and facts.ended is not None
                    and facts.restarts >= other_job.attempt and since <= facts.ended <= began - 1)
        if facts.restarts > other_job.attempt and facts.started is not None:
            # It was started again elsewhere.
            try:
                nodes = expand_node_list(facts.nodes)
            except ValueError:
                return False
            return bool(nodes) and report.node not in nodes and since <= facts.started <= began - 1
        return False


async def run_in_steps(work: Generator[None, None, Record]) -> Record:
    """The result of `work`; the server does other work between its steps."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            record: Record = end.value
            return record
        await asyncio.sleep(0)


def is_askable(job: str) -> bool:
    """Whether a job id can be an argument of a batch system's command."""
    try:
        return bool(scheduler_commands.check_ids([job]))
    except UsageError:
        return False


def _is_accounting_late(scheduler: str) -> bool:
    """Whether a batch system drops a job some seconds before its accounting has it."""
    try:
        return getattr(schedulers.find_scheduler(scheduler), "FACTS_COME_LATE", False)
    except UsageError:
        return False
