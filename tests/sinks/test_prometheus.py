"""
The sink for Prometheus: its page, and a real Prometheus that scrapes it.
"""
from __future__ import annotations

import contextlib
import gzip
import http.client
import random
import re
import shutil
import socket
import subprocess
import threading
import time
import types
import urllib.error
import urllib.request

import pytest
from client_desk import Names, totals_of
from processes import until
from sink_desk import EVERY_S, Said, Site, config_of, free_port, get, query, swept

from iostats.base.errors import ConfigError
from iostats.harvest.clients.rates import ClientSweep
from iostats.harvest.sink import Number
from iostats.server import http_server
from iostats.sinks import prometheus
from iostats.sinks.prometheus.event_page import EVENT_FAMILIES
from iostats.sinks.prometheus.metrics_server import MetricsServer

OST0, OST1 = ("scratch", "OST0000"), ("scratch", "OST0001")
MDT0, HOME = ("scratch", "MDT0000"), ("home", "OST0000")
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")


def just_now():
    """A sweep's time: a page is of the last sweep, and old ones are not shown."""
    return int(time.time())


@pytest.fixture
def site():
    """A site with alice's job 4711."""
    one = Site(just_now())
    one.knows("4711", user="alice", account="physics", cluster="snake", started=one.began)
    return one


@pytest.fixture
def opened():
    """open(max_jobs=..., ...) -> a sink on a free port, closed at the end."""
    made = []

    def open_one(**options):
        config = config_of(**{"prometheus_listen": "127.0.0.1:0", **{
            name if "_" in name and name.startswith("server") else f"prometheus_{name}": value
            for name, value in options.items()}})
        made.append(prometheus.make(config, Said(), time.time))
        return made[-1]
    yield open_one
    for sink in made:
        sink.close()


def samples(sink, only="lustre_"):
    """{line without its labels that are empty: value} of the lines that begin with `only`."""
    found = {}
    for line in sink.page()[0].decode().splitlines():
        if line.startswith(only):
            name, _, value = line.rpartition(" ")
            name = re.sub(r'[{,](\w+)=""', lambda one: one[0][0] if one[0][0] == "{" else "", name)
            found[name.replace("{,", "{")] = float(value)
    return found


ALICE = 'account="physics",cluster="snake",component="{}",fs="scratch",jobid="4711"{},user="alice"'


# -- the page --------------------------------------------------------------------------------------

def test_the_names_are_those_that_dashboards_use(opened, site):
    """As the lustre_exporters have them; the file system, the user and the like are more labels."""
    sink = opened()
    swept(sink, site, {OST0: {"4711": {"read_bytes": (23, 2300), "write_bytes": (3, 31), "punch": 5,
                                       "write": (3, 999)}},
                       OST1: {"4711": {"read_bytes": (37, 3700)}},
                       MDT0: {"4711": {"open": 41, "rename": 2, "samedir_rename": 2}}})
    ost, mdt = ALICE.format("ost", ""), ALICE.format("mdt", "")
    operation = mdt.replace(',user', ',operation="{}",user')
    assert {
        f"lustre_job_read_bytes_total{{{ost}}}": 6000,
        f"lustre_job_read_samples_total{{{ost}}}": 60,
        f"lustre_job_write_bytes_total{{{ost}}}": 31,
        f"lustre_job_write_samples_total{{{ost}}}": 3,
        f"lustre_job_stats_total{{{ost}}}".replace(',user', ',operation="punch",user'): 5,
        f"lustre_job_stats_total{{{operation.format('open')}}}": 41,
        f"lustre_job_stats_total{{{operation.format('rename')}}}": 2,
        f"lustre_job_stats_total{{{operation.format('samedir_rename')}}}": 2,
    } == samples(sink)


def test_by_target_each_target_has_its_line(opened, site):
    """Under the name that Lustre gives it."""
    sink = opened(by_target="yes")
    swept(sink, site, {OST0: {"4711": {"read_bytes": (23, 2300)}},
                       OST1: {"4711": {"read_bytes": (37, 3700)}}, MDT0: {}})
    name = "lustre_job_read_bytes_total{%s}"
    assert {name % ALICE.format("ost", ',target="scratch-OST0000"'): 2300,
            name % ALICE.format("ost", ',target="scratch-OST0001"'): 3700,
            } == samples(sink, "lustre_job_read_bytes")


