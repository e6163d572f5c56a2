"""
Facts from the output of Slurm's commands.

    parse_squeue         squeue --json
    parse_sacct          sacct --json
    parse_squeue_lines   squeue --noheader --format LIVE
    parse_sacct_lines    sacct --duplicates --noheader --parsable2 --format ACCOUNTED
    parse_pyslurm        a Python with PYSLURM_JOBS

All return {raw job: Facts}, or raise NotReadable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iostats.base import job_facts
from iostats.base.ids import RawJobId
from iostats.base.job_facts import ENDED, RUNNING, WAITING, Facts, parse_integer, parse_positive
from iostats.schedulers import commands, job_environment

COMMENTS = ("AdminComment", "SystemComment", "Comment")
# COMPLETING is not in it: the processes have ended, and the job has ended or will be started again.
STATES = {
    **dict.fromkeys(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
                     "RESV_DEL_HOLD", "SPECIAL_EXIT"), WAITING),
    **dict.fromkeys(("RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"), RUNNING),
    **dict.fromkeys(("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                     "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED"), ENDED)}
NO_ACCOUNTING = "accounting storage is disabled"      # sacct, in small letters
_NO_TASK = "4294967294"              # what %a becomes in a job that is no array


# -- lines ---------------------------------------------------------------------------------------
#
# No field of these can have been written by a user.

LIVE = "%A|%i|%T|%U|%u|%a|%P|%D|%S|%e|%N"
ACCOUNTED = ("JobIDRaw,JobID,State,ExitCode,UID,User,Account,Partition,NNodes,Submit,Start,End,"
             "Cluster,NodeList")


def parse_squeue_lines(text: str) -> dict[str, Facts]:
    """Return {raw job: Facts} of `squeue --noheader --format LIVE`; NotReadable."""
    by_raw_id = {}
    for (raw, job, word, uid, user, account, partition, count, started, ended,
         nodes) in _split_rows(text, LIVE.count("|") + 1, "squeue --format"):
        by_raw_id[raw] = _make_facts(
            raw, _parse_array_id(job, raw), [word], started=commands.parse_time(started),
            ended=commands.parse_time(ended), uid=parse_integer(uid), user=user, account=account,
            partition=partition, nodes=nodes, node_count=parse_integer(count))
    return by_raw_id


def parse_sacct_lines(text: str) -> dict[str, Facts]:
    """
    Return {raw job: Facts} of `sacct --duplicates --noheader --parsable2 --format ACCOUNTED`;
    NotReadable.

    A job that was started again has a line for each run, in any order; those before the last one
    are its restarts, or fewer: a run of a few seconds may have no line.  The same number can be a
    job of long ago, so lines of other users do not count.
    """
    runs: dict[str, list[list[str]]] = {}
    for row in _split_rows(text, ACCOUNTED.count(",") + 1, "sacct --format"):
        runs.setdefault(row[0], []).append(row)
    by_raw_id = {}
    for raw, rows in runs.items():
        rows.sort(key=lambda row: (row[9], row[10]))
        (_, job, state, end, uid, user, account, partition, count, _, started, ended, cluster,
         nodes) = rows[-1]
        status, signal = job_facts.parse_exit(end)
        by_raw_id[raw] = _make_facts(
            raw, _parse_array_id(job, raw), state.split()[:1],           # "CANCELLED by 1000"
            started=commands.parse_time(started), ended=commands.parse_time(ended),
            exit_status=status, exit_signal=signal, uid=parse_integer(uid), user=user,
            account=account,
            partition=partition, cluster=cluster, node_count=parse_integer(count),
            nodes=nodes,
            restarts=sum(row[5] == user for row in rows) - 1)
    return by_raw_id


def _split_rows(text: str, count: int, origin: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        values = [value.strip() for value in line.split("|")]
        if len(values) != count:
            raise commands.make_format_error(origin, f"{count} fields between |", line)
        if parse_integer(values[0]):
            yield [value if value.isprintable() else "" for value in values]


# -- JSON ----------------------------------------------------------------------------------------

def parse_squeue(text: str) -> dict[str, Facts]:
    """Return {raw job: Facts} of `squeue --json`; NotReadable."""
    by_raw_id = {}
    for record in _parse_records(text, "squeue --json"):
        raw = str(_parse_number(record["job_id"]))

        def get_text(key: str, record: dict[str, object] = record) -> str:
            return commands.get_field(record, key)
        names = _number_nodes(
            raw, _parse_number(record.get("array_job_id")),
            _parse_number(record.get("array_task_id")),
            _parse_number(record.get("het_job_id")), _parse_number(record.get("het_job_offset")))
        status, signal = _convert_exit(record.get("exit_code"))
        job = _make_facts(
            raw, names, _list_states(record.get("job_state")),
            started=_parse_number(record.get("start_time")),
            ended=_parse_number(record.get("end_time")), exit_status=status, exit_signal=signal,
            user=get_text("user_name"), uid=_parse_number(record.get("user_id")),
            account=get_text("account"), partition=get_text("partition"),
            name=commands.get_label(record, "name"),
            cluster=get_text("cluster"), nodes=get_text("nodes"),
            node_count=_parse_number(record.get("node_count")),
            restarts=_parse_number(record.get("restart_cnt")) or 0,
            tasks=parse_positive(_parse_number(record.get("tasks"))),
            cpus=parse_positive(_parse_number(record.get("cpus"))),
            work_dir=get_text("current_working_directory"),
            comments=_parse_comments(record, "admin_comment", "system_comment", "comment"))
        pattern = get_text("standard_output")
        if not pattern and record.get("batch_flag"):
            pattern = "slurm-%A_%a.out" if job.array_task else "slurm-%j.out"
        by_raw_id[raw] = job._replace(output=_check_expanded(get_text("stdout_expanded"))
                                      or expand_pattern(pattern, job, get_text("batch_host")))
    return by_raw_id


def parse_sacct(text: str) -> dict[str, Facts]:
    """Return {raw job: Facts} of `sacct --json`, of the last run of each job; NotReadable."""
    by_raw_id: dict[str, Facts] = {}
    last: dict[str, tuple[int, int]] = {}
    for record in _parse_records(text, "sacct --json"):
        raw = str(_parse_number(record["job_id"]))

        def get_text(key: str, record: dict[str, object] = record) -> str:
            return commands.get_field(record, key)
        time, array, het, state, comment = (
            _get_member(record, name) for name in ("time", "array", "het", "state", "comment"))
        began = (_parse_number(time.get("submission")) or 0, _parse_number(time.get("start")) or 0)
        if began < last.get(raw, (0, 0)):
            continue
        last[raw] = began
        names = _number_nodes(raw, _parse_number(array.get("job_id")),
                              _parse_number(array.get("task_id")),
                              _parse_number(het.get("job_id")),
                              _parse_number(het.get("job_offset")))
        status, signal = _convert_exit(record.get("exit_code"))
        words = _list_states(state.get("current"))
        if not status and not signal and words != ["COMPLETED"]:
            status = signal = None                    # 22.05 has 0 here for every status
        job = _make_facts(
            raw, names, words, started=_parse_number(time.get("start")),
            ended=_parse_number(time.get("end")),
            exit_status=status, exit_signal=signal, user=get_text("user"),
            account=get_text("account"), partition=get_text("partition"),
            name=commands.get_label(record, "name"),
            cluster=get_text("cluster"), nodes=get_text("nodes"),
            node_count=_parse_number(record.get("allocation_nodes")),
            restarts=_parse_number(record.get("restart_cnt")) or 0,
            work_dir=get_text("working_directory"), steps=_parse_steps(record.get("steps")),
            comments=_parse_comments(comment, "administrator", "system", "job"))
        by_raw_id[raw] = job._replace(output=_check_expanded(get_text("stdout_expanded"))
                                      or expand_pattern(get_text("stdout"), job))
    return by_raw_id


def _get_member(record: dict[str, object], name: str) -> dict[str, object]:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _parse_records(text: str, origin: str, key: str = "job_id") -> list[dict[str, object]]:
    form = '{"jobs": [{"%s": 4711, ...}]}' % key
    jobs = commands.parse_json_object(text, origin, form).get("jobs")
    if not isinstance(jobs, list) or not all(
            isinstance(job, dict) and (_parse_number(job.get(key)) or 0) > 0 for job in jobs):
        raise commands.make_format_error(origin, form, text)
    return jobs


def _parse_number(value: object) -> int | None:
    """
    The number in both forms of the JSON; None for none.

    >>> (_parse_number(7), _parse_number({"set": True, "infinite": False, "number": 7}),
    ...  _parse_number("7"))
    (7, 7, 7)
    >>> (_parse_number(None), _parse_number({"set": False, "number": 7}),
    ...  _parse_number({"infinite": True}))
    (None, None, None)
    """
    if isinstance(value, dict):
        is_one = value.get("set", True) and not value.get("infinite")
        value = value.get("number") if is_one else None
    return parse_integer(value) if isinstance(value, (int, float, str)) else None


def _list_states(value: object) -> list[str]:
    """Return [state] of both forms: "RUNNING", or ["COMPLETED", "COMPLETING"]."""
    return [word for word in (value if isinstance(value, list) else [value])
            if isinstance(word, str)]


def _convert_exit(value: object) -> tuple[int | None, int | None]:
    """Return (exit status, signal) of all forms of exit_code."""
    if not isinstance(value, dict):
        status = _parse_number(value)
        return (None, None) if status is None or status < 0 else job_facts.split_wait_status(status)
    signal = value.get("signal")
    if isinstance(signal, dict):
        signal = _parse_number(signal.get("id", signal.get("signal_id")))
    else:
        signal = None
    status = _parse_number(value.get("return_code"))
    return (0, signal) if signal else (status, None)


def _parse_comments(record: dict[str, object], admin: str, system: str,
                    users: str) -> dict[str, str]:
    values = [record.get(key) for key in (admin, system, users)]
    return {name: value for name, value in zip(COMMENTS, values)
            if isinstance(value, str) and value}


def _parse_steps(steps: object) -> tuple[tuple[str, str], ...]:
    steps_ended = []
    for entry in steps if isinstance(steps, list) else []:
        step, words = (entry.get("step"), _list_states(entry.get("state"))) if isinstance(
            entry, dict) else (None, [])
        if isinstance(step, dict) and words:
            steps_ended.append((commands.get_field(step, "name", "id"), words[0]))
    return tuple(steps_ended)


def _number_nodes(raw: str, array_job: int | None, array_task: int | None, het_job: int | None,
                  het_offset: int | None) -> dict[str, str]:
    """The names of a job: fields of Facts.  0 and None are no array, and no heterogeneous job."""
    if array_job and array_task is not None:
        return {"job": f"{array_job}_{array_task}", "array_job": str(array_job),
                "array_task": str(array_task)}
    if array_job:                                     # tasks that have not been started
        return {"job": str(array_job), "array_job": str(array_job)}
    if het_job and het_offset is not None:
        return {"job": f"{het_job}+{het_offset}", "het_job": str(het_job),
                "het_offset": str(het_offset)}
    return {"job": raw}


def _parse_array_id(job: str, raw: str) -> dict[str, str]:
    """The ids in "143_1", "143_[3,5-9%2]" or "12+1"."""
    array_job, is_task, task = job.partition("_")
    if is_task:
        return _number_nodes(raw, parse_integer(array_job), parse_integer(task), None, None)
    het_job, _, offset = job.partition("+")
    return _number_nodes(raw, None, None, parse_integer(het_job), parse_integer(offset))


def _make_facts(raw: str, names: dict[str, Any], words: list[str], *, started: float | None,
                ended: float | None, **fields: Any) -> Facts:
    """Facts with only the fields that are valid in its state."""
    state = next((STATES[word] for word in words if word in STATES), None)
    if state is ENDED:
        outcome = next(word for word in words if word in STATES)
    else:
        outcome = ""
        fields.update(exit_status=None, exit_signal=None)
    if state is WAITING:
        fields.update(node_count=None, nodes="")
    fields["nodes"] = job_environment.check_node_list(fields["nodes"])
    return job_facts.Facts(
        raw_job=RawJobId(raw), state=state, outcome=outcome,
        # Before the start it is when Slurm means to start it, before the end its time limit.
        started=started if fields["nodes"] and started and started > 0 else None,
        ended=ended if state is ENDED and ended and ended > 0 else None,
        completing="COMPLETING" in words,
        **names, **{name: value for name, value in fields.items() if value is not None})


# -- pyslurm -------------------------------------------------------------------------------------

PYSLURM_VERSION = "import pyslurm; pyslurm.Jobs.load; print(pyslurm.__version__)"
# Arguments: numbers of jobs, arrays and heterogeneous jobs.  What the attributes are called in both
# kinds of jobs, of slurmctld and of the accounting, is at db/job.pxd and job.pyx of pyslurm.
PYSLURM_JOBS = """\
import json, sys
import pyslurm
NAMES = '''id array_id array_task_id array_tasks_waiting heterogeneous_id heterogeneous_offset state
    exit_code exit_code_signal start_time end_time user_name user_id account partition name cluster
    allocated_nodes nodelist num_nodes requeue_count working_directory standard_output is_batch_job
    admin_comment system_comment comment ntasks cpus'''.split()
