"""recovery_status, in the forms of 2.5.3 to 2.17.0."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.lustre.recovery_status import STATUSES, RecoveryStatus, parse_recovery_status

NONE = RecoveryStatus(None, None, None, None, None, None, None)
COMPLETE = """status: COMPLETE
recovery_start: 1795225226
recovery_duration: 37
completed_clients: 35/41
replayed_requests: 0
last_transno: 4294967295
VBR: DISABLED
IR: ENABLED
"""
RECOVERING = """status: RECOVERING
recovery_start: 1795225226
time_remaining: 53
connected_clients: 23/41
req_replay_clients: 3
lock_repay_clients: 5
completed_clients: 18
evicted_clients: 2
replayed_requests: 0
queued_requests: 0
next_transno: 4294967296
"""
WAITING = """status: WAITING
non-ready MDTs:  0001 0002
recovery_start: 1795225226
time_waited: 61
"""


@pytest.mark.parametrize("text, expected", [
    ("status: INACTIVE\n", NONE._replace(status="INACTIVE")),
    (COMPLETE, RecoveryStatus("COMPLETE", 1795225226, 37, None, 35, 41, 6)),
    (RECOVERING, RecoveryStatus("RECOVERING", 1795225226, None, 53, 23, 41, 2)),
    (WAITING, NONE._replace(status="WAITING", started_s=1795225226)),
    ("status: WAITING_FOR_CLIENTS\n", NONE._replace(status="WAITING_FOR_CLIENTS")),
    # 2.5.3, between the start of the target and that of the recovery's timer
    ("status: COMPLETE\nrecovery_start: 0\nrecovery_duration: 0\ncompleted_clients: 41/41\n",
     RecoveryStatus("COMPLETE", None, 0, None, 41, 41, 0)),
    ("", NONE), ("status: HEALTHY\n", NONE), ("status:", NONE),
    ("status: RECOVERING\ntime_remaining: -1\nconnected_clients: 23\nrecovery_start: " + "9" * 30,
     NONE._replace(status="RECOVERING")),
], ids=["none to wait for", "over", "under way", "other MDTs", "2.12 on", "not begun", "empty",
        "another word", "cut", "bad numbers"])
def test_each_form(text, expected):
    assert expected == parse_recovery_status(text)


@given(st.text(alphabet=st.sampled_from("status: COMPLETERV\nrecovery_start: 0123456789/-\0\x1b")))
def test_whatever_is_there(text):
    found = parse_recovery_status("status: " + text)
    assert found.status in (None, *STATUSES)
    assert all(number is None or 0 <= number < 2**62 for number in found[1:])
