"""Text on a terminal: columns, what is cut to fit, bars."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.text import cut, draw_bars, measure_width, pad


@pytest.mark.parametrize("text, width", [
    ("", 0), ("scratch", 7), ("données", 7), ("e\u0301te\u0301", 3), ("日本", 4), ("\uff41", 2),
    ("क्षि", 3), ("a\u200db", 2), ("👩", 2)],
    ids=["nothing", "ascii", "letters with accents", "accents of their own", "wide letters",
         "a full-width letter", "vowel signs", "a joiner", "emoji"])
def test_a_text_takes_so_many_columns(text, width):
    assert width == measure_width(text)


@pytest.mark.parametrize("text, width, expected", [
    ("scratch", None, "scratch"), ("scratch", 7, "scratch"), ("scratch", 6, "scrat+"),
    ("scratch", 1, "+"), ("scratch", 0, ""), ("日本語", 5, "日本+"), ("日本語", 4, "日+"),
    ("e\u0301te\u0301", 2, "e\u0301+")],
    ids=["no limit", "it fits", "cut", "the sign alone", "nothing", "wide letters",
         "half a wide letter is none", "a letter keeps its accent"])
def test_what_is_cut_ends_with_a_plus(text, width, expected):
    assert expected == cut(text, width)


@given(st.text(), st.integers(0, 40))
def test_what_is_cut_fits(text, width):
    found = cut(text, width)
    assert measure_width(found) <= width
    assert found == text or (found == "" and width == 0) or text.startswith(found[:-1])
    assert width == measure_width(pad(found, width)) == measure_width(pad(found, width, right=True))


def test_blanks_are_on_one_side():
    assert ("日本 ", " 日本", "scratch") == (pad("日本", 5), pad("日本", 5, right=True),
                                            pad("scratch", 3))


@given(st.lists(st.integers(0, 2**63 - 1), max_size=2000), st.integers(1, 80))
def test_bars_fit_and_blanks_are_zeros(values, width):
    """No more than `width` characters; a blank says that nothing was done."""
    line = draw_bars(values, width)
    assert len(line) <= width
    assert (not any(values)) == (not line.strip())


@pytest.mark.parametrize("values, line", [
    ([], ""), ([0, 0], "  "), ([23], "█"), ([0, 1, 4, 8], " ▁▄█"),
    ([1, 8_000_000], "▁█"), ([7, 8], "▇█"), ([2**63, 2**62], "█▄"),
    ([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"),
    ([5] * 60, "█" * 60), ([5] * 120, "█" * 60), ([5] * 61, "█" * 30 + "▄"),
], ids=["nothing", "zeros", "one", "eighths", "a little is not nothing", "seven of eight",
        "large", "all blocks", "as wide as the line", "two in one", "half a column at the end"])
def test_bars_by_hand(values, line):
    """The highest column is full, each other one its part of it, rounded up."""
    assert line == draw_bars(values)
