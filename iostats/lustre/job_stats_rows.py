"""
Many entries of `job_stats`, as rows of numbers: what parse() says, in a third of its time.

    rows = Rows(boot_ns)
    for piece in job_stats.split_entries(chunks):
        form, row = rows.read(piece, path)              or JobStatsSyntaxError

All entries of a file have the same counters in the same order, so that one expression can take the
numbers of a whole entry (an EntryForm).  It is made from an entry that parse() has understood, and
takes what parse() takes in that very form, to the last digit, or nothing: then parse() decides.
"""

from __future__ import annotations

import re

from iostats.base.errors import JobStatsSyntaxError
from iostats.base.named_tuple import NamedTuple
from iostats.lustre import job_stats
from iostats.lustre.stats import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional, Union

    Number = Union[bytes, int]          # both are what int() takes

MOST_COUNTERS = 100
_MOST_FORMS, _MOST_MADE = 8, 64         # that are tried; that are ever made in a process
_LARGEST_TIME, _LARGEST = 2**63 - 1, 2**64 - 1      # of a message


class Row(NamedTuple):
    """The numbers of a job's entry, in the order of an EntryForm."""

    # job_id, started_ns, seen_ns: as of job_stats.JobEntry
    job_id: str
    started_ns: int
    seen_ns: int
    # of each counter of its EntryForm, one after the other, its fields, as an int or as its digits;
    # all are 0 where the counter is
    numbers: tuple[int | bytes, ...]


class EntryColumn(NamedTuple):
    """One counter of an EntryForm."""

    # name, unit: as of job_stats.JobEntry
    name: str
    unit: str
    fields: tuple[str, ...]     # which of FIELDS it has


FIELDS = ("samples", "min", "max", "sum", "sumsq")
_HAS = (1, 4, 5)                        # how many of them a counter has

_SQUARES = rb"1(?:[0-7]\d|8[0-3])\d{17}|\d{1,19}"       # it wraps at 2**64
_LINE = re.compile(rb"[ \t]*(\w{1,100}): *\{ samples: *\d{1,18}, unit: *(\w{1,20})"
                   rb"(, min: *\d{1,19}, max: *\d{1,19}, sum: *\d{1,19}"
                   rb"(, sumsq: *(?:" + _SQUARES + rb")(, hist: \{[^{}\n]*\})?)?)? \}")


class EntryForm:
    """
    The counters of entries, and their order.

    `columns`: [EntryColumn]; `text`: the expression for all their lines; None: nothing is matched.
    """

    def __init__(self, columns: Sequence[EntryColumn], text: bytes | None = None) -> None:
        self.columns = tuple(columns)
        self._match = re.compile(text).fullmatch if text is not None else None

    def numbers(self, piece: bytes, at: int) -> tuple[Number, ...] | None:
        """Parse the lines from `at` on; None if their format is not that of this EntryForm."""
        match = self._match(piece, at) if self._match is not None else None
        return match.groups(b"0") if match is not None else None

    def arranged(self, entry: job_stats.JobEntry) -> tuple[Number, ...] | None:
        """The numbers of a job_stats.JobEntry; None if its counters are not those of this form."""
        numbers: list[Number] = []
        left = len(entry.counters)
        for name, unit, fields in self.columns:
            counter = entry.counters.get(name)
            if counter is None:
                numbers += (0,) * len(fields)
                continue
            values = [number for number in _list_numbers(counter) if number is not None]
            if counter.unit != unit or len(values) != len(fields):
                return None
            numbers += values
            left -= 1
        return None if left else tuple(numbers)


def _list_numbers(counter: Counter) -> list[Optional[int]]:
    return [counter.samples, counter.min, counter.max, counter.sum, counter.sumsq]


