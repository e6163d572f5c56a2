"""
Whole trees of a real Lustre 2.15.8, 2.16.1 and 2.17.57 (shared/captures), before and after work
whose true counts are known: `prime_io` counted its own system calls (true_counts.txt of each step).

The expected numbers are added up by hand from those files.  The workload in short:

    w1      23 files of 37888 bytes and 3 files of 5 x 1 MiB written and synced, 13 + 1 mkdirs, 18
            opens, 19 stats; then all read once, the large ones in 3 x 10 x 512 KiB
    warm    all read again, from the page cache
    w2      11 files of 7 x 8 KiB, 5 of 3 x 1 MiB (O_DIRECT, read back so), 3 and 7 of 4 KiB;
            1 mkdir, 7 unlinks
"""

import errno
import os
import re

import job_stats_text
import pytest
from test_fixtures import (
    in_use,
    parsed_from_histogram,
    parsed_from_job_stats,
    parsed_from_stats,
    seen_in_histogram,
    seen_in_job_stats,
    seen_in_stats,
    stats_in_lctl,
)
from trees import record_between, report, samples, shared, snapshot

from iostats.base import private_files
from iostats.base.config import Config
from iostats.lustre import job_stats, paths
from iostats.node import sources
from iostats.totals import delta
from iostats.totals.job_totals import Totals

RELEASES = ["2.15.8", "2.16.1", "2.17.57", "2.17.57-client"]


def captured(release, step):
    return shared("captures", release, step)


def between(release, before, after):
    """The only file system of the record of a job that ran from step `before` to `after`."""
    [file_system] = record_between(captured(release, before),
                                   captured(release, after))["file_systems"]
    return file_system


def counts(file_system):
    return {name: row["count"] for name, row in file_system["operations"].items()}


# -- not one line is lost ----------------------------------------------------------------


@pytest.mark.parametrize("step", samples("captures", "*/s*"))
def test_no_line_of_a_whole_tree_is_lost(step):
    """stats, md_stats and read_ahead_stats of clients and servers: two witnesses see the same."""
    texts = {path: path.read_bytes().decode("latin-1") for name in
             ("stats", "md_stats", "read_ahead_stats") for path in step.rglob(name)}
    assert {path: seen_in_stats(text) for path, text in texts.items()} == {
        path: parsed_from_stats(text) for path, text in texts.items()}
    assert texts, "a tree without any counter file"


@pytest.mark.parametrize("step", samples("captures", "2.1[57]*/s*") + samples(
    "captures", "2.16.1/s*"))
def test_no_row_of_a_histogram_of_a_whole_tree_is_lost(step):
    """rpc_stats of osc and mdc, every section of every release."""
    texts = {path: path.read_bytes().decode("latin-1") for path in step.rglob("rpc_stats")}
    assert {path: seen_in_histogram(text) for path, text in texts.items()} == {
        path: parsed_from_histogram(text) for path, text in texts.items()}


@pytest.mark.parametrize("step", samples("captures", "2.16.1*/s*") + samples(
    "captures", "2.17.57/s*"))
def test_no_entry_and_no_counter_of_job_stats_is_lost(step):
    """Every OST and MDT of a real server: two witnesses see the same jobs and the same numbers."""
    files_of = {path: path.read_bytes() for path in step.rglob("job_stats")}
    assert {path: in_use(seen_in_job_stats(data.decode("latin-1")))
            for path, data in files_of.items()} == {
        path: parsed_from_job_stats(data) for path, data in files_of.items()}
    assert all(job_stats_text.render(*entry) in files_of[path] for path, entry in
               rendered_again(files_of))


def rendered_again(files_of):
    """(path, arguments of job_stats_text.render) of each entry, by what the parser saw of it."""
    for path, data in files_of.items():
        kind = "MDT" if path.parent.parent.name == "mdt" else "OST"
        release = "2.17" if "2.17" in str(path) else "2.16"
        for piece in job_stats.split_entries([data]):
            one = job_stats.parse(piece)
            yield path, (job_stats_text.Job(
                one.job_id.encode(), one.started_ns, one.seen_ns,
                {name: job_stats_text.Value(*counter[:1], *counter[2:], hist=_hist(piece, name))
                 for name, counter in one.counters.items()}), release, kind)


