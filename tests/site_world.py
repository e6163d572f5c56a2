"""
A site's storage servers, their agents, and the site's server, played through time by chance.

    SiteWorld(path, "2.16", knows=False).play(random.Random(23), FAULTS).settle().judged()

Two storage servers with a kernel.Kernel for each target; agents that read the kernel's text as
`harvest` does; a Harvest with its store.  Each server has a clock of its own.  `knows`:
a batch system tells when jobs began and ended.  A witness (kernel.py) is at work on each target.

Times are s by the site's clock, which is right; those of the kernels are by their server's.
"""

import asyncio
import random

from kernel import NS, WITNESS, Kernel
from sweep_blocks import Block, Column, received

from iostats.base import config as site
from iostats.base.job_facts import Facts
from iostats.harvest import harvested_job
from iostats.harvest import intake as harvest_intake
from iostats.lustre import job_stats
from iostats.storage.fingerprints import Fingerprints
from iostats.store.record_store import Store

BEGAN = 1_795_225_200
EVERY_S, CLEANUP_S = 200, 600
JOBS = ("4711", "4712", "4713", "cp.0")
QUOTED = '"4711"'                           # up to 2.15.1 another id than 4711
NUMBERS = {"4711", "4712", "4713"}

WAITS = (1, 7, 20, 41, 100, 199, 200, 301, 400, 601, 799, 901, 1300, 3700)
QUIET = ("site", "agent", "lost")           # nothing is lost by these
FAULTS = ("clear", "clear_all", "remove", "reboot", "remount", "down", "step", "step", *QUIET)
STEPS = (-86_400, -7200, -1800, -300, -37, 37, 300, 1800, 7200, 86_400)


class Server:
    """One storage server: its targets' Kernels, its clock, its agent."""

    def __init__(self, name, kernels, ahead):
        self.name, self.kernels, self.ahead, self.boots = name, kernels, ahead, 1
        self.up, self.heard, self.last_read = True, True, 0.0
        self.runs = random.Random(name)
        self.begin()

    def begin(self):
        """The agent begins a chain of messages."""
        self.run, self.seq = self.runs.randbytes(8).hex(), 0
        self.prints = {kernel.target: Fingerprints() for kernel in self.kernels}

    @property
    def boot_id(self):
        return f"{self.name} boot {self.boots}"


