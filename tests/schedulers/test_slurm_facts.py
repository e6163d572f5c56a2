"""
What Slurm tells of a job: its environment, the steps we launch in it, and its commands, from what
they printed once (tests/data/schedulers) and on a real cluster (tests/cluster.py).
"""

import json
import re
import subprocess
import sys

import pytest
from cluster import ALICE, BOB
from hypothesis import given
from hypothesis import strategies as st
from processes import until
from trees import DATA

from iostats.base.errors import NotReadable, UsageError
from iostats.base.job_facts import ENDED, RUNNING, WAITING, Facts
from iostats.schedulers import commands, slurm_facts
from iostats.schedulers import slurm as leaf
from iostats.schedulers import slurm_output as forms

SAMPLES = DATA / "schedulers"
BEGAN = 1_795_259_910                             # 2026-11-21 11:18:30 UTC


pytestmark = pytest.mark.usefixtures("utc")     # `sacct` and `squeue` print local times


def sample(name):
    return (SAMPLES / f"slurm_{name}").read_text(encoding="utf-8")


class Answers:
    """A `run` that answers by the command's name, with "_json" for --json; keeps what was asked."""

    def __init__(self, **answers):
        self._answers, self.asked = answers, []

    def __call__(self, argv):
        self.asked.append(argv)
        name = argv[0] + ("_json" if "--json" in argv else "")
        status, stdout, stderr = self._answers.get(name, (1, "", f"{name}: fatal: no such thing"))
        return subprocess.CompletedProcess(argv, status, stdout, stderr)

    @property
    def names(self):
        return [argv[0] + (" --json" if "--json" in argv else "") for argv in self.asked]


# -- the environment -----------------------------------------------------------------------------

def test_a_jobs_script_tells_all_that_a_prolog_tells():
    """The variables of 22.05."""
    assert {"job": "4711", "attempt": 0, "nodes": "nid[003-004]", "user": "alice", "uid": 1041,
            "account": "physics", "partition": "long", "cluster": "north",
            "work_dir": "/home/alice"} == leaf.about({
                "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "nid[003-004]",
                "SLURM_JOB_USER": "alice", "SLURM_JOB_UID": "1041", "SLURM_NODELIST": "x",
                "SLURM_JOB_ACCOUNT": "physics", "SLURM_JOB_PARTITION": "long",
                "SLURM_CLUSTER_NAME": "north", "SLURM_SUBMIT_DIR": "/home/alice"})
    assert {"job": "4711", "attempt": 3, "nodes": "nid[003-004]", "user": "alice", "uid": 1041,
            "output": "/home/alice/slurm-%A_%a.out", "work_dir": "/home/alice"} == leaf.about({
                "SLURM_JOB_ID": "4711", "SLURM_NODELIST": "nid[003-004]",
                "SLURM_JOB_USER": "alice", "SLURM_JOB_UID": "1041",
                "SLURM_JOB_RESTART_COUNT": "3", "SLURM_JOB_STDOUT": "/home/alice/slurm-%A_%a.out",
                "SLURM_JOB_WORK_DIR": "/home/alice"})


def test_a_script_that_runs_again_tells_so():
    """By another name than a prolog."""
    assert 2 == leaf.about({"SLURM_JOB_ID": "23", "SLURM_RESTART_COUNT": "2"})["attempt"]
    assert "attempt" not in leaf.about({"SLURM_JOB_ID": "23", "SLURM_RESTART_COUNT": "x"})
    assert "attempt" not in leaf.about({"SLURM_RESTART_COUNT": "2"})


HET = {"SLURM_JOB_ID": "12", "SLURM_HET_SIZE": "3", "SLURM_JOB_NODELIST": "nid001",
       "SLURM_JOB_NODELIST_HET_GROUP_0": "nid001", "SLURM_JOB_NODELIST_HET_GROUP_1": "nid[002-003]",
       "SLURM_JOB_NODELIST_HET_GROUP_2": "gpu7"}


@pytest.mark.parametrize("change, nodes", [
    ({}, "nid001,nid[002-003],gpu7"),
    ({"SLURM_JOB_NODELIST_HET_GROUP_2": "nid003"}, "nid001,nid002,nid003"),
    ({"SLURM_JOB_NODELIST_HET_GROUP_2": ""}, None),
    ({"SLURM_JOB_NODELIST_HET_GROUP_2": "nid[1"}, None),
], ids=["all parts", "two parts on one node", "a part is not told", "a part is no list"])
def test_a_heterogeneous_job_has_the_nodes_of_all_its_parts(change, nodes):
    """A list that is not complete would be taken for the whole."""
    assert nodes == leaf.about({**HET, **change}).get("nodes")


# -- launching -----------------------------------------------------------------------------------

def test_one_srun_for_all_nodes_without_the_options_of_the_jobs_own_steps():
    """What is left is what says which job it is."""
    environ = {"SLURM_JOB_ID": "23", "SLURM_JOB_NODELIST": "nid[1-3]", "SLURM_NTASKS": "41",
               "SLURM_CPUS_PER_TASK": "7", "SRUN_CONTAINER": "/x", "SLURM_CONF": "/etc/slurm.conf",
               "SLURM_ARRAY_TASK_ID": "5", "HOME": "/home/alice"}
    [launcher] = leaf.launchers(environ, ["nid1", "nid2", "nid3"])
    assert ["env", "-u", "SLURM_CPUS_PER_TASK", "-u", "SLURM_JOB_NODELIST", "-u", "SLURM_NTASKS",
            "-u", "SRUN_CONTAINER", "srun", "--nodes=3", "--ntasks=3"] == launcher[:12]
    assert "--overlap" in launcher and not [word for word in launcher if "--nodelist" in word]


