"""
mdc.*.md_stats: this node's metadata requests to one MDT; counts only.

    close                     70 samples [reqs]
    create                    40 samples [reqs]          files and directories

In /proc and readable by every user in each release from 2.5 to 2.17: the only I/O counters of
which that is true.

Source: lprocfs_alloc_md_stats(), lustre/obdclass/lprocfs_status.c.
"""

from __future__ import annotations

from iostats.lustre import stats
from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "md_stats"
LAYER, TITLE, LETTER = "metadata", "md_stats", "m"
READ_AT = ("start", "mark", "stop")
DIRECTORY = "mdc"
CALLS_SUFFIX = "_calls"
parse, split = stats.parse, stats.split_target_name


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount's MDTs."""
    return read_all(root, "md_stats", "mdc", "md_stats", config.node.file_systems,
                    always=split)
