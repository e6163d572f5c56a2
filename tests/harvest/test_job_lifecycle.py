"""
The life of a job: every state, every event, and what brings it about.
"""

import pytest

from iostats.harvest.job_lifecycle import (
    ACTIVE,
    CALM,
    ENDED,
    NEXT,
    OVER,
    QUIET,
    RUNNING,
    SETTLED,
    SILENT,
    find_due_event,
    get_next_state,
)

EVENTS = (ACTIVE, SILENT, OVER, CALM)


@pytest.mark.parametrize("state", NEXT)
@pytest.mark.parametrize("what", EVENTS)
def test_every_event_in_every_state_leads_somewhere_or_is_refused_by_name(state, what):
    if what in NEXT[state]:
        assert get_next_state(state, what) in NEXT
    else:
        with pytest.raises(ValueError, match=f"a job that is {state} can't be {what}"):
            get_next_state(state, what)


def test_every_state_but_the_last_has_a_way_to_the_last():
    reached = {SETTLED}
    for _ in NEXT:
        reached |= {state for state, ways in NEXT.items() if reached & set(ways.values())}
    assert set(NEXT) == reached
    assert {} == NEXT[SETTLED]


@pytest.mark.parametrize("state, now, last, over_at, is_known, expected", [
    (RUNNING, 1599, 1000, None, True, None),
    (RUNNING, 1600, 1000, None, True, SILENT),
    (RUNNING, 1010, 1000, 1005, True, OVER),
    (QUIET, 99_999, 1000, None, True, None),
    (QUIET, 2799, 1000, None, False, None),
    (QUIET, 2800, 1000, None, False, CALM),
    (QUIET, 1700, 1000, 1650, True, OVER),
    (ENDED, 1899, 1000, 1000, True, None),
    (ENDED, 1900, 1000, 1000, True, CALM),
    (ENDED, 1937, 1037, 1000, True, CALM),
    (ENDED, 1936, 1037, 1000, True, None),
    (ENDED, 1936, 1000, 1037, True, None),
    (SETTLED, 99_999, 1000, 1000, True, None),
], ids=["it may come back", "silent for an interval", "the batch system says so",
        "silent, and known to run", "silent, and not known, yet", "for three intervals",
        "over while it was quiet", "not yet calm", "calm", "calm after its last write-back",
        "a second before that", "its end is later than its last word", "settled is settled"])
def test_what_happens_to_a_job_with_an_interval_of_600_s(state, now, last, over_at, is_known,
                                                         expected):
    assert expected == find_due_event(state, now, last, over_at, is_known, 600)


@pytest.mark.parametrize("state, now, last, over_at, is_known, expected", [
    (ENDED, 1059, 1000, 1000, True, None),
    (ENDED, 1060, 1000, 1000, True, CALM),
    (ENDED, 1059, 900, 1000, True, None),
    (QUIET, 1059, 1000, None, False, None),
    (QUIET, 1060, 1000, None, False, CALM),
], ids=["not yet calm", "calm", "its end is later than its last word", "not known, yet",
        "silent for a minute"])
def test_with_an_interval_of_2_s_no_job_is_settled_while_its_nodes_may_write_back(
        state, now, last, over_at, is_known, expected):
    """A minute; 1.5 or 3 intervals were less, and the totals final before they could be."""
    assert expected == find_due_event(state, now, last, over_at, is_known, 2)
