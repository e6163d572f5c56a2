"""
The site server's side of the harvest: what has come of the storage servers, kept and added up.

A Harvest with a store of its own, and messages as an agent sends them.  An hour has 3600 seconds
here as well, but nobody waits for them.
"""

import asyncio
import zlib

import msgspec
import pytest

from iostats import schedulers
from iostats.base import config as site
from iostats.base.errors import NotReadable, StateError
from iostats.base.job_facts import Facts
from iostats.report.job_summary import Summary
from iostats.site import harvest_checkpoints, harvest_intake, harvested_job, job_lives
from iostats.site.harvest_store import SweepStore
from iostats.site.resets import gaps
from iostats.site.store import Key, Store
from iostats.wire.messages import sweep_json

BOOT = "b" * 32
NS = 1_000_000_000
BEGAN = 1_795_225_200                        # a multiple of 20


class Desk:
    """A Harvest, its clock, and what its agents have sent so far."""

    def __init__(self, path, **choices):
        self.path, self.now, self.settled = path, float(BEGAN), {}
        self.config = site.load(environ={})
        for name, value in {"batch.system": "none", **choices}.items():
            self.config.take(name.replace("_", ".", 1), str(value), "a test")
        self.store = self.harvest = None
        self.seqs = {}
        self.open()

    def open(self):
        self.store = Store(str(self.path))
        self.harvest = harvest_intake.Harvest(self.store, self.config, lambda: self.now)

    def again(self):
        """The server is killed, and begins again."""
        self.store.close()
        self.open()

    def send(self, node, *blocks, run="1" * 16, full=None, seq=None, **fields):
        """A message of one sweep; the answer."""
        if seq is None:
            seq = self.seqs[node, run] = self.seqs.get((node, run), 0) + 1
        message = {"protocol": 1, "node": node, "boot_id": BOOT, "clock_ahead_s": 0.0, "run": run,
                   "seq": seq, "full": seq == 1 if full is None else full,
                   "slot": int(self.now), "every": 20, "last": True, "targets": list(blocks),
                   **fields}
        answer = self.harvest.take(msgspec.convert(message, sweep_json.JsonSweep).received(), node)
        self.store.commit()
        return answer

    def block(self, target="OST0000", ids=(), started=BEGAN, gone=(), ended=True, **counters):
        """
        What one target shows: `ids`, with the same counters=(samples, sum, ...) for each of them.
        """
        ids = list(ids)
        at = list(range(len(ids)))
        columns = {
            name: {"unit": "bytes", "at": at, "samples": [one[0]] * len(ids),
                   "min": [1] * len(ids), "max": [one[1]] * len(ids), "sum": [one[1]] * len(ids),
                   "sumsq": [one[1] ** 2 % 2**64] * len(ids)}
            if isinstance(one, tuple) else
            {"unit": "reqs", "at": at, "samples": [one] * len(ids)}
            for name, one in counters.items()} if ids else {}
        return {"file_system": "scratch", "target": target, "read_at": self.now + 0.1,
                "cleanup_s": 600, "ended": ended, "entries": len(ids), "ids": ids,
                "started": [int(started * NS)] * len(ids), "seen": [int(self.now) * NS] * len(ids),
                "counters": columns, "gone": list(gone)}

    def turn(self):
        """One look of the server at what there is to do."""
        async def look():
            self.harvest.end_sweep()
            await self.harvest.lives.settle(self.harvest.swept_until(), self.settled.update,
                                            self.harvest.forget)
            while self.harvest.checkpoints.step():
                pass
        asyncio.run(look())

    def totals(self, job):
        """{file system: (read_bytes, write_bytes, is anything noted)} of what is known."""
        part = self.harvest.lives.harvested(job)
        record = harvested_job.as_record(part, ",".join)
        for fs in record["file_systems"]:
            assert fs["lower_bound"] is (bool(fs["notes"]) or not part.final)
        return {fs["name"]: (fs["read_bytes"], fs["write_bytes"], bool(fs["notes"]))
                for fs in record["file_systems"]}


