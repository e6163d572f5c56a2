"""
What llite does not count, from a node's files to each place where a number is shown: small writes,
reads that are two samples, libaio, a cache on the node.

Numbers by hand.  The file of a mount is that of 2.15 and later: `write` has one sample a call,
`write_bytes` none of a small write into a page that is dirty.
"""

import csv
import io
import re

import pytest
from test_job_totals import llite, osc
from trees import report as of_node

from iostats.base import config
from iostats.lustre.paths import File
from iostats.node import show
from iostats.node.sources import read_at
from iostats.report import (
    accounting_comment,
    comment_reader,
    job_fields,
    job_list,
    job_summary,
    job_tables,
    node_sets,
)
from iostats.store import job_index
from iostats.totals import bounds, delta
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals
from iostats.totals.snapshot import Snapshot
from iostats.wire.messages.report import ReportedPhase

SOURCES = read_at("start")
PAGE = SOURCES["llite"].PAGE_BYTES


def stats(**counters):
    """A `stats` file; bytes as (samples, sum), others as samples."""
    lines = ["snapshot_time 1752000000.000000123 secs.nsecs",
             "start_time 1751990000.000000456 secs.nsecs"]
    for name, value in counters.items():
        if isinstance(value, tuple):
            lines.append(f"{name} {value[0]} samples [bytes] 1 {max(value[1], 1)} {value[1]} 1")
        else:
            lines.append(f"{name} {value} samples [usecs] 37 37 {37 * value} {37 * 37 * value}")
    return "\n".join(lines) + "\n"


def at(llite, network=None, dirty=None):
    """A snapshot of one mount with one OST."""
    files = [File("llite", "scratch-ff9a", "llite", 0, stats(**llite))]
    if network is not None:
        files.append(File("osc", "scratch-OST0000-osc-ff9a", "osc", 0, stats(**network)))
    if dirty is not None:
        files.append(File("dirty", "scratch-OST0000-osc-ff9a", "dirty", 0, f"{dirty}\n"))
    return Snapshot("4711", "nid00001", "seq", "boot", 1_752_000_000 * 10**9, 10**9, tuple(files))


def between(before, after):
    """[Delta] of a node."""
    return delta.compute_deltas(before, after, SOURCES)


def job(*deltas, expected=None, **fields):
    """The Totals of a job, each of `deltas` a node's."""
    totals = Totals("4711", expected or len(deltas), fold=node_sets.fold_nodes)
    for number, one in enumerate(deltas, 1):
        totals.add(of_node(f"nid{number:05}", one, **fields))
    return totals


def only(totals):
    """Its one file system."""
    [fs] = totals.record()["file_systems"]
    return fs


def wrong(fs):
    return fs["too_low"], fs["too_high"], fs["write_bytes_max"]


NOTHING = at({})
SMALL = between(NOTHING, at({"write_bytes": (23, 2300), "write": 1023, "open": 5}))
EXACT = between(NOTHING, at({"write_bytes": (41, 4100), "write": 41, "open": 7}))
CLEARED = [one._replace(lower_bound=True, why="cleared") for one in EXACT]


# -- what a node says ----------------------------------------------------------------------------


@pytest.mark.parametrize("counters, calls, low", [
    ({"write_bytes": (23, 2300), "write": 23}, 23, []),
    ({"write_bytes": (23, 2300), "write": 24}, 24, ["write_bytes"]),
    ({"write_bytes": (23, 2300)}, 23, []),                     # up to 2.13
    ({"write_bytes": (24, 2300), "write": 23}, 24, []),        # one between two lines of the file
    ({"write": 37}, 37, ["write_bytes"]),                      # all of them small
], ids=["alike", "one small", "no line of calls", "more than calls", "small alone"])
def test_calls_are_those_that_were_made(counters, calls, low):
    fs = only(job(between(NOTHING, at(counters))))
    assert (calls, low) == (fs["application"]["write_calls"], fs["too_low"])


@pytest.mark.parametrize("counters, calls", [
    ({"read_bytes": (98, 8_400_000), "read": 84}, 84), ({"read_bytes": (98, 8_400_000)}, 98)])
