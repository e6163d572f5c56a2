"""
The time of requests to NFS servers, beside the time in Lustre.
"""
import pytest
from nfs_kernel import NfsClient
from trees import DATA, report, snapshot

from iostats.base.config import Config
from iostats.node import sources
from iostats.report import job_tables
from iostats.report.html.page import make_page
from iostats.report.screen import LOG
from iostats.report.why import answer as answers
from iostats.report.why.causes import judge_record
from iostats.report.why.time_in_nfs import compute_time_in_nfs
from iostats.totals import delta
from iostats.totals.delta import Delta
from iostats.totals.job_totals import Totals


@pytest.fixture
def client():
    return NfsClient()


def record_of(client, root, work, nodes=1, with_lustre=False, elapsed_s=60.0, more=()):
    """The record of a job that does `work` on NFS, on its first node; `more`: other Deltas."""
    start = client.snapshot(root, Config())
    client.now += 60
    work()
    deltas = delta.compute_deltas(start, client.snapshot(root, Config()),
                                  {"nfs": sources.list_sources()["nfs"]})
    if with_lustre:
        deltas += delta.compute_deltas(snapshot(DATA / "lustre-2.17" / "before"),
                                       snapshot(DATA / "lustre-2.17" / "after"),
                                       sources.read_at("start"))
    totals = Totals("4711", nodes)
    totals.add(report(deltas=[*deltas, *more], elapsed_s=elapsed_s))
    return job_tables.add_labels(totals.record(), Config())


def why(record):
    """The lines of `why` as one text."""
    answer = answers.make_answer(record, None, [], Config())
    return " ".join(" ".join(answers.format_answer(answer, LOG, {}, "iec")).split())


def test_the_time_of_all_requests_is_a_bound(client, tmp_path):
    """1.1 s of READ, 1.3 s of WRITE and 0.6 s of GETATTR: 3 s of 60, 5 %."""
    home, scratch = client.mount("nfs1:/home", "/home"), client.mount("nfs2:/s", "/s")

    def work():
        home.call("READ", 23, rtt_ms=900, execution_ms=1100)
        scratch.call("WRITE", 37, rtt_ms=900, execution_ms=1300)
        home.call("GETATTR", 41, rtt_ms=500, execution_ms=600)
    record = record_of(client, tmp_path, work)
    assert (["nfs1:/home", "nfs2:/s"], 3.0, 0.05) == compute_time_in_nfs(record)
    assert ("Requests to NFS (nfs1:/home and 1 more) took 3.0 s, at most 5.0 % of node time, "
            "without those that were not answered.") in why(record)
    form = answers.as_form(answers.make_answer(record, None, [], Config()))
    assert {"seconds": 3.0, "share_of_nodes": 0.05} == form["time_in_nfs"]


def test_without_nfs_nothing_is_said(client, tmp_path):
    """Lustre alone, as before."""
    record = record_of(client, tmp_path, lambda: None, with_lustre=True)
    assert compute_time_in_nfs(record) is None and "NFS" not in why(record)


@pytest.mark.parametrize("what", ["pnfs", "unmounted", "a node is missing"])
def test_where_requests_may_be_missing_the_time_is_unknown(client, tmp_path, what):
    """A lower bound of a time is no bound of what a job waited for."""
    block = client.mount("nfs1:/home", "/home")

    def work():
        block.call("READ", 23, execution_ms=1100)
        if what == "pnfs":
            block.events[26] += 1
        if what == "unmounted":
            client.unmount("/home")
    record = record_of(client, tmp_path, work, nodes=2 if what == "a node is missing" else 1)
    assert (["nfs1:/home"], None, None) == compute_time_in_nfs(record)
    assert ("Requests to NFS (nfs1:/home): their time is unknown, as some may be missing."
            in why(record))


def test_it_is_evidence_beside_little_time_in_lustre(client, tmp_path):
    """9.4 s of 600 in Lustre, 30 in NFS: where else the job may have waited."""
    block = client.mount("nfs1:/home", "/home")
    record = record_of(client, tmp_path, lambda: block.call("READ", 23, execution_ms=30_000),
                       with_lustre=True, elapsed_s=600.0)
    [cause] = answers.make_answer(record, None, [], Config()).causes
    assert ("not_in_lustre", "requests to NFS (nfs1:/home) took 30.0 s, at most 5.0 % of node "
            "time, without those that were not answered") == (cause.kind, cause.evidence[-1])


