"""
Node lists as people write them, and as they are printed.
"""

import sys

import pytest

from iostats.report import node_sets


@pytest.mark.parametrize("nodes, shown", [
    (["nid00001", "nid00002", "nid00003", "nid00007"], "nid[00001-00003,00007]"),
    (["node1"], "node1"),
    (["b2", "a1"], "a1,b2"),
    ([], ""),
])
def test_node_names_are_folded_as_batch_systems_do(nodes, shown):
    """A list of 10,000 names helps nobody."""
    assert shown == node_sets.fold_nodes(nodes)


def test_a_node_list_is_written_out():
    assert ["nid1", "nid3"] == node_sets.unfold_nodes("nid[1,3]")
    with pytest.raises(ValueError, match="missing bracket"):
        node_sets.unfold_nodes("a[1-")


@pytest.mark.parametrize("text", ["a[1-1000000001]", "nid[1-9][1-9][1-9]", "b,nid[23-4711]",
                                  "nid[1-999999999/2]!nid1", "nid[1-" + "9" * 40 + "]"])
def test_a_list_that_is_too_long_is_refused_before_its_names_are_made(text, monkeypatch):
    """ClusterShell makes them all first, in gigabytes."""
    monkeypatch.setitem(sys.modules, "ClusterShell.NodeSet", None)      # it is not asked
    with pytest.raises(ValueError, match=r"^more than 370 nodes$"):
        node_sets.unfold_nodes(text, 370)


@pytest.mark.parametrize("text, count", [
    ("nid[1-23]", 23), ("nid[1-45/2]", 23), ("nid[1-30]!nid[1-7]", 23), ("a[1-5]b[1-4],c,d,e", 23)])
def test_a_list_of_up_to_the_bound_is_written_out(text, count):
    assert count == len(node_sets.unfold_nodes(text, 37))
