"""Messages of clients on the site's server: what they come to, sweep by sweep."""

import pytest
from client_messages import A_LOSS
from harvest_inside import BEGAN, HarvestInside

from iostats.base.cooperative import run_to_end
from iostats.load.amounts import CLIENT_METRICS

NID, OTHER = "10.0.0.1@tcp", "10.0.0.2@o2ib3"
SOME = (41_003, 53_007, 23, 37, 43)


@pytest.fixture
def desk(tmp_path):
    return HarvestInside(tmp_path / "site.sqlite")


def rates(desk, file_system="scratch"):
    """{nid: ([rate of CLIENT_METRICS], is it a lower bound)} of the last sweep."""
    found = desk.harvest.clients.sweep.file_systems[file_system]
    return {nid: (row, bool(is_low)) for nid, row, is_low in zip(
        found.nids, found.rates.tolist(), found.is_lower_bound.tolist())}


def lows(desk, since=BEGAN, until=BEGAN + 86_400.0, **which):
    return {key: totals.low for key, totals in desk.did(since, until, **which).items()}


def test_rates_are_gains_by_the_time_between_two_readings(desk):
    desk.clients("oss1", "scratch", {NID: (*SOME, 61), OTHER: (0, 0, 0, 0, 0)})
    desk.turn()
    assert {NID: ([number / 20 for number in (*SOME, 61)], False), OTHER: ([0.0] * 6, False)
            } == rates(desk)
    assert len(CLIENT_METRICS) == 6 and {} == desk.harvest.clients.sweep.file_systems[
        "scratch"].missing


def test_storage_servers_are_added_up(desk):
    desk.clients("oss1", "scratch", {NID: SOME})
    desk.now -= 20                                          # oss2 begins in the same sweep
    desk.clients("oss2", "scratch", {NID: (1009, 0, 11, 0, 0)})
    desk.turn()
    assert ([(41_003 + 1009) / 20, 53_007 / 20, 34 / 20, 37 / 20, 43 / 20, 0.0], False
            ) == rates(desk)[NID]
    assert [(("scratch", NID), [41_003 + 1009, 53_007, 34, 37, 43, 0])
            ] == list(lows(desk, BEGAN + 0.25).items())


def test_a_question_has_whole_sweeps_and_those_at_its_edges(desk):
    for number in (3, 5, 7):
        desk.clients("oss1", "scratch", {NID: (0, number, 0, 1, 0)})
        desk.turn()
        desk.now += 20
    # read at 0.25 to 0.5, 20.25 to 20.5, 40.25 to 40.5, 60.25 to 60.5
    [totals] = desk.did(BEGAN + 20.25, BEGAN + 59.0).values()
    assert ([0, 5, 0, 1, 0, 0], [0, 15, 0, 3, 0, 0]) == (totals.low, totals.high)
    [totals] = desk.did(BEGAN + 30.0, BEGAN + 35.0).values()
    assert ([0, 0, 0, 0, 0, 0], [0, 5, 0, 1, 0, 0]) == (totals.low, totals.high)


def test_a_question_from_sweep_to_sweep_has_nothing_at_its_edges(desk):
    """Readings are 0.25 s after the moment of their sweep."""
    for number in (3, 5, 7):
        desk.clients("oss1", "scratch", {NID: (0, number, 0, 1, 0)})
        desk.turn()
        desk.now += 20
    for since, until, written in ((0, 60, 15), (20, 60, 12), (20, 40, 5), (40, 60, 7)):
        [totals] = desk.did(BEGAN + since, BEGAN + until, slack_s=(10.0, 10.0)).values()
        assert (written, written, False) == (totals.low[1], totals.high[1], totals.is_lower_bound)
    [totals] = desk.did(BEGAN + 35.0, BEGAN + 60.0, slack_s=(0.0, 5.0)).values()
    assert (7, 12) == (totals.low[1], totals.high[1])


def test_what_may_be_missing_is_said(desk):
    desk.clients("oss1", "scratch", {NID: SOME, OTHER: SOME}, losses=[
        {**A_LOSS, "since": BEGAN + 3.0, "until": BEGAN + 5.0, "nid": NID}])
    desk.turn()
    assert {NID: True, OTHER: False} == {nid: low for nid, (_, low) in rates(desk).items()}
    found = desk.did(BEGAN + 0.25, BEGAN + 20.25)
    assert (True, ["oss1: its counters were reset"], False, []) == (
        *found["scratch", NID][2:], *found["scratch", OTHER][2:])
    assert not desk.did(BEGAN + 6.0, BEGAN + 20.25)["scratch", NID].is_lower_bound


def test_totals_since_the_servers_start_never_go_back(desk):
    """For counters in databases: whatever epochs begin, clients leave or amounts go down."""
    desk.clients("oss1", "scratch", {NID: (*SOME, 61)})
    desk.turn()
    totals = desk.harvest.clients.sweep.file_systems["scratch"].totals
    assert [[*SOME, 61]] == totals.tolist()
    desk.now += 20
    desk.clients("oss1", "scratch", {NID: (3, 0, 1, 0, 0), OTHER: (5, 7, 11, 13, 17)})
    desk.turn()
    found = desk.harvest.clients.sweep.file_systems["scratch"]
    assert {NID: [41_006, 53_007, 24, 37, 43, 61], OTHER: [5, 7, 11, 13, 17, 0]} == dict(
        zip(found.nids, found.totals.tolist()))
    desk.harvest.clients.reload()
    assert desk.harvest.clients.sweep is None


def test_a_storage_server_whose_agent_does_not_read_exports_makes_lower_bounds(desk):
    """oss2 has a target of the same file system, and tells of jobs alone; home is another one."""
    desk.clients("oss1", "scratch", {NID: SOME})
    desk.now -= 20                                          # mds1 begins in the same sweep
    desk.clients("mds1", "home", {OTHER: SOME})
    desk.send("oss2", desk.block("OST0007"))
    desk.turn()
    why = "it does not report its clients ([harvest] exports there)"
    assert {"oss2": why} == desk.harvest.clients.sweep.file_systems["scratch"].missing
    assert {} == desk.harvest.clients.sweep.file_systems["home"].missing
    assert {NID: True} == {nid: low for nid, (_, low) in rates(desk).items()}
    totals = desk.did(BEGAN + 0.25, BEGAN + 20.25)
    assert (True, [f"oss2: {why}"]) == totals["scratch", NID][2:]
    assert not totals["home", OTHER].is_lower_bound


def test_several_questions_at_once_are_answered_as_one_by_one(desk):
    """In one go over what is on the disk, for any clients and times; also for none."""
    for number in (3, 5, 7):
        desk.clients("oss1", "scratch", {NID: (0, number, 0, 1, 0), OTHER: (number, 0, 1, 0, 11)})
        desk.turn()
        desk.now += 20
    desk.clients("oss1", "home", {OTHER: SOME})
    desk.turn()
    questions = [(BEGAN + since, BEGAN + until, nids) for since, until in (
        (20.25, 59.0), (30.0, 35.0), (0.0, 90.0), (50.0, 40.0)) for nids in (
            [NID], [OTHER, NID], ["10.0.0.9@tcp"], [])]
    found = run_to_end(desk.harvest.clients.between_each(questions))

    assert [desk.did(since, until, nids=nids) for since, until, nids in questions] == found
    assert [] == run_to_end(desk.harvest.clients.between_each([]))
