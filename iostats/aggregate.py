"""
Totals of a job: the deltas of all nodes, added up once each.

A report is (job, node, seq).  The same one again is known and not added again; another one of the
same node is added when its time does not overlap (a job may be measured in parts) and is
refused when it does, because it would count the same work twice.

What is not known is None, never 0; what may be too low says `lower_bound`, and why.
"""

from collections import namedtuple
from functools import lru_cache

from iostats.counters import LOCAL_MD_STATS, MADE_OF, NOT_OPERATIONS, OPERATIONS
from iostats.series import Series

SCHEMA = 1

Outcome = namedtuple("Outcome", "counted why")
Outcome.__doc__ = """
What became of a report.

Attributes:
    counted: its numbers are in the totals (now, or since an earlier time).
    why: a sentence where that is not plain; "" else.
"""

_LAYERS = {"application": ("llite",), "network": ("osc", "mdc")}
_APPLICATION = ("read_bytes", "write_bytes", "read_calls", "write_calls")
_NETWORK = ("read_bytes", "write_bytes", "read_rpcs", "write_rpcs")
_SERIES = ("read_bytes", "write_bytes", "operations")
_FIELDS = ("", "_us", "_us2")           # what metrics_of makes of one counter
_OVERLAP_S = 1.0                    # the wall clocks of two reports of a node agree to this
_EQUAL_S = 1e-3                     # seconds since boot are rounded, and have no other error


Report = namedtuple("Report", "node seq boot_id user reason ended elapsed_s clock_ahead_s mounts "
                              "deltas dirty_bytes other_jobs phases series uptime_s",
                    defaults=(None, None, None, None, 0.0))
Report.__doc__ = """
What a node says of its work, as in docs/wire.md; the server has it as a type of its own.

Attributes:
    dirty_bytes: {file system: bytes} not yet sent at the end; None where not known.
    other_jobs: how many other jobs were on the node; None where not known.
    phases: [with name, elapsed_s, deltas]; None for a job in one piece.
    uptime_s: seconds since boot at the end, by the clock that nobody sets; 0 where not known.
    series: {file system: with began, every_s, read_bytes, write_bytes, operations}, of `watch`.
"""


class _FileSystem:
    """What is known of one file system."""

    def __init__(self):
        self.sums = {}              # (source, target) -> _Sums
        self.mounts = set()
        self.notes = {}             # text -> [node]
        self.low = set()            # sources with a lower bound
        self.unproved = set()       # sources with a file whose start_time proves nothing
        self.unspread = set()       # llite metrics without a sum of squares on some node
        self.metadata = {}          # MDT -> _Metadata
        self.series = None          # of `watch`
        self.watched = set()        # nodes that it is of
        self.dirty_bytes = None     # written, and still in the nodes' memory at the end

    def summed(self, by):
        """{source: metrics} (`by` 0) or {target: metrics} (`by` 1) of all that was added."""
        found = {}
        for key, sums in self.sums.items():
            if key[by]:
                for values in sums.by_names():
                    _add(found.setdefault(key[by], {}), values)
        return found

    def add_series(self, one, shift_s, node):
        """Add what one node's `watch` saw; `shift_s`: from its clock to the server's."""
        if self.series is None:
            self.series = Series(one.every_s, _SERIES, one.began + shift_s)
        watched = Series(one.every_s, _SERIES, one.began)
        watched.bins = {metric: list(getattr(one, metric)) for metric in _SERIES}
        self.series.add_all(watched, shift_s)
        self.watched.add(node)

    def add_metadata(self, target, values, node, elapsed_s):
        """Add what one node asked of one MDT (md_stats), by all its mounts."""
        metadata = self.metadata.setdefault(target, _Metadata())
        _add(metadata.operations, values)
        if elapsed_s > 0:
            metadata.node_seconds += elapsed_s
            metadata.peak = max(metadata.peak, (_md_requests(values) / elapsed_s, node))


class _Sums:
    """
    Metrics added up; those with the same names go together, which nodes of one job mostly have.

    Adding two lists takes a third of the time of adding two dicts, and with all nodes at the door
    in the same second that is what the server does.
    """

    _MOST = 64                      # different sets of names; more are added one by one

    def __init__(self):
        self._lists = {}            # (names) -> [sums]
        self._rest = {}             # metric -> sum

    def add(self, values):
        """Add metric -> integer; True when these names were not seen before."""
        names = tuple(values)
        sums = self._lists.get(names)
        if sums is not None:
            self._lists[names] = list(map(int.__add__, sums, values.values()))
            return False
        if len(self._lists) < self._MOST:
            self._lists[names] = list(values.values())
        else:
            _add(self._rest, values)
        return True

    def by_names(self):
        """[metric -> sum], to be added up."""
        return [*(dict(zip(names, sums)) for names, sums in self._lists.items()), self._rest]


