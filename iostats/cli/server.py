"""
iostats_server.py: the server of one job, which ends with the job's report; or the site's.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import resource
import signal
import socket
import stat
import sys
import time

from iostats import schedulers
from iostats.base import config as site
from iostats.base import job_id, logs, private_files
from iostats.base.errors import DONE, StateError, UsageError, one_line
from iostats.cli.parser import parser, put_out, status_of
from iostats.node.identity import job as job_of
from iostats.report import job_tables, json_and_csv
from iostats.report.node_sets import unfolded
from iostats.server import journal
from iostats.server.job_server import JobServer, totals_options
from iostats.totals.job_totals import Totals
from iostats.wire import auth, secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rich.progress import Progress, TaskID

    from iostats.site.store import Store

_SAY_EVERY_S, _LOOK_EVERY_S = 10.0, 0.5
_MUNGED_WITHIN_S, _MUNGED = 20.0, "answer of munged (was it stopped? site.cfg: [server] auth)"
_FEWEST_FILES = 32
_M_MMAP_THRESHOLD = -3                                 # of <malloc.h>

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
FLAGS = ("--long", "--explain", "--print-port", "--quiet", "--site")


def main(arguments: list[str] | None = None) -> int:
    """Run the server; the exit status."""
    return status_of(lambda: _run(parser("iostats_server.py", HELP, WITH_VALUE,
                                         FLAGS).parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    config = site.load(options.config)
    for note in config.notes:
        _say(note)
    for name, given in (("server.deadline", options.deadline), ("report.format", options.format),
                        ("node.state_dir", options.state_dir)):
        if given is not None:
            config.take(name, given, f"--{name.partition('.')[2].replace('_', '-')}")
    if options.site:
        return _run_site(options, config)
    job = job_of(options.job, config)
    if options.print_port:
        print(job_id.ports(job, config["server.port_first"], config["server.port_last"], 1)[0])
        return DONE
    check_open_files()
    totals = Totals(job, expected_nodes(options.nodes, config["server.max_nodes"]),
                    **totals_options(config))
    for path in filter(None, (options.output, options.json)):
        _check_writable(path)
    password, made = None, False
    if "secret" in config["server.auth"]:
        password = secret.where(options.secret, config["secret.dir"], job)
        made = secret.make(password)
    with journal.kept(config["node.state_dir"], job, _say) as kept:
        try:
            checks = auth.with_timeout(_MUNGED_WITHIN_S, _MUNGED, lambda: auth.server_credentials(
                config, job, password, _say))
            event_loop_policy()
            asyncio.run(_serve(totals, checks, config, options, kept))
        finally:
            if password and made:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(password)
        return _print(totals, config, options)


def _run_site(options: argparse.Namespace, config: site.Config) -> int:
    from iostats.site.store import Store
    from iostats.wire import protocol
    from iostats import sinks
    sinks.add_sections(config)
    logs.to_standard_error(logging.WARNING if options.quiet else logging.INFO)
    if options.secret is not None:
        config.take("site.secret", options.secret, "--secret")
    if "secret" in config["server.auth"] and secret.make(config["site.secret"]):
        _say(f"{config['site.secret']}: a new secret; copy it to all nodes, for root alone")
    checks = auth.with_timeout(_MUNGED_WITHIN_S, _MUNGED, lambda: auth.server_credentials(
        config, protocol.SITE, config["site.secret"], _say, uids=auth.ANYONE))
    store, outlets = Store(config["site.store"]), []
    event_loop_policy()
    try:
        outlets = sinks.of(config, _say)
        asyncio.run(_serve_site(store, checks, config, options, outlets))
    finally:
        for outlet in outlets:
            outlet.close()
        store.close()
    return DONE


async def _serve_site(store: Store, checks: Sequence[auth.Credentials], config: site.Config,
                      options: argparse.Namespace, outlets: list[Any]) -> None:
    from iostats.site.receive import SiteServer
    _raise_limits(config, 64 + sum(outlet.connections for outlet in outlets))
    server = SiteServer(store, checks, config, time.time, outlets)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.listen(options.listen or "")
    _tell_systemd("READY=1")
    if not options.quiet:
        _say(f"the site's server on {os.uname().nodename}:{server.port}, {config['site.store']}")
        asyncio.get_running_loop().run_in_executor(None, _tell_of_comments, config)
    working = asyncio.ensure_future(server.work())
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()                           # it never ends but by a bug of ours
    finally:
        server.close()
        working.cancel()
        stopping.cancel()


def _tell_of_comments(config: site.Config) -> None:
    private, said = schedulers.who_reads_comments(config)
    if not private:
        _say(said)


def _tell_systemd(text: str) -> None:
    """sd_notify(3), for a unit of Type=notify: who starts it waits until it listens."""
    where = os.environ.get("NOTIFY_SOCKET", "")
    if where.startswith(("/", "@")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.connect(where.replace("@", "\0", 1) if where[0] == "@" else where)
            one.send(text.encode())


def _say(text: str) -> None:
    print(f"iostats: {one_line(text)}", file=sys.stderr, flush=True)


def expected_nodes(given: str | None, most: int,
                   environ: Mapping[str, str] = os.environ) -> frozenset[str] | int | None:
    """
    The job's nodes: a frozenset of names, a number, or None when nobody tells.

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


