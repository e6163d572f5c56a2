"""
One part of a job, from one `mark` to the next: what all nodes did in it.
"""

from __future__ import annotations

from iostats.totals.file_system import FileSystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iostats.totals.delta import Delta


class PhaseTotals:
    """One part of the job."""

    def __init__(
            self, at: tuple[float, int],
            seconds: Mapping[str, float] | Iterable[tuple[str, float]] = (),
            file_systems: Mapping[str, FileSystem] | Iterable[tuple[str, FileSystem]] = ()) -> None:
        self.at = at                        # (when, which of its report's) it first began
        self.seconds = dict(seconds)        # node -> its seconds
        self.file_systems = dict(file_systems)

    def add(self, at: tuple[float, int], elapsed_s: float, node: str,
            deltas: Iterable[Delta]) -> None:
        """Add what one node did in it; a name may come again, as in a loop."""
        self.at = min(self.at, at)
        self.seconds[node] = self.seconds.get(node, 0.0) + elapsed_s
        for delta in deltas:
            file_system_in(self.file_systems, delta.file_system).add(delta, node, {}, {})

    def join(self, other: PhaseTotals) -> None:
        """Add what other nodes, or these at another time, did in it."""
        self.at = min(self.at, other.at)
        for node, elapsed_s in other.seconds.items():
            self.seconds[node] = self.seconds.get(node, 0.0) + elapsed_s
        for name, file_system in other.file_systems.items():
            file_system_in(self.file_systems, name).join(file_system)


def file_system_in(file_systems: dict[str, FileSystem], name: str) -> FileSystem:
    """That of this name, which is made if it is not there."""
    found = file_systems.get(name)
    if found is None:
        found = file_systems[name] = FileSystem()
    return found
