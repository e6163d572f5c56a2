"""
state, import: how this client stands with each target, of every osc and mdc.

Every user may read them up to Lustre 2.16, root alone from 2.17 on (lustre/import_files.py).  Idle
targets, targets that are away at the mount and deactivated ones are no events.

    state = as events/import_changes.py has it

Source: lprocfs_state_seq_show(), lprocfs_import_seq_show(), lustre/obdclass/lprocfs_status.c.
"""

from __future__ import annotations

from iostats.events import import_changes
from iostats.events.sources import SourceResult
from iostats.lustre import import_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.events.sources import Place

NAME, ROLES = import_changes.NAME, ("client",)


def scan(place: Place, before: object, now: float) -> SourceResult:
    """Events of kinds evicted, connection_lost, connection_restored, timeouts; no status."""
    files = import_files.read(place.root, place.config.node.file_systems)
    state = before if isinstance(before, dict) else None
    changes = import_changes.find_changes(files, state, place.boot_id, place.node, now)
    return SourceResult(changes.events, changes.state, {})
