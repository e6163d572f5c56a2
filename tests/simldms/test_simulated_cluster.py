"""Simulated ldmsds and a clock: who collects what, through deaths, hangs and returns."""

import pytest

from simldms.cluster import Away, Cluster


def sampler(cluster, name, port):
    cluster.add(name, port)
    for line in ("load name=meminfo", "start name=meminfo interval=1s",
                 f"config name=meminfo producer={name} instance={name}/meminfo"):
        assert 0 == cluster.tell(name, line).errno


def aggregator(cluster, name, port, producers):
    cluster.add(name, port)
    for peer, peer_port in producers.items():
        told(cluster, name, f"prdcr_add name={peer} host=127.0.0.1 port={peer_port} xprt=sock "
                            "type=active reconnect=1s")
    told(cluster, name, "updtr_add name=updtr_0 interval=1s offset=100ms",
         "updtr_prdcr_add name=updtr_0 regex=.*", "updtr_start name=updtr_0")


def told(cluster, name, *lines):
    for line in lines:
        assert 0 == cluster.tell(name, line).errno, line


@pytest.fixture
def cluster():
    """node-23 and node-37, agg-1 that collects from both, and agg-2 above it."""
    cluster = Cluster()
    sampler(cluster, "node-23", 10023)
    sampler(cluster, "node-37", 10037)
    aggregator(cluster, "agg-1", 20001, {"node-23": 10023, "node-37": 10037})
    aggregator(cluster, "agg-2", 20002, {"agg-1": 20001})
    told(cluster, "agg-1", "prdcr_start_regex regex=.*")
    told(cluster, "agg-2", "prdcr_start name=agg-1")
    cluster.advance(3.0)
    return cluster


def collected(cluster, within_s=2.0):
    return cluster.collected(cluster.now_s - within_s)


def test_a_set_is_collected_at_each_level_once_an_interval(cluster):
    assert {"node-23/meminfo": {"agg-1": 2, "agg-2": 2},
            "node-37/meminfo": {"agg-1": 2, "agg-2": 2}} == collected(cluster)


def test_the_sets_of_a_dead_sampler_are_gone_and_come_back_with_it(cluster):
    cluster.kill("node-23")
    cluster.advance(2.0)
    assert {"node-37/meminfo": {"agg-1": 2, "agg-2": 2}} == collected(cluster)
    sampler(cluster, "node-23", 10023)
    cluster.advance(4.0)
    assert {"agg-1": 2, "agg-2": 2} == collected(cluster)["node-23/meminfo"]


def test_a_hung_sampler_has_its_sets_and_they_are_not_updated(cluster):
    cluster.hang("node-23")
    cluster.advance(5.0)
    assert {"agg-1": 0, "agg-2": 2} == collected(cluster)["node-23/meminfo"]
    cluster.wake("node-23")
    cluster.advance(3.0)
    assert {"agg-1": 2, "agg-2": 2} == collected(cluster)["node-23/meminfo"]


def test_a_fresh_daemon_on_the_same_port_has_nothing(cluster):
    cluster.add("agg-1", 20001)
    cluster.advance(2.0)
    assert {} == collected(cluster)
    assert "0" == cluster.tell("agg-1", "cfg_cntr").text


def test_who_is_dead_or_hangs_answers_nothing(cluster):
    cluster.hang("agg-1")
    with pytest.raises(Away):
        cluster.tell("agg-1", "cfg_cntr")
    cluster.kill("agg-1")
    with pytest.raises(Away):
        cluster.tell("agg-1", "cfg_cntr")


def test_an_interval_of_0_kills_it_as_it_does_the_real_one(cluster):
    told(cluster, "node-23", "stop name=meminfo")
    with pytest.raises(Away):
        cluster.tell("node-23", "start name=meminfo interval=0")
    assert "node-23" not in cluster.up


