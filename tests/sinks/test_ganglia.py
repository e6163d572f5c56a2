"""
The sink for Ganglia: with sockets that receive, and with Debian's gmond, gmetad and gmetric.
"""
from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import threading
import time

import pytest
from client_desk import ClientSite, rates_of
from ganglia_desk import Gmetad, Gmond, UdpReceiver, decoded, swept, values_of
from processes import free_port, until
from sink_desk import Said, config_of, number_of

from iostats import sinks
from iostats.base.errors import ConfigError
from iostats.sinks import ganglia
from iostats.sinks.ganglia import datagrams, sender
from iostats.sinks.ganglia.sender import AddressLookup

N1, N2 = "10.77.0.11@tcp", "10.77.0.12@tcp"
RATES = [2300.5, 3700, 3, 5, 23, 41]
OTHER = [0, 0, 0, 0, 0, 41 / 3]
NODE1, NODE2 = ("node1", "10.77.0.11"), ("node2", "10.77.0.12")


@pytest.fixture
def site():
    """Two nodes, now."""
    return ClientSite({N1: "node1", N2: "node2"}, slot=float(int(time.time())))


@pytest.fixture
def opened(site):
    """opened(port, ..., options) -> a sink that sends there, what it says in `said`."""
    made = []

    def make(*ports, to=None, **options):
        said = Said()
        one = ganglia.make(config_of(
            ganglia_send_to=to or " ".join(f"127.0.0.1:{port}" for port in ports),
            **{f"ganglia_{name}": value for name, value in options.items()}), said,
            lambda: site.slot)
        one.said = said
        made.append(one)
        return one
    yield make
    for one in made:
        one.close()


@pytest.fixture
def receiver():
    """receiver(buffer) -> a UdpReceiver."""
    made = []

    def make(buffer=None):
        made.append(UdpReceiver(buffer))
        return made[-1]
    yield make
    for one in made:
        one.close()


# -- the sink --------------------------------------------------------------------------------------

def test_each_destination_gets_each_rate(site, opened, receiver):
    """Several are allowed."""
    both = receiver(), receiver()
    sink = opened(*(one.port for one in both))
    swept(sink, site, {"scratch": rates_of({N1: RATES})})
    first, second = (one.received() for one in both)
    assert first == second
    assert "2300.5" == values_of(first)["10.77.0.11:node1", "scratch_read_bytes"]
    assert 2 * len(first) == number_of(sink, "iostats_ganglia_sent_packets")
    assert 1 == number_of(sink, "iostats_ganglia_shown_nodes")
    assert [] == sink.said


def test_a_nodes_rates_are_those_of_all_its_nids(site, opened, receiver):
    """A node with two rails is one host, with one of their addresses."""
    site.clients.names.names["10.77.0.10@tcp1"] = "node1"
    to = receiver()
    swept(opened(to.port), site, {"scratch": rates_of({N1: RATES, "10.77.0.10@tcp1": [0.5] * 6,
                                                       "0@lo": [1e6] * 6})})
    values = values_of(to.received())
    assert {host for host, _ in values} == {
        "10.77.0.10:node1", datagrams.clean_name(socket.gethostname())}
    assert "2301" == values["10.77.0.10:node1", "scratch_read_bytes"]


def test_the_sums_can_go_to_a_host_of_their_own(site, opened, receiver):
    """Which then is spoofed as well."""
    to = receiver()
    swept(opened(to.port, sums_host="10.0.0.1:lustre"), site,
          {"scratch": rates_of({N1: RATES, N2: OTHER})})
    [one] = [one for one in map(decoded, to.received())
             if one["name"] == "scratch_cluster_mds_ops" and "value" in one]
    assert ("10.0.0.1:lustre", True, "54.6666666666667") == (
        one["host"], one["is_spoofed"], one["value"])


def test_a_file_system_can_have_another_name(site, opened, receiver):
    """As lustreHarvest's nameMap."""
    to = receiver()
    swept(opened(to.port, names="data=vu_short home=vu_home"), site,
          {"data": rates_of({N1: RATES}), "apps": rates_of({N1: RATES})})
    assert {"vu_short_read_bytes", "apps_read_bytes"} == {
        name for _, name in values_of(to.received())
        if name.endswith("_read_bytes") and "cluster" not in name}