def _hist(piece, name):
    """((exponent of 2, count), ...) of a counter's `hist`."""
    found = re.search(rf"(?m)^  {name}:.* hist: {{ (.*) }} }}$", piece.decode("latin-1"))
    return tuple((int(size).bit_length() - 1 + {"": 0, "K": 10, "M": 20, "G": 30}[letter], int(n))
                 for size, letter, n in re.findall(r"(\d+)([KMG]?): (\d+)", found[1])
                 ) if found else ()


def jobs_of(release, step, kind):
    """[JobEntry] of all targets of this kind, obdfilter or mdt."""
    return [job_stats.parse(piece) for path in captured(release, step).rglob(f"{kind}/*/job_stats")
            for piece in job_stats.split_entries([path.read_bytes()])]


@pytest.mark.parametrize("release, step", [("2.16.1", "s04_after_w2_slurm"),
                                           ("2.16.1-server", "s04_after_w2_slurm"),
                                           ("2.17.57", "s07_odd_jobids")])
def test_the_servers_know_what_a_job_of_slurm_did_to_the_byte(release, step):
    """
    By the true counts, 4711 wrote 630,784 + 15,728,640 bytes and read 15,728,640; 4712 wrote 3
    files of 4096.
    """
    done = {}
    for one in jobs_of(release, step, "obdfilter"):
        for name in ("read_bytes", "write_bytes"):
            if name in one.counters and one.job_id in ("4711", "4712"):
                key = one.job_id, name
                done[key] = done.get(key, 0) + one.counters[name].sum
    assert {("4711", "write_bytes"): 16_359_424, ("4711", "read_bytes"): 15_728_640,
            ("4712", "write_bytes"): 12_288} == done
    [job] = [one for one in jobs_of(release, step, "mdt") if one.job_id == "4711"]
    assert (7, 16) == (job.counters["unlink"].samples, job.counters["mknod"].samples)


def test_the_odd_ids_of_a_real_server_are_read():
    """2.17.57: the ids that were asked for, and none with a backslash or a quote."""
    jobs = {one.job_id for kind in ("obdfilter", "mdt") for step in
            ("s07_odd_jobids", "s20_more_jobids") for one in jobs_of("2.17.57", step, kind)}
    assert {"4711", "4712", "my prog:1.1000", "7:8 #9", "@x", "sess-0815", "prime_io.0",
            "averyveryverylongjobidentifier_", "xy:z/éprime_io"} <= jobs
    assert not [job for job in jobs if "\\" in job or '"' in job]


@pytest.mark.parametrize("path", samples("captures", "*/s07_odd_jobids/lctl.*"))
def test_no_line_of_lctls_own_text_is_lost(path):
    """As an ordinary user too, for whom lctl of 2.17 cuts off the last character of each line."""
    blocks = stats_in_lctl(path.read_bytes().decode("latin-1"))
    blocks = {name: text.partition("\n# rc ")[0] for name, text in blocks.items()}
    assert {name: seen_in_stats(text) for name, text in blocks.items()} == {
        name: parsed_from_stats(text) for name, text in blocks.items()}


# -- the truth, step by step -------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_the_first_workload_is_counted_exactly(release):
    """s01 to s02: 23 x 37888 + 15 x 1048576 = 16,600,064 bytes each way, and every call."""
    file_system = between(release, "s01_before_w1", "s02_after_w1")
    assert {"read_bytes": 16_600_064, "write_bytes": 16_600_064, "read_calls": 53,
            "write_calls": 38, "lower_bound": False} == file_system["application"]
    assert {"open": 70, "close": 70, "create": 26, "fsync": 26, "getattr": 19, "mkdir": 14,
            "inode_permission": 329} == counts(file_system)
    assert (False, []) == (file_system["lower_bound"], file_system["notes"])


