"""
Starts whose epilog will not come any more: their nodes are reported as without numbers.

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
    from typing import Any

    from iostats.base.config import Config

MOST_OTHERS = 100                  # that a report names
_FORGOTTEN_S = 90 * 86400          # files of no start: pieces of what was never whole


def reap(config: Config, root: str, now: Callable[[], float], say: Callable[[str], None]) -> None:
    """
    Report starts whose epilog will not come as nodes without numbers; remove old pieces of files.

    That a start is over is decided by its boot: a clock that is ahead proves nothing.
    """
    directory = config["node.hook_dir"]
    for stem in job_files.starts(directory):
        why = job_files.why_it_is_over(directory, stem, now())
        if why:
            give_up(config, root, directory, stem, why, say)
    starts = set(job_files.starts(directory))
    for name in job_files.file_names(directory):
        if not name.endswith((".delta", ".refused")) and name.partition(".")[0] not in starts:
            path = os.path.join(directory, name)
            try:
                if now() - os.lstat(path).st_mtime > _FORGOTTEN_S:
                    private_files.forget(path)
            except OSError:
                continue


def give_up_some(config: Config, root: str, directory: str, node: str, over: list[Any],
                  say: Callable[[str], None]) -> None:
    """Forget the starts of which the site's server says that their jobs have ended."""
    over = [one for one in over[:job_files.MOST_OTHERS] if isinstance(one, dict)]
    for stem in job_files.starts(directory):
        job, attempt = job_files.run_of(stem, node)
        run = {"job": job, "attempt": attempt, "since": job_files.since(directory, stem)}
        if job and run in over and not job_files.why_it_is_over(directory, stem):
            give_up(config, root, directory, stem, job_files.NO_EPILOG, say)


def give_up(config: Config, root: str, directory: str, stem: str, why: str,
             say: Callable[[str], None]) -> None:
    """Forget a start, and report its node as without numbers."""
    import json
    path = os.path.join(directory, stem + ".start")
    try:
        start = snapshots.decode(read_text(path).encode("latin-1"), path)
    except FileNotFoundError:                               # another one was faster
        return
    except (OSError, StateError) as error:
        say(str(error))
        job_files.forget(directory, stem)
        return
    about = job_files.read(os.path.join(directory, stem + ".job")).about
    job, restarted, attempt = start.job.rpartition("#")
    if not restarted or not attempt.isdigit():
        job = start.job
    work = Work(config, root, start.node, start.job, say, directory, job)
    # With the start's own name: what an epilog has kept before it was ended stands.
    message = {**work.without_numbers(why, about), "seq": start.seq}
    since = job_files.since(directory, stem)
    had_none = why == job_files.NO_EPILOG and since is not None
    for other in job_files.starts(directory) if had_none else ():
        if other != stem:
            job_files.append(os.path.join(directory, other + ".job"), f"was={since} {stem}\n", say)
    try:
        if not os.path.exists(work.kept.delta_path(start.seq)):
            work.kept.keep_delta(start.seq, json.dumps(message).encode())
        job_files.forget(directory, stem)
    except StateError as error:
        say(str(error))                                     # the disk is full; later
