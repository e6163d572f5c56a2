"""
When something may have been lost, and which jobs are marked for it.
"""

import pytest
from resets_blocks import EMPTY, NS, T, block, opens, taken
from sweep_blocks import Block

from iostats.harvest.resets.gaps import (
    AFTER_SEEN,
    BEFORE_SEEN,
    CLEARED,
    CLOCK_SET,
    DOUBTFUL,
    LATE,
    NO_SWEEP,
    NOT_UNDERSTOOD,
    RESTARTED,
)
from iostats.harvest.resets.job_ids import JobIds
from iostats.harvest.resets.target import CorrectedTarget


def test_after_another_boot_every_entry_is_new():
    """Even where the numbers have grown."""
    target = taken(EMPTY, block(200, opens(None, 199, 23)))
    target.add_block(block(400, opens(None, 399, 37)), "oss2", "boot 7", True)
    assert 60 == target.totals(["4711"]).counters["open"].samples[0]
    assert [RESTARTED] == target.marks("4711", T + 150, T + 400)
    assert [] == target.marks("4712", T + 410, T + 500)
    assert [(T + 200, T + 400, RESTARTED)] == target.gaps


def test_another_server_whose_clock_is_behind_marks_all_since_the_first_reading():
    """
    The first server's clock was 300 s ahead, and was set right before the target moved: when it
    was read last is not known, and what 4711 did at 210 s went with the first server's entries.
    """
    target = taken(EMPTY, block(500, {}))
    target.add_block(block(400, {}), "oss2", "boot 7", True)
    assert [RESTARTED] == target.marks("4711", T + 210, T + 220)
    assert [] == target.marks("4711", T + 501, T + 600)
    assert [(T, T + 500, RESTARTED)] == target.gaps


def test_a_deletion_seen_in_a_reading_that_never_ended_is_not_forgotten():
    """Its other messages were lost, and the next sweep is full."""
    target = taken(EMPTY, block(200, opens(190, 199, 23)),
                   block(400, opens(390, 399, 37), ended=False))
    target.add_block(block(600, opens(390, 399, 37)), "oss1", "boot 1", True)
    assert 60 == target.totals(["4711"]).counters["open"].samples[0]
    assert [CLEARED] == target.marks("4711", T + 150, T + 400)


@pytest.mark.parametrize("instances, gaps", [
    ((23, 23, 24), [(T + 200, T + 400, CLEARED)]), ((23, None, 24), [(T + 200, T + 400, CLEARED)]),
    ((23, 23, 23), []), ((None, None, 24), []), ((23, 23, None), [])])
def test_a_target_that_was_started_again_on_the_same_server_by_its_instance(instances, gaps):
    """All entries are new, and no number went back: 4712 had 37 on a target that shows no entry."""
    target = taken(*(block(at, {}, instance=number) for at, number in zip((0, 200), instances)))
    target = CorrectedTarget.from_state(JobIds(), target.state())
    target.add_block(block(400, opens(None, 399, 37), instance=instances[2], ended=False), "oss1",
                "boot 1", False)
    target = CorrectedTarget.from_state(JobIds(), target.state())
    target.add_block(block(400, {}, instance=instances[2]), "oss1", "boot 1", False)
    target.add_block(block(600, {}, instance=instances[2]), "oss1", "boot 1", False)
    assert gaps == target.gaps
    assert [CLEARED] * len(gaps) == target.marks("4712", T + 210, T + 220)


def test_the_instance_of_another_boot_or_clock_is_in_the_gap_of_that():
    """The move is a gap by itself, from the last reading on the one to the first on the other."""
    target = taken(block(0, {}, instance=23), block(200, {}, instance=23))
    target.add_block(block(400, {}, instance=24), "oss2", "boot 7", True)
    target.add_block(block(300, {}, instance=25), "oss2", "boot 7", True)
    assert [(T + 200, T + 400, RESTARTED), (T, T + 300, CLOCK_SET)] == target.gaps


