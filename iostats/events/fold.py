"""
What folding counts with: a Fold is an event in the making, a Shape what lines have in common.
"""

from __future__ import annotations

from hashlib import blake2b

from iostats.events.kinds import LOG_LOST
from iostats.lustre import kernel_log
from iostats.lustre.kernel_log import (
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

PASSED_OVER, COUNTED, BY_NID, SLOWLY = range(4)
# Kinds that need more of each line than its shape.
ONE_BY_ONE = (RECOVERY, SKIPPED, LBUG, TARGET_DOWN, DEACTIVATED, REPLACED)


class Fold:
    """One event in the making; `origin` names it, and is the key."""

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

    def as_json(self) -> list[object]:
        return [getattr(self, name) for name in _KEPT]


_KEPT = ("origin", "kind", "cause", "file_system", "target", "first", "time", "message", "last",
         "over", "count", "skipped", "tries", "clients")


def restored_fold(value: list[object]) -> Fold:
    origin, kind, cause, file_system, target, first, time, message = value[:8]
    fold = Fold(tuple(origin), kind, cause, file_system, target, first, time,  # type: ignore
                message)                                                       # type: ignore
    fold.last, fold.over, fold.count, fold.skipped, fold.tries = value[8:13]   # type: ignore
    fold.clients = tuple(value[13])                                            # type: ignore
    return fold


def lost_fold(count: int, sequence: int, usec: int, time: float) -> Fold:
    """The Fold of `count` lines of the log that are gone, behind the one numbered `sequence`."""
    fold = Fold(("log", LOG_LOST, str(sequence)), LOG_LOST, "", "", "", usec, time,
                "1 line of the kernel's log was overwritten before it was read" if count == 1 else
                f"{count:,} lines of the kernel's log were overwritten before they were read")
    fold.count = count
    return fold


class Shape:
    """What all lines of one form at one target have in common."""

    __slots__ = ("cause", "device", "file_system", "fold", "key", "kind", "label", "shape",
                 "target", "way", "window")

    def __init__(self, label: str, shape: bytes, found: kernel_log.Message | None) -> None:
        self.label, self.window, self.fold = label, -1, None    # type: str, int, Fold | None
        if found is None:
            self.kind, self.cause, self.device = NO_EVENT, "", ""
            self.file_system = self.target = self.shape = ""
        else:
            self.kind, self.cause, self.device = found.kind, found.cause, found.device
            self.file_system, self.target = found.file_system, found.target
            # The first line alone: journald and files have no more.
            self.shape = (blake2b(shape.partition(b"\n")[0], digest_size=8).hexdigest()
                          if found.kind == OTHER else "")
        self.key = self.target.encode() + b" "
        if self.kind in ONE_BY_ONE or (self.kind == EVICTED and self.cause == "recovery"):
            self.way = SLOWLY
        elif self.kind == EVICTED and self.cause == "lock":
            self.way = BY_NID
        else:
            self.way = COUNTED if self.kind else PASSED_OVER


def target_in(body: bytes) -> bytes:
    """The first target's name in a line that does not begin with one; b"" where there is none."""
    at = body.find(b"-OST")
    if at < 0:
        at = body.find(b"-MDT")
        if at < 0:
            return b""
    begins = max(body.rfind(b" ", 0, at), body.rfind(b">", 0, at))
    return body[begins + 1:at + 8]