def _check_writable(path: str) -> None:
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory) or not os.access(directory, os.W_OK):
        raise UsageError(f"{path}: cannot be written: {directory} is not a directory we may write "
                         "to")


# -- the life of the server ------------------------------------------------------------------

def event_loop_policy() -> None:
    """uvloop takes twice the connections a second; without it everything works as well."""
    with contextlib.suppress(ModuleNotFoundError):
        import uvloop
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def _return_memory() -> None:
    """
    Large messages go back to the kernel when they are done with.

    glibc keeps what was freed once: after a 16 MiB message it takes the next ones from a heap that
    does not shrink.  Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    with contextlib.suppress(OSError, AttributeError):           # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 17)


def check_open_files() -> None:
    """StateError where even a small job could not be served."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < _FEWEST_FILES:
        raise StateError(f"open files: expected a limit of at least {_FEWEST_FILES}, got {hard} "
                         f"(ulimit -Hn)")


def _raise_limits(config: site.Config, others: int = 64) -> None:
    """As many open files as the system allows, and no more connections than that, less `others`."""
    _return_memory()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    most = max(16, min(config["server.max_connections"], soft - others))
    config.take("server.max_connections", str(most), "the limit of open files (ulimit -n)")


async def _serve(totals: Totals, checks: Sequence[auth.Credentials], config: site.Config,
                 options: argparse.Namespace, kept: journal.Journal | None) -> None:
    """Listen until all nodes are heard, the deadline is over, or a signal comes."""
    _raise_limits(config)
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
    say = _Progress(totals, options.quiet)
    try:
        say.begin(server.port)
        if totals.reported:
            _say(f"{totals.reported} {'node' if totals.reported == 1 else 'nodes'} that an earlier "
                 f"server of this job had counted {'is' if totals.reported == 1 else 'are'} "
                 f"counted")
        await _until_the_end(server, totals, config["server.deadline"], stopped, say)
        # Those to the last reports are in the sockets' buffers then, or will not leave.
        await server.long_answers.finished()
    finally:
        say.end()
        server.close()


async def _until_the_end(server: JobServer, totals: Totals, deadline_s: float, stopped: list[bool],
                         say: _Progress) -> None:
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
        say.update()


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

def _print(totals: Totals, config: site.Config, options: argparse.Namespace) -> int:
    """Write the report and the record; exit status."""
    form = config["report.format"]
    record = job_tables.labelled(totals.record(options.long or form == "json"), config)
    text = job_tables.text(record, config, form, options.long, options.explain)
    failed = None
    if options.json:                                   # before what somebody may not read any more
        try:
            write_whole(options.json, json_and_csv.as_json(job_tables.labelled(
                totals.record(), config)))
        except StateError as error:
            failed = error
    if options.output:
        try:
            write_whole(options.output, text)
        except StateError as error:
            failed = error
            put_out([text])                            # nothing is lost with a full disk
    else:
        put_out([text])
    if failed:
        raise failed
    return DONE


def write_whole(path: str, text: str) -> None:
    """
    Write `path` whole or not at all; a link, or no plain file, is appended to.

    Not one that another user has put there, where a report is expected: his link leads into files
    of ours, and nobody may read his FIFO.
    """
    try:
        found = _not_replaceable(path)
        if found is not None and found.st_uid not in (0, os.geteuid()):
            raise StateError(f"{path}: not written: it is a link, or no plain file, of user "
                             f"{found.st_uid}; remove it, or name another file")
        if found is not None:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
            return
        private_files.write_whole(path, text.encode(), mode=None)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from None


def _not_replaceable(path: str) -> os.stat_result | None:
    """
    What stands in the place of a file, None for a file and where there is nothing.

    A link does: root would put a file in the place of /dev/stdout, and all that other programs
    write there would be in it.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(found.st_mode) else found


if __name__ == "__main__":
    sys.exit(main())
