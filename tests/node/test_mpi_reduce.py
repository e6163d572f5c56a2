"""
`--mpi`: real ranks under a real mpiexec, several on each node; the same totals as without, and no
rank waits for one on which something fails.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from processes import AFTER, BEFORE, CLIENT, Desk, write_tree
from test_job_totals import llite, osc
from test_job_totals_merge import JOBS, added
from trees import ROOT, report

from iostats.base import config as site
from iostats.base.errors import NotDelivered, UsageError
from iostats.node import mpi_reduce
from iostats.totals.job_totals import Totals
from iostats.wire import client
from iostats.wire.messages.report import NodeReport
from iostats.wire.messages.totals import FileSystemState, TotalsParams, TotalsState, read_totals

MPIEXEC = Path(sys.executable).with_name("mpiexec")


def needs_mpi(test):
    """Marked as the others that need a real part, so that `make pythons` can leave it out."""
    why = "no mpiexec: pip install '.[mpi]'"
    return pytest.mark.mpi(pytest.mark.skipif(not MPIEXEC.exists(), reason=why)(test))


# Which node a rank is on; then the status of each rank, as mpiexec has but one.
RANK = """
node=$(printf nid%05d $((PMI_RANK / RANKS_ON_A_NODE + 1)))
"$@" --node $node --root trees/$node --state-dir state/$node $(cat options.$PMI_RANK 2>/dev/null)
echo rank $PMI_RANK status $?
"""


class Ranks:
    """The client on all ranks of a program, on a desk."""

    def __init__(self, desk, nodes, on_a_node):
        self.desk, self.nodes, self._on_a_node = desk, nodes, on_a_node
        self.size = nodes * on_a_node
        (desk.directory / "rank.sh").write_text(RANK, encoding="ascii")
        (desk.directory / "state").mkdir()
        self.trees(**BEFORE)

    def trees(self, **counters):
        for number in range(1, self.nodes + 1):
            write_tree(self.desk.directory / "trees" / f"nid{number:05}", **counters)

    def program(self, *command):
        return subprocess.run(
            [MPIEXEC, "-n", str(self.size), *command], cwd=self.desk.directory, timeout=250,
            capture_output=True, text=True,
            env=self.desk.environment({"RANKS_ON_A_NODE": str(self._on_a_node)}))

    def run(self, *arguments):
        """({status}, [line on standard error]) of all ranks."""
        done = self.program("sh", "rank.sh", sys.executable, str(CLIENT), *arguments, "--mpi",
                            "--job", self.desk.job)
        lines = done.stdout.split("\n")[:-1]
        assert self.size == len(lines), done
        assert "Traceback" not in done.stderr, done.stderr
        return {int(line.rpartition(" ")[2]) for line in lines}, done.stderr.splitlines()

    def alone(self, number, *arguments):
        """The client on one node, without --mpi."""
        node = f"nid{number:05}"
        return self.desk.client(*arguments, "--node", node, "--root",
                                self.desk.directory / "trees" / node, "--state-dir",
                                self.desk.directory / "state" / node)

    @property
    def kept(self):
        """Files in the nodes' state directories."""
        return sorted(path.relative_to(self.desk.directory / "state").as_posix().partition("/")[0]
                      + path.suffix for path in (self.desk.directory / "state").rglob("*.*"))


DESK = Desk


def at(running):
    return "--server", f"127.0.0.1:{running.port}"


def timeless(record):
    """What does not depend on when it was measured."""
    for fs in record["file_systems"]:
        for metadata in fs["metadata"].values():
            del metadata["per_second_per_node"], metadata["peak"]
    return {**record["coverage"], "node_seconds": None, "file_systems": record["file_systems"],
            "phases": record["phases"], "notes": record["notes"],
            "nodes": {node: short["file_systems"] for node, short in record["nodes"].items()}}


# -- all is well -------------------------------------------------------------------------------


@needs_mpi
def test_the_ranks_of_these_tests_are_those_of_one_program(desk):
    """mpiexec and mpi4py belong together: else each rank would be a program of its own."""
    sizes = Ranks(desk, 2, 2).program(
        sys.executable, "-c", "from mpi4py import MPI; print(MPI.COMM_WORLD.Get_size())")
    assert ["4"] * 4 == sizes.stdout.split(), sizes.stderr


