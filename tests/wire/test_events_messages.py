"""Messages of events: what agents encode is decoded, and anything else is one clear error."""
from __future__ import annotations

import json
import tracemalloc
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats.wire.messages.clients_encoder import find_method
from iostats.wire.messages.events import ServerStatus, decode_events, decode_events_in_steps
from iostats.wire.messages.events_encoder import LONGEST, MAGIC, MOST_EVENTS, encode_events
from iostats.wire.messages.sweep_decoder import PackedSweep

HEAD = {"node": "oss1", "boot_id": "b" * 32, "seq": 23, "made": 1_795_333_430.5, "ahead_s": 0.25,
        "every": 10}
STATUS = {"health": "healthy", "targets": {
    "scratch-OST0003": {"state": "up", "clients": 37},
    "scratch-OST0004": {"state": "down", "clients": None}},
    "log": {"source": "kmsg", "why": "", "lines": 41, "lost": 0}}
EVENT = {"id": "0123456789abcdef", "time": 1_795_333_422.5, "last": 1_795_333_423.5, "over": None,
         "severity": 2, "kind": "evicted", "cause": "silent", "node": "oss1",
         "file_system": "scratch", "target": "scratch-OST0003", "clients": ["10.0.0.12@tcp"],
         "count": 1, "skipped": 0, "message": "haven't heard from client"}


def decoded(message, most=1 << 24, ahead_s=5.0):
    return decode_events(PackedSweep(2, message, ahead_s), most)


def message(**fields):
    head = {"protocol": 1, **HEAD, "events": [EVENT], "dropped": 0, "status": STATUS, **fields}
    return zlib.compress(MAGIC + json.dumps(head).encode(), 1)


_events = st.lists(st.builds(
    lambda number, time, text, count: {**EVENT, "id": f"{number:016x}", "time": time, "last": time,
                                       "message": text, "count": count},
    st.integers(0, 2**64 - 1), st.floats(0, 1e10), st.text(max_size=80), st.integers(0, 2**53)),
    max_size=30)


@given(_events, st.integers(0, 2**40))
def test_what_an_agent_encodes_is_decoded(events, dropped):
    [(packed, count)] = encode_events({**HEAD, "ahead_s": 0.0}, events, STATUS, dropped)
    assert len(events) == count and "packed_events" == find_method(packed)
    taken = decoded(packed)
    assert ("oss1", "b" * 32, 23, 10, dropped) == (
        taken.head.node, taken.head.boot_id, taken.head.seq, taken.head.every_s, taken.head.dropped)
    assert [(one["id"], one["time"], one["count"]) for one in events] == [
        (one.id, one.time, one.count) for one in taken.events]
    assert STATUS == msgspec.to_builtins(taken.head.status)
    assert all(one.message.isprintable() for one in taken.events)


def test_a_long_message_is_decoded_in_steps_and_a_wrong_one_refused_in_the_first():
    """Between two steps the server answers others."""
    some = [{**EVENT, "id": f"{number:016x}"} for number in range(1000)]
    steps = decode_events_in_steps(PackedSweep(2, message(events=some), 5.0), 1 << 24)
    for _ in range(3):
        assert next(steps) is None
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert [one["id"] for one in some] == [one.id for one in end.value.value.events]
    with pytest.raises(ValueError, match="expected protocol 1, got 37"):
        next(decode_events_in_steps(PackedSweep(2, message(events=some, protocol=37), 5.0),
                                    1 << 24))


def test_times_are_the_servers():
    """By what the agent knew when it made the message; else by what it knows when it sends it."""
    taken = decoded(message())
    assert (1_795_333_430.25, 1_795_333_422.25, 1_795_333_423.25, None) == (
        taken.made, taken.events[0].time, taken.events[0].last, taken.events[0].over)
    assert 1_795_333_417.5 == decoded(message(ahead_s=None)).events[0].time


