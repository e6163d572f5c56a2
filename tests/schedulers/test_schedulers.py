"""
The batch systems: what each tells of a job, by its environment and by its commands, and our hooks
in them.  No batch system is needed: outputs are those of tests/data/schedulers, by the manuals.
"""

import ast
import json
import os
import runpy
import shutil
import subprocess
import sys
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import DATA, ROOT

from iostats import schedulers
from iostats.base import errors, job_facts
from iostats.base.errors import IostatsError, NotReadable, UsageError
from iostats.base.job_facts import ENDED, RUNNING, WAITING, Facts
from iostats.schedulers import commands, flux, job_environment, lsf, none, pbs, sge
from iostats.schedulers import slurm_output as slurm_forms

SAMPLES = DATA / "schedulers"
NAMES = schedulers.list_names()
NOON = 1_795_176_000                              # 2026-11-20 12:00 UTC, a Friday
STARTED = 1_795_168_807                           # 10:00:07


pytestmark = pytest.mark.usefixtures("utc")     # Batch systems print local times


def sample(name):
    return (SAMPLES / name).read_text(encoding="utf-8")


def answers(*outputs):
    """A `run` that gives one output after the other, and keeps what it was asked."""
    left, asked = list(outputs), []

    def run(argv, **_):
        asked.append(argv)
        status, stdout, stderr = left.pop(0)
        return subprocess.CompletedProcess(argv, status, stdout, stderr)
    run.asked = asked
    return run


# -- all of them -----------------------------------------------------------------------------

def test_the_directory_is_the_list():
    """Slurm is looked for first, `none` is what remains."""
    assert {"flux", "lsf", "none", "pbs", "sge"} <= set(NAMES)
    assert "none" == NAMES[-1]
    assert "slurm" not in NAMES or "slurm" == NAMES[0]


def test_no_other_module_names_a_batch_system():
    """What must be known of one is asked of its module: so adding one is adding a file."""
    for path in sorted((ROOT / "iostats").rglob("*.py")):
        if path.parent.name != "schedulers":
            constants = {node.value for node in ast.walk(ast.parse(path.read_text()))
                         if isinstance(node, ast.Constant) and isinstance(node.value, str)}
            assert set() == constants & (set(NAMES) - {schedulers.NO_SYSTEM}), path


def test_a_name_that_is_none_says_which_there_are():
    """A typing error in site.cfg."""
    with pytest.raises(UsageError, match=r"no batch system 'slrum'; there are: flux, lsf, none, "):
        schedulers.find_scheduler("slrum")
    with pytest.raises(UsageError):
        schedulers.find_scheduler("../jobid")


@pytest.mark.parametrize("name", NAMES)
def test_a_scheduler_has_all_that_a_scheduler_needs(name):
    """See schedulers/__init__.py."""
    module = schedulers.find_scheduler(name)
    assert name == module.NAME
    assert isinstance(module.JOB_ID_VARIABLE, str)
    assert isinstance(module.NO_LAUNCH_AT_END, bool) and isinstance(module.LAUNCHES_BY_SHELL, bool)
    assert module.__doc__ and "Source" in module.__doc__
    for function in (module.about, module.launchers, module.facts):
        assert function.__doc__


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_environment_tells_nothing(name):
    """And nothing is not a job without a name."""
    assert {} == schedulers.find_scheduler(name).about({})


@pytest.mark.parametrize("name", NAMES)
def test_launchers_are_lists_of_words(name):
    """No node, or just this one: nothing is launched, unless there is no batch system to ask."""
    module = schedulers.find_scheduler(name)
    assert [[]] == module.launchers({}, [])
    for launcher in module.launchers({}, ["nid001"]):
        assert all(isinstance(part, str) for part in launcher)


@pytest.mark.parametrize("nodes", [["-oProxyCommand"], "-v,nid001", ["a b", "c"], "nid[1-", ["é"]])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_node_is_not_launched_on(name, nodes):
    """It would be an option of the launcher, or a word of a shell's."""
    with pytest.raises(IostatsError):
        schedulers.find_scheduler(name).launchers({}, nodes)


VARIABLES = (
    "SLURM_JOB_ID SLURM_JOBID SLURM_JOB_NODELIST SLURM_NODELIST SLURM_JOB_UID SLURM_RESTART_COUNT "
    "SLURM_JOB_USER SLURM_JOB_RESTART_COUNT SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID "
    "SLURM_HET_JOB_ID SLURM_HET_JOB_OFFSET SLURM_JOB_NUM_NODES PBS_JOBID PBS_NODEFILE LOGNAME USER "
    "PBS_O_WORKDIR LSB_JOBID LSB_JOBINDEX LSB_DJOB_HOSTFILE LSB_MCPU_HOSTS LSB_HOSTS "
    "LSB_OUTPUTFILE FLUX_JOB_ID FLUX_ENCLOSING_ID FLUX_JOB_USERID FLUX_JOB_NODELIST JOB_ID "
    "SGE_TASK_ID SGE_ROOT PE_HOSTFILE HOSTNAME RESTARTED SGE_STDOUT_PATH").split()
HOSTILE = st.text(max_size=60) | st.sampled_from((
    "", " ", "4711", "4711.pbs01", "-1", "9" * 5000, "\udcff", "a\x00b", "/", "/dev/tty", "nid[1-",
    "nid[1-9999999]", "ƒ", "f", "0x", "0xg", "1.2.3.4", "x" * 100_000))


@pytest.mark.parametrize("name", NAMES)
@given(environ=st.dictionaries(st.sampled_from(VARIABLES), HOSTILE, max_size=8))
def test_no_environment_makes_it_raise(name, environ):
    """A user writes it, and a prolog of root's reads it."""
    about = schedulers.find_scheduler(name).about(environ)
    assert set() == set(about) - {"job", "attempt", "nodes", "user", "uid", "account", "partition",
                                  "cluster", "output", "work_dir", "shown_as"}
    assert all(isinstance(about[key], int) for key in ("attempt", "uid") if key in about)
    for key, value in about.items():
        assert isinstance(value, int) or value.isprintable(), key
    assert len(about.get("job", "")) <= 140


@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
@pytest.mark.parametrize("answer, expected", [
    ((37, "", "cannot connect to server\n"), "37"), ((0, "\x07not of this form", ""), "expected"),
], ids=["refused", "garbled"])
def test_a_command_that_does_not_tell_is_an_error_of_ours(name, answer, expected):
    """With the command, what was expected and what came, in one line."""
    with pytest.raises(IostatsError, match=expected) as caught:
        schedulers.find_scheduler(name).facts(["4711"], run=answers(*[answer] * 9))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
