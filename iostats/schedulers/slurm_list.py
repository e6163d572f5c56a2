"""
All jobs of a Slurm cluster, each run of them: what the site's server asks for once a minute.

    squeue --states=...      what runs, and what has ended within MinJobAge (300 s by default)
    sacct --duplicates       what ran between two lists; and runs that were requeued, of which
                             slurmctld knows nothing any more
    scontrol show config     MinJobAge, the cluster's name, and the time by slurmctld's clock

squeue is one request to slurmctld, whatever it prints; sacct asks slurmdbd alone.  While a job is
COMPLETING the nodes in its line are those that it is still on.  OVER_SUBSCRIBE (%h) is NO where a
job has whole nodes for itself: by --exclusive, or by its partition.

Sources: squeue(1), sacct(1), scontrol(1); get_job_share_value(), pack_job() and
_list_find_job_old(), src/slurmctld/job_mgr.c; _fill_ctld_conf(), src/slurmctld/proc_req.c; 22.05
to 26.05.
"""

from __future__ import annotations

import os
import time

from iostats.base.errors import NotReadable
from iostats.base.job_facts import ENDED, Facts, parse_integer
from iostats.base.job_list import JobList, ListSettings
from iostats.schedulers import commands, slurm_output

# All but PENDING, of which there may be 100,000: the last ones are not known to every release.
_STATES = ("RUNNING,SUSPENDED,COMPLETING,CONFIGURING,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,"
           "PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,RESIZING,SIGNALING,STAGE_OUT,STOPPED")
_LISTED = slurm_output.LIVE + "|%h"
# Of the list before: most lines are in the next one, too, and to understand one takes 25 us.
_known: dict[str, tuple[Facts | None, bool]] = {}
_EXCLUSIVE, _SUSPENDED, _REQUEUED = "NO", "SUSPENDED", "REQUEUED"
_FOR_EVER_S = 86_400.0                  # MinJobAge=0: until slurmctld is restarted
_AS_OF = "Configuration data as of "


def job_list(run: commands.Run | None = None) -> JobList:
    """The JobList of all jobs that slurmctld knows, without those that wait; NotReadable."""
    failed: NotReadable | None = None
    for states in (_STATES, "all"):
        command = ["squeue", "--all", f"--states={states}", "--noheader", "--format", _LISTED]
        status, text, wrong = commands.ask(command, run)
        if not status:
            return parse_job_list(text)
        failed = failed or commands.make_command_error(command, status, wrong)
        if "state" not in wrong.lower():            # not: "Invalid job state specified: STOPPED"
            break
    assert failed is not None
    raise failed


def parse_job_list(text: str) -> JobList:
    """The JobList of `squeue --noheader --format` with the fields of LIVE and %h; NotReadable."""
    global _known
    lines = text.splitlines()
    rows = [line.rpartition("|")[0] for line in lines if line not in _known]
    new = slurm_output.parse_squeue_lines("\n".join(rows))
    parsed_lines: dict[str, tuple[Facts | None, bool]] = {}
    for line in lines:
        parsed = _known.get(line)
        if parsed is None:
            row, _, word = line.rpartition("|")
            raw, _, rest = row.partition("|")
            job_facts = new.get(raw.strip())
            # What is suspended has left its nodes to others.
            parsed = (job_facts if job_facts and job_facts.started is not None else None,
                      word.strip() == _EXCLUSIVE and _SUSPENDED not in rest.split("|")[1:2])
        parsed_lines[line] = parsed
    _known = parsed_lines
    there = [(job_facts, alone) for job_facts,
             alone in parsed_lines.values() if job_facts is not None]
    return JobList([job_facts for job_facts, _ in there],
                   frozenset(job_facts.raw_job for job_facts, alone in there if alone))


def query_settings(run: commands.Run | None = None) -> ListSettings:
    """The ListSettings of `scontrol show config`; NotReadable."""
    command = ["scontrol", "show", "config"]
    began = time.time()
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.make_command_error(command, status, wrong)
    return parse_settings(text, began, time.time())


def parse_settings(text: str, began: float, ended: float) -> ListSettings:
    """
    The ListSettings in the output of `scontrol show config` between these two moments.

        Configuration data as of 2026-11-22T14:50:26       by slurmctld's clock
        ClusterName             = sim
        MinJobAge               = 300 sec
        PrivateData             = jobs,usage               root and operators see all jobs
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        values.setdefault(name.strip(), value.strip())
    min_job_age_s = parse_integer(values.get("MinJobAge", "").partition(" ")[0])
    cluster = values.get("ClusterName", "")
    first = text.partition("\n")[0].strip()
    slurm_time = commands.parse_time(first[len(_AS_OF):]) if first.startswith(_AS_OF) else None
    ahead_s, within_s = 0.0, None
    if slurm_time is not None:
        # Theirs is rounded down, and was read at some moment between ours.
        ahead_s, within_s = slurm_time + 0.5 - (began + ended) / 2, 0.5 + max(0.0,
                                                                              ended - began) / 2
    # Operators see all jobs all the same; but the output does not show who is one.
    is_private = "jobs" in values.get("PrivateData", "").split(",") and os.geteuid() != 0
    return ListSettings(None if min_job_age_s is None else float(min_job_age_s) or _FOR_EVER_S,
                        cluster if cluster.isprintable() else "", ahead_s, within_s,
                        not is_private)


def runs_between(since: float, until: float,
                 run: commands.Run | None = None) -> list[Facts] | None:
    """
    Return [Facts] of all runs at any moment of that time, by slurmctld's clock; None without
    accounting; NotReadable.  The number of earlier starts is not included.
    """
    command = ["sacct", "--allusers", "--allocations", "--duplicates",
               f"--starttime={_format_time(since)}", f"--endtime={_format_time(until)}",
               "--noheader",
               "--parsable2", "--format", slurm_output.ACCOUNTED]
    status, text, wrong = commands.ask(command, run)
    if status:
        if slurm_output.NO_ACCOUNTING in wrong.lower():
            return None
        raise commands.make_command_error(command, status, wrong)
    return parse_runs(text)


def _format_time(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))


def parse_runs(text: str) -> list[Facts]:
    """[Facts] of each line of sacct with the fields of ACCOUNTED that has begun; NotReadable."""
    # The n-th line of each job together: slurm_output takes several of one for its restarts.
    layers: list[list[str]] = []
    count: dict[str, int] = {}
    requeued: set[tuple[int, str]] = set()
    for line in text.splitlines():
        fields = line.split("|")
        raw = fields[0].strip()
        place = count[raw] = count.get(raw, -1) + 1
        if len(fields) > 2 and fields[2].strip() == _REQUEUED:
            # The word of a run that was followed by another one; it is over.
            fields[2] = "CANCELLED"
            requeued.add((place, raw))
        if place == len(layers):
            layers.append([])
        layers[place].append("|".join(fields))
    runs = []
    for place, lines in enumerate(layers):
        for raw, job_facts in slurm_output.parse_sacct_lines("\n".join(lines)).items():
            if job_facts.started is None or (job_facts.state is ENDED and job_facts.ended is None):
                continue
            runs.append(job_facts._replace(outcome=_REQUEUED) if (place, raw) in requeued
                        else job_facts)
    return runs
