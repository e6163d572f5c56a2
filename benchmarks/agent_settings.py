"""
Figure: agents' settings by way of etcd: from the put to where they are in force, and what it costs.

Two agents that sweep each 20 s, one with [etcd] in its site.cfg and one without, run side by side
with a server that takes all.  The bare minimum of a change is a put that one who follows that key
sees; an agent's is seen when it tells etcd which description it has in force.
"""

import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from measure import (
    BARE_PYTHON,
    CLIENT,
    REPOSITORY,
    BenchmarkError,
    Server,
    Table,
    cpu_s,
    environment,
    free_port,
)


def run(quick):
    """The Tables of this figure."""
    if not shutil.which("etcd"):
        raise BenchmarkError("needs Debian's etcd-server and etcd-client")
    sys.path.insert(0, os.path.join(REPOSITORY, "tests"))
    from etcd_desk import EtcdCluster
    directory, port = tempfile.mkdtemp(prefix="iostats-bench-"), free_port()
    server = [sys.executable, os.path.join(REPOSITORY, "benchmarks", "agent.py"), "serve",
              str(port)]
    agents = []
    try:
        with EtcdCluster(os.path.join(directory, "etcd")) as cluster, Server(server, port):
            agents = [_begin(directory, port, endpoints)
                      for endpoints in ("", cluster.endpoints[0])]
            changes = _changes(cluster, 3 if quick else 23)
            return [changes, _costs(agents, 5 if quick else 30)]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
        shutil.rmtree(directory, ignore_errors=True)


def _begin(directory, port, endpoints):
    """A running agent of four OSTs with ten entries each."""
    import agent
    place = os.path.join(directory, "with" if endpoints else "without")
    os.mkdir(place)
    config = agent._config(place, port)
    with open(config, "a", encoding="utf-8") as file:
        file.write("interval = 20\n")
        if endpoints:
            file.write(f"[etcd]\nendpoints = {endpoints}\nprefix = orion\n")
    tree = agent._tree(os.path.join(place, "tree"), 40, 0)
    return subprocess.Popen([*BARE_PYTHON, CLIENT, "harvest", "--config", config, "--root", tree,
                             "--node", "oss1"], env=environment(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _changes(cluster, rounds):
    from iostats.etcd.client import Changes, Etcd, Stop
    news, stop = queue.Queue(), Stop()
    spent = {"agent": [], "bare": []}
    with Etcd(cluster.endpoints, prefix="orion") as etcd:
        def follow(key):
            for one in etcd.follow(key, stop):
                for _, value, _ in one.changes if isinstance(one, Changes) else ():
                    news.put((time.monotonic(), value))
        keys = {"agent": etcd.key("agents_seen", "oss1"), "bare": etcd.key("bare")}
        threads = [threading.Thread(target=follow, args=(key,)) for key in keys.values()]
        for thread in threads:
            thread.start()
        try:
            _until(lambda: etcd.get(keys["agent"]))
            time.sleep(1.0)
            for revision in range(1, rounds + 1):
                document = json.dumps({"revision": revision, "groups": [{
                    "name": "oss", "hosts": ["oss1"],
                    "settings": {"events.every": str(30 + revision)}}]}).encode()
                for kind, key in (("agent", etcd.key("agents")), ("bare", keys["bare"])):
                    began = time.monotonic()
                    etcd.put(key, document)
                    while True:
                        at, value = news.get(timeout=30)
                        if value and json.loads(value)["revision"] == revision:
                            break
                    spent[kind].append((at - began) * 1000)
                    time.sleep(0.05)
            # Site.cfg is in force again: the two agents do the same from here on.
            etcd.put(etcd.key("agents"), json.dumps({"revision": 0, "groups": []}).encode())
            time.sleep(1.0)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    ours, bare = spent["agent"], spent["bare"]
    return Table("From the put to a setting's being in force, ms", [
        "", "agent", "longest", "a bare put and watch", "ratio"], [
        ["wall clock", f"{statistics.median(ours):.1f}", f"{max(ours):.0f}",
         f"{statistics.median(bare):.1f}",
         f"{statistics.median(ours) / statistics.median(bare):.1f}"]],
        [f"median of {rounds} changes; an agent's has its answer in it, a second put and watch"])


def _costs(agents, seconds):
    before = [cpu_s(agent) for agent in agents]
    time.sleep(seconds)
    used = [(cpu_s(agent) - began) * 60_000 / seconds for agent, began in zip(agents, before)]
    memory = [_memory_mb(agent) for agent in agents]
    return Table("An agent that sweeps each 20 s, and nothing changes", [
        "", "without [etcd]", "with", "more"], [
        [what, f"{without:.{digits}f}", f"{with_it:.{digits}f}", f"{with_it - without:.{digits}f}"]
        for what, digits, (without, with_it) in (("CPU ms a minute", 0, used),
                                                 ("memory, MB", 1, memory))],
        [f"over {seconds} s, side by side; four OSTs with ten entries each"])


def _memory_mb(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith("VmRSS"))


def _until(true):
    ends = time.monotonic() + 60
    while not true():
        if time.monotonic() > ends:
            raise BenchmarkError("the agent told nothing within 60 s")
        time.sleep(0.05)
