"""
When an agent sweeps, by which clock, and how much of a core it takes: with clocks made by hand.
"""
from __future__ import annotations

import pytest

from iostats.storage.schedule import Pace, ServerClock, SweepClock, find_next_slot, find_pause_s
from iostats.storage.targets import LocalTarget


@pytest.fixture
def wall():
    """[seconds since 1970, seconds of a clock that only goes on]."""
    return [1_795_225_391.0, 1_000.0]


def clock_of(kind, wall):
    return kind(lambda: wall[0], lambda: wall[1])


def test_two_storage_servers_with_other_clocks_sweep_in_the_same_slots(tmp_path):
    """One never knew the server's time before its first sweep, the other one did."""
    assert 1_795_225_400 == find_next_slot(1_795_225_391.2, 20, None)
    assert 1_795_225_400 == find_next_slot(1_795_225_399.9, 20, None)
    assert 1_795_225_420 == find_next_slot(1_795_225_399.9, 20, 1_795_225_400)
    assert 1_795_225_420 == find_next_slot(1_795_225_400.0, 20, 1_795_225_400)
    # A clock that was set back by an hour is no reason to wait for an hour.
    assert 1_795_221_800 == find_next_slot(1_795_221_799.9, 20, 1_795_225_400)


@pytest.mark.parametrize("wanted, intervals, pause, said", [
    (0, [600, 600], 200, False), (0, [600, 90], 25, False), (20, [600], 20, False),
    (0, [0, 90], 25, False), (0, [0, None], 50, False), (900, [0], 900, False),
    (0, [86_400], 200, False), (300, [86_400], 300, False), (0, [2], 1, False), (0, [], 50, False),
    (201, [600], 200, True), (20, [41], 10, True), (0, [500], 100, False), (31, [93], 31, False),
])
def test_a_sweep_comes_at_a_third_of_the_cleanup_interval_at_most(wanted, intervals, pause, said):
    found, lines = [LocalTarget("scratch", "OST0000", [], one) for one in intervals], []
    assert wanted or 200 % pause == 0            # all storage servers meet once in 200 s
    assert pause == find_pause_s(wanted, found, lines.append)
    assert said == bool(lines)


def test_what_was_idle_before_is_no_credit():
    """
    25 % of a core: after an hour without work, and a second of it, 2 s in which it took all of the
    core cost 6 s of sleep.
    """
    used, slept = [0.0, 0.0], []

    def sleep(seconds):
        slept.append(seconds)
        used[1] += seconds

    def work(seconds):
        used[0] += seconds
        used[1] += seconds
    pace = Pace(25, lambda: used[0], lambda: used[1], sleep)
    used[1] += 3600
    work(1)
    pace.pause()
    assert [] == slept
    work(2)
    pace.pause()
    assert [6.0] == slept


def test_a_clock_that_is_set_back_puts_no_reading_before_another(wall):
    """By 600 s: pauses of 20 s are 18 s for a while, then it is the wall clock again."""
    clock = clock_of(SweepClock, wall)
    assert 1_795_225_391.0 == clock.now()
    wall[:] = 1_795_224_811.0, 1_020.0
    assert pytest.approx(1_795_225_409.0) == clock.now()
    wall[:] = 1_795_224_831.0, 1_040.0
    assert pytest.approx(1_795_225_427.0) == clock.now()
    wall[:] = 1_795_231_391.0, 7_600.0
    assert 1_795_231_391.0 == clock.now()


def test_a_clock_that_was_wrong_by_more_than_an_hour_begins_anew(wall):
    """A machine that was booted in another time zone: for months it would be a tenth slower."""
    clock = clock_of(SweepClock, wall)
    clock.now()
    wall[:] = 1_795_225_391.0 - 3_500, 1_001.0
    assert not clock.reset_if_wrong()
    wall[:] = 1_795_225_391.0 - 32_400, 1_002.0
    assert clock.reset_if_wrong()
    assert 1_795_225_391.0 - 32_400 == clock.now()
    assert not clock.reset_if_wrong()


def test_the_servers_time_is_known_whatever_happens_to_our_own_clock(wall):
    """Else a clock that was set back by a day would plan sweeps of yesterday."""
    clock = clock_of(ServerClock, wall)
    assert (1_795_225_391.0, False) == (clock.now(), clock.is_known)
    clock.learn(86_400.0)
    wall[:] = wall[0] - 86_000.0, 1_023.0
    assert (1_795_225_391.0 - 86_400.0 + 23.0, True) == (clock.now(), clock.is_known)
