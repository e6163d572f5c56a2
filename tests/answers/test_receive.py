"""
The site's server: a report that it has acknowledged is not lost, whatever becomes of it; and
only who may has an answer.

Reports are small, and their numbers tell which of them are in a sum.
"""
from __future__ import annotations

import asyncio
import json
import os
import random
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from processes import AFTER, BEFORE, Listener, fill, new_job, until, write_tree
from site_desk import THE_WORK, a_report, application, free_port, reads
from site_inside import answer_to
from site_store import fill_up, keep_record, make_room

from iostats.answers import site_server as site_module
from iostats.base.errors import NotDelivered, StateError, WireError
from iostats.cli.site_client import ask_site
from iostats.server.rpc_server import Caller
from iostats.store import write_errors as store_trouble
from iostats.store.record_store import Key
from iostats.wire import auth, jsonrpc, protocol

as_root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
DAY = 86400.0


# -- nothing that was acknowledged is lost -----------------------------------------------------

def test_a_server_that_is_killed_loses_no_acknowledged_report(desk):
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


def test_a_restarted_server_continues_where_it_was(desk):
    """One node reports before the restart, the other after it; none is missing."""
    server = desk.site()
    about = {"nodes": "nid[1-2]"}
    desk.send(a_report("4711", "nid1", reads=23, about=about))
    assert 0 == server.stop().status
    desk.site()
    desk.send(a_report("4711", "nid2", reads=37, about=about))
    record = desk.record("4711")
    assert (60, 2, True) == (reads(record), record["coverage"]["reported"],
                             record["coverage"]["complete"])


def test_the_record_of_a_complete_job_is_made_at_once_after_a_restart(desk):
    """It does not wait for the deadline: all of its nodes are in the store."""
    server = desk.site(hasty=False)                        # which waits for a second
    desk.send(a_report("4711", "nid1", reads=23, about={"nodes": "nid1"}))
    server.kill()
    desk.site()
    assert 23 == reads(desk.record("4711"))


class Transport:
    """A connection that notes its answers in the list of all that happened."""

    def __init__(self, happened, name):
        self._happened, self._name = happened, name

    def is_closing(self):
        return False

    def write(self, data):
        is_answer = not data.startswith(b"HTTP/1.1 503 ")
        self._happened.append(("answered" if is_answer else "not kept", self._name))

    def close(self):
        """Nothing more is sent."""


