"""
Why jobs have no report (yet), in one line each: they are running or queued, some of their nodes
have not reported, or they are unknown.

The batch system has the running ones; it is queried as the calling user, who gets no more than
usual from it. The site's server has those that wait for nodes.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from iostats import schedulers
from iostats.base.errors import AccessDenied, IostatsError
from iostats.base.job_facts import ENDED, RUNNING, WAITING
from iostats.cli import site_client
from iostats.report import site_methods
from iostats.report.node_sets import fold_nodes

if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.base.job_facts import Facts
    from iostats.report.job_list import WaitingJob
    from iostats.totals.record import Record

_MAX_JOBS = 300                 # in one query


def explain_missing_reports(jobs: list[str], config: Config) -> dict[str, str]:
    """Return {job, as given: a line} for each of `jobs`, none of which has a record."""
    jobs = jobs[:_MAX_JOBS]
    facts = _query_facts(jobs, config)
    waiting = query_waiting([*jobs, *(raw for raw in facts if raw not in jobs)][:_MAX_JOBS], config)
    lines = {}
    for job in jobs:
        parts = [part for part in facts.values() if job in (part.raw_job, part.job, part.array_job,
                                                            part.het_job)]
        names: dict[str, str] = {part.raw_job: part.job for part in parts} or {job: job}
        waits = [part for part in waiting if part["job"] in names]
        if parts and parts[0].state is ENDED and not site_client.may_read_reports(parts[0].user,
                                                                                  config):
            lines[job] = str(AccessDenied(job, parts[0].user))
        elif len(parts) > 1:
            lines[job] = f"job {job} has no report yet: {_count_states(parts, waits)}"
        elif parts and parts[0].state in (RUNNING, WAITING) and not (
                waits and waits[-1]["attempt"] >= parts[0].restarts):
            lines[job] = f"job {job} {_describe_state(parts[0])}"
        elif waits:
            lines[job] = f"job {job} has no report yet: it {describe_waiting(waits[-1])}"
        elif parts:
            lines[job] = f"job {job} {_describe_state(parts[0])}"
        else:
            lines[job] = _describe_server_counts(job, config) or f"no record of job {job}"
    return lines


def describe_other_parts(job: str, records: list[Record], config: Config) -> str:
    """The state of those parts of `job` that are not among `records`; "" if all are."""
    recorded = {record.batch.raw_job for record in records if record.batch}
    missing = [part for raw, part in _query_facts([job], config).items()
               if raw not in recorded and job in (part.array_job, part.het_job)]
    raw_jobs: list[str] = [part.raw_job for part in missing[:_MAX_JOBS]]
    waits = query_waiting(raw_jobs, config) if missing else []
    return f"others have no report yet: {_count_states(missing, waits)}" if missing else ""


def query_waiting(jobs: list[str], config: Config) -> list[WaitingJob]:
    """The jobs that wait for reports: of `jobs`, or all if that is []."""
    with contextlib.suppress(IostatsError), site_client.check_format("a job that waits"):
        answer = site_client.ask_site(config, site_methods.WAITING, {"jobs": jobs})
        return [waiting for waiting in answer if describe_waiting(waiting)]
    return []


def describe_waiting(waiting: WaitingJob) -> str:
    """
    The state of a result of query_waiting(): `waits for node4 until 12:03 (3 of 4 nodes have
    reported)`.
    """
    count, nodes, names = waiting["missing_count"], waiting["nodes"], waiting["missing"]
    if nodes is not None and not count:
        return "has ended, and its report is being made"
    awaited = ("other nodes" if nodes is None else fold_nodes(names) if len(names) == count else
                f"{count:,} nodes")
    return (f"waits for {awaited} until {format_clock(waiting['until'])} ({waiting['reported']} of "
            f"{'?' if nodes is None else nodes} nodes have reported)")


def format_clock(at: float) -> str:
    """12:03 for a time of today, 2026-11-21T12:03 for another day."""
    parts, now = time.localtime(at), time.localtime()
    return time.strftime("%H:%M" if parts[:3] == now[:3] else "%Y-%m-%dT%H:%M", parts)


def _query_facts(jobs: list[str], config: Config) -> dict[str, Facts]:
    """Return {raw job: Facts} from the batch system; {} if none can be queried here."""
    with contextlib.suppress(IostatsError):
        system = schedulers.detect_queryable(config, os.environ)
        if system:
            return (system.query_parts(jobs) if hasattr(system, "query_parts") else
                    system.facts(jobs))
    return {}


def _describe_state(facts: Facts) -> str:
    if facts.state is RUNNING:
        since = f" since {format_clock(facts.started)}" if facts.started else ""
        where = f" on {facts.nodes}" if facts.nodes else ""
        return (f"is running{since}{where}: its report follows after its end; `iostats query jobs "
                f"--job {facts.raw_job}` may have the storage servers' counts so far")
    if facts.state is WAITING:
        return "is queued: it has not started"
    end = ", ".join([*([facts.outcome] if facts.outcome else []),
                     *([f"at {format_clock(facts.ended)}"] if facts.ended else [])])
    return (f"has ended{f' ({end})' if end else ''}, and none of its nodes has reported: if that "
            f"does not change in a minute, see `iostats_client.py doctor` on a node")


def _count_states(parts: list[Facts], waits: list[WaitingJob]) -> str:
    """The number of parts of an array or a heterogeneous job in each state."""
    reported = {part["job"] for part in waits}
    queued = [part for part in parts if part.state is WAITING]
    # The tasks of an array that have not started are one entry together.
    rest = any(part.array_job and not part.array_task for part in queued)
    counts = [
        (sum(part.state is RUNNING for part in parts), "running"),
        ("the others" if rest else len(queued), "queued"),
        (len(reported), "waiting for nodes"),
        (sum(part.state is ENDED and part.raw_job not in reported for part in parts),
         "ended without a report from any node")]
    return ", ".join(f"{count} {state}" for count, state in counts if count)


def _describe_server_counts(job: str, config: Config) -> str:
    """The line of a job that only the storage servers know; "" if they do not."""
    with contextlib.suppress(IostatsError), site_client.check_format("a row"):
        answer = site_client.ask_site(config, site_methods.QUERY, {"level": "jobs", "job": job})
        if any(row["is_job"] for row in answer["rows"]):
            return (f"job {job} has no report yet: it is running, or its numbers are not final; "
                    f"`iostats query jobs --job {job}` has the storage servers' counts")
    return ""
