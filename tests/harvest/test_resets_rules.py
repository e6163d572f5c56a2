"""
The rules by which an entry is the same one or a new one, one by one.
"""

import numpy
import pytest
from resets_blocks import EMPTY, T, block, opens, taken

from iostats.harvest.resets import rules
from iostats.harvest.resets.gaps import CLEARED, DOUBTFUL, NO_INTERVAL, NO_SWEEP


@pytest.mark.parametrize("blocks, expected, marks", [
    # with start_time
    ([block(200, opens(190, 199, 23)), block(400, opens(190, 399, 60))], 60, []),
    ([block(200, opens(190, 199, 23)), block(900, opens(899, 899, 37), cleanup_s=600)], 60,
     [NO_SWEEP]),
    ([block(200, opens(190, 199, 23)), block(400, {}), block(600, {}), block(800, {}),
      block(1000, opens(950, 990, 37))], 60, []),
    ([block(200, opens(190, 199, 23)), block(400, {}), block(600, {}), block(800, {}),
      block(1000, opens(950, 990, 23))], 46, []),
    ([block(200, opens(190, 199, 23)), block(400, opens(390, 399, 37))], 60, [CLEARED]),
    ([block(200, opens(190, 199, 23)), block(400, {}, gone=["4711"]), block(600, {})], 23,
     [CLEARED]),
    ([block(200, opens(190, 199, 23)), block(400, {}, gone=["4711"]),
      block(600, opens(190, 199, 23))], 23, []),
    # without
    ([block(200, opens(None, 199, 23)), block(400, opens(None, 399, 60))], 60, []),
    ([block(200, opens(None, 199, 23)), block(400, {}), block(600, {}), block(800, {}),
      block(1000, opens(None, 990, 13))], 36, []),
    ([block(200, opens(None, 199, 23)), block(400, {}), block(600, {}), block(800, {}),
      block(1000, opens(None, 990, 23))], 23, [DOUBTFUL]),
    ([block(200, opens(None, 199, 23)), block(400, {}), block(600, {}),
      block(800, {}, gone=["4711"]), block(1000, {}), block(1200, opens(None, 1190, 41))], 64, []),
    ([block(200, opens(None, 199, 23)), block(400, {}), block(600, {}),
      block(800, {}, gone=["4711"]), block(1000, opens(None, 990, 41))], 41, [DOUBTFUL]),
    ([block(200, opens(None, 199, 23)), block(400, opens(None, 399, 13))], 36, [CLEARED]),
    ([block(200, opens(None, 199, 23)), block(400, {}, unreadable="I/O error"),
      block(600, opens(None, 599, 60))], 60, []),
    ([block(200, opens(None, 199, 23)), block(400, {}, gone=["4711"], bad=1, refused=["x"]),
      block(600, {}), block(790, opens(None, 780, 60))], 60, []),
    # the interval
    ([block(100, {}, cleanup_s=0), block(200, opens(None, 199, 23), cleanup_s=0),
      block(3700, opens(None, 3690, 60), cleanup_s=0)], 60, []),
    ([block(200, opens(190, 199, 23)), block(400, opens(190, 399, 60), cleanup_s=None)], 60,
     [NO_INTERVAL]),
    # old, and repeated
    ([block(400, opens(190, 399, 60)), block(200, opens(190, 199, 23))], 60, []),
    ([block(200, opens(190, 199, 23)), block(200, opens(190, 199, 23))], 23, []),
], ids=["grew", "another after a gap", "expired, and back", "expired, and back with the same",
        "cleared, seen at once", "cleared, gone twice", "absent once",
        "grew, no start_time", "fell after an expiry", "the same after an expiry: undetectable",
        "absent twice", "absent once, and more", "fell within the interval", "unreadable once",
        "absent where entries were bad", "an interval of 0", "no interval", "older",
        "twice the same"])
def test_one_job_by_the_rules(blocks, expected, marks):
    """Totals are those of all entries the job had; it began at 150 s."""
    target = taken(EMPTY, *blocks)
    assert expected == target.totals(["4711"]).counters["open"].samples[0]
    assert marks == target.marks("4711", T + 150, T + 1300)


def pair(old, young, **others):
    """Entries of 4711 and 4712 in this order; each (seen, opens)."""
    entries = {"4711": (None, old[0], {"open": old[1]}), "4712": (None, young[0],
                                                                 {"open": young[1]})}
    return dict(reversed(entries.items())) if others.get("swapped") else entries


