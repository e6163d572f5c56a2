"""
start, mark and stop along the ranks of an MPI program: `mpirun iostats_client.py stop --mpi`.

On each node one rank works, the lowest that can, and the others wait.  At `stop` the nodes' reports
are added up along the ranks, and one message goes to the job's server, from the `leader`:

    every rank                                               leader
    role, node, job     --- allgather -->                    (and every rank: who works)
    report of the node                                       the server's time
                        <-- bcast ---                        or why it was not reached
    Totals.state()      --- reduce, merged -->               the message `totals`
                        <-- bcast ---                        what became of it
    exit status         --- allreduce, the largest -->

Every rank takes part in every one of these, whatever fails on it: a node without numbers says so
in the totals, and no rank waits for it.  All messages between ranks are JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from types import SimpleNamespace

from iostats.base.errors import DONE, NOT_REACHED, IostatsError, NotDelivered, UsageError
from iostats.node.measurement import explain_missing_numbers
from iostats.totals.job_totals import Totals
from iostats.totals.node_report import Report
from iostats.wire import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Optional, Protocol, TypeVar

    from iostats.node.measurement import Ended
    from iostats.totals.received_report import SentDelta, SentReport
    from iostats.wire.method_name import AnswerT, MethodName
    from iostats.wire.protocol import Receipt

    Result = TypeVar("Result")
    State = dict[str, Any]                      # of Totals.state()
    Refusal = tuple[str, int, bool]             # text, exit status, whether `stop` again sends it

    class Communicator(Protocol):
        """The methods of mpi4py's MPI.Comm that are used here."""

        def Get_rank(self) -> int: ...
        def Get_size(self) -> int: ...
        def allgather(self, sendobj: object) -> Any: ...
        def allreduce(self, sendobj: int, op: Callable[[int, int], int]) -> int: ...
        def bcast(self, obj: object, root: int) -> Any: ...
        def reduce(self, sendobj: object, op: Callable[[Any, Any], Any], root: int) -> Any: ...

    class Member(Protocol):
        """
        A rank's part of the command.

        Attributes:
            role, node, job: None where the command line or site.cfg has a mistake.
            failed: the error that names the mistake.
        """

        role: Optional[str]
        node: Optional[str]
        job: Optional[str]
        failed: Optional[IostatsError]

        def act(self) -> int:
            """Start or mark on this node; the exit status."""

        def end(self) -> Ended:
            """End the work on this node, as measurement.Work.end."""

        def ask(self, method: MethodName[AnswerT], params: dict[str, object]) -> AnswerT:
            """The server's answer; NotDelivered."""

        def remove_report(self, path: str) -> None:
            """A report was delivered; `path` as in Ended.reports."""

        def done(self) -> None:
            """Note that all reports of this node have been delivered."""

        def status(self, reports: list[SentReport]) -> int:
            """The exit status for delivered reports."""

        def emit(self, text: str) -> None:
            """Print for the user, where wanted."""

        def report_error(self, error: BaseException) -> None:
            """Print for the user in any case."""

ROLES = ("start", "mark", "stop")
# How many ranks a launcher has started, and which of them this is.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


class Silent(IostatsError):
    """An error without a message, because another rank prints it."""

    def __init__(self, exit_status: int) -> None:
        super().__init__("")
        self.exit_status = exit_status


