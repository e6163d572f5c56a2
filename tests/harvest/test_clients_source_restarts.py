"""
The clients on the site's server over kills, lost messages, other epochs and damage: each gain is
counted once, or what may be missing is marked.
"""

import random
import sqlite3

import pytest
from client_messages import A_LOSS, BOOT, ClientAgent, decoded
from harvest_inside import BEGAN, HarvestInside

from iostats.harvest.clients import intake
from iostats.harvest.clients.rates import UNREPORTED
from iostats.wire.messages.clients_encoder import LEFT, NEW_EPOCH, UNREADABLE, WENT_DOWN

NIDS = [f"10.0.0.{number}@tcp" for number in range(5)]
KEY = ("scratch", "OST")
EVER = (BEGAN - 1e6, BEGAN + 1e6)


@pytest.fixture
def desk(tmp_path):
    return HarvestInside(tmp_path / "site.sqlite")


def highs(desk, since=BEGAN + 0.25, until=BEGAN + 1e6):
    """{nid: the amounts}, and the reasons that mark all of them."""
    found = desk.did(since, until)
    return {nid: totals.high[:5] for (_, nid), totals in found.items()}


def reasons(desk, nid, since, until):
    return desk.did(since, until, nids=[nid])["scratch", nid].why


def told(desk, agent, gains, **how):
    assert {"taken": True, "why": ""} == desk.tell(agent.node, agent.message(
        desk.now, gains, **how))
    desk.now += 20


@pytest.mark.parametrize("seed", range(12))
def test_each_gain_is_counted_once_whatever_is_killed(desk, seed):
    """Two storage servers; messages that come twice, or not; servers that are killed anywhere."""
    dice = random.Random(seed)
    agents = [ClientAgent("oss1"), ClientAgent("oss2")]
    truth = {}
    for agent in agents:
        desk.tell(agent.node, agent.message(desk.now, {KEY: dict.fromkeys(NIDS, [0] * 5)}))
    for _ in range(60):
        for agent in agents:
            gains = {nid: [dice.randrange(1, 1000) for _ in range(5)]
                     for nid in NIDS if dice.random() < 0.5}
            for nid, some in gains.items():
                truth[nid] = [a + b for a, b in zip(truth.get(nid, [0] * 5), some)]
            sent = agent.message(desk.now, {KEY: gains})
            event = dice.random()
            if event < 0.1:                     # the message, and all that follow, are lost
                agent.again()
                continue
            if event < 0.2:                     # killed before it is on the disk
                desk.harvest.receive(decoded(sent), agent.node)
                desk.again()
            desk.tell(agent.node, sent)
            if event > 0.9:
                assert desk.tell(agent.node, sent)["taken"]         # again
            if event > 0.95:
                desk.again()
        if dice.random() < 0.7:
            desk.turn()
        if dice.random() < 0.1:
            desk.harvest.close()
            desk.again()
        if dice.random() < 0.1:
            desk.again()
        desk.now += 20
    for agent in agents:                        # the last ones may be lost
        agent.again()
        desk.tell(agent.node, agent.message(desk.now, {KEY: {}}))
    assert truth == highs(desk)
    desk.turn()
    assert truth == highs(desk)
    desk.again()
    assert truth == highs(desk)


def test_a_lost_message_makes_the_interval_longer_and_loses_nothing(desk):
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    agent.message(desk.now, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}})              # is lost
    desk.now += 20
    agent.again()
    told(desk, agent, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}})
    desk.turn()
    [totals] = desk.did(BEGAN + 0.25, BEGAN + 40.5).values()
    assert (60, 60) == (totals.low[0], totals.high[0])
    [totals] = desk.did(BEGAN + 20.25, BEGAN + 40.5).values()
    assert (0, 60) == (totals.low[0], totals.high[0])


