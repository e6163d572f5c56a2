"""
iostats_client.py: start, stop and show, on a compute node; standard library only.

The command line is parsed without argparse, and modules for `stop` and `show` are imported there: a
`start` runs on every node of a job in the same second, and argparse, json and dataclasses would
make it take three times as long (benchmarks/README.md).
"""

from __future__ import annotations

import os
import sys

from iostats.base import config as site
from iostats.base import private_files
from iostats.base.errors import (
    DONE,
    UNREADABLE,
    IostatsError,
    NotDelivered,
    NotReadable,
    StateError,
    UsageError,
    describe_error,
)
from iostats.base.messages import print_message
from iostats.cli import CONFIG, OF_NODES, Options, flag, option, take_option
from iostats.cli.entry_point import NO_MEMORY, has_ignored_failures
from iostats.node import identity as this_node
from iostats.node import sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iostats.base.config import Config
    from iostats.node.measurement import Work
    from iostats.totals.received_report import SentReport
    from iostats.totals.snapshot import CounterSource, Snapshot


class NodeOptions(Options, help="""\
usage: iostats_client.py start|stop|show|doctor [options]
       iostats_client.py mark NAME [options]
       iostats_client.py watch --every SECONDS [options] &
       iostats_client.py prolog|epilog|deliver [options]
       iostats_client.py harvest [SERVER[:PORT] [FILE_SYSTEM ...]] [options]
       iostats_client.py events --local [options]

Measure this node's Lustre I/O for one job and send it to the job's server.

  start                 store the counters before the work begins
  mark NAME             begin a part of the job, NAME in the report
  watch                 read the counters at intervals until the job ends, for
                        its I/O over time
  stop                  read them again, and send the difference to the server
  show                  print this node's counters now; needs no server and
                        changes nothing
  doctor                report problems of this machine, and the command that
                        fixes each; changes nothing
  prolog, epilog        as root, called by the batch system's: every job is
                        measured, and reported to the site's server ([site] host
                        in site.cfg); both end within 1 s, with 0
  deliver               send the site's server the reports that epilogs could
                        not send; see the exit status
  harvest               on a storage server, as root: send the I/O of all jobs
                        on its OSTs and MDTs, sweep after sweep, to the site's
                        server (default: [site] host in site.cfg)
  events --local        the events of this node or storage server; its options:
                        iostats_client.py events --help

options:
{options}

examples:
  iostats_client.py show
  iostats_client.py show --root tests/data/lustre-2.15.0/after   saved files
  iostats_client.py start
  iostats_client.py stop --server login1
  iostats_client.py doctor --server login1
  iostats_client.py harvest admin1 scratch
  iostats_client.py 1                    as in lustre_iostats: start
  iostats_client.py 2 login1             as in lustre_iostats: stop

exit status:
  0 done   1 counters not readable, or a problem that the doctor found
  2 bad usage or site.cfg
  3 server not reached (the delta is stored; `stop` again sends it)
  prolog, epilog: always 0
  deliver: 0 all reports are delivered   1 the server refused a report, or a
  report or [node] hook_dir cannot be used   3 the server was not reached
"""):
    job = option("--job ID",
                 "the job (default: the batch system's, from its variable, such as SLURM_JOB_ID; "
                 "see site.cfg)")
    node = option("--node NAME",
                  "this node's name (default: SLURMD_NODENAME, or the host name without its "
                  "domain)")
    server = option("--server HOST[:PORT]",
                    "stop, doctor: where the job's server runs (default: site.cfg)")
    secret = option("--secret FILE",
                    "stop, doctor: the job's secret (default: in ~/.iostats); harvest: the site's "
                    "(default: site.cfg)")
    state_dir = option("--state-dir DIR",
                       "directory of the start (default: site.cfg, or a private directory below "
                       "/tmp)")
    root = option("--root DIR", "read proc/ and sys/ below DIR (default: /)")
    config = CONFIG
    every = option("--every SECONDS", "watch: pause between two readings (1 to 86400)")
    again = flag("--again", "start: drop an earlier start of this job")
    attempt = option("--attempt N", "prolog, epilog: the job's restarts so far")
    nodes = option("--nodes LIST", "prolog, epilog: the job's nodes")
    user = option("--user NAME", "prolog, epilog: the job's user")
    uid = option("--uid N", "prolog, epilog: that user's number")
    mpi = flag("--mpi",
               "start, mark, stop: under mpirun or srun; one rank of each node works, and the "
               "server gets one message")
    public = flag("--public",
                  "start, as root in a prolog: store it where the job's user can use it, but not "
                  "change it (see site.cfg)")
    once = flag("--once", "harvest: one sweep, in full, and the end")
    list = flag("--list", "harvest: print which files can be read; send nothing")
    json = flag("--json", "show, doctor: as JSON")
    quiet = flag("--quiet", "print only errors")
    never_fail = flag("--never-fail", "exit with 0 whatever happens, for prologs")
    version = flag("--version", "the release, and no more")

