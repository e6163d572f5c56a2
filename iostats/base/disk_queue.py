"""
Messages that wait for a server: a queue of bounded size, in a directory that is this user's alone.

    DIRECTORY/NUMBER.RUN.SEQ.message    its crc32 in a line, and the bytes of one message as they
    are
                                     sent; in the order of NUMBER
    DIRECTORY/NAME.damaged              what could not be read back, put aside; the last ten
    DIRECTORY/lock                      held by the process that uses the directory; its number

A run is a chain of messages, each of which says something only with all before it: it begins with
one that needs none.  When there is no more room, whole runs go, the oldest first, so that what is
left can be used.  A file is there whole or not at all, a kill at any moment leaves a queue that is
right.
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
    from collections.abc import Iterator

_LEAST = 4096                                  # what the smallest file takes on a disk
_LARGEST = 1 << 26                             # of one of 0.1, before compression
_CHECK = 9                                     # bytes of the line before a message
_DAMAGED_KEPT = 10
_ENDING = ".message"

Waiting = namedtuple("Waiting", "number run seq size")
Waiting.__doc__ = """
One message that waits.

Attributes:
    number: its place in the queue.
    run: name of its chain; `seq`: its place there.
    size: bytes that it takes on the disk.
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
    """There is no room for a message, whatever older ones would go."""


class Spool:
    """
    The queue in one directory; made and locked, or StateError.

    `most_bytes`: how much may wait; `how`: how to name another directory, for messages.

    Attributes:
        size: bytes that wait.
    """

    def __init__(self, directory: str, most_bytes: int, how: str) -> None:
        self.directory, self._most, self._how = directory, most_bytes, how
        private_files.make_private(directory, how)
        self._lock = self._locked()
        self._queue = deque(sorted(self._found()))
        self.size = sum(one.size for one in self._queue)
        self._next = self._queue[-1].number + 1 if self._queue else 1

    def __len__(self) -> int:
        return len(self._queue)

    def close(self) -> None:
        """Give up the directory: another process may use it."""
        os.close(self._lock)

    def keep(self, run: str, seq: int, data: bytes) -> int:
        """
        Put the bytes `data` at the end; how many messages of older runs had to go for it.

        Raises Full, or OSError where the disk does not take it.
        """
        packed, gone = b"%08x\n" % zlib.crc32(data) + data, 0
        size = max(_LEAST, len(packed))
        while self.size + size > self._most:
            if not self._queue or self._queue[0].run == run:
                raise Full(f"{self.directory}: expected at most {self._most} bytes, and one sweep "
                           f"is more; set [harvest] spool_bytes to more in site.cfg")
            gone += self.drop(self._queue[0].run)
        one = Waiting(self._next, run, seq, size)
        try:
            private_files.write_whole(self._path(one), packed)
        except FileNotFoundError:              # somebody has removed the directory
            private_files.make_private(self.directory, self._how)
            private_files.write_whole(self._path(one), packed)
        self._next += 1
        self._queue.append(one)
        self.size += size
        return gone

    def first(self) -> Waiting | None:
        """The Waiting that is to be sent next, or None."""
        return self._queue[0] if self._queue else None

    def load(self, one: Waiting) -> bytes:
        """The bytes of a message; StateError where they are not what was kept."""
        path = self._path(one)
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

    def remove(self, one: Waiting) -> None:
        """Forget the first message: it was delivered."""
        self._queue.remove(one)
        self.size -= one.size
        self._forget(self._path(one))

    def put_aside(self, one: Waiting) -> None:
        """Keep a damaged message for a person to look at, and send it no more."""
        path = self._path(one)
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
            self._forget(os.path.join(self.directory, name))

    def drop(self, run: str, seq: int = 0) -> int:
        """Forget all messages of a run, or those from `seq` on; how many there were."""
        those = [one for one in self._queue if one.run == run and one.seq >= seq]
        for one in those:
            self.remove(one)
        return len(those)

    @staticmethod
    def _forget(path: str) -> None:
        """Remove a file; on a disk that fails it stays, and is known where it is sent again."""
        try:
            private_files.forget(path)
        except OSError:
            pass

    def _path(self, one: Waiting) -> str:
        return os.path.join(self.directory, f"{one.number:012d}.{one.run}.{one.seq}{_ENDING}")

    def _found(self) -> Iterator[Waiting]:
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            if name.endswith(".new"):          # of a writer that was killed
                private_files.forget(path)
                continue
            number, run, seq = (name[:-len(_ENDING)].split(".") + ["", ""])[:3]
            if (name.endswith(_ENDING) and name.isascii() and number.isdigit()
                    and seq.isdigit()):
                yield Waiting(int(number), run, int(seq), max(_LEAST, os.lstat(path).st_size))

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
            raise StateError(f"{path}: another agent harvests on this machine (process "
                             f"{other or 'unknown'}); stop it first") from None
        os.ftruncate(handle, 0)
        try:
            os.write(handle, b"%d\n" % os.getpid())
        except OSError:                        # a full disk; the lock holds all the same
            pass
        return handle


def _is_old(kept: bytes) -> bool:
    """True for what an agent of 0.1 has left, whole: what zlib makes of JSON."""
    whole = zlib.decompressobj()
    try:
        return whole.decompress(kept, _LARGEST)[:1] == b"{" and whole.eof and not whole.unused_data
    except zlib.error:
        return False


def backlog(directory: str) -> Backlog:
    """The Backlog of a directory that may be in use, changing nothing there; OSError."""
    messages = size = damaged = 0
    oldest = 0.0
    for name in os.listdir(directory):
        damaged += name.endswith(".damaged")
        if name.endswith(_ENDING):
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
