"""
A report to where its user sees it, written by a process that is that user.

    output    at the end of the job's own output file: a plain file of the user's that is there
    home      ~/.iostats/JOB.txt, for who has made that directory

No link is followed at the end of a path, and nothing is opened with more than the user's rights:
whatever the path is, it can only reach what the user could have written without us.  Nothing is
written as root, or as a user of the system such as slurm.

Whose job it is, and where its output goes, may be the word of a node.  So that one node that lies
does not become each of these users, nothing is appended to what others would run or believe: a
hidden file (.bashrc), one in a hidden directory (.ssh), or a program.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import pwd
import resource
import selectors
import signal
import socket
import stat
import subprocess
import sys
import time

from iostats.base.config import BESIDE
from iostats.base.job_id import as_filename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WITHIN_S = 30
_MOST_FILES = 1 << 20
_LOOK_EVERY_S = 0.1
_MOST_HANGING = 100             # processes in file systems that do not answer
_LONGEST_WHY, _DONE = 1000, b"done"


class WriteError(Exception):
    """It could not be written there; the text says why."""


# Each process that writes is a child of one that has been there from the start, without threads and
# without anything of the server's: a fork of the server itself would copy locks that other threads
# hold just then, and its memory with the site's secret.
_COMMAND = ("import sys; sys.path.insert(0, sys.argv.pop(1)); "
            "from iostats.site import write_as_user; write_as_user.serve()")


class Writer:
    """The server's end of the process that writes; for one event loop."""

    def __init__(self, command: str = _COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._to: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[str]] = {}
        self._reading: asyncio.Future[None] | None = None
        self._count = 0
        self._lock: asyncio.Lock | None = None         # of its loop, so made there

    async def begin(self) -> None:
        """Start it, unless it runs."""
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if self._to is None:
                await self._start()

    async def _start(self) -> None:
        mine, its = socket.socketpair()
        with its:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", self._command,
                     os.path.dirname(BESIDE)],
                    stdin=its.fileno(), stdout=subprocess.DEVNULL, env={}, cwd="/",
                    start_new_session=True)
            except OSError as error:
                mine.close()
                raise WriteError(f"no process that writes as users: {error.strerror}") from None
        mine.setblocking(False)
        reader, self._to = await asyncio.open_connection(sock=mine)
        self._reading = asyncio.ensure_future(self._read(reader))

    async def append(self, user: str, path: str, text: str) -> None:
        """Append `text` to the file `path` of `user` (a name); WriteError."""
        await self._ask("append", user, path, text)

    async def write_in_home(self, user: str, job: str, text: str) -> None:
        """Write ~USER/.iostats/JOB.txt where that directory is; WriteError."""
        await self._ask("home", user, job, text)

    async def _ask(self, what: str, *words: str) -> None:
        await self.begin()
        assert self._to is not None
        self._count += 1
        number, answer = self._count, asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self._to.write(json.dumps([number, what, *words]).encode() + b"\n")
            await self._to.drain()
            why = await answer
        except OSError:
            why = _ENDED
        finally:
            self._answers.pop(number, None)
        if why:
            raise WriteError(why)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                number, why = json.loads(line)
                if number in self._answers and not self._answers[number].done():
                    self._answers[number].set_result(str(why))
        self._let_go()                                 # the next one to ask starts another one

    def _let_go(self) -> None:
        if self._to is not None:
            self._to.close()
        self._to = None
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(_ENDED)
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            # It has no child that it would wait for: it ends at once, or is init's.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)

    def close(self) -> None:
        """End it; what it is just writing is written, or is not."""
        if self._reading is not None and not self._reading.done():
            with contextlib.suppress(RuntimeError):    # its loop has come to its end
                self._reading.cancel()
        self._reading = self._lock = None
        self._let_go()


_ENDED = "the process that writes as users has ended; the next report starts another one"


# -- in that process ---------------------------------------------------------------------------

class _Child:
    """One process that writes, and who asked for it."""

    def __init__(self, pid: int, number: int, path: str) -> None:
        self.pid, self.number, self.path = pid, number, path
        self.ends = time.monotonic() + _WITHIN_S


