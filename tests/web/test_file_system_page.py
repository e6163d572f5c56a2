"""
The charts of a file system over time, from the lines that the site's server tells.
"""
from __future__ import annotations

import re

import pytest

from iostats.load.time_lines import Line
from iostats.web.file_system_page import make_figure

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("utc")     # Times are local ones: here, of UTC


def titles(found):
    return re.findall(r'class="c-title"[^>]*>([^<]*)<', found["svg"])


def test_what_was_not_done_has_no_plot():
    """Of one that only punches there are requests; of one that does nothing all plots say so."""
    idle = [0, 0, None]
    found = make_figure("4711", Line(0.0, 23.0, {
        "read_bytes": idle, "write_bytes": idle, "requests": [23, 37, None]}), "c1", (0.0, 69.0))
    assert ["Requests"] == titles(found) and ["from", "requests"] == found["headings"]
    found = make_figure("4711", Line(0.0, 23.0, {
        "read_bytes": idle, "write_bytes": idle, "requests": idle}), "c1", (0.0, 69.0))
    assert ["Read", "Written", "Requests"] == titles(found)


def test_a_gap_makes_no_other_rate_a_lower_bound():
    """An interval that is known in part does: 23 MiB in 23 s of which half is known."""
    for known, peak in (([0, 1], "peak 1.0 MiB/s"), ([0, 0.5], "peak &gt;= 1.0 MiB/s")):
        line = Line(0.0, 23.0, {"read_bytes": [None, 23 * MIB]}, known)
        assert f">{peak}<" in make_figure("4711", line, "c1", (0.0, 46.0))["svg"]


def test_what_is_grey_is_said():
    """Of an interval nothing is known; in another one there was no request that took a time."""
    line = Line(0.0, 23.0, {"requests": [23, 0], "busy_us": [46, 0], "timed": [23, 0]})
    assert ["grey: not known, or no request"] == make_figure(
        "OST0007", line, "c1", (0.0, 46.0))["remarks"]
    line = Line(0.0, 23.0, {"requests": [23, None]})
    assert ["grey: not known"] == make_figure("OST0007", line, "c1", (0.0, 46.0))["remarks"]


def test_the_axis_has_the_whole_period_that_was_asked_for():
    """23 s are known, in the middle of 92 s that began at 10:00:07 UTC; what is before is grey."""
    since = 1795168807
    line = Line(since + 46.0, 23.0, {"requests": [37]})
    found = make_figure("scratch", line, "c1", (since, since + 92))
    assert ["2026-11-20 10:00:53"] == [row[0] for row in found["rows"]]
    assert ["10:00:30", "10:01:00", "10:01:30"] == re.findall(
        r'<text class="c-[sme]" x="[^"]*" y="[^"]*">([^<]*)<', found["svg"])
    assert ["0%", "75%"] == re.findall(r'<rect class="c-gap" x="([^"]*)"', found["svg"])
    assert '<svg x="50%"' in found["svg"] and ["grey: not known"] == found["remarks"]
