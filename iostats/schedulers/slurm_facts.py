"""
Facts and comments of jobs, from Slurm's commands, or from a pyslurm of the right release.

`squeue --json` has every fact until MinJobAge after the end; then `sacct`, as JSON, and as lines
for the values that are wrong in its JSON.  JSON has two forms:

                22.05 (v0.0.38)         23.02 and newer (data_parser v0.0.39 to v0.0.45)
    numbers     7, null                 {"set": true, "infinite": false, "number": 7}
    job_state   "RUNNING"               ["RUNNING"], with flags: ["COMPLETED", "COMPLETING"]
    exit_code   1792, as waitpid(2)     {"return_code": 7, "signal": {"id": 9}}, each a number

Texts of users (names, comments, paths) are taken from JSON alone: in lines they could end a line,
and begin one about another job.

Observed with 22.05: `squeue --json` prints all jobs, even with --jobs; `sacct --json` reports every
exit status as 0; a job is in the accounting up to 5 s after its start; `sacctmgr` stores comments
in lower case, and quotes as `.

Sources: squeue(1), sacct(1), sacctmgr(1), scontrol(1); Slurm 22.05.8 as observed; data_parser
v0.0.41 and v0.0.42; pyslurm 25.11.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from functools import cache

from iostats.base.errors import NotReadable, UsageError
from iostats.base.job_facts import ENDED, Facts
from iostats.schedulers import commands, slurm_output

_LARGEST_ID = 0x7FFFFFFF
_NO_SUCH_JOB = "invalid job id"


def facts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """
    Return {raw job: Facts}; jobs unknown to Slurm are left out.

    `jobs` are raw ids, or as users write them; what can't be an id of Slurm's is not asked for.
    NotReadable when neither slurmctld nor the accounting answers.
    """
    ids = [job for job in commands.check_ids(jobs) if is_id(job)]
    if not ids:
        return {}
    failed = None
    try:
        by_raw_id = _query_slurmctld(ids, run)
    except NotReadable as error:
        by_raw_id, failed = {}, error
    found_ids = {name for job_facts in by_raw_id.values()
                 for name in (job_facts.job, job_facts.raw_job)
                 if job_facts.state is not None and not _is_exit_missing(job_facts)}
    left = [job for job in ids if job not in found_ids]
    if left:
        try:
            accounted = _query_sacct(left, run)
        except NotReadable as error:
            accounted, failed = {}, failed or error
        for raw, job_facts in accounted.items():
            by_raw_id[raw] = _complete(by_raw_id[raw],
                                       job_facts) if raw in by_raw_id else job_facts
    if failed and not by_raw_id:
        raise failed
    return by_raw_id


def query_parts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """
    Return {raw job: Facts}, for an array's or heterogeneous job's number of all parts known to
    slurmctld.
    """
    ids = [job for job in commands.check_ids(jobs) if is_id(job)]
    try:
        by_raw_id = _query_slurmctld(ids, run, True) if ids else {}
    except NotReadable:
        by_raw_id = {}
    found_ids = {name for job_facts in by_raw_id.values() for name in (
        job_facts.raw_job, job_facts.job, job_facts.array_job, job_facts.het_job)}
    return {**facts([job for job in ids if job not in found_ids], run), **by_raw_id}


def _query_slurmctld(ids: Sequence[str], run: commands.Run | None,
                     parts: bool = False) -> dict[str, Facts]:
    """Return {raw job: Facts} of jobs known to slurmctld; `parts`: as in query_parts."""
    if not find_pyslurm_version():
        return _query_squeue(ids, run, parts)
    try:
        by_raw_id = _select_jobs(ids, slurm_output.parse_pyslurm(_ask_pyslurm(ids, run)), parts)
    except NotReadable:
        return _query_squeue(ids, run, parts)
    # It alters exit statuses; of jobs that slurmctld has not forgotten squeue has them.
    lacking = [raw for raw, job_facts in by_raw_id.items() if _is_exit_missing(job_facts)]
    try:
        queued = _query_squeue(lacking, run) if lacking else {}
    except NotReadable:
        queued = {}
    return {raw: _complete(job_facts, queued[raw]) if raw in queued else job_facts for raw,
            job_facts in by_raw_id.items()}


def _query_squeue(jobs: Sequence[str], run: commands.Run | None,
                  parts: bool = False) -> dict[str, Facts]:
    """Return {raw job: Facts} by squeue."""
    ids = ",".join(dict.fromkeys(job.partition("+")[0] for job in jobs))
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
                raise commands.make_command_error([*command, *options], status, wrong)
            return _select_jobs(jobs, parse(text), parts)
        except NotReadable as error:
            failed = failed or error
    raise failed  # type: ignore[misc]                 # both ways have


def _query_sacct(jobs: Sequence[str], run: commands.Run | None) -> dict[str, Facts]:
    """Return {raw job: Facts} of the last run of each job in the accounting."""
    lines = ["sacct", "--allocations", "--duplicates", f"--jobs={','.join(jobs)}", "--noheader",
             "--parsable2", "--format", slurm_output.ACCOUNTED]
    status, text, wrong = commands.ask(lines, run)
    if status:
        if slurm_output.NO_ACCOUNTING in wrong.lower():
            return {}
        raise commands.make_command_error(lines, status, wrong)
    by_raw_id = _select_jobs(jobs, slurm_output.parse_sacct_lines(text))
    try:
        more = query_sacct_json(jobs, run) if by_raw_id else {}
    except NotReadable:
        return by_raw_id                                  # before 20.11 there is no --json
    # Of both: users' words, and exact times, from JSON.
    return {raw: _complete(
                more[raw]._replace(restarts=max(more[raw].restarts, job_facts.restarts)), job_facts)
            if raw in more else job_facts for raw, job_facts in by_raw_id.items()}


def query_sacct_json(jobs: Sequence[str], run: commands.Run | None) -> dict[str, Facts]:
    command = ["sacct", "--duplicates", f"--jobs={','.join(jobs)}", "--json"]
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.make_command_error(command, status, wrong)
    return _select_jobs(jobs, slurm_output.parse_sacct(text))


def _select_jobs(jobs: Sequence[str], by_raw_id: dict[str, Facts],
                 parts: bool = False) -> dict[str, Facts]:
    """The requested jobs; a raw id has priority over an equal array id."""
    names = set(jobs)
    return {raw: job_facts for raw, job_facts in by_raw_id.items() if names & (
        {raw, job_facts.job, job_facts.array_job, job_facts.het_job} if parts
        else {raw, job_facts.job})}


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


def _is_exit_missing(job_facts: Facts) -> bool:
    return (job_facts.state is ENDED and job_facts.exit_status is None
            and job_facts.exit_signal is None)


def _complete(primary: Facts, secondary: Facts) -> Facts:
    """`primary`, with fields that only `secondary` has, and its end as in `secondary`, if known."""
    fields = {name: getattr(secondary, name) for name in primary._fields
              if getattr(primary, name) in ("", None, {}, ()) and name not in ("state", "outcome")}
    if primary.state is None or _is_exit_missing(primary) or secondary.state is primary.state:
        fields.update({name: getattr(secondary, name) for name in (
            "state", "outcome", "exit_status", "exit_signal")
            if getattr(secondary, name) is not None})
    return primary._replace(**fields)


# -- pyslurm -------------------------------------------------------------------------------------

@cache
def find_pyslurm_version() -> str:
    """
    pyslurm's version; "" if none works here.

    Tried once, in another process: where its import finds no slurm.conf it ends the process.
    """
    if not importlib.util.find_spec("pyslurm"):
        return ""
    try:
        status, text, _ = commands.ask([sys.executable, "-c", slurm_output.PYSLURM_VERSION])
    except NotReadable:
        return ""
    return "" if status else text.strip()


def _ask_pyslurm(jobs: Sequence[str], run: commands.Run | None) -> str:
    ids = {job.replace("_", "+").partition("+")[0] for job in jobs}
    command = [sys.executable, "-c", slurm_output.PYSLURM_JOBS, *sorted(ids)]
    status, text, wrong = commands.ask(command, run)
    if status:
        # Its last line has the exception.
        raise commands.make_command_error(["python", "-c", "import pyslurm"], status,
                                          wrong.rpartition("\n")[2])
    return text


def facts_source(run: commands.Run | None = None) -> str:
    """The source of facts(), in words, after trying each one; NotReadable for none."""
    return f"{_describe_live_source(run)}; {_describe_accounting(run)}"


def _describe_live_source(run: commands.Run | None) -> str:
    broken = ""
    if importlib.util.find_spec("pyslurm"):
        try:
            slurm_output.parse_pyslurm(_ask_pyslurm([], run))
            return f"pyslurm {find_pyslurm_version()}"
        except NotReadable as error:
            broken = f" (pyslurm {find_pyslurm_version() or 'is here and'} does not work: {error})"
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
        raise commands.make_command_error(command, status, wrong)
    slurm_output.parse_squeue_lines(text)
    return f"squeue, as lines: names, paths and comments of jobs are missing{broken}"


def _describe_accounting(run: commands.Run | None) -> str:
    """The source of jobs that slurmctld has dropped, in words."""
    command = ["sacct", "--allocations", "--starttime=now", "--noheader", "--parsable2",
               "--format", slurm_output.ACCOUNTED]
    try:
        status, text, wrong = commands.ask(command, run)
        if not status:
            slurm_output.parse_sacct_lines(text)
            return "of older ones from sacct"
        why = ("there is no accounting" if slurm_output.NO_ACCOUNTING in wrong.lower() else
               str(commands.make_command_error(command[:1], status, wrong)))
    except NotReadable as error:
        why = str(error)
    return f"no data for jobs that slurmctld has dropped: {why}"


# -- comments ------------------------------------------------------------------------------------

def read_comments(job: str, run: commands.Run | None = None) -> dict[str, str] | None:
    """
    Return {"AdminComment": text, ...} of the last run of `job` in the accounting, without empty
    ones; None for an unknown job.  `job`: as users write it.
    """
    try:
        by_raw_id = query_sacct_json([job], run)
    except NotReadable:
        return read_comment_lines(job, run)
    for raw, job_facts in by_raw_id.items():
        if job in (raw, job_facts.job):
            return dict(job_facts.comments)
    return None


def read_all_comments(job: str, run: commands.Run | None = None) -> dict[str, tuple[str, str]]:
    """
    Return {job, as users write it: (its user, text)} of the last run of each task of the array
    `job`, each component, or the job itself: all its comments in one line, to be searched for our
    text; NotReadable.
    """
    [job] = commands.check_ids([job])
    command = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}",
               "--format=JobID,User,AdminComment,SystemComment,Comment"]
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.make_command_error(command, status, wrong)
    by_name = {}
    for line in text.splitlines():
        name, bar, rest = line.partition("|")
        if bar and is_id(name):
            user, _, comments = rest.partition("|")
            by_name[name] = (user, comments)
    return by_name


def _are_jobs_private(run: commands.Run | None = None) -> bool | None:
    """Whether users see only their own jobs, in the accounting too; None if unknown."""
    status, text, _ = commands.ask(["sacctmgr", "show", "configuration"], run)
    settings = [line.partition("=")[2].replace(",", " ").split() for line in text.splitlines()
                if line.split("=")[0].strip() == "PrivateData"]
    return None if status or not settings else all("jobs" in words for words in settings)


def comment_readers(run: commands.Run | None = None) -> tuple[bool, str]:
    """(whether only each job's user can read its comments, a sentence for the administrator)."""
    try:
        private = _are_jobs_private(run)
    except NotReadable:
        private = None
    where = "PrivateData=jobs in slurm.conf and in slurmdbd.conf"
    if private:
        return True, f"[site] show = comment: users see only those of their own jobs ({where})"
    return False, ("[site] show = comment: every user can read by sacct what every job did" + (
        f", unless there is {where}" if private is None else f": there is no {where}"))


def read_comment_lines(job: str, run: commands.Run | None) -> dict[str, str] | None:
    """
    The comments of a job without JSON: a comment may contain anything, so it is printed alone.
    """
    command = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}", "--format"]
    by_field = {}
    for name in ("JobIDRaw", *slurm_output.COMMENTS):
        status, text, wrong = commands.ask([*command, name], run)
        if status and name != "SystemComment":           # which 18.08 lacks
            raise commands.make_command_error([*command, name], status, wrong)
        if name == "JobIDRaw" and not text.strip():
            return None
        if text.strip():
            by_field[name] = text[:-1]
    by_field.pop("JobIDRaw")
    return by_field


