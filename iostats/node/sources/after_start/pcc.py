"""
llite.*.pcc: caches on this node that files may be attached to (PCC, since 2.13); no counters.

    pcc:
    /mnt/cache:
      rwid: 2
      flags: 13
      autocache: projid={500}

What such a cache serves is in `read` and `write` of llite, and not in its bytes.  Empty where there
is none.  Readable for root only (debugfs).

Source: pcc_super_dump(), lustre/llite/pcc.c.
"""

from __future__ import annotations

from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File

NAME = "pcc"
READ_AT = ("mark", "stop")


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount."""
    return read_all(root, "pcc", "llite", "pcc", config.node.file_systems)
