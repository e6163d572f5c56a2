"""
Tests with random cases that other tests run: a search has to find the first one's fault.

pytest runs this file only where it is named.
"""
import os

from hypothesis import Phase, given, settings
from hypothesis import strategies as st


@settings(phases=[Phase.generate])                  # the case as it was drawn, not the smallest
@given(st.lists(st.integers(0, 99_999), min_size=3))
def test_a_planted_fault(numbers):
    assert 3 != numbers[0] % 7, numbers


@given(st.lists(st.integers()), st.text())
def test_what_is_drawn(numbers, text):
    with open(os.environ["IOSTATS_DRAWN"], "a") as file:
        print(numbers, ascii(text), file=file)
