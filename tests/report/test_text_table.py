"""Tables by tabulate: in each form, letters that are two columns wide."""
from __future__ import annotations

import pytest

from iostats.report.text_table import table


@pytest.mark.parametrize("form, expected", [
    ("grid", ["+------+-----+", "| FS   |   n |", "+======+=====+", "| 日本 |  23 |",
              "+------+-----+", "| ab   |  37 |", "+------+-----+"]),
    ("plain", ["FS      n", "日本   23", "ab     37"]),
    ("markdown", ["| FS   |   n |", "|:-----|----:|", "| 日本 |  23 |", "| ab   |  37 |"])])
def test_a_wide_letter_takes_two_columns(form, expected):
    """Also where wcwidth is installed, which tabulate takes into account by itself."""
    assert "\n".join(expected) == table(["FS", "n"], [["日本", "23"], ["ab", "37"]], form,
                                        ["left", "right"])
