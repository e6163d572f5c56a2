"""
The metrics that go into a report, and which counter and field each one takes.

Every counter of a file becomes metrics by one rule, so that unknown counters are carried along:

    unit            metric NAME                    second metric
    bytes           sum                            NAME with _bytes -> _calls (llite) or _rpcs
    usec, usecs     samples                        NAME_us: sum; NAME_us2: sum of squares
    reqs, regs ...  samples                        none (a sum of [reqs] is of depths, not work)
    other           samples                        NAME_sum: sum, where there is one

"Sum if there is one" fails across releases: since LU-12631 (2.14) `open` carries [usecs] min
max sum, before that [regs] and a count alone, so opens would turn into microseconds on upgrade.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BYTES_UNIT, TIME_UNITS, COUNT_UNITS = "bytes", ("usec", "usecs"), ("reqs", "regs", "rpcs")


def metrics_of(name: str, unit: str, samples: int, total: int | None, calls_suffix: str,
               squares: int | None = None) -> dict[str, int]:
    """
    metric -> integer of one counter's `samples`, `total` (sum) and `squares` (sum of squares);
    the last two None where it has none, or none that can be trusted.

    >>> metrics_of("open", "usecs", 23, 61403, "_calls")
    {'open': 23, 'open_us': 61403}
    >>> metrics_of("read_bytes", "bytes", 23, 11534336, "_rpcs")
    {'read_bytes': 11534336, 'read_rpcs': 23}
    """
    if unit == BYTES_UNIT:
        stem = name[:-len("_bytes")] if name.endswith("_bytes") else name
        found = {stem + calls_suffix: samples}
        return {name: total, **found} if total is not None else found
    if total is None or unit in COUNT_UNITS:
        return {name: samples}
    if unit not in TIME_UNITS:
        return {name: samples, name + "_sum": total}
    found = {name: samples, name + "_us": total}
    return found if squares is None else {**found, name + "_us2": squares}


# Files created: the larger of the two.  open(2) counts what it creates under `mknod`, and mknod(2)
# of a file counts under both (26 and 5 files: mknod 31, create 5, on 2.15.8, 2.16.1, 2.17.57), so
# the sum counts files twice.  Before atomic_open (RHEL 6) open(2) counted under `create` alone.
# Source: ll_create_nd(), ll_mknod(), ll_lookup_it_finish(), lustre/llite/namei.c.
MADE_OF = {"create": ("create", "mknod")}

# What --explain says below every report; docs/counters.md has it too.
EXPLAIN_ALWAYS = (
    "\"By the application\" is what programs asked of the mount, page cache included; \"over the "
    "network\" is what went to and came from the servers.",
    "The kernel counts for the whole node: what else ran there at the same time is in the numbers.",
    "Metadata requests (--long) are md_stats without what the client does for itself; average is "
    "requests / (nodes x seconds), peak that of the busiest node over its whole time.",
    "Seconds, mean and standard deviation (--long) are of single calls, as the kernel timed them; "
    "a creating open has its create in it.  Pages (--long) is the size of bulk requests: up to so "
    "many pages.",
    "Parts (mark) and rates (watch) are of the same counters; a rate is an amount by the width of "
    "its bin, and what was done before the first and after the last look is in the last bin.",
    "A mount that came and went between start and stop, and one that came and of which all "
    "counters were cleared since, leave no trace: what was done there is not in the numbers.",
    ">= marks a lower bound: a node is missing, or counters were cleared, remounted or not "
    "readable, or calls were not counted; <= an upper bound: an eviction threw away what was "
    "written; ~ both; the notes say why.  - is not known, which is not 0.",
)

# An operation is a call of a program (llite) or a request (job_stats) that is no read or write,
# each counted once.  Every counter is one, a new release's too, but for these, and for amounts.
TRANSFER, AGAIN, INSIDE = "a read or write", "counted under another name too", "inside of a call"
UPKEEP = "the connection's, or a step of a read or write on the storage server"
NOT_OPERATIONS = {
    # `read` and `write` have the time of the calls that read_bytes and write_bytes count.
    **dict.fromkeys(("read", "write", "read_bytes", "write_bytes"), TRANSFER),
    # job_stats of an MDT count a rename once more by its kind (mdt_rename_counter_tally(),
    # lustre/mdt/mdt_reint.c): to add those would count one request twice.
    **dict.fromkeys(("samedir_rename", "crossdir_rename", "parallel_rename_file",
                     "parallel_rename_dir", "rename_trylocks"), AGAIN),
    # Of llite: what the client did inside of a call, or depths; evictions are ours (bounds.py).
    **dict.fromkeys((
        "opencount", "openclosetime", "getxattr_hits", "alloc_inode", "dirty_pages_hits",
        "dirty_pages_misses", "brw_read", "brw_write", "osc_read", "osc_write", "evictions",
        "pcc_attach", "pcc_detach", "pcc_auto_attach", "hybrid_noswitch",
        "hybrid_writesize_switch", "hybrid_readsize_switch"), INSIDE),
    # Of exports (lustre/exports.py): no request of a program's.
    **dict.fromkeys(("ping", "connect", "reconnect", "disconnect", "preprw", "commitrw"), UPKEEP),
}
_AMOUNTS = ("_us", "_us2", "_sum", "_bytes", "_calls", "_rpcs")          # see metrics_of


# Operations that `top` shows one by one: what MDTs and OSTs are asked for most.
SINGLE_OPERATIONS = ("open", "close", "mknod", "mkdir", "unlink", "rmdir", "rename", "getattr",
                     "setattr", "getxattr", "statfs", "sync", "punch")


def is_operation(name: str) -> bool:
    """
    Whether a counter of llite, job_stats or exports, or a metric of theirs, counts operations.

    >>> [is_operation(name) for name in ("rename", "samedir_rename", "write", "open_us", "new")]
    [True, False, False, False, True]
    """
    return not (name in NOT_OPERATIONS or name.endswith(_AMOUNTS))


def is_call(name: str) -> bool:
    """
    Whether it is shown beside operations: those, and what is counted under another name too.

    >>> [is_call(name) for name in ("open", "open_us", "samedir_rename", "read_rpcs", "write")]
    [True, False, True, False, False]
    """
    return is_counted_again(name) or is_operation(name)


def is_transfer(name: str) -> bool:
    """Whether a counter is of reads and writes: of their bytes, or of their time."""
    return NOT_OPERATIONS.get(name) == TRANSFER


def is_counted_again(name: str) -> bool:
    """Whether a counter counts what another one counts too."""
    return NOT_OPERATIONS.get(name) == AGAIN


def operations_in(rows: Mapping[str, Mapping[str, Any]]) -> int:
    """
    How many operations there are in a record's {name: {"count": n, ...}}.

    >>> operations_in({"rename": {"count": 23}, "samedir_rename": {"count": 23}})
    23
    """
    total = 0
    for name, row in rows.items():
        if is_operation(name):
            total += row["count"]
    return total


# md_stats names of what the client does for itself, without a request to the MDT (2.5 to 2.17).
LOCAL_MD_STATS = frozenset((
    "revalidate_lock", "lock_match", "find_cbdata", "null_inode", "cancel_unused",
    "set_lock_data", "set_open_replay_data", "clear_open_replay_data", "get_lustre_md",
    "free_lustre_md", "init_ea_size", "unpackmd", "get_remote_perm",
))

Metric = namedtuple("Metric", "name source counter takes unit since meaning caveat")
Metric.__doc__ = """
One number of the report.

