"""
`doctor` and `harvest --list` on a storage server: what of events can be read, and the one command
that fixes it.
"""
from __future__ import annotations

import os

import pytest
from harvest_desk import StorageDesk, a_job
from server_files import ServerFiles, service_stats
from test_doctor_storage import doctor

from iostats.storage.inspection import explain_unread_log

OST = "scratch-OST0003"
ON_THE_HOST = "nsenter -t 1 -m iostats_client.py doctor"


@pytest.fixture
def desk(tmp_path):
    with StorageDesk(tmp_path) as one:
        one.choices["node.reader"] = ""
        one.show([a_job(0)])
        yield one


def with_files(desk, release="2.17"):
    files = ServerFiles(desk.root, release)
    files.start(OST, instance=41, evictions=23, clients=37)
    files.start("MGS")
    (desk.root / "dev").mkdir()
    (desk.root / "dev/kmsg").write_text("4,23,37,-;Lustre: Lustre: Build Version: 2.17.0\n")
    return files


def listed(desk):
    [line] = [line for line in desk.client("harvest", "--list", "--root", desk.root,
                                           job=False).out.splitlines()
              if line.startswith("events: ")]
    return line


def test_what_can_be_read(desk):
    with_files(desk)
    # scratch-OST0000 has job_stats alone.
    text = ("kernel log: kmsg; health_check: healthy; recovery_status of 1 of 2 targets; "
            "eviction_count of 2 of 3")
    assert ("ok", text, "") == doctor(desk)["events"]
    assert f"events: {text}" == listed(desk)


def test_a_release_without_eviction_count(desk):
    with_files(desk, "2.15")
    assert ("ok", "kernel log: kmsg; health_check: healthy; recovery_status of 1 of 2 targets; no "
                  "eviction_count (2.16 on): evictions by the log alone", "") == (
        doctor(desk)["events"])


def test_a_log_that_cannot_be_read(desk):
    with_files(desk)
    (desk.root / "dev/kmsg").unlink()
    state, text, fix = doctor(desk)["events"]
    assert "note" == state and text.startswith(
        f"kernel log not read: {desk.root}/dev/kmsg: No such file or directory; health_check: ")
    assert fix == ("sudo iostats_client.py doctor" if os.geteuid() else ON_THE_HOST)
    assert ("ok", "kernel log not read: [events] kernel_log is no") == (
        doctor(desk, events_kernel_log="no")["events"][0],
        doctor(desk, events_kernel_log="no")["events"][1].partition(";")[0])


def test_a_file_that_is_not_understood(desk):
    with_files(desk).show(OST, evictions="many\n")
    state, text, _ = doctor(desk)["events"]
    assert "note" == state and text.endswith(
        f"not read: {OST}: eviction_count: expected a number, got 'many'")


def test_a_storage_server_that_is_not_healthy_is_a_problem(desk):
    with_files(desk).health("NOT HEALTHY")
    assert ("problem", "health_check: NOT HEALTHY; which target: the kernel's log",
            "lctl get_param health_check") == doctor(desk)["health"]


@pytest.mark.parametrize("restrict, capabilities, has_device, says", [
    ("1", 1 << 34, True, ""), ("0", 0, True, ""), ("1", (1 << 41) - 1, True, ""),
    ("1", 0, True, "it has no CAP_SYSLOG"), ("1", (1 << 34) - 1, True, "it has no CAP_SYSLOG"),
    ("0", 1 << 34, False, "/dev/kmsg is not in its sandbox"),
])
def test_what_an_agent_lacks(tmp_path, restrict, capabilities, has_device, says):
    """By its sandbox and its rights, not by what the unit's file says."""
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/dmesg_restrict").write_text(f"{restrict}\n")
    process = tmp_path / "4711"
    (process / "root/dev").mkdir(parents=True)
    (process / "status").write_text(f"Name:\tpython3\nCapEff:\t{capabilities:016x}\n")
    if has_device:
        (process / "root/dev/kmsg").touch()
    found = explain_unread_log(4711, str(tmp_path))
    assert found.startswith(says) and bool(found) == bool(says)
    assert "" == explain_unread_log(4712, str(tmp_path))            # it has just ended


def test_metrics_and_quotas_that_are_used_up(desk):
    files = with_files(desk)
    assert ("ok", "of 0 targets and 0 services", "") == doctor(desk)["metrics"]
    files.metrics(OST, lock_count=23)
    files.service("ost_io", 23, 64, service_stats(37, 41, 43))
    files.quota("scratch", "dt-0x0", "glb-usr", (4711, 53, 0, 53, 0), (4712, 53, 0, 23, 0))
    assert ("ok", "of 1 targets and 1 services; 2 quotas, 1 of them used up", "") == (
        doctor(desk)["metrics"])
    files.metrics(OST, brw="a word\n")
    state, text, fix = doctor(desk)["metrics"]
    assert ("note", "iostats_client.py harvest --list") == (state, fix)
    assert text.startswith(f"not understood: osd-ldiskfs/{OST}/brw_stats: expected snapshot_time")


def test_objects_that_osts_make_in_advance(desk):
    files = with_files(desk)
    assert "objects" not in doctor(desk)
    files.pool(OST)
    files.pool("scratch-OST0004", last_id=59)
    files.pool("scratch-OST0005", most=0, last_id=36)
    assert ("ok", "made in advance by 3 OSTs; the fewest: 23 (scratch-OST0004-osc-MDT0000)",
            "") == doctor(desk)["objects"]
    files.pool(OST, status=-28)
    assert ("note", "1 of 3 OSTs give none to an MDT: scratch-OST0003-osc-MDT0000: the OST is full",
            "lctl get_param osp.*.prealloc_*") == doctor(desk)["objects"]
