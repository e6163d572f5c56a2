"""When a target will be full."""
from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from iostats.load.forecast import DAY_S, WEEK_S, forecast

T = 1_795_225_060.0


def days(*used, began=T):
    """Readings of which each is a day later."""
    return [(began + number * DAY_S, amount) for number, amount in enumerate(used)]


def in_days(found, last):
    """full_at, earliest and latest of a Forecast, in days from the last reading."""
    return [None if one is None else round((one - last) / DAY_S, 3)
            for one in (found.full_at, found.earliest, found.latest)]


@pytest.mark.parametrize("used, left, expected", [
    ((100, 123, 146, 169), 207, [9.0, 9.0, 9.0]),
    ((100, 137, 146, 169), 207, [9.0, round(207 / 37, 3), 23.0]),
    ((100, 90, 146, 169), 207, [9.0, round(207 / 56, 3), None]),
    ((169, 146, 123, 100), 207, [None, None, None]),
    ((100, 100), 41, [None, None, None]),
    ((100, 123), 46, [2.0, None, None]),
    ((100, 101, 102), 10_000, [None, None, None]),
    ((100, 123, 146), 0, [0.0, 0.0, 0.0]),
], ids=["steady", "days that differ", "a day when it shrank", "shrinks", "stays", "one day alone",
        "in more than ten years", "full already"])
def test_a_forecast(used, left, expected):
    readings = days(*used)
    assert expected == in_days(forecast(readings, left), readings[-1][0])


def test_less_than_a_day_supports_no_forecast():
    assert forecast([(T, 23)], 41) is None
    assert forecast([(T, 23), (T + DAY_S - 1, 37)], 41) is None


def test_only_the_last_week_counts():
    readings = [(T, 0), *days(*range(1000, 1184, 23), began=T + 2 * WEEK_S)]
    found = forecast(readings, 46)
    assert (T + 2 * WEEK_S, 23.0) == (found.since, found.per_day)
    assert [2.0, 2.0, 2.0] == in_days(found, readings[-1][0])


def test_a_gap_makes_one_long_day():
    """Nothing was read for four days, so the growth between them has one rate."""
    readings = [(T, 100), (T + DAY_S, 123), (T + 5 * DAY_S, 171)]
    assert [round(142 / 14.2, 3), round(142 / 23, 3), round(142 / 12, 3)] == (
        in_days(forecast(readings, 142), T + 5 * DAY_S))


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(600, 200_000), st.integers(-10**15, 10**15)), max_size=60),
       st.integers(0, 10**16))
def test_the_range_contains_the_forecast(steps, left):
    readings = [(T, 10**17)]
    for seconds, gained in steps:
        readings.append((readings[-1][0] + seconds, readings[-1][1] + gained))
    found = forecast(readings, left)
    if found is None or found.full_at is None:
        return
    last = readings[-1][0]
    assert found.since >= last - WEEK_S and found.per_day > 0
    assert found.full_at >= last
    if found.earliest is not None:
        assert found.earliest <= found.full_at + 1e-3
    if found.latest is not None:
        assert found.full_at <= found.latest + 1e-3
