"""
Jobs and targets over time, by a queueing model: random histories of which it is known why a job
was slow.

A target is one server that is shared by all requests (M/G/1, processor sharing): a request that
takes s seconds alone takes s / (1 - utilisation), and some time on its way.  A job has so much to
do in each interval, at most a fixed number of requests in flight, so what it does is the less the
slower its targets are; both are solved for together.  What a neighbour or an outage has cost is the
difference from the same world without it, and by that alone a history is accepted for its kind:
nothing of the rule is known here.

On top: the mean of as many lognormal times as there were requests, hiccups of a target, sweeps that
were missed, and other jobs that come and go.
"""
from __future__ import annotations

import zlib
from collections import namedtuple

import numpy as np

from iostats.load.time_lines import parse_history
from iostats.totals.record import Record

MIB = 1 << 20
BEGAN = 1_795_176_000.0
MOST_UTILISED = 0.995
# Metadata operations: seconds of service of each, on a fast MDT.
METADATA = {"open": 60e-6, "close": 25e-6, "getattr": 30e-6, "unlink": 120e-6}

Target = namedtuple("Target", "name service_s bytes_per_s on_way_s")
Load = namedtuple("Load", "job user target kind size demand in_flight")
Load.__doc__ = """
What a job asks of one target.

Attributes:
    kind: read, write, or one of METADATA.
    size: bytes of a request.
    demand: requests a second that it would make, by interval.
    in_flight: requests at once, at most, by interval.
"""
History = namedtuple("History", "record history like expected file_system target job lost")
History.__doc__ = """
Attributes:
    record, history, like: what causes_of takes; history as JSON.
    expected: kind of the cause that was planted; "" where there is none.
    target: those that were busy, or slow; job: whose load that was, "" where its name is not shown
        to the one who asks, None where it was no single one's.
    lost: {what: the part of the job's time that it has cost}, by the worlds without.
"""


def service_of(target, kind, size):
    return METADATA[kind] * target.service_s / 30e-6 if kind in METADATA else (
        target.service_s + size / target.bytes_per_s)


def solved(target, loads, down=None):
    """(what each of `loads` does a second, by interval; by how much all is stretched there)."""
    services = np.array([service_of(target, one.kind, one.size) for one in loads])[:, None]
    demands = np.array([one.demand for one in loads])
    in_flight = np.array([one.in_flight for one in loads])
    low = np.ones(demands.shape[1])
    high = np.full_like(low, 1 / (1 - MOST_UTILISED))
    for _ in range(16):
        middle = np.sqrt(low * high)
        rates = np.minimum(demands, in_flight / (target.on_way_s + services * middle))
        utilised = np.minimum((rates * services).sum(axis=0), MOST_UTILISED)
        above = middle * (1 - utilised) > 1
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    rates = np.minimum(demands, in_flight / (target.on_way_s + services * high))
    return (rates if down is None else np.where(down, 0.0, rates)), high


