"""
A report, `iostats why`, a page and JSON agree on one record; each cost shown was measured.
"""
from __future__ import annotations

import json
import re

import pytest
import queueing_world as world
from test_planted_faults import FAULTS, GIB, HEALTHY, Work, job
from test_why_causes import STEADY, history, line, writes
from test_why_parts import at_servers

from iostats.base.config import Config
from iostats.report import job_tables
from iostats.report.html.page import make_answer as verdict_of
from iostats.report.html.page import make_page
from iostats.report.json_and_csv import format_json
from iostats.report.screen import LOG
from iostats.report.why import answer, causes
from iostats.report.why.cause import (
    format_headline,
    format_headline_sentence,
    main_cause,
    make_headline_form,
)
from iostats.totals.record import Record

pytestmark = pytest.mark.usefixtures("utc")     # Times are local ones: here, of UTC
CONFIG = Config()


def labelled(record):
    return job_tables.add_labels(record, CONFIG)


def why_text(record, over_time=None, like=()):
    found = answer.make_answer(record, over_time, like, CONFIG)
    return " ".join(" ".join(answer.format_answer(found, LOG, {}, "binary")).split())


def why_json(record, over_time=None, like=()):
    return json.loads(format_json(answer.as_form(answer.make_answer(record, over_time, like,
                                                                    CONFIG))))


def report_text(record):
    return " ".join(job_tables.format_report(record, CONFIG).split())


def page_of(record, over_time=None, like=()):
    found = causes.judge_record(record, CONFIG, over_time, like)
    return make_page(record, CONFIG, found.findings, found.causes, over_time)


# -- a cost that was not measured ------------------------------------------------------------------

def untimed_small_writes():
    """114,960 writes of 370 bytes in 66 s, on a client that does not time calls."""
    work = Work().moves("write", 114_960 * 370, 370)
    return labelled(job([work], 66.0, False))


def test_a_cost_that_was_not_measured_is_printed_nowhere():
    record = untimed_small_writes()
    report, why = report_text(record), why_text(record)
    expected = "Small writes may have slowed this job (confidence: low)."
    assert expected in report and expected in why
    assert "Confidence: low. Its cost was not measured." in why
    shown = page_of(record)
    for text in (report, why, re.sub("<style>.*</style>", "", shown, flags=re.S)):
        assert "50" not in re.findall(r"(\d+) %", text) and "of the run time" not in text
    [cause] = why_json(record)["causes"]
    assert (None, "low") == (cause["cost"], cause["confidence"]) and "weight" not in cause
    printed = json.loads(job_tables.format_report(record, CONFIG, "json"))
    assert {"kind": "own_pattern", "headline": "Small writes may have slowed this job",
            "confidence": "low", "cost": None} == printed["main_cause"]
    [finding] = printed["findings"]
    assert finding["cost"] is None and "weight" not in finding


@pytest.mark.parametrize("members, text", [
    ({}, " The storage servers worked on its requests for 2.3 s, at most 3.5 % of the run time."),
    ({"final": False}, ""), ({"lower_bound": True}, ""),
], ids=["all of it", "more may come", "a lower bound"])
def test_what_the_storage_servers_timed_is_a_bound_where_it_is_complete(members, text):
    """2.3 s of 66 s: 1.93 s of 23 writes, and 0.37 s of punch."""
    harvest = at_servers(1.93).harvest
    there = harvest.file_systems[0].replaced(write_bytes=114_960 * 370)
    record = untimed_small_writes().replaced(harvest=harvest.replaced(
        file_systems=[there], **members))
    assert ("Time in Lustre: unknown: the nodes' counters do not time calls (Lustre clients do "
            f"since 2.14).{text} 1. Inefficient") in why_text(record)


def test_requests_without_the_jobs_id_leave_no_bound():
    """The nodes sent one byte more than the servers counted under its id."""
    harvest = at_servers(1.93).harvest
    there = harvest.file_systems[0].replaced(write_bytes=114_960 * 370 - 1)
    record = untimed_small_writes().replaced(harvest=harvest.replaced(file_systems=[there]))
    assert "worked on its requests" not in why_text(record)


