"""
Long work in steps: a generator that yields between two of them, and returns what came out.

A server's loop does other things in between (Server.go_on); elsewhere `finished` does the whole of
it at once.  What is yielded is None, or a call that may block: its result is sent back, or
what it raises is thrown.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, TypeVar

    T = TypeVar("T")

AT_ONCE = 500                   # small items in one step


def finished(work: Generator[Any, Any, T]) -> T:
    """The result of `work`, which is run to its end."""
    step = work.send
    value: Any = None
    while True:
        try:
            call: Any = step(value)
        except StopIteration as end:
            result: T = end.value
            return result
        step, value = work.send, None
        if call is not None:
            try:
                value = call()
            except Exception as error:
                step, value = work.throw, error
