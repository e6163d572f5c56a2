"""A group's status in etcd: it comes back as it was, is bounded, and nonsense is one line."""
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.base.errors import is_printable
from iostats.events.event import make_event
from iostats_ldms.service.reports import DaemonStatus
from iostats_ldms.status import document
from iostats_ldms.status.document import (
    AGGREGATOR,
    SAMPLER,
    DaemonRow,
    GroupStatus,
    decode_status,
    encode_status,
    make_row,
    select_rows,
)

EVENT = make_event("", "ldms-orion", ("a",), "aggregator_down", 23.0, message="agg-2: refused")
WHOLE = GroupStatus(
    "agg-[1-2]", AGGREGATOR, 1, 37, 1_795_333_379.25, "mgmt1.4711",
    (DaemonRow("agg-1", "up", 23.5, "", 3, True, (), 23, 19, 41, 1.02),
     DaemonRow("agg-2", "down", 29.5, "connection refused", event=EVENT.id)), 0, 0, (EVENT,))


def test_it_comes_back_as_it_was():
    assert WHOLE == decode_status(encode_status(WHOLE))
    assert (2, 1, 1) == (WHOLE.daemons, WHOLE.count("up"), WHOLE.count("down"))


def test_of_samplers_those_that_are_well_are_counted():
    rows = [DaemonRow("node1", "up", as_described=True), DaemonRow("node2", "down"),
            DaemonRow("node3", "up", wrong=("no plugin meminfo1",))]
    assert ((rows[1], rows[2]), 1, 0) == select_rows(rows, SAMPLER)
    assert (tuple(rows), 0, 0) == select_rows(rows, AGGREGATOR)


def test_of_too_many_those_that_are_down_are_listed(monkeypatch):
    monkeypatch.setattr(document, "MOST_ROWS", 3)
    rows = [DaemonRow(f"node{number}", "down" if number in (7, 11) else "up")
            for number in range(23)]
    kept, well, unlisted = select_rows(rows, SAMPLER)
    assert (["node0", "node7", "node11"], 0, 20) == ([row.name for row in kept], well, unlisted)


def test_what_is_too_long_for_etcd_loses_rows_not_its_counts(monkeypatch):
    monkeypatch.setattr(document, "LONGEST", 400)
    rows = tuple(DaemonRow(f"node{number}", "down", number * 7.0, f"why {number * number}")
                 for number in range(100))
    data = encode_status(GroupStatus("node[0-99]", SAMPLER, rows=rows, events=(EVENT,) * 20))
    assert len(data) <= 400
    assert 100 == decode_status(data).daemons and decode_status(data).unlisted > 0


@pytest.mark.parametrize("text, message", [
    (b"[]", "Expected `object`, got `array`"),
    (b'{"group": "a"}', "Object missing required field `role`"),
    (b'{"group": "a", "role": "king"}', "Expected `str` matching regex"),
    (b'{"group": "a", "role": "sampler", "well": -1}', "Expected `int` >= 0 - at `$.well`"),
    (b'{"group": "a", "role": "sampler", "events": [23]}', "an event: expected an object, got 23"),
    (b"\xff", "JSON is malformed: invalid character"),
], ids=["a list", "half of one", "no role of ours", "fewer than none", "no event", "no JSON"])
def test_nonsense_is_one_line(text, message):
    with pytest.raises(ValueError, match=r"expected (zlib|a whole)"):
        decode_status(text)
    with pytest.raises(ValueError) as refusal:
        decode_status(zlib.compress(text))
    assert str(refusal.value).startswith(message)


def test_a_bomb_is_refused():
    with pytest.raises(ValueError, match="expected a whole text of up to 16000000 bytes"):
        decode_status(zlib.compress(b" " * 17_000_000 + b"{}"))


@given(st.one_of(st.binary(max_size=60), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["group", "role", "rows", "events", "name", "state", "why"]), inner,
        max_size=4), max_leaves=12).map(lambda value: zlib.compress(json.dumps(value).encode()))))
def test_whatever_is_there_is_a_status_or_one_line(data):
    try:
        decode_status(data)
    except ValueError as error:
        assert is_printable(str(error)) and len(str(error)) <= 400


@given(st.text(max_size=400), st.text(max_size=400))
def test_texts_of_daemons_are_fit_for_a_terminal(why, wrong):
    row = make_row(DaemonStatus("a\x1b[2J", "g", "sampler", "half", 1.0, why, wrong=(wrong,) * 9),
                   2.0,
                 0, "")
    assert "a\\x1b[2J" == row.name and "unknown" == row.state
    assert all(is_printable(text) and len(text) <= 300 for text in (row.why, *row.wrong))
    assert 5 == len(row.wrong)
    assert row == decode_status(encode_status(GroupStatus("g", SAMPLER, rows=(row,)))).rows[0]
