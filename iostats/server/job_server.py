"""
A server: a port, and the nodes' messages; and that of one job, with the totals that they add up to.

HTTP is read by httptools (the parser of Node.js and uvicorn) in one asyncio protocol, without a
framework between: a connection is a few hundred bytes, a limit is checked while a message
arrives, and the end comes in the same turn of the loop as the last report.  Measured against
granian, uvicorn and threads in benchmarks/README.md.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import time
import zlib
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Container, Generator, Iterable
from functools import partial
from itertools import chain
from typing import Annotated, Any, Optional, Union
from weakref import WeakSet

import httptools
import msgspec

from iostats.base.cooperative import finished
from iostats.base.errors import NotDelivered, WireError
from iostats.base.job_id import LONGEST_JOB_ID, LONGEST_NODE_NAME, ports
from iostats.report.node_sets import folded
from iostats.server.blocking_calls import NoAnswer, Threads
from iostats.totals.alike import Same
from iostats.totals.job_totals import Totals
from iostats.wire import jsonrpc
from iostats.wire import protocol as wire_protocol
from iostats.wire.auth import AuthenticationError, Munge, user_not_allowed
from iostats.wire.jsonrpc import Method
from iostats.wire.messages import totals as messages_totals
from iostats.wire.messages.foreseen import Foreseen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.server.journal import Journal
    from iostats.wire.auth import Credentials

log = logging.getLogger("iostats")

_ACCEPT_AT_ONCE, _QUEUE = 16, 65535
_MOST_HELD = 256 << 20              # of all messages that have not come to their ends
_EACH_PART = 64                     # of it, beside a part's own length
_MOST_BESIDE = 65536                # bytes of a message beside its body: its head, say
_LONGEST_UNAUTHENTICATED = 65536    # bytes of a body: enough for a hello
_MOST_UNREAD = 1 << 20              # of answers that a client does not read, and asks for more;
                                    # and of questions behind one that takes long
_MOST_PAGES = 64 << 20              # of all pages that clients have not read yet
_STEP_S = 0.005                     # of a long answer, between two looks at the network
_BLOCKED_AT_ONCE, _BLOCKED_WITHIN_S = 8, 10.0       # questions to munged

_Gain = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LONGEST_NAME, _MOST_METRICS = 128, 10_000
NAME = Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)]
_Why = Annotated[str, msgspec.Meta(max_length=500)]
_MOST_SECONDS = 1e12
_Seconds = Annotated[float, msgspec.Meta(ge=-_MOST_SECONDS, le=_MOST_SECONDS)]


class Delta(msgspec.Struct, gc=False):
    """What one counter file gained; see delta.py."""

    source: NAME
    file_system: NAME
    target: NAME = ""
    values: Optional[dict[str, _Gain]] = None         # names: JobServer._check_names
    lower_bound: bool = False
    why: _Why = ""
    proved: bool = False


class Phase(msgspec.Struct):
    """One part of a node's work, between two marks."""

    name: NAME
    elapsed_s: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    deltas: list[Delta]


_Amounts = Annotated[list[_Gain], msgspec.Meta(max_length=1000)]


class Series(msgspec.Struct):
    """What `watch` saw of one file system."""

    began: _Seconds
    every_s: Annotated[float, msgspec.Meta(ge=1e-3, le=1e9)]     # 2e12 s / 1e-3 is no infinity
    read_bytes: _Amounts
    write_bytes: _Amounts
    operations: _Amounts

    def __post_init__(self) -> None:
        if not len(self.read_bytes) == len(self.write_bytes) == len(self.operations):
            raise ValueError(f"expected arrays of equal length, got {len(self.read_bytes)}, "
                             f"{len(self.write_bytes)} and {len(self.operations)}")


class Hello(msgspec.Struct):
    """The params of the method `hello`."""

    job: str = ""


class Report(msgspec.Struct):
    """The params of the method `report`; docs/wire.md."""

    protocol: int
    job: Annotated[str, msgspec.Meta(max_length=LONGEST_JOB_ID)]
    node: Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)]
    seq: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    ended: _Seconds
    elapsed_s: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    boot_id: NAME = ""
    user: NAME = ""
    reason: _Why = ""
    clock_ahead_s: _Seconds = 0.0
    uptime_s: _Seconds = 0.0
    mounts: Annotated[dict[NAME, Annotated[list[str], msgspec.Meta(max_length=1000)]],
                      msgspec.Meta(max_length=1000)] = {}
    deltas: list[Delta] = []
    dirty_bytes: Optional[dict[NAME, _Gain]] = None
    other_jobs: Optional[_Gain] = None
    phases: Annotated[list[Phase], msgspec.Meta(max_length=100)] = []
    series: Annotated[dict[NAME, Series], msgspec.Meta(max_length=1000)] = {}


