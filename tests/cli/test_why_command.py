"""
`iostats why` from outside in: a real site's server with a job; and sweeps of storage servers, as
its harvest takes them, of which a neighbour's load is told.
"""
from __future__ import annotations

import json
import pathlib

import msgspec
import pytest
from harvest_inside import BEGAN, HarvestInside
from queueing_world import record_of
from site_desk import SLURM, SiteDesk, a_report, slurm_job, squeue
from sweep_blocks import Column
from trees import ROOT

from iostats.answers.selected_run import JobHistoryParams
from iostats.answers.time_line_queries import TimeLineAnswers
from iostats.base.cooperative import run_to_end
from iostats.base.job_facts import RUNNING, Facts
from iostats.cli import site_client, why
from iostats.totals.record import Record

MIB = 1 << 20


def test_a_job_of_which_the_nodes_alone_know_something(tmp_path):
    """From a real server; and three runs before it, of the same name and user."""
    with SiteDesk(tmp_path) as desk:
        desk.configure(site_deadline="0.3")
        jobs = ("4707", "4708", "4709", "4711")
        squeue(desk, *(slurm_job(job, name="solve") for job in jobs))
        desk.server = desk.site()
        for number, job in enumerate(jobs):
            timed = {"read": 23, "read_us": 23 * (41_000_000 if job == "4711" else 1_000_000)}
            desk.send(a_report(job, "nid1", ended=1_760_665_000.0 + 7200 * number, elapsed_s=1000.0,
                               about=SLURM,
                               deltas=[{"source": "llite", "file_system": "scratch",
                                        "values": {"read_bytes": 23, "read_calls": 23, **timed}}]))
            desk.record(job)
        done = desk.iostats("why", "4711")
        assert (0, "") == (done.status, done.err)
        text = " ".join(done.out.split())
        assert text.startswith("Job 4711 (solve, alice): 00:16:40 on 1 node, ")
        assert ("Its calls took 41 times as long as in its other runs; the cause is unknown"
                ) in text
        assert "Compared with its last 3 runs (medians): read took 41 times its usual 1.0 s" in text
        form = json.loads(desk.iostats("why", "--json", "--like", "0", "4711").out)
        assert 0 == form["other_runs"]["runs"] and "unknown" == form["causes"][0]["kind"]
        unknown = desk.iostats("why", "4799")
        assert (1, "") == (unknown.status, unknown.out) and "4799" in unknown.err


@pytest.mark.parametrize("words, message", [
    ([], "expected one job, got none (see --help)"),
    (["4711", "4712"], "expected one job, got 4711 4712 (see --help)"),
    (["--like", "x", "4711"], "--like: expected a number from 1 to 100, got 'x'"),
], ids=["no job", "two", "like what"])
def test_bad_usage(words, message, capsys):
    assert 2 == why.main(words)
    assert f"iostats: {message}\n" == capsys.readouterr().err


RECORD = str(ROOT / "tests" / "data" / "jobs" / "small_writes.json")


def test_a_record_in_a_file_is_judged_without_a_server(monkeypatch, capsys):
    """Four nodes, 1,867 s, 61 % of the nodes' time in small writes (docs/explanation/peers.md)."""
    monkeypatch.setattr(site_client, "ask_site", None)
    monkeypatch.setenv("COLUMNS", "80")
    assert 0 == why.main([RECORD])
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("Job 4723 (ascii, alice): 00:31:07 on 4 nodes, ")
    assert "1. Inefficient I/O pattern on scratch: 23,000,000 writes of 370 bytes" in text
    assert "Not used: watch (no data); job_stats over time (its record was read from a file)" in (
        text)
    assert 0 == why.main(["--json", RECORD])
    assert "own_pattern" == json.loads(capsys.readouterr().out)["main_cause"]["kind"]


@pytest.mark.parametrize("content, status, message", [
    ("{}", 2, "expected records as `iostats report --format json` writes them, got {}"),
    ("[%s,%s]", 2, "expected one job, got 2: 4723, 4723 ..."),
], ids=["no record", "two"])
def test_a_file_without_a_single_record_is_refused(content, status, message, tmp_path, capsys):
    path = tmp_path / "jobs.json"
    path.write_text(content.replace("%s", pathlib.Path(RECORD).read_text()))
    assert status == why.main([str(path)])
    assert f"iostats: {path}: {message}\n" == capsys.readouterr().err