def test_nothing_is_sent_without_a_sweep_of_clients(site, opened, receiver):
    """Of agents that read no exports; nor the clients of another sweep, or of long ago."""
    to = receiver()
    sink = opened(to.port)
    sweep = site.sweep({"scratch": rates_of({N1: RATES})})
    old, site.clients.sweep = site.clients.sweep, None
    sink.sweep(sweep, site)
    site.clients.sweep = old
    sink.sweep(sweep._replace(slot=sweep.slot + 20), site)
    site.slot += 61
    sink.sweep(sweep, site)
    assert sink.walking is None and [] == to.received()
    assert 1 == number_of(sink, "iostats_ganglia_left_out_sweeps")


def test_the_loop_goes_on_while_a_sweep_is_sent(site, opened, receiver):
    """And a sweep that comes meanwhile is left out, and counted."""
    to = receiver()
    sink = opened(to.port, packets_per_second=10)

    async def give():
        sink.sweep(site.sweep({"scratch": rates_of({N1: RATES, N2: RATES})}), site)
        await sink.walking
        assert not sink.is_sent()                    # 26 datagrams, 20 of them at once
        sink.sweep(site.sweep({"scratch": rates_of({N1: RATES})}), site)
    asyncio.run(give())
    assert 1 == number_of(sink, "iostats_ganglia_left_out_sweeps")
    [said] = sink.said
    assert "ganglia: sending a sweep takes longer than the time between sweeps; " in said


def test_ten_thousand_nodes_come_through_a_normal_buffer(opened, receiver):
    """6 metrics of each, within a sweep of 40 s, with all the metadata: none is lost."""
    names = {f"10.77.{number // 250}.{number % 250}@tcp": f"node{number}"
             for number in range(10_000)}
    site, to, got = ClientSite(names, every_s=40), receiver(), []
    stop = threading.Event()

    def receive():
        to.socket.settimeout(0.2)
        while not stop.is_set():
            try:
                got.append(to.socket.recv(2048))
            except OSError:                          # nothing came for a while
                pass
    thread = threading.Thread(target=receive)
    sink = ganglia.make(config_of(ganglia_send_to=f"127.0.0.1:{to.port}",
                                  ganglia_metrics=" ".join(ganglia.METRICS)), Said(),
                        lambda: site.slot)
    thread.start()
    try:
        swept(sink, site, {"scratch": rates_of({nid: RATES for nid in names})})
        sent = number_of(sink, "iostats_ganglia_sent_packets")
        until(lambda: len(got) >= sent, what=lambda: f"{len(got)} of {sent} came")
    finally:
        stop.set()
        thread.join()
        sink.close()
    assert 2 * (60_000 + 7) == len(got)              # with the metadata of all, as it is the first
    assert 60_007 == len(values_of(got))


def test_a_gmond_that_is_not_there_is_said_once(site, opened, receiver):
    """And that it is there again; then it is told all metadata."""
    port = free_port()
    sink = opened(port)
    for _ in range(3):
        swept(sink, site, {"scratch": rates_of({N1: RATES})})
    [said] = sink.said
    assert said.startswith(f"ganglia: 127.0.0.1:{port}: Connection refused: ")
    assert "datagrams could not be sent; is gmond running there" in said
    failures = number_of(sink, "iostats_ganglia_failures")
    assert failures > 3
    gmond = UdpReceiver()
    gmond.close()
    gmond.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    gmond.socket.bind(("127.0.0.1", port))
    try:
        swept(sink, site, {"scratch": rates_of({N1: RATES})})
        told = {one["name"] for one in map(decoded, gmond.received()) if "dmax" in one}
    finally:
        gmond.close()
    assert {f"scratch_{word}" for word in ganglia.HARVESTED} < told
    assert [f"ganglia: 127.0.0.1:{port}: datagrams can be sent again"] == sink.said[1:]
    assert failures == number_of(sink, "iostats_ganglia_failures")


