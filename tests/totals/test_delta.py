"""
What changed between two snapshots: never negative, never more than was done, and a lower bound
says that it is one.
"""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.lustre.metric_meanings import METRICS, OPERATIONS
from iostats.lustre.metrics import NOT_OPERATIONS, read_metrics
from iostats.lustre.paths import File
from iostats.node import sources
from iostats.totals import delta
from iostats.totals.snapshot import Snapshot

SOURCES = sources.read_at("start")
MOUNT = "scratch-ffff9a3c5d1e0800"
OST = "scratch-OST0000-osc-ffff9a3c5d1e0800"
CLEARED = "the counters were cleared after the start"


def header(start=None):
    return "snapshot_time             1752000060.000000023 secs.nsecs\n" + (
        "" if start is None else f"start_time                {start} secs.nsecs\n")


def stats(*lines, start=None):
    return header(start) + "".join(f"{line}\n" for line in lines)


def file(text, source="llite", name=MOUNT, code=0):
    return File(source, name, f"proc/fs/lustre/{name}/stats", code, text)


def snapshot(*files, boot="boot one"):
    return Snapshot("4711", "node001", "seq", boot, 23, 37, tuple(files))


def change(before, after, source="llite", name=MOUNT):
    """(values, lower_bound, why) of one file whose text was `before` and is `after`."""
    [found] = delta.compute_deltas(snapshot(file(before, source, name)),
                                   snapshot(file(after, source, name)), SOURCES)
    return found.values, found.lower_bound, found.why


# -- one file, two readings --------------------------------------------------------------


@pytest.mark.parametrize("before, after, values, lower_bound", [
    (["open 23 samples [regs]"], ["open 60 samples [regs]"], {"open": 37}, False),
    (["open 23 samples [regs]"], ["open 23 samples [regs]"], {}, False),
    ([], ["open 23 samples [regs]"], {"open": 23}, False),
    (["open 60 samples [regs]"], ["open 23 samples [regs]"], {"open": 23}, True),
    (["open 60 samples [regs]"], [], {}, True),
    (["open 60 samples [regs]", "close 5 samples [regs]"],
     ["open 23 samples [regs]", "close 11 samples [regs]"], {"open": 23, "close": 11}, True),
    (["open 60 samples [regs]", "close 5 samples [regs]"],
     ["close 11 samples [regs]"], {"close": 11}, True),
    (["read_bytes 23 samples [bytes] 4096 8192 151552"],
     ["read_bytes 60 samples [bytes] 4096 8192 303104"],
     {"read_bytes": 151552, "read_calls": 37}, False),
    (["read_bytes 23 samples [bytes] 4096 8192 151552"],
     ["read_bytes 29 samples [bytes] 4096 8192 131072"],
     {"read_bytes": 131072, "read_calls": 29}, True),
    (["read_bytes 23 samples [bytes] 4096 8192 151552"],
     ["read_bytes 60 samples [bytes] 5000 8192 303104"],
     {"read_bytes": 303104, "read_calls": 60}, True),
    (["read_bytes 23 samples [bytes] 4096 8192 151552"],
     ["read_bytes 60 samples [bytes] 4096 8191 303104"],
     {"read_bytes": 303104, "read_calls": 60}, True),
    (["read_bytes 23 samples [bytes] 4096 8192 151552"],
     ["read_bytes 60 samples [bytes] 1 1048576 303104"],
     {"read_bytes": 151552, "read_calls": 37}, False),
    (["opencount 61 samples [reqs] 1 3 67 79"], ["opencount 84 samples [reqs] 1 5 131 197"],
     {"opencount": 23}, False),
    (["readahead_pages 2 samples [pages] 15 2047 2062"],
     ["readahead_pages 25 samples [pages] 15 2047 4109"],
     {"readahead_pages": 23, "readahead_pages_sum": 2047}, False),
], ids=["grew", "did not move", "first seen", "cleared", "cleared, silent since",
        "cleared, one overtook", "cleared, one is gone and one overtook", "bytes grew",
        "the sum fell though the count rose", "the minimum rose", "the maximum fell",
        "minimum fell, maximum rose: as they should", "a depth is no sum of work",
        "pages have a sum"])
