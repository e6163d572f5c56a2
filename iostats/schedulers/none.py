"""
No batch system: this node alone, or the nodes that the caller names, by ssh.

There is no job id; the caller makes one up.  ssh hands its command to a shell on the other side,
and none of the environment; the caller quotes it.  BatchMode: no password is asked for, in a job
there is nobody to type it.

Source: ssh(1), ssh_config(5) of OpenSSH.
"""

from __future__ import annotations

from iostats import schedulers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from iostats.base.job_facts import Facts

NAME = "none"
JOB_ID_VARIABLE = ""
STAYS = False
QUOTES = True


def about(environ: Mapping[str, str]) -> dict[str, Any]:
    """{} of whose command it is; there is no job to tell of."""
    return schedulers.told(user=schedulers.word(environ, "LOGNAME", "USER"))


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """Just here; where nodes are named, an ssh to each, also to this one."""
    return [["ssh", "-n", "-o", "BatchMode=yes", "--", name]
            for name in schedulers.node_names(nodes)] or [[]]


def facts(jobs: Iterable[str], run: schedulers.Run | None = None) -> dict[str, Facts]:
    """Nothing is known of any job."""
    schedulers.askable(jobs)
    return {}
