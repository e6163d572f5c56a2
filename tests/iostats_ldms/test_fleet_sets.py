"""
Balance by metric sets: whole producers where that is fair, shared ones where it is not; and what
aggregators are told of it.
"""

from dataclasses import replace

import pytest
from fleet_desk import Carer, described
from hypothesis import given
from hypothesis import strategies as st

from iostats_ldms.balance import SetPlacement, assign_sets
from iostats_ldms.description.model import SetMatch


def even(count):
    return {f"agg-{n}": 1.0 for n in range(1, count + 1)}


def loads(shares, sets):
    found = {}
    for name, of in sets.items():
        for one, weight in of.items():
            place = shares.split.get(name, {}).get(one, shares.places[name])
            found[place] = found.get(place, 0.0) + weight
    return found


def test_producers_stay_whole_where_that_is_fair():
    sets = {f"node-{n}": {f"node-{n}/a": 23.0, f"node-{n}/b": 37.0} for n in range(6)}
    shares = assign_sets(sets, even(3), SetPlacement({}, {}))

    assert {} == shares.split
    assert {"agg-1": 120.0, "agg-2": 120.0, "agg-3": 120.0} == loads(shares, sets)


def test_a_producer_that_is_too_much_for_one_is_shared():
    sets = {"oss-1": {f"oss-1/{n}": 37.0 for n in range(12)}, "oss-2": {"oss-2/0": 37.0},
            "oss-3": {"oss-3/0": 37.0}}
    shares = assign_sets(sets, even(3), SetPlacement({}, {}))

    assert {"oss-1"} == shares.split.keys()
    assert [148.0, 185.0, 185.0] == sorted(loads(shares, sets).values())


def test_one_whose_sets_are_not_known_has_a_place_too():
    assert {"node-1": "agg-1", "node-2": "agg-2"} == assign_sets(
        {"node-1": {}, "node-2": {}}, even(2), SetPlacement({}, {})).places


SETS = st.dictionaries(st.sampled_from([f"node-{n}" for n in range(6)]), st.dictionaries(
    st.sampled_from([f"set-{n}" for n in range(8)]), st.sampled_from([1.0, 23.0, 3700.0]),
    min_size=1))


@given(SETS.filter(bool), st.integers(1, 4), st.integers(1, 4))
def test_each_set_has_one_place_that_is_up_and_no_load_is_too_much(sets, count, later):
    shares = assign_sets(sets, even(count), SetPlacement({}, {}))
    again = assign_sets(sets, even(later), shares)

    for one, up in ((shares, count), (again, later)):
        assert sets.keys() == one.places.keys()
        found = loads(one, sets)
        assert found.keys() <= even(up).keys()
        total = sum(found.values())
        largest = max(weight for of in sets.values() for weight in of.values())
        least = 1e-3 * total * sum(map(len, sets.values()))
        assert max(found.values()) <= 1.1 * total / up + largest + least
    if count == later:
        assert shares == again


def uneven():
    """node-1 makes 12 sets, the others one each; three aggregators."""
    def of(count):
        return {"meminfo": [(f"/{n}", "synthetic", 760, 1000) for n in range(count)]}
    return Carer(described(samplers=3, aggregators=3, balance="sets"),
                 makes={"node-1": of(12), "node-2": of(1), "node-3": of(1)})


def settled(carer, polls=3):
    for _ in range(polls):
        carer.cluster.advance(2.0)
        carer.poll()


def collected(carer):
    """{aggregator: how many sets it updated just now}; each set at one of them alone."""
    carer.cluster.advance(3.0)
    by = carer.cluster.collected(carer.cluster.now_s - 1.5)
    found = {}
    for instance, of in by.items():
        names = [name for name, count in of.items() if count]
        assert 1 == len(names), (instance, of)
        found[names[0]] = found.get(names[0], 0) + 1
    return found


def test_the_sets_of_a_shared_producer_are_collected_once_each():
    carer = uneven()
    settled(carer, 5)

    assert [4, 5, 5] == sorted(collected(carer).values())
    carer.verbs()
    settled(carer, 1)
    assert {} == carer.verbs()


def test_they_are_collected_once_through_a_failure_and_a_return():
    carer = uneven()
    settled(carer, 5)
    carer.cluster.kill("agg-2")
    settled(carer, 4)
    assert [7, 7] == sorted(collected(carer).values())
    carer.start("agg-2")
    settled(carer, 5)

    found = collected(carer)
    assert {"agg-1", "agg-2", "agg-3"} == found.keys()
    assert 14 == sum(found.values())
    carer.verbs()
    settled(carer, 1)
    assert {} == carer.verbs()


def test_only_the_sets_that_an_updater_is_for_have_weight():
    """Ten of node-1's twelve sets are not updated: it is not shared."""
    carer = uneven()
    made = carer.fleet.description
    group = made.aggregators[0]
    few = replace(group.updaters[0], sets=(SetMatch("/meminfo/[01]$"),))
    carer.fleet.describe(replace(made, aggregators=(replace(group, updaters=(few,)),)))
    settled(carer, 5)

    assert [1, 1, 2] == sorted(collected(carer).values())
    assert {} == carer.fleet.split["aggs"]


def test_another_instance_comes_to_the_same_end():
    carer = uneven()
    settled(carer, 5)
    other = Carer(carer.fleet.description, carer.cluster, start=False)
    settled(other, 5)

    assert 14 == sum(collected(other).values())


def test_who_takes_over_leaves_each_set_where_it_is_collected():
    """After a failure and a return the sets are elsewhere than a first balance would have them."""
    carer = uneven()
    settled(carer, 5)
    carer.cluster.kill("agg-2")
    settled(carer, 4)
    carer.start("agg-2")
    settled(carer, 5)
    split = carer.fleet.split["aggs"]
    other = Carer(carer.fleet.description, carer.cluster, start=False)
    settled(other, 3)

    # Whether a plugin runs is seen by its answer alone.
    assert {f"node-{n}": ["start"] for n in (1, 2, 3)} == other.verbs()
    assert [("aggs", [], [])] == other.placed
    assert split == other.fleet.split["aggs"] != {}


def test_who_takes_over_decides_when_it_knows_the_loads():
    """By the first sampler's sets alone, all others would count as heavy, and move."""
    carer = uneven()
    settled(carer, 5)
    carer.cluster.kill("node-3")
    settled(carer, 1)
    other = Carer(carer.fleet.description, carer.cluster, start=False)
    placed = []
    for name in ("agg-1", "agg-2", "agg-3", "node-1", "node-2"):
        other.ask(name)
        placed.append(bool(other.fleet.place_producers(None)))
        if not placed[-1]:
            assert [[], [], []] == [other.fleet.plan_commands(f"agg-{n}") for n in (1, 2, 3)]

    assert [False, False, False, False, True] == placed     # node-3 is dead, and not waited for


@pytest.mark.parametrize("by_another", [False, True], ids=["who shared them", "who takes over"])
def test_when_producers_are_balanced_again_no_updater_of_shared_ones_is_left(by_another):
    carer = uneven()
    settled(carer, 5)
    made = carer.fleet.description
    whole = replace(made, aggregators=(replace(made.aggregators[0], balance="producers"),))
    carer = Carer(whole, carer.cluster, start=False) if by_another else carer
    carer.fleet.describe(whole)
    settled(carer, 5)

    assert [["updtr_0"]] * 3 == [[*carer.cluster.up[f"agg-{n}"].updaters.all] for n in (1, 2, 3)]
    assert [1, 1, 12] == sorted(collected(carer).values())
