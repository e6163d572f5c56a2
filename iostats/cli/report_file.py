"""
Writing a report to the file of an option.
"""

from __future__ import annotations

import os
import stat

from iostats.base import private_files
from iostats.base.errors import StateError, UsageError


def check_writable(path: str) -> None:
    """UsageError, before any work, if a report could not be written."""
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory) or not os.access(directory, os.W_OK):
        raise UsageError(f"{path}: cannot be written: {directory} is not a directory we may write "
                         "to")


def write_report(path: str, text: str | bytes) -> None:
    """
    Write `path` completely or not at all; append if it is no regular file; StateError.

    The file behind a link is overwritten, unless the process has it open already, such as standard
    output: others write to it as well.

    Links and special files of another user are refused: someone who expects a report there may have
    made a link to one of our files, or a FIFO that is never read.
    """
    data = text.encode() if isinstance(text, str) else text
    try:
        status = _status_if_special(path)
        if status is not None and status.st_uid not in (0, os.geteuid()):
            raise StateError(f"{path}: not written: it is a link, or no regular file, of user "
                             f"{status.st_uid}; remove it, or name another file")
        if status is not None:
            with open(path, "ab") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and not _is_open_elsewhere(
                        file.fileno()):
                    file.truncate(0)
                file.write(data)
            return
        private_files.write_atomically(path, data, mode=None)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from None


def _is_open_elsewhere(file: int) -> bool:
    """
    Whether the process has the same file open with another descriptor, such as standard output.
    """
    status = os.fstat(file)
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) != file and os.path.samestat(os.fstat(int(name)), status):
                return True
        except OSError:
            pass                                     # that of the directory itself, closed by now
    return False


def _status_if_special(path: str) -> os.stat_result | None:
    """
    The status of a path that must not be replaced; None for a regular file, or nothing.

    A link must not be replaced: root would replace /dev/stdout by a file, with the output of other
    programs in it.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(status.st_mode) else status
