"""
The exports of one target, read at each sweep: the state between two readings.

    for nid in exports:  NID/stats  ->  the same as last time?  ->  client_lives  ->  NidSums

Of each client 64 bits say whether its file has changed, and five numbers and start_time what it
gained since: some 100 bytes; without start_time (up to 2.14) some 150 more.

The counters of clients whose files have no start_time are stored as they were read last: {counter:
numbers} of each client, the numbers of all one after the other, since nearly all clients have the
same counters, and go on having them, so that a row is written where it stood.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from array import array
from operator import sub

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.exports import (
    ClientAmounts,
    find_elapsed_time,
    parse_client_file,
    parse_nid,
    parse_usual_amounts,
    strip_time,
)
from iostats.storage import client_lives
from iostats.storage.client_lives import NOT_KNOWN, SLACK_NS, Life
from iostats.storage.nid_sums import FIELDS, NidSums, make_array
from iostats.wire.messages.clients_encoder import (
    MAYBE_RESET,
    NOT_SEEN,
    REMOVED,
    RESET,
    TOO_MANY,
    UNREADABLE,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Optional, TypedDict

    Counts = Mapping[str, tuple[int, ...]]

    class StoredTable(TypedDict, total=False):
        """A ClientTable as JSON, without its arrays; `unread` is not in older ones."""

        is_read: bool
        is_full: bool
        unread: list[str]
        instance: str
        directories: list[str]
        is_stopped: bool
        started_at: Optional[float]
        read_from: float
        read_ns: tuple[int, int]
        forms: list[tuple[str, ...]]


SUMMED = ("read_bytes", "write_bytes")  # have four numbers: samples, min, max, sum; others one
_MOST_FORMS = 60_000
_LEAST_WASTE = 10_000


class StoredCounts:
    """The ClientFile.counts of the rows of a ClientTable; None if unknown."""

    def __init__(self) -> None:
        self._numbers, self._places, self._forms = array("q"), array("I"), array("H")
        self._names: list[tuple[str, ...]] = [()]                  # of the forms; 0: not known
        self._form_of: dict[tuple[str, ...], int] = {}
        self._waste = 0

    def __len__(self) -> int:
        return len(self._forms)

    def of(self, row: int) -> Optional[dict[str, tuple[int, ...]]]:
        """Return the stored counts of a row; None if it has none."""
        if not self._forms[row]:
            return None
        at, counts = self._places[row], {}
        for name in self._names[self._forms[row]]:
            counts[name] = tuple(self._numbers[at:at + _count_values(name)])
            at += _count_values(name)
        return counts

    def put(self, row: int, counts: Optional[Counts]) -> None:
        """Store the counts of a row; a row number one above the last adds a row."""
        if row == len(self._forms):
            self._forms.append(0)
            self._places.append(0)
        names = () if counts is None else tuple(counts)
        form = 0 if counts is None else self._find_or_add_form(names)
        numbers = [number for values in (counts or {}).values() for number in values]
        if form and form == self._forms[row]:
            at = self._places[row]
            self._numbers[at:at + len(numbers)] = array("q", numbers)
            return
        self._waste += sum(map(_count_values, self._names[self._forms[row]]))
        self._forms[row] = form
        if form:
            self._places[row] = len(self._numbers)
            self._numbers.extend(numbers)
        if self._waste > max(_LEAST_WASTE, len(self._numbers) // 2):
            self.select_rows(range(len(self._forms)))

    def _find_or_add_form(self, names: tuple[str, ...]) -> int:
        form = self._form_of.get(names)
        if form is None and len(self._names) < _MOST_FORMS:
            form = self._form_of[names] = len(self._names)
            self._names.append(names)
        return form or 0

    def select_rows(self, rows: Sequence[int]) -> None:
        """Drop all rows but these, and put them in this order."""
        numbers, places = array("q"), array("I")
        for row in rows:
            at, size = self._places[row], sum(map(_count_values, self._names[self._forms[row]]))
            places.append(len(numbers) if size else 0)
            numbers += self._numbers[at:at + size]
        self._forms = array("H", [self._forms[row] for row in rows])
        self._numbers, self._places, self._waste = numbers, places, 0

    def clear(self) -> None:
        """Mark the counts of all rows as unknown."""
        self._forms[:] = array("H", bytes(2 * len(self._forms)))
        self._numbers, self._waste = array("q"), 0

    def to_stored(self) -> tuple[list[tuple[str, ...]], list[array[int]]]:
        """Return (names of the forms, arrays); from_stored() is the inverse."""
        return self._names, [self._forms, self._places, self._numbers]

    @classmethod
    def from_stored(cls, names: Sequence[Sequence[str]], rows: int,
                    arrays: Iterator[memoryview]) -> StoredCounts:
        """Restore the StoredCounts; ValueError, TypeError, LookupError or StopIteration if damaged.
        """
        counts = cls()
        counts._names = [tuple(form_names) for form_names in names]
        if counts._names[:1] != [()] or not all(type(name) is str for form_names in names
                                                for name in form_names):
            raise ValueError("expected names of counters")
        counts._form_of = {form_names: form for form, form_names in enumerate(counts._names)
                           if form}
        counts._forms = make_array("H", next(arrays), rows)
        counts._places = make_array("I", next(arrays), rows)
        counts._numbers.frombytes(next(arrays))
        for form, at in zip(counts._forms, counts._places):
            if form and at + sum(map(_count_values, counts._names[form])) > len(counts._numbers):
                raise ValueError("expected more numbers of counters")
        return counts


def _count_values(name: str) -> int:
    return 4 if name in SUMMED else 1


MOST_CLIENTS = 100_000             # of one target
MOST_BYTES = 1 << 16               # of one file; real ones have less than 5,000
_READ, _PAGE, _LEAST = 8192, 3500, 64      # see _whole
_UNKNOWN = 2**64 - 1
_NO_MARK, _CUT = -1, -3            # no file has the one, and no stored mark the other
_AT_ONCE = 64                      # files between two checks of the pace
_SAID = 200                        # characters of a name or a file that are shown
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR)


class TableReading(NamedTuple):
    """The gaps in one reading of a target's exports."""

    # [(nid or "" for all, one of clients_encoder.LOSSES, when the counters were reset by
    # start_time, or 0)]
    losses: list[tuple[str, str, int]]
    bad: int        # directories and files that could not be read or understood
    why: str        # the first of them
    refused: str    # why not one of them could be read; "" where one was
    first_ns: int   # the first start_time of files that are new, or were reset; 0 for none
    # NIDs whose files could not be read or understood; what they gain is counted when they can be
    unread: list[str]


