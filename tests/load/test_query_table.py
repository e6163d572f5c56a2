"""
Tables of `query`: what is in a cell, and what the notes say.
"""
from __future__ import annotations

import pytest
from test_ranking import Known, T, part, two_targets

from iostats.load import query_table, ranking
from iostats.load.levels import TOTALS
from iostats.load.ranking import LoadQuery
from iostats.load.sums import LastReading, sum_load


def lines(by, load, level="b", **more):
    answer = {"level": level, **ranking.answer(load, LoadQuery(by), Known), **more}
    return query_table.format_lines(answer)


def test_a_note_names_a_job_once():
    """MDT0000 of two file systems was cleared."""
    note = "job_stats were cleared (MDT0000)"
    load = sum_load([part(fs=fs, j4711=(23, 37, 41, 0)) for fs in ("home", "scratch")], Known,
                         TOTALS, T)
    answer = {"level": "b", **ranking.answer(load, LoadQuery("job"), Known)}
    rows = [{**row, "notes": [note], "lower_bound": True} for row in answer["rows"]]
    lines = query_table.format_lines({**answer, "rows": rows})
    assert "note: 4711: job_stats were cleared (MDT0000): lower bounds (>=)" == lines[-1]


@pytest.mark.parametrize("by, heading", [
    ("job-target", "JOB TARGET FS OSS/MDS"), ("job", "JOB FS"), ("job-summed", "JOB")])
def test_rates_are_bytes_a_second(by, heading):
    """4711 writes 46 MiB a second in 82 requests, on two targets half of it."""
    _, titles, row, *_ = lines(by, two_targets(), "c")
    assert set(heading.split()) <= set(titles.split())
    assert ("23.0 MiB" if by == "job-target" else "46.0 MiB") in row
    assert "WRITTEN/S" in titles and ("41.0" if by == "job-target" else "82.0") in row


@pytest.mark.parametrize("written, low, shown", [
    (23 << 20, False, "23.0 MiB"), (23 << 20, True, ">= 23.0 MiB"), (0, False, "0 bytes"),
    (0, True, ">= 0 bytes"), (37, False, "37 bytes"), (0.5, False, "<1 byte"),
    (0.5, True, "> 0 bytes"), (None, True, "-")])
def test_what_is_there_is_never_shown_as_nothing(written, low, shown):
    answer = {"level": "c", **ranking.answer(two_targets(), LoadQuery("job-summed", count=1),
                                             Known)}
    [row] = answer["rows"]
    row.update(write_bytes_per_s=written, lower_bound=low)
    _, titles, line, *_ = query_table.format_lines(answer)
    end = titles.index("WRITTEN/S") + len("WRITTEN/S")
    assert shown == line[:end].split("  ", 1)[1].strip()


def test_how_old_each_reading_is():
    """OST0001 of oss2 was read 63 s ago."""
    load = two_targets()._replace(
        readings={("scratch", "OST0000"): LastReading("oss1", 3.0),
                  ("scratch", "OST0001"): LastReading("oss2", 63.0),
                  ("home", "MDT0000"): LastReading("mds1", 3.0)},
        missing={"scratch": {"OST0001": "no sweep of oss2 for 63 s"}})
    title, _, *rows, note = lines("job-target", load, "a")
    assert ", swept 3 s to 63 s ago, " in title
    assert ("note: scratch: OST0001: no sweep of oss2 for 63 s; numbers are lower bounds (>=)"
            == note)
    assert {("OST0000", "3 s ago", False), ("OST0001", "63 s ago", True),
            ("MDT0000", "3 s ago", False)} == {
        (next(word for word in row.split() if word[:3] in ("OST", "MDT")),
         " ".join(row.split()[-3:]), ">=" in row) for row in rows}