def test_a_command_that_is_not_there_is_named(name, monkeypatch):
    """With the real subprocess.run, and a PATH without any."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(IostatsError, match=r"PATH|No such file|not found"):
        schedulers.find_scheduler(name).facts(["4711"])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_asked_of_no_jobs(name):
    """No command runs."""
    assert {} == schedulers.find_scheduler(name).facts([], run=answers())


def test_a_command_gets_no_input_and_english(tmp_path, monkeypatch):
    """The real thing, with a stand-in for the command."""
    command = tmp_path / "qstat"
    command.write_text('#!/bin/sh\necho "$LC_ALL $*"; cat; echo oops >&2; exit 7\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert (7, "C -f 4711\n", "oops") == commands.ask(["qstat", "-f", "4711"])


def test_a_command_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    """10 seconds; less here."""
    monkeypatch.setattr(commands, "WITHIN_S", 0.2)
    with pytest.raises(NotReadable, match=r"sleep 37: expected an answer within 0.2 s"):
        commands.ask(["sleep", "37"])


@pytest.mark.parametrize("job", ["-x", "a b", "a,b", "", "a\nb", "x" * 300])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_job_id_is_not_asked_for(name, job):
    """It would be an option of the command, or another job."""
    with pytest.raises(IostatsError):
        schedulers.find_scheduler(name).facts([job], run=answers())


@pytest.mark.parametrize("environ, expected", [
    ({}, "none"),
    ({"PBS_JOBID": "4711.pbs01"}, "pbs"),
    ({"LSB_JOBID": "4711"}, "lsf"),
    ({"FLUX_JOB_ID": "ƒuZZybuNNy"}, "flux"),
    ({"FLUX_ENCLOSING_ID": "ƒuZZybuNNy"}, "flux"),
    ({"JOB_ID": "4711", "SGE_ROOT": "/opt/sge"}, "sge"),
    ({"JOB_ID": "4711"}, "none"),
    ({"FLUX_JOB_ID": "fuZZybuNNy", "PBS_JOBID": "4711.pbs01"}, "flux"),
    ({"PBS_JOBID": ""}, "none"),
], ids=lambda value: value if isinstance(value, str) else " ".join(value) or "nothing")
def test_an_environment_shows_whose_job_it_is(environ, expected):
    """JOB_ID is anybody's name; a Flux that runs in a job of PBS is nearer."""
    assert expected == schedulers.detect_scheduler(environ).NAME


@pytest.mark.skipif("slurm" not in NAMES, reason="schedulers/slurm.py is not there")
def test_slurm_is_looked_for_first():
    """Many sites set variables of others for their users' old scripts."""
    assert "slurm" == schedulers.detect_scheduler(
        {"SLURM_JOB_ID": "4711", "PBS_JOBID": "4711"}).NAME


@pytest.mark.parametrize("text, expected", [
    ("Fri Nov 20 10:00:07 2026", STARTED), ("Nov 20 10:00:07 2026", STARTED),
    ("Nov 20 10:00", STARTED - 7), ("Dec 31 23:58", 1_767_225_480),
    ("2026-11-20T10:00:07", STARTED), ("2026-11-20 10:00:07.041", STARTED + 0.041),
    ("11/20/2026 10:00:07.041", STARTED + 0.041), ("1795168807.041", STARTED + 0.041),
    ("", None), ("-/-", None), ("-", None), ("0", None), ("0.0", None), ("tomorrow", None),
    ("Nov 20", None), ("2026-11-20", None), ("Fri Foo 20 10:00:07 2026", None),
    ("9" * 400, None), ("Nov 20 10:00:07 99999999999999999999", None), ("²026-11-20 1:1", None),
])
def test_a_time_is_seconds_or_unknown(text, expected):
    """Without a year it is the last such day; never the future."""
    assert expected == commands.parse_time(text, NOON)


def test_a_time_without_a_year_is_unknown_where_nobody_says_what_day_it_is():
    """Rather than a wrong year."""
    assert commands.parse_time("Nov 20 10:00") is None


@given(st.text())
def test_no_time_makes_it_raise(text):
    """Whatever a command prints in its place."""
    found = commands.parse_time(text, NOON)
    assert found is None or isinstance(found, float)


# -- files with hosts ------------------------------------------------------------------------

def test_a_host_file_gives_each_node_once_and_whole(tmp_path):
    """One line a task; domains stay, as nobody can tell whether they are needed."""
    path = tmp_path / "nodes"
    path.write_text("nid001.cluster\nnid001.cluster\n\nnid002.cluster\n  \n")
    assert "nid001.cluster,nid002.cluster" == job_environment.as_list(
        job_environment.read_host_file(str(path)))


def test_a_host_file_with_what_is_no_node_gives_none(tmp_path):
    """Half of a list would be taken for the whole job."""
    path = tmp_path / "nodes"
    path.write_bytes(b"nid001\n\xff\xfe\nnid003\n")
    assert "" == job_environment.as_list(job_environment.read_host_file(str(path)))


def test_a_host_file_that_is_no_file_is_not_waited_for(tmp_path):
    """A FIFO would hold a prolog for ever."""
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "none", "/dev/zero", "a\0b", ""):
        assert [] == job_environment.read_host_file(str(path))


# -- PBS -------------------------------------------------------------------------------------

SOLVE = Facts(
    job="4711.pbs01", raw_job="4711.pbs01", user="alice", account="climate", partition="workq",
    name="solve", cluster="pbs01", nodes="nid001,nid002,nid003", node_count=3, state=ENDED,
    outcome="COMPLETED", exit_status=0, started=STARTED, ended=STARTED + 2261,
    output="/home/alice/run/solve.o4711", work_dir="/home/alice/run",
    comments={"SystemComment": "Job run at Fri Nov 20 at 10:00 on (nid001:ncpus=64) and finished"},
    tasks=41, cpus=129)


def test_pbs_tells_in_the_environment(tmp_path):
    """As qsub(1B) lists it."""
    nodes = tmp_path / "nodes"
    nodes.write_text("nid001\n" * 2 + "nid002\n")
    assert {"job": "4711[3].pbs01", "nodes": "nid001,nid002", "user": "alice", "account": "climate",
            "partition": "workq", "cluster": "pbs01", "work_dir": "/home/alice"} == pbs.about({
                "PBS_JOBID": "4711[3].pbs01", "PBS_NODEFILE": str(nodes), "LOGNAME": "alice",
                "PBS_ACCOUNT": "climate", "PBS_QUEUE": "workq", "PBS_O_WORKDIR": "/home/alice"})


