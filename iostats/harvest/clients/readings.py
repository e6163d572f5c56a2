"""
One reading of a storage server's exports: the gains of its clients, by the site's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from iostats.base.ids import Target
    from iostats.store.client_store import MarkedLoss
    from iostats.wire.messages.arrays import Integers

AMOUNTS = 5                     # of exports.ClientAmounts


class GainEntry(NamedTuple):
    """The gains of some clients."""

    # since, until: when, by the site's clock
    since: float
    until: float
    numbers: Integers   # of the clients
    gains: Integers     # [client, of exports.ClientAmounts]


class ClientReading(NamedTuple):
    """A complete reading of the exports of a storage server, with the gains of its clients."""

    # slot, every_s: its sweep, and seconds from one sweep to the next
    slot: float
    every_s: float
    # the gains are from after this moment, usually the beginning of the previous reading; None for
    # the first reading
    since: float | None
    # at, until: its beginning and end
    at: float
    until: float
    span_s: float               # the time of the gains in seconds; 0 if unknown
    entries: list[GainEntry]
    losses: list[MarkedLoss]
    targets: list[Target]       # those that were read completely
    unreadable: dict[Target, str]   # {target: why}
    bad: int                    # clients whose files have an unexpected format
    # by a clock that cannot be set; else by the site's, which may have been set
    is_measured: bool = True
