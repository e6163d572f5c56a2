"""
Lustre `job_stats` files of OSTs and MDTs: what each job has done to one target.

    file    = ["job_stats:"] entry*                     2.17: the header anywhere, or not at all
    entry   = "- job_id:" ID newline times counter*
    times   = snapshot_time [start_time elapsed_time]   of the job's last and first request
    counter = NAME ":" "{ samples:" N ", unit:" UNIT [", min:" N ", max:" N ", sum:" N]
              [", sumsq:" N] [", hist: {" ... "}"] " }"

    job_stats:
    - job_id:          "my\\x20prog:1.1000"
      snapshot_time:   1795224957.690335940 secs.nsecs
      start_time:      1795224957.674899850 secs.nsecs
      elapsed_time:    0.015436090 secs.nsecs
      read_bytes:      { samples:           0, unit: bytes, min:        0, max:        0, sum: ...
      write_bytes:     { samples:           1, unit: bytes, min:     8192, max:     8192, sum: ...

It looks like YAML and is not: up to 2.14 a large number has no blank before it (`max:16777216`),
up to 2.15.1 ids are raw (`kworker/13:2.0`, empty, up to 2.7 even with a newline), and quotes are a
part of them; since then, and in some vendors' releases before, the kernel puts quotes around ids
that need them (quoted_ids.py).  snapshot_time is in whole seconds up to 2.14, and in 2.15.0 and
2.15.1 the time since boot, in a different line.
What the file shows decides, never the release.  A counter at zero has a line; it is left out here.

A storage server has tens of thousands of entries, of which few change between two sweeps.  So there
are three steps, each as cheap as possible: `pieces` cuts the file into entries, fingerprints.py
says which of them changed, `parse` reads those.  A line that cannot be understood invalidates its
entry.

Source: lprocfs_jobstats_seq_show(), lustre/obdclass/lprocfs_jobstats.c, 2.5 to 2.17.
"""

from __future__ import annotations

import re
from itertools import groupby

from iostats.base.errors import JobStatsSyntaxError, NotReadable, sanitize
from iostats.base.named_tuple import NamedTuple
from iostats.lustre import stats
from iostats.lustre.stats import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class JobEntry(NamedTuple):
    """A job's entry in the job_stats file of a target: its id and its counters."""

    # text of up to 128 characters, unescaped; what cannot be printed is \xHH. May be empty.
    job_id: str
    # when the kernel made this entry, ns of the wall clock; with the id it tells one life of an
    # entry from the next.  0 where the file does not show it (up to 2.14, and
    # enable_stats_header=0) or only as time since boot (2.15.0, 2.15.1).
    started_ns: int
    # when the job's last request came, ns of the wall clock.  The kernel writes it before the
    # counters: that it is the same does not prove that they are.
    seen_ns: int
    # name -> stats.Counter of those that are not at 0.  `read_bytes` and `write_bytes` are bytes in
    # every release.
    counters: dict[str, Counter]


LONGEST_ID = 128                   # characters; the kernel keeps 31 bytes, each at most `\xHH`
_LONGEST_PIECE = 64 * 1024         # bytes; an MDT's entry of 2.17 has 4 kB
_BLOCK = 64 * 1024                 # cut at once: so much stays in the cache
_LONGEST_START = 32                # bytes of a newline, an indentation and "- job_id:"
_KEY, _NEWLINE = b"- job_id:", ord("\n")

# In each of these no text can match in many ways, so that the time is a line in the length,
# whatever the file.
# The id goes up to the line of snapshot_time: up to 2.7 it may have newlines in it.  2.15.0 and
# 2.15.1 print `snapshot_time   :` and do not indent it.
_ID = re.compile(rb"[ \t]*- job_id:(?: {10}|[ \t]{0,20})(.{0,600}?)\n[ \t]*snapshot_time( *): *"
                 rb"(?=(\d{1,10}\.)?)", re.S)
