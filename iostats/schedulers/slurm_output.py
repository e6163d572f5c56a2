"""
What Slurm's commands print, as Facts: the forms that schedulers/slurm.py speaks of.

    parse_squeue         squeue --json
    parse_sacct          sacct --json
    parse_squeue_lines   squeue --noheader --format LIVE
    parse_sacct_lines    sacct --duplicates --noheader --parsable2 --format ACCOUNTED
    parse_pyslurm        a Python with PYSLURM_JOBS

All return {raw job: Facts}, or raise NotReadable.
"""

from __future__ import annotations

from iostats.base import job_facts
from iostats.base.job_facts import ENDED, RUNNING, WAITING, number
from iostats.schedulers import commands, job_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iostats.base.job_facts import Facts

COMMENTS = ("AdminComment", "SystemComment", "Comment")
# COMPLETING alone is not in it: the processes are gone, and whether the job has ended or is started
# again this word does not tell.
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
    """{raw job: Facts} of `squeue --noheader --format LIVE`; NotReadable."""
    found = {}
    for (raw, job, word, uid, user, account, partition, count, started, ended,
         nodes) in _rows(text, LIVE.count("|") + 1, "squeue --format"):
        found[raw] = _made(
            raw, _named(job, raw), [word], started=commands.seconds(started),
            ended=commands.seconds(ended), uid=number(uid), user=user, account=account,
            partition=partition, nodes=nodes, node_count=number(count))
    return found


def parse_sacct_lines(text: str) -> dict[str, Facts]:
    """
    {raw job: Facts} of `sacct --duplicates --noheader --parsable2 --format ACCOUNTED`; NotReadable.

    A job that was started again has a line for each run, in any order; those before the last one
    are its restarts, or fewer: a run of a few seconds may have no line.  The same number can be a
    job of long ago, so lines of other users do not count.
    """
    runs: dict[str, list[list[str]]] = {}
    for row in _rows(text, ACCOUNTED.count(",") + 1, "sacct --format"):
        runs.setdefault(row[0], []).append(row)
    found = {}
    for raw, rows in runs.items():
        rows.sort(key=lambda row: (row[9], row[10]))
        (_, job, state, end, uid, user, account, partition, count, _, started, ended, cluster,
         nodes) = rows[-1]
        status, signal = job_facts.parse_exit(end)
        found[raw] = _made(
            raw, _named(job, raw), state.split()[:1],           # "CANCELLED by 1000"
            started=commands.seconds(started), ended=commands.seconds(ended),
            exit_status=status, exit_signal=signal, uid=number(uid), user=user, account=account,
            partition=partition, cluster=cluster, node_count=number(count),
            nodes=nodes,
            restarts=sum(row[5] == user for row in rows) - 1)
    return found


