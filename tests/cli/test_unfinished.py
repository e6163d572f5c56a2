"""
What `iostats report` and `iostats jobs` say of jobs that have no record: by the commands, with a
real site's server and a stand-in for squeue.  tests/jobs/test_slurm_site.py asks a real one.
"""
from __future__ import annotations

import re
import time

import pytest
from processes import until
from site_desk import SiteDesk, a_report, squeue

CLOCK = r"(\S+T)?\d\d:\d\d"            # the date as well, where midnight lies between


@pytest.fixture
def desk(tmp_path):
    with SiteDesk(tmp_path) as one:
        one.site()
        yield one


def slurm_has(desk, *jobs):
    """Let `squeue` know these jobs of alice: {job_id, job_state, ...}."""
    squeue(desk, *({"user_name": "alice", "nodes": "", **job} for job in jobs))


def both(desk, job):
    """What `report` and `jobs` say of a job, which is the same, and how they end."""
    reported, listed = desk.iostats("report", job), desk.iostats("jobs", "-j", job)
    assert (1, "", 0) == (reported.status, reported.out, listed.status)
    assert reported.line == listed.err.strip(), listed.err
    return reported.line


def test_a_job_that_is_running_says_since_when_and_where(desk):
    """Its number is not mistyped, so that is not suggested."""
    slurm_has(desk, {"job_id": 92, "job_state": ["RUNNING"], "start_time": int(time.time()) - 60,
                  "nodes": "nid[1-4]"})
    assert re.fullmatch(
        rf"iostats: job 92 is running since {CLOCK} on nid\[1-4\]: its report follows "
        r"after its end; `iostats query jobs --job 92` may have the storage servers' counts so "
        r"far",
        both(desk, "92"))


def test_a_job_that_is_queued(desk):
    slurm_has(desk, {"job_id": 92, "job_state": ["PENDING"]})
    assert "iostats: job 92 is queued: it has not started" == both(desk, "92")


def test_a_job_whose_node_is_dead_says_which_nodes_it_waits_for_and_until_when(desk):
    """The first of its nodes that reports begins the deadline."""
    desk.send(a_report("92", "nid1", about={"nodes": "nid[1-4]"}))
    desk.send(a_report("92", "nid2", seq="37", about={"nodes": "nid[1-4]"}))
    assert re.fullmatch(
        rf"iostats: job 92 has no report yet: it waits for nid\[3-4\] until {CLOCK} \(2 of 4 "
        r"nodes have reported\)", both(desk, "92"))
    [one] = desk.asked("waiting", jobs=["92"])
    assert ("92", 0, "alice", 2, 4, ["nid3", "nid4"], 2) == tuple(one[name] for name in (
        "job", "attempt", "user", "reported", "nodes", "missing", "missing_count"))
    assert 0 < one["until"] - time.time() <= 60                     # the desk's deadline
    # It is said below a table for people, too; not in output for programs.
    below = desk.iostats("jobs").err
    assert "iostats: not in the list: job 92 waits for nid[3-4] until " in below
    assert "" == desk.iostats("jobs", "-P").err == desk.iostats("jobs", "-u", "bob").err


def test_a_number_of_nodes_that_is_not_known(desk):
    desk.send(a_report("92", "nid1"))
    assert re.search(rf"it waits for other nodes until {CLOCK} \(1 of \? nodes have reported\)$",
                     both(desk, "92"))


def test_a_job_that_has_ended_and_no_node_has_reported(desk):
    """No prolog ran there, or no epilog: doctor says why."""
    slurm_has(desk, {"job_id": 92, "job_state": ["FAILED"], "end_time": int(time.time()) - 60})
    assert re.match(rf"iostats: job 92 has ended \(FAILED, at {CLOCK}\), and none of its nodes "
                    "has reported: ", both(desk, "92"))


