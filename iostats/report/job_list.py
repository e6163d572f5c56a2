"""
One line for each job: what `iostats jobs` knows of a job, and how it shows it.

    record  ->  Summary: a few numbers, kept beside the record, so that a question over 100,000 jobs
                is one look at an index
    Summary ->  a row of `jobs`, the site server's method: {name of a field: value}
    row     ->  cells, in the habits of sacct(1): -o NAME%WIDTH, -p, -P, --units, --noconvert

ReadBytes, WriteBytes, Opens, Creates and Operations are what programs asked for, as the nodes have
reported it; of a job of which no node has, what the storage servers counted for it (Source says
which, and Note too).  Unknown is "-", a lower bound begins with ">=".
"""

from __future__ import annotations

import re
from collections import namedtuple
from datetime import datetime

from iostats.base.errors import UsageError, one_line
from iostats.base.text import cut, padded, width_of
from iostats.base.units import bytes_in, bytes_text
from iostats.lustre.metrics import operations_in
from iostats.report.accounting_comment import OTHERS
from iostats.totals.bounds import mark_of, numbers_too_low

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

_MOST = 2**63 - 1                   # what SQLite can keep as an integer
_LONGEST_NAME = 256
NODES, SERVERS = "nodes", "servers"

Summary = namedtuple("Summary", (
    "account partition name outcome exit_code started ended elapsed_s nodes reported shared "
    "file_systems source read_bytes write_bytes opens creates operations lower_bound "
    "net_read_bytes net_write_bytes net_lower_bound server_read_bytes server_write_bytes "
    "server_operations server_lower_bound final began over"), defaults=(
    *("",) * 5, *(None,) * 4, 0, 0, "", "", *(None,) * 5, 0, None, None, 0, None, None, None, 0, 1,
    None, None))
Summary.__doc__ = """
A job's record in short, as SQLite keeps it: text "" and number None where it is not known.

Attributes: as in FIELDS; `lower_bound` has bits that `wrong_of` knows, `net_lower_bound`,
`server_lower_bound` and `final` are 0 or 1, `file_systems` names with commas between; `began` and
`over` are when it was there as far as anybody has seen, to find it by: nodes or else the storage
servers.
"""

_OF_PROGRAMS = ("read_bytes", "write_bytes", "opens", "creates", "operations")
# Bits of `lower_bound`: all of these may be too low, or one alone; one may be too high.
_ALL_LOW, _ALONE, _HIGH = 1, {"read_bytes": 2, "write_bytes": 4}, {"write_bytes": 8}
SOME_LOW = _ALL_LOW | sum(_ALONE.values())


def wrong_of(bits: int) -> tuple[list[str], list[str]]:
    """(names of what may be too low, of what may be too high) in the bits of a Summary."""
    low = (_OF_PROGRAMS if bits & _ALL_LOW else
           [name for name, bit in _ALONE.items() if bits & bit])
    return list(low), [name for name, bit in _HIGH.items() if bits & bit]


def bits_of(too_low: Iterable[str], too_high: Iterable[str]) -> int:
    """The bits of what `wrong_of` says."""
    low, high = set(too_low), set(too_high)
    return (_ALL_LOW * ("operations" in low) | sum(bit for name, bit in _HIGH.items()
                                                  if name in high)
            | sum(bit for name, bit in _ALONE.items() if name in low and "operations" not in low))


# -- from a record -----------------------------------------------------------------------------

