"""The header of a report: the job, its state, the nodes that reported, and those that did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.text import cut
from iostats.base.units import (
    format_bytes,
    format_count,
    format_duration,
    format_moment,
    format_share,
)
from iostats.lustre.capacity import BYTES
from iostats.report.node_sets import fold_nodes

_LONGEST_NAME = 40

if TYPE_CHECKING:
    from iostats.totals.record import BatchRecord, Record
    from iostats.totals.record_additions import RecordedQuota


def format_line(record: Record) -> str:
    """
    The job, how it ended, which nodes are in the totals, and when it ran, as far as that is known.

        Job 4711 (solve) of alice, partition batch: COMPLETED, 16 nodes, 00:31:07 from
            2026-11-21 13:12:04
        Job 4712 of alice: FAILED (exit code 2), 3 of 4 nodes reported, 00:31:07 from
            2026-11-21 13:12:04; missing: nid00004 (no report)
    """
    return ": ".join(format_line_parts(record))


def format_line_parts(record: Record) -> tuple[str, str]:
    """The two parts of `format_line`: the job, and the rest."""
    job, batch = record.job, record.batch
    head = format_job(f"Job {job.id}", record)
    facts = [_format_state(batch)] if batch and batch.outcome else []
    facts.append(_format_node_count(record))
    if job.elapsed_s is not None:
        from_ = "" if job.started is None else f" from {format_moment(job.started)}"
        facts.append(format_duration(job.elapsed_s) + from_)
    return head, ", ".join(facts) + _format_missing(record)


def format_nodes(record: Record) -> str:
    """List the nodes in the totals, and the missing ones with the reason."""
    return _format_node_count(record) + _format_missing(record)


def format_job(job: str, record: Record) -> str:
    """Add name, user and partition of a record to `job`, such as "Job 4711"."""
    batch, user = record.batch, record.job.user
    return (job + (f" ({cut(batch.name, _LONGEST_NAME)})" if batch and batch.name else "")
            + (f" of {user}" if user else "")
            + (f", partition {batch.partition}" if batch and batch.partition else ""))


def _format_state(batch: BatchRecord) -> str:
    how = [f"{kind} {number}" for kind, number in (
        ("exit code", batch.exit_status), ("signal", batch.exit_signal)) if number]
    return batch.outcome + (f" ({', '.join(how)})" if how else "")


def _format_node_count(record: Record) -> str:
    coverage, expected = record.coverage, record.coverage.expected
    if is_known_by_node_only(record):
        return "no node has reported: numbers by node, from the storage servers"
    if has_storage_servers_only(record):
        return "no node has reported: numbers from the storage servers"
    if record.imported:
        return f"no node has reported: totals imported from {record.imported.tool}"
    if expected is None:
        return f"{coverage.reported:,} of ? nodes reported"
    if coverage.reported == expected:
        return format_count(expected, "node")
    return f"{coverage.reported:,} of {format_count(expected, 'node')} reported"


def _format_missing(record: Record) -> str:
    """
    Format "; missing: " with the nodes that have not reported, and the reasons; "" if all have.
    """
    coverage = record.coverage
    if record.imported or is_known_by_node_only(record):
        return ""
    by_reason: dict[str, list[str]] = {}
    for node, why in coverage.missing.items():
        by_reason.setdefault(why, []).append(node)
    missing = [f"{fold_nodes(nodes)} ({why})" for why, nodes in by_reason.items()]
    nameless = coverage.missing_count - len(coverage.missing)
    if nameless > 0 and not (has_storage_servers_only(record) and not coverage.missing):
        why = "no numbers" if record.short else "no report"
        missing.append(f"{format_count(nameless, 'node')} ({why})")
    return f"; missing: {', '.join(missing)}" if missing else ""


def has_storage_servers_only(record: Record) -> bool:
    """Whether only the storage servers have data of the job."""
    return bool(record.harvest) and not record.coverage.reported


def is_known_by_node_only(record: Record) -> bool:
    """True if only the exports of its nodes show the job's I/O."""
    return bool(record.by_node and not record.by_node.why_none and not record.coverage.reported
                and not (record.harvest and record.harvest.file_systems))


def has_nothing(record: Record) -> bool:
    """Whether a job has no numbers, only the reason why its nodes' numbers are not its own."""
    return bool(record.by_node and record.by_node.why_none and not record.coverage.reported
                and not record.harvest)


def list_quota_notes(record: Record, labels: dict[str, str], units: str) -> list[str]:
    """A line for each quota of the job's user that was nearly used up at its end."""
    return [_describe_quota(quota, record.quotas.read_at.get(quota.file_system), labels,
                            units)
            for quota in record.quotas.nearly_used] if record.quotas else []


def _describe_quota(quota: RecordedQuota, read_at: float | None, labels: dict[str, str],
                    units: str) -> str:
    granted, soft, hard = (
        format_bytes(amount, units) if quota.resource == BYTES else f"{amount:,}"
        for amount in (quota.granted, quota.soft, quota.hard))
    limit = quota.hard or quota.soft or 1
    above = (f", above the soft limit of {soft}"
             if quota.hard and 0 < quota.soft < quota.granted else "")
    return (f"note: {labels.get(quota.file_system, quota.file_system)}: up to "
            f"{100 * quota.granted // limit} % of {quota.kind} {quota.name}'s {quota.resource} "
            + (f"in pool {quota.pool} " if quota.pool else "")
            + f"in use: {granted} granted of a quota of {hard if quota.hard else soft}{above}, "
            f"read {format_moment(read_at)}")


def list_lnet_notes(record: Record) -> list[str]:
    """A line about the messages of the nodes' LNet; [] if no node reports them."""
    lnet = record.lnet
    if lnet is None:
        return []
    text = (f"note: LNet of {format_count(lnet.nodes, 'node')}, all jobs: {lnet.sent:,} messages "
            f"sent, {lnet.received:,} received, {lnet.dropped:,} dropped"
            + (f" (most by {lnet.dropped_most})" if lnet.dropped_most else ""))
    if not lnet.resend_nodes:
        return [f"{text}; resends are unknown"]
    whose = "" if lnet.resend_nodes == lnet.nodes else (
        f" on {format_count(lnet.resend_nodes, 'node')}")
    share = f", {format_share(lnet.resent / lnet.resent_of)}" if lnet.resent_of else ""
    return [f"{text}; {lnet.resent:,} resent{whose}{share}"
            + (f" (most by {lnet.resent_most})" if lnet.resent_most else "")
            + f", {lnet.response_timeouts:,} answers too late or lost"]


def list_sharing_notes(shared: dict[str, int]) -> list[str]:
    by_count: dict[int, list[str]] = {}
    for node, count in shared.items():
        by_count.setdefault(count, []).append(node)
    return [
        f"note: {fold_nodes(nodes)}: {format_count(count, 'other job was', 'other jobs were')} on "
        f"the node: the numbers are the node's, not this job's alone"
        for count, nodes in sorted(by_count.items())]
