"""
The exports of one target, read again and again: what of them is kept between two readings.

    for nid in exports:  NID/stats  ->  the same as last time?  ->  client_lives  ->  NidSums

Of each client 64 bits say whether its file has changed, and five numbers and start_time what it has
gained since: some 100 bytes; without start_time (up to 2.14) some 150 more.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from array import array
from collections import namedtuple
from itertools import islice

from iostats.lustre.exports import ClientAmounts, glance, lasting, nid_of
from iostats.storage import client_lives
from iostats.storage.client_lives import NOT_KNOWN, SLACK_NS, Life
from iostats.wire.messages.clients_encoder import (
    LARGEST,
    MAYBE_RESET,
    REMOVED,
    RESET,
    TOO_MANY,
    UNREADABLE,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

MOST_CLIENTS = 100_000             # of one target
MOST_BYTES = 1 << 16               # of one file; real ones have less than 5,000
_READ, _PAGE, _LEAST = 8192, 3500, 64      # see _whole
_UNKNOWN = 2**64 - 1
_NO_MARK = -1                      # hash() is never that
_AT_ONCE = 64                      # files between two looks at the pace
_SAID = 200                        # characters of a name or a file that are shown
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR)

TableReading = namedtuple("TableReading", "losses bad why refused")
TableReading.__doc__ = """
What one reading of a target's exports lacks.

Attributes:
    losses: [(nid or "" for all, one of clients_encoder.LOSSES)].
    bad: directories and files that could not be read or understood; `why`: the first of them.
    refused: why not one of them could be read; "" where one was.
"""


class NidSums:
    """
    What clients have done, added up over targets: five integers for each NID.

    Attributes:
        rows: {nid: its place in each of `columns`}.
        columns: an array for each field of ClientAmounts.
        news: places whose numbers have changed, or that are new, since it was emptied.
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.columns = [array("Q") for _ in ClientAmounts._fields]
        self.news: set[int] = set()

    def add(self, nid: str, amounts: Sequence[int]) -> None:
        row = self.rows.get(nid)
        if row is None:
            row = self.rows[nid] = len(self.rows)
            for column in self.columns:
                column.append(0)
            self.news.add(row)
        if any(amounts):
            self.news.add(row)
            for column, amount in zip(self.columns, amounts):
                column[row] = min(column[row] + amount, LARGEST)


