"""
What the site's server answers about clients when storage servers fail: exact, or marked.

Random histories (exports_world.py), and those that were once wrong without a mark, one by one.
IOSTATS_EXPORTS_SEEDS="0 5000" plays others, and prints how many answers were marked, and why.
"""
from __future__ import annotations

import os
import random
import sys
from collections import Counter

import pytest
from exports_world import BEGAN, BIG, ExportsWorld, is_needless, is_wrong

from iostats.harvest.clients.rates import UNREPORTED
from iostats.wire.messages.clients_encoder import (
    LEFT,
    MAYBE_RESET,
    RESET,
    RESTARTED,
    UNREADABLE,
    WENT_DOWN,
)

RELEASES = ("2.10", "2.12", "2.15.2", "2.16", "2.17")
FOUND = (985, 1501, 3928, 20119, 20691, 31350)    # once wrong without a mark, or too high
SEEDS = [*range(*map(int, os.environ.get("IOSTATS_EXPORTS_SEEDS", "0 12").split())),
         *(() if "IOSTATS_EXPORTS_SEEDS" in os.environ else FOUND)]
ONE, OTHER = "10.0.0.7@o2ib", "10.0.0.11@o2ib"
MIB = 1 << 20


def test_no_answer_is_wrong_without_a_mark(tmp_path):
    """Low is never above the truth, and high never below it, unless the answer is marked."""
    counts, wrong = Counter(), []
    for seed in SEEDS:
        dice, directory = random.Random(seed), tmp_path / str(seed)
        directory.mkdir()
        world = ExportsWorld(directory, dice, dice.choice(RELEASES))
        world.play(45)
        if seed % 4:
            world.settle()
        for one in world.judged():
            counts.update(answers=1, marked=bool(one.why), needless=is_needless(one),
                          avoidable=is_needless(one) and one.is_avoidable)
            if is_needless(one) and one.is_avoidable:
                counts.update({why.rpartition(": ")[2] for why in one.why})
            if is_wrong(one):
                wrong.append((seed, one))
        world.close()
    if "IOSTATS_EXPORTS_SEEDS" in os.environ:
        print(len(SEEDS), "histories:", dict(counts), "wrong:", len(wrong), file=sys.stderr)
    assert [] == wrong
    assert counts["answers"] > 20 * len(SEEDS)


class Story(ExportsWorld):
    """A history that is told step by step: OST0000 and MDT0000 on oss1, OST0001 on oss2."""

    def __init__(self, directory, release="2.15.2"):
        super().__init__(directory, random.Random(23), release, third_has_agent=False)
        self.one, self.other, self.bare = self.servers
        self.ost = self.targets[0]
        self.write(self.ost, ONE, 4096, 23)
        self.write(self.ost, OTHER, 4096, 23)
        self.sweeps(2)

    def sweeps(self, count=1):
        """So many sweeps; then it is 5 s after the last one."""
        for _ in range(count):
            self.wait(20 - (self.now - BEGAN) % 20 + 5)

    def move(self, kernel, server):
        kernel.stop()
        self.home[kernel.target] = server
        kernel.start(server.wall_ns())

    def asked(self, since, until, nid=ONE):
        """(low, true, high) bytes written between two moments, [why]."""
        one = self.site.did(since, until, nids=[nid])["scratch", nid]
        return (one.low[1], self.truth(nid, since, until)[1], one.high[1]), one.why


@pytest.fixture
def story(tmp_path):
    """Makes a Story of a release."""
    made = []

    def begin(release="2.15.2"):
        made.append(Story(tmp_path, release))
        return made[0]
    yield begin
    for one in made:
        one.close()


@pytest.mark.parametrize("release", ["2.12", "2.15.2"])
def test_a_storage_server_dies_and_its_target_fails_over(story, release):
    """What was done after its last sweep is lost: up to when the other one has the target."""
    world = story(release)
    began = world.now
    world.write(world.ost, ONE, 41, 30)
    world.one.clients, world.one.is_up = None, False
    world.sweeps(4)                             # it was at work all this time
    world.write(world.ost, ONE, 37, 30)
    moved = world.now
    world.move(world.ost, world.other)
    world.move(world.targets[2], world.other)
    world.sweeps(2)
    (low, true, high), why = world.asked(began, world.now - 10)
    assert (0, 30 * 78, 0) == (low, true, high)
    assert f"oss1: scratch-OST0000: {LEFT}" in why
    (low, true, high), why = world.asked(moved - 2, moved + 2)  # after the last sweep of the other
    assert (0, 30 * 37, 0) == (low, true, high)
    assert f"oss1: scratch-OST0000: {LEFT}" in why
    assert f"oss1: scratch-OST0000: {LEFT}" not in world.asked(moved + 21, moved + 26)[1]


