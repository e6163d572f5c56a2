"""
The Grid Engine family (Sun, Open, Son of, Univa/Altair, Open Cluster Scheduler), by its commands.

Job id: "4711", or "4711.3" for a task of an array (JOB_ID and SGE_TASK_ID, "undefined" outside);
qdel takes the same.  JOB_ID is a name that others use as well, so SGE_ROOT has to be there, too.

    $PE_HOSTFILE    HOST SLOTS QUEUE@HOST PROCESSORS       a line for each host, or host and queue;
                                                           the job's script runs on the first

`qrsh -inherit HOST COMMAND` runs on one host of a job whose parallel environment has
control_slaves TRUE, and needs a process for each; -noshell, because it is a line for the user's
shell otherwise.  On the first host no launch is needed, and may have no slot.

Facts: `qstat -g t -xml -u *`, an entry for each task and host of all jobs that have not ended; of
the others, `qacct -j JOB [-t TASK]`, which has an entry for each run, and for each qrsh of a
parallel job with accounting_summary FALSE; it does not tell all hosts of one.  RESTARTED
and the letter R say that a job was started again, not how often: attempts here are 0 and 1.

Found on 8.1.9 (Debian's): qacct prints neither pe_taskid nor deleted_by, so the entry of a qrsh is
one that is shorter than the job's, and nobody tells a qdel from another SIGKILL.  A start that
failed ("opening output file") leaves an entry without times, ran no prolog, and is no restart.

Sources: qsub(1), qrsh(1), qstat(1), qacct(1), accounting(5), sge_pe(5) of 8.1.9; qstat.xsd.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from iostats.base import job_facts
from iostats.base.ids import JobId, RawJobId
from iostats.base.job_facts import ENDED, RUNNING, WAITING, Facts, parse_integer, parse_positive
from iostats.schedulers import commands, job_environment

NAME = "sge"
JOB_ID_VARIABLE = "JOB_ID"
JOB_NAME_VARIABLE = "JOB_NAME"
JOB_ID_FORM = r"[1-9]\d{0,9}"
COMMAND, COMMAND_RANK = "qacct", 20
NO_LAUNCH_AT_END = False
LAUNCHES_BY_SHELL = False
HOOKS_ON_FIRST_NODE = True
FACTS_COME_LATE = True                   # accounting_flush_time, 15 s unless the site says more

_LIST = ["qstat", "-g", "t", "-xml", "-u", "*"]
_NONE = ("", "NONE", "none", "undefined")
_KILLED = 100                       # accounting(5): "assumedly after job", a signal ended it
_AT_THE_LIMIT = 37                  # "qmaster enforced h_rt, h_cpu or h_vmem limit"
_RUN_AGAIN = (24, 25)               # "migrating", "rescheduling": a run that another followed
_DELETES = (9, 15)                  # signals that end a job for somebody else
_UNKNOWN = "not found"
_RULE = "=" * 10


def is_here(environ: Mapping[str, str]) -> bool:
    """Return True in a job of SGE; JOB_ID alone is not enough, since other programs set it, too."""
    return bool(environ.get(JOB_ID_VARIABLE) and environ.get("SGE_ROOT"))


def about(environ: Mapping[str, str]) -> job_environment.JobAbout:
    """Return {} of the facts in the environment of a job, a prolog or an epilog."""
    job, task = job_environment.find_job(environ,
                                         JOB_ID_VARIABLE), parse_integer(environ.get("SGE_TASK_ID"))
    hosts = (job_environment.read_host_file(environ.get("PE_HOSTFILE"))
             or [job_environment.get_variable(environ, "HOSTNAME", "HOST")])
    restarted = parse_integer(environ.get("RESTARTED"))
    return job_environment.drop_unknown(
        job=_make_job_id(job, task) if job else "",
        attempt=None if restarted is None else int(restarted > 0),
        nodes=job_environment.as_list(hosts) if job else "",
        user=job_environment.get_variable(environ, "LOGNAME", "USER", "SGE_O_LOGNAME"),
        partition=job_environment.get_variable(environ, "QUEUE"),
        cluster=job_environment.get_variable(environ, "SGE_CLUSTER_NAME"),
        output=_parse_absolute_path(job_environment.get_variable(environ, "SGE_STDOUT_PATH")),
        work_dir=_parse_absolute_path(job_environment.get_variable(environ, "SGE_O_WORKDIR")))


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """Return an empty prefix for the job's first host, and a qrsh for each of the others."""
    names = job_environment.parse_node_names(nodes)
    if len(names) < 2:
        return [[]]
    hosts = job_environment.read_host_file(environ.get("PE_HOSTFILE"))
    first = hosts[0] if hosts else names[0]
    return [[] if name == first else ["qrsh", "-inherit", "-nostdin", "-noshell", name]
            for name in names]


