"""
Findings of jobs whose fault is known, and none of jobs without one: real reads, writes and calls of
programs on simulated mounts, and what the report says first.

The thresholds are those of site.cfg's defaults, but for what keeps short jobs from being judged: a
job here takes a second, so 300 calls and 1 MiB are enough of each; and on a busy machine it takes
many, so 5 calls a second are many where calls are not timed.  These jobs do little else than I/O,
so that much of their time is in Lustre (time_in_lustre).  A call on these mounts takes
1.2 ms, as on a busy Lustre (--slow); `fast` is one without.
"""
from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from processes import REPOSITORY, Desk, until
from test_simlustre import no_fuse
from trees import report, snapshot

from iostats.base.config import Config
from iostats.node import idle_time, sources
from iostats.report import job_tables, node_sets
from iostats.report.findings.evaluate import find_problems, list_checks
from iostats.totals import delta
from iostats.totals.job_totals import Totals
from iostats.wire.messages.report import ReportedIdle

pytestmark = pytest.mark.fuse

SMALL = {"from_seconds": 0, "from_bytes": 1 << 20, "from_operations": 300, "large_bytes": 1 << 20,
         "untimed_per_second": 5, "off": "time_in_lustre"}
NODES = ("node1", "node2", "node3", "node4")
MOUNTS = {**{name: ("--stripe-count", "4", "--slow", "1200") for name in NODES},
          "striped over one OST": ("--slow", "1200"),
          "fast": ("--stripe-count", "4")}


def configured(**choices):
    config = Config()
    for name, value in {**SMALL, **choices}.items():
        config.set_value(f"findings.{name}", str(value), "the test")
    return config


class Cluster:
    """Simulated nodes of one release, with a directory that they share; mounted when first used."""

    def __init__(self, directory, release):
        self._directory, self.data = directory, directory / "data" / "scratch"
        self.release, self._mounted = release, []
        self.data.mkdir(parents=True)
        self.data.chmod(0o1777)

    def simlustre(self, *arguments):
        subprocess.run([sys.executable, "-m", "simlustre", *map(str, arguments)], cwd=REPOSITORY,
                       check=True, timeout=60)

    def node(self, name):
        """Where a node's `scratch` and its counters, `root`, are."""
        if name not in self._mounted:
            self.simlustre("--backing", self.data.parent, "--mount", self._directory / name, "--fs",
                           "scratch", "--release", self.release, *MOUNTS[name])
            self._mounted.append(name)
        return self._directory / name

    def begin_unmounts(self):
        """The commands, which wait up to 10 s where another test's namespace has these mounts."""
        return [subprocess.Popen([sys.executable, "-m", "simlustre", "--unmount",
                                  str(self._directory / name)], cwd=REPOSITORY)
                for name in self._mounted]

    def begin(self, node, code):
        """A program on a node, in its mount."""
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c",
             f"import fcntl, os, time\nbegan = time.monotonic()\n{code}"],
            cwd=self.node(node) / "scratch")

    def run(self, works, idle=None):
        """The Record of a job: {node: program}."""
        before = {node: self.seen(node) for node in works}
        began = time.monotonic()
        running = [self.begin(node, code) for node, code in works.items()]
        assert [0] * len(works) == [one.wait(60) for one in running]
        elapsed_s = time.monotonic() - began
        totals = Totals("4711", len(works), fold=node_sets.fold_nodes)
        for node, start in before.items():
            deltas = delta.compute_deltas(start, self.seen(node), sources.list_sources())
            totals.add(report(node, elapsed_s=elapsed_s, idle=idle, cpus=1, deltas=deltas))
        return totals.record()

    def seen(self, node):
        return snapshot(self.node(node) / "root")


@pytest.fixture(scope="module")
def _cluster_of(tmp_path_factory):
    if no_fuse():
        pytest.skip(no_fuse())
    made = {}

    def cluster_of(release):
        if release not in made:
            one = made[release] = Cluster(tmp_path_factory.mktemp("cluster"), release)
            (one.data / "one").write_bytes(b"x" * 100_000)
            with (one.data / "sparse").open("wb") as file:
                file.truncate(1 << 28)
        return made[release]
    yield cluster_of
    commands = [command for one in made.values() for command in one.begin_unmounts()]
    assert [0] * len(commands) == [command.wait(60) for command in commands]


@pytest.fixture
def release():
    """Where a test says no other one."""
    return "2.15"


@pytest.fixture
def cluster(_cluster_of, release):
    return _cluster_of(release)


def many(cluster, name):
    """400 files, made while nothing is measured."""
    (cluster.data / name).mkdir()
    for number in range(400):
        (cluster.data / name / str(number)).touch()


# -- faults --------------------------------------------------------------------------------------

