"""
From rates to datagrams: which nodes gmond is told of, which metrics, when, and when no more.
"""
from __future__ import annotations

import itertools

import numpy
import pytest
from client_desk import Names
from ganglia_desk import decoded, values_of
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.cooperative import run_to_end
from iostats.sinks.ganglia import METRICS
from iostats.sinks.ganglia.datagrams import Datagrams, Host, NodeRates, find_ipv4
from iostats.sinks.ganglia.sender import Hosts
from iostats.sinks.nodes import place_nodes, sum_by_node

NODE1, NODE2, SUMS = "10.77.0.11:node1", "10.77.0.12:node2", "mgmt1"
IP = {"node1": "10.77.0.11@tcp", "node2": "10.77.0.12@tcp", "(storage servers)": "0@lo"}
RATES = [2300.5, 3700, 3, 5, 23, 41]
NOTHING = [0.0] * 6
EVERY = 20


class Gmond:
    """What a gmond is told, sweep by sweep: the datagrams of a Datagrams."""

    def __init__(self, metrics=METRICS[:4], names=(), unnamed=False, address="nid", domain="",
                 idle_s=60, metadata_s=60, send_low=False, sums=None, lookup=None):
        self.made = Datagrams(metrics, dict(names), Hosts(address, domain, unnamed, lookup),
                              sums or Host(SUMS, False), idle_s, metadata_s, send_low)
        self.slot = 1_795_176_000.0

    def sweep(self, rows, low=(), missing=0, is_known=True, fs="scratch"):
        """[datagram] of a sweep: {node: its rates}."""
        rates = None if rows is None else NodeRates(
            list(rows), [[IP.get(node, node)] for node in rows], [is_known] * len(rows),
            numpy.array(list(rows.values()), float).reshape(-1, 6),
            [bool(missing) or node in low for node in rows], missing)
        self.slot += EVERY
        return self.made.of(self.slot, EVERY, {} if rates is None else {fs: rates})

    def values(self, *arguments, **options):
        """{(host, metric): value} of a sweep."""
        return values_of(self.sweep(*arguments, **options))

    def told(self, *arguments, **options):
        """{(host, metric): dmax} of the metadata of a sweep."""
        return {(one["host"], one["name"]): one["dmax"]
                for one in map(decoded, self.sweep(*arguments, **options)) if "dmax" in one}


def of(host, values):
    """Those of one host."""
    return {name: value for (one, name), value in values.items() if one == host}


def test_a_node_has_lustreharvests_metrics():
    """The operations of the OSSs are reads, writes and all others."""
    values = Gmond().values({"node1": RATES})
    assert {"scratch_read_bytes": "2300.5", "scratch_write_bytes": "3700", "scratch_oss_ops": "31",
            "scratch_mds_ops": "41"} == of(NODE1, values)
    assert {"scratch_cluster_read_bytes": "2300.5", "scratch_cluster_write_bytes": "3700",
            "scratch_cluster_oss_ops": "31", "scratch_cluster_mds_ops": "41",
            "scratch_missing_servers": "0"} == of(SUMS, values)


def test_gmond_is_told_what_they_are():
    """Group, type, units, slope, and how long they stay true."""
    told = {one["name"]: one for one in map(decoded, Gmond().sweep({"node1": RATES}))
            if "dmax" in one and one["host"] == NODE1}
    assert {"host": NODE1, "name": "scratch_write_bytes", "named": "scratch_write_bytes",
            "is_spoofed": True, "type": "double", "units": "bytes/sec", "slope": 3, "tmax": 40,
            "dmax": 180, "extra": [("GROUP", "lustre"), ("TITLE", "scratch: written"),
                                   ("DESC", "Bytes written to OSTs and MDTs")]
            } == told["scratch_write_bytes"]
    assert {"scratch_read_bytes": "bytes/sec", "scratch_write_bytes": "bytes/sec",
            "scratch_oss_ops": "ops/sec", "scratch_mds_ops": "ops/sec"} == {
        name: one["units"] for name, one in told.items()}


