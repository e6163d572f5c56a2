"""
A site with its pages: `WebDesk` is a SiteDesk with an `iostats web` of a user who is not root, and
`Proxy` stands in for the site's proxy, which tells who has logged in.
"""
from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import events_messages
import pytest
import sweep_blocks
from processes import REPOSITORY, Done, free_port, until
from site_desk import SiteDesk

from iostats.wire import client, protocol

HEADER = "X-Remote-User"
WEB_USER = 65534                               # nobody


def as_user(uid):
    """
    The beginning of a command that runs as the user `uid`, wherever Python is: also below /root.

    It may read and search what is closed to `uid`, and has no other capability: a socket, a file
    that is written and the kernel's word on who asks are as for any process of that user.
    """
    setpriv = shutil.which("setpriv")
    if not setpriv:
        pytest.skip("needs setpriv")
    return [setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
            "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search",
            "--bounding-set=-all,+dac_read_search", "--no-new-privs"]


class Response:
    """What was answered."""

    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if lines[0] else 0
        self.headers = {name.lower(): value.strip() for name, _, value in (
            line.partition(":") for line in lines[1:])}
        if self.headers.get("transfer-encoding") == "chunked":
            self.body = _joined(self.body)
        self.text = self.body.decode("utf-8", "replace")


def _joined(data):
    whole = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        number = int(size, 16)
        whole += data[:number]
        data = data[number + 2:]
    return whole


class WebDesk(SiteDesk):
    """A machine with a site's server, and its pages."""

    def __init__(self):
        path = tempfile.mkdtemp(prefix="iostats-test-")
        os.chmod(path, 0o777)                  # pytest's own are closed to other users
        super().__init__(path)
        self.web_port, self.web_socket = free_port(), self.directory / "web.sock"
        self.web_err = self.directory / "web.err"
        self.configure(site_deadline=0.05, web_listen=f"127.0.0.1:{self.web_port}",
                       web_user_header=HEADER, web_trusted="127.0.0.1",
                       web_socket=str(self.web_socket), web_every=1)
        self.cfg.chmod(0o644)

    def close(self):
        super().close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def web(self, *arguments, user=WEB_USER, wait=True, env=None):
        """Start `iostats web`; its process, when it listens."""
        secret = self.directory / "web.secret"
        if self.site_secret.exists() and not secret.exists():
            shutil.copy(self.site_secret, secret)
            os.chown(secret, WEB_USER, WEB_USER)
            secret.chmod(0o600)
        with self.web_err.open("w") as err:
            process = subprocess.Popen(
                [*(as_user(user) if user else ()), sys.executable, "-m", "iostats", "web",
                 "--config", str(self.cfg), *map(str, arguments)],
                cwd="/", stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                env={"PATH": str(self.bin), "PYTHONPATH": str(REPOSITORY),
                     "IOSTATS_SITE_SECRET": str(secret), "LC_ALL": "C.UTF-8", **(env or {})})
        self.started.append(process)
        if wait:
            until(lambda: process.poll() is not None or "pages at" in self.web_err.read_text(),
                  what="iostats web")
            assert process.poll() is None, self.web_err.read_text()
        return process

    def web_that_ends(self, *arguments, **how):
        """`iostats web` that cannot begin; the Done."""
        process = self.web(*arguments, wait=False, **how)
        status = process.wait(60)
        return Done(status, "", self.web_err.read_text())

    def connect(self, unix=False):
        """A connection to the pages."""
        if unix:
            one = socket.socket(socket.AF_UNIX)
            one.connect(str(self.web_socket))
        else:
            one = socket.create_connection(("127.0.0.1", self.web_port))
        one.settimeout(60)
        return one

    def raw(self, data, unix=False):
        """What is answered to these bytes, until the connection ends."""
        with self.connect(unix) as one:
            one.sendall(data)
            found = []
            with contextlib.suppress(ConnectionResetError):
                while part := one.recv(1 << 16):
                    found.append(part)
        return Response(b"".join(found))

    def get(self, path, user=None, method="GET", headers=(), unix=False):
        """The Response to a request; `user`: whom the proxy names."""
        lines = [f"{method} {path} HTTP/1.1", "Host: pages.example", "Connection: close",
                 *([f"{HEADER}: {user}"] if user is not None else []), *headers]
        return self.raw(("\r\n".join(lines) + "\r\n\r\n").encode(), unix)

    def get_as(self, uid, path, headers=()):
        """The Response to a program of another user at the local socket."""
        code = ("import socket, sys\none = socket.socket(socket.AF_UNIX)\n"
                "one.connect(sys.argv[1])\none.sendall(sys.stdin.buffer.read())\n"
                "while True:\n    part = one.recv(65536)\n    if not part: break\n"
                "    sys.stdout.buffer.write(part)\n")
        request = "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *headers])
        done = subprocess.run([*as_user(uid), sys.executable, "-c", code, str(self.web_socket)],
                              cwd="/", input=(request + "\r\n\r\n").encode(),
                              capture_output=True, timeout=60)
        assert not done.stderr, done.stderr
        return Response(done.stdout)


