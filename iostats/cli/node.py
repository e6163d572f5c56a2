"""
iostats_client.py: start, stop and show, on a compute node; standard library only.

The command line is read by hand, and what only `stop` and `show` need is imported there: a
`start` runs on every node of a job in the same second, and argparse, json and dataclasses
would make it three times as dear (benchmarks/README.md).

Long because: a third of it is the help text, and each further module costs every node a file.
"""

from __future__ import annotations

import os
import sys

from iostats import __version__
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
)
from iostats.cli import OF_NODES, nearest, take_option
from iostats.cli.entry_point import NO_MEMORY, never_fails
from iostats.node import identity as this_node
from iostats.node import sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import Any

    from iostats.base.config import Config
    from iostats.node.measurement import Work
    from iostats.totals.snapshot import Snapshot

HELP = """\
usage: iostats_client.py start|stop|show|doctor [options]
       iostats_client.py mark NAME [options]
       iostats_client.py watch --every SECONDS [options] &
       iostats_client.py prolog|epilog|deliver [options]
       iostats_client.py harvest [SERVER[:PORT] [FILE_SYSTEM ...]] [options]
       iostats_client.py events --local [options]

Measure this node's Lustre I/O for one job and send it to the job's server.

  start                 keep the counters as they are before the work begins
  mark NAME             a part of the job begins here, NAME in the report
  watch                 look now and then until the job ends, for its rates
  stop                  read them again, and send what changed to the server
  show                  print this node's counters now; needs no server and
                        changes nothing
  doctor                say what is in the way here, and the command that fixes
                        it; changes nothing
  prolog, epilog        as root, from the batch system's own: every job is
                        measured, and reported to the site's server ([site] host
                        in site.cfg); both end within 1 s, with 0
  deliver               send the site's server what epilogs could not; see the
                        exit status
  harvest               on a storage server, as root: what all jobs do to its
                        OSTs and MDTs, sweep after sweep, to the site's server
                        (default: [site] host in site.cfg)
  events --local        what went wrong here, on a node or a storage server; its
                        options: iostats_client.py events --help

options:
  --job ID              the job (default: the batch system's, from its variable,
                        such as SLURM_JOB_ID; see site.cfg)
  --node NAME           this node's name (default: SLURMD_NODENAME, or the host
                        name without its domain)
  --server HOST[:PORT]  stop, doctor: where the job's server runs (default:
                        site.cfg)
  --secret FILE         stop, doctor: the job's secret (default: in ~/.iostats);
                        harvest: the site's (default: site.cfg)
  --state-dir DIR       where the start is kept (default: site.cfg, or a private
                        directory below /tmp)
  --root DIR            read proc/ and sys/ below DIR (default: /)
  --config FILE         the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
  --every SECONDS       watch: pause between two looks (1 to 86400)
  --again               start: forget an earlier start of this job
  --attempt N           prolog, epilog: the job's restarts so far
  --nodes LIST          prolog, epilog: the job's nodes
  --user NAME           prolog, epilog: whose job it is
  --uid N               prolog, epilog: that user's number
  --mpi                 start, mark, stop: under mpirun or srun; one rank of
                        each node works, and the server gets one message
  --public              start, as root in a prolog: keep it where the job's user
                        can use it, but not change it (see site.cfg)
  --once                harvest: one sweep, in full, and the end
  --list                harvest: print what there is to read, and send nothing
  --json                show, doctor: as JSON
  --quiet               say nothing but errors
  --never-fail          exit with 0 whatever happens, for prologs
  --version             the release, and no more
  -h, --help            this text

examples:
  iostats_client.py show
  iostats_client.py show --root tests/data/lustre-2.15.0/after   saved files
  iostats_client.py start
  iostats_client.py stop --server login1
  iostats_client.py doctor --server login1
  iostats_client.py harvest admin1 scratch
  iostats_client.py 1                    as lustre_iostats had it: start
  iostats_client.py 2 login1             as lustre_iostats had it: stop

exit status:
  0 done   1 counters not readable, or a problem that the doctor found
  2 bad usage or site.cfg
  3 server not reached (the delta is kept; `stop` again sends it)
  prolog, epilog: always 0
  deliver: 0 all reports are delivered   1 the server refused a report, or a
  report or [node] hook_dir cannot be used   3 the server was not reached
"""

