"""
A job's record as one short line, for the batch system's own accounting (Slurm: AdminComment).

    line  = "io1:" head *( ":" entry ) ":" CRC                        docs/compact.md has it by name
    head  = "a=" ATTEMPT ",j=" JOB ",n=" REPORTED "/" EXPECTED ",m=" MISSING ...
    entry = NAME | "+" HOW MANY MORE *( "," field )
    field = ".r=" BYTES "/" CALLS | ... | OPERATION "=" COUNT | "+" OTHERS "=" COUNT

    io1:a=0,j=4711,n=3/4,m=1,x=0,t=1795225000.5,e=1867.4,p=1:scratch,.r=4096/1,.w=-,open=23:1f2e3d4c

Small letters, digits and _ . - % = , + / : alone: sacctmgr makes all letters small (Slurm 22.05;
strip_quotes()) and alters quotes, a shell much else, and `sacct -P` prints fields with "|" between
them.  What is not known is "-" or is not there, never 0.
"""

from __future__ import annotations

from binascii import crc32
from collections import namedtuple

from iostats.base.errors import IostatsError
from iostats.node import sources
from iostats.totals.bounds import NUMBERS, numbers_too_low
from iostats.totals.record import SCHEMA, Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Optional

    from iostats.totals.record import FileSystemRecord

    Pair = tuple[Optional[int], Optional[int]]           # bytes, calls

MARK = "io1:"
OTHERS = "(others)"                 # operations that are only there as a sum
SHORT = "this is the short form of the report, from the job's accounting; what it does not have " \
        "is -"

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.")
_OURS = _PLAIN | frozenset("-%=,+/:")
_SOURCES = {name: module.LETTER for name, module in sources.known().items()
            if hasattr(module, "LETTER")}
_ALONE = {"read_bytes": "r", "write_bytes": "w"}     # of llite, where these alone may be wrong
_LETTERS = {**_SOURCES, **_ALONE}
_LOW = {letter: source for source, letter in _LETTERS.items()}
_FIRST = ("open", "create")         # these operations are kept longest
_ALL, _FEWER, _LEAST = range(3)     # how much of an entry is written
_SMALL = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_LONGEST_JOB, _LONGEST_NUMBER = 40, 60


class CompactError(IostatsError, ValueError):
    """A text that is no short form of a record, or a damaged one."""


Entry = namedtuple("Entry", "name more read write operations network metadata low high",
                   defaults=(frozenset(),))
