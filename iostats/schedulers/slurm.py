"""
Slurm, through its commands, or through pyslurm where one is there that fits; neither is needed.

Job id: "4711", "143_1" for a task of an array, "12+1" for a part of a heterogeneous job.  Prologs
see another one of the last two, the raw id, a plain number; a script knows that as SLURM_JOB_ID.

Facts: `squeue --json`, which tells everything until MinJobAge after the end; then `sacct`, as JSON,
and as lines for what its JSON has wrong.  JSON has two forms:

                22.05 (v0.0.38)         23.02 and newer (data_parser v0.0.39 to v0.0.45)
    numbers     7, null                 {"set": true, "infinite": false, "number": 7}
    job_state   "RUNNING"               ["RUNNING"], with flags: ["COMPLETED", "COMPLETING"]
    exit_code   1792, as waitpid(2)     {"return_code": 7, "signal": {"id": 9}}, each a number

What users write (names, comments, paths) is taken from JSON alone: in lines it could end a line,
and begin one that speaks of another's job.

Found on 22.05: `squeue --json` prints all jobs, whatever --jobs says.  `sacct --json` says of every
exit status that it was 0.  `sacctmgr` stores comments in lower case, and quotes as `.  A job comes
to the accounting up to 5 s after its start.

Sources: squeue(1), sacct(1), sacctmgr(1), scontrol(1), srun(1), sbatch(1) "filename pattern",
prolog_epilog.html; Slurm 22.05.8 as observed; data_parser v0.0.41 and v0.0.42; pyslurm 25.11.
"""

from __future__ import annotations

from iostats import schedulers
from iostats.base.errors import NotReadable, UsageError
from iostats.base.job_facts import ENDED, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iostats.base.job_facts import Facts

NAME = "slurm"
JOB_ID_VARIABLE = "SLURM_JOB_ID"
STAYS = True                         # a job that is being ended takes no step any more
QUOTES = False
PASSES_ENVIRONMENT = True

_NO_ACCOUNTING = "accounting storage is disabled"
_LARGEST_ID = 0x7FFFFFFF
_NO_SUCH_JOB = "invalid job id"


# -- on the nodes --------------------------------------------------------------------------------

def about(environ: Mapping[str, str]) -> dict[str, Any]:
    """{} of what a job's environment tells, or that of its prolog and epilog."""
    job = schedulers.job_in(environ, JOB_ID_VARIABLE)

    def word(*variables: str) -> str:
        return schedulers.word(environ, *variables)
    restarts = number(word("SLURM_JOB_RESTART_COUNT", "SLURM_RESTART_COUNT") or 0)
    return schedulers.told(
        job=job, attempt=restarts if job and restarts is not None and restarts >= 0 else None,
        nodes=_nodes(environ), user=word("SLURM_JOB_USER"),
        uid=number(environ.get("SLURM_JOB_UID")), account=word("SLURM_JOB_ACCOUNT"),
        partition=word("SLURM_JOB_PARTITION"), cluster=word("SLURM_CLUSTER_NAME"),
        output=word("SLURM_JOB_STDOUT"), work_dir=word("SLURM_JOB_WORK_DIR", "SLURM_SUBMIT_DIR"))


def _nodes(environ: Mapping[str, str]) -> str:
    """The node list of the job, of all its parts; "" where one of them is not told."""
    found = _parts(environ) or [schedulers.word(environ, "SLURM_JOB_NODELIST", "SLURM_NODELIST")]
    try:
        names = [schedulers.node_names(nodes) for nodes in found if nodes]
    except UsageError:
        return ""
    if len(names) < len(found):
        return ""
    if len(set().union(*names)) == sum(map(len, names)):
        return ",".join(found)
    return schedulers.as_list([name for some in names for name in some])   # parts share nodes


def _parts(environ: Mapping[str, str]) -> list[str]:
    """[node list] of each part of a heterogeneous job; [] for another job.  PACK: before 20.02."""
    for kind in ("HET", "PACK"):
        size = number(environ.get(f"SLURM_{kind}_SIZE"))
        if size and 0 < size < 1000:
            return [schedulers.word(environ, f"SLURM_JOB_NODELIST_{kind}_GROUP_{part}")
                    for part in range(size)]
    return []


# srun takes its options from the environment too, and sbatch leaves those of the job there: they
# are for the job's own steps.  With them a step of ours could wait for GPUs, be refused, begin each
# line with a number, write into a file, or run a task prolog.
_NO_OPTIONS = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF", "SLURM_CLUSTER_NAME", "SLURM_JWT",
               "SLURM_WORKING_CLUSTER", "SLURM_RESTART_COUNT", "SLURM_JOB_USER", "SLURM_JOB_UID",
               "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION", "SLURM_SUBMIT_DIR")
