"""
The tables of `iostats targets` and `iostats quota`.

    the answer of `metrics` or `quotas`  ->  a row for each target, service or quota  ->  cells

Unknown is "-".  Counts are those between the last two readings, a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.lustre.capacity import BYTES
from iostats.lustre.quota import Quota, compute_granted_percent, is_exhausted
from iostats.report.listing import (
    Field,
    FieldTable,
    NumberForm,
    as_number,
    format_number,
    format_whole_percent,
    format_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from iostats.report.listing import Cell, Row

    class QuotaRow(TypedDict, total=False):
        """A quota in the answer of `quotas`: the fields of Quota, and these."""

        file_system: str
        kind: str
        id: int
        pool: str
        resource: str
        granted: int
        soft: int
        hard: int
        grace_end: int
        time: float
        name: str
        state: str
        percent: float

    class ListedQuotas(TypedDict):
        """The quotas of a file system: how many there are, and how many are listed."""

        file_system: str
        node: str
        time: float
        count: int
        listed: int

    class QuotaAnswer(TypedDict):
        """The answer of `quotas`."""

        time: float
        file_systems: list[ListedQuotas]
        quotas: list[QuotaRow]

    class MetricsAnswer(TypedDict):
        """The answer of `metrics`."""

        time: float
        targets: list[Row]
        services: list[Row]

_OF_READING = (
    Field("Server", "node", "text", "", "the storage server that reported it"),
    Field("Time", "time", "time", "", "when it was reported"),
    Field("Seconds", "seconds", "seconds", "", "between the two readings of Reads, Requests and so "
          "on"))
TARGETS = FieldTable((
    Field("Target", "target", "text", "", "the OST or MDT"),
    Field("FileSystem", "file_system", "text", "", "its file system"),
    *_OF_READING,
    Field("Reads", "+read_rpcs", "count", "", "bulk read requests; of ldiskfs those that needed "
          "the disk"),
    Field("SmallReads", "small_read_rpcs/read_rpcs", "share", "", "those of up to 16 pages "
          "(64 KiB); of ldiskfs pages from the disk"),
    Field("FragReads", "fragmented_disk_reads/disk_reads", "share", "", "reads that the disk got "
          "in several pieces; ldiskfs alone"),
    Field("Writes", "+write_rpcs", "count", "", "bulk write requests"),
    Field("SmallWrites", "small_write_rpcs/write_rpcs", "share", "", "those of up to 16 pages"),
    Field("FragWrites", "fragmented_disk_writes/disk_writes", "share", "", "writes that the disk "
          "got in several pieces; ldiskfs alone"),
    Field("Granted", "granted_bytes", "bytes", "", "space granted to clients, which they have not "
          "used yet"),
    Field("Dirty", "dirty_bytes", "bytes", "", "data that clients have not sent yet, by their last "
          "requests"),
    Field("Locks", "locks", "count", "", "locks that clients have or wait for"),
    Field("LockTimeouts", "lock_timeouts", "count", "", "clients evicted since the target's start, "
          "as they did not give a lock back"),
    Field("Archives", "hsm_archives", "count", "", "files that copytools archive now"),
    Field("Restores", "hsm_restores", "count", "", "files that they restore now"),
    Field("Removes", "hsm_removes", "count", "", "copies that they remove now"),
    Field("Copytools", "hsm_agents", "count", "", "copytools that are registered"),
    Field("HsmDone", "+hsm_done", "count", "", "requests that they have completed"),
    Field("HsmFailed", "+hsm_failed", "count", "", "requests at which they have failed"),
), "iostats targets")
SERVICES = FieldTable((
    Field("Service", "service", "text", "", "the service: ost_io has the bulk requests of OSTs, "
          "mdt most requests of an MDT"),
    *_OF_READING,
    Field("Threads", "threads", "count", "", "threads that are started"),
    Field("MaxThreads", "threads_max", "count", "", "threads that may be started"),
    Field("Requests", "+requests", "count", "", "requests that a thread began to handle"),
    Field("MeanWait", "wait_us/requests", "milliseconds", "", "how long these had waited for a "
          "thread, on average"),
    Field("QDepth", "queued/requests", "mean", "", "req_qdepth: how many had arrived and were not "
          "yet in its queue, on average"),
    Field("Policy", "policy", "text", "", "of its request scheduler (NRS), for ordinary requests"),
    Field("NrsQueued", "nrs_queued", "count", "", "requests that its policies hold now"),
    Field("LockRequests", "+lock_requests", "count", "", "requests for a lock (enqueues)"),
), "iostats targets --services")
QUOTAS = FieldTable((
    Field("Name", "name", "text", "", "the user, the group, or the number of the project"),
    Field("Kind", "kind", "text", "", "user, group or project"),
    Field("Id", "id", "number", "", "its number"),
    Field("FileSystem", "file_system", "text", "", "the file system"),
    Field("Pool", "pool", "text", "", "the pool of OSTs; - for the whole file system"),
    Field("Of", "resource", "text", "", "space or inodes"),
    Field("Granted", "granted", "amount", "", "what the quota master has granted to the targets: "
          "what is used is at most this"),
    Field("Soft", "soft", "amount", "", "the soft limit; - for none"),
    Field("Hard", "hard", "amount", "", "the hard limit; - for none"),
    Field("GrantedPct", "percent", "share", "", "granted, of the hard limit, or of the soft one "
          "where there is none"),
    Field("State", "state", "text", "", "full: no more is granted; soft: the soft limit is "
          "exceeded, and the grace period runs"),
    Field("GraceEnd", "grace_end", "time", "", "when the grace period ends"),
    Field("Time", "time", "time", "", "when it was read"),
), "iostats quota")
DEFAULT_TARGETS = "Target,Reads,SmallReads,FragReads,Writes,SmallWrites,FragWrites,Granted,Locks"
DEFAULT_SERVICES = "Server,Service,Threads,MaxThreads,Requests,MeanWait,QDepth,Policy"
DEFAULT_QUOTAS = "Name,Kind,FileSystem,Of,Granted,Soft,Hard,GrantedPct,State"
# What a narrow terminal can do without, the first one first.
DISPENSABLE = ("fragmented_disk_reads/disk_reads", "locks", "granted_bytes", "soft",
               "queued/requests")


def get_value(row: Row, name: str) -> object:
    """
    The value of a field of a target or a service: of this name, "+name" for what was gained, or the
    quotient of two gains.
    """
    if "/" in name:
        part, whole = (_find_amount(row, "gained", gain) for gain in name.split("/"))
        return part / whole if whole and part is not None else None
    if name.startswith("+"):
        return _find_amount(row, "gained", name[1:])
    if name in row:
        return row[name]
    return _find_amount(row, "values", name)


def _find_amount(row: Row, part: str, name: str) -> float | None:
    amounts = row[part]
    amount: float | None = amounts.get(name) if isinstance(amounts, dict) else None
    return amount


def make_metrics_cell(how: NumberForm) -> Cell:
    """The function that makes the text of a target's or service's field."""
    def cell(row: Row, field: Field) -> str:
        value = get_value(row, field.name)
        return _format_value(100 * as_number(value) if field.kind == "share" and value is not None
                             else value, field.kind, how)
    return cell


def build_quota_rows(answer: QuotaAnswer, find_name: Callable[[str, int], str],
                     ) -> list[QuotaRow]:
    """The rows of an answer; `find_name(kind, id)`: the name."""
    rows: list[QuotaRow] = []
    for row in answer["quotas"]:
        quota = Quota(row["file_system"], row["pool"], row["kind"], row["id"], row["resource"],
                      row["granted"], row["soft"], row["hard"], row["grace_end"])
        state = ("full" if is_exhausted(quota, answer["time"]) else
                 "soft" if 0 < quota.soft < quota.granted else "")
        rows.append({**row, "name": find_name(quota.kind, quota.id), "state": state,
                     "percent": compute_granted_percent(quota)})
    return rows


def make_quota_cell(how: NumberForm) -> Cell:
    """The function that makes the text of a quota's field."""
    def cell(row: Row, field: Field) -> str:
        value, kind = row[field.name], field.kind
        if kind == "number":
            return str(value)
        if kind == "amount":
            kind = "bytes" if row["resource"] == BYTES else "count"
            value = value or (None if field.name != "granted" else 0)
        return _format_value(None if kind == "time" and not value else value, kind, how)
    return cell


def _format_value(value: object, kind: str, how: NumberForm) -> str:
    words = format_words(value, kind)
    if words is not None:
        return words
    number = as_number(value)
    if kind == "share":
        return (format_whole_percent(number) if how.has_commas else
                f"{int(number * 100) / 100:.2f}")
    if kind == "milliseconds":
        return (f"{number / 1000:.3f}" if not how.has_commas else
                "<0.1 ms" if 0 < number < 50 else f"{number / 1000:,.1f} ms")
    if kind == "mean":
        return f"{number:.1f}"
    return format_number(number, "count" if kind == "seconds" else kind, how)
