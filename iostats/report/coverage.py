"""
Whose numbers a report has: which nodes reported, which did not and why, and which were shared.
"""

from __future__ import annotations

from iostats.base.text import cut
from iostats.base.units import count_text, duration_text, moment_text
from iostats.report.node_sets import folded

_LONGEST_NAME = 40

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.totals.record import BatchRecord, Record


def line(record: Record) -> str:
    """
    The job, how it ended, when it ran, and which nodes are in the totals; what is unknown is left
    out.

        Job 4711 (solve) of alice, partition batch: COMPLETED, 16 nodes, 00:31:07 from
            2026-11-21 13:12:04
        Job 4712 of alice: FAILED (exit code 2), 3 of 4 nodes reported, 00:31:07 from
            2026-11-21 13:12:04; missing: nid00004 (no report)
    """
    return ": ".join(parts_of_line(record))


def parts_of_line(record: Record) -> tuple[str, str]:
    """(the job, all else) of `line`."""
    job, batch = record.job, record.batch
    head = named(f"Job {job.id}", record)
    found = [_state(batch)] if batch and batch.outcome else []
    found.append(_nodes(record))
    if job.elapsed_s is not None:
        from_ = "" if job.started is None else f" from {moment_text(job.started)}"
        found.append(duration_text(job.elapsed_s) + from_)
    return head, ", ".join(found) + _missing(record)


def nodes_line(record: Record) -> str:
    """Which nodes are in the totals, which are not, and why."""
    return _nodes(record) + _missing(record)


def named(job: str, record: Record) -> str:
    """`job`, such as "Job 4711", with the name, user and partition of a record."""
    batch, user = record.batch, record.job.user
    return (job + (f" ({cut(batch.name, _LONGEST_NAME)})" if batch and batch.name else "")
            + (f" of {user}" if user else "")
            + (f", partition {batch.partition}" if batch and batch.partition else ""))


def _state(batch: BatchRecord) -> str:
    how = [f"{what} {number}" for what, number in (
        ("exit code", batch.exit_status), ("signal", batch.exit_signal)) if number]
    return batch.outcome + (f" ({', '.join(how)})" if how else "")


def _nodes(record: Record) -> str:
    coverage, expected = record.coverage, record.coverage.expected
    if is_known_by_node_only(record):
        return "no node has reported: numbers by node, from the storage servers"
    if has_storage_servers_only(record):
        return "no node has reported: numbers from the storage servers"
    if expected is None:
        return f"{coverage.reported:,} of ? nodes reported"
    if coverage.reported == expected:
        return count_text(expected, "node")
    return f"{coverage.reported:,} of {count_text(expected, 'node')} reported"


def _missing(record: Record) -> str:
    """"; missing: " with the nodes that have not reported, and why; "" where none has."""
    coverage = record.coverage
    if is_known_by_node_only(record):
        return ""
    by_reason: dict[str, list[str]] = {}
    for node, why in coverage.missing.items():
        by_reason.setdefault(why, []).append(node)
    missing = [f"{folded(nodes)} ({why})" for why, nodes in by_reason.items()]
    nameless = coverage.missing_count - len(coverage.missing)
    if nameless > 0 and not (has_storage_servers_only(record) and not coverage.missing):
        why = "no numbers" if record.short else "no report"
        missing.append(f"{count_text(nameless, 'node')} ({why})")
    return f"; missing: {', '.join(missing)}" if missing else ""


def has_storage_servers_only(record: Record) -> bool:
    """Whether nothing but the storage servers knows what the job did."""
    return bool(record.harvest) and not record.coverage.reported


def is_known_by_node_only(record: Record) -> bool:
    """Whether nothing but its nodes' exports tells what the job did."""
    return bool(record.by_node and not record.by_node.why_none and not record.coverage.reported
                and not (record.harvest and record.harvest.file_systems))


def has_nothing(record: Record) -> bool:
    """Whether all that is known of what a job did is why its nodes' numbers are not its own."""
    return bool(record.by_node and record.by_node.why_none and not record.coverage.reported
                and not record.harvest)


def notes_on_shared_nodes(shared: dict[str, int]) -> list[str]:
    by_count: dict[int, list[str]] = {}
    for node, count in shared.items():
        by_count.setdefault(count, []).append(node)
    return [f"note: {folded(nodes)}: {count_text(count, 'other job was', 'other jobs were')} on "
            f"the node: the numbers are the node's, not this job's alone"
            for count, nodes in sorted(by_count.items())]
