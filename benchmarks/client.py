"""
Figure 1: what `start` and `stop` cost a node, against the interpreter that does nothing.

Whole processes under `python3 -I -S` on a made node with 3 file systems, 16 OSTs and 3 MDTs.
`stop` sends to a real server on the loopback, through a relay that counts its bytes.
"""

import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import tree
from measure import (
    BARE_PYTHON,
    CLIENT,
    REPOSITORY,
    SERVER,
    BenchmarkError,
    Server,
    Table,
    cost_of,
    environment,
    free_port,
    median_ratio,
)

from simlustre.nfs_client import NfsClient

FILE_SYSTEMS = {"home": 2, "work": 6, "scratch": 8}
NFS_MOUNTS = (20, 300)
_FORKS = ("fork", "vfork", "clone", "clone3")


def run(quick):
    """The Tables of this figure."""
    with tempfile.TemporaryDirectory(prefix="iostats-bench-") as directory:
        for name, work in (("before", 23), ("after", 37)):
            tree.make(os.path.join(directory, name), FILE_SYSTEMS, work)
        for mounts in NFS_MOUNTS:
            _make_nfs_tree(os.path.join(directory, f"nfs{mounts}"), mounts)
        port = free_port()
        secret = os.path.join(directory, "secret")
        with Server([sys.executable, SERVER, "--job", "4711", "--nodes", "90000", "--quiet",
                     "--deadline", "3600", "--secret", secret, "--listen", f"127.0.0.1:{port}"],
                    port):
            relay = _Relay(port)
            try:
                commands = _commands(directory, secret, relay.port)
                costs = _costs(commands, rounds=5 if quick else 20)
                sent = relay.sent // relay.conversations
                traced = _traced(directory, commands)
            finally:
                relay.close()
    return [_time_table(costs), _nfs_table(costs), _trace_table(traced, sent)]


def _make_nfs_tree(directory, mounts):
    """The same node with a given number of NFS mounts, each with the 70 operations of NFS 4.2."""
    tree.make(directory, FILE_SYSTEMS, 23)
    client = NfsClient()
    for number in range(mounts):
        block = client.mount(f"nfs1:/export/home/user{number:04}", f"/home/user{number:04}")
        block.operations.update((f"OPERATION_{more}", [0] * 9) for more in range(57))
        block.read(1_000_003 * number)
    client.write_files(Path(directory))


def _commands(directory, secret, port):
    """name -> (node's name) -> the arguments of one run."""
    # As it is where the scripts lie on a file system that the nodes may not write to.
    uncompiled = os.path.join(directory, "copy", os.path.basename(CLIENT))
    shutil.copytree(os.path.join(REPOSITORY, "iostats"), os.path.join(directory, "copy", "iostats"),
                    ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CLIENT, uncompiled)

    def ours(role, tree_name, more=(), script=(CLIENT,)):
        return lambda node: [*BARE_PYTHON, *script, role, "--job", "4711", "--quiet",
                             "--node", node, "--root", os.path.join(directory, tree_name),
                             "--state-dir", os.path.join(directory, "state"), *more]

    to_server = ("--server", f"127.0.0.1:{port}", "--secret", secret)
    return {
        "bare": lambda node: [*BARE_PYTHON, "-c", "pass"],
        "start": ours("start", "before"),
        "stop": ours("stop", "after", to_server),
        **{f"start, {mounts} NFS mounts": ours("start", f"nfs{mounts}") for mounts in NFS_MOUNTS},
        "start, no .pyc": ours("start", "before", (), ("-B", uncompiled)),
        "stop, no .pyc": ours("stop", "after", to_server, ("-B", uncompiled)),
    }


def _costs(commands, rounds):
    """name -> [Cost], one a round; the first round, which compiles, is left out."""
    costs = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            # A start that no stop follows has a node of its own.
            node = f"node{number}-" + re.sub(r"\W", "", name.replace("stop", "start"))
            cost = cost_of(command(node))
            if number:
                costs[name].append(cost)
    return costs