def summary_of(record: dict[str, Any]) -> Summary:
    """The Summary of a record of docs/record.schema.json."""
    job, batch, coverage = record["job"], record["batch"] or {}, record["coverage"]
    harvest = record.get("harvest") or {}
    nodes, servers = record["file_systems"], harvest.get("file_systems", ())
    by_nodes = _of_nodes(nodes)
    by_servers = _of_servers(servers, harvest.get("lower_bound", False))
    source = NODES if coverage["reported"] else SERVERS if servers else ""
    shown = by_servers if source == SERVERS else by_nodes
    network = [fs["network"] or {} for fs in nodes]
    net = {way: [one.get(way) for one in network] for way in ("read_bytes", "write_bytes")}
    network_bytes, net_low = _added(net, any(one.get("lower_bound") for one in network))
    return Summary(
        account=batch.get("account", ""), partition=batch.get("partition", ""),
        name=batch.get("name", "")[:_LONGEST_NAME], outcome=batch.get("outcome", ""),
        exit_code=_exit_code(batch.get("exit_status"), batch.get("exit_signal")),
        started=job["started"], ended=job["ended"],
        elapsed_s=(harvest["ended"] - harvest["began"] or None) if source == SERVERS and (
            job["elapsed_s"] is None) else job["elapsed_s"],
        nodes=coverage["expected"], reported=coverage["reported"],
        shared=len(coverage["shared"]),
        file_systems=",".join(sorted({fs["name"] for fs in (*nodes, *servers)})), source=source,
        **{name: shown[name] for name in ("read_bytes", "write_bytes", "opens", "creates",
                                          "operations", "lower_bound")},
        net_read_bytes=network_bytes["read_bytes"],
        net_write_bytes=network_bytes["write_bytes"],
        net_lower_bound=net_low,
        server_read_bytes=by_servers["read_bytes"], server_write_bytes=by_servers["write_bytes"],
        server_operations=by_servers["operations"],
        server_lower_bound=by_servers["lower_bound"],
        final=int(harvest.get("final", True)),
        began=harvest.get("began") if job["started"] is None else job["started"],
        over=harvest.get("ended") if job["ended"] is None else job["ended"])


def _of_nodes(file_systems: list[dict[str, Any]]) -> dict[str, Any]:
    """What programs did, on all file systems together."""
    application = [fs["application"] or {} for fs in file_systems]
    found = {name: [one.get(name) for one in application] for name in ("read_bytes", "write_bytes")}
    operations = [fs["operations"] for fs in file_systems]
    found["opens"] = [_calls(one, "open") for one in operations]
    found["creates"] = [_calls(one, "create") for one in operations]
    found["operations"] = [None if one is None else operations_in(one)
                           for one in operations]
    too_low = {name for fs in file_systems for name in numbers_too_low(fs)}
    sums, low = _added(found, "operations" in too_low)
    return {**sums, "lower_bound": bits_of(too_low | ({"operations"} if low else set()), {
        name for fs in file_systems for name in fs.get("too_high", ())})}


def _calls(operations: dict[str, Any] | None, name: str) -> int | None:
    """How often a call was made; None where that is not known."""
    if operations is None or (name not in operations and OTHERS in operations):
        return None
    return operations[name]["count"] if name in operations else 0


def _of_servers(file_systems: Sequence[dict[str, Any]], low: bool) -> dict[str, Any]:
    """What the storage servers counted for the job, on all file systems together."""
    found = {name: [fs[name] for fs in file_systems] for name in ("read_bytes", "write_bytes")}
    # Opens are counted by MDTs: where none has seen the job, it may be that none is harvested.
    found["opens"] = [_calls(fs["operations"] if any(target.startswith("MDT") for target in
                                                     fs.get("targets", ())) else None, "open")
                      for fs in file_systems]
    found["operations"] = [operations_in(fs["operations"]) for fs in file_systems]
    sums, is_low = _added(found, low or any(fs["lower_bound"] for fs in file_systems))
    # An OST's `create` makes objects, before any file needs them.
    return {**sums, "creates": None, "lower_bound": is_low}


def _added(columns: Mapping[str, Sequence[int | None]],
           low: bool) -> tuple[dict[str, int | None], int]:
    """({name: sum of what is known, or None}, 1 where one of them may be too low)."""
    sums = {}
    for name, values in columns.items():
        known = [value for value in values if value is not None]
        sums[name] = min(sum(known), _MOST) if known else None
        low = low or 0 < len(known) < len(values) or sum(known) > _MOST
    return sums, int(bool(low))


def _exit_code(status: int | None, signal: int | None) -> str:
    return "" if status is None and signal is None else f"{status or 0}:{signal or 0}"


# -- fields --------------------------------------------------------------------------------------

Field = namedtuple("Field", "column name kind bound help")
Field.__doc__ = """
What can be asked for.

Attributes:
    column: its name in tables, and with -o.
    name: its name in rows, and in JSON.
    kind: text, names, count, bytes, time, duration, seconds, yes, note.
    bound: the name that says whether it may be too low; "" for what never is.
    help: for --helpformat and docs/jobs.md.
"""


def _of_programs(column: str, name: str, kind: str, help: str) -> Field:
    return Field(column, name, kind, "lower_bound", help)


