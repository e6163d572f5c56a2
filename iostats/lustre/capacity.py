"""
The space and inodes of an OST or MDT, as its backing file system counts them.

    osd-ldiskfs/scratch-OST0003/kbytestotal, kbytesfree, kbytesavail     1 KiB each
    osd-ldiskfs/scratch-OST0003/filestotal, filesfree                    inodes

osd-zfs and osd-wbcfs have the same files: up to 2.12 in /proc/fs/lustre, later in /sys/fs/lustre.
Reading one calls statfs() of the backing file system and sends no request to other machines.
`kbytesavail` is `kbytesfree` without the blocks that are reserved.  ZFS makes inodes when they are
needed, so there `filesfree` is an estimate that depends on the free space.

The blocks that an OST has granted to clients, and that these have not yet written, are free here.

Source: lprocfs_dt_kbytesfree_seq_show() and its neighbours, lustre/obdclass/dt_object.c, 2.10.8 and
2.12.9; kbytesfree_show(), the same file, 2.15.8 and 2.17.0; which files there are:
osd-ldiskfs/osd_lproc.c, osd-zfs/osd_lproc.c.  An OST from which an MDS takes no new objects:
osp_pre_update_msfs(), lustre/osp/osp_precreate.c, 2.15.8.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple

OSD_KINDS = ("osd-ldiskfs", "osd-zfs", "osd-wbcfs")
# In the order of Capacity; the factor from the file's unit.
FILES = {"kbytestotal": 1024, "kbytesfree": 1024, "kbytesavail": 1024, "filestotal": 1,
         "filesfree": 1}
BYTES, INODES = RESOURCES = ("space", "inodes")

# The defaults of an MDS: it takes objects from an OST again when twice as much is available.
RESERVED_SHARE = 1000               # osp.*.reserved_mb_low: a thousandth of the space
RESERVED_INODES = 32


class Capacity(NamedTuple):
    """The capacity of one target."""

    bytes_total: int
    bytes_free: int         # not used
    bytes_available: int    # the part of it that is not reserved
    inodes_total: int
    inodes_free: int


def get_available(capacity: Capacity, resource: str) -> int:
    """Return the available part of BYTES or INODES."""
    return int(capacity.bytes_available if resource == BYTES else capacity.inodes_free)


def compute_used(capacity: Capacity, resource: str) -> int:
    """
    Return the used part of BYTES or INODES; never below 0, as the files are read one after the
    other.
    """
    total, free = ((capacity.bytes_total, capacity.bytes_free) if resource == BYTES else
                   (capacity.inodes_total, capacity.inodes_free))
    return int(max(0, total - free))


def compute_used_percent(capacity: Capacity, resource: str) -> float:
    """
    The share of a resource that is used, of what is used and available, as in `df` and `lfs df`.

    >>> compute_used_percent(Capacity(1000, 270, 230, 100, 59), BYTES)
    76.04166666666667
    >>> compute_used_percent(Capacity(1000, 270, 230, 100, 59), INODES)
    41.0
    """
    in_use = compute_used(capacity, resource)
    total = in_use + get_available(capacity, resource)
    return 100.0 * in_use / total if total else 0.0


def is_full(capacity: Capacity, resource: str) -> bool:
    """
    Whether less is available than an MDS leaves on an OST by default: it makes no new file there.

    >>> [is_full(Capacity(47_000, 90, left, 100, 59), BYTES) for left in (46, 47)]
    [True, False]
    """
    if resource == INODES:
        return bool(0 < capacity.inodes_total and capacity.inodes_free < RESERVED_INODES)
    return bool(capacity.bytes_available * RESERVED_SHARE < capacity.bytes_total)
