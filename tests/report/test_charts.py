"""Charts: ticks, coordinates worked out by hand, gaps, and well-formed XML whatever the amounts."""
from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as some

from iostats.report.charts import as_table, style, svg
from iostats.report.charts.chart import (
    Chart,
    Curve,
    Mark,
    NameAxis,
    Panel,
    TimeAxis,
    join_means,
    join_names,
)
from iostats.report.charts.ticks import format_value, make_clock_ticks, make_ticks, make_time_ticks

MIB = 1 << 20


def texts(steps):
    return [text for _, text in steps]


@pytest.mark.parametrize("most, unit, units, expected", [
    (23, "count", "binary", ["0", "10", "20", "30"]),
    (0, "count", "binary", ["0", "0.5", "1"]),
    (41_000, "/s", "binary", ["0", "20k/s", "40k/s", "60k/s"]),
    (37 * MIB, "bytes", "binary", ["0", "20 MiB", "40 MiB"]),
    (37_000_000, "bytes", "decimal", ["0", "20 MB", "40 MB"]),
    (1023, "bytes/s", "binary", ["0", "500 bytes/s", "1,000 bytes/s", "1,500 bytes/s"]),
    (0.023, "share", "binary", ["0 %", "1 %", "2 %", "3 %"]),
    (0.37, "ms", "binary", ["0", "0.2 ms", "0.4 ms"]),
    (math.inf, "count", "binary", ["0", "0.5", "1"])])
def test_ticks_are_round_and_reach_the_most(most, unit, units, expected):
    assert expected == texts(make_ticks(most, unit, units))


@pytest.mark.parametrize("began, ended, expected", [
    (0, 1867, ["0", "10 min", "20 min", "30 min"]),
    (-37, 23, ["-30 s", "-15 s", "0", "15 s"]),
    (0, 0.9, ["0"]),
    (-330, 23, ["-5 min", "-4 min", "-3 min", "-2 min", "-1 min", "0"]),
    (-330, -230, ["-330 s", "-300 s", "-270 s", "-240 s"]),
    (0, 5423, ["0", "30 min", "60 min", "90 min"]),
    (0, 41 * 3600, ["0", "12 h", "24 h", "36 h"]),
    (37_000, 37_041, ["10:16:45", "10:17:00", "10:17:15"]),
    (0, 100 * 86400, ["0", "20 d", "40 d", "60 d", "80 d", "100 d"])])
def test_times_are_those_of_a_clock_all_in_one_unit(began, ended, expected):
    assert expected == texts(make_time_ticks(began, ended))


AT = 1795168807                         # 2026-11-20 10:00:07 UTC


@pytest.mark.parametrize("began, ended, expected", [
    (0, 41, ["10:00:15", "10:00:30", "10:00:45"]),
    (-120, 370, ["10:00", "10:02", "10:04", "10:06"]),
    (-7, 6 * 3600, ["10:00", "12:00", "14:00", "16:00"]),
    (0, 86400, ["12:00", "18:00", "Nov 21", "06:00"]),
    (0, 30 * 86400, ["Nov 26", "Dec 03", "Dec 10", "Dec 17"])])
def test_where_the_start_is_known_times_are_those_of_a_clock(began, ended, expected, utc):
    """Those of the day, in round minutes; midnight is the day that begins."""
    assert expected == texts(make_clock_ticks(AT, began, ended))


def test_a_time_that_no_calendar_has_is_not_labelled():
    assert [] == make_clock_ticks(1e20, 0, 60)


def paths(markup):
    """{classes: d} of the curves."""
    return dict(re.findall(r'<path class="([^"]*)" d="([^"]*)"', markup))


def over_time(*values, kind="read", others=None, **how):
    curves = [Curve("read", kind, list(values))]
    if others:
        curves.append(Curve("all jobs", "all", others))
    return Chart("I/O over time", "", TimeAxis(0.0, 15.0, len(values)),
                 [Panel("Read", "count", curves)], of="scratch", **how)


def test_a_curve_is_steps_of_which_unknown_ones_are_gaps():
    """Up to 30, in 76 pixels: 23 is 17.7 from the top, 15 half way down; None has no line."""
    found = paths(svg.draw_inline(over_time(23, 23, 15, None, 0, 30,
                                            others=[30, None, None, 15, 15, 0]),
                                  "c1"))
    assert {"c-gap": "M3 0H4V76H3Z",
            "c-area c-read": "M0 76V17.7H2V38H3V76ZM4 76V76H5V0H6V76Z",
            "c-line c-all": "M0 0H1M3 38H5V76H6"} == found


def test_what_is_not_zero_is_seen():
    """A millionth of the most is less than a pixel, and is drawn with 0.8."""
    assert "M0 76V0H1V75.2H2V76Z" == svg.draw_area([1_000_000, 1], 1_000_000)


