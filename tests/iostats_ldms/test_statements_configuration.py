"""
Daemons' whole configurations, of a description as a user writes it.
"""

import pytest

from iostats_ldms.description.read import read_description
from iostats_ldms.statements.configuration import (
    Configurations,
    RefusedConfiguration,
    find_unsupported,
)
from iostats_ldms.statements.dialect import DIALECTS, format_statement

OLD, NEW = DIALECTS["4.4"], DIALECTS["4.5"]

TWO_LEVELS = """
daemons:
  - names: s-[1-3]
    hosts: node-[1-3]
    environment: {CLUSTER: orion, LEVEL: "0"}
    log_level: INFO
    metric_sets_default_authz: {perm: "777", uid: ldms}
    endpoints:
      - {names: "node-[1-3]-10002", ports: 10002, maestro_comm: true,
         auth: {name: own, plugin: ovis, conf: /etc/ldms/secret}}
      - {names: "node-[1-3]-rdma", ports: 411, xprt: rdma, bind_all: true}
  - names: agg-[1-2]
    hosts: head-[1-2]
    endpoints: [{names: "agg-[1-2]-10003", ports: 10003}]
  - names: top
    hosts: head-3
    msg_enable: true
    endpoints: [{names: top-10004, ports: 10004, auth: {name: own}}]
samplers:
  - daemons: s-[1-3]
    plugins: [mem, net]
plugins:
  mem:
    name: meminfo
    interval: 1s
    offset: 100ms
    config: [{schema: mem, component_id: "${ID}"}]
  net: {name: procnetdev2, interval: 2s, config: ["producer=${HOSTNAME} schema=net"]}
  csv: {name: store_csv, config: [{path: /data, opt: ~}]}
  own: {name: ldmsd_stats, interval: 23s, config: [{schema: own}]}
aggregators:
  - daemons: agg-[1-2]
    plugins: [own]
    peers:
      - {endpoints: "node-[1-3]-10002", daemons: "s-[1-3]", type: active, reconnect: 20s, rail: 2,
         updaters: [{interval: 1s, offset: 200ms, mode: pull,
                     sets: [{regex: "s-.*/mem", field: inst}]}]}
  - daemons: top
    peers:
      - {endpoints: "agg-[1-2]-10003", daemons: "agg-[1-2]", type: active, reconnect: 37s,
         updaters: [{interval: 1s, mode: push}, {interval: 41s, mode: auto_interval}]}
    prdcr_listen: [{name: others, regex: "login-.*", reconnect: 20s}]
    subscribe: [{stream: kokkos, regex: ".*"}, {message_tag: io, regex: "agg-.*", rx_rate: 4100}]
stores:
  all-mem: {daemons: top, plugin: csv, container: box, schema: mem, flush: 10s}
  all-net: {daemons: top, plugin: csv, container: box, schema: net}
"""


def configured(text, dialect):
    found, _ = read_description(text)
    whole = Configurations(found, dialect)
    return {name: [format_statement(statement) for statement in whole.make_statements(name)]
            for name
            in found.daemons}


def test_a_sampler_of_45():
    assert configured(TWO_LEVELS, NEW)["s-2"] == [
        "env CLUSTER=orion",
        "env LEVEL=0",
        "option --log_level INFO",
        "metric_sets_default_authz perm=0777 uid=ldms",
        "auth_add name=own plugin=ovis conf=/etc/ldms/secret",
        "listen xprt=sock port=10002 auth=own host=node-2",
        "listen xprt=rdma port=411 host=0.0.0.0",
        "load name=mem plugin=meminfo",
        "config name=mem schema=mem component_id=${ID} producer=s-2 instance=s-2/mem",
        "start name=mem interval=1000000 offset=100000",
        "load name=net plugin=procnetdev2",
        "config name=net producer=${HOSTNAME} schema=net",
        "start name=net interval=2000000",
    ]


def test_a_sampler_of_44_has_plugins_by_their_own_names():
    found = configured(TWO_LEVELS, OLD)["s-2"]

    assert found[7:] == [
        "load name=meminfo",
        "config name=meminfo schema=mem component_id=${ID} producer=s-2 instance=s-2/mem",
        "start name=meminfo interval=1000000 offset=100000",
        "load name=procnetdev2",
        "config name=procnetdev2 producer=${HOSTNAME} schema=net",
        "start name=procnetdev2 interval=2000000",
    ]


