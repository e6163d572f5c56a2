"""
iostats_client.py from outside in: `python3 -I -S` on trees of a few counter files, with numbers
that are exact.

What the job does between `start` and `stop` is AFTER less BEFORE of processes.py: 23 reads of
together 41,003 bytes, 37 writes of together 53,007 bytes, 43 opens, 13 mkdirs, 19 RPCs each way.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from processes import (
    AFTER,
    BEFORE,
    CLIENT,
    LLITE,
    REPOSITORY,
    Desk,
    Done,
    Listener,
    contents,
    interpreters,
    job_with_free_ports,
    new_job,
    until,
    write_tree,
)

from iostats.base import config as site
from iostats.base.errors import NotDelivered
from iostats.wire import client

NOBODY = 65534
LATER = dict(reads=1_000, read_bytes=1_000_000, writes=1_000, write_bytes=1_000_000, opens=1_000,
             mkdirs=1_000, rpcs=1_000)


DESK = Desk


def stop(desk, root, server=None, **how):
    """`stop` on nid00023; at once, not for a minute, where there is no server."""
    if server is None:
        how["env"] = {"IOSTATS_NODE_RETRY_TIMEOUT": "0", **how.get("env", {})}
    return desk.client("stop", "--server", f"127.0.0.1:{server.port}" if server else "127.0.0.1",
                       *desk.on("nid00023", root), **how)


def application(record):
    [fs] = record["file_systems"]
    return {name: fs["application"][name] for name in
            ("read_bytes", "write_bytes", "read_calls", "write_calls")}


THE_WORK = {"read_bytes": 41_003, "write_bytes": 53_007, "read_calls": 23, "write_calls": 37}


# -- every Python ----------------------------------------------------------------------------

@pytest.mark.parametrize("python", [path for _, path in interpreters()],
                         ids=[version for version, _ in interpreters()])
def test_start_show_and_stop_work_with_the_standard_library_of_every_python(desk, python):
    """`python3 -I -S`, 3.9 and newer, whatever is on this machine."""
    server = desk.server("--nodes", "1", "--format", "json")
    root = desk.tree(**BEFORE)
    on = desk.on("nid00023", root)
    assert (0, "") == _status_and_err(desk.client("start", *on, python=python))
    write_tree(root, **AFTER)
    shown = desk.client("show", "--json", "--root", root, python=python, job=False)
    assert (0, "") == _status_and_err(shown)
    assert {"read_bytes": 48_003, "write_bytes": 62_007, "read_calls": 28,
            "write_calls": 40} == application(shown.record)
    assert (0, "") == _status_and_err(desk.client(
        "stop", "--server", f"127.0.0.1:{server.port}", *on, python=python))
    assert THE_WORK == application(server.wait().record)


def _status_and_err(done):
    return done.status, done.err


# -- start and stop --------------------------------------------------------------------------

def test_the_numbers_are_those_of_the_work_between_start_and_stop(desk, worked):
    """Each number of each counter file, and nothing from before the start."""
    server = desk.server("--nodes", "1", "--format", "json")
    assert (0, "") == _status_and_err(stop(desk, worked, server))
    record = server.wait().record
    [fs] = record["file_systems"]
    assert THE_WORK == application(record)
    assert {"read_bytes": 41_003, "write_bytes": 53_007, "read_rpcs": 19, "write_rpcs": 19,
            "lower_bound": False} == fs["network"]
    assert {"open": (43, 0.043), "mkdir": (13, 0.026)} == {
        name: (row["count"], row["seconds"]) for name, row in fs["operations"].items()}
    assert ("scratch", False, []) == (fs["name"], fs["lower_bound"], fs["notes"])
    assert [] == record["notes"]


def test_the_ancestors_form_still_works(desk):
    """`iostats_client.py 1` and `iostats_client.py 2 SERVERHOST`."""
    desk.job, _ = job_with_free_ports(1)
    server = desk.server("--nodes", "1", "--format", "json")
    root = desk.tree(**BEFORE)
    assert (0, "") == _status_and_err(desk.client("1", *desk.on("nid00023", root)))
    write_tree(root, **AFTER)
    assert (0, "") == _status_and_err(desk.client("2", "127.0.0.1", *desk.on("nid00023", root)))
    assert THE_WORK == application(server.wait().record)


def test_the_server_can_be_named_by_the_configuration(desk, worked):
    """[server] host instead of --server."""
    server = desk.server("--nodes", "1", "--format", "json")
    (desk.directory / "site.cfg").write_text(f"[server]\nhost = 127.0.0.1:{server.port}\n")
    done = desk.client("stop", "--config", desk.directory / "site.cfg",
                       *desk.on("nid00023", worked))
    assert (0, "") == _status_and_err(done)
    assert THE_WORK == application(server.wait().record)


def test_a_second_start_keeps_the_first(desk, worked):
    """One line, status 0, and the numbers are those since the first start."""
    server = desk.server("--nodes", "1", "--format", "json")
    done = desk.client("start", *desk.on("nid00023", worked))
    assert 0 == done.status
    assert re.fullmatch(rf"iostats: job {desk.job} was started on nid00023 already, \d+ s ago; "
                        r"that start stays valid \(--again replaces it\)", done.line)
    stop(desk, worked, server)
    assert THE_WORK == application(server.wait().record)


def test_start_again_forgets_the_first(desk, worked):
    """--again: what was done before does not count."""
    server = desk.server("--nodes", "1", "--format", "json")
    assert (0, "") == _status_and_err(desk.client("start", "--again", *desk.on("nid00023", worked)))
    stop(desk, worked, server)
    assert {"read_bytes": 0, "write_bytes": 0, "read_calls": 0, "write_calls": 0} == application(
        server.wait().record)


def test_a_job_may_be_measured_in_parts(desk, worked):
    """start, stop, start, stop: the parts are added."""
    server = desk.server("--nodes", "2", "--format", "json")
    assert 0 == stop(desk, worked, server).status
    # What lies between the parts is not the job's: the counters move on before the second start.
    write_tree(worked, **BEFORE)
    assert 0 == desk.client("start", *desk.on("nid00023", worked)).status
    write_tree(worked, **AFTER)
    assert 0 == stop(desk, worked, server).status
    record = server.stop().record
    assert {"read_bytes": 82_006, "write_bytes": 106_014, "read_calls": 46,
            "write_calls": 74} == application(record)
    assert 1 == record["coverage"]["reported"]


def test_eight_starts_at_once_leave_one(desk):
    """As `srun` does with eight tasks on a node: one snapshot, all of them status 0."""
    root = desk.tree(**BEFORE)
    running = [desk.begin_client("start", *desk.on("nid00023", root)) for _ in range(8)]
    done = [finish() for finish in running]
    assert [0] * 8 == [one.status for one in done]
    assert 7 == sum("was started on nid00023 already" in one.err for one in done)
    assert [f"{desk.job}%20nid00023.start"] == os.listdir(desk.state)


# -- which job, which node -------------------------------------------------------------------

VARIABLES = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID", "COBALT_JOBID"]


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_job_is_the_one_of_the_batch_system(desk, variable):
    """Each variable alone."""
    root = desk.tree(**BEFORE)
    done = desk.client("start", *desk.on("nid00023", root), job=False, env={variable: "4711.pbs"})
    assert (0, "") == _status_and_err(done)
    assert ["4711%2Epbs%20nid00023.start"] == os.listdir(desk.state)


@pytest.mark.parametrize("first, second", list(zip(VARIABLES, VARIABLES[1:])))
def test_of_two_variables_the_earlier_one_of_the_list_counts(desk, first, second):
    """In the order of --help."""
    root = desk.tree(**BEFORE)
    desk.client("start", *desk.on("nid00023", root), job=False, env={second: "37", first: "23"})
    assert ["23%20nid00023.start"] == os.listdir(desk.state)


def test_the_job_of_the_command_line_wins(desk):
    """--job 41 although SLURM_JOB_ID is 23."""
    root = desk.tree(**BEFORE)
    desk.client("start", *desk.on("nid00023", root), job="41", env={"SLURM_JOB_ID": "23"})
    assert ["41%20nid00023.start"] == os.listdir(desk.state)


def test_a_site_can_name_another_variable(desk):
    """[node] job_id_variables; the usual ones then do not count."""
    (desk.directory / "site.cfg").write_text("[node]\njob_id_variables = MY_JOB\n")
    desk.client("start", *desk.on("nid00023", desk.tree(**BEFORE)), "--config", "site.cfg",
                job=False, env={"SLURM_JOB_ID": "23", "MY_JOB": "37"})
    assert ["37%20nid00023.start"] == os.listdir(desk.state)


def test_two_jobs_and_two_nodes_do_not_get_into_each_others_way(desk):
    """One shared state directory, as in a home that all nodes see."""
    root = desk.tree(**BEFORE)
    for job, node in (("23", "n1"), ("23", "n2"), ("37", "n1")):
        assert (0, "") == _status_and_err(desk.client("start", *desk.on(node, root), job=job))
    assert ["23%20n1.start", "23%20n2.start", "37%20n1.start"] == sorted(os.listdir(desk.state))


@pytest.mark.parametrize("variables, node", [
    ({"SLURMD_NODENAME": "nid00041"}, "nid00041"),
    ({}, os.uname().nodename.partition(".")[0]),
    ({"SLURMD_NODENAME": "no/name"}, os.uname().nodename.partition(".")[0]),
], ids=["Slurm's", "the host's", "Slurm's is none"])
def test_a_node_has_slurms_name_or_its_hosts(desk, variables, node):
    """Without --node."""
    done = desk.client("show", "--json", "--root", desk.tree(**BEFORE), job=False, env=variables)
    assert node == done.record["node"]


# -- what is kept on the node ----------------------------------------------------------------

def test_the_start_is_private_and_gone_after_a_delivered_stop(desk, worked):
    """0600 in 0700, and an empty directory in the end."""
    [path] = desk.state.iterdir()
    assert f"{desk.job}%20nid00023.start" == path.name
    assert 0o700 == stat.S_IMODE(desk.state.stat().st_mode)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    server = desk.server("--nodes", "1")
    stop(desk, worked, server)
    assert [] == os.listdir(desk.state)


def test_the_umask_of_the_job_does_not_open_the_start_to_others(desk):
    """umask 0 in a job script."""
    done = subprocess.run(
        ["sh", "-c", 'umask 0; exec "$@"', "sh", sys.executable, CLIENT, "start", "--job", "23",
         *map(str, desk.on("n", desk.tree(**BEFORE)))], env=desk.environment())
    assert 0 == done.returncode
    assert 0o700 == stat.S_IMODE(desk.state.stat().st_mode)
    assert 0o600 == stat.S_IMODE((desk.state / "23%20n.start").stat().st_mode)


def test_a_state_directory_that_is_a_link_is_refused(desk):
    """Status 1, one line; nothing is written where the link leads."""
    (desk.directory / "real").mkdir(mode=0o700)
    desk.state.symlink_to(desk.directory / "real")
    done = desk.client("start", *desk.on("n", desk.tree(**BEFORE)))
    assert 1 == done.status
    assert "with mode 0700, got a link or a file" in done.line
    assert [] == os.listdir(desk.directory / "real")


def test_a_start_file_that_is_a_link_is_not_followed(desk):
    """What it leads to is as it was, and `stop` does not believe it."""
    desk.state.mkdir(mode=0o700)
    (desk.directory / "precious").write_text("23")
    link = desk.state / f"{desk.job}%20nid00023.start"
    link.symlink_to(desk.directory / "precious")
    root = desk.tree(**BEFORE)
    done = stop(desk, root)
    assert 1 == done.status
    assert "got a link, a directory or a file of user" in done.line
    assert 0 == desk.client("start", *desk.on("nid00023", root)).status
    assert "23" == (desk.directory / "precious").read_text()
    assert not link.is_symlink()


# -- no server -------------------------------------------------------------------------------

def test_a_stop_that_reaches_nobody_keeps_the_delta_and_says_where(desk, worked):
    """Status 3; the file that it names is there, and private."""
    done = stop(desk, worked)
    assert 3 == done.status
    named = re.search(r"stored in (\S+), `stop` again sends it$", done.line)[1]
    assert named.endswith(".delta")
    assert [Path(named).name] == os.listdir(desk.state)
    assert 0o600 == stat.S_IMODE(os.stat(named).st_mode)
    assert 41_003 == json.loads(Path(named).read_bytes())["deltas"][0]["values"]["read_bytes"]


def test_a_second_stop_delivers_what_the_first_one_measured(desk, worked):
    """Not what the node did in between: that was after the job."""
    assert 3 == stop(desk, worked).status
    write_tree(worked, **LATER)
    server = desk.server("--nodes", "1", "--format", "json")
    assert (0, "") == _status_and_err(stop(desk, worked, server))
    assert THE_WORK == application(server.wait().record)
    assert [] == os.listdir(desk.state)


def test_a_stop_that_died_between_its_steps_is_finished_and_not_measured_again(desk, worked):
    """The delta is kept and the start not yet removed: the delta counts."""
    [begun] = desk.state.iterdir()
    data = begun.read_bytes()
    assert 3 == stop(desk, worked).status
    begun.write_bytes(data)
    write_tree(worked, **LATER)
    server = desk.server("--nodes", "1", "--format", "json")
    assert (0, "") == _status_and_err(stop(desk, worked, server))
    assert THE_WORK == application(server.wait().record)
    assert [] == os.listdir(desk.state)


def test_what_a_killed_start_has_left_is_gone_after_a_delivered_stop(desk, worked):
    """A piece of this job's file, and one of another's, which stays."""
    mine = desk.state / f"{desk.job}%20nid00023.start.0123456789abcdef.new"
    other = desk.state / "23%20nid00023.start.0123456789abcdef.new"
    mine.write_text("half")
    other.write_text("half")
    server = desk.server("--nodes", "1", "--format", "json")
    assert 0 == stop(desk, worked, server).status
    assert [other] == list(desk.state.iterdir())


def test_sending_twice_counts_once(desk, worked):
    """The delta is put back after it was delivered, as after a lost answer."""
    assert 3 == stop(desk, worked).status
    [delta] = desk.state.iterdir()
    data = delta.read_bytes()
    server = desk.server("--nodes", "2", "--format", "json")
    assert (0, "") == _status_and_err(stop(desk, worked, server))
    assert not delta.exists()
    delta.write_bytes(data)
    done = stop(desk, worked, server)
    assert (0, "iostats: this report was counted before") == (done.status, done.line)
    assert not delta.exists()
    record = server.stop().record
    assert THE_WORK == application(record)
    assert 1 == record["coverage"]["reported"]


def test_a_new_start_does_not_lose_a_delta_that_waits(desk, worked):
    """Both parts are delivered by one `stop`."""
    assert 3 == stop(desk, worked).status
    assert (0, "") == _status_and_err(desk.client("start", *desk.on("nid00023", worked)))
    write_tree(worked, **{**AFTER, "read_bytes": 48_010, "reads": 29})
    server = desk.server("--nodes", "2", "--format", "json")
    assert 0 == stop(desk, worked, server).status
    assert {"read_bytes": 41_010, "write_bytes": 53_007, "read_calls": 24,
            "write_calls": 37} == application(server.stop().record)
    assert [] == os.listdir(desk.state)


def test_stop_waits_for_a_server_that_comes_later(desk, worked):
    """It tries again with growing waits, and says so, until the server is there."""
    finish = desk.begin_client("stop", "--server", "127.0.0.1", *desk.on("nid00023", worked))
    until(lambda: list(desk.state.glob("*.delta")), what="the delta")
    server = desk.server("--nodes", "1", "--format", "json")
    done = finish()
    assert 0 == done.status
    assert all(re.search(r"; trying again for \d+ s$", line) for line in done.lines)
    assert len(set(done.lines)) == len(done.lines)           # a reason is said once
    assert THE_WORK == application(server.wait().record)


def test_quiet_says_nothing_of_retries(desk, worked):
    """One line at the end, which is the error."""
    done = desk.client("stop", "--quiet", "--server", "127.0.0.1", *desk.on("nid00023", worked),
                       env={"IOSTATS_NODE_RETRY_TIMEOUT": "2"})
    assert 3 == done.status
    assert re.search(r"nid00023: [1-9] tries in \d+ s: ", done.line)


def test_the_waits_between_tries_grow_and_end(desk, worked):
    """From a quarter of a second to eight, each between half and one and a half of it."""
    report = {"job": desk.job, "node": "nid00023"}
    (desk.home / "secret").write_text("0123456789abcdef0123456789abcdef")
    (desk.home / "secret").chmod(0o600)
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 8:
            raise KeyboardInterrupt

    config = site.load(environ={"IOSTATS_NODE_RETRY_TIMEOUT": "1000",
                                "IOSTATS_SERVER_PORT_TRIES": "1"})
    with pytest.raises(KeyboardInterrupt):
        client.deliver(report, "127.0.0.1", str(desk.home / "secret"), config, sleep=sleep,
                       method="report")
    for nominal, real in zip((0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0), slept):
        assert 0.5 * nominal <= real <= 1.5 * nominal


def test_a_server_is_found_behind_ports_that_accept_and_never_answer(desk, worked):
    """Squatters that are silent: the next port is tried beside them, long before their time."""
    assert 3 == stop(desk, worked).status
    [delta] = desk.state.iterdir()
    report = {**json.loads(delta.read_bytes())}
    report["job"], [first, second, third] = job_with_free_ports(3)
    with Listener(first, None) as one, Listener(second, None) as other:
        server = desk.server("--nodes", "1", "--format", "json", job=report["job"])
        assert third == server.port
        answer = client.deliver(report, "127.0.0.1",
                                str(desk.home / ".iostats" / f"{report['job']}.secret"),
                                site.load(environ={"IOSTATS_NODE_RETRY_TIMEOUT": "9"}),
                                method="report")
        assert 1 == one.met == other.met
    assert {"counted": True, "why": ""} == answer
    assert THE_WORK == application(server.wait().record)


def test_silent_squatters_on_all_ports_cost_no_more_than_the_time_there_is(desk):
    """The two seconds of a single try, for five ports together."""
    desk.job, ports = job_with_free_ports(5)
    (desk.home / "secret").write_text("0123456789abcdef0123456789abcdef")
    (desk.home / "secret").chmod(0o600)
    config = site.load(environ={"IOSTATS_SERVER_PORT_TRIES": "5",
                                "IOSTATS_NODE_RETRY_TIMEOUT": "0"})
    with contextlib.ExitStack() as held, pytest.raises(NotDelivered) as failed:
        for port in ports:
            held.enter_context(Listener(port, None))
        client.deliver({"job": desk.job, "node": "nid00023"}, "127.0.0.1",
                       str(desk.home / "secret"), config, method="report")
    assert "nid00023: 1 tries in 2 s: " in str(failed.value)


@pytest.mark.parametrize("thread_is_late", [False, True])
def test_when_strangers_sit_on_the_ports_the_error_names_them(desk, monkeypatch, thread_is_late):
    """
    Each port and what was met there; trying goes on until the time is over, also where a busy node
    gives the one who waits for an answer no processor until later than that.
    """
    desk.job, [first, second] = job_with_free_ports(2)
    (desk.home / "secret").write_text("0123456789abcdef0123456789abcdef")
    (desk.home / "secret").chmod(0o600)
    config = site.load(environ={"IOSTATS_SERVER_PORT_TRIES": "2",
                                "IOSTATS_NODE_RETRY_TIMEOUT": "0"})
    with Listener(first, None) as silent, Listener(second, b"HTTP/1.0 200 OK\r\n\r\n"), \
            pytest.raises(NotDelivered) as failed:
        if thread_is_late:
            receive = client._Conversation._receive

            def late(conversation):
                if conversation._connection.getpeername()[1] == silent.port:
                    time.sleep(3)
                receive(conversation)
            monkeypatch.setattr(client._Conversation, "_receive", late)
        client.deliver({"job": desk.job, "node": "nid00023"}, "127.0.0.1",
                       str(desk.home / "secret"), config, method="report")
    assert f"no answer from the server of job {desk.job}: port " in str(failed.value)
    for text in (f"port {first}: the program on the port does not answer",
                 f"port {second}: the port is in use by another program"):
        assert text in str(failed.value)


# -- --never-fail ----------------------------------------------------------------------------

@pytest.mark.parametrize("arguments, status", [
    (("stop", "--server", "127.0.0.1", "--node", "n"), 2),
    (("start", "--node", "n", "--root", "/no/such/directory"), 2),
    (("start", "--node", "n", "--config", "/no/such/site.cfg"), 2),
    (("sart",), 2),
    (("start", "--nonsense"), 2),
    (("stop", "--server", "127.0.0.1:http"), 2),
], ids=["no start", "no root", "no site.cfg", "no such role", "no such option", "no such port"])
def test_never_fail_says_the_error_and_exits_with_0(desk, arguments, status):
    """For a prolog, where any other status would take the node out of service."""
    plain = desk.client(*arguments, "--state-dir", desk.state)
    assert status == plain.status
    never = desk.client(*arguments, "--state-dir", desk.state, "--never-fail")
    assert 0 == never.status
    assert plain.line == never.line


def test_never_fail_keeps_an_undelivered_delta_all_the_same(desk, worked):
    """Status 0, the line says where, the file is there."""
    done = desk.client("stop", "--never-fail", "--server", "127.0.0.1",
                       *desk.on("nid00023", worked), env={"IOSTATS_NODE_RETRY_TIMEOUT": "0"})
    assert 0 == done.status
    assert "`stop` again sends it" in done.line
    assert 1 == len(os.listdir(desk.state))


# -- show ------------------------------------------------------------------------------------

def test_show_prints_this_nodes_counters(desk):
    """48,003 bytes are 46.9 KiB, 62,007 are 60.6 KiB; needs no job, no server, no start."""
    done = desk.client("show", "--node", "nid00023", "--root", desk.tree(**AFTER), job=False)
    assert (0, "") == (done.status, done.err)
    assert """\
