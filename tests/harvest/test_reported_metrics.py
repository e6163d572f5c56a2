"""The answers to `metrics` and `quotas`, and quotas that concern a job."""
from __future__ import annotations

import os
import pwd

import pytest
from events_messages import NOON, STATUS, event, send
from site_inside import Inside, answer_to

from iostats.base.errors import WireError
from iostats.server.rpc_server import Caller

OST = "scratch-OST0003"
USER = pwd.getpwuid(1)                  # any user of every machine
METRICS = {"seconds": 60.0,
           "targets": {OST: {"values": {"read_rpcs": 4100, "locks": 53},
                             "gained": {"read_rpcs": 37}}},
           "services": {"ost_io": {"values": {"threads": 23, "requests": 41}, "gained": {}}}}


def a_quota(number, granted, kind="user", **fields):
    return {"file_system": "scratch", "pool": "", "kind": kind, "id": number, "resource": "space",
            "granted": granted, "soft": 0, "hard": 100, "grace_end": 0, **fields}


def some_quotas(*nearest, count=None, read_at=NOON - 37):
    return {"read_at": read_at, "count": len(nearest) if count is None else count,
            "nearest": list(nearest)}


@pytest.fixture
def inside(tmp_path):
    found = Inside(tmp_path, NOON)
    yield found
    found.store.close()


def test_metrics_are_those_of_the_server_that_reported_them_last(inside):
    send(inside, status={**STATUS, "metrics": {**METRICS, "targets": {OST: {
        "values": {"read_rpcs": 23}, "gained": {}}}, "services": {}}}, node="oss2")
    inside.now += 61
    send(inside, status={**STATUS, "metrics": {**METRICS, "services": {
        "ost_io": {**METRICS["services"]["ost_io"], "policy": "tbf jobid"}}}})
    about = {"node": "oss1", "time": NOON + 61, "seconds": 60.0}
    rows = {"targets": [{"target": OST, "file_system": "scratch", **about,
                         **METRICS["targets"][OST]}],
            "services": [{"service": "ost_io", **about, **METRICS["services"]["ost_io"],
                          "policy": "tbf jobid"}]}
    assert {"time": NOON + 61, **rows} == inside.ask("metrics", {})
    assert rows["targets"] == inside.ask("metrics", {"file_systems": ["scratch"]})["targets"]
    assert rows["services"] == inside.ask("metrics", {"file_systems": ["scratch"]})["services"]
    for ask in ({"file_systems": ["home"]}, {"targets": ["scratch-OST0004"]}):
        answer = inside.ask("metrics", ask)
        assert ([], []) == (answer["targets"], answer["services"])


def test_they_are_there_after_a_restart_and_in_no_other_answer(inside):
    quotas = {"scratch": some_quotas(a_quota(4711, 23))}
    send(inside, status={**STATUS, "metrics": METRICS, "quotas": quotas})
    inside.store.close()
    inside.begin()
    assert OST == inside.ask("metrics", {})["targets"][0]["target"]
    assert 4711 == inside.ask("quotas", {})["quotas"][0]["id"]
    [server] = inside.ask("events_status", {})["servers"]
    assert not {"metrics", "quotas"} & server.keys()


def test_every_authenticated_user_may_ask_for_metrics(inside):
    assert "result" in answer_to(inside.server, Caller("login1", 1), "metrics")
    assert "error" in answer_to(inside.server, None, "metrics")
    assert "error" in answer_to(inside.server, None, "quotas")


def test_quotas_are_those_of_the_newest_master_nearest_to_their_limits_first(inside):
    send(inside, node="mds2", status={**STATUS, "quotas": {
        "scratch": some_quotas(a_quota(23, 99))}})
    inside.now += 61
    send(inside, node="mds1", status={**STATUS, "quotas": {
        "scratch": some_quotas(a_quota(4711, 97), a_quota(4712, 41), count=2300),
        "home": some_quotas(a_quota(7, 59, file_system="home"), read_at=NOON + 23)}})
    answer = inside.ask("quotas", {})
    assert [{"file_system": "home", "node": "mds1", "time": NOON + 23, "count": 1, "listed": 1},
            {"file_system": "scratch", "node": "mds1", "time": NOON - 37, "count": 2300,
             "listed": 2}] == answer["file_systems"]
    assert [{**a_quota(4711, 97), "time": NOON - 37}] == answer["quotas"][:1]
    assert [4711, 7, 4712] == [row["id"] for row in answer["quotas"]]
    assert [7] == [row["id"] for row in inside.ask("quotas", {"file_systems": ["home"]})["quotas"]]


