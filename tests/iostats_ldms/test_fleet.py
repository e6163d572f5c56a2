"""
A fleet of simulated daemons: set up, failures, returns, changes; and the fewest commands to it.
"""

from dataclasses import replace

import pytest
from fleet_desk import Carer, described

from iostats_ldms.description.model import Auth, Plugin, StoragePolicy, Subscription

VMSTAT = Plugin("vmstat", "vmstat", (), 1_000_000, 0)


def collected(carer, aggregators=None, within_s=2.5):
    """{set: the aggregators that updated it just now}."""
    carer.cluster.advance(within_s)
    found = carer.cluster.collected(carer.cluster.now_s - 1.5, aggregators)
    return {instance: sorted(name for name, count in by.items() if count)
            for instance, by in found.items()}


def settled(carer, polls=3):
    for _ in range(polls):
        carer.cluster.advance(2.0)
        carer.poll()


def test_bare_daemons_are_set_up_and_each_set_is_collected_once():
    carer = Carer(described(samplers=5, aggregators=2))
    settled(carer)

    assert {f"node-{n}/meminfo": 1 for n in range(1, 6)} == {
        instance: len(by) for instance, by in collected(carer).items()}


def test_what_stands_is_told_nothing():
    carer = Carer(described())
    settled(carer)
    carer.verbs()
    settled(carer)

    assert {} == carer.verbs()


def test_all_producers_are_there_before_the_updater_starts_and_run_after_it():
    carer = Carer(described(samplers=2, aggregators=1))
    carer.poll()

    assert ["prdcr_add", "prdcr_add", "updtr_add", "updtr_prdcr_add", "updtr_start", "prdcr_start",
            "prdcr_start"] == carer.verbs()["agg-1"]


def test_a_failure_moves_only_what_the_dead_one_had_and_stops_nothing():
    carer = Carer(described(samplers=6, aggregators=3))
    settled(carer)
    before = dict(carer.fleet.placement["aggs"])
    carer.verbs()
    carer.cluster.kill("agg-2")
    carer.poll()

    after = carer.fleet.placement["aggs"]
    assert {"agg-1": ["prdcr_start"], "agg-3": ["prdcr_start"]} == carer.verbs()
    assert {name for name in before if before[name] != after[name]} == {
        name for name in before if before[name] == "agg-2"}
    assert all(len(by) == 1 for by in collected(carer).values())


def test_one_that_returns_gets_its_share_back_stopped_elsewhere_first():
    carer = Carer(described(samplers=6, aggregators=3))
    settled(carer)
    carer.cluster.kill("agg-2")
    settled(carer)
    carer.verbs()
    carer.start("agg-2")
    carer.poll()
    verbs = [(verb, name) for daemon, verb, name in carer.told if verb in ("prdcr_start",
                                                                           "prdcr_stop")]

    assert 4 == len(verbs)
    assert {name for verb, name in verbs if verb == "prdcr_stop"} == {
        name for verb, name in verbs if verb == "prdcr_start"}
    for name in {name for _, name in verbs}:
        assert verbs.index(("prdcr_stop", name)) < verbs.index(("prdcr_start", name))
    assert all(len(by) == 1 for by in collected(carer).values())


def test_a_new_instance_takes_what_runs_as_it_is():
    """It has no memory but the daemons': after a failure the shares are not the first ones."""
    carer = Carer(described(samplers=7, aggregators=3))
    settled(carer)
    carer.cluster.kill("agg-1")
    settled(carer)
    other = Carer(described(samplers=7, aggregators=3), carer.cluster, start=False)
    other.poll()

    assert carer.fleet.placement == other.fleet.placement
    assert {("node-%d" % n, "start", "meminfo") for n in range(1, 8)} == set(other.told)


