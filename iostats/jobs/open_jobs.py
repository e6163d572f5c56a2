"""
Jobs whose record is not made yet: their nodes' reports so far, and when the record is due.

    the first report of a job           due after [site] deadline
    the last one of its nodes           due after SETTLES_S
    a report after the record           another record is due after LATE_S
    storage servers' totals are final   another record is due now
    its nodes' I/O is known             another record is due now

All of it is in the store, too, so that a server that was killed continues there.
"""

import logging
from collections.abc import Iterable
from typing import Annotated, Optional

import msgspec

from iostats.base.config import Config
from iostats.base.errors import IostatsError, StateError
from iostats.base.ids import JobId, RawJobId
from iostats.base.job_facts import ENDED, Facts
from iostats.base.job_id import is_node_name
from iostats.base.node_list import expand_node_list
from iostats.store.record_store import Key, Store, report_damage
from iostats.wire.messages.report import Name, NodeReport

log = logging.getLogger(__name__)

SETTLES_S = 1.0                 # from the last epilog to the record: the accounting lags behind
LATE_S = 5.0                    # from a report after the record to the next record
_MAX_OTHER_JOBS = 1000          # ids of other jobs that one job's reports name

_Nodes = Annotated[str, msgspec.Meta(max_length=1 << 20)]
_Path = Annotated[str, msgspec.Meta(max_length=4096)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class AboutJob(msgspec.Struct):
    """A job's facts from a node's prolog and epilog; docs/reference/wire.md."""

    scheduler: Name = ""
    cluster: Name = ""
    attempt: _Number = 0
    nodes: _Nodes = ""
    uid: Optional[_Number] = None
    user: Name = ""
    account: Name = ""
    partition: Name = ""
    output: _Path = ""
    work_dir: _Path = ""


class OtherJob(msgspec.Struct, frozen=True):
    """A job that had started on the same node, and had not ended, when a report was made."""

    job: Name
    since: Annotated[int, msgspec.Meta(ge=0, le=10**12)]      # by the node's clock
    attempt: _Number = 0


class SiteReport(NodeReport):
    """A report to the site's server."""

    about: AboutJob = msgspec.field(default_factory=AboutJob)
    others: Annotated[list[OtherJob], msgspec.Meta(max_length=1000)] = []
    in_cgroups: _Number = 0


class JobClosed(IostatsError):
    """A report arrived after [site] keep_reports_days, when the job's other reports are removed."""


class OpenJob:
    """
    A job whose record is due.

    Attributes:
        about: AboutJob, merged from those of its nodes.
        due: the latest time for the record; seconds of the store's time.
        heard: names of the nodes that have reported.
        expected: names of all nodes of the job; None if unknown.
        reports: how many have arrived since this object was made.
        query_until: until then the batch system is queried again if it reports no end; None
            before the first query.
        facts: job_facts.Facts, as the harvest knows them; None.
        is_stored: whether the store has `about`, and that a record is due.
        is_fresh: these are from the batch system's latest answer.
        only_adds_events: its record is stored; only later events are added to it.
        other_jobs: ids of other jobs that its reports name; None: not read from the reports yet.
    """

    def __init__(self, about: AboutJob, due: float, max_nodes: int) -> None:
        self.about, self.due = about, due
        self.heard: set[str] = set()
        self.reports = 0
        self.query_until: Optional[float] = None
        self.facts: Optional[Facts] = None
        self.is_fresh = False
        self.is_stored = False
        self.only_adds_events = False
        self.other_jobs: Optional[set[str]] = None
        self._max_nodes = max_nodes
        self._expand()

    def add_other_jobs(self, other_jobs: Iterable[OtherJob]) -> None:
        """Add the other jobs that a report names."""
        if self.other_jobs is not None and len(self.other_jobs) < _MAX_OTHER_JOBS:
            self.other_jobs.update(other_job.job for other_job in other_jobs)

    def learn(self, about: AboutJob) -> None:
        """Add facts from one more node; known ones stay."""
        new = {name: getattr(about, name) for name in AboutJob.__struct_fields__
               if getattr(self.about, name) in ("", None) and getattr(about, name)}
        if new:
            self.about, self.is_stored = msgspec.structs.replace(self.about, **new), False
            if "nodes" in new:
                self._expand()

    def _expand(self) -> None:
        try:
            nodes = expand_node_list(self.about.nodes)
        except ValueError:
            nodes = []
        is_list = 0 < len(nodes) <= self._max_nodes and all(map(is_node_name, nodes))
        self.expected = frozenset(nodes) if is_list else None

    def make_due_if_complete(self, now: float) -> None:
        """Make the record due in a moment, if all nodes have reported."""
        if self.expected is not None and len(self.heard) >= len(self.expected):
            self.due = min(self.due, now + SETTLES_S)


class OpenJobs:
    """
    All open jobs; each change is stored first.

    Attributes:
        jobs: {Key: OpenJob}.
    """

    def __init__(self, store: "Store", config: "Config") -> None:
        """Read the store; StateError."""
        self.jobs: dict[Key, OpenJob] = {}
        self._store, self._config = store, config
        self._now = store.now                   # due times are in the store's time
        self.reload()

    def reload(self) -> None:
        """Read all open jobs from the store; StateError."""
        for job in self.jobs.values():          # a failed commit may have dropped their rows
            job.is_stored = False
        open_jobs = self._store.open_jobs()
        self.jobs.clear()
        for key, about, due, nodes in open_jobs:
            job = self.jobs[key] = self._decode_job(key, about, due)
            job.heard.update(nodes)
            job.make_due_if_complete(self._now())

    def _decode_job(self, key: Key, about: bytes, due: float) -> OpenJob:
        """The OpenJob of a stored `about`."""
        try:
            with report_damage(self._store.path):
                about_job, due = msgspec.json.decode(about, type=AboutJob), float(due)
        except StateError as error:                    # its reports have them, too
            log.error("job %s: its stored facts are damaged, and are read from its reports: %s",
                      key.job, error, extra={"job": key.job})
            about_job, due = AboutJob(), self._now()
        return OpenJob(about_job, due, self._config.server.max_nodes)

    def add(self, report: SiteReport) -> bool:
        """
        Store a report; False if it is stored already; JobClosed, StateError.

        It is safe on the disk after the next `Store.commit`.
        """
        about, now = report.about, self._now()
        key = Key(about.cluster, RawJobId(report.job), about.attempt)
        job = self.jobs.get(key) or self._open_job(key, about, now)
        job.learn(about)
        is_new = self._store.add(key, report.node, report.seq, msgspec.json.encode(report),
                                 None if job.is_stored else msgspec.json.encode(job.about),
                                 about.user, now, job.due)
        if is_new:
            self.jobs[key], job.is_stored = job, True
            if job.only_adds_events:                 # it has a new report
                job.only_adds_events = job.is_fresh = False
            job.heard.add(report.node)
            job.reports += 1
            job.add_other_jobs(report.others)
            job.make_due_if_complete(now)
        return is_new

    def _open_job(self, key: Key, about: AboutJob, now: float) -> OpenJob:
        """The OpenJob for the first report of a job, or the first one since its record."""
        stored = self._store.job(key)
        if stored is None:
            job = self._decode_job(key, msgspec.json.encode(about), now
                                   + self._config.site.deadline)
            job.other_jobs = set()
            return job
        if stored.closed:
            raise JobClosed(f"job {key.job} is closed: reports of a job are accepted for "
                            f"{self._config.site.keep_reports_days} days")
        return self._decode_job(key, stored.about, now + LATE_S)

    def find_key(self, facts: Facts) -> Key:
        """The Key of a run: that of its nodes' reports, or a new one."""
        for key in self._store.list_runs(facts.raw_job):
            if key.attempt == facts.restarts and (not key.cluster or not facts.cluster
                                                  or key.cluster == facts.cluster):
                return key
        return Key(facts.cluster, facts.raw_job, facts.restarts)

    def expect_runs(self, runs: dict[Key, Facts], scheduler: str) -> None:
        """
        Make another record due for each of these runs, whose nodes' I/O is known now.  StateError.
        """
        now, abouts, new = self._now(), {}, set()
        for key, facts in runs.items():
            if key in self.jobs:                # its record is due anyway
                continue
            stored = self._store.job(key)
            if stored is None:
                new.add(key)
            abouts[key] = stored.about if stored is not None else msgspec.json.encode(AboutJob(
                scheduler=scheduler, cluster=key.cluster, attempt=key.attempt, user=facts.user))
        self._store.expect((key, about, runs[key].user, now, now) for key, about in abouts.items())
        for key, about in abouts.items():
            job = self.jobs[key] = self._decode_job(key, about, now)
            # For a job with reports the batch system is queried again: also for jobs that these
            # name.
            job.facts, job.is_fresh = runs[key], key in new

    def expect_events(self, keys: Iterable[Key]) -> None:
        """Make the records of these jobs due, for their new events.  StateError."""
        now, abouts = self._now(), {}
        for key in keys:
            stored = None if key in self.jobs else self._store.job(key)
            if stored is not None and not stored.closed:
                abouts[key] = stored.about
        self._store.expect((key, about, "", now, now) for key, about in abouts.items())
        for key, about in abouts.items():
            job = self.jobs[key] = self._decode_job(key, about, now)
            # The batch system may have dropped it; its facts are in the record.
            job.only_adds_events = job.is_fresh = True
            job.query_until = now

    def expect(self, jobs: dict[str, Optional[Facts]], scheduler: str) -> None:
        """
        Make another record due for {job: Facts or None}: the storage servers' totals are final.

        `scheduler`: the batch system of jobs without any report.  StateError.
        """
        now, due_jobs = self._now(), {}
        for job, facts in jobs.items():
            runs = self._store.list_runs(job)
            stored = self._store.job(runs[-1]) if runs else None
            if stored is not None:
                key, about = runs[-1], stored.about
            else:
                job_facts = facts or Facts(job=JobId(job))
                key = Key(job_facts.cluster, RawJobId(job), job_facts.restarts)
                about = msgspec.json.encode(AboutJob(
                    scheduler=scheduler or "none", cluster=job_facts.cluster,
                    attempt=job_facts.restarts,
                    user=job_facts.user))
            due_jobs[key] = about, facts
        # A commit waits for the disk: hundreds of jobs share one.
        self._store.expect((key, about, facts.user if facts else "", now, now)
                           for key, (about, facts) in due_jobs.items() if key not in self.jobs)
        for key, (about, facts) in due_jobs.items():
            if key not in self.jobs:
                self.jobs[key] = self._decode_job(key, about, now)
            # It has ended; the outcome and the time are unknown.
            self.jobs[key].facts = facts and (facts if facts.state == ENDED else facts._replace(
                state=ENDED, outcome="", ended=None))
