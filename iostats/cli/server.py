"""
iostats_server.py: the server of one job, which ends with the job's report; or the site's.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from iostats import schedulers
from iostats.base import config as site
from iostats.base import job_id, job_ports
from iostats.base.errors import DONE, StateError, UsageError
from iostats.base.messages import print_message
from iostats.base.units import format_count
from iostats.base.version import format_version
from iostats.cli import CONFIG, Options, flag, option
from iostats.cli.parser import parse_options, run_role, write_output
from iostats.cli.report_file import check_writable, write_report
from iostats.cli.terminal_form import detect_screen
from iostats.node.identity import find_job
from iostats.report import job_tables
from iostats.report.node_sets import unfold_nodes
from iostats.server import journal, process
from iostats.server.job_server import JobServer, make_totals
from iostats.totals.job_totals import Totals
from iostats.wire import auth

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.progress import Progress, TaskID

    from iostats.totals.record import Record

_PRINT_EVERY_S, _POLL_EVERY_S = 10.0, 0.5


class ServerOptions(Options, help="""\
usage: iostats_server.py [options]
       iostats_server.py --site [--listen HOST] [--secret FILE] [--config FILE]
                         [--quiet] [--log-format FORMAT]

Receive the reports of a job's nodes, add them up, print the tables.

With --site: the reports of all jobs, from prologs and epilogs, for as long as
it runs ([site] in site.cfg); `iostats report` prints them.

options:
{options}

examples:
  iostats_server.py --nodes 'nid[00001-00128]' &      before `start`, in a job
  iostats_server.py --job 4711 --nodes 4 --json 4711.json
  iostats_server.py --print-port --job 4711
  iostats_server.py --site

exit status:
  0 the report is printed (its first line lists missing nodes)
  1 the report could not be written; the same command again has all counts
  2 bad usage or site.cfg   3 no port is free
