"""
Random jobs on NFS: what a request costs by way and server, and jobs whose cause is known, or which
have none.

None of it has a threshold or a formula of the rules.
"""

from __future__ import annotations

from nfs_kernel import NfsClient
from test_job_totals import llite
from trees import report

from iostats.base.config import Config
from iostats.node import sources
from iostats.report import node_sets
from iostats.totals import delta
from iostats.totals.job_totals import Totals
from iostats.totals.record import BatchRecord
from planted_jobs.machine import between

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
HOME = "nfs1:/home"


class NfsJob:
    """
    A job whose nodes have $HOME on NFS, and scratch on Lustre.

    Attributes:
        nodes, ranks: how many nodes, and ranks of each.
        elapsed_s: its run time.
        way_s: to the server and back, with the server's time.
        bandwidth: bytes/s of the server, for all nodes together.
        lustre_bytes: written by programs to Lustre.
    """

    def __init__(self, draw):
        self.random = draw
        self.nodes = draw.choice((1, 1, 2, 4, 8, 16, 64))
        self.ranks = draw.choice((1, 1, 4, 16, 64, 128))
        self.elapsed_s = between(draw, 120, 86_400)
        self.way_s = between(draw, 120e-6, 1.5e-3)
        self.bandwidth = between(draw, 100e6, 3e9)
        self.lustre_bytes = 0
        self.knows_tasks = draw.random() < 0.5
        self._blocks, self._clients = [], []
        for _ in range(self.nodes):
            client = NfsClient()
            self._clients.append(client)
            self._blocks.append(client.mount(HOME, "/home"))

    def requests(self, name, each_node, size=0, each_s=None, at_once=1, resent=0, timeouts=0):
        """So many requests of each node, with what they move; `at_once`: sent side by side."""
        count = int(each_node)
        moved_s = size * self.nodes * at_once / self.bandwidth
        seconds = count * max(each_s or self.way_s, moved_s)
        for block in self._blocks:
            block.call(name, count, transmissions=count + resent, timeouts=timeouts,
                       rtt_ms=int(seconds * 900), execution_ms=int(seconds * 1000))
            if size:
                way = {"READ": 0, "WRITE": 1}[name]
                block.bytes[way] += count * size
                block.bytes[4 + way] += count * size

    def fill(self, name, part, size=0, threads=1):
        """Requests one after the other for a part of the run time, of so many threads."""
        each_s = max(self.way_s, size * self.nodes * threads / self.bandwidth)
        self.requests(name, threads * part * self.elapsed_s / each_s, size, each_s)

    def record(self, root):
        """Its record, by the files of its nodes."""
        totals = Totals("4711", self.nodes, fold=node_sets.fold_nodes)
        for number, client in enumerate(self._clients):
            block, blank = client.mounts[0][3], NfsClient()
            blank.now = block.born
            blank.mount(HOME, "/home")
            start = blank.snapshot(root, Config())
            client.now = block.born + self.elapsed_s
            deltas = delta.compute_deltas(start, client.snapshot(root, Config()),
                                          {"nfs": sources.list_sources()["nfs"]})
            lustre = llite(write_bytes=self.lustre_bytes // self.nodes, open=3, close=3)
            totals.add(report(f"nid{number:05}", [*deltas, lustre], elapsed_s=self.elapsed_s))
        record = totals.record()
        return record if not self.knows_tasks else record.replaced(batch={
            **dict.fromkeys(BatchRecord.__annotations__, ""), "system": "slurm",
            "exit_status": 0, "exit_signal": 0, "tasks": self.nodes * self.ranks,
            "cpus": self.nodes * self.ranks})


def _much(job):
    return job.random.uniform(0.3, 0.9)


def small_files(job):
    """A data set of small files is read from $HOME again and again by one thread of each node."""
    job.elapsed_s = max(job.elapsed_s, 40_000 * job.way_s)
    job.fill("READ", _much(job), job.random.randrange(500, 30_000))


def synced_writes(job):
    """A log is written line by line, each of them synced."""
    job.elapsed_s = max(job.elapsed_s, 40_000 * job.way_s)
    job.fill("WRITE", _much(job), job.random.randrange(80, 4_000))


def python_imports(job):
    """Thousands of stat() and open() by each of all ranks, over and over, without an end."""
    job.elapsed_s = max(job.elapsed_s, 40_000 * job.way_s)
    threads = job.random.choice((1, job.ranks))
    for name in ("GETATTR", "LOOKUP", "ACCESS"):
        job.fill(name, _much(job) / 3, threads=threads)


def storm(job):
    """So many nodes and ranks ask that the server gets tens of thousands of requests a second."""
    rate = between(job.random, 8_000, 80_000)
    job.requests("GETATTR", rate * job.elapsed_s / job.nodes, each_s=20e-6)


def works_at_home(job):
    """Checkpoints of many GiB go to $HOME, and next to nothing to scratch."""
    job.bandwidth = between(job.random, 50e6, 500e6)
    seconds = _much(job) * job.elapsed_s
    total = max(seconds * job.bandwidth, between(job.random, 8 * GIB, 500 * GIB))
    job.elapsed_s = max(job.elapsed_s, total / job.bandwidth / 0.8)
    job.requests("WRITE", total / job.nodes / MIB, MIB)
    job.lustre_bytes = int(total * job.random.choice((0.0, 0.01, 0.3)))


def lost_connections(job):
    """The network loses requests, and the server does not respond for minutes."""
    count = int(between(job.random, 20_000, 2_000_000))
    if job.random.random() < 0.5:
        job.requests("READ", count, MIB, resent=int(count * between(job.random, 0.02, 0.2)))
    else:
        job.requests("GETATTR", count, resent=3, timeouts=job.random.randrange(1, 23))


def starts_from_home(job):
    """Programs and libraries are read from $HOME when the job starts; then it works on scratch."""
    job.requests("READ", 1_100, 200 * KIB)
    for name in ("GETATTR", "LOOKUP", "ACCESS", "OPEN", "CLOSE"):
        job.requests(name, between(job.random, 100, 1_500))
    job.lustre_bytes = int(between(job.random, GIB, 10_000 * GIB))


def large_input(job):
    """A few GiB of input come from $HOME at once, and a hundred times as much goes to scratch."""
    job.requests("READ", 3 * GIB // MIB // job.nodes, MIB)
    job.lustre_bytes = 300 * GIB


def small_log(job):
    """A line of a log every ten seconds."""
    job.requests("WRITE", job.elapsed_s / 10, 200)
    job.requests("COMMIT", job.elapsed_s / 10)


def fast_appliance(job):
    """Many GiB from an NFS server that delivers them in no time."""
    job.bandwidth, job.way_s = 40e9, between(job.random, 50e-6, 150e-6)
    size = min(100 * GIB, 0.01 * job.elapsed_s * job.bandwidth)
    job.requests("READ", size / job.nodes / MIB, MIB)


def a_few_resent(job):
    """A connection broke once with some requests under way."""
    job.requests("READ", 20_000, MIB, resent=job.random.randrange(1, 60))
    job.lustre_bytes = 1000 * GIB * job.nodes
    job.elapsed_s = max(job.elapsed_s, 4 * 20_000 * job.nodes * MIB / job.bandwidth)


CAUSES = {small_files: "small_requests", synced_writes: "small_requests",
          python_imports: "metadata_requests", storm: "metadata_requests",
          works_at_home: "work_on_nfs", lost_connections: "resent_requests"}
HEALTHY = (starts_from_home, large_input, small_log, fast_appliance, a_few_resent)
