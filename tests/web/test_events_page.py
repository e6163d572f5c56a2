"""
What the page of events asks for: parameters are the options of `iostats events`, in their forms.
"""
from __future__ import annotations

import pytest

from iostats.base.errors import UsageError
from iostats.web.events_page import make_params
from iostats.web.query import PageQuery


@pytest.mark.parametrize("text, number", [
    ("", 0), ("severity=2", 2), ("severity=fatal", 3), ("severity=Warn", 1)])
def test_a_severity_is_as_that_of_the_command(text, number):
    assert number == make_params(PageQuery(text), 1_795_225_060.0, 23).severity


def test_what_is_no_severity_is_named():
    with pytest.raises(UsageError) as error:
        make_params(PageQuery("severity=4"), 1_795_225_060.0, 23)
    assert "severity: expected info, warning, critical, fatal or 0 to 3, got '4'" == str(
        error.value)
