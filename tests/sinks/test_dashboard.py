"""
The Grafana dashboard: each of its queries is asked of a real VictoriaMetrics and a real Prometheus
that have what our sinks wrote, and has to give the numbers that were worked out by hand.

    4711, alice, physics, on snake     writes 2300 bytes in 23 requests a sweep to OST0000 of
                                       scratch, and opens 10 files
    53, bob, nobody's account          reads 4100 bytes in 41 requests a sweep from OST0001 of
                                       scratch, 3700 in 37 from home's OST0000
    cp.0, which is no job              10 getattrs a sweep on scratch's MDT

By clients, and as if they were others than these jobs' (so that no number can be taken for one):

    node1, which has two NIDs          writes 1300 bytes a sweep to scratch with one, 60 with the
                                       other, and has 20 operations of OSTs, 30 of MDTs
    node2                              reads 2900 bytes a sweep of scratch, 1900 of home
    the storage servers                a million of everything

A sweep is 20 s; there are 7 of them, so what was gained is 6 times that, in 120 s.
"""
from __future__ import annotations

import json
import subprocess
import time
import types
import urllib.request

import pytest
from client_desk import Names, totals_of
from event_desk import an_event
from sink_desk import (
    EVERY_S,
    Said,
    Site,
    Victoria,
    config_of,
    free_port,
    get,
    now_slot,
    query,
    sent,
    swept,
)
from test_prometheus import PROMETHEUS, PROMTOOL, asked, opened, scraping  # noqa: F401
from trees import ROOT

from iostats.harvest.clients.rates import ClientSweep
from iostats.sinks import influxdb
from iostats.store.event_store import Change

DASHBOARD = json.loads((ROOT / "dashboards" / "lustre-jobs.json").read_text(encoding="utf-8"))
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"]}
QUERIES = [(title, one["refId"], one["expr"]) for title, panel in PANELS.items()
           for one in panel.get("targets", ())]
OF_EVENTS = ["Events by kind", "Connections of clients", "Targets that are not up",
             "Storage servers that are not healthy"]
# The sink, and the database: "scraped" is a real Prometheus.
WAYS = ["influxdb", "prometheus", pytest.param("scraped", marks=pytest.mark.prometheus)]
OST0, OST1 = ("scratch", "OST0000"), ("scratch", "OST0001")
MDT0, HOME = ("scratch", "MDT0000"), ("home", "OST0000")


def entries(number):
    """What has changed in a sweep, counted from 1."""
    return {OST0: {"4711": {"write_bytes": (23 * number, 2300 * number)}},
            OST1: {"53": {"read_bytes": (41 * number, 4100 * number)}},
            HOME: {"53": {"read_bytes": (37 * number, 3700 * number)}},
            MDT0: {"4711": {"open": 10 * number, "rename": 4, "samedir_rename": 4},
                   "cp.0": {"getattr": 10 * number}}}


class SiteWithClients(Site):
    """The same, with what clients did by each sweep."""

    def __init__(self, began):
        super().__init__(began)
        self.clients = types.SimpleNamespace(sweep=None, names=Names({
            "10.77.0.1@tcp": "node1", "10.9.0.1@o2ib": "node1", "10.77.0.2@tcp": "node2"}))

    def sweep(self, entries, slot=None):
        found = super().sweep(entries, slot)
        number = 1 + (self.slot - self.began) // EVERY_S
        self.clients.sweep = ClientSweep(self.slot, EVERY_S, True, {
            fs: totals_of({nid: [number * amount for amount in amounts]
                           for nid, amounts in rows.items()})
            for fs, rows in {"scratch": {
                "10.77.0.1@tcp": [0, 1300, 0, 13, 15, 30], "10.9.0.1@o2ib": [0, 60, 0, 6, 5, 0],
                "10.77.0.2@tcp": [2900, 0, 29, 0, 0, 0], "0@lo": [10**6] * 6},
                "home": {"10.77.0.2@tcp": [1900, 0, 19, 0, 0, 0]}}.items()})
        return found


def a_site(began=None):
    """Whose jobs these are."""
    site = SiteWithClients(began or now_slot())
    site.knows("4711", user="alice", account="physics", cluster="snake", started=site.began)
    site.knows("53", user="bob", started=site.began)
    return site