def write_comment(facts_: Facts, text: str, fields: Sequence[str] = ("AdminComment",),
                  prefix: str = "IO1:", run: commands.Run | None = None) -> str | None:
    """
    Write `text` to the first of `fields` that is empty or has a text of ours, which begins with
    `prefix`; the field's name, or None if that failed: all have another's text, the accounting does
    not know the job yet, or it refused the text.

    While the job runs slurmctld has the comments, and sends them to the accounting at the end.
    `text` may come back in lower case (see above); whether it was stored is read back.  There is no
    "set if empty": what another writes to the field between our read and our write, some 0.1 s, is
    overwritten.

    One task of an array is named by its task id: the number of the whole array, which its last task
    has as raw id, would change all tasks.  So is a part of a heterogeneous job.
    """
    if not text.lower().startswith(prefix.lower()) or not text.isascii() or not text.isprintable() \
            or any(c in text for c in " '\"`\\"):
        raise UsageError(f"expected a comment of printable ASCII without blanks and quotes that "
                         f"begins with {prefix}, got {text[:40]!r}")
    # Read again: since `facts_` another may have written, or the job ended.
    now = facts([facts_.raw_job], run).get(facts_.raw_job)
    if now is None or now.restarts != facts_.restarts:
        return None
    ended = now.state is ENDED
    stored = read_comments(now.job, run) if ended else {}
    if stored is None:
        return None
    for field in fields:
        comments = [known.get(field) or prefix for known in (now.comments, stored)]
        if not all(comment.lower().startswith(prefix.lower()) for comment in comments):
            continue
        where = [f"jobid={now.job}", *([f"cluster={now.cluster}"] if now.cluster else [])]
        command = (["sacctmgr", "--immediate", "modify", "job", "where", *where, "set"] if ended
                   else ["scontrol", "update", f"JobId={now.raw_job}"])
        status, _, _ = commands.ask([*command, f"{field}={text}"], run)
        if not status and _has_arrived(now, field, text, ended, run):
            return field
    return None


def _has_arrived(job_facts: Facts, field: str, text: str, ended: bool,
                 run: commands.Run | None) -> bool:
    if ended:
        comments = read_comments(job_facts.job, run) or {}
    else:
        job_now = facts([job_facts.raw_job], run).get(job_facts.raw_job)
        comments = job_now.comments if job_now else {}
    return comments.get(field, "").lower() == text.lower()
