"""
The client on all nodes of a job, started by the batch system's launcher.

If a launcher accepts no new work while a job is being ended (schedulers: NO_LAUNCH_AT_END), one
process on each node stays and sleeps, see wait_for_end.py; otherwise `start` and `stop` are
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
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from iostats.base.errors import sanitize

POLL_EVERY_S = 0.02
_ENDED_WITHIN_S = 10.0          # for a launcher, after all nodes have reported
_KILLED_WITHIN_S = 0.5
_DRAINED_WITHIN_S = 0.2         # another process may hold a launcher's output open
_MAX_LINES, _MAX_LINE_CHARACTERS = 20, 500


class Nodes:
    """The clients on all nodes of the job, and the launchers that started them.

    `launchers`: [argv prefix], from schedulers/; `client(role)`: the argv of the client; `environ`:
    its environment; `is_resident`, `quotes_command`: as in schedulers/; `unblocked()`: a context
    with the original signal mask.
    """

    def __init__(self, launchers: list[list[str]], client: Callable[[str], list[str]],
                 environ: Mapping[str, str], is_resident: bool, quotes_command: bool,
                 log_line: Callable[[str], None],
                 unblocked: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
                 ) -> None:
        self._launchers, self._client, self._environ = launchers, client, environ
        self._is_resident, self._quotes_command = is_resident, quotes_command
        self._log_line, self._unblocked = log_line, unblocked
        self._running: list[_Launched] = []
        self._all: list[_Launched] = []
        self._stopping: asyncio.Future[None] | None = None
        self._line_count = 0
        self.ready = 0                   # nodes that have started, or reported that they cannot
        self.failed: set[tuple[str, ...]] = set()          # launchers with an error that was logged

    async def start(self, count: int, within_s: float, stop: asyncio.Event) -> bool:
        """
        Launch, and wait until `count` nodes are ready, all launchers are done, or `stop` is set;
        False if some nodes may yet start.
        """
        await self._launch("attend" if self._is_resident else "start")
        ends = time.monotonic() + within_s
        while not (self.done or stop.is_set() or (self._is_resident and self.ready >= count)):
            if time.monotonic() >= ends:
                self._report_late_nodes(count, within_s)
                break
            await asyncio.sleep(POLL_EVERY_S / 2)
        if self._is_resident:
            return self.done or self.ready >= count
        return not await _kill_running(self._running)

    def _report_late_nodes(self, count: int, within_s: float) -> None:
        late, total, description = count - self.ready, count, "nodes are not ready"
        if not self._is_resident:
            late, total = sum(not process.done for process in self._running), len(self._running)
            description = "launchers have not returned"
        self._log_line(f"{late} of {total} {description} after {within_s:g} s; the command starts "
                       f"without them")

    async def stop(self) -> None:
        """Send the nodes, once, the end of the command."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        if self._is_resident:
            for process in self._running:
                process.close_input()
        else:
            await self._launch("stop")

    @property
    def are_running(self) -> bool:
        """False if a resident process of a node has ended, as far as known here."""
        return not self._is_resident or all(process.status is None for process in self._running)

    @property
    def done(self) -> bool:
        """True when no process is left that could start or report."""
        return all(process.done for process in self._running)

    async def end(self, within_s: float = _ENDED_WITHIN_S) -> None:
        """End the launchers."""
        await wait_until(lambda: self.done, within_s)
        await _kill_running(self._all)
        for process in self._all:
            process.close()
        if self._line_count > _MAX_LINES:
            self._log_line(f"and {self._line_count - _MAX_LINES} more lines of the nodes")

    def forward_line(self, line: str) -> None:
        """Log a line from a node or a launcher: of a thousand nodes with one error, a few lines."""
        self._line_count += 1
        if self._line_count <= _MAX_LINES:
            self._log_line(sanitize(line[:_MAX_LINE_CHARACTERS]))

    async def _launch(self, role: str) -> None:
        self._running = []
        for launcher in self._launchers:
            command = self._client(role)
            if self._quotes_command and launcher:
                command = [shlex.join(command)]
            process = _Launched(self, role, tuple(launcher) or (command[0],))
            try:
                with self._unblocked():
                    # A session of its own: Ctrl-C is for the command alone.
                    await asyncio.get_running_loop().subprocess_exec(
                        # mypy does not infer the type of a lambda's default.
                        lambda process=process: process, *launcher, *command,  # type: ignore[misc]
                        env=self._environ,
                        start_new_session=True, stdin=PIPE if self._is_resident else DEVNULL,
                        stdout=PIPE, stderr=PIPE)
            except OSError as error:
                process.note_start_failure(error)
                continue
            self._running.append(process)
            self._all.append(process)


