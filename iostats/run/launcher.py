"""
The client on all nodes of a job, reached by the batch system's launcher.

Where a launcher takes no new work while a job is being ended (schedulers: NO_LAUNCH_AT_END) one
process on each node stays and sleeps, see wait_for_end.py; elsewhere `start` and `stop` are
launched one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE

from iostats.base.errors import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

LOOK_EVERY_S = 0.02
_END_WITHIN_S = 10.0              # for a launcher, when all nodes have reported
_KILLED_WITHIN_S = 0.5
_DRAINED_WITHIN_S = 0.2           # somebody else may hold a launcher's output open
_MOST_SAID, _LONGEST_LINE = 20, 500


class Nodes:
    """
    The client on all nodes of the job.

    `launchers`: [argv prefix], from schedulers/; `client(role)`: the argv of the client;
    `environ`: what it needs in its environment; `stays`, `quotes`: as in schedulers/;
    `unblocked()`: a context in which our signals are as they were.
    """

    def __init__(self, launchers: list[list[str]], client: Callable[[str], list[str]],
                 environ: Mapping[str, str], stays: bool, quotes: bool, say: Callable[[str], None],
                 unblocked: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
                 ) -> None:
        self._launchers, self._client, self._environ = launchers, client, environ
        self._stays, self._quotes, self._say, self._unblocked = stays, quotes, say, unblocked
        self._running: list[_Launched] = []
        self._all: list[_Launched] = []
        self._stopping: asyncio.Future[None] | None = None
        self._said = 0
        self.ready = 0                   # nodes that have started, or said that they can't
        self.failed: set[tuple[str, ...]] = set()          # launchers whose trouble is told

    async def start(self, count: int, within_s: float, told: asyncio.Event) -> bool:
        """
        Launch, and wait until `count` nodes are ready, all launchers are done, or `told` is set;
        False where some nodes may yet start.
        """
        await self._launch("attend" if self._stays else "start")
        ends = time.monotonic() + within_s
        while not (self.done or told.is_set() or (self._stays and self.ready >= count)):
            if time.monotonic() >= ends:
                self._say_who_is_late(count, within_s)
                break
            await asyncio.sleep(LOOK_EVERY_S / 2)
        if self._stays:
            return self.done or self.ready >= count
        return not await _kill_late(self._running)

    def _say_who_is_late(self, count: int, within_s: float) -> None:
        late, all_, what = count - self.ready, count, "nodes are not ready"
        if not self._stays:
            late, all_ = sum(not one.done for one in self._running), len(self._running)
            what = "launchers have not come back"
        self._say(f"{late} of {all_} {what} after {within_s:g} s; the command begins without them")

    async def stop(self) -> None:
        """Tell the nodes, once, that the command has ended."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._stays:
            for one in self._running:
                one.end_input()
        else:
            await self._launch("stop")

    @property
    def stay(self) -> bool:
        """True where the nodes' processes are there, as far as one sees from here."""
        return not self._stays or all(one.status is None for one in self._running)

    @property
    def done(self) -> bool:
        """True when no process is left that could start or report."""
        return all(one.done for one in self._running)

    async def end(self, within_s: float = _END_WITHIN_S) -> None:
        """End the launchers."""
        await wait_until(lambda: self.done, within_s)
        await _kill_late(self._all)
        for one in self._all:
            one.close()
        if self._said > _MOST_SAID:
            self._say(f"and {self._said - _MOST_SAID} more lines of the nodes")

    def say_some(self, line: str) -> None:
        """Pass on what a node or a launcher says: of a thousand nodes with one trouble, a few."""
        self._said += 1
        if self._said <= _MOST_SAID:
            self._say(one_line(line[:_LONGEST_LINE]))

    async def _launch(self, role: str) -> None:
        self._running = []
        for launcher in self._launchers:
            command = self._client(role)
            if self._quotes and launcher:
                command = [shlex.join(command)]
            one = _Launched(self, role, tuple(launcher) or (command[0],))
            try:
                with self._unblocked():
                    # A session of its own: Ctrl-C is for the command alone.
                    await asyncio.get_running_loop().subprocess_exec(
                        lambda one=one: one, *launcher, *command,  # type: ignore[misc]
                        env=self._environ,
                        start_new_session=True, stdin=PIPE if self._stays else DEVNULL,
                        stdout=PIPE, stderr=PIPE)
            except OSError as error:
                one.cannot_be_run(error)
                continue
            self._running.append(one)
            self._all.append(one)