class ClientTable:
    """
    The clients of one target, as they were read last.

    `came_at`: for a target that was not here before: when that was, by both clocks of a reading.

    Attributes:
        is_read: it was read at least once; until then all that is there is older than we know.
        instance: how often the target was started, by its file `instance`; "" where it has none.
        is_stopped: it was, since the last reading: the machine was booted.
        read_from: agent's clock when the last reading, or try, began, seconds since 1970.
        read_ns: when the last reading began and ended, ns of the wall clock.
        rows: {nid: its place}, in the order of the places.
    """

    def __init__(self, came_at: tuple[float, tuple[int, int]] | None = None) -> None:
        self.is_read, self._is_full = came_at is not None, False
        self.instance, self.is_stopped = "", False
        self.read_from, self.read_ns = came_at or (0.0, (0, 0))
        self.rows: dict[str, int] = {}
        self._starts, self._amounts = array("q"), [array("Q") for _ in ClientAmounts._fields]
        # {counter: numbers}, its names and its numbers apart: many files have the same names.
        self._counts: list[tuple[tuple[str, ...], bytes] | None] = []
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._marks = array("q")

    def life(self, row: int) -> Life:
        """What the file of the client at this place said."""
        counts = self._counts[row]
        return Life(self._starts[row], ClientAmounts(*(
            None if column[row] == _UNKNOWN else column[row] for column in self._amounts)),
            None if counts is None else _unpacked(*counts))

    def put(self, nid: str, life: Life, mark: int = _NO_MARK) -> None:
        """Keep a Life; `mark`: of the bytes that said it, where they need no other look."""
        row, counts = self.rows.get(nid), None
        if life.counts is not None:
            names = tuple(life.counts)
            counts = self._names.setdefault(names, names), _packed(life.counts)
        amounts = [_UNKNOWN if one is None else one for one in life.amounts]
        if row is None:
            self.rows[sys.intern(nid)] = len(self.rows)
            self._starts.append(life.start_ns)
            self._marks.append(mark)
            self._counts.append(counts)
            for column, amount in zip(self._amounts, amounts):
                column.append(amount)
            return
        self._starts[row], self._marks[row], self._counts[row] = life.start_ns, mark, counts
        for column, amount in zip(self._amounts, amounts):
            column[row] = amount

    def _forget(self, nids: Iterable[str]) -> None:
        """Their files are gone."""
        gone = set(nids)
        kept = [(nid, row) for nid, row in self.rows.items() if nid not in gone]
        rows = [row for _, row in kept]
        self.rows = {nid: place for place, (nid, _) in enumerate(kept)}
        self._starts, self._marks = (array("q", [column[row] for row in rows])
                                     for column in (self._starts, self._marks))
        self._counts = [self._counts[row] for row in rows]
        self._amounts = [array("Q", [column[row] for row in rows]) for column in self._amounts]

    def not_read(self) -> None:
        """The target could not be read: what comes in before it can is not known."""
        for column in self._amounts:
            column[:] = array("Q", [_UNKNOWN]) * len(column)
        self._marks[:] = array("q", [_NO_MARK]) * len(self._marks)
        self._counts = [None] * len(self._counts)

    def read(self, directory: str, is_restarted: bool, sums: NidSums,
             rest: Callable[[], object] = lambda: None,
             wall_ns: Callable[[], int] = time.time_ns) -> TableReading:
        """
        Read `directory`/NID/stats of all clients; what they gained goes to `sums`.

        `is_restarted`: the target was started since the last reading; `rest`: called now and then;
        `wall_ns`: the clock of start_time.  OSError where the directory cannot be read.
        """
        reading = _Reading(self, directory, is_restarted, sums)
        began_ns = wall_ns()
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            listed = os.listdir(handle)
            # What a listing does not show may be there all the same: that of /proc misses entries
            # while others are removed.
            listed += self.rows.keys() - set(listed)
            self._read_files(handle, listed, reading, rest)
            if not self.is_read:
                self._read_files(handle, list(set(os.listdir(handle)) - set(listed)), reading, rest)
        finally:
            os.close(handle)
        if reading.removed:
            self._forget(reading.removed)
        self.is_read, self._is_full = True, reading.is_full
        self.read_ns = began_ns, wall_ns()
        return reading.result()

    def _read_files(self, directory: int, names: Sequence[str], reading: _Reading,
                    rest: Callable[[], object]) -> None:
        """Nine files in ten are the same as last time: this loop is what a sweep costs."""
        rows, marks = self.rows, self._marks
        open_, read, close = os.open, os.read, os.close
        for number, nid in enumerate(names, 1):
            if not number % _AT_ONCE:
                rest()
            try:
                file = open_(nid + "/stats", _FLAGS, dir_fd=directory)
                try:
                    data = read(file, _READ)
                    if len(data) > _PAGE:
                        data = _whole(file, data)
                finally:
                    close(file)
            except OSError as error:
                reading.failed(nid, error)
                continue
            reading.read += 1
            mark, row = hash(lasting(data)), rows.get(nid)
            if row is None or marks[row] != mark:
                reading.changed(nid, row, data, mark)

    def kept(self) -> tuple[dict[str, Any], list[array[int]]]:
        """(what can be JSON, arrays), of which of_kept makes it again; the rows are apart."""
        forms: dict[tuple[str, ...], int] = {}
        places, numbers = array("H"), array("q")
        for one in self._counts:
            places.append(0 if one is None else forms.setdefault(one[0], len(forms) + 1))
            if one is not None:
                numbers.frombytes(one[1])
        return ({"is_read": self.is_read, "is_full": self._is_full, "instance": self.instance,
                 "is_stopped": self.is_stopped, "read_from": self.read_from,
                 "read_ns": self.read_ns, "forms": list(forms)},
                [self._starts, *self._amounts, places, numbers])

    @classmethod
    def of_kept(cls, head: Mapping[str, Any], nids: Sequence[str],
                arrays: Iterator[memoryview]) -> ClientTable:
        """The ClientTable of these; ValueError, LookupError, TypeError or StopIteration."""
        first, until = head["read_ns"]
        one = cls((float(head["read_from"]), (int(first), int(until))))
        one.is_read, one._is_full = bool(head["is_read"]), bool(head["is_full"])
        one.instance, one.is_stopped = str(head["instance"]), bool(head["is_stopped"])
        one.rows = {sys.intern(nid): row for row, nid in enumerate(nids)}
        one._starts = array_of("q", next(arrays), len(nids))
        one._amounts = [array_of("Q", next(arrays), len(nids)) for _ in one._amounts]
        one._marks = array("q", [_NO_MARK]) * len(nids)
        places, numbers, at = array_of("H", next(arrays), len(nids)), array("q"), 0
        numbers.frombytes(next(arrays))
        forms = [tuple(map(sys.intern, names)) for names in head["forms"]]
        for place in places:
            if not place:
                one._counts.append(None)
                continue
            names = one._names.setdefault(forms[place - 1], forms[place - 1])
            size = sum(map(_size, names))
            one._counts.append((names, numbers[at:at + size].tobytes()))
            at += size
        if at != len(numbers):
            raise ValueError(f"expected {at} numbers, got {len(numbers)}")
        return one

    def is_older(self, start_ns: int) -> bool:
        """A file that is new here was there before the last reading, which missed it."""
        return 0 < start_ns < self.read_ns[0] - 2 * SLACK_NS

    @property
    def is_full(self) -> bool:
        """The last reading left clients out: one that is new is not known to be."""
        return self._is_full