def test_all_six_metrics():
    """Reads and writes are those of OSTs and MDTs."""
    values = Gmond(metrics=METRICS).values({"node1": RATES})
    assert ("3", "5") == (values[NODE1, "scratch_reads"], values[NODE1, "scratch_writes"])


def test_the_sums_are_of_all_nodes_but_not_of_the_storage_servers():
    """These are never a node, nor in a node's sums."""
    values = Gmond().values({"node1": RATES, "node2": [1, 0, 0, 0, 0, 2],
                             "(storage servers)": [1e9] * 6})
    assert {NODE1, NODE2, SUMS} == {host for host, _ in values}
    assert ("2301.5", "43") == (values[SUMS, "scratch_cluster_read_bytes"],
                                values[SUMS, "scratch_cluster_mds_ops"])


def test_a_metric_begins_with_the_name_that_the_site_gives():
    """As lustreHarvest's nameMap."""
    values = Gmond(names={"data": "vu_short"}).values({"node1": RATES}, fs="data")
    assert "3700" == values[NODE1, "vu_short_write_bytes"]
    assert "3700" == values[SUMS, "vu_short_cluster_write_bytes"]


def test_a_node_that_does_nothing_has_zeros_for_a_while_then_nothing():
    """60 s here; then dmax removes it, and it is told of anew when it does something."""
    gmond = Gmond()
    gmond.sweep({"node1": RATES})
    quiet = [of(NODE1, gmond.values({"node1": NOTHING})) for _ in range(5)]
    assert ["0", "0", "0", None, None] == [one.get("scratch_read_bytes") for one in quiet]
    assert {"scratch_read_bytes": 180, "scratch_write_bytes": 180, "scratch_oss_ops": 180,
            "scratch_mds_ops": 180} == of(NODE1, gmond.told({"node1": RATES}))


def test_a_node_that_has_done_nothing_yet_is_not_sent():
    """It would make a host that is down look up."""
    assert {SUMS} == {host for host, _ in Gmond().values({"node1": NOTHING})}


def test_a_client_that_no_storage_server_tells_of_any_more_has_zeros_too():
    """Its exports were cleared: it did nothing."""
    gmond = Gmond()
    gmond.sweep({"node1": RATES, "node2": RATES})
    assert {"0"} == set(of(NODE1, gmond.values({"node2": RATES})).values())
    assert 2 == gmond.made.shown


def test_metadata_is_sent_again_from_time_to_time():
    """Of each node within 60 s, and not of all in the same sweep: it may be a new gmond."""
    gmond, rows = Gmond(), {f"node{number}": RATES for number in range(30)}
    first = gmond.told(rows)
    later = [gmond.told(rows) for _ in range(6)]
    assert 30 * 4 + 5 == len(first)
    for three in (later[:3], later[3:]):
        assert first == {**three[0], **three[1], **three[2]}
        assert all(35 <= len(one) <= 60 for one in three)


def test_metadata_comes_often_enough_for_its_dmax():
    """gmond counts dmax from the last metadata: a longer pause would take the metric away."""
    for every, metadata_s in itertools.product((5, 20, 37, 60, 600), (0, 41, 60, 300)):
        gmond, told = Gmond(metadata_s=metadata_s), []
        for number in range(60):
            datagrams = gmond.made.of(1e9 + number * every, every, {"scratch": NodeRates(
                ["node1"], [["10.77.0.11@tcp"]], [True], numpy.array([RATES]), [False], 0)})
            told += [(number * every, one["dmax"]) for one in map(decoded, datagrams)
                     if one["name"] == "scratch_read_bytes" and "dmax" in one]
        pauses = [after - before for (before, _), (after, _) in zip(told, told[1:])]
        assert pauses and max(pauses) + every < min(dmax for _, dmax in told), (every, metadata_s)


