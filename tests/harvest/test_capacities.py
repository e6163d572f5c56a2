"""Capacities of targets at a site's server: their history, and the answer to `capacity`."""
from __future__ import annotations

import pytest
from events_messages import NOON, STATUS, send
from site_inside import Inside

from iostats.base.errors import WireError
from iostats.lustre.capacity import Capacity

OST, OTHER, MDT = "scratch-OST0003", "scratch-OST0004", "scratch-MDT0000"
DAY_S = 86_400
TIB, GIB = 1 << 40, 1 << 30


@pytest.fixture
def inside(tmp_path):
    found = Inside(tmp_path, NOON)
    yield found
    found.store.close()


def status(**capacities):
    """A status with {name with _ instead of -: Capacity}."""
    return {**STATUS, "targets": {
        name.replace("_", "-"): {"state": "up", "clients": 37, "capacity": one._asdict()}
        for name, one in capacities.items()}}


def a_capacity(used, free=None, total=100 * TIB, inodes_free=59_000):
    """`used` and `free` in GiB; a tenth is reserved."""
    left = total - used * GIB
    return Capacity(total, left, left - total // 10 if free is None else free * GIB, 100_000,
                    inodes_free)


def asked(inside, **ask):
    return inside.ask("capacity", ask)


def test_a_target_has_its_last_capacity_and_no_forecast_on_the_first_day(inside):
    one = a_capacity(23 * 1024)
    send(inside, status=status(scratch_OST0003=one))
    answer = asked(inside)
    assert answer["time"] == NOON
    assert [{"target": OST, "file_system": "scratch", "node": "oss1", "time": NOON,
             **one._asdict(), "bytes_used": 23 * TIB, "inodes_used": 41_000,
             "bytes_used_percent": 25.56, "inodes_used_percent": 41.0, "history_since": NOON,
             "bytes_per_day": None, "inodes_per_day": None, "full_first": None, "full_at": None,
             "full_earliest": None, "full_latest": None}] == answer["targets"]