def test_the_gain_of_a_file_without_a_start_time(before, after, values, lower_bound):
    """A gain is never negative, and never counts work from before a clear twice."""
    assert (values, lower_bound) == change(stats(*before), stats(*after))[:2]


@pytest.mark.parametrize("before, after, values, lower_bound", [
    (("1751990000.000000456", 23), ("1751990000.000000456", 60), {"open": 37}, False),
    (("1751990000.000000456", 23), ("1751990041.000000456", 60), {"open": 60}, True),
    (("1751990000.000000456", 23), ("1751990000.000000457", 60), {"open": 60}, True),
    (("1751990000.000000456", 60), ("1751990041.000000456", 23), {"open": 23}, True),
    (("0.000000000", 23), ("0.000000000", 60), {"open": 37}, False),
    (("0.000000000", 60), ("0.000000000", 23), {"open": 23}, True),
    (("0.000000000", 23), ("1751990041.000000456", 60), {"open": 60}, True),
    ((None, 23), ("1751990041.000000456", 60), {"open": 37}, False),
    (("1751990000.000000456", 23), (None, 60), {"open": 37}, False),
    (("1751990000.000000456", 60), (None, 23), {"open": 23}, True),
], ids=["the same", "cleared, and more done since than before", "cleared a nanosecond later",
        "cleared", "2.15.0: 0 in both", "2.15.0: 0 in both, and a counter fell",
        "rpc_stats of 2.15: 0 until it was cleared", "header switched on meanwhile",
        "header switched off meanwhile", "switched off, and a counter fell"])
def test_the_start_time_tells_a_clear_where_it_is_shown(before, after, values, lower_bound):
    """It changes with each clear: so a clear is seen even when all counters have overtaken."""
    assert (values, lower_bound) == change(
        stats(f"open {before[1]} samples [regs]", start=before[0]),
        stats(f"open {after[1]} samples [regs]", start=after[0]))[:2]


@pytest.mark.parametrize("before, after", [
    ("read_bytes 23 samples [bytes] 4096 8192 151552",
     "read_bytes 60 samples [bytes] 4096 8192 131072"),
    ("read_bytes 60 samples [bytes] 4096 8192 151552",
     "read_bytes 23 samples [bytes] 4096 8192 303104"),
    ("read_bytes 60 samples [bytes] 4096 8192 303104",
     "read_bytes 23 samples [bytes] 4096 8192 151552"),
], ids=["the sum fell", "the count fell", "both fell"])
def test_a_counter_that_fell_with_the_same_start_time_is_no_gain_at_all(before, after):
    """It can't be, so nothing is made of it: no negative, and no 2**63, and a word about it."""
    values, lower_bound, why = change(stats(before, start="1751990000.000000456"),
                                      stats(after, start="1751990000.000000456"))
    assert all(0 <= gain <= 303104 for gain in values.values())
    assert lower_bound and why


@pytest.mark.parametrize("before, after, values, lower_bound", [
    ("9223372036854775800", "-9223372036854775785", {"read_bytes": 31, "read_calls": 23}, False),
    ("-9223372036854775785", "-9223372036854775754", {"read_bytes": 31, "read_calls": 23}, False),
    ("-11", "20", {"read_bytes": 31, "read_calls": 23}, False),
    ("9223372036854775776", "9223372036854775807", {"read_bytes": 31, "read_calls": 23}, True),
    ("9223372036854775807", "9223372036854775807", {"read_calls": 23}, True),
    ("100", "-9223372036854775608", {"read_calls": 23}, True),
    ("9223372036854775800", "41", {"read_calls": 23}, True),
], ids=["over 2**63, printed negative", "beyond 2**63 in both", "over 2**64, positive again",
        "reached the limit (since 2.17)", "was at the limit before",
        "more than 2**63 in one job", "it fell from nearly 2**63"])
def test_sums_past_2_63_are_counted_on_and_never_negative(before, after, values, lower_bound):
    """%lld prints them negative up to 2.16; since 2fdb3f6c96 (LU-18834) they stay at 2**63-1.
    37 samples of at most 2**62 can be 2**63; no job moves as much."""
    start = "1751990000.000000456"
    assert (values, lower_bound) == change(
        stats(f"read_bytes 37 samples [bytes] 1 {2**62} {before}", start=start),
        stats(f"read_bytes 60 samples [bytes] 1 {2**62} {after}", start=start))[:2]


