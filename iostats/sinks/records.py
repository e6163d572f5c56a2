"""
The I/O of a finished job on file systems other than Lustre, for databases: storage servers count
none of it, so it comes from the job's record.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from iostats.totals.disk_values import OF_NODES
from iostats.totals.kinds import BY_SOURCE, KINDS, measure_bytes
from iostats.totals.other_values import CEPH, NFS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iostats.totals.record import FileSystemRecord, Record

_MOST_JOBS = 10_000                     # whose record may be made again
_OF_BOTH = ("read_bytes", "write_bytes")
_OF_NFS, _OF_CEPH = ("retransmissions", "timeouts"), ("network_reads", "network_writes")


class FileSystemPoint(NamedTuple):
    """One file system of a job."""

    fs: str
    kind: str                   # FileSystemKind.name
    amounts: dict[str, int]     # name -> number: of programs, or of the disks
    # some may be too low, too high
    is_low: bool
    is_high: bool


def list_points(record: Record) -> list[FileSystemPoint]:
    """The points of a record; of local disks where the job's own cgroup has counted."""
    return [point for fs in record.file_systems for point in _list_points(fs)]


def _list_points(fs: FileSystemRecord) -> Iterator[FileSystemPoint]:
    kind, moved = BY_SOURCE.get(fs.kind), [measure_bytes(fs, name) for name in _OF_BOTH]
    if kind is None or kind not in KINDS or fs.kind == OF_NODES:
        return
    numbers = [number for number in moved if number is not None]
    if len(numbers) < len(_OF_BOTH):
        return
    amounts = {name: amount for name, (amount, *_) in zip(_OF_BOTH, numbers)}
    counted = fs.sources.get(fs.kind)
    requests = sum(server.requests for server in fs.metadata.values())
    if fs.kind == NFS:
        amounts["requests"] = requests + (
            fs.network.read_rpcs + fs.network.write_rpcs if fs.network else 0)
        amounts.update({name: counted.totals.get(name, 0) for name in _OF_NFS} if counted else {})
    elif fs.kind == CEPH and counted:
        amounts["requests"] = requests + sum(counted.totals.get(name, 0) for name in _OF_CEPH)
    yield FileSystemPoint(fs.name, kind.name, amounts, any(is_low for _, is_low, _ in numbers),
                          any(is_high for *_, is_high in numbers))


class FinishedJobs:
    """
    Sums over all finished jobs since the server's start, by file system.

    Attributes:
        totals: {(fs, kind): {name: number}}; they only grow.
    """

    def __init__(self) -> None:
        self.totals: dict[tuple[str, str], dict[str, int]] = {}
        self._counted: OrderedDict[tuple[str, str, int | None, str], dict[str, int]] = OrderedDict()

    def add(self, records: Iterable[Record]) -> None:
        """Add records; if a job's record was made again, only its additional amounts."""
        for record in records:
            for point in list_points(record):
                key = (record.batch.cluster if record.batch else "", record.job.id,
                       record.job.attempt, point.fs)
                amounts = {**point.amounts, "too_low": int(point.is_low),
                           "too_high": int(point.is_high)}
                before = self._counted.pop(key, {})
                sums = self.totals.setdefault((point.fs, point.kind), {})
                for name, amount in amounts.items():
                    sums[name] = sums.get(name, 0) + max(0, amount - before.get(name, 0))
                self._counted[key] = {name: max(amount, before.get(name, 0))
                                      for name, amount in amounts.items()}
        while len(self._counted) > _MOST_JOBS:
            self._counted.popitem(last=False)
