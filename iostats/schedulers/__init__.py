"""
The batch systems, one file each; the directory is the list.

A scheduler is a file with

    NAME                       its own name, as in site.cfg and as the file's: "pbs"
    JOB_ID_VARIABLE            the environment variable that has a job's id; "" for none
    JOB_ID_FORM                regular expression of the ids that it gives, to tell them from other
                               ids in job_stats; may be absent: any number
    is_here(environ)           more than that variable tells whether a job runs under it; may
                               be absent
    RANK                       where an environment looks like several, the lowest counts; may be
                               absent: 50
    COMMAND, COMMAND_RANK      the command it is asked by; of several that are in PATH the lowest
                               rank counts; may be absent
    ASKED_UNNAMED              the site's server asks it of the ids in job_stats where site.cfg
                               names no batch system; may be absent
    about(environ)             {} of what the environment of a job or a prolog tells: job, attempt
                               (int), nodes (list, as text), user, uid (int), account, partition,
                               cluster, output, work_dir, shown_as (the id by which users know it,
                               if that is another).  What is unknown or malformed has
                               no key; nothing in an environment makes it raise.
    NODE_LIST_VARIABLE         the variable that has the job's node list; may be absent
    NODE_FILE_VARIABLE         the variable that names a file with the job's nodes; may be absent
    CGROUPS                    the cgroups of its jobs below /sys/fs/cgroup, see node/cgroups.py;
                               may be absent.  The first directory of each that is not
                               system.slice has NAME in its name
    launchers(environ, nodes)  [[argv prefix], ...]: commands that run, all at the same time, the
                               command after the prefix once on each node; [[]] is just here.
                               `nodes` is a list of names, or a node list as text
    nodes_of(environ)          the job's node list where it has to be asked for; may be absent
    NO_LAUNCH_AT_END           no launch is possible any more once a job is being ended
    LAUNCHES_BY_SHELL          the launcher hands its command to a shell
    HOOKS_ON_FIRST_NODE        prolog and epilog run on a job's first node alone, so that the others
                               don't know of it; may be absent: they run on all
    PASSES_ENVIRONMENT         the launcher takes the environment along; may be absent: it does not
    ON_EACH_NODE               command, for people, that runs another one on all nodes of a job; may
                               be absent
    facts(jobs, run)           {raw job: job_facts.Facts} of those that it knows of `jobs`, by its
                               commands; `run` takes an argv and returns what subprocess.run()
                               does.  NotReadable where it does not answer
    facts_of_parts(jobs, run)  the same, of all tasks or components of a job; may be absent
    facts_source(run)          where the facts come from here, for the doctor; NotReadable; may be
                               absent
    FACTS_COME_LATE            `facts` has nothing of a job from its end until some seconds later;
                               may be absent: it has
    job_list(run)              a job_list.JobList of all users' jobs, by one command that a batch
                               system can be asked once a minute; NotReadable; may be absent
    list_settings(run)         the job_list.ListSettings of these lists; may be absent
    runs_between(since, until, run)   [Facts] of all runs at any moment of that time (seconds since
                               1970, by its own clock), of its accounting; None where there is none;
                               may be absent
    TIME_STEP_S                times of jobs are multiples of so many seconds, rounded down; may be
                               absent: 1
    parse_*(text)              what those commands print, as {raw job: Facts}; NotReadable

and, where its accounting keeps comments of a job, all of

    read_comments(job), comments_of_all(job), write_comment(facts, text, fields, prefix),
    comment_readers(run)       see slurm.py

Adding a batch system is adding a file; tests/schedulers/test_schedulers.py says what one lacks.
A file without NAME is a part of others: commands.py, job_environment.py, slurm_output.py.
`about` and `launchers` run on compute nodes, so what only `facts` needs is imported there.
"""

from __future__ import annotations

import os
import sys

from iostats.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from iostats.base.config import Config
    from iostats.schedulers.commands import Run

NO_SYSTEM = "none"                  # the scheduler that stands for no batch system
_RANK = 50


def file_names() -> list[str]:
    """What the files here are called, without ".py": the schedulers, and parts of them."""
    found = []
    for filename in os.listdir(os.path.dirname(__file__)):
        name, dot_py = os.path.splitext(filename)
        if dot_py == ".py" and name != "__init__":
            found.append(name)
    return sorted(found)


