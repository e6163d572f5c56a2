"""
The known numbers of a job's I/O on one file system, each as an Interval.

This is the only place where a record's marks (too_low, lower_bound, incomplete, shared nodes, the
nodes' own I/O) are read; rules see intervals.  There are three sides, and one class for them all,
since their rules are the same: the nodes' own counters, the storage servers' by the job's id
(job_stats), and by its nodes (exports).
"""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.metrics import is_operation
from iostats.report.accounting_comment import OTHERS
from iostats.report.findings.interval import (
    UNKNOWN,
    Interval,
    add_up,
    divide,
    make_exact,
    multiply,
)
from iostats.report.findings.noise_floor import NoiseFloor
from iostats.report.findings.time_share import count_cpus, count_workers
from iostats.report.job_fields import EXPORTS, NODES, SERVERS
from iostats.totals.bounds import LUSTRE, NUMBERS, list_too_low_numbers
from iostats.totals.kinds import measure_bytes
from iostats.totals.other_values import SOURCES

if TYPE_CHECKING:
    from typing import Any

    from iostats.totals.record import (
        FileSystemRecord,
        NodesFileSystem,
        NodeSpread,
        Record,
        ServersFileSystem,
        SlowNodes,
    )

_BY_NODE = ("read_bytes", "write_bytes", "read_calls", "write_calls", "open", "close", "getattr",
            "unlink", "fsync")
_LEAST_DIRECT_BYTES = 512           # O_DIRECT moves whole blocks of a disk (open(2))
_MOST_THREADS = 256.0               # of a node of which neither tasks nor CPUs are known
SHARED_IN_SHORT = "other jobs were on "         # a note of comment_reader begins so
_MOVES = ("read", "write")
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


class BusiestNode(NamedTuple):
    """The node with the largest amount of a metric."""

    node: str   # its name
    # amount, median, second: Intervals of its amount, and of the median and the second node's
    amount: Interval
    median: Interval
    second: Interval


def find_counter(call: str) -> str:
    """
    The metric that counts calls of a kind.

    >>> find_counter("write"), find_counter("open")
    ('write_calls', 'open')
    """
    return f"{call}_calls" if call in ("read", "write") else call


