"""
What `iostats why` prints, on one screen of 80 columns; docs/explanation/why.md shows the same.
"""
from __future__ import annotations

import json
import time

import pytest
import test_why_causes
from queueing_world import asked, event_of, made, not_in_lustre
from test_why_causes import (
    BEGAN,
    BUSY,
    CONFIG,
    DOWN,
    NEIGHBOUR,
    QUIET,
    SLOW_THEN,
    STEADY,
    STOPPED,
    history,
    record,
    when_loaded,
    writes,
)
from trees import ROOT

from iostats.base.text import measure_width
from iostats.report.json_and_csv import format_json
from iostats.report.screen import LOG
from iostats.report.why import answer

pytestmark = pytest.mark.usefixtures("utc")     # Times are local ones: here, of UTC


def lines(record, history=None, like=(), screen=LOG, why_not=""):
    told = answer.make_answer(record, history, like, CONFIG, why_not)
    return answer.format_answer(told, screen, {}, "binary")


def busy_screen(screen=LOG):
    return lines(record(), BUSY, [record(seconds) for seconds in (80.0, 300.0, 320.0)], screen)


def test_the_worked_example_of_the_document():
    """The job's 16000 writes took 900 s, while 18.75 ms each are usual."""
    page = (ROOT / "docs/explanation/why.md").read_text()
    assert "\n".join(f"    {line}".rstrip() for line in busy_screen()) in page


