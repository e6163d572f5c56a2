"""
Totals of one file system: the gains of all nodes added up, and their place in the record.

Each value here is a sum, a set, or the largest or smallest of its kind: parts of a job can be
added up apart and joined in any order, and are the same to the last byte.

What nodes do to a file system by themselves is estimated for the job's time.  A node knows its I/O
between two jobs (node/idle_time.py): amounts, and the seconds in which they came together.  What it
is expected to do by itself while a job runs is amount x job's seconds / idle seconds.  It is stored
as whole thousandths, so that nodes can be added up in any order.
"""

from __future__ import annotations

from iostats.lustre.metrics import LOCAL_MD_STATS
from iostats.totals import bounds, other_values, time_bins
from iostats.totals.file_system_record import (
    compute_balance,
    format_notes,
    make_network_io,
    make_operation_rows,
    make_request_pages,
    make_server_record,
)
from iostats.totals.llite_values import OF_PROGRAMS, compute_once, select_short
from iostats.totals.node_spread import compute_spread, find_slow_nodes
from iostats.totals.record import (
    ApplicationIO,
    FileSystemRecord,
    IdleIO,
    MetadataPeak,
    MetadataRequests,
    PhaseFileSystem,
    RecordSeries,
    SourceTotals,
)
from iostats.totals.sums import Sums, add_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from typing import Optional, TypedDict

    from iostats.totals.node_spread import NodeTable
    from iostats.totals.received_report import ReportedDelta, ReportedSeries
    from iostats.totals.record import ServersFileSystem

    StoredIdle = tuple[list[str], int, dict[str, int]]      # nodes, ms, {metric: thousandths}
    StoredRequests = tuple[dict[str, int], int, tuple[float, str]]      # arguments of MdtRequests

    class StateOfFileSystem(TypedDict, total=False):
        """The result of FileSystem.state(); `lacking` and `idle` are not in older ones."""

        sums: list[tuple[str, str, dict[str, int]]]         # source, target, amounts
        notes: dict[str, list[str]]
        metadata: dict[str, StoredRequests]
        series: list[time_bins.Bins]
        watched: list[str]
        mounts: list[str]
        low: list[str]
        unproved: list[str]
        unspread: list[str]
        dirty_bytes: Optional[int]
        lacking: dict[str, list[str]]
        idle: Optional[StoredIdle]

# What these counted has places of its own in the record.
_PLACED = frozenset(("llite", "osc", "mdc", "md_stats", "rpc_stats", "job_stats"))
# The sources of what storage servers counted by part of a job; so named in the record, too.
AT_SERVERS_BY_PART = ("programs", "steps")
_SERIES = ("read_bytes", "write_bytes", "operations")
# What there is of each mount; mdc is of osc's layer.
_OF_EACH_MOUNT = ("llite", "osc", "md_stats", "rpc_stats", "dirty")
IMPOSSIBLE = 2**62                     # bytes or us: no node gains as much in a job
_PART = 1000
_IMPOSSIBLE = 2**62


def find_requests(source: str, file_system: str, target: str, values: dict[str, int]
                  ) -> tuple[tuple[str, str], dict[str, int]] | None:
    """((file system, MDT or server), {operation: count}) of metadata requests; None without."""
    if source == "md_stats":
        return (file_system, target), values
    requests = other_values.find_requests(source, file_system, values)
    return requests and ((file_system, requests[0]), requests[1])


