"""
All jobs of a real Slurm, by its prolog and epilog, to the site's server.

Node k's part of a job's work is 23 + k blocks of 64 KiB written, in the file system that a
simulated Lustre on each node counts; a task of an array or a short job writes 41.
"""

import re
import subprocess
import time
from pathlib import Path

import pytest
from cluster import ALICE, BOB
from cluster_site import CLIENT, ClusterSite, written
from processes import until

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.fuse, pytest.mark.timeout(600)]

class Site(ClusterSite):
    """The same, and the work of Slurm's jobs."""

    def __init__(self, slurm, **how):
        super().__init__(slurm, **how)
        self.slurm = slurm

    def work(self, blocks="$((23 + SLURM_NODEID))", more=""):
        """A shell command: one part of the work."""
        return (f"dd if=/dev/zero of={self.lustre.data}/w$SLURM_JOB_ID.$SLURM_NODEID bs=64k "
                f"count={blocks} status=none{more}")

    def srun(self, **how):
        return f"srun --ntasks-per-node=1 /bin/sh -c '{self.work(**how)}'"


@pytest.fixture
def site(slurm):
    found = Site(slurm)
    yield found
    found.close()


def waits(site, marker="done"):
    """The work, then a file for each node that has done it, then waiting."""
    return site.srun(more=f"; : >{site.lustre.data}/{marker}.$SLURM_NODEID; sleep 600")


def when_done(site, nodes=4, marker="done"):
    until(lambda: len(list(site.lustre.place.parent.glob(f"data/scratch/{marker}.*"))) == nodes,
          150, f"the work of {nodes} nodes")


def test_a_job_is_measured_without_any_action_of_its_user(site):
    """Its record, its facts, and its report in all three places where it can be shown."""
    home = site.slurm.directory / "home" / ALICE / ".iostats"
    site.slurm.as_user(ALICE, "mkdir", "-p", home)
    job = site.slurm.submit(site.srun(), "--nodes=4", "--job-name=climate")
    assert "COMPLETED" == site.slurm.wait(job)

    record = site.record(job)
    assert (98, 98, 4, True) == written(record)
    assert (job, ALICE, 0) == (record["job"]["id"], record["job"]["user"],
                               record["job"]["attempt"])
    assert {"system": "slurm", "name": "climate", "nodes": "node[1-4]", "outcome": "COMPLETED",
            "exit_status": 0, "raw_job": job} == {
        name: record["batch"][name] for name in ("system", "name", "nodes", "outcome",
                                                 "exit_status", "raw_job")}
    head = "4 nodes, 00:"
    text = until(lambda: head in site.slurm.output(job) and site.slurm.output(job),
                 what="the report in the job's output")
    assert 1 == text.count(head)
    at_home = home / f"{job}.txt"
    until(at_home.exists, what="the report at home")
    assert head in at_home.read_text()
    assert (0o600, ALICE) == (at_home.stat().st_mode & 0o777, site.slurm.ctl(
        "stat", "-c", "%U", at_home).stdout.strip())
    comment = until(lambda: site.slurm.ctl("sacct", "-n", "-P", "-X", "-j", job, "-o",
                                           "AdminComment").stdout.strip(), what="the comment")
    assert comment.startswith("io1:") and len(comment) <= 1500
    short = site.report("--from", "comment", job).stdout
    assert head in short
    assert re.search(r"^\| scratch +\| 0 bytes +\| 6\.1 MiB +\|$", short, re.M), short
    assert "" == site.errors()
    # Slurm's comments are everybody's; we show it to its user alone, and said so at the start.
    done = site.iostats("report", "--from", "comment", job, user=BOB, check=False)
    assert (1, "", f"iostats: job {job} belongs to {ALICE}; only {ALICE}, root and [site] readers "
                   f"may see its report\n") == (
        done.returncode, done.stdout, done.stderr)
    assert "every user can read by sacct what every job did: there is no PrivateData=jobs" in (
        site.log.read_text())
    site.slurm.as_user(ALICE, "rm", "-r", home)


def test_an_array_has_a_record_for_each_task(site):
    """20 tasks, several on a node at a time; each by its own name, and all by the array's."""
    job = site.slurm.submit(site.work("41"), "--array=0-19", "--nodes=1", "--ntasks=1",
                            "--exclusive")
    assert "COMPLETED" == site.slurm.wait(job)

    records = site.records(job, 20)
    assert {f"{job}_{task}" for task in range(20)} == {one["job"]["id"] for one in records}
    assert [(41, 41, 1, True)] * 20 == [written(one) for one in records]
    assert {str(task) for task in range(20)} == {one["batch"]["array_task"] for one in records}
    assert 41 == written(site.record(f"{job}_7"))[0]
    assert ": 20 tasks (20 COMPLETED)\n" in site.report(job).stdout
    # Each has a comment of its own: the array's raw id is the last task's as well.
    seen = until(lambda: _comments(site, job, 20), 150, "20 comments")
    assert {f",j={job}_{task}," for task in range(20)} == {
        re.search(r",j=[^,]+,", one).group().replace("%5f", "_") for one in seen}
    short = site.report("--from", "comment", "--tasks", "--format", "plain", job).stdout
    assert 20 == short.count(" 1 node, 00:") == short.count("2.6 MiB")


