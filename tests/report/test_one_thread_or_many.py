"""
One thread of each node that waits all the time, or all of its tasks that wait a little: the
kernel's sums are the same.  What is reported of either, and how much of it is certain.

All jobs take an hour.
"""

import pytest
from page_records import batch
from test_job_totals import llite, osc
from test_planted_faults import GIB, MIB, Work, job
from test_planted_patterns import of_deltas

from iostats.base.config import Config
from iostats.report.why.cause import LOW, MEDIUM, SLOW_NODE
from iostats.report.why.causes import judge_record
from iostats.totals.delta import Delta
from iostats.wire.messages.report import ReportedSeries

HOUR = 3600.0
TASKS = {"tasks": 4 * 128, "cpus": 4 * 128}


def ids(record):
    """Of its findings, and of the causes that `iostats why` reports."""
    judged = judge_record(record, Config())
    return ([one.id for one in judged.findings],
            [one.about.get("finding", one.kind) for one in judged.causes
             if one.kind != "unknown"])


def first_of(works, **facts):
    judged = judge_record(job(works, HOUR, **facts), Config())
    return judged.findings[0], judged.causes[0]


# -- calls that not all tasks make -----------------------------------------------------------------

@pytest.mark.parametrize("calls, fault", [
    ({"fsync": 37_000, "us": 36_000}, "fsync"), ({"flock": 37_000, "us": 36_000}, "flock"),
    ({"page_fault": 1_332_000, "us": 1_000}, "mapped_files"),
    ({"seek": 1_332_000, "us": 1_000}, "other_calls")], ids=str)
def test_what_may_be_one_thread_of_each_node_is_reported_as_uncertain(calls, fault):
    """37 % of the hour on each node: 1,332 of 3,600 s, and 0.3 % of the time of 128 tasks."""
    finding, cause = first_of([Work().calls(**calls)] * 4, **TASKS)
    assert (fault, False) == (finding.id, finding.is_certain)
    assert finding.number.endswith(", 0.3 % of the time of 512 tasks, or 37 % of the run time if "
                                   "one thread of each node made them all")
    assert (fault, LOW) == (cause.about["finding"], cause.confidence)


def test_several_threads_of_each_node():
    """8,280 of 3,600 s: 2.3 threads at least, and 1.8 % of the time of 128."""
    finding, cause = first_of([Work().calls(fsync=230_000, us=36_000)] * 4, **TASKS)
    assert finding.number.endswith(", 1.8 % of the time of 512 tasks, or all of the run time if 3 "
                                   "threads of each node made them all")
    assert LOW == cause.confidence


def test_more_than_a_little_of_all_tasks_is_certain():
    """5.0 % of the time of 128 tasks: 23,040 s."""
    finding, cause = first_of([Work().calls(fsync=640_000, us=36_000)] * 4, **TASKS)
    assert finding.is_certain and finding.number.endswith(", 5.0 % of the time of 512 tasks")
    assert MEDIUM == cause.confidence


def test_a_fifth_of_the_run_time_is_enough_for_one_thread():
    """720 of 3,600 s; and 1 us less for each call."""
    assert [["fsync"], []] == [ids(job([Work().calls(fsync=20_000, us=us)] * 4, HOUR, **TASKS))[0]
                               for us in (36_000, 35_999)]


@pytest.mark.parametrize("calls", [{"open": 1_000_000, "close": 1_000_000}, {"getattr": 2_000_000}],
                         ids=str)
def test_what_all_tasks_of_any_job_do_is_not_taken_for_one_thread(calls):
    """0.3 % of the time of 128 tasks; if their number is unknown, it may be one thread's 37 %."""
    works = [Work().calls(**calls, us=666)]
    assert ([], []) == ids(job(works, HOUR, tasks=128, cpus=128))
    [found], [cause] = ids(job(works, HOUR, cpus_of_node=128))
    assert found == cause in ("many_opens", "stat_storm")


# -- neither tasks nor CPUs are known: many threads may have done a little each --------------------

@pytest.mark.parametrize("calls, kind", [
    ({"getattr": 3_600_000}, "stat_storm"), ({"open": 360_000, "close": 360_000}, "many_opens")],
    ids=["stat", "open and close"])
