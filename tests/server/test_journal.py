"""
A job's server that is killed, and started again: what it had acknowledged is counted, once.

Outside: real servers and kill -9.  Inside: what an earlier server has left, cut off at every byte,
damaged at every byte, added up in between, on disks that are full.
"""
from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import stat
import subprocess
import sys

import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import BEFORE, REPOSITORY, SERVER, Desk, TinyDisk, write_tree
from site_desk import application
from test_job_totals_merge import JOBS

from iostats.base import config
from iostats.server import journal
from iostats.server.job_server import JobServer, make_totals
from iostats.server.rpc_server import Caller
from iostats.totals.job_totals import Totals
from iostats.wire import jsonrpc

CONFIG = config.load(os.devnull, {})
NODES = {"nid00001": 23, "nid00002": 37, "nid00003": 41}          # read() calls of each
TO_BE_LOST = "continuing, but what is counted will be lost if this server is killed"
OPTIONS = ("--nodes", "nid[00001-00003]", "--format", "json")


DESK = Desk


def work(desk, server, node, reads=None):
    """A node's whole job; the Done of its stop."""
    reads = NODES[node] if reads is None else reads
    return desk.whole_job(server, node, after={**BEFORE, "reads": BEFORE["reads"] + reads})


def kill(server):
    server.process.kill()
    server.process.wait()


def reads(record):
    return application(record)["read_calls"]


def found_here(desk):
    """Names of the files in the directory of the desk's servers."""
    return sorted(os.listdir(desk.journals))


# -- real servers --------------------------------------------------------------------------------

@pytest.mark.parametrize("first", [1, 2, 3])
def test_what_a_killed_server_had_acknowledged_is_counted_once_by_the_next(desk, first):
    """Killed after the first, the second and the last node; 23 + 37 + 41 = 101."""
    server = desk.server(*OPTIONS, "--nodes", "nid[00001-00004]")
    for node in list(NODES)[:first]:
        assert 0 == work(desk, server, node).status
    kill(server)
    server = desk.server(*OPTIONS)
    for node in list(NODES)[first:]:
        assert 0 == work(desk, server, node).status
    done = server.wait()
    assert 0 == done.status
    assert (101, {}) == (reads(done.record), done.record["coverage"]["missing"])
    assert done.lines[1] == (
        f"iostats: {first} {'node' if first == 1 else 'nodes'} that an earlier server of this job "
        f"had counted {'is' if first == 1 else 'are'} counted")
    assert [] == found_here(desk)


def test_the_record_is_that_of_a_server_that_was_never_killed(desk):
    """To the last byte, but for the moments at which the nodes worked."""
    records = []
    for kills in (False, True):
        server = desk.server(*OPTIONS)
        for node in NODES:
            work(desk, server, node)
            if kills and node != "nid00003":
                kill(server)
                server = desk.server(*OPTIONS)
        record = server.wait().record
        for times in (record["job"], record["coverage"], *record["nodes"].values()):
            for name in ("started", "ended", "elapsed_s", "node_seconds"):
                times.pop(name, None)
        for one in record["file_systems"]:
            one.pop("metadata", None)                      # has rates
        records.append(json.dumps(record))
    assert records[0] == records[1]


def test_a_report_that_comes_again_after_the_kill_is_known(desk):
    """The first server was killed before its answer arrived: the node sends it once more."""
    server = desk.server(*OPTIONS)
    root = desk.tree("nid00001", **BEFORE)
    assert 0 == desk.client("start", *desk.on("nid00001", root)).status
    write_tree(root, **{**BEFORE, "reads": BEFORE["reads"] + 23})
    kept = desk.directory / "kept"
    assert 3 == desk.client("stop", "--server", "127.0.0.1:1", *desk.on("nid00001", root),
                            env={"IOSTATS_NODE_RETRY_TIMEOUT": "0"}).status
    [delta] = desk.state.glob("*.delta")
    kept.write_bytes(delta.read_bytes())

    def send(server):
        return desk.client("stop", "--server", f"127.0.0.1:{server.port}",
                           *desk.on("nid00001", root)).status
    assert 0 == send(server)
    kill(server)
    delta.write_bytes(kept.read_bytes())
    server = desk.server(*OPTIONS)
    assert 0 == send(server)
    work(desk, server, "nid00002")
    work(desk, server, "nid00003")
    assert 101 == reads(server.wait().record)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_ends_in_order_leaves_nothing(desk, number):
    """Its report is printed; the next server of the job begins anew."""
    server = desk.server(*OPTIONS)
    work(desk, server, "nid00001")
    assert 1 == len(found_here(desk))
    done = server.stop(number)
    assert (0, 23) == (done.status, reads(done.record))
    assert [] == found_here(desk)
    done = desk.server(*OPTIONS).stop()
    assert ({}, 1) == (done.record["nodes"], len(done.lines))


