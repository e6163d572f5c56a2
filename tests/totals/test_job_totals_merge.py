"""
Totals in parts: groups of nodes added up apart, sent as text, and merged in any order make the same
record as all nodes in one, to the last byte; no node's time is in it twice.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_job_totals import NODES, llite, osc
from trees import report

from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals
from iostats.wire.messages.report import (
    ReportedEvent,
    ReportedIdle,
    ReportedPhase,
    ReportedSeries,
)

GAINS = st.integers(0, 2**63 - 1)
FEW_NAMES = st.sampled_from(["scratch", "home"])
VALUES = st.dictionaries(st.sampled_from([
    "read_bytes", "read_calls", "open", "open_us", "open_us2", "create", "mknod", "read", "close",
    "read_rpcs_pages_1", "write_rpcs_pages_16", "cached_read_bytes"]), GAINS, max_size=5)
DELTAS = st.builds(
    Delta, st.sampled_from(["llite", "osc", "mdc", "md_stats", "rpc_stats"]), FEW_NAMES,
    st.sampled_from(["", "OST0000", "MDT0000"]), st.just(""), st.one_of(st.none(), VALUES),
    st.booleans(), st.sampled_from(["", "the counters were cleared"]), st.booleans())
AMOUNTS = st.lists(GAINS, max_size=20)
SERIES = st.builds(lambda began, every_s, row: ReportedSeries(began, every_s, row, row, row),
                   st.floats(1.7e9, 1.7e9 + 1e4), st.sampled_from([7.0, 60.0, 120.0]), AMOUNTS)
IDLE = st.builds(ReportedIdle, st.floats(60, 1e5), st.dictionaries(
    st.sampled_from(["read_bytes", "open"]), st.floats(0, 1e6)))
PHASES = st.builds(ReportedPhase, st.sampled_from(["read", "solve", "write"]), st.floats(0, 1e4),
                   st.lists(DELTAS, max_size=2))
EVENTS = st.lists(st.builds(
    lambda number, at, later, over, **members: ReportedEvent(
        id=f"{number:016x}", time=1_795_225_000.0 + at, last=1_795_225_000.0 + at + later,
        over=None if over is None else 1_795_225_000.0 + at + later + over,
        severity=number % 4, **members),
    number=st.integers(0, 40), at=st.floats(0, 2000), later=st.floats(0, 100),
    over=st.one_of(st.none(), st.floats(0, 100)),
    kind=st.sampled_from(["evicted", "connection_lost", "data_lost"]),
    target=st.sampled_from(["scratch-OST0003", "scratch-MDT0000", ""]),
    file_system=st.just("scratch"), count=st.integers(1, 5),
    clients=st.lists(st.sampled_from(["10.9.0.3@o2ib", "10.9.0.4@o2ib"]), max_size=2),
    message=st.sampled_from(["", "was evicted"])), max_size=4)
PARTS = st.builds(
    dict, events=st.one_of(st.none(), EVENTS), events_dropped=st.integers(0, 3),
    deltas=st.lists(DELTAS, max_size=4), elapsed_s=st.floats(0, 100),
    reason=st.sampled_from(["", "", "", "no start", "permission denied"]),
    clock_ahead_s=st.sampled_from([0.0, 0.3, 600.0]), user=st.sampled_from(["", "alice", "bob"]),
    other_jobs=st.one_of(st.none(), st.integers(0, 3)), phases=st.lists(PHASES, max_size=3),
    dirty_bytes=st.one_of(st.none(), st.dictionaries(FEW_NAMES, GAINS)),
    lnet=st.sampled_from([(), (23, 37, 41, 4100, 5300), (7, 11, 13, 17, 19, 29, 31)]),
    mounts=st.dictionaries(FEW_NAMES, st.lists(st.sampled_from(["/work", "/scratch"]))),
    series=st.dictionaries(FEW_NAMES, SERIES), idle=st.one_of(
        st.none(), st.dictionaries(FEW_NAMES, IDLE)),
    boot_id=st.sampled_from(["one boot", "another"]), after_s=st.sampled_from([0.0, 50.0, 1000.0]))


def reports_of(node, parts):
    """The reports of one node, one after another; some are of the same time."""
    ended = 1_795_225_060.25
    for number, part in enumerate(parts):
        after_s = part.pop("after_s")
        ended += after_s
        yield report(node, seq=f"part {number}", ended=ended, **part)


JOBS = st.lists(st.lists(PARTS, min_size=1, max_size=3), min_size=1, max_size=6).map(
    lambda nodes: [list(reports_of(f"nid{number:05}", [dict(part) for part in parts]))
                   for number, parts in enumerate(nodes)])


def added(nodes, expected=None):
    """The Totals of [[report]]."""
    found = Totals("4711", expected, fold=",".join)
    for reports in nodes:
        for one in reports:
            found.add(one)
    return found


def sent(totals, **named):
    """What arrives of Totals in another process."""
    return Totals("4711", fold=",".join).restore(json.loads(json.dumps(totals.state())), **named)


def merged(*parts, expected=None):
    found = Totals("4711", expected, fold=",".join)
    for part in parts:
        assert ("", True) == (found.merge(part).why, found.merge(Totals("4711")).counted)
    return found


@given(JOBS, st.sampled_from(["names", "number", "unknown"]), st.randoms())
def test_groups_of_nodes_in_any_order_make_the_record_of_all_nodes(job, known, random):
    """A random partition, a random tree, and the way by JSON at each of its branches."""
    expected = {"unknown": None, "number": len(job) + 1, "names": frozenset(
        f"nid{number:05}" for number in range(len(job) + 1))}[known]
    whole = json.dumps(added(job, expected).record())
    shuffled, groups = random.sample(job, len(job)), []
    while shuffled:
        size = random.randint(1, len(shuffled))
        groups.append(added(shuffled[:size]))
        del shuffled[:size]
    while len(groups) > 1:
        one, other = (groups.pop(random.randrange(len(groups))) for _ in range(2))
        groups.append(merged(sent(one), sent(other)))
    assert whole == json.dumps(merged(sent(groups[0]), expected=expected).record())


@given(JOBS)
def test_a_state_makes_the_totals_that_it_is_of(job):
    """Nothing is lost on the way, and nothing is shared with what it was made of."""
    found = added(job)
    before = json.dumps(found.state())
    other = sent(found)
    assert json.dumps(found.record()) == json.dumps(other.record())
    other.merge(added([[report("another", [llite("scratch", open=23), osc(read_rpcs=5)],
                               user="carol", other_jobs=2)]]))
    assert before == json.dumps(found.state())


def test_float_seconds_add_up_alike_in_any_order():
    """0.1 + 0.2 + 0.3 s are 0.6 s, whichever two come first; floats would differ."""
    nodes = [[report(f"nid{number}", [], elapsed_s=elapsed_s)]
             for number, elapsed_s in enumerate((0.1, 0.2, 0.3, 1e7 + 0.0004))]
    one = merged(added(nodes[:3]), added(nodes[3:]))
    other = merged(added(nodes[3:]), added(nodes[1:3]), added(nodes[:1]))
    assert 10_000_000.6 == one.record()["coverage"]["node_seconds"]
    assert one.state()["node_ns"] == other.state()["node_ns"] == 10_000_000_600_400_000


def test_phases_are_in_the_order_in_which_they_first_began():
    """Whoever was merged first: node 2 began earlier, and did no `read`."""
    one = added([[report("nid00001", [llite(open=5)], ended=1100.0, elapsed_s=60.0, phases=[
        ReportedPhase("read", 10.0, [llite(open=2)]),
        ReportedPhase("solve", 50.0, [llite(open=3)])])]])
    other = added([[report("nid00002", [llite(open=7)], ended=1100.0, elapsed_s=70.0, phases=[
        ReportedPhase("solve", 40.0, [llite(open=7)]), ReportedPhase("write", 30.0, [])])]])
    for found in (merged(one, other), merged(other, one)):
        assert [("solve", 2, 50.0), ("read", 1, 10.0), ("write", 1, 30.0)] == [
            (phase["name"], phase["nodes"], phase["elapsed_s"])
            for phase in found.record()["phases"]]


# -- the same node in both -----------------------------------------------------------------


def two_parts(first_ended, second_ended, **second):
    return (added([[report("nid00001", [llite(open=23)], ended=first_ended, seq="one")]]),
            added([[report("nid00001", [llite(open=37)], ended=second_ended,
                           **{"seq": "two", **second})],
                   [report("nid00002", [llite(open=41)], ended=second_ended)]]))


@pytest.mark.parametrize("second", [{}, {"seq": "one", "boot_id": "another boot"}],
                         ids=["overlapping times", "the same start"])
def test_the_same_time_of_a_node_is_refused_and_nothing_of_it_is_added(second):
    """Not even the other nodes: each of them can still send its own report."""
    found, other = two_parts(1060.0, 1090.0, **second)
    outcome = found.merge(other)
    assert (False, "a report of nid00001 about the same time is counted already; this one would "
                   "count the same work twice") == tuple(outcome)
    record = found.record()
    assert (["nid00001"], {"overlapping reports of one node": 1}, 23) == (
        list(record["nodes"]), record["coverage"]["refused"],
        record["file_systems"][0]["operations"]["open"]["count"])


def test_a_job_measured_in_parts_can_be_merged_part_by_part():
    """start, stop, start, stop, all with --mpi: 23 + 37 + 41 opens in 60 + 60 + 60 s."""
    found, other = two_parts(1060.0, 1120.0)
    assert found.merge(other).counted
    record = found.record()
    assert (101, 180.0, {"elapsed_s": 120.0, "file_systems": {"scratch": {"open": 60}}}) == (
        record["file_systems"][0]["operations"]["open"]["count"],
        record["coverage"]["node_seconds"], record["nodes"]["nid00001"])


def test_a_later_part_without_numbers_makes_all_numbers_lower_bounds():
    """As it does when the node's report comes by itself."""
    found = added([[report("nid00001", [llite(open=23)])]], 1)
    found.merge(added([[report("nid00001", reason="the start snapshot is damaged", seq="two")]]))
    record = found.record()
    assert (["nid00001: a later part of its work has no numbers: the start snapshot is damaged"],
            True) == (record["notes"], record["file_systems"][0]["lower_bound"])


