"""What benchmarks/ needs of iostats is there; what they leave behind: nothing."""
from __future__ import annotations

import ast
import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import REPOSITORY, until


@pytest.mark.parametrize("path", sorted((Path(REPOSITORY) / "benchmarks").glob("*.py")),
                         ids=lambda path: path.stem)
def test_what_a_benchmark_imports_of_iostats_is_there(path):
    """Most of them import within functions, which nothing else calls."""
    for one in ast.walk(ast.parse(path.read_text())):
        if isinstance(one, ast.ImportFrom) and (one.module or "").partition(".")[0] == "iostats":
            module = importlib.import_module(one.module)
            missing = [name.name for name in one.names if not hasattr(module, name.name)
                       and not importlib.util.find_spec(f"{one.module}.{name.name}")]
            assert [] == missing, (path.name, one.lineno, one.module)


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
