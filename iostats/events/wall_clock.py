"""
Converts the kernel log's clock to the wall clock.

The log's clock counts from the boot, at its own pace: `dmesg -T`, which adds it to the time of the
boot, falls behind by a second in a quarter of an hour on some machines.  So its readings are tied
to the wall clock wherever both are known (anchors): at the boot, now, in lines that have a time in
them, and by when a line can have come: after the log was last read to its end, before now.
Between two anchors the time is between theirs, in proportion.

A wall clock that was set between two anchors is believed as it is now: the later anchor counts.
"""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST = 16                              # anchors
_SPACED_US = 60_000_000
_PACE = 0.02                            # by so much one clock may be faster than the other
_SET_S = 2.0                            # and by so much in all, before it counts as set
_LARGEST_STEP_S = 60.0                  # a time in a line that is further off is another clock's


class WallClock:
    """Converts times of the log's clock to wall time, by pairs of both (anchors)."""

    def __init__(self, anchors: Iterable[tuple[int, float]] = ()) -> None:
        """`anchors`: [(us since boot, s since 1970)], from `anchors` of an earlier WallClock."""
        self.anchors = sorted(anchors)[-_MOST:]
        self._after: float | None = None
        self._before: float | None = None

    def tie(self, usec: int, wall: float) -> None:
        """Note that the wall clock was `wall` at the log's time `usec`."""
        at = bisect_right([anchor[0] for anchor in self.anchors], usec)
        if at and 0 <= usec - self.anchors[at - 1][0] < _SPACED_US and at > 1:
            self.anchors[at - 1] = (usec, wall)         # the later one of two that are close
        else:
            self.anchors.insert(at, (usec, wall))
        if len(self.anchors) > _MOST:
            del self.anchors[1]                         # the boot stays

    def set_interval(self, after: float | None, before: float | None) -> None:
        """Set the interval in which the next lines were logged; None: unknown."""
        self._after, self._before = after, before

    def compute_time(self, usec: int, printed: int | None = None) -> float:
        """
        Return when a line of the log's time `usec` was printed, s since 1970.

        `printed`: the whole seconds of the wall clock that the line itself shows.
        """
        guess = best = self._interpolate(usec)
        if self._before is not None and best > self._before:
            best = self._before
        if self._after is not None and best < self._after:
            best = self._after
        if printed is not None and abs(best - printed) < _LARGEST_STEP_S:
            best = min(max(best, float(printed)), printed + 0.999)
        if best != guess:
            self.tie(usec, best)
        return best

    def _interpolate(self, usec: int) -> float:
        if not self.anchors:
            return usec / 1e6
        at = bisect_right([anchor[0] for anchor in self.anchors], usec)
        if at == 0:
            usec_2, wall_2 = self.anchors[0]
            return max(0.0, wall_2 - (usec_2 - usec) / 1e6)
        usec_1, wall_1 = self.anchors[at - 1]
        if at == len(self.anchors):
            return wall_1 + (usec - usec_1) / 1e6
        usec_2, wall_2 = self.anchors[at]
        log_s, wall_s = (usec_2 - usec_1) / 1e6, wall_2 - wall_1
        if abs(wall_s - log_s) > max(_SET_S, _PACE * log_s):
            return max(0.0, wall_2 - (usec_2 - usec) / 1e6)
        return wall_1 + wall_s * ((usec - usec_1) / 1e6 / log_s if log_s else 0.0)