@pytest.mark.parametrize("before, after", [
    ("read_bytes 37 samples [bytes] 4096 4096 151552",
     "read_bytes 60 samples [bytes] 4096 4096 99999999"),
    ("read_bytes 37 samples [bytes] 4096 4096 151552", "read_bytes 60 samples [bytes] 4096 40"),
    ("read_bytes 37 samples [bytes] 4096 4096 999999",
     "read_bytes 60 samples [bytes] 4096 4096 245760"),
    ("read_bytes 37 sam", "read_bytes 60 samples [bytes] 4096 4096 245760"),
    ("read_by", "read_bytes 60 samples [bytes] 4096 4096 245760"),
    ("read_bytes 37 samples [bytes] 4096 4096 151552", "read_by"),
    ("read_bytes 37 samples [bytes] 4096 4096 151552",
     "read_bytes 60 samples [bytes] 4096 4096 -1"),
    ("read_bytes 37 samples [bytes] 4096 4096 151552",
     "read_bytes 60 samples [bytes] 4096 4096 245760\n"
     "read_bytes 60 samples [bytes] 4096 4096 245760"),
    ("read_bytes 37 samples [bytes] 4096 4096 151552",
     "read\0bytes 60 samples [bytes] 4096 4096 245760"),
], ids=["a sum above samples x maximum", "torn", "impossible at the start", "torn at the start",
        "torn in its name at the start", "torn in its name", "negative", "twice",
        "a NUL in its name"])
@pytest.mark.parametrize("start", [None, "1751990000.000000456"])
def test_a_bad_line_costs_its_counter_and_marks_the_file(before, after, start):
    """23 opens between the two; of read_bytes nothing is known, and nothing was cleared."""
    values, lower_bound, why = change(stats("open 37 samples [regs]", before, start=start),
                                      stats("open 60 samples [regs]", after, start=start))
    assert ({"open": 23}, True) == (values, lower_bound)
    assert why.startswith("not counted: proc/fs/lustre/scratch-ffff9a3c5d1e0800/stats:")


def test_a_bad_write_bytes_is_not_taken_for_tiny_writes():
    """`write` has 23 calls that write_bytes has not, because its line is bad."""
    values, _, why = change(
        stats("write 37 samples [usecs] 1 1 37 37", "write_bytes 37 samples [bytes] 1 4096 151552"),
        stats("write 60 samples [usecs] 1 1 60 60", "write_bytes 60 samp"))
    assert {"write": 23, "write_us": 23, "write_us2": 23} == values
    assert "not counted: " in why


def test_a_gain_that_its_samples_cannot_make_up_is_not_believed():
    """5 bytes in 37 calls before, of which each had 1 at least; 3 calls later 40 x 4096."""
    values, lower_bound, why = change(
        stats("read_bytes 37 samples [bytes] 0 4096 5", start="1751990000.000000456"),
        stats("read_bytes 40 samples [bytes] 0 4096 163840", start="1751990000.000000456"))
    assert ({"read_calls": 3}, True) == (values, lower_bound)
    assert "expected at most 3 x 4096 more in 3 samples, got 163835" in why


def test_the_reason_of_a_clear_is_a_sentence_with_its_moment():
    """1751990041 is 2025-07-08 15:54:01 UTC."""
    _, _, why = change(stats("open 60 samples [regs]", start="1751990000.000000456"),
                       stats("open 23 samples [regs]", start="1751990041.000000456"))
    assert why.startswith(CLEARED) and why.endswith(", at 2025-07-08 15:54:01 UTC")


def test_an_operation_has_its_time_in_microseconds():
    """23 opens in 61403 us: the sum of [usecs], never taken for a count."""
    values, _, _ = change(stats("open 37 samples [usecs] 31 8117 41000 402653184"),
                          stats("open 60 samples [usecs] 31 8117 102403 805306368"))
    assert (23, 61403) == (values["open"], values["open_us"])