@needs_mpi
@pytest.mark.parametrize("nodes, on_a_node", [(4, 2), (7, 3)], ids=["8 ranks", "21 ranks"])
def test_the_totals_are_those_of_the_nodes_one_by_one(desk, nodes, on_a_node):
    """
    Each node once, whatever ranks it has, also where their number is no power of two; and nothing
    is left behind.
    """
    ranks = Ranks(desk, nodes, on_a_node)
    records, began = [], time.time()
    for along in (True, False):
        running = desk.server("--nodes", f"nid[00001-{nodes:05}]", "--format", "json")
        ranks.trees(**BEFORE)
        for role, counters in ("start", {}), ("stop", AFTER):
            where = at(running) if role == "stop" else ()
            if counters:
                ranks.trees(**counters)
            if along:
                assert ({0}, []) == ranks.run(role, *where)
            else:
                for number in range(1, nodes + 1):
                    assert 0 == ranks.alone(number, role, *where).status
        assert [] == ranks.kept
        records.append(running.wait().record)
    assert nodes * 43 == records[0]["file_systems"][0]["operations"]["open"]["count"]
    assert json.dumps(timeless(records[0])) == json.dumps(timeless(records[1]))
    took_s = time.time() - began
    assert 0 <= records[0]["job"]["elapsed_s"] < took_s
    assert 0 < records[0]["job"]["ended"] - began < took_s


@needs_mpi
def test_marks_and_a_second_start_and_stop_along_the_ranks(desk):
    """A job in parts: 43 opens in each of two, of which 30 after a mark, on both nodes."""
    ranks = Ranks(desk, 2, 2)
    running = desk.server("--nodes", "3", "--format", "json")
    opens = BEFORE["opens"]
    for _ in range(2):
        assert ({0}, []) == ranks.run("start")
        ranks.trees(**{**AFTER, "opens": opens + 13})
        assert ({0}, []) == ranks.run("mark", "solve")
        ranks.trees(**{**AFTER, "opens": opens + 43})
        opens += 43
        assert ({0}, []) == ranks.run("stop", *at(running))
    record = running.stop().record
    assert (2, {}) == (record["coverage"]["reported"], record["coverage"]["refused"])
    assert [("(before solve)", 2, 52), ("solve", 2, 120)] == [
        (phase["name"], phase["nodes"], phase["file_systems"][0]["operations"]["open"]["count"])
        for phase in record["phases"]]


# -- something is not well ---------------------------------------------------------------------


@needs_mpi
def test_nodes_on_which_something_fails_say_why_and_nobody_hangs(desk):
    """
    Of five nodes one has no start, one no counters, one no directory, one is of another job, and
    one has a rank that is.
    """
    ranks = Ranks(desk, 5, 2)
    running = desk.server("--nodes", "nid[00001-00005]", "--format", "json")
    assert ({0}, []) == ranks.run("start")
    for rank in (6, 7, 8):
        (desk.directory / f"options.{rank}").write_text("--job 23", encoding="ascii")
    for path in (desk.directory / "state" / "nid00001").iterdir():
        path.unlink()
    ranks.trees(**AFTER)
    for path in (desk.directory / "trees" / "nid00002").rglob("*stats"):
        path.unlink()
        path.mkdir()
    (desk.directory / "trees" / "nid00003").rename(desk.directory / "moved")
    statuses, lines = ranks.run("stop", *at(running))
    assert {2} == statuses, lines
    other = (f"--mpi: expected `stop` of job {desk.job}, as on rank 0, got `stop` of job 23 on "
             f"nid00004")
    assert [1, 1, 1, 1, 4] == [sum(text in line for line in lines) for text in (
        "nid00001: job", "none of 5 counter files could be read: ", "--root: expected a directory",
        other, "iostats: ")]
    record = running.wait().record
    assert {"nid00001": "no start", "nid00004": other,
            "nid00003": "--root: expected a directory, got 'trees/nid00003'"
            } == record["coverage"]["missing"]
    assert (2, 43, True) == (
        record["coverage"]["reported"],
        record["file_systems"][0]["operations"]["open"]["count"],
        record["file_systems"][0]["lower_bound"])