_OPTIONS = (
    "--ntasks-per-node=1",
    "--overlap",                     # beside the steps that have all CPUs, and they beside it
    "--mem=0", "--gres=none",        # none of theirs
    "--mpi=none", "--cpu-bind=none",
    "--no-kill",                     # a node that is lost ends its own task alone
    "--kill-on-bad-exit=0", "--wait=0",
    "--export=ALL",
    "--input=all",                   # the end of our input reaches every node
    "--job-name=iostats",
)


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """One srun; of a heterogeneous job one for each part that has some of `nodes`."""
    wanted = schedulers.node_names(nodes)
    if not wanted or wanted == [environ.get("SLURMD_NODENAME")] or not environ.get(
            JOB_ID_VARIABLE):
        return [[]]
    unset = [word for name in sorted(environ)
             if name.startswith(("SLURM_", "SLURMD_", "SRUN_"))
             and name not in _NO_OPTIONS and not name.startswith("SLURM_ARRAY_")
             for word in ("-u", name)]
    srun = ["env", *unset, "srun"] if unset else ["srun"]
    parts = [schedulers.node_names(part) for part in _parts(environ)]
    if not parts:
        parts = [schedulers.node_names(schedulers.word(environ, "SLURM_JOB_NODELIST",
                                                       "SLURM_NODELIST"))]
    found, left = [], set(wanted)
    for number_of_part, part in enumerate(parts):
        here = [name for name in part if name in left] if len(parts) > 1 else wanted
        left -= set(here)
        if not here:
            continue
        which = [f"--het-group={number_of_part}"] if len(parts) > 1 else []
        # Without a list where it can be: of 100,000 nodes it is too long for a command line.
        which += [] if set(here) == set(part) else ["--nodelist=" + ",".join(here)]
        found.append([*srun, f"--nodes={len(here)}", f"--ntasks={len(here)}", *which, *_OPTIONS])
    return found


# -- what Slurm knows ----------------------------------------------------------------------------

def facts(jobs: Iterable[str], run: schedulers.Run | None = None) -> dict[str, Facts]:
    """
    {raw job: Facts}; a job that Slurm has forgotten is not in it.

    `jobs` are raw ids, or as users write them; what can't be an id of Slurm's is not asked for.
    NotReadable when neither slurmctld nor the accounting answers.
    """
    asked = [job for job in schedulers.askable(jobs) if _is_id(job)]
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


def facts_of_parts(jobs: Iterable[str], run: schedulers.Run | None = None) -> dict[str, Facts]:
    """The same, and of an array's or heterogeneous job's number all that slurmctld has of it."""
    asked = [job for job in schedulers.askable(jobs) if _is_id(job)]
    try:
        found = _live(asked, run, True) if asked else {}
    except NotReadable:
        found = {}
    known = {name for one in found.values() for name in (
        one.raw_job, one.job, one.array_job, one.het_job)}
    return {**facts([job for job in asked if job not in known], run), **found}


def _live(asked: Sequence[str], run: schedulers.Run | None,
          parts: bool = False) -> dict[str, Facts]:
    """{raw job: Facts} of what slurmctld knows; `parts`: as in facts_of_parts."""
    if not _pyslurm():
        return _squeued(asked, run, parts)
    from iostats.schedulers import _slurm_forms as forms
    try:
        found = _only(asked, forms.parse_pyslurm(_ask_pyslurm(asked, run)), parts)
    except NotReadable:
        return _squeued(asked, run, parts)
    # It alters exit statuses; of jobs that slurmctld has not forgotten squeue has them.
    lacking = [raw for raw, one in found.items() if _lacks_exit(one)]
    try:
        told = _squeued(lacking, run) if lacking else {}
    except NotReadable:
        told = {}
    return {raw: _completed(one, told[raw]) if raw in told else one for raw, one in found.items()}


def _squeued(asked: Sequence[str], run: schedulers.Run | None,
             parts: bool = False) -> dict[str, Facts]:
    """{raw job: Facts} by squeue."""
    from iostats.schedulers import _slurm_forms as forms
    ids = ",".join(dict.fromkeys(job.partition("+")[0] for job in asked))
    command = ["squeue", "--all", "--states=all", f"--jobs={ids}"]
    failed: NotReadable | None = None
    for parse, options in (
            (forms.parse_squeue, ["--json"]),
            (forms.parse_squeue_lines, ["--noheader", "--format", forms.LIVE])):
        status, text, wrong = schedulers.ask([*command, *options], run)
        if status and _NO_SUCH_JOB in wrong.lower():
            return {}
        try:
            if status:
                raise schedulers.refused([*command, *options], status, wrong)
            return _only(asked, parse(text), parts)
        except NotReadable as error:
            failed = failed or error
    raise failed  # type: ignore[misc]                 # both ways have