class World:
    """A job 4711 of alice, its targets, and what is known of both."""

    def __init__(self, random, nodes, streams, intervals, every_s, first, last):
        """The job runs from interval `first` up to `last` of all that are known."""
        self.random, self.nodes, self.streams = random, nodes, streams
        self.count, self.every_s, self.first, self.last = intervals, every_s, first, last
        self.targets, self.loads, self.events, self.down = {}, [], [], {}
        self.small_writes_s, self.cached_bytes_each = 0.0, 0
        self.stretched = {}                         # {target: times, by interval}: slow by itself
        self.by_name, self.ways_are_timed = {}, random.random() < 0.8
        self.names_known = random.random() < 0.5

    def is_running(self):
        place = np.arange(self.count)
        return (place >= self.first) & (place < self.last)

    def used(self):
        """Names of the job's targets."""
        return sorted({one.target for one in self.loads if one.job == "4711"})

    @property
    def period(self):
        return BEGAN + self.first * self.every_s, BEGAN + self.last * self.every_s

    def add(self, job, target, kind, size, demand, in_flight):
        """A job's Load; `demand` may be one number, of all intervals."""
        demand = np.broadcast_to(np.asarray(demand, float), (self.count,)).copy()
        if job == "4711":
            demand *= self.is_running()
        self.loads.append(Load(job, "alice" if job == "4711" else f"user{job}", target, kind, size,
                               demand, np.broadcast_to(np.asarray(in_flight, float), (self.count,)))
                          )

    def run(self, without=(), targets=None):
        """{(job, target): [(Load, rate, stretch)]} without some jobs, and of some targets alone."""
        found = {}
        for name in targets or self.targets:
            loads = [one for one in self.loads if one.target == name and one.job not in without]
            if not loads:
                continue
            rates, stretch = solved(self.targets[name], loads, self.down.get(name))
            for one, rate in zip(loads, rates):
                found.setdefault((one.job, name), []).append((one, rate, stretch))
        return found

    def waited(self, without=(), done=None):
        """Seconds that job 4711's requests take, all together; `done`: those of another run()."""
        total, run = 0.0, self.run(without, self.used())
        for (job, name), rows in run.items():
            if job == "4711":
                for number, (one, rate, stretch) in enumerate(rows):
                    often = done[job, name][number][1] if done else rate
                    target = self.targets[name]
                    each = target.on_way_s + service_of(target, one.kind, one.size) * stretch
                    total += float((often * each).sum()) * self.every_s
        return total

    def waited_there(self, name, times):
        """Seconds more that job 4711's requests take at a target that is slow by itself."""
        rows, target = self.run((), [name])["4711", name], self.targets[name]
        more = sum(rate * (times - 1) * (
            target.on_way_s + service_of(target, one.kind, one.size) * stretch)
            for one, rate, stretch in rows)
        return float(more.sum()) * self.every_s

    def stream_seconds(self):
        return self.streams * (self.last - self.first) * self.every_s

    def lost_by(self, *jobs):
        """Seconds, of all requests of job 4711 together, that others have cost it; (): all."""
        run = self.run((), self.used())
        jobs = jobs or {one.job for one in self.loads if one.job != "4711"}
        return self.waited(done=run) - self.waited(jobs, run)

    def node_seconds(self):
        return self.stream_seconds() * self.nodes / self.streams

    # -- what is seen of it ------------------------------------------------------------------------

    def lines(self, hiccups=0.01, missed=0.02):
        """({(job, target): {metric: [amount]}}, of all jobs {target: the same}); None: not seen."""
        by_job, of_all = {}, {}
        self.by_name = {}
        random, empty = self.random, {}
        for name in self.targets:
            hiccup = np.where(random.random(self.count) < hiccups,
                              random.uniform(3, 8, self.count), 1.0)
            noise = hiccup * np.exp(
                random.normal(0, random.uniform(0.05, 0.3), self.count))
            empty[name] = noise * self.stretched.get(name, 1.0)
        for (job, name), rows in self.run().items():
            target = self.targets[name]
            found = {metric: np.zeros(self.count) for metric in (
                "read_bytes", "write_bytes", "reads", "writes", "operations", "requests",
                "busy_us", "timed")}
            for one, rate, stretch in rows:
                number = random.poisson(np.minimum(rate * self.every_s, 1e9)).astype(float)
                each = target.on_way_s + service_of(target, one.kind, one.size) * stretch
                spread = np.exp(random.normal(0, 1, self.count) * np.sqrt(
                    np.log1p(1.72 / np.maximum(number, 1))))
                us = number * each * empty[name] * spread * 1e6
                if one.kind in METADATA:
                    found["operations"] += number
                    self.by_name.setdefault((job, one.kind), []).append((number, us))
                else:
                    found[f"{one.kind}s"] += number
                    found[f"{one.kind}_bytes"] += number * one.size
                    if self.ways_are_timed:
                        found[f"{one.kind}s_us"] = found.get(f"{one.kind}s_us", 0) + us
                found["requests"] += number
                found["timed"] += number
                found["busy_us"] += us
            by_job[job, name] = found
        for name in self.targets:
            whole = {}
            for (_, at), found in by_job.items():
                if at == name:
                    for metric, amounts in found.items():
                        whole[metric] = whole.get(metric, 0) + amounts
            of_all[name] = whole
        unseen = random.random(self.count) < missed
        if random.random() < 0.2:
            gap = random.integers(0, max(1, self.count - 4))
            unseen[gap:gap + 3] = True
        return by_job, of_all, unseen

    def history(self, **noise):
        """The site's server's answer about job 4711."""
        by_job, of_all, unseen = self.lines(**noise)
        self.seen = by_job

        wider = int(self.random.choice([1, 1, 2]))          # the lines of all jobs are coarser

        def line(found, first=0, last=None, joined=1):
            last = self.count if last is None else last
            last -= (last - first) % joined
            hidden = unseen[first:last].reshape(-1, joined).any(axis=1).tolist()
            return {"began": BEGAN + first * self.every_s, "every_s": self.every_s * joined,
                    "amounts": {metric: [None if is_hidden else int(amount) for is_hidden, amount
                                         in zip(hidden, amounts[first:last].reshape(
                                             -1, joined).sum(axis=1).tolist())]
                                for metric, amounts in found.items()}}
        targets = []
        whole = {}
        for name in self.targets:
            mine = by_job.get(("4711", name))
            if mine is None:
                continue
            for metric, amounts in mine.items():
                whole[metric] = whole.get(metric, 0) + amounts
            others = sorted(((job, found) for (job, at), found in by_job.items()
                             if at == name and job != "4711"),
                            key=lambda one: -(one[1]["requests"].sum() + (
                                one[1]["read_bytes"] + one[1]["write_bytes"]).sum() / MIB))[:5]
            targets.append({
                "file_system": "scratch", "target": name,
                "job": line(mine, self.first, self.last), "all": line(of_all[name], joined=wider),
                "others": [{"job": job if self.names_known else "",
                            "user": f"user{job}" if self.names_known else "",
                            "line": line(found, joined=wider)} for job, found in others]})
        began, ended = self.period
        return {"began": began, "ended": ended, "has": ["harvest", "events"], "why_not": {},
                "file_systems": [{"name": "scratch", "job": line(whole, self.first, self.last),
                                  "all": None}], "targets": targets}

    def record(self, on_client_s=0.0003):
        """
        The job's record, as its nodes have told it, of what `history` has shown; with write() calls
        of 512 bytes beside, each of which takes 0.1 ms, and what each open reads from the cache.
        """
        began, ended = self.period
        operations, calls = {}, {"read": [0, 0.0], "write": [0, 0.0]}
        moved, targets = {"read": 0, "write": 0}, {}
        for (job, name), found in self.seen.items():
            if job != "4711":
                continue
            targets[name] = {metric: int(amounts.sum()) for metric, amounts in found.items()
                             if metric in ("read_bytes", "write_bytes", "reads", "writes")}
            us = 0 if name.startswith("MDT") else found["busy_us"].sum()
            bulk = found["reads"].sum() + found["writes"].sum()
            for way in ("read", "write"):
                count = found[f"{way}s"].sum()
                calls[way][0] += int(count)
                calls[way][1] += (us * count / bulk / 1e6 if bulk else 0) + count * on_client_s
                moved[way] += int(found[f"{way}_bytes"].sum())
        for (job, kind), rows in self.by_name.items():
            if job == "4711":
                count, us = (sum(float(row[which].sum()) for row in rows) for which in (0, 1))
                operations[kind] = [int(count), us / 1e6 + count * on_client_s]
        down = sum(float((mask & self.is_running()).sum()) * self.every_s
                   for mask in self.down.values())
        if down:                                        # a call of each stream waits for it
            row = calls["write"] if calls["write"][0] else operations.get("open", calls["read"])
            row[1] += down * self.streams
        small = round(self.small_writes_s / 1e-4)
        calls["write"] = [calls["write"][0] + small, calls["write"][1] + self.small_writes_s]
        moved["write"] += small * 512
        moved["read"] += self.cached_bytes_each * operations.get("open", [0])[0]
        elapsed = ended - began
        spread = {name: {"min": 0, "median": total // self.nodes, "max": round(
            1.1 * total / self.nodes) if self.nodes > 1 else total, "busiest": "node001"}
            for name, total in (*((f"{way}_bytes", moved[way]) for way in moved),
                                *((kind, row[0]) for kind, row in operations.items()),
                                *((f"{name}_us", round(1e6 * row[1]))
                                  for name, row in (*calls.items(), *operations.items())))}

        def all_of(several):
            return {name: {"count": int(count), "seconds": float(seconds), "stddev_s": None}
                    for name, (count, seconds) in several.items() if count}
        return record_of(
            {"started": began, "ended": began + elapsed, "elapsed_s": elapsed},
            nodes=self.nodes, events=self.events, application={
                "read_bytes": moved["read"], "write_bytes": moved["write"],
                "read_calls": calls["read"][0], "write_calls": calls["write"][0],
                "lower_bound": False}, operations=all_of(operations), calls=all_of(calls),
            per_node=spread, targets=targets, network={
                "read_bytes": moved["read"], "write_bytes": moved["write"], "read_rpcs": 0,
                "write_rpcs": 0, "lower_bound": False} if self.names_known else None)