@needs_mpi
def test_a_command_line_that_is_off_on_every_rank_is_told_once_for_each_node(desk):
    """And no rank waits for the others."""
    ranks = Ranks(desk, 2, 2)
    for arguments, told in ((["stop"], "no server"), (["start", "--sever", "x"], "no option"),
                            (["show"], "expected one of start mark stop, got show")):
        statuses, lines = ranks.run(*arguments)
        assert {2} == statuses
        assert lines and all(told in line for line in lines), lines


@needs_mpi
def test_what_could_not_be_delivered_is_kept_on_each_node(desk):
    """And goes to the server with the next `stop`, with --mpi or without."""
    ranks = Ranks(desk, 3, 2)
    (desk.home / ".iostats").mkdir(mode=0o700)
    (desk.directory / "site.cfg").write_text("[node]\nretry_timeout = 0\n", encoding="ascii")
    assert ({0}, []) == ranks.run("start")
    ranks.trees(**AFTER)
    where = "--server", "127.0.0.1:1", "--config", "site.cfg"
    for _ in range(2):
        statuses, [line] = ranks.run("stop", *where)
        assert {3} == statuses
        assert line.endswith("; each node keeps its reports, and `stop` again sends them "
                             "(without --mpi each node sends its own)")
        assert [f"nid0000{number}.delta" for number in (1, 2, 3)] == ranks.kept
    running = desk.server("--nodes", "nid[00001-00003]", "--format", "json")
    assert 0 == ranks.alone(2, "stop", *at(running)).status
    (desk.directory / "state" / "nid00002").rename(desk.directory / "state" / "other")
    statuses, lines = ranks.run("stop", *at(running))
    assert {2} == statuses and "nid00002: job" in lines[0]
    assert [] == ranks.kept
    record = running.wait().record
    assert (3, 3 * 43) == (record["coverage"]["reported"],
                           record["file_systems"][0]["operations"]["open"]["count"])


@needs_mpi
def test_a_node_that_has_reported_by_itself_is_not_counted_twice(desk):
    """Its report is refused with all others; each node's own is then taken, and known there."""
    ranks = Ranks(desk, 2, 2)
    running = desk.server("--nodes", "nid[00001-00002]", "--format", "json")
    assert ({0}, []) == ranks.run("start")
    ranks.trees(**AFTER)
    state = desk.directory / "state" / "nid00001"
    copies = {path: path.read_bytes() for path in state.iterdir()}
    assert 0 == ranks.alone(1, "stop", *at(running)).status
    for path, data in copies.items():                    # as if its answer had been lost
        path.write_bytes(data)
        path.chmod(0o600)
    statuses, [line] = ranks.run("stop", *at(running))
    assert {3} == statuses
    assert "a report of nid00001 about the same time is counted already" in line
    for number in (1, 2):
        assert 0 == ranks.alone(number, "stop", *at(running)).status
    record = running.wait().record
    assert (2, 2 * 43, {"overlapping reports of one node": 1}) == (
        record["coverage"]["reported"], record["file_systems"][0]["operations"]["open"]["count"],
        record["coverage"]["refused"])


# -- without ranks -----------------------------------------------------------------------------


def test_without_mpi4py_it_says_so(desk):
    """`python3 -I -S` has the standard library alone."""
    done = desk.client("start", "--mpi", *desk.on("nid00001", desk.tree(**BEFORE)))
    assert 2 == done.status
    assert f"--mpi: mpi4py cannot be used with {sys.executable}: No module named" in done.line