def test_two_lines_of_one_name_gain_together():
    """`unnamed-opcode-59` of 2.17 twice: (23 - 11) + (37 - 7) = 42 requests."""
    name = "scratch-MDT0000-mdc-ffff9a3c5d1e0800"
    values, lower_bound, _ = change(
        stats("unnamed-opcode-59 11 samples [usecs] 5 97 131 9409",
              "unnamed-opcode-59 7 samples [usecs] 3 41 71 1681"),
        stats("unnamed-opcode-59 23 samples [usecs] 5 97 262 18818",
              "unnamed-opcode-59 37 samples [usecs] 3 41 142 3362"), "mdc", name)
    assert (42, 202, False) == (values["unnamed-opcode-59"], values["unnamed-opcode-59_us"],
                                lower_bound)


def test_a_histogram_whose_row_is_gone_was_cleared():
    """rpc_stats up to 2.14 shows no start_time; a row that was there can't vanish else."""
    def histogram(reads):
        return ("snapshot_time:         1510950459.783304874 (secs.nsecs)\n\t\t\tread\t\t\twrite\n"
                "pages per rpc         rpcs   % cum % |       rpcs   % cum %\n" + reads)
    values, lower_bound, why = change(
        histogram("1:\t\t        23  60  60   |          0   0   0\n"),
        histogram("1:\t\t         0   0   0   |          0   0   0\n"
                  "2:\t\t        41 100 100   |          0   0   0\n"), "rpc_stats", OST)
    assert ({"read_rpcs_pages_2": 41}, True) == (values, lower_bound)
    assert why.startswith(CLEARED)


# -- a whole node ------------------------------------------------------------------------


def test_a_file_is_known_by_file_system_target_and_mount():
    """So that the sums of two file systems never meet."""
    [ost, mount] = sorted(delta.compute_deltas(
        snapshot(file(stats("open 23 samples [regs]")),
                 file(stats("ost_sync 5 samples [usec] 1 2 3 4"), "osc", OST)),
        snapshot(file(stats("open 60 samples [regs]")),
                 file(stats("ost_sync 12 samples [usec] 1 2 10 20"), "osc", OST)), SOURCES),
        key=lambda found: found.source, reverse=True)
    assert ("osc", "scratch", "OST0000", "ffff9a3c5d1e0800") == ost[:4]
    assert ("llite", "scratch", "", "ffff9a3c5d1e0800") == mount[:4]
    assert (7, 37) == (ost.values["ost_sync"], mount.values["open"])


def test_a_clear_of_one_file_is_a_clear_of_that_file_alone():
    """Each has its own start_time, and may be cleared alone."""
    [ost, mount] = sorted(delta.compute_deltas(
        snapshot(file(stats("open 23 samples [regs]")),
                 file(stats("obd_ping 50 samples [reqs]"), "osc", OST)),
        snapshot(file(stats("open 60 samples [regs]")),
                 file(stats("obd_ping 3 samples [reqs]"), "osc", OST)), SOURCES),
        key=lambda found: found.source, reverse=True)
    assert ({"open": 37}, False) == (mount.values, mount.lower_bound)
    assert ({"obd_ping": 3}, True) == (ost.values, ost.lower_bound)


def between(before, after):
    [found] = delta.compute_deltas(snapshot(*before), snapshot(*after), SOURCES)
    return found.values, found.lower_bound, found.why


UUID = file("e88223e6-d231-4dd2-b717-3318de572019\n", "uuid")
OTHER_UUID = file("eec8dcf5-ceae-4d97-af11-e2a3e4454674\n", "uuid")
BEFORE, AFTER = file(stats("open 23 samples [regs]")), file(stats("open 60 samples [regs]"))
REFUSED = file("", code=errno.EACCES)
TORN = file(stats("open 23 samples [regs]")[:-9])


