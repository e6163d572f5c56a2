"""
What is known of one file system: the gains of all nodes added up, and their place in the record.

Whatever is kept here is a sum, a set, or the largest or smallest of its kind: parts of a job can be
added up apart and joined in any order, and are the same to the last byte.
"""

from __future__ import annotations

from iostats.totals import bounds, time_bins
from iostats.totals.file_system_record import (
    at_servers,
    balance_of,
    network_of,
    notes_of,
    operations_of_record,
    request_pages_of,
)
from iostats.totals.idle_io import IdleSums
from iostats.totals.llite_values import OF_PROGRAMS, in_short, made_once
from iostats.totals.mdt_requests import MdtRequests
from iostats.totals.record import (
    ApplicationIO,
    FileSystemRecord,
    PhaseFileSystem,
    RecordSeries,
    SourceTotals,
)
from iostats.totals.sums import Sums, added

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from typing import Any

    from iostats.totals.delta import Delta
    from iostats.totals.record import NodeSpread, ServersFileSystem

# What these counted has places of its own in the record.
_PLACED = frozenset(("llite", "osc", "mdc", "md_stats", "rpc_stats", "job_stats"))
_SERIES = ("read_bytes", "write_bytes", "operations")
# What there is of each mount; mdc is of osc's layer.
_OF_EACH_MOUNT = ("llite", "osc", "md_stats", "rpc_stats", "dirty")
IMPOSSIBLE = 2**62                     # bytes or us: no node gains as much in a job


