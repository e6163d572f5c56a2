"""
`iostats run` from outside in, as its user starts it: on this machine alone, and on several "nodes"
that are all this machine, by stand-ins of srun, ssh and pbsdsh (launchers/spread.py).

The command is mostly a few lines of Python or shell.  Counters are those of `write_tree`, which the
command itself moves on, or of a simulated Lustre that counts what the command does.
"""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from ClusterShell.NodeSet import NodeSet
from processes import (
    AFTER,
    BEFORE,
    LLITE,
    Desk,
    is_free,
    job_with_free_ports,
    private_mounts,
    put,
    stats,
    until,
    write_tree,
)
from trees import ROOT as REPOSITORY

from iostats.cli import run
from iostats.run.command import FORWARDED

SPREAD = REPOSITORY / "tests" / "launchers" / "spread.py"
NODES = ("node1", "node2", "node3", "node4")
CHECK = subprocess.run([sys.executable, "-m", "simlustre", "--check"], cwd=REPOSITORY,
                       capture_output=True, text=True)
needs_fuse = pytest.mark.skipif(CHECK.returncode != 0,
                                reason=f"no FUSE: {(CHECK.stderr or CHECK.stdout).strip()}")

as_root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

# What a command that is no shell finds, as JSON on its standard output.
PROBE = """
import json, os, sys
def line(name):
    [found] = [line for line in open('/proc/self/status') if line.startswith(name)]
    return int(found.split()[1], 16)
limits = open('/proc/self/limits').read()
PYTHONS = 1 << 12 | 1 << 24 | 1 << 31 | 1 << 32        # SIGPIPE, SIGXFSZ; and the C library's own
print(json.dumps({'cwd': os.getcwd(), 'environ': open('/proc/self/environ', 'rb').read().hex(),
    'ignored': line('SigIgn') & ~PYTHONS, 'blocked': line('SigBlk'),
    'limits': limits, 'arguments': sys.argv[1:]}))
"""

HEAD_OF_ONE_NODE = r"Job {} of \w+: 1 node, 00:\d\d:\d\d from [-\d: ]+"


class RunDesk(Desk):
    """A user who runs commands under `iostats run`."""

    def __init__(self, directory):
        super().__init__(directory)
        self.bin, self.roots, self.pids = (self.directory / name for name in ("bin", "roots",
                                                                              "pids"))
        for path in (self.bin, self.roots, self.pids):
            path.mkdir()
        self.job, self.ports = job_with_free_ports(2)
        self.out, self.err = self.directory / "out", self.directory / "err"

    def environment(self, extra=None):
        found = super().environment({
            "IOSTATS_NODE_STATE_DIR": str(self.state), "IOSTATS_SERVER_HOST": "localhost",
            # A loaded machine is no failure: what is to take its time says so itself.
            "IOSTATS_NODE_RETRY_TIMEOUT": "60", "IOSTATS_RUN_START_TIMEOUT": "100",
            "IOSTATS_RUN_DEADLINE": "60", "PYTHONPATH": str(REPOSITORY), **(extra or {})})
        found["PATH"] = f"{self.bin}:{found['PATH']}"
        return {name: value for name, value in found.items() if value is not None}

    def launcher(self, kind, names=NODES):
        """Put the stand-in of `kind` into PATH; the environment that goes with it."""
        path = self.bin / kind
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SPREAD}" {kind} "$@"\n')
        path.chmod(0o755)
        environ = {"SPREAD_NODES": " ".join(names), "SPREAD_ROOT": str(self.roots),
                   "SPREAD_PIDS": str(self.pids)}
        for name in names:
            write_tree(self.roots / name, **BEFORE)
        if kind == "srun":
            environ.update(SLURM_JOB_ID=self.job, SLURM_JOB_NODELIST=",".join(names),
                           SLURMD_NODENAME="front")
        elif kind == "pbsdsh":
            hosts = self.directory / "hosts"
            hosts.write_text("".join(f"{name}\n" for name in names))
            environ.update(PBS_JOBID=self.job, PBS_NODEFILE=str(hosts))
        return environ

    def options(self, kind, names=NODES):
        """The options that go with the stand-in of `kind`."""
        return ("--job", self.job, "--nodes", ",".join(names)) if kind == "ssh" else ()

    def work(self, names=NODES):
        """A command (of a shell) that moves all counters on; see processes.AFTER."""
        for name in names:
            write_tree(self.directory / "after" / name, **AFTER)
        return f"cp -R '{self.directory}/after/.' '{self.roots}/'"

    def when_started(self, count):
        """A command (of a shell) that waits until so many nodes have started."""
        return (f"until set -- '{self.state}'/*.start && [ $# = {count} ] && [ -e \"$1\" ]; "
                f"do sleep 0.01; done")

    def begin(self, *arguments, env=None, out=None, err=None, stdin=subprocess.DEVNULL, **how):
        """A Popen of `iostats run ARGUMENTS`; standard error is in `self.err`."""
        with contextlib.ExitStack() as files:
            out = files.enter_context(self.out.open("wb")) if out is None else out
            err = files.enter_context(self.err.open("wb")) if err is None else err
            process = subprocess.Popen(
                [sys.executable, "-m", "iostats", "run", *map(str, arguments)],
                env=self.environment(env),
                cwd=how.pop("cwd", self.directory), stdin=stdin, stdout=out, stderr=err, **how)
        self.started.append(process)
        return process

    def run(self, *arguments, **how):
        """Run to its end; the Result."""
        return self.end(self.begin(*arguments, **how))

    def run_sh(self, script, *options, **how):
        return self.run(*options, "--", "sh", "-c", script, **how)

    def end(self, process):
        process.wait(100)
        out, err = (path.read_bytes() if path.exists() else b"" for path in (self.out, self.err))
        return Result(process.returncode, out, err.decode())

    def end_impatiently(self, process):
        """Press Ctrl-C again and again: the first one may be what has ended the command."""
        def has_ended():
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(0.1) is not None
        until(has_ended, what="the end")
        return self.end(process)

    def said(self, text):
        """True when standard error has `text` by now, whose words may be on two lines."""
        return text in " ".join(self.err.read_text().split())

    def pid(self, name):
        """The number of the process that the stand-in wrote down."""
        path = self.pids / name
        return int(until(lambda: path.exists() and path.read_text(), what=name))

    def processes(self):
        """{number: command line} of all processes that have to do with this desk."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if str(self.directory) in text or self.job in text:
                    found[int(path.parent.name)] = text
        return found

    def close(self):
        """End everything that was started here, also what it has started itself."""
        super().close()
        for number in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def left(self):
        """What is left behind: processes, where they wait, and files that were not there before."""
        kept = [str(path.relative_to(self.directory)) for top in (self.home, self.state)
                for path in top.rglob("*") if path.is_file()]
        return [f"{number} in {waits_in(number)}: {text}"
                for number, text in self.processes().items()] + kept


def waits_in(number):
    """The kernel's functions in which the threads of a process wait."""
    found = []
    for path in Path(f"/proc/{number}/task").glob("*/wchan"):
        with contextlib.suppress(OSError):
            found.append(path.read_text())
    return " ".join(found)


