"""
Metrics of targets and services of a storage server, beside job_stats and exports.

    osd-ldiskfs/TARGET/brw_stats                    bulk requests by size, each one I/O of the disk
    obdfilter/TARGET/tot_granted, tot_dirty         2 MiB for each client that is connected; none
    ldlm/namespaces/filter-TARGET_UUID/lock_count   one for each inode that requests have made
    mdt/TARGET/hsm/agents, archive_count ...        one copytool, and what `--ctl hsm` said of it
    ost/OSS/ost_io/threads_started, stats           requests of each service, and how long they
                                                    waited for a thread (`--ctl wait`)
    ost/OSS/ost_io/nrs_policies                     fifo
    osp/scratch-OST0000-osc-MDT0000/prealloc_...    objects made in advance, `--ctl precreate`
    qmt/scratch-QMT0000/dt-0x0/glb-usr ...          what `--ctl quota` said; beside MDT0000

A read goes to the disk as well: nothing stays in the server's memory.

Source: brw_stats_show(), osd-ldiskfs/osd_lproc.c, 2.10 and 2.12; brw_stats_seq_show(),
obdclass/lprocfs_status_server.c, 2.15 to 2.17; mdt_hsm_agent_debugfs_show(); ptlrpc_lprocfs_* and
threads_started_show(), ptlrpc/lproc_ptlrpc.c; lprocfs_quota_seq_show(), quota/lproc_quota.c;
prealloc_status_show(), osp/lproc_osp.c.
"""
from __future__ import annotations

import time

from . import text
from .counters import TRANSFERS, CounterFile, Release, log2_row

PAGE = 4096
BULK, OTHER, OF_MDT = "ost_io", "ost", "mdt"       # services
PLACES_OF_SERVICES = {BULK: "ost/OSS", OTHER: "ost/OSS", OF_MDT: "mds/MDS"}
KIND_OF_SERVICES = {BULK: "OST", OTHER: "OST", OF_MDT: "MDT"}
QUOTA_KINDS = {"user": "usr", "group": "grp", "project": "prj"}
_OLD = ("2.10", "2.12")
_WAIT_US = 23
# As of a server on which nobody has chosen a policy.
POLICIES = "\n".join(["", *(
    line for kind in ("regular_requests:", "high_priority_requests:") for line in (
        kind, "  - name: fifo", "    state: started", "    fallback: yes", f"    queued: {0:<20}",
        f"    active: {0:<20}", "", "  - name: tbf", "    state: stopped", "    fallback: no",
        f"    queued: {0:<20}", f"    active: {0:<20}", ""))]) + "\n"
COPYTOOL = "1f0c6a4e-0b7d-4a1c-9a39-6f2a0e7f4c11"
_HISTOGRAMS = (                                     # title, unit, whether a row is a power of two
    ("pages per bulk r/w", "rpcs", True), ("discontiguous pages", "rpcs", False),
    ("discontiguous blocks", "rpcs", False), ("disk fragmented I/Os", "ios", False),
    ("disk I/Os in flight", "ios", False), ("I/O time (1/1000s)", "ios", True),
    ("disk I/O size", "ios", True))


class TargetMetrics:
    """
    Metrics of one target.

    Attributes:
        bulk: {"read_bytes" or "write_bytes": {bytes of a request: how many}}.
        hsm_done, hsm_failed: requests of its copytool; None: there is no copytool.
    """

    def __init__(self):
        self.hsm_done = self.hsm_failed = None
        self.clear()

    def clear(self) -> None:
        """As a write to brw_stats does."""
        self.bulk: dict = {name: {} for name in TRANSFERS}
        self.start_ns = time.time_ns()

    def count(self, counts: list) -> None:
        """`counts`: [[counter, amount, times], ...] of one request."""
        for name, amount, times in counts:
            if name in TRANSFERS:
                sizes = self.bulk[name]
                sizes[amount] = sizes.get(amount, 0) + times


