"""
Random histories of clients and targets: every number an agent sends is exact, or marked.

    the model of the kernel -> files -> the agent's own code -> messages -> an account of them
"""
from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

from examples import examples
from exports_kernel import NS, RELEASES, Account, ExportsKernel, messages_of
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from iostats.storage.clients import STATE, Clients
from iostats.storage.encoding import SweepEncoder
from iostats.storage.schedule import Pace, SweepClock
from iostats.storage.targets import find_local_targets
from iostats.wire.messages.clients_encoder import LOSSES, WENT_DOWN, find_method

BEGAN = 1_795_225_320 * NS
NIDS = ("10.77.0.11@tcp", "10.0.0.7@o2ib3", "fd00:172:16:11::5@tcp", "0@lo")


class Server:
    """A storage server: its files, the agent on it, and an account of what that sends."""

    def __init__(self, world, name):
        self.world, self.root = world, world.top / name
        self.root.mkdir()
        (world.top / f"{name}-spool").mkdir()
        self.state = world.top / f"{name}-spool" / STATE
        self.account, self.said, self.until = Account(), [], None
        self.swept = {}                     # target -> its (truth at the last reading)
        self.epoch = ""                     # of its last sweep
        self.begin()

    def begin(self):
        """Another agent: what the last one has not kept is gone."""
        clock = SweepClock(lambda: self.world.now / NS, lambda: self.world.now / NS)
        pace = Pace(100, sleep=lambda seconds: None)
        self.clients = Clients(str(self.state), [], clock, pace, lambda text, key=None:
                               self.said.append(text), lambda: self.world.now)
        self.encoder = SweepEncoder("oss", 100_000, clock, pace, lambda *text: None)

    def sweep(self):
        """[(gains, new losses)] of the messages of a sweep."""
        kept = []
        self.encoder.sweep(find_local_targets(str(self.root)), 1_795_225_400, 50, 0.0,
                           lambda run, seq, message, full: kept.append(message), self.clients)
        return [message for message in kept if find_method(message) == "packed_clients"]


class World:
    def __init__(self, release, top):
        self.release, self.top, self.now = release, Path(top), BEGAN
        self.targets = [ExportsKernel(release, "OST", BEGAN, number=0),
                        ExportsKernel(release, "OST", BEGAN, number=1),
                        ExportsKernel(release, "MDT", BEGAN)]
        self.home = {one.target: 0 for one in self.targets}
        self.servers = [Server(self, "oss1"), Server(self, "oss2")]

    def save(self, texts=None):
        for kernel in self.targets:
            for place, server in enumerate(self.servers):
                is_here = kernel.is_here
                kernel.is_here = is_here and self.home[kernel.target] == place
                kernel.save(self.now, server.root, (texts or {}).get(kernel.target))
                kernel.is_here = is_here


def truth_of(targets):
    """{(file system, kind, NID): five amounts} over all targets."""
    found = defaultdict(lambda: [0] * 5)
    for kernel in targets:
        for nid, amounts in kernel.truth.items():
            for place, amount in enumerate(amounts):
                found["scratch", kernel.kind, nid][place] += amount
    return found


def _is_of(key, file_system, kind, nid):
    """Whether a loss is of this client."""
    return key[:2] == (file_system, kind) and nid in ("", key[2])


