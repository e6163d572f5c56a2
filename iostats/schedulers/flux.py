"""
Flux, through its commands; no Flux library is needed.

Job id: F58 with an ASCII f, "fuZZybuNNy".  Flux prints it with an ƒ or an f, by the locale, and as
a number; here it is always the same text (RFC 19: base 58, the digits of Bitcoin, after the ƒ).

In a batch job there are two: the tasks' own (FLUX_JOB_ID), new with each `flux run`, and that of
the batch job (FLUX_ENCLOSING_ID; the script has no other), which prologs see and users wait for.
That one is the job.

`flux exec` runs a command once on each broker, which is once on each node, of one's own
instance; with `-j JOB` on the nodes of a job.  The nodes are in no variable: `list_nodes` asks.

Facts: `flux jobs --json JOB...`; before flux-core 0.49, `flux jobs -n -o FORMAT`.

Sources: flux-environment(7), flux-exec(1), flux-jobs(1), flux-hostlist(1) of flux-core 0.78.
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

NAME = "flux"
JOB_ID_VARIABLE = "FLUX_JOB_ID"
JOB_ID_FORM = "(?:\u0192|f)[1-9A-HJ-NP-Za-km-z]{5,}|0x[0-9a-f]+|\\d{5,}"
COMMAND, COMMAND_RANK = "flux", 40
NO_LAUNCH_AT_END = False
LAUNCHES_BY_SHELL = False
ON_EACH_NODE = "flux exec"

_ENCLOSING = "FLUX_ENCLOSING_ID"
_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LARGEST = 2**64 - 1
# The name is last, it alone can have the delimiter in it; a field that a release lacks would
# fail the whole command, so these are the fields of all of them.
FIELDS = ("id.f58", "userid", "username", "state", "result", "returncode", "nnodes", "nodelist",
          "t_run", "t_cleanup", "name")
DELIMITER = "\t"
STATES = {**dict.fromkeys(("NEW", "DEPEND", "PRIORITY", "SCHED"), WAITING), "RUN": RUNNING,
          **dict.fromkeys(("CLEANUP", "INACTIVE"), ENDED)}
RESULTS = {"CANCELED": job_facts.CANCELLED}
_STATE_BITS = {1: "NEW", 2: "DEPEND", 4: "PRIORITY", 8: "SCHED", 16: "RUN", 32: "CLEANUP",
               64: "INACTIVE"}
_RESULT_BITS = {1: "COMPLETED", 2: "FAILED", 4: "CANCELED", 8: "TIMEOUT"}
_NEVER_STARTED = -128
_KEPT_S = 600.0
_FORM = 'flux jobs\' form, {"id": ..., "state": ...} or {"jobs": [...]}'


def is_here(environ: Mapping[str, str]) -> bool:
    """True also in a batch job's script, which has no FLUX_JOB_ID."""
    return bool(environ.get(_ENCLOSING) or environ.get(JOB_ID_VARIABLE))


def about(environ: Mapping[str, str]) -> job_environment.JobAbout:
    """Return {} of the facts in the environment of a job, its script or a prolog."""
    job = (job_environment.find_job(environ, _ENCLOSING)
           or job_environment.find_job(environ, JOB_ID_VARIABLE))
    nodes = job_environment.get_variable(environ, "FLUX_JOB_NODELIST")
    uid = parse_integer(environ.get("FLUX_JOB_USERID"))
    user = "" if uid is not None else job_environment.get_variable(environ, "LOGNAME", "USER")
    return job_environment.drop_unknown(
        job=canonical(job), nodes=job_environment.check_node_list(nodes), user=user,
        uid=uid if uid is not None and uid >= 0 else None)


def list_nodes(environ: Mapping[str, str], run: commands.Run | None = None) -> str:
    """The job's node list, in its script from `flux getattr hostlist`; "" if unknown."""
    nodes = about(environ).get("nodes", "")
    if nodes or not environ.get(_ENCLOSING):
        return nodes
    status, text, _ = commands.ask(["flux", "getattr", "hostlist"], run)
    return "" if status else job_environment.check_node_list(text.strip())


def launchers(environ: Mapping[str, str], nodes: str | Iterable[str]) -> list[list[str]]:
    """Return one flux exec for all nodes."""
    if len(job_environment.parse_node_names(nodes)) == 1:
        return [[]]
    job = about(environ).get("job", "")
    if not job:
        return [[]]
    inside = job_environment.find_job(environ, _ENCLOSING)
    return [["flux", "exec", "-n", *([] if inside else ["-j", job]), "--"]]


def canonical(job: str) -> str:
    """
    Return `job` in its usual form; other texts are returned unchanged.

    >>> canonical("6731191091817518"), canonical("ƒuZZybuNNy"), canonical("0x17e9fb8df16c2e")
    ('fuZZybuNNy', 'fuZZybuNNy', 'fuZZybuNNy')
    """
    if job.startswith("ƒ") and all(c in _DIGITS for c in job[1:]):
        return "f" + job[1:]
    try:
        if job.isascii() and job.isdigit() and len(job) < 21:
            value = int(job)
        elif job.startswith("0x") and len(job) < 19:
            value = int(job, 16)
        elif len(job) == 19 and job.count(".") == 3:                   # dothex
            value = int(job.replace(".", ""), 16)
        else:
            return job
    except ValueError:
        return job
    return _format_f58(value) if value <= _LARGEST else job


