"""
The types of `sweep`: what has been decoded can be put into arrays without another look, and what
cannot is refused with what was expected.
"""

import json

import msgspec
import pytest

from iostats.wire.messages.sweep_json import JsonBlock, JsonColumn, JsonSweep

COLUMN = {"unit": "bytes", "at": [0, 2], "samples": [23, 37], "sum": [41, 2**64 - 1]}
BLOCK = {"file_system": "scratch", "target": "OST000a", "read_at": 1_795_225_060.5, "ended": True,
         "ids": ["4711", "cp.0", ""], "started": [0, 0, 0], "seen": [23, 37, 41],
         "counters": {"read_bytes": COLUMN}, "gone": ["4712"], "entries": 3}


def decoded(kind, value):
    return msgspec.json.decode(json.dumps(value), type=kind)


def test_a_block_is_read_as_it_was_sent():
    block = decoded(JsonBlock, BLOCK)
    assert (["4711", "cp.0", ""], [23, 37, 41], ["4712"]) == (block.ids, block.seen, block.gone)
    column = block.counters["read_bytes"]
    assert ([0, 2], [23, 37], [41, 2**64 - 1], None) == (column.at, column.samples, column.sum,
                                                         column.min)


@pytest.mark.parametrize("altered, said", [
    ({"samples": [23]}, "expected lists as long as `at`, 2, got 1"),
    ({"sumsq": [1, 2, 3]}, "expected lists as long as `at`, 2, got 3"),
    ({"sum": [0, 2**64]}, "expected numbers of at most 64 bits, got 18446744073709551616"),
    ({"at": [2, 2]}, "expected every row once in `at`"),
    ({"samples": [23, 0]}, ">= 1"), ({"at": [0, -1]}, ">= 0"), ({"unit": "b s"}, "regex"),
])
def test_a_counter_that_fits_in_no_array_is_refused(altered, said):
    with pytest.raises(msgspec.ValidationError) as caught:
        decoded(JsonColumn, {**COLUMN, **altered})
    assert said in str(caught.value)


@pytest.mark.parametrize("altered, said", [
    ({"seen": [23, 37]}, "expected lists as long as `ids`, 3, got 3 and 2"),
    ({"started": []}, "expected lists as long as `ids`, 3, got 0 and 3"),
    ({"ids": ["4711", "cp.0", "4711"]}, "expected every id once in a block"),
    ({"gone": ["4712", "4712"]}, "expected every id once in a block"),
    ({"counters": {"read_bytes": {**COLUMN, "at": [0, 3]}}},
     "read_bytes: expected rows below 3, got 3"),
    ({"unreadable": "permission denied"}, "expected no ids of a file that could not be read"),
    ({"ended": False}, "expected `gone` in the last block of a reading"),
    ({"target": "../etc"}, "regex"), ({"file_system": ""}, "regex"),
])
def test_a_block_that_contradicts_itself_is_refused(altered, said):
    with pytest.raises(msgspec.ValidationError) as caught:
        decoded(JsonBlock, {**BLOCK, **altered})
    assert said in str(caught.value)


def test_a_file_that_could_not_be_read_has_a_block_without_ids():
    block = decoded(JsonBlock, {"file_system": "scratch", "target": "MDT0000", "read_at": 23.0,
                            "ended": True, "unreadable": "permission denied"})
    assert ("permission denied", [], {}, []) == (block.unreadable, block.ids, block.counters,
                                                 block.gone)


@pytest.mark.parametrize("altered", [
    {"run": "0123456789ABCDEF"}, {"run": "0123456789abcdef\n"}, {"seq": 0}, {"every": 0},
    {"slot": -1}, {"clock_ahead_s": 1e13}, {"node": "n" * 254}])
def test_a_message_is_refused_when_its_head_cannot_be(altered):
    message = {"protocol": 1, "node": "oss1", "run": "0123456789abcdef", "seq": 1, "full": True,
               "slot": 1_795_225_060, "every": 10, "last": True, "targets": [BLOCK]}
    assert "scratch" == decoded(JsonSweep, message).targets[0].file_system
    with pytest.raises(msgspec.ValidationError):
        decoded(JsonSweep, {**message, **altered})
