"""
A node's process that stays for as long as the command of `iostats run`, and sleeps.

Slurm takes no new step once a job is being cancelled or has run out of time, so nobody could be
sent to the nodes then to read the counters: somebody has to be there.  It is told by the end of
its standard input that the command has ended.  SIGTERM says that the job is being ended; the
command then has `grace_s` to end, and after that the counters are read all the same.

Other signals are the command's: `sbatch --signal=USR1@300` sends one to every process of a job.
"""

from __future__ import annotations

import os
import select
import signal
import time

WENT_ON = "the job was ended (SIGTERM) and its command went on"
CUT = WENT_ON + ": what it did more than {:g} s after that is not counted"
_NOT_TOLD = "nobody could tell when the command ended: what it did after that is not counted"
_NOT_OURS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGALRM, signal.SIGXCPU)
_told: list[float] = []           # when SIGTERM came
_woken: list[int] = []            # a pipe that wakes up who waits


def listen() -> None:
    """From now on no signal ends this process; before it says that it has started."""
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: _told.append(time.monotonic()))
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_WRONLY)               # else the pipe would be our input
    _woken[:] = os.pipe()
    for end in _woken:
        os.set_blocking(end, False)
    signal.set_wakeup_fd(_woken[1], warn_on_full_buffer=False)


def until_told(grace_s: float, stdin: int = 0) -> str:
    """Wait; "" when the command has ended, or why that is not known."""
    if not _woken:
        listen()
    while True:
        left = max(0.0, _told[0] + grace_s - time.monotonic()) if _told else None
        try:
            ready, _, _ = select.select([stdin, _woken[0]], [], [], left)
            if stdin in ready and not os.read(stdin, 4096):
                return ""
        except OSError:                                # it was closed, or is no such thing
            return _NOT_TOLD
        if _woken[0] in ready:
            os.read(_woken[0], 4096)
        if _told and time.monotonic() >= _told[0] + grace_s:
            return CUT.format(grace_s)
