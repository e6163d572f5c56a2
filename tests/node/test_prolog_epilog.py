"""
Prolog, epilog and deliver from outside in: processes with a batch system's environment and nothing
else, on trees of counter files, against a real site server.

What a job does is AFTER less BEFORE of processes.py: 23 reads of together 41,003 bytes, 37 writes
of together 53,007 bytes, 43 opens, 13 mkdirs, 19 RPCs each way.
"""
from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import (
    AFTER,
    BEFORE,
    CLIENT,
    REPOSITORY,
    Listener,
    TinyDisk,
    fill,
    http_answer,
    interpreters,
    private_mounts,
    until,
    write_tree,
)
from site_desk import THE_WORK, application, free_port, is_private, kept_in, script

from iostats.base import config as site_config
from iostats.node import delivery, prolog_epilog, start_files
from iostats.totals import snapshot

as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")]


@pytest.fixture
def job(site):
    return site.new_job()


@pytest.fixture
def node(job):
    return f"nid{int(job):05}"


def said(done):
    return done.status, done.out, done.err


NOTHING = (0, "", "")
NOT_RUN = "no start: its prolog has not run here, or could not store one"


# -- numbers ---------------------------------------------------------------------------------

def test_a_job_is_measured_from_its_prolog_to_its_epilog(desk):
    """Each number, whose it is, and all of its nodes; with the script as it is."""
    desk.site(hasty=False)
    desk.work("4711", env={
        "SLURM_JOB_NODELIST": "nid00001", "SLURM_JOB_USER": "alice", "SLURM_JOB_UID": "12345",
        "SLURM_JOB_ACCOUNT": "physics", "SLURM_JOB_PARTITION": "large",
        "SLURM_CLUSTER_NAME": "eiger"})
    assert [] == desk.kept()
    record = desk.record("4711")
    [fs] = record["file_systems"]
    assert THE_WORK == application(record)
    assert {"read_bytes": 41_003, "write_bytes": 53_007, "read_rpcs": 19, "write_rpcs": 19,
            "lower_bound": False} == fs["network"]
    assert {"open": 43, "mkdir": 13} == {name: row["count"]
                                         for name, row in fs["operations"].items()}
    assert ("scratch", False, []) == (fs["name"], fs["lower_bound"], fs["notes"])
    assert ("4711", "alice", 0) == tuple(record["job"][name] for name in ("id", "user", "attempt"))
    assert ("slurm", "eiger", "physics", "large", "nid00001") == tuple(
        record["batch"][name] for name in ("system", "cluster", "account", "partition", "nodes"))
    coverage = record["coverage"]
    assert (1, 1, True, {}, {}) == tuple(coverage[name] for name in (
        "expected", "reported", "complete", "missing", "shared"))
    assert [] == record["notes"]


@pytest.mark.parametrize("python", [path for _, path in interpreters()],
                         ids=[version for version, _ in interpreters()])
def test_prolog_and_epilog_work_with_the_standard_library_of_every_python(site, job, node, python):
    """3.9 and newer, whatever is on this machine."""
    command = [python, "-I", "-S", CLIENT]
    root = site.tree(node, **BEFORE)
    assert NOTHING == said(site.hook("prolog", node, root, job, command=command))
    write_tree(root, **AFTER)
    assert NOTHING == said(site.hook("epilog", node, root, job, command=command))
    assert THE_WORK == application(site.record(job))


def test_a_second_prolog_keeps_the_first_start(site, job, node):
    """As after a restart of the batch system's daemon."""
    root = site.tree(node, **BEFORE)
    assert NOTHING == said(site.hook("prolog", node, root, job))
    write_tree(root, **AFTER)
    done = site.hook("prolog", node, root, job)
    assert 0 == done.status and f"job {job} was started on {node} already" in done.line
    assert NOTHING == said(site.hook("epilog", node, root, job))
    record = site.record(job)
    assert THE_WORK == application(record)
    assert {} == record["coverage"]["shared"]


def test_a_second_epilog_changes_nothing(site, job, node):
    """The numbers count once, and nothing is missing."""
    site.work(job, node)
    first = site.record(job)
    done = site.hook("epilog", node, site.directory / node, job)
    assert 0 == done.status and "was not started here" in done.line
    assert [] == site.kept(node)
    until(lambda: site.server.err.count(f"Job {job}:") == 2, what="the second record")
    second = site.record(job)
    assert THE_WORK == application(second)
    for name in ("coverage", "notes", "file_systems", "nodes"):
        assert first[name] == second[name]


def test_an_epilog_without_prolog_says_so(site, job, node):
    """The node is named, and has no numbers."""
    done = site.hook("epilog", node, site.tree(node, **AFTER), job,
                     env={"SLURM_JOB_NODELIST": node})
    assert 0 == done.status and "was not started here" in done.line
    record = site.record(job)
    coverage = record["coverage"]
    assert ({node: NOT_RUN}, 0, 1, False) == tuple(
        coverage[name] for name in ("missing", "reported", "expected", "complete"))
    assert [] == record["file_systems"]


def test_a_damaged_start_is_no_zero(site, job, node):
    """The node is named with its reason, and the next job on it is measured."""
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, job, env={"SLURM_JOB_NODELIST": node})
    [start] = (site.hooks / node).glob("*.start")
    start.write_bytes(start.read_bytes()[:-23])
    done = site.hook("epilog", node, root, job)
    assert 0 == done.status and "cut off or damaged" in done.err
    coverage = site.record(job)["coverage"]
    assert {node: "the start snapshot is damaged"} == coverage["missing"]
    assert [] == site.kept(node)
    other = site.new_job()
    site.work(other, node)
    record = site.record(other)
    assert THE_WORK == application(record) and {} == record["coverage"]["shared"]


def test_a_job_without_lustre(site, job, node):
    """It has a record all the same, which says so."""
    empty = site.directory / "empty"
    empty.mkdir()
    for role in ("prolog", "epilog"):
        assert NOTHING == said(site.hook(role, node, empty, job))
    record = site.record(job)
    assert ([], 1) == (record["file_systems"], record["coverage"]["reported"])
    assert [f"{node}: no Lustre file system is mounted"] == record["notes"]


def test_the_user_of_a_job_is_never_the_one_who_runs_the_epilog(site, job, node):
    """root has made the report; whose job it is was not told, or told as a number."""
    root = site.tree(node, **BEFORE)
    env = {"USER": "root", "LOGNAME": "root", "HOME": "/root"}
    for role in ("prolog", "epilog"):
        assert NOTHING == said(site.hook(role, node, root, job, env=env))
    assert site.record(job)["job"]["user"] is None
    other = site.new_job()
    for role in ("prolog", "epilog"):
        assert NOTHING == said(site.hook(role, node, root, other,
                                         env={**env, "SLURM_JOB_UID": "65534"}))
    assert "nobody" == site.record(other)["job"]["user"]