def test_another_epoch_counts_from_0_and_says_so(desk):
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}})
    agent.epoch, agent.totals = "f" * 16, {}
    agent.again()
    told(desk, agent, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}})
    desk.turn()
    assert {NIDS[0]: [60, 0, 2, 0, 0]} == highs(desk)
    assert [f"oss1: {NEW_EPOCH}"] == reasons(desk, NIDS[0], BEGAN + 21.0, BEGAN + 40.0)
    assert [] == reasons(desk, NIDS[0], BEGAN + 0.25, BEGAN + 20.25)


def test_a_number_that_goes_down_is_marked_and_counted_once(desk):
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: dict.fromkeys(NIDS[:2], [0] * 5)})
    told(desk, agent, {KEY: {key: [100, 0, 10, 0, 0] for key in NIDS[:2]}})
    agent.totals[KEY][NIDS[0]] = [60, 0, 10, 0, 0]
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, agent, {KEY: {NIDS[0]: [63, 0, 1, 0, 0]}})                    # 123
    told(desk, agent, {KEY: {NIDS[0]: [7, 0, 1, 0, 0]}})                     # 130
    desk.turn()
    assert {NIDS[0]: [130, 0, 12, 0, 0], NIDS[1]: [100, 0, 10, 0, 0]} == highs(desk)
    said = [f"oss1: {WENT_DOWN}"]
    assert [[], said, said, []] == [reasons(desk, NIDS[0], BEGAN + at + 1, BEGAN + at + 19)
                                    for at in (0, 20, 40, 60)]
    # What made it smaller may have made the others begin again, which have overtaken it since.
    assert [[], said, [], []] == [reasons(desk, NIDS[1], BEGAN + at + 1, BEGAN + at + 19)
                                  for at in (0, 20, 40, 60)]


def test_before_the_first_reading_and_after_the_last_one_nothing_is_known(desk):
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}})    # where it stands, since it booted
    told(desk, agent, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}})
    desk.turn()
    assert {NIDS[0]: [37, 0, 1, 0, 0]} == highs(desk)
    assert ["oss1: its clients were not read before"] == reasons(
        desk, NIDS[0], BEGAN, BEGAN + 20.0)
    assert ["oss1: its clients were not read up to then"] == reasons(
        desk, NIDS[0], BEGAN + 1.0, BEGAN + 30.0)


def test_a_target_that_cannot_be_read_marks_the_rates(desk):
    agent = ClientAgent("oss1", targets={KEY: ["OST0001", "OST0002"]})
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}}, targets=["OST0001"],
         unreadable={"OST0002": "no permission"})
    desk.turn()
    found = desk.harvest.clients.sweep.file_systems["scratch"]
    assert {"oss1": "OST0002 cannot be read: no permission"} == found.missing
    assert [True] == found.is_lower_bound.tolist()
    said = [f"oss1: scratch-OST0002: {UNREADABLE}"]
    assert said == reasons(desk, NIDS[0], BEGAN + 1.0, BEGAN + 20.0)
    told(desk, agent, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}})
    desk.turn()
    found = desk.harvest.clients.sweep.file_systems["scratch"]   # the 37 may be of 20 s before
    assert ({}, 0.0, True) == (found.missing, found.rates[0, 0], found.is_lower_bound[0])
    told(desk, agent, {KEY: {NIDS[0]: [41, 0, 1, 0, 0]}})
    desk.turn()
    assert {} == desk.harvest.clients.sweep.file_systems["scratch"].missing
    # All of it is in the sums: the 37 were read in some part of 40 s.
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    assert (41, 78) == amounts(desk, NIDS[0], BEGAN + 22.0, BEGAN + 61.0)
    assert (101, 101) == amounts(desk, NIDS[0], BEGAN + 0.25, BEGAN + 61.0)