@pytest.fixture
def desk(tmp_path):
    one = Desk(tmp_path / "site.sqlite")
    yield one
    one.store.close()


def quiet(desk, seconds):
    """Sweeps in which nothing has changed."""
    for _ in range(0, seconds, 20):
        desk.now += 20
        desk.send("oss1", desk.block())
        desk.turn()


def test_a_job_of_two_targets_is_added_up(desk):
    desk.send("oss1", desk.block("OST0000"), desk.block("OST0001"))
    desk.now += 20
    desk.send("oss1",
              desk.block("OST0000", ["4711", "cp.0"], desk.now - 3, read_bytes=(23, 41_003)),
              desk.block("OST0001", ["4711"], desk.now - 3, write_bytes=(37, 53_007)))
    assert {"scratch": (41_003, 53_007, False)} == desk.totals("4711")
    assert desk.harvest.lives.harvested("cp.0") is None


@pytest.mark.parametrize("is_dated, samples, most, total", [
    (True, 23, 2**63, 2**63), (False, 23, 2**63, 2**63), (True, 23, 2**64 - 1, 2**64 - 1),
    (False, 23, 37, 852)])
def test_what_no_kernel_has_kept_is_not_believed(desk, is_dated, samples, most, total):
    """Of an agent of before: its job's numbers are what was known, and `>=`; others are whole."""
    desk.send("oss1", desk.block())
    began = int(desk.now + 7) * NS

    def block(*rows):
        ids, columns = [row[0] for row in rows], list(zip(*rows))[1:]
        found = desk.block("OST0000", ids, desk.now - 3)
        found["started"] = [began * is_dated] * len(ids)
        found["counters"] = {"write_bytes": {
            "unit": "bytes", "at": list(range(len(ids))),
            **dict(zip(("samples", "max", "sum"), map(list, columns))),
            "min": [1] * len(ids), "sumsq": [0] * len(ids)}}
        return found
    desk.now += 20
    desk.send("oss1", block(("4711", 11, 29, 31), ("4712", 11, 29, 37)))
    desk.now += 20
    desk.send("oss1", block(("4711", samples, most, total), ("4712", 13, 31, 43)))
    for _ in range(2):
        assert {"scratch": (0, 31, True)} == desk.totals("4711")
        assert {"scratch": (0, 43, False)} == desk.totals("4712")
        desk.again()


def test_a_batch_system_that_does_not_answer_is_one_line_an_hour(tmp_path, monkeypatch, caplog):
    """Whatever the number in the line; another trouble has a line of its own."""
    desk, hour = Desk(tmp_path / "site.sqlite", batch_system="slurm"), [0.0]
    monkeypatch.setattr(job_lives.time, "monotonic", lambda: hour[0])
    why = ["squeue: cannot reach the controller (try 23)"]

    def facts(jobs):
        raise NotReadable(why[0])
    monkeypatch.setattr(schedulers.named("slurm"), "facts", facts)

    def ask(count):
        for number in range(count):
            why[0] = why[0].replace("23", str(number))
            asyncio.run(desk.harvest.lives.ask(["4711"]))
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
    """Keeps what it is told of each sweep: [{id: user}]."""

    def __init__(self):
        self.told = []

    def sweep(self, sweep, harvest):
        self.told.append({one: facts and facts.user for target in sweep.targets
                          for one in target.ids() for facts in [harvest.facts(one)]})


def test_a_sweep_with_new_jobs_is_given_out_when_they_have_been_asked_for(tmp_path, monkeypatch):
    """12366 is bob's; of 4711, a sweep later, the batch system tells nothing: half a sweep long."""
    monkeypatch.setattr(schedulers.named("slurm"), "facts", lambda jobs: {
        "12366": Facts(job="12345_10", raw_job="12366", user="bob")})
    one = Desk(tmp_path / "site.sqlite", batch_system="slurm")
    sink = Sink()
    one.harvest.sinks = [sink]
    one.send("oss1", one.block(ids=["12366"], read_bytes=(23, 41_003)))
    one.turn()
    assert [] == sink.told
    asyncio.run(one.harvest.lives.ask(["12366"]))
    one.turn()
    assert [{"12366": "bob"}] == sink.told
    one.now += 20
    one.send("oss1", one.block(ids=["12366", "4711"], read_bytes=(37, 53_007)))
    one.now += 9
    one.turn()
    assert 1 == len(sink.told)
    one.now += 1
    one.turn()
    assert {"12366": "bob", "4711": None} == sink.told[1]
    one.store.close()


