"""
The jobs that storage servers see: what the batch system says of them, when they are settled, and
why their totals may be too low.
"""

import asyncio

import pytest
from harvest_inside import BEGAN, HarvestInside, quiet

from iostats import schedulers
from iostats.base.errors import NotReadable
from iostats.base.job_facts import Facts
from iostats.harvest import harvested_job, job_lives
from iostats.harvest.resets import gaps
from iostats.report.job_summary import Summary
from iostats.store.record_store import Key


@pytest.fixture
def desk(tmp_path):
    one = HarvestInside(tmp_path / "site.sqlite")
    yield one
    one.store.close()


def test_a_batch_system_that_does_not_answer_is_one_line_an_hour(tmp_path, monkeypatch, caplog):
    """Whatever the number in the line; another trouble has a line of its own."""
    desk, hour = HarvestInside(tmp_path / "site.sqlite", batch_system="slurm"), [0.0]
    monkeypatch.setattr(job_lives.time, "monotonic", lambda: hour[0])
    why = ["squeue: cannot reach the controller (try 23)"]

    def facts(jobs):
        raise NotReadable(why[0])
    monkeypatch.setattr(schedulers.find_scheduler("slurm"), "facts", facts)

    def ask(count):
        for number in range(count):
            why[0] = why[0].replace("23", str(number))
            asyncio.run(desk.harvest.lives.query(["4711"]))
    ask(41)
    assert 1 == len(caplog.records)
    why[0] = "squeue: no such command"
    ask(2)
    assert 2 == len(caplog.records)
    hour[0] = 3600.0
    ask(3)
    assert 3 == len(caplog.records)
    desk.store.close()


class Sink:
    """Keeps {id: user} of each sweep that it gets."""

    def __init__(self):
        self.given = []

    def sweep(self, sweep, harvest):
        self.given.append({one: facts and facts.user for target in sweep.targets
                          for one in target.ids() for facts in [harvest.facts(one)]})


def test_a_sweep_waits_until_the_batch_system_was_asked_for_its_new_jobs(tmp_path, monkeypatch):
    """12366 is bob's; 4711, which it does not know, is waited for half a sweep."""
    monkeypatch.setattr(schedulers.find_scheduler("slurm"), "facts", lambda jobs: {
        "12366": Facts(job="12345_10", raw_job="12366", user="bob")})
    one = HarvestInside(tmp_path / "site.sqlite", batch_system="slurm")
    sink = Sink()
    one.harvest.sinks = [sink]
    one.send("oss1", one.block(ids=["12366"], read_bytes=(23, 41_003)))
    one.turn()
    assert [] == sink.given
    asyncio.run(one.harvest.lives.query(["12366"]))
    one.turn()
    assert [{"12366": "bob"}] == sink.given
    one.now += 20
    one.send("oss1", one.block(ids=["12366", "4711"], read_bytes=(37, 53_007)))
    one.now += 9
    one.turn()
    assert 1 == len(sink.given)
    one.now += 1
    one.turn()
    assert {"12366": "bob", "4711": None} == sink.given[1]
    one.store.close()


