"""
A record from a file, which anybody may have written: whether its amounts are any.
"""

from __future__ import annotations

import re

from iostats.totals.record import CLASSES, LIMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_may_be_negative = re.compile(r"[:\[,]\s*-").search


def negative_in(form: Any, text: str = ":-") -> str:
    """
    Where in the record `form` a number is below 0 that can't be: "file_systems[0].calls.read.count
    is -23"; "" for nowhere.  `text`: the JSON that it is of; most have no such number at all.
    """
    return _negative_in(form, "Record", "") if _may_be_negative(text) else ""


def _negative_in(value: Any, kind: str, path: str) -> str:
    if kind.endswith(" | None"):
        kind = kind[:-len(" | None")]
    if not isinstance(value, (dict, list)):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        least = LIMITS.get(kind, {})
        is_bound = "minimum" in least or "exclusiveMinimum" in least
        return f"{path} is {value!s:.40}" if is_number and is_bound and value < 0 else ""
    inside: Iterable[tuple[str, Any, str]] = ()
    if kind.startswith("list[") and isinstance(value, list):
        inside = ((f"{path}[{place}]", one, kind[len("list["):-1])
                  for place, one in enumerate(value))
    elif isinstance(value, dict) and kind:          # else nothing is known of it
        of = CLASSES[kind].__annotations__ if kind in CLASSES else {}
        each = kind[len("dict[str, "):-1] if kind.startswith("dict[str, ") else ""
        inside = ((f"{path}.{name}"[:120] if path else name, one, of.get(name, each))
                  for name, one in value.items())
    return next(filter(None, (_negative_in(one, of_one, where)
                              for where, one, of_one in inside)), "")
