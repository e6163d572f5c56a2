"""
iostats collector: events for monitors, as lustre-collector (2004) gave them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time

from iostats.base import config as site
from iostats.base import logs
from iostats.base.errors import DONE, UsageError
from iostats.cli.parser import parser, say, status_of
from iostats.collector import access, rights
from iostats.collector.collector_server import CollectorServer, bound_sockets
from iostats.collector.daemon import Daemon
from iostats.collector.journal_of_events import EventsJournal
from iostats.collector.methods import Answers
from iostats.node import identity
from iostats.server import process
from iostats.server.http_server import bound_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    import pwd
    from collections.abc import Iterable
    from typing import Any

    from iostats.collector.sources import EventSource
    from iostats.events.event import Event

HELP = """\
usage: iostats collector [options]

Give the events of this machine, or of the whole site, to monitors: XML-RPC as
lustre-collector had it (2004), the same by JSON-RPC, and GET /events as a
stream, on one port.  It runs on an MDS or OSS and needs no server; with --site
it has the events of the site's server.

It never runs as root: started by root it opens the kernel's log, then becomes
the user of [collector] user.

options:
  -p, --port N          listen on this port (default: site.cfg, 8980)
  -h, --host HOST       listen at the addresses of HOST; "" for all (default:
                        site.cfg, localhost).  Who may ask: [collector] allow
  -m, --maxtraps N      up to N events in an answer of getTraps (default:
                        site.cfg, 250)
  -d, --daemon          go on in the background, once it listens
  -f, --filename FILE   read FILE instead of ~/.iostats/site.cfg
      --config FILE     the configuration (default: site.cfg, and
                        ~/.iostats/site.cfg)
      --site            events of the site's server ([collector] events_of)
      --state-dir DIR   keep events there over a restart; "" for in memory alone
                        (default: site.cfg)
      --pid-file FILE   of a daemon (default: site.cfg)
      --root DIR        read /dev/kmsg, /proc and /sys below DIR (for tests)
      --quiet           no line when it listens
      --help            this text

examples:
  iostats collector
  iostats collector -p 8981 -h 10.0.5.1 -m 100
  iostats collector --site --daemon
  curl -N http://localhost:8980/events

exit status:
  0 it was ended by a signal, or the daemon listens   1 it cannot work here
  2 bad usage or site.cfg   3 the port could not be had
