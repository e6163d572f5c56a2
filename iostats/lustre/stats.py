"""
Lustre `stats` files: llite, osc, mdc and md_stats all print this one form.

    file   = header* line*
    header = NAME [":"] SECONDS ["("] "secs.usecs" | "secs.nsecs" [")"]
    line   = NAME SAMPLES "samples" "[" UNIT "]" [MIN MAX SUM [SUMSQ]]

    snapshot_time             1752000000.000000123 secs.nsecs
    start_time                1751990000.000000456 secs.nsecs      since 2.15, optional
    read_bytes                23 samples [bytes] 4096 1048576 11534336
    open                      23 samples [usecs] 31 8117 61403 402653184

A counter still at zero has no line: an absent name means 0, never "unknown".  What a file
shows decides, never the release: vendors backport.  A line in an unexpected format, or with
impossible numbers, invalidates its own counter and no other: Reading.bad says which.

Source: lprocfs_stats_seq_show() and lprocfs_stats_header(), lustre/obdclass/lprocfs_status.c,
2.5 to 2.17.
"""

from __future__ import annotations

from iostats.base.errors import StatsSyntaxError
from iostats.base.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

HEADERS = ("snapshot_time", "start_time", "elapsed_time")
_LONGEST_NAME = 100              # longer ones are no counters; a server takes up to 128 with suffix
_LIMIT = 2**63                   # of an s64, in which the kernel keeps all of these
# Different operations under one name: 2.17 before 50c0adcf72; the OSTs of 2.10.
_MAY_REPEAT = ("unnamed-opcode-", "statfs")
_MAY_LACK_BRACKET = ("reqs", "regs", "pages")   # the last of a line, which lctl of 2.17 cuts off
_HAVE_SUMS = ("bytes", "usec", "usecs")         # in each release; 0 would stand for a lost sum

# A wall clock is never before 2001-09-09.  2.15.0 and 2.15.1 print seconds since boot
# instead, and a start_time of 0.000000000 (LU-16231, fixed in 2.15.2).
FIRST_WALL_CLOCK_NS = 1_000_000_000 * 1_000_000_000
# Gauges: the moment of an answer, which must not be that of the start; and, by the beginning of
# their names, counts that show that all counters restarted, or that these are full.
ANSWERED, MAY_RESTART = "answered", "may restart: "


class Counter(NamedTuple):
    """One counter as the kernel prints it."""

    samples: int    # how often it was added to; a count
    unit: str       # as printed: bytes, pages, regs, reqs, usec, usecs, rpcs, ...
    # min, max, sum, sumsq: in that unit, since the last clear; None where the line has none.
    # `sumsq` wraps modulo 2**64 (up to 2.16) or stays at 2**63-1: opaque.
    min: int | None = None
    max: int | None = None
    sum: int | None = None
    sumsq: int | None = None


class Reading(NamedTuple):
    """One counter file, read once."""

    counters: dict[str, Counter]    # name -> Counter; an absent name is a counter still at 0
    # when the kernel printed it; ns of the wall clock, or of the time since boot (2.15.0, 2.15.1);
    # None where the file has no header
    snapshot_ns: int | None
    # when the counters were allocated or last cleared, ns of the wall clock; 0 where the file
    # prints none yet (2.15.0, 2.15.1; rpc_stats up to 2.15.8 until it is cleared); None where it
    # has no such line (up to 2.14, enable_stats_header=0)
    start_ns: int | None
    gauges: dict[str, int] = {}     # name -> number of now; never a difference
    # name -> what is wrong with its line; such a counter is not in `counters`, and is not 0. The
    # name "" is for a line without a readable name: it may be that of any absent counter.
    bad: dict[str, str] = {}
    # block device -> (what it is, as its source says, and those that it is built of)
    below: dict[str, tuple[str, ...]] = {}


def is_plain_sum(metric: str) -> bool:
    """
    False for a sum of squares (NAME_us2, see metrics.py): reports do not use those of network
    requests, a quarter of each message.
    """
    return not metric.endswith("_us2")


def parse(text: str, origin: str = "stats") -> Reading:
    """
    Parse the text of one `stats` file into a Reading; its `bad` lists the errors.

    Names may contain blanks (read_ahead_stats up to 2.14), names in _MAY_REPEAT that stand twice
    are added, and `lctl` of 2.17 cuts off the last character of each line for ordinary users,
    so that the closing bracket may be missing.
    """
    counters: dict[str, Counter] = {}
    times: dict[str, int] = {}
    bad: dict[str, str] = {}
    for lineno, line in enumerate(text.split("\n"), 1):
        if not line or line.isspace():
            continue
        head, samples_word, rest = line.partition(" samples [")
        name, counter = _parse_counter(head, rest) if samples_word else (_get_first_word(line),
                                                                         None)
        if counter is None:
            if samples_word or not parse_header_line(line, times):
                bad.setdefault(name, str(StatsSyntaxError(origin, lineno, line)))
            continue
        expected = find_impossible(counter)
        if name in counters and not expected:
            counter = add_counters(counters[name], counter)
            expected = (find_impossible(counter) if name.startswith(_MAY_REPEAT)
                        else "one line for each counter")
        if expected:
            bad.setdefault(name, str(StatsSyntaxError(origin, lineno, line, expected)))
        counters[name] = counter
    for name in bad.keys() & counters.keys():
        del counters[name]
    return Reading(counters, times.get("snapshot_time"), start_time(times), {}, bad)


