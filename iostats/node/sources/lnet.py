"""
LNet's `stats`: messages of this node since LNet was started, as text; no counters of Lustre.

    0 1031 0 2300000 3700000 0 41 8589934592 17179869184 0 5290

What was dropped while a job ran is found at its end (events/lnet_changes.py).  From 2.11 on root
alone may read it; where it may not be read, it is unknown, and nothing is noted.

Source: __proc_lnet_stats(), lnet/lnet/router_proc.c (2.10), lnet/lnet/lnet_debugfs.c (2.17).
"""

from __future__ import annotations

from iostats.lustre.paths import LNET_PLACES, File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

NAME = "lnet"
READ_AT = ("start", "mark", "stop")


def read(root: str, config: Config) -> list[File]:
    """Return [File], or [] where it is not there or may not be read."""
    for place in LNET_PLACES:
        try:
            with open(f"{root}/{place}/stats", "rb", buffering=0) as file:
                return [File(NAME, "stats", f"{place}/stats", 0, file.read().decode("latin-1"))]
        except OSError:
            continue
    return []
