"""
Changed and removed entries of a job_stats file since the last sweep.

    for piece in job_stats.split_entries(chunks):
        if prints.changed(piece):
            try: ... parse(piece) ...
            except JobStatsSyntaxError: prints.refuse(piece)
    removed = prints.finish()              or abandon(), where the file could not be read on

Of each entry 64 bits and its id are stored, in the order of the file: some 20 bytes.  The kernel
prints entries in the order in which they were made, so that nearly all stand where they stood, and
are compared by going along; what stands elsewhere is found all the same.

An entry that is twice in one read (expired and made again while it was read: the old one, then the
new one) is two entries here, each compared by itself.
"""

from __future__ import annotations

from array import array

from iostats.lustre import job_stats
from iostats.lustre.quoted_ids import QuotedIds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NEAR = 256                         # entries that may have been removed between two others
_REFUSED = -1                       # hash() is never that


class _EntryHashes:
    """The hashes of entries in the order of the file (`marks`), and their ids, joined, in `ids`."""

    __slots__ = ("ids", "lengths", "marks")

    def __init__(self) -> None:
        self.marks, self.lengths, self.ids = array("q"), array("H"), bytearray()

    def add(self, mark: int, name: bytes) -> None:
        self.marks.append(mark)
        self.lengths.append(len(name))
        self.ids += name

    def extend(self, other: _EntryHashes, begin: int, end: int, at: int) -> int:
        """
        Append the entries `begin` to `end` of another one, whose ids begin at `at`; return their
        end.
        """
        lengths = other.lengths[begin:end]
        until = at + sum(lengths)
        self.marks += other.marks[begin:end]
        self.lengths += lengths
        self.ids += other.ids[at:until]
        return until

    def names(self, begin: int, end: int, at: int) -> Iterator[bytes]:
        """The ids of consecutive entries; the text of the first id begins at `at`."""
        for length in self.lengths[begin:end]:
            yield bytes(self.ids[at:at + length])
            at += length


class Fingerprints:
    """
    The entries of one file in the last sweep, as hashes.

    Attributes:
        is_new: the file was not read to its end yet: nothing can be compared.
        quotes: the QuotedIds of the file.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset: every entry is new."""
        self.is_new = True
        self._last, self.quotes = _EntryHashes(), QuotedIds()
        self._begin()

    def _begin(self) -> None:
        self._now = _EntryHashes()
        self._new: set[int] = set()             # of this sweep
        self._known: set[int] | None = None     # of the last one, once it is asked
        # Up to `_at` entries of the last sweep were passed; those from `_from` on are the same, and
        # are not in `_now` yet.  Where the ids of each begin.
        self._from, self._from_id, self._at = 0, 0, 0
        self._passed: list[tuple[int, int, int]] = []       # (begin, end, id) of what was not seen

    def is_changed(self, piece: bytes) -> bool:
        """True where the last sweep had no entry that is the same to the last byte."""
        # Python's hash of bytes is SipHash with a secret key: users cannot cause collisions.
        mark, at, last = hash(piece), self._at, self._last.marks
        if at < len(last) and last[at] == mark:
            self._at = at + 1
            return False
        if self._known is None:
            self._known = set(last)
        if mark in self._known:
            self._go_to(piece, mark)
            return False
        if mark in self._new:
            return False
        name = job_stats.parse_id(piece, self.quotes.is_printed_by_kernel)
        if name is not None:
            self._flush()
            self._new.add(mark)
            self._now.add(mark, name)
            length = self._last.lengths[self._at] if self._at < len(last) else -1
            if length == len(name) and self._last.ids[self._from_id:self._from_id + length] == name:
                self._from, self._from_id = self._at + 1, self._from_id + length
                self._at += 1                   # here it stood
        return True

    def _flush(self) -> None:
        """Put down what stood where it was."""
        if self._from < self._at:
            self._from_id = self._now.extend(self._last, self._from, self._at, self._from_id)
            self._from = self._at

    def _go_to(self, piece: bytes, mark: int) -> None:
        """
        Find an entry that is not at the expected position: skip forward to it, or note it as new or
        moved.
        """
        self._flush()
        try:
            skipped = self._last.marks[self._at:self._at + _NEAR].index(mark)
        except ValueError:
            self._now.add(mark, job_stats.parse_id(piece, self.quotes.is_printed_by_kernel) or b"")
            return
        self._pass(self._at + skipped)
        self._at += 1

    def _pass(self, end: int) -> None:
        """
        Skip the entries of the last sweep up to `end`; `finish` returns those that did not appear
        elsewhere.
        """
        if self._at < end:
            self._passed.append((self._at, end, self._from_id))
            self._from_id += sum(self._last.lengths[self._at:end])
            self._from = self._at = end

    def refuse(self, piece: bytes) -> None:
        """The piece that has just changed could not be parsed: the next sweep parses it again."""
        mark = hash(piece)
        if mark in self._new:
            self._new.remove(mark)
            self._now.marks[-1] = _REFUSED      # its id is there, and like no piece

    def finish(self) -> list[str]:
        """
        End a file that was read completely: return the ids of the last sweep that were removed.
        """
        self.is_new = False
        self._flush()
        self._pass(len(self._last.marks))
        removed: set[bytes] = set()
        for begin, end, at in self._passed:
            removed.update(self._last.names(begin, end, at))
        now = self._now
        if removed:
            removed.difference_update(now.names(0, len(now.marks), 0))
        self._last = now
        self._begin()
        return sorted(job_id.decode() for job_id in removed)

    def abandon(self) -> None:
        """End a file that was read partly: no entry counts as removed; changes stay."""
        if self.is_new:                         # the next reading is to have all of it
            return self.clear()
        self._flush()
        self._pass(len(self._last.marks))
        for begin, end, at in self._passed:
            self._now.extend(self._last, begin, end, at)
        self._last = self._now
        self._begin()