_TIMES = re.compile(rb"([0-8]?\d{1,9})(?:\.(\d{1,9}) secs\.nsecs)?\n"      # below 2**63 ns
                    rb"(?:[ \t]*start_time *: *([0-8]?\d{1,9})\.(\d{1,9}) secs\.nsecs\n)?"
                    rb"(?:[ \t]*elapsed_time *: *[\d.]{1,30} secs\.nsecs\n)?")
# A counter that is not at 0, in the forms of the kernel.  Up to 2**64 in sumsq, which wraps; what
# does not fit here is parsed by _parse_unusual_line().
_BUSY = re.compile(
    rb"^[ \t]*(\w{1,100}): *\{ samples: *([1-9]\d{0,17}), unit: *(\w{1,20})"
    rb"(?:, min: *(\d{1,19}), max: *(\d{1,19}), sum: *(\d{1,19})"
    rb"(?:, sumsq: *(1[0-7]\d{18}|\d{1,19})(?:, hist: \{[^{}\n]*\})?)?)? \}$", re.M)
_COUNTER = re.compile(rb"\s*(\w{1,100})\s*:\s*\{([^{}]*)(?:\{[^{}]*\}\s*)?\}\s*")
_FIELD = re.compile(rb"\s*(\w+)\s*:\s*([^\s:]*)\s*")
_HEADER = re.compile(rb"\s*(?:job_stats:\s*|\w{1,100} *: *[^\s{}][^{}]*)?")
_ESCAPED = re.compile(rb"\\x([0-9A-Fa-f]{2})")
# What the kernel prints without quotes in no release that has them; its letters are Latin-1's.
_NEEDS_QUOTES = re.compile(rb"[^0-9A-Za-z._@/\xc0-\xd6\xd8-\xf6\xf8-\xff-]")
_LIKE_AN_ESCAPE = re.compile(rb"\\(?=x(?:[01][0-9a-f]|5c|7f|[89a-f][0-9a-f]))")
_PARAMETER = re.compile(rb"([A-Za-z][^\s=]*)=|([A-Za-z][^\s=]*\.[^\s=]*): ")   # the latter: -y

_COUNTER_FORM = '"<name>: { samples: <n>, unit: <unit> ... }"'

# Two caches that only save time: the lines of counters at 0, which are most of a file and
# repeat, and the names as text.
_at_zero: set[bytes] = set()
_names: dict[tuple[bytes, bytes], tuple[str, str]] = {}
_MOST_REMEMBERED = 2000            # there are some 30 in a release
_LONGEST_REMEMBERED = 300          # bytes


