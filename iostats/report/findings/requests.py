"""
Rules about requests to the servers of NFS and CephFS, whose clients count no calls of programs.

Requests overlap, and programs do not wait for all of them, so a time is an upper bound of what they
cost: these findings are never certain.  CephFS times none, so there many of them a second count.
Where other jobs were on the nodes there are no findings, as the counters are of all jobs on a node.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_bytes, format_percent
from iostats.report.findings.interval import ZERO, Interval, add_up, divide
from iostats.report.findings.known_io import is_shared
from iostats.report.findings.rule import (
    Held,
    count_text,
    format_rate,
    mark_high,
    mark_low,
)
from iostats.report.findings.time_share import count_workers
from iostats.report.job_numbers import get_bytes
from iostats.totals.bounds import list_too_low_numbers
from iostats.totals.other_values import CEPH, NFS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Optional

    from iostats.report.findings.rule import Limits
    from iostats.totals.record import FileSystemRecord, Record

_RESENT_SHARE, _LEAST_RESENT = 0.01, 100
_OVERLAP = 4                # times from_percent: requests overlap
_OF_STORM = 5               # as of an MDT: a node, by all nodes
_SMALL_REQUEST = 2          # times small_bytes, as of Lustre's requests
_PER_SECOND_OF_NODE = 100   # where none is timed, as of Lustre's
_UNTIMED_WEIGHT = 0.3       # of what nothing times
_KINDS = ("read", "write", "metadata")
_OF_SMALL = {
    NFS: ("Small files, O_SYNC, fsync(), reads all over a file, or a small rsize or wsize.",
          "Read and write 1 MiB or more; pack small files into one."),
    CEPH: ("Small files, O_SYNC, O_DIRECT, fsync(), or files that several nodes write.",
           "Read and write 4 MiB or more, the size of an object; pack small files into one.")}


class KnownRequests(NamedTuple):
    """The known numbers of requests of one file system."""

    name: str                   # as it was mounted
    kind: str                   # NFS or CEPH
    elapsed_s: float            # how long the job took
    nodes: int
    node_s: float               # the time of all nodes together
    per_node: float             # tasks or CPUs of a node, on average; 1 where neither is known
    # read_bytes and write_bytes, read_rpcs and write_rpcs over the network; metadata requests;
    # retransmissions, timeouts
    numbers: dict[str, Interval]
    seconds_of: dict[str, Interval]     # read, write, metadata; empty where none is timed
    peak: float                 # metadata requests a second of the node that sent most
    mostly: str                 # the most frequent metadata requests: "GETATTR"; "" if not known
    on_lustre: Interval | None  # bytes that programs moved on Lustre; None without one

    def takes_time(self, limits: Limits, *kinds: str) -> bool:
        """
        Whether these requests may have taken enough time, if one thread waited for them all; where
        none is timed, whether there were many a second.
        """
        if not self.seconds_of:
            count = add_up(self.numbers["metadata" if kind == "metadata" else f"{kind}_rpcs"]
                           for kind in kinds)
            return bool(count.low >= _PER_SECOND_OF_NODE * self.nodes * self.elapsed_s)
        return bool(100 * self.share(*kinds) >= _OVERLAP * limits.findings.from_percent)

    def seconds(self, *kinds: str) -> Interval:
        """Seconds of these kinds of requests: read, write, metadata."""
        return add_up(self.seconds_of.get(kind, ZERO) for kind in kinds)

    def share(self, *kinds: str) -> float:
        """
        Return the time of these requests as a share of the nodes' time; above 1 if requests
        overlapped.
        """
        return self.seconds(*kinds).low / self.node_s

    def hold(self, number: str, kinds: tuple[str, ...], evidence: dict[str, float],
             meaning: str = "", advice: str = "") -> Held:
        """Make the Held (the match of a rule) for requests of these kinds."""
        if not self.seconds_of:
            return Held(_UNTIMED_WEIGHT, number, {**evidence, "seconds": None}, (), meaning, advice,
                        is_certain=False)
        highest = self.seconds(*kinds).high
        share = "" if highest in (0, inf) else (
            f", {highest / self.node_s:.1f} times the nodes' time (requests overlap)"
            if highest > self.node_s else
            f", at most {format_percent(highest / self.node_s)} of the nodes' time")
        return Held(min(1.0, 0.5 * self.share(*kinds) / self.per_node), f"{number}{share}",
                    {**evidence, "seconds": self.seconds(*kinds).low}, (), meaning, advice,
                    is_certain=False,
                    cost=None if highest == inf else min(1.0, highest / self.elapsed_s))


def list_requests(record: Record, limits: Limits) -> Iterator[KnownRequests]:
    """
    Yield the KnownRequests of each file system, for a job that had its nodes alone and ran long
    enough.
    """
    coverage, elapsed_s = record.coverage, record.job.elapsed_s
    if coverage.shared or is_shared(record) or not coverage.node_seconds or (
            not elapsed_s or elapsed_s < limits.findings.from_seconds):
        return
    lustre = [_sum_moved(fs) for fs in record.lustre]
    for fs in record.file_systems:
        counted = fs.sources.get(fs.kind)
        if fs.kind not in (NFS, CEPH) or counted is None:
            continue
        is_low = fs.low or fs.incomplete or (fs.network is not None and fs.network.lower_bound)
        is_high = set(fs.too_high) if fs.kind == CEPH else ()
        values: dict[str, float] = {
            **_read_data(fs), "metadata": sum(mdt.requests for mdt in fs.metadata.values()),
            **{name: counted.totals.get(name, 0) for name in ("retransmissions", "timeouts")}}
        operations = {name: count for mdt in fs.metadata.values()
                      for name, count in mdt.operations.items() if fs.kind == NFS}
        yield KnownRequests(
            fs.name, fs.kind, elapsed_s, coverage.reported, coverage.node_seconds,
            count_workers(record)[1],
            {name: Interval(0 if name in is_high else value, inf if is_low else value)
             for name, value in values.items()},
            {kind: Interval(seconds, inf if is_low else seconds) for kind, seconds in (
                (kind, counted.totals.get(f"{kind}_us", 0) / 1e6) for kind in _KINDS)}
            if fs.kind == NFS else {},
            max((mdt.peak.per_second for mdt in fs.metadata.values() if mdt.peak), default=0.0),
            max(sorted(operations), key=operations.__getitem__, default=""),
            add_up(lustre) if lustre else None)


def _read_data(fs: FileSystemRecord) -> dict[str, float]:
    """Return the bytes and requests of the data, as of a NetworkIO."""
    if fs.network is not None:
        return {name: value or 0 for name, value in fs.network.items() if name != "lower_bound"}
    totals = fs.sources[fs.kind].totals
    return {f"{direction}_{unit}": totals.get(f"network_{direction}{ending}", 0)
            for direction in ("read", "write") for unit, ending in (
                ("bytes", "_bytes"), ("rpcs", "s"))}


def resent_requests(io: KnownRequests, limits: Limits) -> Optional[Held]:
    """Requests that were sent again, or not answered until the mount's time limit."""
    requests = add_up(io.numbers[name] for name in ("read_rpcs", "write_rpcs", "metadata"))
    again, late = (io.numbers[name] for name in ("retransmissions", "timeouts"))
    share = divide(again, requests).low
    if not (late.low or (again.low >= _LEAST_RESENT and share >= _RESENT_SHARE)):
        return None
    text = f"{count_text(again)} of {count_text(requests)} requests were sent again"
    if late.low:
        text += f", and the server did not respond in time {count_text(late)} times"
    return Held(0.3, text, {"retransmissions": again.low, "timeouts": late.low,
                            "requests": requests.low})


