"""
What a cell of `iostats nodes` says: bounds, what is not known, notes; and tables of any width.
"""
from __future__ import annotations

import pytest

from iostats.report import listing, node_list
from iostats.report.listing import NumberForm

TIB = 1 << 40


def row(node="nid001", low=23, at_most=(), lower_bound=False, notes=(), **fields):
    return {"node": node, "nids": ["10.0.0.1@o2ib"], "nid_count": 1, "file_systems": ["scratch"],
            **dict.fromkeys(node_list.METRICS, low),
            "at_most": None if lower_bound else dict(at_most), "lower_bound": lower_bound,
            "notes": list(notes), **fields}


def text(one, name, **how):
    return node_list.format_cell(one, node_list.TABLE.find_field(name, ""), NumberForm(**how))


@pytest.mark.parametrize("low, high, how, shown", [
    (12 * TIB // 10, 14 * TIB // 10, {}, "1.2-1.4 TiB"), (23, 23, {}, "23 bytes"),
    (12 * TIB // 10, 12 * TIB // 10 + 1, {}, "1.2 TiB"), (0, 37, {}, "0-37 bytes"),
    (1000, 1 << 20, {}, "1,000 bytes-1.0 MiB"),
    (41_003, 53_007, {"raw": True}, "41003-53007"),
    (41_003, 53_007, {"unit": "M"}, "0.04-0.05 MiB"),
    (41_003, 53_007, {"units": "decimal"}, "41.0-53.0 kB")])
def test_two_bounds_stand_in_one_cell_where_they_differ(low, high, how, shown):
    one = row(low=low, at_most={"read_bytes": high} if high != low else {})
    assert shown == text(one, "ReadBytes", **how)


def test_a_lower_bound_has_no_upper_one():
    assert ">= 23 bytes" == text(row(lower_bound=True), "ReadBytes")
    assert ">= 23" == text(row(lower_bound=True), "Reads")
    assert "1" == text(row(lower_bound=True), "NNIDs")
    assert "yes" == text(row(lower_bound=True), "LowerBound")


def test_what_is_not_known_is_a_dash_and_nothing_is_0():
    assert "-" == text(row(low=None), "ReadBytes") and "0 bytes" == text(row(low=0), "ReadBytes")
    assert "-" == text(row(), "Note") and "a; b" == text(row(notes=["a", "b"]), "Note")


def test_each_reason_is_one_note_with_its_first_nodes():
    rows = [row(f"nid{number}", lower_bound=True, notes=["oss1: its counters began again"])
            for number in range(7)]
    reason = "note: oss1: its counters began again: lower bounds (>=) of"
    assert [f"{reason} all nodes"] == list(node_list.list_notes(rows, None))
    assert [f"{reason} nid0, nid1, nid2, nid3, nid4 and 2 more"] == list(
        node_list.list_notes([*rows, row("nid9")], None))
    assert ["note: nid9: no such node"] == list(node_list.list_notes(
        [row("nid9", low=None, notes=["no such node"])], None))
    assert [] == list(node_list.list_notes([row()], None))


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_narrow_terminal_leaves_out_columns_and_no_digits(width):
    rows = [row("nid00017", low=12 * TIB // 10, at_most={"read_bytes": 14 * TIB // 10})]
    columns = node_list.TABLE.parse_columns(node_list.DEFAULT)
    found, without = listing.fit_columns(
        rows, columns, node_list.make_formatter(NumberForm()), width, node_list.DISPENSABLE)
    assert len(found) + len(without) == len(columns)
    lines = list(listing.format_table(rows, found, node_list.make_formatter(NumberForm())))
    assert "1.2-1.4 TiB" in lines[-1] and "nid00017" in lines[-1]
    assert width < 80 or max(map(len, lines)) <= width + 1
