"""
Regular expressions as ldmsd reads them: which names one matches, and one for some names alone.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats_ldms.description.values import make_regexes, select_matching

WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@given(st.lists(WORDS, max_size=90, unique=True), WORDS)
def test_names_are_matched_and_no_others(names, other):
    """Python's expressions and POSIX' extended ones agree on escaped characters."""
    made = make_regexes(names)

    assert names == [name for name in names for each in made if select_matching(each, [name])]
    assert (other in names) == any(select_matching(each, [other]) for each in made)
    assert len(made) == -(-len(names) // 40)


@pytest.mark.parametrize("expression, expected", [
    ("^n-[[:digit:]]+$", ["n-23"]), ("[[:upper:]]", ["N-37"]), ("[^[:alnum:]-]", ["n_41"]),
    ("[[:punct:]]41", ["n_41"]), ("", ["n-23", "N-37", "n_41"]), (".*", ["n-23", "N-37", "n_41"]),
    ("3", ["n-23", "N-37"]), ("(", []),
])
def test_what_an_expression_matches(expression, expected):
    assert expected == select_matching(expression, ["n-23", "N-37", "n_41"])
