"""
Times as users of Slurm write them; what sacct(1) of Slurm 22.05 says they mean.
"""

import time
from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iostats.base.errors import UsageError
from iostats.base.sacct_time import parse_time


@pytest.fixture
def zone(monkeypatch):
    """Let the local time be that of a place."""
    def choose(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()
    yield choose
    monkeypatch.undo()
    time.tzset()


def at(*parts):
    return datetime(*parts).timestamp()


NOW = (2026, 11, 21, 13, 37, 41)


@pytest.mark.parametrize("text, expected", [
    ("2026-11-17", (2026, 11, 17)), ("2026-11-17T23:05", (2026, 11, 17, 23, 5)),
    ("2026-11-17T23:05:59", (2026, 11, 17, 23, 5, 59)), ("2026-1-7", (2026, 1, 7)),
    ("2026-11-17-23:05", (2026, 11, 17, 23, 5)), ("2026-11-17 23:05", (2026, 11, 17, 23, 5)),
    ("2024-02-29", (2024, 2, 29)),
    ("1117", (2026, 11, 17)), ("1117-23:05", (2026, 11, 17, 23, 5)), ("111723", (2023, 11, 17)),
    ("111723-23:05:59", (2023, 11, 17, 23, 5, 59)),
    ("11.17", (2026, 11, 17)), ("11.17.23", (2023, 11, 17)), ("11/7", (2026, 11, 7)),
    ("11/17/23-07:05", (2023, 11, 17, 7, 5)),
    ("1130", (2026, 11, 30)), ("1201", (2025, 12, 1)), ("0101", (2026, 1, 1)),
    ("07:05", (2026, 11, 21, 7, 5)), ("7:05:41", (2026, 11, 21, 7, 5, 41)),
    ("23:59", (2026, 11, 21, 23, 59)), ("7:05PM", (2026, 11, 21, 19, 5)),
    ("12:05am", (2026, 11, 21, 0, 5)), ("12:05pm", (2026, 11, 21, 12, 5)),
    ("today", (2026, 11, 21)), ("midnight", (2026, 11, 21)), ("noon", (2026, 11, 21, 12)),
    ("fika", (2026, 11, 21, 15)), ("teatime", (2026, 11, 21, 16)),
    ("yesterday", (2026, 11, 20)), ("tomorrow", (2026, 11, 22)),
    ("today-07:05", (2026, 11, 21, 7, 5)), ("yesterday-23:05", (2026, 11, 20, 23, 5)),
    ("now", NOW), ("now-37", (2026, 11, 21, 13, 37, 4)), ("now+37", (2026, 11, 21, 13, 38, 18)),
    ("now-3days", (2026, 11, 18, 13, 37, 41)), ("now-1day", (2026, 11, 20, 13, 37, 41)),
    ("now-2hours", (2026, 11, 21, 11, 37, 41)), ("now-7minutes", (2026, 11, 21, 13, 30, 41)),
    ("now-2weeks", (2026, 11, 7, 13, 37, 41)), ("now-41seconds", (2026, 11, 21, 13, 37)),
    ("now-3d", (2026, 11, 18, 13, 37, 41)), ("NOW-2H", (2026, 11, 21, 11, 37, 41)),
    ("now-7min", (2026, 11, 21, 13, 30, 41)), (" Today ", (2026, 11, 21)),
    ("7:05 PM", (2026, 11, 21, 19, 5)), ("1117-7:05:41 pm", (2026, 11, 17, 19, 5, 41)),
    ("1117-noon", (2026, 11, 17, 12)), ("2026-11-17Tnoon", (2026, 11, 17, 12)),
    ("tomorrow teatime", (2026, 11, 22, 16)), ("today  07:05", (2026, 11, 21, 7, 5)),
    ("07:05 11/17", (2026, 11, 17, 7, 5)), ("noon-yesterday", (2026, 11, 20, 12)),
    ("now - 3days", (2026, 11, 18, 13, 37, 41)), ("now -37", (2026, 11, 21, 13, 37, 4)),
    ("now-3 days", (2026, 11, 18, 13, 37, 41)), ("UTS1795264661", NOW)])
def test_each_form_of_a_time_is_the_moment_that_sacct_takes_it_for(zone, text, expected):
    """Seen on 21 November 2026, 13:37:41."""
    zone("Europe/Zurich")
    assert at(*expected) == parse_time(text, at(*NOW))


@pytest.mark.parametrize("text", [
    "", " ", "soon", "now-", "now-3fortnights", "now*3", "now-days", "13", "13:3", "24:00", "13:60",
    "13:37:60", "0:05pm", "13:05PM", "2026-13-01", "2026-02-29", "2026-11-17T", "2026-11-17T13",
    "2026/11/17", "uts", "uts-5", "uts17x",
    "uts999999999999", "noon noon", "07:05 pm am",
    "20261117", "1131", "0000", "11.17/23", "now-9999999999weeks", "0001-01-01x",
    "today 7", "\u0661\u0661\u0661\u0667", "13:37\n1", "x" * 5000, "9999999999999"])
def test_what_is_no_time_is_one_line_that_names_its_option(text):
    with pytest.raises(UsageError, match=r"^--since: expected a time such as .*, got '") as error:
        parse_time(text, at(*NOW), "--since")
    assert len(str(error.value)) < 200


def test_a_day_without_a_clock_time_begins_at_midnight_when_the_clocks_change(zone):
    """On 25 October 2026 Zurich has 25 hours; `now-1day` is 24 of them, as with Slurm."""
    zone("Europe/Zurich")
    noon = 1_792_926_000.0                              # 2026-10-25T12:00+01:00
    assert noon - 13 * 3600 == parse_time("today", noon)
    assert noon - 24 * 3600 == parse_time("now-1day", noon) == parse_time("yesterday-13:00", noon)


MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2099, 12, 31)).map(
    lambda one: one.replace(microsecond=0, fold=0))


@given(MOMENTS)
def test_what_is_printed_is_taken_again(one):
    """The form of sacct's own output."""
    assert one.timestamp() == parse_time(one.strftime("%Y-%m-%dT%H:%M:%S"), 0.0)


@given(MOMENTS, MOMENTS)
def test_a_date_without_a_year_is_no_more_than_a_year_ago_and_of_no_later_month(one, now):
    if (one.month, one.day) == (2, 29):
        one = one.replace(day=28)
    found = datetime.fromtimestamp(parse_time(one.strftime("%m%d-%H:%M:%S"), now.timestamp()))
    assert (one.month, one.day, one.hour) == (found.month, found.day, found.hour)
    assert 0 <= 12 * (now.year - found.year) + now.month - found.month < 12


@given(st.integers(0, 10**7), st.sampled_from(["seconds", "minutes", "hours", "days", "weeks"]),
       st.sampled_from("+-"), st.data())
def test_a_unit_can_be_cut_short(count, unit, sign, data):
    short = unit[:data.draw(st.integers(1, len(unit)))]
    assert parse_time(f"now{sign}{count}{unit}", 1.8e9) == parse_time(f"now{sign}{count}{short}",
                                                                      1.8e9)


@given(st.one_of(st.text(), st.text("0123456789-:T./ nowtday+", max_size=20)))
@example("now-99999999999")
@example("\0")
def test_any_text_is_a_moment_or_a_mistake(text):
    """And nothing else."""
    try:
        assert isinstance(parse_time(text, 1_795_225_060.0), float)
    except UsageError as error:
        assert str(error).isprintable()
