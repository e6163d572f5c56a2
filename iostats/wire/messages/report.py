"""
The params of the method `report`: what one node did, as docs/wire.md has it; and their checks.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Optional

import msgspec

from iostats.base.errors import WireError, one_line
from iostats.base.job_id import LONGEST_JOB_ID, LONGEST_NODE_NAME
from iostats.totals.report_shapes import KnownShape
from iostats.wire import protocol

Gain = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LONGEST_NAME, _MOST_METRICS = 128, 10_000
Name = Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)]
_Why = Annotated[str, msgspec.Meta(max_length=500)]
_MOST_SECONDS = 1e12
_Seconds = Annotated[float, msgspec.Meta(ge=-_MOST_SECONDS, le=_MOST_SECONDS)]
MOST_EVENTS = 100                  # of a report; more are counted
_LONGEST = {"kind": 64, "cause": 64, "file_system": _LONGEST_NAME, "target": _LONGEST_NAME,
            "message": 500}         # texts of an event


class ReportedDelta(msgspec.Struct, gc=False):
    """What one counter file gained; totals/delta.py."""

    source: Name
    file_system: Name
    target: Name = ""
    values: Optional[dict[str, Gain]] = None          # names: check_report
    lower_bound: bool = False
    why: _Why = ""
    proved: bool = False


class ReportedPhase(msgspec.Struct):
    """One phase of a node's work, between two marks."""

    name: Name
    elapsed_s: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    deltas: list[ReportedDelta]


_Amounts = Annotated[list[Gain], msgspec.Meta(max_length=1000)]


class ReportedSeries(msgspec.Struct):
    """What `watch` saw of one file system."""

    began: _Seconds
    every_s: Annotated[float, msgspec.Meta(ge=1e-3, le=1e9)]     # 2e12 s / 1e-3 is no infinity
    read_bytes: _Amounts
    write_bytes: _Amounts
    operations: _Amounts

    def __post_init__(self) -> None:
        if not len(self.read_bytes) == len(self.write_bytes) == len(self.operations):
            raise ValueError(f"expected arrays of equal length, got {len(self.read_bytes)}, "
                             f"{len(self.write_bytes)} and {len(self.operations)}")


class ReportedIdle(msgspec.Struct):
    """What a node has done on one file system while no job was there."""

    seconds: Annotated[float, msgspec.Meta(ge=1, le=_MOST_SECONDS)]
    values: Annotated[dict[Name, Annotated[float, msgspec.Meta(ge=0, le=2**63)]],
                      msgspec.Meta(max_length=1000)] = {}


class ReportedEvent(msgspec.Struct, kw_only=True):
    """What went wrong on a machine, as events/event.py has it; times by the sender's clock."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    time: _Seconds
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST["kind"])]
    last: Optional[_Seconds] = None                   # None: as `time`
    over: Optional[_Seconds] = None
    severity: Annotated[int, msgspec.Meta(ge=0, le=3)] = 1
    cause: Annotated[str, msgspec.Meta(max_length=_LONGEST["cause"])] = ""
    node: Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)] = ""
    file_system: Name = ""
    target: Name = ""
    clients: Annotated[list[Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)]],
                       msgspec.Meta(max_length=8)] = []
    count: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 1
    skipped: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    message: _Why = ""

    def __post_init__(self) -> None:
        if self.last is None:
            self.last = self.time


class NodeReport(msgspec.Struct):
    """The params of the method `report`; docs/wire.md."""

    protocol: int
    job: Annotated[str, msgspec.Meta(max_length=LONGEST_JOB_ID)]
    node: Annotated[str, msgspec.Meta(max_length=LONGEST_NODE_NAME)]
    seq: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    ended: _Seconds
    elapsed_s: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    boot_id: Name = ""
    user: Name = ""
    reason: _Why = ""
    clock_ahead_s: _Seconds = 0.0
    uptime_s: _Seconds = 0.0
    mounts: Annotated[dict[Name, Annotated[list[str], msgspec.Meta(max_length=1000)]],
                      msgspec.Meta(max_length=1000)] = {}
    deltas: list[ReportedDelta] = []
    dirty_bytes: Optional[dict[Name, Gain]] = None
    other_jobs: Optional[Gain] = None
    phases: Annotated[list[ReportedPhase], msgspec.Meta(max_length=100)] = []
    series: Annotated[dict[Name, ReportedSeries], msgspec.Meta(max_length=1000)] = {}
    # None: the node does not look for events, as those of earlier releases.
    events: Optional[Annotated[list[ReportedEvent], msgspec.Meta(max_length=MOST_EVENTS)]] = None
    events_dropped: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    events_unseen: _Why = ""
    idle: Annotated[dict[Name, ReportedIdle], msgspec.Meta(max_length=1000)] = {}


def check_report(report: NodeReport, sender: str, job: str, metrics: set[str]) -> None:
    """
    Correct the times of a report by its node's clock; WireError for one that cannot be counted.

    `sender`: the node that sent it; `job`: the job that it must be of; `metrics`: the names of
    metrics that were seen before, to which those of the report are added.

    Names are checked when they are first seen: as a constraint of the type, the check of each name
    of each message would take a quarter of its decoding.
    """
    protocol.check_protocol(report.protocol, "nodes and server")
    if report.job != job or report.node != sender:
        raise WireError(protocol.REFUSED,
                        "the report is of another job or node than its header")
    # All at once first: they are nearly always known.
    deltas = () if isinstance(report.deltas, KnownShape) else report.deltas
    values_of_all: list[Mapping[str, float]] = [delta.values for delta in chain(deltas, *[
        phase.deltas for phase in report.phases]) if delta.values]
    values_of_all += [one.values for one in report.idle.values() if one.values]
    if not metrics.issuperset(chain.from_iterable(values_of_all)):
        for values in values_of_all:
            new = values.keys() - metrics
            metrics |= new
            if max(map(len, values)) > _LONGEST_NAME or len(metrics) > _MOST_METRICS:
                metrics -= new
                raise WireError(protocol.INVALID_PARAMS, (
                    f"expected metrics' names of at most {_LONGEST_NAME} characters, and at "
                    f"most {_MOST_METRICS} of them"))
    # By as much as its `hello` has shown the clock to be off.
    report.ended -= report.clock_ahead_s
    # It is encoded and decoded again (journal, store): within the limits of the type.
    if not -_MOST_SECONDS <= report.ended <= _MOST_SECONDS:
        raise WireError(protocol.INVALID_PARAMS, (
            f"expected `ended` less `clock_ahead_s` from -1e12 to 1e12, got {report.ended:g}"))
    report.events_unseen = one_line(report.events_unseen)[:500]
    for event in report.events or ():
        tidy_event(event, report.node, report.clock_ahead_s)


def tidy_event(event: ReportedEvent, node: str, ahead_s: float) -> None:
    """
    Make `event` of `node`, which can tell of itself alone, fit for a terminal, with times of the
    server's clock, which the node's is `ahead_s` ahead of.
    """
    event.node = node
    event.clients = [one_line(client)[:LONGEST_NODE_NAME] for client in event.clients]
    for name, longest in _LONGEST.items():      # it is decoded again, from the store
        setattr(event, name, one_line(getattr(event, name))[:longest])
    for name in ("time", "last", "over"):
        at = getattr(event, name)
        if at is not None:
            setattr(event, name, min(max(at - ahead_s, -_MOST_SECONDS), _MOST_SECONDS))
