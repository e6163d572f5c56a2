"""
Jobs whose fault is known, with the numbers of real sizes, on 4 to 1,000 nodes; and healthy jobs of
the same kind beside them, which stay without a finding.

Issue 26, points 4 to 8: calls without a rule of their own, few OSTs, contention for locks, releases
that time nothing, mixtures, requests that no call made, slow metadata.
"""

import pytest
from test_job_totals import llite, osc
from test_planted_faults import GIB, MIB, Work, job
from trees import report as of_node

from iostats.base.config import Config
from iostats.report import node_sets
from iostats.report.findings.evaluate import find_problems
from iostats.report.job_tables import add_labels
from iostats.report.why.causes import judge_record
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals

HOUR_S = 3600.0
KIB = 1 << 10


def found_in(record):
    return find_problems(record, Config())


def first_of(record):
    return found_in(record)[0]


def ids(record):
    return [one.id for one in found_in(record)]


def alike(nodes, work, elapsed_s=HOUR_S, is_timed=True):
    """A job of nodes that did the same."""
    return job([work] * nodes, elapsed_s, is_timed)


def of_deltas(nodes, *deltas, elapsed_s=HOUR_S):
    totals = Totals("4711", nodes, fold=node_sets.fold_nodes)
    for number in range(nodes):
        totals.add(of_node(f"nid{number:05}", deltas, elapsed_s=elapsed_s, cpus=1))
    return totals.record()


nodes_4_to_1000 = pytest.mark.parametrize("nodes", [4, 64, 1000])


# -- 4. calls without a rule -----------------------------------------------------------------------

# What llite times since 2.14 (llite_opcode_table, lustre/llite/lproc_llite.c, 2.14.0 to 2.17.57),
# but `create` and `mknod` of files, whose time is that of the open that makes the file, and the
# time between a close and an open (openclosetime), which is no call's.
TIMED = ("read", "write", "open", "close", "mmap", "page_fault", "page_mkwrite", "seek", "fsync",
         "readdir", "setattr", "truncate", "flock", "getattr", "fallocate", "link", "unlink",
         "symlink", "mkdir", "rmdir", "rename", "statfs", "setxattr", "getxattr", "listxattr",
         "removexattr", "inode_permission", "splice")
WORDS = {"setattr": "chmod()", "getattr": "stat()", "seek": "lseek()", "flock": "locks",
         "page_fault": "mmap", "page_mkwrite": "mmap", "unlink": "removed", "rmdir": "removed",
         "inode_permission": "permission"}


@pytest.mark.parametrize("count", [41, 20_000])
@pytest.mark.parametrize("call", TIMED)
def test_each_call_that_takes_a_tenth_of_the_time_is_named(call, count):
    """
    360 of 3,600 s, on each of four nodes, beside 40 GiB that were written well; of large reads and
    writes a quarter.
    """
    is_transfer = call in ("read", "write")
    us, share = (900_000_000, "25 %") if is_transfer else (360_000_000, "10 %")
    values = {call: count, f"{call}_us": us}
    if is_transfer:
        values.update({f"{call}_calls": count, f"{call}_bytes": count * MIB})
    network = osc(write_bytes=10 * GIB, read_bytes=20_000 * MIB)
    text = first_of(of_deltas(4, llite(**values), network)).number
    assert call in text or WORDS[call] in text
    assert f"{share} of the nodes' time" in text
    values[f"{call}_us"] -= 1_000_000
    assert [] == [one.id for one in found_in(of_deltas(4, llite(**values), network))
                  if count == 41 or is_transfer]


@nodes_4_to_1000
def test_fsync_after_each_mebibyte(nodes):
    """37,000 MiB in an hour, each synced in 29.2 ms: 30 % of the nodes' time."""
    work = Work().moves("write", 37_000 * MIB, us=500, rpc=MIB).calls(fsync=37_000, us=29_200)
    one = first_of(alike(nodes, work))
    assert "fsync" == one.id
    assert one.number == (f"{37_000 * nodes:,} calls of fsync() after 1.0 MiB each took 29.2 ms "
                          "each, 30 % of the nodes' time")


