"""
Healthy jobs: nothing slowed them, so that a finding is a false alarm.

Their I/O takes a few percent of the run time of any thread, or is as fast as the machine is.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.wire.messages.report import ReportedIdle
from planted_jobs.counters import MIB
from planted_jobs.machine import between

Healthy = namedtuple("Healthy", "name work allowed least_nodes", defaults=((), 1))
Healthy.__doc__ = """
A kind of healthy job.

Attributes:
    work: what adds it to a Job.
    allowed: ids of findings that are true of it.
"""


def part(job, most=0.03):
    return job.elapsed_s * between(job.random, most / 20, most)


def every(job):
    return range(job.machine.osts)


def computes(job):
    job.background(0.004)


def checkpoints(job):
    """A file for each rank, through the page cache, all ranks at the same time."""
    job.write(job.where, job.ranks, part(job), job.random.choice((256 << 10, MIB, 4 * MIB)),
              every(job), is_burst=True)
    job.files(job.where, job.ranks, min(20.0, part(job, 0.005)))


def shared_checkpoint(job):
    """Collective MPI-IO: a few aggregators on each node write blocks of a stripe."""
    job.write(job.where, min(4, job.ranks), part(job), job.random.choice((4 * MIB, 16 * MIB)),
              job.machine.pick(job.random.randint(max(1, job.machine.osts // 4),
                                                  job.machine.osts)))


def training(job):
    """Batches of large files, several epochs."""
    job.read(job.where, min(16, job.ranks), part(job, 0.04),
             job.random.choice((128 << 10, 256 << 10, MIB)), every(job),
             job.random.choice((0.0, 0.6, 0.95)))
    job.write(job.first, 1, part(job, 0.005), MIB, every(job), is_burst=True)


def compiles(job):
    """Many small files on a node, at the speed of its processors."""
    threads = min(4, job.ranks)
    job.metadata(job.where, threads, part(job, 0.01), "getattr", "intent_lock", 0.2)
    job.files(job.where, threads, part(job, 0.01), 6000, is_again=True)
    job.files(job.where, threads, part(job, 0.005), 20_000, "write")


def python_imports(job):
    """Each rank looks for, opens and reads some thousand modules at its start."""
    wall_s = min(job.elapsed_s * 0.03, between(job.random, 3, 40))
    job.metadata(job.where, job.ranks, wall_s * 0.6, "getattr", "intent_lock", 0.3)
    job.files(job.where, job.ranks, wall_s * 0.4, 9000, is_again=True)


def writes_logs(job):
    """Some lines a second of each rank, appended through the page cache."""
    per_second = job.random.uniform(1, 12)
    for node in job.where:
        done = per_second * job.elapsed_s * job.ranks
        size = job.random.choice((80, 200, 1000))
        node.moved("write", done, size, between(job.random, 3e-6, 40e-6), 1.5)
        node.requests("write", done * size, 64 << 10, job.machine.pick(1), job.machine.way_s * 4)
    job.background(0.01)


def looks_for_files(job):
    """A stat() or two a second of each rank, most of them from the cache of the node."""
    for node in job.where:
        done = job.random.uniform(0.5, 2.0) * job.elapsed_s * job.ranks
        node.call("getattr", done, between(job.random, 2e-6, 60e-6), 1.0)
        node.asked("intent_lock", done * 0.05, (0,))
    job.background(0.01)


def python_reads(job):
    """Text read line by line: 8 KiB a call, about 1 MB/s."""
    for node in job.where:
        done = job.random.uniform(80, 160) * job.elapsed_s
        node.moved("read", done, 8192, job.machine.call_s * 1.5, 1.0)
        node.requests("read", done * 8192, MIB, every(job), job.machine.disk_s)
        node.call("getattr", 120 * job.elapsed_s * job.random.uniform(0.1, 1), 2.5e-6, 0.5)


def first_node_prints(job):
    """One node writes a small result: seconds of a long job."""
    wall_s = min(part(job, 0.02), between(job.random, 1, 30))
    job.write(job.first, 1, wall_s, MIB, job.machine.pick(4), is_burst=True)
    job.background(0.01)


def first_node_reads(job):
    """One node reads the input and sends it to the others."""
    job.read(job.first, 1, part(job, 0.02), 4 * MIB, job.machine.pick(8))
    job.background(0.005)


def few_locks(job):
    job.local(job.where, 1, part(job, 0.01), "flock", between(job.random, 300e-6, 3e-3), 1.0)
    job.background(0.01)


def cached_input(job):
    """The same file read over and over, from memory, beside computing."""
    job.read(job.where, job.ranks, part(job, 0.04), MIB, every(job), 0.97)


def one_stripe_each(job):
    """A file with one stripe for each node: as many OSTs as nodes, at most, and hardly any time."""
    osts = job.machine.pick(min(job.nodes, job.machine.osts))
    job.write(job.where, 1, part(job, 0.02), 4 * MIB, osts, is_burst=True)


def as_fast_as_it_gets(job):
    """Large reads and writes over all OSTs for a good part of the time: what the work takes."""
    wall_s = job.elapsed_s * job.random.uniform(0.1, 0.35)
    threads = job.random.choice((1, min(4, job.ranks), job.ranks))
    job.read(job.where, threads, wall_s * 0.5, 4 * MIB, every(job))
    job.write(job.where, threads, wall_s * 0.5, 4 * MIB, every(job))


def results_in_some_files(job):
    """Thousands of files of megabytes over the job."""
    job.files(job.where, min(4, job.ranks), part(job, 0.03), 4 * MIB, "write")


def health_checker(job):
    """Daemons of the node stat and open all the time, as they do without a job."""
    stats, opens = job.random.uniform(20, 300), job.random.uniform(5, 100)
    for node in job.where:
        for name, rate, asked in (("getattr", stats, "intent_lock"), ("open", opens, "intent_lock"),
                                  ("close", opens, "close")):
            node.call(name, rate * job.elapsed_s, 200e-6, 0.7)
            node.asked(asked, rate * job.elapsed_s, (0,))
    job.idle = {"scratch": ReportedIdle(1800.0, {
        "getattr": round(1800 * stats), "open": round(1800 * opens), "close": round(1800 * opens)})}
    job.background(0.01)


def short_compile(job):
    """Half a minute of a compiler and make on one or more nodes."""
    job.elapsed_s = job.random.uniform(20, 59)
    threads = min(16, job.ranks)
    job.metadata(job.where, threads, job.elapsed_s * 0.1, "getattr", "intent_lock", 0.3)
    job.files(job.where, threads, job.elapsed_s * 0.1, 7000, is_again=True)


HEALTHY = (
    Healthy("computes", computes), Healthy("checkpoints", checkpoints),
    Healthy("checkpoints", checkpoints), Healthy("shared checkpoint", shared_checkpoint),
    Healthy("training", training, ("cache_served",)), Healthy("compiles", compiles,
                                                             ("cache_served",)),
    Healthy("Python imports", python_imports, ("cache_served",)),
    Healthy("writes logs", writes_logs), Healthy("looks for files", looks_for_files),
    Healthy("Python reads", python_reads), Healthy("first node prints", first_node_prints, (), 4),
    Healthy("first node reads", first_node_reads, (), 4), Healthy("few locks", few_locks),
    Healthy("cached input", cached_input, ("cache_served",)),
    Healthy("one stripe each", one_stripe_each, (), 4),
    Healthy("as fast as it gets", as_fast_as_it_gets, ("time_in_lustre",)),
    Healthy("results in some files", results_in_some_files),
    Healthy("health checker", health_checker), Healthy("short compile", short_compile),
)