def test_a_job_without_a_batch_system_is_settled_by_silence_and_leaves_memory(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    desk.turn()
    quiet(desk, 1780)
    assert {} == desk.settled
    assert "quiet" == desk.harvest.lives.states()["4711"]
    quiet(desk, 40)
    assert ["4711"] == list(desk.settled)
    assert "4711" not in desk.harvest.lives.states()
    assert (True,
            {"scratch": (41_003, 0, False)}) == (desk.harvest.lives.find_harvested("4711").final,
                                                 desk.totals("4711"))
    desk.again()
    assert (True,
            {"scratch": (41_003, 0, False)}) == (desk.harvest.lives.find_harvested("4711").final,
                                                 desk.totals("4711"))
    assert "4711" not in desk.harvest.lives.states()
    desk.turn()
    assert ["4711"] == list(desk.settled)


def test_jobs_settle_a_day_after_all_agents_fell_silent_and_are_marked(desk):
    """
    Not sooner where this server was away itself: what waits on the storage servers comes first.
    """
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    desk.turn()
    desk.now += 86_000
    desk.turn()
    assert {} == desk.settled
    desk.now += 86_400
    desk.again()
    desk.turn()
    assert {} == desk.settled
    desk.now += 86_399
    desk.turn()
    assert {} == desk.settled
    desk.now += 2
    desk.turn()
    assert ["4711"] == list(desk.settled)
    assert {"scratch": (41_003, 0, True)} == desk.totals("4711")


def test_a_job_that_comes_back_after_it_was_settled_is_added_to_what_it_was(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    quiet(desk, 1840)
    desk.send("oss1", desk.block(gone=["4711"]))
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(5, 1009)))
    desk.turn()
    part = desk.harvest.lives.find_harvested("4711")
    assert (False, {"scratch": (42_012, 0, False)}) == (part.final, desk.totals("4711"))
    desk.again()
    assert {"scratch": (42_012, 0, False)} == desk.totals("4711")
    quiet(desk, 1840)
    assert (True,
            {"scratch": (42_012, 0, False)}) == (desk.harvest.lives.find_harvested("4711").final,
                                                 desk.totals("4711"))


def test_an_entry_that_never_expires_is_not_counted_again_by_a_full_sweep(desk):
    """job_cleanup_interval 0: what is settled still stands in job_stats."""
    def everlasting(**counters):
        return desk.block(ids=["4711"] if counters else (), started=BEGAN + 3,
                          head={"cleanup_s": 0}, **counters)
    desk.send("oss1", everlasting())
    desk.now += 20
    desk.send("oss1", everlasting(read_bytes=(23, 41_003)))
    for _ in range(95):
        desk.now += 20
        desk.send("oss1", everlasting())
        desk.turn()
    assert ["4711"] == list(desk.settled)
    desk.send("oss1", everlasting(read_bytes=(23, 41_003)), run="2" * 16, full=True)
    assert {"scratch": (41_003, 0, False)} == desk.totals("4711")
    desk.again()
    desk.now += 20
    desk.send("oss1", everlasting(read_bytes=(24, 42_012)), run="2" * 16)
    assert {"scratch": (42_012, 0, False)} == desk.totals("4711")


def test_a_job_is_not_settled_by_an_agent_whose_clock_is_a_day_ahead(desk):
    """It was set right between the reading and the message; what counts is our own time."""
    ahead = 86_000.0
    desk.send("oss1", desk.block(head={"read_at": desk.now + ahead}))
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003),
                                 head={"read_at": desk.now + ahead}))
    desk.turn()
    assert ({}, "running") == (desk.settled, desk.harvest.lives.states()["4711"])


def test_a_job_that_ran_while_no_agent_read_is_marked(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    desk.turn()
    desk.now += 3600                                           # the storage server was away
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(5, 1009)))
    desk.turn()
    assert {"scratch": (42_012, 0, True)} == desk.totals("4711")
    [fs] = harvested_job.as_record(desk.harvest.lives.find_harvested("4711"),
                                   ",".join)["file_systems"]
    assert fs["notes"] and "OST0000" in fs["notes"][0]


def test_what_each_program_did_is_known_where_the_ids_have_it(tmp_path):
    """
    By jobid_name %j:%e:%u, on two targets; once it is settled, too: solve has read 41 + 23 MiB in
    37 + 5 requests, tar 29 MiB in 3, and 7 MiB are under an id without a program.
    """
    mib = 2**20
    desk = HarvestInside(tmp_path / "site.sqlite", harvest_job_id="%j:%e:%u")
    desk.send("oss1", desk.block())
    desk.now += 20
    began = desk.now - 3

    def read(target, program, *counted, ended=False):
        return desk.block(target, [f"4711{program}"], began, ended=ended, read_bytes=counted)
    desk.send("oss1", read("OST0000", ":solve:1000", 37, 41 * mib),
              read("OST0000", ":tar:1000", 3, 29 * mib),
              read("OST0000", "", 2, 7 * mib, ended=True),
              read("OST0001", ":solve:1000", 5, 23 * mib, ended=True))
    expected = {"solve": {"read_bytes": 64 * mib, "read_rpcs": 42},
                "tar": {"read_bytes": 29 * mib, "read_rpcs": 3},
                "(unknown)": {"read_bytes": 7 * mib, "read_rpcs": 2}}
    for is_final in (False, True):
        if is_final:
            final(desk, "4711", lambda: desk.block("OST0001"))
        record = harvested_job.as_record(desk.harvest.lives.find_harvested("4711"), ",".join)
        [fs] = record["file_systems"]
        assert (100 * mib, expected, is_final) == (
            fs["read_bytes"], fs["programs"], record["final"])
        assert {"OST0000", "OST0001"} == set(fs["targets"])
    desk.store.close()


