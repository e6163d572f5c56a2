"""
Rules about events: what went wrong while the job ran, before anything about its I/O patterns.
"""

from __future__ import annotations

from iostats.base.units import count_text, moment_text
from iostats.events.kinds import INFO
from iostats.lustre import kernel_log, system_log
from iostats.report.advice.rule import Held
from iostats.totals.job_events import LOST, MAY_BE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.report.advice.rule import Limits
    from iostats.totals.record import JobEvent, Record


def data_lost(record: Record, _: Limits) -> list[Held]:
    """What the job had written was thrown away, or may have been."""
    found = []
    for fate, words, weight in ((LOST, "was thrown away", 3.0), (MAY_BE, "may be lost", 2.0)):
        for name, events in _by_file_system(one for one in record.events or ()
                                            if one.data == fate):
            nodes = {one.nodes for one in events if one.nodes}
            on = f" on {nodes.pop()}" if len(nodes) == 1 else ""
            found.append(Held(
                weight, f"data that the job had written and the node had not sent {words}{on} "
                f"({_number_of(events)})", {"events": len(events)}, ("faults",),
                file_system=name))
    return found


# What an event means for the job, the worst first; of several of them the first is reported.
_STOPS = {
    system_log.POOL_SUSPENDED: "I/O there waited: the target's ZFS pool was suspended.",
    system_log.READ_ONLY: "Writes there failed.",
    system_log.BACKEND_ERROR: "I/O there may have failed: the target's file system is damaged.",
    kernel_log.TARGET_DOWN: "I/O there waited until the target was back.",
    kernel_log.LBUG: "A thread of Lustre stopped; I/O that needed it hung.",
    kernel_log.NOT_HEALTHY: "I/O there may have failed or waited.",
    kernel_log.EVICTED: "Calls in progress there failed.",
    kernel_log.RECOVERY: "I/O there waited until the target had recovered.",
    kernel_log.CONNECTION_LOST: "I/O there waited until the connection was back.",
    system_log.OUT_OF_MEMORY: "A process was killed because the node's memory, or the job's "
                              "part of it, was used up.",
    system_log.LINK_DOWN: "Nothing was read or written while the node's network link was down.",
    system_log.HUNG_TASK: "Requests waited for a thread of Lustre that did not go on.",
    system_log.DISK_FAILED: "A disk of the target failed: I/O there may have been slower.",
    system_log.DISK_TIMEOUT: "A disk of the target did not answer in time.",
    system_log.DISK_ERROR: "A disk of the target did not read or write what it was asked for.",
    system_log.PATH_FAILED: "A path to the target's disks failed: I/O there may have waited.",
    kernel_log.LOCK_TIMEOUT: "A call waited for a lock that was not granted in time.",
    kernel_log.TIMEOUTS: "Requests were not answered in time and were sent again."}
# Without a kind of its own: what it did to the job is not known.
_OTHER = {kernel_log.OTHER: "Errors of Lustre or LNet; often they have no effect on the job."}


def faults(record: Record, _: Limits) -> list[Held]:
    """Evictions, lost connections, targets that were down; and other errors, for each of both."""
    stops, others = ([one for one in record.events or () if one.kind in meanings and not one.data
                      and one.severity > INFO and one.is_certain] for meanings in (_STOPS, _OTHER))
    # One error may have two lines, of which only one names the file system: a checksum that differs
    # (check_write_checksum()), and that the request is sent again (osc_brw_redo_request()).
    names = {one.file_system for one in others} - {""}
    return [*_faults(record, _STOPS, _by_file_system(stops)), *_faults(record, _OTHER, [
        (names.pop() if len(names) == 1 else "", others)] if others else [])]


def _faults(record: Record, meanings: dict[str, str],
            groups: Iterable[tuple[str, list[JobEvent]]]) -> list[Held]:
    elapsed_s = record.job.elapsed_s or 0
    found = []
    for name, events in groups:
        longest = max((one.longest_s or 0 for one in events), default=0)
        kinds = [kind for kind in meanings if any(one.kind == kind for one in events)]
        on = " on it" if name else ""
        words = ", ".join(kind.replace("_", " ") for kind in kinds)
        text = f"{_number_of(events)}{on} while the job ran ({words})"
        read_only = [one for one in events if one.kind == system_log.READ_ONLY and one.target]
        if read_only:
            first = read_only[0]
            text = (f"{first.target.rpartition('-')[2]} became read-only at "
                    f"{moment_text(first.time)[11:16]}; {text}")
        if longest >= 1:
            text += f", the longest of {longest:,.0f} s"
        least = 0.3 if meanings is _STOPS else 0.1
        found.append(Held(
            max(least, min(1.0, longest / elapsed_s) if elapsed_s else least), text,
            {"events": sum(one.count for one in events), "longest_s": longest},
            meaning=meanings[kinds[0]], file_system=name))
    return found


def _by_file_system(events: Iterable[JobEvent]) -> list[tuple[str, list[JobEvent]]]:
    found: dict[str, list[JobEvent]] = {}
    for one in events:
        found.setdefault(one.file_system, []).append(one)
    return sorted(found.items())


def _number_of(events: list[JobEvent]) -> str:
    count = len(events)
    return count_text(count, "event")
