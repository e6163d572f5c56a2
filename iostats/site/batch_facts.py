"""
What the batch system says of a job, in its record, and whether it says it of that job.
"""

from __future__ import annotations

import pwd

from iostats.base.job_facts import Facts
from iostats.totals.record import BatchRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.site.open_jobs import AboutJob
    from iostats.site.store import Key
    from iostats.totals.record import Record

_COLUMNS = ("cluster", "account", "partition", "name", "nodes", "outcome", "exit_status",
            "exit_signal", "array_job", "array_task", "het_job", "het_offset", "raw_job")


def with_facts(record: Record, key: Key, about: AboutJob, facts: Facts | None) -> Record:
    """`record` (that of Totals), with what the nodes and the batch system say of the job."""
    now_another = facts is not None and facts.restarts > key.attempt
    facts = facts or Facts(job=key.job, raw_job=key.job)
    batch = {"system": about.scheduler,
             **{name: getattr(facts, name) for name in _COLUMNS}}
    for name in ("cluster", "account", "partition", "nodes"):
        batch[name] = getattr(about, name) or batch[name]
    batch["raw_job"] = batch["raw_job"] or key.job
    if now_another:
        batch.update(outcome="REQUEUED", exit_status=None, exit_signal=None)
    # Not the user of the report: root's epilog has made it.
    user = about.user or facts.user or (user_name(about.uid) if about.uid is not None else "")
    job = record.job.replaced(id=facts.job or key.job, user=user or None, attempt=key.attempt)
    if job.started is None and facts.started is not None and not now_another:
        job = job.replaced(started=facts.started)        # no node has said
        if facts.ended is not None:
            job = job.replaced(ended=facts.ended,
                               elapsed_s=round(max(0.0, facts.ended - facts.started), 3))
    return record.replaced(job=job, batch=BatchRecord.of(batch))


def user_name(uid: int) -> str:
    """The name of a user of this machine; the number of another one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def are_of(facts: Facts, key: Key, about: AboutJob) -> bool:
    """False for facts of another job with the same number: of another cluster or user."""
    return (same_or_unknown(key.cluster, facts.cluster)
            and same_or_unknown(about.user, facts.user))


def same_or_unknown(one: str, other: str) -> bool:
    """Whether two names may be of one thing: "" is one that is not known."""
    return not one or not other or one == other
