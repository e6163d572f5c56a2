"""
The params of the method `totals`: what Totals.state() says of many nodes, in one message.

Each node of it has its place in `parts` (with numbers) or in `without`, and no other is named: who
sends it can say no more of a node than a report of that node could.
"""

from collections.abc import Callable
from typing import Annotated, Optional

import msgspec

from iostats.base.errors import WireError
from iostats.base.job_id import LONGEST_JOB_ID, LONGEST_NODE_NAME, is_node_name
from iostats.totals.job_totals import Totals
from iostats.totals.time_bins import MOST_PLACES
from iostats.wire import protocol as wire_protocol

_LARGEST = 2**63 * 10**7                  # of any sum: all nodes that there can be
_MOST_METRICS = 10_000

_Name = Annotated[str, msgspec.Meta(max_length=128)]
_Node = Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)]
_Text = Annotated[str, msgspec.Meta(max_length=700)]          # a reason, and what it is a reason of
_Why = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
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
    """What is an array in JSON."""


class Part(_Array):
    """One report of a node; the same in job_totals.py."""

    seq: _Seq
    boot_id: _Name
    started: _Seconds
    ended: _Seconds
    started_up: _Seconds
    ended_up: _Seconds

    def __post_init__(self) -> None:
        if self.started > self.ended or self.started_up > self.ended_up:
            raise ValueError("expected a part that ends after its start")


class Bins(_Array):
    """What `watch` saw on many nodes; the same in time_bins.py."""

    every_s: Annotated[float, msgspec.Meta(ge=1e-3, le=1e30)]
    began: _Seconds
    first: _Place
    rows: tuple[_Row, _Row, _Row]

    def __post_init__(self) -> None:
        if len(set(map(len, self.rows))) != 1:
            raise ValueError("expected arrays of equal length")
        _check_sums(*(max(row, default=0) for row in self.rows))


class Metadata(_Array):
    """What one MDT was asked."""

    operations: _Values
    node_ns: _Sum
    peak: tuple[Annotated[float, msgspec.Meta(ge=0, le=1e40)], _Node]

    def __post_init__(self) -> None:
        _check_sums(self.node_ns, *self.operations.values())


class Sums(_Array):
    """The metrics of one source and target."""

    source: _Name
    target: _Name
    values: _Values

    def __post_init__(self) -> None:
        _check_sums(*self.values.values())


class FileSystem(msgspec.Struct):
    """All that is known of one file system."""

    sums: list[Sums]
    notes: _Notes
    metadata: dict[_Name, Metadata]
    series: list[Bins]
    watched: list[_Node]
    mounts: list[Annotated[str, msgspec.Meta(max_length=4096)]]
    low: list[_Name]
    unproved: list[_Name]
    unspread: list[_Name]
    dirty_bytes: Optional[_Sum]
    lacking: dict[_Name, list[_Node]] = {}

    def __post_init__(self) -> None:
        _check_sums(self.dirty_bytes or 0)


class Phase(_Array):
    """A part of the job, from `mark`."""

    at: tuple[_Seconds, _Place]
    seconds: Annotated[dict[_Node, _Elapsed], msgspec.Meta(min_length=1)]
    file_systems: dict[_Name, FileSystem]


class Short(msgspec.Struct):
    """What is kept of one node."""

    elapsed_s: _Elapsed
    file_systems: dict[_Name, _Values]

    def __post_init__(self) -> None:
        for values in self.file_systems.values():
            _check_sums(*values.values())


class State(msgspec.Struct):
    """Totals.state()."""

    job: Annotated[str, msgspec.Meta(max_length=LONGEST_JOB_ID)]
    nodes: dict[_Node, Short]
    without: dict[_Node, _Why]
    gaps: list[_Node]
    parts: dict[_Node, Annotated[list[Part], msgspec.Meta(min_length=1, max_length=1000)]]
    file_systems: dict[_Name, FileSystem]
    notes: _Notes
    refused: dict[_Text, _Count]
    refused_nodes: dict[_Node, list[_Text]]
    shared: dict[_Node, _Count]
    node_ns: _Sum
    phases: Annotated[dict[_Name, Phase], msgspec.Meta(max_length=1000)]
    user: Optional[tuple[_Node, _Name]]

    def __post_init__(self) -> None:
        _check_sums(self.node_ns)
        if self.nodes.keys() != self.parts.keys() or self.nodes.keys() & self.without.keys():
            raise ValueError("expected each node in `nodes` and `parts`, or else in `without`")
        known = self.nodes.keys() | self.without.keys()
        unknown = _nodes_named(self) - known
        if unknown:
            raise ValueError(f"expected no other nodes, got {min(unknown)[:40]!r}")
        wrong = [node for node in known if not is_node_name(node)]
        if wrong:
            raise ValueError(f"expected names of nodes, got {min(wrong)[:40]!r}")


class Params(msgspec.Struct):
    """The params of the method `totals`; docs/wire.md."""

    protocol: int
    job: Annotated[str, msgspec.Meta(max_length=LONGEST_JOB_ID)]
    node: _Node
    seq: _Seq
    state: State


def _nodes_named(state: State) -> set[str]:
    """All nodes that are named beside those that are there."""
    named = {*state.gaps, *state.refused_nodes, *state.shared, *(state.user or ())[:1]}
    named.update(*state.notes.values(), *(phase.seconds for phase in state.phases.values()))
    for file_systems in (state.file_systems,
                         *(phase.file_systems for phase in state.phases.values())):
        for one in file_systems.values():
            named.update(one.watched, *one.notes.values(), *one.lacking.values())
            named.update(metadata.peak[1] for metadata in one.metadata.values())
    return named - {""}                        # "" is the peak of nobody


def totals_of(params: Params, node: str, job: str, metrics: set[str],
              named: Callable[[str], str]) -> Totals:
    """
    The Totals of Params that can be merged; WireError for others.

    `node`: that sent them; `job`: whose they must be; `metrics`: a set of the names of metrics that
    were taken before, to which theirs are added; `named`: as of Totals.from_state.
    """
    wire_protocol.check_protocol(params.protocol, "nodes and server")
    if params.job != job or params.state.job != job or params.node != node:
        raise WireError(wire_protocol.REFUSED,
                        "the totals are of another job or node than their header")
    names: set[str] = set()
    for one in params.state.file_systems.values():
        names.update(*(sums.values for sums in one.sums))
    if len(metrics | names) > _MOST_METRICS:
        raise WireError(wire_protocol.INVALID_PARAMS,
                        f"expected at most {_MOST_METRICS} different metrics")
    metrics |= names
    try:
        return Totals.from_state(msgspec.to_builtins(params.state), named=named)
    except ValueError as error:
        raise WireError(wire_protocol.REFUSED, str(error)) from None
