"""
Read JSON from a file or another process, but only values that can be sent on as JSON.

json.loads takes more than that: half of a surrogate pair ("\\ud800"), NaN and Infinity.  json.dumps
writes them again, and a server refuses the whole message, with the numbers of all file systems.

Source: RFC 8259, sections 6 and 8.2.
"""

from __future__ import annotations

import json
from math import isfinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def loads(data: bytes | str) -> Any:
    """Return the value in `data`; ValueError or RecursionError if it is not strict JSON."""
    value = json.loads(data)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def make_decoder() -> json.JSONDecoder:
    """Return a decoder that refuses NaN, Infinity and numbers that no float can hold."""
    return json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_finite)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _parse_finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value