FIELDS = (
    Field("JobID", "job_id", "text", "", "the job as its users write it: 4711, 100_3, 4711+1"),
    Field("JobIDRaw", "raw_job_id", "text", "", "the id that prologs see"),
    Field("JobName", "name", "text", "", "the job's name"),
    Field("User", "user", "text", "", "whose job it is"),
    Field("Account", "account", "text", "", "the account or project"),
    Field("Partition", "partition", "text", "", "the partition or queue"),
    Field("Cluster", "cluster", "text", "", "the batch system's cluster"),
    Field("State", "outcome", "text", "", "how it ended, in Slurm's words"),
    Field("ExitCode", "exit_code", "text", "", "exit status:signal of the batch script"),
    Field("Restarts", "attempt", "count", "", "how often it was started again before this run"),
    Field("Start", "started", "time", "", "the first node's start"),
    Field("End", "ended", "time", "", "the last node's stop"),
    Field("Elapsed", "elapsed_s", "duration", "",
          "Start to End, [days-]hours:minutes:seconds; ~ is about"),
    Field("ElapsedRaw", "elapsed_s", "seconds", "", "the same in seconds"),
    Field("NNodes", "nodes", "count", "", "nodes of the job"),
    Field("NReported", "reported", "count", "", "nodes whose report is in the numbers"),
    Field("NShared", "shared", "count", "", "nodes on which other jobs were at the same time"),
    Field("FileSystems", "file_systems", "names", "", "file systems that the job could see"),
    _of_programs("ReadBytes", "read_bytes", "bytes", "read by programs"),
    _of_programs("WriteBytes", "write_bytes", "bytes", "written by programs"),
    _of_programs("Opens", "opens", "count", "files and directories opened"),
    _of_programs("Creates", "creates", "count", "files created"),
    _of_programs("Operations", "operations", "count", "calls other than read and write"),
    Field("LowerBound", "lower_bound", "yes", "", "some of the five before may be too low"),
    Field("TooLow", "too_low", "names", "", "which of them may be"),
    Field("TooHigh", "too_high", "names", "", "which of them may be too high (evictions)"),
    Field("Source", "source", "text", "", "who counted these: nodes, or (storage) servers"),
    Field("NetReadBytes", "net_read_bytes", "bytes", "net_lower_bound",
          "that came over the network, as the nodes counted it"),
    Field("NetWriteBytes", "net_write_bytes", "bytes", "net_lower_bound",
          "that went over the network, as the nodes counted it"),
    Field("NetLowerBound", "net_lower_bound", "yes", "", "the two before may be too low"),
    Field("ServerReadBytes", "server_read_bytes", "bytes", "server_lower_bound",
          "read, as the storage servers counted it under the job's id"),
    Field("ServerWriteBytes", "server_write_bytes", "bytes", "server_lower_bound",
          "written, as the storage servers counted it"),
    Field("ServerOperations", "server_operations", "count", "server_lower_bound",
          "other operations that the storage servers counted"),
    Field("ServerLowerBound", "server_lower_bound", "yes", "", "the three before may be too low"),
    Field("Final", "final", "yes", "", "no: the storage servers may still count more"),
    Field("Note", "note", "note", "", "what to know of the numbers, in short"),
)
DEFAULT = ("JobID,JobName%-10,User,NNodes,State,Elapsed,ReadBytes,WriteBytes,Opens,Operations,Note")
ALL = "ALL"
BRIEF = "JobID,State,ReadBytes,WriteBytes"
_BY_NAME: dict[str, Field] = {}
for _field in FIELDS:
    for _name in (_field.column, _field.name):
        _BY_NAME.setdefault(_name.lower().replace("_", ""), _field)
_NUMBERS = ("count", "bytes", "time", "duration", "seconds")     # at the right, and never cut

# What a row of the site's server has; `note` and ElapsedRaw are made of it.
NAMES = tuple(dict.fromkeys(one.name for one in FIELDS if one.kind != "note"))

# sacct(1), JOB STATE CODES.
STATES = {"BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "DL": "DEADLINE", "F": "FAILED",
          "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PR": "PREEMPTED", "RQ": "REQUEUED",
          "TO": "TIMEOUT"}
_OUTCOMES = sorted({*STATES.values(), "KILLED", "LAUNCH_FAILED", "REVOKED"})


def field_of(name: str, what: str) -> Field:
    """
    The Field of a name, or the first of FIELDS that begins so, as with sacct; UsageError names
    `what` it stood in.
    """
    key = name.strip().lower().replace("_", "")
    found = _BY_NAME.get(key) or next((one for one in FIELDS if key and one.column.lower()
                                       .startswith(key)), None)
    if not found:
        raise UsageError(f"{what}: expected a field, got {name[:40]!r}; `iostats jobs -e` lists "
                         f"them")
    return found


