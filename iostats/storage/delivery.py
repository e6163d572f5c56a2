"""
The way of an agent's messages to the site's server: kept on the disk, sent, and then forgotten.

Every message waits in [harvest] spool_dir until the server has acknowledged it, and its bytes are
sent as they are kept.

Where the site has several servers, the first that answers is asked, until it is away; a chain that
the next one does not know waits for the one that has the rest (chain_servers.py), and the agent
begins another chain.  Those before it are asked again from time to time, once all is sent: a chain
is not broken off for that.
"""

from __future__ import annotations

import os
import time

from iostats.base.disk_queue import Spool
from iostats.base.errors import ConfigError, IostatsError, NotDelivered, StateError, one_line
from iostats.storage.chain_servers import ChainServers
from iostats.storage.schedule import ServerClock
from iostats.wire import auth, client, protocol
from iostats.wire.messages.clients_encoder import method_of
from iostats.wire.messages.sweep_encoder import LONGEST_WHY
from iostats.wire.site_servers import ServerMoved, SiteServers, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from iostats.base.config import Config
    from iostats.base.disk_queue import Spooled
    from iostats.storage.schedule import Pace

HOW = "in site.cfg: [harvest] spool_dir"

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
ANSWER_WITHIN_S = 10.0
_FINAL = (protocol.REFUSED, protocol.INVALID_PARAMS)

# What became of a message
TAKEN, USELESS, UNKNOWN, LATER = "taken", "useless", "its chain is not known", "later"
MOVED = "another server answers"


class SweepNotKept(StateError):
    """This sweep can't be kept; the text says why."""


