"""
What went wrong on a job's nodes, in the report of its own server: nodes as real commands, and what
a rank sends of many nodes.
"""
from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import Desk, put
from test_job_totals_merge import JOBS, added

from iostats.base import config
from iostats.report import job_tables
from iostats.report.node_sets import fold_nodes
from iostats.totals.job_totals import Totals
from iostats.wire.messages.totals import TotalsState

DESK = Desk
OSC = "proc/fs/lustre/osc/scratch-OST0003-osc-ffff9a3c5d1e0800"


def state(*history):
    return (f"current_state: {history[-1][1]}\nstate_history:\n"
            + "".join(f" - [ {at}, {name} ]\n" for at, name in history))


def test_an_eviction_of_one_node_is_in_the_jobs_report(desk):
    """Lost, evicted and connected again 37 s later, by nid00002's own history."""
    server = desk.server("--nodes", "nid[00001-00002]", "--json", "record")
    desk.whole_job(server, "nid00001")
    root = desk.tree("nid00002", write_bytes=23)
    put(root, f"{OSC}/state", state((1000, "CONNECTING"), (1000, "FULL")))
    assert 0 == desk.client("start", *desk.on("nid00002", root)).status
    at = 4_000_000_000                          # behind all that was, whatever the clock says
    put(root, f"{OSC}/state", state((1000, "CONNECTING"), (1000, "FULL"), (at, "DISCONN"),
                                    (at + 23, "CONNECTING"), (at + 23, "EVICTED"),
                                    (at + 60, "RECOVER"), (at + 60, "FULL")))
    desk.client("stop", "--server", f"127.0.0.1:{server.port}", *desk.on("nid00002", root))
    out = server.wait().out
    record = json.loads((desk.directory / "record").read_text())
    [evicted] = [one for one in record["events"] if one["kind"] == "evicted"]
    assert ("nid00002", "scratch-OST0003", 37.0, "nodes", True) == tuple(
        evicted[name] for name in ("nodes", "target", "longest_s", "told_by", "is_certain"))
    assert "Events during this job:" in out and "evicted" in out


def state_of(totals):
    return json.loads(json.dumps(totals.state()))


@given(JOBS)
def test_what_a_rank_sends_of_events_is_accepted_as_it_is(job):
    """The checks of the message change nothing of what a rank has added up."""
    totals = added(job)
    found = msgspec.json.decode(json.dumps(totals.state()), type=TotalsState)
    again = Totals("4711", fold=",".join).restore(msgspec.to_builtins(found))
    assert json.dumps(totals.record()) == json.dumps(again.record())


HEAD = [True, 2, "evicted", "", "scratch", "scratch-OST0003", "evicted"]
ROW = ["nid00001", 1, 0, "0" * 16, 23.5, 23.5, None, 1]


def with_events(*events):
    totals = Totals("4711")
    found = state_of(totals)
    found.update(without={"nid00001": "no start"}, events=list(events))
    return json.dumps(found)


@pytest.mark.parametrize("events, said", [
    ((1, [], [HEAD], [["nid00009", *ROW[1:]]]), "expected no other nodes, got 'nid00009'"),
    ((1, [["nid00009", "23", 1]], [], []), "expected no other nodes, got 'nid00009'"),
    ((0, [], [HEAD], [ROW]), "expected no more events than were reported"),
    ((1, [], [HEAD], [[*ROW[:2], 1, *ROW[3:]]]), "expected numbers of `heads`"),
    ((1, [], [], [ROW]), "expected numbers of `heads`"),
    ((1, [], [HEAD], [[*ROW[:3], "x", *ROW[4:]]]), "events"),
    ((1, [], [[True, 7, *HEAD[2:]]], []), "events"),
    ((1, [], [[*HEAD[:6], "x" * 501]], []), "events"),
    ((-1, [], [], []), "events"), ((1, [["nid00001", "23", -1]], [], []), "events"),
    ((200_000, [], [HEAD], [ROW] * 20_001), "events"), ((1, []), "events"), ((), "events")],
    ids=["another node", "dropped by another node", "more than told", "a number", "no head",
         "an id", "a severity", "a long message", "less than none told", "less than none dropped",
         "too many", "a part", "nothing"])
def test_what_no_rank_sends_is_refused(events, said):
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.json.decode(with_events(*events), type=TotalsState)


def test_what_it_says_is_fit_for_a_terminal():
    head = [True, 2, "\x9b", "", "scratch", "\x07", "a\x1b[2Jb"]
    found = msgspec.json.decode(with_events(1, [], [head], [ROW]), type=TotalsState)
    totals = Totals("4711", fold=fold_nodes).restore(msgspec.to_builtins(found))
    text = job_tables.format_report(job_tables.add_labels(totals.record(), config.Config()),
                                    config.Config(),
                                    "plain", long=True)
    assert not any(char in text for char in "\x1b\x9b\x07")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner:
                    st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_anything_else_in_its_place_is_refused_or_nothing(anything):
    found = state_of(Totals("4711"))
    found["events"] = anything
    try:
        assert msgspec.json.decode(json.dumps(found), type=TotalsState).events is None
    except msgspec.ValidationError as error:
        assert "events" in str(error)
