"""
A slow node in findings, tables, pages, comparisons and causes: 8 nodes that write 100 GiB each in
an hour, one of which takes 1,800 s for it, and the others 180 s.
"""

import json

import pytest
from test_findings import GIB, osc, record
from test_job_totals import llite

from iostats.base.config import Config
from iostats.report import job_tables, json_and_csv
from iostats.report.diff.numbers import read_numbers
from iostats.report.findings.evaluate import find_problems
from iostats.report.html.page import make_page
from iostats.report.why.causes import find_causes

HOUR = 3600.0
CALLS = 102_400                     # of 1 MiB


def wrote(seconds):
    return [llite(write_bytes=100 * GIB, write_calls=CALLS, write=CALLS,
                  write_us=round(seconds * 1e6)), osc(write_bytes=100 * GIB, write_rpcs=25_600)]


def slow_job(seconds=1800.0, **fields):
    return record(*[wrote(180.0)] * 2, wrote(seconds), *[wrote(180.0)] * 5, elapsed_s=HOUR,
                  **fields)


def test_one_node_of_eight_that_is_ten_times_slower_is_found_first():
    """It lost 1,620 s of 3,600 s."""
    first, *_ = find_problems(slow_job(), Config())
    assert ("slow_nodes", "nid00003 took 10.0 times as long as the other nodes to write as much, "
            "45 % of the run time more") == (first.id, first.number)
    assert {"seconds": 1800.0, "usual_seconds": 180.0, "nodes": 1} == first.evidence
    assert 0.45 == first.cost


@pytest.mark.parametrize("seconds, expected", [(720.0, ["slow_nodes"]), (719.0, [])])
def test_from_15_percent_of_the_run_time_on(seconds, expected):
    """540 s of 3,600 s."""
    assert expected == [one.id for one in find_problems(slow_job(seconds), Config())
                        if one.id == "slow_nodes"]


@pytest.mark.parametrize("seconds, more, expected", [(2520.0, 0, ["slow_nodes"]), (2520.0, 31, []),
                                                     (2249.0, 0, [])])
def test_an_outlier_of_nodes_that_all_wait_for_long(seconds, more, expected):
    """
    1.4 times 1,800 s, as long as it wrote no more than 1.25 times as much: one slow rank of many
    would take several times as long.  Less than a quarter more is no outlier.
    """
    slow = [llite(write_bytes=(100 + more) * GIB, write_calls=CALLS, write=CALLS,
                  write_us=round(seconds * 1e6)), osc(write_bytes=(100 + more) * GIB,
                                                      write_rpcs=25_600)]
    found = find_problems(record(*[wrote(1800.0)] * 2, slow, *[wrote(1800.0)] * 5, elapsed_s=HOUR),
                          Config())
    texts = {one.id: one.number for one in found}
    assert expected == [name for name in texts if name == "slow_nodes"]
    if expected:
        assert texts["slow_nodes"] == (
            "nid00003 took 1.4 times as long as the other nodes to write as much, 20 % of the run "
            "time more")


def test_a_node_with_other_jobs_is_not_called_slow():
    """Their calls are in its time."""
    found = slow_job()
    shared = found.replaced(coverage=found.coverage.replaced(shared={"nid00003": 1}))
    assert "slow_nodes" not in [one.id for one in find_problems(shared, Config())]


def test_it_is_a_cause_of_its_own():
    first, *_ = find_causes(slow_job(), None, [], Config())
    assert ("slow_node", "Slow node on scratch: nid00003 took 10.0 times as long as the other "
            "nodes to write as much, 45 % of the run time more") == (first.kind, first.text)


def test_the_long_report_the_page_and_json_have_it():
    found = slow_job()
    printed = " ".join(job_tables.format_report(found, Config(), long=True).split())
    assert ("nid00003 took 10.0 times as long as the other nodes to write as much: 1800 s, there "
            "180 s") in printed
    assert "time in write 180 s 180 s 1800 s nid00003" in printed
    [fs] = json.loads(json_and_csv.format_json(found))["file_systems"]
    assert [{"call": "write", "nodes": "nid00003", "node_count": 1, "slowest": "nid00003",
             "seconds": 1800.0, "usual_seconds": 180.0}] == fs["slow_nodes"]
    shown = "".join(make_page(found, Config(), find_problems(found, Config())))
    assert "took 10.0 times as long as the other nodes" in shown
    assert "Time in write" in shown


def test_a_comparison_has_the_share_of_the_busiest_node():
    """180 of 1,440 s, and 1,800 of 3,060 s."""
    metric = "scratch", "time in write, busiest node"
    shares = [read_numbers(found, "job").numbers[metric] for found in (slow_job(180.0), slow_job())]
    assert [0.125, 1800 / 3060] == [one.low for one in shares]
