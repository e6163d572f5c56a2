"""
The eight faults of lustre_iostats (NCSA, 2014-15), which this project set out from, each with its
number: what it printed or did is in the docstring, and what is right is in the test.  And the
ninth, which is none: it needs Python 2.

From outside in where that says more: clients and servers as users start them.
"""
from __future__ import annotations

import json
import os
import re
import socket
import stat
import time

import pytest
from processes import (
    AFTER,
    BEFORE,
    LLITE,
    Desk,
    interpreters,
    new_job,
    put,
    stats,
    write_tree,
)

from iostats.cli import node
from iostats.node import start_files
from iostats.wire import protocol

DESK = Desk


def stop(desk, server, root, name="nid00001"):
    return desk.client("stop", "--server", f"127.0.0.1:{server.port}", *desk.on(name, root))


def job_between(desk, before, after, *options):
    """The Done of the server of a one-node job whose llite file was `before` and is `after`."""
    server = desk.server("--nodes", "1", *options)
    root = desk.tree(**BEFORE)
    put(root, LLITE, before)
    assert 0 == desk.client("start", *desk.on("nid00001", root)).status
    put(root, LLITE, after)
    assert 0 == stop(desk, server, root).status
    return server.wait()


# -- 1 ---------------------------------------------------------------------------------------

def test_fault_1_a_silent_node_does_not_keep_the_report_back(desk):
    """It hung for ever if one node was silent: here one never comes, and one connects and says
    nothing; the report is there at the deadline, and names both."""
    server = desk.server("--nodes", "nid[00001-00003]", "--deadline", "1", "--format", "json")
    with socket.create_connection(("127.0.0.1", server.port)):
        assert 0 == desk.whole_job(server, "nid00002").status
        done = server.wait()
    assert 0 == done.status
    assert {"nid00001": "no report", "nid00003": "no report"} == done.record["coverage"]["missing"]
    [fs] = done.record["file_systems"]
    assert (41_003, True) == (fs["application"]["read_bytes"], fs["application"]["lower_bound"])


# -- 2 ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("job", ["65535", "65536", "9999999", "4294967337", "1234567.pbs01"])
def test_fault_2_any_job_id_has_a_port(desk, job):
    """The port was the job's id: above 65535 it crashed."""
    done = desk.run_server("--print-port", job=job, listen=None)
    assert 0 == done.status
    assert 20_000 <= int(done.out) <= 29_999


def test_fault_2_a_job_with_an_id_above_65535_has_its_report(desk):
    """And the node finds the server by the job's id, without a port."""
    desk.job = new_job()
    server = desk.server("--nodes", "1", "--format", "json")
    root = desk.tree(**BEFORE)
    assert 0 == desk.client("start", *desk.on("nid00001", root)).status
    write_tree(root, **AFTER)
    assert 0 == desk.client("stop", "--server", "127.0.0.1", *desk.on("nid00001", root)).status
    assert 41_003 == server.wait().record["file_systems"][0]["application"]["read_bytes"]


# -- 3 ---------------------------------------------------------------------------------------

def test_fault_3_a_hundred_mib_are_not_a_hundred_tib(desk):
    """It took the last column, which is the sum of squares since 2.14: 100 reads of 2**20 bytes
    are 100 x 2**40 = 109951162777600 there, and were printed as 100.0 TB."""
    done = job_between(
        desk, stats("ioctl                     23 samples [reqs]"),
        stats("read_bytes                100 samples [bytes] 1048576 1048576 104857600 "
              "109951162777600", "ioctl                     23 samples [reqs]"))
    assert "| scratch       | 100.0 MiB   | 0 bytes      |" in done.out
    assert "TiB" not in done.out


# -- 4 ---------------------------------------------------------------------------------------

def test_fault_4_a_counter_that_was_absent_at_the_start_counts_from_0(desk):
    """160 opens, and no line `open` at the start: it took the number of the column for the count
    at the start, and printed 156."""
    done = job_between(
        desk, stats("ioctl                     23 samples [reqs]"),
        stats("ioctl                     23 samples [reqs]",
              "open                      160 samples [usecs] 31 8117 61403 402653184"),
        "--format", "json")
    [fs] = done.record["file_systems"]
    assert 160 == fs["operations"]["open"]["count"]
    assert (False, []) == (fs["lower_bound"], fs["notes"])


def test_fault_4_a_file_without_any_counter_at_the_start_counts_from_0(desk):
    """A mount that nothing was done on: every counter is absent."""
    done = job_between(
        desk, stats(),
        stats("read_bytes                37 samples [bytes] 4096 4096 151552 620756992",
              "open                      23 samples [usecs] 31 8117 61403 402653184",
              "mkdir                     41 samples [usecs] 31 8117 61403 402653184"),
        "--format", "json")
    [fs] = done.record["file_systems"]
    assert (151_552, 37) == (fs["application"]["read_bytes"], fs["application"]["read_calls"])
    assert {"open": 23, "mkdir": 41} == {name: row["count"]
                                         for name, row in fs["operations"].items()}


# -- 5 ---------------------------------------------------------------------------------------

