"""
What a client gained between two readings of its file: the rules, by hand.
"""
from __future__ import annotations

import pytest

from iostats.lustre.exports import ClientAmounts, ClientFile
from iostats.storage.client_lives import Life, compare_readings, start_new_life, start_unknown_life
from iostats.wire.messages.clients_encoder import (
    MAYBE_RESET,
    NOT_UNDERSTOOD,
    RESET,
    UNREADABLE,
)

NS = 10**9
READ = (1_795_225_400 * NS, 1_795_225_405 * NS)     # when the reading before began and ended
OLD, NEW = 1_795_000_000 * NS, 1_795_225_430 * NS   # when files began
NOTHING, UNKNOWN = (0, 0, 0, 0, 0), (None,) * 5


def now(start_ns, *amounts, counts=None, why=""):
    return ClientFile(start_ns, ClientAmounts(*amounts), counts, why)


def life(start_ns, *amounts, counts=None):
    return Life(start_ns, ClientAmounts(*amounts), counts)


def gain(before, after, is_restarted=False):
    found = compare_readings(before, after, is_restarted, READ)
    return tuple(found.amounts), found.why


# -- with start_time ---------------------------------------------------------------------------

@pytest.mark.parametrize("after, is_restarted, expected", [
    (now(OLD, 23, 60, 5, 11, 41), False, ((0, 37, 0, 4, 40), "")),
    (now(NEW, 2, 41, 1, 3, 0), False, ((2, 41, 1, 3, 0), RESET)),
    (now(NEW, 2, 41, 1, 3, 0), True, ((2, 41, 1, 3, 0), "")),
    (now(OLD, 23, 22, 5, 7, 1), False, (NOTHING, RESET)),
    (now(READ[0] + NS, 24, 41, 6, 3, 0), False, ((1, 18, 1, 0, 0), RESET)),
    (now(OLD, 23, 60, 5, 11, None, why="bad"), False, ((0, 37, 0, 4, 0), NOT_UNDERSTOOD))],
    ids=["the same life", "cleared", "restarted", "cleared while it is read",
         "cleared while it was read", "a line is not understood"])
def test_a_file_that_shows_when_it_began(after, is_restarted, expected):
    """Numbers by now, against 23 and 23 bytes, 5 and 7 requests and 1 operation."""
    assert expected == gain(life(OLD, 23, 23, 5, 7, 1), after, is_restarted)


def test_what_could_not_be_read_is_left_out():
    """
    It may be of before: the first reading is where one begins to count.  start_time proves nothing,
    as the clock may have been set back after the file began.
    """
    before = life(OLD, *UNKNOWN)
    assert (NOTHING, UNREADABLE) == gain(before, now(OLD, 23, 37, 1, 2, 3))
    assert (NOTHING, RESET) == gain(before, now(NEW, 23, 37, 1, 2, 3))
    assert (NOTHING, RESET) == gain(before, now(READ[0] - NS, 23, 37, 1, 2, 3))


def test_after_a_restart_all_of_a_file_counts_also_where_it_could_not_be_read_before():
    """It began at 0 after the last reading, whatever the clock showed."""
    assert ((23, 37, 1, 2, 3), "") == gain(
        life(OLD, *UNKNOWN), now(READ[0] - NS, 23, 37, 1, 2, 3), is_restarted=True)


# -- without -----------------------------------------------------------------------------------

OST = {"read_bytes": (23, 4, 4096, 94_208), "punch": (41,), "ping": (1009,)}


@pytest.mark.parametrize("counts, expected", [
    ({"read_bytes": (60, 4, 4096, 131_072), "punch": (43,), "ping": (2000,)},
     ((36_864, 0, 37, 0, 2), "")),
    ({"read_bytes": (60, 4, 4096, 131_072), "punch": (5,), "ping": (2000,)},
     ((36_864, 0, 37, 0, 5), RESET)),
    ({"read_bytes": (23, 4, 4096, 94_208)}, (NOTHING, RESET)),
    ({**OST, "read_bytes": (60, 8, 4096, 131_072)}, ((131_072, 0, 60, 0, 0), RESET)),
    ({**OST, "read_bytes": (60, 4, 2048, 131_072)}, ((131_072, 0, 60, 0, 0), RESET)),
    ({**OST, "write_bytes": (3, 1, 37, 111), "statfs": (7,)}, ((0, 111, 0, 3, 7), ""))],
    ids=["grew", "one went back", "one is gone", "a larger minimum", "a smaller maximum", "new"])
def test_a_file_without_start_time(counts, expected):
    """A counter that went back has begun again; of the others the difference is the least."""
    assert expected == gain(life(0, 94_208, 0, 23, 0, 41, counts=OST),
                            now(0, 1, 1, 1, 1, 1, counts=counts))


def test_a_target_that_was_restarted_has_files_from_0():
    """Whatever they have overtaken."""
    counts = {"read_bytes": (60, 4, 4096, 131_072), "punch": (43,)}
    assert ((131_072, 0, 60, 0, 43), "") == gain(
        life(0, 94_208, 0, 23, 0, 41, counts=OST), now(0, 131_072, 0, 60, 0, 43, counts=counts),
        is_restarted=True)


def test_counters_that_were_not_known_count_from_here():
    after = now(0, 94_208, 0, 23, 0, 41, counts=OST)
    assert (NOTHING, UNREADABLE) == gain(life(0, *UNKNOWN), after)


def test_start_times_that_are_shown_or_hidden_from_now_on():
    """enable_stats_header: what began before the last reading is the same life."""
    assert ((0, 37, 0, 4, 40), "") == gain(
        life(0, 23, 23, 5, 7, 1, counts=OST), now(OLD, 23, 60, 5, 11, 41))
    assert ((0, 37, 0, 4, 40), MAYBE_RESET) == gain(
        life(OLD, 23, 23, 5, 7, 1), now(0, 23, 60, 5, 11, 41, counts=OST))
    assert ((2, 3, 1, 1, 0), RESET) == gain(
        life(0, 23, 23, 5, 7, 1, counts=OST), now(NEW, 2, 3, 1, 1, 0))


# -- files that are new ------------------------------------------------------------------------

def test_what_is_there_at_first_is_nobodys_and_what_comes_is_counted():
    there = now(OLD, 23, 37, 1, 2, 3)
    assert (NOTHING, "") == (start_unknown_life(there).amounts, start_unknown_life(there).why)
    assert ((23, 37, 1, 2, 3), "") == (start_new_life(there).amounts, start_new_life(there).why)
    damaged = now(OLD, 23, 37, 1, 2, None, why="bad")
    assert ((23, 37, 1, 2, 0), NOT_UNDERSTOOD) == (start_new_life(damaged).amounts,
                                                   start_new_life(damaged).why)
