"""
Long work in steps: a generator that yields after each step and returns the result.  A server's loop
does other work between the steps (Server.go_on); elsewhere `run_to_end` does all of it at once.  It
yields None, or a call that may block: then it receives the result, or the exception is raised in
it.

A generator, and no coroutine of asyncio or anyio: the same function runs without a loop (on nodes,
in commands, in tests), the loop decides when its next step is due, and many steps are one turn of
the loop, where a coroutine's `await sleep(0)` takes more than 30 times as long as a `yield`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import TypeVar

    Called = TypeVar("Called")
    T = TypeVar("T")

ITEMS_PER_STEP = 500            # small items in one step


def run_to_end(work: Generator[Callable[[], Called] | None, Called | None, T]) -> T:
    """Run `work` to its end and return its result."""
    value: Called | None = None
    error: Exception | None = None
    while True:
        try:
            call = work.send(value) if error is None else work.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        value = error = None
        if call is not None:
            try:
                value = call()
            except Exception as failed:
                error = failed
