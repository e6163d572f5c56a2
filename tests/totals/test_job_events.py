"""
One line for one happening: what nodes and storage servers tell of it is joined, the same on many
nodes is folded, and of very many the most severe are listed and the rest counted.
"""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_job_totals import llite, osc
from trees import report

from iostats.report.node_sets import fold_nodes
from iostats.totals import job_events, reported_events
from iostats.totals.job_events import ServerEvent
from iostats.totals.job_totals import Totals
from iostats.wire.messages.report import ReportedEvent

T = 1_795_225_000.0                             # the nodes' start; they have reports of an hour
OST3 = "scratch-OST0003"


def event(number, at, kind="evicted", target=OST3, over=None, severity=2, last=None, **members):
    return ReportedEvent(id=f"{number:016x}", time=T + at, last=T + (at if last is None else last),
                         over=None if over is None else T + over, kind=kind, target=target,
                         file_system="scratch", severity=severity, **members)


def of_server(number, at, nodes=(), others=0, kind="evicted", target=OST3, count=1, **members):
    one = event(number, at, kind, target, count=count, **members)
    return ServerEvent(one, list(nodes), others)


def totals(*reports):
    found = Totals("4711", None, fold=fold_nodes)
    for one in reports:
        assert found.add(one).counted
    return found


def told(node, *events, deltas=None, **members):
    return report(node, [llite(write_bytes=23)] if deltas is None else deltas,
                  ended=T + 3600, elapsed_s=3600.0, events=list(events), **members)


def joined(totals, *servers):
    of_nodes, more = totals.events.all()
    found, more = job_events.list_events(of_nodes, servers, fold_nodes,
                                         totals.record().file_systems,
                                         more)
    return found, more


def few(found, *names):
    return [tuple(one[name] for name in names) for one in found]


# -- what nodes tell -------------------------------------------------------------------------------

def test_an_eviction_on_one_node():
    """Evicted 371 s after the start, connected again 43 s later."""
    [one] = totals(told("nid00007", event(
        1, 371, over=414, cause="", message="This client was evicted"))).record().events
    assert {"id": f"{1:016x}", "time": T + 371, "last": T + 371, "over": T + 414, "longest_s": 43.0,
            "severity": 2, "kind": "evicted", "cause": "", "file_system": "scratch",
            "target": OST3, "nodes": "nid00007", "node_count": 1, "told_by": "nodes",
            "is_certain": True, "count": 1, "clients": None, "data": "may be lost",
            "message": "This client was evicted"} == one


def test_where_no_node_looks_nothing_is_known():
    record = totals(report("nid00007")).record()
    assert (None, 0) == (record.events, record.events_more)
    assert [] == totals(told("nid00007"), report("nid00008")).record().events


def test_the_same_on_many_nodes_within_a_minute_is_one():
    """An OST was away: 41 nodes lost it within 23 s; the 42nd one, 61 s later, is another."""
    nodes = [told(f"nid{number:05}", event(number, 100 + (number == 41) * 23, "connection_lost",
                                           over=137 + number, severity=1))
             for number in range(1, 42)]
    late = told("nid00099", event(99, 161, "connection_lost", severity=1))
    found = totals(*nodes, late).record().events
    # The last of the 41 lost it at 123 and had it again at 137 + 41; nid00040 at 137 + 40.
    assert [("nid[00001-00041]", 41, 41, 77.0, T + 178), ("nid00099", 1, 1, None, None)] == few(
        found, "nodes", "node_count", "count", "longest_s", "over")


def test_an_event_that_is_told_twice_is_one_and_knows_what_both_know():
    """In the second part of the job the node tells again, and that it was over."""
    first = told("nid00007", event(1, 3590, count=1), seq="first")
    second = report("nid00007", [llite(write_bytes=37)], seq="second", ended=T + 7200,
                    elapsed_s=3600.0, events=[event(1, 3590, last=3610, over=3650, count=2)])
    record = totals(first, second).record()
    assert [(2, 60.0, T + 3610)] == few(record.events, "count", "longest_s", "last")
    assert 0 == record.events_more


def test_what_another_job_on_the_node_may_have_lost_is_not_said_to_be_this_jobs():
    """Nor is its text shown: the kernel names the file."""
    lost = event(1, 371, "data_lost", "", message="dirty page discard: /scratch/bob/secret")
    for shared, words in ((0, ("lost", lost.message)), (3, ("may be lost", ""))):
        assert [words] == few(totals(told("nid00007", lost, other_jobs=shared)).record().events,
                              "data", "message")