def test_some_of_the_nodes_are_named():
    """And this one alone needs no srun."""
    environ = {"SLURM_JOB_ID": "23", "SLURM_JOB_NODELIST": "nid[1-3]", "SLURMD_NODENAME": "nid1"}
    [launcher] = leaf.launchers(environ, "nid[2-3]")
    assert "--nodes=2" in launcher and "--nodelist=nid2,nid3" in launcher
    assert [[]] == leaf.launchers(environ, "nid1")
    assert [[]] != leaf.launchers(environ, "nid2")
    assert [[]] == leaf.launchers({}, "nid2")
    assert [[]] == leaf.launchers(environ, "")


def test_each_part_of_a_heterogeneous_job_has_its_srun():
    """And a node of two parts has one process."""
    launchers = leaf.launchers({**HET, "SLURM_JOB_NODELIST_HET_GROUP_2": "nid[003-004]"},
                               "nid[001-004]")
    assert [["--nodes=1", "--ntasks=1", "--het-group=0"],
            ["--nodes=2", "--ntasks=2", "--het-group=1"],
            ["--nodes=1", "--ntasks=1", "--het-group=2", "--nodelist=nid004"]] == [
                [word for word in launcher if word.startswith(("--n", "--het"))
                 and word not in ("--ntasks-per-node=1", "--no-kill")] for launcher in launchers]


# -- saved outputs -------------------------------------------------------------------------------

def test_a_job_as_squeue_of_22_05_tells_it():
    """Every field, once; the time limit is no end, the name has a | in it."""
    assert Facts(
        job="1", raw_job="1", user=ALICE, uid=64123, account="physics", partition="main",
        name="name | with blanks", cluster="sim", nodes="node[1-2]", node_count=2, state=RUNNING,
        started=BEGAN, work_dir=f"/sim/work/{ALICE}",
        output=f"/sim/work/{ALICE}/out-1-name | with blanks-node1.txt",
        comments={"AdminComment": "keep 'this' \"text\"", "Comment": "hello | world"},
        tasks=2, cpus=2,
    ) == forms.parse_squeue(sample("squeue_22.05.json"))["1"]


JOBS_22_05 = {
    "2": dict(job="2", state=ENDED, outcome="FAILED", exit_status=7, ended=BEGAN, node_count=2),
    "3": dict(job="3", state=ENDED, outcome="FAILED", exit_status=0, exit_signal=9),
    "11": dict(job="4_0", array_job="4", array_task="0", outcome="COMPLETED", exit_status=0),
    "12": dict(job="4_1", array_job="4", array_task="1", state=RUNNING, outcome="", ended=None,
               exit_status=None),
    "4": dict(job="4_2", array_job="4", array_task="2", outcome="FAILED", exit_status=7),
    "5": dict(job="5", array_job="5", array_task="", state=WAITING, nodes="", node_count=None,
              started=None, ended=None, exit_status=None),
    "6": dict(state=ENDED, outcome="CANCELLED", started=None, nodes=""),
    "7": dict(outcome="NODE_FAIL", nodes="node4", exit_status=0),
    "8": dict(outcome="COMPLETED", restarts=1, started=BEGAN + 26),
    "9": dict(job="9+0", het_job="9", het_offset="0", outcome="FAILED", exit_status=3,
              nodes="node1"),
    "10": dict(job="9+1", het_job="9", het_offset="1", outcome="FAILED", exit_status=3,
               nodes="node[2-3]", node_count=2),
}
NOT_IN = {                                        # and what a command does not tell
    "squeue_22.05.txt": {"exit_status", "exit_signal", "restarts"},
    "sacct_22.05.txt": set(),
}


@pytest.mark.parametrize("raw", JOBS_22_05)
@pytest.mark.parametrize("name, parse", [
    ("squeue_22.05.json", forms.parse_squeue), ("squeue_22.05.txt", forms.parse_squeue_lines),
    ("sacct_22.05.txt", forms.parse_sacct_lines)], ids=lambda value: str(value)[:16])
def test_jobs_of_every_kind_as_22_05_tells_them(name, parse, raw):
    """The same jobs in the same minute, by three commands."""
    found = parse(sample(name))
    if name.startswith("sacct") and raw in ("5", "6"):
        assert raw not in found                   # what has not begun is not in the accounting
        return
    expected = {key: value for key, value in JOBS_22_05[raw].items()
                if key not in NOT_IN.get(name, ())}
    assert expected == {key: getattr(found[raw], key) for key in expected}


def test_jobs_output_files_as_sbatch_named_them():
    """Slurm has written these files; 9+1 has no script, and so no output of its own."""
    found = forms.parse_squeue(sample("squeue_22.05.json"))
    assert {
        "2": "slurm-2.out", "11": "4_0-node1-iostats-alice-0011.txt",
        "4": "4_2-node1-iostats-alice-0004.txt", "5": "", "9": "slurm-9.out", "10": "",
    } == {raw: found[raw].output.replace(f"/sim/work/{ALICE}/", "")
          for raw in ("2", "11", "4", "5", "9", "10")}


def test_sacct_json_of_22_05_is_not_believed_that_all_went_well():
    """It has 0 for `exit 7`; the signal of job 3 is right, and so is a COMPLETED."""
    found = forms.parse_sacct(sample("sacct_22.05.json"))
    assert (None, None) == (found["2"].exit_status, found["2"].exit_signal)
    assert (0, 9) == (found["3"].exit_status, found["3"].exit_signal)
    assert (0, None) == (found["11"].exit_status, found["11"].exit_signal)
    assert (("batch", "FAILED"),) == found["2"].steps
    assert BEGAN + 26 == found["8"].started       # of its last run
    assert "name | with blanks" == found["1"].name


