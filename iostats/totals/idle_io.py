"""
What nodes do to a file system by themselves, as much of it as falls into the job's time.

A node knows its I/O between two jobs (node/idle_time.py): amounts, and the seconds in which they
came together.  What it is expected to do by itself while a job runs is amount x job's seconds /
idle seconds.  Kept as whole thousandths, so that nodes can be added up in any order.
"""

from __future__ import annotations

from iostats.totals.record import IdleIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_PART = 1000
_IMPOSSIBLE = 2**62


class IdleSums:
    """What all nodes of a job, of which that is known, do to one file system by themselves."""

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._ms = 0                            # of idle time that was looked at
        self._values: dict[str, int] = {}       # metric -> expected, in thousandths

    def add(self, node: str, seconds: float, values: Mapping[str, float],
            elapsed_s: float) -> None:
        """
        Add one node, which gained `values` in idle `seconds`, and was in the job for `elapsed_s`.
        """
        self._nodes.add(node)
        self._ms += round(seconds * 1000)
        share = _PART * elapsed_s / seconds
        for metric, value in values.items():
            expected = round(value * share)
            if expected < _IMPOSSIBLE:
                self._values[metric] = self._values.get(metric, 0) + expected

    def join(self, other: IdleSums) -> None:
        """Add all that another one knows."""
        self._nodes |= other._nodes
        self._ms += other._ms
        for metric, value in other._values.items():
            self._values[metric] = self._values.get(metric, 0) + value

    def state(self) -> list[Any] | None:
        """What JSON can carry; `from_state` makes the same of it.  None: no node knows."""
        return [sorted(self._nodes), self._ms, self._values] if self._nodes else None

    @classmethod
    def from_state(cls, state: list[Any] | None, named: Callable[[str], str]) -> IdleSums:
        """What `state` was made of; `named`: a node's name there -> its name here."""
        self = cls()
        if state is not None:
            nodes, self._ms, values = state
            self._nodes, self._values = set(map(named, nodes)), dict(values)
        return self

    def record(self) -> IdleIO | None:
        """Its part of the record; None where no node knows."""
        if not self._nodes:
            return None
        whole = {metric: (value + _PART // 2) // _PART
                 for metric, value in sorted(self._values.items())}
        return IdleIO(nodes=len(self._nodes), seconds=round(self._ms / 1000, 3),
                      expected={metric: value for metric, value in whole.items() if value})