class Result:
    """A command that has ended: its status as of Popen, what it printed, and its lines."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err, self.lines = status, out, err, err.splitlines()

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.out!r}\n--- stderr\n{self.err}"

    @property
    def ours(self):
        """The lines that `iostats run` itself says."""
        return [line for line in self.lines if line.startswith("iostats: ")]


@pytest.fixture
def desk(tmp_path):
    """A desk where nothing of us may be left behind."""
    before = set(Path("/tmp").glob(f"iostats-{os.geteuid()}-*"))
    with RunDesk(tmp_path) as one:
        yield one
        until(lambda: not one.left(),
              what=lambda: f"the end of all that was started ({one.left()})")
    mine = [path for path in set(Path("/tmp").glob(f"iostats-{os.geteuid()}-*")) - before
            if any(one.job in file.name for file in path.glob("*"))]
    assert not mine


# -- a host without IPv4 --------------------------------------------------------------------------

ONLY_IPV6 = ("unshare", "--net", "sh", "-c",
             "ip link set lo up; ip addr del 127.0.0.1/8 dev lo; exec \"$@\"", "sh")


@pytest.mark.parametrize("kind, server", [
    ("", None), ("srun", "::1"), ("srun", "[::1]"), ("ssh", "::1")])
@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_a_host_without_ipv4_is_measured(desk, kind, server):
    """In a network of its own that has ::1 alone; `kind`: the launcher, "" for this host alone."""
    for name in ("unshare", "ip"):
        if not shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            pytest.skip(f"needs {name}")
    names = NODES if kind else ("alone",)
    environ = desk.launcher(kind, names) if kind else {}
    if not kind:
        write_tree(desk.roots / "alone", **BEFORE)
    options = desk.options(kind) if kind else ("--root", desk.roots / "alone")
    process = subprocess.run(
        [*ONLY_IPV6, sys.executable, "-m", "iostats", "run", *options, "--format", "json",
         "--output", desk.out, "--", "sh", "-c", desk.work(names)], capture_output=True, text=True,
        env=desk.environment({**environ, **({"IOSTATS_SERVER_HOST": server} if server else {})}),
        cwd=desk.directory, timeout=100)
    assert (0, "") == (process.returncode, process.stderr)
    record = json.loads(desk.out.read_text())
    assert len(names) == record["coverage"]["reported"]
    [fs] = record["file_systems"]
    assert len(names) * (AFTER["write_bytes"] - BEFORE["write_bytes"]) == (
        fs["application"]["write_bytes"])


def probed(result):
    return json.loads(result.out)


def record_of(path):
    return json.loads(Path(path).read_text())


def application(record):
    [fs] = record["file_systems"]
    return fs["application"]


def numbers(record):
    """What the application did, of the only file system, and whether it is a lower bound."""
    found = application(record)
    return found["read_bytes"], found["write_bytes"], found["lower_bound"]


def notes_of(record):
    """Every line that says why a number is what it is, such as "node[1-4]: llite: ..."."""
    return [*record["notes"], *(line for fs in record["file_systems"] for line in fs["notes"])]


# What BEFORE and AFTER differ by on one node, and on four
ONE, FOUR = (41_003, 53_007), (164_012, 212_028)


# -- the command does not know that it is measured ----------------------------------------------

def test_bytes_go_in_and_out_as_they_are(desk):
    data = bytes(range(256)) * 4099                                # more than a pipe holds
    (desk.directory / "in").write_bytes(data)
    with (desk.directory / "in").open("rb") as stdin:
        result = desk.run("--", "cat", stdin=stdin)
    assert result.status == 0
    assert result.out == data


def test_standard_error_has_the_commands_lines_and_then_the_report(desk):
    result = desk.run_sh("echo out; printf 'one\\ntwo\\n' >&2", "--job", desk.job,
                         "--root", desk.tree())
    assert result.out == b"out\n"
    assert result.lines[:2] == ["one", "two"]
    assert re.fullmatch(HEAD_OF_ONE_NODE.format(desk.job), result.lines[2])


def test_a_task_of_an_array_is_called_as_users_call_it(desk):
    env = desk.launcher("srun")
    done = desk.run("--", "true", env={**env, "SLURM_ARRAY_JOB_ID": "90100",
                                       "SLURM_ARRAY_TASK_ID": "17"})
    assert "Job 90100_17" in done.err, done


def test_arguments_are_passed_as_they_are(desk):
    wild = ["", "a b", "*", "--job", "--", "$HOME", "\n", b"\xff\x80", "-h", "'\""]
    result = desk.run("--", sys.executable, "-c", PROBE, *[
        word.decode("utf-8", "surrogateescape") if isinstance(word, bytes) else word
        for word in wild])
    assert probed(result)["arguments"] == [
        word if isinstance(word, str) else "\udcff\udc80" for word in wild]


@pytest.mark.parametrize("extra", [
    {"LC_ALL": None, "IOSTATS_SECRET": "the user's own, for another server"},
    {"LC_ALL": "C", "HOME": None, "PYTHONPATH": f"{REPOSITORY}:/x"},
], ids=["no locale", "the C locale"])
def test_the_environment_is_the_callers(desk, extra):
    """No secret of ours is in it, and no LC_CTYPE, which Python sets for itself."""
    extra = {"WILD": "a\nb=c \udcff", **extra}
    result = desk.run("--", sys.executable, "-I", "-c", PROBE, env=extra)
    found = bytes.fromhex(probed(result)["environ"]).split(b"\0")[:-1]
    assert sorted(found) == sorted(f"{name}={value}".encode("utf-8", "surrogateescape")
                                   for name, value in desk.environment(extra).items())


def test_directory_limits_and_signals_are_the_callers(desk):
    def as_a_batch_system():
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        resource.setrlimit(resource.RLIMIT_NOFILE, (237, 241))

    alone = subprocess.run([sys.executable, "-c", PROBE], stdout=subprocess.PIPE, cwd=desk.home,
                           preexec_fn=as_a_batch_system, check=True)
    result = desk.run("--", sys.executable, "-c", PROBE, cwd=desk.home,
                      preexec_fn=as_a_batch_system)
    expected, found = json.loads(alone.stdout), probed(result)
    assert found["cwd"] == str(desk.home)
    assert found["ignored"] == expected["ignored"] == 1 << 11
    assert found["blocked"] == 1 << 13
    assert found["limits"] == expected["limits"]


def test_files_that_a_shell_has_opened_for_it_are_open(desk):
    """Such as those of <(...), or of make's jobs; and none of ours is."""
    (desk.directory / "file").write_text("23\n37\n")
    with (desk.directory / "file").open() as file:
        there = fcntl.fcntl(file, fcntl.F_DUPFD, 41)
        result = desk.run("bash", "-c", f"cat <&{there}; ls /proc/self/fd", pass_fds=[there])
    os.close(there)
    *first, last = result.out.decode().split()
    assert first[:2] == ["23", "37"]
    assert set(first[2:] + [last]) == {"0", "1", "2", "3", str(there)}   # 3 is the directory


