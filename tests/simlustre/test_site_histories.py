"""
Random histories of a small site, from simulated clients to the site's server's answers.

Jobs write on two nodes; meanwhile job_stats and exports are cleared, targets restart and move
between two OSSs, clients are evicted, agents and the site's server are killed.  What the mounts
themselves have counted is the truth: no number may be above it, and one that is below is marked.
"""
from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from processes import until
from site_desk import SiteDesk
from storage import PATIENT
from test_simlustre import no_fuse, simlustre
from test_storage_servers import NODE1, NODE2, Site, ctl, do, truth

STEPS = 24
MARKED_FOR_S = 5                # of a sweep each second: no needless mark lasts for longer
# What takes nothing from what is counted; and what may.
HARMLESS = {"write": 40, "wait": 25, "evict": 8, "kill_agent": 6, "kill_server": 4}
HARMFUL = {**HARMLESS, "clear_job_stats": 4, "clear_exports": 4, "restart": 6, "failover": 6}
OSTS = ("scratch-OST0000", "scratch-OST0001")


class World:
    """Two OSSs, an MDS, two nodes, agents, the site's server; `dice`: what happens."""

    def __init__(self, directory, desk, dice):
        self.directory, self.desk, self.dice = directory, desk, dice
        self.site = Site(directory, dice.choice(["2.10", "2.12", "2.15", "2.16", "2.17"]))
        self.agents, self.done, self.number = {}, [], 0

    def start(self):
        site, desk = self.site, self.desk
        site.server("oss1", "OST0000")
        site.server("oss2", "OST0001", nid="10.77.1.3@tcp")
        site.server("mds1", "MDT0000", nid="10.77.1.2@tcp")
        self.nodes = {"node1": site.client("node1", NODE1, stripe_count=2, stripe_size=64),
                      "node2": site.client("node2", NODE2)}
        (desk.directory / "names").write_text(f"{NODE1} node1\n{NODE2} node2\n")
        desk.configure(harvest_interval=1, harvest_cpu_percent=100,
                       clients_names=desk.directory / "names")
        self.server = desk.site()
        for name in ("oss1", "oss2", "mds1"):
            config = desk.directory / f"{name}.cfg"
            config.write_text(desk.text({**desk.choices,
                                         "harvest.spool_dir": desk.directory / name}))
            self.agent(name)

        def rates():
            answer = desk.answer(level="e")
            return answer and answer["rows"] and not answer["missing"]
        until(rates, what="sweeps of all targets")
        desk.wait_for_sweeps(2)
        self.since = int(time.time())

    def agent(self, name):
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PATIENT, "harvest", "--root",
             self.directory / name / "root", "--node", name, "--config",
             self.desk.directory / f"{name}.cfg"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.agents[name] = process
        self.desk.started.append(process)

    # -- what happens

    def write(self):
        """What is written, read and made by one job on one node."""
        node, job = self.dice.choice(sorted(self.nodes)), self.dice.choice(["4711", "4712"])
        self.number += 1
        size, name = self.dice.randrange(1, 300_000), f"file{self.number}"
        do(self.nodes[node], f"""
with open({name!r}, "wb", buffering=0) as file:
    file.write(bytes({size}))
with open({name!r}, "rb", buffering=0) as file:
    file.read(4096)
""", job)

    def wait(self):
        time.sleep(self.dice.random() * 1.5)

    def has(self, target):
        return next(name for name in ("oss1", "oss2") if (
            self.directory / name / "root/proc/fs/lustre/obdfilter" / target).exists())

    def files(self, target):
        where = self.directory / self.has(target) / "root"
        exports = "sys/kernel/debug/lustre" if self.site.release == "2.17" else "proc/fs/lustre"
        return (where / "proc/fs/lustre/obdfilter" / target / "job_stats",
                where / exports / "obdfilter" / target / "exports/clear")

    def clear_job_stats(self):
        self.files(self.dice.choice(OSTS))[0].write_text("clear\n")

    def clear_exports(self):
        self.files(self.dice.choice(OSTS))[1].write_text("1\n")

    def restart(self):
        target = self.dice.choice(OSTS)
        ctl(self.site, self.has(target), "restart", target)

    def failover(self):
        target = self.dice.choice(OSTS)
        here = self.has(target)
        ctl(self.site, here, "failover", target, {"oss1": "oss2", "oss2": "oss1"}[here])

    def evict(self):
        ctl(self.site, self.has(OSTS[0]), "evict", self.dice.choice([NODE1, NODE2]), OSTS[0],
            check=False)

    def kill_agent(self):
        name = self.dice.choice(sorted(self.agents))
        self.agents[name].send_signal(self.dice.choice([signal.SIGKILL, signal.SIGTERM]))
        self.agents[name].wait()
        self.agent(name)

    def kill_server(self):
        self.server.kill()
        self.server = self.desk.site()

    def step(self, weights):
        """One of `weights`: {name of a method: its weight}."""
        what = self.dice.choices(list(weights), list(weights.values()))[0]
        self.done.append(what)
        getattr(self, what)()

    # -- what is known

    def truths(self):
        """({job: bytes written}, {node: bytes written}), as they reached OSTs."""
        jobs, nodes = {}, {}
        for node, where in self.nodes.items():
            for job, one in truth(where).items():
                for target, counters in one["sent"].items():
                    if target.startswith("OST"):
                        amount = counters.get("write_bytes", (0, 0))[1]
                        jobs[job] = jobs.get(job, 0) + amount
                        nodes[node] = nodes.get(node, 0) + amount
        return jobs, nodes

    def swept(self):
        """The time up to which all sweeps of clients have arrived; 0 for none."""
        return (self.desk.answer(level="clients") or {"at": 0})["at"]

    def answers(self):
        """({job: (bytes written, at most, is it a lower bound, why)}, {node: the same})."""
        jobs = {row["job"]: (row["write_bytes"], row["write_bytes"], row["lower_bound"],
                             row["notes"])
                for row in self.desk.query(level="b")}
        done = self.desk.iostats("nodes", "-S", f"uts{self.since}", "-E", f"uts{self.until}",
                                 "--json")
        nodes = {row["node"]: (row["write_bytes"], (row["at_most"] or {}).get(
            "write_bytes", row["write_bytes"]), row["lower_bound"], row["notes"])
                 for row in json.loads(done.out)["nodes"]} if done.status == 0 else {}
        return jobs, nodes


