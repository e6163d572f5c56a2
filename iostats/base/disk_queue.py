"""
What waits on the disk to be sent: a queue of bounded size in a directory, a file for each entry.

    DIRECTORY/NUMBER.RUN.MARK.message   its crc32 in a line, and the bytes as they were kept; in the
                                        order of NUMBER.  An entry that stands alone has no RUN.
    DIRECTORY/NAME.damaged              what could not be read back, put aside; the last ten
    DIRECTORY/lock                      held by the process that uses the directory; its number

A run is a chain of entries, each of which says something only with all before it: it begins with
one that needs none.  When there is no more room, whole runs go, the oldest first, so that what is
left can be used.  A file is there whole or not at all: a kill at any moment leaves a queue that is
right.

What earlier releases have kept is read too: a file without the line with the checksum, which is
whole as zlib sees it.
"""

from __future__ import annotations

import os
import zlib
from collections import deque, namedtuple

from iostats.base import private_files
from iostats.base.errors import StateError
from iostats.base.private_files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LEAST = 4096                                  # what the smallest file takes on a disk
_LARGEST = 1 << 26                             # of earlier releases, before compression
_CHECK = 9                                     # bytes of the line before an entry's
_DAMAGED_KEPT = 10
_MESSAGE = ".message"

Spooled = namedtuple("Spooled", "number run mark size name")
Spooled.__doc__ = """
One entry of a Spool.

Attributes:
    number: its place in the queue.
    run: name of its chain; "" for an entry that stands alone.
    mark: an integer of who keeps it: its place in the chain, how much is in it.
    size: bytes that it takes on the disk.
    name: of its file.
"""


Backlog = namedtuple("Backlog", "messages bytes oldest damaged process")
Backlog.__doc__ = """
What waits in a directory.

Attributes:
    messages, bytes: that wait.
    oldest: when the oldest of them was kept, seconds since 1970; 0 for none.
    damaged: files that were put aside.
    process: number of the one that uses the directory; 0 for none.
"""


class Full(StateError):
    """There is no room for an entry, whatever older ones would go."""


