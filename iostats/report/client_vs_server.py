"""
One job from both sides: what its nodes sent and received, and what the storage servers counted
under its id; and why the two differ.

    by the application    llite, on the nodes
    over the network      osc and mdc, on the nodes
    at the OSS and MDS    job_stats, under this job's id alone
    by its nodes          exports, whatever the id, while the job had its nodes alone: two bounds

The nodes count all that happens on them; the servers count what carries the job's id.  So each of
the two can be the larger one, and neither is wrong.  Where it had its nodes alone, the bounds say
which reason holds; a note names one as certain only where no other is left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from iostats.base.units import format_bytes
from iostats.report.job_numbers import get_bytes
from iostats.totals.bounds import list_too_low_numbers
from iostats.totals.record import (
    FileSystemRecord,
    NodesFileSystem,
    NodesRecord,
    Record,
    ServersFileSystem,
    ServersRecord,
)

_WAYS = (("read", "read"), ("write", "written"))
_CLOCKS_S = 2.0                 # of the nodes and the site: both follow NTP


def compare_sides(of_nodes: Mapping[str, object], of_servers: Mapping[str, object],
                  targets: Collection[tuple[str, str]]) -> ServersRecord:
    """
    Return `of_servers` (the member `harvest` of a record, without its comparison) with notes on
    what differs.

    `of_nodes`: the record; `targets`: {(file system, target)} that storage servers reported.
    """
    record, harvest = Record.of(of_nodes), ServersRecord.of(of_servers)
    by_name = {fs.name: fs for fs in record.lustre}
    file_systems = []
    for there in harvest.file_systems:
        here = by_name.get(there.name)
        if here is not None:
            missing = sorted(target for target, values in here.targets.items()
                             if any(values.values()) and (there.name, target) not in targets)
            notes = list(there.notes)
            if missing:
                notes.append(f"no storage server reports {', '.join(missing)}")
            there = there.replaced(lower_bound=there.lower_bound or bool(missing))
            there = there.replaced(notes=notes
                                   + _explain_differences(record, here, there, harvest.final,
                                                                      _find_exclusive_bounds(
                                                                          record, there.name)))
        file_systems.append(there)
    # Where the servers have seen nothing of it, a note marks what the nodes report that it used.
    there_too = {fs.name for fs in file_systems}
    unseen = any(note.startswith(f"{name}: ") for note in harvest.notes
                 for name, here in by_name.items() if name not in there_too
                 and any(any(values.values()) for values in here.targets.values()))
    return harvest.replaced(file_systems=file_systems, lower_bound=(
        harvest.lower_bound or unseen or any(fs.lower_bound for fs in file_systems)))


def compare_nodes(form: Mapping[str, object]) -> NodesRecord | None:
    """
    The member `by_node` of the record in `form`, with notes on how its bounds and the other numbers
    of the record disagree; None where it has none.
    """
    record = Record.of(form)
    nodes = record.by_node
    if nodes is None or nodes.why_none:
        return nodes
    notes = list(nodes.notes)
    if record.coverage.shared:
        notes.append(f"the nodes report that other jobs were on {len(record.coverage.shared):,} of "
                     f"them when it ended, the batch system that it had them alone: what those "
                     f"did is in these numbers")
    here = {fs.name: fs for fs in record.lustre}
    there = {fs.name: fs for fs in record.harvest.file_systems} if record.harvest else {}
    # Each once: of a record that is made again it may have these notes already.
    return nodes.replaced(notes=list(dict.fromkeys(notes)), file_systems=[
        fs.replaced(notes=list(dict.fromkeys(
            [*fs.notes, *_compare_with_job_stats(record, there.get(fs.name), fs),
             *_compare_with_nodes(record, here.get(fs.name), fs)])))
        for fs in nodes.file_systems])


def _find_exclusive_bounds(record: Record, name: str) -> NodesFileSystem | None:
    """Return the bounds of a file system if the job certainly had its nodes alone; else None."""
    if not record.by_node or record.by_node.why_none or record.coverage.shared:
        return None
    return next((fs for fs in record.by_node.file_systems if fs.name == name), None)


def _find_bounds(fs: NodesFileSystem, direction: str) -> tuple[int, int | None]:
    """Return (at least, at most or None) of the bytes read or written."""
    return get_bytes(fs.low, direction), (
        None if fs.high is None else get_bytes(fs.high, direction))


def _compare_with_job_stats(record: Record, there: ServersFileSystem | None,
                            fs: NodesFileSystem) -> list[str]:
    """Compare the I/O of the job's nodes with the servers' counts under its job id (job_stats)."""
    lines: list[str] = []
    if there is None or record.harvest is None or record.by_node is None:
        return lines
    is_whole = record.harvest.final and not there.lower_bound
    for direction, done in _WAYS:
        least, high = _find_bounds(fs, direction)
        counted = get_bytes(there, direction)
        if counted < least and is_whole:
            # No other job was there.  What one before had to write back has that one's id.
            has_left = direction == "write" and bool(record.by_node.nodes_used_before)
            shared = bool(record.coverage.shared)
            whys = ["requests without a job's id, or with another one (read-ahead, the kernel's "
                    "threads, the nodes' own services)"]
            whys += ["dirty pages that an earlier job had left"] * has_left
            whys += ["other jobs on the nodes"] * shared
            lines.append(
                f"at least {format_bytes(least - counted)} of what its nodes have {done} are"
                f" not under the job's id: " + (
                "these are " if len(whys) == 1 else "it may be ") + "; or ".join(whys))
        elif high is not None and counted > high:
            later = fs.later_write_bytes
            more = (
                f"at least {format_bytes(counted - high)} are {done} under the job's id that its "
                f"nodes have not {done} while it had them")
            if direction == "write" and later is not None and later >= counted - high:
                more += f": they wrote {format_bytes(later)} in the minute after its end"
            else:
                more += ": by other nodes, or before its start or after its end"
            lines.append(more)
    return lines


def _compare_with_nodes(record: Record, here: FileSystemRecord | None,
                        fs: NodesFileSystem) -> list[str]:
    """Compare the I/O of the job's nodes with their own counts, over the network or by programs."""
    lines: list[str] = []
    if here is None or record.coverage.missing_count or not record.coverage.complete:
        return lines
    network = here.network
    for direction, done in _WAYS:
        least, high = _find_bounds(fs, direction)
        sent = None if network is None else network[f"{direction}_bytes"]
        if network is not None and sent is not None:
            if sent < least and not network.lower_bound:
                lines.append(
                    f"the nodes report that {format_bytes(sent)} were {done} over the network, "
                    f"the storage servers at least {format_bytes(least)}"
                    f"{_explain_times(record, -1)}")
            elif high is not None and sent > high:
                lines.append(
                    f"the nodes report that {format_bytes(sent)} were {done} over the network, "
                    f"the storage servers at most {format_bytes(high)}"
                    f"{_explain_times(record, 1)}")
        elif here.application is not None:
            lines += _compare_with_programs(here, fs, direction, done, least, high)
    return lines


