"""
The I/O of each client in each hour, as rows for queries by SQL (store/views.py, site_node_hours).

A row is what `iostats nodes` answers of that hour, two hours after its end: what comes later, of an
agent that was away for longer, is not in it, and the row has the mark of a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING

from iostats.base.cooperative import ITEMS_PER_STEP
from iostats.base.ids import Nid, NodeName
from iostats.harvest.clients.history import ClientSums, ClientTotals

if TYPE_CHECKING:
    from iostats.harvest.clients.nids import KnownNids
    from iostats.store.client_store import ClientStore

HOUR_S = 3600.0
_MADE_AFTER_S = 2 * HOUR_S


class NodeHours:
    """
    Makes the rows; `add_up`: as of ClientHarvest, with the slack of the edges of an hour;
    `find_node`: NID -> name.
    """

    def __init__(self, store: ClientStore, add_up: Callable[..., Generator[None, None, None]],
                 find_node: Callable[[Nid], NodeName]) -> None:
        self._store, self._add_up, self._find_node = store, add_up, find_node
        self._next: dict[str, float] = {}               # file system: the hour that is made next

    def steps(self, nids: Mapping[str, KnownNids], every_s: float, now: float
              ) -> Generator[bool, None, None]:
        """Make the rows of the hours that are over, in steps; StateError."""
        slack_s = 0.0 if HOUR_S % every_s else every_s / 2
        for name, known in nids.items():
            if name not in self._next:
                first = self._store.query_next_node_hour(name)
                if first is None:
                    continue
                self._next[name] = math.ceil(first / HOUR_S) * HOUR_S
            while (began := self._next[name]) + HOUR_S + _MADE_AFTER_S <= now:
                sums = ClientSums(began, began + HOUR_S, len(known), (slack_s, slack_s))
                for _ in self._add_up(name, [sums], (slack_s, slack_s)):
                    yield True
                numbers = [number
                           for number in sums.list_clients_with_data() if number < len(sums.low)]
                for at in range(0, len(numbers), ITEMS_PER_STEP):
                    self._store.store_node_hours(
                        row for number in numbers[at:at + ITEMS_PER_STEP]
                        for row in self._make_rows(
                            name, began, known.names[number] or Nid(f"#{number}"),
                            sums.totals(number)))
                    yield True
                self._next[name] = began + HOUR_S

    def _make_rows(self, name: str, began: float, nid: Nid,
                   totals: ClientTotals) -> Iterable[tuple[object, ...]]:
        """The row of a client, none without I/O."""
        low, high = totals.low, totals.high             # of CLIENT_METRICS
        if any(high):
            yield (name, began, nid, self._find_node(nid), low[0], high[0], low[1], high[1],
                   sum(low[4:]), sum(high[4:]), int(totals.is_lower_bound))
