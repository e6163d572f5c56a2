"""
What a batch system says of a job: one form for Slurm, PBS, LSF, Flux and Grid Engine.

A field that is not known is "" (text) or None (a number), never 0.  `outcome` is in Slurm's words,
whatever the batch system, so that a report has one word for one thing; what Slurm has no word for
is in the batch system's own.
"""

from __future__ import annotations

from collections import namedtuple

WAITING, RUNNING, ENDED = "waiting", "running", "ended"
COMPLETED, CANCELLED, TIMEOUT, FAILED, NODE_FAIL = (
    "COMPLETED", "CANCELLED", "TIMEOUT", "FAILED", "NODE_FAIL")
OUT_OF_MEMORY = "OUT_OF_MEMORY"
KILLED = "KILLED"                    # by a signal; it is not known whether the user cancelled it


class Facts(namedtuple("Facts", (
        "job", "raw_job", "array_job", "array_task", "het_job", "het_offset", "user",
        "uid", "account", "partition", "name", "cluster", "nodes", "node_count",
        "state", "outcome", "exit_status", "exit_signal", "restarts", "started", "ended",
        "output", "work_dir", "comments", "steps", "completing"), defaults=(
        "", "", "", "", "", "", "",
        None, "", "", "", "", "", None,
        None, "", None, None, 0, None, None,
        "", "", {}, (), False))):
    """
    A job, as its batch system knows it.

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
        state: WAITING, RUNNING, ENDED, or None where it is not known.
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
    """

    __slots__ = ()


def parse_exit(text: object) -> tuple[int | None, int | None]:
    """
    (exit status, signal) of "STATUS:SIGNAL", as Slurm writes it, or of "STATUS"; None for none.

    >>> parse_exit("7:0"), parse_exit("0:9"), parse_exit("23"), parse_exit("-29"), parse_exit("")
    ((7, None), (0, 9), (23, None), (-29, None), (None, None))
    """
    status, colon, signal = str(text).strip().partition(":")
    code, signalled = number(status), number(signal) if colon else None
    return (None, None) if code is None else (code, signalled or None)


def wait_status(status: int) -> tuple[int, int | None]:
    """
    (exit status, signal) of a status in the form of waitpid(2).

    >>> wait_status(1792), wait_status(9), wait_status(0)
    ((7, None), (0, 9), (0, None))
    """
    signal = status & 0x7f
    return (0, signal) if signal else (status >> 8 & 0xff, None)


def number(value: object) -> int | None:
    """
    `value` as an int; None where it is none, or absurdly long.

    >>> number(" 37 "), number("-29"), number(41.0), number("x"), number(True), number(None)
    (37, -29, 41, None, None, None)
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
