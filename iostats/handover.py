"""
A report to where its user sees it, written by a process that is that user.

    output    at the end of the job's own output file: a plain file of the user's that is there
    home      ~/.iostats/JOB.txt, for who has made that folder

No link is followed at the end of a path, and nothing is opened with more than the user's rights:
whatever the path is, it can only reach what the user could have written without us.  Nothing is
written as root, or as a user of the system such as slurm.

Whose job it is, and where its output goes, may be the word of a node.  So that one node that lies
does not become each of these users, nothing is appended to what others would run or believe: a
hidden file (.bashrc), one in a hidden folder (.ssh), or a program.
"""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import resource
import signal
import stat
import time

from iostats.jobid import as_filename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WITHIN_S = 30
_LOOK_EVERY_S = 0.02
_MOST_FILES = 1 << 20


class NotHandedOver(Exception):
    """It could not be written there; the text says why."""


async def append(user: str, path: str, text: str) -> None:
    """Append `text` to the file `path` of `user` (a name); NotHandedOver."""
    if not os.path.isabs(path):
        raise NotHandedOver(f"{path}: expected an absolute path")
    if any(part.startswith(".") for part in path.split("/")):
        raise NotHandedOver(f"{path}: expected a job's output, got a hidden file or folder")
    await _as(_entry(user), path, lambda uid: _append(path, text.encode(), uid))


async def keep_at_home(user: str, job: str, text: str) -> None:
    """Write ~USER/.iostats/JOB.txt where that folder is; NotHandedOver."""
    entry = _entry(user)
    if not os.path.isabs(entry.pw_dir):
        raise NotHandedOver(f"user {user!r} has no home")
    folder = os.path.join(entry.pw_dir, ".iostats")
    path = os.path.join(folder, as_filename(job) + ".txt")
    await _as(entry, path, lambda uid: _replace(folder, path, text.encode(), uid))


def _entry(user: str) -> pwd.struct_passwd:
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError, UnicodeError):
        raise NotHandedOver(f"there is no user {user!r} here") from None
    if entry.pw_uid == 0:
        raise NotHandedOver(f"{user}: nothing is written as root")
    if os.geteuid() == 0 and entry.pw_uid < _first_user():
        raise NotHandedOver(f"{user}: nothing is written as a user of the system (user "
                            f"{entry.pw_uid} is below UID_MIN in /etc/login.defs)")
    if os.geteuid() not in (0, entry.pw_uid):
        raise NotHandedOver(f"only root can write as user {user!r}; run the server as root, or "
                            f"leave it out of [site] show")
    return entry


def _first_user(path: str = "/etc/login.defs") -> int:
    """The least number of a user who is a person: UID_MIN in login.defs(5)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.partition("#")[0].split()
                if words[:1] == ["UID_MIN"]:
                    return int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    return 1000


async def _as(entry: pwd.struct_passwd, path: str, action: Callable[[int], None]) -> None:
    """Run `action(uid)` in a child that is the user of `entry`."""
    _bury()
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = errno.EIO
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_WITHIN_S)
            # The store, the port and the nodes' connections are not this user's.
            os.closerange(3, writing)
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            os.closerange(writing + 1, most if 0 < most < _MOST_FILES else _MOST_FILES)
            if os.geteuid() == 0:
                os.setgroups(groups)
                os.setgid(entry.pw_gid)
                os.setuid(entry.pw_uid)
            os.umask(0o077)
            action(entry.pw_uid)
            code = 0
        except OSError as error:
            code = error.errno or errno.EIO
        finally:
            try:
                os.write(writing, b"%d" % code)
            finally:
                os._exit(0)
    os.close(writing)
    try:
        ends = time.monotonic() + _WITHIN_S
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > ends:
                os.kill(child, signal.SIGKILL)
                _hanging.append(child)                 # in the kernel, until that lets it go
                raise NotHandedOver(f"{path}: not written within {_WITHIN_S} s")
            await asyncio.sleep(_LOOK_EVERY_S)
        told = os.read(reading, 16)
    finally:
        os.close(reading)
    if told != b"0":
        code = int(told) if told else errno.EINTR
        raise NotHandedOver(f"{path}: {_WHY.get(code) or os.strerror(code)}")


_hanging: list[int] = []


def _bury() -> None:
    for child in list(_hanging):
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            _hanging.remove(child)


_WHY = {errno.ELOOP: "it is a link", errno.ENXIO: "it is no plain file",
        errno.EINVAL: "it is no plain file of the user's alone",
        errno.ENOEXEC: "it is a program, and no job's output"}


def _append(path: str, data: bytes, uid: int) -> None:
    # O_NONBLOCK: a FIFO that nobody reads is an error, not a wait.
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid or found.st_nlink != 1:
            raise OSError(errno.EINVAL, "")
        if found.st_mode & 0o111:
            raise OSError(errno.ENOEXEC, "")
        _write(handle, data)
    finally:
        os.close(handle)


def _replace(folder: str, path: str, data: bytes, uid: int) -> None:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
        raise OSError(errno.ENOTDIR, "")
    beside = f"{path}.{os.urandom(8).hex()}.new"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                     0o600)
    try:
        try:
            _write(handle, data)
        finally:
            os.close(handle)
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view):]
