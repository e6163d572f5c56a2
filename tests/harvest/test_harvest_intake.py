"""
Messages of agents: which of them the site's server takes, when a sweep is complete, and what is
counted.
"""

import msgspec
import pytest
from harvest_inside import BEGAN, HarvestInside
from sweep_blocks import Column

from iostats.answers.load_queries import LoadAnswers, LoadParams, QueryParams
from iostats.base.cooperative import run_to_end


@pytest.fixture
def desk(tmp_path):
    one = HarvestInside(tmp_path / "site.sqlite")
    yield one
    one.store.close()


def test_a_job_of_two_targets_is_added_up(desk):
    desk.send("oss1", desk.block("OST0000"), desk.block("OST0001"))
    desk.now += 20
    desk.send("oss1",
              desk.block("OST0000", ["4711", "cp.0"], desk.now - 3, read_bytes=(23, 41_003)),
              desk.block("OST0001", ["4711"], desk.now - 3, write_bytes=(37, 53_007)))
    assert {"scratch": (41_003, 53_007, False)} == desk.totals("4711")
    assert desk.harvest.lives.find_harvested("cp.0") is None


@pytest.mark.parametrize("is_dated, samples, most, total", [
    (True, 23, 2**63, 2**63), (False, 23, 2**63, 2**63), (True, 23, 2**64 - 1, 2**64 - 1),
    (False, 23, 37, 852)])
def test_numbers_that_no_kernel_can_have_are_not_counted(desk, is_dated, samples, most, total):
    """From an older agent: the job keeps what was known, marked `>=`; others are whole."""
    desk.send("oss1", desk.block())
    began = int(desk.now + 7)

    def block(*rows):
        ids, columns = [row[0] for row in rows], list(zip(*rows))[1:]
        samples, largest, sums = map(list, columns)
        return desk.block("OST0000", ids, began * is_dated, write_bytes=Column(
            "bytes", list(range(len(ids))), samples, [1] * len(ids), largest, sums,
            [0] * len(ids)))
    desk.now += 20
    desk.send("oss1", block(("4711", 11, 29, 31), ("4712", 11, 29, 37)))
    desk.now += 20
    desk.send("oss1", block(("4711", samples, most, total), ("4712", 13, 31, 43)))
    for _ in range(2):
        assert {"scratch": (0, 31, True)} == desk.totals("4711")
        assert {"scratch": (0, 43, False)} == desk.totals("4712")
        desk.again()


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
    assert desk.harvest.lives.find_harvested("4711") is None
    assert desk.send("oss1", desk.block(ids=["4711"], read_bytes=(23, 41_003)), run="3" * 16,
                     full=True)["taken"]
    assert 41_003 == desk.totals("4711")["scratch"][0]


def test_the_second_agent_of_a_target_is_refused_and_nothing_is_counted_twice(desk):
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


def read_late(desk, *sweeps):
    """
    Storage servers read OST0000 every 20 s, then are silent until both are down, and deliver the
    rest: `sweeps`: (node, its block's arguments, whether it is delivered at once).
    """
    late = []
    for node, block, is_delivered in sweeps:
        message = [node, *([desk.block(**block(desk.now))] if block else [])]
        fields = {"slot": int(desk.now), "boot_id": node[-1] * 32}
        if is_delivered:
            assert desk.send(*message, **fields)["taken"]
        else:
            late.append((message, fields))
        desk.now += 20
    desk.harvest.close()                    # and another start, which has slots from agents alone
    desk.again()
    desk.now += 100
    for message, fields in late:
        assert desk.send(*message, **fields)["taken"]


def entry(started, *read):
    """The entry of 4711, made so long before its reading; (samples, bytes)."""
    return lambda now: {"ids": ["4711"], "started": now - started, "read_bytes": read}


def test_a_reading_that_another_server_has_followed_is_not_added(desk):
    """
    oss2 was disconnected before the target moved to oss1, and delivers its last readings when oss1
    is disconnected, too: as if the target had moved back, all was counted twice, 97,022 of 55,010.
    """
    read_late(desk,
              ("oss2", lambda now: {}, True),
              ("oss2", entry(3, 23, 41_003), True),
              ("oss2", entry(23, 29, 43_003), False),
              ("oss2", entry(43, 37, 53_007), False),
              ("oss1", entry(3, 5, 1009), True))
    assert {"scratch": (41_003 + 1009, 0, True)} == desk.totals("4711")
    desk.send("oss1", desk.block(**entry(123, 7, 2003)(desk.now)), boot_id="1" * 32)
    for _ in range(2):
        assert {"scratch": (41_003 + 2003, 0, True)} == desk.totals("4711")
        desk.again()


