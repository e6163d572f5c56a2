"""
Findings about NFS and local disks: each at its thresholds and just below, planted jobs in which
they must be found, and healthy ones in which nothing must be.

Jobs of 2 nodes and 1,000 s, so 2,000 s of nodes' time, of which 20 % are 400 s.
"""

import random

import pytest
from page_records import batch
from planted_jobs import nfs as planted
from test_job_totals import llite
from trees import report as of_node

from iostats.base.config import Config
from iostats.report.findings.evaluate import find_problems
from iostats.report.why.causes import judge_record
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals

GIB, KIB = 1 << 30, 1 << 10
HOME = "nfs1:/home"
HALF_US = 200_000_000               # of each node: 400 s of both
LUSTRE = llite(read_bytes=0, open=1)


def of_nfs(**values):
    return Delta("nfs", HOME, "", "0:41", values, False, "", True)


def of_disks(source="diskstats", **values):
    return Delta(source, "local disks", "", "", values, False, "", True)


def both(*deltas, expected=2, shared=0):
    """A job of two nodes that have counted the same."""
    totals = Totals("4711", expected)
    for number in (1, 2):
        totals.add(of_node(f"nid{number:05}", deltas, elapsed_s=1000.0, other_jobs=shared))
    return totals.record()


def found_in(record):
    return find_problems(record, Config())


def ids(record):
    return [one.id for one in found_in(record)]


# -- at the thresholds ---------------------------------------------------------------------------

SMALL = {"READ": 5000, "network_read_bytes": 5000 * 65536, "read_us": HALF_US}
META = {"GETATTR": 4000, "LOOKUP": 1000, "metadata_us": HALF_US}
MUCH = {"WRITE": 2048, "network_write_bytes": 2 * GIB, "write_us": HALF_US}
RESENT = {"READ": 5000, "retransmissions": 50}


@pytest.mark.parametrize("values, rule, number", [
    (SMALL, "small_requests", "10,000 READ requests of 64.0 KiB on average, at most 20 % of "
     "the nodes' time"),
    (META, "metadata_requests", "10,000 requests for metadata, GETATTR mostly, 10.0 a second, at "
     "most 20 % of the nodes' time"),
    (MUCH, "work_on_nfs", "4.0 GiB were read and written over the network, on Lustre 0 bytes, at "
     "most 20 % of the nodes' time"),
    (RESENT, "resent_requests", "100 of 10,000 requests were sent again"),
    ({"READ": 5000, "timeouts": 1}, "resent_requests", "0 of 10,000 requests were sent again, "
     "and the server did not respond in time 2 times"),
    ({"GETATTR": 2_500_000}, "metadata_requests", "5,000,000 requests for metadata, GETATTR "
     "mostly, 5,000 a second"),
], ids=["small", "metadata", "work", "resent", "timed out", "storm"])
def test_a_finding_at_its_thresholds(values, rule, number):
    [one] = found_in(both(LUSTRE, of_nfs(**values)))
    assert (rule, HOME, number, False) == (one.id, one.file_system, one.number,
                                           rule != "resent_requests" and one.is_certain)


@pytest.mark.parametrize("values", [
    {**SMALL, "READ": 4999, "network_read_bytes": 4999 * 65536},
    {**SMALL, "network_read_bytes": 5000 * 65536 + 1}, {**SMALL, "read_us": HALF_US - 1},
    {**META, "LOOKUP": 999}, {**META, "metadata_us": HALF_US - 1},
    {**MUCH, "network_write_bytes": 2 * GIB - 1}, {**MUCH, "write_us": HALF_US - 1},
    {**RESENT, "retransmissions": 49}, {**RESENT, "READ": 5001},
    {"GETATTR": 999_999},
], ids=["fewer", "larger", "faster", "fewer metadata", "faster metadata", "less", "faster work",
        "fewer resent", "of more", "no storm of one node"])
def test_just_below_there_is_none(values):
    assert [] == found_in(both(LUSTRE, of_nfs(**values)))


def test_one_node_that_asks_a_fifth_of_a_storm():
    """1,000 a second from each of two nodes, which is the peak of one."""
    assert ["metadata_requests"] == ids(both(LUSTRE, of_nfs(GETATTR=1_000_000)))


@pytest.mark.parametrize("lustre, found", [
    (llite(write_bytes=2 * GIB, open=1), []), (llite(write_bytes=2 * GIB - 1, open=1),
                                               ["work_on_nfs"]), (None, [])],
    ids=["as much on Lustre", "less", "no Lustre"])