def test_pbs_json_and_text_say_the_same():
    """Two forms of one job."""
    assert SOLVE == pbs.parse_json(sample("pbs-jobs.json"))["4711.pbs01"]
    assert {"4711.pbs01": SOLVE} == pbs.parse_text(sample("pbs-job.txt"))


@pytest.mark.parametrize("job, expected", [
    ("4712.pbs01", dict(name="37", state=RUNNING, outcome="", account="ocean", restarts=2,
                        ended=None, nodes="nid007", node_count=1)),
    ("4720[3].pbs01", dict(array_job="4720", array_task="3", state=ENDED, outcome="TIMEOUT",
                           exit_status=-29, ended=STARTED + 3623,
                           output="/home/alice/out/sweep.o4720.3")),
    ("4730.pbs01", dict(outcome="CANCELLED", exit_status=0, exit_signal=15, ended=None)),
], ids=["running, for the third time", "at its walltime", "qdel"])
def test_pbs_jobs_of_all_sorts(job, expected):
    """271 is 256 and SIGTERM; -29 is JOB_EXEC_KILL_WALLTIME; 91 is JOB_SUBSTATE_TERMINATED."""
    found = pbs.parse_json(sample("pbs-jobs.json"))[job]._asdict()
    assert expected == {name: found[name] for name in expected}


def test_torque_has_other_names_for_it():
    """exit_status, start_count, comp_time; -11 is its walltime."""
    [found] = pbs.parse_text(sample("torque-job.txt")).values()
    assert ("4740.torque01", "carol", "TIMEOUT", -11, 1, STARTED + 1384, "nid021,nid022") == (
        found.job, found.user, found.outcome, found.exit_status, found.restarts, found.ended,
        found.nodes)


def test_what_a_user_writes_into_an_environment_is_not_believed():
    """`qsub -V` takes lines along that look like attributes, and like other jobs."""
    forged = sample("pbs-forged.txt")
    run = answers((0, "{", ""), (0, forged, ""))
    assert [("4713.pbs01", "mallory", "nid013", RUNNING)] == [
        (one.job, one.user, one.nodes, one.state)
        for one in pbs.facts(["4713.pbs01"], run=run).values()]
    first_counts = ('{"Jobs": {"4713.pbs01": {"Job_Owner": "mallory@a", "job_state": "R", '
                    '"Variable_List": {"A": "x"}, "Job_Owner": "alice@a", "job_state": "F"}}}')
    [found] = pbs.parse_json(first_counts).values()
    assert ("mallory", RUNNING) == (found.user, found.state)


def test_pbs_is_asked_again_for_those_that_it_has_left_out():
    """OpenPBS issue 2672: of several jobs the first alone; so the rest one by one, as text."""
    run = answers((0, sample("pbs-jobs.json").replace('"4712.pbs01"', '"4799.pbs01"'), ""),
                  (0, sample("pbs-job.txt").replace("4711", "4712"), ""))
    assert {"4711.pbs01", "4712.pbs01"} == set(pbs.facts(["4711.pbs01", "4712"], run=run))
    assert [["qstat", "-x", "-f", "-F", "json", "4711.pbs01", "4712"],
            ["qstat", "-x", "-f", "4712"]] == run.asked


def test_torque_is_asked_as_it_understands():
    """-F is none of its options, and -x is XML."""
    run = answers((2, "", "qstat: invalid option -- 'F'\n"), (0, "<Data><Job></Job></Data>", ""),
                  (0, sample("torque-job.txt"), ""))
    assert {"4740.torque01"} == set(pbs.facts(["4740.torque01"], run=run))
    assert ["qstat", "-f", "4740.torque01"] == run.asked[-1]


def test_a_job_that_pbs_has_forgotten_is_no_error():
    """Only history_enable keeps them; the site's own records do not depend on it."""
    unknown = (153, "", "qstat: Unknown Job Id 4711.pbs01\n")
    assert {} == pbs.facts(["4711.pbs01"], run=answers(unknown, unknown, unknown))
    assert {} == pbs.facts(["4711.pbs01"], run=answers(
        (2, "", "qstat: invalid option -- 'F'\n"), unknown, unknown))


def test_pbs_launches_once_on_each_node(tmp_path):
    """Not once for each line of $PBS_NODEFILE, which is what a bare pbsdsh does."""
    nodes = tmp_path / "nodes"
    environ = {"PBS_NODEFILE": str(nodes)}
    nodes.write_text("nid001.a\nnid002.a\n")
    assert [["pbsdsh", "--"]] == pbs.launchers(environ, "nid001.a,nid002.a")
    nodes.write_text("nid001.a\n" * 23 + "nid002.a\n" * 37 + "nid003.a\n")
    assert [["pbsdsh", "-n", "0", "--"], ["pbsdsh", "-n", "23", "--"],
            ["pbsdsh", "-n", "60", "--"]] == pbs.launchers(environ, "nid[001-003]")
    assert [["pbsdsh", "-n", "0", "--"], ["pbsdsh", "-n", "60", "--"]] == pbs.launchers(
        environ, ["nid001.a", "nid003.a"])
    with pytest.raises(UsageError, match="nid004"):
        pbs.launchers(environ, "nid[001-004]")


# -- LSF -------------------------------------------------------------------------------------

def test_lsf_tells_in_the_environment(tmp_path):
    """As "Environment variables set for job execution" lists it."""
    hosts = tmp_path / "hosts"
    hosts.write_text("nid001\nnid001\nnid002\n")
    environ = {"LSB_JOBID": "4711", "LSB_JOBINDEX": "3", "LSB_DJOB_HOSTFILE": str(hosts),
               "LSB_JOB_EXECUSER": "alice", "USER": "root", "LSB_PROJECT_NAME": "climate",
               "LSB_QUEUE": "normal", "LSB_OUTPUTFILE": "/home/alice/sweep.%J.%I",
               "LS_SUBCWD": "/home/alice"}
    assert {"job": "4711[3]", "nodes": "nid001,nid002", "user": "alice", "account": "climate",
            "partition": "normal", "output": "/home/alice/sweep.4711.3",
            "work_dir": "/home/alice"} == lsf.about(environ)