def facts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """Return {raw job: Facts}; for an array's id, of all its known tasks."""
    queried = commands.check_ids(jobs)
    if not queried:
        return {}
    status, text, wrong = commands.ask(_LIST, run)
    if status:
        raise commands.make_command_error(_LIST, status, wrong)
    by_job = {job: job_facts for job, job_facts in parse_xml(text).items()
              if job in queried or job_facts.array_job in queried}
    for job in queried:
        if job in by_job:
            continue
        number_of, dot, task = job.partition(".")
        argv = ["qacct", "-j", number_of, *(["-t", task] if dot else [])]
        status, text, wrong = commands.ask(argv, run)
        if not status:
            for job_facts in parse_qacct(text).values():
                if job in (job_facts.job, job_facts.array_job):
                    by_job.setdefault(job_facts.job, job_facts)
        elif _UNKNOWN not in wrong:
            raise commands.make_command_error(argv, status, wrong)
    return by_job


def parse_xml(text: str) -> dict[str, Facts]:
    """Return {job: Facts} of `qstat -g t -xml`; NotReadable."""
    from xml.etree import ElementTree
    try:
        entries = list(ElementTree.fromstring(text).iter("job_list"))
    except (ElementTree.ParseError, ValueError):          # ValueError: what no XML can have
        raise commands.make_format_error("qstat -xml", "<job_info> with <job_list>s",
                                         text) from None
    by_job: dict[str, Facts] = {}
    for entry in entries:
        record = {child.tag: child.text or "" for child in entry}
        job, task = commands.get_field(record, "JB_job_number"), parse_integer(record.get("tasks"))
        if not job:
            continue
        job = _make_job_id(job, task)
        job_facts = _parse_queue_facts(job, task, record)
        if job in by_job:                                  # another host of the same task
            job_facts = _merge_hosts(by_job[job], job_facts)
        by_job[job] = job_facts
    return by_job


def _parse_queue_facts(job: str, task: int | None, record: dict[str, str]) -> Facts:
    letters = commands.get_field(record, "state")
    queue, _, host = commands.get_field(record, "queue_name").partition("@")
    waits = "q" in letters or not letters
    return job_facts.Facts(
        job=JobId(job), raw_job=RawJobId(job), **_make_array_facts(job, task),
        user=commands.get_field(record, "JB_owner"), partition=queue,
        name=commands.get_label(record, "JB_name"),
        nodes=job_environment.as_list([host] if host else []),
        node_count=1 if host else None, state=WAITING if waits else RUNNING,
        restarts=int("R" in letters),
        started=None
        if waits else commands.parse_time(commands.get_field(record, "JAT_start_time")))


def _merge_hosts(earlier: Facts, later: Facts) -> Facts:
    """Two entries of one task merged: the first, the master's, with the hosts of both."""
    hosts = [host for text in (earlier.nodes, later.nodes) for host in text.split(",") if host]
    return earlier._replace(nodes=job_environment.as_list(hosts), node_count=len(set(hosts))
                            or None)


