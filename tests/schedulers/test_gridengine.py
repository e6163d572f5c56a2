"""
Jobs of a real Grid Engine: `iostats run` on three nodes, and its prolog and epilog.

Node k's part of a job's work is 23 + k blocks of 64 KiB written, in the file system that a
simulated Lustre on each node counts; that of a job on one node is 41.
"""

import json

import pytest
from cluster import ALICE
from cluster_site import BLOCK, ClusterSite, written
from processes import until

pytestmark = [pytest.mark.gridengine, pytest.mark.root, pytest.mark.fuse, pytest.mark.timeout(600)]

WORK = """
node=$(hostname) blocks=${BLOCKS:-41}
dd if=/dev/zero of=%s/w$JOB_ID.$node bs=64k count=$blocks status=none
"""


class Site(ClusterSite):
    """The same, and the work of Grid Engine's jobs."""

    def __init__(self, gridengine, **how):
        super().__init__(gridengine, **how)
        self.work = WORK % self.lustre.data


@pytest.fixture
def site(gridengine):
    found = Site(gridengine)
    yield found
    found.close()


def test_a_job_on_one_node(site):
    """Its numbers, and what the accounting says of it."""
    job = site.cluster.submit(f"{site.work}exit 7", "-N", "climate")
    site.cluster.wait(job)

    record = site.record(job)
    assert (41, 41, 1, True) == written(record)
    assert {"system": "sge", "name": "climate", "outcome": "FAILED", "exit_status": 7,
            "partition": "all.q", "raw_job": job} == {
        name: record["batch"][name] for name in ("system", "name", "outcome", "exit_status",
                                                 "partition", "raw_job")}
    assert (ALICE, 0) == (record["job"]["user"], record["job"]["attempt"])
    assert "" == site.errors()


def test_a_user_cannot_give_his_job_to_another(site):
    """`qsub -v` sets what it likes in the prolog's environment, but not whose job it is."""
    job = site.cluster.submit(site.work, "-v", "LOGNAME=iostats-bob,USER=iostats-bob,"
                                               "SGE_O_LOGNAME=iostats-bob,JOB_ID=99999")
    site.cluster.wait(job)

    record = site.record(job)
    assert (41, ALICE, ALICE) == (written(record)[0], record["job"]["user"],
                                  site.cluster.accounting(job)[0]["owner"].strip())


def test_each_task_of_an_array(site):
    """By the names that qstat and qdel know."""
    job = site.cluster.submit(site.work.replace("$JOB_ID", "$JOB_ID.$SGE_TASK_ID"), "-t", "1-3",
                              "-tc", "1")             # never two on a node
    site.cluster.wait(job, 3)

    records = site.records(job, 3)
    assert [f"{job}.{task}" for task in (1, 2, 3)] == [one["job"]["id"] for one in records]
    assert [41] * 3 == [written(one)[0] for one in records]


def test_a_deleted_job_is_not_one_that_failed(site):
    """8.1.9 does not tell a qdel from another SIGKILL: KILLED, whoever it was."""
    job = site.cluster.submit(f"{site.work}: >{site.lustre.data}/done; sleep 600")
    until((site.lustre.place.parent / "data/scratch/done").exists, 150, "its work")
    site.cluster.as_user(ALICE, "qdel", job)
    [entry] = site.cluster.wait(job)
    assert "deleted_by" not in entry                      # if it has: it is CANCELLED then

    record = site.record(job)
    assert (41, 41, 1, True) == written(record)
    assert ("KILLED", 0, 9) == tuple(record["batch"][name] for name in (
        "outcome", "exit_status", "exit_signal"))


def test_a_job_in_error_has_not_begun(site):
    """No prolog has run; cleared, it is measured, and has not been restarted."""
    output = site.cluster.work() / "later" / "out"
    job = site.cluster.submit(site.work, "-o", output)
    site.cluster.wait_until("Eqw", job)
    output.parent.mkdir()
    output.parent.chmod(0o777)
    site.cluster.ctl("qmod", "-cj", job, check=False)      # its status is 1 in any case
    failed, ended = site.cluster.wait(job, 2)
    assert ("-/-", "0") == (failed["start_time"], ended["exit_status"].strip())

    record = site.record(job)
    assert ((41, 41, 1, True), 0) == (written(record), record["job"]["attempt"])
    assert "COMPLETED" == record["batch"]["outcome"]


