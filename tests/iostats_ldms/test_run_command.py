"""
`iostats ldms run` and `plan` as commands: from a file, and from etcd; simulated daemons.
"""

import asyncio
import signal
import subprocess
import sys
import time

import pytest
from ldms_desk import observed_at
from processes import REPOSITORY, free_port, until

from simldms.live import LiveDaemon

NAMES = ("node-1", "node-2", "agg-1", "agg-2")
TEXT = """\
daemons:
  - names: "node-[1-2]"
    hosts: 127.0.0.1
    endpoints: [{{names: "node-[1-2]", ports: "{node1},{node2}", maestro_comm: true}}]
  - names: "agg-[1-2]"
    hosts: 127.0.0.1
    endpoints: [{{names: "agg-[1-2]", ports: "{agg1},{agg2}", maestro_comm: true}}]
samplers:
  - daemons: "node-[1-2]"
    plugins: [meminfo]
aggregators:
  - daemons: "agg-[1-2]"
    peers:
      - daemons: "node-[1-2]"
        endpoints: "node-[1-2]"
        reconnect: 1s
        type: active
        updaters: [{{mode: pull, interval: 500ms, offset: 100ms}}]
plugins:
  meminfo: {{name: meminfo, interval: {interval}, offset: 0s, config: [{{schema: meminfo}}]}}
"""


class Site:
    """Four bare daemons in an event loop of a thread, and commands beside them."""

    def __init__(self, directory):
        import threading
        self.directory, self.ports = directory, {name: free_port() for name in NAMES}
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.daemons = {}
        for name in NAMES:
            self.start(name)
        # The daemons are slow to answer on a busy machine.
        (directory / "site.cfg").write_text(
            "[ldms]\npoll = 1\nconnect_timeout = 60\nanswer_timeout = 60\n")
        self.running = []

    def start(self, name):
        async def started():
            daemon = LiveDaemon(name, "4.5.3")
            daemon.run_lines([f"listen xprt=sock port={self.ports[name]} host=127.0.0.1"])
            return daemon
        self.daemons[name] = self._do(started())

    def kill(self, name):
        async def killed():
            self.daemons[name].kill()
        self._do(killed())

    def _do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(150)

    def describe(self, interval="1s"):
        path = self.directory / "cluster.yaml"
        path.write_text(TEXT.format(interval=interval, **{
            name.replace("-", ""): port for name, port in self.ports.items()}))
        return str(path)

    def command(self, *words):
        return [sys.executable, "-m", "iostats", "ldms", *words,
                "--config", str(self.directory / "site.cfg")]

    def call(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, cwd=REPOSITORY,
                              timeout=200)

    def run(self, *words):
        log = self.directory / "run.log"
        with log.open("a") as file:
            one = subprocess.Popen(self.command("run", *words), stdin=subprocess.DEVNULL,
                                   stdout=file, stderr=file, cwd=REPOSITORY)
        self.running.append(one)
        return one

    def log(self):
        return (self.directory / "run.log").read_text()

    def observed(self, name):
        return self._do(observed_at(self.ports[name], with_sets=True))

    def collected(self, *names):
        """[(set, aggregator), ...], sorted."""
        return sorted((one.instance, name) for name in names for one in self.observed(name).sets)

    def close(self):
        for one in self.running:
            one.kill()
            one.wait()
        for daemon in self.daemons.values():
            self._do(daemon.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.close()


def test_plan_says_what_is_to_do_and_run_once_does_it(site):
    path = site.describe()
    plan = site.call("plan", path)

    assert 0 == plan.returncode, plan.stderr
    lines = plan.stdout.splitlines()
    assert "node-1: 3 commands" == lines[0]
    assert "    start name=meminfo interval=1000000 offset=0   # missing" == lines[3]
    assert "4 of 4 daemons answered; 18 commands to do" == lines[-1]
    assert {} == site.observed("agg-1").producers

    done = site.call("run", "--once", path)
    assert 0 == done.returncode, done.stderr
    assert site.observed("agg-1").producers["node-1"].is_started
    assert "4 of 4 daemons answered; nothing to do\n" == site.call("plan", path).stdout


def test_once_says_what_is_not_as_described(site):
    site.kill("agg-2")
    done = site.call("run", "--once", site.describe())

    assert 1 == done.returncode
    port = site.ports["agg-2"]
    assert f"iostats: agg-2: down: 127.0.0.1:{port}: no connection: Connection refused" in \
        done.stderr.splitlines()


@pytest.mark.etcd
def test_a_description_in_etcd_is_carried_out_and_each_that_follows_it(site, etcd):
    """And a killed aggregator's producers run elsewhere; SIGTERM leaves all as it is."""
    where = ["--etcd", ",".join(etcd.endpoints), "--prefix", etcd.prefix]
    running = site.run(*where)
    assert 0 == site.call("load", site.describe(), *where).returncode
    until(lambda: [("node-1/meminfo", "agg-1"), ("node-2/meminfo", "agg-2")]
          == site.collected("agg-1", "agg-2"), what=site.log)

    assert 0 == site.call("load", site.describe("500ms"), *where).returncode
    until(lambda: [500_000, 500_000] == [one.update_hint_us for name in ("node-1", "node-2")
                                         for one in site.observed(name).sets], what=site.log)

    key = f"/{etcd.prefix}/current"
    etcd.cluster.ctl("put", key, "garbage")
    until(lambda: "the description cannot be read" in site.log(), what=site.log)
    site.kill("agg-1")
    until(lambda: [("node-1/meminfo", "agg-2"), ("node-2/meminfo", "agg-2")]
          == site.collected("agg-2"), what=site.log)
    status = site.call("status", *where).stdout
    assert f"{etcd.prefix}: the description cannot be read: etcd: {key}: " in status
    time.sleep(4)                                   # it is tried again twice, and told once
    assert 1 == site.log().count("the description cannot be read")
    etcd.cluster.ctl("del", key)
    assert 0 == site.call("load", site.describe("250ms"), *where).returncode
    until(lambda: [250_000] == list({one.update_hint_us for name in ("node-1", "node-2")
                                     for one in site.observed(name).sets}), what=site.log)

    running.send_signal(signal.SIGTERM)
    assert 0 == running.wait(100)
    assert 2 == len(site.collected("agg-2"))
    assert "Traceback" not in site.log()


@pytest.mark.etcd
def test_what_is_loaded_after_all_was_deleted_is_another_description_1(site, etcd):
    where = ["--etcd", ",".join(etcd.endpoints), "--prefix", etcd.prefix]
    site.run(*where)

    def intervals():
        return {one.update_hint_us for name in ("node-1", "node-2")
                for one in site.observed(name).sets}
    assert "description 1 of" in site.call("load", site.describe("1s"), *where).stdout
    until(lambda: {1_000_000} == intervals(), what=site.log)
    etcd.cluster.ctl("del", "--prefix", f"/{etcd.prefix}/")
    assert "description 1 of" in site.call("load", site.describe("500ms"), *where).stdout
    until(lambda: {500_000} == intervals(), what=site.log)


def test_a_description_that_is_wrong_is_told_and_the_one_before_stays(site, tmp_path):
    path = site.describe()
    site.run(path)
    until(lambda: 2 == len(site.collected("agg-1", "agg-2")), what=site.log)
    text = (tmp_path / "cluster.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text(text.replace("daemons:", "daemns:", 1))
    until(lambda: "the previous description stays in force" in site.log(), what=site.log)

    assert 2 == len(site.collected("agg-1", "agg-2"))
