"""
A report that is like the one before it, decoded straight into its numbers.

A dict for each Delta, and a look at each of its names, takes longest in a report; the nodes of a
job mostly have the same names.  A type with these as its fields is decoded in two thirds of the
time, and its numbers are in their order at once (alike.py).  Whatever is otherwise than foreseen is
decoded as ever: what is taken, and what is said of the rest, are the same.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

import msgspec

from iostats.totals.alike import Alike, Same, are_possible, head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_MOST_DELTAS = 1000                 # of a shape for which types are made
_numbers = msgspec.structs.astuple


class Foreseen:
    """Decodes reports of the shape that is likely."""

    def __init__(self, alike: Alike, report: type[Any], delta: type[Any], gain: Any) -> None:
        """`report`, `delta`: their types, as they are decoded else; `gain`: that of a number."""
        self._alike, self._report, self._delta, self._gain = alike, report, delta, gain
        self._decoder_of = lru_cache(maxsize=8)(self._made)

    def decoded(self, raw: bytes) -> Any:
        """The report whose params `raw` is, with a Same for its deltas; None: decode it as ever."""
        likely = self._alike.likely
        if likely is None:
            return None
        decode = self._decoder_of(likely)
        if decode is not None:
            try:
                report = decode(raw)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                report = None
            if report is not None and tuple(map(head, report.deltas)) == likely.shape[0]:
                numbers = list(chain.from_iterable([_numbers(one.values) for one in report.deltas]))
                if are_possible(numbers):
                    report.deltas = Same(likely, numbers)
                    return report
        self._alike.likely = None
        return None

    def _made(self, likely: Any) -> Callable[[bytes], Any] | None:
        _, lengths, names = likely.shape
        if not 0 < len(lengths) <= _MOST_DELTAS or min(lengths) < 0:
            return None
        kinds: dict[tuple[str, ...], Any] = {}
        found, at = [], 0
        for length in lengths:
            mine = names[at:at + length]
            at += length
            try:
                kinds[mine] = kinds.get(mine) or self._delta_of(mine)
            except (TypeError, ValueError):         # a name with quotes is no field, say
                return None
            found.append(kinds[mine])
        kind = msgspec.defstruct("_Report", [("deltas", tuple.__class_getitem__(tuple(found)))],
                                 bases=(self._report,), kw_only=True)
        return msgspec.json.Decoder(kind).decode

    def _delta_of(self, names: tuple[str, ...]) -> Any:
        values = msgspec.defstruct(
            "_Values", [(f"at_{number}", self._gain, msgspec.field(name=name))
                        for number, name in enumerate(names)],
            forbid_unknown_fields=True, gc=False)
        return msgspec.defstruct("_Delta", [("values", values)], bases=(self._delta,),
                                 kw_only=True, gc=False)
