"""
The line that accounting_comment writes, read back: found in a comment, checked, and as a record.
"""

from __future__ import annotations

from binascii import crc32
from typing import TYPE_CHECKING

from iostats.report.accounting_comment import (
    BOUND_LETTERS,
    COMMENT_CHARACTERS,
    DATA_LETTERS,
    LETTERS,
    LONGEST_NUMBER,
    MARK,
    OTHERS,
    SHORT_NOTE,
    CommentEntry,
    CommentError,
)
from iostats.totals.bounds import LUSTRE, NUMBERS, UPPER_BOUNDS
from iostats.totals.job_events import LOST, MAY_BE
from iostats.totals.record import (
    ApplicationIO,
    Coverage,
    FileSystemRecord,
    MetadataRequests,
    NetworkIO,
    OperationRow,
    Record,
    RecordedJob,
)
from iostats.totals.record_part import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Optional, TypedDict

    from iostats.report.accounting_comment import Pair

    class DecodedComment(TypedDict):
        """The line as `decode` has read it; None: unknown."""

        job: Optional[str]
        attempt: Optional[int]
        reported: int
        expected: Optional[int]
        missing_count: int
        shared: int
        started: Optional[float]
        elapsed_s: Optional[float]
        incomplete: bool
        events: int             # their number
        data: str               # as in a JobEvent
        file_systems: list[CommentEntry]

_FATES = {letter: fate for fate, letter in DATA_LETTERS.items()}
_LOW = {letter: source for source, letter in LETTERS.items()}
_SMALL = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def find_comment(text: str) -> str | None:
    """Find our text in a comment that may contain other texts; None without one.

    A damaged one comes as it is, so that `decode` can say so.
    """
    text = lowercase_ascii(text)
    damaged, start = None, text.find(MARK)
    while start >= 0:
        end, another = start, text.find(MARK, start + 1)        # which no line has inside
        while end < len(text) and end != another and text[end] in COMMENT_CHARACTERS:
            end += 1
        crc, at = 0, start
        for colon in range(start + len(MARK), end - 8):
            if text[colon] == ":":
                crc, at = crc32(text[at:colon].encode(), crc), colon
                if text[colon + 1:colon + 9] == f"{crc:08x}":
                    return text[start:colon + 9]
        damaged = damaged or text[start:end]
        start = another
    return damaged


def lowercase_ascii(text: str) -> str:
    """Convert `text` to small letters as sacctmgr does: only those of ASCII."""
    return text.translate(_SMALL)


def decode(text: str) -> DecodedComment:
    """Parse the line `text`; CommentError if it is not such a line, or is damaged."""
    text = lowercase_ascii(text.strip())
    if not text.startswith(MARK):
        raise CommentError(f"expected a text that begins with {MARK!r}, got {text[:40]!r}")
    body, _, crc = text.rpartition(":")
    if not text.isascii() or crc != f"{crc32(body.encode()):08x}":
        raise CommentError(f"{text[:40]!r}...: the text is cut off or altered: its last 8 "
                           f"characters are not the checksum of the others")
    try:
        head, *entries = body[len(MARK):].split(":")
        fields = dict(field.split("=", 1) for field in head.split(","))
        reported, expected = fields["n"].split("/")
        return {
            "job": _decode_name(fields["j"]) if "j" in fields else None,
            "attempt": _decode_count(fields["a"]), "reported": _require_count(reported),
            "expected": _decode_count(expected), "missing_count": _require_count(fields["m"]),
            "shared": _require_count(fields["x"]), "started": _decode_time(fields["t"]),
            "elapsed_s": _decode_time(fields["e"]), "incomplete": fields.get("p") == "1",
            "events": _require_count(fields["v"].rstrip("lm")) if "v" in fields else 0,
            "data": _FATES.get(fields.get("v", "")[-1:], ""),
            "file_systems": [_decode_entry(entry) for entry in entries],
        }
    except (KeyError, ValueError, TypeError) as error:
        raise CommentError(f"{text[:40]!r}...: unexpected format (docs/reference/compact.md): "
                           f"{error}") from None


def _decode_entry(text: str) -> CommentEntry:
    name, *rest = text.split(",")
    fields: dict[str, str] = {}
    operations: dict[str, int] = {}
    for field in rest:
        key, value = field.split("=", 1)
        if key[:1] == ".":
            fields[key] = value                     # one that we don't know is of a later release
        else:
            operation = OTHERS if key[:1] == "+" else _decode_name(key)
            operations[operation] = operations.get(operation, 0) + _require_count(value)
    read, write, network = _decode_pair(fields[".r"]), _decode_pair(fields[".w"]), None
    if (read[0] is None) != (write[0] is None):
        raise ValueError(f"expected bytes read and written, or neither, got {fields['.r'][:20]!r} "
                         f"and {fields['.w'][:20]!r}")
    if ".nr" in fields:
        (read_bytes, read_rpcs), (write_bytes, write_rpcs) = (
            _decode_pair(fields[".nr"]), _decode_pair(fields[".nw"]))
        if read_rpcs is None or write_rpcs is None:
            raise ValueError(f"expected bytes/RPCs, got {fields['.nr'][:20]!r} and "
                             f"{fields['.nw'][:20]!r}")
        network = (read_bytes, read_rpcs, write_bytes, write_rpcs)
    more = _require_count(name[1:]) if name[:1] == "+" else 0
    return CommentEntry("" if more else _decode_name(name), more, read, write,
                        None if read[0] is None else operations, network,
                        _decode_count(fields[".md"]) if ".md" in fields else None,
                        {_LOW.get(letter, "") for letter in fields.get(".l", "")},
                        frozenset(name for name, letter in BOUND_LETTERS.items()
                                  if letter in fields.get(".h", "")))


