"""
Three instances of `iostats ldms run`, processes each, over simulated daemons and a real etcd: what
one leaves, others go on with, and one that was stopped commands nothing.
"""
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from urllib.parse import unquote

import pytest
from etcd_desk import Wires
from ldms_desk import run
from processes import REPOSITORY

from iostats.etcd.client import Etcd
from iostats_ldms import published
from iostats_ldms.statements.dialect import format_statement

pytestmark = pytest.mark.etcd
NAMES = ("node-1", "node-2", "node-3", "node-4", "agg-1", "agg-2", "top-1")
AGGS, SAMPLERS = "agg-[1-2]", "node-[1-4]"
GROUP_OF = {"node": SAMPLERS, "agg": AGGS, "top": "top-1"}
SETS = {f"node-{number}/meminfo" for number in (1, 2, 3, 4)}
WITHIN_S = 90.0
DESCRIPTION = """\
daemons:
- {{names: 'node-[1-4]', hosts: 127.0.0.1, endpoints: [
    {{names: 'node-[1-4]', ports: [{0}, {1}, {2}, {3}], maestro_comm: true}}]}}
- {{names: 'agg-[1-2]', hosts: 127.0.0.1, endpoints: [
    {{names: 'agg-[1-2]', ports: [{4}, {5}], maestro_comm: true}}]}}
- {{names: top-1, hosts: 127.0.0.1, endpoints: [
    {{names: top-1, ports: [{6}], maestro_comm: true}}]}}
aggregators:
- daemons: 'agg-[1-2]'
  peers: [{{daemons: 'node-[1-4]', endpoints: 'node-[1-4]', reconnect: 1s, type: active,
    updaters: [{{mode: pull, interval: 1s, offset: 100ms}}]}}]
- daemons: top-1
  peers: [{{daemons: 'agg-[1-2]', endpoints: 'agg-[1-2]', reconnect: 1s, type: active,
    updaters: [{{mode: pull, interval: 1s, offset: 200ms}}]}}]
samplers:
- {{daemons: 'node-[1-4]', plugins: [meminfo]}}
plugins:
  meminfo: {{name: meminfo, interval: 1s, config: [{{schema: meminfo}}]}}
"""
# What another description has, so that agg-1 and agg-2 are told interval=2000000.
OTHER = ("interval: 1s, offset: 100ms", "interval: 2s, offset: 100ms")


class Instances:
    """The processes, and what etcd says of them."""

    def __init__(self, etcd, directory):
        self.etcd, self.directory, self.processes, self._wires = etcd, directory, [], []
        # The daemons are simulated here, and are slow to answer on a busy machine.
        (directory / "site.cfg").write_text(
            "[ldms]\nlease = 3\npoll = 1\nconnect_timeout = 60\nanswer_timeout = 60\n")
        self.options = ["--prefix", etcd.prefix, "--config", str(directory / "site.cfg")]

    def begin(self):
        number = len(self.processes)
        [member] = self.etcd.cluster.members
        port = int(member.url.rpartition(":")[2])
        self._wires.append(Wires())
        self._wires[number].names[port] = "etcd"
        url = f"http://127.0.0.1:{self._wires[number].to(port)}"
        with open(self.directory / f"{number}.log", "ab") as log:
            self.processes.append(subprocess.Popen(
                [sys.executable, "-m", "iostats", "ldms", "run", "--etcd", url, *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=REPOSITORY))

    def describe(self, text):
        with Etcd(self.etcd.endpoints, prefix=self.etcd.prefix) as etcd:
            published.load(etcd, text, [], published.read_current_revision(etcd), by="alice")

    def cut_off(self, process):
        """Nothing comes to it from etcd."""
        self._wires[self.processes.index(process)].cut.add("etcd")

    def join(self, process):
        """The end of being cut off."""
        wires = self._wires[self.processes.index(process)]
        wires.cut.clear()
        wires.renew()

    def log(self, process):
        return (self.directory / f"{self.processes.index(process)}.log").read_text()

    def logs(self):
        return [self.log(process) for process in self.processes]

    async def status(self):
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "iostats", "ldms", "status", "--json", "--etcd",
            ",".join(self.etcd.endpoints), *self.options,
            stdout=subprocess.PIPE, cwd=REPOSITORY, env={**os.environ})
        out, _ = await command.communicate()
        assert 0 == command.returncode
        return json.loads(out)

    def owners(self):
        """{group: the process that owns it}."""
        with Etcd(self.etcd.endpoints, prefix=self.etcd.prefix) as etcd:
            found, _ = etcd.range(etcd.below("owners"))
        by_pid = {str(process.pid): process for process in self.processes}
        return {unquote(one.key.rpartition("/")[2]):
                by_pid.get(one.value.decode().rpartition(".")[2]) for one in found}

    async def owner(self, group, but=()):
        """The process that owns the group, once there is one that is none of `but`."""
        found = []

        async def is_there():
            found[:] = [self.owners().get(group)]
            return found[0] not in (None, *but)
        await until(is_there, self.logs)
        return found[0]

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for wires in self._wires:
            wires.close()


async def until(true, what):
    ends = asyncio.get_running_loop().time() + WITHIN_S
    while not await true():
        assert asyncio.get_running_loop().time() < ends, what()
        await asyncio.sleep(0.2)


