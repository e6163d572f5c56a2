"""
PBS Professional, OpenPBS and Torque, through their commands; no PBS library is needed.

Job id: "4711.pbs01", or "4711[3].pbs01" for a member of an array ("4711[].pbs01" is the array).

    $PBS_NODEFILE    a host a line, one line for each MPI process of the job
    exec_host        HOST/SLOT[*CPUS][+HOST/SLOT[*CPUS]]...       Torque: HOST/0-3+HOST/0...

`pbsdsh -- COMMAND` runs it once for each line of $PBS_NODEFILE; with several lines a node there is
one `pbsdsh -n INDEX` for each node's first line.  (`pbsdsh -u`, once for each host, is Torque's
alone.)  It passes no environment on.

Facts: `qstat -x -f -F json`; of jobs that are not in its answer, `qstat -x -f` and `qstat -f`, one
job at a time: OpenPBS has printed the first of several jobs alone (issue 2672), and environments
that make its JSON none (issue 2541), and Torque has neither -F nor, in this sense, -x.

Sources: qstat(1B), pbsdsh(1B), pbs_job_attributes(7B) of OpenPBS 20 to 23; JOB_EXEC_KILL_WALLTIME
and JOB_SUBSTATE_TERMINATED in job.h; qstat(1B) and job exit statuses of Torque 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from iostats.base import job_facts
from iostats.base.errors import NotReadable, UsageError
from iostats.base.ids import JobId, RawJobId
from iostats.base.job_facts import ENDED, RUNNING, WAITING, Facts, parse_integer, parse_positive
from iostats.base.job_list import JobList
from iostats.schedulers import commands, job_environment

NAME = "pbs"
JOB_ID_VARIABLE = "PBS_JOBID"
JOB_NAME_VARIABLE = "PBS_JOBNAME"
JOB_ID_FORM = r"\d+(?:\[\d*\])?(?:\.[A-Za-z][\w.-]*)?"
COMMAND, COMMAND_RANK = "qstat", 60  # after Grid Engine, which has a qstat as well
NO_LAUNCH_AT_END = False
LAUNCHES_BY_SHELL = False
NODE_FILE_VARIABLE = "PBS_NODEFILE"
ON_EACH_NODE = "pbsdsh --"
CGROUPS = tuple(f"{service}/{jobs}/{{job}}" for service in ("pbs_jobs.service", "pbspro.service")
                for jobs in ("jobid", "jobs"))                    # v1, v2: its cgroups hook

LIST_COMMANDS = (("qstat", "-t", "-f", "-F", "json"), ("qstat", "-t", "-f"))
_WHOLE_HOSTS = "exclhost"            # in place=scatter:exclhost; excl is of vnodes
COMMANDS = (("qstat", "-x", "-f", "-F", "json"), ("qstat", "-x", "-f"), ("qstat", "-f"))
# E: the job's processes have ended, its epilogues run.  B: an array of which some run.
# M, moved to another server, is none of ours any more; U and S wait with their processes there.
STATES = {**dict.fromkeys("QHWT", WAITING), **dict.fromkeys("RSUB", RUNNING),
          **dict.fromkeys("EFXC", ENDED)}
_KILLED_AT_WALLTIME, _TORQUE_KILLED_AT_WALLTIME = -29, -11
_TERMINATED = 91                     # substate of a finished job that qdel ended
_SIGNAL = 256                        # and the number of the signal
_UNKNOWN = "unknown job"
_FORM = 'qstat\'s form, {"Jobs": {"4711.pbs01": {...}}}'


def about(environ: Mapping[str, str]) -> job_environment.JobAbout:
    """Return {} of the facts in the environment of a job, or of our hook."""
    job = job_environment.find_job(environ, JOB_ID_VARIABLE)
    return job_environment.drop_unknown(
        job=job,
        nodes=job_environment.as_list(job_environment.read_host_file(environ.get("PBS_NODEFILE"))),
        user=job_environment.get_variable(environ, "LOGNAME", "USER", "PBS_O_LOGNAME"),
        account=job_environment.get_variable(environ, "PBS_ACCOUNT"),
        partition=job_environment.get_variable(environ, "PBS_QUEUE", "PBS_O_QUEUE"),
        cluster=job.partition(".")[2],
        work_dir=job_environment.get_variable(environ, "PBS_O_WORKDIR"))


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """Return [argv prefix]: one pbsdsh for all nodes, or one for each; UsageError for other nodes.
    """
    names = job_environment.parse_node_names(nodes)
    if len(names) < 2:
        return [[]]
    lines = job_environment.read_host_file(environ.get("PBS_NODEFILE"))
    if len(lines) == len(names) == len({_strip_domain(line) for line in lines}):
        return [["pbsdsh", "--"]]
    first: dict[str, int] = {}
    for index, line in enumerate(lines):
        for name in (line, _strip_domain(line)):
            first.setdefault(name, index)
    commands_here = []
    for name in names:
        place = first.get(name, first.get(_strip_domain(name)))
        if place is None:
            raise UsageError(f"expected nodes of this job, got {name[:60]!r}, which is not in "
                             f"PBS_NODEFILE: {environ.get('PBS_NODEFILE') or 'not set'}")
        commands_here.append(["pbsdsh", "-n", str(place), "--"])
    return commands_here


def _strip_domain(name: str) -> str:
    return name.partition(".")[0]


def facts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """Return {raw job: Facts}; see above which command is asked for what."""
    by_job: dict[str, Facts] = {}
    unknown: set[str] = set()
    failed: NotReadable | None = None
    left = commands.check_ids(jobs)
    for command in COMMANDS:
        json = "json" in command
        for part in [left] if json else [[job] for job in left]:
            if not part:
                continue
            argv = [*command, *part]
            status, text, wrong = commands.ask(argv, run)
            try:
                if text.strip():
                    parsed = (parse_json if json else parse_text)(text)
                    by_job.update((job, job_facts) for job, job_facts in parsed.items()
                                  if any(_is(job, name) for name in part))
                elif status and _UNKNOWN in wrong.lower():
                    unknown.update(part if len(part) == 1 else ())
                elif status:
                    raise commands.make_command_error(argv, status, wrong)
            except NotReadable as error:
                failed = failed or error
        left = [job for job in left if not any(_is(known, job) for known in by_job)]
        if not left:
            return by_job
    if failed and not by_job and not unknown.issuperset(left):
        raise failed
    return by_job


def job_list(run: commands.Run | None = None) -> JobList:
    """
    The JobList of all jobs that have not ended; NotReadable.  What has ended is in it only with
    `-x`, and then for weeks, so such a list proves of no time that nobody else was there; a job's
    own placement (place=exclhost) does.
    """
    failed: NotReadable | None = None
    for command, parse in ((LIST_COMMANDS[0], parse_job_list), (LIST_COMMANDS[1], parse_job_text)):
        status, text, wrong = commands.ask(command, run)
        try:
            if status:
                raise commands.make_command_error(command, status, wrong)
            return parse(text)
        except NotReadable as error:
            failed = failed or error
    raise failed  # type: ignore[misc]                 # both ways have


def parse_job_list(text: str) -> JobList:
    """The JobList of `qstat -t -f -F json`; NotReadable."""
    records = _parse_json_records(text)
    return _make_job_list(parse_json(text), {
        job: _get_placement(record, record.get("Resource_List"), "place")
        for job, record in records.items()})


def parse_job_text(text: str) -> JobList:
    """Return {raw job: Facts} of `qstat -t -f`, empty without jobs."""
    records = _parse_records(text) if text.strip() else {}
    return _make_job_list({job: _parse_facts(job, record) for job, record in records.items()}, {
        job: _get_placement(record, record) for job, record in records.items()})


def _get_placement(record: dict[str, Any], resources: Any,
                   name: str = "Resource_List.place") -> str:
    """The placement of a job's nodes; "" for a suspended job, as other jobs use them then."""
    if commands.get_field(record, "job_state") == "S" or not isinstance(resources, dict):
        return ""
    return commands.get_field(resources, name)


