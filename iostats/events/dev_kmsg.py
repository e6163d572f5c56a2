"""
The kernel's log, record by record, after the last one that was read: /dev/kmsg, or journald's copy
where /dev/kmsg may not be read.

    4,444,758211829,-;Lustre: ...        one read(2): one record
     SUBSYSTEM=net                       more lines of it, each after a blank

The kernel's log is a ring.  A slow reader gets EPIPE, and then the oldest remaining record; the
sequence numbers show how many were lost.  A regular file or a FIFO in its place, as of a simulated
storage server, is read as well: there a read returns many records, or a part of one.

    {"__CURSOR":"s=...","_TRANSPORT":"kernel","SYSLOG_FACILITY":"0","PRIORITY":"4",
     "_SOURCE_MONOTONIC_TIMESTAMP":"758211829","MESSAGE":"Lustre: ...",...}

journalctl prints a line of JSON for each entry; the next reading starts after the last cursor.
Entries are converted to records of /dev/kmsg: they have the kernel's own time, so the events have
the same ids.  Lines that programs wrote to /dev/kmsg are in the journal as well, with the facility
they had there; fields that begin with _ are journald's own.

Source: devkmsg_read(), kernel/printk/printk.c; journal-fields(7), systemd.journal-fields(7);
dev_kmsg_record(), journald-kmsg.c.
"""

from __future__ import annotations

import json
import os
import re
import select
import stat
import time

