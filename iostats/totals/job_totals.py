"""
Totals of a job: the deltas of all nodes, added up once each.

A report is (job, node, seq).  The same one again is known and not added again; another one of the
same node is added when its time does not overlap (a job may be measured in parts) and is
refused when it does, because it would count the same work twice.

Nodes can be added up in groups, and the groups' Totals merged, in any order: the record is the same
to the last byte.  `state` is what travels between processes.

What is not known is None, never 0; what may be too low says `lower_bound`, and why.

It is longer than most modules because `add`, `merge`, `state` and `from_state` have to agree on
all that is known, and are read together.
"""

from __future__ import annotations

from iostats.base.named_tuple import NamedTuple
from iostats.lustre.lnet import NODE_COUNTS
from iostats.totals import disk_values, job_events, other_values
from iostats.totals.file_system import FileSystem
from iostats.totals.file_system_record import format_notes
from iostats.totals.lnet_sums import add_known, sum_lnet
from iostats.totals.node_report import WorkPeriod, do_overlap, find_period
from iostats.totals.node_spread import add_idle_nodes, make_tables
from iostats.totals.record import Coverage, PhaseRecord, Record, RecordedJob
from iostats.totals.record_part import SCHEMA
from iostats.totals.report_shapes import KnownShape, ReportShapes
from iostats.totals.reported_events import SENT_WITHIN_S, ReportedEvents
from iostats.totals.sums import add_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set
    from typing import Any, Optional, TypedDict, TypeVar

    from iostats.totals.file_system import StateOfFileSystem
    from iostats.totals.node_spread import Short
    from iostats.totals.received_report import Deltas, ReceivedReport, ReportedDelta
    from iostats.totals.reported_events import StoredEvents

    Value = TypeVar("Value")
    Packed = Any                     # a Short as it is stored

    class State(TypedDict):
        """The result of Totals.state()."""

        job: str
        nodes: dict[str, Packed]
        without: dict[str, str]
        gaps: list[str]
        parts: dict[str, list[list[Any]]]
        file_systems: dict[str, StateOfFileSystem]
        notes: dict[str, list[str]]
        refused: dict[str, int]
        refused_nodes: dict[str, list[str]]
        shared: dict[str, int]
        node_ns: int
        cpus_of_node: int
        lnet: dict[str, dict[str, int]]
        phases: dict[str, tuple[tuple[float, int], dict[str, float], dict[str, StateOfFileSystem]]]
        user: Optional[tuple[str, str]]             # the first node by name that reported it
        events: Optional[StoredEvents]

    Refusal = Optional[tuple[str, str]]          # why: for the counts, for the sender


class Outcome(NamedTuple):
    """The result of adding a report."""

    counted: bool   # its numbers are in the totals (now, or since an earlier time)
    why: str        # a sentence where that is not plain; "" else


_FEW = 8                        # nodes, for which looking for the shape does not pay


