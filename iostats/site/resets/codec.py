"""
A target as bytes, and back: what the site's server keeps, so that a restart loses nothing.

    state    = magic crc32 "\\n" length "\\n" head arrays
    magic    = "iostats zeroing 1\\n"       the name of this form
    crc32    = 8 hexadecimal digits, of all that follows
    head     = JSON of `length` bytes: what is not in arrays, and `arrays`, the list of those:
               [kind, name, width, bias, count]
    arrays   = `count` numbers each, of `width` (a dtype), each less by `bias`

`kind` is "" for a property of the slots, "c NAME" and "b NAME" for a counter of the entries and of
earlier ones, "g" for the slots that a gap spares, "r" for the reading that is open.  Slots are
renumbered, so that no free ones are kept.
"""

from __future__ import annotations

import json
import zlib
from array import array

import numpy

from iostats.base.errors import StateError
from iostats.site.resets.counters import FIELDS, GAIN_NAMES
from iostats.site.resets.entries import I32, I64, U64
from iostats.site.resets.gaps import Gap
from iostats.site.resets.readings import NO_GAINS, OpenReading, machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy.typing

    from iostats.site.resets.target import CorrectedTarget

    _Array = numpy.typing.NDArray[Any]

_MAGIC = b"iostats zeroing 1\n"
# Name of an array in the state: (property of Entries, type).  base_row is made anew.
_PROPERTIES = {"_seen": ("seen", I64), "_born": ("made", I64), "_dated": ("dated", bool),
               "_origin": ("origin", I64), "_absent": ("absent", numpy.uint8),
               "_asleep": ("forgotten", bool), "_absent_at": ("absent_at", numpy.float64),
               "_place": ("place", I64), "_not_in": ("not_in", I32)}
_DOUBTS = {"doubtful": I32, "places": I64, "doubtful from": numpy.float64,
           "doubtful to": numpy.float64}
_WIDTHS = {"u1", "<u2", "<u4", *(numpy.dtype(kind).str for kind in (
    U64, I64, I32, numpy.uint8, bool, numpy.float64))}                  # what _narrow() makes


def encoded(target: CorrectedTarget) -> bytes:
    """All of a target but its gains."""
    tables, readings, losses = target.tables, target.readings, target.losses
    live, now = tables.renumbered()
    based = tables.base_row[live]
    new_base = numpy.full(len(live), -1, I32)
    new_base[based >= 0] = numpy.arange(numpy.count_nonzero(based >= 0), dtype=I32)
    based = based[based >= 0]
    arrays = [("", name, getattr(tables, attribute)[live])
              for name, (attribute, _) in _PROPERTIES.items()
              if getattr(tables, attribute) is not None] + [("", "_base", new_base)]
    values, layout = tables.values.get(live), tables.layout
    arrays += [(f"c {name}", kind, values[:, column])
               for (name, kind), column in layout.at.items()]
    if len(based):
        values = tables.bases[based]
        arrays += [(f"b {name}", kind, values[:, column])
                   for (name, kind), column in layout.counted_at.items()]
    arrays += [("g", str(at), numpy.packbits(gap.bits(tables.used)[live]))
               for at, gap in enumerate(losses.gaps)]
    if readings.open is not None:
        arrays += _arrays_of_reading(readings.open, now)
    stored = [(kind, name, *_narrow(values)) for kind, name, values in arrays]
    head = json.dumps({
        "file_system": target.file_system, "target": target.target, "node": target.node,
        "boot_id": target.boot_id, "read_at": readings.read_at,
        "swept_since": readings.swept_since, "cleanup_s": readings.cleanup_s,
        "since_boot_s": readings.since_boot_s, "entries": target.entries,
        "number": readings.number, "whole": readings.whole,
        "ahead": readings.ahead, "aheads": list(readings.aheads),
        "readings": list(readings.times), "intervals": readings.past_intervals,
        "heard": [(*who, at) for who, at in readings.heard.items()],
        "refused": [(one, *when) for one, when in losses.refused.items()],
        "units": layout.units,
        "gaps": [(gap.began, gap.ended, gap.why, gap.by_expiry) for gap in losses.gaps],
        "reading": None if readings.open is None else _head_of_reading(readings.open),
        "doubts": [(int(now[slot]), *when) for slot, when in losses.doubts.items()],
        "ids": tables.ids(live), "based": len(based),
        "arrays": [(kind, name, width, bias, len(values))
                   for kind, name, values, width, bias in stored]}, separators=(",", ":")).encode()
    return sealed(b"".join([b"%d\n" % len(head), head,
                            *(values.tobytes() for _, _, values, _, _ in stored)]))


