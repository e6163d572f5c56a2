"""Quotas of a job's user that are nearly used up at its end, in its record and its report."""
from __future__ import annotations

import json
import os
import pwd

import pytest
from events_messages import NOON, STATUS, send
from site_inside import Inside

from iostats.base import config as site_config
from iostats.report import job_tables
from iostats.totals.record import Record

USER = pwd.getpwuid(1)                  # any user of every machine
OTHER = USER.pw_uid + 4711
[GROUP, *_] = os.getgrouplist(USER.pw_name, USER.pw_gid)
WROTE = [{"source": "llite", "file_system": "scratch", "values": {
    "read_calls": 23, "read_bytes": 41_003, "write_calls": 5, "write_bytes": 37}}]


def quota(number, granted, kind="user", **fields):
    return {"file_system": "scratch", "pool": "", "kind": kind, "id": number, "resource": "inodes",
            "granted": granted, "soft": 0, "hard": 4100, "grace_end": 0, **fields}


@pytest.fixture
def inside(tmp_path):
    found = Inside(tmp_path, NOON)
    yield found
    found.store.close()


def record_of(inside, *nearest, fs="scratch", read_at=NOON - 37, count=None):
    inside.now += 3
    send(inside, node="mds1", status={**STATUS, "quotas": {fs: {
        "read_at": read_at, "count": len(nearest) if count is None else count,
        "nearest": list(nearest)}}})
    inside.send("4711", "nid00001", ended=NOON, elapsed_s=3600.0, deltas=WROTE, events=[],
                other_jobs=0, about={"nodes": "nid00001", "user": USER.pw_name})
    inside.now += 3
    inside.make_records()
    [record] = inside.records("4711")
    return record


def near(record):
    return [(one["kind"], one["name"], one["resource"], one["granted"])
            for one in record["quotas"]["nearly_used"]]


def test_quotas_of_the_user_and_its_groups_that_are_nearly_used_up_are_in_the_record(inside):
    """3,690 of 4,100 are 90 %; those of others, of projects, and of 89 % are not."""
    record = record_of(inside, quota(USER.pw_uid, 3977), quota(OTHER, 4099),
                       quota(GROUP, 3690, "group"), quota(USER.pw_uid, 4099, "project"),
                       quota(USER.pw_uid, 89, resource="space", hard=100))
    assert [("user", USER.pw_name, "inodes", 3977), ("group", 3690)] == [
        near(record)[0], (near(record)[1][0], near(record)[1][3])]
    assert 2 == len(near(record))
    assert (90, {"scratch": NOON - 37}) == (record["quotas"]["percent"],
                                            record["quotas"]["read_at"])
    assert "4099" not in json.dumps(record)


def test_above_the_soft_limit_is_near(inside):
    """1,001 of a soft limit of 1,000, with a hard one of 4,100."""
    assert [1001] == [one[3] for one in near(record_of(inside, quota(
        USER.pw_uid, 1001, soft=1000, grace_end=int(NOON)), quota(
        USER.pw_uid, 1000, soft=1000, resource="space")))]


@pytest.mark.parametrize("how", [
    {"fs": "home"}, {"read_at": NOON - 3601}, {"read_at": NOON + 3601}, {"count": 2}],
    ids=["of another file system", "long before", "long after", "the user may be left out"])
def test_what_is_not_known_of_the_end_is_null(inside, how):
    """Of two quotas the agent reports one, which is nearly used up, too."""
    assert record_of(inside, quota(OTHER, 3977), **how)["quotas"] is None


def test_of_a_list_that_is_cut_where_quotas_are_far_from_their_limits_all_is_known(inside):
    record = record_of(inside, quota(OTHER, 3977), quota(OTHER + 1, 23), count=7)
    assert ({"scratch": NOON - 37}, []) == (record["quotas"]["read_at"], near(record))


def test_0_turns_it_off(inside):
    inside.server.records._config.report.quota_percent = 0
    assert record_of(inside, quota(USER.pw_uid, 4100))["quotas"] is None


def test_without_an_agent_on_an_mds_it_is_null(inside):
    inside.send("4711", "nid00001", ended=NOON, elapsed_s=3600.0, deltas=WROTE, events=[],
                other_jobs=0, about={"nodes": "nid00001", "user": USER.pw_name})
    inside.now += 300
    inside.make_records()
    [record] = inside.records("4711")
    assert record["quotas"] is None


def test_the_report_names_them(inside, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    record = record_of(inside, quota(USER.pw_uid, 3977, pool="flash"), quota(
        USER.pw_uid, 41 << 30, resource="space", soft=40 << 30, hard=53 << 30))
    config = site_config.load("/dev/null", environ={})
    text = job_tables.format_report(Record.of(record), config)
    assert (f"note: scratch: up to 97 % of user {USER.pw_name}'s inodes in pool flash in use: "
            f"3,977 granted of a quota of 4,100, read ") in " ".join(text.split())
    assert (f"up to 77 % of user {USER.pw_name}'s space in use: 41.0 GiB granted of a quota of "
            f"53.0 GiB, above the soft limit of 40.0 GiB, read ") in " ".join(text.split())