def test_steps_add_up_to_their_job(tmp_path):
    """
    With [harvest] job_id = %j.%s, on two targets, and once it is settled, too: each request is of
    one step.  Step 0 has written 41 + 23 MiB, step 1 29 MiB, the batch script 5 MiB, and 7 MiB are
    under an id without a step.
    """
    mib = 2**20
    desk = HarvestInside(tmp_path / "site.sqlite", harvest_job_id="%j.%s")
    desk.send("oss1", desk.block())
    desk.now += 20
    began = desk.now - 3

    def written(target, step, *counted, ended=False):
        return desk.block(target, [f"4711{step}"], began, ended=ended, write_bytes=counted)
    desk.send("oss1", written("OST0000", ".0", 37, 41 * mib), written("OST0000", ".1", 3, 29 * mib),
              written("OST0000", ".4294967291", 2, 5 * mib),
              written("OST0000", "", 2, 7 * mib, ended=True),
              written("OST0001", ".0", 5, 23 * mib, ended=True))
    expected = {"0": 64 * mib, "1": 29 * mib, "batch": 5 * mib, "(unknown)": 7 * mib}
    for is_final in (False, True):
        if is_final:
            final(desk, "4711", lambda: desk.block("OST0001"))
        record = harvested_job.as_record(desk.harvest.lives.find_harvested("4711"), ",".join)
        [fs] = record["file_systems"]
        assert expected == {step: metrics["write_bytes"] for step, metrics in fs["steps"].items()}
        assert (sum(expected.values()), {}, is_final) == (
            fs["write_bytes"], fs["programs"], record["final"])
    desk.store.close()


def final(desk, job, *others, run="1" * 16):
    """(bytes read, notes, lower_bound) of a job's final record, of the file system scratch."""
    for _ in range(95):
        desk.now += 20
        desk.send("oss1", desk.block(), *(one() for one in others), run=run)
        desk.turn()
    record = harvested_job.as_record(desk.harvest.lives.find_harvested(job), ",".join)
    assert record["final"]
    [fs] = [fs for fs in record["file_systems"] if fs["name"] == "scratch"]
    return fs["read_bytes"], fs["notes"], record["lower_bound"]


def test_what_a_clear_may_have_taken_before_a_job_was_first_seen_is_marked(desk):
    """
    When it began is not known; 4733 has shown the clear.  2 MiB of 3 were final and
    unmarked, and a note said that requests had carried no job's id.
    """
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4733"], started=desk.now - 3, read_bytes=(23, 41_003)))
    desk.now += 20                          # 4711 reads 1 MiB; clear; 4733, and 4711 2 MiB more
    desk.send("oss1", desk.block(ids=["4733"], started=desk.now - 9, read_bytes=(5, 1009)))
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 23, read_bytes=(2, 2 << 20)))
    assert (2 << 20, [f"OST0000: {gaps.CLEARED}{gaps.BEFORE_SEEN}"], True) == (
        final(desk, "4711"))


def test_what_a_clear_may_have_taken_after_a_job_was_last_seen_is_marked(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711", "4733"], started=desk.now - 3,
                                 read_bytes=(2, 2 << 20)))
    for _ in range(10):
        desk.now += 20
        desk.send("oss1", desk.block())
    desk.now += 20                          # 4711 reads 1 MiB; clear; 4733 is there again
    desk.send("oss1", desk.block(ids=["4733"], gone=["4711"], started=desk.now - 9,
                                 read_bytes=(5, 1009)))
    assert (2 << 20, [f"OST0000: {gaps.CLEARED}{gaps.AFTER_SEEN}"], True) == (
        final(desk, "4711"))


