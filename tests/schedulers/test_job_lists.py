"""
All jobs of PBS, LSF and Flux, in the form of their commands; slurm_list has a file of its own.
"""

import json
from subprocess import CompletedProcess

import pytest

from iostats.base.errors import NotReadable
from iostats.base.job_facts import ENDED, RUNNING
from iostats.schedulers import flux, lsf, pbs

NOW = 1_795_225_060.0


def answers(*of):
    """A `run` that gives these (status, output, error), one after the other; and what was asked."""
    left, asked = list(of), []

    def run(argv):
        asked.append(list(argv))
        return CompletedProcess(argv, *left.pop(0))
    return run, asked


# -- PBS -------------------------------------------------------------------------------------------

def pbs_job(state="R", place="free", host="node1", **fields):
    return {"Job_Name": "solve", "Job_Owner": "alice@login1", "job_state": state, "queue": "workq",
            "server": "pbs01", "exec_host": f"{host}/0*16", "stime": "Sat Nov 21 13:43:20 2026",
            "Resource_List": {"ncpus": 16, "place": place}, **fields}


PBS = {"4711.pbs01": pbs_job(place="scatter:exclhost"),
       "4712.pbs01": pbs_job(place="scatter:excl", host="node2"),
       "4713.pbs01": pbs_job("S", "exclhost"), "4714[].pbs01": pbs_job("B", stime=""),
       "4714[3].pbs01": pbs_job(place="exclhost", host="node3"), "4715.pbs01": {"job_state": "Q"},
       "4716.pbs01": pbs_job("E", "excl")}


def as_text(jobs):
    lines = []
    for job, record in jobs.items():
        flat = {**record, **{f"Resource_List.{name}": value for name, value in record.get(
            "Resource_List", {}).items()}}
        lines += [f"Job Id: {job}", *(f"    {name} = {value}" for name, value in flat.items()
                                      if name != "Resource_List"), ""]
    return "\n".join(lines)


@pytest.mark.parametrize("found", [pbs.parse_job_list(json.dumps({"Jobs": PBS})),
                                   pbs.parse_job_text(as_text(PBS))], ids=["JSON", "text"])
def test_pbs_jobs_that_run_and_those_that_have_their_hosts_alone(found):
    """
    By their placement, of whole hosts, not of vnodes; one that is suspended has left its hosts to
    others.
    """
    assert [("4711.pbs01", "node1"), ("4712.pbs01", "node2"), ("4713.pbs01", "node1"),
            ("4714[3].pbs01", "node3")] == sorted((one.raw_job, one.nodes) for one in found.jobs)
    assert {"4711.pbs01", "4714[3].pbs01"} == found.exclusive


def test_pbs_is_asked_for_text_where_its_json_is_none():
    run, asked = answers((0, '{"Jobs": {"4711', ""), (0, as_text(PBS), ""))

    assert 4 == len(pbs.job_list(run).jobs)
    assert [["-t", "-f", "-F", "json"], ["-t", "-f"]] == [argv[1:] for argv in asked]


def test_pbs_without_a_job_has_none():
    assert [] == pbs.job_list(answers((0, json.dumps({"pbs_server": "pbs01"}), ""))[0]).jobs
    assert [] == pbs.parse_job_text("").jobs


def test_a_pbs_server_that_is_away_is_an_error():
    run, _ = answers((1, "", "qstat: cannot connect to server pbs01 (errno=15010)"),
                     (1, "", "qstat: cannot connect to server pbs01 (errno=15010)"))
    with pytest.raises(NotReadable, match="cannot connect"):
        pbs.job_list(run)


# -- LSF -------------------------------------------------------------------------------------------

def lsf_job(job, stat="RUN", host="16*node1:16*node2", finish="-", **fields):
    return {"JOBID": job, "JOBINDEX": "0", "STAT": stat, "USER": "alice", "QUEUE": "normal",
            "EXEC_HOST": host, "START_TIME": "Nov 21 13:43" if host != "-" else "-",
            "FINISH_TIME": finish, **fields}


LSF = json.dumps({"RECORDS": [lsf_job("4711"), lsf_job("4712", "DONE", "node3", "Nov 21 13:44 L"),
                              lsf_job("4713", "PEND", "-")]})


def test_lsf_jobs_that_run_and_that_have_ended_lately():
    found = lsf.job_list(answers((0, LSF, ""))[0], NOW)

    assert [("4711", "node1,node2", RUNNING), ("4712", "node3", ENDED)] == [
        (one.raw_job, one.nodes, one.state) for one in found.jobs]
    assert 60.0 == found.jobs[1].ended - found.jobs[1].started == lsf.TIME_STEP_S
    assert not found.exclusive


def test_lsf_is_asked_for_the_jobs_of_all_users():
    run, asked = answers((0, LSF, ""))
    lsf.job_list(run, NOW)

    assert asked[0][-2:] == ["-u", "all"] and "-a" in asked[0]


def test_lsf_without_a_job_has_none():
    assert [] == lsf.job_list(answers((255, "", "No job found"))[0], NOW).jobs
    with pytest.raises(NotReadable, match="LSF is down"):
        lsf.job_list(answers((255, "", "LSF is down"), (255, "", "LSF is down"))[0], NOW)


@pytest.mark.parametrize("text, kept_s", [
    ("CLEAN_PERIOD = 3600\n", 3600.0), ("CLEAN_PERIOD = 3600\nCLEAN_PERIOD_DONE = 900\n", 900.0),
    ("MBD_SLEEP_TIME = 10 (seconds)\n", None), ("CLEAN_PERIOD =\n", None)])
def test_how_long_lsf_keeps_a_job(text, kept_s):
    assert kept_s == lsf.list_settings(answers((0, text, ""))[0]).kept_s


# -- Flux ------------------------------------------------------------------------------------------

def test_flux_jobs_that_run_and_that_have_ended_lately():
    text = json.dumps({"jobs": [
        {"id": 6731191091817518, "state": "RUN", "nodelist": "node[1-2]", "t_run": NOW - 37.5},
        {"id": "ƒ2", "state": "INACTIVE", "result": "COMPLETED", "nodelist": "node3",
         "t_run": NOW - 41.0, "t_cleanup": NOW - 23.0, "returncode": 0},
        {"id": "ƒ3", "state": "INACTIVE", "result": "CANCELED", "nodelist": ""}]})
    run, asked = answers((0, text, ""))
    found = flux.job_list(run, NOW)

    assert [("fuZZybuNNy", "node[1-2]", None), ("f2", "node3", NOW - 23.0)] == [
        (one.raw_job, one.nodes, one.ended) for one in found.jobs]
    assert f"--since={NOW - 600:.0f}" in asked[0]


@pytest.mark.parametrize("age, num, kept_s", [
    ("", "", 600.0), ("7d\n", "", 600.0), ("5m\n", "", None), ("", "100\n", None)])
def test_what_flux_may_have_purged_proves_nothing(age, num, kept_s):
    assert kept_s == flux.list_settings(answers((0, age, ""), (0, num, ""))[0]).kept_s
