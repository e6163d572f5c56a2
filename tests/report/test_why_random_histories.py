"""
Hundreds of random histories with a cause that was planted, and hundreds without one.

The histories come from a queueing model (tests/queueing_world.py) that knows nothing of the rule.
IOSTATS_WHY_SEEDS="20000 20250" looks at 250 others of each kind, for docs/explanation/why.md.
"""
from __future__ import annotations

import os

import pytest
import queueing_world as world

from iostats.base import config
from iostats.report.why.causes import find_causes

CONFIG = config.Config()
SEEDS = range(*map(int, os.environ.get("IOSTATS_WHY_SEEDS", "0 25").split()))
NAMED = {"fault", "busy_target", "slow_target", "own_pattern"}


def first_is_right(one):
    """Whether the cause that was planted is named first, with its target and its job."""
    causes = find_causes(*world.asked(one), CONFIG)
    if not causes or causes[0].kind != one.expected:
        return False
    if one.expected in ("busy_target", "slow_target"):
        about = causes[0].about
        return about["target"] in one.target and (one.job is None or about["job"] == one.job)
    return True


def names_one(one):
    return bool(NAMED & {cause.kind for cause in find_causes(*world.asked(one), CONFIG)})


def test_the_right_cause_is_first_in_95_of_100():
    right = {kind.__name__: sum(first_is_right(world.made(kind, seed)) for seed in SEEDS)
             for kind in world.PLANTED}
    print(right)
    assert sum(right.values()) >= 0.95 * len(SEEDS) * len(right), right
    assert min(right.values()) >= 0.9 * len(SEEDS), right


def test_no_cause_is_named_where_none_was_planted_in_99_of_100():
    named = {kind.__name__: sum(names_one(world.made(kind, seed)) for seed in SEEDS)
             for kind in world.NONE}
    print(named)
    assert sum(named.values()) <= 0.01 * len(SEEDS) * len(named), named


@pytest.mark.parametrize("kind", world.PLANTED, ids=lambda kind: kind.__name__)
def test_without_what_was_planted_it_is_not_named(kind):
    """The same worlds, and the neighbour, the outage or the slow disk taken out of the answer."""
    one = world.made(kind, 3)
    lines = [*one.history["file_systems"], *one.history["targets"]]
    for found in lines:
        found["all"] = found["job"]                         # no other job was there
        found.pop("others", None)
    history = {**one.history, "targets": [{**found, "others": []}
                                          for found in one.history["targets"]]}
    causes = find_causes(*world.asked(one._replace(history=history, record=one.record.replaced(
        events=[]))), CONFIG)
    assert not {"busy_target", "fault"} & {cause.kind for cause in causes}