def fill(inside, used_by_day, **how):
    """A status each six hours; `used_by_day`: GiB at the beginning of each day."""
    for first, last in zip(used_by_day, used_by_day[1:]):
        for quarter in range(4):
            send(inside, status=status(scratch_OST0003=a_capacity(
                first + (last - first) * quarter // 4, **how)))
            inside.now += DAY_S // 4
    send(inside, status=status(scratch_OST0003=a_capacity(used_by_day[-1], **how)))


def test_the_forecast_is_of_the_last_week(inside):
    fill(inside, [0, 40_000, 41_000, 42_000, 43_000, 44_000, 45_000, 46_000, 47_000])
    [row] = asked(inside)["targets"]
    left_days = (90 * 1024 - 47_000) / 1000
    assert (1000 * GIB, "space") == (row["bytes_per_day"], row["full_first"])
    assert [round(left_days, 6)] * 3 == [round((row[name] - inside.now) / DAY_S, 6) for name in (
        "full_at", "full_earliest", "full_latest")]
    assert inside.now - 7 * DAY_S == row["history_since"]


def test_inodes_can_be_used_up_first(inside):
    send(inside, status=status(scratch_OST0003=a_capacity(100, inodes_free=59_000)))
    inside.now += DAY_S
    send(inside, status=status(scratch_OST0003=a_capacity(110, inodes_free=41_000)))
    [row] = asked(inside)["targets"]
    assert ("inodes", 18_000) == (row["full_first"], row["inodes_per_day"])
    assert round(41 / 18, 6) == round((row["full_at"] - inside.now) / DAY_S, 6)
    assert row["full_earliest"] is None


def test_the_history_is_stored_once_an_hour_and_survives_a_restart(inside):
    for minute in range(0, 240, 10):
        inside.now = NOON + 60 * minute
        send(inside, status=status(scratch_OST0003=a_capacity(minute)))
    assert 5 == len(inside.store.rows("SELECT * FROM capacities"))      # NOON is no full hour
    inside.now = NOON + DAY_S
    send(inside, status=status(scratch_OST0003=a_capacity(1000)))
    inside.store.close()
    inside.begin()
    [row] = asked(inside)["targets"]
    assert (NOON, 1000 * GIB) == (row["history_since"], row["bytes_per_day"])


def test_what_is_older_than_a_week_is_removed(inside):
    fill(inside, range(0, 2000, 100))
    assert 4 * 8 + 1 == len(inside.store.rows("SELECT * FROM capacities"))


def test_a_failed_commit_loses_no_hour(inside):
    send(inside, status=status(scratch_OST0003=a_capacity(23)), commit=False)
    inside.store.connection.rollback()
    inside.server.events.reload()
    send(inside, status=status(scratch_OST0003=a_capacity(37)))
    [(used,)] = inside.store.rows("SELECT bytes_total - bytes_free FROM capacities")
    assert 37 * GIB == used


def test_after_a_failover_the_newest_report_counts(inside):
    send(inside, status=status(scratch_OST0003=a_capacity(23)))
    inside.now += 700
    send(inside, node="oss2", status=status(scratch_OST0003=a_capacity(37)))
    down = {**STATUS, "targets": {OST: {"state": "down", "clients": None}}}
    send(inside, status=down)
    [row] = asked(inside)["targets"]
    assert ("oss2", 37 * GIB) == (row["node"], row["bytes_used"])


def test_file_systems_and_targets_can_be_chosen(inside):
    one = a_capacity(23)
    send(inside, status=status(scratch_OST0003=one, scratch_MDT0000=one, home_OST0000=one))
    send(inside, node="oss2", status=status(scratch_OST0004=one))

    def names(**ask):
        return [row["target"] for row in asked(inside, **ask)["targets"]]
    assert ["home-OST0000", MDT, OST, OTHER] == names()
    assert [MDT, OST, OTHER] == names(file_systems=["scratch"])
    assert [OTHER] == names(targets=[OTHER, "work-OST0000"])
    assert [] == names(file_systems=["work"])


def test_a_damaged_row_is_passed_over(inside):
    send(inside, status=status(scratch_OST0003=a_capacity(23)))
    inside.now += DAY_S
    send(inside, status=status(scratch_OST0003=a_capacity(37)))
    inside.store.change("UPDATE capacities SET bytes_free = 'a text' WHERE time = ?", (NOON,))
    [row] = asked(inside)["targets"]
    assert row["bytes_per_day"] is None and 37 * GIB == row["bytes_used"]


def test_an_agent_of_an_older_release_has_no_capacity(inside):
    send(inside, status=STATUS)
    assert [] == asked(inside)["targets"]
    assert STATUS["targets"] == inside.ask("events_status", {})["servers"][0]["targets"]


@pytest.mark.parametrize("member, value", [("bytes_free", -23), ("bytes_total", 2**62 + 1),
                                           ("inodes_free", 1.5)])
def test_what_is_no_capacity_is_refused(inside, member, value):
    targets = {OST: {"state": "up", "capacity": {**a_capacity(23)._asdict(), member: value}}}
    with pytest.raises(WireError, match=member):
        send(inside, status={**STATUS, "targets": targets})


def test_lnet_of_a_storage_server_is_in_its_status(inside):
    numbers = ("sent", "received", "routed", "dropped", "sent_bytes", "received_bytes",
               "routed_bytes", "dropped_bytes", "waiting")
    lnet = {**dict(zip(numbers, (23, 37, 41, 43, 2**63, 5300, 5900, 6100, 67))),
            "down": ["10.9.1.2@o2ib"]}
    send(inside, status={**STATUS, "lnet": lnet})
    inside.store.close()
    inside.begin()
    assert lnet == inside.ask("events_status", {})["servers"][0]["lnet"]
    lnet = {**lnet, "resent": 71, "response_timeouts": 73, "health": {"10.9.0.3@o2ib": 900},
            "short_peers": {"10.9.1.23@o2ib": [2, -7]}, "credits": {"o2ib": {
                "waiting": 67, "lowest": -79, "peers": 83, "waiting_peers": 1, "peer_waiting": 2,
                "peer_lowest": -7}, "tcp": {"waiting": 0, "lowest": 5}}}
    send(inside, status={**STATUS, "lnet": lnet}, seq=2)
    assert lnet == inside.ask("events_status", {})["servers"][0]["lnet"]


def test_a_recovery_under_way_is_in_the_status(inside):
    targets = {OST: {"state": "recovering", "clients": 37,
                     "recovery": {"clients": 23, "of": 41, "left_s": 53}}}
    send(inside, status={**STATUS, "targets": targets})
    assert targets == inside.ask("events_status", {})["servers"][0]["targets"]
