"""
Final records of whole sites, by chance: exact or marked, never too high; and not marked where
nothing has happened.  site_world.py has the model; what was played once is in
docs/explanation/reliability.md.
"""

import os
import random
from unittest import mock

import job_stats_text
import pytest
from site_world import FAULTS, NUMBERS, QUIET, SiteWorld
from storage_servers_world import EVERY_S, HARMLESS, ServersWorld
from storage_servers_world import FAULTS as SERVERS_FAULTS

from iostats.harvest.resets.gaps import DOUBTFUL

RELEASES = job_stats_text.RELEASES
HISTORIES = int(os.environ.get("IOSTATS_HISTORIES", "6"))       # for each release
AHEAD = (0, 0, 37, -100, 7200)              # of a storage server's clock


def judged(path, release, knows, events, seed):
    """(SiteWorld.judged() of one history, the jobs that did I/O)."""
    chance = random.Random(f"{release} {knows} {seed}")
    world = SiteWorld(path, release, knows, (chance.choice(AHEAD), chance.choice(AHEAD)))
    try:
        found = world.play(chance, events, chance.randint(5, 60)).settle().judged()
        return found, NUMBERS & set(world.first)
    finally:
        world.close()


@pytest.mark.parametrize("knows", [True, False], ids=["a batch system", "no batch system"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_final_record_is_exact_or_marked_and_never_too_high(release, knows, tmp_path):
    """
    Clears, reboots, failovers, agents that are dead for longer than entries live, clocks that are
    set, a server of the site that is killed at any time; 4711 and "4711" side by side.
    """
    for seed in range(HISTORIES):
        found, _ = judged(tmp_path / f"{seed}.sqlite", release, knows, FAULTS, seed)
        for job, (numbers, truth, is_marked, notes) in found.items():
            assert all(one <= true for one, true in zip(numbers, truth)), (seed, job, notes)
            assert numbers == truth or is_marked, (seed, job, numbers, truth)
            assert bool(notes) == is_marked


@pytest.mark.parametrize("knows", [True, False], ids=["a batch system", "no batch system"])
@pytest.mark.parametrize("release", RELEASES)
def test_where_nothing_is_lost_a_final_record_is_exact_and_not_marked(release, knows, tmp_path):
    """Pauses, restarts, lost messages; without start_time some returns are in doubt."""
    for seed in range(HISTORIES // 2):
        found, jobs = judged(tmp_path / f"{seed}.sqlite", release, knows, QUIET, seed)
        assert jobs == set(found), seed
        for job, (numbers, truth, is_marked, notes) in found.items():
            if is_marked and release in ("2.5", "2.7", "2.8", "2.12", "2.14", "2.15.0"):
                assert {DOUBTFUL} == {note.partition(": ")[2] for note in notes}
                continue
            assert (truth, []) == (numbers, notes), (seed, job)


@pytest.mark.parametrize("release, how", [
    ("2.12", "unmounted"), ("2.12", "agent"), ("2.15.2", "unmounted"), ("2.15.2", "agent"),
    ("2.15.2", "cut")])
def test_a_target_that_cannot_be_read_when_its_chain_begins_has_lost_its_entries(release, how,
                                                                                  tmp_path):
    """
    The next reading of it has all entries: that 4712's is not there proves that the target was
    restarted, also where its `instance` is not shown.  4711 had 100 of 1,100 MiB, final and
    unmarked.
    """
    with ServersWorld(tmp_path, release, knows=False, has_witness=False) as world:
        target, *_ = world.targets
        target.shows_instance = False
        world.wait(EVERY_S - 10)
        world.work("4712", target, 23)
        world.wait(20)
        world.work("4711", target, 41)
        machine = target.on
        world.unmount(target)
        if how == "unmounted":
            world.wait(EVERY_S)
        world.mount(target, machine)
        if how != "unmounted":
            world.start_agent(machine)
        world.work("4711", target, 37)
        target.unreadable, target.cut = int(how != "cut"), how == "cut"
        world.wait(EVERY_S)
        found = {one[0]: one[2:] for one in world.settle(random.Random(3)).judged()}
    numbers, true, _, is_marked, _ = found["4711"]
    assert ([37 * 4096, 78 * 4096], True) == ([sum(numbers), sum(true)], is_marked)


def test_a_target_that_moves_away_and_back_between_two_sweeps_has_lost_its_entries(tmp_path):
    """
    All of them were made since the last sweep, and no agent has read it on the other server: its
    `instance` alone shows it.  4711 had 0 of 41 x 4096 bytes on home, final and unmarked.
    """
    with ServersWorld(tmp_path, "2.12", knows=True, has_witness=False) as world:
        scratch, *_, home = world.targets
        world.runs["4711"].append([world.now, None])
        world.work("4711", scratch, 23)
        world.wait(EVERY_S)
        world.work("4711", home, 41)
        machine = home.on
        for other in (home.other_host(machine), machine):
            world.unmount(home)
            world.mount(home, other)
        world.wait(EVERY_S)
        found = {one[1]: one[2:6] for one in world.settle(random.Random(3)).judged()}
    assert ([0, 0, 0], [0, 41 * 4096, 0], [0, 41 * 4096, 0], True) == found["home"]
    assert ([0, 23 * 4096, 0], False) == (found["scratch"][0], found["scratch"][3])


SERVERS_HISTORIES = int(os.environ.get("IOSTATS_HISTORIES", "2"))
FOUND = {("2.8", True): (23285,)}               # {(release, knows): seeds}, once too high


def played(path, release, knows, events, seed):
    """A ServersWorld after one history; to be closed."""
    chance = random.Random(f"{release} {knows} {seed}")
    world = ServersWorld(path, release, knows, [chance.choice(AHEAD) for _ in range(3)])
    return world.play(chance, chance.randint(5, 45), events).settle(
        chance, may_lose=events is not HARMLESS)


@pytest.mark.parametrize("knows", [True, False], ids=["a batch system", "no batch system"])
@pytest.mark.parametrize("release", RELEASES)
def test_what_agents_read_becomes_records_that_are_exact_or_marked(release, knows, tmp_path):
    """
    Failover, crashes, boots with a wrong clock, targets that cannot be read in any sweep, machines
    without an agent, jobs that are requeued and that return after they were settled.
    """
    for seed in (*range(SERVERS_HISTORIES), *FOUND.get((release, knows), ())):
        with played(tmp_path / str(seed), release, knows, SERVERS_FAULTS, seed) as world:
            assert [] == world.wrong(), (seed, *world.log)


@pytest.mark.parametrize("knows", [True, False], ids=["a batch system", "no batch system"])
@pytest.mark.parametrize("release", ["2.15.2", "2.16", "2.17"])
def test_what_agents_read_is_exact_and_not_marked_where_nothing_is_lost(release, knows, tmp_path):
    """Jobs that end, are requeued and return; agents and site's servers that are killed."""
    for seed in range(SERVERS_HISTORIES):
        with played(tmp_path / str(seed), release, knows, HARMLESS, seed) as world:
            judgements = world.judged()
            assert [] == [one for one in judgements if one[5] or one[2] != one[3]], (
                seed, *world.log)
            assert {job for job, done in world.done.items() if done} == {
                job for job, *_ in judgements}, (seed, *world.log)


@pytest.mark.parametrize("may_lose, operations, is_marked", [(False, 37, False), (True, 0, True)])
def test_the_metadata_server_is_disconnected_when_a_job_ends(may_lose, operations, is_marked,
                                                             tmp_path):
    """
    It delivers later what its agent has read, or never: then all is marked.  In seed 9 of 2.16 with
    a batch system it never did, although nothing was to be lost: 0 of 19 operations.
    """
    with ServersWorld(tmp_path, "2.16", knows=True) as world:
        ost, _, mdt, _ = world.targets
        world.runs["4711"].append([world.now, None])
        world.work("4711", ost, 41)
        world.wait(EVERY_S)
        mdt.on.is_away = True
        world.work("4711", mdt, 23, times=37)
        [judgement] = world.settle(mock.Mock(random=lambda: 0.97), may_lose).judged()
    assert ([0, 41 * 4096, operations], [0, 41 * 4096, 37], is_marked) == (
        judgement[2], judgement[3], judgement[5])
