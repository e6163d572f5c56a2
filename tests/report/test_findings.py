"""
Each rule on a record worked out by hand: at its thresholds it holds, just below one it does not.

Jobs of 2 nodes and 1,000 s, so 2,000 s of nodes' time, of which 5 % are 100 s, unless it says more.
"""

import json

import pytest
from page_records import batch
from test_job_totals import llite, osc, unread
from trees import report as of_node

from iostats.base.config import Config
from iostats.cli import config as config_command
from iostats.report import accounting_comment, comment_reader, job_tables, node_sets
from iostats.report.findings.evaluate import find_problems, list_checks
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals
from iostats.totals.record import Record
from iostats.wire.messages.report import ReportedEvent, ReportedSeries

MIB, GIB = 2**20, 2**30
HALF_S = 50_000_000                 # us of each node: 100 s of both


def md_stats(target, **values):
    return Delta("md_stats", "scratch", target, "ff9a", values, False, "")


def configured(**choices):
    """`choices`: advice keys, and rules' own texts as text_RULE."""
    config = Config()
    for name, text in choices.items():
        if name.startswith("text_"):
            config.free["finding_text"][name[len("text_"):]] = text
        else:
            config.set_value(f"findings.{name}", str(text), "the test")
    return config


def record(*nodes, expected=None, elapsed_s=1000.0, **fields):
    """A job of nodes that have counted `nodes`: [Delta] each; they have a CPU each."""
    totals = Totals("4711", len(nodes) if expected is None else expected, fold=node_sets.fold_nodes)
    for number, deltas in enumerate(nodes, 1):
        totals.add(of_node(f"nid{number:05}", deltas, elapsed_s=elapsed_s,
                           **{"cpus": 1, **fields}))
    return totals.record()


def both(*deltas, **fields):
    """A job of two nodes that have counted the same."""
    return record(deltas, deltas, **fields)


def ids(found, **choices):
    return [one.id for one in find_problems(found, configured(**choices))]


def only(found, **choices):
    [one] = find_problems(found, configured(**choices))
    return one


# -- how programs call ---------------------------------------------------------------------------

def writes(**more):
    """5,000 writes of 32 KiB on each node, which take 5 % of the nodes' time."""
    return both(llite(**{"write_bytes": 5000 * 32768, "write_calls": 5000, "write": 5000,
                         "write_us": HALF_S, **more}))


def test_small_writes():
    """10,000 writes of 32 KiB take 100 of 2,000 s: just enough of everything."""
    one = only(writes())
    assert ("small_writes", "scratch", 0.05) == (one.id, one.file_system, one.weight)
    assert "10,000 writes of 32.0 KiB on average, 5.0 % of the nodes' time" == one.number
    assert "docs/reference/findings.md#small-writes" == one.link
    assert {"calls": 10_000, "mean_bytes": 32768.0, "seconds": 100.0} == one.evidence


@pytest.mark.parametrize("more", [
    {"write_bytes": 5000 * 32768 + 1}, {"write_us": HALF_S - 1},
    {"write_calls": 4999, "write": 4999, "write_bytes": 4999 * 32768},
], ids=["larger", "faster", "fewer"])
def test_just_below_they_are_not_small_writes(more):
    """A byte, a microsecond, a call."""
    assert [] == find_problems(writes(**more), configured())


def test_small_reads():
    """The same of reads: 23,000 of 37 bytes each on each node take a tenth of the time."""
    one = only(both(llite(read_bytes=23_000 * 37, read_calls=23_000, read=23_000,
                          read_us=2 * HALF_S)))
    assert ("small_reads", 0.1) == (one.id, one.weight)
    assert "46,000 reads of 37 bytes on average, 10 % of the nodes' time" == one.number


def test_where_calls_are_not_timed_their_rate_counts():
    """400 a second on each node for 1,000 s, as up to 2.13; and one less; of removals 100."""
    assert ["small_writes"] == ids(both(llite(write_bytes=4_100_000, write_calls=400_000)))
    assert [] == ids(both(llite(write_bytes=4_100_000, write_calls=399_999)))
    assert [["unlink_storm"], []] == [ids(both(llite(unlink=count))) for count in (
        100_000, 99_999)]


def test_where_calls_are_not_timed_their_rate_is_that_of_each_task():
    """The same by 16 tasks, 8 on each node: 3,200 a second, and one less."""
    def of_tasks(count):
        return both(llite(write_bytes=count * 37, write_calls=count)).replaced(
            batch=batch(tasks=16, cpus=256))
    assert [["small_writes"], []] == [ids(of_tasks(count)) for count in (3_200_000, 3_199_999)]


def test_small_writes_that_are_not_all_counted_are_small_for_sure_by_their_most():
    """write_bytes_max: 41,000 calls that are in no byte counter, of 4,095 bytes at most."""
    calls = {"write_calls": 41_000, "write": 41_000, "write_us": HALF_S, "write_bytes": 0,
             "uncounted_write_calls": 41_000, "uncounted_write_bytes": 41_000 * 4095}
    one = only(both(llite(**calls)))
    assert "82,000 writes of up to 4.0 KiB on average, 5.0 % of the nodes' time" == one.number


def test_requests_that_nothing_gathers_say_more_than_small_writes():
    """5,000 requests of 10,000 calls: 64 KiB each, half as many; and one less."""
    def direct(rpcs):
        return both(llite(write_bytes=10_000 * 32768, write_calls=10_000, write=10_000,
                          write_us=HALF_S), osc(write_bytes=rpcs * 65536, write_rpcs=rpcs))
    assert ["small_requests"] == ids(direct(5000))
    assert "20,000 writes became 10,000 write requests of 64.0 KiB, 5.0 % of the nodes' time" == (
        only(direct(5000)).number)
    assert ["small_writes"] == ids(direct(4999))


def test_requests_that_nothing_gathers_where_fsync_does_the_waiting():
    """
    5,000 writes of 4 KiB that return at once, and as many fsync() of 100 s; and 1 us less.  With
    fewer requests than half of the writes it is fsync() by itself.
    """
    def synced(us, rpcs=5000):
        return both(llite(write_bytes=5000 * 4096, write_calls=5000, write=5000, write_us=41,
                          fsync=5000, fsync_us=us), osc(write_bytes=5000 * 4096, write_rpcs=rpcs))
    assert ("small_requests", "10,000 writes became 10,000 write requests of 4.0 KiB, 5.0 % of the "
            "nodes' time in fsync()") == (only(synced(HALF_S)).id, only(synced(HALF_S)).number)
    assert [[], ["fsync"]] == [ids(synced(HALF_S - 1)), ids(synced(HALF_S, rpcs=2499))]