@pytest.mark.parametrize("environ, expected", [
    ({"LSB_MCPU_HOSTS": "nid001 64 nid002 1 "}, "nid001,nid002"),
    ({"LSB_HOSTS": "nid001 nid001 nid002"}, "nid001,nid002"),
    ({"LSB_DJOB_HOSTFILE": "/nowhere", "LSB_HOSTS": "nid001"}, "nid001"),
], ids=["hosts and slots", "a name a slot", "no file"])
def test_lsf_tells_its_nodes_in_one_of_three_ways(environ, expected):
    """The file is not there for a job with one host, the others not for very wide ones."""
    assert {"job": "4711", "nodes": expected} == lsf.about(
        {"LSB_JOBID": "4711", "LSB_JOBINDEX": "0", **environ})


@pytest.mark.parametrize("job, expected", [
    ("4711", Facts(
        job="4711", raw_job="4711", user="alice", account="climate", partition="normal",
        name="solve", nodes="nid001,nid002,nid003", node_count=3, state=ENDED,
        outcome="COMPLETED", exit_status=0, started=STARTED - 7, ended=STARTED - 7 + 2220,
        output="/home/alice/run/solve.4711", work_dir="/home/alice/run", cpus=129)),
    ("4720[3]", Facts(
        job="4720[3]", raw_job="4720[3]", array_job="4720", array_task="3", user="alice",
        account="climate", partition="normal", name="sweep[3]", nodes="nid007", node_count=1,
        state=ENDED, outcome="TIMEOUT", exit_status=0, exit_signal=12, started=STARTED,
        ended=STARTED + 2460, output="/home/alice/run/sweep.4720.3", cpus=1)),
    ("4730", Facts(job="4730", raw_job="4730", user="bob", account="default", partition="normal",
                   name="later", state=WAITING)),
    ("4740", Facts(job="4740", raw_job="4740", user="bob", account="default", partition="normal",
                   name="over", nodes="nid011", node_count=1, state=ENDED, outcome="FAILED",
                   exit_status=7, started=1_767_225_480, ended=1_767_225_900, cpus=1)),
], ids=["done", "at its run limit", "pending", "exit 7, over New Year"])
def test_lsf_jobs_of_all_sorts(job, expected):
    """140 is 128 and SIGUSR2; a time without a year is the last such day."""
    found = lsf.parse_json(sample("lsf-jobs.json"), NOON)
    assert expected == found[job]
    assert 4 == len(found)                                       # 99 is not found


def test_lsf_text_says_the_same_as_json():
    """For a bjobs without -json; a delimiter in the job's name stays there."""
    wanted = lsf.parse_json(sample("lsf-jobs.json"), NOON)
    found = lsf.parse_text(sample("lsf-jobs.txt"), NOON)
    assert {"4711": wanted["4711"], "4740": wanted["4740"]._replace(name="a^b")} == found


def test_lsf_is_asked_in_json_and_then_in_text():
    """An old bjobs prints its usage."""
    run = answers((255, "", "-json: Illegal option\n"), (0, sample("lsf-jobs.txt"), ""))
    assert {"4711"} == set(lsf.facts(["4711"], run=run, now=NOON))
    assert ["bjobs", "-a", "-json", "-o"] == run.asked[0][:4]
    assert run.asked[1][3].endswith("delimiter='^'")


def test_lsf_does_not_know_a_job():
    """Some releases say so in the JSON, some on stderr, with 255 or with 0."""
    assert {} == lsf.facts(["99"], run=answers((255, "", "Job <99> is not found\n")))
    assert {} == lsf.facts(["99"], run=answers((255, sample("lsf-jobs.json"), "")), now=NOON)


def test_lsf_of_an_array_tells_all_tasks():
    """4720 is 4720[3], and what else there is of it."""
    assert {"4720[3]"} == set(lsf.facts(["4720"], now=NOON,
                                        run=answers((0, sample("lsf-jobs.json"), ""))))


def test_lsf_launches_with_one_blaunch():
    """-z: once on each host; -no-shell: our words stay words."""
    assert [["blaunch", "-n", "-no-shell", "-z", "nid001 nid002"]] == lsf.launchers(
        {}, "nid[001-002]")


# -- Flux ------------------------------------------------------------------------------------

@pytest.mark.parametrize("job, expected", [
    ("0", "f1"), ("57", "fz"), ("4369", "f2JL"), ("633528662", "fxyzzy"),
    ("6731191091817518", "fuZZybuNNy"), ("18446744073709551614", "fjpXCZedGfVP"),
    ("ƒuZZybuNNy", "fuZZybuNNy"), ("fuZZybuNNy", "fuZZybuNNy"),
    ("0x17e9fb8df16c2e", "fuZZybuNNy"), ("0017.e9fb.8df1.6c2e", "fuZZybuNNy"),
    ("99999999999999999999", "99999999999999999999"), ("solve", "solve"), ("ƒ0", "ƒ0"),
    ("0xg", "0xg"), ("", ""),
])
def test_a_flux_id_has_one_form(job, expected):
    """Prologs see one form, tasks another, and both are the same job (the vectors of RFC 19)."""
    assert expected == flux.canonical(job)


@pytest.mark.parametrize("environ, expected", [
    ({"FLUX_JOB_ID": "ƒuZZybuNNy", "USER": "alice"}, {"job": "fuZZybuNNy", "user": "alice"}),
    ({"FLUX_JOB_ID": "ƒxyzzy", "FLUX_ENCLOSING_ID": "ƒuZZybuNNy"}, {"job": "fuZZybuNNy"}),
    ({"FLUX_JOB_ID": "6731191091817518", "FLUX_JOB_USERID": "1041", "USER": "root"},
     {"job": "fuZZybuNNy", "uid": 1041}),
    ({"FLUX_ENCLOSING_ID": "ƒxyzzy", "FLUX_JOB_NODELIST": "nid[001-003]"},
     {"job": "fxyzzy", "nodes": "nid[001-003]"}),
    ({"FLUX_ENCLOSING_ID": "ƒxyzzy", "FLUX_JOB_NODELIST": "nid[001-"}, {"job": "fxyzzy"}),
], ids=["a task", "a task in a batch job", "a prolog, as root", "a script", "a torn list"])
def test_flux_tells_in_the_environment(environ, expected):
    """The job is the batch job, not a `flux run` in it; root in a prolog is not its user."""
    assert expected == flux.about(environ)


