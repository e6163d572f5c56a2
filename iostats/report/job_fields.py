"""
What can be asked of a job in a list: the fields of `iostats jobs`, their names and what they mean.
"""

from __future__ import annotations

from iostats.base.errors import UsageError
from iostats.report.listing import Field, FieldTable


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
          "warnings and worse while it ran; -: nothing has looked"),
    Field("DataLost", "data_lost", "text", "", "by an event: lost, or may be lost"),
    Field("Final", "final", "yes", "", "no: the storage servers may still count more"),
    Field("Note", "note", "note", "", "what to know of the numbers, in short"),
)
DEFAULT = ("JobID,JobName%-10,User,NNodes,State,Elapsed,ReadBytes,WriteBytes,Opens,Operations,"
           "Events,Note")
BRIEF = "JobID,State,ReadBytes,WriteBytes"
TABLE = FieldTable(FIELDS, "iostats jobs")
NAMES = TABLE.names                 # what a row of the site's server has
field_of, sort_of, field_help = TABLE.field_of, TABLE.sort_of, TABLE.help

# sacct(1), JOB STATE CODES.
STATES = {"BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "DL": "DEADLINE", "F": "FAILED",
          "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PR": "PREEMPTED", "RQ": "REQUEUED",
          "TO": "TIMEOUT"}
_OUTCOMES = sorted({*STATES.values(), "KILLED", "LAUNCH_FAILED", "REVOKED"})


def state_of(text: str, what: str = "--state") -> str:
    """A state as records have it, of its short form or in small letters; UsageError."""
    state = STATES.get(text.upper(), text.upper())
    if state not in _OUTCOMES:
        raise UsageError(f"{what}: expected how a job ended, {', '.join(_OUTCOMES)}, or F, TO ..., "
                         f"got {text[:40]!r}")
    return state
