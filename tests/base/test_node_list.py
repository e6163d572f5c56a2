"""
Node lists of batch systems, written out as a node does it, and what is no list.
"""

import pytest

from iostats.base.node_list import expand_node_list


@pytest.mark.parametrize("text, names", [
    ("nid00023", ["nid00023"]),
    ("nid[00008-00011,00037],login1", ["nid00008", "nid00009", "nid00010", "nid00011", "nid00037",
                                       "login1"]),
    ("a[9-11]", ["a9", "a10", "a11"]), ("a[7-7]", ["a7"]), ("[1-2]", ["1", "2"]),
    ("rack[2-3]n[08-09]x", ["rack2n08x", "rack2n09x", "rack3n08x", "rack3n09x"]),
    (" b,,a ", ["b", "a"]), ("", []),
], ids=["one", "ranges", "more digits", "of one", "numbers alone", "two brackets", "blanks",
        "none"])
def test_a_list_is_written_out_in_its_order_with_its_zeros(text, names):
    assert names == expand_node_list(text)


@pytest.mark.parametrize("text, off", [
    ("a[1-3", "a[1-3"), ("b,a[3-1]", "3-1"), ("a[1,x]", "x"), ("a[1-]", "1-"), ("a[-3]", "-3"),
    ("a[1-2-3]", "1-2-3"), ("a[]", "[]"), ("a[1,]", "[]"),
], ids=["not closed", "backwards", "no number", "no end", "no beginning", "two ends", "empty",
        "an empty one"])
def test_what_is_no_list_is_refused_with_the_part_that_is_off(text, off):
    with pytest.raises(ValueError) as caught:
        expand_node_list(text)
    assert off == str(caught.value)


@pytest.mark.parametrize("text", ["n" * 5000, "n" * 5000 + "[1-3]", "n[1-3]" * 2000,
                                  f"n[1-{'9' * 300}]"])
def test_a_name_that_no_node_can_have_is_refused(text):
    """Not one of a million names of a megabyte each."""
    with pytest.raises(ValueError):
        expand_node_list(text)


@pytest.mark.parametrize("text", ["a[1-1000001]", "a[1-600000,600001-1000001]",
                                  "a[1-1001]b[1-1000]", "a[1-999],b[1-1001]c[1-1000]",
                                  "a[1-99999999999999999999]"])
def test_a_list_of_more_than_a_million_nodes_is_refused_before_it_is_made(text):
    """A few characters must not take a node's memory."""
    with pytest.raises(ValueError):
        expand_node_list(text)
