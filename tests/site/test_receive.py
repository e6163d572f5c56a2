"""
The site's server: what it has said that it has, it has, whatever becomes of it; and a record for
each run of each job, with what the batch system says of it.

Reports are small, and their numbers tell which of them are in a sum.
"""
from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from processes import AFTER, BEFORE, Listener, fill, new_job, until, write_tree
from site_desk import THE_WORK, SiteDesk, a_report, application, free_port, script

from iostats.base.config import Config
from iostats.base.errors import NotDelivered, StateError, WireError
from iostats.base.job_facts import ENDED, Facts
from iostats.cli.site_server import asked
from iostats.report import job_tables
from iostats.report.job_list import Summary
from iostats.server.job_server import Caller
from iostats.site import receive as site_module
from iostats.site.receive import SiteServer
from iostats.site.store import Key, Store
from iostats.site.store_clock import Clocks
from iostats.wire import auth, jsonrpc, protocol

as_root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
DAY = 86400.0


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A desk with a running server, for tests that leave it as it is."""
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        desk.server = desk.site()
        yield desk


@pytest.fixture
def desk(tmp_path):
    """A desk of one's own, with no server yet."""
    with SiteDesk(tmp_path) as one:
        yield one


def reads(record):
    return application(record)["read_calls"]


# -- nothing that was acknowledged is lost -----------------------------------------------------

def test_a_server_that_is_killed_has_all_that_it_has_acknowledged(desk):
    """
    kill -9 at any moment, again and again, with reports on their way; then each report that was
    acknowledged is in its job's record once, and no other is in twice.

    The k-th report of a job did 3**k reads: the digits of the sum are how often each is in it.
    """
    chance = random.Random(23)
    nodes = [f"nid{number:05}" for number in range(7)]
    about = {"nodes": "nid[00000-00006]"}
    wanted = [(str(job), number) for job in range(100, 200) for number in range(len(nodes))]
    chance.shuffle(wanted)
    acknowledged = set()
    desk.configure(site_deadline="0")                      # records are made in between, too

    def send(todo):
        for job, number in todo:
            one = a_report(job, nodes[number], f"seq {number}", reads=3**number, about=about)
            try:
                desk.send(one)
            except NotDelivered:
                return
            acknowledged.add((job, number))

    rounds = 0
    while rounds < 6 or len(acknowledged) <= 10:
        rounds += 1
        server = desk.site()
        # What was not answered, and some that was: a node may have missed the answer.
        todo = [one for one in wanted if one not in acknowledged or chance.random() < 0.1]
        senders = [threading.Thread(target=send, args=(todo[part::3],)) for part in range(3)]
        for sender in senders:
            sender.start()
        time.sleep(chance.uniform(0.005, 0.15))
        server.kill()
        for sender in senders:
            sender.join()
    desk.site()

    def times(record):
        return [reads(record) // 3**number % 3 for number in range(len(nodes))]
    for job in sorted({job for job, _ in acknowledged}):
        record = desk.record(job, lambda record, job=job: all(
            count for number, count in enumerate(times(record)) if (job, number) in acknowledged))
        assert {0, 1} >= set(times(record)) and reads(record) < 3**len(nodes)


def test_a_restarted_server_goes_on_where_it_was(desk):
    """One node reports to the one, the other to the next; no node is missing."""
    server = desk.site()
    about = {"nodes": "nid[1-2]"}
    desk.send(a_report("4711", "nid1", reads=23, about=about))
    assert 0 == server.stop().status
    desk.site()
    desk.send(a_report("4711", "nid2", reads=37, about=about))
    record = desk.record("4711")
    assert (60, 2, True) == (reads(record), record["coverage"]["reported"],
                             record["coverage"]["complete"])


def test_a_job_that_is_complete_is_made_at_once_after_a_restart(desk):
    """Not after the deadline: all of its nodes are in the store."""
    server = desk.site(hasty=False)                        # which waits for a second
    desk.send(a_report("4711", "nid1", reads=23, about={"nodes": "nid1"}))
    server.kill()
    desk.site()
    assert 23 == reads(desk.record("4711"))


class Transport:
    """What a connection was told, in the order of all that happened."""

    def __init__(self, happened, name):
        self._happened, self._name = happened, name

    def is_closing(self):
        return False

    def write(self, data):
        is_answer = not data.startswith(b"HTTP/1.1 503 ")
        self._happened.append(("answered" if is_answer else "not kept", self._name))

    def close(self):
        """Nothing more is sent."""


class Inside:
    """A SiteServer in this process, with a clock that is set."""

    def __init__(self, directory, **choices):
        self.config = Config()
        for name, value in choices.items():
            self.config.take(name.replace("_", ".", 1), str(value), "a test")
        self.now = 1_795_225_060.0
        # What is added to the clock to have the time since boot: time passes where both move.
        self.set_by, self.boot_id = -1_795_000_000.0, "23" * 16
        self.path = str(directory / "site.sqlite")
        self._secret = auth.Secret(protocol.SITE, b"s" * 64, 1e9, self.clock)
        self.begin()

    def clock(self):
        return self.now

    def begin(self):
        """A server of its own on this store."""
        self.store = Store(self.path, Clocks(self.clock, lambda: self.now + self.set_by,
                                             lambda: self.boot_id))
        self.server = SiteServer(self.store, [self._secret], self.config, self.clock)

    def answer(self, method, params, node="nid00001", secret=None):
        """What it answers (bytes), as in docs/wire.md; the answer has not left yet."""
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1}).encode()
        header = (secret or self._secret).authorization(node, int(self.now), os.urandom(16).hex(),
                                                        body)
        return self.server.answer(body, header)[0]

    def ask(self, method, params, **how):
        """The result; a WireError as the server has raised it."""
        answer = json.loads(self.answer(method, params, **how))
        if "error" in answer:
            raise WireError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def send(self, *args, **fields):
        """A report, to the end: it is on the disk."""
        one = a_report(*args, **fields)
        result = self.ask("report", one, node=one["node"])
        self.store.commit()
        return result

    def make_records(self, true=None):
        """Let it work until no job is due, or until `true()`."""
        async def work():
            working = asyncio.ensure_future(self.server.work())
            ends = time.monotonic() + 100
            while not (true() if true else not any(
                    job.due <= self.now for job in self.server._jobs.values())):
                assert time.monotonic() < ends and not working.done(), working
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            working.cancel()
        asyncio.run(work())

    def records(self, job):
        return self.ask("record", {"job": job})


