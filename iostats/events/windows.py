"""
The ten seconds in which lines are one event: which are open, and for what there is room in them.

Windows are of the log's own clock, so that two readers of one log agree.  Two are open: lines of
several CPUs may come a little out of their order.
"""

from __future__ import annotations

from iostats.events.fold import Fold, restored_fold
from iostats.events.kinds import CRITICAL, FATAL, KINDS

_JUMPED = 6                             # windows back: the log's clock is another one


class Windows:
    """
    The open windows.

    Attributes:
        folds: {window: {origin: Fold}}.
    """

    def __init__(self, most: int) -> None:
        """`most`: different events in one window."""
        self.most, self._newest = most, 0
        self.folds: dict[int, dict[tuple[str, ...], Fold]] = {}
        self._used: dict[int, int] = {}

    def open(self, window: int) -> int:
        """The window that a line of `window` is counted in; older ones are closed."""
        if window > self._newest:
            self._newest = window
        elif window < self._newest - _JUMPED:
            self.folds.clear()
            self._used.clear()
            self._newest = window
        elif window < self._newest - 1:
            window = self._newest - 1
        if window not in self.folds:
            self.folds[window] = {}
            self._used[window] = 0
            for old in [one for one in self.folds if not self._newest - 2 < one]:
                del self.folds[old], self._used[old]
        return window

    def is_full(self, kind: str, window: int) -> bool:
        """Whether an event of `kind` is one too many; for the severe ones there is more room."""
        severity = KINDS[kind].severity
        share = 10 if severity >= FATAL else 9 if severity >= CRITICAL else 7
        return self._used.get(window, 0) * 10 >= self.most * share

    def add(self, window: int, fold: Fold) -> None:
        """A new event of an open window, for which there is room."""
        self.folds[window][fold.origin] = fold
        self._used[window] += 1

    def as_json(self) -> dict[str, object]:
        return {"newest": self._newest,
                "windows": [[window, self._used[window], [one.as_json() for one in folds.values()]]
                            for window, folds in self.folds.items()]}

    def restore(self, kept: dict[str, object]) -> None:
        """Go on from what as_json() gave; of another form: ValueError, TypeError and the like."""
        self._newest = int(kept["newest"])                                      # type: ignore
        for window, used, folds in kept["windows"]:                             # type: ignore
            self.folds[int(window)] = {one.origin: one for one in map(restored_fold, folds)}
            self._used[int(window)] = int(used)
