"""
Nodes that several jobs share: how many others there were, told from the cgroups of each batch
system, made below --root as the kernel has them: with the kernel's own files beside the jobs.
"""
from __future__ import annotations

import json

import pytest
from processes import AFTER, BEFORE, Desk, write_tree

from iostats.lustre.paths import File
from iostats.node import identity
from iostats.totals.snapshot import Snapshot

SCOPE = "system.slice/slurmstepd.scope/job_"
SLURM_2 = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_{job}/step_0"
SLURM_2_MANY = "sys/fs/cgroup/system.slice/nid00023_slurmstepd.scope/job_{job}/step_batch/user"
SLURM_1 = "sys/fs/cgroup/memory/slurm/uid_1000/job_{job}/step_0"
SLURM_1_CPUSET = "sys/fs/cgroup/cpuset/slurm/uid_1000/job_{job}/step_0"
SLURM_1_MANY = "sys/fs/cgroup/freezer/slurm_nid00023/uid_0/job_{job}/step_0"
PBS_1 = "sys/fs/cgroup/memory/pbs_jobs.service/jobid/{job}"
PBS_1_OLD = "sys/fs/cgroup/cpuset/pbspro.service/jobid/{job}"
PBS_2 = "sys/fs/cgroup/pbs_jobs.service/jobs/{job}"
LSF_1 = "sys/fs/cgroup/memory/lsf/cluster1/job.{job}.23117.1795225320"
LSF_2 = "sys/fs/cgroup/lsf/cluster1/job.{job}.23117.1795225320"

SYSTEMS = {"Slurm, cgroup v2": SLURM_2, "Slurm, several slurmd on a node": SLURM_2_MANY,
           "Slurm, cgroup v1": SLURM_1, "Slurm, v1, several slurmd": SLURM_1_MANY,
           "PBS, v1": PBS_1, "PBS, v1, an older hook": PBS_1_OLD, "PBS, v2": PBS_2,
           "LSF, v1": LSF_1, "LSF, v2": LSF_2}
every_system = pytest.mark.parametrize("form", list(SYSTEMS.values()), ids=list(SYSTEMS))


DESK = Desk


def cgroup(root, form, *jobs):
    """Make the cgroups of `jobs`, with the kernel's files in each of the directories above."""
    for job in jobs:
        directory = root / form.format(job=job)
        directory.mkdir(parents=True)
        while directory != root / "sys/fs":
            for name in ("cgroup.procs", "memory.stat", "tasks"):
                (directory / name).write_text("23\n")
            directory = directory.parent


def end(root, form, job):
    """The job has gone, and its cgroup with it."""
    directory = root / form.format(job=job)
    for name in ("cgroup.procs", "memory.stat", "tasks"):
        (directory / name).unlink()
    directory.rmdir()
    while str(job) in directory.parent.name:
        directory = directory.parent
        for name in ("cgroup.procs", "memory.stat", "tasks"):
            (directory / name).unlink()
        directory.rmdir()


def whole_job(desk, form, at_start=(), at_end=(), *, options=("--format", "json"), nodes="1",
              job=None):
    """A job on nid00023 with others beside it; the Done of the server."""
    job = job or desk.job
    running = desk.server("--nodes", nodes, *options, job=job)
    run_on(desk, running, "nid00023", form, at_start, at_end, job)
    return running.wait()


def run_on(desk, running, name, form, at_start, at_end, job):
    root = desk.tree(name, **BEFORE)
    cgroup(root, form, job, *at_start)
    assert 0 == desk.client("start", *desk.on(name, root), job=job).status
    write_tree(root, **AFTER)
    for other in at_start:
        if other not in at_end:
            end(root, form, other)
    cgroup(root, form, *(other for other in at_end if other not in at_start))
    done = desk.client("stop", "--server", f"127.0.0.1:{running.port}", *desk.on(name, root),
                       job=job)
    assert (0, "") == (done.status, done.err)


# -- which jobs are there ------------------------------------------------------------------------


def jobs_in(root):
    """The jobs, as a snapshot keeps them and the end of the job understands them."""
    return identity.parse_job_list(identity.read(str(root)))


@every_system
def test_the_jobs_of_a_node_are_the_directories_of_the_batch_system(tmp_path, form):
    """And none of the files that the kernel has in each cgroup."""
    assert [] == jobs_in(tmp_path)
    cgroup(tmp_path, form, 4711, 4713)
    assert ["4711", "4713"] == jobs_in(tmp_path)


def test_a_job_in_the_trees_of_several_controllers_is_one(tmp_path):
    """cgroup v1 has a tree for each controller."""
    for form in (SLURM_1, SLURM_1_CPUSET):
        cgroup(tmp_path, form, 4711, 4713)
    assert ["4711", "4713"] == jobs_in(tmp_path)


def test_services_and_users_are_no_jobs(tmp_path):
    """What a node without a job has."""
    for name in ("system.slice/sshd.service", "user.slice/user-1000.slice", "init.scope",
                 "system.slice/slurmstepd.scope/system", "memory/slurm/uid_1000",
                 "pbs_jobs.service/jobid", "lsf/cluster1"):
        cgroup(tmp_path, f"sys/fs/cgroup/{name}", "")
    assert [] == jobs_in(tmp_path)