class Totals:
    """The totals of a job at the server.

    Attributes:
        job: the job's id.
        expected: names of its nodes, or how many there are, or None when that is not known.
        shapes: numbers of reports of known shapes; a server can decode the next one by them.
        events: ReportedEvents of all nodes.
    """

    def __init__(self, job: str, expected: frozenset[str] | int | None = None,
                 fold: Callable[[Iterable[str]], str] = ", ".join,
                 pack: Callable[[Short], Packed] | None = None,
                 unpack: Callable[[Packed], Short] | None = None,
                 max_nodes: int = 100_000) -> None:
        """
        `fold`: [node name] -> text, such as "nid[00001-00004]".  `pack`, `unpack`: how a node's
        short record is stored (an encoder saves memory with many nodes).
        """
        self.job, self.expected = job, expected
        self._by_short_name = _group_by_short_name(expected if isinstance(expected, frozenset)
                                                   else ())
        self._fold, self._max_nodes = fold, max_nodes
        self._pack, self._unpack = pack or _copy_short, unpack or _copy_short
        self._nodes: dict[str, Packed] = {}         # node -> its short record, packed
        self._without: dict[str, str] = {}          # node -> why it has no numbers
        self._gaps: set[str] = set()                # nodes with numbers, and a part without
        self._parts: dict[str, list[WorkPeriod]] = {}    # node -> [WorkPeriod]
        self._by_name: dict[str, FileSystem] = {}   # without the reports in `shapes`
        self.shapes = ReportShapes()
        self.events = ReportedEvents()
        self._notes: dict[str, set[str]] = {}       # text -> {node}
        self._refused: dict[str, int] = {}          # why -> count
        # node, as a refused message named it -> {why}
        self._refused_nodes: dict[str, set[str]] = {}
        self._shared: dict[str, int] = {}           # node -> how many other jobs were there
        self._node_ns = 0
        self._cpus_of_node = 0                      # of the node with most; 0: none reports them
        self._lnet: dict[str, dict[str, int]] = {}  # node -> messages, as far as they are known
        self._phases: dict[str, PhaseTotals] = {}        # name -> PhaseTotals
        self._started: float | None = None
        self._ended: float | None = None
        self._user: tuple[str, str] | None = None   # (first node by name that reported it, user)

    @property
    def _file_systems(self) -> dict[str, FileSystem]:
        """All file systems with amounts, by name."""
        self.shapes.settle(self._by_name)
        return self._by_name

    # -- taking reports ------------------------------------------------------------------

    def add(self, report: ReceivedReport) -> Outcome:
        """
        Add one node's report; the Outcome.

        `report` is a Report, or has its attributes.
        """
        node = self.expand_name(report.node)
        parts = self._parts.get(node, ())
        if any(part.seq == report.seq for part in parts):
            return Outcome(True, "this report was counted before")
        part = find_period(report)
        refusal = self._check_membership({node}) or self._check_repeated(node, part)
        if refusal:
            self.refuse(refusal[0], report.node)
            return Outcome(False, refusal[1])
        if report.events_unseen:
            self._note(f"events: {report.events_unseen}", node)
        self.events.add(node, report,
                        None if report.other_jobs else part.started + SENT_WITHIN_S)
        if report.reason:
            self._add_node_without_numbers(node, report.reason)
            return Outcome(True, "")
        self._add_part(node, part)
        if abs(report.clock_ahead_s) > 60:
            self._note(f"its clock is {abs(report.clock_ahead_s):.0f} s "
                       f"{'ahead of' if report.clock_ahead_s > 0 else 'behind'} the server's "
                       f"(corrected)", node)
        self._add_times(part.started, part.ended, (node, report.user) if report.user else None)
        self._node_ns += round(report.elapsed_s * 1e9)
        self._cpus_of_node = max(self._cpus_of_node, report.cpus)
        if report.other_jobs:
            self._shared[node] = max(report.other_jobs, self._shared.get(node, 0))
        self._add_deltas(report, node)
        began = part.started
        for number, phase in enumerate(report.phases or ()):
            at = began, number
            self._phases.setdefault(phase.name, PhaseTotals(at)).add(at, phase.elapsed_s, node,
                                                                     phase.deltas)
            began += phase.elapsed_s
        return Outcome(True, "")

    def expand_name(self, node: str) -> str:
        """
        Return the name of `node` in the job's node list: lists may have domains where nodes have
        none.
        """
        if isinstance(self.expected, frozenset) and node not in self.expected:
            return self._by_short_name.get(node.partition(".")[0], node)
        return node

    def _check_membership(self, nodes: Set[str]) -> Refusal:
        """
        Return (reason for the counts, reason for the sender) if one of `nodes` cannot belong to the
        job.
        """
        if isinstance(self.expected, frozenset) and not nodes <= self.expected:
            return "unknown node", (f"{min(nodes - self.expected)} is not among the job's nodes "
                                    f"{self._fold(self.expected)}; name it with --node")
        limit = self.expected if isinstance(self.expected, int) else self._max_nodes
        count = len(self._nodes) + len(self._without)
        more = sum(1 for node in nodes if node not in self._nodes and node not in self._without)
        if more and count + more > limit:
            return "too many nodes", (f"the job has {limit} nodes, and {count} have reported; "
                                      f"{more} more {'is' if more == 1 else 'are'} refused")
        return None

    def _check_repeated(self, node: str, part: WorkPeriod) -> Refusal:
        """
        Return (reason for the counts, reason for the sender) if `part` of a node's time is counted
        already.
        """
        if any(part.seq == period.seq or do_overlap(part, period)
               for period in self._parts.get(node, ())):
            return "overlapping reports of one node", (
                f"a report of {node} about the same time is counted already; this one would count "
                f"the same work twice")
        return None

    def refuse(self, why: str, node: str | None = None) -> None:
        """Count a message that was refused; `node` is the sender that it names."""
        self._refused[why] = self._refused.get(why, 0) + 1
        if isinstance(self.expected, frozenset) and node is not None:
            node = self.expand_name(node)
            if node in self.expected:
                self._refused_nodes.setdefault(node, set()).add(why)

    def _note(self, text: str, node: str) -> None:
        self._notes.setdefault(text, set()).add(node)

    def _add_node_without_numbers(self, node: str, why: str) -> None:
        """Add a node, or a part of its work, without numbers."""
        if node not in self._nodes:
            self._without[node] = why
        elif not why.startswith("no start"):                            # which is a `stop` too many
            self._gaps.add(node)
            self._note(f"a later part of its work has no numbers: {why}", node)

    def _add_part(self, node: str, part: WorkPeriod) -> None:
        parts = self._parts.setdefault(node, [])
        if any(period.boot_id != part.boot_id for period in parts):
            self._note("two nodes report under one name, or it was booted in between", node)
        parts.append(part)

    def _add_times(self, started: float | None, ended: float | None,
                   user: tuple[str, str] | None) -> None:
        self._started = _choose(min, self._started, started)
        self._ended = _choose(max, self._ended, ended)
        self._user = _choose(min, self._user, user)

    def _add_short(self, node: str, elapsed_s: float,
                   file_systems: dict[str, dict[str, int]], lnet: dict[str, int]) -> None:
        """Add the I/O of one node in `elapsed_s`, and its LNet's messages."""
        self._without.pop(node, None)
        if node in self._nodes:
            earlier = self._unpack(self._nodes[node])
            elapsed_s += earlier["elapsed_s"]
            for name, values in earlier["file_systems"].items():
                add_values(file_systems.setdefault(name, {}), values)
            lnet = add_known(lnet, self._lnet.pop(node, {}))
        self._nodes[node] = self._pack({"elapsed_s": round(elapsed_s, 3),
                                        "file_systems": file_systems})
        if lnet:
            self._lnet[node] = lnet

    def _add_deltas(self, report: ReceivedReport, node: str) -> None:
        short: dict[str, dict[str, int]] = {}
        metadata: dict[tuple[str, str], dict[str, int]] = {}
        if not _has_file_system(report.deltas):
            self._note("no Lustre file system is mounted", node)
        sources_of = None                                # file system -> sources
        if len(self._nodes) >= _FEW:
            def note(name: str, text: str) -> None:
                self._by_name[name].add_note(text, node)
            sources_of = (self.shapes.add_known(report.deltas, note, short, metadata)
                          if isinstance(report.deltas, KnownShape) else
                          self.shapes.add(report.deltas, note, short, metadata))
        if sources_of is None:
            sources_of = {}
            for delta in () if isinstance(report.deltas, KnownShape) else report.deltas:
                sources_of.setdefault(delta.file_system, set()).add(delta.source)
                find_file_system(self._by_name, delta.file_system).add(delta, node, short, metadata)
        used = {name: self._by_name[name] for name in sources_of}
        for (name, target), values in metadata.items():
            used[name].add_metadata(target, values, node, report.elapsed_s)
        for name, file_system in used.items():
            has_dirty = name in (report.dirty_bytes or {})
            file_system.note_lacking({*sources_of[name], "dirty"}
                                     if has_dirty else sources_of[name], node)
        for name, dirty_bytes in (report.dirty_bytes or {}).items():
            if name in used:
                used[name].add_dirty(dirty_bytes)
        for name, part in (report.series or {}).items():
            if name in used:
                used[name].add_series(part, -report.clock_ahead_s, node)
        for name, idle in (report.idle or {}).items():
            if name in used:
                used[name].idle.add(node, idle.seconds, idle.values, report.elapsed_s)
        for name, points in report.mounts.items():
            if name in used:
                used[name].add_mounts(points)
        self._add_short(node, report.elapsed_s, short, dict(zip(NODE_COUNTS, report.lnet)))

    # -- merging ---------------------------------------------------------------------------

    def merge(self, other: Totals) -> Outcome:
        """Add all data of other Totals of this job, or nothing; return the Outcome.

        Nodes that are in both are added when their times do not overlap; what `other` says of them
        is then the later part of their work.
        """
        refusal = self._check_membership(other._parts.keys() | other._without.keys())
        for node, parts in other._parts.items():
            for part in parts:
                refusal = refusal or self._check_repeated(node, part)
        if refusal:
            self.refuse(refusal[0])
            return Outcome(False, refusal[1])
        for node, parts in other._parts.items():
            for part in parts:
                self._add_part(node, part)
        for node, why in other._without.items():
            self._add_node_without_numbers(node, why)
        for node, packed in other._nodes.items():
            short = other._unpack(packed)
            self._add_short(node, short["elapsed_s"], short["file_systems"],
                            dict(other._lnet.get(node, {})))
        self._add_times(other._started, other._ended, other._user)
        self._node_ns += other._node_ns
        self._cpus_of_node = max(self._cpus_of_node, other._cpus_of_node)
        self._gaps |= other._gaps
        add_values(self._refused, other._refused)
        for own, merged in ((self._notes, other._notes),
                            (self._refused_nodes, other._refused_nodes)):
            for key, nodes_of in merged.items():
                own.setdefault(key, set()).update(nodes_of)
        for node, count in other._shared.items():
            self._shared[node] = max(count, self._shared.get(node, 0))
        for name, file_system in other._file_systems.items():
            find_file_system(self._file_systems, name).join(file_system)
        self.events.join(other.events)
        for name, phase in other._phases.items():
            self._phases.setdefault(name, PhaseTotals(phase.at)).join(phase)
        return Outcome(True, "")

    def state(self, packed: bool = False) -> State:
        """
        Return everything as JSON values; `from_state` restores it.

        `packed`: nodes as `pack` has made them, for an encoder that knows what that is.
        """
        def states(file_systems: dict[str, FileSystem]) -> dict[str, StateOfFileSystem]:
            return {name: file_system.state() for name, file_system in file_systems.items()}
        return {
            "job": self.job, "nodes": self._nodes if packed else {
                node: self._unpack(short) for node, short in self._nodes.items()},
            "without": self._without, "gaps": sorted(self._gaps),
            "parts": {node: [list(part) for part in parts] for node, parts in self._parts.items()},
            "file_systems": states(self._file_systems),
            "notes": {text: sorted(nodes) for text, nodes in self._notes.items()},
            "refused": self._refused,
            "refused_nodes": {node: sorted(whys) for node, whys in self._refused_nodes.items()},
            "shared": self._shared, "node_ns": self._node_ns, "cpus_of_node": self._cpus_of_node,
            "lnet": self._lnet,
            "phases": {name: (phase.at, phase.seconds, states(phase.file_systems))
                       for name, phase in self._phases.items()},
            "user": self._user, "events": self.events.state(),
        }

    @classmethod
    def from_state(cls, state: State, named: Callable[[str], str] = str) -> Totals:
        """The Totals that `state` was made of; `named`: as of `restore`."""
        return cls(state["job"]).restore(state, named)

    def restore(self, state: State, named: Callable[[str], str] = str) -> Totals:
        """
        Add all of `state` to these new Totals, and return them.

        `named`: a node's name there -> its name here; ValueError where two get the same.
        """
        def rename_nodes(states: dict[str, Value]) -> dict[str, Value]:
            here = {named(node): value for node, value in states.items()}
            if len(here) < len(states):
                raise ValueError("two nodes under one name: " + ", ".join(sorted(states)[:5]))
            return here

        def file_systems_in(states: dict[str, StateOfFileSystem]) -> dict[str, FileSystem]:
            return {name: FileSystem.from_state(values, named) for name, values in states.items()}
        self._nodes = {node: self._pack(short)
                       for node, short in rename_nodes(state["nodes"]).items()}
        self._without = rename_nodes(state["without"])
        self._gaps = set(map(named, state["gaps"]))
        self._parts = {node: [WorkPeriod(*part) for part in parts]
                       for node, parts in rename_nodes(state["parts"]).items()}
        self._by_name = file_systems_in(state["file_systems"])
        self._notes = {text: set(map(named, nodes)) for text, nodes in state["notes"].items()}
        self._refused = dict(state["refused"])
        self._refused_nodes = {node: set(whys)
                               for node, whys in rename_nodes(state["refused_nodes"]).items()}
        self._shared, self._node_ns = rename_nodes(state["shared"]), state["node_ns"]
        self._cpus_of_node = state["cpus_of_node"]
        self._lnet = rename_nodes(state.get("lnet", {}))
        self._phases = {name: PhaseTotals((at[0], at[1]), rename_nodes(seconds),
                                          file_systems_in(states))
                        for name, (at, seconds, states) in state["phases"].items()}
        self.events = ReportedEvents.from_state(state.get("events"), named)
        parts = [part for parts in self._parts.values() for part in parts]
        self._started = min((part.started for part in parts), default=None)
        self._ended = max((part.ended for part in parts), default=None)
        self._user = state["user"] and (named(state["user"][0]), state["user"][1])
        return self

    # -- coverage --------------------------------------------------------------------------

    @property
    def reported(self) -> int:
        """The number of nodes with numbers in the totals."""
        return len(self._nodes)

    @property
    def expected_count(self) -> int | None:
        """The number of nodes of the job; None if unknown."""
        if isinstance(self.expected, frozenset):
            return len(self.expected)
        return self.expected

    @property
    def all_reported(self) -> bool:
        """True when every node of the job has reported its numbers, or that it has none."""
        expected = self.expected_count
        return expected is not None and len(self._nodes) + len(self._without) >= expected

    def list_missing_nodes(self) -> dict[str, str]:
        """
        Return {node: reason} of missing nodes; nodes of a job with only a number of nodes are not
        listed.
        """
        missing = dict(self._without)
        if isinstance(self.expected, frozenset):
            missing.update(
                (node, "refused: " + ", ".join(sorted(self._refused_nodes[node]))
                 if node in self._refused_nodes else "no report")
                for node in self.expected if node not in self._nodes and node not in missing)
        return dict(sorted(missing.items()))

    @property
    def missing_count(self) -> int:
        """The number of nodes of the job without numbers in the totals."""
        expected = self.expected_count
        return len(self._without) if expected is None else max(0, expected - self.reported)

    # -- the record -------------------------------------------------------------------------

    def record(self) -> Record:
        """The job's record; with thousands of nodes, `per_node` takes as long as all else."""
        started, ended, incomplete = self._started, self._ended, self._incomplete
        elapsed_s = None if started is None or ended is None else round(ended - started, 3)
        nodes = {node: self._nodes[node] for node in sorted(self._nodes)}
        tables = make_tables(map(self._unpack, nodes.values()), nodes)
        file_systems = []
        for name, file_system in sorted(self._file_systems.items()):
            of_one = tables.get(name, [])
            if file_system.kind() in other_values.SOURCES:      # which nodes report if they use it
                of_one = add_idle_nodes(of_one, nodes)
            file_systems.append(file_system.record(name, of_one, elapsed_s or 0.0, incomplete,
                                                   self._fold))
        of_nodes, more = self.events.all()
        events, more = job_events.list_events(of_nodes, (), self._fold, file_systems, more)
        file_systems = job_events.mark_lost_data(file_systems, events)
        return Record(
            schema=SCHEMA, short=False,
            job=RecordedJob(
                id=self.job, attempt=None, user=self._user[1] if self._user else None,
                started=_round(started), ended=_round(ended), elapsed_s=elapsed_s, command=""),
            batch=None, harvest=None, by_node=None, imported=None,
            coverage=Coverage(
                expected=self.expected_count, reported=self.reported,
                missing=self.list_missing_nodes(),
                missing_count=self.missing_count,
                complete=self.missing_count == 0 and self.expected is not None,
                refused=dict(sorted(self._refused.items())),
                shared=dict(sorted(self._shared.items())),
                node_seconds=round(self._node_ns / 1e9, 3),
                cpus_of_node=self._cpus_of_node or None),
            file_systems=file_systems,
            phases=[PhaseRecord(
                name=name, nodes=len(phase.seconds),
                elapsed_s=round(max(phase.seconds.values()), 3),
                file_systems=job_events.mark_lost_data(
                    [file_system.make_short_record(fs_name, incomplete)
                     for fs_name, file_system in sorted(phase.file_systems.items())], events))
                    for name, phase in sorted(self._phases.items(),
                                              key=lambda item: (item[1].at, item[0]))],
            nodes=nodes, lnet=sum_lnet(self._lnet),
            notes=format_notes(self._notes, self._fold),
            events=events if self.events.are_known else None, events_more=more,
            quotas=None, findings=None, main_cause=None)

    @property
    def _incomplete(self) -> bool:
        """True when a node, or a part of one's work, is missing: all numbers may be too low."""
        return bool(self.missing_count or self._gaps)