scratch on /scratch: since the counters began on nid00023
  read (application)   46.9 KiB  28 calls
  write (application)  60.6 KiB  40 calls
  read (network)       46.9 KiB   21 RPCs
  write (network)      60.6 KiB   21 RPCs
  open                       54   0.054 s
  mkdir                      15   0.030 s
""" == done.out


def test_show_json_has_every_counter_of_every_file(desk):
    """As the kernel printed them, with the sums beside."""
    done = desk.client("show", "--json", "--node", "nid00023", "--root", desk.tree(**AFTER),
                       job=False)
    assert (0, "") == (done.status, done.err)
    record = done.record
    assert ["nid00023", "scratch"] == [record["node"], record["file_systems"][0]["name"]]
    files = {one["path"]: one for one in record["files"]}
    assert {"samples": 54, "unit": "usecs", "min": 31, "max": 8117, "sum": 54_000,
            "sumsq": 402653184} == files[LLITE]["counters"]["open"]
    assert 1_795_225_391_218_307_760 == files[LLITE]["snapshot_ns"]
    assert [None] * len(files) == [one["unreadable"] for one in files.values()]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_show_changes_nothing(desk, worked, form):
    """The tree, the state directory and the home are as they were, byte for byte."""
    before = contents(desk.directory)
    assert 0 == desk.client("show", *form, *desk.on("nid00023", worked)).status
    assert before == contents(desk.directory)


def test_show_makes_no_state_directory(desk):
    """Nothing at all is written by a new user's first command."""
    desk.client("show", *desk.on("nid00023", desk.tree(**AFTER)))
    assert not desk.state.exists()
    assert [] == list(desk.home.iterdir())


