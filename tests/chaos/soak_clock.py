"""
A clock that several processes share and one of them sets: simulated time.

    clock = SoakClock(path, begins=1_795_225_200)       in the process that sets it
    soak_clock.install(path)                            in the others, before they import iostats

Between two settings it goes on with the machine's time, for less than a step, so that nothing waits
for ever.  Loops of asyncio wait by it.
"""
from __future__ import annotations

import mmap
import os
import selectors
import struct
import sys
import time

# Simulated s, the machine's s at that moment, s that the wall clock is ahead.
_FIELDS = struct.Struct("ddd")
_MOST_BETWEEN_S = 40.0              # a step is 50 s
_real = time.monotonic


class Reader:
    """The clock as it is read."""

    def __init__(self, path):
        handle = os.open(path, os.O_RDONLY)
        self._memory = mmap.mmap(handle, _FIELDS.size, prot=mmap.PROT_READ)
        os.close(handle)

    def steady(self):
        simulated, at, _ = _FIELDS.unpack(self._memory[:])
        return simulated + min(_MOST_BETWEEN_S, max(0.0, _real() - at))

    def wall(self):
        return self.steady() + _FIELDS.unpack(self._memory[:])[2]


class SoakClock:
    """The clock as it is set; `ahead`: of the wall clock, seconds."""

    def __init__(self, path, begins):
        self.path, self.ahead = path, 0.0
        with open(path, "wb") as file:
            file.write(bytes(_FIELDS.size))
        self._handle = os.open(path, os.O_WRONLY)
        self.set(begins)

    def set(self, now):
        """It is `now`."""
        os.pwrite(self._handle, _FIELDS.pack(now, _real(), self.ahead), 0)

    def close(self):
        os.close(self._handle)


def install(path):
    """The modules `time` and `asyncio` of this process go by the clock at `path`."""
    clock = Reader(path)
    time.time, time.monotonic = clock.wall, clock.steady
    time.clock_gettime = lambda which: clock.steady()
    sys.modules["uvloop"] = None                # its loop has a clock of its own

    class Selector(selectors.DefaultSelector):
        """Waits until the clock says so."""

        def select(self, timeout=None):
            if timeout is not None and timeout <= 0:
                return super().select(timeout)
            ends = None if timeout is None else clock.steady() + timeout
            while True:
                ready = super().select(0.01)
                if ready or (ends is not None and clock.steady() >= ends):
                    return ready
    selectors.DefaultSelector = Selector


def hurry_store(factor, began):
    """The store's own time goes so much faster since `began`; before the store is imported."""
    from iostats.store import clock
    wall = time.time
    clock.HERE = clock.HERE._replace(wall=lambda: began + factor * (wall() - began),
                                     up=lambda: factor * time.monotonic())
