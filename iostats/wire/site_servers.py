"""
The site's servers, of which one is asked: [site] host = HOST[:PORT], HOST[:PORT] ...

The first that answers is used; the others are standbys, each with a store of its own.  A server is
away when nothing of ours answers there: then the next one is asked.  One that refuses, or has no
room on its disk, is there.  Who runs for longer stays with the server that answered, and after
LOOK_BACK_S asks those before it again.
"""

from __future__ import annotations

import time
from functools import partial

from iostats.base.errors import NotDelivered
from iostats.wire import auth, client, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iostats.base.config import Config
    from iostats.wire.method_name import AnswerT, MethodName

LOOK_BACK_S = 60.0
REACH_WITHIN_S = 3.0                 # how long a person waits for a host that does not answer
SILENT_WITHIN_S = 10.0               # for `hello` of a server that takes connections
_HELLO_WITHIN_S = 3.0                # of a server that hangs, before the next one is asked
_SECOND_CHANCE_S = 0.5               # less than that is not worth asking a slow one again
_WITHIN_S = 10.0
_LONGEST_ANSWER = 1 << 20


class ServerMoved(NotDelivered):
    """A different server answers than before; only `hello` was sent to it."""


def split_servers(text: str, where: str, port: int) -> list[tuple[str, int]]:
    """
    Return [(host, port)] of HOST[:PORT], separated by commas or spaces; UsageError with `where`.

    `port`: of those without one.

    >>> split_servers("mgmt1, mgmt2:2323", "--server", 19990)
    [('mgmt1', 19990), ('mgmt2', 2323)]
    """
    addresses = [client.split_server(word, where) for word in text.replace(",", " ").split()]
    return list(dict.fromkeys((host, own_port or port) for host, own_port in addresses))


def make_site_servers(config: Config, reach_within_s: float | None = None) -> SiteServers:
    """
    The site's servers, by site.cfg; UsageError, or NotDelivered without one.

    `reach_within_s`: as of SiteServers.
    """
    servers = split_servers(config.site.host, "[site] host", config.site.port)
    if not servers:
        raise NotDelivered("no site server is named ([site] host in site.cfg)")
    return SiteServers(servers, reach_within_s=reach_within_s)


def format_name(server: tuple[str, int]) -> str:
    """Format a server's name as HOST:PORT."""
    return f"{server[0]}:{server[1]}"


class SiteServers:
    """
    The site's servers `servers`, [(host, port)] in their order, at least one; `reach_within_s`: as
    in client.call; a server that does not answer `hello` within SILENT_WITHIN_S is unreachable.

    Attributes:
        servers: the same.
        current: the one that answered last, or else the first.
        name: all of them, in words.
    """

    def __init__(self, servers: Iterable[tuple[str, int]],
                 steady: Callable[[], float] = time.monotonic,
                 reach_within_s: float | None = None) -> None:
        self.servers = tuple(servers)
        self.current = self.servers[0]
        self.name = ", ".join(map(format_name, self.servers))
        self._steady, self._looked_back_at = steady, 0.0
        self._reach_within_s = reach_within_s

    def __len__(self) -> int:
        return len(self.servers)

    def call(self, signs: Sequence[auth.Credentials], node: str,
             method: MethodName[AnswerT], params: client.Params,
             within_s: float | None = None, longest: int = _LONGEST_ANSWER,
             learn: Callable[[float], object] = lambda clock_ahead_s: None,
             moves: bool = True) -> AnswerT:
        """
        Call a method like client.call, at the first server that answers: the current one, then the
        others.

        `moves`: else ServerMoved where that is not the current one, for callers that handle
        it.  NotDelivered with the error of each server.
        """
        within_s = _WITHIN_S if within_s is None else within_s

        def ask(server: tuple[str, int], within_s: float,
                hello_within_s: float | None) -> AnswerT:
            if not moves and server != self.current:
                client.call(*server, protocol.SITE, signs, node, protocol.HELLO,
                            {"job": protocol.SITE}, hello_within_s, learn=learn,
                            reach_within_s=hello_within_s)
                self._set_current(server)
                raise ServerMoved(f"the site's server is {format_name(server)} now")
            result = client.call(*server, protocol.SITE, signs, node, method, params, within_s,
                                 longest, learn, hello_within_s, self._reach_within_s)
            self._set_current(server)
            return result
        silent_s = None if self._reach_within_s is None else SILENT_WITHIN_S
        if len(self.servers) == 1:
            return ask(self.current, within_s, silent_s)
        until = self._steady() + within_s
        order = [self.current, *(server for server in self.servers if server != self.current)]
        failed: dict[tuple[str, int], str] = {}
        slow: list[tuple[str, int]] = []
        for place, server in enumerate(order):
            began = self._steady()
            hello_s = max(0.001, min(_HELLO_WITHIN_S, (until - began) / (len(order) - place)))
            try:
                return ask(server, max(0.001, until - began), hello_s)
            except ServerMoved:
                raise
            except NotDelivered as error:
                if not is_away(error):
                    self._set_current(server)
                    raise
                failed[server] = str(error)
                if self._steady() - began >= 0.9 * hello_s:
                    slow.append(server)
        # Perhaps it was only busy: it has the time that is left.
        left = until - self._steady()
        if slow and left > _SECOND_CHANCE_S:
            try:
                return ask(slow[0], left, min(left, silent_s or left))
            except ServerMoved:
                raise
            except NotDelivered as error:
                if not is_away(error):
                    self._set_current(slow[0])
                    raise
                failed[slow[0]] = str(error)
        begins = "no answer from the site's server: "
        raise NotDelivered(begins + "; ".join(text.removeprefix(begins)
                                              for text in failed.values()))

    def _set_current(self, server: tuple[str, int]) -> None:
        if server != self.current:
            self.current, self._looked_back_at = server, self._steady()

    def should_try_preferred(self) -> bool:
        """True if it is time to try the servers before the current one again."""
        return (self.current != self.servers[0]
                and self._steady() - self._looked_back_at >= LOOK_BACK_S)

    def try_preferred_servers(self, signs: Sequence[auth.Credentials], node: str,
                              within_s: float) -> bool:
        """
        Try the servers before the current one, and make the first that works the current one; True
        if one does.
        """
        self._looked_back_at = self._steady()
        until = self._steady() + within_s
        for server in self.servers[:self.servers.index(self.current)]:
            hello_s = min(_HELLO_WITHIN_S, until - self._steady())
            if hello_s <= 0:
                break
            try:
                hello: protocol.Hello = auth.call_with_timeout(
                    hello_s, f"answer of {format_name(server)}",
                    partial(client.call, *server, protocol.SITE, signs, node, protocol.HELLO,
                            {"job": protocol.SITE}, hello_s))
            except NotDelivered:
                continue
            if not hello.get("trouble"):
                self._set_current(server)
                return True
        return False


def is_away(error: NotDelivered) -> bool:
    """Whether no server of the site answers at this address; False if one answers and refuses."""
    return not isinstance(error, (client.Refused, client.CannotStore))
