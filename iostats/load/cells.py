"""
The text of one cell of a table of loads: names, ages, counts and shares.
"""

from __future__ import annotations

from iostats.base.errors import one_line
from iostats.base.units import duration_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_NAMELESS = {True: "(not known)", False: "(no job)"}


def name_of(row: dict[str, Any], member: str, labels: Mapping[str, str]) -> str:
    """What the row is called, by its `member`: "job", "user", "file_system" ..."""
    name = row[member]
    if member == "file_system":
        return label_of(name, labels)
    if name is None:
        return _NAMELESS[row["is_job"]]
    return name or ("(empty)" if member == "job" else "(not known)")


def label_of(file_system: str, labels: Mapping[str, str]) -> str:
    """The site's name for a file system, or its own."""
    return one_line(labels.get(file_system, file_system)) or "-"


def ago(seconds: float | None) -> str:
    return "-" if seconds is None else f"{duration_in_words(seconds)} ago"


def names_text(names: Sequence[str] | None, most: int = 3) -> str:
    """
    Some names, and how many more there are.

    >>> names_text(["4711", "4713", "4715", "4717", "4719"])
    '4711 4713 4715 +2'
    """
    if not names:
        return "-"
    more = len(names) - most
    return " ".join(names[:most]) + (f" +{more}" if more > 0 else "")
