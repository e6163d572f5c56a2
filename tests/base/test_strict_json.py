"""JSON that can be sent on, or an error where it is read."""
from __future__ import annotations

import json

import pytest

from iostats.base import strict_json


@pytest.mark.parametrize("data", [
    rb'{"scratch": 23}', rb'["\ud83d\ude00", "\u00e9", null, true, 37, -1.5]',
    "{\"fichiers d'été\": 23}".encode()], ids=["ascii", "a whole surrogate pair", "utf-8"])
def test_what_is_json_is_read_as_json_reads_it(data):
    assert json.loads(data) == strict_json.loads(data)
    assert json.loads(data) == strict_json.loads(data.decode())


@pytest.mark.parametrize("data", [
    rb'{"\ud800scratch": 23}', rb'["\udc00"]', b'{"\xed\xa0\x80scratch": 23}', b'{"n": NaN}',
    b'[Infinity]', b'[1e999]', b'{"scratch"', b"", b"\xff"],
    ids=["half a pair in a name", "half a pair", "half a pair, as bytes", "nan", "infinity",
         "too large for a float", "cut off", "empty", "no text"])
def test_what_no_server_would_take_is_an_error(data):
    with pytest.raises(ValueError):
        strict_json.loads(data)
