"""
iostats collector: events for monitors, in the form of lustre-collector (2004).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from iostats.base import config as site
from iostats.base import logs
from iostats.base.errors import DONE
from iostats.cli import CONFIG, Options, flag, option
from iostats.cli.parser import parse_options, run_role
from iostats.collector import access, daemon
from iostats.collector.collector_server import CollectorServer, bound_sockets
from iostats.collector.daemon import Daemon
from iostats.collector.journal_of_events import EventsJournal
from iostats.collector.methods import Answers
from iostats.node import identity
from iostats.server import process
from iostats.server.http_server import bound_socket

if TYPE_CHECKING:
    import pwd
    from collections.abc import Iterable
    from typing import Any

    from iostats.collector.sources import EventSource
    from iostats.events.event import Event


class CollectorOptions(Options, help="""\
usage: iostats collector [options]

Serve the events of this machine, or of the whole site, to monitors: XML-RPC as
of lustre-collector (2004), the same by JSON-RPC, and GET /events as a stream,
on one port.  It runs on an MDS or OSS and needs no server; with --site it has
the events of the site's server.

It never runs as root: started by root it opens the kernel's log, then becomes
the user of [collector] user.

options:
{options}

examples:
  iostats collector
  iostats collector -p 8981 -h 10.0.5.1 -m 100
  iostats collector --site --daemon
  curl -N http://localhost:8980/events

exit status:
  0 it was ended by a signal, or the daemon listens   1 it cannot run here
  2 bad usage or site.cfg   3 the port is in use or not allowed
"""):
    port = option("-p, --port N", "listen on this port (default: site.cfg, 8980)")
    host = option("-h, --host HOST",
                  'listen at the addresses of HOST; "" for all (default: site.cfg, localhost).  '
                  "Allowed hosts: [collector] allow")
    maxtraps = option("-m, --maxtraps N",
                      "up to N events in an answer of getTraps (default: site.cfg, 250)")
    daemon = flag("-d, --daemon", "continue in the background, once it listens")
    filename = option("-f, --filename FILE", "read FILE instead of ~/.iostats/site.cfg")
    config = CONFIG
    site = flag("--site", "events of the site's server ([collector] events_of)")
    state_dir = option("--state-dir DIR",
                       'store events there for a restart; "": only in memory (default: site.cfg)')
    pid_file = option("--pid-file FILE", "of a daemon (default: site.cfg)")
    root = option("--root DIR", "read /dev/kmsg, /proc and /sys below DIR (for tests)")
    quiet = flag("--quiet", "no line when it listens")
    log_format = option("--log-format FORMAT",
                        "text, json or journal (default: text); of a daemon to the system log")

_HOSTS = "/etc/hosts"
log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Run the collector; the exit status."""
    return run_role(lambda: _run(parse_options(CollectorOptions, arguments)))


def _run(options: CollectorOptions) -> int:
    config = _load_config(options)
    user = daemon.find_daemon_user(config)
    allowed = access.parse_allowed(config)
    background = Daemon(site.find_state_path(config,
                                             "collector.pid_file")) if options.daemon else None
    logs.log_to_stderr(logging.WARNING if options.quiet else logging.INFO, options.log_format)
    status = background.begin() if background is not None else None
    if status is not None:
        return status
    try:
        return _collect(options, config, user, allowed, background)
    finally:
        if background is not None:
            background.end()


def _load_config(options: CollectorOptions) -> site.Config:
    config = site.load(options.config, users=options.filename)
    for key, value in (("port", options.port), ("host", options.host),
                       ("maxtraps", options.maxtraps), ("state_dir", options.state_dir),
                       ("pid_file", options.pid_file)):
        if value is not None:
            config.set_value(f"collector.{key}", value, f"--{key.replace('_', '-')}")
    if options.site:
        config.set_value("collector.events_of", "site", "--site")
    return config


def _collect(options: CollectorOptions, config: site.Config, user: pwd.struct_passwd | None,
             allowed: list[access.Network], background: Daemon | None) -> int:
    directory = site.find_state_path(config, "collector.state_dir")
    if directory:
        daemon.make_directory(directory, user)
    process.raise_limits(config)
    process.use_uvloop()                               # root's files may be closed to the user
    bound = bound_sockets(config.collector.host, config.collector.port, bound_socket)
    source, journal = None, None
    try:
        # With root's rights, if any: the kernel's log, or the site's secret.
        source = _open_source(config, options.root or "/", directory)
        daemon.become(user)
        journal = EventsJournal(directory, config.collector.keep, time.time, log.warning)
        answers = Answers(journal, source, config.collector.maxtraps, time.time)
        server = CollectorServer(journal, answers, allowed, _list_host_names(config),
                                 config.server.max_connections)
        asyncio.run(_serve(server, bound, source, journal, options, background))
    finally:
        if source is not None:
            source.close()
        if journal is not None:
            journal.close()
        for socket in bound:
            socket.close()
    return DONE


def _open_source(config: site.Config, root: str, directory: str) -> EventSource:
    node = identity.find_node_name()
    if config.collector.events_of == "site":
        from iostats.collector.sources import SiteSource
        return SiteSource(config, node, log.warning)
    from iostats.collector.sources import MachineSource
    from iostats.events.gather import Gathering
    boot_id, path = identity.read_boot_id(root), os.path.join(directory, "machine.state")
    gathering = Gathering(root, config, node, boot_id, path if directory else None)
    return MachineSource(gathering, root, node, boot_id, config.events.every, log.warning)


async def _serve(server: CollectorServer, bound: Any, source: EventSource, journal: EventsJournal,
                 options: CollectorOptions, background: Daemon | None) -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)

    def add_events(events: Iterable[Event], next: Any, numbering: str) -> None:
        server.notify(journal.add(events, next, numbering))
    await server.listen(bound)
    source.begin(loop, add_events, journal.next, journal.of)
    process.notify_systemd("READY=1")
    if background is not None:
        background.is_ready()
    elif not options.quiet:
        log.info("the collector of %s listens at %s", source.node,
                 ", ".join("{}:{}".format(*listener.getsockname()[:2])
                           for listener in bound))
    try:
        await stopped.wait()
    finally:
        server.close()


def _list_host_names(config: site.Config) -> list[str]:
    """The names of this host by which the collector is reached, including those in /etc/hosts."""
    host = os.uname().nodename.lower()
    names = ["localhost", config.collector.host.lower(), host, host.partition(".")[0]]
    try:
        with open(_HOSTS, encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0].lower().split() for line in file.readlines(1 << 20)]
    except OSError:
        lines = []
    for words in lines:
        if len(words) > 1 and (not set(names).isdisjoint(words[1:]) or words[0] == "::1"
                               or words[0].startswith("127.")):
            names += words[1:]
    return list(dict.fromkeys(filter(None, [*names, *(
        name.lower() for name in config.collector.names)])))


if __name__ == "__main__":
    sys.exit(main())
