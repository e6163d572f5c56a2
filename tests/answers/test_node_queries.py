"""
What the site's server answers to `nodes`: gains of a real ClientHarvest, by node and time.
"""
from __future__ import annotations

import msgspec
import pytest
from client_messages import A_LOSS
from harvest_inside import BEGAN, HarvestInside

from iostats.answers.node_queries import NodeAnswers, NodesParams
from iostats.base.cooperative import run_to_end
from iostats.base.errors import WireError
from iostats.harvest.events.reported_lnet import ShortPeers
from iostats.load.amounts import CLIENT_METRICS

ONE, TWO, OTHER = "10.0.0.1@o2ib", "10.0.0.1@o2ib1", "10.0.0.7@o2ib"
NO_PEERS = ShortPeers([])           # no storage server reports any
SOME = (41_003, 53_007, 23, 37, 43, 61)


@pytest.fixture
def desk(tmp_path):
    """
    Three sweeps, 20 s apart, the first one with nothing before it: nid001 (two NIDs) has read and
    written on scratch, 10.0.0.7 on home in the second half, and the storage servers themselves.
    """
    desk = HarvestInside(tmp_path / "site.sqlite")
    desk.nodes = {ONE: "nid001", TWO: "nid001"}
    desk.call_nodes(desk.nodes)
    desk.clients("oss1", "scratch", {ONE: SOME, TWO: (7, 0, 1, 0, 0, 3), "0@lo": SOME})
    desk.now -= 20                                          # mds1 begins in the same sweep
    desk.clients("mds1", "home", {OTHER: (0, 0, 0, 0, 0, 0)})
    desk.turn()
    desk.now += 20
    desk.clients("oss1", "scratch", {ONE: (0, 1000, 0, 1, 0, 0)})
    desk.clients("mds1", "home", {OTHER: (0, 0, 0, 0, 0, 17)})
    desk.turn()
    return desk


def asked(desk, since=BEGAN, user=None, by=None, **ask):
    return run_to_end((by or NodeAnswers()).answer(
        desk.harvest.clients, msgspec.convert({"since": since, **ask}, NodesParams), user,
        NO_PEERS))


def amounts(row):
    return [row[name] for name in CLIENT_METRICS]


def test_a_node_is_the_sum_of_its_nids_and_file_systems(desk):
    answer = asked(desk)
    one, other = sorted(answer["nodes"], key=lambda row: row["node"], reverse=True)
    assert ("nid001", [ONE, TWO], ["scratch"]) == (one["node"], one["nids"], one["file_systems"])
    assert [41_010, 54_007, 24, 38, 43, 64] == amounts(one)
    assert 24 + 38 + 43 + 64 == one["requests"]
    assert (OTHER, ["home"], [0, 0, 0, 0, 0, 17]) == (
        other["node"], other["file_systems"], amounts(other))
    assert {} == one["at_most"] and not one["lower_bound"]
    assert (2, None) == (answer["count"], answer["next"])
    assert "0@lo" not in repr(answer) and "storage" not in repr(answer)


def test_what_a_sweep_at_an_edge_saw_is_in_the_larger_number_alone(desk):
    """From the middle of the first interval on: what it saw may have been before, or after."""
    [row] = asked(desk, BEGAN + 11.0, nodes=["nid001"])["nodes"]
    assert [0, 1000, 0, 1, 0, 0] == amounts(row)
    assert {"read_bytes": 41_010, "write_bytes": 54_007, "reads": 24, "writes": 38,
            "ost_operations": 43, "mdt_operations": 64,
            "requests": 169} == row["at_most"]
    assert not row["lower_bound"]


def test_what_may_be_missing_is_a_lower_bound_with_its_reason(desk):
    desk.now += 20
    desk.clients("oss1", "scratch", {ONE: (0, 3, 0, 1, 0, 0)}, losses=[
        {**A_LOSS, "since": desk.now - 20.0, "until": desk.now - 1.0, "nid": ONE}])
    desk.clients("mds1", "home", {OTHER: (0, 0, 0, 0, 0, 0)})
    desk.turn()
    [row] = asked(desk, nodes=["nid001"])["nodes"]
    assert (True, None) == (row["lower_bound"], row["at_most"])
    assert ["oss1: its counters were reset"] == row["notes"]
    [row] = asked(desk, nodes=[OTHER])["nodes"]
    assert not row["lower_bound"]


def test_a_time_before_the_first_sweep_is_a_lower_bound(desk):
    [row, *_] = asked(desk, BEGAN - 86_400, nodes=["nid001"])["nodes"]
    assert row["lower_bound"] and any("not read before" in note for note in row["notes"])


