"""
The user's command of `iostats run`.

It gets our standard input and output, open files and environment as they are, every signal that we
get, and its exit status is ours.
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGXCPU)
_IMPATIENT = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_SI_KERNEL = 0x80                 # siginfo's si_code: from a terminal, which has told all its group
_SAME_SIGNAL_S = 0.5


class Command:
    """
    The user's command.

    Its signals are blocked here, and a thread waits for them: that way is told who has sent one.
    What a terminal sends goes to its whole foreground group, so the command has had it.

    Attributes:
        returncode: as of subprocess; None while it has not ended.
        failed: the OSError why it can't be run; None otherwise.
        told: an asyncio.Event, set when any signal has come.
        ending: an asyncio.Event, set when we were told to end (SIGTERM).
        impatient: True when somebody has told us to end while there was no command any more.
    """

    def __init__(self, argv: list[str], environ: dict[bytes, bytes]) -> None:
        self._argv, self._environ = argv, environ
        self._pid: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: threading.Thread | None = None
        self._early: list[int] = []
        self._caught: Sequence[int] = ()
        self._mask: Iterable[int] = ()
        self._released = False
        self.returncode: Any = None                               # an int, once it has ended
        self.failed: OSError | None = None
        self.told: Any = None                                     # Events, from `attach` on
        self.ending: Any = None
        self.impatient, self._ended_at = False, 0.0

    # -- signals

    def catch(self) -> None:
        """Take over the command's signals, from now on; one that is ignored stays so."""
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)         # or there is no exit status
        self._caught = [number for number in FORWARDED
                        if signal.getsignal(number) != signal.SIG_IGN]
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._caught)
        for number in self._caught:                               # while they are not blocked
            signal.signal(number, lambda number, frame: self._post(number, False))
        if self._caught:
            self._listener = threading.Thread(target=self._listen, daemon=True)
            self._listener.start()

    def attach(self) -> None:
        """From now on the running loop is told of signals."""
        self.told, self.ending = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in self._early[:]:
            self._note(number)

    def release(self) -> None:
        """
        Listen no more.  The signals stay blocked: what comes while we end must not take the place
        of the command's exit status.
        """
        self._released = True
        if self._listener:
            signal.pthread_kill(self._listener.ident,  # type: ignore[arg-type]     # it runs
                                self._caught[0])
            self._listener.join()

    @contextlib.contextmanager
    def unblocked(self) -> Iterator[None]:
        """Signals as they were before, for a process that is started meanwhile."""
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _listen(self) -> None:
        while True:
            found = signal.sigwaitinfo(self._caught)
            if self._released:
                return
            self._post(found.si_signo, found.si_code == _SI_KERNEL)

    def _post(self, number: int, had_it: bool) -> None:
        if self._loop is None:
            self._early.append(number)
        else:
            with contextlib.suppress(RuntimeError):               # the loop is closed
                self._loop.call_soon_threadsafe(self._came, number, had_it)

    def _note(self, number: int) -> None:
        self.told.set()
        if number == signal.SIGTERM:
            self.ending.set()

    def _came(self, number: int, had_it: bool) -> None:
        self._note(number)
        if self.returncode is not None or self.failed is not None:
            # What has ended the command may have been for us as well, and come a bit later.
            if number in _IMPATIENT and time.monotonic() > self._ended_at + _SAME_SIGNAL_S:
                self.impatient = True
        elif self._pid is None:
            self._early.append(number)
        elif not had_it:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)

    # -- its life

    async def run(self) -> None:
        """Run it to its end."""
        if self._early:
            self.returncode = -self._early[0]                     # it was ended before it began
            return
        try:
            self._pid = self._spawned()
        except OSError as error:
            self.failed = error
            return
        # Its process number stays its own until we have its status: no signal goes astray.
        await asyncio.get_running_loop().run_in_executor(
            None, os.waitid, os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        self._ended_at = time.monotonic()
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def wait(self) -> None:
        """Until it has ended, where nobody else waits for it."""
        if self.returncode is None and self._pid is not None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def become(self) -> None:
        """Be the command, without anybody who waits for it; returns only where it can't be run."""
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

    def _spawned(self) -> int:
        """
        The number of its process.

        posix_spawn, since it leaves all else as it is: files that were open for us stay so (such
        as a shell's <(...)), and what was ignored or blocked.
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
        # A script without "#!" is the shell's, as for execvp(3).
        script = shutil.which(self._argv[0]) or self._argv[0]
        return spawn("/bin/sh", ["/bin/sh", script, *self._argv[1:]])
