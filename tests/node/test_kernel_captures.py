"""
What real kernels counted of work that is known: tests/data/kernels, of NFS and of a job's disk.
"""
import json
import shutil

import pytest
from trees import DATA, report, snapshot

from iostats.base.config import Config
from iostats.node import sources
from iostats.report.why.causes import judge_record
from iostats.totals import delta
from iostats.totals.job_totals import Totals

KERNELS = sorted((DATA / "kernels").glob("linux-*"))
# Requests of which the server counts each once, whatever else is in its compound.
COUNTED_ALIKE = ("READ", "WRITE", "CLOSE", "CREATE", "REMOVE", "RENAME")
DEAD_SERVER = len(b"hello\n")           # written to v3 and v42 while the server was stopped


def copy_with_links(source, destination):
    """Copy a tree; files of sys/dev/block, whose text is the target of a link, become links."""
    shutil.copytree(source, destination)
    for path in destination.glob("sys/dev/block/*"):
        device = path.read_text()
        path.unlink()
        path.symlink_to(device)
    return destination


@pytest.fixture(params=KERNELS, ids=lambda path: path.name)
def kernel(request, tmp_path):
    """({(source, file system): Delta}, work.json) of one kernel."""
    before, after = (snapshot(copy_with_links(request.param / moment, tmp_path / moment))
                     for moment in ("before", "after"))
    truth = json.loads((request.param / "work.json").read_text())
    elapsed_ns = truth["elapsed_s"] * 1_000_000_000
    after = after._replace(wall_ns=before.wall_ns + elapsed_ns, boot_ns=before.boot_ns + elapsed_ns)
    gains = {(one.source, one.file_system): one
             for one in delta.compute_deltas(before, after, sources.list_sources())}
    return gains, truth


def read_bytes(work):
    """What programs asked for: of a direct read behind the end of a file, the client counts it."""
    return work["read_bytes"] + work["direct_read_bytes"] + work["beyond_end"]


def write_bytes(work):
    """What programs wrote."""
    return work["write_bytes"] + work["direct_write_bytes"]


@pytest.mark.parametrize("directory, name, more", [
    ("v3", "nfs1:/export/v3", DEAD_SERVER), ("v40", "nfs1:/v40", 0), ("v41", "nfs1:/v41", 0),
], ids=["NFS 3", "NFS 4.0", "NFS 4.1"])
def test_bytes_of_a_mount_are_what_programs_moved(kernel, directory, name, more):
    """Each byte that programs read and wrote, and each READ that the server answered."""
    gains, truth = kernel
    gain, work = gains["nfs", name], truth[directory]
    assert (read_bytes(work), write_bytes(work) + more, False, True) == (
        gain.values["read_bytes"], gain.values["write_bytes"], gain.lower_bound, gain.proved)
    assert (work["server"]["read_bytes"], work["server"]["write_bytes"] + more) == (
        gain.values["network_read_bytes"], gain.values["network_write_bytes"])
    if directory != "v3":
        asked = work["server"]["requests"]
        assert {op: asked[op] for op in COUNTED_ALIKE} == {
            op: gain.values.get(op, 0) for op in COUNTED_ALIKE}


def test_a_superblock_of_three_mounts_is_counted_once(kernel):
    """The kernel prints the same counters for v42, home_a and home_b."""
    gains, truth = kernel
    works = [truth[name] for name in ("v42", "home_a", "home_b")]
    assert not {("nfs", "nfs1:/home_a"), ("nfs", "nfs1:/home_b")} & set(gains)
    values = gains["nfs", "nfs1:/v42"].values
    assert (sum(map(read_bytes, works)), sum(map(write_bytes, works)) + DEAD_SERVER) == (
        values["read_bytes"], values["write_bytes"])


def test_a_mount_that_was_mounted_again_is_a_lower_bound_by_its_age(kernel):
    """1009 bytes were written behind the second mount."""
    gain = kernel[0]["nfs", "nfs1:/again"]
    assert (1009, True, "mounted again after the start") == (
        gain.values["write_bytes"], gain.lower_bound, gain.why)


def test_a_jobs_cgroup_has_its_disk_alone_and_diskstats_an_upper_bound(kernel):
    """Written: whole blocks of 1 KiB; read: with read-ahead and directories, less than 1 % more."""
    gains, truth = kernel
    work = truth["disk"]
    own, node = (gains[source, "local disks"].values for source in ("cgroup_io", "diskstats"))
    blocks = 7 * -(-(work["write_bytes"] // 7) // 1024) * 1024
    assert blocks + work["direct_write_bytes"] == own["nvme0n1_write_bytes"]
    read = work["read_bytes"] + work["direct_read_bytes"]
    assert read <= own["nvme0n1_read_bytes"] < read * 1.01
    for metric in ("nvme0n1_read_bytes", "nvme0n1_write_bytes"):
        assert own[metric] <= node[metric]


def test_lost_requests_are_counted_as_sent_again(kernel):
    """Three times a proxy lost what the client had sent, and broke its connection."""
    gains, truth = kernel
    if "lossy" not in truth:
        assert all("retransmissions" not in gain.values for gain in gains.values())
        return
    values = gains["nfs", "nfs3:/lossy"].values
    assert truth["lossy"]["write_bytes"] == values["write_bytes"]
    assert truth["lossy"]["losses"] <= values["retransmissions"]


def test_a_report_has_the_numbers_of_the_kernel(kernel):
    """NFS by application and network, without an operation that was not counted."""
    gains, truth = kernel
    totals = Totals("4711", 1)
    totals.add(report(deltas=list(gains.values())))
    record = totals.record()
    by_name = {fs.name: fs for fs in record.file_systems}
    assert read_bytes(truth["v41"]) == by_name["nfs1:/v41"].application.read_bytes
    assert by_name["nfs1:/again"].lower_bound and not by_name["nfs1:/v41"].lower_bound
    assert ["read_bytes", "write_bytes"] == by_name["nfs1:/v41"].too_high           # O_DIRECT
    judge_record(record, Config())
