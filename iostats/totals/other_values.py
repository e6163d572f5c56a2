"""
The place of what the sources `nfs`, `gpfs` and `ceph` have counted (node/sources/) in a job's
record.

The metrics of `nfs` are small letters but for the requests, which have the names of the protocol's
operations: read_bytes, network_read_bytes, metadata_us, ..., GETATTR, READ.  `gpfs` has bytes and
calls of programs, which are counted in 32 bits, and `ceph` requests alone.
"""

from __future__ import annotations

from iostats.totals.bounds import NUMBERS
from iostats.totals.record import ApplicationIO, NetworkIO, OperationRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.totals.bounds import Bounds

NFS, GPFS, CEPH = "nfs", "gpfs", "ceph"     # sources, and the kinds of their file systems
# Those whose bytes are of programs, and all.
OF_PROGRAMS, SOURCES = (NFS, GPFS), (NFS, GPFS, CEPH)
CALLS = ("read_calls", "write_calls", "open", "close", "readdir")       # of GPFS
_DATA = {"read": ("READ", "READ_PLUS"), "write": ("WRITE",)}
_MOVED = ("read_bytes", "write_bytes")
_PLACED = frozenset((*_MOVED, "network_read_bytes", "network_write_bytes", *CALLS))
_METADATA = "metadata_requests"         # of CephFS


def select_metadata(values: Mapping[str, int]) -> dict[str, int]:
    """
    Return {operation: count} of the requests that moved no data.

    >>> select_metadata({"read_bytes": 23, "READ": 37, "GETATTR": 41})
    {'GETATTR': 41}
    """
    data = {name for names in _DATA.values() for name in names}
    return {name: count for name, count in values.items()
            if not name.islower() and name not in data}


def find_requests(source: str, file_system: str, values: Mapping[str, int]
                  ) -> tuple[str, dict[str, int]] | None:
    """
    Return (server, {operation: count}) of a source's metadata requests; None where it counts none.

    >>> find_requests("ceph", "cephfs:28f7427e", {"metadata_requests": 23})
    ('MDS', {'requests': 23})
    """
    if source == NFS:
        return find_server(file_system), select_metadata(values)
    if source == CEPH and _METADATA in values:
        return "MDS", {"requests": values[_METADATA]}
    return None


def select_short(source: str, values: Mapping[str, int]) -> dict[str, int]:
    """
    Select the values that are stored for one node: bytes, and calls of programs.

    >>> select_short("nfs", {"read_bytes": 23, "network_read_bytes": 37})
    {'read_bytes': 23}
    >>> select_short("ceph", {"network_read_bytes": 37})
    {'read_bytes': 37}
    """
    if source == CEPH:
        return {metric: values[f"network_{metric}"] for metric in _MOVED
                if f"network_{metric}" in values}
    return {metric: values[metric] for metric in (*_MOVED, *CALLS) if metric in values}


def find_server(file_system: str) -> str:
    """
    The server of a file system.

    >>> find_server("nfs1:/home"), find_server("[fe80::1]:/home")
    ('nfs1', '[fe80::1]')
    """
    return file_system.rpartition(":/")[0] or file_system


def make_application_io(source: str, values: Mapping[str, int],
                        is_low: bool) -> ApplicationIO | None:
    """Return the bytes that programs read and wrote, and their calls, where these are counted."""
    if source not in OF_PROGRAMS:
        return None
    calls = {name: values.get(name, 0) if source == GPFS else None
             for name in ("read_calls", "write_calls")}
    return ApplicationIO(read_bytes=values.get("read_bytes", 0),
                         write_bytes=values.get("write_bytes", 0), **calls, lower_bound=is_low)


def make_operations(source: str, values: Mapping[str, int]) -> dict[str, OperationRow] | None:
    """Return the calls of programs other than read and write; None where these are not counted."""
    return {name: OperationRow(count=values.get(name, 0), seconds=None, stddev_s=None)
            for name in CALLS[2:]} if source == GPFS else None


def make_network_io(source: str, values: Mapping[str, int], is_low: bool) -> NetworkIO | None:
    """
    Return the bytes of READ and WRITE requests; with pNFS, those to data servers are not counted.
    """
    if source != NFS:
        return None
    return NetworkIO(
        read_bytes=values.get("network_read_bytes", 0),
        write_bytes=values.get("network_write_bytes", 0),
        **{f"{direction}_rpcs": sum(values.get(name, 0) for name in names)
           for direction, names in _DATA.items()},
        lower_bound=is_low or bool(values.get("pnfs_ios")))


def make_bounds(source: str, values: Mapping[str, int], is_low: bool) -> Bounds:
    """
    Return {too_low, too_high, write_bytes_max}, as bounds.of_sums.

    With O_DIRECT, NFS counts what a call asks for, before it is known how much of it there is:
    nfs_file_direct_read(), fs/nfs/direct.c; and CephFS what a request asks for.  GPFS' calls of 32
    bits may have restarted any number of times.
    """
    low = NUMBERS if is_low else (
        [name for name in NUMBERS if name not in _MOVED] if source == GPFS and any(values.values())
        else [])
    return {"too_low": [*low],
            "too_high": [metric for metric in _MOVED if values.get(f"direct_{metric}")]
            if source != CEPH else ["read_bytes"] if values.get("network_read_bytes") else [],
            "write_bytes_max": None if is_low or source == CEPH else values.get("write_bytes", 0)}


def list_notes(values: Mapping[str, int]) -> list[str]:
    """The sentences that explain the marked numbers."""
    notes = []
    if values.get("direct_read_bytes") or values.get("direct_write_bytes"):
        notes.append("with O_DIRECT the NFS client counts what was asked for, also behind the end "
                     "of a file")
    if values.get("pnfs_ios"):
        notes.append("requests to pNFS data servers are not in the requests over the network")
    return notes


def select_others(source: str, values: Mapping[str, int]) -> dict[str, int]:
    """Select the metrics without a table of their own: times, and errors; of CephFS all."""
    placed = {_METADATA} if source == CEPH else _PLACED
    return {name: value for name, value in values.items()
            if name.islower() and name not in placed}
