"""
Rule about the nodes' local disks.

The kernel adds up the time of all requests to a disk, of which the page cache makes many that no
program waits for, so this finding is never certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import format_bytes, format_percent, format_seconds
from iostats.report.findings.interval import make_exact
from iostats.report.findings.known_io import is_shared
from iostats.report.findings.rule import Held, count_text
from iostats.totals.disk_values import OF_NODES, find_disks, sum_over_disks

if TYPE_CHECKING:
    from iostats.report.findings.rule import Limits
    from iostats.totals.record import Record

_LONG_S = 0.02              # of a request: a disk that is not busy takes half of it at most
_MUCH = 0.2                 # of the run time, if it is one thread's
_MOST_OF_IT = 0.5           # of the disks' bytes: those of the job's own cgroup


def slow_disks(record: Record, limits: Limits) -> list[Held]:
    """Requests to local disks that took long each and much time together, mostly the job's."""
    coverage, elapsed_s, held = record.coverage, record.job.elapsed_s, []
    if not elapsed_s or elapsed_s < limits.findings.from_seconds or not coverage.node_seconds:
        return []
    for fs in record.file_systems:
        counted = fs.sources.get(OF_NODES)
        disks, is_of_nodes = find_disks(fs)
        if counted is None or counted.lower_bound or (
                is_of_nodes and (coverage.shared or is_shared(record))):
            continue
        count, moved, of_job = (sum(sum_over_disks(source, f"{direction}{what}") or 0
                                    for direction in ("read", "write"))
                                for source, what in ((counted, "s"), (counted, "_bytes"),
                                                     (disks, "_bytes")))
        seconds = (sum_over_disks(counted, "us") or 0) / 1e6
        share = seconds / coverage.node_seconds
        if (of_job >= limits.findings.from_bytes and of_job >= _MOST_OF_IT * moved
                and count and seconds / count >= _LONG_S and share >= _MUCH):
            share_text = format_percent(share) if share <= 1 else f"{share:.1f} times"
            held.append(Held(
                min(1.0, 0.5 * share), f"{count_text(make_exact(count))} requests for "
                f"{format_bytes(moved, limits.units)} took {format_seconds(seconds / count)} each, "
                f"{'at most ' if share <= 1 else ''}{share_text} of the nodes' time",
                {"requests": count, "bytes": moved, "seconds": seconds},
                file_system=fs.name, is_certain=False,
                cost=min(1.0, seconds / elapsed_s)))
    return held
