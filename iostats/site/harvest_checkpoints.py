"""
When the state of a target takes the place of its blocks in the store: a checkpoint.

So a restart never has to replay much more than the states themselves take, and little after an
orderly end.
"""

from __future__ import annotations

import logging
import time

from iostats.base.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    _Key = tuple[str, ...]                  # file system, target; or what else has a state

    class Kept(Protocol):
        """What has a state: a target."""

        def state(self) -> bytes:
            """It as bytes."""

    class KeepsStates(Protocol):
        """A store of states."""

        def checkpoint(self, states: Mapping[Any, bytes]) -> None:
            """{key: state} replaces all that came of these so far; StateError."""

log = logging.getLogger("iostats")

CHECKPOINT_BYTES = 1 << 20      # up to this much of one target's blocks,
REPLAY_BYTES = 64 << 20         # and of all, where their states are smaller;
LEAST_BYTES = 4096              # but a state is not worth it for less
_CLOSES_WITHIN_S = 20.0         # systemd kills after 90
_STEP_TARGETS, _STEP_BYTES = 64, 1 << 20        # checkpoints between two looks at the network


class Checkpoints:
    """
    What has come of each target since its last checkpoint.

    `states`: {(file system, target): bytes of its state in the store}; `before`: is given the keys
    whose blocks are about to leave the store.
    """

    def __init__(self, store: KeepsStates, targets: Mapping[Any, Kept], states: Mapping[Any, int],
                 before: Callable[[list[Any]], None] = lambda keys: None) -> None:
        self._store, self._targets, self._before = store, targets, before
        self._states: dict[_Key, int] = dict(states)
        self._logged: dict[_Key, int] = {}
        self._grown: set[_Key] = set()          # targets that may be due for a checkpoint

    def add(self, key: _Key, size: int) -> None:
        """`size` more bytes of this target's blocks are in the store."""
        self._logged[key] = self._logged.get(key, 0) + size
        self._grown.add(key)

    def drop(self, key: _Key) -> None:
        """It is no more."""
        self._logged.pop(key, None)
        self._states.pop(key, None)
        self._grown.discard(key)

    def step(self) -> bool:
        """Write some of the states that are due; False when there is no more to do."""
        most = max(LEAST_BYTES, min(CHECKPOINT_BYTES, REPLAY_BYTES // max(1, len(self._targets))))
        due: list[_Key] = []
        size = 0
        while self._grown and len(due) < _STEP_TARGETS and size < _STEP_BYTES:
            key = self._grown.pop()
            if self._logged[key] > max(most, self._states.get(key, 0)):
                due.append(key)
                size += self._logged[key]
        try:
            self.write(due)
        except StateError:
            self._grown.update(due)
            raise
        return bool(self._grown)

    def write(self, keys: list[_Key]) -> None:
        """Write the states of these targets; StateError."""
        if keys:
            self._before(keys)
            states = {key: self._targets[key].state() for key in keys}
            self._store.checkpoint(states)
            for key, state in states.items():
                self._states[key], self._logged[key] = len(state), 0

    def close(self) -> None:
        """
        Before an orderly end: leave the next start little to replay, as far as there is time.

        Where little has come since the last checkpoint, to write the state would take longer.
        """
        ends_at = time.monotonic() + _CLOSES_WITHIN_S
        due = sorted((key for key, size in self._logged.items()
                      if size > self._states.get(key, 0) // 4), key=self._logged.__getitem__)
        try:
            while due and time.monotonic() < ends_at:
                self.write(due[-_STEP_TARGETS:])
                del due[-_STEP_TARGETS:]
        except StateError as error:
            log.error("%s", error)