class Histories(RuleBasedStateMachine):
    """
    Whatever happens, in each sweep a client gained what it did since the sweep before, or less, and
    then a loss says so, or its file could not be read, and it gains the rest when that can be read.
    """

    releases = RELEASES

    @initialize(release=st.data())
    def begin(self, release):
        self._top = tempfile.TemporaryDirectory(prefix="iostats-clients-")
        self.world = World(release.draw(st.sampled_from(self.releases)), self._top.name)
        event(self.world.release)
        self._known, self._hidden, self._texts = None, False, {}
        self._tear, self._lossy, self._is_lossy_next = None, False, False
        self._unexplained, self._told, self._during = {}, {}, {}
        self._late = {}                     # (what a client is still to gain, it may be lost)
        self.sweeps, self._was_broken, self._had = 0, False, {}

    def teardown(self):
        if hasattr(self, "_top"):
            event(f"{min(self.sweeps // 4 * 4, 12)} sweeps or more")
            self._top.cleanup()

    def _kernel(self, number):
        self.world.now += 1_009 * NS // 1000
        return self.world.targets[number]

    # -- clients at work

    @rule(number=st.integers(0, 2), nid=st.sampled_from(NIDS), mount=st.integers(0, 4))
    def mount(self, number, nid, mount):
        kernel = self._kernel(number)
        if kernel.is_here:
            kernel.mount(self.world.now, nid, f"mount {mount}")

    @rule(number=st.integers(0, 2), choice=st.integers(0, 99), amount=st.integers(1, 50_000),
          times=st.integers(1, 5), what=st.sampled_from(("read", "write", "statfs", "ping")))
    def work(self, number, choice, amount, times, what):
        kernel = self._kernel(number)
        if not kernel.mounts:
            return
        mount = kernel.mounts[choice % len(kernel.mounts)]
        if what in ("read", "write"):
            getattr(kernel, what)(self.world.now, mount, amount, times)
        elif what == "ping":
            kernel.ping(self.world.now, mount)
        else:
            kernel.request(self.world.now, mount, "statfs" if amount % 2 else "sync", times)

    @rule(number=st.integers(0, 2), choice=st.integers(0, 99))
    def unmount_or_evict(self, number, choice):
        kernel = self._kernel(number)
        if kernel.mounts:
            kernel.unmount(kernel.mounts[choice % len(kernel.mounts)])

    # -- what loses numbers

    @rule(number=st.integers(0, 2))
    def clear_exports(self, number):
        kernel = self._kernel(number)
        self._before_clear(kernel)
        kernel.clear(self.world.now)

    @rule(number=st.integers(0, 2), choice=st.integers(0, 99))
    def clear_one(self, number, choice):
        kernel = self._kernel(number)
        if kernel.nids:
            nid = kernel.nids[choice % len(kernel.nids)]
            self._before_clear(kernel, nid)
            kernel.clear_one(self.world.now, nid)

    def _before_clear(self, kernel, nid=None):
        """A clear may leave no trace: without start_time, or before a file was ever read."""
        self._lossy, had = True, self._had.get(kernel.target)
        if not kernel.has_start or not had or nid not in (None, *had):
            self._hidden = True

    @rule(number=st.integers(0, 2))
    def restart(self, number):
        kernel = self._kernel(number)
        if kernel.is_here:
            kernel.stop()
        kernel.start(self.world.now)
        self._lossy = True

    @rule(number=st.integers(0, 2))
    def fail_over(self, number):
        kernel = self._kernel(number)
        self.world.home[kernel.target] ^= 1
        kernel.stop()
        kernel.start(self.world.now)
        self._lossy = True

    @rule(number=st.integers(0, 2))
    def stop(self, number):
        self._kernel(number).stop()
        self._lossy = True

    @rule(number=st.integers(0, 2), choice=st.integers(0, 99), damage=st.sampled_from(
        (None, b"", b"snapshot_time 1", b"read_bytes 23 samples [bytes] 1\n")))
    def break_one(self, number, choice, damage):
        """At the next sweep a file cannot be read, or understood."""
        kernel = self._kernel(number)
        if kernel.nids:
            nid = kernel.nids[choice % len(kernel.nids)]
            self._texts.setdefault(kernel.target, {})[nid] = damage
            self._lossy = self._was_broken = True

    @rule(number=st.integers(0, 2), choice=st.integers(0, 99), line=st.integers(0, 4),
          everything=st.booleans())
    def clear_while_it_is_read(self, number, choice, line, everything):
        """The next sweep's reader is in the middle of a file when it is cleared."""
        kernel = self._kernel(number)
        if kernel.nids:
            nid = kernel.nids[choice % len(kernel.nids)]
            self._before_clear(kernel, None if everything else nid)
            self._tear = kernel, nid, line, everything

    # -- the agent

    @rule(place=st.integers(0, 1), is_orderly=st.booleans())
    def another_agent(self, place, is_orderly):
        """It is stopped, or killed; the state is what was kept."""
        server = self.world.servers[place]
        if is_orderly:
            server.clients.save()
        else:                               # by then something could not be read, maybe
            self._lossy |= self._was_broken
        server.begin()

    @rule(place=st.integers(0, 1))
    def lose_state(self, place):
        server = self.world.servers[place]
        if server.state.exists():
            server.state.write_bytes(server.state.read_bytes()[:-1])
            server.begin()
            assert any("damaged" in line for line in server.said)
            self._lossy = True

    @rule(place=st.integers(0, 1))
    def lose_a_message(self, place):
        """A message that waits is damaged: the next sweep is a full one."""
        self.world.servers[place].encoder.is_broken = True

    @rule(times=st.integers(1, 2))
    def sweep(self, times):
        for _ in range(times):
            self._sweep()

    @rule(number=st.integers(0, 2), nid=st.sampled_from(NIDS), amount=st.integers(1, 50_000))
    def work_and_sweep(self, number, nid, amount):
        self.mount(number, nid, 5)
        self.work(number, 0, amount, 3, "write")
        self.work(number, 1, amount, 2, "statfs")
        self._sweep()

    def _sweep(self):
        world = self.world
        world.now += 50 * NS
        for kernel in world.targets:        # a line that is damaged stands behind the others
            texts = self._texts.get(kernel.target, {})
            for nid, damage in texts.items():
                if damage and nid in kernel.nids and not damage.startswith(b"snap"):
                    texts[nid] = kernel.text(world.now, nid) + damage
        world.save(self._texts)
        if self._tear is not None:
            self._read_torn(*self._tear)
        truth, gained = truth_of(world.targets), defaultdict(lambda: [0] * 5)
        losses, unread = [], []
        for server in world.servers:
            for message in server.sweep():
                gains, news = server.account.take(message)
                for block, _ in messages_of(message)[1]:
                    unread += [(block["file_system"], block["kind"], nid) for nid in (
                        *(nid for nids in block["unread"].values() for nid in nids),
                        *([""] if block["unreadable"] else ()))]
                for key, clients in gains.items():
                    for nid, amounts in clients.items():
                        for column, amount in enumerate(amounts):
                            gained[(*key, nid)][column] += amount
                losses += [(*key, one["nid"], one["since"], one) for key, some in news.items()
                           for one in some]
            # Of a new epoch, and of a target that comes to it, the site's server says so itself.
            if server.clients.epoch != server.epoch:
                losses += [(*key, "", 0.0, None) for key in server.account.epochs]
            server.epoch = server.clients.epoch
        for one in [one for *_, one in losses if one is not None]:
            assert one["why"] in LOSSES and one["since"] <= one["until"]
        # A clear that met the last reading is known by this one only: it says since when.
        for key, until in self._unexplained.items():
            assert any(_is_of(key, *loss[:3]) and loss[3] <= until + 0.01 for loss in losses), (
                key, until, losses)
        self._unexplained = {}
        is_first, known = self._known is None, self._known or {}
        for key in truth.keys() | gained.keys():
            rest, may_be_lost = self._late.pop(key, ([0] * 5, False))
            done = [now - before + late for now, before, late in zip(
                truth[key], known.get(key, [0] * 5), rest)]
            found = gained[key]
            if is_first:
                assert [0] * 5 == found, (key, found)
                continue
            assert all(one <= most for one, most in zip(found, done)), (key, found, done)
            is_whole = done[:4] == found[:4] and done[4] - self._told.get(key, 0) <= found[4]
            is_marked = may_be_lost or self._hidden or any(
                _is_of(key, *loss[:3]) for loss in losses)
            if any(_is_of(key, *one) for one in unread):
                self._late[key] = [all_ - some for all_, some in zip(done, found)], is_marked
            elif not is_whole and not is_marked:
                assert self._tear is not None, (key, done, found, losses, world.release)
                self._unexplained[key] = world.now / NS
        if not self._lossy and not is_first:
            # Of a number that went down before it may be said until it is larger again.
            assert [] == [one for *_, one in losses if one is None or one["why"] != WENT_DOWN]
        self.sweeps += 1
        self._had = {kernel.target: kernel.nids for kernel in world.targets}
        # What is told late, or what could not be read, is marked once more.
        self._lossy, self._hidden = self._is_lossy_next, self._tear is not None and self._hidden
        self._is_lossy_next = bool(self._texts) or self._tear is not None
        self._lossy |= self._is_lossy_next
        # Requests during a reading may be in this one, or in the next.
        for key, times in self._during.items():
            truth[key][4] -= times
        self._known, self._texts, self._tear = truth, {}, None
        self._told, self._during = self._during, {}

    def _read_torn(self, kernel, nid, line, everything):
        """One file as a reader has it that a clear meets; the rest of the kernel is cleared."""
        world = self.world
        if nid not in kernel.nids or not kernel.is_here:
            return

        def clear():
            world.now += 1
            kernel.clear(world.now) if everything else kernel.clear_one(world.now, nid)
            for mount in kernel.mounts:
                kernel.request(world.now, mount, "statfs")      # while it goes on
                key = "scratch", kernel.kind, kernel.nid_of(mount)
                self._during[key] = self._during.get(key, 0) + 1
        torn = kernel.text(world.now, nid, (line, clear))
        texts = {**self._texts.get(kernel.target, {})}
        if nid not in texts:
            texts[nid] = torn
        if nid in kernel.nids:
            world.save({**self._texts, kernel.target: texts})


class WithStart(Histories):
    """From 2.15.2 on nothing is hidden."""

    releases = ("2.15.2", "2.16", "2.17")


class WithoutStart(Histories):
    releases = ("2.5", "2.10", "2.12", "2.14", "2.15.0", "2.16-plain")


_SETTINGS = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestWithStart = WithStart.TestCase
TestWithStart.settings = _SETTINGS
TestWithoutStart = WithoutStart.TestCase
TestWithoutStart.settings = _SETTINGS