# -- several jobs on a node ------------------------------------------------------------------

def test_jobs_on_one_node_are_labelled_and_each_has_its_own_time(site, node):
    """One lies wholly within the other; a job after both is alone."""
    outer, inner, later = site.new_job(), site.new_job(), site.new_job()
    env = {"SLURM_JOB_NODELIST": node}
    for role, job, reads in (("prolog", outer, 100), ("prolog", inner, 123), ("epilog", inner, 160),
                             ("epilog", outer, 201), ("prolog", later, 201),
                             ("epilog", later, 224)):
        root = site.tree(node, reads=reads, read_bytes=reads * 1000)
        assert NOTHING == said(site.hook(role, node, root, job, env=env))
    for job, reads, shared in ((outer, 101, {node: 1}), (inner, 37, {node: 1}), (later, 23, {})):
        record = site.record(job)
        assert (reads, reads * 1000) == (application(record)["read_calls"],
                                         application(record)["read_bytes"])
        assert shared == record["coverage"]["shared"]


def test_all_that_a_job_was_together_with_are_counted(site, node):
    """Three short jobs one after the other beside a long one, and one that begins in its midst."""
    long, late = site.new_job(), site.new_job()
    shorts = [site.new_job() for _ in range(3)]
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, long)
    for short in shorts:
        site.hook("prolog", node, root, short)
        site.hook("epilog", node, root, short)
    site.hook("prolog", node, root, late)
    site.hook("epilog", node, root, long)
    site.hook("epilog", node, root, late)
    assert {node: 4} == site.record(long)["coverage"]["shared"]
    assert {node: 1} == site.record(late)["coverage"]["shared"]
    assert [{node: 1}] * 3 == [site.record(short)["coverage"]["shared"] for short in shorts]


def test_eight_prologs_at_once_see_each_other(site, node):
    """Whichever is first: each of the eight was together with seven others."""
    jobs = [site.new_job() for _ in range(8)]
    root = site.tree(node, **BEFORE)
    for role in ("prolog", "epilog"):
        for finish in [site.begin_hook(role, node, root, job) for job in jobs]:
            assert NOTHING == said(finish())
    assert [{node: 7}] * 8 == [site.record(job)["coverage"]["shared"] for job in jobs]


# -- jobs whose epilog never comes -----------------------------------------------------------

def slurm_knows(site, *jobs):
    """Let `squeue` know these jobs, and the accounting none."""
    path = site.directory / "squeue.json"
    path.with_suffix(".new").write_text(json.dumps({"jobs": jobs}))
    path.with_suffix(".new").replace(path)
    script(site.bin / "squeue", f"#!/bin/sh\nexec /bin/cat '{path}'\n")
    script(site.bin / "sacct", "#!/bin/sh\nexit 0\n")


def slurm_job(job, *states, began=-3000, ended=-600, **fields):
    now = int(time.time())
    return {"job_id": int(job), "job_state": list(states), "user_name": "alice", "user_id": 12345,
            "nodes": "nid1", "start_time": now + began, "end_time": now + ended,
            "exit_code": {"return_code": {"set": True, "number": 0}}, **fields}


@pytest.fixture
def slurm_site(desk):
    """A desk whose jobs are Slurm's."""
    script(desk.bin / "squeue", "#!/bin/sh\necho '{\"jobs\": []}'\n")
    desk.site()
    return desk


def left_behind(site, node, job, since=-2000, env=None):
    """A prolog, and nothing more; its start is as old as that."""
    assert NOTHING == said(site.hook("prolog", node, site.tree(node, **BEFORE), job, env=env))
    path = site.hooks / node / f"{job}%20{node}.start"
    start = snapshot.decode(path.read_bytes(), path)
    path.write_bytes(snapshot.encode(start._replace(
        wall_ns=start.wall_ns + since * 10**9, boot_ns=0)))
    os.utime(path, (time.time() + since,) * 2)


def shared_of(site, job):
    return site.record(job)["coverage"]["shared"]


def begins_with(site, node, job):
    return sorted(path.name for path in (site.hooks / node).iterdir()
                  if path.name.startswith(job))


def test_a_start_that_a_dead_slurmd_has_left_marks_no_later_job(slurm_site):
    """The batch system says that its job had ended before; the next answer removes it."""
    site, node = slurm_site, "nid1"
    dead, first, second, third = (site.new_job() for _ in range(4))
    left_behind(site, node, dead)
    slurm_knows(site, *(slurm_job(job, "COMPLETED") for job in (dead, first, second, third)))
    site.work(first, node)
    assert {} == shared_of(site, first)
    assert [f"{dead}%20{node}.job", f"{dead}%20{node}.start"] == begins_with(site, node, dead)
    site.work(second, node)                                 # its answer tells the node
    assert {} == shared_of(site, second)
    assert not {name for name in begins_with(site, node, dead) if name.endswith("t")}
    site.work(third, node)                                  # and brings the other's last word
    assert {} == shared_of(site, third)
    assert [] == site.kept(node)
    assert {node: "no epilog has run"} == site.record(dead)["coverage"]["missing"]


@pytest.mark.parametrize("what", [
    "still running", "ended since", "completing", "an older job of that number", "not known",
    "of another cluster", "in a cgroup"])
def test_a_job_that_is_not_proved_to_have_ended_before_is_counted(slurm_site, what):
    site, node = slurm_site, "nid1"
    other, job = site.new_job(), site.new_job()
    left_behind(site, node, other)
    how = {"still running": slurm_job(other, "RUNNING"),
           "ended since": slurm_job(other, "COMPLETED", ended=100),
           "completing": slurm_job(other, "COMPLETED", "COMPLETING"),
           "an older job of that number": slurm_job(other, "COMPLETED", began=-9000, ended=-8000),
           "of another cluster": slurm_job(other, "COMPLETED", cluster="elsewhere")}.get(
               what, slurm_job(other, "COMPLETED"))
    if what == "in a cgroup":
        (site.tree(node) / f"sys/fs/cgroup/system.slice/slurmstepd.scope/job_{other}").mkdir(
            parents=True)
    slurm_knows(site, slurm_job(job, "COMPLETED"), *([] if what == "not known" else [how]))
    site.work(job, node, env={"SLURM_CLUSTER_NAME": "here"})
    assert {node: 1} == shared_of(site, job)
    later = site.new_job()
    slurm_knows(site, slurm_job(later, "COMPLETED"), slurm_job(job, "COMPLETED"))
    site.work(later, node)
    assert [f"{other}%20{node}.job", f"{other}%20{node}.start"] == begins_with(site, node, other)