FAULTS = {
    "small_writes": "f = os.open('written', os.O_CREAT | os.O_WRONLY)\n"
                    "for _ in range(400): os.write(f, b'x' * 100)",
    "small_reads": "f = os.open('one', os.O_RDONLY)\n"
                   "for _ in range(400): os.read(f, 100)",
    "random_reads": "f = os.open('sparse', os.O_RDONLY)\n"
                    "for n in range(400): os.pread(f, 100, n * 7919 % 65536 * 4096)",
    "small_requests": "f = os.open('synced', os.O_CREAT | os.O_WRONLY)\n"
                      "for _ in range(400): os.write(f, b'x' * 4096); os.fsync(f)",
    "small_requests, direct": "f = os.open('direct', os.O_CREAT | os.O_WRONLY | os.O_DIRECT)\n"
                              "for _ in range(400): os.write(f, b'x' * 4096)",
    "repeated_opens": "for _ in range(400): os.close(os.open('one', os.O_RDONLY))",
    "many_opens": "for n in range(400): os.close(os.open(f'opened/{n}', os.O_RDONLY))",
    "stat_storm": "for _ in range(400): os.stat('one')",
    "unlink_storm": "for n in range(400): os.unlink(f'removed/{n}')",
    "other_calls": "for _ in range(400): os.chmod('one', 0o644)",
    "flock": "f = os.open('one', os.O_RDWR)\n"
             "for _ in range(400): fcntl.flock(f, fcntl.LOCK_EX)",
}
# Locks are not timed in releases up to 2.13, and since 2.15 it is known which opens are repeated.
UNTIMED = {"flock": "", "repeated_opens": "many_opens"}
# What is the same in all releases is tried in one.
IN = {"2.12": ("small_writes", "random_reads", "stat_storm", *UNTIMED), "2.15": tuple(FAULTS),
      "2.17": ("small_writes", "flock")}


@pytest.mark.parametrize("release, fault", [(release, fault) for release, faults in IN.items()
                                            for fault in faults])
def test_the_fault_that_a_job_has_is_found_first(cluster, fault):
    """By what a program really did; and said in the report, above the notes."""
    if fault in ("many_opens", "unlink_storm"):
        many(cluster, "opened" if fault == "many_opens" else "removed")
    record = cluster.run({"node1": FAULTS[fault]})
    found = find_problems(record, configured())
    expected = UNTIMED.get(fault, fault) if cluster.release == "2.12" else fault
    expected = expected.partition(",")[0]
    assert [expected] * bool(expected) == [one.id for one in found][:1], found
    if found:
        text = job_tables.format_report(job_tables.add_labels(record, configured()), configured())
        assert f"Findings:\n 1. scratch: {found[0].number[:40]}" in text


def test_a_metadata_storm_is_found(cluster):
    """
    4,000 changes of a file's mode and times, as fast as one program can.  How many a second these
    are, and how much of its time they take, depends on this machine and on what else it does: so 50
    a second are a storm here, and their time is not looked at.
    """
    record = cluster.run({"fast": "for _ in range(2000): os.chmod('one', 0o644); os.utime('one')"})
    assert ["metadata_storm"] == [one.id for one in find_problems(
        record, configured(from_percent=10_000, metadata_storm_per_second=250))]


# 48 writes take little of the nodes' time, and how little depends on what else this machine does.
AS_LONG_AS_IT_TAKES = {"from_percent": 0}


def test_one_ost_that_has_all_is_found(cluster):
    """A file on one of four OSTs; the same on all four is none."""
    code = ("f = os.open(NAME, os.O_CREAT | os.O_WRONLY)\n"
            "for _ in range(48): os.write(f, bytes(1 << 20))")
    found = find_problems(cluster.run({"striped over one OST": code.replace("NAME", "'o1'")}),
                          configured(**AS_LONG_AS_IT_TAKES))
    assert "one_ost" == found[0].id
    found = find_problems(cluster.run({"node1": code.replace("NAME", "'o2'")}),
                          configured(**AS_LONG_AS_IT_TAKES))
    assert "one_ost" not in [one.id for one in found]


def test_one_node_that_does_all_is_found(cluster):
    """
    Of four; the others write a little of the file as well: 48 MiB of 51.  Whole pages, so that the
    kernel passes no part of a page on as a write of its own, which would be a tiny one: in no
    counter, and of a size that depends on where the memory is.
    """
    code = ("import mmap\n"
            "f = os.open('all', os.O_CREAT | os.O_WRONLY)\n"
            "for _ in range(SIZE): os.write(f, mmap.mmap(-1, 1 << 20))")
    works = {node: code.replace("SIZE", "48" if node == "node3" else "1") for node in NODES}
    found = find_problems(cluster.run(works), configured(**AS_LONG_AS_IT_TAKES))
    assert ["one_node"] == [one.id for one in found]
    assert re.fullmatch(r"node3 wrote 94 % of all that 4 nodes did, 48\.0 MiB, [\d.]+ % of the run "
                        r"time on node3", found[0].number)


# -- jobs without a fault ------------------------------------------------------------------------

WRITES = ("f = os.open(NAME, os.O_CREAT | os.O_RDWR)\n"
          "for _ in range(32): os.write(f, bytes(1 << 20))\n")