def test_arrays_have_the_id_that_job_stats_have(opened, site):
    """Other exporters' dashboards ask for that one; all ids of a job are one."""
    site.knows("12366", job="12345_10", raw_job="12366", user="bob")
    sink = opened()
    swept(sink, site, {MDT0: {"12366:n1": {"open": 23}, "12366:n2": {"open": 37}}})
    assert {'lustre_job_stats_total{component="mdt",fs="scratch",jobid="12366",operation="open",'
            'user="bob"}': 60} == samples(sink)


def jobs_of(sink, metric="lustre_job_stats_total"):
    """{jobid: value} of a metric."""
    found = {}
    for name, value in samples(sink, metric + "{").items():
        jobid = re.search(r'jobid="([^"]*)"', name)[1]
        found[jobid] = found.get(jobid, 0) + value
    return found


def test_the_busiest_jobs_are_shown_and_the_others_are_added_up(opened, site):
    """What was before the server's start is nobody's gain; what comes then is counted once."""
    sink = opened(max_jobs=2)

    def opens(**counts):
        return {MDT0: {name[1:]: {"open": count} for name, count in counts.items()}}
    swept(sink, site, opens(j1=1000, j2=2000, j3=3000, j4=4000))
    swept(sink, site, opens(j1=1001, j2=2002, j3=3300, j4=4400))
    shown = jobs_of(sink)
    assert {"3": 3300, "4": 4400, "(others)": 3} == shown
    # A job that comes onto the page: what it gained until now was gained by one of the others.
    for round in range(5):
        swept(sink, site, opens(j1=1001 + 50_000 * (round + 1), j3=3301 + round))
    shown = jobs_of(sink)
    # Job 1 came in the second of these, when it had 100,000 more, and job 3 went, with 4 to come.
    assert {"4": 4400, "1": 251_001, "(others)": 3 + 100_000 + 4} == shown


def test_no_counter_falls(opened):
    """Whoever comes and goes: a line that stays has at least what it had, and a job's its total."""
    rng, site, sink = random.Random(4711), Site(just_now()), opened(max_jobs=5)
    counts, before = {}, {}
    for _ in range(40):
        some = {}
        for job in map(str, rng.sample(range(10, 40), 8)):
            counts[job] = counts.get(job, 0) + rng.choice((1, 23, 3700, 410_000))
            some[job] = {"open": counts[job]}
        swept(sink, site, {MDT0: some})
        now = jobs_of(sink)
        assert {} == {job: count for job, count in now.items() if count < before.get(job, 0)}
        shown = {job: count for job, count in now.items() if job != "(others)"}
        assert {job: counts[job] for job in shown} == shown
        assert 5 == len(shown)
        before = now


@pytest.mark.parametrize("by_target, expected", [("no", [23 + 37, 23 + 37, 0, 29 - 23]),
                                                 ("yes", [23 + 37, 23, 0, 29 - 23])])
def test_a_job_that_targets_forget_during_a_walk_goes_and_does_not_fall(opened, site, by_target,
                                                                    expected):
    """It is settled while the targets are gone through: one has it yet, the next has it no more."""
    sink = opened(by_target=by_target)
    found = []
    swept(sink, site, {OST0: {"4711": {"punch": 23}}, OST1: {"4711": {"punch": 37}}, MDT0: {}})
    found.append(jobs_of(sink).get("4711", 0))
    site.targets[OST1].drop_ids(["4711"])
    swept(sink, site, {})
    found.append(jobs_of(sink).get("4711", 0))
    site.targets[OST0].drop_ids(["4711"])
    swept(sink, site, {})
    found.append(jobs_of(sink).get("4711", 0))
    swept(sink, site, {OST0: {"4711": {"punch": 29}}})
    found.append(jobs_of(sink).get("4711", 0))
    assert expected == found


def test_gains_of_the_lines_are_the_gains_of_the_jobs(opened):
    """Five jobs for two places, all known from the start: nothing is lost when places change."""
    rng, site, sink = random.Random(23), Site(just_now()), opened(max_jobs=2)
    counts = {str(job): 10 for job in range(1, 6)}
    swept(sink, site, {MDT0: {job: {"open": count} for job, count in counts.items()}})
    before, gained, seen = jobs_of(sink), 0, 0
    for _ in range(30):
        gains = {job: rng.choice((0, 0, 1, 1000, 90_000)) for job in counts}
        counts = {job: count + gains[job] for job, count in counts.items()}
        gained += sum(gains.values())
        swept(sink, site, {MDT0: {job: {"open": counts[job]} for job in counts if gains[job]}})
        now = jobs_of(sink)
        # As rate() sees it: a line that was not there before has no gain; (others) begins at 0.
        seen += sum(count - before.get(job, 0 if job == "(others)" else count)
                    for job, count in now.items())
        before = now
    assert gained == seen