def _format_f58(value: int) -> str:
    text = ""
    while value:
        value, digit = divmod(value, 58)
        text = _DIGITS[digit] + text
    return "f" + (text or _DIGITS[0])


def facts(jobs: Iterable[str], run: commands.Run | None = None) -> dict[str, Facts]:
    """Return {raw job: Facts}; jobs unknown to Flux are left out."""
    queried = [canonical(job) for job in commands.check_ids(jobs)]
    if not queried:
        return {}
    failed: NotReadable | None = None
    line = DELIMITER.join("{%s}" % name for name in FIELDS)
    for parse, command in ((parse_json, ["flux", "jobs", "--json"]),
                           (parse_text, ["flux", "jobs", "-n", "-o", line])):
        status, text, wrong = commands.ask([*command, *queried], run)
        try:
            if text.strip():
                return {job: facts_of_job for job, facts_of_job in parse(text).items()
                        if job in queried}
            if "unknown" in wrong.lower() and "unrecognized" not in wrong.lower():
                return {}
            raise commands.make_command_error(command, status, wrong)
        except NotReadable as error:
            failed = failed or error
    raise failed  # type: ignore[misc]                 # both ways have


def job_list(run: commands.Run | None = None, now: float | None = None) -> JobList:
    """
    The JobList of all jobs of this instance, with those that have ended within ten minutes;
    NotReadable.  Needs flux-core 0.49.
    """
    from iostats.base.job_list import JobList
    if now is None:
        import time
        now = time.time()
    command = ["flux", "jobs", "--json", "-A", "--count=1000000", f"--since={now - _KEPT_S:.0f}",
               "--filter=running,inactive"]
    status, text, wrong = commands.ask(command, run)
    if status:
        raise commands.make_command_error(command, status, wrong)
    return JobList([job_facts for job_facts in parse_json(text).values()
                    if job_facts.nodes and job_facts.started is not None], frozenset())


def list_settings(run: commands.Run | None = None) -> ListSettings:
    """The time that an ended job stays in the list; unknown if a site purges jobs earlier."""
    from iostats.base.job_list import ListSettings
    for limit in ("age", "num"):
        status, text, _ = commands.ask(["flux", "config", "get", "--default=",
                                        f"job-manager.inactive-{limit}-limit"], run)
        if status or (text.strip() and not (limit == "age" and text.strip()[-1:] in "hd")):
            return ListSettings()
    return ListSettings(_KEPT_S)


def parse_json(text: str) -> dict[str, Facts]:
    """{job: Facts} of `flux jobs --json`: one job's object, or {"jobs": [...]}; NotReadable."""
    parsed = commands.parse_json_object(text, "flux jobs --json", _FORM)
    records = parsed.get("jobs", [parsed] if "id" in parsed else None)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise commands.make_format_error("flux jobs --json", _FORM, text)
    return _parse_all(records)


def parse_text(text: str) -> dict[str, Facts]:
    """Return {job: Facts} of `flux jobs -n -o` with our FIELDS; NotReadable."""
    records = []
    for line in text.rstrip("\n").split("\n"):
        values = line.split(DELIMITER, len(FIELDS) - 1)
        if len(values) != len(FIELDS):
            raise commands.make_format_error("flux jobs -o", f"{len(FIELDS)} fields", line)
        records.append(dict(zip(FIELDS, values), id=values[0]))
    return _parse_all(records)


def _parse_all(records: list[dict[str, Any]]) -> dict[str, Facts]:
    by_job: dict[str, Facts] = {}
    for record in records:
        job = canonical(commands.get_field(record, "id"))
        if job:
            by_job.setdefault(job, _parse_facts(job, record))
    return by_job


def _parse_facts(job: str, record: dict[str, Any]) -> Facts:
    def text(*names: str) -> str:
        return commands.get_field(record, *names)
    word, result = record.get("state"), record.get("result")
    state = STATES.get(_STATE_BITS.get(word, "") if isinstance(word, int) else text("state"))
    result = _RESULT_BITS.get(result, "") if isinstance(result, int) else text("result")
    status = signal = None
    if state is ENDED:
        status, signal = _convert_end(parse_integer(record.get("waitstatus")),
                                      parse_integer(record.get("returncode")))
    uid = parse_integer(record.get("userid"))
    cwd = text("cwd")
    return job_facts.Facts(
        job=JobId(job), raw_job=RawJobId(job), user=text("username"), uid=uid,
        account=text("bank", "project"),
        partition=text("queue"), name=commands.get_label(record, "name"),
        nodes=job_environment.check_node_list(text("nodelist")),
        node_count=parse_integer(record.get("nnodes")) if text("nodelist") else None, state=state,
        outcome=RESULTS.get(result, result) if state is ENDED else "",
        exit_status=status, exit_signal=signal, started=_convert_time(record.get("t_run")),
        ended=_convert_time(record.get("t_cleanup")) if state is ENDED else None,
        work_dir=cwd, tasks=parse_positive(record.get("ntasks")),
        cpus=parse_positive(record.get("ncores")))


def _convert_end(status: int | None, code: int | None) -> tuple[int | None, int | None]:
    """Return (exit status, signal) of the job's shells."""
    if status is not None and status >= 0:
        return job_facts.split_wait_status(status)
    if code is None or code == _NEVER_STARTED:
        return None, None
    return (0, -code) if code < 0 else (code, None)


def _convert_time(value: object) -> float | None:
    return commands.parse_time(value) if isinstance(value, (int, float, str)) else None
