"""
The way of an agent's messages to the site's server: kept on the disk, sent, and then forgotten.

Every message waits in [harvest] spool_dir until the server has acknowledged it, and its bytes are
sent as they are stored.

Where the site has several servers, the first that answers is asked, until it is away; a chain that
the next one does not know waits for the one that has the rest, and the agent
begins another chain.  Those before it are asked again from time to time, once all is sent: a chain
is not broken off for that.

A chain goes on at the server that took what came before: another one knows nothing of it, unless it
has the same store.  So what waits of a chain is offered to the server that is asked now, and where
that asks for a full sweep instead, it is stored for the server that has the rest.

    DIRECTORY/servers      {run: HOST:PORT of the server that took its last message, "": of the
                           last of all}, as JSON
"""

from __future__ import annotations

import json
import os
import time

from iostats.base import private_files
from iostats.base.disk_queue import Spool
from iostats.base.errors import ConfigError, IostatsError, NotDelivered, StateError, sanitize
from iostats.storage.schedule import ServerClock
from iostats.wire import auth, client, protocol
from iostats.wire.messages.clients_encoder import find_method
from iostats.wire.messages.sweep_encoder import LONGEST_WHY
from iostats.wire.site_servers import ServerMoved, SiteServers, format_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iostats.base.config import Config
    from iostats.base.disk_queue import Spooled
    from iostats.storage.schedule import Pace
    from iostats.wire.method_name import AnswerT, MethodName

HOW = "in site.cfg: [harvest] spool_dir"

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
ANSWER_WITHIN_S = 10.0
_FINAL = (protocol.REFUSED, protocol.INVALID_PARAMS)

# What became of a message
ACCEPTED, USELESS, UNKNOWN, LATER = "taken", "useless", "its chain is unknown", "later"
MOVED = "another server answers"
_NAME = "servers"


class SweepNotStored(StateError):
    """This sweep cannot be stored; the text gives the reason."""