@pytest.mark.parametrize("numbers", [[0], [1, 2]])
def test_a_standard_file_that_is_closed_stays_closed(desk, numbers):
    found = desk.directory / "found"
    result = desk.run(
        "--json", desk.directory / "record", "--", sys.executable, "-c",
        "import os, sys\nfound = []\nfor n in range(3):\n    try: os.fstat(n); found.append(n)\n"
        "    except OSError: pass\nopen(sys.argv[1], 'w').write(str(found))", found,
        preexec_fn=lambda: [os.close(number) for number in numbers])
    assert result.status == 0
    assert found.read_text() == str([n for n in range(3) if n not in numbers])
    assert result.out == b""
    assert record_of(desk.directory / "record")["coverage"]["complete"]


def test_the_files_of_two_steps_are_one_report_with_a_row_for_each(desk):
    """Each moves the counters on: 23 reads of 41,003 bytes, then 37 of 53,007 bytes more."""
    root = desk.roots / "node1"
    write_tree(root, **BEFORE)
    write_tree(desk.directory / "after/node1", **AFTER)
    write_tree(desk.directory / "later/node1", **{**AFTER, "writes": 77, "write_bytes": 115_014})
    for name in ("after", "later"):
        result = desk.run_sh(f"cp -R '{desk.directory}/{name}/.' '{desk.roots}/'", "--job",
                             desk.job, "--root", root, "--json", desk.directory / f"{name}.json")
        assert 0 == result.status, result
    files = [str(desk.directory / f"{name}.json") for name in ("later", "after")]
    done = subprocess.run([sys.executable, "-m", "iostats", "report", "--format", "plain", *files],
                          env=desk.environment(), capture_output=True, text=True)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert (0, "") == (done.returncode, done.stderr)
    assert f"Job {desk.job}" in lines[0] and lines[0].endswith("2 steps measured by iostats run")
    assert "scratch 40.0 KiB 103.5 KiB 56" in lines
    assert [1 for line in lines if line.startswith("sh -c 'cp -R ")
            and line.endswith(" scratch 40.0 KiB 51.8 KiB 56")]
    assert [1 for line in lines if line.startswith("sh -c 'cp -R ")
            and line.endswith(" scratch 0 bytes 51.8 KiB 0")]
    one = subprocess.run([sys.executable, "-m", "iostats", "report", files[1]],
                         env=desk.environment(), capture_output=True, text=True)
    assert "Measured: the command sh -c 'cp -R " in one.stdout


# -- how it ends ------------------------------------------------------------------------------

@pytest.mark.parametrize("status", [0, 143, 255])
def test_the_exit_status_is_the_commands(desk, status):
    assert desk.run_sh(f"exit {status}", "--quiet").status == status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGSEGV])
def test_who_calls_sees_the_signal_that_has_ended_it(desk, number):
    """A command's own death, with us still there to report it; and no core dump of ours."""
    result = desk.run_sh(f"kill -{int(number)} $$")
    assert result.status == -number
    assert " 1 node, 00:" in result.err
    assert not list(desk.directory.glob("core*"))


def test_a_shell_sees_128_and_the_signal(desk):
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m iostats run --quiet -- sh -c 'kill -9 $$'; echo $?"],
        env=desk.environment(), capture_output=True, text=True)
    assert done.stdout == "137\n"


@pytest.mark.parametrize("name, mode, status, why", [
    ("no-such-command", None, 127, "No such file or directory"),
    ("", None, 127, "No such file or directory"),
    ("./file", 0o600, 126, "Permission denied"),
    ("./directory", None, 126, "Permission denied"),
])
def test_a_command_that_can_not_be_run(desk, name, mode, status, why):
    (desk.directory / "directory").mkdir()
    if mode:
        (desk.directory / "file").write_text("#!/bin/sh\n")
        (desk.directory / "file").chmod(mode)
    result = desk.run("--", name)
    assert result.status == status
    assert result.lines == [f"iostats: {name}: {why}"]


def test_a_script_without_its_first_line_is_the_shells(desk):
    (desk.bin / "script").write_text('echo "$0 $1"; exit 23\n')
    (desk.bin / "script").chmod(0o755)
    result = desk.run("--", "script", "37")
    assert (result.status, result.out) == (23, f"{desk.bin}/script 37\n".encode())


@pytest.mark.parametrize("options, line", [
    ([], "expected a command to run, got nothing (see --help)"),
    (["--"], "expected a command to run, got nothing (see --help)"),
    (["--long"], "expected a command to run, got nothing (see --help)"),
    (["--job"], "--job: expected a value after it (see --help)"),
    (["--nosuch", "X"], "no option '--nosuch'; there are: --job --nodes --format --long --explain "
     "--output --json --root --config --quiet (see --help)"),
    (["--format", "xml", "X"], "--format: [report] format: expected grid, plain, json, csv "
     "or markdown, got 'xml'"),
    (["--job", " ", "X"], "--job: expected a job id, got nothing"),
    (["--nodes", "4", "X"], "--nodes: expected names, such as nid[00001-00128], got '4'"),
    (["--nodes", "n[1", "X"], None),
    (["--nodes=-oProxyCommand=x", "X"], None),
    (["--root", "/no/such", "X"], "--root: expected a directory, got '/no/such'"),
    (["--config", "/no/such", "X"], "/no/such: cannot be read: No such file or directory"),
])
def test_bad_usage_is_told_before_anything_starts(tmp_path, monkeypatch, capfd, options, line):
    monkeypatch.setenv("HOME", str(tmp_path))
    touch = ["touch", str(tmp_path / "it-ran")]
    status = run.main([part for word in options for part in (touch if word == "X" else [word])])
    out, err = capfd.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("iostats: ") if line is None else err == f"iostats: {line}\n"
    assert err.count("\n") == 1
    assert not (tmp_path / "it-ran").exists()


def test_a_broken_site_cfg_is_told_before_anything_starts(desk):
    (desk.home / ".iostats").mkdir()
    config = desk.home / ".iostats" / "site.cfg"
    config.write_text("[run]\ngrace = soon\n")
    result = desk.run("touch", desk.directory / "it-ran")
    config.unlink()
    assert result.status == 2
    assert result.lines == [f"iostats: {config}:2: [run] grace: expected seconds, from 0 to "
                            f"10000000, got 'soon'"]
    assert not (desk.directory / "it-ran").exists()


