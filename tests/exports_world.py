"""
Storage servers, their agents and the site's server, played through time by chance: is every answer
about a client true, or marked?

    ExportsWorld(directory, dice, release).play(60).judged()

The kernel's `exports` are those of exports_kernel.py, and each request is noted with its time here,
so that what a client did between any two moments is known.  The agents' own code reads files, its
messages go to a Harvest with its store.  Storage servers have clocks of their own, which are set
and may be wrong after a boot; the site's clock is right.

What no reading can show (docs/how-to/clients.md, "cannot be seen") is noted in `excused` and not
judged.

Times are s by the site's clock, those of the kernels ns by their server's.
"""
from __future__ import annotations

import os
import shutil
from collections import namedtuple
from pathlib import Path
from unittest import mock

from exports_kernel import NS, ExportsKernel
from harvest_inside import HarvestInside

from iostats.storage import clients as agent_clients
from iostats.storage.encoding import SweepEncoder
from iostats.storage.schedule import Pace, SweepClock
from iostats.storage.targets import find_local_targets
from iostats.wire.messages.clients import decode_clients
from iostats.wire.messages.clients_encoder import find_method
from iostats.wire.messages.sweep_decoder import PackedSweep, decode_sweep

EVERY_S = 20
BEGAN = 1_795_225_200                       # a multiple of 20
NIDS = ("10.0.0.7@o2ib", "10.0.0.11@o2ib", "10.0.0.13@tcp")
BIG = "10.0.0.99@o2ib"                      # counts fast: a clear of its file shows in each release
STEPS = (-4000, -400, -37, 41, 400, 4000)
EVENTS = {"clear": 3, "clear_one": 3, "restart": 3, "fail_over": 4, "crash": 3, "boot": 8,
          "stop": 1, "start": 4, "set_clock": 3, "kill": 4, "end": 2, "agent": 9, "unreadable": 4,
          "target_unreadable": 3, "silence": 2, "lose": 2, "site": 2, "lose_state": 1,
          "hide": 1, "kill_in_sweep": 2}

Verdict = namedtuple("Verdict", "since until nid truth low high why is_excused is_avoidable")


class Server:
    """A storage server: its clock, its files, its agent or none."""

    def __init__(self, world, name, has_agent=True):
        self.world, self.name, self.has_agent = world, name, has_agent
        self.root, self.spool = world.top / name, world.top / f"{name}-spool"
        self.root.mkdir()
        self.spool.mkdir()
        self.ahead, self.boots, self.is_up, self.booted = 0.0, 1, True, world.now - 1000
        self.clients, self.present = None, set()
        self.waiting, self.is_silent, self.knows_time, self.dies = [], 0, False, False
        self.missed = set()                     # targets that its last sweep did not list
        if has_agent:
            self.begin()

    def wall(self):
        return self.world.now + self.ahead

    def wall_ns(self):
        return round(self.wall() * NS)

    def begin(self):
        """Another agent goes on from what is on the disk."""
        self.knows_time = False
        self.clock = SweepClock(self.wall, lambda: self.world.now - self.booted)
        pace = Pace(100, cpu=lambda: 0.0, sleep=lambda seconds: None)
        real = agent_clients.this_node
        agent_clients.this_node = self                  # whose read_boot_id() is ours
        try:
            self.clients = agent_clients.Clients(
                str(self.spool / agent_clients.STATE), [], self.clock, pace,
                lambda text, key=None: None, self.wall_ns)
        finally:
            agent_clients.this_node = real
        self.encoder = SweepEncoder(self.name, 100_000, self.clock, pace, lambda *text: None)

    def read_boot_id(self):
        return f"{self.name} {self.boots}"

    def sweep(self, slot):
        """Read what is there now; the messages wait."""
        found = self._listed()
        if self.clock.reset_if_wrong():
            self.encoder.is_broken = True
        self.knows_time |= not self.is_silent
        ahead = self.clock.now() - self.world.now if self.knows_time else None
        self.encoder.sweep(found, slot, EVERY_S, ahead,
                           lambda run, seq, message, full: self.waiting.append((run, message)),
                           self.clients)

    def _listed(self):
        """
        The targets that it lists.  A listing may lack one (World.hidden); that all do so is tried
        only with a target that this agent has read, as it could not know of another one.
        """
        known = {name for _, name in self.clients._tables}
        hidden, real, listed = self.world.hidden, os.listdir, set()

        def one_listing(directory):
            names = real(directory)
            if directory not in listed:
                names = [name for name in names if name.rpartition("-")[2] not in hidden]
            listed.add(directory)
            return names
        with mock.patch.object(os, "listdir", one_listing):
            found = find_local_targets(str(self.root))
        self.missed = hidden & known
        return [one for one in found if one.name not in self.missed]

    def deliver(self):
        """Send what waits, as delivery.py does."""
        world = self.world
        while self.waiting:
            run, message = self.waiting.pop(0)
            is_clients = find_method(message) == "packed_clients"
            packed = PackedSweep(2, message, self.clock.now() - world.now)
            taken = (decode_clients if is_clients else decode_sweep)(packed, 16 << 20)
            answer = world.site.harvest.receive(taken, self.name)
            world.site.store.commit()
            if not answer["taken"]:
                self.waiting = [one for one in self.waiting if one[0] != run]
                if self.encoder.run == run:
                    self.encoder.is_broken = True
        if not self.encoder.is_broken:
            self.clients.delivered()