def test_all_is_told_again_when_a_gmond_was_away():
    """The one that comes back knows nothing."""
    gmond = Gmond()
    first = gmond.told({"node1": RATES})
    assert {} == of(NODE1, {key: dmax for key, dmax in gmond.told({"node1": RATES}).items()
                            if key not in first})
    gmond.made.resend_metadata()
    assert first == gmond.told({"node1": RATES})


def test_a_rate_that_may_be_too_low_is_taken_back():
    """gmetad would go on with the last one; a dmax of 1 s ends that."""
    gmond = Gmond()
    gmond.sweep({"node1": RATES, "node2": RATES})
    datagrams = gmond.sweep({"node1": RATES, "node2": RATES}, low=["node2"])
    values, gone = values_of(datagrams), {
        one["name"]: one["dmax"] for one in map(decoded, datagrams)
        if one["host"] == NODE2 and "dmax" in one}
    assert {"scratch_read_bytes": 1, "scratch_write_bytes": 1, "scratch_oss_ops": 1,
            "scratch_mds_ops": 1} == gone
    assert {NODE1, SUMS} == {host for host, _ in values}
    assert {"scratch_missing_servers": "0"} == of(SUMS, values)     # the sums lack the same
    assert (1, 1) == (gmond.made.shown, gmond.made.low)
    assert {} == of(NODE2, gmond.told({"node1": RATES, "node2": RATES}, low=["node2"]))
    assert 180 == gmond.told({"node1": RATES, "node2": RATES})[NODE2, "scratch_read_bytes"]


def test_without_a_storage_server_only_how_many_are_missing_is_sent():
    """Nobody's rates are known then; the node that has gone from the exports has none either."""
    gmond = Gmond()
    gmond.sweep({"node1": RATES, "node2": RATES})
    assert {(SUMS, "scratch_missing_servers"): "2"} == gmond.values({"node2": RATES}, missing=2)
    assert 2 == gmond.made.low


def test_lower_bounds_are_sent_with_a_mark_where_the_site_says_so():
    """And without one where they are exact."""
    gmond = Gmond(send_low=True)
    values = gmond.values({"node1": RATES, "node2": RATES}, low=["node2"])
    assert ("0", "1", "1") == (values[NODE1, "scratch_lower_bound"],
                               values[NODE2, "scratch_lower_bound"],
                               values[SUMS, "scratch_cluster_lower_bound"])
    assert "3700" == values[NODE2, "scratch_write_bytes"]


def test_a_file_system_of_which_nothing_is_known_is_taken_back():
    """All of its storage servers are silent."""
    gmond = Gmond()
    sent = {key for key in gmond.values({"node1": RATES}) if "missing" not in key[1]}
    assert dict.fromkeys(sent, 1) == gmond.told(None)
    assert {} == gmond.told(None)


def test_a_node_without_a_name_is_counted_and_not_sent():
    """It may be another cluster's; the sums have it."""
    gmond = Gmond()
    values = gmond.values({"10.9.0.7@o2ib3": RATES}, is_known=False)
    assert {SUMS} == {host for host, _ in values}
    assert "41" == values[SUMS, "scratch_cluster_mds_ops"]
    assert (0, 1, "10.9.0.7@o2ib3") == (gmond.made.shown, gmond.made.unnamed,
                                        gmond.made.an_unnamed)


@pytest.mark.parametrize("options, node, host", [
    ({"unnamed": True}, "10.9.0.7@o2ib3", "10.9.0.7:10.9.0.7"),
    ({"unnamed": True}, "27@gni", "27_gni:27_gni"),
    ({"unnamed": True}, "fd00::5@tcp", "fd00__5_tcp:fd00__5_tcp"),
])
def test_a_node_without_a_name_by_its_address(options, node, host):
    """As gmond calls a host whose name it does not find; IPv6 has colons, which end an address."""
    assert host in {one for one, _ in Gmond(**options).values({node: RATES}, is_known=False)}