class Spool:
    """
    The queue in one directory, which is made; StateError, or OSError.

    Args:
        most_bytes: up to this much waits.
        section: of site.cfg, "[harvest]", whose spool_dir and spool_bytes these are, for messages;
            `prefix`: what the names of these keys begin with.
        ending: of the files' names.
        is_private: the directory has to be this user's alone, and one process has it at a time;
            `other`: what another one does.

    Attributes:
        directory: where it is.
        size: bytes on the disk that wait.
        most_bytes: may change at any time; what is too much goes when the next one comes.
    """

    def __init__(self, directory: str, most_bytes: int, section: str, ending: str = _MESSAGE,
                 is_private: bool = True, prefix: str = "",
                 other: str = "another agent harvests") -> None:
        self.directory, self.most_bytes, self._other = directory, most_bytes, other
        self._keys = f"{section} {prefix}"
        self._how = f"in site.cfg: {self._keys}spool_dir"
        self._ending, self._is_private = ending, is_private
        self._make_directory()
        self._lock = self._locked() if is_private else None
        self._queue = deque(sorted(self._found()))
        self.size = sum(one.size for one in self._queue)
        self._next = self._queue[-1].number + 1 if self._queue else 1

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Spooled]:
        return iter(self._queue)

    def close(self) -> None:
        """Let another process have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def keep(self, run: str, mark: int, data: bytes) -> int:
        """
        Put the bytes `data` at the end; how many entries of older runs had to go for it.

        Raises Full, or OSError where the disk does not take it.
        """
        gone = self.make_room(data, run)
        self.require_room(data)
        self.add(self.write(run, mark, data))
        return len(gone)

    def require_room(self, data: bytes) -> None:
        """Full where `data` has no place beside what waits."""
        if self.size + _size(data) > self.most_bytes:
            raise Full(f"{self.directory}: expected at most {self.most_bytes} bytes, and one sweep "
                       f"is more; set {self._keys}spool_bytes to more in site.cfg")

    def make_room(self, data: bytes, run: str = "") -> list[Spooled]:
        """
        Forget the oldest runs, as far as `data` needs it; what they had.  None of `run`, which is
        to be continued: there may still be too little room.
        """
        gone: list[Spooled] = []
        while self._queue and self.size + _size(data) > self.most_bytes:
            oldest = self._queue[0]
            if run and oldest.run == run:
                break
            those = self._of(oldest.run) if oldest.run else [oldest]
            for one in those:
                self.remove(one)
            gone += those
        return gone

    def write(self, run: str, mark: int, data: bytes) -> Spooled:
        """
        The file of the next entry, on the disk; OSError.  It is in the queue after `add`: so who
        has another thread that takes entries need not keep it waiting for the disk.
        """
        name = f"{self._next:012d}.{run}{'.' * bool(run)}{mark}{self._ending}"
        packed = b"%08x\n" % zlib.crc32(data) + data
        try:
            private_files.write_whole(self._path(name), packed)
        except FileNotFoundError:              # somebody has removed the directory
            self._make_directory()
            private_files.write_whole(self._path(name), packed)
        self._next += 1
        return Spooled(self._next - 1, run, mark, _size(data), name)

    def add(self, one: Spooled) -> None:
        """Put what `write` has written at the end of the queue."""
        self._queue.append(one)
        self.size += one.size

    def first(self, without: Callable[[Spooled], bool] = lambda one: False) -> Spooled | None:
        """The oldest Spooled, but for those `without`; None where there is none."""
        return next((one for one in self._queue if not without(one)), None)

    def load(self, one: Spooled) -> bytes:
        """The bytes of an entry; StateError where they are not what was kept."""
        path = self._path(one.name)
        try:
            with open(path, "rb") as file:
                kept = file.read()
        except OSError as error:
            raise StateError(f"{path}: a message that waited is damaged: "
                             f"{error.strerror}") from None
        line, data = kept[:_CHECK], kept[_CHECK:]
        if line == b"%08x\n" % zlib.crc32(data):
            return data
        if _is_old(kept):
            return kept
        raise StateError(f"{path}: a message that waited is damaged: its checksum differs")

    def remove(self, one: Spooled) -> None:
        """Forget an entry: it was delivered."""
        self._queue.remove(one)
        self.size -= one.size
        self._forget(self._path(one.name))

    def put_aside(self, one: Spooled) -> None:
        """Keep a damaged file for a person to look at, and send it no more."""
        path = self._path(one.name)
        self._queue.remove(one)
        self.size -= one.size
        try:
            os.rename(path, path + ".damaged")
        except OSError:
            self._forget(path)
        try:
            damaged = sorted(name for name in os.listdir(self.directory)
                             if name.endswith(".damaged"))
        except OSError:
            return
        for name in damaged[:-_DAMAGED_KEPT]:
            self._forget(self._path(name))

    def drop(self, run: str, first: int = 0) -> int:
        """Forget all entries of a run, or those whose mark is `first` or more; how many."""
        those = [one for one in self._of(run) if one.mark >= first]
        for one in those:
            self.remove(one)
        return len(those)

    def _of(self, run: str) -> list[Spooled]:
        return [one for one in self._queue if one.run == run]

    @staticmethod
    def _forget(path: str) -> None:
        """Remove a file; on a disk that fails it stays, and is known where it is sent again."""
        try:
            private_files.forget(path)
        except OSError:
            pass

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _make_directory(self) -> None:
        make = private_files.make_private if self._is_private else private_files.make_or_explain
        make(self.directory, self._how)

    def _found(self) -> Iterator[Spooled]:
        for name in os.listdir(self.directory):
            path = self._path(name)
            if name.endswith(".new"):          # of a writer that was killed
                private_files.forget(path)
                continue
            parts = name[:-len(self._ending)].split(".")
            if (name.endswith(self._ending) and name.isascii() and len(parts) in (2, 3)
                    and parts[0].isdigit() and parts[-1].isdigit()):
                yield Spooled(int(parts[0]), parts[1] if len(parts) == 3 else "", int(parts[-1]),
                              max(_LEAST, os.lstat(path).st_size), name)

    def _locked(self) -> int:
        import fcntl
        path = os.path.join(self.directory, "lock")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateError(f"{path}: cannot be made: {private_files.why(error)}; name another "
                             f"{self._how}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.read(handle, 32).decode("ascii", "replace").strip()
            os.close(handle)
            raise StateError(f"{path}: {self._other} on this machine (process "
                             f"{other or 'unknown'}); stop it first") from None
        os.ftruncate(handle, 0)
        try:
            os.write(handle, b"%d\n" % os.getpid())
        except OSError:                        # a full disk; the lock holds all the same
            pass
        return handle


def _size(data: bytes) -> int:
    return max(_LEAST, _CHECK + len(data))


def _is_old(kept: bytes) -> bool:
    """True for what an earlier release has left, whole: agents' JSON, points, made by zlib."""
    whole = zlib.decompressobj()
    try:
        whole.decompress(kept, _LARGEST)
        return whole.eof and not whole.unused_data
    except zlib.error:
        return False


def backlog(directory: str) -> Backlog:
    """The Backlog of a directory that may be in use, changing nothing there; OSError."""
    messages = size = damaged = 0
    oldest = 0.0
    for name in os.listdir(directory):
        damaged += name.endswith(".damaged")
        if name.endswith(_MESSAGE):
            try:
                found = os.lstat(os.path.join(directory, name))
            except FileNotFoundError:          # it was just delivered
                continue
            messages, size = messages + 1, size + max(_LEAST, found.st_size)
            oldest = min(oldest or found.st_mtime, found.st_mtime)
    return Backlog(messages, size, oldest, damaged, _holder(os.path.join(directory, "lock")))


def _holder(path: str) -> int:
    """The process that holds a lock; 0 for none.  /proc/locks tells without taking it."""
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