Caller = namedtuple("Caller", "node uid")
Caller.__doc__ = """
Who sent an authenticated message.

Attributes:
    node: the name that it gives itself.
    uid: its user, as munge says; None where it was authenticated by the secret.
"""


# Of an unauthenticated message: why it is; None for one without Authorization.
Sender = Union[Caller, AuthenticationError, None]
# Its answer, and what proves it; see cooperative.py.
_Work = Generator[Any, Any, tuple[Optional[bytes], str]]


class Server:
    """
    Listens, reads HTTP, and gives messages to methods, which learn who sent them.

    A method is called with (params, sender): a Caller, or for an unauthenticated message the
    AuthenticationError that says why, or None without Authorization; see `require_authenticated`.

    Attributes:
        name: a job's id, or wire.SITE; what `hello` answers.
        methods: name -> Method; `hello` is there, and others are added by a subclass.
        public_methods: names of those that unauthenticated senders may call.
        port: where it listens; None before `listen_on`.
    """

    def __init__(self, name: str, credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float] = time.time,
                 most_connections: Optional[int] = None) -> None:
        """
        `credentials`: those that it takes, as of auth.server_credentials.  `most_connections`:
        instead of [server] max_connections.
        """
        self.name, self.config = name, config
        self.port: Optional[int] = None
        self.methods = {"hello": Method(self._hello, Hello)}
        self._now = now
        self._credentials = {one.SCHEME: one for one in credentials}
        self._listener: Optional[asyncio.Server] = None
        self.public_methods = {"hello"}
        self._for_unauthenticated: dict[str, Method] = {}
        # Path -> (is gzip taken) -> (header lines, body): what GET has; then nothing is POSTed.
        self.pages: dict[str, Callable[[bool], tuple[str, bytes]]] = {}
        self.connections = _Connections(config, most_connections)
        self._long: deque[_Task] = deque()
        self.tasks: WeakSet[_Task] = WeakSet()          # that are not over yet, and others
        self._elsewhere = Threads(_BLOCKED_AT_ONCE, _BLOCKED_WITHIN_S)
        # How often what was done, and not answered yet, has been dropped; see SiteServer._commit.
        self.dropped = 0
        self.trouble = ""           # why nothing can be kept just now; `doctor` tells it
        self._working: Optional[asyncio.Future[None]] = None

    # -- for subclasses ----------------------------------------------------------------------

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        """A message was refused; `node`: who sent it, or says so, where that is known."""

    def send(self, transport: asyncio.Transport, data: bytes, keep: bool) -> None:
        """
        Send the answer `data`, then close the connection unless it is to be kept.

        A subclass may do so later; in the order in which it was called for each transport.
        """
        if not transport.is_closing():
            transport.write(data)
            if not keep:
                transport.close()

    def before_answer(self, body: bytes, sender: Sender) -> None:
        """What `body` asks was done; its answer leaves after this."""

    def require_authenticated(self, sender: Sender,
                              uids: Optional[Container[int]] = None) -> Caller:
        """
        The Caller that `sender` is; an unauthenticated message is refused with a WireError.

        `uids`: where munge names the user, it must be one of these.
        """
        if isinstance(sender, Caller):
            if uids is None or sender.uid is None or sender.uid in uids:
                return sender
            sender = user_not_allowed(sender.uid, self.name, sender.node)
        if sender is None:
            self.refuse("not authenticated")
            raise WireError(wire_protocol.NOT_AUTHENTICATED,
                            "no Authorization header; see docs/wire.md")
        self.refuse(_WHY_REFUSED[sender.code], sender.claimed)
        # A new one: raising `sender` itself would make a reference cycle with this frame, and keep
        # the message in memory until the next garbage collection.
        raise AuthenticationError(sender.code, str(sender), sender.claimed, sender.nonce)

    # -- one request -------------------------------------------------------------------------

    def _hello(self, hello: Hello, sender: Sender) -> dict[str, Any]:
        """The server's name, for anybody: so a node tells another job's server from its own."""
        if (isinstance(sender, AuthenticationError) and hello.job == self.name
                and sender.code == wire_protocol.NOT_AUTHENTICATED):
            self.refuse("not authenticated", sender.claimed)    # it names this job
        found = {"job": self.name, "protocol": wire_protocol.PROTOCOL, "time": self._now()}
        if self.trouble and isinstance(sender, Caller):
            found["trouble"] = self.trouble
        return found

    def answer(self, body: bytes, authorization: str,
               compressed: bool = False) -> tuple[Optional[bytes], str]:
        """
        (answer or None, the header "NAME: value" that proves it or "") of one request body and
        its Authorization header.

        `compressed`: the body has Content-Encoding: deflate; _TooLarge when it is too long without.
        """
        return finished(self.answering(body, authorization, compressed))

    def answering(self, body: bytes, authorization: str, compressed: bool) -> "_Work":
        """The same in steps, where a method takes them, or munge is asked; otherwise in one."""
        sender: Sender = None
        by, nonce = None, ""
        if authorization:
            by = self._credentials.get(authorization.partition(" ")[0])
            sender, nonce = yield from self._authenticate(by, body, authorization)
        reply = None
        if compressed:
            body, reply = self._inflated(body, sender)
        if not isinstance(sender, Caller) and len(body) > _LONGEST_UNAUTHENTICATED:
            reply = self._rejection(sender)
        if reply is None:
            reply = yield from jsonrpc.answering(body, self.methods_for(sender), sender, _log_bug)
            self.before_answer(body, sender)
        if reply is None or by is None or not nonce:
            return reply, ""
        try:
            header = (yield partial(by.answer_header, nonce, reply)) if isinstance(
                by, Munge) else by.answer_header(nonce, reply)
        except NoAnswer:
            header = None
        return reply, f"{header[0]}: {header[1]}" if header else ""

    def methods_for(self, sender: Sender) -> dict[str, Method]:
        """
        {name: Method} as `sender` may call them.

        Unauthenticated, all but `public_methods` refuse, and params are not even decoded.
        """
        if isinstance(sender, Caller):
            return self.methods
        if not self._for_unauthenticated:
            refuse = Method(lambda params, sender: self.require_authenticated(sender), msgspec.Raw)
            self._for_unauthenticated = {
                name: method if name in self.public_methods else refuse
                for name, method in self.methods.items()}
        return self._for_unauthenticated

    def _authenticate(self, by: "Optional[Credentials]", body: bytes, header: str) -> Generator[
            Any, Any, tuple[Union[Caller, AuthenticationError], str]]:
        """(Caller, nonce) of an authenticated request, else (AuthenticationError, nonce or "")."""
        try:
            if by is None:
                raise AuthenticationError(
                    wire_protocol.NOT_AUTHENTICATED, f"expected Authorization: "
                    f"{' or '.join(self._credentials)} (site.cfg: [server] auth)", None)
            if isinstance(by, Munge):          # not with the body, which would wait there as well
                decoded = yield partial(by.decoded, header)
                node, uid, nonce = by.check_decoded(decoded, body)
            else:
                node, uid, nonce = by.check(header, body)
        except NoAnswer:
            return AuthenticationError(
                wire_protocol.NOT_AUTHENTICATED,
                f"munge: munged has not answered within {_BLOCKED_WITHIN_S:g} s", None), ""
        except AuthenticationError as error:
            return error.with_traceback(None), error.nonce     # its frames have the message
        return Caller(node, uid), nonce

    def _rejection(self, sender: Sender) -> Optional[bytes]:
        """The answer to an unauthenticated message, whatever it asks; None for a Caller."""
        try:
            self.require_authenticated(sender)
        except WireError as error:
            return jsonrpc.error_answer(error.code, detail=str(error))
        return None

    def _inflated(self, body: bytes, sender: Sender) -> tuple[bytes, Optional[bytes]]:
        """(the body as it was before deflate, None), or (b"", the answer that is an error)."""
        # Nothing is inflated for unauthenticated senders: a few bytes could become many.
        refused = self._rejection(sender)
        if refused is not None:
            return b"", refused
        most, whole = self.config["server.max_message_bytes"], zlib.decompressobj()
        try:
            body = whole.decompress(body, most + 1)
        except zlib.error as error:
            return b"", jsonrpc.error_answer(wire_protocol.PARSE_ERROR, detail=f"deflate: {error}")
        if len(body) > most:
            raise _TooLarge(_too_large(self.config))
        if not whole.eof or whole.unused_data:
            return b"", jsonrpc.error_answer(wire_protocol.PARSE_ERROR,
                                             detail="deflate: expected one whole "
                                             "stream")
        return body, None

    # -- listening ---------------------------------------------------------------------------

    async def listen_on(self, host: str, numbers: Iterable[int]) -> Optional[int]:
        """Listen on the first free port of `numbers`, which is then `self.port`; None if none."""
        for number in numbers:
            try:
                bound = bound_to(host, number)
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise NotDelivered(f"{host or 'all addresses'}: cannot listen there: "
                                       f"{error.strerror} (see --listen)") from None
                continue
            await self.listen_at(bound)
            self.port = number
            break
        return self.port

    async def listen_at(self, bound: socket.socket) -> None:
        """Listen at a socket of `bound_to`."""
        loop = asyncio.get_running_loop()
        # asyncio accepts `backlog` connections before it tells of one of them: fewer than the
        # files that are kept free.  The kernel's queue is made long again afterwards.
        self._listener = await loop.create_server(lambda: _Connection(self), sock=bound,
                                                  backlog=_ACCEPT_AT_ONCE)
        bound.listen(_QUEUE)
        self.connections.watch(loop)

    def go_on(self, task: "_Task", call: Any) -> None:
        """Go on with an answer that takes steps, the first of which has yielded `call`."""
        if call is not None:
            self._elsewhere.call(call, lambda result, error: self._was_elsewhere(
                task, result, error))
            return
        self._long.append(task)
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work_off())

    def _was_elsewhere(self, task: "_Task", result: Any, error: Optional[BaseException]) -> None:
        if task.connection.is_there():
            call = task.step(result, error)
            if not task.is_over:
                self.go_on(task, call)

    async def _work_off(self) -> None:
        """One long answer after the other: together they would take as long, and more memory."""
        clock = asyncio.get_running_loop().time
        while self._long:
            task, call = self._long.popleft(), None
            while task.connection.is_there() and not task.is_over and call is None:
                ends_at = clock() + _STEP_S
                while clock() < ends_at and not task.is_over and call is None:
                    call = task.step()
                if call is not None:
                    self.go_on(task, call)
                await asyncio.sleep(0)

    async def answered(self) -> None:
        """Those whose sender is known by now have their answers, as far as munged makes them."""
        tasks = [task for task in self.tasks if task.has_begun and not task.is_over]
        while not all(task.is_over for task in tasks):
            await asyncio.sleep(_STEP_S)

    def close(self) -> None:
        """Stop listening and end all connections."""
        if self._listener:
            self._listener.close()
        if self._working is not None:
            self._working.cancel()
        self.connections.close()


