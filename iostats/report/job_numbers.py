"""
Numbers of a job that several forms of its report have: which they are, and their marks.

The tables, the screen of --long, markdown and the page write them differently, and leave out other
rows.
"""

from __future__ import annotations

from collections import namedtuple

from iostats.lustre.metrics import LOCAL_MD_STATS, operations_in
from iostats.totals.bounds import mark, mark_of_layer, mark_of_ratio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from iostats.totals.record import (
        ClientsIO,
        FileSystemRecord,
        MetadataRequests,
        NodesFileSystem,
        ServersFileSystem,
    )

APPLICATION, NETWORK = "application", "network"
SERVERS, BY_NODE = "servers", "by node"
_MOST_ASKED = 4                     # operations that an MDT was asked for

Transfer = namedtuple("Transfer", "layer way total of_bytes count of_calls mean of_mean")
Transfer.__doc__ = """
What was read or written.

Attributes:
    layer: APPLICATION or NETWORK: by whom.
    way: "read" or "write".
    total, of_bytes: bytes and their mark; None where not known.
    count, of_calls: calls, or RPCs, and their mark; None where not known.
    mean, of_mean: bytes of one call, and its mark; None where not known, or there was none.
"""

Side = namedtuple("Side", "label counted_by numbers bounds", defaults=((), ()))
Side.__doc__ = """
A file system's numbers as one side has counted them.

Attributes:
    label: of the file system.
    counted_by: APPLICATION, NETWORK, SERVERS (under the job's id) or BY_NODE.
    numbers: [(metric, number or None, mark)]: bytes, calls that moved them, operations.
    bounds: of BY_NODE alone, as bounds_of gives them.
"""


def transfers_of(fs: FileSystemRecord) -> list[Transfer]:
    """What was read and written, by the application and over the network: four of them."""
    found = []
    for layer, calls in ((APPLICATION, "calls"), (NETWORK, "rpcs")):
        numbers = fs[layer]
        for way in ("read", "write"):
            total, count = (numbers and numbers[f"{way}_{what}"] for what in ("bytes", calls))
            of_bytes = of_calls = mark_of_layer(numbers)
            if layer == APPLICATION:
                of_bytes, of_calls = mark(fs, f"{way}_bytes"), mark(fs, f"{way}_calls")
            mean = total / count if count and total is not None else None
            found.append(Transfer(layer, way, total, of_bytes, count, of_calls, mean,
                                  mark_of_ratio(of_bytes, of_calls)))
    return found


def request_size_text(pages: str) -> str:
    """
    How much a request of up to so many pages of 4 KiB carries; the kernel counts pages.

    >>> request_size_text("1"), request_size_text("256"), request_size_text("384")
    ('4 KiB', '1 MiB', '1.5 MiB')
    >>> request_size_text("?")
    '? pages'
    """
    if not (pages.isascii() and pages.isdigit() and len(pages) < 10):
        return f"{pages[:9]} pages"
    kib = 4 * int(pages)
    return f"{kib} KiB" if kib < 1024 else f"{kib / 1024:,g} MiB"


def is_nothing(one: Transfer) -> bool:
    """Whether nothing was moved, for certain."""
    return one.total is not None and not (
        one.total or one.count or one.of_bytes or one.of_calls)


def with_calls(fs: FileSystemRecord) -> dict[str, Any]:
    """Operations with their time, and read and write before them where the release times them."""
    return {**(fs.calls or {}), **(fs.operations or {})}


def most_asked(metadata: MetadataRequests) -> list[tuple[str, int]]:
    """[(operation, count)] that an MDT was asked for most; without what stays on the node."""
    asked = {name: count for name, count in metadata.operations.items()
             if count and name not in LOCAL_MD_STATS}
    return sorted(asked.items(), key=lambda item: (-item[1], item[0]))[:_MOST_ASKED]


def sides_of(shown: Sequence[FileSystemRecord], harvested: Sequence[ServersFileSystem],
             by_node: Sequence[NodesFileSystem]) -> Iterator[Side]:
    """
    What the storage servers counted under the job's id, and of its nodes, below what these counted;
    of the file systems of which a storage server has told.
    """
    here, there = {fs.name: fs for fs in shown}, {fs.name: fs for fs in harvested}
    nodes = {fs.name: fs for fs in by_node}
    for name in dict.fromkeys([*there, *nodes]):
        label = there[name].label if name in there else nodes[name].label
        if name in here:
            fs = here[name]
            yield Side(label, APPLICATION, [
                (metric, value, mark(fs, metric))
                for metric, value in _with_operations(fs.application, "calls", fs.operations)])
            yield Side(label, NETWORK, [
                (metric, value, mark_of_layer(fs.network))
                for metric, value in _with_operations(fs.network, "rpcs", None)])
        if name in there:
            servers = there[name]
            yield Side(label, SERVERS, [
                (metric, value, mark_of_layer(servers))
                for metric, value in _with_operations(servers, "rpcs", servers.operations)])
        if name in nodes:
            yield Side(label, BY_NODE, bounds=bounds_of(nodes[name]))


def _with_operations(numbers: dict[str, Any] | None, calls: str,
                     operations: dict[str, Any] | None) -> list[tuple[str, int | None]]:
    return [*moved(numbers, calls),
            ("operations", None if operations is None else operations_in(operations))]


def moved(numbers: dict[str, Any] | None, calls: str) -> list[tuple[str, int | None]]:
    """[(name, number or None)] of what was moved, and by how many calls or RPCs."""
    names = ("read_bytes", "write_bytes", f"read_{calls}", f"write_{calls}")
    return [(name, None if numbers is None else numbers[name]) for name in names]


def bounds_of(fs: NodesFileSystem) -> list[tuple[str, int, int | None]]:
    """[(metric, at least, at most or None)] of what a job's nodes did on a file system."""
    low, high = fs.low, fs.high
    return [
        *((metric, low[metric], None if high is None else high[metric])
          for metric in ("read_bytes", "write_bytes", "reads", "writes")),
        ("operations", _operations_of(low), None if high is None else _operations_of(high))]


def _operations_of(io: ClientsIO) -> int:
    """All requests but reads and writes."""
    return io.ost_operations + io.mdt_operations
