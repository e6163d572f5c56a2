"""
Storage servers, their agents and the site's server, played through time by chance, with the
agents' own code: what SweepEncoder reads below a directory is decoded and taken by a Harvest.

    with ServersWorld(path, "2.16", knows=True) as world:
        world.play(chance, 40).settle(chance).wrong()

    file systems   scratch (OST0000, OST0001, MDT0000) and home (OST0000), a kernel.Kernel each
    machines       oss1 and oss2 (either of them may have any OST), mds1; each has a clock of its
                   own that may be wrong and be set, boots, and an agent that may be killed
    jobs           run, end, are requeued, and write back after their end; `knows`: a batch system
                   reports that
    witness        is at work on each target that is mounted (kernel.py)

Times are seconds by the site's clock, which is right.
"""

import errno
import os
import pathlib
import shutil
from collections import defaultdict
from unittest import mock

from kernel import NS, WITNESS, Kernel
from site_world import BEGAN, CLEANUP_S, EVERY_S, SweptSite

from iostats.base.job_facts import ENDED, RUNNING, Facts
from iostats.harvest import harvested_job
from iostats.storage import encoding
from iostats.storage.encoding import SweepEncoder
from iostats.storage.schedule import Pace, SweepClock
from iostats.storage.targets import find_local_targets
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_sweep

JOBS = ("4711", "4712", "4713")
COLUMNS = ("read_bytes", "write_bytes", "operations")
WAITS = (1, 7, 20, 41, 100, 199, 200, 301, 400, 601, 799, 1300, 1900)
STEPS = (-86_400, -7200, -1800, -400, -37, 37, 400, 1800, 7200, 86_400)
WRITES_BACK_S = 30                      # by nodes after a job's end

HARMLESS = ("site", "agent", "lost", "away")
FAULTS = ("clear", "clear_all", "remove", "remount", "remount", "failover", "failover", "crash",
          "crash", "unreadable", "unreadable", "blind_agent", "cut", "down", "step", "no_agent",
          "interval", *HARMLESS)


class Target:
    """
    One target: its Kernel, the Machine that has it mounted, or None; `unreadable`: for so many
    sweeps; `cut`: the next sweep reads a part of its file.
    """

    def __init__(self, kernel, hosts):
        self.kernel, self.hosts, self.on = kernel, hosts, None
        self.unreadable, self.cut, self.shows_instance = 0, False, True

    def __str__(self):
        return f"{self.kernel.file_system}-{self.kernel.target}"

    def other_host(self, machine):
        """A machine that may have it, other than this one."""
        return next(one for one in self.hosts if one is not machine)


class Machine:
    """A storage server: `ahead`: its clock less the true time; `waiting`: messages of its agent."""

    def __init__(self, name, root, ahead):
        self.name, self.root, self.ahead, self.boots = name, root, ahead, 1
        self.booted, self.is_up, self.has_agent = BEGAN - 41_003, True, True
        self.encoder = self.clock = None
        self.waiting, self.is_away, self.has_heard = [], False, True


