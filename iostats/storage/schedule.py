"""
The schedule of an agent's sweeps, the clock it follows, and the share of a core it may take.

All agents begin a sweep in the same second, at multiples of the interval by the server's clock.
"""

from __future__ import annotations

import time

from iostats.node.identity import read_seconds_since_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iostats.storage.targets import LocalTarget

# Unless site.cfg has one.  All divide the first one, so that storage servers with different cleanup
# intervals still have a sweep in common at its multiples.
_PAUSES = (200, 100, 50, 40, 25, 20, 10, 8, 5, 4, 2, 1)
_WITHOUT_CLEANUP_S = 60            # nothing expires: any pause is short enough


def find_pause_s(interval_s: int, targets: Iterable[LocalTarget],
                 emit: Callable[[str], None] = lambda text: None) -> int:
    """
    Seconds between two sweeps over the [LocalTarget] `targets`; `interval_s`: [harvest] interval.

    An entry lives for one cleanup interval at least after its last change.  With three sweeps in
    it, two may be missed.
    """
    intervals: list[int] = [target.cleanup_s for target in targets if target.cleanup_s]
    longest = max(1, min(intervals) // 3) if intervals else interval_s or _WITHOUT_CLEANUP_S
    if 0 < interval_s <= longest:
        return interval_s
    pause_s = next(pause_s for pause_s in _PAUSES if pause_s <= longest)
    if interval_s:
        emit(f"[harvest] interval = {interval_s}: expected at most {longest} s, a third of the "
             f"smallest job_cleanup_interval; sweeping every {pause_s} s")
    return pause_s


def find_next_slot(now: float, every_s: int, last: int | None) -> int:
    """
    The moment of the next sweep: a multiple of `every_s` after `now`, seconds of the server's time.

    `last`: that of the last one, which is not taken again though the clock may say so: it was
    just corrected.
    """
    slot = (int(now // every_s) + 1) * every_s
    return slot + every_s if slot == last else slot


class Pace:
    """
    A limit of CPU time, `percent` of one core: `rest` sleeps when more was used.

    `cpu`, `steady`: seconds of this process' CPU, and of a clock that only goes on.
    """

    def __init__(self, percent: float, cpu: Callable[[], float] = time.process_time,
                 steady: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], object] = time.sleep) -> None:
        self.limit(percent)
        self._cpu, self._steady, self._sleep = cpu, steady, sleep
        self.begin()

    def limit(self, percent: float) -> None:
        """Change the share from now on."""
        self._share = percent / 100

    def begin(self) -> None:
        """Begin work: idle time before it does not count."""
        self._cpu_then, self._then = self._cpu(), self._steady()

    def pause(self) -> None:
        owed = ((self._cpu() - self._cpu_then) / self._share
                - (self._steady() - self._then))
        if owed > 0.05:                        # in lumps: a file that is read at once is not torn
            self._sleep(owed)
        elif owed < -1:
            self.begin()


class SweepClock:
    """
    A wall clock that never decreases: readings are distinguished and ordered by it.

    Where it was set back, this one goes on a tenth slower until it is overtaken.  Where it was set
    back by more than an hour, it was wrong: the readings before and after do not go together.

    Attributes:
        steady: seconds since the boot, a clock that cannot be set, for rates.
    """

    _SLOWER, _WRONG_S = 0.9, 3600.0

    def __init__(self, wall: Callable[[], float] = time.time,
                 steady: Callable[[], float] = read_seconds_since_boot) -> None:
        self._wall, self.steady = wall, steady
        self._last, self._at = 0.0, 0.0

    def now(self) -> float:
        at = self.steady()
        self._last = max(self._wall(), self._last + max(1e-5, (at - self._at) * self._SLOWER)
                         if self._last else 0.0)
        self._at = at
        return self._last

    def reset_if_wrong(self) -> bool:
        """Return True if the clock was wrong, and is now set back to the right time."""
        if self._last - self._wall() < self._WRONG_S:
            return False
        self._last = 0.0
        return True


class ServerClock:
    """The time of the site's server, independent of changes to our own clock.

    Attributes:
        is_known: the server has answered.
    """

    def __init__(self, wall: Callable[[], float] = time.time,
                 steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady, self.is_known = wall, steady, False
        self._offset_s = 0.0               # the server's time less that of the steady clock

    def learn(self, ahead_s: float) -> None:
        """Note that our clock is `ahead_s` ahead of the server's."""
        self.is_known, self._offset_s = True, self._wall() - ahead_s - self._steady()

    def now(self) -> float:
        """The server's time, or else our own."""
        return self._steady() + self._offset_s if self.is_known else self._wall()