class KnownIO:
    """
    The known numbers of a job's I/O on one file system.

    Attributes:
        file_system: as Lustre calls it, or as it was mounted.
        kind: of a record's file system: LUSTRE, or another, of which less is known.
        side: NODES, SERVERS or EXPORTS: who counted.
        elapsed_s: how long the job took.
        node_s: the same of all nodes together.
        nodes: how many nodes have counted; None if unknown.
        numbers: metric -> Interval; bytes and calls of programs, and each operation; see `of`.
        uncalled: metric -> how much of its upper bound is of libaio, which no counter of calls has.
        times_s: metric -> Interval: seconds in it, of all threads of all nodes; absent where it is
            not timed.
        network: read_bytes, write_bytes, read_rpcs, write_rpcs -> Interval, of bulk requests; to
            MDTs as well, where listing a directory is one.
        data: the same without MDTs, where that is known apart.
        pages: read, write -> (Interval of requests for one page, Interval of all others), by
            rpc_stats.
        range_locks: OST -> Interval of requests for locks of ranges of files there.
        ost_bytes: OST -> Interval.
        ost_moved: read, write -> {OST: Interval}, of bytes.
        mdt_requests: MDT -> Interval.
        busiest: metric of _BY_NODE -> BusiestNode by its number of them.
        busiest_s: metric -> BusiestNode by its seconds in it.
        slow_nodes: [SlowNodes] of the record, without those that other jobs were on.
        workers, per_node: what may wait at the same time: "tasks" or "CPUs" of the job by the batch
            system, or "CPUs" of the nodes; and how many a node has, on average; "" and 1 where that
            is unknown.
        most_threads: threads of a node that may wait at the same time: its tasks or CPUs, whichever
            are more; _MOST_THREADS where these are unknown.
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
        self.kind = LUSTRE
        self.elapsed_s, self.node_s = elapsed_s, node_s
        self.numbers: dict[str, Interval] = {}
        self.uncalled: dict[str, float] = {}
        self.times_s: dict[str, Interval] = {}
        self.network: dict[str, Interval] = {}
        self.data: dict[str, Interval] = {}
        self.pages: dict[str, tuple[Interval, Interval]] = {}
        self.range_locks: dict[str, Interval] = {}
        self.ost_bytes: dict[str, Interval] = {}
        self.ost_moved: dict[str, dict[str, Interval]] = {
            direction: {} for direction in _MOVES}
        self.mdt_requests: dict[str, Interval] = {}
        self.peaks: dict[str, tuple[str, Interval]] = {}
        self.busiest: dict[str, BusiestNode] = {}
        self.busiest_s: dict[str, BusiestNode] = {}
        self.slow_nodes: list[SlowNodes] = []
        self.workers, self.per_node = "", 1.0
        self.most_threads = _MOST_THREADS
        self.series: Any = None
        self.operations = self.absent = UNKNOWN
        self.is_whole = self.is_times_alone = False

    def of(self, metric: str) -> Interval:
        """Return the amount of a metric."""
        return self.numbers.get(metric, self.absent)

    def count_calls(self, call: str) -> Interval:
        """Return the number of calls of a kind."""
        return self.of(find_counter(call))

    def get_network_amount(self, metric: str) -> Interval:
        """Return the amount of a metric of bulk requests."""
        return self.network.get(metric, UNKNOWN)

    def get_data_amount(self, metric: str) -> Interval:
        """Return the amount of a metric of the requests that moved files' data."""
        return self.data.get(metric) or self.get_network_amount(metric)

    def bound_moved_bytes(self, direction: str) -> float:
        """
        Return an upper bound of the bytes that programs read or wrote (`direction`: "read",
        "write").

        What mapped files and, since 2.14, libaio move is in no call, but goes over the network.
        GPFS counts all bytes, and none over the network.
        """
        over = float(self.get_network_amount(f"{direction}_bytes").high) if (
            self.network or self.kind == LUSTRE) else 0.0
        return max(over, float(self.of(f"{direction}_bytes").high)) if self.side == NODES else over

    def is_timed(self, *metrics: str) -> bool:
        """Whether any of these calls is timed."""
        return any(metric in self.times_s for metric in metrics)

    def sum_seconds(self, *metrics: str) -> Interval:
        """Add up the seconds in those calls that are timed, over all threads of all nodes."""
        return add_up(self.times_s[metric] for metric in metrics if metric in self.times_s)

    def compute_time_share(self, *metrics: str) -> Interval:
        """
        Return the seconds in these calls by those of all `workers` of all nodes; above 1 if more
        threads waited at the same time.
        """
        return divide(self.sum_seconds(*metrics), multiply(self.node_s, self.per_node)) if (
            self.is_timed(*metrics)) else UNKNOWN

    def find_busiest_node(self, *metrics: str) -> BusiestNode:
        """Find the node that spent most time in these calls; its name is "" if unknown.

        Of each metric only the busiest node is known, so its time is a bound if these differ.
        """
        of_metrics = [self.busiest_s[metric] for metric in metrics if metric in self.busiest_s]
        at_least: dict[str, float] = {}
        for node, amount, _, _ in of_metrics:
            at_least[node] = at_least.get(node, 0) + amount.low
        name = max(sorted(at_least), key=at_least.__getitem__, default="")
        highest, median, second = (add_up(getattr(busiest, rank) for busiest in of_metrics)
                                   for rank in ("amount", "median", "second"))
        return BusiestNode(name, Interval(at_least.get(name, 0), highest.high), median, second)

    def rate(self, call: str) -> Interval:
        """Return the calls of a kind per second, over all nodes."""
        return divide(self.count_calls(call), self.elapsed_s)

    def list_longest_waits(self) -> list[tuple[str, float]]:
        """[(call, seconds at least)], the longest first; none of them lies within another."""
        def timed(names: tuple[str, ...]) -> list[tuple[str, float]]:
            return [(name, self.times_s[name].low) for name in names if name in self.times_s]
        either = max((timed(_HOLDING), timed(_WITHIN)), key=lambda calls: sum(
            seconds for _, seconds in calls))
        return sorted([*timed(_APART), *either], key=lambda pair: (-pair[1], pair[0]))

    def sum_moved_bytes(self) -> Interval:
        """Add up the bytes read and written: by programs if known, else over the network."""
        sums = [add_up(map(of, ("read_bytes", "write_bytes")))
                for of in (self.of, self.get_network_amount)]
        return max(sums, key=lambda total: total.low)

    def count_all_operations(self) -> Interval:
        """Count operations, reads and writes: calls, or else requests."""
        calls = [max((of(f"{direction}_{unit}") for of, unit in (
            (self.of, "calls"), (self.get_network_amount, "rpcs"))), key=lambda count: count.low)
            for direction in ("read", "write")]
        requests = add_up(self.mdt_requests.values())
        operations = self.operations if self.operations.low >= requests.low else Interval(
            requests.low, max(requests.high, self.operations.high))
        return add_up([operations, *calls])