def test_flux_tells_the_nodes_of_a_script_when_asked():
    """flux-environment(7): `flux getattr hostlist`."""
    run = answers((0, "nid[001-003]\n", ""))
    assert "nid[001-003]" == flux.list_nodes({"FLUX_ENCLOSING_ID": "ƒxyzzy"}, run)
    assert [["flux", "getattr", "hostlist"]] == run.asked
    assert "" == flux.list_nodes({"FLUX_JOB_ID": "ƒxyzzy"}, answers())


def test_flux_launches_on_the_brokers_of_the_batch_job_or_of_the_job():
    """Its own instance needs no -j, and is the only one where everybody may."""
    assert [["flux", "exec", "-n", "--"]] == flux.launchers(
        {"FLUX_ENCLOSING_ID": "ƒxyzzy"}, "nid[1-3]")
    assert [["flux", "exec", "-n", "-j", "fxyzzy", "--"]] == flux.launchers(
        {"FLUX_JOB_ID": "ƒxyzzy"}, "nid[1-3]")
    assert [[]] == flux.launchers({"FLUX_JOB_ID": "ƒxyzzy"}, "nid1")


DONE = Facts(
    job="fuZZybuNNy", raw_job="fuZZybuNNy", user="alice", uid=1041, account="climate",
    partition="pbatch", name="solve", nodes="nid[001-002,004]", node_count=3, state=ENDED,
    outcome="COMPLETED", exit_status=0, started=1_795_168_807.25, ended=1_795_171_068.75,
    work_dir="/home/alice/run", tasks=23, cpus=92)


@pytest.mark.parametrize("job, expected", [
    ("fuZZybuNNy", DONE),
    ("fxyzzy", Facts(job="fxyzzy", raw_job="fxyzzy", user="alice", uid=1041, name="killed",
                     nodes="nid007", node_count=1, state=ENDED, outcome="FAILED", exit_status=0,
                     exit_signal=9, started=1_795_168_807.25, ended=1_795_168_830.25)),
    ("f7YXq9G", Facts(job="f7YXq9G", raw_job="f7YXq9G", user="bob", uid=1037, name="never",
                      state=ENDED, outcome="CANCELLED", ended=1_795_168_802.0)),
    ("fLUv", Facts(job="fLUv", raw_job="fLUv", user="bob", uid=1037, name="later", state=WAITING)),
    ("f2JL", Facts(job="f2JL", raw_job="f2JL", user="bob", uid=1037, name="now", nodes="nid011",
                   node_count=1, state=RUNNING, started=1_795_168_807.25)),
], ids=["done", "killed", "cancelled before it ran", "pending", "running"])
def test_flux_jobs_of_all_sorts(job, expected):
    """A key that is absent is unknown; -128 is "never started"."""
    assert expected == flux.parse_json(sample("flux-jobs.json"))[job]


def test_flux_one_job_is_one_object():
    """Not a list of one."""
    assert {"fuZZybuNNy": DONE} == flux.parse_json(sample("flux-job.json"))


def test_flux_text_says_the_same_as_json():
    """But for what old releases do not have; a name with a tab shifts nothing, and shows it."""
    found = flux.parse_text(sample("flux-jobs.txt"))
    assert DONE._replace(account="", partition="", name="so\\x09lve", work_dir="", tasks=None,
                         cpus=None) == found["fuZZybuNNy"]
    assert ("CANCELLED", None, None) == (found["f7YXq9G"].outcome, found["f7YXq9G"].exit_status,
                                         found["f7YXq9G"].started)
    assert WAITING == found["fLUv"].state


def test_flux_is_asked_in_json_and_then_in_text():
    """--json is there since flux-core 0.49."""
    run = answers((1, "", "flux-jobs: ERROR: unrecognized arguments: --json\n"),
                  (0, sample("flux-jobs.txt"), ""))
    assert {"fuZZybuNNy"} == set(flux.facts(["6731191091817518"], run=run))
    assert ["flux", "jobs", "--json", "fuZZybuNNy"] == run.asked[0]
    assert {} == flux.facts(["f1"], run=answers((1, "", "flux-jobs: ERROR: JobID f1 unknown\n")))


# -- Grid Engine -----------------------------------------------------------------------------

def test_grid_engine_tells_in_the_environment(tmp_path):
    """As qsub(1) lists it; RESTARTED says whether, not how often."""
    hosts = tmp_path / "pe_hostfile"
    hosts.write_text("nid001 4 all.q@nid001 UNDEFINED\nnid002 4 all.q@nid002 UNDEFINED\n")
    environ = {"JOB_ID": "4711", "SGE_TASK_ID": "undefined", "PE_HOSTFILE": str(hosts),
               "LOGNAME": "alice", "QUEUE": "all.q", "RESTARTED": "1", "SGE_CLUSTER_NAME": "p6444",
               "SGE_STDOUT_PATH": "/home/alice/solve.o4711", "SGE_O_WORKDIR": "/home/alice"}
    assert {"job": "4711", "attempt": 1, "nodes": "nid001,nid002", "user": "alice",
            "partition": "all.q", "cluster": "p6444", "output": "/home/alice/solve.o4711",
            "work_dir": "/home/alice"} == sge.about(environ)


def test_a_grid_engine_task_on_one_host():
    """No PE, an array."""
    assert {"job": "4711.3", "attempt": 0, "nodes": "nid001.cluster"} == sge.about(
        {"JOB_ID": "4711", "SGE_TASK_ID": "3", "RESTARTED": "0", "HOSTNAME": "nid001.cluster",
         "SGE_STDOUT_PATH": "/dev/null"})


def test_grid_engine_launches_with_a_qrsh_for_each_other_host(tmp_path):
    """On the first host the script runs already."""
    hosts = tmp_path / "pe_hostfile"
    hosts.write_text("nid001 4 all.q@nid001 UNDEFINED\nnid002 4 all.q@nid002 UNDEFINED\n")
    assert [[], ["qrsh", "-inherit", "-nostdin", "-noshell", "nid002"]] == sge.launchers(
        {"PE_HOSTFILE": str(hosts)}, "nid001,nid002")


