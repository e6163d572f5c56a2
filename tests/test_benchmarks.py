"""What benchmarks/ leaves behind: nothing."""
from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import REPOSITORY, until


def children_of(pid):
    """{pid: its command line} of the processes that a process has started."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if parent == pid:
            found[int(path.name)] = command
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_benchmark_that_is_ended_leaves_no_server_running(tmp_path, number):
    run = subprocess.Popen(
        [sys.executable, str(Path(REPOSITORY) / "benchmarks/run.py"), "--quick", "server"],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    try:
        until(lambda: any("iostats_server.py" in one for one in children_of(run.pid).values())
              or run.poll() is not None, what="its server")
        left = children_of(run.pid)
        assert left
        run.send_signal(number)
        assert 0 != run.wait(60)
        until(lambda: not any(Path(f"/proc/{pid}/fd/0").exists() for pid in left),
              what="the end of its children")
        assert [] == list(tmp_path.iterdir())
    finally:
        run.kill()
        run.wait()
