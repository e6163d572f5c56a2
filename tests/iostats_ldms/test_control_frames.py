"""
Messages of LDMS' protocol that are cut short or wrong are told; what was written is read again.
"""
from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostats_ldms.control import frames


@pytest.mark.parametrize("read, data, words", [
    (frames.extract_data, b"\0\0", "a frame without its length"),
    (frames.extract_data, struct.pack("!I", 23) + bytes(22), "22 bytes, of which 23 are data"),
    (frames.parse_connect, bytes(15), "not of LDMS' transport sock"),
    (frames.parse_connect, b"\1\3\1\0SOCKAT\0\0" + bytes(4), "not of LDMS' transport sock"),
    (frames.parse_greeting, b"\4\2\0", "a greeting without its version"),
    (frames.parse_message, bytes(15), "a message of 15 bytes"),
    (frames.parse_directory_reply, bytes(15), "a part of a directory without its beginning"),
    (frames.parse_record, bytes(23), "a record of 23 bytes"),
    (frames.parse_record, struct.pack("!IIIIII", 0xfffffffe, 2, 3, 1, 0, 24), "expected a record"),
    (frames.parse_record, struct.pack("!IIIIII", 0xffffffff, 2, 3, 1, 0, 25), "expected a record"),
    (frames.parse_record, struct.pack("!IIIIII", 0xffffffff, 2, 3, 1, 0, 23), "expected a record"),
    (frames.parse_attributes, struct.pack("!II", 1, 16), "an attribute without its beginning"),
    (frames.parse_attributes, struct.pack("!III", 1, 16, 37) + bytes(36),
     "an attribute of 37 bytes, of which 36 are there"),
], ids=range(13))
def test_what_is_cut_short_is_told(read, data, words):
    """With how much was there."""
    with pytest.raises(frames.BadFrame, match=words):
        read(data)


@pytest.mark.parametrize("data, expected", [
    (b"\4\2\0\0munge" + bytes(11), ((4, 2, 0, 0), "munge", False)),
    (frames.make_greeting("ovis", 37), ((4, 2, 0, 0), "ovis", True)),
    (b"\4\2\0\0", ((4, 2, 0, 0), "", False))], ids=["4.4", "4.5", "the version alone"])
def test_a_greeting(data, expected):
    """Only one with a rail is of 4.5."""
    assert frames.parse_greeting(data) == expected


TEXTS = st.none() | st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)),
                            max_size=50)


@given(st.integers(0, 0x7fffffff), st.integers(-41, 0x7fffffff),
       st.lists(st.tuples(st.integers(1, 60), TEXTS), max_size=9), st.integers(1, 40))
def test_a_message_is_what_was_written(number, code, attributes, cut):
    """In one record or in many."""
    before = frames._CUT
    frames._CUT = cut
    try:
        records = frames.make_records(frames.RESPONSE, number, code, attributes)
    finally:
        frames._CUT = before
    read = [frames.parse_record(record) for record in records]
    assert {(kind, n, c) for kind, _flags, n, c, _part in read} == {
        (frames.RESPONSE, number, code)}
    flags = [one[1] for one in read]
    assert [flag & frames.FIRST for flag in flags] == [1] + [0] * (len(flags) - 1)
    assert [flag & frames.LAST for flag in flags] == [0] * (len(flags) - 1) + [2]
    assert frames.parse_attributes(b"".join(one[4] for one in read)) == attributes
