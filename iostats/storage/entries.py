"""
All entries of a target's job_stats at one moment, as they are here or in a saved dump.

    job_stats, or the output of `lctl get_param *.*.job_stats`  ->  EntriesRead
"""

from __future__ import annotations

import os
import re
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from iostats.base.errors import IostatsError, JobStatsSyntaxError, NotReadable
from iostats.base.named_tuple import NamedTuple
from iostats.lustre import job_stats
from iostats.lustre.metrics import BYTES_UNIT, TIME_UNITS
from iostats.lustre.quoted_ids import is_printed_by_kernel
from iostats.storage.targets import split_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Optional

    Key = tuple[str, str]                                   # (file system, target)
    Counts = dict[str, tuple[int, Optional[int]]]           # {counter: (samples, sum or None)}
    Life = tuple[int, int, Counts]                          # (start ns or 0, last request ns, ...)

_CHUNK = 1 << 16
_SUMMED = (BYTES_UNIT, *TIME_UNITS)                  # units whose sums are amounts
_EXPECTED = "the output of `lctl get_param *.*.job_stats`"
_OF_MDT = re.compile(rb"\s(?:open|close|mknod|mkdir): *\{")


class EntriesRead(NamedTuple):
    """One target's job_stats, read once."""

    at: float | None    # seconds, of a clock that only goes on; None for a file of some time
    # {id: [(start ns or 0, last request ns, {counter: (samples, sum or None)})]}; several where it
    # was reset while it was read
    entries: dict[str, list[Any]]
    # when it was read, as far as that is known: the latest request of all in a file of some time;
    # ns since 1970
    latest_ns: int
    bad: str            # what could not be understood, in words; ""


def read_dump(path: str) -> dict[Key, EntriesRead]:
    """Return {(file system, target): EntriesRead} of a saved dump."""
    names: dict[str, Key] = {}
    entries_of: dict[Key, dict[str, list[Life]]] = {}
    bad: dict[Key, list[str]] = {}
    latest: dict[Key, int] = {}
    has_name: list[bool] = []
    kernel_quotes: dict[str, bool] | None = None
    try:
        with open(path, "rb") as file:
            for name, piece in job_stats.dump(_note_word(
                    iter(partial(file.read, _CHUNK), b""), b"job_stats", has_name), path):
                key = names.get(name)
                if key is None:
                    key = names[name] = _make_key(name, piece)
                    entries_of[key], bad[key], latest[key] = {}, [], 0
                if not piece:
                    continue
                if kernel_quotes is None and job_stats.has_opening_quote(piece):
                    kernel_quotes = _read_kernel_quotes(path)
                try:
                    entry = job_stats.parse(piece, 0, path, (kernel_quotes or {}).get(name))
                except JobStatsSyntaxError as error:
                    bad[key].append(str(error))
                    continue
                add_life(entries_of[key], entry)
                latest[key] = max(latest[key], entry.seen_ns)
    except OSError as error:
        raise NotReadable(f"{path}: cannot be read: {error.strerror}; expected "
                          f"{_EXPECTED}") from None
    if not has_name:
        raise NotReadable(f"{path}: expected {_EXPECTED}, got "
                          + ("something else" if os.path.getsize(path) else "an empty file"))
    first = next((whys[0] for whys in bad.values() if whys), "")
    if first and not any(entries_of.values()):
        raise IostatsError(first)
    if any(key[0] == "" and any(len(lives) > 1 for lives in entries.values())
           for key, entries in entries_of.items()):
        raise NotReadable(f"{path}: several targets, and not which: expected {_EXPECTED} without "
                          f"-n")
    # Other parameters, before the first job_stats, are no damage.
    return {key: EntriesRead(None, entries, latest[key], describe_bad_entries(bad[key]))
            for key, entries in entries_of.items() if key[0] or entries}


def _read_kernel_quotes(path: str) -> dict[str, bool]:
    """Return {parameter of a dump: whether the quotes around its ids are the kernel's}."""
    with open(path, "rb") as file:
        return {name: is_printed_by_kernel(piece for _, piece in pieces) for name,
                pieces in groupby(
            job_stats.dump(iter(partial(file.read, _CHUNK), b""), path), lambda pair: pair[0])}


def _note_word(chunks: Iterable[bytes], word: bytes, matches: list[bool]) -> Iterator[bytes]:
    """`chunks`; `matches` is no longer empty when `word` was in them."""
    tail = b""
    for chunk in chunks:
        if not matches and word in tail + chunk:
            matches.append(True)
        tail = chunk[-len(word):]
        yield chunk


def _make_key(name: str, piece: bytes) -> Key:
    """
    Return (file system, target) of obdfilter.FS-OST0000.job_stats.

    Where there is no name, ("", "MDT?") or ("", "OST?"), by what the first entry has.
    """
    place = name.partition(".")[2].rpartition(".")[0]
    return split_name(place) or ("", "MDT?" if _OF_MDT.search(piece) else "OST?")


def add_life(entries: dict[str, list[Life]], entry: job_stats.JobEntry) -> None:
    """Add the counts of one entry to {id: [Life]}."""
    entries.setdefault(entry.job_id, []).append((entry.started_ns, entry.seen_ns, {
        name: (counter.samples, counter.sum if counter.unit in _SUMMED else None)
        for name, counter in entry.counters.items()}))


def describe_bad_entries(bad: list[str]) -> str:
    if not bad:
        return ""
    return (f"{len(bad)} {'entry' if len(bad) == 1 else 'entries'} not understood, the first: "
            f"{bad[0]}")


def find_oldest(readings: dict[Key, EntriesRead]) -> float | None:
    """
    Return when the oldest entry was created, seconds since 1970; None if one has no start_time.
    """
    starts = [started for reading in readings.values() for lives in reading.entries.values()
              for started, _, _ in lives]
    return min(starts) / 1e9 if starts and all(starts) else None
