"""
Amounts over time: nothing is lost or split, whatever the order of the times, and the number of bins
is bounded; also where a node says things that no clock shows.
"""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_job_totals import llite
from trees import report

from iostats.totals.job_totals import Totals
from iostats.totals.time_bins import (
    MOST_BINS,
    Series,
    find_common_factor,
    join_bins,
    make_bins,
    make_series,
)
from iostats.wire.messages.report import ReportedSeries

AMOUNTS = st.integers(0, 2**63 - 1)
# Of a job's hours, and of clocks that are off by an age of the world.
TIMES = st.one_of(st.floats(0, 1e5), st.floats(-1e12, 1e12))
LOOKS = st.lists(st.tuples(TIMES, AMOUNTS), min_size=1, max_size=60)


def series_of(*looks, every_s=10.0, began=None, most=8):
    found = Series(every_s, ("bytes",), began, most)
    for at, amount in looks:
        found.add(at, {"bytes": amount})
    return found


def shape(found):
    return found.began, found.every_s, found.bins["bytes"]


# -- by hand -----------------------------------------------------------------------------------


@pytest.mark.parametrize("looks, began, every_s, bins", [
    ([(105, 3), (114, 5), (131, 7)], 100, 10, [3, 5, 0, 7]),
    ([(131, 7), (105, 3), (114, 5)], 100, 10, [3, 5, 0, 7]),
    ([(105, 3), (106, 5), (109.9, 7)], 100, 10, [15]),
    ([(100, 3), (110, 5)], 100, 10, [3, 5]),
    ([(105, 3), (95, 5)], 80, 10, [0, 5, 3]),
    ([(105, 3), (85, 5)], 80, 10, [5, 0, 3]),
    ([(105, 3), (79, 5)], 60, 10, [0, 5, 0, 0, 3]),
    ([(105, 1), (115, 2), (125, 4), (135, 8), (145, 16), (155, 32), (165, 64), (175, 128)],
     100, 10, [1, 2, 4, 8, 16, 32, 64, 128]),
    ([(105, 1), (115, 2), (125, 4), (135, 8), (145, 16), (155, 32), (165, 64), (175, 128),
      (185, 256)], 100, 20, [3, 12, 48, 192, 256]),
    ([(105, 1), (185, 2), (95, 4)], 60, 20, [0, 4, 1, 0, 0, 0, 2]),
], ids=["in order", "out of order", "in one bin", "on the edges", "before it began",
        "two bins before", "three bins before", "just full", "one more than full",
        "full, and before it began"])
def test_each_amount_is_in_the_bin_of_its_time(looks, began, every_s, bins):
    """Bins of 10 s from 100 on, at most 8 of them; in front they come in pairs."""
    assert (began, every_s, bins) == shape(series_of(*looks, began=100))


def test_without_a_begin_the_first_look_is_the_begin():
    """Whatever clock it is of."""
    assert (7.0, 10.0, [23, 37]) == shape(series_of((7.0, 23), (17.5, 37)))


def test_thirty_years_between_two_looks_are_two_amounts_and_bins_of_seven_weeks():
    """1e9 s in 240 bins of a power of two are bins of 2**22 s; the second is in number 238."""
    found = Series(1, ("bytes",), began=0)
    found.add(0.5, {"bytes": 23})
    found.add(1e9, {"bytes": 37})
    assert (0, 4194304, 239) == (found.began, found.every_s, len(found))
    assert {0: 23, 238: 37} == {place: n for place, n in enumerate(found.bins["bytes"]) if n}


def test_a_metric_that_a_look_does_not_name_is_0():
    """All metrics have the same number of bins."""
    found = Series(10, ("read_bytes", "write_bytes"), began=0)
    found.add(5, {"read_bytes": 23})
    found.add(25, {"write_bytes": 37})
    assert {"began": 0, "every_s": 10, "read_bytes": [23, 0, 0],
            "write_bytes": [0, 0, 37]} == found.as_dict()


# -- whatever comes ----------------------------------------------------------------------------


