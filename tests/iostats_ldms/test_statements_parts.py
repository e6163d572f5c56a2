"""
The statements of each part of a description, in the dialects of two releases.
"""

import pytest

from iostats.base.errors import UsageError
from iostats_ldms.description.model import (
    Advertise,
    Auth,
    Endpoint,
    Listen,
    Plugin,
    Producer,
    SetMatch,
    StoragePolicy,
    Subscription,
    Updater,
)
from iostats_ldms.statements import parts
from iostats_ldms.statements.dialect import DIALECTS, format_statement, get_dialect

OLD, NEW = DIALECTS["4.4"], DIALECTS["4.5"]
OVIS = Auth("ovis1", "ovis", "/etc/ldms/secret.conf")
ENDPOINT = Endpoint("node-23-10002", "node-23", 10002, auth=OVIS)
PRODUCER = Producer("s-23", ENDPOINT, "active", 37_000_000, rail=2, quota=-1, rx_rate=41000,
                    perm="0777", cache_ip=False)
MEMINFO = Plugin("meminfo1", "meminfo", ((("schema", "meminfo"), ("perm", "0o777")),), 1_000_000,
                 0)
CSV = Plugin("csv1", "store_csv", ("path=/data altheader=0", (("opt", None),)))


def lines(statements):
    return [format_statement(statement) for statement in
            (statements if isinstance(statements, list) else [statements])]


@pytest.mark.parametrize("make, old, new", [
    (lambda d: parts.build_auth_add(OVIS, d),
     ["auth_add name=ovis1 plugin=ovis conf=/etc/ldms/secret.conf"], None),
    (lambda d: parts.build_auth_add(Auth("m", "munge", "/run/munge/own"), d),
     ["auth_add name=m plugin=munge socket=/run/munge/own"], None),
    (lambda d: parts.build_listen(ENDPOINT, d),
     ["listen xprt=sock port=10002 auth=ovis1 host=node-23"], None),
    (lambda d: parts.build_listen(Endpoint("e", "node-23", 411, "rdma", listens_everywhere=True),
                                  d),
     ["listen xprt=rdma port=411 host=0.0.0.0"], None),
    (lambda d: parts.build_producer_add(PRODUCER, d),
     ["prdcr_add name=node-23-10002 host=node-23 port=10002 xprt=sock type=active "
      "reconnect=37000000 cache_ip=false perm=0777 auth=ovis1"],
     ["prdcr_add name=node-23-10002 host=node-23 port=10002 xprt=sock type=active "
      "reconnect=37000000 cache_ip=false perm=0777 auth=ovis1 rail=2 rx_rate=41000 quota=-1"]),
    (lambda d: parts.build_sampler_plugin(MEMINFO, "s-23", d),
     ["load name=meminfo",
      "config name=meminfo schema=meminfo perm=0777 producer=s-23 instance=s-23/meminfo1",
      "start name=meminfo interval=1000000 offset=0"],
     ["load name=meminfo1 plugin=meminfo",
      "config name=meminfo1 schema=meminfo perm=0777 producer=s-23 instance=s-23/meminfo1",
      "start name=meminfo1 interval=1000000 offset=0"]),
    (lambda d: parts.build_sampler_plugin(Plugin("s", "slurm_sampler"), "s-23", d),
     ["load name=slurm_sampler", "config name=slurm_sampler producer=s-23 instance=s-23/s"],
     ["load name=s plugin=slurm_sampler", "config name=s producer=s-23 instance=s-23/s"]),
    (lambda d: parts.build_aggregator_plugin(CSV, "agg-1", d),
     ["load name=store_csv", "config name=store_csv path=/data altheader=0",
      "config name=store_csv opt"],
     ["load name=csv1 plugin=store_csv", "config name=csv1 path=/data altheader=0",
      "config name=csv1 opt"]),
    (lambda d: parts.build_advertiser(Advertise("s-23-agg-1", "agg-1", 411, "sock", 23_000_000,
                                                OVIS,
                                          "0640", rail=2), d),
     ["advertiser_add name=s-23-agg-1 host=agg-1 xprt=sock port=411 reconnect=23000000 auth=ovis1"
      " perm=0640", "advertiser_start name=s-23-agg-1"],
     ["advertiser_add name=s-23-agg-1 host=agg-1 xprt=sock port=411 reconnect=23000000 auth=ovis1"
      " perm=0640 rail=2", "advertiser_start name=s-23-agg-1"]),
    (lambda d: parts.build_producer_listener(
        Listen("nodes", "node-.*", "10.0.0.0/8", disable_start=True, quota=4100,
               kind="active", advertiser_xprt="sock", advertiser_port=411,
               advertiser_auth=OVIS, reconnect_us=37), d),
     ["prdcr_listen_add name=nodes disable_start=true regex=node-.* ip=10.0.0.0/8",
      "prdcr_listen_start name=nodes"],
     ["prdcr_listen_add name=nodes disable_start=true regex=node-.* ip=10.0.0.0/8 quota=4100 "
      "type=active advertiser_xprt=sock advertiser_port=411 advertiser_auth=ovis1 reconnect=37",
      "prdcr_listen_start name=nodes"]),
    (lambda d: parts.build_subscribe(Subscription("kokkos", ".*", rx_rate=-1), d),
     ["prdcr_subscribe stream=kokkos regex=.*"],
     ["prdcr_subscribe stream=kokkos rx_rate=-1 regex=.*"]),
    (lambda d: parts.build_subscribe(Subscription("io", ".*", is_message=True), d),
     [], ["prdcr_subscribe message_tag=io regex=.*"]),
    (lambda d: parts.build_unsubscribe(Subscription("kokkos", "node-.*"), d),
     ["prdcr_unsubscribe stream=kokkos regex=node-.*"], None),
    (lambda d: parts.build_storage_policy(StoragePolicy("p", ("agg-1",), "csv1", "box", "meminfo",
                                                  flush_us=41, perm="0640"), CSV, d),
     ["strgp_add name=p plugin=store_csv container=box schema=meminfo perm=0640 flush=41",
      "strgp_start name=p"],
     ["strgp_add name=p plugin=csv1 container=box schema=meminfo perm=0640 flush=41",
      "strgp_start name=p"]),
])
def test_statements(make, old, new):
    assert old == lines(make(OLD))
    assert (old if new is None else new) == lines(make(NEW))


