"""Whatever is printed by default fits into 80 columns, and a wider terminal is used."""
from __future__ import annotations

import page_records
import pytest
from test_array_total import task
from test_job_tables import at_servers, with_harvest
from test_job_totals import llite

from iostats.base.config import Config
from iostats.base.text import measure_width
from iostats.report import array_total, job_tables
from iostats.report.diff import changes, diff_text, numbers
from iostats.report.screen import LOG
from iostats.report.why import answer
from iostats.totals.record import Record

LONG = "scratch-with-a-name-of-forty-characters-"
KINDS = ("small", "realistic", "wide", "hostile")


def widest(text):
    return max(map(measure_width, text.split("\n")))


def found(kind):
    record, config = getattr(page_records, kind)()
    record = record.replaced(
        file_systems=[fs.replaced(label=(fs.label + LONG)[:40]) for fs in record.file_systems],
        notes=["a note of many words, " * 40, *record.notes, *["a short note"] * 23])
    return record, config


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("form", ["grid", "plain"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_report(kind, form, explain, long):
    assert widest(job_tables.format_report(*found(kind), form, long, explain)) <= 80


@pytest.mark.parametrize("form", ["grid", "plain"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_report_from_both_sides(kind, form):
    record, config = found(kind)
    names = [fs.name for fs in record.file_systems]
    record = Record.of(with_harvest(record, *({**at_servers(name, low=True, open=(2**62, None)),
                                               "label": LONG[:40]} for name in names)))
    for one in (record, record.replaced(file_systems=[], coverage=record.coverage.replaced(
            reported=0))):
        assert widest(job_tables.format_report(one, config, form)) <= 80


@pytest.mark.parametrize("form", ["grid", "plain"])
def test_an_array(form):
    """Of a thousand tasks: no more than a screen."""
    records = [task(number, llite(LONG, read_bytes=(number == 23) * 2**60 + 2**50,
                                  read_calls=2**40, open=23),
                    outcome="FAILED" if number < 41 else "COMPLETED") for number in range(1000)]
    text = array_total.format_total("92", records, Config(), LOG._replace(form=form),
                                    "others have no report yet: 23 running, 37 queued, 41 ended "
                                    "without")
    assert widest(text) <= 80 and len(text.split("\n")) < 40
    assert "bytes 1,025.0x" in text and "and 31 more" in text


@pytest.mark.parametrize("show_all", [False, True])
@pytest.mark.parametrize("a", KINDS)
@pytest.mark.parametrize("b", KINDS)
def test_a_comparison(a, b, show_all):
    both = [numbers.read_numbers(found(kind)[0], f"a-file-with-a-long-name-{kind}.json", None, {})
            for kind in (a, b)]
    assert widest(diff_text.format_comparison(changes.compare_jobs(*both), "binary", LOG,
                                              show_all)) <= 80


@pytest.mark.parametrize("kind", KINDS)
def test_why(kind):
    record, config = found(kind)
    lines = answer.format_answer(answer.make_answer(record, page_records.history(), [], config),
                                 LOG,
                                 config.labels, "binary")
    assert max(map(measure_width, lines)) <= 80


def test_notes_are_short_and_few_without_long():
    record, config = found("small")
    short, long = (" ".join(job_tables.format_report(record, config, long=long).split())
                   for long in (False, True))
    assert "a note of many words ... (--long) note: " in short
    assert "and 13 more notes (--long)" in short
    assert long.count("a note of many words") == 40 and long.count("note: a short note") == 23
    assert "(--long)" not in long