Entry.__doc__ = """
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


# -- writing -----------------------------------------------------------------------------------


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
    raise CompactError(f"expected a limit that a short form fits in, got {limit} bytes")


def _importance(entry: Entry) -> tuple[int, int, int, str]:
    moved = sum(bytes_ or 0 for bytes_, _ in (entry.read, entry.write))
    return -moved, -sum((entry.operations or {}).values()), -(entry.metadata or 0), entry.name


def _fitting(entries: list[Entry], limit: int) -> list[str] | None:
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


def _more(entry: Entry, rest: Entry | None, size: int) -> tuple[Entry, int]:
    """(`entry` and `rest` in one, the size of all entries then)."""
    if rest is not None:
        size -= len(_text(rest, _LEAST)) + 1
    rest = _together(entry, rest)
    return rest, size + len(_text(rest, _LEAST)) + 1


def _together(one: Entry, rest: Entry | None) -> Entry:
    """The Entry of `one` more than `rest`; what is unknown of either makes a lower bound of it."""
    if rest is None:
        return one._replace(name="", more=1)
    operations, unread = None, (one.read[0] is None) != (rest.read[0] is None)
    if one.operations is not None or rest.operations is not None:
        operations = dict(rest.operations or {})
        for name, count in (one.operations or {}).items():
            operations[name] = operations.get(name, 0) + count
    return Entry("", rest.more + 1, _sum(one.read, rest.read), _sum(one.write, rest.write),
                 operations, None, None, one.low | rest.low | ({"llite"} if unread else set()),
                 one.high | rest.high)


def _sum(one: Pair, other: Pair) -> Pair:
    known = [bytes_ for bytes_, _ in (one, other) if bytes_ is not None]
    return sum(known) if known else None, None


def _entry(fs: FileSystemRecord) -> Entry:
    """The Entry of one file system of a record."""
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
    return Entry(
        fs.name, 0, read, write, operations,
        None if network is None else (network.read_bytes, network.read_rpcs,
                                      network.write_bytes, network.write_rpcs),
        sum(requests) if requests else None,
        set(fs.low).union(() if fs.incomplete or "llite" in fs.low else
                             _ALONE.keys() & set(numbers_too_low(fs))),
        frozenset(_ALONE.keys() & set(fs.too_high)))


def _head(record: Record, with_job: bool) -> str:
    job, coverage = record["job"], record["coverage"]
    fields = [("a", _number(job.get("attempt")))]
    name = _encoded(job.id, _PLAIN)
    if with_job and len(name) <= _LONGEST_JOB:
        fields.append(("j", name))
    fields += [
        ("n", f"{_number(coverage.reported)}/{_number(coverage.expected)}"),
        ("m", _number(coverage.missing_count)), ("x", _number(len(coverage.shared))),
        ("t", _seconds(job.started)), ("e", _seconds(job.elapsed_s))]
    if any(fs.incomplete for fs in record.file_systems):
        fields.append(("p", "1"))
    return MARK + ",".join(f"{key}={value}" for key, value in fields)


def _text(entry: Entry, level: int) -> str:
    """The text of one Entry: all of it, or only a few operations, or only bytes and a sum."""
    fields = [_encoded(entry.name, _PLAIN) if not entry.more else f"+{entry.more}"]
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
        fields.append(".l=" + "".join(sorted({_LETTERS.get(source, "x") for source in entry.low})))
    if entry.high:
        fields.append(".h=" + "".join(sorted(_ALONE[name] for name in entry.high)))
    return ",".join(fields)


_OPERATION = _PLAIN - {"."}          # so that none is called .r


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


# -- reading -----------------------------------------------------------------------------------


def find(text: str) -> str | None:
    """
    Our part of a text with other things in it as well, or None.

    A damaged one comes as it is, so that `decode` can say so.
    """
    text = _small(text)
    damaged, start = None, text.find(MARK)
    while start >= 0:
        end, another = start, text.find(MARK, start + 1)        # which no line has inside
        while end < len(text) and end != another and text[end] in _OURS:
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


def _small(text: str) -> str:
    """`text` with small letters; as sacctmgr does it, those of ASCII alone."""
    return text.translate(_SMALL)


def decode(text: str) -> dict[str, Any]:
    """
    What the line `text` says, as a dict: job, attempt, reported, expected, missing_count, shared,
    started, elapsed_s (None where not known), incomplete, and `file_systems`, a list of Entry.

    CompactError where it is none, or is damaged.
    """
    text = _small(text.strip())
    if not text.startswith(MARK):
        raise CompactError(f"expected a text that begins with {MARK!r}, got {text[:40]!r}")
    body, _, crc = text.rpartition(":")
    if not text.isascii() or crc != f"{crc32(body.encode()):08x}":
        raise CompactError(f"{text[:40]!r}...: the text is cut off or altered: its last 8 "
                           f"characters are not the checksum of the others")
    try:
        head, *entries = body[len(MARK):].split(":")
        fields = dict(field.split("=", 1) for field in head.split(","))
        reported, expected = fields["n"].split("/")
        return {
            "job": _decoded(fields["j"]) if "j" in fields else None,
            "attempt": _count(fields["a"]), "reported": _known(reported),
            "expected": _count(expected), "missing_count": _known(fields["m"]),
            "shared": _known(fields["x"]), "started": _time(fields["t"]),
            "elapsed_s": _time(fields["e"]), "incomplete": fields.get("p") == "1",
            "file_systems": [_entry_of(entry) for entry in entries],
        }
    except (KeyError, ValueError, TypeError) as error:
        raise CompactError(f"{text[:40]!r}...: not of the form of docs/compact.md: "
                           f"{error}") from None


def _entry_of(text: str) -> Entry:
    name, *rest = text.split(",")
    fields: dict[str, str] = {}
    operations: dict[str, int] = {}
    for field in rest:
        key, value = field.split("=", 1)
        if key[:1] == ".":
            fields[key] = value                     # one that we don't know is of a later release
        else:
            operation = OTHERS if key[:1] == "+" else _decoded(key)
            operations[operation] = operations.get(operation, 0) + _known(value)
    read, write, network = _counts(fields[".r"]), _counts(fields[".w"]), None
    if ".nr" in fields:
        network = (*_counts(fields[".nr"]), *_counts(fields[".nw"]))
    more = _known(name[1:]) if name[:1] == "+" else 0
    return Entry("" if more else _decoded(name), more, read, write,
                 None if read[0] is None else operations, network,
                 _count(fields[".md"]) if ".md" in fields else None,
                 {_LOW.get(letter, "") for letter in fields.get(".l", "")},
                 frozenset(name for name, letter in _ALONE.items()
                           if letter in fields.get(".h", "")))


def _count(text: str) -> int | None:
    if text == "-":
        return None
    if not (text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise ValueError(f"expected a number, got {text[:20]!r}")
    return int(text)


def _known(text: str) -> int:
    """The same of what must be known."""
    number = _count(text)
    if number is None:
        raise ValueError("expected a number, got '-'")
    return number


def _counts(text: str) -> Pair:
    one, slash, other = text.partition("/")
    return _count(one), _count(other) if slash else None


def _time(text: str) -> float | None:
    if text == "-":
        return None
    value = float(text)
    if not 0 <= abs(value) < 1e15:
        raise ValueError(f"expected seconds, got {text[:20]!r}")
    return value


def _decoded(name: str) -> str:
    if name == "%":
        return ""
    first, *others = name.split("%")
    found = first.encode()
    for one in others:
        found += bytes([int(one[:2], 16)]) + one[2:].encode()
    return found.decode("utf-8", "surrogatepass")


# -- as a record -------------------------------------------------------------------------------


def as_record(decoded: dict[str, Any], job: str | None = None) -> Record:
    """
    What `decode` gave, in the shape of docs/record.schema.json: what is not there is None, {} or
    []; `short` says that it is one.  `job`: its id, where the line does not have it.
    """
    started, elapsed_s = decoded["started"], decoded["elapsed_s"]
    ended = None if started is None or elapsed_s is None else round(started + elapsed_s, 3)
    notes = [SHORT]
    if decoded["shared"]:
        notes.append(f"other jobs were on {decoded['shared']} "
                     f"{'node' if decoded['shared'] == 1 else 'nodes'} of the job: the numbers are "
                     f"the nodes', not this job's alone")
    incomplete = decoded["incomplete"]
    return Record.of({
        "schema": SCHEMA, "short": True,
        "job": {"id": job or decoded["job"] or "-", "attempt": decoded["attempt"], "user": None,
                "started": started, "ended": ended, "elapsed_s": elapsed_s},
        "batch": None,
        "harvest": None,
        "coverage": {"expected": decoded["expected"], "reported": decoded["reported"],
                     "missing": {}, "missing_count": decoded["missing_count"],
                     "complete": decoded["missing_count"] == 0
                                 and decoded["expected"] is not None,
                     "refused": {}, "shared": {}, "node_seconds": None},
        "file_systems": [_file_system(entry, incomplete) for entry in decoded["file_systems"]],
        "phases": [], "nodes": {}, "notes": notes,
    })


def _file_system(entry: Entry, incomplete: bool) -> dict[str, Any]:
    application = network = None
    low = {source or "another" for source in entry.low if source not in _ALONE}
    too_low: Sequence[str] = ()
    if entry.read[0] is not None:
        too_low = (NUMBERS if incomplete or "llite" in low else
                   sorted(_ALONE.keys() & set(entry.low)))
        application = {
            "read_bytes": entry.read[0], "write_bytes": entry.write[0],
            "read_calls": entry.read[1], "write_calls": entry.write[1],
            "lower_bound": bool(too_low)}
    if entry.network is not None:
        layer = {"osc", "mdc"} | ({"rpc_stats"} if entry.network[0] is None else set())
        network = {
            "read_bytes": entry.network[0], "write_bytes": entry.network[2],
            "read_rpcs": entry.network[1], "write_rpcs": entry.network[3],
            "lower_bound": incomplete or not low.isdisjoint(layer)}
    name = f"({entry.more} more)" if entry.more else entry.name
    return {
        "name": name, "label": name, "mounts": [], "application": application, "network": network,
        "operations": None if entry.operations is None else {
            name: {"count": count, "seconds": None, "stddev_s": None}
            for name, count in entry.operations.items()},
        "calls": None, "other": None,
        "metadata": {} if entry.metadata is None else {"all MDTs": {
            "operations": {}, "requests": entry.metadata, "per_second_per_node": None,
            "peak": None}},
        "balance": None, "request_pages": None, "unproved": [], "sources": {},
        "cached_read_bytes": None,
        "dirty_bytes": None, "series": None, "targets": {}, "per_node": {},
        "lower_bound": bool(incomplete or low or too_low), "too_low": list(too_low),
        "too_high": sorted(entry.high), "write_bytes_max": None,
        "incomplete": incomplete, "low": sorted(low),
        "notes": [],
    }