def test_a_message_of_a_server_that_had_the_target_before_is_old():
    """It was under way during the failover."""
    target = taken(EMPTY, block(200, opens(None, 199, 23)))
    target.add_block(block(400, opens(None, 399, 37)), "oss2", "boot 7", True)
    assert not target.add_block(block(200, opens(None, 199, 23)), "oss1", "boot 1", False)
    assert 60 == target.totals(["4711"]).counters["open"].samples[0]


@pytest.mark.parametrize("started", [190, None], ids=["with start_time", "without"])
def test_a_server_that_gets_another_name_has_the_same_entries(started):
    """By its boot id: they were counted twice, and the sum was called a lower bound."""
    target = taken(EMPTY, block(200, opens(started, 199, 23)))
    target.add_block(block(400, opens(started, 399, 37)), "oss1-new", "boot 1", True)
    assert 37 == target.totals(["4711"]).counters["open"].samples[0]
    assert ("oss1-new", []) == (target.node, target.marks("4711", T + 190, T + 400))
    assert not target.add_block(block(200, opens(started, 199, 23)), "oss1", "boot 1", False)


def test_without_a_boot_id_servers_are_distinguished_by_name():
    target = taken(EMPTY, block(200, opens(190, 199, 23)))
    target.add_block(block(400, opens(390, 399, 37)), "oss2", "", True)
    target.add_block(block(600, opens(590, 599, 41)), "oss3", "", True)
    assert 23 + 37 + 41 == target.totals(["4711"]).counters["open"].samples[0]


def test_a_clock_that_is_set_right_by_a_day_hides_no_reading():
    """In two blocks; what is of before is marked, what begins then is not."""
    target = taken(block(86_400, {}), block(86_600, opens(86_590, 86_599, 23)))
    again, new = opens(86_590, 86_599, 23), {"4712": (390, 399, {"open": 37})}
    assert target.add_block(block(400, again, ended=False), "oss1", "boot 1", True)
    assert target.add_block(block(400, new), "oss1", "boot 1", True)
    assert [23, 37] == target.totals(["4711", "4712"]).counters["open"].samples.tolist()
    assert [CLOCK_SET] == target.marks("4711", T + 400, T + 500)
    assert [] == target.marks("4712", T + 401, T + 500)
    assert 0.0 == target.gains().span_s
    assert not target.add_block(block(380, opens(86_590, 86_599, 23)), "oss1", "boot 1", False)


def clocked(*readings):
    """The Target that has taken [(ahead of the storage server's clock, block by the site's)]."""
    target = CorrectedTarget(JobIds(), "scratch", "OST0000")
    for at, (ahead, one) in enumerate(readings):
        ids, ns = dict(zip(one.ids, zip(one.started_ns, one.seen_ns))), ahead * NS
        target.add_block(Block(
            file_system="scratch", target="OST0000", read_at=one.read_at + ahead, ended=True,
            cleanup_s=600, ids=one.ids, counters=one.counters,
            started=[started and started + ns for started, _ in ids.values()],
            seen=[seen + ns for _, seen in ids.values()]), "oss1", "boot 1",
            at == 0 or ahead < readings[at - 1][0], float(ahead))
    return target


def test_a_gap_stays_where_it_was_when_the_clock_is_set_right():
    """
    Cleared at 380 s by the site's clock while the storage server's was two hours ahead; then that
    is set right.  The mark was compared with the job's times by the clock of now, and was gone.
    """
    target = clocked((7200, block(0, {})), (7200, block(200, opens(190, 199, 23))),
                     (7200, block(400, opens(390, 399, 37))), (0, block(600, {})))
    assert CLEARED in target.marks("4711", T + 190, T + 399)
    assert [] == target.marks("4712", T + 601, T + 700)
    assert (T + 600, T) == (target.swept_until, target.swept_since)
    again = CorrectedTarget.from_state(JobIds(), target.state())
    assert (target.gaps, target.swept_until) == (again.gaps, again.swept_until)