def names() -> list[str]:
    """The batch systems that there are, in the order in which `here` looks for them."""
    return [module.NAME for module in _modules(file_names())]


def named(name: str) -> ModuleType:
    """The module of batch system `name`; UsageError."""
    for module in _modules([name] if name in file_names() else []):
        return module
    raise UsageError(f"no batch system {name[:40]!r}; there are: {', '.join(sorted(names()))}")


def _modules(files: Iterable[str]) -> list[ModuleType]:
    """The schedulers among `files`, by their rank."""
    found = []
    for name in files:
        __import__(f"{__name__}.{name}")
        module = sys.modules[f"{__name__}.{name}"]
        if hasattr(module, "NAME"):
            found.append(module)
    return sorted(found, key=lambda module: (getattr(module, "RANK", _RANK), module.NAME))


def here(environ: Mapping[str, str]) -> ModuleType:
    """The module of the batch system whose job has this environment; `none` for no job's."""
    files = file_names()
    # A prolog imports as few as it can: first those whose own variables seem to be there, such as
    # SLURM_JOB_ID for slurm, or LSB_JOBID for lsf.  The others are asked as well if it is not them.
    words = {variable.partition("_")[0] for variable in environ}
    likely = [name for name in files if any(
        len(word) == len(name) and word[:2] == name[:2].upper() for word in words)]
    for some in (likely, files):
        for module in _modules(some):
            is_here = getattr(module, "is_here", None)
            if is_here(environ) if is_here else environ.get(module.JOB_ID_VARIABLE):
                return module
    return named(NO_SYSTEM)


def shown_as(job: str, environ: Mapping[str, str]) -> str:
    """The id by which users know `job`, from its environment: "90100_17" for an array task."""
    about = here(environ).about(environ)
    return str(about.get("shown_as", job)) if about.get("job") == job else job


def chosen(config: Config, environ: Mapping[str, str]) -> ModuleType:
    """The module that site.cfg names ([batch] system), or else that of `here`."""
    return named(config["batch.system"]) if config["batch.system"] else here(environ)


def that_answers(config: Config, environ: Mapping[str, str]) -> ModuleType | None:
    """The module of the batch system that can be asked here, in a job or on a login node; None."""
    if config["batch.system"] or here(environ).NAME != NO_SYSTEM:
        module = chosen(config, environ)
        return None if module.NAME == NO_SYSTEM else module
    return next(iter(_installed(environ)), None)


def asked_unnamed(environ: Mapping[str, str]) -> ModuleType | None:
    """
    The module of the batch system that the site's server asks of the ids in job_stats where
    site.cfg names none; None.
    """
    return next((module for module in _installed(environ)
                 if getattr(module, "ASKED_UNNAMED", False)), None)


def _installed(environ: Mapping[str, str]) -> list[ModuleType]:
    """The modules whose command is in PATH, by its rank."""
    import shutil
    path = environ.get("PATH", os.defpath)
    return sorted((module for module in _modules(file_names())
                   if shutil.which(getattr(module, "COMMAND", "") or "/", path=path)),
                  key=lambda module: (getattr(module, "COMMAND_RANK", _RANK), module.NAME))


def with_comments(config: Config, environ: Mapping[str, str]) -> ModuleType | None:
    """The module of the batch system whose accounting keeps comments of jobs; None."""
    try:
        first = [chosen(config, environ)]
    except UsageError:                  # a mistake in site.cfg, which others tell of
        first = []
    return next((module for module in (*first, *_modules(file_names()))
                 if hasattr(module, "write_comment")), None)


def who_reads_comments(config: Config, run: Run | None = None) -> tuple[bool, str]:
    """
    (is it each job's user alone, a sentence) on [site] show = comment; (True, "") where that is not
    switched on.
    """
    system = with_comments(config, os.environ) if "comment" in config["site.show"] else None
    if system is None:
        return True, ""
    private, sentence = system.comment_readers(run)
    return private, sentence


def cgroups_of(name: str) -> Iterable[str]:
    """CGROUPS of the file `name` of this directory; () for one that has none."""
    return next((getattr(module, "CGROUPS", ()) for module in _modules([name])), ())


def job_id_form(name: str) -> str:
    """JOB_ID_FORM of the batch system `name`; "" for one that is not known, or has none."""
    return next((getattr(module, "JOB_ID_FORM", "") for module in
                 _modules([name] if name in file_names() else [])), "")