def test_one_request_for_each_small_file_is_no_fault_of_what_gathers_them():
    """5,000 files of 8 KiB on each node, read at once; and of half as many opens less one."""
    def files(opens):
        return both(llite(read_bytes=5000 * 8192, read_calls=5000, read=5000, read_us=HALF_S,
                          open=opens, open_us=41), osc(read_bytes=5000 * 8192, read_rpcs=5000))
    assert [["small_reads"], ["small_requests"]] == [ids(files(2500)), ids(files(2499))]
    assert "The node could not merge them (O_DIRECT, or reads all over a file)." == (
        only(files(2499)).meaning)


def test_directories_that_are_listed_are_no_requests_for_data():
    """5,000 of 8 KiB from the MDT, on each node."""
    values = llite(read_bytes=5000 * 65536, read_calls=5000, read=5000, read_us=HALF_S)
    listed = Delta("mdc", "scratch", "MDT0000", "ff9a",
                   {"read_bytes": 5000 * 8192, "read_rpcs": 5000}, False, "")
    assert [[], ["small_requests"]] == [ids(both(values, listed, osc(**more))) for more in (
        {"read_bytes": 5000 * 65536, "read_rpcs": 37},
        {"read_bytes": 5000 * 65536, "read_rpcs": 5000})]


def opens(again=0, each=MIB, us=HALF_S, apart_us=37):
    return both(llite(open=5000, open_us=us - 41, close=5000, close_us=41, read_bytes=5000 * each,
                      read_calls=37, read=37, read_us=41,
                      **({"openclosetime": again, "openclosetime_us": again * apart_us}
                         if again else {})), osc(read_bytes=4999 * each, read_rpcs=37))


def test_many_opens():
    """10,000 opens for 1 MiB each; a byte more each is enough."""
    assert "10,000 opens for 1.0 MiB read and written each, 5.0 % of the nodes' time" == only(
        opens()).number
    assert [[], []] == [ids(opens(each=MIB + 1)), ids(opens(us=HALF_S - 1))]


def test_opens_of_files_that_were_open_before_say_more():
    """2,500 of 5,000: half of them, whatever was read from them; and one less."""
    one = only(opens(again=2500, each=2 * MIB))
    assert ("repeated_opens", "50 % of 10,000 opens were of files that the same node had closed "
            "before, 5.0 % of the nodes' time") == (one.id, one.number)
    assert [["repeated_opens"], [], ["many_opens"]] == [
        ids(opens(again=2500)), ids(opens(again=2499, each=2 * MIB)), ids(opens(again=2499))]


def test_a_file_that_an_earlier_job_had_open_is_none_that_is_opened_over_and_over():
    """It was closed a tenth of the job ago and more, on average: 100 s."""
    assert [["repeated_opens"], ["many_opens"]] == [
        ids(opens(again=4000, apart_us=apart_us)) for apart_us in (100_000_000, 100_000_001)]


def test_what_no_call_has_read_may_be_what_was_opened():
    """Mapped files and libaio: 1 MiB for each open came over the network; and a little more."""
    def of(came):
        return both(llite(open=5000, open_us=HALF_S, close=5000, close_us=41),
                    osc(read_bytes=came, read_rpcs=37))
    assert [["many_opens"], [], []] == [
        ids(of(5000 * MIB)), ids(of(5000 * MIB + 1)),
        ids(both(llite(open=5000, open_us=HALF_S, close=5000, close_us=41)))]


def test_small_files_are_many_opens_and_no_small_writes():
    """A write of 37 bytes into each of 5,000 files."""
    assert ["many_opens"] == ids(both(llite(
        open=5000, open_us=HALF_S, close=5000, close_us=41, write_calls=5000, write=5000,
        write_us=HALF_S, write_bytes=5000 * 37), osc()))

@pytest.mark.parametrize("rule, values, number", [
    ("stat_storm", {"getattr": 5000, "getattr_us": HALF_S},
     "10,000 calls of stat(), 10.0 a second, 5.0 % of the nodes' time"),
    ("unlink_storm", {"unlink": 4000, "unlink_us": HALF_S - 41, "rmdir": 1000, "rmdir_us": 41},
     "10,000 files and directories removed, 10.0 a second, 5.0 % of the nodes' time"),
    ("other_calls", {"mkdir": 5000, "mkdir_us": HALF_S, "readdir": 5000, "readdir_us": HALF_S - 1},
     "10,000 calls of mkdir(), 10.0 a second, 5.0 % of the nodes' time"),
    ("other_calls", {"setattr": 5000, "setattr_us": HALF_S}, "10,000 calls of chmod(), chown() and "
     "utime(), 10.0 a second, 5.0 % of the nodes' time"),
    ("other_calls", {"getxattr": 5000, "getxattr_us": HALF_S},
     "10,000 calls of getxattr(), 10.0 a second, 5.0 % of the nodes' time"),
    ("flock", {"flock": 5000, "flock_us": HALF_S},
     "10,000 locks and unlocks of files (flock, fcntl) took 10.0 ms each, 5.0 % of the nodes' "
     "time"),
])
def test_storms(rule, values, number):
    """As often, and as long, as it takes; a microsecond less is none."""
    one = only(both(llite(**values)))
    assert (rule, number) == (one.id, one.number)
    longest = max(values, key=values.get)
    assert [] == ids(both(llite(**{**values, longest: values[longest] - 1})))


def test_few_locks_are_a_finding_where_they_take_much_time():
    """37 of two nodes: 200 of 2,000 s; a microsecond less, and 9,999 of 100 s, are none."""
    def locks(count, us):
        return record([llite(flock=count - 14, flock_us=us, read_bytes=GIB)],
                      [llite(flock=14, flock_us=us)])
    assert [["flock"], [], ["flock"], []] == [
        ids(locks(37, 2 * HALF_S)), ids(locks(37, 2 * HALF_S - 1)),
        ids(locks(10_000, HALF_S)), ids(locks(9_999, HALF_S))]
    assert only(locks(37, 2 * HALF_S)).number == (
        "37 locks and unlocks of files (flock, fcntl) took 5.41 s each, 10 % of the nodes' time")