def test_the_time_of_a_reading_is_by_the_servers_clock(inside):
    """The agent's clock is 600 s ahead."""
    send(inside, made_at=NOON + 600, ahead_s=600.0, status={
        **STATUS, "quotas": {"scratch": some_quotas(a_quota(23, 99), read_at=NOON + 563)}})
    assert NOON - 37 == inside.ask("quotas", {})["quotas"][0]["time"]


def test_a_user_sees_own_quotas_and_those_of_the_own_groups(inside):
    [group, *_] = os.getgrouplist(USER.pw_name, USER.pw_gid)
    send(inside, status={**STATUS, "quotas": {"scratch": some_quotas(
        a_quota(USER.pw_uid, 97), a_quota(4711, 59), a_quota(group, 53, "group"),
        a_quota(group, 41, "project"), a_quota(4713, 37, "group"))}})
    answer = answer_to(inside.server, Caller("login1", USER.pw_uid), "quotas")["result"]
    assert [("user", USER.pw_uid), ("group", group)] == [
        (row["kind"], row["id"]) for row in answer["quotas"]]


@pytest.mark.parametrize("part, value, why", [
    ("quotas", {"scratch": some_quotas(a_quota(-1, 23))}, "id"),
    ("quotas", {"scratch": some_quotas(a_quota(1, 23, "colour"))}, "colour"),
    ("metrics", {"seconds": -1.0}, "seconds"),
    ("metrics", {"targets": {OST: {"values": {"locks": "23"}}}}, "values")])
def test_what_is_not_expected_is_refused(inside, part, value, why):
    with pytest.raises(WireError, match=why):
        send(inside, status={**STATUS, part: value})


# -- of a job ------------------------------------------------------------------------------------

WROTE = [{"source": "llite", "file_system": "scratch", "values": {
    "read_calls": 23, "read_bytes": 41_003, "write_calls": 5, "write_bytes": 37}}]


def a_full_quota(at=NOON - 7200.0, last=NOON - 1800.0, user=USER.pw_uid, fs="scratch", **fields):
    return event(f"{user} {fs} {at}", "quota_full", at, "mds1", fs, "", last=last,
                 clients=(f"user:{user}",), message="SECRET", **fields)


def record_of(inside, *events):
    inside.now += 900
    send(inside, events, node="mds1", status=STATUS)
    inside.send("4711", "nid00001", ended=NOON, elapsed_s=3600.0, deltas=WROTE, events=[],
                other_jobs=0, about={"nodes": "nid00001", "user": USER.pw_name})
    inside.now += 3
    inside.make_records()
    [record] = inside.records("4711")
    return record


def test_a_quota_of_the_user_that_was_used_up_is_in_the_record(inside):
    """It was full before the job began, and still while it ran."""
    record = record_of(inside, a_full_quota())
    [found] = record["events"]
    assert ("quota_full", "scratch", True, "", "") == tuple(
        found[name] for name in ("kind", "file_system", "is_certain", "nodes", "message"))


@pytest.mark.parametrize("full", [
    a_full_quota(user=4711), a_full_quota(fs="home"), a_full_quota(last=NOON - 3601.0),
    a_full_quota(at=NOON + 601.0, last=NOON + 601.0)],
    ids=["another user", "another file system", "before", "after"])
def test_another_quota_is_not(inside, full):
    assert [] == record_of(inside, full)["events"]


def test_a_user_sees_the_event_of_an_own_job_alone(inside):
    own, other = a_full_quota(), a_full_quota(user=4711)
    record_of(inside, own, other)
    caller = Caller("login1", USER.pw_uid)
    found = answer_to(inside.server, caller, "events", job="4711")["result"]["events"]
    assert [own.id] == [row["id"] for row in found]
    assert [] == answer_to(inside.server, caller, "events")["result"]["events"]
    assert {own.id, other.id} == {row["id"] for row in inside.ask("events", {})["events"]}