def test_a_cost_is_all_of_the_calls_one_after_the_other():
    """Two nodes of 100 s, 37 s each in writes: 37 % of the nodes' time, and at most 74 s of 100."""
    works = [Work().moves("write", 37_000 * 700, 700, 1000) for _ in range(2)]
    record = labelled(job(works, 100.0, True))
    assert "37 % of the nodes' time" in report_text(record)
    assert "Confidence: medium. It cost at most 74 % of the run time." in why_text(record)
    assert 0.74 == why_json(record)["main_cause"]["cost"]


# -- one judgement ---------------------------------------------------------------------------------

def test_a_pattern_is_no_finding_where_the_time_was_not_in_lustre():
    """6 s of 100 s in small writes: more than [findings] from_percent, and hardly anything."""
    record = labelled(job([Work().moves("write", 60_000 * 700, 700, 100)], 100.0, True))
    expected = "Lustre was not the bottleneck: at most 6.0 % of node time (confidence: high)."
    for text in (report_text(record), why_text(record)):
        assert expected in text and "60,000 writes" not in text
    assert [] == json.loads(job_tables.format_report(record, CONFIG, "json"))["findings"]


def test_what_harms_others_is_a_finding_all_the_same():
    """1,250,000 stat() of 1 us by each of four nodes in 100 s: 50,000 a second at one MDT."""
    record = labelled(job([Work().calls(getattr=1_250_000, us=1)] * 4, 100.0, True))
    text = report_text(record)
    assert text.index("Lustre was not the bottleneck") < text.index("MDT0000 was asked 5,000,000")


def test_calls_that_are_not_counted_are_no_time_elsewhere():
    """5 GiB went over the network that no write() asked for: libaio, whose waits are in no call."""
    work = Work().moves("write", GIB, us=10)
    work.add(unexplained_write_bytes=5 * GIB)
    record = labelled(job([work], 100.0, True))
    assert "bottleneck" not in report_text(record) + why_text(record)
    assert ("Cannot tell: its time in Lustre is unknown: bytes that no counted call asked for "
            "went over the network") in why_text(record)


def test_a_job_that_is_too_short_to_judge_is_judged_by_none():
    """23 s, where [findings] from_seconds is 60."""
    record = labelled(job([Work().moves("write", 41_000 * 700, 700, 100)], 23.0, True))
    expected = "the job was too short to judge (less than 60 s)"
    assert f"No findings: {expected}." in report_text(record)
    assert f"1. Cannot tell: {expected}" in why_text(record)
    assert "Too short to judge" in page_of(record)


# -- reasons ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("own, reason", [
    (line(writes=[None] * 40, requests=[None] * 40),
     "no sweep of the storage servers saw its requests while it ran"),
    (line(writes=[0] * 40, requests=[0] * 40),
     "no sweep of the storage servers saw its requests while it ran"),
    (line(writes=STEADY, requests=STEADY),
     "the storage servers' counters do not time requests (Lustre servers do since 2.14)"),
], ids=["an agent that started after its end", "nothing was counted", "2.12"])
def test_where_nothing_was_read_that_is_the_reason(own, reason):
    """And not the release, which only a request that was counted without a time shows."""
    from test_why_causes import record
    found = history(own)
    found = found._replace(targets=[one._replace(job=one.job._replace(
        unplaced={"writes": 23, "timed": 23, "busy_us": 41})) for one in found.targets])
    assert f"Cannot tell: whether a target was busy is unknown: {reason}" in why_text(
        record(), found)


# -- of random jobs --------------------------------------------------------------------------------

