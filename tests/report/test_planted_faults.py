"""
A matrix of healthy jobs that stay without a finding, and each fault planted into each of them: it
is found first.  At the default thresholds, with sizes and times of real jobs; tests on simulated
mounts are in tests/simlustre/test_known_faults.py.

A node has 8 OSTs, moves 1 GiB/s in calls of 1 MiB, and waits 200 us for each call to the MDT.
"""

import pytest
from test_job_totals import llite, osc
from trees import report as of_node

from iostats.base.config import Config
from iostats.report import node_sets
from iostats.report.advice.findings import findings_of, looked_at
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


def job(works, elapsed_s, is_timed, idle=None):
    totals = Totals("4711", len(works), fold=node_sets.folded)
    for number, work in enumerate(works):
        totals.add(of_node(f"nid{number:05}", work.deltas(is_timed), elapsed_s=elapsed_s,
                           idle=idle))
    return totals.record()


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
            assert ["many_opens", "stat_storm"] == sorted(one.id for one in findings_of(
                job(works, elapsed_s, is_timed), Config()) if one.id != "metadata_storm")
    record = job(works, elapsed_s, is_timed, idle)
    assert [] == findings_of(record, Config())
    judged = background != "computes" or nodes == 64
    assert looked_at(record, Config()).startswith(
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
        mkdir=int(hours * 3_700_000 * 1.5), us=1)),
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
    found = [one.id for one in findings_of(job(works, elapsed_s, is_timed), Config())]
    if (fault in ("flock", "other_calls") and not is_timed) or (
            fault == "one_node" and nodes == 1):
        assert fault not in found
    else:
        assert fault == found[0], found