def join(emit: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Communicator:
    """MPI's world of ranks; UsageError if it is not usable."""
    import warnings
    try:
        import mpi4py
        mpi4py.rc.threads = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")             # of a wrong pairing, which we tell below
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise _limit_error_to_first_rank(
            UsageError(f"--mpi: mpi4py cannot be used with {sys.executable}: {why}; "
                       f"install it there with an MPI (pip install mpi4py mpich), or go "
                       f"without --mpi"), environ) from None
    MPI.pickle.__init__(_encode, _decode)  # type: ignore[misc]     # as mpi4py wants it
    comm: Communicator = MPI.COMM_WORLD
    started = next((int(environ[name]) for name in _SIZES if _is_number(environ.get(name, ""))), 1)
    if comm.Get_size() == 1 < started:
        raise _limit_error_to_first_rank(UsageError(
            f"--mpi: expected {started} ranks, as the launcher has started, got {started} times 1: "
            f"mpi4py is of another MPI ({MPI.get_vendor()[0]}) than mpirun or srun; use those of "
            f"one MPI (with srun see --mpi=list)"), environ)
    tasks = environ.get("SLURM_NTASKS", "")
    if comm.Get_size() == 1 and _is_number(tasks) and int(tasks) > 1:
        emit(f"--mpi: one rank, on this node alone; for all {tasks} tasks of the job start it with "
             f"srun or mpirun")
    return comm


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _decode(data: bytes | bytearray | memoryview) -> Any:
    return json.loads(bytes(data))


def _is_number(text: str) -> bool:
    return bool(text) and text.isascii() and text.isdigit() and len(text) < 9


def _limit_error_to_first_rank(error: IostatsError, environ: Mapping[str, str]) -> IostatsError:
    """Return `error` on the first rank, and a Silent one on the others."""
    rank = next((environ[name] for name in _RANKS if environ.get(name)), "0")
    return error if rank == "0" else Silent(error.exit_status)


def run(comm: Communicator, member: Member) -> int:
    """
    Run `member` on all ranks of `comm`; the exit status, the same on each.

    `member` is this rank's part.
    """
    ranks = _Ranks(comm, member)
    if not ranks.has_leader:
        status = ranks.report_error(member.failed)
    elif ranks.role == "stop":
        status = _stop(ranks, member)
    else:
        status = _act(ranks, member)
    largest: int = comm.allreduce(status, op=_choose_larger)
    return largest


class _Ranks:
    """
    The roles of the ranks: workers, and each node's leader.

    Attributes:
        role, job: those of the leader.
        leader: the rank that talks to the server: the lowest that is sound.
        has_leader: a rank is sound.
        works: this rank acts for its node.
        failed: why it can't, though it should; None.
    """

    def __init__(self, comm: Communicator, member: Member) -> None:
        self.comm, self.member, rank = comm, member, comm.Get_rank()
        everyone: list[tuple[str | None, str | None, str | None, bool]] = comm.allgather(
            [member.role, member.node, member.job, member.failed is None])
        sound = [rank for rank in range(len(everyone)) if everyone[rank][3]]
        self.leader = sound[0] if sound else 0
        self.has_leader = bool(sound)
        role, _, job, _ = everyone[sound[0] if sound else 0]
        self.role, self.job = role or "", job or ""
        same_call = [rank for rank in sound if everyone[rank][0] == self.role
                 and everyone[rank][2] == self.job]
        workers: dict[str | None, int] = {}         # node -> the rank that works there
        for candidate in [*same_call, *range(len(everyone))]:
            workers.setdefault(everyone[candidate][1], candidate)
        self.works = workers[member.node] == rank or (member.node is None and rank not in sound)
        self.failed = member.failed
        if self.works and not self.failed and rank not in same_call:
            self.failed = UsageError(
                f"--mpi: expected `{self.role}` of job {self.job}, as on rank {self.leader}, got "
                f"`{member.role}` of job {member.job} on {member.node}")

    def report_error(self, error: IostatsError | None) -> int:
        """Print a line if this rank is the one that reports; the exit status."""
        if error is None:
            return DONE
        if self.works and not isinstance(error, Silent):
            self.member.report_error(error)
        return error.exit_status

    def from_leader(self, act: Callable[[], Result]) -> tuple[Result | None, Refusal | None]:
        """Return (result, error) of `act()`, done by the leader, on every rank."""
        answer = None
        if self.comm.Get_rank() == self.leader:
            value, error = _try(act)
            answer = (value, None if error is None else (
                str(error), error.exit_status, bool(getattr(error, "later", True))))
        sent: tuple[Result | None, Refusal | None] = self.comm.bcast(answer, root=self.leader)
        return sent[0], sent[1]


def _try(act: Callable[[], Result]) -> tuple[Result | None, IostatsError | None]:
    """
    Return (result, None) or (None, IostatsError), but never raise: other ranks wait for this one.
    """
    try:
        return act(), None
    except IostatsError as error:
        return None, error
    except OSError as error:
        return None, IostatsError(str(error))
    except Exception as error:
        import traceback
        traceback.print_exc()                           # shown, and no rank hangs
        return None, IostatsError(f"internal error; please report: {error!r}")


def _act(ranks: _Ranks, member: Member) -> int:
    if not ranks.works:
        return DONE
    status, error = (None, ranks.failed) if ranks.failed else _try(member.act)
    return ranks.report_error(error) if status is None else status


# -- stop --------------------------------------------------------------------------------------

def _stop(ranks: _Ranks, member: Member) -> int:
    reports: dict[str, SentReport] = {}
    failed: IostatsError | None = None
    damaged: IostatsError | None = None
    error = ranks.failed
    if ranks.works and error is None:
        ended, error = _try(member.end)
        reports, failed, damaged = ended or (reports, failed, damaged)
    why = explain_missing_numbers(failed) if failed else str(error or "")[:500]
    failed = failed or error
    now, refusal = ranks.from_leader(lambda: _compute_server_time(member))
    counted: dict[str, str] = {}
    answer: Receipt | None = None
    if refusal is None:
        ahead_s = 0.0 if now is None else round(time.time() - now, 3)
        totals, error = _try(lambda: _merge_totals(ranks, member, reports, why, ahead_s, counted))
        if error is not None:
            counted.clear()
            failed = failed or error
        state: State = ranks.comm.reduce(totals, op=merge_states, root=ranks.leader)
        answer, refusal = ranks.from_leader(lambda: _send_state(ranks, member, state))
    if not ranks.works:
        return DONE
    if refusal is not None:
        return max(NOT_REACHED, _report_refusals(ranks, member, refusal, failed))
    status = DONE
    for path, why in counted.items():
        if why:
            member.emit(why)
        member.remove_report(path)
    if answer and answer.get("why") and ranks.comm.Get_rank() == ranks.leader:
        member.emit(answer["why"])
    for error in (failed, damaged):
        status = max(status, ranks.report_error(error))
    if failed is None and damaged is None and len(counted) == len(reports):
        member.done()
    if reports:
        of_reports, error = _try(lambda: member.status(list(reports.values())))
        status = max(status, ranks.report_error(error) if of_reports is None else of_reports)
    return status


def _report_refusals(ranks: _Ranks, member: Member, refusal: Refusal,
                     failed: IostatsError | None) -> int:
    """Report the fate of this node's reports; the exit status of other failures."""
    text, status, later = refusal
    if ranks.comm.Get_rank() == ranks.leader:
        again = ", and `stop` again sends them" if later else ""
        member.report_error(NotDelivered(
            f"{text}; each node keeps its reports{again} (without --mpi each node sends its own)"))
    return max(status, ranks.report_error(failed))


def _compute_server_time(member: Member) -> float:
    """Return the server's time, computed from this node's clock."""
    answer = member.ask(protocol.HELLO, {})
    asked_at = time.time()
    ahead_s = asked_at - float(answer["time"])
    return time.time() - ahead_s


def _merge_totals(ranks: _Ranks, member: Member, reports: dict[str, SentReport], why: str,
                  ahead_s: float, counted: dict[str, str]) -> State | None:
    """
    Totals.state() of this node, or None for a rank without numbers.

    `why`: it has no numbers of its work, or "".  `counted`: {path: why} of the reports that are in
    the totals, to be filled.
    """
    if not ranks.works or member.node is None:
        return None
    totals = Totals(ranks.job)
    for path, params in sorted(reports.items(), key=lambda item: item[1]["ended"]):
        outcome = totals.add(convert_report(params, ahead_s))
        if outcome.counted:
            counted[path] = outcome.why
        else:
            member.emit(f"{outcome.why}; stored in {path}")
    if why:
        totals.add(Report(member.node, "", "", "", why, 0.0, 0.0, 0.0, {}, ()))
    return {**totals.state()}


def convert_report(params: SentReport, ahead_s: float) -> Report:
    """The params of the method `report` as Totals.add takes them, by the server's clock."""
    def deltas(sent: Iterable[SentDelta]) -> list[SimpleNamespace]:
        return [SimpleNamespace(**{"target": "", "lower_bound": False, "why": "", "proved": False,
                                   **fields}) for fields in sent]
    return Report(
        params["node"], params["seq"], params["boot_id"], params["user"], params["reason"],
        params["ended"] - ahead_s, params["elapsed_s"], ahead_s, params["mounts"],
        deltas(params["deltas"]), params.get("dirty_bytes"), params.get("other_jobs"),
        [SimpleNamespace(name=phase["name"], elapsed_s=phase["elapsed_s"],
                         deltas=deltas(phase["deltas"]))
         for phase in params.get("phases", ())],
        {name: SimpleNamespace(**fields) for name, fields in params.get("series", {}).items()},
        params.get("uptime_s", 0.0),
        [_make_event(event, ahead_s) for event in params["events"]] if "events" in params else None,
        params.get("events_dropped", 0), params.get("events_unseen", ""),
        cpus=params.get("cpus", 0))


def _make_event(fields: dict[str, object], ahead_s: float) -> SimpleNamespace:
    times = {name: at - ahead_s for name in ("time", "last", "over")
             if isinstance(at := fields[name], (int, float))}
    return SimpleNamespace(**{**fields, **times})


def merge_states(left: State | None, right: State | None) -> State | None:
    """The sum of two states; a rank without numbers has None."""
    if left is None or right is None:
        return left if right is None else right
    totals, error = _try(lambda: _merge_states(left, right))
    return {"failed": str(error)} if error is not None else totals


def _merge_states(left: Any, right: Any) -> State:
    state: State
    for state in (left, right):
        if "failed" in state:
            return state
    totals = Totals.from_state(left)
    outcome = totals.merge(Totals.from_state(right))
    return {**totals.state()} if outcome.counted else {"failed": outcome.why}


def _send_state(ranks: _Ranks, member: Member, state: State) -> Receipt:
    """Send the state of all nodes to the server, and return its answer."""
    if "failed" in state:
        raise IostatsError(state["failed"])
    # The same work has the same name: what is sent again, in doubt, is counted once.
    work = [sorted((node, part[0]) for node, parts in state["parts"].items() for part in parts),
            sorted(state["without"])]
    answer = member.ask(protocol.TOTALS, {
        "protocol": protocol.PROTOCOL, "job": ranks.job, "node": member.node,
        "seq": hashlib.sha256(_encode(work)).hexdigest()[:32], "state": state})
    return answer or {}


def _choose_larger(left: int, right: int) -> int:
    return max(left, right)