class StorageServer:
    """A storage server's agent, as far as it sends sweeps and events to a desk's site."""

    def __init__(self, desk, node="oss1", file_system="scratch"):
        self._desk, self.node, self._fs, self._seq = desk, node, file_system, 0
        self._began = time.time() - 300

    def sweep(self, totals, every=1):
        """
        Tell of {target: {job: {counter: (samples, sum)}}}, what was counted since they began; the
        moment of the sweep, a whole second.
        """
        time.sleep(1 - time.time() % 1)
        now, self._seq = time.time(), self._seq + 1
        head = {"node": self.node, "boot_id": "b" * 32, "run": "1" * 16, "seq": self._seq,
                "full": self._seq == 1, "slot": int(now), "every": every, "last": True}
        answer = self._tell("packed_sweep", sweep_blocks.params(
            head, [self._block(target, jobs, now) for target, jobs in totals.items()]))
        assert answer["taken"], answer
        return int(now)

    def _block(self, target, jobs, now):
        ids, counters = list(jobs), {}
        for place, amounts in enumerate(jobs.values()):
            for name, (samples, total) in amounts.items():
                unit = "bytes" if name.endswith("_bytes") else "usecs"
                column = counters.setdefault(name, sweep_blocks.Column(unit, [], [], sum=[]))
                for numbers, value in ((column.at, place), (column.samples, samples),
                                       (column.sum, total)):
                    numbers.append(value)
        return sweep_blocks.Block(
            file_system=self._fs, target=target, read_at=now, cleanup_s=600, ended=True,
            entries=len(ids), ids=ids, started=[self._began * 1e9] * len(ids),
            seen=[now * 1e9] * len(ids), counters=counters)

    def events(self, *events):
        """Tell of Events; see events_messages.event."""
        self._seq_of_events = getattr(self, "_seq_of_events", 0) + 1
        for one in events_messages.params(events, self.node, made_at=time.time(),
                                          seq=self._seq_of_events, status=events_messages.STATUS):
            self._tell("packed_events", one)

    def _tell(self, method, params):
        return client.call("127.0.0.1", self._desk.port, protocol.SITE, self._desk.signs(),
                           self.node, method, params)


class Proxy:
    """The site's proxy: names `user` for every request; an address for a browser."""

    def __init__(self, port, user):
        self.user, self._to = user, port
        self.refused = ""                      # a path of which it says 502
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listening.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one):
        with one, contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                part = one.recv(65536)
                if not part:
                    return
                data += part
            first, _, rest = data.partition(b"\r\n")
            if self.refused and first.split(b" ")[1].startswith(self.refused.encode()):
                one.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n"
                            b"Connection: close\r\n\r\n")
                return
            lines = [line for line in rest.partition(b"\r\n\r\n")[0].split(b"\r\n")
                     if not line.lower().startswith((b"connection:", HEADER.lower().encode()))]
            lines += [b"Connection: close", f"{HEADER}: {self.user}".encode()]
            with socket.create_connection(("127.0.0.1", self._to)) as pages:
                pages.sendall(b"\r\n".join([first, *lines]) + b"\r\n\r\n")
                threading.Thread(target=self._until_gone, args=(one, pages), daemon=True).start()
                while part := pages.recv(65536):
                    one.sendall(part)

    @staticmethod
    def _until_gone(one, pages):
        """A browser that leaves is one that leaves the pages."""
        with contextlib.suppress(OSError):
            while one.recv(65536):
                pass
            pages.shutdown(socket.SHUT_RDWR)
