"""
Other programs on the servers' ports, and senders that are not authenticated: what they try, and
what they get.  docs/explanation/security.md names these tests.
"""
from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes import AFTER, BEFORE, Desk, job_with_free_ports, write_tree
from site_desk import THE_WORK, application

from iostats.base import config as site_config
from iostats.server.job_server import JobServer
from iostats.totals.job_totals import Totals
from iostats.wire import auth, jsonrpc, protocol

as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")]
root_only = pytest.mark.parametrize("", [pytest.param(marks=as_root)])


def memory_kib(process):
    """The largest resident size so far."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])


# -- another user who has the port first ----------------------------------------------------------

# Listens on PORT as user 65534, hands everything on to TO, and changes a digit of what is counted.
_BETWEEN = """
import os, socket, sys, threading
port, to, altered = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "altered"
listener = socket.create_server(("127.0.0.1", port))
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print("ready", flush=True)
def pass_on(a, b, change):
    while True:
        data = a.recv(1 << 20)
        if not data:
            b.close()
            return
        b.sendall(data.replace(b"41003", b"41009") if change else data)
while True:
    one, _ = listener.accept()
    other = socket.socket()
    other.connect(("127.0.0.1", to))
    print("met", flush=True)
    threading.Thread(target=pass_on, args=(one, other, altered), daemon=True).start()
    threading.Thread(target=pass_on, args=(other, one, False), daemon=True).start()
