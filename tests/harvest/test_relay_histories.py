"""
Whatever happens on the way of what is relayed, a cluster has each client's amounts once: kills of
either server at any step, lost answers, damaged and lost spools, a full one.

The two servers are in this process; what is between them is a function.
"""

import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from client_messages import ClientAgent, by_kind
from examples import examples
from harvest_inside import BEGAN, HarvestInside
from hypothesis import given, settings
from hypothesis import strategies as st
from relay_desk import added

from iostats.base.cooperative import run_to_end
from iostats.base.errors import NotDelivered
from iostats.harvest.relay.incoming import RelaysFrom
from iostats.harvest.relay.outgoing import Relays
from iostats.server.rpc_server import RelayCaller
from iostats.storage import delivery
from iostats.wire.messages.clients_encoder import LEFT, UNREADABLE
from iostats.wire.messages.sweep_decoder import PackedSweep

OURS, ALSO, THEIRS = "10.9.0.11@o2ib2", "10.9.0.12@o2ib2", "10.5.0.23@tcp5"
SERVERS, EVERY_S = ("oss1", "oss2"), 20
NOTHING = (0,) * 6


@pytest.fixture(autouse=True, scope="module")
def _at_once():
    """Another try needs no pause, and a call no thread: sqlite's objects stay in theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "_FIRST_PAUSE_S", 0.0)
        patch.setattr(delivery, "_LONGEST_PAUSE_S", 0.0)
        patch.setattr(delivery.auth, "call_with_timeout", lambda within_s, what, action: action())
        yield


class TwoSites:
    """A server that relays, that of a cluster, and the storage servers' agents."""

    def __init__(self, directory, spool_bytes=1 << 30, lnets="o2ib2", ahead_s=None):
        """`ahead_s`: the relay's clock less the cluster's; None: it never hears of it."""
        self.directory, self.ahead_s, self.choices = directory, ahead_s, {
            "site_relay_name": "alkindi", "site_relay_secrets": directory / "secrets",
            "site_relay_spool_dir": directory / "spool", "site_relay_spool_bytes": spool_bytes}
        self.lnets = lnets
        self.is_away = self.loses_answer = False
        self.said, self.relays = [], None
        self.alkindi = HarvestInside(directory / "alkindi.sqlite", **self.choices)
        self.xe = HarvestInside(directory / "xe.sqlite",
                                site_relay_secrets=directory / "secrets")
        self.agents = {name: ClientAgent(name, every=EVERY_S) for name in SERVERS}
        self.did = {}                           # {NID: [of CLIENT_METRICS]}
        self.begin()
        self.allow("o2ib2")
        delivery.client.call = self.call

    def begin(self):
        """The relay's server starts."""
        config = self.alkindi.config
        config.free["relay"] = {self.lnets: "xe.example xe"}
        config.origin[f"relay.{self.lnets}"] = "a test"
        self.relays = self.alkindi.harvest.relays = Relays(
            config, self.said.append, lambda: self.alkindi.now)
        [self.to] = self.relays.destinations

    def allow(self, lnets):
        """The cluster's server lets the relay speak of these clients."""
        config = self.xe.config
        config.free["relay_from"] = {"alkindi": f"gdata; {lnets}"}
        config.origin["relay_from.alkindi"] = "a test"
        self.hears = RelaysFrom(config, lambda: self.xe.now)

    def call(self, host, port, name, signs, node, method, params, *within, learn=None):
        """What the cluster's server answers."""
        assert (host, node, method) == ("xe.example", "alkindi", "packed_clients")
        if self.is_away:
            raise NotDelivered("away")
        if self.ahead_s is not None:                # the relay may have waited
            self.xe.now = self.to.clock.now()
        answer = self.hears.answer(self.xe.harvest, PackedSweep(2, params), RelayCaller(node, None))
        self.xe.store.commit()
        if self.loses_answer:
            self.loses_answer = False
            raise NotDelivered("the answer was lost")
        return answer

    def sweep(self, server, gains, **fields):
        """A storage server's next sweep: {NID: amounts}."""
        self.alkindi.now += EVERY_S / 2
        self.xe.now = self.alkindi.now - (self.ahead_s or 0.0)
        slot = self.alkindi.now // EVERY_S * EVERY_S
        message = self.agents[server].message(slot, by_kind("gdata", gains), **fields)
        answer = self.alkindi.tell(server, message)
        if not answer["taken"]:
            self.agents[server].again()
            message = self.agents[server].message(slot, by_kind("gdata", dict.fromkeys(
                gains, NOTHING)), **fields)
            assert self.alkindi.tell(server, message)["taken"]
        for nid, amounts in gains.items():
            self.did[nid] = added(self.did.get(nid, NOTHING), amounts)

    def turn(self):
        """Both servers do what there is to do."""
        self.alkindi.turn()
        if self.ahead_s is not None:                # its time goes on by steps
            self.to.clock.learn(time.time() - self.xe.now)
        for _ in range(20):
            self.to.store_and_send(0.0)
        self.xe.turn()

    def kill_relay(self):
        self.relays.close()
        self.alkindi.again()
        self.begin()

    def stop_relay(self):
        """An orderly end, and another start."""
        self.alkindi.harvest.close()
        self.kill_relay()

    def first_sweeps(self):
        """All clients are known, and have done nothing."""
        for server in SERVERS:
            self.sweep(server, dict.fromkeys((OURS, ALSO, THEIRS), NOTHING))
        self.turn()

    def last_sweeps(self):
        """Until nothing waits."""
        self.is_away = self.loses_answer = False
        for _ in range(3):
            for server in SERVERS:
                self.sweep(server, dict.fromkeys((OURS, ALSO, THEIRS), NOTHING))
            self.turn()
        assert not list((self.directory / "spool/xe").glob("*.message"))

    def of(self, desk, since=BEGAN, until=BEGAN + 10**6):
        """{NID: ClientTotals} of a server."""
        return {nid: one for (fs, nid), one in run_to_end(desk.harvest.clients.between(
            since, until, "gdata", [OURS, ALSO, THEIRS])).items()}

    def check(self):
        """The cluster has its own clients' amounts, all and once; and what may be missing."""
        ours, theirs = self.of(self.alkindi), self.of(self.xe)
        for nid in (OURS, ALSO):
            assert theirs[nid].low == ours[nid].low == list(self.did[nid]), nid
        assert THEIRS not in theirs
        for loss in self.losses(self.alkindi):
            assert loss in self.losses(self.xe)

    def losses(self, desk):
        """{(since, until, target, nid, why)} of the cluster's clients."""
        return {(one.since, one.until, one.target, one.nid, one.why)
                for one in (loss for node in desk.harvest.agents
                            for loss in desk.harvest.clients.list_losses(node, "gdata", 0.0))
                if one.nid != THEIRS}

    def close(self):
        self.relays.close()
        for desk in (self.alkindi, self.xe):
            desk.store.close()


