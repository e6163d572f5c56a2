"""
Writes a report into a user's own files, in a process that runs as that user.

    output    appended to the job's output file, which must exist: a regular file of the user's; not
              if its end already has the same numbers from the user's own report
    home      ~/.iostats/JOB.txt, for users who have made that directory

No link is followed at the end of a path, and nothing is opened with more than the user's rights:
whatever the path is, only files are reached that the user could have written without us.  Nothing
is written as root or as a system user such as slurm.

The user and the output file of a job may be known from a node only.  So that a node that lies
cannot act as any user, nothing is appended to files that are executed or trusted: a hidden file
(.bashrc), one in a hidden directory (.ssh), an executable.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import pwd
import re
import resource
import selectors
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from iostats.base.config import BESIDE
from iostats.base.job_id import make_filename
from iostats.base.private_files import write_atomically
from iostats.base.users import find_user

WITHIN_S = 30                   # a writing process is killed after this time
_MAX_FILES = 1 << 20
_MAX_READ_BYTES = 1 << 18       # bytes of the end of a job's output
_REAP_EVERY_S = 0.1
_ENDS_WITHIN_S = 10
_MAX_HANGING = 100              # processes that wait for file systems that do not answer
_MAX_REASON_BYTES, _DONE = 1000, b"done"


class WriteError(Exception):
    """A report could not be written; the text has the place and the reason."""


# Each process that writes is a child of a process that was started with the server, has no threads
# and nothing of the server's memory: a fork of the server itself would copy locks that other
# threads hold at that moment, and the site's secret.
_COMMAND = ("import sys; sys.path.insert(0, sys.argv.pop(1)); "
            "from iostats.jobs import write_as_user; write_as_user.serve()")


class Writer:
    """The server's side of the process that starts writing processes; for one event loop."""

    def __init__(self, command: str = _COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._to: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[str]] = {}
        self._reading: asyncio.Future[None] | None = None
        self._count = 0
        self._lock: asyncio.Lock | None = None         # belongs to the loop, so created there

    @property
    def pid(self) -> int | None:
        """The process id; None before it was started."""
        return self._process.pid if self._process is not None else None

    async def begin(self) -> None:
        """Start the process, unless it runs; WriteError."""
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if self._to is None:
                await self._start()

    async def _start(self) -> None:
        server_end, process_end = socket.socketpair()
        with process_end:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", self._command,
                     os.path.dirname(BESIDE)],
                    stdin=process_end.fileno(), stdout=subprocess.DEVNULL, env={}, cwd="/",
                    start_new_session=True)
            except OSError as error:
                server_end.close()
                raise WriteError(f"the process that writes as users cannot be started: "
                                 f"{error.strerror}") from None
        server_end.setblocking(False)
        reader, self._to = await asyncio.open_connection(sock=server_end)
        self._reading = asyncio.ensure_future(self._read(reader))

    async def append(self, user: str, path: str, text: str, heading: str = "",
                     numbers: Sequence[str] = ()) -> None:
        """
        Append `text` to the file `path` as `user` (a name), unless its end has a report with this
        heading and all the lines of `numbers`; WriteError.
        """
        await self._ask("append", user, path, text, "\n".join((heading, *numbers)))

    async def write_in_home(self, user: str, job: str, text: str) -> None:
        """Write ~USER/.iostats/JOB.txt where that directory exists; WriteError."""
        await self._ask("home", user, job, text, "")

    async def _ask(self, place: str, *words: str) -> None:
        await self.begin()
        assert self._to is not None
        self._count += 1
        number, answer = self._count, asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self._to.write(json.dumps([number, place, *words]).encode() + b"\n")
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
        self._end()                                    # the next call starts the process again

    def _end(self) -> None:
        if self._to is not None:
            self._to.close()
        self._to = None
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(_ENDED)
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            # It waits for none of its children, so it ends at once on a machine that has time.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDS_WITHIN_S)

    def close(self) -> None:
        """End the process; a file that is being written may be incomplete."""
        if self._reading is not None and not self._reading.done():
            with contextlib.suppress(RuntimeError):    # its loop is closed
                self._reading.cancel()
        self._reading = self._lock = None
        self._end()


