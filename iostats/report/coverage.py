"""
Whose numbers a report has: which nodes reported, which did not and why, and which were shared.
"""

from __future__ import annotations

from iostats.base.units import count_text, duration_text
from iostats.report.node_sets import folded

TYPE_CHECKING = False
if TYPE_CHECKING:

    from iostats.totals.record import Record


def line(record: Record) -> str:
    """
    Which nodes are in the totals, which are not, and why; one line.

        Job 4711: 3 of 4 nodes reported, 00:31:07; missing: nid00004 (no report)
        Job 4712: from the storage servers, alice, 00:31:07, TIMEOUT; no node has reported
    """
    coverage, job = record.coverage, record.job
    expected, by_node = coverage.expected, is_known_by_node_only(record)
    alone = has_storage_servers_only(record) or by_node
    text = f"Job {job.id}: "
    if alone:
        text += "by its nodes, from the storage servers" if by_node else "from the storage servers"
        text += f", {job.user}" if job.user else ""
    else:
        text += f"{coverage.reported} "
        text += f"of {expected} nodes reported" if expected is not None else "nodes reported"
    if job.elapsed_s is not None:
        text += f", {duration_text(job.elapsed_s)}"
    outcome = record.batch.outcome if record.batch else ""
    if outcome != "" and (alone or outcome != "COMPLETED"):
        text += f", {outcome}"
    if alone and (by_node or not coverage.missing):
        return f"{text}; no node has reported"
    if expected is None and not alone:
        text += " (the job's number of nodes is not known)"
    by_reason: dict[str, list[str]] = {}
    for node, why in coverage.missing.items():
        by_reason.setdefault(why, []).append(node)
    missing = [f"{folded(nodes)} ({why})" for why, nodes in by_reason.items()]
    nameless = coverage.missing_count - len(coverage.missing)
    if nameless > 0:
        why = "no numbers" if record.short else "no report"
        missing.append(f"{count_text(nameless, 'node')} ({why})")
    return text + (f"; missing: {', '.join(missing)}" if missing else "")


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
