"""
Why jobs have no report (yet), in one line each: they are running or queued, some of their nodes
have not reported, or they are unknown.

The batch system knows which are running; it is asked as the calling user, and shows that user no
more than it does otherwise.  The site's server knows which wait for nodes.
"""

from __future__ import annotations

import contextlib
import os
import time

from iostats import schedulers
from iostats.base.errors import IostatsError, NotYours
from iostats.base.job_facts import ENDED, RUNNING, WAITING
from iostats.cli import site_client
from iostats.report.node_sets import folded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iostats.base.config import Config
    from iostats.base.job_facts import Facts
    from iostats.totals.record import Record

_MOST_JOBS = 300                # in one question


def reasons(jobs: list[str], config: Config) -> dict[str, str]:
    """{job, as it was asked for: a line} for each of `jobs`, none of which has a record."""
    jobs = jobs[:_MOST_JOBS]
    facts = _facts(jobs, config)
    waiting = waiting_jobs([*jobs, *(raw for raw in facts if raw not in jobs)][:_MOST_JOBS], config)
    found = {}
    for job in jobs:
        parts = [one for one in facts.values() if job in (one.raw_job, one.job, one.array_job,
                                                          one.het_job)]
        names = {one.raw_job: one.job for one in parts} or {job: job}
        waits = [one for one in waiting if one["job"] in names]
        if parts and parts[0].state is ENDED and not site_client.may_read(parts[0].user, config):
            found[job] = str(NotYours(job, parts[0].user))
        elif len(parts) > 1:
            found[job] = f"job {job} has no report yet: {_counted(parts, waits)}"
        elif parts and parts[0].state in (RUNNING, WAITING) and not (
                waits and waits[-1]["attempt"] >= parts[0].restarts):
            found[job] = f"job {job} {_state(parts[0])}"
        elif waits:
            found[job] = f"job {job} has no report yet: it {awaited(waits[-1])}"
        elif parts:
            found[job] = f"job {job} {_state(parts[0])}"
        else:
            found[job] = _at_servers(job, config) or f"no record of job {job}"
    return found


def others(job: str, records: list[Record], config: Config) -> str:
    """The state of those parts of `job` that are not among `records`; "" where all are."""
    there = {record.batch.raw_job for record in records if record.batch}
    left = [one for raw, one in _facts([job], config).items()
            if raw not in there and job in (one.array_job, one.het_job)]
    waits = waiting_jobs([one.raw_job for one in left][:_MOST_JOBS], config) if left else []
    return f"others have no report yet: {_counted(left, waits)}" if left else ""


def waiting_jobs(jobs: list[str], config: Config) -> list[dict[str, Any]]:
    """[{}] as docs/wire.md has it for `waiting`: of `jobs`, or of all where that is []."""
    with contextlib.suppress(IostatsError), site_client.form_checked("a job that waits"):
        return [one for one in site_client.ask_site(config, "waiting", {"jobs": jobs})
                if awaited(one)]
    return []


def awaited(one: dict[str, Any]) -> str:
    """
    The state of one of waiting_jobs(): `waits for node4 until 12:03 (3 of 4 nodes have reported)`.
    """
    count, nodes, named = one["missing_count"], one["nodes"], one["missing"]
    if nodes is not None and not count:
        return "has ended, and its report is being made"
    for_whom = ("other nodes" if nodes is None else folded(named) if len(named) == count else
                f"{count} nodes")
    return (f"waits for {for_whom} until {clock(one['until'])} ({one['reported']} of "
            f"{'?' if nodes is None else nodes} nodes have reported)")


def clock(at: float) -> str:
    """12:03 for a time of today, 2026-11-21T12:03 for another."""
    there, now = time.localtime(at), time.localtime()
    return time.strftime("%H:%M" if there[:3] == now[:3] else "%Y-%m-%dT%H:%M", there)


def _facts(jobs: list[str], config: Config) -> dict[str, Facts]:
    """{raw job: Facts} from the batch system; {} where none can be asked here."""
    with contextlib.suppress(IostatsError):
        system = schedulers.that_answers(config, os.environ)
        if system:
            ask = getattr(system, "facts_of_parts", system.facts)
            found: dict[str, Facts] = ask(jobs)
            return found
    return {}


def _state(one: Facts) -> str:
    if one.state is RUNNING:
        since = f" since {clock(one.started)}" if one.started else ""
        where = f" on {one.nodes}" if one.nodes else ""
        return (f"is running{since}{where}: it has a report when it has ended; `iostats query jobs "
                f"--job {one.raw_job}` may have what the storage servers have counted so far")
    if one.state is WAITING:
        return "is queued: it has not started"
    how = ", ".join([*([one.outcome] if one.outcome else []),
                     *([f"at {clock(one.ended)}"] if one.ended else [])])
    return (f"has ended{f' ({how})' if how else ''}, and none of its nodes has reported: if that "
            f"does not change in a minute, `iostats_client.py doctor` on a node says why")


def _counted(parts: list[Facts], waits: list[dict[str, Any]]) -> str:
    """How many parts of an array or a heterogeneous job are in which state."""
    reported = {one["job"] for one in waits}
    queued = [one for one in parts if one.state is WAITING]
    # The tasks of an array that have not started are one entry together.
    rest = any(one.array_job and not one.array_task for one in queued)
    counts = [
        (sum(one.state is RUNNING for one in parts), "running"),
        ("the others" if rest else len(queued), "queued"),
        (len(reported), "waiting for nodes"),
        (sum(one.state is ENDED and one.raw_job not in reported for one in parts),
         "ended without a report from any node")]
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def _at_servers(job: str, config: Config) -> str:
    """The line of a job that only the storage servers know; ""."""
    with contextlib.suppress(IostatsError), site_client.form_checked("a row"):
        rows = site_client.ask_site(config, "query", {"level": "jobs", "job": job})["rows"]
        if any(row["is_job"] for row in rows):
            return (f"job {job} has no report yet: it is running, or its numbers are not final; "
                    f"`iostats query jobs --job {job}` has what the storage servers have counted")
    return ""