def test_a_job_that_is_run_again_has_a_record_for_each_run(site):
    """qmod -rj; RESTARTED tells the runs apart."""
    job = site.cluster.submit(
        f"[ $RESTARTED = 0 ] && BLOCKS=37; {site.work}"
        f"[ $RESTARTED != 0 ] || {{ : >{site.lustre.data}/done; sleep 600; }}", "-r", "y")
    until((site.lustre.place.parent / "data/scratch/done").exists, 150, "its work")
    site.cluster.as_user(ALICE, "qmod", "-rj", job, check=False)
    site.cluster.wait(job, 2)

    runs = site.records(job, 2, ["--all"])
    assert [(0, 37, "REQUEUED"), (1, 41, "COMPLETED")] == [
        (one["job"]["attempt"], written(one)[0], one["batch"]["outcome"]) for one in runs]


def test_a_parallel_job_by_its_prolog_is_one_node_and_says_so(gridengine):
    """Grid Engine runs the prolog where the script runs: the other nodes are missing by name."""
    site = Site(gridengine, deadline=4)
    try:
        job = gridengine.submit(f"{site.work}for node in $(cut -d' ' -f1 $PE_HOSTFILE); do "
                                "qrsh -inherit -nostdin -noshell $node /bin/hostname; done",
                                "-pe", "spread_each", "3")
        entries = gridengine.wait(job, 4)                     # one for each qrsh, and its own
        assert "pe_taskid" not in entries[0] and 4 == len(entries)

        record = site.record(job)
        assert (41, 41, 1, False) == written(record)
        assert (3, 2, 0, "COMPLETED") == (
            record["coverage"]["expected"], len(record["coverage"]["missing"]),
            record["job"]["attempt"], record["batch"]["outcome"])
        assert record["file_systems"][0]["lower_bound"]
    finally:
        site.close()


@pytest.mark.parametrize("environment", ["spread", "spread_each"])
def test_run_measures_all_nodes_of_a_parallel_job(gridengine, environment):
    """By qrsh -inherit, whether or not each has an entry in the accounting."""
    lustre = gridengine.mount("scratch", "2.10")          # where users may read the bytes
    work = gridengine.directory / "work.sh"
    work.write_text("BLOCKS=$((23 + ${1#node}))" + WORK % lustre.data)
    record = gridengine.work() / "record.json"
    job = gridengine.submit(
        f"env PYTHONPATH={gridengine.home} IOSTATS_RUN_START_TIMEOUT=100 {gridengine.python} -m "
        f"iostats run --root {lustre.root} --json {record} -- /bin/sh -c '"
        f"for node in $(cut -d\" \" -f1 $PE_HOSTFILE); do "
        f"qrsh -inherit -nostdin -noshell $node /bin/sh {work} $node; done'\n"
        f"echo status $?\n", "-pe", environment, "3")
    gridengine.wait(job)

    found = json.loads(record.read_text())
    assert "status 0" in gridengine.output(job)
    [fs] = found["file_systems"]
    assert (75 * BLOCK, 75, False) == (fs["application"]["write_bytes"],
                                       fs["application"]["write_calls"], fs["lower_bound"])
    assert [24, 25, 26] == [gridengine.truth(f"node{k}")["write"]["calls"] for k in (1, 2, 3)]
    assert (3, 3) == (found["coverage"]["expected"], found["coverage"]["reported"])


@pytest.mark.parametrize("hook", ["sge_prolog", "sge_epilog"])
def test_the_scripts_for_its_configuration_end_with_0(gridengine, hook):
    """Whatever they meet; here no job."""
    done = gridengine.node("node1", "env", "-i", gridengine.home / "hooks" / hook)
    assert "" == done.stdout and "no job id" in done.stderr
