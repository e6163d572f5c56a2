"""Charts of a record: which numbers, in which order, and what is not known."""
from __future__ import annotations

import page_records
import pytest
from page_records import ENDED, MIB, delta, event, labelled
from test_html_page import Document
from trees import report as of_node

from iostats.load.time_lines import FileSystemHistory, JobHistory, Line
from iostats.report import node_sets
from iostats.report.charts import svg
from iostats.report.charts.as_table import make_rows
from iostats.report.charts.chart import Mark, TimeAxis
from iostats.report.html.page import make_page
from iostats.report.job_charts import (
    CHARTS,
    make_load_chart,
    make_mdt_chart,
    make_node_chart,
    make_ost_chart,
    make_size_chart,
    make_time_chart,
)
from iostats.totals.job_totals import Totals
from iostats.totals.record import (
    ClientsIO,
    NodesFileSystem,
    NodesRecord,
    ServersFileSystem,
    ServersRecord,
    TimedCount,
)
from iostats.wire.messages.report import ReportedSeries

BEGAN = ENDED - 100.0


def record(*nodes, missing=None, series=None, **members):
    """Of nodes nid9, nid10, ... with these deltas, for 100 s; `missing`: {node: why}."""
    totals = Totals("4711", len(nodes), fold=node_sets.fold_nodes)
    for number, deltas in enumerate(nodes, 9):
        totals.add(of_node(f"nid{number}", deltas, ended=ENDED, elapsed_s=100.0,
                           series={"scratch": series} if series else None))
    found, _ = labelled(totals, **members)
    return found.replaced(coverage={**found.coverage, "missing": missing or {}})


def panels(chart):
    """{title of a panel: [values of its curves]}."""
    return {panel.title: [curve.values for curve in panel.curves] for panel in chart.panels}


def of_servers(**fields):
    return ServersRecord(final=True, ids=["4711"], began=BEGAN, ended=ENDED, notes=[],
                         lower_bound=False, file_systems=[ServersFileSystem(**{**dict(
                             name="scratch", label="scratch", read_bytes=23, write_bytes=37,
                             read_rpcs=1, write_rpcs=2, read_seconds=None, write_seconds=None,
                             operations={"open": TimedCount(count=41, seconds=2.3)}, targets={
                                 "OST000a": {"read_bytes": 23}, "MDT0000": {"open": 41},
                                 "OST0002": {"write_bytes": 37}}, lower_bound=True, notes=[]),
                             **fields})])


def test_nodes_are_in_their_order_and_missing_ones_are_gaps():
    """nid9 before nid10; operations are opens and stats; what is 0 is left out of a record."""
    found = record([delta("llite", "scratch", read_bytes=23, open=2, getattr=1)],
                   [delta("llite", "scratch", read_bytes=37)], missing={"nid2": "no report"})
    chart = make_node_chart(found, found.file_systems[0])
    assert ["nid2", "nid9", "nid10"] == chart.axis.names
    assert {"Read": [[None, 23, 37]], "Operations": [[None, 3, 0]]} == panels(chart)
    assert [30, 1.5] == [panel.even for panel in chart.panels]
    assert "No data for 1 of them." in chart.about


def test_targets_are_in_their_order_and_too_low_where_counters_are():
    deltas = [delta("osc", "scratch", f"OST{ost:04x}", ost == 16, "was cleared" * (ost == 16),
                    read_bytes=ost) for ost in (16, 3, 9)]
    found = record([delta("llite", "scratch", open=1), *deltas])
    chart = make_ost_chart(found, found.file_systems[0])
    assert ["OST0003", "OST0009", "OST0010"] == chart.axis.names
    assert {"Read": [[3, 9, 16]]} == panels(chart) and chart.panels[0].mark == ">= "


def test_without_counters_of_nodes_the_targets_are_the_storage_servers():
    found = record([delta("llite", "scratch", open=1)], harvest=of_servers())
    chart = make_ost_chart(found, found.file_systems[0])
    assert ["OST0002", "OST000a"] == chart.axis.names
    assert {"Read": [[0, 23]], "Written": [[37, 0]]} == panels(chart)
    assert ">= " == chart.panels[0].mark