@pytest.mark.parametrize("release", RELEASES)
def test_the_network_carried_what_the_first_workload_moved(release):
    """Writes to the byte; reads in whole pages: 23 x 40960 + 15 x 1048576 = 16,670,720."""
    network = between(release, "s01_before_w1", "s02_after_w1")["network"]
    assert {"read_bytes": 16_670_720, "write_bytes": 16_600_064, "read_rpcs": 32,
            "write_rpcs": 29, "lower_bound": False} == network


@pytest.mark.parametrize("release", RELEASES)
def test_the_two_witnesses_of_the_network_agree(release):
    """`pages per rpc` of rpc_stats counts the same RPCs as read_bytes and write_bytes of stats."""
    targets = between(release, "s01_before_w1", "s02_after_w1")["targets"]
    by_size = {way: sum(count for values in targets.values() for name, count in values.items()
                        if name.startswith(f"{way}_rpcs_pages_")) for way in ("read", "write")}
    assert {"read": 32, "write": 29} == by_size


@pytest.mark.parametrize("release", RELEASES)
def test_a_warm_read_is_the_applications_alone(release):
    """s02 to s03: 53 reads of 16,600,064 bytes out of the page cache, nothing on the network."""
    file_system = between(release, "s02_after_w1", "s03_after_warm_read")
    assert {"read_bytes": 16_600_064, "write_bytes": 0, "read_calls": 53, "write_calls": 0,
            "lower_bound": False} == file_system["application"]
    assert {"read_bytes": 0, "write_bytes": 0, "read_rpcs": 0, "write_rpcs": 0,
            "lower_bound": False} == file_system["network"]
    assert {"open": 26, "close": 26, "inode_permission": 78} == counts(file_system)


@pytest.mark.parametrize("release", ["2.15.8", "2.16.1", "2.17.57-client"])
def test_direct_io_and_many_small_writes_are_counted_exactly(release):
    """
    s03 to s04: 77 + 15 + 3 + 7 = 102 writes of 630784 + 15728640 + 12288 + 28672 = 16,400,384
    bytes; 15 reads of 1 MiB; 11 + 5 + 5 + 3 + 7 = 31 opens; 11 + 3 + 7 = 21 fsyncs.
    """
    file_system = between(release, "s03_after_warm_read", "s04_after_w2_slurm")
    assert {"read_bytes": 15_728_640, "write_bytes": 16_400_384, "read_calls": 15,
            "write_calls": 102, "lower_bound": False} == file_system["application"]
    assert {"open": 31, "close": 31, "create": 26, "fsync": 21, "mkdir": 1, "unlink": 7,
            "inode_permission": 143} == counts(file_system)
    assert (15_728_640, 16_400_384) == (file_system["network"]["read_bytes"],
                                        file_system["network"]["write_bytes"])


def test_all_kinds_of_metadata_are_counted_exactly():
    """
    2.16.1, s04 to s05.  The 5 files that mknod(2) made are 5 in `mknod` and 5 in `create`, and
    are 5 files; 4 opens are mmap's and 1 is `ls`'s.  What `ls` did besides is left out here.
    """
    found = counts(between("2.16.1", "s04_after_w2_slurm", "s05_after_meta"))
    assert {"open": 5, "close": 5, "create": 5, "fsync": 4, "mmap": 4, "setattr": 17,
            "truncate": 2, "unlink": 2, "rmdir": 13, "rename": 5, "link": 3, "statfs": 1,
            "setxattr": 11, "page_mkwrite": 4} == {
        name: count for name, count in found.items()
        if name not in ("getattr", "getxattr", "readdir", "page_fault", "inode_permission")}


@pytest.mark.parametrize("release", ["2.15.8", "2.17.57-client"])
def test_files_that_open_and_mknod_made_are_counted_once_each(release):
    """s16 to s17: 5 by mknod(2), 5 by open(O_CREAT): 10 files created, not 15."""
    assert 10 == counts(between(release, "s16_evicted", "s17_meta_extents"))["create"]