class ServersWorld(SweptSite):
    """
    Attributes:
        runs: {job: [[began, ended or None]]}.
        done: {job: [(when, file system, place in COLUMNS, amount)]} of all that was ever counted.
        settled: {job: up to when sweeps had come when it was settled last}.
        log: what happened, for a person.
    """

    site_ahead = 0                      # of the clock of the site's server, s
    MACHINES = ("oss1", "oss2", "mds1")
    # file system, target, the machines that may have it
    TARGETS = (("scratch", "OST0000", "oss1", "oss2"), ("scratch", "OST0001", "oss2", "oss1"),
               ("scratch", "MDT0000", "mds1", "oss1"), ("home", "OST0000", "oss2", "oss1"))

    def __init__(self, path, release, knows, aheads=(0, 0, 0), has_witness=True):
        self.top = pathlib.Path(path)
        self.top.mkdir(parents=True, exist_ok=True)
        super().__init__(self.top / "site.sqlite")
        self.release, self.knows, self.has_witness = release, knows, has_witness
        self.done, self.runs, self.settled = defaultdict(list), defaultdict(list), {}
        self.log = []
        self.machines = [Machine(name, self.top / name, ahead)
                         for name, ahead in zip(self.MACHINES, aheads)]
        of_name = {machine.name: machine for machine in self.machines}
        self.targets = []
        for file_system, name, *names in self.TARGETS:
            hosts = [of_name[host] for host in names]
            kernel = Kernel(release, name[:3], self.clock_ns(hosts[0]), CLEANUP_S, file_system,
                            name)
            self.targets.append(Target(kernel, hosts))
            self.mount(self.targets[-1], hosts[0])
        self.config.set_value("site.series_days", "0", "a test")         # no time lines
        self._open()
        for machine in self.machines:
            self.start_agent(machine)
        self._witness()
        self.sweep()
        self.now += 1

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
        shutil.rmtree(self.top)

    # ---- machines and targets

    def clock_ns(self, machine):
        """The clock by which a machine's kernel dates entries: 2.15.0 counts from the boot."""
        return int((self.now + (0 if self.release == "2.15.0" else machine.ahead)) * NS)

    def start_agent(self, machine):
        """An agent begins to run: it knows nothing of the one before."""
        booted_ns = int((machine.booted + machine.ahead) * NS)
        machine.clock = SweepClock(lambda: self.now + machine.ahead,
                                   lambda: self.now - machine.booted)
        with mock.patch.object(encoding.this_node, "read_boot_id",
                               lambda: f"{machine.name} boot {machine.boots}"), \
                mock.patch.object(encoding, "find_boot_time_ns", lambda: booted_ns):
            machine.encoder = SweepEncoder(machine.name, 3000, machine.clock,
                                           Pace(100, lambda: 0.0, lambda: 0.0), lambda *text: None)

    def mount(self, target, machine):
        """A target is started on a machine: its job_stats are empty."""
        target.kernel.restart(self.clock_ns(machine), same_boot=True)
        target.kernel.booted, target.on = machine.booted * NS, machine

    def unmount(self, target):
        """A target is stopped: its job_stats are lost."""
        if target.on is not None:
            directory = self._directory(target, target.on)
            target.kernel.clear()
            target.on = None
            shutil.rmtree(directory, ignore_errors=True)

    @staticmethod
    def _directory(target, machine):
        kind = "obdfilter" if target.kernel.kind == "OST" else "mdt"
        return machine.root / "proc/fs/lustre" / kind / str(target)

    # ---- jobs

    def is_running(self, job):
        """Whether a job may do something now."""
        return not self.knows or (bool(self.runs[job]) and (
            self.runs[job][-1][1] is None or self.now - self.runs[job][-1][1] < WRITES_BACK_S))

    def work(self, job, target, amount, times=1):
        """Requests of a job to a target; nothing where it may not, or cannot."""
        if target.on is None or not self.is_running(job):
            return
        kernel = target.kernel
        counter, place = self._counters(kernel)[amount % 2]
        kernel.rpc(self.clock_ns(target.on), job, counter, 4096 * amount, times)
        self.done[job].append((self.now, kernel.file_system, place,
                               times if place == 2 else 4096 * amount * times))
        self.log.append(f"{self.now - BEGAN}: {job} {counter} {4096 * amount} x {times} on "
                        f"{target}")

    def _counters(self, kernel):
        if kernel.kind == "MDT":
            return ("open", 2), ("setattr", 2)
        return [(name, place) for place, name in enumerate(
            [name for name in kernel.units if name.startswith(("read", "write"))][:2])]

    def facts(self, job):
        """What the batch system reports of a job."""
        began, ended = self.runs[job][-1]
        return Facts(job=job, state=RUNNING if ended is None else ENDED, started=float(began),
                     ended=ended and float(ended), restarts=len(self.runs[job]) - 1)

    # ---- what happens

    def play(self, chance, count=40, events=FAULTS):
        """So many events: work, waiting, and faults in between; self."""
        for _ in range(count):
            kind = chance.random()
            if kind < 0.3:
                self.wait(chance.choice(WAITS))
            elif kind < 0.4:
                self.on_job(chance)
            elif kind < 0.8:
                self.work(chance.choice(JOBS), chance.choice(self.targets), chance.randint(1, 41),
                          chance.randint(1, 23))
            else:
                self.happen(chance.choice(events), chance)
        return self

    def happen(self, event, chance):
        """One of FAULTS."""
        self.log.append(f"{self.now - BEGAN}: {event}")
        getattr(self, f"on_{event}")(chance)

    def _witness(self):
        for target in self.targets if self.has_witness else ():
            if target.on is not None:
                target.kernel.witness(self.clock_ns(target.on),
                                      self._counters(target.kernel)[0][0])

    def on_job(self, chance):
        """A job begins, ends, or is requeued."""
        job = chance.choice(JOBS)
        runs = self.runs[job]
        if runs and runs[-1][1] is None:
            runs[-1][1] = self.now
        else:
            runs.append([self.now, None])
        self.log.append(f"{self.now - BEGAN}: {job} ran {runs}")

    def on_clear(self, chance):
        """Somebody clears job_stats of one target."""
        chance.choice(self.targets).kernel.clear()

    def on_clear_all(self, chance):
        """Of all of them."""
        for target in self.targets:
            target.kernel.clear()

    def on_remove(self, chance):
        """Somebody deletes one id, which sweeps have seen: otherwise it could not be known."""
        chance.choice(self.targets).kernel.clear(WITNESS)

    def on_remount(self, chance):
        """A target is stopped and started on its machine, perhaps some sweeps later."""
        target = chance.choice(self.targets)
        self._move(target, target.on, chance)

    def on_failover(self, chance):
        """A target is stopped, and started on the other machine."""
        target = chance.choice(self.targets)
        self._move(target, target.other_host(target.on), chance)

    def _move(self, target, machine, chance):
        """Stop a target where it is mounted, and start it on a machine."""
        if target.on is not None:
            self.unmount(target)
            self._some_time(chance)
            self._start(target, machine, chance)

    def on_crash(self, chance):
        """A machine dies; its targets fail over, or wait for its boot; its clock may be wrong."""
        machine = chance.choice(self.machines)
        mine = [target for target in self.targets if target.on is machine]
        for target in mine:
            self.unmount(target)
        machine.is_up, machine.encoder, machine.waiting = False, None, []
        self._some_time(chance)
        stays = chance.random() < 0.5
        for target in mine if stays else ():
            self._start(target, target.other_host(machine), chance)
        self._some_time(chance)
        machine.is_up, machine.booted, machine.boots = True, self.now, machine.boots + 1
        if chance.random() < 0.4:
            machine.ahead = chance.choice(STEPS)
        if machine.has_agent:
            self.start_agent(machine)
        for target in mine:
            if target.on is None or chance.random() < 0.3:
                self.unmount(target)
                self._start(target, machine, chance)

    def _some_time(self, chance):
        """Perhaps some time goes by, in which jobs go on."""
        while chance.random() < 0.6:
            self.wait(chance.choice((1, 50, 199, 201, 400, 700)))
            self.work(chance.choice(JOBS), chance.choice(self.targets), chance.randint(1, 41))

    def _start(self, target, machine, chance):
        """Mount a target on a machine that is up; its file may be unreadable at first."""
        if machine.is_up:
            self.mount(target, machine)
            if chance.random() < 0.3:
                self.log.append(f"{self.now - BEGAN}: {target} unreadable")
                target.unreadable = chance.randint(1, 4)

    def on_unreadable(self, chance):
        """A target's file cannot be read, in some sweeps."""
        chance.choice(self.targets).unreadable = chance.randint(1, 4)

    def on_cut(self, chance):
        """A target's file can be read up to some place, in the next sweep."""
        chance.choice(self.targets).cut = True

    def on_agent(self, chance):
        """An agent is killed, and started again at once."""
        machine = chance.choice(self.machines)
        if machine.encoder is not None:
            self.start_agent(machine)

    def on_blind_agent(self, chance):
        """An agent is started again, and cannot read one of its targets."""
        target = chance.choice(self.targets)
        if target.on is not None and target.on.encoder is not None:
            self.start_agent(target.on)
            target.unreadable = chance.randint(1, 4)

    def on_down(self, chance):
        """An agent is dead for some time, which may be longer than entries live."""
        machine = chance.choice(self.machines)
        machine.encoder = None
        for _ in range(chance.randint(1, 5)):
            self.wait(chance.choice((41, 200, 601, 1300)))
            self.work(chance.choice(JOBS), chance.choice(self.targets), chance.randint(1, 41))
        if machine.is_up and machine.has_agent:
            self.start_agent(machine)

    def on_no_agent(self, chance):
        """There is no agent on a machine for a long time, or there is one again."""
        machine = chance.choice(self.machines)
        machine.has_agent = not machine.has_agent
        machine.encoder = None
        if machine.has_agent and machine.is_up:
            self.start_agent(machine)

    def on_step(self, chance):
        """A machine's clock is set; its agent has heard of the site's time, or not."""
        machine = chance.choice(self.machines)
        machine.ahead += chance.choice(STEPS)
        machine.has_heard = bool(machine.waiting) or machine.is_away or chance.random() < 0.8

    def on_interval(self, chance):
        """Somebody sets job_cleanup_interval."""
        chance.choice(self.targets).kernel.cleanup_s = chance.choice((600, 600, 650, 900))

    def on_lost(self, chance):
        """A sweep's messages are lost on the agent's disk."""
        machine = chance.choice(self.machines)
        if machine.encoder is not None and not machine.waiting:
            self._read(machine)
            machine.waiting = []
            machine.encoder.note_lost_message(machine.encoder.run)

    def on_away(self, chance):
        """The site's server cannot be reached from a machine; later what waits is delivered."""
        machine = chance.choice(self.machines)
        machine.is_away, machine.has_heard = not machine.is_away, True

    def on_site(self, chance):
        """The site's server is killed and starts again; some states are written, or none."""
        if chance.random() < 0.3:
            self.harvest.checkpoints.write(list(self.harvest.targets)[:chance.randint(1, 3)])
        self.store.commit()                         # as before each answer
        self.store.close()
        self._open()

    # ---- sweeps

    def sweep(self):
        """All agents read; what they have sent is taken; one look of the site's server."""
        for machine in self.machines:
            if machine.encoder is not None:
                self._read(machine)
            if machine.is_up and not machine.is_away:
                self._deliver(machine)
        if self.knows:
            for job in self.harvest.lives.states():
                if self.runs[job]:
                    self.harvest.lives.learn(job, self.facts(job))
        self.harvest.end_sweep()
        until = self.harvest.swept_until()
        self.loop.run_until_complete(self.harvest.lives.settle(until, lambda jobs: (
            self.settled.update(dict.fromkeys(jobs, until))), self.harvest.drop_jobs))

    def _read(self, machine):
        """One sweep of an agent."""
        cuts = set()
        for target in self.targets:
            if target.on is machine:
                directory = self._directory(target, machine)
                directory.mkdir(parents=True, exist_ok=True)
                if target.unreadable:
                    target.unreadable -= 1
                    (directory / "job_stats").unlink(missing_ok=True)
                    continue
                (directory / "job_stats").write_bytes(target.kernel.file(self.clock_ns(machine)))
                (directory / "job_cleanup_interval").write_text(f"{target.kernel.cleanup_s}\n")
                instance = target.kernel.instance if target.shows_instance else 0
                (directory / "instance").write_text(f"{instance}\n")
                if target.cut:
                    target.cut = False
                    cuts.add(str(directory / "job_stats"))
        found = find_local_targets(str(machine.root))
        encoder, clock = machine.encoder, machine.clock
        if clock.reset_if_wrong():
            encoder.is_broken = True
        site_now = self.now + self.site_ahead
        ahead = clock.now() - site_now
        with mock.patch.object(encoding, "read_chunks", lambda handle, path, rest: _chunks(
                handle, path, path in cuts)):
            encoder.sweep(found, site_now // EVERY_S * EVERY_S, EVERY_S,
                          ahead if machine.has_heard else None,
                          lambda run, seq, message, full: machine.waiting.append((run, message)))

    def _deliver(self, machine):
        """All that waits is sent, in its order."""
        messages, machine.waiting = machine.waiting, []
        for run, message in messages:
            taken = decode_sweep(PackedSweep(2, message, float(machine.ahead)), 1 << 24)
            answer = self.harvest.receive(taken, machine.name)
            if not answer["taken"] and machine.encoder is not None:
                machine.encoder.note_lost_message(run)

    # ---- the law

    def settle(self, chance, may_lose=True):
        """
        All agents run again and can reach the site's server, or, where something may be lost, a
        single one; jobs are over, and it is quiet until all are settled; self.
        """
        self.log.append(f"{self.now - BEGAN}: the end")
        for target in self.targets:
            target.unreadable, target.cut = 0, False
        # Where nothing is read at all, no job is ever settled.
        with_targets = [target.on for target in self.targets if target.on is not None]
        is_single = may_lose and chance.random() >= 0.95
        for machine in with_targets[:1] if is_single else self.machines:
            machine.is_away, machine.has_agent = False, True
            if machine.encoder is None:
                self.start_agent(machine)
        for runs in self.runs.values():
            if runs and runs[-1][1] is None:
                runs[-1][1] = self.now
        for number in range(500):
            self.now += 0 if number < 20 else EVERY_S           # a target may be silent for a day
            self.wait(EVERY_S)
            if not set(self.harvest.lives.states()) - {WITNESS}:
                return self
        raise AssertionError(f"not settled: {self.harvest.lives.states()}")

    def truth(self, job, until=float("inf")):
        """{file system: [of COLUMNS]} of what a job did until some moment."""
        sums = defaultdict(lambda: [0, 0, 0])
        for at, file_system, place, amount in self.done[job]:
            if at <= until:
                sums[file_system][place] += amount
        return dict(sums)

    def judged(self):
        """
        [(job, file system, [recorded], [true], [least], is it marked, notes)] of all jobs that were
        settled; least: of what was done until sweeps had come when it was settled last.  Where
        nothing was seen of a job on a file system, notes are the mark.
        """
        found = []
        for job in JOBS:
            part = self.harvest.lives.find_harvested(job)
            if part is None:                            # no sweep has seen it
                continue
            record = harvested_job.as_record(part, ",".join)
            assert record["final"], job
            shown = {fs["name"]: fs for fs in record["file_systems"]}
            truth, least = self.truth(job), self.truth(job, self.settled[job])
            for name in sorted({*shown, *truth}):
                both = truth.get(name, [0, 0, 0]), least.get(name, [0, 0, 0])
                if name not in shown:
                    notes = [note for note in record["notes"] if note.startswith(f"{name}: ")]
                    found.append((job, name, [0, 0, 0], *both, bool(notes), notes))
                    continue
                fs = shown[name]
                numbers = [fs["read_bytes"], fs["write_bytes"],
                           sum(row["count"] for row in fs["operations"].values())]
                found.append((job, name, numbers, *both, fs["lower_bound"], fs["notes"]))
        return found

    def wrong(self):
        """Those of judged() that are too high, or too low and not marked."""
        def is_wrong(numbers, true, least, is_marked):
            return any(number > most or (number < few and not is_marked)
                       for number, most, few in zip(numbers, true, least))
        return [one for one in self.judged() if is_wrong(*one[2:6])]


def _chunks(handle, path, is_cut):
    """A file's bytes; of one that is cut a part, and then an error."""
    data = b""
    while part := os.read(handle, 1 << 20):
        data += part
    if is_cut:
        yield data[:len(data) * 2 // 3]
        raise OSError(errno.EIO, "Input/output error", path)
    yield data