@pytest.fixture
def inside(tmp_path):
    one = Inside(tmp_path)
    yield one
    one.store.close()


def two_reports(inside, happened):
    """Two reports of one turn of the loop; what happened then, in its order."""
    inside.store._file.set_trace_callback(
        lambda sql: happened.append(sql) if sql in ("COMMIT", "ROLLBACK") else None)

    async def turn():
        for node in ("nid1", "nid2"):
            answer = inside.answer("report", a_report("4711", node), node=node)
            inside.server.send(Transport(happened, node), answer, keep=True)
        happened.append("end of turn")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    asyncio.run(turn())
    return happened


def test_jobs_that_settle_together_share_a_commit_and_know_how_many_nodes_they_had(inside):
    """Of 4713 the batch system has told, and no node has reported; of 4711 nobody has."""
    commits = []
    inside.store._file.set_trace_callback(
        lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    inside.server._settled({"4711": None, "4713": Facts(
        job="4713", user="alice", nodes="nid[1-3,7]", state=ENDED, outcome="COMPLETED")})
    assert ["COMMIT"] == commits
    inside.make_records()
    [one], [other] = inside.records("4711"), inside.records("4713")
    assert (None, 0) == (one["coverage"]["expected"], one["coverage"]["reported"])
    assert (4, 0, 4) == (other["coverage"]["expected"], other["coverage"]["reported"],
                         other["coverage"]["missing_count"])


def test_all_nodes_of_a_moment_are_answered_after_one_commit(inside):
    """Not one before it, and not one commit for each."""
    assert ["end of turn", "COMMIT", ("answered", "nid1"), ("answered", "nid2")] == two_reports(
        inside, [])


def test_no_node_is_answered_when_the_commit_fails(inside):
    """It is told so, and that keeps its report; later the same one is taken."""
    inside.send("4700")
    pages, = inside.store._file.execute("PRAGMA page_count").fetchone()
    inside.store._file.execute(f"PRAGMA max_page_count = {pages}")
    happened = []

    async def turn():
        async def another():                               # a record, between report and commit
            with pytest.raises(Exception, match="full"):
                inside.store.keep_record(Key("", "4700", 0), os.urandom(1 << 20), "", "", "", 1.0,
                                         Summary())
        answer = inside.answer("report", a_report("4711", "nid1"), node="nid1")
        await another()
        inside.server.send(Transport(happened, "nid1"), answer, keep=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    asyncio.run(turn())
    assert [("not kept", "nid1")] == happened
    assert ["4700"] == [key.job for key in inside.server._jobs]
    inside.store._file.execute("PRAGMA max_page_count = 1000000")
    assert ["end of turn", "COMMIT", ("answered", "nid1"), ("answered", "nid2")] == two_reports(
        inside, [])


@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_with_a_full_disk_the_nodes_keep_their_reports(desk):
    """The server goes on, answers questions, and takes them when there is room again."""
    disk = desk.directory / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "iostats", disk],
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no tmpfs can be mounted")
    try:
        desk.configure(site_store=disk / "site.sqlite")
        server = desk.site()
        desk.work("4711")
        assert THE_WORK == application(desk.record("4711"))
        with open(disk / "full", "wb", buffering=0) as file:
            fill(file)
        kept = []
        for number in range(23):                           # the log may have some pages left
            job = str(5000 + number)
            root = desk.tree("nid00001", **BEFORE)
            desk.hook("prolog", "nid00001", root, job)
            write_tree(root, **AFTER)
            done = desk.hook("epilog", "nid00001", root, job)
            assert 0 == done.status
            kept = list((desk.hooks / "nid00001").glob("*.delta"))
            if kept:
                break
        assert 1 == len(kept)
        assert re.search(r"127\.0\.0\.1:\d+: the server cannot keep what it gets: .*/site.sqlite: "
                         r"cannot be written: database or disk is full", done.line), done.line
        def told():
            return desk.client("doctor", "--json", "--config", desk.cfg, job=False).out
        assert re.search(r"the server cannot keep what it gets: .*database or disk is full", told())
        until(lambda: "database or disk is full; the nodes keep their reports" in server.err)
        assert THE_WORK == application(desk.record("4711"))
        (disk / "full").unlink()
        assert 0 == desk.hook("deliver").status and [] == desk.kept()
        assert THE_WORK == application(desk.record(job))
        assert "disk is full" not in told()
        assert 0 == server.stop().status
    finally:
        desk.close()
        subprocess.run(["umount", "-l", disk], check=True)


# -- servers that can't be ---------------------------------------------------------------------

def test_a_second_server_says_so_in_one_line(desk):
    """On the same store; on the same port."""
    desk.site()
    port = desk.port
    desk.configure(site_port=free_port())
    done = desk.begin_site().wait()
    assert (1, f"iostats: {desk.store}: another server has it open") == (done.status, done.line)
    desk.configure(site_port=port, site_store=desk.directory / "other.sqlite")
    done = desk.begin_site().wait()
    assert (3, f"iostats: port {port} is taken: another server of the site? ([site] port; who "
            f"has it: ss -ltnp sport = :{port})") == (
        done.status, done.line)


def test_a_store_that_is_none_is_one_line(desk):
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    desk.store.write_text("no SQLite" * 1000)
    done = desk.begin_site().wait()
    assert 1 == done.status and "expected our SQLite file" in done.line
    desk.configure(site_store=desk.directory)
    done = desk.begin_site().wait()
    assert 1 == done.status and "cannot be opened" in done.line


def test_a_reader_who_is_no_user_is_one_line(desk):
    desk.configure(site_readers="root nobody-of-that-name")
    done = desk.begin_site().wait()
    assert 1 == done.status
    assert "[site] readers: expected users of this machine, got 'nobody-of-th" in done.lines[-1]


# -- who is missing, and who comes late --------------------------------------------------------

def test_nodes_that_have_not_reported_are_named_after_the_deadline(desk):
    """And a late report makes a better record."""
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


def test_a_node_that_knows_more_of_the_job_is_heard(inside):
    """The first report came from a node that was told nothing."""
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
    """Also a second one of the same node, which changes no list of nodes."""
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
    inside.make_records(lambda: sent and not inside.server._jobs)
    [record] = inside.records("4711")
    assert 1100 == reads(record)


def test_a_part_without_numbers_is_said_whichever_comes_first(inside):
    """The names of the reports decide their order, and nothing else."""
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


def test_a_report_with_a_key_that_stands_twice_is_refused(inside):
    """It could be read in two ways: 37 reads, or 23."""
    message = {"jsonrpc": "2.0", "method": "report", "params": a_report(reads=23), "id": 1}
    body = json.dumps(message).encode()
    twice = body.replace(b'"read_calls": 23', b'"read_calls": 37, "read_calls": 23')
    assert len(twice) > len(body)
    assert "expected each key once in an object, got 'read_calls' twice" in (
        jsonrpc.dispatch(twice, inside.server.methods, Caller("nid00001", 0)).decode())
    assert [] == inside.store.open_jobs()
    assert b'"counted":true' in jsonrpc.dispatch(body, inside.server.methods,
                                                 Caller("nid00001", 0))


def test_what_is_too_late_is_refused(inside):
    """After [site] keep_reports_days; the record goes after [site] keep_days."""
    inside.send("4711", "nid1", reads=23, about={"nodes": "nid[1-2]"})
    inside.now += 301
    inside.make_records()
    inside.now += 6 * DAY
    assert inside.send("4711", "nid2", reads=37)["counted"]
    inside.now += 6
    inside.make_records()
    assert [60] == [reads(one) for one in inside.records("4711")]
    inside.now += 1 * DAY
    inside.store.close()
    inside.begin()
    inside.make_records(lambda: inside.store.job(Key("", "4711", 0)).closed)
    with pytest.raises(WireError, match="job 4711 has been closed: a report of it is taken for 7") \
            as refused:
        inside.send("4711", "nid3", reads=41)
    assert protocol.REFUSED == refused.value.code
    assert [60] == [reads(one) for one in inside.records("4711")]
    inside.now += 359 * DAY
    inside.store.close()
    inside.begin()
    inside.make_records(lambda: not inside.records("4711"))


# -- what the batch system says ------------------------------------------------------------------

def squeue(desk, *jobs):
    """Let `squeue` know these jobs, in the form of 23.02."""
    path = desk.directory / "squeue.json"
    path.with_suffix(".new").write_text(json.dumps({"jobs": jobs}))
    path.with_suffix(".new").replace(path)
    script(desk.bin / "squeue", f"#!/bin/sh\nexec /bin/cat '{path}'\n")
    script(desk.bin / "sacct", "#!/bin/sh\nexit 0\n")


def slurm_job(job, state="COMPLETED", **fields):
    return {"job_id": int(job), "job_state": [state], "user_name": "alice", "user_id": 12345,
            "nodes": "nid1", "start_time": 1_795_225_000, "end_time": 1_795_225_060,
            "exit_code": {"return_code": {"set": True, "number": 0}}, **fields}


SLURM = {"scheduler": "slurm", "nodes": "nid1"}


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
    """The last epilog is a little earlier than the accounting."""
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


def test_a_batch_system_that_does_not_answer_costs_no_record(site):
    """No command, no such system, a job id that can't stand on a command line."""
    jobs = [new_job() for _ in range(3)] + ["-rf", "a,b 'c"]
    for number, job in enumerate(jobs):
        site.send(a_report(job, "nid1", reads=number, about={
            "nodes": "nid1", "scheduler": ("slurm", "../../etc/passwd", "\x1b", "slurm",
                                           "slurm")[number]}))
    assert list(range(5)) == [reads(site.record(job)) for job in jobs]


def test_a_job_that_can_not_be_asked_for_costs_no_other_its_facts(desk, inside, monkeypatch):
    """An id that would be an option, or several, on a command line."""
    squeue(desk, slurm_job("4711", name="ours"))
    monkeypatch.setenv("PATH", str(desk.bin))
    for job in ("-rf", "4711", "a,b 'c"):
        inside.send(job, "nid1", about=SLURM)
    inside.now += 2
    inside.make_records()
    assert [["ours"], [""], [""]] == [[one["batch"]["name"] for one in inside.records(job)]
                                      for job in ("4711", "-rf", "a,b 'c")]


def test_a_bug_at_one_job_costs_no_other_its_record(inside, caplog):
    """A report in the store that can't be read any more; its node is named."""
    inside.send("4711", "nid1", reads=23, about={"nodes": "nid1"})
    inside.send("4713", "nid1", reads=37, about={"nodes": "nid1"})
    inside.store._file.execute("UPDATE reports SET body = x'789c030000000001' WHERE job = '4711'")
    inside.now += 2
    inside.make_records(lambda: inside.records("4713"))
    inside.make_records(lambda: inside.records("4711"))
    [one], [other] = inside.records("4711"), inside.records("4713")
    assert (0, {"nid1": "its report was damaged on the site's server"}) == (
        one["coverage"]["reported"], one["coverage"]["missing"])
    assert 37 == reads(other)
    assert "the report of node nid1 of job 4711 is damaged, and put aside" in caplog.text


# -- what is shown -------------------------------------------------------------------------------

@pytest.fixture
def open_directory():
    """A directory that every user can reach."""
    path = Path(tempfile.mkdtemp(prefix="iostats-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_the_report_comes_to_the_jobs_own_output_once(desk, open_directory):
    """As the job's user, at its end; what comes late does not write a second one."""
    output = open_directory / "slurm-4711.out"
    output.write_text("what the job said\n")
    output.chmod(0o666)
    os.chown(output, 65534, 65534)
    desk.configure(site_show="output home", site_deadline="0.2")
    server = desk.site()
    about = {"nodes": "nid[1-2]", "user": "nobody", "output": str(output)}
    desk.send(a_report("4711", "nid1", reads=23, about=about))
    until(lambda: "File System" in output.read_text(), what="the report")
    desk.send(a_report("4711", "nid2", reads=37, about=about))
    desk.record("4711", lambda record: record["coverage"]["complete"])
    desk.send(a_report("4713", "nid1", about={**about, "nodes": "nid1", "user": "daemon"}))
    until(lambda: "nothing is written as a user of the system" in server.err, what="the refusal")
    text = output.read_text()
    assert text.startswith("what the job said\n\nJob 4711: 1 of 2 nodes reported")
    assert 1 == text.count("File data transfer statistics") and "4713" not in text


def test_one_users_file_system_that_hangs_stops_no_other_report(inside, monkeypatch):
    """To append never ends for alice; the others' reports and records are made."""
    shown = []

    async def append(user, path, text):
        if user == "alice":
            await asyncio.Event().wait()
        shown.append((user, path))

    monkeypatch.setattr(inside.server._writer, "append", append)
    inside.config.take("site.show", "output", "a test")
    for job, user in (("4711", "alice"), ("4713", "bob"), ("4717", "carol")):
        inside.send(job, "nid1", about={"nodes": "nid1", "user": user, "output": f"/{user}"})
    inside.now += 2
    inside.make_records(lambda: len(shown) == 2)
    assert [("bob", "/bob"), ("carol", "/carol")] == sorted(shown)
    assert inside.records("4711")


# -- who may read ---------------------------------------------------------------------------------

def test_who_reads_what(inside):
    """With the secret, and those of [site] readers, all; another user of munge his own."""
    own, server = os.geteuid(), inside.server
    assert server._user(Caller("nid1", None)) is None
    assert server._user(Caller("nid1", own)) is None
    assert server._user(Caller("nid1", 0)) is None         # [site] readers = root
    assert "nobody" == server._user(Caller("nid1", 65534))
    with pytest.raises(WireError, match="user 4242424242 is not known here"):
        server._user(Caller("nid1", 4242424242))
    with pytest.raises(WireError):
        server._user(None)


def test_without_the_secret_there_is_nothing(inside):
    """No record, no list, no report; neither without a header nor with another secret."""
    inside.send("4711", "nid1", about={"nodes": "nid1"})
    wrong = auth.Secret(protocol.SITE, b"x" * 64)
    job_secret = auth.Secret("4711", b"s" * 64)
    for method, params in (("record", {"job": "4711"}), ("latest", {"count": 1}),
                           ("report", a_report("4711"))):
        for secret in (wrong, job_secret):
            with pytest.raises(WireError) as refused:
                inside.ask(method, params, secret=secret)
            assert protocol.NOT_AUTHENTICATED == refused.value.code
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 1})
        assert protocol.NOT_AUTHENTICATED == json.loads(
            inside.server.answer(body.encode(), "")[0])["error"]["code"]


def test_an_empty_name_is_no_job(inside):
    inside.send("4711", "nid1", about={"nodes": "nid1"})
    inside.now += 2
    inside.make_records()
    assert [] == inside.records("") and 1 == len(inside.records("4711"))


def test_an_answer_has_a_limit(inside, monkeypatch):
    """An array of very many tasks is asked for in parts."""
    monkeypatch.setattr(site_module, "_LARGEST_ANSWER", 3000)
    for job in ("4711", "4713", "4717"):
        inside.send(job, "nid1", about={"nodes": "nid1"})
    inside.now += 2
    inside.make_records()
    assert 1 == len(inside.ask("latest", {"count": 1}))
    with pytest.raises(WireError, match="ask for fewer"):
        inside.ask("latest", {"count": 3})


@pytest.mark.parametrize("method, params", [("record", {"job": "4711"}), ("latest", {"count": 1})])
def test_a_store_that_cannot_be_read_is_one_line(inside, monkeypatch, method, params):
    def fail(*_):
        raise StateError("site.sqlite: cannot be read: disk I/O error")
    monkeypatch.setattr(inside.store, "rows", fail)
    with pytest.raises(WireError, match="cannot be read: disk I/O error"):
        inside.ask(method, params)


@pytest.mark.parametrize("count", [0, -1, 1001, "all", None])
def test_latest_has_a_limit(inside, count):
    with pytest.raises(WireError) as refused:
        inside.ask("latest", {"count": count})
    assert protocol.INVALID_PARAMS == refused.value.code


# -- what nodes may call their things -------------------------------------------------------------

@pytest.mark.parametrize("job", ["", " ", "4711\n", "\x1b[2J", "a\0b", "x" * 129, " 4711"])
def test_what_can_not_be_a_jobs_id_is_refused(inside, job):
    with pytest.raises(WireError) as refused:
        inside.send(job)
    assert protocol.INVALID_PARAMS == refused.value.code
    assert not inside.server._jobs


@pytest.mark.parametrize("field, value", [
    ("scheduler", "x" * 129), ("user", "x" * 129), ("uid", -1), ("uid", 2**32), ("attempt", -1),
    ("attempt", "first"), ("output", "x" * 4097), ("nodes", "x" * (1 + (1 << 20)))])
def test_what_a_job_can_not_have_is_refused(inside, field, value):
    with pytest.raises(WireError) as refused:
        inside.send("4711", about={field: value})
    assert protocol.INVALID_PARAMS == refused.value.code


HOSTILE = ["\x1b[2J", "a\nb\tc", "é\u202eb", "../../etc/passwd", "%s%n", "'; DROP TABLE jobs; --",
           "|||", "a\0b"]


def test_hostile_texts_are_safe_in_records_and_tables(inside):
    """Users, accounts, clusters, nodes, file systems: no character of them moves a cursor."""
    for number, text in enumerate(HOSTILE):
        about = {name: text for name in ("user", "account", "partition", "cluster", "output",
                                         "work_dir", "nodes")}
        one = a_report(f"4711{number}", "nid1", user=text, about=about)
        one["deltas"][0]["file_system"] = text
        inside.ask("report", one, node="nid1")
        inside.store.commit()
    inside.config.take("site.show", "home", "a test")
    inside.now += 301
    inside.make_records()
    records = inside.ask("latest", {"count": 1000})
    assert len(HOSTILE) == len(records)
    for record in records:
        assert record["job"]["user"] == record["batch"]["account"]
        for form in ("grid", "plain", "csv", "markdown"):
            text = job_tables.text(job_tables.labelled(record, inside.config), inside.config, form)
            assert all(c.isprintable() or c == "\n" for c in text)


def test_a_node_list_that_means_billions_is_no_list(inside):
    """It costs the server neither memory nor the record."""
    for number, nodes in enumerate(("a[1-9999][1-9999][1-9999]", "a[1-999999,1-999999]",
                                    "a[1-200000]", "[[", "a[1-", "1" * 100_000)):
        inside.send(f"4711{number}", "nid1", reads=23, about={"nodes": nodes})
    inside.now += 301
    inside.make_records()
    expected = [record["coverage"]["expected"] for record in inside.ask("latest", {"count": 1000})]
    assert [None] * 6 == expected


# -- many ----------------------------------------------------------------------------------------

def test_a_thousand_jobs_at_once(site):
    """All of them from 8 connections; each has its record, and the server has not grown much."""
    def resident_kib():
        text = Path(f"/proc/{site.server.process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0])

    before, signs = resident_kib(), site.signs()[0]
    first = 10_000_000
    expected = {str(first + number): number for number in range(1000)}

    def send(jobs):
        with socket.create_connection(("127.0.0.1", site.port)) as one:
            answers = one.makefile("rb")
            for job in jobs:
                body = json.dumps({"jsonrpc": "2.0", "method": "report", "id": 1, "params":
                                   a_report(str(job), "nid1", reads=job - first,
                                            about={"nodes": "nid1"})}).encode()
                header = signs.authorization("nid1", int(time.time()), os.urandom(16).hex(), body)
                one.sendall(f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
                            f"Authorization: {header}\r\n\r\n".encode() + body)
                headers = dict(line.lower().split(b":", 1) for line in iter(
                    answers.readline, b"\r\n") if b":" in line)
                assert b'"counted":true' in answers.read(int(headers[b"content-length"]))

    senders = [threading.Thread(target=send, args=(range(first + part, first + 1000, 8),))
               for part in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    until(lambda: site.records(str(first + 999)), what="the last record")
    found = {}

    def all_there():
        found.update((record["job"]["id"], reads(record))
                     for record in asked(site.config, "latest", {"count": 1000}))
        return all(job in found for job in expected)
    until(all_there, what=lambda: f"a thousand records, not {len(found)}")
    assert expected == {job: found[job] for job in expected}
    assert resident_kib() - before < 100_000


def test_connections_that_say_nothing_stop_nobody(site):
    """Some that are open and silent, and some that send what is no request."""
    held = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(100)]
    for one in held[::2]:
        one.sendall(b"\x16\x03\x01 no HTTP at all \r\n\r\n" * 10)
    job = new_job()
    site.send(a_report(job, "nid1", reads=23, about={"nodes": "nid1"}))
    assert 23 == reads(site.record(job))
    for one in held:
        one.close()


def test_somebody_elses_server_on_its_port_gets_no_report(desk):
    """It can't prove that it has the secret: the node keeps what it has."""
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {
        "job": protocol.SITE, "protocol": 1, "time": time.time()}}).encode()
    answer = (f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
    with Listener(desk.port, answer), pytest.raises(NotDelivered, match="another secret"):
        desk.send(a_report())
