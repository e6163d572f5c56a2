"""
The servers that `iostats events` asks: sites' servers by authenticated RPC, collectors by JSON-RPC
over HTTP; both answer the method `events` in one form (docs/events.md).
"""

from __future__ import annotations

import json
import time
from collections import namedtuple

from iostats.base.errors import NotDelivered, UsageError, one_line
from iostats.cli.event_question import EventQuestion, params_of
from iostats.events.event import from_json
from iostats.node import identity
from iostats.wire import auth, client, protocol
from iostats.wire.site_servers import (
    REACH_WITHIN_S,
    SiteServers,
    name_of,
    site_servers,
    split_servers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from iostats.base.config import Config

    EventServer = Union["AskedSite", "AskedCollector"]

MOST_AT_ONCE = 1000                 # events in one answer
MOST_LAST = MOST_AT_ONCE            # that a server sorts out; of more, all are asked for
WITHIN_S = 30.0
_LONGEST = 1 << 26                  # bytes of an answer
_LONGEST_NAME = 256
_MOST_ANEW = 5                      # before it has told all once
_AGAIN_SINCE_S = 600.0              # before an outage: events that came late

EventPage = namedtuple("EventPage", "events next more time places dropped bad of_user",
                       defaults=("",))
EventPage.__doc__ = """
One answer to `events`.

Attributes:
    events: [(Event, {NID: node})], by their place.
    next: the place to go on behind; more: there are more now.
    time: the server's clock; s since 1970.
    places: the name of this numbering of places; "" where the server gives none.
    dropped: how many events the server had no room for.
    bad: why the first of those that are no events could not be read; "" where all could.
    of_user: the answer has only what this user may see; "": all.
"""


def server_of(text: str, config: Config) -> EventServer:
    """
    The server that `--server TEXT` names; UsageError.

    HOST is a collector, unless it is [site] host; HOST:PORT is a site's server, unless the port is
    that of collectors; http://HOST[:PORT] is always a collector.
    """
    is_http = text.startswith("http://")
    if "://" in text and not is_http:
        raise UsageError(f"--server: expected HOST, HOST:PORT or http://HOST:PORT, got {text!r}")
    host, port = client.split_server(text.removeprefix("http://").rstrip("/") if is_http else text)
    ours = dict(split_servers(config["site.host"], "[site] host", config["site.port"]))
    if is_http or port == config["collector.port"] or (port is None and host not in ours):
        return AskedCollector(host, port or config["collector.port"])
    return AskedSite(config, SiteServers(
        [(host, port or config["site.port"])], reach_within_s=REACH_WITHIN_S), is_given=True)


def site_of(config: Config) -> AskedSite:
    """The site's server of site.cfg; NotDelivered without one, which says what else there is."""
    try:
        return AskedSite(config, site_servers(config, REACH_WITHIN_S))
    except NotDelivered as error:
        raise NotDelivered(f"{error}; give --server HOST, or --local for what this machine "
                           f"knows") from None


class AskedSite:
    """
    The site's server, the first of `servers` that answers; `name`: that of the first of them, as
    messages and --cursor-file call it; `is_given`: by --server.
    """

    def __init__(self, config: Config, servers: SiteServers, is_given: bool = False) -> None:
        self.name = name_of(servers.servers[0])
        self._config, self._servers = config, servers
        self._may_be_collector = is_given and servers.current[1] != config["site.port"]

    def ask(self, method: str, params: dict[str, Any], within_s: float = WITHIN_S) -> Any:
        """The result of a method; NotDelivered."""
        signs = auth.client_credentials(self._config, protocol.SITE, self._config["site.secret"])
        try:
            if self._servers.may_look_back():
                self._servers.look_back(signs, identity.name(), within_s)
            return self._servers.call(signs, identity.name(), method, params, within_s, _LONGEST)
        except client.OtherServer as error:
            if not self._may_be_collector:
                raise
            raise NotDelivered(f"{error}; if a collector is there: --server "
                               f"{AskedCollector(*self._servers.current).name}") from None


class AskedCollector:
    """A collector; `name`: as messages call it."""

    def __init__(self, host: str, port: int) -> None:
        self.name = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._host, self._port = host, port

    def ask(self, method: str, params: dict[str, Any], within_s: float = WITHIN_S) -> Any:
        """The result of a method; NotDelivered."""
        from http.client import HTTPConnection, HTTPException
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1})
        connection = HTTPConnection(self._host, self._port)
        try:
            connection.sock = client.connect(self._host, self._port,
                                             time.monotonic() + within_s, REACH_WITHIN_S)
            connection.sock.settimeout(within_s)
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read(_LONGEST + 1)
        except (OSError, HTTPException) as error:
            raise NotDelivered(f"no answer from the collector {self.name}: "
                               f"{getattr(error, 'strerror', None) or str(error) or repr(error)}"
                               ) from None
        finally:
            connection.close()
        return self._result(answer.status, text)

    def _result(self, status: int, text: bytes) -> Any:
        try:
            found = json.loads(text) if len(text) <= _LONGEST else None
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and isinstance(found.get("error"), dict):
            error = found["error"]
            raise client.Refused(f"{self.name}: the collector refused: "
                                 f"{one_line(error.get('message'))[:400]}",
                                 error.get("code") if isinstance(error.get("code"), int) else None)
        if status == 403:
            raise client.Refused(f"{self.name}: this address is not in the collector's [collector] "
                                 f"allow")
        if status != 200 or not isinstance(found, dict) or "result" not in found:
            raise NotDelivered(f"{self.name}: no collector of iostats answers there (HTTP status "
                               f"{status})")
        return found["result"]