def wrong(true, known, is_harmless):
    """What is above the truth, or below it and not marked; marked at all where all is harmless."""
    return [f"{name}: {amount} was written, known are {known.get(name)}"
            for name, amount in true.items() if amount and (
                name not in known or known[name][0] > amount
                or (known[name][1] < amount and not known[name][2])
                or (is_harmless and (known[name][1] != amount or known[name][2])))]


@pytest.mark.fuse
@pytest.mark.parametrize("seed", [int(seed) for seed in os.environ.get(
    "IOSTATS_SITE_SEEDS", "23").split()])
@pytest.mark.parametrize("weights", [HARMLESS, HARMFUL], ids=["harmless", "harmful"])
def test_no_number_is_too_high_and_one_that_is_too_low_is_marked(seed, weights, tmp_path):
    """An eviction, and a kill of an agent or of the site's server, takes nothing."""
    if no_fuse():
        pytest.skip(no_fuse())
    (tmp_path / "desk").mkdir()
    with SiteDesk(tmp_path / "desk") as desk:
        world = World(tmp_path, desk, random.Random(seed))

        def all_wrong(marks=True):
            return [line for true, known in zip(world.truths(), world.answers())
                    for line in wrong(true, known, marks and weights is HARMLESS)]
        try:
            world.start()
            for _ in range(STEPS):
                world.step(weights)
            world.write()
            world.until = int(time.time()) + 2          # so that all sweeps of this time will come
            said = f"seed {seed}, {world.site.release}: {' '.join(world.done)}"
            until(lambda: not all_wrong(), what=lambda: f"{said}: {all_wrong()}")
            desk.wait_for_sweeps(2)
            # No sweep changes a number any more.  A mark may be of the moment: of an agent that had
            # to wait for the answer with the server's time, a reading counts as an earlier one.
            assert [] == all_wrong(marks=False), said
            # By sweeps, not by time: of agents that wait for a processor they come late.
            until(lambda: world.swept() > world.until + MARKED_FOR_S, what=lambda: (
                f"{said}: sweeps up to {world.until + MARKED_FOR_S}, not {world.swept()},"))
            assert [] == all_wrong(), said
        finally:
            for agent in world.agents.values():         # an unmount waits for the files they read
                agent.kill()
                agent.wait()
            for where in world.site.mounts:
                simlustre("--unmount", where, check=False)
