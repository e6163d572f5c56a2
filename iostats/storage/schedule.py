"""
When a storage server's agent sweeps, by which clock, and how much of a core it takes.

All agents begin a sweep in the same second, at multiples of the interval by the server's clock.
"""

from __future__ import annotations

import time

from iostats.node.identity import seconds_since_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iostats.storage.targets import LocalTarget

# Unless site.cfg has one.  All divide the first one, so that storage servers with different cleanup
# intervals still have a sweep in common at its multiples.
_PAUSES = (200, 100, 50, 40, 25, 20, 10, 8, 5, 4, 2, 1)
_WITHOUT_CLEANUP_S = 60            # nothing expires: any pause is short enough


def pause_s(wanted: int, found: Iterable[LocalTarget],
            say: Callable[[str], None] = lambda text: None) -> int:
    """
    Seconds between two sweeps over the [LocalTarget] `found`; `wanted`: [harvest] interval.

    An entry lives for one cleanup interval at least after its last change.  With three sweeps in
    it, two may be missed.
    """
    intervals: list[int] = [one.cleanup_s for one in found if one.cleanup_s]
    most = max(1, min(intervals) // 3) if intervals else wanted or _WITHOUT_CLEANUP_S
    if 0 < wanted <= most:
        return wanted
    pause = next(one for one in _PAUSES if one <= most)
    if wanted:
        say(f"[harvest] interval = {wanted}: expected at most {most} s, a third of the smallest "
            f"job_cleanup_interval; sweeping every {pause} s")
    return pause


def next_slot(now: float, every: int, last: int | None) -> int:
    """
    The moment of the next sweep: a multiple of `every` after `now`, seconds of the server's time.

    `last`: that of the last one, which is not taken again though the clock may say so: it was
    just corrected.
    """
    slot = (int(now // every) + 1) * every
    return slot + every if slot == last else slot


class Pace:
    """
    No more than `percent` of one core: `rest` sleeps for what was too much.

    `cpu`, `steady`: seconds of this process' CPU, and of a clock that only goes on.
    """

    def __init__(self, percent: float, cpu: Callable[[], float] = time.process_time,
                 steady: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], object] = time.sleep) -> None:
        self.limit(percent)
        self._cpu, self._steady, self._sleep = cpu, steady, sleep
        self.begin()

    def limit(self, percent: float) -> None:
        """Another share, from now on."""
        self._share = percent / 100

    def begin(self) -> None:
        """Work begins here: what was idle before is no credit."""
        self._cpu_then, self._then = self._cpu(), self._steady()

    def rest(self) -> None:
        owed = ((self._cpu() - self._cpu_then) / self._share
                - (self._steady() - self._then))
        if owed > 0.05:                        # in lumps: a file that is read at once is not torn
            self._sleep(owed)
        elif owed < -1:
            self.begin()


class SweepClock:
    """
    The wall clock, but that it never goes back: readings are told apart and ordered by it.

    Where it was set back, this one goes on a tenth slower until it is overtaken.  Where it was set
    back by more than an hour, it was wrong: the readings before and after do not go together.

    Attributes:
        steady: seconds since the boot, a clock that nobody sets: rates are divided by it.
    """

    _SLOWER, _WRONG_S = 0.9, 3600.0

    def __init__(self, wall: Callable[[], float] = time.time,
                 steady: Callable[[], float] = seconds_since_boot) -> None:
        self._wall, self.steady = wall, steady
        self._last, self._at = 0.0, 0.0

    def now(self) -> float:
        at = self.steady()
        self._last = max(self._wall(), self._last + max(1e-5, (at - self._at) * self._SLOWER)
                         if self._last else 0.0)
        self._at = at
        return self._last

    def begins_anew(self) -> bool:
        """True where it was wrong: now() is right again, and earlier than before."""
        if self._last - self._wall() < self._WRONG_S:
            return False
        self._last = 0.0
        return True


class ServerClock:
    """
    The time of the site's server, as far as it is known, whatever happens to our own clock.

    Attributes:
        is_known: the server has answered.
    """

    def __init__(self, wall: Callable[[], float] = time.time,
                 steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady, self.is_known = wall, steady, False
        self._offset_s = 0.0               # the server's time less that of the steady clock

    def learn(self, ahead_s: float) -> None:
        """Our clock is `ahead_s` ahead of the server's."""
        self.is_known, self._offset_s = True, self._wall() - ahead_s - self._steady()

    def now(self) -> float:
        """The server's time, or else our own."""
        return self._steady() + self._offset_s if self.is_known else self._wall()
