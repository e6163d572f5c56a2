"""What `iostats why` is made of: lines on one axis, time in Lustre, other runs, what is known."""
from __future__ import annotations

import doctest

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_world import event_of
from test_why_causes import BEGAN, CONFIG, JOB, QUIET, STEADY, history, record, writes

from iostats.load.time_lines import Line, parse_history
from iostats.report.why import like_runs as like_module
from iostats.report.why import words
from iostats.report.why.axis import CommonAxis, make_axis, spread_over_axis
from iostats.report.why.causes import find_causes
from iostats.report.why.faults import find_faults, get_job_period
from iostats.report.why.known_from import list_sources
from iostats.report.why.like_runs import compare_runs
from iostats.report.why.time_in_lustre import compute_time_in_lustre
from iostats.totals.record import ServersRecord


def reads(began, every_s, amounts, **members):
    return Line(began, every_s, {"reads": amounts}, **members)


# -- axis ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("lines, expected", [
    ([reads(100, 10, [1, 2, 3]), None], (100, 10, 3)),
    ([reads(100, 10, [1, 2, 3]), reads(70, 10, [1])], (70, 10, 6)),
    ([reads(100, 10, [1, 2, 3]), reads(120, 20, [1, 2])], (100, 10, 6)),
    ([reads(120, 20, [1]), reads(110, 10, [1, 2, 3])], (100, 20, 2)),
], ids=["one", "one begins before", "one has wider intervals", "one has narrower ones"])
def test_an_axis_has_the_intervals_of_the_first_and_the_time_of_all(lines, expected):
    assert CommonAxis(*expected) == make_axis(*lines)


def test_no_line_no_axis():
    assert make_axis(None, reads(100, 10, [1])) is None
    assert make_axis(reads(100, 10, []), reads(100, 10, [1])) is None


@pytest.mark.parametrize("line, expected", [
    (reads(100, 10, [23, None, 37, 41]), [23, None, 37, 41]),
    (reads(110, 10, [23, 37]), [None, 23, 37, None]),
    (reads(80, 10, [23, 37, 41]), [41, None, None, None]),
    (reads(100, 5, [2, 3, 4, None, 6, 7]), [5, None, 13, None]),
    (reads(95, 10, [20, 40, 60, 80, 100]), [30, 50, 70, 90]),
    (reads(100, 20, [46, None]), [23, 23, None, None]),
    (reads(100, 10, [23, 37, 41, 53], known=[1.0, 0.5, 0.95, 0.0]), [23, None, 41, None]),
    (Line(100, 10, {"writes": [1, None, 3, 4]}), [0, None, 0, 0]),
    (None, [None] * 4), (reads(10**17 + 100, 10, [23]), [None] * 4),
], ids=["on it", "later", "before", "finer", "in between", "coarser", "partly known",
        "of other metrics", "none", "beyond all calendars"])
def test_a_line_on_an_axis(line, expected):
    assert expected == spread_over_axis(line, "reads", CommonAxis(100, 10, 4))


# -- time in Lustre --------------------------------------------------------------------------------

def test_time_in_lustre_of_two_nodes():
    """(900 + 23) s of 2 * 1200 s; of node001, which wrote 9/16 and opened all, 529.25 of 1200 s."""
    time = compute_time_in_lustre(record())
    known = time.known
    assert (923.0, True, "") == (known.seconds, time.is_whole, time.why_not)
    assert (923 / 2400, 529.25 / 1200, 923 / 1200) == pytest.approx(
        (known.share, known.busiest_share, known.serial_share))
    assert {("scratch", "open"): (41, 23.0), ("scratch", "write"): (16000, 900.0)} == (
        time.by_operation)


@pytest.mark.parametrize("change, why, marks, is_whole", [
    ({"reported": 0}, "no node has reported, so the time of its calls is unknown", ("", ""),
     False),
    ({"missing_count": 1}, "1 of its nodes did not report", (">= ", "~ "), False),
    ({"shared": {"node001": 2}},
     "other jobs were on its nodes, and their calls are in the numbers", ("<= ", "<= "), True),
    ({"shared": {"node001": 2}, "missing_count": 1}, "1 of its nodes did not report", ("~ ", "~ "),
     False),
    ({"node_seconds": None}, "", ("", ""), False),
])
def test_why_time_in_lustre_is_not_known(change, why, marks, is_whole):
    """With other jobs' calls nothing is missing in it: it is an upper bound."""
    job = record()
    time = compute_time_in_lustre(job.replaced(coverage=job.coverage.replaced(**change)))
    assert (why, is_whole) == (time.why_not, time.is_whole and time.known is not None)
    assert marks == (time.mark, time.share_mark)


def test_a_record_from_accounting_has_no_times():
    job = record(calls={"write": {"count": 23, "seconds": None, "stddev_s": None}})
    assert "the accounting's short form has no times of calls" == compute_time_in_lustre(
        job.replaced(short=True)).why_not


# -- other runs ------------------------------------------------------------------------------------

def at_servers(write_s):
    """A run of which the storage servers alone tell: 23 writes in so many seconds."""
    harvest = ServersRecord.of({
        "final": True, "ids": ["4711"], "began": BEGAN + 7, "ended": BEGAN + 1193, "notes": [],
        "lower_bound": False, "file_systems": [{
            "name": "scratch", "label": "scratch", "read_bytes": 0, "write_bytes": 23 << 20,
            "read_rpcs": 0, "write_rpcs": 23, "read_seconds": 0.0, "write_seconds": write_s,
            "operations": {"punch": {"count": 37, "seconds": 0.37}}, "lower_bound": False,
            "targets": {"OST0007": {"write_bytes": 23 << 20}}, "notes": []}]})
    job = record()
    return job.replaced(harvest=harvest, file_systems=[],
                        coverage=job.coverage.replaced(reported=0),
                        job=job.job.replaced(started=None, ended=None, elapsed_s=None))


