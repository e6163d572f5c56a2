"""The differences between two descriptions, as people read them."""
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats_ldms.description.changes import describe_changes
from iostats_ldms.description.model import (
    AgentGroup,
    AggregatorGroup,
    Auth,
    Description,
    Endpoint,
    LdmsDaemon,
    Plugin,
    Producer,
    SamplerGroup,
    StoragePolicy,
    Updater,
)


def daemon(name, host, port=11001):
    return LdmsDaemon(name, host, "all", (Endpoint(f"{name}-ep", host, port),))


def of(names, host="n"):
    return {name: daemon(name, f"{host}-{name}") for name in names}


NODES = [f"node-{number}" for number in range(1, 13)]
PLUGIN = Plugin("mem1", "meminfo", ((("schema", "mem"),),), 1_000_000, 0)
PRODUCERS = tuple(Producer(name, Endpoint(f"{name}-ep", "n", 11001), "active", 20_000_000)
                  for name in NODES)
UPDATER = Updater("updtr_0", 1_000_000, 100_000)
AGGREGATORS = AggregatorGroup("agg-[1-2]", ("agg-1", "agg-2"), 1, PRODUCERS, (UPDATER,))
STORE = StoragePolicy("csv", ("agg-1",), "csv1", schema="mem")
AGENTS = AgentGroup("oss", ("oss1", "oss2"), (("harvest.interval", "20"),))
BEFORE = Description(of(NODES), (AGGREGATORS,), (SamplerGroup("node-[1-12]", tuple(NODES),
                                                              ("mem1",)),),
                     {"mem1": PLUGIN}, (STORE,), (AGENTS,))


def with_aggregators(**how):
    return replace(BEFORE, aggregators=(replace(AGGREGATORS, **how),))


@pytest.mark.parametrize("new, expected", [
    (BEFORE, []),
    (replace(BEFORE, daemons=of([*NODES, "node-13", "node-14"])), ["+ daemons node-[13-14]"]),
    (replace(BEFORE, daemons=of(NODES[:-2])), ["- daemons node-[11-12]"]),
    (replace(BEFORE, daemons={**of(NODES), "node-3": daemon("node-3", "spare")}),
     ["~ daemon node-3: host: n-node-3 -> spare; endpoint node-3-ep: host: n-node-3 -> spare"]),
    (replace(BEFORE, daemons={name: replace(one, endpoints=(replace(
        one.endpoints[0], port=411, auth=Auth("a", "ovis", "/etc/s")),))
        for name, one in of(NODES).items()}),
     [f"~ daemon {name}: endpoint {name}-ep: port: 11001 -> 411; auth: none -> a ovis /etc/s"
      for name in NODES]),
    (replace(BEFORE, daemons={name: replace(one, group="other")
                              for name, one in of(NODES).items()}), []),
    (with_aggregators(producers=PRODUCERS[1:]),
     ["~ aggregators agg-[1-2]: producers: - node-1-ep"]),
    (with_aggregators(producers=tuple(replace(one, reconnect_us=23_000) for one in PRODUCERS)),
     ["~ aggregators agg-[1-2]: producers node-[1-12]-ep: reconnect: 20 s -> 23 ms"]),
    (with_aggregators(updaters=(replace(UPDATER, interval_us=20_000_000, offset_us=None),)),
     ["~ aggregators agg-[1-2]: updater updtr_0: interval: 1 s -> 20 s; offset: 100 ms -> none"]),
    (with_aggregators(balance="sets", capacity=(("agg-2", 0.5),)),
     ["~ aggregators agg-[1-2]: balance: producers -> sets; capacity agg-2: none -> 0.5"]),
    (with_aggregators(members=("agg-2", "agg-1")),
     ["~ aggregators agg-[1-2]: daemons: order changed"]),
    (replace(BEFORE, samplers=(replace(BEFORE.samplers[0], plugins=("mem1", "lustre1")),)),
     ["~ samplers node-[1-12]: plugins: + lustre1"]),
    (replace(BEFORE, plugins={"mem1": replace(PLUGIN, config=("schema=other", ))}),
     ["~ plugin mem1: config: - schema=mem, + schema=other"]),
    (replace(BEFORE, plugins={}), ["- plugin mem1"]),
    (replace(BEFORE, stores=(replace(STORE, flush_us=37),)),
     ["~ store csv: flush: none -> 37 us"]),
    (replace(BEFORE, agents=(replace(AGENTS, settings=(("harvest.interval", "10"),
                                                       ("events.on", "no"))),)),
     ["~ iostats oss: harvest.interval: 20 -> 10, events.on: none -> no"]),
    (replace(BEFORE, agents=(replace(AGENTS, hosts=("oss2", "oss3")),)),
     ["~ iostats oss: hosts: - oss1, + oss3"]),
])
def test_changes_of_a_description(new, expected):
    assert expected == describe_changes(BEFORE, new)


