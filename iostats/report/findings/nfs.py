"""
Rules about NFS mounts, which all use the requests to the server: the kernel counts no calls of
programs there, and times requests, not programs that wait.

Requests overlap, and programs do not wait for all of them, so a time is an upper bound of what they
cost: these findings are never certain.  Where other jobs were on the nodes there are none, as the
counters are of all jobs on a node.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.base.units import format_bytes, format_percent
from iostats.report.findings.interval import Interval, add_up, divide
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
from iostats.totals.nfs_values import KIND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iostats.report.findings.rule import Limits
    from iostats.totals.record import FileSystemRecord, Record

_RESENT_SHARE, _LEAST_RESENT = 0.01, 100
_OVERLAP = 4                # times from_percent: requests overlap
_OF_STORM = 5               # as of an MDT: a node, by all nodes
_SMALL_REQUEST = 2          # times small_bytes, as of Lustre's requests


class KnownNfs(NamedTuple):
    """The known numbers of one NFS file system."""

    name: str                   # as it was mounted
    elapsed_s: float            # how long the job took
    node_s: float               # the time of all nodes together
    per_node: float             # tasks or CPUs of a node, on average; 1 where neither is known
    # read_bytes and write_bytes, read_rpcs and write_rpcs over the network; metadata requests;
    # retransmissions, timeouts; read_s, write_s and metadata_s, of all requests
    numbers: dict[str, Interval]
    peak: float                 # metadata requests a second of the node that sent most
    mostly: str                 # the most frequent metadata requests: "GETATTR"

    def takes_time(self, limits: Limits, *kinds: str) -> bool:
        """Whether these requests may have taken enough time, if one thread waited for them all."""
        return bool(100 * self.share(*kinds) >= _OVERLAP * limits.findings.from_percent)

    def seconds(self, *kinds: str) -> Interval:
        """Seconds of these kinds of requests: read, write, metadata."""
        return add_up(self.numbers[f"{kind}_s"] for kind in kinds)

    def share(self, *kinds: str) -> float:
        """
        Return the time of these requests as a share of the nodes' time; above 1 if requests
        overlapped.
        """
        return self.seconds(*kinds).low / self.node_s

    def hold(self, number: str, kinds: tuple[str, ...], evidence: dict[str, float],
             covers: tuple[str, ...] = ()) -> Held:
        """Make the Held (the match of a rule) for requests of these kinds."""
        highest = self.seconds(*kinds).high
        share = "" if highest in (0, inf) else (
            f", {highest / self.node_s:.1f} times the nodes' time (requests overlap)"
            if highest > self.node_s else
            f", at most {format_percent(highest / self.node_s)} of the nodes' time")
        return Held(min(1.0, 0.5 * self.share(*kinds) / self.per_node), f"{number}{share}",
                    {**evidence, "seconds": self.seconds(*kinds).low}, covers,
                    file_system=self.name, is_certain=False,
                    cost=None if highest == inf else min(1.0, highest / self.elapsed_s))


def _list_mounts(record: Record, limits: Limits) -> Iterator[KnownNfs]:
    """Yield the KnownNfs of each mount, for a job that had its nodes alone and ran long enough."""
    coverage, elapsed_s = record.coverage, record.job.elapsed_s
    if coverage.shared or is_shared(record) or not coverage.node_seconds or (
            not elapsed_s or elapsed_s < limits.findings.from_seconds):
        return
    for fs in record.file_systems:
        counted = fs.sources.get(KIND)
        if fs.kind != KIND or counted is None or fs.network is None:
            continue
        is_low = fs.lower_bound or fs.network.lower_bound
        numbers = {name: Interval(value or 0, inf if is_low else value or 0)
                   for name, value in fs.network.items() if name != "lower_bound"}
        requests = sum(mdt.requests for mdt in fs.metadata.values())
        for name, value in (("metadata", requests), *(
                (name, counted.totals.get(name, 0)) for name in ("retransmissions", "timeouts")), *(
                (f"{kind}_s", counted.totals.get(f"{kind}_us", 0) / 1e6)
                for kind in ("read", "write", "metadata"))):
            numbers[name] = Interval(value, inf if is_low else value)
        operations = {name: count for mdt in fs.metadata.values()
                      for name, count in mdt.operations.items()}
        yield KnownNfs(
            fs.name, elapsed_s, coverage.node_seconds, count_workers(record)[1], numbers,
            max((mdt.peak.per_second for mdt in fs.metadata.values() if mdt.peak), default=0.0),
            max(sorted(operations), key=operations.__getitem__, default=""))


def resent_requests(record: Record, limits: Limits) -> list[Held]:
    """Requests that were sent again, or not answered until the mount's time limit."""
    results = []
    for io in _list_mounts(record, limits):
        requests = add_up(io.numbers[name] for name in ("read_rpcs", "write_rpcs", "metadata"))
        again, late = (io.numbers[name] for name in ("retransmissions", "timeouts"))
        share = divide(again, requests).low
        if not (late.low or (again.low >= _LEAST_RESENT and share >= _RESENT_SHARE)):
            continue
        text = f"{count_text(again)} of {count_text(requests)} requests were sent again"
        if late.low:
            text += f", and the server did not respond in time {count_text(late)} times"
        results.append(Held(0.3, text, {"retransmissions": again.low, "timeouts": late.low,
                                        "requests": requests.low}, file_system=io.name))
    return results