def _copy_short(short: Short) -> Short:
    return {"elapsed_s": short["elapsed_s"], "file_systems": short["file_systems"]}


def _has_file_system(deltas: Deltas) -> bool:
    """True where a report has more than the node's own disks."""
    sources = (head[0] for head in deltas.shape_sums.shape[0]) if isinstance(
        deltas, KnownShape) else (delta.source for delta in deltas)
    return any(source != disk_values.OF_NODES for source in sources)


def _choose(choose: Callable[[Value, Value], Value], first: Value | None,
            second: Value | None) -> Value | None:
    if first is None or second is None:
        return first if second is None else second
    return choose(first, second)


def _group_by_short_name(nodes: Iterable[str]) -> dict[str, str]:
    """{name without its domain: name}, where that is one node's alone and no part of an address."""
    by_short = {}
    for node in nodes:
        short = node.partition(".")[0]
        by_short[short] = None if short in by_short or short.isdigit() else node
    return {short: node for short, node in by_short.items() if node}


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


class PhaseTotals:
    """The totals of a part of the job, between two marks."""

    def __init__(
            self, at: tuple[float, int],
            seconds: Mapping[str, float] | Iterable[tuple[str, float]] = (),
            file_systems: Mapping[str, FileSystem] | Iterable[tuple[str, FileSystem]] = ()) -> None:
        self.at = at                        # (when, which of its report's) it first began
        self.seconds = dict(seconds)        # node -> its seconds
        self.file_systems = dict(file_systems)

    def add(self, at: tuple[float, int], elapsed_s: float, node: str,
            deltas: Iterable[ReportedDelta]) -> None:
        """Add the I/O of one node in this phase; a name may be repeated, as in a loop."""
        self.at = min(self.at, at)
        self.seconds[node] = self.seconds.get(node, 0.0) + elapsed_s
        for delta in deltas:
            find_file_system(self.file_systems, delta.file_system).add(delta, node, {}, {})

    def join(self, other: PhaseTotals) -> None:
        """Add what other nodes, or these at another time, did in it."""
        self.at = min(self.at, other.at)
        for node, elapsed_s in other.seconds.items():
            self.seconds[node] = self.seconds.get(node, 0.0) + elapsed_s
        for name, file_system in other.file_systems.items():
            find_file_system(self.file_systems, name).join(file_system)


def find_file_system(file_systems: dict[str, FileSystem], name: str) -> FileSystem:
    """Return the FileSystem of this name; create a missing one."""
    file_system = file_systems.get(name)
    if file_system is None:
        file_system = file_systems[name] = FileSystem()
    return file_system