class Scraped:
    """A real Prometheus that has pages of ours as if it had scraped them; data in `directory`."""

    def __init__(self, directory, pages):
        """`pages`: {time: text}."""
        if not PROMETHEUS or not PROMTOOL:
            pytest.skip("needs Debian's prometheus")
        lines = [f"{line} {at}" for at, text in pages.items() for line in text.splitlines()
                 if not line.startswith("#")]
        (directory / "pages").write_text("\n".join([*lines, "# EOF\n"]))
        (directory / "prometheus.yml").touch()
        subprocess.run([PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", directory / "pages",
                        directory / "data"], check=True, stdout=subprocess.DEVNULL)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [PROMETHEUS, f"--config.file={directory}/prometheus.yml",
             f"--storage.tsdb.path={directory}/data", "--storage.tsdb.retention.time=100y",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        asked(self.url, "vector(23)")

    def query(self, text, at):
        """As of Victoria."""
        return query(self.url, text, at)

    def stop(self):
        """End it."""
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="module", params=WAYS)
def filled(request, tmp_path_factory):
    """(WAY, database, the time of the last sweep): written to, or as if it had scraped."""
    way, site, directory = request.param, a_site(), tmp_path_factory.mktemp("spool")
    if way == "influxdb":
        database = Victoria(tmp_path_factory.mktemp("victoria"))
        sink = influxdb.make(config_of(influxdb_url=database.url, influxdb_by_target="yes",
                                       influxdb_by_node="yes", influxdb_spool_dir=directory),
                             Said(), time.time)
        swept(sink, site, *map(entries, range(1, 8)))
        sent(sink)
    else:
        from iostats.sinks import prometheus
        sink = prometheus.make(config_of(prometheus_listen="127.0.0.1:0", prometheus_max_nodes=23,
                                         prometheus_by_target="yes"), Said(), time.time)
        sink.clock, pages = lambda: site.slot + 7, {}
        for number in range(1, 8):
            swept(sink, site, entries(number))
            pages[site.slot] = sink.page()[0].decode()  # type: ignore[attr-defined]  # Prometheus
        if way == "scraped":
            database = Scraped(directory, pages)
        else:
            database = Victoria(tmp_path_factory.mktemp("victoria"))
            for at, text in pages.items():
                with urllib.request.urlopen(urllib.request.Request(
                        f"{database.url}/api/v1/import/prometheus?timestamp={at * 1000}"
                        f"&extra_label=job=scraped", data=text.encode(), method="POST")) as answer:
                    assert 204 == answer.status
    if way != "scraped":
        get(f"{database.url}/internal/force_flush")
    sink.close()
    yield way, database, site.slot
    database.stop()


def as_grafana(text, job=".*", fs=".*", cluster=".*", node=".*", user=".*", top="10",
               window=f"{6 * EVERY_S}s"):
    """The query with its variables in place."""
    for name, value in (("__rate_interval", f"{2 * EVERY_S}s"), ("__range", window),
                        ("cluster", cluster), ("fs", fs), ("job", job), ("node", node),
                        ("user", user), ("top", top)):
        text = text.replace(f"${{{name}}}", value).replace(f"${name}", value)
    assert "$" not in text.replace('"$1"', "")
    return text


def answer(filled, title, ref="A", **chosen):
    """{values of the labels, in order of their names: value, to 3 places} of a panel's query."""
    _, victoria, at = filled
    [expr] = [expr for one, letter, expr in QUERIES if (one, letter) == (title, ref)]
    return {tuple(value for name, value in labels): round(value, 3)
            for labels, value in victoria.query(as_grafana(expr, **chosen), at).items()}


@pytest.mark.victoria
@pytest.mark.parametrize("title, ref, expected", [
    ("Written", "A", {(): 6 * 2300}),
    ("Read", "A", {(): 6 * (4100 + 3700)}),
    ("Write rate by file system", "A", {("scratch",): 115}),
    ("Read rate by file system", "A", {("scratch",): 205, ("home",): 185}),
    ("Write rate by job", "A", {("4711", "alice"): 115}),
    ("Read rate by job", "A", {("53", "bob"): 205 + 185}),
    ("Operations by job", "A", {("4711", "alice"): 0.5, ("(unattributed)",): 0.5}),
    ("Write rate by user", "A", {("alice",): 115}),
    ("Rate by target", "A", {("scratch-OST0000",): 115}),
    ("Rate by target", "B", {("scratch-OST0001",): 205, ("home-OST0000",): 185}),
    ("Top jobs", "A", {("physics", "4711", "alice"): 6 * 2300}),
    ("Top jobs", "B", {("53", "bob"): 6 * (4100 + 3700)}),
    ("Top jobs", "C", {("physics", "4711", "alice"): 60, ("(unattributed)",): 60}),
    ("Write rate by node", "A", {("node1",): 68}),
    ("Read rate by node", "A", {("node2",): 145 + 95}),
    ("Operations by node", "A", {("node1",): 2.5}),
    ("Top nodes", "A", {("scratch", "node1"): 6 * 1360}),
    ("Top nodes", "B", {("scratch", "node2"): 6 * 2900, ("home", "node2"): 6 * 1900}),
    ("Top nodes", "C", {("scratch", "node1"): 6 * 50}),
    # In 20 s there are 23 + 41 + 10 + 10 requests to scratch, 10 of them nobody's.
    ("Share of requests without a job", "A", {("scratch",): round(10 / 84, 3), ("home",): 0}),
])
def test_a_query_gives_what_was_worked_out_by_hand(filled, title, ref, expected):
    """From what InfluxDB's sink writes as from what Prometheus' sink shows."""
    found = {labels: value for labels, value in answer(filled, title, ref).items() if value
             or title.startswith("Share")}
    assert expected == found