def test_sizes_are_shares_in_the_order_of_sizes():
    """3 of 4 requests with up to 1024 pages of 4 KiB."""
    found = record([delta("llite", "scratch", open=1), delta(
        "rpc_stats", "scratch", "", write_rpcs_pages_1024=3, write_rpcs_pages_2=1)])
    chart = make_size_chart(found, found.file_systems[0])
    assert (["8 KiB", "4 MiB"], {"Write requests (4)": [[0.25, 0.75]]}) == (
        chart.axis.names, panels(chart))
    assert [["8 KiB", "25 %"], ["4 MiB", "75 %"]] == make_rows(chart)[1]


def test_a_share_of_sizes_that_are_too_low_may_be_too_high():
    """The requests that one node lost may have been of either size."""
    found = record([delta("llite", "scratch", open=1), delta(
        "rpc_stats", "scratch", "", True, write_rpcs_pages_1024=3, write_rpcs_pages_2=1)])
    chart = make_size_chart(found, found.file_systems[0])
    assert [["8 KiB", "~ 25 %"], ["4 MiB", "~ 75 %"]] == make_rows(chart)[1]
    assert "most: 4 MiB, ~ 75 %" in svg.draw_inline(chart, "23")


def test_rates_are_amounts_by_the_width_of_their_bins():
    """From 10 s after the start, in bins of 5 s; two events, one for information."""
    found = record([delta("llite", "scratch", open=1)], series=ReportedSeries(
        BEGAN + 10, 5.0, [10 * MIB, 0], [0, 0], [15, 5]), events=[
            event(time=BEGAN + 12), event(time=BEGAN + 13, severity=0), event(time=BEGAN + 99)])
    chart = make_time_chart(found, found.file_systems[0])
    assert TimeAxis(10.0, 5.0, 2, BEGAN, 0.0, ENDED - BEGAN) == chart.axis
    assert {"Read": [[2 * MIB, 0.0]], "Operations": [[3.0, 1.0]]} == panels(chart)
    assert [Mark(12.0, "evicted scratch-OST0003")] == chart.marks
    assert "1 event is marked." in chart.about


def history(job, every=None):
    return JobHistory(BEGAN, ENDED, [], {}, [FileSystemHistory("scratch", job, every)], [])


def test_rates_of_intervals_that_are_known_in_part_are_lower_bounds():
    """One of two storage servers was silent for an interval; a gap alone makes no bound."""
    found = record([delta("llite", "scratch", open=1)])
    fs = found.file_systems[0]

    def line(known):
        return Line(BEGAN, 50.0, {"read_bytes": [2300, 4100 if known[1] else None]}, known)
    for known, sign in (([0.5, 1.0], ">= "), ([1.0, 0.0], ""), ([1.0, 1.0], "")):
        charts = make_time_chart(found, fs, history(line(known))), make_load_chart(
            found, "scratch", "scratch", history(line(known), line(known)))
        assert [[sign], [sign]] == [[panel.mark for panel in chart.panels] for chart in charts]
    text = make_page(found, page_records.small()[1], [], [],
                     history(line([0.5, 1.0]), line([0.5, 1.0])))
    assert 2 <= text.count("&gt;= 46 bytes/s") and text.count("&gt;= 82 bytes/s") >= 2


def test_where_no_node_ran_watch_the_rates_are_the_storage_servers():
    found = record([delta("llite", "scratch", open=1)])
    chart = make_time_chart(found, found.file_systems[0], history(
        Line(BEGAN, 10.0, {"read_bytes": [230, None, 410]})))
    assert {"Read": [[23.0, None, 41.0]]} == panels(chart)


@pytest.mark.parametrize("job, expected", [
    (Line(BEGAN, 10.0, {"read_bytes": [230, 370]}), [0.0, 23.0, 37.0]),
    (Line(BEGAN, 20.0, {"read_bytes": [230]}), [None, None, None]),
    (Line(BEGAN + 3, 10.0, {"read_bytes": [230]}), [None, None, None]),
    (None, [None, None, None])], ids=["of one grid", "wider", "in between", "none"])
def test_the_job_stands_among_all_jobs_where_intervals_are_the_same(job, expected):
    found = record([delta("llite", "scratch", open=1)])
    chart = make_load_chart(found, "scratch", "scratch", history(
        job, Line(BEGAN - 10, 10.0, {"read_bytes": [410, 430, 470]})))
    assert {"Read": [expected, [41.0, 43.0, 47.0]]} == panels(chart)
    assert TimeAxis(-10.0, 10.0, 3, BEGAN, 0.0, ENDED - BEGAN) == chart.axis