_ENDED = "the process that writes as users has ended; the next report starts another one"


# -- in that process ---------------------------------------------------------------------------

class _WritingProcess:
    """A child process that writes a file for the request `number`, until the deadline `ends`."""

    def __init__(self, pid: int, number: int, path: str) -> None:
        self.pid, self.number, self.path = pid, number, path
        self.ends = time.monotonic() + WITHIN_S


def serve() -> None:
    """Serve the requests that arrive on standard input, a socket, until it is closed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    connection = socket.socket(fileno=0)
    with contextlib.suppress(ConnectionError):
        _serve(connection)


def _serve(connection: socket.socket) -> None:
    children: dict[int, _WritingProcess] = {}
    hanging: list[int] = []                            # pids to reap, including those about to end
    received = bytearray()
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)

    def answer(number: int, why: str) -> None:
        connection.sendall(json.dumps([number, why[:_MAX_REASON_BYTES]]).encode() + b"\n")

    while True:
        ends = min((child.ends for child in children.values()), default=None)
        wait_s = None if ends is None else max(0.0, ends - time.monotonic())
        if hanging:
            wait_s = _REAP_EVERY_S if wait_s is None else min(wait_s, _REAP_EVERY_S)
        for key, _ in selector.select(wait_s):
            if key.fileobj is connection:
                data = connection.recv(1 << 16)
                if not data:
                    return
                received += data
                while b"\n" in data and b"\n" in received:
                    line, _, rest = bytes(received).partition(b"\n")
                    received = bytearray(rest)
                    number, place, user, name, *texts = json.loads(line)
                    if len(hanging) >= _MAX_HANGING:
                        answer(number, f"{name}: {len(hanging)} processes wait for file systems "
                                       f"that do not answer")
                        continue
                    reading, child = _start_child(number, place, user, name, texts)
                    children[reading] = child
                    selector.register(reading, selectors.EVENT_READ)
            else:
                _finish(key.fd, children, selector, hanging, answer)
        for handle in [handle for handle, child in children.items()
                       if child.ends <= time.monotonic()]:
            _finish(handle, children, selector, hanging, answer, late=True)
        hanging[:] = [pid for pid in hanging if os.waitpid(pid, os.WNOHANG) == (0, 0)]


def _finish(handle: int, children: dict[int, _WritingProcess], selector: selectors.BaseSelector,
            hanging: list[int], answer: Callable[[int, str], None], late: bool = False) -> None:
    """
    Answer with the outcome of a child, and kill it if it is late; one in state D is reaped later.
    """
    child = children.pop(handle)
    selector.unregister(handle)
    outcome = b"" if late else os.read(handle, _MAX_REASON_BYTES)
    os.close(handle)
    if late:
        os.kill(child.pid, signal.SIGKILL)
    hanging.append(child.pid)
    answer(child.number, "" if outcome == _DONE else outcome.decode("utf-8", "replace")
           or f"{child.path}: not written within {WITHIN_S} s")


def _start_child(number: int, place: str, user: str, name: str,
                 texts: list[str]) -> tuple[int, _WritingProcess]:
    """Start a child that writes as `user`: (the pipe with its outcome, the _WritingProcess)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            outcome = _DONE
            try:
                signal.alarm(WITHIN_S)
                _write_as(writing, place, user, name, *(
                    text.encode("utf-8", "backslashreplace") for text in texts))
            except WriteError as error:
                outcome = str(error).encode("utf-8", "backslashreplace")
            except OSError as error:
                outcome = f"{name}: {_describe_error(error)}".encode("utf-8", "backslashreplace")
            except ValueError as error:                # a NUL in a path
                outcome = f"{name!r}: {error}".encode("utf-8", "backslashreplace")
            os.write(writing, outcome[:_MAX_REASON_BYTES])
        finally:
            os._exit(0)
    os.close(writing)
    return reading, _WritingProcess(pid, number, name)