def test_io_of_no_job_is_one_line(opened, site):
    """From the server's start on; and so is the share of it, by file system."""
    sink = opened()
    swept(sink, site,
          {OST0: {"cp.0": {"read_bytes": (23, 2300)}, "4711": {"punch": 100}}, HOME: {}},
          {OST0: {"cp.0": {"read_bytes": (29, 2900)}, "kworker": {"punch": 2},
                  "4711": {"punch": 137, "read_bytes": (3, 31)}}})
    assert {'lustre_job_read_bytes_total{component="ost",fs="scratch",jobid="(unattributed)"}': 600,
            "lustre_job_read_bytes_total{%s}" % ALICE.format("ost", ""): 31,
            } == samples(sink, "lustre_job_read_bytes")
    requests = samples(sink, "iostats_")
    labels = '{component="ost",fs="%s"}'
    assert [48, 8, 0] == [requests["iostats_requests_total" + labels % "scratch"],
                          requests["iostats_unattributed_requests_total" + labels % "scratch"],
                          requests["iostats_requests_total" + labels % "home"]]


def test_a_job_whose_amounts_may_be_too_low_says_so(opened, site):
    """1, and no line for the others."""
    site.knows("53", started=site.began + 61)
    sink = opened()
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    assert {} == samples(sink, "lustre_job_lower_bound")
    site.boot = "another boot"
    swept(sink, site, {MDT0: {"4711": {"open": 37}}})
    assert {"lustre_job_lower_bound{%s}" % ALICE.format("mdt", ""): 1
            } == samples(sink, "lustre_job_lower_bound")


def test_the_sinks_tell_of_themselves(opened, site):
    """Agents, the last sweep, and what other sinks count."""
    sink = opened()
    sink.clock = lambda: site.slot + 7

    class Other:
        def numbers(self):
            return [Number("iostats_influxdb_spooled_points", "gauge", "Points.", 23),
                    Number("iostats_influxdb_dropped_points", "counter", "Points.", 37)]
    sink.others = [Other()]
    swept(sink, site, {MDT0: {"4711": {"open": 23}}, OST0: {}})
    site.agents["oss7"] = site.agents["oss1"]._replace(slot=site.slot - 60)
    swept(sink, site, {MDT0: {}})
    del site.agents["oss7"]
    assert {'iostats_agent_up{node="mds1"}': 1, 'iostats_agent_up{node="oss1"}': 1,
            'iostats_agent_up{node="oss7"}': 0,
            'iostats_agent_sweep_timestamp_seconds{node="mds1"}': site.slot,
            'iostats_agent_sweep_timestamp_seconds{node="oss1"}': site.slot,
            'iostats_agent_sweep_timestamp_seconds{node="oss7"}': site.slot - 80,
            "iostats_sweep_timestamp_seconds": site.slot, "iostats_sweep_age_seconds": 7,
            "iostats_jobs": 1, "iostats_prometheus_shown_jobs": 1,
            "iostats_prometheus_left_out_sweeps_total": 0,
            "iostats_influxdb_spooled_points": 23, "iostats_influxdb_dropped_points_total": 37,
            'iostats_requests_total{component="mdt",fs="scratch"}': 0,
            'iostats_requests_total{component="ost",fs="scratch"}': 0,
            'iostats_unattributed_requests_total{component="mdt",fs="scratch"}': 0,
            'iostats_unattributed_requests_total{component="ost",fs="scratch"}': 0,
            } == {name: value for name, value in samples(sink, "iostats_").items()
                  if name.partition("{")[0].removesuffix("_total") not in EVENT_FAMILIES}


def test_where_all_agents_are_dead_none_is_up(opened, site):
    """No sweep comes that could say so: two sweeps of 20 s, and 5 s."""
    sink = opened()
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    for age_s, is_up in ((45, 1), (46, 0)):
        sink.clock = lambda age_s=age_s: site.slot + age_s
        assert {'iostats_agent_up{node="mds1"}': is_up} == samples(sink, "iostats_agent_up")