def test_aggregators_of_level_one_share_the_producers():
    """
    Each of three samplers on one of the two; agg-1 is in s-[1-3]'s domain when it connects.  L2
    subscribes to a stream at them, so they have streams.
    """
    found = configured(TWO_LEVELS, NEW)

    assert found["agg-1"] == [
        "stream_enable",
        "listen xprt=sock port=10003 host=head-1",
        "auth_add name=own plugin=ovis conf=/etc/ldms/secret",
        "prdcr_add name=node-1-10002 host=node-1 port=10002 xprt=sock type=active "
        "reconnect=20000000 auth=own rail=2",
        "prdcr_start name=node-1-10002",
        "prdcr_add name=node-3-10002 host=node-3 port=10002 xprt=sock type=active "
        "reconnect=20000000 auth=own rail=2",
        "prdcr_start name=node-3-10002",
        "load name=own plugin=ldmsd_stats",
        "config name=own schema=own producer=agg-1 instance=agg-1/own",
        "start name=own interval=23000000",
        "updtr_add name=updtr_0 interval=1000000 offset=200000",
        "updtr_prdcr_add name=updtr_0 regex=.*",
        "updtr_match_add name=updtr_0 regex=s-.*/mem match=inst",
        "updtr_start name=updtr_0",
    ]
    assert ["prdcr_start name=node-2-10002"] == [
        line for line in found["agg-2"] if line.startswith("prdcr_start")]


def test_the_highest_level_stores():
    assert configured(TWO_LEVELS, NEW)["top"] == [
        "stream_enable",
        "msg_enable",
        "auth_add name=own plugin=ovis conf=/etc/ldms/secret",
        "listen xprt=sock port=10004 auth=own host=head-3",
        "prdcr_add name=agg-1-10003 host=head-1 port=10003 xprt=sock type=active "
        "reconnect=37000000",
        "prdcr_start name=agg-1-10003",
        "prdcr_add name=agg-2-10003 host=head-2 port=10003 xprt=sock type=active "
        "reconnect=37000000",
        "prdcr_start name=agg-2-10003",
        "prdcr_listen_add name=others regex=login-.* reconnect=20000000",
        "prdcr_listen_start name=others",
        "prdcr_subscribe stream=kokkos regex=.*",
        "prdcr_subscribe message_tag=io rx_rate=4100 regex=agg-.*",
        "updtr_add name=updtr_1 push=true interval=1000000",
        "updtr_prdcr_add name=updtr_1 regex=.*",
        "updtr_start name=updtr_1",
        "updtr_add name=updtr_2 auto_interval=true interval=41000000",
        "updtr_prdcr_add name=updtr_2 regex=.*",
        "updtr_start name=updtr_2",
        "load name=csv plugin=store_csv",
        "config name=csv path=/data opt",
        "strgp_add name=all-mem plugin=csv container=box schema=mem flush=10000000",
        "strgp_start name=all-mem",
        "strgp_add name=all-net plugin=csv container=box schema=net",
        "strgp_start name=all-net",
    ]


def test_what_44_has_no_words_for_is_left_out_and_told():
    found = configured(TWO_LEVELS, OLD)

    assert not [line for lines in found.values() for line in lines
                if "enable" in line or "rail=" in line or "message_tag" in line]
    assert [
        "LDMS 4.4 has no message channels: msg_enable is left out of top",
        "LDMS 4.4 has no rail with prdcr_add: it is left out of the producers of agg-[1-2]",
        "LDMS 4.4 has no message channels: top does not subscribe to io",
    ] == find_unsupported(read_description(TWO_LEVELS)[0], OLD)
    assert [] == find_unsupported(read_description(TWO_LEVELS)[0], NEW)


def one_group(more="", producers=4):
    return f"""
daemons:
  - {{names: "s-[1-{producers}]", hosts: "n-[1-{producers}]",
     endpoints: [{{names: "p-[1-{producers}]", ports: 1}}]}}
  - {{names: "agg-[1-2]", hosts: head, endpoints: [{{names: "a-[1-2]", ports: "[2-3]"}}]}}
plugins: {{mem: {{name: meminfo, interval: 1s, config: []}}}}
samplers: [{{daemons: "s-[1-{producers}]", plugins: [mem]}}]
aggregators:
  - daemons: "agg-[1-2]"
    {more}
    peers:
      - {{endpoints: "p-[1-{producers}]", reconnect: 1s, type: active,
         updaters: [{{interval: 1s}}]}}
"""


def started(lines):
    return [line.partition("=")[2] for line in lines if line.startswith("prdcr_start ")]


def test_capacities_are_respected():
    """Eight producers, to one that takes three times as much as the other: 6 and 2."""
    found = configured(one_group("capacity: {agg-1: 1, agg-2: 3}", 8), NEW)

    assert [2, 6] == [len(started(found[name])) for name in ("agg-1", "agg-2")]


