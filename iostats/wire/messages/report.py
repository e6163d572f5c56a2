"""
The params of the method `report` (docs/reference/wire.md): the deltas of one node, their checks,
and a fast decoder for reports of one shape.

Most of a report's decoding goes into a dict for each delta and a check of each name, while the
nodes of a job mostly have the same names.  ReportDecoder makes a type with these names as its
fields, and decodes straight into lists of numbers (totals/report_shapes.py): a report of 16 kB
takes 141 us instead of 289, checked and added up.  A report of another shape is decoded as any
message, with the same checks and messages.

In such a type each key of an example is required.  Each has one colon, so a report of that type
with as many colons as keys has each of them once, and no other key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, Optional

import msgspec

from iostats.base.errors import WireError, sanitize
from iostats.base.job_id import LONGEST_JOB_ID, LONGEST_NODE_NAME
from iostats.base.named_tuple import NamedTuple
from iostats.lustre.lnet import NODE_COUNTS, is_known
from iostats.totals.report_shapes import KnownShape, ReportShapes, ShapeSums, are_possible, head
from iostats.wire import protocol

Gain = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LONGEST_NAME, _MOST_METRICS = 128, 10_000
Name = Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)]
_Why = Annotated[str, msgspec.Meta(max_length=500)]
_MOST_SECONDS = 1e12
Cpus = Annotated[int, msgspec.Meta(ge=0, le=2**20)]
_Seconds = Annotated[float, msgspec.Meta(ge=-_MOST_SECONDS, le=_MOST_SECONDS)]
MOST_EVENTS = 100                  # of a report; more are counted
_LONGEST = {"kind": 64, "cause": 64, "file_system": _LONGEST_NAME, "target": _LONGEST_NAME,
            "message": 500}         # texts of an event


class ReportedDelta(msgspec.Struct, gc=False):
    """The changes of one counter file; totals/delta.py."""

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
    """The readings of `watch` for one file system."""

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
    """A node's own I/O on one file system between two jobs."""

    seconds: Annotated[float, msgspec.Meta(ge=1, le=_MOST_SECONDS)]
    values: Annotated[dict[Name, Annotated[float, msgspec.Meta(ge=0, le=2**63)]],
                      msgspec.Meta(max_length=1000)] = {}


class ReportedEvent(msgspec.Struct, kw_only=True):
    """An event of one machine, with the fields of events/event.py; times by the sender's clock."""

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
    """The params of the method `report`; docs/reference/wire.md."""

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
    cpus: Cpus = 0
    lnet: Annotated[list[Gain], msgspec.Meta(max_length=len(NODE_COUNTS))] = []


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
    if report.lnet and not is_known(len(report.lnet)):
        raise WireError(protocol.INVALID_PARAMS, f"expected {len(NODE_COUNTS)} numbers of LNet, or "
                                                 f"the first {len(NODE_COUNTS) - 2}")
    # All at once first: they are nearly always known.
    deltas = () if isinstance(report.deltas, KnownShape) else report.deltas
    values_of_all: list[Mapping[str, float]] = [delta.values for delta in chain(deltas, *[
        phase.deltas for phase in report.phases]) if delta.values]
    values_of_all += [idle.values for idle in report.idle.values() if idle.values]
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
    report.events_unseen = sanitize(report.events_unseen)[:500]
    for event in report.events or ():
        tidy_event(event, report.node, report.clock_ahead_s)


def tidy_event(event: ReportedEvent, node: str, ahead_s: float) -> None:
    """
    Make an event of `node` safe for a terminal, correct its node name, and convert its times to the
    server's clock, by the `ahead_s` that the node's clock is ahead.
    """
    event.node = node
    event.clients = [sanitize(client)[:LONGEST_NODE_NAME] for client in event.clients]
    for name, longest in _LONGEST.items():      # it is decoded again, from the store
        text: str = getattr(event, name)
        setattr(event, name, sanitize(text)[:longest])
    for name in ("time", "last", "over"):
        at: float | None = getattr(event, name)
        if at is not None:
            setattr(event, name, min(max(at - ahead_s, -_MOST_SECONDS), _MOST_SECONDS))


_MOST_DELTAS = 1000                 # of a shape for which types are made
_numbers: Callable[[Any], tuple[int, ...]] = msgspec.structs.astuple