from iostats.base.errors import sanitize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen

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
        """`sequence`, `usec`: of the last record read before.  OSError if the log cannot be read.
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
        status = os.fstat(self.handle)
        self._is_device, self._is_regular = (stat.S_ISCHR(status.st_mode),
                                             stat.S_ISREG(status.st_mode))
        self._file = (status.st_dev, status.st_ino)
        self._rest, self._is_cut = b"", False
        self._is_new = True                     # the next record may have been taken before
        if not (self._is_device or self._is_regular or stat.S_ISFIFO(status.st_mode)):
            os.close(self.handle)
            raise OSError(22, "Neither a device, nor a FIFO, nor a regular file", self.path)

    def fileno(self) -> int:
        """A descriptor for select(); -1 if there is nothing to wait for."""
        return -1 if self._is_regular else self.handle

    def close(self) -> None:
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def read(self, take: Callable[[bytes], None], lost: Callable[[int, int, int], None],
             max_records: int) -> bool:
        """
        Pass up to `max_records` records, or a few more, to `take`; True if the end was reached.

        `lost(count, sequence, usec)`: `count` records were overwritten, behind the one with this
        number, and before one of this time.  OSError where the log can no longer be read.
        """
        if self._is_device:
            return self._read_device(take, lost, max_records)
        return self._read_file(take, lost, max_records)

    def _read_device(self, take: Callable[[bytes], None], lost: Callable[[int, int, int], None],
                     max_records: int) -> bool:
        read, handle, last, size = os.read, self.handle, b"", _RECORD
        try:
            for _ in range(max_records):
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
                   max_records: int) -> bool:
        count, is_reopened = 0, False
        while count < max_records:
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
                self._is_new = True                     # every record is read: it is no ring
                if self._is_next(line, lost):
                    take(line)
                    self._note(line)
                    count += 1
        return False

    def _is_another(self) -> bool:
        """True if the path has another file now, or the file was truncated."""
        if not self._is_regular:
            return False
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return ((status.st_dev, status.st_ino) != self._file
                or status.st_size < os.lseek(self.handle, 0, os.SEEK_CUR))

    def _is_next(self, data: bytes, lost: Callable[[int, int, int], None]) -> bool:
        """True for a record that is new; records lost before it are reported."""
        sequence, usec = _parse_sequence_and_time(data)
        if sequence < 0:
            return False
        # Without a number it was journald that was read until then.
        if usec <= self.usec and (sequence <= self.sequence or self.sequence < 0):
            return False
        self._is_new = False
        lost_records = sequence - self.sequence - 1
        if self.sequence >= 0 and lost_records > 0:
            self.lost += lost_records
            lost(lost_records, self.sequence, usec)
        return True

    def _note(self, data: bytes) -> None:
        if data:
            sequence, usec = _parse_sequence_and_time(data)
            if sequence >= 0:
                self.sequence, self.usec = sequence, usec


def _parse_sequence_and_time(data: bytes) -> tuple[int, int]:
    """Return (sequence, usec) of a record; (-1, -1) where it has none."""
    fields = data[:100].split(b",", 3)
    if len(fields) < 4 or not (fields[1].isdigit() and fields[2].isdigit()):
        return -1, -1
    sequence, usec = int(fields[1]), int(fields[2])
    return (sequence, usec) if sequence < _LARGEST and usec < _LARGEST else (-1, -1)


JOURNALD = "journald"
_COMMAND = ("journalctl", "-b", "-q", "-a", "-o", "json", "--no-pager")
_MISSED = "e9bf28e6e834481bb6f48f548ad13606"        # SD_MESSAGE_JOURNAL_MISSED
_MATCHES = ("_TRANSPORT=kernel", "+", f"MESSAGE_ID={_MISSED}")
_WITHIN_S = 20.0                        # without a byte from journalctl
_LONGEST = 1 << 18                      # bytes of an entry
_LONGEST_TEXT = 4096
_LONGEST_CURSOR = 1000
# In an entry that is ours; a message that is no text is an array of numbers.
_OURS = re.compile(rb'Lustre|LNet|"MESSAGE" ?: ?\[|' + _MISSED.encode())


class JournalMessages:
    """
    The log, as journalctl shows it.

    Attributes:
        path: the command, for messages.
        sequence: always -1: the kernel's numbers are not in the journal.
        usec: the log's time of the last line taken; -1 before the first.
        cursor: of the last entry; "" before the first.
        lost: lines that journald says it missed.
    """

    NAME = JOURNALD

    def __init__(self, cursor: str = "", usec: int = -1) -> None:
        """
        `cursor`, `usec`: the values after the last reading.  OSError if journalctl shows nothing.
        """
        self.path, self.sequence, self.usec, self.cursor = _COMMAND[0], -1, usec, cursor
        self.lost = 0
        self._skip = -1 if cursor else usec     # the log was read elsewhere up to here
        self._seen = bool(cursor)
        if not cursor and not any(True for _ in self._read_entries(("-n", "1"), 1)):
            raise OSError(13, "shows no line of the kernel: is this user in the group "
                              "systemd-journal?", self.path)

    def fileno(self) -> int:
        """-1: there is nothing to wait for."""
        return -1

    def close(self) -> None:
        """Do nothing: no file stays open between two readings."""

    def read(self, take: Callable[[bytes], None], lost: Callable[[int, int, int], None],
             max_records: int) -> bool:
        """
        Read all entries since the last cursor, even above `max_records`.
        """
        after = (f"--after-cursor={self.cursor}",) if self.cursor else ()
        for line in self._read_entries(after, 0):
            cursor = _parse_cursor(line)
            if cursor:
                self.cursor = cursor
            if not _OURS.search(line):
                continue
            try:
                entry = json.loads(line)
                record = parse_entry(entry)
            except (ValueError, RecursionError, TypeError, AttributeError):
                continue
            if record is None:
                continue
            data, usec, missed = record
            if usec <= self._skip:
                continue
            if missed:
                self.lost += missed
                lost(missed, usec, usec)
            else:
                take(data)
                self.usec = max(self.usec, usec)
        return True

    def _read_entries(self, options: tuple[str, ...], max_entries: int) -> Iterator[bytes]:
        """The lines that journalctl prints; OSError where it fails."""
        import subprocess
        try:
            process = subprocess.Popen(
                [*_COMMAND, *options, *_MATCHES], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0"})
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None
        n = 0
        try:
            for line in _read_lines(process):
                yield line
                n += 1
                if n == max_entries:
                    return
            process.wait(_WITHIN_S)
            assert process.stderr is not None
            errors = process.stderr.read(1000).decode("utf-8", "replace").strip()
            if process.returncode and not n:
                why = errors.partition("\n")[0] or f"exit status {process.returncode}"
                if "seek to cursor" in errors and self.cursor:
                    self.cursor, self._skip = "", self.usec         # the journal was rotated
                    return
                raise OSError(5, sanitize(why)[:200], self.path)
        except subprocess.TimeoutExpired:
            raise OSError(110, f"did not end within {_WITHIN_S:g} s", self.path) from None
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def _read_lines(process: Popen[bytes]) -> Iterator[bytes]:
    """Lines of the program's output, without those that are longer than any entry."""
    assert process.stdout is not None
    handle, rest, is_cut = process.stdout.fileno(), b"", False
    ready = select.poll()
    ready.register(handle, select.POLLIN)
    ends = time.monotonic() + _WITHIN_S
    while True:
        if not ready.poll(max(0.0, ends - time.monotonic()) * 1000):
            raise OSError(110, f"no answer within {_WITHIN_S:g} s", _COMMAND[0])
        part = os.read(handle, 1 << 16)
        ends = time.monotonic() + _WITHIN_S
        if not part:
            return
        lines = (rest + part).split(b"\n")
        rest = lines.pop()
        if is_cut and lines:
            del lines[0]
            is_cut = False
        if is_cut or len(rest) > _LONGEST:
            rest, is_cut = b"", True
        yield from lines


