"""
Events of a whole site: those that its server keeps, asked for behind the last one, for as long as
either lives.
"""

from __future__ import annotations

import time

from iostats.base.errors import IostatsError, one_line
from iostats.collector.sources import EventSource
from iostats.events.event import Event, from_json
from iostats.site.events.connections import UNCLEAR
from iostats.wire import auth, protocol
from iostats.wire.site_servers import site_servers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from iostats.base.config import Config
    from iostats.collector.sources import Give

_ASK_EVERY_S, _STATUS_EVERY_S, _WITHIN_S = 3.0, 30.0, 30.0
_AT_ONCE, _LONGEST = 1000, 64 << 20
_BACK_S = 2 * 3600                  # of the first question: what happened before is not asked for


class SiteSource(EventSource):
    """Asks the site's server each few seconds, and every time it has more at once."""

    def __init__(self, config: Config, node: str, say: Callable[[str], None],
                 every_s: float = _ASK_EVERY_S) -> None:
        """NotDelivered, or StateError, where this process cannot authenticate itself."""
        super().__init__(node)
        self._say, self._said, self._every_s = say, "", every_s
        self._site = site_servers(config)
        self._status: dict[str, Any] = {}
        self._servers: dict[str, dict[str, Any]] = {}
        self._status_at = -_STATUS_EVERY_S
        # Read once: who starts as root may not read it later.
        self._signs = auth.client_credentials(config, protocol.SITE, config["site.secret"])

    def work(self, give: Give) -> None:
        try:
            more = self._ask(give)
            if time.monotonic() - self._status_at >= _STATUS_EVERY_S:
                self._status_at = time.monotonic()
                self._status = self._call("events_status", {})
                self._servers = {str(one.get("node")): one
                                 for one in _rows(self._status, "servers")}
            if self._said:
                self._say("the site's server answers again")
                self._said = ""
        except IostatsError as error:
            more = False
            if str(error) != self._said:
                self._said = str(error)
                self._say(f"{error}; trying again")
        if not more:
            self.ended.wait(self._every_s)

    def _ask(self, give: Give) -> bool:
        params: dict[str, Any] = {"after": self.next, "limit": _AT_ONCE}
        if not self.next:
            params["since"] = time.time() - _BACK_S
        answer = self._call("events", params)
        try:
            of, next, more = str(answer.get("places", "")), answer["next"], answer["more"]
            if type(next) is not int or type(more) is not bool:
                raise ValueError("next: expected a number, more: true or false")
            if self.next and (of != self.of or next < self.next):
                # Its places began again, such as with a new store; ids tell what is known already.
                self.next, self.of = 0, of
                return True
            found = [_with_names(one) for one in answer["events"]]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise IostatsError(f"the site's server answers in another form ({error!s:.200}); use "
                               f"one release of iostats here and there") from None
        give(found, next, of)
        self.next, self.of = next, of
        return more

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._site.may_look_back():
            self._site.look_back(self._signs, self.node, _WITHIN_S)
        found = self._site.call(self._signs, self.node, method, params, _WITHIN_S, _LONGEST)
        if not isinstance(found, dict):
            raise IostatsError(f"the site's server answers `{method}` in another form; use one "
                               f"release of iostats here and there")
        return found

    # -- what `events_status` has

    def nodes_of(self, file_system: str) -> Iterable[str]:
        return [name for name, status in self._servers.items()
                if not file_system or file_system in _file_systems_of(status)]

    def file_systems(self) -> Iterable[str]:
        return {found for one in self._servers.values() for found in _file_systems_of(one)}

    def about_node(self, name: str) -> dict[str, Any] | None:
        """Of a storage server: its targets; the space on its disks is not known here."""
        status = self._servers.get(name)
        if status is None:
            return None
        health = status.get("health")
        return {"health": health if isinstance(health, str) and health else None,
                "fileSystems": sorted(_file_systems_of(status)),
                "targets": [{"name": target, **{
                    key: its.get(key) for key in ("state", "clients")
                    if isinstance(its, dict) and isinstance(its.get(key), (int, str))}}
                    for target, its in sorted(_targets_of(status).items())]}

    def not_responding(self, file_system: str) -> tuple[set[str], int] | None:
        """As `iostats nodes --down` has them; None before the first answer."""
        if not self._status:
            return None
        rows = [one for one in _rows(self._status, "down") + _rows(self._status, "unnamed")
                if one.get("file_system") == file_system]
        return ({str(one["node"]) for one in rows if "node" in one
                 and one.get("state") != UNCLEAR},
                sum(one["count"] for one in rows if type(one.get("count")) is int))


def _rows(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = answer.get(name)
    return [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []


def _targets_of(status: dict[str, Any]) -> dict[str, Any]:
    targets = status.get("targets")
    return targets if isinstance(targets, dict) else {}


def _file_systems_of(status: dict[str, Any]) -> set[str]:
    """Of the names of a storage server's targets."""
    return {name.rpartition("-")[0] for name in _targets_of(status) if "-" in name}


def _with_names(one: dict[str, Any]) -> Event:
    """The Event of a row, with the names of nodes instead of NIDs, where the site knows them."""
    event, names = from_json(one), one.get("clients_names")
    if isinstance(names, list) and len(names) == len(event.clients):
        names = dict(zip(event.clients, names))
    if not isinstance(names, dict):
        return event
    return event._replace(clients=tuple(dict.fromkeys(
        one_line(str(names.get(nid) or nid))[:255] for nid in event.clients)))