class FileSystem:
    """
    The totals of one file system.

    Attributes:
        idle: what the nodes do there by themselves.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], Sums] = {}   # (source, target) -> Sums
        self._notes: dict[str, set[str]] = {}           # text -> {node}
        self._metadata: dict[str, MdtRequests] = {}       # MDT -> MdtRequests
        self._series: dict[float, time_bins.Bins] = {}     # family of widths -> Bins, of `watch`
        self._watched: set[str] = set()     # nodes that they are of
        self._mounts: set[str] = set()
        self._low: set[str] = set()         # sources with a lower bound
        self._unproved: set[str] = set()    # sources with a file whose start_time proves nothing
        self._unspread: set[str] = set()    # llite metrics without a sum of squares on some node
        self._dirty_bytes: int | None = None    # written, and still in the nodes' memory at the end
        # source, or "dirty" -> {node that has this file system, and did not report that}
        self._lacking: dict[str, set[str]] = {}
        self.idle = IdleSums()

    # -- taking what nodes have counted ------------------------------------------------------

    def add(self, delta: ReportedDelta, node: str, short: dict[str, dict[str, int]],
            metadata: dict[tuple[str, str], dict[str, int]]) -> None:
        """
        Add one Delta; the node's I/O goes to `short` ({file system: metric -> integer}), its
        requests to MDTs to `metadata` ({(file system, MDT): {md_stats name: count}}).
        """
        if delta.lower_bound or delta.values is None:
            self._low.add(delta.source)
        if delta.why:
            self.add_note(f"{delta.source}: {delta.why}", node)
        if delta.values is None:
            return
        if not (delta.proved or delta.lower_bound):
            self._unproved.add(delta.source)
        values = delta.values
        if sum(values.values()) >= IMPOSSIBLE <= max(values.values()):     # most by sum(): faster
            values = self._drop_impossible_gains(delta, node)
        if delta.source == "llite":
            values = compute_once(values)
            add_values(short.setdefault(delta.file_system, {}), select_short(values))
        elif delta.source in other_values.SOURCES:
            add_values(short.setdefault(delta.file_system, {}),
                       other_values.select_short(delta.source, values))
        requests = find_requests(delta.source, delta.file_system, delta.target, values)
        if requests:
            add_values(metadata.setdefault(requests[0], {}), requests[1])
        sums = self._sums.get((delta.source, delta.target))
        if sums is None:
            sums = self._sums[delta.source, delta.target] = Sums()
        if sums.add(values) and delta.source == "llite":
            self._unspread.update(metric for metric in values
                                  if metric.endswith("_us") and f"{metric}2" not in values)

    def add_sums(self, source: str, target: str, values: dict[str, int]) -> None:
        """Add amounts to the sums of this source and target."""
        self._sums[source, target].add(values)

    def add_note(self, text: str, node: str) -> None:
        """Add a note of one node."""
        self._notes.setdefault(text, set()).add(node)

    def _drop_impossible_gains(self, delta: ReportedDelta, node: str) -> dict[str, int]:
        """The gains of `delta` without impossible ones, which are noted."""
        values: dict[str, int] = delta.values or {}
        wrong = sorted(metric for metric, gain in values.items()
                       if gain >= IMPOSSIBLE and not metric.endswith("_us2"))
        if wrong:
            self._low.add(delta.source)
            self.add_note(f"{delta.source}: not counted: {', '.join(wrong)}: no node can have "
                          f"gained 2**62 or more", node)
        return {metric: gain for metric, gain in values.items() if metric not in wrong}

    def add_metadata(self, target: str, values: dict[str, int], node: str,
                     elapsed_s: float) -> None:
        """Add the requests of one node to one MDT (md_stats), from all its mounts."""
        self._metadata.setdefault(target, MdtRequests()).add(values, node, elapsed_s)

    def add_series(self, series: ReportedSeries, shift_s: float, node: str) -> None:
        """Add the readings of a node's `watch`; `shift_s`: from its clock to the server's."""
        self._watched.add(node)
        self._join_series(time_bins.make_bins(series.every_s, series.began + shift_s,
                                              [getattr(series, metric) for metric in _SERIES]))

    def _join_series(self, bins: time_bins.Bins) -> None:
        family = time_bins.find_common_factor(bins)
        series = self._series.get(family)
        self._series[family] = time_bins.join_bins(*([bins] if series is None else [series, bins]))

    def add_mounts(self, points: Iterable[str]) -> None:
        """Add mount points of one node."""
        self._mounts.update(points)

    def note_lacking(self, kinds: Container[str], node: str) -> None:
        """
        Note the counter files of a mount that one node with this file system has not reported.

        `kinds`: the names of its sources, and "dirty".
        """
        for kind in _OF_EACH_MOUNT:
            if kind not in kinds:
                self._lacking.setdefault(kind, set()).add(node)

    def add_dirty(self, dirty_bytes: int) -> None:
        """Add the bytes that a node had not sent at the end."""
        self._dirty_bytes = (self._dirty_bytes or 0) + dirty_bytes

    # -- joining, and the way between processes -----------------------------------------------

    def join(self, other: FileSystem) -> None:
        """Add all amounts of another FileSystem."""
        for key, sums in other._sums.items():
            sums_here = self._sums.setdefault(key, Sums())
            for values in sums.by_names():
                if values:
                    sums_here.add(values)
        for notes, notes_of_other in ((self._notes, other._notes),
                                      (self._lacking, other._lacking)):
            for text, nodes in notes_of_other.items():
                notes.setdefault(text, set()).update(nodes)
        for target, metadata in other._metadata.items():
            self._metadata.setdefault(target, MdtRequests()).join(metadata)
        for bins in other._series.values():
            self._join_series(bins)
        for name in ("_watched", "_mounts", "_low", "_unproved", "_unspread"):
            getattr(self, name).update(getattr(other, name))
        if other._dirty_bytes is not None:
            self.add_dirty(other._dirty_bytes)
        self.idle.join(other.idle)

    def state(self) -> StateOfFileSystem:
        """Return all amounts as JSON values, which `from_state` restores."""
        return {
            "sums": [(*key, sums.whole()) for key, sums in sorted(self._sums.items())],
            "notes": {text: sorted(nodes) for text, nodes in self._notes.items()},
            "metadata": {target: metadata.state() for target, metadata in self._metadata.items()},
            "series": [*self._series.values()],
            "watched": sorted(self._watched), "mounts": sorted(self._mounts),
            "low": sorted(self._low), "unproved": sorted(self._unproved),
            "unspread": sorted(self._unspread), "dirty_bytes": self._dirty_bytes,
            "lacking": {kind: sorted(nodes) for kind, nodes in self._lacking.items()},
            "idle": self.idle.state(),
        }

    @classmethod
    def from_state(cls, state: StateOfFileSystem, named: Callable[[str], str]) -> FileSystem:
        """Restore what `state` returned; `named`: a node's name there -> its name here."""
        self = cls()
        for source, target, values in state["sums"]:
            self._sums[source, target] = sums = Sums()
            if values:
                sums.add(values)
        self._notes = {text: set(map(named, nodes)) for text, nodes in state["notes"].items()}
        self._metadata = {target: MdtRequests(operations, node_ns, (peak[0], named(peak[1])))
                          for target, (operations, node_ns, peak) in state["metadata"].items()}
        for bins in state["series"]:
            self._join_series(time_bins.Bins(*bins))
        self._watched = set(map(named, state["watched"]))
        self._mounts, self._low = set(state["mounts"]), set(state["low"])
        self._unproved, self._unspread = set(state["unproved"]), set(state["unspread"])
        self._dirty_bytes = state["dirty_bytes"]
        self._lacking = {kind: set(map(named, nodes))
                         for kind, nodes in state.get("lacking", {}).items()}
        self.idle = IdleSums.from_state(state.get("idle"), named)
        return self

    # -- the record -------------------------------------------------------------------------

    def record(self, name: str, tables: list[NodeTable], elapsed_s: float, incomplete: bool,
               fold: Callable[[list[str]], str]) -> FileSystemRecord:
        """
        Make the file system's part of the job's record, docs/reference/record.schema.json.

        `tables`: what each node did, as of tables_of(); `elapsed_s`: of the job.
        `incomplete`: a node, or a part of one's work, is missing.
        """
        by_source, targets = self._sum_by(0), self._sum_by(1)
        lacking = {source: nodes for source, nodes in self._lacking.items() if source in by_source}
        low = self._low.union(lacking)
        llite = by_source.get("llite")
        kind = self.kind()
        other_kind = by_source.get(kind) if kind in other_values.SOURCES else None
        is_low = bool(incomplete or kind in low)
        wrong = (bounds.compute_bounds(llite, bool(incomplete or "llite" in low))
                 if other_kind is None else
                 other_values.make_bounds(kind, other_kind, is_low))
        application = operations = calls = other = None
        notes: list[str] = []
        if llite is not None:
            application = ApplicationIO(**{metric: llite.get(metric, 0) for metric in OF_PROGRAMS},
                                        lower_bound=bool(wrong["too_low"]))
            operations, calls, other = make_operation_rows(llite, self._unspread)
        network = make_network_io(by_source, low, incomplete)
        if other_kind is not None:
            application = other_values.make_application_io(kind, other_kind, is_low)
            operations = other_values.make_operations(kind, other_kind)
            network = other_values.make_network_io(kind, other_kind, is_low)
            notes = other_values.list_notes(other_kind)
            by_source[kind] = other_values.select_others(kind, other_kind)
        watched = None
        if self._series:
            series = time_bins.make_series(self._series.values(), _SERIES)
            watched = RecordSeries(nodes=len(self._watched), began=series.began or 0.0,
                                   every_s=series.every_s, **series.bins)
        return FileSystemRecord(
            name=name, label=name, kind=kind, mounts=sorted(self._mounts), application=application,
            network=network, operations=operations, calls=calls, other=other,
            metadata={target: self._metadata[target].record()
                      for target in sorted(self._metadata)},
            balance=compute_balance(by_source, targets),
            request_pages=make_request_pages(by_source.get("rpc_stats")),
            unproved=sorted(self._unproved),
            cached_read_bytes=(llite or {}).get("cached_read_bytes"),
            dirty_bytes=None if incomplete or "dirty" in self._lacking else self._dirty_bytes,
            series=watched, idle=self.idle.record(),
            targets={target: dict(sorted(targets[target].items())) for target in sorted(targets)},
            per_node=compute_spread(tables), slow_nodes=find_slow_nodes(tables, elapsed_s, fold),
            lower_bound=bool(incomplete or low or wrong["too_low"]), **wrong,
            incomplete=incomplete, low=sorted(low),
            sources={source: SourceTotals(totals=dict(sorted(values.items())),
                                          lower_bound=bool(incomplete or source in low))
                     for source, values in sorted(by_source.items()) if source not in _PLACED},
            notes=[*format_notes(self._notes, fold),
                   *format_notes({f"{source}: none of its files was seen": nodes
                                  for source, nodes in lacking.items()}, fold),
                   *notes, *bounds.list_notes_on_sums(llite or {}, wrong["write_bytes_max"],
                                         None if network is None else network.write_bytes,
                                         self._dirty_bytes)])

    def make_short_record(self, name: str, incomplete: bool) -> PhaseFileSystem:
        """The numbers of programs, and which way they may be wrong, for a part of the job."""
        whole = self.record(name, [], 0.0, incomplete, ", ".join)
        return PhaseFileSystem(
            name=name, label=name, application=whole.application, operations=whole.operations,
            lower_bound=whole.lower_bound, too_low=whole.too_low, too_high=whole.too_high,
            write_bytes_max=whole.write_bytes_max)

    def at_servers(self, name: str, fold: Callable[[list[str]], str],
                           incomplete: bool = False) -> ServersFileSystem:
        """
        Make the record of the storage servers' counts under a job's id (the source "job_stats"),
        also by target, by program and by step.

        `fold`: [target] -> text; `incomplete`: more may come.
        """
        targets, programs, steps = (
            {target: dict(sorted(sums.whole().items()))
             for (source, target), sums in sorted(self._sums.items()) if source == origin}
            for origin in ("job_stats", *AT_SERVERS_BY_PART))
        return make_server_record(name, targets, programs, steps,
                                  incomplete or "job_stats" in self._low,
                                  format_notes({text.partition(": ")[2]: names
                                                for text, names in self._notes.items()}, fold))

    def kind(self) -> str:
        """bounds.LUSTRE, or the name of the source that counted this file system."""
        sources = {source for source, _ in self._sums} | self._low
        return bounds.LUSTRE if not sources or sources & _PLACED else min(sources)

    def _sum_by(self, by: int) -> dict[str, dict[str, int]]:
        """Return {source: metrics} (`by` 0) or {target: metrics} (`by` 1) of all that was added."""
        summed: dict[str, dict[str, int]] = {}
        for key, sums in self._sums.items():
            if key[by]:
                for values in sums.by_names():
                    add_values(summed.setdefault(key[by], {}), values)
        return summed


