"""
A line of the doctor, as text and as JSON.
"""

import pytest

from iostats.doctor.check import NOTE, OK, PROBLEM, Check, as_json, as_text, quoted

CHECKS = [Check(OK, "python", "3.11.7"), Check(NOTE, "reader", "none"),
          Check(PROBLEM, "llite", "1 of 1 not read", "make install-reader")]


def test_each_check_is_a_line_and_only_a_fix_is_offered():
    assert ("ok       python: 3.11.7\n"
            "note     reader: none\n"
            "problem  llite: 1 of 1 not read; fix: make install-reader\n") == as_text(CHECKS)


def test_json_counts_the_problems_and_has_the_fix_under_both_of_its_names():
    """`mend` is the earlier one."""
    found = as_json(iter(CHECKS))
    assert 1 == found["problems"]
    assert {"state": "problem", "name": "llite", "text": "1 of 1 not read",
            "fix": "make install-reader", "mend": "make install-reader"} == found["checks"][2]


@pytest.mark.parametrize("path, expected", [
    ("/etc/iostats/site.cfg", "/etc/iostats/site.cfg"), ("~/.iostats", "~/.iostats"),
    ("/tmp/my file", "'/tmp/my file'"), ("it's", "'it'\\''s'"), ("$(reboot)", "'$(reboot)'"),
])
def test_a_path_is_quoted_where_a_shell_would_read_it_otherwise(path, expected):
    assert expected == quoted(path)
