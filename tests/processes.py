"""
Starting the client and the server as users start them, and trees of counter files to give them.

`Desk` is one user at one machine: a home, a state directory, trees, and all processes that were
started there, which are ended with it.  Nothing here waits a fixed time: `until` looks again and
again, and fails after a deadline.
"""
from __future__ import annotations

import contextlib
import functools
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared"
CLIENT = REPOSITORY / "iostats_client.py"
SERVER = REPOSITORY / "iostats_server.py"

INSTANCE = "ffff9a3c5d1e0800"
LLITE = f"sys/kernel/debug/lustre/llite/scratch-{INSTANCE}/stats"
OSC = f"sys/kernel/debug/lustre/osc/scratch-OST0000-osc-{INSTANCE}/stats"
RPC_STATS = f"proc/fs/lustre/osc/scratch-OST0000-osc-{INSTANCE}/rpc_stats"
MDC = f"sys/kernel/debug/lustre/mdc/scratch-MDT0000-mdc-{INSTANCE}/stats"
MD_STATS = f"proc/fs/lustre/mdc/scratch-MDT0000-mdc-{INSTANCE}/md_stats"
UUID = f"sys/fs/lustre/llite/scratch-{INSTANCE}/uuid"


def private_mounts(*options):
    """
    The beginning of a command that runs in mounts (and what `options` say) of its own.

    In a chroot "/" is no mount point: what it is on is made private then.
    """
    return ["unshare", "--mount", *options, "--propagation", "unchanged", "/bin/sh", "-c",
            'mount --make-rprivate / 2>/dev/null || '
            'nsenter --mount=/proc/self/ns/mnt mount --make-rprivate / || exit 77\nexec "$@"', "sh"]


# -- time, ports, names ----------------------------------------------------------------------

def until(true, within_s=150.0, what="it"):
    """
    The first true value of `true()`; fails when there is none within `within_s` seconds.

    `what`: text, or a function that tells how things are in the end.
    """
    ends = time.monotonic() + within_s
    while True:
        asked = time.monotonic()
        value = true()
        if value:
            return value
        now = time.monotonic()
        assert now < ends, (
            f"{what() if callable(what) else what} did not happen within {within_s} s")
        # Who asks by a command leaves the processor to what is waited for, and to other tests.
        time.sleep(min(max(0.005, 2 * (now - asked)), 0.5))


def new_job():
    """The id of a job that no other test has, so that its ports are hardly another's."""
    return str(random.randrange(1_000_000, 9_999_999))


def job_with_free_ports(count):
    """(job, its first `count` ports), all of them free just now."""
    from iostats.base.job_ports import list_ports
    while True:
        job = new_job()
        wanted = list_ports(job, 20000, 29999, count)
        if all(is_free(port) for port in wanted):
            return job, wanted


def two_jobs_with_one_port():
    """Two jobs whose first port is the same one, free just now."""
    job, _ = job_with_free_ports(2)
    return job, str(int(job) + 10_000)


