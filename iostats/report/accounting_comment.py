"""
A job's record as one short line, for the batch system's own accounting (Slurm: AdminComment).

    line  = "io1:" head *( ":" entry ) ":" CRC                        docs/compact.md has it by name
    head  = "a=" ATTEMPT ",j=" JOB ",n=" REPORTED "/" EXPECTED ",m=" MISSING ...
    entry = NAME | "+" HOW MANY MORE *( "," field )
    field = ".r=" BYTES "/" CALLS | ... | OPERATION "=" COUNT | "+" OTHERS "=" COUNT

    io1:a=0,j=4711,n=3/4,m=1,x=0,t=1795225000.5,e=1867.4,p=1:scratch,.r=4096/1,.w=-,open=23:1f2e3d4c

Small letters, digits and _ . - % = , + / : alone: sacctmgr makes all letters small (Slurm 22.05;
strip_quotes()) and alters quotes, a shell much else, and `sacct -P` prints fields with "|" between
them.  What is not known is "-" or is not there, never 0.  comment_reader reads it back.
"""

from __future__ import annotations

from binascii import crc32
from collections import namedtuple

from iostats.base.errors import IostatsError
from iostats.node import sources
from iostats.report import event_tables
from iostats.totals.bounds import numbers_too_low
from iostats.totals.job_events import LOST, MAY_BE
from iostats.totals.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

    from iostats.totals.record import FileSystemRecord

    Pair = tuple[Optional[int], Optional[int]]           # bytes, calls

MARK = "io1:"
OTHERS = "(others)"                 # operations that are only there as a sum
SHORT = "this is the short form of the report, from the job's accounting; what it does not have " \
        "is -"

PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.")
OURS = PLAIN | frozenset("-%=,+/:")
_SOURCES = {name: module.LETTER for name, module in sources.known().items()
            if hasattr(module, "LETTER")}
ALONE = {"read_bytes": "r", "write_bytes": "w"}     # of llite, where these alone may be wrong
LETTERS = {**_SOURCES, **ALONE}
FATES = {"": "", LOST: "l", MAY_BE: "m"}           # of data, by an event
_FIRST = ("open", "create")         # these operations are kept longest
_ALL, _FEWER, _LEAST = range(3)     # how much of an entry is written
_LONGEST_JOB, LONGEST_NUMBER = 40, 60


class CommentError(IostatsError, ValueError):
    """A text that is no short form of a record, or a damaged one."""


CommentEntry = namedtuple(
    "CommentEntry", "name more read write operations network metadata low high",
    defaults=(frozenset(),))
CommentEntry.__doc__ = """
One file system, or several added up.

Attributes:
    name: of the file system; "" for several.
    more: how many file systems these are; 0 for one that is named.
    read, write: (bytes, calls) by the application; either None where it is not known.
    operations: {name: count}, most frequent first, with OTHERS for those that are only there as a
        sum; None where they are not known.
    network: (bytes read, RPCs, bytes written, RPCs), or None.
    metadata: requests to all its MDTs, or None.
    low: sources with a lower bound, and "read_bytes", "write_bytes" where these alone of llite have
        one; "" for one that has no letter.
    high: those of the two that may be too high.
"""


def encode(form: Mapping[str, Any], limit: int = 1500) -> str:
    """
    The line of the record in the JSON object `form`, at most `limit` bytes long.

    Where it would be longer, the smaller file systems say less (no calls, no network, fewer
    operations by name), and the smallest then become one entry, with their sums.
    """
    record = Record.of(form)
    entries = sorted(map(_entry, record.file_systems), key=_importance)
    for head in (_head(record, with_job=True), _head(record, with_job=False)):
        kept = _fitting(entries, limit - len(head) - len(":12345678"))
        if kept is not None:
            line = ":".join([head, *kept])
            return f"{line}:{crc32(line.encode()):08x}"
    raise CommentError(f"expected a limit that a short form fits in, got {limit} bytes")


def _importance(entry: CommentEntry) -> tuple[int, int, int, str]:
    moved = sum(bytes_ or 0 for bytes_, _ in (entry.read, entry.write))
    return -moved, -sum((entry.operations or {}).values()), -(entry.metadata or 0), entry.name


def _fitting(entries: list[CommentEntry], limit: int) -> list[str] | None:
    """[text] of all entries in at most `limit` bytes, with one for each ":"; None if they don't."""
    texts = [[_text(entry, level) for level in (_ALL, _FEWER, _LEAST)] for entry in entries]
    kept = [text[_ALL] for text in texts]
    size = sum(map(len, kept)) + len(kept)
    for level in (_FEWER, _LEAST):
        for place in reversed(range(1, len(kept))):
            if size <= limit:
                return kept
            size += len(texts[place][level]) - len(kept[place])
            kept[place] = texts[place][level]
    rest = None
    while size > limit and len(kept) > 1:
        size -= len(kept.pop()) + 1
        rest, size = _more(entries[len(kept)], rest, size)
    for level in (_FEWER, _LEAST):
        if size > limit and kept:
            size += len(texts[0][level]) - len(kept[0])
            kept[0] = texts[0][level]
    if size > limit and kept:
        size -= len(kept.pop()) + 1
        rest, size = _more(entries[0], rest, size)
    if size > limit:
        return None
    return kept + ([_text(rest, _LEAST)] if rest else [])


