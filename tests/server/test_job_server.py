"""
iostats_server.py as a user starts it: whole jobs, its end, its files and its ports.

Every node of every job here does the same: 23 reads of together 41,003 bytes, 37 writes of
together 53,007 bytes, 43 opens, 13 mkdirs, 19 RPCs each way (processes.AFTER less BEFORE).
"""
from __future__ import annotations

import contextlib
import csv
import http.client
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys

import pytest
from processes import (
    AFTER,
    BEFORE,
    REPOSITORY,
    SERVER,
    Desk,
    Listener,
    http_answer,
    job_with_free_ports,
    put,
    two_jobs_with_one_port,
    until,
    write_tree,
)
from trees import shared

HELLO = b'{"jsonrpc": "2.0", "method": "hello", "id": 23}'


DESK = Desk


def started_nodes(desk, names):
    """Nodes that have done their work since `start`: {name: options of their client}."""
    found = {}
    for name in names:
        root = desk.tree(name, **BEFORE)
        assert 0 == desk.client("start", *desk.on(name, root)).status
        write_tree(root, **AFTER)
        found[name] = desk.on(name, root)
    return found


def stop_all(desk, server, nodes):
    """All nodes stop at once; every stop is delivered."""
    running = [desk.begin_client("stop", "--server", f"127.0.0.1:{server.port}", *options)
               for options in nodes.values()]
    assert [0] * len(nodes) == [finish().status for finish in running]


# -- a whole job -----------------------------------------------------------------------------

def test_a_job_of_four_nodes_ends_with_the_sum_of_all_four(desk, loop):
    """4 x 41,003 bytes read, 4 x 53,007 written, 4 x 43 opens, 4 x 13 mkdirs, 4 x 19 RPCs."""
    server = desk.server("--nodes", "nid[00001-00004]", "--format", "json", env=loop)
    stop_all(desk, server, started_nodes(desk, ["nid00001", "nid00002", "nid00003", "nid00004"]))
    done = server.wait()
    assert 0 == done.status
    record = done.record
    coverage = record["coverage"]
    assert (4, 4, True) == (coverage["expected"], coverage["reported"], coverage["complete"])
    assert ({}, 0, {}) == (coverage["missing"], coverage["missing_count"], coverage["refused"])
    [fs] = record["file_systems"]
    assert {"read_bytes": 164_012, "write_bytes": 212_028, "read_calls": 92, "write_calls": 148,
            "lower_bound": False} == fs["application"]
    assert {"read_bytes": 164_012, "write_bytes": 212_028, "read_rpcs": 76, "write_rpcs": 76,
            "lower_bound": False} == fs["network"]
    assert {"open": (172, 0.172), "mkdir": (52, 0.104)} == {
        name: (row["count"], row["seconds"]) for name, row in fs["operations"].items()}
    assert ["/scratch"] == fs["mounts"]
    assert ["nid00001", "nid00002", "nid00003", "nid00004"] == list(record["nodes"])
    assert "alice" == record["job"]["user"]
    assert desk.job == record["job"]["id"]


def test_the_record_has_each_nodes_time_in_calls_and_the_most_cpus_of_a_node(desk):
    """43 opens of 1 ms and 13 mkdirs of 2 ms on each of two nodes, of 23 and of 41 CPUs."""
    server = desk.server("--nodes", "nid[00001-00002]", "--format", "json")
    nodes = started_nodes(desk, ["nid00001", "nid00002"])
    for name, online in (("nid00001", "0-22"), ("nid00002", "0-36,40-43")):
        put(desk.directory / name, "sys/devices/system/cpu/online", f"{online}\n")
    stop_all(desk, server, nodes)
    record = server.wait().record
    assert 41 == record["coverage"]["cpus_of_node"]
    assert [(43_000, 26_000)] * 2 == [(fs["open_us"], fs["mkdir_us"]) for node in
                                      record["nodes"].values()
                                      for fs in [node["file_systems"]["scratch"]]]
    [fs] = record["file_systems"]
    assert {"min": 26_000, "median": 26_000, "second": 26_000, "max": 26_000,
            "busiest": "nid00001"} == (
        fs["per_node"]["mkdir_us"])


