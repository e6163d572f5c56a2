"""What is kept of one mount's llite values."""
from __future__ import annotations

import pytest

from iostats.totals.llite_values import (
    compute_once,
    is_single_value,
    select_operations,
    select_short,
    select_short_names,
)


@pytest.mark.parametrize("values, expected", [
    ({"mknod": 31, "mknod_us": 37, "create": 5, "create_us": 3, "open": 2},
     {"create": 31, "create_us": 37, "open": 2}),
    ({"create": 5}, {"create": 5}),
    ({"mknod": 23}, {"create": 23}),
    ({"open": 2}, {"open": 2}),
], ids=["mknod counts what open creates", "before atomic_open", "mknod alone", "neither"])
def test_files_created_are_the_larger_of_two_counters(values, expected):
    kept = dict(values)
    assert expected == compute_once(values)
    assert kept == values
    assert (len(values.keys() & {"mknod", "create"}) < 2) == is_single_value(values)


def test_bytes_calls_operations_and_their_times_are_stored():
    values = {"read_bytes": 4096, "read_calls": 2, "read": 2, "read_us": 7, "open": 3, "open_us": 5,
              "opencount": 97, "cached_read_bytes": 11, "mknod": 23, "a_new_call": 1}
    assert {"a_new_call": 1, "create": 23, "open": 3, "open_us": 5, "read_bytes": 4096,
            "read_calls": 2, "read_us": 7} == select_short(compute_once(values))
    assert ("open", "open_us", "read_bytes") == select_short_names(
        ("read_bytes", "openclosetime_us", "open_us2", "open", "open_us"))
    assert {"a_new_call": 1, "create": 23, "open": 3} == select_operations(values)
