"""
`iostats run` in jobs of a real Slurm, over four nodes with a simulated Lustre each.

Node k writes and reads 23 + k blocks of 64 KiB, so four nodes 98 blocks: 6,422,528 bytes each way,
98 calls each way, 8 opens.
"""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from cluster import ALICE, BOB
from processes import until
from trees import ROOT

from iostats.lustre.job_tags import TagForm
from iostats.schedulers.slurm import JOB_ID_FORM

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.fuse, pytest.mark.timeout(600)]

BLOCK = 65536
WORK = """
file={data}/w$SLURM_JOB_ID.$SLURM_NODEID blocks=$((23 + SLURM_NODEID))
dd if=/dev/zero of=$file bs=64k count=$blocks status=none
dd if=$file of=/dev/null bs=64k count=$blocks status=none
"""


class Runs:
    """Jobs that run a command with `iostats run`."""

    def __init__(self, slurm):
        self.slurm = slurm
        self.lustre = slurm.mount("scratch", "2.10")           # where users may read the bytes
        self.json = slurm.work() / "record.json"
        self.work = slurm.directory / "work.sh"
        self.work.write_text(WORK.format(data=self.lustre.data))
        self.work.chmod(0o755)

    def command(self, *command, options=""):
        """The line of a job script that runs a command."""
        return (f"env PYTHONPATH={self.slurm.home} IOSTATS_RUN_START_TIMEOUT=100 "
                f"IOSTATS_RUN_DEADLINE=20 {self.slurm.python} -m iostats run "
                f"--root {self.lustre.root} --json {self.json} {options} -- "
                f"{' '.join(map(shlex.quote, map(str, command)))}")

    def submit(self, *command, options="", slurm=("--nodes=4",), user=ALICE, before="", **how):
        """A job whose script runs one command, and then says its status."""
        self.json.unlink(missing_ok=True)
        return self.slurm.submit(
            f"#!/bin/bash\n{before}\n{self.command(*command, options=options)}\necho status $?\n",
            *slurm, user=user, **how)

    def srun(self, *more):
        """The work on every node."""
        return "srun", "--ntasks-per-node=1", *more, "/bin/sh", self.work

    def record(self):
        """The record; a job whose node has died is over before it is written."""
        until(self.json.exists, what="the record")
        return json.loads(self.json.read_text())


@pytest.fixture
def runs(slurm):
    found = Runs(slurm)
    yield found
    found.json.unlink(missing_ok=True)


def scratch(record):
    [fs] = record["file_systems"]
    return fs


def amounts(record):
    """(bytes read, bytes written, reads, writes, opens)."""
    fs = scratch(record)
    return (*(fs["application"][name] for name in ("read_bytes", "write_bytes", "read_calls",
                                                   "write_calls")),
            fs["operations"].get("open", {"count": 0})["count"])


def test_four_nodes_are_measured_to_the_byte(runs):
    """And by FUSE's own count; the table is on standard error, the command's output untouched."""
    job = runs.submit(*runs.srun("--output=all.txt"))
    assert "COMPLETED" == runs.slurm.wait(job)

    record = runs.record()
    assert (98 * BLOCK, 98 * BLOCK, 98, 98, 8) == amounts(record)
    assert not scratch(record)["lower_bound"]
    assert {"expected": 4, "reported": 4, "complete": True} == {
        name: record["coverage"][name] for name in ("expected", "reported", "complete")}
    assert [23 + k for k in range(4)] == [
        runs.slurm.truth(f"node{k + 1}")["write"]["calls"] for k in range(4)]
    text = runs.slurm.output(job)
    assert re.search(r" 4 nodes, 00:0\d:\d\d from ", text, re.M)
    assert re.search(r"^\| scratch +\| 6\.1 MiB +\| 6\.1 MiB +\|$", text, re.M)
    assert text.endswith("status 0\n")


