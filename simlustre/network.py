"""
How simulated clients reach simulated storage servers: a directory that all of them know.

    DIR/oss1.sock              where the storage server oss1 listens
    DIR/scratch-OST0000        -> oss1.sock: who has that target now

Each message is a JSON document in a line, and so is its answer.  A client waits for the answer, so
what a program has done is counted when its call returns (but the end of close(): mount.py).  While
nobody has a target, its clients wait, as those of Lustre do.
"""
from __future__ import annotations

import errno
import json
import os
import re
import socket
import threading
import time

from .imports import Import
from .target import NAME

WAIT_S = 60.0                       # then a request fails: EIO
RETRY_S = 0.02
SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}")
# What --ctl tells a storage server.
COMMANDS = {
    "stop": "stop TARGET: stop a target; its clients wait until it starts",
    "start": "start TARGET: start it with counters at 0; its clients reconnect",
    "restart": "restart [TARGET]: stop and start it; without a target, all of this storage server",
    "failover": "failover TARGET SERVER: stop it here, start it on another server",
    "evict": "evict NID [TARGET]: evict a client from all targets here, or from one",
    "health": "health WORDS: the text that health_check shows",
    "lnet": "lnet dropped N, lnet resent N, lnet waiting N, or lnet up NID, lnet down NID, lnet "
            "health N: messages that LNet drops or resends, or that wait for each client; a "
            "router; the health of the interface",
    "changelog": "changelog MDT RECORDS: the number of records that the user cl1 has not cleared",
    "hsm": "hsm MDT DONE FAILED: the numbers of requests that a copytool has completed and failed",
    "wait": "wait SERVICE US: the time that each request waits for a thread of ost_io, ost or mdt",
    "quota": "quota FS user|group|project ID HARD GRANTED: a limit, and what is granted, in KiB",
    "precreate": "precreate OST ERROR: the error for which the MDTs here get no objects of it, 0: "
                 "none",
    "fill": "fill TARGET PERCENT: the part of its space that is used, besides what clients write",
}
_OK, _EVICTED, _UNKNOWN = "ok", "evicted", "unknown"


class NetworkError(Exception):
    """What the user asked is not possible; the message says why."""


class Network:
    """The directory; every path in it is short enough for a socket, wherever it is."""

    def __init__(self, directory: str):
        self.directory = os.path.abspath(directory)
        os.makedirs(self.directory, exist_ok=True)
        self._fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def path(self, name: str) -> str:
        # sockaddr_un has 108 bytes.
        return f"/proc/self/fd/{self._fd}/{name}"

    def listen(self, server: str) -> socket.socket:
        """The socket of a storage server; NetworkError where one of that name runs."""
        name = f"{server}.sock"
        try:
            self.ask(name, {"do": "hello"})
        except OSError:
            pass
        else:
            raise NetworkError(f"{self.directory}: a storage server {server!r} runs there already")
        try:
            os.unlink(self.path(name))
        except FileNotFoundError:
            pass
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.path(name))
        listening.listen(128)
        return listening

    def call(self, name: str) -> socket.socket:
        """A connection to a server's socket or to whoever has a target; OSError."""
        calling = socket.socket(socket.AF_UNIX)
        try:
            calling.connect(self.path(name))
        except OSError:
            calling.close()
            raise
        return calling

    def ask(self, name: str, message: dict) -> dict:
        """The answer to one message; OSError where nobody answers."""
        with self.call(name) as calling:
            calling.sendall(encoded(message))
            with calling.makefile("rb") as answers:
                return decoded(answers.readline())

    def announce(self, target: str, server: str) -> None:
        """From now on `server` has this target."""
        new = self.path(f".{target}.new")
        try:
            os.unlink(new)
        except FileNotFoundError:
            pass
        os.symlink(f"{server}.sock", new)
        os.rename(new, self.path(target))

    def count_start(self, target: str) -> int:
        """How often it was started, with this time, on whatever storage server."""
        path = self.path(f"{target}.instance")
        try:
            with open(path) as file:
                count = int(file.read()) + 1
        except FileNotFoundError:
            count = 1
        with open(path, "w") as file:
            file.write(f"{count}\n")
        return count

    def server_of(self, target: str) -> str:
        """Who has it, or had it last; "" for nobody ever."""
        try:
            return os.readlink(self.path(target)).rpartition(".sock")[0]
        except OSError:
            return ""

    def targets(self, file_system: str) -> tuple:
        """(OSTs, MDTs) of a file system, as numbers of the highest one and 1."""
        counts = {"OST": 0, "MDT": 0}
        for name in os.listdir(self.directory):
            found = NAME.fullmatch(name)
            if found and found[1] == file_system:
                kind, index = found[2][:3], int(found[2][3:], 16)
                counts[kind] = max(counts[kind], index + 1)
        return counts["OST"], counts["MDT"]