def list_sides(record: Record) -> dict[str, list[KnownIO]]:
    """
    Return {file system: [KnownIO of each side], the best first}.

    What the nodes say is the best where it is whole and this job's alone.  Else the storage
    servers', who count by job, are asked too; always for what they alone know, their own times.
    """
    sides: dict[str, list[KnownIO]] = {}
    for fs in record.file_systems if record.coverage.reported else ():
        if fs.kind in SOURCES or (fs.kind == LUSTRE and (
                fs.operations is not None or fs.network is not None or fs.metadata)):
            sides.setdefault(fs.name, []).append(_from_nodes(record, fs))
    for counted in record.harvest.file_systems if record.harvest else ():
        there = sides.setdefault(counted.name, [])
        there.append(_from_servers(record, counted, bool(there) and there[0].is_whole))
    if record.by_node and not record.by_node.why_none:
        for part in record.by_node.file_systems:
            there = sides.setdefault(part.name, [])
            if not any(side.is_whole for side in there):
                there.append(_from_exports(record, part))
    return dict(sorted(sides.items()))


def is_shared(record: Record) -> bool:
    """Whether other jobs were on all of its nodes, or on some that are not known by name."""
    coverage = record.coverage
    return (bool(coverage.shared) and len(coverage.shared) >= coverage.reported) or any(
        note.startswith(SHARED_IN_SHORT) for note in record.notes if record.short)


# -- by the nodes ----------------------------------------------------------------------------------

class _OtherJobs:
    """An upper bound of the I/O of other jobs on the same nodes, for one file system."""

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
            of_node: dict[str, dict[str, int]] = short["file_systems"]
            for metric, value in of_node.get(name, {}).items():
                self._amounts[metric] = self._amounts.get(metric, 0) + value

    def amount(self, metric: str) -> float:
        """Return the others' part of a metric that each node reports."""
        return inf if self.may_be_all else self._amounts.get(metric, 0)

    @property
    def unknown_share(self) -> float:
        """Return the others' part of metrics that are known of all nodes together only."""
        return inf if self.are_there else 0


