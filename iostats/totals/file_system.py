"""
What is known of one file system: the gains of all nodes added up, and their place in the record.

Whatever is kept here is a sum, a set, or the largest or smallest of its kind: parts of a job can be
added up apart and joined in any order, and are the same to the last byte.
"""

from __future__ import annotations

from functools import lru_cache
from operator import add

from iostats.lustre.metrics import (
    LOCAL_MD_STATS,
    MADE_OF,
    OPERATIONS,
    is_call,
    is_operation,
)
from iostats.totals import bounds, time_bins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from typing import Any

    from iostats.totals.delta import Delta

_LAYERS = {"application": ("llite",), "network": ("osc", "mdc")}
_APPLICATION = ("read_bytes", "write_bytes", "read_calls", "write_calls")
_NETWORK = ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs")
_SERIES = ("read_bytes", "write_bytes", "operations")
# What is there of each mount; mdc is of the layer that osc tells of.
_TOLD = ("llite", "osc", "md_stats", "rpc_stats", "dirty")
IMPOSSIBLE = 2**62                     # bytes or us: no node gains as much in a job
_FIELDS = ("", "_us", "_us2")           # what metrics_of makes of one counter
_PARTS = frozenset(part for parts in MADE_OF.values() for part in parts)


class FileSystem:
    """What is known of one file system."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], _Sums] = {}   # (source, target) -> _Sums
        self._notes: dict[str, set[str]] = {}           # text -> {node}
        self._metadata: dict[str, _Metadata] = {}       # MDT -> _Metadata
        self._series: dict[float, time_bins.Bins] = {}     # family of widths -> Bins, of `watch`
        self._watched: set[str] = set()     # nodes that they are of
        self._mounts: set[str] = set()
        self._low: set[str] = set()         # sources with a lower bound
        self._unproved: set[str] = set()    # sources with a file whose start_time proves nothing
        self._unspread: set[str] = set()    # llite metrics without a sum of squares on some node
        self._dirty_bytes: int | None = None    # written, and still in the nodes' memory at the end
        # source, or "dirty" -> {node that has this file system, and told nothing of that}
        self._lacking: dict[str, set[str]] = {}

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
            added(short.setdefault(delta.file_system, {}), _in_short(values))
        elif delta.source == "md_stats":
            added(metadata.setdefault((delta.file_system, delta.target), {}), values)
        sums = self._sums.get((delta.source, delta.target))
        if sums is None:
            sums = self._sums[delta.source, delta.target] = _Sums()
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
        """The gains of `delta` without those that nobody can have had; it is noted."""
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
        metadata = self._metadata.setdefault(target, _Metadata())
        added(metadata.operations, values)
        node_ns = round(elapsed_s * 1e9)
        if node_ns > 0:
            metadata.node_ns += node_ns
            metadata.peak = max(metadata.peak, (_md_requests(values) / elapsed_s, node))

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

    def add_told(self, told: Container[str], node: str) -> None:
        """Add of which kinds one node that has this file system has told: sources, and "dirty"."""
        for kind in _TOLD:
            if kind not in told:
                self._lacking.setdefault(kind, set()).add(node)

    def add_dirty(self, dirty_bytes: int) -> None:
        """Add what one node had not sent at the end."""
        self._dirty_bytes = (self._dirty_bytes or 0) + dirty_bytes

    # -- joining, and the way between processes -----------------------------------------------

    def join(self, other: FileSystem) -> None:
        """Add all that another FileSystem knows."""
        for key, sums in other._sums.items():
            mine = self._sums.setdefault(key, _Sums())
            for values in sums.by_names():
                if values:
                    mine.add(values)
        for mine_of, others in ((self._notes, other._notes), (self._lacking, other._lacking)):
            for text, nodes in others.items():
                mine_of.setdefault(text, set()).update(nodes)
        for target, metadata in other._metadata.items():
            self._metadata.setdefault(target, _Metadata()).join(metadata)
        for bins in other._series.values():
            self._join_series(bins)
        for name in ("_watched", "_mounts", "_low", "_unproved", "_unspread"):
            getattr(self, name).update(getattr(other, name))
        if other._dirty_bytes is not None:
            self.add_dirty(other._dirty_bytes)

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
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], named: Callable[[str], str]) -> FileSystem:
        """What `state` was made of; `named`: a node's name there -> its name here."""
        self = cls()
        for source, target, values in state["sums"]:
            self._sums[source, target] = sums = _Sums()
            if values:
                sums.add(values)
        self._notes = {text: set(map(named, nodes)) for text, nodes in state["notes"].items()}
        self._metadata = {target: _Metadata(operations, node_ns, (peak[0], named(peak[1])))
                          for target, (operations, node_ns, peak) in state["metadata"].items()}
        for bins in state["series"]:
            self._join_series(time_bins.Bins(*bins))
        self._watched = set(map(named, state["watched"]))
        self._mounts, self._low = set(state["mounts"]), set(state["low"])
        self._unproved, self._unspread = set(state["unproved"]), set(state["unspread"])
        self._dirty_bytes = state["dirty_bytes"]
        self._lacking = {kind: set(map(named, nodes))
                         for kind, nodes in state.get("lacking", {}).items()}
        return self

    # -- the record -------------------------------------------------------------------------

    def record(self, name: str, per_node: dict[str, Any], incomplete: bool,
               fold: Callable[[list[str]], str]) -> dict[str, Any]:
        """
        Its part of the job's record, docs/record.schema.json.

        `incomplete`: a node, or a part of one's work, is missing.
        """
        by_source, targets = self._summed(0), self._summed(1)
        lacking = {source: nodes for source, nodes in self._lacking.items() if source in by_source}
        low = self._low.union(lacking)
        llite = by_source.get("llite")
        application = operations = calls = other = None
        if llite is not None:
            application = {metric: llite.get(metric, 0) for metric in _APPLICATION}
            operations, calls, other = _operations(llite, self._unspread)
        layers: dict[str, Any] = {"application": application,
                                  "network": _network(by_source, low)}
        for layer, sources in _LAYERS.items():
            if layers[layer] is not None:
                if layer == "network" and layers[layer]["read_bytes"] is None:
                    sources += ("rpc_stats",)        # the RPCs are from there, see _network
                layers[layer]["lower_bound"] = bool(incomplete or low.intersection(sources))
        wrong = bounds.of_sums(llite, bool(incomplete or "llite" in low))
        if application is not None:
            application["lower_bound"] = bool(wrong["too_low"])
        watched = None
        if self._series:
            watched = {"nodes": len(self._watched),
                       **time_bins.shown(self._series.values(), _SERIES).as_dict()}
        return {
            "name": name, "label": name, "mounts": sorted(self._mounts), **layers,
            "operations": operations, "calls": calls, "other": other,
            "metadata": {target: self._metadata[target].record()
                         for target in sorted(self._metadata)},
            "balance": _balance(by_source, targets),
            "request_pages": _request_pages(by_source.get("rpc_stats")),
            "unproved": sorted(self._unproved),
            "cached_read_bytes": (llite or {}).get("cached_read_bytes"),
            "dirty_bytes": None if incomplete or "dirty" in self._lacking else self._dirty_bytes,
            "series": watched,
            "targets": {target: dict(sorted(targets[target].items()))
                        for target in sorted(targets)},
            "per_node": per_node,
            "lower_bound": bool(incomplete or low or wrong["too_low"]), **wrong,
            "incomplete": incomplete, "low": sorted(low),
            "notes": [*notes_of(self._notes, fold), *notes_of(
                {f"{source}: none of its files was seen": nodes
                 for source, nodes in lacking.items()}, fold),
                      *bounds.notes_of_sums(llite or {}, wrong["write_bytes_max"],
                                            (layers["network"] or {}).get("write_bytes"),
                                            self._dirty_bytes)],
        }

    def in_short(self, name: str, incomplete: bool) -> dict[str, Any]:
        """The numbers of programs, and which way they may be wrong, for a part of the job."""
        whole = self.record(name, {}, incomplete, ", ".join)
        return {key: whole[key] for key in ("name", "label", "application", "operations",
                                            "lower_bound", "too_low", "too_high",
                                            "write_bytes_max")}

    def at_servers(self, name: str, fold: Callable[[list[str]], str],
                   incomplete: bool = False) -> dict[str, Any]:
        """
        What storage servers counted under a job's id (the source "job_stats"), by target too.

        `fold`: [target] -> text; `incomplete`: more may come.
        """
        targets = {target: dict(sorted(sums.whole().items()))
                   for (source, target), sums in sorted(self._sums.items())
                   if source == "job_stats"}
        total: dict[str, int] = {}
        for values in targets.values():
            added(total, values)
        calls = set(filter(is_call, total))
        return {"name": name, "label": name,
                **{metric: total.get(metric, 0) for metric in _NETWORK},
                **{f"{way}_seconds": _seconds(total.get(f"{way}_us")) for way in ("read", "write")},
                "operations": {call: {"count": total[call],
                                      "seconds": _seconds(total.get(f"{call}_us"))}
                               for call in sorted(calls)},
                "targets": targets, "lower_bound": incomplete or "job_stats" in self._low,
                "notes": notes_of({text.partition(": ")[2]: names
                                   for text, names in self._notes.items()}, fold)}

    def _summed(self, by: int) -> dict[str, dict[str, int]]:
        """{source: metrics} (`by` 0) or {target: metrics} (`by` 1) of all that was added."""
        found: dict[str, dict[str, int]] = {}
        for key, sums in self._sums.items():
            if key[by]:
                for values in sums.by_names():
                    added(found.setdefault(key[by], {}), values)
        return found