def test_a_name_that_is_none_costs_itself_alone(site, opened, receiver):
    """The other destination gets all."""
    to = receiver()
    sink = opened(to=f"no.such.host.invalid 127.0.0.1:{to.port}")
    swept(sink, site, {"scratch": rates_of({N1: RATES})})
    assert "2300.5" == values_of(to.received())["10.77.0.11:node1", "scratch_read_bytes"]
    [said] = sink.said
    assert said.startswith("ganglia: no.such.host.invalid:8649: ")


def test_nodes_that_are_not_sent_are_told_of_after_some_sweeps(site, opened, receiver):
    """Names come by and by; a storage server may be late once."""
    sink = opened(receiver().port)
    site.clients.names.names = {}
    for _ in range(4):
        swept(sink, site, {"scratch": rates_of({N1: RATES, N2: RATES})})
    assert [] == sink.said and 2 == number_of(sink, "iostats_ganglia_unnamed_nodes")
    swept(sink, site, {"scratch": rates_of({N1: RATES})})
    assert [f"ganglia: 1 clients are not sent, such as {N1}: their names are unknown; name them "
            f"in the file [clients] names of site.cfg, or set [ganglia] unnamed = yes"] == sink.said
    site.clients.names.names = {N1: "node1"}
    swept(sink, site, {"scratch": rates_of({N1: RATES})})
    for _ in range(5):
        swept(sink, site, {"scratch": rates_of({N1: RATES}, missing={"oss7": "is silent"})})
    assert ["ganglia: the rates of 1 nodes are not sent, since they may be too low (oss7: is "
            "silent); [ganglia] lower_bounds = yes sends them all the same"] == sink.said[1:]
    assert 1 == number_of(sink, "iostats_ganglia_lower_bounds")


def test_addresses_that_do_not_come_are_told_of(site, opened, receiver, monkeypatch):
    """DNS hangs: this has nothing to do with names that are not known."""
    never = threading.Event()
    monkeypatch.setattr(socket, "gethostbyname", lambda name: never.wait() and "")
    sink = opened(receiver().port, address="lookup")
    sink._datagrams._hosts._lookup._resolve = socket.gethostbyname
    for _ in range(5):
        swept(sink, site, {"scratch": rates_of({N1: RATES})})
    assert ["ganglia: 1 nodes are not sent, such as node1: /etc/hosts and DNS have not returned "
            "their addresses yet ([ganglia] address = lookup)"] == sink.said
    assert 1 == number_of(sink, "iostats_ganglia_unnamed_nodes")
    never.set()


def test_a_name_with_both_kinds_of_addresses_is_an_ipv4_one(site, opened, receiver):
    """As gmond's own channels, unless they say otherwise."""
    to = receiver()
    swept(opened(to=f"localhost:{to.port}"), site, {"scratch": rates_of({N1: RATES})})
    assert "2300.5" == values_of(to.received())["10.77.0.11:node1", "scratch_read_bytes"]


@pytest.mark.parametrize("options, message", [
    ({"send_to": "gmond1:8649x"}, "[ganglia] send_to: expected HOST:PORT such as 239.2.11.71:8649, "
                                  "got 'gmond1:8649x'"),
    ({"send_to": ":8649"}, "[ganglia] send_to: expected HOST:PORT such as 239.2.11.71:8649, got "
                           "':8649'"),
    ({"send_to": "gmond1, gmond2"}, "[ganglia] send_to: expected HOST:PORT, several with spaces "
                                    "between, got 'gmond1, gmond2'"),
    ({"send_to": "gmond1", "interface": "nosuch0"},
     "[ganglia] interface: no network interface 'nosuch0'; there are: lo"),
    ({"metrics": "read_bytes write"}, "[ganglia] metrics: expected some of read_bytes write_bytes "
     "oss_ops mds_ops reads writes, got 'read_bytes write'"),
    ({"metrics": "reads reads"}, "[ganglia] metrics: expected some of read_bytes write_bytes "
     "oss_ops mds_ops reads writes, got 'reads reads'"),
    ({"names": "data=vu_short apps"}, "[ganglia] names: expected FILE_SYSTEM=NAME, several with "
     "spaces between, got 'data=vu_short apps'"),
    ({"names": "data=short apps=short"}, "[ganglia] names: expected FILE_SYSTEM=NAME, several with "
     "spaces between, got 'data=short apps=short'"),
    ({"sums_host": "lustre"}, "[ganglia] sums_host: expected IP:NAME, got 'lustre'"),
    ({"sums_host": "fd00::1:lustre"},
     "[ganglia] sums_host: expected IP:NAME, got 'fd00::1:lustre'"),
])
def test_a_mistake_in_site_cfg_is_one_line(options, message):
    """It names the key, what was expected and what is there."""
    with pytest.raises(ConfigError) as refusal:
        sinks.make_sinks(config_of(**{f"ganglia_{name}": text for name, text in {
            "send_to": "gmond1", **options}.items()}), Said())
    assert str(refusal.value).startswith(f"the test: {message}")


