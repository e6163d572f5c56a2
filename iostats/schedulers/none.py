"""
No batch system: this node alone, or the nodes that the caller names, by ssh.

There is no job id; the caller makes one up.  ssh hands its command to a shell on the other side,
without the environment; the caller quotes it.  BatchMode: ssh asks for no password, as nobody can
type one in a job.

Source: ssh(1), ssh_config(5) of OpenSSH.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iostats.base.job_facts import Facts
from iostats.schedulers import commands, job_environment

NAME = "none"
JOB_ID_VARIABLE = ""
RANK = 100                          # what remains
NO_LAUNCH_AT_END = False
LAUNCHES_BY_SHELL = True


def about(environ: Mapping[str, str]) -> job_environment.JobAbout:
    """Return {user}: there is no job."""
    return job_environment.drop_unknown(user=job_environment.get_variable(environ, "LOGNAME",
                                                                          "USER"))


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """Return [[]] for this node alone; for given nodes an ssh to each, also to this one."""
    return [["ssh", "-n", "-o", "BatchMode=yes", "--", name]
            for name in job_environment.parse_node_names(nodes)] or [[]]


def facts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """Return {}: without a batch system there are no facts of jobs."""
    commands.check_ids(jobs)
    return {}