def how_to_add_up(config: "Config") -> dict[str, Any]:
    """The options of aggregate.Totals of a server: nodes folded, their short records as JSON."""
    return {"fold": folded, "pack": lambda short: msgspec.Raw(msgspec.json.encode(short)),
            "unpack": msgspec.json.decode, "max_nodes": config["server.max_nodes"]}


def check_report(report: Report, caller: Caller, job: str, metrics: set[str]) -> None:
    """
    Take the node's clock out of a Report that can be counted; WireError for one that can't.

    `caller`: the Caller that sent it; `job`: whose it must be; `metrics`: a set of the names of
    metrics that were taken before, to which its names are added.

    Names are checked when they are first seen: as a constraint of the type, the check of each name
    of each message would take a quarter of its decoding.
    """
    wire_protocol.check_protocol(report.protocol, "nodes and server")
    if report.job != job or report.node != caller.node:
        raise WireError(wire_protocol.REFUSED,
                        "the report is of another job or node than its header")
    # All at once first: they are nearly always known.
    deltas = () if isinstance(report.deltas, Same) else report.deltas
    told = [delta.values for delta in chain(deltas, *[
        phase.deltas for phase in report.phases]) if delta.values]
    if not metrics.issuperset(chain.from_iterable(told)):
        for values in told:
            new = values.keys() - metrics
            metrics |= new
            if max(map(len, values)) > _LONGEST_NAME or len(metrics) > _MOST_METRICS:
                metrics -= new
                raise WireError(wire_protocol.INVALID_PARAMS, (
                    f"expected metrics' names of at most {_LONGEST_NAME} characters, and at "
                    f"most {_MOST_METRICS} of them"))
    # As far as its hello showed it to be off.
    report.ended -= report.clock_ahead_s
    # It is written and read again: what comes out must be what may come in.
    if not -_MOST_SECONDS <= report.ended <= _MOST_SECONDS:
        raise WireError(wire_protocol.INVALID_PARAMS, (
            f"expected `ended` less `clock_ahead_s` from -1e12 to 1e12, got {report.ended:g}"))


