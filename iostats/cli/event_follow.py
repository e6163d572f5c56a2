"""
Several servers, followed at once: each is asked by a thread of its own, so that one that does not
answer delays no other; what they tell comes in one queue.
"""

from __future__ import annotations

import random
import threading
from collections import namedtuple

from iostats.base.errors import IostatsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from queue import Queue

    from iostats.cli.event_servers import EventPage, ServerCursor

POLL_S = 1.0                        # between two questions to a server that answers
_AGAIN_S, _LONGEST_AGAIN_S = 0.5, 5.0
_WITHIN_S = 10.0                    # a server that is asked all the time

Told = namedtuple("Told", "cursor page error")
Told.__doc__ = """
What a server has told.

Attributes:
    cursor: its ServerCursor.
    page: an EventPage; None where it did not answer.
    error: then, the IostatsError.
"""

OneEnd = namedtuple("OneEnd", "pages error")
OneEnd.__doc__ = """
All that a server has told: [EventPage]; and an IostatsError, where it did not answer to the end.
"""


class Followed:
    """Servers that are asked again and again; `queue` gets Told of them."""

    def __init__(self, cursors: Sequence[ServerCursor], queue: Queue[Told]) -> None:
        self._queue, self._ended = queue, threading.Event()
        for cursor in cursors:
            threading.Thread(target=self._follow, args=(cursor,), daemon=True).start()

    def close(self) -> None:
        """No server is asked any more."""
        self._ended.set()

    def _follow(self, cursor: ServerCursor) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            try:
                page = cursor.ask(within_s=_WITHIN_S)
            except IostatsError as error:
                cursor.failed()
                self._queue.put(Told(cursor, None, error))
                # Many monitors do not come back in the same moment.
                pause = min(max(pause * 2, _AGAIN_S), _LONGEST_AGAIN_S) * random.uniform(0.7, 1.0)
                continue
            self._queue.put(Told(cursor, page, None))
            pause = 0.0 if page.more and page.events else POLL_S


def ask_all(cursors: Sequence[ServerCursor], last: int | None) -> list[OneEnd]:
    """
    All that each server has, at the same time; of one that does not answer to the end, its error.

    `last`: how many, the latest ones; None: all.
    """
    pages: list[list[EventPage]] = [[] for _ in cursors]
    errors: list[BaseException | None] = [None for _ in cursors]

    def ask(number: int) -> None:
        try:
            page = cursors[number].ask(last or 0)
            pages[number].append(page)
            while page.more:
                page = cursors[number].ask()
                pages[number].append(page)
        except BaseException as error:
            errors[number] = error
    threads = [threading.Thread(target=ask, args=(number,), daemon=True)
               for number in range(len(cursors))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = []
    for each, error in zip(pages, errors):
        if error is not None and not isinstance(error, IostatsError):
            raise error
        ended.append(OneEnd(each, error))
    return ended