def test_an_interval_changes_by_stop_and_start_of_the_plugin_and_of_the_updater():
    carer = Carer(described(samplers=2, aggregators=1))
    settled(carer)
    carer.verbs()
    carer.fleet.describe(described(samplers=2, aggregators=1, interval_us=500_000,
                                   updater_us=500_000))
    carer.poll()

    assert {"node-1": ["stop", "start"], "node-2": ["stop", "start"],
            "agg-1": ["updtr_stop", "updtr_start"]} == carer.verbs()
    carer.cluster.advance(5.0)
    assert {"node-1/meminfo": {"agg-1": 8}, "node-2/meminfo": {"agg-1": 8}} == \
        carer.cluster.collected(carer.cluster.now_s - 3.95)


def test_new_producers_come_without_a_stop_of_those_that_stay():
    carer = Carer(described(samplers=2, aggregators=2))
    settled(carer)
    carer.verbs()
    carer.fleet.describe(described(samplers=4, aggregators=2))
    for name in ("node-3", "node-4"):
        carer.start(name)
    carer.poll()
    verbs = carer.verbs()

    assert ["prdcr_add", "prdcr_add", "updtr_stop", "updtr_prdcr_add", "updtr_start",
            "prdcr_start"] == verbs["agg-1"] == verbs["agg-2"]
    assert 4 == len(collected(carer))


def test_what_left_the_description_is_stopped_and_what_was_never_in_it_is_left_alone():
    carer = Carer(described(samplers=3, aggregators=1))
    settled(carer)
    carer.cluster.tell("agg-1", "prdcr_add name=by-hand host=127.0.0.1 port=10003 xprt=sock "
                                "type=active reconnect=1s")
    carer.cluster.tell("agg-1", "prdcr_start name=by-hand")
    carer.verbs()
    carer.fleet.describe(described(samplers=2, aggregators=1))
    carer.poll()

    assert [("agg-1", "prdcr_stop", "node-3")] == [told for told in carer.told
                                                   if told[0] == "agg-1"]
    assert carer.cluster.up["agg-1"].producers.all["by-hand"].state != "STOPPED"


def test_an_aggregator_that_left_the_description_stops_what_the_others_have_now():
    carer = Carer(described(samplers=4, aggregators=2))
    settled(carer)
    carer.fleet.describe(described(samplers=4, aggregators=1))
    settled(carer, 2)

    assert {f"node-{n}/meminfo": ["agg-1"] for n in range(1, 5)} == collected(carer)


def test_a_daemon_that_is_in_no_group_is_told_nothing():
    made = described(samplers=2, aggregators=1, tops=1)
    carer = Carer(replace(made, aggregators=made.aggregators[:1]))
    settled(carer)

    assert "top-1" not in carer.verbs()
    assert [] == carer.fleet.plan_commands("top-1")


def test_a_store_that_left_the_description_is_let_go_before_its_plugin():
    """The desk fails where a command is refused: ldmsd ends no plugin that a policy has."""
    csv = Plugin("csv", "store_csv", ((("path", "/tmp"),),))
    with_store = described(samplers=2, aggregators=1, stores=(
        StoragePolicy("memory", ("agg-1",), "csv", "orion", "meminfo"),))
    carer = Carer(replace(with_store, plugins={**with_store.plugins, "csv": csv}))
    settled(carer)
    carer.verbs()
    carer.fleet.describe(described(samplers=2, aggregators=1))
    settled(carer)

    assert {"agg-1": ["strgp_stop", "strgp_del", "term"]} == carer.verbs()


@pytest.mark.parametrize("fails, is_hung, moved", [
    ("agg-2", False, ["node-2", "node-5"]), ("agg-2", True, ["node-2", "node-5"]),
    (None, False, []),
], ids=["dead", "hung", "none"])
def test_who_takes_over_tells_what_moves_from_an_aggregator_that_it_never_saw(fails, is_hung,
                                                                              moved):
    first = Carer(described(samplers=6, aggregators=3))
    settled(first)
    assert [("aggs", [], [])] == first.placed           # nothing ran before
    if fails:
        (first.cluster.hang if is_hung else first.cluster.kill)(fails)
    other = Carer(described(samplers=6, aggregators=3), first.cluster, start=False)
    settled(other)

    assert [("aggs", moved, [])] == other.placed


