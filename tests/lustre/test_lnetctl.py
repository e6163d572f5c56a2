"""The stored answers of lnetctl, in the layouts of 2.12 to 2.17 (data/lnetctl/README.md)."""
from __future__ import annotations

from pathlib import Path

import pytest

from iostats.lustre.lnetctl import LnetHealth, parse

DATA = Path(__file__).parents[1] / "data/lnetctl"
T = 1_795_333_379
EXPECTED = {
    "2.12": LnetHealth(T, 4_100_000_023, 41, 37, {"10.9.0.3@o2ib": 900, "10.9.0.4@o2ib": 1000}),
    "2.12-export": LnetHealth(T, 3825, 0, 2, {"10.9.20.11@tcp": 1000}),
    "2.17": LnetHealth(T, 2300, 59, 53, {"10.9.8.3@tcp": 800, "fd00:9::3@tcp": 1000})}


@pytest.mark.parametrize("release", EXPECTED)
def test_resends_and_the_health_of_each_interface(release):
    assert EXPECTED[release] == parse((DATA / release).read_text())


@pytest.mark.parametrize("text, why", [
    ("", "expected time, got ''"),
    ("time: 23\nnet:\n", "expected send_count, got 'time: 23"),
    ("time: 23\nstatistics:\n    send_count: 37\n", "before 2.12 counts no resends"),
    ("time: yesterday\n", "time: expected a number, got 'yesterday'"),
    ("statistics:\n    resend_count: -1\n", "resend_count: expected a number, got '-1'")])
def test_what_is_not_understood_is_reported(text, why):
    with pytest.raises(ValueError, match=why):
        parse(text)