def test_four_nodes_of_a_real_lustre_give_four_times_the_true_counts(desk):
    """
    captures/2.16.1, s01 to s02: 16,600,064 bytes each way, 70 opens, 26 fsyncs, 14 mkdirs, 26
    files created, as counted by the program that did it (true_counts.txt); here times four.
    """
    before = shared("captures", "2.16.1", "s01_before_w1")
    after = shared("captures", "2.16.1", "s02_after_w1")
    server = desk.server("--nodes", "nid[00001-00004]", "--format", "json")
    for name in ("nid00001", "nid00002", "nid00003", "nid00004"):
        assert 0 == desk.client("start", *desk.on(name, before)).status
        assert 0 == desk.client("stop", "--server", f"127.0.0.1:{server.port}",
                                *desk.on(name, after)).status
    [fs] = server.wait().record["file_systems"]
    assert 66_400_256 == fs["application"]["read_bytes"]
    assert 66_400_256 == fs["application"]["write_bytes"]
    assert 280 == fs["operations"]["open"]["count"]
    assert 104 == fs["operations"]["fsync"]["count"]
    assert 56 == fs["operations"]["mkdir"]["count"]
    assert 104 == fs["operations"]["create"]["count"]


def test_the_first_line_says_where_it_listens_and_for_whom_it_waits(desk):
    """For the log of the job."""
    server = desk.server("--nodes", "37")
    assert (f"iostats: server of job {desk.job} on {os.uname().nodename}:{server.port}, "
            f"waiting for 37 nodes\n") == server.err


def test_a_job_of_a_number_of_nodes_ends_when_so_many_have_reported(desk):
    """--nodes 2, whatever their names are."""
    server = desk.server("--nodes", "2", "--format", "json")
    stop_all(desk, server, started_nodes(desk, ["one", "another"]))
    record = server.wait().record
    assert ["another", "one"] == list(record["nodes"])
    assert record["coverage"]["complete"]


def test_a_server_that_listens_everywhere_is_reached_by_name(desk):
    """Without --listen: IPv4 and IPv6, and `localhost` may be either."""
    server = desk.server("--nodes", "1", "--format", "json", listen=None)
    root = desk.tree(**BEFORE)
    desk.client("start", *desk.on("nid00001", root))
    assert 0 == desk.client("stop", "--server", "localhost", *desk.on("nid00001", root)).status
    assert 1 == server.wait().record["coverage"]["reported"]