Column = namedtuple("Column", "field width left")
Column.__doc__ = """
A column of the table.

Attributes:
    width: in characters; None for as wide as it needs.
    left: at the left; None as its kind is.
"""

_WIDEST = 1000


def columns_of(text: str, what: str = "--format") -> list[Column]:
    """[Column] of "JobID,User%-8,ReadBytes%12"; UsageError names `what`."""
    found = []
    for part in text.split(","):
        if not part.strip():
            continue
        if part.strip().upper() == ALL:
            found += [Column(field, None, None) for field in FIELDS]
            continue
        name, percent, width = part.partition("%")
        column = Column(field_of(name, what), None, None)
        if percent:
            sized = re.fullmatch(r"(-?)(\d{1,4})", width.strip(), re.ASCII)
            if not sized or not 1 <= int(sized[2]) <= _WIDEST:
                raise UsageError(f"{what}: expected a width from 1 to {_WIDEST} as in "
                                 f"{name.strip()[:40]}%12 or %-12, got {part[:40]!r}")
            column = column._replace(width=int(sized[2]), left=bool(sized[1]))
        found.append(column)
    if not found:
        raise UsageError(f"{what}: expected names of fields with commas between, got {text[:40]!r}")
    return found


def sort_of(text: str, what: str = "--sort") -> tuple[str, bool]:
    """(name of a row's field, is descending) of "write_bytes" or "-write_bytes"; UsageError."""
    field = field_of(text[1:] if text[:1] in ("-", "+") else text, what)
    if field.kind == "note":
        raise UsageError(f"{what}: expected a field other than {field.column}, which is no order")
    return field.name, text[:1] == "-"


def state_of(text: str, what: str = "--state") -> str:
    """A state as records have it, of its short form or in small letters; UsageError."""
    state = STATES.get(text.upper(), text.upper())
    if state not in _OUTCOMES:
        raise UsageError(f"{what}: expected how a job ended, {', '.join(_OUTCOMES)}, or F, TO ..., "
                         f"got {text[:40]!r}")
    return state


# -- cells -----------------------------------------------------------------------------------------

How = namedtuple("How", "units unit raw", defaults=("binary", None, False))
How.__doc__ = """
How numbers are shown.

Attributes:
    units: as [report] units in site.cfg.
    unit: all bytes in this one: K, M, G, T or P; None for what fits.
    raw: bytes as they are, without a word.
"""
AS_FITS = How()


def cell(row: dict[str, Any], field: Field, how: How = AS_FITS) -> str:
    """The text of a field of a row."""
    if field.kind == "note":
        return note_of(row)
    value = row[field.name]
    if value is None or value == "" or value == []:
        return "-"
    if field.kind == "text":
        return one_line(value)
    if field.kind == "names":
        return one_line(",".join(value))
    if field.kind == "yes":
        return "yes" if value else "no"
    if field.kind == "time":
        return _time_text(value)
    if field.kind == "duration":
        return ("~" if _is_seen(row) else "") + _duration_text(value)
    bound = _mark(row, field)
    if field.kind == "bytes" and not how.raw:
        return bound + (bytes_in(value, how.unit, how.units) if how.unit else
                        bytes_text(value, how.units))
    return f"{bound}{int(value)}"


def note_of(row: dict[str, Any]) -> str:
    """
    Why a row's numbers are not all of the job's, or not the job's alone; "" where they are.

        3 of 4 nodes; 2 shared; storage servers only; not final; >= gaps in the harvest
    """
    found = []
    if row["source"] == NODES and row["nodes"] is not None and row["reported"] < row["nodes"]:
        found.append(f"{row['reported']} of {row['nodes']} nodes")
    elif row["source"] == NODES and row["nodes"] is None:
        found.append(f"{row['reported']} of ? nodes")
    if row["shared"]:
        found.append(f"{row['shared']} shared")
    if row["source"] == SERVERS:
        found.append("storage servers only")
    elif not row["source"]:
        found.append("no report")
    if not row["final"]:
        found.append("not final")
    elif row["source"] == SERVERS and row["lower_bound"]:
        found.append(">= gaps in the harvest")
    if row["lower_bound"] and "operations" not in _too_low(row):
        found.append("not all bytes counted")
    if row.get("too_high"):
        found.append("evicted")
    return "; ".join(found)


