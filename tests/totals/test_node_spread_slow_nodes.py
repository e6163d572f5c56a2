"""
Nodes that took much longer than the others for as much, by hand-made times.

Jobs of 100 s; each node writes 1,000 MiB in 1,000 calls within 2 s, unless it says more.
"""

import pytest

from iostats.report import node_sets
from iostats.totals.node_spread import find_slow_nodes, make_tables

MIB = 2**20


def wrote(seconds=2.0, mib=1000, calls=1000):
    return {"write_bytes": mib * MIB, "write_calls": calls, "write_us": round(seconds * 1e6)}


def slow(*nodes, elapsed_s=100.0):
    shorts = [{"file_systems": {"scratch": one}} for one in nodes]
    tables = make_tables(shorts, [f"nid{number:02}" for number in range(1, 1 + len(nodes))])
    return find_slow_nodes(tables["scratch"], elapsed_s, node_sets.fold_nodes)


def test_one_node_of_eight_that_takes_ten_times_as_long():
    """The others take 2 s at most."""
    [one] = slow(*[wrote()] * 4, wrote(20.0), wrote(1.7), wrote(1.9), wrote(1.3))
    assert {"call": "write", "nodes": "nid05", "node_count": 1, "slowest": "nid05",
            "seconds": 20.0, "usual_seconds": 2.0} == one


def test_two_of_eight_are_slow_and_the_one_that_lost_most_is_the_slowest():
    [one] = slow(wrote(23.0), *[wrote()] * 6, wrote(41.0, 2000, 2000))
    assert ("nid[01,08]", 2, "nid08", 41.0, 4.0) == (
        one.nodes, one.node_count, one.slowest, one.seconds, one.usual_seconds)


@pytest.mark.parametrize("nodes", [
    [*[wrote()] * 7, wrote(20.0, 10_000, 10_000)],
    [*[wrote()] * 7, wrote(90.0, 2001, 2001)],
    [*[wrote()] * 7, wrote(20.0, 1000, 10_000)],
    [*[wrote()] * 7, wrote(20.0, 10_000, 1000)],
    [*[wrote()] * 7, wrote(4.9)],
    [*[wrote()] * 2, wrote(20.0)],
    [*[wrote()] * 5, *[wrote(20.0)] * 3],
    [*[wrote(0.02)] * 7, wrote(0.2)],
    [*[wrote()] * 3, {"write_bytes": 5, "write_calls": 1}, {"open": 23, "open_us": 90_000_000}],
], ids=["it did ten times as much", "it did more than twice as much", "smaller calls",
        "larger calls", "not 2.5 times as long", "three nodes",
        "more than a quarter", "less than 1 % of the time", "not timed"])
def test_others_are_not_slow(nodes):
    assert [] == slow(*nodes)


def test_reads_and_nodes_with_other_metrics():
    """Nodes that counted something else beside, of three groups."""
    reads = [{f"read{name[5:]}": value for name, value in wrote(seconds).items()}
             for seconds in (2.0, 2.0, 2.0, 37.0)]
    reads[0]["open"], reads[3]["mkdir"] = 3, 1
    [one] = slow(*reads)
    assert ("read", "nid04", 37.0, 2.0) == (one.call, one.nodes, one.seconds, one.usual_seconds)
