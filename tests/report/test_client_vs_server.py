"""
One job from both sides: each difference between nodes and storage servers has its reasons, the
likeliest one first, and no difference has none.
"""

import pytest

from iostats.report.client_vs_server import compare_sides

MIB = 1 << 20
OF_NODES = {
    "job": {"attempt": 0}, "coverage": {"shared": {}, "missing_count": 0},
    "file_systems": [{
        "name": "scratch", "targets": {"OST0000": {"read_bytes": 4 * MIB}, "OST0001": {},
                                       "MDT0000": {"mds_close": 0}},
        "network": {"read_bytes": 4 * MIB, "write_bytes": 37 * MIB, "lower_bound": False}}]}
ALL = {("scratch", "OST0000"), ("scratch", "OST0001")}
NO_ID = "RPCs that carried no job's id, or another one (read-ahead, the kernel's threads)"
LATE = "what was in the nodes' memory after the job's end, or other nodes with its id"


def harvest(final=True, lower_bound=False, **numbers):
    """What the storage servers have counted on scratch."""
    return {"final": final, "lower_bound": lower_bound, "notes": [], "file_systems": [
        {"name": "scratch", "notes": ["a note"], "lower_bound": lower_bound,
         "read_bytes": 4 * MIB, "write_bytes": 37 * MIB, **numbers}]}


def notes(record, there, targets=ALL):
    [fs] = compare_sides(record, there, targets)["file_systems"]
    assert "a note" == fs["notes"][0]
    return fs["notes"][1:]


def nodes(coverage=(), job=(), **network):
    """The record of the nodes, with other numbers."""
    [fs] = OF_NODES["file_systems"]
    return {"job": {**OF_NODES["job"], **dict(job)},
            "coverage": {**OF_NODES["coverage"], **dict(coverage)},
            "file_systems": [{**fs, "network": {**fs["network"], **network}}]}


def test_two_sides_that_agree_need_no_words():
    before = harvest()
    found = compare_sides(OF_NODES, before, ALL)
    assert harvest() == found == before
    assert found is not before                        # what came in is as it was


def test_less_on_the_storage_servers_is_shown_with_its_percentage():
    """3 of 4 MiB are there: a quarter is not."""
    assert [f"1.0 MiB (25 %) of what the nodes have read over the network are not under the job's "
            f"id on the storage servers; it may be {NO_ID}"] == notes(
                OF_NODES, harvest(read_bytes=3 * MIB))


def test_reasons_for_less_on_the_storage_servers_begin_with_what_time_will_fix():
    """Not final, a target nobody harvests, other jobs on a node."""
    found = notes(nodes({"shared": {"nid00023": 2}}), harvest(final=False, write_bytes=0),
                  {("scratch", "OST0001")})
    assert ["no storage server reports OST0000",
            f"37.0 MiB (100 %) of what the nodes have written over the network are not under the "
            f"job's id on the storage servers; it may be data that the next sweeps will bring; or "
            f"data that the notes list as missing there; or other jobs on the nodes; or "
            f"{NO_ID}"] == found


def test_more_on_the_storage_servers_than_the_nodes_have_sent_is_shown():
    assert [f"23 bytes more are written on the storage servers under the job's id than the nodes "
            f"have sent or received; it may be {LATE}"] == notes(
                OF_NODES, harvest(write_bytes=37 * MIB + 23))


@pytest.mark.parametrize("record", [
    nodes({"missing_count": 1}, {"attempt": 1}), nodes(job={"attempt": 2}, lower_bound=True)],
    ids=["a node is missing", "a counter is missing"])
def test_more_on_the_storage_servers_may_be_earlier_runs_or_missing_nodes(record):
    [found] = notes(record, harvest(read_bytes=5 * MIB))
    assert found.startswith("1.0 MiB more are read on the storage servers ")
    assert found.endswith(f"; it may be earlier runs of the job; or nodes or counters that are "
                          f"missing in the nodes' numbers; or {LATE}")


@pytest.mark.parametrize("network", [None, {"read_bytes": None, "write_bytes": None}],
                         ids=["not read", "requests alone"])
def test_bytes_that_no_node_could_read_are_not_compared(network):
    """What is not known differs from nothing."""
    record = nodes()
    record["file_systems"][0]["network"] = network
    assert [] == notes(record, harvest(read_bytes=41))


def test_a_target_that_no_server_tells_of_makes_a_lower_bound_where_the_nodes_used_it():
    """OST0001 and MDT0000 carried nothing: there is nothing to miss."""
    found = compare_sides(OF_NODES, harvest(), {("scratch", "OST0000")})
    assert (False, False) == (found["lower_bound"], found["file_systems"][0]["lower_bound"])
    found = compare_sides(OF_NODES, harvest(), {("home", "OST0000")})
    assert (True, True) == (found["lower_bound"], found["file_systems"][0]["lower_bound"])


@pytest.mark.parametrize("note, used, is_low", [
    ("scratch: OST0000: no sweep", True, True), ("home: OST0000: no sweep", True, False),
    ("scratch: OST0000: no sweep", False, False)], ids=["used", "another one", "not used"])
def test_what_no_server_has_seen_is_a_lower_bound_where_the_nodes_used_it(note, used, is_low):
    record = nodes()
    if not used:
        record["file_systems"][0]["targets"] = {}
    there = {**harvest(), "file_systems": [], "notes": [note]}
    assert is_low is compare_sides(record, there, ALL)["lower_bound"]


def test_a_file_system_that_no_node_has_seen_stands_as_the_servers_tell_it():
    there = harvest(name="home", read_bytes=23)
    assert there == compare_sides(OF_NODES, there, set())