JOBS_24_11 = {
    "4711": dict(state=ENDED, outcome="COMPLETED", exit_status=0, started=1795259023,
                 ended=1795261037, uid=1041, output="/home/alice/slurm-4711.out"),
    "4712": dict(state=RUNNING, ended=None, restarts=3, exit_status=None, tasks=23, cpus=184,
                 output="/scratch/alice/solve-004712-nid003.out",
                 comments={"AdminComment": "it's \"theirs\"", "Comment": "mine"}),
    "4713": dict(job="4713_0", array_job="4713", array_task="0", outcome="FAILED", exit_status=7,
                 output="/home/alice/4713_000.out"),
    "4714": dict(job="4714", array_job="4714", array_task="", state=WAITING, started=None),
    "4715": dict(outcome="OUT_OF_MEMORY", exit_status=0, exit_signal=9,
                 output="/home/alice/as slurm says.out"),
    "4716": dict(job="4716+0", outcome="TIMEOUT"),
    "4717": dict(job="4716+1", het_job="4716", het_offset="1", nodes="nid007", node_count=1),
    "4718": dict(state=None, outcome="", exit_status=None),
    "4719": dict(state=WAITING, restarts=1),
    "4720": dict(state=ENDED, outcome="CANCELLED", started=None, output=""),
}


@pytest.mark.parametrize("raw", JOBS_24_11)
def test_jobs_of_every_kind_as_newer_releases_tell_them(raw):
    """Lists of states, and numbers that can be unset."""
    found = forms.parse_squeue(sample("squeue_24.11.json"))[raw]
    assert JOBS_24_11[raw] == {key: getattr(found, key) for key in JOBS_24_11[raw]}


def test_the_accounting_as_newer_releases_tell_it():
    """The last run counts, whatever the order."""
    found = forms.parse_sacct(sample("sacct_24.11.json"))
    assert dict(outcome="COMPLETED", restarts=1, started=1795260023, exit_status=0,
                output="/home/alice/slurm-4719.out", node_count=2,
                steps=(("batch", "COMPLETED"), ("app", "COMPLETED"))) == {
        key: getattr(found["4719"], key) for key in (
            "outcome", "restarts", "started", "exit_status", "output", "node_count", "steps")}
    assert ("4713_0", 7, {"SystemComment": "its | own", "Comment": "mine"}) == (
        found["4713"].job, found["4713"].exit_status, found["4713"].comments)
    assert ("4716+1", "nid007", None) == (
        found["4717"].job, found["4717"].nodes, found["4717"].exit_status)
    assert ("CANCELLED", None, "") == (
        found["4720"].outcome, found["4720"].started, found["4720"].nodes)
    record = json.loads(sample("sacct_24.11.json"))
    record["jobs"].reverse()
    assert found == forms.parse_sacct(json.dumps(record))


@pytest.mark.parametrize("pattern, path", [
    ("/d/%x.%j", "/d/solve.37"), ("rel/%j", "/home/alice/rel/37"), ("/d/100%%", "/d/100%"),
    ("/d/%5A_%3a", "/d/00041_007"), ("/d/%b", "/d/7"), ("/d/%N/%u", "/d/nid1/alice"),
    ("/d/%s", ""), ("/d/%t", ""), ("/d/%J", ""), ("/d/%", ""), ("/d/%12j", "/d/000000000037"),
    ("/d/%123j", ""), (r"/d/\%j", ""), ("", ""), ("/d/%9x", "/d/solve"),
])
def test_patterns_of_sbatch(pattern, path):
    """sbatch(1), "filename pattern"."""
    one = Facts(raw_job="37", job="41_7", array_job="41", array_task="7", name="solve",
                user="alice", work_dir="/home/alice", nodes="nid[1-3]")
    assert path == forms.expand_pattern(pattern, one)


# -- which command is asked ----------------------------------------------------------------------