def test_a_silent_storage_server_makes_lower_bounds_of_what_it_may_add_to(opened, site):
    """Of the OSTs' amounts, and not of the MDT's; they are exact again when it is back."""
    sink = opened()
    site.knows("4711", started=site.began + 1)
    both = {MDT0: {"4711": {"open": 23}}, OST0: {"4711": {"read_bytes": (37, 4100)}}}
    swept(sink, site, {MDT0: {}, OST0: {}}, both)
    assert {} == samples(sink, "lustre_job_lower_bound")
    site.silent.add("oss1")
    swept(sink, site, {MDT0: {}})
    assert ["ost"] == [re.search('component="(.*?)"', name)[1]
                       for name in samples(sink, "lustre_job_lower_bound")]
    site.silent.clear()
    swept(sink, site, {MDT0: {}, OST0: {}})
    assert {} == samples(sink, "lustre_job_lower_bound")


def test_totals_without_a_recent_sweep_are_not_shown(opened, site):
    """After five minutes without a sweep: a rate of 0 would be made of them."""
    sink = opened()
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    sink.clock = lambda: site.slot + 300
    assert {"4711": 23} == jobs_of(sink)
    sink.clock = lambda: site.slot + 301
    assert {} == samples(sink)
    assert 301 == samples(sink, "iostats_sweep_age")["iostats_sweep_age_seconds"]


def test_a_server_without_a_sweep_yet_has_a_page(opened):
    """Of itself alone."""
    sink = opened()
    assert {} == samples(sink)
    assert 0 == samples(sink, "iostats_")["iostats_jobs"]


# -- HTTP ------------------------------------------------------------------------------------------

def test_the_page_is_served_compressed_when_asked(opened, site):
    """The same page both ways."""
    sink = opened()
    sink.clock = lambda: site.slot + 7
    swept(sink, site, {MDT0: {"4711": {"open": 23}}})
    url = "http://%s:%d/metrics" % sink.address
    plain = urllib.request.urlopen(url, timeout=60)
    packed = urllib.request.urlopen(urllib.request.Request(
        url, headers={"Accept-Encoding": "br, gzip;q=0.5"}), timeout=60)
    assert ("gzip", None) == (packed.headers["Content-Encoding"], plain.headers["Content-Encoding"])
    text = plain.read()
    assert text == gzip.decompress(packed.read())
    assert b'jobid="4711"' in text
    assert "text/plain; version=0.0.4; charset=utf-8" == plain.headers["Content-Type"]


def test_every_other_path_is_not_found(opened):
    """404; and a HEAD has no body."""
    sink = opened()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen("http://%s:%d/" % sink.address, timeout=60)
    with contextlib.closing(http.client.HTTPConnection(*sink.address, timeout=60)) as one:
        one.request("HEAD", "/metrics")
        answer = one.getresponse()
        assert (200, b"") == (answer.status, answer.read())


def answers(sink):
    try:
        return b"iostats_jobs" in get("http://%s:%d/metrics" % sink.address)
    except OSError:
        return False


def test_idle_connections_keep_no_others_out(opened):
    """More than may be open at once: those that have been silent for the longest give way."""
    sink, before = opened(), threading.active_count()
    silent = [socket.create_connection(sink.address)
              for _ in range(prometheus.MOST_CONNECTIONS + 23)]
    assert answers(sink)
    assert threading.active_count() == before
    for one in silent:
        one.close()


def test_slow_senders_keep_no_others_out(opened):
    """Only a whole request is a sign of life; sixteen of them had every place there was."""
    sink = opened(server_idle_timeout="0.5")
    slow = [socket.create_connection(sink.address, 20) for _ in range(64)]

    def a_byte_of_each():
        assert answers(sink)
        for one in list(slow):
            try:
                one.sendall(b"G")
            except OSError:
                one.close()
                slow.remove(one)
        return not slow
    until(a_byte_of_each, what="the end of all of them")


