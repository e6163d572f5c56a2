"""Writing a report to the file that an option names."""

from __future__ import annotations

import os
import stat

from iostats.base import private_files
from iostats.base.errors import StateError, UsageError


def check_writable(path: str) -> None:
    """UsageError, before any work, where a report could not be written."""
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory) or not os.access(directory, os.W_OK):
        raise UsageError(f"{path}: cannot be written: {directory} is not a directory we may write "
                         "to")


def write_report(path: str, text: str | bytes) -> None:
    """
    Write `path` whole or not at all; append to what is no regular file; StateError.

    The file behind a link is written anew, unless the process has it open already, as standard
    output is: to that others write as well.

    Those of another user are refused: somebody who expects a report there may have put a link to
    one of our files, or a FIFO that is never read.
    """
    data = text.encode() if isinstance(text, str) else text
    try:
        found = _not_replaceable(path)
        if found is not None and found.st_uid not in (0, os.geteuid()):
            raise StateError(f"{path}: not written: it is a link, or no plain file, of user "
                             f"{found.st_uid}; remove it, or name another file")
        if found is not None:
            with open(path, "ab") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and not _is_open_here(
                        file.fileno()):
                    file.truncate(0)
                file.write(data)
            return
        private_files.write_whole(path, data, mode=None)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from None


def _is_open_here(file: int) -> bool:
    """Whether another descriptor of the process is of the same file, such as standard output."""
    mine = os.fstat(file)
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) != file and os.path.samestat(os.fstat(int(name)), mine):
                return True
        except OSError:
            pass                                     # the directory's own, closed by now
    return False


def _not_replaceable(path: str) -> os.stat_result | None:
    """
    The status of what must not be replaced by a file; None for a file, or nothing.

    A link must not: root would replace /dev/stdout by a file, and what other programs write there
    would end up in it.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(found.st_mode) else found
