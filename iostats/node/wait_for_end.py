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

WENT_ON = "the job was ended (SIGTERM) and its command went on"
CUT = WENT_ON + ": what it did more than {:g} s after that is not counted"
_END_NOT_KNOWN = "it is not known when the command ended: what it did after that is not counted"
_NOT_OURS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGALRM, signal.SIGXCPU)
_FIRST_LOOK_S = 15.0
_sigterms: list[float] = []       # when SIGTERM came
_wake_up: list[int] = []          # a pipe that ends the wait


def listen() -> None:
    """From now on no signal ends this process; called before it reports that it has started."""
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


def until_end(grace_s: float, stdin: int = 0, look: Callable[[], float] | None = None) -> str:
    """
    Wait for the end of the command; "" when it has ended, or why that is not known.

    `look()` is called on the way, and returns in how many seconds it wants to be called again.
    """
    if not _wake_up:
        listen()
    look_at = time.monotonic() + _FIRST_LOOK_S if look is not None else math.inf
    while True:
        left = max(0.0, _sigterms[0] + grace_s - time.monotonic()) if _sigterms else None
        if not _sigterms and look is not None:          # with little time left, the counters alone
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + look()
            left = None if look_at == math.inf else max(0.0, look_at - time.monotonic())
        try:
            ready, _, _ = select.select([stdin, _wake_up[0]], [], [], left)
            if stdin in ready and not os.read(stdin, 4096):
                return ""
        except OSError:                                # it was closed, or is no such thing
            return _END_NOT_KNOWN
        if _wake_up[0] in ready:
            os.read(_wake_up[0], 4096)
        if _sigterms and time.monotonic() >= _sigterms[0] + grace_s:
            return CUT.format(grace_s)


def without_failing(made: Callable[[], Callable[[], float]]) -> Callable[[], float]:
    """The function that `made()` makes, when it is first called; after a failure, never again."""
    found: list[Callable[[], float]] = []

    def look() -> float:
        try:
            if not found:
                found.append(made())
            return found[0]()
        except Exception:                               # the counters, and the end, are worth more
            return math.inf
    return look
