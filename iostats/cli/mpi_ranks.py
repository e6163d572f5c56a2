"""
start, mark and stop --mpi: what one rank of an MPI program does for its node.
"""

from __future__ import annotations

from iostats.base import private_files
from iostats.base.errors import IostatsError, UsageError
from iostats.cli import node
from iostats.node import identity as this_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from iostats.node.measurement import Ended


def main(arguments: list[str]) -> int:
    """Run the command on this rank; the exit status, the same on all ranks."""
    from iostats.node import mpi_reduce
    member = Rank(arguments, mpi_reduce.ROLES)
    return mpi_reduce.run(mpi_reduce.join(member.say), member)


class Rank:
    """What one rank does, as mpi_reduce.run says."""

    def __init__(self, arguments: list[str], roles: Iterable[str]) -> None:
        self.role: Any = None                           # text, as is `job`, unless it failed
        self.job: Any = None
        self.node: str | None = None
        self.failed: IostatsError | None = None
        self._given: dict[str, Any] = {}
        try:
            self.role, self._given = node.parse(arguments)
            self.node = this_node.name(self._given.get("--node"))
            if self.role not in roles:
                raise UsageError(f"--mpi: expected one of {' '.join(roles)}, got {self.role}")
            self._config = node.config_of(self._given)
            self.job = this_node.job(self._given.get("--job"), self._config)
            if self.role == "stop":
                node.check_server(self._config)
        except IostatsError as error:
            self.failed = error

    def act(self) -> int:
        return {"start": node.start, "mark": node.mark}[self.role](self._given, self._config,
                                                           node.root_of(self._given))

    def end(self) -> Ended:
        self._work = node.work_of(self._given, self._config, node.root_of(self._given))
        return self._work.end()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        from iostats.wire import client, secret
        return client.deliver(
            {"job": self.job, "node": self.node, **params}, self._config["server.host"],
            secret.where(self._given.get("--secret"), self._config["secret.dir"], self.job),
            self._config, self.say, job_uid=node.job_uid(self._config), method=method)

    def forget(self, path: str) -> None:
        private_files.forget(path)

    def done(self) -> None:
        self._work.delivered()

    def status(self, reports: list[dict[str, Any]]) -> int:
        return node.status_of_reports(self._given, reports)

    def say(self, text: str) -> None:
        node.say(self._given, text)

    def tell(self, error: BaseException) -> None:
        node.say({}, error)
