"""
Slurm, through its commands, or through a pyslurm of the right release; neither is required.

Job id: "4711", "143_1" for a task of an array, "12+1" for a part of a heterogeneous job.  Prologs
see another one of the last two, the raw id, a plain number; a script knows that as SLURM_JOB_ID.

This file has the parts that a node needs; slurm_facts.py and slurm_output.py read facts and
comments of jobs by Slurm's commands, slurm_list.py lists all jobs.

Sources: srun(1), sbatch(1), prolog_epilog.html; Slurm 22.05.8 as observed; cgroup.conf(5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.errors import UsageError
from iostats.base.job_facts import parse_integer
from iostats.schedulers import job_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iostats.base.job_facts import Facts
    from iostats.base.job_list import JobList, ListSettings
    from iostats.schedulers.commands import Run

NAME = "slurm"
JOB_ID_VARIABLE = "SLURM_JOB_ID"
JOB_NAME_VARIABLE = "SLURM_JOB_NAME"
JOB_ID_FORM = r"[1-9]\d{0,9}"
RANK = 10                            # many sites set variables of others for old scripts
COMMAND, COMMAND_RANK = "squeue", 10
ASKED_UNNAMED = True
NO_LAUNCH_AT_END = True              # a job that is being ended takes no step any more
LAUNCHES_BY_SHELL = False
PASSES_ENVIRONMENT = True
NODE_LIST_VARIABLE = "SLURM_JOB_NODELIST"
ON_EACH_NODE = "srun --ntasks-per-node=1"
# cgroup v2, also with --enable-multiple-slurmd; v1.
CGROUPS = ("system.slice/*slurmstepd.scope/job_{job}", "slurm/*/job_{job}",
           "slurm_*/*/job_{job}")


# -- on the nodes --------------------------------------------------------------------------------

def about(environ: Mapping[str, str]) -> job_environment.JobAbout:
    """Return {} of the facts in the environment of a job, or of its prolog and epilog."""
    job = job_environment.find_job(environ, JOB_ID_VARIABLE)

    def word(*variables: str) -> str:
        return job_environment.get_variable(environ, *variables)
    restarts = parse_integer(word("SLURM_JOB_RESTART_COUNT", "SLURM_RESTART_COUNT") or 0)
    task = [word("SLURM_ARRAY_JOB_ID"), word("SLURM_ARRAY_TASK_ID")]
    is_task = job and all(part.isascii() and part.isdigit() and len(part) < 12 for part in task)
    return job_environment.drop_unknown(
        job=job, shown_as="_".join(task) if is_task else "",
        attempt=restarts if job and restarts is not None and restarts >= 0 else None,
        nodes=_find_node_list(environ), user=word("SLURM_JOB_USER"),
        uid=parse_integer(environ.get("SLURM_JOB_UID")), account=word("SLURM_JOB_ACCOUNT"),
        partition=word("SLURM_JOB_PARTITION"), cluster=word("SLURM_CLUSTER_NAME"),
        output=word("SLURM_JOB_STDOUT"), work_dir=word("SLURM_JOB_WORK_DIR", "SLURM_SUBMIT_DIR"))


def _find_node_list(environ: Mapping[str, str]) -> str:
    """The node list of the job, of all its parts; "" if one of them is unknown."""
    node_lists = _list_part_nodes(environ) or [
        job_environment.get_variable(environ, "SLURM_JOB_NODELIST", "SLURM_NODELIST")]
    try:
        names = [job_environment.parse_node_names(nodes) for nodes in node_lists if nodes]
    except UsageError:
        return ""
    if len(names) < len(node_lists):
        return ""
    if len(set().union(*names)) == sum(map(len, names)):
        return ",".join(node_lists)
    # parts share nodes
    return job_environment.as_list([name for names_of_part in names for name in names_of_part])


def _list_part_nodes(environ: Mapping[str, str]) -> list[str]:
    """[node list] of each part of a heterogeneous job; [] for another job.  PACK: before 20.02."""
    for kind in ("HET", "PACK"):
        size = parse_integer(environ.get(f"SLURM_{kind}_SIZE"))
        if size and 0 < size < 1000:
            return [job_environment.get_variable(environ, f"SLURM_JOB_NODELIST_{kind}_GROUP_{part}")
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
    """One srun; for a heterogeneous job one for each part that has any of `nodes`."""
    names = job_environment.parse_node_names(nodes)
    if not names or names == [environ.get("SLURMD_NODENAME")] or not environ.get(
            JOB_ID_VARIABLE):
        return [[]]
    unset = [word for name in sorted(environ)
             if name.startswith(("SLURM_", "SLURMD_", "SRUN_"))
             and name not in _NO_OPTIONS and not name.startswith("SLURM_ARRAY_")
             for word in ("-u", name)]
    srun = ["env", *unset, "srun"] if unset else ["srun"]
    parts = [job_environment.parse_node_names(part) for part in _list_part_nodes(environ)]
    if not parts:
        parts = [job_environment.parse_node_names(job_environment.get_variable(environ,
                                                                               "SLURM_JOB_NODELIST",
                                                                               "SLURM_NODELIST"))]
    commands_here, left = [], set(names)
    for number_of_part, part in enumerate(parts):
        here = [name for name in part if name in left] if len(parts) > 1 else names
        left -= set(here)
        if not here:
            continue
        options = [f"--het-group={number_of_part}"] if len(parts) > 1 else []
        # Without a list where it can be: of 100,000 nodes it is too long for a command line.
        options += [] if set(here) == set(part) else ["--nodelist=" + ",".join(here)]
        commands_here.append(
            [*srun, f"--nodes={len(here)}", f"--ntasks={len(here)}", *options, *_OPTIONS])
    return commands_here


# -- what Slurm knows ----------------------------------------------------------------------------

def facts(jobs: Iterable[str], run: Run | None = None) -> dict[str, Facts]:
    """Return {raw job: Facts}; see slurm_facts.py."""
    from iostats.schedulers import slurm_facts
    return slurm_facts.facts(jobs, run)


def query_parts(jobs: Iterable[str], run: Run | None = None) -> dict[str, Facts]:
    """
    Return {raw job: Facts}, for an array's or heterogeneous job's number of all parts known to
    slurmctld.
    """
    from iostats.schedulers import slurm_facts
    return slurm_facts.query_parts(jobs, run)


def facts_source(run: Run | None = None) -> str:
    """The source of facts(), in words, after trying each one; NotReadable for none."""
    from iostats.schedulers import slurm_facts
    return slurm_facts.facts_source(run)


def job_list(run: Run | None = None) -> JobList:
    """The JobList of all jobs that slurmctld knows; see slurm_list.py."""
    from iostats.schedulers import slurm_list
    return slurm_list.job_list(run)


def list_settings(run: Run | None = None) -> ListSettings:
    """The time that slurmctld lists an ended job, and its clock."""
    from iostats.schedulers import slurm_list
    return slurm_list.query_settings(run)


def runs_between(since: float, until: float, run: Run | None = None) -> list[Facts] | None:
    """
    Return [Facts] of all runs at any moment of that time, by the accounting; None without
    accounting.
    """
    from iostats.schedulers import slurm_list
    return slurm_list.runs_between(since, until, run)


# -- comments ------------------------------------------------------------------------------------

def read_comments(job: str, run: Run | None = None) -> dict[str, str] | None:
    """Return {"AdminComment": text, ...} of the last run of `job`; None if unknown."""
    from iostats.schedulers import slurm_facts
    return slurm_facts.read_comments(job, run)


def read_all_comments(job: str, run: Run | None = None) -> dict[str, tuple[str, str]]:
    """Return {job: (its user, all its comments in one line)} of each task or component of `job`."""
    from iostats.schedulers import slurm_facts
    return slurm_facts.read_all_comments(job, run)


def write_comment(facts_: Facts, text: str, fields: Sequence[str] = ("AdminComment",),
                  prefix: str = "IO1:", run: Run | None = None) -> str | None:
    """The field of `fields` that `text` was written to; None if that failed."""
    from iostats.schedulers import slurm_facts
    return slurm_facts.write_comment(facts_, text, fields, prefix, run)


def comment_readers(run: Run | None = None) -> tuple[bool, str]:
    """Return (whether only each job's user can read its comments, a sentence)."""
    from iostats.schedulers import slurm_facts
    return slurm_facts.comment_readers(run)