def test_grid_engine_jobs_that_have_not_ended():
    """A parallel job has an entry for each slot; the rest of an array waits under its own id."""
    assert {
        "4711": Facts(job="4711", raw_job="4711", user="alice", partition="all.q", name="solve",
                      nodes="nid001,nid002", node_count=2, state=RUNNING, started=STARTED),
        "4720.3": Facts(job="4720.3", raw_job="4720.3", array_job="4720", array_task="3",
                        user="alice", partition="long.q", name="sweep", nodes="nid007",
                        node_count=1, state=RUNNING, restarts=1, started=STARTED + 0.041),
        "4720": Facts(job="4720", raw_job="4720", user="alice", name="sweep", state=WAITING),
        "4730": Facts(job="4730", raw_job="4730", user="bob", name="later", state=WAITING),
    } == sge.parse_xml(sample("sge-jobs.xml"))


def test_grid_engine_jobs_that_have_ended():
    """The last run counts, and there was one before it."""
    assert {"4740": Facts(
        job="4740", raw_job="4740", user="bob", partition="all.q", name="over", nodes="nid011",
        node_count=1, state=ENDED, outcome="FAILED", exit_status=7, restarts=1, started=STARTED,
        ended=STARTED + 2261, cpus=1)} == sge.parse_qacct(sample("sge-qacct.txt"))


@pytest.mark.parametrize("job, expected", [
    ("4750.3", dict(outcome="KILLED", exit_status=0, exit_signal=9, account="climate",
                    array_job="4750", array_task="3", started=STARTED + 0.041,
                    ended=STARTED + 2261.5, work_dir="/home/alice/run", nodes="nid011")),
    ("4750.5", dict(outcome="TIMEOUT", started=STARTED + 0.041, nodes="nid012", work_dir="")),
    ("4750.7", dict(outcome="CANCELLED", started=None, ended=None, exit_status=0)),
], ids=["killed", "at its limit", "deleted"])
def test_newer_grid_engines_write_other_times(job, expected):
    """And a word after the exit status."""
    found = sge.parse_qacct(sample("sge-qacct-ocs.txt"))[job]._asdict()
    assert expected == {name: found[name] for name in expected}


def test_a_parallel_job_of_the_past_has_no_list_of_nodes():
    """The accounting names its first host, and others as far as a qrsh ran there: not all."""
    [found] = sge.parse_qacct(sample("sge-qacct-parallel.txt")).values()
    assert ("", None, "COMPLETED", 0) == (found.nodes, found.node_count, found.outcome,
                                          found.restarts)


def test_grid_engine_8_does_not_tell_a_parallel_tasks_entry_from_the_jobs():
    """No pe_taskid (real 8.1.9): tasks are those that lie within; none of them is a restart."""
    assert {"4760": Facts(
        job="4760", raw_job="4760", user="bob", partition="all.q", name="over", state=ENDED,
        outcome="FAILED", exit_status=7, restarts=0, started=STARTED, ended=STARTED + 2261,
        cpus=8)} == sge.parse_qacct(sample("sge-qacct-8.1.9-parallel.txt"))


@pytest.mark.parametrize("job, expected", [
    ("4761", ("KILLED", 0, 9, 0, STARTED)), ("4762", ("FAILED", 0, 11, 0, STARTED)),
    ("4763", ("TIMEOUT", 0, 9, 0, STARTED)), ("4764", ("COMPLETED", 0, None, 0, STARTED)),
    ("4765", ("COMPLETED", 0, None, 1, STARTED)), ("4766", ("FAILED", 0, None, 0, None)),
], ids=["qdel, or kill -9", "its own fault", "at its limit", "did not start at first",
        "run again", "did not start"])
def test_grid_engine_8_does_not_tell_who_deleted_a_job(job, expected):
    """No deleted_by (real 8.1.9): a qdel looks as a `kill -9`, which may be the job's own."""
    found = sge.parse_qacct(sample("sge-qacct-8.1.9.txt"))[job]
    assert expected == (found.outcome, found.exit_status, found.exit_signal, found.restarts,
                        found.started)


def test_grid_engine_does_not_tell_of_a_run_whose_entry_has_not_come():
    """What was run again has an entry of its first run; the last one comes 15 s after the end."""
    text = sample("sge-qacct.txt")
    first, _, last = text.strip("\n").rpartition("=" * 62 + "\n")
    assert {} == sge.parse_qacct(first)
    assert {"4740"} == set(sge.parse_qacct("=" * 62 + "\n" + last))


def test_grid_engine_is_asked_for_those_that_run_and_then_for_the_past():
    """qstat knows no job that has ended."""
    run = answers((0, sample("sge-jobs.xml"), ""), (0, sample("sge-qacct-ocs.txt"), ""),
                  (1, "", "error: job id 99 not found\n"))
    assert {"4711", "4750.3"} == set(sge.facts(["4711", "4750.3", "99"], run=run))
    assert [["qacct", "-j", "4750", "-t", "3"], ["qacct", "-j", "99"]] == run.asked[1:]


# -- what users call their jobs ---------------------------------------------------------------

NAMES_SHOWN = [
    ("Klimamodell \u00e4\u00f6\u00fc \u03b1", "Klimamodell \u00e4\u00f6\u00fc \u03b1"),
    ("\u6c14\u5019", "\u6c14\u5019"), ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", ) * 2,
    ("a\U0001f469\u200d\U0001f52cb", ) * 2, ("a\u00a0b\u3000c", "a b c"),
    ("a\tb\nc", "a\\x09b\\x0ac"), ("\x1b[2Jevil", "\\x1b[2Jevil"), ("a\u202eb", "a\\x202eb"),
    ("\x9b31m", "\\x9b31m"), ("a\u2066b\u2069", "a\\x2066b\\x2069")]


@pytest.mark.parametrize("name, shown", NAMES_SHOWN)
def test_a_jobs_name_keeps_what_can_be_shown(name, shown):
    """It was lost as a whole for one tab, joiner or no-break space; nothing moves a cursor."""
    squeue = json.dumps({"jobs": [{"job_id": 23, "job_state": ["RUNNING"], "name": name}]})
    assert shown == slurm_forms.parse_squeue(squeue)["23"].name
    assert [shown] == [one.name for one in pbs.parse_json(json.dumps(
        {"Jobs": {"23.pbs01": {"Job_Name": name}}})).values()]
    assert shown == errors.sanitize(name) == errors.sanitize(shown)


# -- none ------------------------------------------------------------------------------------

