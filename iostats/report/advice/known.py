"""
What is known of a job's I/O on one file system, each number as an Interval.

This is the only place where a record's marks (too_low, lower_bound, incomplete, shared nodes, the
nodes' own I/O) are read; rules see intervals.  There are three sides, and one class for them all,
since their rules are the same: the nodes' own counters, the storage servers' by the job's id
(job_stats), and by its nodes (exports).
"""

from __future__ import annotations

import json
from math import inf

from iostats.lustre.metrics import is_operation
from iostats.report.advice.interval import UNKNOWN, Interval, added_up, exactly, ratio
from iostats.report.advice.noise_floor import NoiseFloor
from iostats.report.accounting_comment import OTHERS
from iostats.report.job_summary import EXPORTS, NODES, SERVERS
from iostats.totals.bounds import numbers_too_low

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.totals.record import (
        FileSystemRecord,
        NodesFileSystem,
        Record,
        ServersFileSystem,
    )

SHARED_IN_SHORT = "other jobs were on "         # a note of comment_reader begins so
# Times that do not lie within each other.  A creating open has its create in it.
_APART = ("close", "getattr", "unlink", "rmdir", "rename", "link", "statfs", "flock", "seek",
          "inode_permission")
# These may have the others within them: a write() to a file with O_SYNC its fsync, and the kernel's
# look for rights that it takes away (getxattr); an open with O_TRUNC its truncate; what copies to
# memory of a mapped file its page faults; and what makes a file its security context (setxattr:
# ll_initxattrs(), lustre/llite/xattr_security.c).
_HOLDING = ("read", "write", "open", "readdir", "mkdir", "symlink")
_WITHIN = ("fsync", "truncate", "setattr", "page_fault", "page_mkwrite", "getxattr", "setxattr",
           "listxattr", "removexattr")


class KnownIO:
    """
    What is known of a job's I/O on one file system.

    Attributes:
        file_system: as Lustre calls it.
        side: NODES, SERVERS or EXPORTS: who counted.
        elapsed_s: how long the job took.
        node_s: the same of all nodes together.
        nodes: how many nodes have counted; None where that is not known.
        numbers: metric -> Interval; bytes and calls of programs, and each operation; see `of`.
        times_s: metric -> Interval: seconds in it, of all threads of all nodes; absent where it is
            not timed.
        network: read_bytes, write_bytes, read_rpcs, write_rpcs -> Interval, of bulk requests; to
            MDTs as well, where listing a directory is one.
        data: the same without MDTs, where that is known apart.
        ost_bytes, ost_read_bytes: OST -> Interval.
        mdt_requests: MDT -> Interval.
        busiest: read_bytes, write_bytes -> (node, Interval of its amount).
        peaks: MDT -> (node, Interval of its requests a second), of the node that asked it most.
        series: the record's, of `watch`, of all nodes.
        operations: all together.
        absent: of an operation that is not in `numbers`.
        is_whole: no number is too low, and all of them are this job's.
        is_times_alone: asked for the times of requests alone, as another side knows the rest.
    """

    def __init__(self, file_system: str, side: str, elapsed_s: Interval, node_s: Interval,
                 nodes: int | None) -> None:
        self.file_system, self.side, self.nodes = file_system, side, nodes
        self.elapsed_s, self.node_s = elapsed_s, node_s
        self.numbers: dict[str, Interval] = {}
        self.times_s: dict[str, Interval] = {}
        self.network: dict[str, Interval] = {}
        self.data: dict[str, Interval] = {}
        self.ost_bytes: dict[str, Interval] = {}
        self.ost_read_bytes: dict[str, Interval] = {}
        self.mdt_requests: dict[str, Interval] = {}
        self.peaks: dict[str, tuple[str, Interval]] = {}
        self.busiest: dict[str, tuple[str, Interval]] = {}
        self.series: Any = None
        self.operations = self.absent = UNKNOWN
        self.is_whole = self.is_times_alone = False

    def of(self, metric: str) -> Interval:
        """How much of a metric there was."""
        return self.numbers.get(metric, self.absent)

    def over_network(self, metric: str) -> Interval:
        """How much of a metric of bulk requests there was."""
        return self.network.get(metric, UNKNOWN)

    def of_data(self, metric: str) -> Interval:
        """The same of requests that moved files' data."""
        return self.data.get(metric) or self.over_network(metric)

    def at_most_moved(self, way: str) -> float:
        """
        Bytes that programs can have read or written ("read", "write"), at most.

        What mapped files and, since 2.14, libaio move is in no call, but goes over the network.
        """
        over = float(self.over_network(f"{way}_bytes").high)
        return max(over, float(self.of(f"{way}_bytes").high)) if self.side == NODES else over

    def is_timed(self, *metrics: str) -> bool:
        """Whether some of these are timed."""
        return any(metric in self.times_s for metric in metrics)

    def time_share(self, *metrics: str) -> Interval:
        """Seconds in these by all nodes' seconds; above 1 where threads waited side by side."""
        times = [self.times_s[metric] for metric in metrics if metric in self.times_s]
        return ratio(added_up(times), self.node_s) if times else UNKNOWN

    def rate(self, metric: str) -> Interval:
        """How often a second, of all nodes together."""
        return ratio(self.of(metric), self.elapsed_s)

    def longest(self) -> list[tuple[str, float]]:
        """[(call, seconds at least)], the longest first; none of them lies within another."""
        def timed(names: tuple[str, ...]) -> list[tuple[str, float]]:
            return [(name, self.times_s[name].low) for name in names if name in self.times_s]
        either = max((timed(_HOLDING), timed(_WITHIN)), key=lambda one: sum(
            seconds for _, seconds in one))
        return sorted([*timed(_APART), *either], key=lambda pair: (-pair[1], pair[0]))

    def whole_time_share(self) -> Interval:
        """Seconds in all calls together, by all nodes' seconds."""
        return self.time_share(*(name for name, _ in self.longest()))

    def moved_bytes(self) -> Interval:
        """Read and written, by programs where that is known, or else over the network."""
        found = [added_up(map(of, ("read_bytes", "write_bytes")))
                 for of in (self.of, self.over_network)]
        return max(found, key=lambda one: one.low)

    def all_operations(self) -> Interval:
        """Operations, reads and writes together: calls, or else requests."""
        calls = [max((of(f"{way}_{what}") for of, what in (
            (self.of, "calls"), (self.over_network, "rpcs"))), key=lambda one: one.low)
            for way in ("read", "write")]
        asked = added_up(self.mdt_requests.values())
        operations = self.operations if self.operations.low >= asked.low else Interval(
            asked.low, max(asked.high, self.operations.high))
        return added_up([operations, *calls])