def agree(record, over_time=None, like=()):
    """Hold that all that is shown of a job is of one judgement, and what it is made of."""
    judgement = causes.judge_record(record, CONFIG, over_time, like)
    cause = main_cause(judgement.causes)
    form, text = why_json(record, over_time, like), why_text(record, over_time, like)
    verdict, shown = verdict_of(record, judgement.causes), page_of(record, over_time, like)
    if cause is None:
        assert form["main_cause"] is None and "(confidence:" not in text
    else:
        head = format_headline(cause)
        assert (cause.kind, head, cause.confidence) == tuple(form["main_cause"][name] for name in (
            "kind", "headline", "confidence"))
        assert f" {head}" in text.split(" 1. ")[0] and (
            f"(confidence: {cause.confidence}). " in text.split(" 1. ")[0])
        assert verdict.head == head and f"Confidence: {cause.confidence}." in verdict.text
        assert head in shown
    for one in judgement.causes:
        measured(one, record, over_time)
    count = sum(one.cost is not None and one.kind != "not_in_lustre" and one.cost < 0.995
                for one in judgement.causes)
    assert count == len(re.findall(r"It cost (?:about|at most) [\d<. ]+% of the run time", text))
    return judgement


def report_agrees(record):
    """The same of a report, which has the record alone."""
    judgement = agree(record)
    cause, text = main_cause(judgement.causes), report_text(record)
    printed = json.loads(job_tables.format_report(record, CONFIG, "json"))
    assert printed["main_cause"] == json.loads(json.dumps(make_headline_form(cause)))
    assert [one["id"] for one in printed["findings"]] == [one.id for one in judgement.findings]
    assert text.count("(confidence:") == (cause is not None)
    assert cause is None or " ".join(format_headline_sentence(cause).split()) in text
    patterns = {one["finding"] for one in (found.about for found in judgement.causes)
                if "finding" in one}
    assert patterns <= {one.id for one in judgement.findings}


def measured(cause, record, over_time):
    """No cost is more than what was timed, by whatever timed it."""
    if cause.cost is None or cause.kind == "unknown":
        return
    elapsed_s = record.job.elapsed_s
    if cause.kind in ("own_pattern", "not_in_lustre"):
        rows = [row for fs in record.file_systems
                for row in (*fs.operations.values(), *fs.calls.values())]
        most_s = sum(row.seconds or 0.0 for row in rows)
        assert any(row.seconds is not None for row in rows)
    elif cause.kind == "fault":
        most_s = sum((one.over or one.last) - one.time for one in record.events)
    else:
        most_s = sum(us or 0 for one in over_time.targets
                     for us in one.job.amounts.get("busy_us", ())) / 1e6
    assert 0 <= cause.cost <= most_s / elapsed_s + 1e-9


SEEDS = range(3)


@pytest.mark.parametrize("kind", [*world.PLANTED, *world.NONE], ids=lambda kind: kind.__name__)
def test_of_random_histories_all_that_is_shown_agrees(kind):
    for seed in SEEDS:
        record, over_time, like = world.asked(world.made(kind, seed))
        record = labelled(record)
        agree(record, over_time, like)
        report_agrees(record)


@pytest.mark.parametrize("is_timed", [True, False], ids=["timed", "not timed"])
@pytest.mark.parametrize("fault", list(FAULTS))
def test_of_random_records_all_that_is_shown_agrees(fault, is_timed):
    """Each fault, weak and strong, in each healthy job: whole, too low, with a missing node."""
    for background in HEALTHY:
        for strength in (0.02, 0.37):
            works = [HEALTHY[background](node) for node in range(4)]
            FAULTS[fault](works, strength)
            record = labelled(job(works, 3600.0, is_timed))
            report_agrees(record)
            coverage = record.coverage
            report_agrees(record.replaced(coverage=coverage.replaced(expected=5, missing_count=1)))
            report_agrees(record.replaced(coverage=coverage.replaced(shared={"nid00002": 1}),
                                          nodes={}))
            report_agrees(Record.of({**record, "file_systems": [
                fs.replaced(too_low=["read_bytes"]) for fs in record.file_systems]}))


def test_a_history_without_a_record_of_nodes_agrees():
    found = at_servers(23.0)
    agree(found, history(writes(STEADY, [4100] * 40)))
    agree(found, None)
