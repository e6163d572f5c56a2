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

from iostats.base import job_facts
from iostats.base.job_facts import ENDED, RUNNING, WAITING, number
from iostats.schedulers import commands, job_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from iostats.base.job_facts import Facts

NAME = "sge"
JOB_ID_VARIABLE = "JOB_ID"
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
    """JOB_ID alone is not enough: it is anybody's name."""
    return bool(environ.get(JOB_ID_VARIABLE) and environ.get("SGE_ROOT"))


def about(environ: Mapping[str, str]) -> dict[str, Any]:
    """{} of what the environment of a job, a prolog or an epilog has."""
    job, task = job_environment.job_in(environ, JOB_ID_VARIABLE), number(environ.get("SGE_TASK_ID"))
    hosts = (job_environment.host_file(environ.get("PE_HOSTFILE"))
             or [job_environment.word(environ, "HOSTNAME", "HOST")])
    restarted = number(environ.get("RESTARTED"))
    return job_environment.known_only(
        job=_job(job, task) if job else "",
        attempt=None if restarted is None else int(restarted > 0),
        nodes=job_environment.as_list(hosts) if job else "",
        user=job_environment.word(environ, "LOGNAME", "USER", "SGE_O_LOGNAME"),
        partition=job_environment.word(environ, "QUEUE"),
        cluster=job_environment.word(environ, "SGE_CLUSTER_NAME"),
        output=_absolute(job_environment.word(environ, "SGE_STDOUT_PATH")),
        work_dir=_absolute(job_environment.word(environ, "SGE_O_WORKDIR")))


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """Just here for the job's first host, a qrsh for each of the others."""
    wanted = job_environment.node_names(nodes)
    if len(wanted) < 2:
        return [[]]
    hosts = job_environment.host_file(environ.get("PE_HOSTFILE"))
    first = hosts[0] if hosts else wanted[0]
    return [[] if name == first else ["qrsh", "-inherit", "-nostdin", "-noshell", name]
            for name in wanted]


def facts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """{raw job: Facts}; of an array's id, of all its tasks that are known."""
    asked = commands.askable(jobs)
    if not asked:
        return {}
    status, text, wrong = commands.ask(_LIST, run)
    if status:
        raise commands.refused(_LIST, status, wrong)
    found = {job: one for job, one in parse_xml(text).items()
             if job in asked or one.array_job in asked}
    for job in asked:
        if job in found:
            continue
        number_of, dot, task = job.partition(".")
        argv = ["qacct", "-j", number_of, *(["-t", task] if dot else [])]
        status, text, wrong = commands.ask(argv, run)
        if not status:
            for one in parse_qacct(text).values():
                if job in (one.job, one.array_job):
                    found.setdefault(one.job, one)
        elif _UNKNOWN not in wrong:
            raise commands.refused(argv, status, wrong)
    return found


def parse_xml(text: str) -> dict[str, Facts]:
    """{job: Facts} of `qstat -g t -xml`; NotReadable."""
    from xml.etree import ElementTree
    try:
        entries = list(ElementTree.fromstring(text).iter("job_list"))
    except (ElementTree.ParseError, ValueError):          # ValueError: what no XML can have
        raise commands.not_of_the_form("qstat -xml", "<job_info> with <job_list>s",
                                         text) from None
    found: dict[str, Facts] = {}
    for entry in entries:
        record = {child.tag: child.text or "" for child in entry}
        job, task = commands.field(record, "JB_job_number"), number(record.get("tasks"))
        if not job:
            continue
        job = _job(job, task)
        one = _of_the_queue(job, task, record)
        if job in found:                                  # another host of the same task
            one = _together(found[job], one)
        found[job] = one
    return found


def _of_the_queue(job: str, task: int | None, record: dict[str, str]) -> Facts:
    letters = commands.field(record, "state")
    queue, _, host = commands.field(record, "queue_name").partition("@")
    waits = "q" in letters or not letters
    return job_facts.Facts(
        job=job, raw_job=job, **_array(job, task),
        user=commands.field(record, "JB_owner"), partition=queue,
        name=commands.label(record, "JB_name"),
        nodes=job_environment.as_list([host] if host else []),
        node_count=1 if host else None, state=WAITING if waits else RUNNING,
        restarts=int("R" in letters),
        started=None if waits else commands.seconds(commands.field(record, "JAT_start_time")))


def _together(one: Facts, other: Facts) -> Facts:
    """Two entries of one task: the first, the master's, with the hosts of both."""
    hosts = [host for text in (one.nodes, other.nodes) for host in text.split(",") if host]
    return one._replace(nodes=job_environment.as_list(hosts), node_count=len(set(hosts)) or None)


def parse_qacct(text: str) -> dict[str, Facts]:
    """
    {job: Facts} of `qacct -j`; NotReadable.

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
        raise commands.not_of_the_form("qacct -j", "a line of === and a jobnumber", text)
    by_job: dict[str, list[dict[str, str]]] = {}
    for record in records:
        job = commands.field(record, "jobnumber")
        if job and commands.field(record, "pe_taskid") in _NONE:        # else a qrsh -inherit
            by_job.setdefault(_job(job, number(record.get("taskid"))), []).append(record)
    found: dict[str, Facts] = {}
    for job, entries in by_job.items():
        followed = [at for at, record in enumerate(entries) if _failed(record) in _RUN_AGAIN]
        last_run = entries[followed[-1] + 1:] if followed else entries
        if not last_run:                                  # it goes on, or is not told yet
            continue
        # Of a parallel job without pe_taskid: its own entry spans those of its tasks.
        own = max(enumerate(last_run), key=lambda one: (_lasted(one[1]), one[0]))[1]
        # As in `about`, where nothing tells a third run from a second.
        found[job] = _of_the_accounting(job, number(own.get("taskid")), own)._replace(
            restarts=int(bool(followed)))
    return found


def _failed(record: dict[str, str]) -> int | None:
    return number(commands.field(record, "failed").partition(":")[0])


def _lasted(record: dict[str, str]) -> float:
    """Seconds; -1 for an entry of what never started."""
    began, over = (commands.seconds(commands.field(record, name))
                   for name in ("start_time", "end_time"))
    return -1.0 if began is None or over is None else over - began


def _of_the_accounting(job: str, task: int | None, record: dict[str, str]) -> Facts:
    def text(name: str) -> str:
        value = commands.field(record, name)
        return "" if value in _NONE else value
    status, failed = number(text("exit_status").partition(" ")[0]), _failed(record)
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
        job=job, raw_job=job, **_array(job, task), user=text("owner"),
        account=text("project"), partition=text("qname"),
        name="" if record.get("jobname") in _NONE else commands.label(record, "jobname"),
        nodes=alone, node_count=1 if alone else None, state=ENDED,
        outcome="" if status is None and not failed else outcome,
        exit_status=status, exit_signal=signal,
        started=commands.seconds(text("start_time")), ended=commands.seconds(text("end_time")),
        work_dir=_absolute(text("cwd")))


def _job(job: str, task: int | None) -> str:
    return f"{job}.{task}" if task and task > 0 else job


def _array(job: str, task: int | None) -> dict[str, str]:
    return {"array_job": job.partition(".")[0], "array_task": str(task)} if (
        task and task > 0) else {}


def _absolute(path: str) -> str:
    return path if path.startswith("/") and path != "/dev/null" else ""