@pytest.mark.parametrize("before, after, values, lower_bound, why", [
    ([BEFORE, UUID], [AFTER, UUID], {"open": 37}, False, ""),
    ([BEFORE, UUID], [AFTER, OTHER_UUID], {"open": 60}, True, "mounted again after the start"),
    ([], [AFTER, UUID], {"open": 60}, False, "mounted after the start"),
    ([], [AFTER], None, True, "not seen at the start, and nothing proves that it is newer"),
    ([UUID], [AFTER, UUID], None, True, "not seen at the start"),
    ([file("torn", "uuid")], [AFTER, UUID], None, True, "not seen at the start"),
    ([file(UUID.text, "uuid", "scratch-ffff8800000b1700")], [AFTER, UUID], None, True,
     "not seen at the start"),
    ([UUID], [AFTER, OTHER_UUID], {"open": 60}, True,
     "a mount was removed, and this file of it was not read at the start: its I/O is unknown"),
    ([file(UUID.text, "uuid", "home-ffff8800000b1700")], [AFTER, OTHER_UUID], {"open": 60}, False,
     "mounted after the start"),
    ([BEFORE], [UUID], {}, True, "not seen at the end"),
    ([BEFORE], [], {}, True, "unmounted before the end: its I/O is unknown"),
    ([REFUSED], [AFTER], None, True, "not readable at the start: permission denied"),
    ([BEFORE], [REFUSED], None, True, "permission denied"),
    ([REFUSED], [REFUSED], None, True, "permission denied"),
    ([REFUSED], [], None, True, "unmounted before the end: its I/O is unknown"),
    ([TORN], [AFTER], None, True, "not readable at the start: "),
    ([BEFORE], [TORN], None, True, "proc/fs/lustre/"),
    ([BEFORE], [file("")], None, True, "proc/fs/lustre/"),
    ([BEFORE], [file("\x7fELF\n")], None, True, "proc/fs/lustre/"),
    ([BEFORE], [file("open 60 samples [regs]\n")], None, True, "proc/fs/lustre/"),
], ids=["the same mount", "mounted again under the same name", "mounted after the start",
        "not seen at the start, and no uuid", "its uuid alone was seen at the start",
        "its instance alone was seen at the start", "its uuid was there under another name",
        "another uuid under its name", "a mount of another file system is gone",
        "its uuid alone is seen at the end",
        "unmounted before the end", "not readable at the start", "not readable at the end",
        "never readable", "not readable at the start, then unmounted", "torn at the start",
        "torn at the end", "empty at the end", "a program at the end", "no header at the end"])
def test_what_was_not_seen_is_said(before, after, values, lower_bound, why):
    """None is "not known"; what is only a part is a lower bound, with its reason."""
    found = between(before, after)
    assert (values, lower_bound) == found[:2]
    assert why == found[2] or (why and found[2].startswith(why))


def test_a_reboot_between_start_and_end_is_seen():
    """All counters began again, and the job's work before it is gone."""
    [found] = delta.compute_deltas(snapshot(BEFORE, boot="boot one"),
                                   snapshot(AFTER, boot="boot two"),
                                   SOURCES)
    assert ({"open": 60}, True, "the node was booted again after the start") == found[4:7]


@pytest.mark.parametrize("one, two", [("", "boot two"), ("boot one", ""), ("", "")])
def test_a_boot_id_that_is_not_known_proves_no_reboot(one, two):
    """Some containers hide it."""
    [found] = delta.compute_deltas(snapshot(BEFORE, boot=one), snapshot(AFTER, boot=two), SOURCES)
    assert ({"open": 37}, False) == found[4:6]


NEW_OST = "scratch-OST0001-osc-ffff9a3c5d1e0800"
WROTE = "write_bytes 7 samples [bytes] 4096 4096 28672"


@pytest.mark.parametrize("source, start, values, lower_bound, why", [
    ("osc", "1752000041.000000023", {"write_bytes": 28672, "write_rpcs": 7}, False,
     "mounted after the start, at 2025-07-08 18:40:41 UTC"),
    ("osc", "1751999999.999999999", None, True, "not seen at the start, and nothing proves"),
    ("osc", "0.000000000", None, True, "not seen at the start, and nothing proves"),
    ("osc", None, None, True, "not seen at the start, and nothing proves"),
    ("mdc", "1751999999.999999999", None, True, "not seen at the start, and nothing proves"),
    ("md_stats", None, None, True, "not seen at the start, and nothing proves"),
], ids=["began after the start", "began before the start", "2.15.0", "up to 2.14",
        "mdc", "md_stats"])
