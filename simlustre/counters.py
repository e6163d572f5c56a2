"""
Counters as a Lustre client keeps them, and which ones each release has.

A counter has samples, min, max, sum and sumsq; how many of these a file prints, and in which
unit, depends on the release (RELEASES, and the three functions that make the tables).

Sources: llite_opcode_table in lustre/llite/lproc_llite.c, ptlrpc_lprocfs_register in
lustre/ptlrpc/lproc_ptlrpc.c, lprocfs_oh_tally_log2 in lustre/obdclass/lprocfs_status.c, and
files of a 2.15.8 and a 2.17.57 client that were read while a known workload ran.
"""
from __future__ import annotations

import time
from dataclasses import dataclass

from . import job_stats_text

PRINTS_COUNT, PRINTS_SUM, PRINTS_SUMSQ = 0, 3, 4        # numbers after the unit


@dataclass(frozen=True)
class Release:
    """
    What one Lustre release prints differently from the others.

    Attributes:
        version: text of the `version` file.
        usec: the unit of times in osc and mdc stats; "usecs" since LU-15642.
        ops_have_times: llite operations carry times, not `[regs]`; since LU-12631 (2.14).
        shows_start: files have start_time and elapsed_time; since LU-11407 (2.15).
        rpc_start_known: osc rpc_stats has a start_time before its first clear; since 2.16.
        first_in_flight: label of the first "rpcs in flight" row; 1 since LU-13599 (2.14).
        name_width: column of the name; 35 since 2.17.54.
        saturates: sum and sumsq stop at 2^63 - 1 instead of wrapping; since LU-18834.
        rpc_latency: rpc_stats has "RPC latency (us)" and "DIO RPCs in flight"; 2.17.
        mdc_bulk: mdc rpc_stats has the bulk sections too; since 2.11.
        mdc_percent: their column title; the doubled sign since 2.16 is Lustre's own slip.
        tiny_write: `tiny_write` is there; since 2.11.
        counts_tiny: a small write into a dirty page is in write_bytes; no more since 2.14.56.
        counts_libaio: so is libaio with O_DIRECT; no more since 2.14.
        flock_twice: `flock` is counted at the call, and at its success; since 2.17.
        llite_in, stats_in, rpc_in, info_in: directory of each kind of file; md_stats never moved.
        job_stats: whose form of job_stats (job_stats_text.RELEASES) this one has.
        exports_in: directory of a storage server's `exports` and `stats`; debugfs since 2.17.
        cleanup_in: of job_cleanup_interval; sysfs since 2.13.
        counts_evictions: a target has eviction_count; since 2.16.
        counts_inside: exports count calls inside of the server as well; until 2.12 (LU-11052).
    """

    version: str
    usec: str = "usecs"
    ops_have_times: bool = True
    shows_start: bool = True
    rpc_start_known: bool = True
    first_in_flight: int = 1
    name_width: int = 25
    saturates: bool = False
    rpc_latency: bool = False
    mdc_bulk: bool = True
    mdc_percent: str = "%"
    tiny_write: bool = True
    counts_tiny: bool = False
    counts_libaio: bool = False
    flock_twice: bool = False
    llite_in: str = "sys/kernel/debug/lustre"
    stats_in: str = "sys/kernel/debug/lustre"
    rpc_in: str = "proc/fs/lustre"
    info_in: str = "sys/fs/lustre"
    job_stats: str = "2.15.2"
    exports_in: str = "proc/fs/lustre"
    cleanup_in: str = "sys/fs/lustre"
    counts_evictions: bool = False
    counts_inside: bool = False


RELEASES = {
    "2.10": Release("2.10.8", usec="usec", ops_have_times=False, shows_start=False,
                    first_in_flight=0, mdc_bulk=False, llite_in="proc/fs/lustre",
                    stats_in="proc/fs/lustre", info_in="proc/fs/lustre", tiny_write=False,
                    counts_tiny=True, counts_libaio=True, job_stats="2.8",
                    cleanup_in="proc/fs/lustre", counts_inside=True),
    "2.12": Release("2.12.9", usec="usec", ops_have_times=False, shows_start=False,
                    first_in_flight=0, counts_tiny=True, counts_libaio=True, job_stats="2.12",
                    cleanup_in="proc/fs/lustre"),
    "2.15": Release("2.15.8", rpc_start_known=False),
    "2.16": Release("2.16.1", mdc_percent="%%", job_stats="2.16", counts_evictions=True),
    "2.17": Release("2.17.57", name_width=35, saturates=True, rpc_latency=True,
                    mdc_percent="%%", rpc_in="sys/kernel/debug/lustre", flock_twice=True,
                    job_stats="2.17", exports_in="sys/kernel/debug/lustre",
                    counts_evictions=True),
}

