"""
A process in the background that has told, before it is left alone, whether it works.

    the command          waits until the daemon says that it listens, or ends; its exit status
      a child            leads a session without a terminal, and ends
        the daemon       holds a lock on its pid file for as long as it lives

Source: daemon(7), "SysV Daemons".
"""

from __future__ import annotations

import fcntl
import logging
import logging.handlers
import os

from iostats.base.errors import DONE, UNREADABLE, StateError
from iostats.base.logs import OneLine

_READY = b"+"
_SYSLOG = "/dev/log"


class Daemon:
    """This process, once `begin` has made it one."""

    def __init__(self, pid_file: str) -> None:
        self._pid_file, self._handle, self._tell = pid_file, -1, -1

    def begin(self) -> int | None:
        """None in the daemon; in the command, its exit status, when the daemon listens or ended."""
        self._lock()
        heard, tell = os.pipe()
        if os.fork():
            os.close(tell)
            said = os.read(heard, 1)
            return DONE if said == _READY else UNREADABLE
        os.close(heard)
        os.setsid()
        if os.fork():
            os._exit(0)
        os.umask(0o077)
        os.chdir("/")
        self._tell = tell
        os.ftruncate(self._handle, 0)
        os.write(self._handle, b"%d\n" % os.getpid())
        return None

    def _lock(self) -> None:
        """The pid file, which another daemon has as long as it lives; StateError."""
        try:
            self._handle = os.open(self._pid_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
                                   | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StateError(f"{self._pid_file}: cannot be written: {error.strerror} (see "
                             f"--pid-file)") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = os.read(self._handle, 20).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise StateError(f"{self._pid_file}: a collector runs already, process {text or '?'}"
                             ) from None

    def is_ready(self) -> None:
        """It listens: what it has to say goes to the system's log from now on."""
        root = logging.getLogger()
        for one in list(root.handlers):
            root.removeHandler(one)
        if os.path.exists(_SYSLOG):
            to_syslog = logging.handlers.SysLogHandler(
                _SYSLOG, logging.handlers.SysLogHandler.LOG_DAEMON)
            to_syslog.setFormatter(OneLine())
            root.addHandler(to_syslog)
        else:
            root.addHandler(logging.NullHandler())
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.close(nothing)
        os.write(self._tell, _READY)
        os.close(self._tell)

    def end(self) -> None:
        """The pid file names no process any more; in a directory of root it stays, empty."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            try:
                os.unlink(self._pid_file)
            except OSError:
                pass
            os.close(self._handle)
            self._handle = -1