class JobServer(Server):
    """
    Receives the reports of one job.

    Attributes:
        totals: the aggregate.Totals.
        heard: an asyncio.Event, set by the first report and when all nodes are heard.
    """

    def __init__(self, totals: Totals, credentials: "Iterable[Credentials]", config: "Config",
                 now: Callable[[], float] = time.time) -> None:
        super().__init__(totals.job, credentials, config, now)
        self.totals, self.heard = totals, asyncio.Event()
        self.first_report_at: Optional[float] = None
        self._metrics: set[str] = set()
        self._merged: set[str] = set()
        self._journal: Optional[Journal] = None
        self._has_news = False                         # what is in no journal yet
        foreseen = Foreseen(totals.alike, Report, Delta, _Gain)
        self.methods.update(report=Method(self._report, Report, foreseen.decoded),
                            totals=Method(self._totals, messages_totals.Params, keys_once=True),
                            status=Method(self._status, None))

    def refuse(self, why: str, node: Optional[str] = None) -> None:
        self.totals.refuse(why, node)

    def _report(self, report: Report, sender: Sender) -> dict[str, Any]:
        check_report(report, self.require_authenticated(sender), self.totals.job, self._metrics)
        return self._answer(self.totals.add(report))

    def _totals(self, params: messages_totals.Params, sender: Sender) -> dict[str, Any]:
        """Many nodes in one message; each message once."""
        caller = self.require_authenticated(sender)
        others = messages_totals.totals_of(params, caller.node, self.totals.job, self._metrics,
                                           self.totals.name_of)
        if params.seq in self._merged:
            return {"counted": True, "why": "these totals were counted before"}
        answer = self._answer(self.totals.merge(others))
        self._merged.add(params.seq)
        return answer

    def _answer(self, outcome: Any) -> dict[str, Any]:
        if self.first_report_at is None or self.totals.all_heard:
            self.first_report_at = self.first_report_at or self._now()
            self.heard.set()
        if not outcome.counted:
            raise WireError(wire_protocol.REFUSED, outcome.why)
        self._has_news = self._has_news or not outcome.why
        return {"counted": True, "why": outcome.why}

    def go_on_with(self, journal: "Journal") -> None:
        """
        Count what an earlier server of this job has left in `journal`, as if it came now; what is
        counted from now on is there before it is answered.
        """
        for node, body in journal.read():
            if node is not None:
                jsonrpc.dispatch(body, self.methods, Caller(node, None), _log_bug)
                continue
            found = msgspec.json.decode(body)
            self._merged.update(found["merged"])
            try:
                self._answer(self.totals.merge(Totals.from_state(found["totals"],
                                                                 named=self.totals.name_of)))
            except WireError as error:
                journal.refused(str(error))
        self._journal, self._has_news = journal, False

    def before_answer(self, body: bytes, sender: Sender) -> None:
        # The news are of this very message: no method here takes steps.
        journal, has_news, self._has_news = self._journal, self._has_news, False
        if journal is None or not has_news or not isinstance(sender, Caller):
            return
        journal.add(sender.node, body)
        # At the end the table comes first, and then there is no journal any more.
        if journal.is_long and not self.totals.all_heard:
            journal.replace(msgspec.json.encode({"totals": self.totals.state(packed=True),
                                                 "merged": sorted(self._merged)}))

    def _status(self, params: Any, sender: Sender) -> dict[str, Any]:
        self.require_authenticated(sender)
        totals = self.totals
        return {"job": totals.job, "expected": totals.expected_count,
                "reported": totals.reported, "missing": totals.missing()}

    async def listen(self, host: str = "", port: Optional[int] = None) -> None:
        """Listen on the first free port of the job's, or on `port`; sets `self.port`."""
        config = self.config
        wanted = [port] if port else ports(self.name, config["server.port_first"],
                                           config["server.port_last"],
                                           config["server.port_tries"])
        if await self.listen_on(host, wanted) is None:
            raise NotDelivered(f"all ports of job {self.name} are taken "
                               f"({' '.join(map(str, wanted))}); widen [server] port_first, "
                               f"port_last or port_tries in site.cfg")


