"""
What the doctor says of a client's targets.
"""
from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import shared

from iostats.base.errors import is_printable
from iostats.doctor import targets
from iostats.lustre import import_files
from iostats.lustre.paths import File

NAME = "scratch-OST0003-osc-ffff9a3c5d1e0800"


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def of(*parts):
    root = str(shared("captures", *parts))
    return [(one.state, one.name, one.text, one.fix)
            for one in targets.examine(import_files.read(root), root)]


def test_an_ost_that_is_down():
    """It was stopped at 01:39:14 (1795225154); tried 5 times since."""
    found = of("2.17.57", "s18_ost1_down")
    assert ("problem", "target lustre-OST0001",
            "DISCONN: no connection; 2026-11-21 01:38:26 RECOVER, 01:38:26 FULL, 01:39:14 DISCONN, "
            "5 tries until 01:39:40; 7 tries since the mount; its storage server is 0@lo",
            "lctl ping 0@lo") == found[0]
    assert [("note", "target lustre-MDT0000"), ("note", "target lustre-OST0002")] == [
        one[:2] for one in found[1:]]
    assert "FULL now; it evicted this node once, last at 2026-11-21 01:39:09" == found[2][2]


def test_an_ost_that_is_deactivated():
    assert ("note", "connections", "deactivated by an administrator: lustre-OST0002", "") in of(
        "2.16.1", "s17_ost2_inactive")


def test_idle_targets_are_well():
    assert [("ok", "connections", "3 targets are connected (FULL or IDLE)", "")] == of(
        "2.17.57-c", "s09_killed_and_evicted", "c1")


def files(state, more="", code=0):
    path = "-" if code else f"sys/kernel/debug/lustre/osc/{NAME}/state"
    return [File("state", NAME, path, code, state), File("import", NAME, "-", code, more)]


def test_a_node_without_lustre_has_no_line():
    assert [] == targets.examine([], "/nonexistent")
    assert [] == targets.examine([File("state", "scratch-OST0000-osc-MDT0000", "-", 0, "")], "/x")


def test_what_may_not_be_read_is_said_with_who_may():
    [found] = targets.examine(files("", code=13), "/nonexistent")
    assert ("note", "how 1 target is connected is unknown: permission denied") == (
        found.state, found.text)
    assert found.fix == ("sudo iostats doctor" if os.geteuid() else "")


@pytest.mark.parametrize("state, expected", [
    ("REPLAY_WAIT", "note"), ("EVICTED", "note"), ("DISCONN", "problem"), ("NEW", "problem"),
    ("CONNECTING", "problem")])
def test_what_ends_by_itself_is_no_problem(state, expected):
    [found] = targets.examine(files(f"current_state: {state}\nstate_history:\n"), "/nonexistent")
    assert (expected, "target scratch-OST0003") == (found.state, found.name)
    assert bool(found.fix) == (expected == "problem")


def test_many_that_are_away_are_counted():
    away = [one._replace(name=one.name.replace("0003", f"{n:04x}"))
            for n in range(1000) for one in files("current_state: DISCONN\n")]
    found = targets.examine(away, "/nonexistent")
    assert (11, "990 more are not connected") == (len(found), found[-1].text)


@given(st.text(max_size=200) | st.builds("current_state: {}\nstate_history:\n{}".format,
                                         st.sampled_from(["FULL", "DISCONN", "X"]),
                                         st.text(max_size=90)),
       st.integers(-2**63, 2**63))
def test_odd_files_are_a_line_each(text, when):
    text = f"{text}\n - [ {when}, EVICTED ]\n".encode("utf-8", "replace").decode("latin-1")
    for found in targets.examine(files(text, text), "/nonexistent"):
        assert is_printable(found.text) and len(found.text) < 600 and "\n" not in found.text
