"""
A node's process that stays for as long as the command of `iostats run`, and sleeps.

Slurm takes no new step once a job is being cancelled or has run out of time, so a process that
reads the counters then has to be on the nodes already.  The end of its standard input means that
the command has ended.  SIGTERM means that the job is being ended; the command then has `grace_s`
to end, and after that the counters are read all the same.

Other signals are the command's: `sbatch --signal=USR1@300` sends one to every process of a job.
"""

from __future__ import annotations

import os
import select
import signal
import time

WENT_ON = "the job was ended (SIGTERM) and its command went on"
CUT = WENT_ON + ": what it did more than {:g} s after that is not counted"
_END_NOT_KNOWN = "it is not known when the command ended: what it did after that is not counted"
_NOT_OURS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGALRM, signal.SIGXCPU)
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


def until_end(grace_s: float, stdin: int = 0) -> str:
    """Wait for the end of the command; "" when it has ended, or why that is not known."""
    if not _wake_up:
        listen()
    while True:
        left = max(0.0, _sigterms[0] + grace_s - time.monotonic()) if _sigterms else None
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
