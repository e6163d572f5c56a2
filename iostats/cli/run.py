"""
iostats run: one command, measured on all nodes of its job.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import secrets
import select
import shlex
import signal
import sys
from collections.abc import Callable, Iterable

from iostats import schedulers
from iostats.base import config as site
from iostats.base.config import BESIDE, Config
from iostats.base.errors import IostatsError, UsageError
from iostats.base.job_id import check_job_id
from iostats.base.messages import format_message
from iostats.base.text import cut
from iostats.cli import Options, flag, option, take_option
from iostats.cli.parser import write_output
from iostats.cli.report_file import write_report
from iostats.cli.server import make_labelled_record, parse_expected_nodes
from iostats.cli.terminal_form import detect_screen
from iostats.node import identity, start_files
from iostats.report import job_tables
from iostats.run.command import Command
from iostats.run.launcher import Nodes
from iostats.run.measured import PartTotals, run_measured
from iostats.schedulers import job_environment
from iostats.server import process
from iostats.server.http_server import bound_socket
from iostats.server.job_server import JobServer, make_totals
from iostats.totals.job_totals import Totals
from iostats.wire import auth

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as of the shell and env(1)
_LONGEST_COMMAND = 1000                # in the record


class MeasuredRunOptions(Options, help="""\
usage: iostats run [options] [--] COMMAND [ARGUMENT ...]

Run a command, and print its job's I/O on Lustre, of all its nodes.

The command has our standard input and output and every signal that we get, and
its exit status is ours.  Without a batch system this node is measured.

options:
{options}

examples:
  iostats run -- srun ./app input.nml           in a job script
  iostats run --long --output io-%j.txt -- mpirun ./app
  iostats run make -j 8                         on a workstation

exit status:
  that of the command; 128 + N if signal N ended it; 126, 127 if it cannot be
  run; 2 bad usage or site.cfg
"""):
    job = option("--job ID", "the job (default: the batch system's)")
    nodes = option("--nodes LIST",
                   "the job's nodes (default: the batch system's); without a batch system they are "
                   "reached by ssh")
    format = option("--format FORM", "grid, plain, json, csv or markdown (default: grid)")
    long = flag("--long", "more: calls, mean sizes, network, times, MDTs, nodes")
    explain = flag("--explain", "explain what each number counts, and what it does not")
    output = option("--output FILE",
                    "write the report to FILE, %j being the job's id (default: site.cfg, or "
                    "standard error)")
    json = option("--json FILE", "write the JSON record, too")
    root = option("--root DIR", "nodes read proc/ and sys/ below DIR (default: /)")
    config = option("--config FILE",
                    "the configuration, also on the nodes (default: site.cfg, and "
                    "~/.iostats/site.cfg)")
    quiet = flag("--quiet", "print only the report")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    try:
        _open_standard_files()
        options, command = parse_arguments(sys.argv[1:] if arguments is None else arguments)
        if options is None:
            write_output([MeasuredRunOptions.format_help()])
            return 0
        return _run(options, command)
    except IostatsError as error:
        _write_error(format_message(error))
        return error.exit_status
    except KeyboardInterrupt:
        return _end_by_signal(signal.SIGINT)


def _open_standard_files() -> None:
    """
    Open the closed ones of 0, 1, 2: else they would be the next files that we open, such as a
    socket.

    The command still gets them closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)             # the lowest number that is free


def _write_error(text: str) -> None:
    """Write to standard error, as far as possible; a failure is ignored."""
    data = text.encode("utf-8", "backslashreplace")
    with contextlib.suppress(OSError):
        while data:
            try:
                data = data[os.write(2, data):]
            except BlockingIOError:                    # another process made it non-blocking
                select.select([], [2], [], 10)


def parse_arguments(arguments: Iterable[str]) -> tuple[dict[str, str] | None, list[str]]:
    """Return ({option: value}, command); None instead of options for --help.  Raises UsageError."""
    options, arguments = {}, list(arguments)
    takes_value = MeasuredRunOptions.find_names()
    while arguments and arguments[0].startswith("-"):
        word = arguments.pop(0)
        if word == "--":
            break
        if word in ("-h", "--help"):
            return None, []
        name, value = take_option(word, arguments, takes_value)
        options[name] = value
    if not arguments:
        raise UsageError("expected a command to run, got nothing (see --help)")
    return options, arguments