@pytest.mark.parametrize("amounts, expected", [
    ([230, 370, 410], [0.0, 30.0, 20.5]), ([230, 370], [0.0, 30.0, 0.0]),
    ([230, None, 410], [0.0, None, 20.5])], ids=["known", "ended", "a gap"])
def test_the_job_stands_among_all_jobs_where_theirs_are_longer(amounts, expected):
    """(230 + 370) / 20 s; the fourth is after its end; half of what is not known is not known."""
    found = record([delta("llite", "scratch", open=1)])
    ended = found.replaced(job={**found.job, "ended": BEGAN + 10 * len(amounts)})
    chart = make_load_chart(ended, "scratch", "scratch", history(
        Line(BEGAN, 10.0, {"read_bytes": amounts}),
        Line(BEGAN - 20, 20.0, {"read_bytes": [820, 860, 940]})))
    assert {"Read": [expected, [41.0, 43.0, 47.0]]} == panels(chart)


def test_of_all_jobs_the_time_of_the_job_is_shown_and_as_long_before_and_after_it():
    """100 s of two hours; 12 intervals at least."""
    found = record([delta("llite", "scratch", open=1)])
    reads = [10 * number for number in range(720)]
    chart = make_load_chart(found, "scratch", "scratch", history(
        Line(BEGAN, 5.0, {"read_bytes": [23] * 20}),
        Line(BEGAN - 1800, 5.0, {"read_bytes": reads}, [1.0] * 720)))
    assert TimeAxis(-100.0, 5.0, 60, BEGAN, 0.0, ENDED - BEGAN) == chart.axis
    assert (reads[340] / 5, reads[399] / 5, 60) == (
        chart.panels[0].curves[1].values[0], chart.panels[0].curves[1].values[-1],
        len(chart.panels[0].curves[1].values))
    assert [0.0] * 20 + [4.6] * 20 + [0.0] * 20 == chart.panels[0].curves[0].values
    chart = make_load_chart(found, "scratch", "scratch", history(
        None, Line(BEGAN - 1800, 60.0, {"read_bytes": reads[:60]})))
    assert TimeAxis(-720.0, 60.0, 26, BEGAN, 0.0, ENDED - BEGAN) == chart.axis


def test_the_time_of_requests_is_known_where_some_were_timed():
    found = record([delta("llite", "scratch", open=1)])
    chart = make_load_chart(found, "scratch", "scratch", history(None, Line(
        BEGAN, 10.0, {"busy_us": [46_000, 0, None], "timed": [2, 0, 3]})))
    assert {"Mean time of a request, all jobs": [[23.0, None, None]]} == panels(chart)


def test_where_nothing_is_known_there_is_no_chart():
    found = record([delta("llite", "scratch")])
    [fs] = found.file_systems
    assert [None] * len(CHARTS) == [make(found, fs) for make in CHARTS.values()]
    assert None is make_mdt_chart(found, fs)
    assert None is make_load_chart(found, "scratch", "scratch", None)
    assert None is make_time_chart(found, fs, history(None))
    assert None is make_load_chart(found, "home", "home", history(None))


def test_a_page_has_both_sides():
    """By the application, under the job's id, and by its nodes between two bounds."""
    io = dict(read_bytes=23, write_bytes=37, reads=1, writes=2, ost_operations=3, mdt_operations=4)
    by_node = NodesRecord(
        why_none="", alone="listed", began=BEGAN, ended=ENDED, clocks_within_s=0.5,
        unknown_nodes="", nodes_used_before="", notes=[], file_systems=[NodesFileSystem(
            name="scratch", label="scratch", low=ClientsIO(**io),
            high=ClientsIO(**{**io, "read_bytes": 41}), later_write_bytes=None, lower_bound=False,
            notes=["a note"])])
    found = record([delta("llite", "scratch", read_bytes=47, read_calls=1)], harvest=of_servers(),
                   by_node=by_node)
    text = Document(make_page(found, page_records.small()[1], [])).text
    for expected in ("scratch by the application 47 bytes 0 bytes 1 0 0",
                     "scratch on OSS and MDS, by job id >= 23 bytes >= 37 bytes >= 1 >= 2 >= 41",
                     "scratch on OSS and MDS, by its nodes 23-41 bytes 37 bytes 1 2 7",
                     "scratch: operations at the storage servers Operation Count Seconds "
                     "open >= 41 >= 2.300", "by its nodes: a note"):
        assert expected in text, expected
