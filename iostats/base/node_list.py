"""
Expand the node lists of batch systems: "nid[00001-00003,7],login1".

    list  = part ("," part)*
    part  = (TEXT | "[" range ("," range)* "]")+
    range = NUMBER ["-" NUMBER]                     leading zeros are significant

For the node side; the server has ClusterShell, which knows more.
"""

from __future__ import annotations

MOST_NODES = 1_000_000
_LONGEST_NAME = 253                # a host name with its domain, RFC 1035
_MOST_CHARACTERS = 1 << 26         # of all names


class TooManyNodes(ValueError):
    """A node list has more names than the caller allows."""


def expand_node_list(text: str, limit: int | None = None) -> list[str]:
    """
    Return up to `limit` names of a list, in their order; ValueError names the part that is wrong.

    >>> expand_node_list("a[1-3,05],b")
    ['a1', 'a2', 'a3', 'a05', 'b']
    """
    names: list[str] = []
    limit = MOST_NODES if limit is None else limit
    for part in _split_at_commas(text):
        prefixes = [""]
        while part:
            head, bracket, rest = part.partition("[")
            inside, closed, part = rest.partition("]")
            if bracket and not closed:
                raise ValueError(head + bracket + rest)
            # Without a bound on names a line of a megabyte could ask for a terabyte of them.
            length = len(prefixes[0]) + len(head)
            if length > _LONGEST_NAME:
                raise ValueError((prefixes[0] + head)[:_LONGEST_NAME])
            numbers = _expand_ranges(inside, limit) if bracket else [""]
            length += len(numbers[-1])
            if length > _LONGEST_NAME or length * len(prefixes) * len(numbers) > _MOST_CHARACTERS:
                raise ValueError((prefixes[0] + head + numbers[-1])[:_LONGEST_NAME])
            if len(prefixes) * len(numbers) + len(names) > limit:
                raise TooManyNodes(f"more than {limit} nodes")
            prefixes = [name + head + number for name in prefixes for number in numbers]
        names += prefixes
    return names


def _split_at_commas(text: str) -> list[str]:
    """Split a list at the commas outside of brackets."""
    text = text.strip()
    parts, begin, depth = [], 0, 0
    for at, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if c == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    parts.append(text[begin:])
    return [part for part in parts if part]


def _expand_ranges(ranges: str, limit: int) -> list[str]:
    """Return the numbers of "1-3,7" as texts, with their leading zeros."""
    numbers: list[str] = []
    for number_range in ranges.split(","):
        first, dash, last = number_range.partition("-")
        last = last if dash else first
        if not (first.isdigit() and last.isdigit()
                and max(len(first), len(last)) <= _LONGEST_NAME and int(first) <= int(last)):
            raise ValueError(number_range or "[]")
        if int(last) - int(first) + len(numbers) >= limit:
            raise TooManyNodes(f"more than {limit} nodes")
        if (int(last) - int(first)) * len(first) >= _MOST_CHARACTERS:
            raise ValueError(number_range)
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return numbers
