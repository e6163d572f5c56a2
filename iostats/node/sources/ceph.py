"""
ceph/*/metrics/size in debugfs: requests of a CephFS mount to the storage daemons (OSDs).

    item          total       avg_sz(bytes)   min_sz(bytes)   max_sz(bytes)  total_sz(bytes)
    ----------------------------------------------------------------------------------------
    read          0           0               0               0               0
    write         5           4194304         4194304         4194304         20971520

The last column is the sum of what the requests asked for, also behind the end of a file; what the
page cache served is not in it.  Requests to metadata servers (MDS) are in a table of times, without
those that failed but for a file that was not there:

    item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)
    -----------------------------------------------------------------------------------
    metadata      79          12856           1572            114572          13262

The directory is named FSID.clientNUMBER; a mount has another number than each before it.  Both
tables are a part of the file `metrics` from 5.14 on, and have files of their own, `size` and
`latency`, since 5.16.  Readable for root only.

Source: metrics_size_show() and metrics_latency_show(), before that metric_show(),
fs/ceph/debugfs.c; ceph_update_metrics() and ceph_update_metadata_latency(), fs/ceph/metric.c.  The
lines above are of a real client (ceph-devel, October 2021).
"""

from __future__ import annotations

import os

from iostats.base.errors import StatsSyntaxError
from iostats.base.private_files import read_if_readable
from iostats.lustre.paths import File, make_choice
from iostats.lustre.stats import Counter, Reading, are_digits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config

NAME = "ceph"
LAYER, TITLE, LETTER = "", "CephFS requests", "c"
READ_AT = ("start", "mark", "stop")
CALLS_SUFFIX = "_calls"
ONLY_IF_USED = True
UPPER_BOUND = ("network_read_bytes",)   # in a hole, or behind the end, there was less
_TOP = "sys/kernel/debug/ceph"
_SUM = "total_sz(bytes)"                # the last column of the table
_LEAST_WORDS = 6                        # of a line: name, count, mean, minimum, maximum, sum
_TIMES = "stdev(us)"                    # the last column of the table of times


def read(root: str, config: Config) -> list[File]:
    """
    Return [File] of each mount, named cephfs:28f7427e-clientNUMBER by the cluster's FSID; without
    what has no sizes.
    """
    try:
        clients = sorted(os.listdir(os.path.join(root, _TOP)))
    except OSError:
        return []
    files, is_chosen = [], make_choice(config.node.file_systems)
    for fsid, _, client in (name.rpartition(".") for name in clients):
        file_system = f"cephfs:{fsid.partition('-')[0]}"
        if not is_chosen(file_system):
            continue
        top = f"{_TOP}/{fsid}.{client}/metrics"
        for path, more in ((f"{top}/size", f"{top}/latency"), (top, "")):
            text = read_if_readable(os.path.join(root, path))
            if _SUM in text:
                text += "\n" + read_if_readable(os.path.join(root, more)) if more else ""
                files.append(File(NAME, f"{file_system}-{client}", path, 0, text))
                break
    return files


def parse(text: str, origin: str = _TOP) -> Reading:
    """
    The Reading of one mount: network_read_bytes, network_reads, and the same of writes;
    metadata_requests.
    """
    counters: dict[str, Counter] = {}
    table = ""
    for lineno, line in enumerate(text.split("\n"), 1):
        name, *words = line.split() or [""]
        table = next((column for column in (_SUM, _TIMES) if line.endswith(column)),
                     table if name else "")
        if (table, name) in ((_SUM, "read"), (_SUM, "write"), (_TIMES, "metadata")):
            if len(words) != _LEAST_WORDS - 1 or not are_digits(words) or (
                    max(map(int, words)) >= 2**63):
                raise StatsSyntaxError(origin, lineno, line, f"{name} and 5 numbers below 2**63")
            if table == _TIMES:
                counters["metadata_requests"] = Counter(int(words[0]), "reqs")
                continue
            counters[f"network_{name}s"] = Counter(int(words[0]), "reqs")
            counters[f"network_{name}_bytes"] = Counter(int(words[-1]), "reqs")
    if "network_reads" not in counters:
        raise StatsSyntaxError(origin, 1, text.partition("\n")[0], f"a table with {_SUM}")
    return Reading(counters, 0, None)


def split(name: str) -> tuple[str, str, str] | None:
    """Return (cephfs:28f7427e, "", clientNUMBER) of a file's name."""
    file_system, _, client = name.rpartition("-")
    return file_system, "", client