@pytest.mark.parametrize("ask, expected", [
    ({"nodes": ["nid001"]}, [("nid001", 41_010)]), ({"nodes": [TWO]}, [(TWO, 7)]),
    ({"nodes": ["nid001", TWO]}, [("nid001", 41_010)]),
    ({"nodes": ["nid002", OTHER]}, [(OTHER, 0), ("nid002", None)]),
    ({"nodes": ["nid001"], "file_system": "home"}, [("nid001", None)]),
    ({"file_system": "home"}, [(OTHER, 0)])],
    ids=["node", "NID", "both", "nobody knows it", "not there", "file system"])
def test_rows_can_be_chosen(desk, ask, expected):
    """What is not known is None; a node that is known, and did nothing, has 0."""
    assert expected == [(row["node"], row["read_bytes"]) for row in asked(desk, **ask)["nodes"]]


def test_file_systems_can_stand_apart(desk):
    desk.now += 20
    desk.clients("mds1", "home", {ONE: (0, 0, 0, 0, 0, 5)})
    desk.clients("oss1", "scratch", {ONE: (0, 0, 0, 0, 0, 0)})
    desk.turn()
    rows = asked(desk, nodes=["nid001"], apart=True)["nodes"]
    assert [("home", 5), ("scratch", 64)] == [
        (*row["file_systems"], row["mdt_operations"]) for row in rows]
    [row] = asked(desk, nodes=["nid001"])["nodes"]
    assert (["home", "scratch"], 69) == (row["file_systems"], row["mdt_operations"])


@pytest.mark.parametrize("sort, descending, expected", [
    ("node", False, [OTHER, "nid001", "nid9"]), ("node", True, ["nid9", "nid001", OTHER]),
    ("write_bytes", True, ["nid001", OTHER, "nid9"]),
    ("write_bytes", False, [OTHER, "nid001", "nid9"]),
    ("mdt_operations", True, ["nid001", OTHER, "nid9"])])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_answer_goes_on_behind_its_last_row(desk, sort, descending, expected, count):
    """In any order, in parts of any length; a number that is not known is last."""
    by, found, after, until = NodeAnswers(), [], 0, None
    while after is not None:
        answer = asked(desk, by=by, nodes=["nid001", OTHER, "nid9"], sort=sort, count=count,
                       descending=descending, after=after, until=until)
        found += [row["node"] for row in answer["nodes"]]
        assert len(answer["nodes"]) <= count and 3 == answer["count"]
        after, until = answer["next"], answer["until"]
    assert expected == found


def test_another_question_does_not_get_the_last_ones_rows(desk):
    by = NodeAnswers()
    assert 2 == len(asked(desk, by=by)["nodes"])
    assert 1 == len(asked(desk, by=by, file_system="home")["nodes"])
    desk.now += 20
    desk.clients("oss1", "scratch", {"10.0.0.9@o2ib": (0, 7, 0, 1, 0, 0)})
    desk.clients("mds1", "home", {OTHER: (0, 0, 0, 0, 0, 0)})
    desk.turn()
    assert 3 == len(asked(desk, by=by)["nodes"])


def test_an_end_that_is_just_to_come_is_that_of_the_last_sweep(desk):
    """`-E now`; later than that, what is missing is marked."""
    last = desk.harvest.clients.sweep.slot
    assert last == asked(desk, until=last + 30.0)["until"]
    answer = asked(desk, until=last + 3600.0)
    assert last + 3600 == answer["until"]
    assert all(row["lower_bound"] and any("not read up to then" in note for note in row["notes"])
               for row in answer["nodes"])


def test_ordinary_users_are_refused(desk):
    """A node's numbers are of all who used it; so are a client's."""
    with pytest.raises(WireError, match=r"root or one of .site. readers, got user alice"):
        asked(desk, user="alice")


def test_without_clients_it_says_what_to_do(tmp_path):
    with pytest.raises(WireError, match=r"no storage server reports its clients; check: "):
        asked(HarvestInside(tmp_path / "site.sqlite"))


@pytest.mark.parametrize("wrong", [
    {"sort": "nids"}, {"until": BEGAN - 1.0}, {"since": -1.0}, {"count": 0}, {"count": 5001},
    {"after": -1}, {"nodes": ["x" * 257]}, {"nodes": ["x"] * 10_001}, {"since": float("inf")}],
    ids=lambda one: next(iter(one)))
def test_a_question_is_bounded(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"since": float(BEGAN), **wrong}, NodesParams)


def test_a_long_answer_is_made_in_steps(tmp_path):
    """3,000 nodes; between two steps the server does other things."""
    desk = HarvestInside(tmp_path / "site.sqlite")
    desk.clients("oss1", "scratch", {f"10.0.{n // 250}.{n % 250}@tcp": SOME for n in range(3000)})
    desk.turn()
    work = NodeAnswers().answer(desk.harvest.clients, NodesParams(float(BEGAN), count=5000), None,
                                NO_PEERS)
    steps = 0
    while True:
        steps += 1
        try:
            assert next(work) is None
        except StopIteration as end:
            assert 3000 == len(end.value["nodes"])
            break
    assert steps > 12