def test_destinations_with_and_without_a_port():
    """IPv6 addresses stand in brackets, or alone."""
    assert [("gmond1", 8649), ("239.2.11.71", 8650), ("fd00::7", 8649), ("fd00::7", 37),
            ("fd00::7", 8649)] == sender.parse_destinations(config_of(
                ganglia_send_to="gmond1 239.2.11.71:8650 [fd00::7] [fd00::7]:37 fd00::7"))


def test_a_look_up_never_waits():
    """It is answered by and by; an answer is kept for an hour, that there is none ten minutes."""
    asked, go_on, now = [], threading.Semaphore(0), [0.0]

    def resolve(name):
        go_on.acquire()
        asked.append(name)
        if name == "nowhere":
            raise OSError("no such host")
        return "10.77.0.11"
    lookup = AddressLookup(resolve, lambda: now[0])
    assert [None, None, None] == [lookup.get(name) for name in ("node1", "node1", "nowhere")]
    go_on.release(2)
    until(lambda: lookup.get("nowhere") == "", what="an answer")
    assert "10.77.0.11" == lookup.get("node1")
    now[0] = 601.0
    assert ("", "10.77.0.11") == (lookup.get("nowhere"), lookup.get("node1"))
    go_on.release()
    until(lambda: len(asked) == 3, what="it is asked again")
    assert ["node1", "nowhere", "nowhere"] == asked


# -- Debian's ganglia ------------------------------------------------------------------------------

@pytest.fixture
def gmond(tmp_path):
    """A real gmond."""
    made = []

    def make(receives=None, **how):
        made.append(Gmond(tmp_path / f"gmond{len(made)}", receives, **how))
        return made[-1]
    yield make
    for one in made:
        one.stop()


@pytest.mark.ganglia
def test_our_datagrams_are_gmetrics(receiver, tmp_path):
    """Byte by byte, but for the extra SPOOF_HOST, which nothing reads."""
    if not shutil.which("gmetric"):
        pytest.skip("needs Debian's ganglia-monitor")
    to, path = receiver(), tmp_path / "gmond.conf"
    path.write_text(f"udp_send_channel {{\n host = 127.0.0.1\n port = {to.port}\n}}\n")
    subprocess.run(["gmetric", "-c", path, "-n", "scratch_read_bytes", "-v", "2300.5", "-t",
                    "double", "-u", "bytes/sec", "-s", "both", "-x", "40", "-d", "180", "-g",
                    "lustre", "-T", "read", "-D", "Bytes", "-S", "10.77.0.11:node1"], check=True)
    told, value = to.received()
    node1 = datagrams.Host("10.77.0.11:node1", True)
    assert value == datagrams.encode_value(node1, "scratch_read_bytes",
                                           datagrams.format_number(2300.5))
    extra = (("SPOOF_HOST", "10.77.0.11:node1"), ("GROUP", "lustre"), ("DESC", "Bytes"),
             ("TITLE", "read"))
    assert extra == tuple(decoded(told)["extra"])
    assert told == datagrams.encode_metadata(node1, datagrams.GangliaMetric(
        "scratch_read_bytes", "double", "bytes/sec", datagrams.SLOPE_BOTH, 40, 180, extra))