def record_of(job, nodes=4, events=(), name="solve", **of_scratch):
    """A Record of job 4711 of alice; `of_scratch`: members of its one file system."""
    elapsed = job["elapsed_s"]
    fs = {"name": "scratch", "label": "scratch", "mounts": [], "application": None, "network": None,
          "operations": None, "calls": None, "other": None, "metadata": {}, "balance": None,
          "request_pages": None, "unproved": [], "cached_read_bytes": None, "dirty_bytes": None,
          "series": None, "targets": {}, "per_node": {}, "lower_bound": False, "too_low": [],
          "too_high": [], "write_bytes_max": None, "incomplete": False, "low": [], "sources": {},
          "notes": [], **of_scratch}
    return Record.of({
        "schema": 1, "short": False,
        "job": {"id": "4711", "attempt": 0, "user": "alice", **job},
        "batch": {"system": "slurm", "cluster": "", "account": "", "partition": "", "name": name,
                  "nodes": "", "outcome": "COMPLETED", "exit_status": 0, "exit_signal": 0,
                  "array_job": "", "array_task": "", "het_job": "", "het_offset": "",
                  "raw_job": "4711"},
        "harvest": None, "by_node": None,
        "coverage": {"expected": nodes, "reported": nodes, "missing": {}, "missing_count": 0,
                     "complete": True, "refused": {}, "shared": {},
                     "node_seconds": elapsed * nodes},
        "file_systems": [fs] if of_scratch else [], "phases": [], "nodes": {}, "notes": [],
        "events": list(events), "events_more": 0})


