"""
Answers that are shared: what the same people ask at the same time is one question.

Who may see all jobs gets the same answers; an ordinary user has answers of their own, since the
site's server answers each with what that user may see.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict

from iostats.web.asking import PageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.web.asking import Site
    from iostats.web.who import Asker

_MOST_KEPT = 64


class _KeptAnswer:
    """One question: its last answer, or what became of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at = float("-inf")
        self.answer: Any = None
        self.error: PageError | None = None


class SharedAnswers:
    """Asks a question once in `fresh_s`, for all who may see the same."""

    def __init__(self, site: Site, fresh_s: float) -> None:
        self._site, self._fresh_s = site, fresh_s
        self._kept: OrderedDict[tuple[str, str], _KeptAnswer] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, asker: Asker, method: str, params: dict[str, Any]) -> Any:
        """The result of a method, as `asker` may see it; PageError."""
        key = scope_of(self._site, asker), json.dumps([method, params], sort_keys=True)
        with self._lock:
            kept = self._kept.setdefault(key, _KeptAnswer())
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        with kept.lock:
            if time.monotonic() - kept.at >= self._fresh_s:
                kept.answer = kept.error = None
                try:
                    kept.answer = self._site.ask(asker, method, params)
                except PageError as error:
                    kept.error = error
                kept.at = time.monotonic()
            if kept.error is not None:
                raise PageError(kept.error.status, str(kept.error))
            return kept.answer


def scope_of(site: Site, asker: Asker) -> str:
    """Whose answers are the same: "(all)" for those who may see all jobs, else the user."""
    rights = site.rights(asker)
    return "(all)" if rights["all"] else str(rights["user"])
