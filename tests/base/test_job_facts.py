"""
Facts: what is not told is unknown, and never 0.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base import job_facts
from iostats.base.job_facts import Facts


def test_what_is_not_told_is_unknown():
    """Text is empty, numbers are None; only restarts begin at 0, as the first run does."""
    facts = Facts()
    assert {"restarts": 0, "comments": {}, "steps": (), "completing": False} == {
        name: value for name, value in facts._asdict().items() if value not in ("", None)}
    assert [None] * 7 == [facts.uid, facts.node_count, facts.state, facts.exit_status,
                          facts.exit_signal, facts.started, facts.ended]


def test_every_field_is_explained():
    """The docstring names each of them."""
    for name in Facts._fields:
        assert name in Facts.__doc__.replace(",", " ").replace(":", " ").split()


@pytest.mark.parametrize("text, expected", [
    ("7:0", (7, None)), ("0:9", (0, 9)), ("23", (23, None)), (37, (37, None)), ("-29", (-29, None)),
    (" 7:0 ", (7, None)), ("", (None, None)), (":9", (None, None)), ("7:x", (7, None)),
    ("seven", (None, None)), ("\u0667", (None, None)),
], ids=["status", "signal", "status alone", "number", "the batch system's own", "blanks", "nothing",
        "signal alone", "no signal", "a word", "digits of another script"])
def test_an_exit_is_a_status_and_a_signal(text, expected):
    """As Slurm writes it; what is no number is unknown."""
    assert expected == job_facts.parse_exit(text)


@pytest.mark.parametrize("status, expected", [(0, (0, None)), (1792, (7, None)), (9, (0, 9)),
                                              (139, (0, 11))],
                         ids=["0", "exit 7", "killed", "SIGSEGV and a core"])
def test_a_wait_status_is_a_status_or_a_signal(status, expected):
    """wait(2): the low seven bits, the core bit, and the status above."""
    assert expected == job_facts.split_wait_status(status)


@given(st.text() | st.floats() | st.integers() | st.none() | st.booleans())
def test_a_number_is_a_number_or_unknown(value):
    """Never an exception, and nothing that has hundreds of digits."""
    found = job_facts.parse_integer(value)
    assert found is None or abs(found) < 10**19
    status, signal = job_facts.parse_exit(value)
    assert status is not None or signal is None