@pytest.mark.parametrize("options, nids, host", [
    ({}, ["10.77.0.11@tcp"], "10.77.0.11:node1"),
    ({}, ["10.9.0.11@o2ib", "10.77.0.13@tcp", "10.77.0.12@tcp"], "10.77.0.12:node1"),
    ({}, ["27@gni"], "node1:node1"),
    ({}, ["fd00::5@tcp"], "node1:node1"),
    ({"domain": "snake.example"}, ["10.77.0.11@tcp"], "10.77.0.11:node1.snake.example"),
    ({"address": "name"}, ["10.77.0.11@tcp"], "node1:node1"),
    ({"address": "name", "domain": "snake.example"}, [], "node1.snake.example:node1.snake.example"),
], ids=["tcp", "tcp first, the lowest", "no address", "IPv6", "with a domain", "by name",
        "by name, with a domain"])
def test_the_host_of_a_node(options, nids, host):
    """gmond knows a host by its address: one host for one node, whichever NID was used."""
    ways = {"address": "nid", "domain": "", "unnamed": False, **options}
    assert Host(host, True) == Hosts(**ways).find_host("node1", nids, True)


def test_an_address_that_is_looked_up_is_waited_for():
    """A host under another address would stay in gmond."""
    class Lookup:
        def __init__(self):
            self.known = {}

        def get(self, name):
            return self.known.get(name)
    lookup = Lookup()
    gmond = Gmond(address="lookup", domain="snake", lookup=lookup)
    assert {SUMS} == {host for host, _ in gmond.values({"node1": RATES})}
    assert (0, 1, "node1") == (gmond.made.unnamed, gmond.made.unplaced, gmond.made.an_unplaced)
    lookup.known["node1.snake"] = "192.168.7.11"
    assert "192.168.7.11:node1.snake" in {host for host, _ in gmond.values({"node1": RATES})}
    lookup.known["node2.snake"] = ""                                 # there is none
    assert "10.77.0.12:node2.snake" in {host for host, _ in gmond.values({"node2": RATES})}


def hosts_of(gmond, rates, nids):
    """{node: the hosts that have its read_bytes} of a sweep of nodes with these NIDs."""
    gmond.slot += EVERY
    found = values_of(gmond.made.of(gmond.slot, EVERY, {"scratch": NodeRates(
        list(rates), [nids[node] for node in rates], [True] * len(rates),
        numpy.array([[value, 0, 0, 0, 0, 0] for value in rates.values()],
                    float).reshape(-1, 6),
        [False] * len(rates), 0)}))
    return {node: [host for (host, name), text in found.items()
                   if name == "scratch_read_bytes" and text == str(value)]
            for node, value in rates.items()}


@pytest.mark.parametrize("order", [("node1", "node2"), ("node2", "node1")])
def test_two_nodes_with_one_address_in_two_networks_are_two_hosts(order):
    """gmond knows a host by its address: it would show the rates of the one as the other's."""
    nids = {"node1": ["10.5.3.1@tcp"], "node2": ["10.5.3.1@o2ib"], "node3": ["10.5.3.3@tcp"]}
    rates = {**{node: {"node1": 23, "node2": 37}[node] for node in order}, "node3": 41}
    assert {"node1": ["node1:node1"], "node2": ["node2:node2"],
            "node3": ["10.5.3.3:node3"]} == hosts_of(Gmond(), rates, nids)


def test_a_node_that_comes_later_does_not_take_the_address_of_another():
    gmond, nids = Gmond(), {"node1": ["10.5.3.1@tcp"], "node2": ["10.5.3.1@o2ib"]}
    assert {"node1": ["10.5.3.1:node1"]} == hosts_of(gmond, {"node1": 23}, nids)
    assert {"node1": ["10.5.3.1:node1"], "node2": ["node2:node2"]} == hosts_of(
        gmond, {"node1": 23, "node2": 37}, nids)


