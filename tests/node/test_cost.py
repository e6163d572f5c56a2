"""
What the client may cost a node: no child, no thread and no socket where none is needed, and no
module that takes longer to import than the work itself.

`start` runs on every node of a job in the same second.  The times are in benchmarks/README.md;
here is what they follow from, counted by strace and by Python itself.
"""
from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest
from processes import AFTER, BEFORE, CLIENT, Desk, interpreters, write_tree

MAKES_A_PROCESS = {"fork", "vfork", "clone", "clone3", "execve", "execveat", "posix_spawn"}
# Each of these costs as much as a bare interpreter takes to start, or brings others that do.
DEAR = {"re", "argparse", "json", "dataclasses", "typing", "inspect",
        "configparser", "logging", "subprocess", "threading", "socket", "ssl", "http.client",
        "urllib.request", "asyncio", "tempfile", "shutil", "pathlib", "random", "hashlib", "glob",
        "fnmatch", "datetime", "decimal", "uuid"}


DESK = Desk


def traced(desk, *arguments, env=None):
    """
    [name of system call] of one client, and of all children it would have, in order; a clone that
    makes a thread is "thread".
    """
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    out = desk.directory / "strace"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=%process,%network", "-o", str(out),
         sys.executable, "-I", "-S", str(CLIENT), *map(str, arguments), "--job", desk.job],
        env=desk.environment(env), capture_output=True, text=True, cwd=desk.directory)
    if "ptrace" in done.stderr:
        pytest.skip(f"strace is not allowed here: {done.stderr.strip()}")
    assert (0, "") == (done.returncode, done.stderr)
    return ["thread" if name.startswith("clone") and "CLONE_THREAD" in passed else name
            for name, passed in re.findall(r"^\d+ +(\w+)\((.*)", out.read_text(), re.M)]


def network(calls):
    return [name for name in calls if name in {"socket", "socketpair", "connect", "bind", "sendto",
                                               "recvfrom", "sendmsg", "recvmsg", "accept4"}]


def processes(calls):
    return [name for name in calls if name in MAKES_A_PROCESS]


@pytest.mark.strace
def test_start_makes_no_process_no_thread_and_opens_no_socket(desk):
    """The one execve is strace's own."""
    calls = traced(desk, "start", *desk.on("nid00023", desk.tree(**BEFORE)))
    assert ["execve"] == processes(calls)
    assert "thread" not in calls
    assert [] == network(calls)


@pytest.mark.strace
def test_a_second_start_makes_none_either(desk):
    """It reads the first one back, and says so on standard error."""
    root = desk.tree(**BEFORE)
    traced(desk, "start", *desk.on("nid00023", root))
    calls = traced(desk, "start", "--quiet", *desk.on("nid00023", root))
    assert ["execve"] == processes(calls)
    assert "thread" not in calls
    assert [] == network(calls)


@pytest.mark.strace
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_show_makes_no_process_and_opens_no_socket(desk, form):
    """It needs no server."""
    calls = traced(desk, "show", *form, *desk.on("nid00023", desk.tree(**BEFORE)))
    assert ["execve"] == processes(calls)
    assert "thread" not in calls
    assert [] == network(calls)


@pytest.mark.strace
def test_stop_makes_no_process_and_one_connection(desk):
    """
    hello and report go over one socket, in the one thread of the port that is tried: no signal
    would end a resolver that does not answer.
    """
    server = desk.server("--nodes", "1")
    root = desk.tree(**BEFORE)
    desk.client("start", *desk.on("nid00023", root))
    write_tree(root, **AFTER)
    calls = traced(desk, "stop", "--server", f"127.0.0.1:{server.port}",
                   *desk.on("nid00023", root))
    assert ["execve"] == processes(calls)
    assert 1 == calls.count("thread")
    assert 1 == calls.count("connect")
    assert " 1 node, 00:" in server.wait().out


def imported(done):
    """Names of the modules that were imported, by `-X importtime`."""
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()
            if line.startswith("import time:")}


def bare(python):
    """What an interpreter imports for itself alone."""
    return imported(subprocess.run([python, "-I", "-S", "-X", "importtime", "-c", "pass"],
                                   capture_output=True, text=True))


@pytest.mark.parametrize("python", [path for _, path in interpreters()],
                         ids=[version for version, _ in interpreters()])
def test_start_imports_nothing_dear(desk, python):
    """Neither itself nor through another module."""
    done = subprocess.run(
        [python, "-I", "-S", "-X", "importtime", str(CLIENT), "start", "--job", desk.job,
         *map(str, desk.on("nid00023", desk.tree(**BEFORE)))],
        env=desk.environment(), capture_output=True, text=True)
    found = imported(done)
    assert 0 == done.returncode
    assert "iostats.totals.snapshot" in found                        # the list is not empty
    assert set() == (found - bare(python)) & DEAR


def test_stop_imports_neither_an_http_library_nor_threads(desk):
    """HTTP/1.1 by hand: http.client and what it brings would cost more than all else."""
    server = desk.server("--nodes", "1")
    root = desk.tree(**BEFORE)
    desk.client("start", *desk.on("nid00023", root))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", str(CLIENT), "stop", "--job", desk.job,
         "--server", f"127.0.0.1:{server.port}", *map(str, desk.on("nid00023", root))],
        env=desk.environment(), capture_output=True, text=True)
    assert 0 == done.returncode
    found = imported(done) - bare(sys.executable)
    assert "iostats.wire.client" in found
    assert set() == found & {"http.client", "email", "ssl", "threading", "argparse", "subprocess",
                             "dataclasses", "asyncio", "logging", "typing", "encodings.idna"}