def test_a_read_that_was_partly_in_the_cache_is_one_call(counters, calls):
    """Where the release has the line; its bytes are exact in any case."""
    fs = only(job(between(NOTHING, at(counters))))
    assert (calls, 8_400_000) == (fs["application"]["read_calls"], fs["application"]["read_bytes"])
    assert ([], [], 0) == wrong(fs)


@pytest.mark.parametrize("counters, cache, marked", [
    ({"write_bytes": (23, 2300), "write": 37, "pcc_attach": 1}, "", True),
    ({"read_bytes": (1, 100), "read": 3, "pcc_hit_bytes": (2, 200)}, "", True),
    ({"write_bytes": (23, 2300), "write": 37}, "/mnt/cache:\n  rwid: 2\n  flags: 0\n", True),
    ({"write_bytes": (23, 2300), "write": 23}, "", False)])
def test_what_a_cache_on_the_node_served_is_not_known(counters, cache, marked):
    """Its writes are of any size, so that there is no upper bound; 2.13 to 2.15 count nothing."""
    end = at(counters)
    end = end._replace(files=(*end.files, File("pcc", "scratch-ff9a", "pcc", 0, cache)))
    fs = only(job(between(NOTHING, end)))
    if marked:
        assert (list(bounds.NUMBERS), [], None) == wrong(fs)
        assert "(PCC)" in fs["notes"][0]
    else:
        assert ([], [], 2300, []) == (*wrong(fs), fs["notes"])


@pytest.mark.parametrize("moved, dirty, more, marked", [
    ({"write_bytes": (9, 9 << 20)}, 0, {}, ["write_bytes", "write_calls"]),
    ({"read_bytes": (9, 9 << 20)}, 0, {}, ["read_bytes", "read_calls"]),
    ({"write_bytes": (9, 9 << 20)}, 9 << 20, {}, []),
    ({"write_bytes": (9, 9 << 20)}, 0, {"page_mkwrite": 9 * 256}, []),
    ({"read_bytes": (9, 9 << 20)}, 0, {"page_fault": 1}, []),
    ({"read_bytes": (9, 9 << 20)}, 0, {"read": 1, "read_bytes": (1, 4096)}, []),
    ({"read_bytes": (9, 9 << 30)}, 0, {"read": 1, "read_bytes": (1, 4096)},
     ["read_bytes", "read_calls"]),
    ({"write_bytes": (3, 3 * PAGE)}, 0, {"write": 3, "write_bytes": (3, 300)}, []),
    ({"write_bytes": (9, 65 << 20)}, 0, {"write": 1, "write_bytes": (1, 64 << 20)}, []),
    ({"write_bytes": (9, 73 << 20)}, 0, {"write": 1, "write_bytes": (1, 64 << 20)},
     ["write_bytes", "write_calls"]),
    ({"read_bytes": (3, 3 * PAGE)}, 0, {"write": 3, "write_bytes": (3, 300)}, []),
], ids=["libaio writes", "libaio reads", "written before the start", "mapped, written",
        "mapped, read", "read-ahead", "more than read-ahead", "pages of small writes",
        "a moment later", "libaio beside writes",
        "pages read for small writes"])
def test_what_the_network_moved_and_nobody_asked_for_is_a_mark(moved, dirty, more, marked):
    """9 MiB by io_submit with O_DIRECT are no read() and no write(); all else has its reason."""
    fs = only(job(between(at({}, {}, dirty), at(more, moved))))
    assert (marked, []) == (fs["too_low"], fs["too_high"])
    assert bool(marked) == len(fs["notes"])
    assert all("9.0 " in note and "counts no asynchronous direct I/O" in note
               for note in fs["notes"])
    if "write_bytes" in marked:
        assert fs["write_bytes_max"] is None


def with_read_ahead(snapshot, pages, start_time="1751990000.000000456"):
    """The same with `read_ahead_stats`; `pages` None: without the line `readahead_pages`."""
    text = f"snapshot_time 1752000000.000000123 secs.nsecs\nstart_time {start_time} secs.nsecs\n"
    text += "hits 23 samples [pages]\n"
    if pages is not None:
        text += f"readahead_pages 3 samples [pages] 0 {pages} {pages}\n"
    return snapshot._replace(files=(*snapshot.files, File(
        "read_ahead", "scratch-ff9a", "read_ahead_stats", 0, text)))