@pytest.mark.ganglia
def test_a_real_gmond_has_each_rate_in_the_nodes_own_host(site, opened, gmond):
    """Its XML: value, type, units, slope, tmax, dmax, group."""
    one = gmond()
    sink = opened(one.port)
    swept(sink, site, {"scratch": rates_of({N1: RATES, N2: OTHER})})
    until(lambda: len(one.hosts()) == 3, what="three hosts")
    hosts = until(lambda: {host: {name: metric.get("VAL") for name, metric in metrics.items()}
                           for host, metrics in one.hosts().items()
                           if len(metrics) in (4, 5)} or None, what="metrics")
    assert {"scratch_read_bytes": "2300.5", "scratch_write_bytes": "3700", "scratch_oss_ops": "31",
            "scratch_mds_ops": "41"} == hosts[NODE1]
    assert {"scratch_read_bytes": "0", "scratch_write_bytes": "0", "scratch_oss_ops": "0",
            "scratch_mds_ops": "13.6666666666667"} == hosts[NODE2]
    [sums] = [metrics for (_, address), metrics in hosts.items() if address == "127.0.0.1"]
    assert "54.6666666666667" == sums["scratch_cluster_mds_ops"]
    metric = one.hosts()[NODE1]["scratch_write_bytes"]
    assert ("double", "bytes/sec", "both", "40", "180") == tuple(
        metric.get(name) for name in ("TYPE", "UNITS", "SLOPE", "TMAX", "DMAX"))
    assert "lustre" == {extra.get("NAME"): extra.get("VAL")
                        for extra in metric.iter("EXTRA_ELEMENT")}["GROUP"]


@pytest.mark.ganglia
def test_the_rates_are_in_the_host_of_the_nodes_own_gmond(site, opened, gmond, tmp_path):
    """Beside what the node has sent itself, under the name that gmond found: no second host."""
    one, path = gmond(), tmp_path / "gmetric.conf"
    path.write_text(f"udp_send_channel {{\n host = 127.0.0.1\n port = {one.port}\n}}\n")
    subprocess.run(["gmetric", "-c", path, "-n", "load_one", "-v", "23", "-t", "float"], check=True)
    [own] = until(lambda: list(one.hosts()), what="the node's own host")
    assert "127.0.0.1" == own[1] and "node1" != own[0]
    site.clients.names.names = {"127.0.0.1@tcp": "node1"}
    swept(opened(one.port, sums_host="10.0.0.1:lustre"), site,
          {"scratch": rates_of({"127.0.0.1@tcp": RATES})})
    until(lambda: ("lustre", "10.0.0.1") in one.hosts(), what="the sums")
    found = until(lambda: one.hosts()[own] if len(one.hosts()[own]) >= 5 else None,
                  what="our metrics")
    assert {"load_one"} | {f"scratch_{word}" for word in ganglia.HARVESTED} == set(found)
    assert {own, ("lustre", "10.0.0.1")} == set(one.hosts())


@pytest.mark.ganglia
def test_a_gmetad_keeps_the_rates_in_rrds(site, opened, gmond, tmp_path):
    """Its port shows them, and the last value in each RRD is the rate."""
    one = gmond()
    gmetad = Gmetad(tmp_path / "gmetad", one)
    try:
        sink = opened(one.port)
        swept(sink, site, {"scratch": rates_of({N1: RATES, N2: OTHER})})
        until(lambda: {NODE1, NODE2} <= set(gmetad.hosts()), what="gmetad's hosts")
        assert "2300.5" == gmetad.hosts()[NODE1]["scratch_read_bytes"].get("VAL")
        until(lambda: [gmetad.last("node1", "scratch_read_bytes"),
                       gmetad.last("node2", "scratch_mds_ops")] == ["2300.5", "13.6666666666667"],
              what="the RRDs")
        swept(sink, site, {"scratch": rates_of({N1: [4100, *RATES[1:]], N2: OTHER})})
        until(lambda: gmetad.last("node1", "scratch_read_bytes") == "4100", what="the next rate")
        # Taken back: no new value is in the RRD from then on, and gmond forgets it.
        swept(sink, site, {"scratch": rates_of({N1: RATES, N2: OTHER}, low=[N1])})

        def has_node1():
            return one.hosts()[NODE1]["scratch_read_bytes"].get("DMAX")
        assert "1" == until(lambda: has_node1() == "1" and "1", what="dmax 1")
    finally:
        gmetad.stop()
    assert "4100" == gmetad.last("node1", "scratch_read_bytes")


