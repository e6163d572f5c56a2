"""
The batch system's prolog and epilog on a node, as root: every job is measured, and its user does
nothing for it.

They keep their files in site.cfg's [node] hook_dir, see job_files.py.  A prolog touches this
directory alone.  An epilog keeps its report there, and delivery.py then sends all that wait, of
earlier jobs too, as long as its time allows; so a site server that is away delays no job, and
loses nothing.

Jobs that share a node: each prolog writes its job's name into the files of those that are there,
so that an epilog knows all that it was together with, also those that are gone.  An epilog begins
with "over=UPTIME" in its job's file: what it leaves behind when its time is up is no job that is
still there.
"""

from __future__ import annotations

import os

from iostats.base import private_files
from iostats.base.errors import IostatsError, NoStart, StateError
from iostats.base.job_id import as_filename
from iostats.node import identity as this_node
from iostats.node import idle_time, job_files
from iostats.node.measurement import Work, why_without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iostats.base.config import Config
    from iostats.totals.snapshot import Snapshot


def prolog(config: Config, root: str, node: str, job: str, about: dict[str, Any],
           say: Callable[[str], None]) -> Snapshot | None:
    """Keep the counters as they are before the job; the Snapshot, or None for the second time."""
    work = _work_of(config, root, node, job, about, say)
    directory, path = work.kept.directory, job_files.job_path(work.kept)
    mine = job_files.stem_of(work.kept.start_path)
    idle_time.take(directory, node, work.kept.start_path, root)
    there = set()
    for stem in job_files.starts(directory):
        why = job_files.why_it_is_over(directory, stem)
        if stem != mine and (stem == as_filename(job, node)
                             or stem.startswith(as_filename(job) + "%23")):
            why = why or job_files.NO_EPILOG                # an earlier run of this very job
        if why and (stem == mine or why == job_files.NO_EPILOG):
            from iostats.node import lost_starts
            lost_starts.give_up(config, root, directory, stem, why, say)
        elif not why:
            there.add(stem)
    if mine not in there:
        try:
            job_files.write(path, job_files.checked(about))
        except OSError as error:                            # the start is worth more
            say(f"{path}: cannot be kept: {error.strerror}")
    try:
        now = work.start()
    except IostatsError as error:
        job_files.append(path, f"why={error}\n", say)      # for the report, see _why_no_start
        raise
    # Once more: of two that begin at once at least one sees the other.
    there.update(stem for stem in job_files.starts(directory)
                 if not job_files.why_it_is_over(directory, stem))
    idle_time.is_over(directory, node, work.kept.start_path, is_alone=there <= {mine})
    for other in sorted(there - {mine}):
        job_files.append(os.path.join(directory, other + ".job"), f"other={mine}\n", say)
        job_files.append(path, f"other={other}\n", say)
    return now


def epilog(config: Config, root: str, node: str, job: str, about: dict[str, Any],
           say: Callable[[str], None]) -> IostatsError | None:
    """Keep this job's report, to be sent by `deliver`; the IostatsError that kept it from it."""
    import json
    about = {**about, "attempt": _attempt_that_ends(config["node.hook_dir"], node, job, about)}
    work = _work_of(config, root, node, job, about, say)
    path = job_files.job_path(work.kept)
    known = job_files.read(path)
    job_files.append(path, f"over={int(this_node.seconds_since_boot())}\n", say)
    idle_time.is_over(work.kept.directory, node, work.kept.start_path)
    about = {**known.about, **job_files.checked(about)}
    reports, failed, damaged = work.end(
        about, also_here=_other_jobs(work.kept.directory, node, known),
        beside=lambda start, end: _idle(work, node, job, about, start, end, say))
    if failed is not None:
        why = why_without(failed) + (_why_no_start(work.kept.directory, known)
                                     if isinstance(failed, NoStart) else "")
        message = work.without_numbers(why, about)
        at = work.kept.delta_path(message["seq"])
        reports[at] = message
        try:
            work.kept.keep_delta(message["seq"], json.dumps(message).encode())
        except StateError as error:
            say(str(error))
    for at, report in reports.items():
        if not os.path.exists(at):                          # the disk is full: now or never
            try:
                from iostats.node import delivery
                delivery.SiteConnection(config, say, config["node.hook_timeout"]).send(
                    report, config["node.hook_timeout"])
            except IostatsError as error:
                say(str(error))
                return failed or damaged                    # its start stands, see why_it_is_over
    if not isinstance(failed, NoStart):
        work.kept.forget_start()
    private_files.forget(path)
    idle_time.forget(work.kept.start_path)
    return failed or damaged


