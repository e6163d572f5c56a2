"""
What clients did between two moments: the truth is never below the lower number nor above the upper
one, whatever the moments, lost messages, kills, and hours in place of sweeps.
"""

import random

import pytest
from client_messages import ClientAgent
from harvest_inside import BEGAN, HarvestInside
from hypothesis import given
from hypothesis import strategies as st

from iostats.harvest.clients import intake
from iostats.harvest.clients.history import EDGE, OUTSIDE, WHOLE, locate_period

KEY = ("scratch", "MDT")
NIDS = [f"10.0.0.{number}@o2ib" for number in range(3)]
EVERY_S = 20


class Clock:
    """Time that passes, for the desk and for its store."""

    def __init__(self, desk, monkeypatch):
        self.desk = desk
        monkeypatch.setattr(type(desk.store), "now", lambda store: desk.now)
        monkeypatch.setattr(intake.time, "monotonic", lambda: desk.now)


@pytest.mark.parametrize("seed", range(5))
def test_the_truth_lies_between_the_two_numbers(tmp_path, monkeypatch, seed):
    """260 sweeps, 87 minutes; the older ones are by hour at the end."""
    dice = random.Random(seed)
    desk = HarvestInside(tmp_path / "site.sqlite", clients_detail_hours=1)
    Clock(desk, monkeypatch)
    agent, done = ClientAgent("mds1"), {nid: [] for nid in NIDS}
    for _ in range(260):
        began = desk.now
        read_at = began + dice.uniform(0.25, 0.5)
        for times in done.values():
            if dice.random() < 0.6:
                times += sorted(began - EVERY_S + 0.6 + dice.uniform(0, EVERY_S - 0.2)
                                for _ in range(dice.randrange(5)))
        totals = {nid: [0, 0, 0, 0, sum(at <= read_at for at in times)]
                  for nid, times in done.items()}
        before = agent.totals.get(KEY, {})
        agent.totals[KEY] = totals
        changed = {nid: [0] * 5 for nid in NIDS if totals[nid] != before.get(nid)}
        message = agent.message(desk.now, {KEY: changed})
        if dice.random() < 0.05 and agent.seq > 1:          # it, and what follows it, is lost
            agent.again()
        else:
            assert desk.tell("mds1", message)["taken"]
        if dice.random() < 0.8:
            desk.turn()
        if dice.random() < 0.05:
            desk.again()
        desk.now += EVERY_S
    desk.turn()
    rows = [merged for merged, in desk.store.rows("SELECT merged FROM client_gains")]
    assert {0, 1} == set(rows)
    last = desk.harvest.clients.swept_until()
    exact = 0
    for _ in range(60):
        since = dice.uniform(BEGAN + 0.5, last)
        until = dice.uniform(since, last)
        if dice.random() < 0.3:                             # between two readings
            some = desk.harvest.clients.moments(since, until)
            since, until = some[0][1], min(last, some[-1][1])
        for nid in NIDS:
            totals = desk.did(since, until, nids=[nid])["scratch", nid]
            truth = sum(since <= at < until for at in done[nid])
            assert not totals.is_lower_bound, totals.why
            assert totals.low[5] <= truth <= totals.high[5], (since, until, totals)
            exact += totals.low[5] == totals.high[5]
    assert exact


@given(*[st.floats(0, 100)] * 4)
def test_a_place_is_inside_outside_or_at_an_edge(since, length, began, span):
    """What is inside is in the question at every one of its moments, what is outside at none."""
    until, ended = since + length, began + span
    place = locate_period(since, until, began, ended)
    moments = [min(since + length * part / 7, until) for part in range(8)]      # rounded
    inside = [began <= at <= ended for at in moments]
    if place is WHOLE:
        assert all(inside)
    if place is OUTSIDE:
        assert not any(began < at < ended for at in moments)
    assert place in (WHOLE, EDGE, OUTSIDE)
