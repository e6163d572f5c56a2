"""
Numbers of a job that several forms of its report have: which they are, and their marks.

The tables, the screen of --long, markdown and the page write them differently, and leave out other
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.metrics import LOCAL_MD_STATS, count_all_operations
from iostats.totals.bounds import LUSTRE, mark, mark_layer, mark_ratio
from iostats.totals.kinds import BY_SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from iostats.totals.record import (
        ApplicationIO,
        ClientsIO,
        FileSystemRecord,
        MetadataRequests,
        NodesFileSystem,
        OperationRow,
        ServersFileSystem,
    )

APPLICATION, NETWORK = "application", "network"
SERVERS, BY_NODE = "servers", "by node"
# Of another tool: member of the record -> heading.
IMPORTED = {"read_bytes": "Read", "write_bytes": "Written", "ost_operations": "OST requests",
            "mdt_operations": "MDT requests"}
_MOST_ASKED = 4                     # operations that an MDT was asked for


class Transfer(NamedTuple):
    """
    The bytes and calls of one direction at one layer.

    Attributes:
        layer: APPLICATION or NETWORK: by whom.
        direction: "read" or "write".
        total, of_bytes: bytes and their mark; None where not known.
        count, of_calls: calls, or RPCs, and their mark; None where not known.
        mean, of_mean: bytes of one call, and its mark; None where not known, or there was none.
    """

    layer: str
    direction: str
    total: int | None
    of_bytes: str
    count: int | None  # type: ignore[assignment]    # nobody needs tuple.count()
    of_calls: str
    mean: float | None
    of_mean: str


class Side(NamedTuple):
    """A file system's numbers as one side has counted them."""

    label: str                  # of the file system
    counted_by: str             # APPLICATION, NETWORK, SERVERS (under the job's id) or BY_NODE
    # [(metric, number or None, mark)]: bytes, calls that moved them, operations
    numbers: Sequence[tuple[str, int | None, str]] = ()
    bounds: Sequence[Any] = ()  # of BY_NODE only


def get_bytes(io: ApplicationIO | ServersFileSystem | ClientsIO, direction: str) -> int:
    """The bytes that were read or written: `direction` is "read" or "write"."""
    return io.read_bytes if direction == "read" else io.write_bytes


def make_transfers(fs: FileSystemRecord) -> list[Transfer]:
    """
    Make the Transfers of a file system: read and write, by the application and over the network.
    """
    transfers = []
    for layer, calls in ((APPLICATION, "calls"), (NETWORK, "rpcs")):
        numbers = fs[layer]
        if numbers is None and fs.kind != LUSTRE:
            continue                    # it counts none, as GPFS over the network
        for direction in ("read", "write"):
            total, count = (numbers and numbers[f"{direction}_{unit}"] for unit in ("bytes", calls))
            of_bytes = of_calls = mark_layer(numbers)
            if layer == APPLICATION:
                of_bytes, of_calls = mark(fs, f"{direction}_bytes"), mark(fs, f"{direction}_calls")
            mean = total / count if count and total is not None else None
            transfers.append(Transfer(layer, direction, total, of_bytes, count, of_calls, mean,
                                      mark_ratio(of_bytes, of_calls)))
    return transfers


def format_request_size(pages: str) -> str:
    """
    Format the size of a request of at most this many pages of 4 KiB; the kernel counts pages.

    >>> format_request_size("1"), format_request_size("256"), format_request_size("384")
    ('4 KiB', '1 MiB', '1.5 MiB')
    >>> format_request_size("?")
    '? pages'
    """
    if not (pages.isascii() and pages.isdigit() and len(pages) < 10):
        return f"{pages[:9]} pages"
    kib = 4 * int(pages)
    return f"{kib} KiB" if kib < 1024 else f"{kib / 1024:,g} MiB"


def is_nothing(transfer: Transfer) -> bool:
    """Whether certainly nothing was moved."""
    return transfer.total is not None and not (
        transfer.total or transfer.count or transfer.of_bytes or transfer.of_calls)


def add_read_and_write(fs: FileSystemRecord) -> dict[str, OperationRow]:
    """Operations with their time, and read and write before them where the release times them."""
    return {**(fs.calls or {}), **(fs.operations or {})}


def name_metadata_server(fs: FileSystemRecord) -> str:
    """Return the name for the servers of metadata requests."""
    return BY_SOURCE[fs.kind].server if fs.kind in BY_SOURCE else "server"


def find_most_frequent(metadata: MetadataRequests) -> list[tuple[str, int]]:
    """[(operation, count)] that an MDT was asked for most; without what stays on the node."""
    counts = {name: count for name, count in metadata.operations.items()
              if count and name not in LOCAL_MD_STATS}
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_ASKED]


def make_sides(shown: Sequence[FileSystemRecord], harvested: Sequence[ServersFileSystem],
               by_node: Sequence[NodesFileSystem]) -> Iterator[Side]:
    """
    Make the Sides of each file system that storage servers reported: the nodes' counts, then the
    servers' counts under the job's id and by its nodes.
    """
    here, there = {fs.name: fs for fs in shown}, {fs.name: fs for fs in harvested}
    nodes = {fs.name: fs for fs in by_node}
    for name in dict.fromkeys([*there, *nodes]):
        label = there[name].label if name in there else nodes[name].label
        if name in here:
            fs = here[name]
            yield Side(label, APPLICATION, [
                (metric, value, mark(fs, metric))
                for metric, value in _add_operations(fs.application, "calls", fs.operations)])
            yield Side(label, NETWORK, [
                (metric, value, mark_layer(fs.network))
                for metric, value in _add_operations(fs.network, "rpcs", None)])
        if name in there:
            servers = there[name]
            yield Side(label, SERVERS, [
                (metric, value, mark_layer(servers))
                for metric, value in _add_operations(servers, "rpcs", servers.operations)])
        if name in nodes:
            yield Side(label, BY_NODE, bounds=list_bounds(nodes[name]))


def _add_operations(numbers: dict[str, Any] | None, calls: str,
                    operations: dict[str, Any] | None) -> list[tuple[str, int | None]]:
    return [*list_moved(numbers, calls),
            ("operations", None if operations is None else count_all_operations(operations))]


def list_moved(numbers: Mapping[str, object] | None, calls: str) -> list[tuple[str, int | None]]:
    """Return [(name, number or None)] of the bytes moved, and the calls or RPCs for them."""
    names = ("read_bytes", "write_bytes", f"read_{calls}", f"write_{calls}")
    values = ((name, None if numbers is None else numbers[name]) for name in names)
    return [(name, value if isinstance(value, int) else None) for name, value in values]


def list_bounds(fs: NodesFileSystem) -> list[tuple[str, int, int | None]]:
    """Return [(metric, at least, at most or None)] of the I/O of a job's nodes on a file system."""
    low, high = fs.low, fs.high
    return [
        *((metric, low[metric], None if high is None else high[metric])
          for metric in ("read_bytes", "write_bytes", "reads", "writes")),
        ("operations", _count_operations(low), None if high is None else _count_operations(high))]


def _count_operations(io: ClientsIO) -> int:
    """All requests but reads and writes."""
    return io.ost_operations + io.mdt_operations
