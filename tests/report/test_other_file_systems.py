"""
NFS, GPFS and local disks in the tables, pages, comparisons and lists that Lustre has.
"""
from __future__ import annotations

import pytest
from test_job_totals import llite
from trees import report

from iostats.base.config import Config
from iostats.cli import jobs
from iostats.report import job_charts, job_fields, job_list, job_tables
from iostats.report.diff.numbers import read_numbers
from iostats.report.html import tables
from iostats.report.html.page import make_tiles
from iostats.report.job_numbers import make_transfers
from iostats.report.job_summary import make_summary, split_bits
from iostats.report.network_bytes import explain_network_bytes
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals

MIB = 1 << 20
DISKS = Delta("cgroup_io", "local disks", "", "", {
    "nvme0n1_read_bytes": 23 * MIB, "nvme0n1_write_bytes": 37 * MIB}, False, "")
OF_NODES = Delta("diskstats", "local disks", "", "", {
    "nvme0n1_write_bytes": 59 * MIB}, False, "", True)
NFS = Delta("nfs", "nfs1:/home", "", "0:41", {
    "read_bytes": 41 * MIB, "direct_read_bytes": 41 * MIB, "READ": 43}, False, "", True)
CEPH = Delta("ceph", "cephfs:28f7427e", "", "client7", {
    "network_read_bytes": 29 * MIB, "network_write_bytes": 31 * MIB, "metadata_requests": 37},
             False, "")
GPFS = Delta("gpfs", "site:projects", "", "", {"read_bytes": 47 * MIB, "write_bytes": 0}, False, "")


def record_of(*deltas, nodes=1):
    totals = Totals("4711", nodes)
    for number in range(nodes):
        totals.add(report(f"nid{number}", list(deltas)))
    return job_tables.add_labels(totals.record(), Config())


def row_of(text, name):
    return next(line.split("|")[2:4] for line in text.splitlines() if line.startswith(f"| {name}"))


def test_local_disks_have_a_row_beside_the_file_systems():
    """In the report and on the page."""
    text = job_tables.format_report(record_of(DISKS, OF_NODES, NFS), Config(), "grid")
    assert ["23.0 MiB", "37.0 MiB"] == [cell.strip() for cell in row_of(text, "local disks")]
    alone = job_tables.format_report(record_of(DISKS), Config(), "grid")
    assert ["23.0 MiB", "37.0 MiB"] == [cell.strip() for cell in row_of(alone, "local disks")]
    [row] = [row for row in tables.make_file_system_table(
        record_of(DISKS, NFS).file_systems, "binary").rows if row[0] == "local disks"]
    assert ["local disks", "23.0 MiB", "37.0 MiB"] == row[:3]


@pytest.mark.parametrize("volumes, text", [
    ({}, "37.0 MiB"), ({"dm-0": 37}, ">= 37.0 MiB"), ({"dm-0": 59}, ">= 59.0 MiB"),
], ids=["no such device", "LUKS, or another partition", "LUKS alone"])
def test_where_a_device_may_hide_what_went_to_disks_the_sum_is_a_lower_bound(volumes, text):
    """LUKS writes as the kernel: its disk has none of it; 37 MiB were counted at a disk."""
    one = DISKS._replace(values={"nvme0n1_write_bytes": 37 * MIB, **{
        f"{name}_write_bytes": size * MIB for name, size in volumes.items()}})
    record = record_of(one)
    [row] = tables.make_file_system_table(record.file_systems, "binary").rows
    assert text == row[2]
    low, _ = split_bits(make_summary(record).lower_bound)
    assert (["disk_write_bytes"] if text.startswith(">=") else []) == low


def test_what_only_the_nodes_disks_counted_is_an_upper_bound():
    """59 MiB of all processes."""
    [row] = tables.make_file_system_table(record_of(OF_NODES).file_systems, "binary").rows
    assert "<= 59.0 MiB" == row[2]


@pytest.mark.parametrize("values, low, text", [
    ({}, False, ["44 % of what was read did not come over the network"]),
    ({"direct_read_bytes": 7}, False, []), ({"pnfs_ios": 1}, False, []), ({}, True, []),
], ids=["exact", "O_DIRECT", "pNFS", "mounted again"])
def test_nfs_and_its_network_are_compared_where_both_are_exact(values, low, text):
    """41 bytes by programs and 23 in requests; with pNFS, others went to data servers."""
    io = NFS._replace(lower_bound=low, values={
        "read_bytes": 41, "network_read_bytes": 23, "READ": 1, **values})
    assert text == explain_network_bytes(record_of(io).file_systems[0], "binary")


def test_a_counter_that_may_be_too_high_is_marked_in_each_view():
    """What O_DIRECT asked for; what a read of CephFS asked for, but not a write."""
    record = record_of(NFS, CEPH)
    text = " ".join(job_tables.format_report(record, Config(), "grid").split())
    for words in ("direct: bytes read | <= 41.0 MiB", "network: bytes read | <= 29.0 MiB",
                  "network: bytes written | 31.0 MiB"):
        assert words in text
    rows = [row for fs in record.file_systems if fs.sources
            for row in tables.make_counter_table(fs, "binary").rows]
    assert {"<= 41.0 MiB", "<= 29.0 MiB", "31.0 MiB"} == {row[2] for row in rows}
    numbers = read_numbers(record, "4711").numbers
    assert (0, 29 * MIB) == numbers["cephfs:28f7427e", "network: bytes read (CephFS requests)"][:2]
    assert 31 * MIB == numbers["cephfs:28f7427e",
                               "network: bytes written (CephFS requests)"].low