class ServiceMetrics:
    """The requests of one service, and how long each waits for a thread from now on."""

    def __init__(self, release: Release):
        numbers = release.usec, 4
        self.file = CounterFile({"req_waittime": numbers, "req_qdepth": ("reqs", 4),
                                 "req_active": ("reqs", 4), "req_timeout": ("secs", 4)})
        self.wait_us = _WAIT_US

    def count(self, requests: int) -> None:
        for name, value in (("req_waittime", self.wait_us), ("req_qdepth", 0), ("req_active", 1),
                            ("req_timeout", 10)):
            self.file.add(name, value, requests)


def requests_by_service(kind: str, counts: list) -> dict:
    """{service: requests} of the requests that `counts` are of, at an OST or an MDT."""
    requests: dict = {}
    for name, _, times in counts:
        if name not in ("read", "write"):           # the times of what TRANSFERS count
            service = OF_MDT if kind == "MDT" else BULK if name in TRANSFERS else OTHER
            requests[service] = requests.get(service, 0) + times
    return requests


def quota_text(quotas: dict, kind: str, release: Release) -> str:
    """Of space, as the quota master has it; `quotas`: {(kind, id): (KiB hard, KiB granted)}."""
    width, of_time = (12, 15) if release.version.startswith("2.17") else (20, 20)
    return f"global_pool0_dt_{QUOTA_KINDS[kind]}\n" + "".join(
        f"- id:      {number}\n  limits:   {{ hard: {hard:>{width}}, soft: {0:>{width}}, "
        f"granted: {granted:>{width}}, time: {0:>{of_time}} }}\n"
        for (known, number), (hard, granted) in sorted(quotas.items()) if known == kind)


def copytool_text(metrics: TargetMetrics) -> str:
    """hsm/agents."""
    return "" if metrics.hsm_done is None else (
        f"uuid={COPYTOOL} archive_id=ANY requests=[current:0 ok:{metrics.hsm_done} "
        f"errors:{metrics.hsm_failed}]\n")


def disk_requests_text(metrics: TargetMetrics, release: Release, now_ns: int) -> str:
    """brw_stats: each request is contiguous, and one I/O of the disk that took less than 1 ms."""
    lines = text.histogram_header(metrics, release, now_ns)
    # A contiguous request is in row 0 up to 2.15, and in row 1 from 2.16 on.
    contiguous = int(not release.version.startswith((*_OLD, "2.15")))
    rows_of = {"discontiguous pages": contiguous, "discontiguous blocks": contiguous,
               "disk fragmented I/Os": 1, "disk I/Os in flight": 1, "I/O time (1/1000s)": 0}
    for title, unit, is_scaled in _HISTOGRAMS:
        sides = []
        for name in TRANSFERS:
            rows: dict = {}
            for amount, times in metrics.bulk[name].items():
                row = rows_of.get(title)
                if row is None:
                    row = log2_row(-(-amount // PAGE) if unit == "rpcs" else amount)
                rows[row] = rows.get(row, 0) + times
            sides.append(rows)
        lines += ["", f"{'':<26} read      |     write",
                  f"{title:<22} {unit:<5} % cum % |  {unit:<11} % cum %"]
        lines += _rows(*sides, is_scaled)
    return "\n".join(lines) + "\n"


def _rows(reads: dict, writes: dict, is_scaled: bool) -> list:
    """The rows from the first to the last count."""
    if not reads and not writes:
        return []
    totals = sum(reads.values()), sum(writes.values())
    so_far = [0, 0]
    lines = []
    for row in range(min([*reads, *writes]), max([*reads, *writes]) + 1):
        cells = []
        for place, side in enumerate((reads, writes)):
            count = side.get(row, 0)
            so_far[place] += count
            percents = [100 * part // totals[place] if totals[place] else 0
                        for part in (count, so_far[place])]
            cells.append((count, *percents))
        label = _label(row) if is_scaled else row
        lines.append("%s:\t\t%10d %3d %3d   | %4d %3d %3d" % (label, *cells[0], *cells[1]))
    return lines


def _label(row: int) -> str:
    return (f"{1 << row}" if row < 10 else f"{1 << row - 10}K" if row < 20 else
            f"{1 << row - 20}M")
