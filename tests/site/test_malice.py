"""
People and machines that mean harm: who they are, what they try, and what they get.

docs/security.md names the test for each thing that it calls defended; bytes that mean harm are
those of tests/fuzz, and much about single files and messages stands beside what it is about:
tests/wire, test_start_files, test_write_as_user, test_prolog_epilog, test_job_server.
"""
from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import logging
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes import (
    AFTER,
    BEFORE,
    CLIENT,
    REPOSITORY,
    Desk,
    contents,
    job_with_free_ports,
    until,
    write_tree,
)
from site_desk import THE_WORK, a_report, application, free_port, script
from storage import StorageServer, moved
from site_inside import answer_to

from iostats import schedulers, sinks
from iostats.base import config as site_config
from iostats.base import logs
from iostats.base.errors import IostatsError, StateError, one_line
from iostats.base.job_facts import Facts
from iostats.cli import mail, query, report_file
from iostats.load import amounts, levels, query_table, ranking, table
from iostats.load.ranking import LoadQuery
from iostats.load.sums import TargetLoad, load_of
from iostats.lustre import job_tags
from iostats.report import job_list
from iostats.schedulers import commands as scheduler_commands
from iostats.server.job_server import JobServer
from iostats.server.rpc_server import Caller
from iostats.sinks.influxdb import lines as influx_lines
from iostats.site import records, write_as_user
from iostats.totals.job_totals import Totals
from iostats.wire import auth, jsonrpc, protocol

ALICE, BOB = 65534, 54321                      # a user with a name here, and one without
as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")]
root_only = pytest.mark.parametrize("", [pytest.param(marks=as_root)])

# A terminal's commands, a second line, the right-to-left override, C1's CSI, a formula, markup of
# rich, HTML, quotes, separators of databases.
HOSTILE = ["\x1b[2J\x1b]0;x\x07", "a\nb\rc", "a\u202eb", "\x9b2J", "=cmd|' /C calc'!A0", "@SUM(1)",
           "[bold red]x[/]", "<script>alert(1)</script>", 'a"b\\', "a b,c=d\\", "{job=\"4711\"} 1"]


