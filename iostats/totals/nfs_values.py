"""
The place of what the sources `nfs` and `gpfs` have counted (node/sources/) in a job's record.

The metrics of `nfs` are small letters but for the requests, which have the names of the protocol's
operations: read_bytes, network_read_bytes, metadata_us, ..., GETATTR, READ.
"""

from __future__ import annotations

from iostats.totals.bounds import NUMBERS
from iostats.totals.record import ApplicationIO, NetworkIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iostats.totals.bounds import Bounds

KIND = "nfs"                            # the source, and the kind of its file systems
# Sources of other file systems whose bytes are those of programs, and that count no calls.
GPFS = "gpfs"
BYTES_ALONE = (KIND, GPFS)
_DATA = {"read": ("READ", "READ_PLUS"), "write": ("WRITE",)}
_IN_BYTES = ("read_bytes", "write_bytes", "network_read_bytes", "network_write_bytes")


def select_metadata(values: Mapping[str, int]) -> dict[str, int]:
    """
    Return {operation: count} of the requests that moved no data.

    >>> select_metadata({"read_bytes": 23, "READ": 37, "GETATTR": 41})
    {'GETATTR': 41}
    """
    data = {name for names in _DATA.values() for name in names}
    return {name: count for name, count in values.items()
            if not name.islower() and name not in data}


def select_short(values: Mapping[str, int]) -> dict[str, int]:
    """
    Select the values that are stored for one node: the bytes of programs.

    >>> select_short({"read_bytes": 23, "network_read_bytes": 37})
    {'read_bytes': 23}
    """
    return {metric: values[metric] for metric in ("read_bytes", "write_bytes") if metric in values}


def find_server(file_system: str) -> str:
    """
    The server of a file system.

    >>> find_server("nfs1:/home"), find_server("[fe80::1]:/home")
    ('nfs1', '[fe80::1]')
    """
    return file_system.rpartition(":/")[0] or file_system


def make_application_io(values: Mapping[str, int], is_low: bool) -> ApplicationIO:
    """Return the bytes that programs read and wrote; the kernel does not count their calls."""
    return ApplicationIO(read_bytes=values.get("read_bytes", 0),
                         write_bytes=values.get("write_bytes", 0),
                         read_calls=None, write_calls=None, lower_bound=is_low)


def make_network_io(values: Mapping[str, int], is_low: bool) -> NetworkIO:
    """
    Return the bytes of READ and WRITE requests; with pNFS, those to data servers are not counted.
    """
    return NetworkIO(
        read_bytes=values.get("network_read_bytes", 0),
        write_bytes=values.get("network_write_bytes", 0),
        **{f"{direction}_rpcs": sum(values.get(name, 0) for name in names)
           for direction, names in _DATA.items()},
        lower_bound=is_low or bool(values.get("pnfs_ios")))


def make_bounds(values: Mapping[str, int], is_low: bool) -> Bounds:
    """
    Return {too_low, too_high, write_bytes_max}, as bounds.of_sums.

    With O_DIRECT the kernel counts what a call asks for, before it is known how much of it there
    is: nfs_file_direct_read(), fs/nfs/direct.c.
    """
    return {"too_low": [*NUMBERS] if is_low else [],
            "too_high": [f"{direction}_bytes" for direction in ("read", "write")
                         if values.get(f"direct_{direction}_bytes")],
            "write_bytes_max": None if is_low else values.get("write_bytes", 0)}


def list_notes(values: Mapping[str, int]) -> list[str]:
    """The sentences that explain the marked numbers."""
    notes = []
    if values.get("direct_read_bytes") or values.get("direct_write_bytes"):
        notes.append("with O_DIRECT the NFS client counts what was asked for, also behind the end "
                     "of a file")
    if values.get("pnfs_ios"):
        notes.append("requests to pNFS data servers are not in the requests over the network")
    return notes


def select_others(values: Mapping[str, int]) -> dict[str, int]:
    """Select the metrics without a table of their own: times, and errors."""
    return {name: value for name, value in values.items()
            if name.islower() and name not in _IN_BYTES}
