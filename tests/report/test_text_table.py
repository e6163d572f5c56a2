"""Tables in each form; those of ASCII are what tabulate draws."""
from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
import tabulate

from iostats.report.text_table import table

TABULATE_NAMES = {"grid": "grid", "plain": "plain", "markdown": "pipe"}


@pytest.mark.parametrize("form, expected", [
    ("grid", ["+------+-----+", "| FS   |   n |", "+======+=====+", "| 日本 |  23 |",
              "+------+-----+", "| ab   |  37 |", "+------+-----+"]),
    ("plain", ["FS      n", "日本   23", "ab     37"]),
    ("markdown", ["| FS   |   n |", "|:-----|----:|", "| 日本 |  23 |", "| ab   |  37 |"])])
def test_a_wide_letter_takes_two_columns(form, expected):
    assert "\n".join(expected) == table(["FS", "n"], [["日本", "23"], ["ab", "37"]], form,
                                        ["left", "right"])


CELL = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)


@hypothesis.given(st.data(), st.sampled_from(sorted(TABULATE_NAMES)))
def test_a_table_is_the_one_that_tabulate_draws(data, form):
    """Also of names with blanks around, of bars, of 16777216, and without rows."""
    headers = data.draw(st.lists(st.sampled_from(["File System", "n", "Up to"]), min_size=1,
                                 max_size=4))
    rows = data.draw(st.lists(st.lists(CELL | st.sampled_from(["-", "16777216", ">= 23"]),
                                       min_size=len(headers), max_size=len(headers)), max_size=4))
    align = data.draw(st.none() | st.lists(st.sampled_from(["left", "right"]),
                                           min_size=len(headers), max_size=len(headers)))
    escaped = [[cell.replace("|", "\\|") if form == "markdown" else cell for cell in row]
               for row in rows]
    expected = tabulate.tabulate(escaped, headers, tablefmt=TABULATE_NAMES[form],
                                 disable_numparse=True, colalign=align if rows else None)
    assert expected == table(headers, rows, form, align)
