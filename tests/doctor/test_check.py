"""
A line of the doctor, as text and as JSON.
"""

import pytest

from iostats.doctor.check import (
    NOTE,
    OK,
    PROBLEM,
    Check,
    as_json,
    as_text,
    is_read_only,
    quote_path,
)

CHECKS = [Check(OK, "python", "3.11.7"), Check(NOTE, "reader", "none"),
          Check(PROBLEM, "llite", "1 of 1 not read", "make install-reader"),
          Check(NOTE, "site", "Network is unreachable", "ping -c 3 mgmt1")]


def test_each_check_is_in_80_columns_and_its_command_on_a_line_of_its_own():
    """A command that fixes nothing is called check; commands and only they may be wider."""
    assert ("ok       python: 3.11.7\n"
            "note     reader: none\n"
            "problem  llite: 1 of 1 not read\n"
            "         fix: make install-reader\n"
            "note     site: Network is unreachable\n"
            "         check: ping -c 3 mgmt1\n") == as_text(CHECKS)
    command = "make install-reader && systemctl enable --now iostats-reader.socket"
    assert ("problem  llite: 1 of 1 not read: permission denied by /sys/kernel/debug (0700,\n"
            "         user 0) (or use root)\n"
            f"         fix: {command}\n") == as_text([Check(
                PROBLEM, "llite", "1 of 1 not read: permission denied by /sys/kernel/debug "
                                  "(0700, user 0) (or use root)", command)])


@pytest.mark.parametrize("command, expected", [
    ("ping -c 3 mgmt1", True), ("ssh mgmt1 'ss -ltnp sport = :8022'", True),
    ("ssh mgmt1 df -h", True), ("sudo iostats_client.py doctor", True),
    ("nsenter -t 1 -m iostats_client.py doctor", True), ("iostats config --check", True),
    ("lctl get_param osc.*.import", True), ("etcdctl endpoint health", True),
    ("lctl set_param llite.*.tiny_write=0", False), ("chronyc makestep", False),
    ("ssh mgmt1 'systemctl start iostats-site.service'", False),
    ("iostats_client.py deliver", False), ("iostats ldms rollback", False)])
def test_what_changes_nothing_is_no_fix(command, expected):
    assert expected == is_read_only(command)


def test_json_counts_the_problems_and_tells_a_fix_from_a_check():
    found = as_json(iter(CHECKS))
    assert 1 == found["problems"]
    assert {"state": "problem", "name": "llite", "text": "1 of 1 not read",
            "fix": "make install-reader", "check": ""} == found["checks"][2]
    assert {"state": "note", "name": "site", "text": "Network is unreachable", "fix": "",
            "check": "ping -c 3 mgmt1"} == found["checks"][3]


@pytest.mark.parametrize("path, expected", [
    ("/etc/iostats/site.cfg", "/etc/iostats/site.cfg"), ("~/.iostats", "~/.iostats"),
    ("/tmp/my file", "'/tmp/my file'"), ("it's", "'it'\\''s'"), ("$(reboot)", "'$(reboot)'"),
])
def test_a_path_is_quoted_where_a_shell_would_read_it_otherwise(path, expected):
    assert expected == quote_path(path)
