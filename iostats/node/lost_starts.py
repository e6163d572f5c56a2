"""
Starts that will get no epilog: their nodes are reported as without numbers.

A slurmd that dies runs no epilog, and its jobs' starts stay.  So a report names the jobs whose
starts are still there, and the site's server, which can ask the batch system, does not count those
that had ended before; its answer to the next report says which, and their starts go.  What they
leave ("was=SINCE STEM") is for the jobs that are there now: some may have been together with them.
"""

from __future__ import annotations

import os

from iostats.base import private_files
from iostats.base.errors import StateError
from iostats.base.private_files import read_text
from iostats.node import job_files
from iostats.node.measurement import Work
from iostats.totals import snapshot as snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iostats.base.config import Config
    from iostats.totals.received_report import OtherRun, SentReport

MOST_OTHERS = 100                  # that a report names
_FORGOTTEN_S = 90 * 86400          # files of no start: pieces of what was never whole


def reap(config: Config, root: str, now: Callable[[], float], emit: Callable[[str], None]) -> None:
    """
    Report starts that will get no epilog as nodes without numbers; remove old pieces of files.

    That a start is over is decided by its boot: a clock that is ahead proves nothing.
    """
    directory = config.node.hook_dir
    for stem in job_files.list_started_jobs(directory):
        why = job_files.explain_missing_epilog(directory, stem, now())
        if why:
            give_up(config, root, directory, stem, why, emit)
    starts = set(job_files.list_started_jobs(directory))
    for name in job_files.list_file_names(directory):
        if not name.endswith((".delta", ".refused")) and name.partition(".")[0] not in starts:
            path = os.path.join(directory, name)
            try:
                if now() - os.lstat(path).st_mtime > _FORGOTTEN_S:
                    private_files.remove_if_present(path)
            except OSError:
                continue


def drop_ended_starts(config: Config, root: str, directory: str, node: str, over: list[OtherRun],
                      emit: Callable[[str], None]) -> None:
    """Remove the starts of jobs that have ended according to the site's server."""
    over = [entry for entry in over[:job_files.MOST_OTHERS] if isinstance(entry, dict)]
    for stem in job_files.list_started_jobs(directory):
        job, attempt = job_files.parse_run(stem, node)
        run = {"job": job, "attempt": attempt, "since": job_files.read_start_time(directory, stem)}
        if job and run in over and not job_files.explain_missing_epilog(directory, stem):
            give_up(config, root, directory, stem, job_files.NO_EPILOG, emit)


def give_up(config: Config, root: str, directory: str, stem: str, why: str,
            emit: Callable[[str], None]) -> None:
    """Remove a start, and report its node as without numbers."""
    import json
    path = os.path.join(directory, stem + ".start")
    try:
        start = snapshots.decode(read_text(path).encode("latin-1"), path)
    except FileNotFoundError:                               # another one was faster
        return
    except (OSError, StateError) as error:
        emit(str(error))
        job_files.delete(directory, stem)
        return
    about = job_files.read(os.path.join(directory, stem + ".job")).about
    job, restarted, attempt = start.job.rpartition("#")
    if not restarted or not attempt.isdigit():
        job = start.job
    work = Work(config, root, start.node, start.job, emit, directory, job)
    # With the start's own name: what an epilog has kept before it was ended stands.
    message: SentReport = {**work.make_report_without_numbers(why, about), "seq": start.seq}
    since = job_files.read_start_time(directory, stem)
    had_none = why == job_files.NO_EPILOG and since is not None
    for other_stem in job_files.list_started_jobs(directory) if had_none else ():
        if other_stem != stem:
            job_files.append(os.path.join(directory, other_stem + ".job"), f"was={since} {stem}\n",
                             emit)
    try:
        if not os.path.exists(work.kept.make_delta_path(start.seq)):
            work.kept.store_delta(start.seq, json.dumps(message).encode())
        job_files.delete(directory, stem)
    except StateError as error:
        emit(str(error))                                     # the disk is full; later