class Delivery:
    """Stores messages and sends them.  StateError if their directory cannot be used.

    `servers`: (host, port) of the site's servers, in their order; `emit`: gets a line, and what it
    is about where the line has numbers; `lost`: gets the run of a message that will not reach the
    server which is asked now; `moved`: called when another server is asked.  For another site's
    server: `spool`: where messages wait; `signs`: makes the credentials; `receiver`: its name;
    `taken`: gets the Spooled that it has acknowledged; `after_refusal`: the consequence, in the
    log; `logs_outage`: whether a line says that the server is away, or back.

    Attributes:
        spool: the messages that wait.
        clock: the server's.
        servers: SiteServers; its `current` is the one that is asked.
        refused: why the last message was; "" where it was not.
        retry_at: time.monotonic() before which the server is not asked again: it is away.
        is_older: the server does not know the method of the last message.
    """

    def __init__(self, config: Config, node: str, servers: Sequence[tuple[str, int]], pace: Pace,
                 emit: Callable[..., None], lost: Callable[[str], None],
                 spool: Spool | None = None,
                 signs: Callable[[], list[auth.Credentials]] | None = None,
                 receiver: str = "the site's server",
                 accepted: Callable[[Spooled], object] = lambda message: None,
                 after_refusal: str = "the next sweep is a full one",
                 logs_outage: bool = True, moved: Callable[[], object] = lambda: None) -> None:
        self._config, self._node, self._pace = config, node, pace
        self._emit, self._lost = emit, lost
        self.servers = SiteServers(servers, reach_within_s=client.UNATTENDED_REACH_WITHIN_S)
        self.spool = spool if spool is not None else Spool(
            config.harvest.spool_dir, config.harvest.spool_bytes, "[harvest]")
        self._chains = ChainServers(self.spool.directory, map(format_name, servers))
        self._last = self._chains.last
        self._receiver, self._accepted, self._after_refusal = receiver, accepted, after_refusal
        self._moved = moved
        self._logs_outage = logs_outage
        self._sign = signs or (lambda: auth.load_client_credentials(
            config, protocol.SITE, config.site.secret, self._emit))
        self.clock, self.refused, self.retry_at = ServerClock(), "", 0.0
        self._moves = 0                        # to another server, since one took something
        self._grown = 0                        # bytes of changes that the spool has grown by
        self._credentials: list[auth.Credentials] | None = None
        self._pause_s, self._is_away, self.is_older = _FIRST_PAUSE_S, False, False

    @property
    def is_behind(self) -> bool:
        """
        Return True if a quarter of the spool waits: the next sweep begins another chain.
        """
        return self._grown > int(self._config.harvest.spool_bytes) // 4

    @property
    def waits(self) -> bool:
        """True if a message waits for the current server."""
        return self.spool.find_first(self._is_for_another) is not None

    def store(self, run: str, seq: int, message: bytes, is_full: bool) -> None:
        """Store a message for delivery, or send it if there is no room; SweepNotStored."""
        self._pace.pause()
        if seq == 1:
            self._grown = 0
        try:
            self._store(run, seq, message, is_full)
        except (OSError, StateError):
            # There is no room.  What waits may go now, and this one after it.
            is_empty = self.deliver(time.monotonic() + ANSWER_WITHIN_S)
            try:
                self._store(run, seq, message, is_full)
            except (OSError, StateError) as error:
                outcome = self.send(message, ANSWER_WITHIN_S) if is_empty else LATER
                if outcome is ACCEPTED:
                    self._note_accepted(run)
                else:
                    why = error if isinstance(error, StateError) else (
                        f"{self.spool.directory}: a sweep cannot be written: {error.strerror}")
                    raise SweepNotStored(f"{why}; this sweep is skipped") from None

    def _store(self, run: str, seq: int, data: bytes, is_full: bool) -> None:
        size_bytes = self.spool.size_bytes
        dropped = self.spool.append(run, seq, data)
        if dropped:
            self._emit(f"{self.spool.directory}: the oldest sweeps are dropped: more than "
                       f"{self._config.harvest.spool_bytes} bytes wait (site.cfg: [harvest] "
                       f"spool_bytes)")
        elif not is_full:
            self._grown += self.spool.size_bytes - size_bytes

    def learn_time(self) -> None:
        """Query the server's time, so that the first sweep is at the right moment."""
        try:
            self._call(protocol.HELLO, {"job": protocol.SITE}, ANSWER_WITHIN_S / 2)
        except ConfigError:
            raise
        except IostatsError:
            pass                               # it is logged when a message can't be delivered

    def deliver(self, until: float, enough: Callable[[], bool] = lambda: False) -> bool:
        """
        Send the waiting messages, oldest first, until time.monotonic() is `until`; True if all are
        sent.

        `enough`: asked before each message, whether to go on later.
        A server that is away costs one try, and the next one comes later and later.
        """
        while True:
            entry = self.spool.find_first(self._is_for_another)
            if entry is None:
                break
            left = until - time.monotonic()
            if left <= 0 or time.monotonic() < self.retry_at or enough():
                return False
            try:
                data = self.spool.load(entry)
            except StateError as error:
                self._emit(f"{error}; it is put aside")
                self.spool.set_aside(entry)
                self._lost(entry.run)
                continue
            outcome = self.send(data, min(ANSWER_WITHIN_S, left))
            if outcome is LATER:
                return False
            if outcome is MOVED:
                continue
            if outcome is ACCEPTED:
                self._note_accepted(entry.run)
                self.spool.remove(entry)
                self._accepted(entry)
            else:                              # nor is what follows it in its chain
                if not (outcome is UNKNOWN and self._chains.is_for_another(
                        entry.run, format_name(self.servers.current))):
                    self.spool.drop(entry.run)
                self._lost(entry.run)
            self._pace.pause()
        self._grown = 0
        self.try_preferred_servers(until - time.monotonic())
        return True

    def _is_for_another(self, entry: Spooled) -> bool:
        return self._chains.is_unknown_to(entry.run, format_name(self.servers.current))

    def _note_accepted(self, run: str) -> None:
        self._chains.note_accepted(run, format_name(self.servers.current),
                                   (message.run for message in self.spool))

    def try_preferred_servers(self, within_s: float = ANSWER_WITHIN_S) -> None:
        """Return to a preferred server if it is reachable again; called from time to time."""
        if (within_s > 0 and self._credentials is not None and self.servers.should_try_preferred()
                and self.servers.try_preferred_servers(self._credentials, self._node,
                                                       min(ANSWER_WITHIN_S / 2, within_s))):
            self._note_server()

    def send(self, data: bytes, within_s: float) -> str:
        """
        Send one message: TAKEN, USELESS (refused), UNKNOWN, LATER, or MOVED if another server
        answers now, which may need other messages first.
        """
        method = find_method(data)
        try:
            answer = self._call(method, data, within_s)
        except IostatsError as error:
            if isinstance(error, ServerMoved):
                self._note_server()
                self._moves += 1
                # Else each of them says `hello`, and takes nothing: that is as if all were away.
                if self._moves < len(self.servers):
                    return MOVED
            if getattr(error, "code", None) in _FINAL:
                self.refused = str(error)
                self._emit(f"{error}; {self._after_refusal}")
                return USELESS
            self._credentials = None                 # it may be another secret
            self.retry_at = time.monotonic() + self._pause_s * (0.5 + os.urandom(1)[0] / 256)
            self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
            self._is_away = True
            self.is_older = getattr(error, "code", None) == protocol.METHOD_NOT_FOUND
            if self.is_older:
                error = NotDelivered(f"{self._receiver} is of an older release, which does not "
                                     f"know `{method}`: update it")
            if self._logs_outage or self.is_older:
                self._emit(f"{error}; {len(self.spool)} messages wait in {self.spool.directory}",
                           "".join(c for c in str(error) if not c.isdigit()))
            return LATER
        self._note_server()
        if self._is_away:
            self._is_away = False
            if self._logs_outage:
                self._emit(f"{self._receiver} is back; {len(self.spool)} messages wait")
        self.retry_at, self._pause_s, self.refused = 0.0, _FIRST_PAUSE_S, ""
        self.is_older, self._moves = False, 0
        if isinstance(answer, dict) and answer.get("taken") is True:
            if answer.get("left_out"):
                self._emit(f"{self._receiver} has left out: "
                           f"{sanitize(answer['left_out'])[:LONGEST_WHY]}")
            return ACCEPTED
        why = answer.get("why", "") if isinstance(answer, dict) else answer
        why = f"{self._receiver} asks for a full sweep: {sanitize(why)[:LONGEST_WHY]}"
        self.refused = why
        self._emit(why, "".join(c for c in why if not c.isdigit()))
        return UNKNOWN

    def _note_server(self) -> None:
        """Note which server answered, and report it if it is another one than before."""
        name = format_name(self.servers.current)
        if name == self._last:
            return
        is_first, self._last = not self._last, name
        self._chains.reset_server(name)
        if not is_first:
            if self._logs_outage:
                self._emit(f"{self._receiver} is {name} now")
            self._moved()

    def _call(self, method: MethodName[AnswerT], params: client.Params,
              within_s: float) -> AnswerT:
        """Call the site's server once and return its answer; IostatsError."""
        def ask() -> AnswerT:
            if self._credentials is None:
                self._credentials = self._sign()
            return self.servers.call(self._credentials, self._node, method, params, within_s,
                                     learn=self.clock.learn, moves=method == "hello")
        return auth.call_with_timeout(within_s + 0.5, f"answer of {self.servers.name}", ask)