def forged(job):
    """A request `report` of 41 bytes read on nid00001."""
    return json.dumps({"jsonrpc": "2.0", "id": 23, "method": "report", "params": {
        "protocol": 1, "job": job, "node": "nid00001", "seq": "seq-37", "ended": time.time(),
        "elapsed_s": 60.0, "deltas": [{"source": "llite", "file_system": "scratch",
                                       "values": {"read_bytes": 41}}]}}).encode()


def test_fault_5_who_has_not_the_jobs_secret_adds_nothing(desk):
    """Whoever reached the port was counted: here neither one without a mac, nor one with the mac
    of another secret; and the same bytes with the right one are, so it was that."""
    server = desk.server("--nodes", "1", "--format", "json")
    body, nonce = forged(desk.job), "000102030405060708090a0b0c0d0e0f"

    def answer_to(secret):
        header = secret and protocol.authorization(protocol.derive_key(secret, desk.job),
                                                   "nid00001", int(time.time()), nonce, body)
        return json.loads(server.post(body, header)[1])

    assert -32001 == answer_to(None)["error"]["code"]
    assert -32001 == answer_to(b"fedcba9876543210fedcba9876543210")["error"]["code"]
    assert None is server.process.poll()
    assert answer_to(desk.secret)["result"]["counted"]
    record = server.wait().record
    assert {"not authenticated": 2} == record["coverage"]["refused"]
    assert 41 == record["file_systems"][0]["application"]["read_bytes"]


# -- 6 ---------------------------------------------------------------------------------------

def test_fault_6_a_second_message_of_a_node_is_not_another_node(desk):
    """It counted messages: two of one node ended a job of two nodes, without the other's."""
    server = desk.server("--nodes", "nid[00001-00002]", "--format", "json")
    assert 0 == desk.whole_job(server, "nid00001").status
    assert 0 == desk.whole_job(server, "nid00001").status
    assert None is server.process.poll()
    assert 0 == desk.whole_job(server, "nid00002").status
    record = server.wait().record
    assert (2, True) == (record["coverage"]["reported"], record["coverage"]["complete"])
    # nid00001 was measured in two parts: 2 x 41,003 bytes, and nid00002's 41,003.
    assert 123_009 == record["file_systems"][0]["application"]["read_bytes"]


# -- 7 ---------------------------------------------------------------------------------------

def test_fault_7_the_start_is_kept_where_nobody_can_guess_it(tmp_path, monkeypatch):
    """It was /tmp/iostats_USER_JOB.json, a name that another user could put a link at: here that
    link stays, its target is not touched, and the directory is private and has 64 random bits."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "victim").write_text("23")
    planted = tmp_path / "tmp" / "iostats_alice_4711.json"
    planted.symlink_to(tmp_path / "victim")
    monkeypatch.setattr(start_files, "TMP", str(tmp_path / "tmp"))
    monkeypatch.setenv("USER", "alice")
    monkeypatch.setenv("HOME", str(tmp_path / "tmp" / "home"))
    root = write_tree(tmp_path / "node", **BEFORE)

    assert 0 == node.main(["start", "--job", "4711", "--node", "nid00001", "--root", str(root)])
    assert planted.is_symlink()
    assert "23" == (tmp_path / "victim").read_text()
    [directory] = [path for path in (tmp_path / "tmp").iterdir() if path != planted]
    assert re.fullmatch(rf"iostats-{os.geteuid()}-[0-9a-f]{{16}}", directory.name)
    [start] = directory.iterdir()
    assert (0o700, 0o600) == (stat.S_IMODE(directory.stat().st_mode),
                              stat.S_IMODE(start.stat().st_mode))


# -- 8 ---------------------------------------------------------------------------------------

def test_fault_8_what_went_over_the_network_is_in_the_report(desk):
    """It read the OSCs' counters on every node, and sent none: 19 RPCs each way, with 41,003 bytes
    read (40.0 KiB) and 53,007 written (51.8 KiB), of OST0000."""
    server = desk.server("--nodes", "1", "--long", "--json", desk.directory / "record.json")
    assert 0 == desk.whole_job(server, "nid00001").status
    text = server.wait().out
    [fs] = json.loads((desk.directory / "record.json").read_text())["file_systems"]
    assert {"read_bytes": 41_003, "write_bytes": 53_007, "read_rpcs": 19, "write_rpcs": 19,
            "lower_bound": False} == fs["network"]
    assert ("OST0000", 1) == (fs["balance"]["busiest"], fs["balance"]["used"])
    assert re.search(r"  read, over the network +40\.0 KiB +19 ", text)
    assert re.search(r"  write, over the network +51\.8 KiB +19 ", text)


# -- and Python 2 ------------------------------------------------------------------------------

@pytest.mark.parametrize("python", [path for _, path in interpreters()],
                         ids=[version for version, _ in interpreters()])
def test_not_python_2_but_every_python_3_of_this_machine(desk, python):
    """It needed Python 2 and three packages on each node: here `python3 -I -S` of any age since
    3.9, which sees no package at all."""
    server = desk.server("--nodes", "1", "--format", "json")
    root = desk.tree(**BEFORE)
    assert 0 == desk.client("1", *desk.on("nid00001", root), python=python).status
    write_tree(root, **AFTER)
    assert 0 == desk.client("2", f"127.0.0.1:{server.port}", *desk.on("nid00001", root),
                            python=python).status
    assert 41_003 == server.wait().record["file_systems"][0]["application"]["read_bytes"]
