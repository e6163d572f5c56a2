"""
Files as this project keeps them: whole or not at all, in directories of one user alone, and never
through another user's link.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from iostats.base.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_BYTES = 64 << 20                 # real ones have some kB; a report of a long job is larger


_READ_WITHIN_S = 2.0


def open_regular(path: str) -> int:
    """
    A handle of the regular file `path`; OSError.

    A FIFO, or a device, is neither waited for nor read; the files of /proc and debugfs, whose size
    is 0, are regular.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
        raise OSError(code, "Is a directory" if code == errno.EISDIR else "Not a regular file",
                      path)
    return handle


def read_text(path: str, of_any_kind: bool = False) -> str:
    """
    The whole file as text, one character a byte; `of_any_kind`: a pipe too, as of a shell's <(...).

    A statistics file gives at most one of the kernel's buffers for each read(2), and its size
    is 0, so it is read until there is no more (seq_read(), fs/seq_file.c).  One that does not end,
    or that trickles, is refused: it would keep all others back.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if of_any_kind else open_regular(path)
    try:
        parts: list[bytes] = []
        size, ends = 0, None
        while True:
            part = os.read(handle, 1 << 16)
            if not part:
                return b"".join(parts).decode("latin-1")
            parts.append(part)
            size += len(part)
            if of_any_kind:
                continue
            now = time.monotonic()
            ends = now + _READ_WITHIN_S if ends is None else ends
            if size > _MOST_BYTES or now > ends:
                code = errno.EFBIG if size > _MOST_BYTES else errno.ETIMEDOUT
                raise OSError(code, os.strerror(code), path)
    finally:
        os.close(handle)


def write_whole(path: str, data: bytes | Iterable[bytes], replace: bool = True,
                mode: int | None = 0o600, sync: bool = True) -> bool:
    """
    Write `data`, or its parts, to `path`: the file is there whole or not at all, also after a
    crash; of the machine, only where `sync`, which takes milliseconds.

    False when there is one already, and not `replace`; a link at `path` is replaced, not followed.
    `mode`: None for what the umask makes of 0666.  Raises OSError, and leaves nothing then.
    """
    # In a directory of many another user could put a link there first: a name nobody guesses.
    beside = f"{path}.{os.urandom(8).hex()}.new"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                     0o666 if mode is None else 0o600)
    try:
        try:
            if mode not in (None, 0o600):
                os.fchmod(handle, mode)                # whatever the umask is
            for part in (data,) if isinstance(data, bytes) else data:
                view = memoryview(part)
                while view:
                    view = view[os.write(handle, view):]
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)
        if replace:
            os.rename(beside, path)
            return True
        try:
            os.link(beside, path)
        except FileExistsError:
            return False
        return True
    finally:
        forget(beside)


def forget(path: str) -> None:
    """Remove `path`, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def make_private(directory: str, how: str) -> None:
    """
    Make `directory`, if it is not there; StateError where it is not this user's alone.

    `how`: how to name another one.
    """
    make_or_explain(directory, how)
    check_private(directory, how)


def make_or_explain(directory: str, how: str) -> None:
    """Make `directory`, if it is not there; StateError, with `how` as of make_private."""
    try:
        make_directories(directory)
    except OSError as error:
        raise StateError(f"{directory}: cannot be made: {why(error)}; name another directory "
                         f"{how}") from None


def check_private(directory: str, how: str) -> None:
    """StateError where `directory` is not this user's alone; `how` as of make_private."""
    try:
        wrong = what_is_wrong(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(f"{directory}: cannot be read: {error.strerror}") from None
    if wrong:
        raise StateError(f"{directory}: expected a directory of user {os.geteuid()} with mode "
                         f"0700, got {wrong}; fix it, or name another {how}")


def make_directories(path: str) -> None:
    """
    Make the directory `path`, and those above it, where they are not there, for this user alone.

    os.makedirs makes those above it as the umask is: with 0 another user could put his own
    directory in the place of ours.  Raises OSError.
    """
    path = os.path.abspath(path)
    if os.path.isdir(path):
        return
    if not os.path.lexists(os.path.dirname(path)):
        make_directories(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def why(error: OSError) -> str:
    """What the kernel says, and of a unit of systemd what to do about it."""
    if error.errno == errno.EROFS and os.environ.get("INVOCATION_ID"):
        return (f"{error.strerror} (for this unit: name it there in ReadWritePaths=, which make "
                f"install-... does by site.cfg)")
    return error.strerror or str(error)


def what_is_wrong(path: str) -> str | None:
    """None when `path` is a directory of this user alone, else what it is instead."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        return "a link or a file"
    if found.st_uid != os.geteuid():
        return f"a directory of user {found.st_uid}"
    if found.st_mode & 0o077:
        return f"a directory of mode {stat.S_IMODE(found.st_mode):04o}"
    return None


def not_kept(path: str, error: OSError, how: str) -> StateError:
    return StateError(f"{path}: cannot be kept: {why(error)}; name another directory {how}")
