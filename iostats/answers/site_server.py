"""
The site's server: receives the messages of all nodes and storage servers, and answers queries of
all jobs.

    a node's report         ->  store  ->  the node gets its answer, and removes its copy
    all nodes of the job have reported, or [site] deadline has passed
                            ->  jobs/records.py makes the record  ->  store
                            ->  jobs/publish.py shows it
    an agent's sweep        ->  harvest/intake.py

A message is answered when its content is on the disk.  Reports are added up when their job has
ended, so memory holds only a list of open jobs, and a server that was killed continues from the
store.  A record that was stored but not yet shown at that moment is not shown; `iostats report` has
it.
"""

import asyncio
import contextlib
import logging
import os
import pwd
from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Optional

import msgspec

from iostats.answers import load_queries, node_queries
from iostats.answers.event_queries import EventAnswers
from iostats.answers.on_behalf import AsUserParams, OnBehalf, RightsParams
from iostats.answers.selected_run import JobHistoryParams
from iostats.answers.time_line_queries import FileSystemLinesParams, TimeLineAnswers
from iostats.base.errors import NotDelivered, StateError, UsageError, WireError
from iostats.base.job_facts import Facts
from iostats.base.job_id import check_job_id
from iostats.base.units import format_count
from iostats.base.users import find_user
from iostats.harvest import intake as harvest_intake
from iostats.harvest.events import on_critical
from iostats.harvest.events.capacities import CapacityParams
from iostats.harvest.events.event_filter import EventsParams, EventsStatusParams
from iostats.harvest.events.intake import SiteEvents
from iostats.harvest.events.reported_lnet import (
    ShortPeers,
    add_lnet_rows,
    list_lnets,
    make_lnet_columns,
)
from iostats.harvest.events.reported_metrics import QuotasParams
from iostats.harvest.relay.incoming import RelaysFrom
from iostats.harvest.sink import Sink
from iostats.jobs.all_jobs import AllJobs
from iostats.jobs.batch_facts import find_user_name
from iostats.jobs.events_of_record import RecordEvents
from iostats.jobs.late_events import LateEvents
from iostats.jobs.open_jobs import JobClosed, OpenJobs, SiteReport
from iostats.jobs.publish import Publisher
from iostats.jobs.records import Records
from iostats.load.answer import get_names, make_row
from iostats.report.job_fields import ListedJobs
from iostats.report.job_list import WaitingJob
from iostats.server.http_server import make_error_response
from iostats.server.rpc_server import RelayCaller, RpcServer, Sender
from iostats.store.job_index import JobsParams
from iostats.store.write_errors import ConnectionLost
from iostats.wire import protocol
from iostats.wire.jsonrpc import Method
from iostats.wire.messages import clients, events, sweep_decoder
from iostats.wire.messages.report import Name, check_report

if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.store.record_store import Store
    from iostats.wire.auth import Credentials

log = logging.getLogger(__name__)

_MAX_LATEST = 1000
_MAX_WAITING = 300              # jobs in one query, and in one answer
_MAX_NAMED = 20                 # missing nodes of a job, by name
MAX_ANSWER_BYTES = 1 << 27      # bytes of records


class RecordParams(msgspec.Struct):
    """The params of `record`: a job, by its id for users or for its nodes."""

    job: Name


class LatestParams(msgspec.Struct):
    """The params of `latest`."""

    count: Annotated[int, msgspec.Meta(ge=1, le=_MAX_LATEST)] = 10


class WaitingParams(msgspec.Struct):
    """The params of `waiting`: jobs, by their ids for their nodes; [] for all."""

    jobs: Annotated[list[Name], msgspec.Meta(max_length=_MAX_WAITING)] = []


