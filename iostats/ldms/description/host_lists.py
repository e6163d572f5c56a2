"""
Host lists: "node-[1-10],login-[01-04]-ib0" -> names in written order, and back.

LDMS sorts what it expands, names and hosts each on their own, and so gives s-10 the second host.
Here the order is that of the text.  Duplicates are dropped, as LDMS does, and told.
"""

from __future__ import annotations

import re

from iostats.base import node_list
from iostats.ldms.description.problems import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.ldms.description.values import Value

MOST_NAMES = 1_000_000             # of all the lists of a file
MOST_AGAIN = 5_000_000             # with each place where one stands, and what is made of each name
LONGEST_NAME = 229                 # bytes; with ".conf", and what is written first, a file's name
_NUMBERS = re.compile(r"([0-9]+)")
_BAD = re.compile(r"[\s\[\]'\"]")


class HostLists:
    """The host lists of a file; each text is expanded once, and all together are bounded."""

    def __init__(self) -> None:
        self._known: dict[str, list[str]] = {}
        self._left = MOST_NAMES
        self._left_again = MOST_AGAIN

    def take(self, value: Value, count: int) -> bool:
        """Whether something more may be made of `count` names; a problem where it is too much."""
        self._left_again -= count
        if self._left_again < 0 <= self._left_again + count:
            value.problem(f"expected at most {MOST_AGAIN} names in all places of a file together")
        return self._left_again >= 0

    def expanded(self, value: Value | None) -> list[str]:
        """The names that `value`, a text or a list of them, stands for; [] where it is off."""
        if value is None or value.is_null:
            return []
        if value.node.kind == "mapping":
            value.problem(f"expected a host list such as node-[1-10], got {value.got()}")
            return []
        if value.node.kind == "scalar":
            return self._of_text(value)
        found: list[str] = []
        for item in value.items("names"):
            if item.node.kind != "scalar" or item.is_null:
                item.problem(f"expected a name, got {item.got()}")
                continue
            found += self._of_text(item)
        return _without_duplicates(found, value)

    def _of_text(self, value: Value) -> list[str]:
        text = value.node.text or ""
        known = self._known.get(text)
        if known is not None or self._left < 0:
            return known if known and self.take(value, len(known)) else []
        found: list[str] = []
        try:
            found = [name.strip(" ") for name in node_list.expanded(text)] if "[" in text else [
                name.strip(" ") for name in text.split(",")]
            found = [name for name in found if name]
        except ValueError as error:
            self._say_why(value, str(error))
        else:
            self._left -= len(found)
            bad = _first_bad(found)
            if self._left < 0:
                value.problem(f"expected at most {MOST_NAMES} names in all lists of a file")
                found = []
            elif bad is not None and len(bad.encode()) > LONGEST_NAME:
                value.problem(f"expected names of at most {LONGEST_NAME} bytes, got one of "
                              f"{len(bad.encode())}")
                found = []
            elif bad is not None:
                value.problem(f"expected a host list such as node-[1-10], got the name "
                              f"{shown(bad)}")
                found = []
            elif not found:
                value.problem("expected a host list such as node-[1-10], got an empty one")
        found = _without_duplicates(found, value)
        self._known[text] = found
        return found

    @staticmethod
    def _say_why(value: Value, part: str) -> None:
        if part.startswith("more than"):
            value.problem(f"expected at most {MOST_NAMES} names, got {value.got()}")
        elif len(part) > 200:
            value.problem(f"expected names of at most {LONGEST_NAME} bytes, got "
                          f"{shown(part)}")
        elif re.fullmatch(r"[0-9]+-[0-9]+", part):
            value.problem("expected a range such as [1-10], from the lower number to the higher, "
                          f"of at most {MOST_NAMES} names, got {shown(part)}")
        else:
            value.problem(f"expected a host list such as node-[1-10], got {value.got()}: "
                          f"{shown(part)} is no number or range in brackets")


def _first_bad(names: list[str]) -> str | None:
    """A name that ldmsd, or a terminal, would take for something else."""
    together = "".join(names)
    if together.isprintable() and not _BAD.search(together) and max(
            map(len, map(str.encode, names)), default=0) <= LONGEST_NAME:
        return None
    return next(name for name in names if _BAD.search(name) or not name.isprintable()
                or len(name.encode()) > LONGEST_NAME)


def _without_duplicates(names: list[str], value: Value) -> list[str]:
    unique = list(dict.fromkeys(names))
    if len(unique) < len(names):
        twice = next(name for name, other in zip(names, [*unique, ""]) if name != other)
        value.warning(f"{twice} is there twice; it counts once")
    return unique


def folded(names: Sequence[str]) -> str:
    """
    A host list that expands to exactly these names in this order; a name with a comma has none.

    >>> folded(["n-1", "n-2", "n-3", "n-05", "n-1-ib0", "n-2-ib0", "login"])
    'n-[1-3,05],n-[1-2]-ib0,login'
    """
    split = [_NUMBERS.split(name) for name in names]
    parts: list[str] = []
    at = 0
    while at < len(names):
        which = _varies(split[at], split[at + 1]) if at + 1 < len(names) else None
        if which is None:
            parts.append(names[at])
            at += 1
            continue
        begin = at
        while at < len(names) and (at == begin or _varies(split[begin], split[at]) == which):
            at += 1
        ranges = _ranges([one[which] for one in split[begin:at]])
        parts.append("".join(split[begin][:which]) + f"[{ranges}]"
                     + "".join(split[begin][which + 1:]))
    return ",".join(parts)


def _varies(one: list[str], other: list[str]) -> int | None:
    """Where two names, in text and numbers by turns, differ, if that is in one number alone."""
    if len(one) != len(other):
        return None
    different = [at for at, part in enumerate(one) if part != other[at]]
    return different[0] if len(different) == 1 and different[0] % 2 else None


def _ranges(numbers: list[str]) -> str:
    found: list[str] = []
    begin = 0
    for at in range(1, len(numbers) + 1):
        width = len(numbers[begin])
        if at < len(numbers) and numbers[at] == f"{int(numbers[begin]) + at - begin:0{width}d}":
            continue
        found.append(numbers[begin] if at - begin == 1
                     else f"{numbers[begin]}-{numbers[at - 1]}")
        begin = at
    return ",".join(found)


def without_domain(host: str) -> str:
    """As socket.gethostname() is cut; an address stays."""
    first = host.partition(".")[0]
    return host if first.isdigit() or ":" in host else first


def is_same_host(one: str, other: str) -> bool:
    """
    Whether these are one name of a host, with its domain or without.

    >>> is_same_host("Node-23", "node-23.x.org"), is_same_host("node-23.y.org", "node-23.x.org")
    (True, False)
    """
    one, other = one.lower(), other.lower()
    return one == other or one == without_domain(other) or without_domain(one) == other