def test_an_address_that_is_free_again_is_used():
    """node1 has done nothing for longer than `idle`, and node2 has its address now."""
    gmond = Gmond(idle_s=EVERY)
    nids = {"node1": ["10.5.3.1@tcp"], "node2": ["10.5.3.1@tcp"]}
    hosts_of(gmond, {"node1": 23}, nids)
    for _ in range(3):
        hosts_of(gmond, {}, nids)
    assert {"node2": ["10.5.3.1:node2"]} == hosts_of(gmond, {"node2": 37}, nids)


def test_names_that_are_cut_to_the_same_are_two_hosts():
    long = 200 * "n"
    nids = {f"{long}1": ["fd00::1@tcp"], f"{long}2": ["fd00::2@tcp"]}
    found = hosts_of(Gmond(), {f"{long}1": 23, f"{long}2": 37}, nids)
    assert [1, 1] == [len(hosts) for hosts in found.values()]
    assert 2 == len({host for hosts in found.values() for host in hosts})


def test_nids_that_have_no_address():
    """Also half of one, and one that inet_aton would take."""
    assert "" == find_ipv4(
        ["27@gni", "10.77.0@tcp", "1@tcp", "0x0a.1.1.1@tcp", "@tcp", "", "\0@tcp",
                            "\udcff@tcp", "10.77.0.\u0661@tcp"])


def test_names_that_could_break_xml_or_paths_are_made_safe():
    """gmond writes them into its XML as they are, gmetad makes directories of them."""
    gmond = Gmond(names={"a/..": '"><x'})
    for one in map(decoded, gmond.sweep({'no"de/..<1>': RATES}, fs="a/..")):
        for text in (one["host"], one["name"], *itertools.chain(*one.get("extra", ()))):
            assert not set(text) & set('"<>&/\\'), one


def test_a_long_name_of_a_file_system_is_cut():
    """The name of a metric is that of a file of gmetad's."""
    names = {one["name"] for one in map(decoded, Gmond().sweep({"node1": RATES}, fs="f" * 300))}
    assert 100 == max(map(len, names)) and 9 == len(names)


RATE = st.floats(0, 1e15)


@given(st.lists(st.dictionaries(st.sampled_from(["node1", "node2", "node3"]), st.lists(
    RATE, min_size=6, max_size=6), max_size=3), max_size=12), st.sampled_from([0, 20, 60]))
def test_whatever_nodes_do_no_value_comes_without_metadata(sweeps, idle_s):
    """And each value is the rate of this sweep, to 15 digits."""
    gmond, told = Gmond(idle_s=idle_s), {}
    for rows in sweeps:
        datagrams = gmond.sweep(rows)
        for one in map(decoded, datagrams):
            key = one["host"], one["name"]
            if "dmax" in one:
                told[key] = gmond.slot + one["dmax"]
            else:
                assert told[key] > gmond.slot
        for (host, name), text in values_of(datagrams).items():
            node = host.partition(":")[2]
            if name == "scratch_mds_ops":
                assert float(text) == pytest.approx(rows.get(node, NOTHING)[5], rel=1e-14)


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 2**40), max_size=40))
def test_a_nodes_rates_are_the_sums_over_its_nids(amounts):
    """Whatever their order."""
    nids = {f"10.77.0.{number}@tcp": f"node{number % 7}" for number in amounts}
    nodes = run_to_end(place_nodes(list(nids), Names(nids)))
    expected = {}
    for number, amount in amounts.items():
        expected[f"node{number % 7}"] = expected.get(f"node{number % 7}", 0) + amount
    sums = sum_by_node(nodes, numpy.array([[amount] * 2 for amount in amounts.values()],
                                          numpy.int64).reshape(-1, 2))
    assert expected == dict(zip(nodes.names, sums[:, 1].tolist()))
    marks = numpy.array([amount % 2 == 1 for amount in amounts.values()], bool)
    assert {f"node{number % 7}" for number, amount in amounts.items() if amount % 2} == {
        node for node, mark in zip(nodes.names, sum_by_node(nodes, marks).tolist()) if mark}
