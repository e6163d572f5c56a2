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
renumbered, so that no free ones are stored.
"""

from __future__ import annotations

import json
import zlib
from array import array
from typing import TYPE_CHECKING

import numpy

from iostats.base.errors import StateError
from iostats.harvest.resets.counters import FIELDS, GAIN_NAMES
from iostats.harvest.resets.entries import I32, I64, U64
from iostats.harvest.resets.gaps import Gap
from iostats.harvest.resets.readings import NO_GAINS, OpenReading, make_boot_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional, TypedDict

    from iostats.harvest.resets.entries import Entries
    from iostats.harvest.resets.target import CorrectedTarget
    from iostats.wire.messages.arrays import Array, Integers

    _Arrays = dict[str, dict[str, tuple[Array, int]]]       # {kind: {name: (numbers, bias)}}

    class _Head(TypedDict, total=False):
        file_system: str
        target: str
        node: Optional[str]
        boot_id: Optional[str]
        entries: int
        ids: list[str]
        based: int
        units: dict[str, str]
        arrays: list[tuple[str, str, str, int, int]]
        read_at: Optional[float]
        swept_since: Optional[float]
        cleanup_s: Optional[int]
        since_boot_s: Optional[float]
        instance: Optional[int]
        number: int
        whole: int
        readings: list[float]
        ahead: float
        aheads: list[float]
        heard: list[tuple[Optional[str], Optional[str], float]]
        intervals: list[tuple[float, float]]
        reading: Optional[list[Any]]
        refused: list[tuple[str, float, float]]
        gaps: list[tuple[float, float, str, bool]]
        doubts: list[tuple[int, float, float]]

_MAGIC = b"iostats zeroing 1\n"
_DOUBTS = {"doubtful": I32, "places": I64, "doubtful from": numpy.float64,
           "doubtful to": numpy.float64}
_WIDTHS = {"u1", "<u2", "<u4", *(numpy.dtype(kind).str for kind in (
    U64, I64, I32, numpy.uint8, bool, numpy.float64))}                  # what _narrow() makes


def _list_properties(tables: Entries) -> list[tuple[str, Array, type[Any]]]:
    """[(name of an array in the state, property, its type)]; base_row is computed again."""
    properties: list[tuple[str, Array, type[Any]]] = [
        ("_seen", tables.seen_ns, I64), ("_born", tables.made_ns, I64),
        ("_dated", tables.dated, bool), ("_origin", tables.origin_ns, I64),
        ("_absent", tables.absent, numpy.uint8),
        ("_asleep", tables.forgotten, bool), ("_absent_at", tables.absent_at_s, numpy.float64)]
    if tables.has_places:
        properties += [("_place", tables.place, I64), ("_not_in", tables.not_in, I32)]
    return properties


def encode(target: CorrectedTarget) -> bytes:
    """A target's state as bytes, without its gains."""
    tables, readings, losses = target.tables, target.readings, target.losses
    live, now = tables.renumber_slots()
    based = tables.base_row[live]
    new_base = numpy.full(len(live), -1, I32)
    new_base[based >= 0] = numpy.arange(numpy.count_nonzero(based >= 0), dtype=I32)
    based = based[based >= 0]
    arrays: list[tuple[str, str, Array]] = [
        *(("", name, column[live]) for name, column, _ in _list_properties(tables)),
        ("", "_base", new_base)]
    values, layout = tables.values.get(live), tables.layout
    arrays += [(f"c {name}", kind, values[:, column])
               for (name, kind), column in layout.at.items()]
    if len(based):
        values = tables.bases[based]
        arrays += [(f"b {name}", kind, values[:, column])
                   for (name, kind), column in layout.counted_at.items()]
    arrays += [("g", str(at), numpy.packbits(gap.select_slots(tables.used)[live]))
               for at, gap in enumerate(losses.gaps)]
    if readings.open is not None:
        arrays += _list_arrays(readings.open, now)
    stored = [(kind, name, *_narrow(values)) for kind, name, values in arrays]
    head = json.dumps({
        "file_system": target.file_system, "target": target.target, "node": target.node,
        "boot_id": target.boot_id, "read_at": readings.read_at,
        "swept_since": readings.swept_since, "cleanup_s": readings.cleanup_s,
        "since_boot_s": readings.since_boot_s, "instance": readings.instance,
        "entries": target.entries,
        "number": readings.number, "whole": readings.whole,
        "ahead": readings.ahead_s, "aheads": list(readings.aheads),
        "readings": list(readings.times), "intervals": readings.past_intervals,
        "heard": [(*machine, at) for machine, at in readings.heard.items()],
        "refused": [(job_id, *when) for job_id, when in losses.refused.items()],
        "units": layout.units,
        "gaps": [(gap.began, gap.ended, gap.why, gap.by_expiry) for gap in losses.gaps],
        "reading": None if readings.open is None else _make_head(readings.open),
        "doubts": [(now.item(slot), *when) for slot, when in losses.doubts.items()],
        "ids": tables.ids(live), "based": len(based),
        "arrays": [(kind, name, width, bias, len(values))
                   for kind, name, values, width, bias in stored]}, separators=(",", ":")).encode()
    return seal(b"".join([b"%d\n" % len(head), head,
                          *(values.tobytes() for _, _, values, _, _ in stored)]))


