"""
Balance: each item has one aggregator, loads are fair, and nothing moves without need.
"""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from iostats_ldms.balance import SLACK, assign_items, list_moved, weigh_set

NAMES = [f"agg-{number}" for number in range(1, 9)]


def even(names):
    return dict.fromkeys(names, 1.0)


def counts(plan):
    return {name: list(plan.values()).count(name) for name in sorted(set(plan.values()))}


def test_producers_are_spread_by_their_number():
    plan = assign_items(dict.fromkeys(map(str, range(23)), 1.0), even("abc"), {})

    assert {"a": 8, "b": 8, "c": 7} == counts(plan)


def test_sets_are_spread_by_size_and_frequency():
    """370 B each 0.1 s are as much as 3,700 B a second."""
    weights = {"often": weigh_set(370, 1e5), "large": weigh_set(3700, 1e6),
               "small": weigh_set(37, 1e6)}
    plan = assign_items(weights, even("ab"), {})

    assert 3700 == weights["often"] == weights["large"]
    assert plan["often"] != plan["large"]


def test_one_of_twice_the_capacity_gets_twice_as_much():
    plan = assign_items(dict.fromkeys(map(str, range(69)), 1.0), {"a": 2.0, "b": 1.0}, {})

    assert {"a": 46, "b": 23} == counts(plan)


def test_sets_without_a_size_are_spread_too():
    plan = assign_items(dict.fromkeys(map(str, range(41)), 0.0), even("abc"), {})

    assert {"a": 14, "b": 14, "c": 13} == counts(plan)


def test_without_an_aggregator_there_is_no_plan():
    assert {} == assign_items({"one": 1.0}, {}, {"one": "gone"})
    assert {} == assign_items({}, even("ab"), {"gone": "a"})


def test_a_failure_moves_only_what_the_failed_one_had_and_its_return_only_its_share():
    items = dict.fromkeys((f"s-{number}" for number in range(800)), 1.0)
    first = assign_items(items, even(NAMES), {})
    without = assign_items(items, even(NAMES[1:]), first)
    again = assign_items(items, even(NAMES), without)

    assert [item for item in sorted(items) if first[item] == "agg-1"] == list_moved(first, without)
    assert 100 == len(list_moved(without, again))
    assert {"agg-1"} == {again[item] for item in list_moved(without, again)}
    assert dict.fromkeys(NAMES, 100) == counts(again)


def test_one_of_many_that_comes_back_does_not_stay_empty():
    """Its neighbours were within the slack without it."""
    names = [f"agg-{number}" for number in range(41)]
    items = dict.fromkeys(map(str, range(41 * 37)), 1.0)
    without = assign_items(items, even(names[1:]), {})
    again = assign_items(items, even(names), without)

    assert 37 == list(again.values()).count("agg-0") == len(list_moved(without, again))


def test_one_of_few_that_comes_back_does_not_stay_empty():
    """The others have two of four each: two thirds of a producer above their share."""
    without = assign_items(dict.fromkeys("wxyz", 1.0), even("ac"), {})
    again = assign_items(dict.fromkeys("wxyz", 1.0), even("abc"), without)

    assert [1, 1, 2] == sorted(counts(again).values())
    assert ["b"] == [again[item] for item in list_moved(without, again)]


@given(st.integers(1, 90), st.lists(st.sampled_from(NAMES), min_size=2, unique=True), st.data())
def test_each_has_its_part_give_or_take_one_whoever_came_back(count, names, data):
    items = dict.fromkeys(map(str, range(count)), 1.0)
    gone = data.draw(st.sampled_from(names))
    without = assign_items(items, even([name for name in names if name != gone]), {})
    again = assign_items(items, even(names), without)

    assert all(abs(list(again.values()).count(name) - count / len(names)) <= max(
        1, SLACK * count / len(names)) for name in names)
    assert {gone} >= {again[item] for item in list_moved(without, again)}


@pytest.mark.parametrize("items, names, expected", [
    (dict.fromkeys(("e-1", "e-2"), 1.0), "ab", {"a": 1, "b": 1}),
    (dict.fromkeys(("e-1", "e-2", "e-3", "e-4"), 1.0), "abc", {"a": 1, "b": 1, "c": 2}),
    ({"large": 2300.0, **dict.fromkeys(map(str, range(74)), 1.0)}, "abc",
     {"a": 1, "b": 37, "c": 37}),
], ids=["one each", "four on three", "beside a large one"])
def test_one_that_comes_back_does_not_stay_empty_where_items_are_few(items, names, expected):
    """By one item an aggregator may be below its share; here that would be all of it."""
    first = assign_items(items, even(names), {})
    gone = "b" if "large" in items else "a"
    without = assign_items(items, even(set(names) - {gone}), first)
    again = assign_items(items, even(names), without)

    assert expected == counts(again)
    assert {gone} == {again[item] for item in list_moved(without, again)}
    assert again == assign_items(items, even(names), again)


