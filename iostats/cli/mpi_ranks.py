"""
start, mark and stop --mpi: the part of one rank of an MPI program.
"""

from __future__ import annotations

from iostats.base import private_files
from iostats.base.errors import IostatsError, UsageError
from iostats.cli import node
from iostats.node import identity as this_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.node.measurement import Ended
    from iostats.totals.received_report import SentReport
    from iostats.wire.method_name import AnswerT, MethodName


def main(arguments: list[str]) -> int:
    """Run the command on this rank; the exit status, the same on all ranks."""
    from iostats.node import mpi_reduce
    member = Rank(arguments, mpi_reduce.ROLES)
    return mpi_reduce.run(mpi_reduce.join(member.emit), member)


class Rank:
    """One rank's part of the command, as mpi_reduce.run requires."""

    def __init__(self, arguments: list[str], roles: Iterable[str]) -> None:
        self.role: str | None = None
        self.job: str | None = None
        self.node: str | None = None
        self.failed: IostatsError | None = None
        self._given: dict[str, str] = {}
        try:
            self.role, self._given = node.parse(arguments)
            self.node = this_node.find_node_name(self._given.get("--node"))
            if self.role not in roles:
                raise UsageError(f"--mpi: expected one of {' '.join(roles)}, got {self.role}")
            self._config = node.load_config(self._given)
            self.job = this_node.find_job(self._given.get("--job"), self._config)
            if self.role == "stop":
                node.check_server(self._config)
        except IostatsError as error:
            self.failed = error

    def act(self) -> int:
        act = node.start if self.role == "start" else node.mark
        return act(self._given, self._config, node.check_root(self._given))

    def end(self) -> Ended:
        self._work = node.make_work(self._given, self._config, node.check_root(self._given))
        return self._work.end()

    def ask(self, method: MethodName[AnswerT], params: dict[str, object]) -> AnswerT:
        from iostats.wire import auth, client
        return client.deliver(
            {"job": self.job, "node": self.node, **params}, self._config.server.host,
            auth.find_secret_path(self._given.get("--secret"), self._config.secret.dir,
                                  self.job or ""),
            self._config, self.emit, job_uid=node.find_job_uid(self._config), method=method)

    def remove_report(self, path: str) -> None:
        private_files.remove_if_present(path)

    def done(self) -> None:
        self._work.delivered()

    def status(self, reports: list[SentReport]) -> int:
        return node.choose_exit_status(self._given, reports)

    def emit(self, text: str) -> None:
        node.print_unless_quiet(self._given, text)

    def report_error(self, error: BaseException) -> None:
        node.print_unless_quiet({}, error)
