"""
Host lists: "node-[1-10],login-[01-04]-ib0" -> names in written order, and back.

LDMS sorts names and hosts separately, and so gives s-10 the second host.  Here the order is that of
the file.  Duplicates are dropped, as in LDMS, with a warning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iostats.base import node_list
from iostats_ldms.description.problems import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats_ldms.description.values import Value

MOST_NAMES = 1_000_000             # of all the lists of a file
MOST_AGAIN = 5_000_000             # with each place where one stands, and what is made of each name
LONGEST_NAME = 229                 # bytes; with ".conf", and what is written first, a file's name
_NUMBERS = re.compile(r"([0-9]+)")
_BAD = re.compile(r"[\s\[\]'\"]")


class HostLists:
    """The host lists of a file; each text is expanded once; the number of names is limited."""

    def __init__(self) -> None:
        self._known: dict[str, list[str]] = {}
        self._left = MOST_NAMES
        self._left_again = MOST_AGAIN

    def reserve(self, value: Value, count: int) -> bool:
        """True if `count` more names are within the limit; a problem if not."""
        self._left_again -= count
        if self._left_again < 0 <= self._left_again + count:
            value.problem(f"expected at most {MOST_AGAIN} names in all places of a file together")
        return self._left_again >= 0

    def expand(self, value: Value | None) -> list[str]:
        """Expand a text or list of texts to names; [] if it is invalid."""
        if value is None or value.is_null:
            return []
        if value.node.kind == "mapping":
            value.problem(f"expected a host list such as node-[1-10], got {value.got()}")
            return []
        if value.node.kind == "scalar":
            return self._expand_text(value)
        result: list[str] = []
        for item in value.items("names"):
            if item.node.kind != "scalar" or item.is_null:
                item.problem(f"expected a name, got {item.got()}")
                continue
            result += self._expand_text(item)
        return _drop_duplicates(result, value)

    def _expand_text(self, value: Value) -> list[str]:
        text = value.node.text or ""
        cached = self._known.get(text)
        if cached is not None or self._left < 0:
            return cached if cached and self.reserve(value, len(cached)) else []
        result: list[str] = []
        try:
            result = [name.strip(" ")
                      for name in node_list.expand_node_list(text)] if "[" in text else [
                name.strip(" ") for name in text.split(",")]
            result = [name for name in result if name]
        except ValueError as error:
            self._report_error(value, str(error))
        else:
            self._left -= len(result)
            bad = _find_invalid(result)
            if self._left < 0:
                value.problem(f"expected at most {MOST_NAMES} names in all lists of a file")
                result = []
            elif bad is not None and len(bad.encode()) > LONGEST_NAME:
                value.problem(f"expected names of at most {LONGEST_NAME} bytes, got one of "
                              f"{len(bad.encode())}")
                result = []
            elif bad is not None:
                value.problem(f"expected a host list such as node-[1-10], got the name "
                              f"{quote(bad)}")
                result = []
            elif not result:
                value.problem("expected a host list such as node-[1-10], got an empty one")
        result = _drop_duplicates(result, value)
        self._known[text] = result
        return result

    @staticmethod
    def _report_error(value: Value, part: str) -> None:
        if part.startswith("more than"):
            value.problem(f"expected at most {MOST_NAMES} names, got {value.got()}")
        elif len(part) > 200:
            value.problem(f"expected names of at most {LONGEST_NAME} bytes, got "
                          f"{quote(part)}")
        elif re.fullmatch(r"[0-9]+-[0-9]+", part):
            value.problem("expected a range such as [1-10], from the lower number to the higher, "
                          f"of at most {MOST_NAMES} names, got {quote(part)}")
        else:
            value.problem(f"expected a host list such as node-[1-10], got {value.got()}: "
                          f"{quote(part)} is no number or range in brackets")


def _find_invalid(names: list[str]) -> str | None:
    """Find a name that ldmsd or a terminal would misinterpret."""
    together = "".join(names)
    if together.isprintable() and not _BAD.search(together) and max(
            map(len, map(str.encode, names)), default=0) <= LONGEST_NAME:
        return None
    return next(name for name in names if _BAD.search(name) or not name.isprintable()
                or len(name.encode()) > LONGEST_NAME)


def _drop_duplicates(names: list[str], value: Value) -> list[str]:
    unique = list(dict.fromkeys(names))
    if len(unique) < len(names):
        twice = next(name for name, unique_name in zip(names, [*unique, ""]) if name != unique_name)
        value.warning(f"{twice} is listed twice; the duplicate is ignored")
    return unique


def fold(names: Sequence[str]) -> str:
    """
    Fold names to a host list that expands to the same names in the same order; names with a comma
    are not supported.

    >>> fold(["n-1", "n-2", "n-3", "n-05", "n-1-ib0", "n-2-ib0", "login"])
    'n-[1-3,05],n-[1-2]-ib0,login'
    """
    split = [_NUMBERS.split(name) for name in names]
    parts: list[str] = []
    at = 0
    while at < len(names):
        varying = _find_varying_part(split[at], split[at + 1]) if at + 1 < len(names) else None
        if varying is None:
            parts.append(names[at])
            at += 1
            continue
        begin = at
        while at < len(names) and (at == begin
                                   or _find_varying_part(split[begin], split[at]) == varying):
            at += 1
        ranges = _format_ranges([item[varying] for item in split[begin:at]])
        parts.append("".join(split[begin][:varying]) + f"[{ranges}]"
                     + "".join(split[begin][varying + 1:]))
    return ",".join(parts)


def _find_varying_part(left: list[str], right: list[str]) -> int | None:
    """Return the index of the only number in which two split names differ, or None."""
    if len(left) != len(right):
        return None
    different = [at for at, part in enumerate(left) if part != right[at]]
    return different[0] if len(different) == 1 and different[0] % 2 else None


def _format_ranges(numbers: list[str]) -> str:
    result: list[str] = []
    begin = 0
    for at in range(1, len(numbers) + 1):
        width = len(numbers[begin])
        if at < len(numbers) and numbers[at] == f"{int(numbers[begin]) + at - begin:0{width}d}":
            continue
        result.append(numbers[begin] if at - begin == 1
                      else f"{numbers[begin]}-{numbers[at - 1]}")
        begin = at
    return ",".join(result)


def strip_domain(host: str) -> str:
    """Strip the domain of a host name; an address is unchanged."""
    first = host.partition(".")[0]
    return host if first.isdigit() or ":" in host else first


def is_same_host(left: str, right: str) -> bool:
    """
    True if two names refer to one host, with or without its domain.

    >>> is_same_host("Node-23", "node-23.x.org"), is_same_host("node-23.y.org", "node-23.x.org")
    (True, False)
    """
    left, right = left.lower(), right.lower()
    return left == right or left == strip_domain(right) or strip_domain(left) == right
