"""
When and where a job ran, for questions about its events.

    its records               what the batch system, and its nodes, said of each run
    the list of all jobs      runs that are not in a record, also those that run now
    what harvest knows        a job of which neither says anything
"""

from __future__ import annotations

from collections import namedtuple

import msgspec

from iostats.base.errors import StateError
from iostats.base.node_list import expanded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iostats.site.all_jobs import AllJobs
    from iostats.site.harvest_intake import Harvest
    from iostats.site.store import Store

_MOST_RUNS = 1_000
_ENDS_LATE_S = 60.0             # what its nodes had in flight is thrown away after its end

RunOfJob = namedtuple("RunOfJob", "user nodes file_systems since until")
RunOfJob.__doc__ = """
One run of a job.

Attributes:
    user: whose it is; "" where that is not known.
    nodes: names of its nodes.
    file_systems: names of those that it used; None where that is not known yet.
    since, until: s since 1970; until is None while it runs.
"""


def runs_of(job: str, store: Store, all_jobs: AllJobs, harvest: Harvest) -> list[RunOfJob]:
    """[RunOfJob] of a job, as its users write it or the batch system has it; StateError."""
    found = list(_of_records(job, store))
    known = {round(run.since) for run in found}
    for run in list(all_jobs.runs.runs.values()):
        if job in (run.job, run.shown_as) and round(run.started) not in known:
            known.add(round(run.started))
            found.append(RunOfJob(str(run.facts.get("user") or ""), _names(run.nodes), None,
                                  run.started, None if run.over == float("inf") else run.over))
    facts = None if found else harvest.facts(job)
    if facts is not None and facts.started is not None:
        found.append(RunOfJob(facts.user, _names(facts.nodes), None, facts.started, facts.ended))
    return found[:_MOST_RUNS]


def _of_records(job: str, store: Store) -> Iterator[RunOfJob]:
    for body in store.records(job):
        try:
            record = msgspec.json.decode(body)
            since, until = record["job"]["started"], record["job"]["ended"]
            if since is None:
                continue
            nodes = _names((record.get("batch") or {}).get("nodes") or "")
            yield RunOfJob(record["job"]["user"] or "", nodes or sorted(record["nodes"]),
                           {one["name"] for one in record["file_systems"]}, float(since),
                           None if until is None else float(until) + _ENDS_LATE_S)
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"the record of job {job} cannot be understood: {error!r:.100}"
                             ) from None


def _names(text: Any) -> list[str]:
    try:
        return expanded(str(text))
    except ValueError:
        return []
