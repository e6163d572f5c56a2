"""
A simulated ldmsd on ports, in an asyncio loop: it answers control connections, and collects from
others by connections of its own.

    daemon = LiveDaemon("agg-1")
    daemon.run_lines(["listen xprt=sock port=20001 host=127.0.0.1"])
    ...
    await daemon.close()

What the real one reads out of memory (lookup, update) is read out of the producer's directory here:
it names each set, and when it was sampled.  A real ldmsd's sets can be collected too; a real one
collects nothing of a simulated one, which has no metrics.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import socket

from iostats.base.errors import ConfigError
from iostats_ldms.control import encoding
from iostats_ldms.control.authentication import load_authentication
from iostats_ldms.control.connection import Connection
from iostats_ldms.control.errors import ControlError
from iostats_ldms.control.protocol import Authentication
from iostats_ldms.statements.dialect import Statement

from .asked import EINVAL, Crashed, Refused, Reply, as_json, parsed
from .control_end import CommandReceived, DirectoryRequested, ServerProtocol
from .daemon import VERSIONS, Daemon
from .producers import Producer
from .sets import MetricSet

# What a configuration file says of these is done when all of it was read.
_STARTED_AT_THE_END = ("prdcr_start", "prdcr_start_regex", "prdcr_listen_start", "updtr_start",
                       "strgp_start", "advertiser_start")
_SETS_A_PART = 200
_LOOK_EVERY_S = 1.0             # at the directory of a producer of which no set is updated
_LOOK_AT_MOST_S = 0.05
_FOR_EVER_S = 1e6
_rails = itertools.count(1)


class LiveDaemon:
    """
    Attributes:
        daemon: its state.
        says: {verb: text that is answered instead}: an ldmsd that answers nonsense.
        is_hung: it answers nothing, and does nothing, as after SIGSTOP.
        gone: is set when it died.
        heard: called with (name, statement, port of who sent it) before each statement from a
            connection that is to change something is carried out; None: with nothing.
    """

    def __init__(self, name: str, version: str = VERSIONS[0], *, makes=None, says=None,
                 auth: Authentication | None = None, hostname: str = "", heard=None):
        self.daemon = Daemon(name, version, makes=makes)
        self.daemon.can_listen = self._listen
        self.says = says or {}
        self.heard = heard
        self.is_hung = False
        self.gone = asyncio.Event()
        self._hostname = hostname or socket.gethostname()
        self._auth = auth or Authentication()
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.AbstractServer] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._clients: set[_Client] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}         # a producer's, an advertiser's
        self._turn_is_planned = False

    @property
    def name(self) -> str:
        return self.daemon.name

    def handle(self, statement: Statement) -> Reply:
        """As Daemon.handle; what was started is connected, what was stopped is closed."""
        if self.says and statement.verb in self.says:
            return Reply(0, self.says[statement.verb])
        if statement.verb == "advertise":
            reply = Reply(EINVAL, "an advertisement without a connection")
        else:
            reply = self.daemon.handle(statement)
        self._soon()
        return reply

    def run_lines(self, lines) -> None:
        """
        Carry out the lines of a configuration file.

        Raises ConfigError with the line's number, and .errno: what ldmsd's exit status is.
        """
        deferred = []
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if text.split(" ")[0] in _STARTED_AT_THE_END:
                deferred.append((number, text))
            elif text and not text.startswith("#"):
                self._run_line(number, text)
        counter = self.daemon.config_counter
        for number, text in deferred:
            self._run_line(number, text)
        self.daemon.config_counter = counter                # these are not counted

    def _run_line(self, number: int, text: str) -> None:
        release = self.daemon.version[:3]
        try:
            reply = self.handle(encoding.decode_statement(*encoding.encode_statement(parsed(text),
                                                                                     release),
                                                          release))
        except encoding.UnsupportedStatement as error:
            reply = Reply(error.errno, str(error))
        if reply.errno:
            error = ConfigError(f"line {number}: {reply.text} (errno {reply.errno})")
            error.errno = reply.errno
            raise error

    def hang(self) -> None:
        self.is_hung = True

    def wake(self) -> None:
        self.is_hung = False
        for client in list(self._clients):
            client.go_on()
        self._soon()

    async def close(self) -> None:
        """It is gone, as by kill -9: connections are reset, its ports are free."""
        self.kill()
        await asyncio.gather(*self._starting, *self._tasks.values(), return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()

    def kill(self) -> None:
        self.gone.set()
        for task in [*self._starting, *self._tasks.values()]:
            task.cancel()
        for server in self._servers:
            server.close()
        for one in self._sockets:
            one.close()
        for client in list(self._clients):
            client.abort()

    # Listening.

    def _listen(self, transport: str, port: int, host: str, auth: str) -> bool:
        """Bound at once, so that a port that is in use is told; served in the loop's next turn."""
        try:
            known = self._auth if not auth else load_authentication(*self.daemon.auth[auth])
        except ConfigError as error:
            raise Refused(EINVAL, str(error)) from error
        if transport != "sock":
            return True                                 # nothing here speaks it
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        one = socket.socket(family, socket.SOCK_STREAM)
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host or "0.0.0.0", port))
            one.listen(1024)
        except OSError:
            one.close()
            return False
        one.setblocking(False)
        self._sockets.append(one)
        task = self._loop.create_task(self._serve(one, known))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return True

    async def _serve(self, one: socket.socket, auth: Authentication) -> None:
        self._servers.append(await self._loop.create_server(lambda: _Client(self, auth), sock=one))

    # Collecting.

    def _soon(self) -> None:
        if not self._turn_is_planned:
            self._turn_is_planned = True
            self._loop.call_soon(self._tend)

    def _tend(self) -> None:
        """Each producer and advertiser that is started has its task, and no other has."""
        self._turn_is_planned = False
        if self.gone.is_set():
            return
        self.daemon.turn()
        wanted = {f"producer {name}": (self._collect, one)
                  for name, one in self.daemon.producers.all.items()
                  if _is_collected(one) and one.transport == "sock"}
        wanted.update((f"advertiser {name}", (self._advertise, one))
                      for name, one in self.daemon.producers.all.items()
                      if one.kind == "advertiser" and one.state != "STOPPED")
        for key in [key for key in self._tasks if key not in wanted]:
            self._tasks.pop(key).cancel()
        for client in list(self._clients):
            producer = self.daemon.producers.all.get(client.advertised)
            if client.advertised and (producer is None or producer.state == "STOPPED"):
                client.abort()
        for key, (do, one) in wanted.items():
            if key not in self._tasks or self._tasks[key].done():
                self._tasks[key] = self._loop.create_task(do(one))

    async def _connected(self, one: Producer) -> Connection:
        auth = load_authentication(*self.daemon.auth[one.auth]) if one.auth else self._auth
        host, port = one.listens_at or (one.host, one.port)
        # ldmsd waits for a hung one without an end, and keeps its sets (4.4.6, 4.5.3).
        return await Connection.open(host, port, auth, connect_within_s=2.0,
                                     answer_within_s=_FOR_EVER_S)

    async def _collect(self, one: Producer) -> None:
        """Connect, take its directory whenever a set is to be updated, and again where it ends."""
        producers = self.daemon.producers
        while producers.all.get(one.name) is one and _is_collected(one):
            await asyncio.sleep(max(0.0, one.try_at_s - self.daemon.clock()))
            await self._while_hung()
            connection = None
            try:
                connection = await self._connected(one)
                producers.connected(one.name)
                await self._take_all(one, connection)
            except (ControlError, ConfigError):
                pass
            finally:
                if connection is not None:
                    connection.close()
            if producers.all.get(one.name) is not one:
                return
            if one.listens_at is None:
                producers.lost(one.name)
            else:                               # whether it is there says its own connection
                one.sets.clear()
                one.try_at_s = self.daemon.clock() + _LOOK_EVERY_S

    async def _take_all(self, one: Producer, connection: Connection) -> None:
        while not connection.lost.done():
            await self._while_hung()
            directory = await connection.sets()
            self.daemon.producers.took(one.name, [_taken(each) for each in directory])
            due = self.daemon.updaters.next_due_s(one)
            wait = _LOOK_EVERY_S if due is None else due - self.daemon.clock()
            await asyncio.wait([connection.lost],
                               timeout=min(_LOOK_EVERY_S, max(_LOOK_AT_MOST_S, wait)))

    async def _advertise(self, one: Producer) -> None:
        """Make ourselves known to an aggregator, again where the connection ends."""
        port = next((port for transport, port in self.daemon.listening if transport == "sock"), 0)
        said = Statement("advertise", (("name", one.name), ("host", self._hostname),
                                       ("port", str(port))))
        while one.state != "STOPPED":
            connection = None
            try:
                await self._while_hung()
                connection = await self._connected(one)
                reply = await connection.command(said)
                if not reply.errno:
                    one.state = "CONNECTED"
                    await asyncio.wait([connection.lost])
            except (ControlError, ConfigError):
                pass
            finally:
                if connection is not None:
                    connection.close()
            if one.state != "STOPPED":
                one.state = "DISCONNECTED"
                await asyncio.sleep(one.reconnect_us / 1e6)

    async def _while_hung(self) -> None:
        while self.is_hung:
            await asyncio.sleep(_LOOK_AT_MOST_S)