def damage(sites, number):
    """A file of the spool is overwritten."""
    found = sorted((sites.directory / "spool/xe").glob("*.message"))
    if found:
        found[number % len(found)].write_bytes(b"not what it was")


def run(steps, directory, **how):
    """
    Let this happen: [(what, a number)]; then all is well again, and is looked at.  What was logged.
    """
    call = delivery.client.call
    sites = TwoSites(Path(directory), **how)
    try:
        sites.first_sweeps()
        for what, number in steps:
            if what == "io":
                nid = (OURS, ALSO, THEIRS)[number % 3]
                sites.sweep(SERVERS[number // 3 % 2], {nid: (
                    41_003 + number, 53_007, 23, 37, 43, 61)})
            elif what == "loss":
                now = sites.alkindi.now
                sites.sweep(SERVERS[number % 2], {OURS: NOTHING}, losses=[{
                    "since": now - 3, "until": now, "target": "OST0000", "why": f"reason {number}",
                    "nid": (OURS, THEIRS, "")[number % 3]}])
            elif what == "turn":
                sites.turn()
            elif what == "kill relay":
                sites.kill_relay()
            elif what == "kill cluster":
                sites.xe.again()
            elif what == "away":
                sites.is_away = True
            elif what == "back":
                sites.is_away = False
            elif what == "lose answer":
                sites.loses_answer = True
            elif what == "damage":
                damage(sites, number)
            elif what == "lose spool":
                sites.relays.close()
                shutil.rmtree(sites.directory / "spool")
                sites.kill_relay()
        sites.last_sweeps()
        sites.check()
        return sites.said
    finally:
        delivery.client.call = call
        sites.close()