def sealed(body: bytes) -> bytes:
    """A state with this body: the magic and the checksum before it."""
    return _MAGIC + b"%08x\n" % zlib.crc32(body) + body


def decoded(make: Callable[[str, str], CorrectedTarget], data: bytes) -> CorrectedTarget:
    """
    The target that encoded() made `data` of; StateError when these are not such bytes.

    `make`: a new target from its file system and its name.
    """
    start = len(_MAGIC) + 9
    if data[:len(_MAGIC)] != _MAGIC:
        raise StateError(f"a target's saved entries: expected {_MAGIC.decode().strip()!r}, got "
                         f"{bytes(data[:len(_MAGIC)])!r}; the next full sweep makes them anew")
    if data[len(_MAGIC):start] != b"%08x\n" % zlib.crc32(data[start:]):
        raise StateError(f"a target's saved entries ({len(data)} bytes) are damaged: the "
                         "checksum differs; the next full sweep makes them anew")
    try:
        return _decoded_body(make, memoryview(data)[start:])
    except Exception as error:              # whatever these bytes do to json and numpy
        raise StateError(f"a target's saved entries cannot be understood ({error}); the next "
                         "full sweep makes them anew") from None


def _decoded_body(make: Callable[[str, str], CorrectedTarget],
                  body: memoryview) -> CorrectedTarget:
    length, _, _ = bytes(body[:24]).partition(b"\n")
    at = len(length) + 1
    head = json.loads(bytes(body[at:at + int(length)]))
    target = make(head["file_system"], head["target"])
    target.node, target.boot_id = head["node"], head["boot_id"]
    target.entries = head["entries"]
    arrays = _arrays(head["arrays"], body[at + int(length):])
    _fill_readings(target, head, arrays)
    _fill_losses(target, head, arrays)
    _fill_tables(target, head, arrays)
    return target


def _arrays(listed: Any, body: memoryview) -> dict[str, dict[str, tuple[_Array, int]]]:
    """{kind: {name: (numbers, bias)}}."""
    arrays: dict[str, dict[str, tuple[_Array, int]]] = {}
    at = 0
    for kind, name, width, bias, count in listed:
        if width not in _WIDTHS:                # numpy.dtype() takes, or chokes on, much else
            raise ValueError(f"expected one of {' '.join(sorted(_WIDTHS))}, got {width!r}")
        kept = numpy.dtype(width)
        end = at + count * kept.itemsize
        arrays.setdefault(kind, {})[name] = (numpy.frombuffer(body[at:end], kept), bias)
        at = end
    return arrays


def _fill_tables(target: CorrectedTarget, head: Any, arrays: Any) -> None:
    tables, count, based = target.tables, len(head["ids"]), head["based"]
    plain = arrays.get("", {})
    tables.resize(slice(0), count)
    if "_place" in plain:
        tables.need_places()
    tables.base_row[:] = _widened(plain["_base"], I32, count)
    for name, (attribute, dtype) in _PROPERTIES.items():
        column = getattr(tables, attribute)
        if column is not None:
            column[:] = _widened(plain[name], dtype, count)
    tables.used, tables.bases_used = count, based
    if not 0 <= based <= count:
        raise ValueError(f"expected at most {count} with earlier entries")
    columns = tuple((name, kind) for name in head["units"]
                    for kind in ("samples", *arrays.get(f"c {name}", ())) if kind in FIELDS)
    layout = tables.layout = tables.job_ids.layout(head["units"], tuple(dict.fromkeys(columns)))
    numbers = numpy.zeros((count, len(layout.columns)), U64)
    tables.bases = numpy.zeros((based, len(layout.counted_at)), U64)
    for letter, table, rows_of_it, at_of in (
            ("c", numbers, count, layout.at),
            ("b", tables.bases, based, layout.counted_at)):
        for (name, kind), place in at_of.items():
            if kind in arrays.get(f"{letter} {name}", ()):
                table[:, place] = _widened(arrays[f"{letter} {name}"][kind], U64, rows_of_it)
    tables.values.keep(slice(0), count)
    tables.values.widen(len(layout.columns))
    tables.values.put(numpy.arange(count), numbers)
    tables.fill(head["ids"])


