"""
The comments of a job in Slurm's accounting: read, found again, written.

Found on 22.05: `sacctmgr` stores comments in lower case, and quotes as `.

Sources: sacct(1), sacctmgr(1), scontrol(1); Slurm 22.05.8 as observed.
"""

from __future__ import annotations

from iostats.base.errors import NotReadable, UsageError
from iostats.base.job_facts import ENDED
from iostats.schedulers import commands, slurm_facts, slurm_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iostats.base.job_facts import Facts


def read(job: str, run: commands.Run | None = None) -> dict[str, str] | None:
    """
    {"AdminComment": text, ...} that the accounting has of the last run of `job`, without empty
    ones; None when it does not know the job.  `job`: as users write it.
    """
    try:
        found = slurm_facts.sacct_json([job], run)
    except NotReadable:
        return read_one_by_one(job, run)
    for raw, one in found.items():
        if job in (raw, one.job):
            return dict(one.comments)
    return None


def of_all(job: str, run: commands.Run | None = None) -> dict[str, tuple[str, str]]:
    """
    {job, as users write it: (its user, text)} of the last run of each task of the array `job`, each
    component, or the job itself: what all its comments have in one line, to be searched for a text
    of ours.
    """
    [job] = commands.askable([job])
    command = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}",
               "--format=JobID,User,AdminComment,SystemComment,Comment"]
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.refused(command, status, wrong)
    found = {}
    for line in text.splitlines():
        name, bar, rest = line.partition("|")
        if bar and slurm_facts.is_id(name):
            user, _, comments = rest.partition("|")
            found[name] = (user, comments)
    return found


def _are_jobs_private(run: commands.Run | None = None) -> bool | None:
    """Whether users see only their own jobs, in the accounting too; None where it is not known."""
    status, text, _ = commands.ask(["sacctmgr", "show", "configuration"], run)
    told = [line.partition("=")[2].replace(",", " ").split() for line in text.splitlines()
            if line.split("=")[0].strip() == "PrivateData"]
    return None if status or not told else all("jobs" in words for words in told)


def readers(run: commands.Run | None = None) -> tuple[bool, str]:
    """(is it each job's user alone who reads its comments, a sentence for the administrator)."""
    try:
        private = _are_jobs_private(run)
    except NotReadable:
        private = None
    where = "PrivateData=jobs in slurm.conf and in slurmdbd.conf"
    if private:
        return True, f"[site] show = comment: users see only those of their own jobs ({where})"
    return False, ("[site] show = comment: every user can read by sacct what every job did" + (
        f", unless there is {where}" if private is None else f": there is no {where}"))


def read_one_by_one(job: str, run: commands.Run | None) -> dict[str, str] | None:
    """The same without JSON: a comment has no form, so there must be nothing beside it."""
    command = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}", "--format"]
    found = {}
    for name in ("JobIDRaw", *slurm_output.COMMENTS):
        status, text, wrong = commands.ask([*command, name], run)
        if status and name != "SystemComment":           # which 18.08 lacks
            raise commands.refused([*command, name], status, wrong)
        if name == "JobIDRaw" and not text.strip():
            return None
        if text.strip():
            found[name] = text[:-1]
    found.pop("JobIDRaw")
    return found


def write(facts_: Facts, text: str, fields: Sequence[str] = ("AdminComment",),
          prefix: str = "IO1:", run: commands.Run | None = None) -> str | None:
    """
    Put `text` into the first of `fields` that is empty or has a text of ours, which begins with
    `prefix`; its name, or None when that could not be done: all have another's text, the accounting
    does not know the job yet, or it did not take it.

    While the job runs slurmctld has the comments, and hands them on at the end; afterwards the
    accounting has.  `text` has to live with lower case (see above); whether it arrived is read
    back.  There is no "set if empty": who writes the same field between our look and our write, in
    some 0.1 s, loses what he wrote.

    One task of an array is named by its task id: the number of the whole array, which its last task
    has as raw id, would change all tasks.  So is a part of a heterogeneous job.
    """
    if not text.lower().startswith(prefix.lower()) or not text.isascii() or not text.isprintable() \
            or any(c in text for c in " '\"`\\"):
        raise UsageError(f"expected a comment of printable ASCII without blanks and quotes that "
                         f"begins with {prefix}, got {text[:40]!r}")
    # Anew: another may have written, or the job ended, since `facts_`.
    now = slurm_facts.facts([facts_.raw_job], run).get(facts_.raw_job)
    if now is None or now.restarts != facts_.restarts:
        return None
    ended = now.state is ENDED
    kept = read(now.job, run) if ended else {}
    if kept is None:
        return None
    for field in fields:
        others = [known.get(field) or prefix for known in (now.comments, kept)]
        if not all(one.lower().startswith(prefix.lower()) for one in others):
            continue
        where = [f"jobid={now.job}", *([f"cluster={now.cluster}"] if now.cluster else [])]
        command = (["sacctmgr", "--immediate", "modify", "job", "where", *where, "set"] if ended
                   else ["scontrol", "update", f"JobId={now.raw_job}"])
        status, _, _ = commands.ask([*command, f"{field}={text}"], run)
        if not status and _arrived(now, field, text, ended, run):
            return field
    return None


def _arrived(one: Facts, field: str, text: str, ended: bool, run: commands.Run | None) -> bool:
    if ended:
        comments = read(one.job, run) or {}
    else:
        found = slurm_facts.facts([one.raw_job], run).get(one.raw_job)
        comments = found.comments if found else {}
    return comments.get(field, "").lower() == text.lower()