def test_help_tells_all_options(capsys):
    assert run.main(["--long", "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--job", "--nodes", "--format", "--long", "--explain", "--output", "--json",
                   "--root", "--config", "--quiet"):
        assert f"\n  {option} " in text


# -- signals ----------------------------------------------------------------------------------

# Says "ready" when it can be told something; writes down each signal; ends with 23 on SIGUSR1 when
# it has had `sys.argv[2]`, or by itself when the file `go` is there.
LISTENER = """
import os, signal, sys, time
got = open(sys.argv[1], 'a', buffering=1)
for number in (1, 2, 3, 10, 12, 15, 24):
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda number, frame: got.write('%d\\n' % number))
open(sys.argv[1] + '.pid.new', 'w').write(str(os.getpid()))
os.rename(sys.argv[1] + '.pid.new', sys.argv[1] + '.pid')
while not os.path.exists(sys.argv[1] + '.go'):
    time.sleep(0.01)
sys.exit(23)
"""


# On SIGTERM does the shell's `sys.argv[1]`, and ends with 23; a second SIGTERM is ignored.
ENDING = """
import os, signal, sys, time
def end(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.system(sys.argv[1])
    os._exit(23)
signal.signal(signal.SIGTERM, end)
print('ready', file=sys.stderr, flush=True)
while True:
    time.sleep(0.01)
"""


class Listener:
    """A command that writes down which signals it has got."""

    def __init__(self, desk):
        self._path = desk.directory / "got"
        self.argv = [sys.executable, "-c", LISTENER, self._path]

    def pid(self):
        """Its number, when it listens."""
        path = Path(f"{self._path}.pid")
        return int(until(path.exists, what="the command") and path.read_text())

    @property
    def got(self):
        return [int(line) for line in self._path.read_text().split()]

    def let_go(self):
        Path(f"{self._path}.go").touch()


def test_every_signal_that_we_get_is_the_commands(desk):
    listener = Listener(desk)
    process = desk.begin("--", *listener.argv)
    listener.pid()
    expected = [1, 2, 3, 10, 12, 24, 15]
    for count, number in enumerate(expected, 1):
        process.send_signal(number)
        until(lambda count=count: listener.got == expected[:count], what=f"signal {number}")
    listener.let_go()
    result = desk.end(process)
    assert set(FORWARDED) == set(expected)
    assert result.status == 23
    assert " 1 node, 00:" in result.err


def test_a_signal_that_was_ignored_stays_so(desk):
    """As nohup has it, and a shell's & with SIGINT."""
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    listener = Listener(desk)
    process = desk.begin("--", *listener.argv, preexec_fn=lambda: [
        signal.signal(number, signal.SIG_IGN) for number in ignored])
    pid = listener.pid()
    for number in ignored:
        process.send_signal(number)
        os.kill(pid, number)
    process.send_signal(signal.SIGUSR1)
    until(lambda: listener.got == [signal.SIGUSR1], what="the signal")
    listener.let_go()
    assert desk.end(process).status == 23


def test_a_signal_before_the_command_has_begun_ends_us_at_once(desk):
    environ = desk.launcher("srun")
    process = desk.begin("--", "touch", desk.directory / "it-ran",
                         env={**environ, "SPREAD_WRONG": "hang:node3",
                              "IOSTATS_RUN_START_TIMEOUT": "1000",
                              "IOSTATS_RUN_DEADLINE": "1000"})
    until(lambda: len(list(desk.state.glob("*.start"))) == 3, what="the other nodes' start")
    process.send_signal(signal.SIGTERM)
    until(lambda: not any(desk.state.iterdir()), what="the other nodes' stop")
    result = desk.end_impatiently(process)
    assert result.status == -signal.SIGTERM
    assert not (desk.directory / "it-ran").exists()
    assert result.lines == []


class Terminal:
    """A terminal, in whose foreground group `iostats run` and its command are."""

    def __init__(self, desk, *arguments, env=None, stdin=None):
        self.controller, ours = pty.openpty()

        def in_front():
            os.setsid()
            fcntl.ioctl(ours, termios.TIOCSCTTY, 0)
        self.process = desk.begin(*arguments, env=env, out=ours, preexec_fn=in_front,
                                  stdin=ours if stdin is None else stdin)
        os.close(ours)

    def press(self, key):
        os.write(self.controller, key)

    def close(self):
        os.close(self.controller)


@pytest.mark.parametrize("stdin", [None, subprocess.DEVNULL], ids=["terminal", "no input"])
def test_a_key_that_interrupts_reaches_the_command_once(desk, stdin):
    """The terminal tells the whole group; what somebody else sends to us alone is passed on."""
    listener, expected = Listener(desk), []
    terminal = Terminal(desk, "--", *listener.argv, stdin=stdin)
    listener.pid()

    def got(number):
        expected.append(number)
        until(lambda: len(listener.got) >= len(expected), what=f"signal {number}")
        return listener.got == expected
    for key, number in ((b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)):
        terminal.press(key)
        assert got(number)
        terminal.process.send_signal(signal.SIGUSR1)         # what came before was passed on by now
        assert got(signal.SIGUSR1)
        terminal.process.send_signal(number)
        assert got(number)
    listener.let_go()
    result = desk.end(terminal.process)
    terminal.close()
    assert result.status == 23
    assert " 1 node, 00:" in result.err


def test_ctrl_c_ends_a_command_and_the_report_still_comes(desk):
    environ = desk.launcher("srun")
    terminal = Terminal(desk, "--", "sh", "-c", f"{desk.work()}; echo ready >&2; exec sleep 1000",
                        env=environ)
    until(lambda: desk.said("ready"), what="the command")
    terminal.press(b"\x03")
    result = desk.end(terminal.process)
    terminal.close()
    assert result.status == -signal.SIGINT
    assert " 4 nodes, 00:" in result.err
    assert ">=" not in result.err


def test_it_can_be_stopped_and_go_on(desk):
    listener = Listener(desk)
    process = desk.begin("--", *listener.argv, preexec_fn=os.setpgrp)
    pid = listener.pid()
    os.killpg(process.pid, signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)

    def state(number):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    until(lambda: state(pid) == "T", what="the stop")
    os.killpg(process.pid, signal.SIGCONT)
    until(lambda: state(pid) != "T", what="the way on")
    process.send_signal(signal.SIGUSR2)
    until(lambda: listener.got == [signal.SIGUSR2], what="the signal")
    listener.let_go()
    result = desk.end(process)
    assert result.status == 23
    assert " 1 node, 00:" in result.err


# -- the batch system ends the job ----------------------------------------------------------------

def signal_job(desk, process, number, attending=()):
    """As a batch system does: the command's group, and the processes of its steps."""
    os.killpg(process.pid, number)
    for name in attending:
        os.kill(desk.pid(f"{name}.attend"), number)


@pytest.mark.parametrize("kind", ["here", "srun", "ssh"])
def test_a_command_that_ends_when_it_is_told_is_measured_whole(desk, kind):
    environ = desk.launcher(kind) if kind != "here" else {}
    names = NODES if kind != "here" else ("node1",)
    options = desk.options(kind) if kind != "here" else (
        "--job", desk.job, "--root", write_tree(desk.roots / "node1", **BEFORE))
    process = desk.begin(*options, "--json", "record", "--", sys.executable, "-c", ENDING,
                         desk.work(names),
                         env={**environ, "IOSTATS_RUN_GRACE": "100"}, preexec_fn=os.setpgrp)
    until(lambda: desk.said("ready"), what="the command")
    signal_job(desk, process, signal.SIGTERM, NODES if kind == "srun" else ())
    result = desk.end(process)
    assert result.status == 23
    assert re.search(rf" {len(names)} nodes?, 00:", result.err)
    expected = ONE if kind == "here" else FOUR
    assert numbers(record_of(desk.directory / "record")) == (*expected, False)


@pytest.mark.parametrize("kind", ["here", "srun", "pbsdsh"])
def test_of_a_command_that_goes_on_is_told_what_is_known_before_all_are_killed(desk, kind):
    """SIGTERM, a grace that the command does not use, and SIGKILL to all, srun and us too."""
    environ = desk.launcher(kind) if kind != "here" else {}
    names = NODES if kind != "here" else ("node1",)
    options = desk.options(kind) if kind != "here" else (
        "--job", desk.job, "--root", write_tree(desk.roots / "node1", **BEFORE))
    process = desk.begin(*options, "--json", "record", "--", "bash", "-c",
                         f"trap '' TERM; {desk.work(names)}; echo ready >&2; exec sleep 1000",
                         env={**environ, "IOSTATS_RUN_GRACE": "0.2"}, preexec_fn=os.setpgrp)
    until(lambda: desk.said("ready"), what="the command")
    signal_job(desk, process, signal.SIGTERM, NODES if kind == "srun" else ())
    until(lambda: desk.said("command continued") and (desk.directory / "record").exists(),
          what=lambda: f"the report, with {desk.left()} and {desk.err.read_text()!r},")
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    result = desk.end(process)
    until(lambda: not desk.left(), what=lambda: f"the end of all ({desk.left()})")
    assert result.status == -signal.SIGKILL
    assert re.search(rf" {len(names)} nodes?, 00:", result.err)
    assert ">=" in result.err
    record = record_of(desk.directory / "record")
    expected = ONE if kind == "here" else FOUR
    assert numbers(record) == (*expected, True)
    who = "node[1-4]" if kind != "here" else os.uname().nodename.partition(".")[0]
    assert (f"{who}: llite: the job was ended (SIGTERM) and its command continued: its I/O more "
            f"than 0.2 s after that is not counted") in notes_of(record)


def test_a_command_that_goes_on_and_then_ends_has_one_report(desk):
    root = write_tree(desk.roots / "node1", **BEFORE)
    process = desk.begin("--job", desk.job, "--root", root, "--", "bash", "-c",
                         f"trap '' TERM; echo ready >&2; until [ -e go ]; do sleep 0.01; done; "
                         f"{desk.work(('node1',))}; exit 23",
                         env={"IOSTATS_RUN_GRACE": "0.1"}, preexec_fn=os.setpgrp)
    until(lambda: desk.said("ready"), what="the command")
    signal_job(desk, process, signal.SIGTERM)
    until(lambda: desk.said("command continued"), what="the report")
    (desk.directory / "go").touch()
    result = desk.end(process)
    assert result.status == 23
    assert len(re.findall("^Job ", result.err, re.M)) == 1


def test_a_step_that_is_told_alone_reports_what_is_known(desk):
    """As scancel does with a step: we do not know of it, and the command goes on."""
    process = desk.begin("--json", "record", "--", "sh", "-c",
                         f"{desk.work()}; echo ready >&2; until [ -e go ]; do sleep 0.01; done; "
                         f"exit 23", env={**desk.launcher("srun"), "IOSTATS_RUN_GRACE": "0.1"})
    until(lambda: desk.said("ready"), what="the command")
    for name in NODES:
        os.kill(desk.pid(f"{name}.attend"), signal.SIGTERM)
    until(lambda: not any(desk.state.iterdir()), what="the reports")
    (desk.directory / "go").touch()
    result = desk.end(process)
    record = record_of(desk.directory / "record")
    assert result.status == 23
    assert numbers(record) == (*FOUR, True)
    assert ("node[1-4]: llite: the job was ended (SIGTERM) and its command continued: its I/O "
            "more than 0.1 s after that is not counted") in notes_of(record)


def test_with_nodes_that_say_nothing_the_end_comes_in_time(desk):
    environ = desk.launcher("srun")
    process = desk.begin("--", "sh", "-c", "echo ready >&2; sleep 1000", env={
        **environ, "SPREAD_WRONG": "hang:node2", "IOSTATS_RUN_START_TIMEOUT": "1",
        "IOSTATS_RUN_DEADLINE": "1", "IOSTATS_SERVER_DEADLINE": "1000"}, preexec_fn=os.setpgrp)
    until(lambda: desk.said("ready"), what="the command")
    until(lambda: len(list(desk.state.glob("*.start"))) == 3, what="the other nodes' start")
    signal_job(desk, process, signal.SIGTERM, ("node1", "node3", "node4"))
    result = desk.end(process)
    for path in desk.state.glob("*"):
        path.unlink()                                  # of a node that was too slow for this second
    assert result.status == -signal.SIGTERM
    assert "of 4 nodes reported" in result.err
    missing = re.search(r"missing:\s+(\S+)", result.err).group(1)
    assert "node2" in NodeSet(missing)                     # of a slow machine's node[1-4]


def test_a_signal_for_the_commands_own_use_does_not_end_the_measuring(desk):
    """sbatch --signal=USR1@300 tells all processes of the steps."""
    environ = desk.launcher("srun")
    listener = Listener(desk)
    process = desk.begin("--json", "record", "--", "sh", "-c", '"$@"; ' + desk.work(), "sh",
                         *listener.argv, env=environ)
    pid = listener.pid()
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP):
        for name in NODES:
            os.kill(desk.pid(f"{name}.attend"), number)
    os.kill(pid, signal.SIGUSR1)
    until(lambda: listener.got == [signal.SIGUSR1], what="the signal")
    listener.let_go()
    result = desk.end(process)
    assert result.status == 0
    assert numbers(record_of(desk.directory / "record")) == (*FOUR, False)


