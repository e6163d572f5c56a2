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

from iostats import schedulers
from iostats.base import config as site
from iostats.base.config import BESIDE
from iostats.base.errors import IostatsError, UsageError
from iostats.base.job_id import checked_job_id
from iostats.cli.report_file import write_report
from iostats.cli import take_option
from iostats.cli.parser import put_out
from iostats.cli.server import expected_nodes, record_of
from iostats.cli.terminal_form import screen_of
from iostats.node import identity, start_files
from iostats.report import job_tables
from iostats.run.command import Command
from iostats.run.launcher import Nodes
from iostats.run.measured import PartTotals, measured
from iostats.schedulers import job_environment
from iostats.server import process
from iostats.server.http_server import bound_socket
from iostats.server.job_server import JobServer, totals_options
from iostats.wire import auth, secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

    from iostats.base.config import Config

NOT_FOUND, NOT_EXECUTABLE = 127, 126              # as the shell and env(1) have it

HELP = """\
usage: iostats run [options] [--] COMMAND [ARGUMENT ...]

Run a command, and print what its job did to Lustre on all of its nodes.

The command has our standard input and output and every signal that we get, and
its exit status is ours.  Without a batch system it is this node that is measured.

options:
  --job ID              the job (default: the batch system's)
  --nodes LIST          the job's nodes (default: the batch system's); without
                        a batch system they are reached by ssh
  --format FORM         grid, plain, json, csv or markdown (default: grid)
  --long                more: calls, mean sizes, network, times, MDTs, nodes
  --explain             say of each number what it counts, and what it does not
  --output FILE         the report goes there, %j being the job's id (default:
                        site.cfg, or standard error)
  --json FILE           the JSON record goes there as well
  --root DIR            nodes read proc/ and sys/ below DIR (default: /)
  --config FILE         the configuration, also on the nodes (default: site.cfg,
                        and ~/.iostats/site.cfg)
  --quiet               say nothing but the report
  -h, --help            this text

examples:
  iostats run -- srun ./app input.nml           in a job script
  iostats run --long --output io-%j.txt -- mpirun ./app
  iostats run make -j 8                         on a workstation

exit status:
  that of the command; 128 + N when signal N has ended it; 126, 127 when it can't
  be run; 2 bad usage or site.cfg
"""

WITH_VALUE = ("--job", "--nodes", "--format", "--output", "--json", "--root", "--config")
FLAGS = ("--long", "--explain", "--quiet")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    try:
        _open_standard_files()
        given, command = parse(sys.argv[1:] if arguments is None else arguments)
        if given is None:
            put_out([HELP])
            return 0
        return _run(given, command)
    except IostatsError as error:
        _tell(f"iostats: {error}\n")
        return error.exit_status
    except KeyboardInterrupt:
        return _died_of(signal.SIGINT)