def _comments(site, job, count):
    lines = site.slurm.ctl("sacct", "-n", "-P", "-X", "-j", job, "-o",
                           "AdminComment").stdout.split()
    return lines if len(lines) == count else None


def test_each_component_of_a_heterogeneous_job_has_a_record(site):
    """By the names that Slurm shows: 4711+0, 4711+1."""
    # By the node's own name, which is one in each component.
    work = site.work("$((23 + ${SLURMD_NODENAME#node}))").replace("$SLURM_NODEID",
                                                                  "$SLURMD_NODENAME")
    job = site.slurm.submit(
        f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2\n"
        f"srun --het-group=0,1 --ntasks-per-node=1 /bin/sh -c '{work}'\n")
    assert "COMPLETED" == site.slurm.wait(job)

    one, two = (site.record(f"{job}+{offset}") for offset in (0, 1))
    assert ((job, "0", 1), (job, "1", 2)) == tuple(
        (each["batch"]["het_job"], each["batch"]["het_offset"], each["coverage"]["reported"])
        for each in (one, two))
    assert {24 + 25 + 26} == {written(one)[0] + written(two)[0]}


def test_jobs_that_share_a_node_say_so(site):
    """Two at the same time are labelled, and one that comes after them is not."""
    first = site.slurm.submit(f"{site.work('23')}; sleep 600", "--nodes=1", "--ntasks=1",
                              "--nodelist=node2")
    site.slurm.wait_until("RUNNING", first)
    second = site.slurm.submit(site.work("37"), "--nodes=1", "--ntasks=1", "--nodelist=node2")
    assert "COMPLETED" == site.slurm.wait(second)
    site.slurm.ctl("scancel", first)
    site.slurm.wait(first)
    third = site.slurm.submit(site.work("41"), "--nodes=1", "--nodelist=node2")
    assert "COMPLETED" == site.slurm.wait(third)

    assert [{"node2": 1}, {"node2": 1}, {}] == [
        site.record(job)["coverage"]["shared"] for job in (first, second, third)]
    assert 41 == written(site.record(third))[0]
    assert "node2: 1 other job was on the node" in site.report(first).stdout


def test_a_job_that_a_dead_slurmd_has_left_behind_marks_no_later_one(site):
    """Its slurmd dies, the job ends without an epilog; with a real neighbour there is one."""
    node, slurm = "node3", site.slurm
    here = ("--nodes=1", "--ntasks=1", f"--nodelist={node}")
    dead = slurm.submit(waits(site), *here, "--no-requeue")
    when_done(site, 1)
    # A new slurmd runs the epilog of what was there before; mostly, and not always.
    epilog = (slurm.directory / "hooks" / "epilog").read_text().partition("\n")[2]
    slurm.hook("epilog", f"[ $SLURM_JOB_ID != {dead} ] || exit 0\n{epilog}")
    slurm.node(node, "sh", "-c", "kill -9 $(cat /run/slurmd.pid); pkill -9 slurmstepd; true")
    slurm.ctl("scontrol", "update", f"nodename={node}", "state=down", "reason=dead")
    assert "NODE_FAIL" == slurm.wait(dead)
    ended = time.time()
    slurm.node(node, "slurmd")
    slurm.idle(node)
    left = f"ls /run/iostats-node | grep -c '^{dead}%20.*start$'"
    assert "1" == slurm.node(node, "sh", "-c", left).stdout.strip()

    until(lambda: time.time() > ended + 2, what="another second: Slurm's times have no less")
    first = slurm.submit(site.work("41"), *here)
    assert "COMPLETED" == slurm.wait(first)
    assert (41, {}) == (written(site.record(first))[0], site.record(first)["coverage"]["shared"])
    assert "1" == slurm.node(node, "sh", "-c", left).stdout.strip()
    long = slurm.submit(f"{site.work('23')}; sleep 600", *here)
    slurm.wait_until("RUNNING", long)
    second = slurm.submit(site.work("37"), *here)
    assert "COMPLETED" == slurm.wait(second)
    slurm.ctl("scancel", long)
    slurm.wait(long)
    assert [{node: 1}, {node: 1}] == [site.record(job)["coverage"]["shared"]
                                      for job in (second, long)]
    assert "0" == slurm.node(node, "sh", "-c", left, check=False).stdout.strip()
    assert "no epilog has run" == site.record(dead)["coverage"]["missing"][node]
    assert "" == site.errors()