def test_a_server_that_is_killed_before_the_first_node_says_nothing_of_it(desk):
    """And its journal is the next one's."""
    kill(desk.server(*OPTIONS))
    server = desk.server(*OPTIONS)
    for node in NODES:
        work(desk, server, node)
    done = server.wait()
    assert (101, 1) == (reads(done.record), len(done.lines))
    assert [] == found_here(desk)


def test_a_report_that_cannot_be_written_can_be_had_again(desk):
    """Status 1, and it says so; the same command prints what was counted, and no node twice."""
    (desk.directory / "results").mkdir()
    command = (*OPTIONS, "--json", "results/record.json")
    server = desk.server(*command)
    os.rmdir(desk.directory / "results")
    for node in NODES:
        work(desk, server, node)
    done = server.wait()
    assert (1, 101) == (done.status, reads(done.record))
    assert done.lines[-1] == (
        "iostats: results/record.json: cannot be written: No such file or directory; the "
        "counts are stored: run the same command again")
    (desk.directory / "results").mkdir()
    done = desk.server(*command).wait()
    assert (0, 101) == (done.status, reads(done.record))
    assert 101 == reads(json.loads((desk.directory / "results" / "record.json").read_text()))
    assert [] == found_here(desk)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_standard_output_that_is_full_is_one_line_and_the_numbers_are_kept(desk):
    """Status 1."""
    server = desk.server(*OPTIONS)
    work(desk, server, "nid00001")
    kill(server)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, SERVER, "--job", desk.job, "--nodes", "nid00001"], stdout=full,
            stderr=subprocess.PIPE, text=True, cwd=desk.directory,
            env=desk.environment({"IOSTATS_NODE_STATE_DIR": str(desk.journals)}))
    assert 1 == done.returncode
    assert done.stderr.splitlines()[-1] == (
        "iostats: standard output: cannot be written: No space left on device; the counts are "
        "stored: run the same command again")
    assert 1 == len(found_here(desk))


def test_a_second_server_of_the_job_keeps_its_hands_off_the_firsts(desk):
    """It says that it has no journal; each counts what it was sent, alive and killed."""
    first = desk.server(*OPTIONS)
    second = desk.begin_server(*OPTIONS, listen=None)
    second.wait_until_listening()
    assert second.err.startswith(
        f"iostats: {desk.journals}/{found_here(desk)[0]}: another server of this job runs on this "
        f"node; {TO_BE_LOST}\n")
    work(desk, first, "nid00001")
    work(desk, second, "nid00002")
    assert 37 == reads(second.stop().record)
    assert 1 == len(found_here(desk))                      # the second has removed nothing
    kill(first)
    server = desk.server(*OPTIONS)
    work(desk, server, "nid00003")
    assert 23 + 41 == reads(server.stop().record)


def test_without_a_directory_named_it_is_in_a_private_one_below_tmp(desk):
    """Mode 0700 and 0600; found again by the next server, and gone at the end."""
    def here():
        return [os.path.join("/tmp", directory, name) for directory in os.listdir("/tmp")
                if directory.startswith(f"iostats-{os.geteuid()}-")
                for name in os.listdir(os.path.join("/tmp",
                                                    directory)) if name.startswith(desk.job)]
    env = {"IOSTATS_NODE_STATE_DIR": ""}
    server = desk.server(*OPTIONS, env=env)
    work(desk, server, "nid00001")
    [path] = here()
    assert [0o600, 0o700] == [stat.S_IMODE(os.stat(one).st_mode)
                              for one in (path, os.path.dirname(path))]
    kill(server)
    server = desk.server(*OPTIONS, env=env)
    assert [path] == here()
    assert 23 == reads(server.stop().record)
    assert [] == here()