def test_a_clear_is_not_moved_away_where_the_kernels_clock_was_set_back():
    """
    By 1800 s at 300 s, while the agent's goes slower; cleared at 350 s, and 4711 made again at 390,
    which its kernel calls -1410: the gap ended before it began, and marked no job.
    """
    target = taken(EMPTY, block(100, {}), block(200, opens(190, 199, 23)))
    target.add_block(block(400, opens(-1410, -1401, 7)), "oss1", "boot 1", False, 0.0, -1800.0)
    assert 30 == target.totals(["4711"]).counters["open"].samples[0]
    assert [CLEARED] == target.marks("4711", T + 190, T + 399)
    [(began, ended, _)] = target.gaps
    assert began <= T + 200 and ended >= T + 390


@pytest.mark.parametrize("back", [6900, 7000, 7090])
def test_a_long_silence_is_one_though_the_clock_was_set_back_by_as_much(back):
    """No agent ran between 200 and 7300 s, which the storage server's clock calls 200 to 300."""
    target = clocked((0, block(0, {})), (0, block(200, opens(190, 199, 23))),
                     (-back, block(7300, {"4733": (7290, 7299, {"open": 5})})))
    assert [(T + 200, T + 7300, NO_SWEEP)] == target.gaps
    assert [NO_SWEEP] == target.marks("4712", T + 1000, T + 1100)
    assert [NO_SWEEP] == target.marks("4733", T + 1000, T + 7300)
    assert [] == target.marks("4712", T + 7301, T + 7400)


def test_a_clock_that_is_set_forward_makes_no_silence_and_may_have_made_entries_expire():
    """By two hours between 200 and 220 s, for which 4711's entry had to go: 23 and 37 opens."""
    target = clocked((0, block(0, {})), (0, block(200, opens(190, 199, 23))),
                     (7200, block(220, opens(210, 219, 37))))
    assert 60 == target.totals(["4711"]).counters["open"].samples[0]
    assert [(T + 200, T + 220, CLOCK_SET)] == target.gaps
    assert [CLOCK_SET] == target.marks("4711", T + 190, T + 219)
    assert [] == target.marks("4712", T + 221, T + 300)


@pytest.mark.parametrize("first, last, began, ended, marks", [
    (900, 980, T + 890, T + 980, []),
    (900, 980, None, T + 980, [CLEARED + BEFORE_SEEN]),
    (20, 90, T + 20, T + 90, []),
    (20, 90, T + 20, None, [CLEARED + AFTER_SEEN]),
    (20, 900, None, None, [CLEARED]),
], ids=["began after it", "its begin is not known", "ended before it",
        "its end is not known", "was seen before it and after it"])
def test_what_a_job_may_have_lost_is_marked_where_it_is_not_known_when_it_ran(first, last, began,
                                                                           ended, marks):
    """job_stats were cleared between 100 and 400 s; 4712 is another job."""
    target = taken(EMPTY, block(100, {}), block(200, opens(190, 199, 23)),
                   block(400, opens(390, 399, 37)), *(block(at, {}) for at in (600, 800)),
                   block(1000, {"4712": (895, 980, {"open": 7})}))
    assert marks == target.marks(
        "4712", T + first, T + last, T - 86_400 if began is None else began,
        T + 2800 if ended is None else ended)


def refused(at, bad, *ids):
    """A block of a reading in which `bad` entries could not be understood."""
    return block(at, {"4733": (190, at, {"open": at})}, bad=bad, refused=list(ids))


@pytest.mark.parametrize("blocks, marks, others", [
    ([refused(400, 1, "4711")], [NOT_UNDERSTOOD], []),
    ([refused(400, 1, "4711"), block(600, opens(190, 599, 37))], [], []),
    ([*(refused(at, 1, "4711") for at in (400, 600, 800, 1000)), block(1200, opens(190, 1199, 37))],
     [NOT_UNDERSTOOD], []),
    ([refused(400, 1)], [NOT_UNDERSTOOD], [NOT_UNDERSTOOD]),
    ([refused(400, 1), refused(600, 1), block(800, {})], [NOT_UNDERSTOOD], [NOT_UNDERSTOOD]),
], ids=["since then", "just then", "for longer than it lives", "its id is not known",
        "for long, and then no more"])
