"""
A collector at a desk: one in this process, whose events and clock a test has in its hand; and the
command, with a machine's files below a directory.
"""
from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import xmlrpc.client
from pathlib import Path

from kernel_lines import record
from processes import REPOSITORY, Done, free_port, until

from iostats.collector import access
from iostats.collector.collector_server import CollectorServer, bound_sockets
from iostats.collector.journal_of_events import EventsJournal
from iostats.collector.methods import Answers
from iostats.events import event
from iostats.server.http_server import bound_socket

NOW = 1_795_370_041
NODE = "mds1"


def evicted(number, target="scratch-OST0003", client="10.9.0.11@o2ib2", at=NOW - 41, **more):
    """An Event: a client evicted for its silence; those of one `number` are the same one."""
    return event.make_event("a-boot", NODE, ("evicted", str(number)), "evicted", at, cause="silent",
                            file_system=target.rpartition("-")[0], target=target, clients=[client],
                            message="haven't heard from client", **more)


class Clock:
    """Seconds since 1970 that stand still until a test moves them."""

    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


class KnownMachine:
    """What a source knows beside events."""

    node = NODE

    def __init__(self, **about):
        self.about = about

    def list_nodes(self, file_system):
        return [NODE] if file_system in ("", "scratch") else []

    def file_systems(self):
        return self.about.get("fileSystems", [])

    def about_node(self, name):
        return self.about if name == NODE else None

    def list_not_responding(self, file_system):
        return None


class Collector:
    """A server in a thread; `take` gives it events."""

    def __init__(self, directory="", keep=1000, maxtraps=250, allow=("127.0.0.0/8", "::1"),
                 clock=None, source=None, host="127.0.0.1", heartbeat_s=15.0, connections=512):
        self.clock, self.said = clock or Clock(), []
        self.journal = EventsJournal(str(directory), keep, self.clock, self.said.append)
        answers = Answers(self.journal, source or KnownMachine(fileSystems=["scratch"]), maxtraps,
                          self.clock)
        self.server = CollectorServer(self.journal, answers, access.parse_networks(allow),
                                      ["localhost", "mds1"], connections, heartbeat_s)
        self._bound = bound_sockets(host, 0, bound_socket)
        self._loop, ready = asyncio.new_event_loop(), threading.Event()

        def run():
            self._loop.run_until_complete(self.server.listen(self._bound))
            self._loop.call_soon(ready.set)
            self._loop.run_forever()
            self.server.close()
            self._loop.run_until_complete(asyncio.sleep(0.02))
            self._loop.close()
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert ready.wait(30)
        self.port = self.server.port
        self._proxies = []

    def on_loop(self, function):
        """The result of a function that is called on the server's loop."""
        async def call():
            return function()
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(30)

    def take(self, *events):
        self.on_loop(lambda: self.server.notify(self.journal.add(events)))

    @property
    def proxy(self):
        """xmlrpc.client's, with a connection of its own."""
        one = xmlrpc.client.ServerProxy(f"http://127.0.0.1:{self.port}/")
        self._proxies.append(one)
        return one

    def call(self, method, *params, **named):
        """The result of a method by JSON-RPC, or the error's dict."""
        found = self.post(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method,
                                      "params": list(params) or named}))[2]
        answer = json.loads(found)
        return answer["result"] if "result" in answer else answer["error"]

    def post(self, body, content_type="application/json", method="POST", path="/", **headers):
        """(status, headers in lower case, body) of a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {
                **({"Content-Type": content_type} if content_type else {}),
                **{name.replace("_", "-"): value for name, value in headers.items()}})
            answer = connection.getresponse()
            return (answer.status, {name.lower(): value for name, value in answer.getheaders()},
                    answer.read())
        finally:
            connection.close()

    def stream(self, after="", **headers):
        return EventStream(self.port, after, headers)

    def close(self):
        for one in self._proxies:
            one("close")()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self.journal.close()


class EventStream:
    """A reader of GET /events, as a browser's EventSource reads."""

    def __init__(self, port, after="", headers=(), read=True):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n"
                       for name, value in dict(headers).items())
        path = f"/events?after={after}" if after != "" else "/events"
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
        self._file, self.beats, self.last_id = self.socket.makefile("rb"), 0, ""
        self.head = []
        if read:
            for line in self._file:
                if not line.strip():
                    break
                self.head.append(line.decode().strip())

    def next(self):
        """(kind, data) of the next event; None when the stream ended."""
        kind, data = "message", None
        for line in self._file:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == ":":
                self.beats += 1
            elif name == "id":
                self.last_id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data = json.loads(value)
            elif not name and data is not None:
                return kind, data
        return None

    def close(self):
        self._file.close()
        self.socket.close()


