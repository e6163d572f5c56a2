"""
Jobs whose record is not made yet: what their nodes have said about them, and when it is due.

    the first report of a job           due after [site] deadline
    the last one of its nodes           due after SETTLES_S
    one that comes after the record     another record is due after LATE_S
    storage servers' totals are final   another record is due now
    what its nodes did is known         another record is due now

All of it is in the store, too, so that a server that was killed continues where it was.
"""

import logging
from collections.abc import Iterable
from typing import Annotated, Optional

import msgspec

from iostats.base.errors import IostatsError, StateError
from iostats.base.job_facts import ENDED, Facts
from iostats.base.job_id import is_node_name
from iostats.base.node_list import expanded
from iostats.site.store import Key, damage_reported
from iostats.wire.messages.report import Name, NodeReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.site.store import Store

log = logging.getLogger("iostats")

SETTLES_S = 1.0                 # from the last epilog to the record: accounting comes late
LATE_S = 5.0                    # from a report that came after the record to the next record
_MOST_OTHERS = 1000             # ids of other jobs that one job's reports name

_Nodes = Annotated[str, msgspec.Meta(max_length=1 << 20)]
_Path = Annotated[str, msgspec.Meta(max_length=4096)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class AboutJob(msgspec.Struct):
    """What a node's prolog and epilog know of the job; docs/wire.md."""

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
    """A job that had a start and no end on the node when a report was made."""

    job: Name
    since: Annotated[int, msgspec.Meta(ge=0, le=10**12)]      # by the node's clock
    attempt: _Number = 0


class SiteReport(NodeReport):
    """A report to the site's server."""

    about: AboutJob = msgspec.field(default_factory=AboutJob)
    others: Annotated[list[OtherJob], msgspec.Meta(max_length=1000)] = []
    in_cgroups: _Number = 0


class JobClosed(IostatsError):
    """A report came after [site] keep_reports_days, when the job's other reports are removed."""


class OpenJob:
    """
    A job whose record is due.

    Attributes:
        about: AboutJob, merged from those of its nodes.
        due: when the record is made at the latest; seconds of the store's time.
        heard: names of the nodes that have reported.
        expected: names of all nodes of the job; None where they are not known.
        reports: how many have come since this was made.
        ask_until: the batch system is asked again until then, if it has not seen the job end; None
            before the first question.
        facts: job_facts.Facts, as the harvest knows them; None.
        is_told: the batch system has just told these.
        only_events: its record is there, and gets the events that came after it, and no more.
        other_jobs: ids of other jobs that its reports name; None: not read from the reports yet.
    """

    def __init__(self, about: AboutJob, due: float, max_nodes: int) -> None:
        self.about, self.due = about, due
        self.heard: set[str] = set()
        self.reports = 0
        self.ask_until: Optional[float] = None
        self.facts: Optional[Facts] = None
        self.is_told = False
        self.only_events = False
        self.other_jobs: Optional[set[str]] = None
        self._max_nodes = max_nodes
        self._expand()

    def add_others(self, others: Iterable[OtherJob]) -> None:
        """Add the jobs that one more report names."""
        if self.other_jobs is not None and len(self.other_jobs) < _MOST_OTHERS:
            self.other_jobs.update(one.job for one in others)

    def learn(self, about: AboutJob) -> None:
        """Add what one more node knows of the job; what is known already stays."""
        new = {name: getattr(about, name) for name in AboutJob.__struct_fields__
               if getattr(self.about, name) in ("", None) and getattr(about, name)}
        if new:
            self.about = msgspec.structs.replace(self.about, **new)
            if "nodes" in new:
                self._expand()

    def _expand(self) -> None:
        try:
            nodes = expanded(self.about.nodes)
        except ValueError:
            nodes = []
        is_list = 0 < len(nodes) <= self._max_nodes and all(map(is_node_name, nodes))
        self.expected = frozenset(nodes) if is_list else None

    def due_if_complete(self, now: float) -> None:
        """The record is due in a moment, if all nodes have reported."""
        if self.expected is not None and len(self.heard) >= len(self.expected):
            self.due = min(self.due, now + SETTLES_S)


class OpenJobs:
    """
    All open jobs; the store has each change first.

    Attributes:
        jobs: {Key: OpenJob}.
    """

    def __init__(self, store: "Store", config: "Config") -> None:
        """StateError."""
        self.jobs: dict[Key, OpenJob] = {}
        self._store, self._config = store, config
        self._now = store.now                   # what is due is due by the store's time
        self.reload()

    def reload(self) -> None:
        """Begin with what the store says; StateError."""
        found = self._store.open_jobs()
        self.jobs.clear()
        for key, about, due, nodes in found:
            job = self.jobs[key] = self._job(key, about, due)
            job.heard.update(nodes)
            job.due_if_complete(self._now())

    def _job(self, key: Key, about: bytes, due: float) -> OpenJob:
        """An OpenJob of what the store keeps as its `about`."""
        try:
            with damage_reported(self._store.path):
                known, due = msgspec.json.decode(about, type=AboutJob), float(due)
        except StateError as error:                    # its reports tell it as well
            log.error("job %s: what is known of it is damaged, and is taken from its reports: %s",
                      key.job, error)
            known, due = AboutJob(), self._now()
        return OpenJob(known, due, self._config["server.max_nodes"])

    def add(self, report: SiteReport) -> bool:
        """
        Keep a report; True, or False when it is here already; JobClosed, StateError.

        It is safe on the disk after the next `Store.commit`.
        """
        about, now = report.about, self._now()
        key = Key(about.cluster, report.job, about.attempt)
        job = self.jobs.get(key) or self._opened(key, about, now)
        job.learn(about)
        is_new = self._store.add(key, report.node, report.seq, msgspec.json.encode(report),
                                 msgspec.json.encode(job.about), about.user, now, job.due)
        if is_new:
            self.jobs[key] = job
            if job.only_events:                 # now it is about more
                job.only_events = job.is_told = False
            job.heard.add(report.node)
            job.reports += 1
            job.add_others(report.others)
            job.due_if_complete(now)
        return is_new

    def _opened(self, key: Key, about: AboutJob, now: float) -> OpenJob:
        """The OpenJob for the first report of a job, or the first since its record."""
        found = self._store.job(key)
        if found is None:
            job = self._job(key, msgspec.json.encode(about), now + self._config["site.deadline"])
            job.other_jobs = set()
            return job
        if found.closed:
            raise JobClosed(f"job {key.job} is closed: reports of a job are taken for "
                            f"{self._config['site.keep_reports_days']} days")
        return self._job(key, found.about, now + LATE_S)

    def key_of(self, facts: Facts) -> Key:
        """The Key of a run, as its nodes' reports have it, or as it has none."""
        for key in self._store.runs_of(facts.raw_job):
            if key.attempt == facts.restarts and (not key.cluster or not facts.cluster
                                                  or key.cluster == facts.cluster):
                return key
        return Key(facts.cluster, facts.raw_job, facts.restarts)

    def expect_runs(self, runs: dict[Key, Facts], scheduler: str) -> None:
        """
        Make another record due for each of these runs: what their nodes did is known.  StateError.
        """
        now, found, new = self._now(), {}, set()
        for key, facts in runs.items():
            if key in self.jobs:                # it is due, and will have it
                continue
            kept = self._store.job(key)
            if kept is None:
                new.add(key)
            found[key] = kept.about if kept is not None else msgspec.json.encode(AboutJob(
                scheduler=scheduler, cluster=key.cluster, attempt=key.attempt, user=facts.user))
        self._store.expect((key, about, runs[key].user, now, now) for key, about in found.items())
        for key, about in found.items():
            job = self.jobs[key] = self._job(key, about, now)
            # Of one with reports the batch system is asked again: also for jobs that these name.
            job.facts, job.is_told = runs[key], key in new

    def expect_events(self, keys: Iterable[Key]) -> None:
        """Make these jobs' records due with what went wrong as it is known now.  StateError."""
        now, found = self._now(), {}
        for key in keys:
            kept = None if key in self.jobs else self._store.job(key)
            if kept is not None and not kept.closed:
                found[key] = kept.about
        self._store.expect((key, about, "", now, now) for key, about in found.items())
        for key, about in found.items():
            job = self.jobs[key] = self._job(key, about, now)
            # The batch system may have forgotten it; what it said is in the record.
            job.only_events = job.is_told = True
            job.ask_until = now

    def expect(self, jobs: dict[str, Optional[Facts]], scheduler: str) -> None:
        """
        Make another record due for {job: Facts or None}: the storage servers' totals are final.

        `scheduler`: the batch system of jobs of which no node has reported.  StateError.
        """
        now, found = self._now(), {}
        for job, facts in jobs.items():
            runs = self._store.runs_of(job)
            kept = self._store.job(runs[-1]) if runs else None
            if kept is not None:
                key, about = runs[-1], kept.about
            else:
                known = facts or Facts(job=job)
                key = Key(known.cluster, job, known.restarts)
                about = msgspec.json.encode(AboutJob(
                    scheduler=scheduler or "none", cluster=known.cluster, attempt=known.restarts,
                    user=known.user))
            found[key] = about, facts
        # A commit waits for the disk: hundreds of jobs share one.
        self._store.expect((key, about, facts.user if facts else "", now, now)
                           for key, (about, facts) in found.items() if key not in self.jobs)
        for key, (about, facts) in found.items():
            if key not in self.jobs:
                self.jobs[key] = self._job(key, about, now)
            # It is over, though how and when is unknown.
            self.jobs[key].facts = facts and (facts if facts.state == ENDED else facts._replace(
                state=ENDED, outcome="", ended=None))