def event_of(kind, began, over, target="scratch-OST0000", file_system="scratch", **members):
    """A JobEvent."""
    return {"id": f"{int(began):016x}", "time": began, "last": began, "over": over,
            "longest_s": over - began, "severity": 2, "kind": kind, "cause": "",
            "file_system": file_system, "target": target, "nodes": "", "node_count": 0,
            "told_by": "servers", "is_certain": True, "count": 1, "clients": None, "data": "",
            "message": "", **members}


# -- random worlds ---------------------------------------------------------------------------------

def pattern(random, count):
    """How much of its rate a job has in each interval, from 0 to 1; one of the ways jobs have."""
    way = random.integers(5)
    place = np.arange(count)
    if way == 0:
        found = np.ones(count)
    elif way == 1:                                              # checkpoints
        every, long = random.integers(6, 20), random.integers(1, 5)
        found = np.where((place + random.integers(20)) % every < long, 1.0, 0.05)
    elif way == 2:                                              # phases
        found = np.repeat(random.uniform(0.2, 1, count // 15 + 1), 15)[:count]
    elif way == 3:                                              # slowly up or down
        found = np.linspace(*random.permutation([0.3, 1.0]), count)
    else:                                                       # now and then, at random
        found = np.repeat(random.random(count // 4 + 1) < 0.6, 4)[:count] * 0.9 + 0.1
    return found * np.exp(random.normal(0, 0.15, count))


def some_world(random, targets=None):
    """A World with targets, and jobs beside that do them no harm; job 4711 does nothing yet."""
    every_s = float(random.choice([15, 30, 60]))
    before, after = random.integers(5, 40, 2)
    length = int(random.integers(16, 240))
    nodes = int(random.choice([1, 2, 4, 16, 64]))
    world = World(random, nodes, nodes * int(random.choice([1, 4, 16])), before + length + after,
                  every_s, int(before), int(before + length))
    for number in range(targets or int(random.integers(1, 4))):
        name = f"OST{number:04x}"
        world.targets[name] = Target(name, random.uniform(0.05e-3, 1.5e-3),
                                     random.uniform(0.8e9, 6e9), random.uniform(0.1e-3, 1e-3))
    world.targets["MDT0000"] = Target("MDT0000", random.uniform(20e-6, 60e-6), 1e9,
                                      random.uniform(0.05e-3, 0.2e-3))
    for name in world.targets:
        most = random.choice([0.02, 0.1, 0.25])
        for number in range(random.integers(0, 6)):
            background(world, name, str(5000 + number), random.uniform(0.005, most))
    return world


def background(world, name, job, utilisation):
    """A job beside, that uses a part of a target now and then."""
    random = world.random
    kind, size = some_kind(random, name)
    service = service_of(world.targets[name], kind, size)
    demand = utilisation / service * pattern(random, world.count)
    world.add(job, name, kind, size, demand, random.choice([8, 32, 128]))


def some_kind(random, name):
    if name.startswith("MDT"):
        return str(random.choice(["open", "getattr", "unlink"])), 0
    return str(random.choice(["read", "write"])), int(random.choice([1, 4])) * MIB


def own_work(world, utilisation, shape=None, kind=None):
    """Job 4711's own I/O on some of its targets; each gets `utilisation`."""
    random = world.random
    osts = [name for name in world.targets if name.startswith("OST")]
    shape = pattern(random, world.count) if shape is None else shape
    for name in osts:
        chosen, size = some_kind(random, name)
        service = service_of(world.targets[name], kind or chosen, size)
        world.add("4711", name, kind or chosen, size, utilisation / service * shape, world.streams)
    rate = random.uniform(5, 60)
    for operation in ("open", "close"):
        world.add("4711", "MDT0000", operation, 0, rate * shape, world.streams)


AGGRESSOR = "4733"


def window(random, first, last, least=0.2, most=0.7):
    """(begin, end) of a part of the intervals from `first` up to `last`."""
    long = max(4, int((last - first) * random.uniform(least, most)))
    begin = int(random.integers(first, max(first + 1, last - long)))
    return begin, min(last, begin + long)


def mask_of(world, begin, end):
    place = np.arange(world.count)
    return (place >= begin) & (place < end)


def plant_neighbour(world, names, job=AGGRESSOR, least=0.2, most=0.7):
    """Another job that loads targets with all they can do, for a part of the job's time."""
    random = world.random
    times = [window(random, world.first, world.last, least, most)]
    if random.random() < 0.3:
        times.append(window(random, world.first, world.last, 0.1, 0.3))
    there = np.zeros(world.count)
    for begin, end in times:
        there = np.maximum(there, mask_of(world, begin, end))
    wanted, in_flight = random.uniform(0.5, 3), random.choice([32, 64, 256, 1024])
    for name in names:
        kind, size = some_kind(random, name)
        service = service_of(world.targets[name], kind, size)
        world.add(job, name, kind, size, wanted / service * there, in_flight)


def outage(world, name, begin, end, nodes=""):
    """A target is away, the job stands still on all of them, and events tell of it."""
    random, mask = world.random, mask_of(world, begin, end)
    world.down[name] = mask
    world.loads = [one._replace(demand=np.where(mask, 0.0, one.demand)) if one.job == "4711"
                   else one for one in world.loads]
    at = BEGAN + begin * world.every_s + random.uniform(-3, 3)
    over = BEGAN + end * world.every_s + random.uniform(-3, 10)
    kinds = [["target_down", "recovery"], ["connection_lost"], ["evicted", "connection_lost"],
             ["recovery"]][random.integers(4)]
    world.events += [event_of(kind, at + random.uniform(0, 5), over, f"scratch-{name}")
                     for kind in kinds]


def small_world(random, utilisation, **how):
    world = some_world(random, **how)
    own_work(world, utilisation)
    return world


def _used(world):
    return [name for name in world.used() if name.startswith("OST")]


def busy_ost(random):
    world = small_world(random, random.uniform(0.05, 0.4))
    used = _used(world)
    names = used[:int(random.integers(1, len(used) + 1))]
    plant_neighbour(world, names)
    if random.random() < 0.4:                   # a third one, which loads what the job has not
        world.targets["OST00ff"] = world.targets[used[0]]._replace(name="OST00ff")
        plant_neighbour(world, ["OST00ff"], "4744")
    return world, "busy_target", names


def busy_mdt(random):
    world = some_world(random)
    shape = pattern(random, world.count)
    for kind in ("open", "close"):
        service = service_of(world.targets["MDT0000"], kind, 0)
        world.add("4711", "MDT0000", kind, 0, random.uniform(0.05, 0.25) / service * shape,
                  world.streams)
    plant_neighbour(world, ["MDT0000"])
    world.cached_bytes_each = 8 * MIB
    return world, "busy_target", ["MDT0000"]


def busy_nearly_always(random):
    world = small_world(random, random.uniform(0.05, 0.3))
    names = _used(world)[:1]
    plant_neighbour(world, names, least=0.75, most=0.95)
    return world, "busy_target", names


def fault(random):
    world = small_world(random, random.uniform(0.05, 0.4))
    name = _used(world)[0]
    outage(world, name, *window(random, world.first + 2, world.last - 2, 0.1, 0.6))
    return world, "fault", [name]


def fault_and_neighbour(random):
    """Of both, which cost more decides."""
    world = small_world(random, random.uniform(0.05, 0.3))
    used = _used(world)
    half = (world.first + world.last) // 2
    plant_neighbour(world, used[-1:])
    world.loads = [one._replace(demand=one.demand * mask_of(world, half, world.count))
                   if one.job == AGGRESSOR else one for one in world.loads]
    outage(world, used[0], *window(random, world.first + 2, half - 2, 0.2, 0.9))
    return world, "either", used[-1:]


def own_pattern(random):
    """Small writes: 512 bytes each, as many as take a part of the nodes' time."""
    world = some_world(random)
    own_work(world, random.uniform(0.02, 0.3), kind="read")
    world.small_writes_s = random.uniform(0.3, 0.9) * world.node_seconds()
    return world, "own_pattern", []


def own_pattern_and_neighbour(random):
    """The same; beside, another job loads what it uses, which costs less."""
    world, expected, names = own_pattern(random)
    plant_neighbour(world, _used(world)[:1], least=0.1, most=0.3)
    return world, expected, names


def many_neighbours(random):
    """No single job, but many that begin together, such as an array."""
    world = small_world(random, random.uniform(0.05, 0.3))
    name = _used(world)[0]
    begin, end = window(random, world.first, world.last)
    for number in range(25):
        kind, size = some_kind(random, name)
        service = service_of(world.targets[name], kind, size)
        world.add(f"{AGGRESSOR}_{number}", name, kind, size, random.uniform(0.03, 0.1) / service
                  * mask_of(world, begin, end) * pattern(random, world.count), 32)
    return world, "busy_target", [name]


def slow_disk(random):
    """A target that is slow by itself: a rebuild, a failing disk."""
    world = small_world(random, random.uniform(0.03, 0.2))
    name = _used(world)[0]
    begin, end = window(random, world.first + 5, world.last - 5, 0.2, 0.5)
    world.stretched[name] = np.where(mask_of(world, begin, end), random.uniform(5, 20), 1.0)
    return world, "slow_target", [name]


def not_in_lustre(random):
    world = small_world(random, random.uniform(0.002, 0.05))
    return world, "not_in_lustre", []


def not_in_lustre_though_busy(random):
    world = small_world(random, random.uniform(0.0005, 0.005))
    plant_neighbour(world, _used(world)[:1])
    return world, "not_in_lustre", []


def healthy(random):
    return small_world(random, random.uniform(0.05, 0.6)), "", []


def busy_but_flat(random):
    """Another job does much on the job's targets, which are far from their limits."""
    world = small_world(random, random.uniform(0.05, 0.3))
    for name in _used(world):
        begin, end = window(random, world.first, world.last)
        service = service_of(world.targets[name], "write", MIB)
        world.add(AGGRESSOR, name, "write", MIB, random.uniform(0.05, 0.2) / service
                  * mask_of(world, begin, end), 64)
    return world, "", []


def own_bursts(random):
    """The job itself brings its targets to their limits, now and then; a few others are there."""
    world = some_world(random)
    shape = np.where(pattern(random, world.count) > 0.5, 1.0, random.uniform(0.05, 0.2))
    own_work(world, random.uniform(0.7, 2.0), shape=shape)
    return world, "", []


def own_bursts_beside(random):
    """The same, while another job does a little, and more of it at about the same times."""
    world, expected, names = own_bursts(random)
    begin, end = window(random, world.first, world.last)
    for name in _used(world):
        service = service_of(world.targets[name], "write", MIB)
        world.add(AGGRESSOR, name, "write", MIB, random.uniform(0.005, 0.03) / service
                  * mask_of(world, begin, end), 8)
    return world, expected, names


def other_phases(random):
    """The job changes from small to large requests, or from reads to writes."""
    world = some_world(random)
    half = int(random.integers(world.first, world.last))
    for name in [name for name in world.targets if name.startswith("OST")]:
        used = random.uniform(0.05, 0.5)
        for kind, size, times in (
                ("write", int(random.choice([262144, MIB])), (0, half)),
                (str(random.choice(["read", "write"])), 4 * MIB, (half, world.count))):
            service = service_of(world.targets[name], kind, size)
            world.add("4711", name, kind, size, used / service * mask_of(world, *times),
                      world.streams)
    return world, "", []


def fault_elsewhere(random):
    """On a file system that is not used, after the end, before the begin, or on no used target."""
    world = small_world(random, random.uniform(0.05, 0.6))
    began, ended = world.period
    long = ended - began
    way = random.integers(4)
    if way == 0:
        at = began + random.uniform(0, 0.7) * long
        world.events.append(event_of("target_down", at, at + 0.3 * long, "home-OST0001", "home"))
    elif way == 1:
        world.events.append(event_of("evicted", ended + random.uniform(1, 300), ended + 900))
    elif way == 2:
        world.events.append(event_of("recovery", began - 900, began - random.uniform(1, 300)))
    else:                                       # it is away, and the job does not need it then
        at = began + random.uniform(0, 0.7) * long
        world.events.append(event_of("target_down", at, at + 0.2 * long, "scratch-OST00fe"))
    return world, "", []


PLANTED = (busy_ost, busy_mdt, busy_nearly_always, fault, fault_and_neighbour, not_in_lustre,
           not_in_lustre_though_busy, many_neighbours, slow_disk, own_pattern,
           own_pattern_and_neighbour)
NONE = (healthy, busy_but_flat, own_bursts, own_bursts_beside, other_phases, fault_elsewhere)


def made(kind, seed):
    """The History of a kind; other worlds are tried until what it has cost is plain."""
    for attempt in range(300):
        random = np.random.default_rng([zlib.crc32(kind.__name__.encode()), seed, attempt])
        world, expected, names = kind(random)
        expected, lost = accepted(world, expected)
        if lost is None:
            continue
        history = world.history()
        record = world.record()
        seconds = sum(row.seconds for fs in record.file_systems
                      for rows in (fs.operations, fs.calls) for row in rows.values())
        share = seconds / record.coverage.node_seconds
        if share < 0.08 if expected == "not_in_lustre" else share > 0.15:
            job = AGGRESSOR if world.names_known and expected == "busy_target" else ""
            return History(record, history, [], expected, "scratch", names,
                           None if kind is many_neighbours else job, {**lost, "share": share})
    raise AssertionError(f"no history of {kind.__name__} with seed {seed}")


def accepted(world, expected):
    """(kind of the cause, {what: what it has cost}); (..., None) where that is not plain."""
    streams, nodes = world.stream_seconds(), world.node_seconds()
    if expected != "not_in_lustre" and world.waited() / nodes < 0.1:
        return expected, None
    down = sum(int((mask & world.is_running()).sum()) for mask in world.down.values()) / (
        world.last - world.first)
    if expected == "not_in_lustre":
        return expected, {} if world.waited() / nodes < 0.08 else None
    by_all = world.lost_by()
    if expected == "slow_target":
        [(name, times)] = world.stretched.items()
        lost = world.waited_there(name, times)
        plain = by_all / nodes < 0.03 and lost / streams >= 0.15
        return expected, {"all": by_all / nodes, "slow": lost / streams} if plain else None
    if expected in ("", "fault"):
        plain = by_all / nodes < 0.03 and (expected == "" or down >= 0.08)
        return expected, {"all": by_all / nodes, "down": down} if plain else None
    if expected == "own_pattern":
        return expected, {"all": by_all} if by_all <= 0.3 * world.small_writes_s else None
    by_neighbour = world.lost_by(*{one.job for one in world.loads if one.job.startswith(AGGRESSOR)})
    if expected == "either":
        # However many streams wait at once, one of both has to have cost twice the other.
        if down >= 2 * min(1, by_neighbour / nodes):
            expected = "fault"
        elif by_neighbour / streams >= 2 * down:
            expected = "busy_target"
        plain = expected != "either"
    else:
        plain = by_neighbour / streams >= 0.08
    return expected, ({"neighbour": by_neighbour / streams, "down": down}
                      if plain and by_neighbour >= 0.75 * by_all else None)


def asked(one):
    """(record, JobHistory, like) of a History."""
    return one.record, parse_history(one.history), one.like
