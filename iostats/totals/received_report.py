"""A node's report for type checkers, as a decoded message or as a record of the node itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Optional, Protocol, TypedDict, Union

    from iostats.totals.report_shapes import KnownShape

    class ReportedDelta(Protocol):
        """The changes of one counter file; totals/delta.py's Delta has their meaning."""

        @property
        def source(self) -> str: ...
        @property
        def file_system(self) -> str: ...
        @property
        def target(self) -> str: ...
        @property
        def values(self) -> Optional[dict[str, int]]: ...
        @property
        def lower_bound(self) -> bool: ...
        @property
        def why(self) -> str: ...
        @property
        def proved(self) -> bool: ...

    Deltas = Union[Sequence[ReportedDelta], KnownShape]

    class ReportedPhase(Protocol):
        """A part of the node's work between two marks."""

        name: str
        elapsed_s: float

        @property
        def deltas(self) -> Sequence[ReportedDelta]: ...

    class ReportedSeries(Protocol):
        """The readings of `watch` for a file system."""

        began: float
        every_s: float
        read_bytes: list[int]
        write_bytes: list[int]
        operations: list[int]

    class ReportedIdle(Protocol):
        """{metric: amount} of a node's own I/O in these seconds without a job."""

        seconds: float
        values: dict[str, float]

    class ReportedEvent(Protocol):
        """An event on the node; events/event.py's Event has the meaning of its members."""

        id: str
        time: float
        last: Optional[float]                   # None: as `time`
        over: Optional[float]
        severity: int
        kind: str
        cause: str
        file_system: str
        target: str
        count: int
        message: str

    class EventDetails(TypedDict):
        """
        The details of an event, as the totals of a job store them; `message`: of a node's event
        only.
        """

        id: str
        time: float
        last: float
        over: Optional[float]
        severity: int
        kind: str
        cause: str
        file_system: str
        target: str
        count: int
        message: str

    PhasesOfReport = Optional[Sequence[ReportedPhase]]
    SeriesOfReport = Optional[Mapping[str, ReportedSeries]]
    EventsOfReport = Optional[Sequence[ReportedEvent]]
    IdleOfReport = Optional[Mapping[str, ReportedIdle]]

    class ReceivedReport(Protocol):
        """The members that node_report.Report and the decoded messages share."""

        @property
        def node(self) -> str: ...
        @property
        def seq(self) -> str: ...
        @property
        def boot_id(self) -> str: ...
        @property
        def user(self) -> str: ...
        @property
        def reason(self) -> str: ...
        @property
        def ended(self) -> float: ...
        @property
        def elapsed_s(self) -> float: ...
        @property
        def clock_ahead_s(self) -> float: ...
        @property
        def mounts(self) -> Mapping[str, list[str]]: ...
        @property
        def deltas(self) -> Deltas: ...
        @property
        def dirty_bytes(self) -> Optional[dict[str, int]]: ...
        @property
        def other_jobs(self) -> Optional[int]: ...
        @property
        def phases(self) -> PhasesOfReport: ...
        @property
        def series(self) -> SeriesOfReport: ...
        @property
        def uptime_s(self) -> float: ...
        @property
        def events(self) -> EventsOfReport: ...
        @property
        def events_dropped(self) -> int: ...
        @property
        def events_unseen(self) -> str: ...
        @property
        def idle(self) -> IdleOfReport: ...
        @property
        def cpus(self) -> int: ...
        @property
        def lnet(self) -> Sequence[int]: ...

    class SentDelta(TypedDict, total=False):
        """A Delta in the JSON of a report; what is "" or false is left out."""

        source: str
        file_system: str
        target: str
        values: Optional[dict[str, int]]
        lower_bound: bool
        why: str
        proved: bool

    class SentPhase(TypedDict):
        """A ReportedPhase in the JSON of a report."""

        name: str
        elapsed_s: float
        deltas: list[SentDelta]

    class SentSeries(TypedDict):
        """A ReportedSeries in the JSON of a report."""

        began: float
        every_s: float
        read_bytes: list[int]
        write_bytes: list[int]
        operations: list[int]

    class SentIdle(TypedDict):
        """A ReportedIdle in the JSON of a report."""

        seconds: float
        values: dict[str, float]

    class OtherRun(TypedDict):
        """A run of another job on the node, which has no epilog yet."""

        job: str
        attempt: Optional[int]
        since: float

    class SentReport(TypedDict, total=False):
        """The params of the method `report` (docs/reference/wire.md), as a node sends them."""

        protocol: int
        job: str
        node: str
        seq: str
        boot_id: str
        user: str
        reason: str
        ended: float
        elapsed_s: float
        clock_ahead_s: float
        uptime_s: float
        mounts: dict[str, list[str]]
        deltas: list[SentDelta]
        dirty_bytes: Optional[dict[str, int]]
        other_jobs: Optional[int]
        others: list[OtherRun]
        in_cgroups: int
        cpus: int
        phases: list[SentPhase]
        series: dict[str, SentSeries]
        events: list[dict[str, object]]
        events_dropped: int
        events_unseen: str
        idle: dict[str, SentIdle]
        lnet: list[int]
        about: Mapping[str, object]
