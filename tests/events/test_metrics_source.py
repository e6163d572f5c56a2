"""Metrics of targets and services: the numbers by release, and what they show to be wrong."""
from __future__ import annotations

import pytest
from server_files import PLACES, ServerFiles, service_stats

from iostats.events.metrics_reading import read_metrics
from iostats.events.server_reading import read_server
from iostats.events.sources import metrics
from iostats.lustre.server_metrics import SERVICE_METRICS, TARGET_METRICS

OST, MDT, T = "scratch-OST0003", "scratch-MDT0000", 1_795_333_400.0
POLICIES = ("\nregular_requests:\n"
            "  - name: fifo\n    state: started\n    fallback: yes\n    queued: 7          \n"
            "    active: 0                   \n\n"
            "  - name: tbf jobid\n    state: started\n    fallback: no\n    queued: 23\n"
            "    active: 384\n\n"
            "high_priority_requests:\n"
            "  - name: fifo\n    state: started\n    fallback: yes\n    queued: 11\n"
            "    active: 2\n\n"
            "  - name: tbf\n    state: stopped\n    fallback: no\n    queued: 0\n    active: 0\n\n")
BRW = ("snapshot_time:  1795225389.470130370 secs.nsecs\n\n"
       "                           read      |     write\n"
       "pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %\n"
       "1:\t\t        23  72  72   |   37  80  80\n"
       "1K:\t\t         7   9 100   |   41  10 100\n")


@pytest.fixture(params=sorted(PLACES))
def server(request, tmp_path):
    found = ServerFiles(tmp_path, request.param)
    found.start(OST)
    found.start(MDT)
    return found


class Scans:
    def __init__(self, server):
        self.server, self.state, self.last, self.at, self.ids = server, None, None, 0.0, set()

    def __call__(self, now):
        seen = read_server(str(self.server.root))
        found = metrics.detect(seen, read_metrics(str(self.server.root), seen.targets),
                               self.server.place, self.state, now, self.last, now - self.at)
        self.state, self.last, self.at = found.state, found.status["metrics"], now
        self.ids |= {one.id for one in found.events}
        return [(one.kind, one.target, one.time, one.last, one.over, one.message)
                for one in found.events]


def test_each_release_has_its_numbers_where_lustre_has_them(server):
    server.metrics(OST, BRW, tot_granted=4100, tot_dirty=2300, lock_count=53, lock_timeouts=3)
    server.metrics(MDT, agents="uuid=a archive_id=ANY requests=[current:1 ok:23 errors:7]\n",
                   tot_granted=0, lock_count=59, archive_count=2, restore_count=1, remove_count=0)
    server.service("ost_io", 23, 64, service_stats(37, 4300, 5, 11), policies=POLICIES)
    server.service("mdt", 7, 32, service_stats(41, 4700, 0), "mds/MDS")
    found = read_metrics(str(server.root), [OST, MDT, "MGS"])
    assert {OST: {"granted_bytes": 4100, "dirty_bytes": 2300, "locks": 53, "lock_timeouts": 3,
                  "read_rpcs": 30, "small_read_rpcs": 23, "write_rpcs": 78,
                  "small_write_rpcs": 37},
            MDT: {"granted_bytes": 0, "locks": 59, "hsm_archives": 2, "hsm_restores": 1,
                  "hsm_removes": 0, "hsm_agents": 1, "hsm_done": 23, "hsm_failed": 7}} == (
        found.targets)
    assert {"ost_io": {"threads": 23, "threads_max": 64, "requests": 37, "wait_us": 4300,
                       "queued": 5, "lock_requests": 11, "nrs_queued": 41},
            "mdt": {"threads": 7, "threads_max": 32, "requests": 41, "wait_us": 4700, "queued": 0,
                    "lock_requests": 0}} == found.services
    assert [] == found.why
    assert {"ost_io": "tbf jobid"} == found.policies
    assert {*found.targets[OST], *found.targets[MDT]} <= {one.name for one in TARGET_METRICS}
    assert {*found.services["ost_io"]} == {one.name for one in SERVICE_METRICS}


def test_what_is_not_there_is_left_out(server):
    found = read_metrics(str(server.root), [OST, MDT])
    assert ({OST: {}, MDT: {}}, {}, {}, []) == tuple(found)