class _Launched(asyncio.SubprocessProtocol):
    """
    A launcher that runs, or has run.

    Attributes:
        status: its exit status; None while it runs.
    """

    def __init__(self, nodes: Nodes, role: str, launcher: tuple[str, ...]) -> None:
        self._nodes, self._role, self._launcher = nodes, role, launcher
        self._hushed, self._said = launcher in nodes.failed, False
        self._rest = {1: b"", 2: b""}
        self._lines: list[str] = []
        self._transport: Any = None
        self._ended_at = 0.0
        self.status: int | None = None

    def cannot_be_run(self, error: OSError) -> None:
        if not self._hushed:
            self._nodes.failed.add(self._launcher)
            self._nodes.say_some(f"{self._launcher[0]}: cannot be run: {error.strerror}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, rest = (self._rest[fd] + data).split(b"\n")
        self._rest[fd] = rest[:_LONGEST_LINE]              # of a line without an end its begin
        for line in lines:
            self._line(fd, line)

    def pipe_connection_lost(self, fd: int, error: Exception | None) -> None:
        rest = self._rest.pop(fd, b"")
        if rest:
            self._line(fd, rest)
        self._tell()

    def process_exited(self) -> None:
        self.status, self._ended_at = self._transport.get_returncode(), time.monotonic()
        self._tell()

    def _line(self, fd: int, line: bytes) -> None:
        text = line[:_LONGEST_LINE].decode("utf-8", "replace").strip()
        if fd == 1:
            self._nodes.ready += text in ("started", "not started")
        elif text.startswith("iostats: "):
            self._said = True
            self._nodes.say_some(text[len("iostats: "):])
        elif text and len(self._lines) < _MOST_SAID:
            self._lines.append(text)

    def _tell(self, at_last: bool = False) -> None:
        """What a launcher itself says is shown when it fails, once; a client's errors always."""
        if self.status is None or self._hushed or not (at_last or not self._rest):
            return
        self._hushed = True
        if self.status:
            self._nodes.failed.add(self._launcher)
            for line in self._lines or ([] if self._said else [
                    f"{self._launcher[0]}: {self._role}: expected exit status 0, got "
                    f"{self.status}"]):
                self._nodes.say_some(line)

    @property
    def done(self) -> bool:
        """True when it has ended, and all that it said is here."""
        return self.status is not None and (
            not self._rest or time.monotonic() > self._ended_at + _DRAINED_WITHIN_S)

    def end_input(self) -> None:
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()

    def kill(self, number: int) -> None:
        """Send a signal to it, and to all that it has started."""
        self._hushed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)

    def close(self) -> None:
        self._tell(at_last=True)
        self._transport.close()


async def _kill_late(launched: Iterable[_Launched]) -> int:
    """End those that have not ended, and what they leave behind; how many there were."""
    late = [one for one in launched if one.status is None]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for one in late:
            one.kill(number)
        await wait_until(lambda: all(one.status is not None for one in late), _KILLED_WITHIN_S)
    return len(late)


async def wait_until(true: Callable[[], object], within_s: float) -> None:
    """Wait until `true()`, or for `within_s` seconds."""
    ends = time.monotonic() + within_s
    while not true() and time.monotonic() < ends:
        await asyncio.sleep(LOOK_EVERY_S / 2)
