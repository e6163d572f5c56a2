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

from iostats import __version__, schedulers
from iostats.base import config as site
from iostats.base import job_id
from iostats.base.errors import DONE, StateError, UsageError
from iostats.cli.parser import parser, put_out, say, status_of
from iostats.cli.report_file import check_writable, write_report
from iostats.cli.terminal_form import screen_of
from iostats.node.identity import job as job_of
from iostats.report import job_tables
from iostats.report.node_sets import unfolded
from iostats.server import journal, process
from iostats.server.job_server import JobServer, totals_options
from iostats.totals.job_totals import Totals
from iostats.wire import auth, secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from rich.progress import Progress, TaskID

    from iostats.totals.record import Record

_SAY_EVERY_S, _LOOK_EVERY_S = 10.0, 0.5

HELP = """\
usage: iostats_server.py [options]
       iostats_server.py --site [--listen HOST] [--secret FILE] [--config FILE]
                         [--quiet]

Receive the reports of a job's nodes, add them up, print the tables.

With --site: the reports of all jobs, from prologs and epilogs, for as long as
it runs ([site] in site.cfg); `iostats report` prints them.

options:
  --site                the site's server
  --job ID              the job (default: as iostats_client.py)
  --nodes LIST|COUNT    the job's nodes: nid[00001-00128,200], a,b,c or a number
                        (default: the batch system's; without, the deadline
                        ends it)
  --deadline S          wait S seconds for the other nodes after the first
                        `stop` (default: site.cfg, 60)
  --format FORM         grid, plain, json, csv or markdown (default: grid)
  --long                more: calls, mean sizes, network, times, MDTs, nodes
  --explain             say of each number what it counts, and what it does not
  --output FILE         the report goes there (default: standard output)
  --json FILE           the JSON record goes there as well
  --secret FILE         the job's secret, made if it is not there (default: in
                        ~/.iostats); with --site the site's (default: site.cfg)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  --state-dir DIR       where what was counted is kept until the report is
                        written (default: as iostats_client.py)
  --listen HOST[:PORT]  listen there alone (default: all addresses, and the port
                        of the job)
  --print-port          print the job's port, and end
  --quiet               no progress on standard error
  --version             the release, and no more
  -h, --help            this text

examples:
  iostats_server.py --nodes 'nid[00001-00128]' &      before `start`, in a job
  iostats_server.py --job 4711 --nodes 4 --json 4711.json
  iostats_server.py --print-port --job 4711
  iostats_server.py --site

exit status:
  0 the report is printed (its first line says who is missing)
  1 the report could not be written where it should be; the same command again
    has all that was counted
  2 bad usage or site.cfg   3 no port could be had
"""

WITH_VALUE = ("--job", "--nodes", "--deadline", "--format", "--output", "--json", "--secret",
              "--config", "--state-dir", "--listen")
FLAGS = ("--long", "--explain", "--print-port", "--quiet", "--site", "--version")


