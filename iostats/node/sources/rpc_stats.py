"""
osc.*.rpc_stats: sizes of the bulk requests to one OST.

    pages per rpc         rpcs   % cum % |       rpcs   % cum %
    1:		    100395  88  88   |     320551  84  84

Readable by every user up to 2.16, and by root only since (debugfs, 088b9064d9).  Only "pages
per rpc" goes into the delta.  Of the others "rpcs in flight" and "offset" help to see a clear
where the file shows no start time; "RPC latency (us)" is of no use even for that, since 2.17 prints
each count c as c * 1024 / 1000 and stops where these add up to the total: rows come and go.

Source: osc_rpc_stats_seq_show(), lustre/osc/lproc_osc.c; see rpc_stats.py.
"""

from __future__ import annotations

from iostats.lustre import stats
from iostats.lustre.paths import read_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.lustre.paths import File
    from iostats.lustre.stats import Reading

NAME = "rpc_stats"
LAYER, TITLE, LETTER = "network", "rpc_stats", "p"
READ_AT = ("start", "mark", "stop")
DIRECTORY = "osc"
BY_TARGET = False                   # no report shows it by OST
IN_PROC_UNTIL = 16
START_TIME_LATE = True              # 2.16
CALLS_SUFFIX = "_calls"
split = stats.split_target_name


def parse(text: str, origin: str = "rpc_stats") -> Reading:
    """The Reading of one file, without unused sections."""
    from iostats.lustre import rpc_stats  # a start needs none of it
    reading = rpc_stats.parse(text, origin)
    return reading._replace(counters={
        name: counter for name, counter in reading.counters.items()
        if is_sent(name) or not (reading.start_ns or "_latency_us_" in name)})


def read(root: str, config: Config) -> list[File]:
    """Return [File] of each mount's OSTs."""
    return read_all(root, "rpc_stats", "osc", "rpc_stats", config.node.file_systems,
                    always=split)


def is_sent(metric: str) -> bool:
    """True for the metrics that go into a report."""
    return "_rpcs_pages_" in metric
