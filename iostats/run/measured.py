"""
One command, measured on all nodes of its job: `iostats run -- srun ./app`.

    server (in this process)  ->  start on every node  ->  the command  ->  stop  ->  totals

A failure here never prevents the command from running.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from typing import TYPE_CHECKING

from iostats.node import wait_for_end
from iostats.run.launcher import POLL_EVERY_S, wait_until
from iostats.totals.job_totals import Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iostats.base.config import Config
    from iostats.run.command import Command
    from iostats.run.launcher import Nodes
    from iostats.server.job_server import JobServer
    from iostats.totals.job_totals import Outcome
    from iostats.wire.messages.report import NodeReport

_CLOCKS_WITHIN_S = 1.0          # how exactly a node's clock is known

_ENDED_EARLY = "its client ended before the command: later I/O is not counted"
_STARTED_LATE = "its client started after the command: earlier I/O is not counted"


class PartTotals(Totals):
    """
    Totals of nodes, some of which may have read their counters too late, or ended before the
    command: their numbers become lower bounds, with the reason.
    """

    # why the present reports do not reach to the command's end; "" if they do
    why_cut: str = _ENDED_EARLY
    # when the command began, if not all nodes were ready by then; None otherwise
    began: float | None = None

    def add(self, report: NodeReport) -> Outcome:  # type: ignore[override]  # what a server gets
        why = self.why_cut
        if not why and self.began is not None and (
                report.ended - report.elapsed_s > self.began - _CLOCKS_WITHIN_S):
            why = _STARTED_LATE
        if why:
            for delta in (*report.deltas, *(delta for phase in report.phases or ()
                                              for delta in phase.deltas)):
                delta.lower_bound = True
                if why not in delta.why and not (           # the node's own reason is more exact
                        why == _ENDED_EARLY and wait_for_end.WENT_ON in delta.why):
                    delta.why = "; ".join(filter(None, (delta.why, why)))
        return super().add(report)


async def run_measured(command: Command, nodes: Nodes | None, server: JobServer | None,
                       config: Config, report: Callable[[], None],
                       log_line: Callable[[str], None]) -> None:
    """
    Run `command`, with its nodes' start before and stop after it.

    `server`: a JobServer that listens, with PartTotals; `report()`: prints the totals, when the
    command has ended, or the job is being ended and the command continues.  `nodes` and
    `server` are None for a command that cannot be measured.
    """
    if nodes is None or server is None:
        await command.run()
        return
    totals: PartTotals = server.totals  # type: ignore[assignment]     # made so by the caller
    all_ready = False
    with _log_errors(log_line):
        all_ready = await nodes.start(totals.expected_count or 1, config.run.start_timeout,
                                      command.signal_received)
    totals.began = None if all_ready else time.time()
    early_report = asyncio.ensure_future(_report_before_kill(command, nodes, totals, config, report,
                                                             log_line))
    await command.run()
    early_report.cancel()
    with _log_errors(log_line):
        if totals.why_cut == _ENDED_EARLY and nodes.are_running:
            totals.why_cut = ""
        _raise_open_files()
        await nodes.stop()
        await _wait_for_reports(command, nodes, server, config)
        if command.has_run:
            report()
        await (nodes.end() if totals.all_reported else nodes.end(0))


@contextlib.contextmanager
def _log_errors(log_line: Callable[[str], None]) -> Iterator[None]:
    """A context that logs errors: the command and its exit status come first."""
    try:
        yield
    except Exception as error:
        log_line(f"continuing without measuring: {error!r}")


async def _report_before_kill(command: Command, nodes: Nodes, totals: PartTotals, config: Config,
                              report: Callable[[], None], log_line: Callable[[str], None]) -> None:
    """Report soon after SIGTERM: the command, and we, may be killed at any moment."""
    await command.terminating.wait()
    await asyncio.sleep(config.run.grace)
    with _log_errors(log_line):
        totals.why_cut = wait_for_end.CUT.format(config.run.grace)
        _raise_open_files()
        await nodes.stop()
        await wait_until(lambda: totals.all_reported or nodes.done, config.run.deadline)
        report()


async def _wait_for_reports(command: Command, nodes: Nodes, server: JobServer,
                            config: Config) -> None:
    """
    Wait until all nodes have reported, none is left that could, or the deadline has passed, which
    is earlier if the job is being ended.
    """
    began, hurries_at = time.monotonic(), None
    while not (server.totals.all_reported or nodes.done or command.stops_waiting):
        now = time.monotonic()
        if command.terminating.is_set() and hurries_at is None:
            hurries_at = now
        if now >= began + config.server.deadline or (
                hurries_at is not None and now >= hurries_at + config.run.deadline):
            return
        server.reported.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.reported.wait(), POLL_EVERY_S)


def _raise_open_files() -> None:
    """Raise our limit of open files, after the command has inherited its own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