def test_a_real_neighbour_counts_beside_a_start_that_is_over(slurm_site):
    """Three are there: one that ended long ago, one that runs, and the long job beside both."""
    site, node = slurm_site, "nid1"
    long, dead, first, second, third = (site.new_job() for _ in range(5))
    left_behind(site, node, long, -9000)
    left_behind(site, node, dead)
    known = [slurm_job(job, "COMPLETED") for job in (dead, first, second, third)]
    slurm_knows(site, *known, slurm_job(long, "RUNNING", began=-9000))
    for job in (first, second, third):
        site.work(job, node)
        assert {node: 1} == shared_of(site, job)
    assert not {name for name in begins_with(site, node, dead) if name.endswith("t")}
    # It was together with all four, also with the one whose start was removed meanwhile.
    slurm_knows(site, *known, slurm_job(long, "COMPLETED", began=-9000, ended=0))
    assert NOTHING == said(site.hook("epilog", node, site.directory / node, long))
    assert {node: 4} == shared_of(site, long)


def test_a_job_that_began_after_a_dead_ones_end_is_not_marked_by_what_was_removed(slurm_site):
    """Two that run side by side; the start goes with the answer to the one, the other is told."""
    site, node = slurm_site, "nid1"
    dead, long, first, second = (site.new_job() for _ in range(4))
    left_behind(site, node, dead)
    left_behind(site, node, long, 0)
    slurm_knows(site, *(slurm_job(job, "COMPLETED") for job in (dead, first, second)),
                slurm_job(long, "RUNNING"))
    for job in (first, second):
        site.work(job, node)
        assert {node: 1} == shared_of(site, job)
    slurm_knows(site, *(slurm_job(job, "COMPLETED") for job in (dead, first, second)),
                slurm_job(long, "COMPLETED", ended=0))
    assert NOTHING == said(site.hook("epilog", node, site.directory / node, long))
    assert {node: 2} == shared_of(site, long)               # the first and the second


def test_a_run_that_was_started_again_elsewhere_is_over_here(slurm_site):
    site, node = slurm_site, "nid1"
    other, first, second = (site.new_job() for _ in range(3))
    left_behind(site, node, other)
    again = slurm_job(other, "RUNNING", began=-900, nodes="nid2", restart_cnt=1)
    slurm_knows(site, slurm_job(first, "COMPLETED"), slurm_job(second, "COMPLETED"), again)
    site.work(first, node)
    assert {} == shared_of(site, first)
    slurm_knows(site, slurm_job(second, "COMPLETED"), {**again, "nodes": "nid[1-2]"})
    site.work(second, node)
    assert {node: 1} == shared_of(site, second)


def test_our_own_record_is_a_proof_where_it_has_the_batch_systems_word(slurm_site):
    """squeue has forgotten it, no accounting; a record that nobody told an end of is none."""
    site = slurm_site
    for node, states, shared in (("nid1", ["FAILED"], {}), ("nid2", [], {"nid2": 1})):
        other, job = site.new_job(), site.new_job()
        both = {"SLURM_JOB_NODELIST": f"{node},nid99999"}
        slurm_knows(site, *(slurm_job(other, state) for state in states))
        left_behind(site, node, other, env=both)
        site.work(other, "nid99999", env={"SLURM_JOB_NODELIST": "nid99999"})
        site.record(other)
        slurm_knows(site, slurm_job(job, "COMPLETED"))
        site.work(job, node)
        assert shared == shared_of(site, job)


def test_after_the_sites_server_was_started_again_it_reads_who_was_named(desk):
    """The job waits for another node meanwhile."""
    server, node = desk.site(), "nid1"
    dead, job = desk.new_job(), desk.new_job()
    slurm_knows(desk, *(slurm_job(one, "COMPLETED") for one in (dead, job)))
    left_behind(desk, node, dead)
    both = {"SLURM_JOB_NODELIST": "nid[1-2]"}
    desk.work(job, node, env=both)
    server.kill()
    desk.site()
    desk.work(job, "nid2", env=both)
    assert {} == shared_of(desk, job)


# -- a job that is started again -------------------------------------------------------------

def test_a_requeued_job_has_a_record_for_each_run(site, job, node):
    """The same id; the numbers of the one are not in the other."""
    for attempt, reads in (("0", 23), ("1", 37)):
        site.work(job, node, dict(reads=1000), dict(reads=1000 + reads),
                  env={"SLURM_RESTART_COUNT": attempt})
    records = until(lambda: len(found := site.records(job)) == 2 and found)
    assert [(job, 0, 23), (job, 1, 37)] == [
        (one["job"]["id"], one["job"]["attempt"], application(one)["read_calls"])
        for one in records]


def test_a_run_whose_epilog_never_came_is_told_by_the_next_one(site, job, node):
    """Its node has no numbers, the second run has its own, and is not labelled as shared."""
    env = {"SLURM_JOB_NODELIST": node}
    site.hook("prolog", node, site.tree(node, reads=23), job, env=env)
    site.work(job, node, dict(reads=1000), dict(reads=1037),
              env={**env, "SLURM_RESTART_COUNT": "1"})
    first, second = until(lambda: len(found := site.records(job)) == 2 and found)
    assert (0, {node: "no epilog has run"}) == (first["job"]["attempt"],
                                                first["coverage"]["missing"])
    assert (1, {}, {}) == (second["job"]["attempt"], second["coverage"]["missing"],
                           second["coverage"]["shared"])
    assert 37 == application(second)["read_calls"]


def test_a_restarted_job_is_not_shared_with_its_own_cgroup(site, job, node):
    """Where Slurm's cgroup of the job is still there when the epilog runs."""
    root = site.tree(node, **BEFORE)
    (root / f"sys/fs/cgroup/system.slice/slurmstepd.scope/job_{job}").mkdir(parents=True)
    env = {"SLURM_RESTART_COUNT": "1"}
    for role in ("prolog", "epilog"):
        site.hook(role, node, root, job, env=env)
    assert {} == site.record(job)["coverage"]["shared"]


# -- a node that was booted ------------------------------------------------------------------

def of_an_earlier_boot(directory):
    """Make the one start in `directory` one of the boot before this one."""
    [path] = Path(directory).glob("*.start")
    start = snapshot.decode(path.read_bytes(), path)
    path.write_bytes(snapshot.encode(start._replace(boot_id="another")))
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


def test_a_job_that_a_boot_has_ended_is_told_by_the_next_ones_epilog(site, job, node):
    """No epilog of its own comes any more; the next job there is not labelled as shared."""
    env = {"SLURM_JOB_NODELIST": f"{node},nid99999", "SLURM_JOB_USER": "alice"}
    site.hook("prolog", node, site.tree(node, **BEFORE), job, env=env)
    of_an_earlier_boot(site.hooks / node)
    other = site.new_job()
    site.work(other, node)
    assert {} == site.record(other)["coverage"]["shared"]
    assert [] == site.kept(node)
    site.hook("epilog", "nid99999", site.directory / node, job, env=env)
    record = site.record(job)
    assert {node: "the node was booted during the job", "nid99999": NOT_RUN} == (
        record["coverage"]["missing"])
    assert "alice" == record["job"]["user"]