async def collected_once(desk, aggregators):
    """Whether each set is at one of the aggregators, and at the top."""
    found = []
    for name in aggregators:
        found += [one.instance for one in (await desk.observed(name, with_sets=True)).sets]
    top = [one.instance for one in (await desk.observed("top-1", with_sets=True)).sets]
    return sorted(SETS) == sorted(found) == sorted(top)


class Told:
    """
    What the daemons were told to change: [(process that told it, its port, daemon, line)].

    The process waits for the answer while we ask whose the port is; None where it does not any
    more.
    """

    def __init__(self, instances):
        self._instances, self.all = instances, []

    def __call__(self, daemon, statement, port):
        sender = next((process for process in self._instances.processes
                       if port in ports(process.pid)), None)
        self.all.append((sender, port, daemon, format_statement(statement)))


def ports(pid):
    """The TCP ports of this host that a process has, by its open files; none once it is gone."""
    files = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):      # just closed
                files.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in files}


def taken_again(log):
    """
    The groups that it took since it noticed that it had lost its own, by what it logged since; []
    before it did.  A stop of more than three leases it notices by its own clock, before etcd.
    """
    _, noticed, rest = log.partition("other instances ")
    return [group for group in GROUP_OF.values() if noticed and any(
        group in line for line in rest.splitlines() if "watching " in line)]


def test_one_is_killed_and_one_is_stopped_and_each_set_is_collected_once(etcd, tmp_path):
    instances = Instances(etcd, tmp_path)

    told = Told(instances)

    async def story(desk):
        for name in NAMES:
            await desk.start(name, heard=told)
        text = DESCRIPTION.format(*(desk.ports[name] for name in NAMES))
        instances.describe(text)
        for _ in range(3):
            instances.begin()

        async def each_has_one():
            return {*instances.processes} == {*instances.owners().values()}

        async def is_collected(*aggregators):
            await until(lambda: collected_once(desk, aggregators), instances.logs)
        await until(each_has_one, instances.logs)
        await is_collected("agg-1", "agg-2")
        assert {*instances.processes} & {sender for sender, _, _, _ in told.all}

        victim = await instances.owner(AGGS)
        victim.kill()
        victim.wait()
        desk.kill("agg-1")
        await is_collected("agg-2")
        await instances.owner(AGGS, but=(victim,))

        async def is_reported():
            return ["agg-1"] == [event["message"][:5] for event in events(
                await instances.status())]
        await until(is_reported, instances.logs)

        await desk.start("agg-1", heard=told)
        await is_collected("agg-1", "agg-2")

        stopped = await instances.owner(AGGS)
        instances.cut_off(stopped)
        stopped.send_signal(signal.SIGSTOP)
        desk.kill("agg-2")
        await is_collected("agg-1")
        await instances.owner(AGGS, but=(stopped,))
        instances.describe(text.replace(*OTHER))

        async def is_changed():
            return any("interval=2000000" in line for _, _, _, line in told.all)
        await until(is_changed, instances.logs)
        old_ports, old_log, old_told = (ports(stopped.pid), len(instances.log(stopped)),
                                        len(told.all))
        # The description that it has is not in force any more, and etcd tells it nothing: that
        # others may have its groups it has to know by its own clock.
        stopped.send_signal(signal.SIGCONT)

        async def it_misses_etcd():
            return "left as they are until etcd answers" in instances.log(stopped)[old_log:]
        await until(it_misses_etcd, instances.logs)
        assert old_ports
        assert [] == [(daemon, line) for sender, port, daemon, line in told.all[old_told:]
                      if sender is stopped or port in old_ports]
        instances.join(stopped)

        async def takes_part_again():
            return taken_again(instances.log(stopped)[old_log:])
        await until(takes_part_again, instances.logs)
        lawful = taken_again(instances.log(stopped)[old_log:])
        assert [] == [(daemon, line) for sender, port, daemon, line in told.all[old_told:]
                      if sender is stopped and GROUP_OF[daemon.partition("-")[0]] not in lawful]

        await desk.start("agg-2", heard=told)
        await is_collected("agg-1", "agg-2")

        async def is_over():
            return {0} == {group["daemons"] - group["up"]
                           for group in (await instances.status())["groups"]} and [] == [
                event for event in events(await instances.status()) if event["over"] is None]
        await until(is_over, instances.logs)
        found = events(await instances.status())
        # A daemon that is down is one event, though two instances saw it.
        assert ["agg-1", "agg-2"] == sorted(event["message"][:5] for event in found)
        for process in instances.processes:
            if process is not victim:
                process.send_signal(signal.SIGTERM)
        for process in instances.processes:
            await asyncio.get_running_loop().run_in_executor(None, process.wait, 100)
        assert {0, -signal.SIGKILL} == {process.returncode for process in instances.processes}

        async def is_free():
            return {} == instances.owners()
        await until(is_free, instances.logs)
        assert not [log for log in instances.logs() if "Traceback" in log or "internal" in log]

    def events(status):
        return [event for group in status["groups"] for event in group["events"]
                if event["kind"] == "aggregator_down"]
    try:
        run("4.5.3", tmp_path, story)
    finally:
        instances.kill()
