"""The capacity of a target: what is used, available, and too little."""
from __future__ import annotations

import pytest

from iostats.lustre.capacity import (
    BYTES,
    INODES,
    Capacity,
    compute_used,
    compute_used_percent,
    get_available,
    is_full,
)

# As an OST of 4 GB with ldiskfs shows it (2.14): 64 MiB are reserved.
AN_OST = Capacity(4_108_388 << 10, 4_106_852 << 10, 4_038_040 << 10, 40_960, 40_592)


def test_used_is_what_is_not_free_and_reserved_blocks_are_not_available():
    assert (1536 << 10, 4_038_040 << 10) == (compute_used(AN_OST, BYTES),
                                             get_available(AN_OST, BYTES))
    assert (368, 40_592) == (compute_used(AN_OST, INODES), get_available(AN_OST, INODES))


@pytest.mark.parametrize("capacity, space, inodes", [
    (Capacity(1000, 770, 770, 100, 63), 23.0, 37.0),
    (Capacity(1000, 100, 0, 100, 0), 100.0, 100.0),
    (Capacity(0, 0, 0, 0, 0), 0.0, 0.0),
    (Capacity(1000, 1001, 1001, 100, 101), 0.0, 0.0),
], ids=["some", "all but the reserved", "not mounted", "freed between two of its files"])
def test_the_share_that_is_used(capacity, space, inodes):
    assert (space, inodes) == (compute_used_percent(capacity, BYTES),
                               compute_used_percent(capacity, INODES))


@pytest.mark.parametrize("capacity, space, inodes", [
    (Capacity(41_000, 999, 41, 9999, 32), False, False),
    (Capacity(41_000, 999, 40, 9999, 31), True, True),
    (Capacity(0, 0, 0, 0, 0), False, False),
], ids=["at the minimum", "below it", "not mounted"])
def test_full_is_less_than_an_mds_leaves(capacity, space, inodes):
    assert (space, inodes) == (is_full(capacity, BYTES), is_full(capacity, INODES))