def test_who_takes_over_stops_what_left_the_description_before_it_asked_anyone():
    first = Carer(described(samplers=4, aggregators=3))
    settled(first)
    other = Carer(described(samplers=4, aggregators=3), first.cluster, start=False)
    other.fleet.describe(described(samplers=3, aggregators=2, plugins=(VMSTAT,)))
    settled(other)

    assert {f"node-{n}/vmstat" for n in range(1, 4)} == {*collected(other)}
    assert all(len(names) == 1 for names in collected(other).values())
    assert not [producer for producer in other.cluster.up["agg-3"].producers.all.values()
                if producer.state != "STOPPED"]


def test_a_plugin_that_was_loaded_by_one_that_ended_before_it_configured_it_has_its_set():
    carer = Carer(described(samplers=2, aggregators=1))
    carer.cluster.tell("node-1", "load name=meminfo plugin=meminfo")
    settled(carer)
    assert {"node-1/meminfo": ["agg-1"], "node-2/meminfo": ["agg-1"]} == collected(carer)
    carer.verbs()
    settled(Carer(carer.fleet.description, carer.cluster, start=False))
    settled(carer)
    assert {} == carer.verbs()


def test_a_configuration_whose_answer_was_lost_is_told_again_where_there_is_no_set():
    carer = Carer(described(samplers=1, aggregators=1))
    carer.poll()
    memory = carer.fleet.daemons["node-1"].applied
    memory.configs.clear()
    settled(carer)
    assert {"node-1/meminfo": ["agg-1"]} == collected(carer)      # it has its set: it was done

    carer.verbs()
    carer.cluster.tell("node-1", "stop name=meminfo")
    carer.cluster.tell("node-1", "term name=meminfo")
    carer.cluster.tell("node-1", "load name=meminfo plugin=meminfo")
    memory.configs.clear()
    settled(carer)
    assert "config" in carer.verbs()["node-1"]
    assert {"node-1/meminfo": ["agg-1"]} == collected(carer)


def streams(carer, name):
    """{producer: the streams that it was told to send to this aggregator}."""
    return {producer: [*one.streams]
            for producer, one in carer.cluster.up[name].producers.all.items()}


def test_a_stream_is_subscribed_to_wherever_a_producer_may_run():
    with_stream = {"subscriptions": (Subscription("kokkos", ".*"),)}
    carer = Carer(described(samplers=2, aggregators=2, **with_stream))
    settled(carer)
    both = {"node-1": ["kokkos"], "node-2": ["kokkos"]}
    assert [both, both] == [streams(carer, name) for name in ("agg-1", "agg-2")]

    carer.fleet.describe(described(samplers=3, aggregators=2, **with_stream))
    settled(carer)
    assert {**both, "node-3": ["kokkos"]} == streams(carer, "agg-2")
    carer.cluster.kill("agg-2")
    settled(carer)
    carer.start("agg-2")
    settled(carer)
    assert {**both, "node-3": ["kokkos"]} == streams(carer, "agg-2") == streams(carer, "agg-1")
    carer.verbs()
    settled(Carer(carer.fleet.description, carer.cluster, start=False))
    settled(carer)
    assert {} == carer.verbs()

    carer.fleet.describe(described(samplers=3, aggregators=2))
    settled(carer)
    assert {name: [] for name in ("node-1", "node-2", "node-3")} == streams(carer, "agg-1")


def test_what_was_changed_by_hand_is_put_right():
    carer = Carer(described(samplers=3, aggregators=1))
    settled(carer)
    carer.verbs()
    carer.cluster.tell("agg-1", "prdcr_stop name=node-2")
    carer.cluster.tell("agg-1", "updtr_stop name=updtr_0")
    carer.poll()

    assert {"agg-1": ["updtr_start", "prdcr_start"]} == carer.verbs()


