"""Tables in each form; those of ASCII are what tabulate draws."""
from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
import tabulate

from iostats.report.screen import LOG, Screen
from iostats.report.text_table import format_table

TABULATE_NAMES = {"grid": "grid", "plain": "plain", "markdown": "pipe"}


@pytest.mark.parametrize("form, expected", [
    ("grid", ["+------+-----+", "| FS   |   n |", "+======+=====+", "| 日本 |  23 |",
              "+------+-----+", "| ab   |  37 |", "+------+-----+"]),
    ("plain", ["FS      n", "日本   23", "ab     37"]),
    ("markdown", ["| FS   |   n |", "|:-----|----:|", "| 日本 |  23 |", "| ab   |  37 |"])])
def test_a_wide_letter_takes_two_columns(form, expected):
    assert "\n".join(expected) == format_table(["FS", "n"], [["日本", "23"], ["ab", "37"]],
                                               LOG._replace(form=form), ["left", "right"])


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
    assert expected == format_table(headers, rows, Screen(1000, False, None, form), align)


def test_a_table_that_is_too_wide_has_its_texts_broken_and_then_its_columns_apart():
    """Nothing is cut off; what is in several parts has the first column in each."""
    rows = [["scratch-with-a-long-name", "23", "41"], ["home", "37", "53"]]
    assert """\
File System         reads
scratch-with-a-l       23
ong-name
home                   37
File System         writes
scratch-with-a-l        41
ong-name
home                    53""" == format_table(["File System", "reads", "writes"], rows,
                                              Screen(26, False, None, "plain"),
                                              ["left", "right", "right"])
    assert """\
+------------------+---------+
| File System      |   reads |
+==================+=========+
| scratch-with-a-l |      23 |
| ong-name         |         |
+------------------+---------+
| home             |      37 |
+------------------+---------+""" == format_table(["File System", "reads"],
                                                  [row[:2] for row in rows],
                                            Screen(30, False, None, "grid"), ["left", "right"])


@hypothesis.given(st.data(), st.sampled_from(["grid", "plain"]), st.integers(40, 120))
def test_a_table_is_no_wider_than_the_screen_and_nothing_is_cut(data, form, width):
    count = data.draw(st.integers(1, 9))
    names = st.text("abcdefgh-", min_size=1, max_size=60)
    rows = data.draw(st.lists(st.tuples(names, *[st.sampled_from(
        [">= 1,023.9 MiB", "23", "-", "1,234,567,890"])] * count), min_size=1, max_size=4))
    drawn = format_table(["File System", *[f"column{n}" for n in range(count)]], rows,
                         Screen(width, False, None, form), ["left"] + ["right"] * count)
    assert max(map(len, drawn.split("\n"))) <= width
    if form == "grid":
        # Each row's pieces of its name, in the first of the tables below each other.
        pieces = [line.split("|")[1].strip() if line.startswith("|") else "\n"
                  for line in drawn.split("\n")]
        assert "".join(pieces).split("\n")[2:2 + len(rows)] == [name for name, *_ in rows]