WEIGHTS = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=4),
                          st.floats(0, 1e6) | st.just(0.0) | st.just(1.0), max_size=60)
CAPACITY = st.dictionaries(st.sampled_from(NAMES), st.floats(0.1, 10), min_size=1)


def loads_of(plan, weights):
    found = {}
    for item, name in plan.items():
        found[name] = found.get(name, 0.0) + weights[item]
    return found


def is_fair(plan, weights, capacity):
    total, whole = sum(weights.values()), sum(capacity.values())
    most = max(weights.values(), default=0)
    spare = 1e-3 * total * len(plan) + 1e-9             # of the items without a weight
    return all(load <= (1 + SLACK) * total * capacity[name] / whole + most + spare
               for name, load in loads_of(plan, weights).items())


@example({"a": 5e-324}, {"agg-1": 0.5}, {})         # half of the least float is 0
@given(WEIGHTS, CAPACITY, st.dictionaries(st.text("abcdefgh", min_size=1, max_size=4),
                                          st.sampled_from([*NAMES, "gone"])))
def test_each_item_has_one_aggregator_that_is_up_and_none_has_too_much(weights, capacity, before):
    plan = assign_items(weights, capacity, before)

    assert weights.keys() == plan.keys()
    assert set(plan.values()) <= capacity.keys()
    assert is_fair(plan, weights, capacity)


@given(WEIGHTS, CAPACITY, st.randoms())
def test_the_order_of_the_arguments_does_not_matter(weights, capacity, random):
    before = assign_items(weights, even(NAMES[:3]), {})

    def shuffled(some):
        items = list(some.items())
        random.shuffle(items)
        return dict(items)
    assert assign_items(weights, capacity, before) == assign_items(
        shuffled(weights), shuffled(capacity), shuffled(before))


@given(WEIGHTS, CAPACITY)
def test_a_plan_that_stands_is_left_as_it_is(weights, capacity):
    plan = assign_items(weights, capacity, {})

    assert plan == assign_items(weights, capacity, plan)


@given(WEIGHTS, st.lists(st.sampled_from(NAMES), min_size=2, unique=True), st.data())
def test_a_failure_moves_nothing_of_the_others_unless_they_were_unfair(weights, names, data):
    first = assign_items(weights, even(names), {})
    failed = data.draw(st.sampled_from(names))
    assume(len(names) > 1)
    after = assign_items(weights, even([name for name in names if name != failed]), first)

    assert all(first[item] == failed for item in list_moved(first, after))


def test_what_only_some_can_take_goes_to_them_and_the_rest_makes_room():
    only = {f"near-{number}": ["a"] for number in range(23)}
    items = dict.fromkeys([*only, *(f"s-{number}" for number in range(46))], 1.0)
    plan = assign_items(items, even("abc"), {}, only)

    assert {"a": 23, "b": 23, "c": 23} == counts(plan)
    assert {"a"} == {plan[item] for item in only}


def test_what_none_can_take_has_no_aggregator():
    assert {"there": "a"} == assign_items({"lost": 1.0, "there": 1.0}, even("ab"), {"lost": "a"},
                                      {"lost": ["gone"], "there": ["a"]})


ONLY = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=4),
                       st.lists(st.sampled_from(NAMES), max_size=3))


@example({"a": 1.0, "b": 0.0, "c": 1.0, "aa": 0.0, "aaa": 0.0, "aaaa": 1.0},
         {"agg-1": 4.0, "agg-2": 2.0, "agg-3": 1.0, "agg-4": 1.0, "agg-5": 1.0, "agg-6": 2.0}, {},
         {"b": "agg-1", "aa": "agg-2", "aaa": "agg-2"})     # the first has no item to spare
@given(WEIGHTS, CAPACITY, ONLY, st.dictionaries(st.text("abcdefgh", min_size=1, max_size=4),
                                                st.sampled_from(NAMES)))
def test_nothing_is_where_it_cannot_be_and_the_plan_stands(weights, capacity, only, before):
    plan = assign_items(weights, capacity, before, only)

    assert plan.keys() == {item for item in weights
                           if item not in only or set(only[item]) & capacity.keys()}
    assert all(name in only.get(item, NAMES) for item, name in plan.items())
    assert plan == assign_items(weights, capacity, plan, only)