def _make_job_list(jobs: dict[str, Facts], places: Mapping[str, str]) -> JobList:
    from iostats.base.job_list import JobList
    running = [job_facts for job_facts in jobs.values() if job_facts.state is RUNNING
               and job_facts.nodes and job_facts.started is not None]
    return JobList(running, frozenset(job for job, place in places.items()
                                      if _WHOLE_HOSTS in place.split(":")))


def _is(job: str, id: str) -> bool:
    return job == id or job.startswith(id + ".")


def parse_json(text: str) -> dict[str, Facts]:
    """Return {job: Facts} of `qstat -x -f -F json`; NotReadable."""
    return {job: _parse_facts(job, record) for job, record in _parse_json_records(text).items()
            if job.isprintable() and job}


def _parse_json_records(text: str) -> dict[str, dict[str, object]]:
    jobs = commands.parse_json_object(text, "qstat -F json", _FORM).get("Jobs", {})
    if not isinstance(jobs, dict) or not all(isinstance(record, dict) for record in jobs.values()):
        raise commands.make_format_error("qstat -F json", _FORM, text)
    return jobs


def parse_text(text: str) -> dict[str, Facts]:
    """
    Return {job: Facts} of `qstat -f`; NotReadable.

        Job Id: 4711.pbs01
            Job_Name = solve
            Variable_List = PBS_O_HOME=/home/alice,PBS_O_LANG=C,
        <tab>PBS_O_LOGNAME=alice                            a long value goes on after a tab

    The first line of a name counts: the job's environment, which its user writes, comes late.
    """
    return {job: _parse_facts(job, record) for job, record in _parse_records(text).items()
            if job and job.isprintable()}


def _parse_records(text: str) -> dict[str, dict[str, str]]:
    """Return {job: {attribute: value}} of `qstat -f`; NotReadable."""
    jobs: dict[str, dict[str, str]] = {}
    record: dict[str, str] | None = None
    name = ""
    for line in text.split("\n"):
        line = line.rstrip("\r")
        if line.startswith(("Job Id:", "Job:")):
            record, name = {}, ""
            jobs.setdefault(line.partition(":")[2].strip(), record)
        elif record is not None and line.startswith("\t") and name:
            record[name] += line[1:]
        elif record is not None and line.startswith("    ") and " = " in line:
            name, _, value = line.strip().partition(" = ")
            if name in record:
                name = ""
            else:
                record[name] = value
    if not jobs:
        raise commands.make_format_error("qstat -f", '"Job Id: ..." and its attributes', text)
    return jobs