class ExportsWorld:
    """
    Attributes:
        now: s.
        targets: [ExportsKernel]; home: {target: its Server, or None}.
        done: {nid: [(s, six amounts)]}: all requests, in their order.
        excused: [(since, until, why)] in which something was lost that no reading can show.
    """

    def __init__(self, directory, dice, release, third_has_agent=None):
        self.top, self.dice, self.release, self.now = Path(directory), dice, release, BEGAN + 5.0
        self.site = HarvestInside(self.top / "site.sqlite")
        self._quick()
        self.servers = [Server(self, "oss1"), Server(self, "oss2"),
                        Server(self, "oss3", dice.random() < 0.5 if third_has_agent is None
                               else third_has_agent)]
        self.targets = [ExportsKernel(release, "OST", self.servers[0].wall_ns(), number=0),
                        ExportsKernel(release, "OST", self.servers[1].wall_ns(), number=1),
                        ExportsKernel(release, "MDT", self.servers[0].wall_ns())]
        self.home = {one.target: self.servers[place % 2] for place, one in enumerate(self.targets)}
        self.done = {nid: [] for nid in (*NIDS, BIG)}
        self.excused, self.swept, self._verdicts = [], self.now, []
        self._unread, self._blind = {}, {}      # of the next sweep: files, and whole targets
        self.hidden = set()
        # Of each target: {nid: its counters at the last reading}, when; [nid] of each clear since.
        self._read = {one.target: ({}, self.now) for one in self.targets}
        self._cleared = {one.target: [] for one in self.targets}
        self._mounts = {one.target: () for one in self.targets}
        self.lost, self._read_at = [], {one.target: self.now for one in self.targets}
        self._gaps, self._started = set(), {}
        for kernel in self.targets:
            self._work(kernel, BIG)
        self.sweep()

    def _quick(self):
        self.site.store.rows("PRAGMA synchronous = OFF")

    def close(self):
        self.site.store.close()

    # ---- what happens

    def play(self, count):
        """So many events, with work and sweeps in between; self."""
        names, weights = list(EVENTS), list(EVENTS.values())
        calm = self.dice.choice((0.02, 0.07, 0.2, 0.5))
        for _ in range(count):
            self.wait(self.dice.uniform(0.3, 14.0))
            if self.dice.random() < calm:
                getattr(self, f"on_{self.dice.choices(names, weights)[0]}")()
            else:
                for _ in range(self.dice.randrange(1, 4)):
                    self.work()
        return self

    def wait(self, seconds):
        until = self.now + seconds
        while self.now < until:
            following = (self.now // EVERY_S + 1) * EVERY_S
            if until < following:
                self.now = until
                break
            self.now = following
            self.sweep()
            self.now = max(until, self.now)

    def work(self):
        """A client asks a target for something."""
        kernel = self.dice.choice(self.targets)
        if kernel.is_here:
            self._work(kernel, self.dice.choice((*NIDS, BIG)))

    def _work(self, kernel, nid):
        dice, at = self.dice, self.home[kernel.target].wall_ns()
        self.now += 0.01
        kernel.mount(at, nid, nid)
        before = list(kernel.truth[nid])
        what, times = dice.choice(("read", "write", "statfs")), dice.randrange(1, 6)
        if nid == BIG:
            times += 50
        if what == "statfs":
            kernel.request(at, nid, "statfs", times)
        else:
            getattr(kernel, what)(at, nid, dice.randrange(1, 50_000), times)
        self._note(kernel, nid, before)

    def write(self, kernel, nid, amount, times):
        """A client writes; ended before anything else happens."""
        at, before = self.home[kernel.target].wall_ns(), list(kernel.truth[nid])
        kernel.mount(at, nid, nid)
        kernel.write(at, nid, amount, times)
        self._note(kernel, nid, before)

    def _note(self, kernel, nid, before):
        """What it did is done now."""
        gained = [now - old for now, old in zip(kernel.truth[nid], before)]
        six = gained + [0] if kernel.kind == "OST" else [*gained[:4], 0, gained[4]]
        self.done[nid].append((self.now, six))
        self.now += 0.01

    def _some(self, has_agent=None):
        return self.dice.choice([one for one in self.servers if has_agent in (None, one.has_agent)])

    def _here(self):
        found = [one for one in self.targets if one.is_here]
        return self.dice.choice(found) if found else None

    def on_clear(self):
        kernel = self._here()
        if kernel is not None:
            self._note_clear(kernel, kernel.nids)
            kernel.clear(self.home[kernel.target].wall_ns())

    def on_clear_one(self):
        kernel = self._here()
        if kernel is not None and kernel.nids:
            nid = self.dice.choice(kernel.nids)
            self._note_clear(kernel, [nid])
            kernel.clear_one(self.home[kernel.target].wall_ns(), nid)

    def _note_clear(self, kernel, nids):
        if self.dice.random() < 0.3 and len(nids) > 1:
            kernel.unmount(self.dice.choice(nids))      # its file will be removed
        self.lost += [(self._read_at[kernel.target], self.now, nid if len(nids) == 1 else "")
                      for nid in nids[:1]]
        self._cleared[kernel.target].append(nids)

    def on_restart(self):
        kernel = self._here()
        if kernel is not None:
            self._stop(kernel)
            self._start(kernel, self.home[kernel.target])

    def on_fail_over(self):
        kernel = self._here()
        if kernel is not None:
            others = [one for one in self.servers if one.is_up
                      and one is not self.home[kernel.target]]
            if others:
                self._stop(kernel)
                self.now += self.dice.choice((0.1, 3.0))
                self._start(kernel, self.dice.choice(others))

    def on_stop(self):
        kernel = self._here()
        if kernel is not None:
            self._stop(kernel)

    def on_start(self):
        for kernel in self.targets:
            up = [one for one in self.servers if one.is_up]
            if not kernel.is_here and up:
                self._start(kernel, self.dice.choice(up))

    def _stop(self, kernel):
        if kernel.is_here:
            self._mounts[kernel.target] = kernel.nids
            self.lost.append((self._read_at[kernel.target], self.now, ""))
        kernel.stop()

    def _start(self, kernel, server):
        self.home[kernel.target] = server
        kernel.start(server.wall_ns())
        self._read_at[kernel.target] = self._started[kernel.target] = self.now
        self._cleared[kernel.target] = []               # `instance` says that all is new
        self._read[kernel.target] = None
        for nid in self._mounts[kernel.target] if self.dice.random() < 0.7 else ():
            kernel.mount(server.wall_ns(), nid, nid)    # as clients reconnect
        for _ in range(self.dice.randrange(3)):
            self._work(kernel, self.dice.choice(NIDS))

    def on_crash(self):
        """A storage server dies; its targets fail over, at once, later, or when it is back."""
        server = self._some()
        if not server.is_up:
            return
        server.is_up, server.clients = False, None
        up = [one for one in self.servers if one.is_up]
        for kernel in self.targets:
            if kernel.is_here and self.home[kernel.target] is server:
                self._stop(kernel)
                if up and self.dice.random() < 0.7:
                    self.now += self.dice.choice((0.1, 2.0))
                    self._start(kernel, self.dice.choice(up))

    def on_boot(self):
        for server in self.servers:
            if not server.is_up:
                server.is_up, server.booted = True, self.now
                server.boots += 1
                server.ahead = self.dice.choice((server.ahead, 0.0, *STEPS))
                for kernel in self.targets:
                    if not kernel.is_here and self.dice.random() < 0.6:
                        self._start(kernel, server)
                if server.has_agent and self.dice.random() < 0.8:
                    server.begin()
                return

    def on_set_clock(self):
        server = self._some()
        server.ahead += self.dice.choice((*STEPS, -server.ahead))

    def on_kill(self):
        self._some(True).clients = None

    def on_end(self):
        """The agent ends as it should."""
        server = self._some(True)
        if server.clients is not None:
            server.clients.save()
            server.clients = None

    def on_agent(self):
        for server in self.servers:
            if server.has_agent and server.is_up and server.clients is None:
                server.begin()

    def on_lose_state(self):
        server = self._some(True)
        (server.spool / agent_clients.STATE).unlink(missing_ok=True)
        self._gaps |= {target for target, home in self.home.items() if home is server}
        if server.is_up:
            server.begin()

    def on_unreadable(self):
        kernel = self._here()
        if kernel is not None and kernel.nids:
            self._unread.setdefault(kernel.target, {})[self.dice.choice(kernel.nids)] = (
                self.dice.choice((None, b"snapshot_time 1")), self.dice.randrange(1, 3))

    def on_target_unreadable(self):
        kernel = self.dice.choice(self.targets)
        self._blind[kernel.target] = self.dice.randrange(1, 3)

    def on_hide(self):
        """The next listing of targets lacks this one, as that of /proc may."""
        self.hidden.add(self.dice.choice(self.targets).target)

    def on_kill_in_sweep(self):
        self._some(True).dies = True

    def on_silence(self):
        """The site's server cannot be reached for some sweeps."""
        self._some(True).is_silent = self.dice.randrange(1, 5)

    def on_lose(self):
        """What waits is dropped, or a message of the next sweep."""
        server = self._some(True)
        if server.clients is not None:
            server.waiting = []
            server.encoder.is_broken = True

    def on_site(self):
        """The site's server is killed, and begins again."""
        self.site.again()
        self._quick()

    # ---- sweeps

    def sweep(self):
        slot = int(self.now)
        for server in self.dice.sample(self.servers, len(self.servers)):
            self.now += self.dice.uniform(0.05, 0.2)
            if server.clients is None:
                continue
            self._save(server)
            server.sweep(slot)
            self._look(server)
            self.site.now = self.now
            if server.dies:                     # before what it read is in the spool, or after
                if self.dice.random() < 0.5:
                    server.waiting = [one for one in server.waiting if one[0] != server.encoder.run]
                server.clients, server.dies = None, False
                continue
            if server.is_silent:
                server.is_silent -= 1
            else:
                server.deliver()
        self._unread = {target: left for target, some in self._unread.items() if (
            left := {nid: (text, count - 1) for nid, (text, count) in some.items() if count > 1})}
        self._blind = {target: count - 1 for target, count in self._blind.items() if count > 1}
        self.hidden = set()
        self.now += 0.05
        self.site.now = self.now
        self.site.turn()
        self.swept = slot + 0.04
        if self.dice.random() < 0.1 and slot > BEGAN + 20:
            self._verdicts = self.judged(1)

    def _save(self, server):
        for kernel in self.targets:
            is_here, target = kernel.is_here, kernel.target
            kernel.is_here = is_here and self.home[target] is server
            if not kernel.is_here and target not in server.present:
                kernel.is_here = is_here
                continue
            (server.present.add if kernel.is_here else server.present.discard)(target)
            texts = {nid: text for nid, (text, _) in self._unread.get(target, {}).items()}
            kernel.save(server.wall_ns(), server.root, texts)
            if kernel.is_here and target in self._blind:
                for path in server.root.glob(f"**/*{target}/exports"):
                    shutil.rmtree(path)
            kernel.is_here = is_here

    def _look(self, server):
        """What this reading could see of the clears before it."""
        for kernel in self.targets:
            target = kernel.target
            if (not kernel.is_here or self.home[target] is not server or target in self._blind
                    or target in server.missed):
                if kernel.is_here and self.home[target] is server:
                    self._gaps.add(target)
                continue
            if target in self._gaps:
                self.lost.append((self._read_at[target], self.now, ""))
            self._gaps.discard(target)
            if self._unread.get(target):
                self.lost += [(self._read_at[target], self.now + EVERY_S + 0.5, nid)
                              for nid in self._unread[target]]
            self._read_at[target] = self.now
            read = self._read[target]
            for cleared in self._cleared[target]:
                # Where it was started since then, all files are new, and nothing is known of them.
                known, since = ({}, self._started[target]) if read is None else read
                if not self._shows(kernel, known, cleared):
                    self.excused.append((since, self.now, "a clear without a trace"))
            self._cleared[target] = []
            self._read[target] = ({nid: kernel.counters(nid) for nid in kernel.nids}, self.now)

    def _shows(self, kernel, read, cleared):
        """Whether a file says that it was cleared."""
        return not cleared or any(nid in read and (
            kernel.has_start or went_back(read[nid], kernel.counters(nid))) for nid in cleared)

    def settle(self):
        """All is up, and all targets are where an agent reads them; self."""
        for server in self.servers:
            server.is_silent = 0
            if not server.is_up:
                server.is_up, server.booted, server.boots = True, self.now, server.boots + 1
        for kernel in self.targets:
            if not (kernel.is_here and self.home[kernel.target].has_agent):
                self._stop(kernel)
                self._start(kernel, self.servers[self.dice.randrange(2)])
        self.on_agent()
        self._unread, self._blind = {}, {}
        self.wait(2 * EVERY_S)
        return self

    # ---- the law

    def judged(self, count=12):
        """[Verdict] of so many questions for each client, and of those asked meanwhile."""
        found, dice = self._verdicts, self.dice
        self._verdicts = []
        for _ in range(count):
            since = dice.uniform(BEGAN + 6, self.swept)
            until = min(self.swept, since + dice.choice((7, 23, 60, 200, 1000)))
            answers = self.site.did(since, until, nids=[*self.done])
            pending = [(self._read_at[one.target], self.now + 1, "") for one in self.targets]
            ours = [nid for began, ended, nid in self.lost + pending
                    if began < until and ended > since]
            excuse = any(began < until and ended > since for began, ended, _ in self.excused)
            for nid in self.done:
                one = answers.get(("scratch", nid))
                if one is not None:
                    found.append(Verdict(since, until, nid, self.truth(nid, since, until), one.low,
                                         one.high, one.why, excuse,
                                         "" not in ours and nid not in ours))
        return found

    def truth(self, nid, since, until):
        """Six amounts of a client between two moments."""
        some = [amounts for at, amounts in self.done[nid] if since <= at < until]
        return [sum(column) for column in zip(*some)] or [0] * 6


def went_back(before, now):
    """Whether a counter has fewer samples than before, or less in sum."""
    return any(name not in now or now[name][0] < value[0] or now[name][3] < value[3]
               for name, value in before.items())


def is_wrong(one):
    """Too high, or too low without a mark."""
    return (any(low > true for low, true in zip(one.low, one.truth))
            or (not one.why and any(high < true for high, true in zip(one.high, one.truth))
                and not one.is_excused))


def is_needless(one):
    """Marked, and yet the truth lies between the two numbers."""
    return bool(one.why) and all(low <= true <= high for low, true, high in zip(
        one.low, one.truth, one.high))
