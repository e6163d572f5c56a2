"""
osc.*.state, osc.*.import and those of mdc: the node's connection to each target; no counters.

    current_state: FULL
    state_history:
     - [ 1795226016, CONNECTING ]
     - [ 1795226016, FULL ]

`start` stores them unchanged; the events during the job are computed from them at the end
(events/import_changes.py).  What a program wrote and the node had not sent is discarded by an
eviction, and stays in llite's write_bytes.  Who may read them: lustre/import_files.py.

Source: lprocfs_state_seq_show(), lprocfs_import_seq_show(), lustre/obdclass/lprocfs_status.c.
"""

from __future__ import annotations

from iostats.lustre import import_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "state"
READ_AT = ("start", "mark", "stop")


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount's targets; the source of each is the file's name."""
    return import_files.read(root, config.node.file_systems)
