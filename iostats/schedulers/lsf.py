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

from iostats.base import job_facts
from iostats.base.errors import NotReadable
from iostats.base.job_facts import ENDED, RUNNING, WAITING, number
from iostats.schedulers import commands, job_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from iostats.base.job_facts import Facts
    from iostats.base.job_list import JobList, ListSettings

NAME = "lsf"
JOB_ID_VARIABLE = "LSB_JOBID"
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


def about(environ: Mapping[str, str]) -> dict[str, Any]:
    """{} of what the environment of a job, or of a pre- or post-execution command, has."""
    job = job_environment.job_in(environ, JOB_ID_VARIABLE)
    index = number(environ.get("LSB_JOBINDEX"))
    hosts = (job_environment.host_file(environ.get("LSB_DJOB_HOSTFILE"))
             or (environ.get("LSB_MCPU_HOSTS") or "").split()[::2]
             or (environ.get("LSB_HOSTS") or "").split())
    return job_environment.known_only(
        job=_job(job, index) if job else "",
        nodes=job_environment.as_list(hosts),
        user=job_environment.word(environ, "LSB_JOB_EXECUSER", "LSFUSER", "LOGNAME", "USER"),
        account=job_environment.word(environ, "LSB_PROJECT_NAME"),
        partition=job_environment.word(environ, "LSB_QUEUE"),
        cluster=job_environment.word(environ, "LSB_EXEC_CLUSTER"),
        output=_path(job_environment.word(environ, "LSB_OUTPUTFILE"), job, index),
        work_dir=job_environment.word(environ, "LS_SUBCWD"))


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """One blaunch for all."""
    wanted = job_environment.node_names(nodes)
    if len(wanted) < 2:
        return [[]]
    return [["blaunch", "-n", "-no-shell", "-z", " ".join(wanted)]]


def facts(jobs: Iterable[str], run: commands.Run | None = None,
          now: float | None = None) -> dict[str, Facts]:
    """{raw job: Facts}; for one job that it does not know bjobs exits with 255, and tells all."""
    asked = commands.askable(jobs)
    if not asked:
        return {}
    if now is None:
        import time
        now = time.time()
    failed: NotReadable | None = None
    for parse, command in ((parse_json, _JSON), (parse_text, _LINES)):
        status, text, wrong = commands.ask([*command, *asked], run)
        try:
            if text.strip():
                return {job: one for job, one in parse(text, now).items()
                        if job in asked or job.partition("[")[0] in asked}
            if _UNKNOWN in wrong:
                return {}
            raise commands.refused(command, status, wrong)
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
                raise commands.refused(argv, status, wrong)
            return JobList([one for one in parse(text, now).values()
                            if one.nodes and one.started is not None], frozenset())
        except NotReadable as error:
            failed = failed or error
    raise failed  # type: ignore[misc]                 # both ways have


def list_settings(run: commands.Run | None = None) -> ListSettings:
    """How long an ended job is in `bjobs -a`; NotReadable."""
    command = ["bparams", "-a"]
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.refused(command, status, wrong)
    return parse_settings(text)


def parse_settings(text: str) -> ListSettings:
    """
    The ListSettings of `bparams -a`: CLEAN_PERIOD_DONE, where there is one, is of jobs without an
    error.

    >>> parse_settings("CLEAN_PERIOD = 3600\\nCLEAN_PERIOD_DONE = 900\\n").kept_s
    900.0
    """
    from iostats.base.job_list import ListSettings
    found = [number(value.split()[0]) for line in text.splitlines()
             for name, is_one, value in [line.partition("=")]
             if is_one and name.strip() in ("CLEAN_PERIOD", "CLEAN_PERIOD_DONE") and value.strip()]
    known = [value for value in found if value is not None]
    return ListSettings(float(min(known)) if known else None)


def parse_json(text: str, now: float | None = None) -> dict[str, Facts]:
    """{job: Facts} of `bjobs -json -o`; `now`: for times without a year; NotReadable."""
    records = commands.json_object(text, "bjobs -json", _FORM).get("RECORDS")
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise commands.not_of_the_form("bjobs -json", _FORM, text)
    return _all(records, now)


def parse_text(text: str, now: float | None = None) -> dict[str, Facts]:
    """{job: Facts} of `bjobs -o "... delimiter='^'"`, its header first; NotReadable."""
    lines = [line.rstrip("\r").split(DELIMITER, len(FIELDS) - 1)
             for line in text.split("\n") if DELIMITER in line]
    if not lines or any(len(line) != len(FIELDS) for line in lines):
        raise commands.not_of_the_form(
            "bjobs -o", f"lines of {len(FIELDS)} fields, with {DELIMITER} between them", text)
    names = [name.upper() for name in FIELDS]
    return _all([dict(zip(names, line)) for line in lines[1:]], now)


def _all(records: list[dict[str, Any]], now: float | None) -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    for record in records:
        job = commands.field(record, "JOBID")
        if job and "ERROR" not in record:
            one = _facts(job, record, now)
            found.setdefault(one.raw_job, one)
    return found


def _facts(job: str, record: dict[str, Any], now: float | None) -> Facts:
    def text(*names: str) -> str:
        value = commands.field(record, *names)
        return "" if value == "-" else value
    number_of, bracket, rest = job.partition("[")
    index = number(rest.rstrip("]")) if bracket else number(text("JOBINDEX"))
    raw = _job(number_of, index)
    hosts = [part.rpartition("*")[2] for part in text("EXEC_HOST").split(":") if part]
    state = STATES.get(text("STAT"))
    status = signal = ended = None
    outcome = ""
    if state is ENDED:
        status, signal, outcome = _end(text("STAT"), number(text("EXIT_CODE")), text("EXIT_REASON"))
        # E, L and X after it are for times to come.
        ended = commands.seconds(text("FINISH_TIME").rstrip("ELX "), now)
    return job_facts.Facts(
        job=raw, raw_job=raw,
        array_job=number_of if index else "", array_task=str(index) if index else "",
        user=text("USER"), account=text("PROJ_NAME", "PROJECT"), partition=text("QUEUE"),
        name="" if record.get("JOB_NAME") == "-" else commands.label(record, "JOB_NAME"),
        nodes=job_environment.as_list(hosts),
        node_count=len(set(hosts)) or None, state=state, outcome=outcome, exit_status=status,
        exit_signal=signal, started=commands.seconds(text("START_TIME").rstrip("ELX "), now),
        ended=ended, output=_path(text("OUTPUT_FILE"), number_of, index),
        work_dir=text("SUB_CWD") if text("SUB_CWD").startswith("/") else "")


def _job(job: str, index: int | None) -> str:
    return f"{job}[{index}]" if index else job


def _end(word: str, status: int | None, reason: str) -> tuple[int | None, int | None, str]:
    """(exit status, signal, outcome); LSF adds 128 to the signal that it, or someone, sent."""
    if word in ("DONE", "PDONE"):
        return 0, None, job_facts.COMPLETED
    outcome = REASONS.get(reason.partition(":")[0].strip(), job_facts.FAILED)
    if status is not None and 128 < status < 256 and reason.startswith("TERM_"):
        return 0, status - 128, outcome
    return status, None, outcome


def _path(text: str, job: str, index: int | None) -> str:
    """An absolute path with %J and %I in it expanded; "" for another."""
    return (text.replace("%J", job).replace("%I", str(index or 0))
            if text.startswith("/") and text != "/dev/null" else "")
