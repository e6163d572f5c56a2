"""
One reading of the exports of a storage server: what its clients gained, by the site's clock.
"""

from __future__ import annotations

from collections import namedtuple

AMOUNTS = 5                                         # of exports.ClientAmounts

GainEntry = namedtuple("GainEntry", "since until numbers gains")
GainEntry.__doc__ = """
What some clients gained.

Attributes:
    since, until: when, by the site's clock.
    numbers: of the clients, int32; `gains`: int64 [client, of exports.ClientAmounts].
"""

MarkedLoss = namedtuple("MarkedLoss", "since until target nid why")
MarkedLoss.__doc__ = """
As ClientLoss of wire/messages/clients.py, by the site's clock.
"""

ClientReading = namedtuple("ClientReading",
                           "slot every since at until span_s entries losses targets unreadable bad "
                           "is_measured", defaults=(True,))
ClientReading.__doc__ = """
One whole reading.

Attributes:
    slot, every: the sweep that it is of, and seconds from one sweep to the next.
    since: what was gained was gained after this moment: as a rule when the reading before began;
        None for the first reading.
    at, until: from when to when this one went on.
    span_s: what was gained was gained in so long; 0 where that is not known.  is_measured: by a
        clock that nobody sets; else by the site's, which may have been set.
    entries: [GainEntry]; `losses`: [MarkedLoss].
    targets: those that were read whole; unreadable: {target: why}.
    bad: clients whose files could not be understood.
"""
