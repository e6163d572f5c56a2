"""
The answer to "who loads the file systems" as lines: what each heading, row and note says.
"""
from __future__ import annotations

import pytest
from test_ranking import MIB, Known, T, part, two_targets

from iostats.load import columns, ranking, table
from iostats.load.levels import GAINS, TOTALS
from iostats.load.ranking import LoadQuery
from iostats.load.sums import sum_load

pytestmark = pytest.mark.usefixtures("utc")     # Times are local ones: here, of UTC


def answer(ask, load=None, only=None):
    return ranking.answer(load or two_targets(), ask, Known, only)


def one_part(kind, **known):
    return sum_load([part(j4711=(46 * MIB, 0, 23, 0))], Known, kind, **known)


@pytest.mark.parametrize("load, began", [
    (one_part(TOTALS, at=T), "2026-11-21 01:43:00, totals since the entries began, "),
    (one_part(TOTALS, at=T, began=T - 37), "2026-11-21 01:43:00, totals since 01:42:23, "),
    (one_part(TOTALS, at=T, began=T - 86400),
     "2026-11-21 01:43:00, totals since 2026-11-20 01:43:00, "),
    (one_part(TOTALS, began=T), "totals since 2026-11-21 01:43:00, "),
    (one_part("rates", at=T, span_s=23), "2026-11-21 01:43:00, rates over 23 s, "),
    (one_part("rates", at=T, span_s=2.34), "2026-11-21 01:43:00, rates over 2.3 s, "),
    (one_part(GAINS, at=T),
     "2026-11-21 01:43:00, I/O between the two (time between them unknown: --every S), "),
], ids=["entries", "today", "yesterday", "no moment", "rates", "short", "gains"])
def test_the_title_says_of_when_the_numbers_are(load, began):
    title = table.format_lines(answer(LoadQuery(), load))[0]
    assert f"{began}by job, written first" == title


def test_the_title_says_what_was_asked_for():
    """File systems by the site's name; nothing that moves a cursor."""
    found = answer(LoadQuery("user", "scratch", user="alice", text="a\x1bb", sort="read"))
    title = table.format_lines(found, labels={"scratch": "BW Scratch"}, origin="oss1")[0]
    assert title == ("2026-11-21 01:43:00, rates over 20 s, by user, read first, BW Scratch, "
                     "user alice, with 'a\\x1bb', oss1")


def test_sums_of_file_systems_have_their_names_where_there_is_no_other_column_for_them():
    """Of one user's part of them: the sums above are everybody's."""
    lines = table.format_lines(answer(LoadQuery("fs", user="alice")))
    assert ["(all) home", "(no job) home", "(all) scratch", "(no job) scratch"] == [
        line.split("  ")[0] for line in lines[2:6]]


@pytest.mark.parametrize("ask, load, said", [
    (LoadQuery(user="carol"), None, "(no rows: no I/O matches)"),
    (LoadQuery(text="nothing of that"), None, "(no rows: no I/O matches)"),
    (LoadQuery(file_system="hoem"), None, "(no rows: no data for this file system)"),
    (LoadQuery(), sum_load([part()], Known, at=T, span_s=20), "(no rows: no I/O in this time)"),
    (LoadQuery(), sum_load([part()], Known, TOTALS), "(no rows: no I/O yet)"),
], ids=["user", "text", "file system", "rates", "totals"])
def test_a_table_without_rows_says_why(ask, load, said):
    assert said == table.format_lines(answer(ask, load))[-1]


@pytest.mark.parametrize("most, left", [(4, "(1 more row)"), (2, "(3 more rows)")])
def test_rows_that_are_left_off_are_counted(most, left):
    """There are five."""
    assert left == table.format_lines(answer(LoadQuery()), limit=most)[-1]
    assert left == table.format_lines(answer(LoadQuery(count=most)))[-1]


def test_a_users_own_table_says_whose_the_sums_are():
    assert table.format_lines(answer(LoadQuery(), only="alice"))[-1] == (
        "note: rows are alice's jobs only; (all) and (no job) are everybody's")


def test_a_jobs_load_on_its_nodes_is_marked_and_explained():
    """4711 writes 46 MiB/s on four nodes, 12366 reads 37 MiB/s on two of them."""
    lines = table.format_lines(answer(LoadQuery("node", "scratch")))
    [line] = [line for line in lines if line.startswith("nid004 ")]
    assert ["nid004", "scratch", "~11.5", "~0.0", "~20.5", "~0.0", "1", "4711",
            "alice"] == line.split()
    assert lines[-1] == ("note: ~ job_stats do not tell a job's nodes apart: each has an equal "
                         "share of its load")


