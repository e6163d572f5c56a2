"""
A matrix of healthy jobs that stay without a finding, and each fault planted into each of them: it
is found first.  At the default thresholds, with sizes and times of real jobs; tests on simulated
mounts are in tests/simlustre/test_known_faults.py.

A node has 8 OSTs, moves 1 GiB/s in calls of 1 MiB, and waits 200 us for each call to the MDT.
"""

import pytest
from page_records import batch
from test_job_totals import llite, osc
from trees import report as of_node

from iostats.base.config import Config
from iostats.report import node_sets
from iostats.report.findings.evaluate import find_problems, list_checks
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals
from iostats.wire.messages.report import ReportedIdle

MIB, GIB = 1 << 20, 1 << 30
OSTS = [f"OST{number:04x}" for number in range(8)]
MDT_US = 200


class Work:
    """What one node did: metrics of llite with their times, and bytes over the network by OST."""

    def __init__(self):
        self.values, self.ost = {}, {}

    def moves(self, way, size, each=MIB, us=None, over=OSTS, sent=None, rpc=4 * MIB):
        """Calls of `each` bytes; `sent`: what of it goes over the network, in requests of `rpc`."""
        calls = size // each
        self.add(**{f"{way}_bytes": size, f"{way}_calls": calls, way: calls,
                    f"{way}_us": size * 1_000_000 // GIB if us is None else us * calls})
        sent = size if sent is None else sent
        for target in over:
            mine = self.ost.setdefault(target, {})
            for name, more in ((f"{way}_bytes", sent // len(over)),
                               (f"{way}_rpcs", -(-sent // len(over) // rpc))):
                mine[name] = mine.get(name, 0) + more
        return self

    def calls(self, us=MDT_US, **counts):
        self.add(**counts, **{f"{name}_us": count * us for name, count in counts.items()})
        return self

    def add(self, **values):
        for name, value in values.items():
            self.values[name] = self.values.get(name, 0) + value

    def deltas(self, is_timed):
        values = {name: value for name, value in self.values.items()
                  if is_timed or not (name.endswith("_us") or name in ("read", "write"))}
        asked = sum(value for name, value in self.values.items() if name in (
            "open", "close", "getattr", "unlink", "mkdir", "flock"))
        return [llite(**values), *(osc(target, **ost) for target, ost in self.ost.items()),
                *(osc(target) for target in OSTS if target not in self.ost),
                Delta("md_stats", "scratch", "MDT0000", "ff9a", {"getattr": asked}, False, "")]


def job(works, elapsed_s, is_timed=True, idle=None, cpus_of_node=1, **facts):
    """`facts`: tasks and cpus of the job by the batch system."""
    totals = Totals("4711", len(works), fold=node_sets.fold_nodes)
    for number, work in enumerate(works):
        totals.add(of_node(f"nid{number:05}", work.deltas(is_timed), elapsed_s=elapsed_s,
                           idle=idle, cpus=cpus_of_node))
    found = totals.record()
    return found.replaced(batch=batch(**facts)) if facts else found


def files(work, count, each=64 * MIB):
    """So many files, each written as a whole."""
    return work.moves("write", count * each).calls(open=count, close=count, getattr=count)


HEALTHY = {
    "computes": lambda node: Work().calls(open=40, close=40, getattr=200),
    "reads its input": lambda node: Work().moves("read", 12 * GIB).calls(open=20, close=20),
    "writes checkpoints": lambda node: Work().moves("write", 24 * GIB).calls(open=90, close=90),
    "reads, and writes less": lambda node: files(
        Work().moves("read", 20 * GIB), 40).calls(open=500, close=500, getattr=2500),
    "reads small files at its start": lambda node: Work().moves(
        "read", 3000 * 8192, 8192, 40, rpc=8192).calls(open=3000, close=3000, getattr=6000),
    "one node writes a little more": lambda node: Work().moves(
        "write", 8 * GIB + 3 * GIB * (node == 0)).moves("read", GIB).calls(open=30, close=30),
}
healthy = pytest.mark.parametrize("background", list(HEALTHY))
sizes = pytest.mark.parametrize("nodes, elapsed_s", [(1, 1800.0), (4, 3600.0), (64, 86_400.0)],
                                ids=["a node", "4 nodes", "64 nodes, a day"])
timed = pytest.mark.parametrize("is_timed", [True, False], ids=["2.14 and later", "up to 2.13"])


@healthy
@sizes
@timed
@pytest.mark.parametrize("checker", [False, True], ids=["", "a health checker"])
def test_a_healthy_job_has_no_finding(background, nodes, elapsed_s, is_timed, checker):
    """
    With a health checker that stats 300 times a second and opens 150 files, as it does without a
    job.
    """
    idle = None
    works = [HEALTHY[background](node) for node in range(nodes)]
    if checker:
        stats, opens = round(300 * elapsed_s), round(150 * elapsed_s)
        for work in works:
            work.calls(getattr=stats, open=opens, close=opens)
        idle = {"scratch": ReportedIdle(600.0, {"getattr": 180_000, "open": 90_000,
                                                "close": 90_000})}
        if nodes == 1 and is_timed:
            assert ["many_opens", "stat_storm"] == sorted(one.id for one in find_problems(
                job(works, elapsed_s, is_timed), Config()) if one.id != "metadata_storm")
    record = job(works, elapsed_s, is_timed, idle)
    assert [] == find_problems(record, Config())
    judged = background != "computes" or nodes == 64
    assert list_checks(record, Config()).startswith(
        "No problems found." if judged else "No findings: too little")


def each_node(work):
    return lambda works, hours: [work(one, hours) for one in works]


FAULTS = {
    "small_writes": each_node(lambda one, hours: one.moves(
        "write", int(hours * 3_000_000) * 700, 700, 150)),
    "small_reads": each_node(lambda one, hours: one.moves(
        "read", int(hours * 3_000_000) * 700, 700, 150)),
    "random_reads": each_node(lambda one, hours: one.moves(
        "read", int(hours * 3_000_000) * 700, 700, 150, sent=int(hours * 3_000_000) * 65_536)),
    "small_requests": each_node(lambda one, hours: one.moves(
        "write", int(hours * 3_000_000) * 4096, 4096, 150, rpc=4096)),
    "many_opens": each_node(lambda one, hours: one.calls(
        open=int(hours * 1_000_000), close=int(hours * 1_000_000))),
    "stat_storm": each_node(lambda one, hours: one.calls(getattr=int(hours * 1_500_000))),
    "unlink_storm": each_node(lambda one, hours: one.calls(unlink=int(hours * 1_500_000))),
    "other_calls": each_node(lambda one, hours: one.calls(readdir=int(hours * 1_500_000))),
    "metadata_storm": each_node(lambda one, hours: one.calls(
        mkdir=int(hours * 37_000_000 * 1.5), us=1)),       # hardly any time: asynchronous ones
    "flock": each_node(lambda one, hours: one.calls(flock=int(hours * 30_000), us=20_000)),
    "one_ost": each_node(lambda one, hours: one.moves(
        "write", int(hours * 2000) * GIB, over=["OST0003"])),
    "one_node": lambda works, hours: works[0].moves("write", int(hours * len(works) * 2300) * GIB),
}


@healthy
@timed
@pytest.mark.parametrize("nodes, elapsed_s", [(4, 3600.0), (1, 14_400.0)],
                         ids=["4 nodes", "a node"])
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_fault_that_is_planted_is_found_first(fault, background, nodes, elapsed_s, is_timed):
    """In whatever the job does beside it."""
    works = [HEALTHY[background](node) for node in range(nodes)]
    FAULTS[fault](works, elapsed_s / 3600)
    found = [one.id for one in find_problems(job(works, elapsed_s, is_timed), Config())]
    if (fault in ("flock", "other_calls") and not is_timed) or (
            fault == "one_node" and nodes == 1):
        assert fault not in found
    else:
        assert fault == found[0], found


# -- what one node does alone ----------------------------------------------------------------------

HOUR = 3600.0
SERIAL = {                                  # each takes 95 % of an hour: 3,420 s
    "small_writes": lambda one: one.moves("write", 17_100_000 * 700, 700, 200),
    "one_ost": lambda one: one.moves("write", 1000 * GIB, us=3340, over=["OST0003"]),
    "one_node": lambda one: one.moves("write", 1000 * GIB, us=3340),
    "flock": lambda one: one.calls(flock=171_000, us=20_000),
    "other_calls": lambda one: one.calls(mkdir=171_000, us=20_000),
}
RANKS = pytest.mark.parametrize("ranks", [None, 1, 128], ids=[
    "their number is unknown", "a rank on each node", "128 ranks on each node"])


def tasks(ranks, nodes):
    return {"tasks": ranks * nodes, "cpus": 128 * nodes} if ranks else {"cpus_of_node": 0}


@RANKS
@pytest.mark.parametrize("nodes", [4, 16, 20, 64, 1000])
@pytest.mark.parametrize("fault", list(SERIAL))
def test_what_one_node_does_alone_is_found_at_any_size(fault, nodes, ranks):
    """One rank calls for 95 % of the run time, and all others wait for it."""
    works = [Work() for _ in range(nodes)]
    SERIAL[fault](works[2])
    first = find_problems(job(works, HOUR, **tasks(ranks, nodes)), Config())[0]
    assert fault == first.id
    if fault != "one_ost":
        most = "up to " if ranks == 128 else ""
        assert f", {most}95 % of the run time on nid00002" in first.number


@RANKS
def test_rank_0_that_writes_all_is_found(ranks):
    """1.4 TiB by 1 of 16 nodes, 37 % of an hour (1,332 s); spread evenly it were 83 s."""
    works = [Work() for _ in range(16)]
    works[0].moves("write", 1434 * GIB, us=907)
    [one] = find_problems(job(works, HOUR, **tasks(ranks, 16)), Config())
    most = "up to " if ranks == 128 else ""
    assert ("one_node", f"nid00000 wrote 100 % of all that 16 nodes did, 1.4 TiB, {most}37 % of "
            f"the run time on nid00000") == (one.id, one.number)
    assert 0.347 == round(one.cost, 3)


def test_seventy_percent_by_one_of_16_nodes():
    """The others write 30 % together: 2 % each."""
    works = [Work().moves("write", 20 * GIB, us=907) for _ in range(16)]
    works[5].moves("write", 680 * GIB, us=907)
    [one] = find_problems(job(works, HOUR), Config())
    assert one.id == "one_node"
    assert one.number.startswith("nid00005 wrote 70 % of all that 16 nodes did, 700.0 GiB")


def beside(seconds):
    """What 128 ranks of each node do beside, 1.1 % of their time, and one in 100 of that apart."""
    return [Work().moves("write", 128 * 40 * GIB * (100 + node % 3) // 100, us=977)
            for node in range(seconds)]


def test_one_rank_of_128_is_found_beside_what_all_ranks_do():
    """40 % of an hour in locks by one rank, where each node spent more than its time in writes."""
    works = beside(16)
    works[3].calls(flock=72_000, us=20_000)
    first = find_problems(job(works, HOUR, tasks=2048, cpus=2048), Config())[0]
    assert ("flock", "72,000 locks and unlocks of files (flock, fcntl) took 20.0 ms each, up to "
            "40 % of the run time on nid00003") == (first.id, first.number)


def test_a_few_threads_of_one_node_are_found():
    """Four of 128 ranks write for 80 % of an hour, all others nothing."""
    works = [Work() for _ in range(16)]
    works[3].moves("write", 2880 * GIB, us=3906)
    [one] = find_problems(job(works, HOUR, tasks=2048, cpus=2048), Config())
    assert ("one_node", "nid00003 wrote 100 % of all that 16 nodes did, 2.8 TiB, up to 100 % of "
            "the run time on nid00003") == (one.id, one.number)


def test_what_one_node_writes_beside_what_all_write_is_found():
    """1,440 s more than the others, which spent 5,000 s each; it has 12 % of all bytes."""
    works = beside(16)
    works[4].moves("write", 5_600 * GIB, us=251)
    [one] = find_problems(job(works, HOUR, tasks=2048, cpus=2048), Config())
    assert one.id == "one_node"
    assert one.number.endswith("up to 40 % of the run time more on nid00004 than on others")


def test_one_node_that_writes_long_is_found_whatever_share_of_the_bytes_it_has():
    """3,440 GiB of 13,440 GiB, 96 % of an hour, and no other node wrote a tenth of that."""
    works = [Work().moves("write", 20 * GIB) for _ in range(501)]
    works[2] = Work().moves("write", 3440 * GIB)
    [one] = find_problems(job(works, HOUR), Config())
    assert ("one_node", "nid00002 wrote 26 % of all that 501 nodes did, 3.4 TiB, 96 % of the run "
            "time on nid00002") == (one.id, one.number)


def test_some_nodes_that_write_for_all_are_no_single_one():
    """8 of 64 nodes write what all send them: a fifth of an hour on each."""
    works = [Work().moves("write", 720 * GIB * (node < 8), us=977) for node in range(64)]
    assert [] == find_problems(job(works, HOUR), Config())


# -- many threads on a node ------------------------------------------------------------------------

LITTLE_OF_EACH = {                          # of 128 ranks
    "a checkpoint, 1 % of each rank's time": lambda: Work().moves(
        "write", 128 * 36 * GIB, us=977).calls(open=128, close=128),
    "10 buffered writes a second of each rank": lambda: Work().moves(
        "write", 128 * 36_000 * 100, 100, 50, rpc=MIB).calls(open=128, close=128),
    "2 stats a second of each rank": lambda: Work().calls(getattr=128 * 7200),
}
KNOWN_THREADS = pytest.mark.parametrize("facts", [
    {"tasks": 128}, {"cpus": 128}, {"cpus_of_node": 128}],
    ids=["tasks of the job", "CPUs of the job", "CPUs of the node"])


@KNOWN_THREADS
@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("little", list(LITTLE_OF_EACH))
def test_a_little_of_each_of_128_ranks_is_no_finding(little, nodes, facts):
    """The kernel's sum over the threads of a node is 1.25, 0.064 and 0.051 times its time."""
    counts = {name: number * (1 if name == "cpus_of_node" else nodes)
              for name, number in facts.items()}
    record = job([LITTLE_OF_EACH[little]() for _ in range(nodes)], HOUR, **counts)
    assert [] == find_problems(record, Config())


def test_much_of_each_of_128_ranks_is_found_and_the_text_counts_them():
    """8 % of the time of each of 512 ranks: 10.24 times the nodes' time."""
    works = [Work().moves("write", 128 * 5_760_000 * 100, 100, 50, rpc=MIB) for _ in range(4)]
    [one] = find_problems(job(works, HOUR, tasks=512, cpus=512), Config())
    assert ("small_writes", "2,949,120,000 writes of 100 bytes on average, 8.0 % of the time of "
            "512 tasks") == (one.id, one.number)


def test_more_time_than_its_tasks_have_is_of_its_cpus():
    """Slurm counts one task a node where none were asked for, and mpirun starts 128."""
    works = [LITTLE_OF_EACH["a checkpoint, 1 % of each rank's time"]() for _ in range(4)]
    assert [] == find_problems(job(works, HOUR, tasks=4, cpus=512), Config())


@pytest.mark.parametrize("percent, expected", [(56, ["small_writes"]), (6, [])])
def test_one_thread_or_all_where_tasks_are_unknown(percent, expected):
    """56 % of a node's time may be one thread's; 6 % are taken for little of each of 128."""
    work = Work().moves("write", 360_000 * percent * 100, 100, 100, rpc=MIB)
    found = find_problems(job([work], HOUR, cpus_of_node=128), Config())
    assert expected == [one.id for one in found]


@healthy
@pytest.mark.parametrize("nodes", [1, 4, 64])
def test_a_healthy_job_of_128_ranks_a_node_has_no_finding(background, nodes):
    works = [HEALTHY[background](node) for node in range(nodes)]
    assert [] == find_problems(job(works, HOUR, tasks=128 * nodes, cpus=128 * nodes), Config())
