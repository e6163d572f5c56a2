"""
A target, its agent and the server's CorrectedTarget, played through time by a list of events.

    World("2.12").play([("rpc", 0, 3), ("wait", 601), ("clear",), ...])

Sweeps are in step, every 200 s, as long as the agent is up.  A witness (kernel.py) is at work, so
that a `clear` can be seen at all, as on a target of a real site it is by some job or other.
"""

from kernel import NS, WITNESS, Agent, Kernel

from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget

BEGAN_S = 1_795_225_200
EVERY_S = 200
JOBS = ("4711", "4712", "cp.0", "")


class World:
    """
    Attributes:
        kernel, agent, target: the parts; `target` may be another object after "server".
        now: s.
        counters: those of the kernel that its jobs use.
    """

    def __init__(self, release, kind="OST", every_s=EVERY_S, began_s=BEGAN_S, rows=3):
        self.now, self.every_s = began_s, every_s
        self.kernel = Kernel(release, kind, began_s * NS)
        self.agent = Agent(self.kernel, rows)
        self.names = JobIds()
        self.target = CorrectedTarget(self.names, "scratch", "OST0000")
        self.up, self._races, self._under_way = True, [], []
        self.counters = [name for name in self.kernel.units
                          if name.startswith(("read", "write", "setattr", "open", "sync"))]
        self._last = []
        self._witness()

    # ---- events

    def play(self, events):
        """All of them, then three quiet sweeps; self."""
        for name, *arguments in events:
            getattr(self, f"on_{name}")(*arguments)
            self.check_not_too_high()
        return self.settle()

    def settle(self):
        """Three sweeps in which nothing but the witness happens."""
        self.up, self._races = True, []
        self._finish_under_way()
        self.on_wait(4 * self.every_s - self.now % self.every_s)
        return self

    def on_wait(self, seconds):
        """Time goes by, with sweeps in step and the witness at work."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 20 - self.now % 20)
            self._witness()
            if self.now % self.every_s == 0 and self.up:
                self._finish_under_way()
                self.sweep()

    def on_rpc(self, job, amount, times=1):
        """A job's RPCs; `amount` also chooses the counter."""
        counter = self.counters[(amount + job) % len(self.counters)]
        self.kernel.rpc(self.now * NS + amount, JOBS[job], counter, 4096 * amount, times)

    def on_alike(self, job, times):
        """So many RPCs, the same ones each time: what jobHarvest calls undetectable."""
        self.kernel.rpc(self.now * NS, JOBS[job], self.counters[0], 4096, times)

    def on_clear(self):
        """Somebody clears the file."""
        self.kernel.clear()

    def on_remove_witness(self):
        """Somebody clears one id."""
        self.kernel.clear(WITNESS)

    def on_failover(self):
        """The target goes to another server."""
        self.kernel.restart(self.now * NS)
        self.agent.restart()

    def on_remount(self):
        """The target is stopped and started on its server."""
        self.kernel.restart(self.now * NS, same_boot=True)

    def on_rename(self):
        """The server gets another name, and its agent is started again."""
        self.kernel.node += "a"
        self.agent.restart()

    def on_set_back(self, seconds):
        """The server's clock was ahead by so much, and is set right; jobs have the true times."""
        self.now -= seconds
        self._last = []                     # a copy of those would be of a chain that is past
        for times in (self.kernel.first, self.kernel.last):
            times.update((job, at - seconds * NS) for job, at in times.items())
        self.agent.restart()

    def on_interval(self, seconds):
        """Somebody sets job_cleanup_interval."""
        self.kernel.cleanup_s = seconds

    def on_down(self):
        """The agent is stopped."""
        self.up = False

    def on_up(self):
        """The agent is started again; its first sweep is full."""
        if not self.up:
            self.up = True
            self.agent.restart()

    def on_lost(self):
        """A whole sweep is lost, and the next one is full."""
        self.agent.sweep(self.now * NS + NS // 3)
        self.agent.restart()

    def on_half(self):
        """Of a sweep the first message comes, and the next sweep is full."""
        blocks, full = self.agent.sweep(self.now * NS + NS // 3)
        if len(blocks) > 1:
            self._take(blocks[0], full)
        self.agent.restart()

    def on_server(self):
        """The site's server is started again."""
        saved = self.target.state()
        self.names = JobIds()
        self.target = CorrectedTarget.from_state(self.names, saved)

    def on_again(self):
        """The messages of the last sweep come once more."""
        for block, full, node, boot_id in self._last:
            self.target.add_block(block, node, boot_id, full)

    def on_race(self, kind, job=0):
        """Something happens while the next sweep reads the file."""
        self._races.append((kind, job))

    # ---- what they are made of

    def on_sweep(self):
        """One out of step, at once."""
        self.sweep()

    def sweep(self):
        """The agent reads the file, and the server takes what it sends."""
        races, self._races = self._races, []
        blocks, full = self.agent.sweep(self.now * NS, lambda *where: self._race(races, *where))
        half = any(kind == "server" for kind, _ in races)
        self._last = []
        for at, block in enumerate(blocks):
            if half and at == len(blocks) // 2:
                self.on_server()
                self.on_again()
            self._take(block, full)
            self._last.append((block, full, self.kernel.node, self.kernel.boot_id))

    def _take(self, block, full):
        self.target.add_block(block, self.kernel.node, self.kernel.boot_id, full)

    def _race(self, races, kernel, entry):
        """Between two pieces of the file (`entry` None), or while one is printed."""
        now = self.now * NS
        for at, (kind, job) in enumerate(races):
            if kind in ("new", "clear") and entry is None:
                if kind == "clear":
                    kernel.clear()
                else:
                    kernel.rpc(now, f"new.{self.now}", self.counters[0], 23)
                    kernel.rpc(now, JOBS[job], self.counters[0], 37)
            elif kind == "torn" and entry is not None and entry.job == JOBS[job]:
                kernel.rpc(now, JOBS[job], self.counters[-1], 41)
            elif kind == "arrived" and entry is None:
                self._under_way.append(kernel.arrive(now, JOBS[job]))
            else:
                continue
            del races[at]
            return

    def _finish_under_way(self):
        for entry in self._under_way:
            self.kernel.count(entry, self.counters[1], 43)
        self._under_way = []

    def _witness(self):
        self.kernel.witness(self.now * NS, self.counters[0])

    # ---- the law

    def totals(self, job):
        """{counter: (samples, sum)} of what the server has, without zeros."""
        counters = self.target.totals([job]).counters
        return {name: (int(column.samples[0]),
                       0 if column.sums is None else int(column.sums[0]))
                for name, column in counters.items() if column.samples[0]}

    def truth(self, job):
        """The same, as it is."""
        true = {}
        for name, (samples, total) in self.kernel.truth[job].items():
            unit = self.kernel.units[name]
            if name in ("read", "write") and unit == "bytes":
                name = f"{name}_bytes"
            has_sum = unit != "reqs" or name in ("read_bytes", "write_bytes")
            true[name] = (samples, total if has_sum else 0)
        return {name: pair for name, pair in true.items() if pair[0]}

    def marks(self, job):
        """Why its total may be too low."""
        return self.target.marks(job, self.kernel.first[job] / NS, self.kernel.last[job] / NS)

    def jobs(self):
        """All that did anything."""
        return list(self.kernel.first)

    def check_not_too_high(self):
        """No total is ever above the truth."""
        for job in self.jobs():
            true = self.truth(job)
            for name, (samples, total) in self.totals(job).items():
                assert samples <= true[name][0], (job, name)
                assert total <= true[name][1], (job, name)

    def wrong(self):
        """{job: marks} of jobs with wrong totals."""
        return {job: self.marks(job) for job in self.jobs() if self.totals(job) != self.truth(job)}

    def marked(self):
        """{job: marks} of those that are marked."""
        return {job: marks for job in self.jobs() for marks in [self.marks(job)] if marks}