def test_bars_stand_apart_and_the_busiest_is_named():
    chart = Chart("OSTs", "", NameAxis(["OST0000", "OST0001"]), [
        Panel("Read", "bytes", [Curve("read", "read", [20 * MIB, 40 * MIB])], ">= ", 30 * MIB)])
    markup = svg.draw_inline(chart, "c1")
    assert {"c-bar c-read": "M.12 76V38H.88V76ZM1.12 76V0H1.88V76Z"} == paths(markup)
    assert "most: OST0001, &gt;= 40.0 MiB</tspan>" in markup
    assert "dashed line: even share, ~ 30.0 MiB<" in markup
    assert '<line class="c-even" x1="0" x2="100%" y1="45" y2="45"/>' in markup


def test_what_is_dashed_is_said_where_the_rest_is_not_known():
    markup = svg.draw_inline(over_time(None, None, others=[23, 37])._replace(panels=[Panel(
        "Read", "count", [Curve("read", "read", [None, None]), Curve("all jobs", "all", [23, 37])]
    )]), "c1")
    assert "not known</tspan>" in markup and ">dashed line: all jobs</tspan>" in markup


def test_a_share_of_lower_bounds_may_be_wrong_either_way():
    """23 of 60 requests that are known; more of either size may be missing."""
    chart = Chart("", "", NameAxis(["4K", "1M"]), [
        Panel("Read", "share", [Curve("read", "read", [23 / 60, 37 / 60])], ">= ")])
    assert "most: 1M, ~ 62 %</tspan>" in svg.draw_inline(chart, "c1")
    assert [["4K", "~ 38 %"], ["1M", "~ 62 %"]] == as_table.make_rows(chart)[1]


def test_an_event_is_marked_where_it_happened():
    """A third of 45 seconds, in each plot, not through titles; one after the end is not there."""
    markup = svg.draw_inline(over_time(23, 37, 41,
                                       marks=[Mark(15.0, "evicted"), Mark(46.0, "late")]),
                             "c1")
    assert 1 == markup.count('class="c-mark"')
    assert ('<title>evicted</title><line class="c-mark" x1="33.33%" x2="33.33%" y1="26" y2="102"/>'
            in markup)
    two = over_time(23, 37, 41, marks=[Mark(15.0, "evicted")])
    assert re.findall('class="c-mark" .* y1="136" y2="212"', svg.draw_inline(
        two._replace(panels=two.panels * 2), "c1"))


def labels_of(markup):
    """The texts below the plots."""
    return re.findall(r'<text class="c-[sme][^"]*" x="[^"]*" y="116">([^<]*)<', markup)


def test_names_below_bars_are_cut_as_they_are_shown_and_each_stands_once():
    """Two of 17 columns have room on a phone; what is escaped is as long as its escape."""
    def below(*names):
        return labels_of(svg.draw_inline(Chart("", "", NameAxis(list(names)), [
            Panel("", "count", [Curve("", "read", [23] * len(names))])]), "c1"))
    assert ["nid1", "nid2"] == below("nid1", "nid2")
    assert ["nid1", "very-long-name-o+"] == below("nid1", "very-long-name-of-a-node-" + "x" * 41)
    assert ["\\x1b[31mred\\x1b[+", "\\x1b[31mred\\x1b[+"] == below(*["\x1b[31mred\x1b[0m"] * 4)


def test_a_time_at_the_end_of_an_axis_does_not_stand_out():
    """At 60 of 60 seconds its text ends there; that at the begin begins there."""
    markup = svg.draw_inline(over_time(23, 37, 41, 43), "c1")
    assert '<text class="c-s" x="0%"' in markup and '<text class="c-e" x="100%"' in markup


def test_what_is_grey_and_what_is_marked_is_said():
    chart = over_time(23, None, marks=[Mark(15.0, "evicted OST0003")])
    assert ["1: evicted OST0003, after 15 s", "grey: not known"] == svg.list_remarks(chart)
    assert [] == svg.list_remarks(over_time(23, 37))
    latency = Panel("Mean time", "ms", [Curve("mean time", "latency", [23, None])])
    assert ["grey: not known, or no request"] == svg.list_remarks(
        over_time(23, 37)._replace(panels=[latency]))


def test_neighbours_share_a_bar_where_there_are_too_many():
    axis, [column] = join_names(["a", "b", "c", "d", "e"], [[23, 37, None, 41, None]], 3)
    assert (["a", "c", "e"], 2, [37, 41, None]) == (axis.names, axis.each, column)
    assert [30, 41, None] == join_means([23, 37, None, 41, None], 2)