def test_a_clock_that_was_set_ends_no_job(site, job, node):
    """A start with a time before the boot, but of this boot, is a job that still runs."""
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, job)
    [start] = (site.hooks / node).glob("*.start")
    os.utime(start, (time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - 3600,) * 2)
    site.hook("deliver", node, root)
    write_tree(root, **AFTER)
    assert NOTHING == said(site.hook("epilog", node, root, job))
    assert THE_WORK == application(site.record(job))


def test_a_prolog_after_a_boot_begins_anew(site, job, node):
    """The same run's id comes again on the booted node: what was before is not in its numbers."""
    site.hook("prolog", node, site.tree(node, reads=5), job)
    of_an_earlier_boot(site.hooks / node)
    site.work(job, node, dict(reads=1000), dict(reads=1037))
    record = site.record(job)
    assert 37 == application(record)["read_calls"]
    assert record["file_systems"][0]["lower_bound"]        # there was a part without numbers


def test_a_report_that_a_crash_has_left_beside_its_start_stands(site, job, node):
    """The epilog had kept it when the node went down; after the boot it is sent as it is."""
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, job)
    start = next((site.hooks / node).glob("*.start"))
    kept = start.read_bytes()
    write_tree(root, **AFTER)
    site.hook("epilog", node, root, job, config=offline(site, node))
    start.write_bytes(kept)
    path = of_an_earlier_boot(site.hooks / node)
    assert ["delta", "start"] == site.kept(node)
    assert NOTHING == said(site.hook("deliver", node))
    assert not path.exists() and [] == site.kept(node)
    record = site.record(job)
    assert THE_WORK == application(record) and 1 == record["coverage"]["reported"]


def offline(desk, node):
    """A site.cfg for `node` whose server does not listen."""
    path = desk.directory / f"{node}-offline.cfg"
    path.write_text(desk.text({**desk.choices, "site.port": free_port(),
                               "node.hook_dir": desk.hooks / node}))
    return path


# -- reports that wait -----------------------------------------------------------------------

def test_reports_wait_over_an_outage_and_come_with_the_next_epilog(desk):
    """Of all jobs, each once."""
    server = desk.site()
    server.stop()
    jobs = ["4711", "4713", "4717"]
    for waits, job in (("1 report waits", jobs[0]), ("2 reports wait", jobs[1])):
        root = desk.tree("nid00001", **BEFORE)
        assert NOTHING == said(desk.hook("prolog", "nid00001", root, job))
        write_tree(root, **AFTER)
        done = desk.hook("epilog", "nid00001", root, job)
        assert 0 == done.status
        assert f"Connection refused; {waits} in " in done.line
    assert ["delta", "delta"] == desk.kept()
    assert all(is_private(path) for path in [desk.hooks / "nid00001",
                                             *(desk.hooks / "nid00001").iterdir()])
    desk.site()
    desk.work(jobs[2])
    assert [] == desk.kept()
    for job in jobs:
        record = desk.record(job)
        assert THE_WORK == application(record) and 1 == record["coverage"]["reported"]


def test_reports_wait_over_an_outage_and_come_with_deliver(site, job, node):
    """`deliver`, as a timer runs it on an idle node."""
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, job)
    write_tree(root, **AFTER)
    site.hook("epilog", node, root, job, config=offline(site, node))
    assert ["delta"] == site.kept(node)
    assert NOTHING == said(site.hook("deliver", node))
    assert [] == site.kept(node)
    assert THE_WORK == application(site.record(job))
    assert NOTHING == said(site.hook("deliver", node))


def a_delta(site, node, job=None, **fields):
    """A report of a new job that waits on `node`; (job, path)."""
    job = job or site.new_job()
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, job)
    write_tree(root, **AFTER)
    site.hook("epilog", node, root, job, config=offline(site, node))
    [path] = [path for path in (site.hooks / node).glob("*.delta") if path.name.startswith(job)]
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return job, path


def test_a_refused_report_is_put_aside_and_the_others_arrive(site, node):
    """One of another release, of another form, cut off, and too large; none is tried again."""
    (site.hooks / node).mkdir(0o700, parents=True)
    wrong = [a_delta(site, node, protocol=99), a_delta(site, node, elapsed_s="long"),
             a_delta(site, node), a_delta(site, node), a_delta(site, node, pad="x" * (16 << 20))]
    cut, no_object = wrong[2][1], wrong[3][1]
    cut.write_bytes(cut.read_bytes()[:100])
    no_object.write_text("[]")
    for age, (_, path) in enumerate(wrong):
        os.utime(path, (1_000_000_000 + age,) * 2)
    good, _ = a_delta(site, node)
    done = site.hook("deliver", node)
    assert 1 == done.status
    assert ["expected protocol 1, got 99", "elapsed_s", "cannot be sent", "cannot be sent",
            "larger than a message may be"] == [
        next(word for word in ("expected protocol 1, got 99", "elapsed_s",
                               "larger than a message may be", "cannot be sent") if word in line)
        for line in done.lines], done
    assert all("put aside" in line for line in done.lines)
    assert ["refused"] * 5 == site.kept(node)
    assert THE_WORK == application(site.record(good))
    assert [] == [one for job, _ in wrong for one in site.records(job)]
    assert NOTHING == said(site.hook("deliver", node))


@pytest.mark.parametrize("options, status", [((), 3), (("--never-fail",), 0)])
def test_deliver_that_delivers_nothing_though_it_should_says_so_by_its_status(
        site, job, node, options, status):
    """3 while reports wait, 0 when none does; an epilog ends with 0 in any case."""
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, job)
    write_tree(root, **AFTER)
    assert 0 == site.hook("epilog", node, root, job, config=offline(site, node)).status
    done = site.hook("deliver", node, config=offline(site, node), options=options)
    assert status == done.status and "1 report waits in " in done.line
    assert ["delta"] == site.kept(node)
    assert 0 == site.hook("deliver", node).status and [] == site.kept(node)
    assert 0 == site.hook("deliver", node, config=offline(site, node)).status


def test_deliver_to_a_server_with_another_secret_is_no_waiting(site, node):
    """Its timer's service fails: the next try will not be better."""
    a_delta(site, node)
    secret, config = site.directory / "other.secret", site.directory / "other.cfg"
    secret.write_text("37" * 32)
    secret.chmod(0o600)
    config.write_text(site.text({**site.choices, "site.secret": secret,
                                 "node.hook_dir": site.hooks / node}))
    done = site.hook("deliver", node, config=config)
    assert (1, ["delta"]) == (done.status, site.kept(node))
    assert "1 report waits in " in done.line


