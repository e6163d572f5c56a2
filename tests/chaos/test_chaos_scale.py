"""
Many at once: nodes that stop in the same second, jobs that end in the same second, many targets.

Nodes and jobs come over real sockets of the loopback (benchmarks/scale.py).  What is compared is
what was sent with what came out, to the last byte; times are told, and are benchmarks/README.md's
business.
"""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from campaign import WHOLE, tell

_BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")
_MIB = 1 << 20
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def scale(monkeypatch):
    """The module benchmarks/scale.py, which finds its neighbours."""
    names = {path.stem for path in Path(_BENCHMARKS).glob("*.py")}
    monkeypatch.syspath_prepend(_BENCHMARKS)
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import scale
    yield scale
    for name in names:
        sys.modules.pop(name, None)


def alone(function, directory, count):
    """
    What `scale.FUNCTION(directory, a report, count)` returns, in a process of its own.

    The kernel counts what a process had before its exec() as well (ru_maxrss; exec_mmap(),
    fs/exec.c): a child of this large one would have used as much as this one has.
    """
    done = subprocess.run(
        [sys.executable, "-c", "import json, sys; sys.path.insert(0, sys.argv[1])\n"
         "import scale\n"
         f"print(json.dumps(scale.{function}(sys.argv[2], scale.figure_3.report_of(sys.argv[2]), "
         "int(sys.argv[3]))))", _BENCHMARKS, str(directory), str(count)],
        stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_nodes_that_all_stop_at_the_same_moment_are_all_counted_in_100_mib(tmp_path):
    """Each has its connection open before the first is answered."""
    nodes = 10_000 if WHOLE else 500
    found = alone("crowd", tmp_path, nodes)
    tell("nodes at once", nodes=nodes, seconds=round(nodes / found["nodes_per_s"], 2),
         peak_mib=round(found["memory_bytes"] / _MIB), table_ms=round(found["table_s"] * 1e3))
    assert found["memory_bytes"] < 100 * _MIB


def test_jobs_that_all_end_at_the_same_moment_have_a_whole_record_each(tmp_path):
    """scale.py compares them: 4 of 4 nodes, every byte, no job missing, none twice."""
    jobs = 1000 if WHOLE else 23
    found = alone("jobs_at_once", tmp_path, jobs)
    hello_s = found["hello_s"]
    tell("jobs at once", jobs=jobs, reports_s=round(found["reports_s"], 2),
         records_s=round(found["records_s"], 2), peak_mib=round(found["memory_bytes"] / _MIB),
         hello_ms=round(hello_s[len(hello_s) // 2] * 1e3), slowest_ms=round(hello_s[-1] * 1e3))
    assert found["memory_bytes"] < 100 * _MIB


def test_a_job_on_many_targets_is_added_up_to_the_last_byte(scale):
    """Four nodes; scale.py compares the sum of all bytes, and counts the targets of the record."""
    targets = 100_000 if WHOLE else 2_300
    found = scale.wide_job(targets)
    tell("targets of a job", targets=targets, peak_mib=round(found["peak_bytes"] / _MIB),
         record_bytes=found["record_bytes"])
    assert found["record_bytes"] > 100 * targets


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("targets, jobs", [(1000, 100), (100_000, 3)] if WHOLE else [(23, 37)])
def test_a_harvest_of_many_entries_spread_over_many_targets_is_complete(scale, targets, jobs):
    """100,000 entries on 1,000 targets, or three on each of 100,000; three sweeps, a restart."""
    import harvest_server
    found = harvest_server.child(targets, jobs)
    tell("entries of a harvest", targets=targets, jobs=jobs, peak_mib=round(found["peak_mib"]))
    assert found["peak_mib"] > 0
