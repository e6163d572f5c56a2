"""
The site's server: the reports of all jobs, as prologs and epilogs send them; one record a job.

    report  ->  store (on the disk, then the node is answered)
    all nodes of a job have reported, or [site] deadline is over
            ->  the job's facts from the batch system, its reports added up  ->  record  ->  store
            ->  shown where [site] show says: the job's output, its user's home, a comment

Nothing is added up before a job is over, so nothing but a list of open jobs is in memory, and a
server that is killed goes on where the store says.  What it was about to show just then is not
shown; `iostats report` has it.
"""

import asyncio
import logging
import os
import pwd
from collections import OrderedDict, namedtuple
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from itertools import islice
from typing import Annotated, Any, Optional, Union

import msgspec

from iostats import schedulers
from iostats.base.errors import (
    IostatsError,
    NotDelivered,
    StateError,
    UsageError,
    WireError,
)
from iostats.base.job_facts import ENDED, Facts
from iostats.base.job_id import checked_job_id, is_node_name
from iostats.base.node_list import expanded
from iostats.load import ranking
from iostats.report import accounting_comment, client_vs_server, job_tables, node_sets
from iostats.report.job_list import summary_of
from iostats.server.job_server import NAME, Report, Sender, Server, check_report, how_to_add_up
from iostats.site import harvest_intake, load_queries, write_as_user
from iostats.site.job_index import Question
from iostats.site.store import Key, as_kept
from iostats.totals import job_totals
from iostats.totals.job_totals import Totals
from iostats.wire import protocol
from iostats.wire.jsonrpc import Method, error_answer
from iostats.wire.messages import sweep, sweep_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.site.store import Store
    from iostats.wire.auth import Credentials

log = logging.getLogger("iostats")

_SETTLES_S = 1.0                # from the last epilog to the record: accounting comes late
_LATE_S = 5.0                   # from a report that came after the record to the next record
_FACTS_WITHIN_S = 30.0          # the batch system may still call the job running for a while
_AGAIN_S = 60.0                 # from a record that could not be made to the next try
_LOOK_EVERY_S = 0.25
_CLOCKS_DIFFER_S = 60.0         # of a node and the batch system
_COMMENT_AFTER_S = (2, 3, 5, 15, 60)     # slurmdbd hears of array tasks some seconds late
_COMMENTS_AT_ONCE = 4
_FORGET_EVERY_S = 3600.0
_AT_ONCE = 20                   # reports are added up between two looks at the network
_MOST_JOBS_ASKED = 200          # in one command
_MOST_LATEST = 1000
_MOST_WAITING = 300             # jobs in one question, and in one answer
_MOST_NAMED = 20                # nodes of a job that are missing, by name
_LARGEST_ANSWER = 1 << 27
_RECORDS_AT_ONCE, _RECORDS_WITHIN_S, _RECORDS_BYTES = 20, 0.25, 1 << 20      # in one commit
_MOST_OTHERS = 1000             # jobs beside those that are due, in one question
_MOST_OVER = 10_000             # nodes that have not been told yet which starts are over
_DAMAGED = "its report was damaged on the site's server"
_SHOWN_AT_ONCE = 20             # the file system of one's output may hang
_COLUMNS = ("cluster", "account", "partition", "name", "nodes", "outcome", "exit_status",
            "exit_signal", "array_job", "array_task", "het_job", "het_offset", "raw_job")