def test_the_directory_can_be_named(desk):
    """--state-dir, as for the client; and clients there leave it alone."""
    server = desk.server(*OPTIONS, "--state-dir", desk.state)
    for node in ("nid00001", "nid00002"):
        work(desk, server, node)
    assert [".journal"] == [path.suffix for path in desk.state.iterdir()]
    kill(server)
    server = desk.server(*OPTIONS, "--state-dir", desk.state)
    assert 60 == reads(server.stop().record)
    assert [] == list(desk.state.iterdir())


def test_a_directory_of_others_is_not_used_and_the_job_is_counted(desk):
    """One line; the report is as ever."""
    desk.journals.mkdir(mode=0o755)
    desk.journals.chmod(0o755)
    server = desk.server(*OPTIONS)
    work(desk, server, "nid00001")
    assert server.err.startswith(
        f"iostats: {desk.journals}: expected a directory of user {os.geteuid()} with mode 0700, "
        f"got a directory of mode 0755; fix it, or name another in site.cfg: [node] state_dir; "
        f"{TO_BE_LOST}\n")
    assert 23 == reads(server.stop().record)
    assert [] == found_here(desk)


def test_iostats_run_leaves_a_servers_journal_alone_and_has_none(desk):
    """Another command of the same job is another measurement: each has its own report."""
    server = desk.server("--nodes", "nid00001", "--nodes", "2", "--format", "json")
    work(desk, server, "nid00001")
    kill(server)
    before = [(path.name, path.read_bytes()) for path in desk.journals.iterdir()]
    root = desk.tree("root", **BEFORE)
    desk.tree("after", **{**BEFORE, "reads": BEFORE["reads"] + 37})
    done = subprocess.run(
        [sys.executable, "-m", "iostats", "run", "--job", desk.job, "--root", str(root),
         "--format", "json", "--", "cp", "-R", f"{desk.directory}/after/.", str(root)],
        env=desk.environment({"PYTHONPATH": str(REPOSITORY),
                              "IOSTATS_NODE_STATE_DIR": str(desk.journals)}),
        capture_output=True, text=True, cwd=desk.directory)
    assert 37 == reads(json.loads(done.stderr))
    assert before == [(path.name, path.read_bytes()) for path in desk.journals.iterdir()]
    server = desk.server("--nodes", "2", "--format", "json")
    work(desk, server, "nid00003")
    assert 23 + 41 == reads(server.wait().record)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_on_a_full_disk_the_server_goes_on_and_says_so_once(desk):
    """Killed, it has lost what it says; the next one names these nodes, and has no half of one."""
    # A message takes 1 kB; the page that the first one has begun has room for two more.
    nodes = {**NODES, "nid00004": 43, "nid00005": 47, "nid00006": 53}
    disk = TinyDisk(desk.journals, "64k")
    try:
        server = desk.server(*OPTIONS, "--nodes", "nid[00001-00007]")
        for node in nodes:
            assert 0 == work(desk, server, node, nodes[node]).status
            disk.fill()
        lost = [line for line in server.err.splitlines() if "No space left" in line]
        [path] = desk.journals.glob("*.journal")
        assert [f"iostats: {path}: No space left on device; {TO_BE_LOST}"] == lost
        kill(server)
        disk.calm()
        record = desk.server("--nodes", "nid[00001-00006]", "--format", "json").stop().record
        there = set(nodes) - set(record["coverage"]["missing"])
        assert 0 < len(there) < 6 and there == set(list(nodes)[:len(there)])
        assert sum(nodes[node] for node in there) == reads(record)
        assert [] == list(desk.journals.iterdir())
    finally:
        disk.close()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_a_disk_that_is_full_from_the_beginning_costs_a_line(desk):
    """And nothing of the report."""
    disk = TinyDisk(desk.journals, "64k")
    try:
        disk.fill()
        server = desk.server(*OPTIONS)
        for node in NODES:
            assert 0 == work(desk, server, node).status
        done = server.wait()
        assert (0, 101) == (done.status, reads(done.record))
        assert 1 == done.err.count(TO_BE_LOST)
        assert [".full"] == os.listdir(desk.journals)
    finally:
        disk.close()


