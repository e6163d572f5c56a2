"""
osc.*.stats: network traffic between this node and one OST.

    read_bytes                11 samples [bytes] 40960 3670016 5570560 14856828747776
    ost_read                  11 samples [usecs] 1857 32568 86378 1449010130

`read_bytes` is in whole pages, with read-ahead.  obd_ping, ost_connect and ost_statfs are the
client's own background.  Readable for root only since 2.12 (debugfs).

Source: lustre/ptlrpc/lproc_ptlrpc.c, ptlrpc_lprocfs_register().
"""

from __future__ import annotations

from iostats.lustre import stats
from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "osc"
LAYER, TITLE, LETTER = "network", "osc", "o"
READ_AT = ("start", "mark", "stop")
DIRECTORY = "osc"
CALLS_SUFFIX = "_rpcs"
parse, split, is_sent = stats.parse, stats.split_target_name, stats.is_plain_sum


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount's OSTs."""
    return read_all(root, "osc", "osc", "stats", config.node.file_systems, always=split)