def test_a_target_that_was_not_seen_at_the_start_counts_if_it_began_after_it(
        source, start, values, lower_bound, why):
    """The mount is the same.  One `stats` that was not there for a moment counted since boot."""
    name = NEW_OST if source == "osc" else "scratch-MDT0001-mdc-ffff9a3c5d1e0800"
    begun = snapshot(BEFORE, UUID)._replace(wall_ns=1_752_000_000_000_000_000)
    found = {d.source: d for d in delta.compute_deltas(
        begun, snapshot(AFTER, UUID, file(stats(WROTE, start=start), source, name)), SOURCES)}
    assert (values, lower_bound) == (found[source].values, found[source].lower_bound)
    assert found[source].why.startswith(why)


@pytest.mark.parametrize("was_there", [False, True])
def test_a_file_that_was_cleared_after_being_mounted_later_is_too_low(was_there):
    """rpc_stats beside it, and of a new mount all its files, tell when it came: 37 s before."""
    rpcs = ("snapshot_time:         1752000060.000000023 secs.nsecs\n"
            "start_time:            1752000004.000000023 secs.nsecs\n")
    begun = snapshot(*([UUID] if was_there else []))._replace(wall_ns=1_752_000_000_000_000_000)
    found = {d.source: d for d in delta.compute_deltas(begun, snapshot(
        UUID, file(stats(WROTE, start="1752000041.000000023"), "osc", NEW_OST),
        file(rpcs, "rpc_stats", NEW_OST)), SOURCES)}
    assert ({"write_bytes": 28672, "write_rpcs": 7}, True) == (
        found["osc"].values, found["osc"].lower_bound)
    assert ("mounted after the start, at 2025-07-08 18:40:04 UTC, and its counters began, at "
            "2025-07-08 18:40:41 UTC (cleared, or a target that was added)") == found["osc"].why
    assert not found["rpc_stats"].lower_bound


def test_a_file_that_was_not_seen_and_was_cleared_later_is_too_low():
    """Its directory was there at the start, so that it is no new one: what was before is lost."""
    begun = snapshot(UUID)._replace(wall_ns=1_752_000_000_000_000_000)
    [found] = delta.compute_deltas(begun, snapshot(UUID, file(stats(
        "open 23 samples [regs]", start="1752000041.000000023"))), SOURCES)
    assert ({"open": 23}, True, "not seen at the start, and cleared after it, at 2025-07-08 "
            "18:40:41 UTC") == (found.values, found.lower_bound, found.why)


def test_a_target_that_was_added_and_can_not_be_read_at_the_end_does_not_vanish():
    """What went to it is not known."""
    [new] = [d for d in delta.compute_deltas(snapshot(BEFORE), snapshot(AFTER, file(
        "", "osc", NEW_OST, errno.ENOENT)), SOURCES) if d.source == "osc"]
    assert (None, True) == (new.values, new.lower_bound)


def test_a_servers_own_connections_are_no_mounts():
    """osp devices of an MDS are named like OSCs, but for the last part."""
    assert [] == delta.compute_deltas(None,
                                      snapshot(file(stats("obd_ping 23 samples [reqs]"), "osc",
                                                          "lustre-OST0000-osc-MDT0000")), SOURCES)


def test_without_a_start_everything_since_the_counters_began_is_the_gain():
    """`show` is a job that began when the counters did."""
    [found] = delta.compute_deltas(None, snapshot(AFTER), SOURCES)
    assert ({"open": 60}, False, "") == found[4:7]


# -- the rule behind the metrics ---------------------------------------------------------


@pytest.mark.parametrize("name, unit, samples, total, suffix, metrics", [
    ("open", "regs", 23, None, "_calls", {"open": 23}),
    ("open", "reqs", 23, None, "_calls", {"open": 23}),
    ("open", "usec", 23, 61403, "_calls", {"open": 23, "open_us": 61403}),
    ("open", "usecs", 23, 61403, "_calls", {"open": 23, "open_us": 61403}),
    ("read_bytes", "bytes", 23, 151552, "_calls", {"read_bytes": 151552, "read_calls": 23}),
    ("read_bytes", "bytes", 23, 151552, "_rpcs", {"read_bytes": 151552, "read_rpcs": 23}),
    ("read", "usecs", 23, 61403, "_calls", {"read": 23, "read_us": 61403}),
    ("cached_read_bytes", "bytes", 9, 4718592, "_calls",
     {"cached_read_bytes": 4718592, "cached_read_calls": 9}),
    ("osc_read", "bytes", 3, 151552, "_calls", {"osc_read": 151552, "osc_read_calls": 3}),
    ("read_bytes", "bytes", 23, None, "_calls", {"read_calls": 23}),
    ("opencount", "reqs", 23, 41, "_calls", {"opencount": 23}),
    ("brw_read", "pages", 13, 53248, "_calls", {"brw_read": 13, "brw_read_sum": 53248}),
    ("grant_rate", "locks/s", 23, 41, "_calls", {"grant_rate": 23, "grant_rate_sum": 41}),
], ids=["2.5", "reqs", "2.14", "2.16", "bytes of calls", "bytes of RPCs", "`read` is no bytes",
        "cached bytes", "bytes without _bytes", "bytes cut off by lctl", "a sum of depths",
        "pages", "an unknown unit"])