def test_a_cancelled_job_has_its_numbers_and_its_end(site):
    """The epilog sees nothing of it (its exit status is 0 there), accounting does."""
    job = site.slurm.submit(waits(site), "--nodes=4")
    when_done(site)
    site.slurm.ctl("scancel", job)
    assert "CANCELLED" == site.slurm.wait(job)

    record = site.record(job)
    assert (98, 98, 4, True) == written(record)
    assert "CANCELLED" == record["batch"]["outcome"]
    assert " CANCELLED" in " ".join(site.report(job).stdout.splitlines()[:2])


def test_a_job_at_its_time_limit(site):
    """TIMEOUT, with all that it did."""
    job = site.slurm.submit(waits(site), "--nodes=4", "--time=30")
    when_done(site)
    site.slurm.time_out(job)
    assert "TIMEOUT" == site.slurm.wait(job)

    record = site.record(job)
    assert ((98, 98, 4, True), "TIMEOUT") == (written(record), record["batch"]["outcome"])


def test_a_requeued_job_has_a_record_for_each_run(site):
    """They have one id; the restart count tells them apart."""
    job = site.slurm.submit(
        f"[ $SLURM_RESTART_COUNT ] && blocks=41 || blocks=37; {site.work('$blocks')}; "
        f"[ $SLURM_RESTART_COUNT ] || {{ : >{site.lustre.data}/done.0; sleep 600; }}",
        "--nodes=1", "--requeue")
    when_done(site, 1)
    site.slurm.ctl("scontrol", "requeue", job)
    site.slurm.run_again(job)
    assert "COMPLETED" == site.slurm.wait(job)

    runs = site.records(job, 2, ["--all"])
    assert [(0, 37, "REQUEUED"), (1, 41, "COMPLETED")] == [
        (one["job"]["attempt"], written(one)[0], one["batch"]["outcome"]) for one in runs]
    [last] = site.records(job)
    assert 1 == last["job"]["attempt"]


def test_a_node_that_dies_is_missing_by_name(slurm):
    """After the deadline, and every number is a lower bound; a node that comes back says why."""
    site = Site(slurm, deadline=4)
    try:
        job = slurm.submit(waits(site), "--nodes=4", "--no-requeue")
        when_done(site)
        slurm.kill_node("node4")
        assert "NODE_FAIL" == slurm.wait(job)
        record = until(lambda: next((one for one in site.records(job)       # or one is late
                                     if one["coverage"]["reported"] == 3), None), 150, "three")
        assert (72, 72, 3, False) == written(record)
        assert {"node4": "no report"} == record["coverage"]["missing"]
        assert record["file_systems"][0]["lower_bound"]
        assert "NODE_FAIL" == record["batch"]["outcome"]
    finally:
        site.close()


def test_a_job_without_a_report_yet_says_its_state(site):
    """Where it runs, and then for which node it waits, to its user and to root alike."""
    job = site.slurm.submit(waits(site), "--nodes=2", "--nodelist=node[3-4]", "--no-requeue")
    when_done(site, 2)
    clock = r"(\S+T)?\d\d:\d\d"
    said = site.report(job, check=False)
    assert (1, "") == (said.returncode, said.stdout)
    assert re.match(rf"iostats: job {job} is running since {clock} on node\[3-4\]: ", said.stderr)

    site.slurm.kill_node("node4")
    assert "NODE_FAIL" == site.slurm.wait(job)
    text = until(lambda: re.fullmatch(
        rf"iostats: job {job} has no report yet: it waits for node4 until {clock} \(1 of 2 nodes "
        r"have reported\)\n", site.report(job, check=False).stderr), what="the epilog of node3")[0]
    listed = site.iostats("jobs", "-n", "-j", job)
    assert ("", text) == (listed.stdout, listed.stderr)


def test_slurmctld_and_the_sites_server_may_restart(site):
    """In the middle of a job; the server by kill -9, and it is away when the epilogs come."""
    job = site.slurm.submit(waits(site), "--nodes=4")
    when_done(site)
    site.slurm.restart_ctld()
    site.kill()
    site.slurm.ctl("scancel", job)
    assert "CANCELLED" == site.slurm.wait(job)
    assert "4 of 4" not in site.slurm.output(job)
    site.begin()
    done = [site.slurm.node(node, *CLIENT.format(home=site.slurm.home).split(), "deliver")
            for node in site.slurm.nodes]
    assert [0] * 4 == [one.returncode for one in done]
    assert (98, 98, 4, True) == written(site.record(job))


