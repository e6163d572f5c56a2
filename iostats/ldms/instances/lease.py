"""
Until when an instance may act: its lease in etcd, seen on its own clock.

etcd counts a lease's time from the moment at which it took the last renewal.  That is after we sent
it, so that our own deadline, counted from the sending, comes first, however long the answer took,
and however long this process was stopped: CLOCK_BOOTTIME goes on while the host sleeps, and
cannot be set.

The deadline is well before the lease's end (ACTS_FOR of it), for two reasons.  A command that was
sent just before has time to arrive.  And a leader of etcd renews leases without asking the others
(EtcdServer.LeaseRenew): one that is cut off does so until it notices, for up to two election
timeouts (2 s by default), while its successor, elected after one at the earliest, counts a whole
lease from its election (lessor.Promote).
"""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ACTS_FOR = 0.7                  # of a lease: we may act so long after a renewal was sent
RENEWALS = 5                    # in the time of a lease


def boot_time() -> float:
    """Seconds on a clock that is never set, and goes on in suspend (clock_gettime(2))."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HeldLease:
    """
    A lease that is renewed by one thread, and asked about by others.

    Attributes:
        id: in etcd; None where there is none.
        ttl_s: as etcd granted it.
    """

    def __init__(self, now: Callable[[], float] = boot_time) -> None:
        self._now, self._lock = now, threading.Lock()
        self.id: int | None = None
        self.ttl_s = 0.0
        self._until = 0.0

    def granted(self, lease: int, ttl_s: float, sent: float) -> None:
        """etcd granted a lease, by what was sent at `sent` (the clock's seconds)."""
        with self._lock:
            self.id, self.ttl_s, self._until = lease, ttl_s, sent + ACTS_FOR * ttl_s

    def renewed(self, lease: int, ttl_s: float, sent: float) -> None:
        """etcd renewed it, by what was sent at `sent`."""
        with self._lock:
            if lease == self.id:
                self._until = max(self._until, sent + ACTS_FOR * min(ttl_s, self.ttl_s))

    def lost(self) -> None:
        """It is no more."""
        with self._lock:
            self.id, self._until = None, 0.0

    @property
    def left_s(self) -> float:
        """Seconds for which we may act; 0.0 or less: not any more."""
        with self._lock:
            return self._until - self._now() if self.id is not None else 0.0

    def is_held(self, lease: int | None = None) -> bool:
        """Whether we may act now; under that lease alone, where one is given."""
        with self._lock:
            return (self.id is not None and lease in (None, self.id)
                    and self._now() < self._until)