def test_a_message_that_comes_twice_is_taken_once(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    one = desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003))
    assert {"taken": True, "why": ""} == desk.send("oss1", one, seq=2)
    answer = desk.send("oss1", one, seq=2)
    assert (True, "this message was taken before") == (answer["taken"], answer["why"])
    assert {"scratch": (41_003, 0, False)} == desk.totals("4711")


@pytest.mark.parametrize("seq, run, full", [(4, "1" * 16, False), (2, "2" * 16, False),
                                            (1, "2" * 16, False), (2, "2" * 16, True)],
                         ids=["one is missing", "another run", "a new run that is not full",
                              "the second of a new run"])
def test_after_a_hole_everything_is_asked_for_again(desk, seq, run, full):
    desk.send("oss1", desk.block())
    desk.send("oss1", desk.block())
    desk.now += 20
    answer = desk.send("oss1", desk.block(ids=["4711"], read_bytes=(23, 41_003)), seq=seq, run=run,
                       full=full)
    assert (False, "full") == (answer["taken"], answer["want"])
    assert desk.harvest.lives.harvested("4711") is None
    assert desk.send("oss1", desk.block(ids=["4711"], read_bytes=(23, 41_003)), run="3" * 16,
                     full=True)["taken"]
    assert 41_003 == desk.totals("4711")["scratch"][0]


def test_a_server_that_is_killed_has_lost_nothing_and_takes_nothing_twice(desk):
    desk.send("oss1", desk.block())
    for number in range(1, 38):
        desk.now += 20
        one = desk.block(ids=["4711"], started=BEGAN + 3, read_bytes=(number, 1009 * number))
        desk.send("oss1", one, seq=number + 1)
        desk.turn()
        if number % 5 == 0:
            desk.again()
            assert desk.send("oss1", one, seq=number + 1)["why"]
        if number % 7 == 0:
            desk.harvest.checkpoints.write(list(desk.harvest.targets))
    assert {"scratch": (37 * 1009, 0, False)} == desk.totals("4711")
    desk.again()
    assert {"scratch": (37 * 1009, 0, False)} == desk.totals("4711")


def replayed(desk):
    """Bytes that the next start has to go through once more."""
    [(size,)] = desk.store.rows("SELECT coalesce(sum(length(body)), 0) FROM blocks")
    return size


def test_an_orderly_end_leaves_the_next_start_nothing_to_replay(desk):
    desk.send("oss1", desk.block("OST0000"), desk.block("MDT0000"))
    desk.now += 20
    desk.send("oss1", desk.block("OST0000", ids=["4711"], started=BEGAN + 3,
                                 read_bytes=(23, 41_003)), desk.block("MDT0000"))
    desk.turn()
    assert replayed(desk)
    desk.harvest.close()
    assert 0 == replayed(desk)
    desk.again()
    assert {"scratch": (41_003, 0, False)} == desk.totals("4711")
    desk.now += 20
    desk.send("oss1", desk.block("OST0000", ids=["4711"], started=BEGAN + 3,
                                 read_bytes=(37, 53_007)), desk.block("MDT0000"))
    assert {"scratch": (53_007, 0, False)} == desk.totals("4711")
    desk.harvest.close()
    assert 0 == replayed(desk)


