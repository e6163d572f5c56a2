"""
What of a record is shown: the file systems with something to say, and the notes on their numbers.
"""

from __future__ import annotations

from iostats.base.units import count_text
from iostats.report import coverage, storage_server_tables
from iostats.report.advice import noise_floor
from iostats.report.job_numbers import bounds_of
from iostats.report.network_bytes import why_network_differs
from iostats.report.text_table import file_systems_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.totals.record import (
        FileSystemRecord,
        NodesFileSystem,
        Record,
        ServersFileSystem,
    )


def notes_of(record: Record, shown: list[FileSystemRecord], harvested: list[ServersFileSystem],
             by_node: list[NodesFileSystem], long: bool, config: Any) -> list[str]:
    """What to know of the numbers, a line each."""
    units = config["report.units"]
    missing, found = record.coverage.missing_count, []
    if missing and shown:
        found.append(f"note: {count_text(missing, 'node has', 'nodes have')} no numbers: "
                     f"every amount is a lower bound (>=)")
    found += coverage.notes_on_shared_nodes(record.coverage.shared)
    found += [f"note: {note}" for note in record.notes]
    for fs in shown:
        found += [f"note: {fs.label}: {note}" for note in (*fs.notes, *noise_floor.notes(
            fs, record.coverage.reported, config["advice.noise_percent"], units))]
    if any(note.endswith(": permission denied") for fs in shown for note in fs.notes):
        found.append("note: permission denied: root may read that, and users by the reader; "
                     "docs/install.md#who-may-read-the-counters")
    if record.harvest:
        both = {fs.name for fs in record.harvest.file_systems}
        found += [f"note: {fs.label}: {line}" for fs in shown if fs.name in both and not long
                  for line in why_network_differs(fs, units)]
        found += storage_server_tables.notes(record.harvest, harvested)
    if record.by_node:
        found += storage_server_tables.notes_by_node(
            record.by_node, by_node, bool(record.coverage.reported or harvested) and not long,
            units)
    refused = record.coverage.refused
    if refused:
        found.append("note: messages refused: "
                     + ", ".join(f"{count} {why}" for why, count in sorted(refused.items())))
    return found


def busy_and_idle(record: Record,
                  config: Any) -> tuple[list[FileSystemRecord], list[FileSystemRecord]]:
    """
    The file systems for the tables, and those on which nothing was done, which would only fill
    them.  All are in the tables where site.cfg names them, or where nothing was done on any.
    """
    shown = file_systems_of(record, config)
    at_servers = {fs.name for fs in (record.harvest.file_systems if record.harvest else ())}
    idle = [] if config["report.file_systems"] else [
        fs for fs in shown if fs.name not in at_servers and _is_idle(fs)]
    if len(idle) == len(shown):
        return shown, []
    return [fs for fs in shown if fs not in idle], idle


def busy_by_node(record: Record, config: Any, names: set[str]) -> list[NodesFileSystem]:
    """What its nodes did: on file systems that are in the tables anyway, or where they did much."""
    found: list[NodesFileSystem] = file_systems_of(record.by_node, config) if record.by_node else []
    busy = [fs for fs in found if fs.name in names or fs.high is None
            or any(high for _, _, high in bounds_of(fs))]
    return busy or found


def _is_idle(fs: FileSystemRecord) -> bool:
    """True where it is known that nothing was done there, and there is nothing to say of it."""
    return (fs.application is not None and fs.operations is not None
            and not fs.notes and not fs.dirty_bytes
            and not any(fs.application.values()) and not any((fs.network or {}).values())
            and fs.application.read_bytes is not None
            and not any(row.count for row in fs.operations.values())
            and not any(mdt.requests for mdt in fs.metadata.values()))
