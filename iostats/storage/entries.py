"""
All entries of a target's job_stats at one moment, as they are here or in a saved dump.

    job_stats, or the output of `lctl get_param *.*.job_stats`  ->  EntriesRead
"""

from __future__ import annotations

import os
import re
from collections import namedtuple
from functools import partial
from itertools import groupby

from iostats.base.errors import IostatsError, JobStatsSyntaxError, NotReadable
from iostats.lustre import job_stats
from iostats.lustre.metrics import BYTES_UNIT, TIME_UNITS
from iostats.lustre.quoted_ids import are_kernels
from iostats.storage.targets import split_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Optional

    Key = tuple[str, str]                                   # (file system, target)
    Counts = dict[str, tuple[int, Optional[int]]]           # {counter: (samples, sum or None)}
    Life = tuple[int, int, Counts]                          # (start ns or 0, last request ns, ...)

_CHUNK = 1 << 16
_SUMMED = (BYTES_UNIT, *TIME_UNITS)                  # units whose sums are amounts
_EXPECTED = "the output of `lctl get_param *.*.job_stats`"
_OF_MDT = re.compile(rb"\s(?:open|close|mknod|mkdir): *\{")

EntriesRead = namedtuple("EntriesRead", "at entries latest_ns bad")
EntriesRead.__doc__ = """
One target's job_stats, read once.

Attributes:
    at: seconds, of a clock that only goes on; None for a file of some time.
    entries: {id: [(start ns or 0, last request ns, {counter: (samples, sum or None)})]}; several
        where it began again while it was read.
    latest_ns: when it was read, as far as that is known: the latest request of all in a file of
        some time; ns since 1970.
    bad: what could not be understood, in words; "".
"""


def dumped(path: str) -> dict[Key, EntriesRead]:
    """{(file system, target): EntriesRead} of a saved dump."""
    names: dict[str, Key] = {}
    found: dict[Key, dict[str, list[Life]]] = {}
    bad: dict[Key, list[str]] = {}
    latest: dict[Key, int] = {}
    has_name: list[bool] = []
    kernel_quotes: dict[str, bool] | None = None
    try:
        with open(path, "rb") as file:
            for name, piece in job_stats.dump(_noted(
                    iter(partial(file.read, _CHUNK), b""), b"job_stats", has_name), path):
                key = names.get(name)
                if key is None:
                    key = names[name] = _key(name, piece)
                    found[key], bad[key], latest[key] = {}, [], 0
                if not piece:
                    continue
                if kernel_quotes is None and job_stats.begins_in_quotes(piece):
                    kernel_quotes = _kernel_quotes(path)
                try:
                    entry = job_stats.parse(piece, 0, path, (kernel_quotes or {}).get(name))
                except JobStatsSyntaxError as error:
                    bad[key].append(str(error))
                    continue
                add_life(found[key], entry)
                latest[key] = max(latest[key], entry.seen_ns)
    except OSError as error:
        raise NotReadable(f"{path}: cannot be read: {error.strerror}; expected "
                          f"{_EXPECTED}") from None
    if not has_name:
        raise NotReadable(f"{path}: expected {_EXPECTED}, got "
                          + ("something else" if os.path.getsize(path) else "an empty file"))
    first = next((whys[0] for whys in bad.values() if whys), "")
    if first and not any(found.values()):
        raise IostatsError(first)
    if any(key[0] == "" and any(len(lives) > 1 for lives in entries.values())
           for key, entries in found.items()):
        raise NotReadable(f"{path}: several targets, and not which: expected {_EXPECTED} without "
                          f"-n")
    # Other parameters, before the first job_stats, are no damage.
    return {key: EntriesRead(None, entries, latest[key], in_words(bad[key]))
            for key, entries in found.items() if key[0] or entries}


def _kernel_quotes(path: str) -> dict[str, bool]:
    """{parameter of a dump: whether the quotes around its ids are the kernel's}."""
    with open(path, "rb") as file:
        return {name: are_kernels(piece for _, piece in pieces) for name, pieces in groupby(
            job_stats.dump(iter(partial(file.read, _CHUNK), b""), path), lambda pair: pair[0])}


def _noted(chunks: Iterable[bytes], word: bytes, found: list[bool]) -> Iterator[bytes]:
    """`chunks`; `found` is no longer empty when `word` was in them."""
    tail = b""
    for chunk in chunks:
        if not found and word in tail + chunk:
            found.append(True)
        tail = chunk[-len(word):]
        yield chunk


def _key(name: str, piece: bytes) -> Key:
    """
    (file system, target) of obdfilter.FS-OST0000.job_stats.

    Where there is no name, ("", "MDT?") or ("", "OST?"), by what the first entry has.
    """
    place = name.partition(".")[2].rpartition(".")[0]
    return split_name(place) or ("", "MDT?" if _OF_MDT.search(piece) else "OST?")


def add_life(entries: dict[str, list[Life]], entry: job_stats.JobEntry) -> None:
    """Add what one entry has counted to {id: [Life]}."""
    entries.setdefault(entry.job_id, []).append((entry.started_ns, entry.seen_ns, {
        name: (counter.samples, counter.sum if counter.unit in _SUMMED else None)
        for name, counter in entry.counters.items()}))


def in_words(bad: list[str]) -> str:
    if not bad:
        return ""
    return (f"{len(bad)} {'entry' if len(bad) == 1 else 'entries'} not understood, the first: "
            f"{bad[0]}")


def oldest(looks: dict[Key, EntriesRead]) -> float | None:
    """When the oldest entry began, seconds since 1970; None where one of them has no start_time."""
    starts = [started for look in looks.values() for lives in look.entries.values()
              for started, _, _ in lives]
    return min(starts) / 1e9 if starts and all(starts) else None
