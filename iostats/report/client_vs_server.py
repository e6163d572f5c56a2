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

from iostats.base.units import bytes_text
from iostats.totals.bounds import numbers_too_low
from iostats.totals.record import NodesRecord, Record, ServersRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from iostats.totals.record import FileSystemRecord, NodesFileSystem, ServersFileSystem

_WAYS = (("read", "read"), ("write", "written"))
_CLOCKS_S = 2.0                 # of the nodes and the site: both follow NTP


def compared(of_nodes: Mapping[str, Any], of_servers: Mapping[str, Any],
             targets: Collection[tuple[str, str]]) -> ServersRecord:
    """
    `of_servers` (the member `harvest` of a record, without its comparison) with notes on what
    differs.

    `of_nodes`: the record; `targets`: {(file system, target)} that storage servers tell of.
    """
    record, harvest = Record.of(of_nodes), ServersRecord.of(of_servers)
    by_name = {fs.name: fs for fs in record.file_systems}
    file_systems = []
    for there in harvest.file_systems:
        here = by_name.get(there.name)
        if here is not None:
            missing = sorted(target for target, values in here.targets.items()
                             if any(values.values()) and (there.name, target) not in targets)
            notes = list(there.notes)
            if missing:
                notes.append(f"no storage server tells of {', '.join(missing)}")
            there = there.replaced(lower_bound=there.lower_bound or bool(missing))
            there = there.replaced(notes=notes + _differences(record, here, there, harvest.final,
                                                              _alone_on(record, there.name)))
        file_systems.append(there)
    # Where the servers have seen nothing of it, a note marks what the nodes say that it used.
    there_too = {fs.name for fs in file_systems}
    unseen = any(note.startswith(f"{name}: ") for note in harvest.notes
                 for name, here in by_name.items() if name not in there_too
                 and any(any(values.values()) for values in here.targets.values()))
    return harvest.replaced(file_systems=file_systems, lower_bound=(
        harvest.lower_bound or unseen or any(fs.lower_bound for fs in file_systems)))


def nodes_compared(form: Mapping[str, Any]) -> NodesRecord | None:
    """
    The member `by_node` of the record in `form`, with notes on how its bounds and the other numbers
    of the record disagree; None where it has none.
    """
    record = Record.of(form)
    found = record.by_node
    if found is None or found.why_none:
        return found
    notes = list(found.notes)
    if record.coverage.shared:
        notes.append(f"the nodes say that other jobs were on {len(record.coverage.shared)} of them "
                     f"when it ended, the batch system that it had them alone: what those did is "
                     f"in these numbers")
    here = {fs.name: fs for fs in record.file_systems}
    there = {fs.name: fs for fs in record.harvest.file_systems} if record.harvest else {}
    # Each once: of a record that is made again it may have these notes already.
    return found.replaced(notes=list(dict.fromkeys(notes)), file_systems=[
        fs.replaced(notes=list(dict.fromkeys(
            [*fs.notes, *_against_ids(record, there.get(fs.name), fs),
             *_against_nodes(record, here.get(fs.name), fs)])))
        for fs in found.file_systems])


def _alone_on(record: Record, name: str) -> NodesFileSystem | None:
    """The bounds of a file system, of a job that had its nodes alone, as all say; None."""
    if not record.by_node or record.by_node.why_none or record.coverage.shared:
        return None
    return next((fs for fs in record.by_node.file_systems if fs.name == name), None)


def _bounds(fs: NodesFileSystem, way: str) -> tuple[int, int | None]:
    """(at least, at most or None) of the bytes read or written."""
    name = f"{way}_bytes"
    return fs.low[name], None if fs.high is None else fs.high[name]


def _against_ids(record: Record, there: ServersFileSystem | None,
                 fs: NodesFileSystem) -> list[str]:
    """What the job's nodes did, and what the servers counted under its id: job_stats."""
    lines: list[str] = []
    if there is None or record.harvest is None or record.by_node is None:
        return lines
    is_whole = record.harvest.final and not there.lower_bound
    for way, done in _WAYS:
        least, most = _bounds(fs, way)
        counted = there[f"{way}_bytes"]
        if counted < least and is_whole:
            # No other job was there.  What one before had to write back has that one's id.
            has_left = way == "write" and bool(record.by_node.nodes_used_before)
            shared = bool(record.coverage.shared)
            whys = ["requests without a job's id, or with another one (read-ahead, the kernel's "
                    "threads, the nodes' own services)"]
            whys += ["what a job before had left to write back"] * has_left
            whys += ["other jobs on the nodes"] * shared
            lines.append(f"at least {bytes_text(least - counted)} of what its nodes have {done} are"
                         f" not under the job's id: " + (
                             "these are " if len(whys) == 1 else "it may be ") + "; or ".join(whys))
        elif most is not None and counted > most:
            later = fs.later_write_bytes
            more = (f"at least {bytes_text(counted - most)} are {done} under the job's id that its "
                    f"nodes have not {done} while it had them")
            if way == "write" and later is not None and later >= counted - most:
                more += f": they wrote {bytes_text(later)} in the minute after its end"
            else:
                more += ": by other nodes, or before its start or after its end"
            lines.append(more)
    return lines