class _Client(asyncio.Protocol):
    """A connection that another one made to us."""

    def __init__(self, live: LiveDaemon, auth: Authentication):
        self._live = live
        self._core = ServerProtocol(auth, live.daemon.version[:3],
                                    challenge=secrets.randbits(64), rail=next(_rails))
        self._waiting: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._peer = ("", 0)
        self.advertised = ""                    # the producer that it made itself known as

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._peer = transport.get_extra_info("peername")[:2]
        self._live._clients.add(self)
        if self._live.gone.is_set():
            transport.abort()

    def connection_lost(self, error) -> None:
        self._live._clients.discard(self)
        if self.advertised:
            self._live.daemon.producers.advertised_no_more(self.advertised)
            self._live._soon()

    def data_received(self, data: bytes) -> None:
        if self._live.is_hung:
            self._waiting.append(data)
            return
        try:
            for event in self._core.receive(data):
                self._event(event)
        except ControlError:
            self.abort()
            return
        except Crashed:
            self._live.kill()
            return
        self._transport.write(self._core.outgoing())
        if self._core.is_rejected:
            self._transport.close()

    def go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            if not self._live.is_hung and not self._transport.is_closing():
                self.data_received(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _event(self, event) -> None:
        if isinstance(event, CommandReceived):
            if self._live.heard and self._live.daemon.is_change(event.statement.verb):
                self._live.heard(self._live.name, event.statement, self._peer[1])
            reply = self._advertised(event.statement) \
                if event.statement.verb == "advertise" else self._live.handle(event.statement)
            self._core.answer(event.number, reply.errno & 0xffffffff, reply.text)
        elif isinstance(event, DirectoryRequested):
            directory = self._live.daemon.directory()
            parts = [directory[at:at + _SETS_A_PART]
                     for at in range(0, len(directory), _SETS_A_PART)] or [[]]
            self._core.directory(event.number, [
                as_json({"directory": [_shown(one) for one in part]}) for part in parts])

    def _advertised(self, statement: Statement) -> Reply:
        said = dict(statement.attributes)
        if not said.get("host") or not (said.get("port") or "").isdecimal():
            return Reply(EINVAL, "Invalid advertisement message")
        try:
            self.advertised = self._live.daemon.producers.advertised(
                said["host"], self._peer[0], int(said["port"]), self._peer[1])
        except Refused as refused:
            return refused.reply
        self._live._soon()
        return Reply(0, "")


def _is_collected(one: Producer) -> bool:
    """Whether there is to be a connection by which its sets are taken."""
    if one.kind.startswith("advertised"):
        return one.state == "CONNECTED"
    return one.kind in ("active", "bridge") and one.state not in ("STOPPED", "STANDBY")


def _shown(one: MetricSet) -> dict:
    """A set as it stands in the directory (__ldms_format_set_meta_as_json of ldms.c)."""
    info = [] if one.hint_us is None else [
        {"key": "updt_hint_us", "value": f"{one.hint_us[0]}:{one.hint_us[1]}"}]
    return {"name": one.instance, "schema": one.schema, "digest": "", "flags": "CL ",
            "meta_size": one.meta_size_bytes, "data_size": one.data_size_bytes, "heap_size": 0,
            "uid": 0, "gid": 0, "perm": "-rwxrwxrwx", "card": 23, "array_card": 1, "meta_gn": 1,
            "data_gn": 1 if one.sampled_s else 0,
            "timestamp": {"sec": int(one.sampled_s), "usec": int(one.sampled_s * 1e6) % 1_000_000},
            "duration": {"sec": 0, "usec": 23 if one.sampled_s else 0}, "info": info}


def _taken(one) -> MetricSet:
    """A set of a producer's directory, read by the control connection (SetInfo)."""
    hint = None if one.update_hint_us is None else (one.update_hint_us, one.offset_us or 0)
    return MetricSet(one.instance, one.schema, "", one.meta_size_bytes, one.data_size_bytes, hint,
                     one.sampled_s)