def _accounted(asked: Sequence[str], run: schedulers.Run | None) -> dict[str, Facts]:
    """{raw job: Facts} of what the accounting knows, of the last run of each job."""
    from iostats.schedulers import _slurm_forms as forms
    lines = ["sacct", "--allocations", "--duplicates", f"--jobs={','.join(asked)}", "--noheader",
             "--parsable2", "--format", forms.ACCOUNTED]
    status, text, wrong = schedulers.ask(lines, run)
    if status:
        if _NO_ACCOUNTING in wrong.lower():
            return {}
        raise schedulers.refused(lines, status, wrong)
    found = _only(asked, forms.parse_sacct_lines(text))
    try:
        more = _sacct_json(asked, run) if found else {}
    except NotReadable:
        return found                                  # before 20.11 there is no --json
    # Of both: users' words, and exact times, from JSON.
    return {raw: _completed(
                more[raw]._replace(restarts=max(more[raw].restarts, one.restarts)), one)
            if raw in more else one for raw, one in found.items()}


def _sacct_json(asked: Sequence[str], run: schedulers.Run | None) -> dict[str, Facts]:
    command = ["sacct", "--duplicates", f"--jobs={','.join(asked)}", "--json"]
    status, text, wrong = schedulers.ask(command, run)
    if status:
        raise schedulers.refused(command, status, wrong)
    from iostats.schedulers import _slurm_forms as forms
    return _only(asked, forms.parse_sacct(text))


def _only(asked: Sequence[str], found: dict[str, Facts], parts: bool = False) -> dict[str, Facts]:
    """What was asked for; a raw id counts before the same number as the name of a whole array."""
    names = set(asked)
    return {raw: one for raw, one in found.items() if names & (
        {raw, one.job, one.array_job, one.het_job} if parts else {raw, one.job})}


