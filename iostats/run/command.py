"""
The user's command of `iostats run`.

It has our standard input and output, open files and environment unchanged, gets every signal that
we get, and its exit status is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGXCPU)
_STOP_WAITING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_FROM_KERNEL = 0x80             # siginfo's si_code: from a terminal, which signals its whole group
_SAME_SIGNAL_S = 0.5


class Command:
    """
    The user's command.

    Its signals are blocked here, and a thread waits for them: so it learns who has sent one. A
    terminal sends a signal to its whole foreground group, so the command has received it.

    Attributes:
        returncode: as of subprocess; None while it has not ended.
        failed: the OSError if it cannot be run; None otherwise.
        signal_received: an asyncio.Event, set by any signal.
        terminating: an asyncio.Event, set by SIGTERM: the job is being ended.
        stops_waiting: True after a signal that arrived when the command had ended: reports are not
        waited for.
    """

    def __init__(self, argv: list[str], environ: dict[bytes, bytes]) -> None:
        self._argv, self._environ = argv, environ
        self._pid: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: threading.Thread | None = None
        self._pending: list[int] = []
        self._caught: Sequence[int] = ()
        self._mask: Iterable[int] = ()
        self._is_released = False
        self.returncode: int | None = None
        self.failed: OSError | None = None
        self.signal_received: asyncio.Event             # from `attach` on, as `terminating`
        self.terminating: asyncio.Event
        self.stops_waiting, self._ended_at = False, 0.0

    # -- signals

    def catch(self) -> None:
        """Receive the command's signals from now on; ignored ones stay ignored."""
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)         # else there is no exit status
        self._caught = [number for number in FORWARDED
                        if signal.getsignal(number) != signal.SIG_IGN]
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._caught)
        for number in self._caught:  # for a time in which they are not blocked
            signal.signal(number, lambda number, frame: self._pass_to_loop(number, False))
        if self._caught:
            self._listener = threading.Thread(target=self._listen, daemon=True)
            self._listener.start()

    def attach(self) -> None:
        """Pass signals to the running loop from now on."""
        self.signal_received, self.terminating = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in self._pending[:]:
            self._set_events(number)

    def release(self) -> None:
        """
        Stop listening. The signals stay blocked: one that arrives while we end must not replace the
        command's exit status.
        """
        self._is_released = True
        if self._listener:
            signal.pthread_kill(self._listener.ident,  # type: ignore[arg-type]     # it runs
                                self._caught[0])
            self._listener.join()

    @contextlib.contextmanager
    def unblocked(self) -> Iterator[None]:
        """A context with the original signal mask, for processes that are started in it."""
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _listen(self) -> None:
        while True:
            info = signal.sigwaitinfo(self._caught)
            if self._is_released:
                return
            self._pass_to_loop(info.si_signo, info.si_code == _FROM_KERNEL)

    def _pass_to_loop(self, number: int, is_delivered: bool) -> None:
        if self._loop is None:
            self._pending.append(number)
        else:
            with contextlib.suppress(RuntimeError):               # the loop is closed
                self._loop.call_soon_threadsafe(self._handle, number, is_delivered)

    def _set_events(self, number: int) -> None:
        self.signal_received.set()
        if number == signal.SIGTERM:
            self.terminating.set()

    def _handle(self, number: int, is_delivered: bool) -> None:
        self._set_events(number)
        if self.returncode is not None or self.failed is not None:
            # The signal that ended the command may have been sent to us as well, a bit later.
            if number in _STOP_WAITING and time.monotonic() > self._ended_at + _SAME_SIGNAL_S:
                self.stops_waiting = True
        elif self._pid is None:
            self._pending.append(number)
        elif not is_delivered:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)

    # -- the process

    async def run(self) -> None:
        """Run the command to its end."""
        if self._pending:
            self.returncode = -self._pending[0]                     # it was ended before its start
            return
        try:
            self._pid = self._spawn()
        except OSError as error:
            self.failed = error
            return
        # Its process id is not reused until we have its status: no signal reaches another process.
        await asyncio.to_thread(os.waitid, os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        self._ended_at = time.monotonic()
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def wait(self) -> None:
        """Wait until it has ended, if no loop waits for it."""
        if self.returncode is None and self._pid is not None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def replace_process(self) -> None:
        """Execute the command in place of this process; returns only if it cannot be run."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvpe(self._argv[0], self._argv, self._environ)
        except OSError as error:
            self.failed = error

    @property
    def has_run(self) -> bool:
        """True when it has run, or runs."""
        return self._pid is not None

    def _spawn(self) -> int:
        """
        Start the command, and return its process id.

        posix_spawn, since it leaves all else unchanged: files that were open for us stay so (such
        as a shell's <(...)), and so do ignored or blocked signals.
        """
        def spawn(path: str, argv: list[str]) -> int:
            return os.posix_spawnp(path, argv, self._environ, setsigmask=self._mask,
                                   setsigdef=_IGNORED_BY_PYTHON)
        if not self._argv[0]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            return spawn(self._argv[0], self._argv)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
        # A script without "#!" is run by the shell, as by execvp(3).
        script = shutil.which(self._argv[0]) or self._argv[0]
        return spawn("/bin/sh", ["/bin/sh", script, *self._argv[1:]])