def test_many_targets_have_no_more_to_replay_than_their_states_take(desk, monkeypatch):
    monkeypatch.setattr(harvest_checkpoints, "REPLAY_BYTES", 41)
    monkeypatch.setattr(harvest_checkpoints, "LEAST_BYTES", 37)
    names = [f"OST{number:04x}" for number in range(37)]
    for number in range(1, 24):
        desk.send("oss1", *(desk.block(name, ids=["4711"], started=BEGAN + 3,
                                       read_bytes=(number, 1009 * number)) for name in names),
                  seq=number, full=number == 1)
        desk.turn()
        desk.now += 20
    [(states,)] = desk.store.rows("SELECT sum(length(state)) FROM targets")
    assert 0 < replayed(desk) <= states
    desk.again()
    assert 37 * 23 * 1009 == desk.totals("4711")["scratch"][0]


def test_a_block_whose_entries_have_a_start_time_is_kept_without_what_nobody_asks_for(desk):
    """Rule 1 of resets/rules.py needs no min, max and sumsq."""
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    desk.store.commit()
    [(body,)] = desk.store.rows("SELECT body FROM blocks")
    column = msgspec.msgpack.decode(body)["block"]["counters"]["read_bytes"]
    assert ([23], [41_003], None, None, None) == tuple(
        column[name] for name in ("samples", "sum", "min", "max", "sumsq"))


def test_a_job_without_a_batch_system_is_settled_by_silence_and_leaves_memory(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    desk.turn()
    quiet(desk, 1780)
    assert {} == desk.settled
    assert "quiet" == desk.harvest.lives.state("4711")
    quiet(desk, 40)
    assert ["4711"] == list(desk.settled)
    assert desk.harvest.lives.state("4711") is None
    assert (True, {"scratch": (41_003, 0, False)}) == (desk.harvest.lives.harvested("4711").final,
                                                       desk.totals("4711"))
    desk.again()
    assert (True, {"scratch": (41_003, 0, False)}) == (desk.harvest.lives.harvested("4711").final,
                                                       desk.totals("4711"))
    assert desk.harvest.lives.state("4711") is None
    desk.turn()
    assert ["4711"] == list(desk.settled)


def test_a_job_that_comes_back_after_it_was_settled_is_added_to_what_it_was(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    quiet(desk, 1840)
    desk.send("oss1", desk.block(gone=["4711"]))
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(5, 1009)))
    desk.turn()
    part = desk.harvest.lives.harvested("4711")
    assert (False, {"scratch": (42_012, 0, False)}) == (part.final, desk.totals("4711"))
    desk.again()
    assert {"scratch": (42_012, 0, False)} == desk.totals("4711")
    quiet(desk, 1840)
    assert (True, {"scratch": (42_012, 0, False)}) == (desk.harvest.lives.harvested("4711").final,
                                                       desk.totals("4711"))


def test_an_entry_that_never_expires_is_not_counted_again_by_a_full_sweep(desk):
    """job_cleanup_interval 0: what is settled still stands in job_stats."""
    def everlasting(**counters):
        return {**desk.block(ids=["4711"] if counters else (), started=BEGAN + 3, **counters),
                "cleanup_s": 0}
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


def test_two_agents_for_one_target_are_told_so_and_nothing_is_counted_twice(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    one = desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003))
    desk.send("oss1", one)
    answer = desk.send("oss2", one)
    assert (False, "full", "another agent reads the same targets: scratch-OST0000 (oss1); stop one "
            "of them, unless they have just moved") == (
        answer["taken"], answer["want"], answer["why"])
    assert {"scratch": (41_003, 0, False)} == desk.totals("4711")


def test_a_target_that_moves_to_another_server_goes_on(desk):
    desk.send("oss1", desk.block(), desk.block("OST0001"))
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)),
              desk.block("OST0001"))
    desk.now += 20
    desk.send("oss1", desk.block("OST0001"))                   # it has the other one no more
    desk.now += 20
    answer = desk.send("oss2", desk.block(ids=["4711"], started=desk.now - 3,
                                          read_bytes=(5, 1009)), boot_id="c" * 32)
    assert answer["taken"]
    read, _, marked = desk.totals("4711")["scratch"]
    assert (42_012, True) == (read, marked)


def sweep_of(desk):
    """(seconds since BEGAN, is it complete, its targets) of the last sweep that was given out."""
    sweep = desk.harvest.sweep
    return sweep.slot - BEGAN, sweep.complete, sorted(one.target for one in sweep.targets)


