"""
Who may read and write what at the site's server, whatever a user asks or a node says.
docs/explanation/security.md names these tests.
"""
from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket

import pytest
import sweep_blocks
from processes import REPOSITORY
from site_desk import a_report
from site_inside import answer_to

from iostats import sinks
from iostats.base import config as site_config
from iostats.base.job_facts import Facts
from iostats.jobs import write_as_user
from iostats.server.job_server import JobServer
from iostats.server.rpc_server import Caller
from iostats.totals.job_totals import Totals
from iostats.wire import auth, protocol

ALICE, BOB = 65534, 54321                      # a user with a name here, and one without
as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")]
root_only = pytest.mark.parametrize("", [pytest.param(marks=as_root)])


# -- an ordinary user who asks the site's server --------------------------------------------------

def as_user(inside, uid, method, **params):
    """What the site's server answers to a user that munge has named; None: root by the secret."""
    return answer_to(inside.server, Caller("login1", uid), method, **params)


def sweep(inside, seq, jobs, node="oss1"):
    """The params of packed_sweep of a storage server, of {job: bytes written}."""
    ids, now = list(jobs), inside.now
    block = sweep_blocks.Block(
        file_system="scratch", target="OST0000", read_at=now, cleanup_s=600, ended=True,
        entries=len(ids), ids=ids, started=[(now - 300) * 1e9] * len(ids),
        seen=[now * 1e9] * len(ids), counters={"write_bytes": sweep_blocks.Column(
            "bytes", list(range(len(ids))), [23] * len(ids), sum=list(jobs.values()))})
    return sweep_blocks.params({"node": node, "run": "1" * 16, "seq": seq, "full": seq == 1,
                                "slot": int(now), "every": 20, "last": True}, [block])


@pytest.fixture
def two_users(inside):
    """Job 4711 is nobody's (user 65534), and 4713 is bob's; nodes and storage servers have told."""
    for job, user, moved_bytes in (("4711", "nobody", 41_003), ("4713", "bob", 53_007)):
        inside.send(job, "nid1", read_bytes=moved_bytes,
                    about={"nodes": "nid1", "user": user, "account": f"of-{user}"})
    for number in (1, 2):
        inside.now += 20
        params = sweep(inside, number, {"4711": 37_000 * number, "4713": 59_000 * number})
        answer = as_user(inside, None, "packed_sweep", **params)
        assert "error" in answer                                 # of another node than its header
        taken = json.loads(inside.answer("packed_sweep", params, node="oss1"))
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
    *(("query", {"level": level}) for level in "abcde"), ("query", {"level": "a", "job": "4713"}),
    ("job_history", {"job": "4711"}), ("file_system_lines", {
        "file_system": "scratch", "since": 1_795_225_000, "until": 1_795_226_000})]


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
    ("report", a_report("4719", "login1")), ("packed_sweep", sweep(
        type("Now", (), {"now": 1_795_225_060.0}), 1, {"4711": 23}, "login1"))],
    ids=["report", "packed_sweep"])
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
        assert "there is no user 54321 here" in as_user(
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
    assert [] == sinks.make_sinks(config, print) and "" == config.get_value("prometheus.listen")
    assert "such as 127.0.0.1:9464; everyone who can connect sees" in (
        REPOSITORY / "docs/reference/site_cfg.md").read_text()


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
from iostats.jobs import write_as_user
real = write_as_user.append_bytes
def scan(path, data, uid, *more):
    names = ("Uid", "Gid", "Groups", "CapEff", "CapPrm")
    found = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    files = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")
             if os.path.lexists(f"/proc/self/fd/{one}")]
    with open("HERE/seen", "w") as file:
        json.dump({"files": files, "environ": dict(os.environ),
                   **{name: found[name].split() for name in names}}, file)
    real(path, data, uid, *more)
write_as_user.append_bytes = scan
write_as_user.serve()
"""


@root_only
def test_the_process_that_writes_for_a_user_has_nothing_of_the_servers(of_all):
    """Not its rights, its groups or its open files: the store and the port are not that user's."""
    path = of_all / "job.out"
    path.write_text("")
    os.chown(path, ALICE, ALICE)
    command = LOOKING.replace("HERE", str(of_all))

    async def write():
        writer = write_as_user.Writer(command)
        await writer.append("nobody", str(path), "REPORT\n")
        writer.close()
    with contextlib.ExitStack() as kept:
        for _ in range(3):
            server = kept.enter_context(socket.create_server(("127.0.0.1", 0)))
            os.set_inheritable(server.fileno(), True)
        asyncio.run(write())
    seen = json.loads((of_all / "seen").read_text())
    assert (["65534"] * 4, ["65534"] * 4) == (seen["Uid"], seen["Gid"])
    assert {"LC_CTYPE"} >= set(seen["environ"])             # which Python sets itself
    assert {"0" * 16} == {*seen["CapEff"], *seen["CapPrm"]} and "0" not in seen["Groups"]
    assert 1 >= len([one for one in seen["files"] if "seen" not in one]), seen["files"]
    assert all(one.startswith("pipe:") or "seen" in one for one in seen["files"]), seen["files"]


@pytest.mark.parametrize("text, first", [
    ("UID_MIN\t\t\t 500\n", 500), ("#UID_MIN 7\nSYS_UID_MIN 100\nUID_MIN 1000 # people\n", 1000),
    ("UID_MIN\n", 1000), ("UID_MIN many\n", 1000), ("", 1000)])
def test_the_lowest_user_id_is_that_of_login_defs(tmp_path, text, first):
    (tmp_path / "login.defs").write_text(text)
    assert first == write_as_user.read_first_user_id(str(tmp_path / "login.defs"))
    assert 1000 == write_as_user.read_first_user_id(str(tmp_path / "nowhere"))
