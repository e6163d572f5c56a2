"""The shown part of a record: the file systems that were used, and the notes on their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.units import format_count
from iostats.report import header, storage_server_tables
from iostats.report.findings import noise_floor
from iostats.report.job_numbers import list_bounds
from iostats.report.network_bytes import explain_network_bytes
from iostats.report.text_table import select_file_systems
from iostats.totals import disk_values, other_values

if TYPE_CHECKING:

    from iostats.base.config import Config
    from iostats.totals.record import (
        FileSystemRecord,
        NodesFileSystem,
        Record,
        ServersFileSystem,
    )


def list_notes(record: Record, shown: list[FileSystemRecord], harvested: list[ServersFileSystem],
               by_node: list[NodesFileSystem], long: bool, config: Config) -> list[str]:
    """List the notes on the numbers of a report, a line each."""
    units = config.report.units
    missing, notes = record.coverage.missing_count, []
    if missing and shown:
        notes.append(f"note: {format_count(missing, 'node has', 'nodes have')} no numbers: "
                     f"every amount is a lower bound (>=)")
    notes += header.list_quota_notes(record, config.labels, units)
    notes += header.list_sharing_notes(record.coverage.shared)
    notes += [f"note: {note}" for note in record.notes]
    notes += header.list_lnet_notes(record) if long else []
    for fs in shown:
        notes += [f"note: {fs.label}: {note}" for note in (*fs.notes, *noise_floor.describe_noise(
            fs, record.coverage.reported, units))]
    if any(note.endswith(": permission denied") for fs in shown for note in fs.notes):
        notes.append("note: permission denied: root may read that, and users by the reader; "
                     "docs/how-to/install.md#who-may-read-the-counters")
    if record.harvest:
        both = {fs.name for fs in record.harvest.file_systems}
        notes += [f"note: {fs.label}: {line}" for fs in shown if fs.name in both and not long
                  for line in explain_network_bytes(fs, units)]
        notes += storage_server_tables.list_notes(record.harvest, harvested)
    if record.by_node:
        notes += storage_server_tables.list_notes_on_bounds(
            record.by_node, by_node, bool(record.coverage.reported or harvested) and not long,
            units)
    refused = record.coverage.refused
    if refused:
        notes.append("note: messages refused: "
                     + ", ".join(f"{count} {why}" for why, count in sorted(refused.items())))
    return notes


def split_by_activity(record: Record, config: Config, has_node_disks: bool = True,
                      ) -> tuple[list[FileSystemRecord], list[FileSystemRecord]]:
    """
    The file systems for the tables, and those on which nothing was done, which would only fill
    them.  All are in the tables where site.cfg names them, or where nothing was done on any.

    `has_node_disks`: with local disks of which only the whole node's numbers are known, on which
    something always is done; in any case where the disk of $TMPDIR moved much.
    """
    shown = [fs for fs in select_file_systems(record, config)
             if has_node_disks or fs.kind != disk_values.OF_NODES
             or disk_values.has_tmpdir_io(fs, config.findings.from_bytes)]
    at_servers = {fs.name for fs in (record.harvest.file_systems if record.harvest else ())}
    idle = [] if config.report.file_systems else [
        fs for fs in shown if fs.name not in at_servers and _is_idle(fs)]
    if len(idle) == sum(fs.kind != disk_values.OF_NODES for fs in shown):
        return shown, []
    return [fs for fs in shown if fs not in idle], idle


def find_busy_by_node(record: Record, config: Config, names: set[str]) -> list[NodesFileSystem]:
    """Find the file systems on which the job's nodes did much, or that are in the tables anyway."""
    chosen: list[NodesFileSystem] = select_file_systems(record.by_node,
                                                        config) if record.by_node else []
    busy = [fs for fs in chosen if fs.name in names or fs.high is None
            or any(high for _, _, high in list_bounds(fs))]
    return busy or chosen


def _is_idle(fs: FileSystemRecord) -> bool:
    """True if it is certain that no I/O was done there, and no note mentions it."""
    return (fs.application is not None
            and (fs.operations is not None or fs.kind == other_values.NFS)
            and not fs.notes and not fs.dirty_bytes
            and not any(fs.application.values()) and not any((fs.network or {}).values())
            and fs.application.read_bytes is not None
            and not any(row.count for row in (fs.operations or {}).values())
            and not any(mdt.requests for mdt in fs.metadata.values()))