# -- what can go wrong with nodes -----------------------------------------------------------------

@pytest.mark.parametrize("kind", ["srun", "ssh", "pbsdsh"])
def test_a_node_that_can_not_start_is_named(desk, kind):
    environ = desk.launcher(kind)
    result = desk.run_sh(f"{desk.when_started(3)}; {desk.work()}; exit 23", "--json", "record",
                         *desk.options(kind), env={
        **environ, "SPREAD_WRONG": "none:node3",
        "IOSTATS_RUN_START_TIMEOUT": "2" if kind == "srun" else "1000"})
    record = record_of(desk.directory / "record")
    assert result.status == 23
    assert record["coverage"]["missing"] == {"node3": "no report"}
    assert numbers(record) == (123_009, 159_021, True)               # three times ONE
    assert f"iostats: {kind}: error: node3: /no/such/python: No such file or directory" in (
        result.ours)


@pytest.mark.parametrize("kind", ["srun", "ssh"])
def test_a_node_that_hangs_is_waited_for_as_long_as_anybody_has_patience(desk, kind):
    """Ctrl-C ends the waiting, once the command has ended; its exit status stands."""
    environ = desk.launcher(kind)
    process = desk.begin(*desk.options(kind), "--json", "record", "--", "sh", "-c",
                         f"{desk.work()}; echo ended >&2; exit 23", env={
                             **environ, "SPREAD_WRONG": "hang:node3",
                             "IOSTATS_RUN_START_TIMEOUT": "10", "IOSTATS_SERVER_DEADLINE": "1000"})
    until(lambda: desk.said("ended"), what="the command")
    until(lambda: not any(desk.state.iterdir()), what="the other nodes' reports")
    result = desk.end_impatiently(process)
    record = record_of(desk.directory / "record")
    assert result.status == 23
    assert record["coverage"]["missing"] == {"node3": "no report"}
    assert numbers(record) == (123_009, 159_021, True)
    what = "nodes are not ready" if kind == "srun" else "launchers have not returned"
    assert result.ours == [f"iostats: 1 of 4 {what} after 10 s; the command starts without them"]


