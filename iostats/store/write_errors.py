"""
Log messages about a store that cannot be written: once, again each hour, and at its end.

A full disk refuses each message of each sweep.  Between those some small change may find room, so
it is over when nothing has failed for longer than there is between two sweeps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from iostats.base.errors import StateError

log = logging.getLogger(__name__)

REPAIR_HINT = "`iostats store` shows what is lost, and what to do"

SAY_AGAIN_S = 3600.0
QUIET_S = 120.0
_MOST_SAID = 100                # different lines


class StoreLost(StateError):
    """No commit is possible until the server restarts."""


class ConnectionLost(StoreLost):
    """The connection to PostgreSQL was lost: the server ends, and is started again."""


class StoreTrouble:
    """The failures of the store `path`; `clock`: seconds, as time.monotonic."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._logged: dict[str, float] = {}               # line: when
        self._failed_at: float | None = None            # the last time; None: it can be written
        self._is_logged = False

    def failed(self) -> None:
        """Note that a change was refused."""
        self._failed_at = self._clock()

    def emit(self, line: object, more: str = "") -> None:
        """Log why something failed, and `more`, unless this was logged within an hour."""
        if isinstance(line, ConnectionLost):            # the server prints it when it ends
            return
        now, text = self._clock(), str(line)
        if now - self._logged.get(text, -SAY_AGAIN_S) < SAY_AGAIN_S:
            return
        self._logged.pop(text, None)
        if len(self._logged) >= _MOST_SAID:
            del self._logged[next(iter(self._logged))]
        self._logged[text] = now
        self._is_logged = self._is_logged or self._failed_at is not None
        log.error("%s%s (logged once an hour)", text, more)

    def written(self) -> None:
        """Note that a change is on the disk."""
        if self._failed_at is None or self._clock() - self._failed_at < QUIET_S:
            return
        self._failed_at = None
        self._logged.clear()
        if self._is_logged:
            self._is_logged = False
            log.warning("%s: can be written again", self._path)
