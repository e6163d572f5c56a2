"""
The batch systems, one file each; the directory is the list.

A scheduler is a file with the members of the class Scheduler, as far as it has them; NAME,
JOB_ID_VARIABLE, NO_LAUNCH_AT_END, LAUNCHES_BY_SHELL, about(), launchers() and facts() have to be
there, and parse_*(text) of what its commands print, as {raw job: Facts}; NotReadable.  One whose
accounting keeps comments of a job has all four functions of comments, see slurm.py.

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
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Optional, Protocol, Union

    from iostats.base.config import Config
    from iostats.base.job_facts import Facts
    from iostats.base.job_list import JobList, ListSettings
    from iostats.schedulers.commands import Run
    from iostats.schedulers.job_environment import JobAbout
    from iostats.totals.record import Record

    class Scheduler(Protocol):
        """
        A batch system: a file of this directory.

        `environ`: of a job or a prolog; `run` takes an argv and returns what subprocess.run() does.
        """

        NAME: str                       # as in site.cfg and as the file's: "pbs"
        JOB_ID_VARIABLE: str            # the environment variable that has a job's id; "" for none
        NO_LAUNCH_AT_END: bool          # no launch is possible once a job is being ended
        LAUNCHES_BY_SHELL: bool         # the launcher hands its command to a shell
        # These may be absent.
        JOB_NAME_VARIABLE: str          # the environment variable that has a job's name
        JOB_ID_FORM: str                # regular expression of its ids, else any number
        RANK: int                       # of several that an environment looks like, the lowest: 50
        COMMAND: str                    # by which it is queried; of several in PATH the one of
        COMMAND_RANK: int               # the lowest rank
        ASKED_UNNAMED: bool             # queried for ids in job_stats if site.cfg names no system
        NODE_LIST_VARIABLE: str         # the variable that has the job's node list
        NODE_FILE_VARIABLE: str         # the variable that names a file with the job's nodes
        # Of its jobs below /sys/fs/cgroup, see node/identity.py; the first directory of each that
        # is not system.slice has NAME in its name.
        CGROUPS: tuple[str, ...]
        HOOKS_ON_FIRST_NODE: bool       # prolog and epilog run on a job's first node alone
        PASSES_ENVIRONMENT: bool        # the launcher takes the environment along
        ON_EACH_NODE: str               # for people: a command that runs one on all nodes of a job
        FACTS_COME_LATE: bool           # facts() has a job from some seconds after its end
        TIME_STEP_S: float              # times of jobs are multiples of it, rounded down: 1

        def about(self, environ: Mapping[str, str], /) -> JobAbout:
            """The facts of a job in its environment; nothing there raises an error."""

        def launchers(self, environ: Mapping[str, str], nodes: Union[str, Iterable[str]], /
                      ) -> list[list[str]]:
            """
            Return [[argv prefix], ...]: commands that run, all at the same time, the command after
            the prefix once on each node; [[]] is just here.
            """

        def facts(self, jobs: Iterable[str], run: Optional[Run] = None) -> dict[str, Facts]:
            """Return {raw job: Facts} of those of `jobs` that it knows; NotReadable."""

        # These may be absent, too.
        def is_here(self, environ: Mapping[str, str], /) -> bool:
            """Whether a job runs under it, where JOB_ID_VARIABLE does not prove it."""

        def list_nodes(self, environ: Mapping[str, str], /) -> str:
            """The job's node list where a command has to be run for it."""

        def query_parts(self, jobs: Iterable[str], run: Optional[Run] = None) -> dict[str, Facts]:
            """Query the Facts of all tasks or components of a job, as facts() returns them."""

        def facts_source(self, run: Optional[Run] = None) -> str:
            """Describe the source of the facts, for the doctor; NotReadable."""

        def job_list(self, run: Optional[Run] = None) -> JobList:
            """All users' jobs, by one command that can be run once a minute; NotReadable."""

        def list_settings(self, run: Optional[Run] = None) -> ListSettings:
            """The settings of job_list()."""

        def runs_between(self, since: float, until: float,
                         run: Optional[Run] = None) -> Optional[list[Facts]]:
            """All runs at any moment of that time, by its accounting; None without one."""

        def read_comments(self, job: str, run: Optional[Run] = None) -> Optional[dict[str, str]]:
            """The comments of the last run of a job."""

        def read_all_comments(self, job: str, run: Optional[Run] = None
                              ) -> dict[str, tuple[str, str]]:
            """Return {job: (its user, its comments)} of each task or component."""

        def write_comment(self, facts_: Facts, text: str, fields: Sequence[str] = ...,
                          prefix: str = ..., run: Optional[Run] = None) -> Optional[str]:
            """The field that `text` was written to; None if that failed."""

        def comment_readers(self, run: Optional[Run] = None) -> tuple[bool, str]:
            """Return (whether only each job's user can read its comments, a sentence)."""

NO_SYSTEM = "none"                  # the scheduler that stands for no batch system
_RANK = 50


def list_file_names() -> list[str]:
    """The names of the files here without ".py": the schedulers, and parts of them."""
    files = []
    for filename in os.listdir(os.path.dirname(__file__)):
        name, dot_py = os.path.splitext(filename)
        if dot_py == ".py" and name != "__init__":
            files.append(name)
    return sorted(files)


def list_names() -> list[str]:
    """The names of the batch systems, in the order in which `detect_scheduler` tries them."""
    return [module.NAME for module in _import_modules(list_file_names())]


