"""
journald's copy of the kernel's log, for those who may not read /dev/kmsg.

    {"__CURSOR":"s=...","_TRANSPORT":"kernel","SYSLOG_FACILITY":"0","PRIORITY":"4",
     "_SOURCE_MONOTONIC_TIMESTAMP":"758211829","MESSAGE":"Lustre: ...",...}

journalctl prints a line of JSON for each entry, and the next reading asks for those after the last
cursor.  Entries are given on as records of /dev/kmsg: journald keeps the time that the kernel gave
the line, so the events have the same ids.  What programs wrote to /dev/kmsg is in the journal as
well, with the facility they had there; fields that begin with _ are journald's own.

Source: journal-fields(7), systemd.journal-fields(7); dev_kmsg_record(), journald-kmsg.c.
"""

from __future__ import annotations

import json
import os
import re
import select
import time

from iostats.base.errors import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen

NAME = "journald"
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

    NAME = NAME

    def __init__(self, cursor: str = "", usec: int = -1) -> None:
        """`cursor`, `usec`: as they were when it was read last.  OSError where it shows nothing."""
        self.path, self.sequence, self.usec, self.cursor = _COMMAND[0], -1, usec, cursor
        self.lost = 0
        self._skip = -1 if cursor else usec     # the log was read elsewhere up to here
        self._seen = bool(cursor)
        if not cursor and not any(True for _ in self._entries(("-n", "1"), 1)):
            raise OSError(13, "shows no line of the kernel: is this user in the group "
                              "systemd-journal?", self.path)

    def fileno(self) -> int:
        """-1: there is nothing to wait for."""
        return -1

    def close(self) -> None:
        """Nothing is left open between two readings."""

    def read(self, take: Callable[[bytes], None], lost: Callable[[int, int, int], None],
             most: int) -> bool:
        """As KernelMessages.read(); all entries since the last cursor, whatever `most` is."""
        after = (f"--after-cursor={self.cursor}",) if self.cursor else ()
        for line in self._entries(after, 0):
            cursor = _cursor(line)
            if cursor:
                self.cursor = cursor
            if not _OURS.search(line):
                continue
            try:
                entry = json.loads(line)
                found = record_of(entry)
            except (ValueError, RecursionError, TypeError, AttributeError):
                continue
            if found is None:
                continue
            data, usec, missed = found
            if usec <= self._skip:
                continue
            if missed:
                self.lost += missed
                lost(missed, usec, usec)
            else:
                take(data)
                self.usec = max(self.usec, usec)
        return True

    def _entries(self, options: tuple[str, ...], most: int) -> Iterator[bytes]:
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
            for line in _lines(process):
                yield line
                n += 1
                if n == most:
                    return
            process.wait(_WITHIN_S)
            assert process.stderr is not None
            said = process.stderr.read(1000).decode("utf-8", "replace").strip()
            if process.returncode and not n:
                why = said.partition("\n")[0] or f"exit status {process.returncode}"
                if "seek to cursor" in said and self.cursor:
                    self.cursor, self._skip = "", self.usec         # the journal was rotated
                    return
                raise OSError(5, one_line(why)[:200], self.path)
        except subprocess.TimeoutExpired:
            raise OSError(110, f"did not end within {_WITHIN_S:g} s", self.path) from None
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def _lines(process: Popen[bytes]) -> Iterator[bytes]:
    """Lines of its output; those that are longer than any entry are left out."""
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


def _cursor(line: bytes) -> str:
    """The cursor of an entry; journalctl prints it among the first fields, and once."""
    at = line.find(b'"__CURSOR"')
    if at < 0:
        return ""
    begins = line.find(b'"', line.find(b":", at)) + 1
    cursor = line[begins:line.find(b'"', begins)]
    return cursor.decode("ascii", "replace") if len(cursor) <= _LONGEST_CURSOR else ""


def record_of(entry: dict[str, object]) -> tuple[bytes, int, int] | None:
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
    elif isinstance(text, list) and all(isinstance(one, int) and 0 <= one < 256 for one in text):
        raw = bytes(text)
    else:
        return None
    number = int(facility[:5]) * 8 + int(priority[:5])
    data = b"%d,0,%s,-;%s\n" % (number, stamp.encode(), _escaped(raw[:_LONGEST_TEXT]))
    return data, int(stamp), 0


def _escaped(raw: bytes) -> bytes:
    """As /dev/kmsg shows it: what is not printable ASCII is \\xNN."""
    if raw.isascii() and b"\\" not in raw and raw.decode().isprintable():
        return raw
    return b"".join(b"%c" % c if 32 <= c < 127 and c != 92 else b"\\x%02x" % c for c in raw)