def test_a_target_that_left_before_it_was_read_once_is_marked_up_to_then(desk):
    """
    It came, its exports were not there yet, and it was unmounted: what it did meanwhile is unknown,
    and what others do afterwards is not.
    """
    agent = ClientAgent("oss1", targets={KEY: ["OST0001"]})
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}}, unreadable={"OST0002": "not there"})
    assert [f"oss1: scratch-OST0002: {UNREADABLE}"] == reasons(
        desk, NIDS[0], BEGAN + 1.0, BEGAN + 20.0)
    left = {"since": BEGAN + 20.25, "until": BEGAN + 40.25, "target": "OST0002", "nid": "",
            "why": LEFT}
    told(desk, agent, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}}, losses=[left])
    told(desk, agent, {KEY: {NIDS[0]: [41, 0, 1, 0, 0]}})
    desk.turn()
    said = [f"oss1: scratch-OST0002: {LEFT}"]
    assert [said, said, []] == [reasons(desk, NIDS[0], BEGAN + at + 1, BEGAN + at + 19)
                                for at in (0, 20, 40)]
    assert {} == desk.harvest.clients.sweep.file_systems["scratch"].missing


def amounts(desk, nid, since, until):
    """(the smaller, the larger) number of bytes read, which has no mark."""
    found = desk.did(since, until, nids=[nid])["scratch", nid]
    assert [] == found.why
    return found.low[0], found.high[0]


def test_a_client_whose_file_cannot_be_read_is_marked_until_it_can(desk):
    """The other one is exact; a restart of the site's server changes nothing of it."""
    agent = ClientAgent("oss1", targets={KEY: ["OST0001"]})
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5, NIDS[1]: [0] * 5}})
    told(desk, agent, {KEY: {NIDS[1]: [23, 0, 1, 0, 0]}}, unread={"OST0001": [NIDS[0]]})
    desk.turn()
    desk.harvest.close()
    desk.again()
    said = [f"oss1: scratch-OST0001: {UNREADABLE}"]
    assert said == reasons(desk, NIDS[0], BEGAN + 1.0, BEGAN + 20.0)
    assert [] == reasons(desk, NIDS[1], BEGAN + 1.0, BEGAN + 20.0)
    told(desk, agent, {KEY: {NIDS[0]: [41, 0, 1, 0, 0], NIDS[1]: [37, 0, 1, 0, 0]}})
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    desk.turn()
    assert (0, 41) == amounts(desk, NIDS[0], BEGAN + 21.0, BEGAN + 41.0)
    assert (41, 41) == amounts(desk, NIDS[0], BEGAN + 0.25, BEGAN + 41.0)
    assert (0, 37) == amounts(desk, NIDS[1], BEGAN + 21.0, BEGAN + 41.0)
    assert (60, 60) == amounts(desk, NIDS[1], BEGAN + 0.25, BEGAN + 41.0)


def test_a_new_epoch_has_lost_what_could_not_be_read_before_it(desk):
    """From the last reading of the target on, and not from the last message."""
    agent = ClientAgent("oss1", targets={KEY: ["OST0001"]})
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}}, targets=[], unreadable={"OST0001": "busy"})
    agent.epoch, agent.totals = "f" * 16, {}
    told(desk, agent, {KEY: {NIDS[0]: [41, 0, 1, 0, 0]}})
    desk.turn()
    assert f"oss1: {NEW_EPOCH}" in reasons(desk, NIDS[0], BEGAN + 1.0, BEGAN + 19.0)


def test_a_site_whose_clock_is_set_back_has_no_rates_that_are_too_high(desk):
    """By 19 s, between two sweeps of an agent whose clock is right; the gains are there once."""
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}})
    desk.turn()
    agent_at = desk.now
    desk.now -= 19
    desk.tell("oss1", agent.message(desk.now, {KEY: {NIDS[0]: [40, 0, 1, 0, 0]}},
                                    read_from=agent_at + 0.25, read_until=agent_at + 0.5,
                                since_boot=[BOOT, agent_at + 0.25 - 1_795_184_197]))
    desk.now += 20
    assert [2.0] == [entry.gains[0, 0] / source.last.span_s
                     for source in desk.harvest.clients.sources.values()
                     for entry in source.last.entries]
    assert {NIDS[0]: [63, 0, 2, 0, 0]} == highs(desk)