def sides_of(record: Record, noise_percent: float) -> dict[str, list[KnownIO]]:
    """
    {file system: what each side knows of it, the best first}.

    `noise_percent`: from which part of a number on the nodes' own I/O is taken off its low end.

    What the nodes say is the best where it is whole and this job's alone.  Else the storage
    servers', who count by job, are asked too; always for what they alone know, their own times.
    """
    found: dict[str, list[KnownIO]] = {}
    for fs in record.file_systems if record.coverage.reported else ():
        if fs.operations is not None or fs.network is not None or fs.metadata:
            found.setdefault(fs.name, []).append(_of_nodes(record, fs, noise_percent))
    for counted in record.harvest.file_systems if record.harvest else ():
        there = found.setdefault(counted.name, [])
        there.append(_of_servers(record, counted, bool(there) and there[0].is_whole))
    if record.by_node and not record.by_node.why_none:
        for one in record.by_node.file_systems:
            there = found.setdefault(one.name, [])
            if not any(side.is_whole for side in there):
                there.append(_of_exports(record, one))
    return dict(sorted(found.items()))


def is_shared(record: Record) -> bool:
    """Whether other jobs were on all of its nodes, or on some that are not known by name."""
    coverage = record.coverage
    return (bool(coverage.shared) and len(coverage.shared) >= coverage.reported) or any(
        note.startswith(SHARED_IN_SHORT) for note in record.notes if record.short)


# -- by the nodes ----------------------------------------------------------------------------------

class _OtherJobs:
    """What other jobs on the same nodes may have done of a file system's numbers, at most."""

    def __init__(self, record: Record, name: str) -> None:
        self.may_be_all, self.are_there = is_shared(record), is_shared(record)
        self._amounts: dict[str, int] = {}
        for node in () if self.may_be_all else record.coverage.shared:
            self.are_there = True
            short: Any = record.nodes.get(node)
            if short is None:
                self.may_be_all = True
                return
            if not isinstance(short, dict):             # a server has thousands, as JSON text
                short = json.loads(short if isinstance(short, str) else bytes(short))
            for metric, value in short["file_systems"].get(name, {}).items():
                self._amounts[metric] = self._amounts.get(metric, 0) + value

    def amount(self, metric: str) -> float:
        """Of what each node tells of."""
        return inf if self.may_be_all else self._amounts.get(metric, 0)

    @property
    def of_the_rest(self) -> float:
        """Of what is known of all nodes together only."""
        return inf if self.are_there else 0