@pytest.mark.parametrize("came, pages, counters, marked", [
    # 300 x 64 KiB by io_submit beside one read() of 1 MiB
    (20_709_376, 0, {}, True), (20_709_376, None, {"hybrid_noswitch": 1}, True),
    (20_709_376, 4800, {}, False),          # 300 x 64 KiB of read-ahead
    (20_709_376, 4791, {}, True),           # of which 9 pages less than a read() may have
    (20_709_376, 4783, {"page_fault": 37}, False),
    (1_048_576, 0, {}, False), (1_048_576 + 2 * 4096, 0, {}, False),
    (20_709_376, None, {}, False),          # up to 2.15 read-ahead is not counted
    (70_000_000, None, {}, True),           # more than one read() can read ahead
], ids=["libaio, nothing read ahead", "no line of what counts it", "read ahead",
        "more than read ahead", "mapped", "exact", "pages at both ends", "may be read ahead",
        "more than a window"])
def test_a_buffered_read_hides_no_asynchronous_one(came, pages, counters, marked):
    counters = {"read": 1, "read_bytes": (1, 1_048_576), **counters}
    before = with_read_ahead(at({}, {}), None if pages is None else 0)
    after = with_read_ahead(at(counters, {"read_bytes": (301, came)}), pages)
    fs = only(job(between(before, after)))
    assert (["read_bytes", "read_calls"] if marked else [], []) == (fs["too_low"], fs["too_high"])
    assert (pages or 0) * PAGE == fs["other"].get("read_ahead_bytes", 0)


@pytest.mark.parametrize("before, after", [
    (("1751990000.000000456", 5000), ("1751999000.000000456", 4800)),
    (None, ("1751990000.000000456", 4800)), (("1751990000.000000456", 23), None),
], ids=["cleared", "not readable at the start", "not readable at the end"])
def test_what_was_read_ahead_is_unknown(before, after):
    """Then one read() may have read ahead 64 MiB."""
    start, end = at({}, {}), at({"read": 1, "read_bytes": (1, 4096)}, {"read_bytes": (9, 9 << 20)})
    fs = only(job(between(start if before is None else with_read_ahead(start, *before[::-1]),
                          end if after is None else with_read_ahead(end, *after[::-1]))))
    assert ([], []) == (fs["too_low"], fs["notes"])


# -- through all places where a number goes ------------------------------------------------------


def test_bounds_of_all_nodes_are_added():
    """2,300 + 4,100 bytes counted, and 1000 calls of less than a page."""
    fs = only(job(SMALL, EXACT))
    assert (["write_bytes"], [], 6400 + 1000 * (PAGE - 1)) == wrong(fs)
    assert (1064, True, True) == (fs["application"]["write_calls"],
                                  fs["application"]["lower_bound"], fs["lower_bound"])
    assert [note[:33] for note in fs["notes"]] == ["1000 of 1064 write() calls are no"]


@pytest.mark.parametrize("other, missing", [([CLEARED], 0), ([], 1)], ids=["cleared", "missing"])
def test_where_more_is_missing_there_is_no_upper_bound(other, missing):
    totals = job(SMALL, *other)
    totals.expected += missing
    assert (list(bounds.NUMBERS), [], None) == wrong(only(totals))


def test_merged_totals_say_the_same():
    one, other = job(SMALL), Totals("4711", 2, fold=node_sets.fold_nodes)
    other.add(of_node("nid00002", EXACT))
    one.expected = 2
    assert one.merge(Totals.from_state(other.state())).counted
    assert only(job(SMALL, EXACT)) == only(one)


def test_each_part_of_a_job_has_its_own_bound():
    """The small writes were in the second."""
    totals = job([*SMALL], phases=[ReportedPhase("(before solve)", 20.0, EXACT),
                                   ReportedPhase("solve", 40.0, SMALL)])
    parts = [wrong(part["file_systems"][0]) for part in totals.record()["phases"]]
    assert [([], [], 4100), (["write_bytes"], [], 2300 + 1000 * (PAGE - 1))] == parts
    lines = [" ".join(line.split()) for line in text(totals).splitlines()]
    assert "(before solve) 20.0 s scratch 0 bytes 4.0 KiB 7" in lines
    assert "solve 40.0 s scratch 0 bytes >= 2.2 KiB 5" in lines


