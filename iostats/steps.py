"""
Long work in steps: a generator that yields between two of them, and returns what came out.

A server's loop does other things in between (Server.later); who has nothing else to do asks for the
whole of it at once.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TypeVar

    T = TypeVar("T")

AT_ONCE = 500                   # small things in one step


def finished(work: Generator[object, None, T]) -> T:
    """What comes out of `work`, done to its end."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