@pytest.mark.parametrize("jobs, own, cgroup_of_ours, others", [
    (f"{SCOPE}4711\n{SCOPE}4713", "4711", "0::/user.slice\n", 1),
    (f"{SCOPE}4711", "4711", "0::/user.slice\n", 0),
    ("", "4711", "0::/user.slice\n", None),
    (f"{SCOPE}4713\n{SCOPE}4717", "my own name",
     "0::/system.slice/slurmstepd.scope/job_4713/step_0/user\n", 1),
    ("pbs_jobs.service/jobid/4713.pbs01\npbs_jobs.service/jobid/4717.pbs01", "my own name",
     "3:memory:/pbs_jobs.service/jobid/4713.pbs01\n2:cpu:/\n", 1),
], ids=["by its id", "alone", "no cgroups", "by the cgroup it is in", "by one of its cgroups"])
def test_ones_own_job_is_not_another(monkeypatch, jobs, own, cgroup_of_ours, others):
    """It is the one of that id, or the one in whose cgroup we run."""
    monkeypatch.setattr(identity, "read_text", lambda path: cgroup_of_ours)
    seen = Snapshot(own, "nid00023", "seq", "", 0, 0,
                    (File("cgroups", "-", "sys/fs/cgroup", 0, jobs),))
    assert others == identity.count_other_jobs(own, seen)


def test_a_start_that_an_earlier_release_has_kept_is_understood(monkeypatch):
    """It has the ids of the jobs themselves."""
    monkeypatch.setattr(identity, "read_text", lambda path: "0::/user.slice\n")
    start = Snapshot("4711", "nid00023", "seq", "", 0, 0,
                     (File("jobs", "-", "sys/fs/cgroup", 0, "4711\n4713"),))
    end = start._replace(files=(File("cgroups", "-", "sys/fs/cgroup", 0,
                                     "system.slice/slurmstepd.scope/job_4711"),))
    assert 1 == identity.count_other_jobs("4711", start, end)


# -- what the report says ------------------------------------------------------------------------


@every_system
def test_other_jobs_are_counted_and_our_own_is_not(desk, form):
    """Two others from start to end."""
    record = whole_job(desk, form, (23, 37), (23, 37)).record
    assert {"nid00023": 2} == record["coverage"]["shared"]


@pytest.mark.parametrize("at_start, at_end, shared", [
    ((), (), {}), ((23,), (), {"nid00023": 1}), ((), (23,), {"nid00023": 1}),
    ((23, 37), (37, 41), {"nid00023": 3}),
], ids=["alone", "one that ended", "one that began", "one that ended, one that stayed, one that "
                                                    "began"])
def test_a_job_that_was_there_at_the_start_or_the_end_is_another(desk, at_start, at_end, shared):
    """Each once."""
    assert shared == whole_job(desk, SLURM_2, at_start, at_end).record["coverage"]["shared"]


def test_pbs_names_its_jobs_in_full(desk):
    """4711.pbs01 is the job and its cgroup alike."""
    job = f"{desk.job}.pbs01"
    record = whole_job(desk, PBS_1, ("4713.pbs01",), ("4713.pbs01",), job=job).record
    assert {"nid00023": 1} == record["coverage"]["shared"]


@pytest.mark.parametrize("others, note", [
    ((), None),
    ((23,), "note: nid00023: 1 other job was on the node: the numbers are the node's, not this "
            "job's alone"),
    ((23, 37), "note: nid00023: 2 other jobs were on the node: the numbers are the node's, not "
               "this job's alone"),
], ids=["alone", "one", "two"])
def test_the_report_says_whose_numbers_these_are(desk, others, note):
    """One line, and none for a node that was the job's alone."""
    done = whole_job(desk, SLURM_2, others, others, options=())
    assert [line for line in (note,) if line] == [
        line for line in done.out.replace("\n  ", " ").splitlines()
        if "other job" in line and not line.startswith("No findings")]


def test_nodes_that_were_shared_alike_are_folded_into_one_line(desk):
    """Three nodes, two counts, two lines; the fourth node was the job's alone."""
    running = desk.server("--nodes", "nid[00001-00004]", "--json", "record.json")
    for name, others in (("nid00001", (23,)), ("nid00002", (23, 37)), ("nid00003", (41,)),
                         ("nid00004", ())):
        run_on(desk, running, name, SLURM_2, others, others, desk.job)
    done = running.wait()
    assert ["note: nid[00001,00003]: 1 other job was on the node: the numbers are the node's, not "
            "this job's alone",
            "note: nid00002: 2 other jobs were on the node: the numbers are the node's, not this "
            "job's alone"] == [
                line for line in done.out.replace("\n  ", " ").splitlines() if "other job" in line]
    record = json.loads((desk.directory / "record.json").read_text())
    assert {"nid00001": 1, "nid00002": 2, "nid00003": 1} == record["coverage"]["shared"]