def test_a_target_that_was_started_before_the_agent_of_its_new_storage_server(story):
    """`instance` shows one start, but that agent counts from its own first reading on."""
    world = story()
    world.move(world.ost, world.bare)
    world.sweeps()
    began = world.now
    world.write(world.ost, ONE, MIB, 23)
    world.bare.has_agent = True
    world.bare.begin()
    world.sweeps(2)
    (low, true, high), why = world.asked(began, world.now - 10)
    assert (0, 23 * MIB, 0) == (low, true, high)
    assert f"oss1: scratch-OST0000: {LEFT}" in why


def test_a_target_that_nobody_reads_marks_all_clients(story):
    """It moves to a storage server without an agent, and comes back."""
    world = story()
    began = world.now
    world.write(world.ost, ONE, MIB, 20)
    world.sweeps()
    world.move(world.ost, world.bare)
    world.write(world.ost, ONE, MIB, 4004)
    world.sweeps(3)
    (_, true, high), why = world.asked(began, world.now - 10)
    assert (4024 * MIB, 20 * MIB) == (true, high)
    assert [f"oss1: scratch-OST0000: {UNREPORTED}"] == why
    assert [] == world.asked(began, began + 15)[1]
    assert why == world.asked(began, world.now - 10, BIG)[1]
    rates = world.site.harvest.clients.sweep.file_systems["scratch"]
    assert {"oss1": f"OST0000: {UNREPORTED}"} == rates.missing
    world.move(world.ost, world.one)
    world.sweeps(2)
    assert [f"oss1: scratch-OST0000: {LEFT}"] == world.asked(began, world.now - 10)[1]


def test_a_target_that_left_and_came_back_between_two_messages(story):
    """The agent's message that it had left was lost: the next one reports both."""
    world = story()
    began = world.now
    world.move(world.ost, world.bare)
    world.write(world.ost, ONE, MIB, 23)
    world.one.is_silent = 1
    world.sweeps()
    world.one.waiting, world.one.encoder.is_broken = [], True
    world.move(world.ost, world.one)
    world.sweeps(2)
    (low, true, high), why = world.asked(began, world.now - 10)
    assert (0, 23 * MIB, 0) == (low, true, high)
    assert [f"oss1: scratch-OST0000: {LEFT}"] == why


def test_a_target_that_was_nowhere_else_lost_nothing_meanwhile(story):
    """`instance` shows that it was started once: nobody had it between the two sweeps of oss1."""
    world = story()
    world.ost.stop()
    world.sweeps(5)
    until = world.now - 10
    assert [f"oss1: scratch-OST0000: {UNREPORTED}"] == world.asked(until - 20, until)[1]
    world.ost.start(world.one.wall_ns())
    world.sweeps(2)
    assert ((0, 0, 0), []) == world.asked(until - 20, until)


def test_a_clear_and_a_kill_in_one_interval(story):
    """Before 2.15.2 a clear shows by one client alone: the others are marked as well."""
    world = story("2.12")
    world.write(world.ost, ONE, MIB, 4)
    world.write(world.ost, OTHER, MIB, 1)
    world.sweeps()
    began = world.now
    world.write(world.ost, ONE, MIB, 4)
    world.ost.clear(world.one.wall_ns())
    world.one.clients = None
    world.write(world.ost, ONE, MIB, 41)        # more than it ever had
    world.one.begin()
    world.sweeps(2)
    for nid, true in ((ONE, 45 * MIB), (OTHER, 0)):
        (low, really, _), why = world.asked(began, world.now - 10, nid)
        assert true == really >= low
        assert {f"oss1: scratch-OST0000: {MAYBE_RESET}"} <= set(why) <= {
            f"oss1: scratch-OST0000: {one}" for one in (MAYBE_RESET, RESET)}


@pytest.mark.parametrize("release", ["2.12", "2.15.2"])
def test_a_target_that_comes_and_cannot_be_read_at_first(story, release):
    """What was done before that try is no part of what was certainly done after it."""
    world = story(release)
    world.move(world.ost, world.other)
    world.write(world.ost, ONE, MIB, 30)
    world._blind["OST0000"] = 1
    world.sweeps()
    tried = world.now - 4.9
    world.sweeps(2)
    (low, true, high), why = world.asked(tried, world.now - 10)
    assert (0, 0, 30 * MIB) == (low, true, high)
    assert not any(UNREADABLE in one for one in why)


@pytest.mark.parametrize("release", ["2.12", "2.15.2"])
def test_a_target_that_cannot_be_read_for_two_sweeps_loses_nothing(story, release):
    """Until it can be read its clients are marked; then what they did lies in three intervals."""
    world = story(release)
    began = world.now
    world.write(world.ost, ONE, MIB, 23)
    world._blind["OST0000"] = 2
    world.sweeps(2)
    assert [f"oss1: scratch-OST0000: {UNREADABLE}"] == world.asked(began, world.now - 10)[1]
    world.write(world.ost, ONE, MIB, 37)
    world.sweeps(2)
    assert ((60 * MIB,) * 3, []) == world.asked(began - 8, world.now - 10)
    assert ((0, 37 * MIB, 60 * MIB), []) == world.asked(began + 30, world.now - 10)


