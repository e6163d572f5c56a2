"""
The whole main job, as its user runs it: sample_job.sh over four simulated nodes.

The answer is known from the script (23 files of 37 MiB, 41 more opens, 13 directories); the second
witness is what the FUSE layer counted by itself.
"""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from processes import new_job

HOME = Path(__file__).resolve().parents[2]
CHECK = subprocess.run([sys.executable, "-m", "simlustre", "--check"], cwd=HOME,
                       capture_output=True, text=True)
needs_fuse = pytest.mark.skipif(CHECK.returncode != 0,
                                reason=f"no FUSE: {(CHECK.stderr or CHECK.stdout).strip()}")


def demo():
    spec = importlib.util.spec_from_file_location("demo", HOME / "simlustre" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = """\
Job JOB of USER: 4 nodes, HH:MM:SS from TIME
Measured: from start to stop on each node
File data transfer statistics for this job:
+---------------+-------------+--------------+
| File System   | File Read   | File Write   |
+===============+=============+==============+
| scratch       | 851.0 MiB   | 851.0 MiB    |
+---------------+-------------+--------------+
Metadata statistics for this job:
+---------------+--------+---------+----------+---------+
| File System   |   open |   close |   create |   mkdir |
+===============+========+=========+==========+=========+
| scratch       |     87 |      87 |       23 |      13 |
+---------------+--------+---------+----------+---------+
No findings: the job was too short to judge (less than 60 s).
"""


def without_time(text):
    """How long the job takes is not known beforehand."""
    first, _, rest = text.partition("\n")
    first = re.sub(r" of \w+: ", " of USER: ", first)
    return (re.sub(r"\d\d:\d\d:\d\d from [-\d: ]+$", "HH:MM:SS from TIME", first) + "\n"
            + rest.partition("iostats: server of job")[0])


@needs_fuse
@pytest.mark.fuse
@pytest.mark.parametrize("release", ["2.10", "2.15", "2.17"])
def test_the_table_says_what_the_programs_did(tmp_path, release):
    """
    On these releases' counters, which stand at three sets of places, the sample job's table is its
    workload, and nothing else.  (Those of every release: tests/totals/test_matrix.py, and
    test_dd_is_counted_exactly_in_every_release.)
    """
    record = tmp_path / "record.json"

    job = new_job()

    status, text, witness = demo().run(tmp_path, release, True, ("--json", str(record)), job=job)

    assert without_time(text) == TABLES.replace("JOB", job)
    assert status == 0
    [scratch] = json.loads(record.read_text())["file_systems"]
    assert scratch["application"] == {
        "read_bytes": 892338176, "write_bytes": 892338176,       # 23 x 37 x 1048576
        "read_calls": 13616, "write_calls": 13616,               # 23 x 592
        "lower_bound": False}
    assert scratch["network"]["read_bytes"] == 892338176
    assert scratch["network"]["write_bytes"] == 892338176
    assert sum(node["write"]["bytes"] for node in witness.values()) == 892338176
    assert sum(node["read"]["bytes"] for node in witness.values()) == 892338176
    assert sum(node["write"]["calls"] for node in witness.values()) == 13616
    assert sum(node["read"]["calls"] for node in witness.values()) == 13616
    # node1 also made the directory to work in, before the start: 13 + 1
    assert sum(node["mkdir"] for node in witness.values()) == 14


FAULTS = """\
| scratch       | 0 bytes     | 179.7 MiB    |
""", r"""
Small writes (probably|may have) slowed this job \(confidence: (medium|low)\)\.
Findings:
 1. scratch: 23,000 writes of 8.0 KiB on average.*Every\s.*docs/reference/findings.md#small-writes
 2. scratch: all 179.7 MiB went through OST000\d, 1 of 4.*docs/reference/findings.md#one-ost
((?:Other counters|I/O over time).*)?
Its page, for a browser:  (.*)
More of it:               (.*)
"""


def shown(tmp_path, *options):
    """(output of the demo, what its first job printed, its second)."""
    done = subprocess.run([sys.executable, "-m", "simlustre.demo", "--job", new_job(),
                           "--keep", tmp_path / "kept", *options], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert 0 == done.returncode, done.stdout
    first, _, second = done.stdout.partition("\nA job with two faults: ")
    assert TABLES.partition("\n")[2] in first
    assert "note:" not in done.stdout
    return done.stdout, first, second


def check_the_second_job(tmp_path, second):
    """The findings are its two faults, and the page and the record have the same."""
    table, findings = FAULTS
    assert table in second
    match = re.search(findings, second, re.S)
    assert match, second
    page, more = match.group(4), match.group(5)
    [record] = (tmp_path / "kept").glob("*.json")
    assert str(record.with_suffix(".html")) == page
    assert not re.search(r"^ 3\. ", second, re.M)
    disks, home, scratch = json.loads(record.read_text())["file_systems"]
    assert {"nvme0n1_write_bytes": 164 << 20, "nvme0n1_writes": 212} == (
        disks["sources"]["cgroup_io"]["totals"])
    assert (4 * 23 * 128 << 10, 4 * 23) == (home["application"]["read_bytes"],
                                            home["network"]["read_rpcs"])
    assert scratch["application"] == {"read_bytes": 0, "write_bytes": 188416000, "read_calls": 0,
                                      "write_calls": 23000, "lower_bound": False}
    # One of the four OSTs has all its bytes.
    assert [188416000] == [moved["write_bytes"] for moved in scratch["targets"].values()
                           if moved.get("write_bytes")]
    text = record.with_suffix(".html").read_text()
    for known in ("23,000 writes of 8.0 KiB", "all 179.7 MiB", ">179.7 MiB<"):
        assert known in text
    assert "src=" not in text
    told = subprocess.run(shlex.split(more), capture_output=True, text=True, check=True).stdout
    assert 2 == len(re.findall(r"^ \d\. scratch: ", told, re.M))


@needs_fuse
@pytest.mark.fuse
def test_the_demo_ends_with_a_job_whose_faults_are_found(tmp_path):
    """Small writes first, then one OST, and nothing else; its page stays."""
    text, _, second = shown(tmp_path)
    assert "SIMULATED COUNTERS" not in text
    check_the_second_job(tmp_path, second)
    assert re.search(r"on average, \d\d % of the nodes' time", second)
    readme = re.findall(r"^    Job 4712 of .*\n(?:    .*\n)*", (HOME / "README.md").read_text(),
                        re.M)
    assert [known(textwrap.dedent(readme[0]))] == [known(second[second.index("Job "):])]


def known(report):
    """
    Without what is another in each run: job, times, rates, which OST; and the lines' ends.  The
    README leaves out what is below the findings.
    """
    report = report.partition("I/O over")[0].partition("Other counters:")[0]
    report = re.sub(r"^Job .*$", "", report, flags=re.M)
    report = re.sub(r"\d\d %|OST000\d", "-", report)
    return " ".join(report.split())


def test_without_fuse_the_demo_says_that_its_counters_are_simulated(tmp_path):
    """Without FUSE the same jobs run, and the output says that it is no measurement."""
    _, first, second = shown(tmp_path, "--no-fuse")
    assert "SIMULATED COUNTERS" in first
    check_the_second_job(tmp_path, second)
    # Nothing was timed.
    assert "of the nodes' time" not in second


def test_one_node_without_a_batch_system_and_without_lustre(tmp_path):
    """The sample job runs on any machine, and says that there was no Lustre to measure."""
    done = subprocess.run(
        ["bash", HOME / "sample_job.sh"], cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path), "JOB": "23",
             "PYTHON": sys.executable, "SERVER_HOST": "localhost",
             "IOSTATS_OPTIONS": f"--root {tmp_path} --node node7 --state-dir {tmp_path}/state"})

    assert done.stdout.startswith("Job 23 of ") and ": 1 node, 00:" in done.stdout
    assert "No Lustre file system was seen." in done.stdout
    assert done.returncode == 0
    assert not list(tmp_path.glob("iostats-sample-*"))


@pytest.mark.parametrize("batch, ends_as", [
    ({"SLURM_JOB_ID": "4733", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "node7",
      "SLURMD_NODENAME": "node7"}, "Job 4733 of "),
    ({"PBS_JOBID": "4737.pbs01", "PBS_NODEFILE": "hosts"},
     "Job 4737.pbs01 of "),
], ids=["slurm", "pbs"])
def test_the_batch_systems_variables_are_enough(tmp_path, batch, ends_as):
    """Slurm and PBS name the job, the nodes and the rank; here with a launcher of one node."""
    launcher = tmp_path / "launch"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    (tmp_path / "hosts").write_text("node7\nnode7\n")

    done = subprocess.run(
        ["bash", HOME / "sample_job.sh"], cwd=tmp_path, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path),
             "LAUNCH": str(launcher), "PYTHON": sys.executable, "SERVER_HOST": "localhost",
             "IOSTATS_OPTIONS": f"--root {tmp_path} --node node7 --state-dir {tmp_path}/state",
             **batch})

    assert done.stdout.startswith(ends_as), done.stderr
    assert done.returncode == 0