ERROR = (1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
UNKNOWN = (1, "", "slurm_load_jobs error: Invalid job id specified")


def test_what_slurmctld_knows_is_asked_once():
    """22.05 prints all jobs; those that were not asked for are not told."""
    run = Answers(squeue_json=(0, sample("squeue_22.05.json"), ""))
    assert {"2", "12"} == set(leaf.facts(["2", "4_1"], run))
    assert ["squeue --json"] == run.names
    assert "--jobs=2,4_1" in run.asked[0]


def test_what_it_has_forgotten_the_accounting_tells():
    """The exit status from lines, users' words from JSON."""
    run = Answers(squeue_json=UNKNOWN, sacct=(0, sample("sacct_22.05.txt"), ""),
                  sacct_json=(0, sample("sacct_22.05.json"), ""))
    found = leaf.facts(["2", "8", "1", "9999"], run)
    assert {"2", "8", "1"} == set(found)
    assert (7, "sbatch", 64123, 2) == (found["2"].exit_status, found["2"].name, found["2"].uid,
                                       found["2"].node_count)
    assert (1, "COMPLETED", 0) == (found["8"].restarts, found["8"].outcome, found["8"].exit_status)
    assert "name | with blanks" == found["1"].name
    assert ["squeue --json", "sacct", "sacct --json"] == run.names


def test_without_json_it_is_lines():
    """Slurm before 20.11; what users write is not told."""
    run = Answers(squeue=(0, sample("squeue_22.05.txt"), ""),
                  sacct=(0, sample("sacct_22.05.txt"), ""))
    found = leaf.facts(["1", "2"], run)
    assert (7, "FAILED", "") == (found["2"].exit_status, found["2"].outcome, found["2"].name)
    assert RUNNING == found["1"].state
    assert ["squeue --json", "squeue", "sacct", "sacct --json"] == run.names


def test_a_completing_job_is_ended_when_the_accounting_says_so():
    """22.05 has one word only, and that word is also a requeued job's."""
    live = json.loads(sample("squeue_22.05.json"))
    for job in live["jobs"]:
        job["job_state"] = "COMPLETING"
    answers = dict(squeue_json=(0, json.dumps(live), ""),
                   sacct=(0, sample("sacct_22.05.txt"), ""))
    found = leaf.facts(["2", "1", "6"], Answers(**answers))
    assert (ENDED, "FAILED", 7, BEGAN) == (
        found["2"].state, found["2"].outcome, found["2"].exit_status, found["2"].ended)
    assert RUNNING == found["1"].state            # the accounting is behind
    assert None is found["6"].state
    requeued = sample("sacct_22.05.txt").replace("2|2|FAILED|7:0", "2|2|REQUEUED|0:0")
    answers["sacct"] = (0, requeued, "")
    assert WAITING == leaf.facts(["2"], Answers(**answers))["2"].state


def test_no_answer_at_all_is_not_no_such_job():
    """So is a site without accounting, whose slurmctld has forgotten the job."""
    with pytest.raises(NotReadable, match="Unable to contact slurm controller"):
        leaf.facts(["2"], Answers(squeue_json=ERROR, squeue=ERROR))
    none = (1, "", "Slurm accounting storage is disabled")
    assert {} == leaf.facts(["2"], Answers(squeue_json=UNKNOWN, sacct=none))
    down = Answers(squeue_json=ERROR, squeue=ERROR, sacct=(0, sample("sacct_22.05.txt"), ""))
    assert 7 == leaf.facts(["2"], down)["2"].exit_status


def test_what_can_be_no_job_of_slurms_is_not_asked_for():
    """Another batch system's, or a node's."""
    run = Answers()
    assert {} == leaf.facts(["4711.pbs01", "143_[1-3]", "fuZZy"], run)
    assert [] == run.asked
    with pytest.raises(UsageError):
        leaf.facts(["-M other"], run)


def test_a_name_with_a_line_end_speaks_of_no_other_job():
    """In JSON it is a name; the lines have no field that a user writes."""
    live = json.loads(sample("squeue_22.05.json"))
    live["jobs"][0]["name"] = "x\n2|2|COMPLETED|0|root|root|main|1|N|N|node1"
    found = leaf.facts(["1", "2"], Answers(squeue_json=(0, json.dumps(live), "")))
    assert "x\\x0a2|2|COMPLETED|0|root|root|main|1|N|N|node1" == found["1"].name
    assert "root" not in {one.user for one in found.values()}
    for field in ("%j", "%k", "%o", "%Z"):
        assert field not in forms.LIVE
    assert not {"JobName", "Comment", "WorkDir", "SubmitLine"} & set(forms.ACCOUNTED.split(","))


@pytest.mark.parametrize("live, words", [
    (dict(squeue_json=(0, sample("squeue_22.05.json"), "")), "squeue --json"),
    (dict(squeue=(0, "", "")), "squeue, as lines: names, paths and comments of jobs are missing")])
@pytest.mark.parametrize("accounting, older", [
    ((0, "", ""), "of older ones from sacct"),
    ((1, "", "Slurm accounting storage is disabled"),
     "no data for jobs that slurmctld has dropped: there is no accounting"),
    ((1, "", "sacct: error: Connection refused"),
     "no data for jobs that slurmctld has dropped: sacct: expected exit status 0, got "
     "1: sacct: error: Connection refused")])
def test_doctor_can_say_which_way_it_is(live, words, accounting, older):
    """Each way is tried; `squeue --version` is printed beside a dead controller as well."""
    assert f"{words}; {older}" == leaf.facts_source(Answers(**live, sacct=accounting))


def test_doctor_can_say_that_there_is_no_way():
    with pytest.raises(NotReadable):
        leaf.facts_source(Answers())
    with pytest.raises(NotReadable):
        leaf.facts_source(Answers(
            squeue=(1, "", "slurm_load_jobs error: Unable to contact controller")))


PARSERS = [forms.parse_squeue, forms.parse_sacct, forms.parse_squeue_lines,
           forms.parse_sacct_lines, forms.parse_pyslurm]
KEYS = ("jobs job_id array_job_id array_task_id het_job_id het_job_offset job_state exit_code "
        "nodes set infinite number return_code signal id state current time start submission array "
        "het comment steps step name standard_output user_name restart_cnt array_id "
        "exit_code_signal node_count start_time array_tasks_waiting").split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(("RUNNING", "COMPLETED", "nid[1-3]", "%j", "4711")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=6), max_leaves=14)


def is_understood_or_refused(parse, text):
    try:
        found = parse(text)
    except NotReadable as error:
        assert "expected" in str(error) and "got" in str(error)
        return
    for raw, one in found.items():
        assert raw == one.raw_job and raw.isascii() and raw.isdigit()
        assert one.state in (None, WAITING, RUNNING, ENDED)
        assert (one.nodes + one.user + one.output + one.job).isprintable()
        assert isinstance(one.restarts, int)


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
@given(text=st.text() | st.lists(st.text(max_size=5), min_size=11, max_size=14).map("|".join))
def test_any_text_is_understood_or_refused(parse, text):
    """Never another exception."""
    is_understood_or_refused(parse, text)


@pytest.mark.parametrize("parse", [forms.parse_squeue, forms.parse_sacct, forms.parse_pyslurm],
                         ids=lambda parse: parse.__name__)
@given(job=st.dictionaries(st.sampled_from(KEYS), JSON, max_size=9), rest=JSON)
def test_any_json_is_understood_or_refused(parse, job, rest):
    """A release that we do not know, with a job in it."""
    is_understood_or_refused(parse, json.dumps(rest))
    is_understood_or_refused(parse, json.dumps({"jobs": [{**job, "job_id": 23, "id": 23}]}))