@pytest.mark.parametrize("width", [50, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(width):
    for job, over_time in ((record(), BUSY), (record(events=[DOWN]), STOPPED),
                           (record(37.0, 4.0), QUIET)):
        assert max(map(measure_width, lines(job, over_time, screen=LOG._replace(width=width)))
                   ) <= width


def test_moments_over_the_end_of_summer_time_say_which_they_are(monkeypatch):
    """Clocks are put back from 03:00 to 02:00 in the tenth minute of the job: 02:50 to 02:10."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    began = 1_792_889_400.0                             # 2026-10-25 00:50 UTC
    monkeypatch.setattr(test_why_causes, "BEGAN", began)
    busy = history(writes(STEADY, SLOW_THEN), [
        ("4733", "bob", writes(when_loaded(64512, 0), [37_000] * 40))])
    down = event_of("target_down", began + 541, began + 659, "scratch-OST0007")
    job = {"started": began, "ended": began + 1200, "elapsed_s": 1200.0}
    found = lines(record(job=job, events=[down]), busy)
    assert found[0] == ("Job 4711 (solve, alice): 00:20:00 on 2 nodes, from 02:50 CEST to 02:10 CET"
                        )
    text = " ".join(" ".join(found).split())
    assert "a write took 9.3 times its usual 4.1 ms from 02:54 CEST to 02:02 CET, while" in text
    assert "02:50 CEST 02:10 CET highest" in text
    stopped = history(writes([0 if 18 <= place < 22 else 400 for place in range(40)], [4100] * 40))
    text = " ".join(" ".join(lines(record(job=job, events=[down]), stopped)).split())
    assert "target down from 02:59 CEST to 02:00 CET; the job" in text
    assert "- 02:59 CEST scratch-OST0007: target down, for 118 s" in text


def test_a_fault_of_a_job_of_days_that_the_servers_alone_know_has_its_day():
    """40 intervals of 2 hours, of which the job stood still for two."""
    job = record(events=[event_of("target_down", BEGAN + 18 * 7200, BEGAN + 20 * 7200,
                                  "scratch-OST0007")])
    job = job.replaced(job=job.job.replaced(started=None, ended=None, elapsed_s=None),
                       coverage=job.coverage.replaced(reported=0))
    still = writes([0 if 18 <= place < 20 else 400 for place in range(40)], [4100] * 40)
    found = history(still)._replace(ended=BEGAN + 40 * 7200)
    [fs], [target] = found.file_systems, found.targets
    line = fs.job._replace(every_s=7200.0)
    found = found._replace(file_systems=[fs._replace(job=line)],
                           targets=[target._replace(job=line, all=line)])
    text = " ".join(" ".join(lines(job, found)).split())
    assert "target down from Nov 22 00:00 to Nov 22 04:00; the job stood still for up to 04" in text


def test_it_fits_one_screen():
    assert len(busy_screen()) <= 24


def test_a_terminal_without_utf_8_has_bars_of_ascii():
    assert all(line.isascii() for line in busy_screen(LOG._replace(is_ascii=True)))


def test_bars_stand_below_one_another():
    """40 intervals, of which 16 are slow; unknown ones are no load of 0."""
    own = [None if place == 3 else count for place, count in enumerate(STEADY)]
    found = lines(record(), history(writes(own, SLOW_THEN), [NEIGHBOUR]))
    bars = [line.split("|")[1] for line in found if line.count("|") == 2]
    assert ["▁▁▁ ▁▁▁▁" + 16 * "█" + 16 * "▁", "███?" + 36 * "█",
            "   ?    " + 16 * "█" + 16 * " "] == bars


def test_what_it_cost_where_half_of_its_time_is_known():
    own, theirs = ([count if place % 2 else None for place, count in enumerate(counts)]
                   for counts in (STEADY, [64512 if 8 <= place < 24 else 0 for place in range(40)]))
    found = lines(record(), history(writes(own, SLOW_THEN), [
        ("4733", "bob", writes(theirs, [37_000] * 40))]))
    assert ("Confidence: medium. It cost at most 9.1 % of the run time, in the 50 % of it that is "
            "known.") in " ".join(" ".join(found).split())


def test_nothing_stands_out():
    found = lines(record(), QUIET)
    assert found[:3] == [
        "Job 4711 (solve, alice): 00:20:00 on 2 nodes, from 12:00 to 12:20",
        "In Lustre: 38 % of node time; 98 % of it in write (56.2 ms each).", ""]
    assert ("No cause found: no target was slow, no fault stopped the job, and no inefficient I/O "
            "pattern was found. Known from") in (
        " ".join(" ".join(found).split()))


def test_what_is_known_from_where():
    found = " ".join(" ".join(lines(record(), None, why_not="no answer in 30 s")).split())
    assert found.endswith(
        "Known from: its nodes, events. Not used: watch (no data); job_stats over time (no answer "
        "in 30 s).")
    assert "Cannot tell: whether a target was busy is unknown: no answer in 30 s" in found


def test_names_that_others_have_chosen_are_harmless():
    """A job's name with a terminal's commands, another's with a line of its own."""
    nasty = history(writes(STEADY, SLOW_THEN), [("47\x1b[2J33", "b\nob", NEIGHBOUR[2])])
    job = record()
    job = job.replaced(batch=job.batch.replaced(name="so\x1b]0;x\x07lve\u202e"))
    text = "\n".join(lines(job, nasty))
    assert text.replace("\n", "").isprintable() and "\nob" not in text


def test_json_has_all_of_it():
    told = answer.make_answer(record(), BUSY, [record(300.0)] * 3, CONFIG)
    form = json.loads(format_json(answer.as_form(told)))
    assert set(form) == {"schema", "job", "time_in_lustre", "time_in_nfs", "time_on_disks",
                         "main_cause", "causes", "other_runs", "known_from", "not_known_from"}
    assert form["job"]["began"] == BEGAN and form["time_in_lustre"]["seconds"] == 923.0
    assert (form["causes"][0]["kind"], form["causes"][0]["about"]["job"]) == ("busy_target", "4733")
    assert [(one["operation"], one["factor"]) for one in form["other_runs"]["operations"]] == [
        ("write", 3.0)]


def test_a_random_job_that_was_not_in_lustre():
    job, over_time, _ = asked(made(not_in_lustre, 23))
    assert "\nLustre hardly slowed this job: at most " in "\n".join(lines(job, over_time))
