"""
Findings that hold for any file system whose counters have what a rule needs: GPFS (calls of
programs, in 32 bits, and not timed) and CephFS (requests, and not timed), and NFS by node.

Jobs of 1,000 s; with one task of each node where starts of programs matter.
"""
import pytest
from page_records import batch
from test_job_totals import llite
from trees import report as of_node

from iostats.base.config import Config
from iostats.report.findings.evaluate import find_problems, list_checks
from iostats.report.why.causes import judge_record
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals

GIB, KIB = 1 << 30, 1 << 10
PROJECTS, CLUSTER, HOME = "site:projects", "cephfs:28f7427e", "nfs1:/home"
NAMES = {"gpfs": PROJECTS, "ceph": CLUSTER, "nfs": HOME}


def of(source, **values):
    return Delta(source, NAMES[source], "", "client7" if source == "ceph" else "", values, False,
                 "")


def job(*nodes, expected=None, shared=0):
    """A job whose nodes have counted these Deltas each."""
    totals = Totals("4711", expected or len(nodes))
    for number, deltas in enumerate(nodes, 1):
        totals.add(of_node(f"nid{number:05}", deltas, elapsed_s=1000.0, other_jobs=shared))
    return totals.record().replaced(batch=batch(tasks=len(nodes), cpus=len(nodes)))


def found_in(record):
    return find_problems(record, Config())


SMALL = {"write_calls": 400_000, "write_bytes": 400_000 * 32 * KIB}
OPENS = {"open": 50_000, "close": 50_000, "read_bytes": 50_000 * 100 * KIB}
REQUESTS = {"network_writes": 100_000, "network_write_bytes": 100_000 * 64 * KIB}


@pytest.mark.parametrize("source, values, rule, number", [
    ("gpfs", SMALL, "small_writes", ">= 800,000 writes of up to 32.0 KiB on average"),
    ("gpfs", {"read_calls": 400_000, "read_bytes": 400_000 * 23}, "small_reads",
     ">= 800,000 reads of up to 23 bytes on average"),
    ("gpfs", OPENS, "many_opens", ">= 100,000 opens for up to 100.0 KiB read and written each"),
    ("ceph", REQUESTS, "small_requests", "200,000 write requests of 64.0 KiB on average"),
    ("ceph", {"network_reads": 100_000, "network_read_bytes": 100_000 * 23}, "small_requests",
     "200,000 read requests of up to 23 bytes on average"),
    ("ceph", {"metadata_requests": 1_000_000}, "metadata_requests",
     "2,000,000 requests for metadata, 2,000 a second"),
], ids=["writes", "reads", "opens", "requests", "reads of what may not be there", "storm"])
def test_a_finding_at_its_thresholds(source, values, rule, number):
    [one] = found_in(job(*[[of(source, **values)]] * 2))
    assert (rule, NAMES[source], number, source, None) == (
        one.id, one.file_system, one.number, one.kind, one.cost)
    assert one.is_elsewhere


@pytest.mark.parametrize("source, values", [
    ("gpfs", {**SMALL, "write_calls": 399_999}), ("gpfs", {**SMALL, "write_bytes": 400_000 << 16}),
    ("gpfs", {**OPENS, "open": 49_999}), ("gpfs", {**OPENS, "read_bytes": 50_000 << 21}),
    ("ceph", {**REQUESTS, "network_writes": 99_999}),
    ("ceph", {**REQUESTS, "network_write_bytes": 100_000 * 64 * KIB + 1}),
    ("ceph", {"metadata_requests": 999_999}),
], ids=["fewer writes", "larger writes", "fewer opens", "larger files", "fewer requests",
        "larger requests", "no storm"])
def test_just_below_there_is_none(source, values):
    assert [] == found_in(job(*[[of(source, **values)]] * 2))


@pytest.mark.parametrize("source, metric, more", [
    ("gpfs", "write_bytes", {}), ("ceph", "network_write_bytes", {}),
    ("nfs", "write_bytes", {"network_write_bytes": 1}),
])
@pytest.mark.parametrize("most, found", [(150 * GIB, ["one_node"]), (150 * GIB - 1, [])])
def test_one_of_four_nodes_writes_most(source, metric, more, most, found):
    """60 % of all, and 15 % of 1,000 s at 1 GiB/s."""
    record = job(*[[of(source, **{**dict.fromkeys(more, amount), metric: amount})]
                   for amount in (most, 33 * GIB, 33 * GIB, 33 * GIB)])
    findings = found_in(record)
    assert found == [one.id for one in findings]
    assert all("nid00001 wrote 60 % of all that 4 nodes did, 150.0 GiB" == one.number
               for one in findings)


def test_what_reads_of_cephfs_asked_for_shows_no_single_node():
    """There may have been less: in holes, and behind the ends of files."""
    assert [] == found_in(job(*[[of("ceph", network_read_bytes=amount * GIB)]
                                for amount in (150, 1, 1, 1)]))


@pytest.mark.parametrize("source, values", [("gpfs", SMALL), ("ceph", REQUESTS)])
@pytest.mark.parametrize("marked", [dict(shared=1), dict(expected=3)],
                         ids=["other jobs", "a node is missing"])
def test_what_may_be_of_others_or_larger_makes_no_finding(source, values, marked):
    """A node that is missing may have written a GiB in one call: the mean is unknown."""
    assert [] == found_in(job(*[[of(source, **values)]] * 2, **marked))


def test_a_rule_about_lustre_alone_holds_for_no_other_file_system():
    """GPFS' bytes in no time would be served from memory, by the rule of Lustre's page cache."""
    assert [] == found_in(job([of("gpfs", read_bytes=23 * GIB, read_calls=23 << 10)]))


def test_a_finding_elsewhere_remains_where_the_time_was_not_in_lustre():
    """Lustre took 41 us of the job; small writes on GPFS are what is left to name."""
    record = job(*[[llite(open=1, open_us=41), of("gpfs", **SMALL)]] * 2)
    causes, findings = judge_record(record, Config())
    assert ["small_writes"] == [one.id for one in findings]
    assert any(one.text.startswith(f"Inefficient I/O pattern on {PROJECTS}: >= 800,000 writes")
               for one in causes), causes


def test_a_list_of_checks_names_what_gpfs_can_be_checked_for():
    record = job([of("gpfs", read_bytes=23 * GIB, read_calls=23 << 10)])
    assert "No problems found. Checked: reads." == list_checks(record, Config())
