"""
The store's own time: seconds that have certainly passed, whatever the clock is set to.

It starts with the clock's time, and advances by the kernel's time since boot, which cannot be set.
Only its differences mean anything: how long something has been kept, and when it is due.  The time
while the store was closed is exact if the machine was not rebooted.  After a boot there is
only the clock, which may be off by years at first: so it is read an hour later, when it has been
corrected, and counts for up to one day.  To keep something for too long does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from iostats.node import identity

_DAY_S = 86400.0
_SETTLED_S = 3600.0             # after a boot: by then the clock is right, or will not be
_JUMP_S = 3600.0                # a smaller one is not reported


class Clocks(NamedTuple):
    """Functions: seconds since 1970, seconds since boot, the name of this boot."""

    wall: Callable[[], float]
    up: Callable[[], float]
    boot_id: Callable[[], str]


HERE = Clocks(time.time, identity.read_seconds_since_boot, identity.read_boot_id)


class StoreClock:
    """The time of a store while it is open."""

    def __init__(self, clocks: Clocks, saved: tuple[float, float, str, float] | None,
                 latest: float | None) -> None:
        """
        `saved`: what `row` returned when the store was closed, None for a store without it;
        `latest`: the latest time in such a store.
        """
        self._clocks, self._boot_id = clocks, str(clocks.boot_id())
        self._wall, self._up = clocks.wall(), clocks.up()
        self._opened = self._up
        self._away_since: float | None = None           # by the clock, over another boot
        self._warning = ""
        if saved is None:
            self._passed = self._wall if latest is None else min(self._wall, latest)
            return
        self._passed, wall, boot_id = float(saved[0]), float(saved[1]), saved[2]
        up = float(saved[3])
        if boot_id and boot_id == self._boot_id:
            elapsed_s = max(0.0, self._up - up)
            self._passed += elapsed_s
            self._report_jump(self._wall - wall - elapsed_s)
        else:
            self._away_since = wall
            if self._wall < wall - _JUMP_S:
                self._report_jump(self._wall - wall)

    def now(self) -> float:
        """The store's time; it never goes back."""
        return float(self._passed + max(0.0, self._clocks.up() - self._up))

    def advance(self) -> str:
        """Count the time up to now, which `row` has then; a warning about the clock, or ""."""
        wall, up = self._clocks.wall(), max(self._clocks.up(), self._up)
        elapsed_s = up - self._up
        self._report_jump(wall - self._wall - elapsed_s)
        self._passed, self._wall, self._up = self._passed + elapsed_s, wall, up
        if self._away_since is not None and up - self._opened >= _SETTLED_S:
            away_s = wall - (up - self._opened) - self._away_since
            self._passed += min(max(0.0, away_s), _DAY_S)
            self._away_since = None
            if away_s > _DAY_S:
                self._warning = (
                    f"by the clock the store was closed for {away_s / _DAY_S:.1f} days, with a "
                    f"boot in between; that cannot be checked, so one day counts: what is removed "
                    f"by its age is removed later")
        warning, self._warning = self._warning, ""
        return warning

    def _report_jump(self, jump_s: float) -> None:
        """Warn that the clock was set by this much, unless it is little."""
        if abs(jump_s) >= _JUMP_S:
            self._warning = (
                f"the clock was set {'ahead' if jump_s > 0 else 'back'} by "
                f"{abs(jump_s) / 3600:.1f} hours; what is due, or removed by its age, goes by the "
                f"time that has passed, and is not affected")

    def row(self) -> tuple[float, float, str, float]:
        """Return the row to store: (time, clock, boot id, seconds since boot)."""
        return self._passed, self._wall, self._boot_id, self._up