def test_cephfs_has_a_row_among_the_file_systems():
    """29 MiB that reads asked for, 31 MiB that were written, and 37 requests to the MDS."""
    record = record_of(CEPH)
    text = job_tables.format_report(record, Config(), "grid")
    assert ["<= 29.0 MiB", "31.0 MiB"] == [cell.strip() for cell in row_of(text, "cephfs:28f7427e")]
    [row] = tables.make_file_system_table(record.file_systems, "binary").rows
    assert ["cephfs:28f7427e", "<= 29.0 MiB", "31.0 MiB", "-", "-", "-"] == row
    assert ["<= 29.0 MiB", "31.0 MiB"] == [
        tile.text for tile in make_tiles(record, record.file_systems, "binary", None)][:2]
    assert "MDS" in text and [["MDS", "requests 37", "nid0", "37"]] == [
        row[:4] for row in tables.make_metadata_table(record.file_systems[0]).rows]


def test_gpfs_has_calls_of_programs_as_lower_bounds():
    """Counted in 32 bits, which may have been full; the bytes have 64."""
    record = record_of(GPFS._replace(values={
        "read_bytes": 47 * MIB, "write_bytes": 53, "read_calls": 59, "write_calls": 61, "open": 67,
        "close": 71}))
    [fs] = record.file_systems
    assert [("47.0 MiB", ">= 59", "<= 815.7 KiB"), ("53 bytes", ">= 61", "<= 0 bytes")] == [
        tuple(row[1:]) for row in tables.make_transfer_table(fs, "binary").rows]
    assert [["open", ">= 67"], ["close", ">= 71"]] == [
        row[:2] for row in sorted(tables.make_operation_table(fs).rows, key=lambda row: row[1])]
    assert {} == fs.sources["gpfs"].totals
    beside = job_tables.format_report(
        record_of(GPFS._replace(values={"open": 67}), llite(getattr=73)), Config(), "grid")
    assert [["scratch", "0", "0", "73", "0"], ["site:projects", ">= 67", ">= 0", "-", ">= 0"]] == [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in beside.splitlines()
        if line.count("|") == 6 and "getattr" not in line]
    numbers = read_numbers(record, "4711").numbers
    assert (59, float("inf")) == numbers["site:projects", "reads"][:2]
    assert 47 * MIB == numbers["site:projects", "bytes read"].high


def test_a_chart_has_the_mark_of_the_table():
    """With O_DIRECT the bytes may be too high; the chart called them too low."""
    record = record_of(NFS, nodes=2)
    [panel] = job_charts.make_node_chart(record, record.file_systems[0]).panels
    assert "<= " == panel.mark


def test_nothing_unknown_is_shown_that_a_file_system_cannot_count():
    """GPFS has no numbers of its network, and no metadata requests went to this NFS server."""
    record = record_of(NFS, GPFS)
    nfs, gpfs = sorted(record.file_systems, key=lambda fs: fs.kind == "gpfs")
    assert ["application"] * 2 == [transfer.layer for transfer in make_transfers(gpfs)]
    assert None is tables.make_metadata_table(nfs)
    assert "NFS server" not in job_tables.format_report(record, Config(), "grid")


def test_a_comparison_names_counters_as_a_report_does():
    """The job's own disks once, and the whole node's as what they are, an upper bound."""
    numbers = read_numbers(record_of(DISKS, OF_NODES), "4711").numbers
    assert 37 * MIB == numbers["local disks", "nvme0n1: bytes written (job's cgroup)"].low
    assert not any("node's disks" in name for _, name in numbers)
    alone = read_numbers(record_of(OF_NODES), "4711").numbers
    assert (0, 59 * MIB) == alone["local disks", "nvme0n1: bytes written (node's disks)"][:2]


@pytest.mark.parametrize("arguments, columns", [
    ([], ["ReadBytes", "WriteBytes", "Opens", "Operations"]),
    (["--fstype", "nfs"], ["NFSReadBytes", "NFSWriteBytes"]),
    (["--fstype", "gpfs"], ["GPFSReadBytes", "GPFSWriteBytes"]),
    (["--fstype", "cephfs"], ["CephFSReadBytes", "CephFSWriteBytes"]),
    (["--fstype", "lustre,disk"], ["ReadBytes", "WriteBytes", "Opens", "Operations",
                                   "DiskReadBytes", "DiskWriteBytes"]),
], ids=["all", "NFS", "GPFS", "CephFS", "Lustre and disks"])
def test_a_list_of_jobs_has_the_bytes_of_the_chosen_kinds(arguments, columns):
    """A job that read 41 MiB from NFS was listed with 0 bytes, those from Lustre."""
    fields = job_fields.find_fields_of_kinds(
        arguments[1].split(",") if arguments else [])
    assert columns == fields
    assert job_list.parse_columns(",".join(fields)) and "--fstype" in jobs.JobsOptions.format_help()
