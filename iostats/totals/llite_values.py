"""The stored part of one mount's llite values: bytes, calls, and each operation once."""

from __future__ import annotations

from functools import lru_cache

from iostats.lustre.metrics import MADE_OF, is_operation, is_transfer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OF_PROGRAMS = ("read_bytes", "write_bytes", "read_calls", "write_calls")
_FIELDS = ("", "_us", "_us2")           # what read_metrics makes of one counter
_PARTS = frozenset(part for parts in MADE_OF.values() for part in parts)


def compute_once(values: dict[str, int]) -> dict[str, int]:
    """Count once each call that the kernel counts under several names; returns all values."""
    if values.keys().isdisjoint(_PARTS):
        return values
    for whole, parts in MADE_OF.items():
        present = [part for part in parts if part in values]
        if present and present != [whole]:
            largest = max(present, key=values.__getitem__)
            counted = {whole + end: values[largest + end] for end in _FIELDS
                       if largest + end in values}
            values = dict(values)
            for part in parts:
                for end in _FIELDS:
                    values.pop(part + end, None)
            values.update(counted)
    return values


def is_single_value(names: Iterable[str]) -> bool:
    """Whether compute_once() leaves all values under these names as they are."""
    present = set(names)
    return all(len(present.intersection(parts)) <= 1 for parts in MADE_OF.values())


def select_short(values: dict[str, int]) -> dict[str, int]:
    """One node's bytes, calls, counts of operations, and the time in each call (`write_us`)."""
    return {metric: values[metric] for metric in select_short_names(tuple(values))}


@lru_cache(maxsize=64)                  # most nodes of a job have the same names
def select_short_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """
    Return those `names` of llite values that are stored for each node, in the order of their names.
    """
    return tuple(sorted(name for name in names if name in OF_PROGRAMS or is_operation(name)
                        or is_time(name)))


def is_time(metric: str) -> bool:
    """
    Whether a metric is the time in a call of programs.

    >>> [is_time(name) for name in ("write_us", "open_us", "open", "openclosetime_us")]
    [True, True, False, False]
    """
    call = metric[:-len("_us")]
    return metric.endswith("_us") and (is_operation(call) or is_transfer(call))


def select_operations(values: dict[str, int]) -> dict[str, int]:
    """Return {operation: count} of one mount's llite `values`."""
    return {metric: count for metric, count in select_short(compute_once(values)).items()
            if is_operation(metric)}
