"""The fields of `iostats jobs`: their names and meanings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, TypedDict, Union

from iostats.base.errors import UsageError
from iostats.report.listing import Field, FieldTable
from iostats.totals.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

# Where a list goes on: the value that it is sorted by, then cluster, raw job, attempt.
JobMark = tuple[Union[int, float, str, None], str, str, int]


class ListedJob(TypedDict, total=False):
    """A row of `jobs`, the site server's method: members that code reads by name."""

    job_id: str
    raw_job_id: str
    name: str
    user: str
    cluster: str
    outcome: str
    attempt: int
    started: Optional[float]
    ended: Optional[float]
    nodes: Optional[int]
    reported: int
    shared: int
    source: str
    file_systems: list[str]
    lower_bound: bool
    too_low: list[str]
    too_high: list[str]
    by_node_why: str
    events: Optional[int]
    data_lost: str
    final: bool


class ListedJobs(TypedDict):
    """An answer to `jobs`; `next`: None for the last part."""

    jobs: list[ListedJob]
    next: Optional[JobMark]


def _make_program_field(column: str, name: str, kind: str, help: str) -> Field:
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
    Field("FileSystems", "file_systems", "names", "", "Lustre file systems that the job could see"),
    _make_program_field("ReadBytes", "read_bytes", "bytes", "read by programs from Lustre"),
    _make_program_field("WriteBytes", "write_bytes", "bytes", "written by programs to Lustre"),
    _make_program_field("Opens", "opens", "count", "files and directories opened"),
    _make_program_field("Creates", "creates", "count", "files created"),
    _make_program_field("Operations", "operations", "count", "calls other than read and write"),
    Field("LowerBound", "lower_bound", "yes", "", "some of the five before may be too low"),
    Field("TooLow", "too_low", "names", "", "which of them, and of those of other kinds below"),
    Field("TooHigh", "too_high", "names", "", "which of them may be too high (evictions)"),
    *(Field(name, f"{kind.name}_{metric}", "bytes", "too_low", f"{done} {kind.title}, "
            f"{kind.counted}{note}")
      for kind in KINDS for name, metric, done, note in (
          (f"{kind.heading}ReadBytes", "read_bytes", "read from", kind.read_note),
          (f"{kind.heading}WriteBytes", "write_bytes", "written to", ""))),
    Field("Source", "source", "text", "",
          "who counted these: nodes, (storage) servers; exports: by node"),
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
    Field("ByNodeReadBytes", "by_node_read_bytes", "bytes", "by_node_read_bytes_max",
          "the least that its nodes read (exports)"),
    Field("ByNodeReadMax", "by_node_read_bytes_max", "bytes", "", "the most"),
    Field("ByNodeWriteBytes", "by_node_write_bytes", "bytes", "by_node_write_bytes_max",
          "the least that its nodes wrote"),
    Field("ByNodeWriteMax", "by_node_write_bytes_max", "bytes", "", "the most"),
    Field("ByNodeOperations", "by_node_operations", "count", "by_node_operations_max",
          "the least number of other requests of its nodes"),
    Field("ByNodeOperMax", "by_node_operations_max", "count", "", "the most"),
    Field("ByNodeWhyNone", "by_node_why", "text", "",
          "why not, such as: it shared node7 with another job"),
    Field("Events", "events", "count", "",
          "warnings and worse while it ran; -: not checked"),
    Field("DataLost", "data_lost", "text", "", "by an event: lost, or may be lost"),
    Field("Final", "final", "yes", "", "no: the storage servers may still count more"),
    Field("Note", "note", "note", "", "what to know of the numbers, in short"),
)
DEFAULT = ("JobID,JobName%-10,User,NNodes,State,Elapsed,ReadBytes,WriteBytes,Opens,Operations,"
           "Events,Note")
BRIEF = "JobID,State,ReadBytes,WriteBytes"
# What has counted the numbers of a row, and which numbers there are by node and by programs.
NODES, SERVERS, EXPORTS = "nodes", "servers", "exports"
BY_NODE = ("read_bytes", "write_bytes", "operations")
OF_PROGRAMS = ("read_bytes", "write_bytes", "opens", "creates", "operations")
# The fields of a list of the jobs that used file systems of these kinds.
OF_KIND = {"lustre": ("ReadBytes", "WriteBytes", "Opens", "Operations"),
           **{kind.name: (f"{kind.heading}ReadBytes", f"{kind.heading}WriteBytes")
              for kind in KINDS}}
TYPES = tuple(OF_KIND)              # of file systems that a job may have used
MOST_ROWS = 5_000                   # in one answer
MOST_JOBS, MOST_NAMES = 300, 100    # in one question: SQLite before 3.32 accepts 999 values
TABLE = FieldTable(FIELDS, "iostats jobs")
NAMES = TABLE.names                 # what a row of the site's server has
find_field, parse_sort, format_field_help = TABLE.find_field, TABLE.parse_sort, TABLE.help


def find_fields_of_kinds(kinds: Sequence[str]) -> list[str]:
    """
    The fields with the I/O on file systems of `kinds`; those of Lustre where none is chosen.

    >>> find_fields_of_kinds(["disk", "nfs"])
    ['NFSReadBytes', 'NFSWriteBytes', 'DiskReadBytes', 'DiskWriteBytes']
    """
    return [name for kind, names in OF_KIND.items() if kind in (kinds or ("lustre",))
            for name in names]


# sacct(1), JOB STATE CODES.
STATES = {"BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "DL": "DEADLINE", "F": "FAILED",
          "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PR": "PREEMPTED", "RQ": "REQUEUED",
          "TO": "TIMEOUT"}
_OUTCOMES = sorted({*STATES.values(), "KILLED", "LAUNCH_FAILED", "REVOKED"})


def parse_state(text: str, option: str = "--state") -> str:
    """Parse a job state in any case or in its short form; UsageError."""
    state = STATES.get(text.upper(), text.upper())
    if state not in _OUTCOMES:
        raise UsageError(
            f"{option}: expected how a job ended, {', '.join(_OUTCOMES)}, or F, TO ..., "
            f"got {text[:40]!r}")
    return state