def test_the_first_description_is_all_new():
    assert ["+ daemons node-[1-12]", "+ aggregators agg-[1-2]: 12 producers",
            "+ samplers node-[1-12]", "+ plugin mem1: meminfo, interval 1 s, offset 0 s",
            "+ store csv: csv1", "+ iostats oss: harvest.interval: 20"] == describe_changes(None,
                                                                                            BEFORE)


def test_many_differences_are_bounded():
    """300 daemons, each with another host: 200 lines, and how many more."""
    old, new = of(map(str, range(300)), "a"), of(map(str, range(300)), "b")
    found = describe_changes(Description(old), Description(new))
    assert (201, "... and 100 more") == (len(found), found[-1])


def test_long_names_are_cut():
    """A group of aggregators is called as its host list is written, however long that is."""
    short, long = "agg-" + "a" * 116, "agg-" + "b" * 117
    assert ["- aggregators agg-[1-2]", f"+ aggregators {short}: 12 producers"] == describe_changes(
        BEFORE, replace(BEFORE, aggregators=(replace(AGGREGATORS, name=short),)))[:2]
    assert f"+ aggregators agg-{'b' * 113}...: 12 producers" == describe_changes(
        BEFORE, replace(BEFORE, aggregators=(replace(AGGREGATORS, name=long),)))[1]
    assert [f"+ daemons agg-{'c' * 53}..., agg-{'d' * 53}..., ... (2 in all)"] == describe_changes(
        None, Description(of(["agg-" + "c" * 200, "agg-" + "d" * 200])))


def test_30000_daemons_are_compared_in_one_go():
    names = [f"n-{number}" for number in range(30_000)]
    producers = tuple(Producer(name, Endpoint(name, "n", 1), "active", 1) for name in names)
    old = Description(of(names), (replace(AGGREGATORS, producers=producers),))
    new = Description(of(names[23:]), (replace(AGGREGATORS, producers=producers[23:]),))
    assert ["- daemons n-[0-22]", "~ aggregators agg-[1-2]: producers: - n-[0-22]"
            ] == describe_changes(old, new)


texts = st.text(max_size=9)
plugins = st.builds(Plugin, texts, texts, st.lists(st.one_of(texts, st.lists(
    st.tuples(texts, st.none() | texts), max_size=3).map(tuple)), max_size=3).map(tuple),
    st.none() | st.integers(0, 10**9))
groups = st.builds(AgentGroup, texts, st.lists(texts, max_size=3).map(tuple),
                   st.lists(st.tuples(texts, texts), max_size=3).map(tuple))
descriptions = st.builds(Description, plugins=st.dictionaries(texts, plugins, max_size=3),
                         agents=st.lists(groups, max_size=3).map(tuple),
                         ldms_release=st.sampled_from(["", "4.4", "4.5"]))


@given(descriptions, descriptions)
def test_there_are_changes_where_and_only_where_two_differ(old, new):
    found = describe_changes(old, new)
    assert (old != new) == bool(found)
    assert [] == describe_changes(old, old)
    assert all(line.isprintable() and line[:2] in ("+ ", "- ", "~ ", "..") for line in found)