def find_impossible(counter: Counter) -> str:
    """
    Return the rule that these numbers break; "" if they are possible.

    A sum of many releases is printed negative when it is past 2**63, and goes on from 0 at 2**64;
    a sum that is as large needs samples and a maximum that can make it up.  The minimum is
    2**63-1 until the first amount is in it, a moment after it was counted.
    """
    samples, _, low, high, total, _ = counter
    if not 0 <= samples < _LIMIT:
        return "a count of 0 to 2**63-1"
    if total is None or low is None or high is None:
        return ""
    if not (0 <= low < _LIMIT and 0 <= high < _LIMIT and -_LIMIT <= total < _LIMIT):
        return "a minimum, maximum and sum below 2**63"
    if high < low != _LIMIT - 1:
        return "a minimum of at most the maximum"
    if total % 2**64 > samples * high:
        return "a sum of at most samples x maximum"
    return ""


def parse_header_line(line: str, times: dict[str, int]) -> bool:
    """Add a header line to `times` (name -> ns); False if the line is no header."""
    words = line.replace("(", "").replace(")", "").split()
    name = words[0].rstrip(":") if words else ""
    if name not in HEADERS or len(words) != 3:
        return False
    if name == "elapsed_time":
        return True                      # derived, and negative where the clock was set back
    seconds, _, fraction = words[1].partition(".")
    if not (is_number(seconds) and is_number(fraction)):
        return False
    # "secs.usecs" (up to 2.9) is printed without leading zeros: 934.57342 is 934.057342.
    if words[2] == "secs.usecs":
        below = int(fraction) * 1000
    elif words[2] == "secs.nsecs":
        below = int(fraction)
    else:
        return False
    ns = int(seconds) * 1_000_000_000 + below
    if (not 0 <= below < 1_000_000_000 or not 0 <= ns < _LIMIT     # ktime_t, printed %llu
            or name in times):
        return False
    times[name] = ns
    return True


def start_time(times: dict[str, int]) -> int | None:
    """ns of the wall clock of the last clear, 0 or None; see Reading."""
    start = times.get("start_time")
    return start if start is None or start >= FIRST_WALL_CLOCK_NS else 0


def is_number(text: str) -> bool:
    """True for ASCII digits alone, with or without a minus (a sum that wrapped)."""
    digits = text[1:] if text[:1] == "-" else text
    return digits.isdigit() and digits.isascii() and len(digits) <= 20


def are_digits(words: Sequence[str]) -> bool:
    """True if each of `words` is a number without a minus sign."""
    together = "".join(words)
    return together.isdigit() and together.isascii() and max(map(len, words)) <= 20


def _parse_counter(head: str, rest: str) -> tuple[str, Counter | None]:
    """
    Return (name, Counter) of the text before and after ` samples [`; None for an unexpected
    format.
    """
    name, _, samples = head.rstrip().rpartition(" ")
    unit, bracket, fields = rest.partition("]")
    numbers = fields.split()
    name = _as_name(name)
    if not (name and unit and is_number(samples) and (bracket or unit in _MAY_LACK_BRACKET)
            and len(numbers) in ((3, 4) if unit in _HAVE_SUMS else (0, 3, 4))
            and (not numbers or are_digits(numbers) or all(map(is_number, numbers)))):
        return name, None
    return name, Counter(int(samples), unit, *map(int, numbers))


def _as_name(text: str) -> str:
    """The counter's name in `text`; "" where that is none."""
    name = text.strip()
    return name if len(name) <= _LONGEST_NAME and name.isascii() and name.isprintable() else ""


def _get_first_word(line: str) -> str:
    """Return the first word of a truncated line; "" if the word itself may be truncated."""
    name, blank, _ = line.strip().partition(" ")
    return _as_name(name) if blank else ""


def add_counters(a: Counter, b: Counter) -> Counter:
    """Add two counters that the kernel printed under one name."""
    def both(join: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        return None if x is None or y is None else join(x, y)
    return Counter(a.samples + b.samples, a.unit, both(min, a.min, b.min),
                   both(max, a.max, b.max), both(int.__add__, a.sum, b.sum), None)


def split_llite_name(name: str) -> tuple[str, str] | None:
    """
    Return (file system, instance) of a directory below llite/, or None.

    A file system name may contain "-", so the name is cut from the right.

    >>> split_llite_name("my-fs-ffff9a3c5d1e0800")
    ('my-fs', 'ffff9a3c5d1e0800')
    """
    file_system, _, instance = name.rpartition("-")
    return (file_system, instance) if file_system and _is_hex(instance) else None


def split_target_name(name: str) -> tuple[str, str, str] | None:
    """
    Return (file system, target, instance) of a directory below osc/ or mdc/, or None.

    None is also for a server's own connections ("lustre-OST0000-osc-MDT0000"), which are
    not a client's.

    >>> split_target_name("my-fs-OST000f-osc-ffff9a3c5d1e0800")
    ('my-fs', 'OST000f', 'ffff9a3c5d1e0800')
    """
    rest, _, instance = name.rpartition("-")
    rest, _, kind = rest.rpartition("-")
    file_system, _, target = rest.rpartition("-")
    if kind in ("osc", "mdc") and file_system and target and _is_hex(instance):
        return file_system, target, instance
    return None


def parse_file_system(target: str) -> str:
    """
    Return the file system of a target; "" of the MGS.

    >>> [parse_file_system(name) for name in ("my-fs-OST000f", "MGS")]
    ['my-fs', '']
    """
    return target.rpartition("-")[0]


def _is_hex(text: str) -> bool:
    return bool(text) and not text.strip("0123456789abcdef")
