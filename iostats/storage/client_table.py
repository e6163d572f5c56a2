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
from operator import sub

from iostats.lustre.exports import (
    ClientAmounts,
    elapsed_at,
    glance,
    lasting,
    nid_of,
    usual_amounts,
)
from iostats.storage import client_lives
from iostats.storage.client_lives import NOT_KNOWN, SLACK_NS, Life
from iostats.storage.kept_counts import KeptCounts
from iostats.storage.nid_sums import FIELDS, NidSums, array_of
from iostats.wire.messages.clients_encoder import (
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
_NO_MARK, _CUT = -1, -3            # no file has the one, and no mark that is kept the other
_AT_ONCE = 64                      # files between two looks at the pace
_SAID = 200                        # characters of a name or a file that are shown
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR)

TableReading = namedtuple("TableReading", "losses bad why refused first_ns")
TableReading.__doc__ = """
What one reading of a target's exports lacks.

Attributes:
    losses: [(nid or "" for all, one of clients_encoder.LOSSES, when the counters began again by
        start_time, or 0)].
    bad: directories and files that could not be read or understood; `why`: the first of them.
    refused: why not one of them could be read; "" where one was.
    first_ns: the first start_time of files that are new, or began again; 0 for none.
"""


class ClientTable:
    """
    The clients of one target, as they were read last.

    `came_at`: for a target that was not here before: when that was, by both clocks of a reading.

    Attributes:
        is_read: it was read at least once; until then all that is there is older than we know.
        instance: how often the target was started, by its file `instance`; "" where it has none.
        directories: where its files may be, as of LocalTarget.
        started_at: by when it was started, s since the boot; None where that is not known.
        is_stopped: it was, since the last reading: the machine was booted.
        read_from: agent's clock when the last reading, or try, began, seconds since 1970.
        read_ns: when the last reading, or try, began and ended, ns of the wall clock.
        rows: {nid: its place}, in the order of the places.
    """

    def __init__(self, came_at: tuple[float, tuple[int, int]] | None = None) -> None:
        self.is_read, self._is_full = came_at is not None, False
        self._has_gap = False
        self.instance, self.is_stopped = "", False
        self.directories: list[str] = []
        self.started_at: float | None = None
        self.read_from, self.read_ns = came_at or (0.0, (0, 0))
        self.rows: dict[str, int] = {}
        self._starts, self._amounts = array("q"), array("Q")        # five of each client
        self._counts, self._marks = KeptCounts(), array("q")

    def life(self, row: int) -> Life:
        """What the file of the client at this place said."""
        return Life(self._starts[row], ClientAmounts(*(
            None if one == _UNKNOWN else one
            for one in self._amounts[row * FIELDS:row * FIELDS + FIELDS])),
            self._counts.of(row))

    def put(self, nid: str, life: Life, mark: int = _NO_MARK) -> None:
        """Keep a Life; `mark`: of the bytes that said it, where they need no other look."""
        row = self.rows.get(nid)
        amounts = array("Q", [_UNKNOWN if one is None else one for one in life.amounts])
        if row is None:
            self.rows[sys.intern(nid)] = _number(len(self.rows))
            self._starts.append(life.start_ns)
            self._marks.append(mark)
            self._counts.put(len(self._counts), life.counts)
            self._amounts += amounts
            return
        self._starts[row], self._marks[row] = life.start_ns, mark
        self._counts.put(row, life.counts)
        self._amounts[row * FIELDS:row * FIELDS + FIELDS] = amounts

    def go_on(self, row: int, start_ns: int, amounts: list[int], mark: int) -> list[int] | None:
        """
        What the client at this place gained in the life that it was in; None where it is another
        one, or something is not known, so that client_lives is to be asked.
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

    def _forget(self, nids: Iterable[str]) -> None:
        """Their files are gone."""
        gone = set(nids)
        kept = [(nid, row) for nid, row in self.rows.items() if nid not in gone]
        rows = [row for _, row in kept]
        self.rows = {nid: _number(place) for place, (nid, _) in enumerate(kept)}
        self._starts, self._marks = (array("q", [column[row] for row in rows])
                                     for column in (self._starts, self._marks))
        self._counts.keep(rows)
        self._amounts = array("Q", [self._amounts[row * FIELDS + place] for row in rows
                                    for place in range(FIELDS)])

    def not_read(self, at_ns: int) -> None:
        """The target could not be read: what comes in before it can is not known."""
        self.read_ns, self._has_gap = (at_ns, at_ns), True
        self._amounts[:] = array("Q", [_UNKNOWN]) * len(self._amounts)
        self._marks[:] = array("q", [_NO_MARK]) * len(self._marks)
        self._counts.forget()

    def read(self, directory: str, is_restarted: bool, sums: NidSums,
             rest: Callable[[], object] = lambda: None,
             wall_ns: Callable[[], int] = time.time_ns) -> TableReading:
        """
        Read `directory`/NID/stats of all clients; what they gained goes to `sums`.

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
            listed += self.rows.keys() - set(listed)
            self._read_files(handle, listed, reading, rest)
            if not self.is_read:
                self._read_files(handle, list(set(os.listdir(handle)) - set(listed)), reading, rest)
        finally:
            os.close(handle)
        if reading.removed:
            self._forget(reading.removed)
        self.is_read, self._is_full, self._has_gap = True, reading.is_full, False
        self.read_ns = began_ns, wall_ns()
        return reading.result()

    def _read_files(self, directory: int, names: Sequence[str], reading: _Reading,
                    rest: Callable[[], object]) -> None:
        """Nine files in ten are the same as last time: this loop is what a sweep costs."""
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
                        data = _whole(file, data)
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
                elapsed = elapsed_at(data) if data.startswith(b"start_time", start) else 0
            mark = (hash(data[start:elapsed]) ^ hash(data[data.find(b"\n", elapsed):]) if elapsed
                    else hash(lasting(data)) if data.endswith(b"\n") else _CUT)
            row = rows.get(nid)
            if row is None or marks[row] != mark:
                reading.changed(nid, row, data, mark)

    def kept(self) -> tuple[dict[str, Any], list[array[int]]]:
        """(what can be JSON, arrays), of which of_kept makes it again; the rows are apart."""
        names, counts = self._counts.kept()
        return ({"is_read": self.is_read, "is_full": self._is_full, "has_gap": self._has_gap,
                 "instance": self.instance, "directories": self.directories,
                 "is_stopped": self.is_stopped, "started_at": self.started_at,
                 "read_from": self.read_from, "read_ns": self.read_ns, "forms": names},
                [self._starts, self._amounts, *counts])

    @classmethod
    def of_kept(cls, head: Mapping[str, Any], nids: Sequence[str],
                arrays: Iterator[memoryview]) -> ClientTable:
        """The ClientTable of these; ValueError, LookupError, TypeError or StopIteration."""
        first, until = head["read_ns"]
        one = cls((float(head["read_from"]), (int(first), int(until))))
        one.is_read, one._is_full = bool(head["is_read"]), bool(head["is_full"])
        one._has_gap = bool(head["has_gap"])
        one.instance, one.is_stopped = str(head["instance"]), bool(head["is_stopped"])
        one.directories, started_at = [*map(str, head["directories"])], head["started_at"]
        one.started_at = None if started_at is None else float(started_at)
        one.rows = {sys.intern(nid): _number(row) for row, nid in enumerate(nids)}
        one._starts = array_of("q", next(arrays), len(nids))
        one._amounts = array_of("Q", next(arrays), len(nids) * FIELDS)
        one._marks = array("q", [_NO_MARK]) * len(nids)
        one._counts = KeptCounts.of_kept(head["forms"], len(nids), arrays)
        return one

    def is_next(self, instance: str) -> bool:
        """Whether a target that has this `instance` was started once since it was read last."""
        return bool(instance and self.instance) and int(instance) == int(self.instance) + 1

    def start_ns(self, nid: str) -> int:
        """When a client's file began; 0 where it does not show that, or is gone."""
        row = self.rows.get(nid)
        return 0 if row is None else self._starts[row]

    def why_not_new(self, start_ns: int, is_restarted: bool) -> str:
        """
        Why a file that is new here may have been there at the last reading, or try; "" where it
        was not.
        """
        is_older = not is_restarted and 0 < start_ns < self.read_ns[0] - 2 * SLACK_NS
        return TOO_MANY if self._is_full else UNREADABLE if self._has_gap or is_older else ""


