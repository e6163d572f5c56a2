"""What the kernel's log reports of disks, targets' file systems, memory and networks."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.lustre import system_log
from iostats.lustre.system_log import parse_message

SUFFIX = "total-vm:65011712kB, anon-rss:62914560kB, file-rss:0kB"

# kernel, or where it is from; line; kind; device
LINES = [
    ("ext4 3.10", "LDISKFS-fs error (device dm-3): ldiskfs_lookup:1803: inode #2: comm mdt00_001: "
     "deleted inode referenced: 12", "backend_error", "dm-3"),
    ("ext4 std_error", "LDISKFS-fs error (device dm-3) in ldiskfs_reserve_inode_write:5300: Journal"
     " has aborted", "backend_error", "dm-3"),
    ("ext4 read-only", "LDISKFS-fs (dm-3): Remounting filesystem read-only", "read_only", "dm-3"),
    ("jbd2", "Aborting journal on device dm-3-8.", "backend_error", "dm-3-8"),
    ("zfs 0.7", "WARNING: Pool 'ost3' has encountered an uncorrectable I/O failure and has been "
     "suspended.", "pool_suspended", "ost3"),
    ("zfs mmp", "WARNING: MMP writes to pool 'ost3' have not succeeded in over 20000 ms; suspending"
     " pool. Hrtime 2341", "pool_suspended", "ost3"),
    ("3.10", "end_request: I/O error, dev sdb, sector 2341", "disk_error", "sdb"),
    ("3.10 medium", "end_request: critical medium error, dev sdb, sector 2341", "disk_error",
     "sdb"),
    ("4.4", "blk_update_request: I/O error, dev sdb, sector 2341", "disk_error", "sdb"),
    ("4.18", "print_req_error: I/O error, dev sdb, sector 2341 flags 801", "disk_error", "sdb"),
    ("5.4", "blk_update_request: critical medium error, dev sdb, sector 2341 op 0x0:(READ) flags "
     "0x80700 phys_seg 1 prio class 0", "disk_error", "sdb"),
    ("6.1", "I/O error, dev nvme0n1, sector 2341 op 0x1:(WRITE) flags 0x0 phys_seg 1 prio class 2",
     "disk_error", "nvme0n1"),
    ("nvme 4.18", "nvme nvme0: I/O 23 QID 5 timeout, reset controller", "disk_timeout", "nvme0"),
    ("nvme 6.1", "nvme nvme0: I/O 23 (Read) QID 5 timeout, aborting", "disk_timeout", "nvme0"),
    ("nvme down", "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
     "disk_timeout", "nvme0"),
    ("multipath 3.10", "device-mapper: multipath: Failing path 8:16.", "path_failed", "8:16"),
    ("multipath 6.1", "device-mapper: multipath: 253:3: Failing path 8:16.", "path_failed",
     "8:16"),
    ("md raid6", "md/raid:md0: Disk failure on sdb1, disabling device.", "disk_failed", "md0"),
    ("md raid10", "md/raid10:md7: Disk failure on sdb1, disabling device.", "disk_failed", "md7"),
    ("md stopped", "md/raid:md0: Cannot continue operation (3/10 failed).", "disk_failed", "md0"),
    ("hung", "INFO: task ll_ost00_003:4711 blocked for more than 120 seconds.", "hung_task",
     "ll_ost00_003"),
    ("oom 3.10", f"Killed process 4711 (solver) {SUFFIX}", "out_of_memory", "solver"),
    ("oom RHEL 7", "Killed process 4711 (solver), UID 1000, total-vm:65011712kB, anon-rss:62914560"
     "kB, file-rss:0kB, shmem-rss:4kB", "out_of_memory", "solver"),
    ("oom 5.10", f"Out of memory: Killed process 4711 (solver) {SUFFIX}, shmem-rss:4kB, UID:1000 "
     "pgtables:37kB oom_score_adj:0", "out_of_memory", "solver"),
    ("oom cgroup", f"Memory cgroup out of memory: Killed process 4711 (solver) {SUFFIX}, "
     "shmem-rss:4kB, UID:1000 pgtables:37kB oom_score_adj:-23", "out_of_memory", "solver"),
    ("mlx5", "mlx5_core 0000:41:00.0 ib0: Link down", "link_down", "ib0"),
    ("hfi1", "hfi1 0000:81:00.0: hfi1_0: 8051: Link down", "link_down", "hfi1_0"),
    ("cxi", "cxi_ss1 0000:21:00.0: cxi0[hsn0] CXI_EVENT_LINK_DOWN", "link_down", "cxi0")]


@pytest.mark.parametrize("line, kind, device", [one[1:] for one in LINES],
                         ids=[one[0] for one in LINES])
def test_each_form_of_a_message(line, kind, device):
    found = parse_message(line)
    assert (kind, device) == (found.kind, found.device)
    assert line.encode().startswith(system_log.STARTS)


@pytest.mark.parametrize("line", [one[1] for one in LINES if one[2] != "backend_error"],
                         ids=[one[0] for one in LINES if one[2] != "backend_error"])
def test_more_than_the_message_is_none(line):
    assert parse_message(f"x{line}") is None
    assert parse_message(f"{line} and more") is None or "timeout" in line or "PCI" in line


def test_a_kill_names_the_process_and_its_memory():
    assert "killed solver, out of memory (61440 MiB)" == parse_message(LINES[21][1]).text


@pytest.mark.parametrize("line", [
    "INFO: task solver:4711 blocked for more than 120 seconds.",
    "INFO: task xll_ost00_003:4711 blocked for more than 120 seconds.",
    "EXT4-fs error (device sda1): ext4_lookup:1803: inode #2: comm ls: bad",
    "Out of memory: Kill process 4711 (solver) score 900 or sacrifice child",
    "nvme nvme0: 8/0/0 default/read/poll queues", "mlx5_core 0000:41:00.0 ib0: Link up",
    "cxi_ss1 0000:21:00.0: cxi0[hsn0] CXI_EVENT_LINK_UP",
    "md/raid1:md0: not clean -- starting background reconstruction"])
def test_other_lines_have_no_kind(line):
    assert parse_message(line) is None


@given(st.text(min_size=1, max_size=15))
def test_a_process_by_any_name_is_a_process(name):
    """A name of up to 15 characters makes no other kind, and nothing for a terminal to obey."""
    found = parse_message(f"Out of memory: Killed process 4711 ({name}) {SUFFIX}, shmem-rss:4kB, "
                          f"UID:1000 pgtables:37kB oom_score_adj:0")
    if found is not None:                               # a name with an end of line
        assert "out_of_memory" == found.kind and found.text.isprintable()
    assert found is not None or "\n" in name
    hung = parse_message(f"INFO: task {name}:4711 blocked for more than 120 seconds.")
    assert hung is None or "hung_task" == hung.kind


@given(st.text(max_size=200))
def test_whatever_follows_a_beginning_no_line_is_an_error(text):
    for start in system_log.STARTS:
        found = parse_message(start.decode() + text)
        assert found is None or (found.kind in system_log.KINDS and found.text.isprintable())