def polling(empty, rate=10):
    """100 bins of 10 s, `empty` of them without a byte, and `rate` operations a second."""
    read = [0] * empty + [MIB] * (100 - empty)
    values = llite(getattr=60_000, open=30_000, read_bytes=GIB, read_calls=1024)
    return record([values], series={"scratch": ReportedSeries(
        1_795_225_000.0, 10.0, read, [0] * 100, [10 * rate] * 100)})


def test_polling():
    """Half of the time nothing but 10 operations a second."""
    one = only(polling(50))
    assert ("polling", "in 50 % of the time no byte was read or written, and there were 10.0 "
            "operations a second, opens and stat() mostly") == (one.id, one.number)
    assert [[], []] == [ids(polling(49)), ids(polling(50, rate=9))]


def test_time_in_lustre():
    """500 of 2,000 s, in calls of which none lies in another; a creating open has its create."""
    def spent(close_us):
        return both(llite(read_bytes=GIB, read_calls=1024, read=1024, read_us=150_000_000,
                          open=4100, open_us=50_000_000, close=4100, close_us=close_us, create=4100,
                          create_us=50_000_000))
    one = only(spent(50_000_000))
    assert ("time_in_lustre", "25 % of the nodes' time was spent in Lustre, 60 % of it in read "
            "and 20 % of it in close") == (one.id, one.number)
    assert [] == ids(spent(49_999_999))


def test_other_calls_than_reads_and_writes_are_much_from_a_tenth_on():
    """200 of 2,000 s, which no call by itself takes."""
    def spent(close_us):
        return both(llite(write_bytes=GIB, write_calls=41, write=41, write_us=37, seek=41,
                          seek_us=60_000_000, statfs=41, statfs_us=20_000_000, close=4100,
                          close_us=close_us))
    assert [["time_in_lustre"], []] == [ids(spent(us)) for us in (20_000_000, 19_999_999)]


@pytest.mark.parametrize("call", ["fsync", "truncate", "setattr", "page_fault", "page_mkwrite",
                                  "getxattr", "setxattr", "listxattr", "removexattr"])
def test_time_that_may_lie_in_another_call_counts_where_it_is_more(call):
    """200 of 2,000 s in it, and 37 s in writes, which may be in it or not; never both."""
    def spent(us, in_write_us):
        return both(llite(write_bytes=GIB, write_calls=1024, write=1024, write_us=in_write_us,
                          **{call: 41, f"{call}_us": us}))
    off = "other_calls mapped_files"
    assert f"10 % of the nodes' time was spent in Lustre, 100 % of it in {call}" == (
        only(spent(100_000_000, 18_500_000), off=off).number)
    assert "25 % of the nodes' time was spent in Lustre, 100 % of it in write" == (
        only(spent(99_000_000, 250_000_000), off=off).number)
    assert [] == ids(spent(99_999_999, 249_999_999))


def test_what_takes_most_of_the_time_says_more_than_that_it_was_taken():
    """60 % in small writes; but 5 % in them do not explain 60 % elsewhere."""
    def spent(write_us, read_us):
        return both(llite(write_bytes=5000 * 37, write_calls=5000, write=5000, write_us=write_us,
                          read_bytes=GIB, read_calls=1024, read=1024, read_us=read_us))
    assert [["small_writes"], ["time_in_lustre", "small_writes"]] == [
        ids(spent(600_000_000, 41)), ids(spent(HALF_S, 600_000_000))]


# -- where it goes -------------------------------------------------------------------------------

def of_osts(*moved, elapsed_s=80.0, **more):
    """80 s: an OST moves 4 GiB in 5 % of it, at 1 GiB/s."""
    return both(llite(write_bytes=sum(moved), write_calls=37, **more),
                *(osc(f"OST{number:04}", write_bytes=bytes_, write_rpcs=37)
                  for number, bytes_ in enumerate(moved)), elapsed_s=elapsed_s)