def test_show_of_a_pipe_that_was_closed_is_no_error(desk):
    """`iostats_client.py show | head -1`."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -I -S {CLIENT} show --json --root node | head -c 5; "
                     f"echo"],
        cwd=desk.tree(**AFTER).parent, env=desk.environment(), capture_output=True, text=True)
    assert ("{\n  \"\n", "") == (done.stdout, done.stderr)


@pytest.fixture
def public():
    """A directory that every user can enter, with a copy of the client."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    shutil.copytree(REPOSITORY / "iostats", directory / "iostats",
                    ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CLIENT, directory / "iostats_client.py")
    yield directory
    shutil.rmtree(directory)


def as_nobody(*arguments, **how):
    """Run a command as user 65534; the Done."""
    done = subprocess.run(list(map(str, arguments)), user=NOBODY, group=NOBODY, extra_groups=[],
                          capture_output=True, text=True, cwd="/",
                          env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}, **how)
    return Done(done.returncode, done.stdout, done.stderr)


def python_for_nobody():
    """A Python that user 65534 can run; ours may be in root's home."""
    for path in ("/usr/bin/python3", *(path for _, path in interpreters())):
        try:
            if as_nobody(path, "-I", "-S", "-c", "").status == 0:
                return path
        except OSError:
            continue
    pytest.skip("no Python that another user may run")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_show_works_for_a_user_who_may_not_read_debugfs(public):
    """What /proc shows to all is shown, the rest is `-`, never 0, and the reason is named."""
    root = write_tree(public / "node", **AFTER)
    (root / "sys/kernel/debug").chmod(0o700)
    done = as_nobody(python_for_nobody(), "-I", "-S", public / "iostats_client.py", "show",
                     "--node", "nid00023", "--root", root)
    assert (0, "") == (done.status, done.err)
    assert re.search(r"^  read \(application\) +- +-$", done.out, re.M)
    assert re.search(r"^  close \(MDT0000\) +54$", done.out, re.M)
    assert "note: nid00023: llite: permission denied" in done.out


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_when_no_counter_may_be_read_it_says_who_may(public):
    """Status 1 and one line; not a table of zeros."""
    root = write_tree(public / "node", **AFTER)
    for path in ("sys/kernel/debug", "proc/fs"):
        (root / path).chmod(0o700)
    (root / "sys/fs/lustre").chmod(0o755)
    state = public / "state"
    state.mkdir()
    state.chmod(0o700)
    os.chown(state, NOBODY, NOBODY)
    command = (python_for_nobody(), "-I", "-S", public / "iostats_client.py", "start", "--job",
               "23", "--node", "nid00023", "--root", root, "--state-dir", state)
    done = as_nobody(*command)
    assert 1 == done.status
    assert "counter files could be read: permission denied; start the client as root" in done.line


