"""
make demo-ldms, as a stranger runs it: simulated ldmsds, a real etcd, and what carries it out.
"""
from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import REPOSITORY, until

SCRIPT = REPOSITORY / "tools" / "demo_ldms.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("demo_ldms", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The demo, whose first command is killed by the signal that its group gets.
KILLED_EARLY = f"""
import os, runpy, signal, subprocess
run = subprocess.run
def killed(command, **how):
    os.kill(os.getpid(), signal.SIGINT)
    return run(["sh", "-c", "kill -INT $$"], **how)
subprocess.run = killed
runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
"""


def begin(directory, *words, path=os.environ["PATH"], code=None):
    """The demo, as a running process of its own group; all that it makes is below `directory`."""
    of_ldms = {name: value for name, value in os.environ.items()
               if name in ("LD_LIBRARY_PATH", "LDMSD_PLUGIN_LIBPATH", "ZAP_LIBPATH")}
    return subprocess.Popen(
        [sys.executable, *(["-c", code] if code else [SCRIPT]), *words], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd="/",
        env={**of_ldms, "PATH": path, "TMPDIR": str(directory), "COLUMNS": "100",
             "HOME": str(directory)})


def nothing_is_left(directory):
    assert [] == list(directory.iterdir())

    def left():
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                found += [path] if str(directory) in os.readlink(path / "cwd") else []
        return found
    until(lambda: not left(), what=lambda: f"the end of {left()}")


@pytest.mark.etcd
@pytest.mark.parametrize("words", [(), pytest.param(("--real",), marks=[
    pytest.mark.ldms, pytest.mark.skipif(shutil.which("ldmsd") is None,
                                         reason="no ldmsd on PATH")])], ids=["simulated", "real"])
def test_the_demo_loses_no_set(tmp_path, words):
    process = begin(tmp_path, *words)
    out, err = process.communicate(timeout=500)
    assert ("", 0) == (err, process.returncode), out
    assert out.endswith("No set was lost, none was collected twice, and what could stay was left "
                        "alone.\n")
    assert "kill -9 of agg-2, which had 3: after " in out
    for line in ("~ plugin mem: interval: 1 s -> 500 ms",
                 "level 1 aggregators agg-[1-3]: 2 of 3 up",
                 "level 1 aggregators agg-[1-3]: 3 of 3 up"):
        assert line in out, out
    nothing_is_left(tmp_path)


@pytest.mark.etcd
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path):
    process = begin(tmp_path)
    until(lambda: list(tmp_path.glob("*/agg-3.log")) or process.poll() is not None,
          what="the aggregators")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert (130, "\ndemo-ldms: interrupted\n") == (process.returncode, err), out
    nothing_is_left(tmp_path)


@pytest.mark.etcd
def test_a_command_that_the_same_signal_kills_is_no_failure_of_the_demo(tmp_path):
    """Each process is in the demo's group until it has a session of its own."""
    begun = begin(tmp_path, code=KILLED_EARLY)
    out, err = begun.communicate(timeout=100)
    assert (130, "\ndemo-ldms: interrupted\n") == (begun.returncode, err), out
    nothing_is_left(tmp_path)


def test_without_ldmsd_the_demo_cannot_be_real(tmp_path):
    out, err = begin(tmp_path, "--real", path="/nosuch").communicate(timeout=60)
    assert ("", "demo-ldms: there is no ldmsd on PATH\n") == (out, err)


def test_without_etcd_the_demo_says_so_in_a_line(tmp_path):
    out, err = begin(tmp_path, path="/nosuch").communicate(timeout=60)
    assert ("", "demo-ldms: there is no etcd on PATH; install Debian's etcd-server\n") == (out, err)
    nothing_is_left(tmp_path)


ONCE = {f"node-{n}/mem": [f"agg-{n % 3 + 1}"] for n in range(1, 9)}


@pytest.mark.parametrize("found", [
    {**ONCE, "node-3/mem": ["agg-1", "agg-2"]},
    {name: aggregators for name, aggregators in ONCE.items() if name != "node-7/mem"},
], ids=["collected twice", "lost"])
def test_a_set_that_is_lost_or_collected_twice_is_not_all_once(tool, monkeypatch, found):
    monkeypatch.setattr(tool, "collected", lambda cluster: ONCE)
    assert ONCE == tool.all_once(None)
    monkeypatch.setattr(tool, "collected", lambda cluster: found)
    assert tool.all_once(None) is None


def test_a_set_that_moves_without_need_is_found(tool):
    before = {"node-1/mem": ["agg-1"], "node-2/mem": ["agg-2"], "node-3/mem": ["agg-3"]}
    after = {"node-1/mem": ["agg-3"], "node-2/mem": ["agg-3"], "node-3/mem": ["agg-3"]}
    assert ["node-1/mem was moved from agg-1 to agg-3: both run"] == tool.moved_needlessly(
        before, after, "both run", from_="agg-2")
    assert [] == tool.moved_needlessly(before, after, "agg-3 came back", to="agg-3")
    assert ["agg-1 and agg-3 carried out 5 changes; expected 3, the starts of 3 producers"] == \
        tool.told_wrongly({"agg-1": 23, "agg-3": 37}, {"agg-1": 24, "agg-3": 41}, 3)