def _too_large(config: "Config") -> str:
    """What is said of a message over the limit."""
    return (f"expected at most {config['server.max_message_bytes']} bytes (site.cfg: [server] "
            f"max_message_bytes)")


def bound_to(host: str, port: int) -> socket.socket:
    """A socket on `host` and `port`: IPv6 and IPv4 in one where the kernel has both."""
    family = socket.AF_INET6 if not host and socket.has_dualstack_ipv6() else socket.AF_INET
    if host:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    else:
        address = ("", port)
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not host:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        one.bind(address)
        one.listen(_QUEUE)
    except OSError:
        one.close()
        raise
    return one


_WHY_REFUSED = {wire_protocol.NOT_AUTHENTICATED: "not authenticated", wire_protocol.STALE: "stale",
                wire_protocol.REPLAYED: "replayed"}


def _log_bug(error: BaseException) -> None:
    log.error("internal error; please report: %r", error, exc_info=error)


class _Task:
    """An answer that takes steps, and whose it is."""

    def __init__(self, work: _Work, connection: "_Connection", keep: bool) -> None:
        self.connection, self.is_over = connection, False
        self.has_begun = False                         # more than the question whose it is
        self._work, self._keep = work, keep
        self._server = connection.server
        self._server.tasks.add(self)
        self._dropped = self._server.dropped

    def step(self, result: Any = None, error: Optional[BaseException] = None) -> Any:
        """One step more: what it yields; when `is_over` the connection has its answer."""
        self.has_begun = True
        try:
            return self._work.throw(error) if error is not None else self._work.send(result)
        except StopIteration as end:
            self.is_over = True
            if self._server.dropped != self._dropped:      # it may say that something is kept
                self.connection.abort()
            else:
                answer, proof = end.value
                self.connection.go_on(answer, proof, self._keep)
        except _TooLarge as found:
            self.is_over = True
            self.connection.reject(found.status, str(found))
        except Exception as found:
            self.is_over = True
            _log_bug(found)
            self.connection.abort()
        return None

    def drop(self) -> None:
        """Nobody waits for it: what it has in memory goes."""
        if not self.is_over:
            self.is_over = True
            with contextlib.suppress(ValueError):          # it is just running
                self._work.close()


