"""
Metric sets: those of a daemon's own samplers, and those that an aggregator collected.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


def slot(now_s: float, interval_us: int, offset_us: int) -> int:
    """Which multiple of the interval, shifted by the offset, was the last one until now."""
    return int((now_s * 1e6 - offset_us) // interval_us)


@dataclass
class MetricSet:
    """
    A set in a daemon's directory.

    Attributes:
        origin: the `producer` that its sampler was configured with.
        hint_us: (interval, offset) of its sampler's start; None without one.
        sampled_s: seconds since the epoch; 0: never.
    """
    instance: str
    schema: str
    origin: str
    meta_size_bytes: int
    data_size_bytes: int
    hint_us: tuple[int, int] | None = None
    sampled_s: float = 0.0


@dataclass
class Collected:
    """
    A set of a producer at its aggregator.

    Attributes:
        source: as its producer's directory last showed it.
        state: START until an updater has it, then READY.
        slots: {updater: the last slot in which it updated}.
        updates: when it was updated, the last 1,000 times.
    """
    source: MetricSet
    state: str = "START"
    held: MetricSet | None = None
    slots: dict[str, int] = field(default_factory=dict)
    updates: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
