"""
The bounds of what a job's nodes did: worked out by hand, and for any sweeps and any times by what
was really done.
"""

from hypothesis import given
from hypothesis import strategies as st

from iostats.harvest.clients.history import ClientTotals
from iostats.jobs.by_node import make_part_with_numbers, make_part_without_numbers, make_window
from iostats.load.amounts import CLIENT_METRICS

WINDOW = make_window(1000.0, 1060.0, 1.0, 7.0, 0.5)
NID1, NID2 = "10.77.0.11@tcp", "10.77.0.12@tcp"


def totals(*read_bytes, why=(), metric=0):
    """ClientTotals of (low, high) bytes read, or of another metric."""
    low, high = ([0] * metric + [one] + [0] * (5 - metric) for one in read_bytes)
    return ClientTotals(low, high, bool(why), list(why))


def member(around, inside=None, later=None, free=(NID1, NID2), unknown="", before="",
           untold=()):
    return make_part_with_numbers("listed", WINDOW, around if inside is None else inside, around,
                                  later or {}, free, unknown,
                                  before, untold)


def test_the_sum_of_a_jobs_nodes_is_between_two_bounds():
    """23 + 37 bytes in whole sweeps, and 41 at the edges, of which 4 are the first node's."""
    found = member({("scratch", NID1): totals(27, 31), ("scratch", NID2): totals(37, 74)},
                   {("scratch", NID1): totals(23, 27), ("scratch", NID2): totals(37, 37)})

    [fs] = found.file_systems
    assert (60, 105, False) == (fs.low.read_bytes, fs.high.read_bytes, fs.lower_bound)
    assert ("", "listed", []) == (found.why_none, found.alone, found.notes)


def test_each_metric_has_its_place():
    several = ClientTotals([2, 3, 5, 7, 11, 13], [23, 29, 31, 37, 41, 43], False, [])
    [fs] = member({("scratch", NID1): several}).file_systems

    assert dict(zip(CLIENT_METRICS, (2, 3, 5, 7, 11, 13))) == fs.low
    assert dict(zip(CLIENT_METRICS, (23, 29, 31, 37, 41, 43))) == fs.high


def test_what_may_be_missing_leaves_no_upper_bound_and_says_why():
    """On one file system; the other has both."""
    why = "oss1: scratch-OST0000: cannot be read"
    scratch, home = sorted(member({
        ("scratch", NID1): totals(23, 37, why=[why]), ("scratch", NID2): totals(0, 0),
        ("home", NID1): totals(41, 43)}).file_systems, key=lambda fs: fs.name, reverse=True)

    assert (23, None, True, [why]) == (scratch.low.read_bytes, scratch.high, scratch.lower_bound,
                                       scratch.notes)
    assert (41, 43, False, []) == (home.low.read_bytes, home.high.read_bytes, home.lower_bound,
                                   home.notes)


def test_a_loss_at_the_edge_counts():
    """The upper bound has to hold there, too."""
    [fs] = member({("scratch", NID1): totals(23, 37, why=["the agent started a new epoch"])},
                  {("scratch", NID1): totals(23, 23)}).file_systems

    assert fs.high is None


def test_a_file_system_of_whose_clients_nobody_tells_is_named():
    """Its storage servers' agents are older; the numbers of the others stand."""
    found = member({("scratch", NID1): totals(23, 37)}, untold=["home"])

    assert (["I/O on home is unknown: no storage server reports its clients"], 37) == (
        found.notes, found.file_systems[0].high.read_bytes)


def test_many_reasons_are_few():
    [fs] = member({("scratch", NID1): totals(23, 37, why=[f"reason {n}" for n in range(9)])}
                  ).file_systems

    assert [*(f"reason {n}" for n in range(5)), "and 4 more such reasons"] == fs.notes


def test_a_node_without_a_client_leaves_no_upper_bound_anywhere():
    found = member({("scratch", NID1): totals(23, 37)}, unknown="node[7-8]")

    assert (None, "node[7-8]") == (found.file_systems[0].high, found.unknown_nodes)
    assert "no client of any file system is known as node[7-8]" in found.notes[0]


def test_what_was_written_later_is_told_of_free_nodes_alone():
    """Another job had begun on the second one."""
    around = {("scratch", NID1): totals(23, 23), ("scratch", NID2): totals(37, 37)}
    later = {("scratch", NID1): totals(41, 97, metric=1),
             ("scratch", NID2): totals(43, 43, metric=1)}

    assert [84, 41, None] == [member(around, later=later, free=free).file_systems[0]
                              .later_write_bytes for free in ((NID1, NID2), (NID1,), ())]


def test_a_job_that_may_have_left_something_to_write_is_told_of_without_its_id():
    found = member({("scratch", NID1): totals(23, 37)}, before="node[1-2]")

    assert ("node[1-2]", ["another job left node[1-2] less than a minute before: its data that "
                          "were written back later are in these numbers"]) == (
                              found.nodes_used_before, found.notes)


def test_a_job_without_numbers_says_why_and_when():
    found = make_part_without_numbers("it shared node7 with another job", WINDOW)

    assert ("it shared node7 with another job", [], "") == (found.why_none, found.file_systems,
                                                         found.alone)
    assert (993.5, 1053.5) == (found.began, found.ended)
    assert (None, None) == (make_part_without_numbers("no").began,
                            make_part_without_numbers("no").ended)


def test_without_a_common_clock_two_seconds_are_left_at_each_edge():
    assert (1003.0, 1058.0, 998.0, 1063.0, 1123.0) == make_window(1000.0, 1060.0, 1.0, 0.0,
                                                                  None)[:5]


MOMENTS = st.floats(0, 100)


@given(began=MOMENTS, lasts=st.floats(0, 50), ahead=st.floats(-40, 40),
       wrong=st.floats(-0.49, 0.49),
       work=st.lists(st.tuples(MOMENTS, st.integers(1, 97)), max_size=9), every=st.floats(1, 30))
def test_what_a_job_did_is_between_its_bounds(began, lasts, ahead, wrong, work, every):
    """
    Work at some moments, counted by sweeps of any pause; the batch system's clock is ahead by what
    was measured, give or take half a second, and tells whole seconds.
    """
    true_s = sum(amount for at, amount in work if began <= at < began + lasts)
    window = make_window((began + ahead + wrong) // 1, (began + lasts + ahead + wrong) // 1, 1.0,
                         ahead, 0.5)
    low = high = 0
    for number in range(-9, 200):
        since, until = number * every, (number + 1) * every
        gain = sum(amount for at, amount in work if since <= at < until)
        if window.since <= since and until <= window.until:
            low += gain
        if until > window.first and since < window.last:
            high += gain

    assert low <= true_s <= high