class FileSystem:
    """
    What is known of one file system.

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

    def add(self, delta: Delta, node: str, short: dict[str, dict[str, int]],
            metadata: dict[tuple[str, str], dict[str, int]]) -> None:
        """
        Add one Delta; what the node did goes to `short` ({file system: metric -> integer}), what it
        asked of MDTs to `metadata` ({(file system, MDT): {md_stats name: count}}).
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
            values = self._possible(delta, node)
        if delta.source == "llite":
            values = made_once(values)
            added(short.setdefault(delta.file_system, {}), in_short(values))
        elif delta.source == "md_stats":
            added(metadata.setdefault((delta.file_system, delta.target), {}), values)
        sums = self._sums.get((delta.source, delta.target))
        if sums is None:
            sums = self._sums[delta.source, delta.target] = Sums()
        if sums.add(values) and delta.source == "llite":
            self._unspread.update(metric for metric in values
                                  if metric.endswith("_us") and f"{metric}2" not in values)

    def add_sums(self, source: str, target: str, values: dict[str, int]) -> None:
        """Add to what `add` has taken before of this source and target, under these names."""
        self._sums[source, target].add(values)

    def add_note(self, text: str, node: str) -> None:
        """Add a note of one node."""
        self._notes.setdefault(text, set()).add(node)

    def _possible(self, delta: Delta, node: str) -> dict[str, int]:
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
        """Add what one node asked of one MDT (md_stats), by all its mounts."""
        self._metadata.setdefault(target, MdtRequests()).add(values, node, elapsed_s)

    def add_series(self, one: Any, shift_s: float, node: str) -> None:
        """Add what one node's `watch` saw; `shift_s`: from its clock to the server's."""
        self._watched.add(node)
        self._join_series(time_bins.bins_of(one.every_s, one.began + shift_s,
                                            [getattr(one, metric) for metric in _SERIES]))

    def _join_series(self, bins: time_bins.Bins) -> None:
        family = time_bins.family(bins)
        known = self._series.get(family)
        self._series[family] = time_bins.joined(*([bins] if known is None else [known, bins]))

    def add_mounts(self, points: Iterable[str]) -> None:
        """Add mount points of one node."""
        self._mounts.update(points)

    def note_lacking(self, kinds: Container[str], node: str) -> None:
        """
        Note what one node with this file system has not reported, of what there is of each mount.

        `kinds`: what it has: names of sources, and "dirty".
        """
        for kind in _OF_EACH_MOUNT:
            if kind not in kinds:
                self._lacking.setdefault(kind, set()).add(node)

    def add_dirty(self, dirty_bytes: int) -> None:
        """Add what one node had not sent at the end."""
        self._dirty_bytes = (self._dirty_bytes or 0) + dirty_bytes

    # -- joining, and the way between processes -----------------------------------------------

    def join(self, other: FileSystem) -> None:
        """Add all that another FileSystem knows."""
        for key, sums in other._sums.items():
            mine = self._sums.setdefault(key, Sums())
            for values in sums.by_names():
                if values:
                    mine.add(values)
        for mine_of, others in ((self._notes, other._notes), (self._lacking, other._lacking)):
            for text, nodes in others.items():
                mine_of.setdefault(text, set()).update(nodes)
        for target, metadata in other._metadata.items():
            self._metadata.setdefault(target, MdtRequests()).join(metadata)
        for bins in other._series.values():
            self._join_series(bins)
        for name in ("_watched", "_mounts", "_low", "_unproved", "_unspread"):
            getattr(self, name).update(getattr(other, name))
        if other._dirty_bytes is not None:
            self.add_dirty(other._dirty_bytes)
        self.idle.join(other.idle)

    def state(self) -> dict[str, Any]:
        """All that is known, as what JSON can carry; `from_state` makes the same of it."""
        return {
            "sums": [[*key, sums.whole()] for key, sums in sorted(self._sums.items())],
            "notes": {text: sorted(nodes) for text, nodes in self._notes.items()},
            "metadata": {target: list(metadata.state())
                         for target, metadata in self._metadata.items()},
            "series": [list(bins) for bins in self._series.values()],
            "watched": sorted(self._watched), "mounts": sorted(self._mounts),
            "low": sorted(self._low), "unproved": sorted(self._unproved),
            "unspread": sorted(self._unspread), "dirty_bytes": self._dirty_bytes,
            "lacking": {kind: sorted(nodes) for kind, nodes in self._lacking.items()},
            "idle": self.idle.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], named: Callable[[str], str]) -> FileSystem:
        """What `state` was made of; `named`: a node's name there -> its name here."""
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

    def record(self, name: str, per_node: dict[str, NodeSpread], incomplete: bool,
               fold: Callable[[list[str]], str]) -> FileSystemRecord:
        """
        Its part of the job's record, docs/record.schema.json.

        `incomplete`: a node, or a part of one's work, is missing.
        """
        by_source, targets = self._summed(0), self._summed(1)
        lacking = {source: nodes for source, nodes in self._lacking.items() if source in by_source}
        low = self._low.union(lacking)
        llite = by_source.get("llite")
        wrong = bounds.of_sums(llite, bool(incomplete or "llite" in low))
        application = operations = calls = other = None
        if llite is not None:
            application = ApplicationIO(**{metric: llite.get(metric, 0) for metric in OF_PROGRAMS},
                                        lower_bound=bool(wrong["too_low"]))
            operations, calls, other = operations_of_record(llite, self._unspread)
        network = network_of(by_source, low, incomplete)
        watched = None
        if self._series:
            watched = RecordSeries(nodes=len(self._watched), **time_bins.shown(
                self._series.values(), _SERIES).as_dict())
        return FileSystemRecord(
            name=name, label=name, mounts=sorted(self._mounts), application=application,
            network=network, operations=operations, calls=calls, other=other,
            metadata={target: self._metadata[target].record()
                      for target in sorted(self._metadata)},
            balance=balance_of(by_source, targets),
            request_pages=request_pages_of(by_source.get("rpc_stats")),
            unproved=sorted(self._unproved),
            cached_read_bytes=(llite or {}).get("cached_read_bytes"),
            dirty_bytes=None if incomplete or "dirty" in self._lacking else self._dirty_bytes,
            series=watched, idle=self.idle.record(),
            targets={target: dict(sorted(targets[target].items())) for target in sorted(targets)},
            per_node=per_node,
            lower_bound=bool(incomplete or low or wrong["too_low"]), **wrong,
            incomplete=incomplete, low=sorted(low),
            sources={source: SourceTotals(totals=dict(sorted(values.items())),
                                          lower_bound=bool(incomplete or source in low))
                     for source, values in sorted(by_source.items()) if source not in _PLACED},
            notes=[*notes_of(self._notes, fold),
                   *notes_of({f"{source}: none of its files was seen": nodes
                              for source, nodes in lacking.items()}, fold),
                   *bounds.notes_of_sums(llite or {}, wrong["write_bytes_max"],
                                         None if network is None else network.write_bytes,
                                         self._dirty_bytes)])

    def in_short(self, name: str, incomplete: bool) -> PhaseFileSystem:
        """The numbers of programs, and which way they may be wrong, for a part of the job."""
        whole = self.record(name, {}, incomplete, ", ".join)
        return PhaseFileSystem(
            name=name, label=name, application=whole.application, operations=whole.operations,
            lower_bound=whole.lower_bound, too_low=whole.too_low, too_high=whole.too_high,
            write_bytes_max=whole.write_bytes_max)

    def at_servers(self, name: str, fold: Callable[[list[str]], str],
                   incomplete: bool = False) -> ServersFileSystem:
        """
        What storage servers counted under a job's id (the source "job_stats"), by target too.

        `fold`: [target] -> text; `incomplete`: more may come.
        """
        targets = {target: dict(sorted(sums.whole().items()))
                   for (source, target), sums in sorted(self._sums.items())
                   if source == "job_stats"}
        return at_servers(name, targets, incomplete or "job_stats" in self._low,
                          notes_of({text.partition(": ")[2]: names
                                    for text, names in self._notes.items()}, fold))

    def _summed(self, by: int) -> dict[str, dict[str, int]]:
        """{source: metrics} (`by` 0) or {target: metrics} (`by` 1) of all that was added."""
        found: dict[str, dict[str, int]] = {}
        for key, sums in self._sums.items():
            if key[by]:
                for values in sums.by_names():
                    added(found.setdefault(key[by], {}), values)
        return found