def test_the_wait_for_a_node_that_hangs_has_an_end(desk):
    result = desk.run_sh(f"until [ -e '{desk.pids}/node1.' ] && [ -e '{desk.pids}/node2.' ]; do "
                         f"sleep 0.01; done; exit 23", env={
        **desk.launcher("srun", ("node1", "node2")), "SPREAD_WRONG": "hang:node1 hang:node2",
        "IOSTATS_RUN_START_TIMEOUT": "0.1", "IOSTATS_SERVER_DEADLINE": "0.1"})
    assert result.status == 23
    assert "0 of 2 nodes reported" in result.err
    assert "node[1-2]" in result.err
    hung = [Path(f"/proc/{desk.pid(f'{name}.')}/stat") for name in ("node1", "node2")]
    until(lambda: not any(path.exists() for path in hung), what="the end of what hung")


def test_a_node_that_starts_late_is_a_lower_bound(desk):
    """What was done before its start is not in its counters' difference."""
    environ = desk.launcher("srun")
    result = desk.run_sh(
        f"{desk.work()}; touch '{desk.pids}/node3.go'; until [ -e '{desk.state}'/*node3.start ]; "
        f"do sleep 0.01; done; exit 23", "--json", "record",
        env={**environ, "SPREAD_WRONG": "late:node3", "IOSTATS_RUN_START_TIMEOUT": "10"})
    record = record_of(desk.directory / "record")
    assert result.status == 23
    assert record["coverage"]["complete"]
    assert numbers(record) == (123_009, 159_021, True)
    assert ("node3: llite: its client started after the command: earlier I/O is not "
            "counted") in notes_of(record)


def test_a_node_whose_process_is_killed_is_named(desk):
    environ = desk.launcher("srun")
    process = desk.begin("--json", "record", "--", "sh", "-c",
                         f"{desk.work()}; echo ready >&2; until [ -e go ]; do sleep 0.01; done; "
                         f"exit 23", env=environ)
    until(lambda: desk.said("ready"), what="the command")
    os.kill(desk.pid("node2.attend"), signal.SIGKILL)
    (desk.directory / "go").touch()
    result = desk.end(process)
    record = record_of(desk.directory / "record")
    for start in desk.state.glob("*node2.start"):
        start.unlink()                                          # who was to remove it is dead
    assert result.status == 23
    assert record["coverage"]["missing"] == {"node2": "no report"}
    assert numbers(record) == (123_009, 159_021, True)


def test_reports_of_nodes_whose_launcher_is_gone_too_early_are_lower_bounds(desk):
    """Their input ends with the launcher, as if the command had."""
    environ = desk.launcher("srun")
    process = desk.begin("--json", "record", "--", "sh", "-c",
                         f"echo ready >&2; until [ -e go ]; do sleep 0.01; done; {desk.work()}; "
                         f"exit 23", env=environ)
    until(lambda: desk.said("ready"), what="the command")
    os.kill(desk.pid("launcher.attend"), signal.SIGKILL)
    until(lambda: not list(desk.state.glob("*")), what="the reports")
    (desk.directory / "go").touch()
    result = desk.end(process)
    record = record_of(desk.directory / "record")
    assert result.status == 23
    assert numbers(record) == (0, 0, True)
    assert ("node[1-4]: llite: its client ended before the command: later I/O "
            "is not counted") in notes_of(record)


@pytest.mark.parametrize("kind, wrong, line", [
    ("srun", "missing", "srun"),                                    # env(1) says it its own way
    ("srun", "fail", "srun: error: no such partition"),
    ("pbsdsh", "missing", "pbsdsh: cannot be run: No such file or directory"),
    ("pbsdsh", "fail", "pbsdsh: error: no such partition"),
    ("ssh", "missing", "ssh: cannot be run: No such file or directory"),
    ("ssh", "fail", "ssh: error: no such partition"),
])
def test_without_its_launcher_the_command_runs(desk, kind, wrong, line):
    environ = desk.launcher(kind, ("node1", "node2"))
    if wrong == "missing":
        (desk.bin / kind).unlink()
        for name in ("sh", "env", "python3"):
            (desk.bin / name).symlink_to(f"/bin/{name}" if name != "python3" else sys.executable)
        environ["PATH"] = str(desk.bin)
    result = desk.run_sh("echo 37; exit 23", *desk.options(kind, ("node1", "node2")),
                         env={**environ, "SPREAD_WRONG": f"{wrong}:"})
    assert (result.status, result.out) == (23, b"37\n")
    assert line in result.ours[0]
    assert len(result.ours) == (2 if kind == "ssh" else 1)           # each node has its own
    assert "0 of 2 nodes reported" in result.err


def test_of_many_launchers_with_one_trouble_a_few_are_heard(desk):
    result = desk.run("--job", desk.job, "--nodes", "n[1-23]", "--", "/bin/sh", "-c", "exit 23",
                      env={"PATH": "/no/such"})
    assert result.status == 23
    assert result.ours == ["iostats: ssh: cannot be run: No such file or directory"] * 20 + [
        "iostats: and 3 more lines of the nodes"]
    assert "0 of 23 nodes reported" in result.err


def test_a_launcher_that_talks_too_much_is_kept_short(desk):
    environ = desk.launcher("pbsdsh")
    quiet = desk.run_sh(f"{desk.work()}; exit 23", "--json", "record",
                        env={**environ, "SPREAD_WRONG": "noise:"})
    assert quiet.status == 23
    assert numbers(record_of(desk.directory / "record")) == (*FOUR, False)
    assert quiet.ours == []
    failing = desk.run_sh("exit 23", env={**environ, "SPREAD_WRONG": "noise: none:node2"})
    assert failing.status == 23
    assert 1 <= len(failing.ours) <= 22
    assert all(line.isprintable() for line in failing.lines)


# -- what can go wrong here -----------------------------------------------------------------------

