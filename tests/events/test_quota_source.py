"""Quotas that are used up, and those nearest to their limits."""
from __future__ import annotations

from server_files import ServerFiles

from iostats.events.metrics_reading import read_quotas
from iostats.events.sources import quota
from iostats.lustre.capacity import BYTES, INODES
from iostats.lustre.quota import GROUP, PROJECT, USER, Quota

T = 1_795_333_400
MIB = 1 << 10                           # in KiB


class Scans:
    def __init__(self, server):
        self.server, self.state, self.ids, self.status = server, None, set(), None

    def __call__(self, now):
        found = quota.detect(read_quotas(str(self.server.root), []), self.server.place, self.state,
                             now)
        self.state, self.status = found.state, found.status
        self.ids |= {one.id for one in found.events}
        return [(one.kind, one.file_system, one.clients, one.time, one.last, one.over, one.message)
                for one in found.events]


def test_a_quota_that_is_used_up_is_one_event_until_a_percent_is_free(tmp_path):
    server = ServerFiles(tmp_path)
    scans = Scans(server)

    def scan(now, granted):
        server.quota("scratch", "dt-0x0", "glb-usr", (4711, 500 * MIB, 0, granted, 0),
                     (4712, 500 * MIB, 0, 23, 0))
        return scans(now)
    assert [] == scan(T, 500 * MIB - 1)
    text = "scratch: user 4711, space: 500 MiB granted of a hard limit of 500 MiB"
    assert [("quota_full", "scratch", ("user:4711",), T + 600, T + 600, None, text)] == (
        scan(T + 600, 500 * MIB))
    assert [(T + 600, T + 1200, None)] == [one[3:6] for one in scan(T + 1200, 501 * MIB)]
    assert [] == scan(T + 1800, 495 * MIB)
    [event] = scan(T + 2400, 494 * MIB)
    assert (T + 600, T + 2400, T + 2400) == event[3:6]
    assert event[6].endswith("space: now 494 MiB granted of a hard limit of 500 MiB")
    assert 1 == len(scans.ids)


def test_a_soft_limit_of_inodes_in_a_pool_after_its_grace_time(tmp_path):
    server = ServerFiles(tmp_path)
    server.quota("scratch", "md-flash", "glb-prj", (23, 0, 4100, 4101, T))
    scans = Scans(server)
    assert [] == scans(T - 1)
    [event] = scans(T)
    assert ("project:23",) == event[2]
    assert ("scratch: project 23, inodes in pool flash: 4,101 granted of a soft limit of 4,100"
            == event[6])


def test_a_limit_that_is_removed_and_a_master_that_leaves_end_events(tmp_path):
    server = ServerFiles(tmp_path)
    server.quota("scratch", "dt-0x0", "glb-grp", (7, 53, 0, 53, 0), (11, 53, 0, 53, 0))
    scans = Scans(server)
    assert 2 == len(scans(T))
    server.quota("scratch", "dt-0x0", "glb-grp", (7, 0, 0, 53, 0), (11, 53, 0, 53, 0))
    ended = [one for one in scans(T + 600) if one[5] is not None]
    assert [("group:7",)] == [one[2] for one in ended]
    assert ended[0][6].endswith("it has no limit any more")
    server.stop("scratch-QMT0000")
    (tmp_path / "proc/fs/lustre/qmt").rmdir()
    [event] = scans(T + 1200)
    assert "MDT0000 is no longer on this storage server" in event[6]
    assert {} == scans.status


def test_the_status_has_the_nearest_first(tmp_path, monkeypatch):
    monkeypatch.setattr(quota, "MOST_SENT", 2)
    server = ServerFiles(tmp_path)
    server.quota("scratch", "md-0x0", "glb-usr", (4711, 100, 0, 23, 0), (4712, 100, 0, 83, 0),
                 (4713, 100, 0, 41, 0))
    scans = Scans(server)
    scans(T)
    found = scans.status["quotas"]["scratch"]
    assert (3, [4712, 4713]) == (found["count"], [one["id"] for one in found["nearest"]])


def test_they_are_read_each_five_minutes(tmp_path):
    server = ServerFiles(tmp_path)
    server.quota("scratch", "md-0x0", "glb-usr", (4711, 100, 0, 23, 0))
    first = quota.scan(server.place, None, T)
    server.quota("scratch", "md-0x0", "glb-usr", (4711, 100, 0, 37, 0))
    assert first.status == quota.scan(server.place, first.state, T + 599).status
    [row] = quota.scan(server.place, first.state, T + 600).status["quotas"]["scratch"]["nearest"]
    assert 37 == row["granted"]


def test_where_there_is_no_master_there_is_no_status(tmp_path):
    server = ServerFiles(tmp_path)
    assert ([], {}) == (lambda found: (found.events, found.status))(
        quota.scan(server.place, None, T))


def test_a_quota_master_has_space_in_bytes_inodes_and_pools(tmp_path):
    server = ServerFiles(tmp_path)
    server.quota("my-fs", "dt-0x0", "glb-usr", (4711, 53, 41, 43, T))
    server.quota("my-fs", "md-0x0", "glb-grp", (23, 59, 0, 37, 0))
    server.quota("my-fs", "dt-flash", "glb-prj", (7, 1 << 63, 0, 61, 0))
    server.quota("my-fs", "lqa-dt-flash", "glb-usr", (4711, 53, 41, 43, T))    # 2.17.57: of others
    why = []
    assert {"my-fs": [
        Quota("my-fs", "", USER, 4711, BYTES, 43 << 10, 41 << 10, 53 << 10, T),
        Quota("my-fs", "flash", PROJECT, 7, BYTES, 61 << 10, 0, 1 << 62, 0),
        Quota("my-fs", "", GROUP, 23, INODES, 37, 0, 59, 0)]} == read_quotas(str(tmp_path), why)
    assert [] == why


def test_without_a_quota_master_nothing_is_known(tmp_path):
    assert {} == read_quotas(str(tmp_path), [])


def test_a_file_that_is_not_understood_is_named_and_its_file_system_unknown(tmp_path):
    server, why = ServerFiles(tmp_path), []
    server.quota("home", "dt-0x0", "glb-usr", (4711, 53, 41, 43, T))
    path = tmp_path / "proc/fs/lustre/qmt/scratch-QMT0000/md-0x0/glb-grp"
    path.parent.mkdir(parents=True)
    path.write_text("a word\n")
    found = read_quotas(str(tmp_path), why)
    assert found["scratch"] is None and 1 == len(found["home"])
    [text] = why
    assert "qmt/scratch-QMT0000: md-0x0/glb-grp: expected global_pool" in text