def seal(body: bytes) -> bytes:
    """Return `body` with the magic and the checksum before it."""
    return _MAGIC + b"%08x\n" % zlib.crc32(body) + body


def decode(make: Callable[[str, str], CorrectedTarget], data: bytes) -> CorrectedTarget:
    """
    The target of encode()'s bytes; StateError if they are not valid.  `make`: creates a target
    from its file system and its name.
    """
    start = len(_MAGIC) + 9
    if data[:len(_MAGIC)] != _MAGIC:
        raise StateError(f"a target's saved entries: expected {_MAGIC.decode().strip()!r}, got "
                         f"{bytes(data[:len(_MAGIC)])!r}; the next full sweep replaces them")
    if data[len(_MAGIC):start] != b"%08x\n" % zlib.crc32(data[start:]):
        raise StateError(f"a target's saved entries ({len(data)} bytes) are damaged: the "
                         "checksum differs; the next full sweep replaces them")
    try:
        return _decode_body(make, memoryview(data)[start:])
    except Exception as error:              # whatever these bytes do to json and numpy
        raise StateError(f"a target's saved entries cannot be decoded ({error}); the next "
                         "full sweep replaces them") from None


def _decode_body(make: Callable[[str, str], CorrectedTarget],
                 body: memoryview) -> CorrectedTarget:
    length, _, _ = bytes(body[:24]).partition(b"\n")
    at = len(length) + 1
    head: _Head = json.loads(bytes(body[at:at + int(length)]))
    target = make(head["file_system"], head["target"])
    target.node, target.boot_id = head["node"], head["boot_id"]
    target.entries = head["entries"]
    arrays = _split_arrays(head["arrays"], body[at + int(length):])
    _fill_readings(target, head, arrays)
    _fill_losses(target, head, arrays)
    _fill_tables(target, head, arrays)
    return target


def _split_arrays(listed: list[tuple[str, str, str, int, int]], body: memoryview) -> _Arrays:
    arrays: _Arrays = {}
    at = 0
    for kind, name, width, bias, count in listed:
        if width not in _WIDTHS:                # numpy.dtype() takes, or chokes on, much else
            raise ValueError(f"expected one of {' '.join(sorted(_WIDTHS))}, got {width!r}")
        dtype = numpy.dtype(width)
        end = at + count * dtype.itemsize
        arrays.setdefault(kind, {})[name] = (numpy.frombuffer(body[at:end], dtype), bias)
        at = end
    return arrays


def _fill_tables(target: CorrectedTarget, head: _Head, arrays: _Arrays) -> None:
    tables, count, based = target.tables, len(head["ids"]), head["based"]
    plain = arrays.get("", {})
    tables.resize(slice(0), count)
    if "_place" in plain:
        tables.need_places()
    tables.base_row[:] = _widen(plain["_base"], I32, count)
    for name, column, dtype in _list_properties(tables):
        column[:] = _widen(plain[name], dtype, count)
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
                table[:, place] = _widen(arrays[f"{letter} {name}"][kind], U64, rows_of_it)
    tables.values.select_rows(slice(0), count)
    tables.values.widen(len(layout.columns))
    tables.values.put(numpy.arange(count), numbers)
    tables.fill(head["ids"])