def test_a_refusal_is_not_hidden_by_reports_that_wait(site, node):
    """One is put aside, and then the server is away."""
    (site.hooks / node).mkdir(0o700, parents=True)
    a_delta(site, node)
    _, wrong = a_delta(site, node)
    wrong.write_text("[]")
    os.utime(wrong, (1_000_000_000,) * 2)
    done = site.hook("deliver", node, config=offline(site, node))
    assert (1, ["delta", "refused"]) == (done.status, site.kept(node))


def test_deliver_with_a_bad_site_cfg_ends_with_2(site, node):
    config = site.directory / "bad.cfg"
    config.write_text("[node]\nhook_timeout = soon\n")
    done = site.hook("deliver", node, config=config)
    assert 2 == done.status and f"{config}:2: [node] hook_timeout: expected" in done.line


def test_a_report_that_the_server_fails_at_does_not_hold_up_the_others(desk):
    """It stays, and those behind it are sent; a server that has a bug says so (-32603)."""
    config = desk.config
    directory = desk.hooks / "nid00001"
    directory.mkdir(0o700, parents=True)
    for name in ("a", "b", "c"):
        (directory / f"{name}.delta").write_text(json.dumps(
            {"job": "4711", "node": "nid00001", "name": name}))
    config.node.hook_dir = str(directory)
    sent = []

    class Site:
        def __init__(self, *args):
            pass

        def send(self, report, within_s):
            sent.append(report["name"])
            if report["name"] == "a":
                from iostats.wire.client import Refused
                raise Refused("a bug", -32603)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "SiteConnection", Site)
        said_here = []
        assert 1 == delivery.deliver(config, "/", "nid00001", time.monotonic() + 60,
                                          said_here.append)
    assert ["a", "b", "c"] == sorted(sent)
    assert ["a.delta"] == os.listdir(directory)
    assert 1 == len(said_here)


def test_a_report_that_cannot_be_removed_does_not_hold_up_the_others(desk, monkeypatch):
    """A disk that fails, or that was made read-only: what is behind it is sent, and it is said."""
    config, directory, sent, lines = desk.config, desk.hooks / "nid00001", [], []
    directory.mkdir(0o700, parents=True)
    for age, name in enumerate("abc"):
        path = directory / f"{name}.delta"
        path.write_text(json.dumps({"job": "4711", "node": "nid00001", "name": name})
                        if name != "b" else "{")
        os.utime(path, (1_000_000_000 + age,) * 2)
    config.node.hook_dir = str(directory)

    class Site:
        def __init__(self, *args):
            pass

        def send(self, report, within_s):
            sent.append(report["name"])

    def fail(path, *_):
        raise OSError(30, "Read-only file system", path)
    monkeypatch.setattr(delivery, "SiteConnection", Site)
    monkeypatch.setattr(os, "unlink", fail)
    monkeypatch.setattr(os, "replace", fail)
    assert 0 < delivery.deliver(config, "/", "nid00001", time.monotonic() + 60, lines.append)
    assert ["a", "c"] == sent
    assert ["was sent, and cannot be removed", "cannot be put aside",
            "was sent, and cannot be removed"] == [
        line.split(": ")[1] for line in lines if line.endswith(": Read-only file system")]


def test_no_more_reports_wait_than_the_limit(desk, monkeypatch):
    """The oldest are removed, and it is said."""
    monkeypatch.setattr(delivery, "MOST_WAITING", 3)
    directory = desk.hooks
    directory.mkdir(0o700)
    for number in range(5):
        path = directory / f"{number}.delta"
        path.write_text(json.dumps({"node": "nid00001"}))
        os.utime(path, (1_000_000_000 + number,) * 2)
    lines = []
    left = delivery.deliver(desk.config, "/", "nid00001", time.monotonic() + 60, lines.append)
    assert 3 == left and ["2.delta", "3.delta", "4.delta"] == sorted(os.listdir(directory))
    assert ["more than 3 reports wait here"] * 2 == [line.rpartition(": ")[2]
                                                     for line in lines[:2]]
    assert 3 == len(lines)                                 # and that there is no server's secret


def test_what_nobody_comes_for_is_removed_in_time(desk):
    """Pieces of files that are no start's, after 90 days; a report never."""
    desk.hooks.mkdir(0o700)
    now = 1_795_225_060
    for name, days in (("1.delta", 91), ("2.delta.refused", 91), ("3.job", 91),
                       ("4.start.x.new", 91), ("5.delta.refused", 89)):
        (desk.hooks / name).write_text("x")
        os.utime(desk.hooks / name, (now - days * 86400,) * 2)
    config = desk.config
    config.site.host = ""
    delivery.deliver(config, "/", "nid00001", time.monotonic() + 60, lambda line: None,
                          now=lambda: now)
    assert ["1.delta", "2.delta.refused", "5.delta.refused"] == sorted(os.listdir(desk.hooks))


def test_an_epilog_91_days_ahead_removes_no_start_of_a_running_job(site, job, node):
    """Its clock was wrong for a moment; the other job's numbers are as they should be."""
    root = site.tree(node, **BEFORE)
    assert NOTHING == said(site.hook("prolog", node, root, job))
    left = sorted((site.hooks / node).iterdir())
    assert [".job", ".start"] == [path.suffix for path in left]
    config = site_config.load(str(site.directory / f"{node}.cfg"), environ={})
    for days in (91, 730):
        delivery.deliver(config, str(root), node, time.monotonic() + 60, lambda line: None,
                              now=lambda days=days: time.time() + days * 86400)
    assert left == sorted((site.hooks / node).iterdir())
    write_tree(root, **AFTER)
    assert NOTHING == said(site.hook("epilog", node, root, job))
    assert THE_WORK == application(site.record(job))


def test_a_report_that_was_refused_is_tried_again_after_a_day(site, node):
    """What it was refused for may be put right: another release, a wrong clock."""
    (site.hooks / node).mkdir(0o700, parents=True)
    job, path = a_delta(site, node, protocol=99)
    assert "put aside, and tried again once a day" in site.hook("deliver", node).line
    refused = path.with_name(path.name + ".refused")
    before = json.loads(refused.read_text())
    for age in (86_399, 86_401):
        refused.write_text(json.dumps(before))
        os.utime(refused, (time.time() - age,) * 2)
        assert NOTHING == said(site.hook("deliver", node))     # a second time is not said
        assert ["refused"] == site.kept(node)
    assert time.time() - refused.stat().st_mtime < 86_000      # it waits for one more day
    refused.write_text(json.dumps({**before, "protocol": 1}))
    os.utime(refused, (time.time() - 86_401,) * 2)
    assert NOTHING == said(site.hook("deliver", node))
    assert [] == site.kept(node)
    assert THE_WORK == application(site.record(job))


