"""
One command, measured on all nodes of its job: `iostats run -- srun ./app`.

    server (in this process)  ->  start on every node  ->  the command  ->  stop  ->  totals

Nothing that fails here keeps the command from running.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time

from iostats.node import wait_for_end
from iostats.run.launcher import LOOK_EVERY_S, wait_until
from iostats.totals.job_totals import Totals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from iostats.base.config import Config
    from iostats.run.command import Command
    from iostats.run.launcher import Nodes
    from iostats.server.job_server import JobServer
    from iostats.totals.job_totals import Outcome

_CLOCKS_S = 1.0                   # a node's clock is known to this

_LEFT = "its client has ended before the command: what was done after that is not counted"
_LATE = "its start came after the command's: what was done before that is not counted"


class PartTotals(Totals):
    """
    Totals of nodes of which some may have looked too late, or not until the command's end: what
    they tell is a lower bound then, and says why.

    Attributes:
        why_cut: why what is reported now does not reach to the command's end; "" when it does.
        began: when the command began, where not all nodes were ready by then; None otherwise.
    """

    why_cut: str = _LEFT
    began: float | None = None

    def add(self, report: Any) -> Outcome:
        why = self.why_cut
        if not why and self.began is not None and (
                report.ended - report.elapsed_s > self.began - _CLOCKS_S):
            why = _LATE
        if why:
            for delta in (*report.deltas, *(one for phase in report.phases or ()
                                            for one in phase.deltas)):
                delta.lower_bound = True
                if why not in delta.why and not (           # the node's own word says more
                        why == _LEFT and wait_for_end.WENT_ON in delta.why):
                    delta.why = "; ".join(filter(None, (delta.why, why)))
        return super().add(report)


async def measured(command: Command, nodes: Nodes | None, server: JobServer | None, config: Config,
                   report: Callable[[], None], say: Callable[[str], None]) -> None:
    """
    Run `command`, with its nodes' start before and stop after it.

    `server`: a JobServer that listens, with PartTotals; `report()`: prints what is known, when the
    command has ended, or the job is being ended and the command goes on.  `nodes` and `server` are
    None for a command that can't be measured.
    """
    if nodes is None or server is None:
        await command.run()
        return
    totals: PartTotals = server.totals  # type: ignore[assignment]     # as the caller made it
    in_time = False
    with _whatever_happens(say):
        in_time = await nodes.start(totals.expected_count or 1, config["run.start_timeout"],
                                    command.told)
    totals.began = None if in_time else time.time()
    early = asyncio.ensure_future(_early(command, nodes, totals, config, report, say))
    await command.run()
    early.cancel()
    with _whatever_happens(say):
        if totals.why_cut == _LEFT and nodes.stay:
            totals.why_cut = ""
        _raise_open_files()
        await nodes.stop()
        await _heard(command, nodes, server, config)
        if command.has_run:
            report()
        await (nodes.end() if totals.all_heard else nodes.end(0))


@contextlib.contextmanager
def _whatever_happens(say: Callable[[str], None]) -> Iterator[None]:
    """The command and its exit status come first, whatever is wrong with us."""
    try:
        yield
    except Exception as error:
        say(f"going on without: {error!r}")


async def _early(command: Command, nodes: Nodes, totals: PartTotals, config: Config,
                 report: Callable[[], None], say: Callable[[str], None]) -> None:
    """A job that is being ended has little time: its command may be killed with us any moment."""
    await command.ending.wait()
    await asyncio.sleep(config["run.grace"])
    with _whatever_happens(say):
        totals.why_cut = wait_for_end.CUT.format(config["run.grace"])
        _raise_open_files()
        await nodes.stop()
        await wait_until(lambda: totals.all_heard or nodes.done, config["run.deadline"])
        report()


async def _heard(command: Command, nodes: Nodes, server: JobServer, config: Config) -> None:
    """
    Wait until all nodes have reported, none is left who could, or time is over; where the job is
    being ended that is sooner.
    """
    began, hurries_at = time.monotonic(), None
    while not (server.totals.all_heard or nodes.done or command.impatient):
        now = time.monotonic()
        if command.ending.is_set() and hurries_at is None:
            hurries_at = now
        if now >= began + config["server.deadline"] or (
                hurries_at is not None and now >= hurries_at + config["run.deadline"]):
            return
        server.heard.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.heard.wait(), LOOK_EVERY_S)


def _raise_open_files() -> None:
    """As many open files as the system allows; once the command has its own limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
