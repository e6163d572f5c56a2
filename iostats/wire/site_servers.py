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
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

LOOK_BACK_S = 60.0
REACH_WITHIN_S = 3.0                 # how long a person waits for a host that does not answer
_HELLO_WITHIN_S = 3.0                # of a server that hangs, before the next one is asked
_SECOND_CHANCE_S = 0.5               # less than that is not worth asking a slow one again
_WITHIN_S = 10.0
_LONGEST_ANSWER = 1 << 20


class ServerMoved(NotDelivered):
    """Another server answers now; nothing was sent to it but `hello`."""


def split_servers(text: str, where: str, port: int) -> list[tuple[str, int]]:
    """
    [(host, port)] of HOST[:PORT], with commas or spaces between; UsageError says `where`.

    `port`: of those without one.

    >>> split_servers("mgmt1, mgmt2:2323", "--server", 19990)
    [('mgmt1', 19990), ('mgmt2', 2323)]
    """
    found = [client.split_server(word, where) for word in text.replace(",", " ").split()]
    return list(dict.fromkeys((host, its or port) for host, its in found))


def site_servers(config: Mapping[str, Any], reach_within_s: float | None = None) -> SiteServers:
    """
    The site's servers, by site.cfg; UsageError, or NotDelivered without one.

    `reach_within_s`: as of SiteServers.
    """
    servers = split_servers(config["site.host"], "[site] host", config["site.port"])
    if not servers:
        raise NotDelivered("no site server is named ([site] host in site.cfg)")
    return SiteServers(servers, reach_within_s=reach_within_s)


def name_of(server: tuple[str, int]) -> str:
    """HOST:PORT."""
    return f"{server[0]}:{server[1]}"


class SiteServers:
    """
    `servers`: (host, port), in their order, one at least; `reach_within_s`: as of client.call.

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
        self.name = ", ".join(map(name_of, self.servers))
        self._steady, self._looked_back_at = steady, 0.0
        self._reach_within_s = reach_within_s

    def __len__(self) -> int:
        return len(self.servers)

    def call(self, signs: Sequence[auth.Credentials], node: str, method: str, params: client.Params,
             within_s: float | None = None, longest: int = _LONGEST_ANSWER,
             learn: Callable[[float], object] = lambda clock_ahead_s: None,
             moves: bool = True) -> Any:
        """
        As client.call, of the first server that answers: the current one, then the others.

        `moves`: else ServerMoved where that is not the current one, for who has other things to say
        to that.  NotDelivered with what each of them has said.
        """
        within_s = _WITHIN_S if within_s is None else within_s

        def ask(server: tuple[str, int], within_s: float, hello_within_s: float | None) -> Any:
            if not moves and server != self.current:
                client.call(*server, protocol.SITE, signs, node, "hello", {"job": protocol.SITE},
                            hello_within_s, learn=learn, reach_within_s=hello_within_s)
                self._answered(server)
                raise ServerMoved(f"the site's server is {name_of(server)} now")
            result = client.call(*server, protocol.SITE, signs, node, method, params, within_s,
                                 longest, learn, hello_within_s, self._reach_within_s)
            self._answered(server)
            return result
        if len(self.servers) == 1:
            return ask(self.current, within_s, None)
        until = self._steady() + within_s
        order = [self.current, *(one for one in self.servers if one != self.current)]
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
                    self._answered(server)
                    raise
                failed[server] = str(error)
                if self._steady() - began >= 0.9 * hello_s:
                    slow.append(server)
        # Perhaps it was only busy: it has the time that is left.
        left = until - self._steady()
        if slow and left > _SECOND_CHANCE_S:
            try:
                return ask(slow[0], left, left)
            except ServerMoved:
                raise
            except NotDelivered as error:
                if not is_away(error):
                    self._answered(slow[0])
                    raise
                failed[slow[0]] = str(error)
        begins = "no answer from the site's server: "
        raise NotDelivered(begins + "; ".join(text.removeprefix(begins)
                                              for text in failed.values()))

    def _answered(self, server: tuple[str, int]) -> None:
        if server != self.current:
            self.current, self._looked_back_at = server, self._steady()

    def may_look_back(self) -> bool:
        """Whether those before the current one should be asked again: it has been long enough."""
        return (self.current != self.servers[0]
                and self._steady() - self._looked_back_at >= LOOK_BACK_S)

    def look_back(self, signs: Sequence[auth.Credentials], node: str, within_s: float) -> bool:
        """
        Ask those before the current one whether they are there, and well; True: the first of them
        that is, is the current one now.
        """
        self._looked_back_at = self._steady()
        until = self._steady() + within_s
        for server in self.servers[:self.servers.index(self.current)]:
            hello_s = min(_HELLO_WITHIN_S, until - self._steady())
            if hello_s <= 0:
                break
            try:
                hello = auth.with_timeout(hello_s, f"answer of {name_of(server)}",
                                          partial(client.call, *server, protocol.SITE, signs, node,
                                                  "hello", {"job": protocol.SITE}, hello_s))
            except NotDelivered:
                continue
            if not hello.get("trouble"):
                self._answered(server)
                return True
        return False


def is_away(error: NotDelivered) -> bool:
    """Whether no server of the site answers there; else it does, and does not take this."""
    return not isinstance(error, (client.Refused, client.CannotKeep))