def _more(entry: CommentEntry, rest: CommentEntry | None, size: int) -> tuple[CommentEntry, int]:
    """(`entry` and `rest` in one, the size of all entries then)."""
    if rest is not None:
        size -= len(_text(rest, _LEAST)) + 1
    rest = _together(entry, rest)
    return rest, size + len(_text(rest, _LEAST)) + 1


def _together(one: CommentEntry, rest: CommentEntry | None) -> CommentEntry:
    """`rest` with `one` added; what is unknown of either makes a lower bound of the sum."""
    if rest is None:
        return one._replace(name="", more=1)
    operations, unread = None, (one.read[0] is None) != (rest.read[0] is None)
    if one.operations is not None or rest.operations is not None:
        operations = dict(rest.operations or {})
        for name, count in (one.operations or {}).items():
            operations[name] = operations.get(name, 0) + count
    return CommentEntry("", rest.more + 1, _sum(one.read, rest.read), _sum(one.write, rest.write),
                 operations, None, None, one.low | rest.low | ({"llite"} if unread else set()),
                 one.high | rest.high)


def _sum(one: Pair, other: Pair) -> Pair:
    known = [bytes_ for bytes_, _ in (one, other) if bytes_ is not None]
    return sum(known) if known else None, None


def _entry(fs: FileSystemRecord) -> CommentEntry:
    """The CommentEntry of one file system of a record."""
    application, network, operations = fs.application, fs.network, fs.operations
    read = write = None, None
    if application is None:
        operations = None
    else:
        read, write = ((application[f"{way}_bytes"], application[f"{way}_calls"])
                       for way in ("read", "write"))
    if operations is not None:
        first = [name for name in _FIRST if name in operations]
        operations = {name: operations[name]["count"] for name in first + sorted(
            set(operations).difference(first),
            key=lambda name: (-operations[name]["count"], name))}
    requests = [one["requests"] for one in fs.metadata.values()]
    return CommentEntry(
        fs.name, 0, read, write, operations,
        None if network is None else (network.read_bytes, network.read_rpcs,
                                      network.write_bytes, network.write_rpcs),
        sum(requests) if requests else None,
        set(fs.low).union(() if fs.incomplete or "llite" in fs.low else
                             ALONE.keys() & set(numbers_too_low(fs))),
        frozenset(ALONE.keys() & set(fs.too_high)))


def _head(record: Record, with_job: bool) -> str:
    job, coverage = record["job"], record["coverage"]
    fields = [("a", _number(job.get("attempt")))]
    name = _encoded(job.id, PLAIN)
    if with_job and len(name) <= _LONGEST_JOB:
        fields.append(("j", name))
    fields += [
        ("n", f"{_number(coverage.reported)}/{_number(coverage.expected)}"),
        ("m", _number(coverage.missing_count)), ("x", _number(len(coverage.shared))),
        ("t", _seconds(job.started)), ("e", _seconds(job.elapsed_s))]
    if any(fs.incomplete for fs in record.file_systems):
        fields.append(("p", "1"))
    events = event_tables.count_of(record)
    if events:
        fields.append(("v", f"{events}{FATES[event_tables.data_of(record)]}"))
    return MARK + ",".join(f"{key}={value}" for key, value in fields)


def _text(entry: CommentEntry, level: int) -> str:
    """The text of one entry: all of it, or only a few operations, or only bytes and a sum."""
    fields = [_encoded(entry.name, PLAIN) if not entry.more else f"+{entry.more}"]
    for key, (bytes_, calls) in ((".r", entry.read), (".w", entry.write)):
        fields.append(f"{key}={_pair(bytes_, calls if level == _ALL else None)}")
    others = dict(entry.operations or {})
    if level < _LEAST:
        named = [name for name in others if level == _ALL or name in _FIRST]
        fields += [f"{_encoded(name, _OPERATION)}={others.pop(name)}" for name in named]
    if others:
        fields.append(f"+{len(others)}={sum(others.values())}")
    if level < _LEAST:
        if entry.network is not None:
            fields += [f".nr={_pair(*entry.network[:2])}", f".nw={_pair(*entry.network[2:])}"]
        if entry.metadata is not None:
            fields.append(f".md={entry.metadata}")
    if entry.low:
        fields.append(".l=" + "".join(sorted({LETTERS.get(source, "x") for source in entry.low})))
    if entry.high:
        fields.append(".h=" + "".join(sorted(ALONE[name] for name in entry.high)))
    return ",".join(fields)


_OPERATION = PLAIN - {"."}          # so that none is called .r


def _encoded(name: str, plain: frozenset[str]) -> str:
    """`name` with all but `plain` characters as %XX, a byte each; never empty."""
    return "".join(chr(byte) if chr(byte) in plain else f"%{byte:02x}"
                   for byte in name.encode("utf-8", "surrogatepass")) or "%"


def _pair(one: int | None, other: int | None) -> str:
    return _number(one) + ("" if other is None else f"/{other}")


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text