class Delivery:
    """
    Keeps messages and sends them.  StateError where the directory for them can't be used.

    `servers`: (host, port) of the site's servers, in their order; `say`: gets a line, and what it
    is about where the line has numbers; `lost`: gets the run of a message that will not reach the
    server which is asked now; `moved`: called when another server is asked.  For another site's
    server: `spool`: where messages wait; `signs`: makes the credentials; `who`: what it is called;
    `taken`: gets the Spooled that it has acknowledged; `after_refusal`: what is said to follow from
    it; `says_away`: whether a line says that the server is away, or back.

    Attributes:
        spool: the messages that wait.
        clock: the server's.
        servers: SiteServers; its `current` is the one that is asked.
        refused: why the last message was; "" where it was not.
        retry_at: time.monotonic() before which the server is not asked again: it is away.
        is_older: the server does not know the method of the last message.
    """

    def __init__(self, config: Config, node: str, servers: Sequence[tuple[str, int]], pace: Pace,
                 say: Callable[..., None], lost: Callable[[str], None],
                 spool: Spool | None = None,
                 signs: Callable[[], list[auth.Credentials]] | None = None,
                 who: str = "the site's server",
                 taken: Callable[[Spooled], object] = lambda one: None,
                 after_refusal: str = "the next sweep is a full one",
                 says_away: bool = True, moved: Callable[[], object] = lambda: None) -> None:
        self._config, self._node, self._pace, self._say, self._lost = config, node, pace, say, lost
        self.servers = SiteServers(servers)
        self.spool = spool if spool is not None else Spool(
            config["harvest.spool_dir"], config["harvest.spool_bytes"], "[harvest]")
        self._chains = ChainServers(self.spool.directory, map(name_of, servers))
        self._last = self._chains.last
        self._who, self._taken, self._after_refusal = who, taken, after_refusal
        self._moved = moved
        self._says_away = says_away
        self._sign = signs or (lambda: auth.client_credentials(
            config, protocol.SITE, config["site.secret"], self._say))
        self.clock, self.refused, self.retry_at = ServerClock(), "", 0.0
        self._moves = 0                        # to another server, since one took something
        self._grown = 0                        # bytes of changes that the spool has grown by
        self._credentials: list[auth.Credentials] | None = None
        self._pause_s, self._is_away, self.is_older = _FIRST_PAUSE_S, False, False

    @property
    def is_behind(self) -> bool:
        """So much waits of one chain that the next sweep begins another: one may be dropped."""
        return self._grown > int(self._config["harvest.spool_bytes"]) // 4

    @property
    def waits(self) -> bool:
        """There is something to send to the server that is asked now."""
        return self.spool.first(self._is_for_another) is not None

    def keep(self, run: str, seq: int, message: bytes, is_full: bool) -> None:
        """Let a message wait, or send it where there is no room; SweepNotKept."""
        self._pace.rest()
        if seq == 1:
            self._grown = 0
        try:
            self._spooled(run, seq, message, is_full)
        except (OSError, StateError):
            # There is no room.  What waits may go now, and this one after it.
            is_empty = self.deliver(time.monotonic() + ANSWER_WITHIN_S)
            try:
                self._spooled(run, seq, message, is_full)
            except (OSError, StateError) as error:
                outcome = self.send(message, ANSWER_WITHIN_S) if is_empty else LATER
                if outcome is TAKEN:
                    self._has_taken(run)
                else:
                    why = error if isinstance(error, StateError) else (
                        f"{self.spool.directory}: a sweep cannot be kept: {error.strerror}")
                    raise SweepNotKept(f"{why}; this sweep is skipped") from None

    def _spooled(self, run: str, seq: int, data: bytes, is_full: bool) -> None:
        size = self.spool.size
        dropped = self.spool.keep(run, seq, data)
        if dropped:
            self._say(f"{self.spool.directory}: the oldest sweeps are dropped: more than "
                      f"{self._config['harvest.spool_bytes']} bytes wait (site.cfg: [harvest] "
                      f"spool_bytes)")
        elif not is_full:
            self._grown += self.spool.size - size

    def learn_time(self) -> None:
        """Learn the server's time, so that the first sweep is in step already."""
        try:
            self._call("hello", {"job": protocol.SITE}, ANSWER_WITHIN_S / 2)
        except ConfigError:
            raise
        except IostatsError:
            pass                               # it is logged when a message can't be delivered

    def deliver(self, until: float, enough: Callable[[], bool] = lambda: False) -> bool:
        """
        Send what waits, the oldest first, until time.monotonic() is `until`; True when all is sent.

        `enough`: asked before each message, whether to go on later.
        A server that is away costs one try, and the next one comes later and later.
        """
        while True:
            one = self.spool.first(self._is_for_another)
            if one is None:
                break
            left = until - time.monotonic()
            if left <= 0 or time.monotonic() < self.retry_at or enough():
                return False
            try:
                data = self.spool.load(one)
            except StateError as error:
                self._say(f"{error}; it is put aside")
                self.spool.put_aside(one)
                self._lost(one.run)
                continue
            outcome = self.send(data, min(ANSWER_WITHIN_S, left))
            if outcome is LATER:
                return False
            if outcome is MOVED:
                continue
            if outcome is TAKEN:
                self._has_taken(one.run)
                self.spool.remove(one)
                self._taken(one)
            else:                              # nor is what follows it in its chain
                if not (outcome is UNKNOWN and self._chains.is_for_another(
                        one.run, name_of(self.servers.current))):
                    self.spool.drop(one.run)
                self._lost(one.run)
            self._pace.rest()
        self._grown = 0
        self.look_back(until - time.monotonic())
        return True

    def _is_for_another(self, one: Spooled) -> bool:
        return self._chains.is_unknown_to(one.run, name_of(self.servers.current))

    def _has_taken(self, run: str) -> None:
        self._chains.taken(run, name_of(self.servers.current), (one.run for one in self.spool))

    def look_back(self, within_s: float = ANSWER_WITHIN_S) -> None:
        """Now and then: return to an earlier server, where that is back."""
        if (within_s > 0 and self._credentials is not None and self.servers.may_look_back()
                and self.servers.look_back(self._credentials, self._node,
                                           min(ANSWER_WITHIN_S / 2, within_s))):
            self._note_server()

    def send(self, data: bytes, within_s: float) -> str:
        """
        TAKEN, USELESS (it is refused), UNKNOWN or LATER, of one message; MOVED: it was not sent, as
        something else may be due first to the server that answers now.
        """
        method = method_of(data)
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
                self._say(f"{error}; {self._after_refusal}")
                return USELESS
            self._credentials = None                 # it may be another secret
            self.retry_at = time.monotonic() + self._pause_s * (0.5 + os.urandom(1)[0] / 256)
            self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
            self._is_away = True
            self.is_older = getattr(error, "code", None) == protocol.METHOD_NOT_FOUND
            if self.is_older:
                error = NotDelivered(f"{self._who} is of an older release, which does not "
                                     f"know `{method}`: update it")
            if self._says_away or self.is_older:
                self._say(f"{error}; {len(self.spool)} messages wait in {self.spool.directory}",
                          "".join(c for c in str(error) if not c.isdigit()))
            return LATER
        self._note_server()
        if self._is_away:
            self._is_away = False
            if self._says_away:
                self._say(f"{self._who} is back; {len(self.spool)} messages wait")
        self.retry_at, self._pause_s, self.refused = 0.0, _FIRST_PAUSE_S, ""
        self.is_older, self._moves = False, 0
        if isinstance(answer, dict) and answer.get("taken") is True:
            if answer.get("left_out"):
                self._say(f"{self._who} has left out: "
                          f"{one_line(answer['left_out'])[:LONGEST_WHY]}")
            return TAKEN
        why = answer.get("why", "") if isinstance(answer, dict) else answer
        why = f"{self._who} asks for a full sweep: {one_line(why)[:LONGEST_WHY]}"
        self.refused = why
        self._say(why, "".join(c for c in why if not c.isdigit()))
        return UNKNOWN

    def _note_server(self) -> None:
        """Which server has answered."""
        name = name_of(self.servers.current)
        if name == self._last:
            return
        is_first, self._last = not self._last, name
        self._chains.known_by(name)
        if not is_first:
            if self._says_away:
                self._say(f"{self._who} is {name} now")
            self._moved()

    def _call(self, method: str, params: client.Params, within_s: float) -> Any:
        """What the site's server answers, in one try; IostatsError."""
        def ask() -> Any:
            if self._credentials is None:
                self._credentials = self._sign()
            return self.servers.call(self._credentials, self._node, method, params, within_s,
                                     learn=self.clock.learn, moves=method == "hello")
        return auth.with_timeout(within_s + 0.5, f"answer of {self.servers.name}", ask)