def test_a_fsync_at_the_end_of_each_checkpoint_is_how_it_should_be():
    """23 checkpoints of 41 GiB, which take 10 s to sync: 6.4 % of the nodes' time."""
    work = Work().moves("write", 23 * 41 * GIB, us=100).calls(fsync=23, us=10_000_000)
    assert [] == ids(alike(4, work))


@nodes_4_to_1000
@pytest.mark.parametrize("call", ["page_fault", "page_mkwrite"])
def test_mapped_files(nodes, call):
    """410,000 page faults of 3.16 ms: 36 % of the nodes' time."""
    one = first_of(alike(nodes, Work().calls(**{call: 410_000}, us=3_160).calls(mmap=37, us=23)))
    assert ("mapped_files", f"{410_000 * nodes:,} page faults of mapped files (mmap) took 3.16 ms "
            "each, 36 % of the nodes' time") == (one.id, one.number)


def test_lseek_to_the_end():
    """1,100,000 of 982 us: 30 %; SEEK_SET takes nothing, and is not mentioned."""
    one = first_of(alike(16, Work().calls(seek=1_100_000, us=982)))
    assert ("other_calls", "17,600,000 calls of lseek(), 4,889 a second, 30 % of the nodes' time",
            "lseek() to the end of a file, to data or to a hole asks its OSTs.") == (
        one.id, one.number, one.meaning)
    assert [] == ids(alike(16, Work().moves("read", 37 * GIB).calls(seek=1_100_000, us=1)))


# -- 5. few OSTs -----------------------------------------------------------------------------------