@pytest.mark.parametrize("last, expected, marks", [
    (pair((990, 41), (995, 37)), 41, []),
    (pair((990, 41), (995, 37), swapped=True), 64, []),
    ({"4711": (None, 990, {"open": 41})}, 41, [DOUBTFUL]),
], ids=["before a younger one", "behind a younger one", "no other entry beside it"])
def test_the_order_in_the_file_decides_what_the_numbers_do_not(last, expected, marks):
    """4711 is silent from 199 to 990, and comes back with more than it had."""
    between = {"4712": (None, 601, {"open": 31})}
    target = taken(EMPTY, block(200, pair((199, 23), (199, 29))), block(400, {}),
                   block(602, between), block(800, {}), block(1000, last))
    assert expected == target.totals(["4711"]).counters["open"].samples[0]
    assert marks == target.marks("4711", T + 150, T + 1000)


def test_a_doubt_that_is_cleared_up_leaves_an_earlier_one():
    """4711 comes back at 990 as the only entry, and at 2190 before 4712, which is younger."""
    target = taken(EMPTY, block(200, opens(None, 199, 23)), *(block(at, {}) for at in (400, 600)),
                   block(800, {}), block(1000, opens(None, 990, 41)), block(1200, {}),
                   *(block(at, {"4712": (None, at, {"open": at})})
                     for at in (1400, 1600, 1800, 2000)),
                   block(2200, {**opens(None, 2190, 60), "4712": (None, 2200, {"open": 2200})}))
    assert 60 == target.totals(["4711"]).counters["open"].samples[0]
    assert [DOUBTFUL] == target.marks("4711", T + 150, T + 2300)
    assert [] == target.marks("4711", T + 1100, T + 2300)


def test_a_new_entry_with_start_time_does_not_prove_that_one_before_it_is_the_same():
    """
    The server shows start_time from 400 s on.  4712 was seen then; both expire, and are made again
    in their old order: 4712 is new, so it says nothing of 4711, which had 23 opens before.
    """
    target = taken(EMPTY, block(200, pair((199, 23), (199, 29))),
                   block(400, {"4712": (190, 399, {"open": 31})}), block(600, {}), block(800, {}),
                   block(1000, {}), block(1200, {"4711": (1150, 1190, {"open": 41}),
                                                 "4712": (1160, 1190, {"open": 37})}))
    assert [41, 68] == target.totals(["4711", "4712"]).counters["open"].samples.tolist()
    assert [DOUBTFUL] == target.marks("4711", T + 150, T + 1200)
    assert [] == target.marks("4712", T + 150, T + 1200)


@pytest.mark.parametrize("now, expected, marks", [
    ((5, 4096, 8192, 28672, 11 * 2**24), 28672, [DOUBTFUL]),
    ((5, 8192, 8192, 40960, 5 * 2**26), 61440, []),
    ((5, 4096, 4096, 20480, 5 * 2**24), 40960, []),
    ((5, 4096, 8192, 36865, 5 * 2**25), 57345, []),
    ((5, 4096, 8192, 28672, 5 * 2**40), 49152, []),
], ids=["could be", "min rose", "max fell", "sum too high", "squares do not fit"])
def test_a_gain_that_is_impossible_proves_a_new_entry(now, expected, marks):
    """Before: 3 writes, 4096, 8192 and 8192 bytes."""
    def write(seen, numbers):
        return {"4711": (None, seen, {"write_bytes": numbers})}

    target = taken(EMPTY, block(200, write(190, (3, 4096, 8192, 20480, 9 * 2**24))),
                   block(400, {}), block(600, {}), block(800, {}), block(1000, write(990, now)))
    assert expected == target.totals(["4711"]).counters["write_bytes"].sums[0]
    assert marks == target.marks("4711", T + 150, T + 1000)


