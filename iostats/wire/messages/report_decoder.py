"""
Reports of the same shape as the one before, decoded fast: straight into their numbers.

Most of a report's decoding goes into a dict for each delta, and a look at each of its names; the
nodes of a job mostly have the same names.  A type with these as its fields is decoded in two thirds
of the time, and its numbers come out in their order (totals/report_shapes.py).  A report of another
shape is decoded as any message: what is accepted, and what is said of the rest, are the same.

In such a type each key of an example is required.  Each has one colon, so a report of that type
with as many colons as keys has each of them once, and no other key.
"""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from itertools import chain

import msgspec

from iostats.totals.report_shapes import ReportShapes, KnownShape, are_possible, head
from iostats.wire.messages.report import Gain, NodeReport, ReportedDelta, ReportedSeries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_MOST_DELTAS = 1000                 # of a shape for which types are made
_numbers = msgspec.structs.astuple
_ReportType = namedtuple("_ReportType", "likely decode keys")
_ReportType.__doc__ = """
A type for reports of one shape.

Attributes:
    likely: the ShapeSums with the shape.
    decode: JSON -> a report of this type; None where names of the shape cannot be fields.
    keys: how many there are, but those of `mounts`, `dirty_bytes` and `series`.
"""


class ReportDecoder:
    """Decodes reports of the shape that is likely."""

    def __init__(self, shapes: ReportShapes) -> None:
        """`shapes`: has the likely shape."""
        self._shapes = shapes
        self._type: Any = None                  # the _ReportType of the report before
        self._type_of = lru_cache(maxsize=8)(_type_of)

    def decode(self, raw: bytes) -> Any:
        """The NodeReport in `raw`, its deltas as KnownShape; None for another shape."""
        likely = self._shapes.likely
        if likely is None:
            return None
        try:
            if self._type is None or self._type.likely is not likely:
                example = msgspec.json.decode(raw)
                self._type = self._type_of(likely, tuple(example), tuple(map(
                    tuple, example["deltas"])))
            if self._type.decode is not None:
                report = self._type.decode(raw)
                if tuple(map(head, report.deltas)) == likely.shape[0] and raw.count(b":") == (
                        self._type.keys + _keys_below(report)):
                    numbers = list(chain.from_iterable(
                        [_numbers(one.values) for one in report.deltas]))
                    if are_possible(numbers):
                        report.deltas = KnownShape(likely, numbers)
                        return report
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, TypeError, KeyError):
            pass                                # decoded as usual, which says what is wrong
        self._shapes.likely = self._type = None
        return None


def _keys_below(report: NodeReport) -> int:
    """How many keys are in the members that differ from node to node; 0 where not counted here."""
    if report.phases or report.events or report.idle:
        return 0
    return (len(report.mounts) + len(report.dirty_bytes or ())
            + len(report.series) * (1 + len(ReportedSeries.__struct_fields__)))


def _type_of(likely: Any, keys: tuple[str, ...],
             delta_keys: tuple[tuple[str, ...], ...]) -> _ReportType:
    """The type of reports of this shape that have these keys, and their deltas those."""
    _, lengths, names = likely.shape
    if not 0 < len(lengths) == len(delta_keys) <= _MOST_DELTAS or min(lengths) < 0:
        return _ReportType(likely, None, 0)
    kinds: dict[Any, Any] = {}
    found, at = [], 0
    for length, keys_here in zip(lengths, delta_keys):
        mine = names[at:at + length], keys_here
        at += length
        try:
            kinds[mine] = kinds.get(mine) or _delta_type(*mine)
        except (TypeError, ValueError):         # a name with quotes is no field, say
            return _ReportType(likely, None, 0)
        found.append(kinds[mine])
    fields = _required(NodeReport, keys, {"deltas": tuple.__class_getitem__(tuple(found))})
    kind = msgspec.defstruct("_Report", fields, bases=(NodeReport,), kw_only=True)
    return _ReportType(likely, msgspec.json.Decoder(kind).decode, len(fields) + len(names) + sum(
        len(_required(ReportedDelta, keys_here, {})) for keys_here in delta_keys))


def _delta_type(names: tuple[str, ...], keys: tuple[str, ...]) -> Any:
    """ReportedDelta with these keys, and with these names as the fields of its values."""
    values = msgspec.defstruct(
        "_Values", [(f"at_{number}", Gain, msgspec.field(name=name))
                    for number, name in enumerate(names)],
        forbid_unknown_fields=True, gc=False)
    return msgspec.defstruct("_Delta", _required(ReportedDelta, keys, {"values": values}),
                             bases=(ReportedDelta,), kw_only=True, gc=False)


def _required(kind: Any, keys: tuple[str, ...], types: dict[str, Any]) -> list[tuple[str, Any]]:
    """The fields of a struct that have these names, with their own type or that of `types`."""
    return [(name, types.get(name, of_field)) for name, of_field in kind.__annotations__.items()
            if name in keys]
