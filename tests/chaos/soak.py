"""
python chaos/soak.py [--seconds S] [--seed N] [--store sqlite|postgresql]: a site for hours and days
of simulated time, whose parts fail every few minutes of it.

    storage_servers_world.py    five storage servers with 20 targets, and the agents' own code
    here                        200 nodes, some 2,000 jobs a day, whose reports are sent again until
                                they are acknowledged
    site's server               a real process (two with PostgreSQL), with a simulated clock
                                (soak_clock.py)

Killed, stopped and restarted are: the site's server, PostgreSQL, agents, storage servers; targets
fail over; clocks are set; the disk of the store is full (as root).  In the last third of the time
the site's server itself is left alone, so that its memory can be seen to level out.  A day of the
store's own time, after which it removes reports and records, is four hours of the site's, and a
checkpoint is due at a sixth of its usual size, as both have to repeat within a run.

What has to hold: each job has one record, with each node once, and the storage servers' amounts are
exact, or too low and marked; memory, file descriptors and the size of the store level out.
"""
from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import soak_clock
from processes import TinyDisk, free_port, until
from site_desk import SiteDesk, a_report
from site_world import BEGAN, EVERY_S
from storage_servers_world import ServersWorld

from iostats.base.errors import NotDelivered
from iostats.wire import protocol, site_servers

HOUR_S = 3600
_FAULT_EVERY_S = 600
_LONGEST_OUTAGE_S = 1200
_NODES = 200
_JOB_EVERY_S = 43                       # some 2,000 a day
_OF_SITE = ("kill", "kill", "silence", "full", "clock")
_OF_POSTGRESQL = ("stop", "restart")
_OF_STORAGE = ("clear", "remount", "failover", "crash", "unreadable", "blind_agent", "cut", "agent",
               "lost", "step", "away")
_HURRY = 6                              # of the store's own clock
_PARTS_SHOWN = 6
_MAY_GROW = 1.2                         # the last quarter of the time against the one before
_SETUP = ("import sys; sys.path.insert(0, {tests!r}); import soak_clock; "
          "soak_clock.install({clock!r}); soak_clock.hurry_store({hurry}, {began}); "
          "from iostats.store import database; database.LEASE_S = 2.0\n"
          "from iostats.harvest import checkpoints; checkpoints.CHECKPOINT_BYTES //= {hurry}\n")


class Job(NamedTuple):
    """A job: its nodes, when it runs, its targets; what each node reports: [bytes read]."""

    name: str
    nodes: list[int]
    began: float
    ends: float
    targets: list[Any]
    read_bytes: list[int]


class Sample(NamedTuple):
    """What the site's server takes at a moment; MB."""

    hour: float
    memory: float
    descriptors: int
    store: float
    parts: dict[str, float]     # of the store, by table


