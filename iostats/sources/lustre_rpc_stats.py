"""
osc.*.rpc_stats: how large the bulk requests to one OST were.

    pages per rpc         rpcs   % cum % |       rpcs   % cum %
    1:		    100395  88  88   |     320551  84  84

Readable by every user up to 2.16, and by root only since (debugfs, 088b9064d9).  Only "pages
per rpc" goes into the delta; the other sections are read, and stay on the node.

Source: osc_rpc_stats_seq_show(), lustre/osc/lproc_osc.c; see rpc_histogram.py.
"""

from __future__ import annotations

from iostats import lustre, rpc_histogram
from iostats.files import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.config import Config
    from iostats.snapshot import File

SIDE = "node"
CALLS_SUFFIX = "_calls"
parse, split = rpc_histogram.parse, lustre.split_target_name


def read(root: str, config: Config) -> list[File]:
    """[File] of each mount's OSTs."""
    return read_all(root, "rpc_stats", "osc", "rpc_stats", config["node.osc_path"])


def is_sent(metric: str) -> bool:
    """True for the metrics that go into a report."""
    return "_rpcs_pages_" in metric