def _mark(row: dict[str, Any], field: Field) -> str:
    """Which way the number of a field may be wrong."""
    if not field.bound:
        return ""
    low = row[field.bound]
    if field.bound == "lower_bound":
        low = low and field.name in _too_low(row)
    return mark_of(low, field.name in (row.get("too_high") or ()))


def _too_low(row: dict[str, Any]) -> Sequence[str]:
    """Which of the five may be too low, where one is; an older server does not tell."""
    found: Sequence[str] | None = row.get("too_low")
    return _OF_PROGRAMS if found is None else found


def _is_seen(row: dict[str, Any]) -> bool:
    """Whether its time is from the first to the last sweep that saw it at work."""
    return bool(row["source"] == SERVERS and None in (row["started"], row["ended"]))


def _time_text(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):           # some node's clock said so
        return f"{seconds:.0f}"


def _duration_text(seconds: float) -> str:
    """[days-]hours:minutes:seconds, as sacct has it."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days}-' if days else ''}{hours:02d}:{minutes:02d}:{seconds:02d}"


# -- tables --------------------------------------------------------------------------------------

def table(rows: Iterable[dict[str, Any]], columns: Sequence[Column], how: How = AS_FITS,
          header: bool = True) -> Iterator[str]:
    """
    Lines, each ending with a newline: a column is as wide as -o says, or as what is in it.

    A text that is too long ends with "+", as with sacct; a number is never cut.  Not by tabulate,
    which knows no fixed widths, and makes each column two wider than its heading.
    """
    lines = [[cell(row, column.field, how) for column in columns] for row in rows]
    names = [column.field.column for column in columns]
    widths = [column.width or max([len(name) * header, 1, *(width_of(line[at]) for line in lines)])
              for at, (column, name) in enumerate(zip(columns, names))]
    if header:
        yield _line(names, columns, widths, True)
        yield " ".join("-" * width for width in widths) + "\n"
    for line in lines:
        yield _line(line, columns, widths)


# What a narrow terminal can do without, the first one first; and the user, where all are one's.
_LEFT_OFF = ("nodes", "opens", "elapsed_s", "name")


def fitting(rows: Iterable[dict[str, Any]], columns: Sequence[Column], how: How,
            room: int) -> tuple[list[Column], list[str]]:
    """([Column] so that the table is at most `room` wide, names of those that it does without)."""
    rows, found, without = list(rows), list(columns), []
    of_one = len({row["user"] for row in rows}) < 2
    for name in (("user", *_LEFT_OFF) if of_one else _LEFT_OFF):
        if max(map(width_of, "".join(table(rows, found, how)).split("\n"))) <= room:
            break
        without += [column.field.column for column in found if column.field.name == name]
        found = [column for column in found if column.field.name != name]
    return found, without


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int],
          is_header: bool = False) -> str:
    found = []
    for text, column, width in zip(cells, columns, widths):
        is_number = column.field.kind in _NUMBERS
        left = not is_number if column.left is None else column.left
        if is_header or not is_number:
            text = cut(text, width)
        found.append(padded(text, width, right=not left))
    return " ".join(found).rstrip() + "\n"


def parsable(rows: Iterable[dict[str, Any]], columns: Sequence[Column], how: How = AS_FITS,
             header: bool = True, delimiter: str = "|", ends: bool = False) -> Iterator[str]:
    """
    Lines with a delimiter between the cells, and after the last one where it `ends` lines, too.

    A delimiter's first character is written as \\x7c within a cell, so that there is no column too
    many.
    """
    first = delimiter[0]
    escaped = "".join(f"\\x{byte:02x}" for byte in first.encode())
    end = delimiter * ends + "\n"
    if header:
        yield delimiter.join(column.field.column for column in columns) + end
    for row in rows:
        yield delimiter.join(cell(row, column.field, how).replace(first, escaped)
                             for column in columns) + end


def checked_delimiter(text: str, what: str = "--delimiter") -> str:
    """`text`, when it can stand between cells; UsageError."""
    if not 1 <= len(text) <= 8 or any(c.isalnum() or c in "\\_" or not (c.isprintable() or
                                                                        c == "\t") for c in text):
        raise UsageError(f"{what}: expected up to 8 characters that are no letters, no digits and "
                         f"no backslash, got {text[:40]!r}")
    return text


def field_help() -> str:
    """What --helpformat prints."""
    widest = max(len(one.column) for one in FIELDS)
    return "".join(f"{one.column:<{widest}}  {one.help}\n" for one in FIELDS)
