"""
What is kept of one mount's llite values: bytes, calls, and each operation once.
"""

from __future__ import annotations

from functools import lru_cache

from iostats.lustre.metrics import MADE_OF, is_operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OF_PROGRAMS = ("read_bytes", "write_bytes", "read_calls", "write_calls")
_FIELDS = ("", "_us", "_us2")           # what metrics_of makes of one counter
_PARTS = frozenset(part for parts in MADE_OF.values() for part in parts)


def made_once(values: dict[str, int]) -> dict[str, int]:
    """One mount's `values` with the largest of what MADE_OF names under the one name."""
    if values.keys().isdisjoint(_PARTS):
        return values
    for whole, parts in MADE_OF.items():
        found = [part for part in parts if part in values]
        if found and found != [whole]:
            largest = max(found, key=values.__getitem__)
            kept = {whole + end: values[largest + end] for end in _FIELDS
                    if largest + end in values}
            values = dict(values)
            for part in parts:
                for end in _FIELDS:
                    values.pop(part + end, None)
            values.update(kept)
    return values


def is_made_of_one(names: Iterable[str]) -> bool:
    """Whether made_once makes the same of all values under these names: one part of each whole."""
    found = set(names)
    return all(len(found.intersection(parts)) <= 1 for parts in MADE_OF.values())


def in_short(values: dict[str, int]) -> dict[str, int]:
    """What is kept of one node's llite values: bytes, calls, and counts of operations."""
    return {metric: values[metric] for metric in short_of(tuple(values))}


@lru_cache(maxsize=64)                  # most nodes of a job have the same names
def short_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `names` that are kept of one node's llite values, in the order of their names."""
    return tuple(sorted(name for name in names if name in OF_PROGRAMS or is_operation(name)))


def operations_of(values: dict[str, int]) -> dict[str, int]:
    """{operation: count} of one mount's llite `values`."""
    return {metric: count for metric, count in in_short(made_once(values)).items()
            if metric not in OF_PROGRAMS}