@pytest.mark.parametrize("saved", [False, True])
def test_an_entry_that_is_not_understood_marks_its_id_until_it_is(blocks, marks, others, saved):
    target = taken(EMPTY, block(200, opens(190, 199, 23)), *blocks)
    if saved:
        target = CorrectedTarget.from_state(JobIds(), target.state())
    assert (marks, others) == (target.marks("4711", T + 190, T + 1000),
                               target.marks("4712", T + 190, T + 1000))
    assert [] == target.marks("4712", T + 20, T + 100)
    assert len(target.gaps) <= 1


def test_a_job_from_before_the_harvest_is_marked():
    """What it had done may have expired already."""
    assert [LATE] == taken(block(0, opens(-41, -1, 23))).marks("4711", T - 60, T + 23)
    assert [LATE] == CorrectedTarget(JobIds(), "scratch", "OST0000").marks("4711", T, T)


def test_a_gap_does_not_mark_jobs_whose_entry_lived_through_it_or_that_ran_outside():
    """4711 has its start_time; 4712 is new after the gap; 4713 ended before."""
    target = taken(EMPTY, block(200, {**opens(190, 199, 23), "4713": (190, 191, {"open": 5})}),
                   block(2000, {**opens(190, 1990, 60), "4712": (1999, 1999, {"open": 7})}))
    assert [(T + 200, T + 1430, NO_SWEEP)] == target.gaps
    assert [[], [NO_SWEEP], [], []] == [target.marks(*one) for one in (
        ("4711", T + 150, T + 2000), ("4712", T + 150, T + 2000), ("4713", T + 150, T + 199),
        ("4712", T + 1990, T + 2000))]


def test_of_many_gaps_the_oldest_become_one():
    """70 boots, of which each costs all that was done since the last reading of the one before."""
    target = taken(EMPTY)
    for boot in range(1, 71):
        target.add_block(block(20 * boot, {}), "oss1", f"boot {boot + 1}", True)
    assert 64 == len(target.gaps)
    assert [(T, T + 140, RESTARTED), (T + 140, T + 160, RESTARTED)] == target.gaps[:2]
    assert [RESTARTED] == target.marks("4711", T + 21, T + 22)
    again = CorrectedTarget.from_state(JobIds(), target.state())
    assert (target.gaps, target.state()) == (again.gaps, again.state())


def test_gaps_of_two_kinds_that_become_one_give_both_reasons():
    """The oldest is a clear, which 4711's entry has outlived; what is made of it marks all jobs."""
    target = taken(EMPTY, block(200, {**opens(-41, 199, 23), "4712": (190, 199, {"open": 5})}),
                   block(400, {"4712": (390, 399, {"open": 7})}))
    assert [] == target.marks("4711", T + 190, T + 300)
    for boot in range(64):
        target.add_block(block(420 + 20 * boot, {}), "oss1", f"boot {boot + 2}", True)
    assert [f"{CLEARED}; or {RESTARTED}"] == target.marks("4711", T + 190, T + 300)


def test_the_shortest_of_many_past_intervals_still_counts():
    """job_cleanup_interval is set eleven times in a minute, once to 120 s; 4711 was seen before."""
    target = taken(EMPTY, block(200, opens(None, 199, 23)))
    for at, cleanup_s in enumerate((120, *range(601, 611))):
        target.add_block(block(205 + 5 * at, {}, cleanup_s=cleanup_s), "oss1", "boot 1", False)
    target.add_block(block(400, opens(None, 390, 41), cleanup_s=610), "oss1", "boot 1", False)
    assert [DOUBTFUL] == target.marks("4711", T + 190, T + 400)
