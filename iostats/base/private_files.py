"""
Safe files: written completely or not at all, in directories that belong to one user, never through
another user's link.
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
    Open the regular file `path` and return its descriptor; OSError.

    A FIFO or a device is refused without waiting; files of /proc and debugfs, whose size is 0, are
    regular.
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
    """
    return read_bytes(path, of_any_kind).decode("latin-1")


def read_bytes(path: str, of_any_kind: bool = False) -> bytearray:
    """
    The whole file.

    A statistics file gives at most one of the kernel's buffers for each read(2), and its size
    is 0, so it is read until there is no more (seq_read(), fs/seq_file.c).  One that does not end,
    or that trickles, is refused: it would keep all others back.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if of_any_kind else open_regular(path)
    try:
        data, ends = bytearray(), None
        while True:
            part = os.read(handle, 1 << 16)
            if not part:
                return data
            data += part
            if of_any_kind:
                continue
            now = time.monotonic()
            ends = now + _READ_WITHIN_S if ends is None else ends
            if len(data) > _MOST_BYTES or now > ends:
                code = errno.EFBIG if len(data) > _MOST_BYTES else errno.ETIMEDOUT
                raise OSError(code, os.strerror(code), path)
    finally:
        os.close(handle)


def read_if_readable(path: str) -> str:
    """The whole file as read_text() returns it; "" where it cannot be read."""
    try:
        return read_text(path)
    except OSError:
        return ""


def write_atomically(path: str, data: bytes | bytearray | Iterable[bytes], replace: bool = True,
                     mode: int | None = 0o600, sync: bool = True) -> bool:
    """
    Write `data`, or its parts, to `path`, completely or not at all, even if the process is killed;
    with `sync`, which takes milliseconds, also if the machine crashes.  Returns False if the file
    exists and `replace` is false; a link at `path` is replaced, not followed. `mode`: None for 0666
    less the umask.  Raises OSError, and leaves no file then.
    """
    # In a directory of many another user could put a link there first: a name nobody guesses.
    beside = f"{path}.{os.urandom(8).hex()}.new"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                     0o666 if mode is None else 0o600)
    try:
        try:
            if mode not in (None, 0o600):
                os.fchmod(handle, mode)                # whatever the umask is
            for part in (data,) if isinstance(data, (bytes, bytearray)) else data:
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
        remove_if_present(beside)


def remove_if_present(path: str) -> None:
    """Remove the file `path` if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def remove_unfinished(path: str) -> None:
    """
    Remove temporary files of `path` that killed processes left behind in write_atomically(); for a
    caller that is the only writer of `path`.  Files that cannot be removed stay.
    """
    directory, name = os.path.split(path)
    try:
        for entry in os.listdir(directory or "."):
            if entry.startswith(f"{name}.") and entry.endswith(".new"):
                remove_if_present(os.path.join(directory, entry))
    except OSError:
        pass


def make_private_directory(directory: str, how: str) -> None:
    """
    Create `directory` if it does not exist; StateError if others than this user have access. `how`:
    how to choose another directory, for the message.
    """
    make_directory(directory, how)
    check_private_directory(directory, how)


def make_directory(directory: str, how: str) -> None:
    """
    Create `directory` if it does not exist; StateError, with `how` as in make_private_directory.
    """
    try:
        make_directories(directory)
    except OSError as error:
        raise StateError(
            f"{directory}: cannot be made: {explain_error(error)}; name another directory "
            f"{how}") from None


def check_private_directory(directory: str, how: str) -> None:
    """
    Raise StateError if others than this user have access to `directory`; `how` as in
    make_private_directory.
    """
    try:
        wrong = explain_permissions(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(f"{directory}: cannot be read: {error.strerror}") from None
    if wrong:
        raise StateError(f"{directory}: expected a directory of user {os.geteuid()} with mode "
                         f"0700, got {wrong}; fix it, or name another {how}")


def make_directories(path: str) -> None:
    """
    Create the directory `path` and its missing parents for this user alone. os.makedirs creates the
    parents with the umask: if it is 0, another user could replace our directory.  Raises OSError.
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


def explain_error(error: OSError) -> str:
    """Return the kernel's message, and in a systemd unit also the setting to change."""
    if error.errno == errno.EROFS and os.environ.get("INVOCATION_ID"):
        return (f"{error.strerror} (for this unit: name it there in ReadWritePaths=, which make "
                f"install-... does by site.cfg)")
    return error.strerror or str(error)


def explain_permissions(path: str) -> str | None:
    """Return None if `path` is a directory of this user alone, else its description."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        return "a link or a file"
    if status.st_uid != os.geteuid():
        return f"a directory of user {status.st_uid}"
    if status.st_mode & 0o077:
        return f"a directory of mode {stat.S_IMODE(status.st_mode):04o}"
    return None


def find_unsafe_mode(status: os.stat_result) -> str | None:
    """Return None for a regular file that only its owner can read, else "mode 0640"."""
    if stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077:
        return None
    return f"mode {stat.S_IMODE(status.st_mode):04o}"


def make_write_error(path: str, error: OSError, how: str) -> StateError:
    """Return the StateError for a file that could not be written."""
    return StateError(
        f"{path}: cannot be written: {explain_error(error)}; name another directory {how}")