class Neighbours(HarvestInside):
    """Sweeps every 20 s of OST0007, at which jobs write MiBs."""

    def __init__(self, path):
        super().__init__(path)
        self.done = {}

    def sweep(self, each_us, **writes):
        """20 s later: {job: writes of 1 MiB}, each of which took so long."""
        self.now += 20
        blocks = []
        for job, count in writes.items():
            calls, us = self.done.get(job, (0, 0))
            self.done[job] = calls, us = calls + count, us + count * each_us
            blocks.append(self.block("OST0007", [job[1:]], BEGAN + 3, ended=False,
                                     write_bytes=(calls, calls * MIB),
                                     write=Column("usecs", [0], [calls], [1], [us], [us],
                                                  [us ** 2 % 2**64])))
        self.send("oss1", *blocks, self.block("OST0007", ended=True))


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """
    A site's answers: job 4711 has written 400 MiB in each of 40 intervals; in the 9th to 24th of
    them job 4733 has written 41 GiB each, and all writes took ten times as long.
    """
    site = Neighbours(tmp_path / "site.sqlite")
    site.send("oss1", site.block("OST0007"))
    for number in range(40):
        loaded = 8 <= number < 24
        other = {"j4733": 41 * 1024} if loaded else {}
        site.sweep(41_000 if loaded else 4100, j4711=400, **other)
    for job, user in (("4711", "alice"), ("4733", "bob")):
        site.harvest.lives.learn(job, Facts(job=job, raw_job=job, user=user, state=RUNNING,
                                            started=BEGAN + 3.0))
    record = record_of(
        {"started": BEGAN + 0.0, "ended": BEGAN + 800.0, "elapsed_s": 800.0}, nodes=1,
        application={"read_bytes": 0, "write_bytes": 16_000 * MIB, "read_calls": 0,
                     "write_calls": 16_000, "lower_bound": False},
        operations={}, calls={"write": {"count": 16_000, "seconds": 301.0, "stddev_s": None}},
        per_node={})
    users = {"as": None}

    def ask(config, method, params, within_s=30.0):
        if method != "job_history":
            return {"record": [record], "jobs": {"jobs": [], "next": None}}[method]
        answers = TimeLineAnswers(site.harvest, lambda: True, lambda: site.now)
        found = run_to_end(answers.job_history(JobHistoryParams(params["job"]), users["as"]))
        return msgspec.json.decode(msgspec.json.encode(found))
    monkeypatch.setattr(site_client, "ask_site", ask)
    monkeypatch.setenv("COLUMNS", "80")
    yield users
    site.store.close()


def test_sweeps_with_a_busy_target_name_it_and_who_loaded_it(answers, capsys):
    assert 0 == why.main(["4711"])
    out = " ".join(capsys.readouterr().out.split())
    assert "1. OST0007 of scratch was busy: a write took 10.0 times its usual 4.1 ms" in out
    assert "while job 4733 (bob) wrote 2.0 GiB/s there Confidence: medium. " in out


def test_an_ordinary_user_does_not_learn_whose_job_it_was(answers, capsys):
    answers["as"] = "alice"
    assert 0 == why.main(["4711"])
    out = capsys.readouterr().out
    assert "while another user's job wrote 2.0 GiB/s there" in " ".join(out.split())
    assert "4733" not in out and "bob" not in out


def test_tasks_of_the_same_array_are_no_other_runs(monkeypatch):
    """What made one of them slow has often made all of them slow."""
    record = Record.of({"job": {"id": "100_3", "user": "alice", "started": BEGAN}}).replaced(
        batch={"name": "solve", "raw_job": "103", "array_job": "100", "cluster": "c1"})
    asked = []

    def ask(config, method, params, within_s=30.0):
        if method == "record":
            asked.append(params["job"])
            return []
        rows = ("100_2", "102"), ("1000_2", "1002"), ("90", "90"), ("100_3", "103")
        return {"next": None, "jobs": [
            {"name": "solve", "job_id": shown, "raw_job_id": raw, "cluster": "c1", "attempt": 0,
             "outcome": "COMPLETED"} for shown, raw in rows]}
    monkeypatch.setattr(site_client, "ask_site", ask)
    assert [] == why.fetch_similar_runs(record, 10, None)
    assert ["1002", "90"] == asked