@pytest.fixture
def of_all(tmp_path_factory):
    """A directory that every user can reach and write to, as /tmp, without its sticky bit."""
    import tempfile
    path = Path(tempfile.mkdtemp(prefix="iostats-malice-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


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
    """One line names the port; docs/security.md says which ports nobody else can take."""
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    with socket.create_server(("127.0.0.1", desk.port)):
        done = desk.begin_site().wait()
    assert 3 == done.status
    assert f"port {desk.port} is taken: another server of the site? ([site] port; " in done.line


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


# -- an ordinary user who asks the site's server --------------------------------------------------

def as_user(inside, uid, method, **params):
    """What the site's server answers to a user that munge has named; None: root by the secret."""
    return answer_to(inside.server, Caller("login1", uid), method, **params)


def sweep(inside, seq, jobs):
    """One message of a storage server, of {job: bytes written}."""
    ids, now = list(jobs), inside.now
    block = {"file_system": "scratch", "target": "OST0000", "read_at": now, "cleanup_s": 600,
             "ended": True, "entries": len(ids), "ids": ids,
             "started": [int((now - 300) * 1e9)] * len(ids), "seen": [int(now * 1e9)] * len(ids),
             "counters": {"write_bytes": {"unit": "bytes", "at": list(range(len(ids))),
                                          "samples": [23] * len(ids), "sum": list(jobs.values())}}}
    return {"protocol": 1, "node": "oss1", "run": "1" * 16, "seq": seq, "full": seq == 1,
            "slot": int(now), "every": 20, "last": True, "targets": [block]}


@pytest.fixture
def two_users(inside):
    """Job 4711 is nobody's (user 65534), and 4713 is bob's; nodes and storage servers have told."""
    for job, user, moved_bytes in (("4711", "nobody", 41_003), ("4713", "bob", 53_007)):
        inside.send(job, "nid1", read_bytes=moved_bytes,
                    about={"nodes": "nid1", "user": user, "account": f"of-{user}"})
    for number in (1, 2):
        inside.now += 20
        answer = as_user(inside, None, "sweep", **{
            **sweep(inside, number, {"4711": 37_000 * number, "4713": 59_000 * number})})
        assert "error" in answer                                 # of another node than its header
        taken = json.loads(inside.answer("sweep", sweep(
            inside, number, {"4711": 37_000 * number, "4713": 59_000 * number}), node="oss1"))
        assert taken["result"]["taken"], taken
        for job, user in (("4711", "nobody"), ("4713", "bob")):
            inside.server.harvest.lives.learn(job, Facts(job=job, raw_job=job, user=user,
                                                   account=f"of-{user}", name=f"name-of-{user}"))
        inside.now += 2
        inside.server.harvest.end_sweep()
    inside.make_records()
    return inside


# His job and names; what his node and the storage server counted: 59,000 + 118,000 bytes, and
# 118,000 in 22 s.
OF_BOB = ("4713", "bob", "53007", "177000", "5363.6")
QUESTIONS = [
    ("record", {"job": "4713"}), ("record", {"job": "4711"}), ("latest", {"count": 1000}),
    ("jobs", {}), ("jobs", {"jobs": ["4711", "4713"], "all_runs": True}),
    ("jobs", {"accounts": ["of-bob", "of-nobody"]}), ("jobs", {"sort": "user"}),
    *(("load", {"by": by}) for by in ("job", "user", "node", "server", "target", "fs")),
    ("load", {"job": "4713"}), ("load", {"text": "bob"}),
    *(("query", {"level": level}) for level in "abcde"), ("query", {"level": "a", "job": "4713"})]


@pytest.mark.parametrize("method, params", QUESTIONS,
                         ids=lambda value: value if isinstance(value, str) else "-".join(
                             f"{name}={one}" for name, one in value.items()) or "all")
def test_an_ordinary_user_sees_his_own_jobs_by_every_method_and_nothing_of_others(
        two_users, method, params):
    """None of bob's jobs, names and numbers; the sums of file systems are for everybody."""
    his = as_user(two_users, ALICE, method, **params)["result"]
    if isinstance(his, dict):
        his.pop("text", None)                                    # what he asked for himself
    assert [] == [word for word in OF_BOB if word in json.dumps(his)]


@pytest.mark.parametrize("method, params", [
    ("jobs", {"users": ["bob"]}), ("jobs", {"users": ["nobody", "bob"]}),
    ("load", {"user": "bob"}), ("query", {"level": "b", "user": "bob"})])
def test_a_question_for_another_users_jobs_is_refused(two_users, method, params):
    error = as_user(two_users, ALICE, method, **params)["error"]
    assert protocol.REFUSED == error["code"] and "expected your own jobs" in error["message"]


def test_root_sees_all_of_these(two_users):
    """The words that are looked for above are there to be seen."""
    text = json.dumps([as_user(two_users, 0, method, **params) for method, params in QUESTIONS])
    assert [] == [word for word in OF_BOB if word not in text]


@pytest.mark.parametrize("method, params", [
    ("report", a_report("4719", "login1")), ("sweep", {**sweep(
        type("Now", (), {"now": 1_795_225_060.0}), 1, {"4711": 23}), "node": "login1"})],
    ids=["report", "sweep"])
def test_an_ordinary_user_can_send_neither_reports_nor_sweeps(inside, method, params):
    """Not for his own jobs either: what they did is not his to say."""
    for uid in (ALICE, BOB):
        error = as_user(inside, uid, method, **params)["error"]
        assert protocol.NOT_AUTHENTICATED == error["code"]
        assert f"user {uid} may not report to the site's server" in error["message"]
    assert not inside.open_jobs and not inside.server.harvest.targets
    assert "result" in as_user(inside, 0, method, **params)


def test_a_user_whom_the_servers_host_does_not_know_sees_nothing(two_users):
    for method, params in QUESTIONS:
        assert "user 54321 is not known here" in as_user(
            two_users, BOB, method, **params)["error"]["message"]


def test_a_recorded_report_cannot_be_replayed(inside):
    """Not to the same server, and not to one of a job: the key is made of its name."""
    body = json.dumps({"jsonrpc": "2.0", "method": "report", "params": a_report("4711", "nid1"),
                       "id": 1}).encode()
    header = inside.secret.authorization("nid1", int(inside.now), "0" * 32, body)
    assert "result" in json.loads(inside.server.answer(body, header)[0])
    assert protocol.REPLAYED == json.loads(inside.server.answer(body, header)[0])["error"]["code"]
    of_job = JobServer(Totals("4711", 1), [auth.Secret("4711", b"s" * 64, 1e9)],
                       inside.config, inside.clock)
    assert protocol.NOT_AUTHENTICATED == json.loads(of_job.answer(body, header)[0])["error"]["code"]


def test_metrics_are_served_only_where_site_cfg_says_so():
    """[prometheus] listen is empty; site.cfg says who sees what there, and names loopback."""
    config = site_config.load(environ={})
    assert [] == sinks.of(config, print) and "" == config["prometheus.listen"]
    assert "such as 127.0.0.1:9464; whoever reaches it sees all" in (
        REPOSITORY / "site.cfg").read_text()


# -- a node that lies about whose job it was ------------------------------------------------------

def append_report(user, path):
    async def whole():
        writer = write_as_user.Writer()
        try:
            await writer.append(user, str(path), "REPORT\n")
        finally:
            writer.close()
    asyncio.run(whole())


@root_only
@pytest.mark.parametrize("name", [".bashrc", ".ssh/authorized_keys", "a/../.profile", "./out"])
def test_no_report_is_appended_to_what_a_login_would_run(of_all, name):
    """Though the file is the user's, and he could write to it."""
    path = of_all / name
    (of_all / "a").mkdir()
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    os.chown(path, ALICE, ALICE)
    with pytest.raises(write_as_user.WriteError, match="got a hidden file or directory"):
        append_report("nobody", f"{of_all}/{name}")
    assert "" == path.read_text()


@root_only
def test_no_report_is_appended_to_a_program(of_all):
    path = of_all / "job.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o744)
    os.chown(path, ALICE, ALICE)
    with pytest.raises(write_as_user.WriteError, match="it is executable"):
        append_report("nobody", path)
    path.chmod(0o644)
    append_report("nobody", path)
    assert "#!/bin/sh\nREPORT\n" == path.read_text()


@root_only
def test_no_report_is_appended_as_a_system_user(of_all):
    """Who has slurm.conf or the log of a daemon."""
    path = of_all / "slurm.conf"
    path.write_text("")
    os.chown(path, 1, 1)
    with pytest.raises(write_as_user.WriteError, match="as a system user"):
        append_report("daemon", path)
    assert "" == path.read_text()


# In the process that writes: what it has when it writes.
LOOKING = """
import json, os, sys
sys.path.insert(0, sys.argv.pop(1))
from iostats.site import write_as_user
real = write_as_user.append_bytes
def look(path, data, uid):
    names = ("Uid", "Gid", "Groups", "CapEff", "CapPrm")
    found = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    files = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")
             if os.path.lexists(f"/proc/self/fd/{one}")]
    with open("HERE/seen", "w") as file:
        json.dump({"files": files, "environ": dict(os.environ),
                   **{name: found[name].split() for name in names}}, file)
    real(path, data, uid)
write_as_user.append_bytes = look
write_as_user.serve()
"""


@root_only
def test_the_process_that_writes_for_a_user_has_nothing_of_the_servers(of_all):
    """Not its rights, its groups or its open files: the store and the port are not that user's."""
    kept = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    for one in kept:
        os.set_inheritable(one.fileno(), True)
    path = of_all / "job.out"
    path.write_text("")
    os.chown(path, ALICE, ALICE)
    command = LOOKING.replace("HERE", str(of_all))

    async def write():
        writer = write_as_user.Writer(command)
        await writer.append("nobody", str(path), "REPORT\n")
        writer.close()
    asyncio.run(write())
    seen = json.loads((of_all / "seen").read_text())
    assert (["65534"] * 4, ["65534"] * 4) == (seen["Uid"], seen["Gid"])
    assert {"LC_CTYPE"} >= set(seen["environ"])             # which Python sets itself
    assert {"0" * 16} == {*seen["CapEff"], *seen["CapPrm"]} and "0" not in seen["Groups"]
    assert 1 >= len([one for one in seen["files"] if "seen" not in one]), seen["files"]
    assert all(one.startswith("pipe:") or "seen" in one for one in seen["files"]), seen["files"]
    for one in kept:
        one.close()


@pytest.mark.parametrize("text, first", [
    ("UID_MIN\t\t\t 500\n", 500), ("#UID_MIN 7\nSYS_UID_MIN 100\nUID_MIN 1000 # people\n", 1000),
    ("UID_MIN\n", 1000), ("UID_MIN many\n", 1000), ("", 1000)])
def test_the_lowest_user_id_is_that_of_login_defs(tmp_path, text, first):
    (tmp_path / "login.defs").write_text(text)
    assert first == write_as_user.first_user_id(str(tmp_path / "login.defs"))
    assert 1000 == write_as_user.first_user_id(str(tmp_path / "nowhere"))


# -- an environment that means no good, and root --------------------------------------------------

MODULES = ("json", "os", "socket", "site", "sitecustomize", "usercustomize", "iostats", "re",
           "logging", "asyncio", "msgspec", "signal", "_thread")


@pytest.fixture
def evil(tmp_path):
    """A directory of modules and programs that leave a mark when somebody loads or runs them."""
    directory = tmp_path / "evil"
    (directory / ".iostats").mkdir(parents=True)
    mark = directory / "was-here"
    for name in MODULES:
        (directory / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    for name in ("python3", "env", "readlink", "dirname", "sh"):
        script(directory / name, f"#!/bin/sh\n/usr/bin/touch '{mark}'\n")
    (directory / "rc").write_text(f"/usr/bin/touch '{mark}'\n")
    return directory


def evil_environment(evil):
    return {"PYTHONPATH": str(evil), "PYTHONHOME": str(evil), "PYTHONSTARTUP": str(evil / "os.py"),
            "PYTHONINSPECT": "1", "PYTHONUSERBASE": str(evil), "PYTHONBREAKPOINT": "os.system",
            "HOME": str(evil), "ENV": str(evil / "rc"), "BASH_ENV": str(evil / "rc"),
            "TMPDIR": str(evil), "IFS": "/"}


def of_unit(name):
    """The command of a unit, as systemd starts it."""
    text = (REPOSITORY / "systemd" / name).read_text()
    command = re.search("^ExecStart=(.*)$", text, re.MULTILINE)[1]
    return command.replace("@PYTHON@", sys.executable).replace("@LIBDIR@", str(REPOSITORY)).split()


def test_the_agents_unit_takes_nothing_from_directory_and_environment(desk, evil):
    storage = StorageServer(desk)
    storage.show("OST0000", {"4711": moved(41_003, 0)})
    desk.site()
    config = desk.directory / "oss1.cfg"
    config.write_text(desk.text({**desk.choices, "harvest.spool_dir": storage.root / "spool"}))
    done = subprocess.run(
        [*of_unit("iostats-harvest.service"), "--once", "--root", str(storage.root), "--node",
         "oss1", "--config", str(config)], cwd=evil, env=evil_environment(evil),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert not (evil / "was-here").exists()


def test_the_site_servers_unit_takes_nothing_from_directory_and_environment(desk, evil):
    process = subprocess.Popen(
        [*of_unit("iostats-site.service"), "--config", str(desk.cfg), "--listen", "127.0.0.1"],
        cwd=evil, env=evil_environment(evil), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True)
    desk.started.append(process)
    lines = [process.stderr.readline() for _ in range(2)]        # a new secret, and where it is
    assert "the site's server on" in "".join(lines), lines
    assert [] == desk.asked("latest", count=1)
    assert not (evil / "was-here").exists()


@pytest.mark.parametrize("name", sorted(
    path.name for path in (REPOSITORY / "systemd").glob("*.service")))
def test_no_unit_leaves_a_core_with_a_secret_in_it(name):
    assert "\nLimitCORE=0\n" in (REPOSITORY / "systemd" / name).read_text()


@pytest.mark.parametrize("name", ["lsf_pre_exec", "flux_prolog", "slurm_prolog"])
def test_the_hooks_take_nothing_from_directory_and_environment(desk, evil, tmp_path, name):
    """As root they begin a job; PYTHON and IOSTATS_HOME are the user's to set with LSF alone."""
    home = tmp_path / "lib"
    shutil.copytree(REPOSITORY / "iostats", home / "iostats")
    shutil.copytree(REPOSITORY / "hooks", home / "hooks")
    shutil.copy(CLIENT, home)
    (home / "site.cfg").write_text(desk.text(desk.choices))
    text = (home / "hooks" / name).read_text()
    (home / "hooks" / name).write_text(
        text.replace("/usr/local/lib/iostats", str(home)).replace("/usr/bin/python3",
                                                                 sys.executable))
    of_user = {"PATH": str(evil), "PYTHON": str(evil / "python3"), "IOSTATS_HOME": str(evil)}
    env = {**evil_environment(evil), **({} if name.startswith("flux") else of_user),
           "IOSTATS_NODE_HOOK_DIR": str(evil / "stolen"), "SLURM_JOB_ID": "4711",
           "LSB_JOBID": "4711", "FLUX_JOB_ID": "f4711", "SLURMD_NODENAME": "nid00001",
           "SLURM_JOB_NODELIST": "nid00001"}
    keep = {"slurm": ("SLURM_", "SLURMD"), "lsf": ("LSB_",), "flux": ("FLUX_",)}
    mine = keep[name.partition("_")[0]]
    env = {key: value for key, value in env.items()
           if key.startswith(mine) or not key.startswith(("SLURM", "LSB_", "FLUX_"))}
    done = subprocess.run(["/bin/sh", home / "hooks" / name], cwd=evil, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode
    assert ["job", "start"] == sorted(path.suffix[1:] for path in desk.hooks.iterdir()), done
    assert not (evil / "was-here").exists() and not (evil / "stolen").exists()


def test_slurms_mailprog_takes_no_module_from_the_directory_it_is_in(evil, tmp_path):
    """python -m would: slurmctld's directory may be one that others write to."""
    sent = tmp_path / "sent"
    mail = script(tmp_path / "mail", f"#!/bin/sh\n/bin/cat > '{sent}'\n")
    done = subprocess.run(
        [REPOSITORY / "hooks" / "slurm_mail", "-s", "Slurm Job_id=4711 Name=x Began", "alice"],
        cwd=evil, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "PYTHONPATH": str(evil),
             "IOSTATS_SITE_MAIL_PROGRAM": str(mail)})
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert sent.exists() and not (evil / "was-here").exists()


@pytest.mark.parametrize("command", [
    [sys.executable, "-I", "-S", "iostats_client.py", "show", "--root", "nowhere"],
    [sys.executable, "-I", "iostats_server.py", "--job", "4711", "--print-port"],
    ["hooks/slurm_mail", "--help"]], ids=["client", "server", "mail"])
def test_installed_code_is_writable_by_its_owner_only(tmp_path, command):
    """Python keeps what it has compiled in a directory that it makes; root runs what is there."""
    for name in ("iostats", "hooks"):
        shutil.copytree(REPOSITORY / name, tmp_path / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("iostats_client.py", "iostats_server.py"):
        shutil.copy(REPOSITORY / name, tmp_path)
    subprocess.run(["/bin/sh", "-c", 'umask 0; exec "$@"', "sh", *command], cwd=tmp_path,
                   env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}, timeout=60,
                   stdin=subprocess.DEVNULL, capture_output=True)
    made = [path for path in tmp_path.rglob("*") if "__pycache__" in str(path)]
    assert made and [] == [path for path in made if path.stat().st_mode & 0o022]


@root_only
@pytest.mark.parametrize("owner", ["of the home", "of the directory"])
def test_root_reads_no_other_users_site_cfg(of_all, owner):
    """A sudo that keeps HOME would have root's server write where alice says."""
    home = of_all / "alice"
    (home / ".iostats").mkdir(parents=True)
    (home / ".iostats" / "site.cfg").write_text("[site]\nstore = /tmp/of-alice\n")
    load = site_config.load
    assert "/tmp/of-alice" == load(environ={"HOME": str(home)})["site.store"]
    os.chown(home if owner == "of the home" else home / ".iostats", ALICE, ALICE)
    assert "/var/lib/iostats/site.sqlite" == load(environ={"HOME": str(home)})["site.store"]


# -- directories that others can write to
# -------------------------------------------------------------

@root_only
@pytest.mark.parametrize("role", ["prolog", "epilog", "deliver"])
@pytest.mark.parametrize("wrong", ["open", "of alice", "a link"])
def test_root_sends_nothing_that_another_user_has_put_into_the_hooks_directory(desk, of_all, role,
                                                                               wrong):
    """It says so, ends with 0 (`deliver` with 1), and leaves everything as it is."""
    desk.site()
    directory = of_all / "hooks"
    directory.mkdir(0o700)
    (directory / "4711%20nid00001.23.delta").write_text(json.dumps(a_report("4711")))
    if wrong == "open":
        directory.chmod(0o777)
    elif wrong == "of alice":
        os.chown(directory, ALICE, ALICE)
    else:
        directory.rename(of_all / "elsewhere")
        directory.symlink_to(of_all / "elsewhere")
    before = contents(of_all)
    done = desk.hook(role, "nid00001", job="4711", hook_dir=directory)
    assert (1 if role == "deliver" else 0) == done.status
    assert "expected a directory of user 0 with mode 0700" in done.line
    assert before == contents(of_all) and [] == desk.records("4711")


@root_only
@pytest.mark.parametrize("wrong", ["open", "of alice", "a link"])
def test_an_agent_keeps_no_sweep_where_another_user_could_change_it(desk, of_all, wrong):
    storage = StorageServer(desk)
    storage.show("OST0000", {"4711": moved(41_003, 0)})
    spool = storage.root / "spool"
    if wrong == "a link":
        spool.symlink_to(of_all)
    else:
        spool.mkdir(0o777)
        spool.chmod(0o777 if wrong == "open" else 0o700)
        if wrong == "of alice":
            os.chown(spool, ALICE, ALICE)
    done = storage.sweep()
    assert 1 == done.status and "expected a directory of user 0 with mode 0700" in done.line
    assert [] == os.listdir(of_all)


def test_a_report_is_not_written_through_a_link_that_another_user_has_put_beside_it(
        of_all, monkeypatch):
    """Its first name is not to be guessed; where it is, nothing is written at all."""
    victim, path = of_all / "victim", of_all / "report.txt"
    victim.write_text("precious\n")
    (of_all / f"report.txt.{os.getpid()}.new").symlink_to(victim)
    report_file.write_report(str(path), "REPORT\n")
    assert ("precious\n", "REPORT\n") == (victim.read_text(), path.read_text())
    monkeypatch.setattr(report_file.os, "urandom", lambda length: b"\x23" * length)
    (of_all / f"report.txt.{'23' * 8}.new").symlink_to(victim)
    with pytest.raises(StateError, match="File exists"):
        report_file.write_report(str(path), "ANOTHER\n")
    assert ("precious\n", "REPORT\n") == (victim.read_text(), path.read_text())


@root_only
@pytest.mark.parametrize("kind", ["a link", "a FIFO"])
def test_a_report_goes_into_no_link_and_no_fifo_that_another_user_has_put_there(of_all, kind):
    """His link may lead into a file of ours, and nobody reads his FIFO; ours are written to."""
    victim, path = of_all / "victim", of_all / "report.txt"
    victim.write_text("precious\n")
    if kind == "a link":
        path.symlink_to(victim)
    else:
        os.mkfifo(path)
    os.lchown(path, ALICE, ALICE)
    with pytest.raises(StateError, match=f"not written: it is a link, or no plain file, of user "
                                         f"{ALICE}; remove it, or name another file"):
        report_file.write_report(str(path), "REPORT\n")
    assert "precious\n" == victim.read_text()
    if kind == "a link":
        os.lchown(path, 0, 0)
        report_file.write_report(str(path), "REPORT\n")
        assert "precious\nREPORT\n" == victim.read_text()


def test_a_hard_link_to_a_report_keeps_its_content(of_all):
    """A hard link that somebody made to an earlier report is not written through."""
    path = of_all / "report.txt"
    path.write_text("EARLIER\n")
    os.link(path, of_all / "second")
    report_file.write_report(str(path), "REPORT\n")
    assert ("REPORT\n", "EARLIER\n") == (path.read_text(), (of_all / "second").read_text())


def test_all_that_is_written_is_its_users_alone_whatever_the_umask_is(desk):
    """Secret, store, starts, reports that wait, sweeps that wait: 0600 in directories of 0700."""
    before = os.umask(0)
    try:
        storage = StorageServer(desk)
        storage.show("OST0000", {"4711": moved(41_003, 0)})
        desk.site_secret = desk.directory / "etc" / "iostats" / "site.secret"
        desk.configure(site_store=desk.directory / "var" / "iostats" / "site.sqlite",
                       site_secret=desk.site_secret)
        server = desk.site()
        root = desk.tree("nid00001", **BEFORE)
        assert 0 == desk.hook("prolog", root=root, job="4711").status
        desk.send(a_report("4713"))
        server.kill()
        assert 0 == desk.hook("prolog", root=root, job="4717").status
        assert 0 == desk.hook("epilog", root=root, job="4711").status
        agent = storage.agent("--once")
        until(lambda: list((storage.root / "spool").glob("*.message")), what="a sweep that waits")
        agent.kill()
        job = desk.client("start", *desk.on("nid2", desk.tree("nid2", **BEFORE)))
        assert 0 == job.status
    finally:
        os.umask(before)
    private = [desk.site_secret, *(desk.directory / "var").rglob("*"), *desk.hooks.rglob("*"),
               *(storage.root / "spool").rglob("*"), desk.state, *desk.state.rglob("*"),
               desk.directory / "var", *(desk.directory / "etc").rglob("*"), desk.directory / "etc"]
    kinds = {path.suffix for path in private}
    assert {".secret", ".sqlite", ".start", ".delta", ".job", ".message"} <= kinds
    found = {str(path): oct(stat.S_IMODE(path.lstat().st_mode)) for path in private}
    assert {} == {path: mode for path, mode in found.items() if mode not in ("0o600", "0o700")}


# -- names that mean harm -------------------------------------------------------------------------

def is_harmless(text):
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("level", levels.LEVELS, ids=lambda level: level.name)
def test_a_hostile_name_stays_text_in_top_and_query(level, text):
    """Ids, users, accounts, nodes, targets, file systems, and what was looked for."""
    class Known:
        job_of = staticmethod(str)

        @staticmethod
        def facts(id):
            return Facts(job=text, raw_job=text, user=text, account=text, name=text, nodes=text)
    part = TargetLoad(text, text, text, 20, [text], [[460], [740], [41], [23]])
    load = load_of([part], Known, at=1_795_225_060, span_s=20.0, missing={text: {text: text}})
    for ask in (LoadQuery(level.name), LoadQuery(level.name, text=text, user=text, job=text,
                                                 file_system=text)):
        answer = ranking.answer(load, ask, Known)
        if level.is_in_top:
            lines = table.lines(answer, 200)
            assert 3 < len(lines) and all(is_harmless(line) and "\n" not in line for line in lines)
        for one in level.queries:
            for row in answer["rows"] if one.kind == levels.BOTH else ():
                row.update({f"{metric}_per_s": None for metric in amounts.METRICS},
                           rates_lower_bound=True)
            tables = query_table.lines({"level": one.letter, **answer})
            assert all(is_harmless(line) and "\n" not in line for line in tables), tables


@pytest.mark.parametrize("job", ["-rf", "--delete", "4711 4713", "4711,4713", "4711'", 'a"b',
                                 "a\tb", "", "\x1b[2J", "x" * 129])
@pytest.mark.parametrize("name", ["slurm", "pbs", "lsf", "sge", "flux"])
def test_no_job_id_is_an_option_of_a_batch_systems_command(name, job, monkeypatch):
    """It is refused before any command is begun, and costs no other job its facts."""
    def begun(*command, **how):
        raise AssertionError(command)
    monkeypatch.setattr(scheduler_commands, "run_command", begun)
    monkeypatch.setattr(subprocess, "run", begun)
    with pytest.raises(IostatsError):
        schedulers.named(name).facts([job])
    assert not records.is_askable(job)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_text_in_csv(text):
    """`query --csv`: one line for each row, no formula, nothing for a terminal."""
    out = query._csv([{"job": text, "user": text, "write_bytes": 23}])
    rows = list(csv.reader(io.StringIO(out)))
    assert is_harmless(out) and 2 == len(rows) and "23" == rows[1][2]
    assert rows[1][0][0] not in "=+-@" and rows[1][0].lstrip("'") == one_line(text)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["JobID", "User", "Account", "JobName", "FileSystems", "State"])
def test_a_hostile_name_stays_text_in_jobs(field, text):
    """`iostats jobs`, as a table and with delimiters; a row is a line."""
    columns = job_list.columns_of(f"{field},Opens")
    row = {column.field.name: text for column in columns}
    row.update(opens=23, lower_bound=False)
    if columns[0].field.kind == "names":
        row[columns[0].field.name] = [text]
    for lines in (job_list.table([row], columns), job_list.parsable([row], columns)):
        heading, *_, last = list(lines)
        assert is_harmless(heading) and is_harmless(last) and 1 == last.count("\n")
        assert last.rstrip().endswith("23")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_text_in_influxdbs_lines(text):
    """One line, and the tag's value has no end but its own."""
    line = influx_lines.line(f"lustre_job{influx_lines.tags_of(job=text)}", [("opens", 23)], 37)
    assert is_harmless(line) and "\n" not in line
    head, fields, moment = re.split(r"(?<!\\) ", line)
    assert ("opens=23i", "37") == (fields, moment)
    assert 1 == len(re.findall(r"(?<!\\)=", head)) == len(re.findall(r"(?<!\\),", head))


def test_a_line_of_a_mail_is_no_command_of_a_mail_program(inside):
    """Some run what is behind ~! at the begin of a line."""
    one = a_report("4711", "nid1", about={"nodes": "nid1"})
    one["deltas"][0]["file_system"] = "~!/bin/touch x"
    inside.ask("report", one, node="nid1")
    inside.store.commit()
    inside.now += 2
    inside.make_records()
    [text] = mail.as_text(inside.records("4711"), inside.config)
    assert "~!/bin/touch x" in text
    assert not [line for line in text.splitlines() if line.startswith("~")]


def test_hostile_names_stay_text_in_a_log(inside, caplog):
    """Whoever sends them, authenticated or not; each event is one line."""
    caplog.set_level("INFO")
    for text in HOSTILE:
        for header in (f"IOSTATS-1 node={text}, time=1, nonce=0, mac=0", f"MUNGE {text}", text):
            inside.server.answer(b'{"jsonrpc":"2.0","method":"latest","id":1}', header)
        one = a_report("4711", "nid1", seq=text[:60], user=text,
                       about={"cluster": text, "user": text, "output": f"/{text}",
                              "nodes": text, "account": text})
        one["deltas"][0].update(file_system=text, why=text)
        inside.ask("report", one, node="nid1")
        inside.ask("report", {**one, "node": "nid2", "seq": "37", "reason": text[:60]}, node="nid2")
    inside.store.commit()
    inside.now += 301
    inside.make_records()
    said = [logs.OneLine().format(record) for record in caplog.records]
    assert said and all(is_harmless(text) and "\n" not in text for text in said), said


def test_a_reason_forges_no_line_of_the_log(desk):
    """Nor does what a bug's traceback says; the whole way, to the server's standard error."""
    server = desk.site()
    desk.send(a_report("4711", "nid1", reason="no start\niostats: job 4713 removed\r\x1b[2J\u202e",
                       about={"nodes": "nid1"}))
    desk.record("4711")
    until(lambda: "Job 4711" in server.err)
    [line] = [line for line in server.err.splitlines() if "Job 4711" in line]
    assert ("missing: nid1 (no start\\x0aiostats: job 4713 removed\\x0d\\x1b[2J\\x202e)") in line
    assert is_harmless(server.err.replace("\n", ""))


def test_a_traceback_in_the_log_is_no_event(capsys):
    try:
        raise ValueError("a\niostats: forged\x1b[2J")
    except ValueError:
        record = logging.LogRecord("iostats", logging.ERROR, "", 1, "of job %s", ("4711\n23",),
                                   sys.exc_info())
    first, *others = logs.OneLine().format(record).split("\n")
    assert "iostats: of job 4711\\x0a23" == first
    assert others and all(line.startswith("  | ") and is_harmless(line) for line in others)
    assert "  | iostats: forged\\x1b[2J" == others[-1]


@pytest.mark.parametrize("forged", ["2147483648", "4294967295", "9" * 31, "0", "0_1",
                                    "4294967296+1"])
def test_a_forged_id_in_job_stats_keeps_no_other_job_from_being_asked_for(forged):
    """
    A program's SLURM_JOB_ID is what its user likes.  squeue 22.05 ends with "Invalid job id" for
    these, and tells nothing of 4711, which would then have been taken for over.
    """
    asked = []

    def run(argv):
        asked.append(argv)
        return subprocess.CompletedProcess(argv, 1, "", {
            "squeue": "slurm_load_jobs error: Invalid job id specified",
            "sacct": "Slurm accounting storage is disabled"}[argv[0]])
    assert {} == schedulers.named("slurm").facts(["4711", forged], run)
    assert asked and all("--jobs=4711" in argv for argv in asked)


@pytest.mark.parametrize("scheduler", ["slurm", "lsf", "sge"])
def test_a_number_that_no_batch_system_gives_is_no_job(scheduler):
    form = job_tags.TagForm("%j", schedulers.job_id_form(scheduler))
    assert ("4294967295", "", "") == tuple(map(form.job_of, ("4294967295", "9" * 11, "9" * 31)))


# -- no network but what was asked for ------------------------------------------------------------

ADDRESS = re.compile(r"sa_family=AF_INET6?, sin6?_port=htons\((\d+)\).*?\"([0-9a-f.:]+)\"")


def met(desk, *command, status=0, env=None):
    """{(address, port)} that a command sends something to, or tries to; by strace."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    trace = desk.directory / "trace"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=connect,sendto,sendmsg,sendmmsg",
         *map(str, command)], cwd=desk.directory, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY),
                                     "HOME": str(desk.home), **(env or {})})
    assert done.returncode == status, done
    return {(address, int(port)) for port, address in ADDRESS.findall(trace.read_text())}


@pytest.mark.strace
def test_nothing_is_sent_anywhere_but_to_the_server_that_was_named(desk):
    """All roles: no name is looked up, no update is looked for, nobody is told."""
    desk.site()
    here, config = {("127.0.0.1", desk.port)}, ("--config", desk.cfg)
    client = (sys.executable, "-I", "-S", CLIENT)
    iostats = (sys.executable, "-m", "iostats")
    root = desk.tree("nid1", **BEFORE)
    on = ("--node", "nid1", "--root", root)
    assert set() == met(desk, *client, "show", *on)
    assert set() == met(desk, *client, "prolog", *on, *config, "--job", "4711")
    write_tree(root, **AFTER)
    assert here == met(desk, *client, "epilog", *on, *config, "--job", "4711", "--nodes", "nid1")
    desk.record("4711")
    assert here == met(desk, *iostats, "report", "4711", *config)
    assert here == met(desk, *iostats, "jobs", *config)
    assert here == met(desk, *iostats, "top", "--once", *config, status=3)
    assert here == met(desk, *iostats, "query", "b", *config, status=3)
    assert set() == met(desk, *iostats, "config", *config)
    server = desk.server("--nodes", "1")
    job = ("--job", desk.job, "--state-dir", desk.state)
    assert set() == met(desk, *client, "start", *on, *job)
    assert {("127.0.0.1", server.port)} == met(desk, *client, "stop", *on, *job, "--server",
                                               f"127.0.0.1:{server.port}")
    assert 0 == server.wait().status
    storage = StorageServer(desk)
    storage.show("OST0000", {"4711": moved(41_003, 0)})
    desk.configure(harvest_spool_dir=storage.root / "spool")
    assert here == met(desk, *client, "harvest", "--once", "--root", storage.root, "--node", "oss1",
                       *config)


@pytest.mark.strace
def test_a_server_opens_no_connection(tmp_path):
    """It listens, answers, and ends."""
    with Desk(tmp_path) as desk:
        assert set() == met(desk, sys.executable, REPOSITORY / "iostats_server.py", "--job",
                            desk.job, "--print-port")
        trace = tmp_path / "calls"
        if not shutil.which("strace"):
            pytest.skip("needs strace")
        port = free_port()
        process = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=connect", sys.executable,
             str(REPOSITORY / "iostats_server.py"), "--job", desk.job, "--nodes", "1", "--listen",
             f"127.0.0.1:{port}"], env=desk.environment(), cwd=tmp_path, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        desk.started.append(process)
        assert "waiting for 1 nodes" in process.stderr.readline()
        node = type("Server", (), {"port": port})
        assert 0 == desk.whole_job(node, "nid1").status
        assert 0 == process.wait(100)
        assert [] == ADDRESS.findall(trace.read_text())


@pytest.mark.strace
def test_a_secret_is_only_in_its_own_file(desk):
    """Not in a command line, an answer, a record, a log, the store, or what a node keeps."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    secret, job = "5ec2e7" * 8, "4711"
    desk.site_secret.write_text(secret)
    desk.site_secret.chmod(0o600)
    traced = ("strace", "-f", "-ff", "-qq", "-v", "-s", "1000000", "-e",
              "trace=execve,write,writev,pwrite64,sendto,sendmsg,rename,link", "-o")
    server = desk.begin_site()
    until(lambda: "the site's server on" in server.err, what="the site's server")
    with subprocess.Popen([*traced, desk.directory / "trace-server", "-p", str(server.process.pid)],
                          stderr=subprocess.PIPE) as watcher:
        until(lambda: "TracerPid:\t0\n" not in Path(
            f"/proc/{server.process.pid}/status").read_text(), what="the watcher")
        root = desk.tree("nid00001", **BEFORE)
        client = [sys.executable, "-I", "-S", CLIENT]
        for role in ("prolog", "epilog"):
            assert 0 == desk.hook(role, root=root, job=job, command=[
                *traced, desk.directory / f"trace-{role}", *client]).status
            write_tree(root, **AFTER)
        desk.record(job)
        assert 0 == desk.iostats("report", job).status
        assert 0 == server.stop().status
        watcher.wait(20)
        watcher.stderr.close()
    traces = list(desk.directory.glob("trace-*"))
    assert {"server", "prolog", "epilog"} == {path.name[6:].partition(".")[0] for path in traces}
    assert any(b"IOSTATS-MAC" in path.read_bytes() for path in traces)
    key = protocol.key_of(secret.encode(), protocol.SITE)
    found = [path.name for path in desk.directory.rglob("*") if path.is_file()
             and re.search(b"|".join(map(re.escape, (secret.encode(), key, key.hex().encode()))),
                           path.read_bytes())]
    assert [desk.site_secret.name] == found


# -- who made what we need ------------------------------------------------------------------------

def _names(path):
    return {line.partition("==")[0] for line in path.read_text().splitlines()
            if re.match(r"[a-z0-9-]+==", line)}


def test_ci_installs_what_the_project_says_and_nothing_without_a_hash():
    """tools/requirements-ci.txt: every package of pyproject.toml, each with its hashes."""
    lines = (REPOSITORY / "tools" / "requirements-ci.txt").read_text().splitlines()
    heads = [at for at, line in enumerate(lines) if re.match(r"\S", line) and line[0] != "#"]
    assert all("==" in lines[at] and "--hash=sha256:" in lines[at + 1] for at in heads)
    wanted = set()
    text = (REPOSITORY / "pyproject.toml").read_text().partition("[project.optional-dependencies]")
    for extra in ("server", "mpi", "sim", "test", *sinks.names()):
        listed = re.search(rf"^{extra} = \[(.*?)\](?:\s*#.*)?$", text[2],
                           re.MULTILINE | re.DOTALL)[1]
        wanted.update(name.lower().replace("_", "-")
                      for name in re.findall(r'"([A-Za-z0-9_.-]+)', listed))
    assert set() == wanted - _names(REPOSITORY / "tools" / "requirements-ci.txt")


def test_the_licence_of_each_package_is_on_the_list():
    """docs/licences.md, compared with what is installed here."""
    from importlib import metadata
    sys.path.insert(0, str(REPOSITORY / "tools"))
    try:
        import licences
    finally:
        sys.path.pop(0)
    listed = licences.listed((REPOSITORY / "docs" / "licences.md").read_text())
    assert set() == _names(REPOSITORY / "tools" / "requirements-ci.txt") - set(listed)
    differ = {}
    for name, (licence, _) in listed.items():
        assert licences.families(licence), f"{name}: {licence}"
        try:
            found = licences.of(metadata.metadata(name))
        except metadata.PackageNotFoundError:
            continue
        # Older releases of a package, for older Pythons, may say it in other words.
        if not licences.families(found) & licences.families(licence):
            differ[name] = (licence, found)
    assert {} == differ