def test_a_target_that_cannot_be_read_by_the_first_sweep_of_an_epoch(story):
    """Where its counters stood then is unknown, so what was done up to the next sweep is lost."""
    world = story()
    world.one.clients = None
    (world.one.spool / "clients.state").unlink()
    world._blind["OST0000"] = 1
    world.one.begin()
    world.sweeps()
    began = world.now
    world.write(world.ost, ONE, MIB, 23)
    world.sweeps(2)
    (low, true, high), why = world.asked(began, world.now - 10)
    assert (0, 23 * MIB, 0) == (low, true, high)
    assert [f"oss1: scratch-OST0000: {UNREADABLE}"] == why


@pytest.mark.parametrize("release", ["2.12", "2.15.2"])
@pytest.mark.parametrize("ahead", [-400, 400])
def test_a_clock_that_is_set_before_the_agent_reaches_the_site(story, release, ahead):
    """A reading of the same boot has its right time, by the seconds since that boot."""
    world = story(release)
    world.one.is_silent = 2
    world.one.begin()
    began = world.now
    world.write(world.ost, ONE, MIB, 23)
    world.sweeps()
    read = world.now
    world.one.ahead = ahead
    world.sweeps(3)
    assert ((23 * MIB,) * 3, []) == world.asked(began - 6, read, ONE)
    assert ((0, 0, 0), []) == world.asked(read, world.now - 10, ONE)


@pytest.mark.parametrize("ahead", [-400, 400])
def test_a_boot_with_another_clock_before_the_agent_reaches_the_site(story, ahead):
    """
    When the readings of the boot before were made is unknown: between the last one that arrived in
    time, and their arrival.  They were shown at a wrong time, as certain.
    """
    world = story("2.12")
    world.one.is_silent = 3
    world.one.begin()
    began = world.now
    world.write(world.ost, ONE, MIB, 23)
    world.sweeps()
    read = world.now
    world.one.clients, world.one.boots, world.one.booted = None, 2, world.now
    world.one.ahead = ahead
    world.ost.stop()
    world.ost.start(world.one.wall_ns())
    world.one.begin()
    world.sweeps(4)
    for since, until in ((began - 6, read), (read, world.now - 10), (read - 300, began - 1),
                         (read + 30, world.now - 10)):
        (low, true, high), why = world.asked(since, until, ONE)
        assert low <= true
        assert true <= high or why
    world.sweeps()
    assert (23 * MIB,) * 3 == world.asked(began - 20, world.now - 10, ONE)[0]


@pytest.mark.parametrize("ahead, lost_s", [(0, 61), (-4000, 76), (4000, 76)])
def test_a_boot_with_a_right_and_a_wrong_clock(story, ahead, lost_s):
    """
    What the boot lost is marked by the site's clock: up to the boot where the clock was not set,
    else up to the next sweep.
    """
    world = story()
    began = world.now
    world.write(world.ost, ONE, MIB, 7)
    world.one.clients, world.one.boots, world.one.booted = None, 2, began + 60
    world.ost.stop()
    world.sweeps(3)
    world.one.ahead = ahead
    world.ost.start(world.one.wall_ns())
    world.one.begin()
    world.sweeps(2)
    (low, true, high), why = world.asked(began - 1, began + 10)
    assert (0, 7 * MIB, 0) == (low, true, high)
    assert [f"oss1: scratch-OST0000: {RESTARTED}"] == [one for one in why if "OST0000" in one]
    assert [] == [one for one in world.asked(began + lost_s, world.now - 5)[1]
                  if "OST0000" in one]


def test_a_file_that_was_cleared_alone_marks_its_client_alone(story):
    """exports/clear leaves out none, so another file that goes on shows that it was not that."""
    world = story()
    began = world.now
    world.write(world.ost, ONE, MIB, 7)
    world.ost.clear_one(world.one.wall_ns(), ONE)
    cleared = world.now
    world.sweeps(2)
    assert [f"oss1: scratch-OST0000: {RESET}"] == world.asked(began, world.now - 10)[1]
    assert [] == world.asked(began, world.now - 10, OTHER)[1]
    # By its start_time it was lost before this moment.
    assert [] == world.asked(cleared + 1, world.now - 10)[1]


def test_a_smaller_amount_marks_all_clients(story):
    """The agent goes on from an older copy of its state: what it has to count is not certain."""
    world = story()
    path = world.one.spool / "clients.state"
    old = path.read_bytes()
    world.write(world.ost, ONE, MIB, 7)
    world.sweeps(2)
    began = world.now
    path.write_bytes(old)
    world.one.begin()
    world.ost.clear_one(world.one.wall_ns(), ONE)
    world.sweeps(2)
    for nid in (ONE, OTHER):
        assert f"oss1: {WENT_DOWN}" in world.asked(began, world.now - 10, nid)[1]