def _run(options: dict[str, str], argv: list[str]) -> int:
    config = site.load(options.get("--config"))
    if "--format" in options:
        config.set_value("report.format", options["--format"], "--format")
    system = schedulers.choose_scheduler(config, os.environ)
    if "--job" in options:
        check_job_id(options["--job"])
    if not os.path.isdir(options.get("--root", "/")) and (
            system.NAME == schedulers.NO_SYSTEM and "--nodes" not in options):
        raise UsageError(f"--root: expected a directory, got {options['--root']!r}")
    if "--nodes" in options:
        if isinstance(parse_expected_nodes(options["--nodes"], config.server.max_nodes), int):
            raise UsageError(f"--nodes: expected names, such as nid[00001-00128], got "
                             f"{options['--nodes']!r}")
        job_environment.parse_node_names(options["--nodes"])

    def log_line(text: object) -> None:
        if "--quiet" not in options:
            _write_error(format_message(text))

    command = Command(argv, _make_environment())
    try:
        try:
            process.check_open_files()
            command.catch()
            process.use_uvloop()
            asyncio.run(_measure_and_run(command, system, config, options, argv, log_line))
        finally:
            command.release()
    except (IostatsError, OSError, MemoryError, RuntimeError) as error:  # ulimit -n, -u, -v
        log_line(f"{str(error) or 'out of memory'}; the command runs, and is not measured")
        if command.has_run:
            command.wait()
        else:
            command.replace_process()
    if command.failed is not None:
        _write_error(format_message(f"{argv[0]}: {command.failed.strerror}"))
        return NOT_FOUND if isinstance(command.failed, FileNotFoundError) else NOT_EXECUTABLE
    status = command.returncode
    assert status is not None           # it has ended
    if status < 0:
        return _end_by_signal(-status)
    return status


def _make_environment() -> dict[bytes, bytes]:
    """
    The environment of this process at its start: in the C locale Python itself sets LC_CTYPE (PEP
    538).
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return {name: value for name, equals, value in (entry.partition(b"=") for entry in entries)
            if name and equals}


async def _measure_and_run(command: Command, system: schedulers.Scheduler, config: Config,
                           options: dict[str, str], argv: list[str],
                           log_line: Callable[[str], None]) -> None:
    """Start the server, measure, run, print."""
    command.attach()
    server: JobServer | None = None                    # if the job is measured
    nodes: Nodes | None = None
    secret_path: str | None = None
    try:
        server, nodes, secret_path = await _prepare(command, system, config, options, log_line)
    except (IostatsError, OSError) as error:
        log_line(f"{error}; the command runs, and is not measured")
    except Exception as error:
        log_line(f"internal error; please report: {error!r}; the command runs, and is not measured")
    printed = []

    def print_report() -> None:
        assert server is not None
        totals = server.totals
        if totals.reported not in printed:
            printed.append(totals.reported)
            _print_report(totals, config, options, argv, log_line)
            if secret_path and totals.all_reported:
                _remove(secret_path)  # now, as we may be killed before the end

    try:
        await run_measured(command, nodes, server, config, print_report, log_line)
    finally:
        if server is not None:
            await server.long_answers.finished()
            server.close()
        if secret_path:
            _remove(secret_path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


async def _prepare(command: Command, system: schedulers.Scheduler, config: Config,
                   options: dict[str, str],
                   log_line: Callable[[str], None]) -> tuple[JobServer, Nodes, str | None]:
    """Return (JobServer that listens, Nodes, path of the new secret or None)."""
    about = system.about(os.environ)
    job = options.get("--job") or about.get("job") or f"{identity.find_node_name()}.{os.getpid()}"
    names = options.get("--nodes") or about.get("nodes") or _query_nodes(system)
    launchers = system.launchers(os.environ, names) or [[]]
    is_local = launchers == [[]]
    # Unknown nodes: then every node that reports belongs to the job.
    expected = (parse_expected_nodes(names or identity.find_node_name(), config.server.max_nodes)
                if names or is_local else None)
    totals = make_totals(config, check_job_id(job), expected, PartTotals)
    # If the launcher passes the environment, no directory shared by the nodes is needed.
    carries = is_local or getattr(system, "PASSES_ENVIRONMENT", False)
    os.environ.pop(auth.VARIABLE, None)                  # the user's secret is for another server
    secret_path = _make_secret(config, totals.job, carries)
    try:
        _leave_files_for_connections(config)
        server = JobServer(totals, auth.load_server_credentials(config, totals.job, secret_path,
                                                                log_line), config)
        await server.listen(_find_loopback_address() if is_local else "")
    except BaseException:
        if secret_path:
            _remove(secret_path)
        raise
    host = _find_loopback_address() if is_local else config.server.host or os.uname().nodename
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    client = _make_client_command(options, config, totals.job, f"{host}:{server.port}", secret_path,
                                  is_local, carries)
    # sbatch --export=NONE sets not even a PATH, which nodes need for their Python.
    environ = {"PATH": os.defpath, **os.environ}
    return server, Nodes(launchers, client, environ, system.NO_LAUNCH_AT_END or is_local,
                                     system.LAUNCHES_BY_SHELL, log_line,
                                     command.unblocked), secret_path


def _find_loopback_address() -> str:
    """The address by which processes of this host reach each other: ::1 if IPv4 is off."""
    with contextlib.suppress(OSError):
        bound_socket("127.0.0.1", 0).close()
        return "127.0.0.1"
    return "::1"


def _make_secret(config: Config, job: str, carries: bool) -> str | None:
    """The path of a new secret for this run; None if it is in the environment, or not used."""
    if "secret" not in config.server.auth:
        return None
    if carries:
        os.environ[auth.VARIABLE] = secrets.token_hex(32)
        return None
    path = auth.find_secret_path(None, config.secret.dir, f"{job}.{secrets.token_hex(8)}")
    auth.make(path, "directory in site.cfg: [secret] dir")
    return path


def _query_nodes(system: schedulers.Scheduler) -> str:
    """The job's nodes from a batch system that has to be queried; "" for others."""
    with contextlib.suppress(IostatsError):
        return system.list_nodes(os.environ) if hasattr(system, "list_nodes") else ""
    return ""