# In the order of the file.  opencount and openclosetime came with 2.15.
LLITE_OPERATIONS = (
    "read write open close fsync readdir setattr truncate flock getattr create link unlink symlink "
    "mkdir rmdir mknod rename statfs setxattr getxattr listxattr removexattr"
).split()


def llite_table(release: Release) -> dict:
    """name -> (unit, numbers printed) of llite.*.stats."""
    bytes_form = ("bytes", PRINTS_SUMSQ if release.ops_have_times else PRINTS_SUM)
    table = {"read_bytes": bytes_form, "write_bytes": bytes_form}
    if not release.ops_have_times:
        return {**table, **{name: ("regs", PRINTS_COUNT) for name in LLITE_OPERATIONS[2:]}}
    table.update((name, ("usecs", PRINTS_SUMSQ)) for name in LLITE_OPERATIONS)
    table.update(opencount=("reqs", PRINTS_SUMSQ), openclosetime=("usecs", PRINTS_SUMSQ))
    return table


def rpc_table(release: Release, *opcodes: str) -> dict:
    """name -> (unit, numbers printed) of osc and mdc `stats`; `opcodes` in their own order."""
    unit = {"req_active": "reqs", "ldlm_ibits_enqueue": "reqs",
            "read_bytes": "bytes", "write_bytes": "bytes"}
    names = ("req_waittime", "req_active") + opcodes
    return {name: (unit.get(name, release.usec), PRINTS_SUMSQ) for name in names}


OSC_OPCODES = ("read_bytes", "write_bytes", "ost_read", "ost_write", "ost_punch", "ost_sync")
MDC_OPCODES = ("ldlm_ibits_enqueue", "mds_close", "mds_readpage", "mds_statfs", "mds_sync")

# Calls inside of an OST, which exports have besides requests, and which requests make them.
INSIDE = ("preprw", "commitrw")
TRANSFERS = ("read_bytes", "write_bytes")


def target_table(release: Release, kind: str) -> dict:
    """name -> (unit, numbers printed) of a target's `stats` and of `exports/NID/stats`."""
    table = {}
    for name, unit in job_stats_text.counters_of(release.job_stats, kind):
        prints = PRINTS_COUNT
        if job_stats_text.has_numbers(release.job_stats, name, unit):
            prints = PRINTS_SUMSQ if release.ops_have_times else PRINTS_SUM
        table[name] = (unit.strip(), prints)
    return table


MD_TABLE = {name: ("reqs", PRINTS_COUNT) for name in (
    "close", "create", "intent_lock", "link", "rename", "setattr", "fsync", "read_page",
    "unlink", "setxattr")}


class Counter:
    """One counter; numbers are exact here, and wrap or saturate only when printed."""

    __slots__ = ("samples", "min", "max", "sum", "sumsq")

    def __init__(self):
        self.samples = self.max = self.sum = self.sumsq = 0
        self.min = None

    def add(self, value: int, times: int) -> None:
        self.samples += times
        self.sum += value * times
        self.sumsq += value * value * times
        self.min = value if self.min is None else min(self.min, value)
        self.max = max(self.max, value)


class CounterFile:
    """The counters of one file; each file has its own start_time, as in Lustre."""

    def __init__(self, table: dict):
        self.table = table
        self.clear()

    def add(self, name: str, value: int = 1, times: int = 1) -> None:
        """Count; silently not if the release has no such counter."""
        if times and name in self.table:
            if name not in self.counters:
                self.counters[name] = Counter()
            self.counters[name].add(value, times)

    def clear(self) -> None:
        """All of the file, whatever was written to it: lprocfs_stats_clear()."""
        self.counters: dict = {}
        self.start_ns = time.time_ns()


class RpcHistograms:
    """The histograms of one `rpc_stats`: (section, direction) -> row number -> RPCs."""

    def __init__(self, start_known: bool):
        self.clear()
        if not start_known:
            self.start_ns = 0           # cl_stats_init is set by a clear only, up to 2.15

    def add(self, section: str, direction: str, row: int, times: int = 1) -> None:
        if times:
            rows = self.rows.setdefault((section, direction), {})
            rows[row] = rows.get(row, 0) + times

    def clear(self) -> None:
        self.rows: dict = {}
        self.start_ns = time.time_ns()


def log2_row(value: int) -> int:
    """Row of a value: row r holds 2^(r-1) < value <= 2^r, as in lprocfs_oh_tally_log2()."""
    return (value - 1).bit_length() if value else 0