def _explain_times(record: Record, more: int) -> str:
    """
    Return ": ..." if the nodes were measured for longer than the job had them (`more` 1) or for
    less time (-1); "" if the times explain nothing.
    """
    job, nodes = record.job, record.by_node
    if nodes is None or None in (job.started, job.ended, nodes.began, nodes.ended):
        return ""
    assert job.started is not None and job.ended is not None
    assert nodes.began is not None and nodes.ended is not None
    before_s, after_s = more * (nodes.began - job.started), more * (job.ended - nodes.ended)
    parts = [f"{seconds:.0f} s {where}" for seconds, where in (
        (before_s, "at its start"), (after_s, "at its end")) if seconds > _CLOCKS_S]
    if not parts:
        return ""
    return (f": they were measured for {' and '.join(parts)} {'longer' if more > 0 else 'less'} "
            f"than it had them")


def _compare_with_programs(here: FileSystemRecord, fs: NodesFileSystem, direction: str, done: str,
                           least: int,
                           high: int | None) -> list[str]:
    """Compare with the bytes that programs requested, if the network's counts are unknown."""
    assert here.application is not None
    called, low = get_bytes(here.application, direction), list_too_low_numbers(here)
    happened = {name for name, row in (here.operations or {}).items() if row.count}
    if high is not None and called > high and f"{direction}_bytes" not in here.too_high:
        less = called - high
        line = (f"at least {format_bytes(less)} of what programs have {done} did not go over the "
                f"network while it ran")
        if direction == "read":
            cached = here.cached_read_bytes or 0
            return [line + (": they were in the page cache" if cached >= less else
                            ": from the page cache, or holes in files")]
        later = (fs.later_write_bytes or 0) + (here.dirty_bytes or 0)
        return [line + (": so much was in the nodes' memory at its end" if later >= less else
                        ": overwritten or removed before it was sent, or sent after its end")]
    if called < least and f"{direction}_bytes" not in low:
        whys = (["read-ahead", "whole pages"] if direction == "read" else
                ["what was in the nodes' memory at its start"])
        mapped = {"read": "page_fault", "write": "page_mkwrite"}[direction]
        whys += ["mapped files"] if mapped in happened else []
        return [f"at least {format_bytes(least - called)} more went over the network than programs "
                f"have {done}: it may be {'; or '.join(whys)}"]
    return []


def _explain_differences(record: Record, here: FileSystemRecord, there: ServersFileSystem,
                         final: bool, alone: NodesFileSystem | None) -> list[str]:
    lines: list[str] = []
    network = here.network
    if network is None or network.read_bytes is None:
        return lines
    for direction, done in _WAYS:
        sent, counted = network[f"{direction}_bytes"], get_bytes(there, direction)
        if sent is None or sent == counted:
            continue
        if counted < sent:
            whys = ["RPCs that carried no job's id, or another one (read-ahead, the kernel's "
                    "threads)"]
            if record.coverage.shared:
                whys.insert(0, "other jobs on the nodes")
            elif _is_within_bounds(alone, direction, sent):
                whys[0] += ", as it had its nodes alone"
            if there.lower_bound:
                whys.insert(0, "data that the notes list as missing there")
            if not final:
                whys.insert(0, "data that the next sweeps will bring")
            lines.append(f"{format_bytes(sent - counted, 'binary')} "
                         f"({100 * (sent - counted) / sent:.0f} %) of what the nodes have {done} "
                         f"over the network are not under the job's id on the storage servers; it "
                         f"may be {'; or '.join(whys)}")
        else:
            whys = ["what was in the nodes' memory after the job's end, or other nodes with its "
                    "id"]
            if record.coverage.missing_count or network.lower_bound:
                whys.insert(0, "nodes or counters that are missing in the nodes' numbers")
            if record.job.attempt:
                whys.insert(0, "earlier runs of the job")
            lines.append(f"{format_bytes(counted - sent, 'binary')} more are {done} on the storage "
                         f"servers under the job's id than the nodes have sent or received; it may "
                         f"be {'; or '.join(whys)}")
    return lines


def _is_within_bounds(alone: NodesFileSystem | None, direction: str, sent: int) -> bool:
    """Whether the nodes' requests are all from the time in which the job had them alone."""
    if alone is None:
        return False
    least, high = _find_bounds(alone, direction)
    return high is not None and least <= sent <= high