def _leave_files_for_connections(config: Config) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    max_connections = max(16, min(config.server.max_connections, hard - 64))
    config.set_value("server.max_connections", str(max_connections),
                     "the limit of open files (ulimit -n)")


def _make_client_command(settings: dict[str, str], config: Config, job: str, server: str,
                         password: str | None, is_local: bool,
                         carries: bool) -> Callable[[str], list[str]]:
    """A function: role -> the argv of the client on a node."""
    python = config.node.python
    if is_local and config.origin["node.python"] == site.DEFAULT:
        python = sys.executable or python
    # A directory of its own, without other starts of this job, also of another `iostats run`.
    directory = config.node.state_dir or (
        f"{start_files.TMP}/iostats-{os.geteuid()}-{secrets.token_hex(8)}")
    options = ["--job", job, "--server", server, "--state-dir", directory, "--quiet"]
    if password:
        options += ["--secret", password]
    for name in ("--root", "--config"):
        if name in settings:
            options += [name, os.path.abspath(settings[name])]
    return lambda role: [*_make_env_command(carries), python, "-I", "-S", "-c", (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        + ("from iostats.node import wait_for_end; wait_for_end.listen(); "
           if role == "attend" else "")
        + "from iostats.cli.node import main; sys.exit(main())"
    ), os.path.dirname(BESIDE), role, *options]


def _make_env_command(carries: bool) -> list[str]:
    """
    The user's settings in the environment, as arguments of env(1), for nodes that do not get them.
    """
    chosen = [] if carries else [f"{variable}={os.environ[variable]}"
                                 for variable in site.find_variables(os.environ)]
    return ["env", *chosen] if chosen else []


def _print_report(totals: Totals, config: Config, options: dict[str, str], argv: list[str],
                  log_line: Callable[[str], None]) -> None:
    """Write the report to its file; on failure to standard error."""
    form, long = config.report.format, "--long" in options
    record = make_labelled_record(totals, config)
    command = shlex.join(argv).encode("utf-8", "backslashreplace").decode()
    record = record.replaced(job=record.job.replaced(command=cut(command, _LONGEST_COMMAND)))
    path = options.get("--output") or config.run.output
    text = job_tables.format_report(record, config, form, long, "--explain" in options,
                                    detect_screen(None if path else sys.stderr))
    if not _write_file(path, text, totals.job, log_line):
        _write_error(text)
    if "--json" in options:                             # last: the job may end before it is written
        _write_file(options["--json"], job_tables.format_report(record, config, "json"), totals.job,
                    log_line)


def _write_file(path: str, text: str, job: str, log_line: Callable[[str], None]) -> bool:
    """True if `text` was written to the file `path`; "" for none."""
    if not path:
        return False
    path = path.replace("%j", job.replace("/", "_"))
    try:
        write_report(path, text)
    except IostatsError as error:
        log_line(str(error))
        return False
    return True


def _end_by_signal(number: int) -> int:
    """End by the signal that ended the command: some callers check for a status above 128."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    return 128 + number                                # process 1 of a container is not ended