class Site:
    """The site's servers, the store and its disk."""

    def __init__(self, top, engine, clock, chance):
        (top / "desk").mkdir()
        self.desk, self.engine, self.chance = SiteDesk(top / "desk"), engine, chance
        self.clock, self.cluster, self.disk = clock, None, None
        self.ports, self.running, self.stopped = [self.desk.port], {}, []
        self.errors: list[str] = []
        os.chmod(top, 0o755)
        store = top / "store"
        if os.geteuid() == 0:
            self.disk = TinyDisk(store, "400m")
        else:
            store.mkdir()
        if engine == "postgresql":
            address = self._begin_postgresql(store)
            self.ports.append(free_port())
        else:
            self.file = store / "site.sqlite"
            address = self.file
        self.desk.configure(
            site_host=", ".join(f"127.0.0.1:{port}" for port in self.ports), site_store=address,
            site_keep_days=1, site_keep_reports_days=1, site_series_days=1,
            site_deadline=600 * _HURRY, events_keep_days=1, clients_keep_days=1,
            clients_detail_hours=1)
        self.servers = site_servers.make_site_servers(self.desk.config, 1.0)
        self.signs = None

    def _begin_postgresql(self, store):
        import psycopg
        from postgresql import Cluster
        self.cluster = Cluster(synced=True, settings=("fsync=off", "autovacuum_naptime=1s"))
        self.cluster.__enter__()
        owner = os.stat(self.cluster.top)
        os.chown(store, owner.st_uid, owner.st_gid)
        with psycopg.connect(self.cluster.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE soak LOCATION '{store}'")
            connection.execute("CREATE DATABASE soak TEMPLATE template0 TABLESPACE soak")
        return self.cluster.url("soak")

    def start(self):
        """Start each server that does not run, as systemd does; wait until one answers."""
        for port in self.ports:
            self._start(port)
        self.wait()
        self.signs = self.desk.signs()

    def _start(self, port):
        server = self.running.get(port)
        if server is not None:
            status = server.process.poll()
            if status is None:
                return
            text = server.err
            if status not in (-signal.SIGKILL, 1) or "Traceback" in text or "internal err" in text:
                self.errors.append(f"status {status}: {text[-2000:]}")
        tests = str(Path(__file__).parent)
        self.running[port] = self.desk.begin_site(
            setup=_SETUP.format(tests=tests, clock=str(self.clock.path), hurry=_HURRY,
                                began=BEGAN),
            env={"IOSTATS_SITE_PORT": str(port)})

    def restart(self):
        """Start those that have ended."""
        for port in self.ports:
            self._start(port)

    def wait(self):
        """Until a server listens, and the clock stands nearly still."""
        def listens():
            self.restart()
            with contextlib.suppress(NotDelivered):
                return self.servers.call(self.desk.signs(), "nid1", "hello", {"job": "site"}, 3.0)
        until(listens, within_s=60, what=lambda: f"a server: {self._ends()}")

    def _ends(self):
        return [server.err[-500:] for server in self.running.values()]

    def active(self):
        """The server that answers."""
        return self.running[self.servers.current[1]]

    # -- faults

    def kill(self):
        self.active().kill()
        self._away()

    def stop(self):
        """SIGSTOP; it continues after the other has taken over."""
        server = self.active()
        server.process.send_signal(signal.SIGSTOP)
        self.wait()
        server.process.send_signal(signal.SIGCONT)

    silence = stop

    def restart_postgresql(self):
        self.cluster.stop()
        time.sleep(self.chance.choice((0, 0.5)))
        self.cluster.start()
        self._away()

    def _away(self):
        """It is started again: at once, by the simulated clock, or after some minutes of it."""
        if self.chance.random() < 0.5:
            self.wait()

    # -- figures

    def measure(self, hour):
        """The Sample of this moment, None where the server or its store cannot be read now."""
        try:
            pid = self.active().process.pid
            status = Path(f"/proc/{pid}/status").read_text()
            memory = int(status.partition("VmRSS:")[2].split()[0]) / 1024
            parts = self._measure_sqlite() if self.cluster is None else self._measure_postgresql()
            return Sample(hour, memory, len(os.listdir(f"/proc/{pid}/fd")),
                          sum(parts.values()), parts)
        except (OSError, ValueError, IndexError):
            return None

    def _measure_sqlite(self):
        """{table, free pages, write-ahead log: MB}, of a copy: the server has locked the file."""
        parts = {"write-ahead log": os.path.getsize(f"{self.file}-wal")}
        with tempfile.TemporaryDirectory(dir=self.file.parent.parent) as directory:
            for path in self.file.parent.glob("site.sqlite*"):
                shutil.copy(path, directory)
            with contextlib.closing(sqlite3.connect(f"{directory}/site.sqlite")) as copy:
                try:
                    [(free,)] = copy.execute("PRAGMA freelist_count").fetchall()
                    [(page,)] = copy.execute("PRAGMA page_size").fetchall()
                    parts.update(copy.execute(
                        "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) "
                        "GROUP BY tbl_name"))
                except sqlite3.Error as error:          # copied while it was written
                    raise ValueError(error) from None
        parts["free pages"] = free * page
        return {name: size / 1e6 for name, size in parts.items()}

    def _measure_postgresql(self):
        """{table, with its indexes and unused space: MB}."""
        import psycopg
        try:
            with psycopg.connect(self.cluster.url("soak")) as connection:
                return {name: size / 1e6 for name, size in connection.execute(
                    "SELECT CASE WHEN relnamespace = 'public'::regnamespace THEN relname "
                    "ELSE 'catalogue' END, sum(pg_total_relation_size(oid))::float FROM pg_class "
                    "WHERE relkind = 'r' GROUP BY 1")}
        except psycopg.Error as error:
            raise ValueError(error) from None

    def close(self):
        for server in self.running.values():
            server.process.send_signal(signal.SIGCONT)
            server.kill()
            if "Traceback" in server.err or "internal err" in server.err:
                self.errors.append(server.err[-2000:])
        self.desk.close()
        if self.cluster is not None:
            self.cluster.__exit__()
        if self.disk is not None:
            self.disk.close()


class Soak(ServersWorld):
    """
    The site through time.

    Attributes:
        judged_jobs: {"exact", "marked", "not seen": how many}; wrong: texts of those that are
            neither.
        samples: [Sample].
    """

    MACHINES = ("mds1", "oss1", "oss2", "oss3", "oss4")
    TARGETS = (*(("scratch", f"OST{place:04x}", f"oss{1 + place % 4}", f"oss{1 + (place ^ 1) % 4}")
                 for place in range(16)),
               ("scratch", "MDT0000", "mds1", "oss1"), ("scratch", "MDT0001", "mds1", "oss2"),
               ("home", "OST0000", "oss3", "oss4"), ("home", "MDT0000", "mds1", "oss3"))

    def __init__(self, top, site, chance):
        self.site, self.chance, self.clock = site, chance, site.clock
        self.running: list[Job] = []
        self.ended: list[Job] = []
        self.unsent: list[tuple[float, dict[str, Any]]] = []
        self.judged_jobs, self.faults, self.wrong_jobs = Counter(), Counter(), []
        self.samples: list[Sample] = []
        self._number, self._next_job, self._full_until = 100_000, BEGAN, 0.0
        self._unreachable_at, self._answered_at = None, BEGAN
        self.is_ending = False
        super().__init__(top / "kernels", "2.16", knows=False, aheads=(0, 0, -37, 300, 0))

    def _open(self):
        self.site.start()

    def close(self):
        self.loop.close()

    # -- a step of 50 s

    def _witness(self):
        self.clock.set(self.now)
        self.site.restart()
        if self._full_until and self.now >= self._full_until:
            self.site.disk.calm()
            self._full_until = 0.0
        if self.now - self._answered_at > _LONGEST_OUTAGE_S and not self._full_until:
            self.site.wait()                            # a start takes seconds of this machine
            self._answered_at = self.now
        while self._next_job <= self.now and not self.is_ending:
            self._begin_job()
        for job in self.running:
            if self.chance.random() < 0.5:
                self.work(job.name, self.chance.choice(job.targets), self.chance.randint(1, 41),
                          self.chance.randint(1, 23))
        for job in [job for job in self.running if job.ends <= self.now]:
            self.running.remove(job)
            self.ended.append(job)
            self._end_job(job)
        self._send_reports()
        super()._witness()

    def _begin_job(self):
        nodes = self.chance.choice((1, 1, 1, 2, 2, 4, 8))
        first = self.chance.randrange(_NODES - nodes)
        self._next_job += self.chance.expovariate(1 / _JOB_EVERY_S)
        self._number += 1
        self.running.append(Job(
            str(self._number), list(range(first, first + nodes)),
            self.now, self.now + self.chance.randint(600, 3600),
            self.chance.sample(self.targets, 3),
            [self.chance.randrange(1, 10**9) for _ in range(nodes)]))

    def _end_job(self, job):
        names = [f"nid{node:05}" for node in job.nodes]
        for name, amount in zip(names, job.read_bytes):
            report = a_report(job.name, name, f"{self.chance.randrange(10**9)}", 23, amount,
                              about={"nodes": f"nid[{job.nodes[0]:05}-{job.nodes[-1]:05}]"},
                              ended=float(self.now), elapsed_s=float(self.now - job.began))
            for late in (0, 600) if self.chance.random() < 0.05 else (0,):    # some are sent twice
                self.unsent.append((self.now + late, report))

    def _send_reports(self):
        due, self.unsent = ([one for one in self.unsent if one[0] <= self.now],
                            [one for one in self.unsent if one[0] > self.now])
        for number, (_, report) in enumerate(due):
            try:
                self._call(report["node"], "report", report)
            except NotDelivered:
                self.unsent += [(self.now + 50, report) for _, report in due[number:]]
                return

    def _call(self, node, method, params):
        """NotDelivered also where no server has answered in this step before."""
        if self._unreachable_at == self.now:
            raise NotDelivered("the site's server")
        try:
            answer = self.site.servers.call(self.site.signs, node, method, params, 10.0)
        except NotDelivered:
            self._unreachable_at = self.now
            raise
        self._answered_at = self.now
        return answer

    # -- sweeps

    def sweep(self):
        for machine in self.machines:
            if machine.encoder is not None:
                self._read(machine)
            if machine.is_up and not machine.is_away:
                self._deliver(machine)
        if self.now % 600 == 0:
            self._judge_ended()
        if self.now % HOUR_S == 0:
            sample = self.site.measure((self.now - BEGAN) / HOUR_S)
            if sample:
                self.samples.append(sample)

    def _deliver(self, machine):
        while machine.waiting:
            run, message = machine.waiting[0]
            try:
                answer = self._call(machine.name, "packed_sweep", {
                    "protocol": 2, "clock_ahead_s": float(machine.ahead - self.site_ahead),
                    "sweep": base64.b64encode(message).decode()})
            except NotDelivered as error:
                if getattr(error, "code", None) in (None, protocol.INTERNAL_ERROR):
                    return
                answer = {"taken": False}               # refused for good, as an agent has it
            del machine.waiting[0]
            if not answer["taken"] and machine.encoder is not None:
                machine.encoder.note_lost_message(run)

    # -- faults

    def fault(self):
        """Something fails."""
        for machine in self.machines:
            if machine.is_away:
                machine.is_away = False
        kinds = [*_OF_STORAGE]
        if not self.site_is_left_alone:
            kinds += [*_OF_SITE, *(_OF_POSTGRESQL if self.site.cluster else ())] * 2
        kind = self.chance.choice(kinds)
        if (kind == "full" and self.site.disk is None) or (
                kind == "silence" and self.site.cluster is not None):
            kind = "kill"
        self.faults[kind] += 1
        self.log.append(f"{self.now - BEGAN}: {kind}")
        if kind in _OF_STORAGE:
            self.happen(kind, self.chance)
        elif kind == "full":
            self.site.disk.fill(but=self.chance.choice((0, 0, 8192, 65536)))
            self._full_until = self.now + self.chance.choice((200, 600))
        elif kind == "clock":
            self.clock.ahead = self.site_ahead = self.chance.choice((0, 23, 37, 150))
        elif kind == "silence":                     # hangs, and continues
            server = self.site.active()
            server.process.send_signal(signal.SIGSTOP)
            self.wait(200)
            server.process.send_signal(signal.SIGCONT)
        else:
            {"kill": self.site.kill, "stop": self.site.stop,
             "restart": self.site.restart_postgresql}[kind]()

    site_is_left_alone = False

    # -- the law

    def _judge_ended(self):
        for job in [*self.ended]:
            if job.ends + 1200 > self.now:
                continue
            try:
                records = self._call("nid1", "record", {"job": job.name})
            except NotDelivered:
                return
            [record] = records or [None]
            is_late = job.ends + 6 * HOUR_S < self.now
            harvest = record and record["harvest"]
            if record is None or record["coverage"]["reported"] < len(job.nodes) or (
                    not harvest["final"] if harvest else self.done[job.name] and not is_late):
                if job.ends + 20 * HOUR_S < self.now:
                    self.wrong_jobs.append(f"{job.name}: no final record")
                    self.ended.remove(job)
                continue
            self.ended.remove(job)
            self._judge(job, record)

    def _judge(self, job, record):
        [fs] = record["file_systems"]
        found = (record["coverage"]["reported"], fs["application"]["read_bytes"], fs["lower_bound"])
        expected = (len(job.nodes), sum(job.read_bytes), False)
        if found != expected:
            self.wrong_jobs.append(f"{job.name}: nodes {found}, expected {expected}")
        harvest, truth = record["harvest"], self.truth(job.name)
        if not harvest:
            self.judged_jobs["not seen"] += bool(truth)
            return
        shown = {fs["name"]: fs for fs in harvest["file_systems"]}
        is_marked = False
        for name in {*truth, *shown}:
            true = truth.get(name, [0, 0, 0])
            if name in shown:
                fs = shown[name]
                numbers = [fs["read_bytes"], fs["write_bytes"],
                           sum(row["count"] for row in fs["operations"].values())]
                marked = fs["lower_bound"]
            else:
                numbers = [0, 0, 0]
                marked = any(note.startswith(f"{name}: ") for note in harvest["notes"])
            is_marked = is_marked or marked
            if any(number > most for number, most in zip(numbers, true)) or (
                    numbers != true and not marked):
                self.wrong_jobs.append(f"{job.name} on {name}: {numbers}, true {true}, marked "
                                       f"{marked}: {json.dumps(harvest)[:500]}")
        self.judged_jobs["marked" if is_marked else "exact"] += 1
        del self.done[job.name]

    def run(self, seconds):
        """Run for this many seconds, and until all jobs are judged."""
        began = time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            self.site_is_left_alone = passed > seconds * 2 / 3
            self.wait(_FAULT_EVERY_S)
            self.fault()
        self.is_ending = True
        if self._full_until:
            self.site.disk.calm()
        for machine in self.machines:
            machine.is_away = False
            if machine.encoder is None:
                self.start_agent(machine)
        for target in self.targets:
            target.unreadable, target.cut = 0, False
            if target.on is None:
                self.mount(target, target.hosts[0])
        for _ in range(8 * HOUR_S // EVERY_S):
            if not (self.running or self.ended or self.unsent):
                break
            self.wait(EVERY_S)
        self.wrong_jobs += [f"{job.name}: no final record at the end" for job in self.ended]


def find_growth(samples):
    """[what did not level out]: the last quarter of the time against the one before."""
    quarter = len(samples) // 4
    if quarter < 2:
        return []
    last, before = samples[-quarter:], samples[-2 * quarter:-quarter]
    grown = []
    for name in ("memory", "descriptors", "store"):
        least, most = (max(getattr(sample, name) for sample in part) for part in (before, last))
        if most > _MAY_GROW * least:
            grown.append(f"{name}: {least:.1f}, then {most:.1f}")
            if name == "store":
                grown += describe_parts(before[-1], last[-1])
    return grown


def describe_parts(before, after):
    """[how much each part of the store grew between two samples], what grew most first."""
    sizes = sorted(((after.parts.get(name, 0) - before.parts.get(name, 0), name)
                    for name in {*before.parts, *after.parts}), reverse=True)
    return [f"  {name}: {before.parts.get(name, 0):.2f} MB, then {after.parts.get(name, 0):.2f}"
            for growth, name in sizes if growth > 0.05]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.split("\n")[1])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    chance = random.Random(f"{seed} soak")
    memory = "/dev/shm"                             # thousands of small files
    top = Path(tempfile.mkdtemp(prefix="iostats-soak-", dir=memory if os.path.isdir(memory) else
                                None))
    began = time.perf_counter()
    clock = soak_clock.SoakClock(top / "clock", BEGAN)
    time.time = soak_clock.Reader(clock.path).steady
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    site_servers.SILENT_WITHIN_S = 2.0              # a server that is stopped costs this each step
    print(f"soak: {options.store}, seed {seed}", flush=True)
    site, is_well = Site(top, options.store, clock, chance), True
    try:
        soak = Soak(top, site, chance)
        soak.run(options.seconds)
        is_well = not (soak.wrong_jobs or site.errors)
    finally:
        site.close()
        clock.close()
        if is_well:
            shutil.rmtree(top, ignore_errors=True)
        else:
            (top / "happened").write_text("".join(f"{line}\n" for line in soak.log))
            print(f"soak: what happened, and the servers' logs: {top}/happened, {top}/desk",
                  file=sys.stderr)
    print(" hour  memory MB  file descriptors  store MB  most of it")
    for sample in soak.samples:
        largest = sorted(sample.parts.items(), key=lambda part: -part[1])[:_PARTS_SHOWN]
        print(f"{sample.hour:5.0f} {sample.memory:10.1f} {sample.descriptors:17} "
              f"{sample.store:9.1f}  " + ", ".join(f"{name} {size:.1f}" for name, size in largest))
    bad = [*soak.wrong_jobs, *site.errors, *find_growth(soak.samples)]
    print(json.dumps({
        "store": options.store, "seed": seed, "seconds": round(time.perf_counter() - began),
        "simulated hours": round((soak.now - BEGAN) / HOUR_S, 1), "jobs": soak._number - 100_000,
        **soak.judged_jobs, "wrong": len(soak.wrong_jobs), "faults": dict(soak.faults)}))
    for line in bad:
        print(f"soak: {line}", file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