WITH_VALUE = ("--job", "--node", "--server", "--secret", "--state-dir", "--root", "--config",
               "--every", "--attempt", "--nodes", "--user", "--uid")
_LONGEST_MARK = 60
FLAGS = ("--again", "--public", "--mpi", "--once", "--list", "--json", "--quiet", "--never-fail",
         "--version")
_ROLES = (*OF_NODES, "attend")                      # attend: of `iostats run`, see wait_for_end.py


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status = _run(arguments)
    except IostatsError as error:
        if str(error):                                  # else another rank tells, see mpi_reduce.py
            print(f"iostats: {error}", file=sys.stderr)
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
        print(f"iostats: {error}", file=sys.stderr)
        status = UNREADABLE
    return DONE if never_fails(arguments) else status


def parse(arguments: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """(role, {option: value}) of a command line; UsageError."""
    given: dict[str, Any] = {}
    words: list[str] = []
    arguments = list(arguments)
    while arguments:
        word = arguments.pop(0)
        if word in ("-h", "--help"):
            return "help", {}
        if word == "--version":
            return "version", {}
        if word.startswith("-"):
            if words and words[0] not in (*_ROLES, "1", "2"):
                break                                   # options of a command that is not ours
            name, value = take_option(word, arguments, WITH_VALUE, FLAGS)
            given[name] = value
        else:
            words.append(word)
    if words == ["1"]:
        words = ["start"]
    elif words[:1] == ["2"] and len(words) <= 2:
        if len(words) == 2:
            given.setdefault("--server", words[1])
        words = ["stop"]
    if words[:1] == ["mark"] and len(words) == 2:
        given["mark"] = words.pop()
    if words[:1] == ["harvest"]:
        given["harvest"] = words[1:]
        words = words[:1]
    if words == ["mark"] and "mark" not in given:
        raise UsageError("mark: expected the name of the part that begins, got nothing")
    if len(words) != 1 or words[0] not in _ROLES:
        is_known = not words or words[0] in _ROLES
        expected = f"one of {' '.join(OF_NODES)}" if is_known else "a command"
        raise UsageError(f"expected {expected}, got {' '.join(words) or 'nothing'!r}"
                         f"{('' if is_known else nearest(words[0])) or ' (see --help)'}")
    return words[0], given


def _run(arguments: list[str]) -> int:
    if "--mpi" in arguments and not {"-h", "--help"}.intersection(arguments):
        from iostats.cli import mpi_ranks
        return mpi_ranks.main(arguments)
    if arguments[:1] == ["events"]:                     # it has options of its own
        from iostats.cli import events
        return events.main(arguments[1:])
    role, given = parse(arguments)
    if role in ("help", "version"):
        print(HELP if role == "help" else f"iostats {__version__}\n", end="")
        return DONE
    if role == "events":
        raise UsageError("events: expected its options behind it, got some before it")
    root = root_of(given)
    if role == "doctor":
        return _doctor(given, root)
    if role in ("prolog", "epilog"):
        from iostats.cli import batch_hooks
        return batch_hooks.hook(role, given, root)
    if role == "deliver":
        from iostats.cli import batch_hooks
        return batch_hooks.deliver(given, root)
    config = config_of(given)
    if role == "harvest":
        from iostats.cli import harvest
        return harvest.main(given, config, root)
    return {"start": start, "mark": mark, "watch": _watch, "stop": _stop, "show": _show,
            "attend": _attend}[role](given, config, root)


def root_of(given: dict[str, Any]) -> str:
    """--root, which has to be there; UsageError."""
    root: str = given.get("--root", "/")
    if not os.path.isdir(root):
        raise UsageError(f"--root: expected a directory, got {root!r}")
    return root


def config_of(given: dict[str, Any]) -> Config:
    """site.cfg, with what the command line says; ConfigError."""
    config = site.load(given.get("--config"))
    if "--server" in given:
        config.take("server.host", given["--server"], "--server")
    if "--state-dir" in given:
        config.take("node.state_dir", given["--state-dir"], "--state-dir")
    for note in config.notes:
        say(given, note)
    return config


def say(given: dict[str, Any], text: object) -> None:
    """A line for the user, unless --quiet is given."""
    if "--quiet" not in given:
        print(f"iostats: {text}", file=sys.stderr)


# -- start, mark, watch, stop ------------------------------------------------------------------

def work_of(given: dict[str, Any], config: Config, root: str) -> Work:
    """The Work of this job on this node; UsageError."""
    from iostats.node.measurement import Work
    return Work(config, root, this_node.name(given.get("--node")),
                this_node.job(given.get("--job"), config), lambda text: say(given, text))


def start(given: dict[str, Any], config: Config, root: str) -> int:
    """Keep the counters before the work begins; the exit status."""
    public = "--public" in given
    if public and (os.geteuid() or not config["node.public_dir"]):
        raise UsageError("start --public: expected root, whose files the job's user can't change, "
                         f"got user {os.geteuid()}; use `start` alone" if os.geteuid() else
                         "start --public: [node] public_dir in site.cfg is empty; name a directory")
    work = work_of(given, config, root)
    now = work.start_public() if public else work.start("--again" in given)
    return DONE if now is None else _readable(given, now, sources.read_at("start"))


def mark(given: dict[str, Any], config: Config, root: str) -> int:
    """Take the snapshot of a mark; the exit status."""
    name = given["mark"].strip()
    if not name.isprintable() or not 0 < len(name) <= _LONGEST_MARK:
        raise UsageError(f"mark: expected a name of 1 to {_LONGEST_MARK} printable characters, got "
                         f"{given['mark'][:40]!r}")
    return _readable(given, work_of(given, config, root).mark(name), sources.known())


def _watch(given: dict[str, Any], config: Config, root: str) -> int:
    every = given.get("--every", "")
    if not (every.isascii() and every.isdigit() and len(every) <= 5 and 1 <= int(every) <= 86400):
        raise UsageError(f"watch: expected --every with 1 to 86400 seconds, got {every[:40]!r}")
    work_of(given, config, root).watch(int(every))
    return DONE


def _readable(given: dict[str, Any], now: Snapshot, known: dict[str, ModuleType]) -> int:
    """DONE when at least one counter file was read, or there is none to read."""
    counters = [file for file in now.files if hasattr(known.get(file.source), "parse")]
    if not counters:
        say(given, f"{now.node}: no Lustre file system is mounted")
    elif all(file.errno for file in counters):
        from iostats.totals.snapshot import reason
        why = reason(counters[0].errno)
        raise NotReadable(f"{now.node}: none of {len(counters)} counter files could be read: "
                          f"{why}; {_advice(why)}")
    return DONE


def _advice(why: str) -> str:
    if why.startswith("permission denied"):
        return ("start the client as root, or ask root for the reader "
                "(docs/install.md#who-may-read-the-counters)")
    return "`iostats_client.py doctor` tells more"


def check_server(config: Config) -> None:
    """UsageError where no server is named, or not by HOST[:PORT]."""
    from iostats.wire import client
    if not config["server.host"]:
        raise UsageError("no server: give --server HOST, or set [server] host in site.cfg")
    client.split_server(config["server.host"])            # a typo shows before anything is done


def _stop(given: dict[str, Any], config: Config, root: str, cut: str = "") -> int:
    from iostats.wire import client, secret
    check_server(config)
    work = work_of(given, config, root)
    reports, failed, damaged = work.end(cut=cut)
    trouble = failed or damaged
    password = secret.where(given.get("--secret"), config["secret.dir"], work.job)
    if failed is not None:
        _tell_no_numbers(work, failed, config, password)
    if trouble and not reports:
        raise trouble
    for path, report in reports.items():
        try:
            answer = client.deliver(report, config["server.host"], password, config, work.say,
                                    job_uid=job_uid(config))
        except (NotDelivered, StateError) as error:     # the secret can be in a bad state
            later = ", `stop` again sends it" if getattr(error, "later", True) else ""
            raise NotDelivered(f"{error}; kept in {work.kept_at(path)}{later}") from None
        if isinstance(answer, dict) and answer.get("why"):
            say(given, str(answer["why"]))
        private_files.forget(path)
    if trouble:
        raise trouble
    work.delivered()
    return status_of_reports(given, list(reports.values()))


def _tell_no_numbers(work: Work, failed: IostatsError, config: Config,
                     password: str | None) -> None:
    """Let the server know, in one try, that this node has no numbers; it need not wait."""
    from iostats.node.measurement import why_without
    from iostats.wire import client
    try:
        client.deliver(work.without_numbers(why_without(failed)), config["server.host"], password,
                       {**config, "node.retry_timeout": 0}, job_uid=job_uid(config))
    except IostatsError:
        pass                                            # the user is told of the greater trouble


def job_uid(config: Config) -> int | None:
    """The job's user, as the batch system tells root; None where it does not matter."""
    if os.geteuid() or "munge" not in config["server.auth"]:
        return None
    from iostats import schedulers
    uid: int | None = schedulers.here(os.environ).about(os.environ).get("uid")
    return uid


def status_of_reports(given: dict[str, Any], reports: list[dict[str, Any]]) -> int:
    """Exit status for the reports that were delivered; says what could not be read."""
    deltas = [one for each in reports for one in each["deltas"]]
    broken = [one["why"] for one in deltas if "/" in one.get("why", "")]
    for why in broken:
        say({}, why)
    if not deltas:
        say(given, f"{reports[0]['node']}: no Lustre file system is mounted")
    elif all(one["values"] is None for one in deltas):
        raise NotReadable(f"none of {len(deltas)} counter files could be read: "
                          f"{deltas[0]['why']}; {_advice(deltas[0]['why'])}")
    return UNREADABLE if broken else DONE


# -- what others than users start, and what only looks -----------------------------------------

def _attend(given: dict[str, Any], config: Config, root: str) -> int:
    from iostats.node import wait_for_end
    try:
        start(given, config, root)
    except IostatsError:
        print("not started", flush=True)                # nobody has to wait for this node
        raise
    print("started", flush=True)
    return _stop(given, config, root, wait_for_end.until_end(
        config["run.grace"], look=wait_for_end.without_failing(
            lambda: work_of(given, config, root).looks())))


def _show(given: dict[str, Any], config: Config, root: str) -> int:
    from iostats.node import show
    known = sources.known()
    by_reader: set[str] = set()
    now = this_node.snapshot(root, config, known, "-", this_node.name(given.get("--node")), "-",
                             say=lambda text: say(given, text), by_reader=by_reader)
    if "--json" in given:
        import json
        # All of it, also where nothing could be read: this is the reader's answer, too.
        print(json.dumps(show.as_json(now, known, root), indent=2))
    status = _readable({"--quiet": True}, now, known)
    if "--json" not in given:
        print(show.as_text(now, known, root, config, by_reader), end="")
    broken = show.broken(now, known)
    for why in broken:
        say({}, why)
    return UNREADABLE if broken else status


def _doctor(given: dict[str, Any], root: str) -> int:
    from iostats.doctor import check
    from iostats.doctor import node as doctor_node
    found = doctor_node.examine(given, root, sources.read_at("start"))
    if "--json" in given:
        import json
        print(json.dumps(check.as_json(found), indent=2))
    else:
        print(check.as_text(found), end="")
    return UNREADABLE if any(one.state == check.PROBLEM for one in found) else DONE


if __name__ == "__main__":
    sys.exit(main())
