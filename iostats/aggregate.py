"""
Totals of a job: the deltas of all nodes, added up once each.

A report is (job, node, seq).  The same one again is known and not added again; another one of the
same node is added when its time does not overlap (a job may be measured in parts) and is
refused when it does, because it would count the same work twice.

What is not known is None, never 0; what may be too low says `lower_bound`, and why.
"""

from array import array
from collections import namedtuple

from iostats.counters import MADE_OF, NOT_OPERATIONS, OPERATIONS

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
_MADE_OF_PARTS = {part: whole for whole, parts in MADE_OF.items() for part in parts}
_LONGEST_SUM = 2**63 - 1
_OVERLAP_S = 1.0                    # clocks of two reports of one node agree to this


class _FileSystem:
    """What is known of one file system."""

    def __init__(self):
        self.layers = {}            # source -> metric -> sum
        self.targets = {}           # target -> metric -> sum
        self.mounts = set()
        self.notes = {}             # text -> [node]
        self.unread = {}            # source -> {node}
        self.low = set()            # sources with a lower bound
        self.nodes = set()
        self.per_node = {}          # metric -> array of the nodes' values, zeros left out
        self.busiest = {}           # metric -> (value, node)


class Totals:
    """
    All that the server knows of a job.

    Attributes:
        job: the job's id.
        expected: names of its nodes, or how many there are, or None when that is not known.
    """

    def __init__(self, job, expected=None, fold=", ".join, pack=dict, max_nodes=100_000):
        """
        `fold`: [node name] -> text, such as "nid[00001-00004]".  `pack`: how a node's short
        record is kept (an encoder saves memory with many nodes).
        """
        self.job, self.expected = job, expected
        self._by_short_name = _by_short_name(expected if isinstance(expected, frozenset) else ())
        self._fold, self._pack, self._max_nodes = fold, pack, max_nodes
        self._nodes = {}            # node -> its short record, packed
        self._without = {}          # node -> why it has no numbers
        self._parts = {}            # node -> [(seq, boot_id, started, ended)]
        self._file_systems = {}
        self._notes = {}            # text -> [node]
        self._refused = {}          # why -> count
        self._started = self._ended = self._user = None

    # -- taking reports ------------------------------------------------------------------

    def add(self, report):
        """
        Add one node's report; the Outcome.

        `report` has the attributes node, seq, boot_id, user, reason, ended, elapsed_s,
        clock_ahead_s, mounts {file system: [mount points]} and deltas, as in docs/wire.md.
        """
        node = self._name_of(report.node)
        parts = self._parts.get(node, ())
        if any(part[0] == report.seq for part in parts):
            return Outcome(True, "this report was counted before")
        refusal = self._refusal(report, node, parts)
        if refusal:
            self.refuse(refusal[0])
            return Outcome(False, refusal[1])
        if report.reason:
            if node not in self._nodes:
                self._without[node] = report.reason
            return Outcome(True, "")
        started = report.ended - report.elapsed_s
        if any(part[1] != report.boot_id for part in parts):
            self._note("two nodes report under one name, or it was booted in between", node)
        self._parts.setdefault(node, []).append(
            (report.seq, report.boot_id, started, report.ended))
        if abs(report.clock_ahead_s) > 60:
            self._note(f"its clock is {abs(report.clock_ahead_s):.0f} s "
                       f"{'ahead of' if report.clock_ahead_s > 0 else 'behind'} the server's "
                       f"(corrected)", node)
        self._started = started if self._started is None else min(self._started, started)
        self._ended = report.ended if self._ended is None else max(self._ended, report.ended)
        self._user = self._user or report.user
        self._without.pop(node, None)
        self._add_deltas(report, node, parts)
        return Outcome(True, "")

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
        if node not in self._parts and len(self._parts) >= self._max_nodes:
            return "too many nodes", f"{self._max_nodes} nodes have reported, more are refused"
        for _, boot_id, started, ended in parts:
            if (boot_id == report.boot_id and report.ended - report.elapsed_s < ended - _OVERLAP_S
                    and started + _OVERLAP_S < report.ended):
                return "the same time of a node twice", (
                    f"a report of {node} about the same time is counted already; this one would "
                    f"count the same work twice")
        return None

    def refuse(self, why):
        """Count a message that was not taken."""
        self._refused[why] = self._refused.get(why, 0) + 1

    def _note(self, text, node):
        nodes = self._notes.setdefault(text, [])
        if node not in nodes:
            nodes.append(node)

    def _add_deltas(self, report, node, parts):
        short = {}
        if not report.deltas:
            self._note("no Lustre file system is mounted", node)
        for delta in report.deltas:
            fs = self._file_systems.get(delta.file_system)
            if fs is None:
                fs = self._file_systems[delta.file_system] = _FileSystem()
            fs.nodes.add(node)
            if delta.lower_bound or delta.values is None:
                fs.low.add(delta.source)
            if delta.why:
                nodes = fs.notes.setdefault(f"{delta.source}: {delta.why}", [])
                if not nodes or nodes[-1] != node:
                    nodes.append(node)
            if delta.values is None:
                fs.unread.setdefault(delta.source, set()).add(node)
                continue
            _add(fs.layers.setdefault(delta.source, {}), delta.values)
            if delta.target:
                _add(fs.targets.setdefault(delta.target, {}), delta.values)
            else:
                _add(short.setdefault(delta.file_system, {}), _in_short(delta.values))
        for name, points in report.mounts.items():
            if name in self._file_systems:
                self._file_systems[name].mounts.update(points)
        if parts and len(parts) > 1:
            # Measured in parts: the short record is the last part's, and says so.
            self._note("measured in several parts; its own row is the last part", node)
        self._nodes[node] = self._pack({"elapsed_s": round(report.elapsed_s, 3),
                                        "file_systems": short})
        for name, values in short.items():
            fs = self._file_systems[name]
            for metric, value in values.items():
                if metric not in fs.per_node:
                    fs.per_node[metric] = array("q")
                fs.per_node[metric].append(min(value, _LONGEST_SUM))
                if value > fs.busiest.get(metric, (0, ""))[0]:
                    fs.busiest[metric] = (value, node)

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
            missing.update((node, "no report") for node in sorted(self.expected)
                           if node not in self._nodes and node not in missing)
        return missing

    @property
    def missing_count(self):
        """How many nodes of the job have no numbers in the totals."""
        expected = self.expected_count
        return len(self._without) if expected is None else max(0, expected - self.reported)

    # -- the record -------------------------------------------------------------------------

    def record(self):
        """The job as the JSON record of docs/record.schema.json."""
        started, ended = self._started, self._ended
        elapsed_s = None if started is None else round(ended - started, 3)
        return {
            "schema": SCHEMA,
            "job": {"id": self.job, "user": self._user or None, "started": _round(started),
                    "ended": _round(ended), "elapsed_s": elapsed_s},
            "coverage": {"expected": self.expected_count, "reported": self.reported,
                         "missing": self.missing(), "missing_count": self.missing_count,
                         "complete": self.missing_count == 0 and self.expected is not None,
                         "refused": dict(self._refused)},
            "file_systems": [self._file_system(name) for name in sorted(self._file_systems)],
            "nodes": {node: self._nodes[node] for node in sorted(self._nodes)},
            "notes": [f"{self._fold(nodes)}: {text}" for text, nodes in self._notes.items()],
        }

    def _file_system(self, name):
        fs = self._file_systems[name]
        llite = fs.layers.get("llite")
        application = operations = other = None
        if llite is not None:
            application = {metric: llite.get(metric, 0) for metric in _APPLICATION}
            operations, other = _operations(llite)
        layers = {"application": application, "network": _network(fs)}
        for layer, sources in _LAYERS.items():
            if layers[layer] is not None:
                layers[layer]["lower_bound"] = bool(self.missing_count
                                                    or fs.low.intersection(sources))
        return {
            "name": name, "label": name, "mounts": sorted(fs.mounts), **layers,
            "operations": operations, "other": other,
            "targets": {target: dict(sorted(fs.targets[target].items()))
                        for target in sorted(fs.targets)},
            "per_node": {metric: _spread(values, len(fs.nodes), fs.busiest.get(metric, (0, ""))[1])
                         for metric, values in sorted(fs.per_node.items())},
            "lower_bound": bool(self.missing_count or fs.low),
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
        sums[metric] = sums.get(metric, 0) + value


def _in_short(values):
    """What is kept of one node's llite values: bytes, calls, and counts of operations."""
    short = {}
    for metric, value in values.items():
        metric = _MADE_OF_PARTS.get(metric, metric)
        if metric in _APPLICATION or _is_operation(metric):
            short[metric] = short.get(metric, 0) + value
    return short


def _is_operation(metric):
    return not (metric in NOT_OPERATIONS
                or metric.endswith(("_us", "_sum", "_bytes", "_calls")))


def _operations(llite):
    """({operation: {count, seconds}}, {metric: value} of what is neither that nor bytes)."""
    operations, other = {}, {}
    for metric, value in llite.items():
        if metric in _APPLICATION:
            continue
        base = metric[:-len("_us")] if metric.endswith("_us") else metric
        if not _is_operation(base):
            other[metric] = value
            continue
        row = operations.setdefault(_MADE_OF_PARTS.get(base, base), {"count": 0, "seconds": None})
        if base is metric:
            row["count"] += value
        else:
            row["seconds"] = round((row["seconds"] or 0.0) + value / 1e6, 6)
    order = {name: place for place, name in enumerate(OPERATIONS)}
    ordered = sorted(operations, key=lambda name: (order.get(name, len(order)), name))
    return {name: operations[name] for name in ordered}, dict(sorted(other.items()))


def _network(fs):
    """Bytes and RPCs of osc and mdc; the bytes None where only rpc_stats could be read."""
    read = [fs.layers[source] for source in _LAYERS["network"] if source in fs.layers]
    if read:
        return {metric: sum(layer.get(metric, 0) for layer in read) for metric in _NETWORK}
    rpcs = fs.layers.get("rpc_stats")
    if rpcs is None:
        return None
    return {"read_bytes": None, "write_bytes": None, **{
        f"{way}_rpcs": sum(count for metric, count in rpcs.items()
                           if metric.startswith(f"{way}_rpcs_pages_"))
        for way in ("read", "write")}}


def _spread(values, nodes, busiest):
    """Minimum, median (the lower one of two) and maximum over the nodes, and who has it."""
    everyone = sorted(values)
    everyone = [0] * (nodes - len(everyone)) + everyone
    return {"min": everyone[0], "median": everyone[(len(everyone) - 1) // 2],
            "max": everyone[-1], "busiest": busiest}


def _round(seconds):
    return None if seconds is None else round(seconds, 3)