def test_a_file_that_the_job_before_had_written_is_not_named():
    """Dirty pages are sent within a minute; what is thrown away 37 s after the start may be its."""
    for at, words in ((37, ("may be lost", "")), (61, ("lost", "of /scratch/b"))):
        lost = event(1, at, "data_lost", "", message="of /scratch/b")
        assert [words] == few(totals(told("nid00007", lost)).record().events, "data", "message")


@pytest.mark.parametrize("deltas, target, data", [
    ([llite(write_bytes=23)], OST3, "may be lost"),
    ([llite(read_bytes=23)], OST3, ""),
    ([llite(read_bytes=23, page_mkwrite=2)], OST3, "may be lost"),
    ([], OST3, "may be lost"),
    ([llite(write_bytes=23)], "scratch-MDT0000", ""),
    ([llite(write_bytes=23), osc("MDT0000", write_bytes=5, write_rpcs=1)], "scratch-MDT0000",
     "may be lost"),
], ids=["it has written", "it has read alone", "by mmap", "not known", "an MDT",
        "an MDT with data"])
def test_an_eviction_throws_away_what_was_written_and_not_sent(deltas, target, data):
    record = totals(told("nid00007", event(1, 371, target=target), deltas=deltas)).record()
    assert [(data,)] == few(record.events, "data")


def test_of_very_many_the_most_severe_are_listed_and_all_are_counted():
    """
    23 nodes with 100 events each, of 2,300 targets; one critical one, the last of all; and 41 that
    a node has counted alone.
    """
    nodes = [told(f"nid{node:05}", *(
        event(1000 * node + number, number, "connection_lost", f"scratch-OST{node:02x}{number:02x}",
              severity=1) for number in range(100)), events_dropped=41 * (node == 7))
        for node in range(23)]
    record = totals(*nodes, told("nid00099", event(99_999, 3500))).record()
    assert job_events.MOST_LISTED == len(record.events)
    assert ("evicted", "nid00099") == (record.events[-1].kind, record.events[-1].nodes)
    assert 2300 + 1 + 41 - 100 == record.events_more


def test_all_nodes_of_a_large_job_are_in_the_line_of_one_outage():
    """4,100 nodes lost one target and had it again: 8,200 events, and two lines."""
    nodes = [told(f"nid{number:05}", event(number, 100, "connection_lost", over=123, severity=1),
                  event(10_000 + number, 123, "connection_restored", severity=0))
             for number in range(4100)]
    record = totals(*nodes).record()
    assert [("connection_lost", "nid[00000-04099]", 4100, 4100, 23.0),
            ("connection_restored", "nid[00000-04099]", 4100, 4100, None)] == few(
        record.events, "kind", "nodes", "node_count", "count", "longest_s")
    assert 0 == record.events_more


def test_of_more_than_are_kept_the_most_severe_are_and_all_are_counted(monkeypatch):
    """37 of 60; in whichever groups they come."""
    monkeypatch.setattr(reported_events, "MOST_KEPT", 37)
    nodes = [told(f"nid{number:05}", event(number, 100, "connection_lost", severity=1),
                  event(1000 + number, 100 + number, "evicted")) for number in range(30)]
    whole = totals(*nodes)
    parts = totals(*nodes[:11])
    parts.merge(Totals.from_state(totals(*nodes[11:]).state()))
    record = whole.record()
    assert record == parts.record()
    assert (30, 7, 23) == (*(one.node_count for one in sorted(
        record.events, key=lambda one: -one.severity)), record.events_more)


# -- what storage servers tell ---------------------------------------------------------------------

def test_an_eviction_that_the_node_and_the_target_tell_of_is_one_line():
    """The target evicted it at 371; it came back and heard of it at 401, and was in at 414."""
    [one], more = joined(totals(told("nid00007", event(1, 401, over=414))),
                         of_server(2, 371, ["nid00007"], cause="silent"))
    assert (f"{2:016x}", T + 371, T + 401, T + 414, 43.0, "silent", "both", "nid00007", 1, 1,
            0) == (
        one.id, one.time, one.last, one.over, one.longest_s, one.cause, one.told_by, one.nodes,
        one.count, one.clients, more)