class SiteServer(RpcServer):
    """
    Receives, stores and adds up the messages of all jobs, and answers queries.

    `store`: a store.Store; `credentials`: auth.server_credentials(...) of protocol.SITE; `sinks`:
    receivers of the storage servers' sweeps.

    Attributes:
        harvest: the Harvest: the storage servers' counts.
        open_jobs: the OpenJobs, whose records are due.
        publisher: the Publisher, which shows records to their users.
        records: the Records, which makes them.
        all_jobs: the AllJobs: the batch system's list.
        events: the SiteEvents of storage servers and nodes.
    """

    def __init__(self, store: "Store", credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float], sinks: Iterable[Sink] = ()) -> None:
        super().__init__(protocol.SITE, credentials, config, now)
        self._store = store
        own = os.geteuid()
        self._reporters = frozenset((0, own))
        self._readers = {own, *map(_find_uid, config.site.readers)}
        self._metrics: set[str] = set()
        self._unsent: list[tuple[asyncio.Transport, bytes, bool]] = []
        self._refused: dict[str, int] = {}
        self.harvest = harvest_intake.Harvest(store, config, now, sinks)
        self.open_jobs = OpenJobs(store, config)
        self.events = SiteEvents(store, config, now, self.harvest.clients.names, sinks,
                                 on_critical.make_followers(config))
        self.publisher = Publisher(store, config)
        of_record = RecordEvents(self.events, self.harvest.clients.names)
        self._late_events = LateEvents(self.events, store, self.open_jobs, of_record)
        self.records = Records(store, config, self.open_jobs, self.harvest, self.publisher, now,
                               of_record)
        self.all_jobs = AllJobs(store, config, self.open_jobs, self.harvest, now)
        self.methods.update(packed_sweep=Method(self._receive_sweep, sweep_decoder.PackedSweep),
                            packed_clients=Method(self._receive_clients, sweep_decoder.PackedSweep),
                            packed_events=Method(self._receive_events,
                                                 sweep_decoder.PackedSweep),
                            report=Method(self._receive_report, SiteReport, keys_once=True),
                            record=Method(self._answer_record, RecordParams),
                            latest=Method(self._answer_latest, LatestParams),
                            waiting=Method(self._answer_waiting, WaitingParams),
                            jobs=Method(self._answer_jobs, JobsParams),
                            load=Method(self._answer_load, load_queries.LoadParams),
                            query=Method(self._answer_query, load_queries.QueryParams),
                            nodes=Method(self._answer_nodes, node_queries.NodesParams),
                            lnets=Method(self._answer_lnets, node_queries.LnetsParams),
                            job_history=Method(self._answer_job_history, JobHistoryParams),
                            file_system_lines=Method(self._answer_file_system_lines,
                                                     FileSystemLinesParams),
                            events=Method(self._answer_events, EventsParams),
                            events_status=Method(self._answer_events_status, EventsStatusParams),
                            capacity=Method(self._answer_capacity, CapacityParams),
                            metrics=Method(self._answer_metrics, CapacityParams),
                            quotas=Method(self._answer_quotas, QuotasParams))
        on_behalf = OnBehalf(self.methods, self._find_user, self.require_authenticated)
        self.methods.update(as_user=Method(on_behalf.call, AsUserParams),
                            rights=Method(on_behalf.rights, RightsParams))
        self._relays = RelaysFrom(config, now)
        self._for_relays = {name: Method(self._refuse_relays, msgspec.Raw)
                            for name in self.methods} | {
            "hello": self.methods["hello"],
            "packed_clients": Method(self._receive_relayed, sweep_decoder.PackedSweep)}
        self._load_answers = load_queries.LoadAnswers(lambda: self.all_jobs.runs.running_jobs())
        self._time_line_answers = TimeLineAnswers(self.harvest,
                                                  lambda: bool(self.events.reporting_servers.of),
                                                  now)
        self._node_answers = node_queries.NodeAnswers()
        self._event_answers = EventAnswers(self.events, store, self.all_jobs, self.harvest)

    async def listen(self, host: str = "") -> None:
        """Listen on [site] port."""
        port = self.config.site.port
        if await self.listen_on(host, [port]) is None:
            raise NotDelivered(f"port {port} is in use: another server of the site? ([site] "
                               f"port; check: ss -ltnp sport = :{port})")

    def close(self) -> None:
        """End the server in order."""
        super().close()
        self.publisher.close()
        self.harvest.close()

    async def work(self) -> None:
        """Make due records, and do the background work of all parts, until cancelled."""
        try:
            await self.publisher.begin()
            await asyncio.gather(self.records.work(), self.harvest.work(self.on_settled),
                                 self.all_jobs.work(), self.events.work(),
                                 self._late_events.work(), self._end_with_connection())
        finally:
            self.publisher.close()

    async def _end_with_connection(self) -> None:
        """ConnectionLost when the connection to the store is lost; its last commit is uncertain."""
        while not isinstance(self._store.lost, ConnectionLost):
            with contextlib.suppress(StateError):
                self._store.rows("SELECT 1")
            await asyncio.sleep(1)
        raise self._store.lost

    def on_settled(self, jobs: dict[str, Optional[Facts]]) -> None:
        """
        Make records due: the storage servers' totals of {job: Facts or None} are final; StateError.
        """
        self.open_jobs.expect(jobs, self.harvest.lives.scheduler)

    # -- messages --------------------------------------------------------------------------------

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        if node is not None and self._relays.has_refused(node, why):
            return
        count = self._refused[why] = self._refused.get(why, 0) + 1
        if count & (count - 1) == 0:                 # 1, 2, 4, 8, ...: to keep the log short
            log.warning("%s refused: %s (the last one of %s)", format_count(count, "message"), why,
                        node or "?", extra={"node": node})

    def _receive_report(self, report: SiteReport, sender: Sender) -> dict[str, Any]:
        caller = self.require_authenticated(sender, self._reporters)
        check_report(report, caller.node, _check_job(report.job), self._metrics)
        try:
            is_new = self.open_jobs.add(report)
            self.events.take_reported(report)
        except JobClosed as error:
            self.refuse("too late")
            raise WireError(protocol.REFUSED, str(error)) from None
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
        over = self.records.pop_ended_jobs(report.node)
        return {"counted": True, "why": "" if is_new else "this report was stored before",
                **({"over": over} if over else {})}

    def _receive_sweep(self, message: sweep_decoder.PackedSweep, sender: Sender) -> dict[str, Any]:
        caller = self.require_authenticated(sender, self._reporters)
        return harvest_intake.answer_to(self.harvest, message, caller)

    def _receive_clients(self, message: sweep_decoder.PackedSweep,
                         sender: Sender) -> dict[str, Any]:
        caller = self.require_authenticated(sender, self._reporters)
        return harvest_intake.answer_to(self.harvest, message, caller,
                                        clients.decode_clients)

    def _receive_events(self, message: sweep_decoder.PackedSweep,
                        sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        caller = self.require_authenticated(sender, self._reporters)
        try:
            received = yield from events.decode_events_in_steps(
                message, self.config.server.max_message_bytes)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise WireError(protocol.INVALID_PARAMS, str(error)) from None
        if received.head.node != caller.node:
            raise WireError(protocol.REFUSED,
                            "the events are from another storage server than their header")
        try:
            return (yield from self.events.receive(received, caller.node))
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None

    def credentials_for(self, authorization: str) -> "Optional[Credentials]":
        if authorization.startswith(f"{protocol.RELAY_SCHEME} "):
            return self._relays.find_secret(authorization)
        return super().credentials_for(authorization)

    def methods_for(self, sender: Sender) -> dict[str, Method]:
        if isinstance(sender, RelayCaller):
            return self._for_relays
        return super().methods_for(sender)

    def _receive_relayed(self, message: sweep_decoder.PackedSweep,
                         sender: Sender) -> dict[str, Any]:
        return self._relays.answer(self.harvest, message, self.require_authenticated(sender))

    def _refuse_relays(self, params: msgspec.Raw, sender: Sender) -> None:
        self._relays.refuse_method(self.require_authenticated(sender).node)

    def send(self, transport: asyncio.Transport, data: bytes, keep: bool) -> None:
        """Send an answer after the next commit; all answers of one turn of the event loop share it.
        """
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
            # It acknowledges nothing, so it needs no proof of its sender; the nodes try again.
            failed = make_error_response("503 Service Unavailable", protocol.INTERNAL_ERROR,
                                         str(error))
            for transport, _, _ in unsent:
                super().send(transport, failed, False)
            self._store.trouble.emit(error, "; nodes and agents store their messages, and "
                                            "send them again")
            for reload in (self.open_jobs.reload, self.harvest.reload, self.events.reload):
                try:
                    reload()
                except StateError as worse:
                    self._store.trouble.emit(worse)
            return
        if had_changes:                              # the store can be written again
            self.trouble = ""
        for transport, data, keep in unsent:
            super().send(transport, data, keep)
        self.events.committed()

    # -- queries ---------------------------------------------------------------------------------

    def _find_user(self, sender: Sender) -> Optional[str]:
        """The only user whose records `sender` may read; None: all users'."""
        caller = self.require_authenticated(sender)
        if caller.uid is None or caller.uid in self._readers:
            return None
        try:
            return pwd.getpwuid(caller.uid).pw_name
        except KeyError:
            raise WireError(protocol.REFUSED, f"there is no user {caller.uid} here") from None

    def _answer_record(self, params: RecordParams, sender: Sender) -> list[msgspec.Raw]:
        return _limit_answer(self._store.records(params.job, self._find_user(sender)))

    def _answer_latest(self, params: LatestParams, sender: Sender) -> list[msgspec.Raw]:
        return _limit_answer(self._store.latest(params.count, self._find_user(sender)))

    def _answer_waiting(self, params: WaitingParams, sender: Sender) -> list[WaitingJob]:
        """Jobs with reports of some nodes, whose record waits for the others."""
        own, wanted_jobs = self._find_user(sender), set(params.jobs)
        clock_s = self._now() - self._store.now()      # it is due by the store's time
        waiting = (
            (key, job, sorted((job.expected or frozenset()) - job.heard))
            for key, job in self.open_jobs.jobs.items()
            if job.heard and (not wanted_jobs or key.job in wanted_jobs)
            and own in (None, job.about.user))
        return [{"job": key.job, "attempt": key.attempt, "user": job.about.user,
                 "reported": len(job.heard),
                 "nodes": None if job.expected is None else len(job.expected),
                 "missing": missing[:_MAX_NAMED], "missing_count": len(missing),
                 "until": clock_s + job.due} for key, job, missing in islice(waiting, _MAX_WAITING)]

    def _answer_jobs(self, params: JobsParams, sender: Sender) -> ListedJobs:
        """Rows of the caller's own jobs, or of those that a reader selects."""
        own_user = self._find_user(sender)
        users = [find_user_name(int(user)) if user.isascii() and user.isdigit() and len(user) < 10
                 else user for user in params.users]
        if own_user is not None and set(users) - {own_user}:
            raise WireError(protocol.REFUSED,
                            f"expected your own jobs, of user {own_user}, got a query "
                            f"of those of {', '.join(sorted(set(users) - {own_user}))[:80]}, for "
                            f"which root and [site] readers are allowed")
        try:
            rows, after = self._store.listed(msgspec.structs.replace(
                params, users=users if own_user is None else [own_user]))
        except ValueError as error:
            raise WireError(protocol.INVALID_PARAMS, str(error)) from None
        except StateError as error:
            raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
        return {"jobs": rows, "next": after}

    def _answer_load(self, params: load_queries.LoadParams,
                     sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        lnets = list_lnets(self.events.reporting_servers) if params.by == "lnet" else ()
        answer = yield from self._load_answers.load(
            self.harvest, params, self._find_user(sender), needs_clients=not lnets)
        if params.by == "lnet":
            add_lnet_rows(answer, lnets, params.count)
            for row in answer["rows"]:
                row.update(make_row(make_lnet_columns(row["file_system"], get_names(row)["lnet"]
                                                      or "", self.events.reporting_servers,
                                                      self.events.now())))
        return answer

    def _answer_query(self, params: load_queries.QueryParams,
                      sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        return self._load_answers.query(self.harvest, params, self._find_user(sender))

    def _answer_nodes(self, params: node_queries.NodesParams,
                      sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        return self._node_answers.answer(self.harvest.clients, params, self._find_user(sender),
                                         ShortPeers(self.events.reporting_servers.of.values()))

    def _answer_lnets(self, params: node_queries.LnetsParams,
                      sender: Sender) -> Generator[None, None, dict[str, dict[str, int]]]:
        return node_queries.count_lnets(self.harvest.clients, self._find_user(sender))

    def _answer_job_history(self, params: JobHistoryParams,
                            sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        return self._time_line_answers.job_history(params, self._find_user(sender))

    def _answer_file_system_lines(self, params: FileSystemLinesParams,
                                  sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        return self._time_line_answers.file_system_lines(params, self._find_user(sender))

    def _answer_events(self, params: EventsParams,
                       sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        return self._event_answers.events(params, self._find_user(sender))

    def _answer_capacity(self, params: CapacityParams,
                         sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        self.require_authenticated(sender)
        return self._event_answers.capacity(params)

    def _answer_metrics(self, params: CapacityParams, sender: Sender) -> dict[str, Any]:
        self.require_authenticated(sender)
        return self._event_answers.metrics(params)

    def _answer_quotas(self, params: QuotasParams, sender: Sender) -> dict[str, Any]:
        return self._event_answers.quotas(params, self._find_user(sender))

    def _answer_events_status(self, params: EventsStatusParams,
                              sender: Sender) -> Generator[None, None, Mapping[str, object]]:
        return self._event_answers.status(params, self._find_user(sender))


def _check_job(job: str) -> str:
    """Return `job`, any text of printable characters; WireError."""
    try:
        if check_job_id(job) == job:
            return job
    except UsageError:
        pass
    raise WireError(protocol.INVALID_PARAMS, f"expected a job id without control characters, got "
                                             f"{job[:40]!r}")


def _limit_answer(records: Iterable[bytes]) -> list[msgspec.Raw]:
    """Return [msgspec.Raw] of records (bytes); WireError when they are too many for an answer."""
    raw_records, size = [], 0
    try:
        for record in records:
            size += len(record)
            if size > MAX_ANSWER_BYTES:
                raise WireError(protocol.REFUSED, f"expected records of up to "
                                f"{MAX_ANSWER_BYTES >> 20} MiB together, got more; ask for fewer")
            raw_records.append(msgspec.Raw(record))
    except StateError as error:
        raise WireError(protocol.INTERNAL_ERROR, str(error)) from None
    return raw_records


def _find_uid(user: str) -> int:
    if user.isascii() and user.isdigit():
        return int(user)
    account = find_user(user)
    if account is None:
        raise StateError(f"site.cfg: [site] readers: expected users of this machine, got "
                         f"{user!r}")
    return account.pw_uid