READS = "os.lseek(f, 0, 0)\nfor _ in range(32): os.read(f, 1 << 20)\n"
STATS = "for _ in range(20): os.stat('one')\n"
FILES = ("for n in range(20):\n"
         "    with open(f'{n}-' + NAME, 'wb') as g: g.write(bytes(1 << 20))\n")
# Three times as long as its I/O, which is slow where the machine is busy.
COMPUTES = "time.sleep(max(0.4, 3 * (time.monotonic() - began)))\n"
QUIET = {
    "writes and reads in large pieces": ({"node1": WRITES + COMPUTES + READS}, "Checked: "),
    "four nodes, each with a file": (
        {node: WRITES + COMPUTES for node in NODES}, "Checked: "),
    "some of all": ({"node1": FILES + STATS + COMPUTES + READS.replace("f,", "g,").replace(
        "os.lseek(g, 0, 0)", "g = os.open('one', os.O_RDONLY)"), "node2": WRITES + STATS
        + COMPUTES}, "Checked: "),
    "next to nothing": ({"node1": "open(NAME, 'w').write('x' * 1000)\n" + STATS},
                        "too little I/O to judge"),
}


@pytest.mark.parametrize("job", list(QUIET))
@pytest.mark.parametrize("release", list(IN))
def test_a_job_without_a_fault_has_no_finding(cluster, job):
    """And one line says what was looked at."""
    works, says = QUIET[job]
    works = {node: code.replace("NAME", f"'{node}-{len(job)}'") for node, code in works.items()}
    record = cluster.run(works)
    assert [] == find_problems(record, configured())
    assert says in list_checks(record, configured())


def test_calls_that_take_no_time_are_no_fault(cluster):
    """350 stats and opens that cost the job next to nothing."""
    record = cluster.run({"fast": "for _ in range(350):\n    os.stat('one'); time.sleep(0.006)\n"
                                  "    os.close(os.open('one', os.O_RDONLY))"})
    assert [] == find_problems(record, configured())


CHECKER = "for _ in range(400): os.stat('one')\n"
WORK = ("f = os.open('work', os.O_CREAT | os.O_WRONLY)\n"
        "for _ in range(8): os.write(f, bytes(1 << 20))")


def test_a_health_checker_is_not_the_jobs_fault(cluster, tmp_path, monkeypatch):
    """
    The node stats a file all the time, with a job and without; prolog and epilog have seen that.

    Idle time and job take a second here, which in life is no idle time: SHORTEST_S.
    """
    monkeypatch.setattr(idle_time, "SHORTEST_S", 0.1)
    kept, root = str(tmp_path), str(tmp_path / "none")
    start_path = str(tmp_path / "4711%20node1.start")
    idle_time.store_idle_start(kept, "node1", cluster.seen("node1"), root)
    assert 0 == cluster.begin("node1", CHECKER).wait(60)
    idle_time.claim(kept, "node1", start_path, root)
    measured = idle_time.report_idle_io(kept, "node1", start_path, cluster.seen("node1"),
                                        True)["idle"]
    assert {"getattr": 400} == measured["scratch"]["values"]
    idle = {name: ReportedIdle(one["seconds"], one["values"]) for name, one in measured.items()}

    def busy(known):
        """The job's program starts the checker, and is there a little longer."""
        here = (f"import subprocess, sys\nchecker = subprocess.Popen([sys.executable, '-I', '-S', "
                f"'-c', {'import os' + chr(10) + CHECKER!r}])\n")
        return cluster.run({"node1": f"{here}{WORK}\nchecker.wait()\ntime.sleep(0.3)"}, known)
    assert "stat_storm" in [one.id for one in find_problems(busy(None), configured())]
    record = busy(idle)
    assert [] == find_problems(record, configured())
    text = job_tables.format_report(job_tables.add_labels(record, configured()), configured())
    assert "getattr may be the nodes' own (daemons, health checks: measured while no job ran, on " \
           "1 of 1 nodes)" in " ".join(text.split())



DESK = Desk


def test_a_job_that_polls_is_told_so_by_its_server(cluster, desk):
    """
    With `start`, `watch` and `stop` as in a job script: 8 s of asking for a file, so that it is
    most of the time from start to stop on a busy machine, too.
    """
    server = desk.server("--nodes", "1", env={
        f"IOSTATS_FINDINGS_{name.upper()}": str(value)
        for name, value in {**SMALL, "from_operations": 20}.items()})
    on = desk.on("fast", cluster.node("fast") / "root")
    assert 0 == desk.client("start", *on).status
    watch = desk.begin_client("watch", "--every", "1", *on)
    until((desk.state / f"{desk.job}%20fast.watch").exists, what="the watch file")
    waits = "until = time.time() + 8\nwhile time.time() < until: os.stat('one'); time.sleep(0.02)"
    assert 0 == cluster.begin("fast", waits).wait(60)
    done = desk.client("stop", "--server", f"127.0.0.1:{server.port}", *on)
    assert (0, "") == (done.status, done.err)
    assert 0 == watch().status
    assert re.search(r"\nFindings:\n 1\. scratch: in \d+ % of the time no byte was read or written",
                     server.wait().out)
