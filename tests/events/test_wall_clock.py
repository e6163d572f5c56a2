"""
From the log's clock to the wall clock, with anchors by hand.
"""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.events.wall_clock import WallClock

BOOTED = 1_795_000_000.0


def test_from_the_boot_on():
    assert BOOTED + 23.5 == WallClock([(0, BOOTED)]).compute_time(23_500_000)


def test_between_two_anchors_it_is_in_proportion():
    """The log's clock is slow: 900 s of it were 901."""
    clock = WallClock([(0, BOOTED), (900_000_000, BOOTED + 901)])
    assert pytest.approx(BOOTED + 450.5) == clock.compute_time(450_000_000)
    assert pytest.approx(BOOTED + 902) == clock.compute_time(901_000_000)


def test_a_clock_that_was_set_is_believed_as_it_is_now():
    """It was an hour behind at the boot, which the kernel logged by its own clock."""
    clock = WallClock([(0, BOOTED - 3600), (900_000_000, BOOTED + 900)])
    assert pytest.approx(BOOTED + 23) == clock.compute_time(23_000_000)


def test_a_line_that_shows_the_wall_clock():
    """`cur 1795333379`, 758.2 s after the boot; dmesg -T says a second less."""
    clock = WallClock([(0, 1_795_332_620.0)])
    assert 1_795_333_379.0 == clock.compute_time(758_211_829, 1_795_333_379)
    assert pytest.approx(1_795_333_422.2, abs=0.1) == clock.compute_time(801_366_283)
    assert pytest.approx(1_795_332_999.5, abs=0.1) == clock.compute_time(379_105_914)


def test_a_line_of_another_clock_is_not_believed():
    clock = WallClock([(0, BOOTED)])
    assert BOOTED + 23 == clock.compute_time(23_000_000, 37)


def test_a_line_came_after_the_last_reading_and_before_this_one():
    clock = WallClock([(0, BOOTED)])
    clock.set_interval(BOOTED + 900, BOOTED + 901)
    assert BOOTED + 900 == clock.compute_time(898_000_000)
    clock.set_interval(None, BOOTED + 950)
    assert BOOTED + 950 == clock.compute_time(990_000_000)


@given(st.lists(st.tuples(st.integers(0, 2**53), st.floats(0, 4e9)), max_size=40),
       st.lists(st.tuples(st.integers(0, 2**53), st.none() | st.integers(0, 2**33)), max_size=20))
def test_any_anchors_give_a_time(anchors, asked):
    clock = WallClock(anchors)
    for usec, printed in asked:
        assert 0 <= clock.compute_time(usec, printed) < 2**54
    assert len(clock.anchors) <= 17
    again = WallClock(clock.anchors)
    assert [clock.compute_time(usec) for usec, _ in asked] == [
        again.compute_time(usec) for usec, _ in asked]