@pytest.mark.parametrize("now, expected", [
    ((5, 8192, 8192, 40960, 5 * 2**26), 61440),
    ((5, 4096, 4096, 20480, 5 * 2**24), 40960),
], ids=["min rose", "max fell"])
def test_extremes_prove_a_new_entry_also_while_it_is_busy(now, expected):
    """Its sum cannot be trusted then: a request may be half counted."""
    before = {"4711": (None, 190, {"write_bytes": (3, 4096, 8192, 20480, 9 * 2**24)})}
    after = {"4711": (None, 1000, {"write_bytes": now})}
    target = taken(EMPTY, block(200, before), block(400, {}), block(600, {}), block(800, {}),
                   block(1000, after))
    assert expected == target.totals(["4711"]).counters["write_bytes"].sums[0]
    assert [] == target.marks("4711", T + 150, T + 1000)


def test_an_id_twice_in_one_reading_is_the_old_one_and_then_the_new_one():
    """It expired, and was made again, while the file was read."""
    target = taken(EMPTY, block(200, opens(190, 199, 23)),
                   block(900, opens(190, 201, 24), ended=False), block(900, opens(901, 901, 37)))
    assert 61 == target.totals(["4711"]).counters["open"].samples[0]
    gains = target.gains()
    assert (["4711"], [38], 700.0) == (gains.ids, gains.operations.tolist(), gains.span_s)


def test_a_full_sweep_without_an_id_is_its_absence():
    """Twice, and it was cleared: it had been used a second before the first of them."""
    target = taken(EMPTY, block(200, opens(190, 199, 23)), block(210, {}), block(220, {}),
                   full=True)
    assert [CLEARED] == target.marks("4711", T + 150, T + 300)


# ---- the same as calculations: I is 600 s

@pytest.mark.parametrize("place, expected", [
    (37, True), (43, False), (41, False), (-1, False)],
    ids=["before it", "behind it", "itself", "not known"])
def test_an_entry_was_made_after_those_that_stand_before_it(place, expected):
    """Rules 2 and 3: in reading 7 an entry stood at 41, and it is not known to be new since."""
    reading = 7 << 32
    places = numpy.array([reading + place if place >= 0 else -1])
    assert [expected] == rules.were_created_after(reading + 41, -1, places).tolist()


def test_an_entry_that_was_not_in_a_reading_was_made_after_all_that_were():
    """Rules 2 and 3: wherever these stood; those of the next reading may be older."""
    places = numpy.array([(7 << 32) + 9000, (8 << 32) + 1])
    assert [True, False] == rules.were_created_after(-1, 7, places).tolist()


@pytest.mark.parametrize("now, expected", [
    ((5, 28672, 4096, 8192, 11 * 2**24), False),
    ((5, 36865, 4096, 8192, 11 * 2**24), True),
    ((5, 28671, 4096, 8192, 11 * 2**24), True),
    ((5, 28672, 4096, 8192, 5 * 2**40), True),
    ((5, 28672, 4096, 8192, None), False),
    ((5, 28672, None, None, None), False),
    ((5, 2**63 - 1, 4096, 8192, None), False),
], ids=["could be", "sum too high", "sum too low", "squares too high", "no squares", "no extremes",
        "at the kernel's limit"])
def test_a_gain_is_possible_between_minimum_and_maximum(now, expected):
    """Rule 2, after 3 writes of 20480 bytes: 2 more are 8192 to 16384 bytes."""
    assert expected is rules.is_gain_impossible((3, 20480, 9 * 2**24), now)


@pytest.mark.parametrize("times, span_s, expected", [
    (1, 0, False), (2, 200, True), (2, 300, False), (3, 300, True), (3, 571, False),
    (4, 601, True)])
def test_so_many_absences_prove_that_an_entry_is_gone(times, span_s, expected):
    """Rule 5: one more than scans, 300 s apart, fit into the time, which may be 30 s longer."""
    interval = numpy.array([600e9])
    assert [expected] == rules.is_proved_removed(numpy.array([times + 1], numpy.uint8),
                                                 numpy.array([float(span_s)]), interval).tolist()


@pytest.mark.parametrize("interval, since, expected", [
    (600, 1000, 300), (600, 1001, 600), (200, 1000, 200), (0, 1000, 300), (0, 1001, rules.NEVER_S)])
def test_the_shortest_interval_since_a_time_counts(interval, since, expected):
    """Rule 9: until 1000 it was 300 s, and before 500 it was 0: never."""
    past = [(500, 0), (1000, 300)]
    assert expected == rules.shortest_s(interval, past, since)
    assert [expected * 1e9] == rules.shortest_ns(interval, past,
                                                 numpy.array([since * 10**9])).tolist()
