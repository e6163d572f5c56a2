"""
The batch system's prolog and epilog on a node, as root: every job is measured, and its user does
nothing for it.

They keep their files in site.cfg's [node] hook_dir, see job_files.py.  A prolog touches this
directory alone.  An epilog keeps its report there, and delivery.py then sends all that wait, of
earlier jobs too, as long as its time allows; so a site server that is away delays no job, and
loses nothing.

Jobs that share a node: each prolog writes its job's name into the files of those that are there,
so that an epilog knows all jobs that ran beside it, also those that have ended.  An epilog begins
with "over=UPTIME" in its job's file: what it leaves behind when its time is up is no job that is
still there.
"""

from __future__ import annotations

import os

from iostats.base import private_files
from iostats.base.errors import IostatsError, MissingStart, StateError
from iostats.base.job_id import make_filename
from iostats.node import identity as this_node
from iostats.node import idle_time, job_files
from iostats.node.measurement import Work, explain_missing_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.schedulers.job_environment import JobAbout
    from iostats.totals.received_report import OtherRun, SentReport
    from iostats.totals.snapshot import Snapshot


def run_prolog(config: Config, root: str, node: str, job: str, about: JobAbout,
               emit: Callable[[str], None]) -> Snapshot | None:
    """Store the counters before the job; the Snapshot, or None when called again."""
    work = _make_work(config, root, node, job, about, emit)
    directory, path = work.kept.directory, job_files.make_job_path(work.kept)
    own_stem = job_files.get_stem(work.kept.start_path)
    idle_time.claim(directory, node, work.kept.start_path, root)
    there = set()
    for stem in job_files.list_started_jobs(directory):
        why = job_files.explain_missing_epilog(directory, stem)
        if stem != own_stem and (stem == make_filename(job, node)
                                 or stem.startswith(make_filename(job) + "%23")):
            why = why or job_files.NO_EPILOG                # an earlier run of this very job
        if why and (stem == own_stem or why == job_files.NO_EPILOG):
            from iostats.node import lost_starts
            lost_starts.give_up(config, root, directory, stem, why, emit)
        elif not why:
            there.add(stem)
    if own_stem not in there:
        try:
            job_files.write(path, job_files.select_valid(about))
        except OSError as error:                            # the start is worth more
            emit(f"{path}: cannot be written: {error.strerror}")
    try:
        now = work.start()
    except IostatsError as error:
        job_files.append(path, f"why={error}\n", emit)  # for _explain_missing_start
        raise
    # Once more: of two that begin at once at least one sees the other.
    there.update(stem for stem in job_files.list_started_jobs(directory)
                 if not job_files.explain_missing_epilog(directory, stem))
    idle_time.is_over(directory, node, work.kept.start_path, is_alone=there <= {own_stem})
    for other_stem in sorted(there - {own_stem}):
        job_files.append(os.path.join(directory, other_stem + ".job"), f"other={own_stem}\n", emit)
        job_files.append(path, f"other={other_stem}\n", emit)
    return now


def run_epilog(config: Config, root: str, node: str, job: str, about: JobAbout,
               emit: Callable[[str], None]) -> IostatsError | None:
    """Store this job's report, for `deliver`; the IostatsError if that fails."""
    import json
    about = {**about, "attempt": _attempt_that_ends(config.node.hook_dir, node, job, about)}
    work = _make_work(config, root, node, job, about, emit)
    path = job_files.make_job_path(work.kept)
    job_file = job_files.read(path)
    job_files.append(path, f"over={int(this_node.read_seconds_since_boot())}\n", emit)
    idle_time.is_over(work.kept.directory, node, work.kept.start_path)
    about = {**job_file.about, **job_files.select_valid(about)}
    reports, failed, damaged = work.end(
        about, also_here=_report_other_jobs(work.kept.directory, node, job_file),
        beside=lambda start, end: _compute_idle(work, node, job, about, start, end, emit))
    if failed is not None:
        why = explain_missing_numbers(failed) + (_explain_missing_start(work.kept.directory,
                                                                        job_file)
                                                 if isinstance(failed, MissingStart) else "")
        message = work.make_report_without_numbers(why, about)
        at = work.kept.make_delta_path(message["seq"])
        reports[at] = message
        try:
            work.kept.store_delta(message["seq"], json.dumps(message).encode())
        except StateError as error:
            emit(str(error))
    for at, report in reports.items():
        if not os.path.exists(at):                          # the disk is full: now or never
            try:
                from iostats.node import delivery
                delivery.SiteConnection(config, emit, config.node.hook_timeout).send(
                    report, config.node.hook_timeout)
            except IostatsError as error:
                emit(str(error))
                return failed or damaged                    # its start stands, see why_it_is_over
    if not isinstance(failed, MissingStart):
        work.kept.delete_start()
    private_files.remove_if_present(path)
    idle_time.delete(work.kept.start_path)
    return failed or damaged