"""

WITH_VALUE = ("--port", "--host", "--maxtraps", "--filename", "--config", "--state-dir",
              "--pid-file", "--root")
FLAGS = ("--daemon", "--site", "--quiet")
_SHORT = {"p": "--port", "h": "--host", "m": "--maxtraps", "f": "--filename", "d": "--daemon"}
_HOSTS = "/etc/hosts"


def main(arguments: list[str] | None = None) -> int:
    """Run the collector; the exit status."""
    words = long_words(sys.argv[1:] if arguments is None else arguments)
    return status_of(lambda: _run(parser("iostats collector", HELP, WITH_VALUE,
                                         FLAGS).parse_args(words)))


def long_words(words: Iterable[str]) -> list[str]:
    """
    The command line with the options' long names: -h is the host's, as in 2004, and no help.

    >>> long_words(["-dp", "8981", "-hlocalhost", "--site"])
    ['--daemon', '--port', '8981', '--host=localhost', '--site']
    """
    found = []
    for word in words:
        if word[:1] != "-" or word[1:2] in ("", "-"):
            found.append(word)
            continue
        letters = word[1:]
        while letters:
            name, letters = _SHORT.get(letters[0]), letters[1:]
            if name is None:
                raise SystemExit(_bad_usage(word))
            if name == "--daemon":
                found.append(name)
            else:
                found.append(f"{name}={letters}" if letters else name)
                break
    return found


def _bad_usage(word: str) -> int:
    def fail() -> int:
        raise UsageError(f"no option {word!r}; there are: -p -h -d -f -m {' '.join(WITH_VALUE)} "
                         f"{' '.join(FLAGS)} (see --help)")
    return status_of(fail)


def _run(options: argparse.Namespace) -> int:
    config = _config_of(options)
    user = rights.user_to_be(config)
    allowed = access.allowed(config)
    background = Daemon(site.state_path(config, "collector.pid_file")) if options.daemon else None
    logs.to_standard_error(logging.WARNING)
    status = background.begin() if background is not None else None
    if status is not None:
        return status
    try:
        return _collect(options, config, user, allowed, background)
    finally:
        if background is not None:
            background.end()


def _config_of(options: argparse.Namespace) -> site.Config:
    config = site.load(options.config, users=options.filename)
    for note in config.notes:
        say(note)
    for key, given in (("port", options.port), ("host", options.host),
                       ("maxtraps", options.maxtraps), ("state_dir", options.state_dir),
                       ("pid_file", options.pid_file)):
        if given is not None:
            config.take(f"collector.{key}", given, f"--{key.replace('_', '-')}")
    if options.site:
        config.take("collector.events_of", "site", "--site")
    return config


def _collect(options: argparse.Namespace, config: site.Config, user: pwd.struct_passwd | None,
             allowed: list[access.Network], background: Daemon | None) -> int:
    directory = site.state_path(config, "collector.state_dir")
    if directory:
        rights.make_directory(directory, user)
    process.raise_limits(config)
    process.use_uvloop()                               # root's files may be closed to the user
    bound = bound_sockets(config["collector.host"], config["collector.port"], bound_socket)
    source, journal = None, None
    try:
        # With root's rights, if these are there: the kernel's log, or the site's secret.
        source = _source(config, options.root or "/", directory)
        rights.become(user)
        journal = EventsJournal(directory, config["collector.keep"], time.time, tell)
        answers = Answers(journal, source, config["collector.maxtraps"], time.time)
        server = CollectorServer(journal, answers, allowed, _names(config),
                                 config["server.max_connections"])
        asyncio.run(_serve(server, bound, source, journal, options, background))
    finally:
        if source is not None:
            source.close()
        if journal is not None:
            journal.close()
        for one in bound:
            one.close()
    return DONE


def _source(config: site.Config, root: str, directory: str) -> EventSource:
    node = identity.name()
    if config["collector.events_of"] == "site":
        from iostats.collector.site_source import SiteSource
        return SiteSource(config, node, tell)
    from iostats.collector.machine_source import MachineSource
    from iostats.events.gather import Gathering
    boot_id, path = identity.boot_id(root), os.path.join(directory, "machine.state")
    gathering = Gathering(root, config, node, boot_id, path if directory else None)
    return MachineSource(gathering, root, node, boot_id, config["events.every"], tell)


async def _serve(server: CollectorServer, bound: Any, source: EventSource, journal: EventsJournal,
                 options: argparse.Namespace, background: Daemon | None) -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)

    def take(found: Iterable[Event], next: Any, of: str) -> None:
        server.tell(journal.take(found, next, of))
    await server.listen(bound)
    source.begin(loop, take, journal.next, journal.of)
    process.notify_systemd("READY=1")
    if background is not None:
        background.is_ready()
    elif not options.quiet:
        say(f"the collector of {source.node} listens at "
            f"{', '.join(f'{one.getsockname()[0]}:{one.getsockname()[1]}' for one in bound)}")
    try:
        await stopped.wait()
    finally:
        server.close()


def tell(text: str) -> None:
    """A line for the administrator: on standard error, of a daemon in the system's log."""
    logging.getLogger("iostats").warning("%s", text)


def _names(config: site.Config) -> list[str]:
    """By which names it may be asked: this host's, as /etc/hosts has them, too."""
    host = os.uname().nodename.lower()
    found = ["localhost", config["collector.host"].lower(), host, host.partition(".")[0]]
    try:
        with open(_HOSTS, encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0].lower().split() for line in file.readlines(1 << 20)]
    except OSError:
        lines = []
    for words in lines:
        if len(words) > 1 and (not set(found).isdisjoint(words[1:]) or words[0] == "::1"
                               or words[0].startswith("127.")):
            found += words[1:]
    return list(dict.fromkeys(filter(None, [*found, *(
        name.lower() for name in config["collector.names"])])))


if __name__ == "__main__":
    sys.exit(main())