@pytest.mark.parametrize("release, written, calls, created", [
    ("2.15.8", 36_864, 9, 9), ("2.16.1", 40_960, 10, 11), ("2.17.57", 36_864, 9, 9),
])
def test_an_eviction_clears_no_counter(release, written, calls, created):
    """
    The job loses its connection, some calls fail, and what succeeded is counted: 3 and 6 writes
    of 4096 bytes (on 2.16.1 one more before the eviction was noticed).
    """
    before = {"2.15.8": "s12_remounted_and_w"}.get(release, "s15_expired_and_w")
    file_system = between(release, before, "s16_evicted")
    assert {"read_bytes": 0, "write_bytes": written, "read_calls": 0, "write_calls": calls,
            "lower_bound": False} == file_system["application"]
    assert created == counts(file_system)["create"]


# -- clears and remounts: never a wrong number -------------------------------------------


@pytest.mark.parametrize("release, before, after, written, calls, opens", [
    ("2.16.1", "s07_odd_jobids", "s08_after_clear", 0, 0, 0),
    ("2.16.1", "s02_after_w1", "s09_after_clear_and_w", 860_160, 21, 7),
    ("2.17.57", "s01_before_w1", "s09_after_clear_and_w", 860_160, 21, 7),
    ("2.17.57-client", "s04_after_w2_slurm", "s08_after_clear", 0, 0, 0),
    ("2.17.57-client", "s02_after_w1", "s09_after_clear_and_w", 860_160, 21, 7),
    ("2.15.8", "s04_after_w2_slurm", "s08_after_clear", 0, 0, 0),
    ("2.15.8", "s08_after_clear", "s12_remounted_and_w", 614_400, 15, 5),
    ("2.15.8", "s02_after_w1", "s16_evicted", 651_264, 24, 15),
    ("2.16.1", "s09_after_clear_and_w", "s11_remounted", 0, 0, 0),
    ("2.16.1", "s02_after_w1", "s16_evicted", 901_120, 31, 20),
    ("2.17.57", "s08_after_clear", "s12_remounted_and_w", 614_400, 15, 5),
    ("2.17.57", "s02_after_w1", "s12_remounted_and_w", 614_400, 15, 5),
], ids=["2.16.1 cleared", "2.16.1 cleared, then work", "2.17.57 cleared, then work",
        "2.17.57-client cleared", "2.17.57-client cleared, then work", "2.15.8 cleared",
        "2.15.8 remounted, then work", "2.15.8 cleared, remounted, evicted", "2.16.1 remounted",
        "2.16.1 cleared, remounted, evicted", "2.17.57 remounted, then work",
        "2.17.57 cleared, remounted, then work"])
def test_after_a_clear_or_a_remount_only_what_is_sure_is_counted(release, before, after, written,
                                                                calls, opens):
    """
    What the counters hold since (by the true counts: 7 or 5 files of 3 x 40960 bytes, and what
    followed) is a lower bound, and says so with the reason; what was before is never guessed.
    """
    file_system = between(release, before, after)
    assert {"read_bytes": 0, "write_bytes": written, "read_calls": 0, "write_calls": calls,
            "lower_bound": True} == file_system["application"]
    assert opens == counts(file_system).get("open", 0)
    assert file_system["lower_bound"] and file_system["notes"]


@pytest.mark.parametrize("release", ["2.16.1", "2.17.57", "2.17.57-client"])
def test_work_after_a_clear_that_was_before_the_job_is_exact(release):
    """s08 to s09: 7 files of 3 x 40960 bytes; the clear is older than both snapshots."""
    file_system = between(release, "s08_after_clear", "s09_after_clear_and_w")
    assert {"read_bytes": 0, "write_bytes": 860_160, "read_calls": 0, "write_calls": 21,
            "lower_bound": False} == file_system["application"]
    assert {"open": 7, "close": 7, "create": 7, "fsync": 7, "inode_permission": 28
            } == counts(file_system)


@pytest.mark.parametrize("release", ["2.16.1", "2.17.57"])
def test_a_mount_that_is_gone_at_the_end_is_no_zero(release):
    """s09 to s10: what was done before the unmount is lost, so the 0 is a lower bound."""
    file_system = between(release, "s09_after_clear_and_w", "s10_unmounted")
    assert (0, True) == (file_system["application"]["write_bytes"],
                         file_system["application"]["lower_bound"])


