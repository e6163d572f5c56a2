"""
What the log says of a store that cannot be written: once, again each hour, and when it is over.

A full disk refuses each message of each sweep.  Between those some small change may find room, so
it is over when nothing has failed for longer than there is between two sweeps.
"""

from __future__ import annotations

import logging
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("iostats")

SAY_AGAIN_S = 3600.0
QUIET_S = 120.0
_MOST_SAID = 100                # different lines


class StoreTrouble:
    """The failures of the store `path`; `clock`: seconds, as time.monotonic."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._said: dict[str, float] = {}               # line: when
        self._failed_at: float | None = None            # the last time; None: it can be written
        self._is_said = False

    def failed(self) -> None:
        """A change was refused."""
        self._failed_at = self._clock()

    def say(self, line: object, more: str = "") -> None:
        """Log why something failed, and `more`, unless this was logged within an hour."""
        now, text = self._clock(), str(line)
        if now - self._said.get(text, -SAY_AGAIN_S) < SAY_AGAIN_S:
            return
        self._said.pop(text, None)
        if len(self._said) >= _MOST_SAID:
            del self._said[next(iter(self._said))]
        self._said[text] = now
        self._is_said = self._is_said or self._failed_at is not None
        log.error("%s%s (said once an hour)", text, more)

    def written(self) -> None:
        """A change is on the disk."""
        if self._failed_at is None or self._clock() - self._failed_at < QUIET_S:
            return
        self._failed_at = None
        self._said.clear()
        if self._is_said:
            self._is_said = False
            log.warning("%s: can be written again", self._path)
