"""
What an aggregator that does not answer means to the level above, which stays connected to it.
"""
from fleet_desk import Carer, described

from iostats_ldms.reconcile.fleet import Fleet

SETS = {f"node-{number}/meminfo" for number in range(1, 7)}


def cluster_of(carer):
    for _ in range(5):
        carer.cluster.advance(2.0)
        carer.poll()
    carer.verbs()
    return carer.cluster


def advance_at_top(carer):
    """The sets that were updated at the level above by a sample of the last 2.5 s."""
    for _ in range(3):
        carer.cluster.advance(2.0)
        carer.poll()
    return {one.held.instance for _, one in carer.cluster.up["top-1"].producers.collected()
            if one.held.sampled_s > carer.cluster.now_s - 2.5}


def test_the_producer_of_a_hung_one_is_stopped_and_started_when_it_answers():
    carer = Carer(described(6, 3, tops=1))
    cluster = cluster_of(carer)
    cluster.hang("agg-2")

    assert SETS == advance_at_top(carer)
    assert ["prdcr_stop"] == carer.verbs()["top-1"]
    cluster.wake("agg-2")
    assert SETS == advance_at_top(carer)
    assert ["prdcr_start"] == carer.verbs()["top-1"]


def test_it_is_left_alone_where_the_process_is_dead_or_a_sampler_hangs():
    """Its connection is closed; and a sampler's sets are with no other."""
    carer = Carer(described(6, 3, tops=1))
    cluster = cluster_of(carer)
    cluster.kill("agg-2")
    cluster.hang("node-1")

    assert SETS - {"node-1/meminfo"} == advance_at_top(carer)
    assert {"agg-1": ["prdcr_start"], "agg-3": ["prdcr_start"]} == carer.verbs()


def test_a_host_that_is_silent_is_as_one_that_hangs_and_one_that_refuses_is_not():
    carer = Carer(described(6, 3, tops=1))
    cluster_of(carer)
    fleet = carer.fleet

    def told_to_top():
        return [step.statement.verb for _, step in fleet.plan_commands("top-1")]
    fleet.mark_lost("agg-2", "down", "no connection within 3 s", 1.0, is_unreachable=True)
    fleet.place_producers(None)
    assert [] == told_to_top(), "the others have not started its producers yet"
    for name in ("agg-1", "agg-3"):
        carer._tell(name)
    assert ["prdcr_stop"] == told_to_top()
    fleet.mark_lost("agg-2", "down", "Connection refused", 2.0)
    assert [] == told_to_top()
    fleet.mark_lost("agg-2", "down", "its secret word differs from ours", 3.0,
                    is_uncontrollable=True)
    assert [] == told_to_top()


def test_where_no_other_lives_nothing_is_stopped():
    carer = Carer(described(6, 1, tops=1))
    cluster_of(carer).hang("agg-1")
    carer.cluster.advance(10.0)
    carer.poll()

    assert {} == carer.verbs()


def test_who_owns_the_level_above_asks_the_level_below():
    """Another instance has that one; what it decides is seen at its aggregators."""
    made = described(6, 3, tops=1)
    carer = Carer(made)
    cluster = cluster_of(carer)
    fleet = Fleet()
    fleet.describe(made)
    needed = {name for name in fleet.daemons if fleet.is_needed(name, {"tops"})}
    assert {"agg-1", "agg-2", "agg-3", "top-1"} == needed

    above = Carer(made, cluster, start=False)
    above.fleet.release_others({"tops"})
    for name in needed:
        above.ask(name)
    above.fleet.place_producers({"tops"})
    assert [] == above.fleet.plan_commands("top-1", {"tops"})
    cluster.hang("agg-2")
    above.ask("agg-2")
    assert [] == above.fleet.plan_commands("top-1", {"tops"}), "it alone does not reach it"
    carer.fleet.mark_lost("agg-2", "hung", "away", 0.0)
    carer.fleet.place_producers(None)
    for name in ("agg-1", "agg-3"):
        carer._tell(name)
        above.ask(name)
    [(group, step)] = above.fleet.plan_commands("top-1", {"tops"})
    assert ("tops", "prdcr_stop", (("name", "agg-2"),)) == (
        group, step.statement.verb, step.statement.attributes)

    later = Carer(made, cluster, start=False)       # an instance that has never seen it
    cluster.tell("top-1", step.statement)
    for name in ("agg-1", "agg-3", "top-1"):
        later.ask(name)
    assert [] == later.fleet.plan_commands("top-1", {"tops"}), "it is not known yet"
    later.fleet.mark_lost("agg-2", "hung", "away", 0.0)
    later.fleet.place_producers({"tops"})
    assert [] == later.fleet.plan_commands("top-1", {"tops"})