_Part = namedtuple("_Part", "seq boot_id started ended started_up ended_up")


def _part_of(report):
    return _Part(report.seq, report.boot_id, report.ended - report.elapsed_s, report.ended,
                 report.uptime_s - report.elapsed_s, report.uptime_s)


def _overlap(a, b):
    """True when two reports of one node, of one boot, are of the same time."""
    if a.ended_up and b.ended_up:
        return a.started_up < b.ended_up - _EQUAL_S and b.started_up < a.ended_up - _EQUAL_S
    return a.started < b.ended - _OVERLAP_S and b.started < a.ended - _OVERLAP_S


class _Metadata:
    """What one MDT was asked."""

    def __init__(self):
        self.operations = {}        # md_stats name -> count
        self.node_seconds = 0.0
        self.peak = (0.0, "")       # requests a second of one node, and which


class Totals:
    """
    All that the server knows of a job.

    Attributes:
        job: the job's id.
        expected: names of its nodes, or how many there are, or None when that is not known.
    """

    def __init__(self, job, expected=None, fold=", ".join, pack=dict, unpack=dict,
                 max_nodes=100_000):
        """
        `fold`: [node name] -> text, such as "nid[00001-00004]".  `pack`, `unpack`: how a node's
        short record is kept (an encoder saves memory with many nodes).
        """
        self.job, self.expected = job, expected
        self._by_short_name = _by_short_name(expected if isinstance(expected, frozenset) else ())
        self._fold, self._pack, self._unpack, self._max_nodes = fold, pack, unpack, max_nodes
        self._nodes = {}            # node -> its short record, packed
        self._without = {}          # node -> why it has no numbers
        self._gaps = set()          # nodes with numbers, and a part without
        self._parts = {}            # node -> [_Part]
        self._file_systems = {}
        self._notes = {}            # text -> [node]
        self._refused = {}          # why -> count
        self._refused_nodes = {}    # node, as a refused message named it -> why
        self._shared = {}           # node -> how many other jobs were there
        self._node_seconds = 0.0
        self._phases = {}           # name -> (Totals of this part, {node: seconds})
        self._started = self._ended = self._user = None

    # -- taking reports ------------------------------------------------------------------

    def add(self, report):
        """
        Add one node's report; the Outcome.

        `report` is a Report, or has its attributes.
        """
        node = self._name_of(report.node)
        parts = self._parts.get(node, ())
        if any(part.seq == report.seq for part in parts):
            return Outcome(True, "this report was counted before")
        refusal = self._refusal(report, node, parts)
        if refusal:
            self.refuse(refusal[0], report.node)
            return Outcome(False, refusal[1])
        if report.reason:
            if node not in self._nodes:
                self._without[node] = report.reason
            elif report.reason != "no start":          # which is a `stop` too many
                self._gaps.add(node)
                self._note(f"a later part of its work has no numbers: {report.reason}", node)
            return Outcome(True, "")
        started = report.ended - report.elapsed_s
        if any(part.boot_id != report.boot_id for part in parts):
            self._note("two nodes report under one name, or it was booted in between", node)
        self._parts.setdefault(node, []).append(_part_of(report))
        if abs(report.clock_ahead_s) > 60:
            self._note(f"its clock is {abs(report.clock_ahead_s):.0f} s "
                       f"{'ahead of' if report.clock_ahead_s > 0 else 'behind'} the server's "
                       f"(corrected)", node)
        self._started = started if self._started is None else min(self._started, started)
        self._ended = report.ended if self._ended is None else max(self._ended, report.ended)
        self._user = self._user or report.user
        self._without.pop(node, None)
        self._node_seconds += report.elapsed_s
        if report.other_jobs:
            self._shared[node] = max(report.other_jobs, self._shared.get(node, 0))
        self._add_deltas(report, node)
        for phase in report.phases or ():
            totals, seconds = self._phases.setdefault(
                phase.name, (Totals(self.job, fold=self._fold), {}))
            totals.add_part(node, phase.deltas)
            # A name may come again, as in a loop of computing and writing.
            seconds[node] = seconds.get(node, 0.0) + phase.elapsed_s
        return Outcome(True, "")

    def add_part(self, node, deltas):
        """Add the deltas of one part of a node's work, which is counted as a whole elsewhere."""
        for delta in deltas:
            self._add_delta(delta, node, {}, {})

    def _name_of(self, node):
        """`node` as the job's node list has it: lists may have domains where nodes have none."""
        if isinstance(self.expected, frozenset) and node not in self.expected:
            return self._by_short_name.get(node.partition(".")[0], node)
        return node

    def _refusal(self, report, node, parts):
        """(why, for the counts; why, for the node) when the report can't be counted."""
        if isinstance(self.expected, frozenset) and node not in self.expected:
            return "unknown node", (f"{node} is not among the job's nodes "
                                    f"{self._fold(self.expected)}; name it with --node")
        most = self.expected if isinstance(self.expected, int) else self._max_nodes
        if node not in self._nodes and node not in self._without and (
                len(self._nodes) + len(self._without) >= most):
            return "too many nodes", (f"the job has {most} nodes, and as many have reported; one "
                                      f"more is refused")
        part = _part_of(report)
        if any(part.boot_id == other.boot_id and _overlap(part, other) for other in parts):
            return "the same time of a node twice", (
                f"a report of {node} about the same time is counted already; this one would count "
                f"the same work twice")
        return None

    def refuse(self, why, node=None):
        """Count a message that was not taken; `node` is who it said that it came from."""
        self._refused[why] = self._refused.get(why, 0) + 1
        if isinstance(self.expected, frozenset) and node is not None:
            node = self._name_of(node)
            if node in self.expected:
                self._refused_nodes[node] = why

    def _note(self, text, node):
        nodes = self._notes.setdefault(text, [])
        if node not in nodes:
            nodes.append(node)

    def _add_deltas(self, report, node):
        short, metadata = {}, {}
        if not report.deltas:
            self._note("no Lustre file system is mounted", node)
        for delta in report.deltas:
            self._add_delta(delta, node, short, metadata)
        for (name, target), values in metadata.items():
            self._file_systems[name].add_metadata(target, values, node, report.elapsed_s)
        for name, dirty in (report.dirty_bytes or {}).items():
            if name in self._file_systems:
                fs = self._file_systems[name]
                fs.dirty_bytes = (fs.dirty_bytes or 0) + dirty
        for name, one in (report.series or {}).items():
            if name in self._file_systems:
                self._file_systems[name].add_series(one, -report.clock_ahead_s, node)
        for name, points in report.mounts.items():
            if name in self._file_systems:
                self._file_systems[name].mounts.update(points)
        elapsed_s = report.elapsed_s
        if node in self._nodes:
            earlier = self._unpack(self._nodes[node])
            elapsed_s += earlier["elapsed_s"]
            for name, values in earlier["file_systems"].items():
                _add(short.setdefault(name, {}), values)
        self._nodes[node] = self._pack({"elapsed_s": round(elapsed_s, 3), "file_systems": short})

    def _add_delta(self, delta, node, short, metadata):
        fs = self._file_systems.get(delta.file_system)
        if fs is None:
            fs = self._file_systems[delta.file_system] = _FileSystem()
        if delta.lower_bound or delta.values is None:
            fs.low.add(delta.source)
        if delta.why:
            nodes = fs.notes.setdefault(f"{delta.source}: {delta.why}", [])
            if not nodes or nodes[-1] != node:
                nodes.append(node)
        if delta.values is None:
            return
        if not (delta.proved or delta.lower_bound):
            fs.unproved.add(delta.source)
        values = delta.values
        if delta.source == "llite":
            values = _made_once(values)
            _add(short.setdefault(delta.file_system, {}), _in_short(values))
        elif delta.source == "md_stats":
            _add(metadata.setdefault((delta.file_system, delta.target), {}), values)
        sums = fs.sums.get((delta.source, delta.target))
        if sums is None:
            sums = fs.sums[delta.source, delta.target] = _Sums()
        if sums.add(values) and delta.source == "llite":
            fs.unspread.update(metric for metric in values
                               if metric.endswith("_us") and f"{metric}2" not in values)

    # -- coverage --------------------------------------------------------------------------

    @property
    def reported(self):
        """How many nodes have numbers in the totals."""
        return len(self._nodes)

    @property
    def expected_count(self):
        """How many nodes the job has; None when that is not known."""
        if isinstance(self.expected, frozenset):
            return len(self.expected)
        return self.expected

    @property
    def all_heard(self):
        """True when every node of the job has reported, or said that it can't."""
        expected = self.expected_count
        return expected is not None and len(self._nodes) + len(self._without) >= expected

    def missing(self):
        """{node: why}; nodes that are known only as a number have no name here."""
        missing = dict(self._without)
        if isinstance(self.expected, frozenset):
            missing.update(
                (node, f"refused: {self._refused_nodes[node]}" if node in self._refused_nodes
                 else "no report")
                for node in sorted(self.expected)
                if node not in self._nodes and node not in missing)
        return missing

    @property
    def missing_count(self):
        """How many nodes of the job have no numbers in the totals."""
        expected = self.expected_count
        return len(self._without) if expected is None else max(0, expected - self.reported)

    # -- the record -------------------------------------------------------------------------

    def record(self, per_node=True):
        """
        The job as the JSON record of docs/record.schema.json.

        `per_node`: with minimum, median and maximum over the nodes, which take as long as all
        else together when there are thousands.
        """
        started, ended = self._started, self._ended
        elapsed_s = None if started is None else round(ended - started, 3)
        spread = self._spread() if per_node else {}
        return {
            "schema": SCHEMA,
            "job": {"id": self.job, "user": self._user or None, "started": _round(started),
                    "ended": _round(ended), "elapsed_s": elapsed_s},
            "coverage": {"expected": self.expected_count, "reported": self.reported,
                         "missing": self.missing(), "missing_count": self.missing_count,
                         "complete": self.missing_count == 0 and self.expected is not None,
                         "refused": dict(self._refused), "shared": dict(sorted(
                             self._shared.items())),
                         "node_seconds": round(self._node_seconds, 3)},
            "file_systems": [self._file_system(name, spread, self._incomplete)
                             for name in sorted(self._file_systems)],
            "phases": [{"name": name, "nodes": len(seconds),
                        "elapsed_s": round(max(seconds.values()), 3),
                        "file_systems": totals.in_short(self._incomplete)}
                       for name, (totals, seconds) in self._phases.items()],
            "nodes": {node: self._nodes[node] for node in sorted(self._nodes)},
            "notes": [f"{self._fold(nodes)}: {text}" for text, nodes in self._notes.items()],
        }

    @property
    def _incomplete(self):
        """True when a node, or a part of one's work, is missing: all numbers may be too low."""
        return bool(self.missing_count or self._gaps)

    def in_short(self, incomplete):
        """[{name, label, application, operations, lower_bound}] of each file system."""
        return [{key: row[key] for key in ("name", "label", "application", "operations",
                                           "lower_bound")}
                for row in (self._file_system(name, {}, incomplete)
                            for name in sorted(self._file_systems))]

    def _spread(self):
        """{file system: {metric: min, median, max, busiest}} over the nodes that could read it."""
        columns, nodes = {}, {}
        for node, packed in self._nodes.items():
            for name, values in self._unpack(packed)["file_systems"].items():
                nodes[name] = nodes.get(name, 0) + 1
                for metric, value in values.items():
                    columns.setdefault(name, {}).setdefault(metric, []).append((value, node))
        return {name: {metric: _spread_of(found[metric], nodes[name]) for metric in sorted(found)}
                for name, found in columns.items()}

    def _file_system(self, name, per_node, incomplete):
        fs = self._file_systems[name]
        by_source, targets = fs.summed(0), fs.summed(1)
        llite = by_source.get("llite")
        application = operations = calls = other = None
        if llite is not None:
            application = {metric: llite.get(metric, 0) for metric in _APPLICATION}
            operations, calls, other = _operations(llite, fs.unspread)
        layers = {"application": application, "network": _network(by_source, fs.low)}
        for layer, sources in _LAYERS.items():
            if layers[layer] is not None:
                if layer == "network" and layers[layer]["read_bytes"] is None:
                    sources += ("rpc_stats",)        # the RPCs are from there, see _network
                layers[layer]["lower_bound"] = bool(incomplete or fs.low.intersection(sources))
        return {
            "name": name, "label": name, "mounts": sorted(fs.mounts), **layers,
            "operations": operations, "calls": calls, "other": other,
            "metadata": {target: _metadata(fs.metadata[target]) for target in sorted(fs.metadata)},
            "balance": _balance(by_source, targets),
            "request_pages": _request_pages(by_source.get("rpc_stats")),
            "unproved": sorted(fs.unproved),
            "cached_read_bytes": (llite or {}).get("cached_read_bytes"),
            "dirty_bytes": fs.dirty_bytes,
            "series": None if fs.series is None else {"nodes": len(fs.watched),
                                                      **fs.series.as_dict()},
            "targets": {target: dict(sorted(targets[target].items()))
                        for target in sorted(targets)},
            "per_node": per_node.get(name, {}),
            "lower_bound": bool(incomplete or fs.low),
            "incomplete": incomplete, "low": sorted(fs.low),
            "notes": [f"{self._fold(nodes)}: {text}" for text, nodes in fs.notes.items()],
        }