class _Sums:
    """
    Metrics added up; those with the same names go together, which nodes of one job mostly have.

    Adding two lists by operator.add takes a fifth of the time of adding two dicts (and int.__add__
    three times as long as that), and with all nodes at the door in the same second that is what the
    server does.
    """

    _MOST = 64                      # different sets of names; more are added one by one

    def __init__(self) -> None:
        self._lists: dict[tuple[str, ...], list[int]] = {}          # (names) -> [sums]
        self._rest: dict[str, int] = {}     # metric -> sum

    def add(self, values: dict[str, int]) -> bool:
        """Add metric -> integer; True when these names were not seen before."""
        names = tuple(values)
        sums = self._lists.get(names)
        if sums is not None:
            self._lists[names] = list(map(add, sums, values.values()))
            return False
        if len(self._lists) < self._MOST:
            self._lists[names] = list(values.values())
        else:
            added(self._rest, values)
        return True

    def by_names(self) -> list[dict[str, int]]:
        """[metric -> sum], to be added up."""
        return [*(dict(zip(names, sums)) for names, sums in self._lists.items()), self._rest]

    def whole(self) -> dict[str, int]:
        """Metric -> sum."""
        found: dict[str, int] = {}
        for values in self.by_names():
            added(found, values)
        return found


class _Metadata:
    """What one MDT was asked."""

    def __init__(self, operations: Mapping[str, int] | Iterable[tuple[str, int]] = (),
                 node_ns: int = 0, peak: tuple[float, str] = (0.0, "")) -> None:
        self.operations = dict(operations)      # md_stats name -> count
        self.node_ns = node_ns
        self.peak = peak                        # requests a second of one node, and which

    def join(self, other: _Metadata) -> None:
        """Add what it was asked by other nodes."""
        added(self.operations, other.operations)
        self.node_ns += other.node_ns
        self.peak = max(self.peak, other.peak)

    def state(self) -> tuple[dict[str, int], int, list[Any]]:
        """What its constructor takes."""
        return self.operations, self.node_ns, list(self.peak)

    def record(self) -> dict[str, Any]:
        """What it was asked, and how fast, by a node on average and at the peak."""
        requests, rate, node = _md_requests(self.operations), *self.peak
        seconds = self.node_ns / 1e9
        return {"operations": dict(sorted(self.operations.items())), "requests": requests,
                "per_second_per_node": round(requests / seconds, 3) if seconds else None,
                "peak": {"node": node, "per_second": round(rate, 3)} if node else None}