def _parse_cursor(line: bytes) -> str:
    """The cursor of an entry; journalctl prints it among the first fields, and once."""
    at = line.find(b'"__CURSOR"')
    if at < 0:
        return ""
    begins = line.find(b'"', line.find(b":", at)) + 1
    cursor = line[begins:line.find(b'"', begins)]
    return cursor.decode("ascii", "replace") if len(cursor) <= _LONGEST_CURSOR else ""


def parse_entry(entry: dict[str, object]) -> tuple[bytes, int, int] | None:
    """(record of /dev/kmsg, the log's time, lines missed before it) of an entry; None: neither."""
    text = entry.get("MESSAGE")
    if entry.get("MESSAGE_ID") == _MISSED and entry.get("_TRANSPORT") == "driver":
        numbers = [int(word) for word in str(text)[:100].split() if word.isdigit()]
        usec = int(str(entry["__MONOTONIC_TIMESTAMP"]))
        return (b"", usec, numbers[0]) if numbers and 0 < numbers[0] < 2**53 else None
    if entry.get("_TRANSPORT") != "kernel":
        return None
    facility, priority = str(entry.get("SYSLOG_FACILITY", "0")), str(entry.get("PRIORITY", "6"))
    stamp = str(entry.get("_SOURCE_MONOTONIC_TIMESTAMP", ""))
    if not (facility.isdigit() and priority.isdigit() and stamp.isdigit() and len(stamp) < 17):
        return None
    if isinstance(text, str):
        raw = text.encode("utf-8", "surrogatepass")
    elif isinstance(text, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in text):
        raw = bytes(text)
    else:
        return None
    number = int(facility[:5]) * 8 + int(priority[:5])
    data = b"%d,0,%s,-;%s\n" % (number, stamp.encode(), _escape(raw[:_LONGEST_TEXT]))
    return data, int(stamp), 0


def _escape(raw: bytes) -> bytes:
    """The text in the format of /dev/kmsg: a byte that is not printable ASCII is escaped."""
    if raw.isascii() and b"\\" not in raw and raw.decode().isprintable():
        return raw
    return b"".join(b"%c" % c if 32 <= c < 127 and c != 92 else b"\\x%02x" % c for c in raw)
