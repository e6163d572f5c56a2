"""
One job from both sides: what its nodes sent and received, and what the storage servers counted
under its id; and why the two differ.

    by the application    llite, on the nodes
    over the network      osc and mdc, on the nodes
    at the OSS and MDS    job_stats, under this job's id alone

The nodes count all that happens on them; the servers count what carries the job's id.  So each of
the two can be the larger one, and neither is wrong.
"""

from __future__ import annotations

from iostats.base.units import bytes_text
from iostats.totals.record import Record, ServersRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from iostats.totals.record import FileSystemRecord, ServersFileSystem


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
            there = there.replaced(notes=notes + _differences(record, here, there, harvest.final))
        file_systems.append(there)
    # Where the servers have seen nothing of it, a note marks what the nodes say that it used.
    there_too = {fs.name for fs in file_systems}
    unseen = any(note.startswith(f"{name}: ") for note in harvest.notes
                 for name, here in by_name.items() if name not in there_too
                 and any(any(values.values()) for values in here.targets.values()))
    return harvest.replaced(file_systems=file_systems, lower_bound=(
        harvest.lower_bound or unseen or any(fs.lower_bound for fs in file_systems)))


def _differences(record: Record, here: FileSystemRecord, there: ServersFileSystem,
                 final: bool) -> list[str]:
    lines: list[str] = []
    network = here.network
    if network is None or network.read_bytes is None:
        return lines
    for way, done in (("read", "read"), ("write", "written")):
        sent, counted = network[f"{way}_bytes"], there[f"{way}_bytes"]
        if sent == counted:
            continue
        if counted < sent:
            whys = ["RPCs that carried no job's id, or another one (read-ahead, the kernel's "
                    "threads)"]
            if record.coverage.shared:
                whys.insert(0, "other jobs on the nodes")
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