def test_what_is_not_understood_is_named(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    server.metrics(OST, "a word\n", tot_granted="-23")
    found = read_metrics(str(tmp_path), [OST])
    assert {OST: {}} == found.targets
    assert ["scratch-OST0003: tot_granted: expected a number, got '-23'",
            "osd-ldiskfs/scratch-OST0003/brw_stats: expected snapshot_time, got 'a word\\n'"] == (
        found.why)


def test_the_status_has_what_was_gained(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    server.metrics(OST, lock_timeouts=3, lock_count=53)
    scans = Scans(server)
    scans(T)
    assert (0.0, {}) == (scans.last["seconds"], scans.last["targets"][OST]["gained"])
    server.metrics(OST, lock_timeouts=10, lock_count=41)
    scans(T + 61)
    assert {"seconds": 61.0, "services": {}, "targets": {OST: {
        "values": {"lock_timeouts": 10, "locks": 41}, "gained": {"lock_timeouts": 7}}}} == (
        scans.last)


def test_an_ost_that_has_granted_all_is_one_event_until_space_is_left(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    scans = Scans(server)
    server.capacity(OST, 1 << 30, 41 << 20, 40 << 10, 1000, 999)
    server.metrics(OST, tot_granted=(40 << 20) - 1)
    assert [] == scans(T)
    server.metrics(OST, tot_granted=40 << 20)
    text = f"{OST}: 40 MiB are granted to clients, and 40 MiB are available"
    assert [("no_grants", OST, T + 60, T + 60, None, text)] == scans(T + 60)
    server.metrics(OST, tot_granted=39 << 20)                                       # 97 %
    assert [("no_grants", OST, T + 60, T + 120, None)] == [one[:5] for one in scans(T + 120)]
    server.metrics(OST, tot_granted=37 << 20)                                       # 92 %
    assert [("no_grants", OST, T + 60, T + 180, T + 180)] == [one[:5] for one in scans(T + 180)]
    assert [] == scans(T + 240)
    assert 1 == len(scans.ids)


def test_without_a_grant_or_a_capacity_there_is_no_event(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    server.metrics(OST, tot_granted=23)
    assert [] == Scans(server)(T)
    server.capacity(OST, 1 << 30, 0, 0, 1000, 999)
    server.metrics(OST, tot_granted=0)                  # full, and no client
    assert [] == Scans(server)(T)


def test_requests_that_wait_a_second_are_one_event(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    scans, requests, wait_us = Scans(server), 23, 41

    def scan(now, more, mean_us):
        nonlocal requests, wait_us
        requests, wait_us = requests + more, wait_us + more * mean_us
        server.service("ost_io", 64, 64, service_stats(requests, wait_us, 7))
        return scans(now)
    assert [] == scan(T, 370, 2_000_000)                # before it was seen
    assert [] == scan(T + 60, 99, 2_000_000)
    assert [] == scan(T + 120, 370, 999_999)
    text = ("ost_io: 370 requests waited 2.3 s for a thread on average, in the last 60 s; 64 of 64 "
            "threads are started")
    assert [("requests_wait", "", T + 180, T + 180, None, text)] == scan(T + 180, 370, 2_300_000)
    assert [(T + 180, T + 240, None)] == [one[2:5] for one in scan(T + 240, 370, 500_000)]
    assert [(T + 180, T + 300, T + 300)] == [one[2:5] for one in scan(T + 300, 370, 499_999)]
    assert 1 == len(scans.ids)


def test_copytools_that_fail_are_an_event_until_they_do_not(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(MDT)
    scans = Scans(server)

    def scan(now, done, failed):
        server.metrics(MDT, agents=f"uuid=a archive_id=1 requests=[current:0 ok:{done} "
                                   f"errors:{failed}]\n")
        return scans(now)
    assert [] == scan(T, 23, 7)
    [event] = scan(T + 60, 60, 11)
    assert ("hsm_failed", MDT, T + 60, T + 60, None) == event[:5]
    assert f"{MDT}: copytools failed at 4 of 41 requests in the last 60 s" == event[5]
    assert [(T + 60, T + 120, f"{MDT}: now no failed requests")] == [
        (one[2], one[4], one[5]) for one in scan(T + 120, 61, 11)]


def test_a_target_that_leaves_ends_its_event(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    server.start("scratch-OST0004")
    server.capacity(OST, 1 << 30, 23, 23, 1000, 999)
    server.metrics(OST, tot_granted=37 << 20)
    scans = Scans(server)
    assert 1 == len(scans(T))
    server.stop(OST)
    [event] = scans(T + 60)
    assert (T + 60, f"{OST}: no longer on this storage server") == event[4:]


def test_they_are_read_once_a_minute(tmp_path):
    server = ServerFiles(tmp_path)
    server.start(OST)
    server.metrics(OST, lock_count=23)
    first = metrics.scan(server.place, None, T)
    server.metrics(OST, lock_count=37)
    again = metrics.scan(server.place, first.state, T + 59)
    assert first.status == again.status and first.state == again.state
    after = metrics.scan(server.place, first.state, T + 60)
    assert 37 == after.status["metrics"]["targets"][OST]["values"]["locks"]


def test_a_service_has_its_policy_in_the_status(server):
    server.service("ost_io", 23, 64, service_stats(37, 4300, 5), policies=POLICIES.replace(
        "tbf jobid\n    state: started", "tbf\n    state: stopped"))
    server.service("ost", 7, 32, service_stats(41, 4700, 0))
    server.service("ost_seq", 7, 32, service_stats(41, 4700, 0), policies="none\n")
    seen = read_server(str(server.root))
    reading = read_metrics(str(server.root), seen.targets)
    services = metrics.detect(seen, reading, server.place, None, T, None, 0.0).status[
        "metrics"]["services"]
    assert {"ost_io": "fifo", "ost": None, "ost_seq": None} == {
        name: service.get("policy") for name, service in services.items()}
    assert ["ost/OSS/ost_seq/nrs_policies: expected regular_requests, got 'none'"] == (
        reading.why)