def test_a_mount_that_came_after_the_start_is_counted_from_its_beginning():
    """2.16.1, s10 to s13: mounted, 5 files of 3 x 40960 bytes written: exact, and mentioned."""
    file_system = between("2.16.1", "s10_unmounted", "s13_expired_first_read")
    assert {"read_bytes": 0, "write_bytes": 614_400, "read_calls": 0, "write_calls": 15,
            "lower_bound": False} == file_system["application"]
    assert ("node001: llite: mounted after the start, at 2026-11-21 01:45:09 UTC"
            in file_system["notes"])


@pytest.mark.parametrize("release", ["2.15.8", "2.16.1", "2.17.57", "2.17.57-client"])
def test_an_idle_job_did_nothing(release):
    """The last two steps, half a minute apart: all zeros, and known to be zeros."""
    steps = {"2.15.8": "s17_meta_extents", "2.17.57-client": "s17_meta_extents"}
    file_system = between(release, steps.get(release, "s18_ost1_down"), "s19_idle")
    assert {"read_bytes": 0, "write_bytes": 0, "read_calls": 0, "write_calls": 0,
            "lower_bound": False} == file_system["application"]
    assert {} == file_system["operations"]


@pytest.mark.parametrize("release", RELEASES)
def test_a_server_of_lustre_is_no_mount_of_a_node(release):
    """2.16.1 and 2.17.57 are server and client in one: osp devices and their files add nothing."""
    assert ["lustre"] == [fs["name"] for fs in record_between(
        captured(release, "s01_before_w1"), captured(release, "s02_after_w1"))["file_systems"]]


# -- what an ordinary user sees ----------------------------------------------------------


