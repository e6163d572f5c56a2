"""
Tables between lines are ours, for the sake of time; tabulate is the witness of what they look like.
"""
from __future__ import annotations

import pytest
import tabulate
from hypothesis import given
from hypothesis import strategies as some

from iostats.report.text_table import table

CELL = some.text(alphabet="ab 1.>=-|+", max_size=9)
SIDE = some.sampled_from(["left", "right"])


def tables(columns):
    """(headers, rows, align) of so many columns; each has a name."""
    def row(cell):
        return some.lists(cell, min_size=columns, max_size=columns)
    return some.tuples(row(CELL.map(str.strip).filter(bool)), some.lists(row(CELL), max_size=5),
                       some.one_of(some.none(), row(SIDE)))


@given(some.integers(1, 5).flatmap(tables))
def test_a_grid_is_as_tabulate_draws_it(given_table):
    headers, rows, align = given_table
    assert tabulate.tabulate(rows, headers, tablefmt="grid", disable_numparse=True,
                             colalign=align if rows else None) == table(
                                 headers, rows, "grid", align)


@pytest.mark.parametrize("form, expected", [
    ("grid", ["+------+-----+", "| FS   |   n |", "+======+=====+", "| 日本 |  23 |",
              "+------+-----+", "| ab   |  37 |", "+------+-----+"]),
    ("plain", ["FS      n", "日本   23", "ab     37"]),
    ("markdown", ["| FS   |   n |", "|:-----|----:|", "| 日本 |  23 |", "| ab   |  37 |"])])
def test_a_wide_letter_takes_two_columns(form, expected):
    """Also where wcwidth is installed, which tabulate takes into account by itself."""
    assert "\n".join(expected) == table(["FS", "n"], [["日本", "23"], ["ab", "37"]], form,
                                        ["left", "right"])