def two_reports(inside, happened):
    """Send two reports in one turn of the loop; what happened then, in order."""
    inside.store.connection.set_trace_callback(
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


def test_reports_of_one_turn_of_the_loop_share_a_commit(inside):
    """No answer leaves before the commit, and there is one for all."""
    assert ["end of turn", "COMMIT", ("answered", "nid1"), ("answered", "nid2")] == two_reports(
        inside, [])


def test_no_node_is_answered_when_the_commit_fails(inside):
    """They are told so, and keep their reports; later the same ones are taken."""
    inside.send("4700")
    fill_up(inside.store)
    happened = []

    async def turn():
        async def another():                               # a record, between report and commit
            with pytest.raises(Exception, match="full"):
                keep_record(inside.store, Key("", "4700", 0), b"\x17" * (1 << 20))
        answer = inside.answer("report", a_report("4711", "nid1"), node="nid1")
        await another()
        inside.server.send(Transport(happened, "nid1"), answer, keep=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    asyncio.run(turn())
    assert [("not kept", "nid1")] == happened
    assert ["4700"] == [key.job for key in inside.open_jobs]
    make_room(inside.store)
    assert ["end of turn", "COMMIT", ("answered", "nid1"), ("answered", "nid2")] == two_reports(
        inside, [])


def test_refused_messages_are_logged_by_their_number(inside, caplog):
    for _ in range(3):
        inside.server.refuse("not authenticated", "nid1")
    assert ["1 message refused: not authenticated (the last one of nid1)",
            "2 messages refused: not authenticated (the last one of nid1)"] == [
        record.getMessage() for record in caplog.records]


def test_a_full_disk_is_logged_once_and_its_end_once(inside, caplog, monkeypatch):
    """Not for each sweep, nor for each report."""
    inside.send("4700")
    fill_up(inside.store)

    def refused(job):
        async def turn():
            for node in ("nid1", "nid2"):
                answer = inside.answer("report", a_report(job, node), node=node)
                inside.server.send(Transport([], node), answer, keep=True)
                with pytest.raises(StateError, match="disk is full"):
                    keep_record(inside.store, Key("", "4700", 0), b"\x17" * (1 << 20))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        asyncio.run(turn())

    for number in range(23):
        refused(str(5000 + number))
    [line] = [one.getMessage() for one in caplog.records]
    assert line == (f"{inside.path}: cannot be written: database or disk is full; nodes and agents "
                    f"store their messages, and send them again (logged once an hour)")
    make_room(inside.store)
    inside.send("4711")
    assert 1 == len(caplog.records)                             # it may have been a small one
    monkeypatch.setattr(store_trouble, "QUIET_S", 0.0)
    for number in range(3):
        inside.send(str(6000 + number))
    assert [line, f"{inside.path}: can be written again"] == [
        one.getMessage() for one in caplog.records]


@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_with_a_full_disk_the_nodes_keep_their_reports(desk):
    """The server keeps running, answers questions, and takes reports when there is room again."""
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
        assert re.search(r"127\.0\.0\.1:\d+: the server cannot store messages: .*/site.sqlite: "
                         rf"cannot be written: database or disk is full \(expected 16 MiB free, "
                         rf"found 0 MiB on {disk}\)", done.line), done.line
        assert "Internal error" not in done.line
        def told():
            return desk.client("doctor", "--json", "--config", desk.cfg, job=False).out
        assert re.search(r"the server cannot store messages: .*database or disk is full", told())
        until(lambda: f"on {disk}); nodes and agents store their messages" in server.err)
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
    assert (3, f"iostats: port {port} is in use: another server of the site? ([site] port; "
            f"check: ss -ltnp sport = :{port})") == (
        done.status, done.line)


def test_a_file_that_is_not_a_store_is_one_line_of_error(desk):
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    desk.store.write_text("no SQLite" * 1000)
    done = desk.begin_site().wait()
    assert 1 == done.status and "expected our SQLite file" in done.line
    desk.configure(site_store=desk.directory)
    done = desk.begin_site().wait()
    assert 1 == done.status and "cannot be opened" in done.line


def test_an_unknown_reader_in_site_cfg_is_one_line_of_error(desk):
    desk.configure(site_readers="root nobody-of-that-name")
    done = desk.begin_site().wait()
    assert 1 == done.status
    assert "[site] readers: expected users of this machine, got 'nobody-of-th" in done.lines[-1]


# -- which reports are taken -----------------------------------------------------------------------

def test_a_report_with_a_duplicate_key_is_refused(inside):
    """It could mean 37 reads, or 23."""
    message = {"jsonrpc": "2.0", "method": "report", "params": a_report(reads=23), "id": 1}
    body = json.dumps(message).encode()
    twice = body.replace(b'"read_calls": 23', b'"read_calls": 37, "read_calls": 23')
    assert len(twice) > len(body)
    assert "expected each key once in an object, got 'read_calls' twice" in (
        jsonrpc.dispatch(twice, inside.server.methods, Caller("nid00001", 0)).decode())
    assert [] == inside.store.open_jobs()
    assert b'"counted":true' in jsonrpc.dispatch(body, inside.server.methods,
                                                 Caller("nid00001", 0))


def test_a_report_that_is_too_late_is_refused(inside):
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
    with pytest.raises(WireError, match="job 4711 is closed: reports of a job are accepted for 7") \
            as refused:
        inside.send("4711", "nid3", reads=41)
    assert protocol.REFUSED == refused.value.code
    assert [60] == [reads(one) for one in inside.records("4711")]
    inside.now += 359 * DAY
    inside.store.close()
    inside.begin()
    inside.make_records(lambda: not inside.records("4711"))


# -- who may read ---------------------------------------------------------------------------------

def test_who_reads_what(inside):
    """Holders of the secret and [site] readers read all records, another user of munge his own."""
    for job, user in (("4711", "nobody"), ("4713", "bob")):
        inside.send(job, "nid1", about={"nodes": "nid1", "user": user})
    inside.now += 2
    inside.make_records()

    def answer(who):
        return answer_to(inside.server, who, "latest")

    def jobs(uid):
        return {one["job"]["id"] for one in answer(Caller("nid1", uid))["result"]}
    assert {"4711", "4713"} == jobs(None) == jobs(os.geteuid()) == jobs(0)     # readers = root
    assert {"4711"} == jobs(65534)
    assert (protocol.REFUSED, "there is no user 4242424242 here") == tuple(
        answer(Caller("nid1", 4242424242))["error"][name] for name in ("code", "message"))
    assert protocol.NOT_AUTHENTICATED == answer(None)["error"]["code"]


def test_nothing_is_answered_without_the_secret(inside):
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
    """An array of very many tasks has to be asked for in parts."""
    monkeypatch.setattr(site_module, "MAX_ANSWER_BYTES", 3000)
    for job in ("4711", "4713", "4717"):
        inside.send(job, "nid1", about={"nodes": "nid1"})
    inside.now += 2
    inside.make_records()
    assert 1 == len(inside.ask("latest", {"count": 1}))
    with pytest.raises(WireError, match="ask for fewer"):
        inside.ask("latest", {"count": 3})


def test_a_job_that_a_failed_commit_has_dropped_is_stored_with_its_next_report(inside, monkeypatch):
    """Also where the store cannot be read back then; its row is written once, not by each node."""
    def fail(*_):
        raise StateError("site.sqlite: disk I/O error")
    with monkeypatch.context() as broken:
        broken.setattr(inside.store.connection, "put_on_disk", fail)
        broken.setattr(inside.store, "open_jobs", fail)
        for act in (lambda: inside.send("4711", "nid00001", "23"), inside.server.open_jobs.reload):
            with pytest.raises(StateError):
                act()
    inside.send("4711", "nid00002", "37")
    [job] = inside.store.open_jobs()
    assert ("4711", ["nid00002"]) == (job.key.job, job.nodes)


def test_a_fact_that_a_later_node_reports_is_stored_and_survives_a_restart(inside):
    inside.send("4711", "nid00001", "23", about={"user": "alice"})
    inside.send("4711", "nid00002", "37", about={"user": "alice"})
    inside.send("4711", "nid00003", "41", about={"user": "bob", "account": "physics"})
    inside.server.open_jobs.reload()
    [job] = inside.open_jobs.values()
    assert ("alice", "physics", {"nid00001", "nid00002", "nid00003"}) == (
        job.about.user, job.about.account, job.heard)


@pytest.mark.parametrize("method, params", [("record", {"job": "4711"}), ("latest", {"count": 1})])
def test_a_store_that_cannot_be_read_is_an_error_of_the_question(inside, monkeypatch, method,
                                                                params):
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
def test_an_invalid_job_id_is_refused(inside, job):
    with pytest.raises(WireError) as refused:
        inside.send(job)
    assert protocol.INVALID_PARAMS == refused.value.code
    assert not inside.open_jobs


@pytest.mark.parametrize("field, value", [
    ("scheduler", "x" * 129), ("user", "x" * 129), ("uid", -1), ("uid", 2**32), ("attempt", -1),
    ("attempt", "first"), ("output", "x" * 4097), ("nodes", "x" * (1 + (1 << 20)))])
def test_invalid_facts_of_a_job_are_refused(inside, field, value):
    with pytest.raises(WireError) as refused:
        inside.send("4711", about={field: value})
    assert protocol.INVALID_PARAMS == refused.value.code


# -- many ----------------------------------------------------------------------------------------

def test_a_thousand_jobs_at_once(site):
    """From 8 connections; each job has its record, and the server's memory has not grown much."""
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
                     for record in ask_site(site.config, "latest", {"count": 1000}))
        return all(job in found for job in expected)
    until(all_there, what=lambda: f"a thousand records, not {len(found)}")
    assert expected == {job: found[job] for job in expected}
    assert resident_kib() - before < 100_000


def test_idle_and_invalid_connections_stop_no_report(site):
    """Some send nothing, some send what is not HTTP."""
    held = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(100)]
    for one in held[::2]:
        one.sendall(b"\x16\x03\x01 no HTTP at all \r\n\r\n" * 10)
    job = new_job()
    site.send(a_report(job, "nid1", reads=23, about={"nodes": "nid1"}))
    assert 23 == reads(site.record(job))
    for one in held:
        one.close()


def test_another_program_on_its_port_gets_no_report(desk):
    """It cannot prove that it has the secret: the node keeps its report."""
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {
        "job": protocol.SITE, "protocol": 1, "time": time.time()}}).encode()
    answer = (f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
    with Listener(desk.port, answer), pytest.raises(NotDelivered, match="another secret"):
        desk.send(a_report())