def test_of_too_many_refused_reports_the_oldest_go(desk, monkeypatch):
    monkeypatch.setattr(delivery, "MOST_REFUSED", 3)
    desk.hooks.mkdir(0o700)
    for number in range(5):
        path = desk.hooks / f"{number}.delta.refused"
        path.write_text("{}")
        os.utime(path, (1_000_000_000 + number,) * 2)
    delivery.deliver(desk.config, "/", "nid00001", time.monotonic() + 60, lambda line: None)
    assert [f"{number}.delta.refused" for number in (2, 3, 4)] == sorted(os.listdir(desk.hooks))


def test_an_epilog_that_has_no_time_to_deliver_says_so(site, job, node, monkeypatch):
    """The server runs; what it does not get now, it gets from the next epilog."""
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, job)
    write_tree(root, **AFTER)
    config, lines = site_config.load(str(site.directory / f"{node}.cfg"), environ={}), []
    prolog_epilog.run_epilog(config, str(root), node, job, {}, lines.append)
    assert [] == lines
    until_ = time.monotonic() + 0.1
    monkeypatch.setattr(delivery, "SiteConnection",
                        lambda *_: until(lambda: time.monotonic() > until_))
    assert 1 == delivery.deliver(config, str(root), node, until_, lines.append)
    assert [f"no time is left to send reports; 1 wait in {site.hooks / node} ([node] hook_timeout)"
            ] == lines
    assert NOTHING == said(site.hook("deliver", node))
    assert THE_WORK == application(site.record(job))


def test_why_a_start_could_not_be_kept_is_in_the_report(site, job, node):
    """What its prolog met; the disk is well again when its epilog comes."""
    (site.hooks / node).mkdir(0o700, parents=True)
    (site.hooks / node / f"{job}%20{node}.job").write_text(
        "why=/var/lib/iostats/node: cannot be written: Read-only file system\n")
    site.hook("epilog", node, site.tree(node, **AFTER), job, env={"SLURM_JOB_NODELIST": node})
    assert {node: "no start: /var/lib/iostats/node: cannot be written: Read-only file system"} == (
        site.record(job)["coverage"]["missing"])


@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_a_prolog_on_a_full_disk_is_named_also_when_there_is_room_again(site, job, node):
    """
    The job is not measured, and its report says why; the next job on the node is.  While the disk
    is full an epilog sends its report at once, and with room again nothing waits.
    """
    disk = TinyDisk(str(site.directory / f"{node}-disk"))
    try:
        path = site.directory / f"{node}-full.cfg"
        path.write_text(site.text({**site.choices, "node.hook_dir": f"{disk.path}/hooks"}))
        root, env = site.tree(node, **BEFORE), {"SLURM_JOB_NODELIST": node}
        other, third = site.new_job(), site.new_job()
        assert NOTHING == said(site.hook("prolog", node, root, other, env=env, config=path))
        disk.fill()
        done = site.hook("prolog", node, root, job, env=env, config=path)
        assert 0 == done.status and "No space left on device" in done.err
        write_tree(root, **AFTER)
        done = site.hook("epilog", node, root, other, env=env, config=path)
        assert 0 == done.status
        assert THE_WORK == application(site.record(other))
        disk.calm()
        site.hook("epilog", node, root, job, env=env, config=path)
        assert {node: "no start: its prolog could not write its files: was the disk full?"} == (
            site.record(job)["coverage"]["missing"])
        write_tree(root, **BEFORE)
        assert NOTHING == said(site.hook("prolog", node, root, third, env=env, config=path))
        write_tree(root, **AFTER)
        assert NOTHING == said(site.hook("epilog", node, root, third, env=env, config=path))
        assert THE_WORK == application(site.record(third))
        assert [] == [name for name in os.listdir(f"{disk.path}/hooks") if "delta" in name]
    finally:
        disk.close()


# -- a munged that does not answer -------------------------------------------------------------

@pytest.fixture
def stopped_munged(tmp_path):
    """The socket of a munged that takes connections and says nothing, as after SIGSTOP."""
    path = str(tmp_path / "munged")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path)
        one.listen(64)
        yield path


@pytest.mark.parametrize("auth", ["secret munge", "munge secret"])
@pytest.mark.parametrize("is_there", [True, False], ids=["stopped", "dead"])
def test_an_epilog_delivers_by_the_secret_where_munged_does_not_answer(
        site, job, node, stopped_munged, auth, is_there):
    """Each way has its own short time; the one that worked is the first for the next job."""
    path = site.directory / f"{node}-munge.cfg"
    path.write_text(site.text({
        **site.choices, "node.hook_dir": site.hooks / node, "node.hook_timeout": 8,
        "server.auth": auth,
        "server.munge_socket": stopped_munged if is_there else f"{stopped_munged}.none"}))
    root = site.tree(node, **BEFORE)
    assert NOTHING == said(site.hook("prolog", node, root, job, config=path))
    write_tree(root, **AFTER)
    done = site.hook("epilog", node, root, job, config=path)
    assert 0 == done.status
    assert THE_WORK == application(site.record(job))
    assert (auth == "munge secret") == (site.hooks / node / "auth").exists()
    other = site.new_job()
    root = site.tree(node, **BEFORE)
    site.hook("prolog", node, root, other, config=path)
    write_tree(root, **AFTER)
    assert NOTHING == said(site.hook("epilog", node, root, other, config=path))
    assert THE_WORK == application(site.record(other))


# -- an epilog whose time was up ---------------------------------------------------------------

# The client, with a kernel that does not answer for llite.
HANGS = """
import sys, time
sys.path.insert(0, {!r})
from iostats.base import private_files as files
opened = files.open_regular
files.open_regular = lambda path: time.sleep(600) if "/llite/" in path else opened(path)
from iostats.cli.node import main
sys.exit(main())
"""


def test_an_epilog_that_was_cut_off_leaves_no_job_behind(site, job, node):
    """A counter file hangs: it ends in time; later jobs are alone, and the node is named."""
    env = {"SLURM_JOB_NODELIST": node}
    root = site.tree(node, **BEFORE)
    assert NOTHING == said(site.hook("prolog", node, root, job, env=env))
    hangs = site.directory / f"{node}-hangs.py"
    hangs.write_text(HANGS.format(str(REPOSITORY)))
    path = site.directory / f"{node}-hasty.cfg"
    path.write_text(site.text({**site.choices, "node.hook_dir": site.hooks / node,
                               "node.hook_timeout": 4}))
    done = site.hook("epilog", node, root, job, env=env, config=path,
                     command=[sys.executable, "-I", "-S", hangs])
    assert (0, "iostats: epilog: not done within 4 s ([node] hook_timeout)") == (
        done.status, done.line)
    other = site.new_job()
    site.work(other, node)
    record = site.record(other)
    assert THE_WORK == application(record) and {} == record["coverage"]["shared"]
    assert ["job", "start"] == site.kept(node)             # it might still be at work
    for left in (site.hooks / node).glob("*.job"):
        os.utime(left, (time.time() - 61,) * 2)            # a clock that was set proves nothing
    assert NOTHING == said(site.hook("deliver", node))
    assert ["job", "start"] == site.kept(node)
    for left in (site.hooks / node).glob("*.job"):
        text, over, _ = left.read_text().partition("over=")
        left.write_text(f"{text}{over}{10**9}\n")          # of an earlier boot: it has not ended
    assert NOTHING == said(site.hook("deliver", node))
    assert {node: "the epilog was ended before it was done"} == (
        site.record(job)["coverage"]["missing"])
    assert [] == site.kept(node)