def _parse_facts(job: str, record: dict[str, Any]) -> Facts:
    def text(*names: str) -> str:
        return commands.get_field(record, *names)
    array, index = _split_array_job(job)
    hosts = _parse_hosts(text("exec_host"))
    state = STATES.get(text("job_state"))
    status, signal, outcome = (None, None, "") if state is not ENDED else _convert_end(record)
    runs = parse_integer(record.get("run_count", record.get("start_count")))
    started = commands.parse_time(text("stime", "start_time"))
    return job_facts.Facts(
        job=JobId(job), raw_job=RawJobId(job), array_job=array, array_task=index,
        user=text("euser", "Job_Owner").partition("@")[0],
        account=text("Account_Name", "Account") or _parse_project(text("project")),
        partition=text("queue"), name=commands.get_label(record, "Job_Name"),
        cluster=text("server"),
        nodes=job_environment.as_list(hosts), node_count=len(set(hosts)) or None,
        state=state, outcome=outcome, exit_status=status, exit_signal=signal,
        restarts=max(0, (runs or 1) - 1), started=started,
        ended=_compute_end(record, started) if state is ENDED else None,
        output=_expand_path(text("Output_Path"), index), work_dir=_get_work_dir(record),
        comments={"SystemComment": text("comment")} if text("comment") else {},
        tasks=_get_resource(record, "mpiprocs"), cpus=_get_resource(record, "ncpus"))


def _split_array_job(job: str) -> tuple[str, str]:
    """("4711", "3") of 4711[3].pbs01; ("", "") of other jobs, ("4711", "") of the array itself."""
    number_of, bracket, rest = job.partition("[")
    return (number_of, rest.partition("]")[0]) if bracket else ("", "")


def _parse_hosts(text: str) -> list[str]:
    """Return [host] of an exec_host."""
    return list(dict.fromkeys(part.partition("/")[0] for part in text.split("+") if part))


def _parse_project(text: str) -> str:
    return "" if text == "_pbs_project_default" else text


def _convert_end(record: dict[str, Any]) -> tuple[int | None, int | None, str]:
    """Return (exit status, signal, outcome) of a job that has ended; ("") while it is not known."""
    torque = "exit_status" in record
    status = parse_integer(commands.get_field(record, "Exit_status", "exit_status"))
    if parse_integer(commands.get_field(record, "substate")) == _TERMINATED:
        outcome = job_facts.CANCELLED
    elif status is None:
        return None, None, ""
    elif status == (_TORQUE_KILLED_AT_WALLTIME if torque else _KILLED_AT_WALLTIME):
        outcome = job_facts.TIMEOUT
    else:
        outcome = job_facts.FAILED if status else job_facts.COMPLETED
    if status is not None and _SIGNAL < status < 2 * _SIGNAL:
        return 0, status - _SIGNAL, outcome
    return status, None, outcome


def _compute_end(record: dict[str, Any], started: float | None) -> float | None:
    """The end of a job; if PBS does not report it, its start plus its walltime."""
    ended = commands.parse_time(commands.get_field(record, "obittime", "comp_time"))
    if ended is not None or started is None:
        return ended
    parts = [parse_integer(part)
             for part in _find_value(record, "resources_used", "walltime").split(":")]
    if len(parts) != 3 or None in parts:
        return None
    hours, minutes, seconds_ = (part or 0 for part in parts)
    return started + 3600 * hours + 60 * minutes + seconds_


def _get_resource(record: dict[str, Any], name: str) -> int | None:
    """The amount of a resource on all nodes of the job, as requested."""
    return parse_positive(_find_value(record, "Resource_List", name))


def _find_value(record: dict[str, Any], group: str, name: str) -> str:
    """A value of a group of attributes: JSON has them as an object, lines as GROUP.NAME."""
    there = record.get(group)
    return (commands.get_field(there, name) if isinstance(there, dict) else
            commands.get_field(record, f"{group}.{name}"))


def _expand_path(text: str, index: str) -> str:
    """The path of "[HOST:]PATH"; "" if it contains something that PBS would expand."""
    host, colon, path = text.partition(":")
    path = (path if colon and "/" not in host else text).replace("^array_index^", index or "^")
    return path if path.startswith("/") and "^" not in path else ""


def _get_work_dir(record: dict[str, Any]) -> str:
    """PBS_O_WORKDIR of the job's environment, which is a list of NAME=VALUE or an object."""
    variables = record.get("Variable_List")
    if isinstance(variables, dict):
        return commands.get_field(variables, "PBS_O_WORKDIR")
    for part in str(variables or "").split(","):
        name, _, value = part.partition("=")
        if name == "PBS_O_WORKDIR" and value.isprintable():
            return value
    return ""