def test_no_batch_system_is_this_node_or_ssh_to_those_that_are_named():
    """No password is asked for, and a name is never an option."""
    assert [[]] == none.launchers({}, "")
    assert [["ssh", "-n", "-o", "BatchMode=yes", "--", "nid1"],
            ["ssh", "-n", "-o", "BatchMode=yes", "--", "nid2"]] == none.launchers({}, "nid[1-2]")
    assert {"user": "alice"} == none.about({"USER": "alice"})
    assert {} == none.facts(["4711"])


# -- any text --------------------------------------------------------------------------------

PARSERS = [pbs.parse_json, pbs.parse_text, lsf.parse_json, lsf.parse_text, flux.parse_json,
           flux.parse_text, sge.parse_xml, sge.parse_qacct]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(("Jobs", "RECORDS", "jobs", "id", "4711.pbs01", "JOBID", "STAT", "state",
                         "job_state", "exec_host", "EXEC_HOST", "nodelist", "Exit_status", "stime",
                         "resources_used", "walltime", "Variable_List", "waitstatus", "t_run",
                         "run_count", "EXIT_CODE", "result", "userid")) | st.text(max_size=4),
        inner, max_size=4), max_leaves=12)


def is_understood_or_refused(parse, text):
    try:
        found = parse(text)
    except NotReadable as error:
        assert "expected" in str(error) and "got" in str(error)
        return
    assert all(isinstance(one, Facts) for one in found.values())
    for job, one in found.items():
        assert job == one.raw_job and job.isprintable()
        assert one.state in (None, WAITING, RUNNING, ENDED)
        assert one.nodes.isprintable() and one.user.isprintable()


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: f"{parse.__module__}.{parse.__name__}")
@given(text=st.text())
def test_any_text_is_understood_or_refused(parse, text):
    """Never another exception."""
    is_understood_or_refused(parse, text)


@pytest.mark.parametrize("parse", [pbs.parse_json, lsf.parse_json, flux.parse_json],
                         ids=lambda parse: parse.__module__)
@given(value=JSON)
def test_any_json_is_understood_or_refused(parse, value):
    """A command of another release, or another command of that name."""
    import json
    is_understood_or_refused(parse, json.dumps(value))


@pytest.mark.parametrize("parse, name", [
    (pbs.parse_json, "pbs-jobs.json"), (pbs.parse_text, "pbs-job.txt"),
    (lsf.parse_json, "lsf-jobs.json"), (lsf.parse_text, "lsf-jobs.txt"),
    (flux.parse_json, "flux-jobs.json"), (flux.parse_text, "flux-jobs.txt"),
    (sge.parse_xml, "sge-jobs.xml"), (sge.parse_qacct, "sge-qacct-ocs.txt"),
], ids=lambda value: value if isinstance(value, str) else "")
@given(data=st.data())
def test_a_torn_or_changed_output_is_understood_or_refused(parse, name, data):
    """Cut off anywhere, with anything in between."""
    text = sample(name)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    is_understood_or_refused(parse, text[:start] + data.draw(st.text(max_size=9)) + text[end:])


def test_a_deeply_nested_json_is_refused():
    """No stack overflow."""
    with pytest.raises(NotReadable):
        pbs.parse_json('{"a":' * 100_000)


# -- hooks -----------------------------------------------------------------------------------

RECORDER = """#!/bin/sh
printf '%s\\n' "$@" >"$(dirname "$0")/arguments"
env | sort >"$(dirname "$0")/environment"
files=$(readlink /proc/$$/fd/0 /proc/$$/fd/1)
echo "$files" >"$(dirname "$0")/files"
echo noise
echo noise >&2
exit 37
"""
SCRIPTS = {
    "lsf_pre_exec": ("prolog", {"LSB_JOBID": "4711", "LSB_JOBINDEX": "3",
                                "LSB_JOB_EXECUSER": "alice", "LSB_MCPU_HOSTS": "nid001 4"}),
    "lsf_post_exec": ("epilog", {"LSB_JOBID": "4711", "LSB_JOBINDEX": "3",
                                 "LSB_JOB_EXECUSER": "alice", "LSB_MCPU_HOSTS": "nid001 4"}),
    "flux_prolog": ("prolog", {"FLUX_JOB_ID": "fuZZybuNNy", "FLUX_JOB_USERID": "1041"}),
    "flux_epilog": ("epilog", {"FLUX_JOB_ID": "fuZZybuNNy", "FLUX_JOB_USERID": "1041"}),
}


@pytest.fixture
def home(tmp_path):
    """A directory that is IOSTATS_HOME, with a recorder in the place of Python."""
    recorder = tmp_path / "python"
    recorder.write_text(RECORDER)
    recorder.chmod(0o755)
    (tmp_path / "iostats_client.py").write_text("")
    return tmp_path


def script(name, home):
    """
    (how to start it, path) of the hook, installed for `home`.  Where LSF's look for iostats stands
    in them: their environment is the user's.
    """
    installed = home / name
    text = (ROOT / "hooks" / name).read_text()
    installed.write_text(text.replace("IOSTATS_HOME=/usr/local/lib/iostats", f"IOSTATS_HOME={home}")
                         .replace("PYTHON=/usr/bin/python3", f"PYTHON={home}/python"))
    shutil.copymode(ROOT / "hooks" / name, installed)
    return ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", f"IOSTATS_HOME={home}",
            f"PYTHON={home}/python"], str(installed)


