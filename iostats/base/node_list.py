"""
The batch system's node lists, written out: "nid[00001-00003,7],login1".

    list  = part ("," part)*
    part  = (TEXT | "[" range ("," range)* "]")+
    range = NUMBER ["-" NUMBER]                     leading zeros are kept

For the node side; the server has ClusterShell, which knows more.
"""

from __future__ import annotations

MOST_NODES = 1_000_000
_LONGEST_NAME = 253                # a host name with its domain, RFC 1035
_MOST_CHARACTERS = 1 << 26         # of all names


class TooMany(ValueError):
    """A list stands for more names than are wanted."""


def expanded(text: str, most: int | None = None) -> list[str]:
    """
    Up to `most` names in a list, in their order; ValueError, with the part that is off.

    >>> expanded("a[1-3,05],b")
    ['a1', 'a2', 'a3', 'a05', 'b']
    """
    names: list[str] = []
    most = MOST_NODES if most is None else most
    for part in _split(text):
        found = [""]
        while part:
            head, bracket, rest = part.partition("[")
            inside, closed, part = rest.partition("]")
            if bracket and not closed:
                raise ValueError(head + bracket + rest)
            # Without a bound on names a line of a megabyte could ask for a terabyte of them.
            length = len(found[0]) + len(head)
            if length > _LONGEST_NAME:
                raise ValueError((found[0] + head)[:_LONGEST_NAME])
            numbers = _numbers(inside, most) if bracket else [""]
            length += len(numbers[-1])
            if length > _LONGEST_NAME or length * len(found) * len(numbers) > _MOST_CHARACTERS:
                raise ValueError((found[0] + head + numbers[-1])[:_LONGEST_NAME])
            if len(found) * len(numbers) + len(names) > most:
                raise TooMany(f"more than {most} nodes")
            found = [name + head + number for name in found for number in numbers]
        names += found
    return names


def _split(text: str) -> list[str]:
    """The parts between the commas that are in no bracket."""
    text = text.strip()
    parts, begin, depth = [], 0, 0
    for at, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if c == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    parts.append(text[begin:])
    return [part for part in parts if part]


def _numbers(ranges: str, most: int) -> list[str]:
    found: list[str] = []
    for one in ranges.split(","):
        first, dash, last = one.partition("-")
        last = last if dash else first
        if not (first.isdigit() and last.isdigit()
                and max(len(first), len(last)) <= _LONGEST_NAME and int(first) <= int(last)):
            raise ValueError(one or "[]")
        if int(last) - int(first) + len(found) >= most:
            raise TooMany(f"more than {most} nodes")
        if (int(last) - int(first)) * len(first) >= _MOST_CHARACTERS:
            raise ValueError(one)
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return found