def _from_nodes(record: Record, fs: FileSystemRecord) -> KnownIO:
    coverage, elapsed_s = record.coverage, record.job.elapsed_s
    is_whole = not fs.incomplete
    # Other nodes may have taken longer.
    elapsed = UNKNOWN if elapsed_s is None else Interval(elapsed_s, elapsed_s if is_whole else inf)
    node_s = coverage.node_seconds
    if node_s is None and elapsed_s is not None:
        node_s = elapsed_s * coverage.reported
    io = KnownIO(fs.name, NODES, elapsed, UNKNOWN if node_s is None else Interval(
        node_s, node_s if is_whole else inf), coverage.reported)
    io.kind = fs.kind
    other_jobs, noise = _OtherJobs(record, fs.name), NoiseFloor(fs, coverage.reported)
    io.is_whole = is_whole and not other_jobs.are_there and not fs.low
    low, high = set(list_too_low_numbers(fs)), set(fs.too_high)
    io.uncalled = uncalled = _bound_uncalled(fs, low)

    def interval(metric: str, value: float, number: str | None = None) -> Interval:
        """
        Return the Interval of `value`, as counted; `number`: the name under which it may have
        bounds.
        """
        number = number or metric
        highest = value + (inf if fs.incomplete else
                           uncalled.get(number, inf if number in low else 0.0))
        if metric == "write_bytes" and fs.write_bytes_max is not None and not fs.incomplete:
            # What is not counted may be of one node, too.
            highest = value + fs.write_bytes_max - (
                fs.application.write_bytes if fs.application else 0)
        return Interval(0 if number in high else max(
            0, value - other_jobs.amount(metric) - noise.amount(metric)), highest)

    for metric, value in _list_amounts(fs).items():
        io.numbers[metric] = interval(metric, value)
    for name in ("read_bytes", "write_bytes", "read_calls", "write_calls"):
        io.numbers.setdefault(name, UNKNOWN)
    if fs.operations is not None:
        counts = {name: interval(name, row.count, "operations")
                  for name, row in fs.operations.items()}
        io.absent = Interval(0, counts[OTHERS].high if OTHERS in counts else
                             interval("", 0, "operations").high)
        io.operations = add_up(count for name, count in counts.items() if is_operation(name))
        io.numbers.update((name, count) for name, count in counts.items() if name != OTHERS)
    for name, value in (fs.other or {}).items():
        io.numbers.setdefault(name, Interval(
            max(0, value - other_jobs.unknown_share - noise.amount("open")),
            interval(name, value, "operations").high))
    _add_times(io, fs, other_jobs, low - uncalled.keys(), noise)
    longest = max((divide(busiest.amount, io.elapsed_s).low
                   for busiest in io.busiest_s.values()), default=0)
    io.workers, io.per_node = count_workers(record, longest)
    io.most_threads = max(io.per_node, count_cpus(record) or _MOST_THREADS)
    io.slow_nodes = [slow for slow in fs.slow_nodes
                     if not other_jobs.may_be_all and slow.slowest not in coverage.shared]
    _add_network(io, fs, other_jobs, noise)
    for metric in _BY_NODE:
        spread = fs.per_node.get(metric)
        if spread and spread.busiest:
            amount = interval(metric, spread.max, None if metric in NUMBERS else "operations")
            if spread.busiest in coverage.shared:
                amount = amount._replace(low=0)
            io.busiest[metric] = _make_busiest_node(
                spread, amount, inf if amount.high == inf else uncalled.get(metric, 0.0), 1)
    if io.is_whole and fs.series and fs.series.nodes >= coverage.reported:
        io.series = noise.without(fs.series) if noise else fs.series
    return io


def _list_amounts(fs: FileSystemRecord) -> dict[str, int]:
    """Return {metric: number}, as far as known: bytes and calls of programs; of CephFS bytes."""
    if fs.application is None:
        moved = {metric: measure_bytes(fs, metric) for metric in ("read_bytes", "write_bytes")}
        return {metric: known[0] for metric, known in moved.items() if known}
    return {metric: value for metric, value in fs.application.items()
            if metric != "lower_bound" and value is not None}


