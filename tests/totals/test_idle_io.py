"""
The nodes' own I/O in the record of a job: what they did in idle seconds, as much of it as falls
into the job's time, added up.
"""

import json

import msgspec
import pytest
from test_job_totals import llite
from trees import report

from iostats.totals.job_totals import Totals
from iostats.totals.record import Record
from iostats.wire import protocol
from iostats.wire.messages.report import NodeReport, ReportedIdle, check_report
from iostats.wire.messages.totals import TotalsParams, read_totals


def node(number, elapsed_s, idle, **fields):
    """A report of a node with `scratch`; idle: (seconds, {metric: amount}) or None."""
    return report(f"nid{number:05}", elapsed_s=elapsed_s, deltas=[llite(open=500)],
                  idle=idle and {"scratch": ReportedIdle(*idle)}, **fields)


def totals(*reports):
    found = Totals("4711", len(reports))
    for one in reports:
        assert found.add(one).counted
    return found


def idle_of(found):
    [fs] = found.record().file_systems
    return fs.idle


def test_a_number_of_idle_time_counts_by_the_time_of_the_job():
    """370 in 1,000 s are 37 in 100 s, and 74 in 200 s."""
    assert {"nodes": 2, "seconds": 2000.0, "expected": {"getattr": 37 + 74}} == idle_of(totals(
        node(1, 100.0, (1000.0, {"getattr": 370})), node(2, 200.0, (1000.0, {"getattr": 370}))))


def test_small_amounts_of_many_nodes_are_not_lost():
    """A node that opens a file each 1,000 s: 0.1 in 100 s, and 23 on 230 nodes."""
    found = idle_of(totals(*(node(number, 100.0, (1000.0, {"open": 1})) for number in range(230))))
    assert ({"open": 23}, 230) == (found.expected, found.nodes)


def test_what_rounds_to_nothing_is_left_out():
    assert {"nodes": 1, "seconds": 1000.0, "expected": {}} == idle_of(
        totals(node(1, 100.0, (1000.0, {"open": 4}))))


def test_nodes_that_do_not_know_are_not_in_it():
    """Of 3 nodes one knows; of a file system that is not the job's nothing is said."""
    other = node(2, 100.0, None)._replace(idle={"home": ReportedIdle(1000.0, {"open": 23})})
    found = idle_of(totals(node(1, 100.0, (1000.0, {"open": 230})), other, node(3, 100.0, None)))
    assert (1, {"open": 23}) == (found.nodes, found.expected)
    assert None is idle_of(totals(node(3, 100.0, None)))


def test_a_node_that_is_measured_in_two_parts_counts_once():
    """Its parts are of the same idle time."""
    found = idle_of(totals(
        node(1, 100.0, (1000.0, {"open": 230}), seq="1", ended=1_795_225_000.0),
        node(1, 100.0, (1000.0, {"open": 230}), seq="2", ended=1_795_225_900.0)))
    assert (1, {"open": 46}) == (found.nodes, found.expected)


def test_many_nodes_that_are_alike():
    """They are added up in one go, each with its own idle time."""
    found = idle_of(totals(*(node(number, 100.0, (1000.0, {"open": 10 * number}))
                             for number in range(20))))
    assert {"open": 190} == found.expected


def test_what_no_node_can_do_is_left_out():
    found = idle_of(totals(node(1, 1e12, (1.0, {"open": 2.0**63, "getattr": 1e-12}))))
    assert {"getattr": 1} == found.expected


def test_a_record_without_it_is_of_an_earlier_release():
    form = json.loads(json.dumps(totals(node(1, 100.0, None)).record()))
    assert None is form["file_systems"][0].pop("idle")
    assert None is Record.of(form).file_systems[0].idle


# -- on the wire ---------------------------------------------------------------------------------

def wired(**idle):
    return {"protocol": 1, "job": "4711", "node": "nid00001", "seq": "1", "ended": 1.0,
            "elapsed_s": 100.0, "idle": {"scratch": idle}}


def test_a_report_has_it():
    found = msgspec.convert(wired(seconds=1000, values={"open": 23, "getattr": 0.25}), NodeReport)
    assert (1000.0, {"open": 23.0, "getattr": 0.25}) == (
        found.idle["scratch"].seconds, found.idle["scratch"].values)


@pytest.mark.parametrize("idle", [
    {"seconds": 0}, {"seconds": -60}, {"values": {}}, {"seconds": 60, "values": {"open": -1}},
    {"seconds": 60, "values": {"x" * 129: 1}}, {"seconds": 60, "values": {"open": "23"}},
    {"seconds": 60, "values": {f"m{number}": 1 for number in range(1001)}}],
    ids=["no time", "less than none", "without time", "below 0", "a long name", "no number",
         "too many"])
def test_what_is_not_of_its_form_is_refused(idle):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wired(**idle), NodeReport)


def test_its_metrics_are_among_those_that_are_limited():
    """Names that nobody has seen cost memory for as long as the server lives."""
    one = msgspec.convert(wired(seconds=60, values={"new": 1}), NodeReport)
    metrics = {"open"}
    check_report(one, "nid00001", "4711", metrics)
    assert {"open", "new"} == metrics


def test_totals_of_nodes_added_up_have_it():
    """As of an MPI program's ranks; its node is one that the message names."""
    state = totals(node(1, 100.0, (1000.0, {"open": 230}))).state()
    params = {"protocol": protocol.PROTOCOL, "job": "4711", "node": "nid00001", "seq": "1",
              "state": json.loads(json.dumps(state))}
    found = read_totals(msgspec.convert(params, TotalsParams), "nid00001", "4711", set(), str)
    assert {"open": 23} == idle_of(found).expected
    params["state"]["file_systems"]["scratch"]["idle"][0] = ["nid00002"]
    with pytest.raises(msgspec.ValidationError, match="no other nodes, got 'nid00002'"):
        msgspec.convert(params, TotalsParams)