def test_work_on_nfs_is_by_what_lustre_got(lustre, found):
    deltas = [of_nfs(**MUCH), *([lustre] if lustre else [])]
    assert found == [one for one in ids(both(*deltas)) if one == "work_on_nfs"]


def test_tasks_make_it_less_important():
    """8 tasks a node: one of them may have waited all the time, or all of them an eighth."""
    record = both(LUSTRE, of_nfs(**SMALL))
    with_tasks = record.replaced(batch=batch(tasks=16, cpus=16))
    assert [0.1, 0.0125] == [found_in(one)[0].weight for one in (record, with_tasks)]


@pytest.mark.parametrize("marked", [dict(expected=3), dict(shared=1)],
                         ids=["a node is missing", "shared nodes"])
@pytest.mark.parametrize("values", [SMALL, RESENT], ids=["a mean", "a share"])
def test_what_may_be_wrong_makes_no_finding(values, marked):
    """Of a mean or a share nothing is known without a node, nor beside other jobs."""
    assert [] == found_in(both(LUSTRE, of_nfs(**values), **marked))


def test_a_lower_bound_of_a_count_is_enough():
    record = both(LUSTRE, of_nfs(**META), expected=3)
    [one] = found_in(record)
    assert ("metadata_requests", None) == (one.id, one.cost)
    assert one.number == ">= 10,000 requests for metadata, GETATTR mostly, >= 10.0 a second"


def test_small_requests_are_a_cause_beside_little_time_in_lustre():
    """400 s of 2,000 in requests of 400 bytes: an upper bound, so of low confidence."""
    values = {"READ": 500_000, "network_read_bytes": 200_000_000, "read_us": HALF_US}
    causes, findings = judge_record(both(llite(open=1, open_us=41), of_nfs(**values)), Config())
    assert ["small_requests"] == [one.id for one in findings]
    [cause] = [one for one in causes if one.kind == "own_pattern"]
    assert ("low", 0.4) == (cause.confidence, cause.cost)
    assert cause.text.startswith("Inefficient I/O pattern on nfs1:/home: 1,000,000 READ requests")


# -- local disks -----------------------------------------------------------------------------------

SLOW = {"sda_reads": 2300, "sda_writes": 7700, "sda_read_bytes": 37 << 20,
        "sda_write_bytes": 63 << 20, "sda_us": 200_000_000}


def test_a_slow_disk_by_the_whole_nodes_numbers():
    """20,000 requests in 400 s, 20 ms each, a fifth of 2,000 s."""
    [one] = found_in(both(LUSTRE, of_disks(**SLOW)))
    assert ("slow_local_disk", "20,000 requests for 200.0 MiB took 20.0 ms each, at most 20 % of "
            "the nodes' time", 0.4) == (one.id, one.number, one.cost)


@pytest.mark.parametrize("less", [
    {"sda_us": 199_999_999}, {"sda_write_bytes": 1 << 20}, {"sda_reads": 2301},
], ids=["less time", "few bytes", "shorter requests"])
def test_a_disk_just_below(less):
    assert [] == found_in(both(LUSTRE, of_disks(**{**SLOW, **less})))


@pytest.mark.parametrize("own, found", [(50 << 20, ["slow_local_disk"]), ((50 << 20) - 1, [])])
def test_half_of_the_bytes_are_the_jobs_own(own, found):
    """By its cgroup, also where other jobs are on the node."""
    record = both(LUSTRE, of_disks(**SLOW), of_disks("cgroup_io", sda_write_bytes=own), shared=1)
    assert found == [one for one in ids(record) if one == "slow_local_disk"]


def test_beside_other_jobs_the_nodes_disks_prove_nothing():
    assert [] == found_in(both(LUSTRE, of_disks(**SLOW), shared=1))


# -- planted jobs ----------------------------------------------------------------------------------

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("plant", planted.CAUSES, ids=lambda one: one.__name__)
def test_a_planted_job_is_found(plant, seed, tmp_path):
    job = planted.NfsJob(random.Random(f"{plant.__name__} {seed}"))
    plant(job)
    found = ids(job.record(tmp_path))
    assert planted.CAUSES[plant] in found, (job.nodes, job.ranks, job.elapsed_s, job.way_s)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("work", planted.HEALTHY, ids=lambda one: one.__name__)
def test_a_healthy_job_has_no_finding(work, seed, tmp_path):
    job = planted.NfsJob(random.Random(f"{work.__name__} {seed}"))
    work(job)
    assert [] == [one for one in ids(job.record(tmp_path)) if one != "time_in_lustre"]
