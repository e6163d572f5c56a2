"""
A queue of messages on disk that wait for delivery: bounded in size, with a file for each message.

    DIRECTORY/NUMBER.RUN.MARK.message  the crc32 in a line, then the bytes; in the order of NUMBER.
                                       An entry without a run has no RUN.
    DIRECTORY/NAME.damaged             a file that could not be read back; the last ten are stored
    DIRECTORY/lock                     locked by the process that uses the directory; its process id

A run is a chain of entries: each has a meaning only together with all earlier ones, and the first
needs none.  When the size limit is reached, whole runs are dropped, the oldest first, so that the
rest can be used.  A file is complete or absent: after a kill at any moment the queue is valid.
"""

from __future__ import annotations

import os
import zlib
from collections import deque

from iostats.base import private_files
from iostats.base.errors import StateError
from iostats.base.named_tuple import NamedTuple
from iostats.base.private_files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BLOCK_BYTES = 4096                            # what the smallest file takes on a disk
_CHECKSUM_BYTES = 9                            # bytes of the line before an entry's
_MOST_DAMAGED = 10
_MESSAGE = ".message"


class Spooled(NamedTuple):
    """One entry of a Spool."""

    number: int     # its place in the queue
    run: str        # name of its chain; "" for an entry that stands alone
    mark: int       # an integer of who keeps it: its place in the chain, how much is in it
    size_bytes: int       # bytes that it takes on the disk
    name: str       # of its file


class Backlog(NamedTuple):
    """The messages that wait in a directory."""

    # messages, bytes: that wait
    messages: int
    bytes: int
    oldest: float   # when the oldest of them was kept, seconds since 1970; 0 for none
    damaged: int    # files that were put aside
    process: int    # number of the one that uses the directory; 0 for none


class SpoolFull(StateError):
    """There is no room for an entry, even if all older ones were dropped."""