def test_without_a_port_the_command_runs(desk):
    with socket.create_server(("127.0.0.1", desk.ports[0])):
        result = desk.run_sh(
            "exit 23", "--job", desk.job, env={"IOSTATS_SERVER_PORT_TRIES": "1"},
            # of a caller that ignores the end of its children, as well
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert result.status == 23
    assert result.lines == [
        f"iostats: all ports of job {desk.job} are in use ({desk.ports[0]}); widen [server] "
        f"port_first, port_last or port_tries in site.cfg; the command runs, and is not measured"]


@pytest.mark.parametrize("kind", ["here", "srun", "ssh", "pbsdsh"])
def test_without_a_home_that_can_be_written_the_command_runs(desk, kind):
    """Where a launcher takes our environment along, the home is not needed at all."""
    environ = desk.launcher(kind) if kind != "here" else {}
    (desk.directory / "file").touch()
    result = desk.run_sh("exit 23", *(desk.options(kind) if kind != "here" else ()),
                         env={**environ, "HOME": str(desk.directory / "file")})
    assert result.status == 23
    if kind in ("ssh", "pbsdsh"):
        [line] = result.lines
        assert line.startswith(f"iostats: {desk.directory}/file/.iostats/{desk.job}%2E")
        assert line.endswith("the secret cannot be made: Not a directory; name another directory "
                             "in site.cfg: [secret] dir; the command runs, and is not measured")
    else:
        assert result.ours == []
        assert re.search(r" of alice: (1 node|4 nodes), 00:00:\d\d from ", result.err)


def test_without_any_home_it_is_measured(desk):
    result = desk.run_sh("exit 23", env={"HOME": None})
    assert result.status == 23
    assert " 1 node, 00:" in result.err


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a full directory")
def test_with_a_full_state_directory_the_command_runs(desk):
    full = desk.directory / "full"
    full.mkdir()
    script = (f"mount -t tmpfs -o size=4k,mode=700 none '{full}' && cat /dev/zero > '{full}/zeros' "
              f"2>/dev/null; exec '{sys.executable}' -m iostats run -- sh -c 'exit 23'")
    done = subprocess.run([*private_mounts(), "sh", "-c", script], capture_output=True, text=True,
                          env=desk.environment({"IOSTATS_NODE_STATE_DIR": str(full)}))
    assert done.returncode == 23
    first, *_ = done.stderr.splitlines()
    assert first.startswith(f"iostats: {full}/")
    assert first.endswith("cannot be written: No space left on device; name another directory in "
                          "site.cfg: [node] state_dir")           # run has no --state-dir
    assert "0 of 1 node reported" in done.stderr


def test_a_state_directory_that_can_not_be_had_leaves_the_node_missing(desk):
    (desk.directory / "file").touch()
    result = desk.run_sh("exit 23", env={"IOSTATS_NODE_STATE_DIR": f"{desk.directory}/file/state"})
    assert result.status == 23
    assert "cannot be made: Not a directory" in result.ours[0]
    assert "0 of 1 node reported" in result.err


@pytest.mark.parametrize("environ", [
    {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "n[1"},
    {"SLURM_JOB_ID": "4711\n", "SLURM_JOB_NODELIST": "$(x)"},
    {"PBS_JOBID": "4711", "PBS_NODEFILE": "/no/such"},
])
def test_an_odd_environment_does_not_keep_the_command_from_running(desk, environ):
    assert desk.run_sh("exit 23", env={
        **environ, "IOSTATS_RUN_START_TIMEOUT": "1"}).status == 23


def test_a_standard_error_that_nobody_reads_does_not_change_the_status(desk):
    there, here = os.pipe()
    os.close(there)
    process = desk.begin("--", "sh", "-c", "exit 23", err=here)
    os.close(here)
    assert desk.end(process).status == 23
    with open("/dev/full", "wb") as full:
        process = desk.begin("--", "sh", "-c", "exit 23", err=full)
    assert desk.end(process).status == 23


def test_who_goes_on_in_the_background_does_not_keep_us(desk):
    there, here = os.pipe()
    process = desk.begin("--", "sh", "-c", "sleep 1000 & echo $!; exit 23", out=here, err=here)
    os.close(here)
    process.wait(100)
    pid = int(os.read(there, 100).split()[0])
    os.kill(pid, signal.SIGKILL)
    os.close(there)
    assert process.returncode == 23


def test_no_zombies_and_no_children_but_ours(desk):
    environ = desk.launcher("srun")
    listener = Listener(desk)
    process = desk.begin("--", *listener.argv, env=environ)
    pid = listener.pid()
    children = Path(f"/proc/{process.pid}/task").glob("*/children")
    found = {int(number) for path in children for number in path.read_text().split()}
    states = {Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
              for number in found}
    assert pid in found
    assert len(found) == 2                                         # the command, and one launcher
    assert "Z" not in states
    listener.let_go()
    assert desk.end(process).status == 23


# -- the numbers ------------------------------------------------------------------------------

def test_one_node_is_counted_exactly(desk):
    root = write_tree(desk.roots / "node1", **BEFORE)
    result = desk.run_sh(desk.work(("node1",)), "--job", desk.job, "--root", root,
                         "--json", "of-%j.json")
    record = record_of(desk.directory / f"of-{desk.job}.json")
    assert result.status == 0
    assert numbers(record) == (*ONE, False)
    assert application(record)["read_calls"] == 23
    assert application(record)["write_calls"] == 37
    assert re.fullmatch(HEAD_OF_ONE_NODE.format(desk.job), result.lines[0])
    assert result.out == b""
    assert is_free(desk.ports[0])


@pytest.mark.parametrize("kind", ["srun", "ssh", "pbsdsh"])
def test_four_nodes_are_counted_exactly(desk, kind):
    environ = desk.launcher(kind)
    result = desk.run_sh(f"{desk.work()}; echo 37; exit 23", *desk.options(kind),
                         "--json", "record", env={
                             **environ, "IOSTATS_SECRET": "the user's own, for another server"})
    record = record_of(desk.directory / "record")
    assert (result.status, result.out, result.ours) == (23, b"37\n", [])
    assert numbers(record) == (*FOUR, False)
    assert record["coverage"]["complete"]
    assert set(record["nodes"]) == set(NODES)
    assert {one["file_systems"]["scratch"]["read_bytes"]
            for one in record["nodes"].values()} == {41_003}


def test_nodes_that_nobody_can_name_are_counted(desk):
    """Flux's own job script has no node list in its environment."""
    environ = {**desk.launcher("flux"), "FLUX_JOB_ID": desk.job}
    result = desk.run_sh(f"{desk.work()}; exit 23", "--json", "record", env=environ)
    record = record_of(desk.directory / "record")
    assert result.status == 23
    assert application(record)["read_bytes"] == FOUR[0]
    assert (record["coverage"]["reported"], record["coverage"]["expected"]) == (4, None)


@pytest.mark.parametrize("variable, value", [
    ("IOSTATS_NODE_FILE_SYSTEMS", "hom*"),
])
def test_what_is_chosen_in_the_environment_holds_on_nodes_that_do_not_get_it(desk, variable,
                                                                             value):
    """Each node has a second file system, home, which alone is chosen; its counters stand still."""
    environ = {**desk.launcher("pbsdsh"), variable: value}
    for name in NODES:
        put(desk.roots / name, LLITE.replace("scratch", "home"),
            stats("read_bytes                5 samples [bytes] 1 1009 2018"))
    result = desk.run_sh(f"{desk.work()}; exit 23", "--json", "record", env=environ)
    record = record_of(desk.directory / "record")
    assert result.status == 23
    assert record["coverage"]["complete"]
    assert ["home"] == [fs["name"] for fs in record["file_systems"]]


def test_an_earlier_start_of_the_job_is_not_taken_for_ours(desk):
    """Of a user who measures the whole job by hand, and its last part with `iostats run`."""
    env = {"IOSTATS_NODE_STATE_DIR": None}
    root = write_tree(desk.roots / "node1", reads=1, read_bytes=3, opens=1, rpcs=1)
    assert desk.client("start", "--root", root, env=env).status == 0
    write_tree(root, **BEFORE)
    result = desk.run_sh(desk.work(("node1",)), "--job", desk.job, "--root", root,
                         "--json", "record", env=env)
    assert result.status == 0
    assert numbers(record_of(desk.directory / "record")) == (*ONE, False)
    server = desk.server("--nodes", "1", "--format", "json")
    done = desk.client("stop", "--root", root, "--server", f"127.0.0.1:{server.port}", env=env)
    assert done.status == 0, done
    assert numbers(json.loads(server.wait().out)) == (48_000, 62_007, False)


def test_two_at_once_in_one_job_do_not_disturb_each_other(desk):
    first = write_tree(desk.roots / "node1", **BEFORE)
    second = write_tree(desk.roots / "node2", **BEFORE)
    script = "touch {}; until [ -e {} ]; do sleep 0.01; done; {}"
    one = desk.begin("--job", desk.job, "--root", first, "--json", "record1", "--", "sh", "-c",
                     script.format("one", "two", desk.work(("node1",))),
                     env={"IOSTATS_NODE_STATE_DIR": None})
    other = desk.begin("--job", desk.job, "--root", second, "--json", "record2", "--", "sh", "-c",
                       script.format("two", "one", "exit 23"),
                       env={"IOSTATS_NODE_STATE_DIR": None})
    assert (one.wait(100), other.wait(100)) == (0, 23)
    assert numbers(record_of(desk.directory / "record1")) == (*ONE, False)
    assert numbers(record_of(desk.directory / "record2")) == (0, 0, False)


def test_a_command_of_a_millisecond_is_measured(desk):
    result = desk.run("--job", desk.job, "--root", desk.tree(), "--json", "record", "--", "true")
    assert result.status == 0
    assert numbers(record_of(desk.directory / "record")) == (0, 0, False)


def test_nothing_is_there_while_it_runs_but_one_file_and_it_is_gone_at_the_end(desk):
    """The default state directory: its name is drawn anew, and it goes with its file."""
    result = desk.run_sh(f"ls -d /tmp/iostats-*/{desk.job}*; ls -A ~", "--job", desk.job,
                         env={"IOSTATS_NODE_STATE_DIR": None})
    [path] = result.out.decode().split()
    assert path.endswith(".start")
    assert not os.path.exists(os.path.dirname(path))


@pytest.mark.parametrize("options, begins", [
    (["--format", "json"], "{\n"), (["--format=csv"], "job,"), (["--long", "--explain"], "Job "),
])
def test_the_report_has_the_forms_of_the_servers(desk, options, begins):
    root = write_tree(desk.roots / "node1", **BEFORE)
    result = desk.run_sh(desk.work(("node1",)), "--job", desk.job, "--root", root, *options)
    assert result.err.startswith(begins)
    if "--long" in options:
        assert "Time in operations" in result.err
        assert len(result.lines) > 30


def test_the_report_goes_where_it_is_wanted(desk):
    result = desk.run_sh("echo 37", "--job", desk.job, "--output", "io-%j.txt")
    assert (result.out, result.err) == (b"37\n", "")
    assert (desk.directory / f"io-{desk.job}.txt").read_text().startswith(
        f"Job {desk.job} of alice: 1 node, ")


def test_site_cfg_can_say_where_the_report_goes(desk):
    result = desk.run_sh("echo 37", "--job", desk.job, env={"IOSTATS_RUN_OUTPUT": "io-%j"})
    assert (result.out, result.err) == (b"37\n", "")
    assert (desk.directory / f"io-{desk.job}").read_text().startswith(
        f"Job {desk.job} of alice: 1 node, ")


def test_a_report_that_can_not_be_written_there_is_not_lost(desk):
    result = desk.run_sh("exit 23", "--job", desk.job, "--output", "no/such/io", "--json",
                         "no/record")
    assert result.status == 23
    assert result.lines[0] == "iostats: no/such/io: cannot be written: No such file or directory"
    assert result.lines[1].startswith(f"Job {desk.job} of alice: 1 node, ")
    assert result.lines[-1] == "iostats: no/record: cannot be written: No such file or directory"


def test_the_report_can_go_to_what_is_no_file(desk):
    """What is at the other end of a link such as /dev/stdout is written to, and the link stays."""
    link = desk.directory / "stdout"                     # never /dev/stdout: a bug would replace it
    link.symlink_to("/proc/self/fd/1")
    with desk.out.open("ab") as out:
        result = desk.run_sh("echo 37", "--job", desk.job, "--output", link, out=out)
    assert result.out.startswith(f"37\nJob {desk.job} of alice: 1 node, ".encode())
    assert link.is_symlink()


@needs_fuse
@pytest.mark.fuse
@pytest.mark.parametrize("kind", ["here", "srun"])
def test_what_fuse_has_counted_is_what_the_report_says(desk, kind, request):
    """Each node writes 23 files of 41 KiB, reads 13 of them, and makes 7 directories."""
    names = NODES if kind != "here" else ("node1",)
    environ = desk.launcher(kind) if kind != "here" else {}
    for name in names:
        where = desk.directory / "mounts" / name
        subprocess.run([sys.executable, "-m", "simlustre", "--backing", desk.directory / "backing",
                        "--mount", where, "--fs", "scratch"], cwd=REPOSITORY, check=True,
                       capture_output=True)
        request.addfinalizer(lambda where=where: subprocess.run(
            [sys.executable, "-m", "simlustre", "--unmount", where], cwd=REPOSITORY, check=False,
            capture_output=True))
        (desk.directory / "mounted").mkdir(exist_ok=True)
        (desk.directory / "mounted" / name).symlink_to(where / "root")
    script = (f"for n in {' '.join(names)}; do cd {desk.directory}/mounts/$n/scratch; mkdir $n; "
              f"cd $n; mkdir d1 d2 d3 d4 d5 d6; exec 2>/dev/null; "
              f"for i in $(seq 23); do dd if=/dev/zero of=f$i bs=41k count=1; done; "
              f"for i in $(seq 13); do dd if=f$i of=/dev/null bs=41k count=1; done; done")
    options = (*desk.options(kind),) if kind != "here" else (
        "--job", desk.job, "--root", desk.directory / "mounted" / "node1")
    result = desk.run_sh(script, *options, "--json", "record",
                         env={**environ, "SPREAD_ROOT": str(desk.directory / "mounted")})
    record, count = record_of(desk.directory / "record"), len(names)
    assert result.status == 0
    assert numbers(record) == (count * 13 * 41_984, count * 23 * 41_984, False)
    assert application(record)["write_calls"] == count * 23
    [fs] = record["file_systems"]
    assert fs["operations"]["mkdir"]["count"] == count * 7
