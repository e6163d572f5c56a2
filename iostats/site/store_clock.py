"""
The store's own time: seconds that have passed for certain, whatever the clock is set to.

It begins as the clock has it, and then goes on by the kernel's time since boot, which nobody sets.
Nothing but its differences means anything: how long something has been kept, and when it is due.
While the store was closed: over the same boot that is known exactly; over another one there is the
clock alone, which may be off by years just after a boot.  So it is asked when it has had an hour to
be put right, and then a day counts at the most.  What is kept too long harms nobody.
"""

from __future__ import annotations

import time
from collections import namedtuple

from iostats.node import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DAY_S = 86400.0
_SETTLED_S = 3600.0             # by then the clock is right, or will not be
_JUMP_S = 3600.0                # that is worth a word

Clocks = namedtuple("Clocks", "wall up boot_id")
Clocks.__doc__ = """Functions: seconds since 1970, seconds since boot, the name of this boot."""


def _up() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


HERE = Clocks(time.time, _up, identity.boot_id)


class StoreClock:
    """The time of one open store."""

    def __init__(self, clocks: Clocks, kept: tuple[Any, ...] | None, latest: float | None) -> None:
        """
        `kept`: `row` of the last time, None for a store that has none; `latest`: the latest time in
        such a store.
        """
        self._clocks, self._boot_id = clocks, str(clocks.boot_id())
        self._wall, self._up = clocks.wall(), clocks.up()
        self._opened = self._up
        self._away_since: float | None = None           # by the clock, over another boot
        self._news = ""
        if kept is None:
            self._passed = self._wall if latest is None else min(self._wall, latest)
            return
        self._passed, wall, boot_id, up = float(kept[0]), float(kept[1]), kept[2], float(kept[3])
        if boot_id and boot_id == self._boot_id:
            gone = max(0.0, self._up - up)
            self._passed += gone
            self._tell(self._wall - wall - gone)
        else:
            self._away_since = wall
            if self._wall < wall - _JUMP_S:
                self._tell(self._wall - wall)

    def now(self) -> float:
        """The store's time; it never goes back."""
        return float(self._passed + max(0.0, self._clocks.up() - self._up))

    def look(self) -> str:
        """To be called now and then, and kept: what is to be said of the clock, or ""."""
        wall, up = self._clocks.wall(), max(self._clocks.up(), self._up)
        gone = up - self._up
        self._tell(wall - self._wall - gone)
        self._passed, self._wall, self._up = self._passed + gone, wall, up
        if self._away_since is not None and up - self._opened >= _SETTLED_S:
            away_s = wall - (up - self._opened) - self._away_since
            self._passed += min(max(0.0, away_s), _DAY_S)
            self._away_since = None
            if away_s > _DAY_S:
                self._news = (f"by the clock the store was closed for {away_s / _DAY_S:.1f} days, "
                              f"over a boot; nothing proves that, so one day counts: what is "
                              f"removed by its age goes that much later")
        news, self._news = self._news, ""
        return news

    def _tell(self, jump_s: float) -> None:
        if abs(jump_s) >= _JUMP_S:
            self._news = (f"the clock was set {'ahead' if jump_s > 0 else 'back'} by "
                          f"{abs(jump_s) / 3600:.1f} hours; what is due, or removed by its age, "
                          f"goes by the time that has passed, and is not touched by this")

    def row(self) -> tuple[float, float, str, float]:
        """What is kept of it: (time, clock, boot, seconds since boot)."""
        return self._passed, self._wall, self._boot_id, self._up
