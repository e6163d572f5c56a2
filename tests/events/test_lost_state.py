"""
A state that is lost, damaged or of another release: what is new has no id that something old had.
"""
from __future__ import annotations

import json

import pytest
from server_files import BOOT, ServerFiles, complete, recovering

from iostats.base.config import Config
from iostats.events.event import make_event_id
from iostats.events.gather import Gathering
from iostats.events.server_reading import read_server
from iostats.events.sources import evictions, recovery, targets

OST = "scratch-OST0003"
T = 1_795_333_400.0


class Agent:
    """Begins anew, and tells, as often as it is called; the state is in `state`."""

    def __init__(self, root):
        self.server = ServerFiles(root, "2.17")
        self.state = root / "state"
        self.unused = []

    def begin(self):
        self._gathering = Gathering(str(self.server.root), Config(), "oss1", BOOT,
                                    str(self.state), ("server",))
        return self

    def scan(self, now, is_told=True):
        """{kind: [id]}"""
        found = {}
        for one in self._gathering.scan(now).events:
            found.setdefault(one.kind, []).append(one.id)
        if is_told:
            self._gathering.acknowledge()
        self.unused += self._gathering.unused
        self._gathering.unused.clear()
        return found


@pytest.fixture
def agent(tmp_path):
    return Agent(tmp_path)


def without(key, of=None):
    def change(state):
        kept = json.loads(state.read_text())
        del (kept if of is None else kept[of])[key]
        state.write_text(json.dumps(kept))
    return change


def with_health(value):
    def change(state):
        kept = json.loads(state.read_text())
        kept["sources"]["health"] = value
        state.write_text(json.dumps(kept))
    return change


def of_version(number):
    def change(state):
        state.write_text(json.dumps({**json.loads(state.read_text()), "version": number}))
    return change


LOSSES = {"gone": lambda state: state.unlink(), "cut": lambda state: state.write_bytes(b'{"vers'),
          "later": of_version(37), "other": of_version("a"), "no boot": without("boot_id"),
          "no sources": without("sources"), "no health": without("health", "sources"),
          "null": with_health(None), "another form": with_health([23]),
          "no series": without("health", "series")}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_state_gives_no_new_event_an_old_id(agent, loss):
    agent.server.start("MGS")
    old = []
    for at in range(3):
        agent.begin().scan(T + 100 * at)
        agent.server.health("NOT HEALTHY")
        agent.server.stop("MGS")
        found = agent.scan(T + 100 * at + 23)
        assert {"not_healthy", "target_down"} == set(found)
        agent.server.health("healthy")
        agent.server.start("MGS")
        ended = agent.scan(T + 100 * at + 41)
        assert found["not_healthy"] == ended["not_healthy"]
        assert {"healthy", "target_up"} <= set(ended)
        old += [*found["not_healthy"], *found["target_down"], *ended["healthy"],
                *ended["target_up"]]
        LOSSES[loss](agent.state)
    assert 12 == len(old) == len(set(old))


def test_what_the_first_look_found_has_its_id_after_a_kill(agent):
    agent.server.health("NOT HEALTHY")
    first = agent.begin().scan(T, is_told=False)
    assert first == agent.begin().scan(T + 10)
    agent.server.health("healthy")
    assert first["not_healthy"] == agent.begin().scan(T + 20)["not_healthy"]


def test_a_state_of_the_release_before_goes_on_with_its_ids(agent):
    agent.begin().scan(T)
    kept = json.loads(agent.state.read_text())
    for key in ("series", "held", "end", "lines"):
        del kept[key]
    kept["version"] = 1
    kept["sources"]["health"] = {"times": 41, "open": ["NOT HEALTHY", [], T - 23]}
    agent.state.write_text(json.dumps(kept))
    found = agent.begin().scan(T + 10)
    assert {"not_healthy": [make_event_id(BOOT, "health", "NOT HEALTHY", "41")],
            "healthy": [make_event_id(BOOT, "health", "healthy", "41")]} == found
    assert [] == agent.unused


@pytest.mark.parametrize("key", ["held", "pending", "untold", "joined", "grouper", "position",
                                 "anchors", "end", "lines", "lost"])
def test_a_key_that_is_not_there_has_its_default(agent, key):
    agent.begin().scan(T)
    agent.server.health("NOT HEALTHY")
    [id_] = agent.scan(T + 10)["not_healthy"]
    without(key)(agent.state)
    agent.server.health("healthy")
    assert [id_] == agent.begin().scan(T + 20)["not_healthy"]
    assert [] == agent.unused


@pytest.mark.parametrize("loss, says", [
    ("gone", None), ("cut", "cannot be used: JSONDecodeError: "),
    ("later", "cannot be used: ValueError: expected a state of version 1 to 2; "),
    ("another form", "its state of health cannot be used; ")])
def test_what_could_not_be_used_is_said_once(agent, loss, says):
    agent.begin().scan(T)
    LOSSES[loss](agent.state)
    agent.begin().scan(T + 10)
    agent.scan(T + 20)
    assert (says is not None) == len(agent.unused)
    assert all(f"{agent.state}: {says}" in line and line.isprintable() and len(line) < 500
               and "since the last scan are not reported" in line for line in agent.unused)


# -- without a loss: what has no instance is counted, also while it is not here

class Looks:
    def __init__(self, source, server):
        self.source, self.server, self.state = source, server, None

    def __call__(self, now, kept=True):
        found = self.source.detect(read_server(str(self.server.root)), self.server.place,
                                   self.state, now)
        if kept:
            self.state = json.loads(json.dumps(found.state))
        return [one.id for one in found.events]


def test_an_mgs_that_comes_back_evicts_others(tmp_path):
    server = ServerFiles(tmp_path, "2.17")
    server.start("MGS", evictions=7)
    looks, old = Looks(evictions, server), []
    assert [] == looks(T)
    for at in range(1, 4):
        server.stop("MGS")
        assert [] == looks(T + 100 * at) == looks(T + 100 * at + 10)
        server.start("MGS", evictions=3)
        found = looks(T + 100 * at + 20, kept=False)
        assert found == looks(T + 100 * at + 30)
        old += found
        server.show("MGS", evictions=2)             # started again between two looks
        old += looks(T + 100 * at + 40)
    assert 6 == len(old) == len(set(old))


def test_recoveries_without_an_instance_are_each_another(tmp_path):
    server = ServerFiles(tmp_path, "2.17")
    server.start(OST, instance="")
    looks, old = Looks(recovery, server), []
    assert [] == looks(T)
    for at in range(1, 4):
        server.stop(OST)
        assert [] == looks(T + 100 * at) == looks(T + 100 * at + 10)
        server.start(OST, instance="", recovery=recovering(int(T) + 100 * at, 53, 23, 41))
        found = looks(T + 100 * at + 20, kept=False)
        assert found == looks(T + 100 * at + 30)
        server.show(OST, recovery=complete(int(T) + 100 * at, 31, 41, 41))
        assert found == looks(T + 100 * at + 40)
        old += found
    assert 3 == len(old) == len(set(old))


def test_a_target_that_was_forgotten_is_another_one_when_it_goes_again(tmp_path):
    server = ServerFiles(tmp_path, "2.17")
    server.start("MGS")
    looks, old = Looks(targets, server), []
    assert [] == looks(T)
    for at in range(3):
        now = T + at * 2 * targets.FORGET_S
        server.stop("MGS")
        old += looks(now + 23)
        assert [] == looks(now + 37 + targets.FORGET_S)
        server.start("MGS")
        old += looks(now + 41 + targets.FORGET_S)
    assert 6 == len(old) == len(set(old))
