"""
"A cluster in ten minutes" of docs/how-to/ldms.md, as it stands there: its description, its commands
and what they print, with simulated daemons on addresses of their own and a real etcd.
"""
import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from getpass import getuser

import pytest
from processes import REPOSITORY, until
from site_desk import script

from simldms.live import LiveDaemon

pytestmark = pytest.mark.etcd

SECTION = re.search(r"(?s)\n## A cluster in ten minutes\n(.*?)\n## ",
                    (REPOSITORY / "docs/how-to/ldms.md").read_text(encoding="utf-8"))[1]
DESCRIPTION = re.search(r"(?s)```yaml\n(.*?)```", SECTION)[1]
# The hosts of the example are addresses of this machine, that no other test has.
HOSTS = {'hosts: "node-[1-8]"': 'hosts: "127.0.23.[1-8]"',
         'hosts: "head-[1-3]"': 'hosts: "127.0.23.[11-13]"', "hosts: mgmt": "hosts: 127.0.23.21"}
_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d"


def steps():
    """[[(command, what it prints)]] of each numbered step."""
    found = []
    for part in re.split(r"(?m)^\*\*\d\. ", SECTION)[1:]:
        commands = []
        for line in part.splitlines():
            if line.startswith("    $ "):
                commands.append((line[6:], []))
            elif line.startswith("    ") and commands:
                commands[-1][1].append(line.strip())
            elif line:
                # A block that begins without a command prints nothing.
                commands += [("", [])] if commands and commands[-1][0] else []
        found.append([(command, comparable(lines)) for command, lines in commands if command])
    return found


def comparable(lines):
    """Without times, durations, and how wide the columns are; without empty lines."""
    return [re.sub(r"\s+", " ", re.sub(rf"{_TIME}|\b\d+ s\b(?= +\d+$| ago$)", "-",
                                          line.strip()))
            for line in lines if line.strip()]


class Daemons:
    """The simulated daemons, by the files in `directory`, in a thread of their own."""

    def __init__(self, directory):
        self.directory, self.live = directory, {}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def start(self, name):
        self._there(lambda: self._start(name))

    def _start(self, name):
        self.live[name] = LiveDaemon(name)
        self.live[name].run_lines((self.directory / f"{name}.conf").read_text().splitlines())

    def kill(self, name):
        self._there(self.live[name].kill)

    def collects(self):
        """{producer: [aggregators of level 1 that have it started]}."""
        found = {}
        for name in ("agg-1", "agg-2", "agg-3"):
            if not self.live[name].gone.is_set():
                for producer, seen in self.live[name].daemon.producers.all.items():
                    if seen.state != "STOPPED":
                        found.setdefault(producer, []).append(name)
        return found

    def close(self):
        async def all_of_them():
            for one in self.live.values():
                await one.close()
        asyncio.run_coroutine_threadsafe(all_of_them(), self.loop).result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def _there(self, what):
        async def call():
            return what()
        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(30)


class Console:
    """Who types the commands; `run &` goes on until the end."""

    def __init__(self, directory, etcd):
        self.directory, self.prefix, self.running = directory, etcd.prefix, []
        script(directory / "bin/iostats",
               f"#!/bin/sh\nexec {sys.executable} -B -m iostats \"$@\"\n")
        self.environ = {"PATH": f"{directory}/bin:{os.environ['PATH']}", "HOME": str(directory),
                        "LC_ALL": "C.UTF-8", "PYTHONPATH": str(REPOSITORY), "COLUMNS": "160",
                        "USER": getuser(), "TZ": "UTC",
                        "IOSTATS_ETCD_ENDPOINTS": " ".join(etcd.endpoints),
                        "IOSTATS_ETCD_PREFIX": etcd.prefix}

    def start(self, command):
        with open(self.directory / "run.out", "ab") as out:
            self.running.append(subprocess.Popen(
                ["bash", "-c", f"exec {command.rstrip(' &')}"], cwd=self.directory,
                env=self.environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def prints(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.directory, env=self.environ,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        out = done.stdout.replace(self.prefix, "orion")
        for one in self.running:
            out = out.replace(f"{socket.gethostname().partition('.')[0]}.{one.pid}", "mgmt.4711")
        assert "Traceback" not in done.stderr, done.stderr
        return comparable(re.sub(rf"\b{getuser()}@\S+?(?=[:\s]|$)", "root@mgmt",
                                 out, flags=re.M).splitlines())

    def goes_through(self, step):
        """Each command prints what the document says, at once or soon."""
        for command, expected in step:
            if command.endswith("&"):
                self.start(command)
            elif re.search(r"\b(check|generate|load)\b", command):
                assert expected == self.prints(command)
            else:
                self.says(command, expected)

    def says(self, command, expected):
        until(lambda: expected == self.prints(command),
              what=lambda: "\n".join([command, *self.prints(command), "expected:", *expected]))

    def end(self):
        """SIGTERM to what goes on; their exit statuses."""
        for one in self.running:
            one.send_signal(signal.SIGTERM)
        return [one.wait(60) for one in self.running]


@pytest.fixture
def console(etcd, tmp_path):
    (tmp_path / "bin").mkdir()
    found = Console(tmp_path, etcd)
    yield found
    for one in found.running:
        one.kill()
        one.wait()


@pytest.fixture
def daemons(tmp_path):
    found = Daemons(tmp_path / "conf")
    yield found
    found.close()


def test_commands_of_configuration_files_run(console, tmp_path):
    """On the same description, in their order."""
    page = (REPOSITORY / "docs/how-to/ldms.md").read_text(encoding="utf-8")
    section = page[page.index("\n## Configuration files\n"):page.index("\n## etcd\n")]
    (tmp_path / "orion.yaml").write_text(DESCRIPTION)
    commands = re.findall(r"(?m)^    (iostats .*)", section)

    said = [console.prints(command) for command in commands]

    assert ["conf: 12 configuration files for LDMS 4.4: 12 written, 0 unchanged"] == said[0]
    assert "prdcr_start name=sampler-1" in said[1]


def test_the_example_does_what_it_says(console, daemons, tmp_path):
    text = DESCRIPTION
    for host, address in HOSTS.items():
        assert host in text
        text = text.replace(host, address)
    (tmp_path / "orion.yaml").write_text(text)
    check, into_etcd, run_it, fails, changes = steps()

    console.goes_through(check)
    names = sorted(path.stem for path in (tmp_path / "conf").iterdir())
    assert 12 == len(names)
    for name in names:
        daemons.start(name)
    console.goes_through(into_etcd)
    console.goes_through(run_it)
    assert {f"sampler-{number}" for number in range(1, 9)} == set(daemons.collects())

    daemons.kill("agg-2")
    console.goes_through(fails)
    assert [1] * 8 == [len(names) for names in daemons.collects().values()]
    daemons.start("agg-2")
    console.says("iostats ldms plan | tail -1", ["12 of 12 daemons answered; nothing to do"])
    until(lambda: sorted(map(tuple, daemons.collects().values())) ==
          [("agg-1",)] * 3 + [("agg-2",)] * 3 + [("agg-3",)] * 2)

    changed = text.replace("memory: {name: meminfo, interval: 10s",
                           "memory: {name: meminfo, interval: 2s")
    assert changed != text
    (tmp_path / "orion.yaml").write_text(changed)
    console.goes_through(changes)
    plugins = daemons.live["sampler-7"].daemon.plugins.loaded
    until(lambda: (2_000_000, 0) == plugins["memory"].period_us)
    assert (10_000_000, 0) == plugins["lustre"].period_us
    assert [0] == console.end()
