"""
All jobs of a Slurm cluster: what runs now, what the accounting has, and whose clock is whose.
"""

import time
from subprocess import CompletedProcess

import pytest

from iostats.base.errors import NotReadable
from iostats.base.job_facts import ENDED, RUNNING
from iostats.base.job_list import ListSettings
from iostats.schedulers import slurm_list

# As printed by 22.05.8.
LISTED = """\
4711|4711|RUNNING|12345|alice|hpc|main|2|2026-11-21T13:43:20|2026-11-22T13:43:20|node[1-2]|OK
4713|4712_1|RUNNING|12346|bob|hpc|main|1|2026-11-21T13:43:22|Unknown|node3|NO
4714|4714|COMPLETED|12345|alice|hpc|main|1|2026-11-21T13:43:23|2026-11-21T13:44:00|node4|NO
4715|4715|COMPLETING|12345|alice|hpc|main|1|2026-11-21T13:43:24|2026-11-21T13:44:01|node5|OK
4716|4716|SUSPENDED|12345|alice|hpc|main|1|2026-11-21T13:43:25|2026-11-22T13:43:25|node6|NO
4718|4717+1|RUNNING|12345|alice|hpc|main|1|2026-11-21T13:43:26|2026-11-22T13:43:26|node7|OK
4719|4719|CONFIGURING|12345|alice|hpc|main|1|2026-11-21T13:43:27|2026-11-22T13:43:27|node8|NO
"""
ACCOUNTED = """\
4711|4711|REQUEUED|0:0|12345|alice|hpc|main|2|2026-11-21T13:00:00|2026-11-21T13:01:00|\
2026-11-21T13:02:00|sim|node[1-2]
4711|4711|RUNNING|0:0|12345|alice|hpc|main|2|2026-11-21T13:02:01|2026-11-21T13:43:20|Unknown|sim|\
node[1-2]
4712|4712|CANCELLED by 12345|0:0|12345|alice|hpc|main|1|2026-11-21T13:00:00|2026-11-21T13:01:00|\
2026-11-21T13:01:37|sim|node3
4713|4713|PENDING|0:0|12345|alice|hpc|main|1|2026-11-21T13:00:00|Unknown|Unknown|sim|None assigned
4714|4714|CANCELLED by 0|0:0|12345|alice|hpc|main|1|2026-11-21T13:00:00|None|2026-11-21T13:01:37|\
sim|None assigned
"""
CONFIG = """\
Configuration data as of 2026-11-21T13:43:20
AccountingStorageBackupHost = (null)
ClusterName             = sim
MinJobAge               = 300 sec
"""


def at(text):
    return time.mktime(time.strptime(f"2026-11-21 {text}", "%Y-%m-%d %H:%M:%S"))


def answers(*of):
    """A `run` that gives these (status, output, error), one after the other; and what was asked."""
    left, asked = list(of), []

    def run(argv):
        asked.append(list(argv))
        return CompletedProcess(argv, *left.pop(0))
    return run, asked


def test_runs_have_their_nodes_and_their_start():
    """Those that wait, or whose nodes are not there yet, have not begun."""
    found = {one.raw_job: one for one in slurm_list.parse_job_list(LISTED).jobs}

    assert ["4711", "4713", "4714", "4715", "4716", "4718"] == list(found)
    assert ("node[1-2]", at("13:43:20"), None, RUNNING) == (
        found["4711"].nodes, found["4711"].started, found["4711"].ended, found["4711"].state)
    assert (at("13:44:00"), ENDED) == (found["4714"].ended, found["4714"].state)
    assert (None, None, True) == (found["4715"].ended, found["4715"].state,
                                  found["4715"].completing)
    assert ["4712_1", "4717+1"] == [found[raw].job for raw in ("4713", "4718")]


def test_whole_nodes_are_those_of_jobs_that_are_not_suspended():
    assert {"4713", "4714"} == slurm_list.parse_job_list(LISTED).exclusive


def test_one_command_asks_for_all_and_none_of_those_that_wait():
    run, asked = answers((0, LISTED, ""))
    slurm_list.job_list(run)

    [[squeue, *options]] = asked
    assert squeue == "squeue" and "--all" in options
    [states] = [one for one in options if one.startswith("--states=")]
    assert "RUNNING" in states and "PENDING" not in states


