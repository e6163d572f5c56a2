"""
The record of a job: of all reports that its nodes have sent, with what the batch system says of it.

Reports are small, and their numbers tell which of them are in a sum.
"""
from __future__ import annotations

from processes import new_job, until
from site_desk import SLURM, a_report, reads, slurm_job, squeue

from iostats.base.job_facts import ENDED, Facts
from iostats.report import job_tables

# -- which reports are in it ----------------------------------------------------------------------

def test_jobs_that_settle_together_share_a_commit(inside):
    """The batch system knows 4713, of which no node has reported; nothing is known of 4711."""
    commits = []
    inside.store.connection.set_trace_callback(
        lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    inside.server.on_settled({"4711": None, "4713": Facts(
        job="4713", user="alice", nodes="nid[1-3,7]", state=ENDED, outcome="COMPLETED")})
    assert ["COMMIT"] == commits
    inside.make_records()
    [one], [other] = inside.records("4711"), inside.records("4713")
    assert (None, 0) == (one["coverage"]["expected"], one["coverage"]["reported"])
    assert (4, 0, 4) == (other["coverage"]["expected"], other["coverage"]["reported"],
                         other["coverage"]["missing_count"])


def test_nodes_that_have_not_reported_are_named_after_the_deadline(desk):
    """A late report makes another record."""
    desk.configure(site_deadline="0.2")
    desk.site()
    about = {"nodes": "nid[00001-00003,00007]"}
    for number, node in enumerate(("nid00001", "nid00007")):
        desk.send(a_report("4711", node, reads=(23, 37)[number], about=about))
    first = desk.record("4711", lambda record: record["coverage"]["reported"] == 2)
    assert {"nid00002": "no report", "nid00003": "no report"} == first["coverage"]["missing"]
    assert (4, 2, 60, True) == (first["coverage"]["expected"], first["coverage"]["reported"],
                                reads(first), first["file_systems"][0]["lower_bound"])
    desk.send(a_report("4711", "nid00003", reads=41, about=about))
    second = desk.record("4711", lambda record: record["coverage"]["reported"] == 3)
    assert {"nid00002": "no report"} == second["coverage"]["missing"]
    assert 101 == reads(second)
    desk.send(a_report("4711", "nid00002", reads=43))      # which does not know the others
    third = desk.record("4711", lambda record: record["coverage"]["complete"])
    assert (144, {}, False) == (reads(third), third["coverage"]["missing"],
                                third["file_systems"][0]["lower_bound"])


def test_facts_of_a_later_report_are_added(inside):
    """The first report comes from a node that knows nothing of the job."""
    inside.send("4711", "nid1", reads=23, about={"user": "", "scheduler": ""})
    inside.send("4711", "nid2", reads=37, about={"nodes": "nid[1-3]", "account": "physics",
                                                 "scheduler": "none"})
    inside.send("4711", "nid3", reads=41, about={"account": "chemistry"})
    inside.now += 2                                        # all are heard: no deadline
    inside.make_records()
    [record] = inside.records("4711")
    assert (101, 3, "physics", "alice") == (
        reads(record), record["coverage"]["expected"], record["batch"]["account"],
        record["job"]["user"])


def test_reports_that_come_while_a_record_is_made_are_in_the_next_one(inside):
    """Also the second report of a node, which does not change the list of nodes."""
    for number in range(100):
        inside.send("4711", f"nid{number}", reads=1)
    inside.now += 301
    sent = []
    reports = inside.store.reports

    def slow(key):
        for number, body in enumerate(reports(key)):
            yield body
            if number == 90 and not sent:
                sent.append(inside.send("4711", "nid1", "37", reads=1000, boot_id="another"))

    inside.store.reports = slow
    inside.make_records(lambda: sent and not inside.open_jobs)
    [record] = inside.records("4711")
    assert 1100 == reads(record)


def test_a_part_without_numbers_is_noted_in_any_order_of_reports(inside):
    """The order is that of the reports' names, which mean nothing."""
    for job, seqs in (("4711", "ab"), ("4713", "ba")):
        inside.send(job, "nid1", seqs[0], reads=23, about={"nodes": "nid1"})
        inside.send(job, "nid1", seqs[1], reason="the node was booted during the job",
                    ended=inside.now, elapsed_s=0.0, uptime_s=0.0, boot_id="another", deltas=[])
    inside.now += 2
    inside.make_records()
    for job in ("4711", "4713"):
        [record] = inside.records(job)
        assert 23 == reads(record) and record["file_systems"][0]["lower_bound"]
        assert any("booted during the job" in note for note in record["notes"])


# -- what the batch system says ------------------------------------------------------------------

def test_jobs_are_found_as_users_write_them(desk):
    """Tasks of an array, parts of a heterogeneous job, runs of a job that was started again."""
    squeue(desk, *(slurm_job(raw, array_job_id=100, array_task_id=task)
                   for raw, task in (("101", 1), ("102", 2), ("100", 10))),
           *(slurm_job(raw, het_job_id=200, het_job_offset=offset)
             for raw, offset in (("200", 0), ("201", 1))),
           slurm_job("300", restart_cnt=1, name="solve",
                     exit_code={"return_code": {"set": True, "number": 7}}, job_state=["FAILED"]))
    desk.site()
    for number, job in enumerate(("101", "102", "100", "200", "201"), 1):
        desk.send(a_report(job, "nid1", reads=number, about=SLURM))
    for attempt in (0, 1):
        desk.send(a_report("300", "nid1", reads=23 + attempt, about={**SLURM, "attempt": attempt}))

    def found(job, count):
        return until(lambda: len(records := desk.records(job)) == count and [
            (one["job"]["id"], reads(one)) for one in records])
    assert [("100_1", 1), ("100_2", 2), ("100_10", 3)] == found("100", 3)
    assert [("100_2", 2)] == found("100_2", 1) == found("102", 1)
    assert [("200+0", 4), ("200+1", 5)] == found("200", 2)
    assert [("200+1", 5)] == found("200+1", 1) == found("201", 1)
    assert [("300", 23), ("300", 24)] == found("300", 2)
    first, second = desk.records("300")
    assert [("REQUEUED", None, 0), ("FAILED", 7, 1)] == [
        (one["batch"]["outcome"], one["batch"]["exit_status"], one["job"]["attempt"])
        for one in (first, second)]
    assert ("solve", "300") == (second["batch"]["name"], second["batch"]["raw_job"])


def test_a_record_waits_for_the_batch_system_to_call_the_job_ended(desk):
    """The last epilog may end before the accounting knows of the end."""
    squeue(desk, slurm_job("4711", "RUNNING"))
    desk.site()
    desk.send(a_report("4711", "nid1", about=SLURM))
    desk.send(a_report("4713", "nid1", about={"nodes": "nid1"}))
    desk.record("4713")
    assert [] == desk.records("4711")
    squeue(desk, slurm_job("4711", "TIMEOUT"))
    assert "TIMEOUT" == desk.record("4711")["batch"]["outcome"]


def test_facts_of_another_job_with_the_same_number_are_not_taken(desk):
    """Of another user, or of another cluster."""
    squeue(desk, slurm_job("4711", user_name="mallory", name="theirs"),
           slurm_job("4713", cluster="daint", name="theirs"),
           slurm_job("4717", cluster="eiger", name="ours"))
    desk.site()
    for job in ("4711", "4713", "4717"):
        desk.send(a_report(job, "nid1", about={**SLURM, "cluster": "eiger"}))
    assert ["", "", "ours"] == [desk.record(job)["batch"]["name"]
                                for job in ("4711", "4713", "4717")]


def test_records_are_made_without_an_answer_of_the_batch_system(site):
    """No command, no such system, a job id that cannot be an argument."""
    jobs = [new_job() for _ in range(3)] + ["-rf", "a,b 'c"]
    for number, job in enumerate(jobs):
        site.send(a_report(job, "nid1", reads=number, about={
            "nodes": "nid1", "scheduler": ("slurm", "../../etc/passwd", "\x1b", "slurm",
                                           "slurm")[number]}))
    assert list(range(5)) == [reads(site.record(job)) for job in jobs]


def test_a_job_id_that_cannot_be_an_argument_does_not_affect_other_jobs(desk, inside, monkeypatch):
    """An id that would be an option, or several arguments."""
    squeue(desk, slurm_job("4711", name="ours"))
    monkeypatch.setenv("PATH", str(desk.bin))
    for job in ("-rf", "4711", "a,b 'c"):
        inside.send(job, "nid1", about=SLURM)
    inside.now += 2
    inside.make_records()
    assert [["ours"], [""], [""]] == [[one["batch"]["name"] for one in inside.records(job)]
                                      for job in ("4711", "-rf", "a,b 'c")]


def test_a_damaged_report_does_not_affect_other_jobs(inside, caplog):
    """A report in the store that cannot be read any more; its node is named."""
    inside.send("4711", "nid1", reads=23, about={"nodes": "nid1"})
    inside.send("4713", "nid1", reads=37, about={"nodes": "nid1"})
    inside.store.change("UPDATE reports SET body = x'789c030000000001' WHERE job = '4711'")
    inside.now += 2
    inside.make_records(lambda: inside.records("4713"))
    inside.make_records(lambda: inside.records("4711"))
    [one], [other] = inside.records("4711"), inside.records("4713")
    assert (0, {"nid1": "its report was damaged on the site's server"}) == (
        one["coverage"]["reported"], one["coverage"]["missing"])
    assert 37 == reads(other)
    assert "the report of node nid1 of job 4711 is damaged, and put aside" in caplog.text


# -- what nodes may call their things -------------------------------------------------------------

HOSTILE = ["\x1b[2J", "a\nb\tc", "é\u202eb", "../../etc/passwd", "%s%n", "'; DROP TABLE jobs; --",
           "|||", "a\0b"]


def test_hostile_texts_are_safe_in_records_and_tables(inside):
    """Users, accounts, clusters, nodes, file systems: no character moves the cursor."""
    for number, text in enumerate(HOSTILE):
        about = {name: text for name in ("user", "account", "partition", "cluster", "output",
                                         "work_dir", "nodes")}
        one = a_report(f"4711{number}", "nid1", user=text, about=about)
        one["deltas"][0]["file_system"] = text
        inside.ask("report", one, node="nid1")
        inside.store.commit()
    inside.config.set_value("site.show", "home", "a test")
    inside.now += 301
    inside.make_records()
    records = inside.ask("latest", {"count": 1000})
    assert len(HOSTILE) == len(records)
    for record in records:
        assert record["job"]["user"] == record["batch"]["account"]
        for form in ("grid", "plain", "csv", "markdown"):
            text = job_tables.format_report(job_tables.add_labels(record, inside.config),
                                            inside.config, form)
            assert all(c.isprintable() or c == "\n" for c in text)


def test_a_node_list_that_means_billions_of_nodes_is_ignored(inside):
    """It takes no memory, and the record is made."""
    for number, nodes in enumerate(("a[1-9999][1-9999][1-9999]", "a[1-999999,1-999999]",
                                    "a[1-200000]", "[[", "a[1-", "1" * 100_000)):
        inside.send(f"4711{number}", "nid1", reads=23, about={"nodes": nodes})
    inside.now += 301
    inside.make_records()
    expected = [record["coverage"]["expected"] for record in inside.ask("latest", {"count": 1000})]
    assert [None] * 6 == expected
