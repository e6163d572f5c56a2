"""
What can be asked of a job in a list: the fields of `iostats jobs`, their names and what they mean.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.base.errors import UsageError

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
NUMBERS = ("count", "bytes", "time", "duration", "seconds")     # at the right, and never cut

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


def field_help() -> str:
    """What --helpformat prints."""
    widest = max(len(one.column) for one in FIELDS)
    return "".join(f"{one.column:<{widest}}  {one.help}\n" for one in FIELDS)