@pytest.mark.parametrize("was_moved", [True, False])
def test_a_reading_that_is_not_added_marks_the_jobs_of_its_time(desk, was_moved):
    """It alone proves that the target was on oss2 for 20 s: 4711 has read 53,007 bytes there."""
    read_late(desk,
              ("oss1", lambda now: {}, True),
              ("oss1", None, True),
              ("oss2", entry(3, 37, 53_007) if was_moved else None, False),
              ("oss1", entry(3, 5, 1009), True))
    for _ in range(2):
        assert {"scratch": (1009, 0, was_moved)} == desk.totals("4711")
        desk.again()


def test_a_reading_by_a_clock_that_was_ahead_is_followed_by_those_of_another_server(desk):
    """oss1's clock was 7,200 s ahead when it read, and was set right before it was connected."""
    desk.send("oss1", desk.block())
    desk.now += 20
    wrong = desk.block(**entry(3, 23, 41_003)(desk.now), head={"read_at": desk.now + 7200})
    desk.send("oss1", wrong, slot=int(desk.now) + 7200)
    desk.now += 60
    assert desk.send("oss2", desk.block(**entry(3, 5, 1009)(desk.now)), boot_id="2" * 32)["taken"]
    assert {"scratch": (42_012, 0, True)} == desk.totals("4711")


def test_old_readings_under_an_earlier_name_of_a_server_mark_nothing(desk):
    """By its boot id it is the same one."""
    desk.send("oss1", desk.block())
    desk.now += 20
    old, slot = desk.block(**entry(3, 23, 41_003)(desk.now)), int(desk.now)
    desk.now += 60
    assert desk.send("oss1.hpc", desk.block(**entry(63, 37, 53_007)(desk.now)))["taken"]
    desk.now += 60
    desk.send("oss1", old, slot=slot)
    assert {"scratch": (53_007, 0, False)} == desk.totals("4711")


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
def test_one_agents_long_pause_holds_up_no_sweep(desk, restarted):
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


def test_a_second_agent_of_the_same_name_is_refused(desk):
    """Two storage servers that call themselves alike: each ends the other's chain."""
    desk.send("oss1", desk.block("OST0000"), run="1" * 16)
    desk.now += 20
    desk.send("oss1", desk.block("OST0001"), run="2" * 16, boot_id="c" * 32)
    desk.now += 20
    answer = desk.send("oss1", desk.block("OST0000"), run="1" * 16)
    assert (False, "full", "another agent sends as 'oss1': stop one of them, or name it by --node"
            ) == (answer["taken"], answer["want"], answer["why"])


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


def test_ids_that_are_cut_are_the_jobs_in_records_top_and_query(tmp_path):
    """23 writes under each of 5 ids, 2 of other jobs, 1 of none; one row for each job."""
    desk = HarvestInside(tmp_path / "site.sqlite", harvest_job_id="%j:%u:%H")
    desk.send("oss1", desk.block())
    desk.turn()
    desk.now += 20
    ids = ["7431234:20417:r07c11", "7431234", "7431234:", "7431234:20417", "7431234:0:r07c11.hpc",
           "74312344", "74312345:0:r07c11", ":431234:20417:r07c11"]
    desk.send("oss1", desk.block("OST0000", ids, desk.now - 3, write_bytes=(23, 41_003)))
    desk.turn()
    assert {"scratch": (0, 5 * 41_003, False)} == desk.totals("7431234")
    expected = {"7431234": 115, "74312344": 23, "74312345": 23, ":431234:20417:r07c11": 23}
    answers = LoadAnswers()
    for answer, member, seconds in (
            (answers.load(desk.harvest, LoadParams(), None), "requests_per_s", 20),
            (answers.query(desk.harvest, QueryParams("b"), None), "requests", 1)):
        rows = run_to_end(answer)["rows"]
        assert expected == {row["job"]: pytest.approx(row[member] * seconds) for row in rows}
        assert len(expected) == len(rows)
    [target] = run_to_end(answers.load(desk.harvest, LoadParams("target"), None))["rows"]
    assert 3 == target["jobs"]
    desk.store.close()


def test_a_target_that_is_twice_in_a_message_counts_once(desk):
    """What an entry shows is a whole, not a gain."""
    desk.send("oss1", desk.block())
    desk.now += 20
    one = desk.block("OST0000", ["4711"], desk.now - 3, write_bytes=(37, 53_007))
    desk.send("oss1", one, one)
    assert {"scratch": (0, 53_007, False)} == desk.totals("4711")
    desk.now += 20
    desk.send("oss1", one, one)
    assert {"scratch": (0, 53_007, False)} == desk.totals("4711")