def main(arguments: list[str] | None = None) -> int:
    """Run the server; the exit status."""
    return status_of(lambda: _run(parser("iostats_server.py", HELP, WITH_VALUE,
                                         FLAGS).parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    if options.version:
        print(f"iostats {__version__}")
        return DONE
    config = site.load(options.config)
    for note in config.notes:
        say(note)
    for name, given in (("server.deadline", options.deadline), ("report.format", options.format),
                        ("node.state_dir", options.state_dir)):
        if given is not None:
            config.take(name, given, f"--{name.partition('.')[2].replace('_', '-')}")
    if options.site:
        from iostats.cli import serve_site
        return serve_site.run(options, config)
    job = job_of(options.job, config)
    if options.print_port:
        print(job_id.ports(job, config["server.port_first"], config["server.port_last"], 1)[0])
        return DONE
    process.check_open_files()
    totals = Totals(job, expected_nodes(options.nodes, config["server.max_nodes"]),
                    **totals_options(config))
    for path in filter(None, (options.output, options.json)):
        check_writable(path)
    password, made = None, False
    if "secret" in config["server.auth"]:
        password = secret.where(options.secret, config["secret.dir"], job)
        made = secret.make(password)
    with journal.kept(config["node.state_dir"], job, say) as kept:
        try:
            checks = auth.with_timeout(
                auth.MUNGED_TIMEOUT_S, auth.MUNGED_ANSWER, lambda: auth.server_credentials(
                    config, job, password, say))
            process.use_uvloop()
            asyncio.run(_serve(totals, checks, config, options, kept))
        finally:
            if password and made:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(password)
        return _print(totals, config, options)


def expected_nodes(given: str | None, most: int,
                   environ: Mapping[str, str] = os.environ) -> frozenset[str] | int | None:
    """
    The job's nodes: a frozenset of names, a number, or None where it is not known.

    `given`: --nodes; without it, what the batch system says in the environment.
    """
    if given is None:
        given = schedulers.here(environ).about(environ).get("nodes", "")
        if not given:
            return None
    if given.isascii() and given.isdigit():
        count = int(given)
        if not 0 < count <= most:
            raise UsageError(f"--nodes: expected a number from 1 to {most}, got {given!r}")
        return count
    try:
        nodes = unfolded(given)
    except ValueError as error:
        raise UsageError(f"--nodes: expected a list such as nid[00001-00128,200], a,b,c or a "
                         f"number, got {given!r} ({error})") from None
    if not 0 < len(nodes) <= most:
        raise UsageError(f"--nodes: expected 1 to {most} nodes, got {len(nodes)}")
    return frozenset(job_id.checked_node_name(node, "--nodes") for node in nodes)


# -- the life of the server ------------------------------------------------------------------

async def _serve(totals: Totals, checks: Sequence[auth.Credentials], config: site.Config,
                 options: argparse.Namespace, kept: journal.Journal | None) -> None:
    """Listen until all nodes are heard, the deadline is over, or a signal comes."""
    process.raise_limits(config)
    gc.freeze()                       # what is imported by now never becomes garbage
    server, loop = JobServer(totals, checks, config), asyncio.get_running_loop()
    stopped = []
    if kept is not None:
        server.resume(kept)

    def stop() -> None:
        stopped.append(True)
        server.heard.set()

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
            say(f"{totals.reported} {'node' if totals.reported == 1 else 'nodes'} that an earlier "
                f"server of this job had counted {'is' if totals.reported == 1 else 'are'} "
                f"counted")
        await _until_the_end(server, totals, config["server.deadline"], stopped, progress)
        # Those to the last reports are in the sockets' buffers then, or will not leave.
        await server.long_answers.finished()
    finally:
        progress.end()
        server.close()


async def _until_the_end(server: JobServer, totals: Totals, deadline_s: float, stopped: list[bool],
                         progress: _Progress) -> None:
    ends_at = None
    while not (totals.all_heard or stopped):
        if ends_at is None and server.first_report_at is not None:
            ends_at = time.monotonic() + deadline_s
        left = _LOOK_EVERY_S
        if ends_at is not None:
            left = min(left, ends_at - time.monotonic())
            if left <= 0:
                return
        server.heard.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.heard.wait(), left)
        progress.update()


class _Progress:
    """How many nodes have reported: a bar on a terminal, a line now and then in a log."""

    def __init__(self, totals: Totals, quiet: bool) -> None:
        self._totals, self._quiet = totals, quiet
        self._bar: Progress | None = None
        self._task: TaskID                            # of the bar, once that is there
        self._said_at = 0.0

    def begin(self, port: int | None) -> None:
        expected = self._totals.expected_count
        if self._quiet:
            return
        nodes = "an unknown number of" if expected is None else expected
        print(f"iostats: server of job {self._totals.job} on {os.uname().nodename}:{port}, "
              f"waiting for {nodes} nodes", file=sys.stderr, flush=True)
        self._said_at = time.monotonic()
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
        elif not self._quiet and now - self._said_at >= _SAY_EVERY_S:
            self._said_at = now
            of = f" of {self._totals.expected_count}" if self._totals.expected_count else ""
            print(f"iostats: {self._totals.reported}{of} nodes reported", file=sys.stderr,
                  flush=True)

    def end(self) -> None:
        if self._bar:
            self._bar.stop()


# -- the report ------------------------------------------------------------------------------

def record_of(totals: Totals, config: site.Config) -> Record:
    """The labelled record of `totals`; a task of an array has the id by which users know it."""
    record = job_tables.labelled(totals.record(), config)
    return record.replaced(job=record.job.replaced(
        id=schedulers.shown_as(record.job.id, os.environ)))


def _print(totals: Totals, config: site.Config, options: argparse.Namespace) -> int:
    """Write the report and the record; exit status."""
    form = config["report.format"]
    record = record_of(totals, config)
    text = job_tables.text(record, config, form, options.long, options.explain,
                           screen_of(None if options.output else sys.stdout),
                           measured="from start to stop on each node")
    failed = None
    if options.json:                                   # before what somebody may not read any more
        try:
            write_report(options.json, job_tables.text(record, config, "json"))
        except StateError as error:
            failed = error
    if options.output:
        try:
            write_report(options.output, text)
        except StateError as error:
            failed = error
            put_out([text])                            # nothing is lost with a full disk
    else:
        put_out([text])
    if failed:
        raise failed
    return DONE


if __name__ == "__main__":
    sys.exit(main())
