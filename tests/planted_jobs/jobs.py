"""
A random job: nodes whose threads spend a given number of seconds in calls of one kind.

Each method that does I/O takes the nodes (`where`), the threads of each, and the seconds of wall
time that each thread spends in it; how many calls those are follows from the machine.  So a cause
is planted with a known part of the job's run time.
"""

from __future__ import annotations

import math

from trees import report

from iostats.node import sources
from iostats.report import node_sets
from iostats.totals import delta
from iostats.totals.job_totals import Totals
from iostats.totals.record import BatchRecord
from planted_jobs.counters import BEGAN_S, MIB, PAGE, NodeCounters
from planted_jobs.machine import Machine, between

NODES = (1, 1, 2, 4, 4, 8, 8, 16, 16, 20, 32, 64, 64, 128, 256, 512, 1000)
_DIFFERENT = 8              # nodes with counters of their own; all others have counted like these


class Job:
    """
    A job on a random machine.

    Attributes:
        nodes, ranks: how many nodes, and ranks on each.
        elapsed_s: its run time.
        where: NodeCounters of all its nodes; the first is of one node.
        about: words on what was planted, for the line of a job that was missed.
        home: the same of a second file system; [] where there is none.
        threads, share: of a cause on all nodes: how many threads of each, and the part of the run
            time that it takes of each of them.
        series: of `watch`; None where it did not run.
        idle: what the nodes do by themselves; None if unknown.
        knows: "tasks": the batch system's tasks and CPUs are in the record; "cpus": the nodes'
            alone; "nothing": neither.
        is_hybrid: a task a node, with threads.
    """

    def __init__(self, draw, least_nodes=1, least_osts=1, is_timed=False):
        """`is_timed`: on a release that times calls."""
        self.random, self.machine = draw, Machine(draw, least_osts, is_timed)
        machine = self.machine
        self.nodes = draw.choice([count for count in NODES if count >= least_nodes])
        self.ranks = draw.choice([count for count in (1, 1, 2, 4, 8, 16, 32, 64, 128)
                                    if count <= machine.cores] + [machine.cores] * 3)
        self.elapsed_s = between(draw, 120, 86_400)
        self.where = [NodeCounters("scratch", machine.osts, machine.mdts, copies)
                      for copies in self._copies()]
        self.about = ""
        self.series = self.idle = None
        self.home = [NodeCounters("home", 4, 1, node.copies) for node in self.where] if (
            draw.random() < 0.3) else []
        self.threads, self.share = self.ranks, 1.0
        self.knows = draw.choices(("tasks", "cpus", "nothing"), (55, 25, 20))[0]
        self.is_hybrid = draw.random() < 0.2

    def _copies(self):
        if self.nodes <= _DIFFERENT:
            return [1] * self.nodes
        rest, kinds = self.nodes - 1, _DIFFERENT - 1
        return [1] + [rest // kinds + (number < rest % kinds) for number in range(kinds)]

    @property
    def first(self):
        """The NodeCounters of one node alone."""
        return self.where[:1]

    def record(self):
        """Its record, by the files of its nodes."""
        totals, number, read = Totals("4711", self.nodes, fold=node_sets.fold_nodes), 0, \
            sources.read_at("start")
        for place, node in enumerate(self.where):
            deltas = [one for counters in (node, *self.home[place:place + 1])
                      for one in delta.compute_deltas(*counters.snapshots(
                          self.machine.release, self.elapsed_s), read)]
            for _ in range(node.copies):
                number += 1
                totals.add(report(f"nid{number:05}", deltas, elapsed_s=self.elapsed_s,
                                  ended=BEGAN_S + self.elapsed_s, dirty_bytes={"scratch": 0},
                                  series=self.series, idle=self.idle,
                                  cpus=0 if self.knows == "nothing" else self.machine.cores))
        record = totals.record()
        return record if self.knows != "tasks" else record.replaced(batch={
            **dict.fromkeys(BatchRecord.__annotations__, ""), "system": "slurm",
            "outcome": "COMPLETED", "exit_status": 0, "exit_signal": 0, "raw_job": "4711",
            "name": "planted", "tasks": self.nodes * (1 if self.is_hybrid else self.ranks),
            "cpus": self.nodes * self.machine.cores})

    # -- what its threads do -----------------------------------------------------------------------

    def uneven(self):
        """A factor for each node and kind of call: nodes never do exactly the same."""
        return math.exp(self.random.gauss(0, 0.04))

    def count(self, where):
        """How many nodes these are."""
        return sum(node.copies for node in where)

    def _open(self, node, threads, nodes):
        """Each thread opens the file that it reads or writes, and closes it."""
        each_s = self.machine.metadata(nodes, 1)
        for name, asked in (("open", "intent_lock"), ("close", "close")):
            node.call(name, threads, each_s, 0.8)
            node.asked(asked, threads, (0,))

    def write(self, where, threads, wall_s, size, osts, is_append=True, is_burst=False, slower=1.0,
              sharing=None):
        """
        Buffered writes in sequence; bytes of each thread.

        `is_append`: small ones are counted by 2.15 (O_APPEND).  `is_burst`: what fits into the
        cache returns at once.  `slower`: a call takes so many times as long as on the node that
        `wall_s` is of.  `sharing`: how many nodes share the OSTs, if more than these.
        """
        machine, nodes = self.machine, sharing or self.count(where)
        each_s = machine.buffered(size, nodes, threads, len(osts))
        if is_burst:
            each_s = self._burst(nodes, threads, wall_s, size, osts)
        if size < PAGE and not is_append:
            each_s = max(each_s * 0.3, 0.7e-6)
        calls = max(1.0, wall_s / each_s)
        for node in where:
            done = threads * calls * self.uneven()
            tiny = done * (1 - size / PAGE) if (
                size < PAGE and not is_append and machine.times_calls) else 0
            self._open(node, threads, nodes)
            node.moved("write", done, size, each_s * slower, 1.2, uncounted=tiny)
            moved = done * size
            rpc = min(machine.rpc, max(PAGE, moved / max(1, len(osts))))
            node.requests("write", moved, rpc, osts, machine.way_s + rpc / machine.ost * 3)
            node.locks("extent", min(done, threads * len(osts)), osts)
        return calls * size

    def _burst(self, nodes, threads, wall_s, size, osts):
        """Seconds of one write() where the node's cache takes most of each burst."""
        machine = self.machine
        fast = machine.cached(size)
        if size * threads * wall_s / fast <= machine.dirty * len(osts):
            return fast
        return machine.buffered(size, nodes, threads, len(osts))

    def read(self, where, threads, wall_s, size, osts, cached=0.0, slower=1.0, sharing=None):
        """Reads in sequence, of which the part `cached` is in the nodes' memory; see write()."""
        machine, nodes = self.machine, sharing or self.count(where)
        each_s = max(machine.cached(size), (1 - cached) * size * threads / machine.bandwidth(
            nodes, len(osts)))
        calls = max(1.0, wall_s / each_s)
        for node in where:
            done = threads * calls * self.uneven()
            self._open(node, threads, nodes)
            node.moved("read", done, size, each_s * slower, 1.5)
            came = done * size * (1 - cached)
            rpc = min(machine.rpc, max(PAGE, came / max(1, len(osts))))
            node.requests("read", came, rpc, osts, machine.way_s + machine.disk_s
                          + rpc / machine.ost * 2)
            node.locks("extent", min(done, threads * len(osts)), osts)
        return calls * size

    def scattered_reads(self, where, threads, wall_s, size, osts, waste):
        """Reads here and there; `waste`: bytes that come by bytes that were asked for."""
        machine = self.machine
        rpc = max(PAGE, -(-size * waste // PAGE) * PAGE)
        each_s = machine.direct(rpc, self.count(where), threads, len(osts))
        calls = max(1.0, wall_s / each_s)
        for node in where:
            done = threads * calls * self.uneven()
            self._open(node, threads, self.count(where))
            node.moved("read", done, size, each_s, 0.9)
            node.requests("read", done * size * waste, min(rpc, machine.rpc), osts, each_s)
            node.locks("extent", threads * len(osts), osts)

    def direct(self, where, threads, wall_s, size, osts, way="write"):
        """O_DIRECT: a request for each call."""
        machine = self.machine
        each_s = machine.direct(size, self.count(where), threads, len(osts))
        for node in where:
            done = threads * max(1.0, wall_s / each_s) * self.uneven()
            self._open(node, threads, self.count(where))
            node.moved(way, done, size, each_s, 0.6)
            node.requests(way, done * size, min(size, machine.rpc), osts, each_s * 0.8)
            node.locks("extent", threads * len(osts), osts)

    def asynchronous(self, where, threads, wall_s, size, osts, way, at_once):
        """libaio with O_DIRECT: 2.15 counts neither calls nor bytes of it, 2.12 does."""
        machine = self.machine
        each_s = machine.direct(size, self.count(where), threads * at_once, len(osts))
        for node in where:
            done = threads * at_once * max(1.0, wall_s / each_s) * self.uneven()
            if not machine.times_calls:
                node.moved(way, done, size, 0.0)
            node.requests(way, done * size, size, osts, each_s)

    def synced(self, where, threads, wall_s, size, osts, writes_each=1):
        """fsync() after each `writes_each` writes of `size`."""
        machine = self.machine
        written = size * writes_each
        sync_s = machine.committed(written, self.count(where), threads, len(osts))
        write_s = machine.cached(size)
        for node in where:
            done = threads * max(1.0, wall_s / (sync_s + writes_each * write_s)) * self.uneven()
            self._open(node, threads, self.count(where))
            node.moved("write", done * writes_each, size, write_s, 0.8)
            node.call("fsync", done, sync_s, 0.7)
            node.requests("write", done * written, min(machine.rpc, max(PAGE, written)), osts,
                          sync_s * 0.7)
            node.locks("extent", threads * len(osts), osts)

    def contended_writes(self, where, threads, wall_s, size, osts, lock_s, share=1.0):
        """
        Writes of many nodes into one file, whose blocks' locks go from node to node; `share`: of
        the calls, those that wait for a lock.
        """
        machine = self.machine
        each_s = machine.cached(size) + share * lock_s
        for node in where:
            done = threads * max(1.0, wall_s / each_s) * self.uneven()
            self._open(node, threads, self.count(where))
            node.moved("write", done, size, each_s, 1.5)
            node.locks("extent", done * share, osts)
            rpc = min(machine.rpc, max(PAGE, size * between(self.random, 0.8, 2.0)))
            node.requests("write", done * size, rpc, osts, machine.way_s * 3 + machine.disk_s)

    def metadata(self, where, threads, wall_s, name, asked, requests=1.0, mdts=(0,), each_s=None,
                 glimpses=0):
        """
        Calls that MDTs answer, `asked` by name in md_stats; how many each thread made.

        `each_s`: of one, where it is not the machine's; `glimpses`: OSTs asked for each.
        """
        machine = self.machine
        each_s = each_s or machine.metadata(self.count(where), threads, requests, len(mdts))
        if glimpses:
            each_s += machine.glimpse(glimpses)
        calls = max(1.0, wall_s / each_s)
        for node in where:
            done = threads * calls * self.uneven()
            node.call(name, done, each_s, 0.8)
            node.asked(asked, done * requests, mdts)
            if glimpses:
                node.locks("glimpse", done * glimpses, range(machine.osts))
        return calls

    def files(self, where, threads, wall_s, size=0, way="read", mdts=(0,), is_again=False,
              each_s=None):
        """Files opened, read or written whole in one call, and closed; how many by each thread."""
        machine = self.machine
        nodes = self.count(where)
        open_s = each_s or machine.metadata(nodes, threads, 1.0, len(mdts))
        close_s = open_s * 0.35
        is_cached = is_again or (way == "write")
        move_s = 0.0 if not size else machine.cached(size) if is_cached else machine.direct(
            size, nodes, threads, machine.osts)
        made = max(1.0, wall_s / (open_s + close_s + move_s))
        for node in where:
            done = threads * made * self.uneven()
            node.call("open", done, open_s, 0.9)
            node.call("close", done, close_s, 0.9)
            node.asked("intent_lock", done, mdts)
            node.asked("close", done, mdts)
            if way == "write":
                node.call("mknod", done, open_s * 0.9, 0.9)
                node.asked("create", done, mdts)
            if is_again and machine.times_calls:
                node.call("openclosetime", done * 0.97, between(self.random, 0.002, 0.3))
            if size:
                node.moved(way, done, size, move_s, 0.8)
                if not is_again:
                    node.requests(way, done * max(PAGE, size), min(machine.rpc, max(PAGE, size)),
                                  range(machine.osts), move_s)
                    node.locks("extent", done, range(machine.osts))
        return made

    def local(self, where, threads, wall_s, name, each_s, asked=0.0):
        """Calls of one kind that take `each_s`; `asked`: requests to MDT0000 for each."""
        for node in where:
            done = threads * max(1.0, wall_s / each_s) * self.uneven()
            node.call(name, done, each_s, 0.8)
            if asked:
                node.asked("enqueue" if name == "flock" else "intent_lock", done * asked, (0,))

    # -- what nearly every job does beside ---------------------------------------------------------

    def background(self, most=0.012):
        """Input, output and metadata of any healthy job, up to `most` of the run time each."""
        draw, everyone = self.random, self.where
        part = lambda: self.elapsed_s * between(draw, most / 30, most)        # noqa: E731
        every = range(self.machine.osts)
        if draw.random() < 0.7:
            self.read(everyone, draw.choice((1, self.ranks)), part(),
                      draw.choice((256 << 10, MIB, 4 * MIB)), every,
                      draw.choice((0.0, 0.0, 0.5)))
        if draw.random() < 0.7:
            self.write(everyone, draw.choice((1, self.ranks)), part(),
                       draw.choice((512 << 10, MIB, 8 * MIB)), every, is_burst=True)
        if draw.random() < 0.6:
            self.files(everyone, 1, min(part(), 20.0), 0)
        if draw.random() < 0.6:
            self.metadata(everyone, self.ranks, min(part() / 2, 10.0), "getattr", "intent_lock")
        if self.home:
            self.files(self.home, 1, min(part(), 2.0), 9000, is_again=True)
            self.local(self.home, self.ranks, min(part() / 2, 0.05), "getattr", 4e-6)

    @property
    def part_of_tasks(self):
        """The part of the time of all ranks of its nodes that the cause takes."""
        return self.share * self.threads / self.ranks
