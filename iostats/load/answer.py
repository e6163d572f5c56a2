"""
The answers to `load` and `query` (docs/reference/wire.md) for type checkers, and what is read from
their rows by a name that is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Optional, Protocol, TypedDict

    from iostats.base.ids import Nid, NodeName
    from iostats.base.job_facts import Facts

    class Known(Protocol):
        """Facts about the ids in job_stats and, if a Load has clients, about the clients."""

        def find_job(self, id: str, /) -> str:
            """The job that an id belongs to; "" for none: "cp.0", "kworker", ""."""

        def facts(self, id: str, /) -> Optional[Facts]:
            """The batch system's facts of that job."""

        def find_node(self, nid: Nid, /) -> NodeName:
            """The compute node of a client."""

        def running(self) -> Iterable[tuple[str, str, Iterable[str]]]:
            """Return (job, its user, its nodes) of the running jobs known to the batch system."""

    class Row(TypedDict, total=False):
        """One row of an answer; its amounts have names such as write_bytes or write_bytes_per_s."""

        job: Optional[str]
        user: Optional[str]
        node: str
        client: str
        server: str
        target: str
        file_system: str
        account: str
        name: str
        is_job: bool
        is_shared: bool
        is_low: bool
        lower_bound: bool
        rates_lower_bound: bool
        rates_estimated: bool
        nodes: Optional[int]
        clients: Optional[int]
        jobs: Optional[int]
        targets: int
        age_s: Optional[float]
        latency_ms: Optional[float]
        nids: list[str]
        job_names: list[str]
        users: list[str]
        no_job_share: Optional[float]
        lnet_sent_per_s: Optional[float]
        lnet_received_per_s: Optional[float]
        lnet_dropped_per_s: Optional[float]
        lnet_resent_per_s: Optional[float]
        lnet_waiting: Optional[int]
        lnet_lowest: Optional[int]
        requests: float
        no_job_requests: float
        counters: dict[str, int]
        notes: list[str]

    Amounts = dict[str, Optional[float]]

    class FileSystemSums(TypedDict, total=False):
        """The sums of a file system; its amounts are named like those of a Row."""

        file_system: str
        targets: int
        missing: dict[str, str]
        lower_bound: bool
        rates_estimated: bool
        no_job: Amounts
        no_job_share: Optional[float]
        storage_servers: Optional[Amounts]

    Mark = tuple[list[float], list[str], bool]

    class Answer(TypedDict, total=False):
        """An answer; `level`, `word` and `targets` are those of `query`."""

        at: Optional[float]
        span_s: Optional[float]
        kind: str
        began: Optional[float]
        newest_reading_s: Optional[float]
        oldest_reading_s: Optional[float]
        is_old: bool
        missing: dict[str, dict[str, str]]
        estimated: dict[str, dict[str, str]]
        by: str
        sort: str
        file_system: str
        user: str
        text: str
        only: str
        file_systems: list[FileSystemSums]
        show: list[str]
        rows: list[Row]
        left_off: int
        next: Optional[Mark]
        level: str
        word: str
        targets: list[Row]


def get_amounts(row: Row | FileSystemSums) -> Mapping[str, Optional[float]]:
    """The amounts of a Row or FileSystemSums by their names."""
    return cast("Mapping[str, Optional[float]]", row)


def get_names(row: Row) -> Mapping[str, Optional[str]]:
    """The names in a Row by those of their levels."""
    return cast("Mapping[str, Optional[str]]", row)


def make_row(members: Mapping[str, object]) -> Row:
    """The Row of these members."""
    return cast("Row", members)


def make_sums_row(members: Mapping[str, object]) -> FileSystemSums:
    """The FileSystemSums of these members."""
    return cast("FileSystemSums", members)