Attributes:
    name: in tables and in the JSON record.
    source: which file: llite, osc+mdc (added), md_stats, rpc_stats.
    counter: the line of that file.
    takes: the field of that line: samples, sum.
    unit: bytes, calls, RPCs, seconds.
    since: first Lustre release that has the line; "2.5" is the oldest one looked at.
    meaning, caveat: one sentence each.
"""


def _operation(name: str, meaning: str, since: str = "2.5", caveat: str = "") -> Metric:
    return Metric(name, "llite", " or ".join(MADE_OF.get(name, (name,))), "samples", "calls",
                  since, meaning, caveat)


# In the order of the tables; what else counts calls comes after these.
_OPERATIONS = (
    _operation("open", "Files and directories opened.",
               caveat="A call of a program, not a request to a server."),
    _operation("close", "Files and directories closed."),
    _operation("create", "Files created.", caveat=
               "The larger of the two: the kernel counts a creating open under mknod alone."),
    _operation("seek", "lseek() calls."),
    _operation("fsync", "fsync(), fdatasync() and msync() calls.",
               caveat="So is each write() to a file that was opened with O_SYNC."),
    _operation("getattr", "stat(), lstat(), fstat() and statx() calls."),
    _operation("mkdir", "Directories created."),
    _operation("setattr", "chmod(), chown() and utime() calls."),
    _operation("truncate", "truncate() and ftruncate() calls, and opens with O_TRUNC."),
    _operation("fallocate", "fallocate() calls.", "2.14"),
    _operation("unlink", "Files removed."),
    _operation("rmdir", "Directories removed."),
    _operation("rename", "Files and directories renamed."),
    _operation("link", "Hard links made."),
    _operation("symlink", "Symbolic links made."),
    _operation("readdir", "Pieces of directories listed.",
               caveat="Several calls for a large directory."),
    _operation("statfs", "statfs() calls, such as df's."),
    _operation("flock", "flock() and fcntl() lock calls.", caveat="From 2.17.0 on half of what the "
               "kernel counts, which is two a call, but one for a call that failed."),
    _operation("mmap", "mmap() calls."),
    _operation("page_fault", "Pages of mapped files read.", "2.9"),
    _operation("page_mkwrite", "Pages of mapped files made writable.", "2.9"),
    _operation("splice", "splice() and sendfile() calls.", "2.17"),
    _operation("ioctl", "ioctl() calls.", caveat="Mostly of lfs, lctl and mount."),
    _operation("setxattr", "Extended attributes set."),
    _operation("getxattr", "Extended attributes read."),
    _operation("listxattr", "Extended attributes listed."),
    _operation("removexattr", "Extended attributes removed."),
    _operation("inode_permission", "Permission checks by the kernel.",
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
           "What went from the node to the servers.", ""),
    Metric("network.read_rpcs", "osc+mdc", "read_bytes", "samples", "RPCs", "2.5",
           "Bulk read requests to the servers.",
           "From rpc_stats (pages per rpc) where `stats` is not readable."),
    Metric("network.write_rpcs", "osc+mdc", "write_bytes", "samples", "RPCs", "2.5",
           "Bulk write requests to the servers.",
           "From rpc_stats (pages per rpc) where `stats` is not readable."),
    *_OPERATIONS,
)

# What the tables call an operation, and show in this order.
OPERATIONS = tuple(one.name for one in _OPERATIONS)