@needs_mpi
@pytest.mark.parametrize("environ, status, said", [
    ({}, 0, []),
    ({"SLURM_NTASKS": "4"}, 0, ["iostats: --mpi: one rank, on this node alone; for all 4 tasks of "
                                "the job start it with srun or mpirun"]),
    ({"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "0"}, 2, [
        "iostats: --mpi: expected 8 ranks, as the launcher has started, got 8 times 1: mpi4py is "
        "of another MPI (MPICH) than mpirun or srun; use those of one MPI (with srun see "
        "--mpi=list)"]),
    ({"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "3"}, 2, []),
    ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4", "SLURM_PROCID": "1"}, 2, []),
], ids=["by itself", "in a batch script", "the first of 8 strangers", "another of 8 strangers",
        "srun with another MPI"])
def test_one_rank_is_a_node_or_a_wrong_pairing(desk, environ, status, said):
    """Eight programs of one rank each would be eight jobs."""
    done = subprocess.run(
        [sys.executable, str(CLIENT), "start", "--mpi", "--job", desk.job,
         *map(str, desk.on("nid00001", desk.tree(**BEFORE)))], capture_output=True, text=True,
        env=desk.environment(environ), timeout=60)
    assert (status, said) == (done.returncode, done.stderr.splitlines())


def test_mpi_of_a_broken_installation_is_one_line(tmp_path, monkeypatch):
    """mpi4py is there, and its MPI is not."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text(
        "class rc: pass\n", encoding="ascii")
    (tmp_path / "mpi4py" / "MPI.py").write_text(
        "raise RuntimeError('cannot load\\nMPI library')", encoding="ascii")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mpi4py", "mpi4py.MPI"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(UsageError, match="cannot load MPI library; install it"):
        mpi_reduce.join(print, {})


# -- what a node says, by way of a rank or by itself -------------------------------------------


def params_of(one):
    """The params of the method `report` that say what a Report does, without its clock."""
    def deltas(found):
        return [{name: value for name, value in delta._asdict().items()
                 if name in ("source", "file_system", "target", "values", "lower_bound", "why",
                             "proved")} for delta in found]
    return {
        "protocol": 1, "job": "4711",
        **{name: getattr(one, name) for name in (
            "node", "seq", "boot_id", "user", "reason", "ended", "elapsed_s", "mounts",
            "dirty_bytes", "other_jobs", "uptime_s")},
        "deltas": deltas(one.deltas),
        "phases": [{"name": phase.name, "elapsed_s": phase.elapsed_s,
                    "deltas": deltas(phase.deltas)} for phase in one.phases or ()],
        "series": {name: msgspec.to_builtins(found) for name, found in (one.series or {}).items()}}


@given(JOBS)
def test_a_report_by_way_of_a_rank_is_the_report(job):
    """To the last byte of the record: types, defaults, clocks."""
    by_itself, by_rank = Totals("4711"), Totals("4711")
    for reports in job:
        on_rank = Totals("4711")
        for one in reports:
            params, ahead_s = params_of(one), one.clock_ahead_s
            sent = msgspec.json.decode(json.dumps({**params, "clock_ahead_s": ahead_s}),
                                       type=NodeReport)
            sent.ended -= sent.clock_ahead_s
            by_itself.add(sent)
            on_rank.add(mpi_reduce.convert_report(params, ahead_s))
        state = mpi_reduce.merge_states(None, json.loads(json.dumps(on_rank.state())))
        by_rank.merge(read_totals(
            msgspec.json.decode(json.dumps(message(state, node="nid00000")), type=TotalsParams),
            "nid00000", "4711", set(), str))
    assert json.dumps(by_itself.record()) == json.dumps(by_rank.record())


# -- the message -------------------------------------------------------------------------------


def state_of(*nodes):
    return added([[report(node, [llite(open=23, open_us=41), osc(read_rpcs=5)], other_jobs=1)]
                  for node in nodes]).state()


def message(state, **changed):
    return {"protocol": 1, "job": "4711", "node": "nid00001", "seq": "23", "state": state,
            **changed}


def test_the_server_takes_each_message_once_and_no_node_twice(desk):
    """A message that is sent again in doubt, a node that has come by itself, a stranger."""
    running = desk.server("--nodes", "nid[00001-00004]", "--format", "json")
    secret, choices = str(desk.home / ".iostats" / f"{desk.job}.secret"), site.load(environ={})

    def send(state, **changed):
        return client.deliver(message({**state, "job": desk.job}, **{"job": desk.job, **changed}),
                              f"127.0.0.1:{running.port}", secret, choices, method="totals")
    first = state_of("nid00001", "nid00002")
    assert {"counted": True, "why": ""} == send(first)
    assert {"counted": True, "why": "these totals were counted before"} == send(first)
    for state, changed, why in (
            (first, {"seq": "37"}, "a report of nid00001 about the same time is counted already"),
            (state_of("nid00003", "login1"), {"seq": "41"}, "login1 is not among the job's nodes"),
            (state_of("nid00003"), {"seq": "43", "protocol": 2}, "expected protocol 1, got 2"),
            ({**state_of("nid00003"), "job": desk.job}, {"seq": "47"}, None)):
        if why is None:
            assert send(state, **changed)["counted"]
            continue
        with pytest.raises(NotDelivered, match=why):
            send(state, **changed)
    send(added([[report("nid00004", reason="no start")]]).state(), seq="53")
    record = running.wait().record
    assert (69, 3, {"nid00004": "no start"}, {"overlapping reports of one node": 1,
                                              "unknown node": 1}) == (
        record["file_systems"][0]["operations"]["open"]["count"], record["coverage"]["reported"],
        record["coverage"]["missing"], record["coverage"]["refused"])


def test_the_protocols_page_names_every_member():
    """docs/reference/wire.md, `totals`."""
    page = (ROOT / "docs/reference/wire.md").read_text(encoding="utf-8").partition("**totals**")[2]
    whole, _, one = page.partition("**status**")[0].partition("| of a file system |")
    for text, kind in (whole, TotalsState), (one, FileSystemState):
        named = re.findall(r"(?m)^\| ([a-z_, ]+) \|", text)
        assert set(kind.__struct_fields__) == set(", ".join(named).split(", "))


def altered(state, path, value):
    inner = state
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return state


FS = ("file_systems", "scratch")
HOSTILE = {
    "less than nothing": ((*FS, "sums", 0, 2, "open"), -1),
    "half an open": ((*FS, "sums", 0, 2, "open"), 0.5),
    "a number of a thousand digits": ((*FS, "sums", 0, 2, "open"), 10**1000),
    "a node more": ((*FS, "notes"), {"llite: cleared": ["nid00009"]}),
    "another node's peak": ((*FS, "metadata"), {"MDT0000": [{}, 0, [5.0, "nid00009"]]}),
    "watched on another node": ((*FS, "watched"), ["nid00009"]),
    "numbers of a node without a time": (("parts",), {}),
    "a node that is there, and is not": (("without",), {"nid00001": "no start"}),
    "another node's other jobs": (("shared",), {"nid00009": 1}),
    "a node that could move a cursor": (("without",), {"\x1b[2J": "no start"}),
    "a part that ends before it began": (("parts", "nid00001"), [["s", "b", 5.0, 4.0, 0.0, 0.0]]),
    "a part of no time that there is": (("parts", "nid00001"), [["s", "b", 0.0, 1e99, 0.0, 0.0]]),
    "a part more": (("parts", "nid00001"), [["s", "b", 0.0, 1.0, 0.0, 0.0, 0.0]]),
    "no part": (("parts", "nid00001"), []),
    "a phase of nobody": (("phases",), {"solve": [[0.0, 0], {}, {}]}),
    "another node's phase": (("phases",), {"solve": [[0.0, 0], {"nid00009": 1.0}, {}]}),
    "rows of unequal length": ((*FS, "series"), [[60.0, 0.0, 0, [[1], [], [1]]]]),
    "two rows": ((*FS, "series"), [[60.0, 0.0, 0, [[1], [1]]]]),
    "bins of no width": ((*FS, "series"), [[0.0, 0.0, 0, [[1], [1], [1]]]]),
    "a row that is too long": ((*FS, "series"), [[60.0, 0.0, 0, [[1] * 961] * 3]]),
    "a long name": (("file_systems",), {"x" * 129: {}}),
    "seconds of nodes below zero": (("node_ns",), -1),
    "a member that is missing": (("file_systems", "scratch"), {"sums": []}),
    "a list for an object": (("nodes",), []),
}


@pytest.mark.parametrize("path, value", list(HOSTILE.values()), ids=list(HOSTILE))
def test_a_state_that_is_none_is_refused_at_the_door(path, value):
    """Before anything of it is added."""
    state = json.loads(json.dumps(state_of("nid00001", "nid00002")))
    good = json.dumps(message(state))
    read_totals(msgspec.json.decode(good, type=TotalsParams), "nid00001", "4711", set(), str)
    with pytest.raises((msgspec.ValidationError, ValueError)):
        msgspec.json.decode(json.dumps(message(altered(state, path, value))), type=TotalsParams)


def test_too_many_metrics_are_refused():
    """As in reports: 10,000 names in a job."""
    state = json.loads(json.dumps(state_of("nid00001")))
    state["file_systems"]["scratch"]["sums"][0][2] = {f"m{number}": 1 for number in range(10_001)}
    params = msgspec.json.decode(json.dumps(message(state)), type=TotalsParams)
    with pytest.raises(Exception, match="at most 10000 different metrics"):
        read_totals(params, "nid00001", "4711", set(), str)