def test_targets_that_are_missing_are_named_by_their_reason():
    """Eight by name, of ten with one reason; the sums are lower bounds."""
    missing = {f"OST{number:04x}": "no sweep of oss7" for number in range(10)}
    load = sum_load([part("OST000a", j4711=(46 * MIB, 0, 23, 0))], Known, TOTALS,
                         missing={"scratch": {**missing, "MDT0000": "no sweep of mds1"}})
    *_, sums, _, notes = table.parts(answer(LoadQuery(), load))
    assert [f"note: scratch: {' '.join(sorted(missing)[:8])} and 2 more: no sweep of oss7; numbers "
            f"are lower bounds (>=)",
            "note: scratch: MDT0000: no sweep of mds1; numbers are lower bounds (>=)"] == notes
    assert ["(all)", "scratch", ">=46.0", ">=0.0", ">=23", ">=0"] == sums[0].split()[:6]


def test_more_than_four_file_systems_have_their_sums_together():
    """Five of 2 MiB/s and 23 requests a second each, of cp.0 all: one pair of lines, no row on
    top; and a sixth with no numbers at all makes it a lower bound."""
    parts = [part(fs=f"fs{number}", span_s=1, xcp=(2 * MIB, 0, 23, 0)) for number in range(5)]
    load = sum_load(parts, Known, at=T, span_s=1)
    _, _, sums, rows, _ = table.parts(answer(LoadQuery("user"), load))
    assert [["(all)", "(5)", "10.0", "0.0", "115.0", "0.0"],
            ["(no", "job)", "(5)", "10.0", "0.0", "115.0", "0.0", "100", "%", "of", "requests"]
            ] == [line.split() for line in sums]
    assert 5 == len(rows)
    load = sum_load(parts, Known, at=T, span_s=1, missing={"fs5": {"OST0000": "no sweep"}})
    _, _, sums, _, _ = table.parts(answer(LoadQuery("user"), load))
    assert ["(all)", "(6)", ">=10.0", ">=0.0", ">=115.0", ">=0.0"] == sums[0].split()


def test_file_systems_without_any_numbers_have_no_sums():
    """Unknown is -, never 0."""
    nothing = {f"fs{number}": {"OST0000": "no sweep"} for number in range(5)}
    _, _, sums, _, _ = table.parts(answer(
        LoadQuery("user"), sum_load([], Known, at=T, span_s=1, missing=nothing)))
    assert ["(all)", "(5)", "-", "-", "-", "-"] == sums[0].split()


@pytest.mark.parametrize("written, low, shown", [
    (46 * MIB, {}, "46.0"), (MIB // 100, {}, "<0.1"), (MIB // 100, {"OST0001": "no"}, ">0.0"),
    (0, {}, "0.0"), (0, {"OST0001": "no"}, ">=0.0"), (46 * MIB, {"OST0001": "no"}, ">=46.0")])
def test_what_is_there_is_never_shown_as_nothing(written, low, shown):
    load = sum_load([part(j4711=(written, 0, 23, 0))], Known, TOTALS,
                         missing={"scratch": low} if low else {})
    [row] = table.parts(answer(LoadQuery(), load))[3]
    assert shown == row.split()[2]


def test_bytes_can_be_shown_as_they_are():
    load = sum_load([part(j4711=(46 * MIB + 1, 0, 23, 0))], Known, TOTALS)
    _, heading, _, [row], _ = table.parts(answer(LoadQuery(), load), units="bytes")
    assert ("WR_B", "48,234,497") == (heading.split()[2], row.split()[2])


def test_a_long_note_goes_on_in_the_next_line():
    """By words, two blanks in; in 20 columns and less without them; a longer word is cut."""
    found = answer(LoadQuery(), only="alice")
    assert ["note: rows are alice's jobs only;", "  (all) and (no job) are", "  everybody's"
            ] == table.parts(found, 34)[4]
    assert ["note:", "rows", "are", "alice+"] == table.parts(found, 6)[4][:4]


@pytest.mark.parametrize("text, width, shown", [
    ("scratch", 7, "scratch"), ("scratch", 6, "scrat+"), ("scratch", 1, "+"), ("scratch", 0, ""),
    ("\u5bcc\u58eb\u5c71", 6, "\u5bcc\u58eb\u5c71"), ("\u5bcc\u58eb\u5c71", 5, "\u5bcc\u58eb+"),
    ("\u5bcc\u58eb\u5c71", 4, "\u5bcc+"), ("e\u0301a", 2, "e\u0301a")])
def test_a_name_is_cut_by_the_places_that_it_takes(text, width, shown):
    """A letter of East Asia takes two, an accent of its own none."""
    assert shown == columns.cut(text, width)
