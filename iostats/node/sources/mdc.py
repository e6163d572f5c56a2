"""
mdc.*.stats: network traffic between this node and one MDT.

    mds_close                 70 samples [usecs] 1320 19400 402000 3600000000
    read_bytes                 4 samples [bytes] 4096 65536 131072 ...       files on the MDT

Data of files that live on the MDT (Data-on-MDT, since 2.11) is in read_bytes and write_bytes.
Readable for root only since 2.12 (debugfs).

Source: lustre/ptlrpc/lproc_ptlrpc.c, ptlrpc_lprocfs_register().
"""

from __future__ import annotations

from iostats.lustre import stats
from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "mdc"
LAYER, TITLE, LETTER = "network", "mdc", "d"
READ_AT = ("start", "mark", "stop")
DIRECTORY = "mdc"
CALLS_SUFFIX = "_rpcs"
parse, split, is_sent = stats.parse, stats.split_target_name, stats.is_plain_sum


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount's MDTs."""
    return read_all(root, "mdc", "mdc", "stats", config.node.file_systems, always=split)
