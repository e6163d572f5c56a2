"""
Checkpoints: the state of a target replaces its blocks in the store.

So a restart never has to replay much more than the size of the states, and little after an orderly
end.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from iostats.base.errors import StateError

_KeyT = TypeVar("_KeyT")              # (file system, target), or what else has a state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    class HasState(Protocol):
        """An object with a state: a target."""

        def state(self) -> bytes:
            """Encode the state as bytes."""

    class StateStore(Protocol[_KeyT]):
        """A store of states."""

        def checkpoint(self, states: Mapping[_KeyT, bytes]) -> None:
            """Replace the blocks of {key: state} by these states; StateError."""

log = logging.getLogger(__name__)

CHECKPOINT_BYTES = 1 << 18      # up to this much of one target's blocks,
REPLAY_BYTES = 64 << 20         # and of all, where their states are smaller;
LEAST_BYTES = 4096              # a state is not written for less
_CLOSES_WITHIN_S = 20.0         # systemd kills after 90
_STEP_TARGETS, _STEP_BYTES = 64, 1 << 20  # checkpoints in one step


class Checkpoints(Generic[_KeyT]):
    """
    Counts each target's bytes since its last checkpoint, and writes checkpoints.

    `states`: {(file system, target): bytes of its state in the store}; `before`: is called with the
    keys whose blocks are about to leave the store.
    """

    def __init__(self, store: StateStore[_KeyT], targets: Mapping[_KeyT, HasState],
                 states: Mapping[_KeyT, int],
                 before: Callable[[list[_KeyT]], None] = lambda keys: None) -> None:
        self._store, self._targets, self._before = store, targets, before
        self._states: dict[_KeyT, int] = dict(states)
        self._logged: dict[_KeyT, int] = {}
        self._grown: set[_KeyT] = set()          # targets that may be due for a checkpoint

    def add(self, key: _KeyT, size_bytes: int) -> None:
        """Note `size_bytes` more bytes of this target's blocks in the store."""
        self._logged[key] = self._logged.get(key, 0) + size_bytes
        self._grown.add(key)

    def drop(self, key: _KeyT) -> None:
        """Drop a target that was removed."""
        self._logged.pop(key, None)
        self._states.pop(key, None)
        self._grown.discard(key)

    def step(self) -> bool:
        """Write some of the states that are due; False when none is left."""
        max_logged = max(LEAST_BYTES,
                         min(CHECKPOINT_BYTES, REPLAY_BYTES // max(1, len(self._targets))))
        due: list[_KeyT] = []
        size_bytes = 0
        while self._grown and len(due) < _STEP_TARGETS and size_bytes < _STEP_BYTES:
            key = self._grown.pop()
            if self._logged[key] > max(max_logged, self._states.get(key, 0)):
                due.append(key)
                size_bytes += self._logged[key]
        try:
            self.write(due)
        except StateError:
            self._grown.update(due)
            raise
        return bool(self._grown)

    def write(self, keys: list[_KeyT]) -> None:
        """Write the states of these targets; StateError."""
        if keys:
            self._before(keys)
            states = {key: self._targets[key].state() for key in keys}
            self._store.checkpoint(states)
            for key, state in states.items():
                self._states[key], self._logged[key] = len(state), 0

    def close(self) -> None:
        """
        Before an orderly end: leave little to replay for the next start, as far as time allows.

        If little has arrived since the last checkpoint, writing the state would take longer.
        """
        ends_at = time.monotonic() + _CLOSES_WITHIN_S
        due = sorted((key for key, size_bytes in self._logged.items()
                      if size_bytes > self._states.get(key, 0) // 4), key=self._logged.__getitem__)
        try:
            while due and time.monotonic() < ends_at:
                self.write(due[-_STEP_TARGETS:])
                del due[-_STEP_TARGETS:]
        except StateError as error:
            log.error("%s", error)