# -- status 0, whatever happens ----------------------------------------------------------------

def both(desk, job="4711", **how):
    """[Done] of a prolog and an epilog, which end with 0 and without a traceback."""
    root = desk.tree(**BEFORE)
    done = []
    for role in ("prolog", "epilog"):
        done.append(desk.hook(role, "nid00001", root, job, **how))
        assert 0 == done[-1].status, done[-1]
        assert "Traceback" not in done[-1].err and "" == done[-1].out, done[-1]
        write_tree(root, **AFTER)
    return done


def test_without_the_configuration_it_ends_with_0(desk):
    for done in both(desk, config=desk.directory / "nowhere.cfg"):
        assert "nowhere.cfg: cannot be read: No such file" in done.line


def test_with_a_broken_configuration_it_ends_with_0(desk):
    broken = desk.directory / "broken.cfg"
    broken.write_text("[node]\nhook_timeout = soon\n")
    for done in both(desk, config=broken):
        assert f"{broken}:2: [node] hook_timeout: expected seconds" in done.line


def test_with_an_option_that_is_none_it_ends_with_0(desk):
    for done in both(desk, options=("--bogus",)):
        assert "no option '--bogus'" in done.line
    for done in both(desk, options=("--attempt", "first")):
        assert "--attempt: expected a number" in done.line
    for done in both(desk, options=("--job",)):
        assert "--job: expected a value" in done.line


def test_with_a_root_that_is_none_it_ends_with_0(desk):
    done = desk.hook("prolog", root="/nowhere", job="4711")
    assert 0 == done.status and "--root: expected a directory" in done.line


def test_without_a_job_it_ends_with_0(desk):
    for done in both(desk, job=None):
        assert "no job id" in done.line


@pytest.mark.parametrize("bad", ["a file", "a directory of others"])
def test_with_a_directory_that_can_not_be_used_it_ends_with_0(desk, bad):
    directory = desk.directory / "kept"
    if bad == "a file":
        directory.write_text("")
        directory = directory / "below"
    else:
        directory.mkdir()
        directory.chmod(0o777)
    for done in both(desk, hook_dir=directory):
        assert str(directory) in done.line and "Errno" not in done.line


def test_without_a_server_it_ends_with_0_and_the_report_waits(desk):
    """No secret, none that listens, none that is named."""
    assert "site.secret: no secret" in both(desk)[1].line
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    assert "Connection refused; 2 reports wait in" in both(desk, "4713")[1].line
    desk.configure(site_host="")
    assert "no site server is named ([site] host in site.cfg); 3 reports wait" in (
        both(desk, "4717")[1].line)
    assert ["delta"] * 3 == desk.kept()


def in_time(desk, **how):
    """
    The Done of an epilog of 3 s that ends in time, with its report kept; each job has a directory
    of its own.  A machine that is busy with something else may have another try.
    """
    def kept():
        began, directory = time.monotonic(), desk.directory / desk.new_job()
        done = both(desk, hook_dir=directory, **how)[1]
        return time.monotonic() - began < 8 and ["delta"] == [
            name.rpartition(".")[2] for name in kept_in(directory)] and done
    return until(kept, 100, "an end in time")


@pytest.mark.parametrize("answer", [None, http_answer(b"hello"), b"x" * 100_000])
def test_with_a_server_that_is_none_it_ends_in_time(desk, answer):
    """One that never says a word, and one that says something else."""
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    with Listener(0, answer) as other:
        desk.configure(site_port=other.port, node_hook_timeout=3)
        done = in_time(desk)
    assert "1 report waits in" in done.line


@pytest.mark.parametrize("", [pytest.param(marks=as_root)])
def test_with_a_resolver_that_hangs_it_ends_in_time(desk):
    """Of all that a signal does not end the most common one; in a network of its own."""
    for name in ("unshare", "ip", "mount"):
        if not shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            pytest.skip(f"needs {name}")
    desk.site_secret.write_text("s" * 64)
    desk.site_secret.chmod(0o600)
    desk.configure(site_host="iostats.example.org", node_hook_timeout=3)
    (desk.directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    command = script(desk.directory / "in-a-network", f"""#!/bin/sh
ip link set lo up || exit 77
mount --bind '{desk.directory}/resolv.conf' /etc/resolv.conf || exit 77
exec '{sys.executable}' -c '
import socket, subprocess, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
sys.exit(subprocess.run(sys.argv[1:], timeout=60).returncode)' "$@"
""")
    done = in_time(desk, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, command=[
        *private_mounts("--net"), command, sys.executable, "-I", "-S", CLIENT])
    assert "iostats.example.org" in done.line


@pytest.fixture
def tiny(desk):
    """A directory on a disk of 1 MiB."""
    directory = desk.directory / "tiny"
    directory.mkdir(0o700)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "iostats", directory],
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no tmpfs can be mounted")
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)


def fill_disk_of(directory):
    """Leave no byte on its disk."""
    with open(directory / "full", "wb", buffering=0) as file:
        fill(file)


@pytest.mark.parametrize("when", [pytest.param(when, marks=as_root)
                                  for when in ("from the start", "at the end")])
def test_with_a_full_disk_the_server_knows_what_can_be_known(desk, tiny, when):
    """Full at the end, the report goes out from memory; full at the start, the node is named."""
    desk.site()
    root = desk.tree("nid00001", **BEFORE)
    env = {"SLURM_JOB_NODELIST": "nid00001"}
    hooks_dir = tiny / "kept"
    hooks_dir.mkdir(0o700)
    if when == "from the start":
        fill_disk_of(tiny)
    done = desk.hook("prolog", "nid00001", root, "4711", env=env, hook_dir=hooks_dir)
    assert 0 == done.status
    assert (when == "from the start") == ("No space left on device" in done.err), done
    if when == "at the end":
        fill_disk_of(tiny)
    write_tree(root, **AFTER)
    done = desk.hook("epilog", "nid00001", root, "4711", env=env, hook_dir=hooks_dir)
    assert 0 == done.status and "No space left on device" in done.err, done
    record = desk.record("4711")
    if when == "at the end":
        assert THE_WORK == application(record) and 1 == record["coverage"]["reported"]
        assert [] == kept_in(hooks_dir)
    else:
        assert {"nid00001": f"no start: {hooks_dir}: No space left on device"} == (
            record["coverage"]["missing"])


