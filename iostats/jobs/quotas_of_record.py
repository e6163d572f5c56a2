"""
Quotas of a job's user, and of the user's groups, that are nearly used up at the job's end, in its
record.

What is used is at most what the quota master has granted.  The record is for the job's user, who
may see these quotas; a project's is not in it: directories have a project, jobs have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.harvest.events.reported_metrics import find_newest_quotas, list_quota_ids
from iostats.jobs.events_of_record import list_file_systems
from iostats.lustre.quota import Quota, compute_nearness
from iostats.totals.record_additions import RecordedQuota, RecordedQuotas

if TYPE_CHECKING:
    from iostats.harvest.events.reporting_servers import ReportingServers
    from iostats.totals.record import Record

AT_THE_END_S = 3600.0           # a reading this long before or after the end is of the job's end
MOST_LISTED = 20


def make_quotas(record: Record, servers: ReportingServers, percent: int) -> RecordedQuotas | None:
    """The RecordedQuotas with at least `percent` granted; None where no quotas are known."""
    ended = record.job.ended
    if ended is None and record.harvest:
        ended = record.harvest.ended
    if not percent or not record.job.user or ended is None:
        return None
    names = list_quota_ids(record.job.user)
    read_at: dict[str, float] = {}
    near: list[tuple[float, RecordedQuota]] = []
    for file_system in sorted(list_file_systems(record) or ()) if names else ():
        status = find_newest_quotas(servers, file_system)
        if status is None or abs(status["read_at"] - ended) > AT_THE_END_S:
            continue
        by_nearness = [(compute_nearness(quota), quota)
                       for quota in (Quota(**quota) for quota in status["nearest"])]
        if status["count"] > len(by_nearness) and all(
                nearness >= percent for nearness, _ in by_nearness):
            continue                    # the user's may be among those that are not reported
        read_at[file_system] = status["read_at"]
        near += [(nearness, _record_quota(quota, names[quota.kind, quota.id]))
                 for nearness, quota in by_nearness
                 if nearness >= percent and (quota.kind, quota.id) in names]
    near.sort(key=lambda pair: -pair[0])
    return RecordedQuotas(percent=percent, read_at=read_at,
                          nearly_used=[quota for _, quota in near[:MOST_LISTED]],
                          ) if read_at else None


def _record_quota(quota: Quota, name: str) -> RecordedQuota:
    return RecordedQuota(file_system=quota.file_system, pool=quota.pool, kind=quota.kind, name=name,
                         resource=quota.resource, granted=quota.granted, soft=quota.soft,
                         hard=quota.hard)