def test_a_metric_takes_its_field_by_name_and_unit(name, unit, samples, total, suffix, metrics):
    """ "The last column" prints 100 TB for 100 MB, "the sum if there is one" opens in us."""
    assert metrics == read_metrics(name, unit, samples, total, suffix)


def test_every_operation_of_the_tables_is_documented():
    """counters.METRICS is what docs/reference/counters.md shows."""
    documented = {metric.name for metric in METRICS}
    assert set() == set(OPERATIONS) - documented
    assert set() == set(OPERATIONS) & set(NOT_OPERATIONS)


# -- any history at all ------------------------------------------------------------------

SHOWS_START, HIDES_START = "shows start_time", "hides start_time"
events = st.lists(st.one_of(
    st.tuples(st.just("write"), st.integers(1, 10**7)),
    st.tuples(st.just("open"), st.integers(1, 97)),
    st.tuples(st.just("clear"), st.just(0))), max_size=12)


class Kernel:
    """A mount's counters as the kernel keeps them, and beside them the truth."""

    def __init__(self, release):
        self.shows_start, self.now = release == SHOWS_START, 1_751_990_000
        self.clear()
        self.written = self.calls = self.opens = self.clears = 0

    def clear(self):
        self.now += 1
        self.start, self.sizes, self.counted_opens = self.now, [], 0

    def do(self, events):
        for what, how_much in events:
            if what == "clear":
                self.clear()
                self.clears += 1
            elif what == "write":
                self.sizes.append(how_much)
                self.written, self.calls = self.written + how_much, self.calls + 1
            else:
                self.counted_opens += how_much
                self.opens += how_much

    def text(self):
        lines = []
        if self.sizes:
            lines.append(f"write_bytes {len(self.sizes)} samples [bytes] {min(self.sizes)} "
                         f"{max(self.sizes)} {sum(self.sizes)}")
        if self.counted_opens:
            lines.append(f"open {self.counted_opens} samples [regs]")
        return stats(*lines, start=f"{self.start}.000000000" if self.shows_start else None)


@given(st.sampled_from([SHOWS_START, HIDES_START]), events, events)
def test_no_history_of_work_and_clears_gives_more_than_was_done(release, before, during):
    """And without a clear it gives exactly what was done; with one that is seen, it says so."""
    kernel = Kernel(release)
    kernel.do(before)
    first = kernel.text()
    kernel.written = kernel.calls = kernel.opens = kernel.clears = 0
    kernel.do(during)
    values, lower_bound, _ = change(first, kernel.text())
    truth = {"write_bytes": kernel.written, "write_calls": kernel.calls, "open": kernel.opens}
    found = {name: values.get(name, 0) for name in truth}
    assert all(0 <= found[name] <= truth[name] for name in truth)
    if not kernel.clears:
        assert (truth, False) == (found, lower_bound)
    elif release == SHOWS_START:
        assert lower_bound
        assert sum(kernel.sizes) == found["write_bytes"]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=10, max_size=10))
def test_no_two_readings_at_all_give_a_negative_gain(numbers):
    """Whatever a broken kernel prints: a gain is from 0 to 2**63-1."""
    def line(samples, low, high, total, squares):
        return (f"read_bytes {max(0, samples)} samples [bytes] {low} {high} {total} "
                f"{max(0, squares)}")
    values, _, _ = change(stats(line(*numbers[:5])), stats(line(*numbers[5:])))
    assert all(0 <= gain <= 2**63 for gain in values.values())