def test_each_word_of_an_eviction_belongs_to_the_latest_one_before():
    """Two evictions by one target, both heard of; a third that the node has not heard of."""
    node = totals(told("nid00007", event(1, 110, over=111), event(2, 230, over=231)))
    found, _ = joined(node, *(of_server(10 + n, at, ["nid00007"])
                              for n, at in enumerate((100, 200, 300))))
    assert [(T + 100, 11.0, "both"), (T + 200, 31.0, "both"), (T + 300, None, "servers")] == few(
        found, "time", "longest_s", "told_by")


def test_other_targets_other_nodes_and_other_times_are_other_evictions():
    node = totals(told("nid00007", event(1, 1500, over=1501)))
    found, _ = joined(node, of_server(2, 1490, ["nid00007"], target="scratch-OST0004"),
                      of_server(3, 1491, ["nid00008"]), of_server(4, 500, ["nid00007"]),
                      of_server(5, 1506, ["nid00007"]))
    assert ["servers", "servers", "servers", "nodes", "servers"] == [
        one.told_by for one in found]


def test_of_a_flood_only_some_clients_are_named():
    """
    Ten thousand clients, eight of them named, none of them the job's: one of its nodes says that it
    was evicted then, and of the rest nothing is known.
    """
    flood = of_server(2, 371, [], 9_992, count=10_000)
    [one], _ = joined(totals(told("nid00007", event(1, 380))), flood)
    assert ("both", "nid00007", True, 10_000, 1) == (
        one.told_by, one.nodes, one.is_certain, one.clients, one.count)
    [one], _ = joined(totals(told("nid00007")), flood)
    assert ("servers", "", False, 10_000, "", "") == (
        one.told_by, one.nodes, one.is_certain, one.clients, one.data, one.message)


def test_what_is_about_a_target_is_about_no_node_of_its_own():
    [one], _ = joined(totals(told("nid00007")),
                      of_server(2, 371, kind="target_down", severity=2, over=602, message="a b"))
    assert ("", 0, True, None, 231.0, "", "") == (
        one.nodes, one.node_count, one.is_certain, one.clients, one.longest_s, one.data,
        one.message)


# -- in any order ----------------------------------------------------------------------------------

_EVENTS = st.builds(
    lambda number, at, target, kind: (number, at, target, kind), st.integers(0, 2**32),
    st.integers(0, 2000), st.sampled_from([OST3, "scratch-OST0004"]),
    st.sampled_from(["evicted", "evicted", "connection_lost"]))
_OF_NODES = st.lists(st.tuples(st.sampled_from(["nid00001", "nid00002", "nid00003"]), _EVENTS),
                     max_size=12, unique_by=lambda one: one[1][0])
_OF_SERVERS = st.lists(st.tuples(_EVENTS, st.sets(st.sampled_from(["nid00001", "nid00002"])),
                                 st.integers(0, 3)), max_size=8, unique_by=lambda one: one[0][0])


@given(_OF_NODES, _OF_SERVERS, st.randoms())
def test_nothing_is_lost_doubled_or_a_matter_of_order(of_nodes, of_servers, random):
    def all_of(nodes, servers):
        found = Totals("4711", None, fold=fold_nodes)
        for place, (node, (number, at, target, kind)) in enumerate(nodes):
            found.events.add(node, SimpleNamespace(
                events=[event(number, at, kind, target)], events_dropped=0,
                seq=str(place)), T)
        return joined(found, *(of_server(2**40 + number, at, sorted(names), others, kind, target,
                                         count=len(names) + others or 1)
                               for (number, at, target, kind), names, others in servers))

    found, more = all_of(of_nodes, of_servers)
    assert (found, more) == all_of(random.sample(of_nodes, len(of_nodes)),
                                   random.sample(of_servers, len(of_servers)))
    # Each event of a node is in one line, and each of a storage server is a line of its own.
    by_servers = [one for one in found if one.told_by != "nodes"]
    assert len(of_servers) == len(by_servers)
    assert {one.id for one in by_servers} == {f"{2**40 + one[0][0]:016x}" for one in of_servers}
    silent = sum(len(names) for _, names, _ in of_servers)
    heard = sum(one.count for one in found if one.nodes)
    assert len(of_nodes) <= heard <= len(of_nodes) + silent
    # What is joined is of one target, and no node hears of it long before or after.
    assert all(one.kind == "evicted" for one in found if one.told_by == "both")
    assert all(one.last - one.time <= 905 for one in by_servers)