class Spool:
    """
    The queue in one directory, which is created if necessary; raises StateError or OSError.

    Args:
        most_bytes: up to this much waits.
        section: of site.cfg, "[harvest]", whose spool_dir and spool_bytes these are, for messages;
            `prefix`: what the names of these keys begin with.
        ending: of the files' names.
        is_private: the directory has to be this user's alone, and one process has it at a time;
            `other`: what another one does.

    Attributes:
        directory: where it is.
        size_bytes: bytes on the disk that wait.
        most_bytes: may change at any time; what is too much goes when the next one comes.
    """

    def __init__(self, directory: str, most_bytes: int, section: str, ending: str = _MESSAGE,
                 is_private: bool = True, prefix: str = "",
                 use: str = "another agent harvests") -> None:
        self.directory, self.most_bytes, self._other = directory, most_bytes, use
        self._keys = f"{section} {prefix}"
        self._how = f"in site.cfg: {self._keys}spool_dir"
        self._ending, self._is_private = ending, is_private
        self._make_directory()
        self._lock = self._take_lock() if is_private else None
        self._queue = deque(sorted(self._scan_directory()))
        self.size_bytes = sum(message.size_bytes for message in self._queue)
        self._next = self._queue[-1].number + 1 if self._queue else 1

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Spooled]:
        return iter(self._queue)

    def close(self) -> None:
        """Release the lock, so that another process can use the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def append(self, run: str, mark: int, data: bytes) -> int:
        """
        Store `data` at the end; return the number of entries of older runs that were dropped for
        it.  Raises SpoolFull, or OSError if the disk refuses it.
        """
        dropped = self.make_room(data, run)
        self.require_room(data)
        self.add(self.write(run, mark, data))
        return len(dropped)

    def require_room(self, data: bytes) -> None:
        """Raise SpoolFull if there is no room for `data` beside the entries that wait."""
        if self.size_bytes + _compute_size(data) > self.most_bytes:
            raise SpoolFull(
                f"{self.directory}: expected at most {self.most_bytes} bytes, and one sweep "
                f"is more; set {self._keys}spool_bytes to more in site.cfg")

    def make_room(self, data: bytes, run: str = "") -> list[Spooled]:
        """
        Drop the oldest runs until there is room for `data`, and return their entries.  The run
        `run`, which is to be continued, is never dropped: there may still be too little room.
        """
        dropped: list[Spooled] = []
        while self._queue and self.size_bytes + _compute_size(data) > self.most_bytes:
            oldest = self._queue[0]
            if run and oldest.run == run:
                break
            entries = self._find_run(oldest.run) if oldest.run else [oldest]
            for entry in entries:
                self.remove(entry)
            dropped += entries
        return dropped

    def write(self, run: str, mark: int, data: bytes) -> Spooled:
        """
        Write the file of the next entry; raises OSError.  `add` puts it into the queue, so that a
        thread that takes entries does not wait for the disk.
        """
        name = f"{self._next:012d}.{run}{'.' * bool(run)}{mark}{self._ending}"
        packed = b"%08x\n" % zlib.crc32(data) + data
        try:
            private_files.write_atomically(self._find_path(name), packed)
        except FileNotFoundError:              # somebody has removed the directory
            self._make_directory()
            private_files.write_atomically(self._find_path(name), packed)
        self._next += 1
        return Spooled(self._next - 1, run, mark, _compute_size(data), name)

    def add(self, entry: Spooled) -> None:
        """Put an entry that `write` has written at the end of the queue."""
        self._queue.append(entry)
        self.size_bytes += entry.size_bytes

    def find_first(self,
                   is_skipped: Callable[[Spooled], bool] = lambda message: False) -> Spooled | None:
        """Return the oldest entry for which `is_skipped` is false; None if there is none."""
        return next((message for message in self._queue if not is_skipped(message)), None)

    def load(self, entry: Spooled) -> bytes:
        """Read the bytes of an entry; StateError if they are not the bytes that were stored."""
        path = self._find_path(entry.name)
        try:
            with open(path, "rb") as file:
                stored = file.read()
        except OSError as error:
            raise StateError(f"{path}: a message that waited is damaged: "
                             f"{error.strerror}") from None
        line, data = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
        if line == b"%08x\n" % zlib.crc32(data):
            return data
        raise StateError(f"{path}: a message that waited is damaged: its checksum differs")

    def remove(self, entry: Spooled) -> None:
        """Remove an entry that was delivered."""
        self._queue.remove(entry)
        self.size_bytes -= entry.size_bytes
        self._remove_file(self._find_path(entry.name))

    def set_aside(self, entry: Spooled) -> None:
        """Rename a damaged file, so that a person can examine it and it is not sent again."""
        path = self._find_path(entry.name)
        self._queue.remove(entry)
        self.size_bytes -= entry.size_bytes
        try:
            os.rename(path, path + ".damaged")
        except OSError:
            self._remove_file(path)
        try:
            damaged = sorted(name for name in os.listdir(self.directory)
                             if name.endswith(".damaged"))
        except OSError:
            return
        for name in damaged[:-_MOST_DAMAGED]:
            self._remove_file(self._find_path(name))

    def drop(self, run: str, from_mark: int = 0) -> int:
        """
        Remove all entries of a run, or those with a mark of at least `from_mark`; return their
        number.
        """
        entries = [message for message in self._find_run(run) if message.mark >= from_mark]
        for entry in entries:
            self.remove(entry)
        return len(entries)

    def _find_run(self, run: str) -> list[Spooled]:
        """Return the entries of a run."""
        return [message for message in self._queue if message.run == run]

    @staticmethod
    def _remove_file(path: str) -> None:
        """Remove a file; if the disk fails it stays, and is recognized when it is sent again."""
        try:
            private_files.remove_if_present(path)
        except OSError:
            pass

    def _find_path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _make_directory(self) -> None:
        make = (private_files.make_private_directory if self._is_private else
                private_files.make_directory)
        make(self.directory, self._how)

    def _scan_directory(self) -> Iterator[Spooled]:
        """Read the entries from the names of the files."""
        for name in os.listdir(self.directory):
            path = self._find_path(name)
            if name.endswith(".new"):          # of a writer that was killed
                private_files.remove_if_present(path)
                continue
            parts = name[:-len(self._ending)].split(".")
            if (name.endswith(self._ending) and name.isascii() and len(parts) in (2, 3)
                    and parts[0].isdigit() and parts[-1].isdigit()):
                yield Spooled(int(parts[0]), parts[1] if len(parts) == 3 else "", int(parts[-1]),
                              max(_BLOCK_BYTES, os.lstat(path).st_size), name)

    def _take_lock(self) -> int:
        """Lock the directory for this process; StateError names the process that has the lock."""
        import fcntl
        path = os.path.join(self.directory, "lock")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateError(
                f"{path}: cannot be made: {private_files.explain_error(error)}; name another "
                f"{self._how}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(handle, 32).decode("ascii", "replace").strip()
            os.close(handle)
            raise StateError(f"{path}: {self._other} on this machine (process "
                             f"{holder or 'unknown'}); stop it first") from None
        os.ftruncate(handle, 0)
        try:
            os.write(handle, b"%d\n" % os.getpid())
        except OSError:                        # a full disk; the lock holds all the same
            pass
        return handle


def _compute_size(data: bytes) -> int:
    """Compute the bytes that an entry takes on the disk."""
    return max(_BLOCK_BYTES, _CHECKSUM_BYTES + len(data))


def read_backlog(directory: str) -> Backlog:
    """Read the Backlog of a directory that may be in use, without changes there; OSError."""
    messages = size_bytes = damaged = 0
    oldest = 0.0
    for name in os.listdir(directory):
        damaged += name.endswith(".damaged")
        if name.endswith(_MESSAGE):
            try:
                status = os.lstat(os.path.join(directory, name))
            except FileNotFoundError:          # it was just delivered
                continue
            messages, size_bytes = messages + 1, size_bytes + max(_BLOCK_BYTES, status.st_size)
            oldest = min(oldest or status.st_mtime, status.st_mtime)
    return Backlog(messages, size_bytes, oldest, damaged,
                   _find_lock_holder(os.path.join(directory, "lock")))


def _find_lock_holder(path: str) -> int:
    """
    Return the id of the process that holds a lock; 0 if none does. /proc/locks shows it without
    taking the lock.
    """
    try:
        inode = os.lstat(path).st_ino
        for line in read_text("/proc/locks").splitlines():
            # 1: FLOCK  ADVISORY  WRITE 4711 fd:01:2345 0 EOF
            words = line.split()
            if words[1:2] == ["FLOCK"] and words[5].endswith(f":{inode}"):
                return int(words[4])
    except OSError:
        pass
    return 0