# -- pyslurm -------------------------------------------------------------------------------------

STAND_IN = """
import types
__version__ = "25.11.2"
def _job(**fields):
    return types.SimpleNamespace(**{**dict(
        array_id=None, array_task_id=None, heterogeneous_id=None, heterogeneous_offset=None,
        state="COMPLETED", exit_code=0, exit_code_signal=0, start_time=1795259023,
        end_time=1795261037, user_name="alice", user_id=1041, account="physics", partition="long",
        name="solve", cluster="north", num_nodes=2, requeue_count=0, comment=None,
        ntasks=23, cpus=37,
        admin_comment="theirs", system_comment=None, working_directory="/home/alice"), **fields})
def _live(**fields):
    return _job(allocated_nodes="nid[003-004]", standard_output="/home/alice/slurm-23.out",
                is_batch_job=True, array_tasks_waiting=None, **fields)
class RPCError(Exception):
    pass
class Jobs:
    @staticmethod
    def load():
        return {23: _live(id=23), 37: _live(id=37, state="FAILED", exit_code=7),
                41: _live(id=41, state="RUNNING", array_id=40, requeue_count=3),
                43: _live(id=43, heterogeneous_id=42, heterogeneous_offset=1, exit_code_signal=9,
                          state="TIMEOUT"), 53: _live(id=53)}
class db:
    class JobFilter:
        def __init__(self, ids):
            self.ids = ids
    class Jobs:
        @staticmethod
        def load(job_filter):
            if 47 not in job_filter.ids:
                raise RPCError("not there")
            return {47: _job(id=47, nodelist="nid007", num_nodes=1)}
"""