class _Launched(asyncio.SubprocessProtocol):
    """A launcher process that runs, or has ended.

    Attributes:
        status: its exit status; None while it runs.
    """

    def __init__(self, nodes: Nodes, role: str, launcher: tuple[str, ...]) -> None:
        self._nodes, self._role, self._launcher = nodes, role, launcher
        self._is_silenced, self._has_errors = launcher in nodes.failed, False
        self._rest = {1: b"", 2: b""}
        self._lines: list[str] = []
        self._transport: Any = None
        self._ended_at = 0.0
        self.status: int | None = None

    def note_start_failure(self, error: OSError) -> None:
        if not self._is_silenced:
            self._nodes.failed.add(self._launcher)
            self._nodes.forward_line(f"{self._launcher[0]}: cannot be run: {error.strerror}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, rest = (self._rest[fd] + data).split(b"\n")
        self._rest[fd] = rest[:_MAX_LINE_CHARACTERS]  # only the beginning of a very long line
        for line in lines:
            self._take_line(fd, line)

    def pipe_connection_lost(self, fd: int, error: Exception | None) -> None:
        rest = self._rest.pop(fd, b"")
        if rest:
            self._take_line(fd, rest)
        self._forward_errors()

    def process_exited(self) -> None:
        self.status, self._ended_at = self._transport.get_returncode(), time.monotonic()
        self._forward_errors()

    def _take_line(self, descriptor: int, line: bytes) -> None:
        text = line[:_MAX_LINE_CHARACTERS].decode("utf-8", "replace").strip()
        if descriptor == 1:
            self._nodes.ready += text in ("started", "not started")
        elif text.startswith("iostats: "):
            self._has_errors = True
            self._nodes.forward_line(text[len("iostats: "):])
        elif text and len(self._lines) < _MAX_LINES:
            self._lines.append(text)

    def _forward_errors(self, at_last: bool = False) -> None:
        """Log a launcher's own errors once, if it fails; a client's errors are always logged."""
        if self.status is None or self._is_silenced or not (at_last or not self._rest):
            return
        self._is_silenced = True
        if self.status:
            self._nodes.failed.add(self._launcher)
            for line in self._lines or ([] if self._has_errors else [
                    f"{self._launcher[0]}: {self._role}: expected exit status 0, got "
                    f"{self.status}"]):
                self._nodes.forward_line(line)

    @property
    def done(self) -> bool:
        """True when it has ended, and all its output was read."""
        return self.status is not None and (
            not self._rest or time.monotonic() > self._ended_at + _DRAINED_WITHIN_S)

    def close_input(self) -> None:
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()

    def kill(self, number: int) -> None:
        """Send a signal to it, and to all processes that it has started."""
        self._is_silenced = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)

    def close(self) -> None:
        self._forward_errors(at_last=True)
        self._transport.close()


async def _kill_running(launched: Iterable[_Launched]) -> int:
    """End the processes that still run, and their children; returns how many there were."""
    late = [process for process in launched if process.status is None]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in late:
            process.kill(number)
        await wait_until(lambda: all(process.status is not None for process in late),
                         _KILLED_WITHIN_S)
    return len(late)


async def wait_until(true: Callable[[], object], within_s: float) -> None:
    """Wait until `true()` is true, or for `within_s` seconds."""
    ends = time.monotonic() + within_s
    while not true() and time.monotonic() < ends:
        await asyncio.sleep(POLL_EVERY_S / 2)