class ClientTable:
    """The clients of one target at their last reading.

    `arrived_at`: for a target that was not here before: when that was, by both clocks of a reading.

    Attributes:
        is_read: it was read at least once; until then all that is there is older than we know.
        instance: how often the target was started, by its file `instance`; "" where it has none.
        directories: where its files may be, as of LocalTarget.
        started_at: by when it was started, s since the boot; None if unknown.
        is_stopped: it was, since the last reading: the machine was booted.
        read_from: agent's clock when the last reading began, or the first try, s since 1970.
        read_ns: when the last reading began and ended, ns of the wall clock.
        rows: {nid: its place}, in the order of the places.
        unread: NIDs whose files could not be read in the last reading: of those in `rows` the row
            is that of the reading before; the files of all others began at 0 after it.
    """

    def __init__(self, arrived_at: tuple[float, tuple[int, int]] | None = None) -> None:
        self.is_read, self._is_full = arrived_at is not None, False
        self._has_arrived = self.is_read                # since the last sweep
        self.unread = set[str]()
        self.instance, self.is_stopped = "", False
        self.directories: list[str] = []
        self.started_at: float | None = None
        self.read_from, self.read_ns = arrived_at or (0.0, (0, 0))
        self.rows: dict[str, int] = {}
        self._starts, self._amounts = array("q"), array("Q")        # five of each client
        self._counts, self._marks = StoredCounts(), array("q")

    def get_last_reading(self, row: int) -> Life:
        """Return the last reading of the client in this row."""
        return Life(self._starts[row], ClientAmounts(*(
            None if amount == _UNKNOWN else amount
            for amount in self._amounts[row * FIELDS:row * FIELDS + FIELDS])),
            self._counts.of(row))

    def put(self, nid: str, life: Life, mark: int = _NO_MARK) -> None:
        """Store a Life; `mark`: of its bytes, if the same bytes need no second parse."""
        row = self.rows.get(nid)
        amounts = array("Q", [_UNKNOWN if amount is None else amount for amount in life.amounts])
        if row is None:
            self.rows[sys.intern(nid)] = _format_place(len(self.rows))
            self._starts.append(life.start_ns)
            self._marks.append(mark)
            self._counts.put(len(self._counts), life.counts)
            self._amounts += amounts
            return
        self._starts[row], self._marks[row] = life.start_ns, mark
        self._counts.put(row, life.counts)
        self._amounts[row * FIELDS:row * FIELDS + FIELDS] = amounts

    def continue_life(self, row: int, start_ns: int, amounts: list[int],
                      mark: int) -> list[int] | None:
        """
        Return the gain of the client in this row if its life continues; None if it is another life,
        or something is unknown, so that client_lives has to decide.
        """
        if self._starts[row] != start_ns:
            return None
        at = row * FIELDS
        gained = [*map(sub, amounts, self._amounts[at:at + FIELDS])]
        if min(gained) < 0:                         # also of _UNKNOWN
            return None
        self._amounts[at:at + FIELDS] = array("Q", amounts)
        self._marks[row] = mark
        return gained

    def _remove_clients(self, nids: Iterable[str]) -> None:
        """Remove clients whose files were removed."""
        removed = set(nids)
        remaining = [(nid, row) for nid, row in self.rows.items() if nid not in removed]
        rows = [row for _, row in remaining]
        self.rows = {nid: _format_place(place) for place, (nid, _) in enumerate(remaining)}
        self._starts, self._marks = (array("q", [column[row] for row in rows])
                                     for column in (self._starts, self._marks))
        self._counts.select_rows(rows)
        self._amounts = array("Q", [self._amounts[row * FIELDS + place] for row in rows
                                    for place in range(FIELDS)])

    def read(self, directory: str, is_restarted: bool, sums: NidSums,
             rest: Callable[[], object] = lambda: None,
             wall_ns: Callable[[], int] = time.time_ns) -> TableReading:
        """
        Read `directory`/NID/stats of all clients; their gains are added to `sums`.

        `is_restarted`: the target was started since the last reading; `rest`: called now and then;
        `wall_ns`: the clock of start_time.  OSError where the directory cannot be read.
        """
        began_ns = wall_ns()
        reading = _Reading(self, directory, is_restarted, sums, began_ns)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            listed = os.listdir(handle)
            # What a listing does not show may be there all the same: that of /proc misses entries
            # while others are removed.
            listed += (self.rows.keys() | self.unread) - set(listed)
            self._read_files(handle, listed, reading, rest)
            if not self.is_read:
                self._read_files(handle, list(set(os.listdir(handle)) - set(listed)), reading, rest)
        finally:
            os.close(handle)
        if reading.removed:
            self._remove_clients(reading.removed)
        result = reading.result()
        self.is_read, self._is_full, self.unread = True, reading.is_full, reading.unread
        self._has_arrived = self._has_arrived and bool(result.refused)
        if not result.refused:
            self.read_ns = began_ns, wall_ns()
        return result

    def _read_files(self, directory: int, names: Sequence[str], reading: _Reading,
                    rest: Callable[[], object]) -> None:
        """Read the files: this loop is most of a sweep's cost; nine files in ten are unchanged."""
        rows, marks, elapsed, start = self.rows, self._marks, 0, 0
        open_, read, close = os.open, os.read, os.close
        for number, nid in enumerate(names, 1):
            if not number % _AT_ONCE:
                rest()
            try:
                file = open_(nid + "/stats", _FLAGS, dir_fd=directory)
                try:
                    data = read(file, _READ)
                    if len(data) > _PAGE:
                        data = _read_rest(file, data)
                finally:
                    close(file)
            except OSError as error:
                reading.failed(nid, error)
                continue
            reading.read += 1
            # What lasts: all but the lines of snapshot_time and elapsed_time, which stand at the
            # same place in all files of a release.
            if not data.startswith(b"elapsed_time", elapsed):
                start = data.find(b"\n") + 1
                elapsed = find_elapsed_time(data) if data.startswith(b"start_time", start) else 0
            mark = (hash(data[start:elapsed]) ^ hash(data[data.find(b"\n", elapsed):]) if elapsed
                    else hash(strip_time(data)) if data.endswith(b"\n") else _CUT)
            row = rows.get(nid)
            if row is None or marks[row] != mark:
                reading.changed(nid, row, data, mark)

    def to_stored(self) -> tuple[StoredTable, list[array[int]]]:
        """Return (JSON values, arrays) for from_stored(); the rows are stored apart."""
        names, counts = self._counts.to_stored()
        return ({"is_read": self.is_read, "is_full": self._is_full, "unread": sorted(self.unread),
                 "instance": self.instance, "directories": self.directories,
                 "is_stopped": self.is_stopped, "started_at": self.started_at,
                 "read_from": self.read_from, "read_ns": self.read_ns, "forms": names},
                [self._starts, self._amounts, *counts])

    @classmethod
    def from_stored(cls, head: StoredTable, nids: Sequence[str],
                    arrays: Iterator[memoryview]) -> ClientTable:
        """Restore the ClientTable; ValueError, LookupError, TypeError or StopIteration if damaged.
        """
        first, until = head["read_ns"]
        table = cls((float(head["read_from"]), (int(first), int(until))))
        table.is_read, table._is_full = bool(head["is_read"]), bool(head["is_full"])
        table._has_arrived = False
        table.unread = {*map(str, head.get("unread", ()))}
        table.instance, table.is_stopped = str(head["instance"]), bool(head["is_stopped"])
        table.directories, started_at = [*map(str, head["directories"])], head["started_at"]
        table.started_at = None if started_at is None else float(started_at)
        table.rows = {sys.intern(nid): _format_place(row) for row, nid in enumerate(nids)}
        table._starts = make_array("q", next(arrays), len(nids))
        table._amounts = make_array("Q", next(arrays), len(nids) * FIELDS)
        table._marks = array("q", [_NO_MARK]) * len(nids)
        table._counts = StoredCounts.from_stored(head["forms"], len(nids), arrays)
        return table

    def is_next(self, instance: str) -> bool:
        """Whether a target that has this `instance` was started once since it was read last."""
        return bool(instance and self.instance) and int(instance) == int(self.instance) + 1

    def start_ns(self, nid: str) -> int:
        """
        Return the time at which a client's file was created; 0 if it does not show it, or was
        removed.
        """
        row = self.rows.get(nid)
        return 0 if row is None else self._starts[row]

    def explain_not_new(self, start_ns: int, is_restarted: bool) -> str:
        """
        Why a file that is new here may have been there at the last reading; "" where it was not.
        """
        is_older = not is_restarted and 0 < start_ns < self.read_ns[0] - 2 * SLACK_NS
        return TOO_MANY if self._is_full else "" if not is_older else (
            NOT_SEEN if self._has_arrived else UNREADABLE)