# -- what an earlier server has left, byte by byte -----------------------------------------------

class Directory:
    """
    A directory of journals, and the lines that servers there have said.
    """

    def __init__(self, path):
        self.path, self.said = path, []
        self.path.mkdir(mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def server(self, expected=None):
        """A JobServer without credentials, which is killed in the end."""
        kept = journal.open_journal(str(self.path), "4711", self.said.append)
        totals = make_totals(CONFIG, "4711", expected, Totals)
        one = JobServer(totals, [], CONFIG)
        one.resume(kept)
        try:
            yield one
        finally:
            os.close(kept.fileno())                     # which is all that is left of a kill

    @property
    def file(self):
        [path] = self.path.iterdir()
        return path


def message(node, params=None, method="report"):
    if params is None:
        params = {"protocol": 1, "job": "4711", "node": node, "seq": "5",
                  "ended": 1_795_225_060.0, "elapsed_s": 60.0, "deltas": [
                      {"source": "llite", "file_system": "scratch",
                       "values": {"read_calls": NODES[node]}}]}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def tell(server, node, body=None, from_=None):
    """The answer to a message of an authenticated node."""
    body = body or message(node)
    who = Caller(from_ or node, 23)
    answer = jsonrpc.dispatch(body, server.methods, who, _raise)
    server.before_answer(body, who)
    return json.loads(answer)


def _raise(error):
    raise error


def counted(server):
    return {node: short["file_systems"]["scratch"]["read_calls"]
            for node, short in server.totals.state()["nodes"].items()}


def test_a_message_that_was_cut_off_at_any_byte_is_passed_over(tmp_path):
    """It was not acknowledged; what comes next is kept behind what was there before it."""
    directory = Directory(tmp_path / "state")
    sizes = []
    with directory.server() as one:
        for node in ("nid00001", "nid00002"):
            tell(one, node)
            sizes.append(directory.file.stat().st_size)
    whole = directory.file.read_bytes()
    for size in range(sizes[0], sizes[1]):
        directory.file.write_bytes(whole[:size])
        with directory.server() as one:
            assert {"nid00001": 23} == counted(one)
            assert sizes[0] == directory.file.stat().st_size
            tell(one, "nid00003")
        with directory.server() as one:
            assert {"nid00001": 23, "nid00003": 41} == counted(one)
    assert [] == directory.said


def test_a_first_record_that_was_cut_off_is_an_empty_journal(tmp_path):
    """Whoever was killed there had acknowledged nothing."""
    directory = Directory(tmp_path / "state")
    with directory.server():
        whole = directory.file.read_bytes()
    for size in range(len(whole)):
        directory.file.write_bytes(whole[:size])
        with directory.server() as one:
            tell(one, "nid00002")
        with directory.server() as one:
            assert {"nid00002": 37} == counted(one)
    assert [] == directory.said


def test_a_byte_that_is_damaged_costs_a_line_and_at_most_what_is_behind_it(tmp_path):
    """In a message that one alone; in what stands before it all that follow: said in one line."""
    directory, ends = Directory(tmp_path / "state"), []
    with directory.server() as one:
        for node in NODES:
            tell(one, node)
            ends.append(directory.file.stat().st_size)
    whole = directory.file.read_bytes()
    for place in range(ends[0], ends[1]):
        directory.file.write_bytes(whole[:place] + bytes([whole[place] ^ 23]) + whole[place + 1:])
        directory.said.clear()
        with directory.server() as one:
            is_head = place < ends[0] + 12
            assert counted(one) == ({"nid00001": 23} if is_head
                                    else {"nid00001": 23, "nid00003": 41})
        assert directory.said == [
            f"{directory.file}: damaged from byte {ends[0]} on: later counts of an earlier "
            f"server of this job are lost" if is_head else
            f"{directory.file}: 1 of its messages is damaged: these counts of an earlier server "
            f"of this job are lost"]


@pytest.mark.parametrize("how, why", [
    (lambda whose: {**whose, "boot_id": "another"}, "from before this node's boot"),
    (lambda whose: {**whose, "job": "4733"}, "of another job"),
    (lambda whose: {**whose, "form": 2}, "of another release of iostats"),
    (lambda whose: {"job": "4711"}, "damaged"), (lambda whose: [23], "damaged")],
    ids=["boot", "job", "release", "fields", "kind"])
def test_a_journal_of_something_else_is_not_counted(tmp_path, how, why):
    """One line; and it is replaced."""
    directory = Directory(tmp_path / "state")
    with directory.server() as one:
        one.journal.owner = how(one.journal.owner)
        one.journal.replace(b'{"totals":{},"merged":[]}')
        tell(one, "nid00001")
    with directory.server() as one:
        assert {} == counted(one)
        tell(one, "nid00002")
    assert [f"{directory.file}: {why}: its content is not counted"] == directory.said
    with directory.server() as one:
        assert {"nid00002": 37} == counted(one)


@pytest.mark.parametrize("earlier, later, is_counted", [
    (("4711", None), ("4711", None), True), (("4711", None), ("4711", "1"), False),
    (("4711", "1"), ("4711", "1"), True), (("4711", None), ("4733", None), False),
    (("4711", "1"), (None, None), True), ((None, None), ("4711", None), True)],
    ids=["the same run", "requeued", "the same restart", "another batch job", "by hand later",
         "by hand before"])
def test_an_earlier_run_of_a_job_is_no_part_of_this_one(tmp_path, monkeypatch, earlier, later,
                                                        is_counted):
    """A requeued job has the same id, and is another piece of work."""
    directory = Directory(tmp_path / "state")

    def run_in(job, restarts):
        for name, value in (("SLURM_JOB_ID", job), ("SLURM_RESTART_COUNT", restarts)):
            monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    run_in(*earlier)
    with directory.server() as one:
        tell(one, "nid00001")
    run_in(*later)
    with directory.server() as one:
        assert counted(one) == ({"nid00001": 23} if is_counted else {})
    assert directory.said == ([] if is_counted else [
        f"{directory.file}: of an earlier run of this job: its content is not counted"])


@pytest.mark.parametrize("kind", ["link", "FIFO", "directory", "of another user"])
def test_what_is_no_file_of_ours_is_not_used(tmp_path, kind):
    """Nothing is read from it or written to it; one line says so."""
    if kind == "of another user" and os.geteuid():
        pytest.skip("needs root")
    directory, said = Directory(tmp_path / "state"), []
    with directory.server():
        path = directory.file
    path.unlink()
    target = tmp_path / "target"
    target.write_text("theirs")
    if kind == "link":
        path.symlink_to(target)
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_text("theirs")
        os.chown(path, 23, 37)
    with journal.open_job_journal(str(directory.path), "4711", said.append) as kept:
        assert kept is None
    [line] = said
    assert line.startswith(f"{path}: ") and line.endswith(f"; {TO_BE_LOST}")
    assert os.path.lexists(path)
    assert "theirs" == (path if kind == "of another user" else target).read_text()


def test_nodes_that_the_job_has_no_more_are_refused_and_named(tmp_path):
    """The next server was given another list."""
    directory = Directory(tmp_path / "state")
    with directory.server() as one:
        for node in NODES:
            tell(one, node)
    with directory.server(frozenset({"nid00001", "nid00003", "nid00004"})) as one:
        assert {"nid00001": 23, "nid00003": 41} == counted(one)
        assert {"unknown node": 1} == one.totals.record()["coverage"]["refused"]
    with directory.server() as one:
        one.journal.replace(json.dumps({"totals": one.totals.state(), "merged": []}).encode())
    with directory.server(frozenset({"nid00001", "nid00003"})) as one:
        assert {} == counted(one)
    assert [f"{directory.file}: totals of an earlier server of this job are not counted: nid00002 "
            f"is not among the job's nodes nid[00001,00003]; name it with --node"] == directory.said


def test_what_changes_no_number_is_not_kept(tmp_path):
    """Questions, a report that came again, one that is refused."""
    directory = Directory(tmp_path / "state")
    with directory.server() as one:
        tell(one, "nid00001")
        size = directory.file.stat().st_size
        assert "counted before" in tell(one, "nid00001")["result"]["why"]
        tell(one, "nid00002", message("nid00002", {}, "status"))
        assert "error" in tell(one, "nid00002", message("nid00001"))
        assert size == directory.file.stat().st_size


def test_a_batch_is_kept_as_one_message(tmp_path):
    """What was counted of it is counted again, and no more."""
    directory = Directory(tmp_path / "state")
    good, other = json.loads(message("nid00001")), json.loads(message("nid00002"))
    with directory.server() as one:
        tell(one, "nid00001", json.dumps([good, other, good]).encode())
        assert {"nid00001": 23} == counted(one)
    with directory.server() as one:
        assert {"nid00001": 23} == counted(one)


def test_merged_totals_are_known_again_after_they_were_added_up(tmp_path):
    """By their seq, as before: `stop --mpi` sends them again when no answer came."""
    directory = Directory(tmp_path / "state")
    with directory.server() as one:
        for node in NODES:
            tell(one, node)
        params = {"protocol": 1, "job": "4711", "node": "nid00001", "seq": "41",
                  "state": one.totals.state()}
        body = message("nid00001", params, "totals")
    directory.file.unlink()
    with directory.server() as one:
        assert "" == tell(one, "nid00001", body)["result"]["why"]
    for seq in ("23", "37"):
        with directory.server() as one:
            assert dict(NODES) == counted(one)
            assert "counted before" in tell(one, "nid00001", body)["result"]["why"]
            one.journal.replace_at = 0
            tell(one, "nid00004", message("nid00004", {
                "protocol": 1, "job": "4711", "node": "nid00004", "seq": seq,
                "ended": 1_795_225_060.0, "elapsed_s": 60.0, "reason": "permission denied"}))
            assert b"\ntotals\n" not in directory.file.read_bytes().partition(b"totals\n")[2]
            assert b"totals\n" in directory.file.read_bytes()


def as_message(report):
    """A test's Report, as its node would send it."""
    fields = {**report._asdict(), "protocol": 1, "job": "4711",
              "deltas": [one._asdict() for one in report.deltas]}
    fields["phases"] = [{"name": one.name, "elapsed_s": one.elapsed_s,
                         "deltas": [delta._asdict() for delta in one.deltas]}
                        for one in report.phases or ()]
    fields["series"] = {name: {field: getattr(one, field) for field in one.__struct_fields__}
                        for name, one in (report.series or {}).items()}
    fields["events"] = None if report.events is None else msgspec.to_builtins(report.events)
    fields["idle"] = msgspec.to_builtins(report.idle)
    return message(report.node, fields)


@settings(suppress_health_check=list(HealthCheck), max_examples=examples(60))
@given(JOBS, st.randoms(), st.integers(200, 4000))
def test_servers_killed_and_added_up_at_any_time_make_the_record_of_one(tmp_path_factory, job,
                                                                        random, limit):
    """All that reports can have; each is known again at the end."""
    directory = Directory(tmp_path_factory.mktemp("any") / "state")
    bodies = [(one.node, as_message(one)) for reports in job for one in reports]
    alone, answers = JobServer(make_totals(CONFIG, "4711", None, Totals), [], CONFIG), []
    for node, body in bodies:
        answers.append(tell(alone, node, body))
    left, again = list(bodies), []
    while left:
        with directory.server() as one:
            one.journal.replace_at = limit
            for node, body in left[:random.randint(1, 3)]:
                again.append(tell(one, node, body))
                left = left[1:]
    assert answers == again
    with directory.server() as one:
        def known(server):
            record = server.totals.record()
            return msgspec.json.encode({**record, "coverage": {**record["coverage"],
                                                               "refused": None}})
        assert known(alone) == known(one)
        for (node, body), answer in zip(bodies, answers):
            if "result" in answer and not json.loads(body)["params"]["reason"]:
                assert "counted before" in tell(one, node, body)["result"]["why"]
    assert [] == directory.said


@pytest.mark.parametrize("operation", ["write", "rename", "unlink", "close"])
def test_adding_up_on_a_disk_that_fails_leaves_what_was_there(tmp_path, monkeypatch, operation):
    """Nothing is lost, before or after; nothing is left beside it."""
    directory = Directory(tmp_path / "state")
    with directory.server() as one:
        tell(one, "nid00001")
        one.journal.replace_at = 0
        name = {"write": "writev"}.get(operation, operation)
        real, calls = getattr(os, name), []

        def fails(*arguments, **more):
            calls.append(arguments)
            # The second write is that of the one beside it.
            if len(calls) == (2 if operation == "write" else 1):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments, **more)
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fails)
            tell(one, "nid00002")
        tell(one, "nid00003")
    assert calls
    with directory.server() as one:
        assert dict(NODES) == counted(one)
    assert [] == directory.said