def test_an_array_says_how_many_of_its_tasks_are_in_which_state(desk):
    tasks = {100 + task: state for task, state in enumerate(
        ["RUNNING"] * 2 + ["PENDING"] * 3 + ["COMPLETED"] * 5)}
    slurm_has(desk, *({"job_id": raw, "job_state": [state], "array_job_id": 92,
                    "array_task_id": raw - 100} for raw, state in tasks.items()))
    desk.send(a_report("105", "nid1", about={"nodes": "nid[1-2]"}))
    assert ("iostats: job 92 has no report yet: 2 running, 3 queued, 1 waiting for nodes, 4 "
            "ended without a report from any node") == both(desk, "92")


def test_an_unknown_job(desk):
    """With a batch system that answers, and without one."""
    assert "iostats: no record of job 92" == both(desk, "92")
    slurm_has(desk)
    assert "iostats: no record of job 92" == both(desk, "92")


def test_jobs_that_options_leave_out_are_not_explained(desk):
    """Only those that -j names alone."""
    assert "no record of job 92" in desk.iostats("jobs", "-j", "92").err
    for more in (("-s", "FAILED"), ("-u", "alice"), ("-S", "today"), ("-r", "main")):
        done = desk.iostats("jobs", "-j", "92", *more)
        assert (0, "") == (done.status, done.err)
    done = desk.iostats("jobs", "-j", ",".join(map(str, range(90, 99))))
    assert ["no record of job 90"] * 1 == [done.err.splitlines()[0][9:]]
    assert 6 == len(done.err.splitlines()) and done.err.endswith("iostats: ... and 4 more\n")


def test_a_job_with_a_row_is_not_explained(desk):
    """Nor a part of one, by the name of the whole."""
    slurm_has(desk, {"job_id": 101, "job_state": ["COMPLETED"], "array_job_id": 92,
                  "array_task_id": 3})
    desk.send(a_report("101", "nid1", about={"nodes": "nid1", "scheduler": "slurm"}))
    until(lambda: desk.records("92"), what="the record")
    for job in ("92", "92_3", "101"):
        done = desk.iostats("jobs", "-j", job)
        assert "92_3" in done.out and "" == done.err


def test_a_number_alone_is_a_report(desk):
    """`iostats 4711`, also with options behind it."""
    slurm_has(desk, {"job_id": 92, "job_state": ["PENDING"]})
    done = desk.bare("92", "--config", desk.cfg)
    assert (1, "iostats: job 92 is queued: it has not started") == (done.status, done.line)


@pytest.mark.parametrize("role", ["report", "jobs"])
def test_a_word_that_cannot_be_a_job_id_is_an_error(desk, role):
    """A word without a digit; Flux' ids may have none."""
    arguments = ["-j", "abc"] if role == "jobs" else ["abc"]
    done = desk.iostats(role, *arguments)
    where = "--jobs" if role == "jobs" else "JOB"
    assert (2, "", f"iostats: {where}: expected a job such as 4711, 100_3 or 4711.pbs01, got 'abc'"
            ) == (done.status, done.out, done.line)
    assert "no record of job" in desk.iostats(role, *arguments[:-1], "fuNzPXqa").err


@pytest.mark.parametrize("word, meant", [
    ("reprot", "`iostats report`"), ("job", "`iostats jobs`"), ("docter", "`doctor`"),
    ("stat", "`start`"), ("harvst", "`harvest`")])
def test_a_mistyped_command_is_guessed_from_all_commands(desk, word, meant):
    """Those of nodes and those of `iostats` alike, in both programs."""
    for done in (desk.bare(word), desk.client(word)):
        assert 2 == done.status and "" == done.out
        assert re.search(f"expected a command, got '{word}': did you mean {meant}( or .*)?\\?$",
                         done.line), done.line
    assert desk.client("report").line.endswith("got 'report': did you mean `iostats report`?")
    # `iostats` has more commands than a node: no list that lacks them.
    assert desk.bare("xyzzy").line.endswith("expected a command, got 'xyzzy' (see --help)")


def test_a_command_of_iostats_with_options_is_named_for_a_node_too(desk):
    """Not its options, which a node does not know."""
    for words in (["run", "--", "true"], ["report", "--long", "4711"]):
        done = desk.client(*words)
        assert 2 == done.status
        assert done.line.endswith(f"got '{words[0]}': did you mean `iostats {words[0]}`?")