def _time_table(costs):
    rows = []
    bare = costs["bare"]
    for name, ours in costs.items():
        wall_s, cpu_s = [one.wall_s for one in ours], [one.cpu_s for one in ours]
        rows.append([name if name != "bare" else "python3 -I -S -c pass",
                     f"{statistics.median(wall_s) * 1e3:.1f}",
                     f"{statistics.median(cpu_s) * 1e3:.1f}",
                     f"{median_ratio(wall_s, [one.wall_s for one in bare]):.2f}",
                     f"{median_ratio(cpu_s, [one.cpu_s for one in bare]):.2f}"])
    return Table("client: whole processes, 3 file systems, 16 OSTs (aim: start at most 3 x bare)",
                 ["run", "wall ms", "CPU ms", "wall / bare", "CPU / bare"], rows,
                 [f"median of {len(bare)} rounds; a round is one run of each, in this order",
                  "no .pyc: scripts on a file system that the node may not write to"])


def _nfs_table(costs):
    """What NFS mounts add to a start, from pairs of runs in one round."""
    rows = []
    for mounts in NFS_MOUNTS:
        pairs = list(zip(costs[f"start, {mounts} NFS mounts"], costs["start"]))
        rows.append([mounts, *(f"{statistics.median(map(gain, pairs)) * 1e3:.2f}" for gain in (
            lambda pair: pair[0].cpu_s - pair[1].cpu_s,
            lambda pair: pair[0].wall_s - pair[1].wall_s))])
    return Table("client: what NFS mounts add to a start (aim: 20 mounts 1.5 ms, 300 mounts 5 ms)",
                 ["mounts", "CPU ms", "wall ms"], rows,
                 ["without the kernel's printing: mountstats is a file here"])


# -- files, forks, bytes ---------------------------------------------------------------------

def _traced(directory, commands):
    """name -> (opened, of them counter files, paths looked up, forks) by strace, or {}."""
    strace = shutil.which("strace")
    if strace is None:
        return {}
    log, found = os.path.join(directory, "strace.log"), {}
    for name in ("bare", "start", "stop"):
        subprocess.run([strace, "-f", "-qq", "-s", "4096", "-e", "trace=%file,%process", "-o", log,
                        *commands[name]("traced")], env=environment(), check=True, timeout=60,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with open(log, encoding="utf-8", errors="replace") as file:
            found[name] = _counted(file, directory)
    return found


def _counted(lines, directory):
    opened = counter_files = looked_up = forks = 0
    for line in lines:
        call = re.match(r'\d+ +(\w+)\((?:AT_FDCWD, )?(?:"([^"]*)")?.*= (-?\w+)', line)
        if call is None:
            continue
        name, path, result = call.groups()
        looked_up += path is not None
        if name in ("open", "openat") and not result.startswith("-"):
            opened += 1
            counter_files += (path.startswith((f"{directory}/before/", f"{directory}/after/"))
                              and "O_DIRECTORY" not in line)
        forks += name in _FORKS and "CLONE_THREAD" not in line
    return opened, counter_files, looked_up, forks


def _trace_table(traced, sent):
    rows = [[name if name != "bare" else "python3 -I -S -c pass", *traced.get(name, ["-"] * 4),
             sent if name == "stop" else 0] for name in ("bare", "start", "stop")]
    notes = ["opened: files and directories, those of the interpreter too"]
    if not traced:
        notes.append("strace is not installed: files and forks were not counted")
    return Table("client: files, forks and bytes of one run",
                 ["run", "opened", "of them counters", "paths looked up", "forks", "bytes sent"],
                 rows, notes)


class _Relay:
    """
    Stands between `stop` and the server, and counts.

    Attributes:
        port: where it listens.
        sent: bytes that came from the nodes.
        conversations: how many of them had something to say.
    """

    def __init__(self, port):
        self.sent = self.conversations = 0
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                node, _ = self._listener.accept()
            except OSError:
                return                                  # closed: the figure is done
            with node, socket.create_connection(("127.0.0.1", self._to)) as server:
                self.conversations += 1
                back = threading.Thread(target=self._pass_on, args=(server, node))
                back.start()
                self.sent += self._pass_on(node, server)
                server.shutdown(socket.SHUT_WR)
                back.join()

    @staticmethod
    def _pass_on(source, sink):
        total = 0
        while True:
            part = source.recv(1 << 16)
            if not part:
                return total
            sink.sendall(part)
            total += len(part)

    def close(self):
        if self.conversations == 0:
            raise BenchmarkError(f"{REPOSITORY}: no `stop` has reached the relay")
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