@pytest.mark.ganglia
def test_a_gmond_that_is_started_again_has_all_again(site, opened, gmond):
    """With nothing to tell that it was away: metadata comes again from time to time."""
    one = gmond()
    sink = opened(one.port, send_metadata_interval=60)
    rates = {"scratch": rates_of({N1: RATES, N2: OTHER})}
    swept(sink, site, rates)
    until(lambda: {NODE1, NODE2} <= set(one.hosts()), what="both nodes")
    one.stop()
    one.start()
    assert {} == one.hosts()
    swept(sink, site, rates, rates, rates)                 # 60 s later
    until(lambda: [4, 4] == [len(one.hosts().get(node, ())) for node in (NODE1, NODE2)],
          what="all metrics again")
    assert [] == sink.said


@pytest.mark.ganglia
def test_a_metric_that_is_taken_back_leaves_a_real_gmond(site, opened, gmond):
    """At its next clean-up; the node's other metrics stay."""
    one = gmond(cleans_up=True)
    sink = opened(one.port)
    swept(sink, site, {"scratch": rates_of({N1: RATES}), "home": rates_of({N1: RATES})})
    until(lambda: len(one.hosts().get(NODE1, ())) == 8, what="both file systems")
    swept(sink, site, {"scratch": rates_of({N1: RATES}),
                       "home": rates_of({N1: RATES}, missing={"oss7": "is silent"})})
    until(lambda: {f"scratch_{word}" for word in ganglia.HARVESTED} == set(one.hosts()[NODE1]),
          what="home's are gone")


@pytest.mark.ganglia
def test_gmonds_in_a_multicast_group(site, opened, gmond):
    """On the loopback; both of them hear it."""
    port = free_port()
    group = f"mcast_join = 239.2.11.71\n mcast_if = lo\n bind = 239.2.11.71\n port = {port}"
    try:
        both = gmond(group), gmond(group)
    except AssertionError as error:
        if "Error creating multicast server" not in str(error):
            raise
        pytest.skip("no multicast on the loopback here")
    sink = opened(to=f"239.2.11.71:{port}", interface="lo", ttl=0)
    swept(sink, site, {"scratch": rates_of({N1: RATES})})
    for one in both:
        until(lambda one=one: len(one.hosts().get(NODE1, ())) == 4, what="node1's metrics")
        assert "3700" == one.hosts()[NODE1]["scratch_write_bytes"].get("VAL")


@pytest.mark.ganglia
def test_a_real_gmond_gets_all_of_ten_thousand_nodes(gmond):
    """
    6 metrics of each within one sweep, with all the metadata, and the buffer that
    docs/how-to/sinks.md tells to give it.  On a machine where gmond does not get to run for a
    while, another try.
    """
    names = {f"10.77.{number // 250}.{number % 250}@tcp": f"node{number}"
             for number in range(10_000)}
    rates = rates_of({nid: [*RATES[:5], number] for number, nid in enumerate(names)})
    for _ in range(3):
        one, site = gmond(buffer=True), ClientSite(names, every_s=40)
        sink = ganglia.make(config_of(ganglia_send_to=f"127.0.0.1:{one.port}",
                                      ganglia_metrics=" ".join(ganglia.METRICS)), Said(),
                            lambda site=site: site.slot)
        try:
            swept(sink, site, {"scratch": rates})
        finally:
            sink.close()
        nodes = {name: {metric: found.get("VAL") for metric, found in metrics.items()}
                 for (name, address), metrics in one.hosts().items() if address != "127.0.0.1"}
        if 60_000 == sum(map(len, nodes.values())):
            break
    assert {f"node{number}": str(number) for number in range(10_000)} == {
        node: metrics.get("scratch_mds_ops") for node, metrics in nodes.items()}
    assert {6} == {len(metrics) for metrics in nodes.values()}