"""):
    site = flag("--site", "the site's server")
    job = option("--job ID", "the job (default: as iostats_client.py)")
    nodes = option("--nodes LIST|COUNT",
                   "the job's nodes: nid[00001-00128,200], a,b,c or a number (default: the batch "
                   "system's; without, the deadline ends it)")
    deadline = option("--deadline S",
                      "wait S seconds for the other nodes after the first `stop` (default: "
                      "site.cfg, 60)")
    format = option("--format FORM", "grid, plain, json, csv or markdown (default: grid)")
    long = flag("--long", "more: calls, mean sizes, network, times, MDTs, nodes")
    explain = flag("--explain", "explain what each number counts, and what it does not")
    output = option("--output FILE", "write the report to FILE (default: standard output)")
    json = option("--json FILE", "write the JSON record, too")
    secret = option("--secret FILE",
                    "the job's secret, created if missing (default: in ~/.iostats); with --site "
                    "the site's (default: site.cfg)")
    config = CONFIG
    state_dir = option("--state-dir DIR",
                       "where the counts are stored until the report is written (default: as "
                       "iostats_client.py)")
    listen = option("--listen HOST[:PORT]",
                    "listen only there (default: all addresses, and the port of the job)")
    print_port = flag("--print-port", "print the job's port, and end")
    quiet = flag("--quiet", "no progress on standard error")
    log_format = option("--log-format FORMAT", "with --site: text, json or journal (default: text)")
    version = flag("--version", "the release, and no more")


def main(arguments: list[str] | None = None) -> int:
    """Run the server; the exit status."""
    return run_role(lambda: _run(parse_options(ServerOptions, arguments)))


def _run(options: ServerOptions) -> int:
    if options.version:
        print(format_version())
        return DONE
    config = site.load(options.config)
    for name, value in (("server.deadline", options.deadline), ("report.format", options.format),
                        ("node.state_dir", options.state_dir)):
        if value is not None:
            config.set_value(name, value, f"--{name.partition('.')[2].replace('_', '-')}")
    if options.site:
        from iostats.cli import serve_site
        return serve_site.run(options, config)
    if options.log_format is not None:
        raise UsageError("--log-format: expected --site with it")
    job = find_job(options.job, config)
    if options.print_port:
        print(job_ports.list_ports(job, config.server.port_first, config.server.port_last, 1)[0])
        return DONE
    process.check_open_files()
    totals = make_totals(config, job, parse_expected_nodes(options.nodes, config.server.max_nodes),
                         Totals)
    for path in filter(None, (options.output, options.json)):
        check_writable(path)
    password, made = None, False
    if "secret" in config.server.auth:
        password = auth.find_secret_path(options.secret, config.secret.dir, job)
        made = auth.make(password)
    with journal.open_job_journal(config.node.state_dir, job, print_message) as job_journal:
        try:
            checks = auth.call_with_timeout(
                auth.MUNGED_TIMEOUT_S, auth.MUNGED_ANSWER, lambda: auth.load_server_credentials(
                    config, job, password, print_message))
            process.use_uvloop()
            asyncio.run(_serve(totals, checks, config, options, job_journal))
        finally:
            if password and made:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(password)
        return _print_report(totals, config, options)


def parse_expected_nodes(text: str | None, max_nodes: int,
                         environ: Mapping[str, str] = os.environ) -> frozenset[str] | int | None:
    """
    The job's nodes: a frozenset of names, a number, or None if unknown.

    `text`: --nodes; without it, the batch system's variables in the environment.
    """
    if text is None:
        text = schedulers.detect_scheduler(environ).about(environ).get("nodes", "")
        if not text:
            return None
    if text.isascii() and text.isdigit():
        count = int(text)
        if not 0 < count <= max_nodes:
            raise UsageError(f"--nodes: expected a number from 1 to {max_nodes}, got {text!r}")
        return count
    try:
        nodes = unfold_nodes(text)
    except ValueError as error:
        raise UsageError(f"--nodes: expected a list such as nid[00001-00128,200], a,b,c or a "
                         f"number, got {text!r} ({error})") from None
    if not 0 < len(nodes) <= max_nodes:
        raise UsageError(f"--nodes: expected 1 to {max_nodes} nodes, got {len(nodes)}")
    return frozenset(job_id.check_node_name(node, "--nodes") for node in nodes)


# -- serving ---------------------------------------------------------------------------------

async def _serve(totals: Totals, checks: Sequence[auth.Credentials], config: site.Config,
                 options: ServerOptions, job_journal: journal.Journal | None) -> None:
    """Serve until all nodes have reported, the deadline has passed, or a signal arrives."""
    process.raise_limits(config)
    gc.freeze()                       # imported modules never become garbage
    server, loop = JobServer(totals, checks, config), asyncio.get_running_loop()
    stopped = []
    if job_journal is not None:
        server.resume(job_journal)

    def stop() -> None:
        stopped.append(True)
        server.reported.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    host, port = "", None
    if options.listen:
        from iostats.wire.client import split_server
        host, port = split_server(options.listen)
    await server.listen(host, port)
    progress = _Progress(totals, options.quiet)
    try:
        progress.begin(server.port)
        if totals.reported:
            print_message(f"{totals.reported} {'node' if totals.reported == 1 else 'nodes'} that "
                          f"an "
                          f"earlier server of this job had counted "
                          f"{'is' if totals.reported == 1 else 'are'} counted")
        await _wait_for_reports(server, totals, config.server.deadline, stopped, progress)
        # Then the answers to the last reports are in the sockets' buffers, or cannot be sent.
        await server.long_answers.finished()
    finally:
        progress.end()
        server.close()


async def _wait_for_reports(server: JobServer, totals: Totals, deadline_s: float,
                            stopped: list[bool],
                            progress: _Progress) -> None:
    ends_at = None
    while not (totals.all_reported or stopped):
        if ends_at is None and server.first_report_at is not None:
            ends_at = time.monotonic() + deadline_s
        left = _POLL_EVERY_S
        if ends_at is not None:
            left = min(left, ends_at - time.monotonic())
            if left <= 0:
                return
        server.reported.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.reported.wait(), left)
        progress.update()


class _Progress:
    """The number of nodes that have reported: a bar on a terminal, a line now and then in a log."""

    def __init__(self, totals: Totals, quiet: bool) -> None:
        self._totals, self._quiet = totals, quiet
        self._bar: Progress | None = None
        self._task: TaskID                            # of the bar, if there is one
        self._printed_at = 0.0

    def begin(self, port: int | None) -> None:
        expected = self._totals.expected_count
        if self._quiet:
            return
        nodes = "an unknown number of nodes" if expected is None else format_count(expected, "node")
        print_message(f"server of job {self._totals.job} on {os.uname().nodename}:{port}, "
                      f"waiting for {nodes}")
        self._printed_at = time.monotonic()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
            self._bar = Progress(TextColumn("nodes reported"), BarColumn(), MofNCompleteColumn(),
                                 console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=expected)
            self._bar.start()

    def update(self) -> None:
        now = time.monotonic()
        if self._bar:
            self._bar.update(self._task, completed=self._totals.reported)
        elif not self._quiet and now - self._printed_at >= _PRINT_EVERY_S:
            self._printed_at = now
            expected = f" of {self._totals.expected_count}" if self._totals.expected_count else ""
            print_message(f"{self._totals.reported}{expected} nodes reported")

    def end(self) -> None:
        if self._bar:
            self._bar.stop()


# -- the report ------------------------------------------------------------------------------

def make_labelled_record(totals: Totals, config: site.Config) -> Record:
    """The labelled record of `totals`, with the batch facts in the environment of its job."""
    return schedulers.add_facts_of_environment(job_tables.add_labels(totals.record(), config),
                                               os.environ)


def _print_report(totals: Totals, config: site.Config, options: ServerOptions) -> int:
    """Write the report and the record; exit status."""
    form = config.report.format
    record = make_labelled_record(totals, config)
    text = job_tables.format_report(record, config, form, options.long, options.explain,
                                    detect_screen(None if options.output else sys.stdout),
                                    measured="from start to stop on each node")
    failed = None
    if options.json:                                   # first: nothing may read our output any more
        try:
            write_report(options.json, job_tables.format_report(record, config, "json"))
        except StateError as error:
            failed = error
    if options.output:
        try:
            write_report(options.output, text)
        except StateError as error:
            failed = error
            write_output([text])  # so that nothing is lost if the disk is full
    else:
        write_output([text])
    if failed:
        raise failed
    return DONE


if __name__ == "__main__":
    sys.exit(main())
