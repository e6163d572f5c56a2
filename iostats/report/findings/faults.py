"""
Rules about events: what went wrong while the job ran, before anything about its I/O patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import format_count, format_moment
from iostats.events.kinds import (
    INFO,
    LNET_DROPS,
    LNET_RESENDS,
    NO_GRANTS,
    NO_OBJECTS,
    QUOTA_FULL,
    REQUESTS_WAIT,
)
from iostats.lustre import kernel_log, system_log
from iostats.report.findings.rule import Held
from iostats.totals.job_events import LOST, MAY_BE, NETWORK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.report.findings.rule import Limits
    from iostats.totals.record import JobEvent, Record


def data_lost(record: Record, _: Limits) -> list[Held]:
    """Find data of the job that was discarded, or may have been."""
    held = []
    for fate, words, weight in ((LOST, "was discarded", 3.0), (MAY_BE, "may be lost", 2.0)):
        for name, events in _group_by_file_system(event for event in record.events or ()
                                                  if event.data == fate):
            nodes = {event.nodes for event in events if event.nodes}
            on = f" on {nodes.pop()}" if len(nodes) == 1 else ""
            held.append(Held(
                weight, f"data that the job had written and the node had not sent {words}{on} "
                f"({_count_events(events)})", {"events": len(events)}, ("faults",),
                file_system=name))
    return held


# What makes requests wait or fail, and what it means for the job; of several events the first of
# these is the one that is reported.
STOPS = {
    system_log.POOL_SUSPENDED: "I/O there waited: the target's ZFS pool was suspended.",
    system_log.READ_ONLY: "Writes there failed.",
    system_log.BACKEND_ERROR: "I/O there may have failed: the target's file system is damaged.",
    kernel_log.TARGET_DOWN: "I/O there waited until the target was back.",
    kernel_log.LBUG: "A thread of Lustre stopped; I/O that needed it hung.",
    kernel_log.NOT_HEALTHY: "I/O there may have failed or waited.",
    QUOTA_FULL: "A quota of the job's user was used up there: writes, or new files, fail with "
                "EDQUOT then (iostats quota).",
    kernel_log.EVICTED: "Calls in progress there failed.",
    kernel_log.RECOVERY: "I/O there waited until the target had recovered.",
    kernel_log.CONNECTION_LOST: "I/O there waited until the connection was back.",
    system_log.OUT_OF_MEMORY: "A process was killed because the node's memory, or the job's "
                              "part of it, was used up.",
    system_log.LINK_DOWN: "Nothing was read or written while the node's network link was down.",
    LNET_DROPS: "LNet dropped messages: requests may have waited and been sent again.",
    LNET_RESENDS: "LNet resent messages: requests may have waited.",
    REQUESTS_WAIT: "Requests waited a second or more for a thread of a storage server.",
    NO_GRANTS: "An OST granted no more space to clients: writes to it may have been synchronous.",
    NO_OBJECTS: "An MDT had no objects of an OST for new files: making files may have waited.",
    system_log.HUNG_TASK: "Requests waited for a hung Lustre thread.",
    system_log.DISK_FAILED: "A disk of the target failed: I/O there may have been slower.",
    system_log.DISK_TIMEOUT: "A disk of the target did not answer in time.",
    system_log.DISK_ERROR: "A disk of the target failed a read or write request.",
    system_log.PATH_FAILED: "A path to the target's disks failed: I/O there may have waited.",
    kernel_log.LOCK_TIMEOUT: "A call waited for a lock that was not granted in time.",
    kernel_log.TIMEOUTS: "Requests were not answered in time and were sent again."}
# Errors that stop nothing, and those of no other kind, whose effect on the job is unknown.
_OTHER = {
    kernel_log.CHECKSUM_ERROR: "Data differed between a node and the storage server, and was sent "
                               "again.",
    kernel_log.OTHER: "Errors of Lustre or LNet; often they have no effect on the job."}


def faults(record: Record, _: Limits) -> list[Held]:
    """A finding of evictions, lost connections, stopped targets; and one of other errors."""
    stops, errors = ([event for event in record.events or () if event.kind in meanings
                      and not event.data and event.severity > INFO and event.is_certain]
                     for meanings in (STOPS, _OTHER))
    # One error may have two lines, of which only one names the file system: the checksum mismatch
    # (check_write_checksum()), and the resent request (osc_brw_redo_request()).
    names = {event.file_system for event in errors} - {""}
    return [*_list_faults(record, STOPS, _group_by_file_system(stops)),
            *_list_faults(record, _OTHER, [
        (names.pop() if len(names) == 1 else "", errors)] if errors else [])]


def _list_faults(record: Record, meanings: dict[str, str],
                 groups: Iterable[tuple[str, list[JobEvent]]]) -> list[Held]:
    elapsed_s = record.job.elapsed_s or 0
    findings = []
    for name, events in groups:
        longest = max((event.longest_s or 0 for event in events), default=0)
        kinds = [kind for kind in meanings if any(event.kind == kind for event in events)]
        on = " on it" if name else ""
        words = ", ".join(kind.replace("_", " ") for kind in kinds)
        text = f"{_count_events(events)}{on} while the job ran ({words})"
        read_only = [event for event in events
                     if event.kind == system_log.READ_ONLY and event.target]
        if read_only:
            first = read_only[0]
            text = (f"{first.target.rpartition('-')[2]} became read-only at "
                    f"{format_moment(first.time)[11:16]}; {text}")
        network = [event for event in events if event.kind in NETWORK and event.message]
        if network:
            text += f"; {network[0].message}"
        if longest >= 1:
            text += f", the longest of {longest:,.0f} s"
        least = 0.3 if meanings is STOPS else 0.1
        findings.append(Held(
            max(least, min(1.0, longest / elapsed_s) if elapsed_s else least), text,
            {"events": sum(event.count for event in events), "longest_s": longest},
            meaning=meanings[kinds[0]], file_system=name))
    return findings


def _group_by_file_system(events: Iterable[JobEvent]) -> list[tuple[str, list[JobEvent]]]:
    events_of: dict[str, list[JobEvent]] = {}
    for event in events:
        events_of.setdefault(event.file_system, []).append(event)
    return sorted(events_of.items())


def _count_events(events: list[JobEvent]) -> str:
    count = len(events)
    return format_count(count, "event")