@pytest.mark.parametrize("reported, notes", [(2, []), (1, [gaps.AFTER_SEEN])],
                         ids=["all of them", "one is missing"])
def test_where_a_jobs_nodes_tell_when_it_ran_nothing_else_marks_it(desk, reported, notes):
    """It was over when the clear came; there is no batch system, but its nodes have reported."""
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711", "4733"], started=desk.now - 3,
                                 read_bytes=(2, 2 << 20)))
    key = Key("", "4711", 0)
    desk.store.add(key, "nid00001", "23", b"{}", b"{}", "alice", desk.now, desk.now)
    desk.store.store_records([(key, b"{}", "4711", "", "alice", desk.now, Summary(
        started=desk.now - 5.0, ended=float(desk.now), nodes=2, reported=reported), [], [])])
    for _ in range(10):
        desk.now += 20
        desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4733"], gone=["4711"], started=desk.now - 9,
                                 read_bytes=(5, 1009)))
    assert (2 << 20, [f"OST0000: {gaps.CLEARED}{one}" for one in notes], bool(notes)) == (
        final(desk, "4711"))


def test_a_long_silence_of_the_agent_after_a_job_was_last_seen_is_marked(desk):
    """The agent was dead for twenty minutes."""
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(2, 2 << 20)))
    for _ in range(10):
        desk.now += 20
        desk.send("oss1", desk.block())
    desk.now += 1200
    assert (2 << 20, [f"OST0000: {gaps.NO_SWEEP}{gaps.AFTER_SEEN}"], True) == (
        final(desk, "4711", run="2" * 16))


def test_a_target_of_a_file_system_that_a_job_never_used_marks_nothing_of_it(desk):
    """Of home the job was never seen; its OST0000 was cleared, and its agent came later."""
    def home(**more):
        return desk.block(head={"file_system": "home"}, **more)
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    desk.now += 20
    desk.send("oss1", desk.block(),
              home(ids=["4733"], started=desk.now - 3, read_bytes=(37, 53_007)))
    desk.now += 20
    desk.send("oss1", desk.block(),
              home(ids=["4733"], started=desk.now - 3, read_bytes=(5, 1009)))
    assert (41_003, [], False) == final(desk, "4711", home)
    assert ["home: OST0000: entries were removed before their time (job_stats cleared, the target "
            "started again, or the clock set), after the job was last seen; the time of its end is "
            "unknown; no counts of the job on home",
            "home: OST0000: first read after the job began; no counts of the job on home"
            ] == harvested_job.as_record(desk.harvest.lives.find_harvested("4711"),
                                         ",".join)["notes"]


def come_back(desk, on_home):
    """
    4711 reads on scratch, and on home what a clear takes before any sweep; it is settled, and
    reads again, `on_home` or on scratch; the record when it is settled once more.
    """
    def home(**more):
        return desk.block(head={"file_system": "home"}, **more)

    def sweep(scratch=None, at_home=None):
        desk.now += 20
        desk.send("oss1", desk.block(**scratch or {}), home(**at_home or {}))
        desk.turn()

    def read(started, amount, *ids):
        return {"ids": ids or ["4711"], "started": started, "read_bytes": (amount, amount)}
    sweep()
    sweep(read(desk.now + 17, 23), read(desk.now + 17, 37, "cp.0"))
    sweep({}, read(desk.now + 17, 5, "cp.0"))           # home was cleared
    for _ in range(95):
        sweep()
    assert ["4711"] == list(desk.settled)
    again = read(desk.now + 17, 41)
    sweep(*([{}, again] if on_home else [again]))
    for _ in range(95):
        sweep()
    return harvested_job.as_record(desk.harvest.lives.find_harvested("4711"), ",".join)


