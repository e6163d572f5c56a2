"""
Batch facts in the record of a job, and whether they are about that job.
"""

from __future__ import annotations

import pwd
from typing import TYPE_CHECKING

from iostats.base.ids import JobId
from iostats.base.job_facts import Facts
from iostats.totals.record import BatchRecord

if TYPE_CHECKING:
    from iostats.jobs.open_jobs import AboutJob
    from iostats.store.record_store import Key
    from iostats.totals.record import Record

_COLUMNS = ("cluster", "account", "partition", "name", "nodes", "outcome", "exit_status",
            "exit_signal", "array_job", "array_task", "het_job", "het_offset", "raw_job",
            "tasks", "cpus")


def add_facts_to_record(record: Record, key: Key, about: AboutJob, facts: Facts | None) -> Record:
    """`record` (as Totals makes it) with the facts from the nodes and from the batch system."""
    now_another = facts is not None and facts.restarts > key.attempt
    facts = facts or Facts(job=JobId(key.job), raw_job=key.job)
    batch = {"system": about.scheduler,
             **{name: getattr(facts, name) for name in _COLUMNS}}
    for name in ("cluster", "account", "partition", "nodes"):
        batch[name] = getattr(about, name) or batch[name]
    batch["raw_job"] = batch["raw_job"] or key.job
    if now_another:
        batch.update(outcome="REQUEUED", exit_status=None, exit_signal=None)
    # Not the user that sent the report: that is root's epilog.
    user = about.user or facts.user or (find_user_name(about.uid) if about.uid is not None else "")
    job = record.job.replaced(id=facts.job or key.job, user=user or None, attempt=key.attempt)
    if job.started is None and facts.started is not None and not now_another:
        job = job.replaced(started=facts.started)        # no node has reported it
        if facts.ended is not None:
            job = job.replaced(ended=facts.ended,
                               elapsed_s=round(max(0.0, facts.ended - facts.started), 3))
    return record.replaced(job=job, batch=BatchRecord.of(batch))


def find_user_name(uid: int) -> str:
    """The name of a user id on this machine; the number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def belong_to(facts: Facts, key: Key, about: AboutJob) -> bool:
    """False for facts of another job with the same number: of another cluster or user."""
    return (is_same_or_unknown(key.cluster, facts.cluster)
            and is_same_or_unknown(about.user, facts.user))


def is_same_or_unknown(name: str, other_name: str) -> bool:
    """True if two names are equal, or one of them is "" (unknown)."""
    return not name or not other_name or name == other_name