def _decode_count(text: str) -> int | None:
    if text == "-":
        return None
    if not (text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise ValueError(f"expected a number, got {text[:20]!r}")
    return int(text)


def _require_count(text: str) -> int:
    """Parse a count that must be present."""
    number = _decode_count(text)
    if number is None:
        raise ValueError("expected a number, got '-'")
    return number


def _decode_pair(text: str) -> Pair:
    left, slash, right = text.partition("/")
    return _decode_count(left), _decode_count(right) if slash else None


def _decode_time(text: str) -> float | None:
    if text == "-":
        return None
    value = float(text)
    if not 0 <= abs(value) < 1e15:
        raise ValueError(f"expected seconds, got {text[:20]!r}")
    return value


def _decode_name(name: str) -> str:
    if name == "%":
        return ""
    first, *parts = name.split("%")
    decoded = first.encode()
    for part in parts:
        decoded += bytes([int(part[:2], 16)]) + part[2:].encode()
    return decoded.decode("utf-8", "surrogatepass")


def make_record(decoded: DecodedComment, job: str | None = None) -> Record:
    """
    Make a Record from the result of `decode`; members without data are None, {} or [], and `short`
    marks it as a short form.  `job`: the id to use if the line has none.
    """
    started, elapsed_s = decoded["started"], decoded["elapsed_s"]
    ended = None if started is None or elapsed_s is None else round(started + elapsed_s, 3)
    notes = [SHORT_NOTE]
    if decoded["shared"]:
        notes.append(f"other jobs were on {decoded['shared']} "
                     f"{'node' if decoded['shared'] == 1 else 'nodes'} of the job: the numbers are "
                     f"the nodes', not this job's alone")
    if decoded["events"]:
        count = decoded["events"]
        fate = {"": "", LOST: ": data was lost", MAY_BE: ": data may be lost"}[decoded["data"]]
        notes.append(f"{count} {'event' if count == 1 else 'events'} during this job{fate}")
    incomplete = decoded["incomplete"]
    return Record(
        schema=SCHEMA, short=True,
        job=RecordedJob(
            id=job or decoded["job"] or "-", attempt=decoded["attempt"], user=None, started=started,
            ended=ended, elapsed_s=elapsed_s, command=""),
        batch=None, harvest=None, by_node=None, imported=None,
        coverage=Coverage(
            expected=decoded["expected"], reported=decoded["reported"], missing={},
            missing_count=decoded["missing_count"],
            complete=decoded["missing_count"] == 0 and decoded["expected"] is not None,
            refused={}, shared={}, node_seconds=None, cpus_of_node=None),
        file_systems=[_make_file_system(entry, incomplete) for entry in decoded["file_systems"]],
        phases=[], nodes={}, lnet=None, notes=notes, events=None, events_more=0, quotas=None,
        findings=None, main_cause=None)


def _make_file_system(entry: CommentEntry, incomplete: bool) -> FileSystemRecord:
    application = network = None
    low = {source or "another" for source in entry.low if source not in BOUND_LETTERS}
    too_low: Sequence[str] = ()
    if entry.read[0] is not None and entry.write[0] is not None:
        too_low = (NUMBERS if incomplete or "llite" in low else
                   sorted(BOUND_LETTERS.keys() & set(entry.low)))
        application = ApplicationIO(
            read_bytes=entry.read[0], write_bytes=entry.write[0], read_calls=entry.read[1],
            write_calls=entry.write[1], lower_bound=bool(too_low))
    if entry.network is not None:
        layer = {"osc", "mdc"} | ({"rpc_stats"} if entry.network[0] is None else set())
        network = NetworkIO(
            read_bytes=entry.network[0], write_bytes=entry.network[2],
            read_rpcs=entry.network[1], write_rpcs=entry.network[3],
            lower_bound=incomplete or not low.isdisjoint(layer))
    name = f"({entry.more} more)" if entry.more else entry.name
    return FileSystemRecord(
        name=name, label=name, kind=LUSTRE, mounts=[], application=application, network=network,
        operations=None if entry.operations is None else {
            name: OperationRow(count=count, seconds=None, stddev_s=None)
            for name, count in entry.operations.items()},
        calls=None, other=None,
        metadata={} if entry.metadata is None else {"all MDTs": MetadataRequests(
            operations={}, requests=entry.metadata, per_second_per_node=None, peak=None)},
        balance=None, request_pages=None, unproved=[], sources={}, cached_read_bytes=None,
        dirty_bytes=None, series=None, idle=None, targets={}, per_node={}, slow_nodes=[],
        lower_bound=bool(incomplete or low or too_low), too_low=list(too_low),
        too_high=[*sorted(entry.high), *(name for name in UPPER_BOUNDS
                                         if (entry.operations or {}).get(name))],
        write_bytes_max=None, incomplete=incomplete, low=sorted(low), notes=[])