def _bound_uncalled(fs: FileSystemRecord, low: set[str]) -> dict[str, float]:
    """
    Bound the part of reads and writes that libaio and io_uring made, if nothing else is missing:
    {metric: the most of it}.  It went over the network, each call moved a block, and it took no
    time in read() or write().
    """
    more: dict[str, float] = {}
    other = fs.other or {}
    for direction in _MOVES if "operations" not in low else ():
        moved = other.get(f"unexplained_{direction}_bytes", 0)
        if moved:
            more[f"{direction}_bytes"] = moved + other.get(f"uncounted_{direction}_bytes", 0)
            more[f"{direction}_calls"] = moved / _LEAST_DIRECT_BYTES
    return more


def _add_times(io: KnownIO, fs: FileSystemRecord, other_jobs: _OtherJobs, low: set[str],
               noise: NoiseFloor) -> None:
    for name, row in [*(fs.operations or {}).items(), *(fs.calls or {}).items()]:
        if row.seconds is not None:
            count = find_counter(name)
            # Of the nodes themselves a call is as long as any other; of other jobs it may be all.
            own = row.seconds * (1 - noise.share(count))
            of_others = other_jobs.amount(f"{name}_us") / 1e6
            is_low = bool({count, "operations"} & low)
            io.times_s[name] = Interval(max(0, own - of_others),
                                        inf if is_low else row.seconds)
            spread = fs.per_node.get(f"{name}_us")
            if spread and spread.busiest:
                spent = spread.max / 1e6
                own = spent - row.seconds * noise.share(count) / (io.nodes or 1)
                io.busiest_s[name] = _make_busiest_node(
                    spread, Interval(max(0, own - of_others), inf if is_low else spent),
                    inf if is_low or fs.incomplete else 0.0, 1e6)


def _make_busiest_node(spread: NodeSpread, amount: Interval, more: float,
                       unit: float) -> BusiestNode:
    """Make the BusiestNode of a metric's spread; `more`: by how much another's may be larger."""
    second = spread.max if spread.second is None else spread.second
    is_exact = amount.low == amount.high
    return BusiestNode(spread.busiest, amount, *(
        Interval(number / unit if is_exact else 0, number / unit + more)
        for number in (spread.median, second)))


def _add_network(io: KnownIO, fs: FileSystemRecord, other_jobs: _OtherJobs,
                 noise: NoiseFloor) -> None:
    def interval(value: float | None, *sources: str, own: float = 0) -> Interval:
        if value is None:
            return UNKNOWN
        return Interval(max(0, value - own - other_jobs.unknown_share),
                        inf if fs.incomplete or set(sources) & set(fs.low) else value)
    def bound_noise(metric: str, value: float) -> float:
        direction = metric.partition("_")[0]
        return (noise.amount(f"{direction}_bytes") if metric.endswith("_bytes")
                else round(value * noise.share(f"{direction}_bytes")))
    sources = ["osc", "mdc", fs.kind, *(["rpc_stats"] if fs.network and (
        fs.network.read_bytes is None) else [])]
    for metric, value in (fs.network or {}).items():
        if metric != "lower_bound":
            io.network[metric] = interval(value, *sources, own=bound_noise(metric, value or 0))
            if fs.kind != LUSTRE and fs.network and fs.network.lower_bound:     # pNFS
                io.network[metric] = io.network[metric]._replace(high=inf)
    for metric in io.network if fs.balance is not None else ():
        value = sum(values.get(metric, 0) for target, values in fs.targets.items()
                    if target.startswith("OST"))
        io.data[metric] = interval(value, "osc", own=bound_noise(metric, value))
    for direction in ("read", "write"):
        rows: dict[str, int] = fs.request_pages[direction] if fs.request_pages is not None else {}
        if rows:
            of_one_page = rows.get("1", 0)
            io.pages[direction] = (interval(of_one_page, "rpc_stats", own=bound_noise(
                f"{direction}_rpcs", of_one_page)), interval(sum(rows.values()) - of_one_page,
                                                             "rpc_stats"))
    for target, values in fs.targets.items():
        if target.startswith("OST") and fs.balance is not None:
            io.range_locks[target] = interval(values.get("ldlm_extent_enqueue", 0), "osc")
            # Which OST it was on is not known.
            io.ost_bytes[target] = interval(
                sum(values.get(f"{direction}_bytes", 0) for direction in _MOVES), "osc",
                own=noise.amount("read_bytes", "write_bytes"))
            for direction, moved in io.ost_moved.items():
                moved[target] = interval(values.get(f"{direction}_bytes", 0), "osc",
                                         own=noise.amount(f"{direction}_bytes"))
    for target, requests in fs.metadata.items():
        io.mdt_requests[target] = interval(requests.requests, "md_stats",
                                           own=round(requests.requests * noise.of_operations))
        if requests.peak and not other_jobs.are_there:
            own = (requests.per_second_per_node or 0) * noise.of_operations
            peak = requests.peak.per_second
            io.peaks[target] = requests.peak.node, Interval(
                max(0.0, peak - own), inf if "md_stats" in fs.low else peak)


