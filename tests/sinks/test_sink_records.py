"""
What finished jobs did on NFS and local disks, as points and as sums.
"""
import pytest
from page_records import batch
from test_job_totals import llite, totals
from trees import report

from iostats.sinks.influxdb.lines import format_finished_jobs
from iostats.sinks.prometheus.metrics_server import format_page
from iostats.sinks.prometheus.page import make_finished_families
from iostats.sinks.records import FinishedJobs, list_points


def job(number="4711", read=23, resent=5, lower_bound=False):
    deltas = [
        llite(read_bytes=1),
        llite("nfs1:/home", lower_bound, read_bytes=read, write_bytes=37, READ=41, GETATTR=43,
              retransmissions=resent)._replace(source="nfs", instance="0:41"),
        llite("local disks", sda_read_bytes=47, sdb_write_bytes=53)._replace(source="cgroup_io"),
        llite("local disks", sda_read_bytes=990)._replace(source="diskstats")]
    record = totals(report("nid1", deltas)).record()
    return record.replaced(job=record.job.replaced(id=number), batch=batch())


def test_a_finished_job_has_a_point_of_each_such_file_system():
    """At its end, without Lustre, and without what the disks did for others."""
    disks, home = format_finished_jobs([job()])
    tags = "cluster=c1,job=4711,user=alice,account=astro"
    assert disks == (f"job_io,{tags},fs=local\\ disks,kind=disk read_bytes=47i,write_bytes=53i,"
                     "lower_bound=0i,upper_bound=0i 1795225060000")
    assert home == (f"job_io,{tags},fs=nfs1:/home,kind=nfs read_bytes=23i,write_bytes=37i,"
                    "requests=84i,retransmissions=5i,timeouts=0i,lower_bound=0i,upper_bound=0i "
                    "1795225060000")


def test_a_number_that_may_be_too_low_is_marked():
    assert "lower_bound=1i" in format_finished_jobs([job(lower_bound=True)])[1]


def test_gpfs_has_its_bytes_and_what_may_be_too_high_is_marked():
    """O_DIRECT on NFS; GPFS counts no requests."""
    record = totals(report("nid1", [
        llite("site:home", read_bytes=61, write_bytes=67)._replace(source="gpfs"),
        llite("nfs1:/home", read_bytes=71, direct_read_bytes=71)._replace(
            source="nfs", instance="0:41")])).record()
    home, nfs = list_points(record.replaced(batch=batch()))[::-1]
    assert ("site:home", "gpfs", {"read_bytes": 61, "write_bytes": 67}, False, False) == home
    assert (False, True) == nfs[-2:]
    finished = FinishedJobs()
    finished.add([record, record])
    assert (61, 0, 1) == (finished.totals["site:home", "gpfs"]["read_bytes"],
                          *(finished.totals["nfs1:/home", "nfs"][name]
                            for name in ("too_low", "too_high")))


def test_cephfs_has_requests_and_no_bytes_of_programs():
    """59 and 61 to storage daemons, 67 to metadata servers; a read may have got less."""
    record = totals(report("nid1", [llite(
        "cephfs:28f7427e", network_read_bytes=41, network_write_bytes=43, network_reads=59,
        network_writes=61, metadata_requests=67)._replace(source="ceph", instance="client7"),
    ])).record()
    assert [("cephfs:28f7427e", "cephfs", {
        "read_bytes": 41, "write_bytes": 43, "requests": 187}, False, True)] == list_points(record)


def test_calls_of_gpfs_mark_no_bytes():
    record = totals(report("nid1", [llite("site:home", read_bytes=61, read_calls=7)._replace(
        source="gpfs")])).record()
    assert [("site:home", "gpfs", {"read_bytes": 61, "write_bytes": 0}, False, False)] == (
        list_points(record))


def test_a_record_that_is_made_again_counts_once():
    """What it has more, and nothing where it has less."""
    finished = FinishedJobs()
    finished.add([job()])
    finished.add([job(read=41), job("4713", read=100)])
    finished.add([job(read=30), job(read=42)])
    assert 142 == finished.totals["nfs1:/home", "nfs"]["read_bytes"]
    assert (74, 94) == (finished.totals["nfs1:/home", "nfs"]["write_bytes"],
                        finished.totals["local disks", "disk"]["read_bytes"])


def test_prometheus_has_the_sums_of_all_finished_jobs():
    pytest.importorskip("prometheus_client")
    finished = FinishedJobs()
    assert b"{" not in format_page(make_finished_families(finished))
    finished.add([job()])
    page = format_page(make_finished_families(finished)).decode()
    assert 'iostats_finished_jobs_requests_total{fs="nfs1:/home",kind="nfs"} 84.0' in page
    assert 'iostats_finished_jobs_write_bytes_total{fs="local disks",kind="disk"} 53.0' in page
    assert 'requests_total{fs="local disks"' not in page