@pytest.fixture
def as_ordinary_user(monkeypatch):
    """debugfs is closed to users (0700), as INDEX.tsv shows for uid 1000 in each release."""
    def closed(function):
        def guarded(path, *rest):
            if "/sys/kernel/debug/" in str(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return function(path, *rest)
        return guarded
    monkeypatch.setattr(paths.os, "listdir", closed(os.listdir))
    monkeypatch.setattr(paths, "read_text", closed(private_files.read_text))


@pytest.mark.parametrize("release", ["2.15.8", "2.16.1"])
def test_without_root_the_rpcs_are_known_and_the_bytes_are_not(as_ordinary_user, release):
    """Up to 2.16 rpc_stats and md_stats are open to all; None is "not known", never 0."""
    file_system = between(release, "s01_before_w1", "s02_after_w1")
    assert (None, None) == (file_system["application"], file_system["operations"])
    network = file_system["network"]
    assert (None, None, 32, 29) == (network["read_bytes"], network["write_bytes"],
                                    network["read_rpcs"], network["write_rpcs"])
    assert "node001: llite: permission denied" in file_system["notes"]


def test_without_root_md_stats_is_all_there_is_on_2_17():
    """md_stats: 70 closes and 26 + 14 = 40 files and directories created, by one MDT."""
    targets = between("2.17.57", "s01_before_w1", "s02_after_w1")["targets"]
    assert (70, 40, 26) == tuple(targets["MDT0000"][name] for name in ("close", "create", "fsync"))


def test_without_root_on_2_17_nothing_but_metadata_is_known(as_ordinary_user):
    """rpc_stats is closed to users there as well, so that even the RPCs are unknown."""
    file_system = between("2.17.57", "s01_before_w1", "s02_after_w1")
    assert (None, None) == (file_system["application"], file_system["network"])
    assert (70, 40, 26) == tuple(file_system["targets"]["MDT0000"][name]
                                 for name in ("close", "create", "fsync"))


# -- show --------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_since_the_counters_began_is_a_job_too(release):
    """`show`: without a start, everything since the mount; nothing was read before w1."""
    totals = Totals("4711", 1)
    totals.add(report(deltas=delta.compute_deltas(None, snapshot(captured(release, "s02_after_w1")),
                                                  sources.read_at("start"))))
    [file_system] = totals.record()["file_systems"]
    assert {"read_bytes": 16_600_064, "write_bytes": 16_600_064, "read_calls": 53,
            "write_calls": 38, "lower_bound": False} == file_system["application"]


# -- a live 2.17.57 whose workloads counted themselves (2.17.57-b, -c) --------------------


def of_c1(before, after):
    """The same of the node c1 of the three of 2.17.57-c."""
    [file_system] = record_between(captured("2.17.57-c", f"{before}/c1"),
                                   captured("2.17.57-c", f"{after}/c1"))["file_systems"]
    return file_system


@pytest.mark.parametrize("before, after, why", [
    ("s09_e_before", "s10_e_track_pid_1", "stats_track_pid is 1"),
    ("s10_e_track_pid_1", "s11_e_track_own_pid", "stats_track_pid is 1 and stats_track_pid is 345"),
    ("s11_e_track_own_pid", "s12_e_track_gid_1000",
     "stats_track_pid is 345 and stats_track_gid is 1000"),
])
def test_a_mount_that_counts_one_process_or_group_is_named_by_what_filters(before, after, why):
    """The files that do not filter say `untracked`, which names nobody."""
    file_system = between("2.17.57-b", before, after)
    assert file_system["application"]["lower_bound"]
    [note] = file_system["notes"]
    assert note.endswith(f"; {why}: only what that one does is counted")


@pytest.mark.parametrize("before, after", [
    ("s02_one_reads_the_others", "s07_before_kill"), ("s07_before_kill", "s08_killed_25s"),
    ("s08_killed_25s", "s09_killed_and_evicted")])
def test_rows_of_a_section_that_is_not_used_come_and_go_without_a_mark(before, after):
    """The last rows of "RPC latency (us)" vanish and come back, and nothing was cleared."""
    file_system = of_c1(before, after)
    assert ([], []) == (file_system["low"], file_system["notes"])
    assert file_system["network"]["write_rpcs"] == sum(
        file_system["request_pages"]["write"].values())


def of_b(before, after):
    """What programs did in 2.17.57-b between two steps; the notes stand apart."""
    file_system = between("2.17.57-b", before, after)
    application = file_system["application"]
    return ({way: (application[f"{way}_calls"], application[f"{way}_bytes"])
             for way in ("read", "write")},
            (file_system["too_low"], file_system["too_high"], file_system["write_bytes_max"]),
            file_system["notes"])


@pytest.mark.parametrize("before, after, calls, counted, missing", [
    ("s00_a_before", "s01_a_tiny100", 1003, 2_500, 978),
    ("s01_a_tiny100", "s02_a_dd1000", 2000, 489_000, 1511),
    ("s02_a_dd1000", "s03_a_small_pwrite", 250, 28_065, 196),
], ids=["1003 x 100 B", "dd bs=1000 count=2000", "250 small pwrites and writevs"])
def test_small_writes_are_marked_and_lie_between_the_bounds(before, after, calls, counted,
                                                            missing):
    """
    The true bytes: 100,300; 2,000,000; 41,163.  A write that is not counted is of less than a
    page, so 4095 bytes at most: 2,500 + 978 x 4095 = 4,007,410; 489,000 + 1511 x 4095 = 6,676,545;
    28,065 + 196 x 4095 = 830,685.
    """
    true, most = {1003: (100_300, 4_007_410), 2000: (2_000_000, 6_676_545),
                  250: (41_163, 830_685)}[calls]
    done, wrong, [note] = of_b(before, after)
    assert {"read": (0, 0), "write": (calls, counted)} == done
    assert (["write_bytes"], [], most) == wrong
    assert counted <= true <= most
    assert note.startswith(f"{missing} of {calls} write() calls are not in the bytes written")
    sent = {1003: "0 bytes", 2000: "2.0 MiB", 250: "0 bytes"}[calls]      # both files by then
    assert note.endswith(f" were written; {sent} went over the network")


@pytest.mark.parametrize("before, after, reads, writes", [
    ("s03_a_small_pwrite", "s04_a_append100", (0, 0), (1003, 100_300)),
    ("s04_a_append100", "s05_a_dd1000_no_tiny", (0, 0), (2000, 2_000_000)),
    ("s05_a_dd1000_no_tiny", "s06_c_before", (0, 0), (12, 12_582_912)),
    ("s06_c_before", "s07_c_coldread", (84, 8_388_608), (0, 0)),
    ("s07_c_coldread", "s08_c_mixedread", (146, 1_578_096), (0, 0)),
    ("s08_c_mixedread", "s09_e_before", (0, 0), (0, 0)),
    ("s14_e_track_off_and_w", "s15_g_before", (0, 0), (0, 0)),
    ("s15_g_before", "s16_g_mmap", (0, 0), (0, 0)),
    ("s16_g_mmap", "s17_g_splice", (9, 260_000), (8, 260_000)),
], ids=["O_APPEND", "tiny_write=0", "1 MiB", "cold", "partly cached", "nothing", "nothing again",
        "mmap", "sendfile, copy_file_range, splice"])
def test_all_else_is_exact_and_says_nothing(before, after, reads, writes):
    """
    True counts as the workload has counted them.  Of the last: sendfile 65,536 + 34,464 B,
    copy_file_range the same, splice 5 x 12,000 B: 260,000 B read; the two last and a write of
    100,000 B are 260,000 B written.
    """
    assert ({"read": reads, "write": writes}, ([], [], writes[1]), []) == of_b(before, after)


def test_what_mapped_files_did_is_in_their_own_counters():
    """37 pages were stored to and 25 loaded from; msync is an fsync."""
    found = counts(between("2.17.57-b", "s15_g_before", "s16_g_mmap"))
    assert (37, 62, 1, 2) == tuple(found[name] for name in ("page_mkwrite", "page_fault", "fsync",
                                                            "mmap"))


@pytest.mark.parametrize("before, after, writes", [
    ("s00_before", "s01_two_clients", (21, 6_891_456)),
    ("s08_killed_25s", "s09_killed_and_evicted", None)])
def test_a_client_beside_one_that_is_killed_is_exact(before, after, writes):
    """c1: 15 x 40,000 and 6 x 1 MiB written and read from the cache; it was never evicted."""
    file_system = of_c1(before, after)
    assert ([], [], []) == (file_system["too_low"], file_system["too_high"], file_system["notes"])
    application = file_system["application"]
    assert writes in (None, (application["write_calls"], application["write_bytes"]))


def between_with_states(release, before, after):
    """As `between`, at the time of the capture and with what is read after the start alone."""
    taken = []
    late = {name: module for name, module in sources.list_sources().items()
            if "start" not in module.READ_AT}
    for step, side in ((before, {}), (after, late)):
        tree = captured(release, step)
        seconds = (tree / "TIME").read_text().split()[1]
        files_of = [file for one in side.values() for file in one.read(str(tree), Config())]
        one = snapshot(tree)
        taken.append(one._replace(wall_ns=int(float(seconds) * 1e9), files=(*one.files, *files_of)))
    totals = Totals("4711", 1)
    totals.add(report(deltas=delta.compute_deltas(*taken, sources.read_at("start"))))
    [file_system] = totals.record()["file_systems"]
    return file_system


@pytest.mark.parametrize("release, before, evictions", [
    ("2.15.8", "s12_remounted_and_w", 2), ("2.16.1", "s15_expired_and_w", 2)])
def test_after_an_eviction_what_was_written_is_an_upper_bound(release, before, evictions):
    """An OST and the MDT have evicted the node, as its `state` files say."""
    file_system = between_with_states(release, before, "s16_evicted")
    assert (["write_bytes"], file_system["application"]["write_bytes"]) == (
        file_system["too_high"], file_system["write_bytes_max"])
    assert [note for note in file_system["notes"] if note.startswith(f"{evictions} evictions")]


def test_evictions_before_the_start_are_not_this_jobs():
    """2.15.8, s16 to s17: the same history, and nothing new in it."""
    file_system = between_with_states("2.15.8", "s16_evicted", "s17_meta_extents")
    assert ([], []) == (file_system["too_high"], file_system["notes"])