@given(LOOKS, st.integers(4, 12), st.sampled_from([0.001, 1.0, 60.0]))
def test_the_bins_are_bounded_and_their_sum_is_what_was_added(looks, most, every_s):
    """In any order of times, with any gaps."""
    found = Series(every_s, ("bytes",), max_bins=most)
    for at, amount in looks:
        found.add(at, {"bytes": amount})
        assert len(found) <= most
    assert sum(amount for _, amount in looks) == sum(found.bins["bytes"])
    assert found.began <= min(at for at, _ in looks)


@given(LOOKS)
def test_the_bins_double_only_when_they_are_full(looks):
    """The bins before the doubling could not have held it: at most a pair of 8 was to spare."""
    found = Series(1.0, ("bytes",), max_bins=8)
    for number, (at, amount) in enumerate(looks, 1):
        before_s = found.every_s
        found.add(at, {"bytes": amount})
        times = [each for each, _ in looks[:number]]
        if found.every_s > before_s:
            assert max(times) - min(times) > (8 - 4) * found.every_s / 2


@given(LOOKS, st.sampled_from([1.0, 7.0, 60.0, 3600.0]))
def test_a_series_added_to_another_keeps_its_sum(looks, every_s):
    """Of other bins, and at another time."""
    one, other = series_of(*looks, every_s=10.0), series_of((5.0, 23), (1e5, 37), every_s=every_s)
    whole = sum(one.bins["bytes"])
    other.add_all(one)
    assert 23 + 37 + whole == sum(other.bins["bytes"])
    assert len(other) <= 8


NODES = st.lists(st.tuples(st.sampled_from([1.0, 2.0, 60.0, 120.0, 480.0, 7.0]),
                           st.one_of(st.floats(0, 1e4), st.floats(-2e12, 2e12)),
                           st.lists(AMOUNTS, max_size=30)), min_size=1, max_size=6)


def together(nodes, most):
    """family -> the Bins of all nodes of it, one after another."""
    found = {}
    for every_s, began, row in nodes:
        bins = make_bins(every_s, began, [row])
        known = found.get(find_common_factor(bins))
        found[find_common_factor(bins)] = join_bins(*([known] if known else []), bins,
                                                    max_places=4 * most)
    return found


@given(NODES, st.integers(4, 12), st.randoms())
def test_nodes_in_any_order_and_in_any_groups_make_the_same_bins(nodes, most, random):
    """Of the same widths or others, of clocks that are off by an age of the world."""
    whole = together(nodes, most)
    shuffled = random.sample(nodes, len(nodes))
    cut = random.randint(0, len(nodes))
    groups = together(shuffled[:cut], most), together(shuffled[cut:], most)
    assert whole == {key: join_bins(*(group[key] for group in groups if key in group),
                                    max_places=4 * most)
                     for key in {*groups[0], *groups[1]}}
    for bins in whole.values():
        assert -(-len(bins.rows[0]) // 4) <= most
    assert sum(sum(row) for _, _, row in nodes) == sum(
        make_series(whole.values(), ("bytes",)).bins["bytes"])


# -- many nodes --------------------------------------------------------------------------------


def watched(began, every_s, *operations):
    """What one node's `watch` saw."""
    zeros = [0] * len(operations)
    return ReportedSeries(began, every_s, zeros, zeros, list(operations))


def record_of(*nodes, ahead=(0.0, 0.0, 0.0)):
    """The series of a job of nodes that saw these."""
    totals = Totals("4711", len(nodes))
    for number, one in enumerate(nodes):
        totals.add(report(f"nid{number}", [llite(open=1)], series={"scratch": one},
                          clock_ahead_s=ahead[number]))
    [fs] = totals.record()["file_systems"]
    return fs["series"]


def test_two_nodes_are_added_bin_by_bin():
    """As their clocks agree to some milliseconds, and their looks to less than half a bin."""
    found = record_of(watched(1_795_225_000.5, 60, 23, 37, 5),
                      watched(1_795_225_000.495, 60, 41, 43, 7),
                      watched(1_795_225_025.0, 60, 100, 200, 400))
    assert (3, 1_795_225_000.495, 60.0, [164, 280, 412]) == (
        found["nodes"], found["began"], found["every_s"], found["operations"])


def test_a_node_whose_clock_is_ahead_is_put_where_it_belongs():
    """An hour ahead: its bins are those of the others."""
    found = record_of(watched(1_795_225_000.0, 60, 23, 37),
                      watched(1_795_228_600.0, 60, 41, 43), ahead=(0.0, 3600.0))
    assert (1_795_225_000.0, [64, 80]) == (found["began"], found["operations"])


@pytest.mark.parametrize("late_s", [0.0, 7.5, 29.0, 44.0])
def test_nodes_that_began_a_moment_apart_are_in_the_same_bins(late_s):
    """Wherever the minutes of the grid begin: what is near the first node goes with it."""
    for began in (1_795_225_000.0, 1_795_225_014.9, 1_795_225_029.9):
        found = record_of(watched(began, 60, 23, 37), watched(began + late_s, 60, 41, 43))
        assert (began, 60.0, [64, 80]) == (found["began"], found["every_s"], found["operations"])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["fine first", "coarse first"])