def test_what_all_tasks_do_is_taken_for_four_threads_where_these_are_unknown(calls, kind):
    """3,600,000 calls of 190 us take 19 % of the hour: 4.75 % of four threads; of 200 us 5 %."""
    def found(part, cpus_of_node):
        us = part * 36_000_000 // sum(calls.values())
        return ids(job([Work().calls(**calls, us=us)], HOUR, cpus_of_node=cpus_of_node))
    assert ([], []) == found(19, 0)
    assert ([kind], [kind]) == found(20, 0) == found(19, 1)


@pytest.mark.parametrize("calls, kind", [
    ({"getattr": 2_048_000}, "stat_storm"), ({"open": 256_000, "close": 256_000}, "many_opens")],
    ids=["stat", "open and close"])
def test_what_all_threads_may_call_at_their_start_is_no_storm(calls, kind):
    """
    37 % of the hour of one thread: 256 threads, if it is unknown how many, may open 1,000 files
    each and make 8,000 calls of stat(); with one call more it is no start.
    """
    def found(more):
        count = {name: number + more for name, number in calls.items()}
        return ids(job([Work().calls(**count, us=1_332_000_000 // sum(calls.values()))], HOUR,
                       cpus_of_node=0))
    assert ([], []) == found(0)
    assert ([kind], [kind]) == found(1)


def test_opens_that_take_each_task_longer_than_a_start_may_be_of_one_thread():
    """
    24.8 % of 39,600 s are 102 s of each of 96 tasks, and 24 % are 99 s: all tasks of any job open
    files when they start, but not for so long.
    """
    def found(us):
        works = [Work().calls(open=10_000_000, close=10_000_000, us=us)]
        return ids(job(works, 39_600.0, tasks=96, cpus=96))
    assert ([], []) == found(475)
    assert (["many_opens"], ["many_opens"]) == found(490)


def test_untimed_calls_that_all_tasks_make_are_as_well_of_four_threads():
    """230 opens and closes a second are more than 400 requests, 190 are not."""
    def found(per_second, **facts):
        count = 3600 * per_second
        return untimed([Work().calls(open=count, close=count)], **facts)[0]
    assert [[], ["many_opens"]] == [found(per_second, cpus_of_node=0) for per_second in (190, 230)]
    assert ["many_opens"] == found(190, cpus_of_node=1)


def test_time_in_lustre_may_be_a_little_of_256_threads_where_their_number_is_unknown():
    """63 times the node's time is less than a quarter of it for each; 64 times is not."""
    def found(nodes_times, cpus_of_node):
        works = [Work().moves("write", 3600 * nodes_times * MIB, us=1_000_000)]
        return ids(job(works, HOUR, cpus_of_node=cpus_of_node))
    assert ([], []) == found(63, 0)
    assert ["time_in_lustre"] == found(64, 0)[0]
    assert ["time_in_lustre"] == found(1, 1)[0]


# -- an MDT that is busy, or slow ------------------------------------------------------------------

def stats(nodes, us, each_s=1332, **facts):
    """37 % of the hour of one thread, in stat() calls that take `us` each."""
    return ids(job([Work().calls(getattr=each_s * 1_000_000 // us, us=us)] * nodes, HOUR,
                   **facts))[0]


def test_requests_that_waited_for_each_other_are_of_many_threads():
    """
    41 ms: at 50,000 requests a second 2,000 threads wait, 87 of each of 23 nodes; and of 400 us
    none waits.
    """
    assert [[], ["stat_storm"]] == [stats(23, us, cpus_of_node=128) for us in (41_000, 400)]


def opens(nodes, us, **facts):
    return ids(job([Work().calls(open=1_332_000_000 // us, us=us)] * nodes, HOUR, **facts))


def test_a_slow_mdt_is_one_that_the_jobs_own_tasks_cannot_have_made_slow():
    """
    270 ms, 37 % of the hour of one thread of each node: 16 x 23 tasks at the same time would wait
    37 ms for an MDT that answers 10,000 a second, and 1,000 x 128 would wait 12.8 s.
    """
    few = {"tasks": 16 * 23, "cpus": 16 * 128}
    assert (["slow_metadata"], ["slow_metadata"]) == opens(16, 270_000, **few)
    assert ([], []) == opens(16, 36_000, **few)
    assert ([], []) == opens(1000, 270_000, tasks=128_000, cpus=128_000)


def test_locks_of_files_that_are_most_of_what_an_mdt_is_asked_are_what_to_change():
    """37,000 a second, which take 10 % of the time of each of 16 tasks."""
    works = [Work().calls(flock=33_300_000, us=173)] * 4
    assert (["flock"], ["flock"]) == ids(job(works, HOUR, tasks=64, cpus=64))


# -- releases that time nothing --------------------------------------------------------------------

def untimed(works, **facts):
    return ids(job(works, HOUR, is_timed=False, **facts))


def test_stat_calls_that_asked_no_mdt_are_no_storm():
    """1,400 a second on each node; of which MDTs were asked for 37 in all, or for each."""
    def counted(asked):
        return of_deltas(4, llite(getattr=5_040_000, open=37), Delta(
            "md_stats", "scratch", "MDT0000", "ff9a", {"getattr": asked}, False, ""))
    assert [[], ["stat_storm"]] == [ids(counted(asked))[0] for asked in (37, 5_040_000)]


@pytest.mark.parametrize("of_stat, expected", [(1, ["stat_storm"]), (0.9, [])])
def test_stat_calls_that_all_asked_an_mdt_count_like_any_request(of_stat, expected):
    """
    101 a second of each of 16 tasks, which MDTs were asked for, are enough; 91 are not.  Of 400
    that may be from memory a quarter counts.
    """
    stats = round(3600 * 4 * 101 * of_stat)
    record = of_deltas(4, llite(getattr=stats, open=37, close=37), Delta(
        "md_stats", "scratch", "MDT0000", "ff9a", {"getattr": stats + 4 * 37 * 6}, False, ""))
    record = record.replaced(batch=batch(tasks=16, cpus=64))
    assert expected == ids(record)[0]


@pytest.mark.parametrize("per_second, expected", [(5_000, ["small_writes"]), (4_999, [])])
def test_untimed_writes_of_one_thread_of_each_node(per_second, expected):
    """A write to memory takes up to 40 us: 5,000 a second are a fifth of the time of one of 128."""
    work = Work().moves("write", 3600 * per_second * 370, 370)
    assert expected == untimed([work] * 4, **TASKS)[0]
    assert expected == untimed([work], tasks=128, cpus=128)[0]


def test_removals_a_second_are_a_storm_whatever_time_they_took():
    """A fifth of 5,000 requests, as each is two that change the MDT, beside those to OSTs."""
    def found(count):
        return ids(job([Work().calls(unlink=count, us=700)] * 4, HOUR, **TASKS))[0]
    assert [["unlink_storm"], []] == [found(count) for count in (900_000, 899_999)]


def test_removals_by_one_thread_beside_its_stat_calls_are_uncertain():
    """37 % of the hour in unlink(): with stat(), which all tasks make, it would be none's alone."""
    works = [Work().calls(unlink=1_480_000, us=900).calls(getattr=1_480_000, us=100)] * 2
    finding, cause = first_of(works, tasks=256, cpus=256)
    assert ("unlink_storm", False, LOW) == (finding.id, finding.is_certain, cause.confidence)
    assert finding.number.endswith(", 0.3 % of the time of 256 tasks, or 37 % of the run time if "
                                   "one thread of each node made them all")


def test_one_node_that_opens_more_than_all_others_together():
    """230 opens and closes a second of one thread; all others hardly any."""
    works = [Work().calls(open=37, close=37) for _ in range(23)]
    works[4].calls(open=414_000, close=414_000)
    assert (["many_opens"], ["many_opens"]) == untimed(works, tasks=23 * 16, cpus=23 * 16)
    works[7].calls(open=414_000, close=414_000)
    assert ([], []) == untimed(works, tasks=23 * 16, cpus=23 * 16)


def test_one_node_that_moves_more_than_any_other_for_long():
    """
    1,640 GiB and 370 GiB by each of 22 others, 17 % of all: the difference takes 35 % of the hour
    at 1 GiB/s; 370 GiB more than the others' 370 GiB take 10 %.
    """
    def write(more):
        return untimed([Work().moves("write", (370 + more * (node == 4)) * GIB)
                        for node in range(23)])
    assert [(["one_node"], ["one_node"]), ([], [])] == [write(1270), write(370)]


@pytest.mark.parametrize("per_second, expected", [(200, ["small_requests"]), (199, [])])
def test_small_requests_of_one_thread_of_each_node(per_second, expected):
    """Each takes a millisecond and more: 200 a second are a fifth of the time of one of 128."""
    work = Work().moves("read", 3600 * per_second * 16_384, 16_384, rpc=16_384)
    assert expected == untimed([work] * 4, **TASKS)[0]


# -- requests that no call made --------------------------------------------------------------------

@pytest.mark.parametrize("pages, expected", [(770_000, ["small_requests"]), (760_000, [])])
def test_requests_for_a_page_that_are_more_than_all_pages_that_were_read(pages, expected):
    """
    37,000 reads of 1 MiB have 9,472,000 pages, and two more each: 9,546,000; and 25 times 770,000
    are twice that.  In 410 s they can have waited for 20,500,000.
    """
    works = [llite(read_bytes=37_000 * MIB, read_calls=37_000, read=37_000, read_us=410_000_000),
             osc(read_bytes=37_000 * MIB + 25 * pages * 4096, read_rpcs=25 * pages),
             Delta("rpc_stats", "scratch", "OST0000", "ff9a",
                   {"read_rpcs_pages_1": 25 * pages}, False, "")]
    assert (expected, expected) == tuple(
        [one for one in found if one != "not_in_lustre"]
        for found in ids(of_deltas(4, *works, elapsed_s=10 * HOUR)))


@pytest.mark.parametrize("pages, expected", [(2_049_999, []), (2_050_000, ["small_requests"])])
def test_requests_for_a_page_that_no_read_can_have_waited_for(pages, expected):
    """41 s of reads of 4 MiB; a request takes 20 us there and back: 2,050,000."""
    works = [llite(read_bytes=37_000 * 4 * MIB, read_calls=37_000, read=37_000, read_us=41_000_000),
             osc(read_bytes=37_000 * 4 * MIB, read_rpcs=pages + 2_300),
             Delta("rpc_stats", "scratch", "OST0000", "ff9a",
                   {"read_rpcs_pages_1": pages, "read_rpcs_pages_1024": 2_300}, False, "")]
    found, causes = ids(of_deltas(4, *works))
    assert expected == found and (causes == expected or not expected)


def test_reads_of_libaio_are_not_taken_for_reads_all_over_a_file():
    """37 GiB by read(), and 230 GiB in 60,293,120 requests for a page that no read() waited for."""
    works = [llite(read_bytes=37 * GIB, read_calls=37 * 1024, read=37 * 1024, read_us=370_000_000),
             osc(read_bytes=267 * GIB, read_rpcs=60_293_120 + 37 * 256),
             Delta("rpc_stats", "scratch", "OST0000", "ff9a",
                   {"read_rpcs_pages_1": 60_293_120, "read_rpcs_pages_1024": 37 * 256}, False, "")]
    assert (["small_requests"], ["small_requests"]) == ids(of_deltas(4, *works))


# -- what is true of any of them -------------------------------------------------------------------

def test_large_writes_of_a_task_that_may_have_threads_are_no_finding():
    """73 % of the hour of one task a node, or 0.6 % of the time of 128 threads; and of one CPU."""
    works = [Work().moves("write", 2628 * GIB)] * 4
    assert ([], []) == ids(job(works, HOUR, tasks=4, cpus=512))
    assert ["time_in_lustre"] == ids(job(works, HOUR, tasks=4, cpus=4))[0]


def test_polling_is_a_cause_whatever_its_calls_took():
    """25 stat() calls a second for 71 % of the time; they take 0.5 % of it."""
    series = {"scratch": ReportedSeries(1_795_176_000.0, 60.0, [0] * 60, [0] * 60,
                                        [1500] * 43 + [0] * 17)}
    record = of_deltas(4, llite(getattr=64_500, getattr_us=18_000_000))
    [scratch] = record.file_systems
    record = record.replaced(file_systems=[scratch.replaced(series=_of(series, 4))])
    judged = judge_record(record, Config())
    assert [("polling", None, LOW)] == [
        (one.about.get("finding"), one.cost, one.confidence) for one in judged.causes]
    assert ["polling"] == [one.id for one in judged.findings]
    assert SLOW_NODE not in {one.kind for one in judged.causes}


def _of(series, nodes):
    from iostats.totals.record import RecordSeries
    one = series["scratch"]
    return RecordSeries(nodes=nodes, began=one.began, every_s=one.every_s,
                        read_bytes=one.read_bytes, write_bytes=one.write_bytes,
                        operations=[nodes * number for number in one.operations])