def text(totals, form="plain", **options):
    found = config.Config()
    return job_tables.format_report(job_tables.add_labels(totals.record(), found), found, form,
                                    **options)


def test_locks_are_an_upper_bound():
    """16 locks that end with close() are 32: the kernel's own unlocks are counted as well."""
    totals = job(between(NOTHING, at({"flock": 32, "close": 37})))
    fs = only(totals)
    assert ([], ["flock"]) == (fs["too_low"], fs["too_high"])
    assert ["flock has in it what the kernel unlocks by itself at close()"] == fs["notes"]
    short, long = text(totals), text(totals, long=True)
    assert ["scratch", "37", "<=", "32"] in [line.split() for line in short.splitlines()]
    assert re.search(r"\n *flock .* <= 32 ", long)
    rows = text(totals, "csv").splitlines()
    assert ["32,0,1", "37,0,0"] == [row.rpartition(f"{name},")[2] for name in ("flock", "close")
                                    for row in rows if f",{name}," in row]


@pytest.mark.parametrize("form", ["plain", "grid", "markdown"])
def test_the_table_marks_what_was_written_and_no_more(form):
    lines = [line.replace("|", " ").split() for line in text(job(SMALL), form).splitlines()]
    assert ["scratch", "0", "bytes", ">=", "2.2", "KiB"] in lines
    assert ["scratch", "5"] in lines                   # opens
    [note] = [line for line in lines if line[:1] == ["note:"]]
    assert note[:8] == ["note:", "scratch:", "1000", "of", "1023", "write()", "calls", "are"]


def test_the_long_report_marks_sizes_and_nodes():
    lines = [" ".join(line.split()) for line in text(job(SMALL), long=True).splitlines()]
    assert "write, by the application >= 2.2 KiB 1,023 >= 2 bytes >= 38 bytes/s" in lines
    assert "Per node" not in "".join(lines)
    lines = [" ".join(line.split())
             for line in text(job(SMALL, EXACT), long=True).splitlines()]
    assert "bytes written >= 2.2 KiB >= 2.2 KiB >= 4.0 KiB nid00002" in lines
    assert "writes 41 41 1,023 nid00001" in lines


def test_csv_has_both_bounds():
    rows = list(csv.DictReader(io.StringIO(text(job(SMALL), "csv"))))
    assert {"read_bytes": ("0", "0", "0"), "write_bytes": ("2300", "1", "0"),
            "read_calls": ("0", "0", "0"), "write_calls": ("1023", "0", "0"),
            "write_bytes_max": (str(2300 + 1000 * (PAGE - 1)), "0", "1"), "open": ("5", "0", "0"),
            "open_seconds": ("0.000185", "0", "0")} == {
        row["metric"]: (row["value"], row["lower_bound"], row["upper_bound"]) for row in rows
        if row["layer"] != "network"}


@pytest.mark.parametrize("evictions, high", [(0, []), (2, ["write_bytes"])])
@pytest.mark.parametrize("deltas, low", [
    (SMALL, ["write_bytes"]), (EXACT, []), (CLEARED, list(bounds.NUMBERS))],
    ids=["small", "exact", "cleared"])
def test_the_short_form_keeps_the_marks(deltas, low, evictions, high):
    lost = Delta("llite", "scratch", "", "ff9b", {"evictions": evictions}, False, "")
    line = accounting_comment.encode(job([*deltas, lost]).record())
    [fs] = comment_reader.make_record(comment_reader.decode(line))["file_systems"]
    assert (low, high, None) == wrong(fs)
    assert bool(low) == fs["lower_bound"] == fs["application"]["lower_bound"]


def row_of(totals):
    """The row of `iostats jobs`, by way of the table of the store."""
    summary = job_summary.make_summary(totals.record())
    columns = dict(zip(job_summary.Summary._fields, summary))
    values = {**columns, "too_low": columns["lower_bound"],
              "lower_bound": int(columns["lower_bound"] & job_summary.SOME_LOW != 0)}
    return job_index.make_row([values.get(name, "") for name in job_fields.NAMES])