class _Reading:
    """One reading of a ClientTable: the clients' counts, and its losses."""

    def __init__(self, table: ClientTable, directory: str, is_restarted: bool,
                 sums: NidSums, began_ns: int) -> None:
        self._table, self._directory, self._is_restarted = table, directory, is_restarted
        self._sums, self.read, self.is_full = sums, 0, False
        self._began_ns, self.removed, self._new = began_ns, list[str](), set[str]()
        self._losses: list[tuple[str, str, int]] = []
        self._first_ns = 0
        self._bad, self._why, self._errors = 0, "", 0
        self.unread = set[str]()

    def changed(self, nid: str, row: int | None, data: bytes, mark: int) -> None:
        """Handle a client's file whose bytes differ from those of the last reading."""
        table = self._table
        if row is None and parse_nid(nid) is None:
            self._note(
                f"{self._directory}: expected a NID such as 10.0.0.7@tcp, got {_escape_name(nid)}")
            return
        if row is None and len(table.rows) >= MOST_CLIENTS:
            self.is_full = True
            return
        if row is not None:                         # nearly always
            usual = parse_usual_amounts(data)
            gained = None if usual is None else table.continue_life(row, *usual, mark)
            if gained is not None:
                self._sums.add(nid, gained)
                return
        now = parse_client_file(data, f"{self._directory}/{nid}/stats")
        if now.amounts == NOT_KNOWN:
            self._note_unreadable(nid, row, now.why)
            return
        if row is not None:
            gain = client_lives.compare_readings(table.get_last_reading(row), now,
                                                 self._is_restarted,
                                                 table.read_ns)
        elif not table.is_read:
            gain = client_lives.start_unknown_life(now)
        elif nid not in table.unread and (
                why := table.explain_not_new(now.start_ns, self._is_restarted)):
            gain = client_lives.start_unknown_life(now)._replace(why=why)
        else:
            gain = client_lives.start_new_life(now)
        if row is None:
            self._new.add(nid)
        # Not where the last reading may have met the clear: then some of what came since is lost.
        began_again = gain.why == RESET and now.start_ns > table.read_ns[1] + SLACK_NS
        table.put(nid, gain.life, _NO_MARK if gain.why else mark)
        self._sums.add(nid, gain.amounts)
        if now.why:
            self._note(now.why)
        if now.start_ns:
            self._first_ns = min(self._first_ns or now.start_ns, now.start_ns)
        if gain.why:
            self._losses.append((nid, gain.why, now.start_ns if began_again else 0))

    def failed(self, nid: str, error: OSError) -> None:
        """Note that a client's file could not be read."""
        table, row = self._table, self._table.rows.get(nid)
        if error.errno in _GONE:
            if row is not None:
                self.removed.append(nid)
            if row is not None or nid in table.unread:      # exports/clear, without a client then
                self._losses.append((nid, REMOVED, 0))
        elif row is not None or (
                parse_nid(nid) is not None and len(table.rows) + len(self.unread) < MOST_CLIENTS):
            self._errors += 1
            self._note_unreadable(nid, row,
                                  f"{self._directory}/{nid}/stats: {error.strerror or error}")

    def _note_unreadable(self, nid: str, row: int | None, why: str) -> None:
        """Note that a client's file could not be read, or has an unexpected format."""
        self._note(why)
        self.unread.add(nid)
        self._sums.add(nid, client_lives.NOTHING)
        if row is not None and self._is_restarted:
            self.removed.append(nid)                # its file has begun at 0 since
        elif row is None and not self._table.is_read:
            self._table.put(nid, Life(0, NOT_KNOWN, None))

    def _note(self, why: str) -> None:
        self._bad, self._why = self._bad + 1, self._why or why

    def result(self) -> TableReading:
        losses, table = self._losses, self._table
        starts = [start_ns for _, why, start_ns in losses if why == RESET]
        new, covered_ns = self._new, 0
        if self._is_restarted:                      # a loss of all clients
            losses = [loss for loss in losses if loss[1] not in (REMOVED, RESET)]
            new, covered_ns = {*table.rows}, self._first_ns
        elif self._may_all_be_reset():
            # It may have been exports/clear: others may have overtaken their old numbers, or were
            # made since the last reading, and cleared, or removed, before this one.  That was by
            # the last start_time, as it sets that of all files that it leaves.
            covered_ns = 0 if 0 in starts else max(starts, default=0)
            losses = [*((nid, why, covered_ns if why == REMOVED else start_ns)
                        for nid, why, start_ns in losses), ("", MAYBE_RESET, covered_ns)]
        if covered_ns or (starts and losses is self._losses):
            # One that began later may be new, or new and cleared.
            losses = [*losses, *((nid, MAYBE_RESET, table.start_ns(nid)) for nid in new
                                 if table.start_ns(nid) > covered_ns + SLACK_NS)]
        if self.is_full:
            losses = [*losses, ("", TOO_MANY, 0)]
        return TableReading(losses, self._bad, self._why,
                            self._why if self._errors and not self.read else "",
                            self._first_ns, sorted(self.unread))

    def _may_all_be_reset(self) -> bool:
        """
        Whether exports/clear may have reset files: it leaves out none.  So it was not used if
        another file continues, and no file was reset or removed during this reading.
        """
        table, why_of = self._table, {nid: why for nid, why, _ in self._losses}
        ended = [nid for nid, why in why_of.items() if why in (RESET, REMOVED)]
        # One that could not be read before may have been reset before other files were made.
        first_ns = min((table.start_ns(nid) for nid in ended), default=0)
        goes_on = any(0 < table.start_ns(nid) < first_ns and nid not in why_of
                      for nid in table.rows.keys() - self._new - self.unread)
        return bool(ended) and not (goes_on and all(
            0 < table.start_ns(nid) < self._began_ns - SLACK_NS for nid in ended))


def read_file(directory: int, nid: str) -> bytes:
    """The bytes of NID/stats in an open directory; OSError."""
    file = os.open(nid + "/stats", _FLAGS, dir_fd=directory)
    try:
        data = os.read(file, _READ)
        return _read_rest(file, data) if len(data) > _PAGE else data
    finally:
        os.close(file)


def _read_rest(file: int, data: bytes) -> bytes:
    """Read the rest of a long file; OSError for a file without an end.

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


_numbers: list[int] = []


def _format_place(place: int) -> int:
    """Return the shared int of a number: tables have the same places; an int has 32 bytes."""
    if place >= len(_numbers):
        _numbers.extend(range(len(_numbers), place + 1))
    return _numbers[place]


def _escape_name(name: str) -> str:
    return repr(name if len(name) <= _SAID else name[:_SAID] + "...")