@pytest.mark.parametrize("options", [
    ("--nodes=2", "--mem=100", "--cpus-per-task=2"),
    ("--nodes=2", "--ntasks-per-node=8", "--exclusive"),
    ("--nodes=2", "--ntasks=5", "--distribution=cyclic", "--export=NONE"),
], ids=["memory", "exclusive", "no environment"])
def test_what_the_job_has_asked_for_is_not_in_the_way(runs, options):
    """One client on each node, whatever sbatch's options make of srun's defaults."""
    job = runs.submit("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "/bin/sh",
                      runs.work, slurm=options)
    assert "COMPLETED" == runs.slurm.wait(job), runs.slurm.output(job)
    assert (47 * BLOCK, 47 * BLOCK, 47, 47, 4) == amounts(runs.record())


def test_the_status_of_the_command_is_that_of_the_job(runs):
    """Slurm's own accounting sees the application's exit, not ours."""
    job = runs.slurm.submit(f"#!/bin/bash\nexec {runs.command('srun', 'sh', '-c', 'exit 37')}\n",
                            "--nodes=2")
    assert "FAILED" == runs.slurm.wait(job)
    until(lambda: "37:0" == runs.slurm.ctl("sacct", "-n", "-P", "-X", "-j", job, "-o",
                                           "ExitCode").stdout.strip(), 150, "the exit status")
    assert runs.record()["coverage"]["complete"]


def started(runs, job, marker):
    """Until the work of a job is done, and its command waits."""
    runs.slurm.wait_until("RUNNING", job)
    until(lambda: len(list(runs.lustre.place.parent.glob(f"data/scratch/{marker}.*"))) == 4, 150,
          "the work of four nodes")


def waiting(runs):
    """A command that does its work, says so, and then waits for ever."""
    return ("srun", "--ntasks-per-node=1", "/bin/sh", "-c",
            f". {runs.work}; : >{runs.lustre.data}/done.$SLURM_NODEID; sleep 600")


def test_a_cancelled_job_has_its_report(runs):
    """scancel: no new step can be started then, and still all nodes report."""
    job = runs.submit(*waiting(runs))
    started(runs, job, "done")
    runs.slurm.ctl("scancel", job)
    assert "CANCELLED" == runs.slurm.wait(job)

    record = runs.record()
    assert 4 == record["coverage"]["reported"]
    assert (98 * BLOCK, 98 * BLOCK, 98, 98, 12) == amounts(record)
    assert " 4 nodes, 00:" in runs.slurm.output(job)


def test_a_job_at_its_time_limit_has_its_report(runs):
    """As soon as Slurm looks at the clock, which it does twice a minute."""
    job = runs.submit(*waiting(runs), slurm=("--nodes=4", "--time=30"))
    started(runs, job, "done")
    runs.slurm.time_out(job)
    assert "TIMEOUT" == runs.slurm.wait(job)

    record = runs.record()
    assert 4 == record["coverage"]["reported"]
    assert (98 * BLOCK, 98 * BLOCK, 98, 98, 12) == amounts(record)


def test_a_node_that_dies_is_named_and_the_others_are_counted(runs):
    """The node's 26 blocks are lost, and every number is a lower bound."""
    job = runs.submit(*waiting(runs), slurm=("--nodes=4", "--no-requeue"))
    started(runs, job, "done")
    runs.slurm.kill_node("node4")
    assert "NODE_FAIL" == runs.slurm.wait(job)

    record = runs.record()
    assert (3, ["node4"]) == (record["coverage"]["reported"], list(record["coverage"]["missing"]))
    assert (72 * BLOCK, 72 * BLOCK) == amounts(record)[:2]
    assert scratch(record)["lower_bound"]
    assert "missing: node4 (no report)" in " ".join(runs.slurm.output(job).split())


def test_slurmctld_may_restart_in_the_middle(runs):
    """The nodes' clients are in a step that knows nothing of it."""
    job = runs.submit("srun", "--ntasks-per-node=1", "/bin/sh", "-c",
                      f". {runs.work}; : >{runs.lustre.data}/done.$SLURM_NODEID; "
                      f"while ! [ -e {runs.lustre.place.parent}/go ]; do sleep 0.05; done")
    started(runs, job, "done")
    runs.slurm.restart_ctld()
    (runs.lustre.place.parent / "go").touch()
    assert "COMPLETED" == runs.slurm.wait(job)
    assert 4 == runs.record()["coverage"]["reported"]
    assert (98 * BLOCK, 98 * BLOCK, 98, 98, 12) == amounts(runs.record())


