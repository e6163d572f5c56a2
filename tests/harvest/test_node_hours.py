"""
Hours of clients as rows: what `iostats nodes` answers of each hour, once.
"""
from __future__ import annotations

import pytest
from harvest_inside import HarvestInside

HOUR = 1_795_222_800.0
A, B = "10.0.0.11@o2ib", "10.0.0.13@o2ib"


@pytest.fixture
def desk(tmp_path):
    """A site's server whose clock is at an hour, and whose agents sweep every 20 s."""
    desk = HarvestInside(tmp_path / "site.sqlite")
    desk.now = HOUR - 20
    return desk


def rows(desk):
    return desk.store.rows("SELECT began, nid, read_bytes, read_bytes_max, write_bytes, "
                           "write_bytes_max, operations, operations_max, lower_bound "
                           "FROM node_hours ORDER BY began, nid")


def sweep(desk, after_s, **gains):
    """A sweep `after_s` after HOUR: what a and b gained: (bytes read, bytes written, requests)."""
    desk.now = HOUR + after_s
    desk.clients("oss1", "scratch", {
        {"a": A, "b": B}[name]: (read, written, 1, 1, asked)
        for name, (read, written, asked) in gains.items()})
    desk.turn()


def test_an_hour_has_a_row_for_each_client_with_io(desk):
    """What lies in a sweep over two hours is in the most of both; the last one is not all read."""
    sweep(desk, -20, a=(0, 0, 0))
    sweep(desk, 20, a=(23, 37, 5))
    sweep(desk, 3600, a=(41, 43, 7))
    sweep(desk, 5400, a=(101, 103, 11))
    sweep(desk, 9000, b=(1009, 1013, 13))
    assert [] == rows(desk)
    desk.now = HOUR + 5 * 3600 + 20
    desk.again()
    sweep(desk, 5 * 3600 + 20, b=(0, 0, 0))
    wanted = [(HOUR, A, 64, 64, 80, 80, 12, 12, 0), (HOUR + 3600, A, 101, 101, 103, 103, 11, 11, 0),
              (HOUR + 3600, B, 0, 1009, 0, 1013, 0, 13, 0),
              (HOUR + 7200, B, 0, 1009, 0, 1013, 0, 13, 0)]
    assert wanted == rows(desk)
    desk.again()                                        # killed; the last hour is made once more
    sweep(desk, 5 * 3600 + 40, b=(0, 0, 0))
    assert wanted == rows(desk)


def test_an_hour_of_which_a_storage_server_was_not_read_is_a_lower_bound(desk):
    """oss2 is silent after the first hour."""
    sweep(desk, -20, a=(0, 0, 0))
    desk.clients("oss2", "scratch", {A: (53, 59, 1, 1, 3)})
    sweep(desk, 3600, a=(41, 43, 7))
    desk.clients("oss2", "scratch", {A: (61, 67, 1, 1, 3)})
    sweep(desk, 7200, a=(23, 37, 5))
    desk.now = HOUR + 5 * 3600
    desk.again()
    sweep(desk, 5 * 3600, a=(0, 0, 0))
    assert [(HOUR, 0), (HOUR + 3600, 1), (HOUR + 7200, 1)] == desk.store.rows(
        "SELECT began, lower_bound FROM node_hours ORDER BY began")