def _by_short_name(nodes):
    """{name without its domain: name}, where that is one node's alone and no part of an address."""
    found = {}
    for node in nodes:
        short = node.partition(".")[0]
        found[short] = None if short in found or short.isdigit() else node
    return {short: node for short, node in found.items() if node}


def _add(sums, values):
    for metric, value in values.items():
        try:
            sums[metric] += value
        except KeyError:                  # once for each metric of a job, so cheaper than get()
            sums[metric] = value


def _made_once(values):
    """One mount's `values` with the largest of what MADE_OF names under the one name."""
    for whole, parts in MADE_OF.items():
        if any(part in values for part in parts):
            largest = max(parts, key=lambda part: values.get(part, 0))
            kept = {whole + end: values[largest + end] for end in _FIELDS
                    if largest + end in values}
            values = dict(values)
            for part in parts:
                for end in _FIELDS:
                    values.pop(part + end, None)
            values.update(kept)
    return values


def _in_short(values):
    """What is kept of one node's llite values: bytes, calls, and counts of operations."""
    return {metric: value for metric, value in values.items() if _is_short(metric)}


@lru_cache(maxsize=4096)
def _is_short(metric):
    return metric in _APPLICATION or _is_operation(metric)


def operations_of(values):
    """{operation: count} of one mount's llite `values`."""
    return {metric: count for metric, count in _in_short(_made_once(values)).items()
            if metric not in _APPLICATION}


