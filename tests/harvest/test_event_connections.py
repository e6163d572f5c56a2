"""
Who is not connected now: what is said of a connection is what was told of it, and true.
"""
from __future__ import annotations

import random
import time
from datetime import datetime

import pytest
from events_messages import NOON, event
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import samples, shared

from iostats.base.config import Config
from iostats.collector.journal_of_events import CollectedEvent
from iostats.collector.methods import trap_text
from iostats.events.event import as_json, merge_copies
from iostats.events.gather import Gathering
from iostats.harvest.events.connections import Connections
from iostats.lustre import kernel_log
from iostats.lustre.imports import CONNECTED, parse_state
from iostats.totals import job_events
from iostats.totals.job_events import ServerEvent
from iostats.totals.reported_events import NodeEvent

OST, MDT = "scratch-OST0003", "scratch-MDT0000"
A, B = "10.9.0.11@tcp", "10.9.0.12@tcp"
NAMES = {A: "nid00011", B: "nid00012"}


@pytest.fixture(autouse=True)
def a_machine_that_is_up_for_weeks(monkeypatch):
    """As in tests/events/conftest.py."""
    true = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: true(which) + (
        1_814_400 if which == time.CLOCK_BOOTTIME else 0))


def gone_after(*events):
    """{(node, target): (state, since)} after these."""
    found = Connections(lambda nid: NAMES.get(nid, nid))
    for one in events:
        found.add(one)
    return {(one.node, one.target): (one.state, one.since) for one in found.list_down() if one}


def evicted(at, *nids, cause="silent", **fields):
    return event(f"{at}", at=at, clients=nids or (A,), cause=cause,
                 **{"count": max(1, len(nids)), **fields})


def own(kind, at, node="nid00011", **fields):
    return event(f"{node} {at}", kind, at, node, target=OST, **fields)


LOST, EVICTED, UNCLEAR = (("nid00011", OST), "lost"), (("nid00011", OST), "evicted"), (
    ("nid00011", OST), "unclear")


@pytest.mark.parametrize("events, expected", [
    ([evicted(100)], EVICTED),
    ([own("connection_lost", 100)], LOST),
    ([own("connection_lost", 100), own("connection_restored", 100.5)], None),
    ([own("connection_lost", 100, over=143)], None),
    ([own("connection_lost", 100, last=150, over=143)], LOST),          # lost again
    ([own("connection_restored", 99.5), own("connection_lost", 100)], LOST),
    ([evicted(100), own("evicted", 123, over=123)], None),
    ([evicted(100), own("evicted", 123)], UNCLEAR),     # it had an answer, whatever it was
    ([own("evicted", 123), own("connection_restored", 123.5)], None),
    ([evicted(100), own("evicted", 101, over=101)], UNCLEAR),           # two clocks
    ([evicted(100), own("connection_restored", 99)], UNCLEAR),
    ([evicted(100), own("connection_restored", 97)], EVICTED),
    ([own("connection_lost", 90), evicted(100), own("connection_restored", 123)], None),
    ([evicted(100), event("r", "client_reconnecting", 101, clients=(A,))], None),
    ([event("r", "client_reconnecting", 101, clients=(A,), last=109), evicted(105)], None),
    # Of several it is not known which of them was when.
    ([event("r", "client_reconnecting", 101, clients=(A, B), last=109, count=2), evicted(105)],
     UNCLEAR),
    ([evicted(100), event("o", "other", 105, clients=(A,))], EVICTED),
    ([evicted(100, "0@lo")], None),
    ([event("u", at=100, cause="unknown", count=23)], None),
], ids=range(19))
def test_one_connection(events, expected):
    rows = gone_after(*events)
    assert ({} if expected is None else dict([expected])) == {
        key: state for key, (state, _) in rows.items()}
    assert rows == gone_after(*reversed(events))


