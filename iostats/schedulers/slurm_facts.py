"""
What Slurm knows of jobs, by its commands, or by pyslurm where one is there that fits.

`squeue --json`, which tells everything until MinJobAge after the end; then `sacct`, as JSON,
and as lines for what its JSON has wrong.  JSON has two forms:

                22.05 (v0.0.38)         23.02 and newer (data_parser v0.0.39 to v0.0.45)
    numbers     7, null                 {"set": true, "infinite": false, "number": 7}
    job_state   "RUNNING"               ["RUNNING"], with flags: ["COMPLETED", "COMPLETING"]
    exit_code   1792, as waitpid(2)     {"return_code": 7, "signal": {"id": 9}}, each a number

What users write (names, comments, paths) is taken from JSON alone: in lines it could end a line,
and begin one that speaks of another's job.

Found on 22.05: `squeue --json` prints all jobs, whatever --jobs says.  `sacct --json` says of every
exit status that it was 0. A job comes to the accounting up to 5 s after
its start.

Sources: squeue(1), sacct(1); Slurm 22.05.8 as observed; data_parser v0.0.41 and v0.0.42; pyslurm
25.11.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache

from iostats.base.errors import NotReadable
from iostats.base.job_facts import ENDED
from iostats.schedulers import commands, slurm_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iostats.base.job_facts import Facts

_LARGEST_ID = 0x7FFFFFFF
_NO_SUCH_JOB = "invalid job id"


def facts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """
    {raw job: Facts}; a job that Slurm has forgotten is not in it.

    `jobs` are raw ids, or as users write them; what can't be an id of Slurm's is not asked for.
    NotReadable when neither slurmctld nor the accounting answers.
    """
    asked = [job for job in commands.askable(jobs) if is_id(job)]
    if not asked:
        return {}
    failed = None
    try:
        found = _live(asked, run)
    except NotReadable as error:
        found, failed = {}, error
    known = {name for one in found.values() for name in (one.job, one.raw_job)
             if one.state is not None and not _lacks_exit(one)}
    left = [job for job in asked if job not in known]
    if left:
        try:
            kept = _accounted(left, run)
        except NotReadable as error:
            kept, failed = {}, failed or error
        for raw, one in kept.items():
            found[raw] = _completed(found[raw], one) if raw in found else one
    if failed and not found:
        raise failed
    return found


def facts_of_parts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """The same, and of an array's or heterogeneous job's number all that slurmctld has of it."""
    asked = [job for job in commands.askable(jobs) if is_id(job)]
    try:
        found = _live(asked, run, True) if asked else {}
    except NotReadable:
        found = {}
    known = {name for one in found.values() for name in (
        one.raw_job, one.job, one.array_job, one.het_job)}
    return {**facts([job for job in asked if job not in known], run), **found}


def _live(asked: Sequence[str], run: commands.Run | None,
          parts: bool = False) -> dict[str, Facts]:
    """{raw job: Facts} of what slurmctld knows; `parts`: as in facts_of_parts."""
    if not pyslurm_version():
        return _squeued(asked, run, parts)
    try:
        found = _only(asked, slurm_output.parse_pyslurm(_ask_pyslurm(asked, run)), parts)
    except NotReadable:
        return _squeued(asked, run, parts)
    # It alters exit statuses; of jobs that slurmctld has not forgotten squeue has them.
    lacking = [raw for raw, one in found.items() if _lacks_exit(one)]
    try:
        told = _squeued(lacking, run) if lacking else {}
    except NotReadable:
        told = {}
    return {raw: _completed(one, told[raw]) if raw in told else one for raw, one in found.items()}


def _squeued(asked: Sequence[str], run: commands.Run | None,
             parts: bool = False) -> dict[str, Facts]:
    """{raw job: Facts} by squeue."""
    ids = ",".join(dict.fromkeys(job.partition("+")[0] for job in asked))
    command = ["squeue", "--all", "--states=all", f"--jobs={ids}"]
    failed: NotReadable | None = None
    for parse, options in (
            (slurm_output.parse_squeue, ["--json"]),
            (slurm_output.parse_squeue_lines, ["--noheader", "--format", slurm_output.LIVE])):
        status, text, wrong = commands.ask([*command, *options], run)
        if status and _NO_SUCH_JOB in wrong.lower():
            return {}
        try:
            if status:
                raise commands.refused([*command, *options], status, wrong)
            return _only(asked, parse(text), parts)
        except NotReadable as error:
            failed = failed or error
    raise failed  # type: ignore[misc]                 # both ways have


def _accounted(asked: Sequence[str], run: commands.Run | None) -> dict[str, Facts]:
    """{raw job: Facts} of what the accounting knows, of the last run of each job."""
    lines = ["sacct", "--allocations", "--duplicates", f"--jobs={','.join(asked)}", "--noheader",
             "--parsable2", "--format", slurm_output.ACCOUNTED]
    status, text, wrong = commands.ask(lines, run)
    if status:
        if slurm_output.NO_ACCOUNTING in wrong.lower():
            return {}
        raise commands.refused(lines, status, wrong)
    found = _only(asked, slurm_output.parse_sacct_lines(text))
    try:
        more = sacct_json(asked, run) if found else {}
    except NotReadable:
        return found                                  # before 20.11 there is no --json
    # Of both: users' words, and exact times, from JSON.
    return {raw: _completed(
                more[raw]._replace(restarts=max(more[raw].restarts, one.restarts)), one)
            if raw in more else one for raw, one in found.items()}


def sacct_json(asked: Sequence[str], run: commands.Run | None) -> dict[str, Facts]:
    command = ["sacct", "--duplicates", f"--jobs={','.join(asked)}", "--json"]
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.refused(command, status, wrong)
    return _only(asked, slurm_output.parse_sacct(text))


def _only(asked: Sequence[str], found: dict[str, Facts], parts: bool = False) -> dict[str, Facts]:
    """What was asked for; a raw id counts before the same number as the name of a whole array."""
    names = set(asked)
    return {raw: one for raw, one in found.items() if names & (
        {raw, one.job, one.array_job, one.het_job} if parts else {raw, one.job})}


def is_id(job: str) -> bool:
    """
    Whether this can be the id of a job of Slurm's.

    A number that squeue takes for none ends it without a word of all the others (measured with
    22.05), and any user can have one in job_stats: SLURM_JOB_ID is his program's environment.

    >>> [is_id(job) for job in ("4711", "143_1", "12+1", "143_[1-3]", "4711.pbs01", "-1", "0")]
    [True, True, True, False, False, False, False]
    """
    parts = job.replace("_", "+", 1).split("+", 1)
    return (job.isascii() and len(job) < 40 and all(part.isdigit() for part in parts)
            and 0 < int(parts[0]) <= _LARGEST_ID)


def _lacks_exit(one: Facts) -> bool:
    return one.state is ENDED and one.exit_status is None and one.exit_signal is None


def _completed(one: Facts, other: Facts) -> Facts:
    """`one`, with what only `other` knows; how it ended is told by `other`, if that has seen it."""
    fields = {name: getattr(other, name) for name in one._fields
              if getattr(one, name) in ("", None, {}, ()) and name not in ("state", "outcome")}
    if one.state is None or _lacks_exit(one) or other.state is one.state:
        fields.update({name: getattr(other, name) for name in (
            "state", "outcome", "exit_status", "exit_signal") if getattr(other, name) is not None})
    return one._replace(**fields)


# -- pyslurm -------------------------------------------------------------------------------------

@cache
def pyslurm_version() -> str:
    """
    pyslurm's version; "" where there is none that works here.

    Tried once, in another process: where its import finds no slurm.conf it ends the process.
    """
    if not importlib.util.find_spec("pyslurm"):
        return ""
    try:
        status, text, _ = commands.ask([sys.executable, "-c", slurm_output.PYSLURM_VERSION])
    except NotReadable:
        return ""
    return "" if status else text.strip()


def _ask_pyslurm(asked: Sequence[str], run: commands.Run | None) -> str:
    ids = {job.replace("_", "+").partition("+")[0] for job in asked}
    command = [sys.executable, "-c", slurm_output.PYSLURM_JOBS, *sorted(ids)]
    status, text, wrong = commands.ask(command, run)
    if status:
        # Its last line has the exception.
        raise commands.refused(["python", "-c", "import pyslurm"], status,
                                wrong.rpartition("\n")[2])
    return text


def source(run: commands.Run | None = None) -> str:
    """
    Where facts() come from here, in words, each way having been tried; NotReadable when from
    nowhere.
    """
    return f"{_source_of_live(run)}; {_source_of_accounted(run)}"


def _source_of_live(run: commands.Run | None) -> str:
    broken = ""
    if importlib.util.find_spec("pyslurm"):
        try:
            slurm_output.parse_pyslurm(_ask_pyslurm([], run))
            return f"pyslurm {pyslurm_version()}"
        except NotReadable as error:
            broken = f" (pyslurm {pyslurm_version() or 'is here and'} does not work: {error})"
    command = ["squeue", "--all", "--states=all"]
    status, text, _ = commands.ask([*command, "--json"], run)
    try:
        slurm_output.parse_squeue("{}" if status else text)
        return f"squeue --json{broken}"
    except NotReadable:
        pass
    command += ["--noheader", "--format", slurm_output.LIVE]
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.refused(command, status, wrong)
    slurm_output.parse_squeue_lines(text)
    return f"squeue, as lines: names, paths and comments of jobs are not told{broken}"


def _source_of_accounted(run: commands.Run | None) -> str:
    """The same of jobs that slurmctld has forgotten."""
    command = ["sacct", "--allocations", "--starttime=now", "--noheader", "--parsable2",
               "--format", slurm_output.ACCOUNTED]
    try:
        status, text, wrong = commands.ask(command, run)
        if not status:
            slurm_output.parse_sacct_lines(text)
            return "of older ones from sacct"
        why = ("there is no accounting" if slurm_output.NO_ACCOUNTING in wrong.lower() else
               str(commands.refused(command[:1], status, wrong)))
    except NotReadable as error:
        why = str(error)
    return f"of those that slurmctld has forgotten nothing is known: {why}"