@pytest.fixture
def pyslurm(tmp_path, monkeypatch):
    """A stand-in with the attributes of 25.11, for this process and its children."""
    (tmp_path / "pyslurm.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    slurm_facts.find_pyslurm_version.cache_clear()
    yield tmp_path / "pyslurm.py"
    slurm_facts.find_pyslurm_version.cache_clear()


def test_pyslurm_is_asked_where_it_works(pyslurm):
    """Of live jobs and of the accounting's; an exit status that it has altered is not taken."""
    found = leaf.facts(["23", "37", "40_0", "42+1", "47"], _pyslurm_or(Answers()))
    assert Facts(
        job="23", raw_job="23", user="alice", uid=1041, account="physics", partition="long",
        name="solve", cluster="north", nodes="nid[003-004]", node_count=2, state=ENDED,
        outcome="COMPLETED", exit_status=0, started=1795259023, ended=1795261037,
        output="/home/alice/slurm-23.out", work_dir="/home/alice",
        comments={"AdminComment": "theirs"}, tasks=23, cpus=37) == found["23"]
    assert ("FAILED", None) == (found["37"].outcome, found["37"].exit_status)
    assert ("40_0", RUNNING, 3) == (found["41"].job, found["41"].state, found["41"].restarts)
    assert ("42+1", 0, 9) == (found["43"].job, found["43"].exit_status, found["43"].exit_signal)
    assert ("nid007", "COMPLETED") == (found["47"].nodes, found["47"].outcome)
    assert {"23", "37", "41", "43", "47"} == set(found)
    assert "pyslurm 25.11.2; of older ones from sacct" == leaf.facts_source(
        _pyslurm_or(Answers(sacct=(0, "", ""))))


@pytest.mark.parametrize("told, status", [("exit_code=72", 200), ("exit_code=None", 128)])
def test_squeue_tells_the_exit_status_that_pyslurm_alters(pyslurm, told, status):
    """72 for 200, and None for 0, which was 128; the rest is pyslurm's.  No accounting needed."""
    pyslurm.write_text(STAND_IN.replace("exit_code=7)", f"{told})"))
    squeue = {"jobs": [{**json.loads(sample("squeue_22.05.json"))["jobs"][0], "job_id": 37,
                        "array_job_id": 0, "array_task_id": None, "job_state": "FAILED",
                        "exit_code": status << 8}]}
    run = Answers(squeue_json=(0, json.dumps(squeue), ""))

    one = leaf.facts(["37"], _pyslurm_or(run))["37"]

    assert (status, None, "FAILED", "long") == (one.exit_status, one.exit_signal, one.outcome,
                                                one.partition)
    assert ["squeue --json"] == run.names


def test_the_accounting_tells_the_exit_status_that_pyslurm_does_not(pyslurm):
    """Nothing else is asked for."""
    line = "37|37|FAILED|135:0|1041|alice|physics|long|2|1|1|1|north|nid[003-004]\n"
    run = Answers(sacct=(0, line, ""))
    found = leaf.facts(["23", "37"], _pyslurm_or(run))
    assert (135, "solve") == (found["37"].exit_status, found["37"].name)
    assert "--jobs=37" in run.asked[0]


@pytest.mark.parametrize("text", [
    "import os; os._exit(1)", "raise ImportError('Slurm version mismatch')", "Jobs = None",
    STAND_IN.replace("def load():", "def load():\n        raise RPCError('down')"),
], ids=["ends the process", "another release", "an old pyslurm", "does not answer"])
def test_where_pyslurm_does_not_work_commands_are_asked(pyslurm, text):
    """Its import ends a process that finds no slurm.conf; not this one."""
    pyslurm.write_text(text)
    run = Answers(squeue_json=(0, sample("squeue_22.05.json"), ""))
    assert 7 == leaf.facts(["2"], _pyslurm_or(run))["2"].exit_status
    assert ["squeue --json"] == run.names
    # The doctor tries the very look-up: an import proves nothing beside another release.
    found = leaf.facts_source(_pyslurm_or(run))
    assert found.startswith("squeue --json (pyslurm ") and " does not work: " in found


def _pyslurm_or(run):
    """Run Python, and let `run` answer the rest."""
    return lambda argv: commands.run_command(argv) if argv[0] == sys.executable else run(argv)


# -- a real cluster ------------------------------------------------------------------------------

@pytest.fixture
def ask(slurm):
    """A `run` for slurm.facts and others: on the controller, as root."""
    return lambda argv: slurm.ctl(*argv, check=False)


def accounted(slurm, job, state):
    """
    Wait until the accounting has this state of the job, and of what job: it can be 5 s behind, and
    hear of the end first.
    """
    def seen():
        done = slurm.ctl("sacct", "-X", "-n", "-P", "-j", job, "-o", "State,Partition,WorkDir")
        words = done.stdout.split("\n")[0].split("|")
        return words[0].startswith(state) and all(words)
    until(seen, 150, f"{state} of job {job} in the accounting")


def fields(facts, *names):
    return tuple(getattr(facts, name) for name in names)


@pytest.mark.slurm
@pytest.mark.root
def test_jobs_of_every_kind_on_a_real_cluster(slurm, ask):
    """By squeue, and, when slurmctld has forgotten them, by sacct: the same."""
    submit = slurm.submit
    running = submit("sleep 600", "--nodes=2", "--job-name=name with blanks", "--comment=mine")
    (slurm.work(BOB) / "done").mkdir()
    slurm.ctl("chown", BOB, slurm.work(BOB) / "done")
    completed = submit("true", "--nodes=3", "--output=%x/%u-%5j-%N.%%", "-J", "done", user=BOB)
    failed = submit("exit 7")
    killed = submit("kill -9 $$")
    array = submit("exit $SLURM_ARRAY_TASK_ID", "--array=0-2", "--output=%A-%a.txt")
    het = submit("#!/bin/sh\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2\nexit 3\n")
    cancelled, never = submit("sleep 600"), submit("sleep 600", "--begin=now+600")
    again = submit('[ "$SLURM_RESTART_COUNT" ] || { scontrol requeue $SLURM_JOB_ID; sleep 600; }')
    lost = submit("sleep 600", "-w", "node4", "--no-requeue")
    for job in (cancelled, lost, running):
        slurm.wait_until("RUNNING", job)
    slurm.ctl("scancel", cancelled, never)
    slurm.run_again(again)
    for job in (completed, failed, killed, array, het, cancelled, never, again):
        slurm.wait(job)                 # what is still on node4 when that dies is requeued
    slurm.kill_node("node4")
    slurm.wait(lost)

    raws = [str(number) for number in range(int(running), int(lost) + 9)]
    found = {one.job: one for one in leaf.facts(raws, ask).values()}
    ways = fields(found[running], "state", "outcome", "name", "nodes", "node_count", "user", "uid",
                  "account", "partition", "cluster", "ended", "exit_status", "comments")
    assert (RUNNING, "", "name with blanks", "node[1-2]", 2, ALICE, 64123, "physics", "main", "sim",
            None, None, {"Comment": "mine"}) == ways

    def outcomes(found):
        return {name: fields(found[job], "state", "outcome", "exit_status", "exit_signal",
                             "restarts")
                for name, job in {
                    "completed": completed, "failed": failed, "killed": killed,
                    "task 0": f"{array}_0", "task 1": f"{array}_1", "task 2": f"{array}_2",
                    "part 0": f"{het}+0", "part 1": f"{het}+1", "again": again, "lost": lost,
                    "cancelled": cancelled}.items()}
    expected = {
        "completed": (ENDED, "COMPLETED", 0, None, 0), "failed": (ENDED, "FAILED", 7, None, 0),
        "killed": (ENDED, "FAILED", 0, 9, 0), "task 0": (ENDED, "COMPLETED", 0, None, 0),
        "task 1": (ENDED, "FAILED", 1, None, 0), "task 2": (ENDED, "FAILED", 2, None, 0),
        "part 0": (ENDED, "FAILED", 3, None, 0), "part 1": (ENDED, "FAILED", 3, None, 0),
        "again": (ENDED, "COMPLETED", 0, None, 1), "lost": (ENDED, "NODE_FAIL", 0, None, 0)}
    by_squeue = outcomes(found)
    assert "CANCELLED" == by_squeue.pop("cancelled")[1]
    assert expected == by_squeue
    assert (ENDED, "CANCELLED", None, "") == fields(found[never], "state", "outcome", "started",
                                                    "nodes")
    # The file that it names is the one that the job has written.
    for job, name in ((completed, f"done/{BOB}-{int(completed):05d}-node1.%"),
                      (f"{array}_1", f"{array}-1.txt"), (f"{het}+0", f"slurm-{het}.out")):
        assert str(slurm.work(BOB if job == completed else ALICE) / name) == found[job].output
        assert (slurm.work(BOB if job == completed else ALICE) / name).exists()

    for job in (completed, failed, killed, cancelled, again, lost, f"{het}+0", f"{het}+1",
                *(f"{array}_{task}" for task in range(3))):
        accounted(slurm, job, found[job].outcome)

    def forgotten(argv):
        if argv[0] == "squeue":
            return subprocess.CompletedProcess(argv, 1, "", UNKNOWN[2])
        return ask(argv)
    later = {one.job: one for one in leaf.facts(raws, forgotten).values()}
    by_sacct = outcomes(later)
    assert "CANCELLED" == by_sacct.pop("cancelled")[1]
    # A first run of less than 5 s may not have come to the accounting.
    assert by_sacct["again"][-1] in (0, 1)
    assert expected == {**by_sacct, "again": expected["again"]}
    assert expected["again"][:-1] == by_sacct["again"][:-1]
    same = ("nodes", "node_count", "user", "uid", "account", "partition", "cluster", "name",
            "started", "ended", "work_dir")
    for job in (completed, failed, f"{array}_1", f"{het}+1", again):
        assert fields(found[job], *same) == fields(later[job], *same), job
    assert "squeue --json; of older ones from sacct" == leaf.facts_source(ask)


@pytest.mark.slurm
@pytest.mark.root
def test_a_job_that_ran_out_of_time(slurm, ask):
    """slurmctld looks every 30 s."""
    job = slurm.submit("sleep 600")
    slurm.wait_until("RUNNING", job)
    slurm.time_out(job)

    assert "TIMEOUT" == slurm.wait(job)
    assert (ENDED, "TIMEOUT") == fields(leaf.facts([job], ask)[job], "state", "outcome")


@pytest.mark.slurm
@pytest.mark.root
def test_what_the_environment_tells_is_what_the_commands_tell(slurm, ask):
    """In a prolog and in the script; the raw id of an array's task is the one they have."""
    slurm.hook("prolog", f"env >{slurm.directory}/tmp/ctl/prolog.$SLURM_JOB_ID.$SLURMD_NODENAME")
    job = slurm.submit("env", "--array=5", "--nodes=2")
    assert "COMPLETED" == slurm.wait(job)

    [one] = leaf.facts([f"{job}_5"], ask).values()
    prolog = (slurm.directory / "tmp" / "ctl" / f"prolog.{one.raw_job}.node1").read_text()
    for text in (prolog, slurm.output(job)):
        about = leaf.about(dict(line.split("=", 1) for line in text.splitlines() if "=" in line))
        assert (one.raw_job, 0, one.nodes, one.user, one.uid, one.account, one.partition, "sim",
                one.work_dir) == tuple(about[name] for name in (
                    "job", "attempt", "nodes", "user", "uid", "account", "partition", "cluster",
                    "work_dir"))


# What `iostats run` does: a process on each node that stays, the job's own step beside it, and then
# the end of their input.
LAUNCH = """\
import json, os, subprocess, sys
sys.path.insert(0, {home!r})
from iostats.schedulers import slurm
launchers = slurm.launchers(os.environ, slurm.about(os.environ)["nodes"])
ours = [subprocess.Popen([*launcher, "/bin/sh", "-c", "/bin/hostname; /bin/cat; echo end"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for launcher in launchers]
nodes = []
for one, launcher in zip(ours, launchers):
    [count] = [int(word[8:]) for word in launcher if word.startswith("--nodes=")]
    nodes += [one.stdout.readline().strip() for _ in range(count)]
step = subprocess.run("srun {options} /bin/echo task", shell=True, text=True, timeout=150,
                      stdout=subprocess.PIPE)
for one in ours:
    one.stdin.close()
ends = sum(one.stdout.read().count("end") for one in ours)
print(json.dumps([sorted(nodes), step.stdout.count("task"), ends,
                  [one.wait() for one in ours]]))
"""
NODES = ["node1", "node2", "node3", "node4"]


@pytest.mark.slurm
@pytest.mark.root
@pytest.mark.parametrize("options, tasks", [
    ("--nodes=3 --mem=1000 --cpus-per-task=4", 3),
    ("--nodes=2 --exclusive --ntasks-per-node=8", 16),
    ("--nodes=2 --mem-per-gpu=100 --gpus-per-node=1 --hint=nomultithread", 2),
    ("--nodes=2 --ntasks=4 --gpus-per-task=1", 4),
    ("--nodes=2 --export=NONE --mem=0", 2),
    ("--ntasks=34 --mem-per-cpu=200", 34),
])
def test_one_process_on_each_node_beside_the_steps_of_the_job(slurm, options, tasks):
    """Whatever the job asked for; the step that follows has all that it would have without us."""
    job = slurm.submit(_launch(slurm), *options.split())
    assert "COMPLETED" == slurm.wait(job), slurm.output(job)

    [nodes, seen, ends, status] = _printed(slurm, job)
    assert nodes == NODES[:len(nodes)] and len(nodes) == int(
        re.search("NumNodes=([0-9]+)", slurm.show(job))[1])
    assert (tasks, len(nodes), [0]) == (seen, ends, status)


@pytest.mark.slurm
@pytest.mark.root
def test_defaults_that_a_user_has_set_for_srun_are_not_for_us(slurm):
    """In a login script, or for the program's own steps."""
    defaults = (
        "SLURM_EXCLUSIVE=user SLURM_LABELIO=1 SLURM_STDOUTMODE=/tmp/x SLURM_STDINMODE=none "
        "SLURM_TASK_PROLOG=/bin/hostname SLURM_CPU_BIND=map_cpu:77 SLURM_MPI_TYPE=none-such "
        "SLURM_WAIT=1 SLURM_NTASKS=77 SRUN_CPUS_PER_TASK=99 SLURM_RESERVATION=none-such "
        "SLURM_IMMEDIATE=1 SLURM_GRES=gpu:77 SLURM_DISTRIBUTION=plane=3 SLURM_EXPORT_ENV=NONE "
        "SLURM_KILL_BAD_EXIT=1 SLURM_REMOTE_CWD=/nowhere SLURM_BCAST=/nowhere/x SLURM_NNODES=9")
    script = slurm.directory / "work" / "launch.py"
    script.write_text(_launch(slurm, step="--version"))
    job = slurm.submit(f"export {defaults}\n{slurm.python} {script}", "--nodes=2")
    assert "COMPLETED" == slurm.wait(job), slurm.output(job)

    assert [["node1", "node2"], 0, 2, [0]] == _printed(slurm, job)


@pytest.mark.slurm
@pytest.mark.root
@pytest.mark.parametrize("second", ["--nodes=2", "--ntasks=1"])
def test_each_part_of_a_heterogeneous_job_is_launched_on(slurm, second):
    """Two sruns at once; two parts on one node are one process."""
    text = _launch(slurm, step="--het-group=0,1")
    shebang, _, rest = text.partition("\n")
    job = slurm.submit(f"{shebang}\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH {second}\n{rest}")
    assert "FAILED" not in slurm.wait(job), slurm.output(job)

    [nodes, seen, ends, status] = _printed(slurm, job)
    if second == "--nodes=2":
        assert (NODES[:3], 3, 3, [0, 0]) == (nodes, seen, ends, status)
    else:
        assert (nodes, ends, len(status)) in ((["node1"], 1, 1), (["node1", "node2"], 2, 2))
        assert seen == 2


def _launch(slurm, step=""):
    return f"#!{slurm.python}\n" + LAUNCH.format(home=str(slurm.home), options=step)


def _printed(slurm, job):
    return json.loads(slurm.output(job).splitlines()[-1])


# -- comments ------------------------------------------------------------------------------------

OURS = "io1:" + "n=23/37,w=41-%_.+/:@" * 74 + "0123456789abcdef"      # 1,500 bytes


def test_a_comment_is_plain_text_that_can_be_known_again():
    """sacctmgr alters the rest."""
    one = Facts(job="23", raw_job="23")
    for text in ("others", "io1:a b", "io1:'", 'io1:"', "io1:\n", "io1:\\", "io1:é", ""):
        with pytest.raises(UsageError, match="expected a comment"):
            leaf.write_comment(one, text, run=Answers())


@pytest.mark.slurm
@pytest.mark.root
def test_comments_go_where_no_other_text_is(slurm, ask):
    """Of a running job and of ended ones; only of the one task, and of the one part."""
    assert 1500 == len(OURS)
    running = slurm.submit("sleep 600", "--comment=mine")
    ended = slurm.submit("exit 7", "--comment=mine")
    array = slurm.submit("true", "--array=0-2")
    het = slurm.submit("#!/bin/sh\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=2\nexit 3\n")
    slurm.wait_until("RUNNING", running)
    for job in (ended, array, het):
        slurm.wait(job)
    for job, state in ((ended, "FAILED"), (f"{array}_0", "COMPLETED"), (f"{array}_2", "COMPLETED"),
                       (f"{het}+0", "FAILED"), (f"{het}+1", "FAILED")):
        accounted(slurm, job, state)
    found = {one.job: one for one in leaf.facts(
        [str(int(running) + n) for n in range(12)], ask).values()}

    def write(job, *fields, text=OURS):
        return leaf.write_comment(found[job], text, fields or ("AdminComment",), run=ask)

    # A running job's is slurmctld's, which hands it on at the end.
    assert "AdminComment" == write(running)
    assert OURS == leaf.facts([running], ask)[running].comments["AdminComment"]
    assert None is write(running, "Comment")
    slurm.ctl("scancel", running)
    slurm.wait(running)
    accounted(slurm, running, "CANCELLED")
    assert {"AdminComment": OURS, "Comment": "mine"} == leaf.read_comments(running, ask)

    # An ended job's is the accounting's.
    assert "AdminComment" == write(ended, "Comment", "AdminComment", "SystemComment")
    assert {"AdminComment": OURS, "Comment": "mine"} == leaf.read_comments(ended, ask)
    assert "AdminComment" == write(ended, text="io1:again")          # ours may be replaced
    slurm.ctl("sacctmgr", "-i", "modify", "job", "where", f"jobid={ended}", "set",
              "AdminComment=theirs")
    assert None is write(ended)
    assert "SystemComment" == write(ended, "AdminComment", "SystemComment")
    assert {"AdminComment": "theirs", "SystemComment": OURS, "Comment": "mine"} == \
        leaf.read_comments(ended, ask)

    # The last task has the array's number as raw id, the first part that of the whole job.
    last = max((one for one in found.values() if one.array_job == array),
               key=lambda one: one.raw_job == array)
    assert "AdminComment" == write(last.job)
    assert {last.job: {"AdminComment": OURS}} == {
        f"{array}_{task}": comments for task in range(3)
        if (comments := leaf.read_comments(f"{array}_{task}", ask))}
    assert "AdminComment" == write(f"{het}+0")
    assert {"AdminComment": OURS} == leaf.read_comments(f"{het}+0", ask)
    assert {} == leaf.read_comments(f"{het}+1", ask)
    assert {} == slurm_facts.read_comment_lines(f"{het}+1", ask)
    assert {"AdminComment": OURS} == slurm_facts.read_comment_lines(f"{het}+0", ask)
    assert None is leaf.read_comments("999999", ask)
    assert None is slurm_facts.read_comment_lines("999999", ask)


@pytest.mark.slurm
@pytest.mark.root
def test_a_job_that_runs_again_keeps_the_comment_for_its_own_run(slurm, ask):
    """The report of the first run is not put to the second; the second's has its place."""
    job = slurm.submit('[ "$SLURM_RESTART_COUNT" ] || sleep 600')
    slurm.wait_until("RUNNING", job)
    first = leaf.facts([job], ask)[job]
    slurm.ctl("scontrol", "requeue", job)
    until(lambda: leaf.facts([job], ask)[job].restarts == 1, what="the requeue")

    assert None is leaf.write_comment(first, "io1:first", run=ask)
    slurm.run_again(job)
    slurm.wait(job)
    accounted(slurm, job, "COMPLETED")
    second = leaf.facts([job], ask)[job]
    assert "AdminComment" == leaf.write_comment(second, "io1:second", run=ask)
    assert {"AdminComment": "io1:second"} == leaf.read_comments(job, ask)
