"""The growth curves are drawn from what `benchmarks/run.py` has printed."""
from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

_BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"

RESULTS = """\
2026-11-21, 2 cores

scale: nodes that stop at the same moment

nodes      seconds    peak MiB
-------  ---------  ----------
23            0.37          31
3,700         4.10          53
all were counted; CPU: of the server, the printing included
another note

server: something else

nodes    iostats
-------  ---------
1        446
"""


@pytest.fixture
def curves(monkeypatch):
    monkeypatch.syspath_prepend(str(_BENCHMARKS))
    import curves
    return curves


def test_a_table_is_read_back_without_its_notes(curves):
    tables = curves.tables_of(RESULTS)
    assert (["nodes", "seconds", "peak MiB"], [["23", "0.37", "31"], ["3,700", "4.10", "53"]]) == (
        tables["scale: nodes that stop at the same moment"])
    assert ["1", "446"] in tables["server: something else"][1]


@pytest.mark.parametrize("cell, amount", [
    ("23", 23), ("100,000", 100_000), ("20 targets x 3,700 jobs", 74_000)])
def test_a_first_cell_says_how_many(curves, cell, amount):
    assert amount == curves._amount(cell)


def test_points_are_multiplied_as_the_curve_says(curves):
    curve = curves.Curve("a.svg", "A", "scale: nodes", "nodes",
                         {"all": ("seconds", 10), "sum": ("peak MiB", "x")}, "s")
    assert {"all": [(23, 3.7), (3700, 41.0)], "sum": [(23, 713), (3700, 196_100)]} == (
        curves.points_of(curve, curves.tables_of(RESULTS)))


def test_a_table_that_is_not_there_is_one_clear_line(curves):
    curve = curves.CURVES[1]
    with pytest.raises(ValueError, match="no table 'scale: jobs'"):
        curves.points_of(curve, curves.tables_of(RESULTS))


@pytest.mark.parametrize("name", ["nodes", "jobs", "targets", "entries"])
def test_what_is_drawn_is_on_the_paper(curves, name):
    """The kept drawings are whole XML, and no mark is outside of its axes."""
    root = ET.parse(_BENCHMARKS / "curves" / f"{name}.svg").getroot()
    marks = [(float(one.get("cx")), float(one.get("cy")))
             for one in root.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(marks) > 2
    for x, y in marks:
        assert 70 <= x <= 620 and 40 <= y <= 350