def _is_id(job: str) -> bool:
    """
    Whether this can be the id of a job of Slurm's.

    A number that squeue takes for none ends it without a word of all the others (measured with
    22.05), and any user can have one in job_stats: SLURM_JOB_ID is his program's environment.

    >>> [_is_id(job) for job in ("4711", "143_1", "12+1", "143_[1-3]", "4711.pbs01", "-1", "0")]
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

_probed: dict[str, str] = {}


def _pyslurm() -> str:
    """
    pyslurm's version; "" where there is none that works here.

    Tried in another process: where its import finds no slurm.conf it ends the process.
    """
    import importlib.util
    import sys
    if "version" not in _probed:
        _probed["version"] = ""
        if importlib.util.find_spec("pyslurm"):
            from iostats.schedulers import _slurm_forms as forms
            try:
                status, text, _ = schedulers.ask([sys.executable, "-c", forms.PYSLURM_VERSION])
                _probed["version"] = "" if status else text.strip()
            except NotReadable:
                pass
    return _probed["version"]


def _ask_pyslurm(asked: Sequence[str], run: schedulers.Run | None) -> str:
    import sys

    from iostats.schedulers import _slurm_forms as forms
    ids = {job.replace("_", "+").partition("+")[0] for job in asked}
    command = [sys.executable, "-c", forms.PYSLURM_JOBS, *sorted(ids)]
    status, text, wrong = schedulers.ask(command, run)
    if status:
        # Its last line has the exception.
        raise schedulers.refused(["python", "-c", "import pyslurm"], status,
                                wrong.rpartition("\n")[2])
    return text


def way(run: schedulers.Run | None = None) -> str:
    """
    Where facts() come from here, in words, each way having been tried; NotReadable when from
    nowhere.
    """
    return f"{_way_of_live(run)}; {_way_of_accounted(run)}"


def _way_of_live(run: schedulers.Run | None) -> str:
    import importlib.util

    from iostats.schedulers import _slurm_forms as forms
    broken = ""
    if importlib.util.find_spec("pyslurm"):
        try:
            forms.parse_pyslurm(_ask_pyslurm([], run))
            return f"pyslurm {_pyslurm()}"
        except NotReadable as error:
            broken = f" (pyslurm {_pyslurm() or 'is here and'} does not work: {error})"
    command = ["squeue", "--all", "--states=all"]
    status, text, _ = schedulers.ask([*command, "--json"], run)
    try:
        forms.parse_squeue("{}" if status else text)
        return f"squeue --json{broken}"
    except NotReadable:
        pass
    command += ["--noheader", "--format", forms.LIVE]
    status, text, wrong = schedulers.ask(command, run)
    if status:
        raise schedulers.refused(command, status, wrong)
    forms.parse_squeue_lines(text)
    return f"squeue, as lines: names, paths and comments of jobs are not told{broken}"


def _way_of_accounted(run: schedulers.Run | None) -> str:
    """The same of jobs that slurmctld has forgotten."""
    from iostats.schedulers import _slurm_forms as forms
    command = ["sacct", "--allocations", "--starttime=now", "--noheader", "--parsable2",
               "--format", forms.ACCOUNTED]
    try:
        status, text, wrong = schedulers.ask(command, run)
        if not status:
            forms.parse_sacct_lines(text)
            return "of older ones from sacct"
        why = ("there is no accounting" if _NO_ACCOUNTING in wrong.lower() else
               str(schedulers.refused(command[:1], status, wrong)))
    except NotReadable as error:
        why = str(error)
    return f"of those that slurmctld has forgotten nothing is known: {why}"


# -- comments ------------------------------------------------------------------------------------

def read_comments(job: str, run: schedulers.Run | None = None) -> dict[str, str] | None:
    """
    {"AdminComment": text, ...} that the accounting has of the last run of `job`, without empty
    ones; None when it does not know the job.  `job`: as users write it.
    """
    try:
        found = _sacct_json([job], run)
    except NotReadable:
        return _read_comments_one_by_one(job, run)
    for raw, one in found.items():
        if job in (raw, one.job):
            return dict(one.comments)
    return None


def comments_of_all(job: str, run: schedulers.Run | None = None) -> dict[str, tuple[str, str]]:
    """
    {job, as users write it: (its user, text)} of the last run of each task of the array `job`, each
    component, or the job itself: what all its comments have in one line, to be searched for a text
    of ours.
    """
    [job] = schedulers.askable([job])
    command = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}",
               "--format=JobID,User,AdminComment,SystemComment,Comment"]
    status, text, wrong = schedulers.ask(command, run)
    if status:
        raise schedulers.refused(command, status, wrong)
    found = {}
    for line in text.splitlines():
        name, bar, rest = line.partition("|")
        if bar and _is_id(name):
            user, _, comments = rest.partition("|")
            found[name] = (user, comments)
    return found


def hides_jobs(run: schedulers.Run | None = None) -> bool | None:
    """Whether users see their own jobs alone, also in the accounting; None where nobody tells."""
    status, text, _ = schedulers.ask(["sacctmgr", "show", "configuration"], run)
    told = [line.partition("=")[2].replace(",", " ").split() for line in text.splitlines()
            if line.split("=")[0].strip() == "PrivateData"]
    return None if status or not told else all("jobs" in words for words in told)


def _read_comments_one_by_one(job: str, run: schedulers.Run | None) -> dict[str, str] | None:
    """The same without JSON: a comment has no form, so there must be nothing beside it."""
    from iostats.schedulers import _slurm_forms as forms
    command = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}", "--format"]
    found = {}
    for name in ("JobIDRaw", *forms.COMMENTS):
        status, text, wrong = schedulers.ask([*command, name], run)
        if status and name != "SystemComment":           # which 18.08 lacks
            raise schedulers.refused([*command, name], status, wrong)
        if name == "JobIDRaw" and not text.strip():
            return None
        if text.strip():
            found[name] = text[:-1]
    found.pop("JobIDRaw")
    return found


def write_comment(facts_: Facts, text: str, fields: Sequence[str] = ("AdminComment",),
                  prefix: str = "IO1:", run: schedulers.Run | None = None) -> str | None:
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
    now = facts([facts_.raw_job], run).get(facts_.raw_job)
    if now is None or now.restarts != facts_.restarts:
        return None
    ended = now.state is ENDED
    kept = read_comments(now.job, run) if ended else {}
    if kept is None:
        return None
    for field in fields:
        others = [known.get(field) or prefix for known in (now.comments, kept)]
        if not all(one.lower().startswith(prefix.lower()) for one in others):
            continue
        where = [f"jobid={now.job}", *([f"cluster={now.cluster}"] if now.cluster else [])]
        command = (["sacctmgr", "--immediate", "modify", "job", "where", *where, "set"] if ended
                   else ["scontrol", "update", f"JobId={now.raw_job}"])
        status, _, _ = schedulers.ask([*command, f"{field}={text}"], run)
        if not status and _arrived(now, field, text, ended, run):
            return field
    return None


def _arrived(one: Facts, field: str, text: str, ended: bool, run: schedulers.Run | None) -> bool:
    if ended:
        comments = read_comments(one.job, run) or {}
    else:
        found = facts([one.raw_job], run).get(one.raw_job)
        comments = found.comments if found else {}
    return comments.get(field, "").lower() == text.lower()