@pytest.mark.parametrize("totals, cells, note", [
    (job(SMALL), ("0 bytes", ">= 2.2 KiB", "5"), "not all bytes counted"),
    (job(EXACT), ("0 bytes", "4.0 KiB", "7"), ""),
    (job(CLEARED), (">= 0 bytes", ">= 4.0 KiB", ">= 7"), ""),
    (job(SMALL, CLEARED), (">= 0 bytes", ">= 6.2 KiB", ">= 12"), ""),
], ids=["small", "exact", "cleared", "both"])
def test_a_line_of_jobs_marks_what_was_written_and_no_more(totals, cells, note):
    row = row_of(totals)
    assert cells == tuple(job_list.format_cell(row, job_fields.find_field(name, "")) for name in (
        "ReadBytes", "WriteBytes", "Opens"))
    assert note == job_list.format_note(row)


def test_the_network_beside_small_writes_is_no_riddle():
    """What was sent above the bytes counted has these in it, mmap only where it was."""
    after = at({"write_bytes": (23, 2300), "write": 1023}, {"write_bytes": (1, 102_300)})
    printed = text(job(between(at({}, {}), after)), long=True)
    assert ("scratch: 97.7 KiB more were sent than written, including small writes that are not "
            "counted ") in f"{' '.join(printed.split())} "


def test_rates_of_what_was_not_counted_are_marked():
    from iostats.wire.messages.report import ReportedSeries
    totals = job([*SMALL], series={
        "scratch": ReportedSeries(1_795_225_000.0, 60.0, [0], [2300], [5])})
    lines = text(totals).splitlines()
    assert any("written" in line and "peak >= 38 bytes/s" in line for line in lines)
    assert any("operations" in line and "peak 0.08/s" in line for line in lines)


@pytest.mark.parametrize("of_total, of_count, of_mean", [
    ("", "", ""), (">= ", "", ">= "), ("<= ", "", "<= "), ("~ ", "", "~ "),
    ("", ">= ", "<= "), ("", "<= ", ">= "), ("", "~ ", "~ "),
    (">= ", "<= ", ">= "), ("<= ", ">= ", "<= "), (">= ", ">= ", "~ "), ("<= ", "<= ", "~ "),
    ("~ ", ">= ", "~ "), (">= ", "~ ", "~ "), ("~ ", "~ ", "~ ")])
def test_a_mean_may_be_wrong_as_its_total_is_and_as_its_count_is_not(of_total, of_count, of_mean):
    """So may a share, of which both may be too low."""
    assert of_mean == bounds.mark_ratio(of_total, of_count)


def test_of_the_nodes_all_are_low_where_small_writes_are_not_counted():
    """But where a node is missing only the most is: its own may be less or more than the least."""
    exact = [llite(write_bytes=41, write_calls=7, open=7)]
    small = [llite(write_bytes=23, write_calls=5, open=5, uncounted_write_calls=3,
                   uncounted_write_bytes=9)]
    totals = job(exact, small)
    low = only(totals)
    assert (">= ",) * 3 == bounds.mark_spread(low, "write_bytes")
    assert ("",) * 3 == bounds.mark_spread(low, "open")
    totals.expected = 3
    missing = only(totals)
    for metric in ("write_bytes", "open"):
        assert ("~ ", "~ ", ">= ") == bounds.mark_spread(missing, metric)


def test_osc_alone_marks_nothing_of_programs():
    fs = only(job([osc(write_bytes=9 << 20)]))
    assert ([], [], None) == wrong(fs)


def test_since_the_mount_nothing_is_compared_and_small_writes_are_marked():
    """`show`: the files of the network may have been cleared at another time."""
    now = at({"write_bytes": (23, 2300), "write": 1023}, {"write_bytes": (9, 9 << 20)})
    assert (["write_bytes"], [], 2300 + 1000 * (PAGE - 1)) == wrong(only(job(between(None, now))))
    shown = show.as_text(now, SOURCES, "/nowhere", config.Config())
    assert ">= 2.2 KiB" in shown and "1,023 calls" in shown
