"""
Converting: what is written in today's generation reads as the same description.
"""

import json

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_read import TODAY

from iostats_ldms.description.convert import to_yaml
from iostats_ldms.description.host_lists import fold
from iostats_ldms.description.read import read_description

WORDS = st.text(st.sampled_from("abxyz_.-/0123456789"), min_size=1, max_size=8).map("w".__add__)
VALUES = st.one_of(WORDS, st.sampled_from(["null", "true", "0777", "1:30", "~", "",
                                           "*", "&x", "#c", "${HOSTNAME}/x", "é", "-", "[1]"]))
INTERVALS = st.integers(2, 10**9).map(lambda us: f"{us}us") | st.integers(1, 90).map(
    lambda s: f"{s}.5s")
OFFSETS = st.sampled_from(["1us", "-1us", "0us"])      # up to half of each interval


def maybe(**fields):
    """Mappings that have any of these keys."""
    return st.fixed_dictionaries({}, optional=fields)


CONFIGS = st.lists(st.one_of(
    st.dictionaries(WORDS, st.one_of(VALUES, st.none(), st.lists(VALUES, max_size=3)),
                    max_size=3),
    st.lists(WORDS, min_size=1, max_size=3).map(" ".join)), max_size=3)
LIMITS = {"rail": st.integers(1, 5), "quota": st.integers(-1, 37), "rx_rate": st.integers(-1, 41),
          "perm": st.sampled_from(["0777", "rw-r--r--"])}
UPDATERS = st.lists(st.builds(
    lambda interval, more: {"interval": interval, **more}, INTERVALS,
    maybe(mode=st.sampled_from(["pull", "push", "onchange", "auto"]), offset=OFFSETS,
          producers=st.sampled_from([".*", "s-[1-3]-e", "^s-2", ["a.*", "b"]]),
          sets=st.lists(st.fixed_dictionaries({"regex": WORDS, "field": st.sampled_from(
              ["inst", "schema"])}), max_size=2))), max_size=3)


@st.composite
def documents(draw):
    """Descriptions as they are written, all in one mapping."""
    count, each = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    samplers = f"s-[1-{count}]"
    ends = {"names": f"s-[1-{count}]-e[1-{each}]", "ports": f"[10023-{10022 + each}]",
            **draw(maybe(xprt=st.sampled_from(["sock", "rdma"]), maestro_comm=st.booleans(),
                         bind_all=st.booleans(), hosts=st.just(f"ib-[1-{count}]"),
                         auth=maybe(plugin=st.just("ovis"), conf=WORDS).map(
                             lambda more: {"name": "d1", **more})))}
    daemons = [{"names": samplers, "hosts": draw(st.sampled_from([f"n[1-{count}]", "one"])),
                "endpoints": [ends, {"names": f"x[1-{count}]", "ports": 10037}],
                **draw(maybe(environment=st.dictionaries(WORDS, WORDS, max_size=2),
                             stream_enable=st.booleans(), log_level=WORDS,
                             set_memory=st.just({"size": "1g"})))},
               {"names": "agg-[1-4]", "hosts": "a-[1-2]",
                "endpoints": [{"names": "agg-e[1-4]", "ports": "[10041-10042]"}]}]
    peer = st.builds(lambda chosen, updaters, more: {
        "endpoints": chosen, "reconnect": "23s", "type": "active", "updaters": updaters, **more},
        st.sampled_from([f"s-[1-{count}]-e1", "s-1-e1", f"x[1-{count}]", "x1"]), UPDATERS,
        maybe(cache_ip=st.booleans(), **LIMITS))
    peers = draw(st.lists(peer, max_size=2, unique_by=lambda one: one["endpoints"][0]))
    listens = [{"name": "lis", "updaters": draw(UPDATERS), **draw(maybe(
        regex=WORDS, disable_start=st.booleans(), reconnect=st.just("37s"), **{
            key: LIMITS[key] for key in ("rail", "quota", "rx_rate")}))}] * draw(st.integers(0, 1))
    aggregators = [{"daemons": "agg-[1-3]", "peers": peers, "prdcr_listen": listens,
                    **draw(maybe(balance=st.just("sets"), capacity=st.sampled_from(
                        ["2", {"agg-2": 0.5}])))},
                   {"daemons": "agg-4", "peers": [
                       {"daemons": "agg-[1-3]", "endpoints": "agg-e[1-3]", "reconnect": "41s",
                        "type": "passive", "updaters": draw(UPDATERS)}],
                    "subscribe": draw(st.lists(st.sampled_from(
                        [{"stream": "k", "regex": ".*"}, {"message_tag": "m", "regex": "x",
                                                          "rx_rate": 7}]), max_size=2)),
                    "plugins": draw(st.sampled_from([[], ["p2"]]))}]
    plugins = {name: {"name": draw(WORDS), "interval": draw(INTERVALS), "config": draw(CONFIGS)}
               for name in ("p1", "p2")}
    advertise = draw(st.sampled_from([{}, {"advertise": {
        "names": samplers, "hosts": "a-[1-2]", "xprt": "sock", "port": "[10041-10042]",
        "reconnect": "29s"}}, {"advertise": [
            {"names": "x1", "to": "agg-e[1-3]", "reconnect": "31s", "auth": {"name": "d1"}}]}]))
    return {**draw(maybe(ldms_release=st.sampled_from(["4.4", "4.5.3", "newer"]))),
            "daemons": daemons, "aggregators": aggregators,
            "samplers": [{"daemons": samplers, "plugins": ["p1"], **advertise}],
            "plugins": plugins,
            "stores": draw(st.sampled_from([{}, {"csv": {
                "daemons": "agg-[2-4]", "plugin": "p2", "container": "c", "schema": "meminfo",
                "flush": "0s"}}])),
            "iostats": [{"hosts": "oss[1-3],mds1", "settings": {
                "harvest": {"interval": "10", "exports": "no"}, "events": {"every": "20"}}}]}


@settings(max_examples=examples(60), deadline=None)
@given(documents())
def test_what_is_converted_reads_as_the_same(document):
    """JSON is YAML: what is drawn is written so."""
    before, _ = read_description(json.dumps(document, ensure_ascii=False))

    after, _ = read_description(to_yaml(before))

    assert before == after


def test_the_text_is_as_a_user_would_write_it():
    found, _ = read_description(TODAY)

    text = to_yaml(found)

    assert '''\
daemons:
  - names: "s-[1-12]"
    hosts: "n-[01-12]"
    endpoints:
      - names: "s-[1-12]-ib"
        ports: "10037"
        xprt: sock
        maestro_comm: true
        auth:
          name: ovis1
          plugin: ovis
          conf: /etc/ldms/secret
''' == text[:text.index('  - names: "agg')]
    assert '''\
plugins:
  mem1:
    name: meminfo
    interval: "1s"
    config:
      - schema: meminfo
        perm: "0777"
  csv1:
    name: store_csv
    config:
      - path: /data
        altheader: "0"
stores:
  csv:
    daemons: "agg-[1-3]"
    plugin: csv1
    container: c
    schema: meminfo
    flush: "10s"
''' == text[text.index("plugins:\n  mem1"):]


def test_names_are_folded_in_their_order():
    assert "n-[1-3,05],n-[1-2]-ib0,login,n-[3,1]" == fold(
        ["n-1", "n-2", "n-3", "n-05", "n-1-ib0", "n-2-ib0", "login", "n-3", "n-1"])
    assert "a[1-2]b37,a1b[38-39]" == fold(["a1b37", "a2b37", "a1b38", "a1b39"])
