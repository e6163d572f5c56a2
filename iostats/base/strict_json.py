"""
JSON from a file or another process, of which all can be sent on as JSON.

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
    """The value in `data`; ValueError or RecursionError where it is no JSON, or not all of it."""
    found = json.loads(data)
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    return found


def decoder() -> json.JSONDecoder:
    """A decoder for which NaN, Infinity and numbers that no float can be are no JSON."""
    return json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    found = float(text)
    if not isfinite(found):
        raise ValueError(f"{text[:40]} is too large a number")
    return found
