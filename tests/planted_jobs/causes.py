"""
Jobs with a cause that was planted, and what may be reported of them.

Each cause takes a part of the run time, drawn from its range, on the critical path: of each of its
nodes' threads, or of one node's alone.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.wire.messages.report import ReportedSeries
from planted_jobs.counters import MIB
from planted_jobs.machine import between

Planted = namedtuple("Planted", "name plant answers beside general least_nodes needs_times "
                                "least_osts", defaults=((), (), 1, False, 1))
Planted.__doc__ = """
A cause.

Attributes:
    plant: what adds it to a Job.
    answers: ids of the findings that name it: the first finding has to be one of these.
    beside: others that are true of such a job as well, and do not name it.
    general: those that say where the time went, and not why.
    least_nodes: of a job that can have it.
    least_osts: of a file system on which it can be.
    needs_times: only times of calls show it, so that it is planted on 2.15 alone.
"""

SMALL = (16, 100, 370, 512, 812, 1000, 2048, 4096, 8192, 16384)
GENERAL = ("time_in_lustre", "other_calls")
# Of one node that works while the others wait for it.
TRUE_OF_ONE_NODE = ("one_ost", "few_osts", "time_in_lustre", "cache_served")


def part(job, low=0.15, high=0.85):
    """Seconds of wall time that the cause takes."""
    share = job.share = job.random.uniform(low, high)
    job.about = f"{job.about} {share:.0%} of the run time".strip()
    return share * job.elapsed_s


def some_ranks(job):
    """Threads of each node that do it: one, a few, or all."""
    job.threads = job.random.choice((1, min(4, job.ranks), job.ranks, job.ranks))
    return job.threads


def stripes(job, low=4, high=16):
    return job.machine.pick(job.random.randint(min(low, job.machine.osts),
                                               min(high, job.machine.osts)))


# -- one node, and all others wait -----------------------------------------------------------------

def serial_writer(job):
    size = job.random.choice((MIB, 4 * MIB, 16 * MIB))
    job.write(job.first, 1, part(job, 0.25, 0.95), size, stripes(job, 4, 8))


def serial_reader(job):
    size = job.random.choice((MIB, 4 * MIB))
    job.read(job.first, 1, part(job, 0.25, 0.95), size, stripes(job, 4, 8))


def serial_writer_one_ost(job):
    job.write(job.first, job.random.choice((1, 2)), part(job, 0.3, 0.95), 4 * MIB,
              job.machine.pick(1))


def serial_small_writes(job):
    job.write(job.first, 1, part(job, 0.3, 0.95), job.random.choice(SMALL), job.machine.pick(1))


def serial_fsync(job):
    job.synced(job.first, 1, part(job, 0.3, 0.9), MIB, stripes(job))


def serial_flock(job):
    job.local(job.first, 1, part(job, 0.3, 0.9), "flock", between(job.random, 1e-3, 0.05), 1.0)


def metadata_by_one_node(job):
    what = job.random.choice(("open", "getattr", "unlink"))
    job.about = what
    wall_s = part(job, 0.3, 0.95)
    if what == "open":
        job.files(job.first, 1, wall_s, job.random.choice((0, 4096, 16384)))
    else:
        job.metadata(job.first, 1, wall_s, what, "unlink" if what == "unlink" else "intent_lock",
                     2.0 if what == "unlink" else 1.0)


def imbalance(job):
    """One node moves half of all bytes and more, and the others a part each."""
    draw = job.random
    way = draw.choice((job.write, job.read))
    osts = stripes(job, 4, 32)
    wall_s, others = part(job, 0.25, 0.8), job.where[1:]
    moved = way(job.first, 1, wall_s, 4 * MIB, osts)
    share = draw.uniform(0.55, 0.85)
    job.about += f", {share:.0%} by one node"
    each = moved * (1 - share) / share / job.count(others)
    each_s = wall_s / (moved / (4 * MIB))
    way(others, 1, each / (4 * MIB) * each_s, 4 * MIB, osts)


def slow_node(job):
    """The same bytes on each node, and one takes several times as long."""
    draw = job.random
    times, wall_s = draw.uniform(3, 12), part(job, 0.25, 0.8)
    job.about += f", {times:.0f} times slower"
    way, threads = draw.choice((job.write, job.read)), some_ranks(job)
    for where, slower in ((job.where[1:], 1.0), (job.first, times)):
        way(where, threads, wall_s / times, 4 * MIB, range(job.machine.osts), slower=slower,
            sharing=job.nodes)


# -- how many OSTs ---------------------------------------------------------------------------------

def one_ost(job):
    _to_osts(job, 1)


def few_osts(job):
    count = 2 if job.machine.osts < 100 else job.random.choice((2, 4))
    job.about = f"{count} of {job.machine.osts} OSTs,"
    _to_osts(job, count)


def _to_osts(job, count):
    """Large reads or writes that so many OSTs limit."""
    ranks = some_ranks(job)
    job.machine.slow_osts(count, job.nodes, ranks)
    way = job.random.choice((job.write, job.write, job.read))
    way(job.where, ranks, part(job, 0.2), 4 * MIB, job.machine.pick(count))


# -- how programs call -----------------------------------------------------------------------------

def small_writes(job):
    size = job.random.choice(SMALL)
    job.about = f"{size} bytes,"
    job.write(job.where, some_ranks(job), part(job), size, range(job.machine.osts),
              is_append=job.random.random() < 0.5)


def small_reads(job):
    size = job.random.choice(SMALL)
    job.about = f"{size} bytes,"
    job.read(job.where, some_ranks(job), part(job), size, range(job.machine.osts),
             job.random.choice((0.0, 0.0, 0.9)))


def mixture(job):
    """Headers of 512 bytes beside blocks of 1 MiB: the mean looks healthy, the time is not."""
    ranks, every = some_ranks(job), range(job.machine.osts)
    way = job.random.choice((job.write, job.write, job.read))
    way(job.where, ranks, part(job, 0.2, 0.7), 512, every)
    way(job.where, ranks, job.elapsed_s * job.random.uniform(0.02, 0.1), MIB, every)


def small_direct(job):
    size = job.random.choice((4096, 8192, 16384, 32768))
    way = job.random.choice(("read", "write"))
    job.about = f"{way}, {size} bytes,"
    job.direct(job.where, some_ranks(job), part(job, 0.2), size, stripes(job, 4, 32), way)


def libaio(job):
    way = job.random.choice(("read", "write"))
    job.about = way
    job.asynchronous(job.where, some_ranks(job), part(job, 0.3), 4096, stripes(job, 4, 32), way,
                     job.random.choice((4, 16)))


def fsync_often(job):
    size = job.random.choice((MIB, MIB, 256 << 10, 2 * MIB))
    job.about = f"after each {size >> 10} KiB,"
    job.synced(job.where, some_ranks(job), part(job, 0.2), size, range(job.machine.osts))


def small_synced(job):
    size = job.random.choice((4096, 16384, 512))
    job.synced(job.where, some_ranks(job), part(job, 0.2), size, range(job.machine.osts))


def mapped_files(job):
    """Loads from all over a mapped file, or stores to one, whose pages are sent again later."""
    draw, machine, ranks = job.random, job.machine, some_ranks(job)
    is_store, missing = draw.random() < 0.5, draw.uniform(0.1, 0.9)
    wall_s, every = part(job, 0.2), range(machine.osts)
    job.about = f"{'stores' if is_store else 'loads'}, {job.about}"
    miss_s = missing * machine.direct(4096, job.count(job.where), ranks, len(every))
    calls = wall_s / (miss_s + 6e-6)
    job.local(job.where, ranks, calls * (miss_s + 3e-6), "page_fault", miss_s + 3e-6)
    if is_store:
        job.local(job.where, ranks, calls * 3e-6, "page_mkwrite", between(draw, 3e-6, 2e-4))
    for node in job.where:
        came = calls * ranks * missing * 4096
        node.call("mmap", ranks * 4, 20e-6)
        node.requests("read", came * draw.choice((1, 4, 16)), draw.choice((4096, 16384, MIB)),
                      every, machine.way_s + machine.disk_s)
        if is_store:
            node.requests("write", came * draw.uniform(0.3, 0.9), 16384, every, machine.way_s)


def seek_end(job):
    each_s = job.machine.glimpse(4, is_written=True)
    job.local(job.where, some_ranks(job), part(job, 0.2, 0.7), "seek", each_s)


def flock(job):
    ranks = some_ranks(job)
    each_s = between(job.random, 1e-3, 0.2)
    job.about = f"{each_s * 1000:.0f} ms each,"
    job.local(job.where, ranks, part(job, 0.2), "flock", each_s, 1.0)


def lock_contention(job):
    size = job.random.choice((4000, 16 << 10, 47_008, 100 << 10, 100 << 10, 300_000))
    lock_s = between(job.random, 1.5e-3, 20e-3)
    job.about = f"{size} bytes, {lock_s * 1000:.1f} ms a lock,"
    job.contended_writes(job.where, some_ranks(job), part(job, 0.2), size, stripes(job, 4, 16),
                         lock_s, job.random.uniform(0.5, 1.0))


def read_ahead_waste(job):
    waste = job.random.choice((1.4, 1.7, 2.5, 4.0, 8.0, 16.0))
    size = job.random.choice((8192, 65_536, 200_000, 400_000))
    job.about = f"{waste} times {size} bytes,"
    job.scattered_reads(job.where, some_ranks(job), part(job, 0.2), size,
                        range(job.machine.osts), waste)


# -- metadata --------------------------------------------------------------------------------------

def stat_storm(job):
    job.metadata(job.where, some_ranks(job), part(job), "getattr", "intent_lock",
                 glimpses=job.random.choice((0, 1)))


def many_opens(job):
    size = job.random.choice((0, 700, 4096, 16_384, 60_000, 200_000))
    way = job.random.choice(("read", "read", "write"))
    job.about = f"{size} bytes, {way},"
    job.files(job.where, some_ranks(job), part(job), size, way)


def repeated_opens(job):
    job.files(job.where, some_ranks(job), part(job), job.random.choice((0, 4096)), is_again=True)


def unlink_storm(job):
    """rm -rf, which lists and stats, too."""
    ranks, wall_s = some_ranks(job), part(job)
    job.metadata(job.where, ranks, wall_s * 0.75, "unlink", "unlink", 2.0)
    job.metadata(job.where, ranks, wall_s * 0.15, "getattr", "intent_lock")
    job.metadata(job.where, ranks, wall_s * 0.10, "readdir", "read_page")


def other_calls(job):
    name, asked = job.random.choice((("readdir", "read_page"), ("setattr", "setattr"),
                                     ("mkdir", "create"), ("statfs", "getattr"),
                                     ("rename", "rename"), ("setxattr", "setxattr")))
    job.about = name
    job.metadata(job.where, some_ranks(job), part(job), name, asked)


def slow_mdt(job):
    """Few calls that an MDT takes long to answer."""
    each_s = max(between(job.random, 0.05, 0.3), job.nodes / 300)
    job.about = f"{each_s * 1000:.0f} ms an open,"
    job.threads = 1
    job.files(job.where, 1, part(job, 0.2, 0.7), job.random.choice((0, MIB)),
              each_s=each_s / 1.35)


def polling(job):
    """stat() of a file that another job is to write, for most of the time; `watch` ran."""
    draw = job.random
    per_second, share = between(draw, 25, 400), draw.uniform(0.6, 0.95)
    job.about = f"{per_second:.0f} a second and node, {share:.0%} of the run time"
    for node in job.where:
        done = per_second * share * job.elapsed_s
        node.call("getattr", done, job.machine.way_s + job.machine.mdt_s, 0.5)
        node.asked("intent_lock", done, (0,))
    every_s = max(10, round(job.elapsed_s / 60))
    bins = max(2, int(job.elapsed_s / every_s))
    polled = round(share * bins)
    rates = [int(per_second * every_s)] * polled + [0] * (bins - polled)
    job.series = {"scratch": ReportedSeries(began=1_795_176_000.0, every_s=float(every_s),
                                            read_bytes=[0] * bins, write_bytes=[0] * bins,
                                            operations=rates)}


CAUSES = (
    Planted("serial writer", serial_writer, ("one_node",), TRUE_OF_ONE_NODE, GENERAL, 4),
    Planted("serial reader", serial_reader, ("one_node",), TRUE_OF_ONE_NODE, GENERAL, 4),
    Planted("serial writer, one OST", serial_writer_one_ost, ("one_node", "one_ost", "few_osts"),
            TRUE_OF_ONE_NODE, GENERAL, 4),
    Planted("serial small writes", serial_small_writes, ("one_node", "small_writes"),
            TRUE_OF_ONE_NODE, GENERAL, 4),
    Planted("serial fsync", serial_fsync, ("one_node", "fsync", "small_requests"),
            TRUE_OF_ONE_NODE, GENERAL, 4, True),
    Planted("serial flock", serial_flock, ("flock",), TRUE_OF_ONE_NODE, GENERAL, 4, True),
    Planted("metadata by one node", metadata_by_one_node,
            ("many_opens", "stat_storm", "unlink_storm", "metadata_storm"),
            ("one_mdt", "small_reads", *TRUE_OF_ONE_NODE), GENERAL, 4),
    Planted("imbalance", imbalance, ("one_node",), TRUE_OF_ONE_NODE, GENERAL, 4),
    Planted("slow node", slow_node, ("slow_nodes", "slow_node"), (), GENERAL, 4, True),
    Planted("one OST", one_ost, ("one_ost", "few_osts"), (), GENERAL),
    Planted("few OSTs", few_osts, ("few_osts", "one_ost"), (), GENERAL, 1, False, 32),
    Planted("small writes", small_writes, ("small_writes",), ("small_requests",), GENERAL),
    Planted("small reads", small_reads, ("small_reads",), ("cache_served",), GENERAL),
    Planted("512 B and 1 MiB", mixture, ("small_writes", "small_reads"), ("small_requests",),
            GENERAL),
    Planted("small direct I/O", small_direct, ("small_requests", "small_reads", "small_writes"),
            (), GENERAL),
    Planted("libaio 4 KiB", libaio, ("small_requests", "small_reads", "small_writes"), (), GENERAL),
    Planted("fsync often", fsync_often, ("fsync", "small_requests"), (), GENERAL, 1, True),
    Planted("small writes with fsync", small_synced, ("small_requests", "fsync", "small_writes"),
            (), GENERAL, 1, True),
    Planted("mapped files", mapped_files, ("mapped_files",), ("small_requests", "random_reads"),
            GENERAL, 1, True),
    Planted("SEEK_END", seek_end, ("other_calls",), (), GENERAL, 1, True),
    Planted("flock", flock, ("flock",), ("metadata_storm", "one_mdt"), GENERAL, 1, True),
    Planted("lock contention", lock_contention, ("lock_contention",),
            ("small_writes", "small_requests"), GENERAL, 2),
    Planted("read-ahead waste", read_ahead_waste, ("random_reads",),
            ("small_reads", "small_requests"), GENERAL),
    Planted("stat storm", stat_storm, ("stat_storm", "metadata_storm"), ("one_mdt",), GENERAL),
    Planted("many opens", many_opens, ("many_opens", "metadata_storm"),
            ("small_reads", "small_writes", "small_requests", "one_mdt"), GENERAL),
    Planted("repeated opens", repeated_opens, ("repeated_opens", "many_opens", "metadata_storm"),
            ("small_reads", "cache_served", "one_mdt"), GENERAL),
    Planted("unlink storm", unlink_storm, ("unlink_storm", "metadata_storm"),
            ("stat_storm", "other_calls", "one_mdt"), GENERAL),
    Planted("other calls", other_calls, ("other_calls", "metadata_storm"), ("one_mdt",), GENERAL,
            1, True),
    Planted("slow MDT", slow_mdt, ("slow_metadata", "many_opens"), (), GENERAL, 1, True),
    # It takes no time in Lustre, which `why` may report.
    Planted("polling", polling, ("polling", "not_in_lustre"), ("stat_storm", "metadata_storm"),
            GENERAL),
)
