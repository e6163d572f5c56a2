"""
A job's record as one short line, for the batch system's own accounting (Slurm: AdminComment).

    line  = "io1:" head *( ":" entry ) ":" CRC              docs/reference/compact.md has it by name
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
from typing import TYPE_CHECKING

from iostats.base.errors import IostatsError
from iostats.base.named_tuple import NamedTuple
from iostats.node import sources
from iostats.report import event_tables
from iostats.totals.bounds import list_too_low_numbers
from iostats.totals.job_events import LOST, MAY_BE
from iostats.totals.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet
    from typing import Optional

    from iostats.totals.record import FileSystemRecord

    Pair = tuple[Optional[int], Optional[int]]           # bytes, calls

MARK = "io1:"
OTHERS = "(others)"                 # operations that are only there as a sum
SHORT_NOTE = ("this is the short form of the report, from the job's accounting; what it does "
              "not have is -")

PLAIN_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.")
COMMENT_CHARACTERS = PLAIN_CHARACTERS | frozenset("-%=,+/:")
_SOURCES = {name: module.LETTER for name, module in sources.list_sources().items()
            if hasattr(module, "LETTER")}
BOUND_LETTERS = {"read_bytes": "r", "write_bytes": "w"}  # of llite, where these alone may be wrong
LETTERS = {**_SOURCES, **BOUND_LETTERS}
DATA_LETTERS = {"": "", LOST: "l", MAY_BE: "m"}    # of data, by an event
_FIRST_OPERATIONS = ("open", "create")  # these operations are dropped last
_ALL, _FEWER, _LEAST = range(3)     # how much of an entry is written
_LONGEST_JOB, LONGEST_NUMBER = 40, 60


class CommentError(IostatsError, ValueError):
    """A text that is no short form of a record, or a damaged one."""


class CommentEntry(NamedTuple):
    """One file system, or several added up."""

    name: str                             # of the file system; "" for several
    more: int                             # how many file systems these are; 0 for one that is named
    # read, write: (bytes, calls) by the application; either None if unknown
    read: tuple[int | None, int | None]
    write: tuple[int | None, int | None]
    # {name: count}, most frequent first, with OTHERS for those that are only there as a sum; None
    # where they are not known
    operations: Mapping[str, int] | None
    # (bytes read, RPCs, bytes written, RPCs), or None
    network: tuple[int | None, int, int | None, int] | None
    metadata: int | None                  # requests to all its MDTs, or None
    # sources with a lower bound, and "read_bytes", "write_bytes" where these alone of llite have
    # one; "" for one that has no letter
    low: AbstractSet[str]
    high: AbstractSet[str] = frozenset()  # those of the two that may be too high


def encode(form: Mapping[str, object], limit: int = 1500) -> str:
    """
    The line of the record in the JSON object `form`, at most `limit` bytes long.

    Where it would be longer, the smaller file systems say less (no calls, no network, fewer
    operations by name), and the smallest then become one entry, with their sums.
    """
    record = Record.of(form)
    entries = sorted(map(_make_entry, record.lustre), key=_rank_entry)
    for head in (_format_head(record, with_job=True), _format_head(record, with_job=False)):
        fitting = _fit_entries(entries, limit - len(head) - len(":12345678"))
        if fitting is not None:
            line = ":".join([head, *fitting])
            return f"{line}:{crc32(line.encode()):08x}"
    raise CommentError(f"expected a limit that a short form fits in, got {limit} bytes")


def _rank_entry(entry: CommentEntry) -> tuple[int, int, int, str]:
    moved = sum(bytes_ or 0 for bytes_, _ in (entry.read, entry.write))
    return -moved, -sum((entry.operations or {}).values()), -(entry.metadata or 0), entry.name


def _fit_entries(entries: list[CommentEntry], limit: int) -> list[str] | None:
    """Fit all entries into `limit` bytes, with a byte for each ":"; None if they do not fit."""
    texts = [[_format_entry(entry, level) for level in (_ALL, _FEWER, _LEAST)] for entry in entries]
    fitting = [text[_ALL] for text in texts]
    size = sum(map(len, fitting)) + len(fitting)
    for level in (_FEWER, _LEAST):
        for place in reversed(range(1, len(fitting))):
            if size <= limit:
                return fitting
            size += len(texts[place][level]) - len(fitting[place])
            fitting[place] = texts[place][level]
    rest = None
    while size > limit and len(fitting) > 1:
        size -= len(fitting.pop()) + 1
        rest, size = _merge_entry(entries[len(fitting)], rest, size)
    for level in (_FEWER, _LEAST):
        if size > limit and fitting:
            size += len(texts[0][level]) - len(fitting[0])
            fitting[0] = texts[0][level]
    if size > limit and fitting:
        size -= len(fitting.pop()) + 1
        rest, size = _merge_entry(entries[0], rest, size)
    if size > limit:
        return None
    return fitting + ([_format_entry(rest, _LEAST)] if rest else [])


def _merge_entry(entry: CommentEntry, rest: CommentEntry | None, size: int) -> tuple[CommentEntry,
                                                                                     int]:
    """Return (`entry` and `rest` in one, the size of all entries then)."""
    if rest is not None:
        size -= len(_format_entry(rest, _LEAST)) + 1
    rest = _add_entries(entry, rest)
    return rest, size + len(_format_entry(rest, _LEAST)) + 1


def _add_entries(entry: CommentEntry, rest: CommentEntry | None) -> CommentEntry:
    """Add an entry to `rest`; an unknown number makes the sum a lower bound."""
    if rest is None:
        return entry._replace(name="", more=1)
    operations, unread = None, (entry.read[0] is None) != (rest.read[0] is None)
    if entry.operations is not None or rest.operations is not None:
        operations = dict(rest.operations or {})
        for name, count in (entry.operations or {}).items():
            operations[name] = operations.get(name, 0) + count
    return CommentEntry("", rest.more + 1, _add_pairs(entry.read, rest.read),
                        _add_pairs(entry.write, rest.write),
                 operations, None, None, entry.low | rest.low | ({"llite"} if unread else set()),
                 entry.high | rest.high)


def _add_pairs(left: Pair, right: Pair) -> Pair:
    sizes = [bytes_ for bytes_, _ in (left, right) if bytes_ is not None]
    return sum(sizes) if sizes else None, None


def _make_entry(fs: FileSystemRecord) -> CommentEntry:
    """The CommentEntry of one file system of a record."""
    application, network = fs.application, fs.network
    operations: dict[str, int] | None = None
    read: Pair = (None, None)
    write: Pair = (None, None)
    if application is not None:
        read, write = ((application[f"{direction}_bytes"], application[f"{direction}_calls"])
                       for direction in ("read", "write"))
        if fs.operations is not None:
            counts = {name: row.count for name, row in fs.operations.items()}
            first = [name for name in _FIRST_OPERATIONS if name in counts]
            operations = {name: counts[name] for name in first + sorted(
                set(counts).difference(first), key=lambda name: (-counts[name], name))}
    requests = [mdt.requests for mdt in fs.metadata.values()]
    return CommentEntry(
        fs.name, 0, read, write, operations,
        None if network is None else (network.read_bytes, network.read_rpcs,
                                      network.write_bytes, network.write_rpcs),
        sum(requests) if requests else None,
        set(fs.low).union(() if fs.incomplete or "llite" in fs.low else
                          BOUND_LETTERS.keys() & set(list_too_low_numbers(fs))),
        frozenset(BOUND_LETTERS.keys() & set(fs.too_high)))


def _format_head(record: Record, with_job: bool) -> str:
    job, coverage = record["job"], record["coverage"]
    fields = [("a", _format_number(job.get("attempt")))]
    name = _encode_name(job.id, PLAIN_CHARACTERS)
    if with_job and len(name) <= _LONGEST_JOB:
        fields.append(("j", name))
    fields += [
        ("n", f"{_format_number(coverage.reported)}/{_format_number(coverage.expected)}"),
        ("m", _format_number(coverage.missing_count)), ("x", _format_number(len(coverage.shared))),
        ("t", _format_seconds(job.started)), ("e", _format_seconds(job.elapsed_s))]
    if any(fs.incomplete for fs in record.lustre):
        fields.append(("p", "1"))
    events = event_tables.count_events(record)
    if events:
        fields.append(("v", f"{events}{DATA_LETTERS[event_tables.find_data_loss(record)]}"))
    return MARK + ",".join(f"{key}={value}" for key, value in fields)


def _format_entry(entry: CommentEntry, level: int) -> str:
    """The text of one entry: all of it, or only a few operations, or only bytes and a sum."""
    fields = [_encode_name(entry.name, PLAIN_CHARACTERS) if not entry.more else f"+{entry.more}"]
    for key, (bytes_, calls) in ((".r", entry.read), (".w", entry.write)):
        fields.append(f"{key}={_format_pair(bytes_, calls if level == _ALL else None)}")
    unnamed = dict(entry.operations or {})
    if level < _LEAST:
        named = [name for name in unnamed if level == _ALL or name in _FIRST_OPERATIONS]
        fields += [f"{_encode_name(name, _OPERATION)}={unnamed.pop(name)}" for name in named]
    if unnamed:
        fields.append(f"+{len(unnamed)}={sum(unnamed.values())}")
    if level < _LEAST:
        if entry.network is not None:
            fields += [f".nr={_format_pair(*entry.network[:2])}",
                       f".nw={_format_pair(*entry.network[2:])}"]
        if entry.metadata is not None:
            fields.append(f".md={entry.metadata}")
    if entry.low:
        fields.append(".l=" + "".join(sorted({LETTERS.get(source, "x") for source in entry.low})))
    if entry.high:
        fields.append(".h=" + "".join(sorted(BOUND_LETTERS[name] for name in entry.high)))
    return ",".join(fields)


_OPERATION = PLAIN_CHARACTERS - {"."}  # so that none is called .r


def _encode_name(name: str, plain: frozenset[str]) -> str:
    """Return `name` with all but `plain` characters as %XX, a byte each; never empty."""
    return "".join(chr(byte) if chr(byte) in plain else f"%{byte:02x}"
                   for byte in name.encode("utf-8", "surrogatepass")) or "%"


def _format_pair(first: int | None, second: int | None) -> str:
    return _format_number(first) + ("" if second is None else f"/{second}")


def _format_number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _format_seconds(value: float | None) -> str:
    if value is None:
        return "-"
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text