def test_clients_that_do_not_read_their_page_keep_no_others_out(monkeypatch):
    """
    Pages that nobody reads have 2 MiB here, of which the kernel takes a part: the oldest go, and
    who reads gets all of his.
    """
    monkeypatch.setattr(http_server, "MAX_UNREAD_PAGE_BYTES", 2 << 20)
    page = b"# " + b"x" * (1 << 20) + b"\niostats_jobs 23\n"
    server = MetricsServer(lambda: (page, page), config_of(), "127.0.0.1:0", "prometheus.listen")
    slow = []
    for _ in range(64):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(20)
        one.connect(server.address)
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        slow.append(one)
    assert page == get("http://%s:%d/metrics" % server.address)
    held = []
    server.loop.call_soon_threadsafe(
        lambda: held.append(server.http.connections.unread()))
    until(lambda: held, what="what is unread")
    assert held[0] <= 2 << 20
    for one in slow:
        one.close()
    server.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_anything_but_get_is_405(opened, method):
    """Nothing can be asked of it but the page: no `hello` either."""
    with contextlib.closing(http.client.HTTPConnection(*opened().address, timeout=60)) as one:
        one.request(method, "/metrics", b'{"jsonrpc":"2.0","method":"hello","id":1}')
        assert 405 == one.getresponse().status


def test_a_connection_may_be_kept_for_the_next_scrape(opened):
    sink = opened()
    with contextlib.closing(http.client.HTTPConnection(*sink.address, timeout=60)) as one:
        one.connect()
        first = one.sock
        for _ in range(3):
            one.request("GET", "/metrics")
            assert b"iostats_jobs" in one.getresponse().read()
            assert first is one.sock


@pytest.mark.parametrize("listen, said", [
    ("9464", "expected HOST:PORT such as 127.0.0.1:9464, got '9464'"),
    ("localhost:http", "expected HOST:PORT"), ("127.0.0.1:99999", "expected HOST:PORT"),
    ("no such host.invalid:9464", "cannot listen on no such host.invalid:9464"),
])
def test_an_invalid_address_is_one_line(listen, said):
    """Where, what was expected, what is there."""
    with pytest.raises(ConfigError) as caught:
        prometheus.make(config_of(prometheus_listen=listen), Said(), time.time)
    assert str(caught.value).startswith("the test: [prometheus] listen: ")
    assert said in str(caught.value)


def test_an_address_that_is_taken_is_one_line(opened):
    """Another exporter may be there."""
    address = "%s:%d" % opened().address
    with pytest.raises(ConfigError, match="Address already in use; is another exporter there"):
        prometheus.make(config_of(prometheus_listen=address), Said(), time.time)


def test_it_listens_with_ipv6_too(opened):
    """In brackets."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    sink = opened(listen="[::1]:0")
    assert b"iostats_jobs" in get("http://[%s]:%d/metrics" % sink.address)


# -- a real Prometheus -----------------------------------------------------------------------------

@pytest.mark.prometheus
def test_promtool_accepts_the_page(opened, site):
    """Names, types, help: `promtool check metrics`."""
    if not PROMTOOL:
        pytest.skip("needs Debian's prometheus")
    sink = opened(max_jobs=1, by_target="yes")
    swept(sink, site, {MDT0: {"4711": {"open": 23}, "7": {"open": 1}, "cp.0": {"open": 2}}})
    site.boot = "another boot"
    swept(sink, site, {MDT0: {"4711": {"open": 37}, "7": {"open": 2}, "cp.0": {"open": 4}},
                       OST0: {"4711": {"read_bytes": (23, 2300), "write_bytes": (3, 31)}}})
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=sink.page()[0],
                          capture_output=True)
    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)


@pytest.fixture
def scraping(tmp_path):
    """scraping(sink) -> the URL of a Prometheus that scrapes it each second."""
    processes = []

    def begin(sink):
        if not PROMETHEUS:
            pytest.skip("needs Debian's prometheus")
        config, port = tmp_path / "prometheus.yml", free_port()
        config.write_text("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: iostats\n"
                          "  static_configs: [{targets: ['%s:%d']}]\n" % sink.address)
        processes.append(subprocess.Popen(
            [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return f"http://127.0.0.1:{port}"
    yield begin
    for process in processes:
        process.kill()
        process.wait()


def asked(url, text):
    """The answer to a query of now, once there is one."""
    def answer():
        try:
            return query(url, text, time.time())
        except OSError:
            return None
    return until(answer, what=f"an answer to {text}")


@pytest.mark.prometheus
def test_a_real_prometheus_has_what_the_page_says(opened, site, scraping):
    """Also under names that need quoting."""
    strange = '4"7\\ \u2603,={}'
    sink = opened()
    swept(sink, site, {OST0: {"4711": {"read_bytes": (23, 9007199254740991)}},
                       MDT0: {strange: {"open": 37}, "4711": {"open": 41}}})
    url = scraping(sink)
    assert [9007199254740991] == list(asked(
        url, 'lustre_job_read_bytes_total{jobid="4711",user="alice",fs="scratch",component="ost"}'
    ).values())
    found = asked(url, 'sum by (jobid, operation) (lustre_job_stats_total)')
    assert {(("jobid", strange), ("operation", "open")): 37,
            (("jobid", "4711"), ("operation", "open")): 41} == found
    [up] = asked(url, "up").values()
    assert 1 == up
    # The next sweep is on the next page.
    swept(sink, site, {MDT0: {"4711": {"open": 43}}})
    until(lambda: [43] == list(query(url, 'lustre_job_stats_total{jobid="4711"}',
                                     time.time()).values()), what="the next page")


@pytest.mark.prometheus
def test_other_projects_queries_work(opened, site, scraping):
    """As lustre_exporter's users have them in recording rules and portals."""
    sink = opened(by_target="yes")
    swept(sink, site, {OST0: {"4711": {"read_bytes": (23, 2300)}},
                       MDT0: {"4711": {"open": 41, "mkdir": 3}}})
    url = scraping(sink)
    [read] = asked(url, 'sum by (user,fs,cluster,account) (lustre_job_read_bytes_total{})').values()
    assert 2300 == read
    by_fs = asked(url, 'sum(label_replace(lustre_job_read_bytes_total{component="ost"}, "name", '
                       '"$1", "target", "(.*)-OST.*")) by (name)')
    assert {(("name", "scratch"),): 2300} == by_fs
    by_operation = asked(url, 'sum(lustre_job_stats_total{component=~"mdt",jobid=~"4711"}) '
                              'by (operation, fs) !=0')
    assert {(("fs", "scratch"), ("operation", "open")): 41,
            (("fs", "scratch"), ("operation", "mkdir")): 3} == by_operation