def test_totals_that_were_incomplete_when_the_server_was_killed_are_ignored(tmp_path):
    """They lie beside the journal, which is as it was; they go."""
    directory = Directory(tmp_path / "state")
    with directory.server() as one:
        tell(one, "nid00001")
    directory.file.with_name(directory.file.name + ".next").write_bytes(b"half of")
    with directory.server() as one:
        assert {"nid00001": 23} == counted(one)
        assert directory.file.suffix == ".journal"            # alone


def test_a_rename_that_was_done_and_is_called_a_failure_loses_nothing(tmp_path, monkeypatch):
    """What comes next goes where the next server looks."""
    directory = Directory(tmp_path / "state")
    real = os.rename

    def done_and_fails(*arguments):
        real(*arguments)
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    with directory.server() as one:
        tell(one, "nid00001")
        one.journal.replace_at = 0
        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", done_and_fails)
            tell(one, "nid00002")
        tell(one, "nid00003")
    with directory.server() as one:
        assert dict(NODES) == counted(one)


def test_a_disk_that_cannot_be_read_is_reported_and_nothing_is_removed(tmp_path, monkeypatch):
    """The next server may be luckier."""
    directory = Directory(tmp_path / "state")
    with directory.server() as one:
        tell(one, "nid00001")
    whole = directory.file.read_bytes()

    def fails(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", fails)
        with directory.server() as one:
            tell(one, "nid00002")
            assert {"nid00002": 37} == counted(one)
    assert [f"{directory.path / '4711%20'}{os.uname().nodename.partition('.')[0]}.journal: cannot "
            f"be read: Input/output error; continuing without the counts of an earlier server "
            f"of this job"] == directory.said
    assert whole == directory.file.read_bytes()


def test_the_file_grows_no_more_than_to_a_few_times_what_it_says(tmp_path, monkeypatch):
    """100 nodes of 17 kB each, added up at each 100 kB: never more than 300 kB with the totals."""
    monkeypatch.setattr(journal, "_MIN_BYTES_BETWEEN", 100_000)
    directory, most = Directory(tmp_path / "state"), 0
    with directory.server() as one:
        for number in range(100):
            node = f"nid{number:05d}"
            params = {"protocol": 1, "job": "4711", "node": node, "seq": "5",
                      "ended": 1_795_225_060.0, "elapsed_s": 60.0, "deltas": [
                          {"source": "osc", "file_system": "scratch", "target": f"OST{target:04x}",
                           "values": {"read_bytes": 41_003, "write_bytes": 53_007}}
                          for target in range(140)]}
            tell(one, node, message(node, params))
            most = max(most, directory.file.stat().st_size)
    assert 100_000 < most < 300_000
    with directory.server() as one:
        [scratch] = one.totals.record()["file_systems"]
        assert 100 * 140 * 41_003 == scratch["network"]["read_bytes"]