def test_one_ost():
    """80 % of 5 GiB are 4 GiB, on one of 3 OSTs."""
    one = only(of_osts(GIB // 2, 2 * GIB, 0))
    assert ("one_ost", "80 % of 5.0 GiB went through OST0001, 1 of 3 OSTs",
            "Where lfs getstripe -d DIRECTORY shows one stripe, give large shared files more "
            "stripes.") == (
        one.id, one.number, one.advice)
    assert [[], [], []] == [ids(of_osts(GIB // 2 + 1, 2 * GIB, 0)), ids(of_osts(
        0, 2 * GIB - 1, 0)), ids(of_osts(GIB // 2, 2 * GIB, 0, elapsed_s=80.1))]
    assert [] == ids(of_osts(2 * GIB)), "there is no other"


def test_where_it_took_no_time_it_does_not_matter_where_it_lies():
    """The same, with the time of writes: 5 % of the nodes', or a microsecond less."""
    assert [["one_ost"], []] == [
        ids(of_osts(GIB // 2, 2 * GIB, write=37, write_us=us, elapsed_s=1000.0))
        for us in (HALF_S, HALF_S - 1)]


def of_mdts(*asked, elapsed_s=1000.0):
    return record([*(md_stats(f"MDT{number:04}", getattr=count)
                     for number, count in enumerate(asked))], elapsed_s=elapsed_s)


def test_metadata_storms():
    """1,000 a second of one node; or 5,000 of all together, here by ten."""
    one = only(of_mdts(1_000_000))
    assert ("metadata_storm", "nid00001 asked MDT0000 1,000 times a second on average") == (
        one.id, one.number)
    assert [] == ids(of_mdts(999_000))
    storm = only(record(*[[md_stats("MDT0000", getattr=500_000)]] * 10))
    assert "MDT0000 was asked 5,000,000 times, 5,000 a second, on average 500 by each node" == (
        storm.number)
    assert [] == ids(record(*[[md_stats("MDT0000", getattr=499_999)]] * 10))


def test_a_storm_that_takes_no_time_of_the_job_is_one_from_twice_as_many_on():
    """
    5,000 stat() calls a second of ten nodes: 5 % of their time, or 20 us less; and 10,000, which
    are all that a small MDT answers.
    """
    assert [["stat_storm"], [], ["metadata_storm"], []] == [ids(record(*[[
        llite(getattr=500_000, getattr_us=us), md_stats("MDT0000", getattr=asked)]] * 10))
        for us, asked in ((HALF_S, 500_000), (HALF_S - 2, 500_000), (HALF_S - 2, 1_000_000),
                          (HALF_S - 2, 999_999))]


@pytest.mark.parametrize("mapped, opens", [
    (0, "80,000 opens by nid00001 for up to 128.0 KiB read and written each, 78 % of the run "
        "time on nid00001 with read()"), (80, "")])
def test_small_files_of_one_node_beside_large_ones_of_others(mapped, opens):
    """
    nid00001 opens 80,000 files of 128 KiB; the others read 1 MiB at a time, so that it is 1.2 MiB
    for each open of all, and one_node alone was found.  What was read through mapped files may be
    of these: 80 GiB are 1.1 MiB each.
    """
    alone = llite(open=80_000, open_us=300_000_000, close=80_000, close_us=110_000_000,
                  read_bytes=80_000 * (128 << 10), read_calls=80_000, read=80_000,
                  read_us=370_000_000)
    others = llite(open=23, open_us=23_000, close=23, close_us=23, read_bytes=37 * GIB // 10,
                   read_calls=3789, read=3789, read_us=23_000_000)
    network = [osc("OST0000", read_bytes=80_000 * (128 << 10) + mapped * GIB),
               *[osc("OST0000", read_bytes=37 * GIB // 10)] * 23]
    works = [[alone, network[0]], *([others, one] for one in network[1:])]
    found = {one.id: one.number for one in find_problems(record(*works), configured())}
    assert ("one_node" in found, opens) == (True, found.get("many_opens", ""))


def test_a_storm_of_calls_that_are_known_is_told_as_these():
    """As important as the storm at the MDT, of which half is these stat() calls; and not quite."""
    def of(asked):
        return record([llite(getattr=1_000_000, getattr_us=HALF_S), md_stats(
            "MDT0000", getattr=1_000_000, close=asked - 1_000_000)])
    one = only(of(2_000_000))
    assert ("stat_storm", 0.3) == (one.id, one.weight)
    assert ["metadata_storm", "stat_storm"] == ids(of(2_000_001))


def test_one_mdt():
    """900 of 1,000 a second go to one of three, and take 5 % of the time."""
    def two_nodes(*asked, us=HALF_S):
        return both(llite(open=41, open_us=us), *(
            md_stats(f"MDT{number:04}", getattr=count) for number, count in enumerate(asked)))
    one = only(two_nodes(0, 540_000, 60_000))
    assert ("one_mdt", "MDT0001 answered 90 % of the requests for metadata, 1,080 a second; there "
            "are 3 MDTs") == (one.id, one.number)
    assert [[], [], [], []] == [
        ids(two_nodes(0, 540_000, 60_001)), ids(two_nodes(540_000)),
        ids(two_nodes(0, 499_999)), ids(two_nodes(0, 540_000, us=HALF_S - 1))]


def test_one_node():
    """
    6 of 10 parts of 250 GiB by one of four, 150 s of 1,000 s at 1 GiB/s; of three it is no finding.
    """
    def nodes(first, *others):
        return record(*([llite(read_bytes=moved, read_calls=37), osc(read_bytes=moved)]
                        for moved in (first, *others)))
    one = only(nodes(150 * GIB, 50 * GIB, 50 * GIB, 0))
    assert ("one_node", "nid00001 read 60 % of all that 4 nodes did, 150.0 GiB") == (
        one.id, one.number)
    assert [[], [], [], []] == [
        ids(nodes(151 * GIB, 51 * GIB, 51 * GIB, 0)), ids(nodes(150 * GIB - 1, 0, 0, 0)),
        ids(nodes(900 * GIB, GIB, 0)), ids(nodes(150 * GIB, 0, 0, 0), large_bytes=151 * GIB)]


def test_random_reads():
    """13 GiB came for 10 GiB that were read; not reported where files were mapped."""
    def reads(asked, **more):
        return both(llite(**{"read_bytes": asked, "read_calls": 5000, **more}),
                    *(osc(f"OST{number:04}", read_bytes=13 * GIB // 4, read_rpcs=1024)
                      for number in (0, 1)), elapsed_s=100.0)
    one = only(reads(5 * GIB))
    assert ("random_reads", "13.0 GiB came from the OSTs for 10.0 GiB that were read") == (
        one.id, one.number)
    assert [[], [], [], []] == [
        ids(found) for found in (reads(5 * GIB + 1), reads(5 * GIB, page_fault=1),
                                 reads(5 * GIB, mmap=1), reads(5 * GIB, read_calls=4999))]


def test_the_rest_of_the_last_page_of_a_file_is_no_waste():
    """13 GiB and 23 pages came for 10 GiB, of which 23 opens explain 23 pages; and a byte less."""
    def reads(more):
        return record([llite(read_bytes=10 * GIB, read_calls=10_000, open=23),
                       osc(read_bytes=13 * GIB + more, read_rpcs=37)], elapsed_s=100.0)
    assert [["random_reads"], []] == [ids(reads(23 * 4096)), ids(reads(23 * 4096 - 1))]


def test_reads_that_take_no_time_may_be_wherever_they_like():
    """5 % of it, or a microsecond less; and writes, which have nothing to do with it, 40 %."""
    def reads(us):
        return both(llite(read_bytes=GIB, read_calls=5000, read=5000, read_us=us, write_calls=37,
                          write=37, write_us=400_000_000, write_bytes=GIB), *(
                    osc(f"OST{number:04}", read_bytes=2 * GIB, read_rpcs=1024)
                    for number in (0, 1)))
    assert ["random_reads" in ids(reads(us)) for us in (HALF_S, HALF_S - 1)] == [True, False]


def test_a_write_of_a_part_of_a_page_may_read_it():
    """At both ends, in pages of up to 64 KiB: 23 writes explain 2,944 KiB of what came."""
    def reads(more):
        return record([llite(read_bytes=10 * GIB, read_calls=10_000, write_calls=23,
                             write_bytes=23), osc(read_bytes=13 * GIB + more, read_rpcs=37)],
                      elapsed_s=100.0)
    assert [["random_reads"], []] == [ids(reads(23 * 131072)), ids(reads(23 * 131072 - 1))]


def test_what_the_cache_has_served():
    """One tenth of 4 GiB came over the network; a little more is no finding."""
    def reads(came):
        return record([llite(read_bytes=40 * GIB, read_calls=37), osc(read_bytes=came)])
    one = only(reads(4 * GIB))
    assert ("cache_served", "90 % of 40.0 GiB that were read did not come over the network") == (
        one.id, one.number)
    assert [] == ids(reads(4 * GIB + 41))


# -- what went wrong -----------------------------------------------------------------------------

def test_lost_data_comes_before_everything_even_in_a_short_job():
    """And says more than the event by itself."""
    found = record([llite(write_bytes=GIB, write_calls=37)], elapsed_s=5.0, events=[ReportedEvent(
        id="00c0ffee00c0ffee", time=1_795_225_023.5, over=1_795_225_041.25, severity=2,
        kind="evicted", file_system="scratch", target="scratch-OST0003", message="evicted")])
    one = only(found)
    assert ("data_lost", "data that the job had written and the node had not sent may be lost on "
            "nid00001 (1 event)", True) == (one.id, one.number, one.weight > 1)


def test_faults():
    """A lost connection of 500 of 1,000 s is half of the job."""
    found = record([llite(read_bytes=GIB, read_calls=37)], events=[ReportedEvent(
        id="00c0ffee00c0ffee", time=1_795_225_000.0, over=1_795_225_500.0, severity=1,
        kind="connection_lost", file_system="scratch", target="scratch-OST0003", message="")])
    one = only(found)
    assert ("faults", "1 event on it while the job ran (connection lost), the longest of 500 s",
            0.5) == (one.id, one.number, one.weight)


def test_a_fault_of_no_file_system():
    """A storage server's own."""
    found = record([llite(read_bytes=GIB, read_calls=37)], events=[ReportedEvent(
        id="00c0ffee00c0ffee", time=1_795_225_000.0, over=1_795_225_023.0, severity=3,
        kind="lbug", file_system="", target="", message="")])
    assert ("", "1 event while the job ran (lbug), the longest of 23 s") == (
        only(found).file_system, only(found).number)


def test_a_quota_that_is_used_up_and_an_ost_without_grants_are_faults():
    """What fails comes before what is slow."""
    found = record([llite(read_bytes=GIB, read_calls=37)], events=[ReportedEvent(
        id=f"00c0ffee00c0ffe{number}", time=1_795_225_000.0, over=None, severity=1, kind=kind,
        file_system="scratch", target="", message="")
        for number, kind in ((1, "no_grants"), (2, "quota_full"))])
    one = only(found)
    assert "2 events on it while the job ran (quota full, no grants)" == one.number
    assert "EDQUOT" in one.meaning


def test_messages_that_lnet_resent_are_a_finding_with_their_share_and_where():
    found = record([llite(read_bytes=GIB, read_calls=37)], events=[ReportedEvent(
        id="00c0ffee00c0ffe1", time=1_795_225_000.0, over=None, severity=1, kind="lnet_resends",
        file_system="", target="", message="LNet sent 2,300 messages, and resent 92 (4.0 %)")])
    one = only(found)
    assert ("faults", "1 event while the job ran (lnet resends); LNet sent 2,300 messages, and "
            "resent 92 (4.0 %)", "LNet resent messages: requests may have waited.") == (
        one.id, one.number, one.meaning)


def test_errors_of_no_kind_stop_nothing_and_are_one_finding():
    """A checksum that differs has two lines: who found it, and that the request is sent again."""
    found = record([llite(read_bytes=GIB, read_calls=37)], events=[ReportedEvent(
        id=f"00c0ffee00c0ffe{number}", time=1_795_225_000.0 + number, over=1_795_225_000.0 + number,
        severity=1, kind="other", file_system=name, target=name and "scratch-OST0003", message="")
        for number, name in ((1, "scratch"), (2, ""))])
    one = only(found)
    assert ("faults", "scratch", "2 events on it while the job ran (other)",
            "Errors of Lustre or LNet; often they have no effect on the job.") == (
        one.id, one.file_system, one.number, one.meaning)


def test_a_checksum_error_is_named_and_stops_nothing():
    """Its second line, that the request is sent again, is of no kind and in the same finding."""
    found = record([llite(read_bytes=GIB, read_calls=37)], events=[ReportedEvent(
        id=f"00c0ffee00c0ffe{number}", time=1_795_225_000.0 + number, over=None, severity=1,
        kind=kind, file_system=name, target=name and "scratch-OST0003", message="")
        for number, name, kind in ((1, "scratch", "checksum_error"), (2, "", "other"))])
    one = only(found)
    assert ("faults", "scratch", "2 events on it while the job ran (checksum error, other)",
            "Data differed between a node and the storage server, and was sent again.") == (
        one.id, one.file_system, one.number, one.meaning)


# -- what is not sure ----------------------------------------------------------------------------

def test_a_share_that_may_be_more_says_so():
    """All of 410 GiB are the node's; with what is read ahead it is 10/11 of 451 GiB."""
    def nodes(came):
        return record([llite(read_bytes=410 * GIB, read_calls=37), osc(read_bytes=came)],
                      *[[llite(open=1), osc()]] * 3)
    assert ["nid00001 read 100 % of all that 4 nodes did, 410.0 GiB",
            "nid00001 read >= 91 % of all that 4 nodes did, 410.0 GiB"] == [
                only(nodes(came)).number for came in (410 * GIB, 451 * GIB)]


def test_of_one_node_no_more_may_be_than_what_was_not_counted():
    """410 GiB of 430 GiB, all counted; and with 23 calls that are in no byte counter."""
    def nodes(**more):
        return record([llite(write_bytes=410 * GIB, write_calls=37, **more), osc()],
                      [llite(write_bytes=20 * GIB, write_calls=37), osc()],
                      *[[llite(open=1), osc()]] * 2)
    assert ["nid00001 wrote 95 % of all that 4 nodes did, 410.0 GiB",
            "nid00001 wrote >= 95 % of all that 4 nodes did, >= 410.0 GiB"] == [
                only(found).number for found in (nodes(), nodes(
                    uncounted_write_calls=23, uncounted_write_bytes=23 * 4095))]


def test_what_the_nodes_do_by_themselves_may_be_of_any_ost():
    """10 GiB and 1 GiB written, of which up to 1 GiB was no job's."""
    found = record([llite(write_bytes=11 * GIB, write_calls=37),
                    osc("OST0000", write_bytes=10 * GIB), osc("OST0001", write_bytes=GIB)],
                   elapsed_s=100.0)
    assert "91 % of 11.0 GiB went through OST0000, 1 of 2 OSTs" == only(found).number
    found.file_systems[0]["idle"] = {"nodes": 1, "seconds": 600.0, "expected": {
        "write_bytes": GIB}}
    assert ">= 90 % of >= 9.0 GiB went through OST0000, 1 of 2 OSTs" == only(found).number


def test_parts_of_times_that_are_too_low_are_no_bounds():
    """A node's counters were cleared: the rest may have been in any call; nor is a mean known."""
    found = both(llite(lower_bound=True, read_bytes=GIB, read_calls=1024, read=1024,
                       read_us=300_000_000, flock=1000, flock_us=200_000_000))
    assert [">= 2,000 locks and unlocks of files (flock, fcntl), >= 20 % of the nodes' time",
            ">= 50 % of the nodes' time was spent in Lustre, ~ 60 % of it in read and ~ 40 % of it "
            "in flock"] == sorted(one.number for one in find_problems(found, configured()))


def test_a_rate_of_counters_that_were_cleared_may_be_more():
    found = record([Delta("md_stats", "scratch", "MDT0000", "ff9a", {"getattr": 1_000_000}, True,
                          "")])
    assert "nid00001 asked MDT0000 >= 1,000 times a second on average" == only(found).number


def test_a_missing_node_leaves_no_mean_and_no_share():
    """Of what 2 of 3 nodes did a mean is no bound: the third may have written 100 GiB in one."""
    values = llite(write_bytes=5000 * 32768, write_calls=5000, write=5000, write_us=HALF_S)
    assert [] == ids(record([values], [values], expected=3))
    assert "No problems found. Checked: writes, reads, opens, stat, removals, locks, nodes, time " \
           "(some numbers are too low to tell)." == list_checks(
               record([values, llite(flock=1, flock_us=1)], [values], expected=3), configured())


def test_the_rate_of_one_node_is_sure_with_others_missing():
    """It was 1,000 a second there, whatever the others did."""
    found = record([md_stats("MDT0000", getattr=1_000_000)], expected=3)
    assert ["metadata_storm"] == ids(found)


def test_shared_nodes_are_not_this_jobs():
    """
    Another job on the only node; or on one of two, where it can have done all that was done there.

    15,000 writes are of 21 KiB on average; if 5,000 of these are the other's, 10,000 may be of 32
    KiB and 3 B.
    """
    values = llite(write_bytes=5000 * 65536, write_calls=5000)
    fast = configured(untimed_per_second=1)
    alone, shared = (of_node("nid00001", [values], elapsed_s=1000.0, other_jobs=others)
                     for others in (0, 1))

    def of(*reports):
        totals = Totals("4711", len(reports))
        for one in reports:
            totals.add(one)
        return totals.record()
    assert [] == find_problems(of(shared), fast)
    assert "No findings: the numbers include other jobs on the same nodes." == list_checks(
        of(shared), fast)
    other = of_node("nid00002", [llite(write_bytes=10_000 * 3, write_calls=10_000)],
                    elapsed_s=1000.0)
    assert ["small_writes"] == [one.id for one in find_problems(of(alone, other), fast)]
    assert [] == find_problems(of(shared, other), fast), "these 5,000 may be the other job's"


def test_what_could_not_be_read_is_not_judged():
    """An ordinary user's report."""
    found = record([unread("llite"), unread("osc", target="OST0000"), md_stats("MDT0000", close=3)])
    assert ([], "No findings: too little is known to judge.") == (
        find_problems(found, configured()), list_checks(found, configured()))


# -- a site's choices ----------------------------------------------------------------------------

def test_a_rule_is_switched_off():
    """By its name."""
    assert [] == ids(writes(), off="small_writes")


@pytest.mark.parametrize("own, advice, link", [
    ("Ask us. https://hpc/io", "Ask us.", "https://hpc/io"),
    ("Ask us.", "Ask us.", "docs/reference/findings.md#small-writes"),
    ("https://hpc/io", "Write at least 1 MiB per call: use a larger buffer or collective MPI-IO.",
     "https://hpc/io"),
])
def test_a_sites_own_words(own, advice, link):
    """A text, a link, or both."""
    one = only(writes(), text_small_writes=own)
    assert (advice, link) == (one.advice, one.link)


@pytest.mark.parametrize("text, mistake", [
    ("[findings]\noff = cache_served small_write\n", "[findings] off: expected one of the rules "),
    ("[finding_text]\nsmall_write = Ask us.\n", "[finding_text] small_write: expected one of the "),
])
def test_a_rule_that_there_is_not_is_told_by_the_check(tmp_path, capsys, text, mistake):
    """With its line, and the names that there are; a report goes on without it."""
    path = tmp_path / "site.cfg"
    path.write_text(text)
    assert 2 == config_command.main(["--check", "--config", str(path)])
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert err.startswith(f"iostats: {path}:2: {mistake}")
    assert err.endswith("cache_served, got 'small_write'\n")


@pytest.mark.parametrize("address, link", [
    ("", "docs/reference/findings.md#small-writes"),
    ("https://hpc.example.org/io", "https://hpc.example.org/io/docs/reference/findings#small-writes"),
    ("https://hpc.example.org/io/", "https://hpc.example.org/io/docs/reference/findings#small-writes"),
    ("/", "/docs/reference/findings#small-writes")])
def test_a_finding_links_to_the_pages_where_there_are_some(address, link):
    config = configured()
    config.set_value("web.address", address, "the test")
    assert link == find_problems(writes(), config)[0].link


@pytest.mark.parametrize("address, line", [
    ("", []), ("https://hpc.example.org", [
        "Page: https://hpc.example.org/job/4711%5B3%5D.pbs01?cluster=c1&run=2"])])
def test_a_report_ends_with_the_address_of_the_jobs_page(address, line):
    """At a site with pages, of a job that these have."""
    config = configured()
    config.set_value("web.address", address, "the test")
    found = job_tables.add_labels(writes(), config).replaced(
        batch=batch(raw_job="4711[3].pbs01", cluster="c1"))
    found["job"].update(attempt=2)
    printed = job_tables.format_report(found, config, has_page=True)
    assert line == [one for one in printed.splitlines()[-1:] if one.startswith("Page: ")]
    assert "Page: " not in job_tables.format_report(found, config)


@pytest.mark.parametrize("found, line", [
    (record([llite(read_bytes=GIB)], elapsed_s=59.9),
     "No findings: the job was too short to judge (less than 60 s)."),
    (record([llite(read_bytes=100 * MIB - 1, open=9999)]),
     "No findings: too little I/O to judge."),
    (record([llite(read_bytes=100 * MIB, open=1)]),
     "No problems found. Checked: writes, reads, opens, stat, removals."),
    (record([llite(read_bytes=100 * MIB, open=1), osc()]),
     "No problems found. Checked: writes, reads, requests, opens, stat, removals, read-ahead, page "
     "cache."),
    (record([]), ""),
], ids=["short", "small", "enough", "with the network", "no Lustre"])
def test_what_was_looked_at(found, line):
    """Where there are none."""
    assert line == list_checks(found, configured())


# -- as people and programs see them --------------------------------------------------------------

def test_the_block_of_a_report_is_80_columns_wide():
    """At most as many as [findings] most, below the tables, numbered."""
    found = both(llite(write_bytes=5000 * 37, write_calls=5000, write=5000, write_us=820_000_000,
                       getattr=5000, getattr_us=HALF_S))
    config = configured(most=1)
    config.labels["scratch"] = "BW Home"
    printed = job_tables.format_report(job_tables.add_labels(found, config), config)
    assert """\
Small writes probably slowed this job (confidence: medium).
Findings:
 1. BW Home: 10,000 writes of 37 bytes on average, 82 % of the nodes' time.
    Every call pays for a system call and a lock, even if it moves only a few
    bytes. Write at least 1 MiB per call: use a larger buffer or collective
    MPI-IO.  docs/reference/findings.md#small-writes
""" == printed[printed.index("Small writes"):]
    assert 80 >= max(map(len, printed.split("\n")))
    assert "Findings" not in job_tables.format_report(
        job_tables.add_labels(found, config), configured(most=0))


def test_findings_are_in_json():
    """All of them, and null in what is stored."""
    config = configured(most=1)
    found = job_tables.add_labels(both(llite(
        write_bytes=5000 * 37, write_calls=5000, write=5000, write_us=820_000_000, getattr=5000,
        getattr_us=HALF_S)), config)
    assert found.findings is None
    printed = Record.of(json.loads(job_tables.format_report(found, config, "json")))
    assert ["small_writes", "stat_storm"] == [one.id for one in printed.findings]
    assert 37.0 == printed.findings[0].evidence["mean_bytes"]


@pytest.mark.parametrize("address, shown", [
    ("https://hpc.example.org", "[https://hpc.example.org/docs/reference/findings#small-writes]"
                                "(https://hpc.example.org/docs/reference/findings#small-writes)"),
    ("/io", "/io/docs/reference/findings#small-writes"),
    ("", "docs/reference/findings.md#small-writes")])
def test_only_an_address_of_the_web_is_a_link_in_markdown(address, shown):
    """A ticket or a wiki would take a path for one of its own pages."""
    config = configured(most=1)
    config.set_value("web.address", address, "the test")
    printed = job_tables.format_report(job_tables.add_labels(both(llite(
        write_bytes=5000 * 37, write_calls=5000, write=5000, write_us=820_000_000)), config),
        config, "markdown")
    assert printed.rstrip().endswith(f"collective MPI-IO. {shown}")


def test_names_in_findings_are_harmless():
    """A node's name moves no cursor, and is no HTML and no link in Markdown."""
    evil = "nid\x1b[2J<img src=x>[a](http://b)"
    totals = Totals("4711", 1)
    totals.add(of_node(evil, [md_stats("MDT0000", getattr=1_000_000)], elapsed_s=1000.0))
    config = configured()
    for form in ("grid", "plain", "markdown"):
        printed = job_tables.format_report(job_tables.add_labels(totals.record(), config), config,
                                           form)
        assert "asked MDT0000" in printed and "\x1b" not in printed
        if form == "markdown":
            assert "<img" not in printed.replace("\\<img", "")
            assert "](http" not in printed.replace("\\](http", "")


def test_names_of_kilobytes_leave_findings_as_short_as_others():
    """Of a file system, a node and an MDT; 64 columns of each."""
    long = "x" * 4096
    totals = Totals("4711", 1)
    totals.add(of_node(long, [Delta("md_stats", long, f"MDT{long}", "ff9a", {"getattr": 1_000_000},
                                    False, "")], elapsed_s=1000.0))
    config = configured()
    printed = job_tables.format_report(job_tables.add_labels(totals.record(), config), config)
    found = printed[printed.index("Findings:"):].split("#metadata-storm")[0]
    assert f" 1. {'x' * 63}+:\n" in found and 10 > found.count("\n")


# -- what others than the nodes have counted ------------------------------------------------------

def at_servers(final=True, low=False, elapsed_s=1000.0, **more):
    """A job of 1,000 s that no node has reported, by job_stats."""
    fs = {"name": "scratch", "label": "scratch", "read_bytes": 0, "write_bytes": 0, "read_rpcs": 0,
          "write_rpcs": 0, "read_seconds": None, "write_seconds": None, "operations": {},
          "targets": {"MDT0000": {}}, "lower_bound": low, "notes": [], **more}
    harvest = {"final": final, "ids": ["4711"], "began": 1000.0, "ended": 2000.0,
               "file_systems": [fs], "notes": [], "lower_bound": low}
    found = Totals("4711", 2).record().replaced(harvest=harvest)
    found["job"]["elapsed_s"] = elapsed_s
    return found


def of_calls(**counts):
    return {name: {"count": count, "seconds": None} for name, count in counts.items()}


@pytest.mark.parametrize("rule, number, at, below", [
    ("small_requests",
     "100,000 write requests of 64.0 KiB on average came to the storage servers, 100 a second",
     {"write_bytes": 100_000 * 65536, "write_rpcs": 100_000}, {"write_bytes": 100_000 * 65536 + 1}),
    ("slow_servers", "10,000 read requests took 100 ms each at the storage servers",
     {"read_bytes": 10_000 * MIB, "read_rpcs": 10_000, "read_seconds": 1000.0},
     {"read_seconds": 999.9}),
    ("one_ost", "80 % of 5.0 GiB went through OST0001, 1 of 2 OSTs",
     {"elapsed_s": 80.0, "targets": {"OST0000": {"read_bytes": GIB}, "OST0001": {
         "write_bytes": 3 * GIB, "read_bytes": GIB}}},
     {"targets": {"OST0000": {"read_bytes": GIB + 1}, "OST0001": {
         "write_bytes": 3 * GIB, "read_bytes": GIB}}}),
    ("metadata_storm",
     "MDT0000 was asked 5,000,000 times, 5,000 a second, on average 2,500 by each node",
     {"targets": {"MDT0000": {"getattr": 5_000_000, "getattr_us": 37}}},
     {"targets": {"MDT0000": {"getattr": 4_999_999}}}),
    ("unlink_storm", "200,000 files and directories removed, 200 a second",
     {"operations": of_calls(unlink=199_000, rmdir=1000)},
     {"operations": of_calls(unlink=199_999)}),
])
def test_of_a_job_that_the_storage_servers_alone_have_seen(rule, number, at, below):
    """By job_stats, which tell of one job alone, on whatever nodes."""
    bytes_of = {"read_bytes": GIB}                          # enough to be judged
    one = only(at_servers(**{**bytes_of, **at}))
    assert (rule, number) == (one.id, one.number)
    assert [] == ids(at_servers(**{**bytes_of, **at, **below}))


def test_small_files_are_no_fault_of_what_gathers_requests_at_the_storage_servers_either():
    """50,000 opens for 100,000 requests of 4 KiB; and one less."""
    small = {"write_bytes": 100_000 * 4096, "write_rpcs": 100_000}
    assert [[], ["small_requests"]] == [ids(at_servers(**small, operations=of_calls(
        open=opens))) for opens in (50_000, 49_999)]


def test_storage_servers_have_seen_no_calls_of_programs():
    """Nor their page cache; and of stat() what came to them."""
    assert "No problems found. Checked: requests, opens, MDTs, stat, removals." == list_checks(
        at_servers(write_bytes=GIB, write_rpcs=1024), configured())
    assert "200,000 requests for stat(), 200 a second" == only(at_servers(
        operations=of_calls(getattr=200_000))).number


def test_storage_servers_that_may_have_missed_something_tell_no_mean_and_no_share():
    """As long as the job is not settled, or where a sweep is missing; a count is a count."""
    small = {"write_bytes": 100_000 * 37, "write_rpcs": 100_000}
    storm = {"operations": of_calls(unlink=200_000)}
    assert [["small_requests"], [], [], []] == [ids(at_servers(**small, **how)) for how in (
        {}, {"final": False}, {"low": True}, {"elapsed_s": None})]
    assert "unlink_storm" == only(at_servers(low=True, **storm)).id
    assert ">= 200,000 files and directories removed, >= 200 a second" == only(
        at_servers(low=True, **storm)).number


def test_where_nodes_are_shared_the_storage_servers_are_asked():
    """They count by job, so 100,000 small requests are this job's own."""
    totals = Totals("4711", 1)
    totals.add(of_node("nid00001", [llite(write_bytes=GIB, write_calls=1024)], elapsed_s=1000.0,
                       other_jobs=1))
    harvest = at_servers(write_bytes=100_000 * 37, write_rpcs=100_000).harvest
    assert [[], ["small_requests"]] == [
        ids(totals.record()), ids(totals.record().replaced(harvest=harvest))]


def test_the_nodes_are_believed_first_but_for_the_times_of_servers():
    """Whose mean time of a request no node knows; the rest is told once."""
    harvest = at_servers(write_bytes=100_000 * 37, write_rpcs=100_000, write_seconds=10_000.0,
                         operations=of_calls(unlink=200_000)).harvest
    found = record([llite(write_bytes=GIB, write_calls=1024)]).replaced(harvest=harvest)
    assert ["slow_servers"] == ids(found)


def test_of_bounds_by_nodes_exports_the_worse_one_counts():
    """Between 100,000 requests of 3 MiB in all, and up to 6.2 GiB; then of unknown size."""
    low = {"read_bytes": 0, "write_bytes": 3 * MIB, "reads": 0, "writes": 100_000,
           "ost_operations": 0, "mdt_operations": 0}

    def of(high):
        found = Totals("4711", 2).record().replaced(by_node={
            "why_none": "", "alone": "listed", "began": 0.0, "ended": 1000.0,
            "clocks_within_s": None, "unknown_nodes": "", "nodes_used_before": "", "notes": [],
            "file_systems": [{"name": "scratch", "label": "scratch", "low": low, "high": high,
                              "later_write_bytes": None, "lower_bound": high is None,
                              "notes": []}]})
        found["job"]["elapsed_s"] = 1000.0
        return found
    most = {**low, "write_bytes": 100_000 * 65536, "writes": 101_000}
    assert [["small_requests"], [], []] == [
        ids(of(high)) for high in (most, {**most, "write_bytes": 100_000 * 65536 + 1}, None)]


def test_a_record_from_the_accounting_has_fewer_rules():
    """No times, no targets; calls and bytes, at 400 a second on each node."""
    short = comment_reader.make_record(comment_reader.decode(accounting_comment.encode(
        both(llite(write_bytes=4_100_000, write_calls=400_000, open=37)))))
    assert ["small_writes"] == ids(short)
    assert "No problems found. Checked: reads, opens, stat, removals." == list_checks(
        short, configured(off="small_writes"))


def test_what_the_nodes_do_by_themselves_is_no_finding():
    """A health checker's stat() calls, as measured between jobs: 100,000 in the job's 1,000 s."""
    def stats(count, idle):
        found = record([llite(getattr=count, getattr_us=count * 1000)])
        [fs] = found.file_systems
        fs["idle"] = {"nodes": 1, "seconds": 600.0, "expected": {"getattr": idle}}
        return found
    assert [["stat_storm"], []] == [ids(stats(100_000, idle)) for idle in (0, 100_000)]
    assert ">= 100,000 calls of stat(), >= 100 a second, >= 10 % of the nodes' time" == only(
        stats(200_000, 100_000)).number