def added(sums: dict[str, int], values: Mapping[str, int]) -> None:
    """Add metric -> integer to `sums`."""
    if not sums:
        sums.update(values)
        return
    for metric, value in values.items():
        try:
            sums[metric] += value
        except KeyError:                  # once for each metric of a job, so cheaper than get()
            sums[metric] = value


def notes_of(notes: Mapping[str, Iterable[str]], fold: Callable[[list[str]], str]) -> list[str]:
    """[line] of {text: {node}}; `fold`: [node name] -> text."""
    return [f"{fold(sorted(nodes))}: {text}" for text, nodes in sorted(notes.items())]


def made_once(values: dict[str, int]) -> dict[str, int]:
    """One mount's `values` with the largest of what MADE_OF names under the one name."""
    if values.keys().isdisjoint(_PARTS):
        return values
    for whole, parts in MADE_OF.items():
        found = [part for part in parts if part in values]
        if found and found != [whole]:
            largest = max(found, key=values.__getitem__)
            kept = {whole + end: values[largest + end] for end in _FIELDS
                    if largest + end in values}
            values = dict(values)
            for part in parts:
                for end in _FIELDS:
                    values.pop(part + end, None)
            values.update(kept)
    return values


def is_made_of_one(names: Iterable[str]) -> bool:
    """Whether made_once makes the same of all values under these names: one part of each whole."""
    found = set(names)
    return all(len(found.intersection(parts)) <= 1 for parts in MADE_OF.values())