@pytest.mark.parametrize("mode, attribute", [
    ("pull", ""), ("push", " push=true"), ("onchange", " push=onchange"),
    ("auto_interval", " auto_interval=true")])
def test_an_updater_pulls_where_it_says_pull(mode, attribute):
    made = parts.build_updater(Updater("updtr_3", 23, 7, mode), NEW)

    assert [f"updtr_add name=updtr_3{attribute} interval=23 offset=7",
            "updtr_prdcr_add name=updtr_3 regex=.*", "updtr_start name=updtr_3"] == lines(made)


def test_an_updater_has_its_own_producers_or_those_it_is_given():
    updater = Updater("u", 23, None, producers=("a-.*", "b-.*"), sets=(SetMatch("mem", "schema"),))

    assert ["updtr_add name=u interval=23", "updtr_prdcr_add name=u regex=a-.*",
            "updtr_prdcr_add name=u regex=b-.*", "updtr_match_add name=u regex=mem match=schema",
            "updtr_start name=u"] == lines(parts.build_updater(updater, NEW))
    assert ["updtr_add name=u interval=23", "updtr_prdcr_add name=u regex=^c$",
            "updtr_match_add name=u regex=mem match=schema", "updtr_start name=u"] == lines(
        parts.build_updater(updater, NEW, producers=["^c$"]))


@pytest.mark.parametrize("text, octal", [
    ("777", "0777"), ("0777", "0777"), ("0o777", "0777"), ("rw-r-----", "0640"),
    ("rwxrwxrwx", "0777"), ("0", "00"), ("", ""), ("888", "888"), ("rwx", "rwx")])
def test_permissions_are_octal(text, octal):
    assert octal == parts.normalize_permission(text)


@pytest.mark.parametrize("text, release", [
    ("4.4", "4.4"), ("4.4.6", "4.4"), ("v4.5.1-rc.2", "4.5"), ("4.5.3", "4.5"), ("4.6", "newer"),
    ("5.0.1", "newer"), ("newer", "newer")])
def test_the_dialect_of_a_release(text, release):
    assert release == get_dialect(text).release


@pytest.mark.parametrize("text", ["", "4", "4.3.8", "four", "4.x", "-4.5"])
def test_a_release_that_is_none(text):
    with pytest.raises(UsageError):
        get_dialect(text)