def in_time(desk, seconds, *agents, every=20):
    """Up to `seconds` after BEGAN: each second a look; each of `agents` sends at its own pause."""
    given = []
    while desk.now < BEGAN + seconds:
        desk.now += 1
        for name, target in agents:
            if (desk.now - BEGAN) % every == 0:
                desk.send(name, desk.block(target), every=every)
        desk.turn()
        if desk.harvest.sweep and (desk.now - BEGAN, *sweep_of(desk)) not in given and (
                not given or given[-1][1] != sweep_of(desk)[0]):
            given.append((desk.now - BEGAN, *sweep_of(desk)))
    return given


def test_a_dead_agent_holds_up_one_sweep_and_no_other(desk):
    """
    oss2 is killed after BEGAN: the others wait for it for 18 s of 20 once, and then no more, though
    for 65 s it may be back at any time.  When it is, it is waited for again.
    """
    oss1, oss2 = ("oss1", "OST0001"), ("oss2", "OST0002")
    for name, target in (oss1, oss2):
        desk.send(name, desk.block(target))
    desk.turn()
    assert (0, True, ["OST0001", "OST0002"]) == sweep_of(desk)
    alone = ["OST0001"]
    assert [(38, 20, False, alone), (40, 40, False, alone), (60, 60, False, alone),
            (80, 80, True, alone)] == in_time(desk, 80, oss1)[1:]
    both = ["OST0001", "OST0002"]
    assert [(100, 100, True, both), (120, 120, True, both)] == in_time(desk, 120, oss1, oss2)[1:]
    desk.now += 20
    desk.send("oss1", desk.block("OST0001"))
    desk.turn()
    assert 120 == sweep_of(desk)[0]


def test_after_a_restart_a_dead_agent_is_not_waited_for(desk):
    """And what the others had sent is there at once."""
    for name, target in (("oss1", "OST0001"), ("oss2", "OST0002")):
        desk.send(name, desk.block(target))
    for _ in range(2):
        desk.now += 20
        desk.send("oss1", desk.block("OST0001"))
    desk.again()
    desk.turn()
    assert (40, False, ["OST0001"]) == sweep_of(desk)


@pytest.mark.parametrize("restarted", [False, True])
def test_one_agents_long_pause_holds_up_nobody(desk, restarted):
    """oss2 sweeps every hour, oss1 every 20 s; up to its next one, the last one of oss2 counts."""
    desk.now = BEGAN + 3600 - BEGAN % 3600
    desk.send("oss2", desk.block("OST0002"), every=3600)
    first = desk.now
    for number in range(4):
        desk.send("oss1", desk.block("OST0001"))
        if restarted:
            desk.again()
        desk.turn()
        sweep = desk.harvest.sweep
        assert (first + 20 * number, 20, True, 2) == (
            sweep.slot, sweep.every_s, sweep.complete, len(sweep.targets))
        desk.now += 20


def test_with_two_pauses_the_longer_one_is_waited_for_at_its_own_times_alone(desk):
    """An OSS every 200 s, an MDS whose targets forget sooner every 40 s."""
    desk.now, given = 1_795_225_400.0, []
    for second in range(0, 600, 40):
        desk.send("mds1", desk.block("MDT0000"), every=40)
        if second % 200 == 0:
            desk.turn()
            assert second == 0 or desk.harvest.sweep.slot < desk.now       # for its part
            desk.send("oss1", desk.block("OST0000"), every=200)
        desk.turn()
        sweep = desk.harvest.sweep
        given.append((sweep.slot - 1_795_225_400, sweep.complete, len(sweep.targets)))
        desk.now += 40
    assert [(second, True, 1 if not second else 2) for second in range(0, 600, 40)][1:] == given[1:]


@pytest.mark.parametrize("every", [3601, 86_400, 10**7])
def test_an_absurd_pause_is_refused(desk, every):
    """One hour is the longest."""
    with pytest.raises(msgspec.ValidationError, match=r"<= 3600.*every"):
        desk.send("oss1", desk.block(), every=every)


