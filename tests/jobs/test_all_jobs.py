"""
Asking for all jobs in turn: batch systems that tell less than Slurm, that do not answer, and runs
that are over; in one process, with a clock that the test sets.
"""

import asyncio

from harvest_inside import BEGAN, HarvestInside

from iostats.base.errors import NotReadable
from iostats.base.job_facts import ENDED, RUNNING, Facts
from iostats.base.job_list import JobList, ListSettings
from iostats.jobs import all_jobs
from iostats.jobs.open_jobs import OpenJobs
from iostats.store.record_store import Key
from iostats.store.run_store import RunStore

NID = {"10.77.0.1@tcp": "node1", "10.77.0.2@tcp": "node2"}


class System:
    """
    A batch system; times are seconds after BEGAN.

    Attributes:
        jobs: what its list has; `exclusive`: raw ids; `known`: what facts() tells of each.
        answers: False for one that is down; `lists`: how often it was asked.
    """

    def __init__(self, kept_s=None):
        self.jobs, self.exclusive, self.known = [], frozenset(), {}
        self.answers, self.lists, self._kept_s = True, 0, kept_s

    def _check(self):
        if not self.answers:
            raise NotReadable("the batch system is down")

    def job_list(self):
        self.lists += 1
        self._check()
        return JobList(self.jobs, self.exclusive)

    def list_settings(self):
        self._check()
        return ListSettings(self._kept_s, "sim", 0.0, 0.5)

    def facts(self, jobs):
        self._check()
        return {job: self.known[job] for job in jobs if job in self.known}


class WithAccounting(System):
    """The same, and its accounting has `past`."""

    past = ()

    def runs_between(self, since, until):
        self._check()
        return [one for one in self.past if one.started < until and (
            one.ended is None or one.ended >= since)]


def run_of(job, started, ended=None, nodes="node1", **fields):
    return Facts(job=job, raw_job=job, nodes=nodes, user="alice", started=float(BEGAN + started),
                 ended=None if ended is None else float(BEGAN + ended),
                 state=RUNNING if ended is None else ENDED, **fields)


class Desk(HarvestInside):
    """The site's side of it: storage servers that sweep every 20 s, and the AllJobs."""

    def __init__(self, path, system, monkeypatch):
        super().__init__(path)
        self.system = system
        monkeypatch.setattr(all_jobs.schedulers, "find_scheduler", lambda name: system)
        self.call_nodes(NID)
        self.begin()

    def begin(self):
        self.harvest.lives.scheduler = "pbs"
        self.open_jobs = OpenJobs(self.store, self.config)
        self.all = all_jobs.AllJobs(self.store, self.config, self.open_jobs, self.harvest,
                                    lambda: self.now)

    def until(self, seconds):
        """Sweeps and questions until so long after BEGAN; in each sweep node1 writes 23 bytes."""
        async def ask():
            if await self.all.query_when_due():
                while await self.all.decide():
                    pass
        while self.now < BEGAN + seconds:
            self.now += 20
            self.clients("oss1", "scratch", dict.fromkeys(NID, (0, 0, 0, 0, 0)) | {
                "10.77.0.1@tcp": (0, 23, 0, 1, 0)})
            self.turn()
            asyncio.run(ask())

    def decided(self):
        """{(job, attempt): (how, why_none, low, high)} of all runs that are."""
        kept, found = RunStore(self.store), {}
        for job, attempt in self.store.rows("SELECT job, attempt FROM by_node"):
            one = kept.by_node(Key("sim", job, attempt))
            fs = one.file_systems[0] if one.file_systems else None
            found[job, attempt] = (one.alone, one.why_none, fs and fs.low.write_bytes,
                                   fs and fs.high and fs.high.write_bytes)
        return found


def desk_of(system, tmp_path, monkeypatch):
    return Desk(tmp_path / "site.sqlite", system, monkeypatch)


def test_a_job_whose_end_no_list_shows_is_asked_for_by_itself(tmp_path, monkeypatch):
    """PBS: of one with whole hosts there are bounds, of the other it is not known who was there."""
    system = System()
    desk = desk_of(system, tmp_path, monkeypatch)
    system.jobs = [run_of("4711", 50), run_of("4712", 50, nodes="node2")]
    system.exclusive = {"4711"}
    desk.until(100)
    system.jobs = []
    system.known = {job: run_of(job, 50, 130, nodes, name="solve") for job, nodes in (
        ("4711", "node1"), ("4712", "node2"))}
    desk.until(400)
    found = desk.decided()

    assert ("exclusive", "", 3 * 23, 5 * 23) == found["4711", 0]
    assert found["4712", 0][1].startswith("the other jobs on its nodes are unknown")
    one = desk.open_jobs.jobs[Key("sim", "4711", 0)]
    assert ("solve", True) == (one.facts.name, one.is_fresh)


def test_a_batch_system_that_was_down_leaves_a_gap_in_what_is_known(tmp_path, monkeypatch, caplog):
    """Longer than it keeps a job; those that ran in it have no numbers, those after it have."""
    system = System(kept_s=100.0)
    desk = desk_of(system, tmp_path, monkeypatch)
    system.jobs = [run_of("4711", 50)]
    desk.until(100)
    system.answers = False
    desk.until(300)
    system.answers = True
    system.jobs = [run_of("4711", 50, 330), run_of("4712", 320, nodes="node2")]
    desk.until(360)
    system.jobs = [run_of("4712", 320, 380, nodes="node2")]
    desk.until(600)
    found = desk.decided()

    assert found["4711", 0][1].startswith("the other jobs on its nodes are unknown")
    assert ("listed", "", 0, 0) == found["4712", 0]
    assert 1 == caplog.text.count("the batch system is down (logged once an hour)")


