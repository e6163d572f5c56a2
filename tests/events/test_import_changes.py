"""
From one look at a client's imports to the next, by what the one leaves for the other.
"""
from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import put

from iostats.base import config as site
from iostats.events import event
from iostats.events.gather import Gathering
from iostats.events.import_changes import find_changes, is_connected, make_unparsed_state
from iostats.events.sources import Place, imports, list_sources
from iostats.lustre.paths import File

NAME = "scratch-OST0003-osc-ffff9a3c5d1e0800"
FULL = "current_state: FULL\nstate_history:\n - [ 1000, CONNECTING ]\n - [ 1000, FULL ]\n"
LOST = FULL.replace("current_state: FULL", "current_state: DISCONN") + " - [ 1023, DISCONN ]\n"
BACK = LOST.replace("DISCONN\n", "FULL\n", 1) + (
    " - [ 1060, CONNECTING ]\n - [ 1060, RECOVER ]\n - [ 1060, FULL ]\n")


def files(state, more="", name=NAME):
    return [File("import", name, "a/import", 0, more), File("state", name, "a/state", 0, state)]


def scan(state, before, **of_file):
    """What a look finds, and what it leaves, through JSON."""
    seen = find_changes(files(state, **of_file), before, "boot", "nid1", 2000.0)
    return [(one.kind, one.time, one.over) for one in seen.events], json.loads(
        json.dumps(seen.state))


def test_three_looks_tell_one_outage():
    first, state = scan(FULL, make_unparsed_state(files(FULL)))
    second, state = scan(LOST, state)
    third, state = scan(LOST, state)
    fourth, state = scan(BACK, state)
    last, _ = scan(BACK, state)
    assert [] == first == last
    assert [("connection_lost", 1023, None)] == second == third
    assert [("connection_lost", 1023, 1060), ("connection_restored", 1060, None)] == fourth


def test_the_same_events_have_the_same_ids_at_any_look():
    once = find_changes(files(BACK), make_unparsed_state(files(FULL)), "boot", "nid1",
                        1070.0).events
    other = find_changes(files(BACK), make_unparsed_state(files(LOST)), "boot", "nid1",
                         1999.0).events
    assert [one.id for one in once] == [one.id for one in other]
    assert not {one.id for one in once} & {
        one.id for one in find_changes(files(BACK), {}, "next boot", "nid1", 1070.0).events}


def test_the_first_look_of_all_tells_what_a_history_has_and_no_counts():
    text = "import:\n    rpcs:\n       timeouts: 37\n"
    assert ["connection_lost", "connection_restored"] == [
        kind for kind, *_ in scan(BACK, None, more=text)[0]]
    assert "timeouts" in [kind for kind, *_ in scan(BACK, {}, more=text)[0]]


@pytest.mark.parametrize("state, connected", [(FULL, True), (LOST, False), (
    FULL.replace("FULL", "IDLE", 1), True)])
def test_who_is_connected(state, connected):
    assert connected == is_connected(scan(state, {})[1][NAME])


def test_another_storage_servers_connection_is_no_clients():
    assert [] == scan(LOST, {}, name="scratch-OST0003-osc-MDT0000")[0]


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
                    lambda one: st.lists(one, max_size=7) | st.dictionaries(
                        st.sampled_from([NAME, "a"]), one)))
def test_any_state_of_a_look_before_will_do(value):
    """A file can be damaged; what is told can be sent all the same."""
    for before in (value, {NAME: value}, {NAME: [LOST, "", value]},
                   {NAME: [LOST, "", [False, value, None, False, False, False]]},
                   {NAME: [LOST, "", [False, ["evicted", 1, 1, value, 1, ["a"], "b"], value, 0, 0,
                                      0]]}):
        found = imports.scan(Place("/nonexistent", site.load("/dev/null", environ={}), "nid1",
                                   "boot", {}), before, 2000.0)
        assert ([], {}, {}) == found
        if isinstance(before, dict):
            for one in find_changes(files(BACK), before, "boot", "nid1", 2000.0).events:
                assert one == event.from_json(event.as_json(one))


def test_it_is_a_source_of_clients_alone():
    assert "imports" in list_sources(("client",)) and "imports" not in list_sources(("server",))


def test_who_gathers_takes_an_activation_for_none(tmp_path):
    """By the log; what happens to another target at the same time is told."""
    up = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = int(time.time())
    other = NAME.replace("0003", "0007")
    put(tmp_path, "dev/kmsg", "".join(
        f"4,{number},{int((up - ago) * 1e6)},-;Lustre: {text}\n"
        for number, (ago, text) in enumerate((
            (13, "setting import scratch-OST0003_UUID INACTIVE by administrator request"),
            (3, f"{NAME}: Connection to scratch-OST0003 (at 10.9.0.3@o2ib) was lost; in progress "
                  "operations using this service will wait for recovery to complete"),
            (2, f"{NAME}: This client was evicted by scratch-OST0003; in progress operations "
                  "using this service will fail."),
            (1, f"{NAME}: Connection restored to 10.9.0.3@o2ib (at 10.9.0.3@o2ib)")))))
    for name in (NAME, other):
        put(tmp_path, f"proc/fs/lustre/osc/{name}/state", FULL + "".join(
            f" - [ {now - ago}, {state} ]\n" for ago, state in (
                (3, "DISCONN"), (3, "CONNECTING"), (2, "EVICTED"), (1, "RECOVER"), (1, "FULL"))))
    found = Gathering(str(tmp_path), site.load("/dev/null", environ={}), "nid1", "boot").scan()
    assert {("connection_lost", "scratch-OST0007"), ("evicted", "scratch-OST0007"),
            ("connection_restored", "scratch-OST0007")} == {
        (one.kind, one.target) for one in found.events}