def small_requests(io: KnownRequests, limits: Limits) -> Optional[Held]:
    """Many small READ or WRITE requests that may have taken time."""
    of_mount = []
    for call in ("read", "write"):
        rpcs, moved = io.numbers[f"{call}_rpcs"], io.numbers[f"{call}_bytes"]
        mean = divide(moved, rpcs)
        if (rpcs.low >= limits.findings.from_operations and io.takes_time(limits, call)
                and mean.high <= _SMALL_REQUEST * limits.findings.small_bytes):
            name = call.upper() if io.kind == NFS else call
            of_mount.append(io.hold(
                f"{count_text(rpcs)} {name} requests of {mark_high(mean)}"
                f"{format_bytes(round(mean.high), limits.units)} on average", (call,),
                {"requests": rpcs.low, "mean_bytes": round(mean.high, 1)}, *_OF_SMALL[io.kind]))
    return max(of_mount, key=lambda item: item.weight, default=None)


def metadata_requests(io: KnownRequests, limits: Limits) -> Optional[Held]:
    """Many requests for metadata a second, or some that may have taken time."""
    requests, storm = io.numbers["metadata"], limits.findings.metadata_storm_per_second
    rate = requests.low / io.elapsed_s
    is_storm = rate >= storm or io.peak >= storm / _OF_STORM
    if requests.low < limits.findings.from_operations or not (
            is_storm or (io.seconds_of and io.takes_time(limits, "metadata"))):
        return None
    mostly = f", {io.mostly} mostly" if io.mostly else ""
    held = io.hold(
        f"{count_text(requests)} requests for metadata{mostly}, "
        f"{mark_low(requests)}{format_rate(rate)} a second", ("metadata",),
        {"requests": requests.low, "per_second": round(rate, 3)})
    return held._replace(weight=max(0.3, held.weight)) if is_storm else held


def work_on_nfs(io: KnownRequests, limits: Limits) -> Optional[Held]:
    """Find more network traffic with NFS than with Lustre."""
    moved = add_up(io.numbers[f"{direction}_bytes"] for direction in ("read", "write"))
    if io.kind != NFS or io.on_lustre is None or not (
            moved.low >= limits.findings.large_bytes and moved.low > io.on_lustre.high
            and io.takes_time(limits, "read", "write")):
        return None
    return io.hold(
        f"{mark_low(moved)}{format_bytes(moved.low, limits.units)} were read and "
        f"written over the network, on Lustre {format_bytes(io.on_lustre.high, limits.units)}",
        ("read", "write"), {"bytes": moved.low, "lustre_bytes": io.on_lustre.high})


def _sum_moved(fs: FileSystemRecord) -> Interval:
    """Bytes that programs read and wrote on Lustre; unknown where no node could count them."""
    if fs.application is None:
        return Interval(0)
    low = list_too_low_numbers(fs)
    return add_up(Interval(0, inf if f"{direction}_bytes" in low or fs.incomplete else
                           get_bytes(fs.application, direction))
                  for direction in ("read", "write"))