def serve() -> None:
    """Do what comes at standard input, until nobody is there any more."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    connection = socket.socket(fileno=0)
    with contextlib.suppress(ConnectionError):
        _serve(connection)


def _serve(connection: socket.socket) -> None:
    children: dict[int, _Child] = {}
    hanging: list[int] = []                            # and those that just come to their ends
    asked = bytearray()
    wanted = selectors.DefaultSelector()
    wanted.register(connection, selectors.EVENT_READ)

    def tell(number: int, why: str) -> None:
        connection.sendall(json.dumps([number, why[:_LONGEST_WHY]]).encode() + b"\n")

    while True:
        ends = min((one.ends for one in children.values()), default=None)
        wait_s = None if ends is None else max(0.0, ends - time.monotonic())
        if hanging:
            wait_s = _LOOK_EVERY_S if wait_s is None else min(wait_s, _LOOK_EVERY_S)
        for key, _ in wanted.select(wait_s):
            if key.fileobj is connection:
                data = connection.recv(1 << 16)
                if not data:
                    return
                asked += data
                while b"\n" in data and b"\n" in asked:
                    line, _, rest = bytes(asked).partition(b"\n")
                    asked = bytearray(rest)
                    number, what, user, name, text = json.loads(line)
                    if len(hanging) >= _MOST_HANGING:
                        tell(number, f"{name}: {len(hanging)} processes hang in file systems")
                        continue
                    reading, child = _begun(number, what, user, name, text)
                    children[reading] = child
                    wanted.register(reading, selectors.EVENT_READ)
            else:
                _finish(key.fd, children, wanted, hanging, tell)
        for handle in [handle for handle, one in children.items() if one.ends <= time.monotonic()]:
            _finish(handle, children, wanted, hanging, tell, late=True)
        hanging[:] = [pid for pid in hanging if os.waitpid(pid, os.WNOHANG) == (0, 0)]


def _finish(handle: int, children: dict[int, _Child], wanted: selectors.BaseSelector,
            hanging: list[int], tell: Callable[[int, str], None], late: bool = False) -> None:
    """What came of a child, or of one that hangs in the kernel, until that lets it go."""
    child = children.pop(handle)
    wanted.unregister(handle)
    told = b"" if late else os.read(handle, _LONGEST_WHY)
    os.close(handle)
    if late:
        os.kill(child.pid, signal.SIGKILL)
    hanging.append(child.pid)
    tell(child.number, "" if told == _DONE else told.decode("utf-8", "replace")
         or f"{child.path}: not written within {_WITHIN_S} s")


def _begun(number: int, what: str, user: str, name: str, text: str) -> tuple[int, _Child]:
    """A child that writes as `user`: (where it tells what came of it, the _Child)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            told = _DONE
            try:
                signal.alarm(_WITHIN_S)
                _write_as(writing, what, user, name, text)
            except WriteError as error:
                told = str(error).encode("utf-8", "backslashreplace")
            except OSError as error:
                why = _WHY.get(error.errno or 0) or os.strerror(error.errno or errno.EIO)
                told = f"{name}: {why}".encode("utf-8", "backslashreplace")
            except ValueError as error:                # a NUL in a path
                told = f"{name!r}: {error}".encode("utf-8", "backslashreplace")
            os.write(writing, told[:_LONGEST_WHY])
        finally:
            os._exit(0)
    os.close(writing)
    return reading, _Child(pid, number, name)


def _write_as(keep: int, what: str, user: str, name: str, text: str) -> None:
    """Become `user`, with no open file but `keep`, and write."""
    entry = _entry(user)
    path, directory = name, ""
    if what == "append":
        if not os.path.isabs(path):
            raise WriteError(f"{path}: expected an absolute path")
        if any(part.startswith(".") for part in path.split("/")):
            raise WriteError(f"{path}: expected a job's output, got a hidden file or directory")
    else:
        if not os.path.isabs(entry.pw_dir):
            raise WriteError(f"user {user!r} has no home")
        directory = os.path.join(entry.pw_dir, ".iostats")
        path = os.path.join(directory, as_filename(name) + ".txt")
    become(entry, keep)
    if what == "append":
        _append(path, text.encode("utf-8", "backslashreplace"), entry.pw_uid)
        return
    try:
        _replace(directory, path, text.encode("utf-8", "backslashreplace"), entry.pw_uid)
    except OSError as error:
        why = _WHY.get(error.errno or 0) or os.strerror(error.errno or errno.EIO)
        raise WriteError(f"{path}: {why}") from None


def become(entry: pwd.struct_passwd, keep: int) -> None:
    """This process has the rights of a user, and no open file but `keep`, from now on."""
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    # The connection to the server is not this user's.
    os.closerange(0, keep)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(keep + 1, most if 0 < most < _MOST_FILES else _MOST_FILES)
    if os.geteuid() == 0:
        os.setgroups(groups)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    os.umask(0o077)


def _entry(user: str) -> pwd.struct_passwd:
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError, UnicodeError):
        raise WriteError(f"there is no user {user!r} here") from None
    if entry.pw_uid == 0:
        raise WriteError(f"{user}: nothing is written as root")
    if os.geteuid() == 0 and entry.pw_uid < _first_user():
        raise WriteError(f"{user}: nothing is written as a user of the system (user "
                            f"{entry.pw_uid} is below UID_MIN in /etc/login.defs)")
    if os.geteuid() not in (0, entry.pw_uid):
        raise WriteError(f"only root can write as user {user!r}; run the server as root, or "
                            f"leave it out of [site] show")
    return entry


def _first_user(path: str = "/etc/login.defs") -> int:
    """The least number of a user who is a person: UID_MIN in login.defs(5)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.partition("#")[0].split()
                if words[:1] == ["UID_MIN"]:
                    return int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    return 1000


_WHY = {errno.ELOOP: "it is a link", errno.ENXIO: "it is no plain file",
        errno.EINVAL: "it is no plain file of the user's alone",
        errno.ENOEXEC: "it is a program, and no job's output"}


def _append(path: str, data: bytes, uid: int) -> None:
    # O_NONBLOCK: a FIFO that nobody reads is an error, not a wait.
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid or found.st_nlink != 1:
            raise OSError(errno.EINVAL, "")
        if found.st_mode & 0o111:
            raise OSError(errno.ENOEXEC, "")
        _write(handle, data)
    finally:
        os.close(handle)


def _replace(directory: str, path: str, data: bytes, uid: int) -> None:
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
        raise OSError(errno.ENOTDIR, "")
    beside = f"{path}.{os.urandom(8).hex()}.new"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                     0o600)
    try:
        try:
            _write(handle, data)
        finally:
            os.close(handle)
        os.replace(beside, path)
    except OSError:
        os.unlink(beside)
        raise


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view):]
