"""
Conditions that last from one scan to the next, such as a full target: since when, and its number.

    state = {"open": {key: [since, number]}, "times": number of the last condition that began}

Each source names its conditions by a key.  A condition that is neither begun nor ended stays as it
is, which is right where a file cannot be read.  The number makes each one an event of its own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypedDict

    class ConditionsState(TypedDict):
        """The stored state of a source, between two scans."""

        open: dict[str, tuple[float, int]]      # {key: (since, number)}
        times: int


class Conditions:
    """The open conditions of a source; `state`: of the previous scan, or None."""

    def __init__(self, state: ConditionsState | None, now: float) -> None:
        self._open: dict[str, tuple[float, int]] = {
            key: (since, number) for key, (since, number) in state["open"].items()} if state else {}
        self._times: int = state["times"] if state else 0
        self._now = now

    def __contains__(self, key: str) -> bool:
        return key in self._open

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys of open conditions; the loop may end conditions."""
        return iter([*self._open])

    def begin(self, key: str) -> tuple[float, int] | None:
        """Open a condition: (since, number), or None if it was open."""
        if key in self._open:
            return None
        self._open[key] = self._now, self.assign_number()
        return self._open[key]

    def opened(self, key: str) -> tuple[float, int]:
        """Return (since, number) of a condition, which is opened if it was not."""
        return self.begin(key) or self._open[key]

    def end(self, key: str) -> tuple[float, int]:
        """Close an open condition: its (since, number)."""
        return self._open.pop(key)

    def assign_number(self) -> int:
        """A number for a condition that the source stores itself."""
        self._times += 1
        return self._times

    def state(self) -> ConditionsState:
        """The state for the next scan."""
        return {"open": dict(self._open), "times": self._times}
