"""The status of a storage server, as its agent reports it with the events, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Optional, TypedDict

    class Recovery(TypedDict):
        """A target's recovery while it lasts."""

        clients: int
        of: int
        left_s: float

    class TargetStatus(TypedDict, total=False):
        """A target that is here, or was."""

        state: str
        clients: Optional[int]
        recovery: Recovery
        capacity: dict[str, int]            # of lustre.capacity.Capacity

    class _Counted(TypedDict):
        """Counters, and their gains since the last reading."""

        values: dict[str, int]
        gained: dict[str, int]

    class Amounts(_Counted, total=False):
        """Those of a target or a service."""

        policy: str     # of a service's request scheduler; absent where unknown

    class MetricsStatus(TypedDict):
        """The status of events/sources/metrics.py."""

        seconds: float                      # between two readings
        targets: dict[str, Amounts]
        services: dict[str, Amounts]

    class LogStatus(TypedDict, total=False):
        """The status of reading the kernel's log."""

        source: str                         # "none": it is not read
        why: str
        lines: int
        lost: int

    class QuotaStatus(TypedDict):
        """A quota near to its limit."""

        file_system: str
        pool: str
        kind: str
        id: int
        resource: str
        granted: int
        soft: int
        hard: int
        grace_end: int

    class QuotasStatus(TypedDict):
        """The quotas of a file system: how many, and those that are nearest to their limits."""

        read_at: float                      # when, s since 1970
        count: int
        nearest: list[QuotaStatus]

    class ServerStatus(TypedDict, total=False):
        """The status of a storage server; each source of events adds its member."""

        node: str
        late: bool
        heard: float
        made: float
        health: str
        log: LogStatus
        targets: dict[str, TargetStatus]
        metrics: MetricsStatus
        lnet: dict[str, Any]                # of wire.messages.events.LnetStatus
        quotas: dict[str, QuotasStatus]


NO_METRICS: MetricsStatus = {"seconds": 0.0, "targets": {}, "services": {}}
