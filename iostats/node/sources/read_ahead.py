"""
llite.*.read_ahead_stats: pages that the client read ahead; only its explanation of network reads.

    hits                      2060 samples [pages]
    readahead_pages           3 samples [pages] 24 1024 2046

The sum of `readahead_pages` is the pages that read-ahead asked for, since cdcf97e17e (LU-16338,
2.15.54); earlier clients have no such line.  Readable for root only since 2.12 (debugfs).

Source: ll_read_ahead_pages(), lustre/llite/rw.c.
"""

from __future__ import annotations

from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "read_ahead"
READ_AT = ("start", "mark", "stop")


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount."""
    return read_all(root, "read_ahead", "llite", "read_ahead_stats", config.node.file_systems)
