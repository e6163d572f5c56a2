"""
What earlier lines of the log mean for later ones: each is counted once.

A client whose lock's eviction was told a moment ago; the first line of a pair; a target that an
administrator has deactivated; how many a recovery has evicted by each way of telling it.
"""

from __future__ import annotations

from iostats.lustre.kernel_log import CONNECTION_RESTORED, TARGET_DOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.events.fold import Shape
    from iostats.lustre.kernel_log import Message

WINDOW_US = 10_000_000
RECOVERY_US = 7_200_000_000             # a recovery of which nothing was heard for so long is over
_UNMOUNT_US = 600_000_000               # between `Failing over` and `server umount`
_MOST = 4096                            # of each
_MOST_LOCKS = 16_384
_WAYS = ("named", "number", "over")


class Remembered:
    """What was seen, by target, client or thread; there is a most of each, and the oldest go."""

    def __init__(self) -> None:
        self._all: dict[str, dict[str, list[object]]] = {
            "recovering": {}, "down": {}, "deactivated": {}, "lbugs": {}}
        self._locks: dict[bytes, int] = {}
        self.deactivated = self._all["deactivated"]

    def as_json(self) -> dict[str, dict[str, list[object]]]:
        locks = {client.decode("latin-1"): [usec] for client, usec in self._locks.items()}
        return {**self._all, "locks": locks}                                    # type: ignore

    def restore(self, kept: dict[str, dict[str, list[object]]]) -> None:
        """Go on from what as_json() gave; of another form: ValueError, TypeError and the like."""
        for client, (usec,) in kept["locks"].items():
            self._locks[client.encode("latin-1")] = int(str(usec))
        for name, values in kept.items():
            if name in self._all:
                self._all[name].update({key: list(value) for key, value in values.items()})

    def is_second(self, told: Message, usec: int) -> bool:
        """Whether a line is the second one of a pair: of a target's end, or of an LBUG."""
        is_end = told.kind == TARGET_DOWN
        kept, key = ("down", told.target) if is_end else ("lbugs", str(told.pid))
        form = told.text.partition(" ")[0].partition("(")[0]
        before = self._all[kept].pop(key, None)
        if before and before[1] != form and 0 <= usec - int(str(before[0])) <= (
                _UNMOUNT_US if is_end else WINDOW_US):
            return True
        self.keep(kept, key, [usec, form])
        return False

    def more_evicted(self, target: str, count: int, way: str, usec: int) -> int:
        """
        How many more a recovery has evicted than was known, now that it is told one `way`.

        "named": one by one; "number": in one line, before; "over": in all, at its end.
        """
        values = self._all["recovering"].get(target)
        sums = [int(str(one)) for one in values[1:4]] if values else [0, 0, 0]
        before, place = max(sums), _WAYS.index(way)
        sums[place] = max(count, sums[place]) if way == "over" else sums[place] + count
        self.keep("recovering", target, [usec, *sums])
        return max(sums) - before

    def recovery_ended(self, target: str) -> None:
        self._all["recovering"].pop(target, None)

    def is_new_lock(self, client: bytes, usec: int, is_timer: bool) -> bool:
        """
        Whether the eviction of a `client` of a target for a lock was not told a moment ago.

        `is_timer`: by the line that each of them has at least once; where there is no room to
        remember more clients, that line alone is counted.
        """
        kept = self._locks
        before = kept.pop(client, None)
        if len(kept) >= _MOST_LOCKS:
            oldest, when = next(iter(kept.items()))
            if 0 <= usec - when <= WINDOW_US:
                return is_timer and before is None
            del kept[oldest]
        kept[client] = usec
        return before is None or not 0 <= usec - before <= WINDOW_US

    def was_deactivated(self, line: Shape, usec: int) -> bool:
        """Whether a client's line is of the activation of its target, and tells of no loss."""
        if line.device == line.target:
            return False
        known = self.deactivated.get(line.target)
        if known is None:
            return False
        began = int(str(known[0]))
        if began and not 0 <= usec - began <= WINDOW_US:
            del self.deactivated[line.target]
            return False
        known[0] = began or usec
        if line.kind == CONNECTION_RESTORED:
            del self.deactivated[line.target]
        return True

    def keep(self, what: str, key: str, value: list[object]) -> None:
        """Remember, and forget the oldest of too many."""
        kept = self._all[what]
        kept.pop(key, None)
        if len(kept) >= _MOST:
            del kept[next(iter(kept))]
        kept[key] = value
