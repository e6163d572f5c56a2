"""
Encodes what an agent read as messages of a sweep: docs/reference/wire.md, packed_sweep.

    BlockEncoder    entries of one target, in columns
    SweepMessages   the messages of one sweep: blocks, until one is long enough; compressed, once

These bytes are spooled and sent as they are.  What is known only when they are sent, the clock,
stands beside them in the params.

A column is an array of unsigned integers, as wide as its largest number: 1, 2, 4 or 8 bytes.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from operator import gt, mul

from iostats.base.errors import JobStatsSyntaxError
from iostats.lustre.job_stats import LONGEST_ID
from iostats.lustre.job_stats_rows import FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from iostats.lustre.job_stats_rows import EntryForm, Row

PROTOCOL, MAGIC = 2, b"iostats sweep 2\n"
LONGEST_WHY = 400
_MOST_ROWS = 1000                  # of a block
_LIMIT = 2**63 - 1                 # sums stay there from 2.17 on; larger ones are none
_HEAD, _OF_COUNTER = 300, 60       # about so many bytes of JSON
COUNTED = ("samples", "sum")       # all that is needed where each entry has a start_time
_TYPES = {array(code).itemsize: code for code in "BHIQ"}


def compute_json_length(ids: Iterable[str]) -> int:
    """Bytes of these ids in JSON, at most: a character that is not ASCII takes six."""
    return sum(3 + (len(text) if text.isascii() else 6 * len(text)) for text in ids)


class BlockEncoder:
    """
    Entries of one reading of a target, in columns.

    `head`: {"file_system", "target", "read_at", "cleanup_s"}.

    Attributes:
        bytes: its length, at most.
        bad, why: how many entries could not be understood, and why the first one.
    """

    _MOST_REFUSED = 1000                # ids of these that are named

    def __init__(self, head: dict[str, object]) -> None:
        self.bytes, self.bad, self.why = _HEAD, 0, ""
        self._head, self._refused = head, dict[str, None]()
        self._form: EntryForm | None = None
        self._rows: dict[str, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def refuse(self, error: JobStatsSyntaxError) -> None:
        """Note an entry that could not be parsed."""
        self.bad += 1
        self.why = self.why or str(error)[:LONGEST_WHY]
        if 0 < len(error.job_id) <= LONGEST_ID and len(self._refused) < self._MOST_REFUSED:
            self._refused[error.job_id] = None
            self.bytes += compute_json_length((error.job_id,))

    def _leave_out(self, bad: Iterable[int]) -> None:
        """
        Refuse entries whose numbers no kernel can have counted: a sum above samples x maximum.
        """
        rows = list(self._rows.values())
        for at in sorted(bad):
            del self._rows[rows[at].job_id]
            self.refuse(JobStatsSyntaxError(
                f"{self._head['file_system']}-{self._head['target']}", rows[at].job_id,
                "a larger one", "a sum of at most samples x maximum, below 2**63"))

    def has_place_for(self, form: EntryForm, row: Row) -> bool:
        """
        False if the entry needs a new block: each id is once in a block, and all rows have one
        form.
        """
        return not self._rows or (form is self._form and len(self._rows) < _MOST_ROWS
                                  and row.job_id not in self._rows)

    def add(self, form: EntryForm, row: Row) -> None:
        """Add a row."""
        if not self._rows:
            self._form = form
            self.bytes += sum(_OF_COUNTER + len(column.name) + len(column.unit)
                              for column in form.columns)
        self._rows[row.job_id] = row
        name = row.job_id
        self.bytes += 16 + 8 * len(row.numbers) + (3 + len(name) if name.isascii()
                                                   else 6 * len(name) + 3)

    def encode_block(self, ended: bool, entries: int = 0, removed: Sequence[str] = (),
                     unreadable: str = "") -> bytes:
        """The block: a line of JSON, and its columns."""
        rows = list(self._rows.values())
        started, seen = [row.started_ns for row in rows], [row.seen_ns for row in rows]
        columns: list[tuple[int, array[int]]] = []
        times = [add_column(columns, started), add_column(columns, seen)]
        counted_fields = COUNTED if all(started) else FIELDS
        numbers = iter(zip(*(row.numbers for row in rows)))
        counters: dict[str, list[Any]] = {}
        bad: set[int] = set()
        for name, unit, fields in self._form.columns if self._form is not None and rows else ():
            values = {field: list(map(int, column)) for field, column in zip(fields, numbers)
                      if field in counted_fields or field == "max"}
            samples = values["samples"]
            if any(samples):
                if "sum" in values and (max(values["sum"]) > _LIMIT or any(map(
                        gt, values["sum"], map(mul, samples, values["max"])))):
                    bad.update(at for at, (total, largest) in enumerate(zip(values["sum"], map(
                        mul, samples, values["max"]))) if total > min(largest, _LIMIT))
                counters[name] = [unit, *(
                    add_column(columns, values[field])
                    if field in fields and field in counted_fields else 0 for field in FIELDS)]
        if bad:
            self._leave_out(bad)
            return self.encode_block(ended, entries, removed, unreadable)
        head = {**self._head, "ended": ended, "entries": entries, "bad": self.bad, "why": self.why,
                "unreadable": unreadable, "ids": list(self._rows), "gone": list(removed),
                "refused": list(self._refused),
                "times": times, "counters": counters}
        return pack_block(head, columns)


def add_column(columns: list[tuple[int, array[int]]], numbers: Sequence[int]) -> int:
    """Add a column to `columns`, and return the bytes of each number in it."""
    bits = max(numbers, default=0).bit_length()
    width = 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8
    column = array(_TYPES[width], numbers)
    if sys.byteorder == "big":
        column.byteswap()
    columns.append((width, column))
    return width


def pack_block(head: dict[str, object], columns: list[tuple[int, array[int]]]) -> bytes:
    """A line of JSON, and the columns: the widest first, equal ones in their order."""
    columns.sort(key=lambda pair: -pair[0])
    return b"".join([_encode_json_line(head), *(column.tobytes() for _, column in columns)])


def _encode_json_line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class SweepMessages:
    """The messages of one sweep; each is stored as soon as its blocks are long enough."""

    def __init__(self, keep: Callable[[bytes], None], head: Callable[[], dict[str, object]],
                 longest: int, magic: bytes = MAGIC) -> None:
        """
        `keep`: stores a message; `head`: makes its head; `longest`: bytes before compression;
        `magic`: its kind.

        Attribute `longest`: as given.
        """
        self._keep, self._head, self.longest, self._magic = keep, head, longest, magic
        self._blocks: list[bytes] = []
        self._bytes = 0

    def has_place_for(self, block: BlockEncoder) -> bool:
        return self._bytes + block.bytes < self.longest

    def add(self, block: BlockEncoder, ended: bool, entries: int = 0, removed: Sequence[str] = (),
            unreadable: str = "") -> None:
        """Add a block; `ended`, `entries`, `removed`, `unreadable`: as in BlockHead."""
        self.add_packed(block.encode_block(ended, entries, removed, unreadable), ended)

    def add_packed(self, block: bytes, ended: bool) -> None:
        """Add a block that is packed already; `ended`: the last of its reading."""
        self._blocks.append(block)
        self._bytes += len(block)
        if self._bytes >= self.longest or not ended:
            self._send(last=False)

    def end(self, last: bool = True) -> None:
        """
        Store the last message, which may have no blocks; `last`: it completes the sweep, and no
        messages of another kind follow.
        """
        self._send(last)

    def _send(self, last: bool) -> None:
        blocks, self._blocks, self._bytes = self._blocks, [], 0
        head = {"protocol": PROTOCOL, **self._head(), "last": last, "blocks": len(blocks)}
        self._keep(zlib.compress(b"".join([self._magic, _encode_json_line(head), *blocks]), 1))