def page_of(answer: Any, name: str) -> EventPage:
    """The EventPage in a server's answer; NotDelivered where it is of another form."""
    try:
        events, bad = [], ""
        for one in answer["events"]:
            try:
                event = from_json(one)
                names = one.get("clients_names") or event.clients
                events.append((event, {nid: one_line(name)[:_LONGEST_NAME]
                                       for nid, name in zip(event.clients, names)}))
            except (ValueError, TypeError, AttributeError, LookupError) as error:
                bad = bad or one_line(str(error))[:300]
        return EventPage(events, int(answer["next"]), bool(answer["more"]), float(answer["time"]),
                         one_line(answer.get("places") or ""), int(answer.get("dropped") or 0), bad,
                         one_line(answer.get("of_user") or "")[:_LONGEST_NAME])
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise NotDelivered(f"{name}: answers in another form ({error!r:.200}); use one release of "
                           f"iostats here and there") from None


class ServerCursor:
    """
    How far one server was read, so that nothing is missed: neither what came while it did not
    answer, nor what came before it began its numbers anew.

    Attributes:
        name: the server's.
        after, places: where it goes on, and the name of that numbering; None: it was not asked yet.
        answered: when it had told all, by its own clock; None: not yet.
    """

    def __init__(self, server: EventServer, question: EventQuestion, after: int | None = None,
                 places: str = "", answered: float | None = None) -> None:
        self.name, self._server, self._question = server.name, server, question
        self.after, self.places, self.answered = after, places, answered
        self._again_since: float | None = None      # while all since then is asked for once more
        self._anew = 0

    def of(self, question: EventQuestion) -> ServerCursor:
        """One of the same server, for another question."""
        return ServerCursor(self._server, question)

    def ask(self, last: int = 0, within_s: float = WITHIN_S) -> EventPage:
        """
        The next page; NotDelivered.  Where the numbers began anew: an empty one, with more to come.

        `last`: how many, the latest ones, and all that comes after them; with the first page
        alone.
        """
        params = {**params_of(self._question), "after": self.after or 0, "limit": MOST_AT_ONCE}
        if 0 < last <= MOST_LAST:
            params["last"] = last
        if self._again_since is not None:
            params["since"] = max(self._again_since, self._question.since or 0.0)
        page = page_of(self._server.ask("events", params, within_s), self.name)
        if self.after is not None and (page.places != self.places or page.next < self.after):
            # It has other places than we know: all from shortly before it went is asked for again.
            self._anew += 1
            if self._anew > _MOST_ANEW:
                raise NotDelivered(f"{self.name}: begins its numbers of events anew all the time")
            self.places = page.places
            self._begin_again()
            return page._replace(events=[], more=True, dropped=0)
        if page.more and page.next <= (self.after or 0):
            raise NotDelivered(f"{self.name}: announces more events, but none behind place "
                               f"{self.after or 0}")
        self.after, self.places = page.next, page.places
        if not page.more:
            self._again_since, self.answered, self._anew = None, page.time, 0
        return page

    def failed(self) -> None:
        """It did not answer: it may be another one when it does."""
        if self.after is not None and not self.places:
            self._begin_again()

    def _begin_again(self) -> None:
        if self.answered is not None:
            self._again_since = self.answered - _AGAIN_SINCE_S
        self.after = 0
