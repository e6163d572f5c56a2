"""
{osc,mdc}.*.state: how this node's connection to one target has fared; no counters.

    current_state: FULL
    state_history:
     - [ 1795226294, DISCONN ]
     - [ 1795226294, CONNECTING ]
     - [ 1795226294, EVICTED ]
     - [ 1795226294, RECOVER ]
     - [ 1795226294, FULL ]

What a program wrote and the node had not sent is discarded by an eviction, and stays in llite's
write_bytes.  Sixteen entries are kept, two of which are made each 4 to 5 s while a target is away.
Every user may read it up to 2.16, root alone since (debugfs).

Source: lprocfs_state_seq_show(), lustre/obdclass/lprocfs_status.c.
"""

from __future__ import annotations

from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "state"
READ_AT = ("mark", "stop")


def read(root: str, config: Config) -> list[File]:
    """[File] of each mount's targets."""
    return (read_all(root, "state", "osc", "state", config["node.file_systems"])
            + read_all(root, "state", "mdc", "state", config["node.file_systems"]))
