"""
make demo-site, as a stranger runs it: storage servers, jobs, agents, the site's server, tables.
"""
from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import until
from test_simlustre import REPOSITORY, no_fuse

SCRIPT = REPOSITORY / "tools" / "demo_site.py"
fuse = pytest.mark.fuse


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("demo_site", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def begin(directory):
    """The demo, as a running process of its own group; all that it makes is below `directory`."""
    if no_fuse():
        pytest.skip(no_fuse())
    return subprocess.Popen(
        [sys.executable, SCRIPT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, cwd="/",
        env={"PATH": os.environ["PATH"], "TMPDIR": str(directory), "HOME": str(directory)})


def nothing_is_left(directory):
    assert str(directory) not in Path("/proc/self/mounts").read_text()
    assert [] == list(directory.iterdir())

    def left():
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += [path] if str(directory).encode() in path.read_bytes() else []
        return found
    until(lambda: not left(), what=lambda: f"the end of {left()}")


@fuse
def test_the_demo_shows_what_its_jobs_have_done(tmp_path):
    """4711 wrote 60 files of 2 MiB, 4712 read 41 of 4 MiB, 4713 wrote 97 of 8 KiB."""
    process = begin(tmp_path)
    out, err = process.communicate(timeout=500)
    assert ("", 0) == (err, process.returncode), out
    assert out.rstrip().endswith("numbers were compared with what was done: all are right.")
    assert [] == [line for line in out.splitlines() if len(line) > 80]
    events = out.partition("$ iostats events ")[2]
    for words in (("crit", "oss1", "evicted scratch-OST0002 node1"),
                  ("crit", "oss1", "target_down scratch-OST0001"),
                  ("| node1", "| scratch-OST0002", "| evicted by an admin")):
        assert [1 for line in events.splitlines() if all(word in line for word in words)], words
    after = out.partition("$ iostats jobs ")[2]
    for first, amount in (("4711", "120.0 MiB"), ("4712", "164.0 MiB"), ("4713", "776.0 KiB"),
                          ("node1", "46.0 MiB"), ("node2", "74.0 MiB"), ("node4", "19.8 MiB")):
        assert [1 for line in after.splitlines() if line.startswith(first) and amount in line]
    nothing_is_left(tmp_path)


@fuse
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path):
    process = begin(tmp_path)
    until(lambda: list(tmp_path.glob("*/node2/root")) or process.poll() is not None,
          what="a client")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert (130, "\ndemo-site: interrupted\n") == (process.returncode, err), out
    nothing_is_left(tmp_path)


def test_a_wrong_number_is_found(tool):
    """Of a record that has one byte too much at the storage servers, and one open too few."""
    job = tool.JOBS[1]
    record = {
        "job": {"user": "bob"}, "coverage": {"reported": 1},
        "file_systems": [{"application": {"read_bytes": 171_966_464, "write_bytes": 0},
                          "network": {"read_bytes": 171_966_464, "write_bytes": 0},
                          "lower_bound": False}],
        "by_node": {"file_systems": [{"low": {"read_bytes": 0, "write_bytes": 0},
                                      "high": {"read_bytes": 171_966_463, "write_bytes": 0}}]},
        "harvest": {"file_systems": [{
            "read_bytes": 171_966_465, "write_bytes": 0, "read_rpcs": 164, "write_rpcs": 0,
            "lower_bound": False, "targets": {"MDT0000": {"open": 40}},
            "operations": {"open": {"count": 40}, "close": {"count": 41}}}]}}
    checks = tool.Checks()
    tool.check_record(checks, job, record, {"node3": {"4712": {"MDT0000": {"open": [41, 9]}}}})
    assert ["job 4712, read_bytes at the storage servers: expected 171966464, got 171966465",
            "job 4712, read_bytes by its nodes are 171966464, within 0 and 171966463: expected "
            "True, got False",
            "job 4712, open at the MDS: expected 41, got 40",
            "job 4712, all requests to MDT0000: expected {'open': 41}, got {'open': 40}",
            ] == checks.wrong


def test_an_event_that_is_missing_or_too_many_is_found(tool):
    """Of what oss1 tells when the recovery is not over, and home's target was down as well."""
    def row(kind, target, node="oss1", severity=2, **has):
        return {"kind": kind, "target": target, "node": node, "severity": severity, "time": 123.0,
                "last": 123.0, "over": None, "count": 1, "cause": "", "clients_names": [], **has}
    rows = [row("evicted", "scratch-OST0002", cause="administrator", clients_names=["node1"]),
            row("evicted", "scratch-OST0002", "node1"), row("target_up", "scratch-OST0001"),
            row("target_down", "scratch-OST0001", over=137.0), row("recovery", "scratch-OST0001"),
            row("target_down", "home-OST0000", time=124.0, over=137.0),
            *(row("connection_lost", target, node, 1) for node, target in (
                ("node1", "scratch-OST0001"), ("node3", "scratch-OST0001"),
                ("node1", "scratch-OST0002")))]
    checks = tool.Checks()
    tool.check_events(checks, rows, {"evicted": (123.0, 123.0), "stopped": (123.0, 124.0),
                                     "started": (136.0, 137.0)})
    assert ["targets that were down: expected [('oss1', 'scratch-OST0001')], got [('oss1', "
            "'scratch-OST0001'), ('oss1', 'home-OST0000')]",
            "recoveries, and that they are over: expected [('scratch-OST0001', True)], got "
            "[('scratch-OST0001', False)]",
            "events that are critical: expected 3, got 6"] == checks.wrong


def test_without_fuse_the_demo_says_so_in_a_line(tmp_path):
    """Where the Python package for FUSE is missing; with what to do instead."""
    (tmp_path / "mfusepy.py").write_text("raise ImportError('hidden by a test')\n")
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, SCRIPT], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "tmp"),
             "PYTHONPATH": str(tmp_path)})
    assert ("", 1, 1) == (done.stdout, done.returncode, done.stderr.count("\n")), done
    assert done.stderr.startswith("demo-site: FUSE is not available here: ")
    assert done.stderr.endswith("; `make demo` needs no FUSE\n")
    nothing_is_left(tmp_path / "tmp")