def _fill_readings(target: CorrectedTarget, head: Any, arrays: Any) -> None:
    readings = target.readings
    readings.read_at, readings.swept_since = head["read_at"], head["swept_since"]
    readings.cleanup_s, readings.since_boot_s = head["cleanup_s"], head.get("since_boot_s")
    readings.number, readings.whole = head["number"], head["whole"]
    readings.times = array("d", head["readings"])
    # States from before there were these have none.
    readings.ahead = float(head.get("ahead", 0.0))
    readings.aheads = array("d", head.get("aheads", [readings.ahead] * len(readings.times)))
    readings.heard = {machine(node, boot_id): at for node, boot_id, at in head["heard"]}
    readings.past_intervals = [tuple(one) for one in head["intervals"]]
    if head["reading"]:
        readings.open = _open_reading(head["reading"], arrays["r"])


def _fill_losses(target: CorrectedTarget, head: Any, arrays: Any) -> None:
    losses = target.losses
    losses.refused = {one: (since, until) for one, since, until in head.get("refused", ())}
    for at, (began, ended, why, by_expiry) in enumerate(head["gaps"]):
        gap = Gap(began, ended, why, by_expiry=by_expiry)
        gap.spared = arrays["g"][str(at)][0].copy()
        losses.gaps.append(gap)
    losses.doubts = {slot: (began, ended) for slot, began, ended in head["doubts"]}


# ---- the open reading

def _head_of_reading(reading: OpenReading) -> list[Any]:
    return [reading.read_at, reading.full, reading.number, reading.bad, reading.rows,
            [list(key) if key else None for key in reading.done], reading.top, reading.cleared,
            reading.ahead, reading.nameless, reading.since_boot_s]


def _arrays_of_reading(reading: OpenReading, now: _Array) -> list[tuple[str, str, _Array]]:
    arrays = []
    for name, some in (("slots", reading.slots), ("moved", reading.moved),
                       ("same", reading.same)):
        dtype: Any = bool if name == "moved" else I32
        values = numpy.concatenate([*some, numpy.zeros(0, dtype)])
        arrays.append(("r", name, values if name == "moved" else now[values]))
    gains = numpy.concatenate([*reading.gains, NO_GAINS])
    arrays += [("r", name, gains[:, column]) for column, name in enumerate(GAIN_NAMES)]
    for at, (name, dtype) in enumerate(_DOUBTS.items()):
        values = numpy.concatenate([*(one[at] for one in reading.doubts), numpy.zeros(0, dtype)])
        arrays.append(("r", name, values if at else now[values]))
    return arrays


def _open_reading(head: Any, arrays: Any) -> OpenReading:
    read_at, full, number, bad, rows, done, top, cleared, *ahead = head
    reading = OpenReading(read_at, full, number, *(ahead[:1] or [0.0]), *ahead[2:])
    reading.nameless = ahead[1:2] == [True]
    reading.bad, reading.rows, reading.top = bad, rows, tuple(top)
    reading.done = {tuple(key) if key else None for key in done}
    reading.cleared = tuple(cleared) if cleared else None

    def whole(name: str, kind: Any) -> _Array:
        return _widened(arrays[name], kind, len(arrays[name][0]))

    reading.slots, reading.same = [whole("slots", I32)], [whole("same", I32)]
    reading.moved = [whole("moved", bool)]
    reading.gains = [numpy.stack([
        whole(name, I64) if name in arrays else numpy.zeros(len(reading.moved[0]), I64)
        for name in GAIN_NAMES], axis=1)]
    reading.doubts = [tuple(whole(name, kind) for name, kind in _DOUBTS.items())]
    return reading


# ---- numbers in the fewest bytes

def _narrow(values: _Array) -> tuple[_Array, str, int]:
    """(values less a bias in the fewest bytes, their dtype, the bias)."""
    if values.dtype.kind not in "iu" or not len(values):
        return values, values.dtype.str, 0
    low, high = int(values.min()), int(values.max())
    if values.dtype.kind == "u":
        low = 0
    for kind in ("u1", "<u2", "<u4"):
        if high - low < 1 << 8 * numpy.dtype(kind).itemsize:
            return (values - values.dtype.type(low)).astype(kind), kind, low
    return values, values.dtype.str, 0


def _widened(stored: tuple[_Array, int], kind: Any, length: int) -> _Array:
    """`stored` (numbers, bias) as they were."""
    values, bias = stored
    if len(values) != length:
        raise ValueError(f"expected {length} values, got {len(values)}")
    return values.astype(kind) + kind(bias) if bias else values.astype(kind)
