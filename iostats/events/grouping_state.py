"""
The working state of log_grouping: events under construction, the shapes of lines, and earlier lines
that change the meaning of later ones, such as the first line of a pair.
"""

from __future__ import annotations

from hashlib import blake2b

from iostats.events.kinds import LOG_LOST
from iostats.lustre import kernel_log
from iostats.lustre.kernel_log import (
    CONNECTION_RESTORED,
    DEACTIVATED,
    EVICTED,
    LBUG,
    NO_EVENT,
    OTHER,
    RECOVERY,
    REPLACED,
    SKIPPED,
    TARGET_DOWN,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from iostats.lustre.kernel_log import Message

    # origin, kind, cause, file system, target, first, time, message, last, over, count, skipped,
    # tries, clients
    StoredGroup = tuple[tuple[str, ...], str, str, str, str, int, float, str, int, Optional[float],
                       int, int, int, tuple[str, ...]]

PASSED_OVER, COUNTED, BY_NID, SLOWLY = range(4)
# Kinds that need more of each line than its shape.
ONE_BY_ONE = (RECOVERY, SKIPPED, LBUG, TARGET_DOWN, DEACTIVATED, REPLACED)


class EventGroup:
    """Lines of the log that become one event; `origin` identifies it."""

    __slots__ = ("cause", "clients", "count", "file_system", "first", "is_changed", "kind", "last",
                 "message", "origin", "over", "skipped", "target", "time", "tries")

    def __init__(self, origin: tuple[str, ...], kind: str, cause: str, file_system: str,
                 target: str, usec: int, time: float, message: str) -> None:
        self.origin, self.kind, self.cause = origin, kind, cause
        self.file_system, self.target, self.message = file_system, target, message
        self.first = self.last = usec
        self.time, self.over = time, None       # type: float, float | None
        self.count = self.skipped = self.tries = 0
        self.clients: tuple[str, ...] = ()
        self.is_changed = False

    def as_json(self) -> StoredGroup:
        return (self.origin, self.kind, self.cause, self.file_system, self.target, self.first,
                self.time, self.message, self.last, self.over, self.count, self.skipped,
                self.tries, self.clients)


def restore_group(value: StoredGroup) -> EventGroup:
    (origin, kind, cause, file_system, target, first, time, message, last, over, count, skipped,
     tries, clients) = value
    group = EventGroup(tuple(origin), kind, cause, file_system, target, first, time, message)
    group.last, group.over, group.count = last, over, count
    group.skipped, group.tries, group.clients = skipped, tries, tuple(clients)
    return group


def make_group_of_lost_lines(count: int, sequence: int, usec: int, time: float) -> EventGroup:
    """The EventGroup of `count` lost lines of the log, after the line with number `sequence`."""
    group = EventGroup(("log", LOG_LOST, str(sequence)), LOG_LOST, "", "", "", usec, time,
                "1 line of the kernel's log was overwritten before it was read" if count == 1 else
                f"{count:,} lines of the kernel's log were overwritten before they were read")
    group.count = count
    return group


class Shape:
    """The common properties of all lines of one form at one target."""

    __slots__ = ("cause", "device", "file_system", "group", "key", "kind", "label", "shape",
                 "target", "way", "window")

    def __init__(self, label: str, shape: bytes, message: kernel_log.Message | None) -> None:
        self.label, self.window, self.group = label, -1, None    # type: str, int, EventGroup | None
        if message is None:
            self.kind, self.cause, self.device = NO_EVENT, "", ""
            self.file_system = self.target = self.shape = ""
        else:
            self.kind, self.cause, self.device = message.kind, message.cause, message.device
            self.file_system, self.target = message.file_system, message.target
            # The first line alone: journald and files have no more.
            self.shape = (blake2b(shape.partition(b"\n")[0], digest_size=8).hexdigest()
                          if message.kind == OTHER else "")
        self.key = self.target.encode() + b" "
        if self.kind in ONE_BY_ONE or (self.kind == EVICTED and self.cause == "recovery"):
            self.way = SLOWLY
        elif self.kind == EVICTED and self.cause == "lock":
            self.way = BY_NID
        else:
            self.way = COUNTED if self.kind else PASSED_OVER


def find_target_name(body: bytes) -> bytes:
    """The first target's name in a line that does not begin with one; b"" if there is none."""
    at = body.find(b"-OST")
    if at < 0:
        at = body.find(b"-MDT")
        if at < 0:
            return b""
    begins = body.rfind(b" ", 0, at) + 1
    return body[body.rfind(b">", begins, at) + 1 or begins:at + 8]


WINDOW_US = 10_000_000
RECOVERY_US = 7_200_000_000             # a recovery without a line for this long is over
_UNMOUNT_US = 600_000_000               # between `Failing over` and `server umount`
_MOST = 4096                            # of each
_MOST_LOCKS = 16_384
_WAYS = ("named", "number", "over")


class EarlierLines:
    """Earlier lines, by target, client or thread; above a limit the oldest are dropped."""

    def __init__(self) -> None:
        self._all: dict[str, dict[str, list[object]]] = {
            "recovering": {}, "down": {}, "deactivated": {}, "lbugs": {}}
        self._locks: dict[bytes, int] = {}
        self.deactivated = self._all["deactivated"]

    def as_json(self) -> dict[str, dict[str, list[object]]]:
        locks: dict[str, list[object]] = {client.decode("latin-1"): [usec]
                                          for client, usec in self._locks.items()}
        return {**self._all, "locks": locks}

    def restore(self, state: dict[str, dict[str, list[object]]]) -> None:
        """
        Continue from the value of as_json(); ValueError, TypeError and the like for an unexpected
        format.
        """
        for client, (usec,) in state["locks"].items():
            self._locks[client.encode("latin-1")] = int(str(usec))
        for name, values in state.items():
            if name in self._all:
                self._all[name].update({key: list(value) for key, value in values.items()})

    def is_second(self, message: Message, usec: int) -> bool:
        """True for the second line of a pair: the end of a target, or an LBUG."""
        is_end = message.kind == TARGET_DOWN
        kind, key = ("down", message.target) if is_end else ("lbugs", str(message.pid))
        form = message.text.partition(" ")[0].partition("(")[0]
        before = self._all[kind].pop(key, None)
        if before and before[1] != form and 0 <= usec - int(str(before[0])) <= (
                _UNMOUNT_US if is_end else WINDOW_US):
            return True
        self.remember(kind, key, [usec, form])
        return False

    def count_more_evicted(self, target: str, count: int, source: str, usec: int) -> int:
        """
        The number of clients that a recovery evicted beyond those known, by a report from `source`.

        "named": one by one; "number": in one line, before; "over": in all, at its end.
        """
        values = self._all["recovering"].get(target)
        sums = [int(str(value)) for value in values[1:4]] if values else [0, 0, 0]
        before, place = max(sums), _WAYS.index(source)
        sums[place] = max(count, sums[place]) if source == "over" else sums[place] + count
        self.remember("recovering", target, [usec, *sums])
        return max(sums) - before

    def note_recovery_end(self, target: str) -> None:
        self._all["recovering"].pop(target, None)

    def is_new_lock(self, client: bytes, usec: int, is_timer: bool) -> bool:
        """
        True unless the eviction of a target's `client` for a lock was reported a moment ago.

        `is_timer`: by the line that each of them has at least once; where there is no room to
        remember more clients, that line alone is counted.
        """
        locks = self._locks
        before = locks.pop(client, None)
        if len(locks) >= _MOST_LOCKS:
            oldest, when = next(iter(locks.items()))
            if 0 <= usec - when <= WINDOW_US:
                return is_timer and before is None
            del locks[oldest]
        locks[client] = usec
        return before is None or not 0 <= usec - before <= WINDOW_US

    def was_deactivated(self, line: Shape, usec: int) -> bool:
        """True if a client's line belongs to the activation of its target, and reports no loss."""
        if line.device == line.target:
            return False
        times = self.deactivated.get(line.target)
        if times is None:
            return False
        began = int(str(times[0]))
        if began and not 0 <= usec - began <= WINDOW_US:
            del self.deactivated[line.target]
            return False
        times[0] = began or usec
        if line.kind == CONNECTION_RESTORED:
            del self.deactivated[line.target]
        return True

    def remember(self, kind: str, key: str, value: list[object]) -> None:
        """Store a value; the oldest values above the limit are dropped."""
        entries = self._all[kind]
        entries.pop(key, None)
        if len(entries) >= _MOST:
            del entries[next(iter(entries))]
        entries[key] = value
