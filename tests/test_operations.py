"""
What an operation is, is said once (lustre/metrics.py), and all that count them go by it.

A counter of no known name stands for one of a release to come.
"""
from __future__ import annotations

import json
import re
import time

import pytest
from sink_desk import Said, Site, config_of, swept
from test_job_list import SLURM, at_servers, in_short
from test_job_list import harvest as harvested
from test_job_totals import llite, totals
from test_load_queries import Harvest, T
from trees import report

from iostats.answers import load_queries
from iostats.base.cooperative import run_to_end
from iostats.load import amounts
from iostats.lustre import exports, metrics
from iostats.node import rates
from iostats.report import array_total
from iostats.report.screen import LOG
from iostats.sinks import prometheus
from iostats.sinks.influxdb.lines import Lines
from iostats.totals.delta import Delta
from iostats.totals.file_system import FileSystem

NS = 10**9


def by_nodes(counter):
    """23 calls of one node: in a summary, in a report's table, in an array's total, in rates."""
    delta = llite(read_bytes=41, **{counter: 23})
    whole = in_short(report("nid1", [delta]))
    yield whole.operations
    record = totals(report("nid1", [delta])).record()
    [file_system] = record["file_systems"]
    yield metrics.count_all_operations(file_system["operations"])
    yield sum(row["count"] for row in file_system["operations"].values())
    found = array_total.format_total("4711", [{**record, "batch": SLURM}], config_of(),
                                     LOG._replace(form="plain"), "")
    yield int(re.search(r"^scratch .* (\d+)$", found, re.M)[1])
    seen = json.dumps({"seq": "23", "file_systems": {"scratch": {
        "began": 1.0, "every_s": 1.0, "read_bytes": [0], "write_bytes": [0], "operations": [0]}}})
    found = rates.add_remaining_gains(seen, {"seq": "23", "ended": 1.0, "deltas": [
        {"source": "llite", "file_system": "scratch", "values": {counter: 23}}]})
    yield sum(found["scratch"]["operations"])


def by_servers(counter):
    """23 requests at an MDT, as the site's server shows them."""
    yield in_short(harvest=harvested(at_servers(**{counter: 23}))).server_operations
    yield from amounts.sum_amounts({counter: (23, None)}, "MDT0000")[2:]
    stats = f"snapshot_time 1795332839.0 secs.nsecs\n{counter} 23 samples [reqs]\n"
    yield exports.sum_amounts(exports.parse(stats.encode())).operations
    one = Harvest()
    one.add("MDT", "scratch", "MDT0000", "mds1")
    mdt = one.kernels["scratch", "MDT0000"][0]
    mdt.units[counter] = "usecs"
    mdt.rpc((T + 1) * NS, "4711", "write_bytes", 0)
    one.read(T + 20)
    for _ in range(23):
        mdt.rpc((T + 30) * NS, "4711", counter, 41)
    mdt.rpc((T + 30) * NS, "4711", "write_bytes", 0)
    one.read(T + 40)
    [row] = run_to_end(load_queries.LoadAnswers().load(one, load_queries.LoadParams(),
                                                       None))["rows"]
    yield round(20 * row["requests_per_s"]) - 1
    yield round(20 * row["metadata_per_s"])
    [row] = run_to_end(load_queries.LoadAnswers().query(
        one, load_queries.QueryParams("b"), None))["rows"]
    yield row["requests"] - 2
    yield row["metadata"]


def by_sinks(counter):
    """23 requests at an MDT, in the points of InfluxDB and on the page of Prometheus."""
    key, none = ("scratch", "MDT0000"), {"4711": {"write_bytes": (1, 4096)}}
    some = {key: {"4711": {counter: 23, "write_bytes": (2, 8192)}}}
    site = Site(1_795_176_000)
    lines = Lines("full", False, lambda: site.slot)
    for entries in ({key: none}, some):
        for _ in lines.walk(site.sweep(entries), site):
            pass
        found = list(lines.ready.lines())[-1]
    for name, more in (("operations", 0), ("requests", 2)):
        amount = re.search(rf"[ ,]{name}=(\d+)i", found)
        yield int(amount[1]) - more if amount else 0
    site = Site(int(time.time()))
    sink = prometheus.make(config_of(prometheus_listen="127.0.0.1:0"), Said(), time.time)
    try:
        swept(sink, site, {key: none})
        swept(sink, site, some)
        page = sink.page()[0].decode()
    finally:
        sink.close()
    yield int(float(re.search(r"^iostats_requests_total\{.*\} (\S+)$", page, re.M)[1])) - 1


@pytest.mark.parametrize("places", [by_nodes, by_servers, by_sinks])
@pytest.mark.parametrize("why, expected", [
    (None, 23), (metrics.AGAIN, 0), (metrics.INSIDE, 0), (metrics.UPKEEP, 0)],
    ids=["an operation", "counted again", "inside of a call", "a connection's"])
def test_a_counter_counts_everywhere_or_nowhere(monkeypatch, places, why, expected):
    """Its row in the table is all that there is to add."""
    counter = f"teleport_{len(why or '')}"          # names are remembered, so each has its own
    if why:
        monkeypatch.setitem(metrics.NOT_OPERATIONS, counter, why)
    found = list(places(counter))
    assert [expected] * len(found) == found
    assert found


def test_what_is_counted_again_is_shown_and_not_added(monkeypatch):
    """At the storage servers a rename has its kind beside it."""
    monkeypatch.setitem(metrics.NOT_OPERATIONS, "teleport_home", metrics.AGAIN)
    file_system = FileSystem()
    file_system.add(Delta("job_stats", "scratch", "MDT0000", "", {
        "teleport": 23, "teleport_home": 19, "teleport_us": 41}, False, ""), "mds1", {}, {})
    rows = file_system.at_servers("scratch", ", ".join)["operations"]
    assert ["teleport", "teleport_home"] == list(rows)
    assert 23 == metrics.count_all_operations(rows)
