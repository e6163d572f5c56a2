"""Each figure of benchmarks/ runs, and leaves nothing behind."""
from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
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


# Of each figure its tables: how the title begins, rows, columns; as `run.py --quick` prints them.
TABLES = {
    "client": [("client: whole processes", 7, 5), ("client: what NFS", 2, 3),
               ("client: files, forks and bytes", 3, 6)],
    "wide": [("wide: one node with 200 OSC directories", 4, 5)],
    "server": [("server: nodes accepted per second", 2, 9), ("server: 100 nodes", 4, 7)],
    "dispatcher": [("dispatcher: JSON-RPC calls per second", 2, 7)],
    "http_layer": [("HTTP layer: new connections per second", 4, 6)],
    "batch": [("batch: prolog and epilog", 6, 4), ("batch: the site's server", 2, 3)],
    "resets": [("Correction of counter resets", 4, 9)],
    "job_list": [("The list of all jobs of a site", 1, 8)],
    "job_stats": [("job_stats: one OST, 500 jobs", 10, 4), ("job_stats: sweeps", 3, 4)],
    "agent": [("agent: a sweep of four targets", 1, 7)],
    "exports": [("exports: a sweep over 2,400 files", 4, 7)],
    "harvest_server": [("The site's server: one sweep of all storage servers", 3, 8)],
    "site_clients": [("The site's server: one sweep of what", 2, 9), ("The same, beside", 3, 4)],
    "stores": [("stores: the site's store on both engines", 8, 4)],
    "store_scale": [("A large site: messages a second", 4, 5),
                    ("A large site: one sweep of 4 targets x 300 jobs, all changed", 2, 6),
                    ("A large site: questions about a month, of 2,000 jobs in a year", 8, 3)],
    "nodes": [("Questions by node", 6, 5)],
    "scale": [("scale: nodes", 2, 5), ("scale: jobs", 2, 8), ("scale: targets", 2, 7)],
    "node_sinks": [("Ganglia: a sweep of all nodes", 2, 8), ("Prometheus and InfluxDB", 2, 5)],
    "relay": [("A relay to three clusters", 1, 8)],
    "site_events": [("The site's server: events", 2, 9), ("What a report of 16 kB waits", 3, 4),
                    ("Questions over 5,000 events", 8, 4)],
    "kernel_log": [("A flood in the kernel's log", 6, 6)],
    "report_text": [("A report as text, whole process", 1, 6),
                    ("A report as text, beyond", 1, 9)],
    "time_lines": [("Time lines: bytes", 5, 3), ("Time lines: CPU", 3, 3)],
    "event_scans": [("events: a look at the files", 2, 7)],
    "storage_sources": [("storage_sources: ten minutes of an agent", 1, 4)],
    "node_events": [("node_events: one node with 23 targets", 7, 4)],
    "idle_time": [("idle_time: a node with 23 OSTs", 4, 5)],
    "collector": [("collector: getTraps", 2, 7)],
    "event_sinks": [("5,000 events", 3, 5), ("The page's part of events", 2, 3)],
    "ldms_balance": [("Balance of 10,000 metric sets", 4, 4), ("2,000 samplers", 5, 3)],
    "configurations": [("configurations: files of all daemons", 1, 8)],
    "ldms_description": [("A description is read and converted", 2, 9)],
    "monitor": [("A monitor: 2,000 events", 5, 4)],
    "ldms_control": [("Control connection to ldmsd", 4, 4)],
    "etcd_client": [("CPU us of a request to etcd", 3, 4), ("A description of 1000", 5, 2),
                    ("The member that is asked fails", 6, 5)],
    "agent_settings": [("From the put", 1, 5), ("An agent that sweeps each 20 s", 2, 4)],
    "ldms_instances": [("Seconds until another instance", 2, 5), ("An instance, two", 1, 2)],
    "html_page": [("A job's page", 2, 8)],
    "why": [("Why a job took so long", 1, 6)],
    "web": [("A list of jobs as a page", 2, 7), ("A live page", 2, 3)],
}
NO_NUMBER = {"-", "met", "missed"}


@pytest.fixture
def benchmarks(monkeypatch):
    """Functions that import a module of benchmarks/."""
    monkeypatch.syspath_prepend(str(Path(REPOSITORY) / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def place():
    """A directory that others may enter, unlike tmp_path: the collector runs as nobody."""
    with tempfile.TemporaryDirectory(prefix="iostats-") as found:
        os.chmod(found, 0o755)
        yield Path(found)


def quick_run(place, *figures, directory=REPOSITORY):
    """`run.py --quick FIGURE ...`, ended; its temporary files are in `place`."""
    return subprocess.run(
        [sys.executable, str(Path(directory) / "benchmarks/run.py"), "--quick", *figures],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(place)}, text=True,
        capture_output=True, check=False)


@pytest.mark.parametrize("figure", [
    pytest.param(figure, marks=pytest.mark.etcd) if figure in (
        "etcd_client", "agent_settings", "ldms_instances") else figure for figure in TABLES])
def test_every_figure_runs_and_prints_its_tables(figure, place, benchmarks):
    """Few and small rounds; how long they take is nobody's business here."""
    done = quick_run(place, figure)
    assert 0 == done.returncode, done.stderr
    tables = benchmarks("curves").tables_of(done.stdout)
    assert [(rows, columns) for _, rows, columns in TABLES[figure]] == [
        (len(rows), len(headers)) for headers, rows in tables.values()]
    for (begins, *_), (title, (headers, rows)) in zip(TABLES[figure], tables.items()):
        assert title.startswith(begins)
        assert all(headers[1:]), headers
        for row in rows:
            numbers = [any(letter.isdigit() for letter in cell) for cell in row]
            assert any(numbers[1:]), (title, row)
            assert [] == [(header, cell) for header, cell, is_number in zip(headers, row, numbers)
                          if header not in (headers[0], "written as")
                          and not is_number and cell not in NO_NUMBER], title
    assert [] == list(place.iterdir())


def test_the_figures_are_those_of_run_py_and_its_readme(benchmarks):
    assert sorted(TABLES) == sorted(benchmarks("run").FIGURES)
    listed = (Path(REPOSITORY) / "benchmarks/README.md").read_text().partition("one of them:")[2]
    assert sorted(TABLES) == sorted(listed.partition(".venv/bin/python")[0].split())


def test_a_figure_that_fails_is_one_line_and_the_others_run(tmp_path):
    """Of the two that fail, one reports it itself, and one has a bug."""
    copy = tmp_path / "copy/benchmarks"
    shutil.copytree(Path(REPOSITORY) / "benchmarks", copy,
                    ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "copy/iostats").symlink_to(Path(REPOSITORY) / "iostats")
    (copy / "monitor.py").write_text("from measure import BenchmarkError\n"
                                     "def run(quick): raise BenchmarkError('no\\nstrace')\n")
    (copy / "wide.py").write_text("\ndef run(quick): return {}[23]\n")
    done = quick_run(tmp_path, "monitor", "wide", "job_list", directory=tmp_path / "copy")
    assert (1, [
        "run.py: monitor failed: no strace",
        f"run.py: wide failed: KeyError at {copy}/wide.py:2: 23",
    ]) == (done.returncode, done.stderr.splitlines())
    assert "The list of all jobs of a site" in done.stdout
