"""
/dev/kmsg: the kernel's log, record by record, from where the last reading ended.

    4,444,758211829,-;Lustre: ...        one read(2): one record
     SUBSYSTEM=net                       more lines of it, each after a blank

The kernel keeps its log in a ring.  Who is too slow gets EPIPE, and then the oldest record that is
still there; the sequence numbers tell how many are gone.  A regular file or a FIFO in its place, as
of a simulated storage server, is read as well: there a read gives many records, or a part of one.

Source: devkmsg_read(), kernel/printk/printk.c.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "kmsg"
_RECORD = 8192                          # CONSOLE_EXT_LOG_MAX; newer kernels have less
_PART = 1 << 16                         # of a file, read at once
_LARGEST = 2**63


class KernelMessages:
    """
    The open log.

    Attributes:
        sequence, usec: of the last record taken; -1 before the first.
        lost: records that were overwritten before they were read.
    """

    NAME = NAME

    def __init__(self, path: str, sequence: int = -1, usec: int = -1) -> None:
        """
        `sequence`, `usec`: of the last record that was taken before.  OSError where it may not be
        read, or is no log.
        """
        self.path, self.sequence, self.usec = path, sequence, usec
        self.lost = 0
        self._open()

    def _open(self) -> None:
        flags = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        mode = os.stat(self.path).st_mode
        # A FIFO that is open for writing, too, has no end when a writer goes.
        self.handle = os.open(self.path, flags | (
            os.O_RDWR if stat.S_ISFIFO(mode) else os.O_RDONLY))
        found = os.fstat(self.handle)
        self._is_device, self._is_regular = (stat.S_ISCHR(found.st_mode),
                                             stat.S_ISREG(found.st_mode))
        self._file = (found.st_dev, found.st_ino)
        self._rest, self._is_cut = b"", False
        self._is_new = True                     # the next record may have been taken before
        if not (self._is_device or self._is_regular or stat.S_ISFIFO(found.st_mode)):
            os.close(self.handle)
            raise OSError(22, "Neither a device, nor a FIFO, nor a regular file", self.path)

    def fileno(self) -> int:
        """For select(); -1 where there is nothing to wait for."""
        return -1 if self._is_regular else self.handle

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def read(self, take: Callable[[bytes], None], lost: Callable[[int, int, int], None],
             most: int) -> bool:
        """
        Give up to `most` records, or somewhat more, to `take`; whether it came to the end.

        `lost(count, sequence, usec)`: that `count` records are gone, behind the one with this
        number, and before one of this time.  OSError where the log can no longer be read.
        """
        if self._is_device:
            return self._read_device(take, lost, most)
        return self._read_file(take, lost, most)

    def _read_device(self, take: Callable[[bytes], None], lost: Callable[[int, int, int], None],
                     most: int) -> bool:
        read, handle, last, size = os.read, self.handle, b"", _RECORD
        try:
            for _ in range(most):
                try:
                    data = read(handle, size)
                except BlockingIOError:
                    return True
                except BrokenPipeError:                 # the ring went round
                    self._note(last)
                    last, self._is_new = b"", True
                    continue
                except OSError as error:
                    if error.errno != 22 or size > _PART:
                        raise
                    size = 2 * _PART                    # a record that is longer than any is today
                    continue
                if not data:
                    return True
                if self._is_new and not self._is_next(data, lost):
                    continue
                last = data
                take(data)
            return False
        finally:
            self._note(last)

    def _read_file(self, take: Callable[[bytes], None], lost: Callable[[int, int, int], None],
                   most: int) -> bool:
        taken, is_reopened = 0, False
        while taken < most:
            try:
                part = os.read(self.handle, _PART)
            except BlockingIOError:
                return True
            if not part:
                # Once: a file of /proc or of FUSE may show no size, whatever can be read of it.
                if is_reopened or not self._is_another():
                    return True
                self.close()
                self._open()
                is_reopened = True
                continue
            lines = (self._rest + part).split(b"\n")
            self._rest = lines.pop()
            if self._is_cut:                            # the end of a line that was too long
                if not lines:
                    self._rest = b""
                    continue
                del lines[0]
                self._is_cut = False
            if len(self._rest) > _PART:
                self._rest, self._is_cut = b"", True
            for line in lines:
                if line[:1] == b" ":                    # a KEY=value of the record before
                    continue
                self._is_new = True                     # each is looked at: it is no ring
                if self._is_next(line, lost):
                    take(line)
                    self._note(line)
                    taken += 1
        return False

    def _is_another(self) -> bool:
        """Whether another file stands in its place, or it was cut."""
        if not self._is_regular:
            return False
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return ((found.st_dev, found.st_ino) != self._file
                or found.st_size < os.lseek(self.handle, 0, os.SEEK_CUR))

    def _is_next(self, data: bytes, lost: Callable[[int, int, int], None]) -> bool:
        """Whether a record was not taken before; and those before it that are gone are told."""
        sequence, usec = _numbers(data)
        if sequence < 0:
            return False
        # Without a number it was journald that was read until then.
        if usec <= self.usec and (sequence <= self.sequence or self.sequence < 0):
            return False
        self._is_new = False
        gone = sequence - self.sequence - 1
        if self.sequence >= 0 and gone > 0:
            self.lost += gone
            lost(gone, self.sequence, usec)
        return True

    def _note(self, data: bytes) -> None:
        if data:
            sequence, usec = _numbers(data)
            if sequence >= 0:
                self.sequence, self.usec = sequence, usec


def _numbers(data: bytes) -> tuple[int, int]:
    """(sequence, usec) of a record; (-1, -1) where it has none."""
    fields = data[:100].split(b",", 3)
    if len(fields) < 4 or not (fields[1].isdigit() and fields[2].isdigit()):
        return -1, -1
    sequence, usec = int(fields[1]), int(fields[2])
    return (sequence, usec) if sequence < _LARGEST and usec < _LARGEST else (-1, -1)
