"""
The table of capacities: up to one row an hour for each target, for a week.

    capacities      target, hour (number of hours since 1970), time, and the members of Capacity
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.lustre.capacity import Capacity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.store.record_store import Store

_MEMBERS = ", ".join(Capacity._fields)


class CapacityStore:
    """The table of capacities in a store.Store; every method may raise StateError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, rows: Sequence[tuple[str, int, float, Capacity]], store_hours: int) -> None:
        """
        Store (target, hour, time, Capacity), if that hour of the target has none, and remove its
        rows that are `store_hours` older; on the disk with the next `commit`.
        """
        self._store.do_all(
            f"INSERT INTO capacities (target, hour, time, {_MEMBERS}) "
            f"VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [(target, hour, time, *capacity) for target, hour, time, capacity in rows])
        self._store.do_all("DELETE FROM capacities WHERE target = ? AND hour < ?",
                           [(target, hour - store_hours) for target, hour, _, _ in rows])

    def read_target(self, target: str, since: float) -> list[tuple[float, Capacity]]:
        """Return [(time, Capacity)] of a target since a moment, by time."""
        rows = self._store.rows(f"SELECT time, {_MEMBERS} FROM capacities WHERE target = ? AND "
                                f"time >= ? ORDER BY time", (target, since),
                                tuple[float, int, int, int, int, int])
        # A damaged row, of values of another type, is passed over, and removed when it is old.
        return [(time, Capacity(*members)) for time, *members in rows
                if isinstance(time, float) and all(isinstance(member, int) for member in members)]