def test_a_loss_that_is_told_once_more_marks_its_own_time_alone(desk):
    agent = ClientAgent("oss1")
    loss = {**A_LOSS, "since": BEGAN + 0.25, "until": BEGAN + 20.25, "nid": NIDS[0]}
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}}, losses=[loss])
    desk.turn()
    agent.again()
    told(desk, agent, {KEY: {}}, losses=[loss])
    desk.turn()
    assert [False] == desk.harvest.clients.sweep.file_systems["scratch"].is_lower_bound.tolist()
    assert [] == reasons(desk, NIDS[0], BEGAN + 20.25, BEGAN + 40.25)
    assert 1 == len(reasons(desk, NIDS[0], BEGAN + 0.25, BEGAN + 20.25))
    assert [(1,)] == desk.store.rows("SELECT count(*) FROM client_losses")


# -- another agent for the same target ---------------------------------------------------------

def test_two_agents_for_one_target_are_not_added_up(desk):
    """oss2 takes the target over: while oss1 is up and has just read it, its message is refused."""
    targets = {KEY: ["OST0001"]}
    one, other = ClientAgent("oss1", targets=targets), ClientAgent("oss2", targets=targets)
    told(desk, one, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, one, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}})
    desk.now -= 20
    answer = desk.tell("oss2", other.message(desk.now, {KEY: {NIDS[0]: [0] * 5}}))
    assert (False, "full") == (answer["taken"], answer["want"])
    assert "scratch-OST0001 (oss1)" in answer["why"]
    desk.now += 20
    told(desk, one, {KEY: {}}, targets=[])                        # it has left
    other.again()
    told(desk, other, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, other, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}})
    desk.turn()
    assert {NIDS[0]: [60, 0, 2, 0, 0]} == highs(desk)


def test_a_target_that_comes_from_a_dead_server_counts_in_full_and_marks_what_that_may_have_lost(
        desk):
    """oss1 dies after its reading at 20.25; oss2 has no target before, and reads it at 140.25."""
    targets = {KEY: ["OST0001"]}
    one, other = ClientAgent("oss1", targets=targets), ClientAgent("oss2", targets=targets)
    told(desk, one, {KEY: {NIDS[0]: [0] * 5}})
    told(desk, one, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}})
    desk.tell("oss2", other.message(desk.now, {}))              # at 40: it has no target yet
    desk.now += 100
    other.again()
    told(desk, other, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}}, began=BEGAN + 40.25)
    desk.turn()
    assert {NIDS[0]: [60, 0, 2, 0, 0]} == highs(desk)
    [totals] = desk.did(BEGAN + 40.25, BEGAN + 140.5).values()
    assert (37, 37) == (totals.low[0], totals.high[0])
    assert [f"oss1: scratch-OST0001: {LEFT}"] == reasons(
        desk, NIDS[0], BEGAN + 21.0, BEGAN + 39.0)
    assert [] == reasons(desk, NIDS[0], BEGAN + 0.25, BEGAN + 20.25)
    for _ in range(2):                          # oss1 may have lived until then
        assert [f"oss1: scratch-OST0001: {LEFT}"] == reasons(
            desk, NIDS[0], BEGAN + 41.0, BEGAN + 139.0)
        assert ["oss2: its clients were not read up to then"] == reasons(
            desk, NIDS[0], BEGAN + 140.3, BEGAN + 140.4)
        desk.again()


def test_a_target_that_was_removed_marks_no_longer_than_answers_are_kept(tmp_path, monkeypatch):
    desk = HarvestInside(tmp_path / "site.sqlite", clients_keep_days=2)
    monkeypatch.setattr(intake.time, "monotonic", lambda: desk.now)
    agent = ClientAgent("oss1", targets={KEY: ["OST0001", "OST0002"]})
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    agent.targets = {KEY: ["OST0001"]}
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}})
    desk.turn()
    why = [f"oss1: scratch-OST0002: {UNREPORTED}"]
    assert why == reasons(desk, NIDS[0], BEGAN + 0.25, BEGAN + 20.0)
    for days, expected in ((2.9, why), (0.2, [])):
        desk.now += days * 86_400
        told(desk, agent, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}})
        desk.turn()
        assert expected == reasons(desk, NIDS[0], desk.now - 60.0, desk.now - 20.0)


