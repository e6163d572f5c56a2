"""
Node lists as people write them, and as they are printed.
"""

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
    assert shown == node_sets.folded(nodes)


def test_a_node_list_is_written_out():
    assert ["nid1", "nid3"] == node_sets.unfolded("nid[1,3]")
    with pytest.raises(ValueError, match="missing bracket"):
        node_sets.unfolded("a[1-")


def test_a_range_that_is_too_large_is_an_error_of_the_list():
    """ClusterShell only asserts it: `iostats server --nodes` ended with a traceback."""
    with pytest.raises(ValueError, match="range too large"):
        node_sets.unfolded("a[1-1000000001]")
