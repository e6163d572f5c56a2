"""
The journal of a job's server: each message is on its node's disk before it is acknowledged.

If the server is killed, the next server of the job on that node counts the messages again, and the
nodes need not send them again.

    file    = record record*
    record  = LENGTH CRC CHECK payload     three numbers of 32 bits, little-endian: the payload's
                                           bytes, its crc32, and these two and a third one by XOR
    payload = "whose" LF JSON              the first one: run of the job, and boot of the node
            | "totals" LF JSON             all earlier messages, added up
            | "node " NAME LF JSON         a counted message, as it arrived; NAME sent it

A message is added by one write.  If that was interrupted the record is shorter than its length: the
message was not acknowledged, and is ignored.  Any other damage is reported.  Nothing is synced: the
file outlives the process, not the machine, whose end is the job's end (see `boot_id`).

The file is locked while its server runs.  It belongs to the user, in the directory of
start_files.py, and is removed when the report is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from zlib import crc32

from iostats import schedulers
from iostats.base import private_files
from iostats.base.errors import StateError
from iostats.base.packed import unpack_integers
from iostats.node import identity, start_files

_FORMAT = 1
HEAD, CHECK_MASK = struct.Struct("<III"), 0x6a6f7572
_MIN_BYTES_BETWEEN = 64 << 20   # bytes between two replacements by totals
_TIMES_TOTALS = 8               # or this many times the bytes of totals, if more
_LOCKED_WITHIN_S, _POLL_EVERY_S = 1.0, 0.02  # a server killed this moment may still hold it
_WILL_BE_LOST = "continuing, but what is counted will be lost if this server is killed"


@contextlib.contextmanager
def open_job_journal(directory: str, job: str,
                     emit: Callable[[str], None]) -> Iterator[Journal | None]:
    """
    A context: the Journal of `job` on this node, removed at the end unless the block fails.

    None if there can be none; `emit` gets the reason.  `directory`: as of
    start_files.open_start_files.
    """
    journal = None
    try:
        journal = open_journal(directory, job, emit)
    except StateError as error:
        emit(f"{error}; {_WILL_BE_LOST}")
    except OSError as error:
        emit(f"{directory or start_files.TMP}: {error.strerror}; {_WILL_BE_LOST}")
    is_done = False
    try:
        yield journal
        is_done = True
    except BrokenPipeError:  # the reader of the report has closed the pipe
        is_done = True
        raise
    except StateError as error:                        # the report could not be written
        if journal is None or not journal.has_all:
            raise
        raise StateError(f"{error}; the counts are stored: run the same command again"
                         ) from None
    finally:
        if journal is not None:
            journal.close(is_done)


def open_journal(directory: str, job: str, emit: Callable[[str], None]) -> Journal:
    """
    The Journal of `job` on this node, locked; StateError or OSError.  Parameters as of
    open_job_journal().
    """
    about = schedulers.detect_scheduler(os.environ).about(os.environ)
    run = f"{about['job']} {about.get('attempt') or 0}" if about.get("job") else ""
    return Journal(start_files.open_start_files(directory, job, identity.find_node_name(),
                                          holds=lambda files: os.path.lexists(files.journal_path)),
                   {"form": _FORMAT, "job": job, "run": run, "boot_id": identity.read_boot_id()},
                   emit)


class Journal:
    """
    The file of one server, created and locked; StateError or OSError.

    `owner`: JSON object; `emit`: gets a line about what is wrong with the file, once.

    Attributes:
        owner: which run of which job, in which boot; the first record of the file.
        replace_at: bytes of the file at which its messages are to be replaced by totals.
    """

    def __init__(self, files: start_files.StartFiles, owner: dict[str, object],
                 emit: Callable[[str], None]) -> None:
        self.path, self._files, self.owner, self._warn = files.journal_path, files, owner, emit
        self._beside = self.path + ".next"             # `stop` of a node removes those named ".new"
        self._handle = self._open_locked()
        self._end = self.replace_at = 0
        self._holds_any = os.fstat(self._handle).st_size > 0
        self._is_well = True              # False: writing has failed
        with contextlib.suppress(OSError):
            private_files.remove_if_present(self._beside)  # left by a server that was killed

    # -- messages of an earlier server ---------------------------------------------------------

    def read(self) -> Iterator[tuple[str | None, bytes]]:
        """
        Yield (node, message), or (None, totals), of everything an earlier server had counted.

        Read it to its end before anything is added.
        """
        any_found = False
        try:
            for message in self._read():
                any_found = True
                yield message
        except OSError as error:
            self._is_well = False
            self._warn(f"{self.path}: cannot be read: {error.strerror}; continuing without the "
                       f"counts of an earlier server of this job")
            return
        self._holds_any = any_found
        try:
            if os.fstat(self._handle).st_size > self._end:
                os.ftruncate(self._handle, self._end)
            if not self._end:
                self._write(b"whose\n", json.dumps(self.owner).encode())
        except OSError as error:
            self._give_up(error)
        self.replace_at = self._end + _MIN_BYTES_BETWEEN

    def _read(self) -> Iterator[tuple[str | None, bytes]]:
        damaged = 0
        with open(self._handle, "rb", closefd=False) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            while size - self._end >= HEAD.size:
                length, crc, check = unpack_integers(HEAD, file.read(HEAD.size))
                if length ^ crc ^ CHECK_MASK != check:
                    self._warn(f"{self.path}: damaged from byte {self._end} on: later counts "
                               f"of an earlier server of this job are lost")
                    break
                if length > size - self._end - HEAD.size:
                    break                              # its write was interrupted
                payload = file.read(length)
                is_first, self._end = self._end == 0, self._end + HEAD.size + length
                kind, _, body = payload.partition(b"\n")
                if crc32(payload) != crc:
                    damaged, kind = damaged + 1, b""
                if is_first:
                    wrong = self._describe_other_owner(body) if kind == b"whose" else "damaged"
                    if wrong:
                        self._warn(f"{self.path}: {wrong}: its content is not counted")
                        self._end = 0
                        return
                elif kind == b"totals" or kind.startswith(b"node "):
                    sender = kind[len(b"node "):].decode("ascii", "replace")
                    yield None if kind == b"totals" else sender, body
        if damaged:
            self._warn(f"{self.path}: {damaged} of its messages {'is' if damaged == 1 else 'are'} "
                       f"damaged: these counts of an earlier server of this job are "
                       f"lost")

    def _describe_other_owner(self, body: bytes) -> str:
        """The run, job or boot of the file if it differs from this server's; "" if not."""
        try:
            head: dict[str, object] = json.loads(body)
            if head["form"] != _FORMAT:
                return "of another release of iostats"
            if head["job"] != self.owner["job"]:
                return "of another job"
            if head["boot_id"] != self.owner["boot_id"]:
                return "from before this node's boot"
            # One of them may have been started by hand, without a batch system's variables.
            if head["run"] and self.owner["run"] and head["run"] != self.owner["run"]:
                return "of an earlier run of this job"
        except (ValueError, KeyError, TypeError, RecursionError):
            return "damaged"
        return ""

    def refused(self, why: str) -> None:
        """Report that totals of an earlier server are not counted."""
        self._warn(f"{self.path}: totals of an earlier server of this job are not counted: {why}")

    # -- what this server counts ---------------------------------------------------------------

    @property
    def has_all(self) -> bool:
        """True if the journal has all counts, and at least one."""
        return self._is_well and self._holds_any

    def add(self, sender: str, message: bytes) -> None:
        """Append a counted message; a disk failure is reported once."""
        if self._is_well:
            self._holds_any = True
            try:
                self._write(b"node %s\n" % sender.encode(), message)
            except OSError as error:
                self._give_up(error)

    @property
    def is_long(self) -> bool:
        """True if it is time to replace the messages by totals."""
        return self._end > self.replace_at and self._is_well

    def replace(self, totals: bytes) -> None:
        """Replace the messages by their `totals`; if the disk fails, the file stays unchanged."""
        handle, before, end = None, self._handle, self._end
        try:
            private_files.remove_if_present(self._beside)
            handle = os.open(self._beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
                             | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._handle, self._end = handle, 0
            self._write(b"whose\n", json.dumps(self.owner).encode())
            self._write(b"totals\n", totals)
            try:
                os.rename(self._beside, self.path)
            except OSError:
                if not _is_same_file(handle, self.path):      # else it succeeded, with an error
                    raise
            handle = before
        except OSError:
            self._handle, self._end = before, end
            with contextlib.suppress(OSError):
                private_files.remove_if_present(self._beside)
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)                       # the unused one of the two
        self.replace_at = self._end + max(_MIN_BYTES_BETWEEN, _TIMES_TOTALS * len(totals))

    def fileno(self) -> int:
        """The descriptor of the open file."""
        return self._handle

    def close(self, is_done: bool) -> None:
        """Close it; remove it if all its counts are in a report, or there are none."""
        if is_done or not self._holds_any:
            # While it is locked: whoever waits for the lock checks the path again.
            with contextlib.suppress(OSError):
                private_files.remove_if_present(self.path)
        os.close(self._handle)
        self._files.leave()

    # -- the file ------------------------------------------------------------------------------

    def _open_locked(self) -> int:
        ends = time.monotonic() + _LOCKED_WITHIN_S
        while True:
            try:
                handle = self._create()
            except FileNotFoundError:                  # another job has just removed it
                os.mkdir(self._files.directory, 0o700)
                handle = self._create()
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same_file(handle, self.path):
                    return handle
            except BlockingIOError:
                if time.monotonic() > ends:
                    os.close(handle)
                    raise StateError(f"{self.path}: another server of this job runs on this node"
                                     ) from None
                time.sleep(_POLL_EVERY_S)
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def _create(self) -> int:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
                             | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StateError(f"{self.path}: cannot be open_journal: {error.strerror}") from None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            os.close(handle)
            raise StateError(f"{self.path}: expected a regular file of user {os.geteuid()}, got "
                             f"another kind, or one of user {status.st_uid}; remove it")
        return handle

    def _write(self, kind: bytes, body: bytes) -> None:
        length, crc = len(kind) + len(body), crc32(body, crc32(kind))
        parts = HEAD.pack(length, crc, length ^ crc ^ CHECK_MASK), kind, body
        written = os.writev(self._handle, parts)
        if written < HEAD.size + length:              # the next write fails, with the reason
            rest = b"".join(parts)[written:]
            while rest:
                rest = rest[os.write(self._handle, rest):]
        self._end += HEAD.size + length

    def _give_up(self, error: OSError) -> None:
        self._is_well = False
        with contextlib.suppress(OSError):  # else the next server reads an incomplete record
            os.ftruncate(self._handle, self._end)
        self._warn(f"{self.path}: {error.strerror}; {_WILL_BE_LOST}")


def _is_same_file(handle: int, path: str) -> bool:
    """True if the open file is the one at `path`."""
    try:
        at_path = os.lstat(path)
    except FileNotFoundError:
        return False
    opened = os.fstat(handle)
    return (at_path.st_dev, at_path.st_ino) == (opened.st_dev, opened.st_ino)
