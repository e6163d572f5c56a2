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

from collections import namedtuple

from iostats.totals import job_events
from iostats.totals.report_shapes import KnownShape, ReportShapes
from iostats.totals.reported_events import SENT_WITHIN_S, ReportedEvents
from iostats.totals.file_system import FileSystem
from iostats.totals.file_system_record import notes_of
from iostats.totals.node_report import WorkPeriod, overlap, period_of
from iostats.totals.node_spread import spread_of
from iostats.totals.phase_totals import PhaseTotals, file_system_in
from iostats.totals.record import SCHEMA, Coverage, PhaseRecord, Record, RecordedJob
from iostats.totals.sums import added

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set
    from typing import Any, Optional

    from iostats.totals.node_report import Report

    Short = dict[str, Any]           # of one node: elapsed_s, and file system -> metrics
    Refusal = Optional[tuple[str, str]]          # why: for the counts, for the sender

Outcome = namedtuple("Outcome", "counted why")
Outcome.__doc__ = """
What became of a report.

Attributes:
    counted: its numbers are in the totals (now, or since an earlier time).
    why: a sentence where that is not plain; "" else.
"""

_FEW = 8                            # nodes, for which looking for the shape does not pay


class Totals:
    """
    All that the server knows of a job.

    Attributes:
        job: the job's id.
        expected: names of its nodes, or how many there are, or None when that is not known.
        shapes: numbers of reports of known shapes; a server can decode the next one by them.
        events: ReportedEvents of all nodes.
    """

    def __init__(self, job: str, expected: frozenset[str] | int | None = None,
                 fold: Callable[[Iterable[str]], str] = ", ".join,
                 pack: Callable[[Short], Any] = dict, unpack: Callable[[Any], Short] = dict,
                 max_nodes: int = 100_000) -> None:
        """
        `fold`: [node name] -> text, such as "nid[00001-00004]".  `pack`, `unpack`: how a node's
        short record is kept (an encoder saves memory with many nodes).
        """
        self.job, self.expected = job, expected
        self._by_short_name = _by_short_name(expected if isinstance(expected, frozenset) else ())
        self._fold, self._pack, self._unpack, self._max_nodes = fold, pack, unpack, max_nodes
        self._nodes: dict[str, Any] = {}            # node -> its short record, packed
        self._without: dict[str, str] = {}          # node -> why it has no numbers
        self._gaps: set[str] = set()                # nodes with numbers, and a part without
        self._parts: dict[str, list[WorkPeriod]] = {}    # node -> [WorkPeriod]
        self._by_name: dict[str, FileSystem] = {}   # without what is kept in `shapes`
        self.shapes = ReportShapes()
        self.events = ReportedEvents()
        self._notes: dict[str, set[str]] = {}       # text -> {node}
        self._refused: dict[str, int] = {}          # why -> count
        # node, as a refused message named it -> {why}
        self._refused_nodes: dict[str, set[str]] = {}
        self._shared: dict[str, int] = {}           # node -> how many other jobs were there
        self._node_ns = 0
        self._phases: dict[str, PhaseTotals] = {}        # name -> PhaseTotals
        self._started: float | None = None
        self._ended: float | None = None
        self._user: tuple[str, str] | None = None   # (the first node by name that told, user)

    @property
    def _file_systems(self) -> dict[str, FileSystem]:
        """All that was added, by name."""
        self.shapes.settle(self._by_name)
        return self._by_name

    # -- taking reports ------------------------------------------------------------------

    def add(self, report: Any) -> Outcome:
        """
        Add one node's report; the Outcome.

        `report` is a Report, or has its attributes.
        """
        node = self.name_of(report.node)
        parts = self._parts.get(node, ())
        if any(part.seq == report.seq for part in parts):
            return Outcome(True, "this report was counted before")
        part = period_of(report)
        refusal = self._not_ours({node}) or self._twice(node, part)
        if refusal:
            self.refuse(refusal[0], report.node)
            return Outcome(False, refusal[1])
        if report.events_unseen:
            self._note(f"events: {report.events_unseen}", node)
        self.events.add(node, report,
                        None if report.other_jobs else part.started + SENT_WITHIN_S)
        if report.reason:
            self._add_without(node, report.reason)
            return Outcome(True, "")
        self._add_part(node, part)
        if abs(report.clock_ahead_s) > 60:
            self._note(f"its clock is {abs(report.clock_ahead_s):.0f} s "
                       f"{'ahead of' if report.clock_ahead_s > 0 else 'behind'} the server's "
                       f"(corrected)", node)
        self._add_times(part.started, part.ended, (node, report.user) if report.user else None)
        self._node_ns += round(report.elapsed_s * 1e9)
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

    def name_of(self, node: str) -> str:
        """`node` as the job's node list has it: lists may have domains where nodes have none."""
        if isinstance(self.expected, frozenset) and node not in self.expected:
            return self._by_short_name.get(node.partition(".")[0], node)
        return node

    def _not_ours(self, nodes: Set[str]) -> Refusal:
        """(why, for the counts; why, for the sender) when one of `nodes` can't be the job's."""
        if isinstance(self.expected, frozenset) and not nodes <= self.expected:
            return "unknown node", (f"{min(nodes - self.expected)} is not among the job's nodes "
                                    f"{self._fold(self.expected)}; name it with --node")
        most = self.expected if isinstance(self.expected, int) else self._max_nodes
        known = len(self._nodes) + len(self._without)
        more = sum(1 for node in nodes if node not in self._nodes and node not in self._without)
        if more and known + more > most:
            return "too many nodes", (f"the job has {most} nodes, and {known} have reported; "
                                      f"{more} more {'is' if more == 1 else 'are'} refused")
        return None

    def _twice(self, node: str, part: WorkPeriod) -> Refusal:
        """(why, for the counts; why, for the sender) when `part` of a node's time is counted."""
        if any(part.seq == known.seq or overlap(part, known)
               for known in self._parts.get(node, ())):
            return "the same time of a node twice", (
                f"a report of {node} about the same time is counted already; this one would count "
                f"the same work twice")
        return None

    def refuse(self, why: str, node: str | None = None) -> None:
        """Count a message that was not taken; `node` is who it said that it came from."""
        self._refused[why] = self._refused.get(why, 0) + 1
        if isinstance(self.expected, frozenset) and node is not None:
            node = self.name_of(node)
            if node in self.expected:
                self._refused_nodes.setdefault(node, set()).add(why)

    def _note(self, text: str, node: str) -> None:
        self._notes.setdefault(text, set()).add(node)

    def _add_without(self, node: str, why: str) -> None:
        """A node, or a part of its work, has no numbers."""
        if node not in self._nodes:
            self._without[node] = why
        elif not why.startswith("no start"):                            # which is a `stop` too many
            self._gaps.add(node)
            self._note(f"a later part of its work has no numbers: {why}", node)

    def _add_part(self, node: str, part: WorkPeriod) -> None:
        parts = self._parts.setdefault(node, [])
        if any(known.boot_id != part.boot_id for known in parts):
            self._note("two nodes report under one name, or it was booted in between", node)
        parts.append(part)

    def _add_times(self, started: float | None, ended: float | None,
                   user: tuple[str, str] | None) -> None:
        self._started = _of_both(min, self._started, started)
        self._ended = _of_both(max, self._ended, ended)
        self._user = _of_both(min, self._user, user)

    def _add_short(self, node: str, elapsed_s: float,
                   file_systems: dict[str, dict[str, int]]) -> None:
        """Add what one node did in `elapsed_s`."""
        self._without.pop(node, None)
        if node in self._nodes:
            earlier = self._unpack(self._nodes[node])
            elapsed_s += earlier["elapsed_s"]
            for name, values in earlier["file_systems"].items():
                added(file_systems.setdefault(name, {}), values)
        self._nodes[node] = self._pack({"elapsed_s": round(elapsed_s, 3),
                                        "file_systems": file_systems})

    def _add_deltas(self, report: Report, node: str) -> None:
        short: dict[str, dict[str, int]] = {}
        metadata: dict[tuple[str, str], dict[str, int]] = {}
        if not report.deltas:
            self._note("no Lustre file system is mounted", node)
        found = None                                # file system -> sources
        if len(self._nodes) >= _FEW:
            is_known = isinstance(report.deltas, KnownShape)
            add = self.shapes.add_known if is_known else self.shapes.add
            found = add(report.deltas,
                        lambda name, text: self._by_name[name].add_note(text, node),
                        short, metadata)
        if found is None:
            found = {}
            for delta in report.deltas:
                found.setdefault(delta.file_system, set()).add(delta.source)
                file_system_in(self._by_name, delta.file_system).add(delta, node, short, metadata)
        mine = {name: self._by_name[name] for name in found}
        for (name, target), values in metadata.items():
            mine[name].add_metadata(target, values, node, report.elapsed_s)
        for name, file_system in mine.items():
            has_dirty = name in (report.dirty_bytes or {})
            file_system.note_lacking({*found[name], "dirty"} if has_dirty else found[name], node)
        for name, dirty_bytes in (report.dirty_bytes or {}).items():
            if name in mine:
                mine[name].add_dirty(dirty_bytes)
        for name, one in (report.series or {}).items():
            if name in mine:
                mine[name].add_series(one, -report.clock_ahead_s, node)
        for name, one in (report.idle or {}).items():
            if name in mine:
                mine[name].idle.add(node, one.seconds, one.values, report.elapsed_s)
        for name, points in report.mounts.items():
            if name in mine:
                mine[name].add_mounts(points)
        self._add_short(node, report.elapsed_s, short)

    # -- merging ---------------------------------------------------------------------------

    def merge(self, other: Totals) -> Outcome:
        """
        Add all that other Totals of this job know; the Outcome, for all of it or nothing.

        Nodes that are in both are added when their times do not overlap; what `other` says of them
        is then the later part of their work.
        """
        refusal = self._not_ours(other._parts.keys() | other._without.keys())
        for node, parts in other._parts.items():
            for part in parts:
                refusal = refusal or self._twice(node, part)
        if refusal:
            self.refuse(refusal[0])
            return Outcome(False, refusal[1])
        for node, parts in other._parts.items():
            for part in parts:
                self._add_part(node, part)
        for node, why in other._without.items():
            self._add_without(node, why)
        for node, packed in other._nodes.items():
            short = other._unpack(packed)
            self._add_short(node, short["elapsed_s"], short["file_systems"])
        self._add_times(other._started, other._ended, other._user)
        self._node_ns += other._node_ns
        self._gaps |= other._gaps
        added(self._refused, other._refused)
        for mine, others in ((self._notes, other._notes),
                             (self._refused_nodes, other._refused_nodes)):
            for key, found in others.items():
                mine.setdefault(key, set()).update(found)
        for node, count in other._shared.items():
            self._shared[node] = max(count, self._shared.get(node, 0))
        for name, file_system in other._file_systems.items():
            file_system_in(self._file_systems, name).join(file_system)
        self.events.join(other.events)
        for name, phase in other._phases.items():
            self._phases.setdefault(name, PhaseTotals(phase.at)).join(phase)
        return Outcome(True, "")

    def state(self, packed: bool = False) -> dict[str, Any]:
        """
        All that is known, as what JSON can carry; `from_state` makes the same of it.

        `packed`: nodes as `pack` has made them, for an encoder that knows what that is.
        """
        def states(file_systems: dict[str, FileSystem]) -> dict[str, Any]:
            return {name: one.state() for name, one in file_systems.items()}
        return {
            "job": self.job, "nodes": self._nodes if packed else {
                node: self._unpack(short) for node, short in self._nodes.items()},
            "without": self._without, "gaps": sorted(self._gaps),
            "parts": {node: [list(part) for part in parts] for node, parts in self._parts.items()},
            "file_systems": states(self._file_systems),
            "notes": {text: sorted(nodes) for text, nodes in self._notes.items()},
            "refused": self._refused,
            "refused_nodes": {node: sorted(whys) for node, whys in self._refused_nodes.items()},
            "shared": self._shared, "node_ns": self._node_ns,
            "phases": {name: [list(phase.at), phase.seconds, states(phase.file_systems)]
                       for name, phase in self._phases.items()},
            "user": self._user and list(self._user), "events": self.events.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], expected: frozenset[str] | int | None = None,
                   named: Callable[[str], str] = str, **options: Any) -> Totals:
        """
        The Totals that `state` was made of; `expected` and `options` as for a new one.

        `named`: a node's name there -> its name here; ValueError where two get the same.
        """
        def nodes_in(found: dict[str, Any]) -> dict[str, Any]:
            here = {named(node): value for node, value in found.items()}
            if len(here) < len(found):
                raise ValueError("two nodes under one name: " + ", ".join(sorted(found)[:5]))
            return here

        def file_systems_in(found: dict[str, Any]) -> dict[str, FileSystem]:
            return {name: FileSystem.from_state(one, named) for name, one in found.items()}
        self = cls(state["job"], expected, **options)
        self._nodes = {node: self._pack(short) for node, short in nodes_in(state["nodes"]).items()}
        self._without = nodes_in(state["without"])
        self._gaps = set(map(named, state["gaps"]))
        self._parts = {node: [WorkPeriod(*part) for part in parts]
                       for node, parts in nodes_in(state["parts"]).items()}
        self._by_name = file_systems_in(state["file_systems"])
        self._notes = {text: set(map(named, nodes)) for text, nodes in state["notes"].items()}
        self._refused = dict(state["refused"])
        self._refused_nodes = {node: set(whys)
                               for node, whys in nodes_in(state["refused_nodes"]).items()}
        self._shared, self._node_ns = nodes_in(state["shared"]), state["node_ns"]
        self._phases = {name: PhaseTotals(tuple(at), nodes_in(seconds), file_systems_in(found))
                        for name, (at, seconds, found) in state["phases"].items()}
        self.events = ReportedEvents.from_state(state.get("events"), named)
        parts = [part for parts in self._parts.values() for part in parts]
        self._started = min((part.started for part in parts), default=None)
        self._ended = max((part.ended for part in parts), default=None)
        self._user = state["user"] and (named(state["user"][0]), state["user"][1])
        return self

    # -- coverage --------------------------------------------------------------------------

    @property
    def reported(self) -> int:
        """How many nodes have numbers in the totals."""
        return len(self._nodes)

    @property
    def expected_count(self) -> int | None:
        """How many nodes the job has; None when that is not known."""
        if isinstance(self.expected, frozenset):
            return len(self.expected)
        return self.expected

    @property
    def all_heard(self) -> bool:
        """True when every node of the job has reported, or said that it can't."""
        expected = self.expected_count
        return expected is not None and len(self._nodes) + len(self._without) >= expected

    def missing(self) -> dict[str, str]:
        """{node: why}; nodes that are known only as a number have no name here."""
        missing = dict(self._without)
        if isinstance(self.expected, frozenset):
            missing.update(
                (node, "refused: " + ", ".join(sorted(self._refused_nodes[node]))
                 if node in self._refused_nodes else "no report")
                for node in self.expected if node not in self._nodes and node not in missing)
        return dict(sorted(missing.items()))

    @property
    def missing_count(self) -> int:
        """How many nodes of the job have no numbers in the totals."""
        expected = self.expected_count
        return len(self._without) if expected is None else max(0, expected - self.reported)

    # -- the record -------------------------------------------------------------------------

    def record(self) -> Record:
        """The job's record; with thousands of nodes, `per_node` takes as long as all else."""
        started, ended, incomplete = self._started, self._ended, self._incomplete
        elapsed_s = None if started is None or ended is None else round(ended - started, 3)
        spread = spread_of(map(self._unpack, self._nodes.values()), self._nodes)
        file_systems = [one.record(name, spread.get(name, {}), incomplete, self._fold)
                        for name, one in sorted(self._file_systems.items())]
        of_nodes, more = self.events.all()
        events, more = job_events.listed(of_nodes, (), self._fold, file_systems, more)
        file_systems = job_events.marked_by_events(file_systems, events)
        return Record(
            schema=SCHEMA, short=False,
            job=RecordedJob(
                id=self.job, attempt=None, user=self._user[1] if self._user else None,
                started=_round(started), ended=_round(ended), elapsed_s=elapsed_s),
            batch=None, harvest=None, by_node=None,
            coverage=Coverage(
                expected=self.expected_count, reported=self.reported, missing=self.missing(),
                missing_count=self.missing_count,
                complete=self.missing_count == 0 and self.expected is not None,
                refused=dict(sorted(self._refused.items())),
                shared=dict(sorted(self._shared.items())),
                node_seconds=round(self._node_ns / 1e9, 3)),
            file_systems=file_systems,
            phases=[PhaseRecord(
                name=name, nodes=len(phase.seconds),
                elapsed_s=round(max(phase.seconds.values()), 3),
                file_systems=job_events.marked_by_events(
                    [one.in_short(fs_name, incomplete)
                     for fs_name, one in sorted(phase.file_systems.items())], events))
                for name, phase in sorted(self._phases.items(),
                                          key=lambda item: (item[1].at, item[0]))],
            nodes={node: self._nodes[node] for node in sorted(self._nodes)},
            notes=notes_of(self._notes, self._fold),
            events=events if self.events.are_known else None, events_more=more,
            findings=None, main_cause=None)

    @property
    def _incomplete(self) -> bool:
        """True when a node, or a part of one's work, is missing: all numbers may be too low."""
        return bool(self.missing_count or self._gaps)

def _of_both(choose: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one if other is None else other
    return choose(one, other)


def _by_short_name(nodes: Iterable[str]) -> dict[str, str]:
    """{name without its domain: name}, where that is one node's alone and no part of an address."""
    found = {}
    for node in nodes:
        short = node.partition(".")[0]
        found[short] = None if short in found or short.isdigit() else node
    return {short: node for short, node in found.items() if node}


def _round(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