def _of_nodes(record: Record, fs: FileSystemRecord, noise_percent: float) -> KnownIO:
    coverage, elapsed_s = record.coverage, record.job.elapsed_s
    is_whole = not fs.incomplete
    # Other nodes may have taken longer.
    elapsed = UNKNOWN if elapsed_s is None else Interval(elapsed_s, elapsed_s if is_whole else inf)
    node_s = coverage.node_seconds
    if node_s is None and elapsed_s is not None:
        node_s = elapsed_s * coverage.reported
    known = KnownIO(fs.name, NODES, elapsed, UNKNOWN if node_s is None else Interval(
        node_s, node_s if is_whole else inf), coverage.reported)
    others, noise = _OtherJobs(record, fs.name), NoiseFloor(fs, coverage.reported, noise_percent)
    known.is_whole = is_whole and not others.are_there and not fs.low
    low, high = set(numbers_too_low(fs)), set(fs.too_high)

    def interval(metric: str, value: float, number: str | None = None) -> Interval:
        """Of what was counted as `value`; `number`: under which name bounds are told of it."""
        number = number or metric
        most: float = inf if number in low or fs.incomplete else value
        if metric == "write_bytes" and fs.write_bytes_max is not None and not fs.incomplete:
            # What is not counted may be of one node, too.
            most = value + fs.write_bytes_max - (fs.application[metric] if fs.application else 0)
        return Interval(0 if number in high else max(
            0, value - others.amount(metric) - noise.amount(metric)), most)

    for metric, value in (fs.application or {}).items():
        if metric != "lower_bound" and value is not None:
            known.numbers[metric] = interval(metric, value)
    for name in ("read_bytes", "write_bytes", "read_calls", "write_calls"):
        known.numbers.setdefault(name, UNKNOWN)
    if fs.operations is not None:
        counts = {name: interval(name, row.count, "operations")
                  for name, row in fs.operations.items()}
        known.absent = Interval(0, counts[OTHERS].high if OTHERS in counts else
                                interval("", 0, "operations").high)
        known.operations = added_up(count for name, count in counts.items() if is_operation(name))
        known.numbers.update((name, count) for name, count in counts.items() if name != OTHERS)
    for name, value in (fs.other or {}).items():
        known.numbers.setdefault(name, Interval(
            max(0, value - others.of_the_rest - noise.amount("open")),
            interval(name, value, "operations").high))
    _add_times(known, fs, others, low, noise)
    _add_network(known, fs, others, noise)
    for metric in ("read_bytes", "write_bytes"):
        spread = fs.per_node.get(metric)
        if spread and spread.busiest:
            its = interval(metric, spread.max)
            known.busiest[metric] = spread.busiest, its if spread.busiest not in coverage.shared \
                else its._replace(low=0)
    if known.is_whole and fs.series and fs.series.nodes >= coverage.reported:
        known.series = noise.without(fs.series) if noise else fs.series
    return known


def _add_times(known: KnownIO, fs: FileSystemRecord, others: _OtherJobs, low: set[str],
               noise: NoiseFloor) -> None:
    for name, row in [*(fs.operations or {}).items(), *(fs.calls or {}).items()]:
        if row.seconds is not None:
            count = f"{name}_calls" if name in ("read", "write") else name
            # Of the nodes themselves a call is as long as any other; of other jobs it may be all.
            own = row.seconds * (1 - noise.share(count))
            known.times_s[name] = Interval(
                max(0, own - others.of_the_rest), inf if {count, "operations"} & low
                else row.seconds)