def test_a_node_that_could_not_read_is_not_missing_once_it_has_numbers():
    """In both orders of nodes that said so and nodes with numbers."""
    found = added([[report("nid00001", reason="no permission", seq="one")]], 1)
    found.merge(added([[report("nid00001", [llite(open=23)])]]))
    assert ({}, 1) == (found.list_missing_nodes(), found.reported)


# -- whose nodes they are ------------------------------------------------------------------


def test_merged_nodes_must_be_the_jobs():
    """All of them: one stranger, and the message is refused."""
    found = Totals("4711", NODES, fold=lambda nodes: "nid[00001-00004]")
    outcome = found.merge(added([[report("nid00001", [llite()])], [report("login1", [llite()])]]))
    assert (False, "login1 is not among the job's nodes nid[00001-00004]; name it with --node"
            ) == tuple(outcome)
    assert (0, {"unknown node": 1}) == (found.reported, found.record()["coverage"]["refused"])


@pytest.mark.parametrize("limits", [{"expected": 2}, {"max_nodes": 2}], ids=str)
def test_more_merged_nodes_than_the_limit_are_refused(limits):
    """Two are known; of two more, one is a third."""
    found = Totals("4711", **limits)
    found.add(report("nid00001", [llite()]))
    assert (False, "the job has 2 nodes, and 1 have reported; 2 more are refused") == tuple(
        found.merge(added([[report("nid00002", [llite()])], [report("nid00003", [llite()])]])))


def test_nodes_are_named_as_the_jobs_list_has_them():
    """The batch system's list may have domains where the nodes have none."""
    found = Totals("4711", frozenset(("nid00001.cluster", "nid00002.cluster")), fold=",".join)
    found.merge(sent(added([[report("nid00001", [Delta("llite", "scratch", "", "", {"open": 2},
                                                       True, "the counters were cleared")],
                                    other_jobs=3)],
                            [report("nid00002", reason="no permission")]]),
                     named=found.expand_name))
    record = found.record()
    assert (["nid00001.cluster"], {"nid00002.cluster": "no permission"}, {"nid00001.cluster": 3},
            ["nid00001.cluster: llite: the counters were cleared"]) == (
        list(record["nodes"]), record["coverage"]["missing"], record["coverage"]["shared"],
        record["file_systems"][0]["notes"])


def test_two_nodes_that_get_one_name_are_refused():
    """Or the one would hide the other."""
    found = Totals("4711", frozenset(("nid00001.cluster", "nid00002.cluster")))
    twice = added([[report("nid00001", [llite()])], [report("nid00001.cluster", [llite()])]])
    with pytest.raises(ValueError, match=r"one name: nid00001, nid00001\.cluster$"):
        sent(twice, named=found.expand_name)
