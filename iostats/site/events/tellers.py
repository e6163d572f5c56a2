"""
The storage servers whose agents tell of events: how each said it stands, and when it was heard.

That an agent is silent is no event: the storage server may work well without it.  It is said as it
is: not heard since.
"""

from __future__ import annotations

from typing import Any

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iostats.site.events.event_store import EventStore
    from iostats.wire.messages.events import EventsHead

_KEEP_HEARD_S = 60.0            # how exactly it is on the disk when an agent was heard
LATE_PAUSES, LATE_S = 3, 15.0   # pauses, and s more, after which an agent is not heard


class Teller(msgspec.Struct, omit_defaults=True):
    """
    A storage server whose agent tells of events.

    Attributes:
        heard: when its agent was last heard, s since 1970.
        every: s between two looks of it.
        status: as of gather.Look; made: when that was so.
        dropped: events that it had no room for, since it was first heard.
        kept: when this was last written.
    """

    heard: float = 0.0
    every: float = 10.0
    status: dict[str, Any] = {}
    made: float = 0.0
    dropped: int = 0
    kept: float = 0.0

    def is_late(self, now: float) -> bool:
        """Whether the agent should have been heard since."""
        return now - self.heard > LATE_PAUSES * self.every + LATE_S


_teller_of = msgspec.json.Decoder(Teller).decode


class Tellers:
    """
    All of them; the store has what it says of each before it is answered.

    Attributes:
        of: {storage server: Teller}.
        news: {storage server: Teller} of those that were heard since it was emptied.
    """

    def __init__(self, store: EventStore) -> None:
        """StateError."""
        self._store = store
        self.of: dict[str, Teller] = {}
        self.news: dict[str, Teller] = {}
        self._served: dict[str, frozenset[str]] = {}
        for node, teller in store.understood(
                "events_tellers", store.tellers(), lambda row: _teller_of(row[1])).items():
            self._know(node, teller)

    def _know(self, node: str, teller: Teller) -> None:
        before = self.of.get(node)
        self.of[node] = teller
        if before is None or before.status != teller.status:
            self._served[node] = frozenset(
                name.rpartition("-")[0] for name in teller.status.get("targets", ())
                if "-" in name)

    def served(self, node: str) -> Collection[str] | None:
        """The file systems whose targets a storage server has told of; None for another machine."""
        return self._served.get(node)

    def hear(self, node: str, head: EventsHead, made: float, now: float) -> None:
        """It has sent a message that was made then; on the disk with the next commit."""
        before = self.of.get(node) or Teller()
        teller = msgspec.structs.replace(before, heard=now, every=head.every,
                                         dropped=before.dropped + head.dropped)
        # One that has waited says how it was.
        if head.status is not None and min(made, now) >= min(before.made, now):
            teller.status, teller.made = msgspec.to_builtins(head.status), min(made, now)
        if head.dropped or not 0 <= now - before.kept < _KEEP_HEARD_S or (
                _states(teller.status) != _states(before.status)):
            teller.kept = now
            self._store.keep_teller(node, now, msgspec.json.encode(teller))
        self._know(node, teller)
        self.news[node] = teller

    def reload(self) -> None:
        """What was heard since the last commit is not kept."""
        self.news.clear()
        for teller in self.of.values():
            teller.kept = 0.0

    def forget(self, before: float) -> None:
        """Those that were not heard since are known no more; StateError."""
        old = [node for node, teller in self.of.items() if teller.heard < before]
        if old:
            self._store.forget_tellers(old)
            for node in old:
                del self.of[node], self._served[node]


def _states(status: dict[str, Any]) -> tuple[Any, ...]:
    """What of a status is written at once: without numbers that always change."""
    return (status.get("health"), (status.get("log") or {}).get("source"),
            {name: one.get("state") for name, one in (status.get("targets") or {}).items()})
