"""
What went wrong on a node, in its report: old and new nodes and servers understand each other.
"""
from __future__ import annotations

import json

import msgspec
import pytest
from test_protocol import NOW, report, server_of

from iostats.node import mpi_reduce
from iostats.server.rpc_server import Caller
from iostats.totals.node_report import Report
from iostats.wire import jsonrpc
from iostats.wire.messages.report import MOST_EVENTS, NodeReport, check_report

EVENT = {"id": "00c0ffee00c0ffee", "time": 1_795_333_379.5, "last": 1_795_333_383.0,
         "over": 1_795_333_422.0, "severity": 2, "kind": "evicted", "cause": "", "node": "nid00023",
         "file_system": "scratch", "target": "scratch-OST0003", "clients": ["10.9.0.3@o2ib"],
         "count": 3, "skipped": 7, "message": "scratch-OST0003 evicted this node; 43 s"}


def taken(clock_ahead_s=0.0, **members):
    """The NodeReport of these members as a server has it after its checks."""
    params = json.loads(report(**members))["params"]
    found = msgspec.json.decode(json.dumps({**params, "clock_ahead_s": clock_ahead_s}),
                                type=NodeReport)
    check_report(found, "nid00023", "4711", set())
    return found


def test_a_report_has_its_events():
    found = taken(events=[EVENT], events_dropped=41)
    assert [EVENT] == msgspec.to_builtins(found.events)
    assert 41 == found.events_dropped


def test_a_node_of_an_earlier_release_tells_of_none():
    found = taken()
    assert (None, 0) == (found.events, found.events_dropped)
    # And the same in a process that has no msgspec, and adds up ranks.
    old = Report("nid00023", "37", "boot", "alice", "", 23.0, 7.0, 0.0, {}, ())
    assert (None, 0) == (old.events, old.events_dropped)


def test_a_node_of_a_later_release_may_say_more():
    """A new kind, a new member; what is not said is the plainest."""
    [found] = taken(events=[{"id": "0" * 16, "time": 23.5, "kind": "of_later", "colour": 7}]).events
    assert ("of_later", 23.5, None, 1, "nid00023", 1, 0, []) == (
        found.kind, found.last, found.over, found.severity, found.node, found.count,
        found.skipped, found.clients)


def test_its_times_are_by_the_servers_clock():
    [found] = taken(clock_ahead_s=600.0, events=[EVENT, {**EVENT, "over": None}]).events[:1]
    assert (1_795_332_779.5, 1_795_332_783.0, 1_795_332_822.0) == (
        found.time, found.last, found.over)


def test_a_node_tells_of_itself_alone():
    assert ["nid00023"] == [one.node for one in taken(events=[{**EVENT, "node": "nid7"}]).events]


def test_what_it_says_is_fit_for_a_terminal():
    [found] = taken(events=[{**EVENT, "message": "a\x1b[2J\n\u202eb", "clients": ["\x07"],
                             "target": "\x9b"}]).events
    assert (r"a\x1b[2J\x0a\x202eb", [r"\x07"], r"\x9b") == (
        found.message, found.clients, found.target)


@pytest.mark.parametrize("wrong", [
    {"id": "c0ffee"}, {"id": 23}, {"time": "now"}, {"time": 1e300}, {"severity": 4},
    {"severity": "fatal"}, {"count": -1}, {"count": 2**60}, {"clients": ["a"] * 9},
    {"message": "x" * 501}, {"kind": ""}, {"over": []}, {"target": None}],
    ids=lambda wrong: str(wrong)[:40])
def test_an_event_of_another_form_is_refused_with_its_place(wrong):
    server = server_of(3)
    body = report(events=[EVENT, {**EVENT, **wrong}])
    answer = json.loads(jsonrpc.dispatch(body, server.methods, Caller("nid00023", None)))
    assert -32602 == answer["error"]["code"]
    assert "events" in answer["error"]["message"]


def test_more_events_than_a_report_has_are_refused():
    with pytest.raises(msgspec.ValidationError, match="events"):
        taken(events=[EVENT] * (MOST_EVENTS + 1))


def test_a_server_counts_such_a_report_once():
    server = server_of(3)
    body = report(events=[EVENT], events_dropped=41)
    for _ in range(2):
        answer = json.loads(jsonrpc.dispatch(body, server.methods, Caller("nid00023", None)))
        assert answer["result"]["counted"]
    assert 1 == server.totals.record()["coverage"]["reported"]


def test_by_way_of_a_rank_it_is_the_same():
    params = json.loads(report(events=[EVENT, {**EVENT, "over": None}], events_dropped=41,
                               boot_id="boot", user="alice", reason="", mounts={}))["params"]
    found = mpi_reduce.convert_report(params, 600.0)
    direct = taken(clock_ahead_s=600.0, events=params["events"], events_dropped=41)
    assert msgspec.to_builtins(direct.events) == [vars(one) for one in found.events]
    assert (41, NOW - 600.0) == (found.events_dropped, found.ended)