def disks(seconds, lower_bound=False):
    """What the node's disk did."""
    return Delta("diskstats", "local disks", "", "", {
        "sda_us": seconds * 1_000_000, "sda_reads": 23}, lower_bound, "", True)


def test_local_disks_have_a_sentence_where_they_took_time(client, tmp_path):
    """6 s of 600; 5 are less than 1 %, and a lower bound is no bound of what took time."""
    record = record_of(client, tmp_path, lambda: None, with_lustre=True, elapsed_s=600.0,
                       more=[disks(6)])
    assert ("Requests to local disks, of all processes of the nodes, took 6.0 s, at most 1.0 % of "
            "node time.") in why(record)
    form = answers.as_form(answers.make_answer(record, None, [], Config()))
    assert {"seconds": 6.0, "share_of_nodes": 0.01} == form["time_on_disks"]
    for one in (disks(5), disks(60, True)):
        record = record_of(client, tmp_path, lambda: None, with_lustre=True,
                           elapsed_s=600.0, more=[one])
        assert "Requests to local disks" not in why(record)


@pytest.mark.parametrize("of_nfs_ms, more, text", [
    (6_000, [disks(12)], "Its time was not in any file system that iostats can see: at most 1.6 % "
     "of node time in Lustre, 1.0 % in NFS and 2.0 % on local disks"),
    (0, [disks(12)], "Its time was not in any file system that iostats can see: at most 1.6 % of "
     "node time in Lustre and 2.0 % on local disks"),
    (60_000, [disks(12)], "Its calls to Lustre took at most 1.6 % of node time"),
    (6_000, [disks(60)], "Its calls to Lustre took at most 1.6 % of node time"),
    (6_000, [Delta("gpfs", "site:home", "", "", {"read_bytes": 23}, False, "")],
     "Its calls to Lustre took at most 1.6 % of node time"),
], ids=["all of them", "no NFS", "NFS", "disks", "GPFS is not timed"])
def test_a_job_that_waited_nowhere_is_described_by_what_can_be_seen(client, tmp_path, of_nfs_ms,
                                                                    more, text):
    """9.4 s of 600 in Lustre; what may have taken a tenth of the time is not excluded."""
    def work():
        if of_nfs_ms:
            client.mount("nfs1:/home", "/home").call("READ", 23, execution_ms=of_nfs_ms)
    record = record_of(client, tmp_path, work, with_lustre=True, elapsed_s=600.0, more=more)
    [cause] = [cause for cause in answers.make_answer(record, None, [], Config()).causes
               if cause.kind == "not_in_lustre"]
    assert text == cause.text


def test_each_view_of_such_a_job_names_all_that_iostats_can_see(client, tmp_path):
    """NFS took 1.0 % and disks 2.0 %: in text, on the page and as JSON; without them, Lustre."""
    record = record_of(client, tmp_path, lambda: client.mount("nfs1:/home", "/home").call(
        "READ", 23, execution_ms=6_000), with_lustre=True, elapsed_s=600.0, more=[disks(12)])
    headline = "No file system that iostats can see was the bottleneck"
    shares = "at most 1.6 % of node time in Lustre, 1.0 % in NFS and 2.0 % on local disks"
    labelled = job_tables.add_labels(record, Config())
    assert f"{headline}: {shares} (confidence: high)." in " ".join(
        job_tables.format_report(labelled, Config()).split())
    causes, findings = judge_record(record, Config())
    assert headline in make_page(labelled, Config(), findings, causes)
    form = answers.as_form(answers.make_answer(record, None, [], Config()))
    assert headline == form["main_cause"]["headline"]
    alone = record_of(NfsClient(), tmp_path / "alone", lambda: None, with_lustre=True,
                      elapsed_s=600.0)
    form = answers.as_form(answers.make_answer(alone, None, [], Config()))
    assert "Lustre was not the bottleneck" == form["main_cause"]["headline"]