def test_a_hung_one_that_returns_stops_what_others_have_got():
    carer = Carer(described(samplers=4, aggregators=2))
    settled(carer)
    carer.cluster.hang("agg-1")
    settled(carer)
    assert {f"node-{n}/meminfo": ["agg-2"] for n in range(1, 5)} == collected(carer)
    before = dict(carer.fleet.placement["aggs"])
    carer.verbs()
    carer.cluster.wake("agg-1")
    settled(carer)

    assert {"agg-2": ["prdcr_stop", "prdcr_stop"]} == {
        name: [verb for verb in verbs if verb in ("prdcr_stop", "prdcr_start")]
        for name, verbs in carer.verbs().items() if name == "agg-2" or "prdcr_start" in verbs}
    assert set(before.values()) == {"agg-2"}
    found = collected(carer)
    assert {f"node-{n}/meminfo" for n in range(1, 5)} == set(found)
    assert all(len(by) == 1 for by in found.values())
    assert {"agg-1", "agg-2"} == {name for by in found.values() for name in by}


def test_the_level_above_leaves_one_that_hangs_until_it_answers_again():
    """It would stay connected, keep that one's sets as they were, and take them from no other."""
    carer = Carer(described(samplers=4, aggregators=2, tops=1))
    settled(carer)
    carer.verbs()
    carer.cluster.hang("agg-1")
    settled(carer)
    assert {"agg-2": ["prdcr_start", "prdcr_start"], "top-1": ["prdcr_stop"]} == carer.verbs()
    assert {f"node-{n}/meminfo": ["top-1"] for n in range(1, 5)} == collected(carer, ["top-1"])

    carer.cluster.wake("agg-1")
    settled(carer)
    assert ["prdcr_start"] == carer.verbs()["top-1"]
    assert {f"node-{n}/meminfo": ["top-1"] for n in range(1, 5)} == collected(carer, ["top-1"])


def test_the_level_above_leaves_and_begins_nothing_before_its_aggregators_were_heard_of():
    """Who takes the group over while one of them hangs does not begin with that one."""
    carer = Carer(described(samplers=4, aggregators=2, tops=1))
    settled(carer)
    carer.cluster.tell("top-1", "prdcr_stop name=agg-1")
    fleet = carer.fleet
    assert fleet.is_needed("agg-1", {"tops"}) and not fleet.is_needed("node-1", {"tops"})
    fleet.mark_unknown("agg-1")
    fleet.mark_unknown("agg-2")
    carer.ask("top-1")
    assert [] == fleet.plan_commands("top-1", {"tops"})

    carer.ask("agg-1")
    assert ["prdcr_start"] == [step.statement.verb for _, step
                               in fleet.plan_commands("top-1", {"tops"})]


def test_without_any_aggregator_nothing_is_told_and_all_is_back_with_the_first():
    carer = Carer(described(samplers=3, aggregators=2))
    settled(carer)
    carer.verbs()
    carer.cluster.kill("agg-1")
    carer.cluster.kill("agg-2")
    carer.poll()
    assert {} == carer.verbs()
    carer.start("agg-2")
    settled(carer)

    assert {f"node-{n}/meminfo": ["agg-2"] for n in range(1, 4)} == collected(carer)


def test_a_level_above_has_each_set_once_through_a_failure():
    carer = Carer(described(samplers=6, aggregators=3, tops=1))
    settled(carer, 5)
    carer.cluster.kill("agg-3")
    settled(carer, 3)

    assert {f"node-{n}/meminfo": ["top-1"] for n in range(1, 7)} == collected(carer, ["top-1"], 4.0)


def test_a_sampler_that_is_another_process_is_set_up_anew():
    carer = Carer(described(samplers=2, aggregators=1))
    settled(carer)
    carer.verbs()
    carer.start("node-1")
    settled(carer)

    assert {"node-1": ["load", "config", "start"]} == carer.verbs()
    assert {"node-1/meminfo": ["agg-1"], "node-2/meminfo": ["agg-1"]} == collected(carer)


