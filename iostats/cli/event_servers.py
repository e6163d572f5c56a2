"""
The servers that `iostats events` queries: sites' servers by authenticated RPC, collectors by
JSON-RPC over HTTP; both answer the method `events` in one form (docs/reference/events.md).
"""

from __future__ import annotations

import json
import time

from iostats.base.errors import NotDelivered, UsageError, sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.cli.event_selection import EventSelection, make_params
from iostats.events.event import from_json
from iostats.node import identity
from iostats.wire import auth, client, protocol
from iostats.wire.protocol import EVENTS
from iostats.wire.site_servers import (
    REACH_WITHIN_S,
    SiteServers,
    format_name,
    make_site_servers,
    split_servers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from iostats.base.config import Config
    from iostats.events.event import Event
    from iostats.wire.method_name import AnswerT, MethodName
    from iostats.wire.protocol import EventsPart

    EventServer = Union["SiteEventServer", "CollectorEventServer"]

MAX_AT_ONCE = 1000              # events in one answer
MAX_LAST = MAX_AT_ONCE          # that a server selects; above this, all are fetched
WITHIN_S = 30.0
_MAX_ANSWER_BYTES = 1 << 26     # of an answer
_MAX_NAME_LENGTH = 256
_MAX_RESTARTS = 5               # restarts of its numbering before one complete answer
_REPEATED_S = 600.0             # before an outage: late events are fetched again


class EventPage(NamedTuple):
    """A page of events, as the server's method `events` answers."""

    events: list[tuple[Event, dict[str, str]]]  # [(Event, {NID: node})], by their place
    next: int           # the place to continue after
    more: bool          # there are more now
    time: float         # the server's clock; s since 1970
    places: str         # the name of this numbering of places; "" if the server has none
    dropped: int        # the number of events that the server had no room for
    bad: str            # the error of the first item that is not a valid event; "" if all are
    of_user: str = ""   # the answer has only what this user may see; "": all


def parse_server(text: str, config: Config) -> EventServer:
    """
    The server of `--server TEXT`; UsageError.

    HOST is a collector, unless it is [site] host; HOST:PORT is a site's server, unless the port is
    the collectors' one; http://HOST[:PORT] is always a collector.
    """
    is_http = text.startswith("http://")
    if "://" in text and not is_http:
        raise UsageError(f"--server: expected HOST, HOST:PORT or http://HOST:PORT, got {text!r}")
    host, port = client.split_server(text.removeprefix("http://").rstrip("/") if is_http else text)
    site_servers = dict(split_servers(config.site.host, "[site] host", config.site.port))
    if is_http or port == config.collector.port or (port is None and host not in site_servers):
        return CollectorEventServer(host, port or config.collector.port)
    return SiteEventServer(config, SiteServers(
        [(host, port or config.site.port)], reach_within_s=REACH_WITHIN_S), is_given=True)


def find_site_server(config: Config) -> SiteEventServer:
    """The site's server of site.cfg; NotDelivered without one, with the alternatives."""
    try:
        return SiteEventServer(config, make_site_servers(config, REACH_WITHIN_S))
    except NotDelivered as error:
        raise NotDelivered(f"{error}; give --server HOST, or --local for the events of this "
                           f"machine") from None


class SiteEventServer:
    """
    The site's server, the first of `servers` that answers; `name`: that of the first of them, in
    messages and in --cursor-file; `is_given`: by --server.
    """

    def __init__(self, config: Config, servers: SiteServers, is_given: bool = False) -> None:
        self.name = format_name(servers.servers[0])
        self._config, self._servers = config, servers
        self._may_be_collector = is_given and servers.current[1] != config.site.port

    def ask(self, method: MethodName[AnswerT], params: dict[str, object],
            within_s: float = WITHIN_S) -> AnswerT:
        """The result of a method; NotDelivered."""
        credentials = auth.load_client_credentials(self._config, protocol.SITE,
                                                   self._config.site.secret)
        try:
            if self._servers.should_try_preferred():
                self._servers.try_preferred_servers(credentials, identity.find_node_name(),
                                                    within_s)
            return self._servers.call(credentials, identity.find_node_name(), method, params,
                                      within_s,
                                      _MAX_ANSWER_BYTES)
        except client.OtherServer as error:
            if not self._may_be_collector:
                raise
            raise NotDelivered(f"{error}; if a collector is there: --server "
                               f"{CollectorEventServer(*self._servers.current).name}") from None


class CollectorEventServer:
    """A collector; `name`: for messages."""

    def __init__(self, host: str, port: int) -> None:
        self.name = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._host, self._port = host, port

    def ask(self, method: MethodName[AnswerT], params: dict[str, object],
            within_s: float = WITHIN_S) -> AnswerT:
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
            text = answer.read(_MAX_ANSWER_BYTES + 1)
        except (OSError, HTTPException) as error:
            raise NotDelivered(f"no answer from the collector {self.name}: "
                               f"{getattr(error, 'strerror', None) or str(error) or repr(error)}"
                               ) from None
        finally:
            connection.close()
        result: AnswerT = self._parse_answer(answer.status, text)
        return result

    def _parse_answer(self, status: int, text: bytes) -> Any:
        try:
            document = json.loads(text) if len(text) <= _MAX_ANSWER_BYTES else None
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and isinstance(document.get("error"), dict):
            error = document["error"]
            raise client.Refused(f"{self.name}: the collector refused: "
                                 f"{sanitize(error.get('message'))[:400]}",
                                 error.get("code") if isinstance(error.get("code"), int) else None)
        if status == 403:
            raise client.Refused(f"{self.name}: this address is not in the collector's [collector] "
                                 f"allow")
        if status != 200 or not isinstance(document, dict) or "result" not in document:
            raise NotDelivered(f"{self.name}: no collector of iostats answers there (HTTP status "
                               f"{status})")
        return document["result"]


def decode_page(answer: EventsPart, name: str) -> EventPage:
    """The EventPage in a server's answer; NotDelivered for an unexpected format."""
    try:
        events, bad = [], ""
        for form in answer["events"]:
            try:
                event = from_json(form)
                names = form.get("clients_names") or event.clients
                events.append((event, {nid: sanitize(name)[:_MAX_NAME_LENGTH]
                                       for nid, name in zip(event.clients, names)}))
            except (ValueError, TypeError, AttributeError, LookupError) as error:
                bad = bad or sanitize(str(error))[:300]
        return EventPage(events, int(answer["next"]), bool(answer["more"]), float(answer["time"]),
                         sanitize(answer.get("places") or ""), int(answer.get("dropped") or 0), bad,
                         sanitize(answer.get("of_user") or "")[:_MAX_NAME_LENGTH])
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise NotDelivered(f"{name}: unexpected format of the answer ({error!r:.200}); use the "
                           f"same "
                           f"release of iostats here and there") from None


class ServerCursor:
    """
    The position in one server's events, so that nothing is missed: neither during an outage, nor
    when its numbering restarts.

    Attributes:
        name: the server's.
        after, places: the place to continue after, and the name of that numbering; None: not
        queried yet.
        answered: when it had sent all events, by its own clock; None: not yet.
    """

    def __init__(self, server: EventServer, selection: EventSelection, after: int | None = None,
                 places: str = "", answered: float | None = None) -> None:
        self.name, self._server, self._selection = server.name, server, selection
        self.after, self.places, self.answered = after, places, answered
        self._repeat_since: float | None = None      # while all events since then are fetched again
        self._restarts = 0

    def for_selection(self, selection: EventSelection) -> ServerCursor:
        """A new cursor for the same server, with another selection."""
        return ServerCursor(self._server, selection)

    def fetch_page(self, last: int = 0, within_s: float = WITHIN_S) -> EventPage:
        """
        The next page; NotDelivered. If the numbering restarted: an empty page, with more to follow.

        `last`: only the N latest ones, and all that follow them; for the first page only.
        """
        params = {**make_params(self._selection), "after": self.after or 0, "limit": MAX_AT_ONCE}
        if 0 < last <= MAX_LAST:
            params["last"] = last
        if self._repeat_since is not None:
            params["since"] = max(self._repeat_since, self._selection.since or 0.0)
        page = decode_page(self._server.ask(EVENTS, params, within_s), self.name)
        if self.after is not None and (page.places != self.places or page.next < self.after):
            # Its numbering is a new one: all events since shortly before the outage are fetched
            # again.
            self._restarts += 1
            if self._restarts > _MAX_RESTARTS:
                raise NotDelivered(f"{self.name}: restarts its numbering of events again and again")
            self.places = page.places
            self._restart()
            return page._replace(events=[], more=True, dropped=0)
        if page.more and page.next <= (self.after or 0):
            raise NotDelivered(f"{self.name}: announces more events, but none after place "
                               f"{self.after or 0}")
        self.after, self.places = page.next, page.places
        if not page.more:
            self._repeat_since, self.answered, self._restarts = None, page.time, 0
        return page

    def failed(self) -> None:
        """Note that the server did not answer: another one may answer under this name next time."""
        if self.after is not None and not self.places:
            self._restart()

    def _restart(self) -> None:
        if self.answered is not None:
            self._repeat_since = self.answered - _REPEATED_S
        self.after = 0