def test_a_clock_that_was_set_back_stops_no_sweeps(desk):
    """The site's, by an hour; its agents follow it."""
    desk.now += 3600
    desk.send("oss1", desk.block())
    desk.turn()
    assert 3600 == sweep_of(desk)[0]
    desk.now -= 3597
    desk.turn()
    desk.now += 17
    desk.send("oss1", desk.block())
    desk.turn()
    assert 20 == sweep_of(desk)[0]


def test_two_agents_of_one_name_are_told_so(desk):
    """Two storage servers that call themselves alike: each ends the other's chain."""
    desk.send("oss1", desk.block("OST0000"), run="1" * 16)
    desk.now += 20
    desk.send("oss1", desk.block("OST0001"), run="2" * 16, boot_id="c" * 32)
    desk.now += 20
    answer = desk.send("oss1", desk.block("OST0000"), run="1" * 16)
    assert (False, "full", "another agent sends as 'oss1': stop one of them, or name it by --node"
            ) == (answer["taken"], answer["want"], answer["why"])


def test_a_job_is_not_settled_by_an_agent_whose_clock_is_a_day_ahead(desk):
    """It was set right between the reading and the message; what counts is our own time."""
    ahead = 86_000.0
    desk.send("oss1", {**desk.block(), "read_at": desk.now + ahead})
    desk.now += 20
    one = desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003))
    desk.send("oss1", {**one, "read_at": desk.now + ahead})
    desk.turn()
    assert ({}, "running") == (desk.settled, desk.harvest.lives.state("4711"))


def test_a_job_that_ran_while_nobody_looked_is_marked(desk):
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))
    desk.turn()
    desk.now += 3600                                           # the storage server was away
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(5, 1009)))
    desk.turn()
    assert {"scratch": (42_012, 0, True)} == desk.totals("4711")
    [fs] = harvested_job.as_record(desk.harvest.lives.harvested("4711"), ",".join)["file_systems"]
    assert fs["notes"] and "OST0000" in fs["notes"][0]


def final(desk, job, *others, run="1" * 16):
    """(bytes read, notes, lower_bound) of a job's final record, of the file system scratch."""
    for _ in range(95):
        desk.now += 20
        desk.send("oss1", desk.block(), *(one() for one in others), run=run)
        desk.turn()
    record = harvested_job.as_record(desk.harvest.lives.harvested(job), ",".join)
    assert record["final"]
    [fs] = [fs for fs in record["file_systems"] if fs["name"] == "scratch"]
    return fs["read_bytes"], fs["notes"], record["lower_bound"]