def test_the_second_of_two_producers_of_a_set_waits_for_the_first(cluster):
    """Both aggregators collect node-23; the level above keeps the first, and takes the second
    when the first has it no more."""
    aggregator(cluster, "agg-3", 20003, {"node-23": 10023})
    told(cluster, "agg-3", "prdcr_start name=node-23")
    cluster.add("top", 30001)
    for name, port in (("agg-1", 20001), ("agg-3", 20003)):
        told(cluster, "top", f"prdcr_add name={name} host=127.0.0.1 port={port} xprt=sock "
                             "type=active reconnect=1s", f"prdcr_start name={name}")
    told(cluster, "top", "updtr_add name=u interval=1s", "updtr_prdcr_add name=u regex=.*",
         "updtr_start name=u")
    cluster.advance(4.0)
    states = {(one.name, set_.source.instance): set_.state
              for one in cluster.up["top"].producers.all.values() for set_ in one.sets.values()}
    assert "READY" == states["agg-1", "node-23/meminfo"]
    assert "START" == states["agg-3", "node-23/meminfo"]
    told(cluster, "agg-1", "prdcr_stop name=node-23")
    cluster.advance(3.0)
    assert 2 == collected(cluster)["node-23/meminfo"]["top"]


def one_sampler(version, *lines):
    """node-23 with these statements, and agg-1, whose updater is to be added."""
    cluster = Cluster(version)
    cluster.add("node-23", 10023)
    cluster.add("agg-1", 20001)
    told(cluster, "node-23", *lines)
    told(cluster, "agg-1", "prdcr_add name=node-23 host=h port=10023 xprt=sock type=active "
                           "reconnect=1s", "prdcr_start name=node-23")
    return cluster


def updater(cluster, *more, interval="2s", name="u"):
    told(cluster, "agg-1", f"updtr_add name={name} interval={interval} " + " ".join(more),
         f"updtr_prdcr_add name={name} regex=.*", f"updtr_start name={name}")


CONFIG = "config name=meminfo producer=node-23 instance=node-23/meminfo"
START = "start name=meminfo interval=500ms"


@pytest.mark.parametrize("version, lines, more, updates", [
    ("4.5.3", (CONFIG, START), "", 3),
    ("4.5.3", (CONFIG, START), "auto_interval=true", 12),
    ("4.5.3", (START, CONFIG), "auto_interval=true", 3),
    ("4.4.6", (START, CONFIG), "auto_interval=true", 12),
    ("4.5.3", (CONFIG, START), "push=onchange", 12),
], ids=["its own interval", "the set's hint", "4.5 has no hint of a set made after the start",
        "4.4 has", "pushed when it was sampled"])
def test_how_often_a_set_is_updated(version, lines, more, updates):
    """In 6 s, by an updater of 2 s, a set that is sampled each 500 ms."""
    cluster = one_sampler(version, "load name=meminfo", *lines)
    updater(cluster, *([more] if more else []))
    cluster.advance(3.0)
    cluster.advance(6.0)
    assert {"node-23/meminfo": {"agg-1": updates}} == cluster.collected(cluster.now_s - 5.99)


def test_only_sets_that_match_are_collected():
    cluster = one_sampler("4.5.3", "load name=meminfo", CONFIG, "load name=vmstat",
                          "config name=vmstat producer=node-23 instance=node-23/vmstat",
                          "start name=vmstat interval=1s")
    told(cluster, "agg-1", "updtr_add name=u interval=1s", "updtr_prdcr_add name=u regex=.*",
         "updtr_match_add name=u regex=^vm match=schema", "updtr_start name=u")
    cluster.advance(3.0)
    assert {"node-23/vmstat"} == set(cluster.collected(0.0))


def test_a_storage_policy_stores_each_update_of_its_schema_and_producers():
    cluster = one_sampler("4.5.3", "load name=meminfo", CONFIG, START)
    told(cluster, "agg-1", "load name=store_csv",
         *(line for name, schema, producers in (("ours", "meminfo", "node-2"),
                                                ("others", "meminfo", "node-3"),
                                                ("vm", "vmstat", ".*"))
           for line in (f"strgp_add name={name} plugin=store_csv container=c schema={schema}",
                        f"strgp_prdcr_add name={name} regex={producers}",
                        f"strgp_start name={name}")))
    updater(cluster, interval="1s")
    cluster.advance(2.0)
    told(cluster, "agg-1", "strgp_stop name=ours")
    stored = {name: dict(policy.stored)
              for name, policy in cluster.up["agg-1"].policies.all.items()}
    [count] = stored["ours"].values()
    assert cluster.collected(0.0)["node-23/meminfo"]["agg-1"] == count > 1
    cluster.advance(3.0)
    assert {"ours": {"node-23/meminfo": count}, "others": {}, "vm": {}} == {
        name: dict(policy.stored) for name, policy in cluster.up["agg-1"].policies.all.items()}
