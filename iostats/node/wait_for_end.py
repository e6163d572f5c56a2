"""
A node's process that stays for as long as the command of `iostats run`, and sleeps.

Slurm takes no new step once a job is being cancelled or has run out of time, so a process that
reads the counters then has to be on the nodes already.  The end of its standard input means that
the command has ended.  SIGTERM means that the job is being ended; the command then has `grace_s`
to end, and after that the counters are read all the same.  Now and then it looks how the node
stands with its targets (node_events.py): what went wrong can leave the kernel's history within half
a minute.

Other signals are the command's: `sbatch --signal=USR1@300` sends one to every process of a job.
"""

from __future__ import annotations

import math
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WENT_ON = "the job was ended (SIGTERM) and its command continued"
CUT = WENT_ON + ": its I/O more than {:g} s after that is not counted"
_END_NOT_KNOWN = "the end of the command is unknown: I/O after this reading is not counted"
_NOT_OURS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGALRM, signal.SIGXCPU)
_FIRST_CHECK_S = 15.0
_sigterms: list[float] = []       # when SIGTERM came
_wake_up: list[int] = []          # a pipe that ends the wait


class EndNotSeen(Exception):
    """The end of the command is not known; the text says why."""


def listen() -> None:
    """
    Block the signals that would end this process; called before it reports that it has started.
    """
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: _sigterms.append(time.monotonic()))
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_WRONLY)               # else the pipe would be our input
    _wake_up[:] = os.pipe()
    for end in _wake_up:
        os.set_blocking(end, False)
    signal.set_wakeup_fd(_wake_up[1], warn_on_full_buffer=False)


def wait_for_end(grace_s: float, stdin: int = 0, check: Callable[[], float] | None = None) -> None:
    """
    Wait for the end of the command; EndNotSeen.

    `check()` is called on the way, and returns in how many seconds it wants to be called again.
    """
    if not _wake_up:
        listen()
    check_at = time.monotonic() + _FIRST_CHECK_S if check is not None else math.inf
    while True:
        left = max(0.0, _sigterms[0] + grace_s - time.monotonic()) if _sigterms else None
        if not _sigterms and check is not None:          # with little time left, the counters alone
            if time.monotonic() >= check_at:
                check_at = time.monotonic() + check()
            left = None if check_at == math.inf else max(0.0, check_at - time.monotonic())
        try:
            ready, _, _ = select.select([stdin, _wake_up[0]], [], [], left)
            if stdin in ready and not os.read(stdin, 4096):
                return
        except OSError:                                # it was closed, or is no such thing
            raise EndNotSeen(_END_NOT_KNOWN) from None
        if _wake_up[0] in ready:
            os.read(_wake_up[0], 4096)
        if _sigterms and time.monotonic() >= _sigterms[0] + grace_s:
            raise EndNotSeen(CUT.format(grace_s))


def guard_failure(made: Callable[[], Callable[[], float]]) -> Callable[[], float]:
    """The function that `made()` makes, when it is first called; after a failure, never again."""
    checks: list[Callable[[], float]] = []

    def scan() -> float:
        try:
            if not checks:
                checks.append(made())
            return checks[0]()
        except Exception:                               # the counters, and the end, are worth more
            return math.inf
    return scan
