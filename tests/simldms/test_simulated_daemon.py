"""Whatever a simulated ldmsd is told, it answers, and what it says of itself can be read."""

from hypothesis import given
from hypothesis import strategies as st

from iostats_ldms.control import answers
from iostats_ldms.statements.dialect import Statement
from simldms.asked import Crashed, parsed
from simldms.cluster import Cluster
from simldms.daemon import VERSIONS, Daemon

_VERBS = [*Daemon("x").verbs, "frobnicate"]
_NAMES = st.sampled_from(["a", "b", "meminfo", "store_csv", ".*", "a.*", "[", "", "é\"\\"])
_VALUES = {
    "name": _NAMES, "regex": _NAMES, "plugin": _NAMES, "stream": _NAMES, "message_tag": _NAMES,
    "host": _NAMES, "schema": _NAMES, "container": _NAMES, "producer": _NAMES, "instance": _NAMES,
    "metric": _NAMES, "auth": _NAMES, "decomposition": _NAMES, "ip": _NAMES,
    "interval": st.sampled_from(["1s", "0", "-5", "soon", "", "1e9", "37"]),
    "offset": st.sampled_from(["100ms", "0", "-50000", "x"]),
    "reconnect": st.sampled_from(["1s", "0", "x"]), "flush": st.sampled_from(["2s", "x"]),
    "type": st.sampled_from(["active", "passive", "bridge", "x"]),
    "xprt": st.sampled_from(["sock", "rdma", "x"]), "port": st.sampled_from(["9", "0", "x", "é"]),
    "match": st.sampled_from(["inst", "schema", "x"]), "push": st.sampled_from(["onchange", "x"]),
    "auto_interval": st.sampled_from(["true", "x"]), "level": st.sampled_from(["INFO", "x"]),
}
_ATTRIBUTES = st.lists(st.sampled_from(sorted(_VALUES)).flatmap(
    lambda name: st.tuples(st.just(name), st.one_of(st.none(), _VALUES[name]))), max_size=8)
_COMPLETE = ("load name=meminfo", "load name=store_csv", "start name=meminfo interval=1s",
             "config name=meminfo producer=a instance=a/meminfo", "updtr_add name=a interval=1s",
             "prdcr_add name=a host=a port=9 xprt=sock type=active reconnect=1s",
             "strgp_add name=a plugin=store_csv container=c schema=meminfo",
             "prdcr_listen_add name=a", "updtr_prdcr_add name=a regex=.*", "updtr_start name=a")


@given(st.lists(st.one_of(st.sampled_from(_COMPLETE), st.builds(
    Statement, st.sampled_from(_VERBS), _ATTRIBUTES.map(tuple))), max_size=30),
    st.sampled_from(VERSIONS))
def test_it_answers_whatever_it_is_told(statements, version):
    """And counts no more changes than it was told."""

    daemon = Daemon("ldmsd", version, clock=lambda: 1_000_023.0)
    for each in statements:
        statement = parsed(each) if isinstance(each, str) else each
        try:
            reply = daemon.handle(statement)
        except Crashed:
            assert daemon.crashed
            return
        assert isinstance(reply.errno, int) and isinstance(reply.text, str)
    assert daemon.config_counter <= len(statements)

    def said(verb):
        return daemon.handle(Statement(verb, ())).text
    answers.parse_producers(said("prdcr_status"))
    answers.parse_updaters(said("updtr_status"), said("updtr_match_list"))
    answers.parse_plugins(said("plugn_status"), said("plugn_sets"))
    answers.parse_policies(said("strgp_status"))
    answers.parse_listens(said("prdcr_listen_status"))


_ACTS = st.lists(st.one_of(
    st.tuples(st.sampled_from(["kill", "hang", "wake", "again"]),
              st.sampled_from(["node-1", "node-2", "agg-1", "agg-2"])),
    st.tuples(st.sampled_from(["stop", "start"]),
              st.sampled_from([("agg-1", "node-1"), ("agg-1", "node-2"), ("agg-2", "node-1"),
                               ("agg-2", "node-2")])),
    st.tuples(st.just("wait"), st.floats(0.1, 5.0))), max_size=25)
_PORTS = {"node-1": 101, "node-2": 102, "agg-1": 201, "agg-2": 202}


def _set_up(cluster, name):
    cluster.add(name, _PORTS[name])
    lines = (["load name=meminfo", f"config name=meminfo producer={name} instance={name}/meminfo",
              "start name=meminfo interval=1s"] if name.startswith("node") else
             [*(f"prdcr_add name={node} host=h port={_PORTS[node]} xprt=sock type=active "
                "reconnect=1s" for node in ("node-1", "node-2")),
              "updtr_add name=u interval=1s offset=100ms", "updtr_prdcr_add name=u regex=.*",
              "updtr_start name=u"])
    for line in lines:
        assert 0 == cluster.tell(name, line).errno


@given(_ACTS)
def test_a_cluster_through_whatever_happens_collects_what_is_there(acts):
    """
    In the end, 3 s after the last act: a set is updated by those that have its producer started,
    where both are up, and by no other.
    """
    cluster, started = Cluster(), set()
    for name in _PORTS:
        _set_up(cluster, name)
    for act, on in acts:
        if act == "wait":
            cluster.advance(on)
        elif act == "kill":
            cluster.kill(on)
        elif act == "hang":
            cluster.hang(on)
        elif act == "wake":
            cluster.wake(on)
        elif act == "again":
            _set_up(cluster, on)
        elif on[0] in cluster.up and on[0] not in cluster.hung:
            cluster.tell(on[0], f"prdcr_{act} name={on[1]}")
        if act in ("kill", "again"):
            started -= {pair for pair in started if pair[0] == on}
        elif act in ("stop", "start") and on[0] in cluster.up and on[0] not in cluster.hung:
            started = started | {on} if act == "start" else started - {on}
    cluster.advance(3.5)
    running = {(aggregator, node) for aggregator, node in started
               if {aggregator, node} <= set(cluster.up) - cluster.hung}
    updated = {(aggregator, instance.partition("/")[0])
               for instance, counts in cluster.collected(cluster.now_s - 2.0).items()
               for aggregator, count in counts.items() if count}
    assert running == updated


def test_what_was_on_its_way_from_a_producer_that_is_stopped_by_now_is_nothing():
    """A connection, and a directory, as prdcr_stop has it: its sets are gone."""
    daemon = Daemon("agg-1", VERSIONS[0], clock=lambda: 1_000_023.0)
    for line in ("prdcr_add name=a host=a port=9 xprt=sock type=active reconnect=1s",
                 "prdcr_start name=a", "prdcr_stop name=a"):
        assert 0 == daemon.handle(parsed(line)).errno
    node = Daemon("a", VERSIONS[0], clock=lambda: 1_000_023.0)
    for line in ("load name=meminfo", "config name=meminfo producer=a instance=a/meminfo"):
        assert 0 == node.handle(parsed(line)).errno
    daemon.producers.connected("a")
    daemon.producers.took("a", node.directory())

    [producer] = answers.parse_producers(daemon.handle(Statement("prdcr_status", ())).text).values()
    assert ("STOPPED", ()) == (producer.state, producer.sets)