def test_each_client_and_each_target_is_of_its_own():
    assert {("nid00011", OST): ("evicted", 100), ("nid00012", OST): ("evicted", 100),
            ("nid00012", MDT): ("lost", 123)} == gone_after(
        evicted(100, A, B, last=107),
        event("m", "connection_lost", 123, "nid00012", target=MDT),
        own("connection_restored", 200, "nid00013"))


def test_clients_without_a_name_are_counted():
    found = Connections(lambda nid: nid)
    found.add(evicted(100, A, B, count=10_000, last=109))
    found.add(event("u", at=100, cause="unknown", count=23))
    assert [("scratch", OST, 109, 9_998, "oss1"), ("scratch", OST, 100, 23, "oss1")] == (
        found.unnamed)


def as_kmsg(path):
    """What /dev/kmsg gave when dmesg printed this file."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines()):
        found.append(b"4,%d,%d,-;%s\n" % (number, kernel_log.parse_dmesg_line(line).usec,
                                          line.partition(b"] ")[2]))
    return b"".join(found)


@pytest.mark.parametrize("path", samples("captures", "*/*/dmesg.txt") + samples(
    "captures", "*/*/*/dmesg.txt"))
def test_what_the_logs_of_a_real_lustre_say_is_how_its_connections_stand(tmp_path, path):
    """
    A target is `lost` where its `state` is neither FULL nor IDLE; without a row it is one of these.
    """
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(as_kmsg(path))
    found = Connections(lambda nid: nid)
    for one in Gathering(str(tmp_path), Config(), "a-node", "a-boot", None).scan().events:
        found.add(one)
    rows = {one.target: one.state for one in found.list_down() if one and one.node == "a-node"}
    states = {one.parent.name.rpartition("-")[0].rpartition("-")[0]: parse_state(
        one.read_bytes()).state for kind in ("osc", "mdc")
        for one in path.parent.glob(f"**/{kind}/*/state")}
    # One that was not mounted just then has no state.
    assert {target for target, state in states.items() if state not in CONNECTED} == {
        target for target in states if rows.get(target) == "lost"}


def test_a_real_client_that_was_killed(tmp_path):
    """The log has no line of OST0000, and no one has heard of c2 since."""
    (tmp_path / "dev").mkdir()
    log = shared("captures", "2.17.57-c", "s09_killed_and_evicted", "server", "dmesg.txt")
    (tmp_path / "dev/kmsg").write_bytes(as_kmsg(log))
    found = Connections(lambda nid: {"10.77.0.12@tcp": "c2"}.get(nid, nid))
    for one in Gathering(str(tmp_path), Config(), "server", "a-boot", None).scan().events:
        found.add(one)
    assert [("c2", "lustre-MDT0000", "evicted"), ("c2", "lustre-OST0001", "evicted")] == sorted(
        (one.node, one.target, one.state) for one in found.list_down() if one)


@pytest.mark.parametrize("last, heard_at", [(100, None), (107, None), (100, 123), (107, 99)])
def test_a_report_a_collector_and_nodes_down_show_the_same_time_of_an_eviction(last, heard_at):
    """
    That of the storage server's line, the first one of several in one event; not when the client
    learned of it, which its own clock may show to be earlier.
    """
    by_server = evicted(100, A, B, last=last)
    heard = [] if heard_at is None else [own("evicted", heard_at)]
    [(_, since)] = [found for (node, _), found in gone_after(by_server, *heard).items()
                    if node == "nid00011"]
    [trap] = [trap_text(CollectedEvent(23, 37, by_server, 0))]
    [listed], _ = job_events.list_events(
        [NodeEvent("nid00011", True, as_json(one)) for one in heard],
        [ServerEvent(by_server, ["nid00011"], 1)], ",".join)
    assert (100, 100.0) == (since, listed.time)
    assert trap.startswith(f"{datetime.fromtimestamp(100):%F %T} critical evicted {OST}")


class World:
    """Clients and targets, what happened to their connections, and what was told of it."""

    def __init__(self, dice, gap_s, tells):
        self.dice, self.now, self._gap_s, self._tells = dice, NOON, gap_s, tells
        self.nids = {f"10.9.0.{n}@tcp": f"nid{n:05}" for n in range(dice.randrange(1, 12))}
        self.targets = [f"scratch-OST{n:04x}" for n in range(dice.randrange(1, 4))]
        # Clocks, once they are corrected: to within a second.
        self.ahead = {name: dice.uniform(-0.95, 0.95)
                      for name in [*self.nids.values(), "oss0", "oss1"]}
        self.gone = {}                              # (nid, target): when, of those not connected
        self.told = []                              # (Event, (nid, target), is it gone, true time)
        self.events = {}

    def tell(self, kind, teller, target, about, is_gone, over=None, **fields):
        """A line of a log, folded with those of its 10 s."""
        if self.dice.random() > self._tells:
            return
        at = self.now + self.ahead[teller]
        nid, _ = about
        clients = () if teller.startswith("nid") else (nid,)
        origin = teller, target, at // 10, *([] if clients or not over else [at])
        new = event(origin, kind, at, teller, target=target, clients=clients,
                    over=over and over + self.ahead[teller], **fields)
        before = self.events.get(new.id)
        if before is not None:
            new = merge_copies(before, new)._replace(count=before.count + 1, over=new.over)
        self.events[new.id] = new
        # It is told of those that are named.
        if not clients or nid in new.clients:
            self.told.append((new.id, about, is_gone, over or self.now))

    def step(self):
        self.now += self._gap_s(self.dice)
        nid, target = about = self.dice.choice([*self.nids]), self.dice.choice(self.targets)
        node, server = self.nids[nid], f"oss{len(target) % 2}"
        if about not in self.gone:
            how = self.dice.choice(("silent", "lock", "lost"))
            self.gone[about] = how
            if how == "lost":
                self.tell("connection_lost", node, target, about, True)
            else:
                self.tell("evicted", server, target, about, True, cause=how)
            return
        how = self.gone.pop(about)
        if how == "lost":
            self.tell("connection_restored", node, target, about, False)
            if self.dice.random() < 0.5:
                self.tell("client_reconnecting", server, target, about, False)
        else:
            self.tell("evicted", node, target, about, False, over=self.now)


def rows_of(world, events):
    found = Connections(lambda nid: world.nids.get(nid, nid))
    for one in events:
        found.add(one)
    return {(one.node, one.target): one.state for one in found.list_down() if one}


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_said_is_never_wrong(seed):
    """
    In random histories, of which some is not told, some is folded, and messages come in any order
    and twice: "lost" and "evicted" only where the last that was told was that; no row only where
    the last that was told was a return.
    """
    dice = random.Random(seed)
    world = World(dice, lambda dice: dice.choice((0.01, 0.5, 3, 60)) * dice.random(),
                  dice.choice((1.0, 0.7)))
    for _ in range(dice.randrange(60)):
        world.step()
    came = {id for id in world.events if dice.random() < 0.9}
    events = [world.events[id] for id in [*came] * 2]
    dice.shuffle(events)
    rows = rows_of(world, events)
    last = {}
    for id, (nid, target), is_gone, at in world.told:
        if id in came:
            key = world.nids[nid], target
            last[key] = max(last.get(key, (0, True)), (at, is_gone))
    for key, state in rows.items():
        assert state == "unclear" or last[key][1], (key, state, last[key])
    for key, (_, is_gone) in last.items():
        assert not is_gone or key in rows, key


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32))
def test_where_all_is_told_it_is_the_truth(seed):
    """And nothing is unclear, where one thing happens after the other."""
    dice = random.Random(seed)
    world = World(dice, lambda dice: dice.uniform(11, 60), 1.0)
    for _ in range(dice.randrange(60)):
        world.step()
    events = [*world.events.values()]
    dice.shuffle(events)
    assert {(world.nids[nid], target): "lost" if how == "lost" else "evicted"
            for (nid, target), how in world.gone.items()} == rows_of(world, events)