def _open_standard_files() -> None:
    """
    Those of 0, 1, 2 that are closed would be the next files that we open, such as a socket.

    The command still finds them closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)             # the lowest number that is free


def _tell(text: str) -> None:
    """Write to standard error, as far as that goes; that it cannot be written is no failure."""
    data = text.encode("utf-8", "backslashreplace")
    with contextlib.suppress(OSError):
        while data:
            try:
                data = data[os.write(2, data):]
            except BlockingIOError:                    # somebody has made it so
                select.select([], [2], [], 10)


def parse(arguments: Iterable[str]) -> tuple[dict[str, Any] | None, list[str]]:
    """({option: value}, command); None instead of options for --help.  Raises UsageError."""
    given, arguments = {}, list(arguments)
    while arguments and arguments[0].startswith("-"):
        word = arguments.pop(0)
        if word == "--":
            break
        if word in ("-h", "--help"):
            return None, []
        name, value = take_option(word, arguments, WITH_VALUE, FLAGS)
        given[name] = value
    if not arguments:
        raise UsageError("expected a command to run, got nothing (see --help)")
    return given, arguments


def _run(given: dict[str, Any], argv: list[str]) -> int:
    config = site.load(given.get("--config"))
    if "--quiet" not in given:
        for note in config.notes:
            print(f"iostats: {note}", file=sys.stderr)
    if "--format" in given:
        config.take("report.format", given["--format"], "--format")
    system = schedulers.chosen(config, os.environ)
    if "--job" in given:
        checked_job_id(given["--job"])
    if not os.path.isdir(given.get("--root", "/")) and (
            system.NAME == schedulers.NO_SYSTEM and "--nodes" not in given):
        raise UsageError(f"--root: expected a directory, got {given['--root']!r}")
    if "--nodes" in given:
        if isinstance(expected_nodes(given["--nodes"], config["server.max_nodes"]), int):
            raise UsageError(f"--nodes: expected names, such as nid[00001-00128], got "
                             f"{given['--nodes']!r}")
        job_environment.node_names(given["--nodes"])

    def say(text: object) -> None:
        if "--quiet" not in given:
            _tell(f"iostats: {text}\n")

    command = Command(argv, _environment())
    try:
        try:
            process.check_open_files()
            command.catch()
            process.use_uvloop()
            asyncio.run(_all(command, system, config, given, argv, say))
        finally:
            command.release()
    except (IostatsError, OSError, MemoryError, RuntimeError) as error:  # ulimit -n, -u, -v
        say(f"{str(error) or 'out of memory'}; the command runs, and is not measured")
        if command.has_run:
            command.wait()
        else:
            command.become()
    if command.failed is not None:
        _tell(f"iostats: {argv[0]}: {command.failed.strerror}\n")
        return NOT_FOUND if isinstance(command.failed, FileNotFoundError) else NOT_EXECUTABLE
    if command.returncode < 0:
        return _died_of(-command.returncode)
    status: int = command.returncode
    return status


def _environment() -> dict[bytes, bytes]:
    """What we were started with: in the C locale Python itself sets LC_CTYPE (PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return {name: value for name, equals, value in (entry.partition(b"=") for entry in entries)
            if name and equals}


async def _all(command: Command, system: ModuleType, config: Config,
               given: dict[str, Any], argv: list[str],
               say: Callable[[str], None]) -> None:
    """Serve, measure, run, print."""
    command.attach()
    server: Any = None                                 # a JobServer, where the job is measured
    nodes: Nodes | None = None
    made: str | None = None
    try:
        server, nodes, made = await _prepared(command, system, config, given, say)
    except (IostatsError, OSError) as error:
        say(f"{error}; the command runs, and is not measured")
    except Exception as error:
        say(f"internal error; please report: {error!r}; the command runs, and is not measured")
    printed = []

    def print_report() -> None:
        if server.totals.reported not in printed:
            printed.append(server.totals.reported)
            _print(server.totals, config, given, argv, say)
            if made and server.totals.all_heard:
                _forget(made)                          # we may be killed before the end

    try:
        await measured(command, nodes, server, config, print_report, say)
    finally:
        if server is not None:
            await server.long_answers.finished()
            server.close()
        if made:
            _forget(made)


def _forget(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


async def _prepared(command: Command, system: ModuleType, config: Config,
                    given: dict[str, Any],
                    say: Callable[[str], None]) -> tuple[JobServer, Nodes, str | None]:
    """(JobServer that listens, Nodes, path of the secret that was made or None)."""
    about = system.about(os.environ)
    job = given.get("--job") or about.get("job") or f"{identity.name()}.{os.getpid()}"
    names = given.get("--nodes") or about.get("nodes") or _asked(system)
    launchers = system.launchers(os.environ, names) or [[]]
    alone = launchers == [[]]
    # Nobody tells which nodes are reached: then all who report are the job's.
    expected = (expected_nodes(names or identity.name(), config["server.max_nodes"])
                if names or alone else None)
    totals = PartTotals(checked_job_id(job), expected, **totals_options(config))
    # Where the launcher takes the environment along, nobody needs a directory that nodes share.
    carries = alone or getattr(system, "PASSES_ENVIRONMENT", False)
    os.environ.pop(secret.VARIABLE, None)                  # the user's is for another server
    made = _made_secret(config, totals.job, carries)
    try:
        _leave_files_for_connections(config)
        server = JobServer(totals, auth.server_credentials(config, totals.job, made, say), config)
        await server.listen(_loopback() if alone else "")
    except BaseException:
        if made:
            _forget(made)
        raise
    host = _loopback() if alone else config["server.host"] or os.uname().nodename
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    client = _client(given, config, totals.job, f"{host}:{server.port}", made, alone, carries)
    # sbatch --export=NONE leaves not even a PATH, by which the nodes would find their Python.
    environ = {"PATH": os.defpath, **os.environ}
    return server, Nodes(launchers, client, environ, system.NO_LAUNCH_AT_END or alone,
                                     system.LAUNCHES_BY_SHELL, say,
                                     command.unblocked), made


def _loopback() -> str:
    """The address by which processes of this host reach each other: ::1 where IPv4 is off."""
    with contextlib.suppress(OSError):
        bound_socket("127.0.0.1", 0).close()
        return "127.0.0.1"
    return "::1"


def _made_secret(config: Config, job: str, carries: bool) -> str | None:
    """The path of a new secret, this run's alone; None where it is in the environment, or none."""
    if "secret" not in config["server.auth"]:
        return None
    if carries:
        os.environ[secret.VARIABLE] = secrets.token_hex(32)
        return None
    path = secret.where(None, config["secret.dir"], f"{job}.{secrets.token_hex(8)}")
    secret.make(path)
    return path


def _asked(system: ModuleType) -> str:
    """The job's nodes, of a batch system that has to be asked; "" for others."""
    nodes_of = getattr(system, "nodes_of", None)
    with contextlib.suppress(IostatsError):
        return (nodes_of(os.environ) or "") if nodes_of else ""
    return ""


def _leave_files_for_connections(config: Config) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(16, min(config["server.max_connections"], hard - 64))
    config.take("server.max_connections", str(most), "the limit of open files (ulimit -n)")


def _client(given: dict[str, Any], config: Config, job: str, server: str, password: str | None,
            alone: bool, carries: bool) -> Callable[[str], list[str]]:
    """role -> the argv of the client on a node."""
    python = config["node.python"]
    if alone and config.origin["node.python"] == site.DEFAULT:
        python = sys.executable or python
    # A directory of its own: an earlier start of this job is none of ours, nor is that of another
    # `iostats run` in it.
    directory = config["node.state_dir"] or (
        f"{start_files.TMP}/iostats-{os.geteuid()}-{secrets.token_hex(8)}")
    options = ["--job", job, "--server", server, "--state-dir", directory, "--quiet"]
    if password:
        options += ["--secret", password]
    for name in ("--root", "--config"):
        if name in given:
            options += [name, os.path.abspath(given[name])]
    return lambda role: [*_environment_of(config, carries), python, "-I", "-S", "-c", (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        + ("from iostats.node import wait_for_end; wait_for_end.listen(); "
           if role == "attend" else "")
        + "from iostats.cli.node import main; sys.exit(main())"
    ), os.path.dirname(BESIDE), role, *options]


def _environment_of(config: Config, carries: bool) -> list[str]:
    """What the user has chosen in the environment, for nodes that do not get that."""
    chosen = [] if carries else [f"{variable}={os.environ[variable]}"
                                 for variable in site.in_environment(os.environ)]
    return ["env", *chosen] if chosen else []


def _print(totals: PartTotals, config: Config, given: dict[str, Any], argv: list[str],
           say: Callable[[str], None]) -> None:
    """The report where it is wanted; what can't be written there goes to standard error."""
    form, long = config["report.format"], "--long" in given
    record = record_of(totals, config)
    path = given.get("--output") or config["run.output"]
    text = job_tables.text(record, config, form, long, "--explain" in given,
                           screen_of(None if path else sys.stderr),
                           measured=f"the command {shlex.join(argv)}")
    if not _written(path, text, totals.job, say):
        _tell(text)
    if "--json" in given:                              # the job may end while that is made
        _written(given["--json"], job_tables.text(record, config, "json"), totals.job, say)


def _written(path: str, text: str, job: str, say: Callable[[str], None]) -> bool:
    """True when `text` is in the file `path`, "" for none."""
    if not path:
        return False
    path = path.replace("%j", job.replace("/", "_"))
    try:
        write_report(path, text)
    except IostatsError as error:
        say(str(error))
        return False
    return True


def _died_of(number: int) -> int:
    """End as the command has ended, for who looks closer than at 128 + N."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    return 128 + number                                # process 1 of a container lives on