@pytest.mark.victoria
def test_the_variables_choose(filled):
    """Job, file system and cluster; also several of them, as Grafana writes them: (a|b)."""
    assert {("53", "bob"): 185} == answer(filled, "Read rate by job", fs="home")
    assert {("53", "bob"): 390} == answer(filled, "Read rate by job", fs="(home|scratch)")
    assert {} == answer(filled, "Write rate by job", job="53")
    assert {("4711", "alice"): 115} == answer(filled, "Write rate by job", job="47.*",
                                              cluster="snake")
    assert {} == answer(filled, "Read rate by job", cluster="snake")
    assert {("node2",): 95} == answer(filled, "Read rate by node", fs="home")
    assert {("node1",): 68} == answer(filled, "Write rate by node", node="node1|other")
    assert {("node2",): 0} == answer(filled, "Write rate by node", node="node2")
    assert {("53", "bob"): 390} == answer(filled, "Read rate by job", user="bo.")
    assert {} == answer(filled, "Write rate by user", user="bob")
    assert {("scratch",): 205} == answer(filled, "Read rate by file system", fs="scratch")
    # alice has opened and renamed as often as others have asked for attributes.
    assert 2 == len(answer(filled, "Operations by job"))
    assert 1 == len(answer(filled, "Operations by job", top="1"))


@pytest.mark.victoria
def test_the_age_of_the_last_sweep_is_shown_with_prometheus(filled):
    """The age of the last sweep; the database of InfluxDB's sink does not have it."""
    way, *_ = filled
    expected = {} if way == "influxdb" else {(): 7}
    assert expected == answer(filled, "Seconds since the last sweep")


@pytest.mark.victoria
def test_silent_agents_have_their_names(tmp_path):
    """oss7 has not sent its part of the last sweep."""
    from iostats.sinks import prometheus
    victoria, site = Victoria(tmp_path / "data"), a_site()
    sink = prometheus.make(config_of(prometheus_listen="127.0.0.1:0"), Said(), time.time)
    try:
        sink.clock = lambda: site.slot + 7
        swept(sink, site, entries(1), {MDT0: {}})
        site.agents["oss7"] = site.agents["oss1"]._replace(slot=site.slot)
        swept(sink, site, {MDT0: {}})
        with urllib.request.urlopen(urllib.request.Request(
                f"{victoria.url}/api/v1/import/prometheus?timestamp={site.slot * 1000}",
                data=sink.page()[0], method="POST")) as answered:
            assert 204 == answered.status
        get(f"{victoria.url}/internal/force_flush")
        assert {("oss7",): 0} == answer(("prometheus", victoria, site.slot),
                                        "Storage servers whose agent is silent")
    finally:
        sink.close()
        victoria.stop()


@pytest.mark.victoria
def test_events_and_how_storage_servers_stand(tmp_path):
    """
    23 evictions and an LBUG between two scrapes; a target that is down, one in recovery; a storage
    server that is not healthy.  Both annotations see the evictions.
    """
    from iostats.sinks import prometheus
    victoria, site = Victoria(tmp_path / "data"), a_site()
    at = site.began + 600
    sink = prometheus.make(config_of(prometheus_listen="127.0.0.1:0"), Said(), time.time)
    other = influxdb.make(config_of(influxdb_url=victoria.url,
                                    influxdb_spool_dir=tmp_path / "spool"), Said(), time.time)
    evicted = an_event(kind="evicted", severity=2, cause="silent", file_system="scratch",
                       target="scratch-OST0001", count=20, skipped=3, time=float(at))
    try:
        sink.clock = lambda: at
        swept(sink, site, entries(1))
        sink.event_status("oss1", at, 10.0, {"health": "healthy", "targets": {
            "scratch-OST0000": {"state": "up", "clients": 37},
            "scratch-OST0001": {"state": "recovering", "clients": 4}}})
        sink.event_status("oss2", at, 10.0, {"health": "NOT HEALTHY", "targets": {
            "home-OST0000": {"state": "down"}}})
        for moment in (at - 60, at):
            with urllib.request.urlopen(urllib.request.Request(
                    f"{victoria.url}/api/v1/import/prometheus?timestamp={moment * 1000}",
                    data=sink.page()[0], method="POST")) as answered:
                assert 204 == answered.status
            sink.events([Change(evicted, 23), Change(an_event(kind="lbug"), 1)], {})
        other.store_events([evicted], {})
        sent(other)
        get(f"{victoria.url}/internal/force_flush")
        found = {title: answer(("prometheus", victoria, at), title) for title in OF_EVENTS}
        annotations = [victoria.query(as_grafana(one["expr"]), at)
                       for one in DASHBOARD["annotations"]["list"]]
    finally:
        sink.close()
        other.close()
        victoria.stop()
    assert {
        "Events by kind": {("evicted",): 23, ("lbug",): 1},
        "Connections of clients": {("scratch",): 41, ("home",): 0},
        "Targets that are not up": {("oss1", "recovering", "scratch-OST0001"): 1,
                                    ("oss2", "down", "home-OST0000"): 1},
        "Storage servers that are not healthy": {("oss2",): 0}} == found
    assert [{(("fs", "scratch"), ("kind", "evicted")): 23, (("kind", "lbug"),): 1},
            {(("cause", "silent"), ("fs", "scratch"), ("kind", "evicted"), ("node", "oss1"),
              ("target", "scratch-OST0001")): 20}] == annotations


