"""
JSON from a file or another process, of which all can be sent on as JSON.

json.loads takes more than that: half of a surrogate pair ("\\ud800"), NaN and Infinity.  json.dumps
writes them again, and a server refuses the whole message, with the numbers of all file systems.

Source: RFC 8259, sections 6 and 8.2.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def loads(data: bytes | str) -> Any:
    """The value in `data`; ValueError or RecursionError where it is no JSON, or not all of it."""
    found = json.loads(data)
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    return found
