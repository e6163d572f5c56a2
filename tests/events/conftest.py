"""
The machine of these tests was booted three weeks ago, however young the one is that runs them.

Their logs have lines of up to 1,000,000 s after the boot; a line of a time that is still to come is
taken for one that came just now.
"""
from __future__ import annotations

import time

import pytest

_UP_S = 1_814_400


@pytest.fixture(autouse=True)
def a_machine_that_is_up_for_weeks(monkeypatch):
    true = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: true(which) + (
        _UP_S if which == time.CLOCK_BOOTTIME else 0))