def over(osts, of, nodes, each, seconds):
    """`nodes` that write `each` bytes over the first `osts` of `of` OSTs, in so many seconds."""
    deltas = [llite(write_bytes=each, write_calls=each // MIB, write=each // MIB,
                    write_us=round(seconds * 1_000_000)),
              *(osc(f"OST{number:04x}", write_bytes=each // osts * (number < osts),
                    write_rpcs=each // osts // (4 * MIB)) for number in range(of))]
    return of_deltas(nodes, *deltas)


@pytest.mark.parametrize("osts, of, nodes", [(2, 64, 4), (4, 200, 16), (4, 200, 1000),
                                             (8, 64, 64)])
def test_few_osts(osts, of, nodes):
    """1 TiB and more, in 10 % of the time."""
    one = first_of(over(osts, of, nodes, 1024 * GIB // min(nodes, 16), 360))
    assert "few_osts" == one.id
    assert one.number.endswith(f" went through about {osts} of {of} OSTs")


@pytest.mark.parametrize("osts, of, nodes, each, seconds", [
    (2, 64, 4, 64 * GIB, 150), (16, 64, 64, 64 * GIB, 360), (4, 200, 4, 256 * GIB, 360),
    (2, 64, 4, 7 * GIB, 360), (48, 200, 64, 64 * GIB, 360), (2, 4, 64, 64 * GIB, 360),
], ids=["4 % of the time", "enough for a file of each node's", "a file for each node",
        "28 GiB need no more", "a file for each process", "half of all"])
def test_enough_osts(osts, of, nodes, each, seconds):
    assert [] == [one for one in ids(over(osts, of, nodes, each, seconds))
                  if one != "time_in_lustre"]


@pytest.mark.parametrize("is_timed", [True, False], ids=["2.15", "2.12"])
@pytest.mark.parametrize("way, done", [("read", "read"), ("write", "written")])
def test_few_osts_of_what_is_read_or_written(way, done, is_timed):
    """
    6 TiB the other way, over all 64 OSTs, are half of 12 TiB, which are on 7 OSTs in effect: nearly
    one for each of 8 nodes; of the way that takes its time it is 2.
    """
    other = {"read": "write", "write": "read"}[way]
    each, calls, over_all = 768 * GIB, 768 << 10, [f"OST{number:04x}" for number in range(64)]
    work = Work().moves(way, each, us=3_600_000_000 // 10 // calls, over=over_all[:2]).moves(
        other, each, us=1, over=over_all)
    one = first_of(alike(8, work, is_timed=is_timed))
    assert ("few_osts", f"6.0 TiB {done} went through about 2 of 64 OSTs") == (one.id, one.number)
    work.ost["OST0000"][f"{way}_bytes"] += work.ost["OST0001"].pop(f"{way}_bytes")
    work.ost["OST0001"][f"{way}_bytes"] = 0
    one = first_of(alike(8, work, is_timed=is_timed))
    assert ("one_ost", f"all 6.0 TiB {done} went through OST0000, 1 of 64 OSTs") == (
        one.id, one.number)


def test_threads_that_wait_at_the_same_time_are_writers():
    """4 nodes that write to 4 of 64 OSTs: 8 threads and more of them waited at any time, or 7.9."""
    found = [ids(over(4, 64, 4, 256 * GIB, seconds)) for seconds in (2.01 * HOUR_S, 1.99 * HOUR_S)]
    assert ["few_osts" in one for one in found] == [True, False]


def test_small_requests_are_not_limited_by_the_bytes_of_an_ost():
    """40 requests of 32 KiB a second of each task, which nothing times, on 2 of 64 OSTs."""
    over_all = [f"OST{number:04x}" for number in range(64)]
    def found(each):
        work = Work().moves("write", 3600 * 40 * each, each, over=over_all[:2], rpc=each)
        work.ost.update((name, {}) for name in over_all[2:])
        return ids(alike(256, work, is_timed=False))
    assert [[], ["few_osts"]] == [found(32 * KIB), found(128 * KIB)]


def test_what_uneven_shares_are_in_effect():
    """40, 40 and 20 % of 1 TiB: 1 / (0.16 + 0.16 + 0.04) = 2.8 of 64 OSTs."""
    moved = [410 * GIB, 410 * GIB, 205 * GIB, *[0] * 61]
    each = 1025 * GIB
    one = first_of(of_deltas(16, llite(
        write_bytes=each, write_calls=37_000, write=37_000, write_us=360_000_000), *(
        osc(f"OST{number:04x}", write_bytes=value) for number, value in enumerate(moved))))
    assert ("few_osts", 2.78) == (one.id, one.evidence["osts_used"])


# -- 6. contention for locks -----------------------------------------------------------------------

def shared_file(nodes, locks, calls=65_000, each=100 * KIB, us=5_000, opens=1, osts=8, reads=0,
                beside=()):
    """Each node writes into the same file; `beside`: what else the nodes have counted."""
    return of_deltas(nodes, llite(
        write_bytes=calls * each, write_calls=calls, write=calls, write_us=calls * us, open=opens,
        open_us=opens * 300, close=opens, close_us=opens * 300, read_calls=reads, read=reads,
        read_us=reads * 37, read_bytes=reads * each), *(
        osc(f"OST{number:04x}", write_bytes=calls * each // osts, write_rpcs=calls // osts,
            ldlm_extent_enqueue=locks // osts, ldlm_extent_enqueue_sum=locks // osts)
        for number in range(osts)), *beside)


@nodes_4_to_1000
def test_writes_that_take_the_lock_from_each_other(nodes):
    """65,000 writes of 100 KiB, of 5 ms each, with a lock for each: 9 % of the nodes' time."""
    one = first_of(shared_file(nodes, 65_000))
    assert ("lock_contention", f"{65_000 * nodes:,} locks of parts of files for {65_000 * nodes:,} "
            "reads and writes, 9.0 % of the nodes' time") == (one.id, one.number)
    assert "lock_contention" not in ids(shared_file(nodes, 64))


def test_a_lock_for_each_ost_of_each_open_file_is_no_contention():
    """4,100 files on 8 OSTs, each read and written: 65,600 locks; and one more for each OST."""
    found = [ids(shared_file(4, locks, opens=4_100, each=300 * KIB, reads=65_000))
             for locks in (65_600, 65_608)]
    assert ["lock_contention" in one for one in found] == [False, True]


def test_small_files_have_few_objects():
    """
    A stripe has a quarter of a mebibyte at least: 6,500 MiB are 26,000, and one more object for
    each of 10,000 files.  With 41,000 on 8 OSTs it would be 328,000.
    """
    found = [ids(shared_file(4, locks, opens=10_000, each=MIB // 10)) for locks in (35_992, 36_000)]
    assert ["lock_contention" in one for one in found] == [False, True]


def test_osts_without_locks_explain_none():
    """37,000 files were opened beside, and OSTs that hold only their bytes have no locks."""
    beside = [osc(f"OST{number:04}", write_bytes=4096) for number in range(8, 104)]
    assert "lock_contention" == ids(shared_file(4, 650_000, 650_000, opens=37_000, beside=beside,
                                                us=500))[0]


def test_locks_of_files_striped_over_all_osts_are_no_contention_on_a_few():
    """
    One node reads a file on 2 of 96 OSTs, and all write one each over all: a lock for each of
    4 x 23 files and 96 OSTs, which are more than those of 2 OSTs.
    """
    over_all = [f"OST{number:04x}" for number in range(96)]
    works = [Work().moves("write", 23 * 96 * MIB, us=40, over=over_all).calls(
        open=2_300, close=2_300)
             for _ in range(4)]
    works[0].moves("read", 370 * GIB, 4 * MIB, us=14_000, over=over_all[:2])
    for work in works:
        for name in over_all:
            work.ost[name]["ldlm_extent_enqueue"] = 2_300
    assert "one_node" == ids(job(works, HOUR_S))[0]
    assert "lock_contention" not in ids(job(works, HOUR_S))


def test_few_osts_are_not_the_cause_where_nodes_wait_for_locks():
    """2.12: 16 locks a second of each node are too few to be a finding of their own."""
    over_all = [osc(f"OST{number:04x}") for number in range(4, 64)]
    def found(locks):
        values = dict(write_bytes=3600 * 16 * MIB, write_calls=3600 * 16, open=23, close=23)
        return ids(of_deltas(64, llite(**values), *(osc(
            f"OST{number:04x}", write_bytes=900 * 16 * MIB, write_rpcs=3600,
            ldlm_extent_enqueue=locks // 4) for number in range(4)), *over_all))
    assert [["few_osts"], []] == [found(locks) for locks in (16, 3600 * 16)]


def test_one_node_has_no_other_that_takes_its_locks():
    assert "lock_contention" not in ids(shared_file(1, 65_000))


# -- 8. mixtures, requests without calls, slow metadata, waste, files ------------------------------

@nodes_4_to_1000
def test_many_small_writes_beside_a_few_large_ones(nodes):
    """2,300,000 of 512 bytes, of 150 us, and 41,000 of 1 MiB: 18.4 KiB on average; then 370,000."""
    for large, mean in ((41_000, "18.4 KiB"), (370_000, "142.3 KiB")):
        work = Work().moves("write", 2_300_000 * 512, 512, 150).moves("write", large * MIB)
        one = first_of(alike(nodes, work))
        assert "small_writes" == one.id and f"writes of {mean} on average" in one.number


@pytest.mark.parametrize("each, kind", [(256 << 10, "time_in_lustre"),
                                        ((256 << 10) - 1, "small_writes")])
def test_blocks_of_256_kib_are_no_mixture(each, kind):
    """1,440,000 blocks of 750 us: 30 % of the time."""
    assert [kind] == ids(alike(4, Work().moves("write", 1_440_000 * each, each, 750)))


def test_large_writes_that_take_as_long_are_none():
    """1,100,000 of 1 MiB beside 37 small ones: 30 % of the time, and a mean of 1 MiB."""
    work = Work().moves("write", 37 * 512, 512, 150).moves("write", 1_100_000 * MIB)
    assert ["time_in_lustre"] == ids(alike(4, work))


def test_small_requests_beside_large_ones_by_their_pages():
    """1,000,000 of a page and 370,000 of 4 MiB, with O_DIRECT: 1.1 MiB on average."""
    rpcs = Delta("rpc_stats", "scratch", "OST0000", "ff9a",
                 {"write_rpcs_pages_1": 1_000_000, "write_rpcs_pages_1024": 370_000}, False, "")
    whole = 1_000_000 * 4096 + 370_000 * 4 * MIB
    one = first_of(of_deltas(4, llite(
        write_bytes=whole, write_calls=1_370_000, write=1_370_000, write_us=1_400_000_000),
        osc(write_bytes=whole, write_rpcs=1_370_000), rpcs))
    assert ("small_requests", "5,480,000 writes became 5,480,000 write requests, 73 % of them for "
            "one page, 39 % of the nodes' time") == (one.id, one.number)


def test_libaio_of_which_llite_counts_nothing():
    """10,000,000 requests of 4 KiB on four nodes in an hour: 2,778 a second."""
    work = Work().calls(open=37, close=37)
    work.add(unexplained_read_bytes=2_500_000 * 4096)
    work.ost = {"OST0003": {"read_bytes": 2_500_000 * 4096, "read_rpcs": 2_500_000}}
    one = first_of(alike(4, work))
    assert ("small_requests", "10,000,000 read requests of 4.0 KiB, 2,778 a second",
            "No counted read() or write() asked for them: libaio or io_uring with O_DIRECT "
            "did.") == (one.id, one.number, one.meaning)


def test_few_opens_that_take_long_are_a_slow_mdt():
    """8,000 opens of 150 ms on one node: a third of an hour; and an MDT that answers in 1.5 ms."""
    one = first_of(alike(1, Work().calls(open=8_000, us=150_000).calls(close=8_000)))
    assert ("slow_metadata", "An MDT that is not busy answers within a few milliseconds.") == (
        one.id, one.meaning)
    assert one.number == ("16,000 requests for metadata, open() most of all, took 75.1 ms each, "
                          "33 % of the nodes' time")
    assert [] == ids(alike(1, Work().calls(open=8_000, us=1_500).calls(close=8_000)))


def test_read_ahead_that_is_not_used():
    """1.3 times and more what was read, 10 % of the time."""
    def reads(sent):
        return alike(4, Work().moves("read", 100 * GIB, 64 * KIB, 240, sent=sent))
    assert ["random_reads"] == ids(reads(131 * GIB))
    assert "random_reads" not in ids(reads(129 * GIB))


def test_rm_of_a_tree_is_an_unlink_storm():
    """A million files in 41,000 directories; stat() takes longer than the removal itself."""
    work = Work().calls(unlink=1_000_000, us=400).calls(rmdir=41_000, us=800).calls(
        getattr=1_100_000, us=900).calls(readdir=82_000, us=2_300).calls(
        open=41_000, close=41_000, us=500)
    assert ["unlink_storm"] == [one for one in ids(alike(1, work)) if one != "metadata_storm"]


def test_many_small_files_are_many_opens():
    """A million of 37 KB: read() waits for the OSTs, which takes more than open() and close()."""
    work = Work().moves("read", 1_000_000 * 37_000, 37_000, 900, rpc=37_000).calls(
        open=1_000_000, getattr=1_000_000, us=400).calls(close=1_000_000, us=150)
    found = found_in(alike(1, work))
    assert ["many_opens"] == [one.id for one in found if one.id != "metadata_storm"]
    assert found[0].number == ("1,000,000 opens for 36.1 KiB read and written each, 51 % of the "
                               "nodes' time with stat() and read()")


# -- 1. what one node does, beside others that move more, or a little that no call has ------------

def beside_node_3(work, others=23):
    """The work of nid00003 on top of that of `others` that all do."""
    works = [Work().moves("write", 41 * GIB, 4 * MIB, us=900) for _ in range(others)]
    works[3].values.update(work.values)
    return works


SMALL = {"write_bytes": 41 * GIB + 37_000_000 * 512, "write_calls": 37_000_000 + 10_496,
         "write": 37_000_000 + 10_496, "write_us": 1_332_000_000 + 9_446_400}


def test_small_writes_of_one_node_beside_large_ones_of_all():
    """230 x 41 GiB in blocks of 4 MiB: 250 KiB on average of all, and 1.7 KiB of one node."""
    works = beside_node_3(Work(), others=230)
    works[3].values.update(SMALL)
    for is_timed in (True, False):
        one = first_of(job(works, HOUR_S, is_timed))
        assert "small_writes" == one.id
        assert one.number.startswith("37,010,496 writes by nid00003 of 1.7 KiB on average")


def test_fsync_of_one_node_beside_what_all_write():
    """37,000 of 36 ms after 1.1 MiB each: 37 %; all together have written 26 MiB for each."""
    works = beside_node_3(Work().calls(fsync=37_000, us=36_000))
    one = first_of(job(works, HOUR_S))
    assert ("fsync", "37,000 calls of fsync() by nid00003 after up to 1.1 MiB each took 36.0 ms "
            "each, 37 % of the run time on nid00003") == (one.id, one.number)


def test_one_node_is_found_beside_a_little_that_no_call_explains():
    """2 GiB of libaio are no reason to know nothing of 1 TiB; but a cost is not known then."""
    works = [Work() for _ in range(23)]
    works[0].moves("write", 1024 * GIB, 4 * MIB, us=8_000)
    for work in works[1:3]:
        work.add(unexplained_write_bytes=GIB)
    one = first_of(job(works, HOUR_S))
    assert ("one_node", None) == (one.id, one.cost)
    works[0].add(unexplained_write_bytes=900 * GIB)
    assert "one_node" not in ids(job(works, HOUR_S))


def test_small_writes_are_found_beside_a_little_that_no_call_explains():
    """37 GiB in 10,000,000 writes, and 1 GiB more: at most 4,080 bytes each; and 3 TiB more."""
    work = Work().moves("write", 37 * GIB, 3_973, us=40)
    work.add(unexplained_write_bytes=GIB)
    one = first_of(alike(4, work))
    assert "small_writes" == one.id and "of up to 4.0 KiB on average, 11 % of" in one.number
    work.add(unexplained_write_bytes=3072 * GIB)
    assert "small_writes" not in ids(alike(4, work))


# -- healthy jobs of the same kinds ----------------------------------------------------------------

HEALTHY = {
    "an MPI job that writes checkpoints": lambda: Work().moves(
        "write", 23 * 41 * GIB, 8 * MIB, us=1_200, rpc=16 * MIB).calls(
        open=23, close=23, fsync=23, us=900_000).calls(getattr=370),
    "an input pipeline with large files": lambda: Work().moves(
        "read", 370 * GIB, 4 * MIB, us=3_000).calls(open=2_300, close=2_300, getattr=4_100).calls(
        seek=94_000, us=1),
    "Python imports at the start": lambda: Work().moves("read", 1_100 * 23_000, 23_000, 60).calls(
        open=1_100, close=1_100, getattr=4_100).moves("write", 37 * GIB),
}


@pytest.mark.parametrize("is_timed", [True, False], ids=["2.15", "2.12"])
@nodes_4_to_1000
@pytest.mark.parametrize("kind", list(HEALTHY))
def test_a_healthy_job_has_no_finding(kind, nodes, is_timed):
    assert [] == ids(alike(nodes, HEALTHY[kind](), is_timed=is_timed))


@pytest.mark.parametrize("is_timed", [True, False], ids=["2.15", "2.12"])
def test_a_short_compile_job_has_no_finding(is_timed):
    """30 s: 41,000 stat() and 9,000 files."""
    work = Work().calls(open=9_000, close=9_000, getattr=41_000, unlink=900)
    assert [] == ids(alike(1, work, elapsed_s=30.0, is_timed=is_timed))


def test_a_cause_that_is_new_has_a_headline():
    record = over(2, 64, 16, 64 * GIB, 720)
    [cause, *_] = judge_record(add_labels(record, Config()), Config()).causes
    assert "few_osts" == cause.about["finding"]