class _ReportType(NamedTuple):
    """A type for reports of one shape."""

    likely: ShapeSums   # the ShapeSums with the shape
    # JSON -> a report of this type; None where names of the shape cannot be fields
    decode: Callable[[bytes], Any] | None
    keys: int           # how many there are, but those of `mounts`, `dirty_bytes` and `series`


class ReportDecoder:
    """Decodes reports of a likely shape."""

    def __init__(self, shapes: ReportShapes) -> None:
        """`shapes`: the known shapes."""
        self._shapes = shapes
        self._type: _ReportType | None = None   # of the report before
        self._make_type = lru_cache(maxsize=8)(_make_type)

    def decode(self, raw: bytes) -> NodeReport | None:
        """The NodeReport in `raw`, its deltas as KnownShape; None for another shape."""
        likely = self._shapes.likely
        if likely is None:
            return None
        try:
            if self._type is None or self._type.likely is not likely:
                example: dict[str, list[dict[str, object]]] = msgspec.json.decode(raw)
                self._type = self._make_type(likely, tuple(example), tuple(map(
                    tuple, example["deltas"])))
            if self._type.decode is not None:
                report: NodeReport = self._type.decode(raw)
                if tuple(map(head, report.deltas)) == likely.shape[0] and raw.count(b":") == (
                        self._type.keys + _count_keys(report)):
                    of_deltas: list[tuple[int, ...]] = [
                        _numbers(delta.values) for delta in report.deltas]
                    numbers = list(chain.from_iterable(of_deltas))
                    if are_possible(numbers):
                        known: Any = KnownShape(likely, numbers)
                        report.deltas = known
                        return report
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, TypeError, KeyError):
            pass                                # decoded as usual, which says what is wrong
        self._shapes.likely = self._type = None
        return None


def _count_keys(report: NodeReport) -> int:
    """
    The number of keys in the members that differ from node to node; 0 if it is not counted here.
    """
    if report.phases or report.events or report.idle:
        return 0
    return (len(report.mounts) + len(report.dirty_bytes or ())
            + len(report.series) * (1 + len(ReportedSeries.__struct_fields__)))


def _make_type(likely: ShapeSums, keys: tuple[str, ...],
               delta_keys: tuple[tuple[str, ...], ...]) -> _ReportType:
    """Make the type of reports of this shape with these keys, also in their deltas."""
    _, lengths, names = likely.shape
    if not 0 < len(lengths) == len(delta_keys) <= _MOST_DELTAS or min(lengths) < 0:
        return _ReportType(likely, None, 0)
    kinds: dict[tuple[tuple[str, ...], tuple[str, ...]], type[msgspec.Struct]] = {}
    delta_types, at = [], 0
    for length, keys_here in zip(lengths, delta_keys):
        key = names[at:at + length], keys_here
        at += length
        try:
            kinds[key] = kinds.get(key) or _make_delta_type(*key)
        except (TypeError, ValueError):         # a name with quotes is no field, say
            return _ReportType(likely, None, 0)
        delta_types.append(kinds[key])
    fields = _list_required_fields(NodeReport, keys,
                                   {"deltas": tuple.__class_getitem__(tuple(delta_types))})
    kind = msgspec.defstruct("_Report", fields, bases=(NodeReport,), kw_only=True)
    return _ReportType(likely, msgspec.json.Decoder(kind).decode, len(fields) + len(names) + sum(
        len(_list_required_fields(ReportedDelta, keys_here, {})) for keys_here in delta_keys))


def _make_delta_type(names: tuple[str, ...], keys: tuple[str, ...]) -> type[msgspec.Struct]:
    """
    A subtype of ReportedDelta with exactly these keys, and with these names as the fields of its
    values.
    """
    values = msgspec.defstruct(
        "_Values", [(f"at_{number}", Gain, msgspec.field(name=name))
                    for number, name in enumerate(names)],
        forbid_unknown_fields=True, gc=False)
    return msgspec.defstruct("_Delta",
                             _list_required_fields(ReportedDelta, keys, {"values": values}),
                             bases=(ReportedDelta,), kw_only=True, gc=False)


def _list_required_fields(kind: type[msgspec.Struct], keys: tuple[str, ...],
                          types: dict[str, object]) -> list[tuple[str, object]]:
    """The fields of a struct that have these names, with their own type or that of `types`."""
    annotations: dict[str, object] = kind.__annotations__
    return [(name, types.get(name, of_field)) for name, of_field in annotations.items()
            if name in keys]