def test_a_user_without_a_home_directory(runs):
    """No directory is shared, so no secret file could be: Slurm carries the secret."""
    runs.json = runs.slurm.work(BOB) / "record.json"
    job = runs.submit(*runs.srun(), user=BOB)
    assert "COMPLETED" == runs.slurm.wait(job), runs.slurm.output(job)
    assert (98 * BLOCK, 98 * BLOCK, 98, 98, 8) == amounts(runs.record())


def test_a_heterogeneous_job_is_measured_on_all_of_its_nodes(runs):
    """Two components, one of one node and one of two, and a command that spans them."""
    script = (f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2\n"
              f"{runs.command('srun', '--het-group=0,1', '/bin/sh', '-c', BY_NAME(runs))}\n")
    job = runs.slurm.submit(script)
    assert "COMPLETED" == runs.slurm.wait(job), runs.slurm.output(job)

    record = runs.record()
    assert (3, True) == (record["coverage"]["expected"], record["coverage"]["complete"])
    assert 3 * 41 * BLOCK == scratch(record)["application"]["write_bytes"]


def BY_NAME(runs):
    """41 blocks, whoever does it."""
    return (f"dd if=/dev/zero of={runs.lustre.data}/w.$SLURMD_NODENAME bs=64k count=41 "
            f"status=none")


def test_one_node_needs_no_launcher(runs):
    """And its server is on the loopback alone."""
    job = runs.submit("/bin/sh", runs.work, slurm=("--nodes=1",))
    assert "COMPLETED" == runs.slurm.wait(job)
    assert (23 * BLOCK, 23 * BLOCK, 23, 23, 2) == amounts(runs.record())


def test_nothing_is_left_on_the_nodes(runs):
    """No process, no file in /tmp, no file in the user's home."""
    before = in_tmp(runs)                        # a node that was killed has left something
    job = runs.submit(*runs.srun())
    assert "COMPLETED" == runs.slurm.wait(job)
    assert before == in_tmp(runs)
    for node in runs.slurm.nodes:                # Slurm does not wait for the last process
        until(lambda node=node: [] == processes_of(runs, job, node),
              what=lambda node=node: f"the end of {ALICE}'s processes on {node}: "
                                     f"{processes_of(runs, job, node)}")
    home = runs.slurm.directory / "home" / ALICE
    assert [] == list(home.rglob("*.secret"))


def test_munge_in_place_of_a_secret(runs):
    """One munged for all machines of the cluster, as Slurm itself has it; users' programs only."""
    job = runs.submit(*runs.srun(), before="export IOSTATS_SERVER_AUTH=munge")
    assert "COMPLETED" == runs.slurm.wait(job), runs.slurm.output(job)
    assert (98 * BLOCK, 98 * BLOCK, 98, 98, 8) == amounts(runs.record())


