"""
The collector's process: in the background, and without root's rights once it has opened the files
that only root may read.

    the command          waits until the daemon says that it listens, or ends; its exit status
      a child            leads a session without a terminal, and ends
        the daemon       holds a lock on its pid file for as long as it lives

The daemon reports, before the command ends, whether it works.

Source: daemon(7), "SysV Daemons".
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import logging.handlers
import os
import pwd

from iostats.base.config import Config
from iostats.base.errors import DONE, UNREADABLE, ConfigError, StateError
from iostats.base.logs import OneLineFormatter

_CAPABILITY_VERSION_3 = 0x20080522                     # of <linux/capability.h>
_PR_SET_NO_NEW_PRIVS = 38                              # of <linux/prctl.h>


def find_daemon_user(config: Config) -> pwd.struct_passwd | None:
    """The user of [collector] user, whom root is to become; None without root; ConfigError."""
    if os.geteuid():
        return None
    name = config.collector.user
    if not name:
        raise ConfigError("iostats collector does not run as root: name a user whose rights are "
                          "enough ([collector] user in site.cfg), or start it as one")
    try:
        account = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        raise ConfigError(f"{config.locate('collector.user')}: expected the name of a user, "
                          f"got {name!r}") from None
    if account.pw_uid == 0:
        raise ConfigError(f"{config.locate('collector.user')}: expected a user other than root, "
                          f"got {name!r}")
    return account


def become(user: pwd.struct_passwd | None) -> None:
    """Switch to `user`, if one is given, for good and without capabilities; StateError."""
    if user is not None:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    _drop_capabilities()
    try:
        os.setuid(0)
    except OSError:
        return
    raise StateError("iostats collector: the rights of root could not be given up")


def _drop_capabilities() -> None:
    """
    Drop capabilities such as CAP_SYSLOG, which systemd gives for the kernel's log.  Source:
    capset(2).
    """
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    libc = ctypes.CDLL(None)
    libc.capset(header, (ctypes.c_uint32 * 6)())
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def make_directory(path: str, user: pwd.struct_passwd | None) -> None:
    """Make `path`, of `user` alone, if it is not there; StateError."""
    try:
        if user is not None:
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        os.mkdir(path, 0o700)
        if user is not None:
            os.chown(path, user.pw_uid, user.pw_gid)
    except FileExistsError:
        return
    except OSError as error:
        raise StateError(f"{path}: cannot be made: {error.strerror}; make it, owned by the "
                         f"collector's user, or name another: [collector] state_dir") from None


_READY = b"+"
_SYSLOG = "/dev/log"


class Daemon:
    """This process after `begin` has made it a daemon."""

    def __init__(self, pid_file: str) -> None:
        self._pid_file, self._handle, self._tell = pid_file, -1, -1

    def begin(self) -> int | None:
        """
        Return None in the daemon; in the command its exit status, once the daemon listens or has
        ended.
        """
        self._lock()
        reading_end, tell = os.pipe()
        if os.fork():
            os.close(tell)
            message = os.read(reading_end, 1)
            return DONE if message == _READY else UNREADABLE
        os.close(reading_end)
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
        """Lock the pid file, for as long as this daemon lives; StateError."""
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
        """Report that the daemon listens; later messages are sent to the system's log."""
        root = logging.getLogger()
        for handler in list(root.handlers):
            root.removeHandler(handler)
        if os.path.exists(_SYSLOG):
            to_syslog = logging.handlers.SysLogHandler(
                _SYSLOG, logging.handlers.SysLogHandler.LOG_DAEMON)
            to_syslog.setFormatter(OneLineFormatter())
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
        """Empty the pid file, and remove it unless it is in a directory of root."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            try:
                os.unlink(self._pid_file)
            except OSError:
                pass
            os.close(self._handle)
            self._handle = -1