class _Reading:
    """One reading of a ClientTable: what came in, and what it lacks."""

    def __init__(self, table: ClientTable, directory: str, is_restarted: bool,
                 sums: NidSums) -> None:
        self._table, self._directory, self._is_restarted = table, directory, is_restarted
        self._sums, self.read, self.is_full = sums, 0, False
        self.removed: list[str] = []
        self._losses: list[tuple[str, str]] = []
        self._bad, self._why, self._errors, self._is_in_doubt = 0, "", 0, False

    def changed(self, nid: str, row: int | None, data: bytes, mark: int) -> None:
        """These are the bytes of a client's file, and not those of the last reading."""
        table = self._table
        if row is None and nid_of(nid) is None:
            self._note(f"{self._directory}: expected a NID such as 10.0.0.7@tcp, got {_shown(nid)}")
            return
        if row is None and len(table.rows) >= MOST_CLIENTS:
            self.is_full = True
            return
        now = glance(data, f"{self._directory}/{nid}/stats")
        if row is not None:
            gain = client_lives.between(table.life(row), now, self._is_restarted, table.read_ns)
        elif not table.is_read:
            gain = client_lives.first(now)
        elif table.is_full or table.is_older(now.start_ns):
            gain = client_lives.first(now)._replace(why=TOO_MANY if table.is_full else UNREADABLE)
        else:
            gain = client_lives.whole(now)
        table.put(nid, gain.life, _NO_MARK if gain.why else mark)
        self._sums.add(nid, gain.amounts)
        if now.why:
            self._note(now.why)
        if gain.why:
            self._losses.append((nid, gain.why))
            self._is_in_doubt |= gain.why == RESET and not now.start_ns

    def failed(self, nid: str, error: OSError) -> None:
        """A client's file could not be read."""
        table, row = self._table, self._table.rows.get(nid)
        if error.errno in _GONE:
            if row is not None:                     # exports/clear, without a client at the time
                self._is_in_doubt |= not table.life(row).start_ns
                self.removed.append(nid)
                self._losses.append((nid, REMOVED))
        elif row is not None or (nid_of(nid) is not None and len(table.rows) < MOST_CLIENTS):
            self._errors += 1
            self._note(f"{self._directory}/{nid}/stats: {error.strerror or error}")
            table.put(nid, client_lives.unreadable(table.life(row)).life if row is not None
                      else Life(0, NOT_KNOWN, None))
            self._sums.add(nid, client_lives.NOTHING)
            self._losses.append((nid, UNREADABLE))

    def _note(self, why: str) -> None:
        self._bad, self._why = self._bad + 1, self._why or why

    def result(self) -> TableReading:
        losses = self._losses
        if self._is_restarted:                      # which is said of all of them
            losses = [(nid, why) for nid, why in losses if why not in (REMOVED, RESET)]
        elif self._is_in_doubt:
            # It may have been exports/clear, and others may have overtaken their old numbers.
            losses = [*losses, ("", MAYBE_RESET)]
        if self.is_full:
            losses = [*losses, ("", TOO_MANY)]
        return TableReading(losses, self._bad, self._why,
                            self._why if self._errors and not self.read else "")


def _whole(file: int, data: bytes) -> bytes:
    """
    All of a file of which a read gave so much; OSError for one that does not end.

    A read gives one of the kernel's pages at most, and less only at the end or where the next line
    has no room (seq_read_iter(), fs/seq_file.c): what is shorter than a page and a line is all.
    """
    parts = [data]
    while True:
        part = os.read(file, _READ)
        if not part:
            return b"".join(parts)
        parts.append(part)
        if len(parts) * _LEAST > MOST_BYTES or sum(map(len, parts)) > MOST_BYTES:
            raise OSError(errno.EFBIG, f"expected at most {MOST_BYTES} bytes: it does not end")


def _shown(name: str) -> str:
    return repr(name if len(name) <= _SAID else name[:_SAID] + "...")


def _packed(counts: Mapping[str, tuple[int, ...]]) -> bytes:
    return array("q", [number for numbers in counts.values() for number in numbers]).tobytes()


def _unpacked(names: Sequence[str], packed: bytes) -> dict[str, tuple[int, ...]]:
    """{counter: numbers} of _packed."""
    numbers = iter(array("q", packed))
    return {name: tuple(islice(numbers, _size(name))) for name in names}


def _size(name: str) -> int:
    """How many numbers a counter has in Glance.counts."""
    return 4 if name in client_lives.SUMMED else 1


def array_of(code: str, data: memoryview, length: int) -> array[int]:
    """The array of bytes that were kept; ValueError where it has another length."""
    found: array[int] = array(code)
    found.frombytes(data)
    if len(found) != length:
        raise ValueError(f"expected {length} numbers, got {len(found)}")
    return found