def is_free(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextlib.contextmanager
def unresponsive_port():
    """A port whose queue of connections is full: no answer comes from it, and no refusal."""
    with contextlib.ExitStack() as sockets:
        full = sockets.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            one = sockets.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        yield full.getsockname()[1]


_PARTS = 100


def _own_part(parts):
    """
    (a number below `parts` that no other process of tests on this machine has, what holds it).

    A name in the kernel's own space, which is free again when the process has ended.
    """
    for part in range(parts):
        holds = socket.socket(socket.AF_UNIX)
        try:
            holds.bind(f"\0iostats tests {part}")
        except OSError:
            holds.close()
        else:
            return part, holds
    return random.randrange(parts), None


# Below those that the kernel gives to whoever connects or asks for any, and not those of jobs; each
# process has its own, of whichever run of the tests it is: `make test` has two for each core.
_part, _holds_part = _own_part(_PARTS)
_ports = itertools.cycle(random.sample(range(10_000 + _part, 20_000, _PARTS), 10_000 // _PARTS))


def free_port():
    """A port of 127.0.0.1 that nobody has just now, and that no other test here has had."""
    return next(port for port in _ports if is_free(port))


# -- interpreters ----------------------------------------------------------------------------

@functools.lru_cache(None)
def interpreters():
    """Python 3.9 and newer of this machine: this one, those on PATH, those of pyenv."""
    names = [f"python3.{minor}" for minor in range(9, 16)]
    paths = [sys.executable, *filter(None, map(shutil.which, names))]
    paths.append("/usr/bin/python3")
    paths += sorted(map(str, Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3")))
    found = {}
    for path in paths:
        try:
            done = subprocess.run([path, "-I", "-S", "-c",
                                   "import sys; print('%d.%d.%d' % sys.version_info[:3])"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            continue
        version = done.stdout.strip()
        if done.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 9):
            found.setdefault(version, path)
    return list(found.items())


# -- trees of counter files ------------------------------------------------------------------

def stats(*lines, start=1_795_225_320, snapshot=1_795_225_391):
    """The text of a `stats` file as Lustre 2.15 prints it."""
    return "".join(f"{line}\n" for line in (
        f"snapshot_time             {snapshot}.218307760 secs.nsecs",
        f"start_time                {start}.689414960 secs.nsecs",
        f"elapsed_time              {snapshot - start}.528892800 secs.nsecs", *lines))


def put(root, path, text):
    """Write one file below `root`: who reads it meanwhile has all of the one, or of the other."""
    whole = Path(root, path)
    whole.parent.mkdir(parents=True, exist_ok=True)
    new = whole.with_name(f"{whole.name}.new")
    new.write_text(text, encoding="latin-1")
    new.replace(whole)


def write_tree(root, reads=0, read_bytes=0, writes=0, write_bytes=0, opens=0, mkdirs=0, rpcs=0):
    """
    A node with one mount `scratch` of one OST and one MDT, whose programs did what is said.

    On the wire went `rpcs` RPCs each way, with exactly the application's bytes if there are any.
    """
    put(root, LLITE, stats(
        f"read_bytes                {reads} samples [bytes] 1 1048576 {read_bytes}",
        f"write_bytes               {writes} samples [bytes] 1 1048576 {write_bytes}",
        f"open                      {opens} samples [usecs] 31 8117 {opens * 1000} 402653184",
        f"mkdir                     {mkdirs} samples [usecs] 31 8117 {mkdirs * 2000} 402653184"))
    put(root, OSC, stats(
        f"read_bytes                {rpcs} samples [bytes] 1 1048576 {read_bytes * bool(rpcs)} 99",
        f"write_bytes               {rpcs} samples [bytes] 1 1048576 {write_bytes * bool(rpcs)} 99",
        ))
    put(root, RPC_STATS, stats().replace("_time ", "_time:") + "read RPCs in flight:  0\n")
    put(root, MDC, stats(f"mds_close                 {opens} samples [usecs] 1 2 {opens} 4"))
    put(root, MD_STATS, stats(f"close                     {opens} samples [reqs]"))
    put(root, UUID, "e88223e6-d231-4dd2-b717-3318de572019\n")
    put(root, "proc/mounts", "10.99.0.2@tcp:/scratch /scratch lustre rw 0 0\n")
    return root


BEFORE = dict(reads=5, read_bytes=7_000, writes=3, write_bytes=9_000, opens=11, mkdirs=2, rpcs=2)
# What the job adds in every test that does not say otherwise:
#   23 reads of 41,003 bytes, 37 writes of 53,007 bytes, 43 opens, 13 mkdirs, 19 RPCs each way
AFTER = dict(reads=28, read_bytes=48_003, writes=40, write_bytes=62_007, opens=54, mkdirs=15,
             rpcs=21)


def checked_out_commit():
    """" (commit 1f2e3d4c5b6a)" as in --version; "" without git, or outside a git checkout."""
    if not (REPOSITORY / ".git").exists() or not shutil.which("git"):
        return ""
    done = subprocess.run(["git", "-C", REPOSITORY, "rev-parse", "--short=12", "HEAD"],
                          capture_output=True, text=True)
    return f" (commit {done.stdout.strip()})" if done.returncode == 0 else ""


def contents(directory):
    """{path: (mode, bytes)} of everything below `directory`, to see that nothing was changed."""
    found = {}
    for path in sorted(Path(directory).rglob("*")):
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path.relative_to(directory))] = (path.lstat().st_mode, data)
    return found


# -- processes -------------------------------------------------------------------------------

class Done:
    """A command that has ended: its status, and what it printed."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.lines = err.splitlines()

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def line(self):
        """The one line on standard error."""
        assert len(self.lines) == 1, self
        assert "Traceback" not in self.err, self
        return self.lines[0]

    @property
    def record(self):
        """Standard output, which is one JSON value."""
        return json.loads(self.out)


class Server:
    """A running iostats_server.py; see Desk.server."""

    def __init__(self, process, job, out, err):
        self.process, self.job, self._out, self._err = process, job, out, err
        self.port = None

    @property
    def err(self):
        return self._err.read_text(encoding="utf-8")

    def wait_until_listening(self):
        """Until it says where it listens, which is then `port`."""
        line = until(self._its_line, what="the server's first line")
        self.port = int(line.partition(",")[0].rpartition(":")[2])

    def _its_line(self):
        assert self.process.poll() is None, f"status {self.process.returncode}\n{self.err}"
        found = [line for line in self.err.splitlines(True)
                 if "server of job" in line and line.endswith("\n")]
        return found and found[0]

    def post(self, body, authorization=None, method="POST"):
        """(HTTP status, body) of one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            headers = {"Authorization": authorization} if authorization else {}
            connection.request(method, "/", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def call(self, method):
        """The answer to a request without params or secret."""
        body = json.dumps({"jsonrpc": "2.0", "method": method, "id": 23}).encode()
        return json.loads(self.post(body)[1])

    def stop(self, number=signal.SIGTERM):
        """Send a signal; the Done."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self, within_s=100):
        """The Done, when it has ended."""
        status = self.process.wait(within_s)
        return Done(status, self._out.read_text(encoding="utf-8"), self.err)


class Desk:
    """A user's home, state directory and processes, all below one directory."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.home, self.state = self.directory / "home", self.directory / "state"
        self.journals = self.directory / "journals"       # of servers: their [node] state_dir
        self.home.mkdir()
        self.job = new_job()
        self.started, self._number = [], 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def environment(self, extra=None):
        """What a process sees: nothing of the batch system or iostats, but what `extra` says."""
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self.home), "LC_ALL": "C.UTF-8",
                "USER": "alice", **(extra or {})}

    def tree(self, name="node", **counters):
        """A tree below the desk, written by write_tree."""
        return write_tree(self.directory / name, **counters)

    # the client

    def client(self, *arguments, job=True, env=None, python=sys.executable, **how):
        """Run `python3 -I -S iostats_client.py`; the Done.  `job`: this desk's, or another."""
        return self.begin_client(*arguments, job=job, env=env, python=python, **how)()

    def begin_client(self, *arguments, job=True, env=None, python=sys.executable, **how):
        """The same in two steps: a function that waits for the end."""
        arguments = [python, "-I", "-S", str(how.pop("script", CLIENT)), *map(str, arguments)]
        if job:
            arguments += ["--job", self.job if job is True else job]
        process = subprocess.Popen(arguments, env=self.environment(env), cwd=self.directory,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **how)
        self.started.append(process)

        def finish():
            out, err = process.communicate(timeout=100)
            return Done(process.returncode, out, err)
        return finish

    def on(self, node, root, *, state=None):
        """The options of a client on `node` that reads `root`."""
        return ("--node", node, "--root", root, "--state-dir", state or self.state)

    def whole_job(self, server, node, before=BEFORE, after=AFTER):
        """Start, work and stop of one node; the Done of the stop."""
        root = self.tree(node, **before)
        done = self.client("start", *self.on(node, root))
        assert done.status == 0, done
        write_tree(root, **after)
        return self.client("stop", "--server", f"127.0.0.1:{server.port}", *self.on(node, root))

    # the server

    def begin_server(self, *arguments, job=None, env=None, listen="127.0.0.1", **how):
        """A Server that was started, and may not yet listen."""
        self._number += 1
        out = self.directory / f"server-{self._number}.out"
        err = self.directory / f"server-{self._number}.err"
        job = job or self.job
        command = [sys.executable, str(how.pop("script", SERVER)), "--job", job,
                   *map(str, arguments)]
        if listen:
            command += ["--listen", listen]
        with out.open("w") as out_file, err.open("w") as err_file:
            process = subprocess.Popen(
                command, env=self.environment({"IOSTATS_NODE_STATE_DIR": str(self.journals),
                                               **(env or {})}),
                cwd=self.directory, stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file,
                **how)
        self.started.append(process)
        return Server(process, job, out, err)

    def server(self, *arguments, **how):
        """A Server that listens."""
        server = self.begin_server(*arguments, **how)
        server.wait_until_listening()
        return server

    def run_server(self, *arguments, **how):
        """A server that ends by itself, with a mistake; the Done."""
        return self.begin_server(*arguments, **how).wait()

    @property
    def secret(self):
        """The secret of this desk's job, which the server made."""
        return (self.home / ".iostats" / f"{self.job}.secret").read_bytes().strip()

    def close(self):
        """End everything that was started here."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()


# -- somebody else on the port ---------------------------------------------------------------

class Listener:
    """
    Somebody else's server on 127.0.0.1: `answer` is what it says to every connection, whatever
    it was asked; None for one that accepts and never says a word.
    """

    def __init__(self, port, answer):
        self._answer, self._held = answer, []
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._held.append(connection)
            if self._answer is not None:
                try:
                    connection.settimeout(30)
                    connection.recv(65536)
                    connection.sendall(self._answer)
                except OSError:
                    pass

    @property
    def met(self):
        """How many connections came."""
        return len(self._held)

    def close(self):
        """Stop listening, and drop who waits."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()
        self._thread.join(10)
        for connection in self._held:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def fill(file):
    """Write to an unbuffered file until its disk has no byte left."""
    for size in (4096, 1):
        try:
            while True:
                file.write(b"x" * size)
        except OSError:
            pass


class TinyDisk:
    """A tmpfs of 1 MiB, or so, that can be filled to the last byte."""

    def __init__(self, path, size="1m"):
        self.path = path
        os.makedirs(path, exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "iostats",
                           str(path)], stderr=subprocess.DEVNULL).returncode:
            pytest.skip("no tmpfs can be mounted")

    def fill(self, but=0):
        """Leave `but` bytes free."""
        with open(os.path.join(self.path, ".full"), "wb", buffering=0) as file:
            fill(file)
            if but:
                file.truncate(max(0, file.tell() - but))

    def calm(self):
        """There is room again."""
        try:
            os.unlink(os.path.join(self.path, ".full"))
        except FileNotFoundError:
            pass

    def close(self):
        subprocess.run(["umount", "-l", str(self.path)], check=False)


def http_answer(body, status="200 OK", headers=()):
    """The bytes of an HTTP answer."""
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json",
            f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body
