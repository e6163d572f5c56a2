"""
The site's server: takes the messages of all nodes and storage servers, and answers about all jobs.

    a node's report         ->  store  ->  the node gets its answer, and removes its copy
    all nodes of the job have reported, or [site] deadline has passed
                            ->  records.py makes the record  ->  store  ->  publish.py shows it
    an agent's sweep        ->  harvest_intake.py

A message is answered when its content is on the disk.  Reports are added up when their job is over,
so memory holds only a list of open jobs, and a server that was killed continues from the store.  A
record that was stored but not yet shown then is not shown; `iostats report` has it.
"""

import asyncio
import logging
import os
import pwd
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Annotated, Any, Optional, Union

import msgspec

from iostats.base.errors import NotDelivered, StateError, UsageError, WireError
from iostats.base.job_facts import Facts
from iostats.base.job_id import checked_job_id
from iostats.server.http import error_response
from iostats.server.rpc_server import RelayCaller, RpcServer, Sender
from iostats.site import harvest_intake, load_queries, node_queries
from iostats.site.all_jobs import AllJobs
from iostats.site.batch_facts import user_name
from iostats.site.events import on_critical
from iostats.site.events.answers import EventAnswers
from iostats.site.events.intake import SiteEvents
from iostats.site.events.late_events import LateEvents
from iostats.site.events.of_record import RecordEvents
from iostats.site.events.questions import EventsParams, EventsStatusParams
from iostats.site.job_index import JobsParams
from iostats.site.lines.questions import FileSystemLinesParams, LineAnswers
from iostats.site.lines.runs import JobHistoryParams
from iostats.site.on_behalf import AsUserParams, OnBehalf, RightsParams
from iostats.site.open_jobs import JobClosed, OpenJobs, SiteReport
from iostats.site.publish import Publisher
from iostats.site.records import Records
from iostats.site.relay.incoming import RelaysFrom
from iostats.wire import protocol
from iostats.wire.jsonrpc import Method
from iostats.wire.messages import clients_decoder, events_decoder, sweep_decoder, sweep_json
from iostats.wire.messages.report import Name, check_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.site.store import Store
    from iostats.wire.auth import Credentials

log = logging.getLogger("iostats")

_MOST_LATEST = 1000
_MOST_WAITING = 300             # jobs in one question, and in one answer
_MOST_NAMED = 20                # nodes of a job that are missing, by name
LARGEST_ANSWER = 1 << 27        # bytes of records


class RecordParams(msgspec.Struct):
    """The params of `record`: a job, as its users or its nodes call it."""

    job: Name


class LatestParams(msgspec.Struct):
    """The params of `latest`."""

    count: Annotated[int, msgspec.Meta(ge=1, le=_MOST_LATEST)] = 10


class WaitingParams(msgspec.Struct):
    """The params of `waiting`: jobs, as their nodes call them; [] for all."""

    jobs: Annotated[list[Name], msgspec.Meta(max_length=_MOST_WAITING)] = []