def test_the_ranks_of_srun_send_one_message(runs):
    """--mpi=pmi2, 8 ranks on 4 nodes: the same totals as with a message for each node."""
    # The wheel's libraries, beside the interpreter that users can run.
    shutil.copytree(Path(sys.prefix) / "lib", runs.slurm.python.parents[1] / "lib",
                    dirs_exist_ok=True, ignore=shutil.ignore_patterns("python*"))
    client = (f"srun --mpi=pmi2 --ntasks=8 --ntasks-per-node=2 {runs.slurm.python} "
              f"{runs.slurm.home}/iostats_client.py")
    # Slurm's pmi2 reads a line of 1,024 bytes (MAX_READLINE in its pmi1.c), and cuts the addresses
    # of MPICH's UCX where they name every transport (docs/how-to/measure.md).
    job = runs.slurm.submit(f"""#!/bin/bash
        export UCX_TLS=tcp,self SLURM_KILL_BAD_EXIT=1
        {runs.slurm.python} {runs.slurm.home}/iostats_server.py --format json --output {runs.json} &
        until [ -e ~/.iostats/$SLURM_JOB_ID.secret ]; do sleep 0.05; done
        {client} start --mpi --root {runs.lustre.root} || exit
        srun --ntasks=4 --ntasks-per-node=1 /bin/sh {runs.work}
        {client} stop --mpi --root {runs.lustre.root} --server node1
        wait
        """, "--nodes=4", "--ntasks-per-node=2")
    assert "COMPLETED" == runs.slurm.wait(job), runs.slurm.output(job)
    record = runs.record()
    assert (98 * BLOCK, 98 * BLOCK, 98, 98, 8) == amounts(record)
    assert {"expected": 4, "reported": 4, "complete": True} == {
        name: record["coverage"][name] for name in ("expected", "reported", "complete")}
    # Without pmi2 each rank is a job of its own, and would count its node twice.
    job = runs.slurm.submit(client.replace("--mpi=pmi2", "--mpi=none") + " start --mpi",
                            "--nodes=4", "--ntasks-per-node=2")
    assert "FAILED" == runs.slurm.wait(job)
    assert "MPI" in runs.slurm.output(job)


def processes_of(runs, job, node):
    """
    A line for each process of the user on a node: its state, where it waits, its command and
    environment; not those that belong to another job, such as one that a dead node broke off.
    """
    lines = runs.slurm.node(node, "ps", "eww", "-o", "pid=,ppid=,stat=,etimes=,wchan:20=,args=",
                            "-u", ALICE, check=False).stdout.splitlines()
    return [line for line in lines if not re.search(rf" SLURM_JOB_ID=(?!{job}\b)", line)]


def in_tmp(runs):
    return sorted(f"{path.parent.name} {path.name}"
                  for path in (runs.slurm.directory / "tmp").glob("*/iostats*"))


def test_the_sample_job_says_what_it_has_to_say(runs):
    """By sbatch, as its user would."""
    job = runs.slurm.submit(
        (runs.slurm.home / "sample_job.sh"), "--nodes=4", env={
            "IOSTATS_HOME": str(runs.slurm.home), "DATA": str(runs.lustre.data),
            "PYTHON": str(runs.slurm.python), "NODE_PYTHON": "/usr/bin/python3",
            "IOSTATS_OPTIONS": f"--root {runs.lustre.root}"})
    assert "COMPLETED" == runs.slurm.wait(job), runs.slurm.output(job)
    text = runs.slurm.output(job)
    assert " 4 nodes, 00:" in text
    assert re.search(r"^\| scratch +\| 851\.0 MiB +\| 851\.0 MiB +\|$", text, re.M), text
    assert re.search(r"^\| scratch +\| +87 \| +87 \| +23 \| +13 \|", text, re.M), text


def test_the_job_id_of_each_step_is_what_the_documents_task_prolog_makes(slurm):
    """
    The line of docs/how-to/harvest.md; its variable is in the environment of each task from its
    start, where Lustre reads it, and a step that was started in the script has its own.
    """
    text = (ROOT / "docs" / "how-to" / "harvest.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^    (echo \"export LUSTRE_JOBID=.*?\")", text, re.M)
    slurm.hook("task_prolog", line)
    show = "tr '\\0' '\\n' </proc/$$/environ | sed -n 's/^LUSTRE_JOBID=//p'"
    job = slurm.submit(f"#!/bin/sh\n{show}\n" + f"srun -n1 sh -c {shlex.quote(show)}\n" * 2)
    assert "COMPLETED" == slurm.wait(job), slurm.output(job)
    ids = slurm.output(job).split()
    assert [f"{job}.batch", f"{job}.0", f"{job}.1"] == ids
    form = TagForm("%j.%s", JOB_ID_FORM)
    assert [(job, step) for step in ("batch", "0", "1")] == [
        (form.find_job(name), form.parse_parts(name)["steps"]) for name in ids]