class IdleSums:
    """The idle I/O of a job's nodes on one file system, of those nodes that reported it."""

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._ms = 0                            # of measured idle time
        self._values: dict[str, int] = {}       # metric -> expected, in thousandths

    def add(self, node: str, seconds: float, values: Mapping[str, float],
            elapsed_s: float) -> None:
        """Add a node with `values` in `seconds` of idle time, which was in the job for `elapsed_s`.
        """
        self._nodes.add(node)
        self._ms += round(seconds * 1000)
        share = _PART * elapsed_s / seconds
        for metric, value in values.items():
            expected = round(value * share)
            if expected < _IMPOSSIBLE:
                self._values[metric] = self._values.get(metric, 0) + expected

    def join(self, other: IdleSums) -> None:
        """Add the sums of other nodes."""
        self._nodes |= other._nodes
        self._ms += other._ms
        for metric, value in other._values.items():
            self._values[metric] = self._values.get(metric, 0) + value

    def state(self) -> StoredIdle | None:
        """
        Return the sums as JSON values for `from_state`; None if no node reported its idle I/O.
        """
        return (sorted(self._nodes), self._ms, self._values) if self._nodes else None

    @classmethod
    def from_state(cls, state: StoredIdle | None, named: Callable[[str], str]) -> IdleSums:
        """Restore what `state` returned; `named`: a node's name there -> its name here."""
        self = cls()
        if state is not None:
            nodes, self._ms, values = state
            self._nodes, self._values = set(map(named, nodes)), dict(values)
        return self

    def record(self) -> IdleIO | None:
        """This file system's part of the record; None if no node has data."""
        if not self._nodes:
            return None
        whole = {metric: (value + _PART // 2) // _PART
                 for metric, value in sorted(self._values.items())}
        return IdleIO(nodes=len(self._nodes), seconds=round(self._ms / 1000, 3),
                      expected={metric: value for metric, value in whole.items() if value})


class MdtRequests:
    """The requests to one MDT."""

    def __init__(self, operations: Mapping[str, int] | Iterable[tuple[str, int]] = (),
                 node_ns: int = 0, peak: tuple[float, str] = (0.0, "")) -> None:
        self.operations = dict(operations)      # md_stats name -> count
        self.node_ns = node_ns
        self.peak = peak                        # requests a second of one node, and which

    def add(self, values: Mapping[str, int], node: str, elapsed_s: float) -> None:
        """Add the requests of one node in `elapsed_s`."""
        add_values(self.operations, values)
        node_ns = round(elapsed_s * 1e9)
        if node_ns > 0:
            self.node_ns += node_ns
            self.peak = max(self.peak, (_count_mdt_requests(values) / elapsed_s, node))

    def join(self, other: MdtRequests) -> None:
        """Add the requests of other nodes."""
        add_values(self.operations, other.operations)
        self.node_ns += other.node_ns
        self.peak = max(self.peak, other.peak)

    def state(self) -> StoredRequests:
        """Return the arguments of the constructor."""
        return self.operations, self.node_ns, self.peak

    def record(self) -> MetadataRequests:
        """Make the record of the requests: counts, the mean rate of a node, and the peak."""
        requests, rate, node = _count_mdt_requests(self.operations), *self.peak
        seconds = self.node_ns / 1e9
        return MetadataRequests(
            operations=dict(sorted(self.operations.items())), requests=requests,
            per_second_per_node=round(requests / seconds, 3) if seconds else None,
            peak=MetadataPeak(node=node, per_second=round(rate, 3)) if node else None)


def _count_mdt_requests(values: Mapping[str, int]) -> int:
    """Metadata operations that went to the MDT, of md_stats `values`."""
    return sum(values.values()) - sum([values[name] for name in LOCAL_MD_STATS if name in values])