def parse_qacct(text: str) -> dict[str, Facts]:
    """
    Return {job: Facts} of `qacct -j`; NotReadable.

        ==============================================================
        qname        all.q
        taskid       undefined
        exit_status  137                  (Killed)
    """
    records: list[dict[str, str]] = []
    for line in text.split("\n"):
        if line.startswith(_RULE):
            records.append({})
        elif records and line.strip():
            name, _, value = line.strip().partition(" ")
            records[-1].setdefault(name, value.strip())
    if not records or not all("jobnumber" in record for record in records):
        raise commands.make_format_error("qacct -j", "a line of === and a jobnumber", text)
    by_job: dict[str, list[dict[str, str]]] = {}
    for record in records:
        job = commands.get_field(record, "jobnumber")
        if job and commands.get_field(record, "pe_taskid") in _NONE:        # else a qrsh -inherit
            by_job.setdefault(_make_job_id(job, parse_integer(record.get("taskid"))),
                              []).append(record)
    last_runs: dict[str, Facts] = {}
    for job, entries in by_job.items():
        followed = [at for at, record in enumerate(entries) if _parse_failed(record) in _RUN_AGAIN]
        last_run = entries[followed[-1] + 1:] if followed else entries
        if not last_run:                                  # it still runs, or is not listed yet
            continue
        # Of a parallel job without pe_taskid: its own entry spans those of its tasks.
        own = max(enumerate(last_run),
                  key=lambda numbered: (_compute_elapsed(numbered[1]), numbered[0]))[1]
        # As in `about`, where nothing tells a third run from a second.
        last_runs[job] = _parse_accounting_facts(job, parse_integer(own.get("taskid")),
                                                 own)._replace(
            restarts=int(bool(followed)))
    return last_runs


def _parse_failed(record: dict[str, str]) -> int | None:
    return parse_integer(commands.get_field(record, "failed").partition(":")[0])


def _compute_elapsed(record: dict[str, str]) -> float:
    """The duration in seconds; -1 for an entry that never started."""
    began, over = (commands.parse_time(commands.get_field(record, name))
                   for name in ("start_time", "end_time"))
    return -1.0 if began is None or over is None else over - began


def _parse_accounting_facts(job: str, task: int | None, record: dict[str, str]) -> Facts:
    def text(name: str) -> str:
        value = commands.get_field(record, name)
        return "" if value in _NONE else value
    status, failed = parse_integer(text("exit_status").partition(" ")[0]), _parse_failed(record)
    # Of a parallel job it names the first host, and others only as far as a qrsh ran there.
    alone = "" if text("granted_pe") else job_environment.as_list([text("hostname")])
    signal = None
    if failed in (_KILLED, _AT_THE_LIMIT) and status is not None and 128 < status < 256:
        status, signal = 0, status - 128
    if text("deleted_by"):
        outcome = job_facts.CANCELLED
    elif failed == _AT_THE_LIMIT:
        outcome = job_facts.TIMEOUT
    elif signal in _DELETES and "deleted_by" not in record:
        outcome = job_facts.KILLED
    else:
        outcome = job_facts.FAILED if failed or status or signal else job_facts.COMPLETED
    return job_facts.Facts(
        job=JobId(job), raw_job=RawJobId(job), **_make_array_facts(job, task), user=text("owner"),
        account=text("project"), partition=text("qname"),
        name="" if record.get("jobname") in _NONE else commands.get_label(record, "jobname"),
        nodes=alone, node_count=1 if alone else None, state=ENDED,
        outcome="" if status is None and not failed else outcome,
        exit_status=status, exit_signal=signal,
        started=commands.parse_time(text("start_time")),
        ended=commands.parse_time(text("end_time")),
        work_dir=_parse_absolute_path(text("cwd")), cpus=parse_positive(text("slots")))


def _make_job_id(job: str, task: int | None) -> str:
    return f"{job}.{task}" if task and task > 0 else job


def _make_array_facts(job: str, task: int | None) -> dict[str, Any]:
    return {"array_job": job.partition(".")[0], "array_task": str(task)} if (
        task and task > 0) else {}


def _parse_absolute_path(path: str) -> str:
    return path if path.startswith("/") and path != "/dev/null" else ""