def test_a_table_has_the_busiest_names_in_their_order_and_counts_the_rest():
    chart = Chart("OSTs", "", NameAxis(["a", "b", "c"]), [
        Panel("Read", "bytes", [Curve("read", "read", [23, 41, None])], ">= "),
        Panel("Written", "bytes", [Curve("written", "write", [0, 37, 37])])])
    assert (["name", "read", "written"], [["b", ">= 41 bytes", "37 bytes"],
                                          ["c", "-", "37 bytes"]], "and 1 more") == (
        as_table.make_rows(chart, most_names=2))


def test_a_table_over_time_has_means():
    headings, rows, rest = as_table.make_rows(over_time(20, 26, None, 41, None), most_rows=3)
    assert ["from", "read"] == headings
    assert [["00:00:00", "23"], ["00:00:30", "41"], ["00:01:00", "-"]] == rows
    assert "Each row is the mean of 2 intervals of the chart." == rest


@pytest.mark.parametrize("began, every_s, expected", [
    (-3.7, 60.0, ["-3.7 s", "56.3 s", "116.3 s"]),
    (476.3, 60.0, ["476.3 s", "536.3 s", "596.3 s"]),
    (476.3, 62.0, ["00:07:56", "00:08:58", "00:10:00"])])
def test_times_of_a_table_are_in_one_form(began, every_s, expected):
    axis = TimeAxis(began, every_s, 3)
    chart = Chart("", "", axis, [Panel("Read", "count", [Curve("read", "read", [23, 37, 41])])])
    assert expected == [row[0] for row in as_table.make_rows(chart)[1]]


def test_a_file_stands_alone_with_colours_of_its_own():
    text = svg.draw_file(over_time(23, 37), "job 4711 of alice")
    root = ElementTree.fromstring(text)
    assert "{http://www.w3.org/2000/svg}svg" == root.tag
    assert "var(" not in text and style.LIGHT["read"] in text and "%" not in root.get("width")
    assert "job 4711 of alice" in text
    assert "viewBox" in root.attrib and style.DARK["ground"] in svg.draw_file(
        over_time(23), "", theme=style.DARK)


def luminance(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    """As WCAG 2 has it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_all_colours_have_contrast(theme):
    """4.5 of all that is text or a curve, on the ground and on panels."""
    for name in (*style.KINDS, "ink", "dim", "bad", "good", "warn", "link"):
        assert contrast(theme[name], theme["ground"]) >= 4.5, name
    for name in ("ink", "dim"):
        assert contrast(theme[name], theme["panel"]) >= 4.5, name
    for name in ("good", "bad", "warn"):
        assert contrast(theme[name], theme[f"{name}-ground"]) >= 4.5, name


AMOUNTS = some.lists(some.one_of(
    some.none(), some.integers(0, 2**80), some.floats(), some.just(0)), max_size=60)
TEXT = some.text(max_size=30)


def coordinates_of(root):
    """All numbers in the attributes that have coordinates."""
    for one in root.iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "viewBox", "d"):
            for number in re.findall(r"[^\sA-Za-z,%]+", one.get(name, "")):
                yield float(number)
            assert not re.search("nan|inf", one.get(name, ""), re.IGNORECASE)


@given(AMOUNTS, AMOUNTS, TEXT, some.booleans(), some.sampled_from(
    ["bytes", "bytes/s", "count", "/s", "ms", "share"]),
    some.floats(-1e12, 1e12), some.floats(1e-3, 1e9))
def test_any_amounts_give_well_formed_svg(values, others, text, by_name, unit, began, every_s):
    values = values or [None]
    axis = NameAxis([f"{text}{number}" for number in range(len(values))]) if by_name else TimeAxis(
        began, every_s, len(values))
    others = (others + [None] * len(values))[:len(values)]
    chart = Chart(text, text, axis, [
        Panel(text, unit, [Curve(text, "read", values), Curve(text, "all", others)])],
        [Mark(began, text)], text)
    for markup in (svg.draw_inline(chart, "c1"), svg.draw_file(chart, text)):
        numbers = list(coordinates_of(ElementTree.fromstring(markup)))
        assert numbers and all(map(math.isfinite, numbers))
    as_table.make_rows(chart)


@given(some.floats(1e-9, 1e30), some.sampled_from(["bytes", "count", "/s", "share"]))
def test_few_ticks_reach_any_amount(most, unit):
    found = make_ticks(most, unit)
    assert 2 <= len(found) <= 6
    assert found[-1][0] >= most * (1 - 1e-6) and found[0][0] == 0
    assert len(set(texts(found))) == len(found)


@pytest.mark.parametrize("value, unit, text", [
    (None, "/s", "-"), (0, "share", "0 %"), (0.0023, "share", "0.23 %"), (23.0, "/s", "23/s"),
    (0.041, "/s", "0.041/s"), (1e6, "count", "1,000,000")])
def test_values_as_text(value, unit, text):
    assert text == format_value(value, unit)