_WHAT = ("io", "io", "io", "loss", "turn", "turn", "kill relay", "kill cluster", "away", "back",
         "lose answer", "damage", "lose spool")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(_WHAT), st.integers(0, 40)), max_size=40))
def test_amounts_are_counted_once_and_losses_are_told_whatever_happens(steps):
    with tempfile.TemporaryDirectory() as directory:
        run(steps, directory)


def test_what_waits_too_long_is_dropped_and_amounts_stay_exact(tmp_path):
    """A spool of 1 MiB has place for some 250 messages; what is left of it can be used."""
    steps = [("io", 0), ("turn", 0), ("away", 0)]
    chance = random.Random(23)
    steps += [step for _ in range(700) for step in (("io", chance.randrange(40)), ("turn", 0))]
    said = run([*steps, ("kill relay", 0), ("io", 4)], tmp_path, spool_bytes=1 << 20)
    assert any("the oldest messages are dropped" in line for line in said)


def test_clients_that_are_told_of_later_bring_no_amounts_of_before(tmp_path):
    """Neither where the relay tells of more networks, nor where the cluster lets it."""
    call = delivery.client.call
    sites = TwoSites(tmp_path)
    try:
        sites.first_sweeps()
        some, more = (41_003, 53_007, 23, 37, 43, 61), (1009, 0, 11, 0, 3, 7)
        sites.sweep("oss1", {OURS: some, THEIRS: some})
        sites.turn()
        sites.relays.close()
        sites.lnets = "o2ib2 tcp5"                      # the relay's administrator
        sites.kill_relay()
        sites.last_sweeps()
        sites.allow("o2ib2 tcp5")                       # the cluster's
        sites.last_sweeps()
        assert sites.of(sites.xe)[OURS].low == list(some)
        since = sites.xe.now
        sites.sweep("oss1", {OURS: more, THEIRS: more})
        sites.last_sweeps()
        found = sites.of(sites.xe)
        assert found[OURS].low == added(some, more) and found[THEIRS].low == list(more)
        assert "the relay reports other clients than before" in found[OURS].why[0]
        assert not [why for why in sites.of(sites.xe, since)[OURS].why if "relay" in why]
    finally:
        delivery.client.call = call
        sites.close()


