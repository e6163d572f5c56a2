"""
Who is not connected now, as far as events tell: of each client and each target, when the connection
was lost for the last time, and when it was there again.

    gone      a storage server has evicted the client; or a client says that it lost the connection;
              and not that this was over afterwards
    back      the event that says so was over; or the client says that the connection is restored;
              or the storage server says that it reconnects

A client says that it was evicted when a storage server answers its attempt to connect anew: mostly
it is connected then, and of one that had been idle the log says no more.  (In 2.17 also where the
answer is a refusal.)  So that is both, at that moment.

Each of these is known as lying between two moments: of an event that is about several clients it is
not known which of them was when.  Two moments that one machine tells are in their true order; those
of two machines only where they are further apart than clocks differ.  So a connection is

    lost      gone, as the client itself says, and all that is known to be back was before
    evicted   the same, as a storage server says
    unclear   gone, and it cannot be told which was the later one; or the node did something at this
              file system since
    there     back, and all that is known to be gone was before: it has no row

A storage server's log has nothing of a client that was evicted and connects as a new one, and a
client says it only at the end of a job, or while `watch` or `iostats run` are at work: so
`evicted` says that nothing was heard of its return, and not that it is away.

Source: ptlrpc_connect_interpret(), ptlrpc_import_recovery_state_machine(), ptlrpc/import.c, 2.5.3
and 2.17.0.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.lustre.exports import is_server_itself
from iostats.lustre.kernel_log import (
    CLIENT_RECONNECTING,
    CONNECTION_LOST,
    CONNECTION_RESTORED,
    EVICTED,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iostats.events.event import Event

    _Span = tuple[float, float]

KINDS = (EVICTED, CONNECTION_LOST, CONNECTION_RESTORED, CLIENT_RECONNECTING)
LOST, GONE_EVICTED, UNCLEAR = "lost", "evicted", "unclear"
CLOCKS_DIFFER_S = 2.0           # of two machines, after each was corrected by the site's
MOST_CONNECTIONS = 250_000      # that are looked at; some 400 bytes each
_MOST_NIDS, _MOST_UNNAMED = 20, 100_000

Gone = namedtuple("Gone", "node nids file_system target since state kind cause told_by")
Gone.__doc__ = """
A connection that is not there, or may not be.

Attributes:
    node: the client's name, or its NID where it has none.
    nids: NIDs by which it was told of; [] where only it tells.
    since: when it was lost at the latest, s since 1970.
    state: LOST, GONE_EVICTED or UNCLEAR.
    kind, cause, told_by: of the event that says so, and the machine that told it.
"""

Unnamed = namedtuple("Unnamed", "file_system target time count told_by")
Unnamed.__doc__ = """Evictions of `count` clients that are not named: too many at once."""


class _Connection:
    """
    What is known of one client at one target.

    Attributes:
        gone, back: when it was so for the last time, (not before, not after): as storage servers
            tell, as the client itself tells; None where they do not.
        last: (when, kind, cause, who tells) of the latest loss; None.
        nids: by which it was told of.
    """

    __slots__ = ("back", "file_system", "gone", "last", "nids")

    def __init__(self, file_system: str) -> None:
        self.gone: tuple[_Span | None, _Span | None] = _NEVER
        self.back: tuple[_Span | None, _Span | None] = _NEVER
        self.last: tuple[float, str, str, str] | None = None
        self.nids: tuple[str, ...] = ()
        self.file_system = file_system

    def state(self) -> str:
        """LOST, GONE_EVICTED, UNCLEAR, or "" for one that is there."""
        if self.gone == _NEVER:
            return ""
        if any(back is not None and all(
                gone is None or back[0] > gone[1] + _slack(mine, other)
                for other, gone in enumerate(self.gone)) for mine, back in enumerate(self.back)):
            return ""
        for mine in (_ITSELF, _SERVERS):
            gone = self.gone[mine]
            if gone is not None and all(back is None or back[1] < gone[0] - _slack(mine, other)
                                        for other, back in enumerate(self.back)):
                return LOST if mine == _ITSELF else GONE_EVICTED
        return UNCLEAR


_NEVER = (None, None)
_SERVERS, _ITSELF = 0, 1            # who tells


def _with(spans: tuple[_Span | None, _Span | None], by_itself: bool, since: float, until: float,
          ) -> tuple[_Span | None, _Span | None]:
    """`spans`, and once more at some moment between these."""
    known = spans[by_itself]
    new = (since, until) if known is None else (max(known[0], since), max(known[1], until))
    return (spans[_SERVERS], new) if by_itself else (new, spans[_ITSELF])


def _slack(one: int, other: int) -> float:
    return 0.0 if one == other else CLOCKS_DIFFER_S


class Connections:
    """
    All connections that events tell of, in whatever order they come.

    `node_of(nid)`: the node's name, or the NID itself.

    Attributes:
        unnamed: [Unnamed].
        left_out: connections beyond MOST_CONNECTIONS, at least; unnamed_left_out: of `unnamed`.
    """

    def __init__(self, node_of: Callable[[str], str]) -> None:
        self._node_of = node_of
        self._of: dict[tuple[str, str], _Connection] = {}
        self.unnamed: list[Unnamed] = []
        self.left_out = self.unnamed_left_out = 0

    def add(self, event: Event) -> None:
        """Take one event; of other kinds than KINDS nothing."""
        if not event.target or event.kind not in KINDS:
            return
        is_own = event.kind in (CONNECTION_LOST, CONNECTION_RESTORED) or (
            event.kind == EVICTED and not event.clients and not event.cause)
        clients = (event.node,) if is_own else event.clients
        # Of several clients, or several times, it is known when the first and the last one was.
        since = event.last if is_own or (len(clients) == 1 and event.count == 1) else event.time
        if event.kind == EVICTED and not is_own and event.count > len(clients):
            if len(self.unnamed) < _MOST_UNNAMED:
                self.unnamed.append(Unnamed(event.file_system, event.target, event.last,
                                            event.count - len(clients), event.node))
            else:
                self.unnamed_left_out += 1
        for client in clients:
            if not is_server_itself(client):
                self._add(event, client, is_own, since)

    def _add(self, event: Event, client: str, is_own: bool, since: float) -> None:
        key = self._node_of(client), event.target
        found = self._of.get(key)
        if found is None:
            if len(self._of) >= MOST_CONNECTIONS:
                self.left_out += 1
                return
            found = self._of[key] = _Connection(event.file_system)
        if not is_own and client not in found.nids and len(found.nids) < _MOST_NIDS:
            found.nids = (*found.nids, client)
        if event.kind in (CONNECTION_RESTORED, CLIENT_RECONNECTING):
            found.back = _with(found.back, is_own, since, event.last)
            return
        if event.over is not None:
            found.back = _with(found.back, is_own, event.over, event.over)
            if event.over >= event.last:
                return
        if event.kind == EVICTED and is_own:
            found.back = _with(found.back, is_own, since, event.last)
        found.gone = _with(found.gone, is_own, since, event.last)
        told = (event.last, event.kind, event.cause, event.node)
        if found.last is None or told > found.last:
            found.last = told

    def gone(self) -> Iterator[Gone | None]:
        """Those that are not there, or may not be; None now and then, between two steps."""
        for number, ((node, target), found) in enumerate(list(self._of.items())):
            if number % 1000 == 0:
                yield None
            state = found.state()
            if state and found.last is not None:
                last, kind, cause, told_by = found.last
                yield Gone(node, list(found.nids), found.file_system, target, last, state, kind,
                           cause, told_by)