def test_amounts_that_are_in_the_history_are_not_counted_once_more(desk):
    """The state of a source is damaged: what it told since they began is there already."""
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}}, began=desk.now + 0.25)
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}}, began=BEGAN + 0.25)
    desk.turn()
    desk.harvest.close()
    desk.store.change("UPDATE client_sources SET state = x'1723'")
    desk.again()
    agent.again()
    told(desk, agent, {KEY: {NIDS[0]: [37, 0, 1, 0, 0]}}, began=BEGAN + 0.25)
    told(desk, agent, {KEY: {NIDS[0]: [41, 0, 1, 0, 0]}}, began=BEGAN + 0.25)
    desk.turn()
    assert {NIDS[0]: [64, 0, 2, 0, 0]} == highs(desk)


def test_a_rebuilt_store_counts_nothing_twice(desk):
    """As store_repair.py leaves it: the history is there, what agents have told is not."""
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}}, began=desk.now + 0.25)
    told(desk, agent, {KEY: {NIDS[0]: [23, 0, 1, 0, 0]}}, began=BEGAN + 0.25)
    desk.turn()
    desk.harvest.close()
    desk.store.change(*((f"DELETE FROM {table}", ()) for table in (
        "client_sources", "client_blocks", "agents")))
    desk.again()
    for amount in (37, 41):
        agent.again()
        told(desk, agent, {KEY: {NIDS[0]: [amount, 0, 1, 0, 0]}}, began=BEGAN + 0.25)
    desk.turn()
    assert {NIDS[0]: [64, 0, 2, 0, 0]} == highs(desk)
    assert ["oss1: its clients were not read before"] == reasons(
        desk, NIDS[0], BEGAN + 21.0, BEGAN + 60.0)


# -- hours ---------------------------------------------------------------------------------------

def test_sweeps_become_hours_and_then_go(tmp_path, monkeypatch):
    desk = HarvestInside(tmp_path / "site.sqlite", clients_detail_hours=1, clients_keep_days=2)
    passed = [0.0]
    monkeypatch.setattr(type(desk.store), "now", lambda store: BEGAN + passed[0])
    monkeypatch.setattr(intake.time, "monotonic", lambda: desk.now)
    agent = ClientAgent("oss1")
    hour = BEGAN // 3600 * 3600 + 3600
    desk.now = float(hour - 20)
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    for number in range(1, 7):
        told(desk, agent, {KEY: {NIDS[0]: [number, 0, 1, 0, 0]}})
        desk.turn()

    def rows():
        return [tuple(row) for row in desk.store.rows(
            "SELECT since, until, merged FROM client_gains ORDER BY until")]
    assert [0] * 6 == [merged for *_, merged in rows()]
    passed[0] += 3700
    desk.now += 3700
    desk.turn()
    assert [(hour - 19.75, hour + 100.5, 1)] == rows()
    [totals] = desk.did(hour - 19.75, hour + 100.5).values()
    assert (21, 21) == (totals.low[0], totals.high[0])
    [totals] = desk.did(hour + 0.25, hour + 100.5).values()
    assert (0, 21) == (totals.low[0], totals.high[0])
    passed[0] += 2 * 86_400
    desk.now += 2 * 86_400
    desk.turn()
    assert [] == rows()