def _is_operation(metric):
    return not (metric in NOT_OPERATIONS
                or metric.endswith(("_us", "_us2", "_sum", "_bytes", "_calls")))


def _operations(llite, unspread):
    """
    ({operation: row}, {"read", "write": row}, {metric: value} of all else that is no bytes).

    A row has `count`, `seconds`, and `stddev_s`: the standard deviation of one call's time; each
    None where the release, or some node, does not tell.
    """
    operations, calls, other = {}, {}, {}
    for metric, value in llite.items():
        if metric in _APPLICATION or metric.endswith(("_us", "_us2")):
            continue
        if _is_operation(metric):
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


def _row(llite, metric, unspread):
    count, us, us2 = (llite.get(metric + part) for part in ("", "_us", "_us2"))
    stddev_s = None
    if count and us is not None and us2 is not None and f"{metric}_us" not in unspread:
        stddev_s = round(max(0.0, us2 / count - (us / count) ** 2) ** 0.5 / 1e6, 9)
    return {"count": count, "seconds": None if us is None else round(us / 1e6, 6),
            "stddev_s": stddev_s}


def _md_requests(values):
    """Metadata operations that went to the MDT, of md_stats `values`."""
    return sum(count for name, count in values.items() if name not in LOCAL_MD_STATS)