def run_script(name, home, **environ):
    before, path = script(name, home)
    return subprocess.run([*before, *(f"{key}={value}" for key, value in environ.items()), path],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_hook_calls_the_client_and_ends_with_0(name, home):
    """Although the client has failed, and has printed."""
    role, environ = SCRIPTS[name]
    done = run_script(name, home, **environ)
    assert (0, "") == (done.returncode, done.stdout)
    arguments = (home / "arguments").read_text().split("\n")
    assert ["-I", "-S", f"{home}/iostats_client.py", role] == arguments[:4]
    assert {"--never-fail", "--quiet"} <= set(arguments)
    assert ("flux" in name) == ("--uid" in arguments and "1041" in arguments)
    assert ["/dev/null", "/dev/null"] == (home / "files").read_text().split()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_hook_passes_on_who_the_job_is(name, home):
    """What the client reads it from, and what `about` understands."""
    _, environ = SCRIPTS[name]
    run_script(name, home, **environ)
    seen = dict(line.split("=", 1) for line in (home / "environment").read_text().splitlines())
    system = schedulers.detect_scheduler(seen)
    expected = {"lsf": {"job": "4711[3]", "user": "alice", "nodes": "nid001"},
                "flux": {"job": "fuZZybuNNy", "uid": 1041}}[system.NAME]
    assert expected == system.about(seen)


@pytest.mark.parametrize("name", ["lsf_pre_exec", "lsf_post_exec"])
def test_a_hook_of_lsf_takes_no_program_from_the_users_environment(name, home, tmp_path):
    """It runs as root, in the environment that the user submitted the job with."""
    evil = tmp_path / "evil"
    evil.mkdir()
    shutil.copy(home / "python", evil / "python")
    _, path = script(name, home)
    subprocess.run(["/usr/bin/env", "-i", f"PATH={evil}", f"IOSTATS_HOME={evil}",
                    f"PYTHON={evil}/python", "PYTHONPATH=/evil", "LD_X=1", "LSB_JOBID=4711", path],
                   check=True, capture_output=True, timeout=60)
    assert not (evil / "arguments").exists()
    seen = (home / "environment").read_text()
    assert "LSB_JOBID=4711" in seen and "evil" not in seen and "LD_X" not in seen


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_hook_ends_with_0_where_nothing_is_installed(name, home):
    """A node without Python, and without us; and without a job."""
    (home / "python").unlink()
    done = run_script(name, home)
    assert (0, "") == (done.returncode, done.stdout)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_hook_is_plain_sh(name):
    """`sh -n`, and no word of bash's."""
    subprocess.run(["/bin/sh", "-n", str(ROOT / "hooks" / name)], check=True)
    assert os.access(ROOT / "hooks" / name, os.X_OK)


class Rejected(SystemExit):
    pass


def pbs_module(event, **job):
    """What a hook of MoM's sees as `pbs`: pbs_module(7B), and the objects of the Hooks Guide."""
    module: Any = types.ModuleType("pbs")
    module.EXECJOB_PROLOGUE, module.EXECJOB_EPILOGUE, module.EXECJOB_END = 0x100, 0x200, 0x400
    module.EVENT_DEBUG = 0x80
    module.log = []

    def refuse(*_):
        raise Rejected("rejected")
    one = types.SimpleNamespace(type=getattr(module, event), job=types.SimpleNamespace(**job),
                                accept=lambda: None, reject=refuse)
    module.event = lambda: one
    module.logmsg = lambda level, text: module.log.append(text)
    module.get_local_nodename = lambda: "nid001"
    return module


def run_pbs_hook(module, home, monkeypatch, within_s="60.0"):
    """The log of PBS; `within_s`: the second that it has is too short for a loaded machine."""
    monkeypatch.setitem(sys.modules, "pbs", module)
    monkeypatch.setenv("IOSTATS_HOME", str(home))
    monkeypatch.setenv("IOSTATS_PYTHON", str(home / "python"))
    text = (ROOT / "hooks" / "pbs_hook.py").read_text()
    assert 1 == text.count("WITHIN_S = 1.0\n")
    (home / "pbs_hook.py").write_text(text.replace("WITHIN_S = 1.0", f"WITHIN_S = {within_s}"))
    runpy.run_path(str(home / "pbs_hook.py"))
    return module.log


JOB = dict(id="4711[3].pbs01", euser="alice", run_count=3, Account_Name="climate",
           exec_host="nid001/0*64+nid002/0*64+nid001/1",
           queue=types.SimpleNamespace(name="workq"))


@pytest.mark.parametrize("event, role", [("EXECJOB_PROLOGUE", "prolog"),
                                         ("EXECJOB_EPILOGUE", "epilog")])
def test_the_pbs_hook_calls_the_client(event, role, home, monkeypatch):
    """With all that the job object has; a third run is attempt 2."""
    assert [] == run_pbs_hook(pbs_module(event, **JOB), home, monkeypatch)
    assert ["-I", "-S", f"{home}/iostats_client.py", role, "--job", "4711[3].pbs01", "--user",
            "alice", "--node", "nid001", "--nodes", "nid001,nid002", "--attempt", "2",
            "--never-fail", "--quiet"] == (home / "arguments").read_text().splitlines()
    seen = dict(line.split("=", 1) for line in (home / "environment").read_text().splitlines())
    assert {"job": "4711[3].pbs01", "account": "climate", "partition": "workq",
            "cluster": "pbs01"} == pbs.about(seen)


@pytest.mark.parametrize("event, job", [
    ("EXECJOB_PROLOGUE", dict(id="4711.pbs01")),
    ("EXECJOB_EPILOGUE", dict(id="4711.pbs01", euser=None, exec_host=None, run_count=None)),
    ("EXECJOB_PROLOGUE", dict()),
    ("EXECJOB_PROLOGUE", dict(id="4711.pbs01", run_count="x")),
    ("EXECJOB_END", dict(id="4711.pbs01")),
], ids=["a bare job", "nothing set", "no job", "no number", "another event"])
def test_the_pbs_hook_never_rejects(event, job, home, monkeypatch):
    """Whatever the job object lacks; the MoM's log says what was wrong."""
    log = run_pbs_hook(pbs_module(event, **job), home, monkeypatch)
    assert all(text.startswith("iostats: ") for text in log)
    assert ("id" not in job or job.get("run_count") == "x") == bool(log)


def test_the_pbs_hook_lets_no_job_wait(home, monkeypatch):
    """A client that hangs is ended after a second, and the job goes on."""
    (home / "python").write_text("#!/bin/sh\nexec sleep 37\n")
    [text] = run_pbs_hook(pbs_module("EXECJOB_PROLOGUE", **JOB), home, monkeypatch, "1.0")
    assert "iostats: prolog: not done within 1 s" == text


def test_the_pbs_hook_survives_a_node_without_us(home, monkeypatch):
    """No Python, no client."""
    (home / "python").unlink()
    [text] = run_pbs_hook(pbs_module("EXECJOB_PROLOGUE", **JOB), home, monkeypatch)
    assert "No such file" in text


def test_the_pbs_hook_can_be_read_without_pbs(monkeypatch):
    """For this test, and for who wants to look at it."""
    monkeypatch.setitem(sys.modules, "pbs", None)
    assert "a,b" == runpy.run_path(str(ROOT / "hooks" / "pbs_hook.py"))["hosts"]("a/0*4+b/0+a/1")


def test_words_for_ends_are_slurms():
    """One word for one thing, whoever says it."""
    words = {*lsf.REASONS.values(), *flux.RESULTS.values()}
    assert words <= {job_facts.TIMEOUT, job_facts.CANCELLED, job_facts.OUT_OF_MEMORY}
