"""Which groups an instance takes and gives away: all have an owner, each its share, few move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats_ldms.balance import GroupShare, share_groups

THREE = {"samplers": 30_000, "level-1": 23, "level-2": 2}


@pytest.mark.parametrize("me, instances, owners, expected", [
    ("a", ["a"], {}, GroupShare(["samplers", "level-1", "level-2"], [])),
    ("a", ["a", "b", "c"], dict.fromkeys(THREE, "a"), GroupShare([], ["level-2", "level-1"])),
    ("b", ["a", "b", "c"], dict.fromkeys(THREE, "a"), GroupShare([], [])),
    ("b", ["a", "b", "c"], {"samplers": "a"}, GroupShare(["level-1"], [])),
    ("c", ["a", "b", "c"], {"samplers": "a"}, GroupShare(["level-2"], [])),
    ("b", ["a", "b"], {"samplers": "a", "level-1": "a", "level-2": "gone"}, GroupShare([], [])),
    ("b", ["a", "b"], {"samplers": "a", "level-1": "a"}, GroupShare(["level-2"], [])),
    ("a", ["a"], {**dict.fromkeys(THREE, "a"), "old": "a"}, GroupShare([], ["old"])),
    ("a", ["b"], {"samplers": "a"}, GroupShare([], [])),
    ("a", ["a", "b", "c", "d"], {"samplers": "b", "level-1": "c", "level-2": "d"},
     GroupShare([], [])),
], ids=["alone", "two more came: the smallest go", "not before they are free", "the next largest",
        "the last", "one that is gone has it still", "the larger part stays", "no group any more",
        "not one of them", "more instances than groups"])
def test_what_an_instance_takes_and_gives_away(me, instances, owners, expected):
    assert expected == share_groups(me, THREE, instances, owners)


NAMES = st.sampled_from([f"i{number}" for number in range(6)])


@given(st.dictionaries(st.text(max_size=4), st.integers(0, 99), max_size=12),
       st.lists(st.tuples(NAMES, st.booleans()), max_size=12), st.randoms())
def test_however_instances_come_and_go_all_groups_have_one_owner_and_each_its_share(
        groups, walk, random):
    """One acts at a time, in any order; each change takes at most two rounds, and few move."""
    there, owners = {"i0"}, {}
    for name, comes in [("i0", True), *walk]:
        if comes:
            there.add(name)
        elif len(there) > 1:
            there.discard(name)
            owners = {group: owner for group, owner in owners.items() if owner != name}
        moved = 0
        for _ in range(3):
            before = dict(owners)
            for one in random.sample(sorted(there), len(there)):
                share = share_groups(one, groups, there, owners)
                assert set() == set(share.take) & set(owners)
                for group in share.give:
                    assert one == owners.pop(group)
                    moved += 1
                owners.update(dict.fromkeys(share.take, one))
            if before == owners:
                break
        counts = [sum(owner == one for owner in owners.values()) for one in there]
        assert set(groups) == set(owners)
        assert max(counts) - min(counts) <= 1
        assert moved <= -(-len(groups) // len(there)) * (1 if comes else 0) or not comes