def test_what_a_clear_may_have_taken_before_a_job_was_first_seen_is_marked(desk):
    """
    No batch system tells when it began; 4733 has shown the clear.  2 MiB of 3 were final and
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
    """It was over when the clear came; no batch system tells, but its nodes have reported."""
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711", "4733"], started=desk.now - 3,
                                 read_bytes=(2, 2 << 20)))
    key = Key("", "4711", 0)
    desk.store.add(key, "nid00001", "23", b"{}", b"{}", "alice", desk.now, desk.now)
    desk.store.keep_records([(key, b"{}", "4711", "", "alice", desk.now, Summary(
        started=desk.now - 5.0, ended=float(desk.now), nodes=2, reported=reported))])
    for _ in range(10):
        desk.now += 20
        desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4733"], gone=["4711"], started=desk.now - 9,
                                 read_bytes=(5, 1009)))
    assert (2 << 20, [f"OST0000: {gaps.CLEARED}{one}" for one in notes], bool(notes)) == (
        final(desk, "4711"))


def test_what_nobody_read_for_longer_than_an_interval_after_a_job_was_last_seen_is_marked(desk):
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
        return {**desk.block(**more), "file_system": "home"}
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
            "started again, or the clock set), after the job was last seen; when it ended is not "
            "known; nothing was seen of the job on home",
            "home: OST0000: first read after the job began; nothing was seen of the job on home"
            ] == desk.harvest.lives.harvested("4711").notes


@pytest.mark.parametrize("told", [True, False], ids=["when it read", "when it sent"])
def test_a_clear_stays_where_it_was_when_the_storage_servers_clock_is_set_right(desk, told):
    """By two hours, after the clear; the mark was at a time when the job had not run."""
    def send(ahead, run, **more):
        block = desk.block(**more)
        block = {**block, "read_at": block["read_at"] + ahead,
                 "started": [one + ahead * NS for one in block["started"]],
                 "seen": [one + ahead * NS for one in block["seen"]]}
        times = {"read_ahead_s": float(ahead)} if told else {}
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
    [fs] = harvested_job.as_record(desk.harvest.lives.harvested("4711"), ",".join)["file_systems"]
    assert (42_012, [f"OST0000: {gaps.CLEARED}"], True) == (
        fs["read_bytes"], fs["notes"], fs["lower_bound"])


def test_a_sweep_planned_in_the_future_does_not_hide_those_that_come(desk):
    """By an agent whose clock is 10 minutes ahead, and that had not heard of ours."""
    desk.send("oss1", desk.block(), slot=int(desk.now) + 600)
    desk.turn()
    desk.now += 20
    desk.send("oss1", desk.block())
    desk.turn()
    assert (BEGAN + 20, True) == (desk.harvest.sweep.slot, desk.harvest.sweep.complete)


def test_a_late_copy_of_a_past_chains_first_message_does_not_turn_the_chain_back(desk):
    """It was on its way while another chain began; that one goes on, without a full sweep."""
    first = desk.block(ids=["4711"], started=BEGAN - 3, read_bytes=(23, 41_003))
    desk.send("oss1", first)
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=BEGAN - 3, read_bytes=(37, 53_007)),
              run="2" * 16)
    assert {"taken": False, "want": "full"} == {
        name: value for name, value in desk.send("oss1", first, seq=1).items() if name != "why"}
    desk.now += 20
    assert desk.send("oss1", desk.block(ids=["4711"], started=BEGAN - 3, read_bytes=(41, 61_403)),
                     run="2" * 16)["taken"]
    assert {"scratch": (61_403, 0, False)} == {
        name: (read, written, False) for name, (read, written, _) in desk.totals("4711").items()}


def test_a_store_that_cannot_be_read_back_is_not_taken_for_an_empty_one(desk, monkeypatch):
    """Its disk failed, and fails still: nothing is taken, and no half is written as the whole."""
    desk.send("oss1", desk.block())
    desk.now += 20
    desk.send("oss1", desk.block(ids=["4711"], started=desk.now - 3, read_bytes=(23, 41_003)))

    def fail(*_):
        raise StateError("site.sqlite: cannot be read: disk I/O error")
    with monkeypatch.context() as patch:
        patch.setattr(SweepStore, "blocks", fail)
        with pytest.raises(StateError):
            desk.harvest.reload()
        desk.now += 20
        with pytest.raises(StateError):
            desk.send("oss1", desk.block(ids=["4712"], started=desk.now - 3, read_bytes=(1, 37)))
    assert desk.send("oss1", desk.block(ids=["4712"], started=desk.now - 3, read_bytes=(1, 37)),
                     seq=3)["taken"]
    assert {"scratch": (41_003, 0, False)} == desk.totals("4711")
    assert {"scratch": (37, 0, False)} == desk.totals("4712")


def with_width(state, width):
    """A target's state whose first array is said to be of this kind, with the checksum right."""
    magic, rest = state[:18], state[27:]
    head, _, body = rest.partition(b"\n")
    about = msgspec.json.decode(body[:int(head)])
    about["arrays"][0][2] = width
    new = msgspec.json.encode(about)
    rest = b"%d\n" % len(new) + new + body[int(head):]
    return magic + b"%08x\n" % zlib.crc32(rest) + rest