def _make_form(lines: bytes) -> EntryForm | None:
    """The EntryForm of entries with such lines; None where one is unusual."""
    columns, parts = [], []
    for line in lines.split(b"\n"):
        match = _LINE.fullmatch(line)
        if not match:
            return None
        name, unit, numbers, squares, hist = match.groups()
        counter = job_stats.name_counter(name, unit)
        columns.append(EntryColumn(*counter, FIELDS[:_HAS[bool(numbers) + bool(squares)]]))
        rest, zero = b"", b""
        if numbers:
            rest = rb", min: *(\d{1,19}), max: *(\d{1,19}), sum: *(\d{1,19})"
            zero = rb", min: *\d{1,19}, max: *\d{1,19}, sum: *\d{1,19}"
        if squares:
            rest += rb", sumsq: *(%s)" % _SQUARES
            zero += rb", sumsq: *\d{1,19}"
        parts.append(rb"[ \t]*%s: *\{ samples: *(?:([1-9]\d{0,17}), unit: *%s%s|0, unit: *%s%s)%s"
                     rb" \}" % (name, unit, rest, unit, zero,
                                rb", hist: \{[^{}\n]*\}" if hist else b""))
    if len({column.name for column in columns}) != len(columns) or len(columns) > MOST_COUNTERS:
        return None
    return EntryForm(columns, rb"\n".join(parts))


class Rows:
    """
    Reads entries, of any files of this machine.

    `boot_ns`: when this machine was booted, as for job_stats.parse().
    """

    def __init__(self, boot_ns: int) -> None:
        self._boot_ns, self._made = boot_ns, 0
        self._forms: list[EntryForm] = []               # the last one that matched is the first

    def read(self, piece: bytes, origin: str,
             kernel_quotes: bool | None = None) -> tuple[EntryForm, Row]:
        """The Row of a piece, and its EntryForm; all as of job_stats.parse()."""
        job_id, started_ns, seen_ns, at = job_stats.parse_head(piece, self._boot_ns, origin,
                                                               kernel_quotes)
        for place, form in enumerate(self._forms):
            numbers = form.numbers(piece, at)
            if numbers is not None:
                if place:
                    self._forms.insert(0, self._forms.pop(place))
                return form, Row(job_id, started_ns, seen_ns, numbers)
        entry = job_stats.parse(piece, self._boot_ns, origin, kernel_quotes)
        check(entry, origin)
        if self._made < _MOST_MADE:
            made = _make_form(piece[at:])
            numbers = made.numbers(piece, at) if made is not None else None
            if made is not None and numbers is not None:
                self._made += 1
                self._forms.insert(0, made)
                del self._forms[_MOST_FORMS:]
                return made, Row(job_id, started_ns, seen_ns, numbers)
        for form in self._forms[:1]:
            numbers = form.arranged(entry)
            if numbers is not None:
                return form, Row(job_id, started_ns, seen_ns, numbers)
        form = EntryForm([EntryColumn(name, counter.unit, FIELDS[:_HAS[(counter.sum is not None)
                                                              + (counter.sumsq is not None)]])
                     for name, counter in entry.counters.items()])
        return form, Row(job_id, started_ns, seen_ns, form.arranged(entry) or ())


def check(entry: job_stats.JobEntry, origin: str) -> None:
    """Raise JobStatsSyntaxError for numbers that are well-formed but impossible."""
    if not 0 <= entry.seen_ns <= _LARGEST_TIME or entry.started_ns > _LARGEST_TIME:
        raise JobStatsSyntaxError(origin, entry.job_id, str(max(entry.seen_ns, entry.started_ns)),
                                  "a time before the year 2262, in nanoseconds")
    if len(entry.counters) > MOST_COUNTERS:
        raise JobStatsSyntaxError(origin, entry.job_id, str(len(entry.counters)),
                                  f"at most {MOST_COUNTERS} counters")
    for name, counter in entry.counters.items():
        if max(counter.samples, counter.sum or 0) > _LARGEST:      # lines of one name, added
            raise JobStatsSyntaxError(origin, entry.job_id,
                                      f"{name}: {counter.samples} samples, sum {counter.sum}",
                                      "a sum of 64 bits")