def test_sweeps_go_with_keep_days_however_long_detail_hours_are(tmp_path, monkeypatch):
    """A year by sweep, of which a day is kept: sweeps of 23 hours ago are there, of 25 are not."""
    desk = HarvestInside(tmp_path / "site.sqlite", clients_detail_hours=8784, clients_keep_days=1)
    passed = [0.0]
    monkeypatch.setattr(type(desk.store), "now", lambda store: BEGAN + passed[0])
    monkeypatch.setattr(intake.time, "monotonic", lambda: desk.now)
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: {NIDS[0]: [0] * 5}})
    for number in (23, 37, 41):
        told(desk, agent, {KEY: {NIDS[0]: [number, 0, 1, 0, 0]}})
        desk.turn()

    def after(hours):
        passed[0] += 3600 * hours
        desk.now += 3600 * hours
        desk.turn()
        return [merged for merged, in desk.store.rows("SELECT merged FROM client_gains")]
    assert [0] * 3 == after(23)
    began = float(BEGAN)
    [totals] = desk.did(began, began + 100).values()
    assert (101, []) == (totals.low[0], [why for why in totals.why if "is stored for" in why])
    assert [] == after(2)
    told(desk, agent, {KEY: {NIDS[0]: [53, 0, 1, 0, 0]}})
    [totals] = desk.did(began, desk.now).values()
    assert totals.is_lower_bound and "client activity is stored for 1 day" in totals.why


# -- damage ------------------------------------------------------------------------------------

def a_history(desk, sweeps=4):
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: dict.fromkeys(NIDS[:2], [0] * 5)})
    for _ in range(sweeps):
        told(desk, agent, {KEY: {key: [10, 20, 1, 2, 3] for key in NIDS[:2]}})
    return agent


@pytest.mark.parametrize("table, column", [
    ("client_blocks", "body"), ("client_blocks", "node"), ("client_sources", "state"),
    ("client_gains", "body"), ("client_gains", "since")])
@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_row_never_counts_twice_and_is_marked(desk, table, column, seed):
    """Any one row of any table: what is there then is the truth, or less and marked."""
    dice = random.Random(seed)
    agent = a_history(desk)
    if table == "client_sources":
        desk.harvest.close()
    desk.turn()
    told(desk, agent, {KEY: {NIDS[0]: [10, 20, 1, 2, 3]}})
    desk.store.close()
    file = sqlite3.connect(desk.path, isolation_level=None)
    ids = [row for row, in file.execute(f"SELECT rowid FROM {table}")]
    assert ids
    file.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?",
                 (b"\x17\x23", dice.choice(ids)))
    file.close()
    desk.open()
    desk.did(*EVER)                                          # and finds what is damaged
    answer = desk.tell("oss1", agent.message(desk.now, {KEY: {NIDS[1]: [10, 20, 1, 2, 3]}}))
    if not answer["taken"]:
        assert "full" == answer["want"]
        agent.again()
        told(desk, agent, {KEY: {}})
    desk.turn()
    began = BEGAN + 0.25
    found = desk.did(began, desk.now - 19.7)
    for nid in NIDS[:2]:
        totals = found.get(("scratch", nid))
        assert totals is not None and totals.high[0] <= 50, totals
        assert totals.high[0] == 50 or totals.is_lower_bound, totals
    again = {key: totals.high for key, totals in found.items()}
    desk.again()
    assert again == {key: totals.high
                     for key, totals in desk.did(began, desk.now - 19.7).items()}


def test_what_is_left_out_is_counted(desk, monkeypatch, caplog):
    monkeypatch.setattr("iostats.harvest.clients.nids.KnownNids.__init__.__defaults__", (3,))
    agent = ClientAgent("oss1")
    told(desk, agent, {KEY: dict.fromkeys(NIDS, [0] * 5)})
    told(desk, agent, {KEY: {key: [7, 0, 1, 0, 0] for key in NIDS}})
    desk.turn()
    assert {key: [7, 0, 1, 0, 0] for key in NIDS[:3]} == highs(desk)
    assert "scratch: more than 3 clients: 2 or more are left out" in caplog.text
    found = desk.harvest.clients.sweep.file_systems["scratch"]
    assert {"(clients)": "more than 3: 2 or more are left out"} == found.missing
    assert ["more than 3 clients: the others are left out"] == reasons(
        desk, NIDS[0], BEGAN + 1.0, BEGAN + 20.0)