def test_a_node_with_bins_twice_as_wide_makes_no_peaks(order):
    """One node has halved its bins and the other has not yet: 11 of two bins is no peak in one."""
    nodes = watched(1_795_225_000.0, 60, 2, 3, 5, 7), watched(1_795_225_000.0, 120, 11, 13)
    found = record_of(*(nodes[number] for number in order))
    assert (120.0, [16, 25]) == (found["every_s"], found["operations"])


# -- what no watch would send ------------------------------------------------------------------


def wire(**changed):
    return {"began": 1_795_225_000.0, "every_s": 60.0, "read_bytes": [1, 2], "write_bytes": [3, 4],
            "operations": [5, 6], **changed}


@pytest.mark.parametrize("changed", [
    {"operations": [5]}, {"read_bytes": []}, {"write_bytes": [1, 2, 3]},
    {"every_s": 0}, {"every_s": -1}, {"every_s": 1e-9}, {"every_s": 5e-324}, {"every_s": 1e10},
    {"began": 1e13}, {"began": -1e13}, {"began": None}, {"operations": [5, -6]},
    {"operations": [5, 2**63]}, {"operations": [5, 6.5]},
    {"read_bytes": [1] * 1001, "write_bytes": [1] * 1001, "operations": [1] * 1001},
], ids=repr)
def test_a_series_that_is_none_is_refused_at_the_door(changed):
    """Before anything of its report is added: arrays of unequal length, widths that overflow."""
    assert wire() == msgspec.to_builtins(msgspec.convert(wire(), ReportedSeries))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wire(**changed), ReportedSeries)


@pytest.mark.parametrize("ends", [
    [(1e12, 1e-3), (-1e12, 1e-3)], [(-1e12, 1e-3), (1e12, 1e-3)], [(1e12, 1e-3), (0.0, 1e9)],
    [(0.0, 1e9), (1e12, 1e-3), (-1e12, 1e-3)],
], ids=["back", "forth", "narrow, then wide", "wide, then narrow"])
def test_the_farthest_series_that_is_taken_costs_no_time(ends):
    """1000 bins of a millisecond at both ends of time, for 20 file systems: a moment's work."""
    names = [f"fs{number}" for number in range(20)]
    totals = Totals("4711", len(ends))
    begun = time.process_time()
    for number, (began, every_s) in enumerate(ends):
        one = watched(began, every_s, *[1] * 1000)
        assert totals.add(report(f"nid{number}", [llite(name) for name in names],
                                 series=dict.fromkeys(names, one))).counted
    assert time.process_time() - begun < 5
    for fs in totals.record()["file_systems"]:
        assert 1000 * len(ends) == sum(fs["series"]["operations"])
        assert len(fs["series"]["operations"]) <= MOST_BINS