@pytest.mark.parametrize("is_unreachable, changes, verbs", [
    (True, True, {"agg-1": ["prdcr_subscribe"]}), (True, False, {}), (False, True, {}),
], ids=["silent, another counter", "silent", "another counter"])
def test_one_whose_host_was_silent_is_told_again_what_it_does_not_say(is_unreachable, changes,
                                                                      verbs):
    """Its host may have been started again, with more in ldmsd's file than we told it."""
    carer = Carer(described(samplers=1, aggregators=1, subscriptions=(Subscription("jobs", ".*"),)))
    settled(carer)
    carer.verbs()
    carer.fleet.mark_lost("agg-1", "down", "no route to host", 1.0, is_unreachable=is_unreachable)
    if changes:
        carer.cluster.tell("agg-1", "prdcr_add name=by-hand host=127.0.0.1 port=10003 xprt=sock "
                                    "type=active reconnect=1s")
    carer.poll()

    assert verbs == carer.verbs()


def test_one_that_does_not_let_us_in_keeps_what_it_has():
    """A wrong secret, nonsense: it runs, so that its producers would be collected twice."""
    carer = Carer(described(samplers=6, aggregators=3))
    settled(carer)
    before = dict(carer.fleet.placement["aggs"])
    carer.fleet.mark_lost("agg-2", "down", "authentication refused", 1.0, is_uncontrollable=True)
    carer.fleet.place_producers(None)
    assert before == carer.fleet.placement["aggs"]

    carer.fleet.mark_lost("agg-3", "down", "connection refused", 1.0)
    carer.fleet.place_producers(None)
    after = carer.fleet.placement["aggs"]
    assert {name for name in before if before[name] == "agg-2"} == {
        name for name in after if after[name] == "agg-2"}
    assert 4 == list(after.values()).count("agg-1")


def test_authentication_that_was_told_is_a_question_to_a_new_instance_and_a_command_to_a_bare_one():
    """No question tells it; what was added with it does, and a further domain is missing."""
    made = with_domain(described(2, 1), "first")
    carer = Carer(made)
    assert {"auth_add"} <= {step.statement.verb for step in untold(made, carer.cluster)}
    settled(carer)

    assert [] == untold(made, carer.cluster)
    more = with_domain(described(3, 1), "first", of={"node-3": "second"})
    assert [("auth_add", "second"), ("prdcr_add", "node-3"), ("prdcr_start", "node-3")] == [
        (step.statement.verb, dict(step.statement.attributes)["name"])
        for step in untold(more, carer.cluster) if not step.statement.verb.startswith("updtr")]


def with_domain(description, domain, of=()):
    """Samplers are reached by authentication of this name; `of`: those of another."""
    group = description.aggregators[0]
    return replace(description, aggregators=(replace(group, producers=tuple(
        replace(one, endpoint=replace(one.endpoint, auth=Auth(
            dict(of).get(one.name, domain), "none"))) for one in group.producers)),))


def untold(description, cluster):
    """What a new instance would tell the first aggregator, questions left out."""
    other = Carer(description, cluster, start=False)
    for name in description.daemons:
        other.ask(name)
    other.fleet.place_producers(None)
    return [step for _, step in other.fleet.plan_commands("agg-1") if not step.is_probe]


@pytest.mark.parametrize("stated, named, dialect, is_hinted", [
    ("4.5.3", "4.4", "4.5", False), ("4.6.0", "", "newer", False), ("4.4", "newer", "4.4", False),
    ("UNKNOWN", "", "4.5", True), ("UNKNOWN", "newer", "newer", False),
    ("4.2.0", "", "4.5", True), ("4.2.0", "4.5.3", "4.5", False)])
def test_the_release_is_the_daemons_own_or_else_the_descriptions(stated, named, dialect, is_hinted):
    """An ldmsd from a source archive calls itself UNKNOWN."""
    carer = Carer(described(samplers=1, aggregators=1))
    carer.poll()
    carer.fleet.describe(replace(carer.fleet.description, ldms_release=named))
    heard = carer.fleet.daemons["agg-1"]
    heard.observed = replace(heard.observed, release=stated)
    assert dialect == heard.dialect.release
    assert ("; it reports no release (" + stated + ") and is assumed to be LDMS 4.5: set "
            "ldms_release in the description" if is_hinted else "") == heard.release_hint