class SweptSite:
    """
    The site's server, its store, and a clock; `sweep` and `_witness` are those of a subclass.

    Attributes:
        now: s.
        harvest: the site's server's.
    """

    def __init__(self, path):
        self.path, self.now, self.loop = str(path), BEGAN, asyncio.new_event_loop()
        self.config = site.load(environ={})
        self.config.set_value("batch.system", "none", "a test")

    def _open(self):
        self.store = Store(self.path)
        self.store.rows("PRAGMA synchronous = OFF")
        self.harvest = harvest_intake.Harvest(self.store, self.config, lambda: float(self.now))

    def close(self):
        self.store.close()
        self.loop.close()

    def wait(self, seconds):
        """Time goes by, with sweeps in step and the witness at work."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 50 - self.now % 50)
            self._witness()  # type: ignore[attr-defined]  # of what inherits
            if self.now % EVERY_S == 0:
                self.sweep()


class SiteWorld(SweptSite):
    """
    Attributes:
        first, last: {job: s} of its requests.
        settled: {job: the truth when it was settled the last time}; what came later, and no sweep
            has ever seen, is a job's of which there is no record.
    """

    def __init__(self, path, release, knows, aheads=(0, 0)):
        super().__init__(path)
        self.release, self.knows = release, knows
        self.settled, self.first, self.last = {}, {}, {}
        clocks = [(BEGAN + ahead) * NS for ahead in aheads]
        self.servers = [
            Server("oss1", [Kernel(release, "OST", clocks[0], CLEANUP_S, "scratch", name)
                            for name in ("OST0000", "OST0001")], aheads[0]),
            Server("mds1", [Kernel(release, "MDT", clocks[1], CLEANUP_S, "scratch", "MDT0000")],
                   aheads[1])]
        self._open()
        self._witness()
        self.sweep()
        self.now += 1

    # ---- what happens

    def play(self, chance, events=(), count=40):
        """So many events: work and waiting, and these in between; self."""
        for _ in range(count):
            kind = chance.random()
            if kind < 0.35:
                self.wait(chance.choice(WAITS))
            elif kind < 0.85 or not events:
                self.work(chance.choice((*JOBS, QUOTED)), chance.choice(self.servers),
                          chance.random(), chance.randint(1, 41), chance.randint(1, 23))
            else:
                getattr(self, f"on_{chance.choice(events)}")(chance)
        return self

    def work(self, job, server, where, amount, times=1):
        """Requests of a job to one of a server's targets."""
        kernel = server.kernels[int(where * len(server.kernels))]
        counter = self._counters(kernel)[amount % 2]
        kernel.rpc(self._clock(server), job, counter, 4096 * amount, times)
        self.first.setdefault(job, self.now)
        self.last[job] = self.now

    def _counters(self, kernel):
        names = [name for name in kernel.units if name.startswith(("read", "write"))]
        return ([names[0], names[1]] if kernel.kind == "OST" else ["open", "setattr"])

    def _clock(self, server):
        return (self.now + server.ahead) * NS

    def _witness(self):
        for server in self.servers:
            for kernel in server.kernels:
                kernel.witness(self._clock(server), self._counters(kernel)[0])

    def on_clear(self, chance):
        server = chance.choice(self.servers)
        chance.choice(server.kernels).clear()

    def on_clear_all(self, chance):
        for server in self.servers:
            for kernel in server.kernels:
                kernel.clear()

    def on_remove(self, chance):
        """One id is deleted by hand, which sweeps have seen: otherwise it could not be known."""
        server = chance.choice(self.servers)
        chance.choice(server.kernels).clear(WITNESS)

    def on_reboot(self, chance):
        server = chance.choice(self.servers)
        for kernel in server.kernels:
            kernel.restart(self._clock(server), same_boot=True)
        server.boots += 1
        server.begin()

    def on_remount(self, chance):
        server = chance.choice(self.servers)
        chance.choice(server.kernels).restart(self._clock(server), same_boot=True)

    def on_down(self, chance):
        """The agent is dead for longer than the interval, and jobs go on."""
        server = chance.choice(self.servers)
        server.up = False
        for _ in range(chance.randint(1, 5)):
            self.wait(chance.choice((41, 200, 601, 1300)))
            self.work(chance.choice(JOBS), server, chance.random(), chance.randint(1, 41))
        server.up = True
        server.begin()

    def on_step(self, chance):
        """
        A storage server's clock is set; its agent has heard of the site's time, or not.

        2.15.0 counts from the boot.
        """
        if self.release == "2.15.0":
            return
        server, by = chance.choice(self.servers), chance.choice(STEPS)
        server.ahead += by
        server.heard = chance.random() < 0.8
        if by < -3600 or not server.heard:
            server.begin()

    def on_agent(self, chance):
        """The agent is started again at once."""
        chance.choice(self.servers).begin()

    def on_lost(self, chance):
        """A message is lost; the next sweep is full."""
        server = chance.choice(self.servers)
        self._messages(server)
        server.begin()

    def on_site(self, chance):
        """The site's server is killed, and begins again; or it has written some states before."""
        if chance.random() < 0.3:
            self.harvest.checkpoints.write(list(self.harvest.targets)[:chance.randint(1, 3)])
        self.store.close()
        self._open()

    # ---- sweeps

    def sweep(self):
        """All agents read, and the site's server takes it and looks at what there is to do."""
        for server in self.servers:
            if not server.up:
                continue
            for message in self._messages(server):
                answer = self.harvest.receive(message, server.name)
                self.store.commit()
                if not answer["taken"]:
                    server.begin()
                    for again in self._messages(server):
                        assert self.harvest.receive(again, server.name)["taken"]
                    self.store.commit()
        if self.knows:
            for job in self.harvest.lives.states():
                if job != WITNESS:
                    self.harvest.lives.learn(job, Facts(job=job, state="running",
                                                  started=float(self.first[job])))
        self.scan()

    def scan(self):
        """One look of the site's server at what there is to do."""
        self.harvest.end_sweep()
        self.loop.run_until_complete(self.harvest.lives.settle(
            self.harvest.swept_until(), lambda jobs: self.settled.update(
                (job, self.truth(job)) for job in jobs), self.harvest.drop_jobs))

    def _messages(self, server):
        """[ReceivedSweep] of one sweep: a message."""
        full, blocks = server.seq == 0, []
        clock = self._clock(server) / NS
        # The agent's own clock goes slower where the server's was set back, but not a full sweep's.
        read_at = clock if full else max(clock, server.last_read + 1e-3)
        server.last_read = read_at
        for kernel in server.kernels:
            blocks += self._blocks(server, kernel, read_at)
        server.seq += 1
        ahead = read_at - self.now
        return [received({
            "node": server.name, "run": server.run, "seq": server.seq, "full": full,
            "slot": self.now, "every": EVERY_S, "last": True, "boot_id": server.boot_id,
            "clock_ahead_s": float(server.ahead),
            "read_ahead_s": float(ahead) if server.heard else None}, blocks)]

    def _blocks(self, server, kernel, read_at):
        prints, parts = server.prints[kernel.target], [{}]
        booted = (self._clock(server) - kernel.booted) if kernel.release == "2.15.0" else 0
        entries = 0
        for piece in job_stats.split_entries([kernel.file(self._clock(server))]):
            entries += 1
            if prints.is_changed(piece):
                entry = job_stats.parse(piece, self._clock(server) - booted)
                if entry.job_id in parts[-1]:
                    parts.append({})
                parts[-1][entry.job_id] = entry
        gone = prints.finish()
        return [self._block(kernel, read_at, list(part.values()), number == len(parts) - 1,
                            entries, gone) for number, part in enumerate(parts)]

    def _block(self, kernel, read_at, part, ended, entries, gone):
        columns = {}
        for row, entry in enumerate(part):
            for name, counter in entry.counters.items():
                columns.setdefault(name, []).append((row, counter))
        return Block(
            file_system="scratch", target=kernel.target, read_at=read_at, ended=ended,
            cleanup_s=CLEANUP_S, entries=entries if ended else 0, gone=gone if ended else [],
            ids=[one.job_id for one in part], started=[one.started_ns for one in part],
            seen=[one.seen_ns for one in part], counters={name: Column(
                rows[0][1].unit, [row for row, _ in rows], *(
                    None if None in numbers else numbers for numbers in (
                        [getattr(counter, field) for _, counter in rows]
                        for field in ("samples", "min", "max", "sum", "sumsq"))))
                for name, rows in columns.items()})

    # ---- the law

    def settle(self):
        """All agents are up, jobs are over, and it is quiet until all of them are settled; self."""
        for server in self.servers:
            server.up = True
        for _ in range(40):
            self.wait(EVERY_S)
            for job in set(self.harvest.lives.states() if self.knows else ()) - {WITNESS}:
                self.harvest.lives.learn(job, Facts(
                    job=job, state="ended", started=float(self.first[job]),
                    ended=float(self.last[job])))
            if not set(self.harvest.lives.states()) - {WITNESS}:
                return self
        raise AssertionError(f"not settled: {set(self.harvest.lives.states())}")

    def judged(self):
        """{job: (what is recorded, the truth, is it marked, notes)} of all that has a record."""
        found = {}
        for job in sorted(NUMBERS & set(self.first)):
            part = self.harvest.lives.find_harvested(job)
            if part is None:                # no sweep has seen it
                continue
            record = harvested_job.as_record(part, ",".join)
            assert record["final"]
            [fs] = record["file_systems"] or [None]
            mine = {"lower_bound": record["lower_bound"], "notes": record["notes"]} if fs is None \
                else fs
            numbers = (0, 0, 0) if fs is None else (
                fs["read_bytes"], fs["write_bytes"],
                sum(row["count"] for name, row in fs["operations"].items()))
            found[job] = numbers, self.settled[job], record["lower_bound"], mine["notes"]
        return found

    def truth(self, job):
        """(bytes read, bytes written, operations) of a job, as it is."""
        sums = [0, 0, 0]
        for server in self.servers:
            for kernel in server.kernels:
                for name, (samples, total) in kernel.truth[job].items():
                    if kernel.kind == "OST":
                        sums[name.startswith("write")] += total
                    else:
                        sums[2] += samples
        return tuple(sums)