def _compute_idle(work: Work, node: str, job: str, about: JobAbout, start: Snapshot,
                  end: Snapshot, emit: Callable[[str], None]) -> SentReport:
    """The node's own I/O, as members of the report; {} if that fails."""
    directory, start_path = work.kept.directory, work.kept.start_path
    try:
        if about.get("scheduler"):
            from iostats import schedulers
            if getattr(schedulers.find_scheduler(about["scheduler"]), "HOOKS_ON_FIRST_NODE", False):
                return {}                               # there may be a job here without hooks
        idle = idle_time.report_idle_io(directory, node, start_path, start,
                                        not this_node.count_other_jobs(job, start))
        if not (_has_other_jobs(directory, start_path) or this_node.count_other_jobs(job, end)):
            idle_time.store_idle_start(directory, node, end, work.root)
            if _has_other_jobs(directory, start_path):               # one that has just begun
                idle_time.is_over(directory, node, start_path)
        return idle
    except Exception as error:                              # the numbers are worth more
        emit(f"the node's idle I/O is unknown: {error!r}")
        return {}


def _has_other_jobs(directory: str, start_path: str) -> bool:
    """Whether another job has a start on the node, and no epilog yet."""
    own_stem = job_files.get_stem(start_path)
    return any(stem != own_stem and not job_files.explain_missing_epilog(directory, stem)
               for stem in job_files.list_started_jobs(directory))


def _report_other_jobs(directory: str, node: str, job_file: job_files.JobFile) -> SentReport:
    """
    The number of other jobs on the node, and those without an epilog, as members of the report.
    """
    starts = set(job_files.list_started_jobs(directory))
    named: list[OtherRun] = []
    for stem in sorted(job_file.others):
        since = job_file.gone.get(stem)
        if stem in starts:
            since = (None if job_files.explain_missing_epilog(directory, stem)
                     else job_files.read_start_time(directory, stem))
        job, attempt = job_files.parse_run(stem, node)
        if job and since is not None and len(named) < job_files.MOST_OTHERS:
            named.append({"job": job, "attempt": attempt, "since": since})
    return {"other_jobs": len(job_file.others), **({"others": named} if named else {})}


def _explain_missing_start(directory: str, job_file: job_files.JobFile) -> str:
    """Return ": " and the reason why a job has no start here, as far as known; or ""."""
    if job_file.why not in ("", job_files.EMPTY_FILE):
        return f": {job_file.why}"[:400]
    try:
        path = os.path.join(directory, f"try.{os.urandom(8).hex()}.new")
        private_files.write_atomically(path, b" " * 4096)
        private_files.remove_if_present(path)
    except OSError as error:
        return f": {directory}: {error.strerror}"[:400]
    return ": " + (job_file.why or "its prolog has not run here, or could not store one")


def _make_work(config: Config, root: str, node: str, job: str, about: JobAbout,
               emit: Callable[[str], None]) -> Work:
    attempt = job_files.select_valid(about).get("attempt", 0)
    return Work(config, root, node, f"{job}#{attempt}" if attempt else job, emit,
                config.node.hook_dir, job)


def _attempt_that_ends(directory: str, node: str, job: str, about: JobAbout) -> int:
    """Return the run that an epilog belongs to: the last one that began on this node.

    Slurm counts a restart before it runs the epilogs of the stopped run (measured with 22.05:
    prolog 0, epilog 1, prolog 1, epilog 1).
    """
    last: int = job_files.select_valid(about).get("attempt", 0)
    begun: set[int] = set()
    for stem in job_files.list_started_jobs(directory):
        text = stem.partition(make_filename(job) + "%23")[2].partition("%20")[0]
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0
        if number <= last and stem == make_filename(f"{job}#{number}" if number else job, node):
            begun.add(number)
    return max(begun, default=last)
