"""The cluster that other tests run on: real Slurm, and nothing left behind."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cluster import ALICE, BOB, PREFIX, REPOSITORY, Cluster
from processes import until

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.timeout(600)]


def test_a_job_runs_on_four_nodes_that_are_machines_of_their_own(slurm):
    """Each has its host name, its address and its /tmp."""
    job = slurm.submit("srun sh -c 'hostname; hostname >/tmp/mine; cat /tmp/mine'", "--nodes=4")

    assert slurm.wait(job) == "COMPLETED"
    assert sorted(slurm.output(job).split()) == sorted(["node1", "node2", "node3", "node4"] * 2)


def test_users_have_python_with_the_servers_packages_and_a_readable_checkout(slurm):
    """As a site installs it: outside of root's home."""
    for user in (ALICE, BOB):
        slurm.as_user(user, slurm.python, "-I", "-c", "import httptools, msgspec, uvloop, rich",
                      on="node3")
        done = slurm.as_user(user, slurm.python, slurm.home / "iostats_server.py", "--help")
        assert "usage" in done.stdout
        done = slurm.as_user(user, "/usr/bin/python3", "-I", "-S",
                             slurm.home / "iostats_client.py", "--help")
        assert "usage" in done.stdout


def test_bob_has_no_home_and_nobody_of_this_machine_knows_them(slurm):
    """Users are the cluster's: the machine's /etc/passwd is untouched."""
    assert slurm.as_user(BOB, "sh", "-c", 'ls -d "$HOME"', check=False).returncode == 2
    assert slurm.as_user(ALICE, "sh", "-c", 'ls -d "$HOME"').stdout.startswith("/var/tmp/")
    assert "iostats-" not in Path("/etc/passwd").read_text()


@pytest.mark.fuse
def test_each_node_has_its_own_counters_over_the_same_files(slurm):
    """What node2 wrote only node2 counts, and node3 can read."""
    mount = slurm.mount(release="2.12")
    job = slurm.submit(f"dd if=/dev/zero of={mount.data}/file bs=53 count=37", "-w", "node2")
    assert slurm.wait(job) == "COMPLETED"

    assert slurm.truth("node2")["write"] == {"calls": 37, "bytes": 1961}
    assert "write" not in slurm.truth("node3")
    slurm.as_user(BOB, "cmp", "-n", "1961", mount.data / "file", "/dev/zero", on="node3")
    show = slurm.node("node2", "/usr/bin/python3", slurm.home / "iostats_client.py", "show",
                      "--root", mount.root, "--json")
    assert '"write_bytes": 1961' in show.stdout


def test_hooks_run_on_every_node_and_the_jobs_end_waits_for_epilogs(slurm):
    """What a test puts into them is there for that test only."""
    seen = slurm.directory / "tmp" / "ctl"
    slurm.hook("prolog", f"echo $SLURM_JOB_ID >>{seen}/prolog.$SLURMD_NODENAME")
    slurm.hook("epilog", f"echo $SLURM_JOB_ID >>{seen}/epilog.$SLURMD_NODENAME")

    job = slurm.submit("true", "--nodes=3", user=BOB)

    assert slurm.wait(job) == "COMPLETED"
    assert [path.read_text() for path in sorted(seen.glob("*log.node[1-4]"))] == [f"{job}\n"] * 6


def test_a_lost_node_fails_the_job_and_can_come_back(slurm):
    """Power gone, not a clean stop."""
    slurm.mount()
    job = slurm.submit("sleep 600", "-w", "node[3-4]", "--no-requeue")
    slurm.wait_until("RUNNING", job)

    slurm.kill_node("node4")

    assert slurm.wait(job) == "NODE_FAIL"
    slurm.revive("node4")
    job = slurm.submit("hostname", "-w", "node4")
    assert slurm.wait(job) == "COMPLETED"
    assert slurm.output(job) == "node4\n"
    assert slurm.truth("node4") == {}


def test_slurmctld_can_be_restarted_below_running_jobs(slurm):
    """As at an update of a site."""
    job = slurm.submit("sleep 600")
    slurm.wait_until("RUNNING", job)

    slurm.restart_ctld()

    assert slurm.states(job) == {"RUNNING"}
    slurm.ctl("scancel", job)
    assert slurm.wait(job) == "CANCELLED"


USE = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from cluster import Cluster
cluster = Cluster()
cluster.up(nodes=1)
print(cluster.directory, flush=True)
{}
"""


ENDS = {
    "close": "cluster.close()", "exit": "sys.exit(23)", "Ctrl-C": "raise KeyboardInterrupt",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "cluster.sh killed": "os.kill(cluster._process.pid, signal.SIGKILL); cluster.close()"}


def test_nothing_is_left_however_it_ends(slurm_cluster):
    """No process, no directory; and six clusters at a time do not disturb one another."""
    begun = {name: subprocess.Popen(
        [sys.executable, "-c", USE.format(end), str(REPOSITORY / "tests")], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE) for name, end in ENDS.items()}
    for name, process in begun.items():
        out, err = process.communicate(timeout=400)
        directory = out.strip()
        assert PREFIX in directory, f"{name}: {err}"
        wait_until_gone(directory)
    slurm_cluster.wait_until_idle()                         # the one that goes on


def test_a_start_that_fails_says_why_and_leaves_nothing(monkeypatch):
    """Here there is no such directory to show to the nodes."""
    made, mkdtemp = [], tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **how: made.append(mkdtemp(**how)) or made[-1])
    monkeypatch.setattr(sys, "base_prefix", "/nowhere")
    with pytest.raises(RuntimeError, match="/nowhere"):
        Cluster().up()
    [directory] = made
    assert PREFIX in directory and not os.path.exists(directory)


def wait_until_gone(directory):
    until(lambda: not os.path.exists(directory), what=f"the end of {directory}")
    until(lambda: not [path for path in Path("/proc").glob("[0-9]*/cmdline")
                       if directory.encode() in _read(path)], what="the end of all processes")


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""

