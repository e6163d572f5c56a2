"""
Reports of the same shape as the one before, decoded fast: straight into their numbers.

Most of a report's decoding goes into a dict for each delta, and a look at each of its names; the
nodes of a job mostly have the same names.  A type with these as its fields is decoded in two thirds
of the time, and its numbers come out in their order (totals/report_shapes.py).  A report of another
shape is decoded as any message: what is accepted, and what is said of the rest, are the same.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

import msgspec

from iostats.totals.report_shapes import ReportShapes, KnownShape, are_possible, head
from iostats.wire.messages.report import Gain, NodeReport, ReportedDelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_MOST_DELTAS = 1000                 # of a shape for which types are made
_numbers = msgspec.structs.astuple


class ReportDecoder:
    """Decodes reports of the shape that is likely."""

    def __init__(self, shapes: ReportShapes) -> None:
        """`shapes`: has the likely shape."""
        self._shapes = shapes
        self._decoder_of = lru_cache(maxsize=8)(_decoder_of)

    def decode(self, raw: bytes) -> Any:
        """The NodeReport in `raw`, its deltas as KnownShape; None for another shape."""
        likely = self._shapes.likely
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
                    report.deltas = KnownShape(likely, numbers)
                    return report
        self._shapes.likely = None
        return None


def _decoder_of(likely: Any) -> Callable[[bytes], Any] | None:
    """JSON -> a report of this shape; None where its names cannot be fields."""
    _, lengths, names = likely.shape
    if not 0 < len(lengths) <= _MOST_DELTAS or min(lengths) < 0:
        return None
    kinds: dict[tuple[str, ...], Any] = {}
    found, at = [], 0
    for length in lengths:
        mine = names[at:at + length]
        at += length
        try:
            kinds[mine] = kinds.get(mine) or _delta_type(mine)
        except (TypeError, ValueError):         # a name with quotes is no field, say
            return None
        found.append(kinds[mine])
    kind = msgspec.defstruct("_Report", [("deltas", tuple.__class_getitem__(tuple(found)))],
                             bases=(NodeReport,), kw_only=True)
    return msgspec.json.Decoder(kind).decode


def _delta_type(names: tuple[str, ...]) -> Any:
    """ReportedDelta, with these names as the fields of its values."""
    values = msgspec.defstruct(
        "_Values", [(f"at_{number}", Gain, msgspec.field(name=name))
                    for number, name in enumerate(names)],
        forbid_unknown_fields=True, gc=False)
    return msgspec.defstruct("_Delta", [("values", values)], bases=(ReportedDelta,),
                             kw_only=True, gc=False)