def _metadata(metadata):
    """What one MDT was asked, and how fast, by a node on average and at the peak."""
    requests, seconds = _md_requests(metadata.operations), metadata.node_seconds
    rate, node = metadata.peak
    return {"operations": dict(sorted(metadata.operations.items())), "requests": requests,
            "per_second_per_node": round(requests / seconds, 3) if seconds else None,
            "peak": {"node": node, "per_second": round(rate, 3)} if node else None}


def _balance(by_source, targets):
    """How the bytes were spread over the OSTs; None where the network was not read."""
    if "osc" not in by_source:
        return None
    moved = {target: values.get("read_bytes", 0) + values.get("write_bytes", 0)
             for target, values in targets.items() if target.startswith("OST")}
    busiest = max(sorted(moved), key=moved.get, default="")
    total = sum(moved.values())
    return {"osts": len(moved), "used": sum(1 for value in moved.values() if value),
            "busiest": busiest if total else "",
            "busiest_share": round(moved[busiest] / total, 6) if total else None}


def _request_pages(rpcs):
    """{"read", "write": {pages: RPCs}}: how large the bulk requests were; None if not read."""
    if rpcs is None:
        return None
    pages = {"read": {}, "write": {}}
    for metric in sorted(rpcs, key=lambda metric: (len(metric), metric)):
        way, _, size = metric.partition("_rpcs_pages_")
        if way in pages and size:
            pages[way][size] = rpcs[metric]
    return pages


def _network(by_source, low):
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


def _spread_of(column, nodes):
    """Minimum, median (the lower one of two) and maximum of [(value, node)] and zeros, and who."""
    values = [0] * (nodes - len(column)) + sorted(value for value, _ in column)
    most = values[-1]
    return {"min": values[0], "median": values[(nodes - 1) // 2], "max": most,
            "busiest": min(node for value, node in column if value == most) if most else ""}


def _round(seconds):
    return None if seconds is None else round(seconds, 3)