def _write_as(stored_file: int, place: str, user: str, name: str, data: bytes,
              unless: bytes) -> None:
    """Become `user`, with no open file but `stored_file`, and write; WriteError, OSError."""
    entry = _check_user(user)
    path, directory = name, ""
    if place == "append":
        if not os.path.isabs(path):
            raise WriteError(f"{path}: expected an absolute path")
        if any(part.startswith(".") for part in path.split("/")):
            raise WriteError(f"{path}: expected a job's output, got a hidden file or directory")
    else:
        if not os.path.isabs(entry.pw_dir):
            raise WriteError(f"user {user!r} has no home directory")
        directory = os.path.join(entry.pw_dir, ".iostats")
        path = os.path.join(directory, make_filename(name) + ".txt")
    become(entry, stored_file)
    if place == "append":
        append_bytes(path, data, entry.pw_uid, unless.splitlines())
        return
    try:
        _replace(directory, path, data, entry.pw_uid)
    except OSError as error:
        raise WriteError(f"{path}: {_describe_error(error)}") from None


def _describe_error(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or os.strerror(error.errno or errno.EIO)


def become(entry: pwd.struct_passwd, stored_file: int) -> None:
    """Take on the rights of a user for good, and close all files but `stored_file`."""
    groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
    # The user must not get the connection to the server.
    os.closerange(0, stored_file)
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(stored_file + 1, max_files if 0 < max_files < _MAX_FILES else _MAX_FILES)
    if os.geteuid() == 0:
        os.setgroups(groups)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    os.umask(0o077)


def _check_user(user: str) -> pwd.struct_passwd:
    entry = find_user(user)
    if entry is None:
        raise WriteError(f"there is no user {user!r} here")
    if entry.pw_uid == 0:
        raise WriteError(f"{user}: nothing is written as root")
    if os.geteuid() == 0 and entry.pw_uid < read_first_user_id():
        raise WriteError(f"{user}: nothing is written as a system user ({entry.pw_uid} is "
                         f"below UID_MIN in /etc/login.defs)")
    if os.geteuid() not in (0, entry.pw_uid):
        raise WriteError(f"only root can write as user {user!r}; run the server as root, or "
                         f"leave it out of [site] show")
    return entry


def read_first_user_id(path: str = "/etc/login.defs") -> int:
    """The lowest user id of a person: UID_MIN in login.defs(5)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                words = line.partition("#")[0].split()
                if words[:1] == ["UID_MIN"]:
                    return int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    return 1000


_REASONS = {errno.ELOOP: "it is a link", errno.ENXIO: "it is not a regular file",
            errno.EINVAL: "it is not a regular file that belongs only to the user",
            errno.ENOEXEC: "it is executable, so it is no job's output"}


def append_bytes(path: str, data: bytes, uid: int, unless: Sequence[bytes] = ()) -> None:
    """
    Append to a regular file of user `uid` that is not executable; OSError.

    `unless`: a heading and lines: nothing is appended if one report at the end of the file has them
    all.
    """
    # O_NONBLOCK: a FIFO without a reader is an error, not a wait.
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != uid or status.st_nlink != 1:
            raise OSError(errno.EINVAL, "")
        if status.st_mode & 0o111:
            raise OSError(errno.ENOEXEC, "")
        if not (len(unless) > 1
                and _has_report(_read_end(handle, status.st_size), unless[0], unless[1:])):
            _write(handle, data)
    finally:
        os.close(handle)


def _read_end(handle: int, size_bytes: int) -> bytes:
    """The end of a file that is open for writing; b"" if its user cannot read it."""
    try:
        with open(f"/proc/self/fd/{handle}", "rb", buffering=0) as file:
            return os.pread(file.fileno(), _MAX_READ_BYTES, max(0, size_bytes - _MAX_READ_BYTES))
    except OSError:
        return b""


def _has_report(text: bytes, heading: bytes, numbers: Sequence[bytes]) -> bool:
    """
    Whether one report in `text` begins with `heading` and has each line of `numbers`.

    It ends where the next report begins: jobs may share an output file, and are appended to it in
    any
    order.
    """
    reports = re.split(rb"(?m)^(?=Job )", text)
    return any(report.startswith((heading + b":", heading + b" "))
               and set(numbers) <= set(report.splitlines()) for report in reports)


def _replace(directory: str, path: str, data: bytes, uid: int) -> None:
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid:
        raise OSError(errno.ENOTDIR, "")
    write_atomically(path, data)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view):]
