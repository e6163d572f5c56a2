"""
Random walks over a fleet: daemons die, hang, go on and return, the description changes.

After each step and three polls (five where sets are balanced: they are seen first), every set that
has a live sampler and a live aggregator is collected by exactly one of them, at its interval, is
updated at the level above where that lives, and there is nothing left to tell.
"""

import hypothesis.strategies as st
import pytest
from examples import examples
from fleet_desk import Carer, described
from hypothesis import example, given, settings

SAMPLERS, AGGREGATORS = 6, 3
POLL_S = 2.0

names = st.sampled_from([*(f"agg-{n}" for n in range(1, AGGREGATORS + 1)),
                         *(f"node-{n}" for n in range(1, SAMPLERS + 1)), "top-1"])
steps = st.one_of(
    st.tuples(st.sampled_from(["kill", "hang", "wake", "start"]), names),
    st.tuples(st.sampled_from(["describe", "describe and take over"]), st.integers(1, SAMPLERS),
              st.integers(1, AGGREGATORS), st.sampled_from([1_000_000, 500_000])),
    st.tuples(st.just("by hand"), st.sampled_from(["agg-1", "agg-2"]),
              st.sampled_from(["updtr_stop name=updtr_0", "prdcr_stop name=node-1",
                               "prdcr_start name=node-1", "prdcr_stop_regex regex=.*"])),
    st.tuples(st.just("another instance")))


def take(carer, step):
    """The carer after a step of the walk: another where another instance takes over."""
    kind, *rest = step
    cluster = carer.cluster
    if kind == "describe and take over":        # by one that only heard of what is described
        carer = Carer(carer.fleet.description, cluster, start=False, makes=carer.makes)
    if kind.startswith("describe"):
        samplers, aggregators, interval_us = rest
        made = described(samplers, aggregators, tops=1, interval_us=interval_us,
                         updater_us=interval_us,
                         balance=carer.fleet.description.aggregators[0].balance)
        carer.fleet.describe(made)
    elif kind == "another instance":
        return Carer(carer.fleet.description, cluster, start=False, makes=carer.makes)
    elif rest[0] in cluster.up or kind == "start":
        name = rest[0]
        if kind == "by hand":
            if name not in cluster.hung:
                cluster.tell(name, rest[1])
        elif kind == "start":
            if name in carer.fleet.daemons:
                carer.start(name)
        else:
            getattr(cluster, kind)(name)
    return carer


def expected(carer):
    """The sets that have a live sampler, where an aggregator lives."""
    description, cluster = carer.fleet.description, carer.cluster
    live = set(cluster.up) - cluster.hung
    aggregators, samplers = description.aggregators[0].members, description.samplers[0].members
    if live.isdisjoint(aggregators):
        return set()
    return {one.instance for name in samplers if name in live
            for one in cluster.up[name].directory()}


def collected(carer):
    """
    {set: {aggregator: updates in the last 1.5 s}}, of the description's samplers that live; by
    aggregators that have just left it, too.
    """
    cluster, description = carer.cluster, carer.fleet.description
    by = cluster.collected(cluster.now_s - 1.5, [name for name in carer.fleet.daemons
                                                 if name.startswith("agg")])
    live = {name for name in description.samplers[0].members
            if name in cluster.up and name not in cluster.hung}
    return {instance: {name: count for name, count in of.items() if count}
            for instance, of in by.items() if instance.partition("/")[0] in live}


def at_the_top(carer):
    """The sets whose last value at the level above is newer than 2.5 s."""
    cluster = carer.cluster
    if "top-1" not in cluster.up or "top-1" in cluster.hung:
        return None
    return {one.held.instance for _, one in cluster.up["top-1"].producers.collected()
            if one.held.sampled_s > cluster.now_s - 2.5}


# node-1 makes more sets than one aggregator's share of all: by sets, it is shared.
MAKES = {"node-1": {"meminfo": [(f"/{n}", "synthetic", 760, 1000) for n in range(12)]}}


@pytest.mark.parametrize("balance, polls, makes", [("producers", 3, {}), ("sets", 5, MAKES)],
                         ids=["by producers", "by sets"])
@settings(max_examples=examples(15))
@example(walk=[("hang", "agg-1")])
@example(walk=[("hang", "agg-1"), ("another instance",), ("kill", "agg-1"), ("start", "agg-1")])
@example(walk=[("describe and take over", 6, 2, 1_000_000)])
@example(walk=[("hang", "agg-2"), ("hang", "top-1"), ("wake", "top-1"), ("wake", "agg-2")])
@given(walk=st.lists(steps, max_size=8))
def test_every_set_is_collected_exactly_once_whatever_happens(balance, polls, makes, walk):
    carer = Carer(described(SAMPLERS, AGGREGATORS, tops=1, balance=balance), makes=makes)
    for step in [("start", "top-1"), *walk]:
        carer = take(carer, step)
        for _ in range(polls):
            carer.cluster.advance(POLL_S)
            carer.poll()
        carer.cluster.advance(POLL_S)
        found = collected(carer)
        assert expected(carer) == {instance for instance, of in found.items() if of}, step
        assert all(len(of) == 1 for of in found.values()), (step, found)
        assert at_the_top(carer) in (None, expected(carer)), step
        every = carer.fleet.description.plugins["meminfo"].interval_us / 1e6
        assert all(count in (int(1.5 / every), int(1.5 / every) + 1)
                   for of in found.values() for count in of.values()), (step, found)
        carer.verbs()
        carer.poll()
        assert {} == carer.verbs(), step