def _against_nodes(record: Record, here: FileSystemRecord | None,
                   fs: NodesFileSystem) -> list[str]:
    """What the nodes themselves have counted, over the network or else by programs."""
    lines: list[str] = []
    if here is None or record.coverage.missing_count or not record.coverage.complete:
        return lines
    network = here.network
    for way, done in _WAYS:
        least, most = _bounds(fs, way)
        if network is not None and network[f"{way}_bytes"] is not None:
            sent = network[f"{way}_bytes"]
            if sent < least and not network.lower_bound:
                lines.append(f"the nodes say that {bytes_text(sent)} were {done} over the network, "
                             f"the storage servers at least {bytes_text(least)}"
                             f"{_why_times_differ(record, -1)}")
            elif most is not None and sent > most:
                lines.append(f"the nodes say that {bytes_text(sent)} were {done} over the network, "
                             f"the storage servers at most {bytes_text(most)}"
                             f"{_why_times_differ(record, 1)}")
        elif here.application is not None:
            lines += _against_programs(here, fs, way, done, least, most)
    return lines


def _why_times_differ(record: Record, more: int) -> str:
    """
    ": ..." where the nodes were measured for longer than the job had them (`more` 1), or not for as
    long (-1); "" where the times are no reason.
    """
    job, found = record.job, record.by_node
    if found is None or None in (job.started, job.ended, found.began, found.ended):
        return ""
    assert job.started is not None and job.ended is not None
    assert found.began is not None and found.ended is not None
    before_s, after_s = more * (found.began - job.started), more * (job.ended - found.ended)
    parts = [f"{seconds:.0f} s {where}" for seconds, where in (
        (before_s, "at its start"), (after_s, "at its end")) if seconds > _CLOCKS_S]
    if not parts:
        return ""
    return (f": they were measured for {' and '.join(parts)} {'longer' if more > 0 else 'less'} "
            f"than it had them")


def _against_programs(here: FileSystemRecord, fs: NodesFileSystem, way: str, done: str, least: int,
                      most: int | None) -> list[str]:
    """What programs asked for, where the network's numbers are not known."""
    assert here.application is not None
    asked, low = here.application[f"{way}_bytes"], numbers_too_low(here)
    happened = {name for name, row in (here.operations or {}).items() if row.count}
    if most is not None and asked > most and f"{way}_bytes" not in here.too_high:
        less = asked - most
        line = (f"at least {bytes_text(less)} of what programs have {done} did not go over the "
                f"network while it ran")
        if way == "read":
            cached = here.cached_read_bytes or 0
            return [line + (": they were in the page cache" if cached >= less else
                            ": from the page cache, or holes in files")]
        later = (fs.later_write_bytes or 0) + (here.dirty_bytes or 0)
        return [line + (": so much was in the nodes' memory at its end" if later >= less else
                        ": overwritten or removed before it was sent, or sent after its end")]
    if asked < least and f"{way}_bytes" not in low:
        whys = (["read-ahead", "whole pages"] if way == "read" else
                ["what was in the nodes' memory at its start"])
        mapped = {"read": "page_fault", "write": "page_mkwrite"}[way]
        whys += ["mapped files"] if mapped in happened else []
        return [f"at least {bytes_text(least - asked)} more went over the network than programs "
                f"have {done}: it may be {'; or '.join(whys)}"]
    return []


def _differences(record: Record, here: FileSystemRecord, there: ServersFileSystem,
                 final: bool, alone: NodesFileSystem | None) -> list[str]:
    lines: list[str] = []
    network = here.network
    if network is None or network.read_bytes is None:
        return lines
    for way, done in _WAYS:
        sent, counted = network[f"{way}_bytes"], there[f"{way}_bytes"]
        if sent == counted:
            continue
        if counted < sent:
            whys = ["RPCs that carried no job's id, or another one (read-ahead, the kernel's "
                    "threads)"]
            if record.coverage.shared:
                whys.insert(0, "other jobs on the nodes")
            elif _is_of_the_job(alone, way, sent):
                whys[0] += ", as it had its nodes alone"
            if there.lower_bound:
                whys.insert(0, "what the notes say is missing there")
            if not final:
                whys.insert(0, "what the next sweeps bring")
            lines.append(f"{bytes_text(sent - counted, 'binary')} "
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
            lines.append(f"{bytes_text(counted - sent, 'binary')} more are {done} on the storage "
                         f"servers under the job's id than the nodes have sent or received; it may "
                         f"be {'; or '.join(whys)}")
    return lines


def _is_of_the_job(alone: NodesFileSystem | None, way: str, sent: int) -> bool:
    """Whether what the nodes have sent is what they did while the job had them alone."""
    if alone is None:
        return False
    least, most = _bounds(alone, way)
    return most is not None and least <= sent <= most
