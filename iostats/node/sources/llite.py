"""
llite.*.stats: the calls of programs on a mount, including the page cache.

    read_bytes                53 samples [bytes] 37888 524288 16600064 8279353720832
    open                      70 samples [usecs] 34 18909 132940 1119163770

Bytes are what read(2) and write(2) returned; mmap is not in them.  `open` and the like are
calls, not requests to a server.  Readable for root only since 2.12 (debugfs).

Since 2.17.0 (3177b0dc5d, LU-2525) ll_file_flock() counts `flock` twice: when it is called, with 1
for the time, and when it has succeeded, with its time.  Its smallest value is then 1 (or 0), which
no request to an MDT takes; `parse` gives it once a call.

Source: lustre/llite/lproc_llite.c, llite_opcode_table; names by release in
docs/reference/counters.md.
"""

from __future__ import annotations

import os

from iostats.lustre import stats
from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File
    from iostats.lustre.stats import Counter, Reading

NAME = "llite"
LAYER, TITLE, LETTER = "application", "llite", "a"
READ_AT = ("start", "mark", "watch", "stop")
DIRECTORY = "llite"
IN_PARTS = True
IN_PROC_UNTIL = 11
CALLS_SUFFIX = "_calls"
PAGE_BYTES = os.sysconf("SC_PAGESIZE")


def parse(text: str, origin: str = "stats") -> Reading:
    """The Reading of one file; `flock` counts each call once, in every release."""
    reading = stats.parse(text, origin)
    flock = reading.counters.get("flock")
    if flock is not None and flock.min is not None and flock.min <= 1:
        reading.counters["flock"] = _subtract_second_count(flock)
    return reading


def corrected(values: dict[str, int], reading: Reading) -> dict[str, int]:
    """The gains of a mount, with calls counted once, and bounds for missing bytes."""
    from iostats.totals import bounds  # a start needs none of it
    return bounds.correct_values(values, PAGE_BYTES)


def count_operations(values: dict[str, int]) -> int:
    """The calls that moved no data."""
    from iostats.totals.llite_values import select_operations  # a start needs none of it
    return sum(select_operations(values).values())


def _subtract_second_count(flock: Counter) -> Counter:
    """Return `flock` without the count that the kernel adds at the call."""
    calls = -(-flock.samples // 2)          # one that failed is counted once, so half
    return flock._replace(samples=calls, sum=max(0, (flock.sum or 0) - calls),
                          sumsq=None if flock.sumsq is None else max(0, flock.sumsq - calls))


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount."""
    # Where debugfs is not mounted they are nowhere, and /sys still lists the mount.
    return read_all(root, "llite", "llite", "stats", config.node.file_systems, always=split)


def split(name: str) -> tuple[str, str, str] | None:
    """Return (file system, "", instance)."""
    parts = stats.split_llite_name(name)
    return parts and (parts[0], "", parts[1])