wanted, found, known = {int(word) for word in sys.argv[1:]}, {}, set()
def keep(jobs):
    for job in jobs.values():
        numbers = {job.id, job.array_id, job.heterogeneous_id} & wanted
        if numbers and job.id not in found:
            known.update(numbers)
            found[job.id] = {name: getattr(job, name) for name in NAMES if hasattr(job, name)}
keep(pyslurm.Jobs.load())
if wanted - known:
    try:
        keep(pyslurm.db.Jobs.load(pyslurm.db.JobFilter(ids=sorted(wanted - known))))
    except pyslurm.RPCError:
        pass
json.dump({"jobs": list(found.values())}, sys.stdout, default=str)
"""


def parse_pyslurm(text: str) -> dict[str, Facts]:
    """
    Return {raw job: Facts} from the output of PYSLURM_JOBS; NotReadable.

    pyslurm has None where the number is 0, and an exit status of 128 and more without those 128 (72
    for 200, 0 for 128); so a status is returned only of a job that has COMPLETED, or of a signal.
    """
    by_raw_id = {}
    for record in _parse_records(text, "pyslurm", "id"):
        raw = str(_parse_number(record["id"]))

        def get_text(*keys: str, record: dict[str, object] = record) -> str:
            return commands.get_field(record, *keys)

        def count(key: str, record: dict[str, object] = record) -> int:
            return _parse_number(record.get(key)) or 0
        array, task = count("array_id"), _parse_number(record.get("array_task_id"))
        if array and task is None and not record.get("array_tasks_waiting"):
            task = 0
        signal = count("exit_code_signal")
        words = _list_states(record.get("state"))
        facts_of_job = _make_facts(
            raw, _number_nodes(raw, array, task, count("heterogeneous_id"),
                               count("heterogeneous_offset")),
            words, started=count("start_time"), ended=count("end_time"),
            exit_status=0 if signal or (job_facts.COMPLETED in words and not count("exit_code"))
            else None,
            exit_signal=signal or None, user=get_text("user_name"),
            uid=_parse_number(record.get("user_id")), account=get_text("account"),
            partition=get_text("partition"), name=commands.get_label(record, "name"),
            cluster=get_text("cluster"),
            nodes=get_text("allocated_nodes", "nodelist"), node_count=_parse_number(
                record.get("num_nodes")),
            restarts=count("requeue_count"), work_dir=get_text("working_directory"),
            tasks=parse_positive(count("ntasks")), cpus=parse_positive(count("cpus")),
            comments=_parse_comments(record, "admin_comment", "system_comment", "comment"))
        is_batch = record.get("is_batch_job", True)
        by_raw_id[raw] = facts_of_job._replace(output=_check_expanded(get_text("standard_output"))
                                               if is_batch else "")
    return by_raw_id


# -- the job's output ----------------------------------------------------------------------------

def expand_pattern(pattern: str, job: Facts, first_node: str = "") -> str:
    r"""
    The path of a batch job's standard output from sbatch's pattern; "" where it is not sure.

    %N is the first node; values of a step alone (%s, %t, %J, %n) are
    not certain, nor is a path with a backslash, which sbatch takes for "as it is".  A heterogeneous
    job has its script, and its output, in the first part.

    >>> expand_pattern("/home/a/%x-%4j.out", job_facts.Facts(raw_job="37", name="solve"))
    '/home/a/solve-0037.out'
    """
    if not pattern or "\\" in pattern or job.het_offset not in ("", "0") or (
            job.array_job and not job.array_task):
        return ""
    if not first_node:
        names = job_environment.parse_node_names(job.nodes) if job.nodes else []
        first_node = names[0] if names else ""
    values = {"%": "%", "A": job.array_job or job.raw_job, "a": job.array_task or _NO_TASK,
              "b": job.array_task[-1:], "j": job.raw_job, "N": first_node.partition(".")[0],
              "u": job.user, "x": job.name}
    pieces, percent, rest = pattern.partition("%")
    while percent:
        width = rest[:len(rest) - len(rest.lstrip("0123456789"))]
        letter, rest = rest[len(width):len(width) + 1], rest[len(width) + 1:]
        value = values.get(letter)
        if not value or len(width) > 2:
            return ""
        pieces += value.zfill(int(width)) if width and value.isdigit() else value
        piece, percent, rest = rest.partition("%")
        pieces += piece
    if pieces.startswith("/"):
        return pieces
    return f"{job.work_dir.rstrip('/')}/{pieces}" if job.work_dir.startswith("/") else ""


def _check_expanded(path: str) -> str:
    """A path that Slurm has expanded; "" where something is left."""
    return path if path.startswith("/") and "%" not in path else ""