def find_scheduler(name: str) -> Scheduler:
    """The module of batch system `name`; UsageError."""
    for module in _import_modules([name] if name in list_file_names() else []):
        return module
    raise UsageError(f"no batch system {name[:40]!r}; there are: {', '.join(sorted(list_names()))}")


def _import_modules(files: Iterable[str]) -> list[Scheduler]:
    """The schedulers among `files`, by their rank."""
    modules: list[Scheduler] = []
    for name in files:
        __import__(f"{__name__}.{name}")
        module: Any = sys.modules[f"{__name__}.{name}"]
        if hasattr(module, "NAME"):
            modules.append(module)
    return sorted(modules, key=lambda module: (getattr(module, "RANK", _RANK), module.NAME))


def detect_scheduler(environ: Mapping[str, str]) -> Scheduler:
    """The module of the batch system whose job has this environment; `none` outside jobs."""
    files = list_file_names()
    # A prolog imports as few as it can: first those whose own variables seem to be there, such as
    # SLURM_JOB_ID for slurm, or LSB_JOBID for lsf.  The others are asked as well if it is not them.
    words = {variable.partition("_")[0] for variable in environ}
    likely = [name for name in files if any(
        len(word) == len(name) and word[:2] == name[:2].upper() for word in words)]
    for candidates in (likely, files):
        for module in _import_modules(candidates):
            if (module.is_here(environ) if hasattr(module, "is_here") else
                    environ.get(module.JOB_ID_VARIABLE)):
                return module
    return find_scheduler(NO_SYSTEM)


def add_facts_of_environment(record: Record, environ: Mapping[str, str]) -> Record:
    """
    `record` with what the environment of its job says: the id by which users know it ("90100_17"
    for an array task), name, partition, account, cluster and nodes.
    """
    system = detect_scheduler(environ)
    about = system.about(environ)
    job = record.job.id
    if about.get("job") != job:
        return record
    from iostats.schedulers.job_environment import get_variable
    from iostats.totals.record import BatchRecord
    shown_as = about.get("shown_as", "")
    array_job, _, array_task = shown_as.partition("_")
    return record.replaced(job=record.job.replaced(id=shown_as or job), batch=BatchRecord.of({
        "system": system.NAME, "cluster": about.get("cluster", ""),
        "account": about.get("account", ""), "partition": about.get("partition", ""),
        "name": get_variable(environ, getattr(system, "JOB_NAME_VARIABLE", "")),
        "nodes": about.get("nodes", ""), "outcome": "", "exit_status": None, "exit_signal": None,
        "array_job": array_job, "array_task": array_task, "het_job": "", "het_offset": "",
        "raw_job": job, "tasks": None, "cpus": None}))


def choose_scheduler(config: Config, environ: Mapping[str, str]) -> Scheduler:
    """The module that site.cfg names ([batch] system), or else that of `detect_scheduler`."""
    return find_scheduler(config.batch.system) if config.batch.system else detect_scheduler(environ)


def detect_queryable(config: Config, environ: Mapping[str, str]) -> Scheduler | None:
    """The module of the batch system that can be asked here, in a job or on a login node; None."""
    if config.batch.system or detect_scheduler(environ).NAME != NO_SYSTEM:
        module = choose_scheduler(config, environ)
        return None if module.NAME == NO_SYSTEM else module
    return next(iter(_list_installed(environ)), None)


def find_queried(named: str, environ: Mapping[str, str]) -> str:
    """
    The batch system that is queried for the ids in job_stats; "" for none.

    `named`: by site.cfg; "" where it names none, and one that is installed here is queried.
    """
    if named:
        return "" if named == NO_SYSTEM else named
    return next((module.NAME for module in _list_installed(environ)
                 if getattr(module, "ASKED_UNNAMED", False)), "")


def _list_installed(environ: Mapping[str, str]) -> list[Scheduler]:
    """Return the modules of batch systems whose command is in PATH, by COMMAND_RANK."""
    import shutil
    path = environ.get("PATH", os.defpath)
    return sorted((module for module in _import_modules(list_file_names())
                   if shutil.which(getattr(module, "COMMAND", "") or "/", path=path)),
                  key=lambda module: (getattr(module, "COMMAND_RANK", _RANK), module.NAME))


def find_scheduler_with_comments(config: Config, environ: Mapping[str, str]) -> Scheduler | None:
    """The module of the batch system whose accounting keeps comments of jobs; None."""
    try:
        first = [choose_scheduler(config, environ)]
    except UsageError:                  # a mistake in site.cfg, which is reported elsewhere
        first = []
    return next((module for module in (*first, *_import_modules(list_file_names()))
                 if hasattr(module, "write_comment")), None)


def find_comment_readers(config: Config, run: Run | None = None) -> tuple[bool, str]:
    """
    Return (whether only a job's user can read its comment, a sentence) for [site] show = comment;
    (True, "") if that is off.
    """
    system = find_scheduler_with_comments(config,
                                          os.environ) if "comment" in config.site.show else None
    if system is None:
        return True, ""
    return system.comment_readers(run)


def list_cgroup_patterns(name: str) -> Iterable[str]:
    """CGROUPS of the file `name` of this directory; () for one that has none."""
    return next((getattr(module, "CGROUPS", ()) for module in _import_modules([name])), ())


def describe_job_id_form(name: str) -> str:
    """JOB_ID_FORM of the batch system `name`; "" for an unknown one, or one without."""
    return next((getattr(module, "JOB_ID_FORM", "") for module in
                 _import_modules([name] if name in list_file_names() else [])), "")
