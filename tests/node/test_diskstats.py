"""
The source of the node's disks: /proc/diskstats in each form, and its place in a record.
"""
import pytest
from test_job_totals import llite
from trees import report

from iostats.base.config import Config
from iostats.node import measurement, sources
from iostats.node.sources import diskstats
from iostats.report import job_tables
from iostats.report.job_summary import make_summary, split_bits
from iostats.totals import delta
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals
from iostats.totals.snapshot import Snapshot

SOURCES = {"diskstats": diskstats}
# Of Linux 3.10 (11 numbers), 4.18 (15, with discards) and 5.5 (17, with flushes).
FORMS = {"11": "", "15": " 5 0 40 3", "17": " 5 0 40 3 23 7"}


def line(name="sda", numbers=(7, 1, 100, 11, 13, 2, 200, 17), more=""):
    return f"   8       0 {name} {' '.join(map(str, numbers))} 0 29 31{more}\n"


def node(root, text):
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc/diskstats").write_text(text)
    return Snapshot("4711", "node001", "seq", "boot", 10**18, 10**9,
                    tuple(diskstats.read(str(root), Config())))


@pytest.mark.parametrize("more", FORMS.values(), ids=list(FORMS))
def test_a_disks_gain_in_each_form(tmp_path, more):
    """23 and 41 sectors of 512 bytes, 3 and 5 requests, 37 + 43 ms."""
    before = node(tmp_path, line(more=more))
    after = node(tmp_path, line(numbers=(10, 1, 123, 48, 18, 2, 241, 60), more=more))
    [found] = delta.compute_deltas(before, after, SOURCES)
    assert {"sda_reads": 3, "sda_read_bytes": 23 * 512, "sda_writes": 5,
            "sda_write_bytes": 41 * 512, "sda_us": 80_000} == found.values
    assert ("local disks", False, True) == (found.file_system, found.lower_bound, found.proved)


def test_whole_disks_alone_are_taken():
    """Not what is a part of one, or built of some, or has no medium of its own."""
    names = ("sda", "sda1", "nvme0n1", "nvme0n1p2", "nvme0c0n1", "vdb", "mmcblk0", "mmcblk0p1",
             "mmcblk0boot0", "dm-0", "md0", "loop7", "ram0", "zram0", "sr0", "pmem0", "dasda",
             "dasda1")
    reading = diskstats.parse("".join(map(line, names)))
    assert ["sda", "nvme0n1", "vdb", "mmcblk0", "pmem0", "dasda"] == list(dict.fromkeys(
        name.partition("_")[0] for name in reading.counters))


def test_milliseconds_that_begin_again_are_a_lower_bound(tmp_path):
    """The kernel prints 32 bits of them; no other number begins again."""
    before = node(tmp_path, line(numbers=(7, 1, 100, 2**32 - 23, 13, 2, 200, 17)))
    after = node(tmp_path, line(numbers=(10, 1, 123, 41, 13, 2, 200, 17)))
    [found] = delta.compute_deltas(before, after, SOURCES)
    assert ({"sda_reads": 3, "sda_read_bytes": 23 * 512}, True) == (
        found.values, found.lower_bound)


@pytest.mark.parametrize("numbers", [(1, 2, 3), (1, 2, 3, 4, 5, 6, "-7", 8), (2**54, *[0] * 7)],
                         ids=["few", "negative", "impossible"])
def test_a_line_that_is_not_of_its_form_has_no_numbers(numbers):
    reading = diskstats.parse(f"8 0 sda {' '.join(map(str, numbers))}\n" + line("sdb"))
    assert ["sda"] == list(reading.bad)
    assert "proc/diskstats:1: expected 8 numbers" in reading.bad["sda"]
    assert all(name.startswith("sdb_") for name in reading.counters)


def test_a_node_without_the_file_has_none(tmp_path):
    assert [] == diskstats.read(str(tmp_path), Config())


def test_disks_that_did_nothing_are_not_sent(tmp_path):
    snapshot = node(tmp_path, line())
    assert [] == measurement.report([snapshot, snapshot], sources.list_sources(),
                                    str(tmp_path))["deltas"]


# -- in the record -----------------------------------------------------------------------


def disks(source="diskstats", **values):
    return Delta(source, "local disks", "", "", values, False, "", True)


def record_of(*deltas):
    totals = Totals("4711", 1)
    totals.add(report(deltas=deltas))
    return job_tables.add_labels(totals.record(), Config())


NUMBERS = {"sda_read_bytes": 23 << 10, "sda_write_bytes": 37 << 10, "sda_us": 41_000_000}


def test_they_are_an_upper_bound_in_the_long_report_alone():
    """Something writes to a node's disks in any job."""
    record = record_of(disks(**NUMBERS), llite(read_bytes=41, read_calls=1))
    short, long = (job_tables.format_report(record, Config(), long=long) for long in (False, True))
    assert "disk" not in short
    assert "  node's disks  sda: bytes written  <= 37.0 KiB\n" in long, long


def test_a_job_that_did_nothing_on_lustre_is_shown_as_before():
    """Its Lustre file system, with zeros, rather than disks alone."""
    with_disks, without = (job_tables.format_report(record_of(*more, llite()), Config())
                           for more in ([disks(**NUMBERS)], []))
    assert without == with_disks


def test_a_node_with_nothing_but_disks_has_no_lustre():
    assert ["node001: no Lustre file system is mounted"] == record_of(disks(**NUMBERS)).notes


def test_a_list_of_jobs_has_the_jobs_own_or_else_the_nodes():
    """The latter may be too high."""
    of_node = make_summary(record_of(disks(**NUMBERS)))
    assert (23 << 10, 37 << 10) == (of_node.disk_read_bytes, of_node.disk_write_bytes)
    assert ([], ["disk_read_bytes", "disk_write_bytes"]) == split_bits(of_node.lower_bound)
    own = make_summary(record_of(disks(**NUMBERS), disks("cgroup_io", sda_write_bytes=41)))
    assert (0, 41, 0) == (own.disk_read_bytes, own.disk_write_bytes, own.lower_bound)
