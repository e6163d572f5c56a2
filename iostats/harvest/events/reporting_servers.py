"""
The storage servers whose agents report events: the last state that each reported, and when.

A silent agent is no event: the storage server may work well without it.  Its last message is shown
with its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from iostats.lustre.lnet import LnetStats, subtract
from iostats.lustre.stats import parse_file_system

if TYPE_CHECKING:
    from collections.abc import Collection

    from iostats.events.status import ServerStatus
    from iostats.store.event_store import EventStore
    from iostats.wire.messages.events import EventsHead
else:
    ServerStatus = dict         # for msgspec; its members were checked in the message

_STORE_RECEIVED_S = 60.0        # how exactly the time of the last message is stored
LATE_PAUSES, LATE_S = 3, 15.0   # an agent is late after these pauses, and seconds


class ReportingServer(msgspec.Struct, omit_defaults=True, rename={"every_s": "every"}):
    """A storage server whose agent reports events."""

    received_at: float = 0.0        # when its last message arrived, s since 1970
    every_s: float = 10.0             # s between two scans of it
    status: ServerStatus = {}       # as of gather.ScanResult
    made: float = 0.0               # the time of this status
    dropped: int = 0                # events that it had no room for, since its first message
    stored_at: float = 0.0          # when this was last stored
    # {sent, received, dropped, resent: LNet's messages per s between the last two statuses}
    lnet_per_s: dict[str, float] = {}

    def is_late(self, now: float) -> bool:
        """Whether another message should have arrived since."""
        return now - self.received_at > LATE_PAUSES * self.every_s + LATE_S


_decode_server = msgspec.json.Decoder(ReportingServer).decode


class ReportingServers:
    """
    All storage servers that report events; each change is stored before the answer.

    Attributes:
        of: {storage server: ReportingServer}.
        news: {storage server: ReportingServer} with messages since this was last emptied.
    """

    def __init__(self, store: EventStore) -> None:
        """Read the store; StateError."""
        self._store = store
        self.of: dict[str, ReportingServer] = {}
        self.news: dict[str, ReportingServer] = {}
        self._served: dict[str, frozenset[str]] = {}
        for node, server in store.decode_rows(
                "events_tellers", store.load_reporting_servers(),
                lambda row: _decode_server(row[1])).items():
            self._set_server(node, server)

    def _set_server(self, node: str, server: ReportingServer) -> None:
        before = self.of.get(node)
        self.of[node] = server
        if before is None or before.status != server.status:
            self._served[node] = frozenset(
                parse_file_system(name) for name in server.status.get("targets", ())
                if "-" in name)

    def served(self, node: str) -> Collection[str] | None:
        """
        The file systems whose targets a storage server has reported; None for another machine.
        """
        return self._served.get(node)

    def note_message(self, node: str, head: EventsHead, made: float, now: float) -> None:
        """Note a message that was made at `made`; on the disk with the next commit."""
        before = self.of.get(node) or ReportingServer()
        server = msgspec.structs.replace(before, received_at=now, every_s=head.every_s,
                                         dropped=before.dropped + head.dropped)
        # A message that has waited has an old status.
        if head.status is not None and min(made, now) >= min(before.made, now):
            server.status, server.made = msgspec.to_builtins(head.status), min(made, now)
            server.lnet_per_s = _compute_lnet_rates(before, server)
        if head.dropped or not 0 <= now - before.stored_at < _STORE_RECEIVED_S or (
                _select_states(server.status) != _select_states(before.status)):
            server.stored_at = now
            self._store.store_reporter(node, now, msgspec.json.encode(server))
        self._set_server(node, server)
        self.news[node] = server

    def reload(self) -> None:
        """Drop the messages since the last commit: they are not stored."""
        self.news.clear()
        for server in self.of.values():
            server.stored_at = 0.0

    def delete_before(self, before: float) -> None:
        """Drop the storage servers without a message since `before`; StateError."""
        old = [node for node, server in self.of.items() if server.received_at < before]
        if old:
            self._store.delete_reporters(old)
            for node in old:
                del self.of[node], self._served[node]


def _compute_lnet_rates(before: ReportingServer, server: ReportingServer) -> dict[str, float]:
    """LNet's messages per s between two statuses; {} where that is unknown."""
    seconds = server.made - before.made
    last, now = before.status.get("lnet"), server.status.get("lnet")
    if last is None or now is None or seconds <= 0:
        return {}
    gains = subtract(*(LnetStats(*(lnet[name] for name in LnetStats._fields))
                       for lnet in (last, now)))
    if gains is None:
        return {}
    per_s = {name: getattr(gains, name) / seconds for name in ("sent", "received", "dropped")}
    if "resent" in last and "resent" in now and now["resent"] >= last["resent"]:
        per_s["resent"] = (now["resent"] - last["resent"]) / seconds
    return per_s


def _select_states(status: ServerStatus) -> tuple[object, ...]:
    """The parts of a status that are stored at once: those without numbers that always change."""
    return (status.get("health"), (status.get("log") or {}).get("source"),
            {name: target_status.get("state") for name,
             target_status in (status.get("targets") or {}).items()})
