"""What a counter becomes, and which counters count operations."""
from __future__ import annotations

import pytest

from iostats.lustre.metric_meanings import METRICS, OPERATIONS
from iostats.lustre.metrics import (
    LOCAL_MD_STATS,
    MADE_OF,
    NOT_OPERATIONS,
    SINGLE_OPERATIONS,
    count_all_operations,
    is_call,
    is_counted_again,
    is_operation,
    is_transfer,
    read_metrics,
)


@pytest.mark.parametrize("name, is_one, is_shown", [
    ("open", True, True), ("rename", True, True), ("a_new_call", True, True),
    ("samedir_rename", False, True), ("read", False, False), ("write_bytes", False, False),
    ("opencount", False, False), ("open_us", False, False), ("open_us2", False, False),
    ("read_rpcs", False, False), ("read_calls", False, False), ("a_new_bytes", False, False)])
def test_what_is_an_operation(name, is_one, is_shown):
    """Calls and requests that are no reads or writes, each once; amounts are none."""
    assert (is_one, is_shown) == (is_operation(name), is_call(name))


def test_reads_and_writes_are_apart_and_kinds_of_renames_are_counted_again():
    assert ["read", "read_bytes", "write", "write_bytes"] == sorted(
        filter(is_transfer, NOT_OPERATIONS))
    assert all("rename" in name for name in filter(is_counted_again, NOT_OPERATIONS))


@pytest.mark.parametrize("name, unit, total, squares, expected", [
    ("open", "regs", None, None, {"open": 23}),
    ("open", "usecs", 61403, None, {"open": 23, "open_us": 61403}),
    ("open", "usecs", 61403, 402653184, {"open": 23, "open_us": 61403, "open_us2": 402653184}),
    ("read_bytes", "bytes", 4096, None, {"read_bytes": 4096, "read_calls": 23}),
    ("read_bytes", "bytes", None, None, {"read_calls": 23}),
    ("depth", "reqs", 37, None, {"depth": 23}),
    ("depth", "pages", 37, None, {"depth": 23, "depth_sum": 37})],
    ids=["a count", "timed", "with squares", "bytes", "bytes that cannot be trusted",
         "a sum of depths", "another unit"])
def test_a_counter_becomes_metrics_by_its_unit(name, unit, total, squares, expected):
    assert expected == read_metrics(name, unit, 23, total, "_calls", squares)


def test_the_tables_agree():
    """
    Each operation of the tables is one, has a line in docs/reference/counters.md, and none twice.
    """
    assert len(set(OPERATIONS)) == len(OPERATIONS)
    assert set(OPERATIONS) <= {metric.name for metric in METRICS}
    assert all(map(is_operation, (*OPERATIONS, *SINGLE_OPERATIONS)))
    assert set(MADE_OF) <= set(OPERATIONS)
    assert not LOCAL_MD_STATS & set(SINGLE_OPERATIONS)


def test_the_rows_of_a_record_are_added_up_without_what_is_counted_again():
    assert 60 == count_all_operations({"open": {"count": 37}, "rename": {"count": 23},
                                       "samedir_rename": {"count": 23}})