@contextlib.contextmanager
def collector(*args, **kinds):
    """A Collector, closed at the end."""
    one = Collector(*args, **kinds)
    try:
        yield one
    finally:
        one.close()


# All that a collector imports later is imported first: root's Python may be closed to the user.
_AS_USER = """
import os, sys, encodings.idna, httptools, uvloop, xml.etree.ElementTree
import iostats.cli.collector as collector, iostats.collector.sources
import iostats.events.gather
user = int(sys.argv[1])
os.setgroups([]); os.setgid(user); os.setuid(user)
sys.exit(collector.main(sys.argv[3:]))
"""


class Machine:
    """
    A storage server's files, and collectors of it as commands; below a directory that other users
    can enter, since a collector that root starts becomes another user.
    """

    USER = "nobody"

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="iostats-collector-"))
        self.directory.chmod(0o755)
        self.root = self.directory / "root"
        (self.root / "dev").mkdir(parents=True)
        self._log = os.open(self.root / "dev/kmsg", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._sequence, self._started = 100, []

    def log(self, *texts, seconds=None, label="Lustre"):
        """Lines of the kernel's log; `seconds`: by its clock, default now."""
        seconds = time.clock_gettime(time.CLOCK_BOOTTIME) if seconds is None else seconds
        data = b""
        for text in texts:
            self._sequence += 1
            data += record(seconds, text, label, self._sequence)
        assert len(data) == os.write(self._log, data)

    def configured(self, name="one", text="", **choices):
        """Path of a site.cfg; `choices` of [collector]."""
        choices = {"port": free_port(), "state_dir": self.directory / f"{name}.state",
                   "pid_file": self.directory / f"{name}.pid",
                   **({"user": self.USER} if os.geteuid() == 0 else {}), **choices}
        path = self.directory / f"{name}.cfg"
        path.write_text(text + "[collector]\n" + "".join(
            f"{key} = {value}\n" for key, value in choices.items()))
        return path

    def run(self, *words, env=None):
        """A command that ends; its Done."""
        done = subprocess.run(self._words(words), env=self._environment(env), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=100,
                              cwd=self.directory)
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words, config, env=None, user=None):
        """A RunningCollector, when it listens; `user`: of this number, where root starts it."""
        path = self.directory / f"err{len(self._started)}"
        command = self._words(["--config", config, "--root", self.root, *words])
        if user is not None:
            command[1:3] = ["-c", _AS_USER, str(user)]
        with open(path, "w") as err:
            process = subprocess.Popen(
                command, stderr=err,
                env=self._environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                cwd=self.directory)
        one = RunningCollector(process, path)
        self._started.append(one)
        one.wait_until_listening()
        return one

    def _words(self, words):
        return [sys.executable, "-m", "iostats", "collector", *map(str, words)]

    def _environment(self, more):
        return {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "LC_ALL": "C.UTF-8",
                "HOME": str(self.directory), **(more or {})}

    def close(self):
        for one in self._started:
            one.kill()
        os.close(self._log)
        shutil.rmtree(self.directory)


class RunningCollector:
    """A collector as a process."""

    def __init__(self, process, err):
        self.process, self._err = process, err
        self.port = None

    @property
    def err(self):
        return self._err.read_text(encoding="utf-8")

    def wait_until_listening(self):
        def line():
            assert self.process.poll() is None, self.err
            return [one for one in self.err.splitlines(True)
                    if "listens at" in one and one.endswith("\n")]
        self.port = int(until(line, what=lambda: self.err)[0].rpartition(":")[2])

    def traps(self, stamp=0):
        """getTraps, by a connection of its own."""
        proxy = xmlrpc.client.ServerProxy(f"http://127.0.0.1:{self.port}/")
        try:
            return proxy.getTraps(stamp)
        finally:
            proxy("close")()

    def events(self, **params):
        """The result of `events`."""
        return asked(self.port, "events", params)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)


def asked(port, method, params):
    """The result of a method by JSON-RPC, or the error's dict."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/", json.dumps({
            "jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
            {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        return answer["result"] if "result" in answer else answer["error"]
    finally:
        connection.close()
