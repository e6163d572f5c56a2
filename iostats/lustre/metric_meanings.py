"""
The meaning of each number of a report, the Lustre releases that count it, and its limits.

For `--explain` and docs/reference/counters.md.  A node, which makes metrics of counters, has no use
for these texts: see metrics.py.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.metrics import MADE_OF

EXPLAIN_ALWAYS = (
    "\"By the application\" is what programs asked of the mount, page cache included; \"over the "
    "network\" is what went to and came from the servers.",
    "The kernel counts for the whole node: what else ran there at the same time is in the numbers.",
    "Metadata requests (--long) are md_stats without what the client does for itself; average is "
    "requests / (nodes x seconds), peak that of the busiest node over its whole time.",
    "Seconds, mean and standard deviation (--long) are of single calls, as the kernel timed them; "
    "a creating open has its create in it.  Requests (--long) are bulk requests by their size; the "
    "kernel counts them in pages, which have 4 KiB nearly everywhere.",
    "Parts (mark) and rates (watch) are of the same counters; a rate is an amount by the width of "
    "its bin; I/O before the first and after the last reading is in the last bin.",
    "I/O is missed on a file system that was mounted and unmounted during the job, or mounted "
    "during it and then had its counters cleared.",
    ">= marks a lower bound: a node is missing, or counters were cleared, remounted or not "
    "readable, or calls were not counted; <= an upper bound: an eviction discarded what was "
    "written; ~ a value that may be too low or too high, such as a mean of lower bounds; the notes "
    "say why.  - is unknown, which is not 0.",
)


class Metric(NamedTuple):
    """A metric of the report: its counter, its unit, and its meaning for people."""

    name: str       # in tables and in the JSON record
    source: str     # which file: llite, osc+mdc (added), md_stats, rpc_stats
    counter: str    # the line of that file
    takes: str      # the field of that line: samples, sum
    unit: str       # bytes, calls, RPCs, seconds
    since: str      # first Lustre release that has the line; "2.5" is the oldest one checked
    # meaning, caveat: one sentence each
    meaning: str
    caveat: str


def _make_call(name: str, meaning: str, since: str = "2.5", caveat: str = "") -> Metric:
    return Metric(name, "llite", " or ".join(MADE_OF.get(name, (name,))), "samples", "calls",
                  since, meaning, caveat)


# In the order of the tables; what else counts calls comes after these.
_OPERATIONS = (
    _make_call("open", "Files and directories opened.",
               caveat="A call of a program, not a request to a server."),
    _make_call("close", "Files and directories closed."),
    _make_call("create", "Files created.", caveat=
               "The larger of the two: the kernel counts a creating open under mknod alone."),
    _make_call("seek", "lseek() calls."),
    _make_call("fsync", "fsync(), fdatasync() and msync() calls.",
               caveat="So is each write() to a file that was opened with O_SYNC."),
    _make_call("getattr", "stat(), lstat(), fstat() and statx() calls."),
    _make_call("mkdir", "Directories created."),
    _make_call("setattr", "chmod(), chown() and utime() calls."),
    _make_call("truncate", "truncate() and ftruncate() calls, and opens with O_TRUNC."),
    _make_call("fallocate", "fallocate() calls.", "2.14"),
    _make_call("unlink", "Files removed."),
    _make_call("rmdir", "Directories removed."),
    _make_call("rename", "Files and directories renamed."),
    _make_call("link", "Hard links made."),
    _make_call("symlink", "Symbolic links made."),
    _make_call("readdir", "Pieces of directories listed.",
               caveat="Several calls for a large directory."),
    _make_call("statfs", "statfs() calls, such as df's."),
    _make_call("flock", "flock() and fcntl() calls that lock or unlock; an upper bound (<=).",
               caveat="The kernel unlocks at close() what is still locked, and counts that too.  "
               "From 2.17.0 on half of what it counts: two a call, but one for a call that "
               "failed."),
    _make_call("mmap", "mmap() calls."),
    _make_call("page_fault", "Pages of mapped files read.", "2.9"),
    _make_call("page_mkwrite", "Pages of mapped files made writable.", "2.9"),
    _make_call("splice", "splice() and sendfile() calls that read a file.", "2.17", caveat=
               "One for each piece of up to 64 KiB (16 pages of a pipe), and one at the end of the "
               "file."),
    _make_call("ioctl", "ioctl() calls.", caveat="Mostly of lfs, lctl and mount."),
    _make_call("setxattr", "Extended attributes set."),
    _make_call("getxattr", "Extended attributes read."),
    _make_call("listxattr", "Extended attributes listed."),
    _make_call("removexattr", "Extended attributes removed."),
    _make_call("inode_permission", "Permission checks by the kernel.",
               caveat="Several for each path that is looked up."),
)

METRICS = (
    Metric("read_bytes", "llite", "read_bytes", "sum", "bytes", "2.5",
           "What read() calls of all programs on the node returned.",
           "Includes what came from the page cache; mmap is not in it."),
    Metric("write_bytes", "llite", "write_bytes", "sum", "bytes", "2.5",
           "What write() calls of all programs on the node took.",
           "May still be in the node's memory when the job ends; mmap is not in it, nor are, since "
           "2.14.56, small writes into pages that were not sent yet."),
    Metric("read_calls", "llite", "read, or read_bytes up to 2.13", "samples", "calls", "2.5",
           "read() calls that returned data.", "A read at the end of a file is not counted."),
    Metric("write_calls", "llite", "write, or write_bytes up to 2.13", "samples", "calls", "2.5",
           "write() calls that took data.", ""),
    Metric("network.read_bytes", "osc+mdc", "read_bytes", "sum", "bytes", "2.5",
           "What came from the servers to the node.",
           "In whole pages, with read-ahead: it may be more than the application read."),
    Metric("network.write_bytes", "osc+mdc", "write_bytes", "sum", "bytes", "2.5",
           "What went from the node to the servers.",
           "A page that is written again after it was sent is sent again."),
    Metric("network.read_rpcs", "osc+mdc", "read_bytes", "samples", "RPCs", "2.5",
           "Bulk read requests to the servers.",
           "From rpc_stats (pages per rpc) where `stats` is not readable."),
    Metric("network.write_rpcs", "osc+mdc", "write_bytes", "samples", "RPCs", "2.5",
           "Bulk write requests to the servers.",
           "From rpc_stats (pages per rpc) where `stats` is not readable."),
    *_OPERATIONS,
)

# What the tables call an operation, and show in this order.
OPERATIONS = tuple(row.name for row in _OPERATIONS)