class SiteServer(RpcServer):
    """
    Receives, keeps, adds up, and answers for all jobs.

    `store`: a store.Store; `credentials`: auth.server_credentials(...) of protocol.SITE; `sinks`:
    what gets the storage servers' sweeps.

    Attributes:
        harvest: what the storage servers' agents have sent.
        open_jobs: the jobs whose record is due.
        publisher: what shows records to their users.
        records: what makes them.
        all_jobs: what the batch system says of all jobs.
        events: what went wrong on storage servers and nodes.
    """

    def __init__(self, store: "Store", credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float], sinks: Iterable[Any] = ()) -> None:
        super().__init__(protocol.SITE, credentials, config, now)
        self._store = store
        own = os.geteuid()
        self._reporters = frozenset((0, own))
        self._readers = {own, *map(_uid_of, config["site.readers"])}
        self._metrics: set[str] = set()
        self._unsent: list[tuple[asyncio.Transport, bytes, bool]] = []
        self._refused: dict[str, int] = {}
        self.harvest = harvest_intake.Harvest(store, config, now, sinks)
        self.open_jobs = OpenJobs(store, config)
        self.events = SiteEvents(store, config, now, self.harvest.clients.names, sinks,
                                 on_critical.followers_of(config, os.path.dirname(store.path)))
        self.publisher = Publisher(store, config)
        of_record = RecordEvents(self.events, self.harvest.clients.names)
        self._late_events = LateEvents(self.events, store, self.open_jobs, of_record)
        self.records = Records(store, config, self.open_jobs, self.harvest, self.publisher, now,
                               of_record)
        self.all_jobs = AllJobs(store, config, self.open_jobs, self.harvest, now)
        self.methods.update(sweep=Method(self._sweep, sweep_json.JsonSweep),
                            packed_sweep=Method(self._sweep, sweep_decoder.PackedSweep),
                            packed_clients=Method(self._clients, sweep_decoder.PackedSweep),
                            packed_events=Method(self._packed_events, sweep_decoder.PackedSweep),
                            report=Method(self._report, SiteReport, keys_once=True),
                            record=Method(self._record, RecordParams),
                            latest=Method(self._latest, LatestParams),
                            waiting=Method(self._waiting, WaitingParams),
                            jobs=Method(self._listed, JobsParams),
                            load=Method(self._load, load_queries.LoadParams),
                            query=Method(self._query, load_queries.QueryParams),
                            nodes=Method(self._nodes, node_queries.NodesParams),
                            lnets=Method(self._lnets, node_queries.LnetsParams),
                            job_history=Method(self._job_history, JobHistoryParams),
                            file_system_lines=Method(self._file_system_lines,
                                                     FileSystemLinesParams),
                            events=Method(self._events, EventsParams),
                            events_status=Method(self._events_status, EventsStatusParams))
        on_behalf = OnBehalf(self.methods, self._user, self.require_authenticated)
        self.methods.update(as_user=Method(on_behalf.ask, AsUserParams),
                            rights=Method(on_behalf.rights, RightsParams))
        self._relays = RelaysFrom(config, now)
        self._for_relays = {name: Method(self._not_for_relays, msgspec.Raw)
                            for name in self.methods} | {
            "hello": self.methods["hello"],
            "packed_clients": Method(self._relayed, sweep_decoder.PackedSweep)}
        self._answers = load_queries.LoadAnswers(lambda: self.all_jobs.runs.running())
        self._of_lines = LineAnswers(self.harvest, lambda: bool(self.events.tellers.of), now)
        self._of_nodes = node_queries.NodeAnswers()
        self._of_events = EventAnswers(self.events, store, self.all_jobs, self.harvest)

    async def listen(self, host: str = "") -> None:
        """Listen on [site] port."""
        port = self.config["site.port"]
        if await self.listen_on(host, [port]) is None:
            raise NotDelivered(f"port {port} is taken: another server of the site? ([site] "
                               f"port; who has it: ss -ltnp sport = :{port})")

    def close(self) -> None:
        """An orderly end."""
        super().close()
        self.publisher.close()
        self.harvest.close()

    async def work(self) -> None:
        """Make the records that are due, and look after the harvest, until cancelled."""
        try:
            await self.publisher.begin()
            await asyncio.gather(self.records.work(), self.harvest.work(self.on_settled),
                                 self.all_jobs.work(), self.events.work(),
                                 self._late_events.work())
        finally:
            self.publisher.close()

    def on_settled(self, jobs: dict[str, Optional[Facts]]) -> None:
        """The storage servers' totals of {job: Facts or None} are final; StateError."""
        self.open_jobs.expect(jobs, self.harvest.lives.scheduler)

    # -- messages --------------------------------------------------------------------------------

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        if node is not None and self._relays.has_refused(node, why):
            return
        count = self._refused[why] = self._refused.get(why, 0) + 1
        if count & (count - 1) == 0:                 # 1, 2, 4, 8, ...: to keep the log short
            log.warning("%s messages refused: %s (the last one of %s)", count, why, node or "?")

    def _report(self, one: SiteReport, sender: Sender) -> dict[str, Any]:
        caller = self.require_authenticated(sender, self._reporters)
        check_report(one, caller.node, _checked_job(one.job), self._metrics)
        try:
            is_new = self.open_jobs.add(one)
            self.events.take_reported(one)
        except JobClosed as error:
            self.refuse("too late")
            raise WireError(protocol.REFUSED, str(error)) from None
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
        over = self.records.pop_over(one.node)
        return {"counted": True, "why": "" if is_new else "this report is here already",
                **({"over": over} if over else {})}

    def _sweep(self, message: Union[sweep_json.JsonSweep, sweep_decoder.PackedSweep],
               sender: Sender) -> dict[str, Any]:
        caller = self.require_authenticated(sender, self._reporters)
        return harvest_intake.answer_to(self.harvest, message, caller)

    def _clients(self, message: sweep_decoder.PackedSweep, sender: Sender) -> dict[str, Any]:
        caller = self.require_authenticated(sender, self._reporters)
        return harvest_intake.answer_to(self.harvest, message, caller,
                                        clients_decoder.decoded_clients)

    def _packed_events(self, message: sweep_decoder.PackedSweep,
                       sender: Sender) -> Generator[None, None, dict[str, Any]]:
        caller = self.require_authenticated(sender, self._reporters)
        try:
            taken = events_decoder.decoded_events(message, self.config["server.max_message_bytes"])
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise WireError(protocol.INVALID_PARAMS, str(error)) from None
        if taken.head.node != caller.node:
            raise WireError(protocol.REFUSED,
                            "the events are from another storage server than their header")
        try:
            return (yield from self.events.take(taken, caller.node))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def credentials_for(self, authorization: str) -> "Optional[Credentials]":
        if authorization.startswith(f"{protocol.RELAY_SCHEME} "):
            return self._relays.secret_of(authorization)
        return super().credentials_for(authorization)

    def methods_for(self, sender: Sender) -> dict[str, Method]:
        if isinstance(sender, RelayCaller):
            return self._for_relays
        return super().methods_for(sender)

    def _relayed(self, message: sweep_decoder.PackedSweep, sender: Sender) -> dict[str, Any]:
        return self._relays.answer(self.harvest, message, self.require_authenticated(sender))

    def _not_for_relays(self, params: msgspec.Raw, sender: Sender) -> None:
        self._relays.refuse_method(self.require_authenticated(sender).node)

    def send(self, transport: asyncio.Transport, data: bytes, keep: bool) -> None:
        """Send after the next commit, which is one for all answers of a turn of the event loop."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._commit)
        self._unsent.append((transport, data, keep))

    def _commit(self) -> None:
        unsent, self._unsent = self._unsent, []
        had_changes = self._store.has_changes
        try:
            self._store.commit()
        except StateError as error:
            self.long_answers.discard()
            self.trouble = str(error)
            # It acknowledges nothing, so it needs no proof of who sends it; the nodes try again.
            failed = error_response("503 Service Unavailable", protocol.INTERNAL_ERROR, str(error))
            for transport, _, _ in unsent:
                super().send(transport, failed, False)
            self._store.trouble.say(error, "; nodes and agents keep what they have, and "
                                           "send it again")
            for reload in (self.open_jobs.reload, self.harvest.reload, self.events.reload):
                try:
                    reload()
                except StateError as worse:
                    self._store.trouble.say(worse)
            return
        if had_changes:                              # so the disk is not full any more
            self.trouble = ""
        for transport, data, keep in unsent:
            super().send(transport, data, keep)
        self.events.committed()

    # -- questions -------------------------------------------------------------------------------

    def _user(self, sender: Sender) -> Optional[str]:
        """The only user whose records `sender` may read; None: all users'."""
        caller = self.require_authenticated(sender)
        if caller.uid is None or caller.uid in self._readers:
            return None
        try:
            return pwd.getpwuid(caller.uid).pw_name
        except KeyError:
            raise WireError(protocol.REFUSED, f"user {caller.uid} is not known here") from None

    def _record(self, params: RecordParams, sender: Sender) -> list[msgspec.Raw]:
        return _within_limit(self._store.records(params.job, self._user(sender)))

    def _latest(self, params: LatestParams, sender: Sender) -> list[msgspec.Raw]:
        return _within_limit(self._store.latest(params.count, self._user(sender)))

    def _waiting(self, params: WaitingParams, sender: Sender) -> list[dict[str, Any]]:
        """[{}] of jobs of which some nodes have reported, and whose record waits for others."""
        own, wanted = self._user(sender), set(params.jobs)
        clock_s = self._now() - self._store.now()      # it is due by the store's time
        found = (
            (key, job, sorted((job.expected or frozenset()) - job.heard))
            for key, job in self.open_jobs.jobs.items()
            if job.heard and (not wanted or key.job in wanted) and own in (None, job.about.user))
        return [{"job": key.job, "attempt": key.attempt, "user": job.about.user,
                 "reported": len(job.heard), "nodes": job.expected and len(job.expected),
                 "missing": missing[:_MOST_NAMED], "missing_count": len(missing),
                 "until": clock_s + job.due} for key, job, missing in islice(found, _MOST_WAITING)]

    def _listed(self, question: JobsParams, sender: Sender) -> dict[str, Any]:
        """Rows of the caller's own jobs, or of those that a reader asks for."""
        own = self._user(sender)
        users = [user_name(int(user)) if user.isascii() and user.isdigit() and len(user) < 10
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

    def _load(self, ask: load_queries.LoadParams,
              sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._answers.load(self.harvest, ask, self._user(sender))

    def _query(self, ask: load_queries.QueryParams,
               sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._answers.query(self.harvest, ask, self._user(sender))

    def _nodes(self, ask: node_queries.NodesParams,
               sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._of_nodes.answer(self.harvest.clients, ask, self._user(sender))

    def _lnets(self, ask: node_queries.LnetsParams,
               sender: Sender) -> Generator[None, None, dict[str, dict[str, int]]]:
        return node_queries.lnets(self.harvest.clients, self._user(sender))

    def _job_history(self, ask: JobHistoryParams,
                     sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._of_lines.job_history(ask, self._user(sender))

    def _file_system_lines(self, ask: FileSystemLinesParams,
                           sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._of_lines.file_system_lines(ask, self._user(sender))

    def _events(self, ask: EventsParams,
                sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._of_events.events(ask, self._user(sender))

    def _events_status(self, ask: EventsStatusParams,
                       sender: Sender) -> Generator[None, None, dict[str, Any]]:
        return self._of_events.status(ask, self._user(sender))


def _checked_job(job: str) -> str:
    """`job`, any text of printable characters; WireError."""
    try:
        if checked_job_id(job) == job:
            return job
    except UsageError:
        pass
    raise WireError(protocol.INVALID_PARAMS, f"expected a job id without control characters, got "
                                         f"{job[:40]!r}")


def _within_limit(records: Iterable[bytes]) -> list[msgspec.Raw]:
    """[msgspec.Raw] of records (bytes); WireError when they are too many for an answer."""
    found, size = [], 0
    try:
        for record in records:
            size += len(record)
            if size > LARGEST_ANSWER:
                raise WireError(protocol.REFUSED, f"expected records of up to "
                                f"{LARGEST_ANSWER >> 20} MiB together, got more; ask for fewer")
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