@pytest.mark.parametrize("ahead_s", [0.3, -0.3, 607.3, -607.3])
def test_times_are_by_the_clusters_clock(tmp_path, ahead_s):
    """Moments of sweeps too: multiples of the interval there, and none in its future."""
    call = delivery.client.call
    sites = TwoSites(tmp_path, ahead_s=ahead_s)
    try:
        sites.first_sweeps()
        sites.last_sweeps()
        some, more, moments = (41_003, 53_007, 23, 37, 43, 61), (1009, 0, 11, 0, 3, 7), []
        for amounts in (some, more):
            sites.sweep("oss1", {OURS: amounts})
            moments.append(sites.alkindi.now // EVERY_S * EVERY_S + 0.25 - ahead_s)     # read then
            sites.turn()
            sites.sweep("oss2", {OURS: NOTHING})
            sites.turn()
        sites.last_sweeps()
        for began, ended, low in ((moments[0] - 30, moments[0] + 1, some),
                                  (moments[0] - 1, moments[1] + 1, more)):
            found = sites.of(sites.xe, began, ended)[OURS].low
            assert found == list(low), (began, ended, found)
        for agent in sites.xe.harvest.agents.values():
            assert agent.slot % EVERY_S == 0 and sites.xe.now - 2 * EVERY_S < agent.slot <= (
                sites.xe.now)
    finally:
        delivery.client.call = call
        sites.close()


def test_a_storage_server_whose_targets_another_one_reads_now_is_not_told_of_at_each_start(
        tmp_path):
    """After a failover, or under another name; what the cluster lacks of it, it is told once."""
    call = delivery.client.call
    sites = TwoSites(tmp_path)
    try:
        sites.first_sweeps()
        some, more = (41_003, 53_007, 23, 37, 43, 61), (1009, 0, 11, 0, 3, 7)
        less = (0, 8117, 0, 5, 2, 3)
        sites.agents["mgmt1"] = ClientAgent("mgmt1", every=EVERY_S, targets={
            ("gdata", kind): [f"{kind}0123"] for kind in ("OST", "MDT")})
        sites.agents["oss3"] = ClientAgent("oss3", every=EVERY_S,
                                           targets=sites.agents["mgmt1"].targets)
        sites.sweep("mgmt1", {OURS: NOTHING})
        sites.turn()
        sites.is_away = True
        sites.sweep("mgmt1", {OURS: some})
        sites.relays.close()
        shutil.rmtree(sites.directory / "spool")
        sites.stop_relay()
        sites.alkindi.now += 10 * EVERY_S
        sites.sweep("oss3", {OURS: NOTHING})
        sites.is_away = False
        sites.stop_relay()
        for gains in (NOTHING, more):
            for _ in range(4):
                sites.turn()
            sites.sweep("oss3", {OURS: gains})
        for _ in range(4):
            sites.turn()
        heard = sites.xe.harvest.agents["mgmt1@alkindi"].received_at
        assert sites.of(sites.xe)[OURS].low == added(some, more)
        for _ in range(3):
            sites.stop_relay()
            sites.turn()
            sites.sweep("oss3", {OURS: less})
            for _ in range(4):
                sites.turn()
        assert sites.of(sites.xe)[OURS].low == added(some, more, less, less, less)
        assert not [line for line in sites.said if "full sweep" in line], sites.said
        assert sites.xe.harvest.agents["mgmt1@alkindi"].received_at == heard
    finally:
        delivery.client.call = call
        sites.close()


def test_a_cluster_marks_what_the_relay_marks_and_no_more(tmp_path):
    """A file that could not be read for a sweep, and a target that was started once meanwhile."""
    call, target = delivery.client.call, {"targets": ["OST0001"]}
    sites = TwoSites(tmp_path)
    try:
        nothing = dict.fromkeys((OURS, ALSO), NOTHING)
        sites.sweep("oss1", nothing, instances={"OST0001": 7}, **target)
        sites.sweep("oss2", nothing, targets=["OST0002"])
        sites.turn()
        began = sites.alkindi.now
        sites.sweep("oss1", {ALSO: (0, 37, 0, 1, 0, 0)}, instances={"OST0001": 7},
                    unread={"OST0001": [OURS, THEIRS]}, **target)
        sites.sweep("oss2", {OURS: NOTHING}, targets=["OST0002"])
        sites.turn()
        for desk, name in ((sites.alkindi, "oss1"), (sites.xe, "oss1@alkindi")):
            found = sites.of(desk, began, began + 5)
            marked = [f"{name}: gdata-OST0001: {UNREADABLE}" in found[nid].why
                      for nid in (OURS, ALSO)]
            assert [True, False] == marked
        sites.sweep("oss1", {OURS: (0, 41, 0, 1, 0, 0)}, instances={"OST0001": 7}, **target)
        sites.sweep("oss2", {OURS: NOTHING}, targets=["OST0002"])
        sites.turn()
        left_at = sites.alkindi.now
        sites.sweep("oss1", {OURS: NOTHING}, targets=[], losses=[{
            "since": left_at - 9, "until": left_at, "target": "OST0001", "nid": "", "why": LEFT}])
        sites.sweep("oss2", {OURS: NOTHING}, targets=["OST0002"])
        sites.sweep("oss1", {OURS: NOTHING}, targets=[])
        sites.sweep("oss2", {OURS: (0, 43, 0, 1, 0, 0)}, targets=["OST0001", "OST0002"],
                    instances={"OST0001": 8}, started={"OST0001": left_at + 3})
        sites.turn()
        marked = [{(one.since, one.until) for node in desk.harvest.agents
                   for one in desk.harvest.clients.list_losses(node, "gdata", 0.0)
                   if one.why == LEFT} for desk in (sites.alkindi, sites.xe)]
        assert marked[0] == marked[1] and 1 == len(marked[0])
        for desk in (sites.alkindi, sites.xe):
            found = sites.of(desk, began - 60, left_at + 60)[OURS]
            assert 84 == found.low[1] and not any(UNREADABLE in why for why in found.why)
    finally:
        delivery.client.call = call
        sites.close()
