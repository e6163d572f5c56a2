"""
The kinds of file systems beside Lustre, and the bytes that a job moved there.

One row of KINDS is all that lists, sinks, the store's views and the pages need of a kind; the
columns of the store have a migration each (store/migrations).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iostats.totals import bounds
from iostats.totals.disk_values import LOCAL_DISKS, OF_JOB, OF_NODES, measure_disks
from iostats.totals.other_values import CEPH, GPFS, NFS

if TYPE_CHECKING:
    from iostats.totals.record import FileSystemRecord


class FileSystemKind(NamedTuple):
    """A kind of file systems."""

    name: str               # for --fstype, columns and labels: "nfs"
    title: str              # "NFS"
    heading: str            # the beginning of its columns: "NFSReadBytes"
    counted: str            # who has counted the bytes: "by programs"
    sources: tuple[str, ...]        # kinds of file systems in a record: FileSystemRecord.kind
    server: str = ""        # what answers its requests for metadata
    read_note: str = ""     # what to know of the bytes read, for the help of lists


LUSTRE_KIND = FileSystemKind("lustre", "Lustre", "", "by programs", (bounds.LUSTRE,), "MDT")
KINDS = (
    FileSystemKind("nfs", "NFS", "NFS", "by programs", (NFS,), "NFS server"),
    FileSystemKind("disk", "local disks", "Disk", "at the disks", (OF_JOB, OF_NODES), "",
                   "; <=: of whole nodes"),
    FileSystemKind("gpfs", "GPFS", "GPFS", "by programs", (GPFS,)),
    FileSystemKind("cephfs", "CephFS", "CephFS", "in requests", (CEPH,), "MDS",
                   "; <=: less in holes"),
)
BY_SOURCE = {source: kind for kind in (LUSTRE_KIND, *KINDS) for source in kind.sources}


def measure_bytes(fs: FileSystemRecord, metric: str) -> tuple[int, bool, bool] | None:
    """
    Return (bytes, whether they may be too low, too high) of `metric`, read_bytes or write_bytes:
    those of programs, or what stands for them; None if unknown.
    """
    if fs.name == LOCAL_DISKS:
        return measure_disks(fs, metric)
    amount = None
    if fs.application is not None:
        amount = fs.application[metric]
    elif fs.kind == CEPH and CEPH in fs.sources:
        amount = fs.sources[CEPH].totals.get(f"network_{metric}", 0)
    return None if amount is None else (
        amount, metric in bounds.list_too_low_numbers(fs), metric in fs.too_high)