def _fill_readings(target: CorrectedTarget, head: _Head, arrays: _Arrays) -> None:
    readings = target.readings
    readings.read_at, readings.swept_since = head["read_at"], head["swept_since"]
    readings.cleanup_s, readings.since_boot_s = head["cleanup_s"], head.get("since_boot_s")
    readings.instance = head.get("instance")
    readings.number, readings.whole = head["number"], head["whole"]
    readings.times = array("d", head["readings"])
    # States from before there were these have none.
    readings.ahead_s = float(head.get("ahead", 0.0))
    readings.aheads = array("d", head.get("aheads", [readings.ahead_s] * len(readings.times)))
    readings.heard = {make_boot_key(node, boot_id): at for node, boot_id, at in head["heard"]}
    readings.past_intervals = [(until, length) for until, length in head["intervals"]]
    if head["reading"]:
        readings.open = _open_reading(head["reading"], arrays["r"])


def _fill_losses(target: CorrectedTarget, head: _Head, arrays: _Arrays) -> None:
    losses = target.losses
    losses.refused = {job_id: (since, until) for job_id, since, until in head.get("refused", ())}
    for at, (began, ended, why, by_expiry) in enumerate(head["gaps"]):
        gap = Gap(began, ended, why, by_expiry=by_expiry)
        gap.spared = arrays["g"][str(at)][0].copy()
        losses.gaps.append(gap)
    losses.doubts = {slot: (began, ended) for slot, began, ended in head["doubts"]}


# ---- the open reading

def _make_head(reading: OpenReading) -> list[Any]:
    return [reading.read_at, reading.full, reading.number, reading.bad, reading.rows,
            [list(key) if key else None for key in reading.done], reading.top, reading.cleared,
            reading.ahead_s, reading.nameless, reading.since_boot_s, reading.instance]


def _list_arrays(reading: OpenReading, now: Integers) -> list[tuple[str, str, Array]]:
    arrays: list[tuple[str, str, Array]] = []
    for name, columns in (("slots", reading.slots), ("moved", reading.moved),
                          ("same", reading.same)):
        dtype: Any = bool if name == "moved" else I32
        values = numpy.concatenate([*columns, numpy.zeros(0, dtype)])
        arrays.append(("r", name, values if name == "moved" else now[values]))
    gains = numpy.concatenate([*reading.gains, NO_GAINS])
    arrays += [("r", name, gains[:, column]) for column, name in enumerate(GAIN_NAMES)]
    for at, (name, dtype) in enumerate(_DOUBTS.items()):
        values = numpy.concatenate([*(times[at] for times in reading.doubts),
                                    numpy.zeros(0, dtype)])
        arrays.append(("r", name, values if at else now[values]))
    return arrays


def _open_reading(head: list[Any], arrays: dict[str, tuple[Array, int]]) -> OpenReading:
    read_at, full, number, bad, rows, done, top, cleared, *ahead = head
    reading = OpenReading(read_at, full, number, *(ahead[:1] or [0.0]), *ahead[2:])
    reading.nameless = ahead[1:2] == [True]
    reading.bad, reading.rows, reading.top = bad, rows, tuple(top)
    reading.done = {tuple(key) if key else None for key in done}
    reading.cleared = tuple(cleared) if cleared else None

    def whole(name: str, kind: type[Any]) -> Array:
        return _widen(arrays[name], kind, len(arrays[name][0]))

    reading.slots, reading.same = [whole("slots", I32)], [whole("same", I32)]
    reading.moved = [whole("moved", bool)]
    reading.gains = [numpy.stack([
        whole(name, I64) if name in arrays else numpy.zeros(len(reading.moved[0]), I64)
        for name in GAIN_NAMES], axis=1)]
    slots, places, since_s, until_s = (whole(name, kind) for name, kind in _DOUBTS.items())
    reading.doubts = [(slots, places, since_s, until_s)]
    return reading


# ---- numbers in the fewest bytes

def _narrow(values: Array) -> tuple[Array, str, int]:
    """Return (values less a bias in the fewest bytes, their dtype, the bias)."""
    if values.dtype.kind not in "iu" or not len(values):
        return values, values.dtype.str, 0
    low, high = int(values.min()), int(values.max())
    if values.dtype.kind == "u":
        low = 0
    for kind in ("u1", "<u2", "<u4"):
        if high - low < 1 << 8 * numpy.dtype(kind).itemsize:
            return (values - values.dtype.type(low)).astype(kind), kind, low
    return values, values.dtype.str, 0


def _widen(stored: tuple[Array, int], kind: type[Any], length: int) -> Array:
    """The array of `stored` (numbers, bias), as before _narrow()."""
    values, bias = stored
    if len(values) != length:
        raise ValueError(f"expected {length} values, got {len(values)}")
    return values.astype(kind) + kind(bias) if bias else values.astype(kind)
