"""
Batch facts: a job as its batch system describes it, in one form for Slurm, PBS, LSF, Flux and Grid
Engine.

A field that is not known is "" (text) or None (a number), never 0.  `outcome` is in Slurm's words,
whatever the batch system, so that a report has one word for one thing; what Slurm has no word for
is in the batch system's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iostats.base.ids import JobId, RawJobId
from iostats.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WAITING, RUNNING, ENDED = "waiting", "running", "ended"
COMPLETED, CANCELLED, TIMEOUT, FAILED, NODE_FAIL = (
    "COMPLETED", "CANCELLED", "TIMEOUT", "FAILED", "NODE_FAIL")
OUT_OF_MEMORY = "OUT_OF_MEMORY"
KILLED = "KILLED"                    # by a signal; it is not known whether the user cancelled it


class Facts(NamedTuple):
    """
    A job as its batch system describes it.

    Attributes:
        job: as users write it: "4711", "12345_10", "4711+1", "4711.pbs01", "4711[3].pbs01".
        raw_job: the batch system's own id, which prologs see ("12366"); else the same as `job`.
        array_job, array_task: the array and the index in it, as text; "" outside of arrays.
        het_job, het_offset: the same for a part of a heterogeneous job.
        user, uid: whose job it is.
        account: account, project or bank that pays.
        partition: partition or queue.
        name: the job's own name.
        cluster: the batch system's name of itself.
        nodes: node list, nid[1-3,7] or a,b,c, in the batch system's spelling.
        node_count: number of nodes.
        state: WAITING, RUNNING, ENDED, or None if unknown.
        outcome: how it ended: COMPLETED, CANCELLED, TIMEOUT, NODE_FAIL, FAILED, ...
        exit_status: of the job's script, 0 to 255, or the batch system's own negative number.
        exit_signal: number of the signal that ended it; None for none.
        restarts: how often the job was started again; 0 in its first run.
        started, ended: seconds since 1970, of this run.
        output: path of the file that gets the job's standard output, nothing left to expand.
        work_dir: the directory that the job was submitted in, or runs in.
        comments: {"AdminComment", "SystemComment", "Comment": text}, as far as there are any.
        steps: [(name, state)].
        completing: it has ended, and may still be on some of its nodes.
        tasks: how many tasks (MPI ranks) it asked for, on all nodes.
        cpus: how many CPUs it has, on all nodes.
    """

    job: JobId = JobId("")
    raw_job: RawJobId = RawJobId("")
    array_job: str = ""
    array_task: str = ""
    het_job: str = ""
    het_offset: str = ""
    user: str = ""
    uid: int | None = None
    account: str = ""
    partition: str = ""
    name: str = ""
    cluster: str = ""
    nodes: str = ""
    node_count: int | None = None
    state: str | None = None
    outcome: str = ""
    exit_status: int | None = None
    exit_signal: int | None = None
    restarts: int = 0
    started: float | None = None
    ended: float | None = None
    output: str = ""
    work_dir: str = ""
    comments: dict[str, str] = {}
    steps: Sequence[tuple[str, str]] = ()
    completing: bool = False
    tasks: int | None = None
    cpus: int | None = None


def parse_exit(text: object) -> tuple[int | None, int | None]:
    """
    Return (exit status, signal) of "STATUS:SIGNAL", as Slurm writes it, or of "STATUS"; None if
    absent.

    >>> parse_exit("7:0"), parse_exit("0:9"), parse_exit("23"), parse_exit("-29"), parse_exit("")
    ((7, None), (0, 9), (23, None), (-29, None), (None, None))
    """
    status, colon, signal = str(text).strip().partition(":")
    code, signalled = parse_integer(status), parse_integer(signal) if colon else None
    return (None, None) if code is None else (code, signalled or None)


def split_wait_status(status: int) -> tuple[int, int | None]:
    """
    Return (exit status, signal) of a status in the format of waitpid(2).

    >>> split_wait_status(1792), split_wait_status(9), split_wait_status(0)
    ((7, None), (0, 9), (0, None))
    """
    signal = status & 0x7f
    return (0, signal) if signal else (status >> 8 & 0xff, None)


def parse_integer(value: object) -> int | None:
    """
    Return `value` as an int; None if it is not an integer, or absurdly long.

    >>> [parse_integer(value) for value in (" 37 ", "-29", 41.0, "x", True, None)]
    [37, -29, 41, None, None, None]
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return int(value) if abs(value) < 1e18 else None          # so NaN is none, too
    if isinstance(value, int):
        return value if abs(value) < 10**18 else None
    text = str(value).strip()
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def parse_positive(value: object) -> int | None:
    """
    Return `value` as an int above 0; None if it is not one.

    >>> parse_positive("37"), parse_positive(0), parse_positive(-1), parse_positive(None)
    (37, None, None, None)
    """
    parsed = parse_integer(value)
    return parsed if parsed is not None and parsed > 0 else None
