"""Minimum, median, maximum, and who: over the nodes that could read a file system."""
from __future__ import annotations

import pytest

from iostats.totals.node_spread import compute_spread, make_tables


def spread_of(shorts, names):
    return {name: compute_spread(tables) for name, tables in make_tables(shorts, names).items()}


def spread(*nodes, names="abcdefgh"):
    return spread_of(({"file_systems": {"scratch": one}} for one in nodes), names)["scratch"]


@pytest.mark.parametrize("opens, expected", [
    ([23], (23, 23, 0, 23, "a")),
    ([23, 5, 37], (5, 23, 23, 37, "c")),
    ([23, 5, 37, 7], (5, 7, 23, 37, "c")),
    ([37, 5, 37], (5, 37, 37, 37, "a")),
    ([0, 0], (0, 0, 0, 0, "")),
], ids=["one node", "three", "the lower one of two", "two with the most", "nothing done"])
def test_a_metric_over_the_nodes(opens, expected):
    found = spread(*({"open": count} for count in opens))["open"]
    assert expected == (found.min, found.median, found.second, found.max, found.busiest)


def test_a_node_without_a_line_did_nothing_and_one_without_the_file_system_is_not_asked():
    """Absent means 0 where llite was read; another node could not read it at all."""
    shorts = [{"file_systems": {"scratch": {"open": 23}, "home": {"open": 5}}},
              {"file_systems": {"scratch": {"mkdir": 3}}}]
    found = spread_of(shorts, ["a", "b"])
    assert (0, 23) == (found["scratch"]["open"].min, found["scratch"]["open"].max)
    assert (5, 5) == (found["home"]["open"].min, found["home"]["open"].max)


def test_numbers_beyond_64_bits_beside_small_ones():
    """Of a node whose work was reported in several parts."""
    found = spread({"open": 23, "mkdir": 5}, {"open": 2**64, "mkdir": 7}, {"open": 37, "mkdir": 3})
    assert (23, 37, 37, 2**64, "b") == tuple(found["open"].values())
    assert (3, 5, 5, 7, "b") == tuple(found["mkdir"].values())
