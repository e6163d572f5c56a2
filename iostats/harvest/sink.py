"""The interface of a sink, to which the site's server sends its counts; see iostats/sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iostats.events.event import Event
    from iostats.events.status import ServerStatus
    from iostats.harvest.intake import Harvest, SiteSweep
    from iostats.store.event_store import Change
    from iostats.totals.record import Record


class Number(NamedTuple):
    """A metric of the sink itself, such as how many points it has dropped."""

    name: str   # as in Prometheus, without its "_total"
    kind: str   # "counter" or "gauge"
    help: str   # what it counts, in one sentence
    value: int  # an integer


class Sink(Protocol):
    """A sink; the methods for records and events may be absent."""

    name: str               # NAME, of the file with its place in the events
    others: list[Sink]      # set by sinks.make_sinks()
    connections: int        # up to how many clients may be connected to it

    def sweep(self, sweep: SiteSweep, harvest: Harvest) -> None:
        """Called on the server's loop after each complete sweep; returns at once."""

    def drop_ids(self, ids: Iterable[str]) -> None:
        """The targets dropped these ids of job_stats, which count from 0 if they return."""

    def numbers(self) -> list[Number]:
        """Return numbers about itself, for the other sinks to show."""

    def close(self) -> None:
        """End; unsent data are stored for the next start."""

    def records(self, records: Sequence[Record]) -> None:
        """Records of jobs that were stored, again where one is made again; returns at once."""

    def store_events(self, events: Sequence[Event], names: Mapping[str, str]) -> int:
        """
        Store events, or send them; return how many: fewer than all when close() was called before.

        Called in a thread of its own, one call at a time, with events in the order in which they
        became known; `names`: {NID: node}.  Until then they wait in the site's store, for a restart
        too.  An event that grows is passed again, with the same id.
        """

    def events(self, changes: Sequence[Change], names: Mapping[str, str]) -> None:
        """Count changes, each once; called on the server's loop, returns at once."""

    def event_status(self, node: str, received_at: float, every_s: float,
                     status: ServerStatus) -> None:
        """The state that a storage server reported, and when; returns at once."""
