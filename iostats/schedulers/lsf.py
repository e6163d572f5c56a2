"""
IBM Spectrum LSF, through its commands; no LSF library is needed.

Job id: "4711", or "4711[3]" for a member of an array (LSB_JOBID and LSB_JOBINDEX, 0 outside).

    LSB_DJOB_HOSTFILE    a file with a host a line, one line for each slot
    LSB_MCPU_HOSTS       HOST SLOTS HOST SLOTS ...
    LSB_HOSTS            HOST HOST ...          a name for each slot; not set for very wide jobs
    exec_host            [SLOTS*]HOST[:[SLOTS*]HOST]...

`blaunch -z "HOST HOST ..."` runs its command once on each host; -no-shell, because it is a line
for a shell otherwise.

Facts: `bjobs -a -json -o "FIELD ..."`; where bjobs has no -json (before 10.1), `-o` with a
delimiter.  A time comes without its year unless lsf.conf has LSB_DISPLAY_YEAR, and by the minute.
LSF does not say how often a job was started again.

Sources: bjobs -o, bjobs -json, blaunch(1), lsf.conf LSB_BJOBS_CONSISTENT_EXIT_CODE, "Environment
variables set for job execution", and bhist's table of termination reasons, LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from iostats.base import job_facts
from iostats.base.errors import NotReadable
from iostats.base.ids import JobId, RawJobId
from iostats.base.job_facts import ENDED, RUNNING, WAITING, Facts, parse_integer, parse_positive
from iostats.base.job_list import JobList, ListSettings
from iostats.schedulers import commands, job_environment

NAME = "lsf"
JOB_ID_VARIABLE = "LSB_JOBID"
JOB_NAME_VARIABLE = "LSB_JOBNAME"
JOB_ID_FORM = r"[1-9]\d{0,9}(?:\[\d{1,10}\])?"
COMMAND, COMMAND_RANK = "bjobs", 30
NO_LAUNCH_AT_END = False
LAUNCHES_BY_SHELL = False
NODE_FILE_VARIABLE = "LSB_DJOB_HOSTFILE"
ON_EACH_NODE = "blaunch"
CGROUPS = ("lsf/*/job.{job}.*",)    # with LSF_PROCESS_TRACKING: lsf/CLUSTER/job.4711.PID.TIME

# Last are those that a user words: one with the delimiter in it shifts none of the others.
FIELDS = ("jobid", "jobindex", "stat", "user", "queue", "project", "exit_code", "exit_reason",
          "exec_host", "start_time", "finish_time", "output_file", "sub_cwd", "job_name")
DELIMITER = "^"
STATES = {**dict.fromkeys(("PEND", "PSUSP", "WAIT", "PROV"), WAITING),
          **dict.fromkeys(("RUN", "USUSP", "SSUSP"), RUNNING),
          **dict.fromkeys(("DONE", "EXIT", "PDONE", "PERR"), ENDED)}
REASONS = {"TERM_RUNLIMIT": job_facts.TIMEOUT, "TERM_DEADLINE": job_facts.TIMEOUT,
           "TERM_MEMLIMIT": job_facts.OUT_OF_MEMORY,
           **dict.fromkeys(("TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN"),
                           job_facts.CANCELLED)}
_FORM = 'bjobs\' form, {"RECORDS": [{"JOBID": "4711", ...}]}'
_UNKNOWN, _NO_JOB = "is not found", "no job found"
_JSON = ["bjobs", "-a", "-json", "-o", " ".join(FIELDS)]
_LINES = ["bjobs", "-a", "-o", f"{' '.join(FIELDS)} delimiter='{DELIMITER}'"]
TIME_STEP_S = 60.0                  # as bjobs tells the time


def about(environ: Mapping[str, str]) -> job_environment.JobAbout:
    """Return {fact: value} from the environment of a job or a pre- or post-execution command."""
    job = job_environment.find_job(environ, JOB_ID_VARIABLE)
    index = parse_integer(environ.get("LSB_JOBINDEX"))
    hosts = (job_environment.read_host_file(environ.get("LSB_DJOB_HOSTFILE"))
             or (environ.get("LSB_MCPU_HOSTS") or "").split()[::2]
             or (environ.get("LSB_HOSTS") or "").split())
    return job_environment.drop_unknown(
        job=_make_job_id(job, index) if job else "",
        nodes=job_environment.as_list(hosts),
        user=job_environment.get_variable(environ, "LSB_JOB_EXECUSER", "LSFUSER", "LOGNAME",
                                          "USER"),
        account=job_environment.get_variable(environ, "LSB_PROJECT_NAME"),
        partition=job_environment.get_variable(environ, "LSB_QUEUE"),
        cluster=job_environment.get_variable(environ, "LSB_EXEC_CLUSTER"),
        output=_expand_path(job_environment.get_variable(environ, "LSB_OUTPUTFILE"), job, index),
        work_dir=job_environment.get_variable(environ, "LS_SUBCWD"))


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """Return one blaunch for all nodes."""
    names = job_environment.parse_node_names(nodes)
    if len(names) < 2:
        return [[]]
    return [["blaunch", "-n", "-no-shell", "-z", " ".join(names)]]


def facts(jobs: Iterable[str], run: commands.Run | None = None,
          now: float | None = None) -> dict[str, Facts]:
    """{raw job: Facts}; bjobs exits with 255 if any job is unknown, and prints the others."""
    queried = commands.check_ids(jobs)
    if not queried:
        return {}
    if now is None:
        import time
        now = time.time()
    failed: NotReadable | None = None
    for parse, command in ((parse_json, _JSON), (parse_text, _LINES)):
        status, text, wrong = commands.ask([*command, *queried], run)
        try:
            if text.strip():
                return {job: facts_of_job for job, facts_of_job in parse(text, now).items()
                        if job in queried or job.partition("[")[0] in queried}
            if _UNKNOWN in wrong:
                return {}
            raise commands.make_command_error(command, status, wrong)
        except NotReadable as error:
            failed = failed or error
    raise failed  # type: ignore[misc]                 # both ways have


def job_list(run: commands.Run | None = None, now: float | None = None) -> JobList:
    """The JobList of all jobs, with those that have ended within CLEAN_PERIOD; NotReadable."""
    from iostats.base.job_list import JobList
    if now is None:
        import time
        now = time.time()
    failed: NotReadable | None = None
    for parse, command in ((parse_json, _JSON), (parse_text, _LINES)):
        argv = [*command, "-u", "all"]
        status, text, wrong = commands.ask(argv, run)
        try:
            if not text.strip() and _NO_JOB in wrong.lower():
                return JobList([], frozenset())
            if not text.strip():
                raise commands.make_command_error(argv, status, wrong)
            return JobList([job_facts for job_facts in parse(text, now).values()
                            if job_facts.nodes and job_facts.started is not None], frozenset())
        except NotReadable as error:
            failed = failed or error
    raise failed  # type: ignore[misc]                 # both ways have


def list_settings(run: commands.Run | None = None) -> ListSettings:
    """The time that an ended job stays in `bjobs -a`; NotReadable."""
    command = ["bparams", "-a"]
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.make_command_error(command, status, wrong)
    return parse_settings(text)


def parse_settings(text: str) -> ListSettings:
    """
    The ListSettings of `bparams -a`; CLEAN_PERIOD_DONE, if set, is for jobs without an error.

    >>> parse_settings("CLEAN_PERIOD = 3600\\nCLEAN_PERIOD_DONE = 900\\n").kept_s
    900.0
    """
    from iostats.base.job_list import ListSettings
    values = [parse_integer(value.split()[0]) for line in text.splitlines()
              for name, is_one, value in [line.partition("=")]
              if is_one and name.strip() in ("CLEAN_PERIOD", "CLEAN_PERIOD_DONE") and value.strip()]
    numbers = [value for value in values if value is not None]
    return ListSettings(float(min(numbers)) if numbers else None)


def parse_json(text: str, now: float | None = None) -> dict[str, Facts]:
    """Return {job: Facts} of `bjobs -json -o`; `now`: for times without a year; NotReadable."""
    records = commands.parse_json_object(text, "bjobs -json", _FORM).get("RECORDS")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise commands.make_format_error("bjobs -json", _FORM, text)
    return _parse_all(records, now)


def parse_text(text: str, now: float | None = None) -> dict[str, Facts]:
    """Return {job: Facts} of `bjobs -o "... delimiter='^'"`, its header first; NotReadable."""
    lines = [line.rstrip("\r").split(DELIMITER, len(FIELDS) - 1)
             for line in text.split("\n") if DELIMITER in line]
    if not lines or any(len(line) != len(FIELDS) for line in lines):
        raise commands.make_format_error(
            "bjobs -o", f"lines of {len(FIELDS)} fields, with {DELIMITER} between them", text)
    names = [name.upper() for name in FIELDS]
    return _parse_all([dict(zip(names, line)) for line in lines[1:]], now)


def _parse_all(records: list[dict[str, Any]], now: float | None) -> dict[str, Facts]:
    by_job: dict[str, Facts] = {}
    for record in records:
        job = commands.get_field(record, "JOBID")
        if job and "ERROR" not in record:
            job_facts = _parse_facts(job, record, now)
            by_job.setdefault(job_facts.raw_job, job_facts)
    return by_job


def _parse_facts(job: str, record: dict[str, Any], now: float | None) -> Facts:
    def text(*names: str) -> str:
        value = commands.get_field(record, *names)
        return "" if value == "-" else value
    number_of, bracket, rest = job.partition("[")
    index = parse_integer(rest.rstrip("]")) if bracket else parse_integer(text("JOBINDEX"))
    raw = _make_job_id(number_of, index)
    slots = [part.rpartition("*") for part in text("EXEC_HOST").split(":") if part]
    hosts = [host for *_, host in slots]
    state = STATES.get(text("STAT"))
    status = signal = ended = None
    outcome = ""
    if state is ENDED:
        status, signal, outcome = _convert_end(text("STAT"), parse_integer(text("EXIT_CODE")),
                                               text("EXIT_REASON"))
        # E, L and X after it are for times to come.
        ended = commands.parse_time(text("FINISH_TIME").rstrip("ELX "), now)
    return job_facts.Facts(
        job=JobId(raw), raw_job=RawJobId(raw),
        array_job=number_of if index else "", array_task=str(index) if index else "",
        user=text("USER"), account=text("PROJ_NAME", "PROJECT"), partition=text("QUEUE"),
        name="" if record.get("JOB_NAME") == "-" else commands.get_label(record, "JOB_NAME"),
        nodes=job_environment.as_list(hosts),
        node_count=len(set(hosts)) or None, state=state, outcome=outcome, exit_status=status,
        exit_signal=signal, started=commands.parse_time(text("START_TIME").rstrip("ELX "), now),
        ended=ended, output=_expand_path(text("OUTPUT_FILE"), number_of, index),
        work_dir=text("SUB_CWD") if text("SUB_CWD").startswith("/") else "",
        cpus=parse_positive(sum(parse_integer(count) or 1 for count, *_ in slots)))


def _make_job_id(job: str, index: int | None) -> str:
    return f"{job}[{index}]" if index else job


def _convert_end(word: str, status: int | None, reason: str) -> tuple[int | None, int | None, str]:
    """(exit status, signal, outcome); LSF adds 128 to the signal that it, or someone, sent."""
    if word in ("DONE", "PDONE"):
        return 0, None, job_facts.COMPLETED
    outcome = REASONS.get(reason.partition(":")[0].strip(), job_facts.FAILED)
    if status is not None and 128 < status < 256 and reason.startswith("TERM_"):
        return 0, status - 128, outcome
    return status, None, outcome


def _expand_path(text: str, job: str, index: int | None) -> str:
    """An absolute path with %J and %I in it expanded; "" for another."""
    return (text.replace("%J", job).replace("%I", str(index or 0))
            if text.startswith("/") and text != "/dev/null" else "")
