"""
The soak test (soak.py): a minute of it, and what it calls level.
"""
from __future__ import annotations

import os
import subprocess
import sys

import pytest
from campaign import SEED, WHOLE
from soak import Sample, find_growth
from trees import ROOT

if WHOLE:                                   # minutes
    @pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql",
                                                              marks=pytest.mark.postgresql)])
    def test_a_site_through_some_hours_of_simulated_time(store):
        done = subprocess.run(
            [sys.executable, "chaos/soak.py", "--seconds", "60", "--seed", str(SEED), "--store",
             store], cwd=ROOT / "tests", env={**os.environ, "PYTHONPATH": "."},
            capture_output=True, text=True)
        print(done.stdout)
        assert (0, "") == (done.returncode, done.stderr)


def test_what_grows_in_the_last_quarter_is_not_level():
    """Other parts of it may have grown before; what grew in the store is named, the most first."""
    def measure(hour, **others):
        values = {"memory": 41.0 + min(hour, 8), "descriptors": 11, "store": 23.0, "parts": {}}
        return Sample(hour=hour, **{**values, **others})
    assert [] == find_growth([measure(hour) for hour in range(16)])
    assert ["store: 37.0, then 53.0", "  jobs: 29.00 MB, then 43.00", "  blocks: 8.00 MB, then 9.00"
            ] == find_growth([
                measure(hour, store=37.0, parts={"blocks": 8.0, "jobs": 29.0, "lives": 1.0})
                if hour < 15 else
                measure(hour, store=53.0, parts={"blocks": 9.0, "jobs": 43.0, "lives": 1.0})
                for hour in range(16)])
    assert ["descriptors: 11.0, then 23.0"] == find_growth(
        [measure(hour, descriptors=11 if hour < 12 else 23) for hour in range(16)])
