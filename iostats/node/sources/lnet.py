"""
LNet's `stats`: messages of this node since LNet was started, as text; no counters of Lustre.

    0 1031 0 2300000 3700000 0 41 8589934592 17179869184 0 5290

What was sent, dropped and resent while a job ran is found at its end (node/lnet_counts.py).  From
2.11 on root alone may read it: prolog and epilog, and the reader.  Where it may not be read, it is
unknown, and nothing is noted.

`lnetctl` is the answer that prolog and epilog may have stored (lustre/lnetctl.py): its first
_LNETCTL_BYTES, in which the counts of the machine are.

Source: __proc_lnet_stats(), lnet/lnet/router_proc.c (2.10), lnet/lnet/lnet_debugfs.c (2.17).
"""

from __future__ import annotations

from iostats.lustre.paths import LNET_PLACES, LNETCTL_PATH, File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

NAME = "lnet"
READ_AT = ("start", "mark", "stop")
_LNETCTL_BYTES = 4096


def read(root: str, config: Config) -> list[File]:
    """Return [File], or [] where none is there or may be read."""
    files = []
    for name, path, length in (*(("stats", f"{place}/stats", -1) for place in LNET_PLACES),
                               ("lnetctl", LNETCTL_PATH, _LNETCTL_BYTES)):
        try:
            with open(f"{root}/{path}", "rb", buffering=0) as file:
                files.append(File(NAME, name, path, 0, file.read(length).decode("latin-1")))
        except OSError:
            continue
    return files
