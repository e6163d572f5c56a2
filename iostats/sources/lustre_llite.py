"""
llite.*.stats: what programs asked of a mount, page cache included.

    read_bytes                53 samples [bytes] 37888 524288 16600064 8279353720832
    open                      70 samples [usecs] 34 18909 132940 1119163770

Bytes are what read(2) and write(2) returned; mmap is not in them.  `open` and the like are
calls, not requests to a server.  Readable for root only since 2.12 (debugfs).

Source: lustre/llite/lproc_llite.c, llite_opcode_table; names by release in lustre.py.
"""

from __future__ import annotations

from iostats import lustre
from iostats.files import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.config import Config
    from iostats.snapshot import File

SIDE = "node"
CALLS_SUFFIX = "_calls"
parse = lustre.parse


def read(root: str, config: Config) -> list[File]:
    """[File] of each mount."""
    # Where debugfs is not mounted they are nowhere, and /sys still lists the mount.
    return read_all(root, "llite", "llite", "stats", config["node.mdc_path"], always=split)


def split(name: str) -> tuple[str, str, str] | None:
    """(file system, "", instance)."""
    parts = lustre.split_llite_name(name)
    return parts and (parts[0], "", parts[1])
