"""Which two reports of a node are of the same time."""
from __future__ import annotations

import pytest

from iostats.totals.node_report import Report, WorkPeriod, do_overlap, find_period


def period(started, ended, up=0.0, boot_id="first boot"):
    """By the wall clock; `up`: from it to the seconds since boot, 0 where those are not known."""
    return WorkPeriod("seq", boot_id, started, ended, up and started + up, up and ended + up)


@pytest.mark.parametrize("a, b, expected", [
    (period(100, 160), period(130, 190), True),
    (period(100, 160), period(160, 220), False),
    (period(100, 160), period(159.5, 220), False),
    (period(100, 160), period(158, 220), True),
    (period(100, 160), period(100, 160, boot_id="second boot"), False),
    (period(100, 160, up=7), period(159.9, 220, up=7), True),
    (period(100, 160, up=7), period(100, 160, up=3607), False),
    (period(100, 160, up=7), period(130, 190), True),
], ids=["in part", "one after the other", "clocks differ by half a second", "by two seconds",
        "booted in between", "since boot, to the millisecond", "the wall clock was set",
        "only one knows the time since boot"])
def test_two_reports_of_the_same_time_would_count_work_twice(a, b, expected):
    assert expected == do_overlap(a, b) == do_overlap(b, a)


def test_a_report_is_of_the_time_before_its_end():
    report = Report("nid1", "23", "first boot", "alice", "", 160.0, 60.0, 0.0, {}, [],
                    uptime_s=1160.0)
    assert WorkPeriod("23", "first boot", 100.0, 160.0, 1100.0, 1160.0) == find_period(report)