# -- the command line ------------------------------------------------------------------------

@pytest.mark.parametrize("arguments", [("-h",), ("--help",), ("start", "--help")])
def test_help_is_what_the_documents_show(desk, arguments):
    """The same text, four blanks in."""
    done = desk.client(*arguments, job=False)
    assert (0, "") == (done.status, done.err)
    page = (REPOSITORY / "docs/reference/commands.md").read_text(encoding="utf-8")
    shown = "".join(f"    {line}\n" if line else "\n" for line in done.out.splitlines())
    assert shown in page


@pytest.mark.parametrize("arguments, named", [
    ((), "'nothing'"), (("begin",), "'begin'"), (("start", "stop"), "'start stop'"),
    (("3",), "'3'"), (("1", "login1"), "'1 login1'"), (("2", "a", "b"), "'2 a b'"),
    (("start", "--srver", "x"), "'--srver'"), (("start", "-x"), "'-x'"),
    (("start", "--job"), "--job"), (("start", "--json=yes"), "'--json=yes'"),
    (("start", "--node", "a b"), "'a b'"), (("start", "--node", ""), "''"),
    (("start", "--node", "n" * 254), "--node"), (("start", "--node", "../x"), "'../x'"),
    (("start", "--root", "no/such"), "'no/such'"),
    (("stop", "--server", "host:0"), "'host:0'"), (("stop", "--server", "[::1]x"), "--server"),
    (("stop", "--server", "host:65536"), "'host:65536'"), (("stop", "--server", ":23"), "':23'"),
    (("stop",), "--server"),
], ids=repr)
def test_a_wrong_command_line_is_one_line_that_names_what_is_wrong(desk, arguments, named):
    """Status 2, and nothing is made."""
    done = desk.client(*arguments, job=False, env={
        "SLURM_JOB_ID": new_job(), "IOSTATS_NODE_RETRY_TIMEOUT": "0",
        "IOSTATS_NODE_STATE_DIR": str(desk.state)})
    assert 2 == done.status
    assert not desk.state.exists()
    assert named in done.line


def test_an_option_takes_its_value_with_a_blank_or_an_equals_sign(desk):
    """--job 23 and --job=23."""
    root = desk.tree(**BEFORE)
    desk.client("start", "--job=23", f"--node=n{37}", f"--root={root}",
                f"--state-dir={desk.state}", job=False)
    assert ["23%20n37.start"] == os.listdir(desk.state)


def test_a_root_is_taken_for_the_machine(desk):
    """--root: nothing of this machine is read, not even its mounts."""
    first = desk.tree("first", **BEFORE)
    second = desk.tree("second", **AFTER)
    for root, read_bytes in ((first, 7_000), (second, 48_003)):
        done = desk.client("show", "--json", "--root", root, job=False)
        assert read_bytes == done.record["file_systems"][0]["application"]["read_bytes"]


def test_the_server_on_this_very_host_is_found_without_a_port(desk, worked):
    """The port follows from the job on both sides."""
    server = desk.server("--nodes", "1", "--format", "json")
    done = desk.client("stop", "--server", "127.0.0.1", *desk.on("nid00023", worked))
    assert (0, "") == _status_and_err(done)
    assert THE_WORK == application(server.wait().record)