def describe_failed(site, jobs):
    """What Slurm shows of the tasks that have failed, and what these printed."""
    failed = [task for task in site.slurm.show(jobs).split("\n\n") if "JobState=FAILED" in task]
    printed = [Path(name).read_text(errors="replace") for task in failed
               for name in re.findall(r"StdOut=(\S+)", task) if Path(name).exists()]
    return "\n".join([*failed, *printed])


def test_a_hundred_short_jobs_in_a_row(site):
    """None is lost, none is counted into another one."""
    jobs = site.slurm.submit(site.work("41"), "--array=0-99%3", "--nodes=1", "--ntasks=1",
                             "--exclusive")
    state = site.slurm.wait(jobs, 400)
    assert "COMPLETED" == state, describe_failed(site, jobs)
    records = site.records(jobs, 100)
    assert [(41, 41, 1, True)] * 100 == [written(one) for one in records]
    assert set() == {node for one in records for node in one["coverage"]["shared"]}
    for node in site.slurm.nodes:
        left = site.slurm.node(node, "ls", "/run/iostats-node", check=False).stdout
        # What the node does by itself is counted from the end of its last job.
        assert set() == set(left.split()) - {f"{node}.quiet", f"{node}.idle"}
    site.slurm.wait_until_idle()


def test_hooks_that_fail_drain_no_node(site):
    """A site.cfg with a mistake: the job runs, and is not measured."""
    site.site_cfg.write_text("[sight]\n")
    job = site.slurm.submit(site.srun(), "--nodes=4")
    assert "COMPLETED" == site.slurm.wait(job)
    assert 8 == site.errors().count("expected one of the sections") == len(
        site.errors().splitlines())
    site.slurm.wait_until_idle()


def test_the_mail_about_a_jobs_end_has_its_report(site):
    """Slurm's MailProg, with a program in place of mail(1) that keeps what it was given."""
    mails = site.directory / "mails"
    program = site.directory / "mail.sh"
    program.write_text(f"#!/bin/sh\n{{ echo \"$@\"; cat; }} >>{mails}\n")
    program.chmod(0o755)
    with site.site_cfg.open("a") as file:
        file.write(f"mail_program = {program}\n[server]\nauth = secret\n")
    # MailProg runs as Slurm's user: the server has to let it read, by the secret here.
    site.slurm.ctl("chown", "slurm", site.directory, site.directory / "site.secret")
    site.slurm.hook("mail", f"PYTHON={site.slurm.python} exec {site.slurm.home}/hooks/slurm_mail "
                    f"\"$@\" 2>>{site.directory}/mail.err")
    job = site.slurm.submit(site.srun(), "--nodes=4", "--mail-type=END", "--mail-user=alice")
    assert "COMPLETED" == site.slurm.wait(job)
    until(lambda: mails.exists() and "scratch" in mails.read_text(), 150, "the mail")
    text = mails.read_text()
    assert f"Job_id={job}" in text.splitlines()[0]
    assert " 4 nodes, 00:" in text


def test_with_munge_users_read_their_own_jobs_and_nobody_needs_a_secret(site):
    """And doctor says what is there."""
    site.kill()
    with site.site_cfg.open("a") as file:
        file.write("[server]\nauth = munge\n")
    (site.directory / "site.secret").unlink()
    site.begin()
    job = site.slurm.submit(site.srun(), "--nodes=4")
    assert "COMPLETED" == site.slurm.wait(job)
    assert (98, 98, 4, True) == written(site.record(job))

    def of(user):
        return site.slurm.as_user(
            user, "env", f"PYTHONPATH={site.slurm.home}", site.slurm.python, "-m", "iostats",
            "report", "--from", "site", job, check=False)
    assert of(ALICE).stdout.startswith(f"Job {job} (")
    assert (1, "", f"iostats: job {job} belongs to {ALICE}; only {ALICE}, root and [site] readers "
                   f"may see its report\n") == (
        of(BOB).returncode, of(BOB).stdout, of(BOB).stderr)
    said = site.slurm.node("node1", *CLIENT.format(home=site.slurm.home).split(), "doctor",
                           env={"SLURM_JOB_ID": job}, check=False).stdout
    assert "ok       site: ctl:19990 is the site's server\n" in said
    assert ("ok batch system: slurm; job facts come from squeue --json; of older ones "
            "from sacct ") in " ".join(said.split())


@pytest.mark.parametrize("where", ["hooks/slurm_prolog", "hooks/slurm_epilog"])
def test_the_scripts_for_slurm_conf_end_with_0(site, where):
    """As slurmd calls them: no PATH, no HOME; and without a job."""
    done = subprocess.run(site.slurm.command("node1", "env", "-i", site.slurm.home / where),
                          capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stdout)
    assert "no job id" in done.stderr