class _Reading:
    """One reading of a ClientTable: what came in, and what it lacks."""

    def __init__(self, table: ClientTable, directory: str, is_restarted: bool,
                 sums: NidSums, began_ns: int) -> None:
        self._table, self._directory, self._is_restarted = table, directory, is_restarted
        self._sums, self.read, self.is_full = sums, 0, False
        self._began_ns, self.removed, self._new = began_ns, list[str](), set[str]()
        self._losses: list[tuple[str, str, int]] = []
        self._first_ns = 0
        self._bad, self._why, self._errors = 0, "", 0

    def changed(self, nid: str, row: int | None, data: bytes, mark: int) -> None:
        """These are the bytes of a client's file, and not those of the last reading."""
        table = self._table
        if row is None and nid_of(nid) is None:
            self._note(f"{self._directory}: expected a NID such as 10.0.0.7@tcp, got {_shown(nid)}")
            return
        if row is None and len(table.rows) >= MOST_CLIENTS:
            self.is_full = True
            return
        if row is not None:                         # nearly always
            usual = usual_amounts(data)
            gained = None if usual is None else table.go_on(row, *usual, mark)
            if gained is not None:
                self._sums.add(nid, gained)
                return
        now = glance(data, f"{self._directory}/{nid}/stats")
        if row is not None:
            gain = client_lives.between(table.life(row), now, self._is_restarted, table.read_ns)
        elif not table.is_read:
            gain = client_lives.first(now)
        elif why := table.why_not_new(now.start_ns, self._is_restarted):
            gain = client_lives.first(now)._replace(why=why)
        else:
            gain = client_lives.whole(now)
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
        """A client's file could not be read."""
        table, row = self._table, self._table.rows.get(nid)
        if error.errno in _GONE:
            if row is not None:                     # exports/clear, without a client at the time
                self.removed.append(nid)
                self._losses.append((nid, REMOVED, 0))
        elif row is not None or (nid_of(nid) is not None and len(table.rows) < MOST_CLIENTS):
            self._errors += 1
            self._note(f"{self._directory}/{nid}/stats: {error.strerror or error}")
            table.put(nid, client_lives.unreadable(table.life(row)).life if row is not None
                      else Life(0, NOT_KNOWN, None))
            self._sums.add(nid, client_lives.NOTHING)
            self._losses.append((nid, UNREADABLE, 0))

    def _note(self, why: str) -> None:
        self._bad, self._why = self._bad + 1, self._why or why

    def result(self) -> TableReading:
        losses, table = self._losses, self._table
        starts = [start_ns for _, why, start_ns in losses if why == RESET]
        new, covered_ns = self._new, 0
        if self._is_restarted:                      # which is said of all of them
            losses = [one for one in losses if one[1] not in (REMOVED, RESET)]
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
                            self._first_ns)

    def _may_all_be_reset(self) -> bool:
        """
        Whether exports/clear may be what began files again: it leaves out none.  So it was not
        where another file goes on, and no file began again, or went, while this reading did.
        """
        table, why_of = self._table, {nid: why for nid, why, _ in self._losses}
        ended = [nid for nid, why in why_of.items() if why in (RESET, REMOVED)]
        goes_on = any(table.start_ns(nid) and nid not in why_of
                      for nid in table.rows.keys() - self._new)
        return bool(ended) and not (goes_on and all(
            0 < table.start_ns(nid) < self._began_ns - SLACK_NS for nid in ended))


def read_file(directory: int, nid: str) -> bytes:
    """The bytes of NID/stats in an open directory; OSError."""
    file = os.open(nid + "/stats", _FLAGS, dir_fd=directory)
    try:
        data = os.read(file, _READ)
        return _whole(file, data) if len(data) > _PAGE else data
    finally:
        os.close(file)


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


_numbers: list[int] = []


def _number(place: int) -> int:
    """This very number, one for all tables: each is 32 bytes, and they have the same places."""
    if place >= len(_numbers):
        _numbers.extend(range(len(_numbers), place + 1))
    return _numbers[place]


def _shown(name: str) -> str:
    return repr(name if len(name) <= _SAID else name[:_SAID] + "...")