class _Connections:
    """
    All open connections, the one that has been silent longest first.

    Attributes:
        held: bytes of messages that have not come to their ends.
    """

    def __init__(self, config: "Config", most: Optional[int] = None) -> None:
        self._most = config["server.max_connections"] if most is None else most
        self._silence = config["server.idle_timeout"]
        self.held = 0
        self._most_held: int = max(_MOST_HELD, 2 * config["server.max_message_bytes"])
        # Silence is counted in looks at it, not on the clock: a turn of the loop in which thousands
        # of messages are worked off may take longer, and between two looks whatever came is read.
        self._pause_s = max(self._silence / 4, 0.05)
        self._looks, self._most_looks = 0, max(1, round(self._silence / self._pause_s))
        # The look before the last sign of life of each.
        self._open: OrderedDict[_Connection, int] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop             # as of `watch`, before the first one
        self._timer: Optional[asyncio.TimerHandle] = None

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer = loop.call_later(self._pause_s, self._close_silent)

    def _close_silent(self) -> None:
        self._looks += 1
        for _ in range(len(self._open)):       # who waits is put behind the others: once is enough
            connection, since = next(iter(self._open.items()))
            if self._looks - since <= self._most_looks:
                break
            if connection.waits:
                self.complete(connection)
                continue
            self.forget(connection)
            connection.abort()
        self.watch(self._loop)

    def add(self, connection: "_Connection") -> None:
        if len(self._open) >= self._most:
            oldest, _ = self._open.popitem(last=False)
            oldest.abort()
        self._open[connection] = self._looks

    def complete(self, connection: "_Connection") -> None:
        """A whole message has come: only that counts as a sign of life, no trickle does."""
        if connection in self._open:
            self._open[connection] = self._looks
            self._open.move_to_end(connection)

    def forget(self, connection: "_Connection") -> None:
        self._open.pop(connection, None)

    def make_room(self) -> "Optional[_Connection]":
        """
        None, or the connection whose unfinished message is the longest, when all together have too
        many bytes: who has less than an equal part of the room is never the one.
        """
        if self.held <= self._most_held or not self._open:
            return None
        return max(self._open, key=lambda one: one.held)

    def make_way(self, length: int) -> None:
        """
        Room for a page: who has not read his for the longest goes, where all that is unread would
        have too many bytes.
        """
        unread = [(one, one.unread) for one in self._open if one.unread]
        total = sum(size for _, size in unread)
        for one, size in unread:
            if total + length <= _MOST_PAGES:
                return
            one.abort()
            total -= size

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()
        for connection in list(self._open):
            connection.close()
        self._open.clear()