def test_where_no_node_tells_the_servers_times_are_compared():
    found = compare_runs(at_servers(46.0), [at_servers(seconds) for seconds in (2.3, 23.0, 4.6)])
    [write] = found.operations
    assert ("server write", 2.0) == (write.operation, write.each_s)
    assert (0.2, 10.0) == pytest.approx((write.usual_s, write.factor))
    assert found.elapsed_s is None


def test_what_was_called_only_a_few_times_is_not_compared():
    few = {"open": {"count": 9, "seconds": 90.0, "stddev_s": None}}
    found = compare_runs(record(operations=few), [record(open_s=1.0)] * 3)
    assert ["write"] == [one.operation for one in found.operations]


# -- when, and what is known -----------------------------------------------------------------------

def test_when_a_job_ran_is_known_from_its_nodes_or_else_from_others():
    alone = at_servers(23.0)
    assert (BEGAN, BEGAN + 1200) == get_job_period(record(), None) == get_job_period(alone, QUIET)
    assert (BEGAN + 7, BEGAN + 1193) == get_job_period(alone, None)
    assert (None, None) == get_job_period(alone.replaced(harvest=None), None)


def test_what_a_job_is_known_from():
    alone = at_servers(23.0).replaced(events=None)
    known = list_sources(alone, history(writes(STEADY, [4100] * 40), has=["harvest", "watch"],
                                        why_not={"exports": "by node alone"}))
    assert ["watch", "job_stats over time"] == known.there
    assert [("its nodes", "no node has reported"),
            ("exports", "by node alone"), ("events", "not collected")] == known.missing


def test_what_only_the_servers_know_is_not_said_to_be_known_of_its_nodes():
    [cause] = find_causes(at_servers(23.0).replaced(events=None), None, [], CONFIG)
    assert cause.text == ("Cannot tell: its time in Lustre is unknown: no node has reported, so "
                          "the time of its calls is unknown")
    assert 2 == len(cause.evidence)


# -- faults ----------------------------------------------------------------------------------------

def test_an_outage_shorter_than_an_interval_shows_in_what_is_missing_there():
    """20 of the 30 s from 12:04:00 on: 400 requests become 133; of 60 s that is a third."""
    short = {**JOB, "ended": BEGAN + 300, "elapsed_s": 300.0}
    event = event_of("evicted", BEGAN + 245, BEGAN + 265, "scratch-OST0007")
    for count, still_s in ((133, 20), (400, None)):
        counts = [400] * 8 + [count] + [400] * 31
        job = record(job=short, events=[event])
        found = find_faults(job, history(writes(counts, [4100] * 40)), compute_time_in_lustre(job))
        assert ([] if still_s is None else [(still_s, False)]) == [
            (one.still_s, one.is_seen) for one in found]


def test_a_fault_on_one_of_two_nodes_is_half_of_its_time():
    event = event_of("evicted", BEGAN + 240, BEGAN + 720, "scratch-OST0007", nodes="node001",
                     node_count=1)
    job = record(events=[event])
    [found] = find_faults(job, None, compute_time_in_lustre(job))
    assert 480 / 1200 / 2 == pytest.approx(found.part)


def test_an_event_at_a_target_that_is_known_not_to_be_used_is_none():
    event = event_of("target_down", BEGAN + 240, BEGAN + 720, "scratch-OST0008")
    network = {"read_bytes": 0, "write_bytes": 23, "read_rpcs": 0, "write_rpcs": 1,
               "lower_bound": False}
    for target, expected in (("OST0007", 0), ("OST0008", 1)):
        job = record(events=[event], network=network, targets={target: {"write_bytes": 23}})
        assert expected == len(find_faults(job, None, compute_time_in_lustre(job)))


# -- anything --------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.none(), st.integers(-5, 10**15), st.floats(allow_nan=True))
LINES = st.none() | st.fixed_dictionaries({
    "began": st.floats(-1e10, 1e10), "every_s": st.floats(-1, 1e9) | st.just(30.0),
    "amounts": st.dictionaries(st.sampled_from(
        ["requests", "reads", "writes", "write_bytes", "timed", "busy_us", "writes_us", "open_us"]),
        st.lists(NUMBERS, max_size=30))})
HISTORIES = st.fixed_dictionaries({
    "began": st.none() | st.floats(-1e18, 1e18), "ended": st.none() | st.floats(-1e18, 1e18),
    "has": st.just(["harvest"]), "why_not": st.just({}), "file_systems": st.lists(
        st.fixed_dictionaries({"name": st.just("scratch"), "job": LINES, "all": LINES}),
        max_size=2),
    "targets": st.lists(st.fixed_dictionaries({
        "file_system": st.just("scratch"), "target": st.sampled_from(["OST0007", "MDT0000"]),
        "job": LINES, "all": LINES, "others": st.lists(st.fixed_dictionaries({
            "job": st.just("4733"), "user": st.just(""),
            "line": LINES.filter(bool)}), max_size=2)}), max_size=3)})


@settings(max_examples=examples(100), deadline=None)
@given(HISTORIES)
def test_no_history_is_a_traceback(form):
    """The command says of such errors that the server is of another release."""
    try:
        causes = find_causes(record(events=[event_of("evicted", BEGAN + 240, BEGAN + 720)]),
                             parse_history(form), [], CONFIG)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return
    assert all(0 <= one.weight <= 1 for one in causes)


def test_words_are_as_their_examples_say():
    assert 0 == doctest.testmod(words).failed == doctest.testmod(like_module).failed


def test_a_moment_that_no_calendar_has():
    assert "?" == words.format_moment(1e18)