@pytest.mark.parametrize("width", ["01u4", "O", "u4,u4", "V8", "<m8"])
def test_one_damaged_target_costs_itself_alone_and_is_put_aside(desk, caplog, width):
    """
    OST0001 is as it was; of OST0000 everything is asked for again, also after another restart, and
    what was counted there before is marked.
    """
    one = {"ids": ["4711"], "started": BEGAN + 17}
    desk.send("oss1", desk.block(), desk.block("OST0001"))
    desk.now += 20
    desk.send("oss1", desk.block(read_bytes=(23, 41_003), **one),
              desk.block("OST0001", read_bytes=(5, 1009), **one))
    desk.harvest.checkpoints.write(list(desk.harvest.targets))
    damaged = with_width(desk.harvest.targets["scratch", "OST0000"].state(), width)
    desk.store.change("UPDATE targets SET state = ? WHERE target = 'OST0000'", (damaged,))
    desk.now += 20
    desk.send("oss1", desk.block(read_bytes=(24, 42_012), **one), desk.block("OST0001"))
    desk.again()
    assert "site.sqlite: the saved entries of scratch-OST0000: " in caplog.text
    assert [("targets", "scratch OST0000", damaged)] == desk.store.rows(
        "SELECT place, row, body FROM damaged")
    desk.again()
    assert {"scratch": (1009, 0, False)} == desk.totals("4711")
    desk.now += 20
    assert "full" == desk.send("oss1", desk.block(), desk.block("OST0001"))["want"]
    desk.send("oss1", desk.block(read_bytes=(25, 53_007), **one), desk.block("OST0001"),
              run="2" * 16)
    assert {"scratch": (54_016, 0, True)} == desk.totals("4711")


@pytest.mark.parametrize("table", ["agents", "blocks", "lives", "harvests"])
def test_any_damaged_row_of_the_harvest_costs_itself_alone(desk, caplog, table):
    """4712, which is settled, and 4713, which runs, are there with what else is known of them."""
    one = {"ids": ["4712"], "started": BEGAN + 17}
    desk.send("oss1", desk.block(), desk.block("OST0001"))
    desk.now += 20
    desk.send("oss1", desk.block(read_bytes=(23, 41_003), **one),
              desk.block("OST0001", read_bytes=(5, 1009), **one))
    for _ in range(92):
        desk.now += 20
        desk.send("oss1", desk.block(), desk.block("OST0001"))
        desk.turn()
    assert ["4712"] == list(desk.settled)
    desk.now += 20
    two = {"ids": ["4713"], "started": desk.now - 3}
    desk.send("oss1", desk.block(read_bytes=(37, 53_007), **two), desk.block("OST0001"))
    desk.turn()
    desk.harvest.checkpoints.write(list(desk.harvest.targets))
    desk.now += 20
    desk.send("oss1", desk.block(), desk.block("OST0001"))
    where = "id = (SELECT min(id) FROM blocks)" if table == "blocks" else "true"
    desk.store.change(f"UPDATE {table} SET body = x'80' WHERE {where}")
    desk.again()
    settled, runs = desk.totals("4712"), desk.totals("4713")
    assert ({} if table == "harvests" else {"scratch": (42_012, 0, False)}) == settled
    assert {"scratch": (53_007, 0, False)} == runs
    if table == "harvests":
        assert ["what was counted before is damaged in the server's store, and was put aside"] == (
            desk.harvest.lives.harvested("4712").notes)
    assert "site.sqlite: " in caplog.text and "put aside" in caplog.text
    assert [(table, b"\x80")] == desk.store.rows("SELECT place, body FROM damaged")
    desk.again()
    assert (settled, runs) == (desk.totals("4712"), desk.totals("4713"))


def test_what_cannot_be_kept_is_not_counted(desk, monkeypatch):
    from iostats.base.errors import StateError
    desk.send("oss1", desk.block())
    desk.now += 20

    def full(*_):
        raise StateError("the disk is full")
    monkeypatch.setattr(SweepStore, "add", full)
    with pytest.raises(StateError):
        desk.send("oss1", desk.block(ids=["4711"], read_bytes=(23, 41_003)), seq=2)
    assert desk.harvest.lives.harvested("4711") is None
    assert 1 == desk.harvest.agents["oss1"].seq