def split_entries(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of one entry after the other: its `- job_id:` line and the lines after it.

    `chunks` are the file's bytes as read(2) gives them.  What is no entry comes as a piece as
    well, so that parse() refuses it and nothing is lost in silence.  Memory is bounded whatever
    the file: of an entry that does not end, its beginning is given, which is too long for parse().
    """
    rest = b"\n"                   # from the newline before the entry at hand
    begun = too_long = False       # there is one; its beginning was given, and it did not end
    for block in _split_blocks(chunks):
        text = b"".join([rest, *block])
        at, find = 0, text.find
        first = 1 if begun and not too_long else 0         # at 0 stands the entry at hand itself
        # By the one character that is nowhere else but in ids, memchr() passes over the rest.
        dash = find(b"-")
        while dash >= 0:
            if not text.startswith(_KEY, dash):
                dash = find(_KEY, dash + 1)                # of an id, or of what is no job_stats
                if dash < 0:
                    break
            start = dash - 1 if text[dash - 1] == _NEWLINE else _start(text, dash)
            if start >= first:
                if begun and not too_long:
                    yield text[at + 1:start]
                elif not (too_long or _is_header(text[:start])):
                    yield text[1:start]
                at, begun, too_long = start, True, False
            dash = find(b"-", dash + len(_KEY))
        rest = text[at:]
        if len(rest) > _LONGEST_PIECE + 1:
            if not too_long:
                yield rest[1:_LONGEST_PIECE + 2]
            too_long, rest = True, rest[-_LONGEST_START:]
    if not too_long and (begun or not _is_header(rest)):
        # Without its last newline, as in front of another one: its fingerprint is the same there.
        yield rest[1:-1] if rest.endswith(b"\n") else rest[1:]


def dump(chunks: Iterable[bytes], origin: str = "job_stats") -> Iterator[tuple[str, bytes]]:
    """
    Yield (parameter, piece) of each entry in what `lctl get_param *.*.job_stats` printed, also with
    -y or -H; (parameter, b"") of a target that has none.

    The parameter is as lctl names it, "obdfilter.scratch-OST0000.job_stats", or "" where none
    stands before (`lctl get_param -n`, or a file itself).  Other parameters in the same
    text are passed over.  NotReadable where a target is there twice: its I/O would count twice.
    """
    first: dict[str, int] = {}
    for (name, number), lines in groupby(_iterate_lines(chunks), lambda line: line[:2]):
        if not name or name.endswith(".job_stats"):
            if name and first.setdefault(name, number) != number:
                raise NotReadable(f"{origin}: expected each target once, got {name} in line "
                                  f"{first[name]} and in line {number}; put each dump into a file "
                                  f"of its own")
            piece = None
            for piece in split_entries(line for *_, line in lines):
                yield name, piece
            if name and piece is None:
                yield name, b""


def parse(piece: bytes, boot_ns: int = 0, origin: str = "job_stats",
          kernel_quotes: bool | None = None) -> JobEntry:
    """
    The JobEntry of one piece.

    `boot_ns` is when this machine was booted, ns of the wall clock: 2.15.0 and 2.15.1 print
    snapshot_time as time since then.  `kernel_quotes`: QuotedIds.is_printed_by_kernel of its file.
    Raises JobStatsSyntaxError, which names `origin`, the job and the line.
    """
    job_id, started_ns, seen_ns, at = parse_head(piece, boot_ns, origin, kernel_quotes)
    lines = [line for line in piece[at:].split(b"\n") if line not in _at_zero]
    busy = _BUSY.findall(b"\n".join(lines))
    counters: dict[str, Counter] = {}
    known, new = _names.get, tuple.__new__
    for name, samples, unit, low, high, total, squares in busy:
        name, unit = known((name, unit)) or name_counter(name, unit)
        # Not Counter(...), which takes twice the time.
        counter = new(Counter, (int(samples), unit, int(low), int(high), int(total),
                                int(squares) if squares else None)
                      if low else (int(samples), unit, None, None, None, None))
        if name in counters:
            raise JobStatsSyntaxError(origin, job_id, f"{name} twice", "one line for each counter")
        counters[name] = counter
    if len(busy) != len(lines):
        for line in lines:
            if not _BUSY.fullmatch(line):
                _parse_unusual_line(line, counters, job_id, origin)
    for name, counter in counters.items():
        expected = stats.find_impossible(counter)
        if expected:
            raise JobStatsSyntaxError(origin, job_id, f"{name}: {counter[:1] + counter[2:]}",
                                      expected)
    if not counters and b" samples:" not in piece:
        raise JobStatsSyntaxError(origin, job_id, "nothing", "its counters")
    return JobEntry(job_id, started_ns, seen_ns, counters)


def parse_head(piece: bytes, boot_ns: int, origin: str,
               kernel_quotes: bool | None = None) -> tuple[str, int, int, int]:
    """(id, started_ns, seen_ns, where its counters begin) of one piece, as parse() has them."""
    head = _ID.match(piece)
    times = _TIMES.match(piece, head.end()) if head else None
    if not head or not times or len(piece) > _LONGEST_PIECE:
        raise _explain_syntax(piece, head, origin)
    job_id = _parse_quoted_id(head, kernel_quotes)
    if b"\0" in head[1]:                        # %s never prints one: it is damaged
        raise JobStatsSyntaxError(origin, "", job_id, "a job id without a NUL")
    if len(job_id) > LONGEST_ID:
        raise JobStatsSyntaxError(origin, "", job_id, f"at most {LONGEST_ID} characters of job id")
    seconds, seen_part, started, started_part = times.groups()
    seen_ns = _parse_ns(seconds, seen_part)
    started_ns = _parse_ns(started, started_part) if started else 0
    return (job_id, started_ns if started_ns >= stats.FIRST_WALL_CLOCK_NS else 0,
            seen_ns if seen_ns >= stats.FIRST_WALL_CLOCK_NS else seen_ns + boot_ns, times.end())


def parse_id(piece: bytes, kernel_quotes: bool | None = None) -> bytes | None:
    """The id of one piece, as parse() has it, in UTF-8; None where it is no entry."""
    head = _ID.match(piece)
    return (_parse_quoted_id(head, kernel_quotes).encode() if head and len(piece) <= _LONGEST_PIECE
            else None)


def has_opening_quote(piece: bytes) -> bool:
    """True for an entry whose id begins with a quote."""
    return piece.startswith(b'"', len(_KEY) + 10)           # the kernel pads the key


def detect_quotes(piece: bytes) -> bool | None:
    """
    Whether the kernel may quote ids in the file of one piece, as far as this id shows.

    True: it may; False: it does not, or the format of the times shows it already; None: the id
    shows nothing.
    """
    head = _ID.match(piece)
    if head is None:
        return None
    if _has_quoting_time(head):
        return False
    if not _NEEDS_QUOTES.search(head[1]):
        return None
    if _unquote(head[1]) is None:
        return False
    return True if _NEEDS_QUOTES.search(head[1][1:-1]) else None       # not all quote a leading @


def _split_blocks(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lists of chunks that are long enough to be split, at most twice _BLOCK."""
    held, size = [], 0
    for chunk in chunks:
        for at in range(0, len(chunk), _BLOCK):
            held.append(chunk[at:at + _BLOCK])             # the chunk itself, if it is short
            size += len(held[-1])
            if size >= _BLOCK:
                yield held
                held, size = [], 0
    yield held


def _start(text: bytes, dash: int) -> int:
    """
    Find the begin of the entry whose `- job_id:` is not at the beginning of a line; -1 for none.
    """
    newline = text.rfind(b"\n", max(dash - _LONGEST_START, 0), dash)
    return newline if newline >= 0 and text[newline + 1:dash].isspace() else -1


def _iterate_text_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line with its newline; a line that is too long for an entry in parts."""
    rest = b""
    for block in _split_blocks(chunks):
        lines = b"".join([rest, *block]).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield line + b"\n"
        if len(rest) > _LONGEST_PIECE:
            yield rest
            rest = b""
    yield rest


def _iterate_lines(chunks: Iterable[bytes]) -> Iterator[tuple[str, int, bytes]]:
    """Yield (parameter, where its entry begins, line) of the output of lctl."""
    belongs_to, began = "", 1
    for number, line in enumerate(_iterate_text_lines(chunks), 1):
        parameter = _PARAMETER.match(line)
        if parameter:
            name = (parameter[1] or parameter[2]).decode("latin-1")
            line = line[parameter.end():]
            if name != belongs_to or _is_header(line):      # -H: the name is in each line
                belongs_to, began = name, number
        yield belongs_to, began, line


def _is_header(text: bytes) -> bool:
    """True for a line without data."""
    return all(line.strip() in (b"", b"job_stats:") for line in text.split(b"\n"))


def _parse_quoted_id(head: re.Match[bytes], kernel_quotes: bool | None) -> str:
    """Parse an id; quotes and escapes are removed if the kernel added them."""
    raw = head[1]
    if raw.startswith(b'"') and (kernel_quotes or _has_quoting_time(head)):
        unquoted = _unquote(raw)
        raw = raw if unquoted is None else unquoted
    return _as_text(raw)


def _has_quoting_time(head: re.Match[bytes]) -> bool:
    """True for a time in the form of 2.15.2 and later, which put quotes around ids."""
    return head[3] is not None and not head[2]


def _unquote(raw: bytes) -> bytes | None:
    """Remove quotes and escapes from an id; None if no kernel writes such an id.

    These never stand around what does not need them, so no two ids of a file become one.
    """
    if raw[:1] == raw[-1:] == b'"' and len(raw) > 1:
        inner = raw[1:-1]
        plain = _ESCAPED.sub(b"", inner)            # there a backslash is always \xHH
        if b'"' not in plain and b"\\" not in plain and (
                _NEEDS_QUOTES.search(inner) or inner[:1] == b"@"):
            return _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), inner)
    return None


def _as_text(raw: bytes) -> str:
    """An id as UTF-8, safe on a terminal."""
    if raw.isalnum():
        return raw.decode("ascii")
    # Two ids must not become one: what is no UTF-8 is not taken for Latin-1, and where an id has
    # in it what one that cannot be printed is written as, its backslash is written so, too.
    if b"\\x" in raw:
        raw = _LIKE_AN_ESCAPE.sub(rb"\\x5c", raw)
    return sanitize(raw.decode("utf-8", "backslashreplace"))


def _parse_ns(seconds: bytes, part: bytes | None) -> int:
    return int(seconds) * 1_000_000_000 + (int(part.ljust(9, b"0")) if part else 0)


def name_counter(name: bytes, unit: bytes) -> tuple[str, str]:
    """Return (name, unit) as text, corrected where old releases print other words."""
    text, measured = name.decode("ascii"), sanitize(unit.decode("ascii", "backslashreplace"))
    if measured == "bytes" and text in ("read", "write"):      # OST of 2.5
        text += "_bytes"
    elif text in ("read_bytes", "write_bytes"):                # MDT of 2.11 and 2.12: "reqs"
        measured = "bytes"
    if len(_names) < _MOST_REMEMBERED:
        _names[name, unit] = text, measured
    return text, measured


def _parse_unusual_line(line: bytes, counters: dict[str, Counter], job_id: str,
                        origin: str) -> None:
    """Parse a line that is not in the usual form: ignore unused counters, or raise."""
    match = _COUNTER.fullmatch(line)
    if not match:
        if not _HEADER.fullmatch(line):        # also of a later release: `<name>: <value>`
            raise JobStatsSyntaxError(origin, job_id, line.decode("latin-1"), _COUNTER_FORM)
        return
    pairs = [_FIELD.fullmatch(field) for field in match[2].split(b",")]
    fields = {pair[1]: pair[2] for pair in pairs if pair}
    numbers = [fields.get(key, b"") for key in (b"samples", b"min", b"max", b"sum", b"sumsq")]
    if not (all(pairs) and numbers[0] and all(map(_is_number, filter(None, numbers)))
            and (all(numbers[1:4]) or not any(numbers[1:]))):
        raise JobStatsSyntaxError(origin, job_id, line.decode("latin-1"), _COUNTER_FORM)
    samples, *rest = (int(number) if number else None for number in numbers)
    if samples:
        name, unit = name_counter(match[1], fields.get(b"unit", b""))
        counter = Counter(samples, unit, *rest)
        if name in counters:
            raise JobStatsSyntaxError(origin, job_id, f"{name} twice", "one line for each counter")
        counters[name] = counter
    elif len(_at_zero) < _MOST_REMEMBERED and len(line) <= _LONGEST_REMEMBERED:
        _at_zero.add(line)


def _is_number(text: bytes) -> bool:
    """True if the text can be an unsigned 64-bit integer of the kernel."""
    return text.isdigit() and len(text) <= 20 and int(text) < 2**64


def _explain_syntax(piece: bytes, head: re.Match[bytes] | None, origin: str) -> JobStatsSyntaxError:
    """The error for a piece without id or times, or without end."""
    start = piece[:200].decode("latin-1")
    if len(piece) > _LONGEST_PIECE:
        return JobStatsSyntaxError(origin, "", start, f"an entry of {_LONGEST_PIECE} bytes at most")
    if head:
        line = piece[head.end():].partition(b"\n")[0].decode("latin-1")
        return JobStatsSyntaxError(origin, _as_text(head[1]), f"snapshot_time: {line}",
                                   '"snapshot_time: <seconds>"')
    return JobStatsSyntaxError(origin, "", start, '"- job_id: <id>" and "snapshot_time: <seconds>"')
