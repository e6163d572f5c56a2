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
from iostats.node.measurement import why_without
from iostats.totals.job_totals import Totals
from iostats.totals.node_report import Report
from iostats.wire import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

ROLES = ("start", "mark", "stop")
# How many ranks a launcher has started, and which of them this is.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


class Silent(IostatsError):
    """An error of which another rank tells; its text is empty."""

    def __init__(self, exit_status: int) -> None:
        super().__init__("")
        self.exit_status = exit_status


def join(say: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> Any:
    """MPI's world of ranks; UsageError where there is none that makes sense."""
    import warnings
    try:
        import mpi4py
        mpi4py.rc.threads = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")             # of a wrong pairing, which we tell below
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise _once(UsageError(f"--mpi: mpi4py cannot be used with {sys.executable}: {why}; "
                               f"install it there with an MPI (pip install mpi4py mpich), or go "
                               f"without --mpi"), environ) from None
    MPI.pickle.__init__(_encoded, _decoded)  # type: ignore[misc]     # as mpi4py wants it
    comm = MPI.COMM_WORLD
    started = next((int(environ[name]) for name in _SIZES if _is_number(environ.get(name, ""))), 1)
    if comm.Get_size() == 1 < started:
        raise _once(UsageError(
            f"--mpi: expected {started} ranks, as the launcher has started, got {started} times 1: "
            f"mpi4py is of another MPI ({MPI.get_vendor()[0]}) than mpirun or srun; use those of "
            f"one MPI (with srun see --mpi=list)"), environ)
    tasks = environ.get("SLURM_NTASKS", "")
    if comm.Get_size() == 1 and _is_number(tasks) and int(tasks) > 1:
        say(f"--mpi: one rank, on this node alone; for all {tasks} tasks of the job start it with "
            f"srun or mpirun")
    return comm


def _encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _decoded(data: bytes | bytearray | memoryview) -> Any:
    return json.loads(bytes(data))


def _is_number(text: str) -> bool:
    return bool(text) and text.isascii() and text.isdigit() and len(text) < 9


def _once(error: IostatsError, environ: Mapping[str, str]) -> IostatsError:
    """`error` on the first rank, and on others one that says nothing."""
    rank = next((environ[name] for name in _RANKS if environ.get(name)), "0")
    return error if rank == "0" else Silent(error.exit_status)


def run(comm: Any, member: Any) -> int:
    """
    Do what `member` is to do, along all ranks of `comm`; the exit status, the same on each.

    `member` is this rank's part:

        role, node, job      of this rank; None where its command line or site.cfg has a mistake
        failed               the IostatsError that names the mistake, or None
        act()                start or mark on this node; the exit status
        end()                (reports, failed, damaged), as of measure.Work.end
        ask(method, params)  the server's answer; NotDelivered
        forget(path)         a report has been delivered; `path` as in `reports`
        done()               all that was on this node has been delivered
        status(reports)      the exit status for delivered reports
        say(text), tell(error)   to the user, where wanted; in any case
    """
    ranks = _Ranks(comm, member)
    if ranks.leader is None:
        status = ranks.tell(member.failed)
    elif ranks.role == "stop":
        status = _stop(ranks, member)
    else:
        status = _act(ranks, member)
    largest: int = comm.allreduce(status, op=_larger)
    return largest


class _Ranks:
    """
    Who is who.

    Attributes:
        role, job: those of the leader.
        leader: the rank that talks to the server: the lowest that is sound; None for none.
        works: this rank acts for its node.
        failed: why it can't, though it should; None.
    """

    def __init__(self, comm: Any, member: Any) -> None:
        self.comm, self.member, rank = comm, member, comm.Get_rank()
        everyone = comm.allgather([member.role, member.node, member.job,
                                   member.failed is None])
        sound = [one for one in range(len(everyone)) if everyone[one][3]]
        self.leader = sound[0] if sound else None
        self.role, _, self.job, _ = everyone[sound[0] if sound else 0]
        alike = [one for one in sound if everyone[one][0] == self.role
                 and everyone[one][2] == self.job]
        workers: dict[str | None, int] = {}         # node -> the rank that works there
        for one in [*alike, *range(len(everyone))]:
            workers.setdefault(everyone[one][1], one)
        self.works = workers[member.node] == rank or (member.node is None and rank not in sound)
        self.failed = member.failed
        if self.works and not self.failed and rank not in alike:
            self.failed = UsageError(
                f"--mpi: expected `{self.role}` of job {self.job}, as on rank {self.leader}, got "
                f"`{member.role}` of job {member.job} on {member.node}")

    def tell(self, error: IostatsError | None) -> int:
        """Tell the user, where this rank is the one to do so; the exit status."""
        if error is None:
            return DONE
        if self.works and not isinstance(error, Silent):
            self.member.tell(error)
        return error.exit_status

    def from_leader(self, act: Callable[[], Any]) -> tuple[Any, Any]:
        """(result, error) of `act()`, done by the leader, on every rank."""
        found = None
        if self.comm.Get_rank() == self.leader:
            value, error = _tried(act)
            found = [value, None if error is None else [
                str(error), error.exit_status, getattr(error, "later", True)]]
        value, error = self.comm.bcast(found, root=self.leader)
        return value, error


def _tried(act: Callable[[], Any]) -> tuple[Any, IostatsError | None]:
    """(result, None) or (None, IostatsError), whatever happens: other ranks wait for this one."""
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


def _act(ranks: _Ranks, member: Any) -> int:
    if not ranks.works:
        return DONE
    status: Any
    status, error = (None, ranks.failed) if ranks.failed else _tried(member.act)
    return status if error is None else ranks.tell(error)


# -- stop --------------------------------------------------------------------------------------

def _stop(ranks: _Ranks, member: Any) -> int:
    reports: dict[str, dict[str, Any]] = {}
    failed: IostatsError | None = None
    damaged: IostatsError | None = None
    error = ranks.failed
    if ranks.works and error is None:
        found, error = _tried(member.end)
        reports, failed, damaged = found or (reports, failed, damaged)
    why = why_without(failed) if failed else str(error or "")[:500]
    failed = failed or error
    now, refusal = ranks.from_leader(lambda: _server_now(member))
    counted: dict[str, str] = {}
    answer: Any = None
    if refusal is None:
        ahead_s = 0.0 if now is None else round(time.time() - now, 3)
        totals, error = _tried(lambda: _totals(ranks, member, reports, why, ahead_s, counted))
        if error is not None:
            counted.clear()
            failed = failed or error
        state = ranks.comm.reduce(totals, op=merged_states, root=ranks.leader)
        answer, refusal = ranks.from_leader(lambda: _sent(ranks, member, state))
    if not ranks.works:
        return DONE
    if refusal is not None:
        return max(NOT_REACHED, _not_delivered(ranks, member, refusal, reports, failed))
    status = DONE
    for path, why in counted.items():
        if why:
            member.say(why)
        member.forget(path)
    if answer.get("why") and ranks.comm.Get_rank() == ranks.leader:
        member.say(str(answer["why"]))
    for error in (failed, damaged):
        status = max(status, ranks.tell(error))
    if failed is None and damaged is None and len(counted) == len(reports):
        member.done()
    if reports:
        found, error = _tried(lambda: member.status(list(reports.values())))
        status = max(status, found if error is None else ranks.tell(error))
    return status


def _not_delivered(ranks: _Ranks, member: Any, refusal: Sequence[Any], reports: dict[str, Any],
                   failed: IostatsError | None) -> int:
    """Say what became of this node's reports; the exit status of what else went wrong."""
    status: int
    text, status, later = refusal
    if ranks.comm.Get_rank() == ranks.leader:
        again = ", and `stop` again sends them" if later else ""
        member.tell(NotDelivered(f"{text}; each node keeps its reports{again} (without --mpi each "
                                 f"node sends its own)"))
    return max(status, ranks.tell(failed))


def _server_now(member: Any) -> float:
    """The server's clock, in terms of this node's."""
    answer = member.ask("hello", {})
    asked_at = time.time()
    ahead_s = asked_at - float(answer["time"])
    return time.time() - ahead_s


def _totals(ranks: _Ranks, member: Any, reports: dict[str, dict[str, Any]], why: str,
            ahead_s: float, counted: dict[str, str]) -> dict[str, Any] | None:
    """
    Totals.state() of this node, or None for a rank that has nothing to say of it.

    `why`: it has no numbers of its work, or "".  `counted`: {path: why} of the reports that are in
    the totals, to be filled.
    """
    if not ranks.works or member.node is None:
        return None
    totals = Totals(ranks.job)
    for path, params in sorted(reports.items(), key=lambda item: item[1]["ended"]):
        outcome = totals.add(report_of(params, ahead_s))
        if outcome.counted:
            counted[path] = outcome.why
        else:
            member.say(f"{outcome.why}; kept in {path}")
    if why:
        totals.add(Report(member.node, "", "", "", why, 0.0, 0.0, 0.0, {}, ()))
    return totals.state()


def report_of(params: dict[str, Any], ahead_s: float) -> Report:
    """The params of the method `report` as Totals.add takes them, by the server's clock."""
    def deltas(found: Iterable[dict[str, Any]]) -> list[SimpleNamespace]:
        return [SimpleNamespace(**{"target": "", "lower_bound": False, "why": "", "proved": False,
                                   **one}) for one in found]
    return Report(
        params["node"], params["seq"], params["boot_id"], params["user"], params["reason"],
        params["ended"] - ahead_s, params["elapsed_s"], ahead_s, params["mounts"],
        deltas(params["deltas"]), params.get("dirty_bytes"), params.get("other_jobs"),
        [SimpleNamespace(name=one["name"], elapsed_s=one["elapsed_s"], deltas=deltas(one["deltas"]))
         for one in params.get("phases", ())],
        {name: SimpleNamespace(**one) for name, one in params.get("series", {}).items()},
        params.get("uptime_s", 0.0),
        [_event(one, ahead_s) for one in params["events"]] if "events" in params else None,
        params.get("events_dropped", 0), params.get("events_unseen", ""))


def _event(one: dict[str, Any], ahead_s: float) -> SimpleNamespace:
    return SimpleNamespace(**{**one, **{name: one[name] - ahead_s
                                        for name in ("time", "last", "over")
                                        if one[name] is not None}})


def merged_states(one: dict[str, Any] | None,
                  other: dict[str, Any] | None) -> dict[str, Any] | None:
    """Two states in one; the states of ranks that have nothing to say are None."""
    if one is None or other is None:
        return one if other is None else other
    totals, error = _tried(lambda: _both(one, other))
    return {"failed": str(error)} if error is not None else totals


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    for state in (one, other):
        if "failed" in state:
            return state
    totals = Totals.from_state(one)
    outcome = totals.merge(Totals.from_state(other))
    return totals.state() if outcome.counted else {"failed": outcome.why}


def _sent(ranks: _Ranks, member: Any, state: dict[str, Any]) -> Any:
    """The server's answer to the state of all nodes."""
    if "failed" in state:
        raise IostatsError(state["failed"])
    # The same work has the same name: what is sent again, in doubt, is counted once.
    work = [sorted((node, part[0]) for node, parts in state["parts"].items() for part in parts),
            sorted(state["without"])]
    return member.ask("totals", {
        "protocol": protocol.PROTOCOL, "job": ranks.job, "node": member.node,
        "seq": hashlib.sha256(_encoded(work)).hexdigest()[:32], "state": state}) or {}


def _larger(one: int, other: int) -> int:
    return max(one, other)