# -- nodes -----------------------------------------------------------------------------------------

def node_swept(sink, site, *sweeps):
    """Sweeps in which clients had these totals: {fs: {NID: [six]}}."""
    for file_systems in sweeps:
        site.clients.sweep = ClientSweep((site.slot or site.began - EVERY_S) + EVERY_S, EVERY_S,
                                         True, {fs: totals_of(rows)
                                                for fs, rows in file_systems.items()})
        swept(sink, site, {MDT0: {}})


@pytest.fixture
def clients(site):
    """Clients whose names are known."""
    site.clients = types.SimpleNamespace(sweep=None, names=Names({
        "10.77.0.1@tcp": "node1", "10.77.0.2@tcp": "node2"}))
    return site.clients


def test_there_are_no_nodes_unless_they_are_asked_for(opened, site, clients):
    """max_nodes is 0."""
    sink = opened()
    node_swept(sink, site, {"scratch": {"10.77.0.1@tcp": [23] * 6}})
    assert b"node1" not in sink.page()[0] and b"iostats_nodes" not in sink.page()[0]


def test_nodes_are_on_the_page_as_long_as_there_are_sweeps_of_them(opened, site, clients):
    """A server whose agents read no exports any more has no line of them."""
    sink = opened(max_nodes=23)
    node_swept(sink, site, {"scratch": {"10.77.0.1@tcp": [2300] * 6, "10.77.0.2@tcp": [3] * 6}})
    assert {'lustre_client_read_bytes_total{fs="scratch",node="node1"}': 2300,
            'lustre_client_read_bytes_total{fs="scratch",node="node2"}': 3
            } == samples(sink, "lustre_client_read_bytes")
    assert {"iostats_nodes": 2} == samples(sink, "iostats_nodes")
    clients.sweep = None
    swept(sink, site, {MDT0: {}})
    assert {} == samples(sink, "lustre_client")


@pytest.mark.prometheus
def test_a_real_prometheus_has_what_nodes_did(opened, site, clients, scraping):
    """And the rate over all of them is right, with one node's lines and the others'."""
    if not PROMTOOL:
        pytest.skip("needs Debian's prometheus")
    sink = opened(max_nodes=1)
    node_swept(sink, site, {"scratch": {"10.77.0.1@tcp": [2300] * 6, "10.77.0.2@tcp": [3] * 6}})
    url = scraping(sink)
    assert {(("node", "(others)"),): 3, (("node", "node1"),): 2300} == asked(
        url, 'sum by (node) (lustre_client_write_bytes_total{fs="scratch"})')
    assert {(("component", "mdt"),): 2303, (("component", "ost"),): 2303} == asked(
        url, "sum by (component) (lustre_client_operations_total)")
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=sink.page()[0], capture_output=True)
    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