def _idle(work: Work, node: str, job: str, about: dict[str, Any], start: Snapshot, end: Snapshot,
          say: Callable[[str], None]) -> dict[str, Any]:
    """What the node does by itself, as members of the report; {} where that fails."""
    directory, mine = work.kept.directory, work.kept.start_path
    try:
        if about.get("scheduler"):
            from iostats import schedulers
            if getattr(schedulers.named(about["scheduler"]), "HOOKS_ON_FIRST_NODE", False):
                return {}                               # a job may be here that no hook tells of
        found = idle_time.measured(directory, node, mine, start,
                                   not this_node.other_jobs(job, start))
        if not (_others_left(directory, mine) or this_node.other_jobs(job, end)):
            idle_time.keep_quiet(directory, node, end, work.root)
            if _others_left(directory, mine):               # one that has begun just now
                idle_time.is_over(directory, node, mine)
        return found
    except Exception as error:                              # the numbers are worth more
        say(f"what the node does by itself is not known: {error!r}")
        return {}


def _others_left(directory: str, start_path: str) -> bool:
    """Whether another job has a start on the node, and no epilog yet."""
    mine = job_files.stem_of(start_path)
    return any(stem != mine and not job_files.why_it_is_over(directory, stem)
               for stem in job_files.starts(directory))


def _other_jobs(directory: str, node: str, known: job_files.JobFile) -> dict[str, Any]:
    """Of the other jobs on the node, for the report: how many, and which have had no epilog."""
    starts = set(job_files.starts(directory))
    named: list[dict[str, Any]] = []
    for stem in sorted(known.others):
        since = known.gone.get(stem)
        if stem in starts:
            since = (None if job_files.why_it_is_over(directory, stem)
                     else job_files.since(directory, stem))
        job, attempt = job_files.run_of(stem, node)
        if job and since is not None and len(named) < job_files.MOST_OTHERS:
            named.append({"job": job, "attempt": attempt, "since": since})
    return {"other_jobs": len(known.others), **({"others": named} if named else {})}


def _why_no_start(directory: str, known: job_files.JobFile) -> str:
    """": " and why a job has no start here, as far as that is known by now."""
    if known.why:
        return f": {known.why}"[:400]
    try:
        path = os.path.join(directory, f"try.{os.urandom(8).hex()}.new")
        private_files.write_whole(path, b" " * 4096)
        private_files.forget(path)
    except OSError as error:
        return f": {directory}: {error.strerror}"[:400]
    return ": its prolog has not run here, or could not keep one"


def _work_of(config: Config, root: str, node: str, job: str, about: dict[str, Any],
             say: Callable[[str], None]) -> Work:
    attempt = job_files.checked(about).get("attempt", 0)
    return Work(config, root, node, f"{job}#{attempt}" if attempt else job, say,
                config["node.hook_dir"], job)


def _attempt_that_ends(directory: str, node: str, job: str, about: dict[str, Any]) -> int:
    """
    Which run of a job its epilog is of: the last one that began here.

    Slurm counts a restart before it runs the epilogs of what it has stopped (measured with 22.05:
    prolog 0, epilog 1, prolog 1, epilog 1).
    """
    last: int = job_files.checked(about).get("attempt", 0)
    begun: set[int] = set()
    for stem in job_files.starts(directory):
        text = stem.partition(as_filename(job) + "%23")[2].partition("%20")[0]
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0
        if number <= last and stem == as_filename(f"{job}#{number}" if number else job, node):
            begun.add(number)
    return max(begun, default=last)
