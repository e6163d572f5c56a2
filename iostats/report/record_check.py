"""
A record from a file, which anybody may have written: where it has a value that cannot be.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING

from iostats.totals.record import CLASSES
from iostats.totals.record_part import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable

_may_be_negative = re.compile(r"[:\[,]\s*-").search


def find_negative(form: object, text: str = ":-") -> str:
    """
    Find a number below 0 that cannot be negative: "file_systems[0].calls.read.count is -23"; "" if
    there is none.  `text`: the record as JSON, in which a minus sign is looked for first.
    """
    return _find_negative(form, "Record", "") if _may_be_negative(text) else ""


def _find_negative(value: object, kind: str, path: str) -> str:
    kind = kind.removesuffix(" | None")
    if not isinstance(value, (dict, list)):
        least = LIMITS.get(kind, {})
        is_bound = "minimum" in least or "exclusiveMinimum" in least
        return (f"{path} is {value!s:.40}" if isinstance(value, (int, float))
                and not isinstance(value, bool) and is_bound and value < 0 else "")
    return next(filter(None, (_find_negative(member, of_one, where)
                              for where, member, of_one in _list_members(value, kind, path))), "")


def find_wrong_type(form: object, kind: str = "Record", path: str = "") -> str:
    """
    Find a value of a wrong type, or a missing one: 'file_systems[0].start is "noon", expected a
    number'; "" if there is none.
    """
    if form is None and kind.endswith(" | None"):
        return ""
    kind = kind.removesuffix(" | None")
    if kind == "NodeRecord" and isinstance(form, str):      # JSON text, of this release
        with contextlib.suppress(ValueError):
            form = json.loads(form)
    words, types = _describe_type(kind)
    if types and (not isinstance(form, types) or (isinstance(form, bool) and bool not in types)):
        return f"{path or 'the record'} is {json.dumps(form):.40}, expected {words}"
    if kind in CLASSES and isinstance(form, dict):
        of = CLASSES[kind]
        for name in of.__annotations__:
            if name not in form and name not in of._absent:
                return f"{path or 'the record'} has no {name}"
    return next(filter(None, (find_wrong_type(member, of_one, where)
                              for where, member, of_one in _list_members(form, kind, path))), "")


def _describe_type(kind: str) -> tuple[str, tuple[type, ...]]:
    """Return the expected type of `kind`, in words and as Python's types; () if any is valid."""
    if kind in CLASSES or kind.startswith("dict["):
        return "an object", (dict,)
    if kind.startswith("list["):
        return "a list", (list,)
    return _TYPES.get(LIMITS.get(kind, {}).get("type", ""), ("", ()))


_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "integer": ("a whole number", (int,)), "number": ("a number", (int, float)),
    "string": ("a text", (str,)), "boolean": ("true or false", (bool,)),
    "array": ("a list", (list,))}


def _list_members(value: object, kind: str, path: str) -> Iterable[tuple[str, object, str]]:
    """(path, value, kind) of the members of a list or an object; none if its kind is unknown."""
    if kind == "Numbers":
        kind = "list[str]"
    if kind.startswith("list[") and isinstance(value, list):
        return ((f"{path}[{place}]", member, kind[len("list["):-1])
                for place, member in enumerate(value))
    if isinstance(value, dict) and kind:
        of = CLASSES[kind].__annotations__ if kind in CLASSES else {}
        each = kind[len("dict[str, "):-1] if kind.startswith("dict[str, ") else ""
        return ((f"{path}.{name}"[:120] if path else name, member, of.get(name, each))
                for name, member in value.items())
    return ()
