"""
The methods of the site's server that commands and pages call, and what each answers.

docs/reference/wire.md has their params.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, TypedDict

from iostats.wire.method_name import MethodName

if TYPE_CHECKING:
    from iostats.load.answer import Answer
    from iostats.load.time_lines import FileSystemSeries, JobSeries
    from iostats.report.capacity_table import CapacityAnswer
    from iostats.report.job_fields import ListedJobs
    from iostats.report.job_list import WaitingJob
    from iostats.report.node_list import ListedNodes
    from iostats.report.nodes_down import DownAnswer
    from iostats.report.server_tables import MetricsAnswer, QuotaAnswer

    Records = list[dict[str, object]]


class Rights(TypedDict):
    """The answer to `rights`: a user, and whether they may see all users' jobs."""

    user: str
    all: bool


CAPACITY: MethodName[CapacityAnswer] = MethodName("capacity")
EVENTS_STATUS: MethodName[DownAnswer] = MethodName("events_status")
FILE_SYSTEM_LINES: MethodName[FileSystemSeries] = MethodName("file_system_lines")
JOBS: MethodName[ListedJobs] = MethodName("jobs")
JOB_HISTORY: MethodName[Optional[JobSeries]] = MethodName("job_history")
LATEST: MethodName[Records] = MethodName("latest")
LOAD: MethodName[Answer] = MethodName("load")
METRICS: MethodName[MetricsAnswer] = MethodName("metrics")
NODES: MethodName[ListedNodes] = MethodName("nodes")
QUERY: MethodName[Answer] = MethodName("query")
QUOTAS: MethodName[QuotaAnswer] = MethodName("quotas")
RECORD: MethodName[Records] = MethodName("record")
RIGHTS: MethodName[Rights] = MethodName("rights")
WAITING: MethodName[list[WaitingJob]] = MethodName("waiting")