def test_a_release_that_does_not_know_a_state_is_asked_for_all():
    run, asked = answers((1, "", "squeue: error: Invalid job state specified: STOPPED"),
                         (0, LISTED, ""))

    assert 6 == len(slurm_list.job_list(run).jobs)
    assert "--states=all" in asked[1]


def test_a_controller_that_is_away_is_asked_once():
    run, asked = answers((1, "", "slurm_load_jobs error: Unable to contact slurm controller"))
    with pytest.raises(NotReadable, match="Unable to contact slurm controller"):
        slurm_list.job_list(run)

    assert 1 == len(asked)


@pytest.mark.parametrize("text", ["4711|4711|RUNNING\n", LISTED.replace("|", ",")])
def test_another_form_is_no_list(text):
    with pytest.raises(NotReadable, match="fields between"):
        slurm_list.parse_job_list(text)


def test_each_run_of_the_accounting_is_one_of_its_own():
    """Both of a requeued job; what has never begun is none."""
    found = slurm_list.parse_runs(ACCOUNTED)

    assert [("4711", at("13:01:00"), at("13:02:00"), "REQUEUED"),
            ("4711", at("13:43:20"), None, ""),
            ("4712", at("13:01:00"), at("13:01:37"), "CANCELLED")] == sorted(
                (one.raw_job, one.started, one.ended, one.outcome) for one in found)
    assert {"node[1-2]", "node3"} == {one.nodes for one in found}


def test_the_accounting_is_asked_for_a_time():
    run, asked = answers((0, ACCOUNTED, ""))
    assert 3 == len(slurm_list.runs_between(at("13:00:00"), at("14:00:00"), run))

    assert {"--allusers", "--duplicates", "--starttime=2026-11-21T13:00:00",
            "--endtime=2026-11-21T14:00:00"} <= set(asked[0])


def test_a_site_without_accounting_has_none():
    run, _ = answers((1, "", "Slurm accounting storage is disabled"))
    assert slurm_list.runs_between(1.0, 2.0, run) is None
    run, _ = answers((1, "", "sacct: error: Problem talking to the database"))
    with pytest.raises(NotReadable, match="Problem talking"):
        slurm_list.runs_between(1.0, 2.0, run)


def test_slurmctlds_clock_is_compared_with_ours():
    """Theirs is 13:43:20 to :21; ours 3.2 s less, give or take half of the command's time."""
    now = at("13:43:20") + 0.5 - 3.2
    found = slurm_list.parse_settings(CONFIG, now - 0.3, now + 0.3)

    assert (300.0, "sim") == found[:2]
    assert (3.2, 0.8) == (round(found.ahead_s, 6), round(found.within_s, 6))


def test_jobs_that_are_never_forgotten_are_kept_for_a_day():
    assert 86_400.0 == slurm_list.parse_settings(
        CONFIG.replace("300 sec", "0 sec"), 0.0, 0.0).kept_s


@pytest.mark.parametrize("private, uid, sees_all", [
    ("accounts,jobs,usage", 12345, False), ("accounts,jobs,usage", 0, True),
    ("accounts,usage", 12345, True), ("none", 12345, True)])
def test_who_is_not_shown_others_jobs_can_prove_nothing(monkeypatch, private, uid, sees_all):
    """PrivateData=jobs, and a site's server that is not root."""
    monkeypatch.setattr(slurm_list.os, "geteuid", lambda: uid)

    assert sees_all == slurm_list.parse_settings(
        f"{CONFIG}PrivateData             = {private}\n", 0.0, 0.0).sees_all


def test_what_is_not_told_is_not_known():
    assert ListSettings(None, "", 0.0, None, True) == slurm_list.parse_settings("", 0.0, 0.0)


def test_a_list_that_has_changed_is_what_it_is_now():
    """Whatever was in the one before: most lines are known from that."""
    first, changed = slurm_list.parse_job_list(LISTED), LISTED.replace(
        "4711|4711|RUNNING", "4711|4711|COMPLETED").replace("node3|NO", "node3|OK")
    lines = changed.splitlines()
    second = slurm_list.parse_job_list("\n".join(lines[1:] + lines[:1]))

    assert {one.raw_job for one in first.jobs} == {one.raw_job for one in second.jobs}
    assert {"4711": ENDED, "4713": RUNNING} == {
        one.raw_job: one.state for one in second.jobs if one.raw_job in ("4711", "4713")}
    assert {"4714"} == second.exclusive
    assert [] == slurm_list.parse_job_list("").jobs
    assert first == slurm_list.parse_job_list(LISTED)