def small_requests(record: Record, limits: Limits) -> list[Held]:
    """Many small READ or WRITE requests that may have taken time."""
    results = []
    for io in _list_mounts(record, limits):
        of_mount = []
        for call in ("read", "write"):
            rpcs, moved = io.numbers[f"{call}_rpcs"], io.numbers[f"{call}_bytes"]
            mean = divide(moved, rpcs)
            if (rpcs.low >= limits.findings.from_operations and io.takes_time(limits, call)
                    and mean.high <= _SMALL_REQUEST * limits.findings.small_bytes):
                of_mount.append(io.hold(
                    f"{count_text(rpcs)} {call.upper()} requests of {mark_high(mean)}"
                    f"{format_bytes(round(mean.high), limits.units)} on average", (call,),
                    {"requests": rpcs.low, "mean_bytes": round(mean.high, 1)}))
        results += sorted(of_mount, key=lambda item: -item.weight)[:1]
    return results


def many_requests(record: Record, limits: Limits) -> list[Held]:
    """Many requests for metadata a second, or some that may have taken time."""
    results = []
    for io in _list_mounts(record, limits):
        requests, storm = io.numbers["metadata"], limits.findings.metadata_storm_per_second
        rate = requests.low / io.elapsed_s
        is_storm = rate >= storm or io.peak >= storm / _OF_STORM
        if requests.low >= limits.findings.from_operations and (
                is_storm or io.takes_time(limits, "metadata")):
            held = io.hold(
                f"{count_text(requests)} requests for metadata, {io.mostly} mostly, "
                f"{mark_low(requests)}{format_rate(rate)} a second", ("metadata",),
                {"requests": requests.low, "per_second": round(rate, 3)})
            results.append(held._replace(weight=max(0.3, held.weight)) if is_storm else held)
    return results


def work_on_nfs(record: Record, limits: Limits) -> list[Held]:
    """Find more network traffic with NFS than with Lustre."""
    lustre = [_sum_moved(fs) for fs in record.lustre]
    if not lustre:
        return []
    on_lustre, results = add_up(lustre), []
    for io in _list_mounts(record, limits):
        moved = add_up(io.numbers[f"{direction}_bytes"] for direction in ("read", "write"))
        if (moved.low >= limits.findings.large_bytes and moved.low > on_lustre.high
                and io.takes_time(limits, "read", "write")):
            results.append(io.hold(
                f"{mark_low(moved)}{format_bytes(moved.low, limits.units)} were read and "
                f"written over the network, on Lustre {format_bytes(on_lustre.high, limits.units)}",
                ("read", "write"), {"bytes": moved.low, "lustre_bytes": on_lustre.high}))
    return results


def _sum_moved(fs: FileSystemRecord) -> Interval:
    """Bytes that programs read and wrote on Lustre; unknown where no node could count them."""
    if fs.application is None:
        return Interval(0)
    low = list_too_low_numbers(fs)
    return add_up(Interval(0, inf if f"{direction}_bytes" in low or fs.incomplete else
                           get_bytes(fs.application, direction))
                  for direction in ("read", "write"))
