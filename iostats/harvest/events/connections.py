"""
Clients that are not connected now, as far as events show: for each client and each target, the last
time the connection was lost, and the last time it was up.

    gone      a storage server has evicted the client; or a client reports that it lost the
              connection; and the event was not over afterwards
    back      the event was over; or the client reports that the connection is restored; or the
              storage server reports that it reconnects

A client logs its eviction when a storage server answers its attempt to connect again: mostly it is
connected then, and for a client that had been idle the log has no further line.  (In 2.17 also if
the answer is a refusal.)  So this event is both, at that moment.

Each of these lies between two moments: an event about several clients does not show the time of
each.  Two moments from one machine are in their true order; those from two machines only if they
are further apart than clocks differ.  So a connection is

    lost      "gone", as the client itself reports, and every known return was before
    evicted   the same, as a storage server reports
    unclear   "gone", and it is unknown which of both was later; or the node did I/O on this file
              system since
    there     back, and every known loss was before: it has no row

A storage server's log has no line about a client that was evicted and connects as a new one, and
the client reports it only at the end of a job, or while `watch` or `iostats run` are active: so
`evicted` means that no return was reported, not that the client is down.

An eviction has the time of the storage server's line in the kernel log, as in the report of a job
(totals/job_events.py); of several in one event, the first.  The client's own line has the time at
which it noticed, and is used if no storage server's line exists.

Source: ptlrpc_connect_interpret(), ptlrpc_import_recovery_state_machine(), ptlrpc/import.c, 2.5.3
and 2.17.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from iostats.base.ids import Nid
from iostats.events.event import Event
from iostats.lustre.exports import is_server_itself
from iostats.lustre.kernel_log import (
    CLIENT_RECONNECTING,
    CONNECTION_LOST,
    CONNECTION_RESTORED,
    EVICTED,
)
from iostats.totals.job_events import HEARS_WITHIN_S

_Span = tuple[float, float]
_Loss = tuple[float, str, str, str]

KINDS = (EVICTED, CONNECTION_LOST, CONNECTION_RESTORED, CLIENT_RECONNECTING)
LOST, GONE_EVICTED, UNCLEAR = "lost", "evicted", "unclear"
CLOCKS_DIFFER_S = 2.0           # of two machines, after each was corrected by the site's
MAX_CONNECTIONS = 250_000       # in one query; some 400 bytes each
_MAX_NIDS, _MAX_UNNAMED = 20, 100_000


class LostConnection(NamedTuple):
    """A connection that is down, or may be."""

    node: str           # the client's name, or its NID without one
    nids: list[str]     # its NIDs in storage servers' events; [] if only the client reported it
    file_system: str
    target: str
    since: float        # when it was lost for the last time, s since 1970; see above for evictions
    state: str          # LOST, GONE_EVICTED or UNCLEAR
    # kind, cause, told_by: of the event, and the machine that reported it
    kind: str
    cause: str
    told_by: str


class Unnamed(NamedTuple):
    """Evictions of `count` clients that are not named: too many at once."""

    file_system: str
    target: str
    time: float
    count: int  # type: ignore[assignment]    # nobody needs tuple.count()
    told_by: str


class _Connection:
    """
    The connection of one client to one target.

    Attributes:
        gone, back: its last loss and its last return, as (not before, not after): (as storage
        servers report, as the client reports); None for no report.
        last: (time, kind, cause, reporting machine) of the latest loss: [as storage servers report,
        as the client reports]; None for no report.
        nids: its NIDs in storage servers' events.
    """

    __slots__ = ("back", "file_system", "gone", "last", "nids")

    def __init__(self, file_system: str) -> None:
        self.gone: tuple[_Span | None, _Span | None] = _NEVER
        self.back: tuple[_Span | None, _Span | None] = _NEVER
        self.last: list[_Loss | None] = [None, None]
        self.nids: tuple[str, ...] = ()
        self.file_system = file_system

    def state(self) -> str:
        """LOST, GONE_EVICTED, UNCLEAR, or "" if it is up."""
        if self.gone == _NEVER:
            return ""
        if any(back is not None and all(
                lost is None or back[0] > lost[1] + _compute_clock_slack(source, other_source)
                for other_source, lost in enumerate(self.gone)) for source,
               back in enumerate(self.back)):
            return ""
        for source in (_ITSELF, _SERVERS):
            lost = self.gone[source]
            if lost is not None and all(back is None
                                        or back[1] < lost[0] - _compute_clock_slack(source,
                                                                                    other_source)
                                        for other_source, back in enumerate(self.back)):
                return LOST if source == _ITSELF else GONE_EVICTED
        return UNCLEAR

    def find_latest_loss(self) -> _Loss | None:
        """The latest loss; an eviction at the storage server's time, not at the client's."""
        by_server, by_itself = self.last
        if by_server and by_itself and by_server[1] == by_itself[1] == EVICTED and (
                by_itself[0] - by_server[0] <= HEARS_WITHIN_S):
            return by_server
        return max(by_server or by_itself, by_itself or by_server,
                   key=lambda loss: loss[0] if loss else 0.0)


_NEVER = (None, None)
_SERVERS, _ITSELF = 0, 1        # the source of a report


def _add_span(spans: tuple[_Span | None, _Span | None], by_itself: bool, since: float, until: float,
          ) -> tuple[_Span | None, _Span | None]:
    """Return `spans`, extended by a moment between these two."""
    span = spans[by_itself]
    new = (since, until) if span is None else (max(span[0], since), max(span[1], until))
    return (spans[_SERVERS], new) if by_itself else (new, spans[_ITSELF])


def _compute_clock_slack(source: int, other_source: int) -> float:
    return 0.0 if source == other_source else CLOCKS_DIFFER_S


class Connections:
    """
    All connections in events, which may arrive in any order.

    `find_node(nid)`: the node's name, or the NID itself.

    Attributes:
        unnamed: [Unnamed].
        left_out: connections beyond MAX_CONNECTIONS, at least; unnamed_left_out: of `unnamed`.
    """

    def __init__(self, find_node: Callable[[str], str]) -> None:
        self._node_of = find_node
        self._connections: dict[tuple[str, str], _Connection] = {}
        self.unnamed: list[Unnamed] = []
        self.left_out = self.unnamed_left_out = 0

    def add(self, event: Event) -> None:
        """Add one event; kinds other than KINDS are ignored."""
        if not event.target or event.kind not in KINDS:
            return
        is_own = event.kind in (CONNECTION_LOST, CONNECTION_RESTORED) or (
            event.kind == EVICTED and not event.clients and not event.cause)
        clients = (event.node,) if is_own else event.clients
        # For several clients, or several times, only the first and the last time are known.
        since = event.last if is_own or (len(clients) == 1 and event.count == 1) else event.time
        if event.kind == EVICTED and not is_own and event.count > len(clients):
            if len(self.unnamed) < _MAX_UNNAMED:
                self.unnamed.append(Unnamed(event.file_system, event.target, event.last,
                                            event.count - len(clients), event.node))
            else:
                self.unnamed_left_out += 1
        for client in clients:
            if not is_server_itself(Nid(client)):
                self._add(event, client, is_own, since)

    def _add(self, event: Event, client: str, is_own: bool, since: float) -> None:
        key = self._node_of(client), event.target
        connection = self._connections.get(key)
        if connection is None:
            if len(self._connections) >= MAX_CONNECTIONS:
                self.left_out += 1
                return
            connection = self._connections[key] = _Connection(event.file_system)
        if not is_own and client not in connection.nids and len(connection.nids) < _MAX_NIDS:
            connection.nids = (*connection.nids, client)
        if event.kind in (CONNECTION_RESTORED, CLIENT_RECONNECTING):
            connection.back = _add_span(connection.back, is_own, since, event.last)
            return
        if event.over is not None:
            connection.back = _add_span(connection.back, is_own, event.over, event.over)
            if event.over >= event.last:
                return
        if event.kind == EVICTED and is_own:
            connection.back = _add_span(connection.back, is_own, since, event.last)
        connection.gone = _add_span(connection.gone, is_own, since, event.last)
        is_once = event.kind == EVICTED and event.count <= len(event.clients)
        loss = (event.time if is_once else event.last, event.kind, event.cause, event.node)
        last = connection.last[is_own]
        if last is None or loss > last:
            connection.last[is_own] = loss

    def list_down(self) -> Iterator[LostConnection | None]:
        """Connections that are down, or may be; None now and then, between two steps."""
        for number, ((node, target), connection) in enumerate(list(self._connections.items())):
            if number % 1000 == 0:
                yield None
            state, loss = connection.state(), connection.find_latest_loss()
            if state and loss is not None:
                last, kind, cause, told_by = loss
                yield LostConnection(node, list(connection.nids), connection.file_system, target,
                                     last, state,
                                     kind,
                                     cause, told_by)