# -- an environment that means no good ---------------------------------------------------------

def test_nothing_of_the_environment_is_trusted(site, job, node):
    """No module, no configuration, no directory and no server comes from there."""
    evil = site.directory / f"evil-{job}"
    (evil / ".iostats").mkdir(parents=True)
    mark = evil / "was-here"
    for name in ("json", "os", "site", "sitecustomize", "usercustomize", "iostats", "socket"):
        (evil / f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (evil / ".iostats" / "site.cfg").write_text(f"[node]\nhook_dir = {evil}/stolen\n"
                                                "[site]\nhost = 192.0.2.1\n")
    env = {"PYTHONPATH": str(evil), "PYTHONHOME": str(evil), "PYTHONSTARTUP": str(evil / "os.py"),
           "PYTHONINSPECT": "1", "HOME": str(evil), "IOSTATS_NODE_HOOK_DIR": str(evil / "stolen"),
           "IOSTATS_SITE_HOST": "192.0.2.1", "IOSTATS_SITE_PORT": "1", "IOSTATS_SECRET": "s" * 64,
           "IOSTATS_NODE_HOOK_TIMEOUT": "never", "IOSTATS_NONSENSE": "1", "TMPDIR": str(evil)}
    root = site.tree(node, **BEFORE)
    assert NOTHING == said(site.hook("prolog", node, root, job, env=env, cwd=evil))
    write_tree(root, **AFTER)
    assert NOTHING == said(site.hook("epilog", node, root, job, env=env, cwd=evil))
    assert THE_WORK == application(site.record(job))
    assert not mark.exists() and not (evil / "stolen").exists()


def test_what_a_batch_system_tells_is_cut_to_what_a_report_may_have(site, job, node):
    """A long account, a number that is none and a line feed cost the job no number."""
    root = site.tree(node, **BEFORE)
    env = {"SLURM_JOB_ACCOUNT": "a" * 4000, "SLURM_JOB_USER": "ali\nce",
           "SLURM_JOB_UID": "99999999999", "SLURM_JOB_PARTITION": "\x1b[31m",
           "SLURM_JOB_STDOUT": "/" + "o" * 4095, "SLURM_JOB_WORK_DIR": "/" + "w" * 5000,
           "SLURM_CLUSTER_NAME": "é" * 37}
    assert NOTHING == said(site.hook("prolog", node, root, job, env=env))
    write_tree(root, **AFTER)
    assert NOTHING == said(site.hook("epilog", node, root, job, env=env,
                                     options=("--uid", "4294967296")))
    record = site.record(job)
    assert THE_WORK == application(record)
    assert ("", "", "é" * 37) == tuple(record["batch"][name]
                                       for name in ("account", "partition", "cluster"))
    assert record["job"]["user"] is None


@pytest.mark.parametrize("name", ["../../etc/passwd", "a b%20c", "4711[3].pbs01", "12+1", "-rf",
                                  "x" * 128, "é/ü", "'; DROP TABLE jobs; --"])
def test_any_text_can_be_a_job(site, node, name):
    """It stays in its directory, and its record is found by the same text."""
    root = site.tree(node, **BEFORE)
    options = (f"--job={name}", "--nodes", node)
    assert NOTHING == said(site.hook("prolog", node, root, options=options))
    assert ["job", "start"] == site.kept(node)
    write_tree(root, **AFTER)
    assert NOTHING == said(site.hook("epilog", node, root, options=options))
    record = site.record(name)
    assert name == record["job"]["id"] and THE_WORK == application(record)
    assert [] == site.kept(node)


# -- the scripts for the batch systems -----------------------------------------------------------

@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of the project as a site installs it, hooks beside the client."""
    home = tmp_path_factory.mktemp("opt") / "io stats"
    home.mkdir()
    for name in ("iostats", "hooks"):
        shutil.copytree(REPOSITORY / name, home / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "iostats_client.py", home)
    return home


def run(command, env, **how):
    """Run a script with this environment and nothing else; the CompletedProcess."""
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=100, **how)


@pytest.mark.parametrize("shell", ["", "bash"])
def test_slurms_scripts_measure_a_job_whatever_is_in_the_environment(site, job, node, installed,
                                                                    tmp_path, shell):
    """Through a link, with other programs in PATH and shell variables that mean no good."""
    if shell:                                              # which is sh on many systems
        shell = [shutil.which("bash") or pytest.skip("needs bash"), "--posix"]
    (installed / "site.cfg").write_text(site.text(
        {**site.choices, "node.hook_dir": site.hooks / node}))
    mark = tmp_path / "was-here"
    for name in ("python3", "readlink", "dirname", "env"):
        script(tmp_path / name, f"#!/bin/sh\ntouch '{mark}'\n")
    (tmp_path / "json.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (tmp_path / "rc").write_text(f"touch '{mark}'\n")
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path), "ENV": str(tmp_path / "rc"),
           "BASH_ENV": str(tmp_path / "rc"), "IFS": "/", "PYTHON": str(tmp_path / "python3"),
           "IOSTATS_HOME": str(tmp_path), "CDPATH": "/", "PS4": f"$(touch '{mark}')",
           "BASH_FUNC_readlink%%": f"() {{ touch '{mark}'; }}",
           "BASH_FUNC_dirname%%": f"() {{ touch '{mark}'; }}",
           "SLURM_JOB_ID": job, "SLURMD_NODENAME": node, "SLURM_JOB_NODELIST": node}
    for role in ("prolog", "epilog"):
        link = tmp_path / f"99-iostats-{role}"
        link.symlink_to(installed / "hooks" / f"slurm_{role}")
        done = run([*shell, link], env, cwd=tmp_path)
        assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert 1 == site.record(job)["coverage"]["reported"]
    assert not mark.exists()


@pytest.mark.parametrize("name", sorted(path.name for path in (REPOSITORY / "hooks").iterdir()
                                        if path.name.endswith(("log", "exec"))))
def test_a_script_ends_with_0_without_the_client(tmp_path, name):
    """Its directory is there alone, as when the installation is being replaced."""
    (tmp_path / "hooks").mkdir()
    shutil.copy(REPOSITORY / "hooks" / name, tmp_path / "hooks")
    done = run([tmp_path / "hooks" / name], {"SLURM_JOB_ID": "4711", "LSB_JOBID": "4711",
                                           "FLUX_JOB_ID": "4711", "IOSTATS_HOME": str(tmp_path)})
    assert (0, "") == (done.returncode, done.stdout)


def test_the_files_of_a_node_are_safe_names():
    """What a hook looks for is what start_files.py writes."""
    kept = start_files.StartFiles("/kept", "12+1#2", "nid00001")
    assert "/kept/12+1%232%20nid00001.start" == kept.start_path
