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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

BYTES_UNIT, TIME_UNITS, COUNT_UNITS = "bytes", ("usec", "usecs"), ("reqs", "regs", "rpcs")


def read_metrics(name: str, unit: str, samples: int, total: int | None, calls_suffix: str,
                 squares: int | None = None) -> dict[str, int]:
    """
    metric -> integer of one counter's `samples`, `total` (sum) and `squares` (sum of squares);
    the last two None where it has none, or none that can be trusted.

    >>> read_metrics("open", "usecs", 23, 61403, "_calls")
    {'open': 23, 'open_us': 61403}
    >>> read_metrics("read_bytes", "bytes", 23, 11534336, "_rpcs")
    {'read_bytes': 11534336, 'read_rpcs': 23}
    """
    if unit == BYTES_UNIT:
        stem = name[:-len("_bytes")] if name.endswith("_bytes") else name
        values = {stem + calls_suffix: samples}
        return {name: total, **values} if total is not None else values
    if total is None or unit in COUNT_UNITS:
        return {name: samples}
    if unit not in TIME_UNITS:
        return {name: samples, name + "_sum": total}
    values = {name: samples, name + "_us": total}
    return values if squares is None else {**values, name + "_us2": squares}


# Files created: the larger of the two.  open(2) counts what it creates under `mknod`, and mknod(2)
# of a file counts under both (26 and 5 files: mknod 31, create 5, on 2.15.8, 2.16.1, 2.17.57), so
# the sum counts files twice.  Before atomic_open (RHEL 6) open(2) counted under `create` alone.
# Source: ll_create_nd(), ll_mknod(), ll_lookup_it_finish(), lustre/llite/namei.c.
MADE_OF = {"create": ("create", "mknod")}

# What --explain says below every report; docs/reference/counters.md has it too.

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
_AMOUNTS = ("_us", "_us2", "_sum", "_bytes", "_calls", "_rpcs")          # see read_metrics


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
    """Whether it is listed with operations: operations, and calls that are also counted elsewhere.

    >>> [is_call(name) for name in ("open", "open_us", "samedir_rename", "read_rpcs", "write")]
    [True, False, True, False, False]
    """
    return is_counted_again(name) or is_operation(name)


def is_transfer(name: str) -> bool:
    """Whether a counter is of reads and writes: of their bytes, or of their time."""
    return NOT_OPERATIONS.get(name) == TRANSFER


def is_counted_again(name: str) -> bool:
    """Whether another counter counts the same calls."""
    return NOT_OPERATIONS.get(name) == AGAIN


def count_all_operations(rows: Mapping[str, Mapping[str, object]]) -> int:
    """
    Count all operations in a record's {name: {"count": n, ...}}.

    >>> count_all_operations({"rename": {"count": 23}, "samedir_rename": {"count": 23}})
    23
    """
    total = 0
    for name, row in rows.items():
        if is_operation(name):
            count = row["count"]
            total += count if isinstance(count, int) else 0
    return total


# md_stats names of what the client does for itself, without a request to the MDT (2.5 to 2.17).
LOCAL_MD_STATS = frozenset((
    "revalidate_lock", "lock_match", "find_cbdata", "null_inode", "cancel_unused",
    "set_lock_data", "set_open_replay_data", "clear_open_replay_data", "get_lustre_md",
    "free_lustre_md", "init_ea_size", "unpackmd", "get_remote_perm",
))