def test_more_than_fit_are_several_messages():
    """The status and what was dropped stand in the last one alone."""
    events = [{**EVENT, "id": f"{number:016x}"} for number in range(2 * MOST_EVENTS + 37)]
    found = list(encode_events(HEAD, events, STATUS, 41))
    assert [MOST_EVENTS, MOST_EVENTS, 37] == [count for _, count in found]
    heads = [decoded(packed).head for packed, _ in found]
    assert [(23, 0, None), (24, 0, None), (25, 41, msgspec.convert(STATUS, ServerStatus))] == [
        (one.seq, one.dropped, one.status) for one in heads]
    assert [one["id"] for one in events] == [one.id for head in heads for one in head.events]


def test_long_events_are_several_messages():
    events = [{**EVENT, "clients": [f"{at:0250d}" for at in range(8)], "message": "x" * 500,
               "id": f"{number:016x}"} for number in range(900)]
    found = [packed for packed, _ in encode_events(HEAD, events, None)]
    assert 3 == len(found)
    assert all(len(zlib.decompress(one)) < LONGEST + 10_000 for one in found)


def test_nothing_to_tell_is_one_message():
    [(packed, count)] = encode_events(HEAD, [], STATUS)
    assert 0 == count and [] == decoded(packed).events


@pytest.mark.parametrize("fields, says", [
    ({"protocol": 2}, "expected protocol 1, got 2; use one release"),
    ({"node": ""}, "length >= 1"),
    ({"boot_id": "b\x1b"}, "matching regex"),
    ({"every": 0}, "> 0"),
    ({"made": 1e300}, "<= 1"),
    ({"events": [EVENT] * (MOST_EVENTS + 1)}, "length <= 1000"),
    ({"events": [{**EVENT, "id": "0123456789ABCDEF"}]}, "matching regex"),
    ({"events": [{**EVENT, "clients": ["x"] * 9}]}, "length <= 8"),
    ({"events": [{**EVENT, "time": 1e13}]}, "<= 1"),
    ({"events": [{**EVENT, "message": "x" * 501}]}, "length <= 500"),
    ({"status": {"targets": {"scratch OST": {"state": "up"}}}}, "matching regex"),
    ({"status": {"targets": {"scratch-OST0003": {"state": "fine"}}}}, "Invalid enum value 'fine'"),
    ({"status": {"log": {"source": "kmsg", "lost": -1}}}, ">= 0"),
])
def test_what_is_refused(fields, says):
    with pytest.raises((ValueError, msgspec.MsgspecError), match=says) as error:
        decoded(message(**fields))
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("data, says", [
    (b"", "a part of one"),
    (b"\0" * 40, "expected a whole compressed sweep"),
    (zlib.compress(b"iostats sweep 2\n{}"), "expected 'iostats events 1"),
    (message() + b"x", "got more"),
    (message()[:-5], "a part of one"),
    (zlib.compress(MAGIC), "Input data was truncated"),
    (zlib.compress(MAGIC + b"[" * 100_000), "."),
], ids=["empty", "no zlib", "another message", "more", "cut", "no head", "deep"])
def test_damaged_bytes(data, says):
    with pytest.raises((ValueError, msgspec.MsgspecError, RecursionError), match=says):
        decoded(data)


def test_a_bomb_is_not_inflated():
    bomb = zlib.compress(MAGIC + b" " * (64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="at most 65536 bytes"):
            decoded(bomb, most=1 << 16)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_what_a_terminal_would_obey_is_made_visible():
    [one] = decoded(message(events=[{**EVENT, "message": "a\x1b[2J\nb", "kind": "other\x07",
                                     "clients": ["x\u202ey"], "target": "OST\r1"}])).events
    assert ("a\\x1b[2J\\x0ab", "other\\x07", ["x\\x202ey"], "OST\\x0d1") == (
        one.message, one.kind, one.clients, one.target)


def test_another_storage_servers_events_are_its_own():
    """A storage server can tell of itself alone."""
    [one] = decoded(message(events=[{**EVENT, "node": "oss2"}])).events
    assert "oss1" == one.node