_MAX_MARK_LENGTH = 60
_ROLES = (*OF_NODES, "attend")                      # attend: of `iostats run`, see wait_for_end.py


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status = _run(arguments)
    except IostatsError as error:
        if str(error):  # else another rank prints it, see mpi_reduce.py
            print_message(error)
        status = error.exit_status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = DONE
    except KeyboardInterrupt:
        status = 130
    except MemoryError:
        print(f"iostats: {NO_MEMORY}", file=sys.stderr)
        status = UNREADABLE
    except OSError as error:
        print_message(describe_error(error))
        status = UNREADABLE
    return DONE if has_ignored_failures(arguments) else status


def parse(arguments: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Return (role, {option: value}) of a command line; UsageError."""
    options: dict[str, str] = {}
    words: list[str] = []
    arguments, takes_value = list(arguments), NodeOptions.find_names()
    while arguments:
        word = arguments.pop(0)
        if word in ("-h", "--help"):
            return "help", {}
        if word == "--version":
            return "version", {}
        if word.startswith("-"):
            if words and words[0] not in (*_ROLES, "1", "2"):
                break                                   # options of an unknown command
            name, value = take_option(word, arguments, takes_value)
            options[name] = value
        else:
            words.append(word)
    if words == ["1"]:
        words = ["start"]
    elif words[:1] == ["2"] and len(words) <= 2:
        if len(words) == 2:
            options.setdefault("--server", words[1])
        words = ["stop"]
    if words[:1] == ["mark"] and len(words) == 2:
        options["mark"] = words.pop()
    if words[:1] == ["harvest"]:
        options["harvest"] = " ".join(words[1:])
        words = words[:1]
    if words == ["mark"] and "mark" not in options:
        raise UsageError("mark: expected the name of the part that begins, got nothing")
    if len(words) != 1 or words[0] not in _ROLES:
        is_known = not words or words[0] in _ROLES
        expected = f"one of {' '.join(OF_NODES)}" if is_known else "a command"
        from iostats.cli.commands import suggest_command
        raise UsageError(f"expected {expected}, got {' '.join(words) or 'nothing'!r}"
                         f"{('' if is_known else suggest_command(words[0])) or ' (see --help)'}")
    return words[0], options


def _run(arguments: list[str]) -> int:
    if "--mpi" in arguments and not {"-h", "--help"}.intersection(arguments):
        from iostats.cli import mpi_ranks
        return mpi_ranks.main(arguments)
    if arguments[:1] == ["events"]:                     # it has options of its own
        from iostats.cli import events
        return events.main(arguments[1:])
    role, options = parse(arguments)
    if role == "help":
        print(NodeOptions.format_help(), end="")
        return DONE
    if role == "version":
        from iostats.base.version import format_version
        print(format_version())
        return DONE
    if role == "events":
        raise UsageError("events: expected its options after it, got some before it")
    root = check_root(options)
    if role == "doctor":
        return _run_doctor(options, root)
    if role in ("prolog", "epilog"):
        from iostats.cli import batch_hooks
        return batch_hooks.run_hook(role, options, root)
    if role == "deliver":
        from iostats.cli import batch_hooks
        return batch_hooks.deliver(options, root)
    config = load_config(options)
    if role == "harvest":
        from iostats.cli import harvest
        return harvest.main(options, config, root)
    return {"start": start, "mark": mark, "watch": _watch, "stop": _stop, "show": _show,
            "attend": _wait_until_end}[role](options, config, root)


def check_root(options: dict[str, str]) -> str:
    """--root, which has to exist; UsageError."""
    root = options.get("--root", "/")
    if not os.path.isdir(root):
        raise UsageError(f"--root: expected a directory, got {root!r}")
    return root


def load_config(options: dict[str, str]) -> Config:
    """site.cfg, with the options of the command line; ConfigError."""
    config = site.load(options.get("--config"))
    if "--server" in options:
        config.set_value("server.host", options["--server"], "--server")
    if "--state-dir" in options:
        config.set_value("node.state_dir", options["--state-dir"], "--state-dir")
    return config


def print_unless_quiet(options: dict[str, str], text: object) -> None:
    """Print a line for the user, unless --quiet is given."""
    if "--quiet" not in options:
        print_message(text)


# -- start, mark, watch, stop ------------------------------------------------------------------

def make_work(options: dict[str, str], config: Config, root: str) -> Work:
    """The Work of this job on this node; UsageError."""
    from iostats.node.measurement import Work
    return Work(config, root, this_node.find_node_name(options.get("--node")),
                this_node.find_job(options.get("--job"), config),
                lambda text: print_unless_quiet(options, text))


def start(options: dict[str, str], config: Config, root: str) -> int:
    """Store the counters before the work begins; the exit status."""
    public = "--public" in options
    if public and (os.geteuid() or not config.node.public_dir):
        raise UsageError("start --public: expected root, whose files the job's user can't change, "
                         f"got user {os.geteuid()}; use `start` alone" if os.geteuid() else
                         "start --public: [node] public_dir in site.cfg is empty; name a directory")
    work = make_work(options, config, root)
    now = work.start_public() if public else work.start("--again" in options)
    return DONE if now is None else _check_readable(options, now, sources.read_at("start"))


def mark(options: dict[str, str], config: Config, root: str) -> int:
    """Take the snapshot of a mark; the exit status."""
    name = options["mark"].strip()
    if not name.isprintable() or not 0 < len(name) <= _MAX_MARK_LENGTH:
        raise UsageError(f"mark: expected a name of 1 to {_MAX_MARK_LENGTH} printable characters, "
                         f"got "
                         f"{options['mark'][:40]!r}")
    return _check_readable(options, make_work(options, config, root).mark(name),
                           sources.list_sources())


def _watch(options: dict[str, str], config: Config, root: str) -> int:
    every = options.get("--every", "")
    if not (every.isascii() and every.isdigit() and len(every) <= 5 and 1 <= int(every) <= 86400):
        raise UsageError(f"watch: expected --every with 1 to 86400 seconds, got {every[:40]!r}")
    make_work(options, config, root).watch(int(every))
    return DONE


def _check_readable(options: dict[str, str], now: Snapshot,
                    modules: dict[str, CounterSource]) -> int:
    """DONE if at least one counter file was read, or there is none; else NotReadable."""
    # Without the source of the node's disks, which all nodes have.
    counting = {name for name, module in modules.items()
                if hasattr(module, "parse") and not getattr(module, "UPPER_BOUND", False)}
    counters = [file for file in now.files if file.source in counting]
    lustre = [file for file in counters if modules[file.source].LAYER]
    if not counters:
        print_unless_quiet(options, f"{now.node}: no Lustre file system is mounted")
    elif lustre and all(file.errno for file in lustre):
        from iostats.totals.snapshot import explain_code
        why = explain_code(lustre[0].errno)
        raise NotReadable(f"{now.node}: none of {len(lustre)} counter files could be read: "
                          f"{why}; {add_advice(why)}")
    return DONE


def add_advice(why: str) -> str:
    if why.startswith("permission denied"):
        return ("start the client as root, or ask root for the reader "
                "(docs/how-to/install.md#who-may-read-the-counters)")
    return "see `iostats_client.py doctor`"


def check_server(config: Config) -> None:
    """UsageError if no server is given, or its form is not HOST[:PORT]."""
    from iostats.wire import client
    if not config.server.host:
        raise UsageError("no server: give --server HOST, or set [server] host in site.cfg")
    client.split_server(config.server.host)            # a typo shows before anything is done


def _stop(options: dict[str, str], config: Config, root: str, cut: str = "") -> int:
    from iostats.wire import auth, client, protocol
    check_server(config)
    work = make_work(options, config, root)
    reports, failed, damaged = work.end(cut=cut)
    trouble = failed or damaged
    password = auth.find_secret_path(options.get("--secret"), config.secret.dir, work.job)
    if failed is not None:
        _report_no_numbers(work, failed, config, password)
    if trouble and not reports:
        raise trouble
    for path, report in reports.items():
        try:
            answer = client.deliver(report, config.server.host, password, config, work.emit,
                                    job_uid=find_job_uid(config), method=protocol.REPORT)
        except (NotDelivered, StateError) as error:     # the secret can be in a bad state
            later = ", `stop` again sends it" if getattr(error, "later", True) else ""
            raise NotDelivered(
                f"{error}; stored in {work.choose_report_path(path)}{later}") from None
        if isinstance(answer, dict) and answer.get("why"):
            print_unless_quiet(options, str(answer["why"]))
        private_files.remove_if_present(path)
    if trouble:
        raise trouble
    work.delivered()
    return choose_exit_status(options, list(reports.values()))


def _report_no_numbers(work: Work, failed: IostatsError, config: Config,
                       password: str | None) -> None:
    """Report to the server, in one try, that this node has no numbers, so that it need not wait."""
    from iostats.node.measurement import explain_missing_numbers
    from iostats.wire import client, protocol
    try:
        client.deliver(work.make_report_without_numbers(explain_missing_numbers(failed)),
                       config.server.host, password, config, job_uid=find_job_uid(config),
                       retry_s=0, method=protocol.REPORT)
    except IostatsError:
        pass                                            # the user gets the more important error


def find_job_uid(config: Config) -> int | None:
    """The job's user, as the batch system reports to root; None if it does not matter."""
    if os.geteuid() or "munge" not in config.server.auth:
        return None
    from iostats import schedulers
    return schedulers.detect_scheduler(os.environ).about(os.environ).get("uid")


def choose_exit_status(options: dict[str, str], reports: list[SentReport]) -> int:
    """The exit status for the reports that were delivered; prints what could not be read."""
    deltas = [delta for report in reports for delta in report["deltas"]
              if not sources.is_upper_bound(delta["source"])]
    broken = [delta["why"] for delta in deltas if "/" in delta.get("why", "")]
    for why in broken:
        print_unless_quiet({}, why)
    if not deltas:
        print_unless_quiet(options, f"{reports[0]['node']}: no Lustre file system is mounted")
    elif all(delta["values"] is None for delta in deltas):
        raise NotReadable(f"none of {len(deltas)} counter files could be read: "
                          f"{deltas[0]['why']}; {add_advice(deltas[0]['why'])}")
    return UNREADABLE if broken else DONE


# -- commands that programs start, and commands that only read ---------------------------------

def _wait_until_end(options: dict[str, str], config: Config, root: str) -> int:
    from iostats.node import wait_for_end
    try:
        start(options, config, root)
    except IostatsError:
        print("not started", flush=True)  # so that `iostats run` does not wait for this node
        raise
    print("started", flush=True)
    cut = ""
    try:
        wait_for_end.wait_for_end(config.run.grace, check=wait_for_end.guard_failure(
            lambda: make_work(options, config, root).start_event_scans()))
    except wait_for_end.EndNotSeen as reason:
        cut = str(reason)
    return _stop(options, config, root, cut)


def _show(options: dict[str, str], config: Config, root: str) -> int:
    from iostats.node import show
    modules = sources.list_sources()
    by_reader: set[str] = set()
    now = this_node.take_snapshot(root, config, modules, "-",
                                  this_node.find_node_name(options.get("--node")), "-",
                                  emit=lambda text: print_unless_quiet(options, text),
                                  by_reader=by_reader)
    if "--json" in options:
        import json
        # Complete, also if nothing could be read: it is the reader's answer, too.
        print(json.dumps(show.as_json(now, modules, root), indent=2))
    status = _check_readable({"--quiet": "yes"}, now, modules)
    if "--json" not in options:
        print(show.as_text(now, modules, root, config, by_reader), end="")
    broken = show.list_unreadable(now, modules)
    for why in broken:
        print_unless_quiet({}, why)
    return UNREADABLE if broken else status


def _run_doctor(options: dict[str, str], root: str) -> int:
    from iostats.doctor import check
    from iostats.doctor import node as doctor_node
    checks = doctor_node.examine(options, root, sources.read_at("start"))
    if "--json" in options:
        import json
        print(json.dumps(check.as_json(checks), indent=2))
    else:
        print(check.as_text(checks), end="")
    return UNREADABLE if any(check_result.state == check.PROBLEM
                             for check_result in checks) else DONE


if __name__ == "__main__":
    sys.exit(main())