"""


@pytest.mark.parametrize("what", ["altered", "as it is"])
def test_a_relay_on_the_jobs_first_port_changes_no_number(tmp_path, what):
    """What was altered is refused, and the node goes on to the right server; else it is right."""
    with Desk(tmp_path) as desk:
        desk.job, (first, second) = job_with_free_ports(2)
        between = subprocess.Popen([sys.executable, "-c", _BETWEEN, str(first), str(second), what],
                                   stdout=subprocess.PIPE, text=True)
        desk.started.append(between)
        assert "ready\n" == between.stdout.readline()
        server = desk.server("--nodes", "1", "--format", "json")
        assert second == server.port
        root = desk.tree("nid1", **BEFORE)
        assert 0 == desk.client("start", *desk.on("nid1", root)).status
        write_tree(root, **AFTER)
        done = desk.client("stop", "--server", "127.0.0.1", *desk.on("nid1", root))
        assert 0 == done.status, done
        assert "met\n" == between.stdout.readline()
        record = server.wait().record
        assert THE_WORK == application(record)
        assert ({"not authenticated": 1} if what == "altered" else {}) == (
            record["coverage"]["refused"])


def test_another_program_on_the_sites_port_gets_no_report(desk):
    """
    One line names the port; docs/explanation/security.md says which ports nobody else can take.
    """
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    with socket.create_server(("127.0.0.1", desk.port)):
        done = desk.begin_site().wait()
    assert 3 == done.status
    assert f"port {desk.port} is in use: another server of the site? ([site] port; " in done.line


# -- unauthenticated senders ---------------------------------------------------------------------

def test_an_unauthenticated_sender_learns_nothing_of_what_a_report_must_look_like():
    """Params are not decoded: each method but `hello` gives the same answer."""
    one = JobServer(Totals("4711", 3), [auth.Secret("4711", b"s" * 64)],
                    site_config.load(environ={}))
    for method in ("report", "totals", "status"):
        for params in ({}, {"protocol": "one"}, {"deltas": [[]] * 1000}, [1, 2], ["x"] * 99):
            body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": 23})
            for header in ("", "IOSTATS-1 node=nid1, time=1, nonce=" + "0" * 32 + ", mac=0"):
                error = json.loads(one.answer(body.encode(), header)[0])["error"]
                assert protocol.NOT_AUTHENTICATED == error["code"]
    assert {"not authenticated": 30} == one.totals.record()["coverage"]["refused"]


def test_unauthenticated_senders_who_fill_memory_are_refused_and_a_node_is_not(tmp_path):
    """
    37 messages of 15 MiB that do not end, 555 MiB in all: the server keeps 256 MiB at most, and a
    node's report is counted meanwhile.
    """
    with Desk(tmp_path) as desk:
        # Who says nothing is not cut off for that, however long the others take.
        server = desk.server("--nodes", "1", "--format", "json",
                             env={"IOSTATS_SERVER_IDLE_TIMEOUT": "600"})
        before, held, turned_away = memory_kib(server.process), [], 0
        for _ in range(37):
            one = socket.create_connection(("127.0.0.1", server.port), 20)
            held.append(one)
            try:
                one.sendall(b"POST / HTTP/1.1\r\nContent-Length: 15728641\r\n\r\n")
                one.sendall(b"x" * 15728640)
            except OSError:
                turned_away += 1
        assert 0 == desk.whole_job(server, "nid1").status
        assert memory_kib(server.process) - before < 320 * 1024
        for one in held:
            one.close()
        record = server.wait().record
        assert THE_WORK == application(record)
        assert turned_away or record["coverage"]["refused"]["service unavailable"]


JUNK = ("Authorization: IOSTATS-1 node=nid1, time=1, nonce=" + "0" * 32 + ", mac=0\r\n",
        "Authorization: MUNGE MUNGE:AwQ=:\r\n")


@pytest.mark.parametrize("header", JUNK, ids=["secret", "munge"])
def test_whole_unauthenticated_bodies_take_no_more_memory_than_unfinished_ones(tmp_path, header):
    """
    150 messages of 16 MiB with an Authorization that proves nothing, all at once: 2.3 GiB.  Who
    came first kept his part, and each of the others had an equal one beside it: 770 MiB.
    """
    with Desk(tmp_path) as desk:
        # Who waits for the last of the 150 is not cut off for that, however long it takes.
        server = desk.server("--nodes", "1", "--format", "json",
                             env={"IOSTATS_SERVER_IDLE_TIMEOUT": "600"})
        before = memory_kib(server.process)
        begin = f"POST / HTTP/1.1\r\n{header}Content-Length: 16777216\r\n\r\n".encode()

        def send(one):
            with one, contextlib.suppress(OSError):
                for _ in range(256):
                    one.sendall(b"x" * 65536)
                one.recv(1000)
        held = []
        for _ in range(150):
            held.append(socket.create_connection(("127.0.0.1", server.port), 60))
            held[-1].sendall(begin)
        senders = [threading.Thread(target=send, args=(one,)) for one in held]
        for one in senders:
            one.start()
        for one in senders:
            one.join()
        assert memory_kib(server.process) - before < 300 * 1024
        assert 0 == desk.whole_job(server, "nid1").status
        assert THE_WORK == application(server.wait().record)


def test_a_client_that_does_not_read_its_answers_is_disconnected(tmp_path):
    """Answers that nobody reads do not add up: 64 MiB of questions, and memory stays."""
    with Desk(tmp_path) as desk:
        server = desk.server("--nodes", "1")
        before = memory_kib(server.process)
        body = json.dumps([{"jsonrpc": "2.0", "method": "hello", "id": 23}] * 1000).encode()
        question, sent = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body, 0
        with socket.create_connection(("127.0.0.1", server.port), 20) as one:
            with pytest.raises(OSError):
                while sent < 64 << 20:
                    one.sendall(question)
                    sent += len(question)
        assert memory_kib(server.process) - before < 24 * 1024
        assert desk.job == server.call("hello")["result"]["job"]


def test_the_answers_to_a_batch_are_limited_together():
    """A thousand questions of 3 MB each: 6 are answered, then it says so."""
    asked = []

    def large(params, who):
        asked.append(who)
        return "x" * 3_000_000
    body = json.dumps([{"jsonrpc": "2.0", "method": "latest", "id": 1}] * 1000).encode()
    answers = json.loads(jsonrpc.dispatch(body, {"latest": jsonrpc.Method(large, None)}))
    assert (6, 7) == (len(asked), len(answers))
    assert "more than 16 MiB" in answers[-1]["error"]["message"]
