"""
The rights of the collector's process: never root's, once it has opened what only root may read.
"""

from __future__ import annotations

import ctypes
import os
import pwd

from iostats.base.errors import ConfigError, StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

_CAPABILITY_VERSION_3 = 0x20080522                     # of <linux/capability.h>
_PR_SET_NO_NEW_PRIVS = 38                              # of <linux/prctl.h>


def user_to_be(config: Config) -> pwd.struct_passwd | None:
    """The user of [collector] user, whom root is to become; None without root; ConfigError."""
    if os.geteuid():
        return None
    name = config["collector.user"]
    if not name:
        raise ConfigError("iostats collector does not run as root: name a user whose rights are "
                          "enough ([collector] user in site.cfg), or start it as one")
    try:
        found = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        raise ConfigError(f"{config.origin['collector.user']}: [collector] user: expected the name "
                          f"of a user, got {name!r}") from None
    if found.pw_uid == 0:
        raise ConfigError(f"{config.origin['collector.user']}: [collector] user: expected a user "
                          f"other than root, got {name!r}")
    return found


def become(user: pwd.struct_passwd | None) -> None:
    """Be `user`, if that is one, with no way back, and with no capability; StateError."""
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
    """Such as CAP_SYSLOG, which systemd gives for the kernel's log.  Source: capset(2)."""
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