def _in_short(values: dict[str, int]) -> dict[str, int]:
    """What is kept of one node's llite values: bytes, calls, and counts of operations."""
    return {metric: values[metric] for metric in short_of(tuple(values))}


@lru_cache(maxsize=64)                  # most nodes of a job have the same names
def short_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `names` that are kept of one node's llite values, in the order of their names."""
    return tuple(sorted(name for name in names if name in _APPLICATION or is_operation(name)))


def operations_of(values: dict[str, int]) -> dict[str, int]:
    """{operation: count} of one mount's llite `values`."""
    return {metric: count for metric, count in _in_short(made_once(values)).items()
            if metric not in _APPLICATION}


def _operations(llite: dict[str, int],
                unspread: set[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """
    ({operation: row}, {"read", "write": row}, {metric: value} of all else that is no bytes).

    A row has `count`, `seconds`, and `stddev_s`: the standard deviation of one call's time; each
    None where the release, or some node, does not tell.
    """
    operations, calls, other = {}, {}, {}
    for metric, value in llite.items():
        if metric in _APPLICATION or metric.endswith(("_us", "_us2")):
            continue
        if is_operation(metric):
            operations[metric] = _row(llite, metric, unspread)
        elif metric in ("read", "write"):
            calls[metric] = _row(llite, metric, unspread)
        else:
            other[metric] = value
            if f"{metric}_us" in llite:
                other[f"{metric}_us"] = llite[f"{metric}_us"]
    order = {name: place for place, name in enumerate(OPERATIONS)}
    ordered = sorted(operations, key=lambda name: (order.get(name, len(order)), name))
    return ({name: operations[name] for name in ordered}, dict(sorted(calls.items())),
            dict(sorted(other.items())))


def _row(llite: dict[str, int], metric: str, unspread: set[str]) -> dict[str, Any]:
    count, us, us2 = (llite.get(metric + part) for part in ("", "_us", "_us2"))
    stddev_s = None
    if count and us is not None and us2 is not None and f"{metric}_us" not in unspread:
        stddev_s = round(max(0.0, us2 / count - (us / count) ** 2) ** 0.5 / 1e6, 9)
    return {"count": count, "seconds": None if us is None else round(us / 1e6, 6),
            "stddev_s": stddev_s}


def _seconds(us: int | None) -> float | None:
    return None if us is None else round(us / 1e6, 6)


def _md_requests(values: dict[str, int]) -> int:
    """Metadata operations that went to the MDT, of md_stats `values`."""
    return sum(values.values()) - sum([values[name] for name in LOCAL_MD_STATS if name in values])


def _balance(by_source: dict[str, dict[str, int]],
             targets: dict[str, dict[str, int]]) -> dict[str, Any] | None:
    """How the bytes were spread over the OSTs; None where the network was not read."""
    if "osc" not in by_source:
        return None
    moved = {target: values.get("read_bytes", 0) + values.get("write_bytes", 0)
             for target, values in targets.items() if target.startswith("OST")}
    busiest = max(sorted(moved), key=moved.__getitem__, default="")
    total = sum(moved.values())
    return {"osts": len(moved), "used": sum(1 for value in moved.values() if value),
            "busiest": busiest if total else "",
            "busiest_share": round(moved[busiest] / total, 6) if total else None}


def _request_pages(rpcs: dict[str, int] | None) -> dict[str, dict[str, int]] | None:
    """{"read", "write": {pages: RPCs}}: how large the bulk requests were; None if not read."""
    if rpcs is None:
        return None
    pages: dict[str, dict[str, int]] = {"read": {}, "write": {}}
    for metric in sorted(rpcs, key=lambda metric: (len(metric), metric)):
        way, _, size = metric.partition("_rpcs_pages_")
        if way in pages and size:
            pages[way][size] = rpcs[metric]
    return pages


def _network(by_source: dict[str, dict[str, int]], low: set[str]) -> dict[str, Any] | None:
    """Bytes and RPCs of osc and mdc; the bytes None where only rpc_stats could be read."""
    read = [by_source[source] for source in _LAYERS["network"] if source in by_source]
    if read and ("osc" in by_source or "osc" not in low):      # mdc alone is not the network
        return {metric: sum(layer.get(metric, 0) for layer in read) for metric in _NETWORK}
    rpcs = by_source.get("rpc_stats")
    if rpcs is None:
        return None
    return {"read_bytes": None, "write_bytes": None, **{
        f"{way}_rpcs": sum(count for metric, count in rpcs.items()
                           if metric.startswith(f"{way}_rpcs_pages_"))
        for way in ("read", "write")}}
