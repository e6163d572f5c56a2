"""
What `iostats report` and `iostats jobs` say of jobs that have no record: from outside in, with a
real site server and a stand-in for squeue.  tests/site/test_slurm_site.py asks a real one.
"""
from __future__ import annotations

import json
import re
import time

import pytest
from processes import until
from site_desk import SiteDesk, a_report, script

CLOCK = r"(\S+T)?\d\d:\d\d"            # the date as well, where midnight lies between


@pytest.fixture
def desk(tmp_path):
    with SiteDesk(tmp_path) as one:
        one.site()
        yield one


def squeue(desk, *jobs):
    """Let `squeue` know these jobs: {job_id, job_state, ...}."""
    path = desk.directory / "squeue.json"
    path.write_text(json.dumps({"jobs": [{"user_name": "alice", "nodes": "", **job}
                                         for job in jobs]}))
    script(desk.bin / "squeue", f"#!/bin/sh\nexec /bin/cat '{path}'\n")
    script(desk.bin / "sacct", "#!/bin/sh\nexit 0\n")


def both(desk, job):
    """What `report` and `jobs` say of a job, which is the same, and how they end."""
    reported, listed = desk.iostats("report", job), desk.iostats("jobs", "-j", job)
    assert (1, "", 0) == (reported.status, reported.out, listed.status)
    assert reported.line == listed.err.strip(), listed.err
    return reported.line


def test_a_job_that_runs_says_since_when_and_where(desk):
    """Not as if its number were mistyped."""
    squeue(desk, {"job_id": 92, "job_state": ["RUNNING"], "start_time": int(time.time()) - 60,
                  "nodes": "nid[1-4]"})
    assert re.fullmatch(
        rf"iostats: job 92 is running since {CLOCK} on nid\[1-4\]: it has a report when it has "
        r"ended; `iostats query jobs --job 92` may have what came to the storage servers so far",
        both(desk, "92"))


def test_a_job_that_waits_in_the_queue(desk):
    squeue(desk, {"job_id": 92, "job_state": ["PENDING"]})
    assert "iostats: job 92 is in the queue: it has not begun" == both(desk, "92")


def test_a_job_whose_node_is_dead_says_for_whom_it_waits_and_until_when(desk):
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
    # Below a table for people it is said without being asked; not where a program reads.
    below = desk.iostats("jobs").err
    assert "iostats: not in the list: job 92 waits for nid[3-4] until " in below
    assert "" == desk.iostats("jobs", "-P").err == desk.iostats("jobs", "-u", "bob").err


def test_how_many_nodes_are_not_known(desk):
    desk.send(a_report("92", "nid1"))
    assert re.search(rf"it waits for other nodes until {CLOCK} \(1 of \? nodes have reported\)$",
                     both(desk, "92"))


def test_a_job_that_has_ended_without_a_word_of_its_nodes(desk):
    """No prolog there, or no epilog: it says who can tell why."""
    squeue(desk, {"job_id": 92, "job_state": ["FAILED"], "end_time": int(time.time()) - 60})
    assert re.match(rf"iostats: job 92 has ended \(FAILED, at {CLOCK}\), and none of its nodes "
                    "has reported: ", both(desk, "92"))


def test_an_array_says_how_many_of_its_tasks_do_what(desk):
    tasks = {100 + task: state for task, state in enumerate(
        ["RUNNING"] * 2 + ["PENDING"] * 3 + ["COMPLETED"] * 5)}
    squeue(desk, *({"job_id": raw, "job_state": [state], "array_job_id": 92,
                    "array_task_id": raw - 100} for raw, state in tasks.items()))
    desk.send(a_report("105", "nid1", about={"nodes": "nid[1-2]"}))
    assert ("iostats: job 92 has no report yet: 2 running, 3 in the queue, 1 waiting for nodes, 4 "
            "ended without a report of a node") == both(desk, "92")


def test_nobody_knows_it(desk):
    """With a batch system that answers, and without one."""
    assert "iostats: nothing is known of job 92" == both(desk, "92")
    squeue(desk)
    assert "iostats: nothing is known of job 92" == both(desk, "92")


def test_only_jobs_that_were_asked_for_without_more_are_explained(desk):
    """Who leaves out rows on purpose knows why they are not there."""
    assert "nothing is known of job 92" in desk.iostats("jobs", "-j", "92").err
    for more in (("-s", "FAILED"), ("-u", "alice"), ("-S", "today"), ("-r", "main")):
        done = desk.iostats("jobs", "-j", "92", *more)
        assert (0, "") == (done.status, done.err)
    done = desk.iostats("jobs", "-j", ",".join(map(str, range(90, 99))))
    assert ["nothing is known of job 90"] * 1 == [done.err.splitlines()[0][9:]]
    assert 6 == len(done.err.splitlines()) and done.err.endswith("iostats: ... and 4 more\n")


def test_a_job_with_a_row_is_not_explained(desk):
    """Nor a part of one, by the name of the whole."""
    squeue(desk, {"job_id": 101, "job_state": ["COMPLETED"], "array_job_id": 92,
                  "array_task_id": 3})
    desk.send(a_report("101", "nid1", about={"nodes": "nid1", "scheduler": "slurm"}))
    until(lambda: desk.records("92"), what="the record")
    for job in ("92", "92_3", "101"):
        done = desk.iostats("jobs", "-j", job)
        assert "92_3" in done.out and "" == done.err


def test_a_number_alone_is_a_report(desk):
    """`iostats 4711`, also with options behind it."""
    squeue(desk, {"job_id": 92, "job_state": ["PENDING"]})
    done = desk.bare("92", "--config", desk.cfg)
    assert (1, "iostats: job 92 is in the queue: it has not begun") == (done.status, done.line)


@pytest.mark.parametrize("role", ["report", "jobs"])
def test_what_can_be_no_job_is_an_error(desk, role):
    """A word without a digit; Flux' ids may have none."""
    arguments = ["-j", "abc"] if role == "jobs" else ["abc"]
    done = desk.iostats(role, *arguments)
    where = "--jobs" if role == "jobs" else "JOB"
    assert (2, "", f"iostats: {where}: expected a job such as 4711, 100_3 or 4711.pbs01, got 'abc'"
            ) == (done.status, done.out, done.line)
    assert "nothing is known" in desk.iostats(role, *arguments[:-1], "fuNzPXqa").err


@pytest.mark.parametrize("word, meant", [
    ("reprot", "`iostats report`"), ("job", "`iostats jobs`"), ("docter", "`doctor`"),
    ("stat", "`start`"), ("harvst", "`harvest`")])
def test_a_mistyped_command_is_guessed_from_all(desk, word, meant):
    """Those of nodes and those of `iostats` alike, in both programs."""
    for done in (desk.bare(word), desk.client(word)):
        assert 2 == done.status and "" == done.out
        assert re.search(f"expected a command, got '{word}': did you mean {meant}( or .*)?\\?$",
                         done.line), done.line
    assert desk.client("report").line.endswith("got 'report': did you mean `iostats report`?")
    assert "(see --help)" in desk.bare("xyzzy").line