# -- by the storage servers ------------------------------------------------------------------------

def _from_servers(record: Record, fs: ServersFileSystem, times_alone: bool) -> KnownIO:
    """Make the KnownIO of the storage servers' counts; `times_alone`: only from request times."""
    harvest, elapsed_s = record.harvest, record.job.elapsed_s
    assert harvest is not None
    elapsed = (Interval(max(0.0, harvest.ended - harvest.began)) if elapsed_s is None
               else make_exact(elapsed_s))
    io = KnownIO(fs.name, SERVERS, elapsed, UNKNOWN, record.coverage.expected)
    io.is_times_alone = times_alone
    is_low = fs.lower_bound or harvest.lower_bound or not harvest.final

    def interval(value: float) -> Interval:
        return Interval(value, inf if is_low else value)
    for metric in ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs"):
        amount: int = fs[metric]
        io.network[metric] = interval(amount)
    for metric in ("read", "write"):
        seconds: float | None = fs.get(f"{metric}_seconds")     # in older records there is none
        if seconds is not None:
            io.times_s[f"{metric}_rpcs"] = interval(seconds)
    # Where no MDT has seen the job, it may be that none is harvested.
    has_mdts = any(target.startswith("MDT") for target in fs.targets)
    io.absent = Interval(0, 0 if has_mdts and not is_low else inf)
    for name, row in fs.operations.items():
        io.numbers[name] = interval(row.count)
    io.operations = add_up([io.numbers[name] for name in fs.operations
                            if is_operation(name)])
    io.is_whole = not is_low
    for target, values in fs.targets.items():
        if target.startswith("OST"):
            for direction, moved in io.ost_moved.items():
                moved[target] = interval(values.get(f"{direction}_bytes", 0))
            io.ost_bytes[target] = add_up(io.ost_moved[direction][target] for direction in _MOVES)
        elif target.startswith("MDT"):
            io.mdt_requests[target] = interval(sum(
                count for name, count in values.items() if is_operation(name)))
    return io


def _from_exports(record: Record, fs: NodesFileSystem) -> KnownIO:
    elapsed_s = record.job.elapsed_s
    io = KnownIO(fs.name, EXPORTS, UNKNOWN if elapsed_s is None else make_exact(elapsed_s), UNKNOWN,
                 record.coverage.expected)
    io.is_whole = fs.high is not None
    for metric, name in (("read_bytes", "read_bytes"), ("write_bytes", "write_bytes"),
                         ("reads", "read_rpcs"), ("writes", "write_rpcs")):
        io.network[name] = Interval(fs.low[metric], inf if fs.high is None else fs.high[metric])
    io.operations = Interval(
        fs.low.ost_operations + fs.low.mdt_operations,
        inf if fs.high is None else fs.high.ost_operations + fs.high.mdt_operations)
    return io
