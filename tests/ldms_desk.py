"""
ldmsds for tests: simulated in this process, simulated as processes of their own, or real ones.

    async def story(desk):
        await desk.start("node-23", "load name=meminfo", ...)
        assert [0, 16] == await desk.errnos("node-23", "start name=meminfo interval=1s", ...)
        desk.kill("node-23")

    @pytest.mark.parametrize("kind", EITHER)
    def test_story(kind, tmp_path):
        run(kind, tmp_path, story)

EITHER has the simulated of both releases and, marked `ldms`, the ldmsd that is on PATH (4.4 or
4.5): what is said of one is said of the other.
"""
from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import REPOSITORY, free_port, until

from iostats_ldms.control import queries
from iostats_ldms.control.connection import Connection
from iostats_ldms.control.errors import ControlError
from simldms.asked import Reply, parsed
from simldms.daemon import VERSIONS
from simldms.live import LiveDaemon

REAL = pytest.param("real", marks=[pytest.mark.ldms, pytest.mark.skipif(
    shutil.which("ldmsd") is None, reason="no ldmsd on PATH")])
EITHER = [*VERSIONS, REAL]
UP_WITHIN_S = 150.0
# A daemon of a busy machine is slow to answer.
PATIENT = {"connect_within_s": 60.0, "answer_within_s": 60.0}


def real_version():
    """Such as 4.5.3: of the ldmsd on PATH."""
    said = subprocess.run(["ldmsd", "-V"], capture_output=True, text=True)
    found = re.search(r"LDMSD Version: v?(\d+\.\d+\.\d+)", said.stdout + said.stderr)
    # Built from a source archive it states UNKNOWN, and the version of its protocol.
    return found[1] if found else os.environ["LDMSD_RELEASE"]


class LdmsProcess:
    """
    An ldmsd that is a process: simulated, of a version, or real.

    Attributes:
        port: where it listens, on 127.0.0.1.
        process: a subprocess.Popen; None before the first start.
    """

    def __init__(self, directory, name, lines=(), *, kind=VERSIONS[0], port=None, options=()):
        self.directory, self.name, self.kind = directory, name, kind
        self.port = port or free_port()
        self.file, self.process = directory / f"{name}.conf", None
        self.log = directory / f"{name}.log"
        self.options = list(options)
        self.file.write_text("\n".join(lines) + "\n")

    def start(self):
        """Start it, or start it again, with the statements of its file; it answers then."""
        if self.kind == "real":
            self.file_of_real = self.file.with_suffix(".real")
            self.file_of_real.write_text(
                f"listen xprt=sock port={self.port} host=127.0.0.1\n" + self.file.read_text())
            command = ["ldmsd", "-F", "-c", str(self.file_of_real), "-l", str(self.log),
                       "-v", "ERROR", "-r", str(self.directory / f"{self.name}.pid"),
                       "-n", self.name]
        else:
            command = [sys.executable, "-m", "simldms", "-x", f"sock:{self.port}", "-n", self.name,
                       "-c", str(self.file), "--version", self.kind]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*command, *self.options], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd=REPOSITORY)
        until(lambda: self.process.poll() is not None or self.answers(), UP_WITHIN_S,
              lambda: f"an answer of {self.name}: {self.log.read_text()[-500:]!r}")
        return self

    def answers(self):
        """Until it has read its file, a real one answers "Daemon busy" (16)."""
        try:
            return asked(self.port, "cfg_cntr")[0].errno == 0
        except ControlError:
            return False

    def kill(self):
        """kill -9; it is gone then."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def hang(self):
        """It does nothing more: SIGSTOP reaches its threads one after the other."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        until(lambda: all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
                          for task in tasks.iterdir()), what="all threads to stop")

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


def asked(port, *lines, host="127.0.0.1"):
    """The replies to these statements, by a connection of their own; ControlError."""
    return asyncio.run(_asked(host, port, lines))


async def _asked(host, port, lines):
    connection = await Connection.open(host, port, **PATIENT)
    try:
        replies = [await connection.command(parsed(line)) for line in lines]
    finally:
        connection.close()
    return [Reply(*reply) for reply in replies]


async def observed_at(port, with_sets=False):
    """control.asking.ObservedState of the daemon there."""
    connection = await Connection.open("127.0.0.1", port, **PATIENT)
    try:
        return await queries.read_observed_state(connection, with_sets=with_sets)
    finally:
        connection.close()


class LdmsDesk:
    """
    Daemons of one kind (of EITHER, or "process 4.5.3"), within one event loop.

    Attributes:
        version: of all of them: 4.5.3.
        release: the first two parts of it: 4.5.
        live: {name: LiveDaemon} of those that are simulated in this process.
    """

    def __init__(self, kind, directory):
        self.kind, self.directory = kind, directory
        self.version = real_version() if kind == "real" else kind.split()[-1]
        self.release = self.version[:3]
        self.live, self.processes, self._lines, self.ports = {}, {}, {}, {}

    async def start(self, name, *lines, port=None, **options):
        """A daemon of this name with these statements; again: a fresh one on the same port."""
        self._lines[name] = lines = lines or self._lines.get(name, ())
        self.ports[name] = port = port or self.ports.get(name) or free_port()
        if self.kind in VERSIONS:
            self.live[name] = daemon = LiveDaemon(name, self.kind, **options)
            daemon.run_lines([f"listen xprt=sock port={port} host=127.0.0.1", *lines])
            return daemon
        kind = self.kind.split()[-1]
        self.processes[name] = LdmsProcess(self.directory, name, lines, kind=kind, port=port)
        await asyncio.get_running_loop().run_in_executor(None, self.processes[name].start)
        return self.processes[name]

    def kill(self, name):
        self._one(name).kill()

    def hang(self, name):
        self._one(name).hang()

    def go_on(self, name):
        if name in self.live:
            self.live[name].wake()
        else:
            self.processes[name].go_on()

    def _one(self, name):
        return self.live.get(name) or self.processes[name]

    async def ask(self, name, *lines):
        return await _asked("127.0.0.1", self.ports[name], lines)

    async def errnos(self, name, *lines):
        return [reply.errno for reply in await self.ask(name, *lines)]

    async def observed(self, name, with_sets=False):
        return await observed_at(self.ports[name], with_sets)

    async def until(self, name, true, within_s=150.0):
        """Once `true(observed)` of this daemon holds; what was observed then."""
        ends = asyncio.get_running_loop().time() + within_s
        while True:
            seen = await self.observed(name, with_sets=True)
            if true(seen):
                return seen
            assert asyncio.get_running_loop().time() < ends, seen
            await asyncio.sleep(0.05)

    async def close(self):
        for one in self.processes.values():
            one.kill()
        for one in self.live.values():
            await one.close()


def run(kind, directory, story):
    """`await story(desk)` in an event loop of its own; all daemons are ended with it."""
    async def whole():
        desk = LdmsDesk(kind, directory)
        try:
            await story(desk)
        finally:
            await desk.close()
    asyncio.run(whole())


def producer_line(name, port, *, host="127.0.0.1", reconnect="1s", kind="active"):
    """A prdcr_add."""
    return (f"prdcr_add name={name} host={host} port={port} xprt=sock type={kind} "
            f"reconnect={reconnect}")


def sampler_lines(name, plugin="meminfo", interval="1s"):
    """A sampler of one plugin, whose set is NAME/PLUGIN."""
    return (f"load name={plugin}",
            f"config name={plugin} producer={name} instance={name}/{plugin}",
            f"start name={plugin} interval={interval} offset=0")