@pytest.mark.victoria
@pytest.mark.parametrize("boots, expected", [(["a", "a", "a"], {(): 0}),
                                             (["a", "b", "b"], {(): 1})],
                         ids=["all is well", "started again"])
def test_jobs_whose_amounts_may_be_too_low_are_counted(tmp_path, boots, expected):
    """Once each, on however many targets; of those that are chosen."""
    victoria, site = Victoria(tmp_path / "data"), a_site()
    sink = influxdb.make(config_of(influxdb_url=victoria.url, influxdb_by_target="yes",
                                   influxdb_spool_dir=tmp_path / "spool"), Said(), time.time)
    for number, boot in enumerate(boots, 1):
        site.boot = boot
        swept(sink, site, {OST0: {"4711": {"punch": number}}, OST1: {"4711": {"punch": number}}})
    sent(sink)
    get(f"{victoria.url}/internal/force_flush")
    try:
        filled, title = ("influxdb", victoria, site.slot), "Jobs whose amounts may be too low"
        assert expected == answer(filled, title) == answer(filled, title, job="47.*")
        assert {(): 0} == answer(filled, title, job="53") == answer(filled, title, user="bob")
    finally:
        sink.close()
        victoria.stop()


@pytest.mark.victoria
@pytest.mark.parametrize("name, expected", [("cluster", ["snake"]), ("fs", ["home", "scratch"])])
def test_the_variables_list_what_there_is(filled, name, expected):
    """label_values(), which is a question of the database's own."""
    _, victoria, at = filled
    [variable] = [one for one in DASHBOARD["templating"]["list"] if one["name"] == name]
    head, _, rest = variable["definition"].partition("(")
    match, _, label = rest.rstrip(")").rpartition(", ")
    assert ("label_values", name) == (head, label)
    found = json.loads(get(f"{victoria.url}/api/v1/label/{label}/values",
                           **{"match[]": match, "start": at - 600, "end": at}))
    assert expected == sorted(filter(None, found["data"]))


@pytest.mark.prometheus
def test_a_real_prometheus_takes_every_query(opened, scraping):  # noqa: F811
    """Whatever it has: its language is a little less than VictoriaMetrics'."""
    site, sink = a_site(int(time.time())), opened(by_target="yes")
    swept(sink, site, entries(1), entries(2))
    url = scraping(sink)
    asked(url, "lustre_job_write_bytes_total")
    for _, _, expr in QUERIES:
        query(url, as_grafana(expr), time.time())


def test_bytes_and_their_rates_are_in_the_same_units():
    """Grafana's bytes and binBps are of 1024; its Bps would be of 1000."""
    assert {"Written": "bytes", "Read": "bytes", "Write rate by job": "binBps",
            "Read rate by job": "binBps", "Rate by target": "binBps",
            "Write rate by user": "binBps", "Write rate by file system": "binBps",
            "Read rate by file system": "binBps", "Write rate by node": "binBps",
            "Top jobs": "bytes", "Read rate by node": "binBps", "Top nodes": "bytes"} == {
        title: unit for title, panel in PANELS.items() if panel["type"] != "row"
        for unit in [panel["fieldConfig"]["defaults"]["unit"]] if unit[-1] in "sp" and unit not in (
            "s", "ops")}


def test_every_query_is_tried():
    """A panel without an expectation above is a panel that nobody has looked at."""
    marks = [mark for mark in test_a_query_gives_what_was_worked_out_by_hand.pytestmark
             if mark.name == "parametrize"]
    tried = {(title, ref) for title, ref, _ in marks[0].args[1]}
    assert {(title, ref) for title, ref, _ in QUERIES} - tried == {
        ("Seconds since the last sweep", "A"), ("Jobs whose amounts may be too low", "A"),
        ("Storage servers whose agent is silent", "A"), *((title, "A") for title in OF_EVENTS)}
