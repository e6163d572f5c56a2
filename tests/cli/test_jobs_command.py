"""
`iostats jobs` from outside in: reports are sent to a real site server, and lists are printed in the
habits of sacct.  What a cell looks like is in test_job_list.py, times are in test_sacct_time.py.
"""
from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from processes import REPOSITORY, Done, until
from site_desk import SLURM, SiteDesk, a_report, script, slurm_job, squeue
from site_inside import answer_to
from test_client import python_for_nobody
from test_munge import NOBODY, as_root, munged  # noqa: F401

from iostats.answers.site_server import SiteServer
from iostats.cli import jobs
from iostats.cli.site_client import ask_site
from iostats.report import job_fields
from iostats.server.rpc_server import Caller
from iostats.store.record_store import Store

START = 1_760_664_990.0            # 2025-10-17T01:36:30 UTC, give or take what clocks differ by
UTC = {"TZ": "UTC"}
WHEN = r"2025-10-17T01:36:\d\d\|2025-10-17T01:37:\d\d\n"
ALL = ("-S", "2020-01-01")


def deltas(file_system="scratch", **values):
    return [{"source": "llite", "file_system": file_system, "values": values}]


class Desk(SiteDesk):
    """One at which jobs are listed."""

    def list(self, *arguments, env=UTC):
        """The Done of `iostats jobs`."""
        return self.iostats("jobs", *arguments, env=env)

    def rows(self, *arguments):
        """The jobs of --json."""
        return json.loads(self.list("--json", *arguments).out)["jobs"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """
    A desk with a running server that has, one after the other: 4711 of alice, with a node missing;
    two tasks of bob's array 100; 4717 of bob, in three runs; and one of today, of carol.
    """
    with Desk(tmp_path_factory.mktemp("site")) as desk:
        desk.configure(site_deadline="0.3")
        squeue(desk, slurm_job("101", array_job_id=100, array_task_id=1, user_name="bob"),
               slurm_job("100", "TIMEOUT", array_job_id=100, array_task_id=2, user_name="bob"),
               slurm_job("4711", "FAILED", name="solve",
                         exit_code={"return_code": {"set": True, "number": 7}}))
        desk.server = desk.site()
        desk.send(a_report("4711", "nid1", read_bytes=892_338_176, ended=START + 37,
                           about={**SLURM, "nodes": "nid[1-2]", "account": "proj23",
                                  "partition": "debug"}))
        for number, job in enumerate(("101", "100")):
            desk.send(a_report(job, "nid1", ended=START + 137 + 3600 * number, elapsed_s=100.0,
                               about={**SLURM, "user": "bob", "account": "proj37"},
                               deltas=deltas(read_bytes=23, write_bytes=53_007 + number, open=3,
                                             create=2, getattr=41 + number)))
        for attempt in range(3):
            desk.send(a_report("4717", "nid1", ended=START + 7260 + attempt,
                               about={"nodes": "nid1", "attempt": attempt, "user": "bob"},
                               deltas=deltas(read_bytes=attempt, write_bytes=10**12)))
        desk.send(a_report("4719", "nid1", ended=time.time() - 1, elapsed_s=0.5,
                           about={"nodes": "nid1", "user": "carol"}))
        until(lambda: len(desk.rows("-D", *ALL)) == 7, what="all records")
        yield desk


DESK = Desk


def ids(done):
    """The first column of lines without heading."""
    assert (0, "") == (done.status, done.err), done
    return [line.split("|")[0] for line in done.out.splitlines()]


# -- the list -------------------------------------------------------------------------------------

def test_jobs_are_listed_with_their_numbers(site):
    """Oldest first, as sacct does; unknown is -, a lower bound says so, and why."""
    done = site.list(*ALL, "-E", "2025-10-18", env={**UTC, "COLUMNS": "300"})
    assert (0, "") == (done.status, done.err)
    assert """\
JobID JobName    User  NNodes State      Elapsed    ReadBytes WriteBytes Opens Operations Note
----- ---------- ----- ------ --------- -------- ------------ ---------- ----- ---------- ------------
4711  solve      alice      2 FAILED    00:00:37 >= 851.0 MiB >= 0 bytes  >= 0       >= 0 1 of 2 nodes
100_1 -          bob        1 COMPLETED 00:01:40     23 bytes   51.8 KiB     3         46
100_2 -          bob        1 TIMEOUT   00:01:40     23 bytes   51.8 KiB     3         47
4717  -          bob        1 -         00:00:37      2 bytes  931.3 GiB     0          0
""" == done.out  # noqa: E501


def test_a_list_in_a_pipe_has_80_columns(site):
    """As in a job's output; -o, -l and -p choose the fields, and then each is there."""
    done = site.list(*ALL, "-E", "2025-10-18")
    assert (0, "") == (done.status, done.err)
    assert 6 == len(done.out.splitlines()) and max(map(len, done.out.splitlines())) <= 80
    assert max(map(len, site.list(*ALL, "-l").out.splitlines())) > 300


def test_on_a_narrow_terminal_columns_are_left_out_and_named(site):
    """Lines are not wrapped; into a pipe, and with -o, all columns are there."""
    def on_a_terminal(*more):
        command = [sys.executable, "-m", "iostats", "jobs", "--config", str(site.cfg), *ALL, "-u",
                   "alice", *more]
        done = subprocess.run(
            ["script", "-qec", shlex.join(command), "/dev/null"], capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=100, env={
                "PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY), "COLUMNS": "80", **UTC})
        return done.stdout.replace("\r", "")
    text = on_a_terminal()
    assert "User" not in text.splitlines()[0] and "WriteBytes" in text.splitlines()[0]
    assert "iostats: no room for User, NNodes" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "User" in on_a_terminal("-l") and "no room" not in on_a_terminal("-o", "ALL")


def test_without_a_time_the_jobs_of_today_are_listed(site):
    noon = {"TZ": f"NOON{time.gmtime().tm_hour - 12:+d}"}        # where no day ends meanwhile
    assert ["4719"] == ids(site.list("-nP", "-u", "carol", env=noon))
    assert ["4719"] == ids(site.list("-nP", "-S", "now-2hours", "-o", "jobid,user", "-u", "carol"))
    assert [] == ids(site.list("-nP", "-u", "carol", "-S", "now+2hours"))


def test_of_a_named_job_all_times_are_listed(site):
    """As with sacct -j; a list, an array, a job that nobody knows."""
    assert ["4711"] == ids(site.list("-nPj4711"))
    assert ["100_1", "100_2", "4711"] == ids(
        site.list("-nP", "-j", "4711", "--jobs=100", "--sort", "jobid"))
    done = site.list("-nP", "-j", "100_[2-3,7],4711", "--sort", "jobid")
    assert ["100_2", "4711"] == [line.partition("|")[0] for line in done.out.splitlines()]
    assert ["iostats: no record of job 100_3", "iostats: no record of job 100_7"
            ] == done.err.splitlines()
    assert [] == ids(site.list("-nPj", "4711", "-S", "2025-10-18"))


@pytest.mark.parametrize("options, expected", [
    (("-u", "bob"), ["100_1", "100_2", "4717"]),
    (("--user=alice,bob", "-sF,to"), ["4711", "100_2"]),
    (("--name", "solve,other"), ["4711"]), (("--name", "other"), []),
    (("-A", "proj23"), ["4711"]), (("--account", "proj37", "--state=completed"), ["100_1"]),
    (("-r", "debug"), ["4711"]), (("-M", "eiger"), []),
    (("-u", "bob", "-D"), ["100_1", "100_2", "4717", "4717", "4717"]),
    (("-a", "-E", "2025-10-17T01:36:40", "-X"), ["4711"]),
    (("-u", "bob", "-S", "2025-10-17T03:37"), ["4717"]),
    (("-u", "bob", "--since", "2025-10-17T01:40", "--until", "2025-10-17T03:00"), ["100_2"]),
    (("-u", "bob", "--starttime", "101725-01:40", "--endtime", "10/17/25-03:00"), ["100_2"]),
    (("-u", "bob", "--sort", "-write_bytes"), ["4717", "100_2", "100_1"]),
    (("-u", "bob", "--sort=-write_bytes", "--limit", "1"), ["4717"]),
    (("-u", "bob", "--sort", "WriteBytes", "--reverse", "--limit=2"), ["4717", "100_2"]),
    (("-u", "bob", "--sort", "-Start", "--reverse"), ["100_1", "100_2", "4717"])])
def test_jobs_are_selected_and_sorted(site, options, expected):
    assert expected == ids(site.list("-nP", "-o", "JobID", *ALL, *options))


@pytest.mark.parametrize("options, expected", [
    (("-o", "jobid,read%-12,state%4", "-n"), "4711 >= 851.0 MiB FAI+\n"),
    (("-p", "-o", "JobID,ReadBytes"), "JobID|ReadBytes|\n4711|>= 851.0 MiB|\n"),
    (("-P", "-n", "--noconvert", "--format=JobID,ReadBytes,ExitCode"),
     "4711|>= 892338176|7:0\n"),
    (("-P", "--delimiter", ";", "--units", "g", "-o", "ReadBytes,Elapsed"),
     "ReadBytes;Elapsed\n>= 0.83 GiB;00:00:37\n"),
    (("-nP", "-o", "Start%4,End"), WHEN),
    (("-nP", "--units=K", "--noconvert", "-o", "ReadBytes"), ">= 871424.00 KiB\n"),
    (("-n", "-P", "-o", "JobID", "--format", "User"), "4711|alice\n"),
    (("--brief", "-n"), "4711 FAILED >= 851.0 MiB >= 0 bytes\n"),
    (("-nPo", "LowerBound,Source,NReported,FileSystems,NetReadBytes,ServerReadBytes,Partition"),
     "yes|nodes|1|scratch|-|-|debug\n")])
def test_fields_and_forms_of_output(site, options, expected):
    done = site.list("-j", "4711", *options)
    assert (0, "") == (done.status, done.err)
    assert expected == (WHEN if re.fullmatch(WHEN, done.out) else done.out)


@pytest.mark.parametrize("options", [("-l",), ("--long",), ("-o", "all"), ("-o", "ALL")])
def test_all_means_every_field(site, options):
    heading = site.list("-P", "-j", "4711", *options).out.splitlines()[0]
    assert [field.column for field in job_fields.FIELDS] == heading.split("|")


def test_a_site_chooses_the_fields_and_the_names_of_its_file_systems(site, tmp_path):
    """site.cfg, or the environment as with SACCT_FORMAT; -o wins."""
    cfg = tmp_path / "site.cfg"
    cfg.write_text(site.cfg.read_text() + "[report]\njob_fields = JobID,FileSystems\n"
                   "units = decimal\n[labels]\nscratch = BW Scratch\n")
    def out(*options, **env):
        return site.list("--config", cfg, "-nPj4711", *options, env={**UTC, **env}).out
    assert "4711|BW Scratch\n" == out()
    assert "solve\n" == out(IOSTATS_REPORT_JOB_FIELDS="JobName")
    assert ">= 892.3 MB\n" == out("-o", "ReadBytes", IOSTATS_REPORT_JOB_FIELDS="JobName")
    done = site.list("--config", cfg, env={"IOSTATS_REPORT_JOB_FIELDS": "MaxRSS"})
    assert (2, "") == (done.status, done.out)
    assert "environment: IOSTATS_REPORT_JOB_FIELDS: [report] job_fields: expected a field" in (
        done.line)


def test_a_long_list_is_asked_for_in_parts(site, monkeypatch, capsys):
    """The server answers others in between."""
    asked_for = []

    def pieces(config, method, params):
        asked_for.append(params["limit"])
        return ask_site(config, method, params)
    monkeypatch.setattr(jobs, "ask_site", pieces)
    monkeypatch.setattr(job_fields, "MOST_ROWS", 2)
    assert 0 == jobs.main(["--config", str(site.cfg), "-nPD", "-o", "JobID", *ALL])
    assert ["4711", "100_1", "100_2", "4717", "4717", "4717", "4719"] == (
        capsys.readouterr().out.split())
    assert 0 == jobs.main(["--config", str(site.cfg), "-nPD", "-o", "JobID", *ALL, "--limit", "3"])
    assert ["4711", "100_1", "100_2"] == capsys.readouterr().out.split()
    assert [2, 2, 2, 2, 2, 1] == asked_for


# -- JSON -----------------------------------------------------------------------------------------

def test_json_has_what_was_counted(site):
    done = site.list("--json", "-j", "4711", "-S", "2025-10-17T00:00")
    document = json.loads(done.out)
    assert (1, 1_760_659_200.0, None) == tuple(document[name] for name in ("schema", "since",
                                                                          "until"))
    assert [{
        "job_id": "4711", "raw_job_id": "4711", "name": "solve", "user": "alice",
        "account": "proj23", "partition": "debug", "cluster": "", "outcome": "FAILED",
        "exit_code": "7:0", "attempt": 0, "started": pytest.approx(START, abs=5),
        "ended": pytest.approx(START + 37, abs=5), "elapsed_s": 37.0,
        "nodes": 2, "reported": 1, "shared": 0, "file_systems": ["scratch"],
        "read_bytes": 892_338_176, "write_bytes": 0, "opens": 0, "creates": 0, "operations": 0,
        "lower_bound": True, "too_low": ["read_bytes", "write_bytes", "opens", "creates",
                                         "operations"], "too_high": [],
        "nfs_read_bytes": None, "nfs_write_bytes": None, "disk_read_bytes": None,
        "disk_write_bytes": None, "gpfs_read_bytes": None, "gpfs_write_bytes": None,
        "cephfs_read_bytes": None, "cephfs_write_bytes": None,
        "source": "nodes", "net_read_bytes": None,
        "net_write_bytes": None,
        "net_lower_bound": False, "server_read_bytes": None, "server_write_bytes": None,
        "server_operations": None, "server_lower_bound": False,
        "by_node_read_bytes": None, "by_node_read_bytes_max": None,
        "by_node_write_bytes": None, "by_node_write_bytes_max": None,
        "by_node_operations": None, "by_node_operations_max": None, "by_node_why": "",
            "events": None, "data_lost": "",
        "final": True}] == document["jobs"]


IS_OF_KIND = {
    "text": lambda value: isinstance(value, str),
    "names": lambda value: isinstance(value, list),
    "count": lambda value: value is None or type(value) is int,
    "bytes": lambda value: value is None or type(value) is int,
    "time": lambda value: value is None or type(value) is float,
    "duration": lambda value: value is None or type(value) is float,
    "yes": lambda value: type(value) is bool}


def test_the_documents_table_is_what_json_has(site):
    """Each member, and the kind that docs/reference/jobs.md says."""
    rows = re.findall(r"(?m)^\| (\w+) \| `(\w+)` \| ([^|]+) \|",
                      (REPOSITORY / "docs" / "reference" / "jobs.md").read_text())
    kinds = {name: form.strip() for _, name, form in rows if form.strip() != "the same"}
    found = site.rows(*ALL)
    assert len(found) == 5
    for one in found:
        assert set(kinds) == set(one)
    for field in job_fields.FIELDS:
        if field.kind in IS_OF_KIND:
            assert all(IS_OF_KIND[field.kind](one[field.name]) for one in found), field


# -- who may ask what -----------------------------------------------------------------------------

def test_other_users_are_told_that_they_see_their_own_jobs(site, tmp_path):
    """Root, [site] readers and holders of the secret see all; the message is one line."""
    store = Store(str(tmp_path / "store"))
    server = SiteServer(store, [], site.config, time.time)

    def answer(who, **params):
        return answer_to(server, who, "jobs", **params)
    none = {"jobs": [], "next": None}
    try:
        error = answer(Caller("nid1", NOBODY), users=["bob", "alice", "nobody"])["error"]
        assert error["message"].startswith(
            "expected your own jobs, of user nobody, got a query of those of alice, bob, for which "
            "root and [site] readers")
        for caller in (Caller("nid1", NOBODY), Caller("nid1", 0), Caller("nid1", None)):
            assert none == answer(caller, users=["nobody"])["result"]
            assert none == answer(caller, users=[str(NOBODY)])["result"]
        assert none == answer(Caller("nid1", NOBODY))["result"]
        assert "no Authorization header" in answer(None)["error"]["message"]
    finally:
        store.close()


class TestTwoUsers:
    """Root's server, and user 65534; one munged tells them apart."""

    pytestmark = as_root

    def test_a_user_sees_his_own_jobs_and_root_sees_all(self, munged, tmp_path):  # noqa: F811
        """By munge; another's jobs are one line and 3."""
        python = python_for_nobody()
        probe = subprocess.run([python, "-c", "import msgspec, tabulate, ClusterShell"],
                               user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True,
                               env={"PYTHONPATH": _packages()})
        home = Path(tempfile.mkdtemp(prefix="iostats-nobody-"))
        try:
            home.chmod(0o755)
            shutil.copytree(REPOSITORY / "iostats", home / "iostats",
                            ignore=shutil.ignore_patterns("__pycache__"))
            with Desk(tmp_path) as desk:
                desk.configure(server_auth="munge secret", server_munge_socket=munged.socket)
                desk.site()
                for job, user in (("23", "nobody"), ("37", "alice")):
                    desk.send(a_report(job, "nid1", about={"nodes": "nid1", "user": user}))
                    desk.record(job)
                cfg = home / "site.cfg"
                cfg.write_text(desk.cfg.read_text().replace("munge secret", "munge"))

                def as_nobody(*options):
                    if probe.returncode:
                        return _in_process_of_nobody(home, cfg, options)
                    done = subprocess.run(
                        [python, "-m", "iostats", "jobs", "--config", str(cfg), *options],
                        user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True,
                        cwd=home, env={"PYTHONPATH": f"{home}:{_packages()}", **UTC}, timeout=60)
                    return Done(done.returncode, done.stdout, done.stderr)
                options = ("-nP", "-o", "JobID,User", *ALL)
                assert "23|nobody\n37|alice\n" == desk.list(*options, "--sort", "jobid").out
                for more in ((), ("-a",), ("-u", "nobody"), ("-u", str(NOBODY))):
                    done = as_nobody(*options, *more)
                    assert (0, "", "23|nobody\n") == (done.status, done.err, done.out)
                assert "" == as_nobody(*options, "-j", "37").out
                done = as_nobody(*options, "-u", "alice,nobody")
                assert (3, "") == (done.status, done.out)
                assert ("the server refused `jobs`: expected your own jobs, of user nobody, got a "
                        "query of those of alice, for which root and [site] readers are allowed"
                        ) in done.line
        finally:
            shutil.rmtree(home)


def _packages():
    import msgspec
    return str(Path(msgspec.__file__).parents[1])


def _in_process_of_nobody(home, cfg, options):
    """Where no Python is open to everybody: what root's has read before it becomes nobody."""
    code = (f"import os, sys; sys.path.insert(0, {str(home)!r}); import iostats.cli.jobs as jobs, "
            f"encodings.idna, iostats.wire.munge, iostats.wire.auth, iostats.wire.client; "
            f"import msgspec, hashlib; "
            f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
            f"sys.exit(jobs.main(['--config', {str(cfg)!r}, *sys.argv[1:]]))")
    done = subprocess.run([sys.executable, "-c", code, *options], capture_output=True, text=True,
                          cwd=home, env=UTC, timeout=60)
    return Done(done.returncode, done.stdout, done.stderr)


# -- errors ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("arguments, why", [
    (("-S", "soon"), "--since: expected a time such as 2026-11-21T13:37, 1121, 13:37, today or "
                     "now-3days, got 'soon'"),
    (("--until", "2026-02-30"), "--until: expected a time"),
    (("-S", "2026-11-21", "-E", "2026-11-20"),
     "expected --since before --until, got '2026-11-21' and '2026-11-20'"),
    (("-E", "2020-01-01"), "expected --since before --until, got 'today' and '2020-01-01'"),
    (("-o", "JobID,MaxRSS"), "--format: expected a field, got 'MaxRSS'; `iostats jobs -e` lists"),
    (("-o", ""), "--format: expected names of fields"),
    (("-s", "F,complete"), "--state: expected how a job ended, BOOT_FAIL, CANCELLED, COMPLETED, "),
    (("-s", "R"), "or F, TO ..., got 'R'"), (("-j", "100_[3-1]"), "--jobs: expected tasks as in"),
    (("--sort", "size"), "--sort: expected a field, got 'size'"), (("--sort",), "--sort: expected"),
    (("--limit", "0"), "--limit: expected a number from 1 to 999999999, got '0'"),
    (("--limit", "9" * 5000), "--limit: expected a number"), (("--limit", "-3"), "--limit"),
    (("--units", "X"), "--units: expected one of K, M, G, T, P, got 'X'"),
    (("--units", ""), "--units: expected one of"), (("--delimiter", "a"), "--delimiter: expected"),
    (("--delimiter", ""), "--delimiter: expected"),
    (("-u", ","), "--user: expected names separated by commas, got ','"),
    (("-u", "x" * 129), "--user: expected up to 128 printable characters"),
    (("-A", ",".join(map(str, range(101)))), "--account: expected up to 100, got 101"),
    (("-j", ",".join(map(str, range(301)))), "--jobs: expected up to 300, got 301"),
    (("-j", "\x1b[2J"), "--jobs: expected up to 128 printable characters"),
    (("-a", "-u", "bob"), "expected --allusers or --user, got both"),
    (("4711",), "unrecognized arguments: 4711"), (("--bogus",), "unrecognized arguments: --bogus")])
def test_bad_usage_is_one_line_and_status_2(desk, capsys, arguments, why):
    status = jobs.main(["--config", str(desk.cfg), *arguments])
    out, err = capsys.readouterr()
    assert (2, "") == (status, out) and why in Done(status, out, err).line
    assert len(err) < 300


def test_a_server_that_is_not_reached_is_one_line_and_status_3(desk):
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    done = desk.list()
    assert (3, "") == (done.status, done.out) and "Connection refused" in done.line
    desk.configure(site_host="")
    done = desk.list("--json")
    assert (3, "", "iostats: no site server is named ([site] host in site.cfg)") == (
        done.status, done.out, done.line)


@pytest.mark.parametrize("params, why", [
    ({"sort": "note"}, "Invalid params: sort: expected one of job_id, raw_job_id"),
    ({"limit": 0}, "limit: expected an integer >= 1"),
    ({"limit": 5_001}, "limit: expected an integer <= 5000"),
    ({"users": ["x"] * 101}, "users: expected a list of length <= 100"),
    ({"jobs": ["x"] * 301}, "jobs: expected a list of length <= 300"),
    ({"users": "bob"}, "users: expected a list, got a string"),
    ({"since": "today"}, "since: expected a number or null"),
    ({"after": [2**63, "", "", 0]}, "after"), ({"after": [1, 2]}, "after"),
    ({"after": [1, "", "", -1]}, "after[3]: expected an integer >= 0")])
def test_the_server_refuses_params_out_of_range(site, params, why):
    """Also from another client than our command."""
    with pytest.raises(Exception, match=r"the server refused `jobs`") as error:
        ask_site(site.config, "jobs", params)
    assert why in str(error.value)


@pytest.mark.parametrize("after", [[None, "", "", 0], ["x", "", "", 0], [2.5, "a", "b", 3],
                                   [-2**63, "\0", "'", 2**32 - 1]])
def test_any_value_of_after_is_answered(site, after):
    """An attacker has no use of it."""
    for sort in ("started", "write_bytes", "name"):
        answer = ask_site(site.config, "jobs", {"sort": sort, "after": after})
        assert {"jobs", "next"} == set(answer)


@pytest.mark.parametrize("options", [("-nP",), ("--json",), ("-e",)])
def test_a_closed_pipe_is_no_error(site, options):
    """`iostats jobs | head -1`."""
    script(site.bin / "piped", f"""#!/bin/sh
{{ "$@"; echo $? >'{site.directory}/status'; }} | /usr/bin/head -c 1
""")
    done = subprocess.run(
        [site.bin / "piped", sys.executable, "-m", "iostats", "jobs", "--config", site.cfg, *ALL,
         "-o", ",".join(["JobID%1000"] * 100), *options],
        cwd=site.directory, capture_output=True, text=True, timeout=60,
        env={"PATH": f"{site.bin}:/bin", "PYTHONPATH": str(REPOSITORY)})
    assert "" == done.stderr
    assert 1 == len(done.stdout)
    assert "0" == (site.directory / "status").read_text().strip()


def test_a_full_disk_is_no_traceback(site):
    """`iostats jobs > FILE`."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "iostats", "jobs", "--config", site.cfg, *ALL], stdout=full,
            cwd=site.directory, stderr=subprocess.PIPE, text=True, timeout=60,
            env={"PATH": str(site.bin), "PYTHONPATH": str(REPOSITORY)})
    assert 1 == done.returncode
    assert ["iostats: standard output: cannot be written: No space left on device"] == (
        done.stderr.splitlines())


# -- the help -------------------------------------------------------------------------------------

def test_the_help_fits_a_terminal(site):
    done = site.list("--help")
    assert 0 == done.status and done.out.startswith("usage: iostats jobs")
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_fields_are_listed(site):
    done = site.list("--helpformat")
    assert (0, job_fields.format_field_help()) == (done.status, done.out)
    assert done.out == site.list("-e").out


def test_jobs_is_in_the_usage_of_iostats(site):
    done = subprocess.run([sys.executable, "-m", "iostats", "--help"], cwd=REPOSITORY,
                          capture_output=True, text=True, timeout=100, env=dict(os.environ))
    assert "iostats jobs [options]" in done.stdout