class Wire:
    """
    One mount's connection to one target; `truth` is told what was counted there.

    Attributes:
        connection: the Import that shows how it stands.
    """

    def __init__(self, network: Network, target: str, nid: str, uuid: str, caller, truth):
        """`caller()` gives the job id of the process whose request is served now."""
        self._network, self.target, self.caller, self._truth = network, target, caller, truth
        self._who = {"target": target, "nid": nid, "uuid": uuid}
        self._calling = self._answers = None
        self._lock = threading.RLock()          # between requests and pings
        self._was_evicted = False
        self.connection = Import()
        self._connect()

    def _connect(self) -> None:
        self._until_answered(dict(self._who, do="connect"))

    def sent(self, counts: list, job: str | None = None, objects=()) -> bool:
        """
        Let the target count one request; False where it had evicted this client meanwhile, which
        is connected again now: it has not counted.

        Args:
            counts: [[counter, amount, times], ...].
            job: whose it is; None: of who asks for it now.
            objects: of an MDT's request: (counter, [OSTs]), what it has to ask of OSTs for it.
        """
        job = self.caller() if job is None else job
        message = dict(self._who, do="count", job=job, counts=counts, objects=list(objects))
        with self._lock:
            while not self.was_evicted():
                outcome = self._until_answered(message)
                if outcome == _OK:
                    self._truth.sent(self.target, job, counts)
                    return True
                self._connect_again(outcome)
        return False

    def was_evicted(self) -> bool:
        """True once after an eviction: what was written and not sent is lost."""
        was, self._was_evicted = self._was_evicted, False
        return was

    def _connect_again(self, outcome: str) -> None:
        """Evicted, or started again without knowing this client, which asks for a connection."""
        if outcome == _UNKNOWN:
            self.connection.reconnected(time.time())
        self._connect()
        if outcome == _EVICTED:
            self._was_evicted = True
            self.connection.evicted(time.time())

    def ping(self) -> None:
        """Learn how the target stands; nothing is counted, and nothing is waited for."""
        if not self._lock.acquire(blocking=False):
            return                              # a request is under way
        try:
            outcome = self._answer(dict(self._who, do="ping"))
            self._shows(outcome)
            if outcome in (_EVICTED, _UNKNOWN):
                self._connect_again(outcome)
        except OSError:
            self._hang_up()
            self._shows("")
        finally:
            self._lock.release()

    def _shows(self, outcome: str) -> None:
        now = time.time()
        if outcome in ("", "elsewhere"):
            self.connection.lost(now)
            return
        self.connection.replied(now)
        if outcome == _OK and self.connection.state == "REPLAY_WAIT":
            self.connection.recovered(now)

    def disconnect(self) -> None:
        """Unmounted; a server that is away does not matter."""
        with self._lock:
            try:
                self._answer(dict(self._who, do="disconnect"))
            except OSError:
                pass
            self._hang_up()

    def _until_answered(self, message: dict) -> str:
        until = time.monotonic() + WAIT_S
        while True:
            outcome = ""
            try:
                outcome = self._answer(message)
            except OSError:
                self._hang_up()
            if message["do"] != "connect" or outcome in ("", "elsewhere"):
                self._shows(outcome)
            if outcome in (_OK, _EVICTED, _UNKNOWN):
                return outcome
            if time.monotonic() > until:
                raise OSError(errno.EIO, f"{self.target}: no storage server has had it for "
                                         f"{WAIT_S:.0f} s")
            time.sleep(RETRY_S)

    def _answer(self, message: dict) -> str:
        if self._calling is None:
            self._calling = self._network.call(self.target)
            self._answers = self._calling.makefile("rb")
        self._calling.sendall(encoded(message))
        answer = decoded(self._answers.readline())
        if answer["is"] == "elsewhere":
            self._hang_up()
        self.connection.nid = answer.get("nid", self.connection.nid)
        return answer["is"]

    def _hang_up(self) -> None:
        for one in (self._answers, self._calling):
            if one is not None:
                one.close()
        self._calling = self._answers = None


def encoded(message: dict) -> bytes:
    return json.dumps(message).encode() + b"\n"


def decoded(line: bytes) -> dict:
    """The message in a line; OSError for half of one."""
    if not line.endswith(b"\n"):
        raise OSError(errno.EPIPE, "hung up")
    return json.loads(line)