_Nodes = Annotated[str, msgspec.Meta(max_length=1 << 20)]
_Path = Annotated[str, msgspec.Meta(max_length=4096)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class About(msgspec.Struct):
    """What a node's prolog and epilog know of the job; docs/wire.md."""

    scheduler: NAME = ""
    cluster: NAME = ""
    attempt: _Number = 0
    nodes: _Nodes = ""
    uid: Optional[_Number] = None
    user: NAME = ""
    account: NAME = ""
    partition: NAME = ""
    output: _Path = ""
    work_dir: _Path = ""


class Other(msgspec.Struct, frozen=True):
    """A job that had a start on the node when another one's report was made there."""

    job: NAME
    since: Annotated[int, msgspec.Meta(ge=0, le=10**12)]      # by the node's clock
    attempt: _Number = 0


class SiteReport(Report):
    """A report to the site's server."""

    about: About = msgspec.field(default_factory=About)
    others: Annotated[list[Other], msgspec.Meta(max_length=1000)] = []
    in_cgroups: _Number = 0


class Which(msgspec.Struct):
    """The params of `record`: a job, as its users or its nodes call it."""

    job: NAME


class Latest(msgspec.Struct):
    """The params of `latest`."""

    count: Annotated[int, msgspec.Meta(ge=1, le=_MOST_LATEST)] = 10


class Waits(msgspec.Struct):
    """The params of `waiting`: jobs, as their nodes call them; [] for all."""

    jobs: Annotated[list[NAME], msgspec.Meta(max_length=_MOST_WAITING)] = []


class _Job:
    """A job whose record is due."""

    def __init__(self, about: About, due: float, max_nodes: int) -> None:
        self.about, self.due = about, due
        self.heard: set[str] = set()
        self.reports = 0                            # that have come since this was made
        self.asked_until: Optional[float] = None    # for the facts, see _settle
        self.facts: Optional[Facts] = None          # as the harvest knows them
        # Ids of the jobs that its reports name; None where they have to be read again.
        self.others: Optional[set[str]] = None
        self._max_nodes = max_nodes
        self._expand()

    def name(self, others: Iterable[Other]) -> None:
        """One more report names these."""
        if self.others is not None and len(self.others) < _MOST_OTHERS:
            self.others.update(one.job for one in others)

    def learn(self, about: About) -> None:
        """What one more node tells of the job; what another has told stands."""
        new = {name: getattr(about, name) for name in About.__struct_fields__
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

    def settle(self, now: float) -> None:
        """Its record is due in a moment, if all nodes have been heard."""
        if self.expected is not None and len(self.heard) >= len(self.expected):
            self.due = min(self.due, now + _SETTLES_S)


_Made = namedtuple("_Made", "key job reports facts record encoded summary")
_Made.__doc__ = """
A record that is made, and not kept yet.

Attributes:
    job: the _Job; `reports`: how many of its reports are in it.
    facts: jobfacts.Facts, or None.
    record: a dict; `encoded`: its bytes; `summary`: its row.
"""


class SiteServer(Server):
    """
    Receives, keeps, adds up, and answers for all jobs.

    `store`: a store.Store; `credentials`: auth.server_credentials(...) of wire.SITE; `sinks`: what
    gets the storage servers' sweeps.
    """

    def __init__(self, store: "Store", credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float], sinks: Iterable[Any] = ()) -> None:
        super().__init__(protocol.SITE, credentials, config, now)
        self._store, self._passed = store, store.now   # what is due is due by the store's time
        own = os.geteuid()
        self._reporters = frozenset((0, own))
        self._readers = {own, *map(_uid_of, config["site.readers"])}
        self._jobs: OrderedDict[Key, _Job] = OrderedDict()
        self._metrics: set[str] = set()
        self._unsent: list[tuple[asyncio.Transport, bytes, bool]] = []
        self._writer = write_as_user.Writer()
        self._showing: dict[Key, asyncio.Future[None]] = {}
        self._commenting: dict[Key, asyncio.Future[None]] = {}
        # Made by `work`: up to Python 3.9 it is of one loop.
        self._may_comment: asyncio.Semaphore
        self._refused: dict[str, int] = {}
        self._over: OrderedDict[str, list[Other]] = OrderedDict()     # node -> starts there
        self.harvest = harvest_intake.Harvest(store, config, now, sinks)
        self._reload()
        self.methods.update(sweep=Method(self._sweep, sweep.Sweep),
                            packed_sweep=Method(self._sweep, sweep_reader.Packed),
                            report=Method(self._report, SiteReport, keys_once=True),
                            record=Method(self._record, Which),
                            latest=Method(self._latest, Latest),
                            waiting=Method(self._waiting, Waits),
                            jobs=Method(self._listed, Question),
                            load=Method(self._load, load_queries.LoadAsk),
                            query=Method(self._query, load_queries.QueryAsk))
        self._answers = load_queries.Answers()

    def _reload(self) -> None:
        """The open jobs, as the store has them."""
        found = self._store.open_jobs()
        self._jobs.clear()
        for key, about, due, nodes in found:
            job = self._jobs[key] = self._job(key, about, due)
            job.heard.update(nodes)
            job.settle(self._passed())

    def _job(self, key: Key, about: bytes, due: float) -> _Job:
        """A _Job of what the store keeps as its `about`."""
        try:
            with as_kept(self._store.path):
                known, due = msgspec.json.decode(about, type=About), float(due)
        except StateError as error:                    # its reports tell it as well
            log.error("job %s: what is known of it is damaged, and is taken from its reports: %s",
                      key.job, error)
            known, due = About(), self._passed()
        return _Job(known, due, self.config["server.max_nodes"])

    # -- reports -------------------------------------------------------------------------------

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        count = self._refused[why] = self._refused.get(why, 0) + 1
        if count & (count - 1) == 0:                 # 1, 2, 4, 8, ...: a log is no place for all
            log.warning("%s messages refused: %s (the last one of %s)", count, why, node or "?")

    def _report(self, one: SiteReport, sender: Sender) -> dict[str, Any]:
        caller = self.require_authenticated(sender, self._reporters)
        check_report(one, caller, _checked_job(one.job), self._metrics)
        about, now = one.about, self._passed()
        key = Key(about.cluster, one.job, about.attempt)
        try:
            job = self._jobs.get(key) or self._begun(key, about, now)
            job.learn(about)
            is_new = self._store.add(key, one.node, one.seq, msgspec.json.encode(one),
                                     msgspec.json.encode(job.about), about.user, now, job.due)
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
        if is_new:
            self._jobs[key] = job
            job.heard.add(one.node)
            job.reports += 1
            job.name(one.others)
            job.settle(now)
        over = self._over.pop(one.node, ())
        return {"counted": True, "why": "" if is_new else "this report is here already",
                **({"over": over} if over else {})}

    def _sweep(self, message: Union[sweep.Sweep, sweep_reader.Packed],
               sender: Sender) -> dict[str, Any]:
        caller = self.require_authenticated(sender, self._reporters)
        return harvest_intake.message_of(self.harvest, message, caller)

    def _begun(self, key: Key, about: About, now: float) -> _Job:
        """The _Job of a report that is the first one, or the first since the record."""
        found = self._store.job(key)
        if found is None:
            job = self._job(key, msgspec.json.encode(about), now + self.config["site.deadline"])
            job.others = set()
            return job
        if found.closed:
            self.refuse("too late")
            raise WireError(protocol.REFUSED,
                            f"job {key.job} has been closed: a report of it is taken "
                                          f"for {self.config['site.keep_reports_days']} days")
        return self._job(key, found.about, now + _LATE_S)

    def send(self, transport: asyncio.Transport, data: bytes, keep: bool) -> None:
        """Answers leave when what they say is on the disk: all of one turn of the loop at once."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._commit)
        self._unsent.append((transport, data, keep))

    def _commit(self) -> None:
        unsent, self._unsent = self._unsent, []
        is_proof = self._store.has_news
        try:
            self._store.commit()
        except StateError as error:
            self.dropped, self.trouble = self.dropped + 1, str(error)
            for transport, _, _ in unsent:           # the nodes send them again
                super().send(transport, _not_kept(str(error)), False)
            log.error("%s; the nodes keep their reports", error)
            for reload in (self._reload, self.harvest.reload):
                try:
                    reload()
                except StateError as worse:
                    log.error("%s", worse)
            return
        if is_proof:
            self.trouble = ""
        for transport, data, keep in unsent:
            super().send(transport, data, keep)

    # -- questions -------------------------------------------------------------------------------

    def _user(self, sender: Sender) -> Optional[str]:
        """Whose records `sender` may read: a user's name, or None for all."""
        caller = self.require_authenticated(sender)
        if caller.uid is None or caller.uid in self._readers:
            return None
        try:
            return pwd.getpwuid(caller.uid).pw_name
        except KeyError:
            raise WireError(protocol.REFUSED, f"user {caller.uid} is not known here") from None

    def _record(self, which: Which, sender: Sender) -> list[msgspec.Raw]:
        return _within_limit(self._store.records(which.job, self._user(sender)))

    def _latest(self, which: Latest, sender: Sender) -> list[msgspec.Raw]:
        return _within_limit(self._store.latest(which.count, self._user(sender)))

    def _waiting(self, which: Waits, sender: Sender) -> list[dict[str, Any]]:
        """The jobs of which a node has reported, and whose record waits for the others."""
        own, wanted = self._user(sender), set(which.jobs)
        clock_s = self._now() - self._passed()         # it is due by the store's time
        found = (
            (key, job, sorted((job.expected or frozenset()) - job.heard))
            for key, job in self._jobs.items()
            if job.heard and (not wanted or key.job in wanted) and own in (None, job.about.user))
        return [{"job": key.job, "attempt": key.attempt, "user": job.about.user,
                 "reported": len(job.heard), "nodes": job.expected and len(job.expected),
                 "missing": missing[:_MOST_NAMED], "missing_count": len(missing),
                 "until": clock_s + job.due} for key, job, missing in islice(found, _MOST_WAITING)]

    def _listed(self, question: Question, sender: Sender) -> dict[str, Any]:
        """A row for each job, of the one who asks, or of those that a reader asks for."""
        own = self._user(sender)
        users = [_user_of(int(user)) if user.isascii() and user.isdigit() and len(user) < 10
                 else user for user in question.users]
        if own is not None and set(users) - {own}:
            raise WireError(protocol.REFUSED,
                            f"expected your own jobs, of user {own}, got a question "
                            f"for those of {', '.join(sorted(set(users) - {own}))[:80]}, which "
                            f"root and [site] readers may ask")
        try:
            rows, after = self._store.listed(msgspec.structs.replace(
                question, users=users if own is None else [own]))
        except ValueError as error:
            raise WireError(protocol.INVALID_PARAMS, str(error)) from None
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
        return {"jobs": rows, "next": after}

    def _load(self, ask: load_queries.LoadAsk,
              sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._answers.load(self.harvest, ask, self._user(sender))

    def _query(self, ask: load_queries.QueryAsk,
               sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._answers.query(self.harvest, ask, self._user(sender))

    # -- records ---------------------------------------------------------------------------------

    async def listen(self, host: str = "") -> None:
        """Listen on [site] port."""
        port = self.config["site.port"]
        if await self.listen_on(host, [port]) is None:
            raise NotDelivered(f"port {port} is taken: another server of the site? ([site] "
                               f"port; who has it: ss -ltnp sport = :{port})")

    def close(self) -> None:
        """An orderly end."""
        super().close()
        self._writer.close()
        self.harvest.close()

    async def work(self) -> None:
        """Make the records that are due, for ever."""
        if {"home", "output"} & set(self.config["site.show"]):
            try:
                await self._writer.begin()             # while little else is in memory
            except write_as_user.NotHandedOver as error:
                log.error("%s", error)
        try:
            await asyncio.gather(self._work(), self.harvest.work(self._settled))
        finally:
            self._writer.close()

    def _settled(self, jobs: dict[str, Optional[Facts]]) -> None:
        """Of {job: Facts or None} the storage servers' totals are final: another record is due."""
        now, found = self._passed(), {}
        for job, facts in jobs.items():
            runs = self._store.runs_of(job)
            kept = self._store.job(runs[-1]) if runs else None
            if kept is not None:
                key, about = runs[-1], kept.about
            else:
                known = facts or Facts(job=job)
                key = Key(known.cluster, job, known.restarts)
                about = msgspec.json.encode(About(
                    scheduler=self.harvest.scheduler or "none", cluster=known.cluster,
                    attempt=known.restarts, user=known.user))
            found[key] = about, facts
        # A commit waits for the disk: hundreds of jobs share one.
        self._store.expect((key, about, facts.user if facts else "", now, now)
                           for key, (about, facts) in found.items() if key not in self._jobs)
        for key, (about, facts) in found.items():
            if key not in self._jobs:
                self._jobs[key] = self._job(key, about, now)
            # It is over, though nobody has said how, or when.
            self._jobs[key].facts = facts and (facts if facts.state == ENDED else facts._replace(
                state=ENDED, outcome="", ended=None))

    async def _work(self) -> None:
        self._may_comment = asyncio.Semaphore(_COMMENTS_AT_ONCE)
        forget_at = 0.0
        while True:
            now = self._passed()
            due = [key for key, job in self._jobs.items() if job.due <= now][:_MOST_JOBS_ASKED]
            if due:
                await self._settle(due)
            elif now >= forget_at:
                forget_at = now + _FORGET_EVERY_S
                self._forget()
            await asyncio.sleep(0 if due else _LOOK_EVERY_S)

    def _forget(self) -> None:
        """What is older than the site wants to keep, by the store's time."""
        now = self._passed()
        try:
            self._store.forget(now - 86400 * self.config["site.keep_reports_days"],
                               now - 86400 * self.config["site.keep_days"])
            self.harvest.forget_before(now - 86400 * self.config["site.keep_days"])
        except StateError as error:
            log.error("%s", error)

    async def _settle(self, keys: list[Key]) -> None:
        # A commit waits for the disk: with many jobs at once some records share one.
        (facts, others), size, began = await self._facts(keys), 0, 0.0
        made: list[_Made] = []
        clock = asyncio.get_running_loop().time
        for key in keys:
            job = self._jobs.get(key)
            if job is None:
                continue
            found = facts.get(key) or job.facts
            if (_tells_late(job.about.scheduler) if found is None or (
                    found.state == ENDED and found.started is None) else
                    found.state != ENDED and found.restarts == key.attempt):
                now = self._passed()
                job.asked_until = job.asked_until or now + _FACTS_WITHIN_S
                if now < job.asked_until:
                    job.due = now + _SETTLES_S
                    continue
            try:
                one = await self._make_record(key, job, found, others)
            except StateError as error:
                log.error("no record of job %s: %s", key.job, error)
                job.due = self._passed() + _AGAIN_S
                continue
            except Exception:                            # one job's trouble is not the others'
                log.exception("internal error; please report: no record of job %s", key.job)
                job.due = self._passed() + _FORGET_EVERY_S
                continue
            began = began if made else clock()
            made.append(one)
            size += len(one.encoded)
            if (len(made) >= _RECORDS_AT_ONCE or size >= _RECORDS_BYTES
                    or clock() - began >= _RECORDS_WITHIN_S):
                await self._keep_some(made)
                made, size = [], 0
        await self._keep_some(made)

    async def _keep_some(self, made: list[_Made]) -> None:
        try:
            await self._keep(made)
        except StateError as error:
            log.error("%s", error)
            for one in made:
                one.job.due = self._passed() + _AGAIN_S
        except Exception:
            if len(made) > 1:                            # whose it is: one after the other
                for one in made:
                    await self._keep_some([one])
                return
            [one] = made
            log.exception("internal error; please report: no record of job %s", one.key.job)
            one.job.due = self._passed() + _FORGET_EVERY_S

    async def _facts(self, keys: list[Key]) -> tuple[dict[Key, Facts], dict[Key, Facts]]:
        """
        {Key: Facts} of the jobs that the batch system knows, {} where it does not answer; and
        {(scheduler, job, 0): Facts} of these and of the jobs that their reports name.
        """
        by_system: dict[str, list[Key]] = {}
        found: dict[Key, Facts] = {}
        others: dict[Key, Facts] = {}
        abouts = {key: self._jobs[key].about for key in keys if _is_askable(key.job)}
        for key, about in abouts.items():
            by_system.setdefault(about.scheduler, []).append(key)
        for name, some in by_system.items():
            try:
                system = schedulers.named(name)
                named = {job for key in some for job in self._named(key) if _is_askable(job)}
                asked = {key.job for key in some}
                asked.update(islice(sorted(named - asked), _MOST_OTHERS))
                facts = await asyncio.get_running_loop().run_in_executor(
                    None, system.facts, sorted(asked))
            except IostatsError as error:
                self.harvest.warn_hourly(error)
                continue
            except Exception:
                log.exception("internal error; please report: no facts from %s", name)
                continue
            found.update((key, facts[key.job]) for key in some if key.job in facts
                         and _are_of(facts[key.job], key, abouts[key]))
            others.update((Key(name, job, 0), one) for job, one in facts.items())
        return found, others

    def _named(self, key: Key) -> set[str]:
        """Ids of the jobs that the reports of a job name."""
        job = self._jobs[key]
        if job.others is None:
            job.others = set()
            for _, _, body in self._store.reports(key):
                try:
                    job.name(msgspec.json.decode(body, type=SiteReport).others)
                except msgspec.MsgspecError:                # _make_record says so
                    continue
        return job.others

    def _without_ended(self, one: SiteReport, key: Key, known: dict[Key, Facts]) -> SiteReport:
        """`one` without those other jobs that had ended before its own began on its node."""
        began = one.ended - one.elapsed_s
        over = [other for other in one.others if self._had_ended(
            other, one, began, key, known.get(Key(one.about.scheduler, other.job, 0)))]
        if not over or not one.other_jobs:
            return one
        left = one.other_jobs - len(over)
        if left >= one.in_cgroups:                           # else one of them may be still there
            self._over[one.node] = over
            while len(self._over) > _MOST_OVER:
                self._over.popitem(last=False)
        return msgspec.structs.replace(one, other_jobs=max(one.in_cgroups, left))

    def _had_ended(self, other: Other, one: SiteReport, began: float, key: Key,
                   facts: Optional[Facts]) -> bool:
        """
        Whether the batch system has told that a job which has had no epilog was over by then.

        A record alone is no proof: a node that leaves a job early has an epilog while it goes on.
        """
        told = self._store.told_ended(Key(key.cluster, other.job, other.attempt))
        if told is not None and told <= began:
            return True
        if facts is None or not (not key.cluster or not facts.cluster
                                 or key.cluster == facts.cluster):
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

    async def _make_record(self, key: Key, job: _Job, facts: Optional[Facts],
                           others: dict[Key, Facts]) -> _Made:
        """The _Made of a job, by the reports that are here; `others`: see _facts."""
        totals = Totals(key.job, job.expected, **how_to_add_up(self.config))
        reports = job.reports
        without: list[Any] = []
        for number, (node, seq, body) in enumerate(self._store.reports(key)):
            try:
                with as_kept(self._store.path):
                    one = msgspec.json.decode(body, type=SiteReport)
            except StateError as error:
                self._store.put_aside(key, node, seq, str(error))
                continue
            if job.about == About():                    # it was damaged, see _job
                job.learn(one.about)
            if one.reason:
                without.append(one)
            else:
                totals.add(self._without_ended(one, key, others))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        without += (job_totals.Report(node if is_node_name(node) else "(unknown)",
                                      f"damaged {number}", "", "", _DAMAGED, 0.0, 0.0, 0.0, {}, [])
                    for number, node in enumerate(self._store.damaged(key)))
        # Last, whenever they came: that a part has no numbers is said in any case.
        for one in without:
            totals.add(one)
        if totals.expected is None and not totals.reported and facts is not None and (
                facts.restarts == key.attempt):
            totals.expected = ranking.node_count(facts)
        known = self._store.job(key)
        if known is not None and known.closed:           # its reports are gone, the record is not
            with as_kept(self._store.path):
                record = msgspec.json.decode(next(self._store.records_of([key])))
        else:
            record = _with_facts(totals.record(), key, job.about, facts)
        record = self._with_harvest(record, key)
        return _Made(key, job, reports, facts, record, msgspec.json.encode(record),
                     summary_of(record))

    async def _keep(self, made: list[_Made]) -> None:
        """Keep [_Made] in one commit, and begin to show them; StateError."""
        # Where one more report has come meanwhile: again, in a moment.
        made = [one for one in made if one.key in self._jobs
                and self._jobs[one.key] is one.job and one.job.reports == one.reports]
        if made:
            now = self._now()
            self._store.keep_records([(
                one.key, one.encoded, one.record["job"]["id"],
                one.record["batch"]["array_job"] or one.record["batch"]["het_job"],
                one.record["job"]["user"] or "", now, one.summary) for one in made])
        for one in made:
            del self._jobs[one.key]
            log.info("%s", job_tables.coverage_line(one.record))
            if one.facts is not None:
                self.harvest.learn(one.key.job, one.facts)
        for one in made:
            await self._begin_to_show(one.key, one.job.about, one.facts, one.record)

    def _with_harvest(self, record: dict[str, Any], key: Key) -> dict[str, Any]:
        """`record`, with what the storage servers counted."""
        job = record["job"]
        part = self.harvest.part(key.job, job["started"], job["ended"])
        if part is None:
            return {**record, "harvest": None}
        found = harvest_intake.as_record(part, node_sets.folded)
        return {**record, "harvest": client_vs_server.compared(record, found, self.harvest.targets)}

    # -- to its user -------------------------------------------------------------------------------

    async def _begin_to_show(self, key: Key, about: About, facts: Optional[Facts],
                             record: dict[str, Any]) -> None:
        """A place where one user's report hangs keeps no other report from being shown."""
        while len(self._showing) >= _SHOWN_AT_ONCE or key in self._showing:
            await asyncio.wait(self._showing.values(), return_when=asyncio.FIRST_COMPLETED)
        if self.config["site.show"]:
            self._showing[key] = asyncio.ensure_future(self._show(key, about, facts, record))

    async def _show(self, key: Key, about: About, facts: Optional[Facts],
                    record: dict[str, Any]) -> None:
        try:
            await self._show_all_ways(key, about, facts, record)
        except IostatsError as error:
            log.warning("job %s: %s", key.job, error)
        except Exception:
            log.exception("internal error; please report: job %s was not shown", key.job)
        finally:
            del self._showing[key]

    async def _show_all_ways(self, key: Key, about: About, facts: Optional[Facts],
                             record: dict[str, Any]) -> None:
        ways = self.config["site.show"]
        user, job = record["job"]["user"], record["job"]["id"]
        text = job_tables.text(job_tables.labelled(record, self.config), self.config,
                               self.config["report.format"])
        if "comment" in ways and facts is not None:
            one = asyncio.ensure_future(self._comment(about.scheduler, facts, key.attempt, record))
            if key in self._commenting:
                self._commenting[key].cancel()               # of an older record
            self._commenting[key] = one
            one.add_done_callback(lambda done: self._commenting.pop(key)
                                  if self._commenting.get(key) is done else None)
        if not user:
            return
        if "home" in ways:
            await self._hand_over(self._writer.keep_at_home(user, job, text))
        output = (facts.output if facts else "") or about.output
        # Appended once: what comes later is in the other places.
        if "output" in ways and output and "%" not in output and self._store.show_once(key):
            await self._hand_over(self._writer.append(user, output, "\n" + text))

    async def _comment(self, scheduler: str, facts: Facts, attempt: int,
                       record: dict[str, Any]) -> None:
        """Write the short form; the accounting may hear of a job later than we do."""
        why: object = "its fields have other texts, or the accounting does not know it"
        for pause_s in _COMMENT_AFTER_S:
            await asyncio.sleep(pause_s)
            try:
                async with self._may_comment:
                    if await asyncio.get_running_loop().run_in_executor(
                            None, _write_comment, scheduler, facts, attempt,
                            accounting_comment.encode(record), self.config["site.comment_fields"]):
                        return
            except IostatsError as error:
                why = error
            except Exception:
                log.exception("internal error; please report: no comment for %s", facts.job)
                return
        log.warning("job %s: no comment: %s", facts.job, why)

    @staticmethod
    async def _hand_over(writing: Awaitable[None]) -> None:
        try:
            await writing
        except (write_as_user.NotHandedOver, OSError) as error:
            log.info("%s", error)


def _not_kept(why: str) -> bytes:
    """An answer that acknowledges nothing, and that nobody has to be able to prove."""
    body = error_answer(protocol.INTERNAL_ERROR, detail=why)
    return (f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body


def _checked_job(job: str) -> str:
    """`job`, which may be any text that is printed; WireError."""
    try:
        if checked_job_id(job) == job:
            return job
    except UsageError:
        pass
    raise WireError(protocol.INVALID_PARAMS, f"expected a job id without control characters, got "
                                         f"{job[:40]!r}")


def _is_askable(job: str) -> bool:
    """Whether a batch system can be asked for it; one that can't must not stop the others."""
    try:
        return bool(schedulers.askable([job]))
    except UsageError:
        return False


def _tells_late(scheduler: str) -> bool:
    """Whether a batch system forgets a job some seconds before its accounting knows it."""
    try:
        return getattr(schedulers.named(scheduler), "TELLS_LATE", False)
    except UsageError:
        return False


def _are_of(facts: Facts, key: Key, about: About) -> bool:
    """False for facts of another job that has the same number, of another cluster or long ago."""
    return ((not key.cluster or not facts.cluster or key.cluster == facts.cluster)
            and (not about.user or not facts.user or about.user == facts.user))


def _within_limit(records: Iterable[bytes]) -> list[msgspec.Raw]:
    """[msgspec.Raw] of records (bytes); WireError when they are too many for an answer."""
    found, size = [], 0
    try:
        for record in records:
            size += len(record)
            if size > _LARGEST_ANSWER:
                raise WireError(protocol.REFUSED, f"expected records of at most "
                                f"{_LARGEST_ANSWER >> 20} MiB together, got more; ask for fewer")
            found.append(msgspec.Raw(record))
    except StateError as error:
        raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
    return found


def _uid_of(user: str) -> int:
    if user.isascii() and user.isdigit():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise StateError(f"site.cfg: [site] readers: expected users of this machine, got "
                         f"{user!r}") from None


def _with_facts(record: dict[str, Any], key: Key, about: About,
                facts: Optional[Facts]) -> dict[str, Any]:
    """`record`, with what the batch system says of the job."""
    now_another = facts is not None and facts.restarts > key.attempt
    facts = facts or Facts(job=key.job, raw_job=key.job)
    batch = {"system": about.scheduler,
             **{name: getattr(facts, name) for name in _COLUMNS}}
    for name in ("cluster", "account", "partition", "nodes"):
        batch[name] = getattr(about, name) or batch[name]
    batch["raw_job"] = batch["raw_job"] or key.job
    if now_another:
        batch.update(outcome="REQUEUED", exit_status=None, exit_signal=None)
    # The one whose process has made the report is root, and not the job's user.
    user = about.user or facts.user or _user_of(about.uid)
    job = {**record["job"], "id": facts.job or key.job, "user": user or None,
           "attempt": key.attempt}
    if job["started"] is None and facts.started is not None and not now_another:
        job["started"] = facts.started                   # no node has told
        if facts.ended is not None:
            job.update(ended=facts.ended,
                       elapsed_s=round(max(0.0, facts.ended - facts.started), 3))
    return {**record, "job": job, "batch": batch}


def _user_of(uid: Optional[int]) -> str:
    if uid is None:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _write_comment(scheduler: str, facts: Facts, attempt: int, text: str,
                   fields: Sequence[str]) -> bool:
    """True when it is written, or is not to be: another system, or the run was followed by one."""
    system = schedulers.named(scheduler)
    if not hasattr(system, "write_comment") or facts.restarts != attempt:
        return True
    return system.write_comment(facts, text, tuple(fields), accounting_comment.MARK) is not None
