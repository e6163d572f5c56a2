"""health_check, in the forms of 2.5.3 to 2.17.0."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.lustre.health_check import HealthCheck, parse_health_check

OST, MDS = "device scratch-OST0003 reported unhealthy\n", "device MDS reported unhealthy\n"


@pytest.mark.parametrize("text, expected", [
    ("healthy\n", HealthCheck("healthy", (), "")),
    ("NOT HEALTHY\n", HealthCheck("NOT HEALTHY", (), "")),
    ("LBUG\n", HealthCheck("LBUG", (), "")),
    (OST + MDS + "NOT HEALTHY\n", HealthCheck("NOT HEALTHY", ("scratch-OST0003", "MDS"), "")),
    ("LBUG\n" + OST + "NOT HEALTHY\n", HealthCheck("LBUG", ("scratch-OST0003",), "")),
    ("", HealthCheck("", (), "")),
    (OST, HealthCheck("NOT HEALTHY", ("scratch-OST0003",), "")),
    ("healthy\n\n", HealthCheck("healthy", (), "")),
    ("fine\x1b[2J\n", HealthCheck("", (), "expected healthy, NOT HEALTHY or LBUG, got "
                                          "'fine\\x1b[2J'")),
], ids=["healthy", "2.10 to 2.17", "LBUG 2.13 on", "2.5 to 2.9", "LBUG 2.5", "debugfs, healthy",
        "debugfs", "an empty line more", "another word"])
def test_each_form(text, expected):
    assert expected == parse_health_check(text)


@given(st.text())
def test_whatever_is_there(text):
    found = parse_health_check(text)
    assert found.health in ("", "healthy", "NOT HEALTHY", "LBUG")
    assert found.bad.isprintable() and len(found.bad) < 400
    assert len(parse_health_check(OST.replace("3", "%d") * 200 % tuple(range(200))).devices) == 100