class ChainServers:
    """
    The servers that have received chains of one directory; a file that cannot be read or written
    counts as empty.

    `servers`: names of all there are; with one alone nothing is stored on the disk.
    """

    @property
    def last(self) -> str:
        """Return the last server that accepted a message; "" if unknown."""
        return self._taken_by.get("", "")

    def __init__(self, directory: str, servers: Iterable[str]) -> None:
        self._path, self._servers = os.path.join(directory, _NAME), list(servers)
        self._taken_by: dict[str, str] = {}
        self._unknown_to: set[tuple[str, str]] = set()
        if len(self._servers) > 1:
            try:
                stored = json.loads(private_files.read_text(self._path))
                self._taken_by = {str(run): str(server) for run, server in stored.items()}
            except (OSError, ValueError, AttributeError, RecursionError):
                pass

    def note_accepted(self, run: str, server: str, waiting: Iterable[str]) -> None:
        """Note that `server` accepted a message of `run`; `waiting`: the runs of all that wait."""
        if len(self._servers) < 2 or self._taken_by.get(run) == self.last == server:
            return
        left = set(waiting)
        self._taken_by = {chain: server for chain, server in self._taken_by.items()
                          if chain in left}
        self._taken_by.update({run: server, "": server})
        self._unknown_to.discard((run, server))
        try:
            private_files.write_atomically(self._path, json.dumps(self._taken_by).encode())
        except OSError:
            pass

    def is_for_another(self, run: str, server: str) -> bool:
        """Note that `server` does not know the chain `run`; return whether another server does."""
        owner = self._taken_by.get(run, server)
        if owner == server or owner not in self._servers:
            return False
        self._unknown_to.add((run, server))
        return True

    def is_unknown_to(self, run: str, server: str) -> bool:
        """Whether `server` was noted as not knowing the chain."""
        return (run, server) in self._unknown_to

    def reset_server(self, server: str) -> None:
        """
        Reset what is known about `server` after a new connection: it may have another store than
        before.
        """
        self._unknown_to = {pair for pair in self._unknown_to if pair[1] != server}