def test_the_accounting_fills_the_gap(tmp_path, monkeypatch):
    """With a job that had begun and ended in it on the same node."""
    system = WithAccounting(kept_s=100.0)
    desk = desk_of(system, tmp_path, monkeypatch)
    system.jobs = [run_of("4711", 50), run_of("4712", 50, nodes="node2")]
    desk.until(100)
    system.answers = False
    desk.until(300)
    system.answers = True
    system.jobs = system.past = [run_of("4711", 50, 330), run_of("4712", 50, 330, nodes="node2")]
    system.past = [*system.past, run_of("4713", 170, 190, nodes="node2")]
    desk.until(1000)
    found = desk.decided()

    assert "listed" == found["4711", 0][0]
    assert "it shared node2 with another job" == found["4712", 0][1]
    assert ("4713", 0) in found


def test_each_run_of_a_requeued_job_is_one(tmp_path, monkeypatch):
    """The list has the last one alone; the accounting tells when the first one ended."""
    system = WithAccounting(kept_s=300.0)
    desk = desk_of(system, tmp_path, monkeypatch)
    system.jobs = [run_of("4711", 50)]
    desk.until(120)
    system.jobs = [run_of("4711", 200)]
    desk.until(260)
    system.jobs = [run_of("4711", 200, 280)]
    system.known = {"4711": run_of("4711", 200, 280, restarts=1)}
    system.past = [run_of("4711", 50, 130), run_of("4711", 200, 280)]
    desk.until(1000)

    assert {("4711", 0): ("listed", "", 3 * 23, 5 * 23),
            ("4711", 1): ("listed", "", 2 * 23, 6 * 23)} == desk.decided()


def test_a_run_that_was_requeued_between_two_lists_is_in_the_accounting(tmp_path, monkeypatch):
    """It had been on the node for ten seconds."""
    system = WithAccounting(kept_s=300.0)
    desk = desk_of(system, tmp_path, monkeypatch)
    system.jobs = [run_of("4711", 50)]
    desk.until(120)
    system.jobs = [run_of("4711", 50, 130)]
    system.past = [run_of("4711", 50, 130), run_of("4712", 63, 73)]
    desk.until(1000)

    assert "it shared node1 with another job" == desk.decided()["4711", 0][1]


def test_a_server_that_begins_again_decides_once(tmp_path, monkeypatch):
    """While the list still shows what is decided: a second look would find nobody on its node."""
    system = System(kept_s=1000.0)
    desk = desk_of(system, tmp_path, monkeypatch)
    system.jobs = [run_of("4711", 50), run_of("4712", 60)]
    desk.until(100)
    desk.again(), desk.begin()
    system.jobs = [run_of("4711", 50, 130), run_of("4712", 60, 131)]
    desk.until(400)
    before = desk.store.rows("SELECT * FROM by_node")
    desk.again(), desk.begin()
    desk.until(900)

    assert before == desk.store.rows("SELECT * FROM by_node")
    assert {"it shared node1 with another job"} == {
        one[1] for one in desk.decided().values()}


def test_what_is_damaged_is_asked_for_again(tmp_path, monkeypatch, caplog):
    system = System(kept_s=1000.0)
    desk = desk_of(system, tmp_path, monkeypatch)
    system.jobs = [run_of("4711", 50)]
    desk.until(100)
    desk.store.change("UPDATE job_runs SET body = x'00'")
    desk.again(), desk.begin()
    system.jobs = [run_of("4711", 50, 130)]
    desk.until(400)

    assert ("listed", "", 3 * 23, 5 * 23) == desk.decided()["4711", 0]
    assert "the runs are queried again" in caplog.text


def test_a_member_that_is_damaged_costs_itself_alone(tmp_path, monkeypatch, caplog):
    desk = desk_of(System(), tmp_path, monkeypatch)
    desk.store.change("INSERT INTO by_node VALUES ('sim', '4711', 0, 1.0, x'00')")

    assert {("4711", 0): None} == {("4711", 0): RunStore(desk.store).by_node(
        Key("sim", "4711", 0))}
    assert "the nodes' I/O of job 4711 is left out" in caplog.text


def test_members_are_forgotten_when_no_record_needs_them_any_more(tmp_path, monkeypatch):
    desk = desk_of(System(), tmp_path, monkeypatch)
    for number, made in enumerate((1000.0, 90_000.0)):
        desk.store.change("INSERT INTO by_node VALUES ('sim', ?, 0, ?, x'00')",
                          (str(4711 + number), made))
    RunStore(desk.store).delete_before(80_000.0 + 30 * 86_400)

    assert [("4712",)] == desk.store.rows("SELECT job FROM by_node")


def test_a_server_that_is_not_shown_all_jobs_proves_nothing_by_its_list(tmp_path, monkeypatch):
    """Neither by the accounting; whole nodes are whole."""
    system = WithAccounting(kept_s=1000.0)
    system.list_settings = lambda: ListSettings(1000.0, "sim", 0.0, 0.5, False)
    desk = desk_of(system, tmp_path, monkeypatch)
    system.jobs = [run_of("4711", 50), run_of("4712", 50, nodes="node2")]
    system.exclusive = {"4712"}
    desk.until(100)
    system.jobs = system.past = [run_of("4711", 50, 130), run_of("4712", 50, 130, nodes="node2")]
    desk.until(4000)
    found = desk.decided()

    assert found["4711", 0][1].startswith("the other jobs on its nodes are unknown")
    assert "exclusive" == found["4712", 0][0]


def test_the_list_is_asked_for_once_in_an_interval(tmp_path, monkeypatch):
    system = System()
    desk = desk_of(system, tmp_path, monkeypatch)
    desk.until(600)

    assert 10 == system.lists
