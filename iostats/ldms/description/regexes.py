"""
Regular expressions as ldmsd reads them: POSIX' extended ones, found anywhere in a text.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_NAMES_A_REGEX = 40                # of those that match some names; ldmsd compiles them
# In a set of letters; Python would take each of these for a set of its own letters.
_CLASSES = {"alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
            "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~",
            "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z", "xdigit": "a-fA-F0-9"}
FAULTS = (re.error, RecursionError, OverflowError)      # of compiled()


def literal(text: str) -> str:
    r"""
    What matches this text, as a part of an expression.

    >>> literal("node-23/lo.0")
    'node-23/lo\\.0'
    """
    return re.sub(r"([.\[\]{}()*+?|^$\\])", r"\\\1", text)


def one_of(names: Collection[str]) -> tuple[str, ...]:
    """Expressions that match these names and no others."""
    every = [literal(name) for name in names]
    return tuple(f"^({'|'.join(every[at:at + _NAMES_A_REGEX])})$"
                 for at in range(0, len(every), _NAMES_A_REGEX))


@lru_cache(1000)
def compiled(expression: str) -> re.Pattern[str]:
    """What finds the same in Python; one of FAULTS, where Python has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")             # of sets that will mean something else
        return re.compile(re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found[1], ""),
                                 expression))


def matching(expression: str, names: Iterable[str]) -> list[str]:
    """The names that it matches; [] where it is none that Python reads."""
    if expression in ("", ".*"):
        return list(names)
    try:
        found = compiled(expression)
    except FAULTS:
        return []
    return [name for name in names if found.search(name)]
