"""
The params of the method `totals`: Totals.state() of many nodes, in one message; and their checks.

Each node is in `parts` (with numbers) or in `without`, and no other is named: the message can say
no more of a node than a report of that node could.
"""

from collections.abc import Callable
from typing import Annotated, Optional

import msgspec

from iostats.base.errors import WireError, sanitize
from iostats.base.job_id import LONGEST_JOB_ID, LONGEST_NODE_NAME, is_node_name
from iostats.lustre.lnet import NODE_COUNTS, is_known
from iostats.totals.job_totals import Totals
from iostats.totals.reported_events import MOST_KEPT
from iostats.totals.time_bins import MOST_PLACES
from iostats.wire import protocol as wire_protocol
from iostats.wire.messages.report import Cpus

_LARGEST = 2**63 * 10**7                  # of any sum: all nodes that there can be
_MOST_METRICS = 10_000

_Name = Annotated[str, msgspec.Meta(max_length=128)]
_Node = Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)]
_Text = Annotated[str, msgspec.Meta(max_length=700)]          # a reason, and what it is a reason of
_Why = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
_Message = Annotated[str, msgspec.Meta(max_length=500)]
_Seq = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Sum = Annotated[int, msgspec.Meta(ge=0)]                     # at most _LARGEST: see _check_sums
_Seconds = Annotated[float, msgspec.Meta(ge=-1e13, le=1e13)]
_Elapsed = Annotated[float, msgspec.Meta(ge=0, le=1e13)]
_Place = Annotated[int, msgspec.Meta(ge=-2**62, le=2**62)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
_Values = dict[_Name, _Sum]
_Notes = dict[_Text, list[_Node]]
_Row = Annotated[list[_Sum], msgspec.Meta(max_length=MOST_PLACES)]


def _check_sums(*sums: int) -> None:
    if max(sums, default=0) > _LARGEST:
        raise ValueError(f"expected sums of at most {_LARGEST}, got {str(max(sums))[:40]}")


class _Array(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """An array in JSON."""


class ReportTimes(_Array):
    """The times of one report of a node, by the server's clock and since boot."""

    seq: _Seq
    boot_id: _Name
    started: _Seconds
    ended: _Seconds
    started_up: _Seconds
    ended_up: _Seconds

    def __post_init__(self) -> None:
        if self.started > self.ended or self.started_up > self.ended_up:
            raise ValueError("expected a report that ends after its start")


class BinsState(_Array):
    """The series of `watch` from many nodes; totals/time_bins.py."""

    every_s: Annotated[float, msgspec.Meta(ge=1e-3, le=1e30)]
    began: _Seconds
    first: _Place
    rows: tuple[_Row, _Row, _Row]

    def __post_init__(self) -> None:
        if len(set(map(len, self.rows))) != 1:
            raise ValueError("expected arrays of equal length")
        _check_sums(*(max(row, default=0) for row in self.rows))


class MetadataState(_Array):
    """Requests to one MDT."""

    operations: _Values
    node_ns: _Sum
    peak: tuple[Annotated[float, msgspec.Meta(ge=0, le=1e40)], _Node]

    def __post_init__(self) -> None:
        _check_sums(self.node_ns, *self.operations.values())


class SumsState(_Array):
    """The metrics of one source and target."""

    source: _Name
    target: _Name
    values: _Values

    def __post_init__(self) -> None:
        _check_sums(*self.values.values())


class IdleState(_Array):
    """The nodes' own I/O; totals/file_system.py."""

    nodes: Annotated[list[_Node], msgspec.Meta(min_length=1)]
    ms: _Sum
    values: _Values

    def __post_init__(self) -> None:
        _check_sums(self.ms, *self.values.values())


class FileSystemState(msgspec.Struct):
    """The totals of one file system."""

    sums: list[SumsState]
    notes: _Notes
    metadata: dict[_Name, MetadataState]
    series: list[BinsState]
    watched: list[_Node]
    mounts: list[Annotated[str, msgspec.Meta(max_length=4096)]]
    low: list[_Name]
    unproved: list[_Name]
    unspread: list[_Name]
    dirty_bytes: Optional[_Sum]
    lacking: dict[_Name, list[_Node]] = {}
    idle: Optional[IdleState] = None

    def __post_init__(self) -> None:
        _check_sums(self.dirty_bytes or 0)


class PhaseState(_Array):
    """A phase of the job, from `mark`."""

    at: tuple[_Seconds, _Place]
    seconds: Annotated[dict[_Node, _Elapsed], msgspec.Meta(min_length=1)]
    file_systems: dict[_Name, FileSystemState]


class NodeState(msgspec.Struct):
    """One node's amounts in Totals, without targets."""

    elapsed_s: _Elapsed
    file_systems: dict[_Name, _Values]

    def __post_init__(self) -> None:
        for values in self.file_systems.values():
            _check_sums(*values.values())


class ReportedHead(_Array):
    """The common fields of many events; totals/reported_events.py."""

    is_own: bool
    severity: Annotated[int, msgspec.Meta(ge=0, le=3)]
    kind: _Name
    cause: _Name
    file_system: _Name
    target: _Name
    message: _Message

    def __post_init__(self) -> None:
        for name in ("kind", "cause", "file_system", "target", "message"):
            setattr(self, name, sanitize(getattr(self, name))[:500])


class StoredEvent(_Array):
    """One event that a node reported."""

    node: _Node
    copies: _Count
    head: Annotated[int, msgspec.Meta(ge=0)]
    id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    time: _Seconds
    last: _Seconds
    over: Optional[_Seconds]
    count: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class DroppedEvents(_Array):
    """Counts of events that a report does not contain."""

    node: _Node
    seq: Annotated[str, msgspec.Meta(max_length=64)]
    count: _Count


class EventsState(_Array):
    """The value of ReportedEvents.state(): a node's events."""

    told: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    dropped: list[DroppedEvents]
    heads: Annotated[list[ReportedHead], msgspec.Meta(max_length=MOST_KEPT)]
    rows: Annotated[list[StoredEvent], msgspec.Meta(max_length=MOST_KEPT)]

    def __post_init__(self) -> None:
        if self.told < sum(row.copies for row in self.rows):
            raise ValueError("expected no more events than were reported")
        if any(row.head >= len(self.heads) for row in self.rows):
            raise ValueError("expected numbers of `heads`")


class TotalsState(msgspec.Struct):
    """The JSON form of a Totals, from which another process continues."""

    job: Annotated[str, msgspec.Meta(max_length=LONGEST_JOB_ID)]
    nodes: dict[_Node, NodeState]
    without: dict[_Node, _Why]
    gaps: list[_Node]
    parts: dict[_Node, Annotated[list[ReportTimes], msgspec.Meta(min_length=1, max_length=1000)]]
    file_systems: dict[_Name, FileSystemState]
    notes: _Notes
    refused: dict[_Text, _Count]
    refused_nodes: dict[_Node, list[_Text]]
    shared: dict[_Node, _Count]
    node_ns: _Sum
    cpus_of_node: Cpus
    phases: Annotated[dict[_Name, PhaseState], msgspec.Meta(max_length=1000)]
    user: Optional[tuple[_Node, _Name]]
    events: Optional[EventsState] = None
    lnet: dict[_Node, _Values] = {}

    def __post_init__(self) -> None:
        _check_sums(self.node_ns)
        for counts in self.lnet.values():
            _check_sums(*counts.values())
            if not is_known(len(counts)) or {*NODE_COUNTS[:len(counts)]} != {*counts}:
                raise ValueError(f"expected LNet's {', '.join(NODE_COUNTS)}")
        if self.nodes.keys() != self.parts.keys() or self.nodes.keys() & self.without.keys():
            raise ValueError("expected each node in `nodes` and `parts`, or else in `without`")
        names = self.nodes.keys() | self.without.keys()
        unknown = _list_other_nodes(self) - names
        if unknown:
            raise ValueError(f"expected no other nodes, got {min(unknown)[:40]!r}")
        wrong = [node for node in names if not is_node_name(node)]
        if wrong:
            raise ValueError(f"expected names of nodes, got {min(wrong)[:40]!r}")


class TotalsParams(msgspec.Struct):
    """The params of the method `totals`; docs/reference/wire.md."""

    protocol: int
    job: Annotated[str, msgspec.Meta(max_length=LONGEST_JOB_ID)]
    node: _Node
    seq: _Seq
    state: TotalsState


def _list_other_nodes(state: TotalsState) -> set[str]:
    """The nodes that are named outside `nodes` and `without`."""
    named = {*state.gaps, *state.refused_nodes, *state.shared, *state.lnet, *(state.user or ())[:1]}
    if state.events is not None:
        named.update([row.node for row in state.events.rows],
                     [event.node for event in state.events.dropped])
    named.update(*state.notes.values(), *(phase.seconds for phase in state.phases.values()))
    for file_systems in (state.file_systems,
                         *(phase.file_systems for phase in state.phases.values())):
        for file_system in file_systems.values():
            named.update(file_system.watched, *file_system.notes.values(),
                         *file_system.lacking.values(),
                         file_system.idle.nodes if file_system.idle else ())
            named.update(metadata.peak[1] for metadata in file_system.metadata.values())
    return named - {""}                        # "": no node has a peak


def read_totals(params: TotalsParams, node: str, job: str, metrics: set[str],
                named: Callable[[str], str]) -> Totals:
    """
    The Totals in a message that can be merged; WireError for another.

    `node`: sent it; `job`: the job that it must be of; `metrics`: the names of metrics that were
    seen before, to which its own are added; `named`: as of Totals.from_state.
    """
    wire_protocol.check_protocol(params.protocol, "nodes and server")
    if params.job != job or params.state.job != job or params.node != node:
        raise WireError(wire_protocol.REFUSED,
                        "the totals are of another job or node than their header")
    names: set[str] = set()
    for file_system in params.state.file_systems.values():
        names.update(*(sums.values for sums in file_system.sums))
    if len(metrics | names) > _MOST_METRICS:
        raise WireError(wire_protocol.INVALID_PARAMS,
                        f"expected at most {_MOST_METRICS} different metrics")
    metrics |= names
    try:
        return Totals.from_state(msgspec.to_builtins(params.state), named=named)
    except ValueError as error:
        raise WireError(wire_protocol.REFUSED, str(error)) from None