def test_what_was_lost_where_a_settled_job_was_not_seen_marks_it_when_it_is_seen_there(desk):
    """10 MiB of 1,010 were final and unmarked, beside a note that nothing was seen on home."""
    record = come_back(desk, on_home=True)
    home, scratch = record["file_systems"]
    assert (True, 41, 23) == (record["final"], home["read_bytes"], scratch["read_bytes"])
    assert (True, False) == (home["lower_bound"], scratch["lower_bound"])
    assert any(gaps.CLEARED in note for note in home["notes"])
    assert (True, []) == (record["lower_bound"], record["notes"])


def test_what_was_lost_where_a_job_is_never_seen_stays_a_note_when_it_comes_back(desk):
    record = come_back(desk, on_home=False)
    [scratch] = record["file_systems"]
    assert (64, False, False) == (scratch["read_bytes"], scratch["lower_bound"],
                                  record["lower_bound"])
    assert record["notes"] and all("no counts of the job on home" in note
                                   for note in record["notes"])


def test_what_may_have_been_lost_between_two_lives_of_a_job_is_marked(desk):
    """
    Without a batch system: 4711 is settled, job_stats are cleared, and it is seen again more than
    a day later.
    """
    def sweep(seconds=20, **more):
        desk.now += seconds
        desk.send("oss1", desk.block(**more))
        desk.turn()
    sweep()
    sweep(ids=["4711", "4733"], started=desk.now + 17, read_bytes=(23, 41_003))
    for _ in range(95):
        sweep()
    sweep(gone=["4711", "4733"])
    sweep(ids=["4733"], started=desk.now + 17, read_bytes=(37, 53_007))
    sweep(ids=["4733"], started=desk.now + 17, read_bytes=(5, 1009))
    for _ in range(160):
        sweep(550)
    sweep(ids=["4711"], started=desk.now + 17, read_bytes=(2, 37))
    for _ in range(4):
        sweep(550)
    record = harvested_job.as_record(desk.harvest.lives.find_harvested("4711"), ",".join)
    [scratch] = record["file_systems"]
    assert (True, 41_040) == (record["final"], scratch["read_bytes"])
    assert [f"OST0000: {gaps.CLEARED}{gaps.BEFORE_SEEN}"] == scratch["notes"]


@pytest.mark.parametrize("has_read_time", [True, False], ids=["when it read", "when it sent"])
def test_a_clear_stays_where_it_was_when_the_storage_servers_clock_is_set_right(desk,
                                                                                has_read_time):
    """By two hours, after the clear; the mark was at a time when the job had not run."""
    def send(ahead, run, started=BEGAN, **more):
        desk.ahead = ahead
        block = desk.block(started=started + ahead, **more)
        times = {"read_ahead_s": float(ahead)} if has_read_time else {}
        desk.send("oss1", block, run=run * 16, clock_ahead_s=float(ahead), **times)
        desk.now += 20
    send(7200, "1")
    send(7200, "1", ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003))
    send(7200, "1", ids=["4711"], started=desk.now - 3, read_bytes=(5, 1009))
    ended = desk.now - 20
    for _ in range(4):
        send(7200, "1")
    desk.harvest.lives.learn("4711", Facts(job="4711", state="ended", started=BEGAN + 17,
                                           ended=ended))
    for _ in range(95):
        send(0, "2")
        desk.turn()
    [fs] = harvested_job.as_record(desk.harvest.lives.find_harvested("4711"),
                                   ",".join)["file_systems"]
    assert (42_012, [f"OST0000: {gaps.CLEARED}"], True) == (
        fs["read_bytes"], fs["notes"], fs["lower_bound"])


def test_what_is_left_of_a_damaged_job_is_marked_on_each_file_system(desk):
    """What was lost may have been of any of them."""
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    whole = desk.harvest.lives.find_harvested("4711")._replace(final=True)
    assert not harvested_job.as_record(whole, ",".join)["lower_bound"]
    found = harvested_job.as_record(harvested_job.join_parts(
        harvested_job.make_damaged_job(desk.now), whole), ",".join)
    [fs] = found["file_systems"]
    assert (41_003, True, True) == (fs["read_bytes"], fs["lower_bound"], found["lower_bound"])