def _rows(text: str, count: int, origin: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        values = [value.strip() for value in line.split("|")]
        if len(values) != count:
            raise commands.not_of_the_form(origin, f"{count} fields between |", line)
        if number(values[0]):
            yield [value if value.isprintable() else "" for value in values]


# -- JSON ----------------------------------------------------------------------------------------

def parse_squeue(text: str) -> dict[str, Facts]:
    """{raw job: Facts} of `squeue --json`; NotReadable."""
    found = {}
    for record in _records(text, "squeue --json"):
        raw = str(_number(record["job_id"]))

        def text_of(key: str, record: dict[str, Any] = record) -> str:
            return commands.field(record, key)
        names = _numbered(
            raw, _number(record.get("array_job_id")), _number(record.get("array_task_id")),
            _number(record.get("het_job_id")), _number(record.get("het_job_offset")))
        status, signal = _exit(record.get("exit_code"))
        one = _made(
            raw, names, _words(record.get("job_state")), started=_number(record.get("start_time")),
            ended=_number(record.get("end_time")), exit_status=status, exit_signal=signal,
            user=text_of("user_name"), uid=_number(record.get("user_id")),
            account=text_of("account"), partition=text_of("partition"),
            name=commands.label(record, "name"),
            cluster=text_of("cluster"), nodes=text_of("nodes"),
            node_count=_number(record.get("node_count")),
            restarts=_number(record.get("restart_cnt")) or 0,
            work_dir=text_of("current_working_directory"),
            comments=_comments(record, "admin_comment", "system_comment", "comment"))
        pattern = text_of("standard_output")
        if not pattern and record.get("batch_flag"):
            pattern = "slurm-%A_%a.out" if one.array_task else "slurm-%j.out"
        found[raw] = one._replace(output=_ready(text_of("stdout_expanded"))
                                  or expanded(pattern, one, text_of("batch_host")))
    return found


def parse_sacct(text: str) -> dict[str, Facts]:
    """{raw job: Facts} of `sacct --json`, of the last run of each job; NotReadable."""
    found: dict[str, Facts] = {}
    last: dict[str, tuple[int, int]] = {}
    for record in _records(text, "sacct --json"):
        raw = str(_number(record["job_id"]))

        def text_of(key: str, record: dict[str, Any] = record) -> str:
            return commands.field(record, key)
        time, array, het, state, comment = (
            record[name] if isinstance(record.get(name), dict) else {}
            for name in ("time", "array", "het", "state", "comment"))
        began = (_number(time.get("submission")) or 0, _number(time.get("start")) or 0)
        if began < last.get(raw, (0, 0)):
            continue
        last[raw] = began
        names = _numbered(raw, _number(array.get("job_id")), _number(array.get("task_id")),
                          _number(het.get("job_id")), _number(het.get("job_offset")))
        status, signal = _exit(record.get("exit_code"))
        words = _words(state.get("current"))
        if not status and not signal and words != ["COMPLETED"]:
            status = signal = None                    # 22.05 has 0 here for every status
        one = _made(
            raw, names, words, started=_number(time.get("start")), ended=_number(time.get("end")),
            exit_status=status, exit_signal=signal, user=text_of("user"),
            account=text_of("account"), partition=text_of("partition"),
            name=commands.label(record, "name"),
            cluster=text_of("cluster"), nodes=text_of("nodes"),
            node_count=_number(record.get("allocation_nodes")),
            restarts=_number(record.get("restart_cnt")) or 0,
            work_dir=text_of("working_directory"), steps=_steps(record.get("steps")),
            comments=_comments(comment, "administrator", "system", "job"))
        found[raw] = one._replace(output=_ready(text_of("stdout_expanded"))
                                  or expanded(text_of("stdout"), one))
    return found


def _records(text: str, origin: str, key: str = "job_id") -> list[dict[str, Any]]:
    form = '{"jobs": [{"%s": 4711, ...}]}' % key
    jobs = commands.json_object(text, origin, form).get("jobs")
    if not isinstance(jobs, list) or not all(
            isinstance(one, dict) and (_number(one.get(key)) or 0) > 0 for one in jobs):
        raise commands.not_of_the_form(origin, form, text)
    return jobs


def _number(value: object) -> int | None:
    """
    The number in both forms of the JSON; None for none.

    >>> _number(7), _number({"set": True, "infinite": False, "number": 7}), _number("7")
    (7, 7, 7)
    >>> _number(None), _number({"set": False, "number": 7}), _number({"infinite": True})
    (None, None, None)
    """
    if isinstance(value, dict):
        is_one = value.get("set", True) and not value.get("infinite")
        value = value.get("number") if is_one else None
    return number(value) if isinstance(value, (int, float, str)) else None


def _words(value: object) -> list[str]:
    """[state] of both forms: "RUNNING", or ["COMPLETED", "COMPLETING"]."""
    return [word for word in (value if isinstance(value, list) else [value])
            if isinstance(word, str)]


def _exit(value: object) -> tuple[int | None, int | None]:
    """(exit status, signal) of all forms of exit_code."""
    if not isinstance(value, dict):
        status = _number(value)
        return (None, None) if status is None or status < 0 else job_facts.wait_status(status)
    signal = value.get("signal")
    if isinstance(signal, dict):
        signal = _number(signal.get("id", signal.get("signal_id")))
    else:
        signal = None
    status = _number(value.get("return_code"))
    return (0, signal) if signal else (status, None)


def _comments(record: dict[str, Any], admin: str, system: str, users: str) -> dict[str, str]:
    values = [record.get(key) for key in (admin, system, users)]
    return {name: value for name, value in zip(COMMENTS, values)
            if isinstance(value, str) and value}


def _steps(steps: object) -> tuple[tuple[str, str], ...]:
    found = []
    for one in steps if isinstance(steps, list) else []:
        step = one.get("step") if isinstance(one, dict) else None
        if isinstance(step, dict) and _words(one.get("state")):
            found.append((commands.field(step, "name", "id"), _words(one["state"])[0]))
    return tuple(found)


def _numbered(raw: str, array_job: int | None, array_task: int | None, het_job: int | None,
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


def _named(job: str, raw: str) -> dict[str, str]:
    """The same from "143_1", "143_[3,5-9%2]" or "12+1"."""
    array_job, is_task, task = job.partition("_")
    if is_task:
        return _numbered(raw, number(array_job), number(task), None, None)
    het_job, _, offset = job.partition("+")
    return _numbered(raw, None, None, number(het_job), number(offset))


def _made(raw: str, names: dict[str, str], words: list[str], *, started: float | None,
          ended: float | None, **fields: Any) -> Facts:
    """Facts, with only those of its fields that mean something in its state."""
    state = next((STATES[word] for word in words if word in STATES), None)
    if state is ENDED:
        outcome = next(word for word in words if word in STATES)
    else:
        outcome = ""
        fields.update(exit_status=None, exit_signal=None)
    if state is WAITING:
        fields.update(node_count=None, nodes="")
    fields["nodes"] = job_environment.listed(fields["nodes"])
    return job_facts.Facts(
        raw_job=raw, state=state, outcome=outcome,
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
    admin_comment system_comment comment'''.split()
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
    {raw job: Facts} of what PYSLURM_JOBS prints; NotReadable.

    pyslurm has None where the number is 0, and an exit status of 128 and more without those 128 (72
    for 200, 0 for 128); so no status is told but that of a job that has COMPLETED, or of a signal.
    """
    found = {}
    for record in _records(text, "pyslurm", "id"):
        raw = str(_number(record["id"]))

        def text_of(*keys: str, record: dict[str, Any] = record) -> str:
            return commands.field(record, *keys)

        def count(key: str, record: dict[str, Any] = record) -> int:
            return _number(record.get(key)) or 0
        array, task = count("array_id"), _number(record.get("array_task_id"))
        if array and task is None and not record.get("array_tasks_waiting"):
            task = 0
        signal = count("exit_code_signal")
        words = _words(record.get("state"))
        one = _made(
            raw, _numbered(raw, array, task, count("heterogeneous_id"),
                           count("heterogeneous_offset")),
            words, started=count("start_time"), ended=count("end_time"),
            exit_status=0 if signal or (job_facts.COMPLETED in words and not count("exit_code"))
            else None,
            exit_signal=signal or None, user=text_of("user_name"),
            uid=_number(record.get("user_id")), account=text_of("account"),
            partition=text_of("partition"), name=commands.label(record, "name"),
            cluster=text_of("cluster"),
            nodes=text_of("allocated_nodes", "nodelist"), node_count=_number(
                record.get("num_nodes")),
            restarts=count("requeue_count"), work_dir=text_of("working_directory"),
            comments=_comments(record, "admin_comment", "system_comment", "comment"))
        is_batch = record.get("is_batch_job", True)
        found[raw] = one._replace(output=_ready(text_of("standard_output")) if is_batch else "")
    return found


# -- the job's output ----------------------------------------------------------------------------

def expanded(pattern: str, one: Facts, first_node: str = "") -> str:
    r"""
    The path of a batch job's standard output from sbatch's pattern; "" where it is not sure.

    `one`: its Facts.  %N is the first node; what only a step has (%s, %t, %J, %n) is not sure, nor
    is a path with a backslash, which sbatch takes for "as it is".  A heterogeneous job has its
    script, and its output, in the first part.

    >>> expanded("/home/a/%x-%4j.out", jobfacts.Facts(raw_job="37", name="solve"))
    '/home/a/solve-0037.out'
    """
    if not pattern or "\\" in pattern or one.het_offset not in ("", "0") or (
            one.array_job and not one.array_task):
        return ""
    if not first_node:
        names = job_environment.node_names(one.nodes) if one.nodes else []
        first_node = names[0] if names else ""
    values = {"%": "%", "A": one.array_job or one.raw_job, "a": one.array_task or _NO_TASK,
              "b": one.array_task[-1:], "j": one.raw_job, "N": first_node.partition(".")[0],
              "u": one.user, "x": one.name}
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
    return f"{one.work_dir.rstrip('/')}/{pieces}" if one.work_dir.startswith("/") else ""


def _ready(path: str) -> str:
    """A path that Slurm has expanded; "" where something is left."""
    return path if path.startswith("/") and "%" not in path else ""