def test_a_plugin_without_a_configuration_is_told_who_it_is():
    found = configured(one_group(), NEW)

    assert "config name=mem producer=s-1 instance=s-1/mem" in found["s-1"]


TWICE = """
daemons: [{names: s-1, hosts: n, endpoints: [{names: e, ports: 1}]}]
samplers: [{daemons: s-1, plugins: [one, two]}]
plugins:
  one: {name: meminfo, interval: 1s, config: [{schema: m}]}
  two: {name: meminfo, interval: INTERVAL, config: [{schema: m}]}
"""


def test_44_loads_a_plugin_once():
    same, other = (TWICE.replace("INTERVAL", text) for text in ("1s", "2s"))

    assert 1 == len([line for line in configured(same, OLD)["s-1"] if line.startswith("load")])
    assert 2 == len([line for line in configured(other, NEW)["s-1"] if line.startswith("load")])
    with pytest.raises(RefusedConfiguration,
                       match=r"^s-1: 'one' and 'two' are both 'meminfo', and LDMS "
                                           r"4\.4 loads a plugin once"):
        configured(other, OLD)


@pytest.mark.parametrize("change, said", [
    (("names: s-1,", "names: s-1, log_levle: INFO,"), "no option '--log_levle' here; did you mean "
                                                      "--log_level?"),
    (("names: s-1,", "names: s-1, set_memori: {size: 1M},"), "did you mean set_memory?"),
    (("{schema: m}", "{namespace: m}"), 'expected no attribute that begins with "name"'),
])
def test_what_ldmsd_would_refuse_is_not_made(change, said):
    text = TWICE.replace("INTERVAL", "2s").replace(*change)

    with pytest.raises(RefusedConfiguration) as caught:
        configured(text, NEW)

    assert str(caught.value).startswith("s-1: LDMS 4.5 would refuse '")
    assert said in str(caught.value)


def test_a_domain_has_one_meaning_in_a_daemon():
    text = TWICE.replace("INTERVAL", "2s").replace(
        "{names: e, ports: 1}", "{names: e, ports: 1, auth: {name: a, plugin: ovis, conf: /x}},"
        " {names: f, ports: 2, auth: {name: a, plugin: ovis, conf: /y}}")

    with pytest.raises(RefusedConfiguration,
                       match="s-1: authentication domain 'a' is ovis /x and ovis /y"):
        configured(text, NEW)


def test_options_of_other_releases_are_left_out_and_told():
    text = TWICE.replace("INTERVAL", "1s").replace(
        "names: s-1,", "names: s-1, default_quota: 1000, set_memory: {size: 1M},")

    assert ["option --default_quota 1000", "set_memory size=1M"] == configured(text, NEW)["s-1"][:2]
    assert "listen xprt=sock port=1 host=n" == configured(text, OLD)["s-1"][0]
    assert [
        "LDMS 4.4 has no option --default_quota: it is left out of s-1",
        "LDMS 4.4 has no statement set_memory: it is left out of s-1",
    ] == find_unsupported(read_description(text)[0], OLD)


def test_limits_of_what_advertises_are_left_out_of_44_and_told():
    text = one_group("prdcr_listen: [{name: l, type: active, advertiser_xprt: sock,"
                     " advertiser_port: 7, reconnect: 1s, quota: 23}]\n"
                     "    subscribe: [{stream: s, regex: x, rx_rate: 37}]").replace(
        "plugins: [mem]", "plugins: [mem], advertise: {names: 'p-[1-4]', hosts: 'n-[8-9]',"
        " xprt: sock, port: 9, reconnect: 2s, rx_rate: 41}")

    assert configured(text, NEW)["s-1"][2:4] == [
        "advertiser_add name=s-1-n-8 host=n-8 xprt=sock port=9 reconnect=2000000 rx_rate=41",
        "advertiser_start name=s-1-n-8"]
    assert "prdcr_listen_add name=l reconnect=1000000" not in configured(text, OLD)["agg-1"]
    assert "prdcr_listen_add name=l" in configured(text, OLD)["agg-1"]
    assert [
        "LDMS 4.4 has no quota with prdcr_listen_add: it is left out of the prdcr_listen of "
        "agg-[1-2]",
        "LDMS 4.4 has no active prdcr_listen: l of agg-[1-2] waits for the samplers' own "
        "connections",
        "LDMS 4.4 has no rx_rate of a subscription: it is left out of s of agg-[1-2]",
        "LDMS 4.4 has no rx_rate with advertiser_add: it is left out of the advertisers of "
        "s-[1-4]",
    ] == find_unsupported(read_description(text)[0], OLD)