class _Connection(asyncio.Protocol):
    """An HTTP/1.1 connection: POST with a Content-Length, one request after another; or GET."""

    __slots__ = ("_accepts", "_answered", "_authorization", "_begun_now", "_behind", "_beside",
                 "_body", "_encoding", "_ended", "_ended_now", "_head", "_is_open", "_parked",
                 "_parser", "_size", "_task", "_transport", "_url", "_waiting", "held", "server")

    def __init__(self, server: Server) -> None:
        self.server = server
        self._transport: Any = None                     # before anything is called
        self._ended = False                             # True: its last answer is on its way
        self._parser = httptools.HttpRequestParser(self)
        # Bytes of an unfinished message, or of one whose sender is not known yet.
        self.held = self._parked = self._answered = self._beside = 0
        self._task: Optional[_Task] = None
        self._is_open = self._begun_now = self._ended_now = False
        # Messages behind one whose answer takes long, and their bytes; None: there is no such one.
        self._waiting: Optional[deque[tuple[bytes, str, bool, bool]]] = None
        self._behind = 0
        self._begin()

    def _begin(self) -> None:
        self.server.connections.held -= self.held - self._parked
        self.held = self._parked
        # One piece of memory, however many parts come: thousands of them would stay in the heap.
        self._body: Union[bytes, bytearray] = b""
        self._size, self._head, self._authorization, self._encoding = 0, 0, "", b""
        self._url = self._accepts = b""                 # where there are pages

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.server.connections.add(self)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.server.connections.forget(self)
        self._drop()

    def _drop(self) -> None:
        """Nothing more is made of what it has sent."""
        self._parked = 0
        self._begin()
        self._waiting = deque() if self.waits else None
        if self._task is not None:
            self._task.drop()
            self._task = None

    def abort(self) -> None:
        self._transport.abort()

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._answered, before = 0, self._size
        self._begun_now = self._ended_now = False      # by this very data
        try:
            self._parser.feed_data(data)
            self._weigh(len(data), before)
        except _TooLarge as error:
            self.reject(error.status, str(error))
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, _TooLarge):
                self.reject(error.__context__.status, str(error.__context__))
            else:
                _log_bug(error)
                self._transport.abort()
        except httptools.HttpParserUpgrade:
            if not self._ended:                # answered by now, and not upgraded
                self._ended = True
                self.server.send(self._transport, b"", keep=False)
        except httptools.HttpParserError:
            self.reject("400 Bad Request", "expected an HTTP/1.1 POST")

    def _weigh(self, length: int, before: int) -> None:
        """
        Count what the parser keeps to itself, so that nobody can make it keep more and more: a
        header that does not end (which it copies with each part), chunks of one byte, trailers.
        """
        if self._ended or (self._ended_now and not self._is_open):
            return
        beside = max(0, length - self._size + (0 if self._begun_now else before))
        if not self._begun_now:                        # else it may be of an earlier message
            self._beside += beside
            if self._beside > _MOST_BESIDE:
                raise _TooLarge(f"expected at most {_MOST_BESIDE} bytes beside the body")
        if self._is_open:
            self._count(0, beside)

    # -- called by the parser

    def on_message_begin(self) -> None:
        self._begin()
        self._is_open, self._begun_now, self._beside = True, True, 0

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        if self.server.pages:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)    # and ": ", and the line's end
        name = name.lower()
        # The parser takes any number of zeros before it, and int() no more than some thousands.
        if name == b"content-length" and int(value.strip().lstrip(b"0") or 0) > (
                self.server.config["server.max_message_bytes"]):
            raise _TooLarge(_too_large(self.server.config))
        if name == b"authorization":
            self._authorization = value.decode("latin-1")
        elif name == b"content-encoding":
            self._encoding = value.strip().lower()
        elif name == b"accept-encoding" and self.server.pages:
            self._accepts = value

    def on_body(self, part: bytes) -> None:
        self._count(len(part))
        if not self._body:
            self._body = part
            return
        if isinstance(self._body, bytes):
            self._body = bytearray(self._body)
        self._body += part

    def _count(self, length: int, beside: int = 0) -> None:
        self._size += length
        if self._size > self.server.config["server.max_message_bytes"] + 65536:
            raise _TooLarge(_too_large(self.server.config))
        self._hold(length + beside)

    def _hold(self, length: int) -> None:
        connections = self.server.connections
        self.held += length
        connections.held += length
        while True:
            longest = connections.make_room()
            if longest is None:
                return
            if longest is self:
                raise _NoRoom(_NO_ROOM)
            longest.reject(_NoRoom.status, _NO_ROOM)

    def _count_head(self, length: int) -> None:
        """A part of the first lines: together they are bounded, also where they come at once."""
        self._count(length)
        self._head += length
        if self._head > _MOST_BESIDE:
            raise _TooLarge(f"expected at most {_MOST_BESIDE} bytes beside the body")

    def on_message_complete(self) -> None:
        server = self.server
        self._is_open, self._ended_now = False, True
        server.connections.complete(self)
        if self._ended or self._transport.is_closing():
            return
        if self._answered + self._transport.get_write_buffer_size() > _MOST_UNREAD:
            self._ended = True
            self._transport.abort()            # asks and asks, and does not read the answers
            return
        if server.pages:
            self._give_page()
            return
        if self._parser.get_method() != b"POST":
            self.reject("405 Method Not Allowed", "expected POST")
            return
        if self._encoding not in (b"", b"identity", b"deflate"):
            self.reject("415 Unsupported Media Type",
                         "expected Content-Encoding: deflate, or none")
            return
        body, authorization = bytes(self._body), self._authorization
        compressed = self._encoding == b"deflate"
        self._begin()
        message = body, authorization, compressed, self._parser.should_keep_alive()
        if self._waiting is not None:          # answers leave in the order of the questions
            self._waiting.append(message)
            self._behind += len(body) + _EACH_PART
            if self._behind > _MOST_UNREAD:
                self._ended = True
                self._transport.abort()
        else:
            self._answer(*message)

    def _answer(self, body: bytes, authorization: str, compressed: bool, keep: bool) -> None:
        work = self.server.answering(body, authorization, compressed)
        try:
            call = next(work)
        except StopIteration as end:
            answer, proof = end.value
            self._send(answer, proof, keep)
            return
        self._waiting, self._behind = deque(), 0
        self._task = _Task(work, self, keep)
        self._hold(len(body))                  # until its sender is known
        self._parked = len(body)
        self.server.go_on(self._task, call)

    def _give_page(self) -> None:
        method, is_kept = self._parser.get_method(), self._parser.should_keep_alive()
        if method not in (b"GET", b"HEAD"):
            self.reject("405 Method Not Allowed", "expected GET")
            return
        page = self.server.pages.get(self._url.partition(b"?")[0].decode("latin-1"))
        if page is None:
            self.reject("404 Not Found", f"expected {' or '.join(self.server.pages)}")
            return
        headers, body = page(b"gzip" in {one.partition(b";")[0].strip()
                                         for one in self._accepts.lower().split(b",")})
        self._begin()
        self.server.connections.make_way(len(body))
        head = (f"HTTP/1.1 200 OK\r\n{headers}Content-Length: {len(body)}\r\n"
                f"{'' if is_kept else 'Connection: close' + chr(13) + chr(10)}\r\n").encode()
        self._ended = not is_kept
        self._answered += len(body)
        self.server.send(self._transport, head + (body if method == b"GET" else b""), is_kept)

    @property
    def unread(self) -> int:
        """Bytes that were answered, and not taken by the other end yet."""
        return 0 if self._transport.is_closing() else self._transport.get_write_buffer_size()

    @property
    def waits(self) -> bool:
        """Whether it is silent because its answer takes long."""
        return self._waiting is not None

    def is_there(self) -> bool:
        """Whether anybody waits for an answer."""
        return not self._ended and not self._transport.is_closing()

    def go_on(self, answer: Optional[bytes], proof: str, keep: bool) -> None:
        """The answer that took long is there: send it, and take what has waited behind it."""
        waiting, self._waiting = self._waiting or deque(), None
        self.server.connections.held -= self._parked
        self.held -= self._parked
        self._task, self._parked = None, 0
        self.server.connections.complete(self)
        self._send(answer, proof, keep)
        try:
            while waiting and self.is_there():
                self._answer(*waiting.popleft())
                if self._waiting is not None:
                    self._waiting = waiting
                    return
        except _TooLarge as error:
            self.reject(error.status, str(error))

    def _send(self, answer: Optional[bytes], proof: str, keep: bool) -> None:
        head = ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n" if answer is None else
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(answer)}\r\n")
        if proof:
            head += f"{proof}\r\n"
        if not keep:
            head += "Connection: close\r\n"
        self._ended = not keep
        self._answered += len(answer or b"")
        self.server.send(self._transport, head.encode() + b"\r\n" + (answer or b""), keep)

    def reject(self, status: str, detail: str) -> None:
        self._drop()
        if self._ended or self._transport.is_closing():
            return
        self.server.refuse(status[4:].lower())
        body = jsonrpc.error_answer(wire_protocol.INVALID_REQUEST, detail=detail)
        self._ended = True
        head = (f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
        self.server.send(self._transport, head.encode() + body, keep=False)


class _TooLarge(Exception):
    """The message is over the limit."""

    status = "413 Content Too Large"


_NO_ROOM = "too many messages come at once; try again"


class _NoRoom(_TooLarge):
    """All messages together are."""

    status = "503 Service Unavailable"
