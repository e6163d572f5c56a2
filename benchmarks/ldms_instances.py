"""
Figure: several instances of `iostats ldms run`: how soon another takes over, and what they cost.

The bare minimum of a take-over is a lease alone: one that was renewed as often as an instance does,
at any moment not any more, until another sees that its key is gone; or one that is revoked.  Each
instance is a process, with a real etcd and simulated daemons.
"""

import os
import queue
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from measure import REPOSITORY, BenchmarkError, Table, cpu_s, environment, free_port

_DESCRIPTION = """\
daemons:
- {{names: node-1, hosts: 127.0.0.1, endpoints: [{{names: node-1, ports: {0}}}]}}
- {{names: agg-1, hosts: 127.0.0.1, endpoints: [{{names: agg-1, ports: {1}}}]}}
samplers: [{{daemons: node-1, plugins: [meminfo]}}]
aggregators:
- daemons: agg-1
  peers: [{{endpoints: node-1, reconnect: 1s, type: active, updaters: [{{interval: 1s}}]}}]
plugins: {{meminfo: {{name: meminfo, interval: 1s, config: [{{schema: meminfo}}]}}}}
"""


def run(quick):
    """The Tables of this figure."""
    if not shutil.which("etcd"):
        raise BenchmarkError("needs Debian's etcd-server and etcd-client")
    sys.path.insert(0, os.path.join(REPOSITORY, "tests"))
    from etcd_desk import EtcdCluster
    directory = tempfile.mkdtemp(prefix="iostats-bench-")
    processes = []
    try:
        with EtcdCluster(os.path.join(directory, "etcd")) as cluster:
            ports = [free_port(), free_port()]
            for name, port in zip(("node-1", "agg-1"), ports):
                processes.append(_process("simldms", "-x", f"sock:{port}", "-n", name))
            return _measured(cluster, directory, ports, processes,
                             *((3, 1, 2) if quick else (5, 3, 20)))
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _measured(cluster, directory, ports, processes, lease_s, rounds, idle_s):
    from iostats.etcd.client import Changes, Etcd, Stop
    path = os.path.join(directory, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_DESCRIPTION.format(*ports))
    config = os.path.join(directory, "site.cfg")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"[etcd]\nendpoints = {cluster.endpoints[0]}\nprefix = orion\n"
                   f"[ldms]\nlease = {lease_s}\n")
    loading = _process("iostats", "ldms", "load", path, "--config", config)
    if loading.wait():
        raise BenchmarkError("iostats ldms load: exit status " + str(loading.returncode))
    instances = []

    def begin():
        instances.append(_process("iostats", "ldms", "run", "--config", config))
        processes.append(instances[-1])
    begin()
    begin()
    news, stop = queue.Queue(), Stop()
    took = {"kill": [], "stop": [], "bare kill": [], "bare stop": []}
    with Etcd(cluster.endpoints, prefix="orion") as etcd:
        def follow():
            for one in etcd.follow(etcd.below("bare"), stop):
                for _, value, _ in one.changes if isinstance(one, Changes) else ():
                    news.put((time.monotonic(), value))
        thread = threading.Thread(target=follow)
        thread.start()
        try:
            _until_shared(etcd, instances)
            idle = _idle_ms_a_minute(instances, idle_s)
            for _ in range(rounds):
                for how, number in (("kill", signal.SIGKILL), ("stop", signal.SIGTERM)):
                    time.sleep(random.uniform(0, lease_s / 5))
                    began = time.monotonic()
                    one = instances.pop(0)
                    one.send_signal(number)
                    _until(lambda: {*_owners(etcd).values()} == {instances[0].pid}
                           and len(_owners(etcd)) == 2, 0.005)
                    took[how].append(time.monotonic() - began)
                    one.wait()
                    took[f"bare {how}"].append(_bare(etcd, news, how, lease_s))
                    begin()
                    _until_shared(etcd, instances)
        finally:
            stop.set()
            thread.join()
    rows = [[what, *(f"{value:.3g}" for value in (
        statistics.median(took[how]), max(took[how]), statistics.median(took[f"bare {how}"]),
        statistics.median(took[how]) / statistics.median(took[f"bare {how}"])))]
        for what, how in (("killed (kill -9)", "kill"), ("stopped (SIGTERM)", "stop"))]
    return [Table(f"Seconds until another instance has its groups; a lease of {lease_s} s",
                  ["instance", "iostats", "longest", "a bare lease", "ratio"], rows,
                  [f"median of {rounds} times"]),
            Table("An instance, two daemons, and nothing to do", ["what", "value"],
                  [["CPU ms a minute", f"{statistics.mean(idle):.0f}"]],
                  [f"mean of two processes over {idle_s} s"])]


def _bare(etcd, news, how, lease_s):
    """Seconds from the end of one who holds a lease until another sees that its key is gone."""
    from iostats_ldms.membership import RENEWALS
    lease = etcd.grant(lease_s)
    etcd.put(etcd.key("bare", "a"), b"23", lease)
    ends = time.monotonic() + random.uniform(0, lease_s / RENEWALS)
    etcd.keep_alive(lease)
    time.sleep(max(0.0, ends - time.monotonic()))
    began = time.monotonic()
    if how == "stop":
        etcd.revoke(lease)
    while True:
        at, value = news.get(timeout=60)
        if value is None:
            return at - began


def _owners(etcd):
    """{group: pid of its owner}."""
    found, _ = etcd.range(etcd.below("owners"))
    return {one.key: int(one.value.decode().rpartition(".")[2]) for one in found}


def _until_shared(etcd, instances):
    """Each of the two has one of the two groups."""
    _until(lambda: {*_owners(etcd).values()} == {one.pid for one in instances})


def _idle_ms_a_minute(instances, seconds):
    time.sleep(3)                                   # for their beginning
    before = [cpu_s(one) for one in instances]
    time.sleep(seconds)
    return [(cpu_s(one) - began) * 60_000 / seconds for one, began in zip(instances, before)]


def _process(*words):
    return subprocess.Popen([sys.executable, "-m", *words], env=environment(), cwd=REPOSITORY,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def _until(true, look_every_s=0.05):
    ends = time.monotonic() + 60
    while not true():
        if time.monotonic() > ends:
            raise BenchmarkError("no instance took over within 60 s")
        time.sleep(look_every_s)