def _add_network(known: KnownIO, fs: FileSystemRecord, others: _OtherJobs,
                 noise: NoiseFloor) -> None:
    def interval(value: float | None, *sources: str, own: float = 0) -> Interval:
        if value is None:
            return UNKNOWN
        return Interval(max(0, value - own - others.of_the_rest),
                        inf if fs.incomplete or set(sources) & set(fs.low) else value)
    def noise_of(metric: str, value: float) -> float:
        way = metric.partition("_")[0]
        return (noise.amount(f"{way}_bytes") if metric.endswith("_bytes")
                else round(value * noise.share(f"{way}_bytes")))
    sources = ["osc", "mdc", *(["rpc_stats"] if fs.network and fs.network.read_bytes is None
                               else [])]
    for metric, value in (fs.network or {}).items():
        if metric != "lower_bound":
            known.network[metric] = interval(value, *sources, own=noise_of(metric, value or 0))
    for metric in known.network if fs.balance is not None else ():
        value = sum(values.get(metric, 0) for target, values in fs.targets.items()
                    if target.startswith("OST"))
        known.data[metric] = interval(value, "osc", own=noise_of(metric, value))
    for target, values in fs.targets.items():
        if target.startswith("OST") and fs.balance is not None:
            read, written = (values.get(f"{way}_bytes", 0) for way in ("read", "write"))
            # Which OST it was on is not known.
            known.ost_bytes[target] = interval(read + written, "osc", own=noise.amount(
                "read_bytes", "write_bytes"))
            known.ost_read_bytes[target] = interval(read, "osc", own=noise.amount("read_bytes"))
    for target, asked in fs.metadata.items():
        known.mdt_requests[target] = interval(asked.requests, "md_stats",
                                              own=round(asked.requests * noise.of_operations))
        if asked.peak and not others.are_there:
            own = (asked.per_second_per_node or 0) * noise.of_operations
            peak = asked.peak.per_second
            known.peaks[target] = asked.peak.node, Interval(
                max(0.0, peak - own), inf if "md_stats" in fs.low else peak)


# -- by the storage servers ------------------------------------------------------------------------

def _of_servers(record: Record, fs: ServersFileSystem, times_alone: bool) -> KnownIO:
    """`times_alone`: with nothing but the times of requests."""
    harvest, elapsed_s = record.harvest, record.job.elapsed_s
    assert harvest is not None
    elapsed = (Interval(max(0.0, harvest.ended - harvest.began)) if elapsed_s is None
               else exactly(elapsed_s))
    known = KnownIO(fs.name, SERVERS, elapsed, UNKNOWN, record.coverage.expected)
    known.is_times_alone = times_alone
    is_low = fs.lower_bound or harvest.lower_bound or not harvest.final

    def interval(value: float) -> Interval:
        return Interval(value, inf if is_low else value)
    for metric in ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs"):
        known.network[metric] = interval(fs[metric])
    for metric in ("read", "write"):
        seconds = fs.get(f"{metric}_seconds")        # in older records there is none
        if seconds is not None:
            known.times_s[f"{metric}_rpcs"] = interval(seconds)
    # Where no MDT has seen the job, it may be that none is harvested.
    has_mdts = any(target.startswith("MDT") for target in fs.targets)
    known.absent = Interval(0, 0 if has_mdts and not is_low else inf)
    for name, row in fs.operations.items():
        known.numbers[name] = interval(row.count)
    known.operations = added_up([known.numbers[name] for name in fs.operations
                                 if is_operation(name)])
    known.is_whole = not is_low
    for target, values in fs.targets.items():
        if target.startswith("OST"):
            read, written = (values.get(f"{way}_bytes", 0) for way in ("read", "write"))
            known.ost_bytes[target] = interval(read + written)
        elif target.startswith("MDT"):
            known.mdt_requests[target] = interval(sum(
                count for name, count in values.items() if is_operation(name)))
    return known


def _of_exports(record: Record, fs: NodesFileSystem) -> KnownIO:
    elapsed_s = record.job.elapsed_s
    known = KnownIO(fs.name, EXPORTS, UNKNOWN if elapsed_s is None else exactly(elapsed_s), UNKNOWN,
                    record.coverage.expected)
    known.is_whole = fs.high is not None
    for metric, name in (("read_bytes", "read_bytes"), ("write_bytes", "write_bytes"),
                         ("reads", "read_rpcs"), ("writes", "write_rpcs")):
        known.network[name] = Interval(fs.low[metric], inf if fs.high is None else fs.high[metric])
    known.operations = Interval(
        fs.low.ost_operations + fs.low.mdt_operations,
        inf if fs.high is None else fs.high.ost_operations + fs.high.mdt_operations)
    return known
