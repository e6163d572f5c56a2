"""
Final records of whole sites, by chance: exact or marked, never too high; and not marked where
nothing has happened.  site_world.py has the model; what was played once is in docs/reliability.md.
"""

import os
import random

import job_stats_text
import pytest
from site_world import FAULTS, QUIET, SiteWorld

from iostats.site.resets.gaps import DOUBTFUL

RELEASES = job_stats_text.RELEASES
HISTORIES = int(os.environ.get("IOSTATS_HISTORIES", "6"))       # for each release
AHEAD = (0, 0, 37, -100, 7200)              # of a storage server's clock


def judged(path, release, knows, events, seed):
    """SiteWorld.judged() of one history."""
    chance = random.Random(f"{release} {knows} {seed}")
    world = SiteWorld(path, release, knows, (chance.choice(AHEAD), chance.choice(AHEAD)))
    try:
        return world.play(chance, events, chance.randint(5, 60)).settle().judged()
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
        found = judged(tmp_path / f"{seed}.sqlite", release, knows, FAULTS, seed)
        for job, (numbers, truth, is_marked, notes) in found.items():
            assert all(one <= true for one, true in zip(numbers, truth)), (seed, job, notes)
            assert numbers == truth or is_marked, (seed, job, numbers, truth)
            assert bool(notes) == is_marked


@pytest.mark.parametrize("knows", [True, False], ids=["a batch system", "no batch system"])
@pytest.mark.parametrize("release", RELEASES)
def test_where_nothing_is_lost_a_final_record_is_exact_and_not_marked(release, knows, tmp_path):
    """Pauses, restarts, lost messages; without start_time some returns are in doubt."""
    for seed in range(HISTORIES // 2):
        found = judged(tmp_path / f"{seed}.sqlite", release, knows, QUIET, seed)
        for job, (numbers, truth, is_marked, notes) in found.items():
            if is_marked and release in ("2.5", "2.7", "2.8", "2.12", "2.14", "2.15.0"):
                assert {DOUBTFUL} == {note.partition(": ")[2] for note in notes}
                continue
            assert (truth, []) == (numbers, notes), (seed, job)