@pytest.mark.parametrize("variables, expected", [
    ({"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "nid[00001-00128,200]"}, 129),
    ({"PBS_JOBID": "4711.pbs01", "PBS_NODEFILE": "{directory}/nodes"}, 2),
    ({"LSB_JOBID": "4711", "LSB_DJOB_HOSTFILE": "{directory}/nodes"}, 2),
    ({}, None),
], ids=["Slurm", "PBS", "LSF", "none"])
def test_the_nodes_of_the_job_are_those_of_the_batch_system(desk, variables, expected):
    """PBS names a node once for each of its processes; it counts once."""
    (desk.directory / "nodes").write_text("n23\nn23\nn37\n")
    env = {name: value.format(directory=desk.directory) for name, value in variables.items()}
    server = desk.server("--format", "json", env=env)
    assert expected == server.stop().record["coverage"]["expected"]


@pytest.mark.parametrize("change, expected", [
    ({}, "90100_17"),
    ({"SLURM_ARRAY_TASK_ID": "0"}, "90100_0"),
    ({"SLURM_ARRAY_TASK_ID": ""}, "90117"),
    ({"SLURM_ARRAY_TASK_ID": "17\n"}, "90100_17"),
    ({"SLURM_ARRAY_TASK_ID": "[1-3]"}, "90117"),
    ({"SLURM_JOB_ID": "90118"}, "90117"),
], ids=repr)
def test_a_task_of_an_array_is_called_as_users_call_it(desk, change, expected):
    """Without a question to Slurm; the environment of another job says nothing of this one."""
    env = {"SLURM_JOB_ID": "90117", "SLURM_ARRAY_JOB_ID": "90100", "SLURM_ARRAY_TASK_ID": "17",
           **change}
    server = desk.server("--format", "json", "--job", "90117", env=env)
    assert expected == server.stop().record["job"]["id"]


@pytest.mark.parametrize("env, expected", [
    ({"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "solve", "SLURM_JOB_PARTITION": "batch"},
     " (solve), partition batch: "),
    ({"SLURM_JOB_ID": "4711", "SLURM_JOB_PARTITION": "batch"}, ", partition batch: "),
    ({"SLURM_JOB_ID": "4712", "SLURM_JOB_NAME": "solve", "SLURM_JOB_PARTITION": "batch"}, ": "),
    ({"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "a\x1b[2Jb"}, ": "),
    ({"PBS_JOBID": "4711", "PBS_JOBNAME": "solve", "PBS_QUEUE": "workq"},
     " (solve), partition workq: "),
    ({"LSB_JOBID": "4711", "LSB_JOBNAME": "solve", "LSB_QUEUE": "normal"},
     " (solve), partition normal: "),
    ({"JOB_ID": "4711", "SGE_ROOT": "/opt/sge", "JOB_NAME": "solve", "QUEUE": "all.q",
      "HOSTNAME": "nid00001"}, " (solve), partition all.q: "),
    ({"FLUX_JOB_ID": "4711"}, ": "),
    ({}, ": "),
], ids=["Slurm", "no name", "another job's", "unprintable", "PBS", "LSF", "SGE", "Flux", "none"])
def test_the_header_has_name_and_partition_of_the_jobs_environment(desk, env, expected):
    """Without a question to the batch system, and without a site's server."""
    server = desk.server("--job", "4711", "--nodes", "2", env=env)
    out = " ".join(server.stop().out.split())
    assert out.startswith(f"Job 4711{expected}0 of 2 nodes reported"), out


# -- its end ---------------------------------------------------------------------------------

def test_at_the_deadline_the_missing_node_is_named(desk):
    """Three of four report; eight seconds after the first of them the report comes."""
    nodes = started_nodes(desk, ["nid00001", "nid00002", "nid00003"])
    server = desk.server("--nodes", "nid[00001-00004]", "--deadline", "8")
    stop_all(desk, server, nodes)
    done = server.wait()
    assert 0 == done.status
    assert re.match(rf"Job {desk.job} of \w+: 3 of 4 nodes reported, \d\d:\d\d:\d\d from [-\d]+ "
                    r"[\d:]+; missing: nid00004 \(no report\) ", " ".join(done.out.split()))
    # What is missing makes every sum a lower bound: 3 x 41,003 bytes are 120.1 KiB.
    assert ">= 120.1 KiB" in done.out


def test_the_deadline_does_not_run_before_the_first_report(desk):
    """The job itself may take days: --deadline 0.05 and half a second without a word."""
    server = desk.server("--nodes", "1", "--deadline", "0.05")
    with pytest.raises(subprocess.TimeoutExpired):
        server.process.wait(0.5)
    assert 0 == desk.whole_job(server, "nid00001").status
    assert " 1 node, 00:" in server.wait().out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
                         ids=lambda number: number.name)
def test_a_signal_ends_it_with_what_is_there(desk, loop, number):
    """A job script that is killed still has its table; status 0, and who is missing."""
    server = desk.server("--nodes", "nid[00001-00003]", "--format", "json", env=loop)
    assert 0 == desk.whole_job(server, "nid00002").status
    done = server.stop(number)
    assert 0 == done.status
    assert {"nid00001": "no report", "nid00003": "no report"} == done.record["coverage"]["missing"]
    assert 41_003 == done.record["file_systems"][0]["application"]["read_bytes"]
    assert "Traceback" not in done.err


def test_a_signal_before_any_report_still_prints_the_coverage(desk):
    """Nothing is known, and nothing is printed as 0."""
    done = desk.server("--nodes", "nid[00001-00003]").stop()
    assert 0 == done.status
    assert (f"Job {desk.job}: 0 of 3 nodes reported; missing: nid[00001-00003] (no report)\n"
            f"No numbers: no node has reported.\n") == done.out


def test_a_node_that_never_started_is_not_waited_for(desk):
    """`stop` without `start` tells the server, which then need not wait for its deadline."""
    server = desk.server("--nodes", "nid[00001-00002]")
    desk.whole_job(server, "nid00001")
    done = desk.client("stop", "--server", f"127.0.0.1:{server.port}",
                       *desk.on("nid00002", desk.directory))
    assert 2 == done.status
    assert "missing: nid00002 (no start)" in " ".join(server.wait().out.split())


# -- its forms and files ---------------------------------------------------------------------

GRID = """\
Measured: from start to stop on each node
File data transfer statistics for this job:
+---------------+-------------+--------------+
| File System   | File Read   | File Write   |
+===============+=============+==============+
| BW Home       | 40.0 KiB    | 51.8 KiB     |
+---------------+-------------+--------------+
Metadata statistics for this job:
+---------------+--------+---------+
| File System   |   open |   mkdir |
+===============+========+=========+
| BW Home       |     43 |      13 |
+---------------+--------+---------+
No findings: the job was too short to judge (less than 60 s).
"""
PLAIN = """\
Measured: from start to stop on each node
File data transfer statistics for this job:
File System    File Read    File Write
BW Home        40.0 KiB     51.8 KiB
Metadata statistics for this job:
File System      open    mkdir
BW Home            43       13
No findings: the job was too short to judge (less than 60 s).
"""
MARKDOWN = """
Measured: from start to stop on each node

File data transfer statistics for this job:

| File System   | File Read   | File Write   |
|:--------------|:------------|:-------------|
| BW Home       | 40.0 KiB    | 51.8 KiB     |

Metadata statistics for this job:

| File System   |   open |   mkdir |
|:--------------|-------:|--------:|
| BW Home       |     43 |      13 |

No findings: the job was too short to judge (less than 60 s).
"""


@pytest.fixture
def labelled(desk):
    """--config with a name for the file system."""
    path = desk.directory / "site.cfg"
    path.write_text("[labels]\nscratch = BW Home\n")
    return ("--config", path)


@pytest.mark.parametrize("form, tables", [
    ((), GRID), (("--format", "grid"), GRID), (("--format", "plain"), PLAIN),
    (("--format", "markdown"), MARKDOWN),
], ids=["default", "grid", "plain", "markdown"])
def test_the_tables_of_a_job(desk, labelled, form, tables):
    """A coverage line and two tables; integers are integers."""
    server = desk.server("--nodes", "1", *form, *labelled)
    desk.whole_job(server, "nid00001")
    first, _, rest = server.wait().out.partition("\n")
    assert re.fullmatch(rf"Job {desk.job} of \w+: 1 node, \d\d:\d\d:\d\d from [-\d: ]+", first)
    assert tables == rest


def test_csv_has_one_line_for_each_number(desk, labelled):
    """Job, file system, layer, metric, value, lower bound."""
    server = desk.server("--nodes", "1", "--format", "csv", *labelled)
    desk.whole_job(server, "nid00001")
    rows = list(csv.DictReader(io.StringIO(server.wait().out)))
    assert {desk.job} == {row["job"] for row in rows}
    assert {"BW Home"} == {row["file_system"] for row in rows}
    assert {"0"} == {row["lower_bound"] for row in rows}
    assert {("application", "read_bytes"): "41003", ("application", "write_bytes"): "53007",
            ("application", "read_calls"): "23", ("application", "write_calls"): "37",
            ("network", "read_bytes"): "41003", ("network", "write_bytes"): "53007",
            ("network", "read_rpcs"): "19", ("network", "write_rpcs"): "19",
            ("operations", "open"): "43", ("operations", "open_seconds"): "0.043",
            ("operations", "mkdir"): "13", ("operations", "mkdir_seconds"): "0.026"} == {
                (row["layer"], row["metric"]): row["value"] for row in rows}


def test_long_adds_calls_network_and_times(desk):
    """--long: what the default leaves out."""
    server = desk.server("--nodes", "1", "--long", "--format", "plain")
    desk.whole_job(server, "nid00001")
    text = server.wait().out
    assert re.search(r"  read, by the application +40\.0 KiB +23 +1\.7 KiB", text)
    assert re.search(r"  write, over the network +51\.8 KiB +19 +2\.7 KiB", text)
    assert re.search(r"  open +\S+ +62\.3 % +43 +43\.0 ms +1\.00 ms", text)


def test_the_report_and_the_record_go_to_their_files(desk, labelled):
    """--output and --json together; nothing on standard output, no temporary file left."""
    (desk.directory / "results").mkdir()
    server = desk.server("--nodes", "1", "--output", "results/table", "--json", "results/record",
                         *labelled)
    desk.whole_job(server, "nid00001")
    done = server.wait()
    assert (0, "") == (done.status, done.out)
    assert (desk.directory / "results" / "table").read_text().endswith(GRID)
    record = json.loads((desk.directory / "results" / "record").read_text())
    assert (1, 41_003) == (record["schema"],
                           record["file_systems"][0]["application"]["read_bytes"])
    assert ["record", "table"] == sorted(os.listdir(desk.directory / "results"))


def test_the_record_goes_to_its_file_and_the_table_to_standard_output(desk, labelled):
    """--json alone."""
    server = desk.server("--nodes", "1", "--json", "record.json", *labelled)
    desk.whole_job(server, "nid00001")
    assert server.wait().out.endswith(GRID)
    assert 1 == json.loads((desk.directory / "record.json").read_text())["coverage"]["reported"]


@pytest.mark.parametrize("option", ["--output", "--json"])
def test_a_file_that_cannot_be_written_is_reported_before_the_job_and_not_after(desk, option):
    """Status 2 at once: after a day of work it would be too late."""
    done = desk.run_server("--nodes", "1", option, "no/such/directory/file")
    assert 2 == done.status
    assert "no/such/directory/file: cannot be written" in done.line


@pytest.mark.parametrize("option", ["--output", "--json"])
def test_a_directory_that_goes_away_meanwhile_costs_the_file_and_not_the_report(desk, option):
    """Status 1, one line, and the table is on standard output."""
    (desk.directory / "results").mkdir()
    server = desk.server("--nodes", "1", option, "results/file")
    os.rmdir(desk.directory / "results")
    desk.whole_job(server, "nid00001")
    done = server.wait()
    assert 1 == done.status
    assert "40.0 KiB" in done.out
    assert ["iostats: results/file: cannot be written: No such file or directory; the counts are "
            "stored: run the same command again"] == done.lines[1:]


def test_quiet_says_nothing(desk):
    """Standard error is empty; the report is on standard output as ever."""
    desk.job, [port] = job_with_free_ports(1)
    server = desk.begin_server("--nodes", "1", "--quiet")
    server.port = port
    until(lambda: answers_hello(server), what="an answer to hello")
    assert 0 == desk.whole_job(server, "nid00001").status
    done = server.wait()
    assert (0, "") == (done.status, done.err)
    assert " 1 node, 00:" in done.out


def answers_hello(server):
    assert server.process.poll() is None, server.err
    with contextlib.suppress(OSError, http.client.HTTPException):
        return server.call("hello")["result"]["job"] == server.job


# -- the secret ------------------------------------------------------------------------------

def test_the_secret_is_private_while_the_server_runs_and_gone_afterwards(desk):
    """0600 in a directory of 0700, both the user's; nothing stays in the home."""
    server = desk.server("--nodes", "1")
    directory = desk.home / ".iostats"
    path = directory / f"{desk.job}.secret"
    assert 0o700 == stat.S_IMODE(directory.stat().st_mode)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert os.geteuid() == path.stat().st_uid
    desk.whole_job(server, "nid00001")
    assert 0 == server.wait().status
    assert [] == os.listdir(directory)


def test_the_secret_is_gone_after_a_signal_too(desk):
    """A cancelled job leaves nothing."""
    desk.server("--nodes", "1").stop(signal.SIGINT)
    assert [] == os.listdir(desk.home / ".iostats")


def test_a_secret_that_was_there_is_used_and_stays(desk):
    """--secret FILE of the user; nodes name the same file."""
    path = desk.directory / "mine"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    path.chmod(0o600)
    server = desk.server("--nodes", "1", "--secret", path)
    root = desk.tree(**BEFORE)
    desk.client("start", *desk.on("nid00001", root))
    assert 0 == desk.client("stop", "--server", "127.0.0.1", "--secret", path,
                            *desk.on("nid00001", root)).status
    assert 0 == server.wait().status
    assert "0123456789abcdef0123456789abcdef\n" == path.read_text()
    assert not (desk.home / ".iostats").exists()


def test_a_secret_in_the_environment_needs_no_file(desk):
    """IOSTATS_SECRET on both sides; no file is made."""
    env = {"IOSTATS_SECRET": "0123456789abcdef0123456789abcdef"}
    server = desk.server("--nodes", "1", env=env)
    root = desk.tree(**BEFORE)
    desk.client("start", *desk.on("nid00001", root))
    assert 0 == desk.client("stop", "--server", "127.0.0.1", *desk.on("nid00001", root),
                            env=env).status
    assert 0 == server.wait().status
    assert not (desk.home / ".iostats").exists()


# -- ports -----------------------------------------------------------------------------------

def test_print_port_prints_the_port_of_the_job_and_ends(desk):
    """20000 + 1234567 mod 10000; the range is site.cfg's."""
    done = desk.run_server("--print-port", job="1234567", listen=None)
    assert (0, "24567\n", "") == (done.status, done.out, done.err)
    done = desk.run_server("--print-port", job="1234567", listen=None,
                           env={"IOSTATS_SERVER_PORT_FIRST": "31000",
                                "IOSTATS_SERVER_PORT_LAST": "31009"})
    assert "31007\n" == done.out


def test_the_server_takes_the_jobs_port(desk):
    """The one that --print-port prints."""
    desk.job, [port] = job_with_free_ports(1)
    assert port == desk.server("--nodes", "1").port
    done = desk.run_server("--print-port")
    assert (0, f"{port}\n") == (done.status, done.out)


OTHER_PROGRAMS = {
    "a web server": http_answer(b"<html>It works!</html>"),
    "a web server that says 404": http_answer(b"not here", "404 Not Found"),
    "JSON of another kind": http_answer(b"[23, 37]"),
    "null": http_answer(b"null"),
    "JSON-RPC without us": http_answer(
        b'{"jsonrpc": "2.0", "error": {"code": -32601, "message": "no hello here"}, "id": 1}'),
    "JSON-RPC with an odd error": http_answer(b'{"jsonrpc": "2.0", "error": 23, "id": 1}'),
    "JSON nested 300,000 deep": http_answer(b"[" * 300_000),
    "a hello of another job": http_answer(
        b'{"jsonrpc": "2.0", "result": {"job": "4711", "protocol": 1, "time": 1}, "id": 1}'),
    "a length that is no number": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a length of 2 GB": b"HTTP/1.1 200 OK\r\nContent-Length: 2147483648\r\n\r\n{",
    "a mail server": b"220 mail.example.org ESMTP\r\n\r\n",
    "headers of 2 MB": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2_000_000,
    "binary": bytes(range(256)) * 37 + b"\r\n\r\n",
}


@pytest.mark.parametrize("answer", list(OTHER_PROGRAMS.values()), ids=list(OTHER_PROGRAMS))
def test_a_server_finds_another_port_and_the_node_finds_it_past_another_program(desk, answer):
    """The port of the job is taken by something that answers with anything."""
    desk.job, [first, second] = job_with_free_ports(2)
    with Listener(first, answer) as other:
        server = desk.server("--nodes", "1", "--format", "json")
        assert second == server.port
        root = desk.tree(**BEFORE)
        desk.client("start", *desk.on("nid00001", root))
        write_tree(root, **AFTER)
        done = desk.client("stop", "--server", "127.0.0.1", *desk.on("nid00001", root),
                           env={"IOSTATS_NODE_RETRY_TIMEOUT": "30"})
        assert (0, "") == (done.status, done.err)
        assert other.met >= 1
        assert 41_003 == server.wait().record["file_systems"][0]["application"]["read_bytes"]


def test_two_jobs_with_one_port_both_work_at_once(desk):
    """The second server moves on, and each node finds its own by `hello`."""
    desk.job, other = two_jobs_with_one_port()
    first = desk.server("--nodes", "1", "--format", "json")
    second = desk.server("--nodes", "1", "--format", "json", job=other)
    assert first.port != second.port
    root = desk.tree(**BEFORE)
    for job in (other, desk.job):
        desk.client("start", *desk.on("nid00001", root), job=job)
    write_tree(root, **AFTER)
    for job in (other, desk.job):
        done = desk.client("stop", "--server", "127.0.0.1", *desk.on("nid00001", root), job=job)
        assert (0, "") == (done.status, done.err)
    assert desk.job == first.wait().record["job"]["id"]
    assert other == second.wait().record["job"]["id"]


def test_when_all_ports_are_taken_it_says_so(desk):
    """Status 3, and what in site.cfg would help."""
    desk.job, [first, second] = job_with_free_ports(2)
    with Listener(first, None), Listener(second, None):
        done = desk.run_server("--nodes", "1", env={"IOSTATS_SERVER_PORT_TRIES": "2"})
    assert 3 == done.status
    assert f"all ports of job {desk.job} are in use ({first} {second})" in done.line
    assert [] == os.listdir(desk.home / ".iostats")


@pytest.mark.parametrize("address, status", [
    ("127.0.0.1:0", 2), ("127.0.0.1:65536", 2), ("127.0.0.1:http", 2), (":8023", 2),
    ("no-such-host.invalid", 3), ("203.0.113.23", 3),
])
def test_an_address_to_listen_on_that_cannot_be_is_one_line(desk, address, status):
    """203.0.113.0/24 is for documentation: no machine has it."""
    done = desk.run_server("--nodes", "1", listen=address)
    assert status == done.status
    assert address.partition(":")[0] in done.line


# -- mistakes --------------------------------------------------------------------------------

@pytest.mark.parametrize("options, named", [
    (("--nodes", "0"), "'0'"), (("--nodes", ""), "--nodes"), (("--nodes", "nid[1-"), "'nid[1-'"),
    (("--nodes", "a b/c"), "--nodes"), (("--nodes", "100001"), "100000"),
    (("--nodes", "nid[000001-100001]"), "100001"),
    (("--deadline", "soon"), "'soon'"), (("--deadline", "-1"), "'-1'"),
    (("--deadline", "nan"), "'nan'"), (("--format", "html"), "'html'"),
    (("--config", "no/such.cfg"), "no/such.cfg"),
])
def test_a_wrong_option_is_one_line_that_names_it(desk, options, named):
    """Status 2, before anything is done: no secret is made."""
    done = desk.run_server(*options)
    assert 2 == done.status
    assert named in done.line
    assert not (desk.home / ".iostats").exists()


def test_an_option_that_is_not_there_is_status_2(desk):
    """As every command line tool."""
    done = desk.run_server("--nonsense")
    assert 2 == done.status
    assert "--nonsense" in done.err
    assert "Traceback" not in done.err


def test_without_its_packages_it_says_what_to_install():
    """`python3 -I -S` sees no installed package: one line, no traceback."""
    done = subprocess.run([sys.executable, "-I", "-S", str(SERVER), "--job", "4711"], text=True,
                          capture_output=True)
    [line] = done.stderr.splitlines()
    assert done.returncode != 0
    assert "the server needs the Python package" in line
    assert "pip install '.[server]'" in line


@pytest.mark.parametrize("role, make, extra", [
    *((role, "install-node (or install-login)", "server") for role in (
        "run", "report", "why", "diff", "jobs")),
    *((role, f"install-{role}", role) for role in ("collector", "ldms", "web"))])
def test_without_its_packages_the_command_says_what_to_install(role, make, extra):
    """
    A node with `make install-node PACKAGES=no`, say.  By no name in the package index: there
    the first who registers one has it.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); "
         "from iostats.__main__ import main; sys.exit(main())", role,
         {"ldms": "check", "web": "--quiet", "jobs": "--json"}.get(role, "true")],
        text=True, capture_output=True)
    [line] = done.stderr.splitlines()
    assert (1, "") == (done.returncode, done.stdout)
    assert line.startswith(f"iostats: {role} needs the Python package ")
    assert line.endswith(f": sudo make {make}, or from the checkout into a virtual environment: "
                         f"python3 -m pip install '.[{extra}]'")


def test_a_report_into_a_link_is_in_the_file_behind_it_and_the_link_stays(desk):
    """As a file's, what was there before is gone."""
    (desk.directory / "there").write_text("before\n")
    (desk.directory / "link").symlink_to(desk.directory / "there")
    server = desk.server("--nodes", "1", "--output", desk.directory / "link")
    assert 0 == server.stop().status
    assert (desk.directory / "link").is_symlink()
    text = (desk.directory / "there").read_text()
    assert text.startswith(f"Job {desk.job}: 0 of 1 node reported")
